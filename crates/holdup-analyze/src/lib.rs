//! From a recording to who holds whom up.
//!
//! Events go in one by one ([`Analysis::feed`]), what they mean comes out ([`Report`]): facts about threads, locks,
//! pairs and code, findings in order of what they cost, and problems of the recording itself. The crate is pure: it
//! reads no clock, opens no file, starts no thread and never fails. Bytes of binaries come from the caller through
//! [`Modules`].
#![forbid(unsafe_code)]

mod analysis;
mod doubt;
mod efficiency;
mod facts;
mod finding;
mod histogram;
mod names;
mod options;
mod problem;
pub mod schedule;
mod spans;
mod spinning;
mod timeline;

pub use analysis::{Analysis, Report};
pub use doubt::Doubt;
pub use efficiency::Efficiency;
pub use facts::{
    Account, AccountState, Blame, Code, CpuFacts, Facts, GoroutineFacts, GoroutineGroup, GoroutineHolder,
    GoroutineLock, GoroutineState, Herds, Holder, HolderDoing, Hotspot, HotspotClass, Leaf, LockFacts, LockName,
    LockNumber, LockSamples, Looking, Moment, OffTime, PairFacts, Path, PathPart, PathPiece, Primitive, ProcessFacts,
    Reason, Site, SocketFacts, ThreadFacts, Totals, Wakings,
};
pub use finding::{
    Command, Cure, Evidence, Finding, Kind, Subject, Unit, blocked_holder, goroutine_lock, lock_ahead, lock_of,
    lock_of_goroutines, vocabulary,
};
pub use histogram::Histogram;
pub use names::{
    Catalog, Frame, Meaning, Modules, NoModules, Parsed, Placed, Places, Role, SpaceId, Stretch, map_switch,
};
pub use options::Options;
pub use problem::Problem;
pub use timeline::{Interval, Row, SampleAt, State, StretchKind, Timeline, Wake};
