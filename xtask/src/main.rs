//! What cargo cannot do alone: the checks in one go, model checking, Miri, ThreadSanitizer, the benchmark page.
//!
//! `cargo xtask` without arguments lists the commands.

mod api;
mod bench_page;
mod bpf;
mod case;
mod chance;
mod demo_runs;
mod deny;
mod dist;
mod figures;
mod files;
mod fleet;
mod fuzz;
mod gate_truth;
mod install;
mod interposer_cost;
mod lock_crate;
mod package;
mod profile_truth;
mod proofs;
mod record_cost;
mod record_faults;
mod record_truth;
mod recording;
mod run;
mod selftest_programs;
mod selftest_stress;
mod setup;
mod site;
mod soak;
mod sweep_test;
mod top_shots;
mod truth;
mod try_programs;
mod try_truth;
mod viewer;
mod viewer_cost;
mod viewer_shots;
mod watch;
mod watch_faults;
mod wine;

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
        name: "setup",
        help: "install what the tests need besides cargo (root, Debian; --list shows it); --fleet [--spark]: what fleet-test \
            needs, under target/, and Debian's prometheus",
        run: setup::run,
    },
    Command {
        name: "wine",
        help: "lint the Windows build, and test locks and program under Wine (2 minutes)",
        run: wine::run,
    },
    Command {
        name: "lock-crate",
        help: "the lock crate from outside: its documentation, features, lock_api 0.4, no_std, public interface",
        run: |_| lock_crate::check(),
    },
    Command {
        name: "deny",
        help: "check licenses, duplicates and sources of all dependencies (builds cargo-deny once, a minute)",
        run: |_| deny::check(),
    },
    Command {
        name: "api",
        help: "write the public interface of holdup-locks to its api.txt; --check compares, as CI does",
        run: api::run,
    },
    Command {
        name: "proofs",
        help: "loom, conformance, mutations, TSan and Miri with many seeds, as a table (proofs PART... for some of \
            them)",
        run: proofs::run,
    },
    Command {
        name: "loom",
        help: "model-check the locks and techniques: every interleaving up to two preemptions",
        run: |_| proofs::loom(),
    },
    Command {
        name: "miri",
        help: "interpret the lock crate's tests under Miri (nightly; SEEDS=16 for more schedules)",
        run: |_| proofs::miri(),
    },
    Command {
        name: "tsan",
        help: "run the lock crate's tests under ThreadSanitizer (nightly)",
        run: |_| proofs::tsan(),
    },
    Command {
        name: "fuzz",
        help: "read damaged input with every reader, for 60 s, --minutes N or --inputs N (--reader, --seed, --first: see fuzz.rs)",
        run: fuzz::run,
    },
    Command {
        name: "install",
        help: "build the C and C++ library and install it with headers, pkg-config and CMake files (--prefix DIR)",
        run: install::run,
    },
    Command {
        name: "package",
        help: "make every crate's package, install holdup from them into an empty home and use it (10 minutes; --keep)",
        run: package::check,
    },
    Command {
        name: "dist",
        help: "build the static program, its tarball, a Debian package and the SBOM (15 minutes; --twice: the same bytes \
            from another folder; --try: installed and used in fresh systems, as root)",
        run: dist::run,
    },
    Command {
        name: "case",
        help: "repeat a case study of docs/cases, and fail where holdup says something else than its page (NAME; --write: its \
            output into the page)",
        run: case::run,
    },
    Command {
        name: "site",
        help: "the documentation as one folder of static pages, with search and real reports to click (3 minutes; --out DIR; \
            --pages: the reports of the last time; --shots: pictures of it)",
        run: site::run,
    },
    Command { name: "headers", help: "write holdup.h anew from the sources of holdup-capi", run: |_| headers() },
    Command {
        name: "bench-page",
        help: "measure the peers, the published claims and the techniques, and write docs/benchmarks/ for this \
            machine (20 minutes)",
        run: bench_page::write,
    },
    Command {
        name: "figures",
        help: "write the benchmark page's figures into the docs that cite them",
        run: figures::run,
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
        name: "try-truth",
        help: "search cures of programs whose cure is known, and of one that needs none (20 times, or those given; 10 \
            minutes); bistable [N]: only of those that change their speed, in made-up time (200 searches of each)",
        run: try_truth::run,
    },
    Command {
        name: "try-programs",
        help: "search cures of Debian's programs and servers, and check every verdict by ten alternating separate runs \
            (root; 15 minutes); fixed: programs that run for a fixed time",
        run: try_programs::run,
    },
    Command {
        name: "gate-truth",
        help: "gates of builds whose difference is known, alone and beside neighbours, and a thousand of each kind in \
            made-up time (10 minutes)",
        run: gate_truth::run,
    },
    Command {
        name: "demo-runs",
        help: "run the demo N times (NAME N; --neighbour: beside a process that burns a CPU), and write \
            docs/benchmarks/ for this machine",
        run: demo_runs::write,
    },
    Command {
        name: "truth",
        help: "record programs whose fault is known, and compare what is said first (10 minutes; --quick: 2)",
        run: truth::run,
    },
    Command {
        name: "truth-programs",
        help: "install and record Debian's programs, and print what is said first beside what is true (root; 5 \
            minutes)",
        run: truth::programs::run,
    },
    Command {
        name: "soak",
        help: "run the flight recorder beside a program with faults at random times, for an hour or the MINUTES given: \
            every file must tell its cause (root)",
        run: soak::run,
    },
    Command {
        name: "fleet-test",
        help: "export recordings of the fixtures, and ask the questions of docs/fleet.md with DuckDB, and Spark where it is; \
            Prometheus' checks of watch and deploy/ (1 minute; with Spark 4)",
        run: fleet::test,
    },
    Command {
        name: "sweep-test",
        help: "a sweep of 200 cells in eight parts, one of them killed 12 times, or TIMES; by processes, then by Slurm where it \
            is (2 minutes)",
        run: sweep_test::run,
    },
    Command {
        name: "watch-soak",
        help: "watch fifty small services for an hour or the MINUTES given, and print what that costs",
        run: watch::soak,
    },
    Command {
        name: "watch-faults",
        help: "kill watch and its recordings 40 times, or TIMES, at random moments; fill its disk; set its clock (root; 5 minutes)",
        run: watch_faults::run,
    },
    Command {
        name: "fleet-cost",
        help: "measure how fast a thousand recordings are exported and asked, and write docs/benchmarks/ for this machine (10 \
            minutes)",
        run: fleet::cost,
    },
    Command {
        name: "record-cost",
        help: "measure what recording costs, ours beside perf, and write docs/benchmarks/ for this machine (10 \
            minutes)",
        run: record_cost::write,
    },
    Command {
        name: "interposer-cost",
        help: "measure what the interposer costs beside glibc, and write docs/benchmarks/ for this machine (10 \
            minutes)",
        run: interposer_cost::write,
    },
    Command {
        name: "record-faults",
        help: "kill the recorder 50 times at random moments and open what it leaves (2 minutes)",
        run: record_faults::run,
    },
    Command {
        name: "bpf",
        help: "compile the recorder's part inside the kernel, crates/holdup-record/bpf (needs clang and llvm-strip)",
        run: bpf::build,
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
        name: "top-shots",
        help: "take pictures of holdup top in a terminal (of sysbench, or of the process with the PID given), and that of the guide",
        run: top_shots::write,
    },
    Command {
        name: "selftest-stress",
        help: "all that programs do with locks at once while policies change every 5 ms (10 minutes, or those given)",
        run: selftest_stress::run,
    },
    Command {
        name: "selftest-programs",
        help: "memcached, redis, sysbench, pigz, python, git and databases under every policy, with a small load (5 \
            minutes)",
        run: selftest_programs::run,
    },
];

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let Some(command) = COMMANDS.iter().find(|command| Some(command.name) == args.first().map(String::as_str)) else {
        eprintln!("usage: cargo xtask COMMAND\n");
        for command in COMMANDS {
            eprintln!("  {:<18}{}", command.name, command.help);
        }
        return ExitCode::from(2);
    };
    if args.iter().any(|word| word == "--help" || word == "-h") {
        println!("cargo xtask {}: {}", command.name, command.help);
        return ExitCode::SUCCESS;
    }
    match (command.run)(&args[1..]) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("xtask {}: {why}", command.name);
            ExitCode::FAILURE
        }
    }
}

fn ci() -> Result<(), String> {
    setup::ensure()?;
    cargo(&["fmt", "--all", "--check"]).run()?;
    linted(&["test", "--workspace", "--all-targets", "--no-run"]).run()?;
    linted(&["test", "--workspace"]).run()?;
    lock_crate::check()?;
    deny::check()?;
    proofs::loom()?;
    wine::ci()
}

/// A cargo whose compiler is Clippy's, for our own crates: they are linted while they are built for their tests, in
/// place of once more. So does `cargo clippy`, which only checks.
fn linted(args: &[&str]) -> Step {
    // Built once: what a second build would reuse is disk for nothing.
    let once = ("CARGO_INCREMENTAL", "0");
    let clippy = ("RUSTC_WORKSPACE_WRAPPER", "clippy-driver");
    // `-D warnings`, as `cargo clippy` hands arguments on.
    let denied = ("CLIPPY_ARGS", "-D__CLIPPY_HACKERY__warnings__CLIPPY_HACKERY__");
    [once, clippy, denied].into_iter().fold(cargo(args), |step, (name, value)| step.env(name, value))
}

/// The test that finds a stale header writes it when it is told to.
fn headers() -> Result<(), String> {
    cargo(&["test", "--package", "holdup-capi", "--test", "capi", "header::"]).env("HOLDUP_WRITE_HEADERS", "1").run()
}
