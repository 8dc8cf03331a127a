//! The sentences of findings: a [`Finding`] is data, here it becomes what, where, how much, what to try, and how to
//! test it.

use std::collections::BTreeMap;

use holdup_analyze::{
    Blame, Cure, Evidence, Facts, Finding, Frame, GoroutineHolder, HolderDoing, Kind, Leaf, LockFacts, Reason, Role,
    Site, Subject, ThreadFacts, Unit, blocked_holder, lock_ahead, lock_of, lock_of_goroutines,
};
use holdup_trace::Tid;

use super::super::document::Document;
use super::super::number;
use super::{goroutines, per_second, share};
use crate::recording::Recording;
use crate::recording::name;
use crate::shell;
use crate::text;

/// A finding in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Words {
    /// One sentence: who does what to whom.
    pub what: String,
    /// Whom it is about, in a few words.
    pub subject: String,
    /// The places in the program.
    pub place: Option<String>,
    /// What the holder of the lock did while others waited, and where it releases it.
    pub holder: Option<String>,
    /// What it costs: `41% of working time`.
    pub cost: String,
    /// What was seen, a phrase each, the most telling first.
    pub evidence: Vec<String>,
    /// What to try, as a sentence.
    pub cure: &'static str,
    /// How to test the cure.
    pub proof: Proof,
}

/// How a cure is tested.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Proof {
    /// This command tests it: words for a shell.
    Command(Vec<String>),
    /// This command shows what the like makes on this machine; of the program it proves nothing.
    Effect(Vec<String>),
    /// No command of this version does it alone: change the program, record again, and compare by this command.
    Compare(Vec<String>),
}

impl Proof {
    /// The words of the command.
    pub fn words(&self) -> &[String] {
        match self {
            Proof::Command(words) | Proof::Effect(words) | Proof::Compare(words) => words,
        }
    }

    /// What the command is for.
    pub(crate) fn label(&self) -> &'static str {
        match self {
            Proof::Effect(_) => "effect",
            Proof::Command(_) | Proof::Compare(_) => "test",
        }
    }

    /// The command, and for a comparison what comes before it.
    pub(crate) fn show(&self, value: &mut Document) {
        if let Proof::Compare(_) = self {
            value.paragraph("change it, record again as AFTER.holdup, and compare:");
        }
        value.command(self.words());
    }
}

/// Says it.
pub fn of(recording: &Recording, finding: &Finding) -> Words {
    let facts = &recording.report.facts;
    let subject = subject(facts, finding);
    Words {
        what: what(facts, finding, &subject),
        place: places(facts, finding),
        holder: lock(facts, finding)
            .filter(|_| blames_holder(finding.kind))
            .and_then(holder)
            .or_else(|| goroutines_holder(facts, finding).and_then(holder_of_goroutines)),
        cost: cost(finding),
        evidence: finding.evidence.iter().map(evidence).collect(),
        cure: cure(finding.cure),
        proof: proof(recording, finding),
        subject,
    }
}

/// Whom a finding is about: its subjects, two by name, more by number.
pub fn subject(facts: &Facts, finding: &Finding) -> String {
    // Who waits for the locks of a deadlock is told with them.
    let is_told = |subject: &&Subject| finding.kind != Kind::Deadlock || matches!(subject, Subject::Lock { .. });
    let names: Vec<String> =
        finding.subjects.iter().filter(is_told).map(|subject| name::subject(facts, subject)).collect();
    match names.as_slice() {
        [] => "the whole program".to_owned(),
        [_] | [_, _] => text::list(&names),
        [first, rest @ ..] => format!("{first} and {} more", rest.len()),
    }
}

/// Which other lock most wait for, if its holder waits for the one of the finding.
fn behind(facts: &Facts, finding: &Finding) -> String {
    let Some(share) = value(finding, "behind_share") else { return String::new() };
    let number = lock_of(finding);
    let behind = facts.numbered_locks().filter(|(other, _)| number.is_some() && lock_ahead(facts, *other) == number);
    let most = behind.map(|(_, lock)| lock).max_by_key(|lock| lock.wait_ns.sum_ns());
    let name = most.map(name::lock).unwrap_or_else(|| "other locks".to_owned());
    format!(", {} of it behind {name}, whose holder waits for this one", number::percent(share))
}

fn what(facts: &Facts, finding: &Finding, subject: &str) -> String {
    let much = number::percent(finding.severity);
    match finding.kind {
        Kind::LockConvoy => format!(
            "Threads queue up behind {subject}: most who take it are switched out first, which costs {much} of the \
             threads' working time."
        ),
        Kind::HotLock if lock_of_goroutines(facts, finding).is_some() => format!(
            "Goroutines wait for {subject}: {} of {} at a time, which costs {much} of the working goroutines' time.",
            value(finding, "waiting_goroutines").map(number::count).unwrap_or_default(),
            value(finding, "goroutines").map(number::count).unwrap_or_default()
        ),
        Kind::HotLock if value(finding, "samples_share").is_some() => format!(
            "Threads take the lock of {subject} so often that {much} of their working time goes to passing it from CPU \
             to CPU."
        ),
        Kind::HotLock if finding.place.as_ref().is_some_and(Site::waits_for_row) => format!(
            "{} of PostgreSQL wait for locks of rows or tables that other transactions have, for {much} of their working \
             time.",
            others(finding, "threads", "process")
        ),
        Kind::HotLock if finding.cure == Cure::ShortenTransactions => format!(
            "{} sleep and look again until the lock of a SQLite database is free, for {much} of their working time{}.",
            others(finding, "threads", "thread"),
            under(finding)
        ),
        Kind::HotLock if value(finding, "wasted_calls_per_s").is_some() => format!(
            "Threads take {subject} so often that {} times a second one goes to sleep or wakes another for it, and it \
             has changed hands already: {much} of the CPU time.",
            value(finding, "wasted_calls_per_s").map(|rate| number::count(rate.round())).unwrap_or_default()
        ),
        Kind::HotLock => format!(
            "Threads lose {much} of their working time waiting for {subject}{}.",
            by_one(facts, finding).unwrap_or_default()
        ),
        Kind::Deadlock => deadlock(facts, finding),
        Kind::SleepingHolder if lock_of_goroutines(facts, finding).is_some() => format!(
            "{} of {} goroutines wait for {subject} while its holder is {}: that costs {much} of the working \
             goroutines' time.",
            value(finding, "waiting_goroutines").map(number::count).unwrap_or_default(),
            value(finding, "goroutines").map(number::count).unwrap_or_default(),
            goroutines_holder(facts, finding).map(goroutines::holder_does).unwrap_or("off CPU")
        ),
        Kind::SleepingHolder => format!(
            "Threads wait for {subject} while its holder is off CPU{}, for {much} of their working time{}.",
            holder_excuse(facts, finding),
            behind(facts, finding)
        ),
        Kind::ExcessiveSwitching if value(finding, "hand_over_share").is_some() => format!(
            "Goroutines hand over so little at a time that Go's channels and scheduler take {} of the CPU time, in \
             {subject}.",
            number::percent(value(finding, "hand_over_share").unwrap_or_default())
        ),
        Kind::ExcessiveSwitching => {
            // The finding counts the switches that the threads cause each other, and those of its threads alone.
            let rate = value(finding, "switches_per_s").unwrap_or_else(|| per_second(facts, facts.totals.switches));
            let run = value(finding, "run_ns_median").unwrap_or(facts.totals.run_ns.median_ns() as f64);
            format!(
                "Threads switch each other out {} times a second and run {} in between (median): far less than a time \
                 slice.",
                number::count(rate.round()),
                number::time_ns(run)
            )
        }
        Kind::PingPong if finding.cure == Cure::LetOverlap => format!(
            "{subject} take turns for {} of the time{}: while one works, the other waits.",
            value(finding, "alone_share").map(number::percent).unwrap_or_default(),
            round_trips(finding)
        ),
        Kind::PingPong => {
            format!("{subject} wake each other in turn{}: neither gets far alone.", round_trips(finding))
        }
        Kind::Oversubscription => format!(
            "More threads want to run than there are CPUs{}: that costs {much} of the threads' working time.",
            wanting(finding)
        ),
        Kind::ThunderingHerd if value(finding, "awake_goroutines").is_some() => format!(
            "{} of {} goroutines are awake for a condition at a time, in {subject}: a broadcast wakes all who wait for it.",
            value(finding, "awake_goroutines").map(number::count).unwrap_or_default(),
            value(finding, "goroutines").map(number::count).unwrap_or_default()
        ),
        Kind::ThunderingHerd if value(finding, "passed_per_s").is_some() => format!(
            "Up to {} wait at {subject}, which is passed on {} times a second from one that looks and waits again to the \
             next: all are woken for one.",
            others(finding, "max_waiters", "thread"),
            value(finding, "passed_per_s").map(|rate| number::count(rate.round())).unwrap_or_default()
        ),
        Kind::ThunderingHerd if finding.cure == Cure::WaitInCall => format!(
            "What comes for one wakes {} threads on average that wait for events in {subject}, {} times a second, and {} \
             of them find nothing.",
            value(finding, "woken_per_wake").map(number::ratio).unwrap_or_default(),
            value(finding, "herds_per_s").map(|rate| number::count(rate.round())).unwrap_or_default(),
            value(finding, "back_to_sleep_share").map(number::percent).unwrap_or_default()
        ),
        Kind::ThunderingHerd => {
            format!("Wake-ups of {subject} release many threads at once{}.", herd(facts, finding))
        }
        Kind::SpinWaste if finding.cure == Cure::BlockInsteadOfLooking => {
            let spun = value(finding, "spin_share").map(number::percent).unwrap_or(much);
            format!("Goroutines look into channels again and again and find nothing, in {subject}: {spun} of CPU time.")
        }
        Kind::SpinWaste => {
            let on = finding.subjects.iter().any(|subject| matches!(subject, Subject::Variable(_)));
            let spun = value(finding, "spin_share").map(number::percent).unwrap_or(much);
            format!("{spun} of CPU time is burnt spinning {} {subject}.", if on { "on" } else { "in" })
        }
        Kind::HotAtomic if value(finding, "line_words").is_some() => fight(finding, subject),
        Kind::HotAtomic => {
            format!("CPUs fight over {subject}: {much} of CPU time piles up behind an atomic instruction on it.")
        }
        Kind::KernelHeavy => format!("{much} of CPU time is spent in the kernel{}.", kernel_function(facts)),
        Kind::WastedWakeups => {
            format!("Many futex calls for {subject} are for nothing{}.", wasted(facts, finding))
        }
        Kind::Imbalance if value(finding, "idle_goroutines").is_some() => format!(
            "The work is uneven: goroutines wait to send to one of {}, which is busy{}, while {} others like it wait to \
             receive.",
            value(finding, "goroutines").map(number::count).unwrap_or_default(),
            under(finding),
            value(finding, "idle_goroutines").map(number::count).unwrap_or_default()
        ),
        Kind::Imbalance if value(finding, "goroutines").is_some() => format!(
            "The work is uneven: of {} that begin together, the last is alone for {} of the time{}.",
            others(finding, "goroutines", "goroutine"),
            value(finding, "alone_share").map(number::percent).unwrap_or_default(),
            under(finding)
        ),
        Kind::Imbalance if value(finding, "idle_threads").is_some() => format!(
            "One of several that wait for events has them all: {subject} is busy for {} of the time, {} idle{}.",
            value(finding, "busy_share").map(number::percent).unwrap_or_default(),
            match value(finding, "idle_threads") {
                Some(1.0) => "the other is".to_owned(),
                _ => format!("{} are", others(finding, "idle_threads", "other")),
            },
            under(finding)
        ),
        Kind::Imbalance if value(finding, "last_share").is_some() => format!(
            "The work is uneven: of {} that share it, {subject} is left alone for {} of the time{}.",
            number::counted(value(finding, "processes").unwrap_or(0.0) as usize, "process"),
            value(finding, "last_share").map(number::percent).unwrap_or_default(),
            under(finding)
        ),
        Kind::Imbalance if value(finding, "tail_share").is_some() => format!(
            "The work is uneven: {subject} hands it to {} and waits for the last, {} times a second; for {} of the time \
             one of them goes on alone{}.",
            number::counted(value(finding, "threads").unwrap_or(0.0) as usize, "thread"),
            number::count(value(finding, "rounds_per_s").unwrap_or(0.0)),
            value(finding, "tail_share").map(number::percent).unwrap_or_default(),
            under(finding)
        ),
        Kind::Imbalance if value(finding, "alone_share").is_some() => format!(
            "The work is uneven: of the goroutines that begin with {subject}, one is alone for {} of the time{}.",
            value(finding, "alone_share").map(number::percent).unwrap_or_default(),
            under(finding)
        ),
        Kind::Imbalance if finding.subjects.is_empty() => format!(
            "The work is uneven: threads wait for each other for {} of their time{}.",
            value(finding, "waiting_share").map(number::percent).unwrap_or_default(),
            under(finding)
        ),
        Kind::Imbalance => format!("The work is uneven: {subject} {}.", uneven(facts, finding)),
        Kind::PriorityInversion => format!(
            "The holder of {subject} has a low priority and is preempted while threads of higher priority wait{}.",
            inversions(facts, finding)
        ),
        Kind::IoBound => format!("{much} of the elapsed time is waiting for I/O: {}.", io(facts, finding)),
        Kind::MemoryLock => format!(
            "Threads wait for the address space of {subject}, which mmap, munmap and page faults change, for {much} \
             of their working time."
        ),
        Kind::PageFaults if finding.cure == Cure::PagesAhead => format!(
            "Threads wait for pages of memory to come from a device, of files or of swap, for {much} of their working \
             time{}.",
            under(finding)
        ),
        Kind::PageFaults => format!("{much} of the working time goes to page faults{}.", under(finding)),
        Kind::Allocator => format!(
            "Threads wait for each other in malloc and free for {much} of their working time{}.",
            arenas(finding)
        ),
        Kind::Starvation => format!(
            "{} for {} for {} of the time, up to {} at once, while others have it again and again.",
            value(finding, "threads")
                .map_or("One thread waits".to_owned(), |threads| format!("{threads} threads wait")),
            lock(facts, finding).map_or_else(|| subject.to_owned(), name::lock),
            number::percent(finding.severity),
            value(finding, "wait_ns_longest").map(number::time_ns).unwrap_or_default()
        ),
        Kind::SerialPhase if finding.cure == Cure::StartSeveral => format!(
            "{subject} starts a thread, waits for its end, and only then starts the next, {} times: one goes at a time for {} \
             of the time.",
            value(finding, "threads").map(number::count).unwrap_or_default(),
            value(finding, "alone_share").map(number::percent).unwrap_or_default()
        ),
        Kind::SerialPhase if finding.cure == Cure::ReachSafepoints => format!(
            "All threads of Java stop and wait while {subject} goes on to where it can stop, too{}: that takes {} of the time.",
            under(finding),
            value(finding, "alone_share").map(number::percent).unwrap_or_default()
        ),
        Kind::SerialPhase if value(finding, "sync_share").is_some() => format!(
            "The event loop of {subject} compresses, hashes or derives keys itself for {} of the time, and nothing else goes \
             on meanwhile{}.",
            value(finding, "alone_share").map(number::percent).unwrap_or_default(),
            under(finding)
        ),
        Kind::SerialPhase => format!(
            "One thread works alone for {} of the time while {} for it: {subject}{}.",
            value(finding, "alone_share").map(number::percent).unwrap_or_default(),
            waiting(finding, "waiters", "other thread"),
            under(finding)
        ),
        Kind::SlowStage => format!(
            "{subject} limits the rest: {} for it {} of {} time, and it is busy for {} of its own{}.",
            waiting(finding, "waiters", "thread"),
            value(finding, "waited_share").map(number::percent).unwrap_or_default(),
            if value(finding, "waiters") == Some(1.0) { "its" } else { "their" },
            value(finding, "busy_share").map(number::percent).unwrap_or_default(),
            under(finding)
        ),
        Kind::SmallPool if value(finding, "takers").is_some() => format!(
            "{} block in {subject} by turns, never two at once, for {} of the time, though they wait for no lock: something \
             else lets them in one by one.",
            others(finding, "takers", "thread"),
            value(finding, "waited_share").map(number::percent).unwrap_or_default()
        ),
        Kind::SmallPool if value(finding, "borrowers").is_some() => format!(
            "{} wait in {subject} for what others of them have, {} of their time; those who have it mostly wait \
             themselves{}.",
            others(finding, "borrowers", "thread"),
            value(finding, "waited_share").map(number::percent).unwrap_or_default(),
            under(finding)
        ),
        Kind::SmallPool if finding.cure == Cure::AcceptMore => format!(
            "On average {} connections wait until {subject} accepts them, while CPUs are free: it takes no more at a time, \
             or all who could wait for something else{}.",
            value(finding, "waiting_connections").map(number::ratio).unwrap_or_default(),
            under(finding)
        ),
        Kind::SmallPool if finding.cure == Cure::WaitElsewhere => format!(
            "{much} of the time of {} goes by in tasks that wait for tasks which the same threads have to run{}.",
            others(finding, "workers", "thread"),
            under(finding)
        ),
        Kind::SmallPool if value(finding, "callers").is_none() => format!(
            "{} in calls of the tasks{}: all other tasks wait for {}.",
            match value(finding, "workers") {
                Some(1.0) => format!("{subject}, which should run tasks, waits"),
                _ => format!("{} that should run tasks wait", others(finding, "workers", "worker")),
            },
            under(finding),
            if value(finding, "workers") == Some(1.0) { "it" } else { "them" }
        ),
        Kind::SmallPool if value(finding, "entries").is_some() => format!(
            "{} in {subject} for one of {}: those who have one mostly wait themselves{}.",
            waiting(finding, "callers", "goroutine"),
            others(finding, "entries", "place"),
            under(finding)
        ),
        Kind::SmallPool if value(finding, "goroutines").is_some() && finding.subjects.is_empty() => format!(
            "{} wait for a place in a channel, and the {} who have one mostly wait themselves{}.",
            others(finding, "callers", "goroutine"),
            value(finding, "workers").map(number::count).unwrap_or_default(),
            under(finding)
        ),
        Kind::SmallPool if value(finding, "goroutines").is_some() => format!(
            "{} until a channel takes what is sent: {} of {subject} {} it, and mostly {}{}.",
            waiting(finding, "callers", "goroutine"),
            others(finding, "workers", "goroutine"),
            if value(finding, "workers") == Some(1.0) { "serves" } else { "serve" },
            if value(finding, "workers") == Some(1.0) { "waits itself" } else { "wait themselves" },
            under(finding)
        ),
        Kind::SmallPool if lock(facts, finding).is_some() => {
            let places = others(finding, "workers", "place");
            format!(
                "{} want one of {places} of {subject}, and those who have one mostly wait themselves{}.",
                others(finding, "callers", "thread"),
                under(finding)
            )
        }
        Kind::SmallPool => {
            let is_one = |name| value(finding, name) == Some(1.0);
            if value(finding, "blocked_share").is_some_and(|share| share < 0.5) {
                return format!(
                    "{} {} behind {}, which always {} something to do while CPUs are free{}.",
                    others(finding, "callers", "thread"),
                    if is_one("callers") { "queues" } else { "queue" },
                    others(finding, "workers", "worker"),
                    if is_one("workers") { "has" } else { "have" },
                    under(finding)
                );
            }
            format!(
                "{} {} behind {}, which mostly {}{}.",
                others(finding, "callers", "thread"),
                if is_one("callers") { "queues" } else { "queue" },
                others(finding, "workers", "worker"),
                if is_one("workers") { "waits itself" } else { "wait themselves" },
                under(finding)
            )
        }
        Kind::Polling if finding.cure == Cure::BlockInsteadOfLooking => {
            format!("Goroutines sleep and look again whether something has happened{}.", under(finding))
        }
        Kind::Polling => format!(
            "{subject} polls every {}: it sleeps and looks again{}.",
            value(finding, "period_ns").map(number::time_ns).unwrap_or_default(),
            under(finding)
        ),
        Kind::YieldStorm if finding.cure == Cure::BlockInsteadOfLooking => format!(
            "Goroutines give the CPU away again and again while they wait (runtime.Gosched), in {subject}: {} of CPU \
             time.",
            value(finding, "yield_share").map(number::percent).unwrap_or(much)
        ),
        Kind::YieldStorm => format!(
            "Threads give the CPU away {} times a second while they wait, in {subject}: {much} of the working time.",
            value(finding, "yields_per_s").map(|rate| number::count(rate.round())).unwrap_or_default()
        ),
        Kind::KernelLock => format!(
            "Threads of {subject} wait for each other inside the kernel: {much} of CPU time is spent spinning for one of \
             its locks{}.",
            under(finding)
        ),
        Kind::ThreadChurn if value(finding, "processes").is_some() => format!(
            "{} processes a second are started{}, each of which runs {} on average: starting and ending them takes {much} \
             of the CPU time.",
            value(finding, "processes_per_s").map(|rate| number::count(rate.round())).unwrap_or_default(),
            if finding.subjects.is_empty() { String::new() } else { format!(" by {subject}") },
            value(finding, "run_ns_mean").map(number::time_ns).unwrap_or_default()
        ),
        Kind::ThreadChurn => format!(
            "{subject} makes {} threads a second, each of which runs {} on average: making and ending them takes {much} \
             of the CPU time.",
            value(finding, "threads_per_s").map(|rate| number::count(rate.round())).unwrap_or_default(),
            value(finding, "run_ns_mean").map(number::time_ns).unwrap_or_default()
        ),
        Kind::LostWakeups if value(finding, "customers").is_some() => format!(
            "{subject} waits for more to come until {} have run out, again and again, while all who could send more wait \
             for it: {much} of the elapsed time{}.",
            value(finding, "patience_ns").map(number::time_ns).unwrap_or_default(),
            under(finding)
        ),
        Kind::LostWakeups if value(finding, "wakes").is_none() => format!(
            "Tasks wait in {subject} for tasks of their own pool, which has no thread left to run them, until the waits \
             run out, after {} each: {much} of the elapsed time.",
            value(finding, "patience_ns").map(number::time_ns).unwrap_or_default()
        ),
        Kind::LostWakeups if finding.cure == Cure::LockInOrder => format!(
            "Nobody goes on until waits for {subject} run out, after {} each, for {much} of the elapsed time: who waits for \
             one has what the others wait for{}.",
            value(finding, "patience_ns").map(number::time_ns).unwrap_or_default(),
            under(finding)
        ),
        Kind::LostWakeups => format!(
            "Nobody goes on until waits for {subject} run out, after {} each, for {much} of the elapsed time: its \
             signals miss who could go on{}.",
            value(finding, "patience_ns").map(number::time_ns).unwrap_or_default(),
            under(finding)
        ),
        Kind::CopiedMessages => format!(
            "{} of the CPU time goes to turning what threads or processes send each other into bytes and back{}.",
            value(finding, "copied_share").map(number::percent).unwrap_or(much),
            under(finding)
        ),
        Kind::ConnectionChurn => format!(
            "{} of the CPU time goes to making encrypted connections anew{}.",
            value(finding, "handshakes_share").map(number::percent).unwrap_or(much),
            under(finding)
        ),
        Kind::CpuAffinity if finding.cure == Cure::RaiseGomaxprocs => format!(
            "Go runs goroutines of {subject} on {} at a time, while {} more could run and CPUs are free{}.",
            others(finding, "allowed_cpus", "CPU"),
            value(finding, "runnable_goroutines").map(number::ratio).unwrap_or_default(),
            under(finding)
        ),
        Kind::CpuAffinity => format!(
            "Threads of {subject} may run on {} only, and wait for each other there {} of the time that they want to \
             run: {much} of it would go with the others.",
            allowed_cpus(finding),
            value(finding, "delay_share").map(number::percent).unwrap_or_default()
        ),
        Kind::CpuQuota => format!(
            "The control group of {subject} may use {} CPUs, and was stopped in {} of its periods, while threads \
             want {} CPUs: {much} of the time would go without the limit.",
            value(finding, "allowed_cpu_time").map(number::ratio).unwrap_or_default(),
            value(finding, "throttled_share").map(number::percent).unwrap_or_default(),
            value(finding, "wanted_cpus").map(number::ratio).unwrap_or_default()
        ),
        Kind::InterpreterLock if finding.cure == Cure::LargerTasks => {
            let caller = finding.place.as_ref().and_then(name::own_caller);
            format!(
                "Processes of Python hand each other so little at a time{} that the threads which do it take turns at \
                 the interpreter's lock for {much} of their working time.",
                caller.map(|place| format!(", in {place},")).unwrap_or_default()
            )
        }
        Kind::InterpreterLock => format!(
            "Threads take turns at the interpreter's lock, for {much} of their working time: more threads make it no \
             faster."
        ),
        Kind::GarbageCollection => format!(
            "Collecting garbage costs {much} of the working time of {subject}{}{}.",
            match value(finding, "stopped_share").filter(|share| *share >= 0.05) {
                Some(share) => format!(": its threads are stopped for {} of it", number::percent(share)),
                None => format!(
                    ": the collector has {} of the CPU time",
                    value(finding, "collector_share").map(number::percent).unwrap_or_default()
                ),
            },
            match finding.cure {
                Cure::CollectUnasked => format!(", and the program asks for it{}", under(finding)),
                _ => String::new(),
            }
        ),
    }
}

/// `Deadlock: a (7) has m and waits for n in f, b (8) has n and waits for m in g. None of them goes on.`
fn deadlock(facts: &Facts, finding: &Finding) -> String {
    if let Some(goroutines) = value(finding, "waiting_goroutines") {
        let names: Vec<String> = finding.subjects.iter().map(|lock| name::subject(facts, lock)).collect();
        return format!(
            "Deadlock: {} wait for {}{} at every look, and nobody releases them. Most likely each has what another \
             waits for.",
            number::counted(goroutines as usize, "goroutine"),
            text::list(&names),
            under(finding)
        );
    }
    let standing = |key: &str| value(finding, key).map(|threads| number::counted(threads as usize, "thread"));
    let waited = || number::time_ns(value(finding, "waited_ns").unwrap_or_default());
    if let Some(workers) = standing("starved_workers") {
        return format!(
            "Deadlock: all {workers} of a pool have waited in their tasks for results of others for the last {}{}. Most \
             likely those are for the same pool, and nobody is left to run them.",
            waited(),
            under(finding)
        );
    }
    if let Some(threads) = standing("standing_threads") {
        return format!(
            "Deadlock: all {threads} of the program have waited for each other for the last {}{}, and nobody is left \
             to wake them.",
            waited(),
            under(finding)
        );
    }
    if value(finding, "stuck_threads").is_some() && value(finding, "threads").is_none() {
        let named = |is: fn(&Subject) -> bool| -> Vec<String> {
            let all = finding.subjects.iter().filter(|subject| is(subject));
            all.map(|subject| name::subject(facts, subject)).collect()
        };
        return format!(
            "Deadlock: {} have waited for {}{} for the last {}, and nobody releases them. Most likely each has what \
             another waits for.",
            text::list(&named(|subject| matches!(subject, Subject::Thread { .. }))),
            text::list(&named(|subject| matches!(subject, Subject::Lock { .. }))),
            under(finding),
            waited()
        );
    }
    // Each lock, the thread that waits for it, and its holder if that has ended.
    let waits: Vec<&[Subject]> = finding.subjects.chunk_by(|_, next| !matches!(next, Subject::Lock { .. })).collect();
    let name = |subject: &Subject| name::subject(facts, subject);
    let wanted = |lock: &Subject| {
        let place = match lock {
            Subject::Lock { number, .. } => facts.lock(*number).and_then(|lock| name::caller(lock.wait_sites.first()?)),
            _ => None,
        };
        format!("{}{}", name(lock), place.map(|place| format!(" in {place}")).unwrap_or_default())
    };
    let told = |(at, wait): (usize, &&[Subject])| {
        // The thread before this one in the circle waits for what this one has.
        let before = waits.get((at + waits.len() - 1) % waits.len()).and_then(|wait| wait.first());
        Some(match (wait, before) {
            ([lock, thread, holder], _) => {
                format!(
                    "{} waits for {}, and {} has ended without releasing it",
                    name(thread),
                    wanted(lock),
                    name(holder)
                )
            }
            ([lock, thread], _) if waits.len() == 1 => {
                format!("{} waits for {}, which it has itself", name(thread), wanted(lock))
            }
            ([lock, thread], Some(has)) => format!("{} has {} and waits for {}", name(thread), name(has), wanted(lock)),
            _ => return None,
        })
    };
    let each: Vec<String> = waits.iter().enumerate().filter_map(told).collect();
    format!("Deadlock: {}. Nobody goes on.", text::list(&each))
}

/// ` in parse_row table.c:12`, where the place is known.
fn under(finding: &Finding) -> String {
    finding.place.as_ref().and_then(name::caller).map(|place| format!(", in {place}")).unwrap_or_default()
}

/// `CPU 0` or `2 of its 16 CPUs`.
fn allowed_cpus(finding: &Finding) -> String {
    let figure = |key| value(finding, key).unwrap_or(0.0);
    match figure("allowed_cpus") {
        1.0 => format!("CPU {}", figure("first_cpu")),
        allowed => format!("{allowed} of its {} CPUs", figure("cpus")),
    }
}

/// `3 threads`, by the evidence of this name.
fn others(finding: &Finding, key: &str, noun: &str) -> String {
    number::counted(value(finding, key).unwrap_or(0.0) as usize, noun)
}

/// `1 thread waits`, `3 threads wait`.
fn waiting(finding: &Finding, key: &str, noun: &str) -> String {
    let verb = if value(finding, key) == Some(1.0) { "waits" } else { "wait" };
    format!("{} {verb}", others(finding, key, noun))
}

/// `, in 8 arenas`.
fn arenas(finding: &Finding) -> String {
    match value(finding, "arenas").unwrap_or(0.0) as usize {
        0 | 1 => String::new(),
        arenas => format!(", in {}", number::counted(arenas, "arena")),
    }
}

/// `fdatasync of /var/log/app in flush_log log.c:7`.
fn io(facts: &Facts, finding: &Finding) -> String {
    let call = finding.subjects.iter().find_map(|subject| match subject {
        Subject::Function(function) => Some(text::clean(function)),
        _ => None,
    });
    let call = call.unwrap_or_else(|| "a device".to_owned());
    format!("{call}{}{}", file(facts, finding).unwrap_or_default(), under(finding))
}

/// ` of /var/log/app`: the file on which the threads were mostly found blocked at the finding's place, as far as
/// anybody looked; ` of several files` if it is no single one.
fn file(facts: &Facts, finding: &Finding) -> Option<String> {
    let place = finding.place.as_ref()?;
    let mut files: BTreeMap<&str, u64> = BTreeMap::new();
    let is_there = |site: &Site| site.call_path.iter().map(at_function).eq(place.call_path.iter().map(at_function));
    let rows = facts.blame.iter().filter(|row| row.leaf == holdup_analyze::Leaf::Io);
    for row in rows.filter(|row| row.site.as_ref().is_some_and(is_there)) {
        if let Some(file) = &row.file {
            *files.entry(file).or_default() += row.ns;
        }
    }
    let all: u64 = files.values().sum();
    let (file, ns) = files.into_iter().max_by_key(|(_, ns)| *ns)?;
    Some(if ns * 2 >= all { format!(" of {}", text::clean(file)) } else { " of several files".to_owned() })
}

/// What tells one function of a call path from another.
fn at_function(frame: &Frame) -> (&str, Option<&str>, u64) {
    (&frame.module, frame.function.as_deref(), if frame.function.is_none() { frame.start } else { 0 })
}

/// `, 8.1k round trips a second, and run 3us each time`: the figures that the evidence repeats.
fn round_trips(finding: &Finding) -> String {
    match (value(finding, "round_trips_per_s"), value(finding, "run_ns_median")) {
        (Some(trips), Some(run_ns)) => {
            format!(", {} round trips a second, and run {} each time", number::count(trips), number::time_ns(run_ns))
        }
        _ => String::new(),
    }
}

/// ` (8 that hardly ever pause, 2 CPUs that they could use)`.
fn wanting(finding: &Finding) -> String {
    match (value(finding, "hungry_threads"), value(finding, "cpus")) {
        (Some(threads), Some(cpus)) => {
            let cpus = if cpus == 1.0 { "1 CPU".to_owned() } else { format!("{} CPUs", number::count(cpus)) };
            // Those that meet at a barrier do pause: for each other.
            let how = if value(finding, "delay_share").is_some() { "hardly ever pause" } else { "wait for each other" };
            format!(" ({} that {how}, {cpus} that they get)", number::count(threads))
        }
        _ => String::new(),
    }
}

/// `, 7.5 on average, and 92% of them wait again at once`.
fn herd(facts: &Facts, finding: &Finding) -> String {
    match lock(facts, finding).map(|lock| lock.herds).filter(|herds| herds.calls > 0) {
        Some(herds) => format!(
            ", {} on average, and {} of them wait again at once",
            number::ratio(herds.woken as f64 / herds.calls as f64),
            number::percent(share(herds.back_to_sleep, herds.woken))
        ),
        None => String::new(),
    }
}

/// `, mostly in futex_wake`.
fn kernel_function(facts: &Facts) -> String {
    let code = facts.symbols.iter().find(|code| matches!(code.frame.role, Role::Kernel | Role::Scheduler));
    let Some((function, hits)) = code.and_then(|code| Some((code.frame.function.as_deref()?, code.hits))) else {
        return String::new();
    };
    let Some(kernel) = facts.totals.kernel_samples.filter(|samples| *samples > 0) else { return String::new() };
    let part = share(hits, kernel);
    let much = if part >= 0.5 { "most of it".to_owned() } else { format!("{} of that", number::percent(part)) };
    format!(", {much} in {}", name::function(function))
}

/// `: 16k of 150k wakes woke nobody, 89k waits did not sleep`.
fn wasted(facts: &Facts, finding: &Finding) -> String {
    let (wakes, wasted, waits, eagain) = match lock(facts, finding) {
        Some(lock) => (lock.wakes, lock.wasted_wakes, lock.waits, lock.eagain_waits),
        None => return String::new(),
    };
    let of =
        |part: u64, whole: u64| format!("{} of {}", number::count(part as f64), number::count((part + whole) as f64));
    let mut parts = Vec::new();
    if wasted > 0 {
        parts.push(format!("{} wakes woke nobody", of(wasted, wakes)));
    }
    if eagain > 0 {
        parts.push(format!("{} waits did not sleep", of(eagain, waits)));
    }
    if parts.is_empty() { String::new() } else { format!(": {}", parts.join(", ")) }
}

/// `runs 92% of the time, threads like it 20%`.
fn uneven(facts: &Facts, finding: &Finding) -> String {
    let thread = finding.subjects.iter().find_map(|subject| match subject {
        Subject::Thread { tid, .. } => facts.thread(*tid),
        _ => None,
    });
    let Some(thread) = thread else { return "do far more or less than their like".to_owned() };
    let busy = |thread: &ThreadFacts| share(thread.worked_ns(), thread.life_ns());
    let like = |other: &&ThreadFacts| {
        other.tid != thread.tid
            && other.pid == thread.pid
            && name::without_number(&other.name) == name::without_number(&thread.name)
    };
    let mut others: Vec<f64> = facts.threads.iter().filter(like).map(busy).collect();
    others.sort_by(f64::total_cmp);
    match others.get(others.len() / 2) {
        Some(median) => format!(
            "runs {} of its time, the others like it {}",
            number::percent(busy(thread)),
            number::percent(*median)
        ),
        None => "does far more or less than its like".to_owned(),
    }
}

/// `: 12 times, 3.4ms in all`.
fn inversions(facts: &Facts, finding: &Finding) -> String {
    match lock(facts, finding).map(|lock| lock.inversions).filter(|off| off.count > 0) {
        Some(off) => format!(
            ": {}, {} in all",
            number::counted(usize::try_from(off.count).unwrap_or(usize::MAX), "time"),
            number::time_ns(off.ns as f64)
        ),
        None => String::new(),
    }
}

/// The lock that a finding is about, as it is known.
pub fn lock<'a>(facts: &'a Facts, finding: &Finding) -> Option<&'a LockFacts> {
    finding.subjects.iter().find_map(|subject| match subject {
        Subject::Lock { number, name, .. } => facts.lock(*number).filter(|lock| lock.name == *name),
        _ => None,
    })
}

/// Where it happens; where that is the wait for a lock, the second place of it as well, with their shares.
fn places(facts: &Facts, finding: &Finding) -> Option<String> {
    let place = finding.place.as_ref()?;
    let first = name::caller(place)?;
    let sites = lock(facts, finding).map(|lock| lock.wait_sites.as_slice()).unwrap_or_default();
    let named = name::by_place(sites);
    if named.len() < 2 || named[0].0 != first { name::with_its_caller(place) } else { shares_of_places(sites) }
}

/// The two places with most of the time, and their shares.
fn shares_of_places(sites: &[Site]) -> Option<String> {
    let all: u64 = sites.iter().map(|site| site.ns).sum();
    let named = name::by_place(sites);
    let shown: Vec<String> =
        named.iter().take(2).map(|(place, ns)| format!("{place} ({})", number::percent(share(*ns, all)))).collect();
    (!shown.is_empty()).then(|| shown.join(", "))
}

/// Whether what the holder does is a part of the story.
fn blames_holder(kind: Kind) -> bool {
    use Kind::{HotLock, InterpreterLock, LockConvoy, PriorityInversion, SleepingHolder};
    matches!(kind, LockConvoy | HotLock | SleepingHolder | PriorityInversion | InterpreterLock)
}

/// `meanwhile running 67%, preempted 23%; releases in cache_put cache.c:140`; of an interpreter's lock, what its
/// holders executed: `in parse_row table.py:12 (80%)`.
fn holder(lock: &LockFacts) -> Option<String> {
    if let Some(places) = shares_of_places(&lock.hold_sites) {
        return Some(format!("in {places}"));
    }
    let doing = holders(&lock.holder_doing);
    let released = lock.wake_sites.first().and_then(name::caller);
    match (doing.is_empty(), released) {
        (true, None) => None,
        (true, Some(place)) => Some(format!("releases in {place}")),
        (false, None) => Some(format!("meanwhile {}", doing.join(", "))),
        (false, Some(place)) => Some(format!("meanwhile {}; releases in {place}", doing.join(", "))),
    }
}

fn goroutines_holder<'a>(facts: &'a Facts, finding: &Finding) -> Option<&'a GoroutineHolder> {
    lock_of_goroutines(facts, finding).and_then(blocked_holder)
}

/// `meanwhile asleep in main.load cache.go:29`.
fn holder_of_goroutines(holder: &GoroutineHolder) -> Option<String> {
    let place = holder.sites.first().and_then(name::caller)?;
    Some(format!("meanwhile {} in {place}", goroutines::holder_does(holder)))
}

/// What the holders of the finding's lock mostly did off CPU: `, mostly asleep`.
fn holder_excuse(facts: &Facts, finding: &Finding) -> String {
    let doing = lock(facts, finding).map(|lock| &lock.holder_doing);
    match doing.and_then(longest_off) {
        Some(reason @ Reason::Futex(what)) if !what.is_contention() => {
            format!(", mostly {}{}", off(reason), by_whom(facts, finding).unwrap_or_default())
        }
        Some(reason) => format!(", mostly {}", off(reason)),
        None => String::new(),
    }
}

/// Which one thread runs for most of the time that others wait for the lock, and where.
fn by_one(facts: &Facts, finding: &Finding) -> Option<String> {
    const MOSTLY: f64 = 0.6;
    let number = lock_of(finding)?;
    let rows = || facts.blame.iter().filter(|row| row.lock == Some(number) && row.thread != row.waiter);
    let (row, place) = most_to_blame(rows, |row| row.leaf == Leaf::Running, MOSTLY)?;
    Some(format!(", mostly while {} runs, in {place}", name::thread(facts, row.thread)))
}

/// Who mostly has to wake the holder, if that one sleeps or waits for something else.
fn by_whom(facts: &Facts, finding: &Finding) -> Option<String> {
    const MOSTLY: f64 = 0.4;
    let number = lock_of(finding)?;
    let rows = || facts.blame.iter().filter(|row| row.lock == Some(number));
    let waits = |row: &Blame| {
        let wakes = row.via.and_then(|via| facts.lock(via)).is_some_and(|lock| !lock.primitive.is_contention());
        wakes && row.thread != row.waiter && matches!(row.leaf, Leaf::Sleep | Leaf::Io | Leaf::Outside)
    };
    let (row, place) = most_to_blame(rows, waits, MOSTLY)?;
    let does = match row.leaf {
        Leaf::Sleep => "sleeps",
        Leaf::Io => "waits for a device",
        _ => "waits for something outside",
    };
    Some(format!(" by {}, which {does} in {place}", name::thread(facts, row.thread)))
}

/// The first row of the thread that has most of such time, and its place, if that is at least this part of all.
fn most_to_blame<'a, I: Iterator<Item = &'a Blame>>(
    rows: impl Fn() -> I,
    is: impl Fn(&Blame) -> bool,
    least: f64,
) -> Option<(&'a Blame, String)> {
    let mut by_thread: BTreeMap<Tid, (u64, &Blame)> = BTreeMap::new();
    for row in rows().filter(|row| is(row)) {
        by_thread.entry(row.thread).or_insert((0, row)).0 += row.ns;
    }
    let (ns, row) = by_thread.into_values().max_by_key(|(ns, _)| *ns)?;
    let place = name::own_caller(row.site.as_ref()?)?;
    (share(ns, rows().map(|row| row.ns).sum()) >= least).then_some((row, place))
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
        Reason::Memory => "waiting for the address space",
        Reason::Peer => "waiting for the other end of a pipe or socket",
        Reason::Preempted => "preempted",
        Reason::Displaced => "displaced by other programs",
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
    let of_work = matches!(
        finding.kind,
        Kind::SpinWaste | Kind::PageFaults | Kind::YieldStorm | Kind::CopiedMessages | Kind::ConnectionChurn
    );
    let of = match finding.costs_cpu_time() && !of_work {
        true => "of CPU time",
        false => "of working time",
    };
    finding
        .bound
        .map_or_else(|| format!("{much} {of}"), |bound| format!("{much} {of}, at most {}x", number::ratio(bound)))
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
    let bare =
        ["_per_s_", "_ns_", "_share_", "_ratio_", "_count_"].iter().fold(spaced, |name, unit| name.replace(unit, "_"));
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

/// Plain instructions on one cache line.
fn fight(finding: &Finding, subject: &str) -> String {
    let much = number::percent(finding.severity);
    let number = |name| value(finding, name).unwrap_or_default();
    let (threads, writers, words) = (number("threads"), number("line_writers"), number("line_words"));
    let who = if writers < threads {
        format!("{} threads use and {} of them write to", number::count(threads), number::count(writers))
    } else {
        format!("{} threads write to", number::count(threads))
    };
    let what = match words as u64 {
        1 => "the same word".to_owned(),
        _ => format!("{} different words of one cache line", number::count(words)),
    };
    let on = finding.subjects.iter().any(|subject| matches!(subject, Subject::Variable(_)));
    format!(
        "CPUs fight over {subject}: {who} {what}{}, which costs {much} of CPU time.",
        if on { "" } else { " there" }
    )
}

fn cure(cure: Cure) -> &'static str {
    match cure {
        Cure::ShortenTransactions => {
            "Commit sooner after the statement that locks, write more in one transaction, and let workers take different \
             rows (FOR UPDATE SKIP LOCKED)."
        }
        Cure::ShortenSplitOrGate => {
            "Do less while the lock is held, split it by key, or let fewer threads contend for it."
        }
        Cure::SpinThenPark => "Spin for a few hundred nanoseconds before sleeping: the wait is shorter than a switch.",
        Cure::MoveOutOfSection => "Do what sleeps or blocks before taking the lock or after releasing it.",
        Cure::LetSeveralIn => {
            "Look for what all of them share and has one at a time (a strand or serial queue, one connection, one permit), \
             and give each its own."
        }
        Cure::FasterReader => {
            "Who reads the other end does not keep up: make that faster, write less, or collect what is to be written and \
             let one thread write it without the lock."
        }
        Cure::MoveIoOutOfSection => {
            "Read, write and sync before taking the lock or after releasing it; where all must wait for the disk, let \
             one sync serve all that wait (group commit)."
        }
        Cure::MergeOrBatch => "Give both halves to one thread, or hand over many items at a time.",
        Cure::LetOverlap => {
            "Let the one go on while the other works: a second buffer, a longer queue, the next request ahead."
        }
        Cure::FewerThreads => "Run as many threads as there are CPUs, and queue the work.",
        Cure::WakeOne => {
            "Wake one thread at a time: signal in place of broadcast, a semaphore, or one condition per kind of waiter."
        }
        Cure::ParkInsteadOfSpin => "Sleep after a short spin, with a lock that parks its waiters.",
        Cure::SleepAtBarriers => {
            "Let threads sleep where they wait for each other (OMP_WAIT_POLICY=passive), or run no more of them than there \
             are CPUs for them: who spins here has the CPU that another needs."
        }
        Cure::ShardCounter => {
            "Count per thread or per CPU, 64 bytes or more apart, and add up on reading; claim many indices at a time."
        }
        Cure::OwnLines => {
            "Give what each thread writes a cache line of its own: align it to 128 bytes, or work on a local copy."
        }
        Cure::FewerCalls => "Make fewer system calls: larger buffers, batches, no needless wake-ups.",
        Cure::WakeOnlyWaiters => "Wake only when somebody waits: keep a count of waiters beside the lock.",
        Cure::Rebalance => "Cut the work finer, or let idle threads take from busy ones.",
        Cure::InheritPriority => "Use a mutex with priority inheritance, or give the holder the waiters' priority.",
        Cure::CoarserWork => "Do more work between two waits: larger pieces per hand-over.",
        Cure::FasterIo => {
            "Write and sync less often and in larger pieces, let one sync serve many, or do it beside the work."
        }
        Cure::FewerReads => "Read ahead, in larger pieces and several at a time, or keep in memory what is read again.",
        Cure::FewerMappings => {
            "Map once and keep it: larger and fewer mappings, memory given back less often, or processes in place of \
             threads."
        }
        Cure::PagesAhead => {
            "Have what is mapped in memory before it is used: madvise(MADV_WILLNEED) or readahead beside the work, files \
             in the order they are read, or more memory if it swaps."
        }
        Cure::LargerPages => "Use memory again in place of fresh memory, touch it once ahead, or use huge pages.",
        Cure::OtherAllocator => {
            "Allocate less in the hot path, give threads their own arenas, or link another allocator (jemalloc, \
             mimalloc)."
        }
        Cure::KeepConnections => {
            "Keep connections and use them again: as many idle ones as there are requests at once (MaxIdleConnsPerHost of \
             Go's net/http, keep-alive, a pool), or resume sessions."
        }
        Cure::StartSeveral => {
            "Start several before you wait for one: keep the futures of std::async (whoever drops one waits for its end) or \
             the threads' handles, and wait for them together."
        }
        Cure::ReachSafepoints => {
            "Let the loop reach a safepoint: cut it into shorter loops or make its counter a long, or run with \
             -XX:+UseCountedLoopSafepoints."
        }
        Cure::FairLock => "Use a lock that serves in turn; of reader-writer locks, one that lets writers in.",
        Cure::DivideSerialPart => "Divide what the one thread does alone, or let it overlap with the others' work.",
        Cure::WidenStage => "Give the stage more threads, take work from it, or hand over in larger pieces.",
        Cure::LetLoopGoOn => {
            "Await an asynchronous form of the call, or hand it to another thread (asyncio.to_thread, a worker)."
        }
        Cure::MoreWorkers => "Give the pool more workers, or make their calls ones that do not block them.",
        Cure::WaitInsteadOfPolling => {
            "Wait to be woken: a condition variable, an eventfd, or a blocking call in place of the sleep."
        }
        Cure::OwnObjects => {
            "Give each thread a file, pipe or socket of its own, move more with each call, or let one thread do it for \
             all."
        }
        Cure::RaiseGomaxprocs => {
            "Let Go use more CPUs at once: GOMAXPROCS in the environment or runtime.GOMAXPROCS in the program, or the limit \
             of the container, from which Go 1.25 and later take it."
        }
        Cure::RaiseQuota => {
            "Allow the container or service more CPU time (cpu.max; docker --cpus, Kubernetes' resources.limits.cpu, \
             systemd's CPUQuota), or run no more threads at once than that is CPUs: who comes first in a period stops \
             the others."
        }
        Cure::WidenAffinity => {
            "Let these threads run on all CPUs: threads inherit the set of the thread that makes them, so give one its \
             own CPU after it has made the others (sched_setaffinity, pthread_setaffinity_np, taskset, a cpuset)."
        }
        Cure::WakeWhoCanGoOn => {
            "Look whether there is something to wait for with the lock held; give what different threads wait for a \
             condition of its own each, or wake all; let no task wait for tasks that only its own pool can run."
        }
        Cure::WaitInCall => {
            "Let the threads wait in accept, recv or read themselves, of which the kernel wakes one, ask epoll for that \
             (EPOLLEXCLUSIVE), or give each a socket of its own (SO_REUSEPORT)."
        }
        Cure::AcceptMore => {
            "Allow more connections at a time (workers, threads, a limit such as maxconn), or let those go sooner that send \
             nothing (the time that they are kept alive)."
        }
        Cure::WaitElsewhere => {
            "Compose the tasks so that none waits (CompletableFuture, as_completed outside of the pool), or run those that \
             wait and those that are waited for in a pool each."
        }
        Cure::CallAsynchronously => {
            "Call the forms without Sync (zlib.gzip, crypto.pbkdf2, crypto.scrypt), which libuv's pool runs beside the event \
             loop, or give the work to worker threads."
        }
        Cure::TakeWhatIsThere => {
            "Take what is there and go on, or wait for as many as can come: who waits for an answer sends no more."
        }
        Cure::KeepThreads => "Keep threads and give them one task after the other: a pool, or one thread per CPU.",
        Cure::KeepProcesses => {
            "Do the work in the program itself, or give one process many items: a helper that is kept, or a list of items \
             on one command line (xargs -n, parallel -X)."
        }
        Cure::LockInOrder => {
            "Take these locks in one and the same order everywhere, or both at once (std::scoped_lock), or hold only one."
        }
        Cure::ReleaseAlways => {
            "Release the lock on every way out of the section, errors and ended threads included: a guard does; do not \
             call from inside what takes it again."
        }
        Cure::SendLess => {
            "Send less: keep what all need on either side (a pool's initializer, workerData), send keys or what has \
             changed, or share it (shared_memory, SharedArrayBuffer)."
        }
        Cure::LargerTasks => {
            "Hand over more at a time: a chunksize for map and imap, lists of items in place of single ones; what a \
             Manager holds, read once and write back once."
        }
        Cure::HandOverMore => {
            "Threads wait for work where this lock is taken: hand over more at a time, so that a task is worth its way through \
             the queue (a thousand items in place of one, several each time the lock is taken)."
        }
        Cure::LongerRounds => {
            "Give each thread more to do in a round, or let it go on to the next before the others are through."
        }
        Cure::SpreadEvents => {
            "Give each of them its share of the connections: hand new ones out in turn, or give each a listening socket of \
             its own (SO_REUSEPORT); one connection that has all the load needs a second."
        }
        Cure::BlockInsteadOfLooking => {
            "Let the goroutine sleep until there is something: a select without default, a channel or a sync.Cond in \
             place of the loop that looks."
        }
        Cure::LeaveInterpreter => {
            "Use processes, do the heavy part in code that releases the lock, or run an interpreter without it."
        }
        Cure::CollectUnasked => {
            "Leave it to the runtime when to collect: take out the call (System.gc, gc.collect, GC.start), or make it rare."
        }
        Cure::LessGarbage => {
            "Allocate less and keep less, give the collector more room (-Xmx, GOGC, --max-semi-space-size), or take \
             another one."
        }
    }
}

/// The command that tests the cure; where none does, the one that compares before and after.
fn proof(recording: &Recording, finding: &Finding) -> Proof {
    let facts = &recording.report.facts;
    if finding.proof.words.first().is_none_or(|command| command == "record") {
        let file = quoted(&recording.path.to_string_lossy());
        return Proof::Compare(vec!["holdup".to_owned(), "diff".to_owned(), file, "AFTER.holdup".to_owned()]);
    }
    let mut words = vec!["holdup".to_owned()];
    words.extend(finding.proof.words.iter().map(|word| quoted(word)));
    if !finding.proof.program {
        return Proof::Effect(words);
    }
    words.push("--".to_owned());
    let command = &facts.header.target.command;
    match command.is_empty() {
        true => words.push("PROGRAM".to_owned()),
        false => words.extend(command.iter().map(|word| quoted(word))),
    }
    Proof::Command(words)
}

/// A command within a width: broken between words, so that a shell reads it back as one.
pub fn command(words: &[String], width: usize, indent: usize) -> String {
    let mut out = String::new();
    let mut column = indent;
    for word in words {
        let length = text::columns(word);
        // Room for the backslash.
        if !out.is_empty() && column + 1 + length + 2 > width {
            out.push_str(" \\\n");
            out.push_str(&" ".repeat(indent + 2));
            column = indent + 2;
        } else if !out.is_empty() {
            out.push(' ');
            column += 1;
        }
        out.push_str(word);
        column += length;
    }
    out
}

/// A word that a shell reads back, with nothing in it that moves a cursor.
pub(super) fn quoted(word: &str) -> String {
    shell::quoted(&text::clean(word))
}
