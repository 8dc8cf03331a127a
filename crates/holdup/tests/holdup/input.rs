//! Wrong input gets one clear message that names it, says what is expected, and exits with 2.

use super::{Ended, Place};

/// No message may look like a crash.
#[track_caller]
fn refused(words: &str, says: &[&str]) -> Ended {
    let place = Place::new();
    let ended = place.run(words).with(2).says(&["holdup: "]).says(says);
    assert!(!ended.err.contains("panicked"), "{}", ended.err);
    assert!(ended.out.is_empty(), "results in spite of an error: {}", ended.out);
    assert!(!place.store().exists(), "a store in spite of an error");
    ended
}

#[test]
fn an_unknown_lock_suggests_the_nearest() {
    refused("bench --lock ptread", &["'ptread'", "did you mean 'pthread'?", "holdup list locks"]);
    refused("bench --lock pthread,xyzzy", &["'xyzzy'", "holdup list locks"]);
    refused("bench --baseline ptread", &["did you mean 'pthread'?"]);
}

#[test]
fn a_name_in_a_message_sends_nothing_to_the_terminal() {
    let recording = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/recordings/format-1.holdup");
    for words in [
        &format!("report {recording} --perfetto \u{1b}[2J\u{202e}.json"),
        "report \u{1b}[2J\u{202e}.holdup",
        "bench --lock \u{1b}[2J\u{202e}",
        "run \u{1b}[2J\u{202e}.toml",
        "\u{1b}[2J\u{202e}",
        "record -- ./\u{1b}[2J\u{202e}",
    ] {
        let ended = Place::new().run(words).says(&["<U+202E>"]);
        assert!(!ended.err.contains(['\u{1b}', '\u{202e}']), "{words:?}: {:?}", ended.err);
    }
}

#[test]
fn a_wrong_factor_value_names_the_factor_and_what_it_takes() {
    refused("bench --threads 0", &["--threads", "'0'", "between 1 and 1024"]);
    refused("bench --threads 1..0", &["--threads", "not a range"]);
    refused("bench --hold 5", &["--hold", "'5'", "100ns"]);
    refused("bench --yield sometimes", &["--yield", "'sometimes'", "never, holding, released, both"]);
    refused("bench --workload tea", &["--workload", "free-list"]);
    refused("bench --pin=maybe", &["--pin", "off, on"]);
    refused("bench --limit soon", &["--limit", "'soon'"]);
    refused("bench --repeat 0", &["--repeat"]);
    refused("bench --seed -1", &["--seed"]);
}

#[test]
fn an_unknown_command_or_flag_is_explained() {
    refused("benc", &["benc", "bench"]);
    refused("bench --thread 1", &["--thread", "--threads"]);
    refused("list everything", &["everything", "locks"]);
    refused("list", &["locks, workloads", "holdup list locks"]);
    refused("bench rw", &["'rw'", "holdup bench --workload rw"]);
    refused("bench pthread", &["holdup bench --lock pthread"]);
    refused("bench hart", &["holdup run hart --quick"]);
    refused("record", &["holdup record -- ./server"]);
    refused("top", &["holdup top --pid 1234"]);
    refused("export last", &["--csv"]);
    Place::new().run("").with(2).says(&["holdup record ./prog", "holdup try", "holdup demo", "holdup --help"]);
}

#[test]
fn a_sweep_without_end_is_refused() {
    refused("bench --threads 1..1024 --depth 0..64 --entries 1..4000", &["266240000 combinations", "1..64*2"]);
    refused("bench --threads 1..5000", &["--threads", "more than 4096"]);
}

#[test]
fn resuming_takes_no_factors() {
    refused("bench --resume --lock pthread", &["--resume"]);
    refused("bench --resume 1 --no-store", &["--no-store"]);
}

#[test]
fn help_and_version_are_results() {
    let place = Place::new();
    for words in ["--help", "bench --help", "timemutex --help", "time --help", "export --help", "with --help"] {
        let help = place.run(words).with(0).shows(&["Examples:", "holdup "]);
        assert!(help.err.is_empty(), "{}", help.err);
    }
    place.run("--version").with(0).shows(&["holdup "]);
    let help = place.run("bench --help").with(0);
    for factor in holdup_bench::spec::FACTORS {
        assert!(help.out.contains(&format!("--{}", factor.name)), "{} has no flag", factor.name);
    }
}

/// Where nobody can read it, it is no success.
#[cfg(target_os = "linux")]
#[test]
fn help_that_cannot_be_written_is_an_error_and_a_reader_that_goes_away_is_none() {
    use std::process::Stdio;
    for words in ["--help", "--version", "report --help", "list locks"] {
        let place = Place::new();
        let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
        let refused = Ended::of(place.command(words).stdout(full).output().unwrap());
        refused.with(2).says(&["cannot write the results"]);
        let mut child = place.command(words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let ended = Ended::of(child.wait_with_output().unwrap()).with(0);
        assert!(ended.err.is_empty(), "{}", ended.err);
    }
}

/// What runs on the first thread has no more room than that.
#[cfg(target_os = "linux")]
#[test]
fn a_small_stack_is_enough() {
    let place = Place::new();
    for words in ["--help", "list locks", "doctor", "report none.holdup"] {
        let script = format!("ulimit -s 64 && exec \"$0\" {words}");
        let mut shell = std::process::Command::new("sh");
        shell.args(["-c", &script, env!("CARGO_BIN_EXE_holdup")]).current_dir(place.path(""));
        let ended = Ended::of(shell.output().unwrap());
        assert!(ended.code.is_some() && !ended.err.contains("overflow"), "{words}: {ended:?}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn too_few_processes_are_said_to_be_too_few() {
    let place = Place::new();
    let program = env!("CARGO_BIN_EXE_holdup");
    // The limit counts what the user has anywhere, and root has none.
    let other = "prlimit --nproc=1 setpriv --reuid=54321 --clear-groups --inh-caps=-all";
    let sh = |script: String| {
        let mut shell = std::process::Command::new("sh");
        shell.args(["-c", &script]).current_dir(place.path("")).env("HOME", place.path(""));
        shell
    };
    if !sh(format!("{other} true")).status().is_ok_and(|ran| ran.success()) {
        return println!("skipped: only root can run as a user without processes, and with setpriv");
    }
    let copy = place.path("holdup");
    // It is large, but may lie in another file system.
    std::fs::hard_link(program, &copy).or_else(|_| std::fs::copy(program, &copy).map(drop)).unwrap();
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(place.path(""), open).unwrap();
    for words in ["with -- true", "time -- true", "record -- true"] {
        let ended = Ended::of(sh(format!("{other} ./holdup {words}")).output().unwrap());
        ended.says(&["processes and threads than 1 (ulimit -u)", "prlimit --nproc="]);
    }
}

#[test]
fn lists_name_everything_that_can_be_chosen() {
    let place = Place::new();
    let locks = place.run("list locks").with(0);
    for lock in holdup_bench::locks::all() {
        assert!(locks.out.contains(lock.name), "{}", lock.name);
    }
    place.run("list workloads").with(0).shows(&["free-list", "ping-pong"]);
    place.run("list factors").with(0).shows(&["--threads", "default: 4"]);
    place.run("list metrics").with(0).shows(&["time_per_op_ns", "jain"]);
}
