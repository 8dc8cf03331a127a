//! The profile: exact counts, names, times of the right size.

use serde_json::Value;

use super::{With, build, lock, locks, text};

const THREADS: u64 = 4;
const TIMES: u64 = 3000;
const ALL: u64 = THREADS * TIMES;

fn profiled(how: &str) -> Option<(super::Ended, Value)> {
    let program = build::program("three_locks.c", &[])?;
    let words = [text(&program), &THREADS.to_string(), &TIMES.to_string()].map(str::to_owned);
    Some(With::new().json(&[how], &words))
}

fn count(value: &Value, key: &str) -> u64 {
    value[key].as_u64().unwrap_or_else(|| panic!("{key} of {value}"))
}

/// The four locks of the fixture.
const NAMES: [&str; 4] = ["g_cache_lock", "g_log_lock", "s_pools[1].lock", "lock made in make_heap_lock"];

#[test]
fn every_acquisition_of_every_lock_is_counted_and_named() {
    for how in ["--profile=count", "--profile=sampled", "--profile=full"] {
        let Some((ended, json)) = profiled(how) else { return };
        assert_eq!(ended.out, format!("{ALL} {ALL} {ALL} {ALL}\n"));
        for name in NAMES {
            let lock = lock(&json, name);
            assert_eq!(count(lock, "acquisitions"), ALL, "{how}: {lock}");
            assert!(count(lock, "contended") <= ALL && count(lock, "slept") <= count(lock, "contended"), "{lock}");
            assert!((1..=THREADS).contains(&count(lock, "threads")), "{lock}");
        }
        assert_eq!(locks(&json).len(), NAMES.len(), "{how}");
        let process = &json["processes"][0];
        assert_eq!(count(process, "acquisitions"), 4 * ALL, "{how}");
        let contended: u64 = locks(&json).iter().map(|lock| count(lock, "contended")).sum();
        assert_eq!(count(process, "contended"), contended, "{how}");
    }
}

#[test]
fn everything_is_timed_when_everything_is_to_be_timed() {
    let Some((_, json)) = profiled("--profile=full") else { return };
    for name in NAMES {
        let lock = lock(&json, name);
        let (wait, hold) = (&lock["wait"], &lock["hold"]);
        assert_eq!(count(hold, "measured"), ALL, "{lock}");
        assert_eq!(count(wait, "measured"), count(lock, "contended"), "{lock}");
        assert_eq!((&wait["estimated"], &hold["estimated"]), (&Value::Bool(false), &Value::Bool(false)));
        for times in [wait, hold] {
            let [p50, p99, max] = ["p50_ns", "p99_ns", "max_ns"].map(|key| count(times, key));
            assert!(p50 <= p99 && p99 <= max && max <= count(times, "total_ns").max(max), "{times}");
        }
        let elapsed_ns = count(&json, "elapsed_ns");
        assert!(count(hold, "total_ns") <= elapsed_ns, "one at a time holds it: {lock}");
        assert!(count(wait, "total_ns") <= elapsed_ns * THREADS, "{lock}");
    }
    // The section of one is some hundred times as long as that of the other.
    let hold = |name: &str| count(&lock(&json, name)["hold"], "p50_ns");
    assert!(hold("g_cache_lock") > 2 * hold("g_log_lock"), "{json}");
}

#[test]
fn sampled_holds_are_estimates_of_all() {
    let Some((ended, json)) = profiled("--profile") else { return };
    ended.says(&["times are estimates", "one acquisition in 16"]);
    let hold = &lock(&json, "g_cache_lock")["hold"];
    assert_eq!(hold["estimated"], true, "{hold}");
    let measured = count(hold, "measured");
    assert_eq!(count(hold, "of"), ALL);
    assert!((ALL / 32..=ALL / 8).contains(&measured), "{measured} of {ALL}: {hold}");
}

#[test]
fn more_locks_than_records_are_still_all_counted() {
    let Some(program) = build::program("many_locks.c", &[]) else { return };
    let (ended, json) = With::new().json(&["--profile"], &[text(&program), "4", "10000"]);
    assert_eq!(ended.out, "40000\n");
    let process = &json["processes"][0];
    assert_eq!(count(process, "acquisitions"), 40_000);
    let sum: u64 = locks(&json).iter().map(|lock| count(lock, "acquisitions")).sum();
    assert_eq!(sum, 40_000);
    let beyond = count(process, "locks_beyond");
    assert_eq!(locks(&json).len() as u64 + beyond, 10_001, "one stands for those without a record");
    ended.says(&["all further locks", "lock made in main"]);
}

#[test]
fn waits_are_where_the_program_called() {
    let Some((_, json)) = profiled("--profile=full") else { return };
    let lock = lock(&json, "g_cache_lock");
    for site in lock["sites"].as_array().unwrap() {
        assert_eq!(site["place"]["function"], "cache_update", "{site}");
        assert!(site["place"]["file"].as_str().unwrap().ends_with("three_locks.c"), "{site}");
    }
    assert_eq!(lock["first_taken_in"]["function"], "cache_update");
    let waits: u64 = lock["sites"].as_array().unwrap().iter().map(|site| count(site, "wait_ns")).sum();
    assert_eq!(waits, count(&lock["wait"], "total_ns"), "{lock}");
}

#[test]
fn the_table_fits_a_terminal() {
    let Some((ended, _)) = profiled("--profile=full") else { return };
    let (table, _) = ended.err.split_once("holdup: ").unwrap();
    assert!(table.contains("g_cache_lock") && table.contains("waited"), "{table}");
    assert!(table.lines().all(|line| line.chars().count() <= 80), "{table}");
}
