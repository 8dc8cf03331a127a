//! Golden texts of the views, and properties that hold for every recording.

use std::collections::{BTreeMap, BTreeSet};

use holdup_analyze::{Code, Facts, Kind, Problem, ProcessFacts, Role, Subject, ThreadFacts};
use holdup_trace::{Pid, Tid};

use super::super::Style;
use super::super::tests::{assert_fits, golden};
use super::{
    account, code, diff, doctor, finding, json, locks, pairs, sentences, specimen, summary, switches, threads,
};
use crate::recording::Recording;
use crate::text;

/// Rows that the views show by default.
const ROWS: usize = 10;

fn all_switches(recording: &Recording, style: &Style) -> String {
    let mut out = String::new();
    let written = switches::write(&recording.report, usize::MAX, style, |line| {
        out.push_str(line);
        Ok::<(), ()>(())
    });
    assert_eq!(written, Ok(()));
    out
}

/// Every view, with its golden file.
fn views(recording: &Recording, style: &Style) -> Vec<(&'static str, String)> {
    let facts = &recording.report.facts;
    vec![
        ("summary", summary::screen(recording).terminal(style)),
        ("blame", account::blame(facts, ROWS).terminal(style)),
        ("path", account::path(facts, ROWS).terminal(style)),
        ("threads", threads::table(facts, ROWS).terminal(style)),
        ("locks", locks::table(facts, ROWS).terminal(style)),
        ("pairs", pairs::table(facts, ROWS).terminal(style)),
        ("symbols", code::symbols(facts, ROWS).terminal(style)),
        ("modules", code::modules(facts, ROWS).terminal(style)),
        ("switches", all_switches(recording, style)),
        ("finding", finding::full(recording, 0).unwrap_or_default().terminal(style)),
        ("diff", diff::view(recording, &specimen::healthy()).terminal(style)),
    ]
}

#[test]
fn the_views_are_the_golden_ones() {
    for (name, text) in views(&specimen::held_up(), &Style::default()) {
        assert_fits(&text, 80);
        golden(&format!("recording-{name}.txt"), &text);
    }
    let healthy = summary::screen(&specimen::healthy()).terminal(&Style::default());
    assert_fits(&healthy, 80);
    golden("recording-healthy.txt", &healthy);
}

#[test]
fn the_first_screen_is_one_screen() {
    for recording in [specimen::held_up(), specimen::healthy(), specimen::empty()] {
        let lines = summary::screen(&recording).terminal(&Style::default()).lines().count();
        assert!(lines <= 60, "{lines} lines");
    }
    let mut plain = specimen::held_up();
    plain.report.problems.clear();
    plain.damage.clear();
    let lines = summary::screen(&plain).terminal(&Style::default()).lines().count();
    assert!(lines <= 46, "{lines} lines without problems");
}

#[test]
fn odd_recordings_break_no_view() {
    for recording in [specimen::empty(), specimen::hostile()] {
        for width in [0, 9, 40, 80, 300] {
            for (name, text) in views(&recording, &Style { width, colour: false }) {
                assert!(!text.contains(['\u{1b}', '\u{202e}', '\u{0}', '\r']), "{name}: {text}");
                assert!(!text.contains("NaN") && !text.contains("inf "), "{name}: {text}");
            }
        }
        assert!(serde_json::to_string(&json::Report::new(&recording)).is_ok());
    }
}

#[test]
fn an_empty_recording_says_so() {
    let recording = specimen::empty();
    let screen = summary::screen(&recording).terminal(&Style::default());
    assert!(screen.starts_with("Nothing was recorded"), "{screen}");
    assert!(screen.contains("cut off"), "{screen}");
    for (name, text) in views(&recording, &Style::default()) {
        assert!(name == "finding" || !text.is_empty(), "{name}");
    }
}

#[test]
fn a_healthy_program_gets_no_finding_and_hears_what_was_looked_at() {
    let screen = summary::screen(&specimen::healthy()).terminal(&Style::default());
    assert!(screen.starts_with("Nothing holds server up: no findings."), "{screen}");
    assert!(screen.contains("3 threads on 2 CPUs"), "{screen}");
    assert!(!screen.contains("doctor"), "nothing was missing: {screen}");
}

#[test]
fn a_deadlock_says_who_has_what() {
    let recording = specimen::held_up();
    let mut finding = specimen::every_kind().into_iter().find(|finding| finding.kind == Kind::Deadlock).unwrap();
    let [lock, one] = <[Subject; 2]>::try_from(std::mem::take(&mut finding.subjects)).unwrap();
    let other = Subject::Thread { tid: Tid(705), name: "logger".to_owned() };
    let mut said = |subjects: &[&Subject]| {
        finding.subjects = subjects.iter().copied().cloned().collect();
        sentences::of(&recording, &finding).what
    };
    let own = said(&[&lock, &one]);
    assert!(own.contains("worker-1") && own.contains("which it has itself. Nobody goes on."), "{own}");
    let ended = said(&[&lock, &one, &other]);
    assert!(ended.contains("worker-1") && ended.contains("and logger (705) has ended without"), "{ended}");
    let circle = said(&[&lock, &one, &lock, &other]);
    assert_eq!(circle.matches(" has ").count(), 2, "{circle}");
    assert!(circle.contains(" and logger (705) has ") && circle.contains(" and waits for "), "{circle}");
}

#[test]
fn functions_of_scripts_that_have_names_are_not_denied() {
    let mut recording = specimen::held_up();
    let switch = "node --perf-basic-prof";
    recording.report.problems = vec![Problem::NoCodeMap { switch, hits: 1, refused: None }];
    let said = |recording: &Recording| summary::about(recording).join(" ");
    assert!(said(&recording).contains("Generated code has no names"));
    let script = specimen::frame("load", None, "/srv/shop.js", Role::Program);
    recording.report.facts.symbols.push(Code { frame: script, hits: 1, inclusive: 1 });
    assert!(said(&recording).contains("those have names that ran as holdup looked; for all of them record with"));
}

#[test]
fn files_whose_lines_cost_too_much_are_told_together() {
    let mut recording = specimen::held_up();
    let costly = |(path, hits): (&str, u64)| Problem::CostlyLines { path: path.to_owned(), hits };
    let files = [("/x/_json.so", 1), ("/x/math.so", 5), ("/x/select.so", 19), ("/x/_ssl.so", 4)];
    recording.report.problems = files.into_iter().map(costly).collect();
    let said = summary::about(&recording);
    let about: Vec<&String> = said.iter().filter(|sentence| sentence.contains("line numbers")).collect();
    assert!(matches!(about[..], [one] if one.contains("select.so, math.so, _ssl.so and 1 more were read")), "{said:?}");
}

#[test]
fn every_kind_and_every_cure_has_its_own_words() {
    let recording = specimen::held_up();
    let mut whats = BTreeMap::new();
    let mut cures = BTreeSet::new();
    for finding in specimen::every_kind() {
        let words = sentences::of(&recording, &finding);
        assert!(words.what.ends_with('.') && words.cure.ends_with('.'), "{words:?}");
        assert!(words.cost.contains("25%"), "{words:?}");
        assert!(*whats.entry(words.what).or_insert(finding.kind) == finding.kind, "{:?}", finding.kind);
        cures.insert(words.cure);
    }
    assert!(whats.len() >= Kind::ALL.len());
    assert_eq!(cures.len(), 58);
}

#[test]
fn a_file_is_named_if_threads_mostly_wait_for_it_where_the_finding_is() {
    use holdup_analyze::{Blame, Kind, Leaf, Subject};
    let mut recording = specimen::held_up();
    let mut finding =
        specimen::every_kind().into_iter().find(|finding| finding.kind == Kind::IoBound).expect("every kind is there");
    finding.subjects = vec![Subject::Function("fsync".to_owned())];
    let there = recording.report.findings.iter().find_map(|finding| finding.place.clone());
    finding.place = there.clone();
    let row = recording.report.facts.blame[0].clone();
    let mut told = |rows: &[(bool, &str, u64)]| {
        let row = |(at_place, file, ns): &(bool, &str, u64)| Blame {
            leaf: Leaf::Io,
            site: there.clone().filter(|_| *at_place),
            file: Some((*file).to_owned()),
            ns: *ns,
            ..row.clone()
        };
        recording.report.facts.blame = rows.iter().map(row).collect();
        sentences::of(&recording, &finding).what
    };
    assert!(told(&[(false, "/lib/start.so", 900), (true, "/log", 20), (true, "/b", 5)]).contains("fsync of /log"));
    let several = told(&[(true, "/a", 30), (true, "/b", 30), (true, "/c", 30)]);
    assert!(several.contains("fsync of several files"), "{several}");
    assert!(!told(&[(false, "/lib/start.so", 900)]).contains("start.so"));
}

#[test]
fn colour_changes_nothing_but_colour() {
    let recording = specimen::held_up();
    let plain = views(&recording, &Style::default());
    for ((name, coloured), (_, plain)) in views(&recording, &Style { width: 80, colour: true }).iter().zip(plain) {
        let stripped: Vec<usize> = coloured.lines().map(text::columns).collect();
        let expected: Vec<usize> = plain.lines().map(text::columns).collect();
        assert_eq!(stripped, expected, "{name}");
    }
}

#[test]
fn a_recording_differs_from_itself_in_nothing() {
    let recording = specimen::held_up();
    let text = diff::view(&recording, &recording).terminal(&Style::default());
    assert!(text.starts_with("Findings: 5 same."), "{text}");
    let value = serde_json::to_value(diff::Comparison::new(&recording, &recording)).unwrap();
    assert!(value["findings"].as_array().unwrap().iter().all(|row| row["change"] == "same"), "{value}");
}

/// The same program again: other addresses, other numbers of threads, and the hot lock half as hot.
#[test]
fn findings_are_matched_across_address_layouts() {
    let before = specimen::held_up();
    let mut after = specimen::held_up();
    let move_away = |facts: &mut Facts| {
        for lock in &mut facts.locks {
            lock.addr = lock.addr.map(|addr| addr + 0x1000);
        }
        facts.threads.iter_mut().for_each(|thread| thread.tid.0 += 1_000);
    };
    move_away(&mut after.report.facts);
    after.report.findings[0].severity = 0.2;
    after.report.findings[1].severity = 0.5;
    after.report.findings.truncate(4);
    let text = diff::view(&before, &after).terminal(&Style::default());
    assert!(text.starts_with("Findings: 1 gone, 1 better, 2 same and 1 worse."), "{text}");
    assert!(!text.contains("Note:"), "{text}");
    assert!(text.contains("lock at session_find"), "{text}");
}

#[test]
fn a_comparison_fails_for_a_finding_that_is_new_or_grew() {
    let (healthy, held_up) = (specimen::healthy(), specimen::held_up());
    let mut milder = specimen::held_up();
    milder.report.findings[0].severity *= 0.3;
    let failure = |before, after, at_least| diff::Comparison::new(before, after).failure(at_least);
    assert!(failure(&healthy, &held_up, 0.05).unwrap().starts_with("new "));
    let grew = failure(&milder, &held_up, 0.05).unwrap();
    assert!(grew.starts_with("worse ") && grew.ends_with(" before"), "{grew}");
    assert_eq!(failure(&milder, &held_up, 0.99), None, "by less than the limit");
    for (before, after) in [(&held_up, &held_up), (&held_up, &milder), (&held_up, &healthy), (&healthy, &healthy)] {
        assert_eq!(failure(before, after, 0.05), None);
    }
}

#[test]
fn a_diff_of_unlike_recordings_says_so() {
    let mut other = specimen::healthy();
    let facts = &mut other.report.facts;
    facts.header.machine.cpus = 8;
    facts.header.machine.kernel = "6.19.0".to_owned();
    facts.processes[0].name = "client".to_owned();
    facts.end_ns = facts.start_ns + 1_000_000_000;
    let text = diff::view(&specimen::held_up(), &other).terminal(&Style::default());
    for word in ["programs differ", "2 CPUs before, 8 CPUs after", "6.19.0", "rights", "lengths differ"] {
        assert!(text.contains(word), "no '{word}' in {text}");
    }
}

#[test]
fn a_diagnosis_says_what_works_and_what_would_allow_more() {
    let text = doctor::screen(&specimen::ordinary_user()).terminal(&Style::default());
    assert_fits(&text, 80);
    golden("recording-doctor.txt", &text);
    let mut locked_down = specimen::locked_down();
    let sampled = doctor::screen(&locked_down).terminal(&Style::default());
    assert!(sampled.starts_with("holdup can sample here"), "{sampled}");
    assert!(sampled.contains("Docker") && sampled.contains("least that grants"), "{sampled}");
    locked_down.probe.ptrace_scope = Some(3);
    let none = doctor::screen(&locked_down).terminal(&Style::default());
    assert!(none.starts_with("holdup cannot record here yet"), "{none}");
}

/// A recording of this command, whose processes (number, what they executed, CPU time) are these.
fn started(command: &[&str], processes: &[(u32, Option<&str>, u64)]) -> Facts {
    let mut facts = Facts::default();
    facts.header.target.command = command.iter().map(|word| (*word).to_owned()).collect();
    facts.header.target.pids = vec![processes[0].0];
    for (pid, executed, on_cpu_ns) in processes {
        let (pid, executed) = (Pid(*pid), executed.map(str::to_owned));
        facts.processes.push(ProcessFacts { pid, executed, ..ProcessFacts::default() });
        facts.threads.push(ThreadFacts { pid, tid: Tid(pid.0), on_cpu_ns: *on_cpu_ns, ..ThreadFacts::default() });
    }
    facts
}

#[test]
fn the_program_is_named_not_its_wrapper() {
    let name = |command: &[&str], processes: &[_]| summary::program(&started(command, processes));
    assert_eq!(name(&["/usr/bin/env", "A=1", "nice", "pigz", "f"], &[(7, Some("pigz"), 9)]), "pigz");
    assert_eq!(
        name(&["chrt", "1", "./a-program-with-a-long-name"], &[(7, Some("a-program-with-"), 9)]),
        "a-program-with-a-long-name"
    );
    assert_eq!(name(&["sh", "-c", "exec ./server -x"], &[(7, Some("server"), 9)]), "server");
    let forks = [(7, Some("timeout"), 1), (8, Some("sort"), 99)];
    assert_eq!(name(&["timeout", "20", "sort", "-n"], &forks), "sort");
    // A program that starts others, and one that works itself beside its child, are no wrappers.
    assert_eq!(name(&["make", "-j2"], &[(7, Some("make"), 1), (8, Some("cc1"), 99)]), "make");
    assert_eq!(name(&["pool", "child"], &[(7, Some("pool"), 50), (8, Some("child"), 99)]), "pool");
    assert_eq!(name(&["./pigz"], &[(7, None, 9)]), "pigz");
}

#[test]
fn a_bad_end_is_told_at_the_top_and_a_good_one_below() {
    let mut recording = specimen::held_up();
    let ended = |recording: &mut Recording, status| {
        recording.report.facts.ending.as_mut().unwrap().status = Some(status);
        (summary::context(&recording.report.facts), summary::about(recording).join(" "))
    };
    assert!(ended(&mut recording, 139).0.ends_with("It ended with status 139 (SIGSEGV)."));
    assert!(ended(&mut recording, 3).0.ends_with("It ended with status 3."));
    let (context, about) = ended(&mut recording, 0);
    assert!(!context.contains("status") && about.contains("program ended with status 0"));
}

#[test]
fn locks_of_one_name_carry_their_process() {
    let mut recording = specimen::held_up();
    recording.report.facts.locks[0].process = Some("server (700)".to_owned());
    let screen = locks::table(&recording.report.facts, ROWS).terminal(&Style { width: 200, colour: false });
    assert!(screen.contains("g_cache_lock of server (700)"), "{screen}");
}

#[test]
fn names_are_cut_only_where_there_is_no_room() {
    let long = "cache::detail::shard_table<4096>::find_or_insert_with_eviction_of_cold_entries";
    let mut recording = specimen::held_up();
    let frame = &mut recording.report.facts.symbols[0].frame;
    frame.function = Some(long.into());
    let shown = |width| code::symbols(&recording.report.facts, ROWS).terminal(&Style { width, colour: false });
    assert!(shown(200).contains(long));
    assert!(!shown(80).contains(long));
    let pairs = pairs::table(&recording.report.facts, ROWS).terminal(&Style { width: 80, colour: false });
    assert!(!pairs.contains(".."), "{pairs}");
}
