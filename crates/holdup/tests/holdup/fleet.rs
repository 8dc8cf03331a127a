//! `holdup export --parquet`: recordings become files of a folder, each whole and once, whatever happens; and the
//! exports of stacks.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use super::Place;
use super::docs::read;
use super::recording::{recording, recording_named};

/// Every file of the tables with its bytes, by its path in the folder.
fn files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut all = BTreeMap::new();
    let mut left = vec![folder.join("v1")];
    while let Some(folder) = left.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => left.push(path),
                false => drop(all.insert(path.clone(), fs::read(&path).unwrap())),
            }
        }
    }
    all
}

const TABLES: usize = 9;

#[test]
fn a_recording_is_exported_once_wherever_its_file_is() {
    let place = Place::new();
    fs::write(place.path("a.holdup"), recording(true)).unwrap();
    fs::write(place.path("b.holdup"), recording(true)).unwrap();
    place.run("export --parquet fleet a.holdup --host web-1").with(0).shows(&["1 recording added to fleet"]);
    let first = files(&place.path("fleet"));
    assert_eq!(first.len(), TABLES, "{:#?}", first.keys());
    for path in first.keys() {
        let path = path.to_string_lossy();
        assert!(path.contains("/day=2026-01-01/service=server/host=web-1/holdup-"), "{path}");
    }
    let again = place.run("export --parquet fleet a.holdup b.holdup --service other --host web-2").with(0);
    again.shows(&["0 recordings added to fleet", "2 that were there already"]);
    assert_eq!(files(&place.path("fleet")), first);
    place.run("export --parquet fleet --check").with(0).shows(&["1 recording in fleet", "account"]);
}

#[test]
fn a_folder_of_recordings_is_exported_and_what_cannot_be_read_is_told_once() {
    let place = Place::new();
    fs::create_dir(place.path("in")).unwrap();
    for number in 0..3 {
        fs::write(place.path(&format!("in/{number}.holdup")), recording_named(&format!("worker{number}"))).unwrap();
    }
    fs::write(place.path("in/cut.holdup"), recording(false)).unwrap();
    fs::write(place.path("in/empty.holdup"), "").unwrap();
    fs::write(place.path("in/foreign.holdup"), "PAR1 and more").unwrap();
    let ended = place.run("export --parquet fleet in missing.holdup").with(2);
    let ended = ended.shows(&["4 recordings added to fleet"]).says(&["3 of 7 recordings could not be exported"]);
    for name in ["in/empty.holdup", "in/foreign.holdup", "missing.holdup", "in/cut.holdup"] {
        assert_eq!(ended.err.matches(name).count(), 1, "{name}: {}", ended.err);
    }
    place.run("export --parquet fleet --check").with(0).shows(&["4 recordings in fleet"]);
}

#[test]
fn foreign_files_in_the_folder_are_named_and_the_rest_goes_on() {
    let place = Place::new();
    fs::write(place.path("a.holdup"), recording(true)).unwrap();
    place.run("export --parquet fleet a.holdup --host h").with(0);
    let folder = place.path("fleet/v1/account/day=2026-01-01/service=server/host=h");
    fs::write(folder.join("strange.parquet"), "PAR1").unwrap();
    fs::write(folder.join(format!("holdup-{}.parquet", "0".repeat(32))), "PAR1PAR1").unwrap();
    let ended = place.run("export --parquet fleet --check").with(2);
    ended.shows(&["1 recording in fleet"]).says(&["strange.parquet", "no whole Parquet file", "2 things are"]);
    fs::write(place.path("b.holdup"), recording_named("other")).unwrap();
    place.run("export --parquet fleet b.holdup").with(0).shows(&["1 recording added"]);
    fs::write(place.path("file"), "x").unwrap();
    place.run("export --parquet file a.holdup").with(2).says(&["file"]);
    place.run("export --parquet nowhere --check").with(2).says(&["no such folder"]);
}

#[test]
fn who_is_killed_while_exporting_leaves_no_half_file_and_nothing_twice() {
    let place = Place::new();
    fs::create_dir(place.path("in")).unwrap();
    const RECORDINGS: usize = 12;
    for number in 0..RECORDINGS {
        fs::write(place.path(&format!("in/{number}.holdup")), recording_named(&format!("worker{number}"))).unwrap();
    }
    place.run("export --parquet whole in").with(0);
    for round in 0..24 {
        let mut exporter = place.command("export --parquet fleet in");
        let mut exporter = exporter.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        std::thread::sleep(Duration::from_micros(5_000 + round * 3_137));
        // One that has ended is none the worse for it.
        let _ = exporter.kill();
        exporter.wait().unwrap();
        for (path, bytes) in files(&place.path("fleet")) {
            let name = path.display();
            assert!(bytes.starts_with(b"PAR1") && bytes.ends_with(b"PAR1") && bytes.len() > 8, "{name} is half a file");
        }
    }
    place.run("export --parquet fleet in").with(0);
    place.run("export --parquet fleet --check").with(0).shows(&[&format!("{RECORDINGS} recordings in fleet")]);
    let relative = |folder: &str| -> BTreeMap<PathBuf, Vec<u8>> {
        let root = place.path(folder);
        files(&root).into_iter().map(|(path, bytes)| (path.strip_prefix(&root).unwrap().to_owned(), bytes)).collect()
    };
    assert_eq!(relative("fleet"), relative("whole"));
}

/// Two locks, measured once.
const SWEEP: &str = "[experiment]\nname = \"parts\"\ntitle = \"A sweep\"\n[[sweep]]\nname = \"alone\"\nlock = [\"none\", \"pthread\"]\n\
                     baseline = \"none\"\nthreads = 1\nduration = \"10ms\"\nrepeats = 1\n";

#[test]
fn runs_and_trials_are_tables_too_each_once_in_whichever_store_it_is() {
    let place = Place::new();
    fs::write(place.path("parts.toml"), SWEEP).unwrap();
    place.run("run parts.toml --no-reject --store a.db").with(0);
    place.run("history merge a.db --store b.db").with(0);
    fs::write(place.path("trial.json"), read("fixtures/fleet/trial.json")).unwrap();
    fs::write(place.path("a.holdup"), recording(true)).unwrap();
    place
        .run("export --parquet fleet a.db trial.json a.holdup --host web-1")
        .with(0)
        .shows(&["1 recording, 1 run, 1 trial added to fleet"]);
    let first = files(&place.path("fleet"));
    assert_eq!(first.len(), TABLES + 5 + 3, "{:#?}", first.keys());
    let ended = place.run("export --parquet fleet b.db a.db trial.json").with(0);
    ended.shows(&["0 runs, 0 trials added to fleet; 3 that were there already added nothing"]);
    assert_eq!(files(&place.path("fleet")), first);
    let folders = |table: &str| {
        let of = place.path(&format!("fleet/v1/{table}"));
        let paths = first.keys().filter_map(|path| path.strip_prefix(&of).ok()?.parent()).map(Path::to_owned);
        paths.collect::<Vec<_>>()
    };
    assert_eq!(folders("remedy"), [Path::new("day=2026-01-01/service=my%20server/host=web-1")]);
    assert!(folders("sample")[0].ends_with("service=parts/host=web-1"));
    let ended = place.run("export --parquet fleet --check").with(0);
    ended.shows(&["1 recording, 1 run, 1 trial in fleet", "remedy       2 rows", "cell         2 rows"]);
    // One that is cut off costs itself.
    fs::write(place.path("cut.json"), &read("fixtures/fleet/trial.json")[..400]).unwrap();
    fs::write(place.path("foreign.db"), "SQLite format 3\0 but no more").unwrap();
    fs::write(place.path("c.holdup"), recording_named("worker")).unwrap();
    let ended = place.run("export --parquet fleet cut.json foreign.db c.holdup").with(2);
    let ended = ended.shows(&["1 recording, 0 runs, 0 trials added"]).says(&["2 of 3 files could not be exported"]);
    for name in ["cut.json", "foreign.db"] {
        assert_eq!(ended.err.matches(name).count(), 1, "{name}: {}", ended.err);
    }
}

#[test]
fn a_run_is_one_and_recordings_need_a_folder() {
    let place = Place::new();
    place.run("export 1 2 --csv").with(2).says(&["write one run"]);
    place.run("export a.holdup").with(2).says(&["--parquet"]);
    place.run("export --parquet fleet").with(2).says(&["required"]);
    place.run("export 1 --csv --service x").with(2).says(&["--service"]);
    place.run("report x --of lock").with(2).says(&["--collapsed"]);
}

#[test]
fn stacks_are_written_for_pprof_and_flame_graphs() {
    let place = Place::new();
    fs::write(place.path("a.holdup"), recording(true)).unwrap();
    place
        .run("report a.holdup --pprof a.pb.gz --collapsed a.txt --of lock")
        .with(0)
        .says(&["go tool pprof", "flamegraph.pl"]);
    assert!(fs::read(place.path("a.pb.gz")).unwrap().starts_with(&[0x1f, 0x8b]));
    let text = fs::read_to_string(place.path("a.txt")).unwrap();
    // 50 turns, in which the first thread waits from 5 ms to 17 ms.
    let sum: u64 = text.lines().map(|line| line.rsplit_once(' ').unwrap().1.parse::<u64>().unwrap()).sum();
    let json: serde_json::Value = serde_json::from_str(&place.run("report a.holdup --json").with(0).out).unwrap();
    let expected = json["totals"]["lock_wait_ns"].as_u64().unwrap();
    assert!(sum.abs_diff(expected) * 1000 <= expected, "{sum} is not {expected}: {text}");
    place.run("report a.holdup --pprof a.pb.gz").with(2).says(&["a.pb.gz exists"]);
}

/// The settings that the page shows and those that are shipped.
#[test]
fn settings_of_the_page_are_taken_and_a_wrong_one_is_told_with_its_place() {
    let page = read("docs/fleet.md");
    let block = page.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    let place = Place::new();
    fs::write(place.path("watch.toml"), block).unwrap();
    place.run("watch --config watch.toml --check").with(0).shows(&["watch.toml: 2 targets to watch"]);
    fs::write(place.path("shipped.toml"), read("deploy/watch.toml")).unwrap();
    place.run("watch --config shipped.toml --check").with(0);
    let of_cluster = read("deploy/kubernetes/watch.yaml");
    let inside = of_cluster.split("watch.toml: |\n").nth(1).and_then(|rest| rest.split("---").next()).unwrap();
    fs::write(place.path("cluster.toml"), inside).unwrap();
    place.run("watch --config cluster.toml --check").with(0);
    fs::write(place.path("watch.toml"), block.replace("[[target]]", "[[targets]]")).unwrap();
    let ended = place.run("watch --config watch.toml").with(2);
    ended.says(&["watch.toml:", "this file has no key 'targets'; did you mean 'target'?"]);
    place.run("watch").with(2).says(&["--config <FILE>", "--unit <NAME>"]);
}

/// The families that are served.
fn served(source: &str) -> Vec<&str> {
    source.split("page.family(\"").skip(1).filter_map(|rest| rest.split('"').next()).collect()
}

/// What dashboard and alerts ask for is served.
#[test]
fn dashboard_and_rules_ask_for_metrics_that_are_there() {
    let source = read("crates/holdup/src/watch/figures.rs");
    let served = served(&source);
    let dashboard = read("deploy/grafana/holdup.json");
    assert!(serde_json::from_str::<serde_json::Value>(&dashboard).unwrap()["panels"].as_array().unwrap().len() > 4);
    for (file, text) in [("dashboard", dashboard), ("rules", read("deploy/prometheus/rules.yml"))] {
        let is_part = |c: char| c.is_ascii_alphanumeric() || "_:".contains(c);
        let words = text.split(|c| !is_part(c)).filter(|word| word.starts_with("holdup_"));
        let asked: Vec<&str> = words.map(|word| word.trim_end_matches("_total").trim_end_matches("_info")).collect();
        assert!(asked.len() > 5, "{file}: {asked:?}");
        for name in asked {
            assert!(served.contains(&name), "{file}: {name} is not served");
        }
    }
}

/// Every metric that the page tells of is served, and every one that is served is told of.
#[test]
fn the_page_has_every_metric() {
    let page = read("docs/fleet.md");
    let source = read("crates/holdup/src/watch/figures.rs");
    let served = served(&source);
    assert!(served.len() > 15, "{served:?}");
    for family in served.iter().filter(|family| **family != "holdup_build") {
        assert!(page.contains(&format!("`{family}`")) || page.contains(&format!("`{family}_total`")), "{family}");
    }
    let told = page.split('`').filter(|word| word.starts_with("holdup_") && !word.contains(' '));
    for name in told {
        assert!(served.contains(&name.trim_end_matches("_total")), "{name} is not served");
    }
}
