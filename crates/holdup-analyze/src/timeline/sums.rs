//! From sums to facts: what the engine counted, with what it means and where it was.

use std::collections::BTreeMap;

use holdup_trace::{Counter, Ending, Tid};

use super::chains::{self, Chains, Meaning as _};
use super::codes;
use super::counted;
use super::doing::Plain;
use super::drawing::{self, Kept};
use super::engine::Engine;
use super::goroutine_waits;
use super::ids::{Table, ThreadId, WaitSiteId};
use super::in_turn;
use super::inferred;
use super::lock::Place;
use super::lookup::{Lookup, NAMED_PLACES};
use super::meaning::Meanings;
use super::naming::Naming;
use super::objects;
use super::polled;
use super::row::Timeline;
use super::safepoints;
use super::tally::Tally;
use super::thread::Thread;
use crate::facts::{
    Account, AccountState, Blame, Facts, Leaf, LockFacts, LockName, LockNumber, OffTime, PairFacts, Path, PathPart,
    PathPiece, ProcessFacts, Reason, Site, SocketFacts, ThreadFacts,
};
use crate::names::Between;
use crate::{Efficiency, Histogram, Problem};

/// Rows of the blame that are told.
const NAMED_ROWS: usize = 4_000;

/// What the summing-up yields beside the facts.
pub(crate) struct Rest {
    pub problems: Vec<Problem>,
    pub timeline: Option<Timeline>,
}

/// Ends the recording and tells everything.
pub(crate) fn sum_up(mut engine: Engine, ending: Option<&Ending>, facts: &mut Facts, naming: &mut dyn Naming) -> Rest {
    facts.end_ns = engine.close(ending.map(|ending| ending.ended_ns));
    if engine.is_sampled {
        inferred::wakers(&mut engine);
    } else if !engine.capabilities.wakings {
        inferred::pipe_wakers(&mut engine);
    }
    facts.start_ns = start_ns(&engine, facts);
    facts.ending = ending.cloned();
    let kept = Kept {
        marks: engine.threads.iter_mut().map(|thread| std::mem::take(&mut thread.marks)).collect(),
        wakes: std::mem::take(&mut engine.wakes),
        sampled: std::mem::take(&mut engine.sampled),
    };
    let mut lookup = Lookup { engine: &engine, naming };
    let mut meanings = Meanings::of(&mut lookup);
    (facts.locks, meanings.locks) = objects::all(&mut lookup, &meanings);
    let mut sums = Sums { lookup, meanings };
    facts.threads = sums.threads();
    let yields = sums.yields_alone();
    facts.yield_sites = sums.lookup.sites(&yields, |count| (*count, 0));
    facts.switch_sites = sums.switch_sites();
    codes::count(&mut sums.lookup, facts);
    facts.goroutines = goroutine_waits::sum_up(&mut sums.lookup);
    sums.chains(facts);
    facts.turns = in_turn::find(&mut sums.lookup, &sums.meanings, facts.span_ns());
    facts.poll_herds = polled::find(&mut sums.lookup, &sums.meanings);
    facts.safepoints = safepoints::find(&mut sums.lookup, &sums.meanings);
    facts.pairs = sums.pairs(&engine);
    let timeline = engine.keep.then(|| drawing::draw(&mut sums.lookup, &sums.meanings, kept));
    let mut problems = super::problems::all(&engine, facts);
    totals(&engine, facts);
    tell_locks_apart(facts);
    problems.extend(sums.lookup.naming.problems());
    Rest { problems, timeline }
}

fn start_ns(engine: &Engine, facts: &Facts) -> u64 {
    let first = engine.first.unwrap_or(facts.end_ns);
    let began = facts.header.began_ns;
    let start = if began > 0 && began < first { began } else { first };
    start.max(engine.from).min(facts.end_ns)
}

struct Sums<'a> {
    lookup: Lookup<'a>,
    meanings: Meanings,
}

impl Sums<'_> {
    /// Where threads left the CPU because of each other, by how often.
    fn switch_sites(&mut self) -> Vec<Site> {
        let engine = self.lookup.engine;
        let mut places: Tally<Place, u64> = Tally::default();
        for wait_site in &engine.wait_sites {
            let waits: u64 = wait_site.waiters.iter().map(|(_, time)| time.count).sum();
            *places.at(wait_site.place) += waits;
        }
        engine.yields.iter().for_each(|(place, count)| *places.at(*place) += count);
        let mut sites = self.lookup.sites(&places, |count| (*count, 0));
        sites.retain(|site| site.count > 0);
        sites
    }

    /// Yields that are no part of a wait that is known by what threads sleep for.
    fn yields_alone(&self) -> Tally<Place, u64> {
        let mut alone = Tally::default();
        let all = self.lookup.engine.yields.iter().filter(|(place, _)| !self.meanings.yields.contains_key(place));
        all.for_each(|(place, count)| *alone.at(*place) = *count);
        alone
    }

    // Threads.

    fn threads(&mut self) -> Vec<ThreadFacts> {
        let engine = self.lookup.engine;
        let mut futex_times: Table<ThreadId, Vec<(WaitSiteId, OffTime)>> = engine.threads.map(|_| Vec::new());
        for (index, wait_site) in engine.wait_sites.each() {
            for (thread, time) in wait_site.waiters.iter() {
                futex_times[*thread].push((index, *time));
            }
        }
        let mut facts = Vec::new();
        for (thread, times) in engine.threads.iter().zip(&futex_times) {
            if self.lookup.is_kept(thread) {
                let (off_sites, sleeps) = self.off_sites(thread);
                let mut of_thread = ThreadFacts { off_sites, ..self.thread(thread, times) };
                if let Some((site, does)) = sleeps {
                    let time = OffTime { count: site.count, ns: site.ns };
                    match does {
                        Between::HandsOn => of_thread.hands_on = true,
                        Between::Tries if time.ns > of_thread.retries.ns => of_thread.retries = time,
                        Between::Tries | Between::Looks => {}
                    }
                    of_thread.looking = Some(site).filter(|_| does != Between::HandsOn);
                }
                facts.push(of_thread);
            }
        }
        facts
    }

    /// Where a thread left the CPU for what is no futex, and not because others had it; and where it mostly sleeps, if
    /// the code around that tells what it does in between.
    fn off_sites(&mut self, thread: &Thread) -> (Vec<Site>, Option<(Site, Between)>) {
        let (mut places, mut sleeps): (Tally<Place, OffTime>, Tally<Place, OffTime>) = Default::default();
        for stay in thread.log.stays() {
            let reason = self.meanings.reason(stay.doing());
            let place = Place { space: thread.space, stack: stay.stack };
            let time = OffTime::once(stay.woken() - stay.from);
            if AccountState::of(reason).is_wait() && !matches!(reason, Reason::Futex(_)) {
                *places.at(place) += time;
            }
            if reason == Reason::Sleep {
                *sleeps.at(place) += time;
            }
        }
        let mut sites = |places| self.lookup.sites(places, |time: &OffTime| (time.count, time.ns));
        let (off_sites, sleeps) = (sites(&places), sites(&sleeps));
        let most = sleeps.into_iter().next();
        let told = most.and_then(|site| {
            let does = self.lookup.naming.between_sleeps(thread.space, &site.call_path)?;
            Some((site, does))
        });
        (off_sites, told)
    }

    fn thread(&self, thread: &Thread, futex_times: &[(WaitSiteId, OffTime)]) -> ThreadFacts {
        let mut facts = ThreadFacts {
            tid: thread.tid,
            pid: thread.pid,
            name: thread.name.clone(),
            born_ns: thread.born,
            ended_ns: thread.last.max(thread.born),
            exited: thread.exited,
            on_cpu_ns: thread.on_cpu_ns,
            involuntary: thread.involuntary,
            voluntary: thread.voluntary,
            run_ns: thread.run_ns.clone(),
            run_delay_ns: thread.run_delay_ns.clone(),
            migrations: thread.migrations,
            wakes: thread.wakes,
            retries: thread.retries,
            usage: thread.usage,
            ..ThreadFacts::default()
        };
        for (plain, time) in Plain::ALL.iter().zip(thread.plain).filter(|(_, time)| time.count > 0) {
            *facts.off.entry(plain.reason()).or_default() += time;
        }
        for (block, time) in thread.blocks.iter() {
            *facts.off.entry(self.meanings.reasons[*block]).or_default() += *time;
        }
        for (wait_site, time) in futex_times {
            let reason = self.meanings.futex_reason(*wait_site);
            *facts.off.entry(reason).or_default() += *time;
            let waits = matches!(reason, Reason::Futex(primitive) if primitive.is_contention());
            facts.lock_wait_ns += if waits { time.ns } else { 0 };
        }
        if self.lookup.engine.is_sampled {
            let readings_ns = thread.usage_ns.1.saturating_sub(thread.usage_ns.0);
            counted::correct(&mut facts, thread.usage_switches, readings_ns);
        }
        facts
    }

    // The account, the blame and the path.

    fn chains(&mut self, facts: &mut Facts) {
        let mut chains = chains::follow(self.lookup.engine, &self.meanings, facts.start_ns, facts.end_ns);
        self.accounts(&chains, facts);
        facts.blame = self.blame(std::mem::take(&mut chains.blame), facts);
        wait_for_others(facts);
        facts.path = self.path(&chains, facts);
    }

    fn accounts(&self, chains: &Chains, facts: &mut Facts) {
        let waits = chains.ended_waits.iter().zip(&chains.timed_waits);
        let all = self.lookup.engine.threads.iter().zip(&chains.accounts).zip(waits);
        let kept = all.filter(|((thread, _), _)| self.lookup.is_kept(thread));
        for (thread, ((_, ns), (ended_waits, timed_waits))) in facts.threads.iter_mut().zip(kept) {
            thread.ended_waits = *ended_waits;
            thread.timed_ns = timed_waits.clone();
            let mut account = Account { ns: *ns };
            let spun_ns = thread.spun_ns.min(account.of(AccountState::Running));
            account.ns[AccountState::Running as usize] -= spun_ns;
            account.ns[AccountState::Spinning as usize] += spun_ns;
            for (sum, ns) in facts.account.ns.iter_mut().zip(account.ns) {
                *sum += ns;
            }
            thread.account = account;
        }
    }

    fn blame(&mut self, mut rows: Vec<(chains::Row, u64)>, facts: &Facts) -> Vec<Blame> {
        rows.sort_unstable_by_key(|(row, ns)| (std::cmp::Reverse(*ns), row.order()));
        let all: u64 = rows.iter().map(|(_, ns)| ns).sum();
        let mut told = 0;
        let mut list = Vec::new();
        for (row, ns) in rows {
            // What is left cannot show up.
            if told >= all - all / 500 || list.len() >= NAMED_ROWS {
                break;
            }
            told += ns;
            list.push(Blame {
                waiter: self.lookup.tid(row.waiter),
                lock: row.lock.map(LockNumber::from),
                via: row.via.map(LockNumber::from),
                leaf: row.end.leaf,
                thread: self.lookup.tid_of(row.end.thread),
                site: self.end_site(row.end, ns, facts),
                file: self.end_file(row.end),
                asker: row.asker.map(|thread| self.lookup.tid(thread)),
                ns,
            });
        }
        list
    }

    /// Where a thread left the CPU; of one that ran, where it ran mostly.
    fn end_site(&mut self, end: chains::End, ns: u64, facts: &Facts) -> Option<Site> {
        let call_path = self.lookup.call_path(end.place);
        if !call_path.is_empty() {
            return Some(Site { call_path: call_path.to_vec(), count: 0, ns });
        }
        let thread = facts.thread(self.lookup.tid_of(end.thread)).filter(|_| end.leaf == Leaf::Running)?;
        thread.hot_sites.first().cloned()
    }

    /// The file that a thread was found blocked on.
    fn end_file(&self, end: chains::End) -> Option<String> {
        let file = &self.lookup.engine.found[end.found?].file;
        file.as_deref().map(str::to_owned)
    }

    fn path(&mut self, chains: &Chains, facts: &Facts) -> Path {
        let mut parts: Vec<(chains::End, u64)> = chains.path.iter().map(|(end, ns)| (*end, *ns)).collect();
        parts.sort_by_key(|(end, ns)| (std::cmp::Reverse(*ns), end.order()));
        parts.truncate(NAMED_PLACES);
        let mut locks: Vec<(LockNumber, u64)> =
            chains.path_locks.iter().map(|(lock, ns)| ((*lock).into(), *ns)).collect();
        locks.sort_by_key(|(lock, ns)| (std::cmp::Reverse(*ns), *lock));
        let pieces = chains.pieces.list().iter().rev().map(|piece| PathPiece {
            from_ns: piece.from,
            to_ns: piece.to,
            leaf: piece.leaf,
            thread: self.lookup.tid_of(piece.thread),
        });
        let pieces = if self.lookup.engine.keep { pieces.collect() } else { Vec::new() };
        let part = |(end, ns): (chains::End, u64)| PathPart {
            leaf: end.leaf,
            thread: self.lookup.tid_of(end.thread),
            site: self.end_site(end, ns, facts),
            file: self.end_file(end),
            ns,
        };
        Path { parts: parts.into_iter().map(part).collect(), locks, pieces }
    }

    // Pairs.

    fn pairs(&mut self, engine: &Engine) -> Vec<PairFacts> {
        let mut list: Vec<PairFacts> = Vec::new();
        for ((a, b, inferred), pair) in engine.pairs.iter() {
            let blocks = |ti: &ThreadId| engine.threads[*ti].silent_blocks;
            // Without wake-ups, only what the two do nearly all the time is believed.
            if *inferred && (pair.round_trips < 16 || pair.round_trips * 5 < blocks(a).max(blocks(b)) * 4) {
                continue;
            }
            let mut places: Tally<Place, u64> = Tally::default();
            pair.places.iter().for_each(|(place, count)| *places.at(*place) += count);
            let (mut wakings, mut tids) = (pair.wakings, (self.lookup.tid(*a), self.lookup.tid(*b)));
            if tids.0 > tids.1 {
                tids = (tids.1, tids.0);
                std::mem::swap(&mut wakings.a_to_b, &mut wakings.b_to_a);
            }
            list.push(PairFacts {
                a: tids.0,
                b: tids.1,
                wakings,
                round_trips: pair.round_trips,
                run_ns: pair.run_ns.clone(),
                sites: self.lookup.sites(&places, |count| (*count, 0)),
                from_ns: pair.from,
                to_ns: pair.to,
            });
        }
        list.sort_by_key(|pair| {
            let all = pair.wakings.a_to_b + pair.wakings.b_to_a;
            (std::cmp::Reverse((pair.round_trips, all)), pair.a, pair.b)
        });
        list
    }
}

fn totals(engine: &Engine, facts: &mut Facts) {
    let totals = &mut facts.totals;
    totals.events = engine.events;
    totals.lost = engine.trouble.lost.max(facts.ending.as_ref().map_or(0, |ending| ending.lost));
    totals.wasted_wakes = engine.wasted_wakes;
    let mut run_ns = Histogram::default();
    for thread in &facts.threads {
        totals.switches += thread.voluntary + thread.involuntary;
        totals.involuntary += thread.involuntary;
        totals.on_cpu_ns += thread.on_cpu_ns;
        totals.thread_ns += thread.life_ns();
        totals.lock_wait_ns += thread.lock_wait_ns;
        totals.run_delay_ns.merge(&thread.run_delay_ns);
        run_ns.merge(&thread.run_ns);
    }
    totals.run_ns = run_ns;
    totals.runnable_ns = engine.cpus.runnable_ns.clone();
    facts.cpus = engine.cpus.list.iter().map(|cpu| cpu.facts.clone()).collect();
    for ((cpu, counter), (first, last)) in &engine.cpus.counters {
        let value = last - first;
        let sum = facts.counters.entry(*counter).or_default();
        *sum = sum.saturating_add(value);
        if let Some(cpu) = facts.cpus.get_mut(usize::from(*cpu)) {
            cpu.counters.insert(*counter, value);
        }
    }
    efficiency(facts);
    facts.calls = engine.call_counts.iter().copied().collect();
    facts.processes = processes(engine, &facts.threads);
}

/// What the counters say, per CPU, per socket, and of all.
fn efficiency(facts: &mut Facts) {
    let mut sockets: BTreeMap<u32, (u64, BTreeMap<Counter, u64>)> = BTreeMap::new();
    for (cpu, socket) in facts.cpus.iter_mut().zip(&facts.header.machine.sockets) {
        let (busy_ns, counters) = sockets.entry(*socket).or_default();
        *busy_ns += cpu.busy_ns;
        for (counter, value) in &cpu.counters {
            let sum = counters.entry(*counter).or_default();
            *sum = sum.saturating_add(*value);
        }
    }
    facts.cpus.iter_mut().for_each(|cpu| cpu.efficiency = Efficiency::of(&cpu.counters));
    facts.efficiency = Efficiency::of(&facts.counters);
    let of_socket = |(socket, (busy_ns, counters)): (u32, (u64, BTreeMap<Counter, u64>))| SocketFacts {
        socket,
        busy_ns,
        efficiency: Efficiency::of(&counters),
    };
    facts.sockets = sockets.into_iter().map(of_socket).collect();
}

/// Whether those who have a lock that others wait for mostly wait themselves, for threads that never want it.
fn wait_for_others(facts: &mut Facts) {
    for (number, lock) in (0..).map(LockNumber).zip(&mut facts.locks).filter(|(_, lock)| lock.primitive.is_contention())
    {
        let wants_it = |tid: Tid| lock.waiters.iter().any(|(waiter, _)| *waiter == tid);
        let (mut for_others, mut all) = (0, 0);
        for row in facts.blame.iter().filter(|row| row.lock == Some(number)) {
            let passed_on = row.via.is_some();
            all += if passed_on || wants_it(row.thread) { row.ns } else { 0 };
            for_others += if passed_on && row.thread.0 != 0 && !wants_it(row.thread) { row.ns } else { 0 };
        }
        lock.holders_wait_for_others = for_others > 0 && for_others * 2 >= all;
    }
}

/// Where locks of several processes share a name, each carries its process.
fn tell_locks_apart(facts: &mut Facts) {
    let mut pids: BTreeMap<&LockName, Vec<holdup_trace::Pid>> = BTreeMap::new();
    for lock in &facts.locks {
        pids.entry(&lock.name).or_default().push(lock.pid);
    }
    let shared = |lock: &LockFacts| pids[&lock.name].iter().any(|pid| *pid != lock.pid);
    let shared: Vec<bool> = facts.locks.iter().map(shared).collect();
    for (lock, _) in facts.locks.iter_mut().zip(shared).filter(|(_, shared)| *shared) {
        let process = facts.processes.iter().find(|process| process.pid == lock.pid);
        lock.process = process.map(|process| format!("{} ({})", process.name, process.pid.0));
    }
}

fn processes(engine: &Engine, threads: &[ThreadFacts]) -> Vec<ProcessFacts> {
    let mut all: BTreeMap<holdup_trace::Pid, ProcessFacts> = BTreeMap::new();
    for thread in threads {
        let process = all.entry(thread.pid).or_insert_with(|| ProcessFacts {
            pid: thread.pid,
            name: thread.name.clone(),
            program: engine.programs.get(&thread.pid).cloned(),
            executed: engine.executed.get(&thread.pid).map(|(name, _)| name.clone()),
            started_by: started_by(engine, thread.pid),
            threads: 0,
        });
        process.threads += 1;
        if thread.tid.0 == thread.pid.0 {
            process.name.clone_from(&thread.name);
        }
    }
    all.into_values().collect()
}

/// The process whose program started this one: not what was executed in that process before.
fn started_by(engine: &Engine, pid: holdup_trace::Pid) -> Option<holdup_trace::Pid> {
    let first = &engine.threads[*engine.index.get(&holdup_trace::Tid(pid.0))?];
    let parent = engine.threads[first.parent?].pid;
    let executed = engine.executed.get(&parent).map_or(0, |(_, at)| *at);
    (parent != pid && executed <= first.born).then_some(parent)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locks_of_one_name_in_two_processes_carry_them() {
        let mut facts = Facts::default();
        let lock = |pid, name: &str| LockFacts {
            pid: holdup_trace::Pid(pid),
            name: LockName::Symbol { name: name.to_owned(), offset: 0 },
            ..LockFacts::default()
        };
        facts.locks = vec![lock(1, "g_a"), lock(2, "g_a"), lock(2, "g_b")];
        facts.processes = [1, 2]
            .map(|pid| ProcessFacts { pid: holdup_trace::Pid(pid), name: "p".to_owned(), ..ProcessFacts::default() })
            .to_vec();
        tell_locks_apart(&mut facts);
        let told: Vec<Option<&str>> = facts.locks.iter().map(|lock| lock.process.as_deref()).collect();
        assert_eq!(told, [Some("p (1)"), Some("p (2)"), None]);
    }
}
