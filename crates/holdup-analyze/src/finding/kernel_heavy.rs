//! kernel-heavy: most CPU time of a multithreaded program goes to the kernel, and not to switching.
//!
//! Signs and thresholds:
//! - the kernel's share of CPU time is at least [`LEAST_SHARE`]: from CPU samples where at least [`LEAST_SAMPLES`]
//!   could be taken in the kernel too, otherwise from what the kernel counted for the threads or for the command;
//! - that is at least [`LEAST_KERNEL_NS`], and its threads have as much as one CPU for [`LEAST_SPAN_SHARE`] of the
//!   recording: a mostly idle program spends what little it uses in the kernel, and so does one that starts;
//! - at least two threads of one process have a tenth of the CPU time each, and wanted a CPU for longer than they
//!   waited for devices, descriptors and other processes: a program that mostly waits for the outside has nothing to
//!   gain here. Single-threaded programs that copy files, and trees of processes that do little but start, are as they
//!   must be. One thread that runs for half of its life is enough where reads and writes move [`MOST_LITTLE_BYTES`]
//!   each at most, on average, and take half of that time at [`CALL_NS`] each: a larger buffer would save nearly all of
//!   it.
//!
//! - less than half of that is the copying of data between the program and the kernel, by samples, or by how much is
//!   read and written ([`COPIED_PER_US`] bytes in a microsecond, [`LEAST_BYTES`] in a call): large reads of cached
//!   files are as they must be;
//! - work does not come by the clock ([`weigh::is_paced`]);
//! - where threads were only looked at from time to time, nothing tells copying from other work of the kernel: there,
//!   only reads and writes of little are told of.
//!
//! The place is the function of the program below which most samples in the kernel were taken; where none could be
//! taken, the one with most samples of the threads that use the kernel. The severity is a share of CPU time.
//!
//! How it can be wrong: a network server may rightly live in the kernel. Any kind that names a cause of system calls
//! (locks, pairs, herds, yields, wasted wakes, switching) replaces this one.

use holdup_trace::Counter;

use super::weigh::{self, MS, US, count, ns, part, rate};
use super::{Cure, Finding, Kind, Rule};
use crate::facts::{Code, Facts, ProcessFacts, Reason, ThreadFacts};
use crate::names::Role;

pub(super) const RULE: Rule = Rule {
    kind: Kind::KernelHeavy,
    judge,
    evidence: &["kernel_share", "kernel_cpu_ns", "kernel_samples", "top_function_share", "futex_calls_per_s"],
};

pub(super) const LEAST_SHARE: f64 = 0.5;
pub(super) const LEAST_SAMPLES: u64 = 100;
pub(super) const LEAST_KERNEL_NS: u64 = 80 * MS;
pub(super) const LEAST_SPAN_SHARE: f64 = 0.25;
const LEAST_THREAD_SHARE: f64 = 0.1;
/// What a CPU copies in a microsecond at least.
pub(super) const COPIED_PER_US: u64 = 8_000;
/// Smaller reads and writes cost more for the call than for what they move.
pub(super) const LEAST_BYTES: u64 = 16 << 10;

/// Reads and writes of so little cost nothing but the call.
pub(super) const MOST_LITTLE_BYTES: u64 = 256;
/// What such a call takes at least.
pub(super) const CALL_NS: u64 = 500;

/// CPU time in the kernel, of how much.
#[derive(Clone, Copy)]
struct Split {
    kernel_ns: u64,
    all_ns: u64,
}

impl Split {
    fn share(self) -> f64 {
        weigh::share(self.kernel_ns, self.all_ns)
    }
}

fn judge(facts: &Facts) -> Vec<Finding> {
    let split = split(facts);
    let little = is_for_little(facts, split);
    let enough = split.share() >= LEAST_SHARE
        && split.kernel_ns >= LEAST_KERNEL_NS
        && weigh::share(weigh::cpu_ns(facts), facts.span_ns()) >= LEAST_SPAN_SHARE
        && (little || !facts.header.is_sampled())
        && (little || !mostly_copies(facts, split.kernel_ns))
        && !weigh::is_paced(facts);
    let least = |process| if little && runs_mostly(facts, process) { 1 } else { 2 };
    let process = facts.processes.iter().find(|process| busy_threads(facts, process) >= least(process));
    process.filter(|_| enough).map(|process| finding(facts, process, split)).into_iter().collect()
}

/// The kernel's share of the CPU time.
pub(super) fn kernel_share(facts: &Facts) -> f64 {
    split(facts).share()
}

/// Samples in the kernel tell best; the kernel's own count for the threads comes next, then that for the whole command.
fn split(facts: &Facts) -> Split {
    from_samples(facts)
        .or_else(|| from_usage(facts))
        .or_else(|| from_ending(facts))
        .unwrap_or(Split { kernel_ns: 0, all_ns: 0 })
}

fn from_samples(facts: &Facts) -> Option<Split> {
    let all = weigh::samples(facts);
    let kernel_ns = facts.totals.kernel_samples? * facts.header.sample_period_ns;
    (all >= LEAST_SAMPLES).then(|| Split { kernel_ns, all_ns: all * facts.header.sample_period_ns })
}

/// Only where the threads that were read used most of the CPU time; those born and gone between two readings are
/// missing.
fn from_usage(facts: &Facts) -> Option<Split> {
    let mut sum = Split { kernel_ns: 0, all_ns: 0 };
    for (first, last) in facts.threads.iter().filter_map(|thread| thread.usage) {
        let kernel_ns = last.kernel_ns.saturating_sub(first.kernel_ns);
        sum.kernel_ns = sum.kernel_ns.saturating_add(kernel_ns);
        let of_thread_ns = kernel_ns.saturating_add(last.user_ns.saturating_sub(first.user_ns));
        sum.all_ns = sum.all_ns.saturating_add(of_thread_ns);
    }
    (weigh::share(sum.all_ns, weigh::cpu_ns(facts)) >= 0.5).then_some(sum)
}

fn from_ending(facts: &Facts) -> Option<Split> {
    let (user_ns, kernel_ns) = facts.ending.as_ref()?.cpu_ns()?;
    Some(Split { kernel_ns, all_ns: user_ns.saturating_add(kernel_ns) })
}

/// Whether the kernel mostly moves data.
fn mostly_copies(facts: &Facts, kernel_ns: u64) -> bool {
    let Some(kernel) = facts.totals.kernel_samples else {
        let (calls, bytes) = transfers(facts);
        return bytes >= LEAST_BYTES.saturating_mul(calls)
            && (bytes / COPIED_PER_US).saturating_mul(2 * US) > kernel_ns;
    };
    const PARTS: [&str; 4] = ["copy_to_iter", "copy_from_iter", "copy_user", "rep_movs"];
    let copies = |code: &&Code| {
        let name = code.frame.function.as_deref().unwrap_or_default();
        code.frame.role == Role::Kernel && PARTS.iter().any(|part| name.contains(part))
    };
    let hits: u64 = facts.symbols.iter().filter(copies).map(|code| code.hits).sum();
    hits * 2 > kernel
}

/// Whether the kernel's time goes to reads and writes of a few bytes each.
pub(super) fn moves_little(facts: &Facts) -> bool {
    is_for_little(facts, split(facts))
}

fn is_for_little(facts: &Facts, split: Split) -> bool {
    let (calls, bytes) = transfers(facts);
    bytes <= MOST_LITTLE_BYTES.saturating_mul(calls) && calls.saturating_mul(CALL_NS * 2) >= split.kernel_ns
}

/// Whether a thread of a process hardly waits: its calls are what it is slow by.
fn runs_mostly(facts: &Facts, process: &ProcessFacts) -> bool {
    facts.threads.iter().any(|thread| thread.pid == process.pid && thread.on_cpu_ns * 2 >= thread.life_ns())
}

/// Calls that read or write, and the bytes that they moved.
fn transfers(facts: &Facts) -> (u64, u64) {
    (facts.counted(Counter::TransferCalls), facts.counted(Counter::TransferBytes))
}

fn busy_threads(facts: &Facts, process: &ProcessFacts) -> usize {
    let cpu_ns = weigh::cpu_ns(facts);
    let busy = |thread: &&ThreadFacts| {
        thread.pid == process.pid
            && weigh::share(thread.on_cpu_ns, cpu_ns) >= LEAST_THREAD_SHARE
            && weigh::wanted_ns(thread) >= outside_ns(thread)
    };
    facts.threads.iter().filter(busy).count()
}

/// The threads that spend most of their time in the kernel by its own count; all where it was not asked.
fn callers(facts: &Facts) -> impl Iterator<Item = &ThreadFacts> {
    facts.threads.iter().filter(|thread| {
        thread.usage.is_none_or(|(first, last)| {
            let kernel_ns = last.kernel_ns.saturating_sub(first.kernel_ns);
            kernel_ns >= last.user_ns.saturating_sub(first.user_ns)
        })
    })
}

/// How long a thread waited for what is outside of the program.
fn outside_ns(thread: &ThreadFacts) -> u64 {
    let is_outside = |reason: &Reason| matches!(reason, Reason::Io | Reason::Poll | Reason::OtherCall);
    thread.off.iter().filter(|(reason, _)| is_outside(reason)).map(|(_, off)| off.ns).sum()
}

fn finding(facts: &Facts, process: &ProcessFacts, split: Split) -> Finding {
    let top = facts.symbols.iter().find(|code| matches!(code.frame.role, Role::Kernel | Role::Scheduler));
    let mut evidence = vec![part("kernel_share", split.share()), ns("kernel_cpu_ns", split.kernel_ns)];
    if let Some(kernel) = facts.totals.kernel_samples {
        evidence.push(count("kernel_samples", kernel));
        let hits = top.map_or(0, |code| code.hits);
        evidence.push(part("top_function_share", weigh::share(hits, kernel)));
    }
    if let Some(calls) = facts.counters.get(&Counter::FutexCalls) {
        evidence.push(rate("futex_calls_per_s", weigh::per_s(*calls, facts.span_ns())));
    }
    Finding {
        kind: Kind::KernelHeavy,
        bound: None,
        severity: split.share(),
        subjects: vec![weigh::process_subject(process)],
        place: facts.kernel_sites.first().cloned().or_else(|| weigh::hottest(callers(facts))),
        evidence,
        moments: Vec::new(),
        cure: Cure::FewerCalls,
        proof: weigh::record_again(),
    }
}
