//! Size and speed of recordings: bytes per event and per switch, events per second, written and read.
//!
//! `cargo bench -p holdup-trace --bench file -- [MILLIONS]`. The recording is of eight threads that pass three locks
//! around on four CPUs, four events per switch, one of them with a stack, and a CPU sample now and then; flushed every
//! 100 ms as the recorder does. Runs alternate and the medians count, so that the machine's drift hits all alike.

use std::hint::black_box;
use std::time::Instant;

use holdup_trace::{
    Ending, Event, FutexOp, Header, OffCpu, Reader, Registers, Stack, StackId, Stacks, Tid, What, Word, Writer,
};

const ROUNDS: usize = 5;
const STACKS: u64 = 60;
/// Switches per second of the made-up program: a chunk every 100 ms has 2,000 of them, or all that fit.
const PACES: [(&str, u64); 3] = [("2k switches/s", 500_000), ("20k switches/s", 50_000), ("700k switches/s", 1_400)];

struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}

/// A stack as deep as real ones: 12 frames, 512 bytes looked at, a word in three worth keeping.
fn stack(seed: u64) -> Stack {
    let code = |n: u64| 0x55d0_1234_0000 + (seed % 7 + n) * 0x131;
    let user: Vec<u64> = (0..12).map(|n| if n < 3 { 0x7f88_0010_0000 + n * 0x77 } else { code(n) }).collect();
    let word = |n: u16| {
        if n.is_multiple_of(2) { Word::Code(code(u64::from(n))) } else { Word::Stack(i32::from(n) * 8) }
    };
    Stack {
        kernel: Vec::new(),
        registers: Some(Registers { ip: user[0], fp: Word::Stack(seed as i32 * 16), lr: 0 }),
        words: (0..21).map(|n| (n * 3, word(n))).collect(),
        depth: 64,
        user,
    }
}

/// The events of `switches` switches, so long apart on average.
fn events(switches: u64, apart_ns: u64) -> Vec<Event> {
    let mut random = Random(0x9E37_79B9_7F4A_7C15);
    let op = FutexOp(FutexOp::WAIT | 128);
    let mut events = Vec::new();
    let mut time_ns = 5_000_000_000_000;
    for _ in 0..switches {
        let (cpu, lock) = (random.below(4) as u16, random.below(3));
        let (out, into) = (Tid(40_000 + random.below(8) as u32), Tid(40_000 + random.below(8) as u32));
        let addr = 0x55d0_2000_0040 + lock * 0x1240;
        let wait = Some(StackId(random.below(STACKS) as u32));
        let steps = [
            (apart_ns / 2, out, What::FutexWait { op, addr, value: 2, stack: wait }),
            (800, out, What::SwitchOut { off: OffCpu::Blocked, stack: None }),
            (apart_ns / 2, into, What::SwitchIn),
            (500, into, What::FutexReturn { op, addr, ret: 0, stack: None }),
        ];
        for (after_ns, tid, what) in steps {
            time_ns += after_ns / 2 + random.below(after_ns.max(1));
            events.push(Event { time_ns, tid, cpu, what });
        }
        if random.below(20) == 0 {
            let what = What::Sample { stack: StackId(random.below(STACKS) as u32) };
            events.push(Event { time_ns, tid: into, cpu, what });
        }
    }
    events
}

fn write(events: &[Event]) -> Vec<u8> {
    let memory = "writing to memory does not fail";
    let mut writer = Writer::new(Vec::new(), &Header::default()).expect(memory);
    for seed in 0..STACKS {
        writer.stack(&stack(seed));
    }
    let mut flush_at_ns = 0;
    for event in events {
        if event.time_ns >= flush_at_ns {
            writer.flush().expect(memory);
            flush_at_ns = event.time_ns + 100_000_000;
        }
        writer.event(event).expect(memory);
    }
    writer.finish(&Ending::default()).expect(memory)
}

fn read(bytes: &[u8]) -> (u64, u64) {
    let mut last_ns = 0;
    let reader = Reader::open(bytes).expect("it was just written");
    let summary = reader.read(&mut Stacks::new(), &mut |event| last_ns = black_box(event).time_ns);
    assert!(summary.damage.is_empty() && last_ns > 0);
    (summary.events, summary.uncompressed_bytes)
}

fn seconds<T>(work: impl FnOnce() -> T) -> (f64, T) {
    let began = Instant::now();
    let result = work();
    (began.elapsed().as_secs_f64(), result)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() {
    // cargo adds --bench to the arguments.
    let millions = std::env::args().skip(1).find_map(|arg| arg.parse::<f64>().ok()).unwrap_or(4.0);
    println!(
        "{:<16} {:>12} {:>13} {:>13} {:>13} {:>13}",
        "", "raw B/event", "file B/event", "file B/switch", "write M ev/s", "read M ev/s"
    );
    for (name, apart_ns) in PACES {
        let switches = (millions * 1e6 / 4.05) as u64;
        let events = events(switches, apart_ns);
        let (mut writes, mut reads) = (Vec::new(), Vec::new());
        let (mut stored, mut raw) = (0, 0);
        for _ in 0..ROUNDS {
            let (write_s, bytes) = seconds(|| write(&events));
            let (read_s, (count, uncompressed)) = seconds(|| read(&bytes));
            assert_eq!(count, events.len() as u64);
            (stored, raw) = (bytes.len(), uncompressed);
            writes.push(write_s);
            reads.push(read_s);
        }
        let count = events.len() as f64;
        let rate = |times| count / 1e6 / median(times);
        println!(
            "{name:<16} {:>12.2} {:>13.2} {:>13.2} {:>13.1} {:>13.1}",
            raw as f64 / count,
            stored as f64 / count,
            stored as f64 / switches as f64,
            rate(writes),
            rate(reads)
        );
    }
}
