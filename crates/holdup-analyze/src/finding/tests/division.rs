//! How work is divided: uneven shares, serial phases, messages that are copied.

use super::*;

pub(super) fn uneven() -> Facts {
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

/// A barrier that threads 1.. wait at for the first.
pub(super) fn alone() -> Facts {
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
pub(super) fn goroutines() -> Facts {
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
pub(super) fn rounds() -> Facts {
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

/// Messages of workers of Node are copied for two fifths of the samples.
pub(super) fn copying() -> Facts {
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

/// Thread 0 starts fifty threads, one after the other, and waits for each.
pub(super) fn one_by_one() -> Facts {
    let mut facts = quiet(1);
    let turn = |index: u64| ThreadFacts {
        tid: Tid(PID + 1 + index as u32),
        pid: Pid(PID),
        born_ns: S + index * 20 * MS + MS,
        ended_ns: S + index * 20 * MS + 9 * MS,
        exited: true,
        ..ThreadFacts::default()
    };
    facts.threads.extend((0..50).map(turn));
    facts.locks = vec![LockFacts {
        primitive: Primitive::Join,
        pid: Pid(PID),
        wait_ns: histogram(50, 8 * MS),
        waiters: vec![(Tid(PID), OffTime { count: 50, ns: 400 * MS })],
        wait_sites: vec![site("post")],
        ..LockFacts::default()
    }];
    facts
}

#[test]
fn threads_one_after_the_other_at_their_thresholds() {
    holds_at_its_thresholds(
        Kind::SerialPhase,
        one_by_one,
        &[
            ("they are few", |facts| facts.locks[0].waiters[0].1.count = 49),
            ("it hardly waits", |facts| facts.locks[0].waiters[0].1.ns = 399 * MS),
            ("they are there for less time", |facts| facts.threads[7].ended_ns -= MS),
            ("two are there at once", |facts| {
                (1..=25).for_each(|at| facts.threads[2 * at].born_ns = facts.threads[2 * at - 1].born_ns);
            }),
            ("they do not end", |facts| facts.threads.iter_mut().for_each(|thread| thread.exited = false)),
        ],
    );
    let found = &judge(Kind::SerialPhase, &one_by_one())[0];
    assert_eq!((found.cure, found.severity), (Cure::StartSeveral, 0.2), "two at once would save half");
}

/// A fifth of the CPU samples are in handshakes of both sides.
pub(super) fn connecting() -> Facts {
    let mut facts = quiet(3);
    busy(&mut facts, 300 * MS);
    facts.totals.user_samples = 500;
    facts.symbols =
        vec![below("ossl_statem_connect", 60), below("ossl_statem_accept", 40), below("SSL_do_handshake", 70)];
    let mut fetch = site("fetch");
    fetch.call_path.insert(0, Frame::named("ossl_statem_connect", Role::Runtime));
    facts.threads[1].hot_sites = vec![site("parse"), fetch];
    facts
}

#[test]
fn connections_that_are_made_anew_at_the_thresholds() {
    holds_at_its_thresholds(
        Kind::ConnectionChurn,
        connecting,
        &[
            ("they cost less", |facts| facts.symbols[1].inclusive = 39),
            ("samples are few", |facts| {
                facts.totals.user_samples = 99;
                facts.symbols[1].inclusive = 39;
            }),
            ("it is another function", |facts| {
                facts.symbols[1].frame = Frame::named("ossl_statem_accepted", Role::Runtime);
            }),
        ],
    );
    assert_eq!(judge(Kind::ConnectionChurn, &connecting())[0].subjects, [Subject::Function("fetch".into())]);
    let mut of_go = connecting();
    of_go.threads[1].hot_sites.clear();
    let wait = ["runtime.gopark", "net/http.(*Transport).getConn", "main.lookup"];
    let roles = [Role::Scheduler, Role::Runtime, Role::Program];
    let call_path = wait.iter().zip(roles).map(|(name, role)| Frame::named(name, role)).collect();
    let site = Site { call_path, count: 1, ns: 0 };
    let doing = vec![GoroutineGroup { state: GoroutineState::Receive, site, mean: 3.0, looking: None }];
    of_go.goroutines = vec![GoroutineFacts { doing, ..GoroutineFacts::default() }];
    let found = judge(Kind::ConnectionChurn, &of_go);
    assert_eq!(found[0].subjects, [Subject::Function("main.lookup".into())], "another goroutine makes it");
    let mut nameless = connecting();
    nameless.symbols = vec![below("SSL_do_handshake", 100)];
    assert_eq!(judge(Kind::ConnectionChurn, &nameless).len(), 1, "the library's own functions have no names");
}

/// Four threads wait for connections in one loop, and the first of them is busy for 85% of the second.
pub(super) fn with_all() -> Facts {
    let mut facts = quiet(4);
    let waits = || Site {
        call_path: vec![Frame::named("epoll_wait", Role::Runtime), Frame::named("serve", Role::Program)],
        ..site("serve")
    };
    facts.threads[0].on_cpu_ns = 850 * MS;
    facts.threads[0].account.ns[AccountState::Running as usize] = 850 * MS;
    facts.threads[0].hot_sites = vec![Site {
        call_path: vec![Frame::named("answer", Role::Program), Frame::named("serve", Role::Program)],
        ..site("answer")
    }];
    for thread in &mut facts.threads[1..] {
        thread.off.insert(Reason::Poll, OffTime::once(900 * MS));
        thread.off_sites = vec![waits()];
    }
    facts
}

/// Three processes that a fourth has started: one has most of the work.
pub(super) fn shared_out() -> Facts {
    let mut facts = quiet(4);
    for (index, work_ns) in [(1, 900 * MS), (2, 700 * MS), (3, 300 * MS)] {
        let thread = &mut facts.threads[index];
        thread.pid = Pid(PID + index as u32);
        thread.hot_sites = vec![site("fit")];
        (thread.on_cpu_ns, thread.ended_ns, thread.exited) = (work_ns, S + work_ns, true);
        facts.processes.push(ProcessFacts {
            pid: thread.pid,
            started_by: Some(Pid(PID)),
            threads: 1,
            ..ProcessFacts::default()
        });
    }
    facts.totals.on_cpu_ns = 1_900 * MS;
    facts
}

#[test]
fn the_last_of_several_processes_at_its_thresholds() {
    holds_at_its_thresholds(
        Kind::Imbalance,
        shared_out,
        &[
            ("another goes on as long", |facts| facts.threads[2].ended_ns = S + 701 * MS),
            ("it does something else", |facts| facts.threads[1].hot_sites = vec![site("collect")]),
            ("it began later", |facts| facts.threads[1].born_ns = S + 101 * MS),
            ("the others idle", |facts| facts.threads[2].on_cpu_ns = 340 * MS),
            ("who started them works beside them", |facts| facts.threads[0].on_cpu_ns = 301 * MS),
            ("nobody is known to have started them", |facts| {
                facts.processes.iter_mut().for_each(|process| process.started_by = None);
            }),
        ],
    );
    let found = &judge(Kind::Imbalance, &shared_out())[0];
    assert_eq!(found.subjects, [weigh::thread_subject(&shared_out(), Tid(PID + 1))]);
    let saved = 0.9 - 1.9 / 3.0;
    assert!((found.severity - saved).abs() < 1e-9, "{}: four CPUs share 1.9 s of work among three", found.severity);
}

#[test]
fn one_that_has_all_events_at_its_thresholds() {
    holds_at_its_thresholds(
        Kind::Imbalance,
        with_all,
        &[
            ("it is less busy", |facts| {
                facts.threads[0].account.ns[AccountState::Running as usize] -= 10 * MS;
            }),
            ("another has some", |facts| facts.threads[3].on_cpu_ns = 100 * MS),
            ("it is alone", |facts| facts.threads.truncate(1)),
            ("another works as much", |facts| {
                facts.threads.push(ThreadFacts { tid: Tid(PID + 9), ..facts.threads[0].clone() });
            }),
            ("each has a loop of its own", |facts| {
                let mut place = facts.threads[0].hot_sites[0].clone();
                place.call_path = vec![Frame::named("uv__io_poll", Role::Program)];
                facts.threads.iter_mut().for_each(|thread| thread.off_sites = vec![place.clone()]);
            }),
            ("the others do something else", |facts| {
                facts.threads[1..].iter_mut().for_each(|thread| thread.off_sites = vec![site("log")]);
            }),
            ("it does something else", |facts| facts.threads[0].hot_sites = vec![site("compute")]),
            ("the others were there for less time", |facts| {
                facts.threads[1..].iter_mut().for_each(|thread| thread.born_ns += 600 * MS);
            }),
        ],
    );
    let found = &judge(Kind::Imbalance, &with_all())[0];
    assert_eq!((found.cure, found.severity), (Cure::SpreadEvents, 0.85 * 0.75), "each of four CPUs has a quarter");
    let mut facts = with_all();
    facts.threads[1..].iter_mut().for_each(|thread| thread.off = [(Reason::Sleep, OffTime::once(S))].into());
    assert!(judge(Kind::Imbalance, &facts).is_empty(), "the others do not wait for events");
}
