//! How a process starts to be served, forks and ends, and how its threads get their slots.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

use holdup_control::{
    self as control, Figures, LOCKS, PATH, RwPolicy, STATE_LAYOUT, STATE_OTHER, STATE_RIVAL, STATE_SERVES, Settings,
    THREADS, ThreadSlot,
};

use super::kernel;
use super::process::{BETWEEN_SAMPLES, GENERATION, PROCESS, Process, Served, process};
use super::thread::{self, FIGURES, Thread};
use super::{clock, counted, files, modules, probe, read_write, real, record, strict};

/// Nothing has happened yet.
const NEW: u32 = 0;
/// A thread starts the process; all others go to glibc meanwhile.
const STARTING: u32 = 1;
/// All calls go to glibc.
const PASSES: u32 = 2;
/// Calls are served.
const SERVES: u32 = 3;
/// The process is the child of a fork and has no figures of its own yet.
const FORKED: u32 = 4;
/// Its stores are Release and its loads Acquire where `PROCESS` and the real functions are used afterwards, which the
/// one thread that starts has written before. x86-64 orders both by itself, so no test here can fail.
static STATE: AtomicU32 = AtomicU32::new(NEW);
/// Where the next thread begins to look for a free slot.
static NEXT_SLOT: AtomicUsize = AtomicUsize::new(0);
/// The key whose destructor gives slots back, plus one; 0 for none.
static KEY: AtomicU32 = AtomicU32::new(0);
/// Acquisitions between two ticks, less one: where only locks that were waited for have figures, and where acquisitions
/// are counted.
const BETWEEN_RARE_TICKS: u16 = 1023;
const BETWEEN_COUNTS: u16 = 31;

/// The calling thread's part in a call that is to be served; `None` if glibc is to do it.
#[inline]
pub fn enter() -> Option<Served> {
    let thread = thread::this();
    if thread.slot.get().is_null() {
        return enter_first(thread);
    }
    Some(Served { thread, process: process() })
}

#[cold]
fn enter_first(thread: &'static Thread) -> Option<Served> {
    if matches!(STATE.load(Ordering::Relaxed), PASSES | STARTING) {
        return None;
    }
    // SAFETY: always sound; the place is the thread's own.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: as above. A lock that succeeds is not expected to change it.
    let before = unsafe { errno.read() };
    let served = begin_thread(thread);
    // SAFETY: as above.
    unsafe { errno.write(before) };
    served
}

fn begin_thread(thread: &'static Thread) -> Option<Served> {
    match STATE.load(Ordering::Acquire) {
        PASSES | STARTING => return None,
        NEW => start(),
        FORKED => begin_child(),
        _ => {}
    }
    if STATE.load(Ordering::Acquire) != SERVES || thread.busy.replace(true) {
        return None;
    }
    let process = process();
    join(thread, process);
    thread.busy.set(false);
    Some(Served { thread, process })
}

/// Gives the thread a slot.
fn join(thread: &Thread, process: &'static Process) {
    let figures = process.figures();
    thread.tid.set(probe::tid());
    let free = if thread.ended.get() { None } else { free_slot(figures, thread.tid.get()) };
    match free {
        Some(at) => {
            figures.threads_len.fetch_max(at as u32 + 1, Ordering::Relaxed);
            thread.slot.set(&raw const figures.threads[at]);
            if !process.times_all() {
                thread.between_ticks.set(u32::from(process.between_ticks));
                thread.fast.set(thread.slot.get());
            }
            let key = KEY.load(Ordering::Relaxed);
            if key != 0 {
                // SAFETY: the key is one, and small enough that nothing is allocated. Any value but null calls the
                // destructor.
                unsafe { libc::pthread_setspecific(key - 1, ptr::from_ref(thread).cast()) };
            }
        }
        None => share_last(thread, figures),
    }
}

fn share_last(thread: &Thread, figures: &'static Figures) {
    thread.fast.set(ptr::null());
    thread.slot.set(&raw const figures.threads[THREADS - 1]);
    thread.shares_slot.set(true);
}

fn free_slot(figures: &Figures, tid: u32) -> Option<usize> {
    let own = THREADS - 1;
    let first = NEXT_SLOT.load(Ordering::Relaxed);
    let take = |at: usize, from: u32| {
        let slot: &ThreadSlot = &figures.threads[at];
        slot.tid.compare_exchange(from, tid, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    };
    let places = (0..own).map(|step| (first + step) % own);
    let unused = places.clone().find(|at| take(*at, 0));
    // A thread may end without its destructors; then its slot is found when all others are used.
    let found = unused.or_else(|| {
        places.clone().find(|at| {
            let there = figures.threads[*at].tid.load(Ordering::Relaxed);
            (there == tid || !kernel::thread_lives(there)) && take(*at, there)
        })
    });
    // The slots are used from the beginning, so that few are touched.
    NEXT_SLOT.store(found.map_or(0, |at| at + 1) % own, Ordering::Relaxed);
    found
}

/// The thread ends: another may have its slot. What it locks from now on counts in the last.
extern "C" fn thread_ends(_: *mut c_void) {
    let thread = thread::this();
    let Some(slot) = thread.figures() else { return };
    if thread.shares_slot.get() {
        return;
    }
    thread.ended.set(true);
    counted::settle(Served { thread, process: process() });
    let at = thread.number() as usize;
    thread.leave();
    slot.tid.store(0, Ordering::Relaxed);
    NEXT_SLOT.store(at, Ordering::Relaxed);
    share_last(thread, process().figures());
}

/// The first call, or the constructor, whichever comes first.
pub fn start() {
    if !libc_has_environment() || STATE.compare_exchange(NEW, STARTING, Ordering::Acquire, Ordering::Relaxed).is_err() {
        return;
    }
    real::look_up_all();
    let serves = begin();
    STATE.store(if serves { SERVES } else { PASSES }, Ordering::Release);
}

/// Whether the C library knows the environment. It does not while the program's very first functions run
/// (`.preinit_array`), nor does it know much else; those calls go to glibc, and a later one starts the process.
fn libc_has_environment() -> bool {
    unsafe extern "C" {
        static environ: *const *const c_char;
    }
    // SAFETY: the C library has this variable, and changes it only where no thread may look at the environment anyway.
    !unsafe { environ }.is_null()
}

fn begin() -> bool {
    let Some(folder) = files::folder() else { return false };
    let Some(settings) = files::map_settings(&folder) else { return false };
    let is_asked_for = is_asked_for(settings);
    if is_asked_for {
        make_futex_hash(settings);
    }
    let state = if !is_asked_for {
        STATE_OTHER
    } else if probe::has_rival() {
        STATE_RIVAL
    } else if !probe::layout_is_known() {
        STATE_LAYOUT
    } else {
        STATE_SERVES
    };
    let Some(figures) = files::make_figures(&folder, settings, state) else { return false };
    if state != STATE_SERVES {
        return false;
    }
    let bytes = LOCKS * size_of::<AtomicU64>();
    let Some(holds) = files::map(None, bytes) else { return false };
    // SAFETY: the memory is as large, zero, and is never unmapped.
    let holds = unsafe { std::slice::from_raw_parts(holds.cast::<AtomicU64>(), LOCKS) };
    let rules_len = (settings.rules_len as usize).min(control::RULES);
    let knows_rw = read_write::is_known();
    let rw = RwPolicy::unpack(settings.rw).filter(|_| knows_rw).unwrap_or_default();
    let of_rules = || settings.rules[..rules_len].iter().filter_map(|rule| RwPolicy::unpack(rule.rw));
    let mut process = Process {
        settings,
        figures,
        holds,
        profile: settings.profile,
        rw,
        has_rw_rules: knows_rw && of_rules().next().is_some(),
        prefers_writers: knows_rw && of_rules().chain([rw]).any(|policy| policy == RwPolicy::PreferWriter),
        rules_len,
        between_ticks: 0,
        folder,
    };
    process.between_ticks = match process.profile {
        _ if process.times_holds() => BETWEEN_SAMPLES,
        _ if process.profiles() => BETWEEN_COUNTS,
        _ => BETWEEN_RARE_TICKS,
    };
    if process.times_waits() {
        clock::calibrate();
    }
    // SAFETY: `STATE` is STARTING, so this thread alone writes, and nobody reads.
    unsafe { PROCESS.write(process) };
    FIGURES.store(figures, Ordering::Relaxed);
    modules::know_program(figures);
    arrange_ends();
    true
}

/// Whatever locks a program has, its futexes can have another table; each process has its own.
fn make_futex_hash(settings: &Settings) {
    match settings.futex_hash {
        0 => {}
        control::FUTEX_HASH_SHARED => kernel::set_futex_hash(0),
        slots => kernel::set_futex_hash(slots),
    }
}

/// Has slots given back when threads end, and children of forks begin anew.
fn arrange_ends() {
    let mut key = 0;
    // SAFETY: the place is there to be written, and the destructor has the right signature.
    if unsafe { libc::pthread_key_create(&raw mut key, Some(thread_ends)) } == 0 {
        // glibc allocates for the values of later keys, and nothing here may.
        const KEYS_WITHOUT_ALLOCATION: u32 = 32;
        if key < KEYS_WITHOUT_ALLOCATION {
            KEY.store(key + 1, Ordering::Relaxed);
        }
    }
    unsafe extern "C" {
        fn __register_atfork(
            prepare: Option<extern "C" fn()>,
            parent: Option<extern "C" fn()>,
            child: Option<extern "C" fn()>,
            library: *const c_void,
        ) -> c_int;
    }
    // SAFETY: the library is never unloaded, so the handlers belong to none.
    unsafe { __register_atfork(None, None, Some(child_begins), ptr::null()) };
}

/// In the child of a fork, in its only thread.
extern "C" fn child_begins() {
    if STATE.load(Ordering::Relaxed) == SERVES {
        GENERATION.fetch_add(1, Ordering::Relaxed);
        NEXT_SLOT.store(0, Ordering::Relaxed);
        STATE.store(FORKED, Ordering::Relaxed);
    }
    let thread = thread::this();
    thread.leave();
    thread.ended.set(false);
    thread.busy.set(false);
}

/// The child's first call: figures of its own take the place of its parent's.
fn begin_child() {
    if STATE.compare_exchange(FORKED, STARTING, Ordering::Acquire, Ordering::Relaxed).is_err() {
        return;
    }
    let process = process();
    make_futex_hash(process.settings);
    let serves = files::make_figures(&process.folder, process.settings, STATE_SERVES).is_some_and(|new| {
        // SAFETY: both are mapped, and no other thread of the child uses either before `STATE` says so.
        unsafe {
            record::copy_identities(process.figures, new);
            let size = size_of::<Figures>();
            let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
            libc::mremap(new.cast(), size, size, flags, process.figures.cast::<c_void>()) != libc::MAP_FAILED
        }
    });
    STATE.store(if serves { SERVES } else { PASSES }, Ordering::Release);
}

/// The process ends by itself.
pub fn end() {
    if STATE.load(Ordering::Acquire) == SERVES {
        let thread = thread::this();
        counted::settle(Served { thread, process: process() });
        if strict::is_on() {
            return;
        }
        record::settle_all(process());
        process().figures().ended_ns.store(kernel::now_ns(), Ordering::Relaxed);
    }
}

/// Whether the settings are for this program: by the name of its file, or by the name that it was started with.
fn is_asked_for(settings: &Settings) -> bool {
    let wanted = control::path(&settings.program);
    if wanted.is_empty() {
        return true;
    }
    let mut program = [0; PATH];
    let len = files::exe(&mut program);
    if last_part(&program[..len]) == wanted {
        return true;
    }
    // SAFETY: always sound.
    let started = unsafe { libc::getauxval(libc::AT_EXECFN) } as *const c_char;
    // SAFETY: the kernel gives a string that ends with 0, or nothing.
    !started.is_null() && last_part(unsafe { CStr::from_ptr(started) }.to_bytes()) == wanted
}

fn last_part(path: &[u8]) -> &[u8] {
    path.rsplit(|byte| *byte == b'/').next().unwrap_or_default()
}

#[cfg(not(test))]
mod arranged {
    //! What the loader calls.

    #[used]
    #[unsafe(link_section = ".init_array")]
    static CONSTRUCTOR: extern "C" fn() = begin;
    #[used]
    #[unsafe(link_section = ".fini_array")]
    static DESTRUCTOR: extern "C" fn() = end;

    extern "C" fn begin() {
        super::start();
    }

    extern "C" fn end() {
        super::end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_part_of_a_path() {
        assert_eq!(last_part(b"/usr/bin/true"), b"true");
        assert_eq!(last_part(b"true"), b"true");
    }
}
