//! A recording as JSON, schema `holdup-recording-1`: docs/recording-json.md describes every key,
//! docs/holdup-recording-1.schema.json checks them.

use holdup_analyze::{
    Code, CpuFacts, Evidence, Facts, Finding, Frame, Histogram, Hotspot, HotspotClass, LockFacts, LockName,
    OffTime, PairFacts, Problem, ProcessFacts, Role, Site, Subject, ThreadFacts, Totals, Unit,
};
use holdup_trace::{Counter, LockFigures, Spread, ThreadUsage, Tid};
use serde_json::{Map, Value, json};

use super::{sentences, summary};
use crate::recording::Recording;
use crate::recording::name;

/// Everything: header, figures, findings with their sentences, problems.
pub fn recording(recording: &Recording) -> Value {
    let report = &recording.report;
    let facts = &report.facts;
    let damage = recording.damage.iter().map(|one| json!({ "at_byte": one.at, "why": one.why }));
    json!({
        "schema": "holdup-recording-1",
        "file": recording.path.to_string_lossy(),
        "file_bytes": recording.file_bytes,
        "headline": summary::headline(recording),
        "header": facts.header,
        "ending": facts.ending,
        "start_ns": facts.start_ns,
        "end_ns": facts.end_ns,
        "totals": totals(&facts.totals),
        "counted_switches": summary::counted_switches(facts),
        "findings": report.findings.iter().map(|one| finding(recording, one)).collect::<Value>(),
        "problems": report.problems.iter().map(|one| problem(facts, one)).collect::<Value>(),
        "damage": damage.collect::<Value>(),
        "cpus": facts.cpus.iter().map(cpu).collect::<Value>(),
        "processes": facts.processes.iter().map(process).collect::<Value>(),
        "threads": facts.threads.iter().map(thread).collect::<Value>(),
        "locks": facts.locks.iter().map(lock).collect::<Value>(),
        "pairs": facts.pairs.iter().map(pair).collect::<Value>(),
        "symbols": facts.symbols.iter().map(code).collect::<Value>(),
        "modules": facts.modules.iter().map(code).collect::<Value>(),
        "hotspots": facts.hotspots.iter().map(hotspot).collect::<Value>(),
        "calls": facts.calls.iter().map(|(call, count)| json!({ "number": call.0, "count": count })).collect::<Value>(),
        "yield_sites": sites(&facts.yield_sites),
        "counters": counters(&facts.counters),
    })
}

fn finding(recording: &Recording, finding: &Finding) -> Value {
    let facts = &recording.report.facts;
    let words = sentences::of(recording, finding);
    let moments = finding
        .moments
        .iter()
        .map(|moment| json!({ "tid": moment.tid.0, "from_ns": moment.from_ns, "to_ns": moment.to_ns }));
    json!({
        "kind": finding.kind.name(),
        "severity_share": finding.severity,
        "what": words.what,
        "subjects": finding.subjects.iter().map(|one| subject(facts, one)).collect::<Value>(),
        "place": finding.place.as_ref().map(site),
        "evidence": finding.evidence.iter().map(evidence).collect::<Value>(),
        "moments": moments.collect::<Value>(),
        "cure": words.cure,
        "proof": words.proof.words().join(" "),
    })
}

fn evidence(evidence: &Evidence) -> Value {
    let unit = match evidence.unit {
        Unit::Count => "count",
        Unit::PerSecond => "1/s",
        Unit::Ns => "ns",
        Unit::Share => "share",
        Unit::Ratio => "ratio",
    };
    json!({ "name": evidence.name, "value": evidence.value, "unit": unit })
}

fn subject(facts: &Facts, subject: &Subject) -> Value {
    let (kind, number) = match subject {
        Subject::Lock { index, .. } => ("lock", json!(index)),
        Subject::Thread { tid, .. } => ("thread", json!(tid.0)),
        Subject::Process { pid, .. } => ("process", json!(pid.0)),
        Subject::Variable(_) => ("variable", Value::Null),
        Subject::Function(_) => ("function", Value::Null),
    };
    json!({ "kind": kind, "number": number, "name": name::subject(facts, subject) })
}

/// A problem with a stable code and its sentence.
fn problem(facts: &Facts, problem: &Problem) -> Value {
    let (code, path) = match problem {
        Problem::Lost { .. } => ("lost", None),
        Problem::CutOff => ("cut-off", None),
        Problem::ClockSkew { .. } => ("clock-skew", None),
        Problem::SwitchesDiffer { .. } => ("switches-differ", None),
        Problem::Displaced { .. } => ("displaced", None),
        Problem::Unreadable { path, .. } => ("unreadable", Some(path)),
        Problem::Replaced { path } => ("replaced", Some(path)),
        Problem::NoLines { path, .. } => ("no-lines", Some(path)),
        Problem::Unknown { .. } => ("unknown", None),
    };
    json!({ "code": code, "path": path, "message": summary::problem(facts, problem) })
}

fn totals(totals: &Totals) -> Value {
    json!({
        "events": totals.events,
        "lost": totals.lost,
        "switches": totals.switches,
        "involuntary": totals.involuntary,
        "on_cpu_ns": totals.on_cpu_ns,
        "thread_ns": totals.thread_ns,
        "lock_wait_ns": totals.lock_wait_ns,
        "run_ns": histogram(&totals.run_ns),
        "run_delay_ns": histogram(&totals.run_delay_ns),
        "runnable_ns": totals.runnable_ns,
        "user_samples": totals.user_samples,
        "kernel_samples": totals.kernel_samples,
        "wasted_wakes": totals.wasted_wakes,
    })
}

fn cpu(cpu: &CpuFacts) -> Value {
    json!({
        "busy_ns": cpu.busy_ns,
        "switches": cpu.switches,
        "lost": cpu.lost,
        "counters": counters(&cpu.counters),
    })
}

fn process(process: &ProcessFacts) -> Value {
    json!({
        "pid": process.pid.0,
        "name": process.name,
        "program": process.program,
        "threads": process.threads,
    })
}

fn thread(thread: &ThreadFacts) -> Value {
    let off = thread.off.iter().map(|(reason, off)| {
        let mut value = off_time(off);
        value["reason"] = name::reason_key(*reason).into();
        value["idle"] = reason.is_idle().into();
        value
    });
    json!({
        "tid": thread.tid.0,
        "pid": thread.pid.0,
        "name": thread.name,
        "born_ns": thread.born_ns,
        "ended_ns": thread.ended_ns,
        "exited": thread.exited,
        "on_cpu_ns": thread.on_cpu_ns,
        "off": off.collect::<Value>(),
        "involuntary": thread.involuntary,
        "voluntary": thread.voluntary,
        "run_ns": histogram(&thread.run_ns),
        "run_delay_ns": histogram(&thread.run_delay_ns),
        "migrations": thread.migrations,
        "user_samples": thread.user_samples,
        "kernel_samples": thread.kernel_samples,
        "lock_wait_ns": thread.lock_wait_ns,
        "wakes": thread.wakes,
        "usage_first": thread.usage.as_ref().map(|(first, _)| usage(first)),
        "usage_last": thread.usage.as_ref().map(|(_, last)| usage(last)),
    })
}

fn usage(usage: &ThreadUsage) -> Value {
    json!({
        "voluntary": usage.voluntary,
        "involuntary": usage.involuntary,
        "user_ns": usage.user_ns,
        "kernel_ns": usage.kernel_ns,
        "priority": usage.priority,
    })
}

fn off_time(off: &OffTime) -> Value {
    json!({ "count": off.count, "time_ns": off.ns })
}

fn figures(figures: &LockFigures) -> Value {
    let spread = |spread: Spread| {
        json!({
            "measured": spread.count,
            "scale": spread.scale,
            "sum_ns": spread.sum_ns,
            "median_ns": spread.p50_ns,
            "p99_ns": spread.p99_ns,
            "max_ns": spread.max_ns,
        })
    };
    json!({
        "acquisitions": figures.acquisitions,
        "contended": figures.contended,
        "slept": figures.slept,
        "threads": figures.threads,
        "wait": spread(figures.wait),
        "hold": spread(figures.hold),
    })
}

fn lock(lock: &LockFacts) -> Value {
    let waiters = lock.waiters.iter().map(|(tid, off)| by_thread(*tid, off.count, off.ns));
    let holders = lock.holders.iter().map(|holder| by_thread(holder.tid, holder.count, holder.ns));
    let off = lock
        .holder_doing
        .off
        .iter()
        .map(|(reason, ns)| json!({ "reason": name::reason_key(*reason), "time_ns": ns }));
    let words = lock.words.map(
        |(readings, held, contended)| json!({ "readings": readings, "held": held, "contended": contended }),
    );
    let longest =
        lock.longest.iter().map(|(tid, from, to)| json!({ "tid": tid.0, "from_ns": from, "to_ns": to }));
    json!({
        "pid": lock.pid.0,
        // As text: a reader that keeps numbers as doubles would round it.
        "address": lock.addr.map(|addr| format!("{addr:#x}")),
        "name": name::lock(lock),
        "symbol": symbol(&lock.name),
        "primitive": name::primitive_key(lock.primitive),
        "contention": lock.primitive.is_contention(),
        "waits": lock.waits,
        "wait_ns": histogram(&lock.wait_ns),
        "refused_waits": lock.refused_waits,
        "timeouts": lock.timeouts,
        "wakes": lock.wakes,
        "wasted_wakes": lock.wasted_wakes,
        "max_waiters": lock.max_waiters,
        "waiters": waiters.collect::<Value>(),
        "holders": holders.collect::<Value>(),
        "wait_sites": sites(&lock.wait_sites),
        "wake_sites": sites(&lock.wake_sites),
        "holder_running_ns": lock.holder_doing.running_ns,
        "holder_off": off.collect::<Value>(),
        "holder_unknown_ns": lock.holder_doing.unknown_ns,
        "holder_off_sites": sites(&lock.holder_doing.off_sites),
        "handover_ns": histogram(&lock.handover_ns),
        "run_before_ns": histogram(&lock.run_before_ns),
        "contended_ns": lock.contended_ns,
        "words": words,
        "figures": lock.figures.as_ref().map(figures),
        "herd_calls": lock.herds.calls,
        "herd_woken": lock.herds.woken,
        "herd_back_to_sleep": lock.herds.back_to_sleep,
        "inversions": off_time(&lock.inversions),
        "longest": longest.collect::<Value>(),
    })
}

fn symbol(name: &LockName) -> Value {
    match name {
        LockName::Symbol { name, offset } => json!({ "name": name, "offset": offset }),
        LockName::Site(_) | LockName::Address => Value::Null,
    }
}

fn by_thread(tid: Tid, count: u64, ns: u64) -> Value {
    json!({ "tid": tid.0, "count": count, "time_ns": ns })
}

fn pair(pair: &PairFacts) -> Value {
    json!({
        "a": pair.a.0,
        "b": pair.b.0,
        "a_wakes_b": pair.wakings.a_to_b,
        "b_wakes_a": pair.wakings.b_to_a,
        "round_trips": pair.round_trips,
        "run_ns": histogram(&pair.run_ns),
        "sites": sites(&pair.sites),
        "from_ns": pair.from_ns,
        "to_ns": pair.to_ns,
    })
}

fn code(code: &Code) -> Value {
    json!({ "frame": frame(&code.frame), "hits": code.hits, "inclusive": code.inclusive })
}

fn hotspot(spot: &Hotspot) -> Value {
    let class = match spot.class {
        HotspotClass::Atomic => "atomic",
        HotspotClass::Pause => "pause",
    };
    let threads = spot.threads.iter().map(|(tid, hits)| json!({ "tid": tid.0, "hits": hits }));
    json!({
        "frame": frame(&spot.frame),
        "instruction": spot.instruction,
        "class": class,
        "variable": spot.variable.as_ref().map(|variable| name::lock_short(variable, None)),
        "hits": spot.hits,
        "function_hits": spot.function_hits,
        "threads": threads.collect::<Value>(),
    })
}

fn sites(sites: &[Site]) -> Value {
    sites.iter().map(site).collect()
}

fn site(site: &Site) -> Value {
    json!({
        "count": site.count,
        "time_ns": site.ns,
        "place": name::caller(site),
        "trail": site.trail.iter().map(frame).collect::<Value>(),
    })
}

fn frame(frame: &Frame) -> Value {
    let role = match frame.role {
        Role::Program => "program",
        other => name::role(other),
    };
    json!({
        "function": frame.function.as_deref(),
        "module": &*frame.module,
        "offset": format!("{:#x}", frame.offset),
        "file": frame.file.as_deref(),
        "line": frame.line,
        "inlined": frame.inlined,
        "role": role,
    })
}

fn histogram(histogram: &Histogram) -> Value {
    let buckets =
        histogram.buckets().map(|(from, to, count)| json!({ "from_ns": from, "to_ns": to, "count": count }));
    json!({
        "count": histogram.count(),
        "sum_ns": histogram.sum_ns(),
        "min_ns": histogram.min_ns(),
        "median_ns": histogram.median_ns(),
        "p90_ns": histogram.quantile_ns(0.9),
        "p99_ns": histogram.quantile_ns(0.99),
        "max_ns": histogram.max_ns(),
        "buckets": buckets.collect::<Value>(),
    })
}

fn counters(counters: &std::collections::BTreeMap<Counter, u64>) -> Value {
    let named = counters.iter().map(|(counter, value)| (counter_key(*counter).to_owned(), (*value).into()));
    Value::Object(named.collect::<Map<String, Value>>())
}

fn counter_key(counter: Counter) -> &'static str {
    match counter {
        Counter::FutexCalls => "futex_calls",
        Counter::FutexAgain => "futex_again",
        Counter::Cycles => "cycles",
        Counter::Instructions => "instructions",
        Counter::L2Misses => "l2_misses",
        Counter::L3Misses => "l3_misses",
        Counter::Migrations => "migrations",
        Counter::MinorFaults => "minor_faults",
        Counter::RecorderCpuNs => "recorder_cpu_ns",
    }
}
