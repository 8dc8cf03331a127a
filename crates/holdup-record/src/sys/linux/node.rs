//! Looks at what Node executes, from outside: the JavaScript functions that waiting threads are in, read from V8's
//! structures in the process's memory by the numbers that it carries for debuggers (`v8dbg_...`), so that no version of
//! it need be known. The program does not notice.
//!
//! JavaScript that calls C++ leaves behind a frame that says so; from there on, frames lead outward, and those of
//! JavaScript have their function. Where the stack of a thread that runs begins, only a sample of it tells. A function
//! is told with the line that it begins in: where in it the call is, is not kept.
//!
//! Reading needs the right to trace the process, which children grant and others may not. Read on x86-64 only.

use std::sync::Arc;

use holdup_trace::{Event, Interpreted, InterpretedFrame, NO_CPU, Tid, What};
use rustc_hash::FxHashMap;

use super::blocked;
use super::decode::{Sample, register};
use super::elf::Elf;
use super::machine;
use super::memory::{Memory, u64_at};
use super::snapshot::{self, Mapped};
use super::vm_threads::RENEW_NS;
use crate::kernel::context;

/// Bytes of a stack that are looked at, and frames on it.
const MOST_STACK: u64 = 64 << 10;
const MOST_FRAMES: usize = 128;
/// Bytes of names, and of a source up to a function.
const LONGEST_TEXT: usize = 1_000;
const LONGEST_SOURCE: usize = 1 << 20;
/// Texts that are made of others lead so far at most.
const DEEPEST_TEXT: usize = 8;
/// Functions that are read in one look.
const MOST_FUNCTIONS: usize = 1_000;
/// A thread without JavaScript is looked at again after a pause that doubles each time.
const FIRST_PAUSE_NS: u64 = 10_000_000;
const LONGEST_PAUSE_NS: u64 = 160_000_000;
/// What was read for one sample is good for those of so much time.
const BELIEVED_NS: u64 = 5_000_000;
/// From so many samples without JavaScript on, only some of a thread are looked at.
const MANY_MISSES: u32 = 256;
/// Kinds of functions: of classes, and some that are built in.
const FUNCTION_KINDS: u16 = 32;
/// From so many variables on, a scope keeps their names in a table.
const MOST_INLINE_NAMES: u64 = 75;
/// In an exit frame, below its pointer: where the stack was when C++ was called.
const SAVED_SP: u64 = 16;
/// The bits of a text's kind: how it is kept, and whether a letter takes one byte.
const FORM: u16 = 7;
const ONE_BYTE: u16 = 8;
const NO_TEXT: u16 = 0x80;

/// A process that runs Node.
#[derive(Debug)]
pub struct Engine {
    pid: u32,
    /// Its objects, read anew at each look, and stacks, read anew for each thread.
    memory: Memory,
    stacks: Memory,
    layout: Layout,
    functions: FxHashMap<u64, Option<Function>>,
    functions_left: usize,
    /// By file and place in it, for objects are moved.
    lines: FxHashMap<(Arc<str>, u32), u32>,
    /// Threads without JavaScript: when to look again, and the pause after that.
    quiet: FxHashMap<u32, (u64, u64)>,
    renewed_ns: u64,
    /// When memory was read anew for samples.
    refreshed_ns: u64,
    /// Samples of each thread without JavaScript, one after the other.
    misses: FxHashMap<u32, u32>,
}

/// A stack, from its innermost word on.
struct Copy<'a> {
    begin: u64,
    bytes: &'a [u8],
}

impl Copy<'_> {
    fn end(&self) -> u64 {
        self.begin + self.bytes.len() as u64
    }

    fn word(&self, at: u64) -> Option<u64> {
        u64_at(self.bytes, usize::try_from(at.checked_sub(self.begin)?).ok()?)
    }

    fn holds(&self, frame: u64) -> bool {
        frame.is_multiple_of(8) && (self.begin..self.end()).contains(&frame)
    }

    /// The caller's frame, which lies further out.
    fn outer(&self, frame: u64) -> Option<u64> {
        self.word(frame).filter(|next| *next > frame && self.holds(*next))
    }
}

#[derive(Clone, Debug)]
struct Function {
    name: Arc<str>,
    file: Arc<str>,
    line: u32,
}

/// Where V8 keeps things.
#[derive(Clone, Copy, Debug)]
struct Layout {
    /// A number of this file that never changes, and its value.
    known: (u64, u32),
    map_kind: u64,
    function_kind: u16,
    function_shared: u64,
    shared_kind: u16,
    shared_name: u64,
    shared_script: u64,
    script_kind: u16,
    script_name: u64,
    script_source: u64,
    scope_kind: u16,
    scope_count: u64,
    scope_names: u64,
    text_length: u64,
    text_bytes: u64,
    text_wide: u64,
    cons_first: u64,
    cons_second: u64,
    slice_parent: u64,
    slice_offset: u64,
    thin_actual: u64,
    /// Below a frame's pointer.
    frame_function: u64,
    frame_kind: u64,
    /// What frames bear whose callers called C++.
    exits: [u64; 2],
}

impl Layout {
    fn read(file: &Elf, memory: &mut Memory) -> Option<Layout> {
        let mut get = |name: &str| {
            let at = file.symbol(&format!("v8dbg_{name}"), memory)?;
            Some((at, memory.number(at)?.cast_signed()))
        };
        let known = get("SmiShiftSize")?;
        // Numbers in the upper half of a word, addresses with their lowest bit set.
        if (known.1, get("HeapObjectTag")?.1) != (31, 1) {
            return None;
        }
        let mut above = |name: &str| u64::try_from(get(name)?.1).ok().filter(|offset| *offset < 4096);
        let words = |index: u64| 8 + 8 * index;
        let mut layout = Layout {
            known: (known.0, known.1.cast_unsigned()),
            map_kind: above("class_Map__instance_type__uint16_t")?,
            function_kind: 0,
            function_shared: above("class_JSFunction__shared__SharedFunctionInfo")?,
            shared_kind: 0,
            shared_name: above("class_SharedFunctionInfo__name_or_scope_info__Object")?,
            shared_script: above("class_SharedFunctionInfo__script_or_debug_info__HeapObject")
                .or_else(|| above("class_SharedFunctionInfo__script__Object"))?,
            script_kind: 0,
            script_name: above("class_Script__name__Object")?,
            script_source: above("class_Script__source__Object")?,
            scope_kind: 0,
            scope_count: words(above("scopeinfo_idx_ncontextlocals")?),
            scope_names: words(above("scopeinfo_idx_first_vars")?),
            text_length: above("class_String__length__int32_t")?,
            text_bytes: above("class_SeqOneByteString__chars__char")?,
            text_wide: above("class_SeqTwoByteString__chars__char")?,
            cons_first: above("class_ConsString__first__String")?,
            cons_second: above("class_ConsString__second__String")?,
            slice_parent: above("class_SlicedString__parent__String")?,
            slice_offset: above("class_SlicedString__offset__SMI")?,
            thin_actual: above("class_ThinString__actual__String")?,
            frame_function: 0,
            frame_kind: 0,
            exits: [0; 2],
        };
        let mut kind = |name: &str| u16::try_from(get(&format!("type_{name}"))?.1).ok();
        layout.function_kind = kind("JSFunction__JS_FUNCTION_TYPE")?;
        layout.shared_kind = kind("SharedFunctionInfo__SHARED_FUNCTION_INFO_TYPE")?;
        layout.script_kind = kind("Script__SCRIPT_TYPE")?;
        layout.scope_kind = kind("ScopeInfo__SCOPE_INFO_TYPE")?;
        let mut below = |name: &str| u64::try_from(-get(name)?.1).ok().filter(|offset| (8..64).contains(offset));
        layout.frame_function = below("off_fp_function")?;
        layout.frame_kind = below("off_fp_context_or_frame_type").or_else(|| below("off_fp_context"))?;
        let mut mark = |name: &str| Some(2 * u64::try_from(get(name)?.1).ok()?);
        layout.exits = [mark("frametype_ExitFrame")?, mark("frametype_BuiltinExitFrame")?];
        Some(layout)
    }
}

impl Engine {
    /// The engine of a process whose /proc/PID/maps this is.
    pub fn find(pid: u32, maps: &str) -> Option<Engine> {
        if cfg!(not(target_arch = "x86_64")) {
            return None;
        }
        let mut memory = Memory::of(pid);
        let file = Elf::at(loaded(maps)?, &mut memory)?;
        let layout = Layout::read(&file, &mut memory)?;
        Some(Engine::new(pid, layout))
    }

    fn new(pid: u32, layout: Layout) -> Engine {
        Engine {
            pid,
            memory: Memory::of(pid),
            stacks: Memory::of(pid),
            layout,
            functions: FxHashMap::default(),
            functions_left: MOST_FUNCTIONS,
            lines: FxHashMap::default(),
            quiet: FxHashMap::default(),
            renewed_ns: 0,
            refreshed_ns: 0,
            misses: FxHashMap::default(),
        }
    }

    /// Tells of every thread that waits in JavaScript. `None` if there is no engine any more.
    pub fn look(&mut self, now_ns: u64, see: &mut impl FnMut(Event)) -> Option<()> {
        self.memory.refresh();
        if self.memory.number(self.layout.known.0)? != self.layout.known.1 {
            return None;
        }
        self.renew(now_ns);
        self.functions_left = MOST_FUNCTIONS;
        let tids = snapshot::threads(self.pid);
        self.quiet.retain(|tid, _| tids.binary_search(tid).is_ok());
        for tid in tids {
            let (due_ns, pause_ns) = self.quiet.get(&tid).copied().unwrap_or((0, FIRST_PAUSE_NS));
            if now_ns < due_ns {
                continue;
            }
            let time_ns = machine::now_ns();
            let Some(sp) = stack_pointer(self.pid, tid) else { continue };
            self.stacks.refresh();
            match self.frames(sp) {
                Some(frames) => {
                    self.quiet.remove(&tid);
                    let what = What::Interpreted(Box::new(Interpreted { holds: false, frames }));
                    see(Event { time_ns, tid: Tid(tid), cpu: NO_CPU, what });
                }
                None => {
                    self.quiet.insert(tid, (now_ns + pause_ns, (2 * pause_ns).min(LONGEST_PAUSE_NS)));
                }
            }
        }
        Some(())
    }

    /// The functions that a running thread is in, innermost first, by a sample of it. `None` if they cannot be told.
    pub fn running(&mut self, now_ns: u64, tid: u32, sample: &Sample<'_>) -> Option<Arc<[InterpretedFrame]>> {
        if now_ns.saturating_sub(self.refreshed_ns) >= BELIEVED_NS {
            self.refreshed_ns = now_ns;
            self.memory.refresh();
            self.stacks.refresh();
        }
        self.renew(now_ns);
        let misses = self.misses.get(&tid).copied().unwrap_or(0);
        if misses >= MANY_MISSES && !misses.is_power_of_two() {
            self.misses.insert(tid, misses + 1);
            return None;
        }
        let begin = sample.register(register::SP)?;
        let mut bytes = self.stack(begin & !7);
        // What was on top of the stack is known, and what lies further out has stayed there if it fits.
        for (place, word) in bytes.chunks_exact_mut(8).zip(sample.stack.iter()) {
            place.copy_from_slice(&word.to_ne_bytes());
        }
        let stack = Copy { begin: begin & !7, bytes: &bytes };
        let returns: Vec<u64> = sample.chain.iter().skip_while(|addr| *addr != context::USER).skip(2).collect();
        let fits =
            |(index, frame): &(usize, u64)| returns.get(*index).is_none_or(|addr| stack.word(frame + 8) == Some(*addr));
        let first = sample.register(register::FP).filter(|frame| stack.holds(*frame));
        let chain = std::iter::successors(first, |frame| stack.outer(*frame)).take(MOST_FRAMES);
        let frames: Vec<u64> = chain.enumerate().take_while(fits).map(|(_, frame)| frame).collect();
        let found = self.functions_of(frames.into_iter(), &stack).or_else(|| self.called(&stack));
        // A thread without JavaScript is one that has shown none in many samples: those of one thread come in heaps.
        let in_vain = if found.is_some() { 0 } else { misses + 1 };
        self.misses.insert(tid, in_vain);
        found
    }

    fn renew(&mut self, now_ns: u64) {
        if now_ns.saturating_sub(self.renewed_ns) >= RENEW_NS {
            self.renewed_ns = now_ns;
            self.functions.clear();
            self.functions_left = MOST_FUNCTIONS;
            self.misses.clear();
        }
    }

    /// The functions on a stack, innermost first. `None` if JavaScript has called nothing on it.
    fn frames(&mut self, sp: u64) -> Option<Arc<[InterpretedFrame]>> {
        let bytes = self.stack(sp & !7);
        self.called(&Copy { begin: sp & !7, bytes: &bytes })
    }

    /// The functions outward of the innermost call from JavaScript to C++.
    fn called(&mut self, stack: &Copy<'_>) -> Option<Arc<[InterpretedFrame]>> {
        let Layout { frame_kind, exits, .. } = self.layout;
        for frame in (stack.begin + SAVED_SP..stack.end()).step_by(8) {
            let is_exit = stack.word(frame - frame_kind).is_some_and(|kind| exits.contains(&kind))
                && stack.word(frame - SAVED_SP).is_some_and(|saved| (stack.begin..frame).contains(&saved));
            if is_exit {
                let callers = std::iter::successors(stack.outer(frame), |frame| stack.outer(*frame));
                let found = self.functions_of(callers.take(MOST_FRAMES), stack);
                if found.is_some() {
                    return found;
                }
            }
        }
        None
    }

    fn functions_of(&mut self, frames: impl Iterator<Item = u64>, stack: &Copy<'_>) -> Option<Arc<[InterpretedFrame]>> {
        let place = self.layout.frame_function;
        let found: Vec<InterpretedFrame> =
            frames.filter_map(|frame| self.function(stack.word(frame.checked_sub(place)?)?)).collect();
        (!found.is_empty()).then(|| found.into())
    }

    /// A stack from here on, as far as it can be read.
    fn stack(&mut self, begin: u64) -> Vec<u8> {
        const PAGE: u64 = 4096;
        let mut bytes = Vec::new();
        let mut at = begin;
        while at < begin.saturating_add(MOST_STACK) {
            let len = PAGE - at % PAGE;
            let Some(more) = self.stacks.bytes(at, len as usize) else { break };
            bytes.extend(more);
            at += len;
        }
        bytes
    }

    /// What a frame has in the place of its function, if that is one of a script.
    fn function(&mut self, word: u64) -> Option<InterpretedFrame> {
        let function = object(word)?;
        let kinds = self.layout.function_kind..self.layout.function_kind.saturating_add(FUNCTION_KINDS);
        if !kinds.contains(&self.kind(function)?) {
            return None;
        }
        let shared = self.field(function, self.layout.function_shared)?;
        if !self.functions.contains_key(&shared) {
            self.functions_left = self.functions_left.checked_sub(1)?;
            let read = self.read_function(shared);
            self.functions.insert(shared, read);
        }
        let Function { name, file, line } = self.functions.get(&shared)?.clone()?;
        Some(InterpretedFrame { function: name, file, line })
    }

    fn read_function(&mut self, shared: u64) -> Option<Function> {
        let layout = self.layout;
        if self.kind(shared)? != layout.shared_kind {
            return None;
        }
        // What is built in has none.
        let script = self.field(shared, layout.shared_script)?;
        if self.kind(script)? != layout.script_kind {
            return None;
        }
        let file = self.field(script, layout.script_name)?;
        let file = self.text(file, LONGEST_TEXT)?;
        let file: Arc<str> = file.strip_prefix("file://").unwrap_or(&file).into();
        let named = self.field(shared, layout.shared_name)?;
        let (name, position) = match self.kind(named)? {
            kind if kind == layout.scope_kind => self.scope(named)?,
            _ => (self.text(named, LONGEST_TEXT), None),
        };
        let name = name.filter(|name| !name.is_empty()).unwrap_or_else(|| "(anonymous)".to_owned());
        let line = position.and_then(|position| self.line(script, &file, position)).unwrap_or(0);
        Some(Function { name: name.into(), file, line })
    }

    /// The name of a function and where it begins, by its scope: behind the names and kinds of its variables follow its
    /// own name with a number, a name that was guessed, and two numbers, each only if there is one.
    fn scope(&mut self, scope: u64) -> Option<(Option<String>, Option<u32>)> {
        const SLOTS: usize = 8;
        const NAMES: usize = 3;
        let count = number(self.memory.word(scope + self.layout.scope_count)?).filter(|count| *count < 1 << 16)?;
        let names = if count < MOST_INLINE_NAMES { count } else { 1 };
        let behind = scope + self.layout.scope_names + 8 * (names + count);
        let bytes = self.memory.bytes(behind, 8 * SLOTS)?;
        let slots: Vec<u64> = bytes.chunks_exact(8).filter_map(|slot| u64_at(slot, 0)).collect();
        let texts = slots.iter().take(NAMES).filter_map(|slot| object(*slot));
        let name = texts.collect::<Vec<_>>().into_iter().find_map(|text| self.text(text, LONGEST_TEXT));
        Some((name, begins(&slots)))
    }

    /// The line of a place in a script.
    fn line(&mut self, script: u64, file: &Arc<str>, position: u32) -> Option<u32> {
        let key = (file.clone(), position);
        if let Some(known) = self.lines.get(&key) {
            return Some(*known);
        }
        let source = self.field(script, self.layout.script_source)?;
        let before = self.letters(source, 0, position as usize, DEEPEST_TEXT)?;
        let line = 1 + before.iter().filter(|letter| **letter == u16::from(b'\n')).count() as u32;
        self.lines.insert(key, line);
        Some(line)
    }

    /// A text, up to so many letters.
    fn text(&mut self, text: u64, most: usize) -> Option<String> {
        let letters = self.letters(text, 0, most, DEEPEST_TEXT)?;
        let text = char::decode_utf16(letters).map(|found| found.unwrap_or(char::REPLACEMENT_CHARACTER));
        Some(text.map(|found| if found.is_control() { char::REPLACEMENT_CHARACTER } else { found }).collect())
    }

    /// So many letters of a text at most, from one on.
    fn letters(&mut self, text: u64, from: usize, most: usize, deepest: usize) -> Option<Vec<u16>> {
        let layout = self.layout;
        let kind = self.kind(text).filter(|kind| kind & NO_TEXT == 0)?;
        let len = self.memory.number(text + layout.text_length)? as usize;
        let (deepest, len) = (deepest.checked_sub(1)?, len.saturating_sub(from).min(most).min(LONGEST_SOURCE));
        match kind & FORM {
            0 if kind & ONE_BYTE != 0 => {
                let bytes = self.memory.bytes(text + layout.text_bytes + from as u64, len)?;
                Some(bytes.into_iter().map(u16::from).collect())
            }
            0 => {
                let bytes = self.memory.bytes(text + layout.text_wide + 2 * from as u64, 2 * len)?;
                Some(bytes.chunks_exact(2).map(|unit| u16::from_le_bytes([unit[0], unit[1]])).collect())
            }
            // Two that were put together.
            1 => {
                let (first, second) = (self.field(text, layout.cons_first)?, self.field(text, layout.cons_second)?);
                let first_len = self.memory.number(first + layout.text_length)? as usize;
                let mut letters = self.letters(first, from, len, deepest)?;
                if letters.len() < len {
                    let rest = len - letters.len();
                    letters.extend(self.letters(second, from.saturating_sub(first_len), rest, deepest)?);
                }
                Some(letters)
            }
            // A part of another.
            3 => {
                let parent = self.field(text, layout.slice_parent)?;
                let offset = number(self.memory.word(text + layout.slice_offset)?)? as usize;
                self.letters(parent, from.checked_add(offset)?, len, deepest)
            }
            // One that is kept elsewhere by now.
            5 => {
                let actual = self.field(text, layout.thin_actual)?;
                self.letters(actual, from, len, deepest)
            }
            _ => None,
        }
    }

    /// The object that a field of another leads to.
    fn field(&mut self, of: u64, at: u64) -> Option<u64> {
        object(self.memory.word(of + at)?)
    }

    fn kind(&mut self, of: u64) -> Option<u16> {
        let map = object(self.memory.word(of)?)?;
        Some(u16::from_le_bytes(self.memory.bytes(map + self.layout.map_kind, 2)?.try_into().ok()?))
    }
}

/// The address of an object; `None` for what is no reference to one.
fn object(word: u64) -> Option<u64> {
    (word & 3 == 1 && (4096..1 << 56).contains(&word)).then(|| word - 1)
}

/// A small number that stands for itself.
fn number(word: u64) -> Option<u64> {
    (word & u64::from(u32::MAX) == 0).then_some(word >> 32).filter(|number| *number < 1 << 31)
}

/// Where a function begins: of the first numbers that follow each other, the last two are its beginning and end.
fn begins(slots: &[u64]) -> Option<u32> {
    let mut run: Vec<u64> = Vec::new();
    for slot in slots.iter().map(|slot| (slot & 1 == 0).then_some(slot >> 32)) {
        match slot {
            Some(number) => run.push(number),
            None if run.len() >= 2 => break,
            None => run.clear(),
        }
    }
    let [.., begin, end] = run[..] else { return None };
    (begin < end && end < 1 << 31).then(|| u32::try_from(begin).ok()).flatten()
}

/// Where the stack of a thread begins, if it waits in the kernel.
fn stack_pointer(pid: u32, tid: u32) -> Option<u64> {
    let text = snapshot::read(&format!("/proc/{pid}/task/{tid}/syscall"))?;
    blocked::place(&text).map(|(sp, _)| sp).filter(|sp| (4096..1 << 56).contains(sp))
}

/// Where the file that has V8 in it is loaded, by the text of /proc/PID/maps.
fn loaded(maps: &str) -> Option<u64> {
    let is_node = |file: &str| ["node", "nodejs"].contains(&file) || file.starts_with("libnode.so");
    maps.lines().find_map(|line| {
        let mapped = Mapped::read(line)?;
        (mapped.offset == 0 && is_node(mapped.file())).then_some(mapped.start)
    })
}

#[cfg(test)]
mod tests {
    use super::super::decode::Shape;
    use super::*;

    const LAYOUT: Layout = Layout {
        known: (0, 31),
        map_kind: 12,
        function_kind: 2066,
        function_shared: 24,
        shared_kind: 262,
        shared_name: 16,
        shared_script: 32,
        script_kind: 167,
        script_name: 16,
        script_source: 8,
        scope_kind: 261,
        scope_count: 24,
        scope_names: 32,
        text_length: 12,
        text_bytes: 16,
        text_wide: 16,
        cons_first: 16,
        cons_second: 24,
        slice_parent: 16,
        slice_offset: 24,
        thin_actual: 16,
        frame_function: 16,
        frame_kind: 8,
        exits: [6, 50],
    };

    /// Objects in this process's memory.
    #[derive(Default)]
    struct Heap(Vec<Box<[u64]>>);

    impl Heap {
        fn add(&mut self, words: Vec<u64>) -> u64 {
            self.0.push(words.into());
            self.0.last().unwrap().as_ptr() as u64 + 1
        }

        fn object(&mut self, kind: u16, fields: &[u64]) -> u64 {
            let map = self.add(vec![0, u64::from(kind) << 32]);
            self.add([&[map], fields].concat())
        }

        fn text(&mut self, text: &str) -> u64 {
            let mut bytes = text.as_bytes().to_vec();
            bytes.resize(bytes.len().next_multiple_of(8) + 8, 0);
            let words = bytes.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().unwrap()));
            let fields: Vec<u64> = std::iter::once((text.len() as u64) << 32).chain(words).collect();
            self.object(40, &fields)
        }

        /// A function `ask` that begins in the third line of a script.
        fn function(&mut self) -> u64 {
            let (name, source) = (self.text("/srv/shop.js"), self.text("one\ntwo\nfunction ask() {}\n"));
            let (first, second, own) = (self.text("as"), self.text("k"), self.text("count"));
            let ask = self.object(41, &[3 << 32, first, second]);
            let script = self.object(167, &[source, name]);
            // Flags, no parameters, one variable with its kind; the function's name and its place, none guessed.
            let scope = self.object(261, &[0, 0, 1 << 32, own, 7 << 32, ask, 2 << 32, 20 << 32, 25 << 32, 1, 0, 0, 0]);
            let shared = self.object(262, &[0, scope, 0, script]);
            self.object(2066, &[0, 0, shared])
        }
    }

    #[test]
    fn functions_on_a_stack_have_names_files_and_lines() {
        let mut heap = Heap::default();
        let (function, none) = (heap.function(), heap.text("no function"));
        let mut stack = vec![0_u64; 32];
        let at = |index: usize, stack: &[u64]| stack.as_ptr() as u64 + 8 * index as u64;
        let begin = at(0, &stack);
        // An exit frame at 6, a frame of something built in at 12, two of the function at 18 and 24.
        (stack[4], stack[5], stack[6]) = (begin + 8, 50, begin + 8 * 12);
        (stack[10], stack[12]) = (none, begin + 8 * 18);
        (stack[16], stack[18]) = (function, begin + 8 * 24);
        (stack[22], stack[24]) = (function, 7);
        let mut engine = Engine::new(std::process::id(), LAYOUT);
        let told = |frames: Option<Arc<[InterpretedFrame]>>| {
            let frames = frames?;
            Some(frames.iter().map(|one| format!("{} {}:{}", one.function, one.file, one.line)).collect::<Vec<_>>())
        };
        assert_eq!(told(engine.frames(begin)), Some(vec!["ask /srv/shop.js:3".to_owned(); 2]));
        // A running thread is in what its frame pointer leads to, though a sample tells of the top of the stack alone.
        let registers = [2, begin + 8 * 18, begin, 7];
        let mut record: Vec<u8> = [1, context::USER].iter().chain(&registers).flat_map(|it| it.to_ne_bytes()).collect();
        record.extend([0; 8]);
        const UNWIND: u64 = 1 << register::FP | 1 << register::SP | 1 << register::IP;
        let shape = Shape { chain: true, registers: UNWIND, stack: true, ..Shape::default() };
        let running = engine.running(1, 1, &Sample::read(&record, shape).unwrap());
        assert_eq!(told(running), Some(vec!["ask /srv/shop.js:3".to_owned(); 2]));
        // Where the stack was when C++ was called lies inward of the frame.
        stack[4] = begin + 8 * 9;
        engine.stacks.refresh();
        assert_eq!(told(engine.frames(begin)), None);
        drop(heap);
    }

    #[test]
    fn where_a_function_begins_is_told_by_the_numbers_behind_its_names() {
        let smi = |number: u64| number << 32;
        let text = 0x7f00_0001;
        assert_eq!(begins(&[text, smi(2), smi(20), smi(25), text]), Some(20), "a name and its place");
        assert_eq!(begins(&[text, smi(20), smi(25), text, smi(1)]), Some(20));
        assert_eq!(begins(&[smi(3), text, text, smi(20), smi(25)]), Some(20));
        assert_eq!(begins(&[smi(25), smi(20), text]), None);
        assert_eq!(begins(&[text, smi(1), text]), None);
    }

    #[test]
    fn what_is_no_engine_is_not_read() {
        assert_eq!(object(0x1000_0001), Some(0x1000_0000));
        assert_eq!((object(0x1000_0000), object(0x1000_0003), object(1)), (None, None, None));
        assert_eq!((number(5 << 32), number(5), number(u64::MAX << 32)), (Some(5), None, None));
        assert_eq!(loaded("400000-b6f000 r--p 00000000 fe:00 12 /usr/bin/node\n"), Some(0x40_0000));
        assert_eq!(loaded("400000-b6f000 r--p 00000000 fe:00 12 /srv/node_exporter\n"), None);
        assert!(Engine::find(std::process::id(), "8-9 r--p 00000000 fe:00 12 /usr/bin/node\n").is_none());
        assert_eq!(stack_pointer(std::process::id(), std::process::id()).filter(|sp| sp % 2 == 1), None);
    }
}
