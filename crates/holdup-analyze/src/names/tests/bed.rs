//! Programs that are compiled for a test, and what a recorder would keep of their threads.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use holdup_trace::{Event, Mapping, Pid, Registers, Stack, StackId, Stacks, Tid, What, Word};

use super::super::{Frame, Modules, Names, Resolver, Role};

/// How far from the stack pointer an address is in the same stack.
const STACK_BYTES: u64 = 1 << 20;

/// The sources.
pub(super) fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/names").join(name)
}

/// A folder for what a test compiles.
pub(super) struct Workshop {
    folder: tempfile::TempDir,
}

impl Workshop {
    pub(super) fn new() -> Workshop {
        Workshop { folder: tempfile::tempdir().expect("a folder for what is compiled") }
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Runs a tool; `false` (with the reason printed) if it is not installed. A tool that fails fails the test.
    pub(super) fn run<S: AsRef<OsStr>>(&self, tool: &str, words: &[S]) -> bool {
        let mut command = Command::new(tool);
        command.args(words).current_dir(self.folder.path());
        match command.output() {
            Ok(out) if out.status.success() => true,
            Ok(out) => panic!("{command:?}: {}", String::from_utf8_lossy(&out.stderr)),
            Err(why) => {
                assert!(std::env::var_os("HOLDUP_TESTS_MUST_RUN").is_none(), "{tool}: {why}");
                println!("skipped: {tool} cannot be run here: {why}");
                false
            }
        }
    }

    /// Compiles a C program of the fixtures together with `dump.c`.
    pub(super) fn c_program(&self, source: &str, flags: &[&str]) -> Option<PathBuf> {
        if !cfg!(all(target_os = "linux", target_arch = "x86_64")) {
            println!("skipped: the programs of this test dump the registers of x86_64 Linux");
            return None;
        }
        let out = self.path("program");
        let sources = [fixture(source), fixture("dump.c")];
        let mut words: Vec<&OsStr> = flags.iter().map(OsStr::new).collect();
        words.extend(sources.iter().map(|path| path.as_os_str()));
        words.extend([OsStr::new("-o"), out.as_os_str(), OsStr::new("-lpthread")]);
        self.run("gcc", &words).then_some(out)
    }

    /// Compiles `dump.c` for a program of another language.
    pub(super) fn dump_object(&self) -> Option<PathBuf> {
        if !cfg!(all(target_os = "linux", target_arch = "x86_64")) {
            println!("skipped: the programs of this test dump the registers of x86_64 Linux");
            return None;
        }
        let (source, out) = (fixture("dump.c"), self.path("dump.o"));
        let words = [OsStr::new("-O2"), OsStr::new("-c"), source.as_os_str(), OsStr::new("-o"), out.as_os_str()];
        self.run("gcc", &words).then_some(out)
    }
}

/// Files by path, and debug files by the path of their binary.
#[derive(Default)]
pub(super) struct Files {
    files: HashMap<String, Vec<u8>>,
    debug: HashMap<String, Vec<u8>>,
    kernel: Vec<(u64, Box<str>)>,
    /// Of every process.
    pub(super) code_map: Option<String>,
    pub(super) jit_dump: Option<Vec<u8>>,
}

impl Modules for Files {
    fn code_map(&self, pid: Pid, see: &mut dyn FnMut(&[u8])) -> Option<String> {
        see(self.code_map.as_ref()?.as_bytes());
        Some(format!("/tmp/perf-{}.map", pid.0))
    }

    fn jit_dump(&self, _: Pid, path: &str, see: &mut dyn FnMut(&[u8])) -> Option<String> {
        see(self.jit_dump.as_ref()?);
        Some(path.to_owned())
    }

    fn file(&self, path: &str, _: Option<&[u8]>) -> Option<&[u8]> {
        self.files.get(path).map(|bytes| &bytes[..])
    }

    fn debug_file(&self, path: &str, _: Option<&[u8]>, _: Option<&[u8]>) -> Option<&[u8]> {
        self.debug.get(path).map(|bytes| &bytes[..])
    }

    fn kernel_symbols(&self) -> &[(u64, Box<str>)] {
        &self.kernel
    }
}

impl Files {
    pub(super) fn add(&mut self, path: &str, bytes: Vec<u8>) {
        self.files.insert(path.to_owned(), bytes);
    }

    pub(super) fn add_debug(&mut self, path: &str, bytes: Vec<u8>) {
        self.debug.insert(path.to_owned(), bytes);
    }

    pub(super) fn add_kernel(&mut self, symbols: &[(u64, &str)]) {
        self.kernel = symbols.iter().map(|(address, name)| (*address, Box::from(*name))).collect();
    }
}

/// What a program of the fixtures printed about itself.
#[derive(Default)]
pub(super) struct Dump {
    pub ip: u64,
    sp: u64,
    fp: u64,
    words: Vec<u64>,
    pub chain: Vec<u64>,
    pub maps: Vec<Map>,
    pub addresses: HashMap<String, u64>,
}

/// An executable mapping.
#[derive(Clone, Debug)]
pub(super) struct Map {
    pub start: u64,
    pub end: u64,
    pub offset: u64,
    pub path: String,
}

impl Dump {
    /// Runs a program that ends by printing itself.
    pub(super) fn of(program: &Path, mode: &str) -> Dump {
        let out = Command::new(program).arg(mode).output().expect("the program was just compiled");
        let text = String::from_utf8(out.stdout).expect("it prints text");
        let mut dump = Dump::default();
        text.lines().for_each(|line| dump.line(line));
        assert!(dump.ip > 0 && !dump.words.is_empty(), "{program:?} {mode}: {text}");
        dump
    }

    fn line(&mut self, line: &str) {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let hex = |text: &str| u64::from_str_radix(text, 16).expect("a number");
        match fields[..] {
            ["ip", value] => self.ip = hex(value),
            ["sp", value] => self.sp = hex(value),
            ["fp", value] => self.fp = hex(value),
            ["word", _, value] => self.words.push(hex(value)),
            ["chain", value] => self.chain.push(hex(value)),
            ["address", name, value] => drop(self.addresses.insert(name.to_owned(), hex(value))),
            ["map", range, rights, offset, ..] if rights.contains('x') => {
                let (start, end) = range.split_once('-').expect("a range");
                let path = fields.get(6).copied().unwrap_or("//anon").to_owned();
                self.maps.push(Map { start: hex(start), end: hex(end), offset: hex(offset), path });
            }
            _ => {}
        }
    }

    /// What a recorder keeps that looks at so many words.
    pub(super) fn stack(&self, depth: usize) -> Stack {
        let words = self.words.iter().take(depth).enumerate();
        let words = words.filter_map(|(at, word)| Some((u16::try_from(at).ok()?, self.word(*word)?)));
        Stack {
            kernel: Vec::new(),
            user: [self.ip].into_iter().chain(self.chain.iter().copied()).collect(),
            registers: Some(Registers { ip: self.ip, fp: self.word(self.fp).unwrap_or(Word::Code(self.fp)), lr: 0 }),
            words: words.collect(),
            depth: depth.min(self.words.len()) as u16,
        }
    }

    fn word(&self, word: u64) -> Option<Word> {
        if self.maps.iter().any(|map| (map.start..map.end).contains(&word)) {
            return Some(Word::Code(word));
        }
        let near = word.checked_sub(self.sp).filter(|offset| *offset < STACK_BYTES)?;
        Some(Word::Stack(near as i32))
    }

    /// The events that tell of its mappings.
    pub(super) fn names(&self) -> Names {
        let mut names = Names::new();
        let start = What::Started { pid: Pid(1), parent: None };
        names.feed(&Event { time_ns: 0, tid: Tid(1), cpu: 0, what: start });
        for map in &self.maps {
            names.feed(&mapped(map, None));
        }
        names
    }

    /// The files that it maps.
    pub(super) fn files(&self) -> Files {
        let mut files = Files::default();
        for map in &self.maps {
            if let Ok(bytes) = std::fs::read(&map.path) {
                files.add(&map.path, bytes);
            }
        }
        files
    }

    /// The call path as the analysis finds it, from so many words.
    pub(super) fn call_path(&self, depth: usize, files: &Files) -> Vec<Frame> {
        let (stacks, id) = table(&self.stack(depth));
        let names = self.names();
        let space = names.space(Tid(1));
        Resolver::new(names, &stacks, files).call_path(space, id).to_vec()
    }
}

/// The event of a mapping.
pub(super) fn mapped(map: &Map, build_id: Option<&[u8]>) -> Event {
    let mapping = Mapping {
        pid: Pid(1),
        start: map.start,
        len: map.end - map.start,
        offset: map.offset,
        path: map.path.as_str().into(),
        build_id: build_id.map(Box::from),
    };
    Event { time_ns: 0, tid: Tid(1), cpu: 0, what: What::Mapped(Box::new(mapping)) }
}

/// A table with one stack.
pub(super) fn table(stack: &Stack) -> (Stacks, StackId) {
    let mut stacks = Stacks::new();
    let id = stacks.intern(stack);
    (stacks, id)
}

/// The functions of a path, `?` for those without a name.
pub(super) fn functions(call_path: &[Frame]) -> Vec<&str> {
    call_path.iter().map(|frame| frame.function.as_deref().unwrap_or("?")).collect()
}

/// The functions of a path that are the program's own.
pub(super) fn own(call_path: &[Frame]) -> Vec<&str> {
    let own = call_path.iter().filter(|frame| frame.role == Role::Program);
    own.map(|frame| frame.function.as_deref().unwrap_or("?")).collect()
}
