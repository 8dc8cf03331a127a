//! Binaries and maps of generated code, asked everything that the analysis asks of them.

use fastrand::Rng;
use holdup_analyze::{Analysis, Catalog, Modules, Options};
use holdup_trace::{
    Capabilities, Event, FutexOp, Header, Machine, Mapping, Pid, Registers, Stack, Stacks, Tid, What, Word,
};

use super::{damage, readers};

const BINARIES: [&[u8]; 2] = [
    include_bytes!("../../../../../fixtures/fuzz/dwarf4.elf"),
    include_bytes!("../../../../../fixtures/fuzz/dwarf5.elf"),
];
/// Where they are mapped, of what length, and where their variables are.
const BASE: u64 = 0x40_0000;
const LEN: u64 = 0x1000;
const VARIABLES: [u64; 4] = [0x40_2000, 0x40_2048, 0x40_2020, 0x40_2068];
const GENERATED: u64 = 0x7f00_0000_0000;

/// Where a runtime's dump of its code is mapped.
const DUMP: &str = "/tmp/jit-1.dump";

/// One file, and one map or dump of generated code.
#[derive(Default)]
struct Files<'a> {
    file: &'a [u8],
    map: &'a [u8],
    dump: &'a [u8],
}

impl Modules for Files<'_> {
    fn file(&self, path: &str, _: Option<&[u8]>) -> Option<&[u8]> {
        (path == "/bin/fuzzed").then_some(self.file)
    }

    fn debug_file(&self, _: &str, _: Option<&[u8]>, _: Option<&[u8]>) -> Option<&[u8]> {
        Some(BINARIES[0])
    }

    fn code_map(&self, _: Pid, see: &mut dyn FnMut(&[u8])) -> Option<String> {
        see(self.map);
        Some("/tmp/perf-1.map".to_owned())
    }

    fn jit_dump(&self, _: Pid, path: &str, see: &mut dyn FnMut(&[u8])) -> Option<String> {
        // Parts of a length that records do not have.
        self.dump.chunks(97).for_each(see);
        Some(path.to_owned())
    }

    fn kernel_symbols(&self) -> &[(u64, Box<str>)] {
        &[]
    }
}

pub fn damaged_binary(random: &mut Rng) -> Vec<u8> {
    let whole = BINARIES[random.usize(..BINARIES.len())];
    // Line information, tables of symbols and of sections are most of these files; the rest is code.
    let (from, to) = match random.usize(..4) {
        0 => (0, 0x400),
        1 => (whole.len() - 0x600, whole.len()),
        _ => (0, whole.len()),
    };
    let mut bytes = whole.to_vec();
    let piece = damage::bytes(&whole[from..to], random);
    // Most damage leaves the rest of the file where it was.
    match random.usize(..4) {
        0 => drop(bytes.splice(from..to, piece)),
        _ => bytes[from..to].iter_mut().zip(piece).for_each(|(byte, new)| *byte = new),
    }
    bytes
}

pub fn read_binary(bytes: &[u8], number: u64) {
    let files = Files { file: bytes, ..Files::default() };
    analyse(&files);
    if number.is_multiple_of(4)
        && let Some(catalog) = Catalog::of("/bin/fuzzed", &files)
    {
        catalog.names();
        for name in ["g_cache.shards[1]", "s_locks", "warm", "tiny.c:26", "g_cache.lock"] {
            catalog.find(name);
        }
    }
}

pub fn damaged_map(random: &mut Rng) -> Vec<u8> {
    let lines = (0..random.u64(..40)).map(|n| {
        let names =
            ["LazyCompile:~run /srv/app.js:1:20", "Lcom/shop/Cart;::total", "py::work:/srv/a.py", "JS:*f :1", ""];
        format!("{:x} {:x} {}\n", GENERATED + 64 * n, random.u64(..200), names[random.usize(..names.len())])
    });
    let text: String = lines.collect();
    readers::one_of(&[text.into_bytes()], random)
}

pub fn read_map(bytes: &[u8], _: u64) {
    analyse(&Files { file: BINARIES[0], map: bytes, ..Files::default() });
}

/// Functions that come, have lines, and move, where threads are found.
pub fn damaged_dump(random: &mut Rng) -> Vec<u8> {
    let record = |id: u32, time_ns: u64, body: &[u8]| {
        let len = (16 + body.len()) as u32;
        [&id.to_ne_bytes()[..], &len.to_ne_bytes(), &time_ns.to_ne_bytes(), body].concat()
    };
    let numbers = |numbers: &[u64]| numbers.iter().flat_map(|number| number.to_ne_bytes()).collect::<Vec<u8>>();
    let words = [0x4a69_5444_u32, 1, 40, 62, 0, 1];
    let mut dump: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
    dump.extend(numbers(&[0, u64::from(random.usize(..8) == 0)]));
    for code in 0..random.u64(..24) {
        let time_ns = random.u64(..80_000_000);
        let (start, size) = (GENERATED + 0x80 * random.u64(..16), random.u64(..0x200));
        let new_start = GENERATED + 0x80 * random.u64(..16);
        if random.bool() {
            let mut lines = numbers(&[start, 2]);
            for (offset, line) in [(0, 7_u32), (size / 2, 8)] {
                let file: &[u8] = if line == 7 { b"/srv/app.js" } else { b"\xff" };
                lines.extend([&numbers(&[start + offset])[..], &line.to_ne_bytes(), &[0; 4], file, &[0]].concat());
            }
            dump.extend(record(2, time_ns, &lines));
        }
        let name = ["JS:*update /srv/app.js:7:3", "LCart;total(I)J", "", "\u{1b}[2J"][random.usize(..4)];
        let load = [&numbers(&[1, start, start, size, code])[..], name.as_bytes(), &[0; 9]].concat();
        dump.extend(record(0, time_ns, &load));
        match random.usize(..4) {
            0 => dump.extend(record(1, time_ns + 1, &numbers(&[1, new_start, start, new_start, size, code]))),
            1 => dump.extend(record(random.u32(..6), time_ns, &[0; 5])),
            _ => {}
        }
    }
    readers::one_of(&[dump], random)
}

pub fn read_dump(bytes: &[u8], _: u64) {
    analyse(&Files { file: BINARIES[0], dump: bytes, ..Files::default() });
}

/// Threads that run and wait all over the code, with stacks that lead through it.
fn analyse(files: &Files<'_>) {
    let header = Header {
        machine: Machine { arch: "x86_64".to_owned(), cpus: 2, ..Machine::default() },
        capabilities: Capabilities { switches: true, futexes: true, samples: true, ..Capabilities::default() },
        sample_period_ns: 1_000_000,
        stack_bytes: 1024,
        ..Header::default()
    };
    let mut analysis = Analysis::new(&header, Options::default());
    let mut stacks = Stacks::new();
    let mut time_ns = 0;
    let mut tell = |what: What| {
        time_ns += 1_000_000;
        analysis.feed(&Event { time_ns, tid: Tid(1), cpu: 0, what });
    };
    tell(What::Started { pid: Pid(1), parent: None });
    let mapped = |start, path: &str| {
        What::Mapped(Box::new(Mapping { pid: Pid(1), start, len: LEN, offset: 0, path: path.into(), build_id: None }))
    };
    tell(mapped(BASE, "/bin/fuzzed"));
    tell(mapped(GENERATED, "//anon"));
    if !files.dump.is_empty() {
        tell(mapped(0x10_0000, DUMP));
    }
    for at in (0x100..0x700).step_by(24) {
        let code = [BASE + at, BASE + 0x180, BASE + 0x247, GENERATED + at];
        let stack = Stack {
            kernel: Vec::new(),
            user: code.to_vec(),
            registers: Some(Registers { ip: BASE + at, fp: Word::Stack(16), lr: 0 }),
            words: vec![
                (1, Word::Code(code[1])),
                (2, Word::Stack(64)),
                (3, Word::Code(code[2])),
                (9, Word::Code(code[3])),
            ],
            depth: 64,
        };
        let stack = stacks.intern(&stack);
        tell(What::SwitchIn);
        tell(What::Sample { stack });
        let addr = VARIABLES[at as usize % VARIABLES.len()];
        tell(What::FutexWait { op: FutexOp(128), addr, value: 2, stack: Some(stack) });
        tell(What::SwitchOut { off: holdup_trace::OffCpu::Sleeping, stack: Some(stack) });
    }
    analysis.finish(None, &stacks, files);
}
