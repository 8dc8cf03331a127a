//! The limit on CPU time that a control group has, a container's or a service's, and how often it stopped who is in it.
//!
//! Of both versions of control groups. A group is held to the limits of those that it is in as well: the tightest
//! counts.

use std::path::{Path, PathBuf};

use holdup_trace::{Counter, Event};

use super::{family, machine, snapshot};

/// Where groups of version 1 may be mounted, by the name of the controller.
const OF_ONE: [&str; 2] = ["/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpu,cpuacct"];

/// Of so many processes the group is asked: those that belong together are mostly in one.
const ASKED: usize = 4;

/// What a group's limit has done to its threads since the first look.
#[derive(Debug, Default)]
pub struct Quota {
    began: Option<Began>,
}

#[derive(Debug)]
struct Began {
    folder: PathBuf,
    time_ns: u64,
    periods: Periods,
    /// CPU time that it might have had until the last look.
    allowed_ns: u64,
}

/// What the kernel counts while threads of the group can run: spans in which the group may use so much CPU time, and in
/// how many of them it had used it up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Periods {
    all: u64,
    throttled: u64,
}

impl Quota {
    /// Looks at the group of the first of these processes that is in one with a limit; at the same group ever after.
    pub fn sample(&mut self, pids: &[u32]) -> Vec<Event> {
        let now_ns = machine::now_ns();
        if self.began.is_none() {
            let mut asked = pids.iter().take(ASKED);
            let limited = asked.find_map(|pid| tightest(&snapshot::read(&format!("/proc/{pid}/cgroup"))?));
            self.began = limited.and_then(|folder| {
                let periods = periods(&read(&folder, "cpu.stat")?)?;
                Some(Began { folder, time_ns: now_ns, periods, allowed_ns: 0 })
            });
        }
        let Some(began) = &mut self.began else { return Vec::new() };
        let Some((share, now)) = share(&began.folder).zip(read(&began.folder, "cpu.stat").as_deref().and_then(periods))
        else {
            return Vec::new();
        };
        began.allowed_ns += (share * now_ns.saturating_sub(began.time_ns) as f64) as u64;
        began.time_ns = now_ns;
        let counts = [
            (Counter::QuotaNs, began.allowed_ns),
            (Counter::QuotaPeriods, now.all.saturating_sub(began.periods.all)),
            (Counter::ThrottledPeriods, now.throttled.saturating_sub(began.periods.throttled)),
        ];
        counts.map(|(counter, value)| Event::total(now_ns, counter, value)).into()
    }
}

/// Of the group that the text of /proc/PID/cgroup names, and of those that it is in, the one with the tightest limit.
fn tightest(groups: &str) -> Option<PathBuf> {
    let limited = groups.lines().flat_map(folders).filter_map(|folder| Some((share(&folder)?, folder)));
    limited.min_by(|(one, _), (other, _)| one.total_cmp(other)).map(|(_, folder)| folder)
}

/// The folders that a line of /proc/PID/cgroup may stand for: the group's, and of those that it is in.
fn folders(line: &str) -> Vec<PathBuf> {
    let mut parts = line.splitn(3, ':');
    let (Some(_), Some(controllers), Some(path)) = (parts.next(), parts.next(), parts.next()) else {
        return Vec::new();
    };
    let roots = match controllers {
        "" => family::GROUPS,
        _ if controllers.split(',').any(|one| one == "cpu") => OF_ONE,
        _ => return Vec::new(),
    };
    let path = Path::new(path.trim_start_matches('/'));
    roots.iter().flat_map(|root| path.ancestors().map(|group| Path::new(root).join(group))).collect()
}

/// How many CPUs a group may use on average, if that is limited.
fn share(folder: &Path) -> Option<f64> {
    let of_two = || {
        let text = read(folder, "cpu.max")?;
        let (quota, period) = text.trim().split_once(' ')?;
        Some((quota.parse().ok()?, period.parse().ok()?))
    };
    let of_one = || {
        let number = |file| read(folder, file)?.trim().parse::<f64>().ok();
        Some((number("cpu.cfs_quota_us")?, number("cpu.cfs_period_us")?))
    };
    let (quota, period): (f64, f64) = of_two().or_else(of_one)?;
    (quota > 0.0 && period > 0.0).then_some(quota / period)
}

/// What the text of a group's cpu.stat counts.
fn periods(text: &str) -> Option<Periods> {
    let number = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok());
    Some(Periods { all: number("nr_periods ")?, throttled: number("nr_throttled ")? })
}

fn read(folder: &Path, file: &str) -> Option<String> {
    std::fs::read_to_string(folder.join(file)).ok()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use holdup_trace::What;

    use super::*;

    #[test]
    fn limits_of_both_versions_are_read() {
        let folder = tempfile::tempdir().expect("a folder");
        let write = |file: &str, text: &str| fs::write(folder.path().join(file), text).expect("written");
        assert_eq!(share(folder.path()), None);
        write("cpu.cfs_quota_us", "-1\n");
        write("cpu.cfs_period_us", "100000\n");
        assert_eq!(share(folder.path()), None, "no limit");
        write("cpu.cfs_quota_us", "50000\n");
        assert_eq!(share(folder.path()), Some(0.5));
        write("cpu.max", "max 100000\n");
        assert_eq!(share(folder.path()), Some(0.5));
        write("cpu.max", "150000 100000\n");
        assert_eq!(share(folder.path()), Some(1.5));
        assert_eq!(
            periods("usage_usec 7\nnr_periods 12\nnr_throttled 3\nthrottled_usec 9\n"),
            Some(Periods { all: 12, throttled: 3 })
        );
        assert_eq!(periods("usage_usec 7\n"), None, "the root of version 2 has none");
    }

    #[test]
    fn a_group_is_in_others() {
        let of = |line| folders(line).iter().map(|folder| folder.display().to_string()).collect::<Vec<_>>();
        assert_eq!(of("3:cpuset:/a"), Vec::<String>::new());
        assert_eq!(
            of("1:cpu,cpuacct:/a/b")[..3],
            ["/sys/fs/cgroup/cpu/a/b", "/sys/fs/cgroup/cpu/a", "/sys/fs/cgroup/cpu/"]
        );
        assert_eq!(of("0::/")[..1], ["/sys/fs/cgroup/"]);
    }

    #[test]
    fn a_limit_counts_from_the_first_look() {
        let folder = tempfile::tempdir().expect("a folder");
        let write = |file: &str, text: &str| fs::write(folder.path().join(file), text).expect("written");
        write("cpu.max", "50000 100000\n");
        write("cpu.stat", "nr_periods 12\nnr_throttled 3\n");
        let began = Began {
            folder: folder.path().into(),
            time_ns: machine::now_ns(),
            periods: Periods { all: 10, throttled: 3 },
            allowed_ns: 7,
        };
        let mut quota = Quota { began: Some(began) };
        let counts = |events: Vec<Event>| {
            let value = |event: &Event| match event.what {
                What::Count { counter, value } => Some((counter, value)),
                _ => None,
            };
            events.iter().filter_map(value).collect::<Vec<_>>()
        };
        let seen = counts(quota.sample(&[]));
        assert!(matches!(seen[0], (Counter::QuotaNs, 7..)), "{seen:?}");
        assert_eq!(seen[1..], [(Counter::QuotaPeriods, 2), (Counter::ThrottledPeriods, 0)]);
        assert_eq!(counts(Quota::default().sample(&[])), [], "nobody, no group");
    }
}
