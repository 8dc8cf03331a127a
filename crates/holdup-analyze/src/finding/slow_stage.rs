//! slow-stage: one thread of a pipeline is always busy, and the others wait for it: for what it makes, or for it to
//! take what they made.
//!
//! Signs and thresholds:
//! - a thread that lives for at least half of the recording is idle for at most [`MOST_IDLE`] of its life;
//! - what others waited for it to do something is at least [`LEAST_WAITED`] of the lives of those that wait at least
//!   one in [`LEAST_OF_LONGEST`] parts of what another does;
//! - it is not idle while it polls, if others wait to hand it something, by the names of what they call;
//! - the critical path is with that thread for at least [`LEAST_PATH`] of the elapsed time, where the path tells;
//! - those that wait do a part of the work, [`LEAST_PART`] of what it does, if it computes, or wait to hand something
//!   over, by the names of what they call: helpers that have nothing to help with wait for nobody;
//! - where it computes, no other thread does the same, or code without names as well, [`LEAST_OF_PEER`] as long or
//!   longer: one of several that share the work, of which some are done sooner, is no stage;
//! - where it mostly sleeps or waits for a device or the outside, it must get its work from others, and hardly ever
//!   wait for it: a thread that makes one thing every second by the clock holds nobody up, and neither does one that
//!   asks and then thinks, or sends to other processes at a pace of its own. One that reads from another end and pauses
//!   for less than [`stages::LONGEST_PAUSE_NS`] each time is taken to have work waiting;
//! - or it mostly waits for answers of threads and processes that it asks, which wait as well, and for anything else
//!   for [`stages::MOST_IDLE_ASKING`] of its life at most: who is asked is at once idle again, so the one who asks is
//!   the stage, if those that wait for it do something for [`LEAST_PART`] of their lives.
//!
//! Goroutines have no thread of their own: those that began with one function are such a stage if their samples are
//! as many as one thread takes that runs for [`LEAST_TASK_BUSY`] to [`MOST_TASK_BUSY`] of the time (what other
//! programs took of the CPUs counts as if they had run), if it mostly runs alone ([`LEAST_TASK_ALONE`] of the
//! time), and others have [`LEAST_TASK_OTHERS`] of the samples: where it is a goroutine of its own and busy for
//! [`LEAST_TASK_WORKER`] of the time, [`LEAST_TASK_CALLERS`], for who asks a worker that is always busy does little
//! itself. Where nearly all that they do is done alone, others have to wait until a channel takes what they send:
//! else it is a serial phase. Where a lock costs time, goroutines that take turns at it look alike: then the lock
//! is told of.
//!
//! The severity is what the others waited, as a share of their lives, but not more than what the CPUs have left; of a
//! stage that computes, not more than the time in which a CPU was free and no thread wanted it.
//!
//! How it can be wrong: threads that wait for a thread because there is nothing else to do (a shell that waits for a
//! job) look alike.

use std::collections::{BTreeMap, BTreeSet};

use holdup_trace::Tid;

use super::alone;
use super::goroutines;
use super::stages::{self, Limiter};
use super::weigh::{self, MS, count, ns, part};
use super::{Cure, Finding, Kind, Rule, Subject};
use crate::facts::{AccountState, Blame, Facts, ThreadFacts};
use crate::names::Frame;

pub(super) const RULE: Rule = Rule {
    kind: Kind::SlowStage,
    judge,
    evidence: &["waited_share", "busy_share", "running_share", "blocked_share", "waiters", "waited_ns"],
};

pub(super) const MOST_IDLE: f64 = stages::MOST_IDLE;
pub(super) const LEAST_WAITED: f64 = 0.3;
pub(super) const LEAST_PATH: f64 = 0.5;
pub(super) const LEAST_TASK_BUSY: f64 = 0.7;
pub(super) const MOST_TASK_BUSY: f64 = 1.05;
pub(super) const LEAST_TASK_ALONE: f64 = 0.3;
pub(super) const LEAST_TASK_OTHERS: f64 = 0.15;
pub(super) const LEAST_TASK_WORKER: f64 = 0.85;
pub(super) const LEAST_TASK_CALLERS: f64 = 0.03;
pub(super) const LEAST_OF_PEER: f64 = 0.6;
pub(super) const LEAST_PART: f64 = 0.01;
const LEAST_NS: u64 = 20 * MS;
/// Who waits for less than one in so many parts of what another waits is no caller.
const LEAST_OF_LONGEST: u64 = 10;

fn judge(facts: &Facts) -> Vec<Finding> {
    let limiters = stages::limiters(facts);
    limiters.iter().find_map(|one| finding(facts, one)).or_else(|| of_tasks(facts)).into_iter().collect()
}

/// The same of goroutines.
fn of_tasks(facts: &Facts) -> Option<Finding> {
    let task = facts.tasks.first()?;
    let all: u64 = facts.tasks.iter().map(|task| task.samples).sum();
    let ran_share = weigh::share(task.samples * facts.header.sample_period_ns, facts.span_ns());
    let (idle_share, alone_share, _) = alone::runnable_shares(facts);
    let busy_share = ran_share.max((ran_share * weigh::displacement(facts)).min(1.0 - idle_share));
    let is_worker = task.function != "main.main" && busy_share >= LEAST_TASK_WORKER;
    let in_phases = weigh::share(task.alone, task.samples) >= super::serial_phase::LEAST_TASK_ALONE;
    let queued = goroutines::are_queued(facts);
    // All stages may begin with one function.
    let least_others = match (queued, is_worker) {
        (true, _) => 0.0,
        (false, true) => LEAST_TASK_CALLERS,
        (false, false) => LEAST_TASK_OTHERS,
    };
    let is_slow = (LEAST_TASK_BUSY..=MOST_TASK_BUSY).contains(&busy_share)
        && (is_worker || !in_phases || queued)
        && !takes_turns_at_a_lock(facts)
        && alone_share >= LEAST_TASK_ALONE
        && weigh::share(all - task.samples, all) >= least_others
        && facts.span_ns() >= LEAST_NS;
    is_slow.then(|| Finding {
        severity: alone_share.min(weigh::spare(facts)),
        subjects: vec![Subject::Function(task.function.clone())],
        place: Some(task.site.clone()),
        evidence: vec![
            part("waited_share", alone_share),
            part("busy_share", busy_share.min(1.0)),
            part("running_share", busy_share.min(1.0)),
            part("blocked_share", 0.0),
            count("waiters", (facts.threads.len() as u64).saturating_sub(1)),
            ns("waited_ns", (facts.span_ns() as f64 * alone_share) as u64),
        ],
        ..Finding::new(Kind::SlowStage, Cure::WidenStage, weigh::record_again())
    })
}

/// Goroutines that take turns at a mutex run one at a time, as if they were one.
fn takes_turns_at_a_lock(facts: &Facts) -> bool {
    weigh::contended(facts).any(|(_, lock)| weigh::wait_share(facts, lock) >= super::hot_lock::LEAST_WAIT_SHARE)
}

fn finding(facts: &Facts, limiter: &Limiter) -> Option<Finding> {
    let thread = facts.thread(limiter.tid)?;
    let waited_ns = limiter.work_ns + limiter.blocked_ns;
    let waited_share = weigh::share(waited_ns, stages::lives_ns(facts, &main_waiters(facts, limiter))).min(1.0);
    let idle = stages::idle_share_of(facts, limiter);
    let fed = stages::is_fed(facts, limiter) && stages::has_backlog(facts, limiter);
    let on_path = |tid| tid == limiter.tid || (limiter.mostly_asks() && limiter.asked.contains(&tid));
    let is_blocked = limiter.blocked_ns > limiter.work_ns;
    let by_clock = is_blocked && !fed;
    let is_slow = weigh::share(thread.life_ns(), facts.span_ns()) >= 0.5
        && idle <= if limiter.mostly_asks() { stages::MOST_IDLE_ASKING } else { MOST_IDLE }
        && waited_share >= LEAST_WAITED
        && waited_ns >= LEAST_NS
        && waited_ns > limiter.together_ns
        && weigh::path_share(facts, on_path).is_none_or(|share| share >= LEAST_PATH)
        && !by_clock
        && (!limiter.mostly_asks() || others_do_something(facts, limiter))
        && (is_blocked || (!has_peer(facts, thread) && asks_much(facts, limiter, thread)));
    if !is_slow {
        return None;
    }
    let account = &thread.account;
    let asking = stages::idle_share(thread) - idle;
    let blocked = account.share(AccountState::Sleep) + account.share(AccountState::Io) + asking;
    let place = if is_blocked { stages::blocked_at(facts, limiter) } else { None };
    Some(Finding {
        severity: if is_blocked { waited_share } else { waited_share.min(weigh::spare(facts)) },
        subjects: vec![weigh::thread_subject(facts, limiter.tid)],
        place: place.or_else(|| thread.hot_sites.first().cloned()).or_else(|| stages::waited_at(facts, limiter.tid)),
        evidence: vec![
            part("waited_share", waited_share),
            part("busy_share", 1.0 - idle),
            part("running_share", account.share(AccountState::Running)),
            part("blocked_share", blocked),
            count("waiters", limiter.waiters.len() as u64),
            ns("waited_ns", waited_ns),
        ],
        ..Finding::new(Kind::SlowStage, Cure::WidenStage, weigh::record_again())
    })
}

/// Those of the waiters that wait for it at least a tenth as long as the one that does so longest.
fn main_waiters(facts: &Facts, limiter: &Limiter) -> BTreeSet<Tid> {
    let is_it = |row: &&Blame| row.thread == limiter.tid || row.asker == Some(limiter.tid);
    let mut waited: BTreeMap<Tid, u64> = BTreeMap::new();
    for row in facts.blame.iter().filter(is_it).filter(|row| limiter.waiters.contains(&row.waiter)) {
        *waited.entry(row.waiter).or_default() += row.ns;
    }
    let most_ns = waited.values().copied().max().unwrap_or(0);
    waited.into_iter().filter(|(_, ns)| *ns >= most_ns.div_ceil(LEAST_OF_LONGEST)).map(|(tid, _)| tid).collect()
}

/// Whether those that wait are not idle all the while: who asks and is done with the answer at once is as fast as the
/// answers are.
fn others_do_something(facts: &Facts, limiter: &Limiter) -> bool {
    let lives = stages::lives_ns(facts, &limiter.waiters);
    let waiters = limiter.waiters.iter().filter_map(|tid| facts.thread(*tid));
    let idle_ns: f64 = waiters.map(|one| stages::idle_share(one) * one.life_ns() as f64).sum();
    idle_ns <= lives as f64 * (1.0 - LEAST_PART)
}

/// Whether those that wait do some of the work, or wait to hand something over.
fn asks_much(facts: &Facts, limiter: &Limiter, thread: &ThreadFacts) -> bool {
    let waiters = limiter.waiters.iter().filter_map(|tid| facts.thread(*tid));
    let part = weigh::share(waiters.map(|waiter| waiter.on_cpu_ns).sum(), thread.on_cpu_ns);
    part >= LEAST_PART || stages::has_queue(facts, limiter.tid)
}

/// Whether another thread runs mostly by the same call path, and about as long. Two that mostly run code without names
/// may well run the same.
fn has_peer(facts: &Facts, thread: &ThreadFacts) -> bool {
    let hottest = |thread: &ThreadFacts| {
        let site = thread.hot_sites.first()?;
        let path: Vec<_> = alone::functions(site).collect();
        let nameless = site.call_path.first().is_some_and(Frame::is_nameless_code);
        (nameless || !path.is_empty()).then_some((nameless, path))
    };
    let is_peer = |other: &&ThreadFacts| {
        other.tid != thread.tid && weigh::share(other.on_cpu_ns, thread.on_cpu_ns) >= LEAST_OF_PEER
    };
    let path = hottest(thread);
    path.is_some() && facts.threads.iter().filter(is_peer).any(|other| hottest(other) == path)
}
