//! Excessive switching and ping-pong.

use super::*;

pub(super) fn switching() -> Facts {
    let mut facts = quiet(3);
    busy(&mut facts, 200 * MS);
    off(&mut facts, 1, Reason::Futex(Primitive::Semaphore), 1_000, 700 * MS);
    off(&mut facts, 2, Reason::Preempted, 1_000, 700 * MS);
    facts.totals.switches = 2_000;
    facts.totals.run_ns = histogram(2_000, 200 * US);
    facts
}

/// A goroutine hands over tiny things.
pub(super) fn handing_over() -> Facts {
    let mut facts = quiet(2);
    busy(&mut facts, 400 * MS);
    facts.totals.user_samples = 300;
    facts.symbols = vec![below("runtime.chansend", 65), below("runtime.park_m", 40), below("runtime.mallocgc", 195)];
    let mut through = site("main.deliver");
    through.call_path.insert(0, Frame::named("runtime.chansend", Role::Runtime));
    facts.threads[1].hot_sites = vec![site("main.parse"), through];
    facts
}

#[test]
fn goroutines_that_hand_over_little_at_their_thresholds() {
    holds_at_its_thresholds(
        Kind::ExcessiveSwitching,
        handing_over,
        &[
            ("they mostly work", |facts| facts.symbols[0].inclusive = 64),
            ("they are mostly idle", |facts| busy(facts, 399 * MS)),
            ("samples are few", |facts| {
                facts.totals.user_samples = 198;
                facts.symbols[0].inclusive = 59;
            }),
        ],
    );
    let found = &judge(Kind::ExcessiveSwitching, &handing_over())[0];
    assert_eq!((found.severity, &found.subjects[..]), (0.35, &[Subject::Function("main.deliver".into())][..]));
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

pub(super) fn pair() -> Facts {
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
pub(super) fn turns() -> Facts {
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
