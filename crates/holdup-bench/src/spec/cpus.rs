//! Which CPUs a cell means.

use super::{Cpus, Spec};
use crate::sys;

/// The CPUs that the cell means, of those that this process may use; an error says which of those work.
///
/// # Errors
/// The cell names others, or more.
pub fn cpus(spec: &Spec) -> Result<Vec<u32>, String> {
    let allowed = sys::allowed_cpus();
    let list = || allowed.iter().map(u32::to_string).collect::<Vec<_>>().join("+");
    let most = allowed.len();
    match &spec.cpus {
        Cpus::All => Ok(allowed),
        Cpus::Count(count) if *count as usize > most => {
            Err(format!("--cpus {count}: this process may use {most} CPUs (cpu:{}), so 1 to {most} work", list()))
        }
        Cpus::Count(count) => Ok(allowed[..*count as usize].to_vec()),
        Cpus::Set(set) => match set.iter().find(|cpu| !allowed.contains(cpu)) {
            Some(cpu) => Err(format!("--cpus names CPU {cpu}, which this process may not use; cpu:{} works", list())),
            None => Ok(set.clone()),
        },
    }
}
