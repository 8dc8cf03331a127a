//! The shortest paths of lock and unlock, in assembly: it is here that an uncontended operation spends its time, the
//! caller's return address is known only at the entry, and no register is to be saved.
//!
//! Both leave to `hooks` whatever is not a normal, private mutex in a thread with a slot. Lock also does so with
//! every sixteenth or so acquisition of a mutex, its first included, after it has the mutex (a tick). Unlock does so
//! with a mutex that has marks.

use std::arch::naked_asm;
use std::ffi::c_int;
use std::mem::offset_of;

use holdup_control::ThreadSlot;

use super::mutex::{HELD, Mutex, NOT_NORMAL};
use super::thread::Thread;
use super::{c11, hooks, openmp, passed, rwlock, semaphore, wait};

/// `pthread_mutex_lock`.
///
/// # Safety
/// `mutex` points to an initialised mutex, which outlives the call.
#[cfg_attr(not(test), unsafe(no_mangle))]
#[unsafe(naked)]
pub unsafe extern "C" fn pthread_mutex_lock(mutex: *mut Mutex) -> c_int {
    naked_asm!(
        "mov r8, qword ptr [rip + holdup_thread@GOTTPOFF]",
        "mov rcx, qword ptr fs:[r8 + {fast}]",
        "test dword ptr [rdi + {kind}], {not_normal}",
        "jne 5f",
        "test rcx, rcx",
        "je 5f",
        "mov rdx, qword ptr [rip + __libc_single_threaded@GOTPCREL]",
        "xor eax, eax",
        "mov esi, {held}",
        "cmp byte ptr [rdx], 0",
        "jne 4f",
        "lock cmpxchg dword ptr [rdi + {word}], esi",
        "jne 5f",
        // The mutex is ours.
        "2:",
        "mov edx, dword ptr fs:[r8 + {tid}]",
        "mov dword ptr [rdi + {owner}], edx",
        "inc dword ptr [rdi + {users}]",
        "inc qword ptr [rcx + {acquisitions}]",
        "movzx edx, word ptr [rdi + {tally}]",
        "lea esi, [rdx + 1]",
        "mov word ptr [rdi + {tally}], si",
        "test dword ptr fs:[r8 + {between}], edx",
        "je 6f",
        "xor eax, eax",
        "ret",
        // As glibc, a process with one thread does without the locked instruction.
        "4:",
        "cmp dword ptr [rdi + {word}], eax",
        "jne 5f",
        "mov dword ptr [rdi + {word}], esi",
        "jmp 2b",
        "5:",
        "mov rsi, qword ptr [rsp]",
        "jmp {slow}",
        "6:",
        "mov rsi, qword ptr [rsp]",
        "jmp {tick}",
        fast = const offset_of!(Thread, fast),
        tid = const offset_of!(Thread, tid),
        kind = const offset_of!(Mutex, kind),
        word = const offset_of!(Mutex, word),
        owner = const offset_of!(Mutex, owner),
        users = const offset_of!(Mutex, users),
        tally = const offset_of!(Mutex, tally),
        acquisitions = const offset_of!(ThreadSlot, acquisitions),
        not_normal = const NOT_NORMAL,
        held = const HELD,
        between = const offset_of!(Thread, between_ticks),
        slow = sym hooks::lock_slow,
        tick = sym hooks::lock_tick,
    )
}

/// `pthread_mutex_unlock`.
///
/// # Safety
/// `mutex` points to an initialised mutex, which outlives the call. The calling thread
/// holds it, or it is of a kind that reports an error otherwise.
#[cfg_attr(not(test), unsafe(no_mangle))]
#[unsafe(naked)]
pub unsafe extern "C" fn pthread_mutex_unlock(mutex: *mut Mutex) -> c_int {
    naked_asm!(
        "mov r8, qword ptr [rip + holdup_thread@GOTTPOFF]",
        "cmp qword ptr fs:[r8 + {fast}], 0",
        "je 5f",
        "test dword ptr [rdi + {kind}], {not_normal}",
        "jne 5f",
        "cmp word ptr [rdi + {marks}], 0",
        "jne 5f",
        "mov rdx, qword ptr [rip + __libc_single_threaded@GOTPCREL]",
        "xor eax, eax",
        "mov dword ptr [rdi + {owner}], eax",
        "dec dword ptr [rdi + {users}]",
        "cmp byte ptr [rdx], 0",
        "jne 4f",
        "xchg dword ptr [rdi + {word}], eax",
        "cmp eax, {held}",
        "jg 6f",
        "xor eax, eax",
        "ret",
        "4:",
        "mov dword ptr [rdi + {word}], eax",
        "ret",
        "5:",
        "mov rsi, qword ptr [rsp]",
        "jmp {slow}",
        "6:",
        "jmp {wake}",
        fast = const offset_of!(Thread, fast),
        kind = const offset_of!(Mutex, kind),
        word = const offset_of!(Mutex, word),
        owner = const offset_of!(Mutex, owner),
        users = const offset_of!(Mutex, users),
        marks = const offset_of!(Mutex, marks),
        not_normal = const NOT_NORMAL,
        held = const HELD,
        slow = sym hooks::unlock_slow,
        wake = sym wait::wake,
    )
}

/// A function whose first job is to hand on where it was called from, as its next argument.
macro_rules! with_site {
    ($($(#[$doc:meta])* $abi:literal fn $name:ident => $to:path, $register:literal;)*) => {$(
        $(#[$doc])*
        ///
        /// # Safety
        /// The registers hold the arguments of the function of that name, and these fulfil what it asks of its caller.
        #[cfg_attr(not(test), unsafe(no_mangle))]
        #[unsafe(naked)]
        #[allow(non_snake_case)] // They bear the names of the functions before which they stand.
        pub unsafe extern $abi fn $name() {
            naked_asm!(concat!("mov ", $register, ", qword ptr [rsp]"), "jmp {to}", to = sym $to)
        }
    )*};
}
with_site! {
    /// `pthread_mutex_init`.
    "C" fn pthread_mutex_init => hooks::init, "rdx";
    /// `pthread_mutex_trylock`.
    "C" fn pthread_mutex_trylock => hooks::trylock, "rsi";
    /// `pthread_mutex_timedlock`.
    "C" fn pthread_mutex_timedlock => hooks::timedlock, "rdx";
    /// `pthread_mutex_clocklock`.
    "C" fn pthread_mutex_clocklock => hooks::clocklock, "rcx";
    /// `mtx_init`.
    "C" fn mtx_init => c11::init, "rdx";
    /// `mtx_lock`.
    "C" fn mtx_lock => c11::lock, "rsi";
    /// `mtx_trylock`.
    "C" fn mtx_trylock => c11::trylock, "rsi";
    /// `mtx_timedlock`.
    "C" fn mtx_timedlock => c11::timedlock, "rdx";
    /// `pthread_rwlock_init`.
    "C" fn pthread_rwlock_init => rwlock::init, "rdx";
    /// `pthread_rwlock_rdlock`.
    "C" fn pthread_rwlock_rdlock => rwlock::rdlock, "rsi";
    /// `pthread_rwlock_tryrdlock`.
    "C" fn pthread_rwlock_tryrdlock => rwlock::tryrdlock, "rsi";
    /// `pthread_rwlock_timedrdlock`.
    "C" fn pthread_rwlock_timedrdlock => rwlock::timedrdlock, "rdx";
    /// `pthread_rwlock_clockrdlock`.
    "C" fn pthread_rwlock_clockrdlock => rwlock::clockrdlock, "rcx";
    /// `pthread_rwlock_wrlock`.
    "C" fn pthread_rwlock_wrlock => rwlock::wrlock, "rsi";
    /// `pthread_rwlock_trywrlock`.
    "C" fn pthread_rwlock_trywrlock => rwlock::trywrlock, "rsi";
    /// `pthread_rwlock_timedwrlock`.
    "C" fn pthread_rwlock_timedwrlock => rwlock::timedwrlock, "rdx";
    /// `pthread_rwlock_clockwrlock`.
    "C" fn pthread_rwlock_clockwrlock => rwlock::clockwrlock, "rcx";
    /// `pthread_rwlock_unlock`.
    "C" fn pthread_rwlock_unlock => rwlock::unlock, "rsi";
    /// `sem_wait`.
    "C-unwind" fn sem_wait => semaphore::sem_wait, "rsi";
    /// `sem_timedwait`.
    "C-unwind" fn sem_timedwait => semaphore::sem_timedwait, "rdx";
    /// `sem_clockwait`.
    "C-unwind" fn sem_clockwait => semaphore::sem_clockwait, "rcx";
    /// `sem_trywait`.
    "C" fn sem_trywait => semaphore::sem_trywait, "rsi";
    /// `GOMP_critical_start`.
    "C" fn GOMP_critical_start => openmp::critical_start, "rdi";
    /// `GOMP_critical_end`.
    "C" fn GOMP_critical_end => openmp::critical_end, "rdi";
    /// `GOMP_critical_name_start`.
    "C" fn GOMP_critical_name_start => openmp::name_start, "rsi";
    /// `GOMP_critical_name_end`.
    "C" fn GOMP_critical_name_end => openmp::name_end, "rsi";
    /// `omp_set_lock`.
    "C" fn omp_set_lock => openmp::set, "rsi";
    /// `omp_test_lock`.
    "C" fn omp_test_lock => openmp::test, "rsi";
    /// `omp_unset_lock`.
    "C" fn omp_unset_lock => openmp::unset, "rsi";
    /// `omp_set_nest_lock`.
    "C" fn omp_set_nest_lock => openmp::set_nest, "rsi";
    /// `omp_test_nest_lock`.
    "C" fn omp_test_nest_lock => openmp::test_nest, "rsi";
    /// `omp_unset_nest_lock`.
    "C" fn omp_unset_nest_lock => openmp::unset_nest, "rsi";
    /// `pthread_spin_lock`.
    "C" fn pthread_spin_lock => passed::spin_lock, "rsi";
    /// `pthread_spin_trylock`.
    "C" fn pthread_spin_trylock => passed::spin_trylock, "rsi";
}
