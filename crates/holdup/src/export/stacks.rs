//! Threads' time by where they spent it: what a timeline holds, summed over call paths.

use std::collections::BTreeMap;

use holdup_analyze::{Facts, Frame, LockNumber, Reason, State, Timeline};

use super::{Label, group};

/// Time of one thread at one place.
#[derive(Clone, Debug)]
pub(crate) struct Spent<'a> {
    /// Index in the facts.
    pub thread: usize,
    /// What it did.
    pub what: What,
    /// Where, innermost first; empty where that is not known.
    pub call_path: &'a [Frame],
    /// How often: CPU samples, or times off the CPU.
    pub count: u64,
    /// How long.
    pub ns: u64,
}

/// What a thread did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum What {
    /// It ran: told by CPU samples.
    Ran,
    /// It was off the CPU, until it ran again.
    Off(Reason, Option<LockNumber>),
}

impl What {
    /// Whether it waited because another thread was in the way.
    pub(crate) fn is_contention(self) -> bool {
        matches!(self, What::Off(Reason::Futex(primitive), _) if primitive.is_contention())
    }

    /// Its state in the account.
    pub(crate) fn state(self) -> &'static str {
        match self {
            What::Ran => "running",
            What::Off(reason, lock) => group(State::Off { reason, lock }).name(),
        }
    }

    /// As it is shown: `waits for g_cache_lock`.
    pub(crate) fn text(self, facts: &Facts) -> String {
        match self {
            What::Ran => "runs".to_owned(),
            What::Off(reason, lock) => Label::of(State::Off { reason, lock }).text(facts),
        }
    }
}

/// All of it, in the order of threads. A thread that may run again and has no CPU yet is still where it left it.
pub(crate) fn all<'a>(facts: &Facts, timeline: &'a Timeline) -> Vec<Spent<'a>> {
    let mut sums: BTreeMap<(usize, What, Option<u32>), (u64, u64)> = BTreeMap::new();
    for (thread, row) in timeline.threads.iter().enumerate().take(facts.threads.len()) {
        let mut left = None;
        for (from_ns, to_ns, kind) in row.stretches() {
            let Some(kind) = timeline.kinds.get(kind as usize) else { continue };
            let (place, count) = match kind.state {
                State::Off { reason, lock } => (Some((What::Off(reason, lock), kind.call_path)), 1),
                State::Runnable => (Some(left.unwrap_or((What::Off(Reason::Starting, None), None))), 0),
                State::Running { .. } | State::Unknown => (None, 0),
            };
            if let Some((what, call_path)) = place {
                let sum = sums.entry((thread, what, call_path)).or_default();
                *sum = (sum.0 + count, sum.1.saturating_add(to_ns.saturating_sub(from_ns)));
            }
            left = place;
        }
    }
    let period_ns = facts.header.sample_period_ns;
    for sample in timeline.samples.iter().filter(|sample| (sample.thread as usize) < facts.threads.len()) {
        let sum = sums.entry((sample.thread as usize, What::Ran, Some(sample.call_path))).or_default();
        *sum = (sum.0 + 1, sum.1.saturating_add(period_ns));
    }
    let path = |index: Option<u32>| timeline.call_paths.get(index? as usize).map(|path| &path[..]);
    let spent = |((thread, what, call_path), (count, ns))| Spent {
        thread,
        what,
        call_path: path(call_path).unwrap_or_default(),
        count,
        ns,
    };
    sums.into_iter().map(spent).collect()
}
