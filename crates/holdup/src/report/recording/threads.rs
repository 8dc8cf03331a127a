//! Where each thread's time goes.

use holdup_analyze::{Facts, Reason, ThreadFacts};

use super::super::document::{Column, Document, Table};
use super::super::number;
use super::{more, rate, share};
use crate::recording::name;

/// A thread's life in parts that add up to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Parts {
    /// On a CPU.
    pub cpu_ns: u64,
    /// Waiting for locks.
    pub lock_ns: u64,
    /// Able to run but without a CPU: preempted or yielded.
    pub ready_ns: u64,
    /// Waiting for data or pages of a device.
    pub io_ns: u64,
    /// Idle by design: sleeping, waiting for events, for work, for a thread or a child.
    pub idle_ns: u64,
    /// All else: other calls, not started, not known.
    pub other_ns: u64,
}

/// Divides a thread's life.
pub fn parts(thread: &ThreadFacts) -> Parts {
    let mut parts = Parts { cpu_ns: thread.on_cpu_ns, ..Parts::default() };
    for (reason, off) in &thread.off {
        let part = match reason {
            Reason::Futex(what) if what.is_contention() => &mut parts.lock_ns,
            reason if reason.is_idle() => &mut parts.idle_ns,
            Reason::Preempted | Reason::Displaced | Reason::Yielded => &mut parts.ready_ns,
            Reason::Io | Reason::PageFault | Reason::Memory => &mut parts.io_ns,
            _ => &mut parts.other_ns,
        };
        *part += off.ns;
    }
    parts
}

/// The table, those that lose most time first.
pub fn table(facts: &Facts, limit: usize) -> Document {
    if facts.threads.is_empty() {
        return Document::from("No thread ran while it was recorded.");
    }
    let mut threads: Vec<&ThreadFacts> = facts.threads.iter().collect();
    threads.sort_by_key(|thread| (std::cmp::Reverse((thread.lock_wait_ns, thread.on_cpu_ns)), thread.tid));
    let mut table = Table::new([
        Column::left("thread"),
        Column::right("tid"),
        Column::right("life"),
        Column::right("CPU"),
        Column::right("lock"),
        Column::right("ready"),
        Column::right("I/O"),
        Column::right("idle"),
        Column::right("other"),
        Column::right("switches/s"),
        Column::right("run"),
    ]);
    for thread in threads.iter().take(limit) {
        table.row(row(facts, thread));
    }
    let mut view = Document::default();
    view.table(table);
    more(&mut view, threads.len(), limit, "thread");
    view.gap();
    view.paragraph(
        "Shares are of the thread's life within the recording. lock: waiting for locks; ready: preempted or yielded; idle: \
         waiting by design, for work, events, time or threads; run: median length of a stay on a CPU",
    );
    view
}

fn row(facts: &Facts, thread: &ThreadFacts) -> Vec<String> {
    let life = thread.life_ns();
    let parts = parts(thread);
    let percent = |ns: u64| match ns {
        0 => "-".to_owned(),
        ns => number::percent(share(ns, life)),
    };
    let switches = thread.voluntary + thread.involuntary;
    let per_second = if life == 0 { 0.0 } else { switches as f64 * 1e9 / life as f64 };
    vec![
        match name::thread_name(facts, thread) {
            "" => "-".to_owned(),
            name => name.to_owned(),
        },
        thread.tid.0.to_string(),
        number::time_ns(life as f64),
        percent(parts.cpu_ns),
        percent(parts.lock_ns),
        percent(parts.ready_ns),
        percent(parts.io_ns),
        percent(parts.idle_ns),
        percent(parts.other_ns),
        rate(per_second),
        number::time_ns(thread.run_ns.median_ns() as f64),
    ]
}

/// What a thread was off CPU for, longest first: `waits for a pthread mutex 41%`.
pub fn reasons(thread: &ThreadFacts) -> Vec<String> {
    let mut off: Vec<(Reason, u64)> = thread.off.iter().map(|(reason, off)| (*reason, off.ns)).collect();
    off.sort_by_key(|(_, ns)| std::cmp::Reverse(*ns));
    off.iter()
        .map(|(reason, ns)| format!("{} {}", name::reason(*reason), number::percent(share(*ns, thread.life_ns()))))
        .collect()
}
