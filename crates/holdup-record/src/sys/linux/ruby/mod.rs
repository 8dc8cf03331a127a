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
mod objects;

use std::sync::Arc;

use holdup_trace::{Event, Interpreted, InterpretedFrame, NO_CPU, Tid, What};
use rustc_hash::{FxHashMap, FxHashSet};

use self::layout::{Layout, Number};
use self::objects::INTERNAL_CODE;
use super::elf::Elf;
use super::machine;
use super::memory::{Memory, pointer_at, u32_at, u64_at};
use super::snapshot::Mapped;
use super::vm_threads::{Threads, of_pthread};

/// A process that runs Ruby.
#[derive(Debug)]
pub struct Interpreter {
    memory: Memory,
    /// Where the address of the machine is, `ruby_current_vm_ptr`.
    machine_at: u64,
    layout: Layout,
    /// Where the table of methods' names is, if it was found; else where it may be, and how often it is still looked
    /// for: it is filled while Ruby starts.
    names_at: Option<u64>,
    variables: Vec<(u64, u64)>,
    tries_left: u32,
    codes: FxHashMap<u64, Option<Code>>,
    /// The names of methods in C.
    methods: FxHashMap<u64, Option<Arc<str>>>,
    /// Threads that wait for the interpreter's lock of the ractor that is looked at.
    queue: FxHashSet<u64>,
    /// Code objects and names that may still be read in this look.
    codes_left: usize,
    threads: Threads,
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

/// Ractors of one process, and threads of all of them: a list that is longer was damaged while it was read.
const MOST_RACTORS: u64 = 64;
const MOST_THREADS: u64 = 4096;
/// Of deeper stacks, so many of the innermost frames are told.
const MOST_FRAMES: u64 = 512;
/// Words of a thread's stack at most.
const LARGEST_STACK: u64 = 1 << 24;
/// Code objects that are read in one look.
const MOST_CODES: usize = 1_000;
/// Looks at which the table of names is looked for: those of a second.
const MOST_TRIES: u32 = 100;
/// Rows of a table of lines, and words of code, at most.
const MOST_LINES: u32 = 1 << 14;
const LARGEST_CODE: u32 = 1 << 20;
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
        let mut interpreter = Interpreter::new(pid, machine_at, layout, variables(maps, path).collect());
        // Before it is initialized there is nothing to look at.
        let machine = interpreter.memory.pointer(machine_at)?;
        interpreter.is_known(machine)?.then_some(interpreter)
    }

    /// One that nothing was read of yet.
    fn new(pid: u32, machine_at: u64, layout: Layout, variables: Vec<(u64, u64)>) -> Interpreter {
        Interpreter {
            memory: Memory::of(pid),
            machine_at,
            layout,
            names_at: None,
            variables,
            tries_left: MOST_TRIES,
            codes: FxHashMap::default(),
            methods: FxHashMap::default(),
            queue: FxHashSet::default(),
            codes_left: MOST_CODES,
            threads: Threads::of(pid),
        }
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
        if self.threads.renew(now_ns) {
            self.codes.clear();
            self.methods.clear();
        }
        self.codes_left = MOST_CODES;
        self.memory.refresh();
        if self.names_at.is_none() && self.tries_left > 0 {
            self.tries_left -= 1;
            self.names_at = names::table(&self.variables, &mut self.memory);
            self.methods.clear();
        }
        let machine = self.memory.pointer(self.machine_at)?;
        let count = u64::from(self.memory.number(machine + RACTOR_COUNT)?).min(MOST_RACTORS);
        let head = machine + RACTORS;
        let mut node = self.memory.pointer(head)?;
        let mut threads_left = MOST_THREADS;
        for _ in 0..count {
            if node == head {
                break;
            }
            self.look_at_ractor(machine, node.checked_sub(self.layout.ractor_node)?, &mut threads_left, see);
            node = self.memory.pointer(node)?;
        }
        Some(())
    }

    fn look_at_ractor(
        &mut self,
        machine: u64,
        ractor: u64,
        threads_left: &mut u64,
        see: &mut impl FnMut(Event),
    ) -> Option<()> {
        let count = u64::from(self.memory.number(ractor + self.layout.thread_count)?).min(*threads_left);
        *threads_left -= count;
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
            self.queue.insert(node.wrapping_sub(self.layout.in_queue));
        }
    }

    /// The name that the program gave a thread, in full, if it is not known yet.
    fn new_name(&mut self, tid: u32, thread: &[u8]) -> Option<String> {
        // A small number stands for none: it may be given one yet.
        let object = pointer_at(thread, self.layout.name as usize).filter(|object| *object > 1 << 12)?;
        if !self.threads.is_to_be_asked(tid) {
            return None;
        }
        let name = self.text(object).filter(|name| !name.is_empty())?;
        self.threads.is_new(tid, &name).then_some(name)
    }

    /// The recorder's number of a thread.
    fn tid(&mut self, thread: &[u8]) -> Option<u32> {
        let own = match self.layout.number {
            Number::Pthread(at) => pointer_at(thread, at as usize)?,
            Number::Own(at) => u64::from(u32_at(thread, at as usize)?),
            Number::Native { native, number } => {
                u64::from(self.memory.number(pointer_at(thread, native as usize)?.checked_add(number)?)?)
            }
        };
        if let Some(known) = self.threads.tid(own) {
            return known;
        }
        let number = match self.layout.number {
            Number::Pthread(_) => of_pthread(own, &mut self.memory),
            _ => u32::try_from(own).ok().filter(|number| *number > 0),
        };
        self.threads.learn(own, number)
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
        // Who has just begun waits for the lock before there is any code.
        let waits = self.queue.contains(&thread);
        if waits {
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
        (has_code || waits).then(|| frames.into())
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
        if objects::internal_type(code, &mut self.memory)? != INTERNAL_CODE {
            return None;
        }
        let body = self.memory.bytes(pointer_at(&object, BODY)?, BODY_BYTES)?;
        let size = u32_at(&body, SIZE).filter(|size| (1..LARGEST_CODE).contains(size))?;
        let begin = pointer_at(&body, BEGIN)?;
        let function = self.text(pointer_at(&body, LABEL)?)?;
        let file = objects::path(pointer_at(&body, PATH)?, self.layout.length_within, &mut self.memory)?;
        let lines = self.lines(&body, size).unwrap_or_default().into();
        Some(Code { function: function.into(), file: file.into(), begin, size, lines })
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

    fn text(&mut self, object: u64) -> Option<String> {
        objects::text(object, self.layout.length_within, &mut self.memory)
    }

    /// The name of the method in C whose frame has its variables here; `None` if it is no such frame.
    fn c_method(&mut self, variables: u64) -> Option<Arc<str>> {
        let method = names::method(variables, &mut self.memory)?;
        if let Some(known) = self.methods.get(&method) {
            return known.clone();
        }
        self.codes_left = self.codes_left.checked_sub(1)?;
        let within = self.layout.length_within;
        let name = self.names_at.and_then(|table| names::of_method(method, table, within, &mut self.memory));
        let name = name.map(Arc::from);
        self.methods.insert(method, name.clone());
        name
    }
}

/// Where the interpreter that is loaded here has the address of its machine, and its layout; `None` if it is none, or
/// of an unknown version.
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
    let is_released = memory.number(level_at)? <= i32::MAX as u32;
    Some((machine_at, Layout::of(version).filter(|_| is_released)?))
}

/// A frame of a method in C, or of the interpreter itself.
fn inside(function: Arc<str>) -> InterpretedFrame {
    InterpretedFrame { function, file: IN_C.into(), line: 0 }
}

/// Where files that may be Ruby's own are loaded, by the text of /proc/PID/maps, each with its path: the program, and
/// the library that has all of it if there is one.
fn loaded(maps: &str) -> impl Iterator<Item = (u64, &str)> {
    maps.lines().filter_map(|line| {
        let mapped = Mapped::read(line)?;
        let file = mapped.file();
        let is_ruby = file.strip_prefix("lib").unwrap_or(file).starts_with("ruby");
        (mapped.offset == 0 && is_ruby).then_some((mapped.start, mapped.path))
    })
}

/// Where the variables of a file are.
fn variables<'m>(maps: &'m str, path: &'m str) -> impl Iterator<Item = (u64, u64)> + 'm {
    let of_file = move |line| Mapped::read(line).filter(|found| found.path == path && found.may.starts_with("rw"));
    maps.lines().filter_map(of_file).map(|found| (found.start, found.end))
}

#[cfg(test)]
mod tests {
    use super::objects::{ARRAY, INTERNAL, IS_OUTSIDE, IS_WITHIN, STRING};
    use super::*;

    /// Where things are in a process that was made up, in bytes from its beginning.
    const MACHINE_HERE: u64 = 0x100;
    const RACTOR_HERE: u64 = 0x400;
    const THREAD_HERE: u64 = 0x1000;
    const CONTEXT_HERE: u64 = 0x1400;
    const STACK_HERE: u64 = 0x2000;
    const STACK_END: u64 = 0x3000;
    const CODE_HERE: u64 = 0x3000;
    const BODY_HERE: u64 = 0x3100;
    const BEGIN_HERE: u64 = 0x3200;
    const LABEL_HERE: u64 = 0x3400;
    const PATH_HERE: u64 = 0x3500;
    const REAL_HERE: u64 = 0x3600;
    const TEXT_HERE: u64 = 0x3700;
    const ROWS_HERE: u64 = 0x3800;
    const INDEX_HERE: u64 = 0x3900;
    const NAME_HERE: u64 = 0x3a00;

    /// A process with Ruby 3.1 whose one thread executes line 17 of `fetch`, called by a method in C.
    struct Process(Vec<u64>);

    impl Process {
        fn new() -> Process {
            let mut made = Process(vec![0; 0x4000 / 8]);
            let layout = made.layout();
            made.lead(0, MACHINE_HERE);
            made.lead(MACHINE_HERE + RACTORS, RACTOR_HERE + layout.ractor_node);
            made.put(MACHINE_HERE + RACTOR_COUNT, 1);
            made.lead(MACHINE_HERE + MAIN_RACTOR, RACTOR_HERE);
            made.lead(MACHINE_HERE + MAIN_THREAD, THREAD_HERE);
            made.lead(RACTOR_HERE + layout.ractor_node, MACHINE_HERE + RACTORS);
            made.lead(RACTOR_HERE + layout.threads, THREAD_HERE);
            made.put(RACTOR_HERE + layout.thread_count, 1);
            made.lead(RACTOR_HERE + layout.lock_holder, THREAD_HERE);
            made.lead(RACTOR_HERE + layout.lock_queue, RACTOR_HERE + layout.lock_queue);
            made.lead(RACTOR_HERE + layout.main_thread, THREAD_HERE);
            made.lead(THREAD_HERE, RACTOR_HERE + layout.threads);
            made.lead(THREAD_HERE + RACTOR as u64, RACTOR_HERE);
            made.lead(THREAD_HERE + MACHINE as u64, MACHINE_HERE);
            made.lead(THREAD_HERE + layout.context, CONTEXT_HERE);
            made.put(THREAD_HERE + 88, u64::from(std::process::id()));
            made.lead(THREAD_HERE + layout.name, NAME_HERE);
            made.lead(CONTEXT_HERE, STACK_HERE);
            made.put(CONTEXT_HERE + 8, (STACK_END - STACK_HERE) / 8);
            made.lead(CONTEXT_HERE + 16, STACK_END - 3 * layout.frame);
            made.lead(CONTEXT_HERE + layout.thread, THREAD_HERE);
            // The innermost frame is of Ruby; those of methods in C have no code.
            made.lead(STACK_END - 3 * layout.frame, BEGIN_HERE + 5 * 8);
            made.lead(STACK_END - 3 * layout.frame + 16, CODE_HERE);
            made.put(CODE_HERE, INTERNAL | INTERNAL_CODE);
            made.lead(CODE_HERE + 16, BODY_HERE);
            made.put(BODY_HERE, 8 << 32);
            made.lead(BODY_HERE + 8, BEGIN_HERE);
            made.lead(BODY_HERE + PATH as u64, PATH_HERE);
            made.lead(BODY_HERE + LABEL as u64, LABEL_HERE);
            made.lead(BODY_HERE + layout.lines, ROWS_HERE);
            made.put(BODY_HERE + layout.line_count, 2);
            made.lead(BODY_HERE + layout.line_index, INDEX_HERE);
            // Line 16 from the first instruction on, line 17 from the fourth on.
            made.put(ROWS_HERE, 16);
            made.put(ROWS_HERE + 8, 17 << 32);
            let ranks =
                |count: u64, places: std::ops::Range<u32>| places.map(|place| count << (7 * place)).sum::<u64>();
            made.put(INDEX_HERE, ranks(1, 0..4) + ranks(2, 4..9));
            made.text(LABEL_HERE, b"fetch");
            made.text(NAME_HERE, b"the teller");
            made.put(PATH_HERE, ARRAY | IS_WITHIN);
            made.put(PATH_HERE + 16, 8);
            made.lead(PATH_HERE + 24, REAL_HERE);
            made.put(REAL_HERE, STRING | IS_OUTSIDE);
            made.put(REAL_HERE + 16, 12);
            made.lead(REAL_HERE + 24, TEXT_HERE);
            made.bytes(TEXT_HERE, b"/srv/shop.rb");
            made
        }

        fn layout(&self) -> Layout {
            Layout::of("3.1.7").expect("a layout")
        }

        fn put(&mut self, at: u64, word: u64) {
            self.0[at as usize / 8] = word;
        }

        fn lead(&mut self, from: u64, to: u64) {
            let to = self.0.as_ptr() as u64 + to;
            self.put(from, to);
        }

        fn text(&mut self, at: u64, text: &[u8]) {
            self.put(at, STRING | (text.len() as u64) << 14);
            self.bytes(at + 16, text);
        }

        fn bytes(&mut self, at: u64, bytes: &[u8]) {
            for (at, word) in (at..).step_by(8).zip(bytes.chunks(8)) {
                let mut whole = [0; 8];
                whole[..word.len()].copy_from_slice(word);
                self.put(at, u64::from_le_bytes(whole));
            }
        }

        fn interpreter(&self) -> Interpreter {
            Interpreter::new(std::process::id(), self.0.as_ptr() as u64, self.layout(), Vec::new())
        }

        /// What a look sees: names, and of each thread whether it has the lock and `function file:line` of its frames.
        fn seen(&self) -> (Vec<String>, Vec<(bool, Vec<String>)>) {
            let (mut names, mut found) = (Vec::new(), Vec::new());
            self.interpreter().look(2 * super::super::vm_threads::RENEW_NS, &mut |event| match event.what {
                What::Named { name, .. } => names.push(name.to_string()),
                What::Interpreted(code) => {
                    let told = |one: &InterpretedFrame| format!("{} {}:{}", one.function, one.file, one.line);
                    found.push((code.holds, code.frames.iter().map(told).collect()));
                }
                _ => {}
            });
            (names, found)
        }
    }

    #[test]
    fn a_thread_is_told_of_with_its_name_its_method_and_line() {
        let made = Process::new();
        let machine = made.0.as_ptr() as u64 + MACHINE_HERE;
        assert_eq!(made.interpreter().is_known(machine), Some(true));
        let told = (vec!["the teller".to_owned()], vec![(true, vec!["fetch /srv/shop.rb:17".to_owned()])]);
        assert_eq!(made.seen(), told);
    }

    #[test]
    fn a_thread_in_the_queue_waits_for_the_interpreters_lock() {
        let mut made = Process::new();
        let layout = made.layout();
        made.put(RACTOR_HERE + layout.lock_holder, 0);
        made.lead(RACTOR_HERE + layout.lock_queue, THREAD_HERE + layout.in_queue);
        made.lead(THREAD_HERE + layout.in_queue, RACTOR_HERE + layout.lock_queue);
        let frames = vec!["gvl_acquire <internal:c>:0".to_owned(), "fetch /srv/shop.rb:17".to_owned()];
        assert_eq!(made.seen().1, [(false, frames)]);
    }

    #[test]
    fn machines_whose_parts_do_not_lead_to_each_other_are_none() {
        let layout = Process::new().layout();
        for broken in [
            THREAD_HERE + RACTOR as u64,
            THREAD_HERE + MACHINE as u64,
            RACTOR_HERE + layout.main_thread,
            CONTEXT_HERE + layout.thread,
            MACHINE_HERE + MAIN_RACTOR,
        ] {
            let mut made = Process::new();
            made.put(broken, 0x1234);
            let machine = made.0.as_ptr() as u64 + MACHINE_HERE;
            assert_ne!(made.interpreter().is_known(machine), Some(true), "{broken:#x}");
        }
    }

    /// Each word of the process in turn is something else: it leads to itself, around, nowhere, or is huge.
    #[test]
    fn whatever_stands_in_memory_a_look_ends_and_tells_nothing_that_is_not_there() {
        let whole = Process::new();
        let words = whole.0.len() as u64;
        for word in (0..words).filter(|word| whole.0[*word as usize] != 0) {
            for wrong in [0, 8, 0x7fff, 1 << 40, (1 << 56) - 8, u64::MAX, u64::MAX >> 1] {
                let mut made = Process::new();
                made.put(word * 8, wrong);
                assert!(made.seen().1.len() <= 1, "word {word} is {wrong:#x}");
            }
            let mut made = Process::new();
            made.lead(word * 8, word * 8);
            made.seen();
        }
        // Lists without an end, of as many threads and ractors as there can be.
        let mut made = Process::new();
        made.lead(THREAD_HERE, THREAD_HERE);
        made.put(RACTOR_HERE + made.layout().thread_count, 3);
        assert_eq!(made.seen().1.len(), 3);
        made.put(MACHINE_HERE + RACTOR_COUNT, u64::from(u32::MAX));
        made.lead(RACTOR_HERE + made.layout().ractor_node, RACTOR_HERE + made.layout().ractor_node);
        assert_eq!(made.seen().1.len(), 3 * MOST_RACTORS as usize);
    }

    #[test]
    fn an_instruction_outside_of_its_code_is_no_frame() {
        let mut made = Process::new();
        let frame = STACK_END - 3 * made.layout().frame;
        for outside in [BEGIN_HERE - 8, BEGIN_HERE + 9 * 8] {
            made.lead(frame, outside);
            assert_eq!(made.seen().1, []);
        }
        made.lead(frame, BEGIN_HERE);
        assert_eq!(made.seen().1[0].1, ["fetch /srv/shop.rb:16"]);
        // Without an index there is no line, and yet a method.
        made.put(BODY_HERE + made.layout().line_index, 0);
        assert_eq!(made.seen().1[0].1, ["fetch /srv/shop.rb:0"]);
    }

    #[test]
    fn names_of_methods_in_c_are_found_by_the_form_of_their_table() {
        const HERE: [u64; 5] = [0x200, 0x600, 0x700, 0x800, 0xa00];
        let [table, array, part, hash, method] = HERE;
        let mut made = Process::new();
        made.put(table, 3_000);
        made.lead(table + 8, hash);
        made.lead(table + 16, array);
        made.lead(table + 24, hash);
        made.put(hash, 0x08);
        // The tenth name of the second part, in an array of arrays.
        for (array, len, elements) in [(array, 6, 0x900), (part, 1_024, 0x3c00)] {
            made.put(array, ARRAY);
            made.put(array + 16, len);
            made.lead(array + 32, elements);
        }
        made.lead(0x900 + 8, part);
        made.lead(0x3c00 + 10 * 16, NAME_HERE);
        made.put(method, INTERNAL | 6 << 12);
        made.put(method + 24, (512 + 10) << 4);
        made.lead(0xb00, method);
        made.put(0xb00 + 16, 0x5555_0001 | 0x82);
        let base = made.0.as_ptr() as u64;
        let mut interpreter = made.interpreter();
        let ranges = [(base + 0x180, base + 0x280)];
        interpreter.variables = ranges.to_vec();
        made.put(table, 200);
        interpreter.look(1, &mut |_| {});
        assert_eq!(interpreter.names_at, None, "it is not filled yet");
        made.put(table, 3_000);
        interpreter.look(2, &mut |_| {});
        assert_eq!(interpreter.names_at, Some(base + table));
        assert_eq!(interpreter.c_method(base + 0xb10).as_deref(), Some("the teller"));
        assert_eq!(interpreter.c_method(base + 0xb18), None, "a frame of something else");
        made.put(table + 8, 0);
        assert_eq!(names::table(&ranges, &mut Memory::of(std::process::id())), None);
        assert_eq!(names::table(&[(0, u64::MAX), (u64::MAX, 0)], &mut Memory::of(std::process::id())), None);
    }

    #[test]
    fn ruby_is_known_by_its_files() {
        let maps = "\
400000-401000 r--p 00000000 fe:00 12 /usr/bin/ruby3.1
401000-402000 r-xp 00001000 fe:00 12 /usr/bin/ruby3.1
7f0000000000-7f0000001000 r--p 00000000 fe:00 13 /usr/lib/libruby-3.1.so.3.1.7
7f0000002000-7f0000003000 rw-p 00002000 fe:00 13 /usr/lib/libruby-3.1.so.3.1.7
7f0000004000-7f0000005000 r--p 00000000 fe:00 15 /usr/lib/ruby/3.1.0/monitor.so
7f0000006000-7f0000007000 rw-p 00000000 00:00 0
";
        let found: Vec<(u64, &str)> = loaded(maps).collect();
        let library = "/usr/lib/libruby-3.1.so.3.1.7";
        assert_eq!(found, [(0x40_0000, "/usr/bin/ruby3.1"), (0x7f00_0000_0000, library)]);
        let of_library: Vec<(u64, u64)> = variables(maps, library).collect();
        assert_eq!(of_library, [(0x7f00_0000_2000, 0x7f00_0000_3000)]);
        assert_eq!(loaded("nonsense\n").count(), 0);
    }
}
