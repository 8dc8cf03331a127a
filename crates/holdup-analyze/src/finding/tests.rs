//! Each rule at its thresholds, healthy shapes, and what explains what.

use std::collections::{BTreeMap, BTreeSet};

use holdup_trace::{Capabilities, Counter, Ending, Pid, ThreadUsage, Tid};

use super::weigh::{MS, S, US};
use super::*;
use crate::Histogram;
use crate::facts::{
    Account, AccountState, Blame, Code, CpuFacts, GoroutineFacts, GoroutineGroup, GoroutineLock, GoroutineState, Herds,
    Holder, HolderDoing, Hotspot, HotspotClass, Kept, Leaf, LineFacts, LockFacts, LockName, LockNumber, Looking,
    OffTime, PairFacts, PathPart, Places, Primitive, ProcessFacts, Reason, Regions, Site, Task, ThreadFacts, TurnFacts,
    Wakings,
};
use crate::names::{Frame, GENERATED, Role};

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

fn convoy() -> Facts {
    let mut facts = quiet(5);
    busy(&mut facts, 100 * MS);
    mutex(&mut facts, 50, MS);
    facts.threads.iter_mut().skip(1).for_each(|thread| thread.voluntary = 25);
    facts.locks[0].run_before_ns = histogram(100, 500 * US);
    facts.locks[0].handover_ns = histogram(100, 125 * US);
    facts
}

#[test]
fn lock_convoy_at_its_thresholds() {
    holds_at_its_thresholds(
        Kind::LockConvoy,
        convoy,
        &[
            ("waits are too few", |facts| facts.locks[0].waits = 49),
            ("waits are too short", |facts| facts.locks[0].wait_ns = histogram(50, 999 * US)),
            ("most switches are for something else", |facts| facts.threads[1].voluntary = 26),
            ("runs are long", |facts| {
                facts.locks[0].run_before_ns = histogram(100, 500 * US + 1);
                facts.locks[0].handover_ns = histogram(100, 150 * US);
            }),
            ("threads do more than pass the lock on", |facts| {
                facts.locks[0].handover_ns = histogram(100, 124 * US);
            }),
            ("sections are long", |facts| facts.locks[0].handover_ns = histogram(100, 500 * US + 1)),
            ("it is a condition variable", |facts| facts.locks[0].primitive = Primitive::Condvar),
        ],
    );
}

#[test]
fn two_threads_make_a_convoy_too() {
    let mut facts = convoy();
    facts.locks[0].handover_ns = Histogram::default();
    facts.locks[0].wait_ns = histogram(100, 500 * US);
    assert_eq!(judge(Kind::LockConvoy, &facts).len(), 1);
    facts.locks[0].wait_ns = histogram(1_000, 124 * US);
    assert!(judge(Kind::LockConvoy, &facts).is_empty(), "the waits are much shorter than the runs");
}

fn hot() -> Facts {
    let mut facts = quiet(5);
    busy(&mut facts, 100 * MS);
    mutex(&mut facts, 20, 2_500 * US);
    facts
}

#[test]
fn waits_for_a_lock_cost_nothing_while_all_cpus_do_the_programs_work() {
    let crowded = |ran_ms: u64| {
        let mut facts = quiet(9);
        facts.header.machine.cpus = 2;
        busy(&mut facts, ran_ms * MS / 8);
        mutex(&mut facts, 160, 5 * MS);
        facts.totals.runnable_ns = vec![0, 0, 0, 0, S, 0];
        all(&facts).into_iter().find(|finding| finding.kind == Kind::HotLock).map(|finding| finding.severity)
    };
    assert_eq!(crowded(1_950), None, "2.5% of the CPUs, and 0.1% for its switches");
    let severity = crowded(1_500).expect("a quarter of the CPUs idles");
    assert!((0.25..0.26).contains(&severity), "{severity}");
}

#[test]
fn hot_lock_at_its_thresholds() {
    holds_at_its_thresholds(
        Kind::HotLock,
        hot,
        &[
            ("waits are too few", |facts| facts.locks[0].waits = 4),
            ("waits are too short", |facts| facts.locks[0].wait_ns = histogram(20, 2_499 * US)),
            ("waits are too short in all", |facts| {
                facts.end_ns = S + 100 * MS;
                facts.threads.iter_mut().for_each(|thread| thread.on_cpu_ns = 0);
                facts.locks[0].wait_ns = histogram(20, 499 * US);
            }),
            ("it is a semaphore", |facts| facts.locks[0].primitive = Primitive::Semaphore),
            ("it is an event that others raise", |facts| {
                facts.locks[0].primitive = Primitive::OtherLock;
                facts.locks[0].holders = vec![Holder { tid: Tid(PID), count: 20, ns: S }];
            }),
            ("work comes by the clock", by_the_clock),
        ],
    );
}

/// Thread 1 waits for the sleeps of the first, and hardly for anything else.
fn by_the_clock(facts: &mut Facts) {
    facts.blame = vec![blamed(1, None, Leaf::Sleep, 0, 800 * MS), blamed(1, None, Leaf::Running, 0, 200 * MS)];
}

#[test]
fn work_comes_by_the_clock_if_waits_mostly_end_as_others_have_slept() {
    let paced = |change: fn(&mut Facts)| {
        let mut facts = quiet(3);
        busy(&mut facts, S);
        by_the_clock(&mut facts);
        change(&mut facts);
        weigh::is_paced(&facts)
    };
    assert!(paced(|_| {}));
    assert!(!paced(|facts| facts.blame[0].ns = 799 * MS), "they wait for work to be done");
    assert!(!paced(|facts| facts.threads[1].on_cpu_ns = S + 1), "more than half of what four CPUs can do");
    assert!(!paced(|facts| facts.blame[0].waiter = Tid(PID)), "its own sleep");
}

#[test]
fn sleeps_of_sqlite_are_waits_for_its_file() {
    let found = |library: &str, sleepers: usize, ms: u64| {
        let mut facts = quiet(4);
        let frame =
            |function: &str, module: &str, role| Frame { module: module.into(), ..Frame::named(function, role) };
        let call_path = vec![
            frame("do_nanosleep", "[kernel]", Role::Kernel),
            frame("clock_nanosleep", "/lib/libc.so.6", Role::Runtime),
            frame("", library, Role::Runtime),
            frame("record_event", "/srv/audit.py", Role::Program),
        ];
        for thread in facts.threads.iter_mut().take(sleepers) {
            thread.off_sites = vec![Site { call_path: call_path.clone(), count: 10, ns: ms * MS }];
        }
        judge(Kind::HotLock, &facts)
    };
    const LIBRARY: &str = "/usr/lib/libsqlite3.so.0.8.6";
    let of_file = found(LIBRARY, 2, 200);
    assert_eq!(of_file[0].subjects, [Subject::Function("record_event".to_owned())]);
    assert!((of_file[0].severity - 0.4 / 1.4).abs() < 1e-9);
    assert!(found(LIBRARY, 1, 400).is_empty(), "one thread alone sleeps for something else");
    assert!(found(LIBRARY, 2, 25).is_empty(), "it is little time");
    assert!(found("/usr/lib/libpq.so.5", 2, 200).is_empty(), "another library");
}

#[test]
fn teams_of_openmp_that_are_more_than_the_cpus_are_too_many() {
    let cure = |module: &str, cpus: u32| {
        let mut facts = switching();
        facts.header.machine.cpus = cpus;
        facts.switch_sites = vec![Site {
            call_path: vec![Frame { module: module.into(), ..Frame::named("", Role::Runtime) }],
            ..Site::default()
        }];
        judge(Kind::ExcessiveSwitching, &facts)[0].cure
    };
    assert_eq!(cure("/usr/lib/libgomp.so.1.0.0", 1), Cure::FewerThreads);
    assert_eq!(cure("/usr/lib/libgomp.so.1.0.0", 9), Cure::CoarserWork, "they have CPUs");
    assert_eq!(cure("/usr/lib/libtbb.so.12", 1), Cure::CoarserWork);
}

#[test]
fn processes_of_postgresql_wait_for_rows() {
    let found = |function: &str| {
        let mut facts = quiet(4);
        let path = ["epoll_wait", "WaitEventSetWait", "WaitLatch", function, "LockAcquireExtended"];
        let call_path: Vec<Frame> = path.iter().map(|name| Frame::named(name, Role::Program)).collect();
        for thread in facts.threads.iter_mut().take(2) {
            thread.off_sites = vec![Site { call_path: call_path.clone(), count: 10, ns: 200 * MS }];
        }
        judge(Kind::HotLock, &facts)
    };
    assert_eq!(found("ProcSleep")[0].cure, Cure::ShortenTransactions);
    assert!(found("WalWriterMain").is_empty(), "it waits for its time");
}

#[test]
fn waits_for_a_lock_beside_the_path_weigh_less() {
    let mut facts = hot();
    facts.threads[0].exited = true;
    facts.locks[0].contended_ns = 400 * MS;
    let severity = |facts: &Facts| judge(Kind::HotLock, facts)[0].severity;
    let alone = severity(&facts);
    let (leaf, thread) = (Leaf::Running, Tid(PID));
    facts.path.parts = vec![PathPart { leaf, thread, site: None, file: None, ns: S }];
    assert!((severity(&facts) - 0.4 * alone).abs() < 1e-9);
    facts.path.locks = vec![(LockNumber(0), 20 * MS)];
    assert_eq!(severity(&facts), alone);
    facts.path.locks = Vec::new();
    facts.locks[0].contended_ns = 500 * MS;
    assert_eq!(severity(&facts), alone);
}

#[test]
fn a_lock_of_ones_own_is_one_if_its_wakers_wait() {
    let mut facts = hot();
    facts.locks[0].primitive = Primitive::OtherLock;
    assert_eq!(judge(Kind::HotLock, &facts).len(), 1);
}

#[test]
fn short_waits_for_a_running_holder_could_be_spun_through() {
    let mut facts = hot();
    facts.locks[0].wait_ns = histogram(5_000, 20 * US);
    facts.locks[0].holder_doing.running_ns = 10;
    assert_eq!(judge(Kind::HotLock, &facts)[0].cure, Cure::SpinThenPark);
    facts.locks[0].wait_ns = histogram(5_000, 25 * US);
    assert_eq!(judge(Kind::HotLock, &facts)[0].cure, Cure::ShortenSplitOrGate);
}

#[test]
fn locks_that_cannot_be_replaced_are_tried_from_outside() {
    let mut facts = hot();
    assert_eq!(judge(Kind::HotLock, &facts)[0].proof.words[1], "--locks");
    facts.locks[0].primitive = Primitive::RustMutex;
    assert_eq!(judge(Kind::HotLock, &facts)[0].proof.words[1], "--cpus");
}

fn sleeper() -> Facts {
    let mut facts = quiet(6);
    busy(&mut facts, 100 * MS);
    mutex(&mut facts, 5, 10 * MS);
    facts.locks[0].holder_doing = HolderDoing {
        running_ns: 40 * MS,
        off: BTreeMap::from([(Reason::Sleep, 30 * MS)]),
        unknown_ns: 5 * MS,
        off_sites: vec![site("write_log")],
    };
    facts
}

#[test]
fn who_always_wins_a_mutex_of_a_runtime_is_its_holder() {
    let mut facts = sleeper();
    let lock = &mut facts.locks[0];
    lock.primitive = Primitive::OtherLock;
    lock.holders = vec![Holder { tid: Tid(PID), count: 5, ns: 50 * MS }];
    assert!(judge(Kind::SleepingHolder, &facts).is_empty(), "it may be an event that one raises for the others");
    let path = ["rb_mutex_lock", "rate"].map(|name| Frame::named(name, Role::Program));
    facts.locks[0].wait_sites = vec![Site { call_path: path.to_vec(), ..site("rate") }];
    assert_eq!(judge(Kind::SleepingHolder, &facts).len(), 1);
}

#[test]
fn sleeping_holder_at_its_thresholds() {
    holds_at_its_thresholds(
        Kind::SleepingHolder,
        sleeper,
        &[
            ("waits are too few", |facts| facts.locks[0].waits = 2),
            ("waits are too short", |facts| facts.locks[0].wait_ns = histogram(5, 9_999 * US)),
            ("waits are too short in all", |facts| {
                facts.end_ns = S + 100 * MS;
                facts.threads.iter_mut().for_each(|thread| thread.on_cpu_ns = 0);
                facts.locks[0].wait_ns = histogram(5, 1_999 * US);
            }),
            ("holders mostly ran", |facts| facts.locks[0].holder_doing.running_ns = 41 * MS),
            ("it is not known what holders did", |facts| facts.locks[0].holder_doing.unknown_ns = 6 * MS),
            ("holders waited for another lock", |facts| {
                facts.locks[0].holder_doing.off = BTreeMap::from([(Reason::Futex(Primitive::Mutex), 30 * MS)]);
            }),
        ],
    );
    let found = &judge(Kind::SleepingHolder, &sleeper())[0];
    assert_eq!(found.cure, Cure::MoveOutOfSection);
    assert_eq!(found.place.as_ref().unwrap().call_path[0].function.as_deref(), Some("write_log"));
    let mut syncs = sleeper();
    syncs.locks[0].holder_doing.off = BTreeMap::from([(Reason::Io, 20 * MS), (Reason::Sleep, 10 * MS)]);
    assert_eq!(judge(Kind::SleepingHolder, &syncs)[0].cure, Cure::MoveIoOutOfSection);
    let mut writes = sleeper();
    writes.locks[0].holder_doing.off_sites = vec![site("anon_pipe_write")];
    assert_eq!(judge(Kind::SleepingHolder, &writes)[0].cure, Cure::FasterReader);
}

#[test]
fn a_lock_whose_holders_read_what_another_program_writes_into_a_pipe_is_not_the_fault() {
    type Change = fn(&mut Facts);
    let found = |change: Change| {
        let mut facts = sleeper();
        facts.threads[0].pid = Pid(PID + 9);
        facts.processes.push(ProcessFacts { pid: Pid(PID + 9), ..facts.processes[0].clone() });
        let doing = &mut facts.locks[0].holder_doing;
        doing.off = BTreeMap::from([(Reason::Peer, 30 * MS), (Reason::Sleep, 10 * MS)]);
        (doing.running_ns, doing.off_sites) = (20 * MS, vec![site("anon_pipe_read")]);
        let wakings = Wakings { a_to_b: 10, b_to_a: 10 };
        facts.pairs = vec![PairFacts { a: Tid(PID), b: Tid(PID + 1), wakings, ..PairFacts::default() }];
        change(&mut facts);
        judge(Kind::SleepingHolder, &facts).len()
    };
    assert_eq!(found(|_| {}), 0);
    let changes: [(&str, Change); 5] = [
        ("it hardly ever sent anything", |facts| facts.pairs[0].wakings.a_to_b = 9),
        ("the program's own thread", |facts| facts.threads[0].pid = Pid(PID)),
        ("a helper of the program", |facts| facts.processes[1].started_by = Some(Pid(PID))),
        ("it does not take what is written", |facts| {
            facts.locks[0].holder_doing.off_sites = vec![site("anon_pipe_write")];
        }),
        ("a device", |facts| {
            facts.locks[0].holder_doing.off = BTreeMap::from([(Reason::Io, 40 * MS)]);
        }),
    ];
    for (why, change) in changes {
        assert_eq!(found(change), 1, "{why}");
    }
}

/// Whoever has the second lock waits for the first, whose holder sleeps.
fn behind() -> Facts {
    let mut facts = sleeper();
    mutex(&mut facts, 50, 10 * MS);
    facts.locks[0].addr = Some(0x6000);
    facts.locks[1].holder_doing.off = BTreeMap::from([(Reason::Futex(Primitive::Mutex), 500 * MS)]);
    facts.blame = vec![Blame { via: Some(LockNumber(0)), ..blamed(1, Some(1), Leaf::Sleep, 5, 500 * MS) }];
    facts
}

#[test]
fn the_lock_that_others_wait_behind_is_the_one_to_look_at() {
    let mut facts = behind();
    assert_eq!(lock_ahead(&facts, LockNumber(1)), Some(LockNumber(0)));
    let found = all(&facts);
    assert_eq!(found.iter().map(|one| one.kind).collect::<Vec<_>>(), [Kind::SleepingHolder]);
    assert_eq!(weigh::number_of(&found[0].subjects[0]), Some(LockNumber(0)));
    let own = judge(Kind::SleepingHolder, &sleeper())[0].severity;
    assert!(found[0].severity > 2.0 * own, "{} of {own}", found[0].severity);
    facts.locks[1].holder_doing.running_ns = 501 * MS;
    assert_eq!(lock_ahead(&facts, LockNumber(1)), None, "it mostly runs");
}

#[test]
fn a_preempted_holder_needs_a_cpu() {
    let mut facts = sleeper();
    facts.locks[0].holder_doing.off = BTreeMap::from([(Reason::Preempted, 25 * MS)]);
    assert!(judge(Kind::SleepingHolder, &facts).is_empty(), "they ran for longer");
    facts.locks[0].holder_doing.running_ns = 20 * MS;
    let mut starved = facts.clone();
    starved.locks[0].holder_doing.off = BTreeMap::from([(Reason::Displaced, 25 * MS)]);
    assert!(judge(Kind::SleepingHolder, &starved).is_empty(), "other programs take the CPUs");
    assert_eq!(judge(Kind::SleepingHolder, &facts)[0].cure, Cure::FewerThreads);
    for kind in [Kind::SleepingHolder, Kind::HotLock] {
        let found = &judge(kind, &facts)[0];
        assert_eq!(found.severity * 2.0, weigh::value(found, "wait_share"), "half of it its CPU did other work");
    }
    facts.header.look_period_ns = MS;
    assert!(judge(Kind::SleepingHolder, &facts).is_empty(), "who wants a CPU may not have the lock yet");
}

#[test]
fn by_looks_the_kernels_counts_tell_of_a_convoy() {
    let counted = |voluntary, contended_ns| {
        let mut facts = hot();
        facts.header.look_period_ns = MS;
        facts.locks[0].contended_ns = contended_ns;
        facts.threads.iter_mut().skip(1).for_each(|thread| thread.voluntary = voluntary);
        facts
    };
    assert_eq!(judge(Kind::LockConvoy, &hot()).len(), 0);
    let convoy = counted(2_000, 400 * MS);
    let found = judge(Kind::LockConvoy, &convoy);
    assert_eq!(found.len(), 1);
    assert_eq!((weigh::value(&found[0], "waits_per_s"), weigh::value(&found[0], "run_ns_median")), (8_000.0, 50_000.0));
    assert!(judge(Kind::LockConvoy, &counted(190, 400 * MS)).is_empty(), "runs are long");
    assert!(judge(Kind::LockConvoy, &counted(2_000, 4_100 * MS)).is_empty(), "holders keep it for long");
    let mut others = convoy.clone();
    (1..5).for_each(|index| off(&mut others, index, Reason::Sleep, 1, S));
    assert!(judge(Kind::LockConvoy, &others).is_empty(), "they mostly wait for something else");
}

#[test]
fn one_look_at_waiting_threads_makes_no_hot_lock() {
    let seen = |readings| {
        let mut facts = hot();
        (facts.header.look_period_ns, facts.locks[0].words) = (MS, Some((readings, readings, 0)));
        judge(Kind::HotLock, &facts).len()
    };
    assert_eq!((seen(4), seen(5)), (0, 1));
}

#[test]
fn by_looks_what_is_known_of_some_holders_is_believed_of_all() {
    let asleep = |known_ns, is_sampled| {
        let mut facts = hot();
        facts.header.look_period_ns = if is_sampled { MS } else { 0 };
        let doing = &mut facts.locks[0].holder_doing;
        (doing.off, doing.unknown_ns) = (BTreeMap::from([(Reason::Sleep, known_ns)]), 50 * MS - known_ns);
        judge(Kind::SleepingHolder, &facts).len()
    };
    assert_eq!((asleep(12 * MS, true), asleep(12 * MS, false)), (1, 0));
    assert_eq!(asleep(9 * MS, true), 0, "too little is known");
}

#[test]
fn by_looks_the_kernels_counts_tell_of_yields() {
    let counted = |voluntary, involuntary| {
        let mut facts = quiet(3);
        busy(&mut facts, 250 * MS);
        facts.header.look_period_ns = MS;
        let threads = facts.threads.iter_mut().skip(1);
        threads.for_each(|thread| (thread.voluntary, thread.involuntary) = (voluntary, involuntary));
        judge(Kind::YieldStorm, &facts).len()
    };
    assert_eq!(counted(0, 5_000), 1);
    assert_eq!(counted(1_300, 5_000), 0, "woken threads may have taken the CPU");
    assert_eq!(counted(0, 2_400), 0, "other programs may have");
}

#[test]
fn the_thread_that_watches_over_a_program_in_go_works_for_nobody() {
    let thread = |function, share: u64| {
        let mut thread = ThreadFacts { off_sites: vec![site(function)], ended_ns: 10, ..ThreadFacts::default() };
        thread.account.ns[AccountState::Sleep as usize] = share;
        thread.account.ns[AccountState::Work as usize] = 10 - share;
        runtime::watches_go(&thread)
    };
    assert!(thread("runtime.usleep", 9));
    assert!(!thread("runtime.usleep", 4), "it sleeps now and then");
    assert!(!thread("main.fetch", 9));
}

fn switching() -> Facts {
    let mut facts = quiet(3);
    busy(&mut facts, 200 * MS);
    off(&mut facts, 1, Reason::Futex(Primitive::Semaphore), 1_000, 700 * MS);
    off(&mut facts, 2, Reason::Preempted, 1_000, 700 * MS);
    facts.totals.switches = 2_000;
    facts.totals.run_ns = histogram(2_000, 200 * US);
    facts
}

/// A goroutine hands over tiny things.
fn handing_over() -> Facts {
    let mut facts = quiet(2);
    busy(&mut facts, 400 * MS);
    facts.totals.user_samples = 200;
    facts.symbols = vec![below("runtime.chansend", 60), below("runtime.park_m", 40), below("runtime.mallocgc", 100)];
    let mut through = site("main.deliver");
    through.call_path.insert(0, Frame::named("runtime.chansend", Role::Runtime));
    facts.threads[1].hot_sites = vec![site("main.parse"), through];
    facts
}

#[test]
fn a_bound_takes_in_all_that_may_go_with_the_cause() {
    let left = |facts: &Facts| {
        let found = all(facts);
        let switching = found.iter().find(|finding| finding.kind == Kind::ExcessiveSwitching).unwrap();
        switching.bound.map(|bound| 1.0 / bound / (1.0 - UNSEEN))
    };
    let near = |value: Option<f64>, expected: f64| value.is_some_and(|value| (value - expected).abs() < 1e-9);
    let mut facts = handing_over();
    facts.symbols[0].hits = 90;
    facts.symbols.extend([code("main.parse", Role::Program, 30), code("memcpy", Role::Runtime, 10)]);
    facts.symbols.extend([code("malloc", Role::Runtime, 20), code("__schedule", Role::Scheduler, 50)]);
    let at_least = |part: f64, samples: f64| part - 2.0 * (part * (1.0 - part) / samples).sqrt();
    assert!(near(left(&facts), at_least(0.2, 200.0)), "40 of 200 samples are work");
    facts.symbols[3].hits = 130;
    assert!(near(left(&facts), 0.5), "no less than what the cause costs");
    facts.symbols.retain(|code| code.frame.role != Role::Program);
    assert_eq!(left(&facts), None, "hardly anything is left");
}

#[test]
fn what_waits_for_a_lock_cost_bounds_the_gain_too() {
    let mut facts = hot();
    let left = |facts: &Facts| {
        let found = all(facts);
        let lock = found.iter().find(|finding| finding.kind == Kind::HotLock).unwrap();
        1.0 / lock.bound.unwrap() / (1.0 - lock.severity) / (1.0 - UNSEEN)
    };
    let near = |value: f64, expected: f64| (value - expected).abs() < 1e-9;
    assert!(near(left(&facts), 1.0), "no samples: only the time goes");
    facts.totals.user_samples = 400;
    facts.symbols = vec![code("price", Role::Program, 400)];
    assert!(near(left(&facts), 1.0), "all is work");
    facts.symbols = vec![code("price", Role::Program, 200), code("pthread_mutex_lock", Role::Lock, 200)];
    assert!(near(left(&facts), 0.45), "at least 45% is work");
}

#[test]
fn a_bound_is_what_its_kind_knows_to_go_with_it() {
    let found = |facts: &Facts, kind| all(facts).into_iter().find(|one| one.kind == kind).unwrap();
    let near = |value: f64, expected: f64| (value - expected).abs() < 1e-9;
    let beyond_severity = |facts: &Facts, kind| {
        let found = found(facts, kind);
        found.bound.unwrap_or(f64::INFINITY) * (1.0 - found.severity) * (1.0 - UNSEEN)
    };
    assert!(beyond_severity(&polling(), Kind::Polling) > 1.01, "all sleeps may go");
    assert!(beyond_severity(&alone(), Kind::SerialPhase) > 1.01, "all that one does alone may");
    assert_eq!(found(&queued_tasks(), Kind::SmallPool).bound, None, "nobody sees how many tasks wait");
    assert!(near(beyond_severity(&sleeper(), Kind::SleepingHolder), 1.0), "the holder sleeps");
    let mut writes = sleeper();
    off(&mut writes, 0, Reason::Io, 1, 100 * MS);
    assert!(beyond_severity(&writes, Kind::SleepingHolder) > 1.05, "what it writes may go, too");
    let mut facts = faulting();
    let code = |function, hits| Code { frame: Frame::named(function, Role::Program), hits, inclusive: hits };
    facts.symbols.extend([code("fill", 50), code("draw", 150)]);
    let apart = beyond_severity(&facts, Kind::PageFaults);
    facts.kernel_sites = vec![site("other")];
    assert!(apart > beyond_severity(&facts, Kind::PageFaults), "most of what faults may go as well");
}

#[test]
fn goroutines_that_hand_over_little_at_their_thresholds() {
    holds_at_its_thresholds(
        Kind::ExcessiveSwitching,
        handing_over,
        &[
            ("they mostly work", |facts| facts.symbols[0].inclusive = 59),
            ("they are mostly idle", |facts| busy(facts, 399 * MS)),
            ("samples are few", |facts| {
                facts.totals.user_samples = 198;
                facts.symbols[0].inclusive = 59;
            }),
        ],
    );
    let found = &judge(Kind::ExcessiveSwitching, &handing_over())[0];
    assert_eq!((found.severity, &found.subjects[..]), (0.5, &[Subject::Function("main.deliver".into())][..]));
}

/// A goroutine looks into an empty channel.
fn looking() -> Facts {
    let mut facts = handing_over();
    facts.totals.user_samples = 1_000;
    facts.symbols = vec![below("runtime.selectgo", 350), below("runtime.park_m", 17), below("runtime.typedmemmove", 1)];
    facts
}

#[test]
fn goroutines_that_look_in_vain_at_their_thresholds() {
    let cases: &[Change] = &[
        ("they look now and then", |facts| facts.symbols[0].inclusive = 349),
        ("the scheduler has something to do", |facts| facts.symbols[1].inclusive = 18),
        ("something moves", |facts| facts.symbols[2].inclusive = 2),
        ("samples are few", |facts| {
            facts.totals.user_samples = 99;
            facts.symbols[0].inclusive = 99;
            facts.symbols[1].inclusive = 0;
            facts.symbols[2].inclusive = 0;
        }),
        ("it is a twentieth of a CPU", |facts| facts.end_ns = 9 * S),
    ];
    holds_at_its_thresholds(Kind::SpinWaste, looking, cases);
    let found = &judge(Kind::SpinWaste, &looking())[0];
    assert_eq!(found.subjects, [Subject::Function("main.deliver".into())]);
    let mut mostly = looking();
    mostly.symbols[0].inclusive = 900;
    let kinds = |facts: &Facts| judge(Kind::ExcessiveSwitching, facts).len() + judge(Kind::SpinWaste, facts).len() * 10;
    assert_eq!(kinds(&mostly), 10, "nothing is handed over");
    assert_eq!(kinds(&handing_over()), 1);
}

/// A goroutine calls `runtime.Gosched` in a loop; half of the time it is not its turn.
fn yielding_goroutine() -> Facts {
    let mut facts = handing_over();
    facts.totals.user_samples = 1_000;
    facts.symbols = vec![below("runtime.gosched_m", 100), below("runtime.goschedImpl", 100)];
    let group = |state, function, mean| GoroutineGroup { state, site: site(function), mean, looking: None };
    let doing = vec![
        group(GoroutineState::Sleep, "main.main", 2.0),
        group(GoroutineState::Runnable, "main.take", 0.5),
        group(GoroutineState::Runnable, "main.work", 0.1),
    ];
    facts.goroutines = vec![GoroutineFacts { doing, ..GoroutineFacts::default() }];
    facts
}

#[test]
fn goroutines_that_yield_at_their_thresholds() {
    holds_at_its_thresholds(
        Kind::YieldStorm,
        yielding_goroutine,
        &[
            ("they mostly work", |facts| facts.symbols[0].inclusive = 99),
            ("it is the end of time slices", |facts| facts.symbols.truncate(0)),
        ],
    );
    let place = |facts: &Facts| judge(Kind::YieldStorm, facts).remove(0).subjects;
    assert_eq!(place(&yielding_goroutine()), [Subject::Function("main.take".into())]);
    let mut unseen = yielding_goroutine();
    unseen.goroutines.clear();
    assert_eq!(place(&unseen), [Subject::Function("main.deliver".into())]);
}

#[test]
fn more_threads_than_cpus_at_barriers_are_too_many() {
    let found_in = |mut facts: Facts, waits: u64, cpus, primitive| {
        facts.header.machine.cpus = cpus;
        let waiter = |index| (Tid(PID + index), OffTime { count: waits / 3, ns: MS });
        let waiters = (0..3).map(waiter).collect();
        let barrier = LockFacts { pid: Pid(PID), primitive, waiters, ..LockFacts::default() };
        facts.locks = vec![LockFacts { waits: waits - 400, ..barrier.clone() }, LockFacts { waits: 400, ..barrier }];
        !judge(Kind::Oversubscription, &facts).is_empty()
    };
    let found = |waits, cpus, primitive| found_in(switching(), waits, cpus, primitive);
    assert!(
        !found_in(handing_over(), 1_000, 2, Primitive::Barrier),
        "goroutines are switched by no barrier of threads"
    );
    assert!(found(1_000, 2, Primitive::Barrier));
    for (waits, cpus, primitive) in
        [(999, 2, Primitive::Barrier), (1_000, 3, Primitive::Barrier), (1_000, 2, Primitive::Condvar)]
    {
        assert!(!found(waits, cpus, primitive), "{waits} {cpus} {primitive:?}");
    }
}

#[test]
fn threads_that_switch_in_gos_scheduler_do_so_for_what_goroutines_hand_over() {
    let mut facts = switching();
    facts.switch_sites =
        vec![Site { call_path: vec![Frame::named("runtime.futex", Role::Runtime)], ..Site::default() }];
    let place = |facts: &Facts| {
        let found = judge(Kind::ExcessiveSwitching, facts).remove(0);
        found.place.as_ref().and_then(Site::caller).and_then(|frame| frame.function.clone()).unwrap_or_default()
    };
    assert_eq!(&*place(&facts), "runtime.futex");
    let group = |state, function, mean| GoroutineGroup { state, site: site(function), mean, looking: None };
    let doing = vec![group(GoroutineState::Receive, "main.take", 2.0), group(GoroutineState::Send, "main.put", 1.0)];
    facts.goroutines = vec![GoroutineFacts { doing, ..GoroutineFacts::default() }];
    assert_eq!(&*place(&facts), "main.put");
}

#[test]
fn excessive_switching_at_its_thresholds() {
    holds_at_its_thresholds(
        Kind::ExcessiveSwitching,
        switching,
        &[
            ("runs are long", |facts| busy(facts, 201 * MS)),
            ("work comes by the clock", by_the_clock),
            ("switches are too few a second", |facts| {
                off(facts, 1, Reason::Yielded, 0, 0);
                off(facts, 2, Reason::Preempted, 999, 0);
                busy(facts, 100 * MS);
            }),
            ("threads wait for descriptors", |facts| {
                facts.threads[2].off.clear();
                off(facts, 2, Reason::Poll, 1_000, 0);
            }),
            ("threads wait for devices", |facts| {
                facts.threads[2].off.clear();
                off(facts, 2, Reason::Io, 1_000, 0);
            }),
            ("there is hardly any work", |facts| busy(facts, 9 * MS)),
            ("switches are too few in all", |facts| {
                facts.end_ns = S + 100 * MS;
                busy(facts, 20 * MS);
                off(facts, 1, Reason::Futex(Primitive::Semaphore), 499, 0);
                off(facts, 2, Reason::Preempted, 500, 0);
            }),
        ],
    );
    let found = &judge(Kind::ExcessiveSwitching, &switching())[0];
    assert_eq!(weigh::value(found, "times_the_ideal"), 500.0);
    assert_eq!(weigh::value(found, "run_ns_mean"), 200e3);
}

fn pair() -> Facts {
    let mut facts = quiet(3);
    busy(&mut facts, 500 * MS);
    for thread in facts.threads.iter_mut().skip(1) {
        thread.voluntary = 2_000;
        thread.run_ns = histogram(4_000, 100 * US);
    }
    facts.pairs = vec![PairFacts {
        a: Tid(PID + 1),
        b: Tid(PID + 2),
        wakings: Wakings { a_to_b: 1_000, b_to_a: 1_000 },
        round_trips: 1_000,
        run_ns: histogram(2_000, 50 * US),
        sites: vec![site("send")],
        from_ns: S,
        to_ns: 2 * S,
    }];
    facts
}

#[test]
fn ping_pong_at_its_thresholds() {
    holds_at_its_thresholds(
        Kind::PingPong,
        pair,
        &[
            ("round trips are too few a second", |facts| facts.pairs[0].round_trips = 999),
            ("round trips are too few in all", |facts| {
                facts.pairs[0].wakings = Wakings { a_to_b: 199, b_to_a: 199 };
                facts.pairs[0].round_trips = 199;
                facts.pairs[0].to_ns = S + 20 * MS;
                facts.threads.iter_mut().for_each(|thread| thread.voluntary = 199);
            }),
            ("it does not last", |facts| facts.pairs[0].to_ns = S + 19 * MS),
            ("runs are long", |facts| facts.threads[1].run_ns = histogram(4_000, 100 * US + 1)),
            ("the threads mostly wait for others", |facts| facts.threads[1].voluntary = 2_001),
            ("one of them is Java's own", |facts| facts.threads[2].name = "C2 CompilerThre".to_owned()),
            ("one of them sets the pace", |facts| {
                off(facts, 1, Reason::Sleep, 500, 200 * MS);
                facts.pairs[0].wakings.b_to_a = 49;
            }),
            ("one of them sleeps with what it is asked", |facts| off(facts, 2, Reason::Sleep, 9, 400 * MS)),
        ],
    );
}

/// Two threads that do all the work, one at a time, 400 us each.
fn turns() -> Facts {
    let mut facts = pair();
    facts.threads[1].on_cpu_ns = 600 * MS;
    facts.threads[2].on_cpu_ns = 150 * MS;
    facts.threads[0].on_cpu_ns = 83 * MS;
    facts.totals.runnable_ns = vec![100 * MS, 750 * MS, 150 * MS, 0, 0, 0];
    for thread in facts.threads.iter_mut().skip(1) {
        (thread.voluntary, thread.run_ns) = (125, histogram(125, 400 * US));
    }
    facts.pairs[0].round_trips = 100;
    facts
}

#[test]
fn two_that_take_turns_with_long_runs_at_the_thresholds() {
    holds_at_its_thresholds(
        Kind::PingPong,
        turns,
        &[
            ("turns are too few", |facts| facts.pairs[0].round_trips = 99),
            ("they mostly wait for others", |facts| facts.threads[1].voluntary = 126),
            ("a third works too", |facts| facts.threads[0].on_cpu_ns = 84 * MS),
            ("one of them does little", |facts| facts.threads[2].on_cpu_ns = 149 * MS),
            ("nobody works for long", |facts| facts.totals.runnable_ns[1] = 749 * MS),
            ("both work at once", |facts| facts.totals.runnable_ns[2] = 151 * MS),
        ],
    );
    let found = judge(Kind::PingPong, &turns());
    assert_eq!((found[0].cure, found[0].costs_cpu_time()), (Cure::LetOverlap, false));
    assert!((found[0].severity - 0.15).abs() < 1e-9, "a fifth of three quarters");
    // On one CPU, who was waked wants it while the other has it.
    let mut queued = turns();
    queued.totals.runnable_ns = vec![100 * MS, 460 * MS, 440 * MS, 0, 0, 0];
    assert!(judge(Kind::PingPong, &queued).is_empty(), "both work at once");
    for thread in &mut queued.threads[1..] {
        thread.account.ns[AccountState::CpuOwn as usize] = 150 * MS;
    }
    assert_eq!(judge(Kind::PingPong, &queued).len(), 1);
}

#[test]
fn a_few_long_stays_between_turns_cost_nothing() {
    let severity = |on_cpu_ns| {
        let mut facts = pair();
        facts.threads[1].on_cpu_ns = on_cpu_ns;
        facts.totals.on_cpu_ns = facts.threads.iter().map(|thread| thread.on_cpu_ns).sum();
        judge(Kind::PingPong, &facts)[0].severity
    };
    assert!(severity(900 * MS) < severity(100 * MS) / 2.0, "as many stays in both");
}

#[test]
fn where_wakes_are_not_seen_two_threads_that_wait_equally_often_take_turns() {
    let in_step = || {
        let mut facts = pair();
        (facts.header.look_period_ns, facts.pairs) = (MS, Vec::new());
        for (thread, count) in facts.threads.iter_mut().skip(1).zip([4_000, 4_100]) {
            let waits = crate::facts::OffTime { count, ns: 500 * MS };
            thread.off = BTreeMap::from([(Reason::Peer, waits)]);
            (thread.voluntary, thread.run_ns) = (count, Histogram::alike(50 * US, count));
        }
        facts
    };
    let found = judge(Kind::PingPong, &in_step());
    assert_eq!((found.len(), found.first().map(|found| found.subjects.len())), (1, Some(2)));
    let mut apart = in_step();
    apart.threads[1].voluntary = 4_500;
    assert!(judge(Kind::PingPong, &apart).is_empty(), "not equally often");
    let mut third = in_step();
    third.threads.push(third.threads[1].clone());
    assert!(judge(Kind::PingPong, &third).is_empty(), "which two is not known");
}

#[test]
fn pairs_are_told_as_one() {
    let mut facts = pair();
    let mut second = facts.pairs[0].clone();
    second.round_trips = 1_500;
    facts.pairs.push(second);
    let found = judge(Kind::PingPong, &facts);
    assert_eq!(found.len(), 1);
    assert_eq!(weigh::value(&found[0], "pairs"), 2.0);
    assert_eq!(weigh::value(&found[0], "round_trips"), 1_500.0);
}

/// Four threads on three CPUs, of which they get half.
fn crowd() -> Facts {
    let mut facts = quiet(5);
    facts.header.machine.cpus = 3;
    busy(&mut facts, 375 * MS);
    (1..5).for_each(|index| off(&mut facts, index, Reason::Preempted, 5, 125 * MS));
    facts.totals.runnable_ns = vec![0, 0, 0, S - S / 4, S / 4, 0];
    spin_for(&mut facts, 134);
    facts
}

/// A tenth of all CPU samples are spent spinning, of so many hundredths.
fn spin_for(facts: &mut Facts, hits: u64) {
    facts.totals.user_samples = 1_000;
    facts.hotspots = vec![spot(HotspotClass::Pause, "wait_turn", hits, hits)];
}

#[test]
fn oversubscription_at_its_thresholds() {
    holds_at_its_thresholds(
        Kind::Oversubscription,
        crowd,
        &[
            ("there are CPUs enough most of the time", |facts| {
                facts.totals.runnable_ns = vec![0, 0, 0, S, S / 4 - 1, 0];
            }),
            ("the machine has more CPUs", |facts| {
                facts.header.machine.cpus = 4;
                facts.totals.runnable_ns = vec![0, 0, 0, 0, 0, S];
            }),
            ("the machine is not known", |facts| facts.header.machine.cpus = 0),
            ("one thread mostly sleeps", |facts| {
                facts.threads[4].on_cpu_ns = 374 * MS;
                facts.threads[0].on_cpu_ns = 10 * MS;
            }),
            ("one thread lives but shortly", |facts| {
                facts.threads[4].born_ns = 2 * S - 199 * MS;
            }),
            ("threads hardly wait for a CPU", |facts| busy(facts, 376 * MS)),
            ("they are hardly ever preempted", |facts| off(facts, 1, Reason::Preempted, 4, 125 * MS)),
            ("other programs take the CPUs", |facts| {
                facts.threads[4].off.clear();
                off(facts, 4, Reason::Displaced, 5, 125 * MS);
            }),
            ("taking turns costs nothing", |facts| facts.hotspots.clear()),
            ("taking turns costs little", |facts| spin_for(facts, 133)),
            ("each is a process", |facts| {
                (1..5).for_each(|index| facts.threads[index].pid = Pid(200 + index as u32));
            }),
        ],
    );
}

#[test]
fn who_only_spins_is_too_many_beside_those_who_work() {
    let judged = |spinning: usize, working: usize| {
        let mut facts = crowd();
        facts.threads[1..=spinning].iter_mut().for_each(|thread| thread.spun_ns = thread.on_cpu_ns / 2);
        let others = &mut facts.threads[spinning + 1..];
        others.iter_mut().skip(working).for_each(|thread| thread.spun_ns = thread.on_cpu_ns / 5);
        judge(Kind::Oversubscription, &facts).len()
    };
    assert_eq!(judged(2, 2), 0);
    assert_eq!(judged(2, 1), 1, "most spin: as many as there are CPUs would not");
    assert_eq!(judged(0, 4), 1);
}

#[test]
fn gates_are_tried_where_they_can_be_put_before_the_locks() {
    let tried = |primitive| {
        let mut facts = crowd();
        facts.locks = vec![LockFacts { primitive, ..LockFacts::default() }];
        judge(Kind::Oversubscription, &facts).remove(0).proof.words.join(" ")
    };
    assert_eq!(tried(Primitive::Mutex), "try --slices default,20ms --gates 1,2");
    assert_eq!(tried(Primitive::RustMutex), "try --slices default,20ms --cpus all,1");
}

#[test]
fn too_many_threads_are_too_many_on_a_busy_machine_too() {
    let mut facts = quiet(5);
    facts.header.machine.cpus = 3;
    busy(&mut facts, 100 * MS);
    (1..5).for_each(|index| {
        off(&mut facts, index, Reason::Preempted, 5, 100 * MS);
        off(&mut facts, index, Reason::Displaced, 5, 700 * MS);
    });
    facts.totals.runnable_ns = vec![0, 0, 0, 0, S, 0];
    spin_for(&mut facts, 300);
    assert_eq!(judge(Kind::Oversubscription, &facts).len(), 1);
    (1..5).for_each(|index| off(&mut facts, index, Reason::Displaced, 5, 500 * MS));
    assert!(judge(Kind::Oversubscription, &facts).is_empty(), "they mostly wait for something else");
}

#[test]
fn holders_that_wait_for_a_cpu_cost_what_cpus_idle() {
    let found = |ran_ms: u64| {
        let mut facts = crowd();
        facts.hotspots.clear();
        (facts.totals.user_samples, facts.header.machine.cpus) = (0, 3);
        busy(&mut facts, ran_ms * MS / 4);
        (1..5).for_each(|index| off(&mut facts, index, Reason::Preempted, 100, 400 * MS));
        mutex(&mut facts, 400, 3 * MS);
        facts.locks[0].holder_doing.off.insert(Reason::Preempted, 1_200 * MS);
        facts.totals.runnable_ns = vec![0, 0, 0, 0, S, 0];
        judge(Kind::Oversubscription, &facts).len()
    };
    assert_eq!([found(2_500), found(2_900)], [1, 0]);
}

fn herd() -> Facts {
    let mut facts = quiet(4);
    busy(&mut facts, 100 * MS);
    facts.locks.push(LockFacts {
        pid: Pid(PID),
        primitive: Primitive::Condvar,
        wake_sites: vec![site("publish")],
        herds: Herds { calls: 2_000, woken: 5_000, back_to_sleep: 2_500 },
        ..LockFacts::default()
    });
    facts
}

#[test]
fn thundering_herd_at_its_thresholds() {
    holds_at_its_thresholds(
        Kind::ThunderingHerd,
        herd,
        &[
            ("calls are too few", |facts| {
                facts.locks[0].herds = Herds { calls: 19, woken: 4_000, back_to_sleep: 4_000 };
            }),
            ("they are too few a second", |facts| {
                facts.locks[0].herds = Herds { calls: 100, woken: 499, back_to_sleep: 499 };
            }),
            ("few are woken at once", |facts| facts.locks[0].herds.calls = 2_001),
            ("most of the woken work", |facts| facts.locks[0].herds.back_to_sleep = 2_499),
            ("it is a barrier", |facts| facts.locks[0].primitive = Primitive::Barrier),
        ],
    );
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

fn spinning() -> Facts {
    let mut facts = quiet(3);
    busy(&mut facts, 250 * MS);
    facts.totals.user_samples = 500;
    facts.symbols = vec![code("pthread_spin_lock", Role::Lock, 50)];
    facts
}

#[test]
fn spin_waste_at_its_thresholds() {
    holds_at_its_thresholds(
        Kind::SpinWaste,
        spinning,
        &[
            ("samples are too few", |facts| facts.symbols[0].hits = 49),
            ("it is a small part", |facts| facts.totals.user_samples = 501),
            ("it is little time", |facts| facts.header.sample_period_ns = MS - 1),
            ("the function does not spin", |facts| facts.symbols[0].frame = Frame::named("compute", Role::Program)),
            ("other programs have a CPU that another thread wants", |facts| facts.spun_beside_displaced = 1),
        ],
    );
    let crowded = |own_ms| {
        let mut facts = spinning();
        facts.spun_beside_displaced = 40;
        off(&mut facts, 0, Reason::Preempted, 1, own_ms * MS);
        off(&mut facts, 1, Reason::Displaced, 1, 10 * MS);
        judge(Kind::SpinWaste, &facts).len()
    };
    assert_eq!(crowded(41), 1, "who spins has the CPU that the other wants");
    assert_eq!(crowded(40), 0);
}

#[test]
fn all_of_a_loop_around_a_pause_spins() {
    let mut facts = spinning();
    facts.symbols.clear();
    facts.hotspots = vec![spot(HotspotClass::Pause, "my_lock", 50, 200)];
    assert_eq!(weigh::value(&judge(Kind::SpinWaste, &facts)[0], "spin_samples"), 200.0);
    facts.hotspots = vec![spot(HotspotClass::Pause, "my_lock", 50, 201)];
    assert_eq!(weigh::value(&judge(Kind::SpinWaste, &facts)[0], "spin_samples"), 50.0);
}

#[test]
fn pauses_of_an_unrolled_loop_add_up() {
    let mut facts = spinning();
    facts.symbols.clear();
    let pause = || spot(HotspotClass::Pause, "_mm_pause", 30, 30);
    facts.hotspots = vec![pause(), pause()];
    assert_eq!(weigh::value(&judge(Kind::SpinWaste, &facts)[0], "spin_samples"), 60.0);
}

#[test]
fn a_known_spinner_is_counted_once() {
    let mut facts = spinning();
    facts.hotspots = vec![spot(HotspotClass::Pause, "pthread_spin_lock", 40, 50)];
    assert_eq!(weigh::value(&judge(Kind::SpinWaste, &facts)[0], "spin_samples"), 50.0);
}

#[test]
fn what_spins_is_called_by_the_function_and_not_by_what_was_inlined_there() {
    let mut facts = spinning();
    facts.symbols.clear();
    let mut pause = spot(HotspotClass::Pause, "core::core_arch::x86::sse2::_mm_pause", 50, 50);
    let path = ["core::core_arch::x86::sse2::_mm_pause", "core::hint::spin_loop", "tax_service"];
    let call_path = path.map(|function| Frame::named(function, Role::Program)).to_vec();
    pause.sites = vec![Site { call_path, count: 50, ns: 0 }];
    facts.hotspots = vec![pause];
    let found = judge(Kind::SpinWaste, &facts);
    assert_eq!(found[0].subjects, [Subject::Function("tax_service".to_owned())]);
}

#[test]
fn threads_of_openmp_that_spin_need_an_even_share_and_no_lock() {
    const OPENMP: &str = "/usr/lib/x86_64-linux-gnu/libgomp.so.1.0.0";
    let facts_of = |module: &str| {
        let mut facts = spinning();
        facts.symbols.clear();
        let mut pause = spot(HotspotClass::Pause, "wait", 50, 50);
        let frame = Frame { module: module.into(), ..Frame::named("wait", Role::Runtime) };
        pause.frame = frame.clone();
        pause.sites = vec![Site { call_path: vec![frame, Frame::named("solve", Role::Program)], count: 50, ns: 0 }];
        facts.hotspots = vec![pause];
        facts
    };
    let found = |module| judge(Kind::SpinWaste, &facts_of(module)).remove(0);
    let of_openmp = found(OPENMP);
    assert_eq!(of_openmp.cure, Cure::Rebalance);
    assert!(of_openmp.proof.words.join(" ").contains("OMP_WAIT_POLICY"));
    let crowded = |enough| {
        let mut facts = facts_of(OPENMP);
        let quarter = weigh::cpu_ns(&facts) / 4;
        let own_ns = if enough { quarter } else { quarter - 1 };
        off(&mut facts, 0, Reason::Preempted, 1, own_ns);
        judge(Kind::SpinWaste, &facts).remove(0).cure
    };
    assert_eq!(crowded(true), Cure::SleepAtBarriers, "they want the CPUs of those that spin");
    assert_eq!(crowded(false), Cure::Rebalance);
    assert_eq!(found("/usr/bin/solver").cure, Cure::ParkInsteadOfSpin);
}

#[test]
fn of_a_loop_that_reads_again_its_own_samples_spin() {
    let mut facts = spinning();
    facts.symbols.clear();
    facts.hotspots = vec![spot(HotspotClass::Reread, "await_tick", 50, 100)];
    assert_eq!(weigh::value(&judge(Kind::SpinWaste, &facts)[0], "spin_samples"), 50.0);
}

#[test]
fn workers_of_rayon_that_look_for_tasks_are_no_storm() {
    let idle = |count| Site { count, ..site("rayon_core::sleep::Sleep::no_work_found") };
    let mut facts = yielding();
    facts.yield_sites.push(idle(7_999));
    assert_eq!(judge(Kind::YieldStorm, &facts).len(), 1);
    facts.yield_sites[1] = idle(8_000);
    assert!(judge(Kind::YieldStorm, &facts).is_empty());
}

fn yielding() -> Facts {
    let mut facts = quiet(3);
    busy(&mut facts, 20 * MS);
    facts.yield_sites = vec![Site { count: 2_000, ..site("spin") }];
    facts
}

#[test]
fn storms_of_yields_at_their_thresholds() {
    holds_at_its_thresholds(
        Kind::YieldStorm,
        yielding,
        &[
            ("yields are too few", |facts| facts.yield_sites[0].count = 1_999),
            ("yields are too few for so much work", |facts| busy(facts, 21 * MS)),
            ("yields are rare", |facts| facts.end_ns = 2 * S + MS),
        ],
    );
}

fn atomic() -> Facts {
    let mut facts = quiet(3);
    busy(&mut facts, 200 * MS);
    facts.totals.user_samples = 400;
    facts.hotspots = vec![spot(HotspotClass::Atomic, "count", 60, 100)];
    facts
}

#[test]
fn hot_atomic_at_its_thresholds() {
    holds_at_its_thresholds(
        Kind::HotAtomic,
        atomic,
        &[
            ("samples are too few", |facts| {
                facts.totals.user_samples = 100;
                facts.hotspots = vec![spot(HotspotClass::Atomic, "count", 49, 49)];
            }),
            ("the function mostly does something else", |facts| facts.hotspots[0].function_hits = 101),
            ("the program mostly does something else", |facts| facts.totals.user_samples = 401),
            ("one thread does it", |facts| facts.hotspots[0].threads = vec![(Tid(101), 55), (Tid(102), 5)]),
            ("it is a pause", |facts| facts.hotspots[0].class = HotspotClass::Pause),
        ],
    );
}

/// Two threads take a library's lock so often that its word travels all the time, and nobody sleeps.
fn passed_lock() -> Facts {
    let mut facts = atomic();
    let called = |function: &str, hits| {
        let lock = Frame::named(function, Role::Runtime);
        let call_path = vec![lock.clone(), Frame::named("tally", Role::Program)];
        let sites = vec![Site { call_path, count: hits, ns: 0 }];
        Hotspot { frame: lock, sites, ..spot(HotspotClass::Atomic, function, hits, hits) }
    };
    facts.hotspots = vec![called("GOMP_critical_start", 40), called("GOMP_critical_end", 20)];
    facts
}

#[test]
fn a_lock_that_is_passed_on_without_sleep_at_its_thresholds() {
    let found = judge(Kind::HotLock, &passed_lock());
    assert_eq!(found[0].subjects, [Subject::Function("GOMP_critical_start".to_owned())]);
    assert_eq!(weigh::value(&found[0], "samples"), 60.0);
    holds_at_its_thresholds(
        Kind::HotLock,
        passed_lock,
        &[
            ("the program mostly does something else", |facts| facts.totals.user_samples = 401),
            ("it is no lock's function", |facts| facts.hotspots[1].frame = Frame::named("GOMP_single", Role::Runtime)),
            ("it is taken in another function", |facts| {
                facts.hotspots[1].sites[0].call_path[1] = Frame::named("other", Role::Program);
            }),
        ],
    );
}

/// Two threads fight over a line with plain instructions.
fn fought_over() -> Facts {
    let mut facts = quiet(3);
    busy(&mut facts, 200 * MS);
    facts.totals.user_samples = 500;
    facts.lines = vec![LineFacts {
        variable: Some(LockName::Symbol { name: "tallies".into(), offset: 0 }),
        site: site("count"),
        hits: 60,
        excess: 50,
        threads: vec![(Tid(PID + 1), 54), (Tid(PID + 2), 6)],
        writers: 1,
        words: 4,
        same_word: false,
        is_atomic: false,
    }];
    facts
}

#[test]
fn atomic_counters_side_by_side_want_lines_of_their_own() {
    let judged = |change: &dyn Fn(&mut Facts)| {
        let mut facts = fought_over();
        facts.hotspots = vec![spot(HotspotClass::Atomic, "count", 100, 100)];
        (facts.lines[0].is_atomic, facts.lines[0].variable, facts.lines[0].writers) = (true, None, 2);
        change(&mut facts);
        let found = judge(Kind::HotAtomic, &facts);
        assert_eq!(found.len(), 1, "{found:?}");
        found[0].cure
    };
    assert_eq!(judged(&|_| ()), Cure::OwnLines);
    assert_eq!(judged(&|facts| facts.lines[0].same_word = true), Cure::ShardCounter);
    assert_eq!(judged(&|facts| facts.lines[0].writers = 1), Cure::ShardCounter);
    assert_eq!(judged(&|facts| facts.lines[0].site = site("others")), Cure::ShardCounter);
    let mut alone = fought_over();
    alone.lines[0].is_atomic = true;
    assert!(judge(Kind::HotAtomic, &alone).is_empty(), "what the instructions themselves tell comes first");
}

#[test]
fn lines_that_are_fought_over_at_their_thresholds() {
    holds_at_its_thresholds(
        Kind::HotAtomic,
        fought_over,
        &[
            ("samples are too few", |facts| facts.lines[0].hits = 49),
            ("that is what these instructions cost anyway", |facts| facts.lines[0].excess = 49),
            ("the program mostly does something else", |facts| facts.totals.user_samples = 501),
            ("one thread has nearly all of it", |facts| facts.lines[0].threads[1].1 = 5),
            ("nobody writes", |facts| facts.lines[0].writers = 0),
        ],
    );
}

#[test]
fn words_of_a_line_get_lines_of_their_own_and_one_word_a_copy_for_each_thread() {
    let mut facts = fought_over();
    let found = judge(Kind::HotAtomic, &facts);
    assert_eq!((found[0].cure, weigh::value(&found[0], "line_words")), (Cure::OwnLines, 4.0));
    assert_eq!(found[0].severity, 0.1);
    facts.lines[0].same_word = true;
    facts.lines[0].variable = None;
    let found = judge(Kind::HotAtomic, &facts);
    assert_eq!((found[0].cure, weigh::value(&found[0], "line_words")), (Cure::ShardCounter, 1.0));
    assert_eq!(found[0].subjects, [Subject::Function("count".to_owned())]);
    // Beside an atomic instruction in the same function it is no second finding.
    facts.hotspots = vec![spot(HotspotClass::Atomic, "count", 80, 100)];
    let found = judge(Kind::HotAtomic, &facts);
    assert_eq!(found.len(), 1);
    assert_eq!(weigh::value(&found[0], "line_words"), 0.0);
}

#[test]
fn instructions_on_one_variable_are_one_finding() {
    let mut facts = atomic();
    let variable = LockName::Symbol { name: "hits".into(), offset: 8 };
    facts.hotspots = vec![
        Hotspot { variable: Some(variable.clone()), ..spot(HotspotClass::Atomic, "count", 30, 50) },
        Hotspot { variable: Some(variable.clone()), ..spot(HotspotClass::Atomic, "count_more", 30, 50) },
    ];
    let found = judge(Kind::HotAtomic, &facts);
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].subjects, [Subject::Variable(variable)]);
    assert_eq!(weigh::value(&found[0], "samples"), 60.0);
}

fn kernel() -> Facts {
    let mut facts = quiet(3);
    busy(&mut facts, 125 * MS);
    facts.totals.user_samples = 80;
    facts.totals.kernel_samples = Some(80);
    facts.symbols = vec![code("copy_page", Role::Kernel, 40)];
    facts.counters.insert(Counter::FutexCalls, 10);
    facts
}

#[test]
fn kernel_heavy_at_its_thresholds() {
    holds_at_its_thresholds(
        Kind::KernelHeavy,
        kernel,
        &[
            ("it is less than half", |facts| facts.totals.user_samples = 81),
            ("it is little time", |facts| facts.header.sample_period_ns = MS - 1),
            ("the program mostly idles", |facts| facts.end_ns = 2 * S + MS),
            ("one thread does it", |facts| (facts.threads[1].on_cpu_ns, facts.threads[2].on_cpu_ns) = (S, 99 * MS)),
            ("they mostly wait for devices", |facts| off(facts, 2, Reason::Io, 9, 126 * MS)),
            ("each thread is a process", |facts| facts.threads[2].pid = Pid(101)),
            ("work comes by the clock", by_the_clock),
        ],
    );
}

#[test]
fn the_kernels_own_count_stands_in_for_samples() {
    let mut facts = kernel();
    facts.totals.kernel_samples = None;
    assert!(judge(Kind::KernelHeavy, &facts).is_empty());
    let used = ThreadUsage { user_ns: 100 * MS, kernel_ns: 150 * MS, ..ThreadUsage::default() };
    facts.threads.iter_mut().skip(1).for_each(|thread| thread.usage = Some((ThreadUsage::default(), used)));
    assert_eq!(weigh::value(&judge(Kind::KernelHeavy, &facts)[0], "kernel_share"), 0.6);
    facts.threads.iter_mut().for_each(|thread| thread.usage = None);
    facts.ending = Some(Ending { user_ns: Some(50 * MS), kernel_ns: Some(450 * MS), ..Ending::default() });
    assert_eq!(weigh::value(&judge(Kind::KernelHeavy, &facts)[0], "kernel_share"), 0.9);
}

#[test]
fn one_thread_that_reads_byte_by_byte_is_kernel_heavy() {
    let ran = |on_cpu_ns, calls: u64, bytes: u64| {
        let mut facts = kernel();
        (facts.threads[1].on_cpu_ns, facts.threads[2].on_cpu_ns) = (on_cpu_ns, 0);
        facts.counters.extend([(Counter::TransferCalls, calls), (Counter::TransferBytes, bytes)]);
        !judge(Kind::KernelHeavy, &facts).is_empty()
    };
    let found = |calls, bytes| ran(S / 2, calls, bytes);
    // 80 ms in the kernel: 40 ms at 500 ns each.
    assert!(found(80_000, 256 * 80_000));
    assert!(!ran(S / 2 - 1, 80_000, 256 * 80_000), "it mostly waits");
    assert!(!found(79_999, 79_999), "the calls are not what takes the time");
    assert!(!found(80_000, 256 * 80_000 + 1), "they move something");
}

fn wasted() -> Facts {
    let mut facts = quiet(3);
    busy(&mut facts, 50 * MS);
    mutex(&mut facts, 200, US);
    facts.locks[0].wasted_wakes = 5_000;
    facts.locks[0].eagain_waits = 5_000;
    facts.locks[0].wakes = 4_800;
    facts
}

#[test]
fn wasted_wakeups_at_its_thresholds() {
    holds_at_its_thresholds(
        Kind::WastedWakeups,
        wasted,
        &[
            ("calls are too few", |facts| {
                facts.locks[0].wasted_wakes = 4_999;
                facts.locks[0].eagain_waits = 0;
                facts.locks[0].wakes = 0;
                busy(facts, 10 * MS);
            }),
            ("most calls do something", |facts| facts.locks[0].wakes = 4_801),
            ("it is little time", |facts| busy(facts, 51 * MS)),
        ],
    );
}

#[test]
fn waits_that_are_only_counted_are_the_programs() {
    let mut facts = wasted();
    facts.locks[0].eagain_waits = 0;
    facts.totals.wasted_wakes = 5_000;
    assert!(judge(Kind::WastedWakeups, &facts).is_empty());
    facts.counters.insert(Counter::FutexAgain, 5_000);
    let found = judge(Kind::WastedWakeups, &facts);
    assert!(found[0].subjects.is_empty());
    assert_eq!(weigh::value(&found[0], "refused_waits"), 5_000.0);
}

fn uneven() -> Facts {
    let mut facts = quiet(5);
    facts.threads[1].on_cpu_ns = 510 * MS;
    for index in 2..5 {
        let thread = &mut facts.threads[index];
        thread.on_cpu_ns = 170 * MS;
        thread.ended_ns = S + 700 * MS;
        thread.exited = true;
    }
    off(&mut facts, 0, Reason::Futex(Primitive::Join), 1, 900 * MS);
    facts
}

#[test]
fn imbalance_at_its_thresholds() {
    holds_at_its_thresholds(
        Kind::Imbalance,
        uneven,
        &[
            ("the busiest does hardly three times as much", |facts| facts.threads[1].on_cpu_ns -= 1),
            ("the busiest mostly waits too", |facts| {
                facts.threads[1].on_cpu_ns = 499 * MS;
                facts.threads.iter_mut().skip(2).for_each(|thread| thread.on_cpu_ns = 100 * MS);
            }),
            ("there are two", |facts| facts.threads.truncate(3)),
            ("two have a task each", |facts| {
                facts.threads.truncate(3);
                facts.threads[1].hot_sites = vec![site("settle")];
                facts.threads[2].hot_sites = vec![site("print")];
            }),
            ("those with less to do have another task", |facts| {
                facts.threads[1].hot_sites = vec![site("render")];
                facts.threads.iter_mut().skip(2).for_each(|thread| thread.hot_sites = vec![site("log")]);
            }),
            ("those with less to do had done it before", |facts| {
                facts.threads[1].born_ns = S + 701 * MS;
                facts.threads[1].ended_ns = 2 * S + 701 * MS;
                facts.end_ns = 2 * S + 701 * MS;
            }),
            ("the names differ", |facts| {
                facts.threads.iter_mut().enumerate().for_each(|(n, t)| t.name = "abcde"[n..].to_owned());
            }),
            ("the others end hardly earlier", |facts| facts.threads[2].ended_ns += MS),
            ("nobody waits for the last", |facts| facts.threads[0].off.clear()),
            ("it is a small part of the recording", |facts| facts.end_ns = 3 * S + MS),
        ],
    );
}

#[test]
fn even_work_takes_as_long_as_the_cpus_need_for_it() {
    let cost = |cpus: u32, own_ms: u64| {
        let mut facts = uneven();
        facts.header.machine.cpus = cpus;
        facts.threads[1].on_cpu_ns = own_ms * MS;
        judge(Kind::Imbalance, &facts)[0].severity
    };
    assert_eq!([cost(4, 510), cost(16, 510), cost(3, 510)], [0.255, 0.255, 0.17]);
    assert_eq!([cost(2, 510), cost(1, 510)], [0.0, 0.0], "the CPUs are busy all along");
    assert!((cost(2, 690) - 0.09).abs() < 1e-9);
}

#[test]
fn others_wait_at_a_barrier_or_for_the_signal_of_the_busiest() {
    let mut facts = uneven();
    for index in 2..5 {
        facts.threads[index].ended_ns = 2 * S;
        facts.threads[index].exited = false;
    }
    assert!(judge(Kind::Imbalance, &facts).is_empty());
    let mut barrier = facts.clone();
    (2..5).for_each(|index| off(&mut barrier, index, Reason::Futex(Primitive::Barrier), 10, 300 * MS));
    assert_eq!(judge(Kind::Imbalance, &barrier).len(), 1);
    let waiters = (2..5).map(|n| (Tid(PID + n), OffTime { count: 1, ns: 300 * MS })).collect();
    let signal = |by: u32| LockFacts {
        pid: Pid(PID),
        primitive: Primitive::Condvar,
        waiters,
        holders: vec![Holder { tid: Tid(PID + by), count: 3, ns: 900 * MS }],
        ..LockFacts::default()
    };
    facts.locks = vec![signal(1)];
    assert_eq!(judge(Kind::Imbalance, &facts).len(), 1);
    facts.locks[0].holders[0].tid = Tid(PID);
    assert!(judge(Kind::Imbalance, &facts).is_empty(), "a pool waits for the first thread's signal");
}

fn inverted() -> Facts {
    let mut facts = quiet(3);
    mutex(&mut facts, 4, 10 * MS);
    facts.locks[0].inversions = OffTime { count: 2, ns: 20 * MS };
    facts
}

#[test]
fn priority_inversion_at_its_thresholds() {
    holds_at_its_thresholds(
        Kind::PriorityInversion,
        inverted,
        &[
            ("waits are too few", |facts| facts.locks[0].inversions.count = 1),
            ("it is little time", |facts| facts.locks[0].inversions.ns = 5 * MS - 1),
            ("the lock inherits priorities", |facts| facts.locks[0].primitive = Primitive::PiMutex),
        ],
    );
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
    (Kind::CpuAffinity, confined),
    (Kind::LostWakeups, missed),
    (Kind::ThunderingHerd, monitor_herd),
    (Kind::CopiedMessages, copying),
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

fn syncing() -> Facts {
    let mut facts = quiet(2);
    off(&mut facts, 1, Reason::Io, 10, 200 * MS);
    facts.blame = vec![blamed(1, None, Leaf::Io, 1, 200 * MS)];
    facts
}

#[test]
fn io_bound_at_its_thresholds() {
    holds_at_its_thresholds(
        Kind::IoBound,
        syncing,
        &[
            ("it takes little time", |facts| facts.blame[0].ns = 199 * MS),
            ("no thread waits for a device", |facts| facts.threads[1].off.clear()),
            ("threads do more beside it", |facts| spent(facts, 0, AccountState::Running, 900 * MS)),
        ],
    );
}

#[test]
fn what_reads_is_no_slower_for_what_is_written() {
    let told = |function: &str| {
        let mut facts = syncing();
        facts.blame[0].site = Some(site(function));
        let finding = judge(Kind::IoBound, &facts).remove(0);
        (finding.subjects[0].clone(), finding.cure)
    };
    let call = |name: &str| Subject::Function(name.to_owned());
    assert_eq!(told("__GI___libc_read"), (call("read"), Cure::FewerReads));
    assert_eq!(told("getdents64"), (call("getdents64"), Cure::FewerReads));
    assert_eq!(told("__libc_pwrite64"), (call("pwrite64"), Cure::FasterIo));
    assert_eq!(told("fdatasync"), (call("fdatasync"), Cure::FasterIo));
}

fn mapping() -> Facts {
    let mut facts = quiet(3);
    off(&mut facts, 1, Reason::Memory, 10, 25 * MS);
    off(&mut facts, 2, Reason::Memory, 10, 25 * MS);
    facts
}

#[test]
fn memory_lock_at_its_thresholds() {
    holds_at_its_thresholds(
        Kind::MemoryLock,
        mapping,
        &[
            ("waits are too short", |facts| off(facts, 2, Reason::Memory, 10, 24 * MS)),
            ("one thread alone waits", |facts| {
                facts.threads[2].off.clear();
                off(facts, 1, Reason::Memory, 10, 50 * MS);
            }),
        ],
    );
}

#[test]
fn arenas_are_tried_only_where_an_allocator_maps() {
    let proof = |functions: &[&str]| {
        let mut facts = mapping();
        let call_path = functions.iter().map(|function| Frame::named(function, Role::Runtime)).collect();
        facts.blame = vec![Blame {
            site: Some(Site { call_path, count: 1, ns: 1 }),
            ..blamed(1, None, Leaf::Memory, 1, 25 * MS)
        }];
        judge(Kind::MemoryLock, &facts).remove(0).proof.words.join(" ")
    };
    assert!(proof(&["__GI___mmap64", "sysmalloc", "malloc"]).contains("--arenas"));
    assert!(proof(&["memset"]).contains("--arenas"), "a page fault, in memory of any origin");
    assert!(!proof(&["__GI___mmap64", "apr_mmap_create"]).contains("--arenas"));
}

fn faulting() -> Facts {
    let mut facts = quiet(2);
    busy(&mut facts, 250 * MS);
    (facts.totals.user_samples, facts.totals.kernel_samples) = (200, Some(50));
    let handler = Frame::named("exc_page_fault", Role::Kernel);
    facts.symbols = vec![Code { frame: handler, hits: 0, inclusive: 50 }];
    facts.kernel_sites = vec![site("fill")];
    facts
}

#[test]
fn page_faults_at_their_thresholds() {
    holds_at_its_thresholds(
        Kind::PageFaults,
        faulting,
        &[
            ("samples are too few", |facts| facts.symbols[0].inclusive = 49),
            ("the share is too small", |facts| facts.totals.user_samples = 201),
        ],
    );
    let mut facts = quiet(2);
    off(&mut facts, 1, Reason::PageFault, 100, 200 * MS);
    assert_eq!(judge(Kind::PageFaults, &facts)[0].cure, Cure::PagesAhead, "pages from a device");
    assert_eq!(judge(Kind::PageFaults, &faulting())[0].cure, Cure::LargerPages);
}

#[test]
fn page_faults_are_counted_where_the_kernel_is_not_sampled() {
    let share = |faults, kernel_samples| {
        let mut facts = quiet(2);
        facts.totals.kernel_samples = kernel_samples;
        let (user_ns, kernel_ns) = (Some(200 * MS), Some(300 * MS));
        facts.ending = Some(Ending { user_ns, kernel_ns, faults: Some(faults), ..Ending::default() });
        judge(Kind::PageFaults, &facts).first().map(|finding| weigh::value(finding, "fault_share"))
    };
    assert_eq!(share(50_000, None), Some(0.2));
    assert_eq!(share(49_999, None), None);
    assert_eq!(share(500_000, None), Some(0.6), "no more than the kernel used");
    assert_eq!(share(500_000, Some(1)), None, "samples know better");
}

#[test]
fn page_faults_have_the_place_of_those_that_were_sampled() {
    let mut facts = quiet(2);
    let (user_ns, kernel_ns) = (Some(200 * MS), Some(300 * MS));
    facts.ending = Some(Ending { user_ns, kernel_ns, faults: Some(100_000), ..Ending::default() });
    facts.fault_sites = vec![site("fill")];
    let found = judge(Kind::PageFaults, &facts);
    assert_eq!(found[0].subjects, [Subject::Function("fill".to_owned())]);
    assert!(found[0].place.is_some());
}

fn allocating() -> Facts {
    let mut facts = quiet(4);
    mutex(&mut facts, 30, MS);
    mutex(&mut facts, 30, MS);
    for lock in &mut facts.locks {
        lock.primitive = Primitive::Libc;
        lock.wait_sites = vec![Site {
            call_path: vec![Frame::named("malloc", Role::Runtime), Frame::named("parse", Role::Program)],
            count: 30,
            ns: 1,
        }];
    }
    facts
}

#[test]
fn allocator_at_its_thresholds() {
    holds_at_its_thresholds(
        Kind::Allocator,
        allocating,
        &[
            ("arenas are hardly waited for", |facts| {
                facts.locks.iter_mut().for_each(|lock| lock.wait_ns = histogram(20, MS));
            }),
            ("libc's lock is another", |facts| {
                facts.locks.iter_mut().for_each(|lock| lock.wait_sites = vec![site("fputs")]);
            }),
        ],
    );
    assert!(judge(Kind::HotLock, &allocating()).is_empty(), "all arenas are one finding");
}

fn starving() -> Facts {
    let mut facts = quiet(3);
    busy(&mut facts, 100 * MS);
    mutex(&mut facts, 2, 100 * MS);
    facts.locks[0].primitive = Primitive::RwLock;
    facts.locks[0].longest = vec![(Tid(PID + 1), S, S + 200 * MS), (Tid(PID + 2), S, S + 20 * MS)];
    facts
}

#[test]
fn who_starves_while_the_cpus_are_full_is_told() {
    let mut facts = starving();
    facts.threads[0].on_cpu_ns = 4 * S;
    facts.ending = Some(Ending { user_ns: Some(4 * S), kernel_ns: Some(0), ..Ending::default() });
    assert!(kinds(&facts).contains(&Kind::Starvation));
}

#[test]
fn starvation_at_its_thresholds() {
    holds_at_its_thresholds(
        Kind::Starvation,
        starving,
        &[
            ("the wait is too short", |facts| facts.locks[0].longest[0].2 = S + 199 * MS),
            ("others wait as well", |facts| facts.locks[0].longest[1].2 = S + 21 * MS),
            ("others hardly run", |facts| busy(facts, MS)),
            ("nobody shares it, and few wait", |facts| facts.locks[0].primitive = Primitive::Mutex),
        ],
    );
}

#[test]
fn a_writer_that_starves_behind_pthread_readers_has_a_policy_to_try() {
    let proof = |function: &str| {
        let mut facts = starving();
        let path = &mut facts.locks[0].wait_sites[0].call_path;
        path.insert(0, Frame { function: Some(function.into()), ..path[0].clone() });
        let findings = all(&facts);
        let starved = findings.iter().find(|finding| finding.kind == Kind::Starvation).unwrap();
        starved.proof.words.join(" ")
    };
    assert_eq!(proof("__pthread_rwlock_wrlock"), "try --rw prefer-writer,spin-park");
    assert_eq!(proof("std::sys::sync::rwlock::futex::RwLock::write_contended"), "record");
}

/// Thread 1 waits for the readers of a lock, again and again.
fn kept_out() -> Facts {
    let mut facts = quiet(3);
    busy(&mut facts, 100 * MS);
    mutex(&mut facts, 200, 750 * MS);
    let lock = &mut facts.locks[0];
    lock.primitive = Primitive::RwLock;
    lock.longest = vec![(Tid(PID + 1), S, S + 50 * MS)];
    lock.waiters =
        vec![(Tid(PID + 1), OffTime { count: 150, ns: 600 * MS }), (Tid(PID + 2), OffTime { count: 50, ns: 150 * MS })];
    facts
}

#[test]
fn many_waits_of_one_thread_at_their_thresholds() {
    holds_at_its_thresholds(
        Kind::Starvation,
        kept_out,
        &[
            ("it has time left", |facts| facts.locks[0].waiters[0].1.ns = 599 * MS),
            ("others wait as well", |facts| facts.locks[0].waiters[1].1.ns = 151 * MS),
            ("nobody shares it", |facts| facts.locks[0].primitive = Primitive::Mutex),
            ("holders sleep", |facts| {
                facts.locks[0].holder_doing.off = BTreeMap::from([(Reason::Sleep, S)]);
            }),
        ],
    );
}

/// A barrier that threads 1.. wait at for the first.
fn alone() -> Facts {
    let mut facts = quiet(3);
    facts.locks.push(LockFacts { pid: Pid(PID), primitive: Primitive::Barrier, ..LockFacts::default() });
    facts.totals.runnable_ns = vec![S - 500 * MS, 400 * MS, 100 * MS];
    facts.blame = vec![blamed(1, Some(0), Leaf::Running, 0, 160 * MS), blamed(2, Some(0), Leaf::Running, 0, 160 * MS)];
    facts
}

#[test]
fn serial_phase_at_its_thresholds() {
    holds_at_its_thresholds(
        Kind::SerialPhase,
        alone,
        &[
            ("it is hardly ever alone", |facts| facts.totals.runnable_ns = vec![0, 199 * MS, 800 * MS]),
            ("those that wait are threads of Java's machine", |facts| {
                facts.threads[1..].iter_mut().for_each(|thread| thread.name = "C2 CompilerThre".to_owned());
            }),
            ("nothing runs in parallel", |facts| facts.totals.runnable_ns = vec![0, 400 * MS, 29 * MS]),
            ("others do not wait for it", |facts| facts.blame[0].ns = 159 * MS),
            ("they wait for a lock", |facts| facts.locks[0].primitive = Primitive::Mutex),
            ("they only wait for its end", |facts| {
                for index in 1..3 {
                    spent(facts, index, AccountState::Barrier, 900 * MS);
                    spent(facts, index, AccountState::Running, 90 * MS);
                }
            }),
        ],
    );
}

/// One thread runs alone for most of the time, others beside it at times.
fn forked() -> Facts {
    let mut facts = quiet(3);
    facts.totals.runnable_ns = vec![200 * MS, 700 * MS, 100 * MS];
    facts.alone_sites = vec![Site { count: 100, ..site("merge") }];
    facts.parallel_sites = vec![Site { count: 100, ..site("count") }];
    facts.threads[0].alone_samples = 80;
    facts.threads[0].user_samples = 100;
    (0..3).for_each(|index| facts.threads[index].on_cpu_ns = 100 * MS);
    spent(&mut facts, 0, AccountState::Running, 900 * MS);
    spent(&mut facts, 0, AccountState::Barrier, 100 * MS);
    facts
}

#[test]
fn a_serial_phase_without_anybody_waiting_at_its_thresholds() {
    holds_at_its_thresholds(
        Kind::SerialPhase,
        forked,
        &[
            ("nobody runs for long", |facts| facts.totals.runnable_ns = vec![201 * MS, 700 * MS, 99 * MS]),
            ("it hardly runs alone", |facts| facts.totals.runnable_ns = vec![200 * MS, 249 * MS, 551 * MS]),
            ("others run alone too", |facts| facts.threads[0].alone_samples = 79),
            ("others run alone too, in places that are not among the first", |facts| {
                facts.threads[1].alone_samples = 21;
            }),
            ("too few samples tell", |facts| {
                (facts.alone_sites[0].count, facts.threads[0].alone_samples) = (49, 45);
            }),
            ("others do the same work", |facts| facts.parallel_sites = vec![Site { count: 100, ..site("merge") }]),
            ("it never waits for them", |facts| spent(facts, 0, AccountState::Running, 2_400 * MS)),
            ("nobody helps", |facts| facts.threads[0].on_cpu_ns = 7 * S),
            ("it plays ping-pong with one", |facts| {
                let pair = PairFacts { a: Tid(PID), ..pair().pairs[0].clone() };
                (0..2).for_each(|index| facts.threads[index].voluntary = pair.round_trips);
                facts.pairs = vec![pair];
            }),
        ],
    );
}

#[test]
fn those_who_wait_for_a_serial_phase_are_those_that_there_are_at_a_time() {
    let waiters = |facts: &Facts| weigh::value(&judge(Kind::SerialPhase, facts)[0], "waiters");
    let mut facts = forked();
    assert_eq!(waiters(&facts), 2.0);
    facts.threads[1].ended_ns = S + 500 * MS;
    facts.threads[2].born_ns = S + 500 * MS;
    assert_eq!(waiters(&facts), 1.0, "one after the other");
    (1..3).for_each(|index| facts.threads[index].ended_ns = facts.threads[index].born_ns + MS);
    assert_eq!(waiters(&facts), 1.0, "now and then one");
}

/// Goroutines of one function run alone, others side by side.
fn goroutines() -> Facts {
    let mut facts = quiet(4);
    facts.totals.runnable_ns = vec![200 * MS, 500 * MS, 300 * MS];
    let task =
        |function: &str, samples, alone| Task { function: function.into(), samples, alone, site: site(function) };
    facts.tasks = vec![task("main.main", 500, 350), task("main.count", 60, 0)];
    facts
}

#[test]
fn serial_goroutines_at_their_thresholds() {
    holds_at_its_thresholds(
        Kind::SerialPhase,
        goroutines,
        &[
            ("they run beside others", |facts| facts.tasks[0].alone = 349),
            ("nothing else runs", |facts| facts.tasks[1].samples = 50),
            ("the program idles", |facts| facts.totals.runnable_ns = vec![201 * MS, 499 * MS, 300 * MS]),
            ("they hardly run alone", |facts| facts.totals.runnable_ns = vec![0, 199 * MS, 800 * MS]),
        ],
    );
}

/// Node's first thread derives keys and packs for 30% of the samples, in calls that return when that is done.
fn event_loop() -> Facts {
    let mut facts = quiet(3);
    (facts.threads[0].on_cpu_ns, facts.threads[1].on_cpu_ns) = (800 * MS, 200 * MS);
    facts.totals.on_cpu_ns = S;
    facts.totals.user_samples = 1_000;
    facts.symbols = vec![
        below("node::(anonymous namespace)::CompressionStream<node::ZlibContext>::Write<false>", 100),
        below("node::crypto::CryptoJob<node::crypto::PBKDF2Traits>::Run", 200),
        below("node::(anonymous namespace)::CompressionStream<node::ZlibContext>::Write<true>", 500),
    ];
    facts
}

#[test]
fn what_the_event_loop_of_node_does_itself_at_the_thresholds() {
    holds_at_its_thresholds(
        Kind::SerialPhase,
        event_loop,
        &[
            ("it does less", |facts| facts.symbols[1].inclusive = 199),
            ("others work as well", |facts| facts.threads[1].on_cpu_ns = 201 * MS),
            ("it idles", |facts| facts.end_ns = S + 1_201 * MS),
            ("it is no event loop", |facts| facts.threads[0].tid = Tid(PID + 9)),
            ("samples are few", |facts| {
                facts.totals.user_samples = 600;
                facts.symbols[1].inclusive = 99;
            }),
        ],
    );
}

/// One look in ten finds nobody waiting to send.
fn queued(facts: &mut Facts) {
    let lock = GoroutineLock { waiters: 0.5, contended: 0.5, ..GoroutineLock::default() };
    facts.goroutines = vec![GoroutineFacts { looks: 6, sends: vec![lock], ..GoroutineFacts::default() }];
}

#[test]
fn what_goroutines_wait_to_send_to_is_a_stage_and_no_phase() {
    let mut facts = goroutines();
    facts.tasks[0].samples = 800;
    (facts.tasks[0].alone, facts.tasks[1].samples) = (700, 150);
    let kinds = |facts: &Facts| [Kind::SerialPhase, Kind::SlowStage].map(|kind| judge(kind, facts).len());
    assert_eq!(kinds(&facts), [1, 0]);
    queued(&mut facts);
    assert_eq!(kinds(&facts), [0, 1]);
    facts.tasks.truncate(1);
    assert_eq!(kinds(&facts), [0, 1], "all stages may begin with one function");
    facts = goroutines();
    (facts.tasks[0].samples, facts.tasks[0].alone, facts.tasks[1].samples) = (800, 700, 150);
    queued(&mut facts);
    facts.goroutines[0].sends[0].contended = 0.49;
    assert_eq!(kinds(&facts), [1, 0], "they mostly do not wait");
}

/// A team of OpenMP: one thread works between regions while the other spins.
fn team() -> Facts {
    let mut facts = quiet(2);
    busy(&mut facts, S);
    facts.threads[0].regions = Regions { inside: 200, between: 250, site: Some(site("prepare")) };
    facts.threads[1].regions = Regions { inside: 200, between: 0, site: None };
    (facts.threads[1].spun_ns, facts.threads[1].spun_together_ns) = (100 * MS, 100 * MS);
    facts
}

#[test]
fn what_a_thread_of_openmp_does_between_regions_is_serial() {
    let found = judge(Kind::SerialPhase, &team());
    assert_eq!(found.len(), 1);
    let place = found[0].place.as_ref().and_then(Site::caller);
    assert_eq!(place.and_then(|frame| frame.function.as_deref()), Some("prepare"));
    assert_eq!((weigh::value(&found[0], "alone_share"), found[0].severity), (0.25, 0.125));
    let none = |change: fn(&mut Facts), why| {
        let mut facts = team();
        change(&mut facts);
        assert!(judge(Kind::SerialPhase, &facts).is_empty(), "{why}");
    };
    none(|facts| facts.threads[0].regions.between = 99, "it is short");
    none(|facts| facts.threads[1].spun_together_ns = 99 * MS, "the other hardly waits");
    none(|facts| facts.threads[1].pid = Pid(9), "the other is of another process");
    none(|facts| facts.threads.iter_mut().for_each(|thread| thread.regions.inside = 0), "there are no regions");
}

#[test]
fn threads_of_openmp_that_spin_for_each_other_have_uneven_work() {
    let uneven = || {
        let mut facts = team();
        facts.threads[0].regions = Regions { inside: 700, between: 50, site: None };
        facts.threads[1].spun_together_ns = 250 * MS;
        facts
    };
    let found = judge(Kind::Imbalance, &uneven());
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].severity, 0.1, "half of what one waits, but for what the other does between");
    assert_eq!(found[0].subjects.len(), 1, "it has far more to do");
    let none = |change: fn(&mut Facts), why| {
        let mut facts = uneven();
        change(&mut facts);
        assert!(judge(Kind::Imbalance, &facts).is_empty(), "{why}");
    };
    none(|facts| facts.threads[0].regions.between = 51, "it waits for what is between regions");
    none(|facts| facts.threads[0].account.ns[AccountState::CpuOther as usize] = MS, "others had the CPU");
    let mut turns = uneven();
    turns.threads[1].regions.inside = 600;
    assert!(judge(Kind::Imbalance, &turns)[0].subjects.is_empty(), "now one has more, now the other");
}

#[test]
fn goroutines_that_are_always_busy_are_a_stage() {
    let mut facts = goroutines();
    (facts.tasks[0].samples, facts.tasks[0].alone, facts.tasks[1].samples) = (800, 350, 150);
    assert!(judge(Kind::SerialPhase, &facts).is_empty());
    assert_eq!(judge(Kind::SlowStage, &facts).len(), 1);
    (facts.tasks[0].samples, facts.tasks[1].samples) = (699, 130);
    assert!(judge(Kind::SlowStage, &facts).is_empty(), "they have time left");
    facts.tasks[0].samples = 1_051;
    assert!(judge(Kind::SlowStage, &facts).is_empty(), "they are several");
}

#[test]
fn a_worker_goroutine_that_is_always_busy_needs_no_work_of_those_who_ask() {
    let worker = || {
        let mut facts = goroutines();
        facts.totals.runnable_ns = vec![50 * MS, 850 * MS, 100 * MS];
        (facts.tasks[0].function, facts.tasks[0].samples, facts.tasks[0].alone) = ("main.render".into(), 850, 800);
        facts.tasks[1].samples = 27;
        facts
    };
    let stages = |change: fn(&mut Facts)| {
        let mut facts = worker();
        change(&mut facts);
        judge(Kind::SlowStage, &facts).len()
    };
    assert_eq!(stages(|_| {}), 1);
    assert_eq!(stages(|facts| facts.tasks[1].samples = 26), 0, "nobody asks");
    assert_eq!(stages(|facts| facts.tasks[0].samples = 849), 0, "it has time left");
    assert_eq!(stages(|facts| facts.tasks[0].function = "main.main".into()), 0, "it is the program");
    // Other programs had a CPU for half as long as the threads ran.
    let displaced = |facts: &mut Facts| {
        facts.tasks[0].samples = 600;
        facts.threads[0].on_cpu_ns = 600 * MS;
        off(facts, 0, Reason::Displaced, 1, 300 * MS);
    };
    assert_eq!(stages(displaced), 1);
    let mutual = |facts: &mut Facts| mutex(facts, 30, 10 * MS);
    assert_eq!(stages(mutual), 0, "they take turns at a lock");
}

/// In waves of threads, one of each has most of the work.
fn waves() -> Facts {
    let mut facts = quiet(3);
    facts.totals.runnable_ns = vec![200 * MS, 700 * MS, 100 * MS];
    facts.alone_sites = vec![Site { count: 100, ..site("simplify") }];
    facts.parallel_sites = vec![Site { count: 30, ..site("simplify") }, Site { count: 70, ..site("other") }];
    for (index, ms) in [(1, 300), (2, 200)] {
        facts.threads[index].on_cpu_ns = ms * MS;
        facts.threads[index].hot_sites = vec![site("simplify")];
        spent(&mut facts, index, AccountState::Running, ms * MS);
    }
    spent(&mut facts, 0, AccountState::Barrier, 350 * MS);
    facts
}

#[test]
fn uneven_waves_at_their_thresholds() {
    holds_at_its_thresholds(
        Kind::Imbalance,
        waves,
        &[
            ("they are even", |facts| facts.threads[1].on_cpu_ns = 299 * MS),
            ("the others do something else", |facts| facts.parallel_sites[0].count = 29),
            ("they wait for a lock", |facts| spent(facts, 2, AccountState::Lock, 401 * MS)),
            ("nobody waits for them", |facts| facts.threads[0].account = Account::default()),
            ("one is hardly ever alone", |facts| facts.totals.runnable_ns = vec![0, 199 * MS, 801 * MS]),
            ("most do next to nothing", |facts| {
                facts.threads[2].on_cpu_ns = 0;
            }),
        ],
    );
}

/// The first thread gives two others work, round by round, and waits for the last of them.
fn rounds() -> Facts {
    let mut facts = quiet(3);
    facts.totals.runnable_ns = vec![100 * MS, 250 * MS, 650 * MS];
    facts.alone_sites = vec![Site { count: 80, ..site("align") }, Site { count: 20, ..site("sort") }];
    facts.parallel_sites = vec![Site { count: 60, ..site("align") }, Site { count: 40, ..site("other") }];
    for index in 1..3 {
        facts.threads[index].on_cpu_ns = 600 * MS;
        facts.threads[index].hot_sites = vec![site("align")];
    }
    let holder = |tid, count, ms| Holder { tid: Tid(PID + tid), count, ns: ms * MS };
    facts.locks = vec![LockFacts {
        pid: Pid(PID),
        primitive: Primitive::Condvar,
        waiters: (0..3).map(|tid| (Tid(PID + tid), OffTime { count: 100, ns: 300 * MS })).collect(),
        holders: vec![holder(0, 200, 400), holder(1, 100, 900), holder(9, 10, 100)],
        ..LockFacts::default()
    }];
    facts.blame = vec![blamed(0, None, Leaf::Running, 1, 100 * MS), blamed(0, None, Leaf::Running, 2, 100 * MS)];
    facts
}

#[test]
fn uneven_rounds_at_their_thresholds() {
    let found = &judge(Kind::Imbalance, &rounds())[0];
    let told = ["tail_share", "rounds_per_s", "threads"].map(|name| weigh::value(found, name));
    assert_eq!((told, found.severity, found.cure), ([0.2, 100.0, 2.0], 0.2 * 0.75, Cure::LongerRounds));
    holds_at_its_thresholds(
        Kind::Imbalance,
        rounds,
        &[
            ("they are hardly ever alone", |facts| facts.totals.runnable_ns = vec![100 * MS, 249 * MS, 651 * MS]),
            ("who is alone does something else", |facts| facts.parallel_sites[0].count = 15),
            ("others give them work, too", |facts| facts.locks[0].holders[2].ns = 101 * MS),
            ("one of them gets it from others", |facts| {
                let mut other = facts.locks[0].clone();
                other.waiters = facts.locks[0].waiters.split_off(2);
                other.holders = facts.locks[0].holders.split_off(2);
                facts.locks.push(other);
            }),
            ("who hands it out is alone before", |facts| {
                facts.threads[0].hot_sites = vec![site("align")];
                (facts.threads[0].alone_samples, facts.threads[1].alone_samples) = (41, 40);
            }),
            ("they wait for a lock", |facts| facts.locks[0].primitive = Primitive::Mutex),
            ("nobody waits for them", |facts| facts.blame[1].ns = 99 * MS),
            ("there is one", |facts| facts.threads[2].hot_sites.clear()),
            ("the other does next to nothing", |facts| facts.threads[2].on_cpu_ns = 2 * MS),
        ],
    );
}

/// The first thread and one of another name meet at a barrier and run the same.
fn uneven_barrier() -> Facts {
    let mut facts = quiet(2);
    (facts.threads[0].on_cpu_ns, facts.threads[1].on_cpu_ns) = (950 * MS, 10 * MS);
    facts.threads.iter_mut().for_each(|thread| thread.hot_sites = vec![site("row")]);
    off(&mut facts, 1, Reason::Futex(Primitive::Barrier), 100, 900 * MS);
    facts.locks = vec![LockFacts {
        primitive: Primitive::Barrier,
        pid: Pid(PID),
        waiters: vec![(Tid(PID + 1), OffTime { count: 100, ns: 900 * MS })],
        holders: vec![Holder { tid: Tid(PID), count: 100, ns: 900 * MS }],
        ..LockFacts::default()
    }];
    facts
}

#[test]
fn those_who_meet_at_a_barrier_are_compared() {
    let found = judge(Kind::Imbalance, &uneven_barrier());
    assert_eq!(found[0].subjects, [weigh::thread_subject(&uneven_barrier(), Tid(PID))]);
    let mut tasks = uneven_barrier();
    tasks.threads[1].hot_sites = vec![site("print")];
    assert!(judge(Kind::Imbalance, &tasks).is_empty(), "they run something else");
    let mut queue = uneven_barrier();
    queue.locks[0].primitive = Primitive::Condvar;
    assert!(judge(Kind::Imbalance, &queue).is_empty(), "helpers that wait for work");
}

fn stage() -> Facts {
    let mut facts = quiet(2);
    spent(&mut facts, 0, AccountState::Running, 880 * MS);
    spent(&mut facts, 0, AccountState::Work, 120 * MS);
    facts.blame = vec![blamed(1, None, Leaf::Running, 0, 300 * MS)];
    (facts.threads[0].on_cpu_ns, facts.threads[1].on_cpu_ns) = (880 * MS, 9 * MS);
    facts
}

/// Thread 0 gets work from thread 1 and asks thread 2, which sleeps and answers; thread 3 waits for what comes of it.
fn asking_stage() -> Facts {
    let mut facts = quiet(4);
    spent(&mut facts, 0, AccountState::Work, 950 * MS);
    spent(&mut facts, 0, AccountState::Running, 50 * MS);
    let asks = |waiter, ns| Blame { asker: Some(Tid(PID)), ..blamed(waiter, None, Leaf::Sleep, 2, ns) };
    facts.blame = vec![asks(0, 750 * MS), asks(3, 300 * MS), blamed(0, None, Leaf::Running, 1, MS)];
    facts.threads[0].off_sites = vec![site("ask")];
    facts
}

/// Thread 0 sleeps for each piece and never waits for one; thread 1 waits to hand it the next, thread 2 for what comes.
fn sleeping_stage() -> Facts {
    let mut facts = quiet(3);
    spent(&mut facts, 0, AccountState::Sleep, 950 * MS);
    off(&mut facts, 0, Reason::Sleep, 500, 950 * MS);
    let queue = |function: &str| LockFacts { wait_sites: vec![site(function)], pid: Pid(PID), ..LockFacts::default() };
    facts.locks = vec![queue("Ring::put_frame"), queue("Ring::get_frame")];
    facts.blame = vec![blamed(1, Some(0), Leaf::Sleep, 0, 600 * MS), blamed(2, Some(1), Leaf::Sleep, 0, 600 * MS)];
    facts
}

#[test]
fn a_stage_that_sleeps_is_fed_by_who_waits_to_hand_over() {
    let kinds = |facts: &Facts| [Kind::SlowStage, Kind::SmallPool].map(|kind| judge(kind, facts).len());
    assert_eq!(kinds(&sleeping_stage()).iter().sum::<usize>(), 2, "{:?}", kinds(&sleeping_stage()));
    let pool = &judge(Kind::SmallPool, &sleeping_stage())[0];
    assert_eq!(pool.severity, weigh::value(pool, "waited_share"), "more stages than callers may help");
    let mut ticks = sleeping_stage();
    ticks.locks[0].wait_sites = vec![site("Ring::get_frame")];
    assert_eq!(kinds(&ticks), [0, 0], "who waits for the clock's next tick");
    let mut rarely = sleeping_stage();
    rarely.blame[0].ns = 199 * MS;
    assert_eq!(kinds(&rarely), [0, 0]);
}

#[test]
fn who_waits_to_hand_over_need_not_do_much_else() {
    let mut facts = stage();
    facts.threads[1].on_cpu_ns = 0;
    assert!(judge(Kind::SlowStage, &facts).is_empty(), "helpers without work wait for nobody");
    facts.locks = vec![LockFacts { wait_sites: vec![site("put")], pid: Pid(PID), ..LockFacts::default() }];
    facts.blame[0].lock = Some(LockNumber(0));
    assert_eq!(judge(Kind::SlowStage, &facts).len(), 1);
}

#[test]
fn a_stage_that_waits_for_answers_at_its_thresholds() {
    let found = judge(Kind::SlowStage, &asking_stage());
    assert_eq!(found[0].subjects, [weigh::thread_subject(&asking_stage(), Tid(PID))]);
    assert_eq!(found[0].place.as_ref().map(|site| site.call_path.clone()), Some(site("ask").call_path));
    holds_at_its_thresholds(
        Kind::SlowStage,
        asking_stage,
        &[
            ("it has time left", |facts| facts.blame[0].ns = 749 * MS),
            ("others hardly wait", |facts| facts.blame[1].ns = 299 * MS),
            ("all go on together", |facts| {
                facts.blame[1].lock = Some(LockNumber(0));
                facts.locks.push(LockFacts { primitive: Primitive::Barrier, ..LockFacts::default() });
            }),
            ("who is asked computes", |facts| facts.blame[1].leaf = Leaf::Running),
            ("only who is asked waits", |facts| facts.blame[1].waiter = Tid(PID + 2)),
            ("who waits for it does nothing else", |facts| spent(facts, 3, AccountState::Work, S)),
            ("who waits for it waits for an end", |facts| off(facts, 3, Reason::Peer, 5, S)),
        ],
    );
}

#[test]
fn slow_stage_at_its_thresholds() {
    holds_at_its_thresholds(
        Kind::SlowStage,
        stage,
        &[
            ("it has time left", |facts| spent(facts, 0, AccountState::Work, 10 * MS)),
            ("others hardly wait", |facts| facts.blame[0].ns = 299 * MS),
            ("it goes by the clock", |facts| facts.blame[0].leaf = Leaf::Sleep),
            ("it lives but shortly", |facts| facts.threads[0].born_ns = S + 501 * MS),
            ("the other waits but once, for what never comes", |facts| {
                facts.blame[0].lock = Some(LockNumber(0));
                facts.locks.push(LockFacts {
                    pid: Pid(PID),
                    primitive: Primitive::Condvar,
                    waits: 1,
                    waiters: vec![(Tid(PID + 1), OffTime { count: 1, ns: 300 * MS })],
                    ..LockFacts::default()
                });
            }),
            ("the other never has anything to do", |facts| facts.threads[1].on_cpu_ns = 8 * MS),
            ("another does the same", |facts| {
                for index in 0..2 {
                    facts.threads[index].hot_sites = vec![site("collatz")];
                    facts.threads[index].on_cpu_ns = S * if index == 0 { 10 } else { 6 };
                }
            }),
            ("another does what has no name either", |facts| {
                for index in 0..2 {
                    let mut nameless = site("");
                    (nameless.call_path[0].function, nameless.call_path[0].module) = (None, GENERATED.into());
                    facts.threads[index].hot_sites = vec![nameless];
                    facts.threads[index].on_cpu_ns = S * if index == 0 { 10 } else { 6 };
                }
            }),
        ],
    );
}

#[test]
fn a_stage_that_computes_is_no_fault_where_the_cpus_are_full() {
    let mut facts = stage();
    assert!(kinds(&facts).contains(&Kind::SlowStage));
    facts.threads[0].on_cpu_ns = 2 * S;
    spent(&mut facts, 1, AccountState::CpuOwn, 2 * S - 50 * MS);
    assert!(!kinds(&facts).contains(&Kind::SlowStage), "2 CPUs run, and 1.95 more would");
}

/// Threads 1.. call, the first works, and sleeps meanwhile.
fn pool() -> Facts {
    let mut facts = quiet(3);
    off(&mut facts, 0, Reason::Sleep, 30, 900 * MS);
    off(&mut facts, 0, Reason::Futex(Primitive::Condvar), 10, 10 * MS);
    (1..3).for_each(|index| spent(&mut facts, index, AccountState::Work, S));
    spent(&mut facts, 0, AccountState::Sleep, 750 * MS);
    spent(&mut facts, 0, AccountState::Work, 250 * MS);
    facts.blame = vec![
        blamed(1, None, Leaf::Sleep, 0, 300 * MS),
        blamed(2, None, Leaf::Sleep, 0, 300 * MS),
        blamed(0, None, Leaf::Running, 1, MS),
    ];
    facts
}

#[test]
fn small_pool_at_its_thresholds() {
    holds_at_its_thresholds(
        Kind::SmallPool,
        pool,
        &[
            ("its workers have time left", |facts| spent(facts, 0, AccountState::Work, 10 * MS)),
            ("callers hardly wait", |facts| facts.blame[0].ns = 299 * MS),
            ("its workers run", |facts| {
                facts.blame[..2].iter_mut().for_each(|row| row.leaf = Leaf::Running);
            }),
            ("nobody gives them work", |facts| facts.blame[2].thread = Tid(0)),
            ("they only wait for others to end", |facts| {
                let ending = LockFacts { primitive: Primitive::Join, ..LockFacts::default() };
                facts.locks.push(ending);
                facts.blame[2].lock = Some(LockNumber(facts.locks.len() as u32 - 1));
            }),
            ("they wait for work each time", |facts| {
                off(facts, 0, Reason::Futex(Primitive::Condvar), 16, 10 * MS);
            }),
            ("callers are not more than workers", |facts| facts.blame[1].waiter = Tid(PID + 1)),
            ("one of them waits for visitors", |facts| off(facts, 2, Reason::Poll, 4, 800 * MS)),
        ],
    );
}

#[test]
fn a_pool_of_dotnet_is_tried_with_more_threads() {
    let proof = |outermost: &str| {
        let mut facts = pool();
        let mut asks = site("Shop.Ask");
        asks.call_path.push(Frame::named(outermost, Role::Runtime));
        facts.threads[0].off_sites = vec![asks.clone()];
        facts.blame.iter_mut().for_each(|row| row.site = Some(asks.clone()));
        judge(Kind::SmallPool, &facts)[0].proof.words.join(" ")
    };
    let tried = "try --env COMPlus_ThreadPool_ForceMinWorkerThreads=10,40";
    assert_eq!(proof("ThreadpoolMgr::WorkerThreadStart(void*)"), tried);
    assert_eq!(proof("System.Threading.ThreadPoolWorkQueue.Dispatch"), tried);
    assert_eq!(proof("Shop.Start"), "record", "a pool of its own");
}

#[test]
fn who_once_ended_a_wait_is_none_of_the_pools_workers() {
    let mut facts = pool();
    let mut other = facts.threads[0].clone();
    (other.tid, other.name) = (Tid(PID + 3), "meter".to_owned());
    facts.threads.push(other);
    facts.blame.push(blamed(1, None, Leaf::Sleep, 3, 29 * MS));
    let workers = |facts: &Facts| judge(Kind::SmallPool, facts).first().map(|found| weigh::value(found, "workers"));
    assert_eq!(workers(&facts), Some(1.0));
}

#[test]
fn one_worker_is_asked_where_callers_say_that_they_wait_for_a_result() {
    let found = |function: &str| {
        let mut facts = asked();
        for (lock, row) in facts.locks.iter_mut().zip(&mut facts.blame) {
            (lock.wait_sites, row.thread) = (vec![site(function)], Tid(PID));
        }
        judge(Kind::SmallPool, &facts).len()
    };
    assert_eq!(found("system__tasking__entry_calls__wait_for_completion"), 1, "a call of an entry of Ada's");
    assert_eq!(found("std::__basic_future<int>::_M_get_result"), 1);
    assert_eq!(found("take_tick"), 0, "it may set the pace");
}

#[test]
fn a_semaphore_that_several_have_at_once_is_a_pool() {
    let found = |asleep_ms: u64| {
        let mut facts = quiet(4);
        mutex(&mut facts, 30, 40 * MS);
        let lock = &mut facts.locks[0];
        (lock.primitive, lock.contended_ns) = (Primitive::SemaphoreLock, S);
        lock.waiters = (0..4).map(|tid| (Tid(PID + tid), OffTime::once(300 * MS))).collect();
        lock.holders = vec![Holder { tid: Tid(PID), count: 30, ns: S }];
        let asleep = Site { ns: asleep_ms * MS, ..site("call_backend") };
        lock.holder_doing.off = BTreeMap::from([(Reason::Sleep, 900 * MS)]);
        lock.holder_doing.off_sites = vec![asleep.clone()];
        facts.threads[0].off_sites = vec![asleep];
        kinds(&facts)
    };
    assert_eq!(found(1_500), [Kind::SmallPool]);
    assert_eq!(found(1_499), [Kind::SleepingHolder]);
}

#[test]
fn callers_of_a_pool_that_were_never_seen_to_wait_tell_nothing_of_how_long_it_is_waited_for() {
    let mut facts = quiet(10);
    mutex(&mut facts, 30, 40 * MS);
    let lock = &mut facts.locks[0];
    lock.primitive = Primitive::Condvar;
    lock.waiters = (0..3).map(|tid| (Tid(PID + tid), OffTime::once(400 * MS))).collect();
    lock.holder_doing.off = BTreeMap::from([(Reason::Io, 900 * MS)]);
    lock.places = Some(Places { places: 3, callers: (0..10).map(|tid| Tid(PID + tid)).collect() });
    let found = &judge(Kind::SmallPool, &facts)[0];
    assert_eq!(["waited_share", "workers", "callers"].map(|name| weigh::value(found, name)), [0.4, 3.0, 10.0]);
}

/// Three threads wait, each on a word of its own, for what the others give back, and read from a server when they have
/// it.
fn borrowing() -> Facts {
    let mut facts = quiet(4);
    for caller in 1..4 {
        let tid = Tid(PID + caller);
        let wait = Site { count: 4, ns: 300 * MS, ..site("pool2.GenericObjectPool.borrowObject") };
        let idle = Site { count: 9, ns: 300 * MS, ..site("Executor.getTask") };
        let holder = |tid, count| Holder { tid: Tid(PID + tid), count, ns: MS };
        facts.locks.push(LockFacts {
            pid: Pid(PID),
            primitive: Primitive::Condvar,
            waits: 13,
            waiters: vec![(tid, OffTime { count: 13, ns: 600 * MS })],
            wait_sites: vec![idle, wait],
            holders: vec![holder(1 + caller % 3, 5), holder(0, 5)],
            ..LockFacts::default()
        });
        off(&mut facts, caller as usize, Reason::Peer, 4, 100 * MS);
        facts.threads[caller as usize].off_sites = vec![Site { count: 4, ns: 100 * MS, ..site("readLine") }];
        facts.threads[caller as usize].on_cpu_ns = 100 * MS;
    }
    facts
}

#[test]
fn what_is_borrowed_of_a_pool_by_name_at_its_thresholds() {
    holds_at_its_thresholds(
        Kind::SmallPool,
        borrowing,
        &[
            ("callers are two", |facts| _ = facts.locks.pop()),
            ("they hardly wait there", |facts| facts.locks[0].wait_sites[1].ns = 299 * MS),
            ("they rarely wait there", |facts| {
                facts.locks.iter_mut().for_each(|lock| lock.wait_sites[1].count = 3);
            }),
            ("others hand it to them", |facts| facts.locks[0].holders[1].count = 6),
            ("those who have it compute", |facts| facts.threads[1].on_cpu_ns = 101 * MS),
            ("it is called otherwise", |facts| {
                facts.locks.iter_mut().for_each(|lock| _ = lock.wait_sites.pop());
            }),
            ("it is the runtime's", |facts| {
                facts.locks.iter_mut().for_each(|lock| lock.wait_sites[1] = site("java.util.Pool.borrow"));
            }),
        ],
    );
    let found = &judge(Kind::SmallPool, &borrowing())[0];
    assert_eq!(
        found.place.as_ref().and_then(Site::caller).and_then(|frame| frame.function.as_deref()),
        Some("readLine")
    );
    let borrows = |name: &str| {
        let mut facts = borrowing();
        let wait = |lock: &mut LockFacts| lock.wait_sites[1].call_path = site(name).call_path;
        facts.locks.iter_mut().for_each(wait);
        !judge(Kind::SmallPool, &facts).is_empty()
    };
    assert!(["QueuePool.get_connection", "ConnectionPool.checkout", "pool::Pool::acquire"].into_iter().all(borrows));
    assert!(!["Board.get_line", "Queue.take", "Shop.acquisitions"].into_iter().any(borrows));
}

/// Three threads that block in one call by turns.
fn by_turns() -> Facts {
    let mut facts = quiet(4);
    mutex(&mut facts, 3, MS);
    let threads = (1..4).map(|tid| Tid(PID + tid)).collect();
    facts.turns = vec![TurnFacts { threads, site: Site { count: 90, ns: 900 * MS, ..site("on_report") } }];
    facts
}

#[test]
fn calls_by_turns_are_told_unless_a_lock_explains_them() {
    let found = &judge(Kind::SmallPool, &by_turns())[0];
    assert_eq!((found.cure, weigh::value(found, "takers")), (Cure::LetSeveralIn, 3.0));
    assert!((found.severity - 0.6).abs() < 1e-9, "three calls at once would take a third of the time");
    let mut locked = by_turns();
    locked.locks.clear();
    mutex(&mut locked, 30, 10 * MS);
    assert!(judge(Kind::SmallPool, &locked).is_empty());
}

/// Calls for names have half of libuv's pool of four, and the event loop waits.
fn resolving(ns: u64) -> Facts {
    let mut facts = quiet(5);
    off(&mut facts, 0, Reason::Poll, 9, 900 * MS);
    for thread in facts.threads.iter_mut().skip(1) {
        thread.hot_sites = vec![site("uv__getaddrinfo_work")];
    }
    let path = ["poll", "send_dg", "uv__getaddrinfo_work"].map(|name| Frame::named(name, Role::Program));
    let call = Some(Site { call_path: path.to_vec(), count: 9, ns });
    facts.blame = (1..5).map(|at| Blame { site: call.clone(), ..blamed(at, None, Leaf::Outside, at, ns) }).collect();
    facts
}

#[test]
fn calls_for_names_have_half_of_the_pool_of_uv() {
    let found = judge(Kind::SmallPool, &resolving(350 * MS));
    assert_eq!((found.len(), weigh::value(&found[0], "workers")), (1, 2.0));
    let place = found[0].place.as_ref().and_then(Site::caller).and_then(|frame| frame.function.as_deref());
    assert_eq!(place, Some("uv__getaddrinfo_work"));
    assert!(judge(Kind::SmallPool, &resolving(349 * MS)).is_empty(), "one of the two is idle at times");
}

#[test]
fn one_that_sends_to_other_processes_by_the_clock_is_no_pool() {
    let found = |pid, waits, sleeps| {
        let mut facts = pool();
        facts.threads[0].pid = Pid(pid);
        off(&mut facts, 0, Reason::Sleep, sleeps, 900 * MS);
        off(&mut facts, 0, Reason::Futex(Primitive::Condvar), waits, 10 * MS);
        judge(Kind::SmallPool, &facts).len()
    };
    assert_eq!(found(PID + 9, 10, 200), 0);
    assert_eq!(found(PID + 9, 11, 200), 1, "it waits for what they ask");
    assert_eq!(found(PID, 10, 200), 1, "its callers are of its own process");
}

#[test]
fn one_that_lets_all_go_together_is_no_pool() {
    let mut facts = pool();
    assert!(kinds(&facts).contains(&Kind::SmallPool));
    let mut queue = LockFacts { waits: 20, ..LockFacts::default() };
    queue.herds = crate::Herds { calls: 5, woken: 20, back_to_sleep: 0 };
    facts.locks.push(queue);
    let number = LockNumber(facts.locks.len() as u32 - 1);
    facts.blame[..2].iter_mut().for_each(|row| row.lock = Some(number));
    assert!(!kinds(&facts).contains(&Kind::SmallPool));
}

/// Nobody is seen to give the workers their work, and yet they are asked.
fn asked() -> Facts {
    let mut facts = quiet(10);
    for worker in 0..2 {
        off(&mut facts, worker, Reason::Sleep, 30, 900 * MS);
        spent(&mut facts, worker, AccountState::Sleep, S);
    }
    (2..10).for_each(|caller| spent(&mut facts, caller, AccountState::Work, S));
    for caller in 2..10_u32 {
        let waiters = vec![(Tid(PID + caller), OffTime { count: 10, ns: 900 * MS })];
        facts.locks.push(LockFacts { primitive: Primitive::Semaphore, waiters, ..LockFacts::default() });
        facts.blame.push(blamed(caller, Some(caller - 2), Leaf::Sleep, caller % 2, 900 * MS));
    }
    facts
}

#[test]
fn a_pool_that_is_always_full_is_known_by_who_waits_for_it() {
    holds_at_its_thresholds(
        Kind::SmallPool,
        asked,
        &[
            ("callers are few", |facts| facts.blame.truncate(7)),
            ("callers stand in one queue", |facts| facts.blame.iter_mut().for_each(|row| row.lock = None)),
            ("there is but one worker", |facts| {
                facts.blame.iter_mut().for_each(|row| row.thread = Tid(PID));
            }),
        ],
    );
}

#[test]
fn callers_that_are_all_woken_for_the_answer_of_one_ask_too() {
    let found = |back_to_sleep| {
        let mut facts = asked();
        let waiters = facts.locks.iter().flat_map(|lock| lock.waiters.clone()).collect();
        let herds = Herds { calls: 100, woken: 800, back_to_sleep };
        facts.locks = vec![LockFacts { primitive: Primitive::Condvar, waiters, herds, ..LockFacts::default() }];
        facts.blame.iter_mut().for_each(|row| row.lock = Some(LockNumber(0)));
        !judge(Kind::SmallPool, &facts).is_empty()
    };
    assert!(found(400));
    assert!(!found(399), "a tick lets all go on");
}

/// All workers of tokio sleep in their tasks.
fn blocked_workers() -> Facts {
    let mut facts = quiet(3);
    for worker in 1..3 {
        facts.threads[worker].name = "tokio-rt-worker".to_owned();
        spent(&mut facts, worker, AccountState::Sleep, 800 * MS);
        spent(&mut facts, worker, AccountState::Work, 200 * MS);
        facts.blame.push(blamed(worker as u32, None, Leaf::Sleep, worker as u32, 800 * MS));
    }
    facts
}

#[test]
fn workers_that_block_in_tasks_at_their_thresholds() {
    holds_at_its_thresholds(
        Kind::SmallPool,
        blocked_workers,
        &[
            ("one has time", |facts| spent(facts, 2, AccountState::Work, 60 * MS)),
            ("one mostly runs", |facts| facts.threads[1].account.ns[AccountState::Sleep as usize] = 490 * MS),
            ("they are none of tokio's", |facts| {
                facts.threads.iter_mut().for_each(|thread| thread.name = "worker".to_owned());
            }),
        ],
    );
}

/// Thread 1 runs an event loop, and reads from a socket in a callback for most of its life.
fn blocked_loop() -> Facts {
    let mut facts = quiet(2);
    let events = Some("/usr/lib/python3.13/asyncio/events.py".into());
    let runs = Frame { file: events, ..Frame::named("Handle._run", Role::Program) };
    let call_path = vec![Frame::named("Geocoder.ask", Role::Program), runs];
    facts.threads[1].off_sites = vec![Site { call_path, count: 10, ns: 500 * MS }];
    facts
}

#[test]
fn an_event_loop_that_blocks_in_callbacks_at_its_thresholds() {
    holds_at_its_thresholds(
        Kind::SmallPool,
        blocked_loop,
        &[
            ("calls are too few", |facts| facts.threads[1].off_sites[0].count = 9),
            ("calls are too short", |facts| facts.threads[1].off_sites[0].ns -= 1),
            ("it is no callback", |facts| _ = facts.threads[1].off_sites[0].call_path.pop()),
        ],
    );
    let found = &judge(Kind::SmallPool, &blocked_loop())[0];
    assert_eq!(found.cure, Cure::LetLoopGoOn);
    assert_eq!(found.place.as_ref().unwrap().call_path[0].function.as_deref(), Some("Geocoder.ask"));
    let mut of_node = blocked_loop();
    of_node.threads[1].off_sites[0].call_path[1] = Frame::named("node::SyncProcessRunner::Spawn", Role::Runtime);
    assert_eq!(judge(Kind::SmallPool, &of_node).len(), 1);
}

/// The first thread and Java's common pool share work that reads from sockets.
fn blocked_common_pool() -> Facts {
    let mut facts = quiet(2);
    facts.threads[1].name = "ForkJoinPool.commonPool-worker-1".to_owned();
    let runs = Frame::named("java.util.concurrent.ForkJoinTask.doExec", Role::Runtime);
    for thread in &mut facts.threads {
        let call_path = vec![Frame::named("Tiles.fetch", Role::Program), runs.clone()];
        thread.off_sites = vec![Site { call_path, count: 10, ns: 500 * MS }];
    }
    facts
}

#[test]
fn a_common_pool_that_blocks_in_its_tasks_at_its_thresholds() {
    holds_at_its_thresholds(
        Kind::SmallPool,
        blocked_common_pool,
        &[
            ("the worker has time", |facts| facts.threads[1].off_sites[0].ns -= 1),
            ("nobody shares its work", |facts| _ = facts.threads[0].off_sites.pop()),
        ],
    );
}

/// Both threads of Java's executor wait for sockets, and the first thread for each task's result.
fn queued_tasks() -> Facts {
    let mut facts = quiet(3);
    for worker in 1..3 {
        facts.threads[worker].name = format!("pool-1-thread-{worker}");
        off(&mut facts, worker, Reason::Peer, 100, 900 * MS);
        spent(&mut facts, worker, AccountState::Work, 910 * MS);
        off(&mut facts, worker, Reason::Futex(Primitive::Park), 2, 10 * MS);
    }
    let ended = |worker: u32| Holder { tid: Tid(PID + worker), count: 50, ns: 400 * MS };
    facts.locks = vec![LockFacts {
        primitive: Primitive::Park,
        waits: 100,
        waiters: vec![(Tid(PID), OffTime { count: 100, ns: 800 * MS })],
        holders: vec![ended(1), ended(2)],
        ..LockFacts::default()
    }];
    facts
}

#[test]
fn tasks_that_queue_for_an_executor_at_their_thresholds() {
    holds_at_its_thresholds(
        Kind::SmallPool,
        queued_tasks,
        &[
            ("one has time", |facts| off(facts, 2, Reason::Peer, 100, 749 * MS)),
            ("one waits for tasks", |facts| off(facts, 1, Reason::Futex(Primitive::Park), 11, 21 * MS)),
            ("nobody waits for long", |facts| facts.locks[0].waiters[0].1.ns = 290 * MS),
            ("each has just its one task", |facts| facts.locks[0].waiters[0].1.count = 7),
            ("others end these waits", |facts| facts.locks[0].holders[0].tid = Tid(PID)),
            ("they are no executor's", |facts| {
                facts.threads.iter_mut().for_each(|thread| thread.name = "reader".to_owned());
            }),
        ],
    );
}

#[test]
fn a_stage_that_pauses_briefly_between_reads_is_no_poller() {
    let mut facts = quiet(3);
    spent(&mut facts, 0, AccountState::Sleep, 950 * MS);
    off(&mut facts, 0, Reason::Sleep, 2_000, 950 * MS);
    off(&mut facts, 0, Reason::Peer, 1, MS);
    facts.threads[0].voluntary = 2_001;
    facts.threads[0].ended_waits = 2_000;
    facts.blame = vec![blamed(1, None, Leaf::Sleep, 0, 600 * MS), blamed(2, None, Leaf::Sleep, 0, 600 * MS)];
    let kinds = |facts: &Facts| [Kind::SlowStage, Kind::Polling].map(|kind| judge(kind, facts).len());
    assert_eq!(kinds(&facts), [1, 0]);
    let mut looks = facts.clone();
    looks.threads[0].ended_waits = 999;
    assert_eq!(kinds(&looks)[1], 1, "it mostly looks, and hands out nothing");
    let mut source = facts.clone();
    source.threads[0].off.remove(&Reason::Peer);
    assert_eq!(kinds(&source), [0, 1], "it never waits for an answer, and asks as often as it looks");
    source.threads[1].ended_waits = 1_600;
    assert_eq!(kinds(&source)[1], 0, "who gets what it writes passes it on");
    source.threads[1].ended_waits = 1_599;
    assert_eq!(kinds(&source)[1], 1);
    let mut slow = facts.clone();
    off(&mut slow, 0, Reason::Sleep, 900, 950 * MS);
    slow.threads[0].ended_waits = 900;
    assert_eq!(kinds(&slow), [0, 0], "it has a clock's pace");
}

/// Their waits are followed to that thread, and what they have CPU samples in says nothing of them.
#[test]
fn an_executor_whose_tasks_ask_another_thread_is_told_by_where_they_ask() {
    let mut facts = queued_tasks();
    let site = |function, ns| Site { call_path: vec![Frame::named(function, Role::Program)], count: 1, ns };
    for worker in 1..3 {
        facts.threads[worker].hot_sites = vec![site("parse", MS)];
        facts.threads[worker].off_sites = vec![site("connect", 100 * MS), site("ask", 700 * MS)];
    }
    let answers = site("answer", 1_600 * MS);
    facts.blame = vec![Blame { site: Some(answers), ..blamed(1, None, Leaf::Sleep, 0, 700 * MS) }];
    let place = judge(Kind::SmallPool, &facts).into_iter().find_map(|finding| finding.place).expect("a place");
    assert_eq!(place.caller().and_then(|frame| frame.function.as_deref()), Some("ask"));
    assert_eq!(place.ns, 1_400 * MS);
}

/// A worker of a pool may wait on one word for its tasks and in them: the call paths tell which.
#[test]
fn waits_of_tasks_of_java_on_the_worker_s_own_word_block_it() {
    let path = |functions: &[&str], count, ns| {
        let call_path = functions.iter().map(|name| Frame::named(name, Role::Program)).collect();
        Site { call_path, count, ns }
    };
    let runs = "java.util.concurrent.ThreadPoolExecutor.runWorker";
    let facts = |in_task: &str| {
        let mut facts = queued_tasks();
        for worker in 1..3 {
            facts.threads[worker].name = "desk".to_owned();
            facts.threads[worker].off.clear();
            off(&mut facts, worker, Reason::Futex(Primitive::Park), 102, 910 * MS);
            let idle =
                path(&["LinkedBlockingQueue.take", "java.util.concurrent.ThreadPoolExecutor.getTask", runs], 2, MS);
            facts.locks.push(LockFacts {
                primitive: Primitive::Park,
                waits: 102,
                waiters: vec![(Tid(PID + worker as u32), OffTime { count: 102, ns: 910 * MS })],
                wait_sites: vec![path(&["Future.get", in_task, runs], 100, 900 * MS), idle],
                ..LockFacts::default()
            });
        }
        facts
    };
    let found = judge(Kind::SmallPool, &facts("Gateway.price"));
    let place = found.first().and_then(|finding| finding.place.as_ref()).expect("a place");
    assert_eq!(place.caller().and_then(|frame| frame.function.as_deref()), Some("Future.get"));
    let idle = "java.util.concurrent.ThreadPoolExecutor.getTask";
    assert_eq!(judge(Kind::SmallPool, &facts(idle)).len(), 0, "they wait for tasks");
    assert_eq!(judge(Kind::SmallPool, &facts("java.lang.Thread.sleep")).len(), 0, "a sleep is told as such already");
    // Nobody else waits, but one of them for what the other has not begun.
    let mut nested = facts("java.util.concurrent.FutureTask.get");
    nested.locks.remove(0);
    assert_eq!(judge(Kind::SmallPool, &nested).len(), 0, "nobody of theirs ends these waits");
    let ended = |worker: u32| Holder { tid: Tid(PID + worker), count: 50, ns: 400 * MS };
    nested.locks.iter_mut().for_each(|lock| lock.holders = vec![ended(1), ended(2)]);
    assert_eq!(judge(Kind::SmallPool, &nested).len(), 1);
}

#[test]
fn an_executor_is_judged_for_itself_and_polls_for_its_tasks() {
    let mut facts = queued_tasks();
    // A worker of another one waits for the time of its tasks.
    facts.threads[0].name = "pool-2-thread-1".to_owned();
    facts.threads.push(ThreadFacts { tid: Tid(PID + 3), ..facts.threads[0].clone() });
    facts.threads[0].name = "main".to_owned();
    assert_eq!(judge(Kind::SmallPool, &facts).len(), 1);
    for worker in 1..3 {
        facts.threads[worker].off.clear();
        off(&mut facts, worker, Reason::Poll, 100, 900 * MS);
    }
    assert_eq!(judge(Kind::SmallPool, &facts).len(), 1);
}

#[test]
fn an_event_loop_that_workers_wake_waits_for_its_tasks() {
    let facts = |ended_waits| {
        let mut facts = queued_tasks();
        facts.locks.clear();
        off(&mut facts, 0, Reason::Poll, 100, 800 * MS);
        facts.blame = (1..3).map(|worker| blamed(0, None, Leaf::Outside, worker, 150 * MS)).collect();
        facts.threads[1..].iter_mut().for_each(|thread| thread.ended_waits = ended_waits);
        facts
    };
    assert_eq!(judge(Kind::SmallPool, &facts(4)).len(), 1);
    assert_eq!(judge(Kind::SmallPool, &facts(3)).len(), 0, "each has just its one task");
    let mut others = facts(4);
    others.blame[0].thread = Tid(0);
    assert_eq!(judge(Kind::SmallPool, &others).len(), 0, "something else ends most of its waits");
    let mut plain = facts(4);
    plain.threads[0].off.clear();
    assert_eq!(judge(Kind::SmallPool, &plain).len(), 0, "it waits for no events");
}

#[test]
fn who_runs_the_tasks_of_tokio_is_no_thread_for_calls_that_block() {
    let mut facts = queued_tasks();
    let path = |functions: &[&str]| {
        let call_path = functions.iter().map(|name| Frame::named(name, Role::Program)).collect();
        Site { call_path, count: 1, ns: MS }
    };
    let began = "tokio::runtime::blocking::pool::Inner::run";
    for thread in &mut facts.threads {
        thread.name = "tokio-rt-worker".to_owned();
        thread.off_sites = vec![path(&["resolve", began])];
    }
    assert_eq!(judge(Kind::SmallPool, &facts).len(), 0, "all of one pool, and one is idle");
    facts.threads[0].off_sites = vec![path(&["tokio::runtime::scheduler::multi_thread::park", began])];
    assert_eq!(judge(Kind::SmallPool, &facts).len(), 1);
    // They wake each other for what the pool has finished.
    facts.locks[0].holders.push(Holder { tid: Tid(PID), count: 200, ns: MS });
    assert_eq!(judge(Kind::SmallPool, &facts).len(), 1);
    facts.locks[0].holders[2].count = 201;
    assert_eq!(judge(Kind::SmallPool, &facts).len(), 0, "the pool ends few of these waits");
}

#[test]
fn without_names_a_thread_of_tokio_that_never_waits_for_a_task_runs_calls_that_block() {
    let mut facts = queued_tasks();
    facts.threads.iter_mut().for_each(|thread| thread.name = "tokio-rt-worker".to_owned());
    spent(&mut facts, 0, AccountState::Work, 800 * MS);
    assert_eq!(judge(Kind::SmallPool, &facts).len(), 1);
    let mut named = facts.clone();
    named.threads[1..].iter_mut().for_each(|thread| thread.off_sites = vec![site("resolve")]);
    assert_eq!(judge(Kind::SmallPool, &named).len(), 0, "they have names, and none is the pool's");
    spent(&mut facts, 1, AccountState::Work, 15 * MS);
    assert_eq!(judge(Kind::SmallPool, &facts).len(), 1, "the other is one still");
    spent(&mut facts, 2, AccountState::Work, 15 * MS);
    assert_eq!(judge(Kind::SmallPool, &facts).len(), 0, "both wait for tasks");
}

#[test]
fn workers_of_a_python_executor_are_known_by_their_loop() {
    let in_file = |function| {
        let module = "/usr/lib/python3.12/concurrent/futures/thread.py".into();
        let frame = Frame { module, ..Frame::named(function, Role::Runtime) };
        Site { call_path: vec![Frame::named("locate", Role::Program), frame], count: 1, ns: MS }
    };
    let found = |function| {
        let mut facts = queued_tasks();
        for thread in &mut facts.threads[1..] {
            thread.name = "lookup".to_owned();
            thread.hot_sites = vec![in_file(function)];
        }
        facts.threads[0].hot_sites = vec![in_file("ThreadPoolExecutor.submit")];
        judge(Kind::SmallPool, &facts).into_iter().find_map(|finding| finding.place)
    };
    let place = found("_worker").expect("a pool that is too small");
    assert_eq!(place.caller().and_then(|frame| frame.function.as_deref()), Some("locate"));
    assert!(found("_base").is_none(), "not every function of that file is a worker's");
}

#[test]
fn workers_of_a_pool_of_processes_that_wait_for_tasks_want_no_lock() {
    let frame = |module: &str, function: &str, role| Frame { module: module.into(), ..Frame::named(function, role) };
    let mut facts = sleeper();
    let lock = &mut facts.locks[0];
    lock.wait_sites[0].call_path[0] = frame("/usr/lib/_multiprocessing.cpython-311.so", "acquire", Role::Program);
    let site = |function| {
        let call_path =
            vec![frame("[kernel]", "schedule", Role::Scheduler), frame("libc.so.6", function, Role::Runtime)];
        Site { call_path, count: 1, ns: MS }
    };
    lock.holder_doing.off_sites = vec![site("nanosleep")];
    assert!(kinds(&facts).contains(&Kind::SleepingHolder));
    facts.locks[0].holder_doing.off_sites = vec![site("read")];
    assert_eq!(kinds(&facts), []);
}

fn polling() -> Facts {
    let mut facts = quiet(2);
    off(&mut facts, 1, Reason::Sleep, 250, 500 * MS);
    let thread = &mut facts.threads[1];
    (thread.voluntary, thread.on_cpu_ns, thread.run_ns) = (312, 7_500 * US, histogram(250, 30 * US));
    facts
}

#[test]
fn polling_at_its_thresholds() {
    holds_at_its_thresholds(
        Kind::Polling,
        polling,
        &[
            ("sleeps are too few", |facts| off(facts, 1, Reason::Sleep, 199, 500 * MS)),
            ("sleeps are too long", |facts| off(facts, 1, Reason::Sleep, 249, 500 * MS)),
            ("it hardly sleeps", |facts| off(facts, 1, Reason::Sleep, 250, 499 * MS)),
            ("it works in between", |facts| facts.threads[1].run_ns = histogram(250, 240 * US)),
            ("it waits for other things", |facts| facts.threads[1].voluntary = 313),
            ("it waits for locks in between", |facts| facts.threads[1].lock_wait_ns = 31 * MS),
        ],
    );
}

#[test]
fn who_looks_for_what_nobody_waits_for_costs_nothing() {
    let part = |leaf, tid: u32, ms| PathPart { leaf, thread: Tid(PID + tid), site: None, file: None, ns: ms * MS };
    let found = |parts, blame| {
        let mut facts = Facts { blame, ..polling() };
        facts.path.parts = parts;
        judge(Kind::Polling, &facts).len()
    };
    let elsewhere = |own_ms| vec![part(Leaf::Running, 0, 900), part(Leaf::Sleep, 1, own_ms)];
    assert_eq!(found(elsewhere(49), vec![]), 0);
    assert_eq!(found(elsewhere(50), vec![]), 1, "the time goes by with its sleeps");
    assert_eq!(found(elsewhere(49), vec![blamed(0, None, Leaf::Sleep, 1, 50 * MS)]), 1, "another waits for it");
    assert_eq!(found(vec![part(Leaf::Outside, 0, 900)], vec![]), 1, "what the end waited for tells nothing");
}

/// Thread 1 waits for a condition that nobody signals, 10 ms at a time, while thread 2 waits for it.
fn polling_in_the_way() -> Facts {
    let mut facts = quiet(3);
    facts.locks = vec![LockFacts {
        primitive: Primitive::Condvar,
        waits: 50,
        timeouts: 50,
        waiters: vec![(Tid(PID + 1), OffTime { count: 50, ns: 500 * MS })],
        ..LockFacts::default()
    }];
    facts.threads[2].on_cpu_ns = 10 * MS;
    facts.blame = vec![blamed(2, None, Leaf::Sleep, 1, 300 * MS)];
    facts
}

#[test]
fn polling_in_the_way_of_others_at_its_thresholds() {
    holds_at_its_thresholds(
        Kind::Polling,
        polling_in_the_way,
        &[
            ("it looks too rarely", |facts| facts.locks[0].waiters[0].1.count = 49),
            ("it sleeps too long", |facts| facts.locks[0].waiters[0].1.ns = 2_550 * MS),
            ("somebody signals it", |facts| facts.locks[0].wakes = 2),
            ("hardly anybody waits for it", |facts| facts.blame[0].ns = 299 * MS),
            ("who waits has no work", |facts| facts.threads[2].on_cpu_ns = 9 * MS),
            ("it waits for itself", |facts| facts.blame[0].waiter = Tid(PID + 1)),
        ],
    );
}

/// Several threads look every 5 ms.
/// Ten times, a thread finds 20 ms late what it looks for.
fn looking_for_long() -> Facts {
    let mut facts = quiet(2);
    off(&mut facts, 1, Reason::Sleep, 20, 400 * MS);
    let mut runs = histogram(30, 10 * US);
    (0..10).for_each(|_| runs.add(MS));
    let place = Site { count: 20, ns: 400 * MS, ..site("settle") };
    facts.path.parts =
        vec![PathPart { leaf: Leaf::Sleep, thread: Tid(PID + 1), site: Some(place.clone()), file: None, ns: 500 * MS }];
    let thread = &mut facts.threads[1];
    (thread.run_ns, thread.voluntary, thread.looking) = (runs, 30, Some(place));
    facts
}

#[test]
fn who_only_looks_polls_however_long_it_sleeps() {
    holds_at_its_thresholds(
        Kind::Polling,
        looking_for_long,
        &[
            ("its code does more", |facts| facts.threads[1].looking = None),
            ("it goes on too rarely", |facts| {
                facts.threads[1].voluntary = 29;
                facts.threads[1].run_ns = histogram(30, 10 * US);
            }),
            ("the elapsed time goes by elsewhere", |facts| facts.path.parts[0].ns = 99 * MS),
            ("others sleep then", |facts| facts.path.parts[0].thread = Tid(PID)),
        ],
    );
    assert_eq!(judge(Kind::Polling, &looking_for_long())[0].severity, 0.1);
    let mut asks = looking_for_long();
    asks.threads[1].ended_waits = 15;
    assert_eq!(judge(Kind::Polling, &asks)[0].severity, 0.15, "it asks others, and looks for their answers");
}

#[test]
fn who_tries_a_lock_of_a_file_and_sleeps_polls_at_its_thresholds() {
    let facts = || {
        let mut facts = quiet(3);
        facts.threads[1].retries = OffTime { count: 10, ns: 200 * MS };
        facts.threads[2].retries = OffTime { count: 10, ns: 200 * MS };
        facts
    };
    holds_at_its_thresholds(
        Kind::Polling,
        facts,
        &[
            ("one alone may set a pace", |facts| facts.threads[1].retries = OffTime::default()),
            ("it hardly tries", |facts| facts.threads[1].retries.count = 9),
            ("it hardly sleeps", |facts| facts.threads[1].retries.ns = 199 * MS),
        ],
    );
    assert_eq!(judge(Kind::Polling, &facts())[0].severity, 0.2);
}

fn looking_goroutines() -> Facts {
    let mut facts = quiet(1);
    let looking = Some(Looking { share: 0.3, turns: 5 });
    let group = GoroutineGroup { state: GoroutineState::Sleep, site: site("main.settle"), mean: 0.4, looking };
    facts.goroutines = vec![GoroutineFacts { looks: 20, doing: vec![group], ..GoroutineFacts::default() }];
    facts
}

#[test]
fn goroutines_that_only_look_poll_at_their_thresholds() {
    fn looking(facts: &mut Facts) -> &mut Looking {
        facts.goroutines[0].doing[0].looking.as_mut().expect("it looks")
    }
    holds_at_its_thresholds(
        Kind::Polling,
        looking_goroutines,
        &[
            ("looks are few", |facts| facts.goroutines[0].looks = 19),
            ("its code does more", |facts| facts.goroutines[0].doing[0].looking = None),
            ("it rarely looks", |facts| looking(facts).share = 0.29),
            ("it waits for the end, say", |facts| looking(facts).turns = 4),
            ("the CPUs are busy", |facts| {
                facts.totals.on_cpu_ns = 2 * facts.span_ns() + 1;
                facts.threads[0].on_cpu_ns = 2 * facts.span_ns() + 1;
            }),
        ],
    );
    assert_eq!(judge(Kind::Polling, &looking_goroutines())[0].cure, Cure::BlockInsteadOfLooking);
}

fn polling_alike() -> Facts {
    let mut facts = quiet(4);
    for (index, sleeps) in [(1, 200), (2, 200), (3, 205)] {
        off(&mut facts, index, Reason::Sleep, sleeps, 950 * MS);
        let thread = &mut facts.threads[index];
        (thread.voluntary, thread.run_ns) = (sleeps, histogram(sleeps, 30 * US));
    }
    facts
}

#[test]
fn threads_that_look_alike_poll_at_a_slower_pace_too() {
    holds_at_its_thresholds(
        Kind::Polling,
        polling_alike,
        &[
            ("one sleeps longer", |facts| off(facts, 3, Reason::Sleep, 205, 1_200 * MS)),
            ("one does other things", |facts| off(facts, 2, Reason::Sleep, 200, 890 * MS)),
            ("one works in between", |facts| facts.threads[1].run_ns = histogram(200, 60 * US)),
            ("one is gone", |facts| _ = facts.threads.pop()),
            ("each began with a function of its own", |facts| {
                for (tid, function) in [(1, "fill"), (2, "cap"), (3, "label")] {
                    let row = blamed(tid, None, Leaf::Sleep, tid, 900 * MS);
                    facts.blame.push(Blame { site: Some(site(function)), ..row });
                }
            }),
            ("one sleeps until something is due", |facts| {
                let sleeps = &mut facts.threads[1].timed_ns;
                *sleeps = Histogram::default();
                (1..=10).for_each(|ms| sleeps.add(ms * MS));
            }),
        ],
    );
}

/// Three threads hand on to each other what they find when they look every 25 ms; thread 4 waits for the last of them.
fn polling_in_a_chain() -> Facts {
    let mut facts = quiet(5);
    facts.end_ns = facts.start_ns + 1_400 * MS;
    for index in 1..=3 {
        off(&mut facts, index, Reason::Sleep, 50, 1_300 * MS);
        let thread = &mut facts.threads[index];
        (thread.voluntary, thread.ended_ns, thread.run_ns) = (90, facts.end_ns, histogram(50, 100 * US));
    }
    (facts.threads[1].ended_waits, facts.threads[2].ended_waits, facts.threads[3].ended_waits) = (24, 24, 50);
    facts.threads[4].ended_waits = 50;
    facts.blame = vec![blamed(4, None, Leaf::Sleep, 3, 420 * MS)];
    facts
}

#[test]
fn who_looks_in_a_chain_polls_at_its_thresholds() {
    holds_at_its_thresholds(
        Kind::Polling,
        polling_in_a_chain,
        &[
            ("one looks too rarely", |facts| off(facts, 2, Reason::Sleep, 49, 1_300 * MS)),
            ("they sleep for too long", |facts| {
                facts.end_ns = S + 2_700 * MS;
                (1..=3).for_each(|index| off(facts, index, Reason::Sleep, 50, 2_550 * MS));
                facts.threads.iter_mut().for_each(|thread| thread.ended_ns = thread.born_ns + 2_700 * MS);
                facts.blame[0].ns = 2_700 * MS;
            }),
            ("two end a wait in every other round", |facts| facts.threads[2].ended_waits = 25),
            ("hardly anybody waits for it", |facts| facts.blame[0].ns = 419 * MS),
            ("who waits hands nothing on", |facts| facts.threads[4].ended_waits = 49),
            ("who waits is one of them", |facts| facts.blame[0].waiter = Tid(PID + 2)),
        ],
    );
}

/// A thread waits for a condition for a limited time, again and again.
fn timed() -> Facts {
    let mut facts = quiet(2);
    let time = OffTime { count: 250, ns: 200 * MS };
    facts.locks.push(LockFacts {
        pid: Pid(PID),
        primitive: Primitive::Condvar,
        waits: 250,
        timeouts: 250,
        waiters: vec![(Tid(PID + 1), time)],
        ..LockFacts::default()
    });
    let thread = &mut facts.threads[1];
    (thread.voluntary, thread.on_cpu_ns, thread.run_ns) = (250, 7_500 * US, histogram(250, 30 * US));
    facts
}

#[test]
fn a_condition_that_nobody_signals_is_polled() {
    holds_at_its_thresholds(
        Kind::Polling,
        timed,
        &[
            ("it is signalled", |facts| facts.locks[0].wakes = facts.locks[0].timeouts),
            ("waits end by signals", |facts| facts.locks[0].timeouts = 199),
            ("it hardly waits", |facts| facts.locks[0].waiters[0].1.ns = 199 * MS),
        ],
    );
}

#[test]
fn what_sleeps_and_then_lets_another_go_on_sets_the_pace_unless_it_could_be_signalled() {
    let mut pace = polling();
    pace.threads[1].wakes = 250;
    assert!(judge(Kind::Polling, &pace).is_empty());
    let mut looks = timed();
    looks.threads[1].wakes = 250;
    assert_eq!(judge(Kind::Polling, &looks).len(), 1);
}

fn interpreted() -> Facts {
    let mut facts = quiet(4);
    mutex(&mut facts, 30, 1_700 * US);
    facts.locks[0].primitive = Primitive::InterpreterLock;
    facts.locks[0].contended_ns = 400 * MS;
    facts.threads[0].on_cpu_ns = 120 * MS;
    facts
}

#[test]
fn interpreter_lock_at_its_thresholds() {
    holds_at_its_thresholds(
        Kind::InterpreterLock,
        interpreted,
        &[
            ("waits are too short", |facts| facts.locks[0].wait_ns = histogram(30, 1_600 * US)),
            ("it is another lock", |facts| facts.locks[0].primitive = Primitive::Mutex),
            ("the CPUs are full", |facts| {
                let cpus_ns = facts.span_ns() * u64::from(facts.header.machine.cpus);
                facts.threads[0].on_cpu_ns = cpus_ns - cpus_ns / 7;
                facts.ending = Some(Ending { user_ns: Some(S), kernel_ns: Some(0), ..Ending::default() });
            }),
            ("nobody runs meanwhile", |facts| facts.threads[0].on_cpu_ns = 0),
            ("somebody waits now and then", |facts| facts.locks[0].contended_ns = 399 * MS),
            ("who has it waits for a lock of the program", |facts| {
                let doing = &mut facts.locks[0].holder_doing;
                (doing.running_ns, doing.unknown_ns) = (75 * MS, 0);
                doing.off = BTreeMap::from([(Reason::Futex(Primitive::OtherLock), 25 * MS)]);
            }),
        ],
    );
    assert!(judge(Kind::HotLock, &interpreted()).is_empty(), "it has a kind of its own");
}

/// Of the waits for the interpreter's lock, half are in threads that hand tasks to processes.
fn tiny_tasks() -> Facts {
    let mut facts = interpreted();
    let library = Frame {
        module: "/usr/lib/python3.11/multiprocessing/pool.py".into(),
        ..Frame::named("Pool._handle_results", Role::Runtime)
    };
    let handing = |path| Site { call_path: path, ns: 10 * MS, count: 1 };
    let own = Frame::named("grade_all", Role::Program);
    let other = Site { ns: 20 * MS, ..site("report") };
    facts.locks[0].wait_sites = vec![handing(vec![library.clone()]), handing(vec![library, own]), other];
    facts
}

#[test]
fn threads_that_hand_tasks_to_processes_have_small_ones() {
    let cure = |facts: &Facts| judge(Kind::InterpreterLock, facts)[0].cure;
    assert_eq!((cure(&interpreted()), cure(&tiny_tasks())), (Cure::LeaveInterpreter, Cure::LargerTasks));
    let mut rarely = tiny_tasks();
    rarely.locks[0].wait_sites[2].ns += 1;
    assert_eq!(cure(&rarely), Cure::LeaveInterpreter);
    let in_file = |file: &str| {
        let mut facts = tiny_tasks();
        let frames = facts.locks[0].wait_sites.iter_mut().flat_map(|site| &mut site.call_path);
        frames.for_each(|frame| frame.module = file.into());
        cure(&facts)
    };
    assert_eq!(in_file("/usr/lib/python3.11/concurrent/futures/process.py"), Cure::LargerTasks);
    assert_eq!(in_file("/usr/lib/python3.11/concurrent/futures/thread.py"), Cure::LeaveInterpreter);
    assert_eq!(in_file("/usr/lib/python3.11/_multiprocessing.cpython-311.so"), Cure::LeaveInterpreter);
    let place = judge(Kind::InterpreterLock, &tiny_tasks()).remove(0).place.unwrap();
    assert_eq!(place.caller().and_then(|frame| frame.function.as_deref()), Some("grade_all"));
}

#[test]
fn who_has_the_interpreters_lock_and_is_displaced_would_run() {
    let found = |displaced_ms| {
        let mut facts = interpreted();
        facts.locks[0].contended_ns = 400 * MS;
        facts.threads[0].on_cpu_ns = 40 * MS;
        off(&mut facts, 0, Reason::Displaced, 1, displaced_ms * MS);
        judge(Kind::InterpreterLock, &facts).len()
    };
    assert_eq!([found(79), found(80)], [0, 1]);
}

/// Threads 1 and 2 each have what the other waits for, from the middle of the recording on; thread 3 waits behind them.
fn deadlocked() -> Facts {
    let mut facts = quiet(4);
    for (holder, waiters) in [(1, vec![2, 3]), (2, vec![1])] {
        mutex(&mut facts, 3, 100 * MS);
        let waiters = waiters.into_iter().map(|waiter| (Tid(PID + waiter), S + 500 * MS)).collect();
        facts.locks[holder as usize - 1].kept = Some(Kept { holder: Tid(PID + holder), has_ended: false, waiters });
    }
    facts
}

fn kept(facts: &mut Facts, lock: usize) -> &mut Kept {
    facts.locks[lock].kept.as_mut().unwrap()
}

#[test]
fn deadlock_at_its_thresholds() {
    holds_at_its_thresholds(
        Kind::Deadlock,
        deadlocked,
        &[
            ("one has waited for less", |facts| kept(facts, 1).waiters[0].1 += 1),
            ("one waits for a third, who does not wait", |facts| kept(facts, 1).holder = Tid(PID)),
            ("nobody is known to have one", |facts| facts.locks[0].kept = None),
            ("it is no mutex", |facts| facts.locks[1].primitive = Primitive::Condvar),
        ],
    );
}

/// Threads 1 and 2 wait until the end for locks of Rust, which do not say who has them.
fn stuck() -> Facts {
    let mut facts = quiet(3);
    for waiter in 1..3 {
        facts.locks.push(LockFacts {
            pid: Pid(PID),
            addr: Some(0x5000 + 0x40 * u64::from(waiter)),
            primitive: Primitive::RustMutex,
            waits: 1,
            waiters: vec![(Tid(PID + waiter), OffTime::once(500 * MS))],
            wait_sites: vec![site("transfer")],
            longest: vec![(Tid(PID + waiter), S + 500 * MS, 2 * S)],
            ..LockFacts::default()
        });
    }
    facts
}

/// The first thread waits for the second one's end, which waits for a signal that came too soon.
fn standing() -> Facts {
    let mut facts = quiet(2);
    for (waiter, primitive) in [(0, Primitive::Join), (1, Primitive::Condvar)] {
        facts.locks.push(LockFacts {
            primitive,
            waits: 1,
            waiters: vec![(Tid(PID + waiter), OffTime::once(500 * MS))],
            wait_sites: vec![site("serve")],
            longest: vec![(Tid(PID + waiter), S + 500 * MS, 2 * S)],
            ..LockFacts::default()
        });
    }
    facts
}

#[test]
fn a_program_stands_still_where_all_its_threads_wait_for_each_other() {
    holds_at_its_thresholds(
        Kind::Deadlock,
        standing,
        &[
            ("one has waited for less", |facts| facts.locks[0].longest[0].1 += 1),
            ("one waits for the outside", |facts| _ = facts.locks.remove(0)),
            ("one looks now and then", |facts| facts.locks[1].timeouts = 1),
            ("it is alone", |facts| {
                facts.locks.remove(0);
                facts.threads.remove(0);
            }),
            ("another process may end it", |facts| {
                facts.locks[1].primitive = Primitive::Semaphore;
                facts.processes.push(ProcessFacts { pid: Pid(PID + 9), ..facts.processes[0].clone() });
            }),
        ],
    );
    let found = judge(Kind::Deadlock, &standing()).swap_remove(0);
    assert_eq!((found.subjects.len(), weigh::value(&found, "standing_threads")), (1, 2.0), "the join is no cause");
    let mut others = standing();
    others.threads.push(ThreadFacts { tid: Tid(PID + 2), ended_ns: 1_500 * MS, ..others.threads[1].clone() });
    assert_eq!(judge(Kind::Deadlock, &others).len(), 1, "who has ended wakes nobody");
    others.threads[2].ended_ns = 1_900 * MS;
    assert!(judge(Kind::Deadlock, &others).is_empty(), "it went on meanwhile");
}

/// All workers of a pool wait for results of tasks, while the program has others that look after something.
fn starved() -> Facts {
    let path = ["FutureTask.get", "Report.total", "java.util.concurrent.ThreadPoolExecutor.runWorker"];
    let in_task =
        Site { call_path: path.iter().map(|name| Frame::named(name, Role::Program)).collect(), ..Site::default() };
    let mut facts = quiet(4);
    for index in 1..3 {
        facts.threads[index as usize].name = format!("report-{index}");
        facts.locks.push(LockFacts {
            primitive: Primitive::Condvar,
            waits: 1,
            waiters: vec![(Tid(PID + index), OffTime::once(500 * MS))],
            wait_sites: vec![in_task.clone()],
            longest: vec![(Tid(PID + index), S + 500 * MS, 2 * S)],
            ..LockFacts::default()
        });
    }
    facts
}

#[test]
fn a_pool_starves_where_all_its_workers_wait_for_results() {
    let mut facts = starved();
    let found = judge(Kind::Deadlock, &facts).swap_remove(0);
    assert_eq!(weigh::value(&found, "starved_workers"), 2.0);
    facts.threads[3].name = "report-3".to_owned();
    assert!(judge(Kind::Deadlock, &facts).is_empty(), "one is free for the others' tasks");
}

#[test]
fn a_deadlock_of_locks_that_do_not_say_who_has_them_at_its_thresholds() {
    holds_at_its_thresholds(
        Kind::Deadlock,
        stuck,
        &[
            ("one has waited for less", |facts| facts.locks[1].longest[0].1 += 1),
            ("one went on", |facts| facts.locks[1].longest[0].2 = 1_990 * MS),
            ("both wait for one lock", |facts| {
                facts.locks.pop();
                facts.locks[0].waiters.push((Tid(PID + 2), OffTime::once(500 * MS)));
                facts.locks[0].longest.push((Tid(PID + 2), S + 500 * MS, 2 * S));
            }),
            ("one waits for work", |facts| facts.locks[1].primitive = Primitive::Condvar),
            ("the recording is long", |facts| facts.end_ns = 3 * S),
        ],
    );
    let found = judge(Kind::Deadlock, &stuck()).swap_remove(0);
    assert_eq!((found.subjects.len(), weigh::value(&found, "stuck_threads")), (4, 2.0));
    // Java's monitors are waited for on words of the threads' own, which look now and then.
    let mut monitors = stuck();
    let second = monitors.locks.pop().unwrap();
    let lock = &mut monitors.locks[0];
    (lock.addr, lock.primitive, lock.timeouts) = (None, Primitive::OtherLock, 2);
    lock.waiters.extend(second.waiters);
    lock.longest.clear();
    lock.wait_sites = vec![site("ObjectMonitor::enter")];
    lock.waits = 2;
    assert_eq!(judge(Kind::Deadlock, &monitors).len(), 1);
    monitors.locks[0].waits = 3;
    assert_eq!(judge(Kind::Deadlock, &monitors).len(), 0, "others let them in");
    monitors.locks[0].waits = 2;
    monitors.locks[0].wait_sites = vec![site("wait_for_task")];
    assert_eq!(judge(Kind::Deadlock, &monitors).len(), 0, "what only looks like a lock may be a pool's");
}

#[test]
fn a_lock_of_python_is_one_where_no_event_or_condition_waits_for_it() {
    let python = |inner: &[Frame]| {
        let mut facts = stuck();
        for lock in &mut facts.locks {
            lock.primitive = Primitive::Semaphore;
            let acquires = Frame::named("lock_PyThread_acquire_lock", Role::Runtime);
            let call_path = [&[acquires], inner, &[Frame::named("Depot.move", Role::Program)]].concat();
            lock.wait_sites = vec![Site { call_path, count: 1, ns: 1 }];
        }
        judge(Kind::Deadlock, &facts).len()
    };
    let file = Some("/usr/lib/python3.13/threading.py".into());
    assert_eq!(python(&[]), 1);
    assert_eq!(python(&[Frame { file, ..Frame::named("Event.wait", Role::Lock) }]), 0);
}

#[test]
fn a_deadlock_names_who_has_what_and_who_waits_behind() {
    let found = |change: fn(&mut Facts)| {
        let mut facts = deadlocked();
        change(&mut facts);
        let found = judge(Kind::Deadlock, &facts).swap_remove(0);
        let of = |subject: &Subject| match subject {
            Subject::Lock { number, .. } => format!("lock {}", number.0),
            Subject::Thread { tid, .. } => format!("thread {}", tid.0 - PID),
            other => panic!("{other:?}"),
        };
        let subjects: Vec<String> = found.subjects.iter().map(of).collect();
        (subjects.join(", "), weigh::value(&found, "threads"), weigh::value(&found, "stuck_threads"), found.cure)
    };
    let circle = "lock 1, thread 1, lock 0, thread 2".to_owned();
    assert_eq!(found(|_| {}), (circle, 2.0, 3.0, Cure::LockInOrder));
    let own = |facts: &mut Facts| kept(facts, 0).holder = Tid(PID + 2);
    assert_eq!(found(own), ("lock 0, thread 2".to_owned(), 1.0, 3.0, Cure::ReleaseAlways));
    let ended = |facts: &mut Facts| {
        facts.locks.truncate(1);
        kept(facts, 0).has_ended = true;
    };
    assert_eq!(found(ended), ("lock 0, thread 2, thread 1".to_owned(), 1.0, 2.0, Cure::ReleaseAlways));
    let all = all(&deadlocked());
    assert_eq!(all.iter().map(|finding| finding.kind).collect::<Vec<_>>(), [Kind::Deadlock], "it explains the waits");
}

/// A lock of the C library that threads take so often that their calls for it come too late.
fn refused() -> Facts {
    let mut facts = wasted();
    facts.locks[0].primitive = Primitive::Libc;
    facts
}

#[test]
fn a_librarys_lock_whose_calls_come_too_late_is_hot() {
    assert_eq!(kinds(&refused()), [Kind::HotLock]);
    let mut some_slept = refused();
    some_slept.locks[0].wait_ns = histogram(200, 300 * US);
    let found = judge(Kind::HotLock, &some_slept);
    assert!(found.len() == 1 && found[0].is_of_refused_calls(), "one lock, one finding");
    let mut facts = refused();
    facts.locks[0].primitive = Primitive::OtherLock;
    assert_eq!(kinds(&facts), [Kind::WastedWakeups], "a program's own may wake for nothing without contention");
}

/// Two threads of which the kernel is sampled spinning for its locks.
fn kernel_locked() -> Facts {
    let mut facts = kernel();
    facts.totals.user_samples = 254;
    facts.symbols = vec![code("rwsem_spin_on_owner", Role::Kernel, 30), code("osq_lock", Role::Kernel, 21)];
    facts.totals.user_samples = 340 - 80;
    facts
}

#[test]
fn kernel_lock_at_its_thresholds() {
    holds_at_its_thresholds(
        Kind::KernelLock,
        kernel_locked,
        &[
            ("it is less", |facts| facts.totals.user_samples += 1),
            ("samples are too few", |facts| {
                facts.symbols.truncate(1);
                facts.totals.user_samples = 0;
            }),
            ("one thread does it", |facts| (facts.threads[1].on_cpu_ns, facts.threads[2].on_cpu_ns) = (S, 99 * MS)),
            ("they spin in the program", |facts| facts.symbols[0].frame.role = Role::Program),
        ],
    );
    let mut facts = kernel_locked();
    facts.totals.user_samples = 0;
    assert_eq!(kinds(&facts), [Kind::KernelLock], "it says more than that the kernel is busy");
}

/// The first thread makes 2,000 others in turn.
fn churning() -> Facts {
    let mut facts = quiet(2_001);
    for thread in facts.threads.iter_mut().skip(1) {
        (thread.on_cpu_ns, thread.exited, thread.born_ns) = (10 * US, true, S + 1);
    }
    facts.threads[0].on_cpu_ns = S - 20 * MS;
    facts.totals.on_cpu_ns = S;
    facts.locks = vec![LockFacts {
        pid: Pid(PID),
        primitive: Primitive::Join,
        wait_sites: vec![site("serve")],
        ..LockFacts::default()
    }];
    facts
}

/// A process starts a hundred programs, one after the other, for 15% of the CPU time.
fn programs_started() -> Facts {
    let mut facts = quiet(1);
    facts.end_ns = facts.start_ns + 240 * MS;
    facts.threads[0].on_cpu_ns = 300 * MS;
    for index in 1..=100 {
        let (pid, tid) = (Pid(PID + index), Tid(PID + index));
        let executed = Some("helper".to_owned());
        facts.processes.push(ProcessFacts {
            pid,
            name: "helper".into(),
            executed,
            threads: 1,
            ..ProcessFacts::default()
        });
        let (born_ns, on_cpu_ns) = (facts.start_ns + 1, MS);
        facts.threads.push(ThreadFacts { tid, pid, born_ns, on_cpu_ns, exited: true, ..ThreadFacts::default() });
    }
    facts.threads[0].off_sites = vec![Site {
        call_path: vec![Frame::named("waitpid", Role::Lock), Frame::named("clean", Role::Program)],
        count: 100,
        ns: MS,
    }];
    facts.totals.on_cpu_ns = 400 * MS;
    facts
}

#[test]
fn programs_that_are_started_at_the_thresholds() {
    holds_at_its_thresholds(
        Kind::ThreadChurn,
        programs_started,
        &[
            ("they are fewer", |facts| facts.threads[7].exited = false),
            ("each works for long", |facts| {
                facts.threads.iter_mut().skip(1).for_each(|thread| thread.on_cpu_ns = 11 * MS)
            }),
            ("others work more", |facts| facts.threads[0].on_cpu_ns = 301 * MS),
            ("it takes its time", |facts| facts.end_ns = facts.start_ns + 241 * MS),
        ],
    );
    let mut forks = programs_started();
    forks.processes.iter_mut().for_each(|process| process.executed = None);
    assert_eq!(judge(Kind::ThreadChurn, &forks).len(), 1, "subshells cost as much");
    let mut large = programs_started();
    large.threads[0].on_cpu_ns = 900 * MS;
    large.totals.kernel_samples = Some(1_000);
    large.symbols = [("__x64_sys_execve", 100), ("kernel_clone", 30), ("do_exit", 20)]
        .map(|(function, inclusive)| Code { frame: Frame::named(function, Role::Kernel), hits: 0, inclusive })
        .into();
    assert_eq!(judge(Kind::ThreadChurn, &large)[0].severity, 0.15, "as the kernel's samples say");
    large.symbols.pop();
    assert!(judge(Kind::ThreadChurn, &large).is_empty());
    let found = &judge(Kind::ThreadChurn, &programs_started())[0];
    assert_eq!(found.place.as_ref().and_then(|site| site.caller()?.function.clone()).as_deref(), Some("clean"));
    assert!(matches!(found.subjects[..], [Subject::Process { pid: Pid(PID), .. }]));
}

#[test]
fn programs_are_started_by_the_parent_of_most() {
    let mut facts = programs_started();
    facts.processes.push(ProcessFacts { pid: Pid(7), name: "xargs".into(), threads: 1, ..ProcessFacts::default() });
    facts.threads.push(ThreadFacts { tid: Tid(7), pid: Pid(7), ..ThreadFacts::default() });
    for index in 1..=100 {
        // Every other one is started by the one before, as a shell's tools are.
        let parent = if index % 2 == 1 { 7 } else { PID + index - 1 };
        facts.processes[index as usize].started_by = Some(Pid(parent));
    }
    facts.processes[1].started_by = Some(Pid(PID));
    let found = &judge(Kind::ThreadChurn, &facts)[0];
    assert!(matches!(&found.subjects[..], [Subject::Process { pid: Pid(7), .. }]), "{:?}", found.subjects);
    assert!(found.place.is_none(), "what another process waits for says nothing of it");
}

/// Ten programs of Perl read their modules for 30% of the CPU time.
fn interpreters_started() -> Facts {
    let mut facts = programs_started();
    facts.threads.truncate(11);
    facts.threads[0].on_cpu_ns = 0;
    facts.threads.iter_mut().skip(1).for_each(|thread| thread.on_cpu_ns = 2 * S);
    facts.totals.on_cpu_ns = 20 * S;
    facts.end_ns = facts.start_ns + 20 * S;
    facts.totals.user_samples = 1_000;
    facts.symbols = vec![below("Perl_yyparse", 300), below("perl_parse", 200)];
    facts
}

#[test]
fn interpreters_that_are_started_at_the_thresholds() {
    holds_at_its_thresholds(
        Kind::ThreadChurn,
        interpreters_started,
        &[
            ("they are fewer", |facts| facts.threads[7].exited = false),
            ("each works for long", |facts| facts.threads[7].on_cpu_ns += 1_000),
            ("they do more else", |facts| facts.symbols[0].inclusive = 299),
            ("it takes its time", |facts| facts.end_ns = facts.start_ns + 25 * S),
        ],
    );
}

/// Workers of Node are made, one after the other, for 15% of the CPU time.
fn workers_of_node() -> Facts {
    let mut facts = quiet(21);
    for thread in facts.threads.iter_mut().skip(1) {
        (thread.on_cpu_ns, thread.exited, thread.born_ns) = (20 * MS, true, S + 1);
    }
    facts.totals.user_samples = 1_000;
    facts.symbols = vec![below("node::CreateEnvironment(node::IsolateData*)", 140), below("node::FreeEnvironment", 10)];
    facts
}

#[test]
fn workers_of_node_at_their_thresholds() {
    holds_at_its_thresholds(
        Kind::ThreadChurn,
        workers_of_node,
        &[
            ("they are a few", |facts| _ = facts.threads.pop()),
            ("one is still there", |facts| facts.threads[5].exited = false),
            ("they do most themselves", |facts| facts.symbols[0].inclusive = 139),
            ("samples are few", |facts| {
                facts.totals.user_samples = 100;
                facts.symbols[0].inclusive = 89;
            }),
        ],
    );
}

#[test]
fn thread_churn_at_its_thresholds() {
    holds_at_its_thresholds(
        Kind::ThreadChurn,
        churning,
        &[
            ("threads are fewer", |facts| facts.threads.truncate(2_000)),
            ("each runs for long", |facts| {
                facts.threads.iter_mut().skip(1).for_each(|thread| thread.on_cpu_ns = 300 * US + 1);
            }),
            ("they do not end", |facts| facts.threads.iter_mut().for_each(|thread| thread.exited = false)),
            ("they were there before", |facts| facts.threads.iter_mut().for_each(|thread| thread.born_ns = S)),
        ],
    );
    let place = judge(Kind::ThreadChurn, &churning())[0].place.clone();
    assert_eq!(place.and_then(|site| site.caller()?.function.clone()).as_deref(), Some("serve"));
}

/// For 400 ms all wait until one of two threads no longer waits for a signal that the other one got.
fn missed() -> Facts {
    let mut facts = quiet(3);
    let mut wait_ns = histogram(50, 100 * US);
    wait_ns.merge(&histogram(50, 20 * MS));
    let time = OffTime { count: 50, ns: 502_500 * US };
    facts.locks.push(LockFacts {
        primitive: Primitive::Condvar,
        waits: 100,
        timeouts: 50,
        wakes: 50,
        waiters: vec![(Tid(PID + 1), time), (Tid(PID + 2), time)],
        wait_sites: vec![site("take")],
        wait_ns,
        ..LockFacts::default()
    });
    let part = |leaf, ns| PathPart { leaf, thread: Tid(PID + 1), site: Some(site("take")), file: None, ns };
    facts.path.parts = vec![part(Leaf::Sleep, 300 * MS), part(Leaf::Unknown, 100 * MS)];
    facts
}

/// Two tasks of an executor wait for results of others until they have waited for half a second.
fn in_vain() -> Facts {
    let mut facts = missed();
    let path = ["FutureTask.get", "Report.total", "java.util.concurrent.ThreadPoolExecutor.runWorker"];
    let call_path = path.iter().map(|name| Frame::named(name, Role::Program)).collect();
    let in_task = Site { call_path, ..Site::default() };
    facts.path.parts.iter_mut().for_each(|part| part.site = Some(in_task.clone()));
    let lock = &mut facts.locks[0];
    (lock.waits, lock.timeouts, lock.wakes) = (16, 8, 0);
    lock.wait_sites = vec![in_task];
    facts
}

#[test]
fn tasks_that_wait_for_their_own_pool_at_the_thresholds() {
    holds_at_its_thresholds(
        Kind::LostWakeups,
        in_vain,
        &[
            ("most get their results", |facts| facts.locks[0].waits = 17),
            ("they wait rarely", |facts| (facts.locks[0].waits, facts.locks[0].timeouts) = (7, 7)),
            ("one task waits", |facts| _ = facts.locks[0].waiters.pop()),
            ("others work meanwhile", |facts| facts.path.parts[1].ns = 99 * MS),
            ("they are no tasks", |facts| _ = facts.locks[0].wait_sites[0].call_path.pop()),
        ],
    );
}

/// The same of futures of C++.
#[test]
fn futures_of_cpp_that_run_out_are_told_where_they_are_waited_for() {
    let mut facts = in_vain();
    let path = ["std::__basic_future<int>::wait_for<long>", "index_document", "run"];
    let call_path = path.iter().map(|name| Frame::named(name, Role::Program)).collect();
    let waits = Site { call_path, ..Site::default() };
    facts.path.parts.iter_mut().for_each(|part| part.site = Some(waits.clone()));
    facts.locks[0].wait_sites = vec![waits];
    assert_eq!(judge(Kind::LostWakeups, &facts).len(), 1);
    facts.locks[0].waiters.pop();
    assert!(judge(Kind::LostWakeups, &facts).is_empty(), "one thread looks from time to time");
}

/// Thread 1 waits for more to come until 20 ms have run out, while threads 2 and 3, which send it, wait for its answer.
fn lingering() -> Facts {
    let mut facts = quiet(4);
    facts.locks.push(LockFacts {
        primitive: Primitive::Park,
        waits: 16,
        timeouts: 8,
        wakes: 8,
        waiters: vec![(Tid(PID + 1), OffTime { count: 16, ns: 400 * MS })],
        wait_sites: vec![site("gather")],
        wait_ns: histogram(16, 20 * MS),
        ..LockFacts::default()
    });
    let thread = Tid(PID + 1);
    facts.path.parts =
        vec![PathPart { leaf: Leaf::Sleep, thread, site: Some(site("gather")), file: None, ns: 400 * MS }];
    facts.blame = vec![blamed(2, Some(1), Leaf::Sleep, 1, 200 * MS), blamed(3, Some(2), Leaf::Sleep, 1, 200 * MS)];
    let pair =
        |b| PairFacts { a: thread, b: Tid(PID + b), wakings: Wakings { a_to_b: 3, b_to_a: 3 }, ..PairFacts::default() };
    facts.pairs = vec![pair(2), pair(3)];
    facts
}

#[test]
fn who_waits_for_more_from_those_that_wait_for_it_at_the_thresholds() {
    holds_at_its_thresholds(
        Kind::LostWakeups,
        lingering,
        &[
            ("it waits rarely", |facts| (facts.locks[0].waits, facts.locks[0].timeouts) = (7, 7)),
            ("nobody ends its waits", |facts| facts.locks[0].wakes = 0),
            ("it is a lock", |facts| facts.locks[0].primitive = Primitive::Mutex),
            ("others work meanwhile", |facts| facts.path.parts[0].ns = 399 * MS),
            ("they hardly wait for it", |facts| facts.blame[1].ns = 199 * MS),
            ("one sends nothing", |facts| facts.pairs[1].wakings.b_to_a = 2),
            ("one is told nothing", |facts| facts.pairs[0].wakings.a_to_b = 2),
        ],
    );
}

#[test]
fn lost_wakeups_at_their_thresholds() {
    holds_at_its_thresholds(
        Kind::LostWakeups,
        missed,
        &[
            ("waits hardly run out", |facts| facts.locks[0].timeouts = 49),
            ("nobody signals it", |facts| facts.locks[0].wakes = 49),
            ("one thread waits at its own pace", |facts| _ = facts.locks[0].waiters.pop()),
            ("it is no condition", |facts| facts.locks[0].primitive = Primitive::OtherLock),
            ("waits run out by a schedule", |facts| {
                let lock = &mut facts.locks[0];
                lock.wait_ns = Histogram::default();
                (1..=100).for_each(|ms| lock.wait_ns.add(ms * MS / 5));
            }),
            ("the elapsed time goes elsewhere", |facts| facts.path.parts[1].ns = 99 * MS),
            ("it waits elsewhere", |facts| facts.path.parts[1].site = Some(site("poll"))),
            ("others work meanwhile", |facts| facts.threads[0].on_cpu_ns = 500 * MS),
        ],
    );
    let found = &judge(Kind::LostWakeups, &missed())[0];
    assert!((19.0..=21.0).contains(&(weigh::value(found, "patience_ns") / MS as f64)));
}

/// `notifyAll` of a monitor lets one thread after the other look and wait again.
fn monitor_herd() -> Facts {
    let mut facts = quiet(9);
    mutex(&mut facts, 5_000, 800 * MS);
    let lock = &mut facts.locks[0];
    let path = ["ObjectMonitor::wait", "java.lang.Object.wait", "Board.next"];
    let call_path = path.iter().map(|name| Frame::named(name, Role::Program)).collect();
    lock.wait_sites = vec![Site { call_path, count: 4_000, ns: 640 * MS }, Site { ns: 160 * MS, ..site("Board.post") }];
    lock.max_waiters = 8;
    facts
}

#[test]
fn herds_of_a_monitor_at_their_thresholds() {
    holds_at_its_thresholds(
        Kind::ThunderingHerd,
        monitor_herd,
        &[
            ("few wait", |facts| facts.locks[0].max_waiters = 7),
            ("it is hardly passed on", |facts| facts.locks[0].waits = 4_999),
            ("they mostly want to enter", |facts| facts.locks[0].wait_sites[0].ns = 639 * MS),
        ],
    );
}

/// Two threads take turns on CPU 2; the other three are free, but for what the first thread takes.
fn confined() -> Facts {
    let mut facts = quiet(3);
    for index in 1..3 {
        let last = ThreadUsage { allowed_cpus: 1, first_cpu: 2, ..ThreadUsage::default() };
        facts.threads[index].usage = Some((ThreadUsage::default(), last));
        facts.threads[index].on_cpu_ns = 540 * MS;
        off(&mut facts, index, Reason::Preempted, 50, 60 * MS);
    }
    facts
}

#[test]
fn cpu_affinity_at_its_thresholds() {
    holds_at_its_thresholds(
        Kind::CpuAffinity,
        confined,
        &[
            ("they hardly wait", |facts| facts.threads[1].on_cpu_ns = 541 * MS),
            ("they hand over", |facts| off(facts, 1, Reason::Preempted, 551, 60 * MS)),
            ("they have CPUs of their own", |facts| {
                let (_, last) = facts.threads[1].usage.as_mut().unwrap();
                last.first_cpu = 1;
            }),
            ("they may use all", |facts| {
                for thread in &mut facts.threads {
                    thread.usage = thread.usage.map(|(first, last)| (first, ThreadUsage { allowed_cpus: 4, ..last }));
                }
            }),
            ("so the user started the recorder", |facts| facts.header.machine.allowed_cpus = 1),
            ("nothing is known of the CPUs", |facts| facts.threads.iter_mut().for_each(|thread| thread.usage = None)),
            ("others of the program have the rest", |facts| facts.threads[0].on_cpu_ns = 3 * S),
        ],
    );
    let mut facts = confined();
    facts.header.machine.allowed_cpus = 1;
    facts.header.target.attached = true;
    assert_eq!(judge(Kind::CpuAffinity, &facts).len(), 1, "where it runs already, the recorder's own set says nothing");
}

/// Java's machine stops three threads.
fn stopped() -> Facts {
    let mut facts = quiet(4);
    facts.threads[3].name = "VM Thread".into();
    facts.blame = vec![blamed(0, None, Leaf::Running, 3, 50 * MS), blamed(1, None, Leaf::Running, 3, 50 * MS)];
    facts
}

#[test]
fn a_stop_of_all_threads_of_java_at_its_thresholds() {
    holds_at_its_thresholds(
        Kind::GarbageCollection,
        stopped,
        &[
            ("they are stopped for little time", |facts| facts.blame[0].ns = 49 * MS),
            ("it is another thread", |facts| facts.threads[3].name = "worker-3".into()),
            ("the machine's own threads wait", |facts| facts.threads[0].name = "C2 CompilerThread0".into()),
            ("it waits itself", |facts| facts.blame[0].leaf = Leaf::Sleep),
        ],
    );
    let mut facts = stopped();
    assert!(judge(Kind::GarbageCollection, &facts)[0].proof.words.len() == 1, "it was attached to");
    facts.header.target.command = vec!["java".to_owned(), "Main".to_owned()];
    assert!(judge(Kind::GarbageCollection, &facts)[0].proof.words[2].ends_with("-XX:+UseSerialGC"));
    facts.header.target.command.insert(1, "-XX:+UseZGC".to_owned());
    assert_eq!(judge(Kind::GarbageCollection, &facts)[0].proof.words, ["record"], "two collectors are an error");
}

#[test]
fn who_asks_for_collections_is_told() {
    let asked = |ns| {
        let mut facts = stopped();
        let call_path = ["java.lang.System.gc", "Sessions.tidy"].map(|name| Frame::named(name, Role::Program)).to_vec();
        let asks = Site { call_path, count: 5, ns };
        facts.locks.push(LockFacts { wait_sites: vec![site("take"), asks], ..LockFacts::default() });
        judge(Kind::GarbageCollection, &facts).remove(0)
    };
    assert_eq!((asked(100 * MS).cure, asked(99 * MS).cure), (Cure::CollectUnasked, Cure::LessGarbage));
    assert!(asked(100 * MS).proof.words[2].ends_with("-XX:+DisableExplicitGC"));
    assert_eq!(asked(100 * MS).place.map(|place| place.ns), Some(100 * MS));
    let python = |asked| {
        let mut facts = collecting();
        facts.symbols = vec![below("gc_collect_main", 100), below("gc_collect_impl", asked)];
        facts.symbols.iter_mut().for_each(|code| code.frame.module = "/usr/bin/python3.11".into());
        let mut tidy = site("tidy");
        tidy.call_path.insert(0, Frame::named("gc_collect_impl", Role::Runtime));
        facts.threads[1].hot_sites = vec![site("parse"), tidy];
        judge(Kind::GarbageCollection, &facts).remove(0).cure
    };
    assert_eq!((python(50), python(49)), (Cure::CollectUnasked, Cure::LessGarbage));
}

/// Messages of workers of Node are copied for two fifths of the samples.
fn copying() -> Facts {
    let mut facts = quiet(3);
    busy(&mut facts, 300 * MS);
    facts.totals.user_samples = 250;
    let copied = ["node::worker::Message::Serialize(v8::Isolate*)", "node::worker::Message::Deserialize"];
    facts.symbols = vec![below(copied[0], 40), below(copied[1], 60), below("match", 150)];
    let mut assigns = Site { count: 5, ..site("assign") };
    assigns.call_path.insert(0, Frame::named(copied[0], Role::Runtime));
    facts.threads[1].hot_sites = vec![Site { count: 9, ..site("match") }, assigns];
    facts
}

#[test]
fn messages_that_are_copied_at_the_thresholds() {
    holds_at_its_thresholds(
        Kind::CopiedMessages,
        copying,
        &[
            ("copying takes less", |facts| facts.symbols[1].inclusive = 59),
            ("samples are few", |facts| {
                facts.totals.user_samples = 99;
                facts.symbols[1].inclusive = 59;
            }),
            ("it is another function", |facts| {
                facts.symbols[1].frame = Frame::named("node::worker::Message::DeserializeAll", Role::Program);
            }),
        ],
    );
    assert_eq!(judge(Kind::CopiedMessages, &copying())[0].subjects, [Subject::Function("assign".into())]);
    let python = |function: &str, file: &str| {
        let mut facts = copying();
        let frame = Frame { file: Some(file.into()), ..Frame::named(function, Role::Runtime) };
        facts.symbols = vec![Code { frame, hits: 0, inclusive: 100 }];
        judge(Kind::CopiedMessages, &facts).len()
    };
    assert_eq!(python("ForkingPickler.dumps", "/usr/lib/python3.11/multiprocessing/reduction.py"), 1);
    assert_eq!(python("get", "/usr/lib/python3.9/multiprocessing/queues.py"), 1, "without its class");
    assert_eq!(python("Queue.get", "/usr/lib/python3.11/queue.py"), 0, "a queue of threads hands over references");
    assert_eq!(python("Shop.dumps", "/srv/shop.py"), 0);
}

/// The collector of Go has a fifth of the samples.
fn collecting() -> Facts {
    let mut facts = quiet(3);
    busy(&mut facts, 300 * MS);
    facts.totals.user_samples = 500;
    facts.symbols = vec![below("runtime.gcDrain", 90), below("runtime.gcDrainN", 10), below("main.build", 300)];
    facts
}

#[test]
fn a_collector_that_takes_cpu_time_at_its_thresholds() {
    holds_at_its_thresholds(
        Kind::GarbageCollection,
        collecting,
        &[
            ("it takes little", |facts| facts.symbols[0].inclusive = 89),
            ("samples are too few", |facts| {
                facts.totals.user_samples = 99;
                facts.symbols[0].inclusive = 50;
            }),
            ("the CPUs were idle otherwise", |facts| {
                facts.symbols[2].frame = Frame::named("runtime.gcDrainMarkWorkerIdle", Role::Runtime);
            }),
            ("its functions have names that are anybody's", |facts| {
                facts.symbols[0].frame = Frame::named("gc_start", Role::Program);
            }),
        ],
    );
    let found = &judge(Kind::GarbageCollection, &collecting())[0];
    assert_eq!(found.proof.words, ["try", "--env", "GOGC=200,400"]);
    let of_dotnet = |function: &str| {
        let mut facts = collecting();
        let frame = Frame { module: "/x/libcoreclr.so".into(), ..Frame::named(function, Role::Runtime) };
        facts.symbols[0] = Code { frame, hits: 0, inclusive: 100 };
        judge(Kind::GarbageCollection, &facts)[0].proof.words.join(" ")
    };
    let both = "try --env COMPlus_gcServer=1 --env COMPlus_gcConcurrent=0";
    assert_eq!(of_dotnet("WKS::gc_heap::gc1()"), both);
    assert_eq!(of_dotnet("SVR::gc_heap::gc1()"), "try --env COMPlus_gcConcurrent=0", "it is the servers' already");
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

mod healthy {
    //! Shapes of programs in which nothing holds threads up.

    use super::*;

    fn nothing(facts: &Facts) {
        assert_eq!(kinds(facts), []);
    }

    #[test]
    fn threads_that_compute() {
        let mut facts = quiet(5);
        busy(&mut facts, 990 * MS);
        (1..5).for_each(|index| off(&mut facts, index, Reason::Preempted, 30, 10 * MS));
        facts.totals.user_samples = 3_960;
        facts.totals.runnable_ns = vec![0, 0, 0, 10 * MS, 960 * MS, 30 * MS];
        facts.symbols = vec![code("compute", Role::Program, 3_900)];
        nothing(&facts);
    }

    #[test]
    fn a_pool_that_mostly_waits_for_work() {
        let mut facts = quiet(17);
        busy(&mut facts, 10 * MS);
        facts.threads[1].on_cpu_ns = 100 * MS;
        (1..17).for_each(|i| off(&mut facts, i, Reason::Futex(Primitive::Condvar), 200, 900 * MS));
        mutex(&mut facts, 40, 100 * US);
        nothing(&facts);
    }

    #[test]
    fn a_pipeline_that_hands_over_in_batches() {
        let mut facts = pair();
        facts.pairs[0].wakings = Wakings { a_to_b: 300, b_to_a: 300 };
        facts.pairs[0].round_trips = 300;
        facts.threads.iter_mut().for_each(|thread| thread.run_ns = histogram(600, 1_500 * US));
        (1..3).for_each(|i| off(&mut facts, i, Reason::Futex(Primitive::Condvar), 300, 500 * MS));
        nothing(&facts);
    }

    #[test]
    fn threads_that_wait_for_devices_and_descriptors() {
        let mut facts = quiet(9);
        busy(&mut facts, 50 * MS);
        (1..9).for_each(|index| {
            off(&mut facts, index, Reason::Io, 2_000, 400 * MS);
            off(&mut facts, index, Reason::Poll, 4_000, 500 * MS);
            facts.threads[index].voluntary = 6_000;
        });
        facts.totals.user_samples = 100;
        facts.totals.kernel_samples = Some(100);
        nothing(&facts);
    }

    #[test]
    fn one_thread_that_copies_files() {
        let mut facts = quiet(1);
        facts.threads[0].on_cpu_ns = S;
        facts.totals.on_cpu_ns = S;
        facts.totals.user_samples = 50;
        facts.totals.kernel_samples = Some(950);
        nothing(&facts);
    }

    #[test]
    fn a_tree_of_processes() {
        let mut facts = quiet(13);
        busy(&mut facts, 300 * MS);
        for index in 1..13 {
            facts.threads[index].pid = Pid(facts.threads[index].tid.0);
            off(&mut facts, index, Reason::Preempted, 60, 500 * MS);
            off(&mut facts, index, Reason::Child, 10, 200 * MS);
        }
        facts.totals.runnable_ns = vec![0, 0, 0, 0, 0, S];
        facts.ending = Some(Ending { user_ns: Some(S), kernel_ns: Some(3 * S), ..Ending::default() });
        nothing(&facts);
    }

    #[test]
    fn a_runtime_that_idles() {
        let mut facts = quiet(7);
        busy(&mut facts, 3 * MS);
        (1..7).for_each(|i| off(&mut facts, i, Reason::Futex(Primitive::GoRuntime), 400, 950 * MS));
        facts.totals.user_samples = 18;
        facts.symbols = vec![code("runtime.procyield", Role::Lock, 12)];
        facts.yield_sites = vec![Site { count: 900, ..site("runtime.osyield") }];
        nothing(&facts);
    }

    #[test]
    fn sleep() {
        let mut facts = quiet(1);
        off(&mut facts, 0, Reason::Sleep, 1, 999 * MS);
        nothing(&facts);
    }

    #[test]
    fn a_start_that_contends_for_a_while() {
        let mut facts = quiet(5);
        busy(&mut facts, 800 * MS);
        mutex(&mut facts, 60, 500 * US);
        facts.locks[0].primitive = Primitive::Libc;
        nothing(&facts);
    }
}

mod explained {
    //! A cause is printed, its consequences are not.

    use super::super::explain::leave_out_consequences;
    use super::*;

    fn evidence(name: &'static str, value: f64) -> Evidence {
        Evidence { name, value, unit: Unit::Count }
    }

    /// A finding about lock 0, and threads 1 and 2.
    fn finding(kind: Kind, values: &[(&'static str, f64)]) -> Finding {
        let thread = |n: u32| Subject::Thread { tid: Tid(PID + n), name: String::new() };
        let lock =
            Subject::Lock { number: LockNumber(0), name: LockName::Address, addr: None, primitive: Primitive::Mutex };
        Finding {
            bound: None,
            kind,
            severity: 0.5,
            subjects: vec![lock, thread(1), thread(2)],
            place: Some(Site { call_path: vec![Frame::named("pthread_mutex_lock", Role::Lock)], count: 1, ns: 0 }),
            evidence: values.iter().map(|(name, value)| evidence(name, *value)).collect(),
            moments: Vec::new(),
            cure: Cure::CoarserWork,
            proof: weigh::record_again(),
        }
    }

    fn program(mut found: Finding) -> Finding {
        found.place = Some(site("compute"));
        found
    }

    fn about_lock(mut found: Finding, lock: u32) -> Finding {
        if let Some(Subject::Lock { number, .. }) = found.subjects.first_mut() {
            *number = LockNumber(lock);
        }
        found
    }

    fn left(facts: &Facts, findings: &[Finding]) -> Vec<Kind> {
        leave_out_consequences(facts, findings.to_vec()).iter().map(|finding| finding.kind).collect()
    }

    /// 12 waits of each of threads 1 to 4.
    fn facts() -> Facts {
        convoy()
    }

    #[test]
    fn a_lock_that_a_worker_has_while_it_works_is_what_its_giver_waits_for() {
        let mut facts = facts();
        let giver = facts.threads[0].tid;
        let of = |tid, ms| (tid, OffTime { count: 9, ns: ms * MS });
        facts.locks[0].wait_ns = histogram(10, MS);
        let rounds = Finding {
            subjects: vec![weigh::thread_subject(&facts, giver)],
            ..finding(Kind::Imbalance, &[("rounds_per_s", 900.0)])
        };
        let lock = about_lock(finding(Kind::HotLock, &[]), 0);
        facts.locks[0].waiters = vec![of(giver, 9), of(Tid(PID + 1), 1)];
        assert_eq!(left(&facts, &[rounds.clone(), lock.clone()]), [Kind::Imbalance]);
        let once = Finding { evidence: vec![], ..rounds.clone() };
        assert_eq!(left(&facts, &[once, lock.clone()]).len(), 2, "no rounds");
        facts.locks[0].waiters = vec![of(giver, 8), of(Tid(PID + 1), 2)];
        assert_eq!(left(&facts, &[rounds, lock]).len(), 2, "others wait for it as well");
    }

    #[test]
    fn who_waits_for_the_busiest_of_several_waits_for_no_stage() {
        let thread = |kind, waiters| {
            let mut found = finding(kind, &[("waiters", waiters)]);
            found.subjects = vec![Subject::Thread { tid: Tid(PID + 1), name: "clerk-0".to_owned() }];
            found
        };
        let left_of = |waiters| left(&facts(), &[thread(Kind::SlowStage, waiters), thread(Kind::Imbalance, 0.0)]);
        assert_eq!(left_of(1.0), [Kind::Imbalance]);
        assert_eq!(left_of(2.0), [Kind::SlowStage]);
    }

    #[test]
    fn a_pool_is_small_for_the_lock_that_its_workers_wait_for() {
        let mut facts = facts();
        let mut pool = finding(Kind::SmallPool, &[("workers", 2.0)]);
        pool.subjects.remove(0);
        let all = [finding(Kind::SleepingHolder, &[]), pool];
        assert_eq!(left(&facts, &all), [Kind::SleepingHolder, Kind::SmallPool]);
        let lives_ns = facts.threads[1].life_ns();
        facts.locks[0].waiters.iter_mut().for_each(|(_, time)| time.ns = lives_ns / 2);
        assert_eq!(left(&facts, &all), [Kind::SleepingHolder]);
    }

    #[test]
    fn one_thread_that_waits_for_its_device_is_no_pool() {
        let mut facts = facts();
        let pool = |workers| {
            let mut found = program(finding(Kind::SmallPool, &[("workers", workers)]));
            found.subjects = vec![Subject::Thread { tid: Tid(PID + 1), name: "journal".to_owned() }];
            found
        };
        let left_of = |facts: &Facts, workers| left(facts, &[finding(Kind::IoBound, &[]), pool(workers)]);
        assert_eq!(left_of(&facts, 1.0), [Kind::IoBound, Kind::SmallPool]);
        let lives_ns = facts.threads[1].life_ns();
        spent(&mut facts, 1, AccountState::Io, lives_ns / 2);
        assert_eq!(left_of(&facts, 1.0), [Kind::IoBound]);
        assert_eq!(left_of(&facts, 2.0), [Kind::IoBound, Kind::SmallPool]);
    }

    #[test]
    fn a_stage_is_slow_for_its_many_little_calls() {
        let mut facts = kernel();
        let all = [finding(Kind::SlowStage, &[]), finding(Kind::KernelHeavy, &[])];
        facts.counters.extend([(Counter::TransferCalls, 80_000), (Counter::TransferBytes, 80_000)]);
        assert_eq!(left(&facts, &all), [Kind::KernelHeavy]);
        facts.counters.insert(Counter::TransferBytes, 80_000 << 12);
        assert!(left(&facts, &all).contains(&Kind::SlowStage), "the calls move what there is");
    }

    #[test]
    fn a_convoy_explains_what_it_does_to_the_program() {
        let all = [
            finding(Kind::KernelHeavy, &[]),
            finding(Kind::LockConvoy, &[]),
            finding(Kind::HotLock, &[]),
            finding(Kind::ExcessiveSwitching, &[("switches", 1e6)]),
            finding(Kind::WastedWakeups, &[]),
            finding(Kind::HotAtomic, &[]),
            finding(Kind::SpinWaste, &[]),
            finding(Kind::PingPong, &[("round_trips", 24.0)]),
            finding(Kind::SleepingHolder, &[("holders_preempted_share", 0.6)]),
        ];
        assert_eq!(left(&facts(), &all), [Kind::LockConvoy]);
    }

    #[test]
    fn a_convoy_does_not_explain_what_has_nothing_to_do_with_it() {
        let apart = [
            finding(Kind::LockConvoy, &[]),
            about_lock(finding(Kind::HotLock, &[]), 1),
            program(finding(Kind::HotAtomic, &[])),
            finding(Kind::Oversubscription, &[]),
            finding(Kind::Imbalance, &[]),
        ];
        assert_eq!(left(&facts(), &apart), apart.iter().map(|finding| finding.kind).collect::<Vec<_>>());
        let spins = [finding(Kind::LockConvoy, &[]), program(finding(Kind::SpinWaste, &[]))];
        assert_eq!(left(&facts(), &spins).len(), 2);
    }

    #[test]
    fn a_holder_that_sleeps_explains_hot_lock_and_convoy() {
        let asleep = finding(Kind::SleepingHolder, &[("holders_off_share", 0.9)]);
        let all = [finding(Kind::LockConvoy, &[]), asleep, finding(Kind::HotLock, &[])];
        assert_eq!(left(&facts(), &all), [Kind::SleepingHolder]);
    }

    #[test]
    fn too_many_threads_explain_preempted_holders_but_no_sleepers() {
        let preempted = finding(Kind::SleepingHolder, &[("holders_preempted_share", 0.9)]);
        let asleep = finding(Kind::SleepingHolder, &[("holders_off_share", 0.9)]);
        let crowd = finding(Kind::Oversubscription, &[]);
        let involuntary = finding(Kind::ExcessiveSwitching, &[("involuntary_share", 0.5), ("switches", 1e6)]);
        let hot = finding(Kind::HotLock, &[]);
        assert_eq!(left(&facts(), &[crowd.clone(), preempted, hot, involuntary]), [Kind::Oversubscription]);
        assert_eq!(left(&facts(), &[crowd, asleep]), [Kind::Oversubscription, Kind::SleepingHolder]);
    }

    #[test]
    fn voluntary_switches_are_not_explained_by_too_many_threads() {
        let voluntary = finding(Kind::ExcessiveSwitching, &[("involuntary_share", 0.49)]);
        let both = [finding(Kind::Oversubscription, &[]), voluntary];
        assert_eq!(left(&facts(), &both).len(), 2);
    }

    #[test]
    fn a_lock_whose_holders_wait_for_the_interpreter_is_no_finding_beside_it() {
        let mut facts = facts();
        facts.locks.push(LockFacts::default());
        let interpreter = Finding { severity: 0.2, ..finding(Kind::InterpreterLock, &[]) };
        let all = [Finding { severity: 0.5, ..about_lock(finding(Kind::HotLock, &[]), 1) }, interpreter];
        let doing = |reason| BTreeMap::from([(reason, 50 * MS)]);
        assert_eq!(left(&facts, &all), [Kind::HotLock, Kind::InterpreterLock], "nothing is known of its holders");
        facts.locks[1].holder_doing.running_ns = 50 * MS;
        facts.locks[1].holder_doing.off = doing(Reason::Io);
        assert_eq!(left(&facts, &all), [Kind::HotLock, Kind::InterpreterLock]);
        facts.locks[1].holder_doing.off = doing(Reason::Futex(Primitive::Mutex));
        assert_eq!(left(&facts, &all), [Kind::InterpreterLock]);
    }

    #[test]
    fn what_threads_write_in_turn_under_a_lock_is_no_fight_for_a_line() {
        let mut facts = facts();
        facts.locks.push(LockFacts {
            wait_sites: vec![site("book")],
            contended_ns: facts.span_ns() / 2,
            ..LockFacts::default()
        });
        let hot = Finding { severity: 0.2, ..about_lock(finding(Kind::HotLock, &[]), 1) };
        let line = Finding { place: Some(site("book")), ..finding(Kind::HotAtomic, &[("line_words", 1.0)]) };
        let all = [line.clone(), hot.clone()];
        assert_eq!(left(&facts, &all), [Kind::HotLock]);
        let atomic = Finding { evidence: Vec::new(), ..line.clone() };
        assert_eq!(left(&facts, &[atomic, hot.clone()]).len(), 2, "atomic instructions are for many at once");
        let elsewhere = Finding { place: Some(site("count")), ..line };
        assert_eq!(left(&facts, &[elsewhere, hot]).len(), 2);
        facts.locks[1].contended_ns -= 1;
        assert_eq!(left(&facts, &all).len(), 2, "it is mostly free");
    }

    #[test]
    fn a_pair_explains_switches_and_its_own_lock() {
        let mut facts = facts();
        facts.locks[0].waiters.truncate(2);
        let switching = finding(Kind::ExcessiveSwitching, &[("switches", 1e6)]);
        let pair = finding(Kind::PingPong, &[("round_trips", 1e5)]);
        let all = [finding(Kind::HotLock, &[]), switching, finding(Kind::KernelHeavy, &[]), pair];
        assert_eq!(left(&facts, &all), [Kind::PingPong]);
    }

    #[test]
    fn what_goroutines_hand_over_explains_what_shows_on_threads_unless_that_is_more() {
        let of = |kind, severity| Finding { severity, ..finding(kind, &[("hand_over_share", severity)]) };
        for kind in [Kind::PingPong, Kind::SlowStage] {
            let both =
                |own, other| [of(Kind::ExcessiveSwitching, own), Finding { severity: other, ..finding(kind, &[]) }];
            assert_eq!(left(&facts(), &both(0.6, 0.06)), [Kind::ExcessiveSwitching]);
            assert_eq!(left(&facts(), &both(0.4, 0.6)), [kind]);
        }
    }

    #[test]
    fn many_messages_cost_by_their_number_and_large_ones_by_their_size() {
        let both = |per_s, cure| {
            let interpreter = Finding { cure, ..finding(Kind::InterpreterLock, &[("waits_per_s", per_s)]) };
            left(&facts(), &[finding(Kind::CopiedMessages, &[]), interpreter])
        };
        assert_eq!(both(3_000.0, Cure::LargerTasks), [Kind::InterpreterLock]);
        assert_eq!(both(2_999.0, Cure::LargerTasks), [Kind::CopiedMessages]);
        assert_eq!(both(3_000.0, Cure::LeaveInterpreter), [Kind::CopiedMessages]);
    }

    #[test]
    fn the_locks_of_channels_are_no_cause() {
        let mut within = site("main.produce");
        within.call_path.insert(0, Frame::named("runtime.selectgo", Role::Runtime));
        within.call_path.insert(0, Frame::named("runtime.lock2", Role::Lock));
        let at = |kind, place: &Site| Finding { place: Some(place.clone()), subjects: vec![], ..finding(kind, &[]) };
        let spin = Finding { cure: Cure::BlockInsteadOfLooking, ..at(Kind::SpinWaste, &within) };
        let switching = finding(Kind::ExcessiveSwitching, &[("hand_over_share", 0.9)]);
        for kind in [Kind::HotLock, Kind::HotAtomic] {
            assert_eq!(left(&facts(), &[at(kind, &within), spin.clone()]), [Kind::SpinWaste]);
            assert_eq!(left(&facts(), &[at(kind, &within), switching.clone()]), [Kind::ExcessiveSwitching]);
            let other = at(kind, &site("main.produce"));
            assert_eq!(left(&facts(), &[other, spin.clone()]).len(), 2);
        }
        let of_threads = finding(Kind::ExcessiveSwitching, &[("switches", 1e4)]);
        assert_eq!(left(&facts(), &[of_threads.clone(), spin]), [Kind::SpinWaste]);
        assert_eq!(left(&facts(), &[of_threads, at(Kind::SpinWaste, &within)]).len(), 2);
    }

    #[test]
    fn who_sleeps_with_others_behind_it_looks_for_nothing() {
        let polling = Finding { place: Some(site("deliver")), ..finding(Kind::Polling, &[]) };
        for kind in [Kind::SmallPool, Kind::SlowStage] {
            let at = |function| Finding { place: Some(site(function)), ..finding(kind, &[]) };
            assert_eq!(left(&facts(), &[at("deliver"), polling.clone()]), [kind]);
            assert_eq!(left(&facts(), &[at("render"), polling.clone()]).len(), 2);
        }
    }

    #[test]
    fn two_threads_that_contend_are_no_pair() {
        let mut facts = facts();
        facts.locks[0].waiters.truncate(2);
        let pair = finding(Kind::PingPong, &[("round_trips", 24.0)]);
        assert_eq!(left(&facts, &[pair, finding(Kind::HotLock, &[])]), [Kind::HotLock]);
    }

    #[test]
    fn a_pair_does_not_explain_a_lock_that_others_wait_for() {
        let pair = finding(Kind::PingPong, &[("round_trips", 1e5)]);
        assert_eq!(left(&facts(), &[pair, finding(Kind::HotLock, &[])]).len(), 2);
    }

    #[test]
    fn a_herd_explains_the_lock_that_the_woken_queue_for() {
        let mut facts = facts();
        let waiters = facts.locks[0].waiters.clone();
        facts.locks.push(LockFacts {
            // Of another process: both are in shared memory.
            pid: Pid(PID + 1),
            primitive: Primitive::Condvar,
            waiters,
            herds: Herds { calls: 5, woken: 25, back_to_sleep: 20 },
            ..LockFacts::default()
        });
        let herd = about_lock(finding(Kind::ThunderingHerd, &[]), 1);
        let pair = finding(Kind::PingPong, &[("round_trips", 1e6)]);
        let all = [finding(Kind::LockConvoy, &[]), herd, finding(Kind::KernelHeavy, &[]), pair];
        assert_eq!(left(&facts, &all), [Kind::ThunderingHerd]);
        facts.locks[1].herds.woken = 16;
        let lock = &all[..2];
        assert_eq!(left(&facts, lock).len(), 2, "the lock is waited for without the herd too");
    }

    #[test]
    fn inversions_explain_the_waits_that_they_make() {
        let mut inversion = finding(Kind::PriorityInversion, &[]);
        let all = |inversion: &Finding| [finding(Kind::HotLock, &[]), inversion.clone()];
        inversion.severity = 0.15;
        assert_eq!(left(&facts(), &all(&inversion)), [Kind::PriorityInversion]);
        inversion.severity = 0.14;
        assert_eq!(left(&facts(), &all(&inversion)).len(), 2);
    }

    #[test]
    fn threads_that_spin_want_their_cpus_for_nothing() {
        let mut spin = finding(Kind::SpinWaste, &[]);
        let all = |spin: &Finding| [finding(Kind::Oversubscription, &[]), spin.clone()];
        spin.severity = 0.3;
        assert_eq!(left(&facts(), &all(&spin)), [Kind::SpinWaste]);
        spin.severity = 0.29;
        assert_eq!(left(&facts(), &all(&spin)), [Kind::SpinWaste], "most of those who want a CPU spin there");
        spin.place = Some(site("wait_for_turn"));
        assert_eq!(left(&facts(), &all(&spin)).len(), 2);
    }

    #[test]
    fn the_instruction_of_a_spin_lock_is_not_told_twice() {
        let spin = program(finding(Kind::SpinWaste, &[]));
        let same = program(finding(Kind::HotAtomic, &[]));
        let mut other = same.clone();
        other.place = Some(site("count"));
        assert_eq!(left(&facts(), &[spin.clone(), same]), [Kind::SpinWaste]);
        assert_eq!(left(&facts(), &[spin, other]).len(), 2);
    }

    #[test]
    fn storms_of_yields_explain_switches() {
        let spin = finding(Kind::SpinWaste, &[("yields", 1e6)]);
        let all = [finding(Kind::ExcessiveSwitching, &[]), spin, finding(Kind::KernelHeavy, &[])];
        assert_eq!(left(&facts(), &all), [Kind::SpinWaste]);
    }

    #[test]
    fn switches_and_wasted_calls_explain_the_kernels_share() {
        for cause in [Kind::ExcessiveSwitching, Kind::WastedWakeups] {
            let all = [finding(Kind::KernelHeavy, &[]), finding(cause, &[])];
            assert_eq!(left(&facts(), &all), [cause]);
        }
    }

    #[test]
    fn nothing_explains_itself_away() {
        for a in Kind::ALL {
            for b in Kind::ALL {
                let shares = [("holders_off_share", 0.9), ("round_trips", 300.0), ("yields", 9.0)];
                let both = [finding(a, &shares), finding(b, &shares)];
                assert!(!left(&facts(), &both).is_empty(), "{} and {}", a.name(), b.name());
            }
        }
    }
}
