//! Records a command (or `-p PID SECONDS`) and prints what the file holds: `record [-u] FILE COMMAND...`. CAPTURE=bpf
//! or perf chooses by what.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use holdup_record::{Backend, Detail, Options, Target, record};
use holdup_trace::{Reader, Stacks, What};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    let user = arguments.first().is_some_and(|first| first == "-u");
    if user {
        arguments.remove(0);
    }
    let output = arguments.remove(0);
    let (target, limit) = match arguments.first().map(String::as_str) {
        Some("-p") => {
            (Target::Processes(vec![arguments[1].parse()?]), Some(Duration::from_secs_f64(arguments[2].parse()?)))
        }
        _ => (Target::Command(arguments.into_iter().map(Into::into).collect()), None),
    };
    let options = Options {
        limit,
        stack_bytes: std::env::var("STACK_BYTES").map_or(Ok(512), |text| text.parse())?,
        capture: match std::env::var("CAPTURE").as_deref() {
            Ok("bpf") => Backend::Bpf,
            Ok("perf") => Backend::Perf,
            _ => Backend::Auto,
        },
        detail: if user { Detail::User } else { Detail::Allowed },
        ..Options::new(target, &output)
    };
    let outcome = record(&options, &AtomicBool::new(false))?;
    println!("{:?}\n{:?}", outcome.header.capabilities, outcome.ending);
    println!("{} events, {} bytes, notes: {:#?}", outcome.events, outcome.bytes, outcome.notes);
    let bytes = std::fs::read(&output)?;
    let mut counts: BTreeMap<&'static str, u64> = BTreeMap::new();
    let mut stacks = Stacks::new();
    let summary =
        Reader::open(&bytes)?.read(&mut stacks, &mut |event| *counts.entry(name(&event.what)).or_default() += 1);
    println!("{counts:#?}\n{} stacks, damage: {:?}", stacks.len(), summary.damage);
    Ok(())
}

fn name(what: &What) -> &'static str {
    match what {
        What::SwitchIn => "switch in",
        What::SwitchOut { stack: None, .. } => "switch out",
        What::SwitchOut { stack: Some(_), .. } => "switch out with stack",
        What::Waking { .. } => "waking",
        What::FutexWait { .. } => "futex wait",
        What::FutexReturn { stack: None, .. } => "futex return",
        What::FutexReturn { stack: Some(_), .. } => "futex return with stack",
        What::Call { .. } => "call",
        What::Sample { .. } => "sample",
        What::MajorFault { .. } => "major fault",
        What::MinorFault { .. } => "minor fault",
        What::Started { .. } => "started",
        What::Exited => "exited",
        What::Named { .. } => "named",
        What::Mapped(_) => "mapped",
        What::Lost { .. } => "lost",
        What::LockWord { .. } => "lock word",
        What::Count { .. } => "count",
        What::Usage(_) => "usage",
        What::LockFigures(_) => "lock figures",
        What::Blocked(_) => "blocked",
        What::Interpreted(_) => "interpreted",
        What::Tasks(_) => "tasks",
        What::Pointers(_) => "pointers",
    }
}
