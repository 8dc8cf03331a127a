//! A look as JSON, schema `holdup-top-1`: who waits for what now, and the facts of the last seconds in the form of a
//! recording. docs/holdup-top-1.schema.json is generated from these types.

use schemars::JsonSchema;
use serde::Serialize;

use super::super::recording::json;
use crate::live::Look;
use crate::live::now;
use crate::recording::name;

/// What `holdup top --once --json` prints.
#[derive(Serialize, JsonSchema)]
#[schemars(title = "A look of holdup at a running program")]
pub struct Top<'a> {
    /// Name and version of this form.
    #[schemars(extend("const" = "holdup-top-1"))]
    schema: &'static str,
    /// Who waits for a lock at the end of the look, longest first.
    waits_now: Vec<Wait>,
    /// The last seconds, as `holdup report --json` has a recording.
    recording: json::Report<'a>,
}

/// A thread that waits for a lock.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "WaitNow")]
struct Wait {
    /// Number of the thread.
    tid: u32,
    /// Its name with its number.
    thread: String,
    /// Index in the recording's locks.
    lock: usize,
    /// How reports call the lock.
    lock_name: String,
    /// How long it has waited, within the look.
    wait_ns: u64,
    /// Whether it has waited since before the look.
    since_before: bool,
    /// Number of the thread that has the lock; null if that is not known.
    owner: Option<u32>,
}

impl<'a> Top<'a> {
    /// A look in this form.
    pub fn new(look: &'a Look) -> Top<'a> {
        let report = &look.recording.report;
        let facts = &report.facts;
        let mut waits_now: Vec<Wait> = Vec::new();
        for (index, thread) in facts.threads.iter().enumerate() {
            let now = now::of_thread(report, index);
            let Some(lock) = now::lock_of(now.state) else { continue };
            let Some(of) = facts.lock(lock).filter(|of| of.primitive.is_contention()) else { continue };
            waits_now.push(Wait {
                tid: thread.tid.0,
                thread: name::thread_in(facts, thread),
                lock: lock.index(),
                lock_name: name::lock(of),
                wait_ns: now.ns,
                since_before: now.before,
                owner: now::owner(facts, &look.words, of).map(|owner| owner.0),
            });
        }
        waits_now.sort_by_key(|wait| (std::cmp::Reverse(wait.wait_ns), wait.tid));
        Top { schema: "holdup-top-1", waits_now, recording: json::Report::new(&look.recording) }
    }
}
