//! The program runs as ever: its streams, its signals, its exit status; what holdup says goes to stderr.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Command, Stdio};

use super::{Ended, With, build, is_possible, text};

/// What all policies must leave as it is.
const POLICIES: [&str; 6] = ["glibc", "spin-park:50", "spin-learn", "ttas", "capped:1", "throttle:1"];

#[test]
fn the_result_is_the_same_under_every_policy() {
    let Some(program) = build::program("three_locks.c", &[]) else { return };
    for policy in POLICIES {
        let ended = With::new().run(&["--lock", policy], &[text(&program), "8", "2000"]).with(0);
        assert_eq!(ended.out, "16000 16000 16000 16000\n", "{policy}");
        ended.says(&[&format!("{policy}: 64.0k acquisitions"), "served 100% of 64.0k mutex acquisitions"]);
    }
}

#[test]
fn a_gate_has_a_name_of_its_own() {
    let Some(program) = build::program("three_locks.c", &[]) else { return };
    With::new().run(&["--gate", "2"], &[text(&program), "2", "10"]).with(0).says(&["throttle:2: 80 acquisitions"]);
}

#[test]
fn input_output_and_exit_status_are_the_programs() {
    if !is_possible() {
        return;
    }
    let place = With::new();
    let mut command = place.command(&[], &["sh", "-c", "read line; echo got $line; echo no >&2; exit 7"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"word\n").unwrap();
    let ended = Ended::of(child.wait_with_output().unwrap()).with(7).says(&["no", "holdup: "]);
    assert_eq!(ended.out, "got word\n");
    place.run(&[], &["sh", "-c", "kill -KILL $$"]).with(128 + 9);
}

#[test]
fn signals_reach_the_program_and_holdup_stays_to_report() {
    if !is_possible() {
        return;
    }
    let script = "trap 'echo ended; exit 3' TERM; trap 'echo asked' USR1; echo ready; while :; do sleep 0.05; done";
    let place = With::new();
    let mut command = place.command(&[], &["sh", "-c", script]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "ready");
    let kill = |signal: &str| {
        let line = format!("kill {signal} {}", child.id());
        assert!(Command::new("sh").args(["-c", &line]).status().unwrap().success());
    };
    kill("-USR1");
    assert_eq!(lines.next().unwrap().unwrap(), "asked");
    kill("-TERM");
    assert_eq!(lines.next().unwrap().unwrap(), "ended");
    Ended::of(child.wait_with_output().unwrap()).with(3).says(&["holdup: "]);
}

#[test]
fn what_is_preloaded_already_stays_preloaded() {
    if !is_possible() {
        return;
    }
    let place = With::new();
    let mut command = place.command(&[], &["sh", "-c", "echo $LD_PRELOAD"]);
    let ended = Ended::of(command.env("LD_PRELOAD", "libm.so.6").output().unwrap()).with(0);
    let (ours, rest) = ended.out.trim().split_once(':').unwrap();
    assert!(ours.ends_with(".so") && ours.contains("holdup-preload"), "{ours}");
    assert_eq!(rest, "libm.so.6");
}

#[test]
fn a_program_within_a_program_is_served_once() {
    let Some(program) = build::program("three_locks.c", &[]) else { return };
    let holdup = env!("CARGO_BIN_EXE_holdup");
    let words = [holdup, "with", "--lock", "ttas", "--", text(&program), "2", "100"];
    let ended = With::new().run(&["--lock", "spin-park"], &words).with(0).says(&["ttas: 800 acquisitions"]);
    assert_eq!(ended.out, "200 200 200 200\n");
}

#[test]
fn only_the_named_program_is_served() {
    let Some(program) = build::program("three_locks.c", &[]) else { return };
    let words = ["sh", "-c", &format!("{} 2 100; true", text(&program))];
    let served = With::new().run(&["--only", "three_locks"], &words).with(0);
    served.says(&["800 acquisitions"]);
    let other = With::new().run(&["--only", "another"], &words).with(0);
    assert_eq!(other.out, "200 200 200 200\n");
    other.says(&["no process was served", "--only"]);
}

#[test]
fn a_program_without_pthread_mutexes_is_told_so_with_what_else_there_is() {
    let Some(program) = build::program("own_futex.c", &[]) else { return };
    let ended = With::new().run(&["--lock", "throttle:1"], &[text(&program)]).with(0);
    ended.says(&["0 managed locks", "takes no pthread mutex", "holdup record", "--cpus", "--vary", "slept"]);
}

#[test]
fn a_slice_is_the_kernels_and_needs_no_interposer() {
    let Some(program) = build::program("three_locks.c", &["-static"]) else { return };
    let refused = With::new().run(&["--slice", "1s"], &["true"]).with(2);
    refused.says(&["--slice 1s", "100us to 100ms"]);
    With::new().run(&["--slice", "soon"], &["true"]).with(2).says(&["--slice soon"]);
    let ended = With::new().run(&["--slice", "20ms"], &[text(&program), "2", "100"]);
    if ended.code == Some(2) && ended.err.contains("6.12") {
        super::skip(&ended.err);
        return;
    }
    assert_eq!(ended.with(0).out, "200 200 200 200\n");
    let Some(program) = build::program("three_locks.c", &[]) else { return };
    let both = With::new().run(&["--slice", "20ms", "--lock", "ttas"], &[text(&program), "2", "100"]).with(0);
    both.says(&["ttas: 800 acquisitions"]);
}

#[test]
fn a_program_that_starts_very_many_processes_fills_no_memory() {
    if !is_possible() {
        return;
    }
    let with = With::new();
    let script = "i=0; while [ $i -lt 600 ]; do /bin/true; i=$((i + 1)); done";
    // The shell and its children; the first 512 have figures.
    with.run(&["--lock", "glibc"], &["sh", "-c", script]).with(0).says(&["more processes", "first 512"]);
}
