//! Does a recording say what happened? Runs of the bench know what they did; the kernel keeps an account; perf watches
//! the same run.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::recording::{Bench, has, is_root, output};

/// Switches per thread against the kernel's own count.
const SWITCHES_OFF: f64 = 0.01;
/// Waits for locks against the bench's own account.
const WAITS_OFF: f64 = 0.05;
/// Switches and CPU time per thread against perf, and CPU time against the kernel's own account.
const PERF_OFF: f64 = 0.02;
/// A thread's start and end are seen from different places: so many switches, and so much CPU time, may lie between.
const EDGE_SWITCHES: f64 = 4.0;
const EDGE_NS: f64 = 1e6;

/// Cells of the bench. The holds are so long that every acquisition is timed.
const CELLS: &[&str] = &[
    "workload=free-list threads=2 hold=100us gap=20us",
    "workload=free-list threads=4 hold=50us gap=50us",
    "workload=free-list threads=8 hold=200us",
    "workload=free-list threads=16 hold=100us gap=100us",
    "workload=db threads=2 hold=100us",
    "workload=db threads=8 hold=100us",
    "workload=db threads=16 hold=200us",
    "workload=ping-pong threads=2 hold=5us gap=5us",
    "workload=ping-pong threads=16 hold=20us gap=20us",
];

/// What a cell's run gave.
struct Row {
    cell: &'static str,
    /// Worst thread: recorded switches against the kernel's count.
    switches: f64,
    /// Recorded time in lock waits against the bench's, and the top lock's part of the recorded; `None` if locks hardly
    /// mattered.
    waits: Option<(f64, f64)>,
    /// Worst thread: CPU time against the kernel's own account.
    cpu: f64,
    /// What perf says of the same run.
    perf: Option<Perf>,
    lost: u64,
}

/// Beside perf's recording of the run.
struct Perf {
    /// Worst thread.
    switches: f64,
    /// Worst thread: CPU time.
    cpu: f64,
    /// CPUs that went idle and, for all that perf has seen, never came back: there the time that a CPU idled counts as
    /// that of the next thread.
    never_left_idle: Vec<usize>,
}

impl Row {
    /// Where the kernel does not tell when a CPU leaves idleness, nobody's CPU time can be right: it is shown, not
    /// judged.
    fn is_cpu_known(&self) -> bool {
        self.perf.as_ref().is_none_or(|perf| perf.never_left_idle.is_empty())
    }
}

impl Row {
    fn is_right(&self) -> bool {
        self.switches <= SWITCHES_OFF
            && self.waits.is_none_or(|(off, top)| off.abs() <= WAITS_OFF && top >= 1.0 - WAITS_OFF)
            && self.perf.as_ref().is_none_or(|perf| perf.switches <= PERF_OFF)
            && (!self.is_cpu_known() || self.cpu <= PERF_OFF)
            && (!self.is_cpu_known() || self.perf.as_ref().is_none_or(|perf| perf.cpu <= PERF_OFF))
            && self.lost == 0
    }
}

/// Checks every cell and prints the table; an error if a recording is off.
pub fn run(_args: &[String]) -> Result<(), String> {
    let bench = Bench::new("record-truth")?;
    let with_perf = has("perf") && is_root();
    if !with_perf {
        println!("not compared with perf sched timehist: that needs perf and root");
    }
    for (heads, verdict) in [
        (["", "switches", "waits", "top lock", "cpu time", "perf", "perf"], "verdict"),
        (["cell of the bench", "kernel", "bench", "of waits", "kernel", "switches", "cpu time"], ""),
    ] {
        line(&heads.map(str::to_owned), verdict);
    }
    let (mut wrong, mut dark) = (0, BTreeSet::new());
    for cell in CELLS {
        let row = check(&bench, cell, with_perf)?;
        wrong += usize::from(!row.is_right());
        dark.extend(row.perf.iter().flat_map(|perf| &perf.never_left_idle).copied());
        print(&row);
    }
    if !dark.is_empty() {
        println!(
            "\n(a) shown, not judged: perf too has not one switch out of idleness on CPU {}. The kernel does not tell\n\
             it there (a switch out of idle comes from the idle task, whose tracepoints stay silent on that CPU).\n\
             perf sched timehist then counts the idle time as run time of the next thread; holdup takes the thread's own,\n\
             later word for it, so its CPU time is that much too small.",
            dark.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
        );
    }
    if wrong == 0 { Ok(()) } else { Err(format!("{wrong} of {} recordings are off", CELLS.len())) }
}

fn line([cell, rest @ ..]: &[String; 7], verdict: &str) {
    let rest: String = rest.iter().map(|column| format!("{column:>11}")).collect();
    println!("{cell:<52}{rest}  {verdict}");
}

fn print(row: &Row) {
    let percent = |value: Option<f64>| value.map_or("-".to_owned(), |value| format!("{:.2}%", value * 100.0));
    let noted = |value: Option<f64>| percent(value) + if row.is_cpu_known() || value.is_none() { "" } else { " (a)" };
    let verdict = if row.is_right() { "right" } else { "OFF" };
    let lost = if row.lost > 0 { format!(", {} events lost", row.lost) } else { String::new() };
    line(
        &[
            row.cell.to_owned(),
            percent(Some(row.switches)),
            percent(row.waits.map(|(off, _)| off)),
            percent(row.waits.map(|(_, top)| top)),
            noted(Some(row.cpu)),
            percent(row.perf.as_ref().map(|perf| perf.switches)),
            noted(row.perf.as_ref().map(|perf| perf.cpu)),
        ],
        &format!("{verdict}{lost}"),
    );
}

fn check(bench: &Bench, cell: &'static str, with_perf: bool) -> Result<Row, String> {
    let (file, data) = (bench.fresh("truth.holdup"), bench.fresh("truth.perf"));
    let mut command = if with_perf {
        let mut perf = Command::new("perf");
        perf.args(["sched", "record", "-m", "4096", "-o"]).arg(&data).arg("--").arg(&bench.holdup);
        perf
    } else {
        Command::new(&bench.holdup)
    };
    command.args(["record", "--no-report", "-o"]).arg(&file).arg("--");
    // A worker dies with the thread that started it; a shell is a parent that stays.
    command.args(["sh", "-c", "\"$0\" \"$@\"; exit $?"]).arg(&bench.holdup);
    command.args(["__worker", "lock=pthread", "duration=3s", "latency=on"]).args(cell.split(' '));
    let sample = Sample::read(&output(&mut command)?.stdout)?;
    let report = bench.report(&file)?;
    let perf = if with_perf { Some(against_perf(&report, &data)?) } else { None };
    Ok(Row {
        cell,
        switches: against_kernel(&report, &sample)?,
        waits: against_bench(&report, &sample),
        cpu: against_account(&report),
        perf,
        lost: report["totals"]["lost"].as_u64().unwrap_or(0),
    })
}

/// What the bench says of its own run.
struct Sample {
    switches: Vec<f64>,
    acquire_ns: f64,
    all_timed: bool,
}

impl Sample {
    fn read(said: &[u8]) -> Result<Sample, String> {
        let said: Value = serde_json::from_slice(said).map_err(|why| format!("the worker's report: {why}"))?;
        Ok(Sample {
            switches: said["thread_life_switches"].as_array().into_iter().flatten().filter_map(Value::as_f64).collect(),
            acquire_ns: said["latency_sum_ns"].as_f64().unwrap_or(0.0),
            all_timed: said["sample"]["latency"]["sampled_every"] == 1,
        })
    }
}

/// The measuring threads of a report, by number.
fn threads(report: &Value) -> BTreeMap<usize, &Value> {
    let all = report["threads"].as_array().into_iter().flatten();
    let number = |thread: &Value| thread["name"].as_str()?.strip_prefix("measure-")?.parse().ok();
    all.filter_map(|thread| Some((number(thread)?, thread))).collect()
}

fn recorded_switches(thread: &Value) -> f64 {
    let count = |key: &str| thread[key].as_f64().unwrap_or(0.0);
    count("voluntary") + count("involuntary")
}

/// How far apart, as a share of the second, beyond what start and end of a thread explain.
fn off(ours: f64, theirs: f64, edge: f64) -> f64 {
    ((ours - theirs).abs() - edge).max(0.0) / theirs.max(1.0)
}

fn against_kernel(report: &Value, sample: &Sample) -> Result<f64, String> {
    let threads = threads(report);
    if threads.len() != sample.switches.len() {
        return Err(format!("{} threads were recorded, {} ran", threads.len(), sample.switches.len()));
    }
    let worst = threads
        .values()
        .zip(&sample.switches)
        .map(|(thread, counted)| off(recorded_switches(thread), *counted, EDGE_SWITCHES));
    Ok(worst.fold(0.0, f64::max))
}

fn against_bench(report: &Value, sample: &Sample) -> Option<(f64, f64)> {
    let recorded: f64 = threads(report).values().filter_map(|thread| thread["lock_wait_ns"].as_f64()).sum();
    let locks = report["locks"].as_array()?.iter().filter(|lock| lock["contention"] == true);
    let top = locks.filter_map(|lock| lock["wait_ns"]["sum_ns"].as_f64()).fold(0.0, f64::max);
    // Below a tenth of a second the time outside of waits is a good part of what it takes to acquire.
    let comparable = sample.all_timed && sample.acquire_ns >= 1e8;
    comparable.then(|| (recorded / sample.acquire_ns - 1.0, top / recorded.max(1.0)))
}

/// CPU time per thread against user plus kernel time, as the kernel counted them at its last reading.
fn against_account(report: &Value) -> f64 {
    let threads = threads(report);
    let worst = threads.values().filter_map(|thread| {
        let account = &thread["usage_last"];
        let theirs = account["user_ns"].as_f64()? + account["kernel_ns"].as_f64()?;
        Some(off(thread["on_cpu_ns"].as_f64()?, theirs, EDGE_NS))
    });
    worst.fold(0.0, f64::max)
}

fn against_perf(report: &Value, data: &Path) -> Result<Perf, String> {
    let mut command = Command::new("perf");
    let summary = output(command.args(["sched", "timehist", "--summary", "-i"]).arg(data))?;
    let theirs = timehist(&String::from_utf8_lossy(&summary.stdout));
    let mut perf = Perf { switches: 0.0, cpu: 0.0, never_left_idle: never_left_idle(data)? };
    for thread in threads(report).values() {
        let tid = thread["tid"].as_u64().unwrap_or(0);
        let (switches, cpu_ns) = theirs.get(&tid).ok_or_else(|| format!("perf has no thread {tid}"))?;
        let ours_ns = thread["on_cpu_ns"].as_f64().unwrap_or(0.0);
        perf.switches = perf.switches.max(off(recorded_switches(thread), *switches, EDGE_SWITCHES));
        perf.cpu = perf.cpu.max(off(ours_ns, *cpu_ns, EDGE_NS));
    }
    Ok(perf)
}

/// CPUs with switches to the idle task and none from it.
fn never_left_idle(data: &Path) -> Result<Vec<usize>, String> {
    let mut command = Command::new("perf");
    let script = output(command.args(["script", "-F", "cpu,event,trace", "-i"]).arg(data))?;
    let mut idle: BTreeMap<usize, (u64, u64)> = BTreeMap::new();
    for line in String::from_utf8_lossy(&script.stdout).lines().filter(|line| line.contains("sched_switch:")) {
        let cpu = line.trim_start().strip_prefix('[').and_then(|line| line.split_once(']'));
        let Some(Ok(cpu)) = cpu.map(|(cpu, _)| cpu.parse()) else { continue };
        let (into, out) = idle.entry(cpu).or_default();
        *into += u64::from(line.contains(" next_pid=0 "));
        *out += u64::from(line.contains(" prev_pid=0 "));
    }
    Ok(idle.into_iter().filter(|(_, (into, out))| *into > 2 && *out == 0).map(|(cpu, _)| cpu).collect())
}

/// Switches and CPU time by thread from the summary: `comm[tid/pid]  parent  sched-in  run-time(ms) ...`.
fn timehist(text: &str) -> BTreeMap<u64, (f64, f64)> {
    text.lines()
        .filter_map(|line| {
            let (before, after) = line.rsplit_once(']')?;
            let ids = before.rsplit_once('[')?.1;
            let tid = ids.split('/').next()?.parse().ok()?;
            let mut words = after.split_whitespace();
            let _parent = words.next()?;
            let switches: f64 = words.next()?.parse().ok()?;
            let run_ms: f64 = words.next()?.parse().ok()?;
            Some((tid, (switches, run_ms * 1e6)))
        })
        .collect()
}
