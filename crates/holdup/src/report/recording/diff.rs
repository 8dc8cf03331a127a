//! Two recordings side by side: which findings are gone, new, better, worse; then the figures behind them.

use std::borrow::Cow;
use std::fmt::{self, Write as _};

use holdup_analyze::{AccountState, Facts, Finding, Kind, LockFacts, Subject};
use schemars::JsonSchema;
use serde::Serialize;

use super::super::document::{Column, Document, Ink, Table, Text, ink};
use super::super::number;
use super::{per_second, sentences, share, summary};
use crate::recording::Recording;
use crate::recording::name;
use crate::text;

/// A cost that changes by less than this share of thread time did not change: recordings of the same program differ as
/// much.
const NOISE_SHARE: f64 = 0.02;

/// And by less than this ratio.
const NOISE_RATIO: f64 = 1.25;

/// A state that takes so much more of the threads' time tells something of a slow run.
const SHARE_THAT_TELLS: f64 = 0.05;

/// A rate that is so many times as high does.
const RATIO_THAT_TELLS: f64 = 1.5;

/// Rows per table.
const MOST_ROWS: usize = 10;

/// What became of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Change {
    /// It was not there before.
    New,
    /// It costs more.
    Worse,
    /// It costs about as much.
    Same,
    /// It costs less.
    Better,
    /// It is not there any more.
    Gone,
}

impl Change {
    fn ink(self) -> Ink {
        match self {
            Change::New | Change::Worse => Ink::Bad,
            Change::Better | Change::Gone => Ink::Good,
            Change::Same => Ink::Faint,
        }
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

/// A finding of one or both recordings.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "FindingChange")]
struct Row {
    /// What became of it.
    change: Change,
    /// Its kind.
    kind: Kind,
    /// Whom it is about.
    subject: String,
    /// What it cost before; null if it was not there.
    #[serde(rename = "before_share")]
    before: Option<f64>,
    /// What it costs after.
    #[serde(rename = "after_share")]
    after: Option<f64>,
}

/// The comparison for people.
pub fn view(before: &Recording, after: &Recording) -> Document {
    let (old, new) = (&before.report, &after.report);
    let rows = rows(&old.facts, &old.findings, &new.facts, &new.findings);
    let mut view = Document::default();
    view.headline(headline(&rows));
    for difference in differences(&old.facts, &new.facts) {
        view.hanging(2, format!("Note: {difference}."));
    }
    let tables = [
        finding_rows(&rows),
        figures(&old.facts, &new.facts),
        locks(&old.facts, &new.facts),
        threads(&old.facts, &new.facts),
    ];
    for table in tables.into_iter().filter(|table| !table.is_empty()) {
        view.gap();
        view.table(table);
    }
    view
}

/// The comparison as JSON.
#[derive(Serialize, JsonSchema)]
#[schemars(title = "Two recordings of holdup compared")]
pub struct Comparison<'a> {
    /// Name and version of this form.
    #[schemars(extend("const" = "holdup-recording-diff-1"))]
    schema: &'static str,
    /// The file to compare with.
    before: Cow<'a, str>,
    /// The file to judge.
    after: Cow<'a, str>,
    /// What makes the two less comparable.
    notes: Vec<String>,
    /// What became of each finding. Findings are matched by kind and subject.
    findings: Vec<Row>,
    /// Figures of the whole program.
    figures: Vec<Measure>,
    /// The locks of either, most time lost first; matched by their variable, or by the function that waits for them.
    locks: Vec<LockChange>,
    /// Threads by name without its number.
    threads: Vec<MatchedThreads>,
}

impl<'a> Comparison<'a> {
    /// Of these two.
    pub fn new(before: &'a Recording, after: &'a Recording) -> Comparison<'a> {
        let (old, new) = (&before.report, &after.report);
        let locks = matched_locks(&old.facts, &new.facts).into_iter();
        Comparison {
            schema: "holdup-recording-diff-1",
            before: before.path.to_string_lossy(),
            after: after.path.to_string_lossy(),
            notes: differences(&old.facts, &new.facts),
            findings: rows(&old.facts, &old.findings, &new.facts, &new.findings),
            figures: measures(&old.facts, &new.facts),
            locks: locks.map(|lock| LockChange::new(&old.facts, &new.facts, lock)).collect(),
            threads: matched_threads(&old.facts, &new.facts),
        }
    }
}

impl Comparison<'_> {
    /// The worst of what is new or grew by at least this share of working time, in a sentence.
    pub fn failure(&self, at_least: f64) -> Option<String> {
        let growth = |row: &Row| row.after.unwrap_or(0.0) - row.before.unwrap_or(0.0);
        let fails = |row: &&Row| matches!(row.change, Change::New | Change::Worse) && growth(row) >= at_least;
        let worst = self.findings.iter().filter(fails).max_by(|a, b| growth(a).total_cmp(&growth(b)))?;
        let was = worst.before.map_or_else(String::new, |before| format!(", {} before", number::percent(before)));
        Some(format!(
            "{} {} {}: {} of working time{was}",
            worst.change,
            worst.kind.name(),
            worst.subject,
            number::percent(worst.after.unwrap_or(0.0))
        ))
    }
}

/// What differed between a usual run of a program and a slow one, each as the end of a sentence; empty where nothing
/// that was recorded did.
pub fn differed(usual: &Facts, findings: &[Finding], slow: &Facts, slow_findings: &[Finding]) -> Vec<String> {
    let mut all = Vec::new();
    for row in rows(usual, findings, slow, slow_findings) {
        let cost = number::percent(row.after.unwrap_or(0.0));
        match row.change {
            Change::New => all.push(format!("{} {} is new, {cost} of working time", row.kind.name(), row.subject)),
            Change::Worse => all.push(format!(
                "{} {} costs {cost} of working time, {} in a usual run",
                row.kind.name(),
                row.subject,
                number::percent(row.before.unwrap_or(0.0))
            )),
            _ => {}
        }
    }
    for state in AccountState::ALL {
        let (before, after) = (usual.account.share(state), slow.account.share(state));
        if after - before >= SHARE_THAT_TELLS {
            let (before, after) = (number::percent(before), number::percent(after));
            all.push(format!(
                "{after} of the threads' time in '{}', {before} in a usual run",
                name::account_state(state)
            ));
        }
    }
    let per_second =
        measures(usual, slow).into_iter().filter(|measure| !measure.is_share && measure.key != "cpus_busy");
    for measure in per_second.filter(|measure| measure.after > measure.before.max(1.0) * RATIO_THAT_TELLS) {
        let (before, after) = (number::count(measure.before), number::count(measure.after));
        all.push(format!("{after} {}, {before} in a usual run", measure.what));
    }
    let per_cycle = |facts: &Facts| facts.efficiency.instructions_per_cycle;
    if let (Some(before), Some(after)) = (per_cycle(usual), per_cycle(slow))
        && after * NOISE_RATIO < before
    {
        all.push(format!("{after:.2} instructions per cycle, {before:.2} in a usual run"));
    }
    all
}

/// What makes the two recordings less comparable, each as a sentence without its full stop.
pub fn differences(before: &Facts, after: &Facts) -> Vec<String> {
    let mut notes = Vec::new();
    let (old, new) = (&before.header, &after.header);
    let mut differs = |what: &str, old: String, new: String| {
        if old != new {
            notes.push(format!("{what}: {} before, {} after", text::clean(&old), text::clean(&new)));
        }
    };
    differs("the programs differ", summary::program(before), summary::program(after));
    // A process that was attached to has no command line here.
    let started = !old.target.command.is_empty() && !new.target.command.is_empty();
    if started && summary::program(before) == summary::program(after) {
        differs("the command lines differ", old.target.command.join(" "), new.target.command.join(" "));
    }
    differs("the machines have other CPUs", old.machine.cpu.clone(), new.machine.cpu.clone());
    let cpus = |cpus: u32| number::counted(cpus as usize, "CPU");
    differs("the machines differ in size", cpus(old.machine.cpus), cpus(new.machine.cpus));
    differs("the kernels differ", old.machine.kernel.clone(), new.machine.kernel.clone());
    if old.capabilities != new.capabilities {
        notes.push("they were recorded with different rights: what only one could see looks new or gone".to_owned());
    }
    let (short, long) = (before.span_ns().min(after.span_ns()), before.span_ns().max(after.span_ns()));
    if long / 2 > short {
        notes.push(format!(
            "the lengths differ: {} before, {} after; compare rates and shares, not counts",
            number::time_ns(before.span_ns() as f64),
            number::time_ns(after.span_ns() as f64)
        ));
    }
    for (facts, which) in [(before, "before"), (after, "after")] {
        if facts.totals.lost > 0 {
            notes
                .push(format!("{} events were lost in the recording {which}", number::count(facts.totals.lost as f64)));
        }
    }
    notes
}

fn rows(old: &Facts, before: &[Finding], new: &Facts, after: &[Finding]) -> Vec<Row> {
    let mut left: Vec<(String, &Finding)> = after.iter().map(|one| (key(new, one), one)).collect();
    let mut rows = Vec::new();
    for finding in before {
        let wanted = key(old, finding);
        let twin = left.iter().position(|(key, _)| *key == wanted).map(|index| left.remove(index).1);
        rows.push(Row {
            change: twin.map_or(Change::Gone, |twin| changed(finding.severity, twin.severity)),
            kind: finding.kind,
            subject: sentences::subject(old, finding),
            before: Some(finding.severity),
            after: twin.map(|twin| twin.severity),
        });
    }
    rows.extend(left.into_iter().map(|(_, finding)| Row {
        change: Change::New,
        kind: finding.kind,
        subject: sentences::subject(new, finding),
        before: None,
        after: Some(finding.severity),
    }));
    rows.sort_by(|a, b| {
        let weight = |row: &Row| row.before.unwrap_or(0.0).max(row.after.unwrap_or(0.0));
        a.change.cmp(&b.change).then(weight(b).total_cmp(&weight(a)))
    });
    rows
}

/// What makes two findings the same one: the kind and the subjects, without anything that address layout or numbering
/// changes.
fn key(facts: &Facts, finding: &Finding) -> String {
    let mut key = finding.kind.name().to_owned();
    let mut subjects: Vec<String> = finding.subjects.iter().map(|subject| subject_key(facts, subject)).collect();
    subjects.sort();
    for subject in subjects {
        let _ = write!(key, "|{subject}");
    }
    key
}

fn subject_key(facts: &Facts, subject: &Subject) -> String {
    match subject {
        Subject::Lock { number, name, primitive, .. } => match facts.lock(*number) {
            Some(lock) if lock.name == *name => lock_key(lock),
            _ => format!("lock {} {}", name::primitive(*primitive), name::lock_short(name, None)),
        },
        Subject::Thread { name, .. } => format!("thread {}", name::without_number(name)),
        Subject::Process { name, .. } => format!("process {name}"),
        other => name::subject(facts, other),
    }
}

/// A lock by its variable, or by what it is and the function that waits for it: the same in the next run of the
/// program.
fn lock_key(lock: &LockFacts) -> String {
    let caller = lock.wait_sites.first().and_then(|site| site.caller()?.function.as_deref().map(str::to_owned));
    match (&lock.name, caller) {
        (holdup_analyze::LockName::Address, Some(function)) => {
            format!("lock {} at {function}", name::primitive(lock.primitive))
        }
        (name, _) => format!("lock {} {}", name::primitive(lock.primitive), name::lock_short(name, None)),
    }
}

fn changed(before: f64, after: f64) -> Change {
    let (small, large) = if before < after { (before, after) } else { (after, before) };
    match large - small < NOISE_SHARE || large < small * NOISE_RATIO {
        true => Change::Same,
        false if after < before => Change::Better,
        false => Change::Worse,
    }
}

fn headline(rows: &[Row]) -> String {
    if rows.is_empty() {
        return "Nothing holds the program up, neither before nor after.".to_owned();
    }
    let order = [Change::Gone, Change::Better, Change::Same, Change::Worse, Change::New];
    let counted: Vec<String> = order
        .iter()
        .filter_map(|change| {
            let count = rows.iter().filter(|row| row.change == *change).count();
            (count > 0).then(|| format!("{count} {change}"))
        })
        .collect();
    format!("{}: {}.", if rows.len() == 1 { "Finding" } else { "Findings" }, text::list(&counted))
}

fn finding_rows(rows: &[Row]) -> Table {
    let mut table = Table::new([
        Column::left(""),
        Column::left(""),
        Column::right(""),
        Column::left(""),
        Column::right(""),
        Column::left(""),
    ]);
    for row in rows {
        let share = |share: Option<f64>| Text::from(share.map_or_else(|| "-".to_owned(), number::percent));
        table.row([
            ink(row.change.ink(), row.change.to_string()),
            row.kind.name().into(),
            share(row.before),
            "->".into(),
            share(row.after),
            Text::from(&row.subject),
        ]);
    }
    table
}

/// A figure of both recordings.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Figure")]
struct Measure {
    /// Which, with its unit last.
    #[serde(rename = "name")]
    key: &'static str,
    #[serde(skip)]
    what: &'static str,
    /// Before.
    before: f64,
    /// After.
    after: f64,
    #[serde(skip)]
    is_share: bool,
}

fn measures(before: &Facts, after: &Facts) -> Vec<Measure> {
    let both = |key, what, is_share, figure: &dyn Fn(&Facts) -> f64| Measure {
        key,
        what,
        before: figure(before),
        after: figure(after),
        is_share,
    };
    vec![
        both("switches_per_s", "switches per second", false, &|facts| per_second(facts, facts.totals.switches)),
        both("involuntary_per_s", "of these involuntary", false, &|facts| per_second(facts, facts.totals.involuntary)),
        both("lock_wait_share", "thread time waiting for locks", true, &|facts| {
            facts.account.share(AccountState::Lock)
        }),
        both("cpus_busy", "CPUs busy", false, &|facts| share(facts.totals.on_cpu_ns, facts.span_ns())),
        both("wasted_wakes_per_s", "futex wakes for nothing per second", false, &|facts| {
            per_second(facts, facts.totals.wasted_wakes)
        }),
    ]
}

fn figures(before: &Facts, after: &Facts) -> Table {
    let mut table =
        Table::new([Column::left("figure"), Column::right("before"), Column::right("after"), Column::right("ratio")]);
    for measure in measures(before, after) {
        let show = |value: f64| match measure.is_share {
            true => number::percent(value),
            false => number::count(value),
        };
        table.row(vec![
            measure.what.to_owned(),
            show(measure.before),
            show(measure.after),
            ratio(measure.before, measure.after),
        ]);
    }
    table
}

fn ratio(before: f64, after: f64) -> String {
    if before > 0.0 { number::ratio(after / before) } else { "-".to_owned() }
}

/// A lock of one or both recordings.
struct MatchedLock<'a> {
    name: String,
    before: Option<&'a LockFacts>,
    after: Option<&'a LockFacts>,
}

/// What became of a lock of either recording.
#[derive(Serialize, JsonSchema)]
struct LockChange {
    /// How reports call it.
    name: String,
    /// Share of thread time spent waiting for it before.
    before_share: Option<f64>,
    /// And after.
    after_share: Option<f64>,
    /// Waits per second before.
    before_waits_per_s: Option<f64>,
    /// And after.
    after_waits_per_s: Option<f64>,
}

impl LockChange {
    fn new(old: &Facts, new: &Facts, lock: MatchedLock<'_>) -> LockChange {
        LockChange {
            name: lock.name,
            before_share: lock.before.map(|known| lock_share(old, known)),
            after_share: lock.after.map(|known| lock_share(new, known)),
            before_waits_per_s: lock.before.map(|known| per_second(old, known.waits)),
            after_waits_per_s: lock.after.map(|known| per_second(new, known.waits)),
        }
    }
}

fn matched_locks<'a>(before: &'a Facts, after: &'a Facts) -> Vec<MatchedLock<'a>> {
    let contended = |facts: &'a Facts| facts.locks.iter().filter(|lock| lock.primitive.is_contention());
    let mut left: Vec<(String, &LockFacts)> = contended(after).map(|lock| (lock_key(lock), lock)).collect();
    let mut matched = Vec::new();
    for lock in contended(before) {
        let wanted = lock_key(lock);
        let twin = left.iter().position(|(key, _)| *key == wanted).map(|index| left.remove(index).1);
        matched.push(MatchedLock { name: name::lock_short(&lock.name, lock.addr), before: Some(lock), after: twin });
    }
    matched.extend(left.into_iter().map(|(_, lock)| MatchedLock {
        name: name::lock_short(&lock.name, lock.addr),
        before: None,
        after: Some(lock),
    }));
    let weight = |lock: &MatchedLock<'_>| {
        let of = |facts, known: Option<&LockFacts>| known.map_or(0.0, |lock| lock_share(facts, lock));
        of(before, lock.before).max(of(after, lock.after))
    };
    matched.sort_by(|a, b| weight(b).total_cmp(&weight(a)));
    matched
}

fn lock_share(facts: &Facts, lock: &LockFacts) -> f64 {
    share(lock.wait_ns.sum_ns(), facts.totals.thread_ns)
}

fn locks(before: &Facts, after: &Facts) -> Table {
    let matched = matched_locks(before, after);
    let mut table = Table::new([
        Column::left("lock"),
        Column::right("waits/s"),
        Column::right("after"),
        Column::right("ratio"),
        Column::right("time"),
        Column::right("after"),
        Column::right("median"),
        Column::right("after"),
    ]);
    for lock in matched.iter().take(MOST_ROWS) {
        let rate = |facts: &Facts, known: Option<&LockFacts>| known.map(|lock| per_second(facts, lock.waits));
        let (old, new) = (rate(before, lock.before), rate(after, lock.after));
        let count = |rate: Option<f64>| rate.map_or_else(|| "-".to_owned(), |rate| number::count(rate.round()));
        let part = |facts: &Facts, known: Option<&LockFacts>| {
            known.map_or_else(|| "-".to_owned(), |lock| number::percent(lock_share(facts, lock)))
        };
        let median = |known: Option<&LockFacts>| {
            known.map_or_else(|| "-".to_owned(), |lock| number::time_ns(lock.wait_ns.median_ns() as f64))
        };
        table.row(vec![
            lock.name.clone(),
            count(old),
            count(new),
            old.zip(new).map_or_else(|| "-".to_owned(), |(old, new)| ratio(old, new)),
            part(before, lock.before),
            part(after, lock.after),
            median(lock.before),
            median(lock.after),
        ]);
    }
    table
}

/// Threads of the same name, added up.
#[derive(Clone, Copy, Debug, Default, Serialize, JsonSchema)]
#[serde(into = "SumsRow")]
struct Sums {
    threads: usize,
    life_ns: u64,
    cpu_ns: u64,
    lock_ns: u64,
    switches: u64,
}

impl Sums {
    fn switches_per_s(self) -> f64 {
        if self.life_ns == 0 { 0.0 } else { self.switches as f64 * 1e9 / self.life_ns as f64 }
    }
}

/// Sums of threads as shares and rates.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Sums")]
struct SumsRow {
    /// How many.
    threads: usize,
    /// Share of their lives on a CPU.
    cpu_share: f64,
    /// Share of their lives waiting for locks.
    lock_share: f64,
    /// Switches per second of each.
    switches_per_s: f64,
}

impl From<Sums> for SumsRow {
    fn from(sums: Sums) -> SumsRow {
        SumsRow {
            threads: sums.threads,
            cpu_share: share(sums.cpu_ns, sums.life_ns),
            lock_share: share(sums.lock_ns, sums.life_ns),
            switches_per_s: sums.switches_per_s(),
        }
    }
}

/// Threads of one name.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ThreadChange")]
struct MatchedThreads {
    /// The name.
    name: String,
    /// Their sums before; null if there were none.
    before: Option<Sums>,
    /// And after.
    after: Option<Sums>,
}

fn sums(facts: &Facts) -> Vec<(String, Sums)> {
    let mut all: Vec<(String, Sums)> = Vec::new();
    for thread in &facts.threads {
        let name = name::without_number(&text::clean(name::thread_name(facts, thread)));
        let index = all.iter().position(|(known, _)| *known == name).unwrap_or_else(|| {
            all.push((name, Sums::default()));
            all.len() - 1
        });
        let sums = &mut all[index].1;
        sums.threads += 1;
        sums.life_ns += thread.life_ns();
        sums.cpu_ns += thread.on_cpu_ns;
        sums.lock_ns += thread.lock_wait_ns;
        sums.switches += thread.voluntary + thread.involuntary;
    }
    all
}

fn matched_threads(before: &Facts, after: &Facts) -> Vec<MatchedThreads> {
    let mut left = sums(after);
    let mut matched: Vec<MatchedThreads> = Vec::new();
    for (name, old) in sums(before) {
        let twin = left.iter().position(|(known, _)| *known == name).map(|index| left.remove(index).1);
        matched.push(MatchedThreads { name, before: Some(old), after: twin });
    }
    matched.extend(left.into_iter().map(|(name, new)| MatchedThreads { name, before: None, after: Some(new) }));
    let weight =
        |row: &MatchedThreads| row.before.unwrap_or_default().life_ns.max(row.after.unwrap_or_default().life_ns);
    matched.sort_by_key(|row| std::cmp::Reverse(weight(row)));
    matched
}

fn threads(before: &Facts, after: &Facts) -> Table {
    let matched = matched_threads(before, after);
    let mut table = Table::new([
        Column::left("threads named"),
        Column::right("number"),
        Column::right("CPU"),
        Column::right("after"),
        Column::right("lock"),
        Column::right("after"),
        Column::right("switches/s"),
        Column::right("after"),
        Column::right("ratio"),
    ]);
    for row in matched.iter().take(MOST_ROWS) {
        table.row(thread_row(row));
    }
    table
}

fn thread_row(row: &MatchedThreads) -> Vec<String> {
    let number = |sums: Option<Sums>| sums.map_or(0, |sums| sums.threads);
    let numbers = match (number(row.before), number(row.after)) {
        (old, new) if old == new => old.to_string(),
        (old, new) => format!("{old}->{new}"),
    };
    let part = |sums: Option<Sums>, ns: fn(&Sums) -> u64| {
        sums.map_or_else(|| "-".to_owned(), |sums| number::percent(share(ns(&sums), sums.life_ns)))
    };
    let rate =
        |sums: Option<Sums>| sums.map_or_else(|| "-".to_owned(), |sums| number::count(sums.switches_per_s().round()));
    let both = row.before.zip(row.after);
    vec![
        if row.name.is_empty() { "-".to_owned() } else { row.name.clone() },
        numbers,
        part(row.before, |sums| sums.cpu_ns),
        part(row.after, |sums| sums.cpu_ns),
        part(row.before, |sums| sums.lock_ns),
        part(row.after, |sums| sums.lock_ns),
        rate(row.before),
        rate(row.after),
        both.map_or_else(|| "-".to_owned(), |(old, new)| ratio(old.switches_per_s(), new.switches_per_s())),
    ]
}
