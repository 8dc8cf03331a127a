//! The recorder's two loops: one empties the rings and does nothing else, so that none overflows; the other puts
//! records in order, makes events of them and writes.

use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use holdup_trace::{Counter, Ending, Event, Header, NO_CPU, Stack, StackId, Tid, What, Writer};
use rustc_hash::FxHashSet;

use super::assemble::{Assembler, Kind, Sink};
use super::bpf::Learner;
use super::chosen::Chosen;
use super::decode;
use super::held::Files;
use super::looks::Seen;
use super::machine;
use super::merge::Merge;
use super::perf::Kernel;
use super::session::Session;
use super::target::{Ended, Process, is_alive};
use super::watch::Watch;
use super::words::is_thread;
use super::{signals, snapshot};
use crate::Live;

/// A recording under way: the kernel's side and the program's.
pub struct Recording<'a, K> {
    /// The kernel's side.
    pub session: Session<K>,
    /// The programs.
    pub processes: &'a [Process],
    /// Set from outside to end it.
    pub stop: &'a AtomicBool,
    /// When to end it.
    pub deadline: Option<Instant>,
    /// Who is told that a command's processes go on without it.
    pub left_behind: LeftBehind,
}

/// Tells once that a command has ended and that processes which it left behind go on.
pub struct LeftBehind {
    tell: Option<fn()>,
    since: Option<Instant>,
}

impl LeftBehind {
    /// Most have ended when so much time is over.
    const AFTER: Duration = Duration::from_secs(1);

    /// Tells this.
    pub fn new(tell: Option<fn()>) -> LeftBehind {
        LeftBehind { tell, since: None }
    }

    /// The command has ended, and the recording goes on.
    pub fn goes_on(&mut self, now: Instant) {
        let since = *self.since.get_or_insert(now);
        if now.saturating_duration_since(since) > Self::AFTER
            && let Some(tell) = self.tell.take()
        {
            tell();
        }
    }
}

/// A recording under way: from records to the file.
pub struct Scribe {
    /// What records mean.
    pub assembler: Assembler,
    /// Records that wait for their turn.
    pub merge: Merge,
    /// The file, and what is seen beside the events.
    pub sink: Watched,
    /// Up to when the records of all CPUs are known.
    known_until_ns: u64,
    /// Up to when they are written.
    written_until_ns: u64,
    ends: Ends,
}

/// Where events are kept.
#[derive(Debug)]
pub enum Store {
    /// A file that is empty so far.
    Begun(File),
    /// A file.
    File(Box<Writer<File>>),
    /// Memory.
    Live(Arc<Live>),
}

impl Store {
    /// Takes the header.
    pub fn begin(self, header: &Header) -> io::Result<Store> {
        match self {
            Store::Begun(file) => Ok(Store::File(Box::new(Writer::new(file, header)?))),
            Store::Live(live) => live.begin(header).map(|()| Store::Live(live)),
            store => Ok(store),
        }
    }

    /// Lets readers see all events up to here.
    pub fn flush(&mut self) -> io::Result<()> {
        match self {
            Store::File(writer) => writer.flush(),
            Store::Begun(_) | Store::Live(_) => Ok(()),
        }
    }

    /// Writes the end. The size of what there is, of a file that takes no more all that was flushed, and why that is
    /// not all.
    pub fn finish(self, ending: &Ending, output: &Path) -> (u64, io::Result<()>) {
        let written = match self {
            Store::File(writer) => writer.finish(ending).map(drop),
            Store::Begun(_) => Ok(()),
            Store::Live(live) => return (live.extent().map_or(0, |extent| extent.bytes as u64), Ok(())),
        };
        (fs::metadata(output).map_or(0, |data| data.len()), written)
    }
}

/// The file, and whoever looks at the target from outside and so must know what is in it.
pub struct Watched {
    /// Where they are kept.
    pub store: Store,
    /// Whoever looks.
    pub watch: Watch,
    /// What tells the programs inside the kernel of memory that they cannot see.
    pub learner: Option<Learner>,
    /// Whose events are kept.
    pub chosen: Chosen,
    /// Files that may be gone when their code is to be named.
    pub held: Files,
}

impl Sink for Store {
    fn stack(&mut self, stack: &Stack) -> StackId {
        match self {
            Store::File(writer) => writer.stack(stack),
            Store::Live(live) => live.stack(stack),
            Store::Begun(_) => StackId(u32::MAX),
        }
    }

    fn event(&mut self, event: &Event) -> io::Result<()> {
        match self {
            Store::File(writer) => writer.event(event),
            Store::Live(live) => live.event(event),
            Store::Begun(_) => Ok(()),
        }
    }
}

impl Sink for Watched {
    fn stack(&mut self, stack: &Stack) -> StackId {
        self.store.stack(stack)
    }

    fn event(&mut self, event: &Event) -> io::Result<()> {
        if let (What::Named { exec: true, .. }, Some(learner)) = (&event.what, &mut self.learner) {
            learner.learn(event.tid.0);
        }
        let Watched { store, watch, chosen, held, .. } = self;
        chosen.pass(event, |event| {
            watch.note(event);
            held.see(event);
            store.event(event)
        })
    }
}

/// Why and how a recording ended.
#[derive(Debug)]
pub struct Finish {
    /// As in the file's end.
    pub reason: String,
    /// How the command ended.
    pub ended: Option<Ended>,
    /// Threads that were still there when the recording ended.
    pub left: usize,
}

/// What the rings held at one time.
struct Batch {
    began_ns: u64,
    /// By the place of the CPU.
    lanes: Vec<Vec<u8>>,
    counts: Vec<What>,
    /// Whoever wants to know which threads were not seen to end.
    ask: Option<Sender<Vec<u32>>>,
    /// Processes whose events were opened once more, and what these are.
    again: Vec<(u32, Vec<(u64, Kind)>)>,
}

/// What both loops see.
#[derive(Default)]
struct Shared {
    /// Bytes that were taken from rings and not written yet.
    waiting: AtomicUsize,
    /// The file takes no more.
    full: AtomicBool,
    /// Sleeps should be recorded with their places.
    places: AtomicBool,
    /// Processes that go on without events.
    dropped: Mutex<Vec<u32>>,
}

/// The way from the loop that empties rings to the one that writes.
struct Pipe<'a> {
    batches: Sender<Batch>,
    /// Buffers that come back, to be filled again.
    empty: Receiver<Vec<u8>>,
    shared: &'a Shared,
}

/// How long the recorder sleeps if no ring fills.
const PASS: Duration = Duration::from_millis(100);
/// How long it stays away from rings that were empty.
const PAUSE: Duration = Duration::from_millis(1);
const FLUSH: Duration = Duration::from_millis(100);
const COUNT: Duration = Duration::from_secs(1);
/// How long a command that was started may take to end after the signal that ends its recording, which it got as well.
const GRACE: Duration = Duration::from_secs(2);
/// Above this, rings are not emptied until some of it is written: better lost records, which are counted, than no
/// memory.
const WAITING_LIMIT: usize = 1 << 30;
/// The room that an empty buffer keeps.
const KEPT_BUFFER: usize = 256 << 10;
/// How often threads are looked for whose end was lost.
const ENDS: Duration = Duration::from_secs(10);

/// Records until there is nothing more to record. The events are off then.
pub fn run<K: Kernel>(recording: &mut Recording<'_, K>, mut scribe: Scribe) -> (Finish, Scribe) {
    let shared = Shared::default();
    let (batches, received) = mpsc::channel();
    let (emptied, empty) = mpsc::channel();
    let (mut finish, scribe, written) = thread::scope(|scope| {
        let shared = &shared;
        let writing = scope.spawn(move || {
            let written = scribe.write_all(received, &emptied, shared);
            (scribe, written)
        });
        // Only this thread is in a hurry; the other one was made before it.
        machine::hurry_before_all();
        let pipe = Pipe { batches, empty, shared };
        let finish = recording.passes(&pipe);
        recording.session.disable();
        recording.send(&pipe, None, true);
        drop(pipe);
        let (scribe, written) = writing.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        (finish, scribe, written)
    });
    if let Err(error) = written {
        finish.reason = unwritten(&error);
    }
    finish.left = scribe.assembler.alive().filter(|tid| is_alive(*tid)).count();
    (finish, scribe)
}

fn lock(dropped: &Mutex<Vec<u32>>) -> MutexGuard<'_, Vec<u32>> {
    dropped.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Why a file that takes no more ends where it does.
pub fn unwritten(error: &io::Error) -> String {
    format!("the recording could not be written: {error}")
}

/// Why a recording ends now although its target runs on; signals are passed on to commands, which get some time.
pub fn over(
    stop: &AtomicBool,
    deadline: Option<Instant>,
    processes: &[Process],
    running: &[&Process],
    stopping: &mut Option<Instant>,
) -> Option<&'static str> {
    if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
        return Some("the time was over");
    }
    if !stop.load(Ordering::Relaxed) {
        return None;
    }
    processes.iter().for_each(signals::pass_on);
    let since = *stopping.get_or_insert_with(Instant::now);
    let ends = !running.iter().any(|process| process.is_child()) || since.elapsed() > GRACE;
    ends.then(|| signals::heard().map_or("Ctrl-C", |(_, name)| name))
}

impl<K: Kernel> Recording<'_, K> {
    fn passes(&mut self, pipe: &Pipe<'_>) -> Finish {
        let mut finish = Finish { reason: String::new(), ended: None, left: 0 };
        let mut stopping: Option<Instant> = None;
        let mut running: Vec<&Process> = self.processes.iter().collect();
        let mut counted = Instant::now();
        let mut places = false;
        while finish.reason.is_empty() {
            self.wait(&mut running, stopping);
            if running.is_empty() {
                finish.ended = finish.ended.or_else(|| self.processes.iter().find_map(|process| process.ended(false)));
                if self.nobody_left(pipe) {
                    finish.reason = "the target ended".into();
                } else {
                    self.left_behind.goes_on(Instant::now());
                }
            } else {
                let count = counted.elapsed() > COUNT;
                if count {
                    counted = Instant::now();
                }
                if self.send(pipe, None, count) == 0 {
                    // Whatever the kernel calls ready, nothing was there: the recorder must not use up a CPU with
                    // asking.
                    thread::sleep(PAUSE);
                }
            }
            if !places && pipe.shared.places.load(Ordering::Relaxed) {
                places = true;
                self.session.enable_places();
            }
            if let Some(reason) = over(self.stop, self.deadline, self.processes, &running, &mut stopping) {
                finish.reason = reason.into();
            } else if pipe.shared.full.load(Ordering::Relaxed) {
                finish.reason = "the recording could not be written".into();
            }
        }
        finish
    }

    /// Opens the events of processes from which the kernel took them.
    fn open_again(&mut self, shared: &Shared) -> Vec<(u32, Vec<(u64, Kind)>)> {
        let mut opened = |pid: u32| {
            // Those that have ended meanwhile are gone, and of others' processes an ordinary user gets nothing.
            let events = snapshot::threads(pid).into_iter().filter_map(|tid| self.session.open_again(tid).ok());
            (pid, events.flatten().collect())
        };
        let dropped = std::mem::take(&mut *lock(&shared.dropped));
        dropped.into_iter().map(&mut opened).collect()
    }

    /// Sleeps until a ring fills, a program ends or a time is over. Those that have ended run no more.
    fn wait(&self, running: &mut Vec<&Process>, stopping: Option<Instant>) {
        let mut polled: Vec<i32> = self.session.descriptors().collect();
        let rings = polled.len();
        polled.extend(running.iter().map(|process| process.descriptor()));
        let until = self.deadline.map_or(PASS, |end| end.saturating_duration_since(Instant::now()).min(PASS));
        let until = if stopping.is_some() { until.min(PASS / 5) } else { until };
        let mut ended = machine::poll(&polled, until).into_iter().skip(rings);
        running.retain(|_| !ended.next().unwrap_or(false));
    }

    /// Whether all threads that were seen have ended; those whose end was lost are looked up.
    fn nobody_left(&mut self, pipe: &Pipe<'_>) -> bool {
        let (ask, answer) = mpsc::channel();
        // Records are held back until all CPUs are known beyond them: the second batch lets those of the first go.
        self.send(pipe, None, false);
        self.send(pipe, Some(ask), false);
        answer.recv().is_ok_and(|alive| !alive.into_iter().any(is_alive))
    }

    /// Empties the rings and hands on what was in them: so many bytes.
    fn send(&mut self, pipe: &Pipe<'_>, ask: Option<Sender<Vec<u32>>>, count: bool) -> usize {
        // The other loop must know them before it gets what they write.
        let again = self.open_again(pipe.shared);
        let began_ns = machine::now_ns();
        let mut lanes = Vec::new();
        if pipe.shared.waiting.load(Ordering::Relaxed) < WAITING_LIMIT {
            self.session.drain(|_, parts| {
                let mut lane = pipe.empty.try_recv().unwrap_or_default();
                parts.into_iter().for_each(|part| lane.extend_from_slice(part));
                pipe.shared.waiting.fetch_add(lane.len(), Ordering::Relaxed);
                lanes.push(lane);
            });
        }
        let value = machine::own_cpu_ns() + self.session.spent_ns();
        let own = What::Count { counter: Counter::RecorderCpuNs, value };
        let counts = if count { vec![own] } else { Vec::new() };
        let bytes = lanes.iter().map(Vec::len).sum();
        // The other loop ends only after this one.
        let _ = pipe.batches.send(Batch { began_ns, lanes, counts, ask, again });
        bytes
    }
}

impl Scribe {
    /// Writes what it is given into this file.
    pub fn new(assembler: Assembler, merge: Merge, sink: Watched) -> Self {
        Scribe { assembler, merge, sink, known_until_ns: 0, written_until_ns: 0, ends: Ends::default() }
    }

    /// Writes batches until there are no more. After an error, batches are only taken.
    fn write_all(&mut self, batches: Receiver<Batch>, emptied: &Sender<Vec<u8>>, shared: &Shared) -> io::Result<()> {
        let mut flushed = Instant::now();
        let mut written = Ok(());
        for mut batch in batches {
            if written.is_ok() {
                written = self.go_on(std::mem::take(&mut batch.again));
            }
            for (lane, bytes) in batch.lanes.iter_mut().enumerate() {
                self.merge.add(lane, [bytes, &[]]);
                shared.waiting.fetch_sub(bytes.len(), Ordering::Relaxed);
                bytes.clear();
                // After a storm, nothing of its size stays.
                bytes.shrink_to(KEPT_BUFFER);
            }
            // The other loop may have ended already.
            batch.lanes.drain(..).for_each(|lane| drop(emptied.send(lane)));
            if written.is_ok() {
                written = self.write(batch.began_ns, batch.counts, &mut flushed);
                shared.full.store(written.is_err(), Ordering::Relaxed);
                shared.places.store(self.assembler.wants_places(), Ordering::Relaxed);
                lock(&shared.dropped).append(&mut self.assembler.dropped);
            }
            if let Some(ask) = batch.ask {
                let _ = ask.send(self.assembler.alive().collect());
            }
        }
        written?;
        self.sink.watch.end();
        self.emit(u64::MAX, Vec::new())
    }

    /// Processes whose events were opened once more, with the threads and mappings that they have made meanwhile.
    fn go_on(&mut self, again: Vec<(u32, Vec<(u64, Kind)>)>) -> io::Result<()> {
        for (pid, events) in again {
            events.into_iter().for_each(|(id, kind)| self.assembler.know(id, kind));
            let known: FxHashSet<u32> = self.assembler.alive().collect();
            let is_new = |event: &Event| matches!(event.what, What::Mapped(_)) || !known.contains(&event.tid.0);
            for event in snapshot::of_process(pid, self.written_until_ns).into_iter().filter(is_new) {
                self.assembler.outside(&event, &mut self.sink)?;
            }
        }
        Ok(())
    }

    fn write(&mut self, began_ns: u64, counts: Vec<What>, flushed: &mut Instant) -> io::Result<()> {
        self.emit(self.known_until_ns, counts)?;
        self.sink.watch.aim();
        if let Store::Live(live) = &self.sink.store
            && live.forget_stacks()
        {
            self.assembler.renew_stacks();
        }
        let forgotten = self.assembler.forgotten_stacks();
        if let Some(learner) = &mut self.sink.learner {
            learner.forget(&forgotten);
        }
        for tid in self.ends.lost(|| self.assembler.alive().collect()) {
            let event = Event { time_ns: self.known_until_ns, tid: Tid(tid), cpu: NO_CPU, what: What::Exited };
            self.assembler.outside(&event, &mut self.sink)?;
        }
        (self.written_until_ns, self.known_until_ns) = (self.known_until_ns, began_ns);
        if flushed.elapsed() > FLUSH {
            *flushed = Instant::now();
            self.sink.store.flush()?;
        }
        Ok(())
    }

    /// Writes all that happened before this time, and then these counts.
    fn emit(&mut self, before_ns: u64, counts: Vec<What>) -> io::Result<()> {
        let (assembler, sink) = (&mut self.assembler, &mut self.sink);
        let mut seen = sink.watch.take(before_ns.saturating_sub(1)).into_iter().peekable();
        self.merge.drain(before_ns, |lane, record| {
            while let Some(seen) = seen.next_if(|seen| seen.event.time_ns <= decode::time_ns(record)) {
                tell(seen, assembler, sink)?;
            }
            assembler.feed(lane, record, sink)
        })?;
        let counts = counts.into_iter().filter(|_| before_ns > 0);
        let counts = counts.map(|what| Event { time_ns: before_ns, tid: Tid(0), cpu: NO_CPU, what }.into());
        seen.chain(counts).try_for_each(|seen| tell(seen, assembler, sink))
    }
}

/// Writes what was seen beside the records, but for blocked threads of which it would say nothing new, or that are not
/// the program's yet.
fn tell(mut seen: Seen, assembler: &mut Assembler, sink: &mut Watched) -> io::Result<()> {
    seen.number_chains(|stack| sink.stack(stack));
    let Seen { mut event, still, .. } = seen;
    let says_more = match &mut event.what {
        What::Blocked(found) => {
            let is_news = assembler.is_ours(event.tid.0) && sink.watch.is_news(event.tid, found);
            found.stack = still.filter(|_| is_news).and_then(|still| assembler.still(&still, sink));
            is_news
        }
        What::Interpreted(_) | What::Tasks(_) => assembler.is_ours(event.tid.0),
        _ => true,
    };
    if says_more { assembler.outside(&event, sink) } else { Ok(()) }
}

/// Threads whose end was lost with other records, and who would live on in a recording of days.
#[derive(Debug, Default)]
struct Ends {
    looked: Option<Instant>,
    /// Those that were not there any more at the last look: their end may still have been on its way.
    gone: Vec<u32>,
}

impl Ends {
    /// Of the threads that are thought to live, those that do not, from time to time.
    fn lost(&mut self, alive: impl FnOnce() -> Vec<u32>) -> Vec<u32> {
        let due = self.looked.is_none_or(|looked| looked.elapsed() >= ENDS);
        if !due {
            return Vec::new();
        }
        self.looked = Some(Instant::now());
        self.confirmed(alive(), is_thread)
    }

    fn confirmed(&mut self, alive: Vec<u32>, is_there: impl Fn(u32) -> bool) -> Vec<u32> {
        let missing: Vec<u32> = alive.into_iter().filter(|tid| !is_there(*tid)).collect();
        let (lost, gone) = missing.into_iter().partition(|tid| self.gone.contains(tid));
        self.gone = gone;
        lost
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_command_leaves_behind_is_told_once_and_late() {
        static TOLD: AtomicUsize = AtomicUsize::new(0);
        let mut left = LeftBehind::new(Some(|| TOLD.store(TOLD.load(Ordering::Relaxed) + 1, Ordering::Relaxed)));
        let began = Instant::now();
        let told = [0, 1_000, 1_001, 5_000].map(|ms| {
            left.goes_on(began + Duration::from_millis(ms));
            TOLD.load(Ordering::Relaxed)
        });
        assert_eq!(told, [0, 0, 1, 1]);
        LeftBehind::new(None).goes_on(began);
    }

    #[test]
    fn threads_whose_end_was_lost_are_ended_when_they_are_missing_twice() {
        let mut ends = Ends::default();
        let is_there = |tid| tid < 3;
        assert_eq!(ends.confirmed(vec![1, 2, 3, 4], is_there), [0; 0]);
        assert_eq!(ends.confirmed(vec![1, 2, 4, 5], is_there), [4], "the end of 3 was on its way");
        assert_eq!(ends.confirmed(vec![1, 2, 5], is_there), [5]);
        assert_eq!(ends.confirmed(vec![1, 2], is_there), [0; 0]);
        assert_eq!(ends.gone, [0; 0]);
    }
}
