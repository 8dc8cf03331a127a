//! The page of a recording: findings, the timeline, tables.
//!
//! Its figures are the JSON report itself (`report --json`), so that they cannot differ; beside it stand the names as
//! reports say them and the timeline's columns. The types of viewer/report.ts are generated from what is written here.

use std::collections::HashMap;
use std::io::{self, BufWriter, Write};

use holdup_analyze::{Account, AccountState, Facts, Frame, Leaf, Problem, Report, Role, Timeline, Wake};
use holdup_trace::Tid;
use maud::{Markup, html};
use schemars::JsonSchema;
use serde::Serialize;

use super::super::number;
use super::super::recording::{cpus, json as report_json, summary};
use super::pack::{self, Column};
use super::states::{StateRow, States, StretchRow};
use super::track::{NO_WAKER, Track};
use super::{CLOSE, findings, header, open, visible};
use crate::export::{Directory, timeline};
use crate::recording::Recording;
use crate::recording::name;
use crate::text;

/// A waker that was not recorded; threads follow by index.
const OUTSIDE: u32 = 1;

/// Cores in the table of the page.
const MOST_CORES: usize = 256;

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
            (account(&facts.account))
            (findings::section(recording, &directory))
            // Where the script puts the timeline and the tables; heights are fixed by the style sheet, so that nothing
            // jumps.
            section id="timeline" aria-label="Timeline" {
                noscript { p class="note" { "The timeline and the tables need JavaScript." } }
            }
            section id="tables" aria-label="Tables" {}
            section id="cpus" {
                h2 { "Cores" }
                (cpus::table(facts, MOST_CORES).html())
            }
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

/// The time of all threads by state: a bar, and what its parts mean, largest first.
fn account(account: &Account) -> Markup {
    let parts: Vec<(AccountState, f64)> = AccountState::ALL
        .into_iter()
        .map(|state| (state, account.share(state)))
        .filter(|(_, share)| *share > 0.0)
        .collect();
    let words =
        |(state, share): &(AccountState, f64)| format!("{} {}", name::account_state(*state), number::percent(*share));
    let mut largest: Vec<_> = parts.iter().copied().filter(|(_, share)| *share >= 0.005).collect();
    largest.sort_by(|a, b| b.1.total_cmp(&a.1));
    let told = parts.iter().map(words).collect::<Vec<_>>().join(", ");
    let colour = |state: AccountState| format!("background:var(--{})", state.name());
    html! {
        @if !parts.is_empty() {
            section id="account" aria-label="Where the threads' time goes" {
                div class="account" role="img" aria-label=(told) {
                    @for (state, share) in &parts {
                        i style={ (colour(*state)) ";flex:" (format!("{share:.4}")) } title=(words(&(*state, *share))) {}
                    }
                }
                ul class="key" aria-hidden="true" {
                    @for part in &largest {
                        li { i style=(colour(part.0)) {} (words(part)) }
                    }
                }
            }
        }
    }
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

/// The timeline: the exact columns of each thread, its summaries, what describes them, and beside it the critical path,
/// the CPU samples and the call paths. Thread by thread, so that a large recording takes the memory of one of them.
fn tracks(report: &Report, kept: &Timeline, directory: &Directory<'_>, out: &mut dyn Write) -> io::Result<()> {
    let facts = &report.facts;
    let zero_ns = facts.header.began_ns.min(facts.start_ns);
    let (start_ns, end_ns) = (facts.start_ns - zero_ns, facts.end_ns.max(facts.start_ns + 1).saturating_sub(zero_ns));
    let states = States::new(kept);
    let by_thread = wakes_by_thread(kept, directory, facts.threads.len());
    let (mut summaries, mut threads, mut loose) = (Vec::new(), Vec::new(), Vec::new());
    for (index, row) in kept.threads.iter().take(facts.threads.len()).enumerate() {
        let mut track = Track::new(row, zero_ns);
        for wake in by_thread[index].iter().map(|wake| &kept.wakes[*wake as usize]) {
            let waker = waker(directory, wake);
            if !track.wake(wake.time_ns, waker) {
                loose.push((wake.time_ns.saturating_sub(zero_ns), waker, index));
            }
        }
        blob(&format!("track-{index}"), &track.columns(&states), out)?;
        let levels = track.levels();
        for buckets in &levels {
            summaries.extend(track.summary(*buckets, start_ns, end_ns, &states));
        }
        threads.push(ThreadRow::new(report, index, row.len(), levels, zero_ns));
    }
    let lost = report.problems.iter().filter_map(|problem| Lost::new(problem, zero_ns)).collect();
    let view = View {
        zero_ns: zero_ns.to_string(),
        start_ns,
        end_ns,
        states: states.table(facts),
        kinds: states.kinds(),
        leaves: Leaf::ALL.to_vec(),
        threads,
        lost,
    };
    element("view", &view, out)?;
    blob("summaries", &summaries, out)?;
    blob("wakes", &loose_wakes(loose), out)?;
    blob("path", &path(facts, directory, zero_ns), out)?;
    blob("samples", &samples(kept, zero_ns), out)?;
    blob("paths", &serde_json::to_vec(&CallPaths::new(kept))?, out)
}

/// The pieces of the critical path: how many, the first moment, and of each its length, what it is, and whose.
fn path(facts: &Facts, directory: &Directory<'_>, zero_ns: u64) -> Vec<u8> {
    let mut out = Column::default();
    let pieces = &facts.path.pieces;
    out.put(pieces.len() as u64);
    let mut at = pieces.first().map_or(0, |first| first.from_ns);
    out.put(at.saturating_sub(zero_ns));
    for piece in pieces {
        // Up to the end, so that a gap before it, which there should not be, shifts nothing.
        out.put(piece.to_ns.saturating_sub(at));
        at = at.max(piece.to_ns);
        out.put(piece.leaf as u64);
        out.put(directory.at(piece.thread, piece.from_ns).map_or(0, |index| index as u64 + 1));
    }
    out.finish()
}

/// CPU samples: time since the one before, the thread, the call path.
fn samples(kept: &Timeline, zero_ns: u64) -> Vec<u8> {
    let mut out = Column::default();
    let mut before = 0;
    for sample in kept.samples.iter().filter(|sample| sample.time_ns < u64::MAX) {
        let time_ns = sample.time_ns.saturating_sub(zero_ns).max(before);
        out.put(time_ns - before);
        out.put(sample.thread.into());
        out.put(sample.call_path.into());
        before = time_ns;
    }
    out.finish()
}

/// Every call path once, outermost function first.
#[derive(Serialize)]
struct CallPaths {
    functions: Vec<String>,
    /// Whose code each function is: the program's, a lock's ...
    roles: Vec<Role>,
    paths: Vec<Vec<u32>>,
}

impl CallPaths {
    fn new(kept: &Timeline) -> CallPaths {
        let mut known: HashMap<String, u32> = HashMap::new();
        let (mut functions, mut roles) = (Vec::new(), Vec::new());
        let mut number = |frame: &Frame| {
            let function = frame.function.as_deref().map(text::clean);
            let function = function.unwrap_or_else(|| name::module_and_offset(frame));
            *known.entry(function.clone()).or_insert_with(|| {
                functions.push(function);
                roles.push(frame.role);
                functions.len() as u32 - 1
            })
        };
        let paths = kept.call_paths.iter().map(|path| path.iter().rev().map(&mut number).collect()).collect();
        CallPaths { functions, roles, paths }
    }
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
    /// The kinds of stretches, by number.
    kinds: Vec<StretchRow>,
    /// What pieces of the critical path are, by number.
    leaves: Vec<Leaf>,
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
    fn new(report: &Report, index: usize, pieces: usize, levels: Vec<u64>, zero_ns: u64) -> ThreadRow {
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
            pieces,
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

/// The indices of wake-ups by the thread that was woken.
fn wakes_by_thread(kept: &Timeline, directory: &Directory<'_>, threads: usize) -> Vec<Vec<u32>> {
    let mut by_thread = vec![Vec::new(); threads];
    for (index, wake) in (0..).zip(&kept.wakes) {
        if let Some(woken) = directory.at(wake.to, wake.time_ns).and_then(|thread| by_thread.get_mut(thread)) {
            woken.push(index);
        }
    }
    by_thread
}

fn waker(directory: &Directory<'_>, wake: &Wake) -> u32 {
    match directory.at(wake.from, wake.time_ns) {
        Some(index) => index as u32 + OUTSIDE + 1,
        None if wake.from == Tid(0) => OUTSIDE,
        None => NO_WAKER,
    }
}

/// Wake-ups that begin no stretch of the thread they wake: time since the one before, who, whom.
fn loose_wakes(mut wakes: Vec<(u64, u32, usize)>) -> Vec<u8> {
    wakes.sort_by_key(|(time_ns, ..)| *time_ns);
    let mut out = Column::default();
    let mut before_ns = 0;
    for (time_ns, waker, woken) in wakes {
        out.put(time_ns - before_ns);
        out.put(u64::from(waker));
        out.put(woken as u64);
        before_ns = time_ns;
    }
    out.finish()
}
