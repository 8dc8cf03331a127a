//! Looks at the target from outside, beside its events: usage of threads, lock words, what threads are blocked in,
//! what interpreters execute, hardware counters.
//!
//! A thread of its own does it, so that the loop that empties the rings never waits for /proc. Its events have their
//! own times; whoever writes takes them when it has come to those times.

use std::collections::VecDeque;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use holdup_trace::{Blocked, Capabilities, Event, Header, Tid, What};
use rustc_hash::FxHashMap;

use super::backlog::Backlog;
use super::counters::Counters;
use super::interpreters::Interpreters;
use super::looks::{self, Looks, Seen};
use super::machine;
use super::perf::Linux;
use super::quota::Quota;
use super::snapshot::{Transfers, Usages};
use super::words::{self, Hot, Place, Processes, Words};

/// What can be seen of a target from outside.
#[derive(Debug)]
pub struct Outlook {
    /// Hardware counters of the target; or why there are none, as the end of a sentence that begins with them.
    pub counters: Result<Counters<Linux>, String>,
    /// Whether its memory may be read.
    pub words: bool,
    /// What the user should know: sentences without a full stop.
    pub notes: Vec<String>,
}

impl Outlook {
    /// Opens what there is for these threads of these processes. With `on_exec`, counting begins when the process
    /// executes a program.
    pub fn open(pids: &[u32], tids: &[u32], cpus: &[u16], on_exec: bool) -> Self {
        let counters = Counters::open(Linux, &machine::vendor(), tids, cpus, on_exec);
        // That a machine has none is no news for every recording; `holdup doctor` says it, and so does the header.
        let refused = counters.as_ref().err().filter(|why| !why.starts_with("are not there"));
        let notes = refused.map(|why| format!("hardware counters {why}")).into_iter().collect();
        Outlook { counters, words: pids.iter().any(|pid| words::may_read(*pid)), notes }
    }
}

/// The watching thread, and what it has seen.
#[derive(Debug)]
pub struct Watch {
    pids: FxHashMap<u32, u32>,
    hot: Hot,
    /// What was last told of threads that have not run since.
    blocked: FxHashMap<u32, Blocked>,
    aim: Arc<Mutex<Aim>>,
    seen: Receiver<Seen>,
    waiting: VecDeque<Seen>,
    taken_ns: u64,
    aimed: Option<Instant>,
    /// Dropped to end the thread.
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// What to look at.
#[derive(Debug, Default)]
struct Aim {
    alive: Vec<u32>,
    pids: Vec<u32>,
    places: Vec<Place>,
}

/// Lock words are read so often, if there are any.
const WORDS: Duration = Duration::from_millis(5);
const AIM: Duration = Duration::from_millis(50);
const COUNTERS: Duration = Duration::from_millis(100);
const BACKLOG: Duration = Duration::from_millis(200);
/// Usage is read at these ages of the recording, and then once a second.
const USAGES: [Duration; 3] = [Duration::from_millis(20), Duration::from_millis(100), Duration::from_millis(400)];
const USAGE: Duration = Duration::from_secs(1);

impl Watch {
    /// Begins to watch what the header says; the counters are those that could be opened.
    pub fn begin(counters: Option<Counters<Linux>>, header: &Header) -> Self {
        let (stop, stopped) = mpsc::channel();
        let (see, seen) = mpsc::channel();
        let aim = Arc::new(Mutex::new(Aim { pids: header.target.pids.clone(), ..Aim::default() }));
        let watcher = Watcher::new(aim.clone(), counters, header.capabilities);
        // Without a thread there is nothing to see, and the recording is as good as before.
        let thread = thread::Builder::new().name("watch".into()).spawn(move || watcher.run(&stopped, &see)).ok();
        Watch {
            pids: FxHashMap::default(),
            hot: Hot::default(),
            blocked: FxHashMap::default(),
            aim,
            seen,
            waiting: VecDeque::new(),
            taken_ns: 0,
            aimed: None,
            stop: Some(stop),
            thread,
        }
    }

    /// An event of the target: shows which threads there are, and which words are waited for.
    pub fn note(&mut self, event: &Event) {
        match &event.what {
            What::Started { pid, .. } => {
                self.pids.insert(event.tid.0, pid.0);
            }
            What::Exited => {
                self.pids.remove(&event.tid.0);
                self.blocked.remove(&event.tid.0);
            }
            What::SwitchIn => drop(self.blocked.remove(&event.tid.0)),
            What::Lost { .. } => self.blocked.clear(),
            What::Blocked(found) => {
                let found = Blocked { stack: None, ..(**found).clone() };
                self.blocked.insert(event.tid.0, found);
            }
            What::FutexWait { op, addr, .. } if words::is_lock_like(*op) => {
                if let Some(pid) = self.pids.get(&event.tid.0) {
                    self.hot.note(*pid, *addr);
                }
            }
            _ => {}
        }
    }

    /// Whether this was not told already since the thread ran last.
    pub fn is_news(&self, tid: Tid, found: &Blocked) -> bool {
        self.blocked.get(&tid.0) != Some(found)
    }

    /// Says what to look at from now on: call it often; it acts some times a second.
    pub fn aim(&mut self) {
        if self.aimed.is_some_and(|aimed| aimed.elapsed() < AIM) {
            return;
        }
        self.aimed = Some(Instant::now());
        let places = self.hot.top();
        let alive = self.pids.keys().copied().collect();
        let mut pids: Vec<u32> = self.pids.values().copied().collect();
        pids.sort_unstable();
        pids.dedup();
        *self.aim.lock().unwrap_or_else(PoisonError::into_inner) = Aim { alive, pids, places };
    }

    /// What was seen up to this time and not taken yet, in order.
    pub fn take(&mut self, before_ns: u64) -> Vec<Seen> {
        self.waiting.extend(self.seen.try_iter());
        let mut all = Vec::new();
        while let Some(mut seen) = self.waiting.pop_front_if(|seen| seen.event.time_ns <= before_ns) {
            let event = &mut seen.event;
            // One that came late must not be dated before what is written already, and what was so then is wrong at
            // another time.
            let late = event.time_ns < self.taken_ns;
            if late && matches!(event.what, What::Usage(_) | What::Blocked(_) | What::Interpreted(_) | What::Tasks(_)) {
                continue;
            }
            event.time_ns = event.time_ns.max(self.taken_ns);
            all.push(seen);
        }
        self.taken_ns = self.taken_ns.max(before_ns.min(machine::now_ns()));
        all
    }

    /// Looks a last time, and ends. What was seen is still to be taken.
    pub fn end(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            // If it panicked, what it had seen before is still good.
            let _ = thread.join();
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.end();
    }
}

/// The thread's own.
struct Watcher {
    aim: Arc<Mutex<Aim>>,
    usages: Usages,
    transfers: Transfers,
    quota: Quota,
    backlog: Backlog,
    words: Words<Processes>,
    looks: Looks<looks::Linux>,
    interpreters: Interpreters,
    looked: Option<Instant>,
    counters: Option<Counters<Linux>>,
}

impl Watcher {
    fn new(aim: Arc<Mutex<Aim>>, counters: Option<Counters<Linux>>, capabilities: Capabilities) -> Self {
        let looks = Looks::new(looks::Linux, capabilities);
        let (interpreters, words) = (Interpreters::default(), Words::new(Processes));
        let (usages, transfers) = (Usages::new(), Transfers::default());
        let (quota, backlog) = (Quota::default(), Backlog::default());
        Watcher { aim, usages, transfers, quota, backlog, words, looks, interpreters, looked: None, counters }
    }

    fn run(mut self, stopped: &Receiver<()>, see: &Sender<Seen>) {
        let began = Instant::now();
        let mut usage_due = USAGES.into_iter().chain((1..).map(|second| USAGE * second)).peekable();
        let mut counters_due = COUNTERS;
        let mut backlog_due = Duration::ZERO;
        loop {
            let (wanted, pids) = {
                let aim = self.aim.lock().unwrap_or_else(PoisonError::into_inner);
                (aim.places.clone(), aim.pids.clone())
            };
            let pause = if wanted.is_empty() { looks::ROUND } else { WORDS };
            let last = stopped.recv_timeout(pause) != Err(RecvTimeoutError::Timeout);
            let age = began.elapsed();
            // If nobody takes them any more, the recording is over: the last loop will show it.
            let tell = |seen| drop(see.send(seen));
            let words = self.words.sample(&wanted, machine::now_ns());
            words.into_iter().for_each(|event| tell(event.into()));
            if !last {
                self.looks.look(&pids, &mut { tell });
                if self.looked.is_none_or(|looked| looked.elapsed() >= looks::ROUND) {
                    self.looked = Some(Instant::now());
                    self.interpreters.look(&pids, &mut { tell });
                }
            }
            let mut events = Vec::new();
            if last || usage_due.next_if(|due| age >= *due).is_some() {
                events.extend(self.usages());
                events.extend(self.transfers.sample(&pids));
                events.extend(self.quota.sample(&pids));
            }
            if last || age >= backlog_due {
                backlog_due = age + BACKLOG;
                events.extend(self.backlog.sample(&pids));
            }
            if last || age >= counters_due {
                counters_due = age + COUNTERS;
                events.extend(self.counters.iter_mut().flat_map(|counters| counters.read(machine::now_ns())));
            }
            // If nobody takes them any more, the recording is over.
            if events.into_iter().any(|event| see.send(event.into()).is_err()) || last {
                return;
            }
        }
    }

    fn usages(&mut self) -> Vec<Event> {
        self.words.forget_threads();
        let alive = self.aim.lock().unwrap_or_else(PoisonError::into_inner).alive.clone();
        self.usages.sample(&alive)
    }
}

#[cfg(test)]
mod tests {
    use holdup_trace::{FutexOp, NO_CPU, Pid, Tid};

    use super::*;

    #[test]
    fn words_and_usage_of_this_process_are_seen_in_order_of_time() {
        let pid = std::process::id();
        let lock = [5_u32, 0, pid];
        let addr = lock.as_ptr() as u64;
        let event = |what| Event { time_ns: 1, tid: Tid(pid), cpu: NO_CPU, what };
        let mut watch = Watch::begin(None, &Header::default());
        watch.note(&event(What::Started { pid: Pid(pid), parent: None }));
        watch.note(&event(What::FutexWait { op: FutexOp(FutexOp::WAIT), addr, value: 2, stack: None }));
        watch.aim();
        let mut events = Vec::new();
        // It looks at the words as long as it takes; the test ends with the first.
        while !events.iter().any(|event: &Event| matches!(event.what, What::LockWord { .. })) {
            events.extend(watch.take(machine::now_ns()).into_iter().map(|seen| seen.event));
            thread::yield_now();
        }
        watch.end();
        events.extend(watch.take(u64::MAX).into_iter().map(|seen| seen.event));
        assert!(events.is_sorted_by_key(|event| event.time_ns));
        let word = What::LockWord { addr, word: 5, owner: pid };
        assert!(
            events.iter().filter(|event| matches!(event.what, What::LockWord { .. })).all(|event| event.what == word)
        );
        assert!(events.iter().any(|event| event.tid == Tid(pid) && matches!(event.what, What::Usage(_))));
    }
}
