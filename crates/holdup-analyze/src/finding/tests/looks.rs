//! Polling, in threads and in goroutines.

use super::*;

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

pub(super) fn polling() -> Facts {
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
pub(super) fn looking_for_long() -> Facts {
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
            ("it hardly sleeps", |facts| facts.threads[1].retries.ns = 49 * MS),
            ("it mostly works", |facts| facts.threads[1].on_cpu_ns = 801 * MS),
        ],
    );
    assert_eq!(judge(Kind::Polling, &facts())[0].severity, 0.2);
}

pub(super) fn looking_goroutines() -> Facts {
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
pub(super) fn polling_in_a_chain() -> Facts {
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
