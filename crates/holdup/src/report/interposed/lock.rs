//! What a lock of a profile is called, and which kind it is.

use holdup_analyze::Frame;
use holdup_control::{KIND_OPENMP, KIND_RWLOCK, KIND_SEMAPHORE, KIND_SPIN};

use crate::interposer::naming::NamedLock;
use crate::recording::name;

/// `g_cache_lock`, `g_cache.lock+8`, `lock made in pool_init pool.c:12`, `lock taken in worker pool.c:40`,
/// `lock 0x5581..`.
pub fn name_of(lock: &NamedLock) -> String {
    if lock.figures.addr == 0 {
        return "all further locks".to_owned();
    }
    if let Some(variable) = &lock.variable {
        let name = name::lock_with(variable, Some(lock.figures.addr), None);
        // Of a lock whose place the runtime does not tell, the interposer has one of its own.
        let is_ours = lock.figures.kind == KIND_OPENMP && name.contains("holdup_preload");
        return if is_ours { "critical sections without a name".to_owned() } else { name };
    }
    match (&lock.made, &lock.first) {
        (Some(made), _) => format!("lock made in {}", name::place(made)),
        (None, Some(first)) => format!("lock taken in {}", name::place(first)),
        (None, None) => format!("lock {:#x}", lock.figures.addr),
    }
}

/// What `pthread_mutex_t` and its kin call it.
pub fn kind(lock: &NamedLock) -> &'static str {
    const TYPES: [&str; 4] = ["mutex", "recursive mutex", "error-checking mutex", "adaptive mutex"];
    match lock.figures.kind {
        KIND_RWLOCK => "read-write lock",
        KIND_SPIN => "spin lock",
        KIND_SEMAPHORE => "semaphore",
        KIND_OPENMP => "OpenMP lock",
        kind => TYPES[kind as usize & 3],
    }
}

/// A place in a table; the rest of the places has none.
pub fn place(frame: Option<&Frame>) -> String {
    frame.map_or_else(|| "elsewhere".to_owned(), name::place)
}
