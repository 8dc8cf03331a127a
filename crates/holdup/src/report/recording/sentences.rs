//! The sentences of findings: a [`Finding`] is data, here it becomes what, where, how much, what to try, and how to test it.

use holdup_analyze::{Cure, Evidence, Facts, Finding, HolderDoing, Kind, Reason, Subject, Unit};

use super::super::{number, text};
use super::{name, share};

/// A finding in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Words {
    /// One sentence: who does what to whom.
    pub what: String,
    /// Whom it is about, in a few words.
    pub subject: String,
    /// The place in the program.
    pub place: Option<String>,
    /// What it costs: `41% of all threads' time`.
    pub cost: String,
    /// What was seen, a phrase each, the most telling first.
    pub evidence: Vec<String>,
    /// What to try, as a sentence.
    pub cure: &'static str,
    /// The command that tests the cure.
    pub proof: String,
}

/// Says it.
pub fn of(facts: &Facts, finding: &Finding) -> Words {
    let subject = subject(facts, finding);
    Words {
        what: what(facts, finding, &subject),
        place: finding.place.as_ref().and_then(name::caller),
        cost: cost(finding),
        evidence: finding.evidence.iter().map(evidence).collect(),
        cure: cure(finding.cure),
        proof: proof(facts, finding),
        subject,
    }
}

/// Whom a finding is about: its subjects, two by name, more by number.
fn subject(facts: &Facts, finding: &Finding) -> String {
    let names: Vec<String> = finding.subjects.iter().map(|subject| name::subject(facts, subject)).collect();
    match names.as_slice() {
        [] => "the whole program".to_owned(),
        [_] | [_, _] => text::list(&names),
        [first, rest @ ..] => format!("{first} and {} more", rest.len()),
    }
}

fn what(facts: &Facts, finding: &Finding, subject: &str) -> String {
    let much = number::percent(finding.severity);
    let figure = |key: &str| value(finding, key);
    match finding.kind {
        Kind::LockConvoy => format!(
            "Threads queue up behind {subject}: most who take it are switched out first, which costs {much} of all threads' time."
        ),
        Kind::HotLock => {
            format!("Threads lose {much} of their time waiting for {subject}.")
        }
        Kind::SleepingHolder => format!(
            "Threads wait for {subject} while its holder is off CPU{}: {much} of all threads' time.",
            holder_excuse(facts, finding)
        ),
        Kind::ExcessiveSwitching => match figure("switches_per_s") {
            Some(rate) => format!(
                "Threads are switched {} times a second, far more often than time slices would need.",
                number::count(rate)
            ),
            None => "Threads are switched far more often than time slices would need.".to_owned(),
        },
        Kind::PingPong => match figure("round_trips_per_s") {
            Some(rate) => format!(
                "{subject} wake each other in turn, {} round trips a second: neither gets far alone.",
                number::count(rate)
            ),
            None => format!("{subject} wake each other in turn: neither gets far alone."),
        },
        Kind::Oversubscription => format!(
            "More threads want to run than there are CPUs{}: they spend {much} of their time waiting for one.",
            cpus(facts)
        ),
        Kind::ThunderingHerd => {
            format!("One wake-up of {subject} releases many threads, and most go straight back to sleep.")
        }
        Kind::SpinWaste => format!("{much} of CPU time is burnt spinning in {subject}."),
        Kind::HotAtomic => format!(
            "CPUs fight over {subject}: {much} of CPU time piles up behind an atomic instruction on it."
        ),
        Kind::KernelHeavy => format!("{much} of CPU time is spent in the kernel."),
        Kind::WastedWakeups => {
            format!("Most futex calls for {subject} are for nothing: they wake nobody or do not sleep.")
        }
        Kind::Imbalance => format!("The work is uneven: {subject} does far more or less than its like."),
        Kind::PriorityInversion => format!(
            "A holder of {subject} with low priority is preempted and delays threads of higher priority."
        ),
    }
}

fn cpus(facts: &Facts) -> String {
    match facts.header.machine.cpus {
        0 => String::new(),
        cpus => format!(" ({cpus})"),
    }
}

/// What the holders of the finding's lock mostly did off CPU: `, mostly asleep`.
fn holder_excuse(facts: &Facts, finding: &Finding) -> String {
    let index = finding.subjects.iter().find_map(|subject| match subject {
        Subject::Lock { index, .. } => Some(*index),
        _ => None,
    });
    let doing = index.and_then(|index| facts.locks.get(index)).map(|lock| &lock.holder_doing);
    match doing.and_then(longest_off) {
        Some(reason) => format!(", mostly {}", off(reason)),
        None => String::new(),
    }
}

fn longest_off(doing: &HolderDoing) -> Option<Reason> {
    doing.off.iter().filter(|(_, ns)| **ns > 0).max_by_key(|(_, ns)| **ns).map(|(reason, _)| *reason)
}

/// What a holder is while it is off CPU, as a participle.
pub fn off(reason: Reason) -> &'static str {
    match reason {
        Reason::Futex(what) if what.is_contention() => "waiting for another lock",
        Reason::Futex(_) => "waiting to be woken",
        Reason::Sleep => "asleep",
        Reason::Poll => "waiting for events",
        Reason::Io => "waiting for I/O",
        Reason::Child => "waiting for a child process",
        Reason::PageFault => "in a page fault",
        Reason::Preempted => "preempted",
        Reason::Yielded => "yielding",
        Reason::OtherCall => "blocked in a system call",
        Reason::Starting => "not started yet",
        Reason::Unknown => "off for an unknown reason",
    }
}

/// What holders did while others waited, largest part first: `ran 71%, preempted 20%`.
pub fn holders(doing: &HolderDoing) -> Vec<String> {
    let mut parts: Vec<(u64, &str)> = vec![(doing.running_ns, "running"), (doing.unknown_ns, "not known")];
    for (reason, ns) in &doing.off {
        let word = off(*reason);
        match parts.iter_mut().find(|(_, known)| *known == word) {
            Some((sum, _)) => *sum += ns,
            None => parts.push((*ns, word)),
        }
    }
    parts.retain(|(ns, _)| *ns > 0);
    parts.sort_by_key(|(ns, _)| std::cmp::Reverse(*ns));
    let all: u64 = parts.iter().map(|(ns, _)| ns).sum();
    parts.iter().map(|(ns, word)| format!("{word} {}", number::percent(share(*ns, all)))).collect()
}

fn cost(finding: &Finding) -> String {
    let much = number::percent(finding.severity);
    match finding.kind {
        Kind::SpinWaste | Kind::HotAtomic | Kind::KernelHeavy => format!("{much} of CPU time"),
        _ => format!("{much} of all threads' time"),
    }
}

/// A number of the evidence by its key.
fn value(finding: &Finding, key: &str) -> Option<f64> {
    finding.evidence.iter().find(|evidence| evidence.name == key).map(|evidence| evidence.value)
}

/// A piece of evidence as a phrase: `wait median 22us`.
pub fn evidence(evidence: &Evidence) -> String {
    format!("{} {}", label(evidence.name), figure(evidence.value, evidence.unit))
}

/// The name without its unit: `wait_ns_p99` as `wait p99`.
pub fn label(name: &str) -> String {
    let spaced = format!("_{name}_");
    let bare = ["_per_s_", "_ns_", "_share_", "_ratio_", "_count_"]
        .iter()
        .fold(spaced, |name, unit| name.replace(unit, "_"));
    bare.trim_matches('_').replace('_', " ")
}

/// A value with its unit.
pub fn figure(value: f64, unit: Unit) -> String {
    match unit {
        Unit::Count => number::count(value),
        Unit::PerSecond => format!("{}/s", number::count(value)),
        Unit::Ns => number::time_ns(value),
        Unit::Share => number::percent(value),
        Unit::Ratio => format!("{}x", number::ratio(value)),
    }
}

fn cure(cure: Cure) -> &'static str {
    match cure {
        Cure::ShortenSplitOrGate => {
            "Do less while the lock is held, split it by key, or let fewer threads contend for it."
        }
        Cure::SpinThenPark => {
            "Spin for a few hundred nanoseconds before sleeping: the wait is shorter than a switch."
        }
        Cure::MoveOutOfSection => "Do what sleeps or blocks before taking the lock or after releasing it.",
        Cure::MergeOrBatch => "Give both halves to one thread, or hand over many items at a time.",
        Cure::FewerThreads => "Run as many threads as there are CPUs, and queue the work.",
        Cure::WakeOne => {
            "Wake one thread at a time: signal in place of broadcast, a semaphore, or one condition per kind of waiter."
        }
        Cure::ParkInsteadOfSpin => "Sleep after a short spin, with a lock that parks its waiters.",
        Cure::ShardCounter => {
            "Count per thread or per CPU and add up on reading; claim many indices at a time."
        }
        Cure::FewerCalls => "Make fewer system calls: larger buffers, batches, no needless wake-ups.",
        Cure::WakeOnlyWaiters => "Wake only when somebody waits: keep a count of waiters beside the lock.",
        Cure::Rebalance => "Cut the work finer, or let idle threads take from busy ones.",
        Cure::InheritPriority => {
            "Use a mutex with priority inheritance, or give the holder the waiters' priority."
        }
        Cure::CoarserWork => "Do more work between two waits: larger pieces per hand-over.",
    }
}

/// The command that tests the cure, for a shell.
fn proof(facts: &Facts, finding: &Finding) -> String {
    let mut words = vec!["holdup".to_owned()];
    words.extend(finding.proof.words.iter().map(|word| quoted(word)));
    if finding.proof.program {
        words.push("--".to_owned());
        let command = &facts.header.target.command;
        match command.is_empty() {
            true => words.push("PROGRAM".to_owned()),
            false => words.extend(command.iter().map(|word| quoted(word))),
        }
    }
    words.join(" ")
}

/// A word that a shell reads back, with nothing in it that moves a cursor.
pub(super) fn quoted(word: &str) -> String {
    crate::cli::measure::quoted(&text::clean(word))
}
