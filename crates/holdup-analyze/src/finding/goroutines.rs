//! What goroutines wait for, weighed: no thread waits for it, so that the rules of threads and futexes do not see it.
//!
//! Goroutines that wait for sockets, for time or for work are no part of the working goroutines: only those that run,
//! could run, are in calls, wait for a mutex or for places in a channel, and those who keep them waiting.

use super::weigh::{self, count, part};
use super::{Cure, Finding, Kind, Subject, alone};
use crate::facts::{Facts, GoroutineFacts, GoroutineGroup, GoroutineHolder, GoroutineLock, GoroutineState, LockNumber};
use crate::names::{is_wait_for_group, leads_through};

/// Fewer looks tell nothing of how it mostly is.
const LEAST_LOOKS: u64 = 6;
/// With fewer than so many looks, more of them have to find somebody waiting.
const FEW_LOOKS: u64 = 20;
const LEAST_CONTENDED_OF_FEW: f64 = 0.6;
/// Somebody waits at so many of the looks.
const LEAST_CONTENDED: f64 = 0.3;
/// So many of the goroutines that should work wait.
const LEAST_WAITING: f64 = 0.2;
/// So many wait at a time, on average.
const LEAST_WAITERS: f64 = 0.5;
/// Who waits for ever is there at nearly all looks.
const LEAST_STEADY: f64 = 0.97;
/// Callers of a pool: at most looks there are several.
const LEAST_CALLERS: f64 = 2.0;
const LEAST_QUEUED: f64 = 0.5;
/// Who hands out work waits at so many of the looks.
const LEAST_HANDING_OUT: f64 = 0.8;
/// Of those that should work, so many are callers that wait.
const LEAST_WAITED: f64 = 0.3;
/// Somebody waits to send at so many looks.
const LEAST_SENDING: f64 = 0.3;
/// Nearly all samples of one function, and at nearly all looks.
const NEARLY_ALL: f64 = 0.9;
/// One is alone for so much of the time, and two are together for so much.
const MOSTLY_ALONE: f64 = 0.4;
const LEAST_TOGETHER: f64 = 0.03;
/// Of a herd, so many are awake at a time for each CPU, and so many have gone back to wait.
const LEAST_AWAKE_PER_CPU: f64 = 4.0;
const LEAST_BACK: f64 = 1.0;
/// Samples in what a herd costs, of all; and so many at least.
const LEAST_HERD_SAMPLES: f64 = 0.3;
const LEAST_SAMPLES: u64 = 50;
/// What waits on a condition, wakes all who do, and parks them again. None of them calls another.
const OF_HERDS: [&str; 3] = ["sync.(*Cond).Wait", "sync.(*Cond).Broadcast", "runtime.park_m"];

/// hot-lock, of mutexes that goroutines wait for.
pub(super) fn hot_locks(facts: &Facts) -> Vec<Finding> {
    let found = mutexes(facts).map(|(number, of, lock)| Finding {
        severity: severity(of, lock),
        place: lock.wait_sites.first().cloned(),
        subjects: vec![subject(number, lock)],
        evidence: evidence(of, lock),
        ..Finding::new(Kind::HotLock, Cure::ShortenSplitOrGate, weigh::record_again())
    });
    found.collect()
}

/// deadlock, of two mutexes or more whose holders nothing tells, and that the same number of goroutines waits for at
/// nearly all looks.
pub(super) fn deadlock(facts: &Facts) -> Option<Finding> {
    let is_steady = |lock: &GoroutineLock| {
        lock.contended >= LEAST_STEADY && lock.waiters >= LEAST_STEADY * lock.most as f64 && lock.holder.is_none()
    };
    let stuck: Vec<_> = mutexes(facts).filter(|(_, of, lock)| of.looks >= FEW_LOOKS && is_steady(lock)).collect();
    let goroutines: u64 = stuck.iter().map(|(.., lock)| lock.most).sum();
    (stuck.len() >= 2).then(|| Finding {
        severity: stuck.iter().map(|(.., lock)| lock.contended).fold(1.0, f64::min),
        subjects: stuck.iter().map(|(number, _, lock)| subject(*number, lock)).collect(),
        place: stuck[0].2.wait_sites.first().cloned(),
        evidence: vec![count("waiting_goroutines", goroutines)],
        ..Finding::new(Kind::Deadlock, Cure::LockInOrder, weigh::record_again())
    })
}

/// imbalance, of goroutines that began together: the last of them is alone for long.
pub(super) fn imbalance(facts: &Facts) -> Option<Finding> {
    of_last(facts).or_else(|| of_running(facts)).or_else(|| skewed(facts))
}

/// Senders wait for one receiver while others that began with the same function have nothing to receive: what is sent
/// is dealt out unevenly, by a key, say. If all received from one channel, nobody would have to wait.
fn skewed(facts: &Facts) -> Option<Finding> {
    let of = facts.goroutines.iter().find(|of| of.looks >= FEW_LOOKS)?;
    // Where one runs, looks do not tell; samples do.
    let all: u64 = facts.tasks.iter().map(|task| task.samples).sum();
    let task = facts.tasks.iter().max_by_key(|task| task.samples).filter(|task| task.samples * 2 >= all);
    let skewed = |lock: &GoroutineLock| {
        let (busy, working) = match &lock.holder {
            Some(holder) => (holder.sites.first()?, holder.mean),
            None => (&task?.site, 1.0),
        };
        let began = busy.began_with()?;
        let idles =
            |group: &&GoroutineGroup| group.state == GoroutineState::Receive && group.site.began_with() == Some(began);
        let idle: f64 = of.doing.iter().filter(idles).map(|group| group.mean).sum();
        let goroutines = idle + working;
        (lock.contended >= LEAST_SENDING && idle >= working).then(|| Finding {
            severity: lock.contended * idle / goroutines,
            place: Some(busy.clone()),
            subjects: weigh::function_subject(busy),
            evidence: vec![
                part("sending_share", lock.contended),
                count("idle_goroutines", rounded(idle)),
                count("goroutines", rounded(goroutines)),
            ],
            ..Finding::new(Kind::Imbalance, Cure::Rebalance, weigh::record_again())
        })
    };
    of.sends.iter().find_map(skewed)
}

/// Where a goroutine is that runs, looks do not tell. But nearly all samples may be of goroutines that began with one
/// function; two of them ran at a few looks, and mostly one does, while somebody waits for a wait group.
fn of_running(facts: &Facts) -> Option<Finding> {
    let (idle, alone_share, parallel) = alone::runnable_shares(facts);
    let task = facts.tasks.first()?;
    let all: u64 = facts.tasks.iter().map(|task| task.samples).sum();
    let of = facts.goroutines.iter().find(|of| of.looks >= FEW_LOOKS)?;
    let mean = |is: &dyn Fn(&GoroutineGroup) -> bool| -> f64 {
        of.doing.iter().filter(|group| is(group)).map(|group| group.mean).sum()
    };
    let waits = |group: &GoroutineGroup| leads_through(&group.site.call_path, is_wait_for_group);
    let is_last = weigh::share(task.samples, all) >= NEARLY_ALL
        && alone_share >= MOSTLY_ALONE
        && parallel >= LEAST_TOGETHER
        && idle <= 1.0 - NEARLY_ALL
        && mean(&|group| group.state == GoroutineState::Running) >= 1.0 + LEAST_TOGETHER
        && mean(&waits) >= NEARLY_ALL;
    is_last.then(|| Finding {
        severity: alone_share / 2.0,
        subjects: vec![Subject::Function(task.function.clone())],
        place: Some(task.site.clone()),
        evidence: vec![part("alone_share", alone_share)],
        ..Finding::new(Kind::Imbalance, Cure::Rebalance, weigh::record_again())
    })
}

fn of_last(facts: &Facts) -> Option<Finding> {
    let of = facts.goroutines.iter().find(|of| of.looks >= FEW_LOOKS && of.last.is_some())?;
    let last = of.last.as_ref()?;
    Some(Finding {
        severity: weigh::divided(last.alone, last.most.max(1)),
        place: Some(last.site.clone()),
        evidence: vec![part("alone_share", last.alone), count("goroutines", last.most)],
        ..Finding::new(Kind::Imbalance, Cure::Rebalance, weigh::record_again())
    })
}

/// sleeping-holder, of mutexes that goroutines wait for.
pub(super) fn sleeping_holders(facts: &Facts) -> Vec<Finding> {
    let held = mutexes(facts).filter(|(.., lock)| blocked_holder(lock).is_some());
    let found = held.map(|(number, of, lock)| Finding {
        severity: severity(of, lock),
        place: blocked_holder(lock).and_then(|holder| holder.sites.first()).cloned(),
        subjects: vec![subject(number, lock)],
        evidence: evidence(of, lock),
        ..Finding::new(Kind::SleepingHolder, Cure::MoveOutOfSection, weigh::record_again())
    });
    found.collect()
}

/// thundering-herd, of goroutines that one broadcast wakes: most are awake where they wait for the condition, wait for
/// its mutex there, and go back to wait.
pub(super) fn herds(facts: &Facts) -> Option<Finding> {
    let of = facts.goroutines.iter().find(|of| of.looks >= LEAST_LOOKS)?;
    let at_condition = |group: &&GoroutineGroup| {
        let mut names = group.site.call_path.iter().filter_map(|frame| frame.function.as_deref());
        names.any(|name| name == OF_HERDS[0])
    };
    let mean = |state| -> f64 {
        of.doing.iter().filter(at_condition).filter(|one| one.state == state).map(|one| one.mean).sum()
    };
    let (ready, relocking, back) =
        (mean(GoroutineState::Runnable), mean(GoroutineState::Mutex), mean(GoroutineState::Others));
    let costs = |name: &str| OF_HERDS.contains(&name);
    let samples = weigh::samples_below(facts, |frame| frame.function.as_deref().is_some_and(costs));
    let share = weigh::share(samples, weigh::samples(facts)).min(1.0);
    let is_herd = ready + relocking >= LEAST_AWAKE_PER_CPU * f64::from(facts.header.machine.cpus.max(1))
        && relocking >= LEAST_BACK
        && back >= LEAST_BACK
        && share >= LEAST_HERD_SAMPLES
        && samples >= LEAST_SAMPLES;
    let place = of.doing.iter().filter(at_condition).max_by(|a, b| a.mean.total_cmp(&b.mean))?.site.clone();
    is_herd.then(|| Finding {
        severity: weigh::of_work(facts, share),
        subjects: weigh::function_subject(&place),
        place: Some(place),
        evidence: vec![
            part("samples_share", share),
            count("awake_goroutines", rounded(ready + relocking)),
            count("goroutines", rounded(of.mean)),
        ],
        ..Finding::new(Kind::ThunderingHerd, Cure::WakeOne, weigh::record_again())
    })
}

/// small-pool, of goroutines that wait until a channel takes what they send, or where only so many may go on.
pub(super) fn small_pools(facts: &Facts) -> Vec<Finding> {
    let looked = || facts.goroutines.iter().filter(|of| of.looks >= LEAST_LOOKS);
    let entries = looked().flat_map(|of| of.entries.iter().filter_map(|lock| small_entry(of, lock)));
    let sends = looked().flat_map(|of| of.sends.iter().map(move |lock| (of, lock)));
    let asked = sends.filter_map(|(of, lock)| Some((of, lock, blocked_holder(lock)?)));
    let found = asked.filter_map(|(of, lock, workers)| Some((of, lock, workers, lost(of, lock, workers)?)));
    let found = found.map(|(of, lock, workers, severity)| Finding {
        severity,
        place: workers.sites.first().cloned(),
        subjects: workers.began.iter().map(|function| Subject::Function(function.to_string())).collect(),
        evidence: vec![
            part("waited_share", waiting(of, lock)),
            count("workers", rounded(workers.mean)),
            count("callers", rounded(lock.waiters)),
            count("goroutines", rounded(of.mean)),
        ],
        ..Finding::new(Kind::SmallPool, Cure::MoreWorkers, weigh::record_again())
    });
    found.chain(entries).collect()
}

/// Where several wait because only so many may go on at a time, who mostly wait themselves.
fn small_entry(of: &GoroutineFacts, lock: &GoroutineLock) -> Option<Finding> {
    let inside = blocked_holder(lock)?;
    let waited = lock.waiters / (lock.waiters + working(of) + inside.mean);
    let is_small = lock.contended >= LEAST_QUEUED.max(least_contended(of))
        && lock.waiters >= LEAST_CALLERS
        && lock.waiters > inside.mean
        && waited >= LEAST_WAITED;
    let place = lock.wait_sites.first()?;
    is_small.then(|| Finding {
        severity: waited * lock.contended,
        subjects: weigh::function_subject(place),
        place: inside.sites.first().cloned(),
        evidence: vec![
            part("waited_share", waited),
            count("entries", rounded(inside.mean)),
            count("callers", rounded(lock.waiters)),
            count("goroutines", rounded(of.mean)),
        ],
        ..Finding::new(Kind::SmallPool, Cure::MoreWorkers, weigh::record_again())
    })
}

/// What more workers would save of those who wait until a channel takes what they send: of several callers, all that
/// they wait, for who is served does not wait here; of one that hands out work the same, if the workers wait for
/// something that others do and not for time to pass.
fn lost(of: &GoroutineFacts, lock: &GoroutineLock, workers: &GoroutineHolder) -> Option<f64> {
    use GoroutineState::{Call, Network};
    let are_callers = lock.contended >= LEAST_QUEUED.max(least_contended(of))
        && lock.waiters >= LEAST_CALLERS
        && lock.waiters > workers.mean
        && waiting(of, lock) >= LEAST_WAITED;
    if are_callers {
        return Some(waiting(of, lock) * lock.contended);
    }
    (lock.contended >= LEAST_HANDING_OUT && matches!(workers.doing, Call | Network)).then_some(lock.contended)
}

/// Whether goroutines mostly wait until a channel takes what they send: what takes it does not keep up.
pub(super) fn are_queued(facts: &Facts) -> bool {
    let sends = facts.goroutines.iter().filter(|of| of.looks >= LEAST_LOOKS).flat_map(|of| &of.sends);
    sends.into_iter().any(|lock| lock.contended >= LEAST_QUEUED && lock.waiters >= LEAST_WAITERS)
}

/// The mutex that a finding is about, if it is one of goroutines. Their numbers follow those of the locks of threads.
pub fn lock_of_goroutines<'a>(facts: &'a Facts, finding: &Finding) -> Option<&'a GoroutineLock> {
    goroutine_lock(facts, weigh::lock_of(finding)?)
}

/// The mutex of goroutines with this number.
pub fn goroutine_lock(facts: &Facts, number: LockNumber) -> Option<&GoroutineLock> {
    all(facts).nth(number.index().checked_sub(facts.locks.len())?).map(|(_, lock)| lock)
}

fn all(facts: &Facts) -> impl Iterator<Item = (&GoroutineFacts, &GoroutineLock)> {
    facts.goroutines.iter().flat_map(|of| of.mutexes.iter().map(move |lock| (of, lock)))
}

fn mutexes(facts: &Facts) -> impl Iterator<Item = (LockNumber, &GoroutineFacts, &GoroutineLock)> {
    let numbers = (facts.locks.len() as u32..).map(LockNumber);
    let numbered = numbers.zip(all(facts)).map(|(number, (of, lock))| (number, of, lock));
    numbered.filter(|(_, of, lock)| {
        of.looks >= LEAST_LOOKS
            && lock.contended >= least_contended(of)
            && lock.waiters >= LEAST_WAITERS
            && waiting(of, lock) >= LEAST_WAITING
    })
}

fn least_contended(of: &GoroutineFacts) -> f64 {
    if of.looks < FEW_LOOKS { LEAST_CONTENDED_OF_FEW } else { LEAST_CONTENDED }
}

/// Those who keep goroutines waiting, if they do not run themselves.
pub fn blocked_holder(lock: &GoroutineLock) -> Option<&GoroutineHolder> {
    use GoroutineState::{Call, Network, Sleep};
    lock.holder.as_ref().filter(|holder| matches!(holder.doing, Sleep | Network | Call))
}

fn severity(of: &GoroutineFacts, lock: &GoroutineLock) -> f64 {
    waiting(of, lock).min(lock.contended)
}

/// The share of the working goroutines that waits for this.
fn waiting(of: &GoroutineFacts, lock: &GoroutineLock) -> f64 {
    let holding = blocked_holder(lock).filter(|holder| !works(holder.doing)).map_or(0.0, |holder| holder.mean);
    if working(of) > 0.0 { (lock.waiters / (working(of) + holding)).min(1.0) } else { 0.0 }
}

/// How many work, or should.
fn working(of: &GoroutineFacts) -> f64 {
    of.doing.iter().filter(|one| works(one.state)).map(|one| one.mean).sum()
}

fn works(state: GoroutineState) -> bool {
    use GoroutineState::{Call, Mutex, Runnable, Running, Send};
    matches!(state, Running | Runnable | Call | Mutex | Send)
}

fn subject(number: LockNumber, lock: &GoroutineLock) -> Subject {
    Subject::Lock { number, name: lock.name.clone(), addr: None, primitive: crate::Primitive::OtherLock }
}

fn evidence(of: &GoroutineFacts, lock: &GoroutineLock) -> Vec<super::Evidence> {
    vec![
        part("wait_share", waiting(of, lock)),
        part("contended_share", lock.contended),
        count("waiting_goroutines", rounded(lock.waiters)),
        count("goroutines", rounded(of.mean)),
    ]
}

fn rounded(mean: f64) -> u64 {
    mean.round().max(1.0) as u64
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::facts::{Code, LastGoroutine, LockName, Site, Task, Totals};
    use crate::names::{Frame, Role};

    fn facts(contended: f64, running: f64) -> Facts {
        let group = |state, mean| GoroutineGroup { state, mean, ..GoroutineGroup::default() };
        let holder = GoroutineHolder { mean: 1.0, doing: GoroutineState::Sleep, ..GoroutineHolder::default() };
        let name = LockName::Site("main.get".into());
        let (waiters, most) = (4.0 * contended, 4);
        let lock = GoroutineLock { name, waiters, most, contended, holder: Some(holder), ..GoroutineLock::default() };
        let doing = vec![
            group(GoroutineState::Mutex, waiters),
            group(GoroutineState::Sleep, 1.0),
            group(GoroutineState::Receive, 100.0),
            group(GoroutineState::Running, running),
        ];
        let looks = LEAST_LOOKS;
        let of = GoroutineFacts { looks, mean: 105.0, doing, mutexes: vec![lock], ..GoroutineFacts::default() };
        Facts { goroutines: vec![of], ..Facts::default() }
    }

    /// Goroutines that wait for a mutex, others that wait to send, and others that wait to enter.
    pub(in super::super) fn recordings() -> [Facts; 3] {
        let mut pool = facts(1.0, 0.0);
        let of = &mut pool.goroutines[0];
        of.doing[0].state = GoroutineState::Send;
        of.sends = std::mem::take(&mut of.mutexes);
        let mut entry = facts(1.0, 0.0);
        let of = &mut entry.goroutines[0];
        of.doing[0].state = GoroutineState::Receive;
        of.entries = std::mem::take(&mut of.mutexes);
        let call_path = vec![Frame::named("acquire", Role::Program)];
        of.entries[0].wait_sites = vec![Site { call_path, count: 1, ns: 0 }];
        [facts(1.0, 0.0), pool, entry]
    }

    #[test]
    fn a_mutex_is_told_of_if_many_of_the_working_goroutines_mostly_wait_for_it() {
        let held = facts(1.0, 0.0);
        let found = sleeping_holders(&held);
        assert_eq!((found[0].kind, found[0].severity), (Kind::SleepingHolder, 0.8));
        assert_eq!(lock_of_goroutines(&held, &found[0]).map(|lock| lock.most), Some(4));
        assert_eq!(hot_locks(&held).len(), 1, "which the other explains");
        assert_eq!(hot_locks(&facts(0.2, 0.0)).len(), 0, "mostly nobody waits");
        assert_eq!(hot_locks(&facts(1.0, 30.0)).len(), 0, "most of them work");
        let mut few = facts(1.0, 0.0);
        few.goroutines[0].looks = LEAST_LOOKS - 1;
        assert_eq!(hot_locks(&few).len() + sleeping_holders(&few).len(), 0, "too few looks");
        let mut unknown = facts(1.0, 0.0);
        unknown.goroutines[0].mutexes[0].holder = None;
        assert_eq!((sleeping_holders(&unknown).len(), hot_locks(&unknown).len()), (0, 1));
    }

    /// Goroutines wait for two mutexes at every look.
    pub(in super::super) fn stuck() -> Facts {
        let mut facts = facts(1.0, 0.0);
        let of = &mut facts.goroutines[0];
        of.looks = FEW_LOOKS;
        of.mutexes[0].holder = None;
        of.mutexes.push(of.mutexes[0].clone());
        facts
    }

    /// Of four goroutines the last is alone for half of the time.
    pub(in super::super) fn uneven() -> Facts {
        let last = LastGoroutine { most: 4, alone: 0.5, site: Site::default() };
        let of = GoroutineFacts { looks: FEW_LOOKS, last: Some(last), ..GoroutineFacts::default() };
        Facts { goroutines: vec![of], ..Facts::default() }
    }

    /// A call path of the program, innermost first.
    fn path(functions: &[&str]) -> Site {
        let call_path = functions.iter().map(|name| Frame::named(name, Role::Program)).collect();
        Site { call_path, ..Site::default() }
    }

    /// One of four goroutines gets all that is sent.
    pub(in super::super) fn one_gets_all() -> Facts {
        let sites = vec![path(&["main.post", "main.run"])];
        let holder = GoroutineHolder { mean: 1.0, sites, ..GoroutineHolder::default() };
        let sends = vec![GoroutineLock { contended: 0.5, holder: Some(holder), ..GoroutineLock::default() }];
        let idle = |mean, function| GoroutineGroup {
            state: GoroutineState::Receive,
            mean,
            site: path(&[function]),
            looking: None,
        };
        let doing = vec![idle(3.0, "main.run"), idle(5.0, "main.collect")];
        let of = GoroutineFacts { looks: FEW_LOOKS, doing, sends, ..GoroutineFacts::default() };
        Facts { goroutines: vec![of], ..Facts::default() }
    }

    #[test]
    fn senders_that_wait_for_one_while_its_like_have_nothing_to_do_deal_out_unevenly() {
        let found = imbalance(&one_gets_all()).expect("an imbalance");
        assert_eq!((found.severity, found.subjects), (0.375, vec![Subject::Function("main.post".to_owned())]));
        let not = |change: fn(&mut GoroutineFacts)| {
            let mut facts = one_gets_all();
            change(&mut facts.goroutines[0]);
            assert!(imbalance(&facts).is_none());
        };
        not(|of| of.looks = FEW_LOOKS - 1);
        not(|of| of.sends[0].contended = 0.29);
        not(|of| of.sends[0].holder = None);
        not(|of| of.doing[0].mean = 0.9);
        not(|of| of.doing[0].state = GoroutineState::Sleep);
        // It runs whenever somebody looks.
        let mut facts = one_gets_all();
        let holder = facts.goroutines[0].sends[0].holder.take().expect("a holder");
        facts.tasks = vec![Task { samples: 70, site: holder.sites[0].clone(), ..Task::default() }];
        facts.tasks.push(Task { samples: 30, site: path(&["main.feed"]), ..Task::default() });
        assert_eq!(imbalance(&facts).expect("an imbalance").severity, 0.375);
        facts.tasks[1].samples = 71;
        assert!(imbalance(&facts).is_none(), "the others work more");
    }

    /// One of two goroutines computes for ten times as long as the other.
    pub(in super::super) fn half_done() -> Facts {
        let mut facts = Facts { start_ns: 0, end_ns: 1_000, ..Facts::default() };
        facts.totals.runnable_ns = vec![0, 900, 100, 0];
        facts.tasks = vec![Task { function: "main.value.func1".to_owned(), samples: 100, ..Task::default() }];
        let group =
            |state, mean, functions: &[&str]| GoroutineGroup { state, mean, site: path(functions), looking: None };
        let waits = group(GoroutineState::Others, 1.0, &["sync.(*WaitGroup).Wait", "main.value"]);
        let doing = vec![group(GoroutineState::Running, 1.1, &[]), waits];
        facts.goroutines = vec![GoroutineFacts { looks: FEW_LOOKS, doing, ..GoroutineFacts::default() }];
        facts
    }

    #[test]
    fn one_of_two_goroutines_that_has_nearly_all_work_is_an_imbalance() {
        let found = imbalance(&half_done()).expect("an imbalance");
        assert_eq!((found.severity, found.subjects), (0.45, vec![Subject::Function("main.value.func1".to_owned())]));
        let not = |change: fn(&mut Facts)| {
            let mut facts = half_done();
            change(&mut facts);
            assert!(imbalance(&facts).is_none());
        };
        // Others run as well, so it may be the only one of its kind.
        not(|facts| facts.tasks.push(Task { samples: 12, ..Task::default() }));
        not(|facts| facts.goroutines[0].doing[0].mean = 1.02);
        not(|facts| facts.goroutines[0].doing.truncate(1));
        not(|facts| facts.totals.runnable_ns = vec![200, 700, 100, 0]);
        not(|facts| facts.totals.runnable_ns = vec![0, 300, 700, 0]);
    }

    #[test]
    fn even_work_of_goroutines_would_take_what_all_have_to_do_for_the_last() {
        let found = imbalance(&uneven()).expect("an imbalance");
        assert_eq!((found.kind, found.severity), (Kind::Imbalance, 0.375));
    }

    #[test]
    fn goroutines_that_wait_for_two_mutexes_for_ever_are_a_deadlock() {
        let goroutines = |change: fn(&mut GoroutineFacts)| {
            let mut facts = stuck();
            change(&mut facts.goroutines[0]);
            deadlock(&facts).map(|found| weigh::value(&found, "waiting_goroutines"))
        };
        assert_eq!(goroutines(|_| ()), Some(8.0));
        assert_eq!(goroutines(|of| of.looks = FEW_LOOKS - 1), None);
        assert_eq!(goroutines(|of| _ = of.mutexes.pop()), None, "it may have a holder that does something else");
        assert_eq!(goroutines(|of| of.mutexes[0].waiters = 3.8), None, "some come and go");
        assert_eq!(goroutines(|of| of.mutexes[0].contended = 0.9), None, "it is free at times");
    }

    #[test]
    fn a_pool_is_small_if_more_wait_to_send_than_serve() {
        let [_, mut pool, _] = recordings();
        let found = small_pools(&pool);
        assert_eq!((found[0].kind, weigh::value(&found[0], "workers")), (Kind::SmallPool, 1.0));
        pool.goroutines[0].sends[0].holder.as_mut().unwrap().mean = 4.0;
        assert_eq!(small_pools(&pool).len(), 0, "as many serve as wait");
        let lock = &mut pool.goroutines[0].sends[0];
        (lock.waiters, lock.contended) = (1.0, 0.9);
        lock.holder.as_mut().unwrap().doing = GoroutineState::Network;
        assert_eq!(small_pools(&pool)[0].severity, 0.9, "one hands out work, and nobody takes it");
        pool.goroutines[0].sends[0].contended = 0.79;
        assert_eq!(small_pools(&pool).len(), 0, "there are times when somebody does");
    }

    #[test]
    fn a_pool_is_small_if_more_wait_for_an_entry_than_have_one() {
        let [_, _, mut pool] = recordings();
        let found = small_pools(&pool);
        assert_eq!((found[0].kind, weigh::value(&found[0], "entries")), (Kind::SmallPool, 1.0));
        assert_eq!(found[0].subjects, [Subject::Function("acquire".to_owned())]);
        assert!((found[0].severity - 0.8).abs() < 1e-9, "four wait while one works: five could");
        pool.goroutines[0].entries[0].contended = 0.49;
        assert_eq!(small_pools(&pool).len(), 0, "mostly nobody waits");
        pool.goroutines[0].entries[0].contended = 1.0;
        pool.goroutines[0].entries[0].holder.as_mut().unwrap().doing = GoroutineState::Running;
        assert_eq!(small_pools(&pool).len(), 0, "those who have an entry compute");
    }

    /// Goroutines that wait in turn for one condition.
    pub(in super::super) fn herd() -> Facts {
        let call_path = vec![Frame::named("sync.(*Cond).Wait", Role::Lock), Frame::named("cross", Role::Program)];
        let site = Site { call_path, count: 0, ns: 0 };
        let group = |state, mean| GoroutineGroup { state, site: site.clone(), mean, looking: None };
        let doing = vec![
            group(GoroutineState::Runnable, 7.0),
            group(GoroutineState::Mutex, 1.0),
            group(GoroutineState::Others, 1.0),
        ];
        let of = GoroutineFacts { looks: LEAST_LOOKS, mean: 9.0, doing, ..GoroutineFacts::default() };
        let code = |name: &str, inclusive| Code { frame: Frame::named(name, Role::Lock), hits: 0, inclusive };
        let symbols = vec![code("sync.(*Cond).Wait", 20), code("runtime.park_m", 40), code("main.other", 100)];
        let totals = Totals { user_samples: 200, ..Totals::default() };
        let mut facts = Facts { goroutines: vec![of], symbols, totals, ..Facts::default() };
        facts.header.machine.cpus = 2;
        facts
    }

    #[test]
    fn a_herd_is_awake_where_it_waits_and_goes_back_to_wait() {
        let found = herds(&herd()).unwrap();
        assert_eq!((found.kind, weigh::value(&found, "awake_goroutines")), (Kind::ThunderingHerd, 8.0));
        assert_eq!(found.subjects, [Subject::Function("cross".to_owned())]);
        type Change = fn(&mut Facts);
        let cases: [(&str, Change); 6] = [
            ("few are awake", |facts| facts.goroutines[0].doing[0].mean = 6.9),
            ("nobody locks again", |facts| facts.goroutines[0].doing[1].mean = 0.9),
            ("nobody goes back", |facts| facts.goroutines[0].doing[2].mean = 0.9),
            ("it takes little", |facts| facts.totals.user_samples = 201),
            ("too few looks", |facts| facts.goroutines[0].looks = LEAST_LOOKS - 1),
            ("they wait elsewhere", |facts| facts.goroutines[0].doing[0].site = Site::default()),
        ];
        for (why, change) in cases {
            let mut facts = herd();
            change(&mut facts);
            assert!(herds(&facts).is_none(), "{why}");
        }
    }
}
