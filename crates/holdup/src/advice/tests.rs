//! What was seen decides what is suggested.

use super::*;
use crate::report::specimen::Specimen;
use holdup_bench::sample::FailureKind;

const WORKED: &[(&str, &str)] = &[("hold", "100ns"), ("gap", "500ns")];

fn whys(run: &mut Specimen) -> Vec<String> {
    next(run.run(), 2).into_iter().map(|advice| advice.why).collect()
}

fn commands(run: &mut Specimen) -> Vec<String> {
    next(run.run(), 2).into_iter().map(|advice| advice.command).collect()
}

#[test]
fn a_lock_that_collapses_gets_a_gate() {
    let mut run = Specimen::new(None, 5);
    for (lock, crowded_ns) in [("ticket", 2600.0), ("adaptive", 130.0)] {
        run.cell(lock, 2, 100.0, WORKED);
        run.cell(lock, 8, crowded_ns, WORKED);
    }
    let advice = next(run.run(), 2);
    assert!(
        advice[0].why.contains("ticket") && advice[0].why.contains("times as long with 8 threads on 2 CPUs"),
        "{advice:?}"
    );
    assert_eq!(
        advice[0].command,
        "holdup bench --lock ticket --threads 8 --hold 100ns --gap 500ns --active 1,2,all --gate acquire"
    );
    assert!(!advice.iter().any(|advice| advice.why.contains("adaptive takes")));
}

#[test]
fn the_tight_loop_gets_work_outside() {
    let mut run = Specimen::new(None, 5);
    run.cell("pthread", 1, 20.0, &[]);
    run.cell("std", 1, 20.0, &[]);
    let tight = "holdup bench --lock pthread,std --threads 1 --hold 100ns --gap 500ns";
    assert_eq!(commands(&mut run), [tight]);
    let mut run = Specimen::new(None, 5);
    run.cell("pthread", 1, 20.0, WORKED);
    assert_eq!(whys(&mut run), Vec::<String>::new());
}

#[test]
fn a_failed_cell_comes_first() {
    let mut run = Specimen::new(Some("pthread"), 5);
    run.cell("pthread", 2, 20.0, &[]);
    run.failing("ticket", 2, FailureKind::Hang, "no end");
    assert_eq!(commands(&mut run)[0], "holdup bench --lock ticket --threads 2 --baseline off");
    let mut run = Specimen::new(Some("pthread"), 5);
    run.cell("pthread", 2, 20.0, WORKED);
    run.failing("ticket", 2, FailureKind::Unsupported, "not here");
    assert!(whys(&mut run).iter().all(|why| !why.contains("failed")));
}

#[test]
fn an_unfair_lock_gets_its_latency_measured() {
    let mut run = Specimen::new(None, 3);
    for sample in &mut run.cell("ttas", 2, 20.0, WORKED).samples {
        sample.outcome.as_mut().unwrap().thread_ops = vec![1_000_000, 1];
    }
    let mut database = Specimen::new(None, 3);
    let cell = database.cell("ttas", 2, 20.0, &[("workload", "db")]);
    for sample in &mut cell.samples {
        sample.outcome.as_mut().unwrap().thread_ops = vec![1_000_000, 1];
    }
    assert!(!commands(&mut database).iter().any(|command| command.contains("--latency")), "db measures none");
    let commands = commands(&mut run);
    assert!(
        commands.iter().any(|command| command.ends_with("--lock ttas --threads 2 --hold 100ns --gap 500ns --latency")),
        "{commands:?}"
    );
}

/// A run of one reader-writer lock with one writer beside two readers: reads and writes per second.
fn sides(latency: &str, locks: &[(&str, f64, f64)]) -> Specimen {
    let mut run = Specimen::new(None, 3);
    let factors = [("workload", "rw"), ("writers", "1"), ("hold", "20us"), ("latency", latency)];
    for (lock, reads, writes) in locks {
        for sample in &mut run.cell(lock, 3, 100.0, &factors).samples {
            let extra = &mut sample.outcome.as_mut().unwrap().extra;
            extra.extend([("reads_per_s".to_owned(), *reads), ("writes_per_s".to_owned(), *writes)]);
        }
    }
    run
}

#[test]
fn a_side_that_starves_is_named() {
    let even = ("std-rwlock", 40_000.0, 10_000.0);
    assert!(whys(&mut sides("off", &[even])).is_empty());
    let mut run = sides("off", &[even, ("pthread-rwlock", 90_000.0, 3.0)]);
    let advice = next(run.run(), 2);
    assert!(advice[0].why.starts_with("pthread-rwlock starves its writers: one gets less than 0.1%"), "{advice:?}");
    let command =
        "holdup bench --lock pthread-rwlock,rw-adaptive --workload rw --threads 3 --hold 20us --writers 1 --latency";
    assert_eq!(advice[0].command, command);
    let mut run = sides("off", &[("pthread-rwlock-nonrec", 100.0, 30_000.0)]);
    assert!(whys(&mut run)[0].contains("starves its readers: one gets 0.2% of what a writer gets"));
    // Who has measured that already needs no advice.
    let mut run = sides("on", &[("pthread-rwlock", 90_000.0, 3.0), ("rw-adaptive", 30_000.0, 9_000.0)]);
    assert!(!whys(&mut run).iter().any(|why| why.contains("starves")));
}

#[test]
fn every_suggested_command_is_one_that_works() {
    let mut run = Specimen::new(Some("pthread"), 2);
    for lock in ["pthread", "std", "ticket"] {
        run.cell(lock, 2, 100.0, &[]);
        run.cell(lock, 8, 900.0, &[]);
    }
    run.run().command = "holdup bench --repeat 2 --lock pthread,std,ticket --seed 5".to_owned();
    let commands = commands(&mut run);
    assert_eq!(commands.len(), MOST);
    for command in commands {
        let parsed = crate::cli::parse(command.split(' ').map(Into::into));
        assert!(matches!(parsed, Ok(crate::cli::Request::Command(_))), "{command}");
    }
}

#[test]
fn undecided_comparisons_get_more_runs() {
    let mut run = Specimen::new(Some("pthread"), 5);
    run.cell("pthread", 1, 20.0, WORKED);
    run.cell("std", 1, 20.0, WORKED);
    run.run().command = "holdup bench --lock pthread,std --repeat 5 --seed 5".to_owned();
    assert_eq!(commands(&mut run), ["holdup bench --lock pthread,std --seed 5 --repeat 15"]);
}
