//! Recording a process that runs already: all its threads, and those that they make meanwhile.

use std::fs::File;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use rustc_hash::FxHashSet;

use super::assemble::Assembler;
use super::decode::{self, Record};
use super::drain::{Recording, Scribe};
use super::frame::{More, finish, header, manner, means, watched};
use super::merge::Merge;
use super::perf::Linux;
use super::plan::Begin;
use super::session::{OpenError, Session};
use super::snapshot;
use super::target::Process;
use super::watch::Outlook;
use super::{blocked, machine, refusal};
use crate::{Error, Options, Outcome};

/// Records a process until it ends, the time is over, or the user stops it.
pub fn record_process(
    options: &Options,
    pid: u32,
    file: File,
    stop: &AtomicBool,
    more: &More<'_>,
) -> Result<Outcome, Error> {
    let process = Process::open(pid)?;
    let cpus = machine::online_cpus();
    let means = means(options, cpus.len())?;
    machine::raise_open_files();
    let mut assembler = Assembler::new(&cpus);
    let session = Session::new(Linux, &cpus, means.specs, manner(options, Begin::Later), options.buffer_kib);
    let mut session = session.map_err(|error| refusal::of(error, pid))?;
    session.bpf = means.bpf;
    session.notes.extend(means.note);
    let mut merge = Merge::new(session.lanes());
    let session = open_threads(session, pid, &mut assembler, &mut merge);
    let mut session = session.map_err(|error| refusal::of(error, pid))?;
    if let Some(bpf) = &mut session.bpf {
        bpf.follow(pid).map_err(refusal::of_bpf)?;
        assembler.expect_everybody();
    }
    let outlook = Outlook::open(pid, &snapshot::threads(pid), &cpus, false);
    let header = header(options, &session, &outlook, &cpus, pid);
    session.notes.extend_from_slice(&outlook.notes);
    session.notes.extend(left_out(pid, snapshot::children(pid)));
    // What happened while threads were attached to one by one is left out: it would show some threads and not others.
    merge.discard(header.began_ns);
    let failed = |why| Error::File { path: options.output.clone(), why };
    let mut sink = watched(file, &header, outlook, &mut session).map_err(failed)?;
    for event in snapshot::of_process(pid, header.began_ns) {
        assembler.outside(&event, &mut sink).map_err(failed)?;
    }
    session.drain(|lane, parts| merge.add(lane, parts));
    let blocked: Vec<_> = snapshot::threads(pid).into_iter().filter_map(blocked::of_thread).collect();
    session.enable(|lane, parts| merge.add(lane, parts));
    session.drain(|lane, parts| merge.add(lane, parts));
    for event in blocked::events(blocked, &merge, &assembler, header.began_ns) {
        assembler.outside(&event, &mut sink).map_err(failed)?;
    }
    let deadline = options.limit.map(|limit| Instant::now() + limit);
    let recording = Recording { session, process: &process, stop, deadline };
    finish(&options.output, recording, Scribe::new(assembler, merge, sink), header, more)
}

/// Processes of the same program that run already, as servers with a process per connection have them.
fn left_out(pid: u32, children: usize) -> Option<String> {
    let have = match children {
        0 => return None,
        1 => "1 child process, which is".to_owned(),
        n => format!("{n} child processes, which are"),
    };
    Some(format!(
        "process {pid} had {have} not recorded (those it starts from now on are); 'pgrep -P {pid}' lists them, and -p \
         records one"
    ))
}

/// Opens the events of all threads, until no thread is found that nobody records.
fn open_threads(
    mut session: Session<Linux>,
    pid: u32,
    assembler: &mut Assembler,
    merge: &mut Merge,
) -> Result<Session<Linux>, OpenError> {
    let mut known: FxHashSet<u32> = FxHashSet::default();
    session.open_everybody(&mut |id, kind| assembler.know(id, kind))?;
    loop {
        let new: Vec<u32> = snapshot::threads(pid).into_iter().filter(|tid| !known.contains(tid)).collect();
        if new.is_empty() {
            return if known.is_empty() { Err(OpenError::Gone) } else { Ok(session) };
        }
        for tid in new {
            // A thread that a recorded thread has made is recorded already.
            session.drain(|lane, parts| {
                note_born(parts, &mut known);
                merge.add(lane, parts);
            });
            if !known.insert(tid) {
                continue;
            }
            match session.open(tid, &mut |id, kind| assembler.know(id, kind)) {
                Ok(()) | Err(OpenError::Gone) => {}
                Err(error) => return Err(error),
            }
        }
    }
}

fn note_born(parts: [&[u8]; 2], known: &mut FxHashSet<u32>) {
    let bytes = parts.concat();
    let mut rest = &bytes[..];
    while let Some(len) = decode::length(rest) {
        let (record, behind) = rest.split_at(len);
        if let Some(Record::Fork { tid, .. }) = decode::record(record) {
            known.insert(tid);
        }
        rest = behind;
    }
}
