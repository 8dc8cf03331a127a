//! What cargo cannot do alone: the checks in one go, model checking, Miri, ThreadSanitizer, the benchmark page.
//!
//! `cargo xtask` without arguments lists the commands.

mod bench_page;
mod fuzz;
mod interposer_cost;
mod profile_truth;
mod record_cost;
mod record_faults;
mod record_truth;
mod recording;
mod run;
mod selftest_programs;
mod selftest_stress;
mod viewer;
mod viewer_cost;
mod viewer_shots;

use run::{Step, cargo};
use std::process::ExitCode;

struct Command {
    name: &'static str,
    help: &'static str,
    run: fn(&[String]) -> Result<(), String>,
}

const COMMANDS: &[Command] = &[
    Command { name: "ci", help: "format, lints, tests and loom models: what CI runs", run: |_| ci() },
    Command {
        name: "loom",
        help: "model-check the locks and techniques: every interleaving up to two preemptions",
        run: |_| loom(),
    },
    Command {
        name: "miri",
        help: "interpret the lock crate's tests under Miri (nightly; SEEDS=16 for more schedules)",
        run: |_| miri(),
    },
    Command {
        name: "tsan",
        help: "run the lock crate's tests under ThreadSanitizer (nightly)",
        run: |_| tsan(),
    },
    Command {
        name: "fuzz",
        help: "damage recordings at random and read them, for 60 s or the seconds given",
        run: fuzz::run,
    },
    Command {
        name: "bench-page",
        help: "measure the peers and the published claims, and write docs/benchmarks/ for this machine (20 minutes)",
        run: bench_page::write,
    },
    Command {
        name: "record-truth",
        help: "record runs of the bench and compare with the bench, the kernel and perf (root for perf; 2 minutes)",
        run: record_truth::run,
    },
    Command {
        name: "profile-truth",
        help: "profile runs of the bench and compare the waits with the bench's own account (2 minutes)",
        run: profile_truth::run,
    },
    Command {
        name: "record-cost",
        help: "measure what recording costs, ours beside perf, and write docs/benchmarks/ for this machine (10 minutes)",
        run: record_cost::write,
    },
    Command {
        name: "interposer-cost",
        help: "measure what the interposer costs beside glibc, and write docs/benchmarks/ for this machine (10 minutes)",
        run: interposer_cost::write,
    },
    Command {
        name: "record-faults",
        help: "kill the recorder 50 times at random moments and open what it leaves (2 minutes)",
        run: record_faults::run,
    },
    Command {
        name: "viewer",
        help: "build the script and style sheet of HTML pages from crates/holdup/viewer (needs Node)",
        run: viewer::build,
    },
    Command {
        name: "viewer-test",
        help: "drive HTML pages in headless Chromium; without one this fails",
        run: viewer::test,
    },
    Command {
        name: "viewer-cost",
        help: "measure a page of five million switches in headless Chromium, and write docs/benchmarks/ (5 minutes)",
        run: viewer_cost::write,
    },
    Command {
        name: "viewer-shots",
        help: "take pictures of every kind of page, light, dark and printed, and those of the guide",
        run: viewer_shots::write,
    },
    Command {
        name: "selftest-stress",
        help: "all that programs do with locks at once while policies change every 5 ms (10 minutes, or those given)",
        run: selftest_stress::run,
    },
    Command {
        name: "selftest-programs",
        help: "memcached, redis, sysbench, pigz, python, git and databases under every policy, with a small load (5 minutes)",
        run: selftest_programs::run,
    },
];

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let Some(command) =
        COMMANDS.iter().find(|command| Some(command.name) == args.first().map(String::as_str))
    else {
        eprintln!("usage: cargo xtask COMMAND\n");
        for command in COMMANDS {
            eprintln!("  {:<18}{}", command.name, command.help);
        }
        return ExitCode::from(2);
    };
    match (command.run)(&args[1..]) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("xtask {}: {why}", command.name);
            ExitCode::FAILURE
        }
    }
}

fn ci() -> Result<(), String> {
    cargo(&["fmt", "--all", "--check"]).run()?;
    cargo(&["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]).run()?;
    cargo(&["test", "--workspace"]).run()?;
    loom()
}

/// loom replaces the atomics and the futex; release, because a debug build explores for minutes.
fn loom() -> Result<(), String> {
    for test in ["loom", "loom_techniques"] {
        cargo(&["test", "--package", "holdup-locks", "--release", "--test", test])
            .env("RUSTFLAGS", "--cfg loom")
            .env("LOOM_MAX_PREEMPTIONS", "2")
            .env("CARGO_TARGET_DIR", "target/loom")
            .run()?;
    }
    Ok(())
}

/// Isolation is off because the locks read the monotonic clock; every seed is another schedule.
fn miri() -> Result<(), String> {
    nightly_has("miri")?;
    let seeds = std::env::var("SEEDS").unwrap_or_else(|_| "4".to_owned());
    cargo(&[
        "+nightly",
        "miri",
        "test",
        "--package",
        "holdup-locks",
        "--lib",
        "--test",
        "conformance",
        "--test",
        "techniques",
    ])
    .env("MIRIFLAGS", &format!("-Zmiri-disable-isolation -Zmiri-many-seeds=0..{seeds}"))
    .env("CARGO_TARGET_DIR", "target/miri")
    .run()
}

fn tsan() -> Result<(), String> {
    nightly_has("rust-src")?;
    let target = "x86_64-unknown-linux-gnu";
    let suppressions = run::root().join("crates/holdup-locks/tsan-suppressions.txt");
    cargo(&["+nightly", "test", "-Zbuild-std", "--target", target, "--package", "holdup-locks"])
        .args(&["--lib", "--test", "conformance", "--test", "techniques"])
        .env("RUSTFLAGS", "-Zsanitizer=thread")
        .env("TSAN_OPTIONS", &format!("suppressions={}", suppressions.display()))
        .env("CARGO_TARGET_DIR", "target/tsan")
        .run()
}

fn nightly_has(component: &str) -> Result<(), String> {
    Step::new("rustup", &["component", "add", "--toolchain", "nightly", component]).run()
}
