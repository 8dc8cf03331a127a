//! What targets, disks and rights can do to a recording: it must say so, and keep what it had.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::build::{self, Frames};
use super::expectation::Expectation;
use super::place::{Place, text};
use super::{alone, is_root, skip};

/// The program that does what the words after it say; without a compiler a test cannot run.
fn faults() -> Option<PathBuf> {
    build::program("faults.c", Frames::None).map_err(|why| skip(&why)).ok()
}

/// Records `faults WORDS` and gives back the report.
fn report_of(place: &Place, words: &[&str]) -> Option<Value> {
    let program = place.copy_in(&faults()?);
    let mut command = vec![program.to_str().unwrap()];
    command.extend(words);
    let recorded = place.record("f.holdup", &command);
    assert!(recorded.status.success(), "{words:?}: {}", text(&recorded));
    Some(place.report("f.holdup"))
}

fn count(report: &Value, key: &str) -> usize {
    report[key].as_array().unwrap().len()
}

fn has_problem(report: &Value, code: &str) -> bool {
    report["problems"].as_array().unwrap().iter().any(|problem| problem["code"] == code)
}

#[test]
fn a_target_that_ends_at_once() {
    let _alone = alone();
    let place = Place::new();
    let Some(report) = report_of(&place, &["exit"]) else { return };
    assert_eq!(report["ending"]["status"], 0);
    assert_eq!(count(&report, "findings"), 0);
    assert_eq!(count(&report, "threads"), 1);
}

#[test]
fn the_status_of_the_target_passes_through() {
    let _alone = alone();
    let place = Place::new();
    let recorded = place.record("s.holdup", &["sh", "-c", "exit 7"]);
    assert_eq!(recorded.status.code(), Some(7), "{}", text(&recorded));
    let recorded = place.record("k.holdup", &["sh", "-c", "kill -TERM $$"]);
    assert_eq!(recorded.status.code(), Some(128 + 15), "{}", text(&recorded));
}

#[test]
fn a_target_that_does_not_exist() {
    let place = Place::new();
    let recorded = place.record("n.holdup", &["./no-such-program"]);
    assert!(!recorded.status.success());
    assert!(text(&recorded).contains("no-such-program"), "{}", text(&recorded));
}

#[test]
fn a_target_that_becomes_another_program() {
    let _alone = alone();
    let place = Place::new();
    let Ok(next) = build::program("healthy_single_thread.c", Frames::None) else {
        return skip("there is no C compiler");
    };
    let Some(report) = report_of(&place, &["exec", next.to_str().unwrap()]) else { return };
    let names: Vec<_> = report["processes"].as_array().unwrap().iter().map(|p| p["name"].clone()).collect();
    assert_eq!(names.len(), 1, "{names:?}");
    assert!(names[0].as_str().unwrap().starts_with("healthy_single"), "{names:?}");
    let named = report["symbols"].as_array().unwrap().iter().any(|symbol| {
        symbol["frame"]["module"].as_str().is_some_and(|module| module.ends_with("healthy_single_thread"))
            && symbol["frame"]["function"] == "burn_steps"
    });
    assert!(named, "samples after exec have the names of the new program: {}", report["symbols"]);
}

#[test]
fn a_target_that_forks() {
    let _alone = alone();
    let place = Place::new();
    let Some(report) = report_of(&place, &["fork"]) else { return };
    assert_eq!(count(&report, "processes"), 9);
    assert_eq!(count(&report, "threads"), 9 + 16);
}

#[test]
fn a_target_that_leaves_its_session() {
    let _alone = alone();
    let place = Place::new();
    let Some(report) = report_of(&place, &["daemon"]) else { return };
    assert!(count(&report, "processes") >= 2, "{}", report["processes"]);
}

#[test]
fn a_target_with_two_thousand_threads() {
    let _alone = alone();
    let place = Place::new();
    let Some(program) = faults() else { return };
    // Where the system has no room for so many, the program says so with status 3 and the recording is as good.
    let recorded = place.record("t.holdup", &[program.to_str().unwrap(), "threads"]);
    assert!(matches!(recorded.status.code(), Some(0 | 3)), "{}", text(&recorded));
    let report = place.report("t.holdup");
    let lost = report["totals"]["lost"].as_u64().unwrap();
    if recorded.status.code() == Some(0) && lost == 0 {
        assert_eq!(count(&report, "threads"), 2001);
    }
}

#[test]
fn a_target_that_renames_its_threads() {
    let _alone = alone();
    let place = Place::new();
    let Some(report) = report_of(&place, &["rename"]) else { return };
    let threads = report["threads"].as_array().unwrap();
    let last = threads.iter().filter(|thread| thread["name"] == "final-name").count();
    assert_eq!(last, 2, "{:?}", threads.iter().map(|thread| &thread["name"]).collect::<Vec<_>>());
}

#[test]
fn a_target_that_loads_a_library() {
    let _alone = alone();
    let place = Place::new();
    let Ok(plugin) = build::plugin() else { return skip("there is no C compiler") };
    let Some(report) = report_of(&place, &["dlopen", plugin.to_str().unwrap()]) else { return };
    let modules = report["modules"].as_array().unwrap();
    let named = |module: &Value| module["frame"]["module"].as_str().is_some_and(|name| name.ends_with("plugin.so"));
    assert!(modules.iter().any(named), "{modules:?}");
    let symbols = report["symbols"].as_array().unwrap();
    assert!(
        symbols.iter().any(|symbol| symbol["frame"]["function"] == "plugin_inner"),
        "its functions have names: {symbols:?}"
    );
}

#[test]
fn a_recorder_that_is_killed_leaves_a_file_that_opens() {
    let _alone = alone();
    let Some(program) = faults() else { return };
    for after_ms in [400, 900, 1700] {
        let place = Place::new();
        let mut recorder = place
            .holdup(&["record", "--no-report", "-o", "k.holdup", "--"])
            .args([program.to_str().unwrap(), "long"])
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let appeared = wait_for(|| fs::metadata(place.path("k.holdup")).is_ok_and(|meta| meta.len() > 0));
        thread::sleep(Duration::from_millis(after_ms));
        let target = child_of(recorder.id());
        recorder.kill().unwrap();
        recorder.wait().unwrap();
        kill_quietly(target);
        assert!(appeared, "no file within ten seconds");
        let report = place.report("k.holdup");
        assert!(has_problem(&report, "cut-off"), "{}", report["problems"]);
        assert!(report["ending"].is_null());
    }
}

fn wait_for(condition: impl Fn() -> bool) -> bool {
    let start = Instant::now();
    while !condition() {
        if start.elapsed() > Duration::from_secs(10) {
            return false;
        }
        thread::yield_now();
    }
    true
}

/// The target that a recorder started; it outlives its recorder.
fn child_of(parent: u32) -> Option<u32> {
    let threads = fs::read_dir(format!("/proc/{parent}/task")).ok()?;
    let children = threads.filter_map(|thread| fs::read_to_string(thread.ok()?.path().join("children")).ok());
    children.collect::<String>().split_whitespace().next()?.parse().ok()
}

fn kill_quietly(pid: Option<u32>) {
    if let Some(pid) = pid {
        let _ = Command::new("kill").args(["-9", &pid.to_string()]).stderr(Stdio::null()).status();
    }
}

#[test]
fn a_full_disk_is_told_and_what_was_written_can_be_read() {
    if !is_root() {
        return skip("a small file system can only be mounted by root");
    }
    let Some(program) = faults() else { return };
    let _alone = alone();
    let place = Place::new();
    let mount = place.path("small");
    fs::create_dir(&mount).unwrap();
    let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", "size=64k", "nodev"]).arg(&mount).status();
    if !mounted.is_ok_and(|status| status.success()) {
        return skip("mounting a tmpfs is not allowed here");
    }
    let file = mount.join("f.holdup");
    let mut record = place.holdup(&["record", "--no-report", "--for", "3s", "-o"]);
    record.arg(&file).args(["--", program.to_str().unwrap(), "long"]);
    let recorded = record.output().unwrap();
    let copy = place.path("copy.holdup");
    fs::copy(&file, &copy).unwrap();
    let unmounted = Command::new("umount").arg(&mount).status().unwrap();
    assert!(unmounted.success());
    let said = text(&recorded);
    assert!(said.contains("f.holdup") || said.contains("No space"), "{said}");
    let report = place.report("copy.holdup");
    assert!(report["totals"]["events"].as_u64().unwrap() > 0);
}

#[test]
fn a_file_that_exists_is_not_overwritten() {
    let place = Place::new();
    fs::write(place.path("mine.holdup"), "mine").unwrap();
    let recorded = place.record("mine.holdup", &["true"]);
    assert!(!recorded.status.success());
    assert!(text(&recorded).contains("mine.holdup"), "{}", text(&recorded));
    assert_eq!(fs::read_to_string(place.path("mine.holdup")).unwrap(), "mine");
}

#[test]
fn a_binary_that_is_gone_has_no_names_but_a_report() {
    let Some(program) = faults() else { return };
    let _alone = alone();
    let place = Place::new();
    let copy = place.copy_in(&program);
    let recorded = place.record("g.holdup", &[copy.to_str().unwrap(), "rename"]);
    assert!(recorded.status.success(), "{}", text(&recorded));
    fs::remove_file(copy).unwrap();
    let report = place.report("g.holdup");
    assert!(has_problem(&report, "unreadable"), "{}", report["problems"]);
    assert!(count(&report, "threads") == 3);
}

#[test]
fn a_stripped_binary_has_modules_and_offsets() {
    let Ok(program) = build::program("hot_lock.c", Frames::None) else {
        return skip("there is no C compiler");
    };
    let _alone = alone();
    let place = Place::new();
    let copy = place.copy_in(&program);
    if !Command::new("strip").arg(&copy).status().is_ok_and(|status| status.success()) {
        return skip("there is no strip");
    }
    let recorded = place.record("s.holdup", &[copy.to_str().unwrap()]);
    assert!(recorded.status.success(), "{}", text(&recorded));
    let report = place.report("s.holdup");
    assert_eq!(report["findings"][0]["kind"], "hot-lock", "{}", report["findings"]);
    let call_path = report["findings"][0]["place"]["trail"].as_array().unwrap();
    let frame = call_path.iter().find(|frame| frame["role"] == "program").unwrap();
    assert!(frame["module"].as_str().unwrap().ends_with("hot_lock"), "{call_path:?}");
    assert!(frame["function"].is_null() && frame["offset"].as_str().unwrap().starts_with("0x"), "{call_path:?}");
}

#[test]
fn a_static_binary_has_the_same_report() {
    let program = match build::static_program("hot_lock.c") {
        Ok(program) => program,
        Err(why) => return skip(&why),
    };
    let _alone = alone();
    let place = Place::new();
    let recorded = place.record("t.holdup", &[program.to_str().unwrap()]);
    assert!(recorded.status.success(), "{}", text(&recorded));
    let report = place.report("t.holdup");
    let mismatches = Expectation::of(&build::sources().join("hot_lock.c")).mismatches(&report);
    assert!(mismatches.is_empty(), "{mismatches:?}");
}

#[test]
fn a_binary_that_may_not_be_read_has_no_names_but_a_report() {
    if !is_root() {
        return skip("only root can own what an ordinary user may not read");
    }
    let Some(program) = faults() else { return };
    let _alone = alone();
    let place = Place::ordinary();
    let copy = place.copy_in(&program);
    fs::set_permissions(&copy, Permissions::from_mode(0o700)).unwrap();
    let file = place.path("u.holdup");
    let mut record = Command::new(env!("CARGO_BIN_EXE_holdup"));
    record.args(["record", "--no-report", "-o"]).arg(&file).arg("--").arg(&copy).arg("rename");
    let recorded = record.output().unwrap();
    assert!(recorded.status.success(), "{}", text(&recorded));
    fs::set_permissions(&file, Permissions::from_mode(0o644)).unwrap();
    let report = place.report("u.holdup");
    assert!(has_problem(&report, "unreadable"), "{}", report["problems"]);
    assert_eq!(count(&report, "threads"), 3);
}

#[test]
fn ctrl_c_ends_the_command_and_its_recording() {
    let Some(program) = faults() else { return };
    let _alone = alone();
    let place = Place::new();
    // As from a terminal: the signal goes to the whole group.
    let mut record = place.holdup(&["record", "--no-report", "-o", "c.holdup", "--"]);
    record.args([program.to_str().unwrap(), "long"]).process_group(0).stderr(Stdio::null());
    let mut recorder = record.spawn().unwrap();
    let threads = |pid: u32| fs::read_dir(format!("/proc/{pid}/task")).map_or(0, Iterator::count);
    let running = wait_for(|| child_of(recorder.id()).is_some_and(|target| threads(target) == 3));
    let group = format!("-{}", recorder.id());
    let sent = Command::new("kill").args(["-INT", "--", &group]).status().unwrap();
    let ended = recorder.wait().unwrap();
    assert!(running && sent.success(), "the target did not begin");
    let report = place.report("c.holdup");
    // Both get the signal; the recorder may see the end of the command before it sees its own.
    let reason = report["ending"]["reason"].as_str().unwrap();
    assert!(matches!(reason, "Ctrl-C" | "the target ended"), "{reason}");
    assert_eq!(ended.code(), Some(128 + 2));
    assert_eq!(report["ending"]["status"], 128 + 2);
    assert!(!has_problem(&report, "cut-off"), "{}", report["problems"]);
    assert_eq!(count(&report, "threads"), 3);
}

/// As supervisors do it: the signal goes to the recorder alone.
#[test]
fn a_signal_that_ends_the_recorder_ends_the_command_and_its_recording() {
    let Some(program) = faults() else { return };
    let _alone = alone();
    // Under nohup a recorder goes on after SIGHUP, as it should.
    let signals = [("TERM", 15), ("HUP", 1)].into_iter().filter(|(_, signal)| !is_ignored(*signal));
    for (name, signal) in signals {
        let place = Place::new();
        let mut record = place.holdup(&["record", "-o", "c.holdup", "--"]);
        record.args([program.to_str().unwrap(), "long"]).stdout(Stdio::null()).stderr(Stdio::piped());
        let recorder = record.spawn().unwrap();
        let threads = |pid: u32| fs::read_dir(format!("/proc/{pid}/task")).map_or(0, Iterator::count);
        let running = wait_for(|| child_of(recorder.id()).is_some_and(|target| threads(target) == 3));
        let sent = Command::new("kill").args(["-s", name, &recorder.id().to_string()]).status().unwrap();
        let ended = recorder.wait_with_output().unwrap();
        assert!(running && sent.success(), "the target did not begin");
        assert_eq!(ended.status.code(), Some(128 + signal as i32), "{}", text(&ended));
        assert!(text(&ended).contains("recorded"), "{}", text(&ended));
        let report = place.report("c.holdup");
        assert_eq!(report["ending"]["status"], 128 + signal);
        assert!(!has_problem(&report, "cut-off"), "{}", report["problems"]);
        assert_eq!(count(&report, "threads"), 3);
    }
}

/// Whether this process, and so its children, ignore a signal.
fn is_ignored(signal: u32) -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap();
    u64::from_str_radix(ignored.trim(), 16).unwrap() >> (signal - 1) & 1 == 1
}

#[test]
fn attaching_without_the_right_says_which_is_missing() {
    if !is_root() {
        return skip("only root can become an ordinary user");
    }
    let place = Place::ordinary();
    let own = std::process::id().to_string();
    let output = place.holdup(&["record", "--for", "1s", "-p", &own]).output().unwrap();
    let said = text(&output);
    assert!(!output.status.success(), "{said}");
    assert!(said.contains(&own), "it names the process: {said}");
    assert!(said.contains("user") || said.contains("root") || said.contains("CAP_"), "it names the right: {said}");
}

#[test]
fn attaching_to_nobody_says_so() {
    let place = Place::new();
    // Beyond the largest number that Linux gives a process.
    let output = place.holdup(&["record", "--for", "1s", "-p", "4194305"]).output().unwrap();
    assert!(!output.status.success());
    assert!(text(&output).contains("4194305"), "{}", text(&output));
}

#[test]
fn attaching_sees_threads_that_were_there_before() {
    let Some(program) = faults() else { return };
    let _alone = alone();
    let place = Place::new();
    let mut target = Command::new(program).arg("long").spawn().unwrap();
    let pid = target.id().to_string();
    let both = wait_for(|| fs::read_dir(format!("/proc/{pid}/task")).is_ok_and(|threads| threads.count() == 3));
    let mut record = place.holdup(&["record", "--no-report", "--for", "500ms", "-o", "a.holdup", "-p", &pid]);
    let output = record.output().unwrap();
    target.kill().unwrap();
    target.wait().unwrap();
    assert!(both && output.status.success(), "{}", text(&output));
    let report = place.report("a.holdup");
    assert_eq!(count(&report, "threads"), 3);
    let names: Vec<_> = report["threads"].as_array().unwrap().iter().map(|t| t["name"].clone()).collect();
    assert!(names.contains(&"first".into()) && names.contains(&"second".into()), "{names:?}");
    let locks = report["locks"].as_array().unwrap();
    assert!(locks.iter().any(|lock| lock["name"].as_str().unwrap().contains("g_fault_lock")), "{locks:?}");
    // The first thread has waited for the others since before the recording.
    assert!(locks.iter().any(|lock| lock["primitive"] == "join"), "{locks:?}");
}
