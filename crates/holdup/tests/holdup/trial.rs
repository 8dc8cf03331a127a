//! `holdup try` and `holdup demo` as users meet them. What is fast on a busy machine is not asked here: statistics are
//! tested with programs that are made up, and these tests only look at what is said.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::{Ended, Place};

/// A compiled program of `fixtures/interposer`; `None`, with a word, where there is no C compiler.
fn fixture(place: &Place, name: &str) -> Option<PathBuf> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/interposer").join(name);
    let binary = place.path(name.trim_end_matches(".c"));
    let compiled = Command::new("cc").args(["-O2", "-pthread", "-o"]).arg(&binary).arg(source).status();
    match compiled {
        Ok(status) => assert!(status.success(), "{name} does not compile"),
        Err(why) => {
            println!("skipped: no C compiler: {why}");
            return None;
        }
    }
    Some(binary)
}

fn try_(place: &Place, options: &str, program: &[&str]) -> Ended {
    let mut command = place.command("try");
    command.args(options.split_whitespace()).arg("--").args(program);
    Ended::of(command.output().unwrap())
}

#[test]
fn wrong_input_gets_one_message_with_what_works() {
    let place = Place::new();
    try_(&place, "--locks adaptiv", &["true"]).with(2).says(&["--locks", "'adaptiv'", "did you mean 'spin-learn'"]);
    try_(&place, "--locks mcs", &["true"]).with(2).says(&["'mcs'", "spin-park:N"]);
    try_(&place, "--gates 0", &["true"]).with(2).says(&["--gates"]);
    try_(&place, "--cpus 100000", &["true"]).with(2).says(&["--cpus", "from 1 to"]);
    try_(&place, "--vary N=1,2", &["true", "-t", "4"]).with(2).says(&["{N}"]);
    try_(&place, "--metric x", &["true"]).with(2).says(&["--higher or --lower"]);
    try_(&place, "--metric ( --higher", &["true"]).with(2).says(&["regular expression"]);
    try_(&place, "--server sleep --ready never", &["true"]).with(2).says(&["--ready", "tcp:{port}"]);
    try_(&place, "--cpus all", &["true"]).with(2).says(&["nothing to try"]);
    try_(&place, "", &["no-such-program"]).with(127).says(&["no-such-program", "no such command"]);
    try_(&place, "", &[]).with(2).says(&["PROGRAM"]);
}

#[test]
fn a_program_that_fails_by_itself_is_not_tried() {
    let place = Place::new();
    let script = ["sh", "-c", "echo going; echo no memory >&2; exit 3"];
    try_(&place, "--cpus 1", &script).with(1).says(&["as it is", "exit status 3", "no memory", "--status 3"]);
    try_(&place, "--cpus 1", &["sh", "-c", "kill -SEGV $$"]).with(1).says(&["crashed", "SIGSEGV"]);
    let metric = ["sh", "-c", "echo 12 apples"];
    let ended = try_(&place, "--cpus 1 --metric ([0-9]+)pears --higher", &metric);
    ended.with(1).says(&["'([0-9]+)pears'", "12 apples"]);
    try_(&place, "--cpus 1 --budget 1s", &["sleep", "0.5"]).with(2).says(&["--budget is too small", "--budget"]);
    try_(&place, "--cpus 1 --budget 300ms", &["sleep", "20"]).with(1).says(&["no end within", "--server"]);
}

#[test]
fn remedies_that_break_the_program_are_reported_as_failed() {
    let place = Place::new();
    let Some(program) = fixture(&place, "try_assumes.c") else { return };
    let program = program.to_str().unwrap();
    // With a gate alone the search is over when it fails.
    let of = |how: &str, options: &str| {
        let ended = try_(&place, &format!("--gates 1 {options}"), &[program, how]).with(0);
        ended.shows(&["No remedy works", "throttle:1", "Coverage: 3 acquisitions"])
    };
    of("crash", "").shows(&["failed: crashed", "SIGABRT"]);
    of("status", "").shows(&["failed: exit status 3 in place of 0"]);
    of("output", "--same-output").shows(&["failed: its output changed"]);
    of("hang", "").shows(&["failed: hung: no end within"]);
}

#[test]
fn an_argument_that_saves_work_wins_and_its_line_is_given() {
    let place = Place::new();
    let seconds = "--vary S=0.2,0.01 --seed 3 --json";
    let ended = try_(&place, seconds, &["sleep", "{S}"]).with(0);
    let json: serde_json::Value = serde_json::from_str(&ended.out).unwrap();
    let schema = include_str!("../../../../docs/holdup-trial-1.schema.json").parse().unwrap();
    jsonschema::validate(&schema, &json).unwrap_or_else(|why| panic!("{}: {why}", why.instance_path()));
    assert_eq!((json["verdict"].as_str(), json["winner"].as_str()), (Some("helps"), Some("S=0.01")));
    assert_eq!(json["keep"], "sleep 0.01");
    assert_eq!((json["schema"].as_str(), json["seed"].as_u64()), (Some("holdup-trial-1"), Some(3)));
    assert!(json["runs"].as_array().unwrap().len() >= 15, "raw samples are there");
    let kept = super::files(&place.path("holdup/trials"));
    assert!(matches!(kept.as_slice(), [name] if name.starts_with("sleep-")), "{kept:?}");
    let shown = try_(&place, "--vary S=0.2,0.01", &["sleep", "{S}"]).with(0);
    shown.shows(&["S=0.01 helps by", "Keep it:\n  sleep 0.01", "as it is", "Raw samples: ", "that is the noise"]);
}

#[test]
fn what_was_measured_is_not_lost_where_its_file_cannot_be_written() {
    let place = Place::new();
    let unwritable = "--vary S=0.1,0.01 -o no-such-folder/trial.json --html no-such-folder/page.html";
    let ended = try_(&place, unwritable, &["sleep", "{S}"]);
    assert_ne!(ended.code, Some(0));
    ended.shows(&["S=0.01 helps by", "Raw samples: "]).says(&["no-such-folder/trial.json"]);
    assert_eq!(super::files(&place.path("holdup/trials")).len(), 1);
}

#[test]
fn a_program_without_pthread_locks_is_told_so() {
    let place = Place::new();
    let ended = try_(&place, "--locks adaptive --gates 1", &["sleep", "0.01"]).with(0);
    ended.shows(&["No remedy works", "spin-learn, throttle:1", "0 pthread locks", "--cpus or --vary"]);
}

#[test]
fn a_server_that_does_not_serve_is_quoted() {
    let place = Place::new();
    let mut command = place.command("try --cpus 1 --ready tcp:{port}");
    command.args(["--server", "sh -c 'echo cannot bind >&2; exit 1'", "--", "true"]);
    Ended::of(command.output().unwrap()).with(1).says(&["the server ended before it was ready", "cannot bind"]);
}

#[test]
fn help_ends_with_examples() {
    let place = Place::new();
    place.run("try --help").with(0).shows(&["Examples:", "--vary N=8,4,2,1", "--server 'memcached"]);
    place.run("demo --help").with(0).shows(&["Examples:", "holdup demo"]);
}
