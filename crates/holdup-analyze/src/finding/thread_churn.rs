//! thread-churn: threads are made for little work each, and most of the time goes to making and ending them.
//!
//! Signs and thresholds, per process:
//! - at least [`LEAST_THREADS`] threads began and ended within the recording, and as many a second;
//! - they ran for at most [`MOST_RUN_NS`] each, on average;
//! - at [`THREAD_NS`] each, and with what they waited for the address space in which their stacks are mapped, they cost
//!   at least [`LEAST_SHARE`] of the CPU time and those waits.
//!
//! Or workers of Node are made for little each: at least [`LEAST_WORKERS`] threads began and ended, and what makes an
//! environment for each of them (`node::CreateEnvironment`) has [`LEAST_MADE`] of the CPU samples.
//!
//! Or processes are started for little each, programs or forks such as the subshells of a shell: at least
//! [`LEAST_PROCESSES`] began and ended within the recording; they ran for at most [`MOST_PROCESS_RUN_NS`] each, on
//! average; and at [`PROCESS_NS`] each (or what they ran if that is less), or by the samples in the kernel's `execve`,
//! `kernel_clone` and `do_exit` if these are more, they cost at least [`LEAST_PROCESS_SHARE`] of the CPU time, and one
//! CPU for [`LEAST_PROCESS_TIME`] of the elapsed time. Interpreters have more to do before they begin, reading modules
//! above all: at least [`LEAST_READERS`] processes that ran for at most [`MOST_READER_RUN_NS`] each, and the function
//! in which theirs do that has [`LEAST_READ`] of the samples.
//!
//! The severity is that estimate; of programs that are started, not more than the part of the elapsed time. The place
//! is where the program makes threads, as far as samples or waits for their ends tell.
//!
//! How it can be wrong: what a thread costs is an estimate (clone, a stack mapped and unmapped, the end, the join);
//! a program that keeps the stacks of ended threads pays less.

use super::weigh::{self, MS, US, count, ns, part, rate};
use super::{Cure, Finding, Kind, Rule};
use crate::facts::{Facts, Primitive, ProcessFacts, Reason, Site, ThreadFacts};
use crate::names::{Frame, Role, leads_through};
use holdup_trace::Pid;
use rustc_hash::{FxHashMap, FxHashSet};

pub(super) const RULE: Rule = Rule {
    kind: Kind::ThreadChurn,
    judge,
    evidence: &[
        "cost_share",
        "threads_per_s",
        "processes_per_s",
        "run_ns_mean",
        "threads",
        "processes",
        "kernel_share",
    ],
};

pub(super) const LEAST_THREADS: u64 = 200;
pub(super) const MOST_RUN_NS: u64 = 300 * US;
pub(super) const LEAST_SHARE: f64 = 0.05;
/// Measured here: 28 us of CPU time for std::thread and join of an empty function, on both sides together.
pub(super) const THREAD_NS: u64 = 25 * US;

const LEAST_WORKERS: u64 = 20;
pub(super) const LEAST_MADE: f64 = 0.15;
const LEAST_SAMPLES: u64 = 100;

const LEAST_PROCESSES: u64 = 100;
const MOST_PROCESS_RUN_NS: u64 = 10 * MS;
const LEAST_PROCESS_SHARE: f64 = 0.15;
const LEAST_PROCESS_TIME: f64 = 0.25;
const LEAST_READERS: u64 = 10;
const MOST_READER_RUN_NS: u64 = 2_000 * MS;
const LEAST_READ: f64 = 0.3;
/// Measured here: 700 us of CPU time for posix_spawn and wait of /bin/true, on both sides together.
const PROCESS_NS: u64 = 600 * US;

fn judge(facts: &Facts) -> Vec<Finding> {
    let plain = facts.processes.iter().filter_map(|process| of_process(facts, process));
    plain.chain(of_workers(facts)).chain(of_processes(facts)).collect()
}

/// Programs are started for little each.
fn of_processes(facts: &Facts) -> Option<Finding> {
    let started = started(facts);
    let processes = started.len() as u64;
    let runs = facts.threads.iter().filter(|thread| started.contains(&thread.pid)).map(|thread| thread.on_cpu_ns);
    let run_ns: u64 = runs.sum();
    let per_s = weigh::per_s(processes, facts.span_ns());
    let mean_ns = run_ns.checked_div(processes)?;
    let estimate = weigh::share((processes * PROCESS_NS).min(run_ns), weigh::cpu_ns(facts));
    let in_kernel = weigh::share(weigh::samples_below(facts, starts_or_ends), weigh::samples(facts));
    let read = reading(facts);
    let cost = estimate.max(in_kernel).max(read).min(1.0);
    let cost_ns = cost * weigh::cpu_ns(facts) as f64;
    // Where the CPUs are mostly idle, most of the time goes elsewhere.
    let of_elapsed = cost_ns / facts.span_ns().max(1) as f64;
    let matters = cost >= LEAST_PROCESS_SHARE && of_elapsed >= LEAST_PROCESS_TIME;
    let for_little = processes >= LEAST_PROCESSES && mean_ns <= MOST_PROCESS_RUN_NS;
    let for_reading = processes >= LEAST_READERS && mean_ns <= MOST_READER_RUN_NS && read >= LEAST_READ;
    if !(for_little || for_reading) || !matters {
        return None;
    }
    let (starter, place) = starter(facts, &started);
    Some(Finding {
        severity: cost.min(of_elapsed),
        subjects: starter.map(weigh::process_subject).into_iter().collect(),
        place,
        evidence: vec![
            part("cost_share", cost),
            rate("processes_per_s", per_s),
            ns("run_ns_mean", mean_ns),
            count("processes", processes),
            part("kernel_share", super::kernel_heavy::kernel_share(facts)),
        ],
        ..Finding::new(Kind::ThreadChurn, Cure::KeepProcesses, weigh::record_again())
    })
}

/// Whether the kernel starts or ends a process here.
fn starts_or_ends(frame: &Frame) -> bool {
    let is = |name: &str| name.ends_with("_sys_execve") || ["kernel_clone", "do_exit"].contains(&name);
    frame.role == Role::Kernel && frame.function.as_deref().is_some_and(is)
}

/// The part of the samples in which an interpreter reads what it is to run.
fn reading(facts: &Facts) -> f64 {
    const READS: [&str; 10] = [
        "Perl_yyparse",
        "perl_parse",
        "Py_InitializeFromConfig",
        "PyImport_ImportModuleLevelObject",
        "rb_require_internal",
        "ruby_process_options",
        "php_module_startup",
        "setup_Rmainloop",
        "node::CreateEnvironment",
        "JNI_CreateJavaVM",
    ];
    let most = READS.iter().map(|name| below(facts, name)).max().unwrap_or_default();
    weigh::share(most, weigh::samples(facts))
}

/// Samples in a function and in what it calls.
fn below(facts: &Facts, name: &str) -> u64 {
    weigh::samples_below(facts, |frame| weigh::is_any(frame, &[name]))
}

/// Processes that began and ended within the recording.
fn started(facts: &Facts) -> FxHashSet<Pid> {
    let short = |thread: &&ThreadFacts| thread.exited && thread.born_ns > facts.start_ns;
    let firsts = facts.threads.iter().filter(|thread| thread.tid.0 == thread.pid.0).filter(short);
    firsts.map(|thread| thread.pid).collect()
}

/// Who starts them, and where: the process that is the parent of most; where parents are not known, that which waits
/// for children, or works at starting them.
fn starter<'a>(facts: &'a Facts, started: &FxHashSet<Pid>) -> (Option<&'a ProcessFacts>, Option<Site>) {
    const STARTS: [&str; 5] = ["posix_spawn", "fork", "popen", "system", "wait"];
    let starts = |site: &&Site| {
        site.is_by_program() && leads_through(&site.call_path, |name| STARTS.iter().any(|word| name.contains(word)))
    };
    let parent = most_common_parent(facts, started);
    let lasting = || {
        let all = facts.threads.iter().filter(|thread| !started.contains(&thread.pid));
        all.filter(move |thread| parent.is_none_or(|parent| parent == thread.pid))
    };
    let sites = |thread: &'a ThreadFacts| thread.off_sites.iter().chain(&thread.hot_sites).filter(starts);
    let found = lasting().flat_map(|thread| sites(thread).map(move |site| (thread, site)));
    let found = found.max_by_key(|(_, site)| site.count);
    let waits = |thread: &&ThreadFacts| thread.off.get(&Reason::Child).map_or(0, |time| time.ns);
    let thread = found.map(|(thread, _)| thread).or_else(|| lasting().max_by_key(waits));
    let process = thread.and_then(|thread| facts.process(thread.pid));
    (process, found.map(|(_, site)| site.clone()))
}

/// Of the processes that are not started for each item themselves: the one that started most.
fn most_common_parent(facts: &Facts, started: &FxHashSet<Pid>) -> Option<Pid> {
    let mut children: FxHashMap<Pid, u64> = FxHashMap::default();
    let known = facts.processes.iter().filter(|process| started.contains(&process.pid));
    for parent in known.filter_map(|process| process.started_by).filter(|parent| !started.contains(parent)) {
        *children.entry(parent).or_default() += 1;
    }
    children.into_iter().max_by_key(|(pid, children)| (*children, std::cmp::Reverse(pid.0))).map(|(pid, _)| pid)
}

/// Workers of Node, each of which has a heap, an event loop and a library of its own.
fn of_workers(facts: &Facts) -> Option<Finding> {
    const MAKES: [&str; 2] = ["node::CreateEnvironment", "node::FreeEnvironment"];
    let made = MAKES.iter().map(|name| below(facts, name)).sum();
    let cost = weigh::share(made, weigh::samples(facts)).min(1.0);
    let process = facts.processes.iter().max_by_key(|process| short_lived(facts, process).count())?;
    let threads = short_lived(facts, process).count() as u64;
    (threads >= LEAST_WORKERS && made >= LEAST_SAMPLES && cost >= LEAST_MADE).then(|| found(facts, process, cost))
}

/// Threads of a process that began and ended within the recording, but the first.
fn short_lived<'a>(facts: &'a Facts, process: &'a ProcessFacts) -> impl Iterator<Item = &'a ThreadFacts> {
    facts.threads.iter().filter(|thread| {
        thread.pid == process.pid && thread.tid.0 != process.pid.0 && thread.exited && thread.born_ns > facts.start_ns
    })
}

fn of_process(facts: &Facts, process: &ProcessFacts) -> Option<Finding> {
    let short = || short_lived(facts, process);
    let threads = short().count() as u64;
    let mean_ns = mean_run_ns(facts, process)?;
    let memory_ns: u64 = short().filter_map(|thread| thread.off.get(&Reason::Memory)).map(|time| time.ns).sum();
    let cost = weigh::share(threads * THREAD_NS + memory_ns, weigh::cpu_ns(facts) + memory_ns).min(1.0);
    let per_s = weigh::per_s(threads, facts.span_ns());
    if threads < LEAST_THREADS || per_s < LEAST_THREADS as f64 || mean_ns > MOST_RUN_NS || cost < LEAST_SHARE {
        return None;
    }
    Some(found(facts, process, cost))
}

fn mean_run_ns(facts: &Facts, process: &ProcessFacts) -> Option<u64> {
    let run_ns: u64 = short_lived(facts, process).map(|thread| thread.on_cpu_ns).sum();
    run_ns.checked_div(short_lived(facts, process).count() as u64)
}

fn found(facts: &Facts, process: &ProcessFacts, cost: f64) -> Finding {
    let threads = short_lived(facts, process).count() as u64;
    Finding {
        severity: cost,
        subjects: vec![weigh::process_subject(process)],
        place: place(facts, process),
        evidence: vec![
            part("cost_share", cost),
            rate("threads_per_s", weigh::per_s(threads, facts.span_ns())),
            ns("run_ns_mean", mean_run_ns(facts, process).unwrap_or_default()),
            count("threads", threads),
            part("kernel_share", super::kernel_heavy::kernel_share(facts)),
        ],
        ..Finding::new(Kind::ThreadChurn, Cure::KeepThreads, weigh::record_again())
    }
}

/// Where the program makes threads; else where it waits for their ends.
fn place(facts: &Facts, process: &ProcessFacts) -> Option<Site> {
    const MAKES: [&str; 3] = ["pthread_create", "clone", "spawn_unchecked"];
    let named = |site: &&Site| leads_through(&site.call_path, |name| MAKES.iter().any(|part| name.contains(part)));
    let own = || facts.threads.iter().filter(|thread| thread.pid == process.pid);
    let sampled = own().flat_map(|thread| &thread.hot_sites).chain(&facts.kernel_sites);
    let made = sampled.filter(named).filter(|site| site.is_by_program()).max_by_key(|site| site.count);
    let joins = facts.locks.iter().filter(|lock| lock.pid == process.pid && lock.primitive == Primitive::Join);
    made.or_else(|| joins.flat_map(|lock| &lock.wait_sites).max_by_key(|site| site.ns)).cloned()
}
