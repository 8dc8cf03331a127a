//! A flight recorder beside a program with faults at random times, for long: every fault must have its file, every file
//! must tell the cause, and the recorder must stay small.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::Value;

use crate::recording::{Bench, median};

/// What is kept: less than lies between two faults, so that each has a file of its own.
const LAST: &str = "6s";
/// The part of the run without a recorder, before and after.
const WITHOUT: Duration = Duration::from_secs(15);
/// A fault that comes later than this before the end may have no file any more.
const AFTER: Duration = Duration::from_secs(3);
/// A process that runs so much longer than it should hangs.
const LATE: Duration = Duration::from_secs(30);
/// The lock that the faults are of, and who causes them.
const LOCK: &str = "g_ledger_lock";
const HOLDER: &str = "keeper";
/// What a wait for it must have lasted.
const LEAST_NS: u64 = 50_000_000;

/// Runs for an hour, or so many minutes; a seed may be given.
pub fn run(args: &[String]) -> Result<(), String> {
    let minutes = args.first().map_or(Ok(60.0), |word| word.parse::<f64>());
    let minutes = minutes.ok().filter(|minutes| *minutes > 0.0).ok_or("usage: cargo xtask soak [MINUTES [SEED]]")?;
    let clock = || SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |time| u64::from(time.subsec_micros()));
    let seed = args.get(1).map_or_else(|| Ok(clock()), |word| word.parse::<u64>());
    let seed = seed.map_err(|why| format!("'{}': {why}", args[1]))? % 65_536;
    println!("again: cargo xtask soak {minutes} {seed}");
    let bench = Bench::new("soak")?;
    let program = bench.compile("recorder/soak.c")?;
    let before = Load::start(&program, WITHOUT, seed)?.end()?;
    let recorded = recorded(&bench, &program, Duration::from_secs_f64(minutes * 60.0), seed)?;
    let after = Load::start(&program, WITHOUT, seed)?.end()?;
    let without = median(&[before.rates, after.rates].concat());
    let with = median(&recorded.seen.rates);
    println!(
        "{} faults, {} files, all of which name {LOCK} and its holder; {} have a finding of it first; {} events lost",
        recorded.seen.faults.len(),
        recorded.files.len(),
        recorded.first_findings,
        recorded.lost
    );
    println!(
        "{with:.0} switches per second with the recorder, {without:.0} without: {:.3} times as long",
        without / with
    );
    println!(
        "the recorder's own memory: at most {:.1} MiB (anonymous), {:.1} MiB with files and rings; {:.1}% of a CPU",
        recorded.anonymous_kib / 1024.0,
        recorded.resident_kib / 1024.0,
        recorded.cpu * 100.0
    );
    Ok(())
}

/// What a program printed.
#[derive(Default)]
struct Seen {
    /// Turns per second, without the first seconds.
    rates: Vec<f64>,
    /// From and to, in nanoseconds.
    faults: Vec<(u64, u64)>,
    end_ns: u64,
}

/// The program under way.
struct Load {
    child: Child,
    lines: Receiver<String>,
    /// When it must have ended.
    due: Instant,
}

impl Load {
    fn start(program: &Path, time: Duration, seed: u64) -> Result<Load, String> {
        let words = [time.as_millis().to_string(), seed.to_string()];
        let child = Command::new(program).args(words).stdout(Stdio::piped()).spawn();
        let mut child = child.map_err(|why| format!("{}: {why}", program.display()))?;
        let (tell, lines) = mpsc::channel();
        let output = child.stdout.take().ok_or("the program has no output")?;
        // Ends with the program's output.
        thread::spawn(move || {
            BufReader::new(output).lines().map_while(Result::ok).try_for_each(|line| tell.send(line))
        });
        Ok(Load { child, lines, due: Instant::now() + time + LATE })
    }

    fn end(mut self) -> Result<Seen, String> {
        in_time(&mut self.child, self.due, "the program", || ())?;
        let mut seen = Seen::default();
        for line in self.lines {
            let mut words = line.split(' ');
            let kind = words.next().unwrap_or_default();
            let mut number = || words.next().and_then(|word| word.parse::<u64>().ok()).ok_or(line.clone());
            match kind {
                "turns" => seen.rates.push(number()? as f64 * 1e9 / number()? as f64),
                "fault" => seen.faults.push((number()?, number()?)),
                "end" => seen.end_ns = number()?,
                _ => return Err(line),
            }
        }
        const SETTLED: usize = 2;
        seen.rates.drain(..SETTLED.min(seen.rates.len()));
        Ok(seen)
    }
}

/// Waits until a process has ended well, and does this meanwhile some times a second. One that does not end in time is
/// ended.
fn in_time(child: &mut Child, due: Instant, name: &str, mut meanwhile: impl FnMut()) -> Result<(), String> {
    loop {
        match child.try_wait().map_err(|why| why.to_string())? {
            Some(status) if status.success() => return Ok(()),
            Some(status) => return Err(format!("{name} ended with {status}")),
            None if Instant::now() > due => {
                child.kill().map_err(|why| why.to_string())?;
                return Err(format!("{name} did not end"));
            }
            None => meanwhile(),
        }
        thread::sleep(Duration::from_millis(250));
    }
}

/// What came of the recorder.
struct Recorded {
    seen: Seen,
    files: Vec<PathBuf>,
    first_findings: usize,
    /// Events that were lost, of all files.
    lost: u64,
    anonymous_kib: f64,
    resident_kib: f64,
    /// Part of a CPU.
    cpu: f64,
}

fn recorded(bench: &Bench, program: &Path, time: Duration, seed: u64) -> Result<Recorded, String> {
    let load = Load::start(program, time, seed)?;
    let began = Instant::now();
    let words = ["record", "--last", LAST, "--when", "lock-wait > 50ms", "--after", "1s", "--max-files", "10000"];
    let mut recorder = Command::new(&bench.holdup)
        .args(words)
        .args(["-p", &load.child.id().to_string(), "-o", "soak.holdup"])
        .current_dir(&bench.folder)
        .stderr(Stdio::null())
        .spawn()
        .map_err(|why| format!("{}: {why}", bench.holdup.display()))?;
    let (mut anonymous_kib, mut resident_kib, mut cpu_s) = (0.0_f64, 0.0_f64, 0.0_f64);
    let pid = recorder.id();
    in_time(&mut recorder, load.due, "the recorder", || {
        let memory = |key| status(pid, key).unwrap_or(0.0);
        anonymous_kib = anonymous_kib.max(memory("RssAnon:"));
        resident_kib = resident_kib.max(memory("VmRSS:"));
        cpu_s = cpu_s.max(cpu_time(pid).unwrap_or(0.0));
    })?;
    let cpu = cpu_s / began.elapsed().as_secs_f64();
    let seen = load.end()?;
    let last_ns = seen.end_ns.saturating_sub(AFTER.as_nanos() as u64);
    let files: Vec<PathBuf> =
        (1..).map(|at| bench.folder.join(format!("soak-{at}.holdup"))).take_while(|file| file.exists()).collect();
    let (mut first_findings, mut lost) = (0, 0);
    let mut told = Vec::new();
    for file in &files {
        let report = bench.report(file)?;
        let fault = cause(&report, &seen.faults).map_err(|why| format!("{}: {why}", file.display()))?;
        told.push(fault);
        lost += report["totals"]["lost"].as_u64().unwrap_or(0);
        first_findings += usize::from(report["findings"][0]["subjects"][0]["name"] == LOCK);
    }
    match seen.faults.iter().position(|fault| fault.0 < last_ns && !told.contains(fault)) {
        Some(missing) => Err(format!("fault {} of {} has no file", missing + 1, seen.faults.len())),
        None => Ok(Recorded { seen, files, first_findings, lost, anonymous_kib, resident_kib, cpu }),
    }
}

/// The fault that a file was written for; an error if the file does not tell of its cause.
fn cause(report: &Value, faults: &[(u64, u64)]) -> Result<(u64, u64), String> {
    let trigger = &report["ending"]["trigger"];
    let time_ns = trigger["time_ns"].as_u64().ok_or("there is no trigger")?;
    let seen = trigger["seen"].as_str().unwrap_or_default();
    if !seen.contains(LOCK) {
        return Err(format!("the trigger does not name {LOCK}: {seen}"));
    }
    let fault = faults.iter().find(|(from_ns, to_ns)| (*from_ns..=*to_ns).contains(&time_ns));
    let fault = *fault.ok_or_else(|| format!("no fault is at {time_ns}"))?;
    let named = |list: &str, name: &str| {
        report[list].as_array().into_iter().flatten().find(|one| one["name"] == *name).cloned().unwrap_or_default()
    };
    let (lock, keeper) = (named("locks", LOCK), named("threads", HOLDER));
    let longest_ns = lock["wait_ns"]["max_ns"].as_u64().unwrap_or(0);
    // A clerk that waited behind the other one as long was let in by that one.
    let holders = lock["holders"].as_array().into_iter().flatten();
    let held_ns: u64 =
        holders.filter(|one| one["tid"] == keeper["tid"]).filter_map(|one| one["time_ns"].as_u64()).sum();
    if longest_ns < LEAST_NS || held_ns < LEAST_NS {
        return Err(format!("{LOCK} was waited for {longest_ns} ns, of which {HOLDER} had it for {held_ns} ns"));
    }
    Ok(fault)
}

/// A line of a process's status, in KiB.
fn status(pid: u32, key: &str) -> Option<f64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(key))?;
    line.trim().trim_end_matches(" kB").parse().ok()
}

/// Seconds of CPU time that a process used.
fn cpu_time(pid: u32) -> Option<f64> {
    const TICKS_PER_S: f64 = 100.0;
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut fields = text.rsplit_once(") ")?.1.split(' ').skip(11);
    let mut ticks = || fields.next()?.parse::<f64>().ok();
    Some((ticks()? + ticks()?) / TICKS_PER_S)
}
