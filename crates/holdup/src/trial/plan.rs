//! Which run comes next, and when the search is over: paired blocks in random order, in two parts.
//!
//! *Screening*: each block runs the program as it is twice (the second time as control: whatever it shows is noise) and
//! once under every remedy that can still win. A remedy that fails, or whose interval shows that it cannot be worth
//! while, is dropped. *Confirming*: the one or two best run again in blocks of their own, and only these runs, which
//! had no part in the choice, decide. When they are looked at is planned from the blocks that the budget can reach, and
//! the chance to be wrong is divided among candidates and looks (Bonferroni; what looks that never came would have used
//! goes to the last), so that a whole search announces a remedy that does not help in at most [`ALPHA`] of all cases.
//!
//! Pairing helps where what disturbs a run disturbs its neighbours too. Programs that are fast in one run and slow in
//! the next for reasons of their own gain nothing from it; so where the two runs as it is of a block are no more alike
//! than those of different blocks, all of them together are what a remedy is compared with (Welch).
//!
//! Nothing here runs anything or reads a clock: [`Search::next_step`] says what to run, [`Search::tell`] takes what
//! came of it.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use super::ratio::{self, Ratio, Spread, student_quantile};

/// How often a search may announce a remedy that does not help.
pub const ALPHA: f64 = 0.015;
/// A smaller gain is not worth a change.
pub const LEAST_GAIN: f64 = 1.03;
/// As long as so much could have been missed, the runs were too noisy to tell.
pub const LEAST_PRECISION: f64 = 1.25;
/// Fewest and most blocks of confirmation.
const CONFIRMING: std::ops::RangeInclusive<usize> = 5..=50;
/// Most remedies that are confirmed.
const CANDIDATES: usize = 2;
/// Blocks of screening before a remedy is dropped, if there is time for them.
const DROPS_AFTER: usize = 3;
/// Fewest and most blocks of screening.
const SCREENING: std::ops::RangeInclusive<usize> = 2..=20;
/// The share of the budget that screening may use.
const SCREENING_SHARE: f64 = 0.5;

/// What is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Arm {
    /// The program as it is.
    Baseline,
    /// The same once more: its ratio shows the noise.
    Control,
    /// The remedy with this number.
    Remedy(usize),
}

/// The next run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Which block it belongs to.
    pub block: usize,
    /// What to run.
    pub arm: Arm,
    /// Whether it confirms.
    pub confirms: bool,
}

/// Where a remedy stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Standing {
    /// It can still win.
    Live,
    /// It cannot be worth while; not run any more.
    Dropped,
    /// It failed, or cannot be had here.
    Failed,
}

/// What a search found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case", tag = "verdict", content = "remedy")]
pub enum Verdict {
    /// This remedy helps.
    Helps(usize),
    /// This remedy makes it no slower, and saves CPU time.
    Saves(usize),
    /// No remedy is worth while.
    Nothing,
    /// A worthwhile gain can neither be shown nor excluded.
    Noisy,
    /// All remedies failed.
    AllFailed,
    /// The search was stopped before it could tell.
    Stopped,
}

/// A look at the confirmation.
#[derive(Clone, Copy, Debug)]
struct Look {
    /// After so many blocks.
    after: usize,
    /// This share of [`ALPHA`] is for it.
    share: f64,
}

/// When to look where so many blocks can be had: few blocks decide nothing before the last.
fn looks(blocks: usize) -> Vec<Look> {
    let last = blocks.clamp(*CONFIRMING.start(), *CONFIRMING.end());
    let at = |after, share| Look { after, share };
    match last {
        ..=8 => vec![at(last, 1.0)],
        9..=20 => vec![at(last.div_ceil(2), 0.3), at(last, 0.7)],
        _ => vec![at(last / 3, 0.3), at(last, 0.7)],
    }
}

/// A search among remedies.
#[derive(Clone, Debug)]
pub struct Search {
    standings: Vec<Standing>,
    /// Logarithms of the runs' figures, larger for better, by arm and block.
    logs: BTreeMap<(Arm, usize), f64>,
    queue: Vec<Step>,
    block: usize,
    /// The first block of the confirmation; past all blocks as long as there is none.
    confirms_from: usize,
    candidates: Vec<usize>,
    confirming: bool,
    blocks_done: [usize; 2],
    looks: Vec<Look>,
    looks_done: usize,
    /// Shares of [`ALPHA`]: of looks that were made, and of the last of them.
    share_spent: f64,
    share_now: f64,
    last_block_s: f64,
    last_block_runs: usize,
    block_s: f64,
    spent_s: f64,
    budget_s: f64,
    verdict: Option<Verdict>,
    random: fastrand::Rng,
}

impl Search {
    /// Among so many remedies, of which some failed before; `budget_s` seconds of runs at most. Where no choice is
    /// left, there is nothing to screen.
    pub fn new(standings: Vec<Standing>, budget_s: f64, seed: u64) -> Search {
        let live: Vec<usize> = (0..standings.len()).filter(|at| standings[*at] == Standing::Live).collect();
        let confirming = live.len() <= CANDIDATES;
        Search {
            standings,
            logs: BTreeMap::new(),
            queue: Vec::new(),
            block: 0,
            confirms_from: if confirming { 0 } else { usize::MAX },
            candidates: if confirming { live } else { Vec::new() },
            confirming,
            blocks_done: [0; 2],
            looks: Vec::new(),
            looks_done: 0,
            share_spent: 0.0,
            share_now: 1.0,
            last_block_s: 0.0,
            last_block_runs: 1,
            block_s: 0.0,
            spent_s: 0.0,
            budget_s,
            verdict: None,
            random: fastrand::Rng::with_seed(seed),
        }
    }

    /// The least seconds that a search needs where a run takes this long.
    pub fn least_s(remedies: usize, run_s: f64) -> f64 {
        let screening = if remedies > CANDIDATES { SCREENING.start() * (remedies + 2) } else { 0 };
        let confirming = (CONFIRMING.start() - 1) * (remedies.min(CANDIDATES) + 2);
        (screening + confirming) as f64 * run_s
    }

    /// The next run; `None` when the search is over.
    pub fn next_step(&mut self) -> Option<Step> {
        if self.queue.is_empty() && self.verdict.is_none() {
            self.end_block();
            if self.verdict.is_none() {
                self.begin_block();
            }
        }
        self.queue.pop()
    }

    /// A run of this step took `wall_s` seconds and had this figure, of which more is better.
    pub fn tell(&mut self, step: Step, figure: f64, wall_s: f64) {
        self.spend(wall_s);
        self.logs.insert((step.arm, step.block), figure.max(f64::MIN_POSITIVE).ln());
    }

    /// A run of this remedy failed: it is out.
    pub fn fail(&mut self, remedy: usize, wall_s: f64) {
        self.spend(wall_s);
        self.standings[remedy] = Standing::Failed;
        self.queue.retain(|step| step.arm != Arm::Remedy(remedy));
        self.candidates.retain(|candidate| *candidate != remedy);
    }

    /// Whether a block of runs is over, or none has begun.
    pub fn is_between_blocks(&self) -> bool {
        self.queue.is_empty()
    }

    /// Judges all anew by other figures of the runs so far; without any, the search begins again. What the figures
    /// before had ruled out or chosen does not count.
    pub fn judge_anew(&mut self, standings: Vec<Standing>, figures: impl Iterator<Item = (Arm, usize, f64)>) {
        let mut anew = Search::new(standings, self.budget_s, 0);
        anew.logs = figures.map(|(arm, block, figure)| ((arm, block), figure.max(f64::MIN_POSITIVE).ln())).collect();
        (anew.spent_s, anew.random) = (self.spent_s, self.random.clone());
        if !anew.logs.is_empty() {
            (anew.block, anew.block_s, anew.last_block_runs) = (self.block, self.block_s, self.last_block_runs);
            anew.blocks_done[usize::from(anew.confirming)] = self.block;
        }
        *self = anew;
    }

    /// Ends the search before its time.
    pub fn stop(&mut self) {
        self.queue.clear();
        self.verdict.get_or_insert(Verdict::Stopped);
    }

    /// What was found; [`Verdict::Stopped`] as long as it goes on.
    pub fn verdict(&self) -> Verdict {
        self.verdict.unwrap_or(Verdict::Stopped)
    }

    /// Where a remedy stands.
    pub fn standing(&self, remedy: usize) -> Standing {
        self.standings[remedy]
    }

    /// Whether these runs decided about it: its interval is that of the confirmation.
    pub fn is_confirmed(&self, remedy: usize) -> bool {
        self.candidates.contains(&remedy) && self.blocks_done[1] >= 2
    }

    /// A remedy's ratio to the program as it is, above one for better: of the confirmation where there was one.
    pub fn ratio(&self, remedy: usize) -> Option<Ratio> {
        let arm = Arm::Remedy(remedy);
        if self.is_confirmed(remedy) {
            return self.confirmed(remedy, self.alpha_of_a_look());
        }
        self.screened(arm)
    }

    /// The control's ratio, over all blocks.
    pub fn noise(&self) -> Option<Ratio> {
        let mut logs = self.logs(Arm::Control, false);
        logs.extend(self.logs(Arm::Control, true));
        Ratio::of(&logs, 0.05)
    }

    /// Seconds that the runs took.
    pub fn spent_s(&self) -> f64 {
        self.spent_s
    }

    fn spend(&mut self, wall_s: f64) {
        self.spent_s += wall_s;
        self.block_s += wall_s;
    }

    fn begin_block(&mut self) {
        let confirms = self.confirming;
        let remedies: Vec<usize> = match confirms {
            true => self.candidates.iter().copied().filter(|r| self.standings[*r] == Standing::Live).collect(),
            false => (0..self.standings.len()).filter(|r| self.standings[*r] == Standing::Live).collect(),
        };
        let arms = [Arm::Baseline, Arm::Control].into_iter().chain(remedies.into_iter().map(Arm::Remedy));
        self.queue = arms.map(|arm| Step { block: self.block, arm, confirms }).collect();
        self.last_block_runs = self.queue.len();
        self.random.shuffle(&mut self.queue);
    }

    /// Draws the consequences of a block.
    fn end_block(&mut self) {
        if self.block_s > 0.0 {
            self.block += 1;
            self.blocks_done[usize::from(self.confirming)] += 1;
            self.last_block_s = std::mem::take(&mut self.block_s);
        }
        if self.standings.iter().all(|standing| *standing == Standing::Failed) {
            self.verdict = Some(Verdict::AllFailed);
        } else if self.confirming {
            self.judge_confirmation();
        } else {
            self.judge_screening();
        }
    }

    fn judge_screening(&mut self) {
        let done = self.blocks_done[0];
        let can_do_more = self.spent_s + self.last_block_s * (CONFIRMING.start() + 1) as f64 <= self.budget_s;
        if done < *SCREENING.start() || (done < DROPS_AFTER && can_do_more) {
            let more_s = self.last_block_s;
            if done > 0 && self.spent_s + more_s > self.budget_s {
                self.verdict = Some(self.without_winner());
            }
            return;
        }
        self.drop_the_hopeless();
        let ratios = self.live_ratios();
        let decided = ratios.len() <= CANDIDATES || ratios.iter().all(|(_, ratio)| ratio.low > 1.0);
        let share = if decided { 0.0 } else { SCREENING_SHARE };
        // What the least confirmation takes is not for screening.
        let reserve_s =
            self.last_block_s / self.last_block_runs as f64 * (CONFIRMING.start() * (CANDIDATES + 2)) as f64;
        let ends_s = (self.budget_s * share).min(self.budget_s - reserve_s);
        let time_is_up = self.spent_s + self.last_block_s > ends_s;
        if ratios.is_empty() {
            self.verdict = Some(self.without_winner());
        } else if decided || time_is_up || done >= *SCREENING.end() {
            self.choose(&ratios);
        }
    }

    /// Drops what can neither be worth while nor be the best. This costs at most a winner; it makes none.
    fn drop_the_hopeless(&mut self) {
        let ratios = self.live_ratios();
        let best_low = ratios.iter().map(|(_, ratio)| ratio.low).fold(LEAST_GAIN, f64::max);
        for (remedy, ratio) in ratios {
            if ratio.high < best_low {
                self.standings[remedy] = Standing::Dropped;
            }
        }
    }

    fn choose(&mut self, ratios: &[(usize, Ratio)]) {
        let mut promising: Vec<&(usize, Ratio)> =
            ratios.iter().filter(|(_, ratio)| ratio.ratio >= LEAST_GAIN).collect();
        promising.sort_by(|a, b| b.1.ratio.total_cmp(&a.1.ratio));
        self.candidates = promising.iter().map(|(remedy, _)| *remedy).take(CANDIDATES).collect();
        if self.candidates.is_empty() {
            self.verdict = Some(self.without_winner());
        } else {
            self.confirming = true;
            self.confirms_from = self.block;
        }
    }

    fn judge_confirmation(&mut self) {
        if self.candidates.is_empty() {
            self.verdict = Some(self.without_winner());
            return;
        }
        let done = self.blocks_done[1];
        if self.last_block_s > 0.0 && self.looks.is_empty() {
            self.looks = looks(done + self.more_blocks(self.candidates.len()));
        }
        if done >= DROPS_AFTER && self.drop_the_second() {
            let reach = looks(done + self.more_blocks(1)).last().map_or(0, |look| look.after);
            if let Some(last) = self.looks.last_mut() {
                last.after = last.after.max(reach);
            }
        }
        let Some(look) = self.looks.get(self.looks_done).copied() else { return };
        // Fewer blocks say nothing, whatever the budget: a machine that has become slower costs a little more time.
        let would_be_s = self.spent_s + self.last_block_s;
        let late = would_be_s > self.budget_s && done >= *CONFIRMING.start() - 1;
        let out_of_time = late || (would_be_s > self.budget_s * 1.15 && done >= 2);
        if done >= look.after || out_of_time {
            self.looks_done += 1;
            let last = out_of_time || self.looks_done == self.looks.len();
            self.share_now = if last { 1.0 - self.share_spent } else { look.share };
            self.share_spent += self.share_now;
            self.look(last);
        }
    }

    /// Blocks with so many remedies that the rest of the budget has time for.
    fn more_blocks(&self, remedies: usize) -> usize {
        let per_run_s = self.last_block_s / self.last_block_runs as f64;
        ((self.budget_s - self.spent_s) / (per_run_s * (remedies + 2) as f64)).max(0.0) as usize
    }

    /// Once the best looks like helping, the time of one that is behind is better spent on it; whether one is dropped
    /// now. Both have their part of [`ALPHA`] as before.
    fn drop_the_second(&mut self) -> bool {
        const LIKELY: f64 = 0.2;
        const BEHIND: f64 = 1.1;
        let live = self.candidates.iter().copied().filter(|remedy| self.standings[*remedy] == Standing::Live);
        let mut ratios: Vec<(usize, Ratio)> =
            live.filter_map(|remedy| Some((remedy, self.confirmed(remedy, LIKELY)?))).collect();
        ratios.sort_by(|a, b| b.1.ratio.total_cmp(&a.1.ratio));
        let [(_, best), (second, behind)] = ratios[..] else { return false };
        let drops = best.low > 1.0 && best.ratio > behind.ratio * BEHIND;
        if drops {
            self.standings[second] = Standing::Dropped;
        }
        drops
    }

    fn look(&mut self, last: bool) {
        let mut ratios: Vec<(usize, Ratio)> =
            self.candidates.iter().filter_map(|remedy| Some((*remedy, self.ratio(*remedy)?))).collect();
        ratios.sort_by(|a, b| b.1.ratio.total_cmp(&a.1.ratio));
        let winner = ratios.iter().find(|(_, ratio)| ratio.low > 1.0 && ratio.ratio >= LEAST_GAIN);
        if let Some((remedy, _)) = winner {
            self.verdict = Some(Verdict::Helps(*remedy));
        } else if last || ratios.iter().all(|(_, ratio)| is_futile(ratio)) {
            self.verdict = Some(self.without_winner());
        }
    }

    /// Nothing, as long as no remedy's interval reaches up to a gain that nobody would want to miss.
    fn without_winner(&self) -> Verdict {
        let could_help = |remedy: usize| match self.ratio(remedy) {
            Some(ratio) => ratio.high > LEAST_PRECISION,
            None => self.standings[remedy] == Standing::Live,
        };
        let open = (0..self.standings.len()).filter(|remedy| self.standings[*remedy] == Standing::Live).any(could_help);
        if open { Verdict::Noisy } else { Verdict::Nothing }
    }

    /// Two-sided, so that one side of all looks at all candidates adds up to [`ALPHA`].
    fn alpha_of_a_look(&self) -> f64 {
        2.0 * ALPHA * self.share_now / self.candidates.len().max(1) as f64
    }

    /// A candidate's ratio in the confirmation, with an interval that misses it so often.
    fn confirmed(&self, remedy: usize, alpha: f64) -> Option<Ratio> {
        let blocks = self.confirms_from..self.block + 1;
        let of = |arm: Arm| blocks.clone().filter_map(move |block| self.logs.get(&(arm, block)).copied());
        let (baseline, control): (Vec<f64>, Vec<f64>) = (of(Arm::Baseline).collect(), of(Arm::Control).collect());
        if ratio::blocks_explain(&baseline, &control) {
            return Ratio::of(&self.logs(Arm::Remedy(remedy), true), alpha);
        }
        let mine: Vec<f64> = of(Arm::Remedy(remedy)).collect();
        Ratio::between(&mine, &[baseline, control].concat(), alpha)
    }

    fn live_ratios(&self) -> Vec<(usize, Ratio)> {
        let live = (0..self.standings.len()).filter(|remedy| self.standings[*remedy] == Standing::Live);
        live.filter_map(|remedy| Some((remedy, self.screened(Arm::Remedy(remedy))?))).collect()
    }

    /// An arm's ratio in the screening, with the scatter of all arms together: few blocks tell little about each one's
    /// own.
    fn screened(&self, arm: Arm) -> Option<Ratio> {
        let spread = Spread::of(&self.logs(arm, false))?;
        let arms = (0..self.standings.len()).map(Arm::Remedy);
        let spreads: Vec<Spread> = arms.filter_map(|arm| Spread::of(&self.logs(arm, false))).collect();
        let freedom: usize = spreads.iter().map(|spread| spread.n - 1).sum();
        let pooled = (spreads.iter().map(|spread| spread.squares).sum::<f64>() / freedom as f64).sqrt();
        // An arm that scatters more than the others is not made surer by them.
        let own = (spread.squares / (spread.n - 1) as f64).sqrt();
        let level = student_quantile(0.975, freedom);
        let own_level = student_quantile(0.975, spread.n - 1);
        if own > pooled * 2.0 && own * own_level > pooled * level {
            return Some(Ratio::around(&spread, own, spread.n - 1, 0.05));
        }
        Some(Ratio::around(&spread, pooled, freedom, 0.05))
    }

    /// The logarithms of an arm's ratios to the baseline of its block; to the mean of both baselines, unless it is one
    /// itself.
    fn logs(&self, arm: Arm, confirms: bool) -> Vec<f64> {
        let blocks =
            if confirms { self.confirms_from..self.block + 1 } else { 0..self.confirms_from.min(self.block + 1) };
        blocks
            .filter_map(|block| {
                let of = |arm: Arm| self.logs.get(&(arm, block)).copied();
                let (mine, baseline, control) = (of(arm)?, of(Arm::Baseline)?, of(Arm::Control)?);
                let reference = if arm == Arm::Control { baseline } else { (baseline + control) / 2.0 };
                Some(mine - reference)
            })
            .collect()
    }
}

/// Whether more runs would hardly show a gain that is worth while. This can miss a winner, but makes none.
fn is_futile(ratio: &Ratio) -> bool {
    const HARDLY: f64 = 1.1;
    ratio.high < LEAST_GAIN || (ratio.ratio < 1.01 && ratio.high < HARDLY)
}

#[cfg(test)]
mod tests;
