//! `holdup watch`: a service that records each target for some seconds every some minutes, within a budget, and serves
//! what it saw.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use holdup_record::Children;

use super::turn::{self, Job};
use super::{Error, Status, output, stop};
use crate::report::number;
use crate::text;
use crate::watch::budget::Budget;
use crate::watch::figures::Figures;
use crate::watch::seen::{Reason, Turn};
use crate::watch::server::{self, Answer, Request};
use crate::watch::settings::{self, Settings, Target};
use crate::watch::whom::{self, Life, Whom};

/// Watches programs always: records each for some seconds every some minutes, and serves figures for Prometheus and
/// profiles for pprof. It uses no more CPU time than its budget.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
#[group(id = "watched", required = true, multiple = false, args = ["config", "pids", "cgroup", "container", "unit", "command"])]
pub struct Options {
    /// What to watch, and how: a file in TOML (docs/fleet.md); SIGHUP has it read again
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Only read the file, and say what is wrong with it
    #[arg(long, requires = "config")]
    check: bool,
    /// Watch this process; may be given several times, which makes one target of them
    #[arg(short, long = "pid", value_name = "PID", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..))]
    pids: Vec<u32>,
    /// Watch the processes of this control group: its folder, or its path as in /proc/PID/cgroup
    #[arg(long, value_name = "PATH")]
    cgroup: Option<PathBuf>,
    /// Watch the processes of this container: its id, or the beginning of it
    #[arg(long, value_name = "ID")]
    container: Option<String>,
    /// Watch the processes of this unit of systemd
    #[arg(long, value_name = "NAME")]
    unit: Option<String>,
    /// Watch all processes that bear this name, or run a program of it
    #[arg(long, value_name = "NAME")]
    command: Option<String>,
    #[command(flatten)]
    one: One,
}

/// How, where no file says it.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Without --config")]
struct One {
    /// What the target is called [default: as the process, the group or the unit]
    #[arg(long, value_name = "NAME", conflicts_with = "config", value_parser = settings::name)]
    name: Option<String>,
    /// Only threads of this name, or with a * at the end of names that begin so; may be given several times
    #[arg(long = "thread", value_name = "NAME", conflicts_with = "config")]
    threads: Vec<String>,
    /// Also whatever these processes have started [default: those that run the same program]
    #[arg(long, conflicts_with_all = ["config", "no_children"])]
    children: bool,
    /// These processes alone
    #[arg(long, conflicts_with = "config")]
    no_children: bool,
    /// Serve figures there [default: 127.0.0.1:9765]
    #[arg(long, value_name = "ADDRESS:PORT", conflicts_with = "config", value_parser = settings::address)]
    listen: Option<std::net::SocketAddr>,
    /// From one recording to the next; longer if the budget demands it [default: 300s]
    #[arg(long, value_name = "TIME", conflicts_with = "config", value_parser = settings::every)]
    every: Option<Duration>,
    /// Length of a recording [default: 5s]
    #[arg(long = "for", value_name = "TIME", conflicts_with = "config", value_parser = settings::length)]
    length: Option<Duration>,
    /// CPU time for all of it, as a share of one CPU [default: 0.5%]
    #[arg(long, value_name = "PERCENT", conflicts_with = "config", value_parser = settings::budget)]
    budget: Option<f64>,
    /// CPU samples per second and CPU; 0 for none [default: 100]
    #[arg(long, value_name = "HZ", conflicts_with = "config", value_parser = clap::value_parser!(u32).range(0..=20_000))]
    rate: Option<u32>,
    /// By what to capture: auto, bpf, perf or sampler, as 'holdup record --capture' has it [default: auto]
    #[arg(long, value_name = "BY", conflicts_with = "config", value_parser = settings::capture)]
    capture: Option<holdup_record::Backend>,
    /// Locks that have a name among the figures; the others are one [default: 10]
    #[arg(long, value_name = "N", conflicts_with = "config", value_parser = clap::value_parser!(u32).range(0..=1000))]
    locks: Option<u32>,
    /// Add the facts of each recording to the tables of this folder, as 'holdup export --parquet' does
    #[arg(long, value_name = "DIR", conflicts_with = "config")]
    parquet: Option<PathBuf>,
    /// The version of the program, for these tables
    #[arg(long, value_name = "VERSION", conflicts_with = "config", requires = "parquet")]
    build: Option<String>,
    /// Keep recordings in this folder when a condition holds; the oldest of 20 go
    #[arg(long, value_name = "DIR", conflicts_with = "config", requires = "when")]
    keep: Option<PathBuf>,
    /// Which recordings are kept: 'finding >= 20%' or 'finding hot-lock >= 20%'; may be given several times
    #[arg(long, value_name = "CONDITION", conflicts_with = "config", requires = "keep", value_parser = settings::condition)]
    when: Vec<String>,
}

const EXAMPLES: &str = "\
Examples:
  holdup watch -p 1234                       one process, figures on port 9765
  holdup watch --unit nginx.service --every 60s --for 2s
  holdup watch --command server --keep kept --when 'finding hot-lock >= 20%'
  holdup watch --config watch.toml           many targets
  holdup watch --config watch.toml --check   is the file right?
  curl http://127.0.0.1:9765/metrics         what Prometheus gets
  go tool pprof http://127.0.0.1:9765/pprof/server

A target that does not run is looked for again at its next turn. SIGHUP has the
file read again; if it is wrong, the settings of before stay. Ctrl-C and SIGTERM
end it with status 0, when the facts of the recording under way are written.";

/// How often signals are looked for.
const STEP: Duration = Duration::from_millis(250);
/// A turn that takes so much longer than its recording hangs.
const SLACK: Duration = Duration::from_secs(120);
/// How long the last turn may take to write its facts.
const FLUSH: Duration = Duration::from_secs(20);
/// More is no answer of a turn.
const MOST_ANSWER: u64 = 64 << 20;
/// `USER_HZ`: what the kernel counts processes' times in, on every architecture of today.
const TICKS_PER_S: u64 = 100;

/// Watches until it is asked to end.
///
/// # Errors
/// The settings are wrong, the process does not run, or the port cannot be had.
pub fn run(options: &Options) -> Result<Status, Error> {
    let settings = settings(options)?;
    if options.check {
        output::print(&format!("{}: {} to watch\n", config_name(options), targets(settings.targets.len())))?;
        return Ok(Status::Success);
    }
    if let Some(whom @ Whom::Processes(_)) = settings.targets.first().map(|target| &target.whom)
        && options.config.is_none()
    {
        whom.find().map_err(|why| Error::Argument(format!("--pid: {why}; 'pgrep NAME' finds a program's number")))?;
    }
    let listener = TcpListener::bind(settings.listen).map_err(|why| {
        let at = settings.listen;
        Error::Argument(format!(
            "cannot serve at {at}: {why}; --listen 127.0.0.1:PORT, or 'listen', names another place"
        ))
    })?;
    let at = listener.local_addr().map_err(Error::Output)?;
    let stop = stop::asked()?;
    holdup_record::heed_reloads();
    holdup_record::keep_little_memory();
    let mut service = Service::new(settings, options.config.clone());
    let figures = service.figures.clone();
    let serving = server::serve(listener, Arc::new(move |request: &Request| page(&figures, request)));
    serving.map_err(|why| Error::Argument(format!("no thread can be started: {why}")))?;
    let count = targets(service.settings.targets.len());
    output::note(format_args!("holdup: watching {count}; figures at http://{at}/metrics"));
    service.watch(stop);
    output::note(format_args!("holdup: stopped after {}", number::counted(service.turns, "recording")));
    Ok(Status::Success)
}

fn targets(count: usize) -> String {
    number::counted(count, "target")
}

fn config_name(options: &Options) -> String {
    options.config.as_deref().map_or_else(String::new, |path| path.display().to_string())
}

fn settings(options: &Options) -> Result<Settings, Error> {
    match &options.config {
        Some(path) => read(path).map_err(Error::Argument),
        None => one(options).map_err(Error::Argument),
    }
}

/// The settings of a file.
fn read(path: &Path) -> Result<Settings, String> {
    const MOST_BYTES: u64 = 4 << 20;
    let told = |why: std::io::Error| format!("{}: {why}", path.display());
    let mut text = String::new();
    std::fs::File::open(path).map_err(told)?.take(MOST_BYTES).read_to_string(&mut text).map_err(told)?;
    settings::parse(&path.display().to_string(), &text).map_err(|why| why.to_string())
}

/// The settings of options.
fn one(options: &Options) -> Result<Settings, String> {
    let one = &options.one;
    let mut settings = Settings::new()?;
    settings.listen = one.listen.unwrap_or(settings.listen);
    settings.every = one.every.unwrap_or(settings.every);
    settings.length = one.length.unwrap_or(settings.length);
    settings.budget = one.budget.unwrap_or(settings.budget);
    settings.rate = one.rate.unwrap_or(settings.rate);
    settings.capture = one.capture.unwrap_or(settings.capture);
    settings.locks = one.locks.map_or(settings.locks, |locks| locks as usize);
    settings.parquet.clone_from(&one.parquet);
    settings.keep = one.keep.clone().map(|folder| settings::kept(folder, one.when.clone()));
    let whom = whom(options);
    settings.targets.push(Target {
        name: one.name.clone().unwrap_or_else(|| whom.name()),
        whom,
        children: match (one.children, one.no_children) {
            (true, _) => Children::All,
            (_, true) => Children::None,
            _ => Children::SameProgram,
        },
        threads: one.threads.clone(),
        service: None,
        build: one.build.clone(),
    });
    settings.check()?;
    Ok(settings)
}

fn whom(options: &Options) -> Whom {
    let group = options.cgroup.clone().map(Whom::Cgroup);
    let group = group.or_else(|| options.container.clone().map(Whom::Container));
    let group = group.or_else(|| options.unit.clone().map(Whom::Unit));
    let group = group.or_else(|| options.command.clone().map(Whom::Command));
    group.unwrap_or_else(|| Whom::Processes(options.pids.iter().map(|pid| Life::now(*pid)).collect()))
}

/// The service at work.
struct Service {
    settings: Settings,
    /// The file that the settings are of.
    config: Option<PathBuf>,
    began: Instant,
    budget: Budget,
    /// CPU time that the budget knows of.
    charged: Duration,
    figures: Arc<Mutex<Figures>>,
    /// When each target is due, by name; those that are not here are due now.
    due: BTreeMap<String, Duration>,
    running: Option<Running>,
    answered: (Sender<Vec<u8>>, Receiver<Vec<u8>>),
    /// What was said last about each target, so that nothing is said again and again.
    told: BTreeMap<String, String>,
    /// Recordings that were made.
    turns: usize,
}

/// A turn that is taken.
struct Running {
    name: String,
    began: Duration,
    child: Child,
    /// Closed to have it end.
    input: Option<ChildStdin>,
    deadline: Duration,
}

impl Service {
    fn new(settings: Settings, config: Option<PathBuf>) -> Service {
        let service = Service {
            budget: Budget::new(settings.budget),
            settings,
            config,
            began: Instant::now(),
            charged: Duration::ZERO,
            figures: Arc::default(),
            due: BTreeMap::new(),
            running: None,
            answered: mpsc::channel(),
            told: BTreeMap::new(),
            turns: 0,
        };
        service.keep_figures();
        service
    }

    fn figures(&self) -> MutexGuard<'_, Figures> {
        self.figures.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Figures are those of the targets that are watched.
    fn keep_figures(&self) {
        let names: Vec<&str> = self.settings.targets.iter().map(|target| target.name.as_str()).collect();
        let mut figures = self.figures();
        figures.keep(&names);
        figures.own.budget = self.settings.budget;
    }

    fn watch(&mut self, stop: &AtomicBool) {
        while !stop.load(Ordering::Relaxed) {
            if holdup_record::reloads() > 0 {
                self.reload();
            }
            if self.running.is_none() {
                self.begin();
            }
            match self.answered.1.recv_timeout(STEP) {
                Ok(bytes) => self.end(&bytes),
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => self.give_up_late(),
            }
        }
        self.flush();
    }

    /// Begins the turn that is due longest, if the budget allows it.
    fn begin(&mut self) {
        let now = self.began.elapsed();
        let due = |target: &Target| self.due.get(&target.name).copied().unwrap_or_default();
        let Some(target) = self.settings.targets.iter().min_by_key(|target| due(target)) else { return };
        if now < due(target).max(self.budget.free_at()) {
            return;
        }
        let (name, job) = (target.name.clone(), Job::new(&self.settings, target));
        self.due.insert(name.clone(), now + self.settings.every);
        match start(&job, &self.answered.0) {
            Ok((child, input)) => {
                let deadline = now + self.settings.length + SLACK;
                self.running = Some(Running { name, began: now, child, input, deadline });
            }
            Err(why) => {
                let turn = Err((Reason::Failed, format!("no process can be started: {why}")));
                self.take(&name, now, turn, Vec::new());
            }
        }
    }

    /// A turn has answered.
    fn end(&mut self, bytes: &[u8]) {
        let Some(running) = self.running.take() else { return };
        let mut child = running.child;
        // It has nothing more to do, and it must be waited for.
        let _ = child.kill().and_then(|()| child.wait().map(drop));
        let nothing =
            || (Err((Reason::Failed, "the process that recorded ended without an answer".to_owned())), Vec::new());
        let (turn, profile) = turn::answer(bytes).unwrap_or_else(nothing);
        self.take(&running.name, running.began, turn, profile);
    }

    /// Counts what came of a turn, and what it cost.
    fn take(&mut self, name: &str, began: Duration, turn: Turn, profile: Vec<u8>) {
        let cpu = cpu_time();
        self.budget.spend(began, cpu.saturating_sub(self.charged));
        self.charged = cpu;
        self.turns += usize::from(turn.is_ok());
        self.tell(name, &turn);
        self.figures().add(name, began, &turn, profile, self.settings.locks);
        holdup_record::give_memory_back();
    }

    /// Says what is new.
    fn tell(&mut self, name: &str, turn: &Turn) {
        let shown = text::clean(name);
        let news = match turn {
            Ok(seen) => {
                if let Some((condition, path)) = &seen.kept {
                    output::note(format_args!("holdup: {shown}: {condition}; kept {path}"));
                }
                let export = seen.not_exported.as_ref().map(|why| format!("facts are not written: {why}"));
                let keep = seen.not_kept.as_ref().map(|why| format!("the recording is not kept: {why}"));
                let all: Vec<String> = export.into_iter().chain(keep).collect();
                (!all.is_empty()).then(|| all.join("; "))
            }
            Err((Reason::NotRunning, why)) => Some(format!("{why}; it is looked for again")),
            Err((_, why)) => Some(format!("not recorded: {why}")),
        };
        let before = self.told.get(name).cloned();
        match (&news, before) {
            (Some(news), before) if before.as_ref() != Some(news) => {
                output::note(format_args!("holdup: {shown}: {}", text::clean(news)));
            }
            (None, Some(_)) => output::note(format_args!("holdup: {shown}: recorded again")),
            _ => {}
        }
        match news {
            Some(news) => drop(self.told.insert(name.to_owned(), news)),
            None => drop(self.told.remove(name)),
        }
    }

    /// A turn that hangs is ended; its answer is then none.
    fn give_up_late(&mut self) {
        let now = self.began.elapsed();
        if let Some(running) = self.running.as_mut().filter(|running| now > running.deadline) {
            // Its output ends with it, and what waits for that answers.
            let _ = running.child.kill();
        }
    }

    /// Takes the settings of the file as it is now; those of before stay if it is wrong.
    fn reload(&mut self) {
        let Some(path) = self.config.clone() else {
            output::note("holdup: SIGHUP, but there is no --config to read again");
            return;
        };
        match read(&path) {
            Ok(mut settings) => {
                if settings.listen != self.settings.listen {
                    let at = self.settings.listen;
                    output::note(format_args!(
                        "holdup: 'listen' is taken at the next start; figures are still at {at}"
                    ));
                    settings.listen = at;
                }
                self.settings = settings;
                let is_watched = |name: &str| self.settings.targets.iter().any(|target| target.name == name);
                self.due.retain(|name, _| is_watched(name));
                self.told.retain(|name, _| is_watched(name));
                // A shorter interval begins now.
                let latest = self.began.elapsed() + self.settings.every;
                self.due.values_mut().for_each(|due| *due = latest.min(*due));
                self.budget.set(self.settings.budget);
                self.keep_figures();
                self.figures().own.reloads.0 += 1;
                let count = targets(self.settings.targets.len());
                output::note(format_args!("holdup: read {} again; watching {count}", path.display()));
            }
            Err(why) => {
                self.figures().own.reloads.1 += 1;
                output::note(format_args!("holdup: {why}"));
                output::note("holdup: the settings of before stay");
            }
        }
    }

    /// Ends the turn under way, with what it has until now.
    fn flush(&mut self) {
        let Some(running) = self.running.as_mut() else { return };
        running.input = None;
        match self.answered.1.recv_timeout(FLUSH) {
            Ok(bytes) => self.end(&bytes),
            Err(_) => {
                output::note("holdup: the last recording took too long to end; its facts are lost");
                self.end(&[]);
            }
        }
    }
}

/// Starts a process that takes a turn, and a thread that waits for its answer.
fn start(job: &Job, answered: &Sender<Vec<u8>>) -> std::io::Result<(Child, Option<ChildStdin>)> {
    let mut command = Command::new(program()?);
    command.arg(turn::TURN).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn()?;
    let told = tell_job(&mut child, job).and_then(|()| listen(&mut child, answered.clone()));
    if let Err(why) = told {
        let _ = child.kill().and_then(|()| child.wait().map(drop));
        return Err(why);
    }
    let input = child.stdin.take();
    Ok((child, input))
}

/// This program; also where another one has taken its file's place, as at an upgrade.
fn program() -> std::io::Result<PathBuf> {
    let path = std::env::current_exe()?;
    let own = PathBuf::from("/proc/self/exe");
    Ok(if path.exists() || !own.exists() { path } else { own })
}

fn tell_job(child: &mut Child, job: &Job) -> std::io::Result<()> {
    let mut line = serde_json::to_vec(job)?;
    line.push(b'\n');
    match child.stdin.as_mut().map_or(Ok(()), |input| input.write_all(&line)) {
        // It has ended already: that shows when its answer is missing.
        Err(why) if why.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        told => told,
    }
}

fn listen(child: &mut Child, answered: Sender<Vec<u8>>) -> std::io::Result<()> {
    let Some(out) = child.stdout.take() else { return Err(std::io::ErrorKind::BrokenPipe.into()) };
    let read = move || {
        let mut bytes = Vec::new();
        // What came before an error is no whole answer, and is not taken for one.
        let _ = out.take(MOST_ANSWER).read_to_end(&mut bytes);
        // The service may have ended.
        let _ = answered.send(bytes);
    };
    thread::Builder::new().name("turn".into()).stack_size(128 << 10).spawn(read).map(drop)
}

/// CPU time of this process and those that it has waited for.
fn cpu_time() -> Duration {
    let status = whom::status("self").unwrap_or_default();
    let ticks: u64 = status.split_whitespace().skip(11).take(4).filter_map(|field| field.parse::<u64>().ok()).sum();
    Duration::from_millis(ticks * 1000 / TICKS_PER_S)
}

/// Memory of this process.
fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kib.unwrap_or_default() << 10
}

/// What is at a path.
fn page(figures: &Mutex<Figures>, request: &Request) -> Answer {
    const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    const PLAIN: &str = "text/plain; version=0.0.4; charset=utf-8";
    let mut figures = figures.lock().unwrap_or_else(PoisonError::into_inner);
    match request.path.as_str() {
        "/" => {
            let names: Vec<String> = figures.names().map(|name| format!("/pprof/{}\n", encoded(name))).collect();
            Answer::text("200 OK", &format!("/metrics\n{}", names.concat()))
        }
        "/metrics" => {
            figures.own.cpu = cpu_time();
            figures.own.resident_bytes = resident_bytes();
            match request.takes_openmetrics {
                true => Answer::ok(OPENMETRICS, figures.openmetrics().into_bytes().into()),
                false => Answer::ok(PLAIN, figures.plain().into_bytes().into()),
            }
        }
        path => match path.strip_prefix("/pprof/").and_then(|name| figures.profile(name)) {
            Some(Some(profile)) => Answer::ok("application/octet-stream", profile),
            Some(None) => {
                Answer::text("404 Not Found", "there is no profile of this target yet, or it was too large\n")
            }
            None => Answer::text("404 Not Found", "there are /metrics and /pprof/TARGET; / lists the targets\n"),
        },
    }
}

/// A name as part of a path.
fn encoded(name: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    name.bytes().map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_in_paths_are_harmless() {
        assert_eq!(encoded("a b/ü"), "a%20b%2F%C3%BC");
    }

    #[test]
    fn every_page_is_there_and_others_are_told() {
        let figures = Mutex::new(Figures::default());
        figures.lock().unwrap().keep(&["shop front"]);
        let get = |path: &str, takes_openmetrics| {
            page(&figures, &Request { path: path.to_owned(), takes_openmetrics, ..Request::default() })
        };
        assert_eq!(&*get("/", false).body, b"/metrics\n/pprof/shop%20front\n");
        assert!(get("/metrics", true).body.ends_with(b"# EOF\n"));
        assert!(get("/metrics", false).kind.contains("version=0.0.4"));
        assert!(get("/pprof/shop front", false).status.starts_with("404"));
        assert!(get("/pprof/../etc/passwd", false).status.starts_with("404"));
    }
}
