//! How a recording begins and ends, be it of a command or of a process that ran already.

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use holdup_trace::{Capabilities, Ending, Event, Header};

use super::assemble::Kind;
use super::bpf::Capture;
use super::chosen::Chosen;
use super::drain::{self, Finish, Recording, Scribe, Store, Watched};
use super::held::Files;
use super::ids::{self, Ids};
use super::perf::Linux;
use super::plan::{self, Begin, Manner, Spec};
use super::session::Session;
use super::target::{Ended, Process};
use super::watch::{Outlook, Watch};
use super::{machine, refusal, signals};
use crate::{Error, Options, Outcome, Target};

/// Events that are known at the end of the recording of these processes, dated with the time given.
pub type More<'a> = dyn Fn(u64, &[u32]) -> Vec<Event> + Sync + 'a;

/// Begins to write or to keep, and to watch.
pub fn watched(
    options: &Options,
    store: Store,
    header: &Header,
    outlook: Outlook,
    session: &mut Session<Linux>,
) -> io::Result<Watched> {
    let learner = session.bpf.as_mut().and_then(Capture::learner);
    let (watch, chosen) = (Watch::begin(outlook.counters.ok(), header), Chosen::new(options.threads.clone()));
    Ok(Watched { store: store.begin(header)?, watch, learner, chosen, held: Files::default() })
}

/// Runs a recording to its end and closes its file.
pub fn finish(
    output: &Path,
    mut recording: Recording<'_, Linux>,
    scribe: Scribe,
    header: Header,
    more: &More<'_>,
) -> Result<Outcome, Error> {
    let (finish, scribe) = drain::run(&mut recording, scribe);
    let Recording { session, processes, stop, .. } = recording;
    let Scribe { mut assembler, mut sink, .. } = scribe;
    let mut notes = session.notes.clone();
    let spent_ns = session.spent_ns();
    drop(session);
    notes.extend(left_note(&finish));
    notes.extend(sink.chosen.note());
    let mut ending = ending(finish.reason.clone(), finish.ended, assembler.lost());
    ending.recorder_cpu_ns += spent_ns;
    // If the file takes no more, these are missing as well.
    let _ = more(ending.ended_ns, &header.target.pids).iter().try_for_each(|event| assembler.outside(event, &mut sink));
    // What was recorded in a moment meets a full disk only here.
    let (bytes, written) = sink.store.finish(&ending, output);
    if let Err(error) = written {
        ending.reason = drain::unwritten(&error);
    }
    notes.extend(outlived(processes, &finish, stop, &mut ending));
    Ok(Outcome { header, ending, events: sink.chosen.events(), bytes, notes, held: sink.held.into_files() })
}

/// Waits for a command that outlives its recording, or says that it goes on. It may take long: the file is whole
/// before.
pub fn outlived(processes: &[Process], finish: &Finish, stop: &AtomicBool, ending: &mut Ending) -> Option<String> {
    let [process] = processes else { return None };
    if !process.is_child() || finish.ended.is_some() {
        return None;
    }
    match wait_for(process, stop) {
        Some(ended) => set_ended(ending, ended),
        None => return Some(format!("the command goes on as process {}", process.pid)),
    }
    None
}

/// Waits for a command that outlives its recording; `None` if the user does not want to.
fn wait_for(process: &Process, stop: &AtomicBool) -> Option<Ended> {
    while !stop.load(Ordering::Relaxed) {
        if machine::poll(&[process.descriptor()], Duration::from_millis(100)).contains(&true) {
            return process.ended(true);
        }
    }
    signals::pass_on(process);
    process.ended(false)
}

pub fn left_note(finish: &Finish) -> Option<String> {
    (finish.ended.is_some() && finish.left > 0)
        .then(|| format!("{} threads of processes that the command left behind go on", finish.left))
}

pub fn ending(reason: String, ended: Option<Ended>, lost: u64) -> Ending {
    let mut ending = Ending {
        ended_ns: machine::now_ns(),
        reason,
        lost,
        recorder_cpu_ns: machine::own_cpu_ns(),
        ..Ending::default()
    };
    if let Some(ended) = ended {
        set_ended(&mut ending, ended);
    }
    ending
}

fn set_ended(ending: &mut Ending, ended: Ended) {
    ending.status = Some(ended.status);
    ending.voluntary = Some(ended.voluntary);
    ending.involuntary = Some(ended.involuntary);
    ending.user_ns = Some(ended.user_ns);
    ending.kernel_ns = Some(ended.kernel_ns);
    ending.faults = Some(ended.faults);
}

pub fn manner(options: &Options, begin: Begin) -> Manner {
    Manner { begin, stack_bytes: options.stack_bytes, build_ids: true }
}

/// What is asked of the kernel.
pub struct Means {
    /// Programs inside the kernel, where they are wanted and can be.
    pub bpf: Option<Capture>,
    /// Events.
    pub specs: Vec<Spec>,
    /// What keeps tracepoints cheap to close.
    pub ids: Ids,
}

/// The events that are needed without or beside programs inside the kernel.
///
/// # Errors
/// No event can be opened.
pub fn means(options: &Options, bpf: Option<Capture>) -> Result<Means, Error> {
    if bpf.is_some() {
        return Ok(Means { bpf, specs: plan::beside_bpf(options), ids: Ids::default() });
    }
    let (specs, ids) = specs(options)?;
    Ok(Means { bpf, specs, ids })
}

fn specs(options: &Options) -> Result<(Vec<Spec>, Ids), Error> {
    let ids = ids::find(&plan::tracepoints()).map_err(refusal::of_discovery)?;
    let foreign_numbers = !machine::in_first_pid_namespace();
    let specs = plan::plan(options, foreign_numbers, |name| ids.get(name).map(u64::from));
    Ok((specs, ids))
}

/// What is recorded.
pub fn target(options: &Options, pids: &[u32]) -> holdup_trace::Target {
    let command = match &options.target {
        Target::Command(command) => command.iter().map(|word| word.to_string_lossy().into_owned()).collect(),
        Target::Processes(_) => Vec::new(),
    };
    let attached = matches!(options.target, Target::Processes(_));
    holdup_trace::Target { attached, command, pids: pids.to_vec() }
}

pub fn header(options: &Options, session: &Session<Linux>, outlook: &Outlook, cpus: &[u16], pids: &[u32]) -> Header {
    let samples = session.has(|spec| spec.kind == Kind::Sample);
    Header {
        producer: format!("holdup {}{}", env!("CARGO_PKG_VERSION"), if session.bpf.is_some() { " by BPF" } else { "" }),
        began_unix_s: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()),
        began_ns: machine::now_ns(),
        machine: machine::facts(cpus.len()),
        target: target(options, pids),
        capabilities: Capabilities {
            hardware: outlook.counters.is_ok(),
            lock_words: outlook.words,
            ..capabilities(session)
        },
        sample_period_ns: if samples { 1_000_000_000 / u64::from(options.sample_hz.max(1)) } else { 0 },
        stack_bytes: options.stack_bytes,
        futex_zero_period: plan::ZERO_PERIOD,
        look_period_ns: 0,
        start_cpu_ns: machine::own_cpu_ns(),
        no_counters: outlook.counters.as_ref().err().cloned(),
    }
}

fn capabilities(session: &Session<Linux>) -> Capabilities {
    let has = |kind| session.has(|spec| spec.kind == kind);
    let bpf = session.bpf.is_some();
    Capabilities {
        switches: true,
        switch_reasons: bpf || has(Kind::Switch),
        wakings: bpf || has(Kind::Waking),
        foreign_wakings: bpf || has(Kind::Waking),
        futexes: bpf || has(Kind::FutexWait) && has(Kind::FutexReturn),
        calls: bpf || has(Kind::Call),
        samples: has(Kind::Sample),
        kernel: session.has(|spec| spec.kind == Kind::Sample && spec.kernel),
        faults: has(Kind::MajorFault),
        ..Capabilities::default()
    }
}
