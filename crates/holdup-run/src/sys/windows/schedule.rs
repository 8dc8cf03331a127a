//! Where programs run.

use std::io;

use windows_sys::Win32::System::Threading::{
    GetCurrentProcess, GetCurrentThread, GetProcessAffinityMask, SetThreadAffinityMask,
};

use super::job::check;
use crate::conditions::Conditions;

/// The CPUs that this process may run on, in order.
pub fn allowed_cpus() -> Vec<u32> {
    let (mut mine, mut all) = (0_usize, 0_usize);
    // SAFETY: writes the two masks given, about the calling process.
    unsafe { GetProcessAffinityMask(GetCurrentProcess(), &raw mut mine, &raw mut all) };
    (0..usize::BITS).filter(|cpu| mine >> cpu & 1 != 0).collect()
}

/// The mask of these CPUs; those that no mask has are left out.
pub fn mask(cpus: &[u32]) -> usize {
    cpus.iter().filter(|&&cpu| cpu < usize::BITS).fold(0, |mask, cpu| mask | 1 << cpu)
}

/// Takes the conditions for the calling thread; a sentence says why they cannot be had.
pub fn take(conditions: &Conditions) -> Result<(), String> {
    refuse(conditions)?;
    conditions.cpus.as_deref().map_or(Ok(()), bind).map_err(|why| format!("SetThreadAffinityMask: {why}"))
}

fn bind(cpus: &[u32]) -> io::Result<()> {
    // SAFETY: takes plain values; the pseudo handle means the calling thread.
    let before = unsafe { SetThreadAffinityMask(GetCurrentThread(), mask(cpus)) };
    check(i32::from(before != 0))
}

/// What Windows has not.
pub fn refuse(conditions: &Conditions) -> Result<(), String> {
    match conditions {
        Conditions { slice_ns: Some(_), .. } => Err("Windows has no time slice per thread".to_owned()),
        Conditions { batch: true, .. } => Err("Windows has no batch scheduling".to_owned()),
        Conditions { futex_hash: true, .. } => Err("Windows has no futexes".to_owned()),
        _ => Ok(()),
    }
}
