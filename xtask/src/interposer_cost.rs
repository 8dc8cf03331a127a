//! What the interposer costs a lock that nobody else wants, beside glibc's own functions in the same process: a page
//! per machine.

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use crate::recording::{Bench, interval, median, output};
use crate::run::{machine, root};

/// One way to run a program under the interposer.
struct Way {
    name: &'static str,
    words: &'static [&'static str],
    /// Most nanoseconds that a pair may cost more than glibc's.
    goal_ns: Option<f64>,
}

const WAYS: &[Way] = &[
    Way { name: "pass-through", words: &[], goal_ns: Some(0.5) },
    Way { name: "counting", words: &["--profile=count"], goal_ns: Some(1.0) },
    Way { name: "sampled profile", words: &["--profile=sampled"], goal_ns: Some(4.0) },
    Way { name: "full profile", words: &["--profile=full"], goal_ns: None },
    Way { name: "spin-park:100", words: &["--lock", "spin-park:100"], goal_ns: Some(1.0) },
    Way { name: "spin-learn", words: &["--lock", "spin-learn"], goal_ns: Some(1.0) },
    Way { name: "ttas", words: &["--lock", "ttas"], goal_ns: Some(1.0) },
    Way { name: "capped:2", words: &["--lock", "capped:2"], goal_ns: Some(1.0) },
    Way { name: "throttle:1", words: &["--lock", "throttle:1"], goal_ns: Some(1.0) },
];

/// Those under which reader-writer locks are measured. Whoever calls the functions does so from `main`, by which a rule
/// knows the locks.
const RW_WAYS: &[Way] = &[
    Way { name: "pass-through", words: &[], goal_ns: None },
    Way { name: "counting", words: &["--profile=count"], goal_ns: None },
    Way { name: "sampled profile", words: &["--profile=sampled"], goal_ns: None },
    Way { name: "full profile", words: &["--profile=full"], goal_ns: None },
    Way { name: "rw prefer-writer", words: &["--rw", "prefer-writer"], goal_ns: None },
    Way { name: "rw spin-park:100", words: &["--rw", "spin-park:100"], goal_ns: None },
    Way { name: "a rule for prefer-writer", words: &["--lock-for", "main=prefer-writer"], goal_ns: None },
];

/// What is run: the program's words (locks, rounds, threads, kind), and what that is.
struct Case {
    words: [&'static str; 4],
    about: &'static str,
    ways: &'static [Way],
}

const CASES: &[Case] = &[
    Case { words: ["1", "60", "many", "mutex"], about: "one mutex, a program with two threads", ways: WAYS },
    Case { words: ["1024", "60", "many", "mutex"], about: "1,024 mutexes, a program with two threads", ways: WAYS },
    Case {
        words: ["1000000", "60", "many", "mutex"],
        about: "1,048,576 mutexes, a program with two threads",
        ways: WAYS,
    },
    Case { words: ["1", "60", "one", "mutex"], about: "one mutex, a program with one thread", ways: WAYS },
    Case { words: ["1024", "60", "one", "mutex"], about: "1,024 mutexes, a program with one thread", ways: WAYS },
    Case {
        words: ["1000000", "60", "one", "mutex"],
        about: "1,048,576 mutexes, a program with one thread",
        ways: WAYS,
    },
    Case { words: ["1", "60", "many", "read"], about: "one reader-writer lock, taken for reading", ways: RW_WAYS },
    Case { words: ["1", "60", "many", "write"], about: "one reader-writer lock, taken for writing", ways: RW_WAYS },
    Case {
        words: ["1", "60", "many", "release"],
        about: "pthread_rwlock_unlock alone, of a lock that glibc took for reading",
        ways: RW_WAYS,
    },
];

/// Measures and writes `docs/benchmarks/interposer-NAME.md`: the first argument is the machine's name, the second how
/// often each program runs (9).
pub fn write(args: &[String]) -> Result<(), String> {
    let machine = machine(args, "interposer-cost")?;
    let runs: usize = match args.get(1) {
        None => 9,
        Some(word) => word.parse().map_err(|_| format!("'{word}' is not a number of runs"))?,
    };
    let bench = Bench::new("interposer-cost")?;
    let program = bench.compile("interposer/bench_pair.c")?;
    let mut page = head(machine, runs);
    for case in CASES {
        eprintln!("{}", case.about);
        let mut costs: Vec<Vec<(f64, f64)>> = case.ways.iter().map(|_| vec![]).collect();
        for _ in 0..runs {
            for (way, cost) in case.ways.iter().zip(&mut costs) {
                cost.push(one_run(&bench, way, &program, &case.words)?);
            }
        }
        table(&mut page, case, &costs);
    }
    let path = root().join(format!("docs/benchmarks/interposer-{machine}.md"));
    std::fs::write(&path, page).map_err(|why| format!("{}: {why}", path.display()))?;
    eprintln!("wrote {}", path.display());
    Ok(())
}

fn head(machine: &str, runs: usize) -> String {
    format!(
        "# What the interposer costs: {machine}\n\n\
         Written by `cargo xtask interposer-cost {machine} {runs}`. A program (`fixtures/interposer/bench_pair.c`) runs under\n\
         `holdup with` and locks and unlocks locks that nobody else wants: through the interposer, and through glibc's own\n\
         functions on the same locks, in blocks of 16,384 pairs that alternate. A difference is the median of the rounds of one\n\
         run (60 rounds of four blocks each); of {runs} runs the table has the median with its 95% interval by bootstrap. The\n\
         ways take turns, run by run. Load during the session: {}.\n\n",
        std::fs::read_to_string("/proc/loadavg").unwrap_or_default().trim()
    )
}

/// Medians of one run's rounds: nanoseconds of glibc's pair, and how many more the other took.
fn one_run(bench: &Bench, way: &Way, program: &Path, words: &[&str]) -> Result<(f64, f64), String> {
    let mut command = Command::new(&bench.holdup);
    command.arg("with").args(way.words).arg("--").arg(program).args(words);
    let text = String::from_utf8_lossy(&output(&mut command)?.stdout).into_owned();
    let rounds: Vec<(f64, f64)> = text
        .lines()
        .filter_map(|line| {
            let (own, other) = line.split_once(' ')?;
            Some((own.parse().ok()?, other.parse().ok()?))
        })
        .collect();
    if rounds.is_empty() {
        return Err(format!("{command:?} printed no rounds: {text}"));
    }
    let own: Vec<f64> = rounds.iter().map(|(own, _)| *own).collect();
    let more: Vec<f64> = rounds.iter().map(|(own, other)| other - own).collect();
    Ok((median(&own), median(&more)))
}

fn table(page: &mut String, case: &Case, costs: &[Vec<(f64, f64)>]) {
    let own: Vec<f64> = costs.iter().flatten().map(|(own, _)| *own).collect();
    let _ = writeln!(page, "## {}\n\nA pair of glibc's: {:.1} ns.\n", case.about, median(&own));
    page.push_str("| | more than glibc, ns | 95% interval | goal | met |\n|---|---|---|---|---|\n");
    for (way, cost) in case.ways.iter().zip(costs) {
        let more: Vec<f64> = cost.iter().map(|(_, more)| *more).collect();
        let (low, high) = interval(&more, 1);
        let (goal, met) = match way.goal_ns {
            None => ("–".to_owned(), "–"),
            Some(goal_ns) => (format!("{goal_ns:+.1}"), verdict(low, high, goal_ns)),
        };
        let _ = writeln!(page, "| {} | {:+.2} | {low:+.2} to {high:+.2} | {goal} | {met} |", way.name, median(&more));
    }
    page.push('\n');
}

/// Whether the goal is met; an interval with the goal inside decides nothing.
fn verdict(low: f64, high: f64, goal_ns: f64) -> &'static str {
    match () {
        () if high <= goal_ns => "yes",
        () if low > goal_ns => "no",
        () => "too noisy to tell",
    }
}
