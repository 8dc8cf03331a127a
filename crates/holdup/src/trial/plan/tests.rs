//! Searches among programs that are made up: how often they are wrong, and what they find.

use super::*;

/// A made-up program: what its runs take, in seconds, under each arm.
struct Made {
    random: fastrand::Rng,
    /// How many times as fast each remedy makes it.
    gains: Vec<f64>,
    /// Standard deviation of the logarithm of one run.
    noise: f64,
    shape: Shape,
}

/// How runs scatter.
#[derive(Clone, Copy)]
enum Shape {
    Normal,
    /// One run in ten takes up to three times as long.
    Disturbed,
    /// Half of the runs take 1.5 times as long.
    TwoSpeeds,
    /// A program as it is runs three times as fast in half of its runs; a remedy always does.
    Bistable,
    /// Later runs are slower: the machine changes.
    Drift,
}

impl Made {
    fn normal(&mut self) -> f64 {
        let (a, b) = (self.random.f64().max(1e-12), self.random.f64());
        (-2.0 * a.ln()).sqrt() * (std::f64::consts::TAU * b).cos()
    }

    fn run_s(&mut self, step: Step) -> f64 {
        let gain = match step.arm {
            Arm::Remedy(remedy) => self.gains[remedy],
            _ => 1.0,
        };
        let disturbance = match self.shape {
            Shape::Normal => 1.0,
            Shape::Disturbed if self.random.f64() < 0.1 => 1.0 + 2.0 * self.random.f64(),
            Shape::Disturbed => 1.0,
            Shape::TwoSpeeds if self.random.bool() => 1.5,
            Shape::TwoSpeeds => 1.0,
            Shape::Bistable if step.arm == Arm::Baseline || step.arm == Arm::Control => {
                if self.random.bool() {
                    3.0
                } else {
                    1.0
                }
            }
            Shape::Bistable => 1.0,
            Shape::Drift => 1.0 + 0.05 * step.block as f64,
        };
        disturbance * (self.noise * self.normal()).exp() / gain
    }
}

/// The verdict about remedies with these gains.
fn search(gains: &[f64], noise: f64, shape: Shape, budget_s: f64, seed: u64) -> (Verdict, Search) {
    let mut made = Made { random: fastrand::Rng::with_seed(seed ^ 0xfeed), gains: gains.to_vec(), noise, shape };
    let mut search = Search::new(vec![Standing::Live; gains.len()], budget_s, seed);
    while let Some(step) = search.next_step() {
        let run_s = made.run_s(step);
        search.tell(step, 1.0 / run_s, run_s);
    }
    (search.verdict(), search)
}

fn count(of: Verdict, verdicts: &[Verdict]) -> usize {
    verdicts.iter().filter(|verdict| **verdict == of).count()
}

#[test]
fn of_many_searches_without_a_remedy_few_announce_one() {
    let shapes = [(Shape::Normal, 0.03), (Shape::Disturbed, 0.03), (Shape::TwoSpeeds, 0.02), (Shape::Drift, 0.05)];
    for (at, (shape, noise)) in shapes.into_iter().enumerate() {
        let verdicts: Vec<Verdict> = (0..250).map(|seed| search(&[1.0; 7], noise, shape, 240.0, seed).0).collect();
        let helps = verdicts.iter().filter(|verdict| matches!(verdict, Verdict::Helps(_))).count();
        assert!(helps <= 250 / 20, "shape {at}: {helps} of 250 searches found what is not there");
        println!("shape {at}: {helps} wrong, {} noisy", count(Verdict::Noisy, &verdicts));
    }
}

#[test]
fn a_quiet_program_without_a_remedy_gets_the_null_answer() {
    let verdicts: Vec<Verdict> =
        (0..200).map(|seed| search(&[1.0, 0.9, 1.0, 0.6, 1.0], 0.03, Shape::Normal, 120.0, seed).0).collect();
    let nothing = count(Verdict::Nothing, &verdicts);
    assert!(nothing >= 190, "{nothing} of 200");
}

#[test]
fn a_real_gain_is_found_and_its_interval_is_right() {
    let (mut found, mut covered) = (0, 0);
    for seed in 0..200 {
        let (verdict, search) = search(&[1.0, 0.8, 1.3, 0.5, 1.02], 0.05, Shape::Normal, 120.0, seed);
        if verdict == Verdict::Helps(2) {
            found += 1;
            let ratio = search.ratio(2).unwrap();
            covered += usize::from(ratio.low <= 1.3 && 1.3 <= ratio.high);
        }
    }
    assert!(found >= 190, "found in {found} of 200 searches");
    assert!(covered * 100 >= found * 95, "the interval covers the truth in {covered} of {found}");
}

#[test]
fn a_gain_is_found_among_disturbed_runs_too() {
    let verdicts: Vec<Verdict> =
        (0..100).map(|seed| search(&[1.0, 1.4, 0.7], 0.05, Shape::Disturbed, 200.0, seed).0).collect();
    let found = count(Verdict::Helps(1), &verdicts);
    assert!(found >= 80, "{found} of 100");
}

#[test]
fn a_steady_remedy_of_a_program_with_two_speeds_is_found_in_28_short_runs() {
    // On average it makes the program the square root of three times as fast.
    let found =
        (0..200).filter(|seed| search(&[1.0], 0.05, Shape::Bistable, 50.0, *seed).0 == Verdict::Helps(0)).count();
    assert!(found >= 180, "{found} of 200");
}

#[test]
fn looks_are_those_that_the_budget_can_reach() {
    for blocks in [0, 5, 8, 9, 20, 21, 50, 1000] {
        let looks = looks(blocks);
        assert!((looks.iter().map(|look| look.share).sum::<f64>() - 1.0).abs() < 1e-9);
        assert_eq!(looks.last().map(|look| look.after), Some(blocks.clamp(5, 50)));
        assert!(looks.is_sorted_by(|a, b| a.after < b.after));
    }
}

#[test]
fn noise_is_not_taken_for_an_answer() {
    let verdicts: Vec<Verdict> = (0..100).map(|seed| search(&[1.0; 4], 0.6, Shape::Normal, 60.0, seed).0).collect();
    assert!(count(Verdict::Noisy, &verdicts) >= 80, "{verdicts:?}");
}

#[test]
fn a_remedy_that_fails_is_out_at_once_and_never_wins() {
    let mut search = Search::new(vec![Standing::Live; 2], 100.0, 1);
    let mut runs_of_first = 0;
    while let Some(step) = search.next_step() {
        match step.arm {
            // It would be the fastest by far.
            Arm::Remedy(0) => {
                runs_of_first += 1;
                search.fail(0, 0.01);
            }
            Arm::Remedy(_) => search.tell(step, 1.0 + 0.001 * step.block as f64, 1.0),
            _ => search.tell(step, 1.0, 1.0),
        }
    }
    assert_eq!((runs_of_first, search.standing(0)), (1, Standing::Failed));
    assert_eq!(search.verdict(), Verdict::Nothing);
    let mut search = Search::new(vec![Standing::Live], 100.0, 1);
    while let Some(step) = search.next_step() {
        match step.arm {
            Arm::Remedy(_) => search.fail(0, 0.1),
            _ => search.tell(step, 1.0, 1.0),
        }
    }
    assert_eq!(search.verdict(), Verdict::AllFailed);
}

#[test]
fn blocks_hold_every_arm_once_and_their_order_is_the_seeds() {
    let order = |seed| {
        let mut search = Search::new(vec![Standing::Live; 3], 1000.0, seed);
        let mut arms = Vec::new();
        for _ in 0..15 {
            let step = search.next_step().unwrap();
            search.tell(step, 1.0, 1.0);
            arms.push(step.arm);
        }
        arms
    };
    let arms = order(7);
    for block in arms.chunks(5) {
        let mut sorted = block.to_vec();
        sorted.sort();
        let remedies = (0..3).map(Arm::Remedy);
        assert_eq!(sorted, [Arm::Baseline, Arm::Control].into_iter().chain(remedies).collect::<Vec<_>>());
    }
    assert_eq!(arms, order(7), "a seed repeats itself");
    assert_ne!(arms, order(8));
}

#[test]
fn what_is_much_worse_is_soon_dropped_and_the_budget_is_kept() {
    let (_, search) = search(&[0.2, 1.0, 1.3], 0.02, Shape::Normal, 100.0, 3);
    assert_eq!(search.standing(0), Standing::Dropped);
    let runs = search.logs.keys().filter(|(arm, _)| *arm == Arm::Remedy(0)).count();
    assert_eq!(runs, 3);
    assert!(search.spent_s() < 100.0);
}

#[test]
fn a_stopped_search_says_so() {
    let mut search = Search::new(vec![Standing::Live], 100.0, 1);
    let step = search.next_step().unwrap();
    search.tell(step, 1.0, 1.0);
    search.stop();
    assert_eq!((search.next_step(), search.verdict()), (None, Verdict::Stopped));
}
