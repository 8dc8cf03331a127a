//! The example programs beside the commands of `holdup` that do the same: parameters, counts and invariants agree;
//! times are not compared.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

use super::toolchain::{COMPILERS, Compiler, MODES, Mode, can, compile, has, prefix, run, succeed, text};

const TOOLS: [&str; 4] = ["gcc", "g++", "clang", "clang++"];

/// Every example with the arguments of a short run.
const EXAMPLES: [(&str, &[&str]); 7] = [
    ("timemutex.cpp", &["2", "2", "1", "4", "3", "2", "--iterations", "200"]),
    ("free_list.cpp", &["adaptive", "4", "1001"]),
    ("catalogue.cpp", &["holdup", "3", "100"]),
    ("catalogue.cpp", &["sharded", "3", "100"]),
    ("lock_table.cpp", &["50", "200", "1", "3"]),
    ("counter.c", &["4", "1000"]),
    ("gate.c", &["6", "2", "1000"]),
];

fn built(compiler: Compiler, mode: Mode, example: &str, to: &Path) -> PathBuf {
    compile(compiler, mode, &format!("examples/{example}"), prefix(), to)
}

/// The examples as gcc builds them.
fn example(name: &str, args: &[&str]) -> Output {
    static FOLDER: OnceLock<tempfile::TempDir> = OnceLock::new();
    let folder = FOLDER.get_or_init(|| {
        let folder = tempfile::tempdir().unwrap();
        EXAMPLES.iter().for_each(|(example, _)| drop(built(COMPILERS[0], Mode::Plain, example, folder.path())));
        folder
    });
    let found = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path());
    let found = found.into_iter().find(|path| path.to_str().unwrap().ends_with(&format!("-{name}")));
    run(&found.unwrap(), args)
}

#[test]
fn examples_run_under_both_compilers_and_the_sanitizers() {
    if !has(&TOOLS) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let ways: Vec<_> = COMPILERS.iter().flat_map(|&compiler| MODES.map(|mode| (compiler, mode))).collect();
    for (compiler, mode) in ways.into_iter().filter(|&(compiler, mode)| can(compiler, mode)) {
        for (example, args) in EXAMPLES {
            let said = succeed(&built(compiler, mode, example, folder.path()), args);
            assert!(said.contains("\nswitches  "), "{compiler:?} {mode:?} {example}: {said}");
        }
    }
}

/// The same under the C library's lock, which starves the writer, and ours.
#[test]
fn the_catalogue_s_writer_gets_in() {
    if !has(&TOOLS) {
        return;
    }
    let publications = |lock: &str| -> u64 {
        let said = example("catalogue", &[lock, "5", "600"]);
        assert!(said.status.success(), "{}", text(&said));
        let said = text(&said);
        let line = said.lines().find_map(|line| line.strip_prefix("publications")).unwrap();
        line.split(',').next().unwrap().trim().parse().unwrap()
    };
    let (std, ours) = (publications("std"), publications("holdup"));
    assert!(ours >= 4 && ours >= 2 * std, "{ours} under holdup::shared_mutex, {std} under std::shared_mutex");
    assert_eq!(example("catalogue", &["fair"]).status.code(), Some(2));
}

#[test]
fn timemutex_prints_what_the_command_prints() {
    if !has(&TOOLS) {
        return;
    }
    for args in [
        &[][..],
        &["1"],
        &["1", "0"],
        &["2", "3", "5", "2"],
        &["3", "2", "0", "3", "1", "1"],
        &["4", "1", "1", "2", "9", "7"],
        &["5", "1", "0", "2", "-1", "0"],
    ] {
        let args = [args, &["--iterations", "300"]].concat();
        let ours = example("timemutex", &args);
        let command = holdup(&[&["timemutex"], &args[..]].concat());
        let [ours, command] = [&ours, &command].map(|output| {
            assert!(output.status.success(), "{args:?}: {}", text(output));
            lines_without_times(output)
        });
        assert_eq!(ours, command, "{args:?}");
    }
}

#[test]
fn the_lock_table_writes_a_spreadsheet_s_rows() {
    if !has(&TOOLS) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("demo.csv");
    let said = example("lock_table", &["20", "50", "1", "2", "--csv", file.to_str().unwrap()]);
    assert!(said.status.success(), "{}", text(&said));
    let rows = std::fs::read_to_string(&file).unwrap();
    let rows: Vec<&str> = rows.lines().collect();
    assert_eq!(rows[0], "threads,lock,entries,operations,elapsed_s,operations_per_s");
    let begins = ["1,one lock,20,50,", "1,lock table,20,50,", "2,one lock,20,50,", "2,lock table,20,50,"];
    assert_eq!(rows.len(), 1 + begins.len());
    assert!(rows[1..].iter().zip(begins).all(|(row, begin)| row.starts_with(begin)), "{rows:?}");
    let nowhere = example("lock_table", &["20", "50", "1", "--csv", "/nowhere/demo.csv"]);
    assert_eq!(nowhere.status.code(), Some(2), "{}", text(&nowhere));
}

#[test]
fn timemutex_refuses_what_the_command_refuses() {
    if !has(&TOOLS) {
        return;
    }
    for (args, named) in [
        (&["9"][..], "WHICH is 9"),
        (&["1", "-1"], "DEPTH is -1"),
        (&["1", "1", "-5"], "DELAY is -5"),
        (&["1", "1", "0", "65"], "NUMTHREADS is 65"),
    ] {
        let command = holdup(&[&["timemutex"], args].concat());
        for output in [example("timemutex", args), command] {
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            assert_eq!(output.status.code(), Some(2), "{args:?}: {}", text(&output));
            assert!(said.contains(named), "{args:?}: {said}");
        }
    }
}

#[test]
fn other_examples_refuse_wrong_arguments_with_their_usage() {
    if !has(&TOOLS) {
        return;
    }
    for (name, args, named) in [
        ("free_list", &["none"][..], "LOCK is none"),
        ("free_list", &["mcs", "0"], "NUMTHREADS is 0"),
        ("lock_table", &["0"], "ENTRIES is 0"),
        ("lock_table", &["10", "10", "1", "x"], "NUMTHREADS is x"),
        ("counter", &["1.5"], "NUMTHREADS is 1.5"),
        ("counter", &["1", "2", "3"], "usage: counter"),
        ("gate", &["4", "-2"], "NUMTHACTIVE is -2"),
    ] {
        let output = example(name, args);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{name} {args:?}: {}", text(&output));
        assert!(said.contains(named) && said.contains("usage: "), "{name} {args:?}: {said}");
    }
}

#[test]
fn examples_do_as_many_operations_as_the_bench() {
    if !has(&TOOLS) {
        return;
    }
    for (name, args, cell) in [
        (
            "free_list",
            &["adaptive", "3", "1001"][..],
            "--workload free-list --lock adaptive --threads 3 --iterations 1001",
        ),
        ("free_list", &["eventfd", "2", "500"], "--workload free-list --lock eventfd --threads 2 --iterations 500"),
        ("counter", &["3", "700"], "--workload counter --lock adaptive --threads 3 --iterations 700"),
        ("gate", &["5", "2", "400"], "--workload counter --lock adaptive --threads 5 --active 2 --iterations 400"),
    ] {
        let said = example(name, args);
        assert!(said.status.success(), "{name}: {}", text(&said));
        let said = String::from_utf8(said.stdout).unwrap();
        let operations = said.lines().find_map(|line| line.strip_prefix("operations ")).expect("a line of operations");
        let (measured, _) = bench(cell);
        assert_eq!(operations.trim().parse::<u64>().unwrap(), measured, "{name} {args:?}");
    }
}

/// The random streams are the bench's, so even the number of updates is the same.
#[test]
fn lock_table_updates_what_the_bench_updates() {
    if !has(&TOOLS) {
        return;
    }
    let output = example("lock_table", &["60", "301", "1", "3"]);
    assert!(output.status.success(), "{}", text(&output));
    let said = String::from_utf8(output.stdout).unwrap();
    for threads in [1, 3] {
        for (what, table) in [("one lock", "one"), ("lock table", "256")] {
            let (operations, updates) = bench(&format!(
                "--workload db --lock adaptive --table {table} --entries 60 --iterations 301 --threads {threads}"
            ));
            assert_eq!(operations, 301);
            let line = format!("NumThreads   {threads}  {what}: {operations} operations, {updates} updates\n");
            assert!(said.contains(&line), "'{line}' is not in:\n{said}");
        }
    }
}

/// Operations of all threads, and the updates among them, of one run of the bench.
fn bench(cell: &str) -> (u64, u64) {
    let args: Vec<&str> = cell.split(' ').collect();
    let output =
        holdup(&[&["bench"], &args[..], &["--repeat", "1", "--baseline", "off", "--no-store", "--json"]].concat());
    assert!(output.status.success(), "{cell}: {}", text(&output));
    let run: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let sample = &run["cells"][0]["samples"][0]["sample"];
    let operations = sample["thread_ops"].as_array().unwrap().iter().map(|ops| ops.as_u64().unwrap()).sum();
    (operations, sample["extra"]["updates"].as_f64().unwrap_or(0.0) as u64)
}

/// The program of this build.
fn holdup(args: &[&str]) -> Output {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    let program = PROGRAM.get_or_init(|| {
        let folder = std::env::current_exe().unwrap();
        let program = folder.ancestors().nth(2).unwrap().join("holdup");
        if !program.exists() {
            // `cargo test --workspace` has built it; a test of this crate alone has not.
            let built = Command::new(env!("CARGO")).args(["build", "--package", "holdup"]).output().unwrap();
            assert!(built.status.success(), "{}", text(&built));
        }
        program
    });
    Command::new(program).args(args).output().unwrap()
}

/// Every line, those of times up to their name.
fn lines_without_times(output: &Output) -> Vec<String> {
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let is_time = |line: &str| ["real", "user", "kernel", "switches"].iter().any(|name| line.starts_with(name));
    said.lines().map(|line| if is_time(line) { line.split(' ').next().unwrap() } else { line }.to_owned()).collect()
}
