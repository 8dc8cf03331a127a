//! Names of code that a program made as it ran, from the dump that its runtime writes for profilers: `jit-PID.dump`, in
//! the format of Linux' perf (`tools/perf/Documentation/jitdump-specification.txt`). Each record bears the time from
//! which its code was there, so that memory which is used again has the name that it had when it was seen.
//!
//! A dump holds the code itself, too, and can be far larger than what is to be kept in memory. So it is read once, part
//! by part, for the addresses that the recording asks about, and only the names of those are kept.
//!
//! The dump is another program's: reading ends at the first record that cannot be, names are cut, and what could move a
//! terminal's cursor is replaced.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::code_map::{LONGEST_NAME, printable};

/// Longer lists of lines are not looked at.
const LONGEST_LINES: u64 = 4 << 20;
/// Code that is told of is kept for a later move, asked about or not, up to so many functions.
const MOST_KNOWN: usize = 1 << 16;
/// So often an address of the recording may be in a function. Programs are far below that: one that is made to cost
/// memory is not read on.
const MOST_LIVES: usize = 1 << 22;

const MAGIC: u32 = 0x4a69_5444;
const FILE_BYTES: usize = 40;
const RECORD_BYTES: usize = 16;
const LOAD_BYTES: usize = 40;
const MOVE_BYTES: usize = 48;
const LINES_BYTES: usize = 16;
/// The times are a processor's, not the clock's.
const OF_PROCESSOR: u64 = 1;

/// Whether a mapped file is such a dump: the runtime maps it only to tell profilers where it is.
pub(super) fn is_dump(path: &str) -> bool {
    let path = path.strip_suffix(" (deleted)").unwrap_or(path);
    let number = path.rsplit('/').next().and_then(|file| file.strip_prefix("jit-")?.strip_suffix(".dump"));
    number.is_some_and(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
}

/// What a dump says of some addresses.
#[derive(Debug, Default)]
pub(super) struct JitDump {
    /// Ascending, each once.
    addresses: Vec<u64>,
    /// What was at some of them, in the order of the dump; once all is read, by address and time.
    lives: Vec<Life>,
    /// The names of functions.
    codes: Vec<Arc<str>>,
    /// Functions by the number that the runtime gave them.
    known: FxHashMap<u64, u32>,
    /// Where functions are from.
    files: Vec<Arc<str>>,
    /// The list of lines of the function whose record comes next.
    lines: Vec<u8>,
    stage: Stage,
    /// Bytes of what is read now.
    pending: Vec<u8>,
    /// Bytes that are passed over before that.
    skip: u64,
    is_timeless: bool,
}

/// A function that was at an address from a time on.
#[derive(Clone, Copy, Debug)]
struct Life {
    /// Its index.
    address: u32,
    code: u32,
    from_ns: u64,
    /// Index in the list of files, and the line there.
    place: Option<(u32, u32)>,
}

/// The lines of a function: the address from which each counts, ascending, and the file.
type Lines = Vec<(u64, u32, Arc<str>)>;

/// What comes next.
#[derive(Clone, Copy, Debug, Default)]
enum Stage {
    #[default]
    File,
    Record,
    /// What a record says, and how many bytes of it are passed over then.
    Body {
        kind: Kind,
        time_ns: u64,
        bytes: usize,
        rest: u64,
    },
    /// Nothing that makes sense.
    Over,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Load,
    Move,
    Lines,
}

/// What was at an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Found {
    /// The function, as the runtime wrote it.
    pub name: Arc<str>,
    /// File and line of the address.
    pub place: Option<(Arc<str>, u32)>,
}

impl JitDump {
    /// A dump that answers about these addresses, once it is read.
    pub(super) fn about(mut addresses: Vec<u64>) -> JitDump {
        addresses.sort_unstable();
        addresses.dedup();
        addresses.truncate(u32::MAX as usize);
        JitDump { addresses, ..JitDump::default() }
    }

    /// Reads a part of the dump, wherever it ends.
    pub(super) fn read(&mut self, mut part: &[u8]) {
        while !part.is_empty() {
            let wanted = match self.stage {
                Stage::File => FILE_BYTES,
                Stage::Record => RECORD_BYTES,
                Stage::Body { bytes, .. } => bytes,
                Stage::Over => return,
            };
            let skipped = part.len().min(usize::try_from(self.skip).unwrap_or(usize::MAX));
            self.skip -= skipped as u64;
            part = &part[skipped..];
            let (now, later) = part.split_at(part.len().min(wanted - self.pending.len()));
            self.pending.extend_from_slice(now);
            part = later;
            if self.pending.len() == wanted && self.skip == 0 {
                let bytes = std::mem::take(&mut self.pending);
                self.stage = self.take(&bytes).unwrap_or(Stage::Over);
                self.pending = bytes;
                self.pending.clear();
            }
        }
    }

    /// All parts are read.
    pub(super) fn end(mut self) -> JitDump {
        // Of two records of one time, the later one stays the later one.
        self.lives.sort_by_key(|life| (life.address, life.from_ns));
        self.known = FxHashMap::default();
        self
    }

    /// What was at an address that it was to answer about, at that time; the last that was there for no time. What came
    /// later only if nothing is known to have been there before: runtimes write some records after the code has run.
    pub(super) fn found(&self, address: u64, time_ns: Option<u64>) -> Option<Found> {
        let address = self.addresses.binary_search(&address).ok()? as u32;
        let from = self.lives.partition_point(|life| life.address < address);
        let lives = &self.lives[from..];
        let lives = &lives[..lives.partition_point(|life| life.address == address)];
        let time_ns = time_ns.unwrap_or(u64::MAX);
        let began = lives.partition_point(|life| life.from_ns <= time_ns);
        let life = lives.get(began.saturating_sub(1))?;
        let place = life.place.map(|(file, line)| (self.files[file as usize].clone(), line));
        Some(Found { name: self.codes[life.code as usize].clone(), place })
    }

    /// What these bytes are, and so what comes next; `None` if nothing can.
    fn take(&mut self, bytes: &[u8]) -> Option<Stage> {
        match self.stage {
            Stage::File => self.beginning(bytes),
            Stage::Record => self.record(bytes),
            Stage::Body { kind, time_ns, rest, .. } => {
                match kind {
                    Kind::Load => self.load(bytes, time_ns),
                    Kind::Move => self.moved(bytes, time_ns),
                    Kind::Lines => self.lines = bytes.to_vec(),
                }
                self.skip = rest;
                (self.lives.len() <= MOST_LIVES).then_some(Stage::Record)
            }
            Stage::Over => None,
        }
    }

    fn beginning(&mut self, bytes: &[u8]) -> Option<Stage> {
        let size = u64::from(u32_at(bytes, 8)?);
        let is_dump = u32_at(bytes, 0)? == MAGIC && u32_at(bytes, 4)? == 1;
        self.is_timeless = u64_at(bytes, 32)? & OF_PROCESSOR != 0;
        self.skip = size.checked_sub(FILE_BYTES as u64).filter(|_| is_dump)?;
        Some(Stage::Record)
    }

    fn record(&mut self, bytes: &[u8]) -> Option<Stage> {
        let (id, time_ns) = (u32_at(bytes, 0)?, u64_at(bytes, 8)?);
        let size = u64::from(u32_at(bytes, 4)?).checked_sub(RECORD_BYTES as u64)?;
        let (kind, most) = match id {
            0 => (Kind::Load, (LOAD_BYTES + LONGEST_NAME) as u64),
            1 => (Kind::Move, MOVE_BYTES as u64),
            2 if size <= LONGEST_LINES => (Kind::Lines, LONGEST_LINES),
            _ => {
                self.skip = size;
                return Some(Stage::Record);
            }
        };
        let bytes = size.min(most);
        let time_ns = if self.is_timeless { 0 } else { time_ns };
        if bytes == 0 {
            return Some(Stage::Record);
        }
        Some(Stage::Body { kind, time_ns, bytes: bytes as usize, rest: size - bytes })
    }

    /// A function is there from now on: process, thread, two addresses that are the same, size, number, name, code.
    fn load(&mut self, bytes: &[u8], time_ns: u64) {
        let lines = std::mem::take(&mut self.lines);
        let Some((fixed, name)) = bytes.split_at_checked(LOAD_BYTES) else { return };
        let numbers = (u64_at(fixed, 16), u64_at(fixed, 24), u64_at(fixed, 32));
        let (Some(start), Some(size), Some(number)) = numbers else { return };
        let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
        let is_wanted = self.is_wanted(start, size);
        if name.is_empty() || (!is_wanted && self.known.len() >= MOST_KNOWN) {
            return;
        }
        let code = self.codes.len() as u32;
        self.codes.push(printable(name).into());
        if self.known.len() < MOST_KNOWN {
            self.known.insert(number, code);
        }
        let lines = is_wanted.then(|| lines_of(&lines, start)).flatten();
        self.lives(start, size, code, time_ns, &lines.unwrap_or_default());
    }

    /// A function is elsewhere from now on: process, thread, an address, those before and after, size, number.
    fn moved(&mut self, bytes: &[u8], time_ns: u64) {
        let numbers = (u64_at(bytes, 24), u64_at(bytes, 32), u64_at(bytes, 40));
        let (Some(start), Some(size), Some(number)) = numbers else { return };
        if let Some(code) = self.known.get(&number) {
            self.lives(start, size, *code, time_ns, &Lines::new());
        }
    }

    fn is_wanted(&self, start: u64, size: u64) -> bool {
        let from = self.addresses.partition_point(|one| *one < start);
        self.addresses.get(from).is_some_and(|first| first - start < size)
    }

    fn lives(&mut self, start: u64, size: u64, code: u32, from_ns: u64, lines: &Lines) {
        let mut index = self.addresses.partition_point(|one| *one < start);
        while let Some(address) = self.addresses.get(index).filter(|address| **address - start < size) {
            if self.lives.len() > MOST_LIVES {
                return;
            }
            let behind = lines.partition_point(|(from, ..)| from <= address);
            let line = lines[..behind].last().filter(|(_, line, _)| *line > 0);
            let place = line.map(|(_, line, file)| (self.file(file), *line));
            self.lives.push(Life { address: index as u32, code, from_ns, place });
            index += 1;
        }
    }

    fn file(&mut self, name: &Arc<str>) -> u32 {
        // Functions of one file come one after the other.
        if self.files.last() != Some(name) {
            self.files.push(name.clone());
        }
        self.files.len() as u32 - 1
    }
}

/// The lines of the function that begins there, if the list is its: the address, how many, then each with its own
/// address, the line, a number that is not used, and the file.
fn lines_of(list: &[u8], start: u64) -> Option<Lines> {
    /// As a name of a file: the same as before.
    const SAME: &[u8] = b"\xff";
    let count = u64_at(list, 8).filter(|_| u64_at(list, 0) == Some(start))?;
    let mut rest = list.get(LINES_BYTES..)?;
    let mut lines = Lines::new();
    for _ in 0..count {
        let Some((address, line)) = u64_at(rest, 0).zip(u32_at(rest, 8)) else { break };
        let Some(name) = rest.get(16..) else { break };
        let Some(len) = name.iter().position(|byte| *byte == 0) else { break };
        rest = &name[len + 1..];
        let file = match lines.last() {
            Some((_, _, file)) if &name[..len] == SAME => file.clone(),
            _ => printable(&name[..len.min(LONGEST_NAME)]).into(),
        };
        lines.push((address, line, file));
    }
    lines.sort_by_key(|(address, ..)| *address);
    Some(lines)
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..at + 4)?.try_into().ok().map(u32::from_ne_bytes)
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..at + 8)?.try_into().ok().map(u64::from_ne_bytes)
}

/// Dumps by hand, as the format's specification has them.
#[cfg(test)]
pub(super) mod made {
    use super::*;

    pub(crate) fn header(flags: u64) -> Vec<u8> {
        let words: [u32; 6] = [MAGIC, 1, 40, 62, 0, 7];
        let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        bytes.extend([0, flags].iter().flat_map(|word: &u64| word.to_ne_bytes()));
        bytes
    }

    pub(crate) fn record(id: u32, time_ns: u64, body: &[u8]) -> Vec<u8> {
        let size = (RECORD_BYTES + body.len()) as u32;
        [&id.to_ne_bytes()[..], &size.to_ne_bytes(), &time_ns.to_ne_bytes(), body].concat()
    }

    pub(crate) fn numbers(numbers: &[u64]) -> Vec<u8> {
        numbers.iter().flat_map(|number| number.to_ne_bytes()).collect()
    }

    pub(crate) fn load(time_ns: u64, start: u64, size: u64, number: u64, name: &str) -> Vec<u8> {
        let code = vec![0xc3; size.min(0x1000) as usize];
        let body = [numbers(&[7, start, start, size, number]), name.into(), vec![0], code].concat();
        record(0, time_ns, &body)
    }

    pub(crate) fn lines(start: u64, places: &[(u64, u32, &[u8])]) -> Vec<u8> {
        let mut body = numbers(&[start, places.len() as u64]);
        for (address, line, file) in places {
            body.extend([&address.to_ne_bytes()[..], &line.to_ne_bytes(), &[0; 4], file, &[0]].concat());
        }
        record(2, 0, &body)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use made::*;

    fn read(records: &[Vec<u8>], addresses: &[u64], part: usize) -> JitDump {
        let mut dump = JitDump::about(addresses.to_vec());
        records.concat().chunks(part).for_each(|part| dump.read(part));
        dump.end()
    }

    fn name(dump: &JitDump, address: u64, time_ns: u64) -> Option<String> {
        dump.found(address, Some(time_ns)).map(|found| found.name.to_string())
    }

    #[test]
    fn what_was_there_at_the_time_is_named_however_the_file_arrives() {
        let records = [
            header(0),
            load(100, 0x1000, 0x40, 1, "first"),
            record(4, 110, &[1; 77]),
            load(200, 0x1020, 0x40, 2, "second"),
            record(1, 300, &numbers(&[7, 0, 0x1020, 0x2000, 0x40, 2])),
            load(300, 0x1020, 0x10, 3, "third"),
            record(3, 400, &[]),
        ];
        for part in [1, 7, 64, 1 << 20] {
            let dump = read(&records, &[0x1000, 0x1020, 0x1030, 0x105f, 0x1060, 0x2000, 0x203f], part);
            let named = |address, time_ns| name(&dump, address, time_ns).unwrap_or_default();
            assert_eq!(named(0x1000, 1000), "first");
            assert_eq!(
                [50, 100, 199, 200, 299, 300].map(|at| named(0x1020, at)),
                ["first", "first", "first", "second", "second", "third"]
            );
            assert_eq!(named(0x1030, 300), "second", "behind the third");
            assert_eq!((named(0x105f, 0), named(0x1060, 200)), ("second".into(), String::new()));
            assert_eq!((named(0x2000, 300), named(0x203f, 300)), ("second".into(), "second".into()), "moved");
            assert_eq!(dump.found(0x1020, None).unwrap().name.as_ref(), "third", "the last of all");
            assert_eq!(name(&dump, 0x9999, 300), None, "not asked about");
        }
        let ticks = [header(OF_PROCESSOR), load(9 << 40, 0x1000, 8, 1, "old"), load(8 << 40, 0x1000, 8, 2, "new")];
        assert_eq!(name(&read(&ticks, &[0x1000], 9), 0x1000, 5).as_deref(), Some("new"), "of a processor's clock");
    }

    #[test]
    fn lines_are_those_of_the_record_before() {
        let place = |dump: &JitDump, address| dump.found(address, None).unwrap().place;
        let at = |file: &str, line| Some((file.into(), line));
        let records = [
            header(0),
            lines(0x1000, &[(0x1000, 7, b"/srv/a.jl"), (0x1010, 9, b"\xff"), (0x1020, 0, b"\xff")]),
            load(1, 0x1000, 0x40, 1, "f"),
            lines(0x9000, &[(0x2000, 7, b"/srv/b.jl")]),
            load(1, 0x2000, 0x40, 2, "g"),
            load(1, 0x3000, 0x40, 3, "h"),
        ];
        let dump = read(&records, &[0x1000, 0x1018, 0x1020, 0x2000, 0x3000], 50);
        assert_eq!(place(&dump, 0x1000), at("/srv/a.jl", 7));
        assert_eq!(place(&dump, 0x1018), at("/srv/a.jl", 9));
        assert_eq!(place(&dump, 0x1020), None, "no line");
        assert_eq!((place(&dump, 0x2000), place(&dump, 0x3000)), (None, None), "lines of another function, or none");
    }

    #[test]
    fn a_hostile_dump_is_survived() {
        let good = load(1, 0x1000, 0x40, 1, "good");
        let after = load(2, 0x1000, 0x40, 2, "after");
        let sized = |id: u32, size: u32, body: &[u8]| {
            let mut bytes = record(id, 1, body);
            bytes[4..8].copy_from_slice(&size.to_ne_bytes());
            bytes
        };
        for (what, bad, last) in [
            ("a record of no length", sized(0, 0, &[]), "good"),
            ("one that is shorter than its head", sized(0, 15, &[]), "good"),
            ("one of 2^32 bytes", sized(0, u32::MAX, &numbers(&[7, 0x1000, 0x1000, 0x40, 9])), "good"),
            ("one that is not known, of 2^32 bytes", sized(99, u32::MAX, &[]), "good"),
            ("one without anything", record(0, 1, &[]), "after"),
            ("one that ends in its numbers", record(0, 1, &[1; 39]), "after"),
            ("a move that ends in its numbers", record(1, 1, &[1; 47]), "after"),
            ("lines without an end", record(2, 1, &numbers(&[0x1000, u64::MAX, 1, 2])), "after"),
            ("code without a name", load(1, 0x1000, 0x40, 3, ""), "after"),
            ("code up to the end of memory", load(1, 0x1001, u64::MAX, 3, "huge"), "after"),
            ("code of no size", load(1, 0x1000, 0, 3, "empty"), "after"),
        ] {
            let dump = read(&[header(0), good.clone(), bad, after.clone()], &[0x1000], 10);
            assert_eq!(name(&dump, 0x1000, 5).as_deref(), Some(last), "{what}");
        }
        let whole = [header(0), good.clone(), after].concat();
        for len in 0..whole.len() {
            let dump = read(&[whole[..len].to_vec()], &[0x1000], 64);
            let found = name(&dump, 0x1000, 5);
            assert!(found.is_none_or(|found| found == "good" || found == "after"), "{len}");
        }
        for (magic, what) in [(0x4454_694a_u32, "the other byte order"), (0, "no dump")] {
            let mut bytes = header(0);
            bytes[..4].copy_from_slice(&magic.to_ne_bytes());
            assert_eq!(name(&read(&[bytes, good.clone()], &[0x1000], 64), 0x1000, 5), None, "{what}");
        }
        let escape = load(1, 0x1000, 8, 1, "\x1b[31mred\x07");
        assert_eq!(name(&read(&[header(0), escape], &[0x1000], 64), 0x1000, 5).unwrap(), "\u{fffd}[31mred\u{fffd}");
        let long = load(1, 0x1000, 8, 1, &"x".repeat(100_000));
        let dump = read(&[header(0), long, load(2, 0x2000, 8, 2, "after")], &[0x1000, 0x2000], 4096);
        assert_eq!(name(&dump, 0x1000, 5).map(|name| name.len()), Some(LONGEST_NAME));
        assert_eq!(name(&dump, 0x2000, 5).as_deref(), Some("after"));
    }

    /// Each of its records says that it is all of memory.
    #[test]
    fn a_dump_that_is_made_to_cost_memory_is_not_read_on() {
        let addresses: Vec<u64> = (0..1 << 16).collect();
        let mut dump = JitDump::about(addresses);
        dump.read(&header(0));
        for number in 0..200 {
            dump.read(&record(0, number, &[numbers(&[7, 0, 0, u64::MAX, number]), b"f\0".to_vec()].concat()));
        }
        assert!(matches!(dump.stage, Stage::Over));
        assert_eq!(dump.end().lives.len(), MOST_LIVES + 1);
    }

    #[test]
    fn a_dump_is_known_by_its_name() {
        for path in ["/tmp/jit-12.dump", "/srv/app/jit-1.dump (deleted)", "jit-4711.dump"] {
            assert!(is_dump(path), "{path}");
        }
        for path in ["/tmp/jit-.dump", "/tmp/jit-x.dump", "/jit-1.dump/lib.so", "/tmp/jit-1.dump.gz", "//anon", ""] {
            assert!(!is_dump(path), "{path}");
        }
    }
}
