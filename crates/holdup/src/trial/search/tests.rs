//! Trials with a runner that makes runs up.

use super::*;

/// A program that is made up: what each run yields.
struct Scripted<R>(R);

impl<R: FnMut(Option<&Remedy>) -> Result<Sample, Failure>> Runner for Scripted<R> {
    fn run(&mut self, remedy: Option<&Remedy>, _: Option<&Expected>, _: Duration) -> Result<Sample, Failure> {
        (self.0)(remedy)
    }

    fn cannot_lock(&self) -> Option<String> {
        None
    }

    fn futex_waits(&mut self, _: Duration) -> Option<u64> {
        Some(1000)
    }

    fn count_acquisitions(&mut self, _: bool) {}

    fn watch(&mut self, _: Policy, _: Duration) -> Option<Vec<f64>> {
        None
    }

    fn flip(&mut self, policies: &[Policy], _: &Expected, _: Duration, _: u64) -> Option<Flips> {
        let logs = (0..=policies.len()).map(|at| vec![0.1 * at as f64; 6]).collect();
        Some(Flips { logs, window_ms: 30, runs: 1 })
    }
}

/// A program that takes a second as it is.
#[derive(Clone, Default)]
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

impl Made {
    fn run(&mut self, remedy: Option<&Remedy>) -> Result<Sample, Failure> {
        self.runs += 1;
        if remedy.is_none() && self.breaks_in_run == Some(self.runs) {
            return Err(Failure::Crashed { signal: "SIGSEGV".to_owned(), words: String::new() });
        }
        let name = remedy.map_or("", |remedy| remedy.name.as_str());
        let gain = self.gains.iter().find(|(known, _)| *known == name).map_or(Ok(1.0), |(_, gain)| gain.clone());
        let mut sample = sample((1.0 + 0.02 * self.random.f64()) / gain?);
        if remedy.is_some_and(|remedy| remedy.policy().is_some()) {
            sample.processes.push(served(self.acquisitions, self.acquisitions));
        }
        Ok(sample)
    }
}

pub(super) fn served(acquisitions: u64, contended: u64) -> crate::interposer::Process {
    crate::interposer::Process { state: holdup_control::STATE_SERVES, acquisitions, contended, ..Default::default() }
}

pub(super) fn sample(elapsed_s: f64) -> Sample {
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
        speeds: Vec::new(),
        processes: Vec::new(),
    }
}

pub(super) fn remedies(names: &[&str]) -> Vec<Remedy> {
    let one = |name: &&str| {
        let change = match crate::interposer::policy::parse(name) {
            Ok(policy) => Change::Lock(policy),
            Err(_) => Change::Environment((*name).to_owned(), String::new()),
        };
        Remedy { name: (*name).to_owned(), change }
    };
    names.iter().map(one).collect()
}

pub(super) fn rules() -> Rules {
    Rules {
        budget: Duration::from_secs(200),
        seed: 5,
        code: 0,
        same_output: false,
        goal: Goal::Mean,
        in_process: true,
        may_leave_out: false,
        words: Some(Vec::new()),
    }
}

fn try_run(
    run: impl FnMut(Option<&Remedy>) -> Result<Sample, Failure>,
    names: &[&str],
    rules: &Rules,
) -> Result<Trial, Problem> {
    super::run(&mut Scripted(run), remedies(names), None, rules, &AtomicBool::new(false), &mut Nobody)
}

fn try_out(mut made: Made, names: &[&str]) -> Result<Trial, Problem> {
    try_run(|remedy| made.run(remedy), names, &rules())
}

#[test]
fn cpu_time_saved_at_the_same_speed_is_a_gain() {
    let trial = try_out(Made::default(), &["A", "B", "C"]).unwrap();
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
    let mut runs = 0;
    let fixed = |remedy: Option<&Remedy>| {
        runs += 1;
        let gain = remedy.map_or(1, |remedy| if remedy.name == "throttle:1" { 3 } else { 1 });
        let processes = vec![served((100_000 + 500 * (runs % 3)) * gain, 1000)];
        Ok(Sample { processes, ..sample(1.0) })
    };
    let trial = try_run(fixed, &["ttas", "throttle:1"], &rules()).unwrap();
    assert_eq!((trial.verdict, trial.fixed_s), (Verdict::Helps(1), Some(1.0)));
    assert!(matches!(trial.figure, Figure::Acquisitions));
    assert!((trial.tried[1].ratio.unwrap().ratio - 3.0).abs() < 0.1);
}

#[test]
fn a_fixed_time_is_noticed_on_a_busy_machine_too() {
    let seen = |elapsed_s, acquisitions, condition| Seen { elapsed_s, acquisitions, condition, ..Seen::default() };
    let runs = [
        seen(0.505, None, 0),
        seen(0.61, Some(90_000), 0),
        seen(0.507, Some(100_000), 0),
        seen(0.68, Some(200_000), 1),
        seen(0.52, Some(300_000), 1),
        seen(0.51, Some(250_000), 2),
    ];
    let shortest = found::shortest(&runs);
    let times = shortest.iter().map(|run| (run.elapsed_s, run.acquisitions));
    assert_eq!(times.collect::<Vec<_>>(), [(0.505, Some(100_000)), (0.52, Some(300_000)), (0.51, Some(250_000))]);
    assert!(matches!(found::judge(&shortest, &[]), Time::FixedTakesLocks));
}

/// Runs that are told to last a second, on a machine so busy that they last up to half as long again at first; what
/// they print goes with what the remedy gains.
fn late(prints: bool) -> Result<Trial, Problem> {
    let (mut runs, mut random) = (0.0, fastrand::Rng::with_seed(8));
    let fixed = move |remedy: Option<&Remedy>| {
        runs += 1.0;
        let late = if runs < 20.0 { 0.1 + 0.35 * random.f64() } else { 0.3 * random.f64().powi(2) };
        let gain = remedy.map_or(1.0, |remedy| if remedy.name == "A" { 1.5 } else { 1.0 });
        let rate = 1000.0 * gain * (0.97 + 0.06 * random.f64());
        let printed = [if prints { format!("{rate:.1} events per second\n") } else { String::new() }, String::new()];
        Ok(Sample { user_s: 1.9, printed, ..sample(1.0 + late) })
    };
    let mut rules = rules();
    rules.words = Some(["load", "-d", "1s"].map(str::to_owned).to_vec());
    try_run(fixed, &["A", "B", "C"], &rules)
}

#[test]
fn a_fixed_time_that_looks_did_not_show_is_noticed_while_runs_are_compared() {
    let trial = late(true).unwrap();
    assert_eq!((trial.verdict, trial.fixed_s.is_some()), (Verdict::Helps(0), true));
    let Figure::Printed(metric) = &trial.figure else { panic!("{:?}", trial.figure) };
    assert_eq!(metric.label(), "events per second");
    assert!((trial.tried[0].ratio.unwrap().ratio - 1.5).abs() < 0.1, "runs from before count by the new figure");
    assert!(trial.runs.iter().all(|run| run.sample.as_ref().is_some_and(|sample| sample.metric.is_some())));
    assert!(matches!(late(false), Err(Problem::NoFigure { moves: None, .. })), "never by its elapsed time");
}

#[test]
fn a_goal_prefers_the_steady_to_what_is_faster_on_average() {
    let of = |goal| {
        let mut random = fastrand::Rng::with_seed(3);
        let bistable = |remedy: Option<&Remedy>| {
            let (fast, slow) = if remedy.is_some() { (13e6, 13e6) } else { (30e6, 7e6) };
            let mode = |at: usize| if (at / 50).is_multiple_of(2) { fast } else { slow };
            let speeds = (0..400).map(|at| mode(at) * (0.98 + 0.04 * random.f64())).collect();
            Ok(Sample { speeds, ..sample(if remedy.is_some() { 1.3 } else { 1.0 }) })
        };
        try_run(bistable, &["A"], &Rules { goal, ..rules() })
    };
    assert_eq!(of(Goal::Mean).unwrap().verdict, Verdict::Nothing);
    for goal in [Goal::P95, Goal::Worst] {
        let trial = of(goal).unwrap();
        assert_eq!(trial.verdict, Verdict::Helps(0));
        assert!((1.7..2.0).contains(&trial.tried[0].ratio.unwrap().ratio), "{:?}", trial.tried[0].ratio);
    }
    let rules = Rules { goal: Goal::P95, ..rules() };
    let ended = try_run(|remedy| Made::default().run(remedy), &["A"], &rules);
    assert!(matches!(ended, Err(Problem::NoPace)), "nothing says how fast it is");
}

fn crash() -> Failure {
    Failure::Crashed { signal: "SIGABRT".to_owned(), words: String::new() }
}

#[test]
fn the_remedy_that_helps_is_named_and_failures_are_never_fast() {
    let gains = vec![("A", Ok(1.4)), ("B", Ok(0.5)), ("C", Err(crash())), ("D", Err(Failure::Hung { limit_s: 11.0 }))];
    let trial = try_out(Made { gains, ..Made::default() }, &["A", "B", "C", "D"]).unwrap();
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
    let trial = try_out(Made { gains, ..Made::default() }, &["adaptive", "A"]).unwrap();
    assert_eq!(trial.verdict, Verdict::Helps(1));
    assert!(trial.tried[0].failure.as_ref().unwrap().to_string().contains("no pthread mutex"));
    assert_eq!(trial.tried[0].runs, 0);
    let only_locks = try_out(Made::default(), &["adaptive", "ttas"]).unwrap();
    assert_eq!(only_locks.verdict, Verdict::AllFailed);
}

#[test]
fn what_fails_with_glibcs_own_policy_fails_with_every_one() {
    let gains = vec![("glibc", Err(crash()))];
    let trial = try_out(Made { gains, acquisitions: 500, ..Made::default() }, &["adaptive", "A"]).unwrap();
    assert_eq!(trial.tried[0].failure, Some(crash()));
    assert_eq!(trial.tried[1].failure, None);
}

#[test]
fn a_program_that_fails_as_it_is_ends_the_trial() {
    let broken = Made { breaks_in_run: Some(1), ..Made::default() };
    assert!(matches!(try_out(broken, &["A"]), Err(Problem::Baseline(Failure::Crashed { .. }, 0))));
    let flaky = Made { breaks_in_run: Some(2), ..Made::default() };
    let problem = try_out(flaky, &["A"]);
    assert!(matches!(problem, Err(Problem::Baseline(..)) | Ok(_)));
    let other = try_run(|remedy| Made::default().run(remedy), &["A"], &Rules { code: 3, ..rules() });
    assert!(matches!(other, Err(Problem::Baseline(Failure::Status { code: 0, expected: 3, .. }, 0))));
}

#[test]
fn a_budget_that_cannot_tell_is_refused_with_one_that_can() {
    let small = Rules { budget: Duration::from_secs(5), ..rules() };
    let ended = try_run(|remedy| Made::default().run(remedy), &["A", "B"], &small);
    let Err(Problem::Budget { needed_s, .. }) = ended else { panic!("{ended:?}") };
    assert!(needed_s > 15.0 && needed_s < 60.0, "{needed_s}");
}

#[test]
fn a_stop_ends_it_with_what_is_known() {
    let stop = AtomicBool::new(true);
    let mut made = Scripted(|remedy: Option<&Remedy>| Made::default().run(remedy));
    let trial = run(&mut made, remedies(&["A"]), None, &rules(), &stop, &mut Nobody).unwrap();
    assert_eq!((trial.verdict, trial.runs.len()), (Verdict::Stopped, 1));
}
