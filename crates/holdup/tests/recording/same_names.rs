//! Who records, how, and from when on: the same trouble has the same place and the same names.

use std::path::Path;
use std::process::{Child, Stdio};

use serde_json::Value;

use super::build::{self, Frames};
use super::place::{Place, text};
use super::{alone, has, is_root, skip};

/// What runs for so many milliseconds, in a place.
type Words = fn(&Place, &str) -> Option<Vec<String>>;

/// A place of a user.
type MadePlace = fn() -> Place;

fn native(place: &Place, ms: &str) -> Option<Vec<String>> {
    let program = build::program("../recorder/naps.c", Frames::None).map_err(|why| skip(&why)).ok()?;
    Some(vec![place.copy_in(&program).to_str().unwrap().to_owned(), ms.to_owned()])
}

/// The system's, which every user can start.
const PYTHON: &str = "/usr/bin/python3";

fn python(place: &Place, ms: &str) -> Option<Vec<String>> {
    if !has(PYTHON, "--version") {
        skip(&format!("there is no {PYTHON}"));
        return None;
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/recorder/naps.py");
    Some(vec![PYTHON.to_owned(), place.copy_in(&script).to_str().unwrap().to_owned(), ms.to_owned()])
}

/// Ends with the test.
struct Runs(Child);

impl Drop for Runs {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Whether its threads are there.
fn has_threads(pid: u32) -> bool {
    std::fs::read_dir(format!("/proc/{pid}/task")).is_ok_and(|tasks| tasks.count() > 4)
}

/// Records by this capture; `None` (with the reason printed) where the user may not.
fn recorded(place: &Place, words: Words, capture: &str, attached: bool) -> Option<Value> {
    // Of a try before.
    let _ = std::fs::remove_file(place.path("n.holdup"));
    let mut recorder = place.recorder(&["--no-report", "--capture", capture, "-o", "n.holdup"]);
    let words = words(place, if attached { "60000" } else { "1500" })?;
    let runs = attached.then(|| {
        let mut program = place.command(&words[0]);
        let mut runs = Runs(program.args(&words[1..]).stdout(Stdio::null()).spawn().unwrap());
        while !has_threads(runs.0.id()) {
            assert_eq!(runs.0.try_wait().unwrap(), None, "it has ended");
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        runs
    });
    match &runs {
        Some(runs) => recorder.args(["--for", "1200ms", "-p", &runs.0.id().to_string()]),
        None => recorder.arg("--").args(&words),
    };
    let output = recorder.output().unwrap();
    if output.status.code() == Some(2) {
        skip(text(&output).trim());
        return None;
    }
    assert!(output.status.success(), "{}", text(&output));
    Some(place.report("n.holdup"))
}

/// What the first finding must say of `count_stock`: the lock's name has these words, and the place is where it is
/// waited for or where its holder sleeps.
struct Said {
    lock: &'static str,
    file: &'static str,
    lines: [u64; 2],
}

impl Said {
    fn is_in(&self, report: &Value) -> bool {
        let first = &report["findings"][0];
        let name = first["subjects"][0]["name"].as_str().unwrap_or_default();
        let trail = first["place"]["trail"].as_array().map(Vec::as_slice).unwrap_or_default();
        let Some(ours) = trail.iter().find(|frame| frame["role"] == "program") else { return false };
        first["kind"] == "sleeping-holder"
            && name.contains(self.lock)
            && ours["function"] == "count_stock"
            && ours["file"].as_str().is_some_and(|file| file.rsplit('/').next() == Some(self.file))
            && ours["line"].as_u64().is_some_and(|line| self.lines.contains(&line))
    }
}

#[track_caller]
fn same(words: Words, said: &Said, needs_memory: bool) {
    let _alone = alone();
    if words(&Place::new(), "1").is_none() {
        return;
    }
    let all: [(MadePlace, &str); 3] = [(Place::new, "bpf"), (Place::new, "perf"), (Place::ordinary, "perf")];
    let scope = std::fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope").unwrap_or_default();
    for (number, (place, capture)) in all.into_iter().enumerate().filter(|(number, _)| is_root() || *number == 1) {
        let is_ordinary = !is_root() || number == 2;
        for attached in [false, true] {
            if attached && needs_memory && is_ordinary && !matches!(scope.trim(), "" | "0") {
                skip("an ordinary user may not read the memory of a process here (yama)");
                continue;
            }
            let place = place();
            // On a machine that has no time for the recorder, looks at an interpreter may miss who has its lock.
            let mut tries = (0..5).map_while(|_| recorded(&place, words, capture, attached));
            let Some(mut report) = tries.next() else { continue };
            while !said.is_in(&report) {
                let by = format!("{capture}, ordinary user: {is_ordinary}, attached: {attached}");
                let screen = || text(&place.holdup(&["report", "n.holdup"]).output().unwrap());
                report = tries.next().unwrap_or_else(|| panic!("{by}: {:#}\n{}", report["findings"], screen()));
            }
        }
    }
}

#[test]
fn a_native_program_is_told_of_alike_however_it_is_recorded() {
    same(native, &Said { lock: "g_stock_lock", file: "naps.c", lines: [8, 9] }, false);
}

#[test]
fn python_is_told_of_alike_however_it_is_recorded() {
    same(python, &Said { lock: "count_stock naps.py:11", file: "naps.py", lines: [11, 12] }, true);
}
