//! The store through the program: two at once, killed ones, and files that are not ours.

use std::path::Path;

use holdup::store::{Store, VERSION};

use super::{Place, files};

/// Four cells, eight runs of a few milliseconds.
const SMALL: &str = "bench --lock pthread,std --threads 1,2 --duration 5ms --repeat 2 --no-reject";

fn every_task_once(path: &Path, run: i64) {
    let store = Store::open_existing(path).unwrap();
    let record = store.load(run).unwrap();
    assert!(record.complete);
    let mut orders: Vec<u32> = record.cells.iter().flat_map(|cell| &cell.samples).map(|sample| sample.order).collect();
    orders.sort_unstable();
    let planned = u32::try_from(store.plan(run).unwrap().tasks.len()).unwrap();
    assert_eq!(orders, (0..planned).collect::<Vec<_>>());
}

#[test]
fn two_sweeps_at_once_both_land() {
    let place = Place::new();
    let children: Vec<_> = (0..2).map(|_| place.command(SMALL).spawn().unwrap()).collect();
    for child in children {
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(0));
    }
    every_task_once(&place.store(), 1);
    every_task_once(&place.store(), 2);
    place.run("history").with(0).shows(&["complete", "8/8", "--lock pthread,std"]);
}

#[test]
fn what_is_not_a_readable_store_stays_as_it_is() {
    let place = Place::new();
    place.run(SMALL).with(0);
    let whole = std::fs::read(place.store()).unwrap();
    let changed = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = whole.clone();
        change(&mut bytes);
        bytes
    };
    let cases: [(&str, Vec<u8>, &str); 5] = [
        ("notes.txt", b"buy milk".to_vec(), "not a holdup store"),
        ("foreign.db", changed(&|b| b[68..72].fill(0)), "another program's database"),
        ("newer.db", changed(&|b| b[60..64].copy_from_slice(&(VERSION + 1).to_be_bytes())), "newer holdup"),
        ("cut.db", changed(&|b| b.truncate(b.len() - 4096)), "damaged"),
        ("scratched.db", changed(&|b| b[4096..].fill(0xa5)), "damaged"),
    ];
    for (name, bytes, says) in cases {
        let folder = place.path("case");
        std::fs::create_dir(&folder).unwrap();
        let file = folder.join(name);
        std::fs::write(&file, &bytes).unwrap();
        for command in [SMALL, "history", "compare 1 last", "export last --csv", "bench --resume"] {
            let words = format!("{command} --store case/{name}");
            place.run(&words).with(2).says(&["holdup: ", name, says]);
            assert_eq!(std::fs::read(&file).unwrap(), bytes, "{words} changed the file");
            assert_eq!(files(&folder), [name], "{words} left something behind");
        }
        std::fs::remove_dir_all(folder).unwrap();
    }
}

#[test]
fn a_store_that_cannot_be_made_is_explained() {
    let place = Place::new();
    std::fs::write(place.path("file"), "").unwrap();
    place.run(&format!("{SMALL} --store file/a.db")).with(2).says(&["cannot use the store", "--store FILE"]);
    place.run("history").with(2).says(&["there is no store", "holdup bench"]);
    place.run("history --store .").with(2).says(&["is no file"]);
    let mut homeless = place.command(SMALL);
    homeless.env_remove("XDG_DATA_HOME").env_remove("HOME");
    super::Ended::of(homeless.output().unwrap()).with(2).says(&["HOME", "--store FILE"]);
    place.run(&format!("{SMALL} --no-store")).with(0);
    assert!(!place.store().exists());
}

#[test]
fn runs_are_compared_and_exported() {
    let place = Place::new();
    place.run(SMALL).with(0);
    place.run(SMALL).with(0);
    place.run("compare 1 last").with(0).shows(&["run 1", "run 2", "pthread, 1 thread"]);
    place.run("compare 1 9").with(2).says(&["no run '9'", "holdup history"]);
    place.run("export first --csv").with(2).says(&["no run 'first'"]);

    let csv = place.run("export 1 --csv").with(0).out;
    let rows: Vec<Vec<&str>> = csv.lines().map(|line| line.split(',').collect()).collect();
    assert_eq!(rows.len(), 1 + 8, "a header and one row per run");
    for (name, value) in [("lock", "pthread"), ("threads", "2"), ("duration", "5ms")] {
        let column = rows[0].iter().position(|column| *column == name).unwrap();
        assert!(rows[1..].iter().any(|row| row[column] == value), "no {name} {value}");
    }
    let elapsed = rows[0].iter().position(|column| *column == "elapsed_ns").unwrap();
    assert!(rows[1..].iter().all(|row| row[elapsed].parse::<u64>().is_ok_and(|ns| ns > 0)));

    let json = place.run("export 1 --json").with(0).out;
    let value: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(value["cells"].as_array().unwrap().len(), 4);
    assert!(value["cells"].as_array().unwrap().iter().all(|cell| cell["samples"].as_array().unwrap().len() == 2));
}

#[test]
fn a_sweep_can_be_shown_as_json_and_as_a_page() {
    let place = Place::new();
    let ended = place.run(&format!("{SMALL} --json --html page.html")).with(0).says(&["page.html"]);
    let value: serde_json::Value = serde_json::from_str(&ended.out).unwrap();
    assert_eq!(value["cells"].as_array().unwrap().len(), 4);
    let page = std::fs::read_to_string(place.path("page.html")).unwrap();
    assert!(page.starts_with("<!doctype html>") || page.starts_with("<!DOCTYPE html>"), "{}", &page[..40]);
    assert!(page.contains("pthread"));
}

#[test]
fn a_file_is_never_overwritten_unasked() {
    let place = Place::new();
    place.run(SMALL).with(0);
    std::fs::write(place.path("mine.csv"), "precious").unwrap();
    place.run("export last --csv -o mine.csv").with(2).says(&["mine.csv exists", "--force"]);
    place.run(&format!("{SMALL} --html mine.csv")).with(2).says(&["mine.csv exists", "--force"]);
    assert_eq!(std::fs::read_to_string(place.path("mine.csv")).unwrap(), "precious");
    place.run("export last --csv -o mine.csv --force").with(0);
    assert!(std::fs::read_to_string(place.path("mine.csv")).unwrap().contains("elapsed_ns"));
}

#[test]
fn the_printed_command_repeats_the_run_in_the_same_order() {
    let place = Place::new();
    let first = place.run(&format!("{SMALL} --spin default,7 --seed 5")).with(0);
    let command = first.out.lines().rev().find_map(|line| line.trim().strip_prefix("holdup ")).unwrap().to_owned();
    assert!(command.contains("--seed 5"), "{command}");
    place.run(&command).with(0);
    let store = Store::open_existing(&place.store()).unwrap();
    assert_eq!(store.plan(1).unwrap(), store.plan(2).unwrap());
    assert_eq!(store.options(1).unwrap(), store.options(2).unwrap());
}

#[test]
fn a_stored_run_is_shown_again_as_it_was() {
    let place = Place::new();
    let measured = place.run(SMALL).with(0).out;
    let table = measured.split("\nWhat to try next").next().unwrap().split("\nKept as run").next().unwrap();
    let again = place.run("history last --html again.html").with(0).out;
    assert!(again.starts_with(table), "measured:\n{measured}\nagain:\n{again}");
    assert!(again.contains("Measured on "), "no figure without its environment:\n{again}");
    assert!(place.path("again.html").exists());
    place.run("history last --html again.html").with(2).says(&["again.html", "--force"]);
    place.run("history 99").with(2).says(&["99"]);
}

#[test]
fn a_stored_experiment_is_shown_again_with_its_claims() {
    let place = Place::new();
    let file = "[experiment]\nname = \"tiny\"\ntitle = \"tiny\"\n\n[[sweep]]\nname = \"one\"\nlock = \"pthread\"\nthreads = [1, 2]\n\
                duration = \"5ms\"\nrepeats = 3\n\n[[claim]]\nid = \"T1\"\nclaim = \"It takes time.\"\n\
                check = \"time_per_op_ns(pthread @ threads=1) > 0\"\nshow = \"some\"\nwhy_holds = \"It does.\"\n\
                why_differs = \"It does not.\"\n";
    std::fs::write(place.path("tiny.toml"), file).unwrap();
    place.run("run tiny.toml --no-reject").with(0);
    place.run("history last").with(0).shows(&["3 runs of 5ms", "T1", "holds", "It does."]);
}
