//! What the locks of an interposed process are called, and where they are taken: its figures with names in place of
//! addresses.

use std::path::PathBuf;

use holdup_analyze::{Frame, LockName, Placed, Places, Role};
use holdup_trace::Header;

use super::figures::{Figures, Lock};
use crate::recording::binaries::Binaries;

/// The locks of one process.
#[derive(Clone, Debug, Default)]
pub struct Named {
    /// The process.
    pub pid: u32,
    /// Its program.
    pub program: PathBuf,
    /// One of [`holdup_control::Profile`], as a number.
    pub profile: u32,
    /// Locks that found no record of their own, and share the last.
    pub locks_beyond: u64,
    /// Its locks, as they were met.
    pub locks: Vec<NamedLock>,
}

/// A lock with names.
#[derive(Clone, Debug, Default)]
pub struct NamedLock {
    /// Its figures.
    pub figures: Lock,
    /// The variable that it lies in.
    pub variable: Option<LockName>,
    /// Where it was initialised.
    pub made: Option<Frame>,
    /// Where it was first seen taken.
    pub first: Option<Frame>,
    /// Where threads waited for it, in the order of its sites; `None` for the rest without an address.
    pub sites: Vec<Option<Frame>>,
}

/// Names everything in the figures that has an address. Reads the files that the process had loaded.
pub fn named(figures: &Figures) -> Named {
    let binaries = Binaries::of(&Header::default(), None);
    let placed: Vec<Placed> = figures
        .modules
        .iter()
        .map(|module| Placed { path: module.path.to_string_lossy().into_owned(), base: module.base })
        .collect();
    let mut places = Places::new(&placed, &binaries);
    Named {
        pid: figures.process.pid,
        program: figures.process.program.clone(),
        profile: figures.profile,
        locks_beyond: figures.locks_beyond,
        locks: figures.locks.iter().map(|lock| name(lock, &mut places)).collect(),
    }
}

fn name(lock: &Lock, places: &mut Places<'_>) -> NamedLock {
    NamedLock {
        variable: if lock.addr == 0 { None } else { places.variable(lock.addr) },
        made: caller(places, lock.init_site),
        first: caller(places, lock.first_site),
        sites: lock.sites.iter().map(|site| caller(places, site.addr)).collect(),
        figures: lock.clone(),
    }
}

/// The function that made a call which returns to this address: the innermost that is the program's own, for the lock
/// classes of C++ are inlined around the call.
fn caller(places: &mut Places<'_>, return_address: u64) -> Option<Frame> {
    if return_address == 0 {
        return None;
    }
    let frames = places.frames(return_address - 1);
    let own = frames.iter().position(|frame| frame.role == Role::Program);
    let last = frames.len().checked_sub(1)?;
    frames.into_iter().nth(own.unwrap_or(last))
}
