//! Where and how eagerly a thread runs, for the calling one and the children that it starts.

use std::io;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::conditions::Conditions;

/// The CPUs that the calling thread may run on, in order.
pub fn allowed_cpus() -> Vec<u32> {
    let set = sched_getaffinity(None).unwrap_or_else(|_| CpuSet::new());
    (0..CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu)).map(|cpu| cpu as u32).collect()
}

/// Takes the conditions for the calling thread; a sentence says why they cannot be had.
pub fn take(conditions: &Conditions) -> Result<(), String> {
    bind(conditions).map_err(|why| format!("sched_setaffinity: {why}"))?;
    schedule(conditions).map_err(|why| format!("sched_setattr: {why}"))?;
    if conditions.futex_hash && !has_futex_hash() {
        return Err("this kernel has no futex tables of single processes; they came with Linux 6.17".to_owned());
    }
    match (conditions.slice_ns, slice_ns_now()) {
        (Some(asked), Some(taken)) if taken == asked => Ok(()),
        (Some(_), Some(0) | None) => {
            Err("this kernel has no time slice per thread; it came with Linux 6.12".to_owned())
        }
        (Some(_), Some(taken)) => Err(format!("the kernel takes slices from 100us to 100ms and made it {taken}ns")),
        (None, _) => Ok(()),
    }
}

/// As [`take`], for a child between fork and exec: makes system calls on plain numbers alone.
pub fn take_in_child(conditions: &Conditions) -> io::Result<()> {
    bind(conditions)?;
    schedule(conditions)
}

fn bind(conditions: &Conditions) -> io::Result<()> {
    let Some(cpus) = &conditions.cpus else { return Ok(()) };
    let mut set = CpuSet::new();
    cpus.iter().filter(|cpu| **cpu < CpuSet::MAX_CPU as u32).for_each(|cpu| set.set(*cpu as usize));
    Ok(sched_setaffinity(None, &set)?)
}

/// Sets slice and policy in one call, since each call sets both.
fn schedule(conditions: &Conditions) -> io::Result<()> {
    if conditions.slice_ns.is_none() && !conditions.batch {
        return Ok(());
    }
    let attr = libc::sched_attr {
        size: size_of::<libc::sched_attr>() as u32,
        sched_policy: if conditions.batch { libc::SCHED_BATCH as u32 } else { libc::SCHED_OTHER as u32 },
        sched_flags: 0,
        sched_nice: rustix::process::getpriority_process(None)?,
        sched_priority: 0,
        sched_runtime: conditions.slice_ns.unwrap_or(0),
        sched_deadline: 0,
        sched_period: 0,
    };
    // SAFETY: the structure is as large as its size field says and lives through the call, which only reads it.
    let done = unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attr, 0) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Whether the kernel has futex tables of single processes, by asking how large the present one is.
fn has_futex_hash() -> bool {
    const PR_FUTEX_HASH: libc::c_int = 78;
    const GET_SLOTS: libc::c_ulong = 2;
    // SAFETY: plain numbers; nothing is changed.
    unsafe { libc::prctl(PR_FUTEX_HASH, GET_SLOTS, 0, 0, 0) >= 0 }
}

/// The calling thread's time slice, as the kernel tells it; 0 where it has none.
fn slice_ns_now() -> Option<u64> {
    // SAFETY: all-zero attributes are valid; the call writes no more than the size given.
    unsafe {
        let mut attr: libc::sched_attr = std::mem::zeroed();
        let done = libc::syscall(libc::SYS_sched_getattr, 0, &raw mut attr, size_of_val(&attr) as u32, 0);
        (done == 0).then_some(attr.sched_runtime)
    }
}
