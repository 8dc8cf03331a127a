//! How many events per second the state machine takes: synthetic streams of five million events, no binaries.
//!
//! `cargo bench -p holdup-analyze --bench feed`

use std::time::Instant;

use holdup_analyze::{Analysis, NoModules, Options};
use holdup_trace::{
    CallNumber, Capabilities, Event, FutexOp, Header, Machine, OffCpu, Pid, Stack, StackId, Stacks, Tid, What,
};

const EVENTS: usize = 5_000_000;
const THREADS: u32 = 64;
const REPEATS: usize = 5;

/// Makes a stream.
type Make = fn() -> Vec<Event>;

fn main() {
    let streams: [(&str, Make); 3] =
        [("contended mutexes", convoy), ("switches only", switches), ("wasted futex calls", storm)];
    for (name, make) in streams {
        let events = make();
        let mut rates: Vec<f64> = (0..REPEATS).map(|_| rate(&events)).collect();
        rates.sort_by(f64::total_cmp);
        println!(
            "{name:20} {:5.1} million events/s (median of {REPEATS}, {:.1} to {:.1})",
            rates[REPEATS / 2],
            rates[0],
            rates[REPEATS - 1]
        );
    }
}

/// Millions of events per second.
fn rate(events: &[Event]) -> f64 {
    let header = Header {
        machine: Machine { cpus: 8, arch: "x86_64".into(), ..Machine::default() },
        capabilities: Capabilities {
            switches: true,
            futexes: true,
            calls: true,
            samples: true,
            ..Capabilities::default()
        },
        ..Header::default()
    };
    let mut stacks = Stacks::new();
    for address in 0..64 {
        stacks.intern(&Stack { user: vec![0x1000 + address], ..Stack::default() });
    }
    let mut analysis = Analysis::new(&header, Options::default());
    let began = Instant::now();
    events.iter().for_each(|event| analysis.feed(event));
    let seconds = began.elapsed().as_secs_f64();
    let report = analysis.finish(None, &stacks, &NoModules);
    assert_eq!(report.facts.totals.events, events.len() as u64);
    events.len() as f64 / seconds / 1e6
}

/// A stream under construction.
struct Stream {
    events: Vec<Event>,
    now: u64,
}

impl Stream {
    fn new() -> Stream {
        let mut stream = Stream { events: Vec::with_capacity(EVENTS + 64), now: 1_000_000 };
        for thread in 0..THREADS {
            stream.push(thread, What::Started { pid: Pid(1000), parent: None });
        }
        stream
    }

    fn push(&mut self, thread: u32, what: What) {
        self.now += 150;
        let cpu = (thread % 8) as u16;
        self.events.push(Event { time_ns: self.now, tid: Tid(1000 + thread), cpu, what });
    }

    fn is_full(&self) -> bool {
        self.events.len() >= EVENTS
    }
}

fn stack(number: u32) -> Option<StackId> {
    Some(StackId(number % 64))
}

/// Every wait sleeps, and its waker is found; now and then a sleep, a preemption, a sample.
fn convoy() -> Vec<Event> {
    let mut stream = Stream::new();
    let (wait, wake) = (FutexOp(FutexOp::WAIT | 128), FutexOp(FutexOp::WAKE | 128));
    let mut turn = 0_u32;
    while !stream.is_full() {
        turn += 1;
        let (a, b) = (turn % THREADS, (turn * 7 + 3) % THREADS);
        if a == b {
            continue;
        }
        let addr = 0x1000 + u64::from(turn % 16) * 64;
        stream.push(a, What::SwitchIn);
        stream.push(a, What::FutexWait { op: wait, addr, value: 2, stack: stack(turn) });
        stream.push(a, What::SwitchOut { off: OffCpu::Blocked, stack: None });
        stream.push(b, What::SwitchIn);
        stream.push(b, What::FutexReturn { op: wake, addr, ret: 1, stack: stack(turn + 5) });
        stream.push(a, What::SwitchIn);
        stream.push(a, What::FutexReturn { op: wait, addr, ret: 0, stack: None });
        if turn.is_multiple_of(4) {
            stream.push(a, What::Sample { stack: StackId(turn % 64) });
        }
        stream.push(b, What::SwitchOut { off: OffCpu::Runnable, stack: None });
        stream.push(a, What::Call { nr: CallNumber(35), stack: stack(turn) });
        stream.push(a, What::SwitchOut { off: OffCpu::Blocked, stack: None });
    }
    stream.events
}

fn switches() -> Vec<Event> {
    let mut stream = Stream::new();
    let mut turn = 0;
    while !stream.is_full() {
        turn += 1;
        stream.push(turn % THREADS, What::SwitchIn);
        stream.push(turn % THREADS, What::SwitchOut { off: OffCpu::Blocked, stack: None });
    }
    stream.events
}

/// Waits that get EAGAIN, wakes that wake nobody.
fn storm() -> Vec<Event> {
    let mut stream = Stream::new();
    let (wait, wake) = (FutexOp(FutexOp::WAIT | 128), FutexOp(FutexOp::WAKE | 128));
    let mut turn = 0_u32;
    while !stream.is_full() {
        turn += 1;
        let addr = 0x1000 + u64::from(turn % 1000) * 64;
        stream.push(turn % 8, What::FutexWait { op: wait, addr, value: 2, stack: stack(turn) });
        stream.push(turn % 8, What::FutexReturn { op: wake, addr, ret: 0, stack: None });
    }
    stream.events
}
