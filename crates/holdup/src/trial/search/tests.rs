//! Trials with a runner that makes runs up.

use super::*;

/// A program that takes a second as it is.
#[derive(Default)]
struct Made {
    random: fastrand::Rng,
    /// Remedies by name: how many times as fast, or how they fail.
    gains: Vec<(&'static str, Result<f64, Failure>)>,
    /// What the interposer tells.
    acquisitions: u64,
    runs: usize,
    /// The program as it is fails in this run.
    breaks_in_run: Option<usize>,
}

fn sample(elapsed_s: f64) -> Sample {
    Sample {
        elapsed_s,
        user_s: elapsed_s,
        kernel_s: 0.0,
        voluntary_switches: 10,
        involuntary_switches: 0,
        metric: None,
        code: 0,
        stdout_hash: 1,
        wall_s: elapsed_s,
        words: String::new(),
        printed: Default::default(),
        processes: Vec::new(),
    }
}

impl Runner for Made {
    fn run(&mut self, remedy: Option<&Remedy>, _: Option<&Expected>, _: Duration) -> Result<Sample, Failure> {
        self.runs += 1;
        if remedy.is_none() && self.breaks_in_run == Some(self.runs) {
            return Err(Failure::Crashed { signal: "SIGSEGV".to_owned(), words: String::new() });
        }
        let name = remedy.map_or("", |remedy| remedy.name.as_str());
        let gain = self.gains.iter().find(|(known, _)| *known == name).map_or(Ok(1.0), |(_, gain)| gain.clone());
        let mut sample = sample((1.0 + 0.02 * self.random.f64()) / gain?);
        if remedy.is_some_and(|remedy| remedy.policy().is_some()) {
            let served = crate::interposer::Process {
                state: holdup_control::STATE_SERVES,
                acquisitions: self.acquisitions,
                contended: self.acquisitions,
                ..Default::default()
            };
            sample.processes.push(served);
        }
        Ok(sample)
    }

    fn cannot_lock(&self) -> Option<String> {
        None
    }

    fn futex_waits(&mut self, _: Duration) -> Option<u64> {
        Some(1000)
    }

    fn count_acquisitions(&mut self) {}

    fn flip(&mut self, policies: &[Policy], _: &Expected, _: Duration, _: u64) -> Option<Flips> {
        let logs = (0..=policies.len()).map(|at| vec![0.1 * at as f64; 6]).collect();
        Some(Flips { logs, window_ms: 30, runs: 1 })
    }
}

fn remedies(names: &[&str]) -> Vec<Remedy> {
    let one = |name: &&str| {
        let change = match crate::interposer::policy::parse(name) {
            Ok(policy) => Change::Lock(policy),
            Err(_) => Change::Environment((*name).to_owned(), String::new()),
        };
        Remedy { name: (*name).to_owned(), change }
    };
    names.iter().map(one).collect()
}

fn rules() -> Rules {
    Rules {
        budget: Duration::from_secs(200),
        seed: 5,
        code: 0,
        same_output: false,
        in_process: true,
        may_leave_out: false,
    }
}

fn try_out(made: &mut Made, names: &[&str]) -> Result<Trial, Problem> {
    run(made, remedies(names), None, &rules(), &AtomicBool::new(false), &mut Nobody)
}

#[test]
fn cpu_time_saved_at_the_same_speed_is_a_gain() {
    let trial = try_out(&mut Made::default(), &["A", "B", "C"]).unwrap();
    assert_eq!(trial.verdict, Verdict::Nothing);
    let mut tried = trial.tried;
    assert_eq!(with_savings(Verdict::Nothing, &tried), Verdict::Nothing);
    tried[1].cpu_interval = Some(Ratio { ratio: 0.4, low: 0.3, high: 0.5, n: 3 });
    assert_eq!(with_savings(Verdict::Nothing, &tried), Verdict::Saves(1));
    assert_eq!(with_savings(Verdict::Helps(0), &tried), Verdict::Helps(0));
    tried[1].ratio = Some(Ratio { ratio: 0.8, low: 0.7, high: 0.9, n: 3 });
    assert_eq!(with_savings(Verdict::Nothing, &tried), Verdict::Nothing, "slower is no gain");
    tried[2].flipped = Some(Ratio { ratio: 2.0, low: 1.9, high: 2.1, n: 20 });
    assert_eq!(with_savings(Verdict::Nothing, &tried), Verdict::Noisy, "turns say otherwise");
}

#[test]
fn a_program_that_runs_for_a_fixed_time_is_judged_by_its_locks() {
    struct Fixed(u64);
    impl Runner for Fixed {
        fn run(&mut self, remedy: Option<&Remedy>, _: Option<&Expected>, _: Duration) -> Result<Sample, Failure> {
            self.0 += 1;
            let gain = remedy.map_or(1, |remedy| if remedy.name == "throttle:1" { 3 } else { 1 });
            let served = crate::interposer::Process {
                state: holdup_control::STATE_SERVES,
                acquisitions: (100_000 + 500 * (self.0 % 3)) * gain,
                contended: 1000,
                ..Default::default()
            };
            Ok(Sample { processes: vec![served], ..sample(1.0) })
        }
        fn cannot_lock(&self) -> Option<String> {
            None
        }
        fn futex_waits(&mut self, _: Duration) -> Option<u64> {
            None
        }
        fn count_acquisitions(&mut self) {}
        fn flip(&mut self, _: &[Policy], _: &Expected, _: Duration, _: u64) -> Option<Flips> {
            None
        }
    }
    let stop = AtomicBool::new(false);
    let trial = run(&mut Fixed(0), remedies(&["ttas", "throttle:1"]), None, &rules(), &stop, &mut Nobody).unwrap();
    assert_eq!((trial.verdict, trial.fixed_s), (Verdict::Helps(1), Some(1.0)));
    assert!(matches!(trial.figure, Figure::Acquisitions));
    assert!((trial.tried[1].ratio.unwrap().ratio - 3.0).abs() < 0.1);
}

fn crash() -> Failure {
    Failure::Crashed { signal: "SIGABRT".to_owned(), words: String::new() }
}

#[test]
fn the_remedy_that_helps_is_named_and_failures_are_never_fast() {
    let gains = vec![("A", Ok(1.4)), ("B", Ok(0.5)), ("C", Err(crash())), ("D", Err(Failure::Hung { limit_s: 11.0 }))];
    let trial = try_out(&mut Made { gains, ..Made::default() }, &["A", "B", "C", "D"]).unwrap();
    assert_eq!(trial.verdict, Verdict::Helps(0));
    let ratio = trial.tried[0].ratio.unwrap();
    assert!(ratio.low > 1.3 && ratio.high < 1.5 && trial.tried[0].confirmed, "{ratio:?}");
    assert!((trial.tried[0].cpu.unwrap() - 0.71).abs() < 0.05, "CPU time is per run");
    assert_eq!(trial.tried[2].failure, Some(crash()));
    assert_eq!((trial.tried[2].standing, trial.tried[2].ratio), (Standing::Failed, None));
    assert_eq!(trial.tried[3].standing, Standing::Failed);
    assert!(trial.noise.unwrap().low < 1.01 && trial.coverage.is_none());
}

#[test]
fn locks_that_cannot_be_served_are_not_tried_but_other_remedies_are() {
    let gains = vec![("A", Ok(1.3))];
    let trial = try_out(&mut Made { gains, ..Made::default() }, &["adaptive", "A"]).unwrap();
    assert_eq!(trial.verdict, Verdict::Helps(1));
    assert!(trial.tried[0].failure.as_ref().unwrap().to_string().contains("no pthread mutex"));
    assert_eq!(trial.tried[0].runs, 0);
    let only_locks = try_out(&mut Made::default(), &["adaptive", "ttas"]).unwrap();
    assert_eq!(only_locks.verdict, Verdict::AllFailed);
}

#[test]
fn what_fails_with_glibcs_own_policy_fails_with_every_one() {
    let gains = vec![("glibc", Err(crash()))];
    let trial = try_out(&mut Made { gains, acquisitions: 500, ..Made::default() }, &["adaptive", "A"]).unwrap();
    assert_eq!(trial.tried[0].failure, Some(crash()));
    assert_eq!(trial.tried[1].failure, None);
}

#[test]
fn a_program_that_fails_as_it_is_ends_the_trial() {
    let broken = Made { breaks_in_run: Some(1), ..Made::default() };
    assert!(matches!(try_out(&mut { broken }, &["A"]), Err(Problem::Baseline(Failure::Crashed { .. }, 0))));
    let flaky = Made { breaks_in_run: Some(2), ..Made::default() };
    let problem = try_out(&mut { flaky }, &["A"]);
    assert!(matches!(problem, Err(Problem::Baseline(..)) | Ok(_)));
    let other = run(
        &mut Made::default(),
        remedies(&["A"]),
        None,
        &Rules { code: 3, ..rules() },
        &AtomicBool::new(false),
        &mut Nobody,
    );
    assert!(matches!(other, Err(Problem::Baseline(Failure::Status { code: 0, expected: 3, .. }, 0))));
}

#[test]
fn a_budget_that_cannot_tell_is_refused_with_one_that_can() {
    let small = Rules { budget: Duration::from_secs(5), ..rules() };
    let ended = run(&mut Made::default(), remedies(&["A", "B"]), None, &small, &AtomicBool::new(false), &mut Nobody);
    let Err(Problem::Budget { needed_s, .. }) = ended else { panic!("{ended:?}") };
    assert!(needed_s > 20.0 && needed_s < 60.0, "{needed_s}");
}

#[test]
fn a_stop_ends_it_with_what_is_known() {
    let stop = AtomicBool::new(true);
    let trial = run(&mut Made::default(), remedies(&["A"]), None, &rules(), &stop, &mut Nobody).unwrap();
    assert_eq!((trial.verdict, trial.runs.len()), (Verdict::Stopped, 1));
}
