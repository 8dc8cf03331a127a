//! Code that a program made as it ran: what its runtime wrote of it for profilers, from the program to the report.

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::{chown, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

use serde_json::Value;

use super::build::{self, Frames};
use super::place::{Place, text};
use super::{alone, is_root, skip};

fn program() -> Option<PathBuf> {
    if !cfg!(target_arch = "x86_64") {
        skip("the code that the program makes is x86-64's");
        return None;
    }
    build::program("../recorder/generated.c", Frames::None).map_err(|why| skip(&why)).ok()
}

/// How many samples are of a function itself that the program made.
fn hits(report: &Value, function: &str) -> u64 {
    let symbols = report["symbols"].as_array().unwrap().iter();
    let made = symbols.filter(|symbol| symbol["frame"]["module"] == "[generated code]");
    made.filter(|symbol| symbol["frame"]["function"] == function).filter_map(|symbol| symbol["hits"].as_u64()).sum()
}

/// Two functions were in the same place, each for the same time.
#[test]
fn a_dump_names_the_code_that_was_there_at_the_time() {
    let Some(program) = program() else { return };
    let _alone = alone();
    let place = Place::new();
    let words = [program.to_str().unwrap(), "300", place.path("").to_str().unwrap()].map(str::to_owned);
    let recorded = place.record("g.holdup", &words);
    assert!(recorded.status.success(), "{}", text(&recorded));
    let report = place.report("g.holdup");
    let (first, second) = (hits(&report, "fill_cart"), hits(&report, "empty_cart"));
    assert!(first > 0 && second > 0 && first < 3 * second && second < 3 * first, "{first} {second} {report:#}");
    assert_eq!(refused(&report), None);

    // The process has ended; who can write there may do what he likes with the file.
    let pid = report["header"]["target"]["pids"][0].as_u64().unwrap();
    let dump = place.path(&format!("jit-{pid}.dump"));
    let whole = fs::read(&dump).unwrap();
    fs::write(&dump, &whole[..whole.len() - 30]).unwrap();
    let report = place.report("g.holdup");
    assert!(hits(&report, "fill_cart") >= first + second, "what there is of it counts: {:#}", report["symbols"]);
    fs::write(&dump, [&whole[..44], &[0xff; 4], &whole[48..]].concat()).unwrap();
    let report = place.report("g.holdup");
    assert_eq!(hits(&report, "fill_cart") + hits(&report, "empty_cart"), 0, "a record of 2^32 bytes");
    fs::rename(&dump, place.path("elsewhere")).unwrap();
    symlink(place.path("elsewhere"), &dump).unwrap();
    let report = place.report("g.holdup");
    assert_eq!(hits(&report, "fill_cart"), 0);
    assert!(refused(&report).is_some_and(|why| why.contains("is a link")), "{:#}", report["problems"]);
}

/// Why the map is not believed.
fn refused(report: &Value) -> Option<String> {
    let told = report["problems"].as_array().unwrap().iter().find(|problem| problem["code"] == "no-code-map")?;
    told["message"].as_str().map(str::to_owned)
}

/// Ends with the test, and so does the map that was written of it.
struct Mapped {
    program: Child,
    map: PathBuf,
}

impl Mapped {
    /// Starts the program; where the code is that it makes.
    fn start(program: &Path) -> (Mapped, String) {
        let mut program = std::process::Command::new(program).arg("60000").stdout(Stdio::piped()).spawn().unwrap();
        let mut address = String::new();
        BufReader::new(program.stdout.take().unwrap()).read_line(&mut address).unwrap();
        let map = format!("/tmp/perf-{}.map", program.id()).into();
        (Mapped { program, map }, address.trim().to_owned())
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        let _ = self.program.kill();
        let _ = self.program.wait();
        let _ = fs::remove_file(&self.map);
    }
}

/// Whoever writes to /tmp may write a map; it is believed as far as it can be, and cannot do harm.
#[test]
fn maps_are_believed_of_the_right_people_alone_and_survived_of_all() {
    let Some(program) = program() else { return };
    let _alone = alone();
    let place = Place::new();
    let (mapped, address) = Mapped::start(&program);
    let pid = mapped.program.id().to_string();
    let recorded = place.recorder(&["--no-report", "--for", "300ms", "-o", "m.holdup", "-p", &pid]).output().unwrap();
    assert!(recorded.status.success(), "{}", text(&recorded));
    let line = |name: &str| format!("{address} 40 {name}\n");
    fs::write(&mapped.map, line("of_the_map")).unwrap();
    assert!(hits(&place.report("m.holdup"), "of_the_map") > 0);

    let long = "x".repeat(3 << 20);
    fs::write(&mapped.map, [line("\x1b[2J\x1b]0;gone\x07"), "\n\0 nonsense\n".to_owned()].concat()).unwrap();
    let symbols = place.report("m.holdup")["symbols"].to_string();
    assert!(symbols.contains("[2J") && !symbols.contains("u001b"), "{symbols}");
    let shown = text(&place.holdup(&["report", "--symbols", "m.holdup"]).output().unwrap());
    assert!(!shown.contains(['\x1b', '\x07']), "{shown}");
    fs::write(&mapped.map, line(&long)).unwrap();
    let symbols = place.report("m.holdup")["symbols"].to_string();
    assert!(symbols.contains("xxx") && symbols.len() < 1 << 20, "{} bytes", symbols.len());

    // 200 MB, the line that matters last.
    let mut file = File::create(&mapped.map).unwrap();
    let block = format!("10 8 {}\n", "f".repeat(1000)).repeat(1000);
    (0..200).for_each(|_| file.write_all(block.as_bytes()).unwrap());
    file.write_all(line("the_last").as_bytes()).unwrap();
    drop(file);
    assert!(hits(&place.report("m.holdup"), "the_last") > 0);

    if is_root() {
        fs::write(&mapped.map, line("of_another")).unwrap();
        chown(&mapped.map, Some(4321), None).unwrap();
        let report = place.report("m.holdup");
        assert_eq!(hits(&report, "of_another"), 0);
        assert!(refused(&report).is_some_and(|why| why.contains("belongs to user 4321")), "{:#}", report["problems"]);
    } else {
        skip("only root can give a file to another user");
    }
    fs::remove_file(&mapped.map).unwrap();
    fs::write(place.path("elsewhere"), line("by_a_link")).unwrap();
    symlink(place.path("elsewhere"), &mapped.map).unwrap();
    let report = place.report("m.holdup");
    assert_eq!(hits(&report, "by_a_link"), 0);
    assert!(refused(&report).is_some_and(|why| why.contains("is a link")), "{:#}", report["problems"]);
}
