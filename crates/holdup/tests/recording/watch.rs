//! `holdup watch` beside programs that run, end and come back: every scrape is well-formed, nothing is lost at the end,
//! and broken settings change nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use super::build::{self, Frames};
use super::place::{Place, text};
use super::{alone, skip};

/// Whatever is waited for comes much sooner.
const PATIENCE: Duration = Duration::from_secs(120);

/// A process that goes with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Three services that are one program under three names.
const NAMES: [&str; 3] = ["shop", "mail", "search"];

fn service(place: &Place, program: &Path, name: &str) -> Running {
    let path = place.path(name);
    if !path.exists() {
        fs::copy(program, &path).unwrap();
    }
    Running(Command::new(path).arg("600000").stdout(Stdio::null()).spawn().unwrap())
}

/// The service that watches.
struct Watch {
    process: Running,
    at: String,
    said: Receiver<String>,
    /// All that it has said so far.
    all: Vec<String>,
}

impl Watch {
    fn start(place: &Place, words: &[&str]) -> Watch {
        let mut command = place.holdup(&["watch"]);
        let mut child = command.args(words).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let (tell, said) = mpsc::channel();
        let lines = BufReader::new(child.stderr.take().unwrap()).lines();
        thread::spawn(move || lines.map_while(Result::ok).for_each(|line| drop(tell.send(line))));
        let mut watch = Watch { process: Running(child), at: String::new(), said, all: Vec::new() };
        let line = watch.hears("figures at http://");
        watch.at = line.split("http://").nth(1).unwrap().trim_end_matches("/metrics").to_owned();
        watch
    }

    /// Waits for a line with these words.
    #[track_caller]
    fn hears(&mut self, words: &str) -> String {
        loop {
            match self.said.recv_timeout(PATIENCE) {
                Ok(line) if line.contains(words) => return line,
                Ok(line) => self.all.push(line),
                Err(why) => panic!("'{words}' is not said ({why}): {:#?}", self.all),
            }
        }
    }

    fn get(&self, path: &str) -> (String, Vec<u8>) {
        let mut stream = TcpStream::connect(&self.at).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nHost: {}\r\nAccept: application/openmetrics-text\r\n\r\n", self.at)
            .unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        let end = answer.windows(4).position(|four| four == b"\r\n\r\n").unwrap();
        (String::from_utf8(answer[..end].to_vec()).unwrap(), answer[end + 4..].to_vec())
    }

    fn figures(&self) -> Page {
        let (head, body) = self.get("/metrics");
        assert!(head.starts_with("HTTP/1.1 200 OK") && head.contains("application/openmetrics-text"), "{head}");
        Page::parse(&String::from_utf8(body).unwrap()).unwrap()
    }

    /// Scrapes until it is so.
    #[track_caller]
    fn until(&self, what: &str, so: impl Fn(&Page) -> bool) -> Page {
        let until = Instant::now() + PATIENCE;
        loop {
            let page = self.figures();
            if so(&page) {
                return page;
            }
            assert!(Instant::now() < until, "not so after {PATIENCE:?}: {what}: {page:#?}");
            thread::sleep(Duration::from_millis(50));
        }
    }

    fn signal(&self, signal: &str) {
        send(self.process.0.id(), signal);
    }

    fn end(mut self) -> ExitStatus {
        self.signal("TERM");
        self.process.0.wait().unwrap()
    }
}

fn send(pid: u32, signal: &str) {
    let sent = Command::new("kill").args(["-s", signal, &pid.to_string()]).status().unwrap();
    assert!(sent.success());
}

/// A page of OpenMetrics, as the specification has it and no looser.
#[derive(Debug, Default)]
struct Page {
    samples: BTreeMap<(String, BTreeMap<String, String>), f64>,
}

impl Page {
    fn parse(text: &str) -> Result<Page, String> {
        let mut page = Page::default();
        let mut known = BTreeSet::new();
        // Name, kind, and whether samples have begun.
        let mut family: Option<(String, String, bool)> = None;
        let body = text.strip_suffix("# EOF\n").ok_or("it does not end with # EOF")?;
        for line in body.split_terminator('\n') {
            if let Some(comment) = line.strip_prefix("# ") {
                let mut words = comment.splitn(3, ' ');
                let (what, name, rest) = (words.next(), words.next(), words.next().unwrap_or_default());
                let name = name.ok_or("a comment without a family")?;
                if what == Some("TYPE") {
                    if !known.insert(name.to_owned()) {
                        return Err(format!("{name} comes twice"));
                    }
                    family = Some((name.to_owned(), rest.to_owned(), false));
                    continue;
                }
                let (current, _, begun) = family.as_ref().ok_or("a comment before a type")?;
                if current != name || *begun {
                    return Err(format!("'{line}' is not at the head of its family"));
                }
                match what {
                    Some("UNIT") if name.ends_with(&format!("_{rest}")) => {}
                    Some("HELP") if !rest.is_empty() => {}
                    _ => return Err(format!("'{line}' is no line of OpenMetrics")),
                }
                continue;
            }
            let (name, kind, begun) = family.as_mut().ok_or("a sample before a type")?;
            *begun = true;
            let (sample, labels, value) = sample(line).ok_or_else(|| format!("'{line}' is no sample"))?;
            let suffix = match kind.as_str() {
                "counter" => "_total",
                "info" => "_info",
                "gauge" => "",
                other => return Err(format!("a family of kind {other}")),
            };
            if sample != format!("{name}{suffix}") || (kind != "gauge" && value < 0.0) || !value.is_finite() {
                return Err(format!("'{line}' is no sample of the {kind} {name}"));
            }
            if page.samples.insert((sample, labels), value).is_some() {
                return Err(format!("'{line}' comes twice"));
            }
        }
        Ok(page)
    }

    fn get(&self, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
        let labels = labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        self.samples.get(&(name.to_owned(), labels)).copied()
    }

    fn of(&self, name: &str, target: &str) -> f64 {
        self.get(name, &[("target", target)]).unwrap_or(-1.0)
    }

    fn targets(&self) -> BTreeSet<&str> {
        self.samples.keys().filter_map(|(_, labels)| labels.get("target")).map(String::as_str).collect()
    }
}

/// Name, labels and value of a sample.
fn sample(line: &str) -> Option<(String, BTreeMap<String, String>, f64)> {
    let is_name = |name: &str| {
        let letters = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        letters && name.bytes().next().is_some_and(|byte| !byte.is_ascii_digit())
    };
    let end = line.find(['{', ' '])?;
    let (name, mut rest) = line.split_at(end);
    let mut labels = BTreeMap::new();
    if let Some(mut inside) = rest.strip_prefix('{') {
        loop {
            let (key, value) = inside.split_once("=\"")?;
            let (text, after) = quoted(value)?;
            if !is_name(key) || labels.insert(key.to_owned(), text).is_some() {
                return None;
            }
            match after.strip_prefix(',') {
                Some(more) => inside = more,
                None => break rest = after.strip_prefix('}')?,
            }
        }
    }
    let value = rest.strip_prefix(' ')?.parse().ok()?;
    is_name(name).then(|| (name.to_owned(), labels, value))
}

/// What stands up to the closing quote, and what is behind it.
fn quoted(text: &str) -> Option<(String, &str)> {
    let mut out = String::new();
    let mut letters = text.char_indices();
    while let Some((at, letter)) = letters.next() {
        match letter {
            '"' => return Some((out, &text[at + 1..])),
            '\\' => out.push(match letters.next()?.1 {
                'n' => '\n',
                letter @ ('"' | '\\') => letter,
                _ => return None,
            }),
            letter => out.push(letter),
        }
    }
    None
}

#[test]
fn the_parser_of_this_test_is_strict() {
    let good = "# TYPE a counter\n# HELP a b\na_total{x=\"\\\"\"} 1\n# TYPE c_seconds gauge\n# UNIT c_seconds seconds\n\
                c_seconds -1\n# EOF\n";
    assert_eq!(Page::parse(good).unwrap().samples.len(), 2);
    for (from, to) in [
        ("# EOF\n", ""),
        ("a_total", "a"),
        (" 1\n", " -1\n"),
        (" 1\n", " x\n"),
        ("\\\"", "\""),
        ("{x", "{1"),
        ("UNIT c_seconds seconds", "UNIT c_seconds bytes"),
        ("c_seconds -1\n", "c_seconds -1\nc_seconds 2\n"),
        ("c_seconds -1\n", "c_seconds -1\na_total 2\n"),
        ("TYPE c_seconds", "TYPE a"),
    ] {
        assert!(Page::parse(&good.replace(from, to)).is_err(), "{from} -> {to}");
    }
}

fn settings(targets: &[&str], more: &str) -> String {
    let mut text = format!("listen = '127.0.0.1:0'\nevery = '1s'\nfor = '1s'\nbudget = '100%'\n{more}");
    for name in targets {
        text.push_str(&format!("[[target]]\ncommand = '{name}'\n"));
    }
    text
}

/// The program, if this user may record it here.
fn program(place: &Place) -> Option<PathBuf> {
    let program = build::program("../recorder/long_wait.c", Frames::None).map_err(|why| skip(&why)).ok()?;
    let words = ["record", "--no-report", "-o", "try.holdup", "--"];
    let output = place.holdup(&words).arg(&program).arg("1").output().unwrap();
    if !output.status.success() {
        skip(text(&output).trim());
        return None;
    }
    Some(program)
}

#[test]
fn three_services_are_watched_through_restarts_broken_settings_and_the_end() {
    let place = Place::new();
    let Some(program) = program(&place) else { return };
    let _alone = alone();
    let config = place.path("watch.toml");
    let kept = "parquet = 'fleet'\nhost = 'web-1'\n[keep]\nfolder = 'kept'\nwhen = 'finding >= 0%'\nfiles = 2\n";
    fs::write(&config, settings(&NAMES, kept)).unwrap();
    let mut running: Vec<Running> = NAMES.iter().map(|name| service(&place, &program, name)).collect();
    let mut watch = Watch::start(&place, &["--config", "watch.toml"]);

    let all = |page: &Page| NAMES.iter().all(|name| page.of("holdup_recordings_total", name) >= 1.0);
    let page = watch.until("every service is recorded", all);
    assert_eq!(page.targets(), NAMES.into_iter().collect());
    assert!(page.of("holdup_recorded_seconds_total", "shop") > 0.0);
    watch.until("the lock that is held too long has a name", |page| {
        let waits = page.get("holdup_lock_waits_total", &[("target", "shop"), ("lock", "g_ledger_lock")]);
        waits.is_some_and(|waits| waits >= 1.0)
    });
    let (head, profile) = watch.get("/pprof/shop");
    assert!(head.starts_with("HTTP/1.1 200 OK") && profile.starts_with(&[0x1f, 0x8b]), "{head}");
    assert!(watch.get("/pprof/nobody").0.starts_with("HTTP/1.1 404 "));

    // A service that ends is down, and up again when it is back.
    drop(running.remove(0));
    watch.hears("no process is called 'shop'");
    let page = watch.until("a service is down", |page| page.of("holdup_target_up", "shop") == 0.0);
    let before = page.of("holdup_recordings_total", "shop");
    running.push(service(&place, &program, "shop"));
    watch.hears("shop: recorded again");
    let back = |page: &Page| page.of("holdup_target_up", "shop") == 1.0;
    assert!(watch.until("it is up again", back).of("holdup_recordings_total", "shop") > before);

    // Broken settings are told, with their line, and those of before stay.
    fs::write(&config, settings(&NAMES, "evry = '1s'\n")).unwrap();
    watch.signal("HUP");
    watch.hears("watch.toml:5:1: this file has no key 'evry'; did you mean 'every'?");
    let refused = |page: &Page| page.get("holdup_watch_reloads_total", &[("result", "refused")]) == Some(1.0);
    assert_eq!(watch.until("a refusal is counted", refused).targets().len(), 3);
    fs::write(&config, settings(&NAMES[..2], kept)).unwrap();
    watch.signal("HUP");
    watch.hears("watching 2 targets");
    assert_eq!(watch.figures().targets(), NAMES[..2].iter().copied().collect());

    let page = watch.until("one more is recorded", |page| page.of("holdup_recordings_total", "mail") >= 2.0);
    let recordings: f64 = NAMES[..2].iter().map(|name| page.of("holdup_recordings_total", name)).sum();
    assert!(page.get("holdup_watch_cpu_seconds_total", &[]).is_some_and(|seconds| seconds > 0.0));
    assert_eq!(watch.end().code(), Some(0));

    // Every recording that was counted is in the tables, whole.
    let checked = place.holdup(&["export", "--parquet", "fleet", "--check"]).output().unwrap();
    assert_eq!(checked.status.code(), Some(0), "{}", text(&checked));
    let said = String::from_utf8(checked.stdout).unwrap();
    let stored: f64 = said.split(' ').next().unwrap().parse().unwrap();
    assert!(stored >= recordings, "{stored} of {recordings}: {said}");
    let left: Vec<_> = fs::read_dir(place.path("fleet/_unfinished")).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
    let kept = fs::read_dir(place.path("kept")).into_iter().flatten().count();
    assert!(kept <= 2, "{kept} recordings are kept");
}

#[test]
fn what_fails_beside_it_costs_one_turn() {
    let place = Place::new();
    let Some(program) = program(&place) else { return };
    let _alone = alone();
    // The folder of tables is a file: nothing can be written there.
    fs::write(place.path("fleet"), "").unwrap();
    fs::write(place.path("watch.toml"), settings(&NAMES[..1], "parquet = 'fleet'\n")).unwrap();
    let _shop = service(&place, &program, "shop");
    let mut watch = Watch::start(&place, &["--config", "watch.toml"]);
    watch.hears("shop: facts are not written: fleet");
    let failed = |page: &Page| page.get("holdup_watch_export_failures_total", &[]).is_some_and(|count| count >= 1.0);
    watch.until("the failure is counted, and the figures are there", |page| {
        failed(page) && page.of("holdup_recordings_total", "shop") >= 1.0
    });
    fs::remove_file(place.path("fleet")).unwrap();
    watch.hears("shop: recorded again");

    // The process that records is killed, whenever one is there.
    let turn = |pid: u32| {
        let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
        let all: String =
            threads.map(|task| fs::read_to_string(task.path().join("children")).unwrap_or_default()).collect();
        all.split_whitespace().next().map(str::to_owned)
    };
    let pid = watch.process.0.id();
    watch.until("a failure is counted", |page| {
        if let Some(turn) = turn(pid) {
            // It may have ended by itself.
            let _ = Command::new("kill").args(["-s", "KILL", &turn]).stderr(Stdio::null()).status();
        }
        let failures = page.get("holdup_failures_total", &[("target", "shop"), ("reason", "failed")]);
        failures.is_some_and(|count| count >= 1.0)
    });
    watch.hears("shop: not recorded: the process that recorded ended without an answer");
    watch.hears("shop: recorded again");

    // Killed itself, it leaves no process behind, and no half file.
    let last = turn(pid);
    send(pid, "KILL");
    assert_eq!(watch.process.0.wait().unwrap().signal(), Some(9));
    let until = Instant::now() + PATIENCE;
    while last.as_ref().is_some_and(|last| Path::new("/proc").join(last).exists()) {
        assert!(Instant::now() < until, "the process that recorded still runs");
        thread::sleep(Duration::from_millis(50));
    }
    let checked = place.holdup(&["export", "--parquet", "fleet", "--check"]).output().unwrap();
    assert_eq!(checked.status.code(), Some(0), "{}", text(&checked));
}

/// A name that would end a label, a path, a pattern or a statement.
const HOSTILE: &str = "a'; DROP TABLE x; --/../../*[x]\"\\%25=é";

#[test]
fn a_name_that_is_hostile_stays_text_in_labels_paths_and_folders() {
    let place = Place::new();
    if program(&place).is_none() {
        return;
    }
    let holder = build::program("sleeping_holder.c", Frames::None).unwrap();
    let _alone = alone();
    let inside = place.path("inside");
    fs::create_dir(&inside).unwrap();
    let kept = "parquet = 'inside/fleet'\n[keep]\nfolder = 'inside/kept'\nwhen = 'finding >= 0%'\n";
    let target = format!("[[target]]\ncommand = 'shop'\nname = {HOSTILE:?}\nbuild = {HOSTILE:?}\n");
    fs::write(place.path("watch.toml"), settings(&[], kept) + &target).unwrap();
    let _shop = service(&place, &holder, "shop");
    let before = fs::read_dir(place.path(".")).unwrap().count();
    let watch = Watch::start(&place, &["--config", "watch.toml"]);
    let page = watch.until("it is recorded", |page| page.of("holdup_kept_recordings_total", HOSTILE) >= 1.0);
    assert_eq!(page.targets(), [HOSTILE].into());
    let spelt: String = HOSTILE.bytes().map(|byte| format!("%{byte:02X}")).collect();
    let (head, profile) = watch.get(&format!("/pprof/{spelt}"));
    assert!(head.starts_with("HTTP/1.1 200 OK") && profile.starts_with(&[0x1f, 0x8b]), "{head}");
    assert_eq!(watch.end().code(), Some(0));
    // Nothing was written but in the two folders, and there in one folder for the name.
    assert_eq!(fs::read_dir(place.path(".")).unwrap().count(), before);
    let day = fs::read_dir(inside.join("fleet/v1/recording")).unwrap().next().unwrap().unwrap().path();
    let services: Vec<_> = fs::read_dir(day).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(services.len(), 1, "{services:?}");
    let checked = place.holdup(&["export", "--parquet", "inside/fleet", "--check"]).output().unwrap();
    assert_eq!(checked.status.code(), Some(0), "{}", text(&checked));
    for entry in fs::read_dir(inside.join("kept")).unwrap() {
        let path = entry.unwrap().path();
        let report = place.holdup(&["report", "--json"]).arg(&path).output().unwrap();
        assert_eq!(report.status.code(), Some(0), "{}: {}", path.display(), text(&report));
    }
}
