//! What one recording of a target said, as the process that made it tells the service.

use serde::{Deserialize, Serialize};

use crate::report::recording::tables::Tables;

/// What a recording said.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Seen {
    /// Its length.
    pub span_ns: u64,
    /// When it began, in seconds since 1970.
    pub began_unix_s: u64,
    /// The time of all threads by state.
    pub states: Vec<(String, u64)>,
    /// Contended locks: name, waits, waiting time; most time first.
    pub locks: Vec<(String, u64, u64)>,
    /// Switches where threads had to wait.
    pub voluntary: u64,
    /// Switches where they could have gone on.
    pub involuntary: u64,
    /// The kinds of findings with the largest share of each.
    pub findings: Vec<(String, f64)>,
    /// Reasons why no finding would be no all-clear.
    pub doubts: u64,
    /// Events that were lost.
    pub lost: u64,
    /// Why its facts were not added to the tables.
    pub not_exported: Option<String>,
    /// The condition that held, and the file that was kept for it.
    pub kept: Option<(String, String)>,
    /// Why none could be kept.
    pub not_kept: Option<String>,
}

/// Why there is no recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// Nobody was there.
    NotRunning,
    /// The system does not let this user record the target.
    Refused,
    /// What recorded it came to no end, or to a bad one.
    Failed,
}

impl Reason {
    /// All of them.
    pub const ALL: [Reason; 3] = [Reason::NotRunning, Reason::Refused, Reason::Failed];

    /// As a label.
    pub fn name(self) -> &'static str {
        match self {
            Reason::NotRunning => "not_running",
            Reason::Refused => "refused",
            Reason::Failed => "failed",
        }
    }
}

/// What came of a turn: what was seen, or why nothing, with a sentence.
pub type Turn = Result<Seen, (Reason, String)>;

impl Seen {
    /// The sums of a recording's tables, so that both say the same.
    pub fn of(tables: &Tables) -> Seen {
        let mut seen = Seen::default();
        for row in &tables.recording {
            seen.span_ns += row.span_ns;
            seen.began_unix_s = row.began_unix_s;
            seen.voluntary += row.switches.saturating_sub(row.involuntary_switches);
            seen.involuntary += row.involuntary_switches;
            seen.doubts += row.doubts;
            seen.lost += row.lost_events;
        }
        for row in &tables.account {
            match seen.states.iter_mut().find(|(state, _)| *state == row.state) {
                Some((_, ns)) => *ns += row.time_ns,
                None => seen.states.push((row.state.clone(), row.time_ns)),
            }
        }
        for row in tables.lock.iter().filter(|row| row.contention) {
            match seen.locks.iter_mut().find(|(name, ..)| *name == row.lock_name) {
                Some((_, waits, ns)) => (*waits, *ns) = (*waits + row.waits, *ns + row.wait_ns),
                None => seen.locks.push((row.lock_name.clone(), row.waits, row.wait_ns)),
            }
        }
        seen.locks.sort_by(|a, b| b.2.cmp(&a.2).then_with(|| a.0.cmp(&b.0)));
        for row in &tables.finding {
            match seen.findings.iter_mut().find(|(kind, _)| *kind == row.kind) {
                Some((_, share)) => *share = share.max(row.severity_share),
                None => seen.findings.push((row.kind.clone(), row.severity_share)),
            }
        }
        seen
    }
}
