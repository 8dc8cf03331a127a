//! Recordings, our own and perf's: read, analysed, reported and exported as the program does it.

use std::sync::{Arc, LazyLock};

use fastrand::Rng;
use holdup::export;
use holdup::recording::Recording;
use holdup::report::{self, Style};
use holdup_analyze::{Analysis, Modules, NoModules, Options};
use holdup_record::import::{self as perf, Scope};
use holdup_trace::{
    Blocked, Capabilities, Counter, Ending, Event, FutexOp, Header, Interpreted, InterpretedFrame, LockFigures,
    Machine, Mapping, OffCpu, Pid, Pointers, Reader, Registers, Stack, StackId, Stacks, TaskGroup, TaskState, Tasks,
    ThreadUsage, Tid, What, Word, Writer,
};

use super::damage;

const FIRST: &[u8] = include_bytes!("../../../../../fixtures/recordings/format-1.holdup");
const PING_PONG: &[u8] = include_bytes!("../../../../../fixtures/recordings/ping-pong.perf.data");

/// One input in so many is shown in every way, which takes much longer than to read it.
const SHOWN: u64 = 8;

/// A recording that perf made, as ours.
static IMPORTED: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let mut recording = Vec::new();
    perf::import(PING_PONG, &Scope::All, &mut recording).unwrap();
    recording
});

pub fn damaged(random: &mut Rng) -> Vec<u8> {
    let whole = match random.usize(..4) {
        0 => FIRST.to_vec(),
        1 => IMPORTED.clone(),
        _ => made(random),
    };
    match random.usize(..5) {
        // As it is: any sequence of events that can be written can be read.
        0 => whole,
        1 => damage::bytes(&whole, random),
        _ => damaged_inside(&whole, random),
    }
}

pub fn read(bytes: &[u8], number: u64) {
    read_with(bytes, number, &NoModules);
}

/// Reads a recording whose binaries these are.
pub fn read_with(bytes: &[u8], number: u64, modules: &dyn Modules) {
    let Ok(reader) = Reader::open(bytes) else { return };
    let options = Options { timeline: number.is_multiple_of(SHOWN), ..Options::default() };
    let mut analysis = Analysis::new(reader.header(), options);
    let mut stacks = Stacks::new();
    let summary = reader.read(&mut stacks, &mut |event| analysis.feed(event));
    let report = analysis.finish(summary.ending.as_ref(), &stacks, modules);
    let file_bytes = bytes.len() as u64;
    let recording = Recording { path: "fuzz.holdup".into(), file_bytes, report, damage: summary.damage };
    let style = Style { width: 80, colour: false };
    let text = report::recording::summary::screen(&recording).terminal(&style);
    assert!(text.chars().all(|c| c == '\n' || !c.is_control()), "a control character reaches the terminal: {text:?}");
    if options.timeline {
        shown(&recording, &style);
    }
}

fn shown(recording: &Recording, style: &Style) {
    let facts = &recording.report.facts;
    let views = [
        report::recording::threads::table(facts, 10),
        report::recording::locks::table(facts, 10),
        report::recording::pairs::table(facts, 10),
        report::recording::code::symbols(facts, 10),
        report::recording::account::blame(facts, 10),
        report::recording::account::path(facts, 10),
        report::recording::diff::view(recording, recording),
    ];
    let findings =
        (0..recording.report.findings.len()).filter_map(|at| report::recording::finding::full(recording, at));
    for view in views.into_iter().chain(findings) {
        let text = view.terminal(style);
        assert!(
            text.chars().all(|c| c == '\n' || !c.is_control()),
            "a control character reaches the terminal: {text:?}"
        );
    }
    serde_json::to_string(&report::recording::json::Report::new(recording)).unwrap();
    let mut sink = std::io::sink();
    report::page::recording(recording, &mut sink).unwrap();
    export::perfetto::write(&recording.report, &mut sink).unwrap();
    export::firefox::write(&recording.report, &mut sink).unwrap();
}

pub fn damaged_perf_data(random: &mut Rng) -> Vec<u8> {
    // Headers say where all the rest is.
    let mut bytes = PING_PONG.to_vec();
    match random.usize(..3) {
        0 => {
            let head = damage::bytes(&bytes[..400], random);
            drop(bytes.splice(..400, head));
        }
        1 => bytes = damage::bytes(&bytes, random),
        _ => {
            let at = random.usize(..bytes.len() - 600);
            let piece = damage::bytes(&bytes[at..at + 600], random);
            drop(bytes.splice(at..at + 600, piece));
        }
    }
    bytes
}

pub fn import(bytes: &[u8], number: u64) {
    let mut recording = Vec::new();
    let scope = if number.is_multiple_of(2) { Scope::All } else { Scope::Command };
    if perf::import(bytes, &scope, &mut recording).is_ok() {
        assert!(Reader::open(&recording).is_ok(), "what is written can be read");
        if number.is_multiple_of(SHOWN) {
            read(&recording, number);
        }
    }
}

/// A recording of events as they come, with any values.
fn made(random: &mut Rng) -> Vec<u8> {
    let mut writer = Writer::new(Vec::new(), &header(random)).unwrap();
    let mut time_ns = 1_000_000;
    for _ in 0..random.usize(..160) {
        time_ns += random.u64(..) >> random.usize(24..64);
        let tid = Tid(random.u32(1..6));
        let what = what(random, &mut writer);
        writer.event(&Event { time_ns, tid, cpu: random.u16(..3), what }).unwrap();
        if random.usize(..40) == 0 {
            writer.flush().unwrap();
        }
    }
    let counted = |random: &mut Rng| random.bool().then(|| random.u64(..) >> random.usize(..64));
    let ending = Ending {
        ended_ns: time_ns + random.u64(..1_000_000),
        reason: "the target ended".to_owned(),
        status: random.bool().then_some(0),
        voluntary: counted(random),
        involuntary: counted(random),
        user_ns: counted(random),
        kernel_ns: counted(random),
        ..Ending::default()
    };
    writer.finish(&ending).unwrap()
}

fn header(random: &mut Rng) -> Header {
    Header {
        producer: "fuzz".to_owned(),
        began_ns: 1_000_000,
        machine: Machine { arch: "x86_64".to_owned(), cpus: random.u32(..4), ..Machine::default() },
        capabilities: Capabilities {
            switches: true,
            switch_reasons: random.bool(),
            wakings: random.bool(),
            futexes: random.bool(),
            calls: random.bool(),
            samples: random.bool(),
            kernel: random.bool(),
            lock_words: random.bool(),
            ..Capabilities::default()
        },
        sample_period_ns: if random.bool() { 1_000_000 } else { 0 },
        futex_zero_period: 1,
        look_period_ns: if random.usize(..4) == 0 { 1_000_000 } else { 0 },
        ..Header::default()
    }
}

fn number(random: &mut Rng) -> u64 {
    random.u64(..) >> random.usize(..64)
}

fn name(random: &mut Rng) -> &'static str {
    let names =
        ["", "main", "tokio-runtime-w", "a\u{1b}[31mb", "\u{202e}", "GC Thread#0", "/usr/bin/python3.11", "名前"];
    names[random.usize(..names.len())]
}

fn address(random: &mut Rng) -> u64 {
    match random.usize(..4) {
        0 => number(random),
        _ => 0x40_0000 + 16 * random.u64(..40),
    }
}

fn stack(random: &mut Rng, writer: &mut Writer<Vec<u8>>) -> StackId {
    let word = |random: &mut Rng| match random.bool() {
        true => Word::Code(address(random)),
        false => Word::Stack(random.i32(-64..512)),
    };
    let words: Vec<(u16, Word)> = (0..random.u16(..12)).map(|at| (at * 2, word(random))).collect();
    let stack = Stack {
        kernel: (0..random.usize(..3)).map(|_| u64::MAX << 40 | number(random)).collect(),
        user: (0..random.usize(..5)).map(|_| address(random)).collect(),
        registers: random.bool().then(|| Registers { ip: address(random), fp: word(random), lr: number(random) }),
        depth: if words.is_empty() { 0 } else { 32 },
        words,
    };
    writer.stack(&stack)
}

fn what(random: &mut Rng, writer: &mut Writer<Vec<u8>>) -> What {
    let may = |random: &mut Rng, writer: &mut Writer<Vec<u8>>| random.bool().then(|| stack(random, writer));
    let offs = [OffCpu::Runnable, OffCpu::Blocked, OffCpu::Sleeping, OffCpu::Uninterruptible, OffCpu::Gone];
    let op = FutexOp(random.u32(..16) | [0, 128][random.usize(..2)]);
    match random.usize(..24) {
        0..=3 => What::SwitchIn,
        4..=7 => What::SwitchOut { off: offs[random.usize(..offs.len())], stack: may(random, writer) },
        8 => What::Waking { target: Tid(random.u32(..6)), stack: may(random, writer) },
        9 | 10 => {
            What::FutexWait { op, addr: 0x7000 + random.u64(..64), value: random.u32(..3), stack: may(random, writer) }
        }
        11 => What::FutexReturn {
            op,
            addr: 0x7000 + random.u64(..64),
            ret: random.i32(-120..3),
            stack: may(random, writer),
        },
        12 => What::Call { nr: holdup_trace::CallNumber(random.u16(..400)), stack: may(random, writer) },
        13 => What::Sample { stack: stack(random, writer) },
        14 => What::MajorFault { addr: number(random), stack: may(random, writer) },
        15 => What::MinorFault { stack: stack(random, writer) },
        16 => What::Started { pid: Pid(random.u32(1..4)), parent: random.bool().then(|| Tid(random.u32(..6))) },
        17 => What::Exited,
        18 => What::Named { name: name(random).into(), exec: random.bool() },
        19 => What::Mapped(Box::new(Mapping {
            pid: Pid(random.u32(1..4)),
            start: 0x40_0000,
            len: number(random),
            offset: number(random) & !0xfff,
            path: name(random).into(),
            build_id: random.bool().then(|| [random.u8(..); 20].into()),
        })),
        20 => What::Blocked(Box::new(Blocked {
            nr: random.bool().then(|| holdup_trace::CallNumber(random.u16(..400))),
            wchan: random.bool().then(|| "futex_wait_queue".into()),
            file: random.bool().then(|| name(random).into()),
            deep: random.bool(),
            addr: number(random),
            stack: may(random, writer),
        })),
        21 => What::Interpreted(Box::new(Interpreted {
            holds: random.bool(),
            frames: (0..random.usize(..4))
                .map(|_| InterpretedFrame {
                    function: name(random).into(),
                    file: name(random).into(),
                    line: random.u32(..9),
                })
                .collect::<Arc<[InterpretedFrame]>>(),
        })),
        22 => What::Tasks(Box::new(Tasks {
            all: number(random),
            looked: random.u64(..100),
            groups: (0..random.usize(..4)).map(|_| group(random, writer)).collect(),
        })),
        _ => rarer(random),
    }
}

fn group(random: &mut Rng, writer: &mut Writer<Vec<u8>>) -> TaskGroup {
    let states = [TaskState::Runnable, TaskState::Running, TaskState::Call, TaskState::Waiting];
    let reasons = ["", "sync.Mutex.Lock", "chan receive", "chan send", "select", "IO wait", "sleep"];
    TaskGroup {
        count: number(random),
        state: states[random.usize(..states.len())],
        reason: reasons[random.usize(..reasons.len())].into(),
        addr: random.u64(..4),
        places: random.bool().then(|| random.u64(..4)),
        example: random.u64(..9),
        stack: random.bool().then(|| stack(random, writer)),
    }
}

fn rarer(random: &mut Rng) -> What {
    let counters = [Counter::RecorderCpuNs];
    match random.usize(..6) {
        0 => What::Lost { count: number(random) },
        1 => What::LockWord { addr: 0x7000 + random.u64(..64), word: random.u32(..), owner: random.u32(..6) },
        2 => What::Count { counter: counters[random.usize(..counters.len())], value: number(random) },
        3 => What::Usage(Box::new(ThreadUsage { voluntary: number(random), ..ThreadUsage::default() })),
        4 => What::LockFigures(Box::new(LockFigures {
            addr: 0x7000 + random.u64(..64),
            acquisitions: number(random),
            contended: number(random),
            ..LockFigures::default()
        })),
        _ => What::Pointers(Box::new(Pointers {
            ip: address(random),
            registers: (0..random.u8(..8)).map(|register| (register, number(random))).collect(),
        })),
    }
}

const PROLOGUE: usize = 16;
const HEADER: usize = 44;

/// Damage to what the chunks hold, which are then stored as they are, with lengths and checksums made right again:
/// otherwise the checksums find all of it.
fn damaged_inside(whole: &[u8], random: &mut Rng) -> Vec<u8> {
    let mut unpacked = &*Reader::open(whole).unwrap().unpacked();
    let (mut result, mut rest, mut is_first) = (whole[..PROLOGUE].to_vec(), &whole[PROLOGUE..], true);
    while rest.len() >= HEADER {
        let word = |at: usize| u32::from_le_bytes(rest[at..at + 4].try_into().unwrap());
        let (stored, raw) = (word(8) as usize, word(12) as usize);
        let (held, later) = unpacked.split_at(raw);
        let keeps = random.usize(..if is_first { 8 } else { 3 }) > 0 && (is_first || random.bool());
        let raw = if keeps { held.to_vec() } else { damage::bytes(held, random) };
        let mut header = rest[..HEADER].to_vec();
        header[5] = 0;
        header[8..12].copy_from_slice(&(raw.len() as u32).to_le_bytes());
        header[12..16].copy_from_slice(&(raw.len() as u32).to_le_bytes());
        if random.usize(..32) == 0 {
            header[16] = random.u8(..);
        }
        header[36..40].copy_from_slice(&xxh32(&raw).to_le_bytes());
        let sum = xxh32(&header[..40]);
        header[40..].copy_from_slice(&sum.to_le_bytes());
        result.extend([header, raw].concat());
        (rest, unpacked, is_first) = (&rest[HEADER + stored..], later, false);
    }
    result
}

/// XXH32 with seed 0, as published.
fn xxh32(bytes: &[u8]) -> u32 {
    const PRIMES: [u32; 5] = [0x9E37_79B1, 0x85EB_CA77, 0xC2B2_AE3D, 0x27D4_EB2F, 0x1656_67B1];
    let word = |bytes: &[u8]| u32::from_le_bytes(bytes[..4].try_into().unwrap());
    let mut sums = [PRIMES[0].wrapping_add(PRIMES[1]), PRIMES[1], 0, 0_u32.wrapping_sub(PRIMES[0])];
    let stripes = bytes.chunks_exact(16);
    let mut rest = stripes.remainder();
    for stripe in stripes {
        for (lane, sum) in sums.iter_mut().enumerate() {
            let mixed = sum.wrapping_add(word(&stripe[4 * lane..]).wrapping_mul(PRIMES[1]));
            *sum = mixed.rotate_left(13).wrapping_mul(PRIMES[0]);
        }
    }
    let turned = [1, 7, 12, 18].iter().zip(sums).map(|(bits, sum)| sum.rotate_left(*bits));
    let mut hash = if bytes.len() < 16 { PRIMES[4] } else { turned.fold(0, u32::wrapping_add) };
    hash = hash.wrapping_add(bytes.len() as u32);
    while rest.len() >= 4 {
        hash = hash.wrapping_add(word(rest).wrapping_mul(PRIMES[2])).rotate_left(17).wrapping_mul(PRIMES[3]);
        rest = &rest[4..];
    }
    for byte in rest {
        hash = hash.wrapping_add(u32::from(*byte).wrapping_mul(PRIMES[4])).rotate_left(11).wrapping_mul(PRIMES[0]);
    }
    hash = (hash ^ hash >> 15).wrapping_mul(PRIMES[1]);
    hash = (hash ^ hash >> 13).wrapping_mul(PRIMES[2]);
    hash ^ hash >> 16
}
