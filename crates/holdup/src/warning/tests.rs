//! Each warning appears when there is reason for it, and not otherwise.

use super::*;
use crate::report::specimen::Specimen;
use holdup_bench::sample::FailureKind;

fn codes(run: &mut Specimen) -> Vec<&'static str> {
    of(run.run(), true).iter().map(Warning::code).collect()
}

#[test]
fn a_clean_run_has_no_warnings() {
    let mut run = Specimen::new(Some("pthread"), 5);
    run.cell("pthread", 1, 20.0, &[]);
    assert_eq!(codes(&mut run), Vec::<&str>::new());
    assert_eq!(of(run.run(), false), [Warning::Unoptimised]);
}

#[test]
fn a_rejected_run_is_only_warned_of_when_nothing_took_its_place() {
    let mut run = Specimen::new(None, 3);
    let cell = run.cell("pthread", 1, 20.0, &[]);
    let mut replaced = cell.samples[0].clone();
    replaced.rejected = true;
    cell.samples.push(replaced);
    assert_eq!(codes(&mut run), Vec::<&str>::new());
    run.run().cells[0].samples.remove(0);
    assert_eq!(of(run.run(), true), [Warning::Noisy { kept: 1, of: run.run().cells[0].samples.len() }]);
}

#[test]
fn work_that_is_far_from_what_was_asked_is_told() {
    let mut run = Specimen::new(None, 2);
    for sample in &mut run.cell("pthread", 1, 200.0, &[("hold", "100ns"), ("gap", "1us")]).samples {
        let sample = sample.outcome.as_mut().unwrap();
        (sample.hold_ns_mean, sample.gap_ns_mean) = (110.0, 1_600.0);
    }
    let warnings = of(run.run(), true);
    let [Warning::WorkMissed { factor: "gap", asked_ns, done_ns }] = warnings[..] else { panic!("{warnings:?}") };
    assert!((asked_ns - 1_000.0).abs() < 1e-6 && done_ns == 1_600.0);
    assert!(warnings[0].to_string().contains("--gap asked for 1us and the threads did 1.6us"), "{}", warnings[0]);
}

#[test]
fn a_failed_baseline_and_costly_timing_are_told() {
    let mut run = Specimen::new(Some("pthread"), 2);
    run.failing("pthread", 1, FailureKind::Hang, "no end");
    for sample in &mut run.cell("std", 1, 20.0, &[("latency", "on")]).samples {
        sample.outcome.as_mut().unwrap().latency.as_mut().unwrap().cost_share = 0.2;
    }
    assert_eq!(codes(&mut run), ["baseline-failed", "latency-cost"]);
}
