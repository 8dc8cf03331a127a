//! Locks whose memory comes and goes.

use std::sync::atomic::{AtomicBool, Ordering};

use libc::{EBUSY, PTHREAD_MUTEX_ERRORCHECK, PTHREAD_MUTEX_NORMAL, PTHREAD_MUTEX_RECURSIVE, c_int};

use super::objects::{Attributes, Mutex};
use super::trial::{Section, compete, elsewhere, ensure, expect, fail, wait_for};

/// Memory that was a lock becomes another one without destroy; and no lock is touched after its last unlock.
pub fn reuse(seed: u64) {
    becomes_another(seed);
    for round in 0..40 {
        is_left_alone(round % 2 == 0);
    }
}

/// Pages of our own.
struct Page(*mut u8);

impl Page {
    const BYTES: usize = 4096;

    fn new() -> Page {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: a new mapping, wherever the kernel puts it.
        let address =
            unsafe { libc::mmap(std::ptr::null_mut(), Page::BYTES, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0) };
        if address == libc::MAP_FAILED {
            fail("there is no memory to be had");
        }
        Page(address.cast())
    }

    fn fill(&self, byte: u8) {
        // SAFETY: the page is ours, and nobody holds a reference into it.
        unsafe { self.0.write_bytes(byte, Page::BYTES) };
    }

    fn as_mutex(&self) -> &Mutex {
        // SAFETY: the page is large and aligned enough, any bytes are a value of a mutex as far as Rust is concerned,
        // and the caller initialises it before it calls anything with it.
        unsafe { &*self.0.cast::<Mutex>() }
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours alone. Unmapping an unmapped page again would be harmful; `gone` forgets itself.
        unsafe { libc::munmap(self.0.cast(), Page::BYTES) };
    }
}

/// The same address is a lock again and again: by zeroes, by init over what happens to be there, of every kind.
fn becomes_another(seed: u64) {
    let kinds: [c_int; 4] = [PTHREAD_MUTEX_NORMAL, PTHREAD_MUTEX_RECURSIVE, PTHREAD_MUTEX_ERRORCHECK, 3];
    let page = Page::new();
    for round in 0..40 {
        let recursive = match round % 5 {
            4 => {
                // A static initialiser of a normal lock is all zeroes.
                page.fill(0);
                false
            }
            which => {
                page.fill(if round % 2 == 0 { 0xa5 } else { 0x01 });
                page.as_mutex().must_init(Attributes::kind(kinds[which as usize]));
                kinds[which as usize] == PTHREAD_MUTEX_RECURSIVE
            }
        };
        let (mutex, section) = (page.as_mutex(), Section::new());
        let visits = compete(3, std::time::Duration::from_millis(1), seed + round, |random| {
            let depth = if recursive { 2 } else { 1 };
            (0..depth).for_each(|_| mutex.must_lock());
            section.visit(random);
            (0..depth).for_each(|_| mutex.must_unlock());
            1
        });
        section.ensure_visits(visits);
        // Every third lock is left locked when its memory goes to the next one.
        if round % 3 == 0 {
            elsewhere(|| mutex.must_lock());
        }
    }
}

/// The first thread unlocks; the second, who waited, locks, unlocks, and the memory is gone at once. The first may
/// still be inside its unlock, where it must not look at the lock any more.
fn is_left_alone(waits_asleep: bool) {
    let page = Page::new();
    page.as_mutex().must_init(Attributes::default());
    let (mutex, comes) = (page.as_mutex(), AtomicBool::new(false));
    mutex.must_lock();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            comes.store(true, Ordering::SeqCst);
            if waits_asleep {
                mutex.must_lock();
            } else {
                while mutex.trylock() == EBUSY {
                    std::hint::spin_loop();
                }
            }
            mutex.must_unlock();
            // SAFETY: the page is ours; both threads are through with it, as far as a program can know. Its address
            // stays ours.
            let closed = unsafe { libc::mprotect(mutex.as_ptr().cast(), Page::BYTES, libc::PROT_NONE) };
            ensure!(closed == 0, "mprotect failed");
        });
        wait_for(|| comes.load(Ordering::SeqCst));
        if waits_asleep {
            std::thread::sleep(std::time::Duration::from_micros(500));
        }
        mutex.must_unlock();
    });
}

/// By the holder and by another thread; afterwards the lock works. A free one can be destroyed, and made anew.
pub fn destroy_held(_: u64) {
    static STATIC: Mutex = Mutex::new();
    let mutexes = [PTHREAD_MUTEX_NORMAL, PTHREAD_MUTEX_RECURSIVE, PTHREAD_MUTEX_ERRORCHECK]
        .map(|kind| Mutex::with(Attributes::kind(kind)));
    for mutex in mutexes.iter().map(|made| &**made).chain([&STATIC]) {
        for lock in [Mutex::lock, Mutex::trylock] {
            expect("a lock or trylock of a free lock", lock(mutex), 0);
            expect("pthread_mutex_destroy by the holder", mutex.destroy(), EBUSY);
            expect("pthread_mutex_destroy by another thread", elsewhere(|| mutex.destroy()), EBUSY);
            mutex.must_be_held();
            mutex.must_unlock();
        }
        mutex.must_be_free();
        expect("pthread_mutex_destroy of a free lock", mutex.destroy(), 0);
        mutex.must_init(Attributes::default());
        mutex.must_be_free();
        expect("pthread_mutex_destroy of a free lock", mutex.destroy(), 0);
    }
}
