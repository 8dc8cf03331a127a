//! Numbers: the page writes them as the terminal does, and shows those of `--json`.

use holdup::report::number;
use holdup::text;
use serde_json::{Value, json};

use super::drive::{browser, no_complaints, opened};
use super::{browser::Browser, pages, skip};

/// Values where rounding, units and signs change, and many in between.
fn values() -> Vec<f64> {
    let mut values = vec![
        0.0,
        0.001,
        0.004_9,
        0.005,
        0.009_9,
        0.01,
        0.125,
        0.375,
        0.5,
        0.625,
        0.814,
        0.995,
        0.999,
        1.0,
        1.005,
        1.115,
        1.5,
        2.5,
        9.994,
        9.995,
        9.996,
        12.5,
        99.95,
        412.4,
        412.5,
        999.0,
        999.4,
        999.5,
        999.9,
        1_000.0,
        1_005.0,
        12_345.0,
        999_499.0,
        999_500.0,
        41_250_000.0,
        1e9,
        9.995e11,
        1e12,
        1e15,
        3.2e16,
        1e-6,
        9.9e-7,
        1.234e-9,
    ];
    values.extend(values.clone().iter().filter(|value| **value != 0.0).map(|value| -value));
    // From a millionth to 10^16, evenly by magnitude; whole numbers and others.
    let mut state = 1u64;
    for _ in 0..4_000 {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let value = 10f64.powf((state >> 11) as f64 / (1u64 << 53) as f64 * 22.0 - 6.0);
        values.extend([value, value.round()]);
    }
    values
}

/// How the terminal writes a number.
type Writer = fn(f64) -> String;

/// What the page makes of arguments, one by one.
fn written(browser: &mut Browser, function: &str, arguments: &[Value]) -> Vec<String> {
    let all = browser.eval(&format!("{}.map((value) => holdup.format.{function}(value))", json!(arguments))).unwrap();
    all.as_array().unwrap().iter().map(|text| text.as_str().unwrap().to_owned()).collect()
}

#[test]
fn the_page_writes_numbers_and_names_as_the_terminal_does() {
    let Some(mut browser) = browser("format") else { return };
    let folder = pages::folder("format");
    let page = pages::write(&pages::made_up(3), &folder);
    opened(&mut browser, &page);
    let values = values();
    let arguments: Vec<Value> = values.iter().map(|value| json!(value)).collect();
    let functions: [(&str, Writer); 4] =
        [("plain", number::plain), ("count", number::count), ("time", number::time_ns), ("percent", number::percent)];
    for (name, wanted) in functions {
        let shown = written(&mut browser, name, &arguments);
        for (value, shown) in values.iter().zip(shown) {
            // No share is that large: beyond what a double holds exactly the last digits are a matter of taste.
            if name == "percent" && value.abs() >= 1e9 {
                continue;
            }
            // Nothing is negative but what is made up here, and what is nothing has no sign.
            let wanted = wanted(*value);
            let wanted = wanted.strip_prefix("-0%").map_or(wanted.as_str(), |_| "0%");
            assert_eq!(shown.replace("-0%", "0%"), wanted, "{name}({value:e})");
        }
        assert_eq!(browser.eval(&format!("holdup.format.{name}(NaN)")).unwrap(), json!(wanted(f64::NAN)), "{name}");
    }
    let names =
        [pages::HOSTILE, "a\nb\tc\r\u{7f}\u{9b}", "\u{61c}\u{200b}x\u{2060}\u{feff}\u{2029}", "plain \u{fc}\u{1f600}"];
    let arguments: Vec<Value> = names.iter().map(|name| json!(name)).collect();
    for (name, shown) in names.iter().zip(written(&mut browser, "clean", &arguments)) {
        assert_eq!(shown, text::clean(name));
    }
    no_complaints(&mut browser);
}

/// How a column writes a number of the report.
#[derive(Clone, Copy)]
enum Kind {
    Time,
    Count,
}

/// A table: its name, the list of the report, the figure that it is sorted by, and its columns that are figures of the
/// report.
struct Shown {
    table: &'static str,
    list: &'static str,
    sorted_by: &'static str,
    columns: &'static [(usize, Kind, &'static str)],
}

const TABLES: &[Shown] = &[
    Shown {
        table: "Locks",
        list: "locks",
        sorted_by: "/wait_ns/sum_ns",
        columns: &[
            (2, Kind::Count, "/waits"),
            (4, Kind::Time, "/wait_ns/sum_ns"),
            (5, Kind::Time, "/wait_ns/median_ns"),
            (6, Kind::Time, "/wait_ns/p99_ns"),
            (7, Kind::Time, "/wait_ns/max_ns"),
            (8, Kind::Count, "/max_waiters"),
            (9, Kind::Count, "/wasted_wakes"),
        ],
    },
    Shown {
        table: "Threads",
        list: "threads",
        sorted_by: "/on_cpu_ns",
        columns: &[
            (2, Kind::Time, "/on_cpu_ns"),
            (4, Kind::Time, "/lock_wait_ns"),
            (7, Kind::Count, "/involuntary"),
            (8, Kind::Time, "/run_ns/median_ns"),
            (9, Kind::Time, "/run_delay_ns/p99_ns"),
            (10, Kind::Count, "/wakes"),
            (11, Kind::Count, "/migrations"),
        ],
    },
    Shown {
        table: "Pairs",
        list: "pairs",
        sorted_by: "/round_trips",
        columns: &[
            (2, Kind::Count, "/round_trips"),
            (4, Kind::Count, "/a_wakes_b"),
            (5, Kind::Count, "/b_wakes_a"),
            (6, Kind::Time, "/run_ns/median_ns"),
        ],
    },
    Shown {
        table: "Symbols",
        list: "symbols",
        sorted_by: "/hits",
        columns: &[(1, Kind::Count, "/hits"), (3, Kind::Count, "/inclusive")],
    },
    Shown {
        table: "Modules",
        list: "modules",
        sorted_by: "/hits",
        columns: &[(1, Kind::Count, "/hits"), (3, Kind::Count, "/inclusive")],
    },
];

/// Compares all tables of an open page with the report; gives back how many figures these were.
fn compare(browser: &mut Browser, report: &Value) -> usize {
    let mut compared = 0;
    for shown in TABLES {
        let mut rows: Vec<&Value> = report[shown.list].as_array().unwrap().iter().collect();
        let figure = |row: &Value, at: &str| row.pointer(at).and_then(Value::as_f64).unwrap_or_else(|| panic!("{at}"));
        // As the page sorts them at first: the largest first, equals in the report's order, a hundred.
        rows.sort_by(|a, b| figure(b, shown.sorted_by).total_cmp(&figure(a, shown.sorted_by)));
        rows.truncate(100);
        let cells = browser
            .eval(&format!(
                "[...document.querySelectorAll('table[aria-label={}] tbody tr')].map((row) => \
                 [...row.cells].map((cell) => [cell.textContent, cell.title]))",
                shown.table
            ))
            .unwrap();
        assert_eq!(cells.as_array().unwrap().len(), rows.len(), "{}", shown.table);
        for (row, cells) in rows.iter().zip(cells.as_array().unwrap()) {
            for (column, kind, at) in shown.columns {
                let value = figure(row, at);
                let (text, exact) = match kind {
                    Kind::Time => (number::time_ns(value), format!("{value} ns")),
                    Kind::Count => (number::count(value), value.to_string()),
                };
                assert_eq!(cells[column], json!([text, exact]), "{}, {at}", shown.table);
                compared += 1;
            }
        }
    }
    compared
}

#[test]
fn tables_show_the_figures_of_the_json_report() {
    let Some(mut browser) = browser("figures") else { return };
    let folder = pages::folder("figures");
    let imported = folder.join("perf.holdup");
    let perf = pages::fixture("recordings/ping-pong.perf.data");
    pages::holdup(&["import", &perf.to_string_lossy(), "-o", &imported.to_string_lossy()], &folder);
    let mut recordings = vec![pages::fixture("recordings/format-1.holdup"), imported];
    // A recording made now has waits, pairs and samples; where none can be made the fixtures must do.
    match pages::recorded("hot_lock.c", &folder) {
        Ok(recording) => recordings.push(recording),
        Err(why) => skip(&why),
    }
    let mut compared = 0;
    for recording in &recordings {
        let page = pages::page_of(recording, &folder);
        let report = pages::holdup(&["report", &recording.to_string_lossy(), "--json"], &folder);
        opened(&mut browser, &page);
        compared += compare(&mut browser, &serde_json::from_str(&report).unwrap());
        no_complaints(&mut browser);
    }
    assert!(compared >= 20, "only {compared} figures were compared");
}
