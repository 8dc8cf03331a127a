//! The program runs as ever: its streams, its signals, its exit status; what holdup says goes to stderr.

use std::fs::Permissions;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Command, Stdio};

use super::{Ended, With, build, is_possible, skip, text};

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

/// Limits and sandboxes are the program's own: under them it does what it does without holdup.
#[test]
fn a_sandboxed_program_is_not_killed_for_what_holdup_does() {
    let Some(program) = build::program("sandboxed.c", &[]) else { return };
    let native = Command::new(&program).output().unwrap();
    assert!(native.status.success(), "natively: {}", native.status);
    for options in [&["--lock", "glibc"][..], &["--lock", "throttle:1"], &["--profile"], &["--profile=full"]] {
        let ended = With::new().run(options, &[text(&program)]).with(0);
        assert_eq!(ended.out, "4000\n", "{options:?}");
        ended.says(&["4.00k acquisitions"]);
    }
}

/// The kernel kills it at its end in any case; what it printed by then is there.
#[test]
fn a_program_in_strict_mode_writes_what_it_writes_natively() {
    let Some(program) = build::program("strict.c", &[]) else { return };
    let native = Command::new(&program).output().unwrap();
    if native.status.signal() != Some(9) {
        return skip("this kernel has no strict mode");
    }
    assert_eq!(native.stdout, b"done\n");
    for options in [&["--lock", "glibc"][..], &["--lock", "throttle:1"], &["--profile"], &["--profile=full"]] {
        let ended = With::new().run(options, &[text(&program)]).with(128 + 9);
        assert_eq!(ended.out, "done\n", "{options:?}");
        ended.says(&["acquisitions"]);
    }
}

#[test]
fn a_program_that_limits_itself_runs_and_is_told_what_was_not_counted() {
    let Some(program) = build::program("three_locks.c", &[]) else { return };
    let limited = |limit: &str| format!("ulimit {limit}; exec {} 2 50", text(&program));
    for (limit, said) in [("-f 100", "ulimit -f"), ("-v 100000", "ulimit -v")] {
        let ended = With::new().run(&["--profile"], &["sh", "-c", &limited(limit)]).with(0);
        assert_eq!(ended.out, "100 100 100 100\n", "{limit}");
        ended.says(&[said]);
    }
    let closed = format!("exec {} 2 50 <&- 2>&-", text(&program));
    let ended = With::new().run(&["--lock", "ttas"], &["sh", "-c", &closed]).with(0);
    ended.says(&["400 acquisitions"]);
}

#[test]
fn a_program_that_goes_on_as_another_user_is_served() {
    let Some(program) = build::program("three_locks.c", &[]) else { return };
    let place = With::new();
    // Where everybody can reach it.
    let shared = tempfile::Builder::new().permissions(Permissions::from_mode(0o755)).tempdir_in("/tmp").unwrap();
    let copy = shared.path().join("three_locks");
    std::fs::copy(&program, &copy).unwrap();
    let other = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", text(&copy), "2", "50"];
    if !Command::new(other[0]).args(&other[1..4]).arg("true").output().is_ok_and(|output| output.status.success()) {
        return skip("only root can go on as another user, and with setpriv");
    }
    place.run(&["--lock", "ttas"], &other).with(0).says(&["ttas: 400 acquisitions"]);
}

#[test]
fn a_program_built_with_a_sanitizer_runs() {
    for sanitizer in ["-fsanitize=address", "-fsanitize=thread"] {
        let Some(program) = build::program("three_locks.c", &[sanitizer]) else { return };
        let native = Command::new(&program).args(["2", "50"]).output().unwrap();
        if !native.status.success() {
            skip(&format!("{sanitizer} does not run here: {}", String::from_utf8_lossy(&native.stderr)));
            continue;
        }
        for options in [&["--lock", "throttle:1"][..], &["--profile"]] {
            let ended = With::new().run(options, &[text(&program), "2", "50"]).with(0);
            assert_eq!(ended.out, "100 100 100 100\n", "{sanitizer}");
            let ended = ended.says(&["another tool (a sanitizer, say)", "its locks were not exchanged"]);
            assert!(!ended.err.contains("takes no pthread mutex"), "{}", ended.err);
        }
    }
}

/// Where the library cannot be found, the program runs without it.
#[test]
fn a_program_in_another_root_runs_and_is_told_why_it_is_not_served() {
    let Some(program) = build::program("three_locks.c", &[]) else { return };
    let place = With::new();
    let copy = |path: &str| {
        let there = place.path("root").join(path.trim_start_matches('/'));
        std::fs::create_dir_all(there.parent().unwrap()).unwrap();
        std::fs::copy(path, there).unwrap();
    };
    let libraries = Command::new("ldd").arg(&program).output().unwrap();
    let libraries = String::from_utf8(libraries.stdout).unwrap();
    libraries.split_whitespace().filter(|word| word.starts_with('/')).for_each(copy);
    let root = place.path("root");
    std::fs::copy(&program, root.join("three_locks")).unwrap();
    let words = ["chroot", text(&root), "/three_locks", "2", "50"];
    if !Command::new(words[0]).args(&words[1..]).output().is_ok_and(|output| output.status.success()) {
        return skip("only root can change the root");
    }
    for options in [&["--lock", "ttas"][..], &["--profile"]] {
        let ended = place.run(options, &words).with(0);
        assert_eq!(ended.out, "100 100 100 100\n");
        ended.says(&["another root"]);
    }
}

/// A limit that is there before holdup starts is its own, too: it says so and does not just vanish.
#[test]
fn a_limit_of_file_size_for_all_is_told() {
    let Some(program) = build::program("three_locks.c", &[]) else { return };
    let place = With::new();
    let holdup = env!("CARGO_BIN_EXE_holdup");
    let script = format!("ulimit -f 8; {holdup} with --lock ttas -- {} 2 50; echo $?", text(&program));
    let mut command = Command::new("sh");
    command.args(["-c", &script]).current_dir(place.path("")).env("XDG_RUNTIME_DIR", place.path(""));
    let ended = Ended::of(command.output().unwrap()).with(0);
    assert!(["2\n", "100 100 100 100\n0\n"].contains(&ended.out.as_str()), "{}{}", ended.out, ended.err);
    assert!(!ended.err.trim().is_empty(), "it says what happened");
}

#[test]
fn semaphores_and_openmp_locks_are_served() {
    let Some(program) = build::program("other_locks.c", &["-fopenmp"]) else { return };
    for policy in POLICIES {
        let (ended, json) = With::new().json(&["--profile", "--lock", policy], &[text(&program)]);
        assert_eq!(ended.out, "4000 4000 4000 4000\n", "{policy}");
        ended.says(&["16.0k acquisitions", "critical sections without a name"]);
        let locks = json["processes"][0]["locks"].as_array().unwrap();
        let taken = |kind: &str| {
            let of_kind = locks.iter().filter(|lock| lock["kind"] == kind);
            of_kind.map(|lock| lock["acquisitions"].as_u64().unwrap()).collect::<Vec<_>>()
        };
        assert_eq!((taken("semaphore"), taken("OpenMP lock")), (vec![4000], vec![4000; 3]), "{policy}");
    }
}
