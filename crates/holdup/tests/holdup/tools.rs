//! `holdup timemutex` and `holdup time`.

use super::Place;

#[test]
fn timemutex_refuses_what_the_program_of_1998_refused() {
    let place = Place::new();
    for which in ["0", "6", "-1"] {
        place.run(&format!("timemutex {which}")).with(2).says(&["WHICH", which, "critical section", "semaphore"]);
    }
    for threads in ["0", "65", "-3"] {
        place.run(&format!("timemutex 1 1 0 {threads}")).with(2).says(&["NUMTHREADS", threads, "1 to 64"]);
    }
    place.run("timemutex one").with(2).says(&["one"]);
}

#[test]
fn timemutex_clamps_what_the_program_of_1998_clamped_and_reports_its_times() {
    let place = Place::new();
    let ended = place.run("timemutex 1 2 1 3 7 99 --iterations 200").with(0);
    let ended = ended.shows(&["SLEEPPOINTS 7", "taken as 0", "NUMTHACTIVE 99", "taken as 3"]);
    let line = |name: &str| ended.out.lines().find(|line| line.starts_with(name)).unwrap_or_default().to_owned();
    for name in ["real", "user", "kernel"] {
        let seconds = line(name).split_whitespace().nth(1).and_then(|word| word.parse::<f64>().ok());
        assert!(seconds.is_some_and(|seconds| seconds >= 0.0), "{}", ended.out);
    }
    assert!(line("switches").contains("involuntary"));
}

#[test]
fn every_way_of_timemutex_runs() {
    let place = Place::new();
    // No arguments at all were the defaults in 1998, and are.
    let defaults =
        ["Which        1  critical section", "Depth        1", "Delay        0", "NumThreads   4", "NumThActive  4"];
    place.run("timemutex --iterations 50").with(0).shows(&defaults);
    for which in 1..=5 {
        for depth in [0, 2] {
            place.run(&format!("timemutex {which} {depth} 0 2 --iterations 50")).with(0).shows(&["real"]);
        }
    }
}

#[test]
fn time_passes_the_exit_status_through() {
    let place = Place::new();
    let shell = |script: &str| {
        let mut command = place.command("time -- sh -c");
        super::Ended::of(command.arg(script).output().unwrap())
    };
    let ended = shell("echo result; exit 7").with(7).says(&["real", "user", "kernel", "switches", "faults", "memory"]);
    assert_eq!(ended.out, "result\n");
    shell("exit 0").with(0);
    shell("kill -TERM $$").with(128 + 15).says(&["real"]);
}

#[test]
fn time_tells_how_much_runs_differ() {
    let place = Place::new();
    place.run("time --repeat 3 -- true").with(0).says(&["3 runs, the median one", "fastest", "slowest"]);
    place.run("time --repeat 3 -- false").with(1).says(&["real"]);
    place.run("time --keep-slow 0.5x -- true").with(2).says(&["2x"]);
}

#[cfg(target_os = "linux")]
#[test]
fn time_keeps_the_recording_of_a_slow_run_and_says_what_differed() {
    // The fourth run sleeps.
    const SCRIPT: &str = "n=$(cat n 2>/dev/null); echo $((n+1)) >n; [ $((n%5)) = 3 ] && sleep 0.5; true";
    let place = Place::new();
    let mut command = place.command("time --repeat 5 --keep-slow 2x -- sh -c");
    let ended = super::Ended::of(command.arg(SCRIPT).output().unwrap());
    if ended.err.contains("holdup doctor") {
        eprintln!("skipped: nothing can be recorded here");
        return;
    }
    let ended = ended.with(0).says(&["5 runs", "Run 4 took", "What differed", "holdup diff"]);
    let files = std::fs::read_dir(place.path("")).unwrap();
    let files: Vec<String> = files.map(|file| file.unwrap().file_name().to_string_lossy().into_owned()).collect();
    for kind in ["slow-run-4.holdup", "median.holdup"] {
        assert!(files.iter().any(|name| name.ends_with(kind)), "{files:?}: {}", ended.err);
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_sweep_records_its_runs_to_keep_the_slow_ones() {
    let place = Place::new();
    let words = "bench --lock fair --threads 2 --duration 10ms --repeat 3 --no-reject --baseline off --keep-slow 1000x";
    let ended = place.run(words);
    if ended.err.contains("holdup doctor") {
        eprintln!("skipped: nothing can be recorded here");
        return;
    }
    ended.with(0).shows(&["3 runs of 10ms"]).says(&["No run took more than 1000 times the median", "was recorded"]);
    place.run("bench --keep-slow 1x").with(2).says(&["--keep-slow", "2x"]);
}

#[cfg(target_os = "linux")]
#[test]
fn a_profile_tells_where_the_cpu_time_of_a_lock_goes() {
    let place = Place::new();
    let ended =
        place.run("bench --lock eventfd --threads 1 --duration 200ms --repeat 2 --no-reject --baseline off --profile");
    if ended.out.contains("no profile here") {
        eprintln!("skipped: the kernel cannot be sampled here");
        return;
    }
    ended.with(0).shows(&["Where the CPU time goes", "the kernel", "recording costs time"]);
    let csv = place.run("export last --csv").with(0).out;
    let mut lines = csv.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let header = lines.next().unwrap();
    let column = |name: &str| header.iter().position(|column| *column == name).unwrap();
    let [lock, kernel] = ["profile_lock_share", "profile_kernel_share"].map(column);
    for row in lines {
        let [lock, kernel] = [lock, kernel].map(|at| row[at].parse::<f64>().unwrap());
        assert!(
            kernel > 0.1 && lock + kernel > 0.3 && lock + kernel <= 1.0,
            "two calls for each turn: {lock} {kernel}"
        );
    }
}

#[test]
fn time_says_why_a_command_cannot_run() {
    let place = Place::new();
    place.run("time -- no-such-command").with(127).says(&["holdup: no-such-command", "no such command"]);
    std::fs::write(place.path("text"), "not a program").unwrap();
    place.run("time -- ./text").with(126).says(&["./text", "cannot be executed"]);
    place.run("time").with(2).says(&["COMMAND"]);
}
