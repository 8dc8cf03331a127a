//! What a futex stands for, from the call path of a thread that waits on it.
//!
//! Libraries are built in layers, so the path is read from the innermost frame outward, as long as it is a library's. A
//! row of [`RULES`] that is firm decides. One that is soft (threads are parked, condition variables are waited on,
//! inside other things) may be refined by what lies further out; one that is weak only counts if nothing better is
//! found.

use holdup_trace::FutexOp;

use super::pattern::{any, fits, plain};
use super::{Frame, Role};
use crate::facts::Primitive;

/// How sure a function's name makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Hint {
    /// It is this.
    Firm(Primitive),
    /// It is this, unless a function further out says what it is for.
    Soft(Primitive),
    /// It is this if nothing else is known.
    Weak(Primitive),
}

use Hint::{Firm, Soft, Weak};
use Primitive::*;

/// Function to primitive; the first row that fits counts.
const RULES: &[(&str, Hint)] = &[
    // glibc and musl. Its low-level lock has two slow paths: the private one is only for locks inside libc.
    ("lll_lock_wait_private", Firm(Libc)),
    ("lll_lock_wait*", Weak(Mutex)),
    ("pthread_mutex_cond_lock*", Firm(Mutex)),
    ("pthread_mutex_*", Firm(Mutex)),
    ("mtx_*", Firm(Mutex)),
    // Our own interposer, entered by a jump, waits in place of these.
    ("holdup_preload::*", Weak(Mutex)),
    ("pthread_cond_*", Soft(Condvar)),
    ("private_cond_signal", Soft(Condvar)),
    ("cnd_*", Soft(Condvar)),
    ("pthread_rwlock_*", Firm(RwLock)),
    ("pthread_barrier_*", Firm(Barrier)),
    ("pthread_join*", Firm(Join)),
    ("pthread_timedjoin*", Firm(Join)),
    ("pthread_clockjoin*", Firm(Join)),
    ("thrd_join", Firm(Join)),
    ("pthread_once*", Firm(Once)),
    ("call_once", Firm(Once)),
    ("cxa_guard_*", Firm(Once)),
    ("__cxxabiv1::__cxa_guard_*", Firm(Once)),
    ("sem_*", Firm(Semaphore)),
    ("new_sem_*", Firm(Semaphore)),
    ("old_sem_*", Firm(Semaphore)),
    ("gomp_*barrier*", Firm(Barrier)),
    ("GOMP_barrier*", Firm(Barrier)),
    ("GOMP_critical_*", Firm(OtherLock)),
    ("GOMP_atomic_*", Firm(OtherLock)),
    ("omp_set_lock*", Firm(OtherLock)),
    ("omp_set_nest_lock*", Firm(OtherLock)),
    ("gomp_mutex_*", Firm(OtherLock)),
    ("gomp_team_*", Soft(Barrier)),
    ("kmp_*barrier*", Firm(Barrier)),
    // Memory and streams of libc, in builds that hide the names of its locks.
    ("malloc*", Firm(Libc)),
    ("libc_malloc*", Firm(Libc)),
    ("calloc", Firm(Libc)),
    ("realloc", Firm(Libc)),
    ("free", Firm(Libc)),
    ("cfree", Firm(Libc)),
    ("int_malloc*", Firm(Libc)),
    ("int_free*", Firm(Libc)),
    ("arena_get*", Firm(Libc)),
    ("tcache_*", Firm(Libc)),
    ("memalign", Firm(Libc)),
    ("posix_memalign", Firm(Libc)),
    ("aligned_alloc", Firm(Libc)),
    ("IO_*", Firm(Libc)),
    ("dl_*", Firm(Libc)),
    // C++.
    ("std::condition_variable*", Soft(Condvar)),
    ("std::__condvar::*", Soft(Condvar)),
    ("std::counting_semaphore*", Firm(Semaphore)),
    ("std::__atomic_semaphore*", Firm(Semaphore)),
    ("std::__platform_semaphore*", Firm(Semaphore)),
    ("std::latch::*", Firm(Barrier)),
    ("std::barrier*", Firm(Barrier)),
    ("std::__tree_barrier*", Firm(Barrier)),
    ("std::call_once*", Firm(Once)),
    ("std::thread::join", Firm(Join)),
    ("std::shared_mutex::*", Firm(RwLock)),
    ("std::shared_timed_mutex::*", Firm(RwLock)),
    ("std::__shared_mutex*", Firm(RwLock)),
    ("std::__shared_timed_mutex*", Firm(RwLock)),
    ("std::mutex::*", Firm(Mutex)),
    ("std::recursive_mutex::*", Firm(Mutex)),
    ("std::timed_mutex::*", Firm(Mutex)),
    ("std::__future_base*", Firm(Park)),
    ("std::__basic_future*", Firm(Park)),
    ("std::future*", Firm(Park)),
    ("std::shared_future*", Firm(Park)),
    ("std::promise*", Firm(Park)),
    // Rust: std, in its layouts of the last years.
    ("std::sys::sync::mutex*", Firm(RustMutex)),
    ("std::sys::sync::rwlock*", Firm(RwLock)),
    ("std::sys::sync::condvar*", Soft(Condvar)),
    ("std::sys::sync::once*", Firm(Once)),
    ("std::sys::sync::thread_parking*", Soft(Park)),
    ("std::sys::pal::unix::sync::mutex*", Firm(RustMutex)),
    ("std::sys::pal::unix::sync::condvar*", Soft(Condvar)),
    ("std::sys::unix::locks::futex_mutex*", Firm(RustMutex)),
    ("std::sys::unix::locks::futex_rwlock*", Firm(RwLock)),
    ("std::sys::unix::locks::futex_condvar*", Soft(Condvar)),
    ("std::sys_common::once*", Firm(Once)),
    ("std::sys_common::thread_parking*", Soft(Park)),
    ("std::sync::barrier*", Firm(Barrier)),
    ("std::sync::once*", Firm(Once)),
    ("std::sync::poison::once*", Firm(Once)),
    ("std::sync::lazy_lock*", Firm(Once)),
    ("std::sync::mpsc*", Firm(Park)),
    ("std::sync::mpmc*", Firm(Park)),
    ("std::sync::poison::mutex*", Weak(RustMutex)),
    ("std::sync::mutex*", Weak(RustMutex)),
    ("std::sync::poison::rwlock*", Weak(RwLock)),
    ("std::sync::rwlock*", Weak(RwLock)),
    ("std::sync::poison::condvar*", Soft(Condvar)),
    ("std::sync::condvar*", Soft(Condvar)),
    ("std::sync::reentrant_lock*", Weak(RustMutex)),
    ("std::thread::scoped*", Firm(Join)),
    ("std::thread::JoinHandle*", Firm(Join)),
    ("std::thread::JoinInner*", Firm(Join)),
    ("std::thread::*join*", Firm(Join)),
    ("std::sys*Thread::join", Firm(Join)),
    ("std::thread::*park*", Soft(Park)),
    // Rust: what most programs use beside it.
    ("parking_lot::raw_mutex*", Firm(ParkingLotMutex)),
    ("parking_lot::raw_fair_mutex*", Firm(ParkingLotMutex)),
    ("parking_lot::mutex*", Firm(ParkingLotMutex)),
    ("parking_lot::raw_rwlock*", Firm(RwLock)),
    ("parking_lot::rwlock*", Firm(RwLock)),
    ("parking_lot::condvar*", Firm(Condvar)),
    ("parking_lot::once*", Firm(Once)),
    ("parking_lot::*", Weak(ParkingLotMutex)),
    ("parking_lot_core::word_lock*", Firm(OtherLock)),
    ("lock_api::mutex*", Weak(ParkingLotMutex)),
    ("lock_api::rwlock*", Weak(RwLock)),
    ("crossbeam_utils::sync::wait_group*", Firm(Join)),
    ("crossbeam_utils::sync::parker*", Soft(Park)),
    ("crossbeam_utils::sync::sharded_lock*", Firm(RwLock)),
    ("crossbeam_channel::*", Firm(Park)),
    ("crossbeam::channel::*", Firm(Park)),
    ("flume::*", Firm(Park)),
    ("event_listener::*", Firm(Park)),
    ("once_cell::*", Firm(Once)),
    ("usync::*rwlock*", Firm(RwLock)),
    ("usync::*condvar*", Firm(Condvar)),
    ("usync::*", Weak(OtherLock)),
    ("spin::*", Weak(OtherLock)),
    ("holdup_locks::*", Weak(OtherLock)),
    ("dashmap::lock::*", Weak(RwLock)),
    // Go.
    ("runtime.lock", Firm(GoRuntime)),
    ("runtime.lock2", Firm(GoRuntime)),
    ("runtime.lockWithRank*", Firm(GoRuntime)),
    ("runtime.unlock*", Firm(GoRuntime)),
    ("runtime.note*", Firm(Park)),
    ("runtime.mPark", Firm(Park)),
    ("runtime.stopm", Firm(Park)),
    ("runtime.futexsleep*", Weak(GoRuntime)),
    ("runtime.futexwakeup*", Weak(GoRuntime)),
    ("runtime.*", Weak(GoRuntime)),
    // Java's monitors, .NET's, and Ruby's mutexes.
    ("ObjectMonitor::enter*", Firm(OtherLock)),
    ("ObjectMonitor::ReenterI", Firm(OtherLock)),
    ("AwareLock::Enter*", Firm(OtherLock)),
    ("rb_mutex_lock*", Firm(OtherLock)),
    ("rb_mutex_synchronize", Firm(OtherLock)),
    // Python's interpreter.
    ("take_gil", Firm(InterpreterLock)),
    // Libraries of C++.
    ("absl::CondVar*", Firm(Condvar)),
    ("absl::Mutex::Await*", Firm(Condvar)),
    ("absl::Notification*", Firm(Park)),
    ("absl::BlockingCounter*", Firm(Barrier)),
    ("absl::Barrier*", Firm(Barrier)),
    ("absl::Mutex*", Soft(OtherLock)),
    ("absl::base_internal::SpinLock*", Firm(OtherLock)),
    ("AbslInternalSpinLock*", Firm(OtherLock)),
    ("folly::SharedMutex*", Firm(RwLock)),
    ("folly::Baton*", Firm(Park)),
    ("folly::MicroLock*", Firm(OtherLock)),
    ("folly::DistributedMutex*", Firm(OtherLock)),
    ("folly::detail::distributed_mutex*", Firm(OtherLock)),
    ("tbb::*semaphore*", Soft(Park)),
    ("tbb::*monitor*", Soft(Park)),
    ("tbb::*mutex*", Firm(OtherLock)),
    ("boost::condition_variable*", Soft(Condvar)),
    ("boost::shared_mutex*", Firm(RwLock)),
    ("boost::barrier*", Firm(Barrier)),
    ("boost::mutex*", Firm(Mutex)),
    ("QMutex*", Firm(OtherLock)),
    ("QBasicMutex*", Firm(OtherLock)),
    ("QRecursiveMutex*", Firm(OtherLock)),
    ("QWaitCondition*", Firm(Condvar)),
    ("QSemaphore*", Firm(Semaphore)),
    ("QReadWriteLock*", Firm(RwLock)),
    ("g_mutex_*", Firm(OtherLock)),
    ("g_cond_*", Firm(Condvar)),
];

/// How many of the program's own functions are asked for a telling name.
const OWN_FUNCTIONS: usize = 4;

/// What a futex is, from an operation on it and where that was called.
pub(super) fn classify(op: FutexOp, call_path: &[Frame]) -> Primitive {
    match op.command() {
        FutexOp::LOCK_PI | FutexOp::LOCK_PI2 | FutexOp::UNLOCK_PI | FutexOp::TRYLOCK_PI => return PiMutex,
        FutexOp::WAIT_REQUEUE_PI | FutexOp::CMP_REQUEUE_PI => return Condvar,
        _ => {}
    }
    let user = call_path.iter().skip_while(|frame| matches!(frame.role, Role::Kernel | Role::Scheduler));
    let library = user.clone().take_while(|frame| frame.role != Role::Program);
    by_library(library.clone())
        .or_else(|| joins(op, library.clone()).then_some(Join))
        .or_else(|| by_own_names(library, user))
        .unwrap_or_default()
}

/// Reads the library's frames, from the innermost to the first that is the program's.
fn by_library<'f>(library: impl Iterator<Item = &'f Frame>) -> Option<Primitive> {
    let mut soft = None;
    let mut weak = None;
    for frame in library {
        let Some(hint) = frame.function.as_deref().and_then(hint) else {
            weak = weak.or(is_inside_libc(frame).then_some(Libc)).or(frame.is_of_openmp().then_some(Barrier));
            continue;
        };
        match (soft, hint) {
            (None, Firm(primitive)) => return Some(primitive),
            (None, Soft(primitive)) => soft = Some(primitive),
            (None, Weak(primitive)) => weak = weak.or(Some(primitive)),
            (Some(inner), Firm(outer) | Soft(outer)) if refines(inner, outer) => soft = Some(outer),
            _ => {}
        }
    }
    soft.or(weak)
}

/// Whether it is a function of libc that does not wait by its nature: where that waits, it waits for a lock inside
/// libc.
fn is_inside_libc(frame: &Frame) -> bool {
    let starts = ["start_thread", "clone*", "*libc_start_*"];
    let libc = frame.module.rsplit('/').next().is_some_and(|file| file.starts_with("libc."));
    let function = frame.function.as_deref().map(plain);
    libc && frame.role == Role::Runtime && function.is_some_and(|name| !any(&starts, &name))
}

/// Whether a primitive can be built of another one, so that the outer is what the program waits for.
fn refines(inner: Primitive, outer: Primitive) -> bool {
    match inner {
        Condvar => matches!(outer, Barrier | Semaphore | Join | Once | Park | RwLock | OtherLock | InterpreterLock),
        Park => matches!(outer, Barrier | Semaphore | Join | Once | Condvar | RwLock),
        OtherLock => outer == Condvar,
        _ => false,
    }
}

fn hint(function: &str) -> Option<Hint> {
    // musl's lock for its own use would be anybody's without the underscores.
    if matches!(function, "__lock" | "__lockfile" | "__tl_lock" | "__tl_sync") {
        return Some(Firm(Libc));
    }
    let name = plain(function);
    RULES.iter().find(|(pattern, _)| fits(pattern, &name)).map(|(_, hint)| *hint)
}

/// The kernel wakes whoever joins a thread on a word that is not private, which hardly anything else uses. It tells
/// joining apart where libc's own names are hidden.
fn joins<'f>(op: FutexOp, mut library: impl Iterator<Item = &'f Frame>) -> bool {
    let shared = op.command() == FutexOp::WAIT_BITSET && op.is_realtime() && !op.is_private();
    shared && library.all(|frame| frame.function.is_none() || frame.role == Role::Runtime)
}

/// A lock that the program brought itself: nothing but the names of its functions tells. A function without a name in
/// between may be a library's way to wait: then they tell nothing.
fn by_own_names<'f>(
    mut library: impl Iterator<Item = &'f Frame>,
    user: impl Iterator<Item = &'f Frame>,
) -> Option<Primitive> {
    if library.any(|frame| frame.function.is_none()) {
        return None;
    }
    let own = user.filter(|frame| frame.role == Role::Program).take(OWN_FUNCTIONS);
    own.filter_map(|frame| frame.function.as_deref()).find_map(|name| words(name).find_map(|word| by_word(&word)))
}

fn by_word(word: &str) -> Option<Primitive> {
    Some(match word {
        "lock" | "mutex" | "mtx" | "spinlock" | "acquire" | "futexlock" | "mutexlock" => OtherLock,
        "rwlock" => RwLock,
        "barrier" => Barrier,
        "sem" | "semaphore" | "sema" => Semaphore,
        "cond" | "condvar" | "cv" => Condvar,
        "park" | "parker" | "idle" => Park,
        "join" => Join,
        "once" => Once,
        _ => return None,
    })
}

/// Whether a function's name says that it sleeps; tasks of Ada call it a delay.
pub(crate) fn is_sleep(function: &str) -> bool {
    words(function).any(|word| word == "sleep" || word == "delay")
}

/// Whether a function takes a mutex or a monitor of a runtime: Java's, Ruby's, .NET's.
pub(crate) fn takes_mutex_of_runtime(function: &str) -> bool {
    ["ObjectMonitor::enter", "rb_mutex_", "AwareLock::Enter"].iter().any(|start| function.starts_with(start))
}

/// Whether a function of Go waits for a wait group.
pub(crate) fn is_wait_for_group(function: &str) -> bool {
    function == "sync.(*WaitGroup).Wait"
}

/// Whether it is a function in which asio hands its threads what to run, Boost's or that without it.
pub(crate) fn is_scheduler_of_asio(function: &str) -> bool {
    function.trim_start_matches("boost::").starts_with("asio::detail::scheduler::")
}

/// The words of a function's name in lower case, without its arguments: `MyLock::lockSlow` gives my, lock, lock, slow.
pub(crate) fn words(name: &str) -> impl Iterator<Item = String> {
    let mut words = vec![String::new()];
    let mut depth = 0_usize;
    let mut before = ' ';
    for letter in name.chars() {
        match letter {
            '<' | '(' => depth += 1,
            '>' | ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        let begins = !letter.is_alphanumeric() || (letter.is_uppercase() && !before.is_uppercase());
        if begins {
            words.push(String::new());
        }
        if letter.is_alphanumeric() && depth == 0 {
            words.iter_mut().last().into_iter().for_each(|word| word.extend(letter.to_lowercase()));
        }
        before = letter;
    }
    words.into_iter().filter(|word| !word.is_empty())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::roles;
    use super::*;

    const PRIVATE: u32 = 128;
    const REALTIME: u32 = 256;

    fn call_path(path: &str) -> Vec<Frame> {
        let frames = path.split(" < ").map(|name| {
            let (module, name) = match name.strip_prefix("libc:") {
                Some(name) => ("/usr/lib/libc.so.6", name),
                None => ("/home/me/server", name),
            };
            let function = (name != "?").then(|| Arc::<str>::from(name));
            let role = match name {
                "futex_wait" => Role::Scheduler,
                _ => roles::of(function.as_deref(), module, None),
            };
            Frame {
                address: 0,
                function,
                module: module.into(),
                offset: 0,
                start: 0,
                file: None,
                line: None,
                inlined: false,
                role,
            }
        });
        frames.collect()
    }

    #[test]
    fn what_sleeps_says_so() {
        assert!(is_sleep("std::this_thread::sleep_for") && is_sleep("clock_nanosleep_sleep"));
        assert!(is_sleep("system__task_primitives__operations__monotonic__timed_delayXnn"), "Ada's word");
        assert!(!is_sleep("oversleepy") && !is_sleep("undelayed"));
    }

    fn waits(path: &str) -> Primitive {
        classify(FutexOp(FutexOp::WAIT_BITSET | PRIVATE), &call_path(path))
    }

    #[test]
    fn every_library_has_its_way_to_wait() {
        for (path, primitive) in [
            ("futex_wait < __lll_lock_wait < pthread_mutex_lock < worker", Mutex),
            (
                "__lll_lock_wait < pthread_mutex_lock < std::mutex::lock < std::lock_guard<std::mutex>::lock_guard < f",
                Mutex,
            ),
            ("__lll_lock_wait < worker", Mutex),
            ("__lll_lock_wait < __pthread_mutex_cond_lock < pthread_cond_wait < worker", Mutex),
            ("__futex_abstimed_wait_common < pthread_cond_wait@@GLIBC_2.3.2 < worker", Condvar),
            ("__futex_abstimed_wait_common < pthread_cond_wait < std::condition_variable::wait < queue", Condvar),
            ("__futex_abstimed_wait_common < pthread_rwlock_wrlock < f", RwLock),
            ("__futex_abstimed_wait_common < __pthread_clockjoin_ex < std::thread::join < main", Join),
            ("__new_sem_wait_slow64 < sem_wait < f", Semaphore),
            ("pthread_barrier_wait < f", Barrier),
            ("__lll_lock_wait_private < malloc < f", Libc),
            ("libc:? < libc:malloc < f", Libc),
            ("libc:? < libc:fputs < f", Libc),
            ("libc:? < libc:pthread_mutex_lock < f", Mutex),
            ("libc:? < libc:start_thread", Unknown),
            ("__timedwait < pthread_mutex_timedlock < f", Mutex),
            ("__lock < fputs < f", Libc),
            (
                "syscall < std::__atomic_futex_unsigned_base::_M_futex_wait_until < \
                 std::__future_base::_State_baseV2::wait < f",
                Park,
            ),
            (
                "std::sys::pal::unix::futex::futex_wait < std::sys::sync::mutex::futex::Mutex::lock_contended < f",
                RustMutex,
            ),
            (
                "std::sys::pal::unix::futex::futex_wait < std::sys::sync::condvar::futex::Condvar::wait < \
                 std::sync::barrier::Barrier::wait < f",
                Barrier,
            ),
            ("std::sys::pal::unix::futex::futex_wait < std::sys::sync::condvar::futex::Condvar::wait < f", Condvar),
            ("std::sys::pal::unix::futex::futex_wait < std::thread::park < std::thread::scoped::scope < f", Join),
            ("std::thread::park < std::sync::mpmc::list::Channel<T>::recv < f", Park),
            ("std::thread::park < my_executor", Park),
            (
                "syscall < parking_lot_core::thread_parker::imp::ThreadParker::futex_wait < \
                 parking_lot_core::parking_lot::park < parking_lot::raw_mutex::RawMutex::lock_slow < f",
                ParkingLotMutex,
            ),
            ("parking_lot_core::parking_lot::park < parking_lot::condvar::Condvar::wait_until_internal < f", Condvar),
            ("runtime.futex < runtime.futexsleep < runtime.lock2 < runtime.schedule", GoRuntime),
            ("runtime.futex < runtime.futexsleep < runtime.notesleep < runtime.stopm < runtime.schedule", Park),
            ("syscall < AbslInternalPerThreadSemWait < absl::Mutex::Block < absl::CondVar::WaitCommon < f", Condvar),
            ("syscall < AbslInternalPerThreadSemWait < absl::Mutex::Block < absl::Mutex::LockSlow < f", OtherLock),
            ("pthread_cond_wait < rb_native_cond_wait < rb_mutex_synchronize < ?", OtherLock),
            ("pthread_cond_wait < AwareLock::EnterEpilogHelper < Shop.Cart.Add", OtherLock),
            ("syscall < my_lock < worker", OtherLock),
            ("syscall < TicketLock::acquireSlow < worker", OtherLock),
            ("syscall < eventcount_sleep < worker", Unknown),
            ("syscall < unlockBlocked < clock", Unknown),
            ("? < ?", Unknown),
            ("", Unknown),
        ] {
            assert_eq!(waits(path), primitive, "{path}");
        }
    }

    #[test]
    fn operations_that_only_one_primitive_uses() {
        let mine = call_path("f");
        assert_eq!(classify(FutexOp(FutexOp::LOCK_PI | PRIVATE), &mine), PiMutex);
        assert_eq!(classify(FutexOp(FutexOp::UNLOCK_PI), &[]), PiMutex);
        assert_eq!(classify(FutexOp(FutexOp::WAIT_REQUEUE_PI), &[]), Condvar);
        let join = FutexOp(FutexOp::WAIT_BITSET | REALTIME);
        assert_eq!(classify(join, &call_path("libc:? < libc:? < f")), Join);
        assert_eq!(classify(join, &call_path("libc:? < pthread_cond_wait < f")), Condvar);
        assert_eq!(classify(join, &call_path("syscall < f")), Unknown, "the program's own call");
        assert_eq!(classify(FutexOp(FutexOp::WAIT | PRIVATE), &call_path("libc:? < my_lock")), Unknown);
    }
}
