//! Worker processes: what ends well, what fails, and that each failure is told as what it is.
//!
//! This test has its own main, because it is also the worker: started with `__worker` it measures one cell.

#![allow(clippy::unwrap_used, reason = "a test panics where something is not as expected")]

use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use holdup::runner::worker::{self, Run};
use holdup_bench::sample::FailureKind;
use holdup_bench::spec::Spec;
use holdup_bench::worker::worker_main;
use holdup_run::OwnProgram;

/// Longer than any good run needs on a busy machine.
const PLENTY: Duration = Duration::from_secs(60);

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.first().map(String::as_str) {
        Some("__worker") => ExitCode::from(worker_main(&args[1..]) as u8),
        Some("__silent") => ExitCode::SUCCESS,
        Some("__half") => {
            println!("{{\"sample\":{{\"elapsed_ns\":5");
            ExitCode::SUCCESS
        }
        Some("__parent") => {
            run_as("__worker", "lock=std background=on duration=60s threads=2", PLENTY);
            ExitCode::SUCCESS
        }
        Some("__deaf") => loop {
            std::thread::sleep(PLENTY);
        },
        _ => run_tests(&args),
    }
}

const TESTS: &[(&str, fn())] = &[
    ("a_good_cell_gives_a_sample_and_the_process_accounts", a_good_cell_gives_a_sample_and_the_process_accounts),
    ("a_cell_that_this_machine_cannot_do_is_unsupported", a_cell_that_this_machine_cannot_do_is_unsupported),
    ("a_worker_that_does_not_end_is_killed_and_reaped", a_worker_that_does_not_end_is_killed_and_reaped),
    ("a_report_without_its_end_is_a_crash", a_report_without_its_end_is_a_crash),
    ("competing_processes_are_gone_afterwards", competing_processes_are_gone_afterwards),
    ("nobody_outlives_a_parent_that_was_killed", nobody_outlives_a_parent_that_was_killed),
    ("a_missing_program_is_an_error", a_missing_program_is_an_error),
    ("a_lock_that_does_not_exclude_is_found_in_every_workload", broken::a_lock_that_does_not_exclude_is_found),
    ("a_lock_that_is_never_released_is_a_hang", broken::a_lock_that_is_never_released_is_a_hang),
    ("a_lock_that_aborts_is_a_crash_with_its_last_words", broken::a_lock_that_aborts_is_a_crash),
    ("a_lock_that_panics_is_a_crash_with_its_message", broken::a_lock_that_panics_is_a_crash),
];

/// As the usual test runner does: names in `args` choose, flags are ignored.
fn run_tests(args: &[String]) -> ExitCode {
    let filters: Vec<&String> = args.iter().filter(|arg| !arg.starts_with('-')).collect();
    if args.iter().any(|arg| arg == "--list") {
        TESTS.iter().for_each(|(name, _)| println!("{name}: test"));
        return ExitCode::SUCCESS;
    }
    let mut failed = 0;
    for (name, test) in TESTS.iter().filter(|(name, _)| filters.is_empty() || filters.iter().any(|f| name.contains(*f)))
    {
        let good = std::panic::catch_unwind(test).is_ok();
        println!("test {name} ... {}", if good { "ok" } else { "FAILED" });
        failed += u32::from(!good);
    }
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn program(role: &str) -> OwnProgram {
    let exe = std::env::current_exe().expect("a running program has a file");
    OwnProgram { exe, args: vec![role.to_owned()] }
}

fn run_as(role: &str, words: &str, limit: Duration) -> Run {
    let spec = Spec::from_words(words.split_whitespace()).unwrap();
    worker::run(&program(role), &spec, limit).unwrap()
}

fn a_good_cell_gives_a_sample_and_the_process_accounts() {
    let run = run_as("__worker", "lock=pthread workload=counter threads=3 iterations=5000", PLENTY);
    let sample = run.outcome.unwrap();
    assert_eq!(sample.thread_ops, [5000, 5000, 5000]);
    assert_eq!(sample.acquisitions, 15_000);
    assert!(sample.elapsed_ns > 0 && sample.elapsed_ns <= run.process.elapsed_ns);
    assert!(run.process.max_rss_bytes > 100_000 && run.process.minor_faults.is_some_and(|faults| faults > 0));
    assert!((0.0..=1.0).contains(&run.contamination.background_share));
}

fn a_cell_that_this_machine_cannot_do_is_unsupported() {
    let failure = run_as("__worker", "cpus=4000", PLENTY).outcome.unwrap_err();
    assert_eq!(failure.kind, FailureKind::Unsupported);
    assert!(failure.detail.contains("1 to"), "{}", failure.detail);
    let failure = run_as("__worker", "lock=pthread offset=3 iterations=1", PLENTY).outcome.unwrap_err();
    assert_eq!(failure.kind, FailureKind::Unsupported);
    assert!(failure.detail.contains("multiple of"), "{}", failure.detail);
}

fn a_worker_that_does_not_end_is_killed_and_reaped() {
    let start = Instant::now();
    let run = run_as("__deaf", "lock=none", Duration::from_millis(300));
    let failure = run.outcome.unwrap_err();
    assert_eq!(failure.kind, FailureKind::Hang);
    assert!(failure.detail.contains("0.3 s"), "{}", failure.detail);
    assert!(start.elapsed() >= Duration::from_millis(300) && start.elapsed() < PLENTY);
}

fn a_report_without_its_end_is_a_crash() {
    for role in ["__silent", "__half"] {
        let failure = run_as(role, "lock=none", PLENTY).outcome.unwrap_err();
        assert_eq!(failure.kind, FailureKind::Crash, "{role}");
        assert!(failure.detail.contains("in the middle of its report"), "{}", failure.detail);
    }
}

fn competing_processes_are_gone_afterwards() {
    let sample = run_as("__worker", "lock=std background=on iterations=2000 threads=2", PLENTY).outcome.unwrap();
    assert_eq!(sample.ops(), 4000);
    assert_eq!(running(), 1, "only this test itself");
}

fn nobody_outlives_a_parent_that_was_killed() {
    let exe = std::env::current_exe().unwrap();
    let mut parent = Command::new(exe).arg("__parent").spawn().unwrap();
    // This test, the parent, its worker, and a hog per CPU.
    wait_until("the worker and its hogs run", || running() >= 4);
    parent.kill().unwrap();
    parent.wait().unwrap();
    wait_until("all of them are gone", || running() == 1);
}

fn wait_until(what: &str, done: impl Fn() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < PLENTY, "in vain: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// How many processes run this very program.
fn running() -> usize {
    let exe = std::env::current_exe().unwrap();
    std::fs::read_dir("/proc")
        .unwrap()
        .filter_map(Result::ok)
        .filter(|entry| entry.file_name().to_string_lossy().parse::<u32>().is_ok())
        .filter(|entry| std::fs::read_link(entry.path().join("exe")).is_ok_and(|other| other == exe))
        .count()
}

fn a_missing_program_is_an_error() {
    let program = OwnProgram { exe: "/nonexistent/holdup".into(), args: vec![] };
    let error = worker::run(&program, &Spec::default(), PLENTY).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::NotFound);
}

mod broken {
    use super::*;

    pub fn a_lock_that_does_not_exclude_is_found() {
        for workload in [
            "workload=empty",
            "workload=counter hold=5us",
            "workload=counter yield=holding",
            "workload=free-list yield=holding",
            "workload=thread-id yield=holding",
            "workload=db entries=1 mix=0:100",
            "workload=parallel-for counter=mutex hold=5us",
        ] {
            let words = format!("lock=broken-lost-update threads=4 duration=150ms {workload}");
            let failure = run_as("__worker", &words, PLENTY).outcome.expect_err(workload);
            assert_eq!(failure.kind, FailureKind::LostUpdate, "{workload}: {}", failure.detail);
            assert!(failure.detail.contains("does not exclude"), "{}", failure.detail);
        }
    }

    pub fn a_lock_that_is_never_released_is_a_hang() {
        let run = run_as("__worker", "lock=broken-deadlock threads=2 duration=100ms", Duration::from_secs(2));
        assert_eq!(run.outcome.unwrap_err().kind, FailureKind::Hang);
    }

    pub fn a_lock_that_aborts_is_a_crash() {
        let failure = run_as("__worker", "lock=broken-crash threads=2 duration=200ms", PLENTY).outcome.unwrap_err();
        assert_eq!(failure.kind, FailureKind::Crash);
        assert!(failure.detail.contains("SIGABRT"), "{}", failure.detail);
        assert!(failure.detail.contains("the end, as promised"), "{}", failure.detail);
    }

    pub fn a_lock_that_panics_is_a_crash() {
        let failure = run_as("__worker", "lock=broken-panic threads=2 duration=200ms", PLENTY).outcome.unwrap_err();
        assert_eq!(failure.kind, FailureKind::Crash);
        assert!(failure.detail.contains("broken-panic: as promised"), "{}", failure.detail);
    }
}
