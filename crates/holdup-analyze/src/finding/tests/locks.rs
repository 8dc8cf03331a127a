//! Locks: convoys, hot ones, holders that sleep or lose their CPU, threads that starve.

use super::*;

pub(super) fn convoy() -> Facts {
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

pub(super) fn hot() -> Facts {
    let mut facts = quiet(5);
    busy(&mut facts, 100 * MS);
    mutex(&mut facts, 20, 2_500 * US);
    facts
}

#[test]
fn the_lock_of_a_queue_of_small_tasks_says_so() {
    let cure = |conditions: u64, site_of_lock: &str, refused: u64| {
        let mut facts = hot();
        let waits = histogram(conditions, MS);
        let condition = LockFacts {
            primitive: Primitive::Condvar,
            pid: facts.locks[0].pid,
            waits: conditions,
            wait_ns: waits,
            wait_sites: vec![site("take")],
            ..LockFacts::default()
        };
        facts.locks[0].wait_sites = vec![site(site_of_lock)];
        facts.locks[0].eagain_waits = refused;
        facts.locks.push(condition);
        judge(Kind::HotLock, &facts)[0].cure
    };
    assert_eq!(cure(50, "take", 1_980), Cure::HandOverMore);
    assert_eq!(cure(49, "take", 1_980), Cure::ShortenSplitOrGate, "hardly anybody waits for work");
    assert_eq!(cure(50, "look", 1_980), Cure::ShortenSplitOrGate, "they wait elsewhere");
    assert_eq!(cure(50, "take", 1_979), Cure::ShortenSplitOrGate, "tasks are large");
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
pub(super) fn by_the_clock(facts: &mut Facts) {
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

pub(super) fn sleeper() -> Facts {
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
pub(super) fn behind() -> Facts {
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

/// Two threads take a library's lock so often that its word travels all the time, and nobody sleeps.
pub(super) fn passed_lock() -> Facts {
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

pub(super) fn inverted() -> Facts {
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

pub(super) fn starving() -> Facts {
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

/// Threads 1 and 2 wait for threads 0 and 3, who read, again and again.
pub(super) fn all_kept_out() -> Facts {
    let mut facts = kept_out();
    let reader = ThreadFacts { tid: Tid(PID + 3), ..facts.threads[0].clone() };
    facts.threads.push(reader);
    [0, 3].into_iter().for_each(|at| facts.threads[at].on_cpu_ns = 30 * MS);
    let lock = &mut facts.locks[0];
    lock.waiters[1].1.ns = 580 * MS;
    lock.holders = (0..4).map(|thread| Holder { tid: Tid(PID + thread), count: 50, ns: 100 * MS }).collect();
    facts
}

#[test]
fn writers_that_readers_keep_out_at_their_thresholds() {
    holds_at_its_thresholds(
        Kind::Starvation,
        all_kept_out,
        &[
            ("one may have it all the while", |facts| facts.locks[0].holders.truncate(3)),
            ("the readers hardly run", |facts| facts.threads[3].on_cpu_ns = 29 * MS),
            ("no readers share it", |facts| facts.locks[0].primitive = Primitive::Mutex),
        ],
    );
    assert_eq!(weigh::value(&judge(Kind::Starvation, &all_kept_out())[0], "threads"), 2.0);
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

/// A lock of the C library that threads take so often that their calls for it come too late.
pub(super) fn refused() -> Facts {
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
    let mut taken = refused();
    taken.totals.user_samples = 1_000;
    taken.symbols = vec![below("rand", 600), below("main", 1_000)];
    taken.locks[0].wait_sites = vec![site("simulate")];
    taken.locks[0].wait_sites[0].call_path.insert(0, Frame::named("rand", Role::Runtime));
    let bound = judge(Kind::HotLock, &taken)[0].bound.unwrap();
    assert!((bound - 2.5).abs() < 0.01, "all that the library does there may go: {bound}");
    let mut facts = refused();
    facts.locks[0].primitive = Primitive::OtherLock;
    assert_eq!(kinds(&facts), [Kind::WastedWakeups], "a program's own may wake for nothing without contention");
}
