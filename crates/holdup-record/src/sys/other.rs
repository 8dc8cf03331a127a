//! Systems that cannot record.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use holdup_trace::Event;

use crate::doctor::Probe;
use crate::{AskedForMap, Children, CodeMap, Error, Live, Options, Outcome};

/// Says that it cannot.
pub fn record(
    _options: &Options,
    _stop: &AtomicBool,
    _more: &(dyn Fn(u64, &[u32]) -> Vec<Event> + Sync),
) -> Result<Outcome, Error> {
    Err(Error::Unsupported)
}

/// Says that it cannot.
pub fn record_live(_options: &Options, _stop: &AtomicBool, _live: &Arc<Live>) -> Result<Outcome, Error> {
    Err(Error::Unsupported)
}

/// Does it.
pub fn aside<T>(work: impl FnOnce() -> T) -> T {
    work()
}

/// Nothing is needed.
pub fn keep_little_memory() {}

/// Nothing was needed.
pub fn give_memory_back() {}

/// Signals that end a recording: none is made here.
pub mod signals {
    use std::sync::atomic::AtomicBool;

    /// None will come.
    pub fn listen(_stop: &'static AtomicBool) {}

    /// None will come.
    pub fn heed_requests() {}

    /// None came.
    pub fn requests() -> u32 {
        0
    }

    /// None will come.
    pub fn heed_reloads() {}

    /// None came.
    pub fn reloads() -> u32 {
        0
    }

    /// None came.
    pub fn heard() -> Option<(i32, &'static str)> {
        None
    }
}

/// Nobody can be asked.
pub fn ask_for_map(_: u32) -> AskedForMap {
    AskedForMap::NoJava(Vec::new())
}

/// There is none.
pub fn code_map(_: u32, _: u64) -> Result<Option<CodeMap>, String> {
    Ok(None)
}

/// There is none.
pub fn jit_dump(_: u32, _: &str, _: u64) -> Result<Option<CodeMap>, String> {
    Ok(None)
}

/// Nobody knows.
pub fn first_missing(_: &[u32]) -> Option<u32> {
    None
}

/// Nobody's children are known.
pub fn with_children(pids: &[u32], _: Children) -> Vec<u32> {
    pids.to_vec()
}

/// There are none.
pub fn of_cgroup(_: &Path) -> Result<Vec<u32>, String> {
    Err("control groups are Linux's".to_owned())
}

/// There are none.
pub fn of_container(_: &str) -> Result<PathBuf, String> {
    Err("control groups are Linux's".to_owned())
}

/// There are none.
pub fn of_unit(_: &str) -> Result<PathBuf, String> {
    Err("units of systemd are Linux's".to_owned())
}

/// There is nothing to look at.
pub fn probe() -> Option<Probe> {
    None
}
