//! Sweeps on a machine that does as it is told.

use super::*;
use crate::plan::Sweep;
use crate::store::RunOptions;
use holdup_bench::machine::Contamination;
use holdup_bench::sample::Sample;
use holdup_bench::sample::{Failure, FailureKind};
use holdup_run::ProcessUse;
use std::sync::atomic::AtomicUsize;

/// Answers each call by a function of its number and the cell.
struct Scripted<F> {
    answer: F,
    calls: usize,
}

impl<F: FnMut(usize, &Spec) -> io::Result<Run>> Workers for Scripted<F> {
    fn run(&mut self, spec: &Spec, _limit: Duration) -> io::Result<Run> {
        self.calls += 1;
        (self.answer)(self.calls - 1, spec)
    }
}

fn good() -> Run {
    Run {
        outcome: Ok(Sample { elapsed_ns: 200_000_000, thread_ops: vec![100], ..Sample::default() }),
        process: ProcessUse { elapsed_ns: 250_000_000, ..ProcessUse::default() },
        contamination: Contamination::default(),
    }
}

fn noisy() -> Run {
    Run { contamination: Contamination { steal_share: 0.9, background_share: 0.0 }, ..good() }
}

fn failed(kind: FailureKind) -> Run {
    Run { outcome: Err(Failure { kind, detail: "as told".to_owned() }), ..good() }
}

/// Locks none and pthread, threads 1 and 2, three times each: 12 runs.
fn new_run(reject: bool) -> NewRun {
    let mut sweep = Sweep { name: String::new(), axes: vec![], baseline: Some("pthread".to_owned()), repeats: 3 };
    sweep.axis("lock", "none,pthread").unwrap();
    sweep.axis("threads", "1,2").unwrap();
    NewRun {
        title: "bench".to_owned(),
        command: "holdup bench".to_owned(),
        baseline: sweep.baseline.clone(),
        repeats: 3,
        options: RunOptions { reject, limit: None },
        definition: None,
        environment: vec![],
        plan: Plan::new(&[sweep], 3).unwrap(),
    }
}

fn go(answer: impl FnMut(usize, &Spec) -> io::Result<Run>) -> (Outcome, usize) {
    let mut store = Store::in_memory().unwrap();
    let mut workers = Scripted { answer, calls: 0 };
    let outcome = run(&mut store, &new_run(true), &mut workers, &mut Nobody, &AtomicBool::new(false)).unwrap();
    (outcome, workers.calls)
}

fn codes(outcome: &Outcome) -> Vec<&str> {
    outcome.record.warnings.iter().map(|(code, _)| code.as_str()).collect()
}

#[test]
fn every_planned_run_is_measured_once() {
    let (outcome, calls) = go(|_, _| Ok(good()));
    assert_eq!(calls, 12);
    assert!(outcome.record.complete && !outcome.interrupted);
    assert!(outcome.record.cells.iter().all(|cell| cell.counted().count() == 3));
    assert_eq!(outcome.record.rejected(), 0);
    assert!(!codes(&outcome).contains(&"noisy-machine"));
}

#[test]
fn a_noisy_run_is_rejected_counted_and_measured_again() {
    let (outcome, calls) = go(|call, _| Ok(if call == 4 || call == 5 { noisy() } else { good() }));
    assert_eq!((calls, outcome.record.rejected()), (14, 2));
    assert!(outcome.record.cells.iter().all(|cell| cell.counted().count() == 3));
    assert!(!codes(&outcome).contains(&"noisy-machine"));
}

#[test]
fn a_machine_that_stays_noisy_costs_half_as_much_time_again_and_a_warning() {
    let (outcome, calls) = go(|_, _| Ok(noisy()));
    assert!((13..=19).contains(&calls), "{calls}");
    assert_eq!(outcome.record.rejected(), calls);
    assert!(outcome.record.cells.iter().all(|cell| cell.only_rejected() && cell.counted().count() >= 3));
    assert!(codes(&outcome).contains(&"noisy-machine"));
}

#[test]
fn noise_is_not_rejected_when_the_user_says_so() {
    let mut store = Store::in_memory().unwrap();
    let mut workers = Scripted { answer: |_, _: &Spec| Ok(noisy()), calls: 0 };
    let outcome = run(&mut store, &new_run(false), &mut workers, &mut Nobody, &AtomicBool::new(false)).unwrap();
    assert_eq!((workers.calls, outcome.record.rejected()), (12, 0));
}

#[test]
fn a_failed_cell_is_not_repeated_and_the_others_go_on() {
    for kind in [FailureKind::LostUpdate, FailureKind::Hang, FailureKind::Crash] {
        let (outcome, calls) =
            go(|_, spec| Ok(if spec.lock == "none" && spec.threads == 2 { failed(kind) } else { good() }));
        assert_eq!((calls, outcome.failed_cells()), (10, 1), "{kind:?}");
        assert!(outcome.record.complete);
        let cell = outcome.record.cells.iter().find(|cell| cell.failure().is_some()).unwrap();
        assert_eq!(cell.samples.len(), 1);
    }
}

#[test]
fn what_the_machine_cannot_do_is_no_failure_of_the_sweep() {
    let (outcome, calls) =
        go(|_, spec| Ok(if spec.lock == "none" { failed(FailureKind::Unsupported) } else { good() }));
    assert_eq!((calls, outcome.failed_cells()), (8, 0));
    assert_eq!(outcome.record.cells.iter().filter(|cell| cell.unsupported()).count(), 2);
}

#[test]
fn a_failed_baseline_is_warned_of() {
    let (outcome, _) = go(|_, spec| Ok(if spec.lock == "pthread" { failed(FailureKind::Hang) } else { good() }));
    assert!(codes(&outcome).contains(&"baseline-failed"));
}

#[test]
fn what_was_measured_before_a_stop_is_kept_and_the_rest_is_resumed() {
    let mut store = Store::in_memory().unwrap();
    let stop = AtomicBool::new(false);
    let mut workers = Scripted {
        answer: |call, _: &Spec| {
            stop.store(call == 3, Ordering::Relaxed);
            Ok(good())
        },
        calls: 0,
    };
    let first = run(&mut store, &new_run(true), &mut workers, &mut Nobody, &stop).unwrap();
    assert!(first.interrupted && !first.record.complete);

    let id = first.record.id;
    let mut workers = Scripted { answer: |_, _: &Spec| Ok(good()), calls: 0 };
    let go = AtomicBool::new(false);
    let second = resume(&mut store, id, &mut workers, &mut Nobody, &go).unwrap();
    assert_eq!(workers.calls, 8);
    assert!(second.record.complete);
    let mut orders: Vec<u32> =
        second.record.cells.iter().flat_map(|cell| &cell.samples).map(|sample| sample.order).collect();
    orders.sort_unstable();
    assert_eq!(orders, (0..12).collect::<Vec<_>>());
    let again = resume(&mut store, id, &mut workers, &mut Nobody, &go);
    assert!(matches!(again, Err(RunError::Complete { .. })));
}

#[test]
fn a_resumed_run_remembers_failures_and_half_rejected_tasks() {
    let mut store = Store::in_memory().unwrap();
    let none_fails = |spec: &Spec| if spec.lock == "none" { failed(FailureKind::Hang) } else { noisy() };
    let mut workers = Scripted {
        answer: |call, spec: &Spec| {
            if call < 3 { Ok(none_fails(spec)) } else { Err(io::Error::other("full")) }
        },
        calls: 0,
    };
    let go = AtomicBool::new(false);
    let stopped = run(&mut store, &new_run(true), &mut workers, &mut Nobody, &go);
    let Err(RunError::NoWorker { run: id, .. }) = stopped else { panic!("{stopped:?}") };

    let none_seen = AtomicUsize::new(0);
    let mut workers = Scripted {
        answer: |_, spec: &Spec| {
            none_seen.fetch_add(usize::from(spec.lock == "none"), Ordering::Relaxed);
            Ok(if spec.lock == "none" { failed(FailureKind::Hang) } else { good() })
        },
        calls: 0,
    };
    let record = resume(&mut store, id, &mut workers, &mut Nobody, &go).unwrap().record;
    assert!(record.complete);
    assert!(record.cells.iter().filter(|c| c.spec.lock == "pthread").all(|c| c.counted().count() == 3));
    assert!(record.cells.iter().filter(|c| c.spec.lock == "none").all(|c| c.samples.len() == 1));
    assert!(none_seen.load(Ordering::Relaxed) <= 2);
}

#[test]
fn a_short_run_is_not_judged_by_one_tick() {
    let mut short = noisy();
    short.process.elapsed_ns = 5_000_000;
    short.contamination = Contamination { background_share: 0.0, steal_share: 0.5 };
    let (outcome, calls) = go(move |_, _| Ok(short.clone()));
    assert_eq!((calls, outcome.record.rejected()), (12, 0));
}

#[test]
fn the_limit_grows_with_what_is_asked() {
    let limit = |words: &[&str]| default_limit(&Spec::from_words(words.iter().copied()).unwrap()).as_secs_f64();
    assert!((13.9..15.0).contains(&limit(&["duration=200ms"])));
    assert!(limit(&["iterations=1000000", "threads=4"]) > 60.0);
    assert!(limit(&["duration=200ms", "hold=1s", "threads=8"]) > 100.0);
    assert!(limit(&["iterations=1000000000000", "threads=1024", "hold=1s"]).is_finite());
}
