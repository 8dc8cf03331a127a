//! Recording processes that run already: all their threads, and those that they make meanwhile.

use std::sync::atomic::AtomicBool;
use std::time::Instant;

use rustc_hash::FxHashSet;

use super::assemble::Assembler;
use super::bpf::Capture;
use super::decode::{self, Record};
use super::drain::{LeftBehind, Recording, Scribe, Store};
use super::frame::{More, finish, header, manner, means, watched};
use super::merge::Merge;
use super::perf::Linux;
use super::plan::Begin;
use super::session::{OpenError, Session};
use super::snapshot;
use super::target::Process;
use super::watch::Outlook;
use super::{blocked, builds, machine, refusal, target};
use crate::{Error, Options, Outcome};

/// Records processes, by events or by programs inside the kernel, until all have ended, the time is over, or the user
/// stops it.
pub fn record_processes(
    options: &Options,
    pids: &[u32],
    bpf: Option<Capture>,
    store: Store,
    stop: &AtomicBool,
    more: &More<'_>,
) -> Result<Outcome, Error> {
    let (processes, ended) = target::open_all(pids)?;
    let pids = &processes.iter().map(Process::pid).collect::<Vec<_>>();
    let first = *pids.first().ok_or(Error::NoProcess(0))?;
    let cpus = machine::online_cpus();
    let means = means(options, bpf)?;
    machine::raise_open_files();
    let mut assembler = Assembler::new(&cpus);
    assembler.look_whether(target::executes);
    let session = Session::new(Linux, &cpus, means.specs, manner(options, Begin::Later), options.buffer_kib);
    let mut session = session.map_err(|error| refusal::of(error, first))?;
    session.bpf = means.bpf;
    let mut merge = Merge::new(session.lanes());
    session.open_everybody(&mut |id, kind| assembler.know(id, kind)).map_err(|error| refusal::of(error, first))?;
    for &pid in pids {
        match open_threads(&mut session, pid, &mut assembler, &mut merge) {
            // The others are there.
            Err(OpenError::Gone) if pids.len() > 1 => {}
            opened => opened.map_err(|error| refusal::of(error, pid))?,
        }
    }
    if let Some(bpf) = &mut session.bpf {
        pids.iter().try_for_each(|pid| bpf.follow(*pid)).map_err(refusal::of_bpf)?;
        assembler.expect_everybody();
    }
    let threads = || pids.iter().flat_map(|pid| snapshot::threads(*pid));
    let outlook = Outlook::open(pids, &threads().collect::<Vec<_>>(), &cpus, false);
    let header = header(options, &session, &outlook, &cpus, pids);
    session.notes.extend_from_slice(&outlook.notes);
    session.notes.extend(ended.into_iter().chain(left_out(pids)));
    // What happened while threads were attached to one by one is left out: it would show some threads and not others.
    merge.discard(header.began_ns);
    let failed = |why| Error::File { path: options.output.clone(), why };
    let mut sink = watched(options, store, &header, outlook, &mut session).map_err(failed)?;
    let present = pids.iter().flat_map(|pid| {
        let mut events = snapshot::of_process(*pid, header.began_ns);
        builds::add_to_events(*pid, &mut events);
        events
    });
    for event in present {
        assembler.outside(&event, &mut sink).map_err(failed)?;
    }
    session.drain(|lane, parts| merge.add(lane, parts));
    let each = pids.iter().flat_map(|pid| snapshot::threads(*pid).into_iter().map(move |tid| (*pid, tid)));
    let blocked: Vec<_> = each.filter_map(|(pid, tid)| blocked::of_thread(pid, tid)).collect();
    session.enable(|lane, parts| merge.add(lane, parts));
    session.drain(|lane, parts| merge.add(lane, parts));
    let ran = assembler.ran(merge.waiting());
    for event in blocked::events(blocked, &ran, |still| assembler.still(still, &mut sink), header.began_ns) {
        assembler.outside(&event, &mut sink).map_err(failed)?;
    }
    let deadline = options.limit.map(|limit| Instant::now() + limit);
    let left_behind = LeftBehind::new(options.left_behind);
    let recording = Recording { session, processes: &processes, stop, deadline, left_behind };
    finish(&options.output, recording, Scribe::new(assembler, merge, sink), header, more)
}

/// Children that run already and are not recorded: nobody asked for them.
pub fn left_out(pids: &[u32]) -> Option<String> {
    let count = |pid: &u32| snapshot::children(*pid).iter().filter(|child| !pids.contains(child)).count();
    let (pid, count) = pids.iter().map(|pid| (*pid, count(pid))).find(|(_, count)| *count > 0)?;
    let have = match count {
        1 => "1 child process, which is".to_owned(),
        n => format!("{n} child processes, which are"),
    };
    Some(format!(
        "process {pid} had {have} not recorded (those it starts from now on are); 'pgrep -P {pid}' lists them, and \
         --children records them too"
    ))
}

/// Opens the events of all threads, until no thread is found that nobody records.
fn open_threads(
    session: &mut Session<Linux>,
    pid: u32,
    assembler: &mut Assembler,
    merge: &mut Merge,
) -> Result<(), OpenError> {
    let mut known: FxHashSet<u32> = FxHashSet::default();
    loop {
        let new: Vec<u32> = snapshot::threads(pid).into_iter().filter(|tid| !known.contains(tid)).collect();
        if new.is_empty() {
            return if known.is_empty() { Err(OpenError::Gone) } else { Ok(()) };
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
