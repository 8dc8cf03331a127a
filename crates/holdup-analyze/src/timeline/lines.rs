//! Cache lines that threads fight over with plain instructions, by where their registers pointed to at CPU samples.
//!
//! A line is fought over if threads on different CPUs use it within moments of each other, again and again, and one of
//! them writes. Samples that are taken while one thread alone wants to run say nothing: a buffer that is handed from
//! one to the next moves once, and not at every access.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use holdup_trace::Tid;
use rustc_hash::{FxHashMap, FxHashSet};

use super::ids::ThreadId;
use super::lock::Place;
use super::lookup::{Lookup, function_name};
use super::touch::Touch;
use crate::facts::{LineFacts, LockName, Site};
use crate::names::{Role, SpaceId, callers};

/// 64 bytes.
const LINE_BITS: u32 = 6;
/// Uses by different threads are at the same time if no more samples lie between them.
const CLOSE_PERIODS: u64 = 3;
/// A line is fought over with so many such uses at least.
const LEAST_CLOSE: usize = 12;
/// And this part of all.
const LEAST_CLOSE_SHARE: f64 = 0.2;
/// A thread writes to a line if so many of its samples say so.
const LEAST_WRITES: usize = 2;
/// Threads that have less of the samples of a line have no part in it.
const LEAST_THREAD_SHARE: f64 = 0.05;
/// A lock's own memory: glibc's mutexes have so many bytes.
const LOCK_BYTES: u64 = 40;
/// How far around an instruction others of its function are looked for.
const AROUND: u64 = 4096;

/// An instruction of a process.
type Ip = (SpaceId, u64);

/// A line by its number in an address space.
type Line = (SpaceId, u64);

/// What one sample says of one line.
#[derive(Clone, Copy, Debug)]
struct Use {
    /// The index of its touch.
    touch: usize,
    time_ns: u64,
    thread: ThreadId,
    cpu: u16,
    addr: u64,
    is_exact: bool,
    writes: bool,
    at: u64,
    is_atomic: bool,
    /// How many samples it stands for.
    weight: f64,
}

/// Lines that are used alike.
#[derive(Debug, Default)]
struct Fought {
    /// The variable and the words of the heaviest line.
    variable: Option<LockName>,
    words: u64,
    same_word: bool,
    most: f64,
    /// Samples at atomic instructions.
    atomic: f64,
    space: SpaceId,
    touches: BTreeSet<usize>,
    writers: BTreeSet<ThreadId>,
    /// Samples by instruction.
    at: BTreeMap<u64, f64>,
}

/// Finds them; `period_ns` is the time between two samples of a CPU.
pub(super) fn fought_over(lookup: &mut Lookup, period_ns: u64) -> Vec<LineFacts> {
    let touches = &lookup.engine.touches;
    if touches.is_empty() {
        return Vec::new();
    }
    let samples = Samples::of(lookup);
    let mut told: FxHashMap<(Ip, ThreadId), u64> = FxHashMap::default();
    for touch in touches {
        *told.entry(((touch.space, touch.found.ip), touch.thread)).or_default() += 1;
    }
    let weight = |touch: &Touch| {
        let key = ((touch.space, touch.found.ip), touch.thread);
        samples.hits.get(&key).copied().unwrap_or(0) as f64 / told.get(&key).map_or(1.0, |told| *told as f64)
    };
    let mut groups: BTreeMap<String, Fought> = BTreeMap::new();
    for ((space, _), uses) in uses(lookup, weight) {
        let Some(fought) = fight(uses, period_ns) else { continue };
        let (key, one) = named(lookup, space, &fought);
        // Findings about the lock tell of what its own code does.
        let hottest = one.hottest().map(|at| lookup.naming.frames_at(space, at)).unwrap_or_default();
        if hottest.first().is_some_and(|frame| frame.role == Role::Lock) {
            continue;
        }
        groups.entry(key).or_default().add(one);
    }
    let mut lines: Vec<LineFacts> =
        groups.into_values().map(|group| group.into_fact(lookup, &samples, weight)).collect();
    lines.sort_by_key(|line| Reverse(line.hits));
    lines
}

/// CPU samples in user mode by instruction, without those taken while no other thread wanted to run.
struct Samples {
    hits: FxHashMap<(Ip, ThreadId), u64>,
    by_ip: BTreeMap<Ip, u64>,
    /// The place with most of an instruction's.
    places: FxHashMap<Ip, (u64, Place)>,
}

impl Samples {
    fn of(lookup: &Lookup) -> Samples {
        let engine = lookup.engine;
        let mut samples = Samples { hits: FxHashMap::default(), by_ip: BTreeMap::new(), places: FxHashMap::default() };
        for ((place, thread), all) in &engine.samples {
            let Some(native) = engine.interpreted.native(place.stack) else { continue };
            let Some(ip) = lookup.naming.sampled_at(native.into()).map(|ip| (place.space, ip)) else { continue };
            let hits = all - engine.alone.get(&(*place, *thread)).copied().unwrap_or(0);
            *samples.hits.entry((ip, *thread)).or_default() += hits;
            *samples.by_ip.entry(ip).or_default() += hits;
            let heaviest = samples.places.entry(ip).or_insert((hits, *place));
            *heaviest = (*heaviest).max((hits, *place));
        }
        samples
    }
}

/// Everything that samples say of lines.
fn uses(lookup: &mut Lookup, weight: impl Fn(&Touch) -> f64) -> BTreeMap<Line, Vec<Use>> {
    let engine = lookup.engine;
    let mut all: Vec<(SpaceId, Use)> = Vec::new();
    // Threads that count from one address with numbers that are not known mostly use different parts of one table.
    let mut owners: FxHashMap<(Ip, u64), Option<ThreadId>> = FxHashMap::default();
    let locks: BTreeSet<(SpaceId, u64)> = engine.lock_index.keys().copied().collect();
    let is_of_lock = |space: SpaceId, addr: u64| {
        locks.range((space, addr.saturating_sub(LOCK_BYTES - 1))..=(space, addr)).next().is_some()
    };
    for (index, touch) in engine.touches.iter().enumerate() {
        for access in lookup.naming.accesses(touch.space, &touch.found) {
            if is_of_lock(touch.space, access.addr) {
                continue;
            }
            if !access.is_exact {
                let owner = owners.entry(((touch.space, access.at), access.addr)).or_insert(Some(touch.thread));
                *owner = owner.filter(|owner| *owner == touch.thread);
            }
            let found = Use {
                touch: index,
                time_ns: touch.time_ns,
                thread: touch.thread,
                cpu: touch.cpu,
                addr: access.addr,
                is_exact: access.is_exact,
                writes: access.writes,
                at: access.at,
                is_atomic: access.is_atomic,
                weight: weight(touch),
            };
            all.push((touch.space, found));
        }
    }
    let mut lines: BTreeMap<Line, Vec<Use>> = BTreeMap::new();
    for (space, found) in all {
        let is_own = || owners.get(&((space, found.at), found.addr)).is_some_and(Option::is_some);
        if found.is_exact || is_own() {
            lines.entry((space, found.addr >> LINE_BITS)).or_default().push(found);
        }
    }
    lines
}

/// The uses of a line by threads that fight over it, if they do.
fn fight(mut uses: Vec<Use>, period_ns: u64) -> Option<Vec<Use>> {
    let mut threads: BTreeMap<ThreadId, f64> = BTreeMap::new();
    uses.iter().for_each(|found| *threads.entry(found.thread).or_default() += found.weight);
    let all: f64 = threads.values().sum();
    threads.retain(|_, weight| *weight >= LEAST_THREAD_SHARE * all);
    if threads.len() < 2 {
        return None;
    }
    uses.retain(|found| threads.contains_key(&found.thread));
    let writers = writers(&uses);
    uses.sort_by_key(|found| found.time_ns);
    let window = CLOSE_PERIODS * period_ns;
    let is_close = |at: usize| {
        let one = &uses[at];
        let near = |other: &&Use| other.time_ns.abs_diff(one.time_ns) <= window;
        let others = uses[..at].iter().rev().take_while(near).chain(uses[at + 1..].iter().take_while(near));
        others.into_iter().any(|other| collide(one, other, &writers))
    };
    let close = (0..uses.len()).filter(|at| is_close(*at)).count();
    (close >= LEAST_CLOSE && close as f64 >= LEAST_CLOSE_SHARE * uses.len() as f64).then_some(uses)
}

/// Threads that write to a line. That some samples say so is enough: where a thread reads before it writes, it waits
/// for the line when it reads, and most samples are there.
fn writers(uses: &[Use]) -> BTreeSet<ThreadId> {
    let mut writes: BTreeMap<ThreadId, usize> = BTreeMap::new();
    uses.iter().filter(|found| found.writes).for_each(|found| *writes.entry(found.thread).or_default() += 1);
    writes.into_iter().filter(|(_, writes)| *writes >= LEAST_WRITES).map(|(thread, _)| thread).collect()
}

/// Whether two uses of a line are of threads that take it from each other.
fn collide(one: &Use, other: &Use, writers: &BTreeSet<ThreadId>) -> bool {
    let writes = |found: &Use| writers.contains(&found.thread);
    one.thread != other.thread && one.cpu != other.cpu && (writes(one) || writes(other))
}

/// What a line that is fought over is called, with what uses say of it.
fn named(lookup: &mut Lookup, space: SpaceId, uses: &[Use]) -> (String, Fought) {
    let mut words: BTreeMap<u64, BTreeMap<ThreadId, f64>> = BTreeMap::new();
    let mut fought = Fought { space, writers: writers(uses), ..Fought::default() };
    for found in uses {
        fought.touches.insert(found.touch);
        *fought.at.entry(found.at).or_default() += found.weight;
        fought.most += found.weight;
        fought.atomic += if found.is_atomic { found.weight } else { 0.0 };
        *words.entry(found.addr).or_default().entry(found.thread).or_default() += found.weight;
    }
    // One that is hit once by each does not make it the same word.
    let has_part = |weight: f64| weight >= LEAST_THREAD_SHARE * fought.most;
    let is_shared = |users: &BTreeMap<ThreadId, f64>| users.values().filter(|weight| has_part(**weight)).count() >= 2;
    let weight_of = |users: &BTreeMap<ThreadId, f64>| users.values().sum::<f64>();
    let shared = words.iter().filter(|(_, users)| is_shared(users));
    let shared = shared.max_by(|one, other| weight_of(one.1).total_cmp(&weight_of(other.1))).map(|(addr, _)| *addr);
    fought.same_word = shared.is_some();
    fought.words = words.values().filter(|users| has_part(weight_of(users))).count() as u64;
    let heaviest = words.iter().max_by(|one, other| weight_of(one.1).total_cmp(&weight_of(other.1)));
    let addr = shared.or(heaviest.map(|(addr, _)| *addr)).unwrap_or(0);
    let variable = lookup.naming.variable(space, addr);
    // Of different words, what they are part of is the variable.
    fought.variable = variable.map(|variable| if fought.same_word { variable } else { whole(variable) });
    let key = match &fought.variable {
        Some(LockName::Symbol { name, offset }) => format!("variable {name}+{offset}"),
        _ => {
            let hottest = fought.hottest().unwrap_or(0);
            let function = lookup.naming.frames_at(space, hottest).first().map(function_name);
            format!("function {}", function.unwrap_or_else(|| format!("{hottest:x}")))
        }
    };
    (key, fought)
}

/// The variable that a member or an element is of.
fn whole(variable: LockName) -> LockName {
    match variable {
        LockName::Symbol { name, .. } => {
            let end = name.find(['.', '[']).filter(|end| *end > 0).unwrap_or(name.len());
            LockName::Symbol { name: name[..end].to_owned(), offset: 0 }
        }
        other => other,
    }
}

impl Fought {
    fn add(&mut self, other: Fought) {
        if other.most > self.most {
            (self.variable, self.words, self.same_word) = (other.variable, other.words, other.same_word);
            (self.most, self.space) = (other.most, other.space);
        }
        self.atomic += other.atomic;
        self.touches.extend(other.touches);
        self.writers.extend(other.writers);
        other.at.into_iter().for_each(|(at, weight)| *self.at.entry(at).or_default() += weight);
    }

    /// The instruction with most samples.
    fn hottest(&self) -> Option<u64> {
        self.at.iter().max_by(|one, other| one.1.total_cmp(other.1)).map(|(at, _)| *at)
    }

    fn into_fact(self, lookup: &mut Lookup, samples: &Samples, weight: impl Fn(&Touch) -> f64) -> LineFacts {
        let engine = lookup.engine;
        let (mut by_thread, mut by_ip): (BTreeMap<ThreadId, f64>, BTreeMap<Ip, f64>) =
            (BTreeMap::new(), BTreeMap::new());
        for touch in self.touches.iter().filter_map(|touch| engine.touches.get(*touch)) {
            *by_thread.entry(touch.thread).or_default() += weight(touch);
            *by_ip.entry((touch.space, touch.found.ip)).or_default() += weight(touch);
        }
        let usual = usual(lookup, samples, &by_ip);
        let excess: f64 = by_ip.values().map(|hits| (hits - usual).max(0.0)).sum();
        let mut threads: Vec<(Tid, u64)> =
            by_thread.iter().map(|(thread, hits)| (lookup.tid(*thread), hits.round() as u64)).collect();
        threads.sort_by_key(|(tid, hits)| (Reverse(*hits), *tid));
        let hits = by_thread.values().sum::<f64>().round() as u64;
        LineFacts {
            site: self.site(lookup, samples, &by_ip, hits),
            variable: self.variable,
            hits,
            excess: excess.round() as u64,
            threads,
            writers: self.writers.len() as u64,
            words: self.words,
            same_word: self.same_word,
            is_atomic: self.atomic * 2.0 >= self.at.values().sum(),
        }
    }

    /// The path to the instruction with most samples.
    fn site(&self, lookup: &mut Lookup, samples: &Samples, by_ip: &BTreeMap<Ip, f64>, count: u64) -> Site {
        let mut call_path =
            self.hottest().map(|hottest| lookup.naming.frames_at(self.space, hottest)).unwrap_or_default();
        let heaviest = by_ip.iter().max_by(|one, other| one.1.total_cmp(other.1));
        if let Some((_, place)) = heaviest.and_then(|(ip, _)| samples.places.get(ip)) {
            // Of the instruction that was sampled, what was inlined there may be something else.
            call_path.extend(callers(&lookup.call_path(*place)).iter().cloned());
        }
        Site { call_path, count, ns: 0 }
    }
}

/// Samples that an instruction of the same functions has that works on no such line: the mean of those that have any.
fn usual(lookup: &mut Lookup, samples: &Samples, by_ip: &BTreeMap<Ip, f64>) -> f64 {
    let mut function = |(space, ip): Ip| lookup.naming.frames_at(space, ip).last().map(function_name);
    let functions: FxHashSet<(SpaceId, String)> = by_ip.keys().filter_map(|ip| Some((ip.0, function(*ip)?))).collect();
    let mut around: BTreeMap<Ip, u64> = BTreeMap::new();
    for (space, ip) in by_ip.keys() {
        let near = samples.by_ip.range((*space, ip.saturating_sub(AROUND))..(*space, ip.saturating_add(AROUND)));
        around.extend(near.filter(|(other, _)| !by_ip.contains_key(other)));
    }
    around.retain(|ip, _| function(*ip).is_some_and(|name| functions.contains(&(ip.0, name))));
    if around.is_empty() { 0.0 } else { around.values().sum::<u64>() as f64 / around.len() as f64 }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use holdup_trace::{Event, FutexOp, Header, OffCpu, Pid, Pointers, StackId, What};

    use super::*;
    use crate::facts::Facts;
    use crate::names::{Access, Frame};
    use crate::timeline::Naming;
    use crate::{Analysis, Options};

    const MS: u64 = 1_000_000;
    /// Registers of the tests: rax is written to, rcx is read, rdx is written to behind a number that is not known.
    const WRITTEN: u8 = 0;
    const READ: u8 = 1;
    const NEAR: u8 = 2;
    const LINE: u64 = 0x5555_0010_0040;

    /// Stacks are instructions, and all of them are in one function.
    struct Drawn;

    impl Naming for Drawn {
        fn call_path(&mut self, _: SpaceId, _: StackId) -> Arc<[Frame]> {
            [Frame::named("count", Role::Program)].into()
        }

        fn variable(&mut self, _: SpaceId, addr: u64) -> Option<LockName> {
            let within = addr.checked_sub(LINE)?;
            Some(LockName::Symbol { name: format!("tallies[{}].seen", within / 16), offset: 0 })
        }

        fn sampled_at(&self, stack: StackId) -> Option<u64> {
            Some(u64::from(stack.0))
        }

        fn accesses(&mut self, _: SpaceId, pointers: &Pointers) -> Vec<Access> {
            let access = |(number, addr): &(u8, u64)| {
                let (is_exact, writes) = (*number != NEAR, *number != READ);
                Access { addr: *addr, is_exact, writes, at: pointers.ip, is_atomic: false }
            };
            pointers.registers.iter().map(access).collect()
        }

        fn frames_at(&mut self, _: SpaceId, _: u64) -> Vec<Frame> {
            vec![Frame::named("count", Role::Program)]
        }
    }

    /// What two threads do on CPUs of their own, sampled a hundred times each: the register of each, what it holds, and
    /// how long after the first one's samples the second's are.
    fn drawn(uses: [(u8, u64); 2], apart_ns: u64, more: &[Event]) -> Facts {
        let mut header = Header { sample_period_ns: MS, ..Header::default() };
        header.machine.cpus = 2;
        let event =
            |time_ns, thread: usize, what| Event { time_ns, tid: Tid(100 + thread as u32), cpu: thread as u16, what };
        let mut events: Vec<Event> = more.to_vec();
        for (thread, (number, addr)) in uses.into_iter().enumerate() {
            events.push(event(1, thread, What::Started { pid: Pid(100), parent: None }));
            events.push(event(2, thread, What::SwitchIn));
            for sample in 0..100 {
                let time_ns = 10 * MS + sample * 8 * MS + thread as u64 * apart_ns;
                let ip = 16 + sample % 2;
                events.push(event(time_ns, thread, What::Sample { stack: StackId(ip as u32) }));
                let found = Pointers { ip, registers: vec![(number, addr)] };
                events.push(event(time_ns, thread, What::Pointers(Box::new(found))));
            }
        }
        events.sort_by_key(|event| event.time_ns);
        let mut analysis = Analysis::new(&header, Options::default());
        events.iter().for_each(|event| analysis.feed(event));
        analysis.finish_named(None, &mut Drawn).facts
    }

    fn lines(uses: [(u8, u64); 2]) -> Vec<LineFacts> {
        drawn(uses, MS, &[]).lines
    }

    #[test]
    fn neighbours_in_a_line_are_fought_over_by_those_who_write() {
        let found = lines([(WRITTEN, LINE), (WRITTEN, LINE + 16)]);
        assert_eq!(found.len(), 1);
        let line = &found[0];
        assert_eq!((line.hits, line.writers, line.words, line.same_word), (200, 2, 2, false));
        assert_eq!(line.threads, [(Tid(100), 100), (Tid(101), 100)]);
        assert_eq!(line.variable, Some(LockName::Symbol { name: "tallies".into(), offset: 0 }), "not one of them");
        assert_eq!(line.site.caller().and_then(|frame| frame.function.as_deref()), Some("count"));
        assert_eq!(lines([(WRITTEN, LINE), (READ, LINE + 16)])[0].writers, 1);
        assert!(lines([(READ, LINE), (READ, LINE)]).is_empty(), "what is only read is had by all at once");
        assert!(lines([(WRITTEN, LINE), (WRITTEN, LINE + 64)]).is_empty(), "a line each");
    }

    #[test]
    fn one_word_that_two_threads_use_is_named() {
        let line = &lines([(WRITTEN, LINE + 16), (READ, LINE + 16)])[0];
        assert!(line.same_word);
        assert_eq!(line.variable, Some(LockName::Symbol { name: "tallies[1].seen".into(), offset: 0 }));
    }

    #[test]
    fn objects_of_which_only_the_beginning_is_known_are_neighbours_if_each_has_one_user() {
        assert_eq!(lines([(NEAR, LINE), (NEAR, LINE + 24)]).len(), 1);
        assert!(lines([(NEAR, LINE), (NEAR, LINE)]).is_empty(), "parts of one table");
    }

    #[test]
    fn a_line_that_is_used_at_different_times_is_not_fought_over() {
        let uses = [(WRITTEN, LINE), (WRITTEN, LINE + 16)];
        assert_eq!(drawn(uses, 3 * MS, &[]).lines.len(), 1);
        assert!(drawn(uses, 4 * MS, &[]).lines.is_empty());
        // The second thread comes when the first is gone.
        let gone = Event {
            time_ns: 900 * MS,
            tid: Tid(100),
            cpu: 0,
            what: What::SwitchOut { off: OffCpu::Blocked, stack: None },
        };
        assert!(drawn(uses, 1_000 * MS, &[gone]).lines.is_empty());
    }

    #[test]
    fn the_memory_of_locks_is_left_to_findings_about_locks() {
        let wait = What::FutexWait { op: FutexOp(128), addr: LINE, value: 2, stack: None };
        let waits = Event { time_ns: 5, tid: Tid(100), cpu: 0, what: wait };
        let more = |uses| drawn(uses, MS, std::slice::from_ref(&waits)).lines.len();
        assert_eq!(more([(WRITTEN, LINE + 8), (WRITTEN, LINE + 39)]), 0);
        assert_eq!(more([(WRITTEN, LINE + 40), (WRITTEN, LINE + 48)]), 1);
    }
}
