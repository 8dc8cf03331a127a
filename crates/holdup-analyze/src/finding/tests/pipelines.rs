//! Stages that are too slow.

use super::*;

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

pub(super) fn stage() -> Facts {
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

/// Thread 0 asks a helper for each piece and polls for its answer; others wait for room, one of them for long.
#[test]
fn a_stage_that_polls_for_answers_is_not_idle_if_others_wait_to_hand_over() {
    let polling = |function: &str| {
        let mut facts = quiet(4);
        spent(&mut facts, 0, AccountState::Work, 970 * MS);
        off(&mut facts, 0, Reason::Poll, 300, 960 * MS);
        facts.locks = vec![LockFacts { wait_sites: vec![site(function)], pid: Pid(PID), ..LockFacts::default() }];
        let waits = [(1, 900 * MS), (2, 50 * MS), (3, 50 * MS)];
        facts.blame = waits.map(|(waiter, ns)| blamed(waiter, Some(0), Leaf::Outside, 0, ns)).into();
        facts
    };
    let found = judge(Kind::SlowStage, &polling("qqueueEnqMsg"));
    assert_eq!(found.iter().map(|one| (one.severity, one.subjects.len())).collect::<Vec<_>>(), [(1.0, 1)]);
    assert!(judge(Kind::SlowStage, &polling("wait_for_event")).is_empty(), "an event loop has nothing to do");
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
