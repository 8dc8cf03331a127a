//! `holdup top`: the screen of a program that runs, and the same as JSON.
//!
//! Pure like the rest of [`report`](super): [`View`] says what a look shows, [`screen::draw`] puts it into cells.

pub mod json;
pub mod screen;
#[cfg(test)]
mod tests;

use holdup_analyze::{Account, AccountState, Facts, LockFacts, LockNumber, Primitive, Reason, State, ThreadFacts};

use super::number;
use super::recording::{per_second, sentences, share, summary};
use crate::live::Look;
use crate::live::now::{self, Now};
use crate::recording::name;
use crate::text;

/// What a look shows, in words and figures.
#[derive(Clone, Debug, Default)]
pub struct View {
    /// Program, threads, CPUs, rates.
    pub context: String,
    /// The time of all threads.
    pub account: Account,
    /// What holds it up, worst first, a sentence each; or why there is none.
    pub findings: Vec<String>,
    /// Whether those are findings.
    pub has_findings: bool,
    /// Most time lost first.
    pub locks: Vec<LockRow>,
    /// By when they appeared.
    pub threads: Vec<ThreadRow>,
}

/// A lock.
#[derive(Clone, Debug, Default)]
pub struct LockRow {
    /// How reports call it.
    pub name: String,
    /// Part of all threads' time that is lost waiting for it.
    pub lost: f64,
    /// Waits per second.
    pub waits_per_s: f64,
    /// The longest wait.
    pub longest_ns: u64,
    /// Threads that wait for it now, with how long, longest first.
    pub waiters: Vec<(String, u64)>,
    /// Who has it now, and what that thread does; or who mostly ended waits.
    pub holder: String,
    /// Where it is waited for.
    pub place: Option<String>,
}

/// A thread.
#[derive(Clone, Debug, Default)]
pub struct ThreadRow {
    /// Its number.
    pub tid: u32,
    /// Its name with its number.
    pub name: String,
    /// Its time.
    pub account: Account,
    /// How often it left a CPU, per second.
    pub switches_per_s: f64,
    /// What it does now.
    pub now: String,
    /// Where it left a CPU last, innermost first.
    pub call_path: Vec<String>,
    /// Where it runs mostly.
    pub runs_in: Option<String>,
}

impl View {
    /// What a look shows.
    pub fn new(look: &Look) -> View {
        let recording = &look.recording;
        let facts = &recording.report.facts;
        let now: Vec<Now<'_>> =
            (0..facts.threads.len()).map(|index| now::of_thread(&recording.report, index)).collect();
        let has_findings = !recording.report.findings.is_empty();
        let findings = match has_findings {
            true => recording.report.findings.iter().map(|finding| sentences::of(recording, finding).what).collect(),
            false => vec![summary::headline(recording)],
        };
        let contended = facts.numbered_locks().filter(|(_, lock)| lock.primitive.is_contention() && lock.waits > 0);
        View {
            context: summary::context(facts),
            account: facts.account,
            findings,
            has_findings,
            locks: contended.map(|(number, lock)| lock_row(look, &now, number, lock)).collect(),
            threads: facts
                .threads
                .iter()
                .zip(&now)
                .filter(|(thread, _)| !thread.exited)
                .map(|(thread, now)| thread_row(facts, thread, now))
                .collect(),
        }
    }
}

fn lock_row(look: &Look, now: &[Now<'_>], number: LockNumber, lock: &LockFacts) -> LockRow {
    let facts = &look.recording.report.facts;
    let waits = |now: &&Now<'_>| now::lock_of(now.state) == Some(number);
    let waiting = facts.threads.iter().zip(now).filter(|(_, now)| waits(now));
    let mut waiters: Vec<(String, u64)> =
        waiting.map(|(thread, now)| (name::thread_in(facts, thread), now.ns)).collect();
    waiters.sort_by_key(|(_, ns)| std::cmp::Reverse(*ns));
    LockRow {
        name: name::lock_in_row(lock),
        lost: share(lock.wait_ns.sum_ns(), facts.totals.thread_ns),
        waits_per_s: per_second(facts, lock.waits),
        longest_ns: lock.wait_ns.max_ns(),
        waiters,
        holder: holder(look, now, lock),
        place: lock.wait_sites.first().and_then(name::caller),
    }
}

/// `worker-1 (12) has it, waits for I/O`, where its memory tells; `mostly worker-1 (12)`, where only the past does.
fn holder(look: &Look, now: &[Now<'_>], lock: &LockFacts) -> String {
    let facts = &look.recording.report.facts;
    if let Some(owner) = now::owner(facts, &look.words, lock) {
        let index = facts.threads.iter().rposition(|thread| thread.tid == owner);
        let doing = index.and_then(|index| now.get(index)).map(|now| doing(facts, now)).unwrap_or_default();
        return format!("{} has it, {doing}", name::thread(facts, owner));
    }
    match lock.holders.first() {
        Some(holder) if holder.tid.0 != 0 => format!("mostly {}", name::thread(facts, holder.tid)),
        _ => String::new(),
    }
}

fn thread_row(facts: &Facts, thread: &ThreadFacts, now: &Now<'_>) -> ThreadRow {
    let life_s = thread.life_ns() as f64 / 1e9;
    let switches = (thread.voluntary + thread.involuntary) as f64;
    ThreadRow {
        tid: thread.tid.0,
        name: name::thread_in(facts, thread),
        account: thread.account,
        switches_per_s: if life_s > 0.0 { switches / life_s } else { 0.0 },
        now: doing(facts, now),
        call_path: now.call_path.iter().map(name::place).collect(),
        runs_in: thread.hot_sites.first().and_then(name::caller),
    }
}

/// `waits for g_lock 40ms`.
fn doing(facts: &Facts, now: &Now<'_>) -> String {
    let lock = now::lock_of(now.state).and_then(|lock| facts.lock(lock));
    let what = match (now.state, lock) {
        (None, _) => return "-".to_owned(),
        (_, Some(lock)) if lock.primitive.is_contention() => format!("waits for {}", name::lock_in_row(lock)),
        (Some(State::Running { .. }), _) => return "runs".to_owned(),
        (Some(State::Runnable), _) => "waits for a CPU".to_owned(),
        (Some(State::Off { reason: Reason::Futex(Primitive::Unknown), .. }), _) => "waits on a futex".to_owned(),
        (Some(State::Off { reason, .. }), _) => name::reason(reason),
        (Some(State::Unknown), _) => return "-".to_owned(),
    };
    let more = if now.before { ">" } else { "" };
    format!("{} {more}{}", text::clean(&what), number::time_ns(now.ns as f64))
}

/// By what threads are sorted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sort {
    /// Time lost waiting for locks, then CPU time.
    #[default]
    Lock,
    /// CPU time.
    Cpu,
    /// Switches.
    Switches,
    /// Names.
    Name,
}

impl Sort {
    /// The next one, in a circle.
    pub fn next(self) -> Sort {
        match self {
            Sort::Lock => Sort::Cpu,
            Sort::Cpu => Sort::Switches,
            Sort::Switches => Sort::Name,
            Sort::Name => Sort::Lock,
        }
    }

    /// What the screen calls it.
    pub fn name(self) -> &'static str {
        match self {
            Sort::Lock => "lock",
            Sort::Cpu => "CPU",
            Sort::Switches => "switches",
            Sort::Name => "name",
        }
    }
}

/// The threads whose name or state has this text, in this order.
pub fn chosen<'a>(view: &'a View, filter: &str, sort: Sort) -> Vec<&'a ThreadRow> {
    let wanted = filter.to_lowercase();
    let has = |row: &&ThreadRow| row.name.to_lowercase().contains(&wanted) || row.now.to_lowercase().contains(&wanted);
    let mut rows: Vec<&ThreadRow> = view.threads.iter().filter(has).collect();
    let cpu = |row: &ThreadRow| row.account.share(AccountState::Running) + row.account.share(AccountState::Spinning);
    let lock = |row: &ThreadRow| row.account.share(AccountState::Lock);
    rows.sort_by(|a, b| {
        let order = match sort {
            Sort::Lock => lock(b).total_cmp(&lock(a)).then(cpu(b).total_cmp(&cpu(a))),
            Sort::Cpu => cpu(b).total_cmp(&cpu(a)),
            Sort::Switches => b.switches_per_s.total_cmp(&a.switches_per_s),
            Sort::Name => a.name.cmp(&b.name),
        };
        order.then(a.tid.cmp(&b.tid))
    });
    rows
}
