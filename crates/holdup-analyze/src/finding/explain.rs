//! Which finding explains which: a cause is printed, its consequences are not.
//!
//! Each row of [`TABLE`] says that a finding of the first kind explains one of the second, if the two are related as
//! the row's third part says. Explanations chain: what is itself explained still explains.

use std::collections::BTreeSet;

use holdup_trace::Tid;

use super::thundering_herd::is_wanted_by_herd;
use super::weigh::{self, allocates, lock_of, threads_of, value};
use super::{Cure, Finding, Kind, Subject, lock_of_goroutines};
use super::{alone, go_scheduler, hot_atomic, kernel_heavy, regions, runtime};
use crate::facts::{AccountState, Blame, Facts, LockFacts, Reason, Site, ThreadFacts};

type Related = fn(&Facts, &Finding, &Finding) -> bool;

/// Somebody waits for a lock for so much of the time, if it is held nearly always.
const MOSTLY_CONTENDED: f64 = 0.5;

/// (cause, consequence, when).
const TABLE: &[(Kind, Kind, Related)] = &[
    // Who waits for ever waits long.
    (Kind::Deadlock, Kind::HotLock, is_of_deadlock),
    (Kind::Deadlock, Kind::LockConvoy, is_of_deadlock),
    (Kind::Deadlock, Kind::SleepingHolder, is_of_deadlock),
    (Kind::Deadlock, Kind::Starvation, is_of_deadlock),
    (Kind::Deadlock, Kind::SmallPool, always),
    (Kind::Deadlock, Kind::SlowStage, always),
    // One lock, one finding: the one that says most about it.
    (Kind::LockConvoy, Kind::HotLock, same_lock),
    (Kind::SleepingHolder, Kind::HotLock, same_lock),
    (Kind::SleepingHolder, Kind::LockConvoy, holder_left_by_itself),
    (Kind::LockConvoy, Kind::SleepingHolder, holder_was_preempted),
    (Kind::SleepingHolder, Kind::HotLock, holders_wait_behind),
    (Kind::SleepingHolder, Kind::LockConvoy, holders_wait_behind),
    (Kind::PriorityInversion, Kind::HotLock, inverts_most),
    (Kind::PriorityInversion, Kind::LockConvoy, inverts_most),
    (Kind::PriorityInversion, Kind::SleepingHolder, inverts_most),
    (Kind::PriorityInversion, Kind::Oversubscription, always),
    (Kind::Oversubscription, Kind::SleepingHolder, only_preempted),
    // A mutex of Go is seen by what its goroutines wait for, and at times by threads that run out of goroutines.
    (Kind::LockConvoy, Kind::HotLock, is_of_same_goroutines),
    (Kind::HotLock, Kind::HotLock, is_of_same_goroutines),
    (Kind::SleepingHolder, Kind::HotLock, is_of_same_goroutines),
    (Kind::SleepingHolder, Kind::LockConvoy, shows_on_threads),
    (Kind::SleepingHolder, Kind::HotLock, shows_on_threads),
    (Kind::SleepingHolder, Kind::SleepingHolder, shows_on_threads),
    // What several have at once is no lock.
    (Kind::SmallPool, Kind::SleepingHolder, same_lock),
    (Kind::SmallPool, Kind::HotLock, same_lock),
    (Kind::SmallPool, Kind::LockConvoy, same_lock),
    // Whoever asks the threads that wait for it waits as well.
    (Kind::LockConvoy, Kind::SmallPool, workers_wait_for_lock),
    (Kind::HotLock, Kind::SmallPool, workers_wait_for_lock),
    (Kind::SleepingHolder, Kind::SmallPool, workers_wait_for_lock),
    // What waiting threads do to the figures of the whole program.
    (Kind::LockConvoy, Kind::ExcessiveSwitching, always),
    (Kind::LockConvoy, Kind::KernelHeavy, always),
    (Kind::LockConvoy, Kind::WastedWakeups, always),
    (Kind::LockConvoy, Kind::HotAtomic, is_in_a_lock),
    (Kind::LockConvoy, Kind::HotAtomic, is_on_the_lock),
    (Kind::LockConvoy, Kind::HotAtomic, is_within_sections),
    (Kind::LockConvoy, Kind::SpinWaste, is_on_the_lock),
    (Kind::LockConvoy, Kind::KernelLock, always),
    (Kind::LockConvoy, Kind::SpinWaste, spins_in_a_lock),
    (Kind::LockConvoy, Kind::PingPong, waits_of_pair_are_for_lock),
    (Kind::HotLock, Kind::ExcessiveSwitching, waits_are_switches),
    (Kind::HotLock, Kind::KernelHeavy, always),
    (Kind::HotLock, Kind::WastedWakeups, always),
    (Kind::HotLock, Kind::HotAtomic, is_in_a_lock),
    (Kind::HotLock, Kind::HotAtomic, is_on_the_lock),
    (Kind::HotLock, Kind::HotAtomic, is_within_sections),
    (Kind::HotLock, Kind::SpinWaste, is_on_the_lock),
    (Kind::HotLock, Kind::KernelLock, always),
    (Kind::HotLock, Kind::SpinWaste, spins_in_a_lock),
    (Kind::HotLock, Kind::PingPong, waits_of_pair_are_for_lock),
    (Kind::SleepingHolder, Kind::ExcessiveSwitching, waits_are_switches),
    (Kind::SleepingHolder, Kind::PingPong, waits_of_pair_are_for_lock),
    (Kind::SleepingHolder, Kind::SpinWaste, spins_in_a_lock),
    (Kind::SleepingHolder, Kind::HotAtomic, is_on_the_lock),
    (Kind::SleepingHolder, Kind::SpinWaste, is_on_the_lock),
    // Pairs and herds make the waits for the lock beside their condition variable.
    (Kind::PingPong, Kind::LockConvoy, lock_is_the_pairs_own),
    (Kind::PingPong, Kind::HotLock, lock_is_the_pairs_own),
    (Kind::PingPong, Kind::SleepingHolder, lock_is_the_pairs_own),
    (Kind::PingPong, Kind::ExcessiveSwitching, is_of_threads),
    (Kind::PingPong, Kind::KernelHeavy, always),
    (Kind::PingPong, Kind::WastedWakeups, always),
    (Kind::ThunderingHerd, Kind::LockConvoy, same_lock),
    (Kind::ThunderingHerd, Kind::HotLock, same_lock),
    (Kind::ThunderingHerd, Kind::LockConvoy, herd_waits_for_lock),
    (Kind::ThunderingHerd, Kind::HotLock, herd_waits_for_lock),
    (Kind::ThunderingHerd, Kind::SleepingHolder, herd_waits_for_lock),
    (Kind::ThunderingHerd, Kind::ExcessiveSwitching, always),
    (Kind::ThunderingHerd, Kind::KernelHeavy, always),
    (Kind::ThunderingHerd, Kind::WastedWakeups, always),
    (Kind::ThunderingHerd, Kind::PingPong, pair_is_of_herd),
    // What threads do in the kernel so often that its own locks are in the way; and what they do there because of that.
    (Kind::PingPong, Kind::KernelLock, always),
    (Kind::ThunderingHerd, Kind::KernelLock, always),
    (Kind::YieldStorm, Kind::KernelLock, always),
    (Kind::LostWakeups, Kind::Polling, always),
    (Kind::LostWakeups, Kind::HotLock, costs_more),
    (Kind::LostWakeups, Kind::LockConvoy, costs_more),
    (Kind::LostWakeups, Kind::SleepingHolder, costs_more),
    (Kind::LostWakeups, Kind::PingPong, costs_more),
    (Kind::LostWakeups, Kind::ExcessiveSwitching, always),
    (Kind::Polling, Kind::KernelLock, always),
    (Kind::MemoryLock, Kind::KernelLock, always),
    (Kind::PageFaults, Kind::KernelLock, always),
    (Kind::Allocator, Kind::KernelLock, always),
    (Kind::InterpreterLock, Kind::KernelLock, always),
    (Kind::WastedWakeups, Kind::KernelLock, always),
    (Kind::KernelLock, Kind::KernelHeavy, always),
    (Kind::KernelLock, Kind::ExcessiveSwitching, always),
    (Kind::KernelLock, Kind::IoBound, costs_more),
    // Each connection takes memory, and the kernel sets it up.
    (Kind::ConnectionChurn, Kind::GarbageCollection, costs_more),
    (Kind::ConnectionChurn, Kind::Allocator, costs_more),
    (Kind::ConnectionChurn, Kind::KernelHeavy, costs_more),
    (Kind::ConnectionChurn, Kind::ExcessiveSwitching, costs_more),
    // Objects are made for each message, and nobody can work while they are.
    (Kind::CopiedMessages, Kind::GarbageCollection, always),
    (Kind::CopiedMessages, Kind::InterpreterLock, sends_much),
    (Kind::InterpreterLock, Kind::CopiedMessages, sends_little),
    (Kind::CopiedMessages, Kind::Allocator, always),
    (Kind::CopiedMessages, Kind::PageFaults, always),
    (Kind::CopiedMessages, Kind::KernelHeavy, always),
    (Kind::CopiedMessages, Kind::ExcessiveSwitching, always),
    (Kind::CopiedMessages, Kind::PingPong, always),
    (Kind::CopiedMessages, Kind::SlowStage, costs_more),
    (Kind::CopiedMessages, Kind::SerialPhase, costs_more),
    (Kind::CopiedMessages, Kind::SmallPool, costs_more),
    // Too many threads for the CPUs that they may use.
    (Kind::CpuAffinity, Kind::Oversubscription, always),
    (Kind::CpuAffinity, Kind::ExcessiveSwitching, switches_for_want_of_cpus),
    (Kind::PriorityInversion, Kind::CpuAffinity, always),
    (Kind::CpuQuota, Kind::CpuAffinity, always),
    (Kind::CpuQuota, Kind::Oversubscription, always),
    (Kind::CpuQuota, Kind::PriorityInversion, always),
    (Kind::CpuQuota, Kind::ExcessiveSwitching, switches_for_want_of_cpus),
    // Stacks are mapped and unmapped for each thread that comes and goes.
    (Kind::ThreadChurn, Kind::MemoryLock, always),
    (Kind::ThreadChurn, Kind::PageFaults, always),
    (Kind::ThreadChurn, Kind::KernelLock, always),
    (Kind::ThreadChurn, Kind::KernelHeavy, always),
    (Kind::ThreadChurn, Kind::ExcessiveSwitching, always),
    (Kind::ThreadChurn, Kind::PingPong, always),
    (Kind::ThreadChurn, Kind::SlowStage, always),
    (Kind::ThreadChurn, Kind::SerialPhase, starts_at_once),
    (Kind::SerialPhase, Kind::ThreadChurn, starts_one_by_one),
    // Threads that want a CPU: those that spin want it for nothing.
    (Kind::SpinWaste, Kind::Oversubscription, spins_much),
    (Kind::SpinWaste, Kind::HotAtomic, spins_there),
    (Kind::SpinWaste, Kind::ExcessiveSwitching, yields),
    (Kind::SpinWaste, Kind::KernelHeavy, yields),
    (Kind::Oversubscription, Kind::ExcessiveSwitching, switches_for_want_of_cpus),
    (Kind::Oversubscription, Kind::SpinWaste, spin_for_each_other),
    // Threads that give the CPU away want it for nothing.
    (Kind::YieldStorm, Kind::SpinWaste, always),
    (Kind::YieldStorm, Kind::Oversubscription, always),
    (Kind::YieldStorm, Kind::ExcessiveSwitching, always),
    (Kind::YieldStorm, Kind::KernelHeavy, always),
    (Kind::LockConvoy, Kind::YieldStorm, is_in_a_lock),
    (Kind::LockConvoy, Kind::YieldStorm, same_place),
    (Kind::HotLock, Kind::YieldStorm, is_in_a_lock),
    (Kind::HotLock, Kind::YieldStorm, same_place),
    (Kind::SleepingHolder, Kind::YieldStorm, always),
    // What waits for a device, for memory or for a clock switches much and is in the kernel.
    (Kind::SleepingHolder, Kind::IoBound, holder_does_io),
    (Kind::IoBound, Kind::ExcessiveSwitching, always),
    (Kind::IoBound, Kind::KernelHeavy, always),
    (Kind::IoBound, Kind::SlowStage, costs_more),
    (Kind::IoBound, Kind::SmallPool, same_place),
    (Kind::IoBound, Kind::SmallPool, one_worker_does_it),
    (Kind::MemoryLock, Kind::PageFaults, always),
    (Kind::MemoryLock, Kind::ExcessiveSwitching, always),
    (Kind::MemoryLock, Kind::KernelHeavy, always),
    (Kind::PageFaults, Kind::KernelHeavy, always),
    (Kind::Allocator, Kind::ExcessiveSwitching, always),
    (Kind::Allocator, Kind::KernelHeavy, always),
    (Kind::Allocator, Kind::WastedWakeups, always),
    (Kind::Allocator, Kind::HotAtomic, is_in_the_allocator),
    (Kind::Allocator, Kind::SpinWaste, is_in_the_allocator),
    // How OpenMP's threads wait.
    (Kind::SerialPhase, Kind::SpinWaste, spin_for_each_other),
    (Kind::Imbalance, Kind::SpinWaste, spin_for_each_other),
    (Kind::Polling, Kind::PingPong, costs_more),
    (Kind::Polling, Kind::ExcessiveSwitching, always),
    (Kind::Polling, Kind::KernelHeavy, always),
    // Whoever has a lock stops with it.
    (Kind::SerialPhase, Kind::SleepingHolder, is_of_safepoints),
    (Kind::SerialPhase, Kind::SmallPool, is_of_safepoints),
    // One thread that the others wait for.
    (Kind::Imbalance, Kind::SerialPhase, does_the_same_work),
    (Kind::SerialPhase, Kind::Imbalance, does_work_of_its_own),
    (Kind::Imbalance, Kind::HotLock, waits_for_its_workers),
    (Kind::Imbalance, Kind::LockConvoy, waits_for_its_workers),
    (Kind::ThunderingHerd, Kind::SerialPhase, always),
    (Kind::ThunderingHerd, Kind::SlowStage, always),
    // Who is woken for nothing waits for work, or for the answer of another.
    (Kind::ThunderingHerd, Kind::SmallPool, costs_more),
    (Kind::SmallPool, Kind::ThunderingHerd, costs_more),
    (Kind::SerialPhase, Kind::SlowStage, costs_more),
    (Kind::SlowStage, Kind::SerialPhase, costs_more_than_calls),
    (Kind::SerialPhase, Kind::SlowStage, is_of_calls),
    (Kind::SerialPhase, Kind::Imbalance, is_of_calls),
    (Kind::SlowStage, Kind::Imbalance, is_no_share),
    (Kind::Imbalance, Kind::SlowStage, is_share),
    (Kind::SlowStage, Kind::ExcessiveSwitching, is_of_threads),
    // What goroutines hand over to each other shows on threads now and then.
    (Kind::ExcessiveSwitching, Kind::PingPong, hands_over),
    (Kind::ExcessiveSwitching, Kind::SlowStage, hands_over),
    // What Go's channels do with their locks is done for what goroutines do with the channels.
    (Kind::ExcessiveSwitching, Kind::HotLock, hands_over_in_channel),
    (Kind::ExcessiveSwitching, Kind::HotAtomic, hands_over_in_channel),
    (Kind::SpinWaste, Kind::ExcessiveSwitching, looks_into_channels),
    (Kind::SpinWaste, Kind::HotLock, is_in_channel),
    (Kind::SpinWaste, Kind::HotAtomic, is_in_channel),
    (Kind::SlowStage, Kind::PingPong, always),
    // How the others wait for it.
    (Kind::SlowStage, Kind::YieldStorm, always),
    (Kind::KernelHeavy, Kind::SlowStage, moves_little),
    (Kind::SmallPool, Kind::SlowStage, always),
    (Kind::SmallPool, Kind::SerialPhase, stops_for_no_safepoint),
    (Kind::SmallPool, Kind::ExcessiveSwitching, always),
    (Kind::SmallPool, Kind::PingPong, always),
    // Who sleeps there keeps others waiting, and looks for nothing.
    (Kind::SmallPool, Kind::Polling, same_place),
    (Kind::SlowStage, Kind::Polling, same_place),
    (Kind::SleepingHolder, Kind::Polling, same_place),
    (Kind::Starvation, Kind::HotLock, same_lock),
    (Kind::Starvation, Kind::LockConvoy, same_lock),
    (Kind::Starvation, Kind::SleepingHolder, same_lock),
    // Whatever the threads of an interpreter do, they take turns.
    (Kind::InterpreterLock, Kind::HotLock, costs_more_or_comes_first),
    (Kind::InterpreterLock, Kind::LockConvoy, costs_more_or_comes_first),
    (Kind::InterpreterLock, Kind::ExcessiveSwitching, always),
    (Kind::InterpreterLock, Kind::KernelHeavy, always),
    (Kind::InterpreterLock, Kind::WastedWakeups, always),
    (Kind::InterpreterLock, Kind::PingPong, always),
    (Kind::InterpreterLock, Kind::ThunderingHerd, always),
    (Kind::InterpreterLock, Kind::SlowStage, always),
    (Kind::InterpreterLock, Kind::SerialPhase, always),
    (Kind::InterpreterLock, Kind::Imbalance, always),
    (Kind::InterpreterLock, Kind::Oversubscription, always),
    // Java's machine stops all threads to collect: what they and its own threads then do is the collector's.
    // Whoever asks for a collection has the interpreter's lock all the while.
    (Kind::GarbageCollection, Kind::InterpreterLock, is_asked_for),
    (Kind::GarbageCollection, Kind::SerialPhase, is_of_collector),
    (Kind::GarbageCollection, Kind::SlowStage, is_of_collector),
    (Kind::GarbageCollection, Kind::SmallPool, is_of_collector),
    (Kind::GarbageCollection, Kind::PingPong, is_of_collector),
    (Kind::GarbageCollection, Kind::Imbalance, is_of_collector),
    (Kind::GarbageCollection, Kind::SleepingHolder, is_mostly_stopped),
    (Kind::GarbageCollection, Kind::LockConvoy, is_mostly_stopped),
    (Kind::GarbageCollection, Kind::HotLock, is_mostly_stopped),
    (Kind::GarbageCollection, Kind::Oversubscription, costs_more),
    (Kind::GarbageCollection, Kind::ThunderingHerd, always),
    (Kind::GarbageCollection, Kind::ExcessiveSwitching, always),
    // Calls for nothing and switches are what the kernel is busy with.
    (Kind::WastedWakeups, Kind::HotAtomic, is_in_a_lock),
    (Kind::WastedWakeups, Kind::KernelHeavy, always),
    (Kind::ExcessiveSwitching, Kind::KernelHeavy, always),
];

/// Keeps those that no other explains, and of those that explain each other in a circle the worst.
pub(super) fn leave_out_consequences(facts: &Facts, findings: Vec<Finding>) -> Vec<Finding> {
    let causes = |at: usize| {
        let others = (0..findings.len()).filter(move |other| *other != at);
        others.filter(|other| explains(facts, &findings[*other], &findings[at])).collect()
    };
    let causes: Vec<Vec<usize>> = (0..findings.len()).map(causes).collect();
    let mut kept: Vec<bool> = causes.iter().map(Vec::is_empty).collect();
    let mut settled = kept.clone();
    loop {
        while let Some(at) = (0..settled.len()).find(|at| !settled[*at] && causes[*at].iter().any(|one| settled[*one]))
        {
            settled[at] = true;
        }
        let Some(worst) = settled.iter().position(|settled| !settled) else { break };
        (kept[worst], settled[worst]) = (true, true);
    }
    findings.into_iter().zip(kept).filter(|(_, kept)| *kept).map(|(finding, _)| finding).collect()
}

fn explains(facts: &Facts, cause: &Finding, effect: &Finding) -> bool {
    let rows = TABLE.iter().filter(|(from, to, _)| *from == cause.kind && *to == effect.kind);
    rows.into_iter().any(|(_, _, related)| related(facts, cause, effect))
}

fn always(_: &Facts, _: &Finding, _: &Finding) -> bool {
    true
}

/// The lock is one of those that nobody will release.
fn is_of_deadlock(_: &Facts, cause: &Finding, effect: &Finding) -> bool {
    let locks = |finding: &Finding| -> Vec<_> { finding.subjects.iter().filter_map(weigh::number_of).collect() };
    locks(effect).iter().any(|lock| locks(cause).contains(lock))
}

fn same_lock(_: &Facts, cause: &Finding, effect: &Finding) -> bool {
    lock_of(cause).is_some() && lock_of(cause) == lock_of(effect)
}

/// More threads that wait for devices are a pool; one is where the program does its I/O.
fn one_worker_does_it(facts: &Facts, _: &Finding, pool: &Finding) -> bool {
    let does = |tid| facts.thread(tid).is_some_and(|thread| thread.account.share(AccountState::Io) >= 0.5);
    value(pool, "workers") == 1.0 && threads_of(pool).any(does)
}

/// The pool's workers mostly wait for the lock.
fn workers_wait_for_lock(facts: &Facts, cause: &Finding, pool: &Finding) -> bool {
    let Some(lock) = lock(facts, cause) else { return false };
    let waits = |tid| facts.thread(tid).is_some_and(|thread| lock.waited_by(tid) * 2 >= thread.life_ns());
    threads_of(pool).next().is_some() && threads_of(pool).all(waits)
}

/// The lock of threads is waited for where goroutines wait for theirs.
fn is_of_same_goroutines(facts: &Facts, threads: &Finding, of_goroutines: &Finding) -> bool {
    let function = |site: Option<&Site>| site.and_then(Site::caller).and_then(|frame| frame.function.clone());
    let one = lock(facts, threads).and_then(|lock| function(lock.wait_sites.first()));
    let other = lock_of_goroutines(facts, of_goroutines).and_then(|lock| function(lock.wait_sites.first()));
    one.is_some() && one == other
}

fn shows_on_threads(facts: &Facts, of_goroutines: &Finding, threads: &Finding) -> bool {
    is_of_same_goroutines(facts, threads, of_goroutines)
}

/// A stage is slow for the many calls that it makes.
fn moves_little(facts: &Facts, kernel: &Finding, stage: &Finding) -> bool {
    same_place(facts, kernel, stage) && kernel_heavy::moves_little(facts)
}

/// One thread alone waits for the busiest of several that share the work: for them to be done. Or the stage is the one
/// goroutine of several to which nearly all is sent, or the one thread of several that has all events.
fn is_share(_: &Facts, imbalance: &Finding, stage: &Finding) -> bool {
    let is_sent_all = value(imbalance, "idle_goroutines") > 0.0;
    let has_all = value(imbalance, "idle_threads") > 0.0;
    is_sent_all || threads_of(imbalance).eq(threads_of(stage)) && (has_all || value(stage, "waiters") <= 1.0)
}

fn is_no_share(facts: &Facts, stage: &Finding, imbalance: &Finding) -> bool {
    !is_share(facts, imbalance, stage)
}

/// Both are in one function.
fn same_place(_: &Facts, cause: &Finding, effect: &Finding) -> bool {
    cause.place.as_ref().zip(effect.place.as_ref()).is_some_and(|(one, other)| alone::is_same(one, other))
}

fn holder_left_by_itself(facts: &Facts, sleeper: &Finding, convoy: &Finding) -> bool {
    same_lock(facts, sleeper, convoy)
        && value(sleeper, "holders_off_share") >= value(sleeper, "holders_preempted_share")
}

fn holder_was_preempted(facts: &Facts, convoy: &Finding, sleeper: &Finding) -> bool {
    same_lock(facts, convoy, sleeper) && value(sleeper, "holders_off_share") < value(sleeper, "holders_preempted_share")
}

/// Whoever has the lock of the consequence mostly waits for the other one meanwhile.
fn holders_wait_behind(facts: &Facts, cause: &Finding, effect: &Finding) -> bool {
    let ahead = lock_of(effect).and_then(|other| weigh::lock_ahead(facts, other));
    ahead.is_some() && ahead == lock_of(cause)
}

fn only_preempted(_: &Facts, _: &Finding, sleeper: &Finding) -> bool {
    value(sleeper, "holders_off_share") < value(sleeper, "holders_preempted_share")
}

/// Goroutines that hand over are no threads that switch.
fn is_of_threads(facts: &Facts, cause: &Finding, switching: &Finding) -> bool {
    value(switching, "hand_over_share") == 0.0 || costs_more(facts, cause, switching)
}

fn hands_over(facts: &Facts, switching: &Finding, effect: &Finding) -> bool {
    value(switching, "hand_over_share") > 0.0 && costs_more(facts, switching, effect)
}

fn costs_more(_: &Facts, cause: &Finding, effect: &Finding) -> bool {
    (cause.severity, effect.kind) > (effect.severity, cause.kind)
}

/// An event loop does in calls what other threads could do beside it: no loop but those calls are to be changed.
fn is_of_calls(_: &Facts, serial: &Finding, _: &Finding) -> bool {
    serial.cure == Cure::CallAsynchronously
}

fn costs_more_than_calls(facts: &Facts, stage: &Finding, serial: &Finding) -> bool {
    !is_of_calls(facts, serial, stage) && costs_more(facts, stage, serial)
}

/// Holders of a lock mostly wait for another one.
fn costs_more_or_comes_first(facts: &Facts, cause: &Finding, effect: &Finding) -> bool {
    costs_more(facts, cause, effect) || lock(facts, effect).is_some_and(|lock| weigh::holding(lock).waiting >= 0.5)
}

/// Holders of the lock wait for devices.
fn holder_does_io(facts: &Facts, sleeper: &Finding, _: &Finding) -> bool {
    let doing = lock(facts, sleeper).map(|lock| &lock.holder_doing);
    doing.is_some_and(|doing| {
        let off: u64 = doing.off.values().sum();
        doing.off.get(&Reason::Io).is_some_and(|io| io * 2 >= off)
    })
}

/// The program asks for the collection itself.
fn is_asked_for(_: &Facts, collection: &Finding, _: &Finding) -> bool {
    collection.cure == Cure::CollectUnasked
}

/// Threads stop for Java's machine with the lock that others wait for.
fn is_of_safepoints(_: &Facts, serial: &Finding, holder: &Finding) -> bool {
    serial.cure == Cure::ReachSafepoints && value(serial, "alone_share") >= holder.severity
}

/// Threads are made one after the other while CPUs are idle: making them costs less than that nothing else goes on.
fn starts_one_by_one(facts: &Facts, serial: &Finding, _: &Finding) -> bool {
    serial.cure == Cure::StartSeveral && weigh::idle(facts) >= 0.5
}

fn starts_at_once(facts: &Facts, churn: &Finding, serial: &Finding) -> bool {
    !starts_one_by_one(facts, serial, churn)
}

fn stops_for_no_safepoint(facts: &Facts, pool: &Finding, serial: &Finding) -> bool {
    !is_of_safepoints(facts, serial, pool)
}

/// The busiest thread runs what the others run as well: it has more of the same, not something of its own.
fn does_the_same_work(facts: &Facts, imbalance: &Finding, serial: &Finding) -> bool {
    if is_of_calls(facts, serial, imbalance) {
        return false;
    }
    let Some(busiest) = threads_of(imbalance).next().and_then(|tid| facts.thread(tid)) else { return false };
    let others = facts.threads.iter().filter(|thread| thread.tid != busiest.tid && thread.pid == busiest.pid);
    let known: BTreeSet<_> = others.flat_map(|thread| &thread.hot_sites).flat_map(alone::functions).collect();
    busiest.hot_sites.first().is_none_or(|site| alone::functions(site).all(|function| known.contains(&function)))
}

/// Java stops all threads to collect garbage, and that is a good part of what they wait: whoever had a lock then kept
/// it.
fn is_mostly_stopped(facts: &Facts, collects: &Finding, effect: &Finding) -> bool {
    let of_lock = || facts.blame.iter().filter(|row| row.lock.is_some() && row.lock == lock_of(effect));
    let ends_there = |row: &&Blame| facts.thread(row.thread).is_some_and(|thread| runtime::collects(&thread.name));
    let (all, stopped): (u64, u64) =
        (of_lock().map(|row| row.ns).sum(), of_lock().filter(ends_there).map(|row| row.ns).sum());
    value(collects, "stopped_share") * 2.0 >= effect.severity || all > 0 && stopped * 2 >= all
}

fn is_of_collector(facts: &Facts, _: &Finding, effect: &Finding) -> bool {
    threads_of(effect).any(|tid| facts.thread(tid).is_some_and(|thread| runtime::collects(&thread.name)))
}

fn does_work_of_its_own(facts: &Facts, serial: &Finding, imbalance: &Finding) -> bool {
    !comes_in_rounds(imbalance) && !does_the_same_work(facts, imbalance, serial)
}

fn comes_in_rounds(imbalance: &Finding) -> bool {
    value(imbalance, "rounds_per_s") > 0.0
}

/// Nobody else waits for the lock: a worker has it while it works, and who gave it the work waits for that.
fn waits_for_its_workers(facts: &Facts, imbalance: &Finding, effect: &Finding) -> bool {
    let Some(lock) = lock(facts, effect) else { return false };
    let waits = |giver| weigh::share(lock.waited_by(giver), lock.wait_ns.sum_ns()) >= 0.9;
    comes_in_rounds(imbalance) && threads_of(imbalance).next().is_some_and(waits)
}

/// The inversions are a good part of all that was waited for the lock.
fn inverts_most(facts: &Facts, inversion: &Finding, effect: &Finding) -> bool {
    same_lock(facts, inversion, effect) && inversion.severity >= 0.3 * effect.severity
}

fn is_in_a_lock(_: &Facts, _: &Finding, effect: &Finding) -> bool {
    effect.place.as_ref().and_then(|site| site.call_path.first()).is_some_and(hot_atomic::takes_lock)
}

fn spins_in_a_lock(facts: &Facts, cause: &Finding, spin: &Finding) -> bool {
    is_in_a_lock(facts, cause, spin) && !is_in_channel(facts, cause, spin)
}

/// In the lock of one of Go's channels.
fn is_in_channel(_: &Facts, _: &Finding, effect: &Finding) -> bool {
    lock_of(effect).is_none() && effect.place.as_ref().is_some_and(go_scheduler::is_in_channel)
}

/// Whether so many messages are sent that it is their number, not their size, that costs.
fn sends_little(_: &Facts, interpreter: &Finding, _: &Finding) -> bool {
    const LEAST_PER_S: f64 = 3_000.0;
    interpreter.cure == Cure::LargerTasks && value(interpreter, "waits_per_s") >= LEAST_PER_S
}

fn sends_much(facts: &Facts, copied: &Finding, interpreter: &Finding) -> bool {
    !sends_little(facts, interpreter, copied)
}

fn looks_into_channels(_: &Facts, spin: &Finding, _: &Finding) -> bool {
    spin.cure == Cure::BlockInsteadOfLooking
}

fn hands_over_in_channel(facts: &Facts, switching: &Finding, effect: &Finding) -> bool {
    value(switching, "hand_over_share") > 0.0 && is_in_channel(facts, switching, effect)
}

/// The atomic instruction, or the loop, is on the word of the lock itself: in a function that takes it inline.
fn is_on_the_lock(facts: &Facts, cause: &Finding, effect: &Finding) -> bool {
    let variable = effect.subjects.iter().find_map(|subject| match subject {
        Subject::Variable(name) => Some(name),
        _ => None,
    });
    variable.is_some_and(|name| {
        cause.subjects.contains(&Subject::Variable(name.clone()))
            || lock(facts, cause).is_some_and(|lock| hot_atomic::is_word_of(name, lock))
    })
}

/// Plain instructions that write to a line in a function that takes the lock, or that is called from there, while
/// somebody waits for the lock most of the time: one thread after the other does so.
fn is_within_sections(facts: &Facts, cause: &Finding, effect: &Finding) -> bool {
    let Some(lock) = lock(facts, cause) else { return false };
    let taker = |site: &Site| site.caller().and_then(|frame| Some((frame.module.clone(), frame.function.clone()?)));
    let takers: BTreeSet<_> = lock.wait_sites.iter().filter_map(taker).collect();
    let frames = effect.place.iter().flat_map(|place| &place.call_path);
    let mut functions = frames.filter_map(|frame| Some((frame.module.clone(), frame.function.clone()?)));
    value(effect, "line_words") > 0.0
        && weigh::share(lock.contended_ns, facts.span_ns()) >= MOSTLY_CONTENDED
        && functions.any(|function| takers.contains(&function))
}

fn spin_for_each_other(facts: &Facts, _: &Finding, _: &Finding) -> bool {
    regions::spin(facts)
}

fn is_in_the_allocator(_: &Facts, _: &Finding, effect: &Finding) -> bool {
    let frames = effect.place.iter().flat_map(|site| &site.call_path).take(6);
    frames.filter_map(|frame| frame.function.as_deref()).any(allocates)
}

fn waits_are_switches(facts: &Facts, cause: &Finding, effect: &Finding) -> bool {
    let waits = lock(facts, cause).map_or(0, |lock| lock.waits);
    waits as f64 * 2.0 >= value(effect, "switches") && !hands_over_in_channel(facts, effect, cause)
}

/// Threads are switched out, or meet at a barrier: of the finding about that, the cost is that of the switches.
fn switches_for_want_of_cpus(_: &Facts, cause: &Finding, effect: &Finding) -> bool {
    let at_barriers = value(cause, "hungry_threads") > 0.0 && value(cause, "delay_share") == 0.0;
    at_barriers || value(effect, "involuntary_share") >= 0.5
}

fn waits_of_pair_are_for_lock(facts: &Facts, cause: &Finding, pair: &Finding) -> bool {
    lock(facts, cause).is_some_and(|lock| waits_of(lock, pair) as f64 >= value(pair, "round_trips"))
}

fn lock_is_the_pairs_own(facts: &Facts, pair: &Finding, effect: &Finding) -> bool {
    let two: BTreeSet<Tid> = threads_of(pair).collect();
    lock(facts, effect).is_some_and(|lock| {
        lock.waiters.iter().all(|(tid, _)| two.contains(tid))
            && (waits_of(lock, pair) as f64) < value(pair, "round_trips")
    })
}

/// Waits of a pair's threads for a lock.
fn waits_of(lock: &LockFacts, pair: &Finding) -> u64 {
    let two: BTreeSet<Tid> = threads_of(pair).collect();
    lock.waiters.iter().filter(|(tid, _)| two.contains(tid)).map(|(_, off)| off.count).sum()
}

fn herd_waits_for_lock(facts: &Facts, herd: &Finding, effect: &Finding) -> bool {
    let (Some(herd), Some(lock)) = (lock(facts, herd), lock(facts, effect)) else { return false };
    is_wanted_by_herd(herd, lock)
}

fn pair_is_of_herd(facts: &Facts, herd: &Finding, pair: &Finding) -> bool {
    let woken = |tid: Tid| lock(facts, herd).is_some_and(|lock| lock.waiters.iter().any(|(waiter, _)| *waiter == tid));
    threads_of(pair).any(woken)
}

/// They spin until the others come, who have no CPU: then it is the other way round.
fn spins_much(facts: &Facts, spin: &Finding, over: &Finding) -> bool {
    let much = spin.severity >= 0.3 || value(spin, "spin_share") >= 0.5;
    (much || fits_without_spinners(facts, over) || same_place(facts, spin, over)) && !regions::spin(facts)
}

/// Without the threads that do nothing but spin, there are enough CPUs for the others.
fn fits_without_spinners(facts: &Facts, over: &Finding) -> bool {
    let spins =
        |thread: &&ThreadFacts| thread.spun_ns * 5 >= thread.on_cpu_ns * 4 && thread.on_cpu_ns * 4 >= thread.life_ns();
    let spinners = facts.threads.iter().filter(spins).count() as f64;
    let others = value(over, "hungry_threads") - spinners;
    spinners > 0.0 && others >= 1.0 && others <= value(over, "cpus")
}

/// The atomic instruction is in the function that spins.
fn spins_there(_: &Facts, spin: &Finding, atomic: &Finding) -> bool {
    let function = |finding: &Finding| {
        let frame = finding.place.as_ref()?.call_path.first()?;
        frame.function.clone()
    };
    function(spin).is_some() && function(spin) == function(atomic)
}

fn yields(_: &Facts, spin: &Finding, _: &Finding) -> bool {
    value(spin, "yields") > 0.0
}

fn lock<'a>(facts: &'a Facts, finding: &Finding) -> Option<&'a LockFacts> {
    lock_of(finding).and_then(|number| facts.lock(number))
}
