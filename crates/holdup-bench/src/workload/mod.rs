//! What the threads do with the lock: one file per kind, and what all of them are made of.

use crate::lock::BenchLock;
use crate::sample::Failure;
use crate::spec::Workload;

pub mod burn;
mod context;
mod db;
pub mod drive;
pub mod gate;
pub mod map;
mod parallel_for;
pub(crate) mod ping_pong;
mod place;
pub mod random;
mod rw;
mod section;
mod timing;

pub use context::Context;
use drive::Task;

/// Builds the cell's workload around a lock type.
pub fn build<'a, L: BenchLock + 'a>(context: &Context<'_>) -> Result<Box<dyn Task + 'a>, Failure> {
    // A wrapped lock serves only those workloads that take it more than once; the others are not compiled for it.
    if !L::WRAPPED {
        match context.spec.workload {
            Workload::Db => return db::build::<L>(context),
            Workload::ParallelFor => return parallel_for::build::<L>(context),
            Workload::PingPong => return ping_pong::build::<L>(context),
            Workload::Rw => return rw::build::<L>(context),
            Workload::Empty
            | Workload::Counter
            | Workload::FreeList
            | Workload::ThreadId
            // Measured around a map, not a lock.
            | Workload::Map => {}
        }
    }
    section::build::<L>(context)
}
