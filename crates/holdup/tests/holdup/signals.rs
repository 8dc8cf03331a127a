//! Ctrl-C, SIGTERM and SIGHUP at every stage: the exit status tells which, what was started is gone, and so are
//! temporary files. The program that is tried sends the signal itself, so that nothing depends on time.

use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use super::{Ended, Place};

/// Counts its runs. In the one whose number is given it sends holdup a signal, and then goes on until it is ended.
const RUN: &str = "n=$(cat runs 2>/dev/null); n=$((n + 1)); echo $n > runs\n\
                   [ $n = $1 ] || exit 0\n\
                   echo $$ > last; kill -s $2 $PPID; exec sleep 600\n";

fn place() -> Place {
    let place = Place::new();
    std::fs::create_dir(place.path("tmp")).unwrap();
    std::fs::write(place.path("run.sh"), RUN).unwrap();
    place
}

/// `holdup WORDS`, where words are parted by two spaces.
fn stopped(place: &Place, words: &str, code: i32) -> Ended {
    let mut command = place.command("");
    command.args(words.split("  ")).env("TMPDIR", place.path("tmp"));
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let pid = child.id();
    let ended = Ended::of(child.wait_with_output().unwrap()).with(code);
    for started in ["last", "server"].map(|name| place.path(name)).iter().filter(|path| path.exists()) {
        let pid = std::fs::read_to_string(started).unwrap();
        assert!(!Path::new("/proc").join(pid.trim()).exists(), "{words}: {} still runs", started.display());
    }
    let left = litter(place, pid);
    assert!(left.is_empty(), "{words}: {left:?}");
    ended
}

/// Folders of this process among the temporary files.
fn litter(place: &Place, pid: u32) -> Vec<PathBuf> {
    let inside = |folder: &Path| {
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).collect::<Vec<_>>()
    };
    let is_of = |path: &PathBuf| {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        name.starts_with(&format!("run-{pid}-")) || name.starts_with("holdup-try-") || name.starts_with("holdup-demo-")
    };
    let roots = inside(Path::new("/dev/shm")).into_iter().chain(inside(&place.path("tmp")));
    roots.flat_map(|path| inside(&path).into_iter().chain([path])).filter(is_of).collect()
}

#[test]
fn a_trial_ends_at_a_signal_in_any_run() {
    // The first run, one with other locks, one that tells whether the time is fixed, and one that is compared.
    for (run, signal, code) in [(1, "TERM", 143), (2, "HUP", 129), (3, "TERM", 143), (4, "INT", 130), (9, "TERM", 143)]
    {
        let words = format!("try  --locks  ttas  --cpus  1  --budget  60s  --  sh  run.sh  {run}  {signal}");
        let ended = stopped(&place(), &words, code);
        match run {
            1 => ended.says(&["stopped before the first run had ended"]),
            _ => ended.shows(&["Stopped before it was decided"]),
        };
    }
}

#[test]
fn a_server_goes_with_its_trial() {
    for (run, signal, code) in [(1, "TERM", 143), (7, "HUP", 129)] {
        let place = place();
        let server = "--server  sh -c 'echo $$ | tee -a starts > server; echo ready; exec sleep 600'";
        let words =
            format!("try  --cpus  1  --budget  60s  {server}  --ready  output:ready  --  sh  run.sh  {run}  {signal}");
        stopped(&place, &words, code);
        let starts = std::fs::read_to_string(place.path("starts")).unwrap().lines().count();
        assert_eq!(starts, run, "no server is started after the signal");
    }
}

#[test]
fn a_gate_ends_at_a_signal() {
    for (run, signal, code) in [(1, "TERM", 143), (6, "INT", 130)] {
        let both = format!("sh run.sh {run} {signal}");
        stopped(&place(), &format!("gate  --budget  60s  --old  {both}  --new  {both}"), code);
    }
}

#[test]
fn the_command_of_time_gets_the_signal_and_is_told_of() {
    let script = "trap 'exit 3' TERM; kill -s TERM $PPID; while :; do sleep 0.01; done";
    stopped(&Place::new(), &format!("time  --  sh  -c  {script}"), 3).says(&["real", "voluntary"]);
    stopped(&Place::new(), "time  --  sh  -c  kill -s HUP $PPID; exec sleep 600", 129).says(&["real"]);
}

#[test]
fn a_sweep_and_a_demo_end_at_a_signal() {
    let place = place();
    let sweep = "bench --lock pthread --threads 1 --duration 50ms --repeat 1000 --no-reject";
    for (words, code, signal) in [(sweep, 143, "TERM"), ("demo", 129, "HUP")] {
        let mut command = place.command(words);
        command.env("TMPDIR", place.path("tmp")).stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = command.spawn().unwrap();
        wait_for_children(&child);
        let sent = format!("kill -s {signal} {}", child.id());
        assert!(std::process::Command::new("sh").args(["-c", &sent]).status().unwrap().success());
        let pid = child.id();
        Ended::of(child.wait_with_output().unwrap()).with(code);
        let left = litter(&place, pid);
        assert!(left.is_empty(), "{words}: {left:?}");
    }
}

/// Until it has started something, which it does once it listens for signals.
fn wait_for_children(child: &Child) {
    let children = format!("/proc/{0}/task/{0}/children", child.id());
    let deadline = Instant::now() + Duration::from_secs(60);
    while std::fs::read_to_string(&children).is_ok_and(|pids| pids.trim().is_empty()) && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A terminal that goes away without a signal, as that of a session that others started: `top` ends by itself.
#[test]
fn top_ends_when_its_terminal_is_gone() {
    use rustix::fs::{Mode, OFlags};
    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

    let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
    grantpt(&terminal).unwrap();
    unlockpt(&terminal).unwrap();
    let name = ptsname(&terminal, Vec::new()).unwrap();
    let open = || rustix::fs::open(&*name, OFlags::RDWR | OFlags::NOCTTY, Mode::empty()).unwrap();
    let place = place();
    let mut command = place.command("");
    command.args(["top", "-p", &std::process::id().to_string()]).env("TERM", "xterm");
    let mut child = command.stdin(open()).stdout(open()).stderr(open()).spawn().unwrap();
    drop(command);
    // What it draws shows that it waits for keys.
    let mut drawn = [0; 1 << 12];
    assert!(rustix::io::read(&terminal, &mut drawn).unwrap() > 0);
    std::thread::sleep(Duration::from_millis(300));
    drop(terminal);
    let deadline = Instant::now() + Duration::from_secs(60);
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if Instant::now() > deadline {
            child.kill().unwrap();
            panic!("it still runs");
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    assert!(status.code().is_some(), "{status}");
}
