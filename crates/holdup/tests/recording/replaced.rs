//! Libraries whose files are deleted or replaced while a program has them loaded: code has the names of the file that
//! is loaded, or none.

use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use super::build::{self, Frames};
use super::place::{Place, text};
use super::{alone, is_root, skip};

/// How the library's file goes: by another one, or without one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Goes {
    Replaced,
    Deleted,
}

/// What runs until the test ends: our child, or the program that a recorder has started, which waits for its end.
enum Runs {
    Child(Child),
    Started { recorder: Child, pid: u64 },
}

impl Drop for Runs {
    fn drop(&mut self) {
        let child = match self {
            Runs::Child(child) => {
                let _ = child.kill();
                child
            }
            Runs::Started { recorder, pid } => {
                let _ = Command::new("kill").arg(pid.to_string()).status();
                recorder
            }
        };
        let _ = child.wait();
    }
}

/// How a recording begins, and what it says, while the program runs.
type Recorded = fn(&Place, Goes, bool) -> Option<(Value, Runs)>;

fn program() -> Option<PathBuf> {
    build::program("../recorder/replaces_library.c", Frames::None).map_err(|why| skip(&why)).ok()
}

/// The words of a program that loses its library, which then runs for a minute.
fn words(place: &Place, goes: Goes, has_build_id: bool) -> Option<[String; 4]> {
    let program = place.copy_in(&program()?);
    let [library, new] = ["plugin.so", "new.so"].map(|name| place.path(name));
    let id = if has_build_id { "-Wl,--build-id=sha1" } else { "-Wl,--build-id=none" };
    build::plugin_into(&library, &[id]).unwrap();
    build::plugin_into(&new, &[id, "-Dplugin_inner=plugin_other"]).unwrap();
    let text = |path: &PathBuf| path.to_str().unwrap().to_owned();
    let second = if goes == Goes::Deleted { "delete".to_owned() } else { text(&new) };
    Some([text(&program), text(&library), second, "60000".to_owned()])
}

fn hits(report: &Value, function: &str) -> u64 {
    let symbols = report["symbols"].as_array().unwrap().iter();
    symbols.filter(|symbol| symbol["frame"]["function"] == function).filter_map(|one| one["inclusive"].as_u64()).sum()
}

#[track_caller]
fn is_told(report: &Value, code: &str) {
    let problems = report["problems"].as_array().unwrap();
    let of_library = |problem: &&Value| problem["path"].as_str().is_some_and(|path| path.contains("plugin.so"));
    let told = problems.iter().find(of_library).map(|problem| &problem["code"]);
    assert_eq!(told, Some(&code.into()), "{problems:?}");
}

/// The report of a program that lost its library meanwhile, and goes on after the recording.
fn started(place: &Place, goes: Goes, has_build_id: bool) -> Option<(Value, Runs)> {
    let mut recorder = place.recorder(&["--no-report", "--for", "700ms", "-o", "s.holdup", "--"]);
    recorder.args(words(place, goes, has_build_id)?);
    let mut recorder = recorder.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    loop {
        assert_eq!(recorder.try_wait().unwrap(), None, "{goes:?}: it ended before its recording");
        let output = place.holdup(&["report", "s.holdup", "--json"]).output().unwrap();
        let Ok(report) = serde_json::from_slice::<Value>(&output.stdout) else { continue };
        let is_open = report["problems"].as_array().unwrap().iter().any(|problem| problem["code"] == "cut-off");
        if let Some(pid) = report["header"]["target"]["pids"][0].as_u64().filter(|_| !is_open) {
            return Some((report, Runs::Started { recorder, pid }));
        }
    }
}

/// The same of one that had lost it before the recording.
fn attached(place: &Place, goes: Goes, has_build_id: bool) -> Option<(Value, Runs)> {
    let [program, rest @ ..] = words(place, goes, has_build_id)?;
    let mut child = place.command(program).args(rest).stdout(Stdio::piped()).spawn().unwrap();
    let (pid, said) = (child.id().to_string(), child.stdout.take().unwrap());
    let runs = Runs::Child(child);
    let mut line = String::new();
    BufReader::new(said).read_line(&mut line).unwrap();
    assert_eq!(line, "loaded\n");
    let recorded = place.recorder(&["--no-report", "--for", "700ms", "-o", "a.holdup", "-p", &pid]).output().unwrap();
    assert!(recorded.status.success(), "{}", text(&recorded));
    Some((place.report("a.holdup"), runs))
}

#[test]
fn what_is_loaded_is_named_while_it_is() {
    if !is_root() {
        return skip("only root may read a file that has no name where it is mapped");
    }
    let _alone = alone();
    let all: [(Recorded, Goes, bool); 4] = [
        (started, Goes::Replaced, false),
        (started, Goes::Deleted, true),
        (attached, Goes::Replaced, true),
        (attached, Goes::Replaced, false),
    ];
    for (start, goes, has_build_id) in all {
        let place = Place::new();
        let Some((report, _runs)) = start(&place, goes, has_build_id) else { return };
        let found = (hits(&report, "plugin_inner"), hits(&report, "plugin_other"));
        assert!(found.0 > 0 && found.1 == 0, "{goes:?}, build id: {has_build_id}, {found:?}: {:#}", report["symbols"]);
    }
}

#[test]
fn another_file_of_the_same_name_gives_no_names() {
    let _alone = alone();
    // Once it has ended, nothing is left of the file that was loaded; its build id tells.
    let place = Place::new();
    let Some((_, runs)) = attached(&place, Goes::Replaced, true) else { return };
    drop(runs);
    let report = place.report("a.holdup");
    assert_eq!((hits(&report, "plugin_inner"), hits(&report, "plugin_other")), (0, 0), "{:#}", report["symbols"]);
    is_told(&report, "replaced");
    if !is_root() {
        return skip("only root can go on as another user");
    }
    // Without the right to read what is mapped, and without a build id.
    let both: [Recorded; 2] = [started, attached];
    for start in both {
        let place = Place::ordinary();
        let Some((report, _runs)) = start(&place, Goes::Replaced, false) else { return };
        assert_eq!((hits(&report, "plugin_inner"), hits(&report, "plugin_other")), (0, 0), "{:#}", report["symbols"]);
        is_told(&report, "unreadable");
    }
}

#[test]
fn a_program_below_another_root_has_names_when_both_are_gone() {
    if !is_root() {
        return skip("only root may change the root");
    }
    let _alone = alone();
    let program = match build::static_program("../recorder/naps.c") {
        Ok(program) => program,
        Err(why) => return skip(&why),
    };
    let place = Place::new();
    let root = place.path("root");
    std::fs::create_dir(&root).unwrap();
    std::fs::copy(program, root.join("app")).unwrap();
    let script = format!("chroot '{0}' /app 700; rm -r '{0}'", root.display());
    let recorded = place.recorder(&["-o", "c.holdup", "--", "sh", "-c", &script]).output().unwrap();
    let said = text(&recorded);
    assert!(recorded.status.success() && said.contains("count_stock naps.c:"), "{said}");
    let report = place.report("c.holdup");
    assert_eq!(hits(&report, "count_stock"), 0, "nothing is left of it: {:#}", report["symbols"]);
}

/// The kernel takes its events from a process that executes a program while its effective user is not its real one.
#[test]
fn a_program_that_is_executed_as_somebody_else_is_recorded_on() {
    if !is_root() {
        return skip("only root may record another user's program");
    }
    let _alone = alone();
    let works = r#"$> = 65534; exec "perl", "-e", 'my $n; $n += $_ for 1..20_000_000'"#;
    if !Command::new("perl").args(["-e", "1"]).status().is_ok_and(|status| status.success()) {
        return skip("perl is not here");
    }
    for capture in ["perf", "bpf"] {
        let place = Place::new();
        let words = ["--no-report", "--capture", capture, "-o", "a.holdup", "--", "sh", "-c", r#"perl -e "$0"; true"#];
        let recorded = place.recorder(&words).arg(works).output().unwrap();
        assert!(recorded.status.success(), "{}", text(&recorded));
        let report = place.report("a.holdup");
        assert!(report["problems"].as_array().unwrap().iter().all(|problem| problem["code"] != "clock-skew"));
        let threads = report["threads"].as_array().unwrap();
        let of = |thread: &Value, what: &str| thread[what].as_u64().unwrap();
        let samples = threads.iter().map(|thread| of(thread, "user_samples")).max().unwrap();
        let ran_ns = threads.iter().map(|thread| of(thread, "on_cpu_ns")).max().unwrap();
        // It works for some half a second; the first tenth or so may be missing.
        assert!(samples >= 50 && ran_ns >= 50_000_000, "{capture}: {samples} samples, {ran_ns} ns: {threads:#?}");
    }
}
