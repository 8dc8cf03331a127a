//! One run of the program under one remedy, or under none: what it took, or how it failed.

use std::ffi::OsString;
use std::fmt;
use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use holdup_control::Policy;
use holdup_run::{Outcome, Started};
use schemars::JsonSchema;
use serde::Serialize;

use super::figure::{Figure, Metric};
use super::flip::Flips;
use super::modes::Goal;
use super::program::{Program, Server};
use super::remedy::Remedy;
use crate::interposer::{Control, Process};

/// What every run has in common.
#[derive(Debug)]
pub struct Subject {
    /// What is run: the program, or the load of a server.
    pub program: Program,
    /// The server that remedies are put under; without one, the program itself.
    pub server: Option<Server>,
    /// The number that is compared; the elapsed time without one.
    pub metric: Option<Metric>,
    /// Whether stdout must be what it is without a remedy.
    pub same_output: bool,
    /// What every run reads on its stdin.
    pub input: Option<PathBuf>,
    /// What reports call it, if not by its file's name.
    pub name: Option<&'static str>,
}

impl Subject {
    /// What reports call it.
    pub fn name(&self) -> String {
        self.name.map_or_else(|| self.tried().file_name(), str::to_owned)
    }

    /// What remedies are put under, as a user would start it.
    pub fn tried(&self) -> Program {
        match &self.server {
            Some(server) => server.program.with("port", "PORT"),
            None => self.program.clone(),
        }
    }
}

/// What a run must do, known from the first one.
#[derive(Clone, Debug)]
pub struct Expected {
    /// The exit status.
    pub code: u8,
    /// Hash of its stdout, where that must not change.
    pub stdout_hash: Option<u64>,
    /// It hangs if it takes longer.
    pub limit: Duration,
}

impl Expected {
    /// From a run of the program as it is.
    pub fn of(sample: &Sample, same_output: bool) -> Expected {
        let limit_s = (sample.elapsed_s * 10.0).max(sample.elapsed_s + 10.0);
        Expected {
            code: sample.code,
            stdout_hash: same_output.then_some(sample.stdout_hash),
            limit: Duration::from_secs_f64(limit_s),
        }
    }
}

/// What a run took.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Sample {
    /// From start to end.
    pub elapsed_s: f64,
    /// CPU time in user mode; of the server where there is one, as all that follows.
    pub user_s: f64,
    /// CPU time in the kernel.
    pub kernel_s: f64,
    /// Switches because a thread waited.
    pub voluntary_switches: u64,
    /// Switches because another thread had the CPU.
    pub involuntary_switches: u64,
    /// The number that is compared, if it is not elapsed time.
    pub metric: Option<f64>,
    /// The exit status.
    pub code: u8,
    /// Hash of all that it wrote on stdout.
    #[serde(skip)]
    pub stdout_hash: u64,
    /// All that it took, start and end of a server included.
    #[serde(skip)]
    pub wall_s: f64,
    /// The end of what it wrote.
    #[serde(skip)]
    pub words: String,
    /// What it wrote on stdout and stderr: the end of it, as far as numbers are looked for.
    #[serde(skip)]
    pub printed: [String; 2],
    /// Acquisitions a second, step after step, where a goal needs them.
    #[serde(skip)]
    pub speeds: Vec<f64>,
    /// What the interposer did, where a lock policy was the remedy.
    #[serde(skip)]
    pub processes: Vec<Process>,
}

impl Sample {
    /// CPU time of both kinds.
    pub fn cpu_s(&self) -> f64 {
        self.user_s + self.kernel_s
    }

    /// Switches of both kinds.
    pub fn switches(&self) -> f64 {
        (self.voluntary_switches + self.involuntary_switches) as f64
    }

    /// How good it is: more is better.
    pub fn merit(&self, figure: &Figure) -> f64 {
        match (figure, self.metric) {
            (Figure::Elapsed, _) | (_, None) => 1.0 / self.elapsed_s.max(1e-9),
            (_, Some(value)) if figure.is_work() => value,
            (_, Some(value)) => 1.0 / value,
        }
    }

    /// Acquisitions of locks that are served; `None` where nothing served them.
    pub fn acquisitions(&self) -> Option<u64> {
        (!self.processes.is_empty()).then(|| self.processes.iter().map(|process| process.acquisitions).sum())
    }
}

/// Why a run has no figure.
#[derive(Clone, Debug, PartialEq)]
pub enum Failure {
    /// A signal ended it.
    Crashed {
        /// The signal's name.
        signal: String,
        /// The end of its output.
        words: String,
    },
    /// It ended with another status than it does as it is.
    Status {
        /// With this one.
        code: u8,
        /// As it is, with this one.
        expected: u8,
        /// The end of its output.
        words: String,
    },
    /// It did not end in time and was killed.
    Hung {
        /// After this time.
        limit_s: f64,
    },
    /// It wrote something else.
    Output,
    /// The number that is compared is not in its output.
    Metric {
        /// Why: a sentence that says what would help.
        why: String,
        /// The end of its output.
        words: String,
    },
    /// The server ended or did not get ready.
    Server(String),
    /// It could not be started like that.
    Start(String),
    /// It cannot be had for this program or on this machine; not the remedy's fault.
    Unavailable(String),
    /// The user stopped it.
    Stopped,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Crashed { signal, .. } => write!(f, "crashed: ended by {signal}"),
            Failure::Status { code, expected, .. } => write!(f, "exit status {code} in place of {expected}"),
            Failure::Hung { limit_s } => write!(f, "hung: no end within {limit_s:.0} s"),
            Failure::Output => f.write_str("its output changed"),
            Failure::Metric { why: text, .. }
            | Failure::Server(text)
            | Failure::Start(text)
            | Failure::Unavailable(text) => f.write_str(text),
            Failure::Stopped => f.write_str("stopped"),
        }
    }
}

impl Failure {
    /// The end of what the program wrote, where that may tell more.
    pub fn words(&self) -> &str {
        match self {
            Failure::Crashed { words, .. } | Failure::Status { words, .. } | Failure::Metric { words, .. } => words,
            _ => "",
        }
    }
}

/// Runs programs; tests have one that makes runs up.
pub trait Runner {
    /// One run under this remedy or none. Without expectations it may take up to `limit` and end with any status.
    ///
    /// # Errors
    /// The run has no figure.
    fn run(&mut self, remedy: Option<&Remedy>, expected: Option<&Expected>, limit: Duration)
    -> Result<Sample, Failure>;

    /// Why no lock policy can be put under the program, where that can be seen before it runs.
    fn cannot_lock(&self) -> Option<String>;

    /// How often threads waited on futexes of any kind in a run of the program as it is; `None` if that cannot be seen
    /// here.
    fn futex_waits(&mut self, limit: Duration) -> Option<u64>;

    /// From now on counts acquisitions in every run, or not: the program as it is then runs with locks that do as
    /// glibc's.
    fn count_acquisitions(&mut self, counts: bool);

    /// Lets policies take turns with the C library's within runs of the program, for about so long; `None` if they
    /// could not.
    fn flip(&mut self, policies: &[Policy], expected: &Expected, limit: Duration, seed: u64) -> Option<Flips>;

    /// Acquisitions a second in a run under a policy, step by step, for no longer than this; `None` if it failed.
    fn watch(&mut self, policy: Policy, limit: Duration) -> Option<Vec<f64>>;

    /// The time by which the budget is spent: of runs that are made up, what they would have taken.
    fn now(&self) -> Instant {
        Instant::now()
    }
}

/// Runs real programs.
#[derive(Debug)]
pub struct Real<'a> {
    /// What.
    pub subject: &'a Subject,
    /// Set when the user wants it to end.
    pub stop: &'a AtomicBool,
    /// Whether acquisitions are counted in every run.
    pub counts: bool,
    /// Whether they are looked at step after step.
    pub paced: bool,
}

impl<'a> Real<'a> {
    /// With nothing counted that need not be.
    pub fn new(subject: &'a Subject, stop: &'a AtomicBool) -> Real<'a> {
        Real { subject, stop, counts: false, paced: false }
    }

    /// For a goal: with all that it needs.
    pub fn with_goal(subject: &'a Subject, stop: &'a AtomicBool, goal: Goal) -> Real<'a> {
        let paced = goal != Goal::Mean;
        Real { counts: paced, paced, ..Real::new(subject, stop) }
    }

    /// Starts a program under a remedy, or under none; once the user wants it to end, nothing more is started.
    pub fn start(
        &self,
        program: &Program,
        remedy: Option<&Remedy>,
        control: Option<&Control>,
    ) -> Result<Started, Failure> {
        if self.stop.load(Ordering::Relaxed) {
            return Err(Failure::Stopped);
        }
        let program = remedy.map_or_else(|| program.clone(), |remedy| remedy.program(program));
        let mut command = program.command();
        command.stdin(self.input()?);
        command.envs(environment(
            remedy.map(Remedy::variables).unwrap_or_default(),
            control.map(Control::environment).unwrap_or_default(),
        ));
        let conditions = remedy.map(Remedy::conditions).unwrap_or_default();
        let cannot = |why: io::Error| Failure::Start(format!("'{}' cannot be started: {why}", program.name()));
        Started::new(&mut command, &conditions).map_err(|why| match why.kind() {
            io::ErrorKind::Unsupported => {
                Failure::Start("'holdup try' and 'holdup demo' need Linux; 'holdup bench' works here".to_owned())
            }
            _ => cannot(why),
        })
    }

    fn input(&self) -> Result<Stdio, Failure> {
        let Some(path) = &self.subject.input else { return Ok(Stdio::null()) };
        File::open(path).map(Stdio::from).map_err(|why| Failure::Start(format!("{}: {why}", path.display())))
    }

    /// Waits for the end; on return it has ended, or is killed.
    pub fn wait(&self, started: &mut Started, limit: Duration) -> Result<(), Failure> {
        match started.wait(Instant::now() + limit, self.stop) {
            Ok(true) => Ok(()),
            Ok(false) if self.stop.load(Ordering::Relaxed) => Err(Failure::Stopped),
            Ok(false) => Err(Failure::Hung { limit_s: limit.as_secs_f64() }),
            Err(why) => Err(unwatched(why)),
        }
    }

    /// What a finished run says.
    pub fn sample(&self, outcome: &Outcome, expected: Option<&Expected>) -> Result<Sample, Failure> {
        let words = || last_words(&outcome.stdout, &outcome.stderr);
        if let Some(signal) = outcome.signal.clone() {
            return Err(Failure::Crashed { signal, words: words() });
        }
        let code = outcome.code;
        if let Some(expected) = expected.map(|expected| expected.code).filter(|expected| *expected != code) {
            return Err(Failure::Status { code, expected, words: words() });
        }
        let hash = expected.and_then(|expected| expected.stdout_hash);
        if hash.is_some_and(|hash| hash != outcome.stdout_hash) {
            return Err(Failure::Output);
        }
        let metric = match &self.subject.metric {
            None => None,
            Some(metric) => {
                let found = metric.find(&outcome.stdout, &outcome.stderr);
                let why = || metric.why_none(&outcome.stdout, &outcome.stderr);
                Some(found.ok_or_else(|| Failure::Metric { why: why(), words: words() })?)
            }
        };
        let used = &outcome.process;
        Ok(Sample {
            elapsed_s: used.elapsed_ns as f64 / 1e9,
            user_s: used.user_ns as f64 / 1e9,
            kernel_s: used.kernel_ns as f64 / 1e9,
            voluntary_switches: used.voluntary_switches.unwrap_or(0),
            involuntary_switches: used.involuntary_switches.unwrap_or(0),
            metric,
            code,
            stdout_hash: outcome.stdout_hash,
            wall_s: used.elapsed_ns as f64 / 1e9,
            words: words(),
            printed: [&outcome.stdout, &outcome.stderr].map(|text| end_of(text)),
            speeds: Vec::new(),
            processes: Vec::new(),
        })
    }
}

/// Variables of a remedy, and those of the interposer, which comes before other libraries.
fn environment(of_remedy: Variables, of_interposer: Variables) -> Variables {
    let mut all = of_remedy;
    for (name, value) in of_interposer {
        match all.iter_mut().find(|(other, _)| *other == name) {
            Some((_, present)) if name == "LD_PRELOAD" => {
                let theirs = std::mem::replace(present, value);
                present.push(":");
                present.push(theirs);
            }
            _ => all.push((name, value)),
        }
    }
    all
}

type Variables = Vec<(OsString, OsString)>;

/// The last lines of a text: results stand at the end.
fn end_of(text: &str) -> String {
    const BYTES: usize = 32 * 1024;
    let from = text.floor_char_boundary(text.len().saturating_sub(BYTES));
    let from = text[from..].find('\n').filter(|_| from > 0).map_or(0, |at| from + at + 1);
    text.get(from..).unwrap_or_default().to_owned()
}

/// A process that the system does not let us watch.
pub fn unwatched(why: io::Error) -> Failure {
    Failure::Start(format!("the program cannot be watched: {why}"))
}

/// The last lines of what a program wrote, each indented; errors before results.
pub fn last_words(stdout: &str, stderr: &str) -> String {
    const LINES: usize = 5;
    let text = if stderr.trim().is_empty() { stdout } else { stderr };
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    let last = &lines[lines.len().saturating_sub(LINES)..];
    last.iter().map(|line| format!("\n  {}", crate::text::clean(line))).collect()
}

impl Figure {
    /// The run with its figure, where that is not what the user named. What it printed is needed no more, but where
    /// elapsed times are compared: they may turn out to be fixed.
    ///
    /// # Errors
    /// It did not print the number.
    pub fn of(&self, mut sample: Sample) -> Result<Sample, Failure> {
        let speeds = std::mem::take(&mut sample.speeds);
        if matches!(self, Figure::Elapsed) {
            return Ok(sample);
        }
        let printed = std::mem::take(&mut sample.printed);
        match self {
            Figure::Elapsed => {}
            Figure::Acquisitions => {
                sample.metric = sample.acquisitions().map(|taken| taken as f64 / sample.elapsed_s.max(1e-9));
            }
            Figure::Pace(goal) => {
                let speed = goal.speed(&speeds);
                let why = "it took no locks that are served for long enough, so its speed is not known";
                sample.metric = Some(speed.ok_or_else(|| Failure::Unavailable(why.to_owned()))?);
            }
            Figure::Printed(_) if sample.metric.is_some() => {}
            Figure::Printed(metric) => {
                sample.metric = metric.find(&printed[0], &printed[1]);
                if sample.metric.is_none() {
                    let why = metric.why_none(&printed[0], &printed[1]);
                    return Err(Failure::Metric { why, words: sample.words });
                }
            }
        }
        Ok(sample)
    }

    /// What a run did: one piece of work, or as many as its own number says where more is better.
    pub fn work(&self, sample: &Sample) -> f64 {
        sample.metric.filter(|_| self.is_work()).unwrap_or(1.0)
    }
}
