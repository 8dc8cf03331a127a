//! What holds the locks' claims: models, interpreted runs, sanitized runs, one suite over every lock, and mutations.
//!
//! | part | question it answers |
//! |---|---|
//! | `loom` | is every interleaving of a few threads right, within a bound on preemptions, also with weak memory? |
//! | `conformance` | does every lock keep its promises on this system, in debug (with misuse) and release builds, with every feature set? |
//! | `miri` | are the Linux backend and the unsafe code sound under many random schedules with weak memory? |
//! | `tsan` | do real threads race? |
//! | `mutations` | would the above notice? Each entry of the list breaks one thing, and a named test must fail |

mod list;
mod mutations;

use crate::run::{self, Step, cargo};
use std::time::{Duration, Instant};

const USAGE: &str =
    "cargo xtask proofs [loom|conformance|miri|tsan|mutations]... [--seeds N] [--minutes N] [--only WORD]";

/// What the arguments ask for.
struct Options {
    parts: Vec<&'static Part>,
    /// Schedules that Miri runs each test under.
    seeds: u32,
    /// Miri starts no further batch of seeds after this long.
    time: Duration,
    /// Only mutations whose file, test or fragment contains this.
    only: String,
}

struct Part {
    name: &'static str,
    /// Says in a few words what passed.
    run: fn(&Options) -> Result<String, String>,
}

/// Cheap parts first.
const PARTS: &[Part] = &[
    Part { name: "loom", run: |_| models(&[DEEP]).map(|()| "every model".to_owned()) },
    Part { name: "conformance", run: |_| conformance() },
    Part { name: "mutations", run: |options| mutations::run(&options.only) },
    Part { name: "tsan", run: |_| tsan().map(|()| "no race reported".to_owned()) },
    Part { name: "miri", run: |options| miri_in_batches(options.seeds, options.time) },
];

/// `cargo xtask proofs`: runs the parts asked for, or all, prints a table, and fails if one did.
pub fn run(args: &[String]) -> Result<(), String> {
    let options = options(args)?;
    let mut rows = Vec::new();
    let mut failed = Vec::new();
    for part in &options.parts {
        let began = Instant::now();
        let (verdict, words) = match (part.run)(&options) {
            Ok(words) => ("ok", words),
            Err(why) => {
                failed.push(part.name);
                ("FAILED", why)
            }
        };
        rows.push(format!("{:<13}{verdict:<8}{:>6} s  {words}", part.name, began.elapsed().as_secs()));
    }
    println!("\n{:<13}{:<8}{:>6}", "part", "", "time");
    rows.iter().for_each(|row| println!("{row}"));
    if failed.is_empty() { Ok(()) } else { Err(format!("failed: {}", failed.join(", "))) }
}

fn options(args: &[String]) -> Result<Options, String> {
    let mut options = Options { parts: Vec::new(), seeds: 16, time: Duration::from_secs(60 * 60), only: String::new() };
    let mut words = args.iter();
    while let Some(word) = words.next() {
        match word.as_str() {
            "--seeds" => options.seeds = number(word, words.next())?,
            "--minutes" => options.time = Duration::from_secs(60 * u64::from(number(word, words.next())?)),
            "--only" => options.only = words.next().ok_or(format!("--only needs a word: {USAGE}"))?.clone(),
            name => options.parts.push(
                PARTS
                    .iter()
                    .find(|part| part.name == name)
                    .ok_or_else(|| format!("'{name}' is no part of the proofs: {USAGE}"))?,
            ),
        }
    }
    if options.parts.is_empty() {
        options.parts = PARTS.iter().collect();
    }
    Ok(options)
}

fn number(option: &str, word: Option<&String>) -> Result<u32, String> {
    let number = word.and_then(|word| word.parse().ok()).filter(|&number| number > 0);
    number.ok_or_else(|| format!("{option} needs a number above zero: {USAGE}"))
}

/// How models are built: they need speed, and the rest of the release profile only costs time here.
const MODELS: [(&str, &str); 4] = [
    ("RUSTFLAGS", "--cfg loom"),
    ("CARGO_PROFILE_RELEASE_LTO", "off"),
    ("CARGO_PROFILE_RELEASE_DEBUG", "0"),
    ("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16"),
];
/// Lets models take minutes.
const DEEP: (&str, &str) = ("HOLDUP_DEEP_MODELS", "1");

/// The models, those that would take minutes with fewer preemptions.
pub fn loom() -> Result<(), String> {
    models(&[])
}

/// loom replaces the atomics and the futex; release, because a debug build explores for minutes.
fn models(more: &[(&str, &str)]) -> Result<(), String> {
    let step = cargo(&["test", "--package", "holdup-locks", "--release"])
        .args(&["--test", "loom", "--test", "loom_rw", "--test", "loom_techniques"])
        .env("CARGO_TARGET_DIR", &run::target("loom"));
    MODELS.iter().chain(more).fold(step, |step, (name, value)| step.env(name, value)).run()
}

fn conformance() -> Result<String, String> {
    cargo(&["check", "--package", "holdup-locks", "--no-default-features"]).run()?;
    cargo(&["test", "--package", "holdup-locks", "--features", "lock_api_04"]).run()?;
    cargo(&["test", "--package", "holdup-locks", "--release", "--features", "lock_api_04"]).run()?;
    Ok("debug with misuse, release, both lock_api versions; builds without std".to_owned())
}

/// `cargo xtask miri`: a few seeds (SEEDS, 4).
pub fn miri() -> Result<(), String> {
    let seeds = std::env::var("SEEDS").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(4);
    miri_in_batches(seeds, Duration::MAX).map(drop)
}

/// Seeds a few at a time, so that the time can be kept: every batch runs all tests.
fn miri_in_batches(seeds: u32, time: Duration) -> Result<String, String> {
    nightly_has("miri")?;
    let batch = std::thread::available_parallelism().map_or(1, usize::from).min(16) as u32;
    let began = Instant::now();
    let mut done = 0;
    while done < seeds {
        if began.elapsed() >= time {
            let minutes = time.as_secs() / 60;
            return Err(format!("only {done} of {seeds} seeds fit in {minutes} minutes: raise --minutes"));
        }
        let until = seeds.min(done + batch);
        miri_seeds(done, until).map_err(|why| format!("seeds {done} to {}: {why}", until - 1))?;
        done = until;
    }
    Ok(format!("{done} seeds of every test"))
}

/// Isolation is off because the locks read the monotonic clock; every seed is another schedule.
fn miri_seeds(from: u32, until: u32) -> Result<(), String> {
    cargo(&["+nightly", "miri", "test", "--package", "holdup-locks", "--lib"])
        .args(&["--test", "conformance", "--test", "rw", "--test", "techniques"])
        .env("MIRIFLAGS", &format!("-Zmiri-disable-isolation -Zmiri-many-seeds={from}..{until}"))
        .env("CARGO_TARGET_DIR", &run::target("miri"))
        // Backtraces of the panics that tests provoke take a minute each to interpret.
        .env("RUST_BACKTRACE", "0")
        .run()
}

/// `cargo xtask tsan`.
pub fn tsan() -> Result<(), String> {
    nightly_has("rust-src")?;
    let target = "x86_64-unknown-linux-gnu";
    let suppressions = run::root().join("crates/holdup-locks/tsan-suppressions.txt");
    cargo(&["+nightly", "test", "-Zbuild-std", "--target", target, "--package", "holdup-locks"])
        .args(&["--lib", "--test", "conformance", "--test", "rw", "--test", "techniques"])
        .env("RUSTFLAGS", "-Zsanitizer=thread")
        .env("TSAN_OPTIONS", &format!("suppressions={}", suppressions.display()))
        .env("CARGO_TARGET_DIR", &run::target("tsan"))
        .run()
}

fn nightly_has(component: &str) -> Result<(), String> {
    Step::new("rustup", &["component", "add", "--toolchain", "nightly", component]).run()
}
