//! A chunk of inputs in a child process, which its parent watches.
//!
//! The child tells the number of the input that it is at in a file of eight bytes; what it says on stdout is one line
//! for each fault and, at its end, how long the slowest input took.

use std::fs::File;
use std::io::Read as _;
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::folder;
use super::readers::{Reader, named};

/// The first argument of a child.
pub const CHILD: &str = "--child";
/// Faults of a chunk that are told and kept.
const TOLD: u64 = 3;
/// Memory that a child may have.
const BYTES: u64 = 1 << 30;
/// CPU time that one input may take, and time in all, of which a busy machine takes its part.
const CPU: Duration = Duration::from_secs(5);
const WALL: Duration = Duration::from_secs(60);

/// Reads these inputs in a child. How many there were until one ended it.
pub fn run(reader: &Reader, seed: u64, inputs: Range<u64>, faults: &mut Vec<String>, slowest: &mut Duration) -> u64 {
    let told = folder().join(format!("{}-{}", reader.name, std::process::id()));
    let progress = File::options().read(true).write(true).create(true).truncate(true).open(&told).unwrap();
    progress.write_all_at(&inputs.start.to_le_bytes(), 0).unwrap();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args([CHILD, reader.name])
        .args([seed, inputs.start, inputs.end].map(|number| number.to_string()))
        .arg(&told);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let hung = watch(&mut child, &progress);
    let (mut said, mut complained) = (String::new(), String::new());
    child.stdout.take().unwrap().read_to_string(&mut said).unwrap();
    child.stderr.take().unwrap().read_to_string(&mut complained).unwrap();
    let status = child.wait().unwrap();
    let at = number(&progress);
    std::fs::remove_file(&told).unwrap();
    for line in said.lines() {
        match line.strip_prefix("slowest ") {
            Some(ns) => *slowest = (*slowest).max(Duration::from_nanos(ns.parse().unwrap())),
            None => faults.push(line.to_owned()),
        }
    }
    if status.success() {
        return inputs.end - inputs.start;
    }
    let why = hung.unwrap_or_else(|| format!("{status}: {}", complained.lines().last().unwrap_or("without a word")));
    faults.push(fault(reader, seed, at, &why));
    at + 1 - inputs.start
}

/// Waits for its end; why it was killed, if one input takes too long.
fn watch(child: &mut Child, progress: &File) -> Option<String> {
    let (mut at, mut since, mut used) = (u64::MAX, Instant::now(), Duration::ZERO);
    while child.try_wait().unwrap().is_none() {
        let cpu = cpu_time(child.id());
        if number(progress) != at {
            (at, since, used) = (number(progress), Instant::now(), cpu);
        }
        if cpu.saturating_sub(used) > CPU || since.elapsed() > WALL {
            child.kill().unwrap();
            return Some(format!("no end after {:?} of CPU time", cpu.saturating_sub(used)));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    None
}

fn number(progress: &File) -> u64 {
    let mut bytes = [0; 8];
    progress.read_exact_at(&mut bytes, 0).unwrap();
    u64::from_le_bytes(bytes)
}

/// CPU time of a process until now, in the hundredths of a second that the kernel tells.
fn cpu_time(pid: u32) -> Duration {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    let ticks: u64 = fields.skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum();
    Duration::from_millis(10 * ticks)
}

/// Keeps the input, and says how to repeat it.
fn fault(reader: &Reader, seed: u64, number: u64, why: &str) -> String {
    let path = folder().join(format!("{}-{seed}-{number}", reader.name));
    std::fs::write(&path, reader.input(seed, number)).unwrap();
    format!("--reader {} --seed {seed} --first {number} --inputs 1: {why} ({})", reader.name, path.display())
}

/// The child: reader, seed, first input, end, file for the progress.
pub fn child(args: &[String]) -> ExitCode {
    let number = |at: usize| args[at].parse::<u64>().unwrap();
    let (reader, seed, inputs) = (named(&args[0]), number(1), number(2)..number(3));
    let progress = File::options().write(true).open(&args[4]).unwrap();
    limit_memory();
    std::panic::set_hook(Box::new(|panic| {
        let place = panic.location().map(|place| format!("{}:{}", place.file(), place.line()));
        *PLACE.lock().unwrap_or_else(PoisonError::into_inner) = place.unwrap_or_default();
    }));
    let (mut slowest, mut faults) = (Duration::ZERO, 0_u64);
    for at in inputs {
        progress.write_all_at(&at.to_le_bytes(), 0).unwrap();
        let input = reader.input(seed, at);
        let began = Instant::now();
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| (reader.read)(&input, at))) {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let why = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("a panic").replace('\n', " ");
            faults += 1;
            // One mistake is met by many inputs.
            if faults <= TOLD {
                println!("{}", fault(reader, seed, at, &format!("panics at {}: {why}", place())));
            }
        }
        slowest = slowest.max(began.elapsed());
    }
    if faults > TOLD {
        println!("and {} more of these inputs", faults - TOLD);
    }
    println!("slowest {}", slowest.as_nanos());
    ExitCode::SUCCESS
}

/// Where the last panic was.
static PLACE: Mutex<String> = Mutex::new(String::new());

fn place() -> String {
    PLACE.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

fn limit_memory() {
    use rustix::process::{Resource, Rlimit, setrlimit};
    let limit = Rlimit { current: Some(BYTES), maximum: Some(BYTES) };
    setrlimit(Resource::As, limit).unwrap();
    let none = Rlimit { current: Some(0), maximum: Some(0) };
    setrlimit(Resource::Core, none).unwrap();
}
