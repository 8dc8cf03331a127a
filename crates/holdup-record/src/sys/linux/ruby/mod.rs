//! Looks at what Ruby executes, from outside: each thread's methods and lines, its name, and which thread has the
//! interpreter's lock, read from CRuby's structures in the process's memory. The program does not notice.
//!
//! A thread that waits stays where it is found; of one that runs, the structures change under the look. What is read is
//! checked: a machine, its ractors, their threads and what these execute each lead back to the one before, a frame lies
//! in its thread's stack, and its instruction in its code. What does not fit is passed over.
//!
//! Reading needs the right to trace the process, which children grant and others may not.

mod layout;
mod lines;
mod names;

use std::sync::Arc;

use holdup_trace::{Event, Interpreted, InterpretedFrame, NO_CPU, Tid, What};
use rustc_hash::{FxHashMap, FxHashSet};

use self::layout::{Layout, Number};
use super::elf::Elf;
use super::memory::{Memory, pointer_at, u32_at, u64_at};
use super::{machine, snapshot};

/// How long code and threads that were read are believed to be the same: memory is used again.
const RENEW_NS: u64 = 1_000_000_000;

/// A process that runs Ruby.
#[derive(Debug)]
pub struct Interpreter {
    pid: u32,
    memory: Memory,
    /// Where the address of the machine is, `ruby_current_vm_ptr`.
    machine_at: u64,
    layout: Layout,
    /// Where the table of methods' names is, if it was found.
    names_at: Option<u64>,
    codes: FxHashMap<u64, Option<Code>>,
    /// The names of methods in C.
    methods: FxHashMap<u64, Option<Arc<str>>>,
    /// Threads that wait for the interpreter's lock of the ractor that is looked at.
    queue: Vec<u64>,
    /// Code objects and names that may still be read in this look.
    codes_left: usize,
    /// The system's numbers of threads by what the interpreter knows them by.
    tids: FxHashMap<u64, Option<u32>>,
    /// Threads that were asked for their names since these were forgotten.
    named: FxHashSet<u32>,
    names: FxHashMap<u32, String>,
    renewed_ns: u64,
}

/// The code of a method or a block.
#[derive(Clone, Debug)]
struct Code {
    function: Arc<str>,
    file: Arc<str>,
    /// Its instructions: where they begin, and how many words they are.
    begin: u64,
    size: u32,
    /// Lines, each with the instruction that it begins at.
    lines: Arc<[(u32, u32)]>,
}

/// Ractors of one process, threads of one ractor: a list that is longer was damaged while it was read.
const MOST_RACTORS: u64 = 64;
const MOST_THREADS: u64 = 4096;
/// Of deeper stacks, so many of the innermost frames are told.
const MOST_FRAMES: u64 = 512;
/// Words of a thread's stack at most.
const LARGEST_STACK: u64 = 1 << 24;
/// Code objects that are read in one look.
const MOST_CODES: usize = 1_000;
/// Rows of a table of lines, and words of code, at most.
const MOST_LINES: u32 = 1 << 14;
const LARGEST_CODE: u32 = 1 << 20;
/// Bytes of names and paths that are read at most.
const LONGEST_TEXT: u64 = 1_000;

/// In the machine: the list of its ractors, how many these are, the main one, and its main thread.
const RACTORS: u64 = 8;
const RACTOR_COUNT: u64 = 24;
const MAIN_RACTOR: u64 = 32;
const MAIN_THREAD: u64 = 40;
/// In a thread: its ractor, and the machine. Bytes at its beginning that all fields lie in.
const RACTOR: usize = 24;
const MACHINE: usize = 32;
const THREAD: usize = 560;
/// In what a thread executes: its stack, how many words that has, and the innermost frame.
const STACK: usize = 0;
const STACK_WORDS: usize = 8;
const FRAME: usize = 16;
const CONTEXT: usize = 64;
/// In a frame: the next instruction, the code object, and the variables.
const NEXT: usize = 0;
const CODE: usize = 16;
const VARIABLES: usize = 32;
/// In a code object: its body. In that: how many words of instructions, where they are, the file, the label.
const BODY: usize = 16;
const SIZE: usize = 4;
const BEGIN: usize = 8;
const PATH: usize = 64;
const LABEL: usize = 80;
const BODY_BYTES: usize = 152;
/// The type of an object, in its flags; strings, arrays, and what only the interpreter uses, which has a type of its own.
const TYPE: u64 = 0x1f;
const STRING: u64 = 0x05;
const ARRAY: u64 = 0x07;
const INTERNAL: u64 = 0x1a;
const INTERNAL_TYPE: u64 = 0xf << 12;
const INTERNAL_CODE: u64 = 7 << 12;
/// In flags: that a string has its characters elsewhere, that an array has its elements within.
const IS_OUTSIDE: u64 = 1 << 13;
const IS_WITHIN: u64 = 1 << 13;
/// Where glibc keeps the system's number of a thread, from what pthread_self gives.
const PTHREAD_TID: u64 = 0x2d0;
/// The file of what has no source in Ruby, and what a thread does there that waits for the interpreter's lock.
const IN_C: &str = "<internal:c>";
const WAITS_FOR_LOCK: &str = "gvl_acquire";
/// 64-bit x86, in the head of an ELF file.
const MACHINE_AT: u64 = 18;
const X86_64: [u8; 2] = [62, 0];

impl Interpreter {
    /// The interpreter of a process whose /proc/PID/maps this is.
    pub fn find(pid: u32, maps: &str) -> Option<Interpreter> {
        let mut memory = Memory::of(pid);
        let (machine_at, layout, path) =
            loaded(maps).find_map(|(base, path)| at(base, &mut memory).map(|(at, layout)| (at, layout, path)))?;
        memory.refresh();
        let names_at = names::table(variables(maps, path), &mut memory);
        let mut interpreter = Interpreter {
            pid,
            memory,
            machine_at,
            layout,
            names_at,
            codes: FxHashMap::default(),
            methods: FxHashMap::default(),
            queue: Vec::new(),
            codes_left: MOST_CODES,
            tids: FxHashMap::default(),
            named: FxHashSet::default(),
            names: FxHashMap::default(),
            renewed_ns: 0,
        };
        // Before it is initialized there is nothing to look at.
        let machine = interpreter.memory.pointer(machine_at)?;
        interpreter.is_known(machine)?.then_some(interpreter)
    }

    /// Whether the machine's structures lead to each other as the layout says.
    fn is_known(&mut self, machine: u64) -> Option<bool> {
        let layout = self.layout;
        let ractor = self.memory.pointer(machine + MAIN_RACTOR)?;
        let thread = self.memory.pointer(machine + MAIN_THREAD)?;
        let context = self.memory.pointer(thread + layout.context)?;
        let leads = [
            (thread + RACTOR as u64, ractor),
            (thread + MACHINE as u64, machine),
            (ractor + layout.main_thread, thread),
            (context + layout.thread, thread),
        ];
        for (from, to) in leads {
            if self.memory.word(from)? != to {
                return Some(false);
            }
        }
        Some(true)
    }

    /// Tells of every thread what it executes. `None` if there is no interpreter any more.
    pub fn look(&mut self, now_ns: u64, see: &mut impl FnMut(Event)) -> Option<()> {
        if now_ns.saturating_sub(self.renewed_ns) >= RENEW_NS {
            self.renewed_ns = now_ns;
            self.codes.clear();
            self.methods.clear();
            self.tids.clear();
            self.named.clear();
        }
        self.codes_left = MOST_CODES;
        self.memory.refresh();
        let machine = self.memory.pointer(self.machine_at)?;
        let count = u64::from(self.number(machine + RACTOR_COUNT)?).min(MOST_RACTORS);
        let head = machine + RACTORS;
        let mut node = self.memory.pointer(head)?;
        for _ in 0..count {
            if node == head {
                break;
            }
            self.look_at_ractor(machine, node.checked_sub(self.layout.ractor_node)?, see);
            node = self.memory.pointer(node)?;
        }
        Some(())
    }

    fn look_at_ractor(&mut self, machine: u64, ractor: u64, see: &mut impl FnMut(Event)) -> Option<()> {
        let count = u64::from(self.number(ractor + self.layout.thread_count)?).min(MOST_THREADS);
        self.read_queue(ractor, count);
        let head = ractor + self.layout.threads;
        // A thread begins with its place in this list.
        let mut thread = self.memory.pointer(head)?;
        for _ in 0..count {
            if thread == head {
                break;
            }
            // All of one thread is of one moment, as nearly as can be.
            self.memory.refresh();
            let time_ns = machine::now_ns();
            let fields = self.memory.bytes(thread, THREAD)?;
            if u64_at(&fields, RACTOR)? != ractor || u64_at(&fields, MACHINE)? != machine {
                break;
            }
            if let Some(tid) = self.tid(&fields) {
                let holds = self.memory.word(ractor + self.layout.lock_holder)? == thread;
                let event = |what| Event { time_ns, tid: Tid(tid), cpu: NO_CPU, what };
                if let Some(name) = self.new_name(tid, &fields) {
                    see(event(What::Named { name: name.into(), exec: false }));
                }
                if let Some(frames) = self.frames(thread, &fields) {
                    see(event(What::Interpreted(Box::new(Interpreted { holds, frames }))));
                }
            }
            thread = pointer_at(&fields, 0)?;
        }
        Some(())
    }

    /// Reads which threads wait for the interpreter's lock.
    fn read_queue(&mut self, ractor: u64, count: u64) {
        self.queue.clear();
        let head = ractor + self.layout.lock_queue;
        let mut node = head;
        for _ in 0..count {
            node = match self.memory.pointer(node) {
                Some(next) if next != head => next,
                _ => break,
            };
            self.queue.push(node.wrapping_sub(self.layout.in_queue));
        }
    }

    /// The name that the program gave a thread, in full, if it is not known yet.
    fn new_name(&mut self, tid: u32, thread: &[u8]) -> Option<String> {
        if !self.named.insert(tid) {
            return None;
        }
        let name = self.text(pointer_at(thread, self.layout.name as usize)?).filter(|name| !name.is_empty())?;
        (self.names.insert(tid, name.clone()).as_ref() != Some(&name)).then_some(name)
    }

    /// The recorder's number of a thread.
    fn tid(&mut self, thread: &[u8]) -> Option<u32> {
        let own = match self.layout.number {
            Number::Pthread(at) => pointer_at(thread, at as usize)?,
            Number::Own(at) => u64::from(u32_at(thread, at as usize)?),
            Number::Native { native, number } => {
                u64::from(self.number(pointer_at(thread, native as usize)?.checked_add(number)?)?)
            }
        };
        if let Some(known) = self.tids.get(&own) {
            return *known;
        }
        let number = match self.layout.number {
            Number::Pthread(_) => self.number(own.checked_add(PTHREAD_TID)?),
            _ => u32::try_from(own).ok().filter(|number| *number > 0),
        };
        let known = number.and_then(|number| snapshot::outer_tid(self.pid, number));
        self.tids.insert(own, known);
        known
    }

    /// Methods and lines of a thread, innermost first; before them, by which methods in C it waits. `None` if they make
    /// no sense.
    fn frames(&mut self, thread: u64, fields: &[u8]) -> Option<Arc<[InterpretedFrame]>> {
        let layout = self.layout;
        let context = self.memory.bytes(pointer_at(fields, layout.context as usize)?, CONTEXT)?;
        let (stack, words) = (pointer_at(&context, STACK)?, u64_at(&context, STACK_WORDS)?);
        let innermost = pointer_at(&context, FRAME)?;
        if u64_at(&context, layout.thread as usize)? != thread || words > LARGEST_STACK || innermost < stack {
            return None;
        }
        // Frames lie side by side, up to the end of the stack.
        let len = (stack + words * 8).checked_sub(innermost).filter(|len| len % layout.frame == 0)?;
        let bytes = self.memory.bytes(innermost, len.min(MOST_FRAMES * layout.frame) as usize)?;
        let mut frames = Vec::new();
        if self.queue.contains(&thread) {
            frames.push(inside(WAITS_FOR_LOCK.into()));
        }
        let mut has_code = false;
        for frame in bytes.chunks_exact(layout.frame as usize) {
            if let Some(found) = self.frame(frame) {
                has_code = true;
                frames.push(found);
            } else if !has_code && let Some(name) = u64_at(frame, VARIABLES).and_then(|at| self.c_method(at)) {
                frames.push(inside(name));
            }
        }
        has_code.then(|| frames.into())
    }

    /// A frame of Ruby; those of methods in C have no code.
    fn frame(&mut self, frame: &[u8]) -> Option<InterpretedFrame> {
        let (next, code) = (pointer_at(frame, NEXT)?, pointer_at(frame, CODE)?);
        let within = |known: &Code| lines::instruction(next, known.begin, known.size);
        let mut known = self.code(code)?;
        if within(&known).is_none() {
            // Its memory has been used again.
            self.codes.remove(&code);
            known = self.code(code)?;
        }
        let line = lines::line(&known.lines, within(&known)?);
        Some(InterpretedFrame { function: known.function, file: known.file, line })
    }

    fn code(&mut self, code: u64) -> Option<Code> {
        if let Some(known) = self.codes.get(&code) {
            return known.clone();
        }
        self.codes_left = self.codes_left.checked_sub(1)?;
        let read = self.read_code(code);
        self.codes.insert(code, read.clone());
        read
    }

    fn read_code(&mut self, code: u64) -> Option<Code> {
        let object = self.memory.bytes(code, 24)?;
        if self.internal_type(code)? != INTERNAL_CODE {
            return None;
        }
        let body = self.memory.bytes(pointer_at(&object, BODY)?, BODY_BYTES)?;
        let size = u32_at(&body, SIZE).filter(|size| (1..LARGEST_CODE).contains(size))?;
        let begin = pointer_at(&body, BEGIN)?;
        let function = self.text(pointer_at(&body, LABEL)?)?;
        let file = self.path(pointer_at(&body, PATH)?)?;
        let lines = self.lines(&body, size).unwrap_or_default().into();
        Some(Code { function: function.into(), file: file.into(), begin, size, lines })
    }

    /// The type of what only the interpreter uses; `None` if it is something else.
    fn internal_type(&mut self, object: u64) -> Option<u64> {
        let flags = self.memory.word(object)?;
        (flags & TYPE == INTERNAL).then_some(flags & INTERNAL_TYPE)
    }

    fn lines(&mut self, body: &[u8], size: u32) -> Option<Vec<(u32, u32)>> {
        let layout = self.layout;
        let count = u32_at(body, layout.line_count as usize).filter(|count| (1..=MOST_LINES).contains(count))?;
        let row = layout.line_row as usize;
        let rows = self.memory.bytes(pointer_at(body, layout.lines as usize)?, count as usize * row)?;
        // A single row is of all instructions, and needs no index.
        let begins = match count {
            1 => vec![0],
            _ => lines::begins(pointer_at(body, layout.line_index as usize)?, count, size, &mut self.memory)?,
        };
        lines::table(&begins, &rows, row)
    }

    /// The path of a file: a string, or an array of the path as it was given and the real one, if it has one.
    fn path(&mut self, object: u64) -> Option<String> {
        let head = self.memory.bytes(object, 40)?;
        let flags = u64_at(&head, 0)?;
        let path = match flags & TYPE {
            ARRAY => {
                let elements = if flags & IS_WITHIN != 0 { object + 16 } else { pointer_at(&head, 32)? };
                let real = self.memory.pointer(elements + 8).and_then(|real| self.text(real));
                match real.filter(|real| !real.is_empty()) {
                    Some(real) => real,
                    None => {
                        let given = self.memory.pointer(elements)?;
                        self.text(given)?
                    }
                }
            }
            _ => self.text(object)?,
        };
        (!path.is_empty()).then_some(path)
    }

    /// A string, cut if it is long; `None` if it is none.
    fn text(&mut self, object: u64) -> Option<String> {
        let head = self.memory.bytes(object, 32)?;
        let flags = u64_at(&head, 0)?;
        if flags & TYPE != STRING {
            return None;
        }
        let (at, len) = match (flags & IS_OUTSIDE != 0, self.layout.length_within) {
            (true, _) => (pointer_at(&head, 24)?, u64_at(&head, 16)?),
            (false, true) => (object + 24, u64_at(&head, 16)?),
            (false, false) => (object + 16, flags >> 14 & 0x1f),
        };
        let bytes = self.memory.bytes(at, len.min(LONGEST_TEXT) as usize)?;
        let shown = |c: char| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c };
        Some(String::from_utf8_lossy(&bytes).chars().map(shown).collect())
    }

    /// A number of four bytes.
    fn number(&mut self, addr: u64) -> Option<u32> {
        u32_at(&self.memory.bytes(addr, 4)?, 0)
    }
}

/// Where the interpreter that is loaded here has the address of its machine, and its layout; `None` if it is none, or of
/// an unknown version.
fn at(base: u64, memory: &mut Memory) -> Option<(u64, Layout)> {
    let file = Elf::at(base, memory)?;
    if memory.bytes(base + MACHINE_AT, X86_64.len())? != X86_64 {
        return None;
    }
    let machine_at = file.symbol("ruby_current_vm_ptr", memory)?;
    let version_at = file.symbol("ruby_version", memory)?;
    let version = memory.bytes(version_at, 8)?;
    let version = version.split(|byte| *byte == 0).next().and_then(|text| std::str::from_utf8(text).ok())?;
    // Of versions under development it is below zero: they change.
    let level_at = file.symbol("ruby_patchlevel", memory)?;
    let is_released = u32_at(&memory.bytes(level_at, 4)?, 0)? <= i32::MAX as u32;
    Some((machine_at, Layout::of(version).filter(|_| is_released)?))
}

/// A frame of a method in C, or of the interpreter itself.
fn inside(function: Arc<str>) -> InterpretedFrame {
    InterpretedFrame { function, file: IN_C.into(), line: 0 }
}

/// Where files that may be Ruby's own are loaded, by the text of /proc/PID/maps, each with its path: the program, and the
/// library that has all of it if there is one.
fn loaded(maps: &str) -> impl Iterator<Item = (u64, &str)> {
    maps.lines().filter_map(|line| {
        let (start, _, _, offset, path) = mapped(line)?;
        let file = path.rsplit('/').next()?;
        let is_ruby = file.strip_prefix("lib").unwrap_or(file).starts_with("ruby");
        (offset == 0 && is_ruby).then_some((start, path))
    })
}

/// Where the variables of a file are.
fn variables<'m>(maps: &'m str, path: &'m str) -> impl Iterator<Item = (u64, u64)> + 'm {
    let of_file = move |line| mapped(line).filter(|found| found.4 == path && found.2.starts_with("rw"));
    maps.lines().filter_map(of_file).map(|(start, end, ..)| (start, end))
}

/// Of a line of /proc/PID/maps, the range, what may be done there, the offset in the file, and its path.
fn mapped(line: &str) -> Option<(u64, u64, &str, u64, &str)> {
    let mut fields = line.split_ascii_whitespace();
    let (start, end) = fields.next()?.split_once('-')?;
    let (may, offset) = (fields.next()?, fields.next()?);
    let hex = |text: &str| u64::from_str_radix(text, 16).ok();
    Some((hex(start)?, hex(end)?, may, hex(offset)?, fields.nth(2)?))
}
