//! The rows of the registry that only one system has: that system's kernel objects, and the locks that it gives to
//! programs.
//!
//! Their types exist everywhere, so that programs compile everywhere; on another system they work as `Futex`, and their
//! `create` says so. `for_each_lock!` hands its rows on to the macro here, which adds these.

/// Adds Linux's rows.
#[cfg(target_os = "linux")]
#[doc(hidden)]
#[macro_export]
macro_rules! with_locks_of_this_system {
    ($callback:ident $context:tt $($rows:tt)*) => {
        $callback! { $context $($rows)*
            { eventfd, "eventfd", $crate::EventFd, Kernel, timed: yes, fifo: no, oversubscribable: yes,
                "auto-reset event of the kernel", "eventfd(2)" }
            { eventfd_sem, "eventfd-sem", $crate::EventFdSem, Kernel, timed: yes, fifo: no, oversubscribable: yes,
                "binary semaphore of the kernel", "eventfd(2), EFD_SEMAPHORE" }
            { sysv_sem, "sysv-sem", $crate::SysvSem, Kernel, timed: yes, fifo: no, oversubscribable: yes,
                "System V semaphore, undone when its holder's process dies", "semop(2), SEM_UNDO" }
            { futex_pi, "futex-pi", $crate::FutexPi, Kernel, timed: yes, fifo: no, oversubscribable: yes,
                "priority-inheriting futex; the kernel knows its owner", "futex(2); Sha, Rajkumar & Lehoczky 1990" }
            { pipe, "pipe", $crate::Pipe, Kernel, timed: yes, fifo: no, oversubscribable: yes,
                "a byte in a pipe: its reader holds the lock", "pipe(7)" }
        }
    };
}

/// Adds the rows of Windows.
#[cfg(windows)]
#[doc(hidden)]
#[macro_export]
macro_rules! with_locks_of_this_system {
    ($callback:ident $context:tt $($rows:tt)*) => {
        $callback! { $context $($rows)*
            { critical_section, "critical-section", $crate::CriticalSection, SpinThenPark, timed: no, fifo: no, oversubscribable: yes,
                "CRITICAL_SECTION: in user space while it is free", "Win32; Hart 1998" }
            { srwlock, "srwlock", $crate::SrwLock, SpinThenPark, timed: no, fifo: no, oversubscribable: yes,
                "SRWLOCK, taken for writing", "Win32, since Windows Vista" }
            { wait_on_address, "wait-on-address", $crate::WaitOnAddress, SpinThenPark, timed: yes, fifo: no, oversubscribable: yes,
                "three states and WaitOnAddress, barging", "Win32, since Windows 8; Drepper 2011, section 6" }
            { win_mutex, "win-mutex", $crate::WinMutex, Kernel, timed: yes, fifo: no, oversubscribable: yes,
                "the kernel's mutex; the kernel knows its owner", "Win32, CreateMutex; Hart 1998" }
            { win_event, "win-event", $crate::WinEvent, Kernel, timed: yes, fifo: no, oversubscribable: yes,
                "auto-reset event of the kernel", "Win32, CreateEvent; Hart 1998" }
            { win_semaphore, "win-semaphore", $crate::WinSemaphore, Kernel, timed: yes, fifo: no, oversubscribable: yes,
                "binary semaphore of the kernel", "Win32, CreateSemaphore; Hart 1998" }
        }
    };
}

/// Adds nothing: no lock of this system is known.
#[cfg(not(any(target_os = "linux", windows)))]
#[doc(hidden)]
#[macro_export]
macro_rules! with_locks_of_this_system {
    ($callback:ident $context:tt $($rows:tt)*) => {
        $callback! { $context $($rows)* }
    };
}
