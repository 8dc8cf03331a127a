//! Where each thread's time goes.

use holdup_analyze::{AccountState, Facts, Reason, ThreadFacts};

use super::super::document::{Column, Document, Table};
use super::super::number;
use super::{more, rate, share};
use crate::recording::name;

/// The columns of a thread's account: heading, and the states that it sums up.
const PARTS: [(&str, &[AccountState]); 7] = [
    ("run", &[AccountState::Running]),
    ("spin", &[AccountState::Spinning]),
    ("lock", &[AccountState::Lock]),
    ("ready", &[AccountState::CpuOwn, AccountState::CpuOther]),
    ("I/O", &[AccountState::Io, AccountState::Memory]),
    ("idle", &[AccountState::Work, AccountState::Barrier, AccountState::Sleep]),
    ("other", &[AccountState::Unknown]),
];

/// The table, those that lose most time first.
pub fn table(facts: &Facts, limit: usize) -> Document {
    if facts.threads.is_empty() {
        return Document::from("No thread ran while it was recorded.");
    }
    let mut threads: Vec<&ThreadFacts> = facts.threads.iter().collect();
    threads.sort_by_key(|thread| (std::cmp::Reverse((thread.lock_wait_ns, thread.on_cpu_ns)), thread.tid));
    threads.truncate(limit);
    // What no thread does takes no room.
    let parts = PARTS.iter().filter(|(_, states)| threads.iter().any(|thread| sum_ns(thread, states) > 0));
    let parts: Vec<&(&str, &[AccountState])> = parts.collect();
    let mut columns = vec![Column::left("thread"), Column::right("tid"), Column::right("life")];
    columns.extend(parts.iter().map(|(heading, _)| Column::right(heading)));
    columns.extend([Column::right("switches/s"), Column::right("stay")]);
    let mut table = Table::new(columns);
    for thread in &threads {
        table.row(row(facts, thread, &parts));
    }
    let mut view = Document::default();
    view.table(table);
    more(&mut view, facts.threads.len(), limit, "thread");
    view.gap();
    view.paragraph(
        "Shares are of the thread's life within the recording, as in the account. spin: spinning or yielding; lock: \
         waiting for locks; ready: able to run, without a CPU; idle: waiting for work, events, time or threads; stay: \
         median length of a stay on a CPU",
    );
    view
}

fn sum_ns(thread: &ThreadFacts, states: &[AccountState]) -> u64 {
    states.iter().map(|state| thread.account.of(*state)).sum()
}

fn row(facts: &Facts, thread: &ThreadFacts, parts: &[&(&str, &[AccountState])]) -> Vec<String> {
    let life = thread.life_ns();
    let percent = |states: &[AccountState]| match sum_ns(thread, states) {
        0 => "-".to_owned(),
        ns => number::percent(share(ns, life)),
    };
    let switches = thread.voluntary + thread.involuntary;
    let per_second = if life == 0 { 0.0 } else { switches as f64 * 1e9 / life as f64 };
    let name = match name::thread_name(facts, thread) {
        "" => "-".to_owned(),
        name => name.to_owned(),
    };
    let mut row = vec![name, thread.tid.0.to_string(), number::time_ns(life as f64)];
    row.extend(parts.iter().map(|(_, states)| percent(states)));
    row.extend([rate(per_second), number::time_ns(thread.run_ns.median_ns() as f64)]);
    row
}

/// What a thread was off CPU for, longest first: `waits for a pthread mutex 41%`.
pub fn reasons(thread: &ThreadFacts) -> Vec<String> {
    let mut off: Vec<(Reason, u64)> = thread.off.iter().map(|(reason, off)| (*reason, off.ns)).collect();
    off.sort_by_key(|(_, ns)| std::cmp::Reverse(*ns));
    off.iter()
        .map(|(reason, ns)| format!("{} {}", name::reason(*reason), number::percent(share(*ns, thread.life_ns()))))
        .collect()
}
