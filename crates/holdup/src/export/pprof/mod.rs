//! A profile in pprof's format, for `go tool pprof` and for stores of profiles (Pyroscope, Parca and others).
//!
//! Each sample is a thread at a place, with five values: contended waits and how long they were, by where the lock was
//! waited for; time off the CPU for any reason; CPU samples and the time that they stand for. Functions are named here,
//! so that a reader needs no binaries. Threads, states and locks are labels.

mod proto;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::io::{self, Write};

use flate2::Compression;
use flate2::write::GzEncoder;
use holdup_analyze::{Facts, Frame, Report};
use prost::Message as _;

use super::stacks::{self, Spent, What};
use super::{frame_name, timeline};
use crate::recording::name;
use crate::text;
use proto::{Function, Label, Line, Location, Mapping, Profile, Sample, ValueType};

/// What is told of each sample, with its unit, in the order of [`values`].
const SAMPLE_TYPES: [(&str, &str); 5] = [
    ("contentions", "count"),
    ("delay", "nanoseconds"),
    ("off_cpu", "nanoseconds"),
    ("samples", "count"),
    ("cpu", "nanoseconds"),
];

/// What readers show first.
const SHOWN_FIRST: &str = "delay";

/// The same where nothing was waited for.
const SHOWN_ELSE: &str = "cpu";

/// Writes the profile, compressed.
///
/// # Errors
/// `out` fails, or the analysis kept no timeline.
pub fn write(report: &Report, out: &mut dyn Write) -> io::Result<()> {
    let facts = &report.facts;
    let spent = stacks::all(facts, timeline(report)?);
    let mut maker = Maker::new();
    maker.describe(facts, &spent);
    for one in &spent {
        maker.sample(facts, one);
    }
    let mut zipped = GzEncoder::new(out, Compression::default());
    zipped.write_all(&maker.profile.encode_to_vec())?;
    zipped.finish()?;
    Ok(())
}

fn values(spent: &Spent<'_>) -> [u64; SAMPLE_TYPES.len()] {
    match spent.what {
        What::Ran => [0, 0, 0, spent.count, spent.ns],
        what if what.is_contention() => [spent.count, spent.ns, spent.ns, 0, 0],
        What::Off(..) => [0, 0, spent.ns, 0, 0],
    }
}

/// The profile under way; its tables have each entry once.
struct Maker {
    profile: Profile,
    strings: HashMap<String, i64>,
    mappings: HashMap<String, u64>,
    functions: HashMap<(i64, i64), u64>,
    locations: HashMap<(u64, u64, Vec<Line>), u64>,
}

impl Maker {
    fn new() -> Maker {
        let mut maker = Maker {
            profile: Profile::default(),
            strings: HashMap::new(),
            mappings: HashMap::new(),
            functions: HashMap::new(),
            locations: HashMap::new(),
        };
        maker.string("");
        maker
    }

    fn describe(&mut self, facts: &Facts, spent: &[Spent<'_>]) {
        self.profile.sample_type = SAMPLE_TYPES.map(|(name, unit)| self.value_type(name, unit)).to_vec();
        let waited = spent.iter().any(|one| one.what.is_contention());
        self.profile.default_sample_type = self.string(if waited { SHOWN_FIRST } else { SHOWN_ELSE });
        self.profile.period_type = Some(self.value_type("cpu", "nanoseconds"));
        self.profile.period = signed(facts.header.sample_period_ns);
        self.profile.time_nanos = signed(facts.header.began_unix_s.saturating_mul(1_000_000_000));
        self.profile.duration_nanos = signed(facts.span_ns());
        let command = text::clean(&facts.header.target.command.join(" "));
        for comment in [text::clean(&facts.header.producer), command].iter().filter(|text| !text.is_empty()) {
            let comment = self.string(comment);
            self.profile.comment.push(comment);
        }
        // Readers take the first file for the program's own.
        if let Some(program) = facts.processes.first().and_then(|process| process.program.as_deref()) {
            self.mapping(program);
        }
    }

    fn sample(&mut self, facts: &Facts, spent: &Spent<'_>) {
        let values = values(spent);
        if values.iter().all(|value| *value == 0) {
            return;
        }
        let location_id = match spent.call_path {
            [] => vec![self.nowhere(&format!("[{}]", spent.what.text(facts)))],
            path => self.call_path(path),
        };
        let thread = &facts.threads[spent.thread];
        let mut label = vec![
            self.label("thread", &text::clean(name::thread_name(facts, thread))),
            Label { key: self.string("tid"), num: i64::from(thread.tid.0), str: 0 },
            self.label("state", spent.what.state()),
        ];
        if let What::Off(_, Some(lock)) = spent.what
            && let Some(lock) = facts.lock(lock)
        {
            label.push(self.label("lock", &name::lock(lock)));
        }
        // A label without a text would be one with the number 0.
        label.retain(|label| label.str != 0 || label.num != 0);
        self.profile.sample.push(Sample { location_id, value: values.map(signed).to_vec(), label });
    }

    /// Frames that were inlined into one are one location.
    fn call_path(&mut self, path: &[Frame]) -> Vec<u64> {
        let mut ids = Vec::new();
        let mut lines = Vec::new();
        for (index, frame) in path.iter().enumerate() {
            let file = frame.file.as_deref().map(text::clean).unwrap_or_default();
            let function_id = self.function(&frame_name(frame), &file);
            lines.push(Line { function_id, line: i64::from(frame.line.unwrap_or(0)) });
            if !frame.inlined || index + 1 == path.len() {
                let mapping_id = self.mapping(&frame.module);
                ids.push(self.location(mapping_id, frame.offset, std::mem::take(&mut lines)));
            }
        }
        ids
    }

    /// A location that only says what a thread did.
    fn nowhere(&mut self, text: &str) -> u64 {
        let function_id = self.function(text, "");
        let mapping_id = self.mapping("[unknown]");
        self.location(mapping_id, 0, vec![Line { function_id, line: 0 }])
    }

    fn location(&mut self, mapping_id: u64, address: u64, line: Vec<Line>) -> u64 {
        let next = self.profile.location.len() as u64 + 1;
        let id = *self.locations.entry((mapping_id, address, line.clone())).or_insert(next);
        if id == next {
            self.profile.location.push(Location { id, mapping_id, address, line });
        }
        id
    }

    fn function(&mut self, function: &str, file: &str) -> u64 {
        let (name, filename) = (self.string(function), self.string(file));
        let next = self.profile.function.len() as u64 + 1;
        let id = *self.functions.entry((name, filename)).or_insert(next);
        if id == next {
            self.profile.function.push(Function { id, name, system_name: name, filename });
        }
        id
    }

    fn mapping(&mut self, module: &str) -> u64 {
        let next = self.profile.mapping.len() as u64 + 1;
        let id = *self.mappings.entry(module.to_owned()).or_insert(next);
        if id == next {
            let filename = self.string(&text::clean(module));
            // Everything is named: nobody needs to look for the files.
            self.profile.mapping.push(Mapping {
                id,
                filename,
                has_functions: true,
                has_filenames: true,
                has_line_numbers: true,
                has_inline_frames: true,
            });
        }
        id
    }

    fn value_type(&mut self, name: &str, unit: &str) -> ValueType {
        ValueType { r#type: self.string(name), unit: self.string(unit) }
    }

    fn label(&mut self, key: &str, text: &str) -> Label {
        Label { key: self.string(key), str: self.string(text), num: 0 }
    }

    fn string(&mut self, text: &str) -> i64 {
        let next = self.profile.string_table.len() as i64;
        let index = *self.strings.entry(text.to_owned()).or_insert(next);
        if index == next {
            self.profile.string_table.push(text.to_owned());
        }
        index
    }
}

/// What has no room is the largest.
fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
