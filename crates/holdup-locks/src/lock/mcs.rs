//! A queue lock that does not collapse: an MCS queue of waiters, of which only the head competes for the lock word,
//! with newcomers.
//!
//! | bits of `word` | name | meaning |
//! |---|---|---|
//! | 0 | `LOCKED` | held |
//! | 1 | `ASLEEP_HEAD` | the head of the queue sleeps: the next release wakes it |
//! | 2 | `RESERVED` | the head has lost often enough: newcomers may not take the lock before it |
//! | 3 | `SPINNER` | a newcomer spins before it joins the queue: no other one does |
//!
//! | node `state` | its thread |
//! |---|---|
//! | `WAITING` 0 | spins, deeper in the queue |
//! | `ASLEEP` 1 | sleeps on this word, or is about to |
//! | `HEAD` 2 | competes for `word` |
//!
//! ```text
//!  newcomer ──CAS──► word ◄──CAS── head ◄── node ◄── node      tail
//!  one spins,                       spins,   asleep   asleep
//!  then joins the queue             then asleep
//! ```
//!
//! Strict first-come-first-served hand-over costs a context switch per turn once threads outnumber CPUs. Here a running
//! newcomer may take a free lock, so the lock keeps moving while sleepers wake; the queue decides who competes next and
//! keeps everybody else off the word's line; `RESERVED` bounds how often the head can lose. A newcomer that meets a
//! holder spins once before it joins a queue: behind sleepers it would sleep too, and the CPUs would idle while they
//! wake one by one (8 threads on 2 CPUs, sections of 100 ns: 1.7 times the time). One at a time does, so the line has
//! two watchers.
//!
//! # Invariants
//! 1. Only a compare-exchange that found `LOCKED` clear sets it. With `RESERVED` set only the head's does.
//! 2. There is at most one head: the first arrival in an empty queue, then whoever the leaving head names. A head
//!    leaves only as holder, so the word's bits 1 and 2 and the field `head` are written by the head or the holder
//!    alone. Bit 3 is written by the newcomer that set it; everybody else keeps it.
//! 3. `ASLEEP_HEAD` set means that `head` points to the head's node, whose state is `ASLEEP`, or `HEAD` if it was named
//!    in its sleep. The node lives until its thread holds the lock; so the holder may read it.
//! 4. A release clears `ASLEEP_HEAD`, then sets that node's state to `HEAD`, then clears `LOCKED` (again from the start
//!    if the head slept anew in between), and wakes last. A head that is about to sleep sees either `HEAD` or the wake.
//!    So a free lock has an awake head, or one with a wake on the way, or no queue.
//! 5. A node deeper in the queue wakes only as head (3, 4): it cannot be forgotten, because the leaving head either
//!    finds it awake (`WAITING` → `HEAD`) or sets `ASLEEP_HEAD` for it.
//!
//! # Memory orderings
//! Every take is Acquire, every release of `LOCKED` is Release; the pair carries the section's writes. `head` is
//! written before a Release on `word` and read after an Acquire of it. Links are stored with Release and read with
//! Acquire, so that a node is seen initialised (loom: `mcs*`). A thread that becomes head awake, or by finding the
//! queue empty, Acquires what the old head Released (in `state` or `tail`), so that its `head` is the later one. A wake
//! itself carries nothing: the woken competes.
//!
//! Sources: Mellor-Crummey & Scott, ACM TOCS 1991, section 2.4 (the queue); a word that newcomers and the queue's head
//! compete for, and a hand-over after repeated loss: the Linux kernel's qspinlock and mutex (Long, 2013 to 2016).

use crate::sys::atomic::{AtomicPtr, AtomicU32, Ordering};
use crate::sys::{ANY, now_ns, spin_hint, wait, wake_address, yield_now};
use core::ptr;

const LOCKED: u32 = 1;
const ASLEEP_HEAD: u32 = 2;
const RESERVED: u32 = 4;
const SPINNER: u32 = 8;

const WAITING: u32 = 0;
const ASLEEP: u32 = 1;
const HEAD: u32 = 2;

/// Pauses of a waiter that is not the head, before it sleeps: a head seldom gets through its turn faster.
const SPINS_IN_QUEUE: u32 = if cfg!(any(loom, miri)) { 1 } else { 64 };
/// Pauses of a newcomer before it joins a queue.
const SPINS_BEFORE_QUEUE: u32 = if cfg!(any(loom, miri)) { 1 } else { 100 };
/// Pauses of the head before it sleeps, and the longest run of them between two looks.
const SPINS_AS_HEAD: u32 = if cfg!(any(loom, miri)) { 1 } else { 400 };
const PAUSES_MAX: u32 = if cfg!(any(loom, miri)) { 1 } else { 32 };
/// After this long as a head that has slept, the next turn is reserved.
const PATIENCE_NS: u64 = if cfg!(loom) { 1 } else { 1_000_000 };

struct Node {
    next: AtomicPtr<Node>,
    state: AtomicU32,
}

/// A queue lock that does not collapse: the queue's head and one newcomer spin, the others stay off the lock's line. 24
/// bytes.
///
/// ```
/// use holdup_locks::{Mcs, Mutex};
///
/// let total = Mutex::<Mcs, u64>::new(0);
/// std::thread::scope(|scope| {
///     for _ in 0..4 {
///         scope.spawn(|| (0..100).for_each(|_| *total.lock() += 1));
///     }
/// });
/// assert_eq!(total.into_inner(), 400);
/// ```
///
/// # Cost
/// One compare-exchange each way when free; the waiters' nodes lie on their stacks. A head that has lost for a
/// millisecond gets the next turn.
///
/// Measured: uncontended 0.96, tight 2.94, short 0.95, even 0.72, crowded =0.99 of pthread's time ([table](crate#measured)).
///
/// # When not to use it
/// Its place is many waiters on many CPUs, which no machine has shown here yet; on few CPUs
/// [`Adaptive`](crate::Adaptive) does as well or better. Not first come, first served ([`Fair`](crate::Fair),
/// [`Clh`](crate::Clh) are). No timed variant.
///
/// # Source
/// Mellor-Crummey & Scott, ACM TOCS 1991, section 2.4 (the queue); a word for which newcomers and the head compete: the
/// Linux kernel's qspinlock and mutex (Long, 2013 to 2016).
pub struct Mcs {
    word: AtomicU32,
    tail: AtomicPtr<Node>,
    head: AtomicPtr<Node>,
}

// SAFETY: the pointers lead to nodes whose shared fields are atomics and whose lifetime the invariants guard; nothing
// in the lock belongs to one thread.
unsafe impl Send for Mcs {}
// SAFETY: as above.
unsafe impl Sync for Mcs {}

impl Mcs {
    /// A free lock.
    #[must_use]
    pub const fn new() -> Self {
        Self { word: AtomicU32::new(0), tail: AtomicPtr::new(ptr::null_mut()), head: AtomicPtr::new(ptr::null_mut()) }
    }

    #[inline]
    fn acquire(&self) {
        if self.replace(0, LOCKED).is_err() {
            self.acquire_contended();
        }
    }

    #[inline]
    fn try_acquire(&self) -> bool {
        self.replace(0, LOCKED).is_ok() || self.barge()
    }

    #[inline]
    fn release(&self) {
        if self.word.compare_exchange(LOCKED, 0, Ordering::Release, Ordering::Relaxed).is_err() {
            self.release_contended();
        }
    }

    #[inline]
    fn held(&self) -> bool {
        self.word.load(Ordering::Relaxed) & LOCKED != 0
    }

    /// Takes a free lock whose head sleeps, but not one that is reserved.
    fn barge(&self) -> bool {
        let mut word = self.word.load(Ordering::Relaxed);
        while word & (LOCKED | RESERVED) == 0 {
            match self.replace(word, word | LOCKED) {
                Ok(_) => return true,
                Err(seen) => word = seen,
            }
        }
        false
    }

    #[cold]
    fn acquire_contended(&self) {
        if self.barge() || (!self.tail.load(Ordering::Relaxed).is_null() && self.spin_before_queue()) {
            return;
        }
        let node = Node { next: AtomicPtr::new(ptr::null_mut()), state: AtomicU32::new(WAITING) };
        make_atomics!(node; next, state);
        let this = ptr::from_ref(&node).cast_mut();
        let before = self.tail.swap(this, Ordering::AcqRel);
        if !before.is_null() {
            // SAFETY: `before` is in `tail` until we replace it, and its owner then waits for this link before it
            // leaves.
            unsafe { &*before }.next.store(this, Ordering::Release);
            await_head(&node.state);
        }
        self.compete(&node, this);
        self.name_next_head(&node, this);
    }

    /// As the one newcomer that may: spins for the word before it joins a queue, whose head may be on its way from
    /// sleep.
    fn spin_before_queue(&self) -> bool {
        let word = self.word.load(Ordering::Relaxed);
        // Looked at first: a crowd of newcomers must not write to the line.
        if word & (SPINNER | RESERVED) != 0 || self.word.fetch_or(SPINNER, Ordering::Relaxed) & SPINNER != 0 {
            return false;
        }
        for _ in 0..SPINS_BEFORE_QUEUE {
            let word = self.word.load(Ordering::Relaxed);
            if word & RESERVED != 0 {
                break;
            }
            if word & LOCKED == 0 && self.replace(word, word & !SPINNER | LOCKED).is_ok() {
                return true;
            }
            spin_hint();
        }
        self.word.fetch_and(!SPINNER, Ordering::Relaxed);
        false
    }

    /// As head: takes the word, spinning, then sleeping, then reserving it.
    fn compete(&self, node: &Node, this: *mut Node) {
        let mut reserves_at = 0;
        loop {
            if self.spin_for_word() {
                return;
            }
            let now = now_ns();
            if reserves_at == 0 {
                reserves_at = now.saturating_add(PATIENCE_NS);
            }
            if now >= reserves_at {
                self.word.fetch_or(RESERVED, Ordering::Relaxed);
            }
            self.sleep_as_head(node, this);
        }
    }

    fn spin_for_word(&self) -> bool {
        let (mut spent, mut pauses) = (0, 1);
        loop {
            let word = self.word.load(Ordering::Relaxed);
            // The head is awake, so no release need wake it, and its turn, if reserved, is now used.
            if word & LOCKED == 0 && self.replace(word, LOCKED | word & SPINNER).is_ok() {
                return true;
            }
            if spent >= SPINS_AS_HEAD {
                return false;
            }
            (0..pauses).for_each(|_| spin_hint());
            spent += pauses;
            pauses = (pauses * 2).min(PAUSES_MAX);
        }
    }

    /// Sleeps until a release wakes the head; returns at once if the lock is free.
    fn sleep_as_head(&self, node: &Node, this: *mut Node) {
        node.state.store(ASLEEP, Ordering::Relaxed);
        self.head.store(this, Ordering::Relaxed);
        let mut word = self.word.load(Ordering::Relaxed);
        loop {
            if word & LOCKED == 0 {
                return;
            }
            // ORDERING: Release hands `head` and `state` to the holder, which reads them after an Acquire of the word.
            match self.word.compare_exchange(word, word | ASLEEP_HEAD, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => break,
                Err(seen) => word = seen,
            }
        }
        while node.state.load(Ordering::Relaxed) == ASLEEP {
            wait(&node.state, ASLEEP, ANY, None);
        }
    }

    /// As holder: leaves the queue and makes the next in it the head, awake or asleep.
    fn name_next_head(&self, node: &Node, this: *mut Node) {
        let mut next = node.next.load(Ordering::Acquire);
        if next.is_null() {
            if self.tail.compare_exchange(this, ptr::null_mut(), Ordering::Release, Ordering::Relaxed).is_ok() {
                return;
            }
            next = await_link(&node.next);
        }
        // SAFETY: `next` is in the queue, and only a head leaves it; it is not the head before the exchange below.
        let before = unsafe { &(*next).state }.compare_exchange(WAITING, HEAD, Ordering::Release, Ordering::Relaxed);
        if before.is_err() {
            // It sleeps. Our own release wakes it: waking it now would only make it watch us.
            self.head.store(next, Ordering::Relaxed);
            self.word.fetch_or(ASLEEP_HEAD, Ordering::Relaxed);
        }
    }

    #[cold]
    fn release_contended(&self) {
        let mut sleeper = None;
        let mut word = self.word.load(Ordering::Acquire);
        loop {
            if word & ASLEEP_HEAD != 0 {
                sleeper = Some(self.rouse_head());
                word &= !ASLEEP_HEAD;
            }
            let kept = word & (RESERVED | SPINNER);
            match self.word.compare_exchange(word, kept, Ordering::Release, Ordering::Acquire) {
                Ok(_) => break,
                // The head slept, or reserved its turn, in between.
                Err(seen) => word = seen,
            }
        }
        if let Some(sleeper) = sleeper {
            // The node may be gone by now: its address alone wakes its thread.
            wake_address(sleeper, 1, ANY);
        }
    }

    /// As holder: tells the sleeping head that it need not sleep (again); returns where it sleeps.
    fn rouse_head(&self) -> *const AtomicU32 {
        let head = self.head.load(Ordering::Relaxed);
        // The bit goes first: once the state says HEAD, its thread may run, sleep again and set the bit again.
        self.word.fetch_and(!ASLEEP_HEAD, Ordering::Relaxed);
        // SAFETY: invariant 3: ASLEEP_HEAD was set and we hold the lock, so the head's node lives.
        let state = unsafe { &(*head).state };
        // An exchange, not a store: parking reads the word by a read-modify-write under loom, whose modification order
        // is only partial between that and a plain store.
        state.swap(HEAD, Ordering::Relaxed);
        ptr::from_ref(state)
    }

    #[inline]
    fn replace(&self, old: u32, new: u32) -> Result<u32, u32> {
        self.word.compare_exchange(old, new, Ordering::Acquire, Ordering::Relaxed)
    }
}

/// Deeper in the queue: spins, then sleeps, until this node is the head.
fn await_head(state: &AtomicU32) {
    for _ in 0..SPINS_IN_QUEUE {
        if state.load(Ordering::Acquire) == HEAD {
            return;
        }
        spin_hint();
    }
    if state.compare_exchange(WAITING, ASLEEP, Ordering::Relaxed, Ordering::Acquire).is_err() {
        return;
    }
    while state.load(Ordering::Relaxed) == ASLEEP {
        wait(state, ASLEEP, ANY, None);
    }
}

/// Waits for an arrival that is in `tail` already to write its link: a few instructions of another thread.
#[cold]
fn await_link(link: &AtomicPtr<Node>) -> *mut Node {
    let mut looks = 0_u32;
    loop {
        let node = link.load(Ordering::Acquire);
        if !node.is_null() {
            return node;
        }
        looks += 1;
        if looks < SPINS_IN_QUEUE { spin_hint() } else { yield_now() }
    }
}

impl Default for Mcs {
    fn default() -> Self {
        Self::new()
    }
}

raw_mutex!([] Mcs, GuardNoSend, Self::new());
check_drop!([] Mcs);
modelled!([] Mcs; word, tail, head);
