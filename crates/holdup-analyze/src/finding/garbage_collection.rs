//! garbage-collection: a runtime collects garbage for a good part of the time: it stops the program's threads for that,
//! or takes CPU time from them.
//!
//! Signs and thresholds, either:
//! - threads of the program wait for those by which Java's machine stops and collects ("VM Thread", "GC Thread#0" ...)
//!   while these run, for [`LEAST_STOPPED`] of the threads' working time and [`LEAST_NS`] in all;
//! - the collector has [`LEAST_CPU`] of the CPU samples, of at least [`LEAST_SAMPLES`]: below its functions (Go's,
//!   V8's, CPython's, Ruby's, .NET's), or in the threads that Java's machine has for it. What Go's collector does on
//!   CPUs that were idle otherwise is left out.
//!
//! The place is where the program's threads have most samples below what allocates; where that is not seen (Java's
//! compiled code allocates in place), where they have most samples. The severity is the larger of the two shares of the
//! working time.
//!
//! Or the program asks for its collections: a thread waits in `System.gc` for [`LEAST_ASKED`] of the elapsed time, or
//! half of the collector's samples are below what `gc.collect` of Python or `GC.start` of Ruby calls. Then the place is
//! who asks.
//!
//! How it can be wrong: Java's machine stops its threads for other reasons too (to deoptimize code, to take a dump),
//! rarely for so long. What allocating costs beside collecting is not counted.

use holdup_trace::Pid;

use super::runtime;
use super::weigh::{self, MS, ns, part};
use super::{Command, Cure, Finding, Kind, Rule, Subject};
use crate::facts::{Blame, Facts, Leaf, Site, ThreadFacts};
use crate::names::{Frame, leads_through};

pub(super) const RULE: Rule =
    Rule { kind: Kind::GarbageCollection, judge, evidence: &["stopped_share", "collector_share", "stopped_ns"] };

pub(super) const LEAST_STOPPED: f64 = 0.1;
pub(super) const LEAST_CPU: f64 = 0.2;
pub(super) const LEAST_SAMPLES: u64 = 100;
const LEAST_NS: u64 = 20 * MS;
pub(super) const LEAST_ASKED: f64 = 0.1;

/// A runtime's functions that collect, none of which calls another of them, and how to give it more room.
struct Collector {
    /// Beginnings of their names.
    functions: &'static [&'static str],
    /// Functions of it that use what nobody else wants.
    idle: &'static [&'static str],
    /// A part of the module's name, where the functions' are too plain to be known by themselves.
    module: &'static str,
    /// Functions that allocate.
    allocates: &'static [&'static str],
    /// Functions by which a program asks it to collect.
    asked: &'static [&'static str],
    /// What `holdup try` varies.
    switch: Option<&'static str>,
}

impl Collector {
    /// Whether a frame is of one of these functions of it.
    fn has(&self, functions: &[&str], frame: &Frame) -> bool {
        frame.module.contains(self.module) && weigh::is_any(frame, functions)
    }
}

const COLLECTORS: [Collector; 7] = [
    Collector {
        functions: &["runtime.gcDrain", "runtime.gcDrainN"],
        idle: &["runtime.gcDrainMarkWorkerIdle"],
        module: "",
        allocates: &["runtime.mallocgc", "runtime.growslice", "runtime.newobject"],
        asked: &[],
        switch: Some("--env GOGC=200,400"),
    },
    Collector {
        functions: &["v8::internal::Heap::CollectGarbage"],
        idle: &[],
        module: "",
        allocates: &["v8::internal::Heap::CollectGarbage"],
        asked: &[],
        switch: None,
    },
    Collector {
        functions: &["gc_collect_main"],
        idle: &[],
        module: "python",
        allocates: &["_PyObject_GC_Alloc", "_PyObject_GC_New", "gc_collect_main"],
        asked: &["gc_collect_impl"],
        switch: None,
    },
    Collector {
        functions: &["gc_start", "gc_marks_continue", "gc_sweep_continue"],
        idle: &[],
        module: "ruby",
        allocates: &["newobj_slowpath", "objspace_xmalloc"],
        asked: &["gc_start_internal"],
        switch: None,
    },
    // Of Ruby, where its library has no names: what its own code asks for.
    Collector {
        functions: &["start"],
        idle: &[],
        module: "<internal:gc>",
        allocates: &["start"],
        asked: &["start"],
        switch: None,
    },
    Collector {
        functions: &["WKS::gc_heap::gc1"],
        idle: &[],
        module: "coreclr",
        allocates: &["JIT_New"],
        asked: &[],
        switch: Some("--env COMPlus_gcServer=1 --env COMPlus_gcConcurrent=0"),
    },
    // .NET's collector for servers, which has a heap for each CPU.
    Collector {
        functions: &["SVR::gc_heap::gc1"],
        idle: &[],
        module: "coreclr",
        allocates: &["JIT_New"],
        asked: &[],
        switch: Some("--env COMPlus_gcConcurrent=0"),
    },
];

fn judge(facts: &Facts) -> Vec<Finding> {
    of_java(facts).or_else(|| by_functions(facts)).into_iter().collect()
}

/// Java's machine.
fn of_java(facts: &Facts) -> Option<Finding> {
    let collector = facts.threads.iter().find(|thread| runtime::collects(&thread.name))?;
    let stopped_ns: u64 = facts.blame.iter().filter(|row| is_stopped(facts, row)).map(|row| row.ns).sum();
    let stopped_share = weigh::share(stopped_ns, weigh::demand_ns(facts)).min(1.0);
    let own_ns: u64 =
        facts.threads.iter().filter(|thread| runtime::collects(&thread.name)).map(|thread| thread.on_cpu_ns).sum();
    let collector_share = weigh::share(own_ns, weigh::cpu_ns(facts));
    let stops = stopped_share >= LEAST_STOPPED && stopped_ns >= LEAST_NS;
    let takes = collector_share >= LEAST_CPU && weigh::samples(facts) >= LEAST_SAMPLES;
    let works = |thread: &&ThreadFacts| thread.pid == collector.pid && !runtime::is_of_java(&thread.name);
    let asker = asks_java(facts);
    let (cure, proof) = match asker {
        Some(_) => (Cure::CollectUnasked, weigh::try_with("--env JAVA_TOOL_OPTIONS=-XX:+DisableExplicitGC")),
        None => (Cure::LessGarbage, other_collector(facts)),
    };
    (stops || takes).then(|| Finding {
        severity: stopped_share.max(weigh::of_work(facts, collector_share)),
        subjects: process(facts, collector.pid),
        place: asker.or_else(|| weigh::hottest(facts.threads.iter().filter(works))),
        evidence: vec![
            part("stopped_share", stopped_share),
            part("collector_share", collector_share),
            ns("stopped_ns", stopped_ns),
        ],
        ..Finding::new(Kind::GarbageCollection, cure, proof)
    })
}

/// Where a thread of Java mostly waits for collections that it asks for.
fn asks_java(facts: &Facts) -> Option<Site> {
    let asks = |site: &&Site| leads_through(&site.call_path, |name| name == "java.lang.System.gc");
    let sites = || facts.locks.iter().flat_map(|lock| &lock.wait_sites).filter(asks);
    let asked_ns: u64 = sites().map(|site| site.ns).sum();
    let is_much = weigh::share(asked_ns, facts.span_ns()) >= LEAST_ASKED;
    sites().max_by_key(|site| site.ns).filter(|_| is_much).cloned()
}

/// Runtimes whose collector is known by its functions.
fn by_functions(facts: &Facts) -> Option<Finding> {
    let samples = weigh::samples(facts);
    let below = |functions: &[&str], collector: &Collector| -> u64 {
        weigh::samples_below(facts, |frame| collector.has(functions, frame))
    };
    let taken = COLLECTORS.iter().map(|collector| {
        let idle = below(collector.idle, collector);
        (collector, below(collector.functions, collector).saturating_sub(idle))
    });
    let (collector, hits) = taken.max_by_key(|(_, hits)| *hits)?;
    let collector_share = weigh::share(hits, samples).min(1.0);
    let is_much = samples >= LEAST_SAMPLES && collector_share >= LEAST_CPU;
    let asker = sampled_in(facts, collector, collector.asked).filter(|_| below(collector.asked, collector) * 2 >= hits);
    let (cure, proof) = match asker {
        Some(_) => (Cure::CollectUnasked, weigh::record_again()),
        None => (Cure::LessGarbage, collector.switch.map_or_else(weigh::record_again, weigh::try_with)),
    };
    is_much.then(|| Finding {
        severity: weigh::of_work(facts, collector_share),
        subjects: facts.processes.first().map_or_else(Vec::new, |process| self::process(facts, process.pid)),
        place: asker
            .or_else(|| sampled_in(facts, collector, collector.allocates))
            .or_else(|| weigh::hottest(facts.threads.iter())),
        evidence: vec![part("collector_share", collector_share)],
        ..Finding::new(Kind::GarbageCollection, cure, proof)
    })
}

/// Whether a wait is one of the program's for a collector that runs.
fn is_stopped(facts: &Facts, row: &Blame) -> bool {
    let of_machine = |tid| facts.thread(tid).is_some_and(|thread| runtime::is_of_java(&thread.name));
    let collects = facts.thread(row.thread).is_some_and(|thread| runtime::collects(&thread.name));
    collects && !of_machine(row.waiter) && matches!(row.leaf, Leaf::Running | Leaf::Cpu | Leaf::Yielding | Leaf::Memory)
}

/// Where the program has most samples below one of these functions.
fn sampled_in(facts: &Facts, collector: &Collector, functions: &[&str]) -> Option<Site> {
    let below = |site: &&Site| site.call_path.iter().any(|frame| collector.has(functions, frame));
    let sites = facts.threads.iter().flat_map(|thread| &thread.hot_sites).filter(|site| site.caller().is_some());
    sites.filter(below).max_by_key(|site| site.count).cloned()
}

fn process(facts: &Facts, pid: Pid) -> Vec<Subject> {
    let process = facts.process(pid);
    process.map(weigh::process_subject).into_iter().collect()
}

/// Another collector; where the command line names one, two would be an error.
fn other_collector(facts: &Facts) -> Command {
    let is_named = |word: &String| word.starts_with("-XX:+Use") && word.ends_with("GC");
    let command = &facts.header.target.command;
    if command.is_empty() || command.iter().any(is_named) {
        return weigh::record_again();
    }
    weigh::try_with("--env JAVA_TOOL_OPTIONS=-XX:+UseParallelGC,-XX:+UseSerialGC")
}
