//! Import: a file from perf itself, files made here, and files that are broken in every way.

use fastrand::Rng;
use std::time::{Duration, Instant};

use holdup_trace::{Event, Mapping, OffCpu, Pid, Reader, Stack, Stacks, Tid, What};

use std::io;

use super::*;

/// Two threads that hand a turn to each other, recorded with `perf record -k CLOCK_MONOTONIC -g --switch-events -e
/// sched:sched_switch,sched:sched_waking,syscalls:sys_enter_futex,syscalls:sys_exit_futex,cpu-clock` by perf 6.1.
const PING_PONG: &[u8] = include_bytes!("../../../../fixtures/recordings/ping-pong.perf.data");

/// What `perf script --show-switch-events` shows of that file, counted.
const SWITCH_RECORDS: usize = 116;
/// 33, one of them in an interrupt, which says nothing about the thread that it hit.
const SCHED_WAKING: usize = 32;
const FUTEX_RETURNS: usize = 75;
const CPU_CLOCK: usize = 11;

fn imported(file: &[u8]) -> (Imported, Vec<Event>, Stacks) {
    let mut recording = Vec::new();
    let imported = import(file, &Scope::All, &mut recording).unwrap();
    let (mut stacks, mut events) = (Stacks::new(), Vec::new());
    let summary = Reader::open(&recording).unwrap().read(&mut stacks, &mut |event| events.push(event.clone()));
    assert_eq!((&summary.damage[..], summary.ending.as_ref()), (&[][..], Some(&imported.ending)));
    assert_eq!((imported.events, imported.bytes), (events.len() as u64, recording.len() as u64));
    assert!(events.is_sorted_by_key(|event| event.time_ns));
    (imported, events, stacks)
}

fn count(events: &[Event], is: impl Fn(&What) -> bool) -> usize {
    events.iter().filter(|event| is(&event.what)).count()
}

#[test]
fn a_file_of_perf_gives_what_perf_script_shows() {
    let (imported, events, stacks) = imported(PING_PONG);
    assert_eq!(count(&events, |what| matches!(what, What::SwitchIn | What::SwitchOut { .. })), SWITCH_RECORDS);
    assert_eq!(count(&events, |what| matches!(what, What::Waking { .. })), SCHED_WAKING);
    assert_eq!(count(&events, |what| matches!(what, What::FutexReturn { .. })), FUTEX_RETURNS);
    assert_eq!(count(&events, |what| matches!(what, What::Sample { .. })), CPU_CLOCK);
    assert_eq!(count(&events, |what| matches!(what, What::Exited)), 3);
    assert_eq!(count(&events, |what| matches!(what, What::Started { .. })), 3);
    for name in ["ping", "pong", "pingpong"] {
        assert!(
            count(&events, |what| matches!(what, What::Named { name: found, .. } if **found == *name)) > 0,
            "{name}"
        );
    }
    assert!(count(&events, |what| matches!(what, What::Mapped(map) if map.path.ends_with("/pingpong"))) == 1);
    let sleeps = |what: &What| matches!(what, What::SwitchOut { off: OffCpu::Sleeping, stack: Some(_) });
    assert!(count(&events, sleeps) > 20);

    // Every wait has a stack with a user part: the futex call was made there.
    let stack_of = |what: &What| match what {
        What::FutexWait { stack, .. } => stack.and_then(|id| stacks.get(id)),
        _ => None,
    };
    let waits: Vec<&Stack> = events.iter().filter_map(|event| stack_of(&event.what)).collect();
    assert!(waits.len() > 20 && waits.iter().all(|stack| !stack.user.is_empty()));

    let capabilities = imported.header.capabilities;
    assert!(
        capabilities.switches
            && capabilities.switch_reasons
            && capabilities.wakings
            && capabilities.futexes
            && capabilities.samples
    );
    assert!(!capabilities.foreign_wakings && !capabilities.calls && !capabilities.hardware);
    assert_eq!(imported.header.machine.arch, "x86_64");
    assert_eq!(imported.header.sample_period_ns, 250_000);
    assert!(imported.header.began_unix_s > 1_700_000_000);
    assert_eq!(imported.notes, [""; 0]);
}

/// Makes files as perf makes them.
struct Maker {
    big: bool,
    records: Vec<u8>,
    formats: String,
}

const ID_SWITCH: u64 = 700;
const ID_WAKING: u64 = 701;
/// `PERF_SAMPLE_*`: identifier, thread, time, CPU, raw.
const SAMPLE_TYPE: u64 = 1 << 16 | 1 << 1 | 1 << 2 | 1 << 7 | 1 << 10;
const SAMPLE_ID_ALL: u64 = 1 << 18;

impl Maker {
    fn new(big: bool) -> Self {
        Maker { big, records: Vec::new(), formats: String::new() }
    }

    fn n<const N: usize>(&self, number: u64) -> [u8; N] {
        let little = number.to_le_bytes();
        let mut bytes: [u8; N] = little[..N].try_into().unwrap();
        if self.big {
            bytes.reverse();
        }
        bytes
    }

    fn push(&mut self, kind: u64, misc: u64, body: &[u8]) {
        let header =
            [self.n::<4>(kind).to_vec(), self.n::<2>(misc).to_vec(), self.n::<2>(8 + body.len() as u64).to_vec()];
        self.records.extend(header.concat());
        self.records.extend(body);
    }

    /// A sample of a tracepoint.
    fn sample(&mut self, id: u64, time: u64, cpu: u64, tid: u64, raw: &[u8]) {
        let body = [
            self.n::<8>(id).to_vec(),
            self.n::<4>(tid).to_vec(),
            self.n::<4>(tid).to_vec(),
            self.n::<8>(time).to_vec(),
            self.n::<8>(cpu << if self.big { 32 } else { 0 }).to_vec(),
            self.n::<4>(raw.len() as u64).to_vec(),
            raw.to_vec(),
        ];
        self.push(9, 1, &body.concat());
    }

    /// `sched_switch` with its fields elsewhere than any kernel has them.
    fn switch(&mut self, time: u64, cpu: u64, prev: u64, state: u64, next: u64) {
        let mut raw = vec![0; 40];
        raw[8..16].copy_from_slice(&self.n::<8>(state));
        raw[16..20].copy_from_slice(&self.n::<4>(next));
        raw[20..24].copy_from_slice(&self.n::<4>(prev));
        raw[24..28].copy_from_slice(b"out\0");
        raw[32..35].copy_from_slice(b"in\0");
        self.sample(1, time, cpu, prev, &raw);
    }

    fn waking(&mut self, time: u64, cpu: u64, waker: u64, flags: u8, target: u64) {
        let mut raw = vec![0; 16];
        raw[2] = flags;
        raw[12..16].copy_from_slice(&self.n::<4>(target));
        self.sample(2, time, cpu, waker, &raw);
    }

    /// Any other record, with its stamp.
    fn side(&mut self, kind: u64, misc: u64, time: u64, tid: u64, body: &[u8]) {
        let stamp = [
            self.n::<4>(tid).to_vec(),
            self.n::<4>(tid).to_vec(),
            self.n::<8>(time).to_vec(),
            self.n::<8>(0).to_vec(),
            self.n::<8>(1).to_vec(),
        ];
        self.push(kind, misc, &[body.to_vec(), stamp.concat()].concat());
    }

    fn words(&self, words: &[u64]) -> Vec<u8> {
        words.iter().flat_map(|word| self.n::<4>(*word)).collect()
    }

    fn format(&mut self, name: &str, id: u64, fields: &[(&str, usize, usize)]) {
        self.formats += &format!("name: {name}\nID: {id}\nformat:\n");
        for (field, offset, size) in fields {
            self.formats += &format!("\tfield:int {field};\toffset:{offset};\tsize:{size};\tsigned:1;\n");
        }
        self.formats += "\0";
    }

    fn tracing_data(&self) -> Vec<u8> {
        let mut bytes = b"\x17\x08\x44tracing0.6\0".to_vec();
        bytes.push(self.big.into());
        bytes.push(8);
        bytes.extend(self.n::<4>(4096));
        for part in ["header_page\0", "header_event\0"] {
            bytes.extend(part.as_bytes());
            bytes.extend(self.n::<8>(3));
            bytes.extend(b"abc");
        }
        bytes.extend(self.n::<4>(0));
        bytes.extend(self.n::<4>(1));
        bytes.extend(b"sched\0");
        let formats: Vec<&str> = self.formats.split_terminator('\0').collect();
        bytes.extend(self.n::<4>(formats.len() as u64));
        for format in formats {
            bytes.extend(self.n::<8>(format.len() as u64));
            bytes.extend(format.as_bytes());
        }
        bytes
    }

    fn attr(&self, config: u64, ids: (u64, u64)) -> Vec<u8> {
        let kind = [self.n::<4>(2), self.n::<4>(112)].concat();
        let numbers = [config, 1, SAMPLE_TYPE, 0, SAMPLE_ID_ALL, 0, 0, 0, 0, 0].map(|n| self.n::<8>(n));
        let mut attr = [kind, numbers.concat()].concat();
        attr.resize(112, 0);
        [attr, self.n::<8>(ids.0).to_vec(), self.n::<8>(ids.1).to_vec()].concat()
    }

    fn file(&self) -> Vec<u8> {
        const HEADER: u64 = 104;
        const ATTR: u64 = 128;
        let (ids_at, attrs_at) = (HEADER, HEADER + 16);
        let data_at = attrs_at + 2 * ATTR;
        let table_at = data_at + self.records.len() as u64;
        let tracing = self.tracing_data();
        let magic = if self.big { b"2ELIFREP" } else { b"PERFILE2" };
        let header = [104, ATTR, attrs_at, 2 * ATTR, data_at, self.records.len() as u64, 0, 0, 1 << 1, 0, 0, 0];
        [
            magic.to_vec(),
            header.map(|n| self.n::<8>(n)).concat(),
            [self.n::<8>(1), self.n::<8>(2)].concat(),
            self.attr(ID_SWITCH, (ids_at, 8)),
            self.attr(ID_WAKING, (ids_at + 8, 8)),
            self.records.clone(),
            [self.n::<8>(table_at + 16), self.n::<8>(tracing.len() as u64)].concat(),
            tracing,
        ]
        .concat()
    }
}

/// Two threads, two CPUs, out of order, with a loss.
fn made(big: bool) -> Vec<u8> {
    let mut maker = Maker::new(big);
    let fields = [
        ("prev_state", 8, 8),
        ("next_pid", 16, 4),
        ("prev_pid", 20, 4),
        ("prev_comm[8]", 24, 8),
        ("next_comm[8]", 32, 8),
    ];
    maker.format("sched_switch", ID_SWITCH, &fields);
    maker.format("sched_waking", ID_WAKING, &[("common_flags", 2, 1), ("pid", 12, 4)]);
    let born = maker.words(&[7, 1, 7, 0]);
    maker.side(7, 0, 0, 7, &[born, maker.n::<8>(0).to_vec()].concat());
    let name = [maker.words(&[7, 7]), b"seven\0\0\0".to_vec()].concat();
    maker.side(3, 0, 0, 7, &name);
    maker.switch(2000, 1, 7, 1, 0);
    maker.switch(1000, 1, 0, 0, 7);
    let child = maker.words(&[7, 7, 8, 7]);
    maker.side(7, 0, 1200, 7, &[child, maker.n::<8>(1200).to_vec()].concat());
    maker.switch(1500, 0, 0, 0, 8);
    maker.waking(2500, 0, 8, 0, 7);
    maker.waking(2600, 0, 8, 8, 7);
    maker.switch(3000, 0, 8, 0x100, 0);
    let lost = [maker.n::<8>(1), maker.n::<8>(42)].concat();
    maker.side(2, 0, 2800, 0, &lost);
    let mut map = [maker.words(&[7, 7]), [0x1000, 0x2000, 0x3000].map(|n| maker.n::<8>(n)).concat()].concat();
    map.extend([20, 0, 0, 0]);
    map.extend([9; 20]);
    map.extend(maker.words(&[5, 0]));
    map.extend(b"/a b\0\0\0\0");
    maker.side(10, 1 << 14, 1100, 7, &map);
    let end = maker.words(&[7, 7, 8, 7]);
    maker.side(4, 0, 3100, 8, &[end, maker.n::<8>(3100).to_vec()].concat());
    maker.file()
}

#[test]
fn fields_are_found_by_the_file_s_own_formats_in_either_byte_order() {
    for big in [false, true] {
        let (imported, events, _) = imported(&made(big));
        let shown: Vec<(u64, u32, u16, &What)> =
            events.iter().map(|event| (event.time_ns, event.tid.0, event.cpu, &event.what)).collect();
        let named = |name: &str| What::Named { name: name.into(), exec: false };
        let out = |off| What::SwitchOut { off, stack: None };
        let map = Mapping {
            pid: Pid(7),
            start: 0x1000,
            len: 0x2000,
            offset: 0x3000,
            path: "/a b".into(),
            build_id: Some([9; 20].into()),
        };
        let expected = [
            (1000, 7, 0, What::Started { pid: Pid(7), parent: None }),
            (1000, 7, 0, named("seven")),
            (1000, 7, 1, What::SwitchIn),
            (1100, 7, 0, What::Mapped(Box::new(map))),
            (1200, 8, 0, What::Started { pid: Pid(7), parent: Some(Tid(7)) }),
            (1500, 8, 0, What::SwitchIn),
            (2000, 7, 1, out(OffCpu::Sleeping)),
            (2500, 8, 0, What::Waking { target: Tid(7), stack: None }),
            (2800, 0, 0, What::Lost { count: 42 }),
            (3000, 8, 0, out(OffCpu::Runnable)),
            (3100, 8, 0, What::Exited),
        ];
        let expected: Vec<_> = expected.iter().map(|(time, tid, cpu, what)| (*time, *tid, *cpu, what)).collect();
        assert_eq!(shown, expected, "big-endian: {big}");
        assert_eq!(imported.ending.lost, 42);
        let capabilities = imported.header.capabilities;
        assert!(
            capabilities.switches
                && capabilities.wakings
                && capabilities.foreign_wakings
                && !capabilities.futexes
                && !capabilities.samples
        );
        assert_eq!(imported.notes.len(), 2, "the clock, and no futex calls: {:?}", imported.notes);
    }
}

#[test]
fn what_is_no_perf_data_is_named() {
    let says = |bytes: &[u8]| import(bytes, &Scope::Command, Vec::new()).unwrap_err().to_string();
    assert!(says(b"").contains("empty"));
    assert!(says(b"\x7fELF\x02\x01").contains("a program or library"));
    assert!(says(b"\x1f\x8b\x08").contains("gzip"));
    assert!(says(b"pingpong 123 [000] 1.5: sched:sched_switch: ...\n").contains("perf script"));
    assert!(says(b"\xff\xfe\xfd\xfc\xfb").contains("PERFILE2"));
    assert!(says(b"PERFILE2\x10\0\0\0\0\0\0\0").contains("pipe"));
    assert!(says(b"PERFILE2").contains("damaged or cut off"));
    let mut maker = Maker::new(false);
    maker.push(81, 0, &[1; 64]);
    assert!(says(&maker.file()).contains("compressed"));
    assert!(says(&Maker::new(false).file()).contains("no switches"));
}

#[test]
fn the_threads_of_a_process_are_picked_out() {
    let (_, events, _) = imported(PING_PONG);
    let pid = events.iter().find_map(|event| match event.what {
        What::Started { pid, parent: Some(_) } => Some(pid),
        _ => None,
    });
    let pid = pid.unwrap();
    let started = |tid: Tid| events.iter().any(|event| event.tid == tid && matches!(event.what, What::Started { .. }));
    let leaves = |what: &What| matches!(*what, What::Waking { target, .. } if !started(target));
    let staying = events.len() - count(&events, leaves);
    let import = |pid| import(PING_PONG, &Scope::Processes(vec![pid]), Vec::new());
    let picked = import(pid.0).unwrap();
    assert_eq!((picked.events, &picked.header.target.pids[..]), (staying as u64, &[pid.0][..]));
    let missing = import(pid.0 + 1).unwrap_err();
    assert!(missing.to_string().contains(&format!("no process {}", pid.0 + 1)), "{missing}");
}

#[test]
fn a_file_that_cannot_be_written_is_an_error() {
    struct Full;
    impl Write for Full {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::StorageFull.into())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    assert!(matches!(import(PING_PONG, &Scope::Command, Full), Err(ImportError::Write(_))));
}

#[test]
fn a_file_that_ends_anywhere_gives_what_is_whole_or_an_error() {
    for big in [false, true] {
        let file = made(big);
        for end in 0..file.len() {
            let _ = import(&file[..end], &Scope::Command, Vec::new());
        }
    }
    for end in (0..PING_PONG.len()).step_by(1009) {
        let _ = import(&PING_PONG[..end], &Scope::Command, Vec::new());
    }
    // Records whose sections behind are cut off still give what needs no format: switches and samples.
    let mut killed = PING_PONG.to_vec();
    killed[48..56].fill(0);
    let (imported, events, _) = imported(&killed);
    assert_eq!(count(&events, |what| matches!(what, What::SwitchIn | What::SwitchOut { .. })), SWITCH_RECORDS);
    assert!(imported.notes.iter().any(|note| note.contains("cut off")));
    assert!(!imported.header.capabilities.futexes && imported.header.capabilities.switches);
}

#[test]
fn damaged_files_never_panic() {
    let seconds = std::env::var("HOLDUP_FUZZ_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(2);
    let until = Instant::now() + Duration::from_secs(seconds);
    let bases = [made(false), made(true), PING_PONG.to_vec()];
    let mut seed = 1;
    while Instant::now() < until {
        let mut random = Rng::with_seed(0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(seed));
        // The small ones are quick, so most rounds take them.
        let base = &bases[[0, 1, 0, 1, 0, 1, 2][random.usize(..7)]];
        let mut file = base.clone();
        for _ in 0..1 + random.usize(..12) {
            let at = random.usize(..file.len().max(1));
            match random.usize(..5) {
                0 => file[at] = random.usize(..256) as u8,
                1 => file[at] ^= 1 << random.usize(..8),
                2 => file.truncate(at.max(1)),
                3 => {
                    let end = (at + 8).min(file.len());
                    file[at..end].fill([0, 0xff, 0x7f, 0x80][random.usize(..4)]);
                }
                _ => {
                    let (from, len) = (random.usize(..file.len().max(1)), 1 + random.usize(..64));
                    let copy: Vec<u8> = file[from..(from + len).min(file.len())].to_vec();
                    file.splice(at..at, copy);
                }
            }
        }
        let result = std::panic::catch_unwind(|| drop(import(&file, &Scope::Command, Vec::new())));
        assert!(result.is_ok(), "seed {seed}");
        seed += 1;
    }
    assert!(seed > 10, "only {seed} files in {seconds} s");
}
