//! Looks at what Java's machine (HotSpot) executes, from outside: the methods and lines that waiting threads are in,
//! the names that the program gave its threads, and the names of the code that the machine compiled, all read from its
//! structures in the process's memory. The program does not notice.
//!
//! A thread that leaves Java's code, to wait or for the kernel, leaves behind where its Java stack begins: from there
//! on, interpreted frames tell their method and bytecode, and tables tell those of compiled code, with what was
//! inlined. Of a thread that runs Java's code nothing tells where it is: its samples are named by the code they hit.
//!
//! Read on x86-64 only, where frames are as is written here.

mod blob;
mod code;
mod jcmd;
mod lines;
mod structs;
mod threads;

use std::sync::Arc;

use holdup_trace::{Event, Interpreted, InterpretedFrame, NO_CPU, Tid, What};
use rustc_hash::FxHashMap;

pub use self::jcmd::ask_for_map;

use self::blob::{Blob, Heap};
use self::lines::Table;
use self::structs::{List, Structs};
use super::elf::Elf;
use super::machine;
use super::memory::{Memory, pointer_at, u64_at};
use super::snapshot::Mapped;
use super::vm_threads::Threads;

/// Threads of one machine, frames of one thread, steps between two frames.
const MOST_THREADS: usize = 4096;
const MOST_FRAMES: usize = 256;
/// Bytes of names that are read at most.
const LONGEST_TEXT: usize = 1_000;
/// An interpreted frame, from where its frame pointer points: its bytecode, its method, the caller's stack.
const BYTECODE: u64 = 64;
const METHOD: u64 = 24;
const CALLER: u64 = 8;
/// The bytecode that enters a monitor.
const MONITOR_ENTER: u8 = 0xc2;
/// Where a frame from C to Java has what called it.
const WRAPPER: u64 = 48;

/// A process that runs Java.
#[derive(Debug)]
pub struct Machine {
    pid: u32,
    /// Its structures, read anew at each look, and stacks, read anew for each thread.
    memory: Memory,
    stacks: Memory,
    structs: Structs,
    heaps: Vec<Heap>,
    blobs: FxHashMap<u64, Option<Blob>>,
    methods: FxHashMap<u64, Option<Method>>,
    threads: Threads,
    /// Code that was told of: its method, by where it begins.
    told: FxHashMap<u64, u64>,
    told_ns: u64,
    pause_ns: u64,
}

/// A method, as far as reports name it.
#[derive(Clone, Debug)]
struct Method {
    name: Arc<str>,
    file: Arc<str>,
    /// Where its bytecodes begin, and how many bytes they are.
    begins: u64,
    bytes: u32,
    lines: Table,
}

impl Machine {
    /// The machine of a process whose /proc/PID/maps this is.
    pub fn find(pid: u32, maps: &str) -> Option<Machine> {
        if cfg!(not(target_arch = "x86_64")) {
            return None;
        }
        let mut memory = Memory::of(pid);
        let file = Elf::at(loaded(maps)?, &mut memory)?;
        let structs = Structs::read(&file, &mut memory)?;
        memory.refresh();
        // Before it is initialized there is nothing to look at.
        memory.pointer(structs.threads)?;
        memory.pointer(structs.heaps)?;
        Some(Machine {
            pid,
            memory,
            stacks: Memory::of(pid),
            structs,
            heaps: Vec::new(),
            blobs: FxHashMap::default(),
            methods: FxHashMap::default(),
            threads: Threads::of(pid),
            told: FxHashMap::default(),
            told_ns: 0,
            pause_ns: 0,
        })
    }

    /// Tells of every thread that is not in Java's code where it left that. `None` if there is no machine any more.
    pub fn look(&mut self, now_ns: u64, see: &mut impl FnMut(Event)) -> Option<()> {
        self.memory.refresh();
        self.renew(now_ns)?;
        for thread in self.threads()? {
            // All of one thread is of one moment, as nearly as can be.
            self.stacks.refresh();
            self.look_at(thread, see);
        }
        Some(())
    }

    fn threads(&mut self) -> Option<Vec<u64>> {
        let first = self.memory.pointer(self.structs.threads)?;
        match self.structs.list {
            List::Array { length, threads } => {
                let length = self.memory.number(first + length)? as usize;
                let threads = self.memory.pointer(first + threads)?;
                let threads = self.memory.bytes(threads, length.min(MOST_THREADS) * 8)?;
                Some(threads.chunks_exact(8).filter_map(|word| pointer_at(word, 0)).collect())
            }
            List::Chain { next } => {
                let after = |thread: &u64| self.memory.pointer(thread + next);
                Some(std::iter::successors(Some(first), after).take(MOST_THREADS).collect())
            }
        }
    }

    /// Forgets what may have changed by now.
    fn renew(&mut self, now_ns: u64) -> Option<()> {
        if self.threads.renew(now_ns) {
            self.blobs.clear();
            self.methods.clear();
            self.heaps = self.heaps()?;
        }
        Some(())
    }

    fn look_at(&mut self, thread: u64, see: &mut impl FnMut(Event)) -> Option<()> {
        let time_ns = machine::now_ns();
        let tid = self.tid(thread)?;
        let event = |what| Event { time_ns, tid: Tid(tid), cpu: NO_CPU, what };
        if self.threads.is_to_be_asked(tid)
            && let Some(name) = self.thread_name(thread)
            && self.threads.is_new(tid, &name)
        {
            see(event(What::Named { name: name.into(), exec: false }));
        }
        let anchor = thread.checked_add(self.structs.thread_anchor)?;
        let frames = self.frames(anchor)?;
        see(event(What::Interpreted(Box::new(Interpreted { holds: false, frames }))));
        Some(())
    }

    /// The recorder's number of a thread.
    fn tid(&mut self, thread: u64) -> Option<u32> {
        if let Some(known) = self.threads.tid(thread) {
            return known;
        }
        let os = self.memory.pointer(thread + self.structs.thread_os)?;
        let number = self.memory.number(os + self.structs.os_number)?;
        self.threads.learn(thread, Some(number))
    }

    /// Methods and lines from where this anchor says outward. `None` if the thread is in Java's code, or was never.
    fn frames(&mut self, anchor: u64) -> Option<Arc<[InterpretedFrame]>> {
        let (mut sp, mut fp, mut pc) = self.anchored(anchor)?;
        let mut frames = Vec::new();
        // What changes while it is read may lead around for ever; callers lie further out.
        for _ in 0..MOST_FRAMES {
            let Some(blob) = self.blob(pc) else { break };
            let from = sp;
            match blob {
                Blob::Interpreter => {
                    let Some(fields) = self.stacks.bytes(fp.wrapping_sub(BYTECODE), BYTECODE as usize + 16) else {
                        break;
                    };
                    let field = |below: u64| u64_at(&fields, (BYTECODE - below) as usize);
                    let (Some(bytecode), Some(method), Some(caller)) = (field(BYTECODE), field(METHOD), field(CALLER))
                    else {
                        break;
                    };
                    // The interpreter is one bytecode ahead when it enters a monitor.
                    let before = bytecode.wrapping_sub(1);
                    let enters =
                        frames.is_empty() && self.memory.bytes(before, 1).is_some_and(|code| code[0] == MONITOR_ENTER);
                    let bytecode = if enters { before } else { bytecode };
                    let at = |method: &Method| bytecode.checked_sub(method.begins).and_then(|at| at.try_into().ok());
                    if let Some(known) = self.method(method) {
                        frames.push(frame(&known, at(&known)));
                    }
                    (sp, fp, pc) = (caller, field(0)?, u64_at(&fields, BYTECODE as usize + 8)?);
                }
                Blob::Compiled { code, frame_bytes, .. } | Blob::Stub { code, frame_bytes } => {
                    if self.memory.word(self.structs.call_returns) == Some(pc) {
                        let wrapper = self.stacks.pointer(fp.wrapping_sub(WRAPPER));
                        let outer = wrapper.and_then(|wrapper| self.anchored(wrapper + self.structs.wrapper_anchor));
                        let Some(outer) = outer else { break };
                        (sp, fp, pc) = outer;
                    } else {
                        if let Blob::Compiled { tables, .. } = blob {
                            self.add_inlined(&tables, pc.wrapping_sub(code), &mut frames);
                        }
                        let caller = sp.wrapping_add(frame_bytes);
                        let Some(saved) = self.stacks.bytes(caller.wrapping_sub(16), 16) else { break };
                        (sp, fp, pc) = (caller, u64_at(&saved, 0)?, u64_at(&saved, 8)?);
                    }
                }
            }
            if sp <= from {
                break;
            }
        }
        (!frames.is_empty()).then(|| frames.into())
    }

    /// Stack pointer, frame pointer and instruction of an anchor that is set.
    fn anchored(&mut self, anchor: u64) -> Option<(u64, u64, u64)> {
        let structs = self.structs;
        let sp = self.stacks.pointer(anchor + structs.last_sp)?;
        let fp = self.stacks.word(anchor + structs.last_fp)?;
        let pc = match self.stacks.word(anchor + structs.last_pc)? {
            0 => self.stacks.word(sp.wrapping_sub(8))?,
            pc => pc,
        };
        Some((sp, fp, pc))
    }

    fn method(&mut self, method: u64) -> Option<Method> {
        if let Some(known) = self.methods.get(&method) {
            return known.clone();
        }
        let read = self.read_method(method);
        self.methods.insert(method, read.clone());
        read
    }

    fn read_method(&mut self, method: u64) -> Option<Method> {
        /// Flag of methods that have them.
        const HAS_LINES: u16 = 1;
        const MOST_LINES: u64 = 1 << 14;
        let structs = self.structs;
        let constant = self.memory.pointer(pointer(method)? + structs.method_const)?;
        let pool = self.memory.pointer(constant + structs.const_pool)?;
        let class = self.memory.pointer(pool + structs.pool_class)?;
        let name = self.short(constant + structs.const_name)?;
        let name = self.pool_text(pool, name)?;
        let source = structs.pool_source.map(|at| pool + at).or(structs.class_source.map(|at| class + at));
        let file = source.and_then(|at| self.short(at)).filter(|index| *index != 0);
        let class = self.class_name(class)?;
        let file = file.and_then(|index| self.pool_text(pool, index)).unwrap_or_else(|| "Unknown.class".into());
        let bytes = self.short(constant + structs.const_code)?;
        let begins = constant + structs.const_bytes;
        let has_lines = self.short(constant + structs.const_flags)? & HAS_LINES != 0;
        // The lines follow the bytecodes, and other tables follow these.
        let words = self.memory.number(constant + structs.const_size)?;
        let lines_at = begins + u64::from(bytes);
        let room = (constant + 8 * u64::from(words)).saturating_sub(lines_at).min(MOST_LINES);
        let lines = if has_lines { self.memory.bytes(lines_at, room as usize)? } else { Vec::new() };
        let name = format!("{class}.{name}").into();
        let lines = Table { bytes: lines.into(), least: structs.packed_least };
        Some(Method { name, file: file.into(), begins, bytes: bytes.into(), lines })
    }

    fn class_name(&mut self, class: u64) -> Option<String> {
        let symbol = self.memory.pointer(class + self.structs.class_name)?;
        let name = self.symbol(symbol)?;
        // A class without a name of its own has a number behind it.
        let end = name.find("/0x").or_else(|| name.find("+0x")).unwrap_or(name.len());
        Some(name[..end].replace('/', "."))
    }

    fn pool_text(&mut self, pool: u64, index: u16) -> Option<String> {
        let symbol = self.memory.pointer(pool + self.structs.pool_bytes + 8 * u64::from(index))?;
        self.symbol(symbol)
    }

    /// A text of the machine's own.
    fn symbol(&mut self, symbol: u64) -> Option<String> {
        let len = usize::from(self.short(symbol + self.structs.symbol_length)?).min(LONGEST_TEXT);
        let bytes = self.memory.bytes(symbol + self.structs.symbol_text, len)?;
        let text = String::from_utf8_lossy(&bytes);
        (len > 0).then(|| shown(text.chars()))
    }

    fn short(&mut self, address: u64) -> Option<u16> {
        Some(u16::from_le_bytes(self.memory.bytes(address, 2)?.try_into().ok()?))
    }
}

/// A frame of a method, at a bytecode if that is known.
fn frame(method: &Method, bytecode: Option<u32>) -> InterpretedFrame {
    let line = bytecode.filter(|at| *at < method.bytes).map_or(0, |at| method.lines.line(at));
    InterpretedFrame { function: method.name.clone(), file: method.file.clone(), line }
}

/// An address to which small numbers can be added; `None` for what leads nowhere.
fn pointer(address: u64) -> Option<u64> {
    Some(address).filter(|address| (1..1 << 56).contains(address))
}

/// Text for a terminal.
fn shown(text: impl Iterator<Item = char>) -> String {
    text.map(|found| if found.is_control() { char::REPLACEMENT_CHARACTER } else { found }).collect()
}

/// Where the machine is loaded, by the text of /proc/PID/maps.
fn loaded(maps: &str) -> Option<u64> {
    maps.lines().find_map(|line| {
        let mapped = Mapped::read(line)?;
        (mapped.file() == "libjvm.so" && mapped.offset == 0).then_some(mapped.start)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn java_is_known_by_its_library() {
        let maps = "\
400000-41f000 r--p 00000000 fe:00 12 /usr/bin/java
7f0000001000-7f0000002000 r-xp 00001000 fe:00 13 /opt/jdk 17/lib/server/libjvm.so
7f0000003000-7f0000004000 r--p 00000000 fe:00 14 /opt/jdk/lib/server/libjvm.so
";
        assert_eq!(loaded(maps), Some(0x7f00_0000_3000));
        assert_eq!(loaded("nonsense\n"), None);
    }

    #[test]
    fn what_is_no_machine_is_not_read() {
        let pid = std::process::id();
        let file = vec![0_u64; 512];
        let at = file.as_ptr() as u64;
        for start in [at, at + 1, 8, u64::MAX - 8] {
            let maps = format!("{start:x}-{start:x} r--p 00000000 fe:00 14 /opt/jdk/lib/server/libjvm.so\n");
            assert!(Machine::find(pid, &maps).is_none(), "{start:#x}");
        }
    }

    #[test]
    fn names_are_fit_for_a_terminal() {
        assert_eq!(shown("a\x1b[31m\u{7}b".chars()), "a\u{fffd}[31m\u{fffd}b");
    }
}
