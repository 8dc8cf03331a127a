//! `holdup record`: what the threads of a program do, into a file; then the first screen of what holds them up.

use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Mutex, PoisonError};

use holdup_control::Profile;
use holdup_record::{Backend, Detail, HeldFile, Outcome, Target};
use holdup_trace::{Event, NO_CPU, Tid, What};

use super::capture::{self, name_of};
use super::flight::{self, Flight};
use super::whom::Whom;
use super::{Error, Status, measure, output, runtime_help, stop};
use crate::interposer::{self, Control, program};
use crate::recording;
use crate::report::number;

/// Records what a program's threads do (switches, lock waits, CPU samples), and says what holds them up. It needs no
/// root.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Options {
    /// Write to this file, which must not exist [default: PROGRAM-DATE-TIME.holdup]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Stop recording after this time, such as 10s; a program that was started runs on
    #[arg(long = "for", visible_alias = "duration", value_name = "TIME")]
    limit: Option<String>,
    /// CPU samples per second and CPU; 0 for none
    #[arg(long, value_name = "HZ", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(0..=20_000))]
    rate: u32,
    /// Bytes of user stack to search for the caller of a lock: a multiple of 8, at most 4096; 0 for frame pointers
    /// alone [default: 1024, and 4096 for .NET]
    #[arg(long, value_name = "N")]
    stack_bytes: Option<u32>,
    /// Size of each CPU's buffer in KiB, a power of two [default: as much as this user may have]
    #[arg(long, value_name = "KIB")]
    buffer: Option<u32>,
    /// How much to record
    #[arg(long, value_enum, default_value_t = Asked::Allowed)]
    detail: Asked,
    /// By what to capture
    #[arg(long, value_enum, default_value_t = By::Auto)]
    capture: By,
    /// Also count what every pthread mutex does: acquisitions, contention, waits and holds (by an interposer in the
    /// program)
    #[arg(long, conflicts_with_all = ["pids", "cgroup", "container", "last", "when"])]
    locks: bool,
    /// Have the program's runtime write the names of the code that it makes: Java is asked at the end of the recording;
    /// a program that is started gets switches for Node, Java and .NET in its environment. It writes /tmp/perf-PID.map
    #[arg(long, conflicts_with_all = ["last", "when"])]
    runtime_help: bool,
    /// Only record; show nothing. 'holdup report' shows it later
    #[arg(long)]
    no_report: bool,
    #[command(flatten)]
    flight: Flight,
    #[command(flatten)]
    whom: Whom,
}

/// How much to ask for, as the command line names it.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Asked {
    /// What an ordinary user can see, even as root
    User,
    /// All that this user may see
    Allowed,
}

/// By what to capture, as the command line names it.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum By {
    /// Programs inside the kernel where they can be had, else performance events, else looks from outside
    Auto,
    /// Programs inside the kernel (root, or CAP_BPF and CAP_PERFMON): costs the program least
    Bpf,
    /// The kernel's performance events
    Perf,
    /// Looks at the threads from outside, some tens to hundreds of times a second: where neither can be had
    Sampler,
}

const EXAMPLES: &str = "\
Examples:
  holdup record -- ./server --port 7000   start a program, record to its end
  holdup record -p 1234 --for 10s         a running process, for ten seconds
  holdup record -p 12 -p 34 --for 10s     two of them in one recording
  holdup record -p 1234 --last 60s --when 'lock-wait > 50ms'
                                          keeps the last minute in memory, and
                                          writes it when a thread waits so long
  holdup record --rate 0 -- make -j8      only switches and locks
  holdup record --locks -- ./server       also what each mutex does, exactly
  holdup record --runtime-help -- node app.js
                                          also the names of JavaScript functions
  holdup report                           the newest recording here, again

A program that record starts keeps its input and output: the report goes to
stderr, and the exit status is the program's. Ctrl-C ends the recording, shows
the report, and exits with 130; so do SIGTERM (143) and SIGHUP (129), which the
program gets as well. What a program leaves behind when it ends (a daemon) is
recorded until it ends, too. Workers that a server has forked are recorded with
it: processes of the same program. 'holdup doctor' says what this machine lets you see.";

/// Records and reports.
///
/// # Errors
/// Nothing can be recorded; the message says why and what can.
pub fn run(options: &Options) -> Result<Status, Error> {
    let target = options.whom.target("record")?;
    let mut settings = settings(options, target)?;
    let stop = stop::asked()?;
    announce(options, &settings.target);
    if options.flight.is_asked() {
        return flight::run(&options.flight, settings, options.output.as_deref(), stop);
    }
    let control = options.locks.then(|| interpose(&mut settings)).transpose()?;
    let started = !options.whom.is_attached();
    if options.runtime_help && started {
        settings.environment.extend(runtime_help::environment(|name| std::env::var_os(name)));
    }
    let helped = Mutex::new(Vec::new());
    let more = |time_ns, pids: &[u32]| {
        if options.runtime_help {
            helped.lock().unwrap_or_else(PoisonError::into_inner).extend(runtime_help::ask(pids, started));
        }
        control.as_ref().map(|control| figures(control, time_ns)).unwrap_or_default()
    };
    let outcome = holdup_record::record_with(&settings, stop, &more).map_err(capture::refused)?;
    let helped = helped.into_inner().unwrap_or_else(PoisonError::into_inner);
    outcome.notes.iter().chain(&helped).for_each(|note| output::note(format_args!("holdup: {note}")));
    output::note(recorded(&settings.output, &outcome));
    if !options.no_report {
        show(options, &settings.output, &outcome.held);
    }
    Ok(capture::status(&outcome, stop.load(Ordering::Relaxed)))
}

/// Lets the program count what its locks do.
fn interpose(settings: &mut holdup_record::Options) -> Result<Control, Error> {
    if let Target::Command(command) = &settings.target {
        program::find(command).map_err(super::with::refused)?;
    }
    let wanted = interposer::Settings { profile: Profile::Sampled, ..interposer::Settings::default() };
    let control = Control::create(&wanted).map_err(super::with::no_control)?;
    settings.environment = control.environment();
    Ok(control)
}

/// What it counted.
fn figures(control: &Control, time_ns: u64) -> Vec<Event> {
    // A recording without these is as good as one without --locks.
    let processes = control.figures().unwrap_or_default();
    let locks = processes.iter().flat_map(|process| {
        let tid = Tid(process.process.pid);
        // Locks that found no record of their own have no address to be known by.
        let known = process.locks.iter().filter(|lock| lock.addr != 0);
        known.map(move |lock| (tid, lock.summary()))
    });
    let event = |(tid, figures)| Event { time_ns, tid, cpu: NO_CPU, what: What::LockFigures(Box::new(figures)) };
    locks.map(event).collect()
}

/// The report of what was just recorded. It cannot fail the recording, which is safe in its file.
fn show(options: &Options, path: &Path, held: &[HeldFile]) {
    let started = !options.whom.is_attached();
    let shown = recording::open_with(path, recording::Window::default(), false, held).map_err(Error::from);
    let screen = shown.map(|recording| crate::report::recording::summary::screen(&recording));
    let printed = match screen {
        Ok(screen) if started => {
            output::note("");
            output::note_document(&screen);
            Ok(())
        }
        Ok(screen) => output::show(&screen),
        Err(why) => Err(why),
    };
    if let Err(why) = printed {
        output::complain(&why);
    }
}

fn settings(options: &Options, target: Target) -> Result<holdup_record::Options, Error> {
    if let Some(stack_bytes) = options.stack_bytes.filter(|bytes| *bytes > 4096 || !bytes.is_multiple_of(8)) {
        return Err(Error::Argument(format!("--stack-bytes {stack_bytes}: give a multiple of 8 up to 4096")));
    }
    if let Some(kib) = options.buffer.filter(|kib| !kib.is_power_of_two() || !(4..=1 << 20).contains(kib)) {
        return Err(Error::Argument(format!("--buffer {kib}: give a power of two between 4 and 1048576")));
    }
    let limit = measure::limit_of("--for", options.limit.as_deref())?;
    let detail = match options.detail {
        Asked::User => Detail::User,
        Asked::Allowed => Detail::Allowed,
    };
    let capture = match options.capture {
        By::Auto => Backend::Auto,
        By::Bpf => Backend::Bpf,
        By::Perf => Backend::Perf,
        By::Sampler => Backend::Sampler,
    };
    let output = match &options.output {
        Some(path) if path.symlink_metadata().is_ok() => return Err(Error::RecordingExists(path.clone())),
        Some(path) => path.clone(),
        None => capture::free_name(&name_of(&target)),
    };
    let usual = holdup_record::Options::new(target, output);
    Ok(holdup_record::Options {
        limit,
        sample_hz: options.rate,
        stack_bytes: options.stack_bytes.unwrap_or(usual.stack_bytes),
        buffer_kib: options.buffer,
        detail,
        capture,
        threads: options.whom.threads(),
        left_behind: Some(left_behind),
        ..usual
    })
}

fn left_behind() {
    output::note("holdup: the program has ended; what it left behind is recorded until it ends, too, or until Ctrl-C");
}

/// What is being recorded, for those who wait for it.
fn announce(options: &Options, target: &Target) {
    let Target::Processes(pids) = target else { return };
    if !output::is_terminal_stderr() || options.flight.is_asked() {
        return;
    }
    let how_long = match &options.limit {
        Some(limit) => format!("for {limit}; Ctrl-C ends it before"),
        None => "until it ends or Ctrl-C".to_owned(),
    };
    output::note(format_args!("holdup: recording {} ({}) {how_long}", name_of(target), capture::processes(pids)));
}

fn recorded(path: &Path, outcome: &Outcome) -> String {
    let span_ns = outcome.ending.ended_ns.saturating_sub(outcome.header.began_ns);
    format!(
        "holdup: recorded {} events in {} into {} ({} bytes); {}",
        number::count(outcome.events as f64),
        number::time_ns(span_ns as f64),
        path.display(),
        number::count(outcome.bytes as f64),
        outcome.ending.reason
    )
}
