//! Each rule at its thresholds, healthy shapes, and what explains what.

mod bounds;
mod crowds;
mod division;
mod explained;
mod healthy;
mod languages;
mod locks;
mod looks;
mod memory;
mod pipelines;
mod pools;
mod spinning;
mod standstill;
mod starts;
mod switching;

use std::collections::{BTreeMap, BTreeSet};

use holdup_trace::{Capabilities, Counter, Ending, Pid, ThreadUsage, Tid};

use super::weigh::{MS, S, US};
use super::*;
use crate::Histogram;
use crate::facts::{
    Account, AccountState, Blame, Code, CpuFacts, GoroutineFacts, GoroutineGroup, GoroutineLock, GoroutineState, Herds,
    Holder, HolderDoing, Hotspot, HotspotClass, Kept, Leaf, LineFacts, LockFacts, LockName, LockNumber, Looking,
    OffTime, PairFacts, PathPart, Places, Primitive, ProcessFacts, Reason, Regions, SafepointFacts, Site, Task,
    ThreadFacts, TurnFacts, Wakings,
};
use crate::names::{Frame, GENERATED, Role};
use crowds::{crowd, herd, monitor_herd, polling_herd, wasted};
use division::{alone, connecting, copying, goroutines, one_by_one, rounds, shared_out, uneven, with_all};
use languages::{collecting, event_loop, interpreted, stopped, stopping};
use locks::{all_kept_out, behind, by_the_clock, convoy, hot, inverted, passed_lock, refused, sleeper, starving};
use looks::{looking_for_long, looking_goroutines, polling, polling_in_a_chain};
use memory::{allocating, faulting, mapping, syncing};
use pipelines::stage;
use pools::{borrowing, by_turns, nested, not_accepted, pool, queued_tasks};
use spinning::{atomic, fought_over, kernel, kernel_locked, spinning, yielding, yielding_goroutine};
use standstill::{deadlocked, lingering, missed, standing, starved, stuck};
use starts::{churning, confined, limited, of_two_cpus, programs_started};
use switching::{handing_over, pair, switching, turns};

const PID: u32 = 100;

fn histogram(count: u64, ns: u64) -> Histogram {
    let mut histogram = Histogram::default();
    (0..count).for_each(|_| histogram.add(ns));
    histogram
}

fn site(function: &str) -> Site {
    Site { call_path: vec![Frame::named(function, Role::Program)], count: 1, ns: 1 }
}

/// A recording of one second with so many threads of one process on four CPUs, in which nothing happened.
fn quiet(threads: u32) -> Facts {
    let mut facts = Facts { start_ns: S, end_ns: 2 * S, ..Facts::default() };
    facts.header.machine.cpus = 4;
    facts.header.sample_period_ns = MS;
    facts.header.capabilities =
        Capabilities { switches: true, futexes: true, calls: true, samples: true, ..Capabilities::default() };
    facts.ending = Some(Ending { ended_ns: 2 * S, ..Ending::default() });
    let threads = (0..threads).map(|index| ThreadFacts {
        tid: Tid(PID + index),
        pid: Pid(PID),
        name: format!("worker-{index}"),
        born_ns: S,
        ended_ns: 2 * S,
        ..ThreadFacts::default()
    });
    facts.threads = threads.collect();
    facts.processes = vec![ProcessFacts {
        pid: Pid(PID),
        name: "program".into(),
        threads: facts.threads.len(),
        ..ProcessFacts::default()
    }];
    facts.cpus = vec![CpuFacts { busy_ns: S / 2, ..CpuFacts::default() }; 4];
    facts.totals.runnable_ns = vec![S, 0, 0, 0, 0, 0];
    facts
}

/// Lets each thread but the first compute for a while.
fn busy(facts: &mut Facts, ns: u64) {
    facts.threads.iter_mut().skip(1).for_each(|thread| thread.on_cpu_ns = ns);
    facts.totals.on_cpu_ns = facts.threads.iter().map(|thread| thread.on_cpu_ns).sum();
}

fn off(facts: &mut Facts, index: usize, reason: Reason, count: u64, ns: u64) {
    facts.threads[index].off.insert(reason, OffTime { count, ns });
}

/// A mutex that threads 1.. waited for so often and so long each.
fn mutex(facts: &mut Facts, waits: u64, wait_ns: u64) {
    let waiters: Vec<Tid> = facts.threads.iter().skip(1).map(|thread| thread.tid).collect();
    let each = waits / waiters.len() as u64;
    let reason = Reason::Futex(Primitive::Mutex);
    (1..=waiters.len()).for_each(|index| off(facts, index, reason, each, each * wait_ns));
    let time = OffTime { count: each, ns: each * wait_ns };
    facts.locks.push(LockFacts {
        pid: Pid(PID),
        addr: Some(0x5000),
        name: LockName::Symbol { name: "cache_lock".into(), offset: 0 },
        primitive: Primitive::Mutex,
        waits,
        wait_ns: histogram(waits, wait_ns),
        max_waiters: 3,
        waiters: waiters.iter().map(|tid| (*tid, time)).collect(),
        holders: waiters.iter().map(|tid| Holder { tid: *tid, count: each, ns: each * wait_ns }).collect(),
        wait_sites: vec![site("cache_get")],
        wake_sites: vec![site("cache_get")],
        longest: vec![(waiters[0], S, S + wait_ns)],
        ..LockFacts::default()
    });
}

fn rule(kind: Kind) -> &'static Rule {
    RULES.iter().find(|rule| rule.kind == kind).unwrap()
}

fn judge(kind: Kind, facts: &Facts) -> Vec<Finding> {
    (rule(kind).judge)(facts)
}

fn kinds(facts: &Facts) -> Vec<Kind> {
    all(facts).iter().map(|finding| finding.kind).collect()
}

type Change = (&'static str, fn(&mut Facts));

/// The base, which is exactly at every threshold, is found; any of the changes, which go just below one, and it is not.
fn holds_at_its_thresholds(kind: Kind, base: fn() -> Facts, changes: &[Change]) {
    let found = judge(kind, &base());
    assert_eq!(found.len(), 1, "{} is not found at its thresholds", kind.name());
    let finding = &found[0];
    assert!((0.0..=1.0).contains(&finding.severity) && finding.severity > 0.0, "{}", finding.severity);
    assert!(!finding.proof.words.is_empty() && finding.kind == kind);
    for evidence in &finding.evidence {
        assert!(evidence.value.is_finite() && evidence.value >= 0.0, "{}: {evidence:?}", kind.name());
    }
    for (what, change) in changes {
        let mut facts = base();
        change(&mut facts);
        assert!(judge(kind, &facts).is_empty(), "{} is found although {what}", kind.name());
    }
}

/// A function of a runtime, with the samples in it and in what it calls.
fn below(function: &str, inclusive: u64) -> Code {
    Code { frame: Frame::named(function, Role::Runtime), hits: 0, inclusive }
}

fn code(function: &str, role: Role, hits: u64) -> Code {
    Code { frame: Frame::named(function, role), hits, inclusive: hits }
}

fn spot(class: HotspotClass, function: &str, hits: u64, function_hits: u64) -> Hotspot {
    Hotspot {
        frame: Frame::named(function, Role::Program),
        instruction: "pause".into(),
        class,
        variable: None,
        hits,
        function_hits,
        threads: vec![(Tid(PID + 1), hits - hits / 10), (Tid(PID + 2), hits / 10)],
        sites: Vec::new(),
    }
}

type Base = (Kind, fn() -> Facts);

/// One recording per rule, at its thresholds; two where it has two ways.
const BASES: &[Base] = &[
    (Kind::LockConvoy, convoy),
    (Kind::HotLock, hot),
    (Kind::SleepingHolder, sleeper),
    (Kind::SleepingHolder, behind),
    (Kind::ExcessiveSwitching, switching),
    (Kind::ExcessiveSwitching, handing_over),
    (Kind::PingPong, pair),
    (Kind::PingPong, turns),
    (Kind::Oversubscription, crowd),
    (Kind::ThunderingHerd, herd),
    (Kind::SpinWaste, spinning),
    (Kind::HotAtomic, atomic),
    (Kind::HotAtomic, fought_over),
    (Kind::HotLock, passed_lock),
    (Kind::KernelHeavy, kernel),
    (Kind::WastedWakeups, wasted),
    (Kind::Imbalance, with_all),
    (Kind::Imbalance, uneven),
    (Kind::Imbalance, rounds),
    (Kind::PriorityInversion, inverted),
    (Kind::IoBound, syncing),
    (Kind::MemoryLock, mapping),
    (Kind::PageFaults, faulting),
    (Kind::Allocator, allocating),
    (Kind::Starvation, starving),
    (Kind::SerialPhase, alone),
    (Kind::SlowStage, stage),
    (Kind::SmallPool, pool),
    (Kind::SmallPool, borrowing),
    (Kind::SmallPool, by_turns),
    (Kind::Polling, polling),
    (Kind::YieldStorm, yielding),
    (Kind::InterpreterLock, interpreted),
    (Kind::GarbageCollection, stopped),
    (Kind::GarbageCollection, collecting),
    (Kind::Deadlock, deadlocked),
    (Kind::Deadlock, stuck),
    (Kind::Deadlock, standing),
    (Kind::Deadlock, starved),
    (Kind::HotLock, refused),
    (Kind::KernelLock, kernel_locked),
    (Kind::ThreadChurn, churning),
    (Kind::ThreadChurn, programs_started),
    (Kind::Polling, polling_in_a_chain),
    (Kind::Polling, looking_for_long),
    (Kind::LostWakeups, lingering),
    (Kind::SerialPhase, event_loop),
    (Kind::SerialPhase, one_by_one),
    (Kind::SerialPhase, stopping),
    (Kind::Starvation, all_kept_out),
    (Kind::CpuAffinity, confined),
    (Kind::CpuAffinity, of_two_cpus),
    (Kind::CpuQuota, limited),
    (Kind::SmallPool, not_accepted),
    (Kind::Imbalance, shared_out),
    (Kind::SmallPool, nested),
    (Kind::LostWakeups, missed),
    (Kind::ThunderingHerd, monitor_herd),
    (Kind::ThunderingHerd, polling_herd),
    (Kind::CopiedMessages, copying),
    (Kind::ConnectionChurn, connecting),
];

/// A branch of the blame: who waits for which lock, and who did what meanwhile.
fn blamed(waiter: u32, lock: Option<u32>, leaf: Leaf, thread: u32, ns: u64) -> Blame {
    let site = Some(site("step"));
    Blame {
        waiter: Tid(PID + waiter),
        lock: lock.map(LockNumber),
        via: None,
        leaf,
        thread: Tid(PID + thread),
        site,
        file: None,
        asker: None,
        ns,
    }
}

fn spent(facts: &mut Facts, index: usize, state: AccountState, ns: u64) {
    facts.threads[index].account.ns[state as usize] += ns;
    facts.account.ns[state as usize] += ns;
}

#[test]
fn every_kind_has_a_rule_in_the_order_of_the_page() {
    let ruled: Vec<Kind> = RULES.iter().map(|rule| rule.kind).collect();
    assert_eq!(ruled, Kind::ALL);
    assert_eq!(vocabulary().map(|(kind, _)| kind).collect::<Vec<_>>(), Kind::ALL);
}

/// What waits of goroutines show.
fn of_goroutines(kind: Kind) -> Vec<Finding> {
    let [held, pool, entry] = goroutines::tests::recordings();
    let facts = match kind {
        Kind::SmallPool => vec![pool, entry],
        Kind::ThunderingHerd => vec![goroutines::tests::herd()],
        Kind::Deadlock => vec![goroutines::tests::stuck()],
        Kind::Imbalance => vec![goroutines::tests::uneven(), goroutines::tests::one_gets_all()],
        Kind::YieldStorm => vec![yielding_goroutine()],
        Kind::Polling => vec![looking_goroutines()],
        _ => vec![held],
    };
    facts.iter().flat_map(|facts| judge(kind, facts)).collect()
}

#[test]
fn rules_show_the_numbers_that_they_promise() {
    for rule in RULES {
        let shown: BTreeSet<&str> = BASES
            .iter()
            .filter(|(kind, _)| *kind == rule.kind)
            .flat_map(|(kind, base)| judge(*kind, &base()))
            .chain(of_goroutines(rule.kind))
            .flat_map(|finding| finding.evidence)
            .map(|evidence| evidence.name)
            .collect();
        let promised: BTreeSet<&str> = rule.evidence.iter().copied().collect();
        assert_eq!(shown, promised, "{}", rule.kind.name());
    }
}

#[test]
fn units_of_evidence_agree_with_their_names() {
    for (kind, base) in BASES {
        for evidence in judge(*kind, &base()).iter().flat_map(|finding| &finding.evidence) {
            let name = evidence.name;
            let fits = match evidence.unit {
                Unit::PerSecond => name.ends_with("_per_s"),
                Unit::Ns => name.contains("_ns"),
                Unit::Share => name.ends_with("_share") && evidence.value <= 1.0,
                Unit::Count | Unit::Ratio => !["_per_s", "_ns", "_share"].iter().any(|unit| name.ends_with(unit)),
            };
            assert!(fits, "{}: {evidence:?}", kind.name());
        }
    }
}

#[test]
fn what_costs_little_and_what_is_short_is_left_out() {
    let mut facts = hot();
    assert_eq!(kinds(&facts), [Kind::HotLock]);
    facts.end_ns = S + 49 * MS;
    assert!(kinds(&facts).is_empty(), "a recording of 49 ms");
    let mut facts = herd();
    facts.locks[0].herds = Herds { calls: 2_000, woken: 5_000, back_to_sleep: 3_000 };
    assert!(kinds(&facts).is_empty(), "it is mostly idle");
    (facts.header.machine.cpus, facts.end_ns) = (1, S + 100 * MS);
    assert_eq!(kinds(&facts), [Kind::ThunderingHerd]);
    facts.locks[0].herds = Herds { calls: 1_000, woken: 2_900, back_to_sleep: 2_900 };
    assert!(kinds(&facts).is_empty(), "4.8% of the time");
}

#[test]
fn the_worst_comes_first() {
    let mut facts = hot();
    mutex(&mut facts, 30, 10 * MS);
    facts.locks[1].name = LockName::Symbol { name: "worse_lock".into(), offset: 0 };
    let found = all(&facts);
    assert_eq!(found.iter().map(weigh::lock_of).collect::<Vec<_>>(), [Some(LockNumber(1)), Some(LockNumber(0))]);
    assert!(found[0].severity > found[1].severity);
}
