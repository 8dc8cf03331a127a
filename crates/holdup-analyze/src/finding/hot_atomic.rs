//! hot-atomic: several threads change one variable with atomic instructions, and its cache line travels between their
//! CPUs. A shared counter alone can sink a parallel loop (Kraus, 2014).
//!
//! A timer finds a CPU that waits for a cache line right behind the instruction that waits. Signs and thresholds, per
//! variable, or per function where the instruction does not name one:
//! - at least [`LEAST_HITS`] samples right behind `lock`-prefixed instructions (or `xchg` with memory);
//! - at least [`LEAST_FUNCTION_SHARE`] of their function's samples. Measured: 90% for a counter shared by two threads,
//!   39% for one of each thread's own in the same tight loop;
//! - at least [`LEAST_SHARE`] of all CPU samples;
//! - at least two threads with [`LEAST_THREAD_SHARE`] of the hits each.
//!
//! The severity is a share of CPU time.
//!
//! How it can be wrong: threads may run the same instruction on variables of their own; then it costs what an atomic
//! instruction costs without contention, some 20 cycles, and the samples of a loop that does nothing else may still
//! gather behind it. The instruction of a lock is reported only if no finding about a lock explains it: hot-lock tells
//! of a library's lock that is passed on so.

use std::collections::BTreeMap;

use holdup_trace::Tid;

use super::alone::is_same;
use super::hot_line;
use super::weigh::{self, count, part};
use super::{Cure, Finding, Kind, Rule, Subject};
use crate::facts::{Facts, Hotspot, HotspotClass, LockFacts, LockName, Primitive};
use crate::names::{Frame, Role};

pub(super) const RULE: Rule = Rule {
    kind: Kind::HotAtomic,
    judge,
    evidence: &[
        "samples_share",
        "function_share",
        "threads",
        "largest_thread_share",
        "samples",
        "line_words",
        "line_writers",
    ],
};

pub(super) const LEAST_HITS: u64 = 50;
pub(super) const LEAST_FUNCTION_SHARE: f64 = 0.6;
pub(super) const LEAST_SHARE: f64 = 0.15;
pub(super) const LEAST_THREAD_SHARE: f64 = 0.1;

/// The instructions on one variable, or in one function.
#[derive(Default)]
struct Group<'a> {
    hotspots: Vec<&'a Hotspot>,
    hits: u64,
    threads: BTreeMap<Tid, u64>,
}

fn judge(facts: &Facts) -> Vec<Finding> {
    let groups = groups(facts);
    let mut found: Vec<Finding> =
        groups.iter().filter(|group| is_hot(facts, group)).map(|group| finding(facts, group)).collect();
    // An atomic instruction keeps the plain ones behind it waiting: it is the cause.
    let lines = hot_line::judge(facts);
    let is_told = |line: &Finding| {
        let same_place =
            |one: &Finding| one.place.as_ref().zip(line.place.as_ref()).is_some_and(|(a, b)| is_same(a, b));
        found.iter().any(|one| one.subjects == line.subjects || same_place(one))
    };
    let lines: Vec<Finding> = lines.into_iter().filter(|line| !is_told(line)).collect();
    found.extend(lines);
    found
}

fn groups(facts: &Facts) -> Vec<Group<'_>> {
    let mut groups: BTreeMap<String, Group> = BTreeMap::new();
    let atomic = |hotspot: &&Hotspot| hotspot.class == HotspotClass::Atomic && !is_of_arena(hotspot);
    for hotspot in facts.hotspots.iter().filter(atomic) {
        add(groups.entry(key(hotspot)).or_default(), hotspot);
    }
    groups.into_values().collect()
}

/// Threads that allocate from arenas of their own run the same instruction on different locks.
fn is_of_arena(hotspot: &Hotspot) -> bool {
    hotspot.variable.is_none() && hotspot.frame.function.as_deref().is_some_and(weigh::allocates)
}

/// hot-lock, of a lock of a library whose word travels between CPUs while nobody sleeps for it: the samples of those
/// functions that take and release it, by where the program calls them.
pub(super) fn passed_lock(facts: &Facts) -> Option<Finding> {
    let mut groups: BTreeMap<String, Group> = BTreeMap::new();
    let in_lock = |hotspot: &&Hotspot| {
        let on_lock = |name: &LockName| facts.locks.iter().any(|lock| is_library_lock(lock) && is_word_of(name, lock));
        hotspot.class == HotspotClass::Atomic
            && (takes_lock(&hotspot.frame) || hotspot.variable.as_ref().is_some_and(on_lock))
            && !is_of_arena(hotspot)
    };
    for hotspot in facts.hotspots.iter().filter(in_lock) {
        let site = weigh::site_of(hotspot);
        let Some(frame) = site.caller().filter(|frame| frame.role == Role::Program) else { continue };
        let called_in = frame.function.clone().unwrap_or_else(|| format!("{:#x}", frame.start).into());
        add(groups.entry(format!("{}:{called_in}", frame.module)).or_default(), hotspot);
    }
    let hottest = groups.values().filter(|group| is_hot(facts, group)).max_by_key(|group| group.hits)?;
    let worst = hottest.hotspots.iter().max_by_key(|hotspot| hotspot.hits)?;
    let share = samples_share(facts, hottest);
    Some(Finding {
        severity: weigh::of_work(facts, share),
        subjects: vec![subject(worst)],
        place: Some(weigh::site_of(worst)),
        evidence: vec![
            part("samples_share", share),
            count("threads", threads(hottest) as u64),
            count("samples", hottest.hits),
        ],
        ..Finding::new(Kind::HotLock, Cure::ShortenSplitOrGate, weigh::record_again())
    })
}

/// Whether it is a lock of a library, which calls the kernel for nothing else than contention.
pub(super) fn is_library_lock(lock: &LockFacts) -> bool {
    use Primitive::{Libc, Mutex, ParkingLotMutex, PiMutex, RustMutex, RwLock};
    matches!(lock.primitive, Mutex | PiMutex | RustMutex | ParkingLotMutex | RwLock | Libc)
}

/// Whether a variable is the word of a lock, or another word of the same lock.
pub(super) fn is_word_of(variable: &LockName, lock: &LockFacts) -> bool {
    const LOCK_BYTES: u64 = 56;
    match (variable, &lock.name) {
        (LockName::Symbol { name, offset }, LockName::Symbol { name: of_lock, offset: at }) => {
            name == of_lock && offset.abs_diff(*at) < LOCK_BYTES
        }
        _ => false,
    }
}

/// Whether a function of a library takes or releases a lock.
pub(super) fn takes_lock(frame: &Frame) -> bool {
    const OF_OPENMP: [&str; 4] = ["GOMP_critical_", "GOMP_atomic_", "omp_set_lock", "omp_unset_lock"];
    let of_openmp = |name: &str| OF_OPENMP.iter().any(|start| name.starts_with(start));
    frame.role == Role::Lock || frame.function.as_deref().is_some_and(of_openmp)
}

fn add<'a>(group: &mut Group<'a>, hotspot: &'a Hotspot) {
    group.hotspots.push(hotspot);
    group.hits += hotspot.hits;
    hotspot.threads.iter().for_each(|(tid, hits)| *group.threads.entry(*tid).or_default() += hits);
}

fn key(hotspot: &Hotspot) -> String {
    match (&hotspot.variable, &hotspot.frame.function) {
        (Some(LockName::Symbol { name, offset }), _) => format!("variable {name}+{offset}"),
        (_, Some(function)) => format!("function {function}"),
        _ => format!("address {}+{:#x}", hotspot.frame.module, hotspot.frame.offset),
    }
}

fn is_hot(facts: &Facts, group: &Group) -> bool {
    group.hits >= LEAST_HITS
        && function_share(group) >= LEAST_FUNCTION_SHARE
        && samples_share(facts, group) >= LEAST_SHARE
        && threads(group) >= 2
}

fn samples_share(facts: &Facts, group: &Group) -> f64 {
    weigh::share(group.hits, weigh::samples(facts)).min(1.0)
}

/// The hits as a share of the samples of the functions that they are in, each function once.
fn function_share(group: &Group) -> f64 {
    let mut functions: BTreeMap<&str, u64> = BTreeMap::new();
    for hotspot in &group.hotspots {
        let name = hotspot.frame.function.as_deref().unwrap_or_default();
        let known = functions.entry(name).or_default();
        *known = (*known).max(hotspot.function_hits);
    }
    weigh::share(group.hits, functions.values().sum()).min(1.0)
}

/// Threads that have a part in it.
fn threads(group: &Group) -> usize {
    group.threads.values().filter(|hits| weigh::share(**hits, group.hits) >= LEAST_THREAD_SHARE).count()
}

/// What is told of a group, and whether threads fight over neighbours of one variable rather than over it.
fn finding(facts: &Facts, group: &Group) -> Finding {
    let mut told = of_group(facts, group);
    let line = told.place.as_ref().and_then(|place| hot_line::of_neighbours(facts, place));
    if let Some(line) = line.filter(|_| !matches!(told.subjects[..], [Subject::Variable(_)])) {
        told.evidence.extend([count("line_words", line.words), count("line_writers", line.writers)]);
        (told.cure, told.proof) = (Cure::OwnLines, weigh::record_again());
    }
    told
}

fn of_group(facts: &Facts, group: &Group) -> Finding {
    let samples_share = samples_share(facts, group);
    let worst = group.hotspots.iter().max_by_key(|hotspot| hotspot.hits);
    let largest = group.threads.values().max().copied().unwrap_or(0);
    let threads = threads(group);
    Finding {
        kind: Kind::HotAtomic,
        bound: None,
        severity: samples_share,
        subjects: worst.map(|hotspot| subject(hotspot)).into_iter().collect(),
        place: worst.map(|hotspot| weigh::site_of(hotspot)),
        evidence: vec![
            part("samples_share", samples_share),
            part("function_share", function_share(group)),
            count("threads", threads as u64),
            part("largest_thread_share", weigh::share(largest, group.hits)),
            count("samples", group.hits),
        ],
        moments: Vec::new(),
        cure: Cure::ShardCounter,
        proof: weigh::bench(&format!(
            "--workload parallel-for --counter xadd,sharded --threads 1..{}",
            threads.clamp(2, 64)
        )),
    }
}

fn subject(hotspot: &Hotspot) -> Subject {
    let function = || Subject::Function(weigh::function_of(hotspot));
    hotspot.variable.clone().map_or_else(function, Subject::Variable)
}
