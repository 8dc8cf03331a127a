//! `holdup demo`: a built-in program with a lock problem is recorded and cured, so that one sees in a minute what
//! holdup does.

use std::ffi::OsString;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use holdup_analyze::Finding;
use holdup_bench::demo::{NAME, THREADS};

use super::try_::Bar;
use super::{Error, Status, output, stop, try_};
use crate::interposer::program::{self, Refusal};
use crate::recording::{self, Recording, Window};
use crate::report::document::{Document, Ink, ink};
use crate::report::recording::{sentences, summary};
use crate::report::{number, trial as shown};
use crate::scratch::Folder;
use crate::trial::keep;
use crate::trial::modes::Goal;
use crate::trial::program::Program;
use crate::trial::remedy::{self, Asked};
use crate::trial::run::{Real, Subject};
use crate::trial::search::{self, Rules, Trial, Watch as _};

/// First argument of the program that the demo looks at; not for users.
pub const WORKER: &str = "__answer-requests";

/// Shows on a built-in program what holdup does: records it, says what holds it up, tries fixes, and says which one
/// helps. Takes less than a minute and leaves nothing behind.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Options {
    /// Seed of the order of runs [default: random]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
}

const EXAMPLES: &str = "\
Examples:
  holdup demo                      what holdup does, in less than a minute
  holdup record -- ./your-program  then your own program: what holds it up,
  holdup try -- ./your-program     and which fix helps";

/// Requests of the run that is recorded, and of those that are compared, of which there are many.
const RECORDED: usize = 8000;
const COMPARED: usize = 2000;
/// A run may take so long: on a busy machine it has fewer requests.
const RUN: Duration = Duration::from_millis(500);
/// How long the trial may take; it ends earlier when it is decided.
const BUDGET: Duration = Duration::from_secs(45);

/// Tells the story.
///
/// # Errors
/// This program cannot be started again, or the demo's program fails.
pub fn run(options: &Options) -> Result<Status, Error> {
    if let Some(why) = crate::sys::no_trials() {
        return Err(Error::Argument(why.to_owned()));
    }
    let stop = stop::asked()?;
    let exe = std::env::current_exe()
        .map_err(|why| Error::Argument(format!("cannot find this program's own file to start it again: {why}")))?;
    let mut bar = Bar::new();
    output::show(&opening())?;
    bar.now("recording", 0.0);
    let told = finding(&exe, stop);
    bar.hide(|| output::show(&told))?;
    if stop.load(Ordering::Relaxed) {
        return Ok(Status::Interrupted);
    }
    let subject = subject(&exe);
    if let Err(Refusal::Static(_)) = program::find(&subject.program.words()) {
        bar.finish();
        return output::show(&no_cures()).map(|()| Status::Success);
    }
    let tried = trial(&subject, options.seed, stop, &mut bar);
    bar.finish();
    let (rules, trial) = tried?;
    output::show(&cures(&subject, &rules, &trial))?;
    Ok(if stop.load(Ordering::Relaxed) { Status::Interrupted } else { Status::Success })
}

fn opening() -> Document {
    Document::from(format!(
        "{NAME}, a program inside holdup: {THREADS} threads on {} answer requests from one cache. Whoever renews an \
         entry holds the cache's lock.",
        number::counted(holdup_run::allowed_cpus().len(), "CPU")
    ))
}

fn words(exe: &Path, requests: usize) -> Vec<OsString> {
    vec![exe.into(), WORKER.into(), requests.to_string().into()]
}

/// What a recording says, or why there is none.
fn finding(exe: &Path, stop: &AtomicBool) -> Document {
    let mut told = Document::default();
    title(&mut told, 1, "What holds it up?", &format!("holdup record -- ./{NAME}"));
    match recorded(exe, stop) {
        Ok(recording) => seen(&mut told, &recording),
        Err(why) => {
            told.paragraph(format!("Nothing could be recorded here: {why}. 'holdup doctor' says what would allow it."))
        }
    }
    told
}

fn title(told: &mut Document, number: u32, question: &str, command: &str) {
    told.gap();
    told.line(ink(Ink::Bold, format!("{number}. {question}")) + "  $ " + command);
}

fn recorded(exe: &Path, stop: &AtomicBool) -> Result<Recording, String> {
    let folder = Folder::new("demo").map_err(|why| format!("no place for a recording: {why}"))?;
    let file = folder.path().join("demo.holdup");
    let target = holdup_record::Target::Command(words(exe, RECORDED));
    let limit = Some(Duration::from_secs(10));
    // Its output would stand in the middle of ours.
    let options = holdup_record::Options { limit, silent: true, ..holdup_record::Options::new(target, &file) };
    holdup_record::record(&options, stop).map_err(|why| why.to_string())?;
    recording::open(&file, Window::default(), false).map_err(|why| why.to_string())
}

/// The worst finding; and the worst about a lock, if that is another one: locks are what the cures are for.
fn seen(told: &mut Document, recording: &Recording) {
    let findings = &recording.report.findings;
    let Some(worst) = findings.first() else {
        told.paragraph(summary::headline(recording));
        told.paragraph(
            "On a machine with idle CPUs the lock is hardly ever waited for; other programs that use all CPUs hide it \
             too.",
        );
        return;
    };
    let is_about_a_lock = |finding: &&Finding| {
        finding.subjects.iter().any(|subject| matches!(subject, holdup_analyze::Subject::Lock { .. }))
    };
    let lock = findings.iter().find(is_about_a_lock).filter(|lock| !std::ptr::eq(*lock, worst));
    for finding in std::iter::once(worst).chain(lock) {
        let words = sentences::of(recording, finding);
        let evidence: Vec<&str> = words.evidence.iter().take(4).map(String::as_str).collect();
        told.paragraph(&words.what);
        told.indented(2, |inner| {
            if !evidence.is_empty() {
                inner.field(5, "seen", |value| value.paragraph(evidence.join(", ")));
            }
            inner.field(5, "try", |value| value.paragraph(words.cure));
        });
    }
}

fn subject(exe: &Path) -> Subject {
    let program = Program::with_values(words(exe, affordable(exe)), Vec::new());
    Subject { program, server: None, metric: None, same_output: true, input: None, name: Some(NAME) }
}

/// As many requests as a run can have on this machine, as busy as it is now; found with a few.
fn affordable(exe: &Path) -> usize {
    let few = COMPARED / 4;
    let mut command = Command::new(exe);
    command.args([WORKER.to_owned(), few.to_string()]);
    // Should it fail, the trial says how.
    let Ok((outcome, true)) = holdup_run::run_for(&mut command, BUDGET / 4) else { return COMPARED };
    let fits = RUN.as_nanos() as f64 / outcome.process.elapsed_ns.max(1) as f64 * few as f64;
    (fits as usize).clamp(COMPARED / 8, COMPARED)
}

fn trial(subject: &Subject, seed: Option<u64>, stop: &AtomicBool, bar: &mut Bar) -> Result<(Rules, Trial), Error> {
    let asked = Asked {
        locks: Some("spin-park:100,spin-learn".to_owned()),
        gates: Some("1".to_owned()),
        malloc: Some("keep".to_owned()),
        ..Asked::default()
    };
    let remedies = remedy::remedies(&asked, &holdup_run::allowed_cpus()).map_err(Error::Argument)?;
    let rules = Rules {
        budget: BUDGET,
        seed: seed.unwrap_or_else(|| fastrand::u64(1..1_000_000)),
        code: 0,
        same_output: true,
        goal: Goal::Mean,
        in_process: true,
        may_leave_out: false,
        words: None,
    };
    let mut real = Real::new(subject, stop);
    let trial = search::run(&mut real, remedies, subject.metric.as_ref(), &rules, stop, bar)
        .map_err(|problem| try_::refused(&problem, subject, stop.load(Ordering::Relaxed)))?;
    Ok((rules, trial))
}

/// The trial, and what to do with one's own program.
fn cures(subject: &Subject, rules: &Rules, trial: &Trial) -> Document {
    let mut told = Document::default();
    title(&mut told, 2, "Which cure helps?", &format!("holdup try -- ./{NAME}"));
    told.append(shown::result(subject, rules, trial));
    if let Some(at) = trial.winner() {
        let own = Program::with_values(vec![format!("./{NAME}").into()], Vec::new());
        let keep = keep::keep(&trial.tried[at].remedy, &own);
        told.gap();
        told.line(ink(Ink::Bold, "3. Keep it:"));
        told.indented(2, |inner| {
            inner.command(keep.line.split(' '));
            inner.paragraph(keep.permanent);
        });
    }
    your_own(&mut told);
    told
}

/// In a static holdup, whose built-in program none of the cures reaches.
fn no_cures() -> Document {
    let mut told = Document::default();
    title(&mut told, 2, "Which cure helps?", &format!("holdup try -- ./{NAME}"));
    told.paragraph(
        "This holdup is linked statically, and so is the program inside it: other locks and settings of the GNU C \
         library (glibc) are for programs that are linked with that dynamically. Of such a program, this holdup \
         searches the cures as any does.",
    );
    your_own(&mut told);
    told
}

fn your_own(told: &mut Document) {
    told.gap();
    told.paragraph("Your own program:");
    told.indented(2, |inner| {
        inner.line("holdup record -- PROGRAM ...   what holds it up");
        inner.line("holdup try -- PROGRAM ...      which cure helps, or that none does");
    });
}
