//! What threads do at the end of a look: the last stretch of each thread's row.

use holdup_analyze::{Facts, Frame, LockFacts, LockNumber, Report, State};
use holdup_trace::Tid;

use crate::recording::Words;

/// What a thread does at the end of a look.
#[derive(Clone, Debug, Default)]
pub struct Now<'a> {
    /// What; `None` if nothing is known of it, or it has ended.
    pub state: Option<State>,
    /// For how long, within the look.
    pub ns: u64,
    /// It has done so since before the look.
    pub before: bool,
    /// Where it left the CPU last, innermost frame first.
    pub call_path: &'a [Frame],
}

/// What the thread with this index in the facts does.
pub fn of_thread(report: &Report, index: usize) -> Now<'_> {
    let (Some(timeline), Some(thread)) = (&report.timeline, report.facts.threads.get(index)) else {
        return Now::default();
    };
    let Some(row) = timeline.threads.get(index).filter(|row| !row.is_empty()) else { return Now::default() };
    let kind = |number: u32| timeline.kinds.get(number as usize);
    let path = |number: u32| timeline.call_paths.get(number as usize).map(|path| &**path);
    let last = row.stretches().next_back();
    let known = row.stretches().rev().find_map(|(_, _, number)| path(kind(number)?.call_path?));
    let state = last.and_then(|(_, _, number)| kind(number)).map(|kind| kind.state);
    // What was the same in pieces is one.
    let same = row.stretches().rev().take_while(|(_, _, number)| kind(*number).map(|kind| kind.state) == state);
    let since_ns = same.last().map_or(row.end_ns(), |(from_ns, _, _)| from_ns);
    Now {
        state: state.filter(|_| !thread.exited),
        ns: row.end_ns().saturating_sub(since_ns),
        before: since_ns <= report.facts.start_ns.max(thread.born_ns),
        call_path: known.unwrap_or_default(),
    }
}

/// The lock that a thread waits for in this state.
pub fn lock_of(state: Option<State>) -> Option<LockNumber> {
    match state {
        Some(State::Off { lock: Some(lock), .. }) => Some(lock),
        _ => None,
    }
}

/// Who has a lock at the end of a look, if its memory was read then and tells: a mutex of the C library names its
/// owner.
pub fn owner(facts: &Facts, words: &Words, lock: &LockFacts) -> Option<Tid> {
    /// Words are read every 5 ms while they are waited for.
    const FRESH_NS: u64 = 200_000_000;
    let word = words.get(&(lock.pid, lock.addr?))?;
    let is_fresh = word.time_ns + FRESH_NS >= facts.end_ns;
    (is_fresh && word.word != 0).then_some(word.owner).filter(|owner| facts.thread(*owner).is_some())
}
