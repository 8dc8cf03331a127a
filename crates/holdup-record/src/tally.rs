//! Sums of a recording under way, cheap enough to keep at all times: whoever waits for a condition looks at them, and
//! analyses only what is worth it. They are facts; that a wait is one for a lock, only the analysis can tell.

use holdup_trace::{Event, OffCpu, Pid, Tid, What};
use rustc_hash::FxHashMap;

/// What has happened within a stretch of time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Totals {
    /// From this moment.
    pub from_ns: u64,
    /// To this one.
    pub to_ns: u64,
    /// Times a thread left a CPU.
    pub switches: u64,
    /// Time that threads were blocked: off the CPU and not able to run.
    pub blocked_ns: u64,
    /// The threads' lives together.
    pub thread_ns: u64,
    /// Waits on a futex that were longer than asked for, those that last on included; of each futex the longest.
    pub long_waits: Vec<LongWait>,
}

/// A wait on a futex.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LongWait {
    /// Who waited.
    pub tid: Tid,
    /// In which process.
    pub pid: Pid,
    /// For which address.
    pub addr: u64,
    /// Since when.
    pub from_ns: u64,
    /// Until when, or until the moment of the sums.
    pub to_ns: u64,
}

impl LongWait {
    /// How long.
    pub fn ns(&self) -> u64 {
        self.to_ns.saturating_sub(self.from_ns)
    }
}

/// Adds up events.
#[derive(Debug)]
pub struct Tally {
    long_ns: u64,
    from_ns: u64,
    totals: Totals,
    threads: FxHashMap<Tid, Thread>,
    long: FxHashMap<(Pid, u64), LongWait>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Thread {
    pid: Pid,
    born_ns: u64,
    blocked_ns: Option<u64>,
    futex: Option<u64>,
}

impl Tally {
    /// Futexes of which long waits are remembered between two calls of [`Tally::take`].
    const MOST_LONG: usize = 256;

    /// From this moment on.
    pub fn new(long_ns: u64, from_ns: u64) -> Self {
        let (totals, threads) = (Totals::default(), FxHashMap::default());
        Tally { long_ns, from_ns, totals, threads, long: FxHashMap::default() }
    }

    /// Adds an event.
    pub fn note(&mut self, event: &Event) {
        let time_ns = event.time_ns;
        match event.what {
            What::Started { pid, .. } => {
                self.threads.insert(event.tid, Thread { pid, born_ns: time_ns, ..Thread::default() });
            }
            What::Exited => {
                self.wake(event.tid, time_ns);
                if let Some(thread) = self.threads.remove(&event.tid) {
                    self.totals.thread_ns += time_ns.saturating_sub(thread.born_ns.max(self.from_ns));
                }
            }
            What::SwitchOut { off, .. } => {
                self.totals.switches += 1;
                if let Some(thread) = self.threads.get_mut(&event.tid).filter(|_| off != OffCpu::Runnable) {
                    thread.blocked_ns = Some(time_ns);
                }
            }
            What::SwitchIn => self.wake(event.tid, time_ns),
            What::FutexWait { addr, .. } => {
                if let Some(thread) = self.threads.get_mut(&event.tid) {
                    thread.futex = Some(addr);
                }
            }
            What::Call { .. } => {
                if let Some(thread) = self.threads.get_mut(&event.tid) {
                    thread.futex = None;
                }
            }
            _ => {}
        }
    }

    /// The thread runs again.
    fn wake(&mut self, tid: Tid, time_ns: u64) {
        let Some(thread) = self.threads.get_mut(&tid) else { return };
        let (blocked, futex) = (thread.blocked_ns.take(), thread.futex.take());
        let pid = thread.pid;
        let Some(since_ns) = blocked else { return };
        self.totals.blocked_ns += time_ns.saturating_sub(since_ns.max(self.from_ns));
        if let Some(addr) = futex {
            self.waited(LongWait { tid, pid, addr, from_ns: since_ns, to_ns: time_ns });
        }
    }

    fn waited(&mut self, wait: LongWait) {
        let key = (wait.pid, wait.addr);
        if wait.ns() <= self.long_ns || self.long.len() >= Self::MOST_LONG && !self.long.contains_key(&key) {
            return;
        }
        let longest = self.long.entry(key).or_insert(wait);
        if wait.ns() > longest.ns() {
            *longest = wait;
        }
    }

    /// What has come together since the last call, up to now.
    pub fn take(&mut self, now_ns: u64) -> Totals {
        let from_ns = self.from_ns;
        let since = |moment_ns: u64| now_ns.saturating_sub(moment_ns.max(from_ns));
        let mut totals = std::mem::take(&mut self.totals);
        let mut open = Vec::new();
        for (tid, thread) in &self.threads {
            totals.thread_ns += since(thread.born_ns);
            let Some(blocked_ns) = thread.blocked_ns else { continue };
            totals.blocked_ns += since(blocked_ns);
            let wait = |addr| LongWait { tid: *tid, pid: thread.pid, addr, from_ns: blocked_ns, to_ns: now_ns };
            open.extend(thread.futex.map(wait));
        }
        open.into_iter().for_each(|wait| self.waited(wait));
        totals.long_waits = self.long.drain().map(|(_, wait)| wait).collect();
        totals.long_waits.sort_unstable_by_key(|wait| (std::cmp::Reverse(wait.ns()), wait.tid));
        (totals.from_ns, totals.to_ns) = (from_ns, now_ns);
        self.from_ns = now_ns.max(from_ns);
        totals
    }
}

#[cfg(test)]
mod tests {
    use holdup_trace::{FutexOp, NO_CPU};

    use super::*;

    fn tally(events: &[(u64, u32, What)]) -> Tally {
        let mut tally = Tally::new(50, 0);
        for (time_ns, tid, what) in events {
            tally.note(&Event { time_ns: *time_ns, tid: Tid(*tid), cpu: NO_CPU, what: what.clone() });
        }
        tally
    }

    fn waits(addr: u64) -> What {
        What::FutexWait { op: FutexOp(128), addr, value: 2, stack: None }
    }

    const STARTED: What = What::Started { pid: Pid(1), parent: None };
    const BLOCKED: What = What::SwitchOut { off: OffCpu::Blocked, stack: None };
    const PREEMPTED: What = What::SwitchOut { off: OffCpu::Runnable, stack: None };

    #[test]
    fn long_waits_are_told_when_they_end_and_while_they_last() {
        let mut tally = tally(&[
            (0, 1, STARTED),
            (0, 2, STARTED),
            (10, 1, waits(0x40)),
            (10, 1, BLOCKED),
            (70, 1, What::SwitchIn),
            (71, 1, waits(0x80)),
            (71, 1, BLOCKED),
            (100, 1, What::SwitchIn),
            (120, 2, waits(0x80)),
            (120, 2, BLOCKED),
            (130, 1, PREEMPTED),
        ]);
        let wait = |tid, addr, from_ns, to_ns| LongWait { tid: Tid(tid), pid: Pid(1), addr, from_ns, to_ns };
        let first = tally.take(200);
        assert_eq!(first.long_waits, [wait(2, 0x80, 120, 200), wait(1, 0x40, 10, 70)]);
        assert_eq!((first.switches, first.blocked_ns, first.thread_ns), (4, 60 + 29 + 80, 400));
        let second = tally.take(300);
        assert_eq!(second.long_waits, [wait(2, 0x80, 120, 300)], "it lasts on");
        assert_eq!((second.from_ns, second.switches, second.blocked_ns, second.thread_ns), (200, 0, 100, 200));
    }

    #[test]
    fn what_is_not_known_is_no_wait() {
        let mut tally =
            tally(&[(10, 1, waits(0x40)), (10, 1, BLOCKED), (90, 1, What::SwitchIn), (91, 1, What::Exited)]);
        assert_eq!(tally.take(100), Totals { to_ns: 100, switches: 1, ..Totals::default() });
    }
}
