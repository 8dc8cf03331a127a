//! What a fixture's first comment says must be found in it.

use std::fs;
use std::path::Path;

use serde_json::Value;

/// What must be found.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Expectation {
    /// The kind of the first finding; `None` if there must be none.
    pub kind: Option<String>,
    /// The lock that it names.
    pub lock: Option<String>,
    /// The variable that it names.
    pub variable: Option<String>,
    /// The function that it points to; then the line must be one of [`Expectation::lines`].
    pub place: Option<String>,
    /// Lines that are marked `HERE`.
    pub lines: Vec<u64>,
    file: String,
}

impl Expectation {
    /// Reads it from the source.
    pub fn of(source: &Path) -> Expectation {
        let text = fs::read_to_string(source).unwrap();
        let file = source.file_name().unwrap().to_str().unwrap();
        Self::parse(file, &text).unwrap_or_else(|why| panic!("{}: {why}", source.display()))
    }

    fn parse(file: &str, text: &str) -> Result<Expectation, String> {
        let comment = |line: &str| line.trim_start_matches("//!").trim_start_matches("//").trim().to_owned();
        let value = |key: &str| {
            let lines = text.lines().take_while(|line| line.starts_with("//")).map(comment);
            lines.filter_map(|line| line.strip_prefix(key).map(|rest| rest.trim().to_owned())).next()
        };
        let kind = value("expect:").ok_or("no line 'expect: KIND' in the first comment")?;
        let lines = (1..).zip(text.lines()).filter(|(_, line)| line.trim_end().ends_with("// HERE"));
        let expectation = Expectation {
            lock: value("lock:"),
            variable: value("variable:"),
            place: value("place:").filter(|place| place != "none"),
            lines: lines.map(|(number, _)| number).collect(),
            file: file.to_owned(),
            kind: (kind != "none").then_some(kind),
        };
        if expectation.place.is_some() && expectation.lines.is_empty() {
            return Err("it names a place, but no line is marked HERE".to_owned());
        }
        Ok(expectation)
    }

    /// What the report of a recording gets wrong; empty if nothing.
    pub fn mismatches(&self, report: &Value) -> Vec<String> {
        let findings = report["findings"].as_array().unwrap();
        match (&self.kind, findings.first()) {
            (None, None) => Vec::new(),
            (None, Some(_)) => vec![format!("healthy, but found: {}", list(findings))],
            (Some(kind), None) => vec![format!("{kind} was not found, nothing was")],
            (Some(kind), Some(first)) if first["kind"] != **kind => {
                vec![format!("{kind} must be first of: {}", list(findings))]
            }
            (Some(_), Some(first)) => self.wrong_details(first),
        }
    }

    fn wrong_details(&self, finding: &Value) -> Vec<String> {
        let mut wrong = Vec::new();
        for (kind, name) in [("lock", &self.lock), ("variable", &self.variable)] {
            if let Some(name) = name
                && !has_subject(finding, kind, name)
            {
                wrong.push(format!("no {kind} '{name}' among the subjects {}", finding["subjects"]));
            }
        }
        if let Some(place) = &self.place {
            wrong.extend(self.wrong_place(finding, place));
        }
        wrong
    }

    /// The innermost frame of the program, apart from the helpers that all fixtures share.
    fn wrong_place(&self, finding: &Value, place: &str) -> Option<String> {
        let call_path = finding["place"]["trail"].as_array().cloned().unwrap_or_default();
        let ours = |frame: &&Value| frame["role"] == "program" && file_name(frame) != "fixture.h";
        let Some(frame) = call_path.iter().find(ours) else {
            return Some(format!("no frame of the program in {}", frames(&call_path)));
        };
        let named = frame["function"].as_str().is_some_and(|function| is_called(function, place));
        let there =
            file_name(frame) == self.file && frame["line"].as_u64().is_some_and(|line| self.lines.contains(&line));
        let wanted = format!("{place} at {}:{:?}", self.file, self.lines);
        (!named || !there).then(|| format!("the place is not {wanted} but {}", frames(&call_path)))
    }
}

fn file_name(frame: &Value) -> &str {
    frame["file"].as_str().and_then(|file| file.rsplit('/').next()).unwrap_or_default()
}

fn has_subject(finding: &Value, kind: &str, name: &str) -> bool {
    let subjects = finding["subjects"].as_array().into_iter().flatten();
    subjects
        .filter(|subject| subject["kind"] == kind)
        .any(|subject| subject["name"].as_str().is_some_and(|text| text.contains(name)))
}

/// Whether a demangled name is this function, whatever encloses it and whatever its arguments are.
fn is_called(function: &str, name: &str) -> bool {
    let path = function.split(['(', '<']).next().unwrap_or_default();
    path == name || path.strip_suffix(name).is_some_and(|before| before.ends_with("::"))
}

fn list(findings: &[Value]) -> String {
    let one = |finding: &Value| {
        let evidence = finding["evidence"].as_array().into_iter().flatten();
        let evidence: Vec<String> = evidence.map(|one| format!("{}={}", one["name"], one["value"])).collect();
        format!(
            "\n    {} {} {} {}\n      {}",
            finding["kind"],
            finding["severity_share"],
            finding["subjects"],
            finding["place"]["place"],
            evidence.join(" ")
        )
    };
    findings.iter().map(one).collect()
}

fn frames(call_path: &[Value]) -> String {
    let one = |frame: &Value| {
        format!(
            "\n    {} {}:{} ({}, {})",
            frame["function"],
            file_name(frame),
            frame["line"],
            frame["module"],
            frame["role"]
        )
    };
    call_path.iter().map(one).collect()
}

#[test]
fn an_expectation_is_read_from_the_first_comment_alone() {
    let text =
        "// Words.\n//\n// expect: hot-lock\n// lock: g\n// place: f\nint f; // HERE\n\n// lock: no\nx(); // HERE\n";
    let expectation = Expectation::parse("a.c", text).unwrap();
    assert_eq!(expectation.kind.as_deref(), Some("hot-lock"));
    assert_eq!(expectation.lock.as_deref(), Some("g"));
    assert_eq!(expectation.place.as_deref(), Some("f"));
    assert_eq!(expectation.lines, [6, 9]);
    assert_eq!(Expectation::parse("a.c", "// expect: none\n").unwrap().kind, None);
    assert!(Expectation::parse("a.c", "// nothing\n").is_err());
    assert!(Expectation::parse("a.c", "// expect: hot-lock\n// place: f\n").is_err());
}

#[test]
fn a_mismatch_is_seen() {
    let text = "// expect: hot-lock\n// lock: g_lock\n// place: take\nx(); // HERE\n";
    let expectation = Expectation::parse("a.c", text).unwrap();
    let report = |kind: &str, lock: &str, function: &str, line: u64| {
        serde_json::json!({ "findings": [{
            "kind": kind,
            "subjects": [{ "kind": "lock", "name": lock }],
            "place": { "trail": [
                { "function": "pthread_mutex_lock", "role": "lock", "file": null, "line": null },
                { "function": function, "role": "program", "file": "/src/a.c", "line": line },
            ] },
        }] })
    };
    let wrong = |report: Value| expectation.mismatches(&report).len();
    assert_eq!(wrong(report("hot-lock", "mutex g_lock", "app::take(int)", 4)), 0);
    assert_eq!(wrong(report("hot-lock", "mutex g_lock", "mistake", 4)), 1);
    assert_eq!(wrong(report("hot-lock", "mutex g_lock", "take", 5)), 1);
    assert_eq!(wrong(report("hot-lock", "another", "take", 5)), 2);
    assert_eq!(wrong(report("ping-pong", "g_lock", "take", 4)), 1);
    assert_eq!(wrong(serde_json::json!({ "findings": [] })), 1);
    let healthy = Expectation::parse("a.c", "// expect: none\n").unwrap();
    assert_eq!(healthy.mismatches(&report("hot-lock", "g_lock", "take", 4)).len(), 1);
    assert!(healthy.mismatches(&serde_json::json!({ "findings": [] })).is_empty());
}
