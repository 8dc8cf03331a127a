//! Loops that do nothing but look whether something has happened, by their code.
//!
//! Around a call that sleeps: from where it returns, a path leads back to it that reads memory, decides by what it
//! read, changes nothing but the stack, and calls nothing else that does more. Such a loop polls, however long the
//! sleeps are.
//!
//! What it reads may be the answer of a call that only tries or looks itself: for a lock, or for a file.
//!
//! A loop that hands something on in every round, whichever way it takes, sleeps at its own pace.
//!
//! Without a call that sleeps: a path leads from an instruction back to it that reads memory, decides by what it read,
//! changes none, and carries nothing from one round to the next. Such a loop spins, however long a round is.

use std::rc::Rc;

use iced_x86::{
    Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfo, InstructionInfoFactory, Mnemonic, OpAccess,
    OpKind, Register, UsedMemory,
};
use rustc_hash::{FxHashMap, FxHashSet};

use super::stubs::imported_callee;
use super::symbols::{Binary, Machine};

/// Longest instruction of x86.
const LONGEST: u64 = 15;
/// Steps that are made, on all paths together.
const MOST_STEPS: usize = 1024;
/// The longest loop that is found, in instructions.
const LONGEST_LOOP: usize = 128;
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

/// They take a lock, or make a file that only one can make, and say whether they did.
const TAKES: [&str; 15] = [
    "pthread_mutex_trylock",
    "pthread_spin_trylock",
    "pthread_rwlock_tryrdlock",
    "pthread_rwlock_trywrlock",
    "mtx_trylock",
    "sem_trywait",
    "flock",
    "lockf",
    "lockf64",
    "mkdir",
    "mkdirat",
    "link",
    "linkat",
    "symlink",
    "symlinkat",
];
/// These do so with flags of theirs, and else may only look.
const OPENS: [&str; 4] = ["open", "open64", "openat", "openat64"];
/// They say whether a file is there, or how it is, or whether a process has ended.
const LOOKS: [&str; 12] = [
    "access",
    "faccessat",
    "stat",
    "stat64",
    "lstat",
    "lstat64",
    "fstatat",
    "fstatat64",
    "waitpid",
    "wait4",
    "waitid",
    "kill",
];
/// It says why one of these failed.
const WHY: &str = "__errno_location";
/// `O_CREAT | O_EXCL`.
const MAKES_ALONE: u64 = 0o300;
/// They hand on to other threads and processes.
const SENDS: [&str; 11] =
    ["send", "sendto", "sendmsg", "sendmmsg", "write", "writev", "__write", "__send", "sendfile", "fwrite", "mq_send"];

/// What a loop around a call that sleeps does between two sleeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Between {
    /// It looks whether something has happened, and does nothing else.
    Looks,
    /// It tries to take a lock, and does nothing else.
    Tries,
    /// It hands something on, every time.
    HandsOn,
}

/// What the loop does that the call which returns to this address is in, if it is in one and the code tells.
pub(super) fn between_sleeps(binary: &Binary<'_>, returns_to: u64) -> Option<Between> {
    if binary.machine() != Machine::X86_64 {
        return None;
    }
    let Some(path) = Search::of(binary, returns_to, true) else {
        return hands_on(binary, returns_to).then_some(Between::HandsOn);
    };
    let asks = |names: &[&str]| path.iter().any(|(step, _)| step.asks.is_some_and(|name| names.contains(&name)));
    let alone = path.iter().any(|(step, _)| makes_alone(&step.instruction));
    Some(if asks(&TAKES) || asks(&OPENS) && alone { Between::Tries } else { Between::Looks })
}

/// Whether the flags with which a file is opened say that nobody else may have made it.
fn makes_alone(instruction: &Instruction) -> bool {
    let into = matches!(instruction.op0_register(), Register::ESI | Register::EDX);
    let flags = instruction.mnemonic() == Mnemonic::Mov && instruction.op1_kind() == OpKind::Immediate32;
    into && flags && instruction.immediate(1) & MAKES_ALONE == MAKES_ALONE
}

/// Whether all ways from where the call returns back to it lead through one that hands something on.
fn hands_on(binary: &Binary<'_>, returns_to: u64) -> bool {
    let (mut open, mut seen, mut sends) = (vec![returns_to], FxHashSet::default(), false);
    while let Some(ip) = open.pop() {
        if !seen.insert(ip) {
            continue;
        }
        let Some(instruction) = instruction_at(binary, ip).filter(|_| seen.len() <= MOST_STEPS) else { return false };
        let (next, target) = (instruction.next_ip(), instruction.near_branch_target());
        match instruction.flow_control() {
            FlowControl::Next => open.push(next),
            FlowControl::ConditionalBranch => open.extend([next, target]),
            FlowControl::UnconditionalBranch => open.push(target),
            // Around it once, and nothing sent.
            FlowControl::Call | FlowControl::IndirectCall if next == returns_to => return false,
            FlowControl::Call | FlowControl::IndirectCall => {
                match called(binary, &instruction).is_some_and(|name| SENDS.contains(&name)) {
                    true => sends = true,
                    false => open.push(next),
                }
            }
            FlowControl::Return => {}
            _ => return false,
        }
    }
    sends
}

fn instruction_at(binary: &Binary<'_>, ip: u64) -> Option<Instruction> {
    let bytes = binary.bytes_at(ip, LONGEST)?;
    let instruction = Decoder::with_ip(64, bytes, ip, DecoderOptions::NONE).decode();
    (!instruction.is_invalid()).then_some(instruction)
}

/// The function that is called, by its name.
fn called<'a>(binary: &Binary<'a>, call: &Instruction) -> Option<&'a str> {
    let target = call.is_call_near().then(|| call.near_branch_target());
    let own = target.and_then(|target| binary.function(target)).map(|symbol| symbol.name);
    imported_callee(binary, call.next_ip()).or(own)
}

/// What is read in a loop through an instruction that does the same in every round until another thread changes that:
/// the loop writes no memory but by trying to take a lock.
pub(super) fn waiting_loop(binary: &Binary<'_>, ip: u64) -> Option<Instruction> {
    let path = Search::of(binary, ip, false)?;
    let is_read = |memory: &UsedMemory| !is_own(memory) && memory.access() != OpAccess::NoMemAccess;
    let reads = path.iter().filter(|(step, _)| step.info.used_memory().iter().any(is_read));
    reads.min_by_key(|(step, depth)| (*depth, step.instruction.ip())).map(|(step, _)| step.instruction)
}

/// Steps, each with how many calls it is in.
type Path = Vec<(Rc<Step>, usize)>;

/// A search for a loop: from an instruction on, along all paths that do not do more than look.
struct Search<'b, 'a> {
    binary: &'b Binary<'a>,
    begin: u64,
    /// Whether the loop is one around the call that returns to its beginning.
    around_call: bool,
    steps: FxHashMap<u64, Option<Rc<Step>>>,
    path: Path,
    left: usize,
}

impl<'b, 'a> Search<'b, 'a> {
    fn of(binary: &'b Binary<'a>, begin: u64, around_call: bool) -> Option<Path> {
        if binary.machine() != Machine::X86_64 {
            return None;
        }
        let (steps, path) = (FxHashMap::default(), Vec::new());
        let mut search = Search { binary, begin, around_call, steps, path, left: MOST_STEPS };
        search.go(begin, &mut Vec::new()).then_some(search.path)
    }

    /// Whether a loop is found on the way from here; then the path is that loop.
    fn go(&mut self, ip: u64, returns: &mut Vec<u64>) -> bool {
        let depth = returns.len();
        if ip == self.begin && depth == 0 && !self.path.is_empty() {
            return !self.around_call && decides(&self.path) && repeats(&self.path);
        }
        let is_known = self.path.iter().any(|(step, at)| step.instruction.ip() == ip && *at == depth);
        if is_known || self.path.len() >= LONGEST_LOOP || self.left == 0 {
            return false;
        }
        self.left -= 1;
        let Some(step) = self.step(ip) else { return false };
        // Why the sleep itself has ended is nothing to look for.
        if step.why && !self.path.iter().any(|(step, _)| step.asks.is_some()) {
            return false;
        }
        let next = step.instruction.next_ip();
        if self.around_call && depth == 0 && next == self.begin && matches!(step.then, Then::Into(_)) {
            return decides(&self.path);
        }
        self.path.push((step.clone(), depth));
        let found = match step.then {
            Then::To(targets) => targets.into_iter().flatten().any(|target| self.go(target, returns)),
            Then::Into(Some(function)) if depth < MOST_DEPTH => {
                returns.push(next);
                let found = self.go(function, returns);
                returns.truncate(depth);
                found
            }
            Then::Into(_) => false,
            Then::Back => returns.pop().is_some_and(|caller| {
                let found = self.go(caller, returns);
                returns.push(caller);
                found
            }),
        };
        if !found {
            self.path.pop();
        }
        found
    }

    fn step(&mut self, ip: u64) -> Option<Rc<Step>> {
        let (binary, around_call) = (self.binary, self.around_call);
        self.steps.entry(ip).or_insert_with(|| Step::at(binary, ip, around_call).map(Rc::new)).clone()
    }
}

/// An instruction that may be part of such a loop.
struct Step {
    instruction: Instruction,
    info: InstructionInfo,
    then: Then,
    /// What it calls that only looks, and answers.
    asks: Option<&'static str>,
    /// Whether it asks why what was called before has failed.
    why: bool,
}

/// Where it leads.
enum Then {
    To([Option<u64>; 2]),
    /// Into a function, if it is known which.
    Into(Option<u64>),
    Back,
}

impl Step {
    /// Nothing, where it changes what others may see or leads out of what can be followed.
    fn at(binary: &Binary<'_>, ip: u64, around_call: bool) -> Option<Step> {
        let instruction = instruction_at(binary, ip)?;
        let info = InstructionInfoFactory::new().info(&instruction).clone();
        let (next, target) = (instruction.next_ip(), instruction.near_branch_target());
        // What is put on the stack is carried from round to round.
        let may_write = |memory: &UsedMemory| match around_call {
            true => is_on_stack(memory) || instruction.has_lock_prefix(),
            false => tries_to_take(&instruction),
        };
        let (mut asks, mut why) = (None, false);
        let then = match instruction.flow_control() {
            FlowControl::Next
                if info.used_memory().iter().any(|memory| writes(memory.access()) && !may_write(memory)) =>
            {
                return None;
            }
            FlowControl::Next => Then::To([Some(next), None]),
            FlowControl::ConditionalBranch => Then::To([Some(next), Some(target)]),
            FlowControl::UnconditionalBranch => Then::To([Some(target), None]),
            FlowControl::Call | FlowControl::IndirectCall => {
                let name = called(binary, &instruction);
                asks = name.filter(|_| around_call).and_then(|name| asking().find(|one| *one == name));
                why = around_call && name == Some(WHY);
                let only_looks = asks.is_some() || why || name.is_some_and(|name| LOCKS.contains(&name));
                if only_looks {
                    Then::To([Some(next), None])
                } else {
                    Then::Into(instruction.is_call_near().then_some(target))
                }
            }
            FlowControl::Return => Then::Back,
            _ => return None,
        };
        Some(Step { instruction, info, then, asks, why })
    }
}

fn asking() -> impl Iterator<Item = &'static str> {
    TAKES.into_iter().chain(OPENS).chain(LOOKS)
}

fn reads(access: OpAccess) -> bool {
    !matches!(access, OpAccess::Write | OpAccess::CondWrite | OpAccess::None | OpAccess::NoMemAccess)
}

pub(super) fn writes(access: OpAccess) -> bool {
    !matches!(access, OpAccess::Read | OpAccess::CondRead | OpAccess::None | OpAccess::NoMemAccess)
}

/// The registers that an instruction works on, in full.
pub(super) fn registers(info: &InstructionInfo) -> impl Iterator<Item = (Register, OpAccess)> {
    info.used_registers().iter().map(|used| (used.register().full_register(), used.access()))
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

/// Whether no other thread works on it: the stack, and what is the thread's own.
fn is_own(memory: &UsedMemory) -> bool {
    is_on_stack(memory) || matches!(memory.segment(), Register::FS | Register::GS)
}

/// Whether a branch of the round is taken, or not, by what was read in it, or in the round before.
fn decides(path: &[(Rc<Step>, usize)]) -> bool {
    let (mut read, mut flags): (Vec<Register>, bool) = (Vec::new(), false);
    path.iter().chain(path).any(|(step, _)| {
        let Step { instruction, info, asks, .. } = &**step;
        if asks.is_some() {
            read.push(Register::RAX);
        }
        if instruction.flow_control() != FlowControl::Next {
            return flags && instruction.flow_control() == FlowControl::ConditionalBranch;
        }
        // What a function of Go begins with looks how much stack there is.
        let looks_at_stack = registers(info).any(|(one, _)| one == Register::RSP);
        let reads_memory = info.used_memory().iter().any(|memory| reads(memory.access()) && !is_own(memory));
        let tells = reads_memory && !looks_at_stack
            || registers(info).any(|(one, access)| reads(access) && read.contains(&one))
            || instruction.rflags_read() != 0 && flags;
        if instruction.rflags_modified() != 0 {
            flags = tells;
        }
        for (register, _) in registers(info).filter(|(_, access)| writes(*access)) {
            read.retain(|one| *one != register);
            read.extend(tells.then_some(register));
        }
        false
    })
}

/// Whether every round does the same, wherever it begins: no register is carried from one to the next.
fn repeats(path: &[(Rc<Step>, usize)]) -> bool {
    (0..path.len()).any(|begin| !carries(path, begin))
}

/// Whether a register is read before the round that begins there writes it.
fn carries(path: &[(Rc<Step>, usize)], begin: usize) -> bool {
    let (mut written, mut needed): (Vec<Register>, Vec<Register>) = (Vec::new(), Vec::new());
    for (step, _) in path[begin..].iter().chain(&path[..begin]) {
        let all = || registers(&step.info).filter(|(one, _)| *one != Register::RSP);
        // What is written under a condition may be what it was.
        let needs = |access| reads(access) || access == OpAccess::CondWrite;
        needed.extend(all().filter(|(one, access)| needs(*access) && !written.contains(one)).map(|(one, _)| one));
        written.extend(all().filter(|(_, access)| writes(*access)).map(|(one, _)| one));
    }
    needed.iter().any(|one| written.contains(one))
}

/// Whether it writes what it writes to find out what was there: a loop around it goes on until another thread has
/// released a lock.
fn tries_to_take(instruction: &Instruction) -> bool {
    let tries = matches!(instruction.mnemonic(), Mnemonic::Xchg | Mnemonic::Cmpxchg | Mnemonic::Bts | Mnemonic::Btr);
    tries && is_atomic(instruction)
}

/// Whether it locks memory that other threads can see. An instruction on the top of the stack is a memory fence in
/// disguise.
pub(super) fn is_atomic(instruction: &Instruction) -> bool {
    let memory = (0..instruction.op_count()).any(|operand| instruction.op_kind(operand) == OpKind::Memory);
    let locks = instruction.has_lock_prefix() || instruction.mnemonic() == Mnemonic::Xchg;
    memory && locks && instruction.memory_base() != Register::RSP
}
