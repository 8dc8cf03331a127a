//! The page of a recording: findings, the timeline, tables.
//!
//! Its figures are the JSON report itself (`report --json`), so that they cannot differ; beside it stand the names as
//! reports say them and the timeline's columns. The types of viewer/report.ts are generated from what is written here.

use std::io::{self, BufWriter, Write};

use holdup_analyze::{Problem, Report, Timeline};
use holdup_trace::Tid;
use maud::html;
use schemars::JsonSchema;
use serde::Serialize;

use super::super::number;
use super::super::recording::{json as report_json, summary};
use super::pack::{self, Column};
use super::states::{StateRow, States};
use super::track::{NO_WAKER, Track};
use super::{CLOSE, findings, header, open, visible};
use crate::export::{Directory, timeline};
use crate::recording::Recording;
use crate::recording::name;
use crate::text;

/// A waker that was not recorded; threads follow by index.
const OUTSIDE: u32 = 1;

/// Writes the page.
///
/// # Errors
/// `out` fails, or the analysis kept no timeline.
pub fn recording(recording: &Recording, out: &mut dyn Write) -> io::Result<()> {
    let report = &recording.report;
    let facts = &report.facts;
    let kept = timeline(report)?;
    let directory = Directory::new(facts);
    let mut out = BufWriter::new(out);
    let title = format!("{}: holdup", summary::program(facts));
    out.write_all(open("recording", &title).as_bytes())?;
    let notes = summary::about(recording);
    let readable = html! {
        (header(&about(recording), &summary::headline(recording)))
        main {
            p class="context" { (summary::context(facts)) }
            (findings::section(recording, &directory))
            // Where the script puts the timeline and the tables; heights are fixed by the style sheet, so that nothing
            // jumps.
            section id="timeline" aria-label="Timeline" {
                noscript { p class="note" { "The timeline and the tables need JavaScript." } }
            }
            section id="tables" aria-label="Tables" {}
            @if !notes.is_empty() {
                section id="about" {
                    h2 { "About the recording" }
                    ul class="plain" { @for sentence in notes { li { (sentence) } } }
                }
            }
        }
    };
    out.write_all(visible(readable).as_bytes())?;
    element("report", &report_json::Report::new(recording), &mut out)?;
    tracks(report, kept, &directory, &mut out)?;
    out.write_all(CLOSE.as_bytes())?;
    out.flush()
}

/// The line above the headline.
fn about(recording: &Recording) -> String {
    let header = &recording.report.facts.header;
    let when = i64::try_from(header.began_unix_s).map(number::utc).unwrap_or_default();
    let file = recording.path.to_string_lossy();
    let command = text::clean(&header.target.command.join(" "));
    match command.is_empty() {
        true => format!("{file}, {when}"),
        false => format!("{file}, {when}: {command}"),
    }
}

fn element(id: &str, data: &impl Serialize, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "<script type=\"application/json\" id=\"{id}\">{}</script>", super::json(data)?)
}

/// Compressed bytes.
fn blob(id: &str, bytes: &[u8], out: &mut dyn Write) -> io::Result<()> {
    write!(out, "<script type=\"application/octet-stream\" id=\"{id}\">")?;
    pack::base64(&pack::deflate(bytes)?, out)?;
    out.write_all(b"</script>\n")
}

/// The timeline: what describes it, its summaries, and the exact columns of each thread.
fn tracks(report: &Report, kept: &Timeline, directory: &Directory<'_>, out: &mut dyn Write) -> io::Result<()> {
    let facts = &report.facts;
    let zero_ns = facts.header.began_ns.min(facts.start_ns);
    let (start_ns, end_ns) = (facts.start_ns - zero_ns, facts.end_ns.max(facts.start_ns + 1).saturating_sub(zero_ns));
    let mut states = States::default();
    let rows = kept.threads.iter().take(facts.threads.len());
    let mut tracks: Vec<Track> = rows.map(|row| Track::new(row, zero_ns, &mut states)).collect();
    let loose = wakes(kept, directory, zero_ns, &mut tracks);
    let mut summaries = Vec::new();
    let threads = tracks
        .iter()
        .enumerate()
        .map(|(index, track)| {
            let levels = track.levels();
            for buckets in &levels {
                summaries.extend(track.summary(*buckets, start_ns, end_ns, &states));
            }
            ThreadRow::new(report, index, track, levels, zero_ns)
        })
        .collect();
    let lost = report.problems.iter().filter_map(|problem| Lost::new(problem, zero_ns)).collect();
    let zero_ns = zero_ns.to_string();
    let view = View { zero_ns, start_ns, end_ns, states: states.table(facts), threads, lost };
    element("view", &view, out)?;
    blob("summaries", &summaries, out)?;
    for (index, track) in tracks.iter().enumerate() {
        blob(&format!("track-{index}"), &track.columns(), out)?;
    }
    blob("wakes", &loose, out)
}

/// What describes the timeline. Times count from its zero.
#[derive(Serialize, JsonSchema)]
pub(in crate::report) struct View {
    /// The zero on the machine's monotonic clock, as text: it may not fit a double.
    zero_ns: String,
    /// First moment.
    start_ns: u64,
    /// Last moment.
    end_ns: u64,
    /// The kinds of states that threads were in, by number.
    states: Vec<StateRow>,
    /// The threads, as in the report.
    threads: Vec<ThreadRow>,
    /// Where events were lost.
    lost: Vec<Lost>,
}

/// A thread of the timeline.
#[derive(Serialize, JsonSchema)]
struct ThreadRow {
    /// Its name and number.
    label: String,
    /// Its name.
    name: String,
    /// Why its figures are too low, if they are.
    problem: Option<String>,
    /// Its process, with the number.
    process: String,
    /// First moment.
    born_ns: u64,
    /// Last moment.
    ended_ns: u64,
    /// Pieces of its track.
    pieces: usize,
    /// Buckets of each of its summaries.
    levels: Vec<u64>,
}

impl ThreadRow {
    fn new(report: &Report, index: usize, track: &Track, levels: Vec<u64>, zero_ns: u64) -> ThreadRow {
        let facts = &report.facts;
        let thread = &facts.threads[index];
        let weakens = |problem: &&Problem| matches!(problem, Problem::SwitchesDiffer { tid, .. } if *tid == thread.tid);
        let problem = report.problems.iter().find(weakens).map(|problem| summary::problem(facts, problem));
        let process = facts.processes.iter().find(|process| process.pid == thread.pid);
        ThreadRow {
            label: name::thread_in(facts, thread),
            name: text::clean(name::thread_name(facts, thread)),
            problem,
            process: format!("{} ({})", text::clean(process.map_or("", |process| &process.name)), thread.pid.0),
            born_ns: thread.born_ns.saturating_sub(zero_ns),
            ended_ns: thread.ended_ns.saturating_sub(zero_ns),
            pieces: track.pieces.len(),
            levels,
        }
    }
}

/// A stretch in which events were lost.
#[derive(Serialize, JsonSchema)]
struct Lost {
    /// How many.
    count: u64,
    /// From.
    from_ns: u64,
    /// To.
    to_ns: u64,
}

impl Lost {
    fn new(problem: &Problem, zero_ns: u64) -> Option<Lost> {
        let Problem::Lost { count, from_ns, to_ns, .. } = problem else { return None };
        let since = |ns: u64| ns.saturating_sub(zero_ns);
        Some(Lost { count: *count, from_ns: since(*from_ns), to_ns: since(*to_ns) })
    }
}

/// Puts each wake-up where the woken thread becomes runnable; those without such a place are listed: time since the one
/// before, who, whom.
fn wakes(kept: &Timeline, directory: &Directory<'_>, zero_ns: u64, tracks: &mut [Track]) -> Vec<u8> {
    let mut loose = Column::default();
    let mut before_ns = 0;
    for wake in &kept.wakes {
        let waker = match directory.at(wake.from, wake.time_ns) {
            Some(index) => index as u32 + OUTSIDE + 1,
            None if wake.from == Tid(0) => OUTSIDE,
            None => NO_WAKER,
        };
        let time_ns = wake.time_ns.saturating_sub(zero_ns);
        let Some(woken) = directory.at(wake.to, wake.time_ns) else { continue };
        let placed = tracks.get_mut(woken).is_some_and(|track| track.wake(time_ns, waker));
        // Wake-ups come in order of time; one that does not cannot be told in differences.
        if !placed && time_ns >= before_ns {
            loose.put(time_ns - before_ns);
            loose.put(u64::from(waker));
            loose.put(woken as u64);
            before_ns = time_ns;
        }
    }
    loose.finish()
}
