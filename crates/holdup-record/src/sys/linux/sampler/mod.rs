//! Capture where the kernel gives no events: threads are looked at from outside, some tens to hundreds of times a
//! second, and nothing is stopped for it.
//!
//! Each look reads what the kernel has counted for a thread ([`sight`]); only of one that has run since the last look,
//! it reads in which call the thread is and the top of its stack. What happened between two looks follows from both
//! ([`interval`]), in the words of the other ways to capture: so all that is made of a recording works, and says by
//! [`Header::is_sampled`] how far it can be believed.

mod interval;
mod record;
mod sight;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::time::Duration;

use holdup_trace::{Blocked, Event, FutexOp, NO_CPU, OffCpu, Pid, StackId, Tid, What};
use rustc_hash::{FxHashMap, FxHashSet};

pub use self::record::{record_command, record_processes};

use self::interval::{Course, Found, Times, Wait};
use self::sight::{Sight, is_gone};
use super::allowance::Allowance;
use super::assemble::Sink;
use super::backlog::Backlog;
use super::blocked::{self, Call};
use super::interpreters::Interpreters;
use super::looks::{self, is_about_descriptor};
use super::quota::Quota;
use super::reduce::Spaces;
use super::snapshot::Transfers;
use super::still::Still;
use super::target::is_alive;
use super::words::{self, Place, Processes, REFUSED, Words};
use super::{builds, decode, machine, snapshot};
use crate::ThreadNames;

/// Looks at processes and all their threads.
struct Sampler {
    stack_bytes: usize,
    /// Whose threads are looked at.
    names: ThreadNames,
    processes: BTreeMap<u32, Process>,
    threads: FxHashMap<u32, Thread>,
    spaces: Spaces,
    words: Words<Processes>,
    /// What was last told of a lock's word, and when.
    told: FxHashMap<Place, (u64, [u32; 2])>,
    /// Processes whose threads this user may not look into.
    refused: FxHashSet<u32>,
    stack: holdup_trace::Stack,
    aside: Allowance,
    interpreters: Interpreters,
    /// When interpreters are looked at next.
    interpreters_due_ns: u64,
    /// What processes read and write, how often a limit stops them, who waits to be accepted; when that is asked next.
    transfers: Transfers,
    quota: Quota,
    backlog: Backlog,
    totals_due_ns: u64,
    /// What is told next, to be put in order of time: a thread that rests is told of from its last look on.
    events: Vec<Event>,
}

struct Process {
    /// How many links its folder of threads has: changes as they come and go.
    links: u64,
    /// When its mappings are read next, and the time to the reading after that.
    maps_due: Due,
    children_due: Due,
    /// Executable mappings that were told of: first address and length.
    maps: FxHashMap<(u64, u64), Box<str>>,
    /// Threads that have ended and are still listed, as the first one is as long as others run.
    gone: FxHashSet<u32>,
    /// Code was met that lies in none of them.
    is_strange: bool,
}

struct Thread {
    pid: u32,
    sight: Sight,
    /// `None` if it may not be looked at.
    course: Option<Course>,
    /// The lock-like word that it waits for.
    word: Option<u64>,
    /// The text of the call that it was in last, and what that was: with the same place on the stack, the stack is the
    /// same. Where the kernel does not count, it also tells waits from each other.
    text: String,
    wait: Option<Wait>,
    rest: Rest,
    name: Box<str>,
    name_due: Due,
    usage_due: Due,
}

/// A thread that has not moved for long is looked at more rarely: what it waits for changes no more often than before,
/// and the time between two looks stays a small part of its wait.
#[derive(Clone, Copy, Debug, Default)]
struct Rest {
    since_ns: u64,
    until_ns: u64,
}

impl Rest {
    /// The part of a wait that may pass between two looks, and the longest time that may.
    const ONE_IN: u64 = 8;
    const LONGEST_NS: u64 = 200_000_000;

    /// A look finds that the thread has moved.
    fn moved(now_ns: u64) -> Rest {
        Rest { since_ns: now_ns, until_ns: now_ns }
    }

    /// A look finds it in the same wait.
    fn stays(&mut self, now_ns: u64) {
        let pause_ns = (now_ns.saturating_sub(self.since_ns) / Self::ONE_IN).min(Self::LONGEST_NS);
        self.until_ns = now_ns + pause_ns;
    }

    fn is_over(&self, now_ns: u64) -> bool {
        now_ns >= self.until_ns
    }
}

/// Something that is done again and again, ever more rarely.
#[derive(Clone, Copy)]
struct Due {
    at_ns: u64,
    pause_ns: u64,
}

impl Due {
    const FIRST_NS: u64 = 4_000_000;

    fn now() -> Due {
        Due { at_ns: 0, pause_ns: Self::FIRST_NS }
    }

    /// Whether it is time; then the next time comes after twice the pause, but never later than this.
    fn is_over(&mut self, now_ns: u64, longest_ns: u64) -> bool {
        let over = now_ns >= self.at_ns;
        if over {
            self.at_ns = now_ns + self.pause_ns;
            self.pause_ns = (self.pause_ns * 2).min(longest_ns);
        }
        over
    }
}

/// CPU time for what is read beside the looks (names, mappings, children, counts of switches; each such file costs as
/// much as ten looks): enough at first for the names of some hundred threads, then a part of a CPU.
const ASIDE_FIRST: Duration = Duration::from_millis(20);
const ASIDE_ONE_IN: u64 = 400;
/// Names and mappings are read again after this time at the latest, and the kernel's counts of switches.
const SLOWLY_NS: u64 = 4_000_000_000;
/// The same of children.
const CHILDREN_NS: u64 = 500_000_000;
/// What is counted for processes is asked so often.
const TOTALS_NS: u64 = 250_000_000;
/// Words that are read in one round, those that most threads wait for.
const MOST_WORDS: usize = 32;
/// A lock's word that has not changed is told of again after this time.
const TOLD_AGAIN_NS: u64 = 100_000_000;

impl Sampler {
    fn new(stack_bytes: u32, names: ThreadNames) -> Sampler {
        Sampler {
            stack_bytes: stack_bytes as usize,
            names,
            processes: BTreeMap::new(),
            threads: FxHashMap::default(),
            spaces: Spaces::default(),
            words: Words::new(Processes),
            told: FxHashMap::default(),
            refused: FxHashSet::default(),
            stack: holdup_trace::Stack::default(),
            aside: Allowance::new(ASIDE_ONE_IN, ASIDE_FIRST),
            interpreters: Interpreters::default(),
            interpreters_due_ns: 0,
            transfers: Transfers::default(),
            quota: Quota::default(),
            backlog: Backlog::default(),
            totals_due_ns: 0,
            events: Vec::new(),
        }
    }

    /// Begins to follow a process.
    fn follow(&mut self, pid: u32) {
        self.processes.entry(pid).or_insert_with(|| Process {
            links: 0,
            maps_due: Due::now(),
            children_due: Due::now(),
            maps: FxHashMap::default(),
            gone: FxHashSet::default(),
            is_strange: false,
        });
    }

    /// Looks at everything once: what has happened up to a moment before which no later round tells of anything, in
    /// order of time.
    fn round(&mut self, now_ns: u64, sink: &mut impl Sink) -> Vec<Event> {
        self.aside.earn(now_ns);
        for pid in self.processes.keys().copied().collect::<Vec<_>>() {
            self.look_for_children(pid, now_ns);
        }
        for pid in self.processes.keys().copied().collect::<Vec<_>>() {
            self.look_for_threads(pid, now_ns);
            self.look_at_maps(pid, now_ns);
        }
        let mut tids: Vec<u32> = self.threads.keys().copied().collect();
        tids.sort_unstable();
        let mut waited: FxHashMap<Place, (u32, bool)> = FxHashMap::default();
        for tid in tids {
            self.look_at_known(tid, now_ns, &mut waited, sink);
        }
        self.look_at_words(waited, now_ns, sink);
        self.look_at_totals(now_ns);
        let looked = self.threads.values().filter_map(|thread| thread.course.as_ref().map(Course::time_ns));
        let until_ns = looked.min().unwrap_or(now_ns);
        self.events.sort_by_key(|event| event.time_ns);
        let settled = self.events.partition_point(|event| event.time_ns <= until_ns);
        self.events.drain(..settled).collect()
    }

    /// What interpreters execute, after a round and dated like it: what the next one tells of may lie right behind.
    fn look_at_interpreters(&mut self, now_ns: u64, sink: &mut impl Sink) {
        if now_ns < self.interpreters_due_ns {
            return;
        }
        self.interpreters_due_ns = now_ns + looks::ROUND.as_nanos() as u64;
        let pids: Vec<u32> = self.processes.keys().copied().collect();
        let (threads, spaces, events) = (&self.threads, &mut self.spaces, &mut self.events);
        self.interpreters.look(&pids, &mut |mut seen| {
            seen.number_chains(|stack| sink.stack(stack));
            let event = seen.event;
            match &event.what {
                What::Mapped(map) => spaces.of(map.pid.0).map(map.start, map.len),
                _ if !threads.contains_key(&event.tid.0) => return,
                _ => {}
            }
            events.push(Event { time_ns: now_ns, ..event });
        });
    }

    /// What is counted for the processes, dated like the round.
    fn look_at_totals(&mut self, now_ns: u64) {
        if now_ns < self.totals_due_ns || !self.aside.is_left() {
            return;
        }
        self.totals_due_ns = now_ns + TOTALS_NS;
        let pids: Vec<u32> = self.processes.keys().copied().collect();
        let (transfers, quota, backlog) = (&mut self.transfers, &mut self.quota, &mut self.backlog);
        let counts = self.aside.spend_on(|| {
            let totals = transfers.sample(&pids).into_iter().chain(quota.sample(&pids));
            totals.chain(backlog.sample(&pids)).collect::<Vec<_>>()
        });
        self.events.extend(counts.into_iter().map(|event| Event { time_ns: now_ns, ..event }));
    }

    /// The numbers of stacks are others from now on.
    fn forget_stacks(&mut self) {
        self.threads.values_mut().for_each(|thread| thread.wait = None);
        for event in &mut self.events {
            match &mut event.what {
                What::FutexWait { stack, .. } | What::Call { stack, .. } | What::SwitchOut { stack, .. } => {
                    *stack = None
                }
                What::Blocked(found) => found.stack = None,
                What::Tasks(found) => found.groups.iter_mut().for_each(|group| group.stack = None),
                _ => {}
            }
        }
    }

    /// The last readings of all threads.
    fn last(&mut self, now_ns: u64) -> Vec<Event> {
        let tids: Vec<u32> = self.threads.keys().copied().collect();
        for tid in tids {
            let Some(mut thread) = self.threads.remove(&tid) else { continue };
            self.look_at_name(tid, &mut thread, now_ns);
            self.look_at_usage(tid, now_ns);
            self.end(tid, &mut thread);
            self.threads.insert(tid, thread);
        }
        self.events.sort_by_key(|event| event.time_ns);
        std::mem::take(&mut self.events)
    }

    /// How many threads were there when they were looked at last.
    fn alive(&self) -> usize {
        self.threads.keys().filter(|tid| is_alive(**tid)).count()
    }

    fn is_anybody_alive(&self) -> bool {
        self.threads.keys().any(|tid| is_alive(*tid))
    }

    fn tell(&mut self, time_ns: u64, tid: u32, what: What) {
        self.events.push(Event { time_ns, tid: Tid(tid), cpu: NO_CPU, what });
    }

    fn look_for_children(&mut self, pid: u32, now_ns: u64) {
        let Some(process) = self.processes.get_mut(&pid) else { return };
        if self.aside.is_left() && process.children_due.is_over(now_ns, CHILDREN_NS) {
            for child in self.aside.spend_on(|| snapshot::children(pid)) {
                self.follow(child);
            }
        }
    }

    /// Threads that have come. Those that have gone show when they are looked at.
    fn look_for_threads(&mut self, pid: u32, now_ns: u64) {
        let links = fs::metadata(format!("/proc/{pid}/task")).map(|data| data.nlink());
        let Some(process) = self.processes.get_mut(&pid) else { return };
        let Ok(links) = links else {
            self.processes.remove(&pid);
            self.spaces.clear(pid);
            return;
        };
        let has_lost_one = !process.gone.is_empty();
        if std::mem::replace(&mut process.links, links) == links && !has_lost_one {
            return;
        }
        let tids = snapshot::threads(pid);
        process.gone.retain(|tid| tids.contains(tid));
        let new: Vec<u32> =
            tids.into_iter().filter(|tid| !process.gone.contains(tid) && !self.threads.contains_key(tid)).collect();
        for tid in new {
            let thread = Thread {
                pid,
                sight: Sight::new(pid, tid),
                course: None,
                word: None,
                text: String::new(),
                wait: None,
                rest: Rest::default(),
                name: "".into(),
                name_due: Due::now(),
                usage_due: Due::now(),
            };
            self.threads.insert(tid, thread);
            self.words.forget_threads();
            self.tell(now_ns, tid, What::Started { pid: Pid(pid), parent: None });
        }
    }

    /// Code that was mapped, and whether a program was executed: nothing of what was mapped before is left then.
    fn look_at_maps(&mut self, pid: u32, now_ns: u64) {
        let Some(process) = self.processes.get_mut(&pid) else { return };
        let is_strange = std::mem::take(&mut process.is_strange);
        if is_strange {
            process.maps_due = Due::now();
        }
        if !(self.aside.is_left() && process.maps_due.is_over(now_ns, SLOWLY_NS)) {
            return;
        }
        let found = self.aside.spend_on(|| snapshot::mappings_of(pid));
        let key = |map: &holdup_trace::Mapping| (map.start, map.len);
        let is_known = |map: &&holdup_trace::Mapping| process.maps.get(&key(map)) == Some(&map.path);
        let executed = !process.maps.is_empty() && !found.is_empty() && !found.iter().any(|map| is_known(&map));
        if executed {
            process.maps.clear();
            self.spaces.clear(pid);
        }
        if !found.is_empty() {
            // What was unmapped meanwhile is code no more: generated code comes and goes without end.
            let now: FxHashSet<(u64, u64)> = found.iter().map(key).collect();
            let before = process.maps.len();
            process.maps.retain(|key, _| now.contains(key));
            if process.maps.len() < before {
                self.spaces.clear(pid);
                process.maps.keys().for_each(|(start, len)| self.spaces.of(pid).map(*start, *len));
            }
        }
        let mut new: Vec<_> = found.into_iter().filter(|map| process.maps.get(&key(map)) != Some(&map.path)).collect();
        process.maps.extend(new.iter().map(|map| (key(map), map.path.clone())));
        self.aside.spend_on(|| builds::add(pid, new.iter_mut()));
        if executed {
            let name = snapshot::name_of(pid).unwrap_or_default();
            self.tell(now_ns, pid, What::Named { name, exec: true });
        }
        for map in new {
            self.spaces.of(pid).map(map.start, map.len);
            self.tell(now_ns, pid, What::Mapped(Box::new(map)));
        }
    }

    /// Looks at a thread that is followed, unless it is no more.
    fn look_at_known(
        &mut self,
        tid: u32,
        now_ns: u64,
        waited: &mut FxHashMap<Place, (u32, bool)>,
        sink: &mut impl Sink,
    ) {
        let Some(mut thread) = self.threads.remove(&tid) else { return };
        if self.look_at(tid, &mut thread, now_ns, waited, sink) {
            self.threads.insert(tid, thread);
            return;
        }
        if let Some(course) = &mut thread.course {
            let events = &mut self.events;
            course.exit(now_ns, |time_ns, what| events.push(Event { time_ns, tid: Tid(tid), cpu: NO_CPU, what }));
        }
        self.tell(now_ns, tid, What::Exited);
        self.processes.get_mut(&thread.pid).map(|process| process.gone.insert(tid));
    }

    /// The thread is not looked at any more.
    fn end(&mut self, tid: u32, thread: &mut Thread) {
        let events = &mut self.events;
        if let Some(course) = &mut thread.course {
            course.end(|time_ns, what| events.push(Event { time_ns, tid: Tid(tid), cpu: NO_CPU, what }));
        }
    }

    /// Looks at a thread. `false` if it has ended.
    fn look_at(
        &mut self,
        tid: u32,
        thread: &mut Thread,
        now_ns: u64,
        waited: &mut FxHashMap<Place, (u32, bool)>,
        sink: &mut impl Sink,
    ) -> bool {
        if !self.names.is_all() && !self.is_named_so(tid, thread, now_ns) {
            return thread.is_passed_over(now_ns);
        }
        if !thread.rest.is_over(now_ns) {
            thread.waits(waited, false);
            return true;
        }
        let Some(times) = thread.sight.times() else { return false };
        if self.aside.is_left() && thread.name_due.is_over(now_ns, SLOWLY_NS) {
            self.look_at_name(tid, thread, now_ns);
        }
        if self.aside.is_left() && thread.usage_due.is_over(now_ns, 4 * SLOWLY_NS) {
            self.look_at_usage(tid, now_ns);
        }
        let counts = times != Times::default();
        let mut is_new = false;
        if !(counts && thread.course.as_ref().is_some_and(|course| course.is_unmoved(times))) {
            let mut bytes = [0; 256];
            let text = match thread.sight.call(&mut bytes) {
                Ok(text) => text,
                Err(why) if is_gone(&why) => return false,
                Err(_) => {
                    if self.refused.len() < REFUSED {
                        self.refused.insert(thread.pid);
                    }
                    thread.course = None;
                    return true;
                }
            };
            match self.take_in(tid, thread, now_ns, times, text, sink) {
                Some(moved) => is_new = moved,
                None => return false,
            }
        }
        match thread.course.as_mut().filter(|_| !is_new) {
            Some(course) => {
                course.stays(now_ns);
                if counts && course.is_blocked() {
                    thread.rest.stays(now_ns);
                }
            }
            None => thread.rest = Rest::moved(now_ns),
        }
        thread.waits(waited, is_new);
        true
    }

    /// What a look has found, by the counters and the text of the call. Whether that is new; `None` if the thread has
    /// ended.
    fn take_in(
        &mut self,
        tid: u32,
        thread: &mut Thread,
        now_ns: u64,
        mut times: Times,
        text: &str,
        sink: &mut impl Sink,
    ) -> Option<bool> {
        let counts = times != Times::default();
        let is_other = text != thread.text;
        if !counts {
            times.runs = thread.course.as_ref().map_or(0, Course::runs) + u64::from(is_other);
            if !is_other {
                return Some(false);
            }
        }
        let found = if text.starts_with("running") {
            if !counts {
                thread.text.clear();
            }
            Found::Running
        } else {
            if is_other || thread.wait.is_none() {
                text.clone_into(&mut thread.text);
                thread.wait = self.wait(thread, sink);
            }
            Found::Blocked(thread.wait.clone()?)
        };
        thread.word = word_of(&found);
        let events = &mut self.events;
        let tell = |time_ns, what| events.push(Event { time_ns, tid: Tid(tid), cpu: NO_CPU, what });
        match &mut thread.course {
            Some(course) => course.advance(now_ns, times, found, tell),
            none => *none = Some(Course::new(now_ns, times, found, tell)),
        }
        Some(true)
    }

    /// What a blocked thread waits for, by the text of its call; `None` if it has ended.
    fn wait(&mut self, thread: &Thread, sink: &mut impl Sink) -> Option<Wait> {
        let call = blocked::call(&thread.text)?;
        let stack = blocked::place(&thread.text).and_then(|(sp, ip)| self.stack(thread.pid, sp, ip, sink));
        let (nr, addr) = match call {
            Call::In(nr, [addr, ..]) => (Some(nr), addr),
            Call::Outside => (None, 0),
        };
        let file = nr.filter(|nr| is_about_descriptor(*nr)).and_then(|_| thread.sight.descriptor(addr));
        let event = match blocked::what(call) {
            Some(What::FutexWait { op, addr, value, .. }) => Some(What::FutexWait { op, addr, value, stack }),
            Some(What::Call { nr, .. }) if decode::NUMBERING.blocking(nr).is_some() => Some(What::Call { nr, stack }),
            _ => None,
        };
        if event.is_some() && file.is_none() {
            return Some(Wait { call: event, off: OffCpu::Sleeping, stack: None, more: None });
        }
        let deep = thread.sight.text("stat").and_then(|text| snapshot::state(&text)).is_some_and(|s| s == 'D');
        let wchan = thread.sight.text("wchan").map(|name| name.trim_end().into());
        let off = if deep { OffCpu::Uninterruptible } else { OffCpu::Sleeping };
        let stack = if event.is_some() { None } else { stack };
        Some(Wait { call: event, off, stack, more: Some(Blocked { nr, wchan, file, deep, addr, stack: None }) })
    }

    /// The stack of a blocked thread.
    fn stack(&mut self, pid: u32, sp: u64, ip: u64, sink: &mut impl Sink) -> Option<StackId> {
        let still = Still::read(pid, (sp, ip), self.stack_bytes)?;
        let space = self.spaces.of(pid);
        if !space.is_code(ip)
            && let Some(process) = self.processes.get_mut(&pid)
        {
            process.is_strange = true;
        }
        still.reduce(space, &mut self.stack).then(|| sink.stack(&self.stack))
    }

    /// Reads the words that threads wait for, and looks at those who have the locks.
    fn look_at_words(&mut self, waited: FxHashMap<Place, (u32, bool)>, now_ns: u64, sink: &mut impl Sink) {
        let mut places: Vec<(u32, Place, bool)> =
            waited.into_iter().map(|(place, (count, is_new))| (count, place, is_new)).collect();
        places.sort_unstable_by(|a, b| b.cmp(a));
        places.truncate(MOST_WORDS);
        let wanted: Vec<Place> = places.iter().map(|(_, place, _)| *place).collect();
        for event in self.words.sample(&wanted, now_ns) {
            let What::LockWord { addr, word, owner } = event.what else { continue };
            let place = (event.tid.0, addr);
            if self.look_at_owner(place, owner, now_ns, sink) {
                continue;
            }
            // The first thread has the number of its process: told as it was read, it would look like one looked at.
            let owner = if owner == place.0 { 0 } else { owner };
            let what = What::LockWord { addr, word, owner };
            let event = Event { what, ..event };
            let is_new = places.iter().any(|(_, of, is_new)| *of == place && *is_new);
            let told = self.told.get(&place);
            let is_old = |(at_ns, words): &(u64, [u32; 2])| *words == [word, owner] && now_ns - at_ns < TOLD_AGAIN_NS;
            if is_new || owner != 0 || !told.is_some_and(is_old) {
                self.told.insert(place, (now_ns, [word, owner]));
                self.events.push(event);
            }
        }
        // A program that makes its locks anew all the time must not fill the memory.
        if self.told.len() > 1024 {
            self.told.clear();
        }
    }

    /// Looks at the thread that has a lock others wait for, and then whether it has it still: so what it was found
    /// doing it does with the lock. That is told as a word that the owner itself has read. `false` if it has not.
    fn look_at_owner(&mut self, (pid, addr): Place, owner: u32, now_ns: u64, sink: &mut impl Sink) -> bool {
        if owner == 0 || self.threads.get(&owner).is_none_or(|thread| thread.pid != pid) {
            return false;
        }
        let Some(mut thread) = self.threads.remove(&owner) else { return false };
        let is_still = self.look_at_thread_with((pid, addr), owner, &mut thread, now_ns, sink);
        self.threads.insert(owner, thread);
        is_still.is_some()
    }

    /// The quickest look that there is, between two at the word: `None` if another has the lock by then.
    fn look_at_thread_with(
        &mut self,
        place: Place,
        owner: u32,
        thread: &mut Thread,
        now_ns: u64,
        sink: &mut impl Sink,
    ) -> Option<()> {
        let time_ns = machine::now_ns().max(now_ns);
        let times = thread.sight.times().filter(|times| *times != Times::default())?;
        let course = thread.course.as_ref()?;
        let mut bytes = [0; 256];
        let text = if course.is_unmoved(times) { None } else { Some(thread.sight.call(&mut bytes).ok()?) };
        let again = self.words.sample(&[place], time_ns).into_iter();
        let event =
            again.into_iter().find(|event| matches!(event.what, What::LockWord { owner: now, .. } if now == owner))?;
        if let Some(text) = text {
            self.take_in(owner, thread, time_ns, times, text, sink)?;
            thread.rest = Rest::moved(time_ns);
        }
        self.events.push(Event { tid: Tid(owner), ..event });
        Some(())
    }

    /// Whether a thread has one of the names that are asked for. It may get it later.
    fn is_named_so(&mut self, tid: u32, thread: &mut Thread, now_ns: u64) -> bool {
        if !self.names.has(&thread.name) && self.aside.is_left() && thread.name_due.is_over(now_ns, SLOWLY_NS) {
            self.look_at_name(tid, thread, now_ns);
        }
        self.names.has(&thread.name)
    }

    fn look_at_name(&mut self, tid: u32, thread: &mut Thread, now_ns: u64) {
        if let Some(name) = self.aside.spend_on(|| snapshot::name_of(tid)).filter(|name| *name != thread.name) {
            thread.name.clone_from(&name);
            self.tell(now_ns, tid, What::Named { name, exec: false });
        }
    }

    fn look_at_usage(&mut self, tid: u32, now_ns: u64) {
        if let Some(usage) = self.aside.spend_on(|| snapshot::usage_of(tid)) {
            self.tell(now_ns, tid, What::Usage(Box::new(usage)));
        }
    }
}

impl Thread {
    /// It is not looked at but to see whether it has ended. `false` if it has.
    fn is_passed_over(&mut self, now_ns: u64) -> bool {
        const PAUSE_NS: u64 = 50_000_000;
        (self.course, self.word) = (None, None);
        if !self.rest.is_over(now_ns) {
            return true;
        }
        self.rest.until_ns = now_ns + PAUSE_NS;
        self.sight.times().is_some()
    }

    /// Counts it among those that wait for its word.
    fn waits(&self, waited: &mut FxHashMap<Place, (u32, bool)>, is_new: bool) {
        if let Some(addr) = self.word {
            let (count, any_new) = waited.entry((self.pid, addr)).or_default();
            *count += 1;
            *any_new |= is_new;
        }
    }
}

/// The word that a thread found like this waits for, if it can be a lock's.
fn word_of(found: &Found) -> Option<u64> {
    let Found::Blocked(Wait { call: Some(What::FutexWait { op, addr, .. }), .. }) = found else { return None };
    let op: FutexOp = *op;
    words::is_lock_like(op).then_some(*addr)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;

    use holdup_trace::{Header, Writer};

    use super::*;

    #[test]
    fn threads_that_rested_are_told_of_in_order_of_time_with_the_others() {
        let over = Arc::new(AtomicBool::new(false));
        let sleeper = |pause_ms| {
            let over = over.clone();
            thread::spawn(move || {
                while !over.load(Ordering::Relaxed) {
                    thread::sleep(Duration::from_millis(pause_ms));
                }
            })
        };
        let sleepers = [2, 3, 40, 90].map(sleeper);
        let mut sampler = Sampler::new(0, ThreadNames::default());
        sampler.follow(std::process::id());
        let mut sink = Writer::new(Vec::new(), &Header::default()).unwrap();
        let mut told = Vec::new();
        for _ in 0..300 {
            told.extend(sampler.round(machine::now_ns(), &mut sink));
            thread::sleep(Duration::from_millis(1));
        }
        over.store(true, Ordering::Relaxed);
        sleepers.into_iter().for_each(|sleeper| sleeper.join().unwrap());
        told.extend(sampler.round(machine::now_ns(), &mut sink));
        told.extend(sampler.last(machine::now_ns()));
        assert!(told.iter().any(|event| event.what == What::SwitchIn), "{} events", told.len());
        assert!(told.is_sorted_by_key(|event| event.time_ns));
    }

    #[test]
    fn who_has_a_lock_that_others_wait_for_is_looked_at_with_it() {
        struct Lock(std::cell::UnsafeCell<libc::pthread_mutex_t>);
        // SAFETY: a mutex of the system's may be used by several threads.
        unsafe impl Sync for Lock {}
        static LOCK: Lock = Lock(std::cell::UnsafeCell::new(libc::PTHREAD_MUTEX_INITIALIZER));
        let (began, over) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let holder = thread::spawn({
            let (began, over) = (began.clone(), over.clone());
            move || {
                // SAFETY: the mutex is initialised and lives as long as the program.
                unsafe { libc::pthread_mutex_lock(LOCK.0.get()) };
                began.store(true, Ordering::Relaxed);
                while !over.load(Ordering::Relaxed) {
                    thread::sleep(Duration::from_millis(5));
                }
                // SAFETY: this thread has locked it.
                unsafe { libc::pthread_mutex_unlock(LOCK.0.get()) };
            }
        });
        while !began.load(Ordering::Relaxed) {
            thread::yield_now();
        }
        let waiter = thread::spawn(|| {
            // SAFETY: as above; what was locked is unlocked.
            unsafe { (libc::pthread_mutex_lock(LOCK.0.get()), libc::pthread_mutex_unlock(LOCK.0.get())) }
        });
        let mut sampler = Sampler::new(0, ThreadNames::default());
        sampler.follow(std::process::id());
        let mut sink = Writer::new(Vec::new(), &Header::default()).unwrap();
        let is_own = |event: &Event| matches!(event.what, What::LockWord { owner, .. } if owner == event.tid.0);
        let is_seen = (0..3_000).any(|_| {
            thread::sleep(Duration::from_millis(1));
            sampler.round(machine::now_ns(), &mut sink).iter().any(is_own)
        });
        over.store(true, Ordering::Relaxed);
        holder.join().unwrap();
        waiter.join().unwrap();
        assert!(is_seen);
    }

    #[test]
    fn threads_that_stay_are_looked_at_within_an_eighth_of_their_wait() {
        const MS: u64 = 1_000_000;
        let mut rest = Rest::moved(0);
        let (mut last_ns, mut looks) = (0, 0);
        for now_ns in (0..60_000 * MS).step_by(50 * MS as usize) {
            if rest.is_over(now_ns) {
                assert!(now_ns - last_ns <= 50 * MS + (now_ns / 8).min(200 * MS), "{now_ns}");
                rest.stays(now_ns);
                (last_ns, looks) = (now_ns, looks + 1);
            }
        }
        assert!((300..420).contains(&looks), "{looks} instead of 1200");
        assert!(Rest::moved(last_ns).is_over(last_ns), "one that moves is looked at in each round");
    }
}
