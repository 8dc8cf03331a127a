//! What /proc says about processes that run: threads, names, mappings, and what the kernel itself counted for each
//! thread.
//!
//! Reading is best effort: a thread that ends meanwhile is simply not there. All parsing is on text, apart from
//! reading.

use std::fs;
use std::time::Duration;

use holdup_trace::{Counter, Event, Mapping, NO_CPU, Pid, ThreadUsage, Tid, What};
use rustc_hash::{FxHashMap, FxHashSet};

use super::machine;

/// The threads of a process now, ascending; empty if it is gone.
pub fn threads(pid: u32) -> Vec<u32> {
    let Ok(folder) = fs::read_dir(format!("/proc/{pid}/task")) else { return Vec::new() };
    let mut tids: Vec<u32> = folder.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect();
    tids.sort_unstable();
    tids
}

/// The processes that a process has started and that still run.
pub fn children(pid: u32) -> Vec<u32> {
    let of_thread = |tid| read(&format!("/proc/{pid}/task/{tid}/children")).unwrap_or_default();
    let numbers = |text: String| text.split_whitespace().filter_map(|word| word.parse().ok()).collect::<Vec<u32>>();
    threads(pid).into_iter().flat_map(|tid| numbers(of_thread(tid))).collect()
}

/// What is to be said of a process that was there before the recording: its threads, their names and usage, its
/// mappings.
pub fn of_process(pid: u32, time_ns: u64) -> Vec<Event> {
    let event = |tid, what| Event { time_ns, tid: Tid(tid), cpu: NO_CPU, what };
    let mut events = Vec::new();
    for tid in threads(pid) {
        events.push(event(tid, What::Started { pid: Pid(pid), parent: None }));
        if let Some(name) = name_of(tid) {
            events.push(event(tid, What::Named { name, exec: false }));
        }
    }
    events.extend(mappings_of(pid).into_iter().map(|map| event(pid, What::Mapped(Box::new(map)))));
    events
}

/// The executable memory of a process now.
pub fn mappings_of(pid: u32) -> Vec<Mapping> {
    read(&format!("/proc/{pid}/maps")).map(|text| mappings(&text, Pid(pid))).unwrap_or_default()
}

/// The name of a thread now. It can hold any bytes: what is not UTF-8 is replaced.
pub fn name_of(tid: u32) -> Option<Box<str>> {
    let text = read(&format!("/proc/{tid}/task/{tid}/comm"))?;
    Some(text.strip_suffix('\n').unwrap_or(&text).into())
}

/// What the kernel counted for a thread until now.
pub fn usage_of(tid: u32) -> Option<ThreadUsage> {
    let of = |file: &str| read(&format!("/proc/{tid}/task/{tid}/{file}"));
    usage(&of("stat")?, &of("status")?, of("schedstat").as_deref(), tick())
}

/// The number by which a thread knows itself, in the innermost namespace of processes that it is in: what a lock of its
/// has as owner. The same as `tid` outside of containers.
pub fn inner_tid(tid: u32) -> Option<u32> {
    innermost(&read(&format!("/proc/{tid}/task/{tid}/status"))?)
}

/// The recorder's number of a thread of a process that knows itself by this one: in a container, it has its own.
pub fn outer_tid(pid: u32, number: u32) -> Option<u32> {
    let threads = threads(pid);
    let inside = inner_tid(pid).is_some_and(|inner| inner != pid);
    if !inside {
        return threads.contains(&number).then_some(number);
    }
    threads.into_iter().find(|tid| *tid == number || inner_tid(*tid) == Some(number))
}

/// Gives the usage of the target's threads from time to time: the first and the last of each, and those between.
#[derive(Debug, Default)]
pub struct Usages {
    last: FxHashMap<u32, ThreadUsage>,
    next: usize,
}

impl Usages {
    /// Threads that are looked at in one call, so that the recorder never stays away from its rings for long: some 10
    /// ms.
    const PORTION: usize = 256;

    /// Nothing was looked at yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Looks at these threads, which should be all that live, and gives what has changed since they were looked at. Of
    /// very many, each call takes its portion in turn.
    pub fn sample(&mut self, alive: &[u32]) -> Vec<Event> {
        // Each has its own time: the watcher may have to wait for a CPU between two.
        self.sample_with(alive, |tid| Some((usage_of(tid)?, machine::now_ns())))
    }

    fn sample_with(&mut self, alive: &[u32], usage_of: impl Fn(u32) -> Option<(ThreadUsage, u64)>) -> Vec<Event> {
        let mut events = Vec::new();
        let start = self.next.checked_rem(alive.len()).unwrap_or(0);
        for &tid in alive.iter().cycle().skip(start).take(alive.len().min(Self::PORTION)) {
            let Some((usage, time_ns)) = usage_of(tid) else { continue };
            if self.last.insert(tid, usage) != Some(usage) {
                let what = What::Usage(Box::new(usage));
                events.push(Event { time_ns, tid: Tid(tid), cpu: NO_CPU, what });
            }
        }
        self.next = start + Self::PORTION.min(alive.len());
        if self.last.len() > 2 * alive.len() + Self::PORTION {
            let alive: FxHashSet<u32> = alive.iter().copied().collect();
            self.last.retain(|tid, _| alive.contains(tid));
        }
        events
    }
}

/// Calls that read or write, and the bytes that they moved, of processes that were looked at; also of those that have
/// ended since.
#[derive(Debug, Default)]
pub struct Transfers {
    last: FxHashMap<u32, [u64; 2]>,
    ended: [u64; 2],
}

impl Transfers {
    /// Looks at these processes.
    pub fn sample(&mut self, pids: &[u32]) -> Vec<Event> {
        let seen = pids.iter().filter_map(|pid| Some((*pid, transfers(&read(&format!("/proc/{pid}/io"))?)?)));
        let is_any = !self.last.is_empty() || !pids.is_empty();
        self.last.extend(seen);
        let ended = &mut self.ended;
        self.last.retain(|pid, counts| {
            let lives = pids.contains(pid);
            if !lives {
                *ended = [ended[0] + counts[0], ended[1] + counts[1]];
            }
            lives
        });
        let sum = |index: usize| self.ended[index] + self.last.values().map(|counts| counts[index]).sum::<u64>();
        let time_ns = machine::now_ns();
        let totals = [(Counter::TransferCalls, sum(0)), (Counter::TransferBytes, sum(1))];
        totals.into_iter().filter(|_| is_any).map(|(counter, value)| Event::total(time_ns, counter, value)).collect()
    }
}

/// Calls and bytes in the text of /proc/PID/io.
fn transfers(text: &str) -> Option<[u64; 2]> {
    let number = |name: &str| -> Option<u64> {
        text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": ")?.parse().ok())
    };
    Some([number("syscr")? + number("syscw")?, number("rchar")? + number("wchar")?])
}

/// Text of a file of /proc; bytes that are not UTF-8, as names can have, are replaced.
pub fn read(path: &str) -> Option<String> {
    fs::read(path).ok().map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}

/// The unit of times in /proc/PID/stat.
fn tick() -> Duration {
    // SAFETY: asks for a number.
    let per_second = unsafe { libc::sysconf(libc::_SC_CLK_TCK) };
    Duration::from_secs(1) / u32::try_from(per_second).ok().filter(|n| *n > 0).unwrap_or(100)
}

/// The executable mappings in the text of /proc/PID/maps. Anonymous ones are named `//anon`, as the kernel's own
/// records do.
fn mappings(text: &str, pid: Pid) -> Vec<Mapping> {
    text.lines().filter_map(|line| mapping(line, pid)).collect()
}

fn mapping(line: &str, pid: Pid) -> Option<Mapping> {
    let Mapped { start, end, may, offset, path } = Mapped::read(line)?;
    (may.as_bytes().get(2) == Some(&b'x')).then_some(Mapping {
        pid,
        start,
        len: end.checked_sub(start)?,
        offset,
        path: if path.is_empty() { "//anon".into() } else { without_escapes(path).into() },
        build_id: None,
    })
}

/// A line of /proc/PID/maps: the range, what may be done there, the offset in the file, and its path, which is empty of
/// what is no file.
#[derive(Debug)]
pub struct Mapped<'a> {
    pub start: u64,
    pub end: u64,
    pub may: &'a str,
    pub offset: u64,
    pub path: &'a str,
}

impl<'a> Mapped<'a> {
    /// `None` of what is no such line.
    pub fn read(line: &'a str) -> Option<Mapped<'a>> {
        let (range, rest) = line.split_once(' ')?;
        let (may, rest) = rest.split_once(' ')?;
        let (offset, rest) = rest.split_once(' ')?;
        let (_device, rest) = rest.split_once(' ')?;
        // Without a path, the line ends after the inode.
        let (_inode, path) = rest.split_once(' ').unwrap_or((rest, ""));
        let (start, end) = range.split_once('-')?;
        let hex = |text: &str| u64::from_str_radix(text, 16).ok();
        let path = path.trim_start_matches(' ');
        Some(Mapped { start: hex(start)?, end: hex(end)?, may, offset: hex(offset)?, path })
    }

    /// The last part of the path, of a file that is there no more too.
    pub fn file(&self) -> &'a str {
        let path = self.path.strip_suffix(" (deleted)").unwrap_or(self.path);
        path.rsplit('/').next().unwrap_or(path)
    }
}

/// The kernel writes a line end in a path as `\012`.
pub fn without_escapes(path: &str) -> String {
    path.replace("\\012", "\n")
}

/// The fields of /proc/TID/stat that are of use.
#[derive(Debug, PartialEq, Eq)]
struct Stat {
    user_ticks: u64,
    kernel_ticks: u64,
    priority: i32,
}

/// The letter of a thread's state in the text of its `stat`.
pub fn state(text: &str) -> Option<char> {
    text.rsplit_once(") ")?.1.chars().next()
}

/// Fields are counted from behind the name, which can hold anything, brackets and line ends too.
fn stat(text: &str) -> Option<Stat> {
    let (_, fields) = text.rsplit_once(") ")?;
    let mut fields = fields.split_ascii_whitespace();
    // The state is field 3 of proc(5), utime is 14, stime 15, priority 18, policy 41.
    let user_ticks = fields.nth(11)?.parse().ok()?;
    let kernel_ticks = fields.next()?.parse().ok()?;
    let priority: i32 = fields.nth(2)?.parse().ok()?;
    let idles = fields.nth(22).and_then(|policy| policy.parse().ok()) == Some(libc::SCHED_IDLE);
    let priority = if idles { ThreadUsage::IDLE_PRIORITY } else { priority };
    Some(Stat { user_ticks, kernel_ticks, priority })
}

/// The value of a line of /proc/TID/status. Names stand in the first line, with line ends written as `\n`, so no name
/// can pretend.
fn status<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':')).map(str::trim)
}

fn innermost(text: &str) -> Option<u32> {
    status(text, "NSpid")?.split_ascii_whitespace().last()?.parse().ok()
}

fn usage(stat_text: &str, status_text: &str, schedstat: Option<&str>, tick: Duration) -> Option<ThreadUsage> {
    let stat = stat(stat_text)?;
    let count = |key| status(status_text, key)?.parse().ok();
    let tick_ns = tick.as_nanos() as u64;
    let coarse = [stat.user_ticks.checked_mul(tick_ns)?, stat.kernel_ticks.checked_mul(tick_ns)?];
    let [user_ns, kernel_ns] = refined(coarse, schedstat.and_then(cpu_ns));
    let (allowed_cpus, first_cpu) = status(status_text, "Cpus_allowed_list").and_then(cpu_list).unwrap_or_default();
    Some(ThreadUsage {
        voluntary: count("voluntary_ctxt_switches")?,
        involuntary: count("nonvoluntary_ctxt_switches")?,
        user_ns,
        kernel_ns,
        priority: stat.priority,
        allowed_cpus,
        first_cpu,
    })
}

/// How many CPUs a list such as `0-2,5` has, and the first.
fn cpu_list(list: &str) -> Option<(u32, u32)> {
    let ranges = list.split(',').map(|range| {
        let (from, to) = range.split_once('-').unwrap_or((range, range));
        let (from, to) = (from.parse::<u32>().ok()?, to.parse::<u32>().ok()?);
        Some((from, to.checked_sub(from)?.checked_add(1)?))
    });
    let ranges: Vec<(u32, u32)> = ranges.collect::<Option<_>>()?;
    let count = ranges.iter().try_fold(0_u32, |sum, (_, cpus)| sum.checked_add(*cpus))?;
    Some((count, ranges.iter().map(|(from, _)| *from).min()?))
}

/// The CPU time in /proc/TID/schedstat, which is exact but does not tell user from kernel.
fn cpu_ns(schedstat: &str) -> Option<u64> {
    schedstat.split_ascii_whitespace().next()?.parse().ok()
}

/// The exact sum, split as the coarse figures say; all of it as user time if they say nothing yet.
fn refined([user, kernel]: [u64; 2], exact: Option<u64>) -> [u64; 2] {
    let Some(exact) = exact else { return [user, kernel] };
    let sum = u128::from(user) + u128::from(kernel);
    let kernel = (u128::from(exact) * u128::from(kernel)).checked_div(sum).unwrap_or(0) as u64;
    [exact - kernel, kernel]
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAT: &str = "4711 (a) b (c\n) S 1 4711 4711 0 -1 4194560 120 0 1 0 250 50 7 8 20 0 3 0 99 0 0";
    const STATUS: &str = "Name:\ta) b (c\\n\nState:\tS (sleeping)\nTgid:\t4711\nNSpid:\t4711\t17\t3\n\
        Cpus_allowed_list:\t1,4-6\n\
        voluntary_ctxt_switches:\t150\nnonvoluntary_ctxt_switches:\t7\n";
    const TICK: Duration = Duration::from_millis(10);

    #[test]
    fn a_name_can_hold_anything() {
        assert_eq!(stat(STAT), Some(Stat { user_ticks: 250, kernel_ticks: 50, priority: 20 }));
        let idle = format!("{STAT}{} 5", " 0".repeat(16));
        assert_eq!(stat(&idle).map(|stat| stat.priority), Some(ThreadUsage::IDLE_PRIORITY));
        assert_eq!(state(STAT), Some('S'));
        assert_eq!(innermost(STATUS), Some(3));
    }

    #[test]
    fn usage_is_put_together_from_three_files() {
        let usage_of = |exact| usage(STAT, STATUS, exact, TICK).unwrap();
        let coarse = ThreadUsage {
            voluntary: 150,
            involuntary: 7,
            user_ns: 2_500_000_000,
            kernel_ns: 500_000_000,
            priority: 20,
            allowed_cpus: 4,
            first_cpu: 1,
        };
        assert_eq!(usage_of(None), coarse);
        assert_eq!(
            usage_of(Some("3000000600 12 34\n")),
            ThreadUsage { user_ns: 2_500_000_500, kernel_ns: 500_000_100, ..coarse }
        );
        assert_eq!(refined([0, 0], Some(77)), [77, 0]);
        assert_eq!(refined([u64::MAX, u64::MAX], Some(u64::MAX)), [u64::MAX - u64::MAX / 2, u64::MAX / 2]);
    }

    #[test]
    fn a_list_of_cpus_is_counted() {
        assert_eq!(cpu_list("0-15"), Some((16, 0)));
        assert_eq!(cpu_list("3"), Some((1, 3)));
        for wrong in ["", "a", "1-", "3-1", "0-4294967295", "0-4294967294,1-4"] {
            assert_eq!(cpu_list(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_part_of_a_file_gives_nothing_and_no_panic() {
        for end in 0..STAT.len() {
            stat(&STAT[..end]);
        }
        for end in 0..STATUS.len() {
            assert!(end > STATUS.len() - 3 || usage(STAT, &STATUS[..end], None, TICK).is_none(), "{end}");
        }
        assert_eq!(usage(&STAT.replace("250", "99999999999999999999"), STATUS, None, TICK), None);
        assert_eq!(usage(&STAT.replace("250", "9999999999999999999"), STATUS, None, TICK), None);
    }

    #[test]
    fn executable_mappings_have_their_path_whatever_is_in_it() {
        let text = "\
555500000000-555500001000 r--p 00000000 fe:00 12 /usr/bin/a
555500001000-555500003000 r-xp 00001000 fe:00 12                         /usr/bin/a  b\\012c (deleted)
7f0000000000-7f0000001000 rwxp 00000000 00:00 0 
7ffff7fc1000-7ffff7fc3000 r-xp 00000000 00:00 0                          [vdso]
nonsense
2-1 r-xp 0 0 0 /x
";
        let maps = mappings(text, Pid(9));
        let paths: Vec<&str> = maps.iter().map(|map| &*map.path).collect();
        assert_eq!(paths, ["/usr/bin/a  b\nc (deleted)", "//anon", "[vdso]"]);
        let map = Mapping { path: "".into(), ..maps[0].clone() };
        let expected = Mapping {
            pid: Pid(9),
            start: 0x5555_0000_1000,
            len: 0x2000,
            offset: 0x1000,
            path: "".into(),
            build_id: None,
        };
        assert_eq!(map, expected);
    }

    #[test]
    fn this_process_is_there() {
        let pid = std::process::id();
        let events = of_process(pid, 5);
        assert!(events.iter().any(|event| event.tid == Tid(pid) && matches!(event.what, What::Started { .. })));
        assert!(events.iter().any(|event| matches!(&event.what, What::Mapped(map) if map.path.contains("holdup"))));
        assert!(events.iter().any(|event| matches!(&event.what, What::Named { .. })));
        assert!(usage_of(pid).is_some());
        assert!(inner_tid(pid).is_some());
        assert_eq!(of_process(u32::MAX, 5), []);
    }

    #[test]
    fn usages_are_given_when_they_change_and_all_threads_have_their_turn() {
        let alive: Vec<u32> = (1..=600).collect();
        let mut usages = Usages::new();
        let mut seen = Vec::new();
        for round in 0..3 {
            let events = usages.sample_with(&alive, |tid| {
                let usage = ThreadUsage { voluntary: tid.into(), ..ThreadUsage::default() };
                (tid != 7).then_some((usage, round))
            });
            seen.extend(events.iter().map(|event| event.tid.0));
        }
        seen.sort_unstable();
        assert_eq!(seen, (1..=600).filter(|tid| *tid != 7).collect::<Vec<_>>());
        assert_eq!(usages.sample_with(&alive, |_| None), []);
        assert_eq!(usages.sample_with(&[], |_| None), []);
    }

    #[test]
    fn threads_that_have_come_and_gone_are_forgotten() {
        let mut usages = Usages::new();
        for first in (0..100_000).step_by(10) {
            let alive: Vec<u32> = (first..first + 20).collect();
            usages.sample_with(&alive, |tid| {
                let usage = ThreadUsage { voluntary: tid.into(), ..ThreadUsage::default() };
                Some((usage, 1))
            });
            assert!(usages.last.len() <= 2 * alive.len() + Usages::PORTION, "{}", usages.last.len());
        }
    }
}
