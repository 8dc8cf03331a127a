//! `holdup record --last`: a flight recorder. It keeps the last stretch in memory, for days, and writes it when a
//! condition holds.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use holdup_record::LongWait;
use holdup_trace::{Room, Trigger};

use super::glance::{Answer, Question};
use super::{Error, Status, capture, measure, output};
use crate::live::condition::{By, Condition, Held, Judge, Wanted};
use crate::live::{self, Feed};
use crate::report::number;
use crate::text;

/// When and what to keep.
#[derive(Debug, clap::Args)]
pub struct Flight {
    /// Keep only the last stretch of this length, in memory, and write it when a condition holds or SIGUSR2 comes
    /// [default: 60s with --when]
    #[arg(long, value_name = "TIME")]
    last: Option<String>,
    /// Write when this holds: 'lock-wait > 50ms' (any thread waits for a lock), 'finding >= 20%' or
    /// 'finding hot-lock >= 20%' (it costs so much within ten seconds), 'blocked > 80%' (of the threads' time within a
    /// second), 'switches > 50000/s', 'exit' (the program ends); may be given several times
    #[arg(long, value_name = "CONDITION")]
    when: Vec<String>,
    /// Go on for so long after a condition holds before the file is written
    #[arg(long, value_name = "TIME")]
    after: Option<String>,
    /// End after so many files
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    max_files: u32,
    /// Memory for what is kept, in MiB; where it is full, the oldest is forgotten
    #[arg(long, value_name = "MIB", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=4096))]
    memory: u32,
}

/// What is kept where no time is given.
const LAST: Duration = Duration::from_secs(60);
/// The reason of a recording whose target has ended.
const TARGET_ENDED: &str = "the target ended";
/// How often conditions are looked at.
const STEP: Duration = Duration::from_millis(250);
/// What an analysis looks at to tell whether a wait was one for a lock: the wait or its last part, and so much more.
const LONGEST: Duration = Duration::from_secs(10);
const AROUND: Duration = Duration::from_secs(2);
/// Findings are those of so long a stretch, looked for at most so often, and never for more than a part of a CPU.
const FINDINGS: Duration = Duration::from_secs(10);
const FINDINGS_ONE_IN: u32 = 50;
/// Memory that was freed is given back so often.
const TIDY: Duration = Duration::from_secs(10);
/// A wait that was none for a lock is not looked at again for so long: pools wait for work again and again.
const DISMISSED: Duration = Duration::from_secs(30);
/// How many such waits are remembered.
const MOST_DISMISSED: usize = 1024;

impl Flight {
    /// Whether the last stretch is to be kept instead of the whole.
    pub fn is_asked(&self) -> bool {
        self.last.is_some() || !self.when.is_empty()
    }
}

/// A flight recorder at work.
struct Recorder<'a> {
    feed: Feed,
    judge: Judge,
    conditions: &'a [Condition],
    last: Duration,
    after: Duration,
    /// Where files go: as the user named them, else by the program's name and the time.
    output: Option<&'a Path>,
    program: String,
    written: u32,
    most: u32,
    /// Files of conditions do not overlap.
    rests_until: Option<Instant>,
    /// Waits that were seen to be none for a lock.
    dismissed: Vec<Dismissed>,
    /// When findings are looked for next.
    findings_due: Instant,
    /// When memory that was freed is given back next.
    tidy_due: Instant,
}

/// A wait that is none for a lock.
struct Dismissed {
    wait: LongWait,
    /// It is known what its futex is: no other wait for it is one for a lock either.
    known: bool,
    at: Instant,
}

impl Dismissed {
    fn covers(&self, wait: &LongWait) -> bool {
        let same = (self.wait.pid, self.wait.addr) == (wait.pid, wait.addr);
        same && (self.known || (self.wait.tid, self.wait.from_ns) == (wait.tid, wait.from_ns))
    }
}

/// Keeps and writes until the target ends, the user stops it, the time is over or there are enough files.
///
/// # Errors
/// A condition makes no sense, nothing can be recorded, or a file cannot be written.
pub fn run(
    flight: &Flight,
    settings: holdup_record::Options,
    output: Option<&Path>,
    stop: &'static AtomicBool,
) -> Result<Status, Error> {
    let conditions: Result<Vec<Condition>, String> = flight.when.iter().map(|text| Condition::parse(text)).collect();
    let conditions = conditions.map_err(|why| Error::Argument(format!("--when: {why}")))?;
    let last = measure::limit_of("--last", flight.last.as_deref())?.unwrap_or(LAST);
    let after = measure::limit_of("--after", flight.after.as_deref())?.unwrap_or_default();
    if after >= last {
        let why = format!("--after {after:?}: give less than --last ({last:?}), or what led there is forgotten");
        return Err(Error::Argument(why));
    }
    holdup_record::heed_requests();
    holdup_record::keep_little_memory();
    let program = capture::name_of(&settings.target);
    let span_ns = u64::try_from(last.as_nanos()).unwrap_or(u64::MAX);
    let room = Room { span_ns, bytes: flight.memory as usize * (1 << 20) };
    let long = Duration::from_nanos(Judge::long_ns(&conditions));
    let feed = Feed::begin(settings, room, long, stop).map_err(capture::refused)?;
    output::note(announced(&program, last, &conditions));
    let mut recorder = Recorder {
        feed,
        judge: Judge::new(conditions.clone()),
        conditions: &conditions,
        last,
        after,
        output,
        program,
        written: 0,
        most: flight.max_files,
        rests_until: None,
        dismissed: Vec::new(),
        findings_due: Instant::now() + FINDINGS,
        tidy_due: Instant::now() + TIDY,
    };
    let watched = recorder.watch(stop);
    // Whatever came up, the recording ends as one.
    let enough = recorder.written >= recorder.most && !recorder.feed.has_ended();
    let interrupted = stop.load(Ordering::Relaxed);
    if !recorder.feed.has_ended() {
        stop.store(true, Ordering::Relaxed);
    }
    let outcome = recorder.feed.end().map_err(capture::refused)?;
    watched?;
    if outcome.ending.reason == TARGET_ENDED {
        recorder.at_exit()?;
    }
    outcome.notes.iter().for_each(|note| output::note(format_args!("holdup: {note}")));
    output::note(recorder.ended(enough, &outcome.ending.reason));
    Ok(if enough { Status::Success } else { capture::status(&outcome, interrupted) })
}

fn announced(program: &str, last: Duration, conditions: &[Condition]) -> String {
    let conditions: Vec<String> = conditions.iter().map(Condition::to_string).collect();
    let when = if conditions.is_empty() { String::new() } else { format!("{}, or ", conditions.join(", or ")) };
    format!(
        "holdup: keeping the last {} of {} in memory; a file is written at {when}kill -USR2 {}",
        number::time_ns(last.as_nanos() as f64),
        text::clean(program),
        std::process::id()
    )
}

impl Recorder<'_> {
    fn watch(&mut self, stop: &AtomicBool) -> Result<(), Error> {
        while self.written < self.most {
            let ended = self.feed.has_ended();
            if holdup_record::requests() > 0 {
                self.write("SIGUSR2", None, String::new())?;
            } else if let Some((condition, time_ns, seen)) = self.held() {
                self.wait_after(stop);
                self.write(&condition, Some(time_ns), seen)?;
                self.rests_until = Some(Instant::now() + self.last);
            }
            if ended || stop.load(Ordering::Relaxed) {
                return Ok(());
            }
            if Instant::now() >= self.tidy_due {
                self.tidy_due = Instant::now() + TIDY;
                holdup_record::give_memory_back();
            }
            thread::sleep(STEP);
        }
        Ok(())
    }

    /// The first condition that holds, since when, and what was seen.
    fn held(&mut self) -> Option<(String, u64, String)> {
        let held = self.judge.judge(self.feed.totals()?);
        if self.rests_until.is_some_and(|until| Instant::now() < until) {
            return None;
        }
        let held = held.into_iter().find_map(|Held { condition, time_ns, by }| {
            let seen = match by {
                By::Figure(seen) => seen,
                By::Waits(waits) => self.lock_wait(waits)?,
            };
            Some((self.judge.condition(condition)?.to_string(), time_ns, seen))
        });
        held.or_else(|| self.finding())
    }

    /// The first condition on findings that holds, since when, and the finding in words.
    fn finding(&mut self) -> Option<(String, u64, String)> {
        let is_asked = |condition: &Condition| matches!(condition.wanted(), Wanted::Finding { .. });
        if !self.conditions.iter().any(is_asked) || Instant::now() < self.findings_due {
            return None;
        }
        let began = Instant::now();
        let wanted = self.conditions.iter().filter_map(|condition| match condition.wanted() {
            Wanted::Finding { kind, share } => Some((condition, (kind, share))),
            _ => None,
        });
        let (conditions, wanted): (Vec<&Condition>, Vec<_>) = wanted.unzip();
        let answer = self.ask(FINDINGS, &Question::of_findings(wanted.into_iter()));
        self.findings_due = Instant::now() + (began.elapsed() * FINDINGS_ONE_IN).max(FINDINGS / 2);
        let (at, seen, end_ns) = answer?.finding?;
        Some((conditions.get(at)?.to_string(), end_ns, seen))
    }

    /// Looks at the last stretch of this length.
    fn ask(&self, span: Duration, question: &Question) -> Option<Answer> {
        let file = self.feed.last(span, live::GOES_ON, None)?.to_vec();
        let answer = question.ask(file);
        holdup_record::give_memory_back();
        answer
    }

    /// The longest of these waits that is one for a lock, in words.
    fn lock_wait(&mut self, waits: Vec<LongWait>) -> Option<String> {
        self.dismissed.retain(|dismissed| dismissed.at.elapsed() < DISMISSED);
        self.dismissed.drain(..self.dismissed.len().saturating_sub(MOST_DISMISSED));
        let is_open = |wait: &LongWait| !self.dismissed.iter().any(|dismissed| dismissed.covers(wait));
        let open: Vec<LongWait> = waits.into_iter().filter(is_open).collect();
        let longest_ns = open.iter().map(LongWait::ns).max()?;
        let span = Duration::from_nanos(longest_ns).min(LONGEST) + AROUND;
        let answer = self.ask(span, &Question::of_waits(&open))?;
        for (wait, known) in answer.dismissed.into_iter().filter_map(|(at, known)| Some((*open.get(at)?, known))) {
            self.dismissed.push(Dismissed { wait, known, at: Instant::now() });
        }
        answer.lock
    }

    fn wait_after(&self, stop: &AtomicBool) {
        let until = Instant::now() + self.after;
        while Instant::now() < until && !stop.load(Ordering::Relaxed) && !self.feed.has_ended() {
            thread::sleep(STEP.min(until.saturating_duration_since(Instant::now())));
        }
    }

    /// The target has ended.
    fn at_exit(&mut self) -> Result<(), Error> {
        let exit = self.conditions.iter().find(|condition| condition.wanted() == Wanted::Exit);
        match exit.filter(|_| self.written < self.most) {
            Some(exit) => self.write(&exit.to_string(), None, "the program ended".to_owned()),
            None => Ok(()),
        }
    }

    /// Writes what is kept.
    fn write(&mut self, condition: &str, time_ns: Option<u64>, seen: String) -> Result<(), Error> {
        let Some(extent) = self.feed.extent() else { return Ok(()) };
        let time_ns = time_ns.unwrap_or(extent.last_ns);
        let trigger = Trigger { condition: condition.to_owned(), time_ns, seen: seen.clone() };
        let Some(file) = self.feed.last(self.last, "a condition held", Some(trigger)) else { return Ok(()) };
        let path = self.next_name();
        live::write_new(&path, &file).map_err(|why| Error::File { path: path.clone(), why })?;
        self.written += 1;
        let because = if seen.is_empty() { String::new() } else { format!(": {}", text::clean(&seen)) };
        output::note(format_args!(
            "holdup: {condition}{because}; wrote the last {} into {} ({} bytes), file {} of {}",
            number::time_ns(extent.last_ns.saturating_sub(extent.first_ns) as f64),
            path.display(),
            number::count(file.bytes() as f64),
            self.written,
            self.most
        ));
        Ok(())
    }

    fn next_name(&self) -> PathBuf {
        match self.output {
            Some(path) => live::numbered(path, self.written as usize + 1),
            None => capture::free_name(&self.program),
        }
    }

    fn ended(&self, enough: bool, reason: &str) -> String {
        let files = match self.written {
            0 => "no file was written: no condition held".to_owned(),
            written => format!("{} written; 'holdup report FILE' shows one", number::counted(written as usize, "file")),
        };
        let why = if enough { "that is as many as --max-files allows" } else { reason };
        format!("holdup: {files}; {}", text::clean(why))
    }
}
