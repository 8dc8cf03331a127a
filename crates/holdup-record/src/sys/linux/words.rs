//! Reads lock words from outside, where threads were seen to wait: how long a lock is held, and by whom, without any
//! probe.
//!
//! One call of process_vm_readv reads all words of a process, in about a microsecond. It needs the right to trace the
//! process, which children grant and others may not; without it there are no words, and nothing else changes.

use holdup_trace::{Event, FutexOp, NO_CPU, Tid, What};
use rustc_hash::{FxHashMap, FxHashSet};

use super::snapshot;

/// A word that threads waited for: process and address.
pub type Place = (u32, u64);

/// The words that are waited for most at present.
#[derive(Debug, Default)]
pub struct Hot {
    waits: FxHashMap<Place, u32>,
}

impl Hot {
    /// Words that are read.
    const READ: usize = 32;
    /// Words that are counted; a program that waits for more at once has no single hot lock.
    const COUNTED: usize = 4096;

    /// A thread of this process waits there.
    pub fn note(&mut self, pid: u32, addr: u64) {
        if self.waits.len() < Self::COUNTED || self.waits.contains_key(&(pid, addr)) {
            let waits = self.waits.entry((pid, addr)).or_default();
            *waits = waits.saturating_add(1);
        }
    }

    /// The words that are waited for most; older waits count half as much each time.
    pub fn top(&mut self) -> Vec<Place> {
        let mut places: Vec<(u32, Place)> = self.waits.iter().map(|(place, waits)| (*waits, *place)).collect();
        places.sort_unstable_by(|a, b| b.cmp(a));
        places.truncate(Self::READ);
        self.waits.retain(|_, waits| {
            *waits /= 2;
            *waits > 0
        });
        places.into_iter().map(|(_, place)| place).collect()
    }
}

/// What a process has in memory; a seam for tests.
pub trait Memory {
    /// Reads the word and the one eight bytes on, at each address; `None` where nothing can be read. Fails if nothing
    /// of this process can ever be read.
    fn read(&self, pid: u32, addrs: &[u64]) -> Result<Vec<Option<[u32; 2]>>, i32>;
    /// The threads of a process: the number that each knows itself by, and the recorder's. Empty if they are the same.
    fn inner_tids(&self, pid: u32) -> FxHashMap<u32, u32>;
    /// Whether a thread of this number is there.
    fn is_thread(&self, tid: u32) -> bool;
}

/// Reads words again and again.
#[derive(Debug, Default)]
pub struct Words<M> {
    memory: M,
    refused: FxHashSet<u32>,
    inner: FxHashMap<u32, FxHashMap<u32, u32>>,
    /// The last owner of each place that was a thread.
    owners: FxHashMap<Place, u32>,
}

/// Processes that are remembered not to be readable; whoever records for days meets many, and asks some again.
pub const REFUSED: usize = 1024;
/// Places whose owner is remembered.
const OWNERS: usize = 1024;

impl<M: Memory> Words<M> {
    /// Reads from this memory.
    pub fn new(memory: M) -> Self {
        Words { memory, refused: FxHashSet::default(), inner: FxHashMap::default(), owners: FxHashMap::default() }
    }

    /// Threads that were born since are looked up again.
    pub fn forget_threads(&mut self) {
        self.inner.clear();
        if self.refused.len() > REFUSED {
            self.refused.clear();
        }
    }

    /// Reads all these words now.
    pub fn sample(&mut self, places: &[Place], time_ns: u64) -> Vec<Event> {
        let mut pids: Vec<u32> = places.iter().map(|(pid, _)| *pid).collect();
        pids.sort_unstable();
        pids.dedup();
        pids.into_iter().flat_map(|pid| self.sample_process(pid, places, time_ns)).collect()
    }

    fn sample_process(&mut self, pid: u32, places: &[Place], time_ns: u64) -> Vec<Event> {
        if self.refused.contains(&pid) {
            return Vec::new();
        }
        let addrs: Vec<u64> = places.iter().filter(|(of, _)| *of == pid).map(|(_, addr)| *addr).collect();
        let words = match self.memory.read(pid, &addrs) {
            Ok(words) => words,
            Err(errno) => {
                // One that has ended is not asked for any more.
                if errno != libc::ESRCH {
                    self.refused.insert(pid);
                }
                return Vec::new();
            }
        };
        let memory = &self.memory;
        let inner = self.inner.entry(pid).or_insert_with(|| memory.inner_tids(pid));
        let read = addrs.iter().zip(words).filter_map(|(addr, words)| Some((*addr, words?)));
        read.map(|(addr, [word, owner])| {
            // What is no thread of a process in a namespace of its own must not look like one of ours.
            let owner = if inner.is_empty() { owner } else { inner.get(&owner).copied().unwrap_or(0) };
            let owner = of_thread(owner, (pid, addr), memory, &mut self.owners);
            Event { time_ns, tid: Tid(pid), cpu: NO_CPU, what: What::LockWord { addr, word, owner } }
        })
        .collect()
    }
}

/// The owner, if there is or was such a thread, else 0. Not every futex is the lock of a library that names its holder
/// there: the number may be data of the program, which is nobody's business.
fn of_thread(owner: u32, place: Place, memory: &impl Memory, owners: &mut FxHashMap<Place, u32>) -> u32 {
    if owner == 0 || owners.get(&place) == Some(&owner) {
        return owner;
    }
    if !memory.is_thread(owner) {
        return 0;
    }
    if owners.len() >= OWNERS {
        owners.clear();
    }
    owners.insert(place, owner);
    owner
}

/// Whether there is a thread of this number.
pub fn is_thread(tid: u32) -> bool {
    let Some(tid) = i32::try_from(tid).ok().filter(|tid| *tid > 0) else { return false };
    // SAFETY: signal 0 is none; it only asks whether there is somebody to send one to.
    let asked = unsafe { libc::kill(tid, 0) };
    asked == 0 || std::io::Error::last_os_error().raw_os_error() == Some(libc::EPERM)
}

/// Whether a wait of this kind is on a word that can be a lock's.
pub fn is_lock_like(op: FutexOp) -> bool {
    op.waits() && op.command() != FutexOp::WAITV
}

/// Whether the memory of a process may be read at all.
pub fn may_read(pid: u32) -> bool {
    /// Nothing is mapped there, but the right to read is asked for first.
    const NOWHERE: u64 = 8;
    Processes.read(pid, &[NOWHERE]).is_ok()
}

/// The real memory.
#[derive(Clone, Copy, Debug, Default)]
pub struct Processes;

/// A word, and what lies between it and the owner.
const SPAN: usize = 12;

impl Memory for Processes {
    fn read(&self, pid: u32, addrs: &[u64]) -> Result<Vec<Option<[u32; 2]>>, i32> {
        let mut found = Vec::with_capacity(addrs.len());
        while found.len() < addrs.len() {
            let rest = &addrs[found.len()..];
            let mut bytes = vec![[0_u8; SPAN]; rest.len()];
            let len = read_spans(pid, rest, &mut bytes)?;
            // It stops before the first address that cannot be read.
            let whole = len / SPAN;
            found.extend(bytes[..whole].iter().map(|span| Some(words_of(span))));
            if whole < rest.len() {
                found.push(None);
            }
        }
        Ok(found)
    }

    fn inner_tids(&self, pid: u32) -> FxHashMap<u32, u32> {
        match snapshot::inner_tid(pid) {
            Some(inner) if inner != pid => {
                snapshot::threads(pid).into_iter().filter_map(|tid| Some((snapshot::inner_tid(tid)?, tid))).collect()
            }
            _ => FxHashMap::default(),
        }
    }

    fn is_thread(&self, tid: u32) -> bool {
        is_thread(tid)
    }
}

fn words_of(span: &[u8; SPAN]) -> [u32; 2] {
    let word = |at: usize| u32::from_ne_bytes([span[at], span[at + 1], span[at + 2], span[at + 3]]);
    [word(0), word(8)]
}

/// Reads memory of a process from an address on; how many bytes there were.
pub fn read_bytes(pid: u32, addr: u64, bytes: &mut [u8]) -> usize {
    let remote = libc::iovec { iov_base: addr as usize as *mut _, iov_len: bytes.len() };
    let local = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
    // SAFETY: `local` is room for as many bytes as are asked for; the remote address is the other process's, and the
    // kernel checks it.
    let len = unsafe { libc::process_vm_readv(pid as libc::pid_t, &raw const local, 1, &raw const remote, 1, 0) };
    usize::try_from(len).unwrap_or(0)
}

/// How many bytes were read; 0 if the first address cannot be.
fn read_spans(pid: u32, addrs: &[u64], spans: &mut [[u8; SPAN]]) -> Result<usize, i32> {
    let remote: Vec<libc::iovec> =
        addrs.iter().map(|addr| libc::iovec { iov_base: *addr as usize as *mut _, iov_len: SPAN }).collect();
    let local = libc::iovec { iov_base: spans.as_mut_ptr().cast(), iov_len: size_of_val(spans) };
    // SAFETY: `local` is room for as many bytes as all of `remote` have; remote addresses are the other process's, and
    // the kernel checks them.
    let len = unsafe {
        libc::process_vm_readv(pid as libc::pid_t, &local, 1, remote.as_ptr(), remote.len() as libc::c_ulong, 0)
    };
    if len >= 0 {
        return Ok(len as usize);
    }
    match std::io::Error::last_os_error().raw_os_error() {
        Some(libc::EFAULT) => Ok(0),
        errno => Err(errno.unwrap_or(libc::EIO)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Process 5 is in a namespace, 6 is not, 7 may not be read.
    #[derive(Default)]
    struct Scripted;

    impl Memory for Scripted {
        fn read(&self, pid: u32, addrs: &[u64]) -> Result<Vec<Option<[u32; 2]>>, i32> {
            if pid >= 7 {
                Err(if pid % 2 == 1 { libc::EPERM } else { libc::ESRCH })
            } else {
                Ok(addrs.iter().map(|addr| (*addr != 0).then_some([2, *addr as u32 >> 8])).collect())
            }
        }

        fn inner_tids(&self, pid: u32) -> FxHashMap<u32, u32> {
            if pid == 5 { [(11, 105)].into_iter().collect() } else { FxHashMap::default() }
        }

        fn is_thread(&self, tid: u32) -> bool {
            tid == 11 || tid == 105
        }
    }

    fn word(pid: u32, addr: u64, owner: u32) -> Event {
        Event { time_ns: 9, tid: Tid(pid), cpu: NO_CPU, what: What::LockWord { addr, word: 2, owner } }
    }

    #[test]
    fn owners_are_translated_and_what_cannot_be_read_is_left_out() {
        let mut words = Words::new(Scripted);
        let places = [(5, 0xb10), (6, 0xb20), (6, 0), (7, 0xb30)];
        assert_eq!(words.sample(&places, 9), [word(5, 0xb10, 105), word(6, 0xb20, 11)]);
        assert!(words.refused.contains(&7));
        assert_eq!(words.sample(&[], 9), []);
    }

    #[test]
    fn many_processes_come_and_go_and_few_are_remembered() {
        let mut words = Words::new(Scripted);
        for pid in 7..7 + 4 * REFUSED as u32 {
            assert_eq!(words.sample(&[(pid, 0xb10)], 9), []);
            words.forget_threads();
        }
        assert!((1..=REFUSED + 1).contains(&words.refused.len()), "{}", words.refused.len());
        assert!(words.refused.iter().all(|pid| pid % 2 == 1), "those that have ended are not refused");
    }

    #[test]
    fn a_number_that_is_no_threads_is_the_programs_own_and_a_holder_that_has_ended_stays_one() {
        let mut words = Words::new(Scripted);
        assert_eq!(words.sample(&[(6, 0x1234_5620)], 9), [word(6, 0x1234_5620, 0)]);
        words.owners.insert((6, 0x4d20), 0x4d);
        assert_eq!(words.sample(&[(6, 0x4d20), (6, 0x4d28)], 9), [word(6, 0x4d20, 0x4d), word(6, 0x4d28, 0)]);
        let many: Vec<Place> = (0..5_000).map(|at| (6, 0xb_0000_0000_0b00 | at << 32)).collect();
        drop(words.sample(&many, 9));
        assert!(words.owners.len() <= OWNERS);
        let own = std::process::id();
        assert!(Processes.is_thread(own) && !Processes.is_thread(0x5ec4_e7d1) && !Processes.is_thread(u32::MAX));
    }

    #[test]
    fn the_words_that_are_waited_for_most_come_first_and_old_ones_go() {
        let mut hot = Hot::default();
        (0..100).for_each(|addr| (0..=addr % 50).for_each(|_| hot.note(1, addr)));
        let top = hot.top();
        assert_eq!((top.len(), top[0], top[1]), (32, (1, 99), (1, 49)));
        (0..6).for_each(|_| drop(hot.top()));
        assert_eq!(hot.top(), []);
        (0..10_000).for_each(|addr| hot.note(2, addr));
        assert_eq!(hot.waits.len(), Hot::COUNTED);
    }

    #[test]
    fn own_memory_can_be_read_up_to_what_is_not_there() {
        let lock = [7_u32, 0, 4711];
        let addr = lock.as_ptr() as u64;
        let read = Processes.read(std::process::id(), &[addr, 8, addr]);
        assert_eq!(read, Ok(vec![Some([7, 4711]), None, Some([7, 4711])]));
        assert_eq!(Processes.read(u32::MAX >> 1, &[addr]), Err(libc::ESRCH));
    }
}
