//! The threads of a process that runs on a virtual machine: their numbers and names, as far as they are known.

use rustc_hash::{FxHashMap, FxHashSet};

use super::memory::Memory;
use super::snapshot;

/// How long what was read of threads and code is believed to be the same: memory is used again.
pub const RENEW_NS: u64 = 1_000_000_000;
/// Where glibc keeps the system's number of a thread, from what pthread_self gives.
const PTHREAD_TID: u64 = 0x2d0;

/// What is known of them.
#[derive(Debug)]
pub struct Threads {
    pid: u32,
    /// The system's numbers by what the machine knows threads by.
    tids: FxHashMap<u64, Option<u32>>,
    /// Threads that were asked for their names since these were forgotten.
    named: FxHashSet<u32>,
    names: FxHashMap<u32, String>,
    renewed_ns: u64,
}

impl Threads {
    /// Nothing is known yet.
    pub fn of(pid: u32) -> Threads {
        let (tids, named, names) = (FxHashMap::default(), FxHashSet::default(), FxHashMap::default());
        Threads { pid, tids, named, names, renewed_ns: 0 }
    }

    /// Forgets what may have changed by now. Whether it is time to: what is known of code goes with it.
    pub fn renew(&mut self, now_ns: u64) -> bool {
        let is_due = now_ns.saturating_sub(self.renewed_ns) >= RENEW_NS;
        if is_due {
            self.renewed_ns = now_ns;
            self.tids.clear();
            self.named.clear();
        }
        is_due
    }

    /// The recorder's number of a thread that the machine knows by `own`, if it was learnt whether there is one.
    pub fn tid(&self, own: u64) -> Option<Option<u32>> {
        self.tids.get(&own).copied()
    }

    /// The same, given the number by which the thread knows itself.
    pub fn learn(&mut self, own: u64, number: Option<u32>) -> Option<u32> {
        let tid = number.and_then(|number| snapshot::outer_tid(self.pid, number));
        self.tids.insert(own, tid);
        tid
    }

    /// Whether a thread was not asked for its name lately; now it is.
    pub fn is_to_be_asked(&mut self, tid: u32) -> bool {
        self.named.insert(tid)
    }

    /// Whether a thread was not known by this name.
    pub fn is_new(&mut self, tid: u32, name: &str) -> bool {
        self.names.insert(tid, name.to_owned()).as_deref() != Some(name)
    }
}

/// The number by which a thread knows itself, from what pthread_self gives.
pub fn of_pthread(own: u64, memory: &mut Memory) -> Option<u32> {
    memory.number(own.checked_add(PTHREAD_TID)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_asked_for_again_after_a_while_and_told_if_it_is_another() {
        let mut threads = Threads::of(std::process::id());
        assert!(threads.is_to_be_asked(7) && !threads.is_to_be_asked(7));
        assert!(threads.is_new(7, "clerk") && !threads.is_new(7, "clerk") && threads.is_new(7, "teller"));
        assert!(threads.renew(RENEW_NS) && !threads.renew(2 * RENEW_NS - 1));
        assert!(threads.is_to_be_asked(7) && !threads.is_new(7, "teller"));
    }

    #[test]
    fn only_a_thread_that_is_there_has_a_number() {
        let own = std::process::id();
        let mut threads = Threads::of(own);
        assert_eq!(threads.tid(1), None);
        assert_eq!((threads.learn(1, Some(own)), threads.learn(2, Some(1 << 30))), (Some(own), None));
        assert_eq!((threads.tid(1), threads.tid(2)), (Some(Some(own)), Some(None)));
    }
}
