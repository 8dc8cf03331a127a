//! `holdup record`: what the threads of a program do, into a file; then the first screen of what holds them up.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use holdup_control::Profile;
use holdup_record::{Backend, Detail, Outcome, Target};
use holdup_trace::{Event, NO_CPU, Tid, What};

use super::{Error, Status, measure, output, stop};
use crate::interposer::{self, Control, program};
use crate::recording::{self, EXTENSION};
use crate::report::number;
use crate::text;

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
    /// alone
    #[arg(long, value_name = "N", default_value_t = 1024)]
    stack_bytes: u32,
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
    #[arg(long, conflicts_with = "pid")]
    locks: bool,
    /// Only record; show nothing. 'holdup report' shows it later
    #[arg(long)]
    no_report: bool,
    /// Attach to this running process instead of starting a program
    #[arg(short, long, value_name = "PID", required_unless_present = "command")]
    pid: Option<u32>,
    /// The program to start, and its arguments
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "PROGRAM")]
    command: Vec<OsString>,
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
    /// Programs inside the kernel where they can be had, else performance events
    Auto,
    /// Programs inside the kernel (root, or CAP_BPF and CAP_PERFMON): costs the program least
    Bpf,
    /// The kernel's performance events
    Perf,
}

const EXAMPLES: &str = "\
Examples:
  holdup record -- ./server --port 7000   start a program, record to its end
  holdup record -p 1234 --for 10s         a running process, for ten seconds
  holdup record --rate 0 -- make -j8      only switches and locks
  holdup record --locks -- ./server       also what each mutex does, exactly
  holdup report                           the newest recording here, again

A program that record starts keeps its input and output: the report goes to
stderr, and the exit status is the program's. Ctrl-C ends the recording, shows
the report, and exits with 130; so do SIGTERM (143) and SIGHUP (129), which the
program gets as well. 'holdup doctor' says what this machine lets you see.";

/// Records and reports.
///
/// # Errors
/// Nothing can be recorded; the message says why and what can.
pub fn run(options: &Options) -> Result<Status, Error> {
    let target = target(options)?;
    let mut settings = settings(options, target)?;
    let stop = stop::asked()?;
    holdup_record::stop_at_signals(stop);
    announce(options);
    let control = options.locks.then(|| interpose(&mut settings)).transpose()?;
    let more = |time_ns| control.as_ref().map(|control| figures(control, time_ns)).unwrap_or_default();
    let outcome = holdup_record::record_with(&settings, stop, &more).map_err(refused)?;
    outcome.notes.iter().for_each(|note| output::note(format_args!("holdup: {}", text::clean(note))));
    output::note(recorded(&settings.output, &outcome));
    if !options.no_report {
        show(options, &settings.output);
    }
    Ok(status(&outcome, stop.load(Ordering::Relaxed)))
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

fn status(outcome: &Outcome, stopped: bool) -> Status {
    match outcome.ending.status {
        _ if stopped => holdup_record::stopped_by().map_or(Status::Interrupted, |signal| Status::Child(128 + signal)),
        Some(code) => Status::Child(u8::try_from(code).unwrap_or(u8::MAX)),
        None => Status::Success,
    }
}

/// The report of what was just recorded. It cannot fail the recording, which is safe in its file.
fn show(options: &Options, path: &Path) {
    let started = options.pid.is_none();
    let shown = recording::open(path, recording::Window::default(), false).map_err(Error::from);
    let screen = shown.map(|recording| crate::report::recording::summary::screen(&recording));
    let printed = match screen {
        Ok(screen) if started => {
            output::note(format_args!("\n{}", screen.terminal(&output::style_stderr()).trim_end()));
            Ok(())
        }
        Ok(screen) => output::show(&screen),
        Err(why) => Err(why),
    };
    if let Err(why) = printed {
        output::complain(&why);
    }
}

fn target(options: &Options) -> Result<Target, Error> {
    match options.pid {
        Some(0) => {
            Err(Error::Argument("--pid 0: there is no process 0; 'pgrep NAME' finds a program's number".to_owned()))
        }
        Some(pid) => match options.command.first() {
            None => Ok(Target::Process(pid)),
            Some(word) => Err(Error::Argument(one_target(pid, &word.to_string_lossy()))),
        },
        None => Ok(Target::Command(options.command.clone())),
    }
}

/// A process and a program; or what was meant to be an option.
fn one_target(pid: u32, word: &str) -> String {
    match word.starts_with('-') {
        true => program::not_there(word),
        false => format!("--pid {pid} and the program '{word}': give the process to attach to or the program to start"),
    }
}

fn settings(options: &Options, target: Target) -> Result<holdup_record::Options, Error> {
    let stack_bytes = options.stack_bytes;
    if stack_bytes > 4096 || !stack_bytes.is_multiple_of(8) {
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
    };
    let output = match &options.output {
        Some(path) if path.symlink_metadata().is_ok() => return Err(Error::RecordingExists(path.clone())),
        Some(path) => path.clone(),
        None => free_name(&name_of(&target)),
    };
    Ok(holdup_record::Options {
        target,
        output,
        limit,
        sample_hz: options.rate,
        stack_bytes,
        buffer_kib: options.buffer,
        detail,
        capture,
        environment: Vec::new(),
    })
}

/// What the target is called, for the file's name.
fn name_of(target: &Target) -> String {
    let name = match target {
        Target::Command(words) => {
            let path = words.first().map(PathBuf::from).unwrap_or_default();
            path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
        }
        Target::Process(pid) => {
            std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_else(|_| format!("process-{pid}"))
        }
    };
    file_name(&name)
}

/// A name that is safe as the beginning of a file's name.
fn file_name(name: &str) -> String {
    let plain = |c: char| if c.is_alphanumeric() || "._+-".contains(c) { c } else { '-' };
    let name: String = name.trim().chars().map(plain).collect();
    match name.trim_start_matches(['-', '.']) {
        "" => "recording".to_owned(),
        name => name.to_owned(),
    }
}

/// `memcached-20261121-055012.holdup`, with -2, -3 and so on where that is taken.
fn free_name(program: &str) -> PathBuf {
    let stem = stem(program);
    let numbered = (2..).map(|n| format!("{stem}-{n}.{EXTENSION}"));
    let mut names = std::iter::once(format!("{stem}.{EXTENSION}")).chain(numbered).map(PathBuf::from);
    names.find(|name| name.symlink_metadata().is_err()).unwrap_or_default()
}

/// `memcached-20261121-055012`, for the moment.
pub fn stem(program: &str) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO).as_secs();
    let utc = number::utc(i64::try_from(now).unwrap_or(i64::MAX));
    let digits: String = utc.chars().filter(char::is_ascii_digit).collect();
    let (date, time) = digits.split_at(digits.len().min(8));
    format!("{}-{date}-{time}", file_name(program))
}

/// What is being recorded, for those who wait for it.
fn announce(options: &Options) {
    let Some(pid) = options.pid.filter(|_| output::is_terminal_stderr()) else { return };
    let how_long = match &options.limit {
        Some(limit) => format!("for {limit}; Ctrl-C ends it before"),
        None => "until it ends or Ctrl-C".to_owned(),
    };
    output::note(format_args!("holdup: recording {} (process {pid}) {how_long}", name_of(&Target::Process(pid))));
}

fn recorded(path: &Path, outcome: &Outcome) -> String {
    let span_ns = outcome.ending.ended_ns.saturating_sub(outcome.header.began_ns);
    format!(
        "holdup: recorded {} events in {} into {} ({} bytes); {}",
        number::count(outcome.events as f64),
        number::time_ns(span_ns as f64),
        path.display(),
        number::count(outcome.bytes as f64),
        text::clean(&outcome.ending.reason)
    )
}

fn refused(why: holdup_record::Error) -> Error {
    match why {
        holdup_record::Error::Command { name, why } => Error::Command { name, why },
        holdup_record::Error::File { path, why } if why.kind() == std::io::ErrorKind::AlreadyExists => {
            Error::RecordingExists(path)
        }
        holdup_record::Error::File { path, why } => Error::File { path, why },
        holdup_record::Error::NoProcess(pid) => {
            Error::Argument(format!("there is no process {pid}; 'pgrep NAME' finds a program's number"))
        }
        other => Error::Argument(other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_files_are_safe_and_tell_the_program() {
        let of = |word: &str| name_of(&Target::Command(vec![word.into()]));
        assert_eq!(of("/usr/bin/memcached"), "memcached");
        assert_eq!(of("./a b;c"), "a-b-c");
        assert_eq!(of("--"), "recording");
        let name = free_name("redis-server").into_os_string().into_string().unwrap();
        let digits = name.strip_prefix("redis-server-").unwrap().strip_suffix(".holdup").unwrap();
        assert_eq!(digits.len(), "20261121-055012".len(), "{name}");
    }
}
