//! `holdup try`: a program under remedies, until it is decided which one helps.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use indicatif::{ProgressBar, ProgressStyle};

use super::{Error, Status, capture, measure, output, stop};
use crate::recording::{self, Window};
use crate::report::{number, page, trial as shown, trial_json};
use crate::shell;
use crate::text;
use crate::trial::figure::Metric;
use crate::trial::modes::Goal;
use crate::trial::program::{Program, Ready, Server};
use crate::trial::remedy::{self, Asked};
use crate::trial::run::{Failure, Real, Subject};
use crate::trial::runtime;
use crate::trial::search::{self, Problem, Rules, Watch};

/// Runs a program unchanged and under remedies (other locks, gates, fewer CPUs, arguments ...), in randomised paired
/// runs, until it is decided which of them helps, by how much and how surely.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Options {
    /// Lock policies under its pthread mutexes: glibc, spin-park:N, spin-learn, ttas, capped:N, throttle:N
    #[arg(long, value_name = "LIST")]
    locks: Option<String>,
    /// Gates: at most this many threads hold or contend for a lock (the policies throttle:N)
    #[arg(long, value_name = "LIST")]
    gates: Option<String>,
    /// Policies of its reader-writer locks (pthread_rwlock_t, std::shared_mutex): glibc, prefer-writer, spin-park:N
    #[arg(long, value_name = "LIST")]
    rw: Option<String>,
    /// Numbers of CPUs to use, such as all,1,2
    #[arg(long, value_name = "LIST")]
    cpus: Option<String>,
    /// Time slices of the scheduler, such as default,20ms
    #[arg(long, value_name = "LIST")]
    slices: Option<String>,
    /// The scheduler's batch policy
    #[arg(long)]
    batch: bool,
    /// Limits for the arenas of the C library's malloc, such as default,1
    #[arg(long, value_name = "LIST")]
    arenas: Option<String>,
    /// Ways to allocate memory: keep (the C library's malloc keeps what is freed), jemalloc, mimalloc, tcmalloc
    #[arg(long, value_name = "LIST")]
    malloc: Option<String>,
    /// Settings of the C library, such as tcache_count=0,mutex_spin_count=1000,hugetlb=1 (huge pages for malloc)
    #[arg(long, value_name = "LIST")]
    tunables: Option<String>,
    /// Slots of the kernel's table of the program's futexes, such as default,1024,shared (Linux 6.17 and later)
    #[arg(long, value_name = "LIST")]
    futex_hash: Option<String>,
    /// Values of an environment variable
    #[arg(long, value_name = "NAME=A,B")]
    env: Vec<String>,
    /// Values for {NAME} in its arguments; the first is the present one
    #[arg(long, value_name = "NAME=A,B")]
    vary: Vec<String>,
    /// Try first what the findings of this recording name; without PROGRAM, on the recorded command
    #[arg(long, value_name = "FILE", conflicts_with_all = ["locks", "gates", "rw", "cpus", "slices", "batch", "arenas", "malloc", "tunables", "futex_hash", "env", "vary", "server"])]
    from: Option<PathBuf>,
    /// Compare a number that it prints instead of its elapsed time, as a program that runs for a fixed time needs: a
    /// regular expression whose first group is the number
    #[arg(long, value_name = "REGEX")]
    metric: Option<String>,
    /// More of the metric is better
    #[arg(long, requires = "metric", conflicts_with = "lower")]
    higher: bool,
    /// Less of the metric is better
    #[arg(long, requires = "metric")]
    lower: bool,
    /// Compare elapsed time, though it looks as if the program ran for a fixed time
    #[arg(long, conflicts_with = "metric")]
    elapsed: bool,
    /// What of its speed is to be better: mean, p95 (the speed that it keeps for 95% of the time) or worst (its slowest
    /// 20 ms); the last two by how often it takes its locks
    #[arg(long, value_name = "GOAL", default_value = "mean", value_parser = Goal::parse)]
    #[arg(conflicts_with_all = ["metric", "elapsed"])]
    goal: Goal,
    /// Put the remedies under this server, and run PROGRAM as its load; {port} is a free port
    #[arg(long, value_name = "COMMAND", requires = "ready")]
    server: Option<String>,
    /// When the server is ready: tcp:{port} or output:TEXT
    #[arg(long, value_name = "WHEN", requires = "server")]
    ready: Option<String>,
    /// How long the search may take
    #[arg(long, value_name = "TIME", default_value = "2m")]
    budget: String,
    /// A remedy that changes what the program writes on stdout has failed
    #[arg(long)]
    same_output: bool,
    /// Exit status of a successful run
    #[arg(long, value_name = "N", default_value_t = 0)]
    status: u8,
    /// File that every run reads on its stdin [default: nothing]
    #[arg(long, value_name = "FILE")]
    input: Option<PathBuf>,
    /// Seed of the order of runs [default: random]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Compare whole runs only, even where lock policies could take turns within one
    #[arg(long)]
    whole_runs: bool,
    /// Print everything as JSON, with the raw samples
    #[arg(long)]
    json: bool,
    /// Keep everything, with the raw samples, in this new file [default: a file beside the store]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Write a page to this new file: the ranking as a picture and a table, for any browser
    #[arg(long, value_name = "OUT")]
    html: Option<PathBuf>,
    /// The program and its arguments
    #[arg(
        required_unless_present = "from",
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "PROGRAM"
    )]
    command: Vec<OsString>,
}

const EXAMPLES: &str = "\
Examples:
  holdup try -- ./server-bench --threads 16      locks, gates, fewer CPUs
  holdup try --locks spin-learn,ttas --gates 1,2 --cpus all,1 -- ./prog
  holdup try --from prog.holdup                  first what its findings name
  holdup try --vary N=8,4,2,1 -- ./prog -t {N}   any argument; 8 is now
  holdup try --metric 'ops/sec: ([0-9.]+)' --higher -- ./bench --seconds 5
  holdup try --goal p95 -- ./server-bench        steadier, not faster on average
  holdup try --server 'memcached -u root -t 4 -p {port}' --ready tcp:{port} \\
             -- ./load --port {port}             the server under remedies

Without a list of remedies it tries the lock policies, gates, those of
reader-writer locks if the program takes any, one CPU, the allocators that are
installed and the switches of the program's runtime (Go, Java, OpenMP, libuv,
Rayon, Tokio, Python without its lock), as far as the budget allows; with lists, only what they name. A remedy that crashes, hangs or
changes the exit status has failed, however fast it was. The program's output
is not shown. Exit status: 0 for any verdict, 1 if the unchanged program fails;
130 for Ctrl-C, 143 for SIGTERM, 129 for SIGHUP, after a report of what was
measured by then.";

/// Tries and reports.
///
/// # Errors
/// Nothing can be tried; the message says why and what can.
pub fn run(options: &Options) -> Result<Status, Error> {
    if let Some(why) = crate::sys::no_trials() {
        return Err(Error::Argument(why.to_owned()));
    }
    if let Some(path) = options.html.as_ref().filter(|path| path.symlink_metadata().is_ok()) {
        // Before the budget is spent.
        return Err(Error::ExportExists(path.clone()));
    }
    let mut asked = asked(options);
    let found = options.from.as_deref().map(Found::of).transpose()?;
    let subject = subject(options, &asked, found.as_ref())?;
    let cpus = holdup_run::allowed_cpus();
    let tried = subject.tried();
    asked.switches = file_of(&tried).map_or_else(Vec::new, |file| runtime::switches(&file, &tried.words(), cpus.len()));
    let named = found.as_ref().map_or(&[][..], |found| &found.remedies);
    let remedies = remedy::named_first(named, &asked, &cpus).map_err(Error::Argument)?;
    let rules = rules(options, &asked, &subject)?;
    let stop = stop::asked()?;
    let mut bar = Bar::new();
    let began_unix_s = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let mut real = Real::with_goal(&subject, stop, options.goal);
    let tried = search::run(&mut real, remedies, subject.metric.as_ref(), &rules, stop, &mut bar);
    bar.finish();
    let trial = tried.map_err(|problem| refused(&problem, &subject, stop.load(Ordering::Relaxed)))?;
    // What was measured is safe before anything is said about it.
    let json = trial_json::text(&subject, &rules, &trial, began_unix_s, measure::environment())
        .map_err(|why| Error::Output(why.into()))?;
    let (kept, mut failed) = keep(options, &subject, &json);
    if let Some(path) = &options.html {
        let environment = measure::environment();
        match output::write_file(path, &page::trial(&subject, &rules, &trial, &environment), false) {
            Ok(()) => output::note(format_args!("holdup: wrote {}; any browser opens it", path.display())),
            Err(why) => failed = failed.or(Some(why)),
        }
    }
    if options.json {
        output::print(&json)?;
    } else {
        let mut screen = shown::screen(&subject, &rules, &trial);
        if let Some(path) = kept {
            screen.gap();
            screen.line(format!("Raw samples: {}", path.display()));
        }
        output::show(&screen)?;
    }
    if let Some(why) = failed {
        return Err(why);
    }
    Ok(if stop.load(Ordering::Relaxed) { Status::Interrupted } else { Status::Success })
}

/// Writes everything into a file, and says which: the one that the user named, or where that fails, which is an error,
/// as without a name the one beside the store.
fn keep(options: &Options, subject: &Subject, json: &str) -> (Option<PathBuf>, Option<Error>) {
    let failed = match &options.output {
        None => None,
        Some(path) => match output::write_file(path, json, false) {
            Ok(()) => return (Some(path.clone()), None),
            Err(why) => Some(why),
        },
    };
    let Some(folder) = crate::sys::data_folder(|name| std::env::var_os(name)) else { return (None, failed) };
    let folder = folder.join("holdup").join("trials");
    let path = folder.join(format!("{}.json", capture::stem(&subject.tried().file_name())));
    let kept = std::fs::create_dir_all(&folder)
        .map_err(|why| Error::File { path: folder.clone(), why })
        .and_then(|()| output::write_file(&path, json, false));
    match kept {
        Ok(()) => (Some(path), failed),
        Err(why) => {
            output::note(format_args!("holdup: the raw samples are not kept: {why}"));
            (None, failed)
        }
    }
}

fn asked(options: &Options) -> Asked {
    Asked {
        locks: options.locks.clone(),
        gates: options.gates.clone(),
        rw: options.rw.clone(),
        cpus: options.cpus.clone(),
        slices: options.slices.clone(),
        batch: options.batch,
        arenas: options.arenas.clone(),
        malloc: options.malloc.clone(),
        tunables: options.tunables.clone(),
        futex_hash: options.futex_hash.clone(),
        environment: options.env.clone(),
        vary: options.vary.clone(),
        switches: Vec::new(),
    }
}

/// What a recording says.
struct Found {
    command: Vec<OsString>,
    /// By finding, the worst first.
    remedies: Vec<Asked>,
}

impl Found {
    fn of(path: &Path) -> Result<Found, Error> {
        let report = recording::open(path, Window::default(), false)?.report;
        let kinds: Vec<&str> = report.findings.iter().map(|finding| finding.kind.name()).collect();
        match kinds[..] {
            [] => {
                output::note(format_args!("holdup: {} has no findings: the usual remedies are tried", path.display()))
            }
            _ => output::note(format_args!("holdup: what helps {} is tried first", kinds.join(", "))),
        }
        Ok(Found {
            command: report.facts.header.target.command.iter().map(OsString::from).collect(),
            remedies: report.findings.iter().map(|finding| Asked::parse(&finding.proof.words)).collect(),
        })
    }
}

/// The program to try: as given, else as it was recorded.
fn command(options: &Options, found: Option<&Found>) -> Result<Vec<OsString>, Error> {
    match found {
        Some(found) if options.command.is_empty() => match found.command.is_empty() {
            false => Ok(found.command.clone()),
            true => Err(Error::Argument(
                "--from: it was attached to, so its command is not known; give it: holdup try --from FILE -- PROGRAM"
                    .to_owned(),
            )),
        },
        _ => Ok(options.command.clone()),
    }
}

fn subject(options: &Options, asked: &Asked, found: Option<&Found>) -> Result<Subject, Error> {
    let values = remedy::first_values(asked).map_err(Error::Argument)?;
    let metric = metric(options.metric.as_deref(), options.higher, options.lower)?;
    let server = match (&options.server, &options.ready) {
        (Some(command), Some(ready)) => Some(Server {
            program: Program::parse(command, values.clone()).map_err(Error::Argument)?,
            ready: Ready::parse(ready).map_err(Error::Argument)?,
        }),
        _ => None,
    };
    let program = match &server {
        // What varies may stand in the server's command alone.
        Some(_) => Program::with_values(options.command.clone(), values),
        None => Program::new(command(options, found)?, values).map_err(Error::Argument)?,
    };
    for program in std::iter::once(&program).chain(server.as_ref().map(|server| &server.program)) {
        check_there(program)?;
    }
    Ok(Subject { program, server, metric, same_output: options.same_output, input: options.input.clone(), name: None })
}

/// The number that is compared, if the user names one.
pub fn metric(expression: Option<&str>, higher: bool, lower: bool) -> Result<Option<Metric>, Error> {
    match expression {
        None => Ok(None),
        Some(_) if !higher && !lower => {
            Err(Error::Argument("--metric: say whether more or less is better, --higher or --lower".to_owned()))
        }
        Some(text) => Metric::new(text, higher).map(Some).map_err(Error::Argument),
    }
}

/// A program that is not there is told at once, as a shell does.
pub fn check_there(program: &Program) -> Result<(), Error> {
    match file_of(program) {
        Some(_) => Ok(()),
        None => Err(Error::Command { name: program.name(), why: std::io::ErrorKind::NotFound.into() }),
    }
}

/// The program's file, found as a shell does.
fn file_of(program: &Program) -> Option<PathBuf> {
    let name = program.name();
    if !name.contains('/') {
        return runtime::on_path(name.as_ref());
    }
    let file = program.folder().map_or_else(|| PathBuf::from(&name), |folder| folder.join(&name));
    Some(file).filter(|file| file.is_file())
}

/// A span of time: seconds as everywhere, or minutes.
pub fn budget(text: &str) -> Result<Duration, Error> {
    match text.strip_suffix('m').and_then(|minutes| minutes.parse::<f64>().ok()) {
        Some(minutes) if (0.01..=10_000.0).contains(&minutes) => Ok(Duration::from_secs_f64(minutes * 60.0)),
        _ => Ok(measure::limit_of("--budget", Some(text))?.unwrap_or_default()),
    }
}

fn rules(options: &Options, asked: &Asked, subject: &Subject) -> Result<Rules, Error> {
    Ok(Rules {
        budget: budget(&options.budget)?,
        seed: options.seed.unwrap_or_else(|| fastrand::u64(1..1_000_000)),
        code: options.status,
        same_output: options.same_output,
        goal: options.goal,
        in_process: !options.whole_runs,
        may_leave_out: asked.is_empty(),
        words: (!options.elapsed).then(|| words(subject)),
    })
}

/// The command line of what is timed.
pub fn words(subject: &Subject) -> Vec<String> {
    subject.program.words().iter().map(|word| word.to_string_lossy().into_owned()).collect()
}

/// What a problem is for a user.
pub fn refused(problem: &Problem, subject: &Subject, stopped: bool) -> Error {
    let line = subject.program.line();
    match problem {
        Problem::Baseline(Failure::Stopped, _) if stopped => Error::Stopped("stopped before the first run had ended"),
        Problem::Baseline(Failure::Start(text), 0) => Error::Unmeasured(text.clone()),
        Problem::Baseline(failure, 0) => {
            Error::Unmeasured(format!("the program fails as it is, without a remedy: {line}\n{}", explained(failure)))
        }
        Problem::Baseline(failure, runs) => Error::Unmeasured(format!(
            "the program as it is ran at first, but failed in run {runs}: {line}\n{}; what fails now and then cannot \
             be compared",
            explained(failure)
        )),
        Problem::Budget { run_s, needed_s } => Error::Argument(format!(
            "--budget is too small: one run takes {}, and no answer needs less than {}; give --budget {}s, fewer \
             remedies, or a shorter run",
            number::time_ns(run_s * 1e9),
            number::time_ns(needed_s * 1e9),
            (needed_s * 1.5).ceil()
        )),
        Problem::NoFigure { run_s, moves } => Error::Argument(no_figure(*run_s, moves.as_ref())),
        Problem::NoPace => Error::Argument(
            "--goal: how fast it is at any moment is read from how often it takes its locks; it takes none that are \
             served, or runs for less than half a second. Lengthen the run, or name a number that it prints: --metric \
             'p99: ([0-9.]+)' --lower"
                .to_owned(),
        ),
        Problem::NoRemedy => Error::Argument(
            "nothing to try: every value given is what the program has anyway; give others, as in --cpus 1 or --locks \
             spin-learn"
                .to_owned(),
        ),
    }
}

/// What to do for a program that runs for a fixed time.
pub fn no_figure(run_s: f64, moves: Option<&Metric>) -> String {
    let (what, example) = match moves {
        Some(metric) => (
            format!(
                "takes no lock that is counted; whether '{}', which it prints, is its work is not certain. If it is, give",
                text::clean(metric.label())
            ),
            shell::quoted(metric.expression()),
        ),
        None => (
            "prints no number that moves and takes no lock that is counted. Name a number that it prints:".to_owned(),
            "'ops/sec: ([0-9.]+)'".to_owned(),
        ),
    };
    format!(
        "it runs for {} whatever is done, so its elapsed time tells nothing; it {what} --metric {example} --higher; or, \
         if it ends when its work is done, give --elapsed",
        number::time_ns(run_s * 1e9)
    )
}

/// A failure of the program as it is, with what it said and what would help.
pub fn explained(failure: &Failure) -> String {
    let hint = match failure {
        Failure::Status { code, .. } => format!("; if that is how it succeeds, give --status {code}"),
        Failure::Hung { .. } => {
            "; give a larger --budget, or a command that ends; for a server: --server with a load".to_owned()
        }
        _ => String::new(),
    };
    let words = failure.words();
    let last = if words.is_empty() { String::new() } else { format!("\nits last words:{words}") };
    format!("{failure}{hint}{last}")
}

/// Progress on a terminal.
pub struct Bar(ProgressBar);

impl Bar {
    /// Nothing where no terminal is.
    pub fn new() -> Bar {
        const LINE: &str = "{bar:20} {percent}% of the budget  {msg}";
        let bar = if output::is_terminal_stderr() { ProgressBar::new(1000) } else { ProgressBar::hidden() };
        bar.set_style(ProgressStyle::with_template(LINE).expect("the template is well formed"));
        Bar(bar)
    }

    /// Takes it away while something is printed.
    pub fn hide<T>(&self, print: impl FnOnce() -> T) -> T {
        self.0.suspend(print)
    }

    /// Takes it away.
    pub fn finish(&self) {
        self.0.finish_and_clear();
    }
}

impl Watch for Bar {
    fn now(&mut self, what: &str, share: f64) {
        self.0.set_position((share.clamp(0.0, 1.0) * 1000.0) as u64);
        self.0.set_message(text::clean(what));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The options before `--from` are the remedies; a switch or `--vary` is what no finding names.
    #[test]
    fn every_remedy_excludes_a_recording_and_is_read_back_from_findings() {
        let command = <Options as clap::Args>::augment_args(clap::Command::new("try"));
        let from = command.get_arguments().find(|option| option.get_id() == "from").expect("--from is there");
        let excluded = command.get_arg_conflicts_with(from);
        let remedies: Vec<&clap::Arg> =
            command.get_arguments().take_while(|option| option.get_id() != "from").collect();
        assert!(remedies.len() >= 11, "{remedies:?}");
        for option in remedies {
            let name = format!("--{}", option.get_long().expect("a remedy has a long name"));
            assert!(excluded.iter().any(|other| other.get_id() == option.get_id()), "--from does not exclude {name}");
            let takes_value = option.get_action().takes_values() && name != "--vary";
            let read = Asked::parse(&[name.clone(), "1".to_owned()]);
            assert!(!takes_value || !read.is_empty(), "Asked::parse does not know {name}");
        }
    }
}
