//! Recordings in formats of other programs: the timeline for Perfetto and the Firefox Profiler, stacks for pprof and
//! flame graphs, tables of many recordings as Parquet.
//!
//! The writers of timelines take a [`Report`] whose analysis kept one, and are linear in its size.

pub mod collapsed;
pub mod firefox;
pub mod parquet;
pub mod perfetto;
pub mod pprof;
mod stacks;

#[cfg(test)]
pub(crate) mod specimen;

use std::collections::HashMap;
use std::io;

use holdup_analyze::{AccountState, Facts, Finding, Frame, LockNumber, Reason, Report, State, Timeline};
use holdup_trace::{NO_CPU, Tid};

use crate::recording::name;
use crate::text;

/// The timeline of a report.
///
/// # Errors
/// The analysis was not asked to keep one.
pub(crate) fn timeline(report: &Report) -> io::Result<&Timeline> {
    let missing = || io::Error::new(io::ErrorKind::InvalidInput, "the analysis kept no timeline to export");
    report.timeline.as_ref().ok_or_else(missing)
}

/// What intervals are called: few, however many intervals there are, so that each name is made once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Label {
    Running(u16),
    Lock(LockNumber),
    Off(Reason),
    Runnable,
    Unknown,
}

/// What an interval counts for in the account.
pub(crate) fn group(state: State) -> AccountState {
    match state {
        State::Running { .. } => AccountState::Running,
        State::Runnable => AccountState::CpuOwn,
        State::Off { reason, .. } => AccountState::of(reason),
        State::Unknown => AccountState::Unknown,
    }
}

impl Label {
    pub(crate) fn of(state: State) -> Label {
        match state {
            State::Running { cpu } => Label::Running(cpu),
            State::Off { lock: Some(lock), .. } => Label::Lock(lock),
            State::Off { reason, lock: None } => Label::Off(reason),
            State::Runnable => Label::Runnable,
            State::Unknown => Label::Unknown,
        }
    }

    /// As it is shown. A lock that the facts do not have is called by its reason alone.
    pub(crate) fn text(self, facts: &Facts) -> String {
        match self {
            Label::Running(NO_CPU) => "running".to_owned(),
            Label::Running(cpu) => format!("CPU {cpu}"),
            Label::Lock(lock) => match facts.lock(lock) {
                Some(lock) => {
                    let word = if lock.primitive.is_contention() { "for" } else { "on" };
                    format!("waits {word} {}", name::lock(lock))
                }
                None => "waits on a futex".to_owned(),
            },
            Label::Off(reason) => name::reason(reason),
            Label::Runnable => "runnable".to_owned(),
            Label::Unknown => "unknown: events were lost".to_owned(),
        }
    }
}

/// Threads by number; a number can belong to several threads, one after the other.
pub(crate) struct Directory<'a> {
    facts: &'a Facts,
    by_tid: HashMap<Tid, Vec<usize>>,
}

impl<'a> Directory<'a> {
    pub(crate) fn new(facts: &'a Facts) -> Self {
        let mut by_tid: HashMap<Tid, Vec<usize>> = HashMap::new();
        for (index, thread) in facts.threads.iter().enumerate() {
            by_tid.entry(thread.tid).or_default().push(index);
        }
        Directory { facts, by_tid }
    }

    /// Index of the thread that had the number at that moment; of the last that had it, if none did.
    pub(crate) fn at(&self, tid: Tid, time_ns: u64) -> Option<usize> {
        let indices = self.by_tid.get(&tid)?;
        let lived = |index: &&usize| {
            let thread = &self.facts.threads[**index];
            thread.born_ns <= time_ns && time_ns <= thread.ended_ns
        };
        indices.iter().find(lived).or(indices.last()).copied()
    }
}

/// The function of a frame in full, or its module and where it begins.
pub(crate) fn frame_name(frame: &Frame) -> String {
    frame.function.as_deref().map_or_else(|| name::module_and_offset(frame), text::clean)
}

/// A call path in one line, as flame graphs take it: outermost first, separated by semicolons, which stand nowhere
/// else.
pub(crate) fn call_path_text(call_path: &[Frame]) -> String {
    let frames: Vec<String> = call_path.iter().rev().map(|frame| frame_name(frame).replace(';', ":")).collect();
    frames.join(";")
}

/// What a finding is about: `hot-lock: g_cache_lock`.
fn headline(facts: &Facts, finding: &Finding) -> String {
    let subjects: Vec<String> = finding.subjects.iter().map(|subject| name::subject(facts, subject)).collect();
    match subjects.as_slice() {
        [] => finding.kind.name().to_owned(),
        known => format!("{}: {}", finding.kind.name(), known.join(", ")),
    }
}
