//! Linux: perf_event_open and /proc.
#![allow(
    unsafe_code,
    reason = "the kernel's interface: perf_event_open, its rings, and what the standard library lacks"
)]

mod assemble;
mod attach;
mod blocked;
mod counters;
mod decode;
mod drain;
pub mod ids;
mod looks;
mod machine;
mod merge;
mod perf;
mod plan;
mod probe;
mod reduce;
mod refusal;
mod rights;
mod ring;
mod session;
pub mod signals;
mod snapshot;
mod target;
mod watch;
mod words;

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use holdup_trace::{Ending, Event, Grade, Header, NO_CPU, Pid, Tid, What, Writer};

use self::drain::{Finish, Recording, Scribe, Watched};
use self::ids::Ids;
use self::perf::Linux;
use self::plan::{Begin, Manner, Spec};
use self::session::Session;
use self::target::{Ended, Process};
use self::watch::{Outlook, Watch};
use crate::{Error, Options, Outcome, Target};
use assemble::{Assembler, Kind};
use merge::Merge;

pub use self::rights::probe;

/// Records as the options say.
pub fn record(options: &Options, stop: &AtomicBool, more: &More<'_>) -> Result<Outcome, Error> {
    if !cfg!(target_arch = "x86_64") {
        return Err(Error::Refused(
            "recording needs an x86-64 machine so far; reports of recordings made there work here".into(),
        ));
    }
    // A thread of its own, because it asks the scheduler for shorter slices than its caller may want.
    thread::scope(|scope| {
        let recorder = scope.spawn(|| record_here(options, stop, more));
        recorder.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Events that are known at the end, dated with the time given.
type More<'a> = dyn Fn(u64) -> Vec<Event> + Sync + 'a;

fn record_here(options: &Options, stop: &AtomicBool, more: &More<'_>) -> Result<Outcome, Error> {
    let file = create(&options.output)?;
    let outcome = match &options.target {
        Target::Command(command) => record_command(options, command, file, stop, more),
        Target::Process(pid) => attach::record_process(options, *pid, file, stop, more),
    };
    if outcome.is_err() {
        // It is ours, it is new, and it says nothing.
        let _ = fs::remove_file(&options.output);
    }
    outcome
}

fn create(path: &Path) -> Result<File, Error> {
    File::create_new(path).map_err(|why| Error::File { path: path.into(), why })
}

fn record_command(
    options: &Options,
    command: &[OsString],
    file: File,
    stop: &AtomicBool,
    more: &More<'_>,
) -> Result<Outcome, Error> {
    let cpus = machine::online_cpus();
    let (specs, _ids) = specs(options)?;
    // The command is made before the recorder changes anything that it would inherit: limits, slices.
    let waiting = target::prepare(command, &options.environment)?;
    machine::raise_open_files();
    let pid = waiting.pid;
    let mut assembler = Assembler::new(&cpus);
    match open_command(options, &cpus, specs, pid, file, &mut assembler) {
        Ok((session, header, sink)) => {
            let process = waiting.go()?;
            let deadline = options.limit.map(|limit| Instant::now() + limit);
            let recording = Recording { session, process: &process, stop, deadline };
            let scribe = Scribe::new(assembler, Merge::new(cpus.len()), sink);
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
    specs: Vec<Spec>,
    pid: u32,
    file: File,
    assembler: &mut Assembler,
) -> Result<(Session<Linux>, Header, Watched), Error> {
    let open = || {
        let mut session =
            Session::new(Linux, cpus, specs, manner(options, Begin::OnExec), options.buffer_kib)?;
        session.open_everybody(&mut |id, kind| assembler.know(id, kind))?;
        session.open(pid, &mut |id, kind| assembler.know(id, kind))?;
        Ok(session)
    };
    let mut session = open().map_err(|error| refusal::of(error, pid))?;
    assembler.await_execution(pid);
    let outlook = Outlook::open(pid, &[pid], cpus, true);
    let header = header(options, &session, &outlook, cpus, pid);
    session.notes.extend_from_slice(&outlook.notes);
    let failed = |why| Error::File { path: options.output.clone(), why };
    let mut sink = watched(file, &header, outlook).map_err(failed)?;
    let started = What::Started { pid: Pid(pid), parent: None };
    let started = Event { time_ns: header.began_ns, tid: Tid(pid), cpu: NO_CPU, what: started };
    assembler.outside(&started, &mut sink).map_err(failed)?;
    Ok((session, header, sink))
}

fn watched(file: File, header: &Header, outlook: Outlook) -> io::Result<Watched> {
    Ok(Watched { writer: Writer::new(file, header)?, watch: Watch::begin(outlook.counters, header) })
}

/// Runs a recording to its end and closes its file.
fn finish(
    output: &Path,
    mut recording: Recording<'_, Linux>,
    scribe: Scribe,
    header: Header,
    more: &More<'_>,
) -> Result<Outcome, Error> {
    let (finish, scribe) = drain::run(&mut recording, scribe);
    let Recording { session, process, stop, .. } = recording;
    let Scribe { mut assembler, mut sink, .. } = scribe;
    let mut notes = session.notes.clone();
    drop(session);
    notes.extend(left_note(&finish));
    let mut ending = ending(finish.reason, finish.ended, assembler.lost());
    // If the file takes no more, these are missing as well.
    let _ = more(ending.ended_ns).iter().try_for_each(|event| assembler.outside(event, &mut sink));
    // If the file takes no more, it still has all that was flushed; the reason says why it ends there.
    let _ = sink.writer.finish(&ending);
    let bytes = fs::metadata(output).map_or(0, |data| data.len());
    // The file is whole before the wait for a command that outlives its recording: that may take long.
    if process.is_child() && finish.ended.is_none() {
        match wait_for(process, stop) {
            Some(ended) => set_ended(&mut ending, ended),
            None => notes.push(format!("the command goes on as process {}", process.pid)),
        }
    }
    Ok(Outcome { header, ending, events: assembler.events(), bytes, notes })
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

fn left_note(finish: &Finish) -> Option<String> {
    (finish.ended.is_some() && finish.left > 0)
        .then(|| format!("{} threads of processes that the command left behind go on", finish.left))
}

fn ending(reason: String, ended: Option<Ended>, lost: u64) -> Ending {
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
}

fn manner(options: &Options, begin: Begin) -> Manner {
    Manner { begin, stack_bytes: options.stack_bytes, build_ids: true }
}

/// What is asked of the kernel, and what keeps its tracepoints cheap to close.
fn specs(options: &Options) -> Result<(Vec<Spec>, Ids), Error> {
    let ids = ids::find(&plan::tracepoints()).map_err(refusal::of_discovery)?;
    let foreign_numbers = !machine::in_first_pid_namespace();
    let specs = plan::plan(options, foreign_numbers, |name| ids.get(name).map(u64::from));
    Ok((specs, ids))
}

fn header(options: &Options, session: &Session<Linux>, outlook: &Outlook, cpus: &[u16], pid: u32) -> Header {
    let command = match &options.target {
        Target::Command(command) => command.iter().map(|word| word.to_string_lossy().into_owned()).collect(),
        Target::Process(_) => Vec::new(),
    };
    let samples = session.has(|spec| spec.kind == Kind::Sample);
    Header {
        producer: format!("holdup {}", env!("CARGO_PKG_VERSION")),
        began_unix_s: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()),
        began_ns: machine::now_ns(),
        machine: machine::facts(cpus.len()),
        target: holdup_trace::Target {
            attached: matches!(options.target, Target::Process(_)),
            command,
            pids: vec![pid],
        },
        grade: Grade { hardware: outlook.counters.is_some(), lock_words: outlook.words, ..grade(session) },
        sample_period_ns: if samples { 1_000_000_000 / u64::from(options.sample_hz.max(1)) } else { 0 },
        stack_bytes: options.stack_bytes,
        futex_zero_period: plan::ZERO_PERIOD,
    }
}

fn grade(session: &Session<Linux>) -> Grade {
    let has = |kind| session.has(|spec| spec.kind == kind);
    Grade {
        switches: true,
        switch_reasons: has(Kind::Switch),
        wakings: has(Kind::Waking),
        foreign_wakings: has(Kind::Waking),
        futexes: has(Kind::FutexWait) && has(Kind::FutexReturn),
        calls: has(Kind::Call),
        samples: has(Kind::Sample),
        kernel: session.has(|spec| spec.kind == Kind::Sample && spec.kernel),
        faults: has(Kind::MajorFault),
        ..Grade::default()
    }
}
