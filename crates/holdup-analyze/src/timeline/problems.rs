//! What the events themselves show to be wrong with a recording.

use holdup_trace::Tid;

use super::engine::Engine;
use super::thread::Thread;
use crate::Problem;
use crate::facts::Facts;

/// Readings of /proc are not taken at the very moment of an event.
const SLACK: u64 = 4;
/// Less than this is not worth a word.
const LEAST_DISPLACED_NS: u64 = 10_000_000;
/// Threads that are named one by one.
const NAMED: usize = 3;

pub(super) fn all(engine: &Engine, facts: &Facts) -> Vec<Problem> {
    let trouble = engine.trouble;
    let mut problems = Vec::new();
    if trouble.lost_places > 0 {
        problems.push(Problem::Lost {
            count: trouble.lost,
            places: trouble.lost_places,
            from_ns: trouble.lost_from,
            to_ns: trouble.lost_to,
        });
    }
    if facts.ending.is_none() {
        problems.push(Problem::CutOff);
    }
    if trouble.skews > 0 {
        problems.push(Problem::ClockSkew { count: trouble.skews, max_ns: trouble.skew_ns });
    }
    problems.extend(displaced(facts));
    if engine.capabilities.switches && !engine.is_sampled {
        problems.extend(switches(engine));
    }
    problems
}

/// Other programs took much of the machine: at least a tenth of the time that threads were there to work.
fn displaced(facts: &Facts) -> Option<Problem> {
    let (displaced_ns, working_ns) = facts.displacement();
    (displaced_ns >= LEAST_DISPLACED_NS && displaced_ns * 10 >= working_ns)
        .then_some(Problem::Displaced { displaced_ns, working_ns })
}

/// Where the kernel counted other switches than were recorded between the first and the last reading of a thread.
fn switches(engine: &Engine) -> Vec<Problem> {
    let counts: Vec<(Tid, u64, u64)> = engine.threads.iter().filter_map(counted).collect();
    let (recorded, counted) =
        counts.iter().fold((0, 0), |sum: (u64, u64), (_, r, c)| (sum.0.saturating_add(*r), sum.1.saturating_add(*c)));
    let slack = SLACK * counts.len() as u64;
    let mut problems = Vec::new();
    if differ(recorded, counted, slack) {
        problems.push(Problem::SwitchesDiffer { tid: Tid(0), recorded, counted });
    }
    let mut single: Vec<&(Tid, u64, u64)> =
        counts.iter().filter(|(_, recorded, counted)| differ(*recorded, *counted, 16 * SLACK)).collect();
    single.sort_by_key(|(tid, recorded, counted)| (std::cmp::Reverse(recorded.abs_diff(*counted)), *tid));
    let named = single.into_iter().take(NAMED);
    problems.extend(named.map(|&(tid, recorded, counted)| Problem::SwitchesDiffer { tid, recorded, counted }));
    problems
}

fn counted(thread: &Thread) -> Option<(Tid, u64, u64)> {
    let (first, last) = thread.usage?;
    let recorded = thread.usage_switches.1.saturating_sub(thread.usage_switches.0);
    let sum = |usage: holdup_trace::ThreadUsage| usage.voluntary.saturating_add(usage.involuntary);
    let counted = sum(last).saturating_sub(sum(first));
    (recorded > 0 || counted > 0).then_some((thread.tid, recorded, counted))
}

/// By more than 2% and the slack.
fn differ(recorded: u64, counted: u64, slack: u64) -> bool {
    recorded.abs_diff(counted) > slack.saturating_add(recorded.max(counted) / 50)
}
