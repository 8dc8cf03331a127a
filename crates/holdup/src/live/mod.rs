//! A recording under way, kept in memory: the last stretch of it, looked at again and again or written when a condition
//! holds.

pub mod condition;
pub mod history;
pub mod now;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use holdup_analyze::Parsed;
use holdup_record::{Error, Extent, Live, Options, Outcome, Totals};
use holdup_trace::{Ending, Excerpt, Reader, Room, Trigger};

use crate::recording::binaries::{Binaries, Held};
use crate::recording::{self, Recording};

/// A recording under way.
pub struct Feed {
    live: Arc<Live>,
    thread: Option<JoinHandle<Result<Outcome, Error>>>,
    analyst: Option<Analyst>,
}

/// The reason of a file that is only looked at.
pub const GOES_ON: &str = "the recording goes on";
/// Files, and their bytes, that may come beside twice those of the first look.
const MORE_FILES: usize = 256;
const MORE_BYTES: usize = 128 << 20;
/// How long a recording may take to begin before a look says that there is none.
const BEGINNING: Duration = Duration::from_secs(30);
/// How often to see whether it has begun.
const BEGINNING_STEP: Duration = Duration::from_millis(5);

impl Feed {
    /// Begins to record, until `stop` is true. Waits on a futex that last longer than `long` are told of in
    /// [`Feed::totals`].
    ///
    /// # Errors
    /// It cannot begin.
    pub fn begin(options: Options, room: Room, long: Duration, stop: &'static AtomicBool) -> Result<Feed, Error> {
        let long_ns = u64::try_from(long.as_nanos()).unwrap_or(u64::MAX);
        let live = Arc::new(Live::new(room, long_ns));
        let fed = live.clone();
        let record = move || holdup_record::record_live(&options, stop, &fed);
        let thread = thread::Builder::new().name("record".into()).spawn(record);
        let thread = thread.map_err(|why| Error::Call { call: "thread that records", why })?;
        let mut feed = Feed { live, thread: Some(thread), analyst: None };
        let until = Instant::now() + BEGINNING;
        while feed.live.extent().is_none() && Instant::now() < until {
            if feed.has_ended() {
                return feed.end().and(Ok(feed));
            }
            thread::sleep(BEGINNING_STEP);
        }
        // What the kernel knows of its types was read to begin, and is needed no more.
        holdup_record::give_memory_back();
        Ok(feed)
    }

    /// Whether it records no more.
    pub fn has_ended(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Waits for its end, which somebody has asked for or which has come.
    ///
    /// # Errors
    /// It could not record.
    ///
    /// # Panics
    /// The recorder has panicked.
    pub fn end(&mut self) -> Result<Outcome, Error> {
        let ended =
            self.thread.take().map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        ended.unwrap_or(Err(Error::Unsupported))
    }

    /// What is kept.
    pub fn extent(&self) -> Option<Extent> {
        self.live.extent()
    }

    /// What has happened since the last call.
    pub fn totals(&self) -> Option<Totals> {
        self.live.totals()
    }

    /// A file with the last stretch of this length, which says why it was kept.
    pub fn last(&self, span: Duration, reason: &str, trigger: Option<Trigger>) -> Option<Excerpt> {
        let span_ns = u64::try_from(span.as_nanos()).unwrap_or(u64::MAX);
        let since_ns = self.extent()?.last_ns.saturating_sub(span_ns);
        let ending = Ending { reason: reason.to_owned(), trigger, ..Ending::default() };
        // Memory takes all that a file can hold.
        self.live.recording(since_ns, &ending)?.ok()
    }

    /// A file with all that is kept of a recording that has ended so.
    pub fn whole(&self, ending: &Ending) -> Option<Excerpt> {
        // Memory takes all that a file can hold.
        self.live.recording(0, ending)?.ok()
    }

    /// The last stretch of this length, analysed; `None` before there is any.
    pub fn look(&mut self, span: Duration) -> Option<Look> {
        let bytes = self.last(span, GOES_ON, None)?.to_vec();
        if self.analyst.is_none() {
            self.analyst = Analyst::begin().ok();
        }
        self.analyst.as_ref()?.look(bytes)
    }
}

/// A thread that analyses one stretch after the other, and keeps what it has read of binaries between them.
struct Analyst {
    /// Recordings to look at; dropped to end the thread.
    ask: Sender<Vec<u8>>,
    looks: Receiver<Look>,
}

impl Analyst {
    fn begin() -> std::io::Result<Analyst> {
        let (ask, asked) = mpsc::channel();
        let (tell, looks) = mpsc::channel();
        thread::Builder::new().name("look".into()).spawn(move || analyse(&asked, &tell))?;
        Ok(Analyst { ask, looks })
    }

    fn look(&self, bytes: Vec<u8>) -> Option<Look> {
        self.ask.send(bytes).ok()?;
        self.looks.recv().ok()
    }
}

/// Answers until nobody asks any more.
fn analyse(asked: &Receiver<Vec<u8>>, tell: &Sender<Look>) -> Option<()> {
    let mut bytes = asked.recv().ok()?;
    loop {
        let binaries = Binaries::of(Reader::open(&bytes).ok()?.header(), None);
        let (mut parsed, mut first) = (Parsed::default(), None);
        loop {
            let look = holdup_record::aside(|| look_at(&bytes, &binaries, &mut parsed))?;
            tell.send(look).ok()?;
            bytes = asked.recv().ok()?;
            let held = binaries.held();
            if has_grown(held, *first.get_or_insert(held)) {
                break;
            }
        }
    }
}

fn look_at<'a>(bytes: &[u8], binaries: &'a Binaries, parsed: &mut Parsed<'a>) -> Option<Look> {
    let reader = Reader::open(bytes).ok()?;
    let (recording, words) = recording::live(Path::new("live"), bytes, &reader, binaries, parsed);
    Some(Look { recording, words })
}

/// Whether so many files are held that all are better forgotten, and those in use read again: a program that starts
/// others again and again has ever more.
fn has_grown(held: Held, first: Held) -> bool {
    held.files > 2 * first.files + MORE_FILES || held.bytes > 2 * first.bytes + MORE_BYTES
}

/// A look at the last stretch.
pub struct Look {
    /// What it says.
    pub recording: Recording,
    /// What locks had in memory last.
    pub words: recording::Words,
}

/// Writes a file that must not exist.
///
/// # Errors
/// It exists, or cannot be written.
pub fn write_new(path: &Path, excerpt: &Excerpt) -> std::io::Result<()> {
    use std::io::Write as _;
    let mut file = std::fs::File::create_new(path)?;
    let written = excerpt.pieces().try_for_each(|piece| file.write_all(piece));
    if written.is_err() {
        // It is ours, and it is not whole.
        let _ = std::fs::remove_file(path);
    }
    written
}

/// The name with the first number from here on behind it that no file has: `server-2.holdup` of `server.holdup`.
pub fn numbered(path: &Path, from: usize) -> PathBuf {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let extension = path.extension().map(|extension| format!(".{}", extension.to_string_lossy())).unwrap_or_default();
    let mut names = (from..).map(|number| path.with_file_name(format!("{stem}-{number}{extension}")));
    names.find(|name| name.symlink_metadata().is_err()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_forgotten_when_they_have_become_many_and_large_ones_of_the_program_itself_are_not() {
        let held = |files: usize, mib: usize| Held { files, bytes: mib << 20 };
        assert!(!has_grown(held(300, 900), held(100, 800)));
        assert!(has_grown(held(1_000, 900), held(100, 800)));
        assert!(has_grown(held(150, 400), held(100, 100)));
    }
}
