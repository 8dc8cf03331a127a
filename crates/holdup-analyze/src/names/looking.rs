//! Whether a call is in a loop that does nothing but look: from where it returns, a path leads back to it that reads
//! memory, decides by what it read, changes nothing but the stack, and calls nothing else that does more.
//!
//! Around a call that sleeps, such a loop polls: the code itself says so, however long the sleeps are.

use iced_x86::{
    Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfo, InstructionInfoFactory, OpAccess, Register,
    UsedMemory,
};

use super::instruction::imported_callee;
use super::symbols::{Binary, Machine};

/// Longest instruction of x86.
const LONGEST: u64 = 15;
/// Instructions that are looked at, on all paths together.
const MOST_STEPS: usize = 512;
/// Calls within calls that are followed.
const MOST_DEPTH: usize = 2;
/// Looks are taken with a lock held, too.
const LOCKS: [&str; 8] = [
    "pthread_mutex_lock",
    "pthread_mutex_unlock",
    "sync.(*Mutex).Lock",
    "sync.(*Mutex).Unlock",
    "sync.(*RWMutex).RLock",
    "sync.(*RWMutex).RUnlock",
    "sync.(*Mutex).lockSlow",
    "sync.(*Mutex).unlockSlow",
];

/// Where a path has come to.
#[derive(Clone)]
struct Walk {
    ip: u64,
    /// Where calls that were followed return to.
    returns: Vec<u64>,
    /// Registers that hold what was read.
    read: Vec<Register>,
    /// Whether the flags tell of what was read.
    flags: bool,
    /// Whether a branch was taken, or not, by what was read.
    decided: bool,
}

/// Whether the call that returns to this address is in such a loop.
pub(super) fn only_looks(binary: &Binary<'_>, returns_to: u64) -> bool {
    if binary.machine() != Machine::X86_64 {
        return false;
    }
    let begin = Walk { ip: returns_to, returns: Vec::new(), read: Vec::new(), flags: false, decided: false };
    let (mut paths, mut seen) = (vec![begin], Vec::new());
    let mut factory = InstructionInfoFactory::new();
    for _ in 0..MOST_STEPS {
        let Some(walk) = paths.pop() else { return false };
        let step = (walk.ip, walk.returns.len(), walk.decided);
        if seen.contains(&step) {
            continue;
        }
        seen.push(step);
        let Some(instruction) = decoded(binary, walk.ip) else { continue };
        let is_it = instruction.next_ip() == returns_to && walk.returns.is_empty();
        if is_it && instruction.flow_control() != FlowControl::Next {
            if walk.decided {
                return true;
            }
            continue;
        }
        go_on(binary, &instruction, factory.info(&instruction), walk, &mut paths);
    }
    false
}

fn decoded(binary: &Binary<'_>, ip: u64) -> Option<Instruction> {
    let instruction = Decoder::with_ip(64, binary.bytes_at(ip, LONGEST)?, ip, DecoderOptions::NONE).decode();
    (!instruction.is_invalid()).then_some(instruction)
}

/// Where the path leads from an instruction; nowhere, if it does more than look.
fn go_on(
    binary: &Binary<'_>,
    instruction: &Instruction,
    info: &InstructionInfo,
    mut walk: Walk,
    paths: &mut Vec<Walk>,
) {
    let next = instruction.next_ip();
    match instruction.flow_control() {
        FlowControl::Next => {
            if info.used_memory().iter().any(|memory| changes(instruction, memory)) {
                return;
            }
            note(instruction, info, &mut walk);
            paths.push(Walk { ip: next, ..walk });
        }
        FlowControl::ConditionalBranch => {
            walk.decided |= walk.flags;
            paths.push(Walk { ip: next, ..walk.clone() });
            paths.push(Walk { ip: instruction.near_branch_target(), ..walk });
        }
        FlowControl::UnconditionalBranch => paths.push(Walk { ip: instruction.near_branch_target(), ..walk }),
        FlowControl::Call | FlowControl::IndirectCall => {
            let target = instruction.is_call_near().then(|| instruction.near_branch_target());
            let own = target.and_then(|target| binary.function(target)).map(|symbol| symbol.name);
            if imported_callee(binary, next).or(own).is_some_and(|name| LOCKS.contains(&name)) {
                paths.push(Walk { ip: next, ..walk });
            } else if let Some(target) = target.filter(|_| walk.returns.len() < MOST_DEPTH) {
                walk.returns.push(next);
                paths.push(Walk { ip: target, ..walk });
            }
        }
        FlowControl::Return => {
            if let Some(ip) = walk.returns.pop() {
                paths.push(Walk { ip, ..walk });
            }
        }
        _ => {}
    }
}

/// Whether it writes memory that others may see, but as locks are taken and counts are counted.
fn changes(instruction: &Instruction, memory: &UsedMemory) -> bool {
    let reads = matches!(memory.access(), OpAccess::Read | OpAccess::CondRead | OpAccess::None | OpAccess::NoMemAccess);
    !reads && !is_on_stack(memory) && !instruction.has_lock_prefix()
}

/// Whether it is of the function's own frame. Where functions have no frame pointer, its register may point anywhere;
/// variables of a frame lie below it.
fn is_on_stack(memory: &UsedMemory) -> bool {
    match memory.base().full_register() {
        Register::RSP => true,
        Register::RBP => memory.displacement().cast_signed() < 0,
        _ => false,
    }
}

/// What was read, and whether the flags tell of it.
fn note(instruction: &Instruction, info: &InstructionInfo, walk: &mut Walk) {
    let registers = || info.used_registers().iter().map(|used| (used.register().full_register(), used.access()));
    // What a function of Go begins with looks how much stack there is; the thread's own memory is no one else's.
    let own = |memory: &UsedMemory| is_on_stack(memory) || matches!(memory.segment(), Register::FS | Register::GS);
    let looks_at_stack = registers().any(|(one, _)| one == Register::RSP);
    let is_read = |access| matches!(access, OpAccess::Read | OpAccess::CondRead | OpAccess::ReadWrite);
    let reads = info.used_memory().iter().any(|memory| is_read(memory.access()) && !own(memory)) && !looks_at_stack
        || registers().any(|(one, access)| is_read(access) && walk.read.contains(&one))
        || instruction.rflags_read() != 0 && walk.flags;
    if instruction.rflags_modified() != 0 {
        walk.flags = reads;
    }
    for (register, access) in registers() {
        let writes = !matches!(access, OpAccess::Read | OpAccess::CondRead | OpAccess::None);
        if writes {
            walk.read.retain(|one| *one != register);
            walk.read.extend(reads.then_some(register));
        }
    }
}
