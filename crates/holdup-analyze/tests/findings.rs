//! From drawings of what threads do to findings: the whole way through the analysis, without a kernel.

use holdup_analyze::schedule::Schedule;
use holdup_analyze::{Kind, LockName, Report, Subject};

/// What comes before the threads; per thread its name, how it begins, and what it then does again and again; how often.
fn report(head: &str, threads: &[(&str, &str, &str)], times: usize) -> Report {
    let line = |(name, first, again): &(&str, &str, &str)| format!("{name}: {first}{}", again.repeat(times));
    let lines: Vec<String> = threads.iter().map(line).collect();
    let text = format!("{head}\n{}", lines.join("\n"));
    Schedule::parse(&text).unwrap_or_else(|why| panic!("{why}")).analyze()
}

fn kinds(report: &Report) -> Vec<Kind> {
    report.findings.iter().map(|finding| finding.kind).collect()
}

fn value(report: &Report, name: &str) -> f64 {
    let evidence = report.findings[0].evidence.iter().find(|evidence| evidence.name == name);
    evidence.unwrap_or_else(|| panic!("no {name}")).value
}

/// The variable of the lock that the first finding is about.
fn lock(report: &Report) -> &str {
    match &report.findings[0].subjects[0] {
        Subject::Lock { name: LockName::Symbol { name, .. }, .. } => name,
        other => panic!("{other:?}"),
    }
}

#[test]
fn three_threads_that_take_a_lock_in_turn_are_a_convoy() {
    let threads = [("A", "#", "##Mmmm"), ("B", "#", "mm##Mm"), ("C", "#", "Mmmm##")];
    let report = report("tick 50us", &threads, 400);
    assert_eq!(kinds(&report), [Kind::LockConvoy]);
    assert_eq!(lock(&report), "m");
    assert!((0.45..0.55).contains(&value(&report, "wait_share")), "{}", value(&report, "wait_share"));
    assert!((140e3..170e3).contains(&value(&report, "run_ns_median")));
    assert!((90e3..115e3).contains(&value(&report, "handover_ns_median")));
}

#[test]
fn long_sections_make_a_hot_lock() {
    let report = report("tick 1ms", &[("A", "", "####M"), ("B", "", "#mmm#")], 50);
    assert_eq!(kinds(&report), [Kind::HotLock]);
    assert!(value(&report, "holders_running_share") > 0.9);
}

#[test]
fn a_holder_that_sleeps_is_told_in_place_of_the_hot_lock() {
    for sleep in ["zzz", "fff", "iii", "ooo"] {
        let report = report("tick 1ms", &[("A", "", &format!("#{sleep}M")), ("B", "", "#mmm#")], 50);
        assert_eq!(kinds(&report), [Kind::SleepingHolder], "{sleep}");
        assert!(value(&report, "holders_off_share") > 0.9, "{sleep}");
    }
}

#[test]
fn two_threads_that_wake_each_other_are_ping_pong() {
    let report = report("tick 20us\nr = semaphore", &[("A", "#", "##Qr"), ("B", "#", "Rq##")], 1_000);
    assert_eq!(kinds(&report), [Kind::PingPong]);
    assert!((12_000.0..13_000.0).contains(&value(&report, "round_trips_per_s")));
}

#[test]
fn turns_are_turns_where_others_take_the_cpu_between_the_wake_and_the_wait() {
    // In the second half of these, B hands the turn back before A could wait.
    let unseen = ("##G~~~#gg~~~~~##G~~~~~~~~~~~", "gg~~~~~##G~~~#gg~~##gggggggg");
    for (a, b) in [("##G~~~#gg~~~~~", "gg~~~~~##G~~~#"), unseen] {
        let report = report("cpus 1\ntick 20us\ng = unknown", &[("A", "", a), ("B", "", b)], 1_000);
        assert!(!report.facts.locks.iter().any(|lock| lock.primitive.is_contention()), "{:?}", report.facts.locks);
    }
}

#[test]
fn batches_are_no_ping_pong() {
    let threads = [("A", "#", "####Qrrrrr"), ("B", "#", "Rqqq######")];
    let report = report("tick 200us\nr = semaphore", &threads, 100);
    assert_eq!(kinds(&report), []);
}

#[test]
fn four_threads_in_a_ring_switch_too_often() {
    let threads = [("A", "#", "#Tsss"), ("B", "#", "t#Utt"), ("C", "#", "uu#Vu"), ("D", "#", "Svvv#")];
    let report = report("tick 20us\ns = semaphore\nt = semaphore\nu = semaphore\nv = semaphore", &threads, 500);
    assert_eq!(kinds(&report), [Kind::ExcessiveSwitching]);
}

#[test]
fn three_threads_per_cpu_that_share_nothing_lose_nothing() {
    let threads = [
        ("A", "", "#~~"),
        ("B", "", "#~~"),
        ("C", " ", "#~~"),
        ("D", " ", "#~~"),
        ("E", "  ", "#~~"),
        ("F", "  ", "#~~"),
    ];
    let report = report("tick 4ms\ncpus 2", &threads, 20);
    assert_eq!(kinds(&report), [], "they share nothing, so taking turns costs nothing");
}

#[test]
fn a_build_is_not_oversubscribed() {
    let threads = [
        ("A@1", "", "#~~"),
        ("B@2", "", "#~~"),
        ("C@3", " ", "#~~"),
        ("D@4", " ", "#~~"),
        ("E@5", "  ", "#~~"),
        ("F@6", "  ", "#~~"),
    ];
    assert_eq!(kinds(&report("tick 4ms\ncpus 2", &threads, 20)), []);
}

#[test]
fn a_broadcast_that_most_sleep_through_is_a_herd() {
    let mut threads = vec![("main", "#", "C#########")];
    let names = ["A", "B", "C", "D", "E", "F"];
    threads.extend(names.map(|name| (name, "#", "#ccccccccc")));
    let report = report("tick 10us\nc = condvar, all", &threads, 1_000);
    assert_eq!(kinds(&report), [Kind::ThunderingHerd]);
    assert!(value(&report, "back_to_sleep_share") > 0.9);
}

#[test]
fn wakes_that_nobody_waits_for_are_wasted() {
    let report = report("tick 2us", &[("A", "#", "M"), ("B", "#", "#")], 40_000);
    assert_eq!(kinds(&report), [Kind::WastedWakeups]);
    assert_eq!(lock(&report), "m");
}

#[test]
fn one_worker_with_most_of_the_work_keeps_the_others_at_the_barrier() {
    let threads = [
        ("main", "#", "jjjjjjjjjj"),
        ("worker1", "#", "#########B"),
        ("worker2", "#", "bbbbbbbbb#"),
        ("worker3", "#", "bbbbbbbbb#"),
        ("worker4", "#", "bbbbbbbbb#"),
    ];
    assert_eq!(kinds(&report("tick 1ms", &threads, 20)), [Kind::Imbalance]);
}

#[test]
fn a_thread_that_does_nothing_but_wait_for_its_device_is_io_bound() {
    let threads = [("A", "", "#fffffffff"), ("B", "", "##pppppppp"), ("C", "", "#ooooooooo")];
    assert_eq!(kinds(&report("tick 100us", &threads, 100)), [Kind::IoBound]);
}

#[test]
fn a_preempted_holder_of_low_priority_is_an_inversion() {
    let threads = [("low", "", "#~~~M"), ("high", "", "#mmm#"), ("middle", "", "z###z")];
    let report = report("tick 1ms\npriority low 39\npriority middle 25", &threads, 30);
    assert_eq!(kinds(&report), [Kind::PriorityInversion]);
}

#[test]
fn healthy_programs_have_no_findings() {
    type Shape<'a> = (&'a str, &'a str, &'a [(&'a str, &'a str, &'a str)], usize);
    let shapes: [Shape; 8] = [
        ("threads that compute", "tick 1ms", &[("A", "", "#####"), ("B", "", "#####")], 50),
        ("one thread", "tick 1ms", &[("A", "", "#####")], 50),
        ("sleep", "tick 1ms", &[("A", "#", "zzzzz")], 50),
        (
            "a pool that waits for work",
            "tick 100us",
            &[("main", "#", "Cppppppppp"), ("A", "#", "##cccccccc"), ("B", "#", "cccccccccc")],
            100,
        ),
        (
            "devices and descriptors",
            "tick 100us",
            &[("A", "", "#f########"), ("B", "", "##pppppppp"), ("C", "", "#ooooooooo")],
            100,
        ),
        ("a pipeline with batches", "tick 1ms", &[("A", "#", "####C#####"), ("B", "#", "#ccc######")], 50),
        ("a lock that is rarely in the way", "tick 100us", &[("A", "", &rare(true)), ("B", "", &rare(false))], 10),
        ("a convoy of ten milliseconds", "tick 50us", &[("A", "#", "##Mm"), ("B", "#", "Mm##")], 50),
    ];
    for (name, head, threads, times) in shapes {
        assert_eq!(kinds(&report(head, threads, times)), [], "{name}");
    }
}

/// Two hundred ticks, in one of which the other waits.
fn rare(holds: bool) -> String {
    let end = if holds { "##M" } else { "#m#" };
    format!("{}{end}", "#".repeat(197))
}
