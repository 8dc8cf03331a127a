//! Recordings of real programs on the kernel at hand.
//!
//! Where the system cannot record or does not let this user record, each test says so and passes.
#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use holdup_record::{Backend, Detail, Error, Options, Outcome, Target, record};
use holdup_trace::{Blocked, CallNumber, Event, FutexOp, Reader, Stacks, Summary, Tid, What};

struct Recorded {
    outcome: Outcome,
    events: Vec<Event>,
    stacks: Stacks,
    summary: Summary,
}

fn options(target: Target, folder: &Path) -> Options {
    Options { detail: Detail::User, ..Options::new(target, folder.join("recording.holdup")) }
}

/// Each is skipped where it is not allowed.
const BACKENDS: [Backend; 2] = [Backend::Perf, Backend::Bpf];

/// As an ordinary user by perf, with all that the programs inside the kernel can tell by BPF.
fn by(capture: Backend, target: Target, folder: &Path) -> Options {
    let detail = if capture == Backend::Bpf { Detail::Allowed } else { Detail::User };
    Options { capture, detail, ..options(target, folder) }
}

fn command(words: &[&str]) -> Target {
    Target::Command(words.iter().map(Into::into).collect())
}

/// Records and reads what was written; `None`, with a reason printed, if the kernel does not let this user record.
fn recorded(options: &Options) -> Option<Recorded> {
    let outcome = match record(options, &AtomicBool::new(false)) {
        Ok(outcome) => outcome,
        Err(why @ (Error::Refused(_) | Error::Unsupported)) => {
            println!("skipped: {why}");
            return None;
        }
        Err(error) => panic!("{error}"),
    };
    let bytes = std::fs::read(&options.output).unwrap();
    let (mut stacks, mut events) = (Stacks::new(), Vec::new());
    let summary = Reader::open(&bytes).unwrap().read(&mut stacks, &mut |event| events.push(event.clone()));
    assert_eq!(summary.damage, []);
    assert_eq!(bytes.len() as u64, outcome.bytes);
    assert_eq!(summary.events, outcome.events);
    assert!(events.is_sorted_by_key(|event| event.time_ns), "events are in order of time");
    Some(Recorded { outcome, events, stacks, summary })
}

impl Recorded {
    fn count(&self, wanted: impl Fn(&What) -> bool) -> usize {
        self.events.iter().filter(|event| wanted(&event.what)).count()
    }

    fn started(&self) -> usize {
        self.count(|what| matches!(what, What::Started { .. }))
    }

    fn exited(&self) -> usize {
        self.count(|what| matches!(what, What::Exited))
    }
}

/// Compiles a C program, with frame pointers; `None`, with a reason printed, if there is no compiler.
fn compiled(folder: &Path, source: &str) -> Option<PathBuf> {
    let program = folder.join("program");
    let file = folder.join("program.c");
    std::fs::write(&file, source).unwrap();
    let compiler = Command::new("cc")
        .args(["-O1", "-g", "-pthread", "-fno-omit-frame-pointer", "-o"])
        .args([&program, &file])
        .status();
    match compiler {
        Ok(status) => {
            assert!(status.success());
            Some(program)
        }
        Err(why) => {
            println!("skipped: no C compiler: {why}");
            None
        }
    }
}

#[test]
fn a_program_that_ends_at_once_is_recorded_from_its_first_instruction() {
    for capture in BACKENDS {
        let folder = tempfile::tempdir().unwrap();
        let Some(recorded) = recorded(&by(capture, command(&["true"]), folder.path())) else { continue };
        assert_eq!(recorded.outcome.ending.reason, "the target ended");
        assert_eq!(recorded.outcome.ending.status, Some(0));
        assert_eq!(recorded.outcome.ending.lost, 0);
        assert!(recorded.outcome.header.capabilities.switches && recorded.outcome.header.capabilities.futexes);
        assert_eq!((recorded.started(), recorded.exited()), (1, 1));
        assert_eq!(recorded.count(|what| matches!(what, What::Named { name, exec: true } if &**name == "true")), 1);
        let mapped = |path: &str| {
            recorded.count(|what| matches!(what, What::Mapped(map) if map.path.ends_with(path) && map.len > 0))
        };
        assert!(mapped("/true") >= 1);
        assert_eq!(recorded.summary.ending.as_ref(), Some(&recorded.outcome.ending));
        assert!(recorded.outcome.ending.voluntary.is_some());
    }
}

#[test]
fn status_and_signals_of_the_command_come_through() {
    for capture in BACKENDS {
        for (script, status) in [("exit 7", 7), ("kill -9 $$", 128 + 9)] {
            let folder = tempfile::tempdir().unwrap();
            let Some(recorded) = recorded(&by(capture, command(&["sh", "-c", script]), folder.path())) else {
                continue;
            };
            assert_eq!(recorded.outcome.ending.status, Some(status));
        }
    }
}

#[test]
fn children_and_programs_executed_by_them_are_followed() {
    for capture in BACKENDS {
        let folder = tempfile::tempdir().unwrap();
        let script = "/bin/true; (/bin/true); exec /bin/true";
        let Some(recorded) = recorded(&by(capture, command(&["sh", "-c", script]), folder.path())) else { continue };
        let executed = recorded.count(|what| matches!(what, What::Named { exec: true, .. }));
        // The shell, two children and what the shell becomes; a shell may spare a process by executing in place.
        assert_eq!(executed, 4);
        assert!(recorded.started() >= 3);
        assert_eq!(recorded.started(), recorded.exited());
    }
}

#[test]
fn a_command_that_cannot_start_is_named_and_leaves_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let text = folder.path().join("text");
    std::fs::write(&text, "not a program").unwrap();
    for name in ["no-such-command-anywhere", text.to_str().unwrap()] {
        let options = options(command(&[name]), folder.path());
        match record(&options, &AtomicBool::new(false)) {
            Err(Error::Command { name: named, .. }) => assert_eq!(named, name),
            Err(why @ (Error::Refused(_) | Error::Unsupported)) => return println!("skipped: {why}"),
            other => panic!("{other:?}"),
        }
        assert!(!options.output.exists());
    }
}

#[test]
fn a_file_is_never_overwritten_and_the_command_not_started_for_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("started");
    let options = options(command(&["touch", trace.to_str().unwrap()]), folder.path());
    std::fs::write(&options.output, "mine").unwrap();
    let error = record(&options, &AtomicBool::new(false)).unwrap_err();
    assert!(matches!(error, Error::File { .. }), "{error}");
    assert_eq!(std::fs::read(&options.output).unwrap(), b"mine");
    assert!(!trace.exists());
}

#[test]
fn a_process_that_is_not_there_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let mut child = Command::new("true").spawn().unwrap();
    let pid = child.id();
    child.wait().unwrap();
    let options = options(Target::Processes(vec![pid]), folder.path());
    match record(&options, &AtomicBool::new(false)) {
        Err(Error::NoProcess(named)) => assert_eq!(named, pid),
        Err(why @ (Error::Refused(_) | Error::Unsupported)) => println!("skipped: {why}"),
        other => panic!("{other:?}"),
    }
    assert!(!options.output.exists());
}

/// Who is found among others' children may have ended before it is attached to.
#[test]
fn a_process_that_has_ended_is_left_out_where_others_run() {
    let folder = tempfile::tempdir().unwrap();
    let mut ended = Command::new("true").spawn().unwrap();
    ended.wait().unwrap();
    let mut running = Command::new("sleep").arg("60").spawn().unwrap();
    let options = Options {
        limit: Some(Duration::from_millis(100)),
        ..options(Target::Processes(vec![running.id(), ended.id()]), folder.path())
    };
    let recorded = record(&options, &AtomicBool::new(false));
    running.kill().unwrap();
    running.wait().unwrap();
    match recorded {
        Ok(outcome) => {
            assert_eq!(outcome.header.target.pids, [running.id()]);
            let told = format!("process {} ended before the recording began", ended.id());
            assert!(outcome.notes.contains(&told), "{:?}", outcome.notes);
        }
        Err(why @ (Error::Refused(_) | Error::Unsupported)) => println!("skipped: {why}"),
        other => panic!("{other:?}"),
    }
}

const PING_PONG: &str = r#"
#define _GNU_SOURCE
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>
static atomic_int turn;
static long futex(int op, int value) { return syscall(SYS_futex, &turn, op, value, 0, 0, 0); }
static __attribute__((noinline)) void take(int me) {
    for (int now; (now = atomic_load(&turn)) != me;) futex(FUTEX_WAIT_PRIVATE, now);
}
static void *run(void *argument) {
    int me = (int)(long)argument;
    cpu_set_t cpus;
    CPU_ZERO(&cpus);
    CPU_SET(sched_getcpu(), &cpus);
    if (me == 1) prctl(PR_SET_NAME, "pong");
    for (int i = 0; i < 1000; i++) {
        take(me);
        atomic_store(&turn, 1 - me);
        futex(FUTEX_WAKE_PRIVATE, 1);
    }
    return 0;
}
int main(void) {
    cpu_set_t cpus;
    CPU_ZERO(&cpus);
    CPU_SET(sched_getcpu(), &cpus);
    sched_setaffinity(0, sizeof cpus, &cpus);
    pthread_t one, two;
    pthread_create(&one, 0, run, (void *)0);
    pthread_create(&two, 0, run, (void *)1);
    pthread_join(one, 0);
    pthread_join(two, 0);
}
"#;

#[test]
fn two_threads_in_turn_show_every_wake_and_every_wait_with_its_place() {
    for capture in BACKENDS {
        let folder = tempfile::tempdir().unwrap();
        let Some(program) = compiled(folder.path(), PING_PONG) else { continue };
        let target = command(&[program.to_str().unwrap()]);
        let Some(recorded) = recorded(&by(capture, target, folder.path())) else { continue };
        assert_eq!(recorded.outcome.ending.lost, 0);
        assert_eq!((recorded.started(), recorded.exited()), (3, 3));
        assert_eq!(recorded.count(|what| matches!(what, What::Named { name, exec: false } if &**name == "pong")), 1);
        // Each of the 2,000 turns ends in one call that wakes; of those that wake nobody, only some are recorded.
        let wakes = |what: &What| matches!(what, What::FutexReturn { op, ret, .. } if op.command() == FutexOp::WAKE && op.is_private() && *ret > 0);
        let woke = recorded.count(wakes);
        let waits = recorded.count(|what| matches!(what, What::FutexWait { .. }));
        // On one CPU nearly every turn sleeps; a thread that is preempted may find its turn without.
        assert!((500..=2000).contains(&woke) && woke <= waits, "{woke} wakes for {waits} waits");
        let gave_up = |what: &What| matches!(what, What::FutexReturn { op, .. } if op.waits());
        assert_eq!(recorded.count(gave_up), 0, "no wait of this program ends otherwise than by a wake");
        let addresses: std::collections::BTreeSet<u64> = recorded
            .events
            .iter()
            .filter_map(|event| match event.what {
                What::FutexWait { op, addr, .. } if op.command() == FutexOp::WAIT && op.is_private() => Some(addr),
                _ => None,
            })
            .collect();
        assert_eq!(addresses.len(), 1, "one futex");
        let ins = recorded.count(|what| matches!(what, What::SwitchIn));
        assert!(ins >= woke, "every sleep ends with a switch: {ins} for {woke}");
        let deep = recorded
            .events
            .iter()
            .filter_map(|event| match event.what {
                What::FutexWait { stack: Some(stack), .. } => recorded.stacks.get(stack),
                _ => None,
            })
            .filter(|stack| stack.user.len() >= 2 && stack.registers.is_some() && !stack.words.is_empty())
            .count();
        assert!(deep > waits / 2, "{deep} of {waits} waits say who waits");
    }
}

const TIED_TO_ITS_PARENT: &str = r#"
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>
int main(void) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    usleep(300000);
    return 7;
}
"#;

#[test]
fn a_command_that_ends_with_its_parent_has_one_until_it_ends() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = compiled(folder.path(), TIED_TO_ITS_PARENT) else { return };
    let target = command(&[program.to_str().unwrap()]);
    let Some(recorded) = recorded(&options(target, folder.path())) else { return };
    assert_eq!(recorded.outcome.ending.status, Some(7));
}

/// Busy enough to be seen at once, and so little that its events of seconds fit into the rings.
const BUSY: &str = r#"
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t held = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t begun;
static volatile long sum;
static void *work(void *argument) {
    pthread_barrier_wait(&begun);
    for (;;) {
        pthread_mutex_lock(&lock);
        for (int i = 0; i < 50000; i++) sum += i;
        pthread_mutex_unlock(&lock);
    }
    return argument;
}
static void *idle(void *argument) {
    pthread_barrier_wait(&begun);
    pthread_mutex_lock(&held);
    return argument;
}
int main(void) {
    pthread_t thread;
    pthread_mutex_lock(&held);
    pthread_barrier_init(&begun, 0, 11);
    for (int i = 0; i < 2; i++) pthread_create(&thread, 0, work, 0);
    for (int i = 0; i < 8; i++) pthread_create(&thread, 0, idle, 0);
    pthread_barrier_wait(&begun);
    puts("ready");
    fflush(stdout);
    for (;;) sleep(100);
}
"#;

#[test]
fn a_busy_process_is_attached_to_without_losses_and_with_what_its_idle_threads_wait_for() {
    use std::io::Read as _;
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = compiled(folder.path(), BUSY) else { return };
    let mut child = Command::new(&program).stdout(Stdio::piped()).spawn().unwrap();
    child.stdout.as_mut().unwrap().read_exact(&mut [0; 6]).unwrap();
    // The idle threads are idle when eight of the process wait for the same address, whatever the others do.
    while waiting_for_one_address(child.id()).is_some_and(|threads| threads < 8) {
        std::thread::yield_now();
    }
    let shown = waiting_for_one_address(child.id()).is_some();
    let mut options = options(Target::Processes(vec![child.id()]), folder.path());
    options.limit = Some(Duration::from_millis(300));
    let recorded = recorded(&options);
    child.kill().unwrap();
    child.wait().unwrap();
    let Some(recorded) = recorded else { return };
    let began_ns = recorded.outcome.header.began_ns;
    assert!(recorded.events.iter().all(|event| event.time_ns >= began_ns), "nothing from before the beginning");
    let early = |event: &&Event| event.time_ns < began_ns + 50_000_000;
    let lost = recorded.events.iter().filter(early).filter(|event| matches!(event.what, What::Lost { .. })).count();
    assert_eq!(lost, 0, "nothing is lost while it begins");
    let mut idle = std::collections::BTreeMap::<u64, usize>::new();
    for event in recorded.events.iter().filter(|event| event.time_ns == began_ns) {
        if let What::FutexWait { addr, .. } = event.what {
            *idle.entry(addr).or_default() += 1;
        }
    }
    if shown {
        assert!(idle.values().any(|threads| *threads >= 8), "eight threads wait for one lock: {idle:?}");
    } else {
        println!("skipped: this system does not show in which calls threads are");
    }
    assert_eq!(recorded.started(), 11);
}

/// The most threads of a process that are in a futex call with the same address; `None` if that may not be known.
fn waiting_for_one_address(pid: u32) -> Option<usize> {
    let mut counts = std::collections::BTreeMap::<String, usize>::new();
    for task in std::fs::read_dir(format!("/proc/{pid}/task")).ok()? {
        let text = std::fs::read_to_string(task.ok()?.path().join("syscall")).ok()?;
        if let Some(("202", rest)) = text.split_once(' ') {
            *counts.entry(rest.split(' ').next().unwrap().into()).or_default() += 1;
        }
    }
    Some(counts.values().copied().max().unwrap_or(0))
}

const MANY_THREADS: &str = r#"
#include <pthread.h>
static void *run(void *argument) { return argument; }
int main(void) {
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 65536);
    for (int round = 0; round < 20; round++) {
        pthread_t threads[100];
        for (int i = 0; i < 100; i++) if (pthread_create(&threads[i], &small, run, 0)) return 1;
        for (int i = 0; i < 100; i++) pthread_join(threads[i], 0);
    }
}
"#;

#[test]
fn two_thousand_threads_are_born_and_die() {
    for capture in BACKENDS {
        let folder = tempfile::tempdir().unwrap();
        let Some(program) = compiled(folder.path(), MANY_THREADS) else { continue };
        let target = command(&[program.to_str().unwrap()]);
        let Some(recorded) = recorded(&by(capture, target, folder.path())) else { continue };
        assert_eq!(recorded.outcome.ending.status, Some(0));
        assert_eq!(recorded.outcome.ending.lost, 0);
        assert_eq!((recorded.started(), recorded.exited()), (2001, 2001));
    }
}

const PATIENT: &str = r#"
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>
static void *run(void *argument) {
    char byte;
    for (;;) if (read(0, &byte, 1) != 1) return argument;
}
static void *again(void *argument) {
    for (int i = 0;; i++) {
        pthread_t thread;
        if (pthread_create(&thread, 0, run + 0 * i, argument)) return 0;
        pthread_cancel(thread);
        pthread_join(thread, 0);
        usleep(1000);
    }
}
int main(void) {
    pthread_t threads[4];
    for (int i = 0; i < 3; i++) pthread_create(&threads[i], 0, run, 0);
    pthread_create(&threads[3], 0, again, 0);
    puts("ready");
    fflush(stdout);
    pthread_join(threads[0], 0);
    return 0;
}
"#;

#[test]
fn a_running_process_is_attached_to_with_all_its_threads() {
    for capture in BACKENDS {
        use std::io::Read as _;
        let folder = tempfile::tempdir().unwrap();
        let Some(program) = compiled(folder.path(), PATIENT) else { continue };
        let mut child = Command::new(&program).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        child.stdout.as_mut().unwrap().read_exact(&mut [0; 6]).unwrap();
        let mut options = by(capture, Target::Processes(vec![child.id()]), folder.path());
        options.limit = Some(Duration::from_millis(400));
        let recorded = recorded(&options);
        let alive = child.try_wait().unwrap().is_none();
        drop(child.stdin.take());
        child.wait().unwrap();
        let Some(recorded) = recorded else { continue };
        assert!(alive, "the target goes on");
        assert_eq!(recorded.outcome.ending.reason, "the time was over");
        assert_eq!(recorded.outcome.ending.status, None);
        assert!(recorded.outcome.header.target.attached);
        assert!(recorded.started() >= 5, "{} threads", recorded.started());
        assert!(recorded.count(|what| matches!(what, What::Mapped(map) if map.path.ends_with("/program"))) >= 1);
        assert!(recorded.count(|what| matches!(what, What::SwitchIn)) > 0);
    }
}

/// Two clerks and a keeper who take turns at a lock until standard input ends; or, if a number is given, until each of
/// them had so many.
const NAMED: &str = r#"
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static volatile int over;
static char *names[] = {"clerk-1", "clerk-2", "keeper"};
static volatile int had[3];
static void *turns(void *name) {
    prctl(PR_SET_NAME, *(char **)name, 0, 0, 0);
    while (!over) {
        pthread_mutex_lock(&lock);
        usleep(500);
        pthread_mutex_unlock(&lock);
        usleep(100);
        had[(char **)name - names]++;
    }
    return name;
}
int main(int count, char **words) {
    pthread_t threads[3];
    struct pollfd input = {0, POLLIN, 0};
    for (int i = 0; i < 3; i++) pthread_create(&threads[i], 0, turns, &names[i]);
    usleep(100000);
    write(1, "ready\n", 6);
    if (count > 1) for (int i = 0; i < 3; i++) while (had[i] < atoi(words[1])) usleep(1000);
    else poll(&input, 1, 60000);
    over = 1;
    for (int i = 0; i < 3; i++) pthread_join(threads[i], 0);
    return 0;
}
"#;

/// The names of the threads that a recording tells of, and of those that were seen to get a CPU.
fn named(recorded: &Recorded) -> [BTreeSet<String>; 2] {
    let mut names: BTreeMap<Tid, String> = BTreeMap::new();
    let mut ran = BTreeSet::new();
    for event in &recorded.events {
        match &event.what {
            What::Named { name, .. } => drop(names.insert(event.tid, name.to_string())),
            What::SwitchIn => drop(ran.insert(event.tid)),
            _ => {}
        }
    }
    let ran = ran.iter().map(|tid| names.get(tid).cloned().unwrap_or_default()).collect();
    [names.into_values().collect(), ran]
}

#[test]
fn threads_are_recorded_by_name_by_each_way_to_capture() {
    use std::io::Read as _;
    let clerks = BTreeSet::from(["clerk-1".to_owned(), "clerk-2".to_owned()]);
    let wanted = |names: &[&str]| holdup_record::ThreadNames::new(names.iter().map(|name| (*name).to_owned()));
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = compiled(folder.path(), NAMED) else { return };
    for capture in [Backend::Perf, Backend::Bpf, Backend::Sampler] {
        let folder = tempfile::tempdir().unwrap();
        let mut child = Command::new(&program).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        child.stdout.as_mut().unwrap().read_exact(&mut [0; 6]).unwrap();
        let running = Target::Processes(vec![child.id()]);
        let mut options = by(capture, running, folder.path());
        options.limit = Some(Duration::from_secs(1));
        let refused = record(&Options { threads: wanted(&["clerks"]), ..options.clone() }, &AtomicBool::new(false));
        let why = refused.unwrap_err().to_string();
        assert!(why.contains("'clerks'") && why.contains("clerk-1, clerk-2, keeper"), "{why}");
        let attached = recorded(&Options { threads: wanted(&["clerk-*"]), ..options.clone() });
        drop(child.stdin.take());
        child.wait().unwrap();
        options.target = Target::Command(vec![program.clone().into(), "500".into()]);
        options.output = folder.path().join("command.holdup");
        options.silent = true;
        options.limit = None;
        let started = recorded(&Options { threads: wanted(&["clerk-1", "clerk-2"]), ..options.clone() });
        options.output = folder.path().join("none.holdup");
        let none = recorded(&Options { threads: wanted(&["nobody"]), ..options });
        for recorded in [attached, started].iter().flatten() {
            assert_eq!(named(recorded), [clerks.clone(), clerks.clone()], "{capture:?}");
            assert!(recorded.count(|what| matches!(what, What::FutexWait { .. } | What::Call { .. })) > 0);
        }
        if let Some(none) = none {
            assert_eq!(none.count(|what| matches!(what, What::Started { .. } | What::SwitchIn)), 0);
            let told = none.outcome.notes.iter().any(|note| note.contains("no thread was recorded"));
            assert!(told, "{:?}", none.outcome.notes);
        }
    }
}

/// Three threads wait a second for what no event tells of: a pipe, a named pipe, a lock of a file.
const BLOCKED: &str = r#"
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
static int ends[2], fifo, lock, again;
static void *in_pipe(void *argument) { char byte; read(ends[0], &byte, 1); return argument; }
static void *in_fifo(void *argument) { char byte; read(fifo, &byte, 1); return argument; }
static void *in_lock(void *argument) { flock(again, LOCK_EX); return argument; }
int main(int count, char **names) {
    pthread_t threads[3];
    if (count < 3 || pipe(ends) || mkfifo(names[1], 0600)) return 1;
    fifo = open(names[1], O_RDWR);
    lock = open(names[2], O_CREAT | O_RDWR, 0600);
    again = open(names[2], O_RDWR);
    flock(lock, LOCK_EX);
    pthread_create(&threads[0], 0, in_pipe, 0);
    pthread_create(&threads[1], 0, in_fifo, 0);
    pthread_create(&threads[2], 0, in_lock, 0);
    for (int i = 0; i < 100; i++) usleep(10000);
    write(ends[1], "x", 1);
    write(fifo, "x", 1);
    flock(lock, LOCK_UN);
    for (int i = 0; i < 3; i++) pthread_join(threads[i], 0);
    return 0;
}
"#;

#[test]
#[cfg(target_arch = "x86_64")]
fn what_no_event_tells_of_is_found_by_looks_with_the_file() {
    const READ: u16 = 0;
    const FLOCK: u16 = 73;
    for detail in [Detail::User, Detail::Allowed] {
        let folder = tempfile::tempdir().unwrap();
        let Some(program) = compiled(folder.path(), BLOCKED) else { return };
        let [fifo, lock] = ["fifo", "lock"].map(|name| folder.path().join(name).display().to_string());
        let target = command(&[program.to_str().unwrap(), &fifo, &lock]);
        let options = Options { detail, ..options(target, folder.path()) };
        let Some(recorded) = recorded(&options) else { return };
        assert_eq!(recorded.outcome.ending.status, Some(0));
        let found = |nr: u16, is_file: &dyn Fn(&str) -> bool| {
            let is_wanted =
                |found: &Blocked| found.nr == Some(CallNumber(nr)) && found.file.as_deref().is_some_and(is_file);
            let events = recorded.events.iter();
            let tids = events.filter(|event| matches!(&event.what, What::Blocked(found) if is_wanted(found)));
            tids.map(|event| event.tid).collect::<Vec<_>>()
        };
        let pipe = found(READ, &|file| file.starts_with("pipe:["));
        let (fifo, lock) = (found(READ, &|file| file == fifo), found(FLOCK, &|file| file == lock));
        let told = format!("{detail:?}: {pipe:?} {fifo:?} {lock:?}");
        let waiters = [pipe, fifo, lock].map(|tids| {
            // Each waits once, and looks that find nothing new are not told, however many they are.
            assert!((1..10).contains(&tids.len()), "{told}");
            tids.into_iter().collect::<std::collections::BTreeSet<_>>()
        });
        assert!(waiters.iter().all(|tids| tids.len() == 1), "{told}");
        assert_eq!(waiters.iter().flatten().collect::<std::collections::BTreeSet<_>>().len(), 3, "{told}");
    }
}

/// Has secrets on its stack, on its heap, in its registers, in a pipe and beside the words that it waits on.
const KEEPS_SECRETS: &str = r#"
#define _GNU_SOURCE
#include <linux/futex.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
// The text is in no file: its bytes are put together when it runs.
static char text[32];
static volatile uint64_t like_an_address = 0x5ec4e7f00d42 ^ 0xff, mask = 0xff;
static int pipes[2];
static struct { pthread_mutex_t lock; char text[32]; } *shared;
static struct { uint32_t word, near[5]; } *raw;
long sleep_with(uint64_t secret, const struct timespec *time);
void spin_with(uint64_t like_an_address, uint64_t number, long rounds);
// In the registers that functions keep, the frame pointer among them, while it sleeps.
__asm__(
    ".globl sleep_with\n.type sleep_with, @function\nsleep_with:\n"
    "push %rbp\npush %rbx\npush %r12\npush %r13\npush %r14\npush %r15\n"
    "mov %rdi, %rbp\nmov %rdi, %rbx\nmov %rdi, %r12\nmov %rdi, %r13\nmov %rdi, %r14\nmov %rdi, %r15\n"
    "mov %rsi, %rdi\nxor %esi, %esi\nmov $35, %eax\nsyscall\n"
    "pop %r15\npop %r14\npop %r13\npop %r12\npop %rbx\npop %rbp\nret\n");
// In all registers but those that count and point to the stack, while it runs, again and again at the same instruction.
__asm__(
    ".globl spin_with\n.type spin_with, @function\nspin_with:\n"
    "push %rbp\npush %rbx\npush %r12\npush %r13\npush %r14\npush %r15\n"
    "mov %rdi, %rbp\nmov %rdi, %rbx\nmov %rdi, %r12\nmov %rdi, %r13\nmov %rdi, %r14\nmov %rdi, %r15\n"
    "mov %rsi, %rax\nmov %rsi, %rcx\nmov %rdi, %r8\nmov %rdi, %r9\nmov %rsi, %r10\nmov %rsi, %r11\n"
    "1: dec %rdx\njnz 1b\n"
    "pop %r15\npop %r14\npop %r13\npop %r12\npop %rbx\npop %rbp\nret\n");
static double now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec + t.tv_nsec * 1e-9; }
__attribute__((noinline)) static void deep(int depth) {
    volatile uint64_t words[48];
    for (int i = 0; i < 48; i++) words[i] = i % 2 ? like_an_address ^ mask : 0;
    for (int i = 0; i < 48; i += 4) memcpy((void *)&words[i], text, 16);
    if (depth > 0) {
        deep(depth - 1);
    } else {
        char back[32];
        struct timespec short_time = {0, 500000};
        sleep_with(like_an_address ^ mask, &short_time);
        syscall(SYS_futex, &raw->word, FUTEX_WAIT_PRIVATE, 0, &short_time, NULL, 0);
        pthread_mutex_lock(&shared->lock);
        sleep_with(like_an_address ^ mask, &short_time);
        pthread_mutex_unlock(&shared->lock);
        if (write(pipes[1], text, 32) == 32 && read(pipes[0], back, 32) == 32) words[1] += back[0];
        for (double end = now() + 0.001; now() < end;) words[3] ^= words[5];
        spin_with(like_an_address ^ mask, raw->near[0], 1000000);
    }
    words[7]++;
}
static void *run(void *argument) {
    for (double end = now() + 0.4; now() < end;) deep(2);
    return argument;
}
int main(void) {
    pthread_t thread;
    for (int i = 0; i < 31; i++) text[i] = "PuHeS:qIvDrS:qUm:cEeO " [i % 22] + 1;
    shared = calloc(1, sizeof *shared);
    raw = calloc(1, sizeof *raw);
    for (int i = 0; i < 5; i++) raw->near[i] = 0x5ec4e7d1;
    memcpy(shared->text, text, 32);
    if (pipe(pipes) || pthread_create(&thread, NULL, run, NULL)) return 1;
    run(NULL);
    // Long enough for the slowest looks to find it.
    struct timespec long_time = {0, 300000000};
    syscall(SYS_futex, &raw->word, FUTEX_WAIT_PRIVATE, 0, &long_time, NULL, 0);
    return pthread_join(thread, NULL);
}
"#;

#[test]
fn a_recording_holds_no_data_of_the_program() {
    for capture in [Backend::Perf, Backend::Bpf, Backend::Sampler] {
        let folder = tempfile::tempdir().unwrap();
        let Some(program) = compiled(folder.path(), KEEPS_SECRETS) else { return };
        let options = by(capture, command(&[program.to_str().unwrap()]), folder.path());
        let Some(recorded) = recorded(&options) else { continue };
        assert_eq!(recorded.outcome.ending.status, Some(0));
        let whole = std::fs::read(&options.output).unwrap();
        let held = [Reader::open(&whole).unwrap().unpacked(), whole].concat();
        let text: Vec<u8> = b"PuHeS:qIvDrS:qUm:cEeO ".iter().map(|byte| byte + 1).collect();
        let (like_an_address, near) = (0x5ec4_e7f0_0d42_u64, 0x5ec4_e7d1_u32);
        let secrets = text
            .windows(6)
            .map(<[u8]>::to_vec)
            .chain([like_an_address.to_ne_bytes()[..6].to_vec(), near.to_ne_bytes().to_vec()]);
        for secret in secrets {
            assert!(
                !held.windows(secret.len()).any(|bytes| bytes == secret),
                "{capture:?}: {secret:x?} is in the file"
            );
        }
        // Numbers are packed in a file: as they come out again, too.
        let text = String::from_utf8(text[..6].to_vec()).unwrap();
        let shown = |value: &dyn std::fmt::Debug, secret: u64| format!("{value:?}").contains(&secret.to_string());
        for event in &recorded.events {
            assert!(
                ![like_an_address, near.into()].iter().any(|secret| shown(event, *secret)),
                "{capture:?}: {event:?}"
            );
            assert!(!format!("{event:?}").contains(&text), "{capture:?}: {event:?}");
        }
        assert!(recorded.stacks.len() > 1, "{capture:?}: {} stacks", recorded.stacks.len());
        for (_, stack) in recorded.stacks.iter() {
            assert!(!shown(stack, like_an_address), "{capture:?}: {stack:x?}");
        }
        // Where registers pointed to was told, but not what else was in them.
        let pointers = recorded.count(|what| matches!(what, What::Pointers(_)));
        assert!(pointers > 0 || capture == Backend::Sampler || !cfg!(target_arch = "x86_64"), "{capture:?}");
        // The words that were waited on were read, those beside them are nobody's.
        let waits = recorded.count(|what| matches!(what, What::FutexWait { .. }));
        assert!(waits > 0, "{capture:?}");
    }
}

/// Two threads that count side by side with plain instructions.
const COUNTS_SIDE_BY_SIDE: &str = r#"
#include <pthread.h>
#include <time.h>
static _Alignas(64) volatile long seen[8];
static double now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec + t.tv_nsec * 1e-9; }
__attribute__((noinline)) static void count(volatile long *mine) {
    for (int n = 0; n < 1000000; n++) mine[0]++;
}
static void *run(void *argument) {
    for (double end = now() + 0.5; now() < end;) count(argument);
    return NULL;
}
int main(void) {
    pthread_t threads[2];
    for (int n = 0; n < 2; n++) pthread_create(&threads[n], NULL, run, (void *)&seen[2 * n]);
    for (int n = 0; n < 2; n++) pthread_join(threads[n], NULL);
    return 0;
}
"#;

#[test]
fn samples_of_hot_instructions_tell_where_registers_point_to() {
    if !cfg!(target_arch = "x86_64") {
        return println!("skipped: registers are told of on x86-64");
    }
    for capture in BACKENDS {
        // On a machine that is busy with other things, few samples are left.
        let found = (0..5).any(|_| {
            let folder = tempfile::tempdir().unwrap();
            let Some(program) = compiled(folder.path(), COUNTS_SIDE_BY_SIDE) else { return true };
            let options = by(capture, command(&[program.to_str().unwrap()]), folder.path());
            recorded(&options).is_none_or(|recorded| points_into_one_line(&recorded))
        });
        assert!(found, "{capture:?}");
    }
}

/// Whether two threads were found with addresses in one line, 16 bytes apart, again and again; each right behind its
/// sample.
fn points_into_one_line(recorded: &Recorded) -> bool {
    let mut values: BTreeMap<(u64, Tid), usize> = BTreeMap::new();
    for pair in recorded.events.windows(2) {
        let What::Pointers(found) = &pair[1].what else { continue };
        let What::Sample { stack } = pair[0].what else { panic!("{:?} is not behind a sample", pair[1]) };
        assert_eq!((pair[0].tid, pair[0].time_ns), (pair[1].tid, pair[1].time_ns));
        let ip = recorded.stacks.get(stack).and_then(|stack| stack.registers).map(|registers| registers.ip);
        assert_eq!(ip, Some(found.ip));
        found.registers.iter().for_each(|(_, value)| *values.entry((*value, pair[1].tid)).or_default() += 1);
    }
    let often = |value: u64, not: Option<Tid>| {
        let of = values.range((value, Tid(0))..=(value, Tid(u32::MAX)));
        of.filter(|((_, tid), count)| **count >= 10 && Some(*tid) != not).map(|((_, tid), _)| *tid).next()
    };
    let lines = values.keys().filter(|(value, _)| value % 64 == 0);
    lines.into_iter().any(|(value, _)| often(*value, None).is_some_and(|one| often(value + 16, Some(one)).is_some()))
}

#[test]
fn a_stop_from_outside_ends_a_recording_and_not_the_target() {
    let folder = tempfile::tempdir().unwrap();
    let mut child = Command::new("sleep").arg("60").spawn().unwrap();
    let stop = AtomicBool::new(true);
    let options = options(Target::Processes(vec![child.id()]), folder.path());
    let outcome = record(&options, &stop);
    assert!(stop.load(Ordering::Relaxed));
    assert!(child.try_wait().unwrap().is_none());
    child.kill().unwrap();
    child.wait().unwrap();
    match outcome {
        Ok(outcome) => assert_eq!(outcome.ending.reason, "Ctrl-C"),
        Err(why @ (Error::Refused(_) | Error::Unsupported)) => println!("skipped: {why}"),
        Err(error) => panic!("{error}"),
    }
}

/// A thread sleeps with a lock that others wait for, over and over; line 9 takes it, line 10 sleeps.
const PYTHON: &str = "\
import threading, time

lock = threading.Lock()


class Cache:
    def refresh(self):
        for _ in range(60):
            with lock:
                time.sleep(0.005)


threads = [threading.Thread(target=Cache().refresh, name=f'refresher-{i}') for i in range(3)]
for thread in threads:
    thread.start()
sum(i for i in range(300000))
for thread in threads:
    thread.join()
";

/// A thread sleeps with a mutex that others wait for, over and over: line 6 takes it, line 7 sleeps. In line 9 it lets
/// others have it.
const RUBY: &str = "\
LOCK = Mutex.new

class Cache
  def refresh
    60.times do
      LOCK.synchronize do
        sleep 0.005
      end
      sleep 0.001
    end
  end
end

threads = 3.times.map { |n| Thread.new { Cache.new.refresh }.tap { |one| one.name = \"refresher of caches #{n}\" } }
300_000.times.sum
threads.each(&:join)
";

/// Line 5 sleeps with the monitor held, which the others wait for in line 4.
const JAVA: &str = "\
public class Cache {
    static void refresh() throws InterruptedException {
        for (int n = 0; n < 60; n++)
            synchronized (Cache.class) {
                Thread.sleep(5);
            }
    }
    static void run() {
        try { refresh(); } catch (InterruptedException e) { throw new RuntimeException(e); }
    }
    public static void main(String[] words) throws InterruptedException {
        Thread[] threads = new Thread[3];
        for (int n = 0; n < 3; n++) {
            threads[n] = new Thread(Cache::run, \"refresher-of-all-the-prices-\" + n);
            threads[n].start();
        }
        for (Thread thread : threads) thread.join();
    }
}
";

#[test]
fn what_java_executes_is_found_with_lines_and_its_threads_bear_their_whole_names() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("Cache.java");
    std::fs::write(&source, JAVA).unwrap();
    let built = Command::new("javac").arg("-d").arg(folder.path()).arg(&source).status();
    if !built.is_ok_and(|status| status.success()) {
        println!("skipped: there is no javac");
        return;
    }
    // How often it can be looked at is a matter of what looks cost: on a busy machine once may be all.
    for attempt in (0..5).rev() {
        let looked_at = tempfile::tempdir().unwrap();
        let java = command(&["java", "-cp", folder.path().to_str().unwrap(), "Cache"]);
        let Some(recorded) = recorded(&options(java, looked_at.path())) else { return };
        let Some([waits, sleeps, all]) = java_looks(&recorded) else { return };
        assert!((waits + sleeps) * 4 >= all * 3, "{waits} and {sleeps} of {all} looks");
        if waits > 0 && sleeps > 0 {
            return;
        }
        assert!(attempt > 0, "{waits} and {sleeps} of {all} looks");
    }
}

/// How many looks found threads of the program waiting for the monitor, sleeping with it, and anywhere in `refresh`.
/// Nothing if its machine cannot be looked at.
fn java_looks(recorded: &Recorded) -> Option<[usize; 3]> {
    let found = |event: &Event| match &event.what {
        What::Interpreted(found) => Some((event.tid, found.clone())),
        _ => None,
    };
    let found: Vec<_> = recorded.events.iter().filter_map(found).collect();
    if found.is_empty() {
        println!("skipped: this Java cannot be read, or this user may not read its memory");
        return None;
    }
    let named = |event: &Event| match &event.what {
        What::Named { name, exec: false } if name.starts_with("refresher-of-all-the-prices-") => Some(event.tid),
        _ => None,
    };
    let named: Vec<_> = recorded.events.iter().filter_map(named).collect();
    assert_eq!(named.len(), 3, "each thread is named once");
    let of_them = || found.iter().filter(|(of, _)| named.contains(of)).map(|(_, at)| &at.frames);
    let own = |frames: &Arc<[holdup_trace::InterpretedFrame]>| {
        let own = frames.iter().find(|frame| &*frame.function == "Cache.refresh")?;
        (&*own.file == "Cache.java").then_some(own.line)
    };
    let [all, waits, sleeps] = [[3, 6], [4, 4], [5, 5]]
        .map(|[from, to]| of_them().filter_map(own).filter(|line| (from..=to).contains(line)).count());
    let outermost = |frames: &Arc<[holdup_trace::InterpretedFrame]>| frames.last().map(|one| one.function.clone());
    let whole = of_them().filter_map(outermost).filter(|name| &**name == "java.lang.Thread.run").count();
    assert!(whole * 4 >= of_them().count() * 3, "{whole} of {} paths are whole", of_them().count());
    Some([waits, sleeps, all])
}

/// Three goroutines wait for a mutex, and its holder sleeps.
const GO: &str = "package main

import (
	\"sync\"
	\"time\"
)

var table sync.Mutex

//go:noinline
func refresh() {
	table.Lock()
	time.Sleep(3 * time.Millisecond)
	table.Unlock()
}

func main() {
	var all sync.WaitGroup
	for n := 0; n < 4; n++ {
		all.Add(1)
		go func() {
			defer all.Done()
			for m := 0; m < 100; m++ {
				refresh()
			}
		}()
	}
	all.Wait()
}
";

#[test]
fn what_goroutines_wait_for_is_found_with_their_stacks() {
    for flags in ["-ldflags=", "-ldflags=-s -w"] {
        goroutines_are_found(flags);
    }
}

fn goroutines_are_found(flags: &str) {
    let folder = tempfile::tempdir().unwrap();
    let (source, program) = (folder.path().join("table.go"), folder.path().join("table"));
    std::fs::write(&source, GO).unwrap();
    let mut build = Command::new("go");
    build.args(["build", flags, "-o"]).arg(&program).arg(&source).current_dir(folder.path());
    build.env("GO111MODULE", "off").env("GOCACHE", folder.path().join("cache")).env("GOTOOLCHAIN", "local");
    if !build.status().is_ok_and(|status| status.success()) {
        println!("skipped: there is no Go");
        return;
    }
    let Some(recorded) = recorded(&options(command(&[program.to_str().unwrap()]), folder.path())) else { return };
    let found = |event: &Event| match &event.what {
        What::Tasks(found) => Some(found.clone()),
        _ => None,
    };
    let found: Vec<_> = recorded.events.iter().filter_map(found).collect();
    if found.is_empty() {
        println!("skipped: this Go cannot be read, or this user may not read its memory");
        return;
    }
    let groups = || found.iter().flat_map(|look| &look.groups);
    let waits = |group: &&holdup_trace::TaskGroup| matches!(&*group.reason, "sync.Mutex.Lock" | "semacquire");
    let at_mutex: Vec<_> = groups().filter(waits).filter(|group| group.count > 1).collect();
    assert!(at_mutex.len() * 2 > found.len(), "{} of {} looks", at_mutex.len(), found.len());
    // A look does not stop the program: a goroutine may go on while it is read.
    let known = at_mutex.iter().filter(|group| group.addr != 0 && group.stack.is_some()).count();
    assert!(known * 2 > at_mutex.len(), "{known} of {} have address and stack", at_mutex.len());
    let alike = |addr| at_mutex.iter().filter(|group| group.addr == addr).count();
    let most = at_mutex.iter().map(|group| alike(group.addr)).max().unwrap_or(0);
    assert!(most * 2 > at_mutex.len(), "one mutex: {most} of {}", at_mutex.len());
    assert!(groups().any(|group| &*group.reason == "sleep" && group.stack.is_some()));
    let all = found.iter().filter(|look| look.all == look.looked && (1..50).contains(&look.all)).count();
    let others = found.iter().filter(|look| look.all != look.looked || !(1..50).contains(&look.all));
    assert_eq!(all, found.len(), "{:?}", others.map(|look| (look.all, look.looked)).collect::<Vec<_>>());
}

#[test]
fn what_ruby_executes_is_found_with_lines_and_by_which_methods_it_waits() {
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("cache.rb");
    std::fs::write(&script, RUBY).unwrap();
    let script = script.to_str().unwrap();
    let has_ruby = Command::new("ruby").arg("--version").stdout(Stdio::null()).status().is_ok();
    if !has_ruby {
        println!("skipped: there is no ruby");
        return;
    }
    // How often each can be looked at is a matter of what looks cost: on a busy machine one may be missed.
    for attempt in (0..5).rev() {
        let looked_at = tempfile::tempdir().unwrap();
        let Some(recorded) = recorded(&options(command(&["ruby", script]), looked_at.path())) else { return };
        let Some(looks) = ruby_looks(&recorded, script) else { return };
        // Others find it wait for the interpreter's lock, or between two calls.
        assert!(
            looks.iter().all(|[waits, sleeps, between, all]| (waits + sleeps + between) * 10 >= all * 7),
            "{looks:?}"
        );
        // While one sleeps with the mutex, two wait.
        let sum = |at: usize| looks.iter().map(|of| of[at]).sum::<usize>();
        if looks.iter().all(|[waits, sleeps, ..]| *waits > 0 && *sleeps > 0) && sum(0) > sum(1) {
            return;
        }
        assert!(attempt > 0, "{looks:?}");
    }
}

/// How many looks found each of the program's threads waiting for the mutex, sleeping with it, sleeping without, and
/// anywhere in `refresh`. Nothing if its interpreter cannot be looked at.
fn ruby_looks(recorded: &Recorded, script: &str) -> Option<[[usize; 4]; 3]> {
    let found = |event: &Event| match &event.what {
        What::Interpreted(found) => Some((event.tid, found.clone())),
        _ => None,
    };
    let found: Vec<_> = recorded.events.iter().filter_map(found).collect();
    if found.is_empty() {
        println!("skipped: this Ruby cannot be read, or this user may not read its memory");
        return None;
    }
    // The method in C that a thread waits by, if it does, and the line that has called it.
    let place = |frames: &[holdup_trace::InterpretedFrame]| {
        let by = frames.first().filter(|one| &*one.file == "<internal:c>").map(|one| one.function.to_string());
        let own = frames.iter().find(|one| one.function.ends_with("refresh"))?;
        (*own.file == *script).then_some((by, own.line))
    };
    let named = |event: &Event| match &event.what {
        What::Named { name, exec: false } if name.starts_with("refresher of caches ") => Some(event.tid),
        _ => None,
    };
    let named: Vec<_> = recorded.events.iter().filter_map(named).collect();
    let named: [_; 3] = named.try_into().expect("each thread is named once");
    Some(named.map(|tid| {
        let places = || found.iter().filter(move |(of, _)| *of == tid).filter_map(|(_, at)| place(&at.frames));
        let count = |by: &str, line| places().filter(|(way, at)| way.as_deref() == Some(by) && *at == line).count();
        [count("synchronize", 6), count("sleep", 7), count("sleep", 9), places().count()]
    }))
}

#[test]
fn what_python_executes_is_found_with_lines_and_its_threads_bear_their_names() {
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("cache.py");
    std::fs::write(&script, PYTHON).unwrap();
    let script = script.to_str().unwrap();
    let has_python = Command::new("python3").arg("--version").stdout(Stdio::null()).status().is_ok();
    if !has_python {
        println!("skipped: there is no python3");
        return;
    }
    // How often each can be looked at is a matter of what looks cost: on a busy machine one may be missed.
    for attempt in (0..5).rev() {
        let looked_at = tempfile::tempdir().unwrap();
        let Some(recorded) = recorded(&options(command(&["python3", script]), looked_at.path())) else { return };
        let Some(looks) = python_looks(&recorded, script) else { return };
        for [waits, sleeps, all] in &looks {
            assert!(waits + sleeps >= all * 9 / 10, "{looks:?}");
        }
        // Who has the lock may have it again and again, but while one sleeps with it the two others wait.
        let sum = |at: usize| looks.iter().map(|of| of[at]).sum::<usize>();
        if looks.iter().all(|[waits, sleeps, _]| *waits > 0 && *sleeps > 0) && sum(0) > sum(1) {
            return;
        }
        assert!(attempt > 0, "{looks:?}");
    }
}

/// How many looks found each of the program's threads waiting for the lock, sleeping with it, and anywhere in
/// `refresh`. Nothing if its interpreter cannot be looked at.
fn python_looks(recorded: &Recorded, script: &str) -> Option<[[usize; 3]; 3]> {
    let found = |event: &Event| match &event.what {
        What::Interpreted(found) => Some((event.tid, found.clone())),
        _ => None,
    };
    let found: Vec<_> = recorded.events.iter().filter_map(found).collect();
    if found.is_empty() {
        println!("skipped: this Python cannot be read, or this user may not read its memory");
        return None;
    }
    let line = |frame: &holdup_trace::InterpretedFrame| {
        let name = frame.function.rsplit('.').next().unwrap_or_default();
        (&*frame.file == script && name == "refresh").then_some(frame.line)
    };
    let lines = |tid| found.iter().filter(move |(of, _)| *of == tid).filter_map(|(_, at)| line(&at.frames[0]));
    let named = |event: &Event| match &event.what {
        What::Named { name, exec: false } if name.starts_with("refresher-") => Some(event.tid),
        _ => None,
    };
    let named: Vec<_> = recorded.events.iter().filter_map(named).collect();
    let named: [_; 3] = named.try_into().expect("each thread is named once");
    Some(named.map(|tid| {
        let [waits, sleeps] = [9, 10].map(|wanted| lines(tid).filter(|line| *line == wanted).count());
        [waits, sleeps, lines(tid).count()]
    }))
}
