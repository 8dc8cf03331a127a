//! Looks at what Python executes, from outside: each thread's functions and lines, and which thread has the
//! interpreter's lock, read from the interpreter's structures in the process's memory. The program does not notice.
//!
//! A thread that waits stays where it is found; of one that runs, the structures change under the look. What is read
//! is checked (addresses that lead nowhere, code that is none), and what fits is believed: it was so a moment ago.
//!
//! Reading needs the right to trace the process, which children grant and others may not.

mod layout;
mod lines;
mod names;

use std::sync::Arc;

use holdup_trace::{Event, Interpreted, InterpretedFrame, NO_CPU, Tid, What};
use rustc_hash::FxHashMap;

use self::layout::{Gil, Instruction, Layout};
use super::elf::Elf;
use super::machine;
use super::memory::{Memory, pointer_at, u32_at, u64_at};
use super::snapshot::Mapped;
use super::vm_threads::{Threads, of_pthread};

/// A process that runs Python.
#[derive(Debug)]
pub struct Interpreter {
    memory: Memory,
    /// The address of `_PyRuntime`.
    runtime: u64,
    layout: Layout,
    /// `0x030b` for 3.11.
    version: u64,
    codes: FxHashMap<u64, Option<Code>>,
    threads: Threads,
}

/// A function's code.
#[derive(Clone, Debug)]
struct Code {
    function: Arc<str>,
    file: Arc<str>,
    first_line: u32,
    lines: Arc<[u8]>,
}

/// Interpreters of one process, threads of one interpreter, frames of one thread: a list that is longer was damaged
/// while it was read.
const MOST_INTERPRETERS: usize = 64;
const MOST_THREADS: usize = 4096;
const MOST_FRAMES: usize = 512;
/// Bytes of names, paths and line tables that are read at most.
const LONGEST_TEXT: usize = 1_000;
const LONGEST_TABLE: usize = 1 << 18;
/// Bytes at the beginning of a thread, a frame and a code object that all fields lie in.
const STRUCTURE: usize = 256;
/// Where an object of bytes has its length and its bytes, a string its length and its form.
const LENGTH: u64 = 16;
const BYTES: u64 = 32;
const FORM: usize = 32;
/// A frame that only marks where C code has called the interpreter.
const OWNED_BY_C_STACK: u8 = 3;

impl Interpreter {
    /// The interpreter of a process whose /proc/PID/maps this is.
    pub fn find(pid: u32, maps: &str) -> Option<Interpreter> {
        let mut memory = Memory::of(pid);
        let runtime_of = |(base, version): (u64, u64), memory: &mut Memory| {
            let file = Elf::at(base, memory)?;
            Some((file.symbol("_PyRuntime", memory)?, file, version))
        };
        let (runtime, file, file_version) = loaded(maps).find_map(|one| runtime_of(one, &mut memory))?;
        let told = file.symbol("Py_Version", &mut memory).and_then(|at| memory.word(at));
        let version = told.unwrap_or(file_version);
        let layout = Layout::of(version, runtime, &mut memory)?;
        memory.refresh();
        // Before it is initialized there is nothing to look at.
        memory.pointer(runtime + layout.interpreters)?;
        Some(Interpreter {
            memory,
            runtime,
            layout,
            version: version >> 16,
            codes: FxHashMap::default(),
            threads: Threads::of(pid),
        })
    }

    /// Tells of every thread what it executes. `None` if there is no interpreter any more.
    pub fn look(&mut self, now_ns: u64, see: &mut impl FnMut(Event)) -> Option<()> {
        if self.threads.renew(now_ns) {
            self.codes.clear();
        }
        self.memory.refresh();
        let layout = self.layout;
        let mut interpreter = self.memory.pointer(self.runtime + layout.interpreters)?;
        for _ in 0..MOST_INTERPRETERS {
            let mut thread = self.memory.word(interpreter + layout.threads)?;
            for _ in 0..MOST_THREADS {
                if thread == 0 {
                    break;
                }
                // All of one thread is of one moment, as nearly as can be.
                self.memory.refresh();
                let Some(next) = self.look_at(interpreter, thread, see) else { break };
                thread = next;
            }
            interpreter = match self.memory.word(interpreter + layout.next_interpreter)? {
                0 => break,
                next => next,
            };
        }
        Some(())
    }

    /// Tells of one thread. The next one; `None` if this one is no thread any more.
    fn look_at(&mut self, interpreter: u64, thread: u64, see: &mut impl FnMut(Event)) -> Option<u64> {
        let time_ns = machine::now_ns();
        let layout = self.layout;
        let fields = self.memory.bytes(thread, STRUCTURE)?;
        let field = |at: u64| u64_at(&fields, at as usize);
        let next = field(layout.next_thread)?;
        let own = field(layout.native_id.unwrap_or(layout.thread_id))?;
        let Some(tid) = self.tid(own) else { return Some(next) };
        let innermost = pointer_at(&fields, layout.frame as usize);
        let frame = match layout.frame_behind {
            Some(behind) => innermost.and_then(|frame| self.memory.word(frame + behind)),
            None => innermost,
        };
        let holds = self.holder(interpreter) == Some(thread);
        if let Some((frames, bottom)) = self.frames(frame.unwrap_or(0)) {
            let event = |what| Event { time_ns, tid: Tid(tid), cpu: NO_CPU, what };
            let is_named = frames.last().is_some_and(|outermost| outermost.function.ends_with("_bootstrap"));
            if is_named
                && self.threads.is_to_be_asked(tid)
                && let Some(name) = bottom.and_then(|bottom| self.thread_name(bottom))
                && self.threads.is_new(tid, &name)
            {
                see(event(What::Named { name: name.into(), exec: false }));
            }
            see(event(What::Interpreted(Box::new(Interpreted { holds, frames }))));
        }
        Some(next)
    }

    /// The recorder's number of a thread.
    fn tid(&mut self, own: u64) -> Option<u32> {
        if let Some(known) = self.threads.tid(own) {
            return known;
        }
        let number = match self.layout.native_id {
            Some(_) => u32::try_from(own).ok(),
            None => of_pthread(own, &mut self.memory),
        };
        self.threads.learn(own, number)
    }

    /// The thread that has the interpreter's lock.
    fn holder(&mut self, interpreter: u64) -> Option<u64> {
        let (lock, holder, locked) = match self.layout.gil {
            Gil::Runtime { holder, locked } => (self.runtime, holder, locked),
            Gil::Interpreter { lock, holder, locked } => (self.memory.pointer(interpreter + lock)?, holder, locked),
        };
        let is_locked = self.memory.number(lock + locked)? == 1;
        self.memory.pointer(lock + holder).filter(|_| is_locked)
    }

    /// Functions and lines from this frame outward, and the address of the outermost frame. `None` if they make no
    /// sense.
    fn frames(&mut self, mut frame: u64) -> Option<(Arc<[InterpretedFrame]>, Option<u64>)> {
        let layout = self.layout;
        let (mut frames, mut bottom) = (Vec::new(), None);
        // A chain that changes while it is read may lead around for ever.
        for _ in 0..MOST_FRAMES {
            if frame == 0 {
                break;
            }
            let fields = self.memory.bytes(frame, layout.variables as usize)?;
            let is_mark = layout.owner.is_some_and(|at| fields.get(at as usize) == Some(&OWNED_BY_C_STACK));
            let code = u64_at(&fields, layout.code as usize)?;
            if !is_mark && let Some(known) = self.code(code) {
                let at = match layout.instruction {
                    Instruction::Index { at, bytes } => u64::from(u32_at(&fields, at as usize)?).saturating_mul(bytes),
                    Instruction::Address { at, begins } => u64_at(&fields, at as usize)?.saturating_sub(code + begins),
                };
                let line = lines::line(layout.form, &known.lines, known.first_line, at);
                let Code { function, file, .. } = known;
                frames.push(InterpretedFrame { function, file, line });
                bottom = Some(frame);
            }
            frame = u64_at(&fields, layout.previous as usize)?;
        }
        (frame == 0 && !frames.is_empty()).then(|| (frames.into(), bottom))
    }

    fn code(&mut self, code: u64) -> Option<Code> {
        if let Some(known) = self.codes.get(&code) {
            return known.clone();
        }
        let read = self.read_code(code);
        self.codes.insert(code, read.clone());
        read
    }

    fn read_code(&mut self, code: u64) -> Option<Code> {
        let layout = self.layout;
        let fields = self.memory.bytes(code, STRUCTURE)?;
        let field = |at: u64| pointer_at(&fields, at as usize);
        let function = self.text(field(layout.name)?)?;
        let file = self.text(field(layout.file)?)?;
        // What stands for no function of a program: `<interpreter trampoline>`, `<shim>`.
        if file.is_empty() || file == "<artificial>" {
            return None;
        }
        let table = field(layout.lines)?;
        let len = usize::try_from(self.memory.word(table + LENGTH)?).ok()?.min(LONGEST_TABLE);
        let lines = self.memory.bytes(table + BYTES, len)?.into();
        let first_line = u32_at(&fields, layout.first_line as usize)?;
        Some(Code { function: function.into(), file: file.into(), first_line, lines })
    }

    /// A string, cut if it is long; `None` if it is none.
    fn text(&mut self, object: u64) -> Option<String> {
        let head = self.memory.bytes(object, FORM + 4)?;
        let form = u32_at(&head, FORM)?;
        let (width, compact, ascii) = ((form >> 2 & 7) as usize, form >> 5 & 1 == 1, form >> 6 & 1 == 1);
        if !compact || !matches!(width, 1 | 2 | 4) {
            return None;
        }
        let len = usize::try_from(u64_at(&head, LENGTH as usize)?).ok()?.min(LONGEST_TEXT);
        let begin = if ascii { self.layout.ascii } else { self.layout.characters };
        let bytes = self.memory.bytes(object + begin, len * width)?;
        let character = |bytes: &[u8]| {
            let number = bytes.iter().rev().fold(0_u32, |number, byte| number << 8 | u32::from(*byte));
            let found = char::from_u32(number).unwrap_or(char::REPLACEMENT_CHARACTER);
            if found.is_control() { char::REPLACEMENT_CHARACTER } else { found }
        };
        Some(bytes.chunks_exact(width).map(character).collect())
    }
}

/// Where files that may be Python's own are loaded, by the text of /proc/PID/maps, each with the version that its name
/// tells: the program, and the library that has all of it if there is one.
fn loaded(maps: &str) -> impl Iterator<Item = (u64, u64)> {
    maps.lines().filter_map(|line| {
        let mapped = Mapped::read(line)?;
        let file = mapped.file();
        let version = file.strip_prefix("lib").unwrap_or(file).strip_prefix("python3.")?;
        let digits = version.split(|c: char| !c.is_ascii_digit()).next()?;
        let minor: u64 = digits.parse().ok()?;
        // `python3.11d` is a build whose structures have more fields.
        let is_plain = !version[digits.len()..].starts_with('d');
        (mapped.offset == 0 && is_plain).then_some((mapped.start, 0x0300_0000 | minor << 16))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_that_lead_around_are_none() {
        // A frame of 3.8 that is its own caller, and whose code is nothing.
        let mut frame = vec![0_u64; 64];
        let code = vec![0_u64; 64];
        let at = frame.as_ptr() as u64;
        (frame[3], frame[4]) = (at, code.as_ptr() as u64);
        let pid = std::process::id();
        let mut interpreter = Interpreter {
            memory: Memory::of(pid),
            runtime: 0,
            layout: Layout::of(0x0308_0000, 0, &mut Memory::of(pid)).unwrap(),
            version: 0x0308,
            codes: FxHashMap::default(),
            threads: Threads::of(pid),
        };
        assert_eq!(interpreter.frames(at), None);
        assert_eq!(interpreter.frames(8), None);
        assert_eq!(interpreter.frames(u64::MAX - 8), None);
    }

    #[test]
    fn python_is_known_by_its_files() {
        let maps = "\
400000-41f000 r--p 00000000 fe:00 12 /usr/bin/python3.11
41f000-6c3000 r-xp 0001f000 fe:00 12 /usr/bin/python3.11
7f0000000000-7f0000001000 r--p 00000000 fe:00 13 /opt/lib/libpython3.13.so.1.0
7f0000002000-7f0000003000 r--p 00000000 fe:00 14 /usr/lib/python3.11/lib-dynload/_queue.so
7f0000004000-7f0000005000 r--p 00000000 fe:00 15 /usr/bin/python3.9d
7f0000006000-7f0000007000 rw-p 00000000 00:00 0
";
        let found: Vec<(u64, u64)> = loaded(maps).collect();
        assert_eq!(found, [(0x40_0000, 0x030b_0000), (0x7f00_0000_0000, 0x030d_0000)]);
        assert_eq!(loaded("nonsense\n").count(), 0);
    }
}
