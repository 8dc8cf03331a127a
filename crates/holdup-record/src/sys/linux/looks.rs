//! Looks at the target's threads from outside, again and again: in which call one is blocked, and on which file. It is
//! the only way for an ordinary user to know what a thread waits for that is in none of the calls that have an event.
//!
//! Reading needs the right to trace the process, which children grant and others may not; without it nothing is seen,
//! and nothing else changes.

use std::collections::VecDeque;
use std::time::Duration;
use std::{fs, io};

use holdup_trace::{Blocked, CallNumber, Capabilities, Event, NO_CPU, Stack, StackId, Tid, What};
use rustc_hash::FxHashSet;

use super::allowance::Allowance;
use super::blocked::{self, Call};
use super::still::Still;
use super::words::REFUSED;
use super::{machine, plan, snapshot};

/// What /proc shows; a seam for tests.
pub trait Proc {
    /// The threads of a process now.
    fn threads(&self, pid: u32) -> Vec<u32>;
    /// A file of a thread's folder.
    fn read(&self, pid: u32, tid: u32, name: &str) -> io::Result<String>;
    /// What a descriptor of a thread stands for.
    fn descriptor(&self, pid: u32, tid: u32, number: u64) -> io::Result<String>;
    /// The recording's clock.
    fn now_ns(&self) -> u64;
    /// CPU time that the calling thread used so far.
    fn cpu_ns(&self) -> u64;
    /// The stack of a thread, by the text of its `syscall`.
    fn still(&self, pid: u32, text: &str) -> Option<Still>;
}

/// What was seen, as an event, with the stack of the thread if it is known.
#[derive(Clone, Debug)]
pub struct Seen {
    /// The event, whose stack has no number yet.
    pub event: Event,
    /// The stack.
    pub still: Option<Still>,
    /// Of tasks, the stacks of their groups: instruction and return addresses, innermost first; empty where unknown.
    pub chains: Vec<Vec<u64>>,
}

impl Seen {
    /// Gives the stacks of tasks their numbers.
    pub fn number_chains(&mut self, mut number: impl FnMut(&Stack) -> StackId) {
        let What::Tasks(tasks) = &mut self.event.what else { return };
        for (group, chain) in tasks.groups.iter_mut().zip(std::mem::take(&mut self.chains)) {
            group.stack = (!chain.is_empty()).then(|| number(&Stack { user: chain, ..Stack::default() }));
        }
    }
}

impl From<Event> for Seen {
    fn from(event: Event) -> Seen {
        Seen { event, still: None, chains: Vec::new() }
    }
}

/// Looks at threads in turn, for a hundredth of a CPU.
#[derive(Debug)]
pub struct Looks<P> {
    proc: P,
    capabilities: Capabilities,
    /// Threads whose turn comes, by process and thread.
    turns: VecDeque<(u32, u32)>,
    /// Processes that do not let themselves be looked at.
    refused: FxHashSet<u32>,
    allowance: Allowance,
}

/// How often to look, for all threads to be seen so often if there is CPU time for it.
pub const ROUND: Duration = Duration::from_millis(10);
/// The part of a CPU that looks may take.
const ONE_IN: u64 = 100;
/// What is saved up for the next looks at most: a few of them.
const SAVED: Duration = Duration::from_micros(200);

impl<P: Proc> Looks<P> {
    /// Nothing was looked at yet; the capabilities say of what there are events.
    pub fn new(proc: P, capabilities: Capabilities) -> Self {
        let (turns, refused) = (VecDeque::new(), FxHashSet::default());
        Looks { proc, capabilities, turns, refused, allowance: Allowance::new(ONE_IN, SAVED) }
    }

    /// Looks at threads of these processes as long as there is CPU time for it. Gives those that were blocked to `see`,
    /// each at once, so that none comes late.
    pub fn look(&mut self, pids: &[u32], see: &mut impl FnMut(Seen)) {
        let mut used_ns = self.proc.cpu_ns();
        self.allowance.earn(self.proc.now_ns());
        if self.allowance.is_left() && self.turns.is_empty() {
            self.turns.extend(
                pids.iter()
                    .filter(|pid| !self.refused.contains(pid))
                    .flat_map(|&pid| self.proc.threads(pid).into_iter().map(move |tid| (pid, tid))),
            );
        }
        while self.allowance.is_left()
            && let Some((pid, tid)) = self.turns.pop_front()
        {
            // What is found is told of the moment before it was looked for: a thread that has just left the CPU is told
            // of at its next look, and not of one that runs.
            let time_ns = self.proc.now_ns();
            if let Some((found, still)) = self.look_at(pid, tid) {
                let event = Event { time_ns, tid: Tid(tid), cpu: NO_CPU, what: What::Blocked(Box::new(found)) };
                see(Seen { event, still, chains: Vec::new() });
            }
            let total_ns = self.proc.cpu_ns();
            self.allowance.spend(total_ns.saturating_sub(used_ns));
            used_ns = total_ns;
        }
    }

    /// How a thread is blocked, if it is and its events do not say so.
    fn look_at(&mut self, pid: u32, tid: u32) -> Option<(Blocked, Option<Still>)> {
        if self.refused.contains(&pid) {
            return None;
        }
        let text = match self.proc.read(pid, tid, "syscall") {
            Err(why) if why.kind() == io::ErrorKind::PermissionDenied => {
                if self.refused.len() > REFUSED {
                    self.refused.clear();
                }
                self.refused.insert(pid);
                return None;
            }
            // A thread that has ended.
            Err(_) => return None,
            Ok(text) => text,
        };
        let (nr, addr) = match blocked::call(&text)? {
            Call::In(nr, [addr, ..]) => (Some(nr), addr),
            Call::Outside => (None, 0),
        };
        let on_file = nr.is_some_and(is_about_descriptor);
        if nr.is_some_and(|nr| plan::has_event(nr, self.capabilities.futexes, self.capabilities.calls)) && !on_file {
            return None;
        }
        let read = |name| self.proc.read(pid, tid, name).ok();
        let wchan = read("wchan").map(|name| name.trim_end().into());
        let deep = match snapshot::state(&read("stat")?)? {
            'S' => false,
            'D' | 'I' => true,
            // It runs again, was stopped, or has ended.
            _ => return None,
        };
        let file = on_file.then(|| self.proc.descriptor(pid, tid, addr).ok()).flatten();
        let found = Blocked { nr, wchan, file: file.map(Into::into), deep, addr, stack: None };
        if self.capabilities.switch_reasons {
            // Every switch has its stack.
            return Some((found, None));
        }
        // What was read is the stack of this wait if the thread is still in it.
        let still = self.proc.still(pid, &text).filter(|_| read("syscall").is_some_and(|now| now == text));
        Some((found, still))
    }
}

/// Whether a call's first argument is the descriptor that it works on, other than calls that wait for several.
pub fn is_about_descriptor(nr: CallNumber) -> bool {
    const CALLS: &[libc::c_long] = &[
        libc::SYS_read,
        libc::SYS_write,
        libc::SYS_pread64,
        libc::SYS_pwrite64,
        libc::SYS_readv,
        libc::SYS_writev,
        libc::SYS_preadv,
        libc::SYS_pwritev,
        libc::SYS_preadv2,
        libc::SYS_pwritev2,
        libc::SYS_close,
        libc::SYS_lseek,
        libc::SYS_ioctl,
        libc::SYS_fcntl,
        libc::SYS_flock,
        libc::SYS_fsync,
        libc::SYS_fdatasync,
        libc::SYS_syncfs,
        libc::SYS_sync_file_range,
        libc::SYS_ftruncate,
        libc::SYS_fallocate,
        libc::SYS_readahead,
        libc::SYS_fadvise64,
        libc::SYS_fstat,
        libc::SYS_getdents64,
        libc::SYS_sendfile,
        libc::SYS_splice,
        libc::SYS_tee,
        libc::SYS_vmsplice,
        libc::SYS_copy_file_range,
        libc::SYS_accept,
        libc::SYS_accept4,
        libc::SYS_connect,
        libc::SYS_shutdown,
        libc::SYS_sendto,
        libc::SYS_recvfrom,
        libc::SYS_sendmsg,
        libc::SYS_recvmsg,
        libc::SYS_sendmmsg,
        libc::SYS_recvmmsg,
        libc::SYS_mq_timedsend,
        libc::SYS_mq_timedreceive,
    ];
    CALLS.contains(&nr.0.into())
}

/// The real /proc.
#[derive(Clone, Copy, Debug)]
pub struct Linux;

impl Proc for Linux {
    fn threads(&self, pid: u32) -> Vec<u32> {
        snapshot::threads(pid)
    }

    fn read(&self, pid: u32, tid: u32, name: &str) -> io::Result<String> {
        let bytes = fs::read(format!("/proc/{pid}/task/{tid}/{name}"))?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    fn descriptor(&self, pid: u32, tid: u32, number: u64) -> io::Result<String> {
        let path = fs::read_link(format!("/proc/{pid}/task/{tid}/fd/{number}"))?;
        Ok(path.to_string_lossy().into_owned())
    }

    fn now_ns(&self) -> u64 {
        machine::now_ns()
    }

    fn cpu_ns(&self) -> u64 {
        machine::thread_cpu_ns()
    }

    fn still(&self, pid: u32, text: &str) -> Option<Still> {
        blocked::still(pid, text)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use rustc_hash::FxHashMap;

    use super::*;

    /// Threads 1 to 4 of process 1 and thread 9 of process 9, each with its files; every file costs 30 us to read.
    #[derive(Default)]
    struct Fake {
        files: FxHashMap<(u32, &'static str), &'static str>,
        clocks: RefCell<(u64, u64)>,
        read: RefCell<Vec<(u32, String)>>,
    }

    impl Proc for &Fake {
        fn threads(&self, pid: u32) -> Vec<u32> {
            if pid == 1 { vec![1, 2, 3, 4] } else { vec![pid] }
        }

        fn read(&self, pid: u32, tid: u32, name: &str) -> io::Result<String> {
            let mut clocks = self.clocks.borrow_mut();
            *clocks = (clocks.0 + 30_000, clocks.1 + 30_000);
            self.read.borrow_mut().push((tid, name.into()));
            if pid == 9 {
                return Err(io::ErrorKind::PermissionDenied.into());
            }
            let found = self.files.iter().find(|((of, key), _)| *of == tid && *key == name);
            Ok((*found.ok_or(io::ErrorKind::NotFound)?.1).into())
        }

        fn descriptor(&self, _pid: u32, tid: u32, number: u64) -> io::Result<String> {
            self.read(1, tid, if number == 3 { "fd/3" } else { "fd/?" })
        }

        fn now_ns(&self) -> u64 {
            self.clocks.borrow().0
        }

        fn cpu_ns(&self) -> u64 {
            self.clocks.borrow().1
        }

        fn still(&self, _: u32, _: &str) -> Option<Still> {
            None
        }
    }

    impl Fake {
        fn with(files: &[(u32, &'static str, &'static str)]) -> Self {
            let files = files.iter().map(|(tid, name, text)| ((*tid, *name), *text)).collect();
            Fake { files, ..Fake::default() }
        }

        fn pass(&self, ns: u64) {
            self.clocks.borrow_mut().0 += ns;
        }
    }

    const EVENTS: Capabilities = Capabilities {
        futexes: true,
        calls: true,
        switches: true,
        switch_reasons: false,
        wakings: false,
        foreign_wakings: false,
        samples: false,
        kernel: false,
        faults: false,
        lock_words: false,
        hardware: false,
    };

    fn seen(looks: &mut Looks<&Fake>, pids: &[u32]) -> Vec<(u32, Blocked)> {
        let mut found = Vec::new();
        looks.look(pids, &mut |seen| {
            let What::Blocked(blocked) = seen.event.what else { panic!("{seen:?}") };
            found.push((seen.event.tid.0, *blocked));
        });
        found
    }

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn what_threads_are_blocked_in_is_put_together_from_their_files() {
        let fake = Fake::with(&[
            (1, "syscall", "0 0x3 0x7ffd 0x1 0x0 0x0 0x0 0x7ffd 0x7f12\n"),
            (1, "wchan", "anon_pipe_read"),
            (1, "stat", "1 (a) b) S 1 1"),
            (1, "fd/3", "pipe:[4711]"),
            (2, "syscall", "running\n"),
            (3, "syscall", "202 0x7f00 0x189 0x2 0x0 0x0 0x0 0x7ffd 0x7f12\n"),
            (4, "syscall", "-1 0x7ffd 0x7f12\n"),
            (4, "wchan", "0"),
            (4, "stat", "4 (b) D 1 1"),
        ]);
        let mut looks = Looks::new(&fake, EVENTS);
        let found = seen(&mut looks, &[1]);
        let in_read = Blocked {
            nr: Some(CallNumber(0)),
            wchan: Some("anon_pipe_read".into()),
            file: Some("pipe:[4711]".into()),
            deep: false,
            addr: 3,
            stack: None,
        };
        let outside = Blocked { wchan: Some("0".into()), deep: true, ..Blocked::default() };
        assert_eq!(found, [(1, in_read), (4, outside)]);
        // Futex calls have events, and a running thread has nothing more to say.
        let read = fake.read.borrow();
        assert!(read.iter().all(|(tid, name)| name == "syscall" || [1, 4].contains(tid)), "{read:?}");
    }

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn calls_that_have_events_are_looked_at_for_their_file_alone_or_if_they_have_none() {
        let looked = |call: &'static str, capabilities| {
            let fake = Fake::with(&[
                (5, "syscall", call),
                (5, "wchan", "x"),
                (5, "stat", "5 (a) S 1"),
                (5, "fd/3", "/data/log"),
            ]);
            let found = seen(&mut Looks::new(&fake, capabilities), &[5]).pop();
            found.map(|(_, found)| found.file.map(String::from))
        };
        let (poll, fsync) = ("7 0x3 0x2 0x3 0x0 0x0 0x0 0x7ffd 0x7f12", "74 0x3 0x0 0x0 0x0 0x0 0x0 0x7ffd 0x7f12");
        assert_eq!(looked(poll, EVENTS), None);
        assert_eq!(looked(poll, Capabilities { calls: false, ..EVENTS }), Some(None));
        assert_eq!(looked(fsync, EVENTS), Some(Some("/data/log".to_owned())));
    }

    #[test]
    fn all_threads_have_their_turn_within_a_hundredth_of_a_cpu() {
        let fake = Fake::default();
        let mut looks = Looks::new(&fake, EVENTS);
        for _ in 0..1_000 {
            seen(&mut looks, &[1]);
            fake.pass(10_000_000);
        }
        let (elapsed_ns, used_ns) = *fake.clocks.borrow();
        assert!((elapsed_ns / 150..=elapsed_ns / 90).contains(&used_ns), "{used_ns} of {elapsed_ns}");
        let read = fake.read.borrow();
        let looks_at = |tid| read.iter().filter(|(of, _)| *of == tid).count();
        assert!((1..=4).all(|tid| looks_at(tid).abs_diff(read.len() / 4) <= 1), "{} looks", read.len());
    }

    #[test]
    fn a_process_that_refuses_is_asked_once() {
        let fake = Fake::default();
        let mut looks = Looks::new(&fake, EVENTS);
        for _ in 0..10 {
            assert_eq!(seen(&mut looks, &[9]), []);
            fake.pass(1_000_000_000);
        }
        assert_eq!(*fake.read.borrow(), [(9, "syscall".to_owned())]);
    }
}
