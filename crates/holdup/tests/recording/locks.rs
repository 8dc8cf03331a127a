//! `record --locks`: what the interposer in the program counts is in the recording, beside the waits that the kernel
//! saw.

use std::path::Path;

use super::build::{self, Frames};
use super::place::{Place, text};
use super::{alone, skip};

#[test]
fn locks_are_counted_exactly_and_stay_the_program_s_own() {
    let Ok(program) = build::program("../interposer/three_locks.c", Frames::None) else {
        return skip("there is no C compiler");
    };
    let _alone = alone();
    // Threads that hardly run at the same time hardly wait for each other: then another run tells.
    let place = (0..5).find_map(|_| counted(&program)).expect("threads sleep on the lock that is held longest");
    assert!(place.starts_with("cache_update"), "{place}");
}

/// Records the program and holds what was counted against what it did. Where threads slept on its longest held lock,
/// most of the time; `None` if none did.
fn counted(program: &Path) -> Option<String> {
    let place = Place::new();
    let mut command = place.recorder(&["--locks", "--no-report", "-o", "locks.holdup", "--"]);
    let output = command.arg(program).args(["4", "20000"]).output().unwrap();
    assert!(output.status.success(), "{}", text(&output));
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(said.trim(), "80000 80000 80000 80000", "the program's own output, and nothing else");
    let report = place.report("locks.holdup");
    // A lock that nobody slept on has no place among the waits.
    let cache = report["locks"].as_array().unwrap().iter().find(|lock| lock["name"] == "g_cache_lock")?;
    assert_eq!(cache["primitive"], "mutex", "{cache:#}");
    assert_eq!(cache["figures"]["acquisitions"], 80_000);
    assert_eq!(cache["figures"]["threads"], 4);
    let figure = |key: &str| cache["figures"][key].as_u64().unwrap();
    assert!(figure("slept") <= figure("contended") && figure("contended") <= 80_000);
    let slept = figure("slept") > 0 && cache["waits"].as_u64().unwrap() > 0;
    slept.then(|| cache["wait_sites"][0]["place"].as_str().unwrap().to_owned())
}

#[test]
fn a_program_that_cannot_be_interposed_is_refused_with_a_reason() {
    let Ok(program) = build::static_program("hot_lock.c") else {
        return skip("there is no C compiler for static programs");
    };
    let place = Place::new();
    let output = place.recorder(&["--locks", "-o", "static.holdup", "--"]).arg(&program).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", text(&output));
    assert!(text(&output).contains("static"), "{}", text(&output));
    assert!(!place.path("static.holdup").exists(), "nothing is left behind");
}

/// What a program forbids itself, holdup's part in it does not do.
#[test]
fn a_sandboxed_program_is_recorded_with_its_locks() {
    for (source, said, code) in [("sandboxed.c", "4000\n", 0), ("strict.c", "done\n", 128 + 9)] {
        let Ok(program) = build::program(&format!("../interposer/{source}"), Frames::None) else {
            return skip("there is no C compiler");
        };
        let _alone = alone();
        let place = Place::new();
        let native = place.command(&program).output().unwrap();
        if native.stdout != said.as_bytes() {
            return skip("this kernel has no such sandbox");
        }
        let output =
            place.recorder(&["--locks", "--no-report", "-o", "s.holdup", "--"]).arg(&program).output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{source}: {}", text(&output));
        assert_eq!(String::from_utf8_lossy(&output.stdout), said, "{source}: {}", text(&output));
    }
}
