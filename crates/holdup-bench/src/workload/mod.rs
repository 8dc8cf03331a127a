//! What the threads do with the lock: one file per kind.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::burn::burn;
use crate::drive::Task;
use crate::lock::BenchLock;
use crate::place::Placed;
use crate::process::{Failure, FailureKind};
use crate::random::Draw;
use crate::spec::{Spec, Workload};

mod db;
pub mod map;
mod parallel_for;
mod ping_pong;
mod section;

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
    fn place<L: BenchLock>(&self) -> Result<Placed<L>, Failure> {
        let placed = L::create(self.spec)
            .and_then(|lock| Placed::new(lock, self.spec.offset, self.spec.share))
            .map_err(unsupported)?;
        placed.lock().settle().map_err(unsupported)?;
        Ok(placed)
    }
}

/// Builds the cell's workload around a lock type.
pub fn build<'a, L: BenchLock + 'a>(context: &Context<'_>) -> Result<Box<dyn Task + 'a>, Failure> {
    // A wrapped lock serves only those workloads that take it more than once; the others are not compiled for it.
    if !L::WRAPPED {
        match context.spec.workload {
            Workload::Db => return db::build::<L>(context),
            Workload::ParallelFor => return parallel_for::build::<L>(context),
            Workload::PingPong => return ping_pong::build::<L>(context),
            _ => {}
        }
    }
    section::build::<L>(context)
}

fn unsupported(detail: String) -> Failure {
    Failure { kind: FailureKind::Unsupported, detail }
}

/// How much was lost, and a sentence about it.
type Lost = (u64, String);

/// What a count that should have been `expected` says about exclusion.
fn equal(what: &str, found: u64, expected: u64) -> Result<(), Lost> {
    if found == expected {
        return Ok(());
    }
    let lost = expected.abs_diff(found);
    Err((
        lost,
        format!(
            "{what}: {found} where {expected} are right, so {lost} updates met: the lock does not exclude"
        ),
    ))
}

/// Does so many steps of work.
#[inline(always)]
fn work(steps: u64) {
    if steps != 0 {
        burn(steps);
    }
}

/// How many updates the unsynchronised baseline lost; a lock that loses any has failed and needs no figure.
fn lost_extra<L: BenchLock>(lost: &AtomicU64) -> Vec<(String, f64)> {
    let lost = lost.load(Ordering::Relaxed) as f64;
    if L::EXCLUDES { Vec::new() } else { vec![("lost_updates".to_owned(), lost)] }
}
