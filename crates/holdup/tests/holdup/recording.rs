//! `holdup report` and `holdup diff` on files that are recordings, and on files that are not.

use holdup_trace::{
    Capabilities, Counter, Ending, Event, FutexOp, Header, NO_CPU, OffCpu, Pid, Target, Tid, What, Writer,
};

use super::Place;

/// When the recordings of these tests begin on the events' clock.
const BEGAN_NS: u64 = 7_000_000_000;

const MS: u64 = 1_000_000;

fn event(ms: u64, tid: u32, what: What) -> Event {
    let cpu = if tid == 0 { NO_CPU } else { 0 };
    Event { time_ns: BEGAN_NS + ms * MS, tid: Tid(tid), cpu, what }
}

/// Two threads that take turns on one CPU for a second; one waits for a lock that the other holds.
fn events() -> Vec<Event> {
    let start = |tid| event(0, tid, What::Started { pid: Pid(50), parent: None });
    let name = |tid, name: &str| event(0, tid, What::Named { name: name.into(), exec: false });
    let mut events = vec![start(50), name(50, "first"), start(51), name(51, "second")];
    for turn in 0..50 {
        let from = turn * 20;
        let wait = What::FutexWait { op: FutexOp(FutexOp::WAIT | 128), addr: 0x1000, value: 2, stack: None };
        let woken = What::FutexReturn { op: FutexOp(FutexOp::WAIT | 128), addr: 0x1000, ret: 0, stack: None };
        let wake = What::FutexReturn { op: FutexOp(FutexOp::WAKE | 128), addr: 0x1000, ret: 1, stack: None };
        events.push(event(from + 1, 50, What::SwitchIn));
        events.push(event(from + 5, 50, wait));
        events.push(event(from + 5, 50, What::SwitchOut { off: OffCpu::Blocked, stack: None }));
        events.push(event(from + 6, 51, What::SwitchIn));
        events.push(event(from + 15, 51, wake));
        events.push(event(from + 16, 51, What::SwitchOut { off: OffCpu::Runnable, stack: None }));
        events.push(event(from + 17, 50, What::SwitchIn));
        events.push(event(from + 17, 50, woken));
        events.push(event(from + 19, 50, What::SwitchOut { off: OffCpu::Runnable, stack: None }));
    }
    events
}

fn header() -> Header {
    Header {
        producer: "holdup test".to_owned(),
        began_unix_s: 1_767_254_400,
        began_ns: BEGAN_NS,
        target: Target { command: vec!["./server".to_owned()], pids: vec![50], attached: false },
        capabilities: Capabilities { switches: true, futexes: true, ..Capabilities::default() },
        ..Header::default()
    }
}

/// The bytes of a whole recording whose second thread has this name.
pub(super) fn recording_named(thread: &str) -> Vec<u8> {
    let mut writer = Writer::new(Vec::new(), &header()).unwrap();
    for event in events() {
        writer.event(&event).unwrap();
    }
    writer.event(&event(999, 51, What::Named { name: thread.into(), exec: false })).unwrap();
    let reason = "the target ended".to_owned();
    writer.finish(&Ending { ended_ns: BEGAN_NS + 1_000 * MS, reason, ..Ending::default() }).unwrap()
}

/// The bytes of a recording, with or without its end.
pub(super) fn recording(ended: bool) -> Vec<u8> {
    let mut writer = Writer::new(Vec::new(), &header()).unwrap();
    for event in events() {
        writer.event(&event).unwrap();
    }
    if ended {
        let reason = "the target ended".to_owned();
        return writer.finish(&Ending { ended_ns: BEGAN_NS + 1_000 * MS, reason, ..Ending::default() }).unwrap();
    }
    let mut bytes = Vec::new();
    let mut writer = Writer::new(&mut bytes, &header()).unwrap();
    for event in events() {
        writer.event(&event).unwrap();
    }
    writer.flush().unwrap();
    drop(writer);
    bytes
}

fn with_recording() -> Place {
    let place = Place::new();
    std::fs::write(place.path("a.holdup"), recording(true)).unwrap();
    place
}

#[test]
fn a_recording_is_shown_on_one_screen() {
    let place = with_recording();
    let ended = place.run("report a.holdup").with(0).shows(&["server", "2 threads", "switches/s", "--threads"]);
    assert!(ended.out.lines().all(|line| line.chars().count() <= 80), "{}", ended.out);
    assert!(!ended.out.contains('\u{1b}'), "colours without a terminal");
    assert!(ended.err.is_empty(), "{}", ended.err);
}

#[test]
fn without_a_name_the_newest_recording_is_shown() {
    let place = Place::new();
    place.run("report").with(2).says(&["no recording", "*.holdup", "holdup record"]);
    std::fs::write(place.path("notes.txt"), "not this").unwrap();
    let old = std::fs::File::create(place.path("old.holdup")).unwrap();
    old.set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
    std::fs::write(place.path("new.holdup"), recording(true)).unwrap();
    place.run("report").with(0).says(&["new.holdup"]).shows(&["2 threads"]);
}

#[test]
fn hardware_counters_are_told_per_core_socket_and_in_all() {
    let place = with_recording();
    place.run("report a.holdup --cpus").with(0).shows(&["core 0", "all", "n/a: hardware counters were not recorded"]);

    let mut header = header();
    header.machine.sockets = vec![0, 1];
    let mut writer = Writer::new(Vec::new(), &header).unwrap();
    for event in events() {
        writer.event(&event).unwrap();
    }
    for (cpu, instructions) in [(0, 300), (1, 100)] {
        let counts = [
            (Counter::Cycles, 200),
            (Counter::Instructions, instructions),
            (Counter::ReferenceCycles, 160),
            (Counter::NominalCycles, 400),
            (Counter::L2References, 40),
            (Counter::L2Misses, 10),
            (Counter::L3References, 10),
            (Counter::L3Misses, 1),
        ];
        for (counter, value) in counts {
            let time_ns = BEGAN_NS + 990 * MS;
            writer.event(&Event { time_ns, tid: Tid(0), cpu, what: What::Count { counter, value } }).unwrap();
        }
    }
    let reason = "the target ended".to_owned();
    let ending = Ending { ended_ns: BEGAN_NS + 1_000 * MS, reason, ..Ending::default() };
    std::fs::write(place.path("b.holdup"), writer.finish(&ending).unwrap()).unwrap();
    let out = place.run("report b.holdup --cpus").with(0).out;
    for (name, figures) in [("core 0", "0.75  1.50"), ("core 1", "0.25  0.50"), ("socket 1", "0.25  0.50")] {
        let row = out.lines().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("{name}: {out}"));
        let row = row.split_whitespace().collect::<Vec<_>>().join("  ");
        assert!(row.contains(figures), "{row}");
    }
    let all = out.lines().find(|line| line.starts_with("all")).unwrap();
    assert!(all.contains("0.50") && all.contains("1.00") && all.contains("75%") && all.contains("90%"), "{all}");
    let page = place.path("b.html");
    place.run(&format!("report b.holdup --html {}", page.display())).with(0);
    assert!(std::fs::read_to_string(page).unwrap().contains("IPC"));
}

#[test]
fn every_view_shows_what_it_is_named_after() {
    let place = with_recording();
    place.run("report a.holdup --threads").with(0).shows(&["first", "second", "50", "51", "switches/s"]);
    place.run("report a.holdup --locks").with(0).shows(&["waits/s"]);
    place.run("report a.holdup --symbols --modules").with(0).shows(&["CPU samples were not recorded"]);
    place.run("report a.holdup --pairs").with(0);
    let switches = place.run("report a.holdup --switches").with(0).shows(&["ran for", "first (50)"]).out;
    assert!(switches.lines().count() > 100, "{switches}");
    place.run("report a.holdup --switches --limit 3").with(0).shows(&["more: --limit"]);
    let json = place.run("report a.holdup --json").with(0).out;
    let value: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(value["schema"], "holdup-recording-1");
    assert_eq!(value["totals"]["switches"], 150);
    assert_eq!(value["threads"].as_array().unwrap().len(), 2);
}

#[test]
fn a_window_clips_all_views() {
    let place = with_recording();
    let of = |words: &str| {
        let json = place.run(&format!("report a.holdup --json {words}")).with(0).out;
        serde_json::from_str::<serde_json::Value>(&json).unwrap()["totals"]["switches"].as_u64().unwrap()
    };
    assert_eq!(of("--from 0s --to 2s"), 150);
    let half = of("--from 500ms");
    assert!((70..=80).contains(&half), "{half}");
    assert_eq!(half + of("--to 500ms"), 150);
}

#[test]
fn a_window_that_makes_no_sense_is_refused() {
    let place = with_recording();
    let refused = |words: &str, says: &[&str]| {
        let ended = place.run(&format!("report a.holdup {words}")).with(2).says(&["holdup: "]).says(says);
        assert!(ended.out.is_empty(), "{}", ended.out);
    };
    refused("--from 2s --to 1s", &["--to 1s is not after --from 2s"]);
    refused("--to 0s", &["--to 0s is not after --from 0s"]);
    refused("--from soon", &["--from 'soon'", "1.20s"]);
    refused("--from 90s", &["--from 90.000s", "ends after"]);
    refused("--finding 0", &["--finding"]);
    refused("--finding 99", &["--finding 99", "holdup report a.holdup"]);
    refused("--json --threads", &["--threads"]);
}

#[test]
fn what_is_not_a_recording_is_named_and_left_alone() {
    let whole = recording(true);
    let cases: [(&str, Vec<u8>, &[&str]); 5] = [
        ("empty.holdup", vec![], &["empty", "holdup record"]),
        ("notes.txt", b"buy milk\n".to_vec(), &["text file", "not a holdup recording"]),
        ("perf.data", b"PERFILE2 and so on".to_vec(), &["perf.data", "holdup import"]),
        ("short.holdup", whole[..10].to_vec(), &["short.holdup"]),
        ("scratched.holdup", whole.iter().map(|byte| !byte).collect(), &["not a holdup recording"]),
    ];
    let place = with_recording();
    for (name, bytes, says) in cases {
        std::fs::write(place.path(name), &bytes).unwrap();
        for words in [format!("report {name}"), format!("diff a.holdup {name}"), format!("diff {name} a.holdup")] {
            let ended = place.run(&words).with(2).says(&["holdup: ", name]).says(says);
            assert!(!ended.err.contains("panicked") && ended.out.is_empty(), "{ended:?}");
            assert_eq!(ended.err.lines().count(), 1, "one message: {}", ended.err);
        }
        assert_eq!(std::fs::read(place.path(name)).unwrap(), bytes);
    }
    place.run("report nothing.holdup").with(2).says(&["nothing.holdup: no such file", "holdup record"]);
    place.run("report .").with(2).says(&["is no file"]);
}

/// Root reads everything, so there is nothing to refuse.
#[cfg(unix)]
#[test]
fn a_recording_that_may_not_be_read_is_explained() {
    use std::os::unix::fs::PermissionsExt as _;
    let place = with_recording();
    let path = place.path("a.holdup");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o000)).unwrap();
    if std::fs::read(&path).is_ok() {
        eprintln!("skipped: this user may read any file");
        return;
    }
    place.run("report a.holdup").with(2).says(&["a.holdup: cannot be read", "chmod +r"]);
}

#[test]
fn a_recording_that_was_cut_off_shows_what_is_there() {
    let place = Place::new();
    std::fs::write(place.path("killed.holdup"), recording(false)).unwrap();
    place.run("report killed.holdup").with(0).shows(&["2 threads", "cut off"]);
    let whole = recording(true);
    // Whatever is left of the file, it is shown or refused; it crashes nothing.
    for part in 1..8 {
        std::fs::write(place.path("part.holdup"), &whole[..whole.len() * part / 8]).unwrap();
        let ended = place.run("report part.holdup");
        assert!(matches!(ended.code, Some(0 | 2 | 3)), "{ended:?}");
        assert!(!ended.err.contains("panicked"), "{}", ended.err);
    }
}

#[test]
fn damage_is_shown_with_its_place() {
    let place = Place::new();
    let mut bytes = recording(true);
    // Behind the header, before the end: in the one chunk of events.
    let inside = bytes.len() * 18 / 25;
    bytes[inside..inside + 8].fill(0xa5);
    std::fs::write(place.path("scratched.holdup"), bytes).unwrap();
    place.run("report scratched.holdup").with(3).shows(&["cannot be read", "at byte"]);
}

#[test]
fn two_recordings_are_compared() {
    let place = with_recording();
    std::fs::copy(place.path("a.holdup"), place.path("b.holdup")).unwrap();
    place.run("diff a.holdup b.holdup").with(0).shows(&["switches per second", "1.00"]);
    let json = place.run("diff a.holdup b.holdup --json").with(0).out;
    let value: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(value["schema"], "holdup-recording-diff-1");
    assert!(value["findings"].as_array().unwrap().iter().all(|row| row["change"] == "same"), "{value}");
    place.run("diff a.holdup b.holdup --fail-on 5%").with(0);
    place.run("diff a.holdup b.holdup --fail-on soon").with(2).says(&["--fail-on", "5%"]);
    place.run("diff a.holdup").with(2).says(&["AFTER"]);
}

#[test]
fn recording_refuses_what_makes_no_sense() {
    let place = with_recording();
    let refused = |words: &str, says: &[&str]| {
        let ended = place.run(words).with(2).says(&["holdup: "]).says(says);
        assert!(ended.out.is_empty() && !ended.err.contains("panicked"), "{ended:?}");
    };
    refused("record", &["--pid", "holdup record -- ./server"]);
    refused("record -p 1 -- ls", &["--pid 1 and the program 'ls'"]);
    refused("record -p 1 --fro 10s", &["--fro: no such option", "--help"]);
    refused("record -p 0", &["no process 0", "pgrep"]);
    refused("record -o a.holdup -- ls", &["a.holdup exists", "-o"]);
    refused("record --for soon -- ls", &["--for", "'soon'"]);
    refused("record --stack-bytes 12 -- ls", &["--stack-bytes 12", "multiple of 8"]);
    refused("record --buffer 100 -- ls", &["--buffer 100", "power of two"]);
    refused("record --rate 50000 -- ls", &["--rate"]);
    refused("record --detail much -- ls", &["--detail", "user, allowed"]);
    assert_eq!(std::fs::read(place.path("a.holdup")).unwrap(), recording(true));
    assert_eq!(super::files(&place.path(".")), ["a.holdup"], "nothing was left behind");
}

/// The one recording of a place.
fn recorded(place: &Place) -> String {
    let mut names = super::files(&place.path("."));
    names.retain(|name| name.ends_with(".holdup"));
    assert_eq!(names.len(), 1, "{names:?}");
    names.remove(0)
}

/// Why this machine cannot record at all, if so: then there is nothing to test.
fn cannot_record() -> Option<String> {
    let place = Place::new();
    let ended = place.run("record --no-report -- true");
    (ended.code == Some(2)).then_some(ended.err)
}

macro_rules! needs_recording {
    () => {
        if let Some(why) = cannot_record() {
            eprintln!("skipped: {why}");
            return;
        }
    };
}

#[test]
fn a_recorded_program_keeps_its_streams_and_its_exit_status() {
    needs_recording!();
    let place = Place::new();
    let mut command = place.command("record -- sh -c");
    let ended = super::Ended::of(command.arg("echo result; exit 7").output().unwrap()).with(7);
    assert_eq!(ended.out, "result\n");
    let name = recorded(&place);
    assert!(name.starts_with("sh-20"), "{name}");
    let ended = ended.says(&["recorded", &name, "--threads"]);
    assert!(!ended.err.contains('\u{1b}'), "colours without a terminal: {}", ended.err);
    // A few milliseconds are no all-clear; on a machine that is busy, it took longer.
    place.run(&format!("report {name} --to 40ms")).with(3).shows(&["no all-clear"]);
}

#[test]
fn only_recording_shows_no_report() {
    needs_recording!();
    let place = Place::new();
    let ended = place.run("record --no-report -o mine.holdup -- true").with(0).says(&["mine.holdup"]);
    assert!(ended.out.is_empty() && !ended.err.contains("--threads"), "{ended:?}");
    let first = std::fs::read(place.path("mine.holdup")).unwrap();
    place.run("record -o mine.holdup -- true").with(2).says(&["mine.holdup exists"]);
    assert_eq!(std::fs::read(place.path("mine.holdup")).unwrap(), first, "the recording was changed");
}

#[test]
fn a_second_recording_in_the_same_second_gets_a_number() {
    needs_recording!();
    let place = Place::new();
    for _ in 0..3 {
        place.run("record --no-report -- true").with(0);
    }
    let names = super::files(&place.path("."));
    assert_eq!(names.iter().filter(|name| name.ends_with(".holdup")).count(), 3, "{names:?}");
}

#[test]
fn what_cannot_be_started_leaves_no_recording() {
    needs_recording!();
    let place = Place::new();
    place.run("record -- no-such-program").with(127).says(&["holdup: no-such-program", "no such command"]);
    place.run("record --fro 10s -- true").with(127).says(&["--fro: no such option", "--help"]);
    std::fs::write(place.path("text"), "not a program").unwrap();
    place.run("record -- ./text").with(126).says(&["./text", "cannot be executed"]);
    place.run("record -p 4194305").with(2).says(&["no process 4194305", "pgrep"]);
    place.run("record -o no/folder/x.holdup -- true").with(2).says(&["no/folder/x.holdup"]);
    assert_eq!(super::files(&place.path(".")), ["text"], "something was left behind");
}

#[test]
fn a_running_process_is_attached_to() {
    needs_recording!();
    let place = Place::new();
    let mut sleeper = std::process::Command::new("sleep").arg("60").spawn().unwrap();
    let ended = place.run(&format!("record -p {} --for 300ms", sleeper.id()));
    let goes_on = sleeper.try_wait().unwrap().is_none();
    sleeper.kill().unwrap();
    sleeper.wait().unwrap();
    ended.with(0).says(&["recorded"]).shows(&["--threads"]);
    assert!(goes_on, "the process that was attached to did not survive it");
    assert!(recorded(&place).starts_with("sleep-"));
}

#[test]
fn children_that_run_already_are_said_to_be_left_out() {
    use std::io::BufRead as _;
    needs_recording!();
    let place = Place::new();
    let mut shell = std::process::Command::new("sh");
    let mut shell =
        shell.args(["-c", "sleep 60 & echo $!; wait"]).stdout(std::process::Stdio::piped()).spawn().unwrap();
    let mut child = String::new();
    std::io::BufReader::new(shell.stdout.take().unwrap()).read_line(&mut child).unwrap();
    let ended = place.run(&format!("record -p {} --for 100ms", shell.id()));
    assert!(std::process::Command::new("kill").arg(child.trim()).status().unwrap().success());
    shell.wait().unwrap();
    ended.with(0).says(&["1 child process", &format!("pgrep -P {}", shell.id())]);
}

#[test]
fn ctrl_c_ends_a_recording_that_can_be_shown() {
    needs_recording!();
    let place = Place::new();
    let mut sleeper = std::process::Command::new("sleep").arg("60").spawn().unwrap();
    let mut command = place.command(&format!("record -o stopped.holdup -p {}", sleeper.id()));
    let child = command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped()).spawn().unwrap();
    // The file appears when the recording has begun; Ctrl-C is listened for by then.
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while !place.path("stopped.holdup").exists() && std::time::Instant::now() < deadline {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let sent = std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(sent.success());
    let ended = super::Ended::of(child.wait_with_output().unwrap());
    sleeper.kill().unwrap();
    sleeper.wait().unwrap();
    ended.with(130).says(&["recorded"]);
    place.run("report stopped.holdup").with(3).shows(&["no all-clear"]);
}

#[test]
fn an_export_replaces_nothing() {
    let place = with_recording();
    place.run("report a.holdup --perfetto a.pftrace --firefox a.json").with(0).says(&[
        "a.pftrace",
        "ui.perfetto.dev",
        "a.json",
        "profiler.firefox.com",
    ]);
    let json = std::fs::read_to_string(place.path("a.json")).unwrap();
    assert!(serde_json::from_str::<serde_json::Value>(&json).is_ok());
    std::fs::write(place.path("mine"), "precious").unwrap();
    for flag in ["--perfetto", "--firefox"] {
        place.run(&format!("report a.holdup {flag} mine")).with(2).says(&["mine exists"]);
    }
    assert_eq!(std::fs::read_to_string(place.path("mine")).unwrap(), "precious");
    place.run("report a.holdup --perfetto no/folder/x").with(2).says(&["no/folder/x"]);
}

#[test]
fn the_doctor_says_whether_recording_works() {
    let place = Place::new();
    let works = cannot_record().is_none();
    let json = place.run("doctor --json");
    if json.code == Some(2) {
        json.says(&["recording needs Linux"]);
        return;
    }
    let value: serde_json::Value = serde_json::from_str(&json.with(0).out).unwrap();
    assert_eq!(value["can_record"], works, "{value}");
    place.run("doctor").with(0).shows(&["lock waits", "context switches"]);
    assert!(super::files(&place.path(".")).iter().all(|name| !name.ends_with(".holdup")));
}

#[test]
fn what_perf_did_not_write_is_not_imported() {
    let place = with_recording();
    std::fs::write(place.path("notes.txt"), "buy milk").unwrap();
    std::fs::write(place.path("perf.data"), "PERFILE2").unwrap();
    std::fs::write(place.path("empty"), "").unwrap();
    let before = super::files(&place.path("."));
    for (words, says) in [
        ("import notes.txt", "perf.data"),
        ("import perf.data", "damaged"),
        ("import empty", "the file is empty"),
        ("import a.holdup", "perf.data"),
        ("import nothing", "no such file"),
        ("import .", "is no file"),
        ("import notes.txt -o a.holdup", "a.holdup exists"),
    ] {
        let ended = place.run(words).with(2).says(&["holdup: ", says]);
        assert!(!ended.err.contains("panicked") && ended.out.is_empty(), "{ended:?}");
    }
    assert_eq!(super::files(&place.path(".")), before, "something was left behind");
}
