//! imbalance: one of several like threads does far more than the others, which wait for it at a barrier or have long
//! ended.
//!
//! Signs and thresholds, per group of threads of a process whose names are equal but for digits (without the first
//! thread, which often bears the same name), that lived when the busiest of them did, and run what it runs, or began
//! where it did, as far as CPU samples tell:
//! - at least [`LEAST_THREADS`] threads, or two that have most of their CPU samples in one function; from the first
//!   one's birth to the last one's end is at least [`LEAST_WINDOW_NS`] and half of the recording;
//! - the busiest used at least [`LEAST_RATIO`] times the CPU time of the median one, and had or wanted a CPU for at
//!   least [`LEAST_BUSY_SHARE`] of that stretch: it sets the pace;
//! - the median one did at least 1/[`super::alike::LEAST_WORK`] of what the busiest did: threads that have nothing to
//!   do are not its like;
//! - the others wait for it: for at least [`LEAST_WAIT_SHARE`] of the stretch on average they waited at a barrier (or
//!   on a condition variable or semaphore that the busiest one signals), or had ended while another thread waited for
//!   the end of the last.
//!
//! Threads that meet at a barrier and mostly run one function are such a group too, whatever they are called, and the
//! first thread among them.
//!
//! The place is the function of the program in which the busiest thread has most CPU samples. The severity is the share
//! of the recording by which even work would shorten it.
//!
//! Or, whatever the threads' names, and where each wave of work has threads of its own: in [`LEAST_ALONE`] of the time
//! one thread runs alone, mostly in functions that several threads run as well, the first of which takes [`LEAST_SAME`]
//! of the time of several; the threads that run it wait for nothing but each other (or are workers of rayon), and
//! threads wait at a barrier or for the end of others meanwhile.
//!
//! So it is where one thread hands out work round by round: it ends [`LEAST_GIVEN`] of what each of those that run
//! that function waits, and waits for them itself for [`LEAST_ASKED`] of the recording; what one does alone is not
//! mostly its own. Which of them comes last may change from round to round.
//!
//! OpenMP's threads may spin while they wait, and whose share is large may change from region to region: what all of
//! them wait for each other, less what one does between parallel regions and what they lost without a CPU, is at least
//! [`regions::LEAST_LOST`] of their time.
//!
//! Or, where the others wait for nothing but work: one has or wants a CPU for [`has_all::LEAST_BUSY`] of the recording,
//! and those that wait for events (epoll, poll, select, accept) in the function where it waits for them, or that it
//! works below, do so for [`has_all::LEAST_IDLE`] of their lives and have [`has_all::MOST_OF_OTHERS`] of the CPU time
//! of all. They may be processes of one name.
//!
//! Or processes were started to do so each, and have ended but for one: see [`forked`].
//!
//! Threads that run goroutines are not compared: which does how much is the Go scheduler's whim. But of at least three
//! goroutines that began together with one function, the last may be alone at a fifth of the looks or more, while
//! somebody waits for a wait group.
//!
//! How it can be wrong: threads of one name may have different tasks. A pool whose threads wait for work is not blamed:
//! there it is not the busiest thread that wakes the others.

use std::collections::{BTreeMap, BTreeSet};

use holdup_trace::Tid;

use super::alike::{Group, mostly_runs, of_one_task};
use super::alone::{self, Alone};
use super::weigh::{self, MS, count, ns, part, rate, ratio};
use super::{Cure, Finding, Kind, Moment, Rule};
use super::{forked, goroutines, has_all, regions, runtime};
use crate::facts::{AccountState, Facts, Holder, LockFacts, Primitive, Reason, Site, ThreadFacts};

pub(super) const RULE: Rule = Rule {
    kind: Kind::Imbalance,
    judge,
    evidence: &[
        "times_the_median",
        "busiest_cpu_ns",
        "median_cpu_ns",
        "waiting_share",
        "threads",
        "alone_share",
        "tail_share",
        "rounds_per_s",
        "goroutines",
        "sending_share",
        "idle_goroutines",
        "busy_share",
        "idle_threads",
        "last_share",
        "processes",
    ],
};

pub(super) const LEAST_THREADS: usize = 3;
pub(super) const LEAST_WINDOW_NS: u64 = 100 * MS;
pub(super) const LEAST_RATIO: u64 = 3;
pub(super) const LEAST_BUSY_SHARE: f64 = 0.5;
pub(super) const LEAST_WAIT_SHARE: f64 = 0.3;
pub(super) const LEAST_ALONE: f64 = 0.2;
pub(super) const LEAST_PARALLEL: f64 = 0.1;
pub(super) const LEAST_SAME: f64 = 0.3;

pub(super) const LEAST_GIVEN: f64 = 0.8;
pub(super) const LEAST_ASKED: f64 = 0.2;

fn judge(facts: &Facts) -> Vec<Finding> {
    if let Some(finding) = regions::imbalance(facts).or_else(|| goroutines::imbalance(facts)) {
        return vec![finding];
    }
    let uneven = |groups: Vec<Group>| -> Vec<Finding> {
        groups.iter().filter(|group| is_uneven(facts, group)).map(|group| finding(facts, group)).collect()
    };
    let mut findings = uneven(groups(facts));
    if findings.is_empty() {
        findings = uneven(at_barriers(facts));
    }
    if findings.is_empty() {
        let tails = Tails::of(facts);
        findings.extend(tails.and_then(|tails| in_waves(facts, &tails).or_else(|| in_rounds(facts, &tails))));
    }
    if findings.is_empty() {
        findings.extend(has_all::finding(facts).or_else(|| forked::finding(facts)));
    }
    findings
}

/// One thread goes on alone with what several do as well.
struct Tails<'a> {
    /// For so much of the time.
    share: f64,
    /// Of the time that one is alone.
    of_alone: f64,
    place: &'a Site,
}

impl<'a> Tails<'a> {
    /// `None` if that is little, or something else is done beside it.
    fn of(facts: &'a Facts) -> Option<Tails<'a>> {
        let alone = Alone::of(facts)?;
        let place = facts.alone_sites.first()?;
        let of_alone = alone::in_common(facts);
        let share = alone.share * of_alone;
        let is_much =
            share >= LEAST_ALONE && alone.parallel >= LEAST_PARALLEL && alone::in_parallel_too(facts) >= LEAST_SAME;
        is_much.then_some(Tails { share, of_alone, place })
    }

    /// What goes of it if the work is divided among the CPUs.
    fn cost(&self, facts: &Facts) -> f64 {
        weigh::divided(self.share, facts.header.machine.cpus.max(2).into())
    }
}

/// One thread of each wave has more of the same work than the others, or one thread of all waves.
fn in_waves(facts: &Facts, tails: &Tails) -> Option<Finding> {
    let runs = |thread: &&ThreadFacts| mostly_runs(thread, tails.place);
    let group = Group::new(facts.threads.iter().filter(runs).collect());
    // The workers of rayon wait for work where other threads wait at a barrier, and each wave's long part is another's.
    let of_rayon = group.threads.iter().all(|thread| runtime::is_of_rayon(thread));
    if group.threads.len() < 2 || !(of_rayon || alone::only_work(&group.threads)) {
        return None;
    }
    let barrier_ns: u64 = facts.threads.iter().map(|thread| thread.account.of(AccountState::Barrier)).sum();
    let others = facts.threads.iter().filter(|thread| !runs(thread));
    let longest_ns = others.map(|thread| thread.account.of(AccountState::Work)).max().unwrap_or(0);
    let waited_ns = barrier_ns + longest_ns;
    let alone_ns = (tails.share * facts.span_ns() as f64) as u64;
    let is_uneven = tails.of_alone >= 0.5
        && group.most_work()
        && (of_rayon || group.busiest().worked_ns() * 2 >= group.median_ns() * 3)
        && waited_ns * 2 >= alone_ns;
    is_uneven.then(|| Finding {
        severity: tails.cost(facts),
        place: Some(tails.place.clone()),
        ..finding(facts, &group)
    })
}

/// Round by round, now this one and now that one of those who are given work goes on alone.
fn in_rounds(facts: &Facts, tails: &Tails) -> Option<Finding> {
    let runs = |thread: &&ThreadFacts| mostly_runs(thread, tails.place);
    let Rounds { giver, workers, count: rounds } = Rounds::of(facts, facts.threads.iter().filter(runs).collect())?;
    let evidence = vec![
        part("tail_share", tails.share),
        rate("rounds_per_s", weigh::per_s(rounds, facts.span_ns())),
        count("threads", workers.len() as u64),
    ];
    Group::new(workers).most_work().then(|| Finding {
        severity: tails.cost(facts),
        bound: Some(1.0 / (1.0 - tails.share)),
        subjects: vec![weigh::thread_subject(facts, giver)],
        place: Some(tails.place.clone()),
        evidence,
        ..Finding::new(Kind::Imbalance, Cure::LongerRounds, weigh::record_again())
    })
}

/// Who hands out work and waits until it is done.
struct Rounds<'a> {
    giver: Tid,
    workers: Vec<&'a ThreadFacts>,
    /// How often each of them was given some, on average.
    count: u64,
}

impl<'a> Rounds<'a> {
    /// `None` if no single thread waits for these and ends what they wait.
    fn of(facts: &Facts, threads: Vec<&'a ThreadFacts>) -> Option<Rounds<'a>> {
        let is_of = |tid: Tid| threads.iter().any(|thread| thread.tid == tid);
        let mut asked: BTreeMap<Tid, u64> = BTreeMap::new();
        for row in facts.blame.iter().filter(|row| row.thread != row.waiter && is_of(row.thread)) {
            *asked.entry(row.waiter).or_default() += row.ns;
        }
        let (giver, asked_ns) = asked.into_iter().max_by_key(|(_, ns)| *ns)?;
        let workers: Vec<&ThreadFacts> = threads.iter().copied().filter(|thread| thread.tid != giver).collect();
        // What workers end is the giver's wait for them.
        let ends = |by: &&Holder| by.tid == giver || !is_of(by.tid);
        let ended = |waits: &dyn Fn(Tid) -> bool| -> Vec<&Holder> {
            let work = facts.locks.iter().filter(|lock| !lock.primitive.is_contention());
            let theirs = work.filter(|lock| lock.waiters.iter().any(|(tid, _)| waits(*tid)));
            theirs.flat_map(|lock| &lock.holders).filter(ends).collect()
        };
        let is_given = |worker: &&ThreadFacts| {
            let ended = ended(&|tid| tid == worker.tid);
            let given = ended.iter().filter(|by| by.tid == giver);
            weigh::share(given.map(|by| by.ns).sum(), ended.iter().map(|by| by.ns).sum()) >= LEAST_GIVEN
        };
        // Who does a part alone before it hands out the rest is a serial phase.
        let all_alone: u64 = threads.iter().map(|thread| thread.alone_samples).sum();
        let workers_alone: u64 = workers.iter().map(|thread| thread.alone_samples).sum();
        let gives = workers.len() >= 2
            && workers.iter().all(is_given)
            && weigh::share(asked_ns, facts.span_ns()) >= LEAST_ASKED
            && all_alone <= workers_alone * 2;
        let times: u64 = ended(&is_of).iter().filter(|by| by.tid == giver).map(|by| by.count).sum();
        gives.then(|| Rounds { giver, count: times / workers.len() as u64, workers })
    }
}

fn groups(facts: &Facts) -> Vec<Group<'_>> {
    let mut groups: BTreeMap<(u32, String), Vec<&ThreadFacts>> = BTreeMap::new();
    let others =
        facts.threads.iter().filter(|thread| thread.tid.0 != thread.pid.0 && !runtime::is_of_scheduler(thread));
    for thread in others {
        let name = thread.name.chars().filter(|c| !c.is_ascii_digit()).collect();
        groups.entry((thread.pid.0, name)).or_default().push(thread);
    }
    let of_one_task = groups.into_values().map(of_one_task);
    of_one_task.filter(|threads| are_alike(threads)).map(Group::new).collect()
}

/// Threads that meet at a barrier, the first one among them, whatever their names, and run mostly the same.
fn at_barriers(facts: &Facts) -> Vec<Group<'_>> {
    let barriers = facts.locks.iter().filter(|lock| lock.primitive == Primitive::Barrier);
    let members = barriers.map(|lock| {
        let waiters = lock.waiters.iter().map(|(tid, _)| *tid);
        let tids: BTreeSet<Tid> = waiters.chain(lock.holders.iter().map(|holder| holder.tid)).collect();
        let threads: Vec<&ThreadFacts> = tids.into_iter().filter_map(|tid| facts.thread(tid)).collect();
        let busiest = threads.iter().copied().max_by_key(|thread| thread.worked_ns());
        let hottest = busiest.and_then(|thread| thread.hot_sites.first());
        let like = |thread: &&ThreadFacts| hottest.is_some_and(|site| mostly_runs(thread, site));
        threads.into_iter().filter(like).collect::<Vec<_>>()
    });
    members.filter(|threads| threads.len() >= 2).map(Group::new).collect()
}

/// Whether threads of one name have one task: two of a name may have one each.
fn are_alike(threads: &[&ThreadFacts]) -> bool {
    match threads {
        [one, other] => other.hot_sites.first().is_some_and(|site| mostly_runs(one, site)),
        all => all.len() >= LEAST_THREADS,
    }
}

fn is_uneven(facts: &Facts, group: &Group) -> bool {
    let busiest_ns = group.busiest().worked_ns();
    group.window_ns() >= LEAST_WINDOW_NS.max(facts.span_ns() / 2)
        && busiest_ns >= LEAST_RATIO * group.median_ns()
        && group.most_work()
        && weigh::share(weigh::wanted_ns(group.busiest()), group.window_ns()) >= LEAST_BUSY_SHARE
        && waiting_share(facts, group) >= LEAST_WAIT_SHARE
}

/// How long the others waited for the busiest, each on average, as a share of the stretch.
fn waiting_share(facts: &Facts, group: &Group) -> f64 {
    let others = &group.threads[1..];
    let joined = is_joined(facts, group);
    let waited_ns: u64 = others.iter().map(|thread| waited_ns(facts, group, thread, joined)).sum();
    weigh::share(waited_ns, group.window_ns() * others.len() as u64)
}

fn waited_ns(facts: &Facts, group: &Group, thread: &ThreadFacts, joined: bool) -> u64 {
    let barrier_ns = thread.off.get(&Reason::Futex(Primitive::Barrier)).map_or(0, |off| off.ns);
    let signalled = facts.locks.iter().filter(|lock| {
        lock.pid == thread.pid && is_signal(lock.primitive) && is_signalled_by(lock, group.busiest().tid)
    });
    let signalled_ns: u64 = signalled.map(|lock| lock.waited_by(thread.tid)).sum();
    let ended_ns = if joined && thread.exited { group.to_ns.saturating_sub(thread.ended_ns) } else { 0 };
    barrier_ns + thread.spun_together_ns + signalled_ns + ended_ns
}

fn is_signal(primitive: Primitive) -> bool {
    use Primitive::{Condvar, Park, Semaphore, Unknown};
    matches!(primitive, Condvar | Park | Semaphore | Unknown)
}

/// Whether most of the waiting was ended by this thread.
fn is_signalled_by(lock: &LockFacts, tid: Tid) -> bool {
    let all: u64 = lock.holders.iter().map(|holder| holder.ns).sum();
    let by: u64 = lock.holders.iter().filter(|holder| holder.tid == tid).map(|holder| holder.ns).sum();
    all > 0 && by * 2 > all
}

/// Whether a thread outside the group waits for the end of one for most of the stretch.
fn is_joined(facts: &Facts, group: &Group) -> bool {
    let pid = group.busiest().pid;
    let joins = facts
        .threads
        .iter()
        .filter(|thread| thread.pid == pid)
        .filter_map(|thread| thread.off.get(&Reason::Futex(Primitive::Join)).map(|off| off.ns));
    weigh::share(joins.max().unwrap_or(0), group.window_ns()) >= LEAST_WAIT_SHARE
}

fn finding(facts: &Facts, group: &Group) -> Finding {
    let busiest = group.busiest();
    Finding {
        kind: Kind::Imbalance,
        bound: None,
        severity: group.cost(facts),
        subjects: vec![weigh::thread_subject(facts, busiest.tid)],
        place: busiest.hot_sites.first().cloned(),
        evidence: vec![
            ratio("times_the_median", weigh::share(busiest.worked_ns(), group.median_ns().max(1))),
            ns("busiest_cpu_ns", busiest.worked_ns()),
            ns("median_cpu_ns", group.median_ns()),
            part("waiting_share", waiting_share(facts, group)),
            count("threads", group.threads.len() as u64),
        ],
        moments: vec![Moment { tid: busiest.tid, from_ns: group.from_ns, to_ns: group.to_ns }],
        cure: Cure::Rebalance,
        proof: weigh::record_again(),
    }
}
