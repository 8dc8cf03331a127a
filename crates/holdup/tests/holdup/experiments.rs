//! `holdup run` and `holdup reproduce`: files in, verdicts out, and every mistake named with its place.

use std::process::Stdio;
use std::time::{Duration, Instant};

use super::{Ended, Place};

/// A small experiment whose claims are certain: one holds, one differs, one needs what no machine has.
const FILE: &str = r#"
[experiment]
name = "small"
title = "A small experiment"

[series]
kernel = "eventfd"

[[sweep]]
name = "alone"
lock = ["none", "kernel"]
threads = 1
duration = "2ms"
repeats = 3
quick = { repeats = 2 }

[[plot]]
title = "Time by threads"
sweep = "alone"
x = "threads"
y = "time_per_op_ns"
series = ["lock"]

[[claim]]
id = "A"
claim = "One thread is even with itself."
published = "of course"
figures.even = "ratio(jain, kernel, none)"
check = "even == 1"
show = "{even}"
why_holds = "It is {even}."
why_differs = "It is only {even}."

[[claim]]
id = "B"
claim = "Two figures that are the same differ."
check = "jain(none) > 2"
show = "Jain {jain(none)}"
why_holds = "An index above one."
why_differs = "One thread is always even."

[[claim]]
id = "C-long-id"
claim = "Nobody has so many CPUs, not even a machine that fills a hall and hums."
check = "1 > 0"
show = "-"
why_holds = "-"
why_differs = "-"
needs = { cpus = 4096 }
"#;

fn with_file(text: &str) -> Place {
    let place = Place::new();
    std::fs::write(place.path("small.toml"), text).unwrap();
    place
}

/// Whether no line is longer than a terminal is wide.
#[track_caller]
fn fits(ended: &Ended) {
    for line in ended.out.lines().filter(|line| !line.trim_start().starts_with("holdup ")) {
        assert!(line.chars().count() <= 80, "{} columns: {line}", line.chars().count());
    }
}

#[test]
fn a_file_is_measured_drawn_and_judged() {
    let place = with_file(FILE);
    let ended = place.run("run small.toml --no-reject").with(0).says(&["6 runs"]).shows(&[
        "eventfd",
        "Time by threads",
        "One thread is even with itself",
        "One thread is always even.",
        "C-long-id needs 4096 CPUs",
        "holdup run small.toml --seed=",
    ]);
    fits(&ended);
    for (claim, verdict) in [("A    ", "holds"), ("B    ", "differs"), ("C-long-id\n", "not measurable here")] {
        let paragraph = ended.out.split(&format!("\n{claim}")).nth(1).unwrap();
        let line = paragraph.lines().find(|line| line.trim_start().starts_with("verdict")).unwrap();
        assert!(line.contains(verdict), "{claim}: {line}");
    }
    place.run("history").with(0).shows(&["small"]);
}

#[test]
fn quick_and_repeat_change_how_much_is_measured() {
    let place = with_file(FILE);
    place.run("run small.toml --quick --no-store --no-reject").with(0).says(&["4 runs"]);
    place.run("run small.toml --repeat 1 --no-store --no-reject").with(0).says(&["2 runs"]);
}

#[test]
fn json_has_the_run_and_its_claims() {
    let place = with_file(FILE);
    let ended = place.run("run small.toml --quick --no-store --no-reject --json").with(0);
    let value: serde_json::Value = serde_json::from_str(&ended.out).unwrap();
    let verdicts: Vec<&str> =
        value["claims"].as_array().unwrap().iter().map(|claim| claim["verdict"].as_str().unwrap()).collect();
    assert_eq!(verdicts, ["holds", "differs", "not measurable here"]);
    assert!(value["claims"][0]["figure"]["median"].as_f64().unwrap() == 1.0);
    assert!(value["run"]["cells"].is_array(), "{}", ended.out);
}

#[test]
fn a_page_is_written_once() {
    let place = with_file(FILE);
    place.run("run small.toml --quick --no-store --html page.html").with(0);
    let page = std::fs::read_to_string(place.path("page.html")).unwrap();
    assert!(page.contains("One thread is even with itself"));
    place.run("run small.toml --quick --no-store --html page.html").with(2).says(&["page.html exists", "--force"]);
}

#[test]
fn mistakes_are_named_with_their_place_and_exit_2() {
    let place = with_file(&FILE.replace("ratio(jain, kernel, none)", "ratio(jain, kernle, none)"));
    let ended = place.run("run small.toml").with(2).says(&[
        "small.toml:28:16: claim A, figure 'even': 'kernle' is not a lock",
        "did you mean 'kernel'?",
        "    ratio(jain, kernle, none)\n                ^",
    ]);
    assert_eq!(ended.out, "");
    place.run("run nothing.toml").with(2).says(&["nothing.toml: no such file", "holdup list experiments"]);
    place.run("run").with(2).says(&["<FILE>"]);
    place.run("reproduce harte").with(2).says(&["harte", "hart"]);
    place.run("reproduce hart --resume").with(2).says(&["holdup run --resume"]);
}

#[test]
fn lists_name_every_experiment_and_claim() {
    let place = Place::new();
    let experiments = place.run("list experiments").with(0);
    let claims = place.run("list claims").with(0);
    fits(&experiments);
    fits(&claims);
    for name in ["hart", "emmons", "switching", "intel", "kraus", "peers", "rw"] {
        assert!(experiments.out.contains(name) && claims.out.contains(name), "{name}");
    }
    claims.shows(&["H15", "I8", "E4", "K4", "S3", "G-adaptive-tight", "G-rw-write"]);
}

#[test]
fn a_stopped_experiment_goes_on_and_is_judged() {
    let place = with_file(&FILE.replace("repeats = 3", "repeats = 25"));
    let mut child =
        place.command("run small.toml --no-reject").stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let deadline = Instant::now() + Duration::from_secs(60);
    let some_are_measured = || place.run("history").out.contains("/50");
    while !some_are_measured() {
        assert!(Instant::now() < deadline, "no run was begun");
    }
    child.kill().unwrap();
    child.wait().unwrap();
    place.run("run --resume").with(0).shows(&["One thread is always even.", "C-long-id needs 4096 CPUs"]);
    place.run("run --resume 1").with(2).says(&["nothing is missing"]);
    place.run("bench --lock none --threads 1 --duration 1ms --repeat 1 --baseline off").with(0);
    place.run("run --resume 2").with(2).says(&["run 2 is no experiment"]);
}
