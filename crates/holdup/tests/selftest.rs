//! `holdup selftest`: all behaviours hold natively and under a right interposer, and each is failed by one that is
//! wrong about it.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the message, in its helpers too")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{Mutex, PoisonError};

use holdup_run::behaviour;
use serde_json::Value;

fn selftest(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_holdup")).arg("selftest").args(words).output().unwrap()
}

fn out(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn err(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// The outcomes by behaviour and configuration.
fn outcomes(output: &Output) -> Vec<(String, String, String)> {
    let json: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", err(output)));
    let text = |one: &Value, key: &str| one[key].as_str().unwrap().to_owned();
    let rows = json["results"].as_array().unwrap().iter();
    rows.map(|one| (text(one, "behaviour"), text(one, "configuration"), text(one, "outcome"))).collect()
}

/// The fixture, wrong about this; or why it cannot be compiled here.
fn interposer(wrong: Option<&str>) -> Result<PathBuf, String> {
    let compiler = ["gcc", "clang", "cc"]
        .into_iter()
        .find(|name| Command::new(name).arg("--version").output().is_ok_and(|output| output.status.success()))
        .ok_or("there is no C compiler")?;
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/interposer/broken.c");
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("selftest");
    std::fs::create_dir_all(&folder).unwrap();
    let library = folder.join(format!("{}.so", wrong.unwrap_or("right")));
    let mut command = Command::new(compiler);
    command.args(["-shared", "-fPIC", "-O2", "-Wall", "-Wextra", "-Werror"]);
    if let Some(wrong) = wrong {
        command.arg("-DWRONG").arg(format!("-DWRONG_{}", wrong.replace('-', "_")));
    }
    let output = command.arg("-o").arg(&library).arg(source).output().unwrap();
    assert!(output.status.success(), "{wrong:?}: {}", err(&output));
    Ok(library)
}

#[test]
fn every_behaviour_holds_natively() {
    let output = selftest(&["--native", "--json"]);
    assert_eq!(output.status.code(), Some(0), "{}", out(&output));
    let outcomes = outcomes(&output);
    assert_eq!(outcomes.len(), 26);
    assert!(outcomes.iter().all(|(_, configuration, outcome)| configuration == "native" && outcome == "holds"));
}

/// Natively, under seven policies, and while they take turns.
#[test]
fn every_behaviour_holds_under_every_policy() {
    let output = selftest(&["--json"]);
    let outcomes = outcomes(&output);
    let failed: Vec<_> = outcomes.iter().filter(|(_, _, outcome)| outcome != "holds").collect();
    assert!(failed.is_empty(), "{failed:?}\n{}", out(&output));
    assert_eq!(outcomes.len(), 26 * 9);
    assert_eq!(output.status.code(), Some(0));
}

/// The program's exit status is its own, and its locks are served while the policy changes.
#[test]
fn any_program_runs_while_policies_take_turns() {
    let holdup = env!("CARGO_BIN_EXE_holdup");
    let output = selftest(&["--flip", "1ms", "--", holdup, "__behaviour", "lock", "5"]);
    assert_eq!((output.status.code(), out(&output).as_str()), (Some(0), "holds\n"));
    let text = err(&output);
    let number = |before: &str| {
        let rest = text.split(before).nth(1).unwrap_or_else(|| panic!("no '{before}' in {text}"));
        rest.split_whitespace().next().unwrap().parse::<u64>().unwrap()
    };
    assert!(number("the policy was set ") > 1, "{text}");
    assert!(number("times; ") > 100, "{text}");
    assert_eq!(selftest(&["--", "sh", "-c", "exit 7"]).status.code(), Some(7));
    let missing = selftest(&["--", "no-such-program"]);
    assert_eq!(missing.status.code(), Some(127), "{}", err(&missing));
    assert_eq!(selftest(&["--flip", "0", "--", "true"]).status.code(), Some(2));
}

#[test]
fn an_interposer_that_only_passes_calls_on_is_right() {
    let library = match interposer(None) {
        Ok(library) => library,
        Err(why) => return println!("skipped: {why}"),
    };
    let output = selftest(&["--library", library.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(0), "{}", out(&output));
    let text = out(&output).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.starts_with("26 behaviours of locks hold natively and under right.so. 52 runs in"), "{text}");
    assert!(text.contains("replaces 3 of 60 functions; the C library itself serves pthread_mutex_init,"), "{text}");
    assert!(text.contains("pthread_cond_wait and 49 more"), "{text}");
}

/// Each mistake in its own process, four at a time: what hangs costs its limit and no CPU.
#[test]
fn each_behaviour_is_failed_by_an_interposer_that_is_wrong_about_it() {
    if let Err(why) = interposer(None) {
        return println!("skipped: {why}");
    }
    let queue = Mutex::new(behaviour::all().iter());
    let next = || queue.lock().unwrap_or_else(PoisonError::into_inner).next();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while let Some(one) = next() {
                    is_caught(one.name);
                }
            });
        }
    });
}

fn is_caught(name: &str) {
    let library = interposer(Some(name)).unwrap();
    let library = library.to_str().unwrap();
    let output = selftest(&["--library", library, "--limit", "4s", "--json", name]);
    assert_eq!(output.status.code(), Some(1), "{name} is not caught: {}{}", out(&output), err(&output));
    match &outcomes(&output)[..] {
        [(_, native, holds), (_, broken, fails)] => {
            assert_eq!((native.as_str(), broken.as_str()), ("native", library));
            assert_eq!(holds, "holds", "{name} natively");
            assert!(["fails", "hangs"].contains(&fails.as_str()), "{name}: {fails}");
        }
        other => panic!("{name}: {other:?}"),
    }
}

/// A lock beside the mutex is the usual mistake of interposers, with many consequences; plain locking does not show it.
#[test]
fn a_lock_beside_the_mutex_is_caught_by_those_who_look_at_the_mutex() {
    let library = match interposer(Some("side")) {
        Ok(library) => library,
        Err(why) => return println!("skipped: {why}"),
    };
    let side = ["--library", library.to_str().unwrap(), "--json"];
    let output = selftest(&[&side[..], &["lock"]].concat());
    assert_eq!(output.status.code(), Some(0), "{}{}", out(&output), err(&output));
    // Who hangs costs the whole limit; who holds is given the usual one, for a busy machine.
    let names = ["trylock", "process-shared", "fork-held", "destroy-held", "deepbind", "early"];
    let output = selftest(&[&side[..], &["--limit", "4s"], &names].concat());
    assert_eq!(output.status.code(), Some(1), "{}", err(&output));
    for (name, configuration, outcome) in outcomes(&output) {
        assert_eq!(outcome == "holds", configuration == "native", "{name} in {configuration}: {outcome}");
    }
}

#[test]
fn what_cannot_be_tested_is_said() {
    let refused = |words: &[&str], says: &[&str]| {
        let output = selftest(words);
        assert_eq!(output.status.code(), Some(2), "{words:?}: {}{}", out(&output), err(&output));
        assert!(out(&output).is_empty() && !err(&output).contains("panicked"), "{}", err(&output));
        says.iter().for_each(|word| assert!(err(&output).contains(word), "no '{word}' in {}", err(&output)));
    };
    refused(&["trylok"], &["'trylok'", "did you mean 'trylock'?", "holdup selftest --list"]);
    refused(&["--policies", "gat:1"], &["--policies", "'gat'", "did you mean 'throttle'?"]);
    refused(&["--policies", ""], &["--policies"]);
    refused(&["--limit", "0"], &["--limit"]);
    refused(&["--flip", "soon"], &["--flip", "'soon'"]);
    refused(&["--repeat", "0"], &["--repeat"]);
    refused(&["--library", "/no/such.so"], &["/no/such.so"]);
    refused(&["--library", "/etc/passwd"], &["/etc/passwd", "no library"]);
    refused(&["--library", "x.so", "--policies", "glibc"], &["--library", "--policies"]);
}

#[test]
fn a_library_that_replaces_nothing_is_no_interposer() {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let libgcc = maps.lines().find_map(|line| line.split_whitespace().nth(5).filter(|path| path.contains("libgcc_s")));
    let Some(libgcc) = libgcc else { return println!("skipped: this test has no library but the C library") };
    let output = selftest(&["--library", libgcc, "lock"]);
    assert_eq!(output.status.code(), Some(2), "{}", out(&output));
    assert!(err(&output).contains("replaces none of the functions"), "{}", err(&output));
}

#[test]
fn the_list_says_what_must_hold_and_how_it_goes_wrong() {
    let output = selftest(&["--list"]);
    assert_eq!(output.status.code(), Some(0));
    for one in behaviour::all() {
        assert!(out(&output).contains(&format!("{:16} must: {}", one.name, one.holds)), "{}", out(&output));
        assert!(out(&output).contains(one.wrong));
    }
}
