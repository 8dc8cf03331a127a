//! Go: goroutines wait for a mutex without any thread that waits, for its thread goes on with another goroutine. What
//! shows is that the scheduler's threads run out of goroutines and park, and that they are woken because a mutex was
//! released: until then, every goroutine waited for it.
//!
//! The wakes tell only that one of Go's semaphores was released, for they are made on the scheduler's own stack. CPU
//! samples in the slow paths of a mutex, whose call paths cross over to the goroutine's stack, tell that it was a
//! mutex, and whose.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::lock::{Group, Place};
use crate::facts::Site;
use crate::names::{Frame, caller, leads_through};

/// So many call paths of samples are looked at.
const MOST_PATHS: usize = 100_000;

/// Whether a thread of Go's scheduler parks here because there is no goroutine to run.
pub(super) fn is_out_of_work(call_path: &[Frame]) -> bool {
    has(call_path, "runtime.stopm") && has(call_path, "runtime.findRunnable")
}

/// Whether most wakes come from the release of a semaphore: of a mutex, a condition variable, a wait group.
pub(super) fn is_woken_by_semaphore(group: &Group, mut call_path: impl FnMut(Place) -> Arc<[Frame]>) -> bool {
    let (mut by_semaphore, mut all) = (0, 0);
    for (place, count) in group.wake_sites.iter() {
        all += count;
        let released = leads_through(&call_path(*place), |name| name.starts_with("runtime.readyWithTime"));
        by_semaphore += if released { *count } else { 0 };
    }
    all > 0 && by_semaphore * 2 >= all
}

/// The function that the goroutine of a call path began with; `None` outside of the program's own goroutines. What the
/// compiler wraps around the call of a `go` statement is where one begins, whether or not the path leads further.
pub(super) fn began_with(call_path: &[Frame]) -> Option<&str> {
    let mut outer = call_path.iter().rev().map(named);
    let outermost = outer.next()?;
    let is_wrap = |name: &str| name.rsplit('.').next().is_some_and(|last| last.starts_with("gowrap"));
    let first = match outermost {
        name if name.starts_with("runtime.goexit") => outer.next()?,
        name if is_wrap(name) => name,
        _ => return None,
    };
    let own = if first == "runtime.main" { outer.next()? } else { first };
    (!own.starts_with("runtime.")).then_some(own)
}

/// Where the program takes and releases a mutex that goroutines wait for, most often first: by samples in the slow
/// paths. Empty if more of them are in those of condition variables.
pub(super) fn mutex_sites(paths: impl Iterator<Item = (Arc<[Frame]>, u64)>) -> Vec<Site> {
    const SLOW: [&str; 2] = [".(*Mutex).lockSlow", ".(*Mutex).unlockSlow"];
    let (mut events, mut slow) = (0, 0);
    let mut sites: FxHashMap<String, Site> = FxHashMap::default();
    for (call_path, count) in paths.take(MOST_PATHS) {
        let last = call_path.iter().position(|frame| {
            SLOW.iter().any(|end| named(frame).ends_with(end)) || named(frame).starts_with("sync.(*RWMutex).")
        });
        if let Some(at) = last {
            slow += count;
            let own = caller(&call_path).and_then(|frame| frame.function.as_deref()).unwrap_or_default();
            let site = sites
                .entry(own.to_owned())
                .or_insert_with(|| Site { call_path: call_path[at..].to_vec(), ..Site::default() });
            site.count += count;
        } else if leads_through(&call_path, |name| name.starts_with("sync.(*Cond).")) {
            events += count;
        }
    }
    let mut list: Vec<Site> = if slow > events { sites.into_values().collect() } else { Vec::new() };
    list.sort_by_cached_key(|site| {
        (std::cmp::Reverse(site.count), site.caller().and_then(|frame| frame.function.clone()))
    });
    list
}

fn has(call_path: &[Frame], function: &str) -> bool {
    leads_through(call_path, |name| name == function)
}

fn named(frame: &Frame) -> &str {
    frame.function.as_deref().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::Role;

    #[test]
    fn a_goroutine_is_known_by_the_function_that_it_began_with() {
        let began = |names: &[&str]| {
            let path: Vec<Frame> = names.iter().map(|name| Frame::named(name, Role::Program)).collect();
            began_with(&path).map(str::to_owned)
        };
        assert_eq!(began(&["main.fold", "main.work.func1", "runtime.goexit.abi0"]).as_deref(), Some("main.work.func1"));
        assert_eq!(
            began(&["main.reduce", "main.main", "runtime.main", "runtime.goexit.abi0"]).as_deref(),
            Some("main.main")
        );
        assert_eq!(began(&["runtime.scanobject", "runtime.gcBgMarkWorker", "runtime.goexit.abi0"]), None);
        assert_eq!(began(&["runtime.futex", "runtime.schedule", "runtime.mcall"]), None);
        assert_eq!(began(&["runtime.goexit.abi0"]), None);
        let served = ["main.page", "net/http.(*conn).serve", "net/http.(*Server).Serve.gowrap3"];
        assert_eq!(began(&served).as_deref(), Some("net/http.(*Server).Serve.gowrap3"));
        assert_eq!(began(&served[..2]), None, "cut off");
    }
}
