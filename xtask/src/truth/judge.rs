//! What a report said, beside the truth.

use serde_json::Value;

use super::header::{Program, Truth};
use super::matrix::{Capture, User, Variant, name_of};

/// Of all first findings, those of healthy programs too.
const LEAST_RIGHT: f64 = 0.95;
/// Of programs with a lock, those of which a capture that sees less must name the lock and know its holder.
const LEAST_LOCKS: f64 = 0.8;
const LOCK_KINDS: [&str; 3] = ["hot-lock", "lock-convoy", "sleeping-holder"];
/// Of the bounds of the gain, those that the cure did not beat; of the cures of findings of 10% or more, those that
/// gained.
const LEAST_BOUND: f64 = 0.9;
/// Runs differ by so much from one to the next.
const NOISE: f64 = 0.05;
/// How far the shares of the account may be from 1 together.
const ACCOUNT_OFF: f64 = 0.01;

/// One recording of one program.
pub struct Row {
    pub program: String,
    pub variant: Variant,
    /// Who recorded, and by what.
    pub user: String,
    pub truth: String,
    /// The truth's kind, or `healthy`.
    pub best: String,
    /// The first finding's kind, `nothing`, or `failed`.
    pub said: String,
    /// The report said that what it does not find is no all-clear.
    pub is_doubted: bool,
    /// The kind, and its subject where the build has names.
    pub is_right: bool,
    /// `None` if no name is demanded: a healthy program, a build without names, a truth without subject.
    pub is_named: Option<bool>,
    pub share: Option<f64>,
    pub is_share_right: Option<bool>,
    pub bound: Option<f64>,
    /// How much faster the cure made it, measured.
    pub gain: Option<f64>,
    /// Sum of the account's shares.
    pub account: Option<f64>,
    /// The share of the waits for the lock that the first finding is about of which the holder is known.
    pub held: Option<f64>,
    /// How the first finding names its subject, or why there is no recording.
    pub note: String,
}

impl Row {
    pub fn new(
        program: &Program,
        variant: Variant,
        (user, capture): (User, Capture),
        gain: Option<f64>,
        report: Result<Value, String>,
    ) -> Row {
        let mut row = Row {
            program: program.name.clone(),
            variant,
            user: name_of(user, capture),
            truth: program.truth.to_string(),
            best: program.truth.best().to_owned(),
            said: "failed".to_owned(),
            is_doubted: false,
            is_right: false,
            is_named: None,
            share: None,
            is_share_right: None,
            bound: None,
            gain,
            account: None,
            held: None,
            note: String::new(),
        };
        match report {
            Ok(report) => row.read(&program.truth, &report),
            Err(why) => why.lines().last().unwrap_or("").clone_into(&mut row.note),
        }
        row
    }

    fn read(&mut self, truth: &Truth, report: &Value) {
        let first = &report["findings"][0];
        self.said = first["kind"].as_str().unwrap_or("nothing").to_owned();
        self.is_doubted = report["doubts"].as_array().is_some_and(|doubts| !doubts.is_empty());
        self.share = first["share"].as_f64().or_else(|| first["severity_share"].as_f64());
        self.bound = first["bound"].as_f64();
        self.account = account(&report["account"]);
        let number = first["subjects"][0]["number"].as_u64().and_then(|number| usize::try_from(number).ok());
        self.held = number.and_then(|number| held(&report["locks"][number]));
        // A process has the program's name, cut to 15 characters: it is no sign that the subject is named.
        let comm = &self.program[..self.program.len().min(15)];
        let told: Vec<String> = names(first).iter().map(|name| name.replace(comm, "")).collect();
        self.note = names(first).first().cloned().unwrap_or_default();
        let Truth::Fault { kinds, subject, share } = truth else {
            self.is_right = self.said == "nothing";
            return;
        };
        self.is_right = kinds.contains(&self.said);
        if let (Some(subject), Variant::Plain) = (subject, self.variant) {
            let is_named = told.iter().any(|name| subject.is_match(name));
            self.is_named = Some(is_named);
            self.is_right &= is_named;
        }
        if let (Some((low, high)), Some(said), true) = (share, self.share, self.is_right) {
            self.is_share_right = Some((*low..=*high).contains(&(said * 100.0)));
        }
    }

    /// Something was said of a program that has nothing.
    pub fn is_accusation(&self) -> bool {
        self.best == "healthy" && self.said != "nothing" && self.said != "failed"
    }

    /// Nothing was found in a program that has a fault.
    pub fn is_silent(&self) -> bool {
        self.best != "healthy" && self.said == "nothing"
    }

    /// The same, and not even that it is no all-clear was said.
    pub fn is_all_clear(&self) -> bool {
        self.is_silent() && !self.is_doubted
    }

    /// Whether the bound is not below what the cure gained.
    pub fn is_bound_right(&self) -> Option<bool> {
        let (bound, gain) = (self.bound.filter(|_| self.is_right)?, self.gain?);
        Some(bound >= gain * (1.0 - NOISE))
    }

    /// Whether the cure of what was rightly said to cost 10% or more gained anything.
    pub fn is_cure_right(&self) -> Option<bool> {
        let gain = self.gain.filter(|_| self.is_right && self.share.is_some_and(|share| share >= 0.1))?;
        Some(gain > 1.0 + NOISE)
    }

    /// Whether the account's shares make up the whole.
    pub fn is_account_right(&self) -> Option<bool> {
        self.account.map(|sum| (sum - 1.0).abs() <= ACCOUNT_OFF)
    }
}

/// Names that a finding tells: its subjects, its sentence, the functions of its place. Paths of files are left out, as
/// those have the name of the program in them.
fn names(finding: &Value) -> Vec<String> {
    let mut names = Vec::new();
    for key in ["subjects", "place", "what"] {
        collect(&finding[key], &mut names);
    }
    names
}

fn collect(value: &Value, names: &mut Vec<String>) {
    match value {
        Value::String(text) => names.push(text.clone()),
        Value::Array(values) => values.iter().for_each(|value| collect(value, names)),
        Value::Object(values) => {
            let told = values.iter().filter(|(key, _)| !["file", "module", "kind", "role"].contains(&key.as_str()));
            told.for_each(|(_, value)| collect(value, names));
        }
        _ => {}
    }
}

/// The share of a lock's waits of which the holder is known.
fn held(lock: &Value) -> Option<f64> {
    let all = lock["wait_ns"]["sum_ns"].as_f64().filter(|all| *all > 0.0)?;
    let known: f64 = lock["holders"].as_array()?.iter().filter_map(|holder| holder["time_ns"].as_f64()).sum();
    Some(known / all)
}

/// The sum of an account: an object of shares by state.
fn account(value: &Value) -> Option<f64> {
    let shares: Vec<f64> = value.as_object()?.values().filter_map(Value::as_f64).collect();
    (!shares.is_empty()).then(|| shares.iter().sum())
}

/// So many of the rows to which a question applies have the answer yes.
pub fn count(rows: &[&Row], answer: impl Fn(&Row) -> Option<bool>) -> (usize, usize) {
    let answers: Vec<bool> = rows.iter().filter_map(|row| answer(row)).collect();
    (answers.iter().filter(|yes| **yes).count(), answers.len())
}

/// The goals: most first findings right, nobody accused falsely, nobody cleared falsely, bounds and cures as stated.
pub fn goals(rows: &[Row]) -> Result<(), String> {
    let rows: Vec<&Row> = rows.iter().collect();
    let mut missed = Vec::new();
    let mut least = |what: &str, (yes, of): (usize, usize), share: f64| {
        if (yes as f64) < of as f64 * share {
            missed.push(format!("{what} {yes} of {of}"));
        }
    };
    least("first finding right", count(&rows, |row| Some(row.is_right)), LEAST_RIGHT);
    least("not accused falsely", count(&rows, |row| (row.best == "healthy").then(|| !row.is_accusation())), 1.0);
    least("not cleared falsely", count(&rows, |row| (row.best != "healthy").then(|| !row.is_all_clear())), 1.0);
    least("bound not below the gain", count(&rows, Row::is_bound_right), LEAST_BOUND);
    least("cure gains", count(&rows, Row::is_cure_right), LEAST_BOUND);
    least("account adds up", count(&rows, Row::is_account_right), 1.0);
    if missed.is_empty() { Ok(()) } else { Err(format!("goals missed: {}", missed.join("; "))) }
}

/// The goal for the programs with a lock: for most, the lock comes first and is named, and who had it is known for most
/// of the waits.
pub fn locks(rows: &[Row]) -> Result<(), String> {
    let rows: Vec<&Row> = rows.iter().collect();
    // What holders did meanwhile is the kind's, not the lock's.
    let is_right = |row: &Row| row.is_right || row.is_named == Some(true) && LOCK_KINDS.contains(&row.said.as_str());
    let (yes, of) = count(&rows, |row| Some(is_right(row)));
    let (held, _) = count(&rows, |row| Some(is_right(row) && row.held.is_some_and(|held| held >= 0.5)));
    println!("right lock {yes} of {of}, with its holder {held} of {of}");
    let least = of as f64 * LEAST_LOCKS;
    if held as f64 >= least { Ok(()) } else { Err(format!("right lock and holder: {held} of {of}")) }
}
