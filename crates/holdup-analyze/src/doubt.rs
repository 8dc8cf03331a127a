//! Why a recording without findings is no all-clear: silence must be earned.
//!
//! "No findings" means something only if what threads did is known: of their time at most a tenth may be unknown, no
//! more than a hundredth of the events lost, about as many switches recorded as the kernel counted, and the program
//! must have run for a moment.

use crate::facts::{AccountState, Facts};

/// Something that could have hidden a finding.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Doubt {
    /// No thread of the program ran while it was recorded.
    NothingRan,
    /// The recording is too short to say how the program works.
    TooShort {
        /// Its length.
        span_ns: u64,
    },
    /// Much of the threads' time is not accounted for.
    Unknown {
        /// How much, 0 to 1.
        share: f64,
    },
    /// Too many events were lost.
    Lost {
        /// How many.
        count: u64,
        /// Of how many, those that were read included.
        of: u64,
    },
    /// The kernel counted other switches than were recorded.
    Switches {
        /// Recorded.
        recorded: u64,
        /// Counted.
        counted: u64,
    },
}

/// A shorter recording shows how a program starts, not how it works.
pub(crate) const SHORTEST_SPAN_NS: u64 = 50_000_000;
const MOST_UNKNOWN: f64 = 0.1;
const MOST_LOST: f64 = 0.01;
const MOST_MISSING: f64 = 0.1;
/// Start and end of a command are not recorded.
const SLACK_SWITCHES: u64 = 50;

/// All of them.
pub(crate) fn all(facts: &Facts) -> Vec<Doubt> {
    let totals = &facts.totals;
    let mut doubts = Vec::new();
    if totals.on_cpu_ns == 0 {
        doubts.push(Doubt::NothingRan);
    } else if facts.span_ns() < SHORTEST_SPAN_NS {
        doubts.push(Doubt::TooShort { span_ns: facts.span_ns() });
    }
    let of = totals.lost.saturating_add(totals.events);
    if totals.lost as f64 > MOST_LOST * of as f64 {
        doubts.push(Doubt::Lost { count: totals.lost, of });
    }
    if let Some(counted) = counted_switches(facts) {
        let missing = counted.abs_diff(totals.switches);
        if missing > SLACK_SWITCHES && missing as f64 > MOST_MISSING * counted as f64 {
            doubts.push(Doubt::Switches { recorded: totals.switches, counted });
        }
    }
    // A thread that only waits is known to do nothing: its unknown wait hides no work.
    let unknown: u64 = facts.account.of(AccountState::Unknown);
    let share = if totals.thread_ns == 0 { 0.0 } else { unknown as f64 / totals.thread_ns as f64 };
    if share > MOST_UNKNOWN {
        doubts.push(Doubt::Unknown { share });
    }
    doubts
}

/// The kernel's own count for a command that was started.
fn counted_switches(facts: &Facts) -> Option<u64> {
    let ending = facts.ending.as_ref()?;
    Some(ending.voluntary? + ending.involuntary?)
}
