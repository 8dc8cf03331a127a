//! Whose code a function is, so that the first frame of the program is the one that its author calls "my function".

use super::Role;
use super::pattern::{any, plain};

/// Functions of the kernel that are the way off the CPU and back, not what a program asked for.
const SCHEDULER: &[&str] = &[
    "schedule*",
    "futex_*",
    "do_futex*",
    "x64_sys_futex*",
    "arm64_sys_futex*",
    "do_sys_futex*",
    "se_sys_futex*",
    "se_compat_sys_futex*",
    "preempt_schedule*",
    "io_schedule*",
    "finish_task_switch*",
    "switch_to*",
    "context_switch*",
    "pick_next_task*",
    "try_to_wake_up*",
    "wake_up_q",
    "wake_up_process",
    "ttwu_*",
    "dequeue_task*",
    "enqueue_task*",
    "do_nanosleep",
    "x64_sys_sched_yield",
    "do_sched_yield",
    "yield_task*",
    "prepare_task_switch*",
    // The recorder's own programs inside the kernel.
    "bpf_trace_run*",
    "bpf_prog_*",
];

/// Ways to wait, of every library that is known.
const LOCK: &[&str] = &[
    // Our own interposer.
    "holdup_preload::*",
    // POSIX, as in glibc and musl, and the C11 names.
    "pthread_mutex_*",
    "pthread_cond_*",
    "pthread_rwlock_*",
    "pthread_barrier_*",
    "pthread_spin_*",
    "pthread_join*",
    "pthread_timedjoin*",
    "pthread_clockjoin*",
    "pthread_tryjoin*",
    "pthread_once*",
    "private_cond_signal",
    "lll_*",
    "futex_*",
    "sem_wait*",
    "sem_timedwait*",
    "sem_clockwait*",
    "sem_trywait*",
    "sem_post*",
    "new_sem_*",
    "old_sem_*",
    "do_futex_wait*",
    "mtx_*",
    "cnd_*",
    "thrd_join",
    "call_once",
    "syscall",
    "syscall_cancel*",
    "internal_syscall_cancel*",
    "timedwait",
    "timedwait_cp",
    "syscall_cp*",
    "syscall_cp_c",
    "gthread_*",
    "gthrw_*",
    "cxa_guard_acquire",
    "cxa_guard_release",
    "cxxabiv1::__cxa_guard_*",
    "__cxxabiv1::__cxa_guard_*",
    "gomp_*wait*",
    "gomp_mutex_*",
    "gomp_barrier_*",
    "gomp_team_barrier_*",
    // C++.
    "std::mutex::*",
    "std::__mutex_base::*",
    "std::timed_mutex::*",
    "std::__timed_mutex_impl*",
    "std::recursive_mutex::*",
    "std::recursive_timed_mutex::*",
    "std::shared_mutex::*",
    "std::shared_timed_mutex::*",
    "std::__shared_mutex*",
    "std::__shared_timed_mutex*",
    "std::unique_lock*",
    "std::lock_guard*",
    "std::scoped_lock*",
    "std::shared_lock*",
    "std::lock",
    "std::lock<*",
    "std::try_lock*",
    "std::__detail::__lock_impl*",
    "std::condition_variable*",
    "std::__condvar::*",
    "std::call_once*",
    "std::once_flag*",
    "std::thread::join",
    "std::jthread::join",
    "std::__atomic_futex_unsigned*",
    "std::__atomic_wait*",
    "std::__atomic_notify*",
    "std::__atomic_semaphore*",
    "std::__platform_semaphore*",
    "std::__platform_wait*",
    "std::__detail::*wait*",
    "std::__detail::*semaphore*",
    "std::counting_semaphore*",
    "std::latch::*",
    "std::barrier*",
    "std::__tree_barrier*",
    "std::future*",
    "std::shared_future*",
    "std::promise*",
    "std::__basic_future*",
    "std::__future_base*",
    "std::__libcpp_*",
    // Rust.
    "std::sync::*",
    "std::sys::sync::*",
    "std::sys_common::mutex*",
    "std::sys_common::rwlock*",
    "std::sys_common::condvar*",
    "std::sys_common::thread_park*",
    "std::sys::futex*",
    "std::sys::unix::futex*",
    "std::sys::unix::locks*",
    "std::sys::unix::thread_park*",
    "std::sys::pal::unix::futex*",
    "std::sys::pal::unix::sync*",
    "std::sys::pal::unix::thread::Thread::join*",
    "std::sys::thread*::join*",
    "std::thread::park*",
    "std::thread::scoped::*",
    "std::thread::JoinHandle*",
    "std::thread::JoinInner*",
    "std::thread::join_handle*",
    "std::thread::lifecycle::Join*",
    "std::thread::Thread::park*",
    "std::thread::Thread::unpark*",
    "std::thread::thread::Thread::park*",
    "std::thread::thread::Thread::unpark*",
    "std::sys::thread::unix::Thread::join*",
    "std::sys::thread_parking*",
    "parking_lot::*",
    "parking_lot_core::*",
    "lock_api::*",
    "crossbeam_utils::backoff::*",
    "crossbeam_utils::sync::*",
    "crossbeam_channel::*",
    "crossbeam::sync::*",
    "crossbeam::channel::*",
    "flume::*",
    "once_cell::*",
    "usync::*",
    "spin::*",
    "spinning_top::*",
    "atomic_wait::*",
    "event_listener::*",
    "dashmap::lock::*",
    "holdup_locks::*",
    "linux_futex::*",
    // Go.
    "runtime.futex*",
    "runtime.lock",
    "runtime.lock2",
    "runtime.lockWithRank*",
    "runtime.unlock*",
    "runtime.note*",
    "runtime.sema*",
    "runtime.semrelease*",
    "runtime.mPark",
    "runtime.stopm",
    "runtime.gopark*",
    "runtime.(*mutex*",
    "sync.runtime_*",
    "sync.(*",
    "sync.On*",
    "internal/sync.*",
    "internal/poll.runtime_Sem*",
    "internal/poll.(*fdMutex)*",
    // Libraries of C++.
    "absl::Mutex*",
    "absl::MutexLock*",
    "absl::ReaderMutexLock*",
    "absl::WriterMutexLock*",
    "absl::CondVar*",
    "absl::Notification*",
    "absl::BlockingCounter*",
    "absl::Barrier*",
    "absl::synchronization_internal::*",
    "absl::base_internal::SpinLock*",
    "absl::base_internal::LowLevel*",
    "AbslInternalPerThreadSem*",
    "AbslInternalSpinLock*",
    "AbslInternalMutex*",
    "folly::SharedMutex*",
    "folly::Baton*",
    "folly::MicroLock*",
    "folly::MicroSpinLock*",
    "folly::DistributedMutex*",
    "folly::futex*",
    "folly::detail::futex*",
    "folly::detail::MemoryIdler*",
    "folly::detail::Futex*",
    "folly::detail::distributed_mutex*",
    "tbb::*mutex*",
    "tbb::*semaphore*",
    "tbb::*futex*",
    "tbb::*concurrent_monitor*",
    "tbb::detail::*",
    "boost::mutex*",
    "boost::timed_mutex*",
    "boost::recursive_mutex*",
    "boost::shared_mutex*",
    "boost::unique_lock*",
    "boost::lock_guard*",
    "boost::shared_lock*",
    "boost::condition_variable*",
    "boost::barrier*",
    "boost::interprocess::ipcdetail::*",
    "boost::posix::*",
    "QMutex*",
    "QBasicMutex*",
    "QRecursiveMutex*",
    "QWaitCondition*",
    "QSemaphore*",
    "QReadWriteLock*",
    "QtLinuxFutex*",
    // GLib.
    "g_mutex_*",
    "g_rec_mutex_*",
    "g_rw_lock_*",
    "g_cond_*",
    // Node: what is behind Atomics.wait.
    "v8::internal::FutexEmulation::*",
    "v8::internal::Builtin_Atomics*",
    // .NET's monitors.
    "AwareLock::*",
    // Ruby.
    "rb_mutex_*",
    "rb_native_cond_*",
    "rb_native_mutex_*",
    "rb_nativethread_cond_*",
    // The park and monitor functions of Java's library, where a map names them.
    "java.util.concurrent.locks.*",
    "jdk.internal.misc.Unsafe.park",
    "jdk.internal.misc.Unsafe.unpark",
];

/// Ways to wait in the Java virtual machine's own library, whose other names are too plain to be known by themselves.
const LOCK_OF_JAVA: &[&str] = &[
    "os::PlatformEvent::*",
    "os::PlatformMonitor::*",
    "os::PlatformMutex::*",
    "ObjectMonitor::*",
    "ObjectSynchronizer::*",
    "Monitor::*",
    "Mutex::*",
    "MonitorLocker*",
    "MutexLocker*",
    "Parker::*",
    "PosixSemaphore::*",
    "Unsafe_Park",
    "Unsafe_Unpark",
    "JavaThread::sleep",
    "JVM_Sleep",
    "JVM_MonitorWait",
];

/// Names that are only locks as they stand: without the underscores they would be anybody's.
const LOCK_AS_WRITTEN: &[&str] = &["__lock", "__unlock", "__wait", "__wake", "__tl_lock", "__tl_sync", "__lockfile"];

/// The rest of libraries and languages: start-up, memory, containers.
const RUNTIME: &[&str] = &[
    // Of Ada (GNAT) and D, which programs have in themselves.
    "system__*",
    "ada__*",
    "gnat__*",
    "D4core*",
    "D2rt*",
    "D2gc*",
    "D3std*",
    "start_thread",
    "thread_start",
    "start",
    "start_c",
    "clone",
    "clone3",
    "clone_internal*",
    "libc_start_*",
    "libc_csu_*",
    "dl_*",
    "execute_native_thread_routine*",
    "restore_rt",
    "malloc*",
    "libc_malloc*",
    "calloc",
    "libc_calloc",
    "realloc",
    "libc_realloc",
    "free",
    "libc_free",
    "cfree",
    "memalign",
    "aligned_alloc",
    "posix_memalign",
    "int_malloc*",
    "int_free*",
    "int_realloc*",
    "int_memalign*",
    "sysmalloc*",
    "systrim*",
    "arena_get*",
    "tcache_*",
    "unlink_chunk*",
    "alloc_perturb*",
    "operator new*",
    "operator delete*",
    "je_*",
    "tc_*",
    "mi_*",
    "tcmalloc::*",
    "IO_*",
    "memcpy*",
    "memmove*",
    "memset*",
    "memcmp*",
    "mem*_sse*",
    "mem*_avx*",
    "str*_sse*",
    "str*_avx*",
    "nanosleep",
    "clock_nanosleep*",
    "sched_yield",
    "sched_setaffinity",
    "nptl_*",
    "kmp_*",
    "GOMP_*",
    "gomp_*",
    "omp_*",
    "tsan*",
    "asan*",
    "sanitizer*",
    "cxxabiv1::*",
    "__cxxabiv1::*",
    "__gnu_cxx::*",
    "cxa_*",
    "gxx_personality*",
    "Unwind_*",
    "std::*",
    "core::*",
    "alloc::*",
    "compiler_builtins::*",
    "hashbrown::*",
    "dyn core::*",
    "rust_begin_unwind",
    "rust_eh_personality",
    "rust_panic*",
    "rust_drop_panic",
    "rust_foreign_exception",
    "rdl_*",
    "rg_*",
    "runtime.*",
    "runtime/*",
    "internal/*",
    "sync/atomic.*",
    "compress/*",
    "crypto/*",
    "database/sql.*",
    "encoding/*",
    "net/*",
    "type:.*",
    "syscall.*",
    "x_cgo_*",
    "cgo_*",
    "crosscall*",
    "boost::detail::thread_data*",
    "boost::thread_proxy",
    "v8::*",
    "Builtins_*",
];

/// Files whose unnamed functions belong to the system: beginnings of file names.
const SYSTEM_FILES: &[&str] = &[
    "libc.so",
    "libc-2.",
    "libc.musl",
    "ld-",
    "ld.so",
    "libpthread",
    "libm.so",
    "libm-2.",
    "librt.so",
    "librt-2.",
    "libdl.so",
    "libdl-2.",
    "libstdc++",
    "libc++",
    "libgcc_s",
    "libgomp",
    "libomp.",
    "libjemalloc",
    "libtcmalloc",
    "libmimalloc",
    "libtsan",
    "holdup-preload-",
    "libasan",
    "[vdso]",
    "[vsyscall]",
];

/// Parts of the paths of sources that belong to a language's library, and the parts where that waits. Functions that a
/// compiler instantiated in the program are known by these, whatever they are called.
const LIBRARY_SOURCES: &[&str] = &["/usr/include/*", "*/include/c++/*", "/rustc/*/library/*", "*/lib/rustlib/src/*"];

/// The same of Go's library, behind where it lies: `/usr/local/go/src/`, `/usr/lib/go-1.19/src/`, where `go` puts what
/// it downloads.
const GO_SOURCES: &[&str] = &[
    "runtime/*",
    "internal/*",
    "sync/atomic/*",
    "bufio/*",
    "bytes/*",
    "compress/*",
    "context/*",
    "crypto/*",
    "database/*",
    "encoding/*",
    "fmt/*",
    "hash/*",
    "io/*",
    "log/*",
    "math/*",
    "net/*",
    "os/*",
    "reflect/*",
    "regexp/*",
    "sort/*",
    "strconv/*",
    "strings/*",
    "syscall/*",
    "time/*",
    "unicode/*",
    "vendor/*",
];

const LOCK_SOURCES: &[&str] = &[
    "/usr/include/*/mutex",
    "/usr/include/*/shared_mutex",
    "/usr/include/*/condition_variable",
    "/usr/include/*/bits/std_mutex.h",
    "/usr/include/*/bits/unique_lock.h",
    "/usr/include/*/bits/gthr*",
    "/usr/include/*/bits/semaphore_base.h",
    "/rustc/*/library/std/src/sync/*",
    "/rustc/*/library/std/src/sys/sync/*",
    "*/parking_lot-*/src/*",
    "*/parking_lot_core-*/src/*",
    "*/lock_api-*/src/*",
    "*/holdup-locks*/src/*",
    "*/registry/src/*/spin-*/src/*",
    "*/registry/src/*/usync-*/src/*",
    "*/registry/src/*/mcslock-*/src/*",
    "*/go/src/sync/*.go",
];

/// The role of a function by its demangled name, its binary, and the source file that it was compiled from.
pub(super) fn of(function: Option<&str>, module: &str, source: Option<&str>) -> Role {
    let role = by_name(function, module);
    match source {
        Some(file) if role == Role::Program && any(LOCK_SOURCES, file) => Role::Lock,
        Some(file) if role == Role::Program && (any(LIBRARY_SOURCES, file) || is_of_go(file)) => Role::Runtime,
        _ => role,
    }
}

/// Whether a source is of Go's library, in whichever folder that lies, or in none (`-trimpath`); or what its compiler
/// made by itself.
fn is_of_go(file: &str) -> bool {
    if file.ends_with("<autogenerated>") {
        return true;
    }
    const FOLDERS: [&str; 3] = ["/go/src/", "/go-1.", "/golang.org/toolchain@"];
    let folder = FOLDERS.iter().find_map(|folder| file.split_once(folder).map(|(_, rest)| (*folder, rest)));
    let inside = match folder {
        Some(("/go/src/", rest)) => Some(rest),
        Some((_, rest)) => rest.split_once("/src/").map(|(_, rest)| rest),
        None => Some(file).filter(|file| file.ends_with(".go") && !file.starts_with('/')),
    };
    inside.is_some_and(|inside| any(GO_SOURCES, inside))
}

fn by_name(function: Option<&str>, module: &str) -> Role {
    if let Some(name) = function {
        if any(LOCK_AS_WRITTEN, name) {
            return Role::Lock;
        }
        let name = plain(name);
        // Atomics are the program's own waiting, and mostly inlined: they are no lock.
        let atomic = name.starts_with("std::sync::atomic") || name.starts_with("core::sync::atomic");
        if !atomic && (any(LOCK, &name) || (module.ends_with("/libjvm.so") && any(LOCK_OF_JAVA, &name))) {
            return Role::Lock;
        }
        if any(RUNTIME, &name) {
            return Role::Runtime;
        }
    }
    if is_system_file(module) || is_managed(module) { Role::Runtime } else { Role::Program }
}

/// Whether a file is a runtime, whose own functions its user never wrote.
pub(super) fn is_managed(path: &str) -> bool {
    const FILES: [&str; 5] = ["libjvm.so", "libjli.so", "libjava.so", "libruby", "libcoreclr.so"];
    const OF_JAVA: [&str; 4] = ["libnio.so", "libnet.so", "libextnet.so", "libzip.so"];
    let file = path.rsplit('/').next().unwrap_or(path);
    FILES.iter().any(|beginning| file.starts_with(beginning)) || OF_JAVA.contains(&file)
}

/// Whose method of Java it is, by its class and name.
pub(super) fn of_java(name: &str) -> Role {
    const LIBRARY: &[&str] = &["java.", "javax.", "jdk.", "sun.", "com.sun.", "kotlin.", "scala.runtime."];
    const WAYS_TO_WAIT: &[&str] = &[
        "java.util.concurrent.locks.",
        "jdk.internal.misc.Unsafe.park",
        "jdk.internal.misc.Unsafe.unpark",
        "java.lang.Object.wait",
    ];
    let starts = |list: &[&str]| list.iter().any(|start| name.starts_with(start));
    match () {
        () if starts(WAYS_TO_WAIT) => Role::Lock,
        // Between a lambda's caller and its body.
        () if starts(LIBRARY) || name.contains("$$Lambda") => Role::Runtime,
        () => Role::Program,
    }
}

/// The role of a function of the kernel.
pub(super) fn of_kernel(name: &str) -> Role {
    if any(SCHEDULER, &plain(name)) { Role::Scheduler } else { Role::Kernel }
}

/// Whether a file came with the system: nobody misses line numbers there.
pub(super) fn is_system(path: &str) -> bool {
    const FOLDERS: [&str; 4] = ["/lib", "/usr/lib", "/usr/libexec", "["];
    FOLDERS.iter().any(|folder| path.starts_with(folder)) || is_system_file(path)
}

fn is_system_file(path: &str) -> bool {
    let file = path.rsplit('/').next().unwrap_or(path);
    SYSTEM_FILES.iter().any(|beginning| file.starts_with(beginning))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interposer_is_no_part_of_the_program() {
        const LIBRARY: &str = "/dev/shm/holdup-0/holdup-preload-25ce629baf52a78c.so";
        assert_eq!(of(Some("holdup_preload::sys::linux::wait::lock"), LIBRARY, None), Role::Lock);
        assert_eq!(of(Some("pthread_mutex_lock"), LIBRARY, None), Role::Lock);
        assert_eq!(of(None, LIBRARY, None), Role::Runtime);
        let of_go = |source: &str| of(Some("crypto.Hash.New-fm"), "/srv/shop", Some(source));
        assert_eq!(of_go("/srv/src/<autogenerated>"), Role::Runtime, "its compiler made it");
        assert_eq!(of_go("/srv/src/hash.go"), Role::Program);
    }

    const MINE: &str = "/home/me/server";

    #[test]
    fn what_ada_and_d_link_into_a_program_is_their_runtime() {
        let role = |name| of(Some(name), MINE, None);
        assert_eq!(role("system__task_primitives__operations__monotonic__timed_delayXnn"), Role::Runtime);
        assert_eq!(role("_D4core8internal8spinlock8SpinLock4lockMOFNbNiNeZv"), Role::Runtime);
        assert_eq!(role("signal_box__write_relays.5"), Role::Program);
        assert_eq!(role("_D9herbarium6normalFAyaZQe"), Role::Program);
    }

    #[test]
    fn ways_to_wait_are_locks() {
        for name in [
            "pthread_mutex_lock",
            "___pthread_mutex_lock",
            "__lll_lock_wait",
            "__futex_abstimed_wait_common",
            "std::mutex::lock",
            "std::unique_lock<std::mutex>::lock",
            "std::condition_variable::wait",
            "__gthread_mutex_lock",
            "std::sys::sync::mutex::futex::Mutex::lock_contended",
            "std::sync::poison::mutex::Mutex<T>::lock",
            "std::sync::mpsc::Receiver<T>::recv",
            "std::thread::park",
            "<parking_lot::raw_mutex::RawMutex as lock_api::mutex::RawMutex>::lock",
            "parking_lot_core::parking_lot::park::{{closure}}",
            "runtime.futex",
            "runtime.futex.abi0",
            "runtime.lock2",
            "sync.(*Mutex).Lock",
            "absl::lts_20230125::Mutex::LockSlow",
            "__lock",
            "syscall",
        ] {
            assert_eq!(of(Some(name), MINE, None), Role::Lock, "{name}");
        }
    }

    #[test]
    fn libraries_and_start_up_are_runtime() {
        for name in [
            "start_thread",
            "clone3",
            "_start",
            "__libc_start_call_main",
            "_int_malloc",
            "operator new",
            "std::vector<int>::push_back",
            "core::ops::function::FnOnce::call_once{{vtable.shim}}",
            "<alloc::boxed::Box<F> as core::ops::function::FnOnce<A>>::call_once",
            "std::sys::backtrace::__rust_begin_short_backtrace",
            "core::sync::atomic::AtomicU64::fetch_add",
            "runtime.goexit",
            "runtime.mcall",
            "std::thread::_Invoker<std::tuple<void (*)()> >::operator()",
        ] {
            assert_eq!(of(Some(name), MINE, None), Role::Runtime, "{name}");
        }
        assert_eq!(of(None, "/usr/lib/x86_64-linux-gnu/libc.so.6", None), Role::Runtime);
        assert_eq!(of(Some("qsort_r"), "/usr/lib/x86_64-linux-gnu/libc.so.6", None), Role::Runtime);
    }

    #[test]
    fn what_a_programmer_wrote_is_the_programs() {
        for name in [
            "main",
            "worker",
            "Pool::get",
            "main.(*Pool).get",
            "main.main",
            "holdup::run",
            "block",
            "lock",
            "wait",
            "clock_tick",
            "rust_mutex::registry_update",
            "starter",
        ] {
            assert_eq!(of(Some(name), MINE, None), Role::Program, "{name}");
        }
        assert_eq!(of(None, MINE, None), Role::Program);
        assert_eq!(of(Some("deflate"), "/usr/lib/libz.so.1", None), Role::Program);
    }

    #[test]
    fn runtimes_are_not_their_users_code() {
        const JAVA: &str = "/usr/lib/jvm/java-17-openjdk-amd64/lib/server/libjvm.so";
        const RUBY: &str = "/usr/lib/x86_64-linux-gnu/libruby-3.1.so.3.1.2";
        for (name, module, role) in [
            (Some("ObjectMonitor::enter"), JAVA, Role::Lock),
            (Some("Mutex::lock_contended"), JAVA, Role::Lock),
            (Some("Mutex::lock_contended"), MINE, Role::Program),
            (Some("InterpreterRuntime::monitorenter"), JAVA, Role::Runtime),
            (Some("rb_mutex_synchronize"), RUBY, Role::Lock),
            (None, RUBY, Role::Runtime),
            (Some("v8::internal::FutexEmulation::WaitSync<int>"), "/usr/bin/node", Role::Lock),
            (Some("Builtins_CEntry_Return1_ArgvOnStack_BuiltinExit"), "/usr/bin/node", Role::Runtime),
        ] {
            assert_eq!(of(name, module, None), role, "{name:?} in {module}");
        }
    }

    #[test]
    fn sources_tell_where_names_do_not() {
        for (name, source, role) in [
            ("lock_guard", "/usr/include/c++/12/bits/std_mutex.h", Role::Lock),
            ("get", "/usr/include/c++/12/bits/unique_ptr.h", Role::Runtime),
            ("<mine::Rows as Iterator>::fold", "/rustc/59807616e1/library/core/src/iter/mod.rs", Role::Runtime),
            ("lock", "/rustc/59807616e1/library/std/src/sync/poison/mutex.rs", Role::Lock),
            ("lock", "/home/me/src/lock.c", Role::Program),
            ("main.main", "/home/me/go/src/main/main.go", Role::Program),
        ] {
            assert_eq!(of(Some(name), MINE, Some(source)), role, "{name} in {source}");
        }
    }

    #[test]
    fn the_scheduler_is_the_way_off_the_cpu() {
        for name in ["__schedule", "schedule", "futex_wait_queue", "__x64_sys_futex", "do_futex"] {
            assert_eq!(of_kernel(name), Role::Scheduler, "{name}");
        }
        assert_eq!(of_kernel("ext4_file_write_iter"), Role::Kernel);
    }
}
