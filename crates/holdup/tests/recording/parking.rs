//! A lock of parking_lot: its futexes are words of the waiting threads, so it is known by where it is taken. This test
//! program is the program that is recorded, as it has parking_lot in it.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::alone;
use super::place::{Place, text};

const ASKED: &str = "HOLDUP_TEST_CONTENDS";
const THREADS: u64 = 4;

static ORDERS: Mutex<u64> = Mutex::new(0);

#[inline(never)]
fn orders_update(by: u64) {
    let mut orders = ORDERS.lock(); // HERE
    let end = Instant::now() + Duration::from_micros(300);
    while Instant::now() < end {
        *orders = std::hint::black_box(orders.wrapping_mul(by | 1) + 1);
    }
}

/// Contends, if it was asked to.
#[test]
fn the_program_that_contends() {
    if std::env::var_os(ASKED).is_none() {
        return;
    }
    let end = Instant::now() + Duration::from_millis(600);
    std::thread::scope(|scope| {
        for by in 0..THREADS {
            scope.spawn(move || {
                while Instant::now() < end {
                    orders_update(by);
                }
            });
        }
    });
}

#[test]
fn a_lock_of_parking_lot_is_known_by_where_it_is_taken() {
    let place = Place::new();
    let _alone = alone();
    let program = std::env::current_exe().unwrap();
    let words =
        ["env", &format!("{ASKED}=1"), program.to_str().unwrap(), "--exact", "parking::the_program_that_contends"];
    // In a debug build the frames of parking_lot alone are larger than what is looked at by default.
    let mut recorder = place.recorder(&["--no-report", "--stack-bytes", "2048", "-o", "p.holdup", "--"]);
    let recorded = recorder.args(words).output().unwrap();
    assert!(recorded.status.success(), "{}", text(&recorded));
    let report = place.report("p.holdup");
    let first = &report["findings"][0];
    let screen = || text(&place.holdup(&["report", "p.holdup"]).output().unwrap());
    assert!(first["kind"] == "lock-convoy" || first["kind"] == "hot-lock", "{}", screen());
    let call_path = first["place"]["trail"].as_array().unwrap();
    let caller = call_path.iter().find(|frame| frame["role"] == "program").unwrap();
    assert!(caller["function"].as_str().unwrap().ends_with("orders_update"), "{caller}\n{}", screen());
    let here = include_str!("parking.rs").lines().position(|line| line.ends_with("// HERE")).unwrap() + 1;
    assert_eq!(caller["line"], here, "{caller}");
    let name = first["subjects"][0]["name"].as_str().unwrap();
    assert!(name.contains("orders_update"), "{name}");
}
