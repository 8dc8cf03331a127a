//! What every workload starts from, and the words for what it lost.

use std::sync::atomic::{AtomicU64, Ordering};

use super::burn::burn;
use super::place::Placed;
use super::random::Draw;
use crate::lock::BenchLock;
use crate::sample::{Failure, FailureKind};
use crate::spec::Spec;

/// A cell with everything that is computed from it once, before the threads start.
#[derive(Debug)]
pub struct Context<'a> {
    /// The cell.
    pub spec: &'a Spec,
    /// Time of one step of work.
    pub unit_ns: f64,
    /// Work inside the section.
    pub hold: Draw,
    /// Work outside the section.
    pub gap: Draw,
    /// Nice value of a measuring thread outside its section.
    pub nice: i32,
}

impl Context<'_> {
    /// A lock with the cell's options, in the cell's place, ready for use.
    pub fn place<L: BenchLock>(&self) -> Result<Placed<L>, Failure> {
        let placed = L::create(self.spec)
            .and_then(|lock| Placed::new(lock, self.spec.offset, self.spec.share, self.spec.between))
            .map_err(unsupported)?;
        placed.lock().settle().map_err(unsupported)?;
        Ok(placed)
    }
}

pub fn unsupported(detail: String) -> Failure {
    Failure { kind: FailureKind::Unsupported, detail }
}

/// How much was lost, and a sentence about it.
pub type Lost = (u64, String);

/// What a count that should have been `expected` says about exclusion.
pub fn equal(what: &str, found: u64, expected: u64) -> Result<(), Lost> {
    if found == expected {
        return Ok(());
    }
    let lost = expected.abs_diff(found);
    Err((lost, format!("{what}: {found} where {expected} are right, so {lost} updates met: the lock does not exclude")))
}

/// Does so many steps of work.
#[inline(always)]
pub fn work(steps: u64) {
    if steps != 0 {
        burn(steps);
    }
}

/// How many updates the unsynchronised baseline lost; a lock that loses any has failed and needs no figure.
pub fn lost_extra<L: BenchLock>(lost: &AtomicU64) -> Vec<(String, f64)> {
    let lost = lost.load(Ordering::Relaxed) as f64;
    if L::EXCLUDES { Vec::new() } else { vec![("lost_updates".to_owned(), lost)] }
}
