//! Programs that run for a fixed time, and the number among what they print that says how much they did in it.
//!
//! Elapsed times that agree while the work does not are the sign: a program that does fixed work takes its locks as
//! often in every run, however long it takes, and prints a rate that goes with its time. Work is the acquisitions of
//! its locks where there are any, else a number that it prints.

use std::collections::BTreeMap;
use std::rc::Rc;

use super::figure::Metric;

/// What of a run tells how it spends its time.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// From start to end.
    pub elapsed_s: f64,
    /// CPU time.
    pub cpu_s: f64,
    /// Acquisitions of locks that are served, where they were counted.
    pub acquisitions: Option<u64>,
    /// Whether it had one CPU only.
    pub on_one_cpu: bool,
    /// Runs under the same conditions have the same number.
    pub condition: usize,
    /// What it wrote on stdout and stderr.
    pub printed: [String; 2],
}

/// What a program's time is.
#[derive(Clone, Debug)]
pub enum Time {
    /// It ends when its work is done, as far as can be seen.
    Works,
    /// It runs for a fixed time; this number says what it did.
    FixedPrints(Metric),
    /// It runs for a fixed time and prints no such number, but takes locks that are counted.
    FixedTakesLocks,
    /// It runs for a fixed time, and nothing says for sure what it did; this number moves.
    FixedSilent(Option<Metric>),
}

/// Elapsed times that differ by less agree: a share, or seconds, but no more than another share, for programs need some
/// time to start and to end, and many threads on one CPU more of it.
const AGREES: f64 = 0.02;
const AGREES_S: f64 = 0.05;
const AGREES_SHORT: f64 = 0.1;
/// Work that differs by more does not, and by so many times what times differ.
const MOVES: f64 = 0.03;
const TIMES_AS_MUCH: f64 = 3.0;
const MOVES_AT_ALL: f64 = 0.0005;

/// Of each condition the run that took the least time, for what disturbs a run only makes it longer; with the
/// acquisitions of the shortest in which they were counted.
pub fn shortest(runs: &[Seen]) -> Vec<Seen> {
    let mut conditions: BTreeMap<usize, Vec<&Seen>> = BTreeMap::new();
    for run in runs {
        conditions.entry(run.condition).or_default().push(run);
    }
    let best = |runs: Vec<&Seen>| {
        let least = |counted: bool| {
            let those = runs.iter().filter(|run| !counted || run.acquisitions.is_some());
            those.min_by(|a, b| a.elapsed_s.total_cmp(&b.elapsed_s)).copied()
        };
        let acquisitions = least(true).and_then(|run| run.acquisitions);
        least(false).map(|run| Seen { acquisitions, ..run.clone() })
    };
    conditions.into_values().filter_map(best).collect()
}

/// Whether these elapsed times are the same.
pub fn agree(elapsed_s: &[f64]) -> bool {
    let (low, high) = ends(elapsed_s);
    high - low <= (AGREES * low).max(AGREES_S.min(low * AGREES_SHORT))
}

/// Whether the command line names the time that all these runs took: with its unit, or in an option that is about time.
/// Such a program may take its time to end.
pub fn is_named(words: &[String], elapsed_s: &[f64]) -> bool {
    /// Shorter times are named by chance, and this much longer it may take.
    const LEAST_S: f64 = 0.1;
    const LONGER: f64 = 1.15;
    const LONGER_S: f64 = 0.1;
    let (low, high) = ends(elapsed_s);
    let before = std::iter::once("").chain(words.iter().map(String::as_str));
    let named = before.zip(words).filter_map(|(before, word)| named_s(before, word));
    named.filter(|s| *s >= LEAST_S).any(|s| low >= s * 0.98 && high <= s * LONGER + LONGER_S)
}

/// The seconds that a word of a command line names, which may belong to the word before.
fn named_s(before: &str, word: &str) -> Option<f64> {
    let attached = |word: &str| word.starts_with('-') && word[1..].starts_with(|c: char| c.is_ascii_alphabetic());
    let (name, value) = match word.split_once('=') {
        Some(parts) => parts,
        // An option of one letter with its value.
        None if attached(word) => word.split_at_checked(2)?,
        None => (before, word),
    };
    let end = value.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(value.len());
    let number: f64 = value[..end].parse().ok()?;
    let name = name.to_lowercase();
    let is_about_time = ["time", "duration", "second", "secs"].iter().any(|word| name.contains(word))
        || ["-t", "-d"].contains(&name.as_str());
    match &value[end..] {
        "s" | "sec" | "secs" | "seconds" => Some(number),
        "ms" => Some(number / 1e3),
        "m" | "min" if is_about_time => Some(number * 60.0),
        "" if name.ends_with("-ms") || name.ends_with("_ms") => Some(number / 1e3),
        "" if is_about_time => Some(number),
        _ => None,
    }
}

/// What takes less is mostly the start of a process, which is alike under all conditions, and no time that was set.
const SHORTEST_S: f64 = 0.05;

/// What these runs, under different conditions, say of the program with this command line.
pub fn judge(runs: &[Seen], words: &[String]) -> Time {
    let elapsed: Vec<f64> = runs.iter().map(|run| run.elapsed_s).collect();
    let is_named = is_named(words, &elapsed);
    let alike = || agree(&elapsed) && ends(&elapsed).0 >= SHORTEST_S;
    if runs.len() < 2 || !(is_named || alike()) {
        return Time::Works;
    }
    let moves = (spread(&elapsed) * TIMES_AS_MUCH).max(MOVES);
    let taken: Vec<f64> = runs.iter().filter_map(|run| run.acquisitions).map(|n| n as f64).collect();
    let takes_locks = taken.len() >= 2 && ends(&taken).0 >= 100.0;
    let as_often = spread(&taken) <= moves;
    if takes_locks && as_often && !is_named {
        return Time::Works;
    }
    // Where the time is told, a rate or an amount that moves at all is what was done in it.
    let moves = if is_named { MOVES_AT_ALL } else { moves };
    match number(runs, moves) {
        Some(metric) => Time::FixedPrints(metric),
        None if takes_locks && !as_often => Time::FixedTakesLocks,
        // On one CPU it had less to work with, and took no longer.
        None if is_named || runs.iter().any(|run| run.on_one_cpu) && runs[0].cpu_s > 1.3 * runs[0].elapsed_s => {
            Time::FixedSilent(best(runs, moves, |field| may_be_work(field).then_some(field.order as u32)))
        }
        None => Time::Works,
    }
}

fn ends(values: &[f64]) -> (f64, f64) {
    values.iter().fold((f64::INFINITY, 0.0), |(low, high), value| (low.min(*value), high.max(*value)))
}

/// How much the largest is above the smallest.
fn spread(values: &[f64]) -> f64 {
    let (low, high) = ends(values);
    if low > 0.0 { high / low - 1.0 } else { 0.0 }
}

/// A number in a line: what the line looks like with `#` in place of numbers, and which of them it is.
type Place = (String, usize);

/// A number that was found.
struct Field {
    values: Vec<f64>,
    /// Words beside it, or above it in a table.
    words: String,
    /// The pieces of its line.
    pieces: Rc<[Piece]>,
    nth: usize,
    /// Where it first stood, to prefer what is said first.
    order: usize,
}

/// The number that moves and that words or locks say is work.
fn number(runs: &[Seen], moves: f64) -> Option<Metric> {
    let taken: Option<Vec<f64>> = runs.iter().map(|run| run.acquisitions.map(|n| n as f64)).collect();
    best(runs, moves, |field| score(field, taken.as_deref()))
}

/// The number that moves and has the highest score; of equal ones the first.
fn best(runs: &[Seen], moves: f64, score: impl Fn(&Field) -> Option<u32>) -> Option<Metric> {
    let best = fields(runs)
        .into_iter()
        .filter(|field| ends(&field.values).0 > 0.0 && spread(&field.values) > moves)
        .filter_map(|field| Some((score(&field)?, field)))
        .max_by_key(|(score, field)| (*score, std::cmp::Reverse((field.order, field.nth))));
    best.and_then(|(_, field)| Metric::found(&expression(&field), &label(&field), true).ok())
}

/// Whether it can be an amount or a rate: no time, and no share or scatter of another number.
fn may_be_work(field: &Field) -> bool {
    const TIMES: [&str; 16] = [
        "latency",
        "time",
        "msec",
        "usec",
        "avg",
        "min:",
        "max:",
        "percentile",
        "sum:",
        "delay",
        "elapsed",
        "error",
        "stddev",
        "seed",
        "pid",
        "wait",
    ];
    const UNITS: [&str; 8] = ["s", "ms", "us", "ns", "sec", "secs", "second", "seconds"];
    let words = field.words.to_lowercase();
    let [before, after] = around(field);
    let unit = after.trim_start().split(|c: char| !c.is_ascii_alphabetic()).next().unwrap_or_default();
    !TIMES.iter().any(|word| words.contains(word))
        && !UNITS.contains(&unit)
        && !after.starts_with('%')
        && !before.ends_with("+-")
}

/// What stands right before and after it.
fn around(field: &Field) -> [&str; 2] {
    let at = position(field.nth);
    let text = |at: usize| match field.pieces.get(at) {
        Some(Piece::Text(text)) => text.as_str(),
        _ => "",
    };
    [text(at - 1).trim_end(), text(at + 1)]
}

/// How surely it says how much was done; `None` if it does not.
fn score(field: &Field, taken: Option<&[f64]>) -> Option<u32> {
    const RATES: [&str; 10] =
        ["/s", "/sec", "per sec", "per second", "ops", "tps", "qps", "throughput", "persec", "rate"];
    const AMOUNTS: [&str; 11] = [
        "events",
        "operations",
        "transactions",
        "queries",
        "requests",
        "iterations",
        "updates",
        "transferred",
        "count",
        "done",
        "score",
    ];
    let words = field.words.to_lowercase();
    let says = |list: &[&str]| list.iter().any(|word| words.contains(word));
    if !may_be_work(field) {
        return None;
    }
    let by_words = if says(&RATES) { 2 } else { u32::from(says(&AMOUNTS)) };
    let goes_with_locks =
        taken.filter(|taken| taken.len() >= 3).is_some_and(|taken| correlation(taken, &field.values) > 0.9);
    let is_total = text(field.pieces.first()).to_lowercase().starts_with("total");
    // With a letter for its scale, thousands may be millions in the next run.
    let is_plain = !around(field)[1].starts_with(['k', 'K', 'M', 'G']);
    let score = 4 * by_words + 2 * u32::from(goes_with_locks) + 2 * u32::from(is_total) + u32::from(is_plain);
    (by_words > 0 || goes_with_locks).then_some(score)
}

fn correlation(a: &[f64], b: &[f64]) -> f64 {
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let (at, bt) = (mean(a), mean(b));
    let product: f64 = a.iter().zip(b).map(|(x, y)| (x - at) * (y - bt)).sum();
    let square = |values: &[f64], mean: f64| values.iter().map(|value| (value - mean).powi(2)).sum::<f64>();
    product / (square(a, at) * square(b, bt)).sqrt().max(f64::MIN_POSITIVE)
}

/// Longer lines hold no result, but a dump of data: each of its thousands of numbers would have all the others beside
/// it.
const LONGEST_LINE: usize = 2_000;

/// Numbers that stand in every run's output.
fn fields(runs: &[Seen]) -> Vec<Field> {
    let mut found: BTreeMap<Place, Field> = BTreeMap::new();
    for (at, run) in runs.iter().enumerate() {
        let (mut header, mut in_header) = (String::new(), false);
        let lines = run.printed.iter().flat_map(|text| text.lines()).enumerate();
        for (order, line) in lines.filter(|(_, line)| line.len() <= LONGEST_LINE) {
            let pieces: Rc<[Piece]> = pieces(line).into();
            let shape = skeleton(&pieces);
            let numbers = pieces.iter().filter(|piece| matches!(piece, Piece::Number(..))).count();
            // Of headings in several lines the first names the columns.
            let is_header = (0..numbers).all(|nth| is_process(&pieces, nth)) && line.split_whitespace().count() > 1;
            if is_header && !in_header {
                header = line.to_owned();
            }
            in_header = is_header;
            for nth in (0..numbers).filter(|nth| !is_process(&pieces, *nth)) {
                let place = (shape.clone(), nth);
                let value = value(&pieces, nth);
                let words = || beside(&pieces, nth) + " " + above(&header, line, &pieces, nth).unwrap_or_default();
                if at == 0 {
                    let field = || Field { values: Vec::new(), words: words(), pieces: pieces.clone(), nth, order };
                    found.entry(place.clone()).or_insert_with(field);
                }
                let Some(field) = found.get_mut(&place) else { continue };
                // The last of several is what an expression finds.
                field.values.truncate(at);
                if field.values.len() == at {
                    field.values.push(value);
                }
            }
        }
        found.retain(|_, field| field.values.len() == at + 1);
    }
    found.into_values().collect()
}

/// Part of a line.
#[derive(Clone, Debug, PartialEq)]
enum Piece {
    Text(String),
    Number(f64, String),
}

/// A line cut into numbers and what stands between them; digits within a word are no number.
fn pieces(line: &str) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let mut text = String::new();
    let mut rest = line;
    while let Some(first) = rest.chars().next() {
        let in_word = text.chars().last().is_some_and(|last| last.is_alphanumeric() || last == '_');
        let length = rest.find(|c: char| !c.is_ascii_digit() && c != '.' && c != ',').unwrap_or(rest.len());
        let digits = rest[..length].trim_end_matches(['.', ',']);
        match digits.replace(',', "").parse::<f64>() {
            Ok(number) if first.is_ascii_digit() && !in_word => {
                pieces.push(Piece::Text(std::mem::take(&mut text)));
                pieces.push(Piece::Number(number, digits.to_owned()));
                rest = &rest[digits.len()..];
            }
            _ => {
                text.push(first);
                rest = &rest[first.len_utf8()..];
            }
        }
    }
    pieces.push(Piece::Text(text));
    pieces
}

fn skeleton(pieces: &[Piece]) -> String {
    let shape = |piece: &Piece| match piece {
        Piece::Text(text) => text.split_whitespace().collect::<Vec<_>>().join(" "),
        Piece::Number(..) => "#".to_owned(),
    };
    pieces.iter().map(shape).collect::<Vec<_>>().join(" ")
}

/// Where the number with this index stands among the pieces.
fn position(nth: usize) -> usize {
    2 * nth + 1
}

/// Whether a number is that of a process, in brackets before a message.
fn is_process(pieces: &[Piece], nth: usize) -> bool {
    text(pieces.get(position(nth) - 1)).ends_with('[') && text(pieces.get(position(nth) + 1)).starts_with(']')
}

fn value(pieces: &[Piece], nth: usize) -> f64 {
    match pieces.get(position(nth)) {
        Some(Piece::Number(number, _)) => *number,
        _ => 0.0,
    }
}

fn text(piece: Option<&Piece>) -> &str {
    match piece {
        Some(Piece::Text(text)) => text.trim(),
        _ => "",
    }
}

/// The words before and after a number.
fn beside(pieces: &[Piece], nth: usize) -> String {
    let at = position(nth);
    format!("{} {}", text(pieces.get(at - 1)), text(pieces.get(at + 1)))
}

/// The heading of the number's column, if it has no label of its own and the line above has headings, counted from the
/// right: names of rows have spaces.
fn above<'a>(header: &'a str, line: &str, pieces: &[Piece], nth: usize) -> Option<&'a str> {
    if text(pieces.get(position(nth) - 1)).ends_with(':') {
        return None;
    }
    let nth = (0..nth).filter(|nth| !is_process(pieces, *nth)).count();
    let is_number = |word: &&str| word.replace(',', "").parse::<f64>().is_ok();
    let columns: Vec<&str> = line.split_whitespace().collect();
    let headings: Vec<&str> = header.split("  ").map(str::trim).filter(|heading| !heading.is_empty()).collect();
    let at = columns.iter().enumerate().filter(|(_, word)| is_number(word)).nth(nth)?.0;
    let from_right = columns.len() - at;
    (headings.len() > 1).then(|| headings.len().checked_sub(from_right).map(|at| headings[at])).flatten()
}

/// What finds the number in other outputs.
fn expression(field: &Field) -> String {
    let at = position(field.nth);
    let spaced = |text: &str| {
        let words: Vec<String> = text.split_whitespace().map(regex_lite::escape).collect();
        let edge = |is: bool| if is { "[ \\t]*" } else { "" };
        let (starts, ends) = (text.starts_with(char::is_whitespace), text.ends_with(char::is_whitespace));
        format!("{}{}{}", edge(starts), words.join("[ \\t]+"), edge(ends && !words.is_empty()))
    };
    let before = field.pieces[..at].iter().map(|piece| match piece {
        Piece::Text(text) => spaced(text),
        Piece::Number(..) => "[0-9.,]+".to_owned(),
    });
    let after = text(field.pieces.get(at + 1)).split_whitespace().next().map(regex_lite::escape);
    let after = after.map_or_else(String::new, |word| format!("[ \\t]*{word}"));
    format!("(?m)^{}([0-9][0-9.,]*){after}", before.collect::<String>())
}

/// What a report calls it.
fn label(field: &Field) -> String {
    field
        .words
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ")
        .trim_matches([':', '(', ')', '=', ' ', '[', ']'])
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(elapsed_s: f64, acquisitions: Option<u64>, printed: &str) -> Seen {
        Seen { elapsed_s, cpu_s: 1.0, acquisitions, printed: [printed.to_owned(), String::new()], ..Seen::default() }
    }

    fn metric(time: Time) -> (String, Metric) {
        let Time::FixedPrints(metric) = time else { panic!("{time:?}") };
        (metric.label().to_owned(), metric)
    }

    const SYSBENCH: &str = "sysbench 1.0.20 (using bundled LuaJIT 2.1.0-beta2)\n\nGeneral statistics:\n    \
        total time:                          10.00DIGITs\n    total number of events:              COUNT\n\n\
        Latency (ms):\n         min:                                    0.0DIGIT\n         avg:      COUNT.5\n\n\
        Threads fairness:\n    events (avg/stddev):           617.0000/3.00\n";

    fn sysbench(count: u64, digit: u64) -> String {
        SYSBENCH.replace("COUNT", &count.to_string()).replace("DIGIT", &digit.to_string())
    }

    #[test]
    fn a_fixed_time_is_judged_by_the_amount_that_moves() {
        let runs = [
            seen(10.004, None, &sysbench(1234, 1)),
            seen(10.01, Some(90_000), &sysbench(1500, 2)),
            seen(10.002, Some(300_000), &sysbench(4100, 3)),
        ];
        let (label, metric) = metric(judge(&runs, &[]));
        assert_eq!(label, "total number of events");
        assert_eq!(metric.find(&sysbench(77, 9), ""), Some(77.0));
        assert!(metric.higher);
    }

    /// A program that dumps its data does not fill the memory of whoever looks for a result.
    #[test]
    fn a_long_line_of_numbers_is_no_result() {
        let printed = |len: usize, n: u64| format!("{}\nrate: {n}00 ops/s\n", "7 ".repeat(len / 2));
        let fields_of = |len: usize| fields(&[1, 2, 3].map(|n| seen(1.0, None, &printed(len, n)))).len();
        assert_eq!(fields_of(LONGEST_LINE), 1 + LONGEST_LINE / 2);
        assert_eq!(fields_of(LONGEST_LINE + 2), 1);
    }

    #[test]
    fn a_rate_is_taken_before_an_amount_and_a_column_by_its_heading() {
        let line = |n: u64, rate: u64| format!("Total operations: {n} ({rate}.07 per second)\n");
        let runs = [1, 2, 3].map(|n| seen(1.0, None, &line(n * 1000, n * 900)));
        let (_, per_second) = metric(judge(&runs, &[]));
        assert_eq!(per_second.find(&line(8, 70), ""), Some(70.07));
        let table = |n: u64| {
            format!(
                "Type         Ops/sec     Hits/sec   Avg. Latency\n-----\nSets   {n}.5   ---   0.{n}\nTotals   {n}.25   0.5   1.{n}\n"
            )
        };
        let runs = [100, 200, 150].map(|n| seen(1.0, None, &table(n)));
        let (label, metric) = metric(judge(&runs, &[]));
        assert!(label.contains("Ops/sec"), "{label}");
        assert_eq!(metric.find(&table(7), ""), Some(7.25));
        let stress = |n: u64| {
            format!(
                "stress-ng: metrc: [9{n}] stressor       bogo ops real time  usr time   bogo ops/s     bogo ops/s\n\
                 stress-ng: metrc: [9{n}]                           (secs)    (secs)   (real time) (usr+sys time)\n\
                 stress-ng: metrc: [9{n}] mutex            {n}      1.24      0.{n}      {n}.36      7{n}.09\n"
            )
        };
        let runs = [100, 200, 150].map(|n| seen(1.0, None, &stress(n)));
        let (label, metric) = self::metric(judge(&runs, &[]));
        assert!(label.contains("bogo ops/s"), "{label}");
        assert_eq!(metric.find(&stress(7), ""), Some(7.36));
    }

    #[test]
    fn a_total_is_taken_before_what_each_thread_did_and_a_number_before_its_scatter() {
        let wrk = |n: u64| {
            format!(
                "  2 threads and 8 connections\n  Thread Stats   Avg      Stdev     Max   +/- Stdev\n    \
                 Latency   61{n}.28us    1.{n}ms  2{n}.11ms   9{n}.86%\n    Req/Sec     {n}.21k     1.{n}k    9.{n}k    6{n}.00%\n  \
                 {n}6523 requests in 1.10s, {n}.10MB read\nRequests/sec:  {n}5021.04\nTransfer/sec:      {n}.91MB\n"
            )
        };
        let runs = [4, 7, 5].map(|n| seen(1.0, None, &wrk(n)));
        let (label, metric) = metric(judge(&runs, &[]));
        assert_eq!((label.as_str(), metric.find(&wrk(8), "")), ("Requests/sec", Some(85021.04)));
        let perf = |n: u64| format!("Averaged {n}61568 operations/sec (+- {n}.16%), total secs = 1\n");
        let runs = [4, 7, 5].map(|n| seen(1.0, None, &perf(n)));
        assert_eq!(self::metric(judge(&runs, &[])).1.find(&perf(8), ""), Some(861_568.0));
    }

    #[test]
    fn a_number_that_may_be_the_work_is_offered() {
        let openssl =
            |n: u64| format!("+F:22:sha256:{n}1234 from 1\ntype           1024 bytes\nsha256          {n}36177.94k\n");
        let words = ["openssl", "speed", "-seconds", "1"].map(str::to_owned).to_vec();
        let runs = [4, 7, 5].map(|n| seen(1.01, None, &openssl(n)));
        let Time::FixedSilent(Some(metric)) = judge(&runs, &words) else { panic!() };
        assert_eq!(metric.find(&openssl(8), ""), Some(836_177.94), "{}", metric.expression());
        let runs = [4, 7, 5]
            .map(|n| seen(1.01, None, &format!("took 0.{n} ms of CPU time; {n}% idle\ncompleted in 1.0{n}s\n")));
        assert!(matches!(judge(&runs, &words), Time::FixedSilent(None)));
    }

    #[test]
    fn fixed_work_keeps_its_elapsed_time() {
        let done = |s: f64| format!("1000 updates in {s} s: {} updates/s\n", 1000.0 / s);
        let runs = [1.0, 1.01, 1.005].map(|s| seen(s, Some(1000), &done(s)));
        assert!(matches!(judge(&runs, &[]), Time::Works), "its locks are taken as often");
        let runs = [1.0, 1.01, 1.005].map(|s| seen(s, None, &done(s)));
        assert!(matches!(judge(&runs, &[]), Time::Works), "its rate goes with its time");
        let runs = [1.0, 1.4, 1.2].map(|s| seen(s, None, &sysbench((s * 1000.0) as u64, 1)));
        assert!(matches!(judge(&runs, &[]), Time::Works), "times differ");
    }

    #[test]
    fn without_a_number_locks_count_and_without_locks_one_cpu_tells() {
        let runs = [Some(1000), Some(3000), Some(2000)].map(|n| seen(1.0, n, "done\n"));
        assert!(matches!(judge(&runs, &[]), Time::FixedTakesLocks));
        let mut runs = [2.0, 2.0, 1.0].map(|cpu_s| Seen { cpu_s, ..seen(1.0, None, "") });
        assert!(matches!(judge(&runs, &[]), Time::Works), "it may sleep");
        runs[2].on_one_cpu = true;
        assert!(matches!(judge(&runs, &[]), Time::FixedSilent(None)));
        let brief = runs.clone().map(|run| Seen { elapsed_s: 0.04, ..run });
        assert!(matches!(judge(&brief, &[]), Time::Works), "it hardly does more than start");
    }

    #[test]
    fn a_short_program_needs_time_to_end_on_one_cpu() {
        let run = |elapsed_s, n| seen(elapsed_s, Some(n), "");
        let runs = [run(0.504, 900_000), run(0.506, 2_000_000), run(0.541, 3_000_000)];
        assert!(matches!(judge(&runs, &[]), Time::FixedTakesLocks));
        let runs = [run(0.504, 900_000), run(0.506, 2_000_000), run(0.6, 3_000_000)];
        assert!(matches!(judge(&runs, &[]), Time::Works));
    }

    fn named(line: &str, elapsed_s: &[f64]) -> bool {
        is_named(&line.split(' ').map(str::to_owned).collect::<Vec<_>>(), elapsed_s)
    }

    #[test]
    fn a_time_is_named_by_its_unit_or_by_its_option() {
        for line in [
            "stress-ng --malloc 4 --timeout 2",
            "sysbench cpu --time=2 run",
            "wrk -t4 -c64 -d2s http://localhost",
            "pgbench -T 2 -c 8",
            "./load 2000ms",
            "./load --run-ms 2000",
            "timeout 2 ./load",
        ] {
            assert!(named(line, &[2.01, 2.3, 2.05]), "{line}");
            assert!(!named(line, &[2.01, 2.6, 2.05]) && !named(line, &[1.9, 2.0, 2.0]), "{line}");
        }
        for line in [
            "./work 2",
            "./work --items 2000",
            "./work --threads 2",
            "./work --size=2",
            "./work -n2",
            "./work 2m",
            "-",
            "./é=2",
        ] {
            assert!(!named(line, &[2.01, 2.05]), "{line}");
        }
    }

    #[test]
    fn a_program_whose_time_is_named_may_scatter_and_is_never_judged_by_it() {
        let words: Vec<String> = ["stress-ng", "--malloc", "2", "--timeout", "2s"].map(str::to_owned).to_vec();
        let stress = |n: u64| format!("stress-ng: metrc: [1] malloc {n}.5 bogo ops/s\n");
        let times = [2.02, 2.21, 2.09];
        let runs = [(times[0], 3_000_000), (times[1], 1_400_000), (times[2], 5_000_000)]
            .map(|(s, n)| seen(s, None, &stress(n)));
        assert!(matches!(judge(&runs, &words), Time::FixedPrints(_)));
        assert!(matches!(judge(&runs, &[]), Time::Works), "without that nobody could know");
        let silent = times.map(|s| seen(s, None, "stress-ng: info: successful run completed\n"));
        assert!(matches!(judge(&silent, &words), Time::FixedSilent(None)));
        let starts = times.map(|s| seen(s, Some(200), "done\n"));
        assert!(matches!(judge(&starts, &words), Time::FixedSilent(None)), "locks that it takes to start are no work");
    }
}
