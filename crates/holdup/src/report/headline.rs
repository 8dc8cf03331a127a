//! The most important result of a sweep, as one sentence.

use std::fmt::Write as _;

use super::figures::{self, Difference, Group};
use super::number;
use crate::metric::Metric;
use crate::results::{CellRecord, RunRecord};
use crate::stats;
use crate::text;

/// Below this a lock's throughput is bought by letting some threads wait.
const UNFAIR_BELOW: f64 = 0.8;

/// Phrases of a headline; more combinations than this are counted, not listed.
const MOST_PHRASES: usize = 3;

/// One sentence about the cells of one sweep: who is fastest where, or that nothing is decided.
pub fn of_sweep(run: &RunRecord, cells: &[&CellRecord]) -> String {
    let finished = cells.iter().filter(|cell| cell.counted().next().is_some()).count();
    if cells.is_empty() {
        return "The run has no cells.".to_owned();
    }
    if finished == 0 {
        return format!("No figures: none of the {} finished a run.", number::counted(cells.len(), "cell"));
    }
    let factors: Vec<&str> = figures::varied(cells).into_iter().filter(|factor| *factor != "lock").collect();
    let groups = figures::groups(cells, &factors);
    let races: Vec<Race> = groups.iter().filter_map(|group| Race::of(run, group, &factors)).collect();
    let sentence = if races.is_empty() { plain(cells, &factors) } else { of_races(run, &races, groups.len()) };
    let disturbed = cells.iter().filter(|cell| cell.only_rejected()).count();
    if disturbed * 2 <= finished {
        return sentence;
    }
    let when = match disturbed {
        all if all == finished => "all the time".to_owned(),
        some => format!("in {some} of {finished} cells"),
    };
    format!("{sentence} But the machine was busy with something else {when}.")
}

/// One group's outcome: the locks that no other is shown to beat.
struct Race {
    /// The group, as words such as `8 threads`.
    place: Vec<String>,
    /// The lock with the least median time, and all locks not shown to be slower than it.
    front: Vec<String>,
    /// Whether every contender is in front.
    level: bool,
    /// Whether there are too few runs to put any of them behind.
    undecidable: bool,
    /// The best lock's time over the baseline's.
    ratio: Option<f64>,
    /// The best lock's fairness where it is poor.
    unfair: Option<f64>,
}

impl Race {
    /// `None` where fewer than two locks have figures. The loop without a lock does not compete.
    fn of(run: &RunRecord, group: &Group, factors: &[&str]) -> Option<Race> {
        let mut contenders: Vec<(&CellRecord, f64)> = group
            .cells
            .iter()
            .filter(|cell| cell.spec.lock != "none")
            .filter_map(|cell| Some((*cell, stats::of_cell(cell, figures::time())?.median)))
            .collect();
        contenders.sort_by(|a, b| a.1.total_cmp(&b.1));
        let best = contenders.first()?.0;
        if contenders.len() < 2 {
            return None;
        }
        let against = |cell: &CellRecord| {
            stats::paired_ratio(best, cell, figures::time())
                .or_else(|| super::compare::unpaired_ratio(best, cell, figures::time()))
                .map_or(Difference::TooFew, |ratio| Difference::of(&ratio))
        };
        let beaten = |cell: &CellRecord| against(cell) == Difference::Below;
        let front: Vec<String> = contenders
            .iter()
            .filter(|(cell, _)| std::ptr::eq(*cell, best) || !beaten(cell))
            .map(|(cell, _)| text::clean(&cell.spec.lock))
            .collect();
        Some(Race {
            place: factors.iter().zip(&group.values).map(|(factor, value)| figures::describe(factor, value)).collect(),
            level: front.len() == contenders.len(),
            undecidable: contenders[1..].iter().all(|(cell, _)| against(cell) == Difference::TooFew),
            front,
            ratio: figures::time_ratio(run, best).map(|ratio| ratio.median),
            unfair: stats::of_cell(best, figures::named("jain"))
                .map(|jain| jain.median)
                .filter(|jain| *jain < UNFAIR_BELOW),
        })
    }
}

impl Race {
    /// Whether the same locks are in front, in whichever order.
    fn same_outcome(&self, other: &Race) -> bool {
        let same = self.front.len() == other.front.len() && self.front.iter().all(|lock| other.front.contains(lock));
        (self.level && other.level) || (!self.level && !other.level && same)
    }
}

/// Races with the same front are told together.
struct Phrase<'a> {
    races: Vec<&'a Race>,
}

fn of_races(run: &RunRecord, races: &[Race], groups: usize) -> String {
    if races.iter().all(|race| race.undecidable) {
        return format!(
            "Too few runs count to say which lock is faster: {} or more of each side by side decide.",
            figures::RUNS_TO_DECIDE
        );
    }
    if races.iter().all(|race| race.level) {
        return "No lock is shown to be faster than another: the differences lie inside the noise of these runs."
            .to_owned();
    }
    let mut phrases: Vec<Phrase> = Vec::new();
    for race in races {
        match phrases.iter_mut().find(|phrase| phrase.races[0].same_outcome(race)) {
            Some(phrase) => phrase.races.push(race),
            None => phrases.push(Phrase { races: vec![race] }),
        }
    }
    phrases.sort_by_key(|phrase| phrase.races[0].level);
    if phrases.len() > MOST_PHRASES {
        return tally(run, races);
    }
    let sentence: Vec<String> = phrases.iter().map(|phrase| phrase.words(run, groups > 1, phrases.len() > 1)).collect();
    capital(&format!("{}.", sentence.join("; ")))
}

impl Phrase<'_> {
    fn words(&self, run: &RunRecord, several_places: bool, several_phrases: bool) -> String {
        let first = self.races[0];
        let place = if several_places { format!(" {}", self.places(several_phrases)) } else { String::new() };
        let who = match first.front.as_slice() {
            [] => "no lock is fastest".to_owned(),
            _ if first.level => "no difference is shown".to_owned(),
            [one] => format!("{one} is fastest"),
            [one, other] => format!("{one} and {other} lead"),
            [one, rest @ ..] => format!("{one} and {} others lead", rest.len()),
        };
        let mut words = format!("{who}{place}");
        if !first.level {
            words.push_str(&self.margin(run));
        }
        words
    }

    /// `at 2, 4 and 8 threads`.
    fn places(&self, several_phrases: bool) -> String {
        if !several_phrases && self.races.len() > 1 {
            return match self.races.len() {
                2 => "at both settings".to_owned(),
                n => format!("at all {n} settings"),
            };
        }
        let places: Vec<&Vec<String>> = self.races.iter().map(|race| &race.place).collect();
        if places.iter().all(|place| place.len() == 1 && place[0].ends_with("thread")) {
            return format!("at {}", places[0][0]);
        }
        let numbers: Vec<String> = places
            .iter()
            .filter(|place| place.len() == 1)
            .filter_map(|place| Some(place[0].split_once(" thread")?.0.to_owned()))
            .collect();
        match numbers.len() {
            n if n == places.len() => format!("at {} threads", text::list(&numbers)),
            _ if places.len() <= 2 => {
                let words: Vec<String> = places.iter().map(|place| place.join(", ")).collect();
                format!("at {}", words.join(" and at "))
            }
            _ => format!("at {} settings", places.len()),
        }
    }

    /// `, at 0.42 to 0.88 of pthread's time`.
    fn margin(&self, run: &RunRecord) -> String {
        let mut words = String::new();
        let ratios: Vec<f64> = self.races.iter().filter_map(|race| race.ratio).collect();
        let baseline =
            run.baseline.as_deref().filter(|baseline| !self.races[0].front.iter().any(|lock| lock == baseline));
        if let (Some(baseline), Some(low), Some(high)) =
            (baseline, ratios.iter().copied().reduce(f64::min), ratios.iter().copied().reduce(f64::max))
        {
            let (low, high) = (number::ratio(low), number::ratio(high));
            let span = if low == high { low } else { format!("{low} to {high}") };
            let _ = write!(words, " ({span} of {}'s time)", text::clean(baseline));
        }
        if let Some(jain) = self.races.iter().filter_map(|race| race.unfair).reduce(f64::min) {
            let _ = write!(words, ", but unfair: Jain's index {jain:.2}");
        }
        words
    }
}

/// Who leads how often, where there are too many different outcomes to list.
fn tally(run: &RunRecord, races: &[Race]) -> String {
    let mut wins: Vec<(&str, usize)> = Vec::new();
    for name in races.iter().filter(|race| !race.level).flat_map(|race| &race.front) {
        match wins.iter_mut().find(|(lock, _)| *lock == name.as_str()) {
            Some((_, count)) => *count += 1,
            None => wins.push((name.as_str(), 1)),
        }
    }
    wins.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let words: Vec<String> = wins.iter().take(MOST_PHRASES).map(|(lock, count)| format!("{lock} in {count}")).collect();
    let level = races.iter().filter(|race| race.level).count();
    let mut sentence = format!(
        "No lock is fastest everywhere: of {}, {} lead (alone or level with others)",
        number::counted(races.len(), "setting"),
        text::list(&words)
    );
    if level > 0 {
        let _ = write!(sentence, "; in {level} no difference is shown");
    }
    let ratios = races.iter().filter_map(|race| Some((race, race.ratio?)));
    if let (Some((race, ratio)), Some(baseline)) = (ratios.min_by(|a, b| a.1.total_cmp(&b.1)), run.baseline.as_deref())
    {
        let _ = write!(
            sentence,
            "; the best took {} of {}'s time ({}, {})",
            number::ratio(ratio),
            text::clean(baseline),
            race.front[0],
            race.place.join(", ")
        );
    }
    sentence.push('.');
    sentence
}

/// What a sweep without competing locks shows: its figures from end to end.
fn plain(cells: &[&CellRecord], factors: &[&str]) -> String {
    let name = figures::speed(cells);
    let speed = Metric::named(name).expect("throughput is a row of METRICS");
    let counted = if name == "packets_per_s" { "packets" } else { "operations" };
    let figures: Vec<(&CellRecord, f64)> =
        cells.iter().filter_map(|cell| Some((*cell, stats::of_cell(cell, speed)?.median))).collect();
    let place = |cell: &CellRecord| {
        let words: Vec<String> =
            factors.iter().map(|factor| figures::describe(factor, &figures::value(&cell.spec, factor))).collect();
        words.join(", ")
    };
    let (Some(first), Some(last)) = (figures.first(), figures.last()) else {
        return "No figures.".to_owned();
    };
    let lock = text::clean(&first.0.spec.lock);
    let speed = |value: f64| format!("{} {counted} per second", number::scaled(value));
    if figures.len() == 1 || factors.is_empty() {
        return format!("{lock}: {}.", speed(first.1));
    }
    let least = figures.iter().min_by(|a, b| a.1.total_cmp(&b.1)).unwrap_or(first);
    let most = figures.iter().max_by(|a, b| a.1.total_cmp(&b.1)).unwrap_or(last);
    format!("{lock}: from {} ({}) to {} ({}).", speed(least.1), place(least.0), speed(most.1), place(most.0))
}

fn capital(sentence: &str) -> String {
    // A sentence that begins with a lock's name keeps the name as it is written.
    match sentence.strip_prefix("no ") {
        Some(rest) => format!("No {rest}"),
        None => sentence.to_owned(),
    }
}
