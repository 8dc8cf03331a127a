//! Claims held against what was measured: a verdict, the figures that decided, and one sentence why.
//!
//! Every figure is a function of the runs of its cells, so its interval comes from evaluating it again over runs that
//! are drawn with replacement (a percentile bootstrap as in [`crate::stats`]), and an interval passes through any
//! arithmetic without rules of its own. Figures of one expression are drawn independently of each other; neighbouring
//! runs are positively correlated, so a difference or quotient of two cells gets too wide an interval rather than too
//! narrow.
//!
//! A comparison is *clear* when 95% of the draws agree with the medians and its sides are further apart than the
//! claim's margin. A verdict that hangs on a comparison that is not clear is marked close, and so is one over a cell of
//! which every run was rejected because other programs used the machine.

use std::collections::BTreeMap;

use holdup_bench::sample::FailureKind;

use super::expr::{ABOUT, Arithmetic, Call, Comparison, Expr, Function, Selection, place_on_axis};
use super::machine::Machine;
use super::sentence::{Sentence, brief, with_interval};
use super::{Check, Claim, Experiment};
use crate::claim::{ClaimResult, Reading, Verdict};
use crate::results::{CellRecord, RunRecord};
use crate::stats::{Estimate, median, paired_ratios};

/// Figures of the machine: name and value.
type Probed = Vec<(&'static str, f64)>;

/// Holds every claim of an experiment against a run of its sweeps.
pub fn evaluate(experiment: &Experiment, run: &RunRecord) -> Vec<ClaimResult> {
    let machine = Machine::of_run(run);
    let probed = probed(run, &machine);
    experiment
        .claims
        .iter()
        .map(|claim| judge(experiment, claim, &machine, Facts { run, probed: &probed, margin: claim.margin }))
        .collect()
}

/// What `probe(...)` yields, from the description that was stored with the run.
fn probed(run: &RunRecord, machine: &Machine) -> Probed {
    const CLOCKS: [(&str, &str); 3] =
        [("system_ns", "clock_ns"), ("system_call_ns", "clock_system_call_ns"), ("cpu_ns", "time_stamp_ns")];
    let mut probed = vec![("cpus", f64::from(machine.cpus))];
    for (name, fact) in CLOCKS {
        let text = run.environment.iter().find(|(known, _)| known == fact).map(|(_, value)| value.as_str());
        // The description writes 'n/a' and the reason where there is no figure.
        let number = text.and_then(|text| text.split_whitespace().next()?.trim_end_matches("ns").parse().ok());
        probed.extend(number.map(|value: f64| (name, value)));
    }
    probed
}

fn judge(experiment: &Experiment, claim: &Claim, machine: &Machine, facts: Facts<'_>) -> ClaimResult {
    let (then, now) = match &claim.otherwise {
        Some((then, now)) => (Some(then), now.as_ref()),
        None => (None, None),
    };
    let read = |check: &Check, other: Option<&Check>| match claim.needs.unmet(machine) {
        Some(reason) => facts.unread(claim, format!("{} {reason}.", claim.id)),
        None => facts.read(check).unwrap_or_else(|missing| facts.read_otherwise(claim, other, missing)),
    };
    ClaimResult {
        id: claim.id.clone(),
        experiment: experiment.name.clone(),
        claim: claim.claim.clone(),
        published: claim.published.clone(),
        setting: claim.setting.clone(),
        then: read(&claim.then, then),
        now: claim.now.as_ref().map(|check| read(check, now)),
    }
}

/// Why a figure cannot be had.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Missing(String);

/// What a condition came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Truth {
    /// By the medians.
    holds: bool,
    /// No draw and no margin says otherwise.
    clear: bool,
}

/// What an expression is evaluated over.
#[derive(Clone, Copy)]
struct Facts<'a> {
    run: &'a RunRecord,
    probed: &'a Probed,
    margin: f64,
}

const DRAWS: usize = 1000;
const SEED: u64 = 0x9E37_79B9_7F4A_7C15;
/// This share of the draws must agree with the medians.
const AGREEMENT: f64 = 0.95;

impl Facts<'_> {
    fn tell(&self, sentence: &Sentence, write: fn(Estimate, super::expr::Unit) -> String) -> String {
        sentence.render(|expr| match self.estimate(expr) {
            Ok(estimate) => write(estimate, expr.unit()),
            Err(_) => "n/a".to_owned(),
        })
    }

    /// A check held against the runs.
    fn read(&self, check: &Check) -> Result<Reading, Missing> {
        let truth = self.truth(&check.check)?;
        let (verdict, why) = match truth.holds {
            true => (Verdict::Holds, &check.why_holds),
            false => (Verdict::Differs, &check.why_differs),
        };
        let mut why = self.tell(why, brief);
        let disturbed = self.disturbed(&check.check);
        if disturbed {
            why.push_str(" (Other programs disturbed every run of a part of this.)");
        }
        Ok(Reading {
            measured: self.tell(&check.show, with_interval),
            figure: check.show.figures().next().and_then(|expr| self.estimate(expr).ok()),
            verdict,
            close: !truth.clear || disturbed,
            why,
        })
    }

    /// The check that stands in where figures are missing, which the reading says.
    fn read_otherwise(&self, claim: &Claim, other: Option<&Check>, Missing(reason): Missing) -> Reading {
        match other.map(|check| self.read(check)) {
            Some(Ok(reading)) => Reading { why: format!("{} ({reason})", reading.why), ..reading },
            _ => self.unread(claim, reason),
        }
    }

    /// What is said where a check cannot be held against the runs.
    fn unread(&self, claim: &Claim, why: String) -> Reading {
        let measured = claim.instead.as_ref().map_or_else(String::new, |said| self.tell(said, with_interval));
        Reading { measured, figure: None, verdict: Verdict::NotMeasurable, close: false, why }
    }

    /// Whether a cell behind the expression has not one run in which the machine was ours.
    fn disturbed(&self, expr: &Expr) -> bool {
        let selections = expr.selections();
        self.run.cells.iter().any(|cell| {
            cell.only_rejected() && selections.iter().any(|selection| selection.takes(&cell.sweep, &cell.spec))
        })
    }

    /// A number with its interval.
    fn estimate(&self, expr: &Expr) -> Result<Estimate, Missing> {
        let figure = self.figure(expr)?;
        let point = figure.point().ok_or_else(undefined)?;
        let mut random = fastrand::Rng::with_seed(SEED);
        let mut draws: Vec<f64> = (0..DRAWS).filter_map(|_| figure.draw(&mut random)).collect();
        draws.sort_unstable_by(f64::total_cmp);
        let at = |share: f64| {
            let last = draws.len().saturating_sub(1) as f64;
            draws.get((last * share).round() as usize).copied().unwrap_or(point)
        };
        let n = figure.least_runs();
        Ok(Estimate { median: point, low: at(0.025).min(point), high: at(0.975).max(point), n })
    }

    fn truth(&self, expr: &Expr) -> Result<Truth, Missing> {
        match expr {
            Expr::Compare(comparison, left, right) => self.compare(*comparison, left, right),
            Expr::And(left, right) => Ok(self.truth(left)?.and(self.truth(right)?)),
            Expr::Or(left, right) => Ok(self.truth(left)?.not().and(self.truth(right)?.not()).not()),
            Expr::Not(inner) => Ok(self.truth(inner)?.not()),
            _ => Err(Missing("the check is a number and not a comparison".to_owned())),
        }
    }

    fn compare(&self, comparison: Comparison, left: &Expr, right: &Expr) -> Result<Truth, Missing> {
        let (left, right) = (self.figure(left)?, self.figure(right)?);
        let (a, b) = (left.point().ok_or_else(undefined)?, right.point().ok_or_else(undefined)?);
        let holds = comparison.holds(a, b);
        let mut random = fastrand::Rng::with_seed(SEED);
        let (mut drawn, mut agree) = (0usize, 0usize);
        for _ in 0..DRAWS {
            if let (Some(a), Some(b)) = (left.draw(&mut random), right.draw(&mut random)) {
                drawn += 1;
                agree += usize::from(comparison.holds(a, b) == holds);
            }
        }
        let decided = agree as f64 >= AGREEMENT * drawn as f64;
        Ok(Truth { holds, clear: decided && comparison.apart(a, b, self.margin) })
    }

    /// The expression with its data in place of its names.
    fn figure(&self, expr: &Expr) -> Result<Figure, Missing> {
        Ok(match expr {
            Expr::Number(value) => Figure::Number(*value),
            Expr::Probe(name) => Figure::Number(self.probe(name)?),
            Expr::Call(call) => Figure::Cells(self.cells(call)?),
            Expr::Negate(inner) => {
                Figure::Arithmetic(Arithmetic::Subtract, Box::new(Figure::Number(0.0)), Box::new(self.figure(inner)?))
            }
            Expr::Arithmetic(operation, left, right) => {
                Figure::Arithmetic(*operation, Box::new(self.figure(left)?), Box::new(self.figure(right)?))
            }
            Expr::Extreme { largest, of } => Figure::Extreme {
                largest: *largest,
                of: of.iter().map(|expr| self.figure(expr)).collect::<Result<_, _>>()?,
            },
            Expr::Compare(..) | Expr::And(..) | Expr::Or(..) | Expr::Not(_) => {
                return Err(Missing("a comparison stands where a number is needed".to_owned()));
            }
        })
    }

    fn probe(&self, name: &str) -> Result<f64, Missing> {
        let found = self.probed.iter().find(|(known, _)| *known == name);
        found.map(|(_, value)| *value).ok_or_else(|| Missing(format!("This machine does not tell {name}.")))
    }

    fn cells(&self, call: &Call) -> Result<Cells, Missing> {
        let mut cells = Cells { function: call.function, places: Vec::new(), runs: Vec::new() };
        match (call.function, call.cells.as_slice(), call.along, &call.between) {
            (Function::Ratio, [over, under], _, _) => {
                let (over, under) = (self.cell(over)?, self.cell(under)?);
                let ratios = paired_ratios(over, under, call.metric.0);
                if ratios.is_empty() {
                    return Err(unpaired(over, under, call));
                }
                cells.runs.push(ratios);
            }
            (Function::Growth, [of], Some(along), Some((from, to))) => {
                let (from, to) = (self.cell(&of.with(along, from))?, self.cell(&of.with(along, to))?);
                cells.runs.push(growths(from, to, call)?);
            }
            (Function::SlowRuns | Function::FastRuns, [of], _, _) => {
                let cell = self.cell(of)?;
                let time =
                    |sample: &holdup_bench::sample::Sample| sample.elapsed_ns as f64 / sample.ops().max(1) as f64;
                let pairs: Vec<(f64, f64)> =
                    cell.counted().filter_map(|(_, sample)| Some((time(sample), call.metric.0.of(sample)?))).collect();
                let (times, figures) = pairs.into_iter().unzip();
                cells.runs = vec![times, figures];
            }
            (function, [of], Some(along), None) => {
                let line = self.line(of, along)?;
                cells.places = line.iter().map(|(place, _)| *place).collect();
                let steady = function.is_free_of_scale().then(|| without_drift(&line, call)).flatten();
                cells.runs = match steady {
                    Some(runs) => runs,
                    None => line.iter().map(|(_, cell)| values(cell, call)).collect::<Result<_, _>>()?,
                };
            }
            (_, [of], _, _) => cells.runs.push(values(self.cell(of)?, call)?),
            _ => return Err(Missing("the figure names too many series".to_owned())),
        }
        match cells.runs.iter().any(Vec::is_empty) {
            true => Err(Missing(format!("No run has a value of {}.", call.metric.0.name))),
            false => Ok(cells),
        }
    }

    /// The one cell of a selection, if it has a run that counts.
    fn cell(&self, selection: &Selection) -> Result<&CellRecord, Missing> {
        let cell = self.run.cells.iter().find(|cell| selection.takes(&cell.sweep, &cell.spec));
        let Some(cell) = cell else { return Err(Missing(format!("No run of {selection} was made."))) };
        if cell.counted().next().is_some() {
            return Ok(cell);
        }
        Err(Missing(match cell.failure() {
            Some(failure) if failure.kind == FailureKind::Unsupported => capital(&failure.detail),
            Some(failure) => format!("Every run of {selection} failed: {}", failure.detail),
            None => format!("No run of {selection} has finished."),
        }))
    }

    /// The cells of a selection along a factor, in the factor's order.
    fn line(&self, selection: &Selection, along: &str) -> Result<Vec<(f64, &CellRecord)>, Missing> {
        let mut line = Vec::new();
        for cell in self.run.cells.iter().filter(|cell| selection.takes(&cell.sweep, &cell.spec)) {
            let value = cell.spec.get(along).map_err(|error| Missing(error.to_string()))?;
            let place = place_on_axis(along, &value)
                .ok_or_else(|| Missing(format!("{along}={value} has no place on a line.")))?;
            match cell.counted().next() {
                Some(_) => line.push((place, cell)),
                None => line.push((place, self.cell(selection)?)),
            }
        }
        line.sort_by(|(a, _), (b, _)| a.total_cmp(b));
        match line.len() {
            0 | 1 => Err(Missing(format!("Too few values of {along} were measured in {selection}."))),
            _ => Ok(line),
        }
    }
}

fn undefined() -> Missing {
    Missing("The figure is zero divided by zero here.".to_owned())
}

fn unpaired(over: &CellRecord, under: &CellRecord, call: &Call) -> Missing {
    let zero = [over, under]
        .iter()
        .any(|cell| cell.counted().all(|(_, sample)| call.metric.0.of(sample).is_none_or(|value| value == 0.0)));
    Missing(match zero {
        true => format!("{} is zero or has no value here, so there is no ratio.", call.metric.0.name),
        false => "No two neighbouring runs of the pair have both finished.".to_owned(),
    })
}

/// A cell's figure in each round: repetition after repetition all cells are measured once, in a new order. A cell that
/// has several runs in a round is there with its last.
fn rounds(cell: &CellRecord, call: &Call) -> BTreeMap<u32, f64> {
    cell.counted().filter_map(|(record, sample)| Some((record.repeat, call.metric.0.of(sample)?))).collect()
}

/// Growth in each round, so that what drifts between rounds hits both figures of one alike.
fn growths(from: &CellRecord, to: &CellRecord, call: &Call) -> Result<Vec<f64>, Missing> {
    let (from, to) = (rounds(from, call), rounds(to, call));
    let growths = to.iter().filter_map(|(round, to)| Some(to / from.get(round)?));
    let growths: Vec<f64> = growths.filter(|growth| !growth.is_nan()).collect();
    match growths.is_empty() {
        true => Err(Missing(format!("No round has a value of {} on either side.", call.metric.0.name))),
        false => Ok(growths),
    }
}

/// The figures along a line, each as a share of its round's median over the line: what slows a whole round falls out.
/// `None` where too few rounds are complete.
fn without_drift(line: &[(f64, &CellRecord)], call: &Call) -> Option<Vec<Vec<f64>>> {
    const LEAST_ROUNDS: usize = 3;
    let rounds: Vec<BTreeMap<u32, f64>> = line.iter().map(|(_, cell)| rounds(cell, call)).collect();
    let complete = rounds.first()?.keys().filter(|round| rounds.iter().all(|cell| cell.contains_key(round)));
    let mut shares = vec![Vec::new(); line.len()];
    for round in complete {
        let figures: Vec<f64> = rounds.iter().filter_map(|cell| cell.get(round).copied()).collect();
        let middle = median(&figures).filter(|middle| *middle > 0.0)?;
        for (shares, figure) in shares.iter_mut().zip(&figures) {
            shares.push(figure / middle);
        }
    }
    (shares.first()?.len() >= LEAST_ROUNDS).then_some(shares)
}

impl Function {
    /// Whether its value stays when all figures are multiplied by the same number.
    fn is_free_of_scale(self) -> bool {
        use Function::{Bend, Linear, Spread, WhereHighest, WhereLowest};
        matches!(self, Linear | Bend | Spread | WhereHighest | WhereLowest)
    }
}

fn values(cell: &CellRecord, call: &Call) -> Result<Vec<f64>, Missing> {
    let values: Vec<f64> = cell.counted().filter_map(|(_, sample)| call.metric.0.of(sample)).collect();
    match values.is_empty() {
        true => Err(Missing(format!("No run has a value of {}.", call.metric.0.name))),
        false => Ok(values),
    }
}

fn capital(text: &str) -> String {
    let mut chars = text.chars();
    let first = chars.next().map(char::to_uppercase);
    let mut sentence: String = first.into_iter().flatten().chain(chars).collect();
    if !sentence.ends_with(['.', '!', '?']) {
        sentence.push('.');
    }
    sentence
}

impl Truth {
    fn not(self) -> Truth {
        Truth { holds: !self.holds, clear: self.clear }
    }

    /// One side that is clearly false decides, whatever the other is.
    fn and(self, other: Truth) -> Truth {
        let clearly_false = |truth: Truth| truth.clear && !truth.holds;
        Truth {
            holds: self.holds && other.holds,
            clear: (self.clear && other.clear) || clearly_false(self) || clearly_false(other),
        }
    }
}

impl Comparison {
    fn holds(self, a: f64, b: f64) -> bool {
        match self {
            Comparison::Less => a < b,
            Comparison::AtMost => a <= b,
            Comparison::Greater => a > b,
            Comparison::AtLeast => a >= b,
            Comparison::Equal => a == b,
            Comparison::About => factor_between(a, b) <= ABOUT,
        }
    }

    /// Whether the sides are further from where the verdict turns than a share of the larger.
    fn apart(self, a: f64, b: f64, margin: f64) -> bool {
        match self {
            Comparison::Equal => true,
            Comparison::About => {
                let factor = factor_between(a, b);
                (factor - ABOUT).abs() > margin * ABOUT || margin == 0.0
            }
            _ => (a - b).abs() > margin * a.abs().max(b.abs()) || margin == 0.0,
        }
    }
}

/// How many times the larger is the smaller.
fn factor_between(a: f64, b: f64) -> f64 {
    if a == b { 1.0 } else { (a / b).max(b / a) }
}

/// An expression with its data.
enum Figure {
    Number(f64),
    Cells(Cells),
    Arithmetic(Arithmetic, Box<Figure>, Box<Figure>),
    Extreme { largest: bool, of: Vec<Figure> },
}

/// The values behind one figure of cells.
struct Cells {
    function: Function,
    /// The factor's values, where the function looks along one.
    places: Vec<f64>,
    /// Per cell, the metric of each run; of slow and fast runs, the times and then the metric.
    runs: Vec<Vec<f64>>,
}

impl Figure {
    /// Its value by the medians.
    fn point(&self) -> Option<f64> {
        self.value(&mut |cells| cells.value(&cells.runs))
    }

    /// Its value over runs drawn with replacement.
    fn draw(&self, random: &mut fastrand::Rng) -> Option<f64> {
        self.value(&mut |cells| cells.value(&cells.drawn(random)))
    }

    fn value(&self, of: &mut impl FnMut(&Cells) -> Option<f64>) -> Option<f64> {
        let value = match self {
            Figure::Number(value) => *value,
            Figure::Cells(cells) => of(cells)?,
            Figure::Arithmetic(operation, left, right) => {
                let (left, right) = (left.value(of)?, right.value(of)?);
                match operation {
                    Arithmetic::Add => left + right,
                    Arithmetic::Subtract => left - right,
                    Arithmetic::Multiply => left * right,
                    Arithmetic::Divide => left / right,
                }
            }
            Figure::Extreme { largest, of: figures } => {
                let mut values = Vec::with_capacity(figures.len());
                for figure in figures {
                    values.push(figure.value(of)?);
                }
                let pick = if *largest { f64::max } else { f64::min };
                values.into_iter().reduce(pick)?
            }
        };
        (!value.is_nan()).then_some(value)
    }

    /// The runs of the cell that has the fewest.
    fn least_runs(&self) -> usize {
        match self {
            Figure::Number(_) => 1,
            Figure::Cells(cells) => cells.runs.iter().map(Vec::len).min().unwrap_or(0),
            Figure::Arithmetic(_, left, right) => match (left.as_ref(), right.as_ref()) {
                (Figure::Number(_), other) | (other, Figure::Number(_)) => other.least_runs(),
                (left, right) => left.least_runs().min(right.least_runs()),
            },
            Figure::Extreme { of, .. } => of.iter().map(Figure::least_runs).min().unwrap_or(0),
        }
    }
}

impl Cells {
    fn drawn(&self, random: &mut fastrand::Rng) -> Vec<Vec<f64>> {
        if matches!(self.function, Function::SlowRuns | Function::FastRuns) {
            let n = self.runs[0].len();
            let picks: Vec<usize> = (0..n).map(|_| random.usize(..n)).collect();
            return self.runs.iter().map(|values| picks.iter().map(|&i| values[i]).collect()).collect();
        }
        self.runs
            .iter()
            .map(|values| (0..values.len()).map(|_| values[random.usize(..values.len())]).collect())
            .collect()
    }

    fn value(&self, runs: &[Vec<f64>]) -> Option<f64> {
        let medians = || runs.iter().map(|values| median(values)).collect::<Option<Vec<f64>>>();
        match self.function {
            Function::Median | Function::Ratio | Function::Growth => median(runs.first()?),
            Function::Mean => Some(runs.first()?.iter().sum::<f64>() / runs.first()?.len() as f64),
            Function::Linear => Some(Line::through(&self.places, &medians()?).r_squared),
            Function::Bend => Some(Line::through(&self.places, &medians()?).bend),
            Function::Slope => Some(Line::through(&self.places, &medians()?).slope),
            Function::Highest => medians()?.into_iter().reduce(f64::max),
            Function::Lowest => medians()?.into_iter().reduce(f64::min),
            Function::Spread => {
                let medians = medians()?;
                Some(largest(&medians)? / smallest(&medians)?)
            }
            Function::WhereHighest => self.place_of(&medians()?, |a, b| a > b),
            Function::WhereLowest => self.place_of(&medians()?, |a, b| a < b),
            Function::RunSpread => Some(largest(runs.first()?)? / smallest(runs.first()?)?),
            Function::MostRun => largest(runs.first()?),
            Function::SlowRuns | Function::FastRuns => self.half(runs),
        }
    }

    fn place_of(&self, medians: &[f64], better: fn(f64, f64) -> bool) -> Option<f64> {
        let mut best = (*self.places.first()?, *medians.first()?);
        for (place, value) in self.places.iter().zip(medians) {
            if better(*value, best.1) {
                best = (*place, *value);
            }
        }
        Some(best.0)
    }

    /// The metric's median over the slower or the faster half of the runs; the middle run belongs to both.
    fn half(&self, runs: &[Vec<f64>]) -> Option<f64> {
        let [times, figures] = runs else { return None };
        let mut order: Vec<usize> = (0..times.len()).collect();
        order.sort_by(|&a, &b| times[a].total_cmp(&times[b]));
        if self.function == Function::SlowRuns {
            order.reverse();
        }
        let half: Vec<f64> = order.iter().take(times.len().div_ceil(2)).map(|&i| figures[i]).collect();
        median(&half)
    }
}

fn largest(values: &[f64]) -> Option<f64> {
    values.iter().copied().reduce(f64::max)
}

fn smallest(values: &[f64]) -> Option<f64> {
    values.iter().copied().reduce(f64::min)
}

/// A least-squares line and how well it fits.
struct Line {
    slope: f64,
    r_squared: f64,
    bend: f64,
}

impl Line {
    fn through(places: &[f64], values: &[f64]) -> Line {
        let n = places.len() as f64;
        let (mean_x, mean_y) = (places.iter().sum::<f64>() / n, values.iter().sum::<f64>() / n);
        let points = || places.iter().zip(values);
        let xx: f64 = places.iter().map(|x| (x - mean_x).powi(2)).sum();
        let xy: f64 = points().map(|(x, y)| (x - mean_x) * (y - mean_y)).sum();
        let yy: f64 = values.iter().map(|y| (y - mean_y).powi(2)).sum();
        let slope = xy / xx;
        let at = |x: f64| mean_y + slope * (x - mean_x);
        let unexplained: f64 = points().map(|(x, y)| (y - at(*x)).powi(2)).sum();
        // A line that is flat and exact explains everything there is.
        let r_squared = if yy == 0.0 { 1.0 } else { 1.0 - unexplained / yy };
        let bend = points().map(|(x, y)| ((y - at(*x)) / at(*x)).abs()).fold(0.0, f64::max);
        Line { slope, r_squared, bend }
    }
}
