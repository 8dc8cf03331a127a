//! A trial as people read it: what helps and by how much, the ranking, what was served, and the line that keeps the
//! winner.

use crate::text;
use crate::trial::allocator::Allocator;
use crate::trial::coverage::Coverage;
use crate::trial::figure::Figure;
use crate::trial::keep::keep;
use crate::trial::modes::{Goal, Mode, Pace};
use crate::trial::plan::{LEAST_GAIN, Standing, Verdict};
use crate::trial::ratio::Ratio;
use crate::trial::remedy::Change;
use crate::trial::run::{Failure, Subject};
use crate::trial::search::{Rules, Trial, Tried};

use super::document::{Column, Document, Ink, Table, Text, ink};
use super::number::{self, counted_roughly as counted};

/// All of it.
pub fn screen(subject: &Subject, rules: &Rules, trial: &Trial) -> Document {
    let mut screen = Document::default();
    screen.headline(headline(subject, trial));
    screen.gap();
    screen.table(table(trial));
    for paragraph in paragraphs(rules, trial) {
        screen.gap();
        screen.paragraph(paragraph);
    }
    if let Some(at) = trial.winner() {
        let keep = keep(&trial.tried[at].remedy, &subject.tried());
        screen.gap();
        screen.paragraph("Keep it:");
        screen.indented(2, |inner| {
            inner.command([keep.line]);
            inner.paragraph(keep.permanent);
        });
    }
    screen
}

/// Verdict, ranking and how they were found: what a demonstration needs.
pub fn result(subject: &Subject, rules: &Rules, trial: &Trial) -> Document {
    let mut result = Document::default();
    result.headline(headline(subject, trial));
    result.gap();
    result.table(table(trial));
    result.gap();
    result.paragraph(method(rules, trial));
    if let Some(advice) = advice(trial) {
        result.gap();
        result.paragraph(advice);
    }
    result
}

/// The verdict in a sentence.
pub fn headline(subject: &Subject, trial: &Trial) -> String {
    let name = text::clean(&subject.name());
    match trial.verdict {
        Verdict::Helps(at) => helps(&trial.tried[at]),
        Verdict::Nothing => match most_missed(trial) {
            Some(most) => format!(
                "Nothing helps {name}: no remedy makes it more than {} better.",
                number::percent((most.max(LEAST_GAIN) - 1.0).max(0.01))
            ),
            None => format!("Nothing helps {name}: every remedy makes it worse."),
        },
        Verdict::Saves(at) => saves(&name, &trial.tried[at]),
        Verdict::Noisy => match in_turns_only(trial) {
            Some((tried, turns)) => format!(
                "Undecided: in turns within one process {name} took its locks {} as often under {}, but whole runs do \
                 not show it. Compare a figure that says how much it does: --metric.",
                interval(&turns),
                tried.remedy.name
            ),
            None if trial.tried.iter().all(|tried| tried.ratio.or(tried.flipped).is_none()) => {
                "Not decided: the budget was spent before remedies could be compared.".to_owned()
            }
            None => format!(
                "Too noisy to tell: {name}'s runs scatter so much that a gain up to {} could hide in them{}.",
                most_missed(trial).map_or_else(|| "any size".to_owned(), |most| format!("{}x", number::ratio(most))),
                best_so_far(trial)
            ),
        },
        Verdict::AllFailed => format!("No remedy works with {name}: each one failed or cannot be had."),
        Verdict::Stopped => "Stopped before it was decided; what was seen so far:".to_owned(),
    }
}

fn helps(tried: &Tried) -> String {
    let gain = tried.ratio.map_or_else(String::new, |ratio| format!(" by {}", interval(&ratio)));
    let cpu = match tried.cpu {
        Some(cpu) if (0.95..=1.05).contains(&cpu) => ", at the same CPU time".to_owned(),
        Some(cpu) => format!(", with {} of the CPU time", number::ratio(cpu)),
        None => String::new(),
    };
    format!("{} helps{gain}{cpu}.", tried.remedy.name)
}

fn saves(name: &str, tried: &Tried) -> String {
    let speed = tried.ratio.map_or_else(String::new, |ratio| format!(" (speed {})", interval(&ratio)));
    let cpu = tried.cpu_interval.map_or_else(String::new, |cpu| {
        format!("{} [{}, {}]", number::ratio(cpu.ratio), number::ratio(cpu.low), number::ratio(cpu.high))
    });
    format!("No remedy makes {name} faster, but {} does the same{speed} with {cpu} of the CPU time.", tried.remedy.name)
}

/// What is best in turns, where whole runs of it, if there were any, do not contradict by more than their noise.
fn in_turns_only(trial: &Trial) -> Option<(&Tried, Ratio)> {
    let faster = |tried: &'_ Tried| tried.flipped.filter(|turns| tried.failure.is_none() && turns.low > 1.1);
    let all = trial.tried.iter().filter_map(|tried| Some((tried, faster(tried)?)));
    let best = all.max_by(|a, b| a.1.ratio.total_cmp(&b.1.ratio))?;
    best.0.ratio.is_none_or(|runs| runs.ratio < 1.1).then_some(best)
}

/// What looks best, though nothing is decided.
fn best_so_far(trial: &Trial) -> String {
    let live = trial.tried.iter().filter(|tried| tried.failure.is_none());
    let best = live.filter_map(|tried| Some((tried, tried.ratio?))).max_by(|a, b| a.1.ratio.total_cmp(&b.1.ratio));
    match best.filter(|(_, ratio)| ratio.ratio > LEAST_GAIN) {
        Some((tried, ratio)) => format!("; the best so far is {}, {}", tried.remedy.name, interval(&ratio)),
        None => String::new(),
    }
}

/// `1.43x [1.35, 1.52]`.
pub(crate) fn interval(ratio: &Ratio) -> String {
    format!("{}x [{}, {}]", number::ratio(ratio.ratio), number::ratio(ratio.low), number::ratio(ratio.high))
}

/// The most that a remedy which is not ruled out could gain.
fn most_missed(trial: &Trial) -> Option<f64> {
    let highs = trial.tried.iter().filter_map(|tried| tried.ratio.or(tried.flipped)).map(|ratio| ratio.high);
    highs.filter(|high| *high > 1.0).max_by(f64::total_cmp)
}

/// The ranking.
fn table(trial: &Trial) -> Table {
    let mut table = Table::new([
        Column::left("remedy").whole(),
        Column::right("speed"),
        Column::fixed("interval"),
        Column::right("CPU time"),
        Column::right("switches"),
        Column::right("runs"),
        Column::fixed(""),
    ]);
    let value = |tried: &Tried| tried.ratio.or(tried.flipped).map_or(f64::NEG_INFINITY, |ratio| ratio.ratio);
    let mut ranked: Vec<&Tried> = trial.tried.iter().filter(|tried| tried.failure.is_none()).collect();
    ranked.sort_by(|a, b| value(b).total_cmp(&value(a)));
    let (better, worse) = ranked.split_at(ranked.partition_point(|tried| value(tried) >= 1.0));
    for tried in better {
        table.row(row(tried, trial));
    }
    table.row(baseline_row(trial));
    for tried in worse {
        table.row(row(tried, trial));
    }
    failures(&mut table, trial);
    table
}

fn row(tried: &Tried, trial: &Trial) -> Vec<Text> {
    let name = Text::from(&tried.remedy.name);
    let Some(ratio) = tried.ratio.or(tried.flipped) else {
        return vec![name, "-".into(), "not decided".into()];
    };
    let mark = match ratio {
        _ if trial.winner() == Some(position(trial, tried)) => "*",
        Ratio { low, high, .. } if low <= 1.0 && 1.0 <= high => "=",
        _ => " ",
    };
    let note = match (tried.confirmed, tried.standing) {
        _ if tried.ratio.is_none() => "in one process",
        (true, _) => "confirmed",
        (_, Standing::Dropped) => "dropped",
        _ => "",
    };
    let share = |value: Option<f64>| Text::from(value.map_or_else(|| "-".to_owned(), number::ratio));
    let speed = Text::from(text::right(&number::ratio(ratio.ratio), 5));
    vec![
        name,
        Text::from(mark) + " " + if ratio.low > 1.0 { speed.inked(Ink::Good) } else { speed },
        format!("[{}-{}]", number::ratio(ratio.low), number::ratio(ratio.high)).into(),
        share(tried.cpu),
        share(tried.switches),
        tried.runs.to_string().into(),
        note.into(),
    ]
}

fn position(trial: &Trial, tried: &Tried) -> usize {
    trial.tried.iter().position(|other| std::ptr::eq(other, tried)).unwrap_or(usize::MAX)
}

/// The figure of the program as it is.
pub(crate) fn as_it_is(trial: &Trial) -> String {
    match trial.figure {
        Figure::Elapsed => number::time_ns(trial.baseline.figure * 1e9),
        _ => number::plain(trial.baseline.figure),
    }
}

fn baseline_row(trial: &Trial) -> [String; 6] {
    [
        "as it is".to_owned(),
        "1".to_owned(),
        as_it_is(trial),
        number::time_ns(trial.baseline.cpu_s * 1e9),
        number::count(trial.baseline.switches),
        trial.baseline.runs.to_string(),
    ]
}

/// Remedies that failed for one reason share a row.
fn failures(table: &mut Table, trial: &Trial) {
    let mut reasons: Vec<(Text, Vec<&str>)> = Vec::new();
    for (tried, failure) in trial.tried.iter().filter_map(|tried| Some((tried, tried.failure.as_ref()?))) {
        let (label, colour) = match failure {
            Failure::Unavailable(_) => ("not tried", Ink::Faint),
            _ => ("failed", Ink::Bad),
        };
        let why = failure.to_string();
        let reason = ink(colour, format!("{label}: {}", why.lines().next().unwrap_or_default()));
        match reasons.iter_mut().find(|(other, _)| *other == reason) {
            Some((_, names)) => names.push(&tried.remedy.name),
            None => reasons.push((reason, vec![&tried.remedy.name])),
        }
    }
    for (reason, names) in reasons {
        match names[..] {
            [name] => table.row([name.into(), reason]),
            _ => table.row([names.join(", ")]).below(reason),
        };
    }
}

/// What stands below the table.
pub(crate) fn paragraphs(rules: &Rules, trial: &Trial) -> Vec<String> {
    let mut all = vec![method(rules, trial)];
    all.extend(steadiness(trial));
    all.extend(trial.coverage.as_ref().map(coverage));
    all.extend(advice(trial));
    all
}

/// Why it is not judged by its elapsed time, if nobody asked for another figure.
fn fixed(trial: &Trial) -> String {
    let Some(seconds) = trial.fixed_s else { return String::new() };
    let time = number::time_ns(seconds * 1e9);
    match &trial.figure {
        Figure::Printed(_) => {
            format!(
                "It runs for {time} whatever is done, so a number counts that it prints and that moves; --metric names \
                 another. "
            )
        }
        _ => format!(
            "It runs for {time} whatever is done and prints no number that moves, so its locks are counted; --metric \
             names a number. "
        ),
    }
}

fn method(rules: &Rules, trial: &Trial) -> String {
    let what = match &trial.figure {
        Figure::Elapsed => "elapsed time".to_owned(),
        Figure::Acquisitions => "acquisitions of its locks a second, more is better".to_owned(),
        Figure::Pace(goal) => {
            let part =
                if *goal == Goal::Worst { "its slowest 20 ms" } else { "the speed that it keeps for 95% of the time" };
            format!("{part}, in acquisitions of its locks a second, more is better")
        }
        Figure::Printed(metric) => {
            let better = if metric.higher { "more" } else { "less" };
            format!("its own figure '{}', {better} is better", text::clean(metric.label()))
        }
    };
    let fixed = fixed(trial);
    let noise = match &trial.noise {
        Some(noise) => format!(" As it is against itself: {}; that is the noise.", interval(noise)),
        None => String::new(),
    };
    let way = match &trial.flips {
        Some(flips) => {
            let itself = trial
                .flipped_noise
                .map_or_else(String::new, |noise| format!(" (glibc against itself: {})", interval(&noise)));
            format!(
                "Lock policies took turns of {} ms within one process{itself}; the best of them and all other \
                 remedies then ran against the program as it is, paired and shuffled",
                flips.window_ms
            )
        }
        None => "Run against run, paired and shuffled".to_owned(),
    };
    format!(
        "{fixed}speed: times as good as it is, by {what}; = is undecided. {way}: {} in {} (seed {}).{noise}",
        number::counted(trial.runs.len() + 1, "run"),
        number::time_ns(trial.spent_s * 1e9),
        rules.seed
    )
}

/// At which speeds it runs: of the program as it is, and of the winner.
fn steadiness(trial: &Trial) -> Option<String> {
    let paces = trial.paces.as_ref()?;
    let winner = match (&paces.winner, trial.winner()) {
        (Some(pace), Some(at)) => format!("; under {}, {}", trial.tried[at].remedy.name, speeds(pace)),
        _ => String::new(),
    };
    Some(format!("Steadiness, in acquisitions a second: as it is, {}{winner}.", speeds(&paces.as_it_is)))
}

/// `35% of the time 24 M/s (for 350 ms), 65% 8 M/s (for 650 ms)`, or `always 13 M/s (90% of the time from 12 to 14)`.
fn speeds(pace: &Pace) -> String {
    let mode = |mode: &Mode| {
        let lasts = number::time_ns(mode.dwell_ms * 1e6);
        format!("{} of the time {} (for {lasts} at a time)", number::percent(mode.share), number::rate(mode.speed))
    };
    if pace.is_bistable() {
        let within = match pace.share_within {
            within if within <= 0.1 => String::new(),
            0.5.. => "; it changed too seldom for the shares to be certain".to_owned(),
            within => format!("; these shares are right within {}", number::percent(within)),
        };
        return text::list(&pace.modes.iter().map(mode).collect::<Vec<_>>()) + &within;
    }
    let [low, high] = [pace.p5, pace.p95].map(number::rate);
    format!("one speed, {} on average (90% of the time from {low} to {high})", number::rate(pace.mean))
}

/// What the interposer serves.
pub fn coverage(coverage: &Coverage) -> String {
    let waits = counted(coverage.futex_waits, "wait");
    let left = match coverage.left_to_glibc {
        0 => String::new(),
        n => {
            format!(" {} of shared, robust or priority mutexes are left to glibc.", counted(n, "acquisition"))
        }
    };
    let rw = match coverage.reader_writer {
        0 => String::new(),
        n => format!(" {} of reader-writer locks, for which --rw has policies.", counted(n, "acquisition")),
    };
    let others = match (coverage.futex_waits_recorded, coverage.share()) {
        (Some(all), Some(share)) if share < 0.5 => format!(
            " A recording saw {}, most of them for what no lock policy reaches (condition variables, Rust std, \
             parking_lot, Go, semaphores).",
            counted(all, "futex wait")
        ),
        _ => String::new(),
    };
    if coverage.acquisitions == 0 && coverage.reader_writer > 0 {
        return format!("Coverage: no pthread mutex is taken;{rw}");
    }
    if coverage.acquisitions == 0 {
        let what = match coverage.futex_waits_recorded {
            Some(all) => format!("0 pthread locks, {} on a futex", counted(all, "wait")),
            None => format!("0 pthread locks, {}", counted(coverage.voluntary_switches, "voluntary switch")),
        };
        return format!("Coverage: {what}: its locks cannot be served. Try --cpus or --vary, and see 'holdup record'.");
    }
    format!(
        "Coverage: {} of pthread mutexes served, {} of them contended, {waits} asleep for them among {} voluntary \
         switches.{left}{rw}{others}",
        counted(coverage.acquisitions, "acquisition"),
        number::percent(coverage.contended as f64 / coverage.acquisitions as f64),
        number::count(coverage.voluntary_switches as f64)
    )
}

/// What to do, in a sentence.
fn advice(trial: &Trial) -> Option<String> {
    let text = match trial.verdict {
        Verdict::Helps(at) | Verdict::Saves(at) => cure(&trial.tried[at].remedy.change).to_owned(),
        Verdict::Nothing => {
            "Leave it alone: what was tried is not what holds this program up. 'holdup record' shows where its time \
             goes."
                .to_owned()
        }
        Verdict::Noisy => {
            "Give a larger --budget, make each run longer, or keep the machine quiet; then try again.".to_owned()
        }
        Verdict::AllFailed => {
            "Other remedies: --cpus, --vary N=1,2,4 with {N} among the arguments; 'holdup record' shows what it waits \
             for."
                .to_owned()
        }
        Verdict::Stopped => return None,
    };
    Some(format!("Advice: {text}"))
}

fn cure(change: &Change) -> &'static str {
    use holdup_control::{Policy, RwPolicy};
    match change {
        Change::Lock(Policy::Throttle(_)) => {
            "more threads want the same short section than help it: let fewer in at a time (a gate), or make the \
             section shorter."
        }
        Change::Lock(_) => {
            "its sections are shorter than a sleep: threads that look again before they sleep save the switches."
        }
        Change::Rw(RwPolicy::PreferWriter) => {
            "readers that overlap keep its writers waiting: let new readers wait behind a writer. If a thread that reads \
             waits for another that has yet to read the same lock, both can hang; 'holdup with' ends that after --watchdog."
        }
        Change::Rw(_) => {
            "its reader-writer locks are held for less than a sleep takes: threads that try again before they sleep save \
             the switches."
        }
        Change::Cpus(_) => "its threads hinder each other more than they help: give it fewer CPUs, or fewer threads.",
        Change::SliceNs(_) => "how long its threads run at a time matters: keep the slice.",
        Change::Batch => "its threads are switched too often: keep the batch policy.",
        Change::Malloc(Allocator::Keeping) => {
            "it gives freed memory back to the system and takes it again, page by page: let malloc keep it, or use \
             buffers again."
        }
        Change::Malloc(Allocator::Other(_)) => "its malloc holds it up: use this allocator, or allocate less.",
        Change::Tunable(..) => "keep this setting of the C library.",
        Change::FutexHash(_) => {
            "its futexes get in each other's way in the kernel's table: keep this one, or wait less often."
        }
        Change::Environment(..) => "keep this setting of its environment.",
        Change::Argument(..) => "keep this argument.",
    }
}
