//! Recording a command from its first instruction on.

use std::ffi::OsString;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use holdup_trace::{Event, Header, NO_CPU, Pid, Tid, What};

use super::assemble::Assembler;
use super::bpf::Capture;
use super::drain::{LeftBehind, Recording, Scribe, Store, Watched};
use super::frame::{Means, More, finish, header, manner, means, watched};
use super::merge::Merge;
use super::perf::Linux;
use super::plan::Begin;
use super::session::Session;
use super::watch::Outlook;
use super::{machine, refusal, target};
use crate::{Error, Options, Outcome};

/// Records it, by events or by programs inside the kernel, to its end or until it is to stop.
pub fn record_command(
    options: &Options,
    command: &[OsString],
    bpf: Option<Capture>,
    store: Store,
    stop: &AtomicBool,
    more: &More<'_>,
) -> Result<Outcome, Error> {
    let cpus = machine::online_cpus();
    let mut means = means(options, bpf)?;
    let _ids = std::mem::take(&mut means.ids);
    // The command is made before the recorder changes anything that it would inherit: limits, slices.
    let waiting = target::prepare(command, &options.environment, options.silent)?;
    machine::raise_open_files();
    let pid = waiting.pid;
    let mut assembler = Assembler::new(&cpus);
    assembler.look_whether(target::executes);
    match open_command(options, &cpus, means, pid, store, &mut assembler) {
        Ok((session, header, sink)) => {
            let process = waiting.go()?;
            let deadline = options.limit.map(|limit| Instant::now() + limit);
            let scribe = Scribe::new(assembler, Merge::new(session.lanes()), sink);
            let left_behind = LeftBehind::new(options.left_behind);
            let processes = std::slice::from_ref(&process);
            let recording = Recording { session, processes, stop, deadline, left_behind };
            finish(&options.output, recording, scribe, header, more)
        }
        Err(error) => {
            waiting.abandon();
            Err(error)
        }
    }
}

/// Opens the events of a process that will become the command, and begins the file.
fn open_command(
    options: &Options,
    cpus: &[u16],
    means: Means,
    pid: u32,
    store: Store,
    assembler: &mut Assembler,
) -> Result<(Session<Linux>, Header, Watched), Error> {
    let open = || {
        let mut session = Session::new(Linux, cpus, means.specs, manner(options, Begin::OnExec), options.buffer_kib)?;
        session.bpf = means.bpf;
        session.open_everybody(&mut |id, kind| assembler.know(id, kind))?;
        session.open(pid, &mut |id, kind| assembler.know(id, kind))?;
        Ok(session)
    };
    let mut session = open().map_err(|error| refusal::of(error, pid))?;
    if let Some(bpf) = &mut session.bpf {
        bpf.follow(pid).map_err(refusal::of_bpf)?;
        assembler.expect_everybody();
    }
    assembler.await_execution(pid);
    let outlook = Outlook::open(&[pid], &[pid], cpus, true);
    let header = header(options, &session, &outlook, cpus, &[pid]);
    session.notes.extend_from_slice(&outlook.notes);
    let failed = |why| Error::File { path: options.output.clone(), why };
    let mut sink = watched(options, store, &header, outlook, &mut session).map_err(failed)?;
    let started = What::Started { pid: Pid(pid), parent: None };
    let started = Event { time_ns: header.began_ns, tid: Tid(pid), cpu: NO_CPU, what: started };
    assembler.outside(&started, &mut sink).map_err(failed)?;
    Ok((session, header, sink))
}
