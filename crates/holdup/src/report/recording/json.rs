//! A recording as JSON, schema `holdup-recording-1`: the facts as they are defined in holdup-analyze, and beside them
//! what only the program knows, how things are called and the sentences. docs/holdup-recording-1.schema.json is
//! generated from these types.

use std::borrow::Cow;

use holdup_analyze::{
    Blame, Facts, Finding, GoroutineFacts, GoroutineGroup, GoroutineHolder, GoroutineLock, GoroutineState, Hotspot,
    Leaf, LockFacts, LockNumber, PairFacts, Problem, Site, Subject,
};
use holdup_trace::Tid;
use schemars::JsonSchema;
use serde::Serialize;

use super::{sentences, summary};
use crate::recording::Recording;
use crate::recording::name;

/// Everything that a recording says: header, figures, findings with their sentences, problems.
#[derive(Serialize, JsonSchema)]
#[schemars(title = "A recording of holdup")]
pub struct Report<'a> {
    /// Name and version of this form.
    #[schemars(extend("const" = "holdup-recording-1"))]
    schema: &'static str,
    /// The file that was read.
    file: Cow<'a, str>,
    /// Its size.
    file_bytes: u64,
    /// What matters most, as a sentence.
    headline: String,
    /// Context switches by the kernel's own count, to compare with those recorded.
    counted_switches: Option<u64>,
    #[serde(flatten)]
    facts: &'a Facts,
    /// What holds threads up, worst first.
    findings: Vec<Found<'a>>,
    /// Why no findings would be no all-clear, a sentence each.
    doubts: Vec<String>,
    /// What weakens the figures.
    problems: Vec<Weakness<'a>>,
    /// Parts of the file that cannot be read.
    damage: Vec<Damage<'a>>,
    /// What threads waited for on futexes, most time lost first; waits by design are among them.
    locks: Vec<Lock<'a>>,
    /// Waits, each followed from waker to waker to what it came from, most time first.
    blame: Vec<Branch<'a>>,
    /// What the elapsed time is made of: the critical path by what and whose it is, longest first.
    path: Vec<PathPart<'a>>,
    /// Threads that woke each other, most round trips first.
    pairs: Vec<Pair<'a>>,
    /// Instructions where samples pile up, most first.
    hotspots: Vec<NamedHotspot<'a>>,
    /// Where threads yielded, most first.
    yield_sites: Vec<Place<'a>>,
    /// What goroutines were found doing, per process that could be looked into.
    goroutines: Vec<Goroutines<'a>>,
}

impl<'a> Report<'a> {
    /// The recording in this form.
    pub fn new(recording: &'a Recording) -> Report<'a> {
        let report = &recording.report;
        let facts = &report.facts;
        Report {
            schema: "holdup-recording-1",
            file: recording.path.to_string_lossy(),
            file_bytes: recording.file_bytes,
            headline: summary::headline(recording),
            counted_switches: summary::counted_switches(facts),
            facts,
            findings: report.findings.iter().map(|finding| Found::new(recording, finding)).collect(),
            doubts: report.doubts.iter().map(summary::doubted).collect(),
            problems: report.problems.iter().map(|problem| Weakness::new(facts, problem)).collect(),
            damage: recording.damage.iter().map(|one| Damage { at_byte: one.at, why: &one.why }).collect(),
            locks: facts.locks.iter().map(Lock::new).collect(),
            blame: facts.blame.iter().map(Branch::new).collect(),
            path: facts
                .path
                .parts
                .iter()
                .map(|part| PathPart::new(part.leaf, part.thread, part.site.as_ref(), part.file.as_deref(), part.ns))
                .collect(),
            pairs: facts.pairs.iter().map(|facts| Pair { facts, sites: places(&facts.sites) }).collect(),
            hotspots: facts.hotspots.iter().map(NamedHotspot::new).collect(),
            yield_sites: places(&facts.yield_sites),
            goroutines: facts.goroutines.iter().map(Goroutines::new).collect(),
        }
    }
}

/// What the goroutines of one process were found doing. Numbers of goroutines are means over all looks.
#[derive(Serialize, JsonSchema)]
struct Goroutines<'a> {
    /// The process.
    pid: u32,
    /// How often they were looked at.
    looks: u64,
    /// How many there were.
    mean: f64,
    /// What they did and where, most first.
    doing: Vec<Group<'a>>,
    /// Mutexes that they waited for, most first. Their numbers among the subjects of findings follow those of locks.
    mutexes: Vec<Queue<'a>>,
    /// Channels that they waited to send into, most first.
    sends: Vec<Queue<'a>>,
    /// Where they waited because only so many may go on at a time, most first.
    entries: Vec<Queue<'a>>,
}

/// Goroutines that did the same in the same function.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "GoroutineGroup")]
struct Group<'a> {
    /// What.
    state: GoroutineState,
    /// How many.
    mean: f64,
    /// Where; null where it is not known, as of those that run.
    place: Option<Place<'a>>,
}

/// What goroutines queued for.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "GoroutineQueue")]
struct Queue<'a> {
    /// How reports call it.
    name: String,
    /// How many waited.
    waiters: f64,
    /// Most that waited at once.
    most_waiters: u64,
    /// The share of the looks that found anybody waiting.
    contended_share: f64,
    /// Where they waited, most first.
    wait_sites: Vec<Place<'a>>,
    /// What was seen of who kept them waiting; null if that cannot be told.
    holder: Option<Keeper<'a>>,
}

/// Who kept goroutines waiting, by all appearance.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "GoroutineHolder")]
struct Keeper<'a> {
    /// How many such there were at a time.
    mean: f64,
    /// What they did.
    state: GoroutineState,
    /// Where, most first.
    sites: Vec<Place<'a>>,
}

impl<'a> Goroutines<'a> {
    fn new(of: &'a GoroutineFacts) -> Goroutines<'a> {
        let group = |one: &'a GoroutineGroup| {
            let place = (!one.site.call_path.is_empty()).then(|| Place::new(&one.site));
            Group { state: one.state, mean: one.mean, place }
        };
        let queues = |all: &'a [GoroutineLock]| all.iter().map(Queue::new).collect();
        Goroutines {
            pid: of.pid.0,
            looks: of.looks,
            mean: of.mean,
            doing: of.doing.iter().map(group).collect(),
            mutexes: queues(&of.mutexes),
            sends: queues(&of.sends),
            entries: queues(&of.entries),
        }
    }
}

impl<'a> Queue<'a> {
    fn new(lock: &'a GoroutineLock) -> Queue<'a> {
        let keeper = |one: &'a GoroutineHolder| Keeper { mean: one.mean, state: one.doing, sites: places(&one.sites) };
        Queue {
            name: name::lock_with(&lock.name, None, lock.wait_sites.first()),
            waiters: lock.waiters,
            most_waiters: lock.most,
            contended_share: lock.contended,
            wait_sites: places(&lock.wait_sites),
            holder: lock.holder.as_ref().map(keeper),
        }
    }
}

/// A finding, with its sentences.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Finding")]
struct Found<'a> {
    #[serde(flatten)]
    finding: &'a Finding,
    /// The finding as a sentence.
    what: String,
    /// Whom and what it is about.
    subjects: Vec<About>,
    /// Where in the program.
    place: Option<Place<'a>>,
    /// What to try.
    cure: &'static str,
    /// The command that tests the cure; a comparison with a recording made after the change, where no command does it
    /// alone.
    proof: String,
}

impl<'a> Found<'a> {
    fn new(recording: &'a Recording, finding: &'a Finding) -> Found<'a> {
        let words = sentences::of(recording, finding);
        let subjects = finding.subjects.iter().map(|subject| About::new(&recording.report.facts, subject));
        Found {
            finding,
            what: words.what,
            subjects: subjects.collect(),
            place: finding.place.as_ref().map(Place::new),
            cure: words.cure,
            proof: words.proof.words().join(" "),
        }
    }
}

/// Whom or what a finding is about.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Subject")]
struct About {
    /// lock, thread, process, variable or function.
    kind: &'static str,
    /// Index in locks, or number of the thread or process.
    number: Option<usize>,
    /// How reports call it.
    name: String,
}

impl About {
    fn new(facts: &Facts, subject: &Subject) -> About {
        let (kind, number) = match subject {
            Subject::Lock { number, .. } => ("lock", Some(number.index())),
            Subject::Thread { tid, .. } => ("thread", Some(tid.0 as usize)),
            Subject::Process { pid, .. } => ("process", Some(pid.0 as usize)),
            Subject::Variable(_) => ("variable", None),
            Subject::Function(_) => ("function", None),
        };
        About { kind, number, name: name::subject(facts, subject) }
    }
}

/// A wait, and what it came from.
#[derive(Serialize, JsonSchema)]
struct Branch<'a> {
    /// Number of the thread that waits.
    waiter: u32,
    /// Index in locks of what it waits for; null for what is no futex.
    lock: Option<usize>,
    /// Index in locks of what its waker waited for in turn.
    via: Option<usize>,
    /// Number of the thread that had asked the one that it ended in for something and waits for the answer, the last on
    /// the way there; may be the one that waits.
    asker: Option<u32>,
    #[serde(flatten)]
    end: PathPart<'a>,
}

impl<'a> Branch<'a> {
    fn new(row: &'a Blame) -> Branch<'a> {
        let end = PathPart::new(row.leaf, row.thread, row.site.as_ref(), row.file.as_deref(), row.ns);
        let [lock, via] = [row.lock, row.via].map(|lock| lock.map(LockNumber::index));
        Branch { waiter: row.waiter.0, lock, via, asker: row.asker.map(|asker| asker.0), end }
    }
}

/// What a wait, or a part of the critical path, was in the end.
#[derive(Serialize, JsonSchema)]
struct PathPart<'a> {
    /// What.
    leaf: Leaf,
    /// Number of the thread whose doing it was; 0 if nobody's that is known.
    thread: u32,
    /// Where that thread left the CPU, or where it runs mostly.
    place: Option<Place<'a>>,
    /// The file, pipe or socket that it was found blocked on.
    file: Option<&'a str>,
    /// How long in all.
    time_ns: u64,
}

impl<'a> PathPart<'a> {
    fn new(leaf: Leaf, thread: Tid, site: Option<&'a Site>, file: Option<&'a str>, time_ns: u64) -> PathPart<'a> {
        PathPart { leaf, thread: thread.0, place: site.map(Place::new), file, time_ns }
    }
}

/// What weakens the figures.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Problem")]
struct Weakness<'a> {
    /// lost, cut-off, clock-skew, switches-differ, displaced, unreadable, replaced, no-lines, costly-lines,
    /// no-code-map, partial-code-map or unknown.
    code: &'static str,
    /// The file that it is about.
    path: Option<&'a str>,
    /// The problem as a sentence.
    message: String,
}

impl<'a> Weakness<'a> {
    fn new(facts: &Facts, problem: &'a Problem) -> Weakness<'a> {
        let (code, path) = match problem {
            Problem::Lost { .. } => ("lost", None),
            Problem::CutOff => ("cut-off", None),
            Problem::ClockSkew { .. } => ("clock-skew", None),
            Problem::SwitchesDiffer { .. } => ("switches-differ", None),
            Problem::Displaced { .. } => ("displaced", None),
            Problem::Unreadable { path, .. } => ("unreadable", Some(path.as_str())),
            Problem::Replaced { path } => ("replaced", Some(path.as_str())),
            Problem::NoLines { path, .. } => ("no-lines", Some(path.as_str())),
            Problem::CostlyLines { path, .. } => ("costly-lines", Some(path.as_str())),
            Problem::NoCodeMap { .. } => ("no-code-map", None),
            Problem::PartialCodeMap { path, .. } => ("partial-code-map", Some(path.as_str())),
            Problem::Unknown { .. } => ("unknown", None),
        };
        Weakness { code, path, message: summary::problem(facts, problem) }
    }
}

/// A part of the file that cannot be read.
#[derive(Serialize, JsonSchema)]
struct Damage<'a> {
    /// Where in the file.
    at_byte: u64,
    /// What is wrong.
    why: &'a str,
}

/// A lock, or whatever else threads waited for on a futex.
#[derive(Serialize, JsonSchema)]
struct Lock<'a> {
    /// How reports call it.
    name: String,
    /// Whether a wait means that another thread is in the way.
    contention: bool,
    #[serde(flatten)]
    facts: &'a LockFacts,
    /// Where it is waited for, most time first.
    wait_sites: Vec<Place<'a>>,
    /// Where it is released, most wakes first.
    wake_sites: Vec<Place<'a>>,
    /// What its holders were found executing while others waited, most often first: of an interpreter's lock.
    hold_sites: Vec<Place<'a>>,
    /// Where holders left the CPU while others waited, most time first.
    holder_off_sites: Vec<Place<'a>>,
}

impl<'a> Lock<'a> {
    fn new(facts: &'a LockFacts) -> Lock<'a> {
        Lock {
            name: name::lock(facts),
            contention: facts.primitive.is_contention(),
            facts,
            wait_sites: places(&facts.wait_sites),
            wake_sites: places(&facts.wake_sites),
            hold_sites: places(&facts.hold_sites),
            holder_off_sites: places(&facts.holder_doing.off_sites),
        }
    }
}

/// Two threads that follow each other.
#[derive(Serialize, JsonSchema)]
struct Pair<'a> {
    #[serde(flatten)]
    facts: &'a PairFacts,
    /// Where they hand over, most first.
    sites: Vec<Place<'a>>,
}

/// An instruction where samples pile up.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Hotspot")]
struct NamedHotspot<'a> {
    #[serde(flatten)]
    facts: &'a Hotspot,
    /// The variable that it works on.
    variable: Option<String>,
}

impl<'a> NamedHotspot<'a> {
    fn new(facts: &'a Hotspot) -> NamedHotspot<'a> {
        let variable = facts.variable.as_ref().map(|variable| name::lock_short(variable, None));
        NamedHotspot { facts, variable }
    }
}

/// A place in the program.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Site")]
struct Place<'a> {
    /// The program's own function in it, as reports call it.
    place: Option<String>,
    #[serde(flatten)]
    site: &'a Site,
}

impl<'a> Place<'a> {
    fn new(site: &'a Site) -> Place<'a> {
        Place { place: name::caller(site), site }
    }
}

fn places(sites: &[Site]) -> Vec<Place<'_>> {
    sites.iter().map(Place::new).collect()
}
