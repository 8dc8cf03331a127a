//! Every switch, one line each: when, on which CPU, who ran how long, why it left, who had woken it.

use std::collections::HashMap;

use holdup_analyze::{Facts, Interval, Report, State, Timeline};
use holdup_trace::{NO_CPU, Tid};

use super::super::document::{Column, Row, Table};
use super::super::{Style, number};
use super::since_start_s;
use crate::recording::name;

/// A stay on a CPU.
#[derive(Clone, Copy, Debug)]
struct Run {
    thread: usize,
    run: Interval,
    cpu: u16,
    /// What the thread did next.
    next: Option<State>,
    /// When it last left a CPU before: a wake-up for this run came later.
    since_ns: u64,
}

/// The list in order of time, given to `out` line by line; stops early when `out` says so.
///
/// # Errors
/// Those of `out`.
pub fn write<E>(
    report: &Report,
    limit: usize,
    style: &Style,
    mut out: impl FnMut(&str) -> Result<(), E>,
) -> Result<(), E> {
    let Some(timeline) = &report.timeline else {
        return out("No timeline was kept.\n");
    };
    let runs = runs(timeline);
    if runs.is_empty() {
        return out("No switch in this time.\n");
    }
    let wakes = wakes(timeline);
    let columns = columns(style.width);
    let layout = columns.layout(style, style.width);
    let mut lines = |lines: Vec<String>| lines.iter().try_for_each(|line| out(&format!("{line}\n")));
    lines(layout.head())?;
    for run in runs.iter().take(limit) {
        lines(layout.row(&row(&report.facts, run, &wakes)))?;
    }
    match runs.len().saturating_sub(limit) {
        0 => Ok(()),
        hidden => lines(vec![format!("{hidden} more: --limit {} shows them", runs.len())]),
    }
}

/// The list is written as it is made, so its columns cannot be as wide as their widest cell: names share what room
/// there is.
fn columns(width: usize) -> Table {
    let more = width.saturating_sub(80) / 3;
    Table::new([
        Column::right("left at").at_least(10),
        Column::right("CPU"),
        Column::left("thread").at_least(17 + more),
        Column::right("ran for"),
        Column::left("then").at_least(19 + more),
        Column::left("woken by").at_least(14 + more),
    ])
}

fn runs(timeline: &Timeline) -> Vec<Run> {
    let mut runs = Vec::new();
    for thread in 0..timeline.threads.len() {
        let mut since_ns = 0;
        let mut intervals = timeline.intervals(thread).peekable();
        while let Some(run) = intervals.next() {
            if let State::Running { cpu } = run.state {
                let next = intervals.peek().map(|next| next.state);
                runs.push(Run { thread, run, cpu, next, since_ns });
                since_ns = run.to_ns;
            }
        }
    }
    runs.sort_by_key(|run| (run.run.to_ns, run.run.from_ns, run.thread));
    runs
}

/// Wake-ups by the thread that was woken, in order of time.
fn wakes(timeline: &Timeline) -> HashMap<Tid, Vec<(u64, Tid)>> {
    let mut wakes: HashMap<Tid, Vec<(u64, Tid)>> = HashMap::new();
    for wake in &timeline.wakes {
        wakes.entry(wake.to).or_default().push((wake.time_ns, wake.from));
    }
    wakes
}

fn row(facts: &Facts, run: &Run, wakes: &HashMap<Tid, Vec<(u64, Tid)>>) -> Row {
    let thread = facts.threads.get(run.thread);
    let tid = thread.map(|thread| thread.tid).unwrap_or_default();
    let woken_by = wakes.get(&tid).and_then(|wakes| {
        let before = wakes.partition_point(|(time_ns, _)| *time_ns <= run.run.from_ns);
        let (time_ns, from) = wakes[..before].last()?;
        (*time_ns >= run.since_ns).then_some(*from)
    });
    Row::new([
        format!("{:.6}", since_start_s(facts, run.run.to_ns)),
        if run.cpu == NO_CPU { "?".to_owned() } else { run.cpu.to_string() },
        thread.map(|thread| name::thread_in(facts, thread)).unwrap_or_default(),
        number::time_ns((run.run.to_ns - run.run.from_ns) as f64),
        then(facts, run.next),
        woken_by.map(|from| name::thread(facts, from)).unwrap_or_default(),
    ])
}

/// Why it left.
fn then(facts: &Facts, next: Option<State>) -> String {
    match next {
        None => "ended".to_owned(),
        Some(State::Runnable) => "preempted".to_owned(),
        Some(State::Unknown) => "not known".to_owned(),
        Some(State::Running { .. }) => "went on".to_owned(),
        Some(State::Off { reason, lock }) => {
            let lock = lock.and_then(|lock| facts.lock(lock));
            match lock {
                Some(lock) => format!("waits: {}", name::lock_in_row(lock)),
                None => name::reason(reason),
            }
        }
    }
}
