//! Every workload with a handful of locks, in this process: the invariants hold and the counts are exact.

#![allow(clippy::unwrap_used, reason = "a test panics where something is not as expected")]

use holdup_bench::sample::{FailureKind, Sample};
use holdup_bench::spec::Spec;
use holdup_bench::{check, locks, measure};

fn spec(words: &str) -> Spec {
    let spec = Spec::from_words(words.split_whitespace()).unwrap();
    assert_eq!(check(&spec), Ok(()), "{words}");
    spec
}

/// Measures on a thread of its own: a measurement binds the thread that conducts it.
fn sample(words: &str) -> Sample {
    let spec = spec(words);
    let result = std::thread::spawn(move || measure(&spec)).join().unwrap();
    result.unwrap_or_else(|failure| panic!("{words}: {failure:?}"))
}

fn extra(sample: &Sample, name: &str) -> Option<f64> {
    sample.extra.iter().find(|(found, _)| found == name).map(|(_, value)| *value)
}

const SOME: &[&str] =
    &["pthread", "std", "adaptive", "ttas", "mcs", "eventfd", "parking-lot-fair", "mcslock", "std-rwlock"];

#[test]
fn small_workloads_do_what_was_asked() {
    for lock in SOME {
        for workload in ["empty", "counter", "free-list", "thread-id"] {
            let words = format!(
                "lock={lock} workload={workload} threads=3 iterations=1000 hold=20units gap=uniform:0..10units"
            );
            let sample = sample(&words);
            assert_eq!(sample.thread_ops, [1000, 1000, 1000], "{words}");
            assert_eq!(sample.acquisitions, 3000, "{words}");
            assert!((sample.hold_ns_mean / sample.unit_ns - 20.0).abs() < 1e-6, "{words}: {sample:?}");
            assert!((sample.gap_ns_mean / sample.unit_ns - 5.0).abs() < 1.0, "{words}: {sample:?}");
            assert_eq!(sample.thread_finish_ns.iter().max(), Some(&sample.elapsed_ns));
            assert_eq!(sample.thread_life_switches.len(), 3, "{words}");
            let measured = sample.switches().unwrap();
            assert!(sample.thread_life_switches.iter().sum::<u64>() >= measured, "{words}: {sample:?}");
        }
    }
}

#[test]
fn every_lock_counts_right() {
    for entry in
        locks::all().iter().filter(|entry| !entry.is_map() && !entry.name.starts_with("broken") && entry.name != "none")
    {
        for words in ["iterations=500", "iterations=300 depth=2 nest=2"] {
            let words = format!("lock={} workload=counter threads=2 {words}", entry.name);
            let sample = sample(&words);
            let per_op = if words.contains("depth") { 4 } else { 1 };
            assert_eq!(sample.acquisitions, sample.ops() * per_op, "{words}");
            let wrapped = words.contains("depth") && !entry.recursive;
            assert_eq!(extra(&sample, "recursion_wrapper_ns").is_some(), wrapped, "{words}");
        }
    }
}

#[test]
fn depth_zero_and_none_do_not_synchronise_and_say_so() {
    for words in ["lock=pthread depth=0", "lock=none", "lock=none latency=on"] {
        let sample = sample(&format!("{words} workload=counter threads=2 iterations=1000"));
        assert_eq!((sample.ops(), sample.acquisitions), (2000, 0), "{words}");
        assert!(extra(&sample, "lost_updates").is_some(), "{words}");
    }
    assert_eq!(extra(&sample("lock=std iterations=10"), "lost_updates"), None);
}

#[test]
fn a_duration_ends_every_workload() {
    for workload in [
        "workload=empty",
        "workload=counter active=1",
        "workload=counter active=2 gate=acquire",
        "workload=free-list yield=released",
        "workload=db",
        "workload=parallel-for chunk=7",
        "workload=parallel-for counter=sharded",
        "workload=ping-pong",
        "workload=map lock=table-map",
    ] {
        let sample = sample(&format!("threads=4 duration=20ms {workload}"));
        assert!(sample.elapsed_ns >= 19_000_000 && sample.ops() > 0, "{workload}: {sample:?}");
        assert_eq!(sample.thread_ops.len(), 4, "{workload}");
    }
}

#[test]
fn factors_of_the_general_loop() {
    for words in [
        "yield=holding",
        "yield=both:sleep:1us",
        "active=1",
        "active=2 gate=acquire",
        "active=9",
        "pin=on",
        "cpus=1",
        "offset=16",
        "share=data",
        "share=neighbour",
        "hold=exp:100ns gap=uniform:0..200ns",
        "lock=adaptive spin=50",
        "lock=futex spin=50",
        "lock=tas rmw=cmpxchg spin-on=read backoff=count",
        "lock=ttas rmw=xchg spin-on=rmw backoff=none",
        "lock=straddle offset=61",
        "lock=mcs-spin gate=acquire active=1",
        "lock=fair take=try gap=1us",
        "lock=mcs take=try gap=1us",
    ] {
        let sample = sample(&format!("threads=3 iterations=400 {words}"));
        assert_eq!(sample.thread_ops, [400, 400, 400], "{words}");
    }
}

#[test]
fn who_tries_does_other_work_while_the_lock_is_taken() {
    let of = |take: &str| sample(&format!("lock=fair threads=4 duration=50ms hold=20us gap=20us take={take}"));
    let (waits, tries) = (of("wait"), of("try"));
    assert!((waits.gap_ns_mean / 20e3 - 1.0).abs() < 0.05, "{}", waits.gap_ns_mean);
    assert!(tries.gap_ns_mean > waits.gap_ns_mean * 1.05, "{}", tries.gap_ns_mean);
    assert!(tries.ops() > 0);
}

#[cfg(target_os = "linux")]
#[test]
fn a_lock_that_serves_processes_excludes_between_them() {
    for lock in ["eventfd", "pthread-shared", "ttas"] {
        let sample = sample(&format!("lock={lock} workload=thread-id between=processes threads=3 duration=20ms"));
        assert_eq!(sample.thread_ops.len(), 1, "{lock}: the first is measured");
        assert!(sample.ops() > 0, "{lock}");
    }
}

#[test]
fn priorities_and_slices_work_or_say_what_they_need() {
    for words in
        ["boost=on", "boost=realtime", "boost=realtime slice=3ms", "slice=3ms", "latency=on", "slice=20ms pin=on"]
    {
        let spec = spec(&format!("threads=2 iterations=300 {words}"));
        match std::thread::spawn(move || measure(&spec)).join().unwrap() {
            Ok(sample) => assert_eq!(sample.ops(), 600, "{words}"),
            Err(failure) => {
                println!("skipped: {words}: {}", failure.detail);
                assert_eq!(failure.kind, FailureKind::Unsupported, "{words}: {failure:?}");
            }
        }
    }
}

#[test]
fn latency_times_a_part_of_the_acquisitions_and_tells_its_cost() {
    let sample = sample("lock=std threads=2 duration=60ms hold=100ns gap=1us latency=on");
    let latency = sample.latency.unwrap();
    assert!(latency.count > 0 && latency.count <= sample.acquisitions, "{latency:?}");
    assert!(latency.p50_ns <= latency.p99_ns && latency.p99_ns <= latency.max_ns, "{latency:?}");
    assert!(latency.sampled_every >= 1 && latency.clock_ns > 0.0);
    assert!(latency.cost_share < 0.1, "the promise is 0.05: {latency:?}");
}

#[test]
fn db_splits_its_iterations_and_checks_its_updates() {
    for table in ["one", "7", "entry"] {
        for lock in ["adaptive", "pthread", "none"] {
            let words = format!(
                "lock={lock} workload=db table={table} entries=20 threads=3 iterations=1001 read=0 update=5units \
                 mix=40:60"
            );
            let sample = sample(&words);
            assert_eq!(sample.thread_ops, [334, 334, 333], "{words}");
            let updates = extra(&sample, "updates").unwrap();
            assert!((500.0..=700.0).contains(&updates), "{words}: {updates}");
        }
    }
    let sample = sample("lock=std-rwlock workload=db table=rw threads=2 iterations=500 read=1us update=1us");
    assert_eq!(sample.ops(), 500);
}

#[test]
fn parallel_for_claims_every_index_once() {
    let mut counters = vec!["xadd", "cas-loop", "mutex", "sharded"];
    if cfg!(target_arch = "x86_64") {
        counters.push("cmpxchg8b");
    }
    for counter in counters {
        for chunk in [1, 64] {
            let words = format!("workload=parallel-for counter={counter} chunk={chunk} threads=3 iterations=10001");
            let sample = sample(&words);
            assert_eq!(sample.ops(), 10_001, "{words}");
            let claims = if counter == "mutex" { 10_001_u64.div_ceil(chunk)..=u64::MAX } else { 0..=0 };
            assert!(claims.contains(&sample.acquisitions), "{words}: {}", sample.acquisitions);
        }
    }
}

#[test]
fn packets_come_back_as_often_as_they_went() {
    for words in ["threads=1", "threads=2", "threads=4 batch=7", "threads=2 lock=adaptive hold=1us gap=exp:1us"] {
        let sample = sample(&format!("workload=ping-pong iterations=500 {words}"));
        // One thread is both sides of each packet.
        let each = if words == "threads=1" { 1000 } else { 500 };
        assert!(sample.thread_ops.iter().all(|&ops| ops == each), "{words}: {sample:?}");
        assert!(extra(&sample, "packets_per_s").unwrap() > 0.0);
        assert!(extra(&sample, "round_trips_per_s").unwrap() > 0.0);
        assert!(extra(&sample, "run_length_mean_ns").unwrap() > 0.0);
        assert_eq!(sample.acquisitions == 0, words == "threads=1", "one thread hands nothing over");
    }
}

#[test]
fn maps_keep_every_update() {
    for entry in locks::all().iter().filter(|entry| entry.is_map()) {
        let sample = sample(&format!("lock={} workload=map threads=2 iterations=2000 mix=50:50", entry.name));
        assert_eq!(sample.ops(), 4000, "{}", entry.name);
    }
}

#[test]
fn the_same_cell_draws_the_same_work() {
    let words = "lock=std threads=2 iterations=2000 hold=uniform:0..50units gap=exp:20units";
    let (one, two) = (sample(words), sample(words));
    let steps = |sample: &Sample| {
        (
            (sample.hold_ns_mean / sample.unit_ns * 4000.0).round(),
            (sample.gap_ns_mean / sample.unit_ns * 4000.0).round(),
        )
    };
    assert_eq!(steps(&one), steps(&two));
    assert!((one.hold_ns_mean / one.unit_ns - 25.0).abs() < 1.0);
}

/// All that this system has, and a lock without readers.
fn reader_writer() -> impl Iterator<Item = &'static str> {
    let shared = holdup_bench::locks::all().iter().filter(|lock| lock.is_reader_writer());
    shared.map(|lock| lock.name).chain(["adaptive"])
}

#[test]
fn readers_and_writers_do_what_was_asked() {
    for lock in reader_writer() {
        let words = format!("lock={lock} workload=rw threads=3 iterations=2000 read-share=75 hold=20units latency=on");
        let sample = sample(&words);
        assert_eq!((sample.thread_ops.as_slice(), sample.acquisitions), ([2000; 3].as_slice(), 6000), "{words}");
        let per_s = |name| extra(&sample, name).unwrap();
        let share = per_s("reads_per_s") / (per_s("reads_per_s") + per_s("writes_per_s"));
        assert!((share - 0.75).abs() < 0.05, "{words}: {share}");
        for side in ["read", "write"] {
            let wait = |what: &str| extra(&sample, &format!("{side}_wait_{what}_ns")).unwrap();
            assert!(wait("p50") <= wait("p99") && wait("p99") <= wait("max"), "{words}: {sample:?}");
        }
    }
}

#[test]
fn writers_write_and_the_others_read() {
    for lock in reader_writer() {
        let share = |writers: u32| {
            let words = format!("lock={lock} workload=rw threads=4 iterations=300 writers={writers}");
            let sample = sample(&words);
            assert!(extra(&sample, "write_wait_max_ns").is_none(), "no wait is timed without latency");
            let per_s = |name| extra(&sample, name).unwrap();
            per_s("writes_per_s") / (per_s("reads_per_s") + per_s("writes_per_s"))
        };
        let shares = [share(0), share(1), share(4)];
        assert!(shares.iter().zip([0.0, 0.25, 1.0]).all(|(is, right)| (is - right).abs() < 1e-9), "{lock}: {shares:?}");
    }
}

#[test]
fn nobody_is_kept_out_without_a_lock() {
    let sample = sample("lock=none workload=rw threads=1 iterations=1000 read-share=0");
    assert_eq!((sample.acquisitions, extra(&sample, "lost_updates")), (0, Some(0.0)));
}
