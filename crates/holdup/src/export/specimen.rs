//! A small made-up report with a timeline, names that try to break a format among them.

use std::sync::Arc;

use holdup_analyze::{
    Command, Cure, Facts, Finding, Frame, Interval, Kind, LockFacts, LockName, LockNumber, Moment, Primitive,
    ProcessFacts, Reason, Report, Role, SampleAt, State, Subject, ThreadFacts, Timeline, Wake,
};
use holdup_trace::{Header, Pid, Target, Tid};

pub(crate) const BEGAN_NS: u64 = 7_000_000_000_000;

/// Quotes, a backslash, control characters, a change of direction, and what ends a script in a page.
pub(crate) const HOSTILE: &str = "a\"b\\c\u{0}\u{1b}[31m\n\u{202e}d</script>\u{2028}e";

/// Two threads of one process that hand one lock to each other, `rounds` times.
pub(crate) fn report(rounds: u64) -> Report {
    Report { facts: facts(rounds), findings: vec![finding()], timeline: Some(timeline(rounds)), ..Report::default() }
}

fn facts(rounds: u64) -> Facts {
    let end_ns = BEGAN_NS + rounds * 100_000;
    let thread = |tid: u32, name: &str| ThreadFacts {
        tid: Tid(tid),
        pid: Pid(500),
        name: name.to_owned(),
        born_ns: BEGAN_NS,
        ended_ns: end_ns,
        exited: tid == 501,
        ..ThreadFacts::default()
    };
    let symbol = |name: &str| LockName::Symbol { name: name.to_owned(), offset: 0 };
    let lock = |name, primitive| LockFacts { pid: Pid(500), name, primitive, ..LockFacts::default() };
    Facts {
        header: Header {
            began_ns: BEGAN_NS,
            began_unix_s: 1_790_000_000,
            sample_period_ns: 1_000_000,
            target: Target { command: vec!["./x".to_owned(), HOSTILE.to_owned()], pids: vec![500], attached: false },
            ..Header::default()
        },
        start_ns: BEGAN_NS,
        end_ns,
        processes: vec![ProcessFacts { pid: Pid(500), name: HOSTILE.to_owned(), ..ProcessFacts::default() }],
        threads: vec![thread(500, "main"), thread(501, HOSTILE)],
        locks: vec![lock(symbol("g_lock"), Primitive::Mutex), lock(symbol(HOSTILE), Primitive::Condvar)],
        ..Facts::default()
    }
}

/// ```text
/// main    |=== run ===|--- wait g_lock ---|r|   every 100 us; "r": runnable
/// worker  |-- wait ---|=== run ==========|--|
/// ```
fn timeline(rounds: u64) -> Timeline {
    timeline_with(rounds, |_| {})
}

/// The same, with its intervals changed.
fn timeline_with(rounds: u64, change: impl FnOnce(&mut Vec<Vec<Interval>>)) -> Timeline {
    let mut threads = vec![Vec::new(), Vec::new()];
    let mut timeline = Timeline::default();
    let off = |primitive, lock| State::Off { reason: Reason::Futex(primitive), lock: Some(LockNumber(lock)) };
    let put = |threads: &mut Vec<Vec<Interval>>, thread: usize, from_ns, to_ns, state| {
        threads[thread].push(Interval { from_ns, to_ns, state });
    };
    for round in 0..rounds {
        let at = |us: u64| BEGAN_NS + round * 100_000 + us * 1_000;
        let worker_waits = match round % 4 {
            0 => off(Primitive::Condvar, 1),
            1 => State::Off { reason: Reason::Sleep, lock: None },
            2 => State::Unknown,
            _ => State::Off { reason: Reason::Io, lock: None },
        };
        put(&mut threads, 0, at(0), at(40), State::Running { cpu: (round % 2) as u16 });
        put(&mut threads, 0, at(40), at(90), off(Primitive::Mutex, 0));
        put(&mut threads, 0, at(90), at(100), State::Runnable);
        put(&mut threads, 1, at(0), at(40), worker_waits);
        put(&mut threads, 1, at(40), at(95), State::Running { cpu: 1 });
        put(&mut threads, 1, at(95), at(100), State::Off { reason: Reason::Preempted, lock: None });
        timeline.wakes.push(Wake { time_ns: at(39), from: Tid(500), to: Tid(501) });
        timeline.wakes.push(Wake { time_ns: at(90), from: Tid(501), to: Tid(500) });
        timeline.samples.push(SampleAt { time_ns: at(10), thread: 0, call_path: (round % 2) as u32 });
        timeline.samples.push(SampleAt { time_ns: at(60), thread: 1, call_path: 1 });
    }
    // From outside, and to nobody who runs again.
    timeline.wakes.push(Wake { time_ns: BEGAN_NS + rounds * 100_000, from: Tid(0), to: Tid(500) });
    timeline.wakes.push(Wake { time_ns: BEGAN_NS + rounds * 100_000, from: Tid(500), to: Tid(501) });
    change(&mut threads);
    let call_paths = vec![call_path("work", Role::Program), call_path(HOSTILE, Role::Kernel)];
    let mut rows = Timeline::of(&threads);
    // Where threads leave the CPU for a lock.
    for kind in rows.kinds.iter_mut().filter(|kind| matches!(kind.state, State::Off { lock: Some(_), .. })) {
        kind.call_path = Some(1);
    }
    Timeline { call_paths, threads: rows.threads, kinds: rows.kinds, ..timeline }
}

fn call_path(function: &str, role: Role) -> Arc<[Frame]> {
    let frame = |function: Option<&str>, line: Option<u32>, role| Frame {
        address: 0x1000,
        function: function.map(Arc::from),
        module: Arc::from("/usr/bin/x"),
        offset: 0x1000,
        start: 0x1000,
        file: line.map(|_| Arc::from("x.c")),
        line,
        inlined: false,
        role,
    };
    Arc::from([
        frame(Some(function), Some(17), role),
        frame(None, None, Role::Program),
        frame(Some("main"), Some(99), Role::Program),
    ])
}

fn finding() -> Finding {
    Finding {
        bound: None,
        kind: Kind::HotLock,
        severity: 0.5,
        subjects: vec![Subject::Thread { tid: Tid(501), name: HOSTILE.to_owned() }],
        place: None,
        evidence: Vec::new(),
        moments: vec![
            Moment { tid: Tid(500), from_ns: BEGAN_NS + 40_000, to_ns: BEGAN_NS + 90_000 },
            Moment { tid: Tid(999), from_ns: BEGAN_NS + 50_000, to_ns: BEGAN_NS + 60_000 },
        ],
        cure: Cure::SpinThenPark,
        proof: Command { words: Vec::new(), program: true },
    }
}

/// A report whose parts contradict each other: indices of nothing, time that goes back, more rows than threads.
pub(crate) fn contradictory() -> Report {
    let mut report = report(2);
    report.facts.locks.clear();
    report.facts.processes.clear();
    report.facts.header = Header::default();
    let odd = Interval { from_ns: BEGAN_NS, to_ns: 3, state: State::Running { cpu: u16::MAX } };
    let mut timeline = timeline_with(2, |threads| {
        threads[0].insert(3, odd);
        threads.push(vec![odd]);
    });
    timeline.wakes.reverse();
    timeline.samples.push(SampleAt { time_ns: 1, thread: 99, call_path: 0 });
    timeline.samples.push(SampleAt { time_ns: 1, thread: 0, call_path: 99 });
    timeline.samples.push(SampleAt { time_ns: u64::MAX, thread: 0, call_path: 0 });
    Report { timeline: Some(timeline), ..report }
}
