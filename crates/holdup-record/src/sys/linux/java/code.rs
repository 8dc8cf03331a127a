//! The code that Java's machine made: what each stretch of it is, and what was inlined there.

use holdup_trace::{Event, InterpretedFrame, Mapping, NO_CPU, Pid, Tid, What};

use super::blob::{Blob, Heap, Tables};
use super::lines::Packed;
use super::structs::text;
use super::{Machine, frame};
use crate::sys::linux::machine;
use crate::sys::linux::memory::{u32_at, u64_at};

/// The mark of segments that are free.
const FREE: u8 = 0xff;
/// Heaps, steps to the beginning of one stretch, bytes of tables, and inlined calls: longer was damaged.
const MOST_HEAPS: u64 = 16;
const LARGEST_HEAP: u64 = 4 << 30;
const MOST_STEPS: usize = 1 << 14;
const MOST_TABLE: u64 = 1 << 20;
const MOST_INLINED: usize = 64;
/// Bytes at the beginning of a stretch that all fields lie in.
const STRUCTURE: usize = 512;
/// The part of a CPU that telling of code may take, the shortest pause between two times, and how much is told at
/// most.
const ONE_IN: u64 = 100;
const LEAST_PAUSE_NS: u64 = 200_000_000;
const MOST_TOLD: usize = 200_000;

impl Machine {
    pub(super) fn heaps(&mut self) -> Option<Vec<Heap>> {
        let structs = self.structs;
        let array = self.memory.pointer(structs.heaps)?;
        let count = u64::from(self.memory.number(array + structs.array_length)?);
        let data = self.memory.pointer(array + structs.array_data)?;
        let mut heaps = Vec::new();
        for index in 0..count.min(MOST_HEAPS) {
            let heap = self.memory.pointer(data + 8 * index)?;
            let from = self.memory.pointer(heap + structs.heap_memory + structs.space_low)?;
            let to = self.memory.pointer(heap + structs.heap_memory + structs.space_high)?;
            heaps.push(Heap {
                from,
                to: to.clamp(from, from + LARGEST_HEAP),
                segments: self.memory.pointer(heap + structs.heap_segments + structs.space_low)?,
                shift: self.memory.number(heap + structs.heap_shift)?.min(20),
            });
        }
        Some(heaps)
    }

    /// What the code at an address is.
    pub(super) fn blob(&mut self, pc: u64) -> Option<Blob> {
        let heap = *self.heaps.iter().find(|heap| (heap.from..heap.to).contains(&pc))?;
        let mut segment = (pc - heap.from) >> heap.shift;
        for _ in 0..MOST_STEPS {
            match self.memory.bytes(heap.segments + segment, 1)?[0] {
                FREE => return None,
                0 => return self.blob_at(heap.from + (segment << heap.shift)),
                // The byte tells how far back to go, as far as there is room for in it.
                back => segment = segment.checked_sub(back.into())?,
            }
        }
        None
    }

    /// What begins with this block of a heap.
    fn blob_at(&mut self, block: u64) -> Option<Blob> {
        let begins = block + self.structs.block_bytes;
        if let Some(known) = self.blobs.get(&begins) {
            return *known;
        }
        let read = self.read_blob(begins);
        self.blobs.insert(begins, read);
        read
    }

    fn read_blob(&mut self, begins: u64) -> Option<Blob> {
        let structs = self.structs;
        let fields = self.memory.bytes(begins, STRUCTURE)?;
        let word = |at: u64| u64_at(&fields, at as usize).and_then(super::pointer);
        let number = |at: u64| u32_at(&fields, at as usize).map(u64::from);
        let name = text(word(structs.blob_name)?, &mut self.memory)?;
        let code = word(structs.blob_code)?;
        // A count of words, or -1.
        let frame_bytes = number(structs.blob_frame).filter(|words| *words < 1 << 20)? * 8;
        Some(match &*name {
            "Interpreter" => Blob::Interpreter,
            "nmethod" | "native nmethod" => {
                let tables = Tables {
                    method: word(structs.compiled_method)?,
                    end: word(structs.blob_code_end)?,
                    metadata: begins + number(structs.metadata)?,
                    pcs: begins + number(structs.pcs)?,
                    pcs_end: begins + number(structs.pcs_end)?,
                    scopes: word(structs.compiled_scopes)?,
                };
                Blob::Compiled { code, frame_bytes, tables }
            }
            _ => Blob::Stub { code, frame_bytes },
        })
    }

    /// Adds the methods that are executed so many bytes behind the beginning of compiled code, innermost first.
    pub(super) fn add_inlined(&mut self, tables: &Tables, at: u64, frames: &mut Vec<InterpretedFrame>) {
        let before = frames.len();
        if self.inlined(tables, at, frames).is_none() {
            // Without the tables, it is the method that was compiled.
            frames.truncate(before);
        }
        if frames.len() == before
            && let Some(method) = self.method(tables.method)
        {
            frames.push(frame(&method, None));
        }
    }

    fn inlined(&mut self, tables: &Tables, at: u64, frames: &mut Vec<InterpretedFrame>) -> Option<()> {
        const ENTRY: usize = 16;
        let len = tables.pcs_end.checked_sub(tables.pcs).filter(|len| *len <= MOST_TABLE)?;
        let pcs = self.memory.bytes(tables.pcs, len as usize)?;
        let number = |entry: &[u8], index: usize| u32_at(entry, 4 * index);
        let entry = pcs.chunks_exact(ENTRY).find(|entry| number(entry, 0).map(u64::from) == Some(at))?;
        let mut scope = u64::from(number(entry, 1)?);
        for _ in 0..MOST_INLINED {
            /// Three numbers of five bytes at most.
            const SCOPE: usize = 15;
            let begins = tables.scopes.checked_add(scope)?;
            let bytes = self.memory.bytes(begins, SCOPE)?;
            let mut packed = Packed { bytes: &bytes, least: self.structs.packed_least };
            let (outer, method, bytecode) = (packed.number()?, packed.number()?, packed.number()?);
            let method = self.memory.pointer(tables.metadata + 8 * u64::from(method.checked_sub(1)?))?;
            let method = self.method(method)?;
            // The number before the first bytecode's is the method's entry.
            frames.push(frame(&method, Some(bytecode.saturating_sub(1))));
            if outer == 0 {
                return Some(());
            }
            scope = u64::from(outer);
        }
        None
    }

    /// Tells of the methods that were compiled since the last time: a mapping each, whose path is the name.
    pub fn tell_code(&mut self, now_ns: u64, see: &mut impl FnMut(Event)) {
        if now_ns.saturating_sub(self.told_ns) < self.pause_ns {
            return;
        }
        let used_ns = machine::thread_cpu_ns();
        self.memory.refresh();
        for heap in self.heaps.clone() {
            let _ = self.tell_heap(heap, now_ns, see);
        }
        self.told_ns = now_ns;
        self.pause_ns = (machine::thread_cpu_ns().saturating_sub(used_ns) * ONE_IN).max(LEAST_PAUSE_NS);
    }

    /// How many bytes behind the beginning of code its first `pause` ends; 0 if it has none. It stands in loops that
    /// wait, which samples behind it tell.
    fn behind_pause(&mut self, code: u64, len: u64) -> u64 {
        const PAUSE: [u8; 2] = [0xf3, 0x90];
        const MOST: u64 = 1 << 14;
        let bytes = self.memory.bytes(code, len.min(MOST) as usize).unwrap_or_default();
        let at = bytes.windows(PAUSE.len()).position(|window| window == PAUSE);
        at.map_or(0, |at| (at + PAUSE.len()) as u64)
    }

    fn tell_heap(&mut self, heap: Heap, time_ns: u64, see: &mut impl FnMut(Event)) -> Option<()> {
        /// Segments whose bytes are read at once.
        const AT_ONCE: u64 = 4096;
        let segments = (heap.to - heap.from) >> heap.shift;
        for from in (0..segments).step_by(AT_ONCE as usize) {
            let marks = self.memory.bytes(heap.segments + from, AT_ONCE.min(segments - from) as usize)?;
            for segment in (from..).zip(&marks).filter(|(_, mark)| **mark == 0).map(|(segment, _)| segment) {
                let block = heap.from + (segment << heap.shift);
                let begins = block + self.structs.block_bytes;
                let method = self.memory.word(begins + self.structs.compiled_method).unwrap_or(0);
                if self.told.len() >= MOST_TOLD || self.told.get(&begins) == Some(&method) {
                    continue;
                }
                self.blobs.remove(&begins);
                let Some(Blob::Compiled { code, tables, .. }) = self.blob_at(block) else { continue };
                let Some(known) = self.method(tables.method) else { continue };
                self.told.insert(begins, method);
                let path = format!("{}{}", holdup_trace::CODE_OF_JAVA, known.name).into();
                let len = tables.end.saturating_sub(code);
                let offset = self.behind_pause(code, len);
                let mapping = Mapping { pid: Pid(self.pid), start: code, len, offset, path, build_id: None };
                let what = What::Mapped(Box::new(mapping));
                see(Event { time_ns, tid: Tid(self.pid), cpu: NO_CPU, what });
            }
        }
        Some(())
    }
}
