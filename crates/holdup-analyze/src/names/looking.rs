//! Loops that do nothing but look whether something has happened, by their code.
//!
//! Around a call that sleeps: from where it returns, a path leads back to it that reads memory, decides by what it read,
//! changes nothing but the stack, and calls nothing else that does more. Such a loop polls, however long the sleeps are.
//!
//! Without a call that sleeps: a path leads from an instruction back to it that reads memory, decides by what it read,
//! changes none, and carries nothing from one round to the next. Such a loop spins, however long a round is.

use std::rc::Rc;

use iced_x86::{
    Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfo, InstructionInfoFactory, OpAccess, Register,
    UsedMemory,
};
use rustc_hash::FxHashMap;

use super::instruction::{imported_callee, tries_to_take};
use super::symbols::{Binary, Machine};

/// Longest instruction of x86.
const LONGEST: u64 = 15;
/// Instructions that are looked at, on all paths together.
const MOST_STEPS: usize = 512;
/// The longest loop that is taken for one that waits, in instructions.
const LONGEST_LOOP: usize = 96;
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
    writes(memory) && !is_on_stack(memory) && !instruction.has_lock_prefix()
}

fn writes(memory: &UsedMemory) -> bool {
    !matches!(memory.access(), OpAccess::Read | OpAccess::CondRead | OpAccess::None | OpAccess::NoMemAccess)
}

/// Whether no other thread works on it: the stack, and what is the thread's own.
fn is_own(memory: &UsedMemory) -> bool {
    is_on_stack(memory) || matches!(memory.segment(), Register::FS | Register::GS)
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
    // What a function of Go begins with looks how much stack there is.
    let looks_at_stack = registers().any(|(one, _)| one == Register::RSP);
    let is_read =
        |access| !matches!(access, OpAccess::Write | OpAccess::CondWrite | OpAccess::None | OpAccess::NoMemAccess);
    let reads = info.used_memory().iter().any(|memory| is_read(memory.access()) && !is_own(memory)) && !looks_at_stack
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

/// What is read in a loop through an instruction that does the same in every round until another thread changes that:
/// the loop writes no memory but by trying to take a lock, calls nothing that does, decides by what it read, and no
/// register is carried from one round to the next.
pub(super) fn waiting_loop(binary: &Binary<'_>, ip: u64) -> Option<Instruction> {
    let mut search =
        Search { binary, begin: ip, steps: FxHashMap::default(), path: Vec::new(), left: MOST_STEPS, found: None };
    search.go(ip, &mut Vec::new());
    search.found
}

/// A search for such a loop.
struct Search<'b, 'a> {
    binary: &'b Binary<'a>,
    begin: u64,
    steps: FxHashMap<u64, Option<Rc<Step>>>,
    /// Where it has come along, with how many calls it is in.
    path: Vec<(Rc<Step>, usize)>,
    left: usize,
    found: Option<Instruction>,
}

/// An instruction that changes no memory.
struct Step {
    instruction: Instruction,
    info: InstructionInfo,
    then: Then,
}

/// Where it leads.
enum Then {
    To([Option<u64>; 2]),
    Into(u64),
    Back,
}

impl Search<'_, '_> {
    fn go(&mut self, ip: u64, returns: &mut Vec<u64>) {
        if ip == self.begin && returns.is_empty() && !self.path.is_empty() {
            self.found = self.repeats();
            return;
        }
        let depth = returns.len();
        let is_known = self.path.iter().any(|(step, at)| step.instruction.ip() == ip && *at == depth);
        if is_known || self.path.len() >= LONGEST_LOOP || self.left == 0 {
            return;
        }
        self.left -= 1;
        let Some(step) = self.step(ip) else { return };
        self.path.push((step.clone(), depth));
        match step.then {
            Then::To(next) => {
                for next in next.into_iter().flatten() {
                    if self.found.is_none() {
                        self.go(next, returns);
                    }
                }
            }
            Then::Into(function) if depth < MOST_DEPTH => {
                returns.push(step.instruction.next_ip());
                self.go(function, returns);
                returns.truncate(depth);
            }
            Then::Into(_) => {}
            Then::Back => {
                if let Some(next) = returns.pop() {
                    self.go(next, returns);
                    returns.push(next);
                }
            }
        }
        self.path.pop();
    }

    fn step(&mut self, ip: u64) -> Option<Rc<Step>> {
        let binary = self.binary;
        self.steps.entry(ip).or_insert_with(|| Step::at(binary, ip).map(Rc::new)).clone()
    }

    /// What it reads first, if the path is such a loop.
    fn repeats(&self) -> Option<Instruction> {
        let mut walk = Walk { ip: self.begin, returns: Vec::new(), read: Vec::new(), flags: false, decided: false };
        for (step, _) in self.path.iter().chain(&self.path) {
            walk.decided |= walk.flags && step.instruction.flow_control() == FlowControl::ConditionalBranch;
            if step.instruction.flow_control() == FlowControl::Next {
                note(&step.instruction, &step.info, &mut walk);
            }
        }
        let is_read = |memory: &UsedMemory| !is_own(memory) && memory.access() != OpAccess::NoMemAccess;
        let reads = self.path.iter().filter(|(step, _)| step.info.used_memory().iter().any(is_read));
        let (first, _) = reads.min_by_key(|(step, depth)| (*depth, step.instruction.ip()))?;
        // A round may begin anywhere.
        let repeats = walk.decided && (0..self.path.len()).any(|begin| !self.carries(begin));
        repeats.then_some(first.instruction)
    }

    /// Whether a register is read before the round, so begun, writes it.
    fn carries(&self, begin: usize) -> bool {
        let (mut written, mut needed): (Vec<Register>, Vec<Register>) = (Vec::new(), Vec::new());
        let (behind, before) = self.path.split_at(begin);
        for (step, _) in before.iter().chain(behind) {
            let used = step.info.used_registers().iter();
            let all = || used.clone().map(|used| (used.register().full_register(), used.access()));
            let own = |one: &Register| *one != Register::RSP;
            let reads = |access| !matches!(access, OpAccess::Write | OpAccess::None);
            let writes = |access| !matches!(access, OpAccess::Read | OpAccess::CondRead | OpAccess::None);
            let missing = all().filter(|(one, access)| own(one) && reads(*access) && !written.contains(one));
            needed.extend(missing.map(|(one, _)| one));
            written.extend(all().filter(|(one, access)| own(one) && writes(*access)).map(|(one, _)| one));
        }
        needed.iter().any(|one| written.contains(one))
    }
}

impl Step {
    /// Nothing, where it changes memory or leads out of what can be followed.
    fn at(binary: &Binary<'_>, ip: u64) -> Option<Step> {
        let instruction = decoded(binary, ip)?;
        let info = InstructionInfoFactory::new().info(&instruction).clone();
        let next = instruction.next_ip();
        let target = instruction.near_branch_target();
        let then = match instruction.flow_control() {
            FlowControl::Next => {
                if !tries_to_take(&instruction) && info.used_memory().iter().any(writes) {
                    return None;
                }
                Then::To([Some(next), None])
            }
            FlowControl::ConditionalBranch => Then::To([Some(next), Some(target)]),
            FlowControl::UnconditionalBranch => Then::To([Some(target), None]),
            FlowControl::Call if instruction.is_call_near() => Then::Into(target),
            FlowControl::Return => Then::Back,
            _ => return None,
        };
        Some(Step { instruction, info, then })
    }
}
