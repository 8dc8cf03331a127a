//! What all rules weigh with: the working time of threads, shares and rates, and the making of evidence.

use std::collections::{BTreeMap, BTreeSet};

use holdup_trace::{Pid, Tid};

use super::{Command, Evidence, Finding, Kind, Moment, Subject, Unit};
use crate::facts::{
    Account, AccountState, Blame, Facts, Hotspot, Leaf, LockFacts, LockNumber, OffTime, Primitive, ProcessFacts,
    Reason, Site, ThreadFacts, Wakings,
};
use crate::names::{Frame, Role, leads_through, takes_mutex_of_runtime};

/// A microsecond in nanoseconds.
pub(super) const US: u64 = 1_000;

/// A millisecond in nanoseconds.
pub(super) const MS: u64 = 1_000_000;

/// A second in nanoseconds.
pub(super) const S: u64 = 1_000_000_000;

/// What a switch costs beside the work: the system call, the scheduler, the wake-up of the other, and caches that are
/// cold afterwards. Two to ten microseconds on today's machines; only estimates of severity use it, and no rule shows
/// it as measured.
pub(super) const SWITCH_NS: u64 = 5 * US;

/// What a system call costs that does nothing: 0.2 to 1 us.
pub(super) const CALL_NS: u64 = 500;

/// Most moments that a finding names.
const MOST_MOMENTS: usize = 8;
/// Fewer samples tell nothing of shares.
const LEAST_SAMPLES: u64 = 100;

/// The time that the threads were there to work, the denominator of the severities of waiting: CPU time, waits for
/// locks and devices, and time without a CPU for want of CPUs, but not what they idled by design (condition variables,
/// poll, sleep, join) nor in calls that are not known. At least the length of the recording, so that in an idle program
/// a trifle is not half of next to nothing. What other programs on the machine took is not counted: it says nothing
/// about this one.
pub(super) fn work_ns(facts: &Facts) -> u64 {
    let waits: u64 = facts.threads.iter().map(|thread| thread.on_cpu_ns + waiting_ns(thread)).sum();
    (waits + preempted_ns(facts)).max(facts.span_ns())
}

/// The part of that time that goes by in waits for devices.
pub(super) fn of_devices(facts: &Facts) -> f64 {
    let io = facts.threads.iter().filter_map(|thread| thread.off.get(&Reason::Io)).map(|time| time.ns);
    share(io.sum(), work_ns(facts))
}

/// The time that threads had something to do, waits for each other included: the denominator where waiting for work is
/// to blame as well. Waits that end outside the program, or in a thread that only lets time pass, are not part of it.
pub(super) fn demand_ns(facts: &Facts) -> u64 {
    let own = |account: &Account| {
        account.of(AccountState::Running) + account.of(AccountState::Spinning) + account.of(AccountState::CpuOwn)
    };
    let busy: u64 = facts.threads.iter().map(|thread| own(&thread.account)).sum();
    let waits: u64 = facts.blame.iter().filter(|row| is_demand(facts, row)).map(|row| row.ns).sum();
    (busy + waits).max(facts.span_ns())
}

/// Whether a wait comes from what the program does.
fn is_demand(facts: &Facts, row: &Blame) -> bool {
    match row.leaf {
        Leaf::Running | Leaf::Yielding | Leaf::Cpu | Leaf::Io | Leaf::Memory => true,
        Leaf::Sleep => is_for_lock(facts, row),
        Leaf::OtherPrograms | Leaf::Outside | Leaf::Unknown => false,
    }
}

/// Whether a branch of the blame is a wait for a lock.
pub(super) fn is_for_lock(facts: &Facts, row: &Blame) -> bool {
    row.lock.and_then(|lock| facts.lock(lock)).is_some_and(|lock| lock.primitive.is_contention())
}

/// The part of the CPUs' time that the program had no use for, or wasted: no cure of waiting can win more. `None` if
/// that is not known.
pub(super) fn slack(facts: &Facts) -> Option<f64> {
    let (capacity_ns, user_ns) = (capacity_ns(facts)?, user_ns(facts)?);
    let all = samples(facts).max(1);
    let working = 1.0 - share(crate::spinning::hits(facts), all).min(1.0);
    Some((1.0 - user_ns as f64 * working / capacity_ns as f64).clamp(0.0, 1.0))
}

/// Whether threads that wait for others mostly wait for those to sleep, while half of the CPUs' time is left: work
/// comes by the clock, and what it costs to do it makes nothing take longer.
pub(super) fn is_paced(facts: &Facts) -> bool {
    const MOSTLY: f64 = 0.8;
    const MOST_BUSY: f64 = 0.5;
    let is_end =
        |row: &Blame| row.lock.and_then(|lock| facts.lock(lock)).is_some_and(|lock| lock.primitive == Primitive::Join);
    let rows = || facts.blame.iter().filter(|row| row.waiter != row.thread && !is_end(row));
    let asleep_ns: u64 = rows().filter(|row| row.leaf == Leaf::Sleep).map(|row| row.ns).sum();
    let all_ns: u64 = rows().map(|row| row.ns).sum();
    let left = capacity_ns(facts).is_some_and(|capacity_ns| share(cpu_ns(facts), capacity_ns) <= MOST_BUSY);
    left && all_ns > 0 && asleep_ns as f64 >= MOSTLY * all_ns as f64
}

/// The part of the CPUs' time that the program had no use for at all: neither ran a thread then, nor wanted to. Work
/// that its threads do on CPUs that are full goes no faster on more threads.
pub(super) fn spare(facts: &Facts) -> f64 {
    let wanted: u64 = facts.threads.iter().map(|thread| thread.account.of(AccountState::CpuOwn)).sum();
    capacity_ns(facts).map_or(0.0, |capacity_ns| 1.0 - share(cpu_ns(facts) + wanted, capacity_ns).min(1.0))
}

/// What can be won at most where threads wait for a lock: time in which CPUs ran nothing of the program, for threads
/// that wait while others of it use all CPUs lose nothing to it, and what the waits themselves cost: spinning, and the
/// switches that they make or the kernel's work on them.
pub(super) fn room(facts: &Facts, finding: &Finding) -> f64 {
    let waits = matches!(finding.kind, Kind::HotLock | Kind::LockConvoy | Kind::SleepingHolder)
        && !finding.is_of_refused_calls();
    let lock =
        lock_of(finding).and_then(|number| facts.lock(number)).filter(|_| waits && facts.header.machine.cpus > 0);
    let Some(lock) = lock else { return 1.0 };
    let switches = switching(facts, 2 * lock.waits);
    let in_kernel = of_futexes(facts) * share(cpu_ns(facts), cpus_ns(facts));
    let spun = share(crate::spinning::hits(facts), samples(facts).max(1));
    idle(facts) + spun + switches.max(in_kernel)
}

/// The part of the CPUs' time that so many switches take.
pub(super) fn switching(facts: &Facts, switches: u64) -> f64 {
    share(switches * SWITCH_NS, cpus_ns(facts))
}

/// The part of the CPUs' time in which the program ran nothing.
pub(super) fn idle(facts: &Facts) -> f64 {
    capacity_ns(facts).map_or(0.0, |capacity_ns| 1.0 - share(cpu_ns(facts), capacity_ns).min(1.0))
}

/// The part of the CPU time that surely goes to functions which do the program's work: neither to the kernel, nor to
/// what waits, spins, allocates or schedules, as far as samples tell.
pub(super) fn useful(facts: &Facts) -> f64 {
    let works = |frame: &Frame| {
        let of_go = |function: &str| function.starts_with("runtime.") || function.starts_with("internal/runtime/");
        matches!(frame.role, Role::Program | Role::Runtime)
            && frame.function.as_deref().is_none_or(|function| !allocates(function) && !of_go(function))
    };
    at_least(share_in(facts, works), samples(facts)) * sampled_share(facts)
}

/// The part of the CPU time in code that is neither a library's nor the kernel's.
pub(super) fn of_program(facts: &Facts) -> f64 {
    at_least(share_in(facts, |frame| frame.role == Role::Program), samples(facts)) * sampled_share(facts)
}

/// The part of the CPU time that the function of a finding's place takes itself.
pub(super) fn own_share(facts: &Facts, finding: &Finding) -> f64 {
    let function = finding.place.as_ref().and_then(Site::caller).and_then(|frame| frame.function.as_ref());
    let is_it = |frame: &Frame| function.is_some() && frame.function.as_ref() == function;
    if samples(facts) < LEAST_SAMPLES { 0.0 } else { share_in(facts, is_it) * sampled_share(facts) }
}

/// The part of the CPU time that waits take at most: in the functions of locks, spinning, and in the kernel for
/// futexes; all of the kernel's where no samples tell what it does.
pub(super) fn waiting_cost(facts: &Facts) -> f64 {
    let others = share_in(facts, |frame| frame.role != Role::Lock) - of_futexes(facts);
    1.0 - at_least(others.max(0.0), samples(facts)) * sampled_share(facts)
}

/// The part of the CPU time that goes with a finding's lock inside the C library: in the functions of the library that
/// take it, as the program calls them, and in what these call. Who calls them less saves all of it.
pub(super) fn of_calls(facts: &Facts, finding: &Finding) -> f64 {
    let lock = lock_of(finding).and_then(|number| facts.lock(number));
    let Some(lock) = lock.filter(|lock| lock.primitive == Primitive::Libc) else { return 0.0 };
    let called = |site: &Site| {
        let program = site.call_path.iter().position(|frame| frame.role == Role::Program)?;
        site.call_path[..program].last()?.function.clone()
    };
    let functions: BTreeSet<_> = lock.wait_sites.iter().filter_map(called).collect();
    let is_called = |frame: &Frame| frame.function.as_ref().is_some_and(|name| functions.contains(name));
    share(samples_below(facts, is_called), samples(facts)).min(1.0) * sampled_share(facts)
}

/// The part of the samples in the kernel's work on futexes.
fn of_futexes(facts: &Facts) -> f64 {
    share(facts.futex_sites.iter().map(|site| site.count).sum(), samples(facts))
}

/// Samples in such functions and in what these call, where none of them calls another.
pub(super) fn samples_below(facts: &Facts, is: impl Fn(&Frame) -> bool) -> u64 {
    facts.symbols.iter().filter(|code| is(&code.frame)).map(|code| code.inclusive).sum()
}

/// Whether a name is that of a function, with or without its arguments: `runtime.gcDrain` is no beginning of
/// `runtime.gcDrainN`, but V8's functions have arguments behind.
pub(super) fn is_function(name: &str, start: &str) -> bool {
    name.strip_prefix(start).is_some_and(|rest| rest.is_empty() || rest.starts_with(['(', '<', '.', ' ']))
}

/// Whether a frame is of one of these functions.
pub(super) fn is_any(frame: &Frame, functions: &[&str]) -> bool {
    frame.function.as_deref().is_some_and(|name| functions.iter().any(|start| is_function(name, start)))
}

/// Of the functions of the program below which such a function was sampled, the one with most samples; else any.
pub(super) fn hottest_below(facts: &Facts, is: impl Fn(&Frame) -> bool) -> Option<&Site> {
    let sites = facts.threads.iter().flat_map(|thread| &thread.hot_sites);
    let below = sites.filter(|site| site.call_path.iter().any(&is));
    below.max_by_key(|site| (site.is_by_program(), site.count))
}

/// A finding about what takes so many of the CPU samples, if these are a hundred and the share is enough.
pub(super) fn taken(
    facts: &Facts,
    hits: u64,
    (name, least): (&'static str, f64),
    place: impl FnOnce() -> Option<Site>,
    finding: Finding,
) -> Option<Finding> {
    const LEAST_HITS: u64 = 100;
    let share = share(hits, samples(facts)).min(1.0);
    (hits >= LEAST_HITS && share >= least).then(|| {
        let place = place();
        Finding {
            severity: of_work(facts, share),
            subjects: place.as_ref().map_or_else(Vec::new, function_subject),
            place,
            evidence: vec![part(name, share), count("samples", hits)],
            ..finding
        }
    })
}

/// The part of the samples in such functions, where they do not spin. All of too few.
fn share_in(facts: &Facts, is: impl Fn(&Frame) -> bool) -> f64 {
    let all = samples(facts);
    if all < LEAST_SAMPLES {
        return 1.0;
    }
    let there: u64 = facts.symbols.iter().filter(|code| is(&code.frame)).map(|code| code.hits).sum();
    let places = crate::spinning::spinning(facts);
    let spinning: u64 = places.values().filter(|(frame, _)| is(frame)).map(|(_, hits)| hits).sum();
    share(there.saturating_sub(spinning), all).min(1.0)
}

/// What a share of so many samples is at least: two standard errors below it.
fn at_least(part: f64, samples: u64) -> f64 {
    (part - 2.0 * (part * (1.0 - part) / samples.max(1) as f64).sqrt()).max(0.0)
}

/// The part of the CPU time that is not the kernel's.
pub(super) fn outside_kernel(facts: &Facts) -> f64 {
    user_ns(facts).map_or(1.0, |user_ns| share(user_ns, cpu_ns(facts)).min(1.0))
}

/// The time of all CPUs.
fn cpus_ns(facts: &Facts) -> u64 {
    facts.span_ns() * u64::from(facts.header.machine.cpus)
}

/// The time of all CPUs without what other programs took of it. `None` if nothing is left.
fn capacity_ns(facts: &Facts) -> Option<u64> {
    cpus_ns(facts).checked_sub(all_displaced_ns(facts)).filter(|ns| *ns > 0)
}

/// CPU time outside the kernel, where it is known.
fn user_ns(facts: &Facts) -> Option<u64> {
    let cpu_ns = cpu_ns(facts);
    if let Some(kernel) = facts.totals.kernel_samples.filter(|_| samples(facts) >= 100) {
        return Some(cpu_ns - (cpu_ns as f64 * share(kernel, samples(facts)).min(1.0)) as u64);
    }
    let (user_ns, kernel_ns) = facts.ending.as_ref()?.cpu_ns()?;
    let counted_ns = user_ns.saturating_add(kernel_ns);
    // Looks do not find exactly when threads end: those that do not live long seem to run for longer than they did.
    let cpu_ns = if facts.header.is_sampled() { cpu_ns.min(counted_ns) } else { cpu_ns };
    (counted_ns > 0).then(|| (cpu_ns as f64 * share(user_ns, counted_ns)) as u64)
}

/// The part of the CPU time that samples stand for: without rights, none is taken in the kernel.
pub(super) fn sampled_share(facts: &Facts) -> f64 {
    match facts.totals.kernel_samples {
        Some(_) => 1.0,
        None => user_ns(facts).map_or(1.0, |user_ns| share(user_ns, cpu_ns(facts)).min(1.0)),
    }
}

/// A share of CPU time as a share of the threads' working time.
pub(super) fn of_work(facts: &Facts, cpu_share: f64) -> f64 {
    cpu_share * share(cpu_ns(facts), work_ns(facts)).min(1.0)
}

/// Whether the path says what the elapsed time is made of: the program ended, and mostly had something to do.
pub(super) fn path_tells(facts: &Facts) -> bool {
    let busy = |leaf: Leaf| matches!(leaf, Leaf::Running | Leaf::Yielding | Leaf::Cpu | Leaf::Io | Leaf::Memory);
    let others = |leaf: Leaf| leaf == Leaf::OtherPrograms;
    let sum = |is: &dyn Fn(Leaf) -> bool| {
        facts.path.parts.iter().filter(|part| is(part.leaf)).map(|part| part.ns).sum::<u64>()
    };
    let ended = facts.threads.iter().any(|thread| thread.exited && thread.tid.0 == thread.pid.0);
    ended && sum(&busy) * 2 >= facts.span_ns().saturating_sub(sum(&others))
}

/// The share of the elapsed time in which the path is with these threads. `None` if it does not tell: a program whose
/// first thread sleeps or waits for the outside until it is over runs for as long as that takes.
pub(super) fn path_share(facts: &Facts, is: impl Fn(Tid) -> bool) -> Option<f64> {
    let by_clock = |leaf: Leaf| matches!(leaf, Leaf::Sleep | Leaf::Outside | Leaf::Unknown);
    let is_first = |tid: Tid| facts.processes.iter().any(|process| process.pid.0 == tid.0);
    let idle = facts.path.parts.iter().filter(|part| by_clock(part.leaf) && is_first(part.thread));
    if facts.path.parts.is_empty() || idle.map(|part| part.ns).sum::<u64>() * 2 >= facts.span_ns() {
        return None;
    }
    let on = facts.path.parts.iter().filter(|part| is(part.thread)).map(|part| part.ns).sum();
    Some(share(on, facts.span_ns()))
}

/// What share of the elapsed time is on the path in this way; of the demand if the path does not tell.
pub(super) fn elapsed_share(facts: &Facts, leaf: Leaf) -> f64 {
    if path_tells(facts) {
        let of =
            |leaf: Leaf| facts.path.parts.iter().filter(move |part| part.leaf == leaf).map(|part| part.ns).sum::<u64>();
        return share(of(leaf), facts.span_ns().saturating_sub(of(Leaf::OtherPrograms))).min(1.0);
    }
    let ns: u64 = facts.blame.iter().filter(|row| row.leaf == leaf).map(|row| row.ns).sum();
    share(ns, demand_ns(facts)).min(1.0)
}

/// The place that most time of such waits comes from, with the thread that is there.
pub(super) fn worst_site(facts: &Facts, is: impl Fn(&Blame) -> bool) -> Option<(Tid, Site)> {
    let mut sums: Vec<(Tid, Site, u64)> = Vec::new();
    let function = |site: &Site| site.caller().map(|frame| (frame.module.clone(), frame.function.clone()));
    for row in facts.blame.iter().filter(|row| is(row)) {
        let Some(site) = &row.site else { continue };
        match sums.iter_mut().find(|(_, known, _)| function(known) == function(site)) {
            Some(known) => known.2 += row.ns,
            None => sums.push((row.thread, site.clone(), row.ns)),
        }
    }
    let (tid, site, ns) = sums.into_iter().max_by_key(|(_, _, ns)| *ns)?;
    Some((tid, Site { ns, ..site }))
}

/// A lock that threads wait for because they allocate memory.
pub(super) fn is_allocator(lock: &LockFacts) -> bool {
    let in_library = |site: &Site| {
        let own = site.call_path.iter().take_while(|frame| frame.role != Role::Program);
        own.filter_map(|frame| frame.function.as_deref()).any(allocates)
    };
    lock.primitive == Primitive::Libc && lock.wait_sites.first().is_some_and(in_library)
}

/// Whether a function gives or takes memory.
pub(super) fn allocates(function: &str) -> bool {
    const NAMES: &[&str] =
        &["malloc", "calloc", "realloc", "free", "cfree", "memalign", "posix_memalign", "aligned_alloc", "valloc"];
    const STARTS: &[&str] =
        &["operator new", "operator delete", "je_", "arena_get", "sysmalloc", "tcache_", "malloc_impl", "free_impl"];
    let plain = function.trim_start_matches('_');
    let plain = plain.strip_prefix("libc_").or_else(|| plain.strip_prefix("int_")).unwrap_or(plain);
    NAMES.contains(&plain) || STARTS.iter().any(|start| plain.starts_with(start))
}

/// A thread's waits for locks and devices.
pub(super) fn waiting_ns(thread: &ThreadFacts) -> u64 {
    let is_work = |reason: &Reason| match reason {
        Reason::Futex(primitive) => primitive.is_contention(),
        Reason::Io | Reason::PageFault | Reason::Memory => true,
        _ => false,
    };
    thread.off.iter().filter(|(reason, _)| is_work(reason)).map(|(_, off)| off.ns).sum()
}

/// The process of the one of these threads that had a CPU for longest.
pub(super) fn busiest_process<'a>(
    facts: &'a Facts,
    threads: impl Iterator<Item = &'a ThreadFacts>,
) -> Option<&'a ProcessFacts> {
    facts.process(threads.max_by_key(|thread| thread.on_cpu_ns)?.pid)
}

/// The time that a thread had a CPU, or waited for one that others of the program had.
pub(super) fn wanted_ns(thread: &ThreadFacts) -> u64 {
    thread.on_cpu_ns + preempted(thread).ns
}

/// How often and how long a thread could run and others of the program did. What other programs took is not counted: no
/// change of this one would win it back.
pub(super) fn preempted(thread: &ThreadFacts) -> OffTime {
    let of = |reason: Reason| thread.off.get(&reason).copied().unwrap_or_default();
    let (taken, given) = (of(Reason::Preempted), of(Reason::Yielded));
    OffTime { count: taken.count + given.count, ns: taken.ns + given.ns }
}

/// What goes of a share of the time if it is divided among so many.
pub(super) fn divided(share: f64, among: u64) -> f64 {
    share * (1.0 - 1.0 / among as f64)
}

/// How long all threads of the program kept each other from the CPUs.
pub(super) fn preempted_ns(facts: &Facts) -> u64 {
    facts.threads.iter().map(|thread| preempted(thread).ns).sum()
}

/// How long other programs kept all threads from the CPUs.
pub(super) fn all_displaced_ns(facts: &Facts) -> u64 {
    facts.threads.iter().map(displaced_ns).sum()
}

/// How long other programs had a thread's CPU while it could run.
pub(super) fn displaced_ns(thread: &ThreadFacts) -> u64 {
    thread.off.get(&Reason::Displaced).map_or(0, |off| off.ns)
}

/// How many times as long the threads would have run if other programs had not had the CPUs meanwhile.
pub(super) fn displacement(facts: &Facts) -> f64 {
    1.0 + share(all_displaced_ns(facts), cpu_ns(facts))
}

/// CPU time of all threads.
pub(super) fn cpu_ns(facts: &Facts) -> u64 {
    facts.threads.iter().map(|thread| thread.on_cpu_ns).sum()
}

/// A part of a whole; 0 if there is no whole.
pub(super) fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

/// How often per second of the given time.
pub(super) fn per_s(count: u64, ns: u64) -> f64 {
    share(count, ns) * S as f64
}

/// The share of time that goes to switching if threads run so long between two switches.
pub(super) fn switching_share(run_ns: u64) -> f64 {
    share(SWITCH_NS, SWITCH_NS + run_ns)
}

/// Samples in all, those in the kernel where they could be taken.
pub(super) fn samples(facts: &Facts) -> u64 {
    facts.totals.user_samples + facts.totals.kernel_samples.unwrap_or(0)
}

/// The locks whose waits mean that another thread is in the way, with their number; without those of allocators and
/// interpreters, which have a kind of their own.
pub(super) fn contended(facts: &Facts) -> impl Iterator<Item = (LockNumber, &LockFacts)> {
    facts.numbered_locks().filter(|(_, lock)| {
        let own_kind = lock.primitive == Primitive::InterpreterLock || is_allocator(lock);
        lock.primitive.is_contention()
            && !own_kind
            && is_mutual(facts, lock)
            && is_held(lock)
            && !is_of_idle_pool(lock)
            && !is_paced_by_input(facts, lock)
            && is_seen_often(facts, lock)
    })
}

/// One look may find many threads at a lock that is free a moment later: where threads were only looked at, several
/// looks have to find somebody there.
fn is_seen_often(facts: &Facts, lock: &LockFacts) -> bool {
    const LEAST_READINGS: u64 = 5;
    !facts.header.is_sampled() || lock.words.is_none_or(|(readings, ..)| readings >= LEAST_READINGS)
}

/// The workers of a pool of Python's processes take turns at the pipe that their tasks come through: who has the lock
/// waits for a task, and so do those who wait for the lock.
fn is_of_idle_pool(lock: &LockFacts) -> bool {
    let of_module = |site: &Site| site.call_path.iter().any(|frame| frame.module.contains("/_multiprocessing."));
    let reads = |site: &Site| {
        let in_kernel = |frame: &Frame| matches!(frame.role, Role::Kernel | Role::Scheduler);
        let own = site.call_path.iter().find(|frame| !in_kernel(frame));
        own.and_then(|frame| frame.function.as_deref()).is_some_and(|name| name.trim_start_matches('_') == "read")
    };
    lock.wait_sites.first().is_some_and(of_module) && lock.holder_doing.off_sites.first().is_some_and(reads)
}

/// Whether those who have it mostly read from a pipe that processes of the recording write into which the program did
/// not start: what comes in sets the pace, with the lock or without.
fn is_paced_by_input(facts: &Facts, lock: &LockFacts) -> bool {
    const LEAST_WOKEN: u64 = 10;
    let doing = &lock.holder_doing;
    let known_ns = doing.running_ns + doing.off.values().sum::<u64>();
    let reads = |site: &Site| leads_through(&site.call_path, |name| name.contains("pipe_read"));
    if doing.off.get(&Reason::Peer).is_none_or(|ns| ns * 2 < known_ns) || !doing.off_sites.first().is_some_and(reads) {
        return false;
    }
    // In a damaged recording they may have started each other.
    const MOST_BETWEEN: usize = 16;
    let process = |pid: Pid| facts.processes.iter().find(|process| process.pid == pid);
    let of_program = |pid: Pid| {
        let line = std::iter::successors(Some(pid), |pid| process(*pid)?.started_by);
        line.take(MOST_BETWEEN).any(|one| one == lock.pid)
    };
    let holds = |tid: Tid| lock.holders.iter().any(|holder| holder.tid == tid);
    let (mut beyond, mut within) = (0, 0);
    for pair in &facts.pairs {
        let Wakings { a_to_b, b_to_a } = pair.wakings;
        for (holder, other, woken) in [(pair.a, pair.b, b_to_a), (pair.b, pair.a, a_to_b)] {
            let Some(other) = facts.thread(other).filter(|_| holds(holder)) else { continue };
            match other.pid == lock.pid {
                true => {}
                false if of_program(other.pid) => within += woken,
                false => beyond += woken,
            }
        }
    }
    beyond >= LEAST_WOKEN && beyond > within
}

/// Whether all waits that count as waits for the lock are for it.
fn is_certain(lock: &LockFacts) -> bool {
    lock.addr.is_some() || matches!(lock.primitive, Primitive::FileLock | Primitive::SemaphoreLock)
}

/// Who has a lock uses it. Where the waiting threads' own words are all that is known, and who wakes them mostly waited
/// to be woken itself meanwhile, they hand over work.
fn is_held(lock: &LockFacts) -> bool {
    let doing = &lock.holder_doing;
    let idle_ns = |(reason, ns): (&Reason, &u64)| match reason {
        Reason::Futex(primitive) if !primitive.is_contention() => *ns,
        _ => 0,
    };
    let idle: u64 = doing.off.iter().map(idle_ns).sum();
    let all = doing.running_ns + doing.unknown_ns + doing.off.values().sum::<u64>();
    is_certain(lock) || idle * 2 <= all || lock.holders_wait_for_others
}

/// A lock of the program's own make might as well be an event that one thread raises for others. It is a lock if those
/// who end waits also wait, but for the monitors and mutexes of runtimes, which one thread may always win. Where nobody
/// was seen to end waits, the lock is known by a name.
fn is_mutual(facts: &Facts, lock: &LockFacts) -> bool {
    if lock.primitive != Primitive::OtherLock || facts.header.is_sampled() && lock.holders.is_empty() {
        return true;
    }
    let is_mutex = |name: &str| takes_mutex_of_runtime(name) || name.starts_with("g_mutex_lock");
    if lock.wait_sites.first().is_some_and(|site| leads_through(&site.call_path, is_mutex)) {
        return true;
    }
    let waits = |tid: Tid| lock.waiters.iter().any(|(waiter, _)| *waiter == tid);
    let all: u64 = lock.holders.iter().map(|holder| holder.count).sum();
    let mutual: u64 = lock.holders.iter().filter(|h| waits(h.tid)).map(|holder| holder.count).sum();
    // Those for whom holders wait end as many waits.
    let least = if lock.holders_wait_for_others { 0.4 } else { 0.5 };
    all > 0 && mutual as f64 >= least * all as f64
}

/// Waits of a lock as a share of the working time, without the part for which other programs had the holder's CPU: no
/// change of the program would win that back.
pub(super) fn wait_share(facts: &Facts, lock: &LockFacts) -> f64 {
    let own = 1.0 - holding(lock).displaced;
    (share(waited_ns(lock), work_ns(facts)) * own).min(1.0)
}

/// How long threads waited for it, asleep or giving the CPU away.
pub(super) fn waited_ns(lock: &LockFacts) -> u64 {
    lock.wait_ns.sum_ns() + lock.yield_ns
}

/// What would go with the waits for a lock. Those that the path hardly ever meets (2% of the time) are waits beside
/// something slower, unless somebody waits for the lock most of the time (half of it): then it is chance where
/// the path went.
///
/// While other threads of the program have the holder's CPU, nothing is lost by the wait: they do the program's work.
pub(super) fn lock_severity(facts: &Facts, number: LockNumber, lock: &LockFacts) -> f64 {
    const LEAST_ON_PATH: f64 = 0.02;
    const MOSTLY_CONTENDED: f64 = 0.5;
    let contended = share(lock.contended_ns, facts.span_ns());
    let beside = path_tells(facts)
        && share(facts.path.of_lock(number), facts.span_ns()) < LEAST_ON_PATH
        && contended < MOSTLY_CONTENDED;
    unpreempted_share(facts, lock) * if beside { contended } else { 1.0 }
}

/// The waits for other locks whose holders mostly wait for this one, as a share of the working time.
pub(super) fn behind_share(facts: &Facts, number: LockNumber) -> f64 {
    let behind = contended(facts).filter(|(other, _)| lock_ahead(facts, *other) == Some(number));
    behind.map(|(_, lock)| wait_share(facts, lock) * holding(lock).waiting).sum::<f64>().min(1.0)
}

/// The lock that holders of this one mostly wait for while others wait for this one.
pub fn lock_ahead(facts: &Facts, number: LockNumber) -> Option<LockNumber> {
    facts.lock(number).filter(|lock| holding(lock).waiting >= 0.5)?;
    let mut ahead: BTreeMap<LockNumber, u64> = BTreeMap::new();
    for row in facts.blame.iter().filter(|row| row.lock == Some(number)) {
        let is_other =
            |via: &LockNumber| *via != number && facts.lock(*via).is_some_and(|lock| lock.primitive.is_contention());
        if let Some(via) = row.via.filter(is_other) {
            *ahead.entry(via).or_default() += row.ns;
        }
    }
    ahead.into_iter().max_by_key(|(_, ns)| *ns).map(|(via, _)| via)
}

/// The waits for a lock without those whose holder's CPU other threads of the program had. Where threads are only
/// looked at, whoever wants a CPU may not have the lock yet.
pub(super) fn unpreempted_share(facts: &Facts, lock: &LockFacts) -> f64 {
    let preempted = if facts.header.is_sampled() { 0.0 } else { holding(lock).preempted };
    wait_share(facts, lock) * (1.0 - preempted)
}

/// What holders did while others waited, as shares of the time that is accounted for.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Holding {
    /// It ran.
    pub running: f64,
    /// It had left the CPU by itself: sleep, I/O, page fault, yield, any wait but one for another lock.
    pub asleep: f64,
    /// The part of that in I/O.
    pub io: f64,
    /// It was preempted.
    pub preempted: f64,
    /// Other programs had its CPU.
    pub displaced: f64,
    /// It waited for another lock.
    pub waiting: f64,
}

/// What holders of a lock did while others waited.
pub(super) fn holding(lock: &LockFacts) -> Holding {
    let doing = &lock.holder_doing;
    let sum =
        |is: fn(&Reason) -> bool| -> u64 { doing.off.iter().filter(|(reason, _)| is(reason)).map(|(_, ns)| *ns).sum() };
    let all = doing.running_ns + doing.unknown_ns + sum(|_| true);
    // Who waits for a condition does not have the condition's mutex.
    let let_go = |reason: &Reason| *reason == Reason::Futex(Primitive::Condvar) && is_of_condition(lock);
    let certain = is_certain(lock) || lock.holders_wait_for_others;
    let is_asleep = if certain { is_asleep } else { is_asleep_itself };
    let off = doing.off.iter().filter(|(reason, _)| is_asleep(reason) && !let_go(reason));
    let asleep: u64 = off.map(|(_, ns)| *ns).sum();
    Holding {
        running: share(doing.running_ns, all),
        asleep: share(asleep, all),
        io: share(sum(|reason| *reason == Reason::Io), all),
        preempted: share(sum(|reason| *reason == Reason::Preempted), all),
        displaced: share(sum(|reason| *reason == Reason::Displaced), all),
        waiting: share(sum(|reason| matches!(reason, Reason::Futex(what) if what.is_contention())), all),
    }
}

/// How much of the time its holders slept or waited, for anything but a lock.
pub(super) fn off_share(lock: &LockFacts) -> f64 {
    let doing = &lock.holder_doing;
    let sum = |is: &dyn Fn(&Reason) -> bool| -> u64 {
        doing.off.iter().filter(|(reason, _)| is(reason)).map(|(_, ns)| *ns).sum()
    };
    share(sum(&is_asleep), doing.running_ns + doing.unknown_ns + sum(&|_| true))
}

/// Whether threads take the lock as they return from a wait for a condition.
fn is_of_condition(lock: &LockFacts) -> bool {
    let returns = |frame: &Frame| {
        frame.function.as_deref().is_some_and(|name| name.contains("pthread_cond_") || name.contains("mutex_cond_lock"))
    };
    let is_mutex = lock.addr.is_some() && lock.primitive != Primitive::OtherLock;
    is_mutex && lock.wait_sites.iter().any(|site| site.call_path.iter().any(returns))
}

fn is_asleep(reason: &Reason) -> bool {
    match reason {
        Reason::Futex(primitive) => !primitive.is_contention(),
        Reason::Preempted | Reason::Displaced | Reason::Starting | Reason::Unknown => false,
        _ => true,
    }
}

/// Where the lock is known by its call path only, who waits to be woken may as well have released it.
fn is_asleep_itself(reason: &Reason) -> bool {
    !matches!(reason, Reason::Futex(_)) && is_asleep(reason)
}

/// The subject of a finding about a lock.
pub(super) fn lock_subject(number: LockNumber, lock: &LockFacts) -> Subject {
    Subject::Lock { number, name: lock.name.clone(), addr: lock.addr, primitive: lock.primitive }
}

/// The subject of a finding about a process.
pub(super) fn process_subject(process: &ProcessFacts) -> Subject {
    Subject::Process { pid: process.pid, name: process.name.clone() }
}

/// The subject of a finding about a thread.
pub(super) fn thread_subject(facts: &Facts, tid: Tid) -> Subject {
    Subject::Thread { tid, name: facts.thread(tid).map(|thread| thread.name.clone()).unwrap_or_default() }
}

/// The subject of a finding about the function of the program at a place, if its name is known.
pub(super) fn function_subject(place: &Site) -> Vec<Subject> {
    let function = place.caller().and_then(|frame| frame.function.as_deref());
    function.map(|name| Subject::Function(name.to_owned())).into_iter().collect()
}

/// The function of the program in which these threads have most CPU samples.
pub(super) fn hottest<'a>(threads: impl Iterator<Item = &'a ThreadFacts>) -> Option<Site> {
    by_function(threads.flat_map(|thread| &thread.hot_sites)).into_iter().rev().max_by_key(|site| site.count)
}

/// The function of the program in which these threads sleep and wait longest for what is no futex.
pub(super) fn blocked_at<'a>(threads: impl Iterator<Item = &'a ThreadFacts>) -> Option<Site> {
    by_function(threads.flat_map(|thread| &thread.off_sites)).into_iter().rev().max_by_key(|site| site.ns)
}

/// One site of each function of the program, with the sums of all.
fn by_function<'a>(all: impl Iterator<Item = &'a Site>) -> Vec<Site> {
    let mut sites: Vec<Site> = Vec::new();
    let function = |site: &Site| site.caller().map(|frame| (frame.module.clone(), frame.function.clone()));
    for site in all {
        match sites.iter_mut().find(|known| function(known) == function(site)) {
            Some(known) => {
                known.count += site.count;
                known.ns += site.ns;
            }
            None => sites.push(site.clone()),
        }
    }
    sites
}

/// The call path to an instruction; the instruction alone if no path is known.
pub(super) fn site_of(hotspot: &Hotspot) -> Site {
    let alone = || Site { call_path: vec![hotspot.frame.clone()], count: hotspot.hits, ns: 0 };
    hotspot.sites.first().cloned().unwrap_or_else(alone)
}

/// The function that an instruction is in, for a reader: not the operation of a library that was inlined there.
pub(super) fn function_of(hotspot: &Hotspot) -> String {
    const OPERATIONS: [&str; 8] = [
        "core::core_arch::",
        "core::hint::",
        "core::sync::atomic::",
        "std::__atomic_",
        "std::atomic",
        "__gnu_cxx::__exchange_and_add",
        "_mm_pause",
        "crossbeam_utils::backoff::",
    ];
    let path = &site_of(hotspot).call_path;
    let mut functions = path.iter().filter_map(|frame| frame.function.as_deref());
    let own = functions.find(|name| !OPERATIONS.iter().any(|start| name.starts_with(start)));
    own.map_or_else(|| crate::spinning::key(&hotspot.frame), str::to_owned)
}

/// The longest waits of a lock as moments.
pub(super) fn longest(lock: &LockFacts) -> Vec<Moment> {
    let moment = |(tid, from_ns, to_ns): &(Tid, u64, u64)| Moment { tid: *tid, from_ns: *from_ns, to_ns: *to_ns };
    lock.longest.iter().take(MOST_MOMENTS).map(moment).collect()
}

/// The number of the lock that a finding is about.
pub fn lock_of(finding: &Finding) -> Option<LockNumber> {
    finding.subjects.iter().find_map(number_of)
}

/// The number of the lock that a subject is.
pub(super) fn number_of(subject: &Subject) -> Option<LockNumber> {
    match subject {
        Subject::Lock { number, .. } => Some(*number),
        _ => None,
    }
}

/// The threads that a finding is about.
pub(super) fn threads_of(finding: &Finding) -> impl Iterator<Item = Tid> {
    finding.subjects.iter().filter_map(|subject| match subject {
        Subject::Thread { tid, .. } => Some(*tid),
        _ => None,
    })
}

/// A number of a finding by its name.
pub(super) fn value(finding: &Finding, name: &str) -> f64 {
    finding.evidence.iter().find(|evidence| evidence.name == name).map_or(0.0, |evidence| evidence.value)
}

/// A count.
pub(super) fn count(name: &'static str, value: u64) -> Evidence {
    Evidence { name, value: value as f64, unit: Unit::Count }
}

/// A rate.
pub(super) fn rate(name: &'static str, value: f64) -> Evidence {
    Evidence { name, value, unit: Unit::PerSecond }
}

/// A duration.
pub(super) fn ns(name: &'static str, value: u64) -> Evidence {
    Evidence { name, value: value as f64, unit: Unit::Ns }
}

/// A share.
pub(super) fn part(name: &'static str, value: f64) -> Evidence {
    Evidence { name, value, unit: Unit::Share }
}

/// How many of something there are on average.
pub(super) fn mean(name: &'static str, value: f64) -> Evidence {
    Evidence { name, value, unit: Unit::Count }
}

/// A ratio.
pub(super) fn ratio(name: &'static str, value: f64) -> Evidence {
    Evidence { name, value, unit: Unit::Ratio }
}

/// `holdup try` with these words, on the recorded program.
pub(super) fn try_with(words: &str) -> Command {
    let words = ["try"].into_iter().chain(words.split_whitespace());
    Command { words: words.map(str::to_owned).collect(), program: true }
}

/// A measurement of the laboratory.
pub(super) fn bench(words: &str) -> Command {
    let words = ["bench"].into_iter().chain(words.split_whitespace());
    Command { words: words.map(str::to_owned).collect(), program: false }
}

/// The recording again, after the program was changed; `holdup diff` of the two says whether it helped.
pub(super) fn record_again() -> Command {
    Command { words: vec!["record".to_owned()], program: true }
}

/// Tries the cures of a contended lock: other locks and gates where they can be put under the program, otherwise what
/// can be varied from outside.
pub(super) fn try_locks(primitive: Primitive) -> Command {
    match primitive {
        Primitive::Mutex => try_with("--locks spin-park,spin-learn,ttas --gates 1,2"),
        _ => try_with("--cpus all,1 --slices default,20ms"),
    }
}
