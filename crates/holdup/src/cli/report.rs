//! `holdup report`: what a recording says, on one screen; and views of everything behind it.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::{Error, Status, output};
use crate::export::{self, collapsed};
use crate::recording::{self, Recording, Window};
use crate::report::document::Document;
use crate::report::page;
use crate::report::recording::{account, code, cpus, finding, json, locks, pairs, summary, switches, threads};
use crate::report::{Style, number};
use crate::shell;

/// Shows what a recording says: what holds the program's threads up, worst first, with the place and a fix; or that
/// nothing does.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Options {
    /// The recording [default: the newest *.holdup in this folder]
    file: Option<PathBuf>,
    /// Everything about the finding with this number: evidence, call paths, moments
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    finding: Option<u32>,
    /// What threads wait for, and what that came from in the end: each wait followed from waker to waker
    #[arg(long)]
    blame: bool,
    /// What the elapsed time is made of: the critical path
    #[arg(long)]
    path: bool,
    /// Where each thread's time goes
    #[arg(long)]
    threads: bool,
    /// What threads wait for, and where
    #[arg(long)]
    locks: bool,
    /// Threads that wake each other
    #[arg(long)]
    pairs: bool,
    /// Per core, socket and in all, from hardware counters: instructions per cycle, frequency, cache misses and what
    /// they cost
    #[arg(long)]
    cpus: bool,
    /// CPU samples by function
    #[arg(long)]
    symbols: bool,
    /// CPU samples by binary
    #[arg(long)]
    modules: bool,
    /// Every switch: when, where, how long it ran, why it left, who had woken it
    #[arg(long)]
    switches: bool,
    /// Show only what happened from this time on, such as 1.20s, counted from the beginning
    #[arg(long, value_name = "TIME")]
    from: Option<String>,
    /// Show only what happened before this time
    #[arg(long, value_name = "TIME")]
    to: Option<String>,
    /// Rows per table [default: 10; with --switches all]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    limit: Option<u32>,
    /// Write a page to this new file: findings, timeline and tables, for any browser
    #[arg(long, value_name = "OUT")]
    html: Option<PathBuf>,
    /// Write the timeline to this new file, for https://ui.perfetto.dev
    #[arg(long, value_name = "OUT")]
    perfetto: Option<PathBuf>,
    /// Write the timeline and the samples to this new file, for https://profiler.firefox.com
    #[arg(long, value_name = "OUT")]
    firefox: Option<PathBuf>,
    /// Write a profile to this new file, for 'go tool pprof' and stores of profiles: waits for locks, time off the CPU
    /// and CPU samples, by call path
    #[arg(long, value_name = "OUT")]
    pprof: Option<PathBuf>,
    /// Write stacks to this new file, for flamegraph.pl and https://www.speedscope.app: nanoseconds by call path
    #[arg(long, value_name = "OUT")]
    collapsed: Option<PathBuf>,
    /// Of which time --collapsed writes the stacks
    #[arg(long, value_name = "PART", value_enum, default_value_t, requires = "collapsed")]
    of: Part,
    /// Print everything as JSON; docs/recording-json.md describes it
    #[arg(long, conflicts_with_all = [
        "finding", "blame", "path", "threads", "locks", "pairs", "cpus", "symbols", "modules", "switches", "limit",
    ])]
    json: bool,
}

/// Which of the threads' time.
#[derive(Clone, Copy, Debug, Default, clap::ValueEnum)]
enum Part {
    /// On and off the CPU
    #[default]
    All,
    /// In waits for locks
    Lock,
    /// Off the CPU, for whatever reason
    OffCpu,
    /// On the CPU, by CPU samples
    Cpu,
}

impl From<Part> for collapsed::Part {
    fn from(part: Part) -> collapsed::Part {
        match part {
            Part::All => collapsed::Part::All,
            Part::Lock => collapsed::Part::Lock,
            Part::OffCpu => collapsed::Part::OffCpu,
            Part::Cpu => collapsed::Part::Cpu,
        }
    }
}

const EXAMPLES: &str = "\
Examples:
  holdup report                            the newest recording in this folder
  holdup report server.holdup --finding 1  everything about the first finding
  holdup report server.holdup --locks --threads
  holdup report server.holdup --blame --path
  holdup report server.holdup --cpus
  holdup report server.holdup --switches --from 1.20s --to 1.35s
  holdup report server.holdup --html server.html
  holdup report server.holdup --perfetto server.pftrace
  holdup report server.holdup --pprof server.pb.gz
  holdup report server.holdup --collapsed waits.txt --of lock
  holdup report server.holdup --json | jq '.findings[0]'";

/// Rows per table where nobody says.
const ROWS: usize = 10;

/// Prints what was asked for.
///
/// # Errors
/// There is no recording, it cannot be read, or there is no such finding.
pub fn run(options: &Options) -> Result<Status, Error> {
    let window = window(options)?;
    let path = match &options.file {
        Some(path) => path.clone(),
        None => newest()?,
    };
    let exports = exports(options)?;
    let recording = recording::open(&path, window, options.switches || !exports.is_empty())?;
    for export in &exports {
        export.write(&recording)?;
    }
    if options.json {
        output::print(&output::json(&json::Report::new(&recording))?)?;
        return Ok(Status::Success);
    }
    let limit = options.limit.map(|limit| limit as usize);
    let mut views = views(options, &recording, limit.unwrap_or(ROWS))?;
    let asks_for_verdict = views.is_empty() && !options.switches && exports.is_empty();
    if asks_for_verdict {
        views.push(summary::screen(&recording));
    }
    let style = output::style();
    let views: Vec<String> = views.iter().map(|view| view.terminal(&style)).collect();
    output::print(&views.join("\n"))?;
    if options.switches {
        list_switches(&recording, limit.unwrap_or(usize::MAX), &style, !views.is_empty())?;
    }
    // No findings are a success only if there is nothing that could have hidden some.
    let is_unclear = recording.report.findings.is_empty() && !recording.report.doubts.is_empty();
    Ok(if asks_for_verdict && is_unclear { Status::Unclear } else { Status::Success })
}

type Writer = dyn Fn(&Recording, &mut dyn Write) -> io::Result<Option<String>>;

/// A file for another viewer.
struct Export<'a> {
    path: &'a Path,
    /// Tells what found no room in the file, if anything.
    write: Box<Writer>,
    viewer: &'static str,
}

/// The files that were asked for. None of them may exist, before anything is read.
fn exports(options: &Options) -> Result<Vec<Export<'_>>, Error> {
    let html = options.html.as_deref().map(|path| Export {
        path,
        write: Box::new(|recording, out| page::recording(recording, out).map(|()| None)),
        viewer: "any browser",
    });
    let perfetto = options.perfetto.as_deref().map(|path| Export {
        path,
        write: Box::new(|recording, out| export::perfetto::write(&recording.report, out).map(|()| None)),
        viewer: "https://ui.perfetto.dev",
    });
    let firefox = options.firefox.as_deref().map(|path| Export {
        path,
        write: Box::new(|recording, out| Ok(export::firefox::write(&recording.report, out)?.map(left_out))),
        viewer: "https://profiler.firefox.com",
    });
    let pprof = options.pprof.as_deref().map(|path| Export {
        path,
        write: Box::new(|recording, out| export::pprof::write(&recording.report, out).map(|()| None)),
        viewer: "'go tool pprof'",
    });
    let part = options.of.into();
    let collapsed = options.collapsed.as_deref().map(|path| Export {
        path,
        write: Box::new(move |recording, out| collapsed::write(&recording.report, part, out).map(|()| None)),
        viewer: "flamegraph.pl or https://www.speedscope.app",
    });
    let all = html.into_iter().chain(perfetto).chain(firefox).chain(pprof).chain(collapsed);
    let exports: Vec<Export<'_>> = all.collect();
    match exports.iter().find(|export| export.path.symlink_metadata().is_ok()) {
        Some(export) => Err(Error::ExportExists(export.path.to_owned())),
        None => Ok(exports),
    }
}

fn left_out(left_out: export::firefox::LeftOut) -> String {
    format!(
        "the profile has the {} of {} stretches that last {} or longer, and no wake-ups: the profiler reads no more. A part of \
         the recording has all of them: --from TIME --to TIME",
        number::count(left_out.shown as f64),
        number::count(left_out.all as f64),
        number::time_ns(left_out.least_ns as f64)
    )
}

impl Export<'_> {
    fn write(&self, recording: &Recording) -> Result<(), Error> {
        let fail = |why: io::Error| match why.kind() {
            io::ErrorKind::AlreadyExists => Error::ExportExists(self.path.to_owned()),
            _ => Error::File { path: self.path.to_owned(), why },
        };
        let mut out = io::BufWriter::new(File::create_new(self.path).map_err(fail)?);
        match (self.write)(recording, &mut out).and_then(|left_out| out.flush().map(|()| left_out)) {
            Ok(left_out) => {
                output::note(format_args!("holdup: wrote {}; {} opens it", self.path.display(), self.viewer));
                left_out.iter().for_each(|left_out| output::note(format_args!("holdup: {left_out}")));
                Ok(())
            }
            Err(why) => {
                // Half a file helps nobody; that it cannot be removed either changes nothing for the user.
                let _ = std::fs::remove_file(self.path);
                Err(fail(why))
            }
        }
    }
}

/// The newest recording of the working folder; which one it is, is said where people read it.
fn newest() -> Result<PathBuf, Error> {
    let path = recording::newest(Path::new("."))?;
    let path = path.strip_prefix(".").map(Path::to_owned).unwrap_or(path);
    output::note(format_args!("holdup: {}", path.display()));
    Ok(path)
}

fn window(options: &Options) -> Result<Window, Error> {
    let moment = |flag: &str, text: &Option<String>| -> Result<Option<u64>, Error> {
        let Some(text) = text else { return Ok(None) };
        let spelt = format!("{flag} '{text}': give a time since the beginning, such as 1.20s or 350ms");
        match holdup_bench::work::parse_ns(text) {
            Ok(ns) if (0.0..1e15).contains(&ns) => Ok(Some(ns.round() as u64)),
            _ => Err(Error::Argument(spelt)),
        }
    };
    let window = Window { from_ns: moment("--from", &options.from)?, to_ns: moment("--to", &options.to)? };
    match (window.from_ns, window.to_ns) {
        (from, Some(to)) if to <= from.unwrap_or(0) => Err(Error::Argument(format!(
            "--to {} is not after --from {}",
            options.to.as_deref().unwrap_or_default(),
            options.from.as_deref().unwrap_or("0s")
        ))),
        _ => Ok(window),
    }
}

fn views(options: &Options, recording: &Recording, limit: usize) -> Result<Vec<Document>, Error> {
    let facts = &recording.report.facts;
    let mut views = Vec::new();
    if let Some(number) = options.finding {
        views.push(one_finding(recording, number)?);
    }
    if options.blame {
        views.push(account::blame(facts, limit));
    }
    if options.path {
        views.push(account::path(facts, limit));
    }
    if options.threads {
        views.push(threads::table(facts, limit));
    }
    if options.locks {
        views.push(locks::table(facts, limit));
    }
    if options.pairs {
        views.push(pairs::table(facts, limit));
    }
    if options.cpus {
        views.push(cpus::table(facts, limit));
    }
    if options.symbols {
        views.push(code::symbols(facts, limit));
    }
    if options.modules {
        views.push(code::modules(facts, limit));
    }
    Ok(views)
}

fn one_finding(recording: &Recording, number: u32) -> Result<Document, Error> {
    let all = recording.report.findings.len();
    finding::full(recording, number as usize - 1).ok_or_else(|| {
        let file = shell::quoted(&recording.path.to_string_lossy());
        let there = match all {
            0 => "this recording has no findings".to_owned(),
            1 => "this recording has one finding, number 1".to_owned(),
            all => format!("the findings of this recording are numbered 1 to {all}"),
        };
        Error::Argument(format!("--finding {number}: {there}; 'holdup report {file}' lists them"))
    })
}

/// A list that can be millions of lines long: written as it is made.
fn list_switches(recording: &Recording, limit: usize, style: &Style, after_others: bool) -> Result<(), Error> {
    let mut stdout = io::BufWriter::new(io::stdout().lock());
    let mut write = |line: &str| stdout.write_all(line.as_bytes());
    let separated = if after_others { write("\n") } else { Ok(()) };
    let written = separated.and_then(|()| switches::write(&recording.report, limit, style, &mut write));
    match written.and_then(|()| stdout.flush()) {
        Err(why) if why.kind() != io::ErrorKind::BrokenPipe => Err(Error::Output(why)),
        _ => Ok(()),
    }
}
