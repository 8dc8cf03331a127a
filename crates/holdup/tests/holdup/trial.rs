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
    ended.with(1).says(&["nothing in its output matches '([0-9]+)pears'", "12 apples"]);
    let ended = try_(&place, "--cpus 1 --metric ([0-9]+).apples --higher", &["sh", "-c", "echo 0 apples"]);
    ended.with(1).says(&["'([0-9]+).apples' finds '0'", "above 0"]);
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

/// By itself, for it takes a reader-writer lock; where there is none, nobody reads of it.
#[test]
fn a_starved_writer_is_cured_and_readers_that_hang_are_noticed() {
    let place = Place::new();
    let Some(program) = fixture(&place, "try_rwlock.c") else { return };
    let program = program.to_str().unwrap();
    let ended = try_(&place, "--rw prefer-writer --budget 20s --seed 2", &[program, "starve"]).with(0);
    ended.shows(&["rw prefer-writer", "holdup with --rw prefer-writer -- ", "Advice: readers that overlap"]);
    let ended = try_(&place, "--rw prefer-writer --budget 30s", &[program, "crosswise"]).with(0);
    ended.shows(&["No remedy works", "rw prefer-writer", "failed: hung: no end within"]);
    let ended = try_(&place, "--rw prefer-writer,spin-park", &["sleep", "0.01"]).with(0);
    ended.shows(&["not tried", "it takes no reader-writer lock of pthreads"]);
    try_(&place, "--rw ttas", &["true"]).with(2).says(&["--rw", "prefer-writer, spin-park:N"]);
    let ended = try_(&place, "--budget 30s --json", &["sleep", "0.01"]).with(0);
    assert!(!ended.out.contains("rw prefer-writer"), "{}", ended.out);
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
fn a_full_disk_loses_no_search() {
    let place = Place::new();
    let mount = place.path("small");
    std::fs::create_dir(&mount).unwrap();
    let mut command = Command::new("mount");
    command.args(["-t", "tmpfs", "-o", "size=4k", "nodev"]).arg(&mount);
    if !command.output().is_ok_and(|output| output.status.success()) {
        return println!("skipped: only root can mount a small disk");
    }
    let ended = try_(&place, "--vary S=0.1,0.01 -o small/trial.json", &["sleep", "{S}"]);
    let left = std::fs::read_dir(&mount).unwrap().count();
    assert!(Command::new("umount").arg(&mount).status().unwrap().success());
    assert_ne!(ended.code, Some(0));
    ended.shows(&["S=0.01 helps by", "Raw samples: "]).says(&["small/trial.json"]);
    assert_eq!(super::files(&place.path("holdup/trials")).len(), 1);
    assert_eq!(left, 0, "half a file stands in the way of the next try");
}

#[test]
fn a_sandboxed_program_can_be_tried() {
    let place = Place::new();
    let Some(program) = fixture(&place, "sandboxed.c") else { return };
    let ended = try_(&place, "--locks ttas --gates 1 --budget 4s --json", &[program.to_str().unwrap()]).with(0);
    let json: serde_json::Value = serde_json::from_str(&ended.out).unwrap();
    let failed = json["remedies"].as_array().unwrap().iter().filter(|remedy| remedy["last_words"].is_string());
    assert_eq!(failed.count(), 0, "{json:#}");
    assert_eq!(json["coverage"]["acquisitions"], 4000);
}

#[test]
fn what_a_recording_names_is_tried_first() {
    let place = Place::new();
    place.run("try --from none.holdup").with(2).says(&["none.holdup"]);
    let recorded = place.run("record --no-report -o sleep.holdup -- sleep 0.02");
    if recorded.code != Some(0) {
        return println!("skipped: nothing can be recorded here: {}", recorded.err);
    }
    // Nothing holds it up; the command is the recorded one, and the usual remedies are tried.
    let ended = place.run("try --from sleep.holdup --budget 20s --json").with(0).says(&["no findings"]);
    let json: serde_json::Value = serde_json::from_str(&ended.out).unwrap();
    assert_eq!(json["program"], "sleep 0.02");
}

/// Runs take from 10 to 90 ms, in an order that says nothing.
const SCATTERS: &str = "n=$(cat runs 2>/dev/null || echo 0); echo $((n + 1)) > runs; sleep 0.0$((n * 7 % 9 + 1))";

fn gate(place: &Place, old: &str, new: &str, options: &str) -> Ended {
    let mut command = place.command("gate");
    command.args(["--old", old, "--new", new, "--junit", "gate.xml"]).args(options.split_whitespace());
    command.env("GITHUB_ACTIONS", "true").env("GITHUB_STEP_SUMMARY", place.path("summary.md"));
    Ended::of(command.output().unwrap())
}

#[test]
fn a_gate_says_by_its_status_and_in_every_form_what_it_found() {
    let scatters = format!("sh -c '{SCATTERS}'");
    let cases = [
        ("sleep 0.01", "sleep 0.04", 1, "slower", "failures=\"1\" errors=\"0\"", Some("::error title=holdup gate::")),
        ("sleep 0.04", "sleep 0.01", 0, "faster", "failures=\"0\" errors=\"0\"", None),
        // What a busy machine adds to each run is little of it.
        ("sleep 0.3", "sleep 0.3", 0, "the same", "failures=\"0\" errors=\"0\"", None),
        (&scatters, &scatters, 3, "cannot tell", "failures=\"0\" errors=\"1\"", Some("::warning title=holdup gate::")),
    ];
    for (old, new, code, verdict, counts, annotation) in cases {
        let place = Place::new();
        // A busy machine may let each be longer, and the same by more.
        let budget = if verdict == "the same" { "6s" } else { "3s" };
        let ended = gate(&place, old, new, &format!("--budget {budget} --fail-on 20% --seed 7")).with(code);
        let junit = std::fs::read_to_string(place.path("gate.xml")).unwrap();
        assert!(junit.contains(counts), "{verdict}: {junit}");
        let summary = std::fs::read_to_string(place.path("summary.md")).unwrap();
        assert!(summary.starts_with(&format!("### holdup gate: {verdict}")), "{summary}");
        let annotated = ended.err.lines().find(|line| line.starts_with("::"));
        assert_eq!(annotated.is_some(), annotation.is_some(), "{}", ended.err);
        assert!(annotation.is_none_or(|start| ended.err.contains(start)), "{}", ended.err);
        well_formed(&place);
    }
}

/// The XML is read by a parser that is not ours, where there is one.
fn well_formed(place: &Place) {
    let script = "import xml.etree.ElementTree as e\n\
                  r = e.parse('gate.xml').getroot()\n\
                  s, = r\n\
                  c, = s\n\
                  assert (r.tag, s.tag, c.tag, len(c)) == ('testsuites', 'testsuite', 'testcase', 1)\n\
                  assert all(s.get(k) == r.get(k) for k in ('tests', 'failures', 'errors')) and float(c.get('time')) > 0\n";
    match Command::new("python3").args(["-c", script]).current_dir(place.path("")).output() {
        Ok(output) => assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr)),
        Err(why) => println!("not parsed: python3: {why}"),
    }
}

#[test]
fn a_gate_s_json_is_as_its_schema_says() {
    let place = Place::new();
    let ended = gate(&place, "sleep 0.01", "sleep 0.04", "--budget 2s --json").with(1);
    let json: serde_json::Value = serde_json::from_str(&ended.out).unwrap();
    let schema = include_str!("../../../../docs/holdup-gate-1.schema.json").parse().unwrap();
    jsonschema::validate(&schema, &json).unwrap_or_else(|why| panic!("{}: {why}", why.instance_path()));
    assert_eq!((json["verdict"].as_str(), json["old"].as_str()), (Some("slower"), Some("sleep 0.01")));
}

#[test]
fn a_gate_explains_what_it_cannot_compare() {
    let place = Place::new();
    gate(&place, "true", "false", "").with(1).says(&["the new build fails", "exit status 1"]);
    gate(&place, "true", "no-such-program", "").with(127).says(&["no-such-program"]);
    gate(&place, "sleep 1", "sleep 1", "--budget 2s").with(2).says(&["--budget is too small"]);
    gate(&place, "true", "true", "--fail-on 5").with(2).says(&["--fail-on", "5%"]);
    let Some(program) = fixture(&place, "try_fixed.c") else { return };
    if std::thread::available_parallelism().is_ok_and(|cpus| cpus.get() > 1) {
        let silent = format!("{} 8 300", program.display());
        let ended = gate(&place, &silent, &silent, "--budget 20s");
        // On a busy machine its times may differ so much that they look like those of work.
        assert!(ended.code != Some(2) || ended.err.contains("--metric"), "{}", ended.err);
    }
}

#[test]
fn a_gate_builds_two_revisions_and_leaves_no_worktree() {
    let place = Place::new();
    let git = |words: &[&str]| {
        let identity = ["-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false"];
        Command::new("git").args(identity).args(words).current_dir(place.path("")).output()
    };
    if !git(&["init", "--quiet"]).is_ok_and(|output| output.status.success()) {
        return println!("skipped: there is no git");
    }
    for (name, pause) in [("first", "0.01"), ("second", "0.04")] {
        std::fs::write(place.path("pause"), pause).unwrap();
        assert!(git(&["add", "pause"]).unwrap().status.success());
        assert!(git(&["commit", "--quiet", "-m", name]).unwrap().status.success());
    }
    let of = |old: &str, new: &str, build: &str| {
        let mut command = place.command("gate --budget 2s --run ./bench");
        command.env("TMPDIR", place.path("tmp"));
        Ended::of(command.args(["--old", old, "--new", new, "--build", build]).output().unwrap())
    };
    std::fs::create_dir(place.path("tmp")).unwrap();
    let build = "{ echo '#!/bin/sh'; echo exec sleep $(cat pause); } > bench; chmod +x bench";
    of("HEAD~1", "HEAD", build).with(1).shows(&["slower"]);
    of("HEAD", "HEAD~1", build).with(0).shows(&["faster"]);
    of("HEAD", "no-such-branch", build).with(2).says(&["'no-such-branch' is no revision"]);
    of("HEAD", "HEAD~1", "echo no compiler >&2; exit 3").with(1).says(&["HEAD cannot be built", "no compiler"]);
    let list = String::from_utf8(git(&["worktree", "list"]).unwrap().stdout).unwrap();
    assert_eq!((list.lines().count(), super::files(&place.path("tmp")).len()), (1, 0), "{list}");
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
