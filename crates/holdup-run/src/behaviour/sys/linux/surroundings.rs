//! Code that an interposer does not see, and code that runs before it.

use std::ffi::{CStr, c_char, c_void};
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

use libc::{CLOCK_REALTIME, EBUSY, EPERM, ETIMEDOUT, c_int, pthread_mutex_t, timespec};

use super::objects::{Attributes, Mutex, in_ns};
use super::trial::{Section, WHILE, compete, elsewhere, ensure, expect, fail, let_others_sleep, wait_for};

/// The C library's own functions, as a plugin finds them that was loaded with RTLD_DEEPBIND or linked with -Bsymbolic.
struct Plugin {
    lock: unsafe extern "C" fn(*mut pthread_mutex_t) -> c_int,
    trylock: unsafe extern "C" fn(*mut pthread_mutex_t) -> c_int,
    unlock: unsafe extern "C" fn(*mut pthread_mutex_t) -> c_int,
    timedlock: unsafe extern "C" fn(*mut pthread_mutex_t, *const timespec) -> c_int,
}

impl Plugin {
    fn load() -> Plugin {
        // SAFETY: a library that is loaded already; the handle stays open.
        let library = unsafe { libc::dlopen(c"libc.so.6".as_ptr(), libc::RTLD_NOW | libc::RTLD_NOLOAD) };
        ensure!(!library.is_null(), "libc.so.6 is not loaded");
        let find = |name: &CStr| {
            // SAFETY: the handle is open, the name ends with 0.
            let found = unsafe { libc::dlsym(library, name.as_ptr()) };
            ensure!(!found.is_null(), "libc.so.6 has no {}", name.to_string_lossy());
            found
        };
        // SAFETY: the C library's functions of these names have these types.
        unsafe {
            type Take = unsafe extern "C" fn(*mut pthread_mutex_t) -> c_int;
            type Timed = unsafe extern "C" fn(*mut pthread_mutex_t, *const timespec) -> c_int;
            Plugin {
                lock: std::mem::transmute::<*mut c_void, Take>(find(c"pthread_mutex_lock")),
                trylock: std::mem::transmute::<*mut c_void, Take>(find(c"pthread_mutex_trylock")),
                unlock: std::mem::transmute::<*mut c_void, Take>(find(c"pthread_mutex_unlock")),
                timedlock: std::mem::transmute::<*mut c_void, Timed>(find(c"pthread_mutex_timedlock")),
            }
        }
    }

    fn lock(&self, mutex: &Mutex) -> c_int {
        // SAFETY: a mutex that lives as long as the borrow.
        unsafe { (self.lock)(mutex.as_ptr()) }
    }

    fn trylock(&self, mutex: &Mutex) -> c_int {
        // SAFETY: as in `lock`.
        unsafe { (self.trylock)(mutex.as_ptr()) }
    }

    fn timedlock(&self, mutex: &Mutex, deadline: &timespec) -> c_int {
        // SAFETY: as in `lock`; the time lives through the call.
        unsafe { (self.timedlock)(mutex.as_ptr(), deadline) }
    }

    fn unlock(&self, mutex: &Mutex) -> c_int {
        // SAFETY: as in `lock`; only holders unlock.
        unsafe { (self.unlock)(mutex.as_ptr()) }
    }
}

/// Half of the operations go to the C library itself. Either side finds the lock held by the other, and wakes the
/// other's sleepers.
pub fn deepbind(seed: u64) {
    let plugin = Plugin::load();
    for attributes in [Attributes::default(), Attributes::kind(libc::PTHREAD_MUTEX_RECURSIVE)] {
        let mutex = &*Mutex::with(attributes);
        each_respects_the_other(&plugin, mutex);
        let section = Section::new();
        let visits = compete(5, WHILE, seed, |random| {
            let soon = in_ns(CLOCK_REALTIME, random.u64(..60_000) as i64);
            let code = match random.u64(..6) {
                0 => plugin.trylock(mutex),
                1 => plugin.timedlock(mutex, &soon),
                2 | 3 => plugin.lock(mutex),
                4 => mutex.timedlock(&soon),
                _ => mutex.lock(),
            };
            if code == EBUSY || code == ETIMEDOUT {
                return 0;
            }
            expect("a function that locks", code, 0);
            section.visit(random);
            // A lock taken on one side may be unlocked on the other.
            expect("an unlock", if random.u64(..2) == 0 { plugin.unlock(mutex) } else { mutex.unlock() }, 0);
            1
        });
        section.ensure_visits(visits);
        mutex.must_be_free();
    }
}

fn each_respects_the_other(plugin: &Plugin, mutex: &Mutex) {
    mutex.must_lock();
    expect("the plugin's trylock of a held lock", elsewhere(|| plugin.trylock(mutex)), EBUSY);
    wakes(|| expect("the plugin's lock", plugin.lock(mutex), 0), || plugin.unlock(mutex), || mutex.unlock());
    expect("the plugin's lock", plugin.lock(mutex), 0);
    mutex.must_be_held();
    wakes(|| mutex.must_lock(), || mutex.unlock(), || plugin.unlock(mutex));
    mutex.must_be_free();
}

/// Somebody sleeps for the lock that the caller holds; the caller's unlock wakes them.
fn wakes(take: impl Fn() + Sync, give: impl Fn() -> c_int + Sync, release: impl Fn() -> c_int) {
    let comes = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            comes.store(true, Ordering::SeqCst);
            take();
            expect("an unlock", give(), 0);
        });
        wait_for(|| comes.load(Ordering::SeqCst));
        let_others_sleep();
        expect("an unlock", release(), 0);
    });
}

/// Locked before any constructor, and held until the program itself unlocks it.
static EARLY: Mutex = Mutex::new();
/// Locked twice before any constructor.
static EARLY_RECURSIVE: Mutex = Mutex::recursive();
/// Locked by a constructor.
static CONSTRUCTED: Mutex = Mutex::new();

/// What a call returned before `main`, or that it has not been made.
const NOT_CALLED: c_int = -1;
static CODES: [AtomicI32; 9] = [const { AtomicI32::new(NOT_CALLED) }; 9];
const EXPECTED: [(&str, c_int); 9] = [
    ("pthread_mutex_lock before constructors", 0),
    ("pthread_mutex_trylock before constructors, of a held lock", EBUSY),
    ("pthread_mutex_unlock before constructors", 0),
    ("pthread_mutex_trylock before constructors", 0),
    ("pthread_mutex_lock before constructors, recursive", 0),
    ("pthread_mutex_timedlock before constructors, recursive", 0),
    ("pthread_mutex_timedlock before constructors, of a held lock", ETIMEDOUT),
    ("pthread_mutex_lock in a constructor", 0),
    ("pthread_mutex_trylock in a constructor, of a lock held from before", EBUSY),
];

type Constructor = extern "C" fn(c_int, *const *const c_char, *const *const c_char);

// These two run in every process of this program, and return at once but in the one whose behaviour they are.
#[used]
#[unsafe(link_section = ".preinit_array")]
static BEFORE_CONSTRUCTORS: Constructor = before_constructors;
#[used]
#[unsafe(link_section = ".init_array")]
static CONSTRUCTOR: Constructor = constructor;

/// The loader calls these functions before those of any library, so before any constructor of a preloaded one.
extern "C" fn before_constructors(count: c_int, words: *const *const c_char, _: *const *const c_char) {
    if !is_early(count, words) {
        return;
    }
    let past = timespec { tv_sec: 1, tv_nsec: 0 };
    let calls: [&dyn Fn() -> c_int; 7] = [
        &|| EARLY.lock(),
        &|| EARLY.trylock(),
        &|| EARLY.unlock(),
        &|| EARLY.trylock(),
        &|| EARLY_RECURSIVE.lock(),
        &|| EARLY_RECURSIVE.timedlock(&past),
        &|| EARLY.timedlock(&past),
    ];
    for (code, call) in CODES.iter().zip(calls) {
        code.store(call(), Ordering::Relaxed);
    }
}

extern "C" fn constructor(count: c_int, words: *const *const c_char, _: *const *const c_char) {
    if is_early(count, words) {
        CODES[7].store(CONSTRUCTED.lock(), Ordering::Relaxed);
        CODES[8].store(EARLY.trylock(), Ordering::Relaxed);
    }
}

/// Whether this is `holdup __behaviour early`. Nothing of the standard library's is used: it is not set up yet.
fn is_early(count: c_int, words: *const *const c_char) -> bool {
    if count < 3 {
        return false;
    }
    // SAFETY: the loader gives the program's arguments, `count` of them, each ended by 0.
    let word = |index: usize| unsafe { CStr::from_ptr(*words.add(index)) };
    word(1) == c"__behaviour" && word(2) == c"early"
}

/// The program's own part: everything is as it was left.
pub fn early(seed: u64) {
    // Named here so that the linker keeps them.
    std::hint::black_box((&BEFORE_CONSTRUCTORS, &CONSTRUCTOR));
    for (code, (call, expected)) in CODES.iter().zip(EXPECTED) {
        match code.load(Ordering::Relaxed) {
            NOT_CALLED => fail(format_args!("{call}: the loader has not called it")),
            code => expect(call, code, expected),
        }
    }
    for mutex in [&EARLY, &CONSTRUCTED] {
        mutex.must_be_held();
        wakes(|| mutex.must_lock(), || mutex.unlock(), || mutex.unlock());
        mutex.must_be_free();
    }
    for _ in 0..2 {
        EARLY_RECURSIVE.must_be_held();
        EARLY_RECURSIVE.must_unlock();
    }
    expect("pthread_mutex_unlock of a free recursive lock", EARLY_RECURSIVE.unlock(), EPERM);
    let section = Section::new();
    let visits = compete(4, WHILE / 2, seed, |random| {
        EARLY.must_lock();
        section.visit(random);
        EARLY.must_unlock();
        1
    });
    section.ensure_visits(visits);
    elsewhere(|| EARLY_RECURSIVE.must_be_free());
}
