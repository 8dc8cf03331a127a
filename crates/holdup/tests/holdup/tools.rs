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
fn time_says_why_a_command_cannot_run() {
    let place = Place::new();
    place.run("time -- no-such-command").with(127).says(&["holdup: no-such-command", "no such command"]);
    std::fs::write(place.path("text"), "not a program").unwrap();
    place.run("time -- ./text").with(126).says(&["./text", "cannot be executed"]);
    place.run("time").with(2).says(&["COMMAND"]);
}
