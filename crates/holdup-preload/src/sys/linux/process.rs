//! The process as it is served: what it was told, and where its figures are.

use std::cell::UnsafeCell;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use holdup_control::{self as control, Figures, KIND_RWLOCK, Policy, Profile, RwPolicy, Settings};

use super::files::Folder;
use super::modules;
use super::thread::Thread;

/// How many forks lie between the process and the one that was started.
pub static GENERATION: AtomicU32 = AtomicU32::new(0);
/// The one process.
pub static PROCESS: Once<Process> = Once(UnsafeCell::new(MaybeUninit::uninit()));

/// Written once, before `STATE` says so.
pub struct Once<T>(UnsafeCell<MaybeUninit<T>>);

// SAFETY: written by the one thread that starts, read by those that see `SERVES` afterwards.
unsafe impl<T: Sync> Sync for Once<T> {}

impl<T> Once<T> {
    /// Writes it.
    ///
    /// # Safety
    /// Nobody reads it yet, and nobody else writes it.
    pub unsafe fn write(&self, value: T) {
        // SAFETY: the caller's promise.
        unsafe { (*self.0.get()).write(value) };
    }
}

/// A process that is served.
pub struct Process {
    /// What it was told.
    pub settings: &'static Settings,
    /// Where its figures are mapped.
    pub figures: *mut Figures,
    /// When each lock's hold began.
    pub holds: &'static [AtomicU64],
    /// What is measured.
    pub profile: u32,
    /// How threads wait for reader-writer locks without a rule.
    pub rw: RwPolicy,
    /// Whether a rule is about reader-writer locks.
    pub has_rw_rules: bool,
    /// Whether any of them may prefer writers.
    pub prefers_writers: bool,
    /// How many rules there are.
    pub rules_len: usize,
    /// See the method of this name.
    pub between_ticks: u16,
    /// Where the files of the run are.
    pub folder: Folder,
}

// SAFETY: the pointer is to mapped memory that lives as long as the process, and is used for atomics only, but where
// `record` says otherwise.
unsafe impl Sync for Process {}

/// Where holds are timed: acquisitions between two that are, less one.
pub const BETWEEN_SAMPLES: u16 = 15;

/// A call that is served: the thread has a slot, the process has figures.
#[derive(Clone, Copy)]
pub struct Served {
    /// The calling thread.
    pub thread: &'static Thread,
    /// Its process.
    pub process: &'static Process,
}

impl Process {
    /// The figures of this process.
    #[inline]
    pub fn figures(&self) -> &'static Figures {
        // SAFETY: they are mapped as long as the process lives.
        unsafe { &*self.figures }
    }

    /// When the hold of the lock of a record began.
    pub fn hold_began(&self, at: usize) -> &'static AtomicU64 {
        &self.holds[at]
    }

    /// The policy of locks without a rule.
    #[inline]
    pub fn policy(&self) -> Policy {
        Policy::unpack(self.settings.policy.load(Ordering::Relaxed)).unwrap_or(Policy::Glibc)
    }

    /// Whether every lock gets a record when it is first acquired.
    pub fn records_all(&self) -> bool {
        self.profile >= Profile::Count as u32 || self.rules_len > 0
    }

    /// Acquisitions of a mutex from one look at its figures to the next, less one; a power of two, less one.
    #[inline]
    pub fn between_ticks(&self) -> u16 {
        self.between_ticks
    }

    /// Whether figures of every lock are asked for.
    pub fn profiles(&self) -> bool {
        self.profile >= Profile::Count as u32
    }

    /// Whether waits are timed.
    pub fn times_waits(&self) -> bool {
        self.profile >= Profile::Sampled as u32
    }

    /// Whether holds are timed, some or all.
    pub fn times_holds(&self) -> bool {
        self.profile >= Profile::Sampled as u32
    }

    /// Whether all holds are timed.
    pub fn times_all(&self) -> bool {
        self.profile == Profile::Full as u32
    }

    /// How many holds each timed one stands for.
    pub fn hold_scale(&self) -> u64 {
        if self.times_all() { 1 } else { u64::from(BETWEEN_SAMPLES) + 1 }
    }

    /// How long the watchdog is patient; 0 for ever.
    pub fn watchdog_ns(&self) -> u64 {
        u64::from(self.settings.watchdog_ms) * 1_000_000
    }

    /// The policy that the first fitting rule gives to a lock of this kind, as a record has it.
    pub fn rule_for(&self, kind: u32, lock: u64, first_site: u64, init_site: u64) -> Option<u32> {
        self.settings.rules[..self.rules_len].iter().find_map(|rule| {
            let policy = if kind == KIND_RWLOCK { rule.rw } else { rule.policy.load(Ordering::Relaxed) };
            let place = match rule.kind {
                control::RULE_OBJECT => lock,
                control::RULE_SITE => first_site,
                control::RULE_INIT => init_site,
                _ => 0,
            };
            let fits = place != 0 && modules::lies_in(place, &rule.module, rule.start, rule.len);
            (fits && policy != control::SAYS_NOTHING).then_some(policy)
        })
    }
}

/// A word in a mutex whose upper bits, from `shift`, are the process's generation (how many forks lie between it and
/// the one that was started); an empty one if it is of another, for the threads that it tells of did not survive the
/// fork.
#[inline]
pub fn of_generation(word: u32, shift: u32) -> u32 {
    empty_unless(word, shift, GENERATION.load(Ordering::Relaxed) << shift)
}

#[inline]
fn empty_unless(word: u32, shift: u32, generation: u32) -> u32 {
    if word >> shift << shift == generation { word } else { generation }
}

/// The process, for a thread that has a slot.
#[inline]
pub fn process() -> &'static Process {
    // SAFETY: a thread has a slot only after the process was written.
    unsafe { (*PROCESS.0.get()).assume_init_ref() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_of_another_generation_is_empty() {
        let word = empty_unless(0x1005, 13, 0);
        assert_eq!(word, 0x1005);
        assert_eq!(empty_unless(word, 13, 3 << 13), 3 << 13);
        assert_eq!(empty_unless(3 << 13 | 7, 13, 3 << 13), 3 << 13 | 7);
    }
}
