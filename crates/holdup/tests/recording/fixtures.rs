//! One test per fixture program.

use std::fs;

use holdup_analyze::Kind;

use super::build::{self, Frames};
use super::expectation::Expectation;
use super::others::Others;
use super::place::{Place, text};
use super::{alone, is_root, skip};

macro_rules! fixtures {
    ($($test:ident: $file:literal,)*) => {
        /// Every fixture that has a test.
        const TESTED: &[&str] = &[$($file),*];

        $(
            #[test]
            fn $test() {
                check($file);
            }
        )*
    };
}

fixtures! {
    lock_convoy: "lock_convoy.c",
    hot_lock: "hot_lock.c",
    hot_lock_on_the_heap: "hot_lock_heap.c",
    hot_lock_of_rust: "rust_mutex.rs",
    hot_lock_of_cpp: "cpp_mutex.cc",
    sleeping_holder: "sleeping_holder.c",
    excessive_switching: "excessive_switching.c",
    ping_pong: "ping_pong.c",
    ping_pong_on_one_cpu: "ping_pong_one_cpu.c",
    thundering_herd: "thundering_herd.c",
    spin_waste: "spin_waste.c",
    spin_waste_in_libc: "spin_waste_libc.c",
    hot_atomic: "hot_atomic.c",
    hot_atomic_of_go: "go_atomic.go",
    kernel_heavy: "kernel_heavy.c",
    wasted_wakeups: "wasted_wakeups.c",
    imbalance: "imbalance.c",
    priority_inversion: "priority_inversion.c",
    healthy_cpu_bound: "healthy_cpu_bound.c",
    healthy_taking_turns: "healthy_taking_turns.c",
    healthy_worker_pool: "healthy_worker_pool.c",
    healthy_pipeline: "healthy_pipeline.c",
    io_bound: "io_bound.c",
    healthy_single_thread: "healthy_single_thread.c",
    healthy_channels_of_rust: "rust_channel.rs",
}

/// Not to be judged: what other tests use.
const HELPERS: &[&str] = &["fixture.h", "faults.c", "plugin.c"];

fn check(file: &str) {
    for frames in [Frames::Pointers, Frames::None] {
        if let Some(wrong) = verdict(&Place::new(), file, frames) {
            panic!("{wrong}");
        }
        if file.ends_with(".go") {
            break;
        }
    }
}

/// How often a program is recorded at most, and the share of the CPUs that makes strangers the ones to blame.
const TRIES: usize = 5;
const TOO_MUCH: f64 = 0.2;
/// So many wrong recordings without strangers are a fault. One alone is printed: where the scheduler puts two threads
/// on a busy virtual machine is not in the program's hands.
const WRONG: usize = 2;

/// What is wrong with the report of a fixture, if anything. A recording that is wrong while strangers used the CPUs
/// counts for nothing.
fn verdict(place: &Place, file: &str, frames: Frames) -> Option<String> {
    let expected = Expectation::of(&build::sources().join(file));
    let program = match build::program(file, frames) {
        Ok(program) => place.copy_in(&program),
        Err(why) => {
            skip(&format!("{file}: {why}"));
            return None;
        }
    };
    let _alone = alone();
    let mut complaint = String::new();
    let mut wrong_alone = 0;
    for nth in 0..TRIES {
        let recording = format!("{file}-{frames:?}-{nth}.holdup");
        let others = Others::so_far();
        let recorded = place.record(&recording, &[&program]);
        if !recorded.status.success() {
            return Some(format!("{file}: record: {}", text(&recorded)));
        }
        let strangers = others.share();
        let wrong = expected.mismatches(&place.report(&recording));
        if wrong.is_empty() {
            return None;
        }
        let screen = text(&place.holdup(&["report", &recording]).output().unwrap());
        let used = format!("others used {:.0}% of the CPUs", 100.0 * strangers);
        complaint = format!("{file}, frames: {frames:?}, {used}: {}\n{screen}", wrong.join("\n  "));
        wrong_alone += usize::from(strangers < TOO_MUCH);
        if wrong_alone == WRONG {
            break;
        }
        println!("{complaint}\nrecorded again");
    }
    Some(complaint)
}

#[test]
fn every_program_is_tested() {
    let mut files: Vec<String> = fs::read_dir(build::sources())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    files.retain(|file| !HELPERS.contains(&file.as_str()));
    files.sort();
    let mut tested = TESTED.to_vec();
    tested.sort_unstable();
    assert_eq!(files, tested);
}

/// Here, or in the labelled corpus that `cargo xtask truth` records; what hangs is in [`super::deadlock`], what is
/// stopped in [`super::limited`].
#[test]
fn every_kind_has_a_program() {
    let mut kinds: Vec<_> =
        TESTED.iter().filter_map(|file| Expectation::of(&build::sources().join(file)).kind).collect();
    for entry in fs::read_dir(build::sources().join("../truth")).unwrap() {
        let text = fs::read_to_string(entry.unwrap().path()).unwrap_or_default();
        let label = text.lines().find_map(|line| line.split_once("truth: kind="));
        let label = label.and_then(|(_, rest)| rest.split(' ').next()).unwrap_or_default();
        kinds.extend(label.split('|').map(str::to_owned));
    }
    for kind in Kind::ALL.into_iter().filter(|kind| !matches!(kind, Kind::Deadlock | Kind::CpuQuota)) {
        assert!(kinds.iter().any(|name| name == kind.name()), "no program shows {}", kind.name());
    }
}

#[test]
fn an_ordinary_user_gets_the_same_findings() {
    if !is_root() {
        return skip("only root can become an ordinary user; the other tests were run as one");
    }
    let place = Place::ordinary();
    let files = ["lock_convoy.c", "hot_lock.c", "sleeping_holder.c", "ping_pong.c", "healthy_worker_pool.c"];
    let wrong: Vec<String> = files.iter().filter_map(|file| verdict(&place, file, Frames::None)).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
