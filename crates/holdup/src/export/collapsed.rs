//! Stacks as flame graphs take them (flamegraph.pl, speedscope, inferno): a line for each, outermost function first,
//! then the nanoseconds spent in it. A last frame in brackets says what a thread was off the CPU for.

use std::collections::BTreeMap;
use std::io::{self, Write};

use holdup_analyze::Report;

use super::stacks::{self, Spent, What};
use super::{call_path_text, timeline};
use crate::recording::name;
use crate::text;

/// Which of the threads' time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Part {
    /// On and off the CPU.
    #[default]
    All,
    /// In waits for locks.
    Lock,
    /// Off the CPU.
    OffCpu,
    /// On the CPU, by CPU samples.
    Cpu,
}

impl Part {
    fn has(self, what: What) -> bool {
        match self {
            Part::All => true,
            Part::Lock => what.is_contention(),
            Part::OffCpu => what != What::Ran,
            Part::Cpu => what == What::Ran,
        }
    }
}

/// Writes the stacks, in the order of their text. Threads of one name but for a number at its end are one.
///
/// # Errors
/// `out` fails, or the analysis kept no timeline.
pub fn write(report: &Report, part: Part, out: &mut dyn Write) -> io::Result<()> {
    let mut lines: BTreeMap<String, u64> = BTreeMap::new();
    for spent in stacks::all(&report.facts, timeline(report)?).iter().filter(|spent| part.has(spent.what)) {
        *lines.entry(line(report, spent)).or_default() += spent.ns;
    }
    lines.iter().filter(|(_, ns)| **ns > 0).try_for_each(|(stack, ns)| writeln!(out, "{stack} {ns}"))
}

fn line(report: &Report, spent: &Spent<'_>) -> String {
    let facts = &report.facts;
    let thread = &facts.threads[spent.thread];
    let name = name::without_number(&text::clean(name::thread_name(facts, thread)));
    let mut frames = vec![if name.is_empty() { "thread".to_owned() } else { frame(&name) }];
    if facts.processes.len() > 1 {
        let process = facts.processes.iter().find(|process| process.pid == thread.pid);
        frames.insert(0, process.map_or_else(|| "process".to_owned(), |process| frame(&text::clean(&process.name))));
    }
    if !spent.call_path.is_empty() {
        frames.push(call_path_text(spent.call_path));
    }
    if spent.what != What::Ran {
        frames.push(format!("[{}]", frame(&spent.what.text(facts))));
    }
    frames.join(";")
}

/// A frame of its own, whatever stands in it.
fn frame(text: &str) -> String {
    text.replace(';', ":")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::export::specimen::{contradictory, report};

    fn lines(report: &Report, part: Part) -> Vec<String> {
        let mut out = Vec::new();
        write(report, part, &mut out).unwrap();
        String::from_utf8(out).unwrap().lines().map(str::to_owned).collect()
    }

    fn sum(lines: &[String]) -> u64 {
        lines.iter().map(|line| line.rsplit_once(' ').unwrap().1.parse::<u64>().unwrap()).sum()
    }

    #[test]
    fn a_line_tells_thread_call_path_and_what_was_waited_for() {
        // Four rounds of 100 us: main waits 50 us for the lock and 10 us for a CPU in each, and has a sample of 1 ms.
        let lines = lines(&report(4), Part::Lock);
        assert_eq!(lines.len(), 1, "{lines:#?}");
        let (stack, ns) = lines[0].rsplit_once(' ').unwrap();
        assert_eq!(ns, "240000");
        assert!(stack.starts_with("main;main;x+0x1000;a\"b"), "{stack}");
        assert!(stack.ends_with(";[waits for g_lock]"), "{stack}");
    }

    #[test]
    fn the_parts_add_up_to_all_and_names_make_no_frames() {
        let report = report(8);
        let [all, off, cpu] = [Part::All, Part::OffCpu, Part::Cpu].map(|part| lines(&report, part));
        assert_eq!(sum(&all), sum(&off) + sum(&cpu));
        assert_eq!(sum(&cpu), 16 * 1_000_000);
        for line in all {
            let clean = line.chars().all(|c| !c.is_control());
            assert!(clean && line.rsplit_once(' ').unwrap().1.parse::<u64>().is_ok(), "{line}");
        }
    }

    #[test]
    fn a_report_that_contradicts_itself_is_written_too() {
        lines(&contradictory(), Part::All);
        assert!(write(&Report::default(), Part::All, &mut Vec::new()).is_err(), "without a timeline");
    }
}
