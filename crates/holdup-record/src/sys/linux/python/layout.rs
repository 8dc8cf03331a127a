//! Where CPython keeps its threads, frames and code: from 3.13 on it says so itself (`_Py_DebugOffsets`, the first
//! bytes of `_PyRuntime`), of earlier versions it is known. Offsets are bytes on a 64-bit machine.

use super::super::memory::{Memory, u64_at};
use super::lines::Form;

/// Offsets in the interpreter's structures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// In `_PyRuntime`: the first interpreter.
    pub interpreters: u64,
    /// In an interpreter: the next one, and its first thread.
    pub next_interpreter: u64,
    pub threads: u64,
    pub gil: Gil,
    /// In a thread: the next one, the number that pthread_self gives, and the system's number, where it is kept.
    pub next_thread: u64,
    pub thread_id: u64,
    pub native_id: Option<u64>,
    /// In a thread: its innermost frame; with a second offset, what the first leads to has it.
    pub frame: u64,
    pub frame_behind: Option<u64>,
    /// In a frame: its caller, its code, the instruction, its first variable, whether it is only a mark of the C stack.
    pub previous: u64,
    pub code: u64,
    pub instruction: Instruction,
    pub variables: u64,
    pub owner: Option<u64>,
    /// In a code object.
    pub file: u64,
    pub name: u64,
    pub lines: u64,
    pub first_line: u64,
    pub form: Form,
    /// In a string: where the characters begin, of ASCII and of others.
    pub ascii: u64,
    pub characters: u64,
}

/// Where the interpreter's lock is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gil {
    /// In `_PyRuntime`: who had it last, and whether somebody has it.
    Runtime { holder: u64, locked: u64 },
    /// In an interpreter: what leads to the structure with these two.
    Interpreter { lock: u64, holder: u64, locked: u64 },
}

/// How a frame says where it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Instruction {
    /// A number of instructions, each of so many bytes.
    Index { at: u64, bytes: u64 },
    /// An address, in code that begins at this offset of the code object.
    Address { at: u64, begins: u64 },
}

const V3_8: Layout = Layout {
    interpreters: 32,
    next_interpreter: 0,
    threads: 8,
    gil: Gil::Runtime { holder: 1160, locked: 1168 },
    next_thread: 8,
    thread_id: 176,
    native_id: None,
    frame: 24,
    frame_behind: None,
    previous: 24,
    code: 32,
    instruction: Instruction::Index { at: 104, bytes: 1 },
    variables: 360,
    owner: None,
    file: 104,
    name: 112,
    lines: 120,
    first_line: 40,
    form: Form::Steps,
    ascii: 48,
    characters: 72,
};

const V3_9: Layout = Layout { gil: Gil::Runtime { holder: 360, locked: 368 }, ..V3_8 };

const V3_10: Layout =
    Layout { instruction: Instruction::Index { at: 96, bytes: 2 }, variables: 352, form: Form::Ranges, ..V3_9 };

const V3_11: Layout = Layout {
    interpreters: 40,
    threads: 16,
    gil: Gil::Runtime { holder: 368, locked: 376 },
    thread_id: 152,
    native_id: Some(160),
    frame: 56,
    frame_behind: Some(8),
    previous: 48,
    code: 32,
    instruction: Instruction::Address { at: 56, begins: 184 },
    variables: 72,
    owner: Some(69),
    file: 112,
    name: 128,
    lines: 136,
    first_line: 72,
    form: Form::Locations,
    ..V3_10
};

const V3_12: Layout = Layout {
    threads: 72,
    gil: Gil::Interpreter { lock: 384, holder: 8, locked: 16 },
    thread_id: 136,
    native_id: Some(144),
    frame_behind: Some(0),
    previous: 8,
    code: 0,
    instruction: Instruction::Address { at: 56, begins: 192 },
    owner: Some(70),
    first_line: 68,
    ascii: 40,
    characters: 56,
    ..V3_11
};

impl Layout {
    /// Of an interpreter of this version (`0x030d00f0`) whose `_PyRuntime` is here; `None` for versions that are not
    /// known.
    pub fn of(version: u64, runtime: u64, memory: &mut Memory) -> Option<Layout> {
        match version >> 16 {
            0x0308 => Some(V3_8),
            0x0309 => Some(V3_9),
            0x030a => Some(V3_10),
            0x030b => Some(V3_11),
            0x030c => Some(V3_12),
            0x030d => told(&memory.bytes(runtime, DEBUG_OFFSETS)?),
            _ => None,
        }
    }
}

/// Bytes of `_Py_DebugOffsets` of 3.13, of those that are used.
const DEBUG_OFFSETS: usize = 568;

/// What 3.13 says of itself. A build without the interpreter's lock has other locks, and threads that it does not
/// explain.
fn told(bytes: &[u8]) -> Option<Layout> {
    let number = |at: usize| u64_at(bytes, at).filter(|offset| *offset < 1 << 20);
    let is_known = bytes.starts_with(b"xdebugpy") && number(16)? == 0;
    let lock = number(112)?;
    let (locked, holder) = (number(136)?, number(144)?);
    // The lock's structure is told as it lies in the interpreter that owns it: what leads there is `ceval_gil`.
    let own = number(120)?;
    is_known.then_some(Layout {
        interpreters: number(40)?,
        next_interpreter: number(64)?,
        threads: number(72)?,
        gil: Gil::Interpreter { lock, holder: holder.checked_sub(own)?, locked: locked.checked_sub(own)? },
        next_thread: number(168)?,
        thread_id: number(192)?,
        native_id: Some(number(200)?),
        frame: number(184)?,
        frame_behind: None,
        previous: number(232)?,
        code: number(240)?,
        instruction: Instruction::Address { at: number(248)?, begins: number(344)? },
        variables: number(256)?,
        owner: Some(number(264)?),
        file: number(280)?,
        name: number(296)?,
        lines: number(304)?,
        first_line: number(312)?,
        form: Form::Locations,
        ascii: number(560)?,
        characters: number(560)? + 16,
    })
}
