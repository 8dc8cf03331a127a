//! Pages to open: of fixtures, of a real recording, of a made-up one whose names try to break out.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use holdup::recording::Recording;
use holdup::report::page;
use holdup_analyze::{
    Facts, Interval, LockFacts, LockName, LockNumber, OffTime, Primitive, Problem, ProcessFacts, Reason, Report, State,
    ThreadFacts, Timeline, Wake,
};
use holdup_trace::{Header, Pid, Target, Tid};

/// Ends a script, ends an attribute, opens a tag, moves a cursor, turns text around.
pub const HOSTILE: &str = "</script><img src=x onerror=alert(1)>\"'`${1}\u{1b}[31m\u{202e}\u{2028}]]>&lt;<!--";

const BEGAN_NS: u64 = 9_000_000_000_000;

/// A folder of this test run's own.
pub fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("viewer").join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    folder
}

/// A fixture of the repository.
pub fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures").join(name).canonicalize().unwrap()
}

/// Runs the program that users run.
pub fn holdup(words: &[&str], folder: &Path) -> String {
    run(Command::new(env!("CARGO_BIN_EXE_holdup")), words, folder)
}

/// The same, with results kept in the folder and not in the user's home.
pub fn holdup_at_home(words: &[&str], folder: &Path) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_holdup"));
    command.env("XDG_DATA_HOME", folder);
    run(command, words, folder)
}

fn run(mut command: Command, words: &[&str], folder: &Path) -> String {
    // No display, as in CI.
    command.args(words).current_dir(folder).stdin(Stdio::null()).env_remove("DISPLAY");
    let output = command.output().unwrap();
    assert!(output.status.success(), "holdup {words:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// The page of a recording.
pub fn page_of(recording: &Path, folder: &Path) -> PathBuf {
    let page = folder.join("page.html");
    let _ = fs::remove_file(&page);
    holdup(&["report", &recording.to_string_lossy(), "--html", &page.to_string_lossy()], folder);
    page
}

/// A recording of a fixture program made now, or why there is none.
pub fn recorded(source: &str, folder: &Path) -> Result<PathBuf, String> {
    let program = folder.join("program");
    let file = folder.join("program.holdup");
    let built = Command::new("cc")
        .args(["-O2", "-g", "-pthread", "-o"])
        .args([&program, &fixture(&format!("programs/{source}"))])
        .stdin(Stdio::null())
        .status();
    if !built.is_ok_and(|status| status.success()) {
        return Err("there is no C compiler 'cc'".to_owned());
    }
    let output = Command::new(env!("CARGO_BIN_EXE_holdup"))
        .args(["record", "-o", &file.to_string_lossy(), "--", &program.to_string_lossy()])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    match output.status.success() && file.exists() {
        true => Ok(file),
        false => Err(format!("recording does not work here: {}", String::from_utf8_lossy(&output.stderr))),
    }
}

/// Two threads that hand one lock to each other every 100 us, `rounds` times, all names hostile; events of the last
/// round are lost, switches of the second thread are missing.
///
/// ```text
/// 500  |=== run 40 us ===|--- waits 50 us ---|r|
/// 501  |--- waits 40 us -|=== run 55 us =======|p|      "r" runnable, "p" preempted
/// ```
pub fn made_up(rounds: u64) -> Recording {
    let end_ns = BEGAN_NS + rounds * 100_000;
    let thread = |tid: u32| ThreadFacts {
        tid: Tid(tid),
        pid: Pid(500),
        name: format!("{HOSTILE}{tid}"),
        born_ns: BEGAN_NS,
        ended_ns: end_ns,
        on_cpu_ns: rounds * if tid == 500 { 40_000 } else { 55_000 },
        voluntary: rounds,
        lock_wait_ns: rounds * 40_000,
        ..ThreadFacts::default()
    };
    let waiters = vec![(Tid(500), OffTime { count: rounds, ns: rounds * 50_000 })];
    let lock = LockFacts {
        pid: Pid(500),
        name: LockName::Symbol { name: HOSTILE.to_owned(), offset: 0 },
        primitive: Primitive::Mutex,
        waits: 2 * rounds,
        waiters,
        longest: vec![(Tid(500), BEGAN_NS + 40_000, BEGAN_NS + 90_000)],
        ..LockFacts::default()
    };
    let header = Header {
        began_ns: BEGAN_NS,
        began_unix_s: 1_790_000_000,
        target: Target { command: vec!["./x".to_owned(), HOSTILE.to_owned()], pids: vec![500], attached: false },
        ..Header::default()
    };
    let process = ProcessFacts { pid: Pid(500), name: HOSTILE.to_owned(), ..ProcessFacts::default() };
    let mut facts = Facts {
        header,
        start_ns: BEGAN_NS,
        end_ns,
        processes: vec![process],
        threads: vec![thread(500), thread(501)],
        locks: vec![lock],
        ..Facts::default()
    };
    facts.totals.switches = 2 * rounds;
    facts.totals.events = 4 * rounds;
    let last_ns = end_ns - 100_000;
    let problems = vec![
        Problem::Lost { count: 5, places: 1, from_ns: last_ns + 10_000, to_ns: last_ns + 30_000 },
        Problem::SwitchesDiffer { tid: Tid(501), recorded: rounds, counted: rounds + 5 },
    ];
    let report = Report { facts, problems, timeline: Some(timeline(rounds)), ..Report::default() };
    Recording {
        path: PathBuf::from(format!("{}.holdup", HOSTILE.replace('/', "_"))),
        file_bytes: 1,
        report,
        damage: vec![],
    }
}

fn timeline(rounds: u64) -> Timeline {
    let mut threads = vec![Vec::new(), Vec::new()];
    let mut wakes = Vec::new();
    let waits = State::Off { reason: Reason::Futex(Primitive::Mutex), lock: Some(LockNumber(0)) };
    let preempted = State::Off { reason: Reason::Preempted, lock: None };
    for round in 0..rounds {
        let at = |us: u64| BEGAN_NS + round * 100_000 + us * 1_000;
        let mut put = |thread: usize, from: u64, to: u64, state| {
            threads[thread].push(Interval { from_ns: at(from), to_ns: at(to), state });
        };
        put(0, 0, 40, State::Running { cpu: 0 });
        put(0, 40, 90, waits);
        put(0, 90, 100, State::Runnable);
        put(1, 0, 40, waits);
        put(1, 40, 95, State::Running { cpu: 1 });
        put(1, 95, 100, preempted);
        wakes.push(Wake { time_ns: at(40), from: Tid(500), to: Tid(501) });
        wakes.push(Wake { time_ns: at(90), from: Tid(501), to: Tid(500) });
    }
    Timeline { wakes, ..Timeline::of(&threads) }
}

/// Writes the page of a recording that is in memory.
pub fn write(recording: &Recording, folder: &Path) -> PathBuf {
    let path = folder.join("page.html");
    page::recording(recording, &mut File::create(&path).unwrap()).unwrap();
    path
}
