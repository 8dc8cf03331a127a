//! Which memory an instruction works on, by what registers hold.
//!
//! A timer's sample names the instruction that would have run next. What it waits for is mostly in the one before, at
//! times in itself: both are looked at. Registers are as they were between the two, so one that the instruction before
//! writes to says nothing of its operand.

use holdup_trace::Pointers;
use iced_x86::{FlowControl, Instruction, InstructionInfoFactory, OpAccess, Register, UsedMemory};

use super::instruction::{Found, following, preceding};
use super::looking::{is_atomic, writes};
use super::symbols::{Binary, Machine};
use crate::facts::HotspotClass;

/// An operand in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Operand {
    /// Address of the instruction in the binary.
    pub at: u64,
    /// The number of the register that the address is counted from; `None` for an address of the binary.
    base: Option<u8>,
    /// The number of a register that is added so many times.
    index: Option<(u8, u64)>,
    displacement: u64,
    /// Whether it is written to.
    pub writes: bool,
    /// Whether the instruction is an atomic one.
    pub is_atomic: bool,
}

impl Operand {
    /// Where it is, and whether that is exact: `bias` is how far the binary has moved. A register that holds no address
    /// is not known: it may be a number that is added to one, and then where it is added to is told. `None` if no
    /// register says where.
    pub fn address(&self, pointers: &Pointers, bias: u64) -> Option<(u64, bool)> {
        let index = self.index.map(|(number, scale)| (pointers.register(number), scale));
        let (from, is_exact) = match (self.base.map(|number| pointers.register(number)), index) {
            (None, None) => (bias, true),
            (Some(base), None) => (base?, true),
            (None, Some((index, scale))) => (bias.wrapping_add(index?.wrapping_mul(scale)), true),
            (Some(Some(base)), Some((Some(index), scale))) => (base.wrapping_add(index.wrapping_mul(scale)), true),
            (Some(Some(base)), Some((None, _))) => (base, false),
            (Some(None), Some((Some(index), 1))) => (index, false),
            (Some(None), Some(_)) => return None,
        };
        Some((from.wrapping_add(self.displacement), is_exact))
    }
}

/// The operands in memory that all threads have of the instructions around a sample where this was found; none if that
/// is a wait, which findings of their own are about. Of an atomic instruction, they are that one's.
pub(super) fn operands(binary: &Binary<'_>, ip: u64, found: Option<&Found>) -> Vec<Operand> {
    let is_wait = found.is_some_and(|found| found.class != HotspotClass::Atomic);
    if binary.machine() != Machine::X86_64 || is_wait {
        return Vec::new();
    }
    let mut all = around(preceding(binary, ip).last(), following(binary, ip).first());
    all.retain(|one| found.is_none_or(|found| one.at == found.address));
    all
}

fn around(before: Option<&Instruction>, next: Option<&Instruction>) -> Vec<Operand> {
    let mut factory = InstructionInfoFactory::new();
    let mut found = Vec::new();
    if let Some(before) = before.filter(|before| before.flow_control() == FlowControl::Next) {
        let info = factory.info(before);
        let overwritten: Vec<Register> =
            info.used_registers().iter().filter(|used| writes(used.access())).map(|used| used.register()).collect();
        let is_kept = |register: Register| {
            register == Register::None || !overwritten.iter().any(|one| one.full_register() == register.full_register())
        };
        let kept = info.used_memory().iter().filter(|memory| is_kept(memory.base()) && is_kept(memory.index()));
        found.extend(kept.filter_map(|memory| operand(before, memory)));
    }
    if let Some(next) = next {
        found.extend(factory.info(next).used_memory().iter().filter_map(|memory| operand(next, memory)));
    }
    found
}

fn operand(instruction: &Instruction, memory: &UsedMemory) -> Option<Operand> {
    let own = matches!(memory.segment(), Register::FS | Register::GS);
    let touches = !matches!(memory.access(), OpAccess::None | OpAccess::NoMemAccess);
    if own || !touches {
        return None;
    }
    let general = |register: Register| register.is_gpr64().then(|| register.number() as u8);
    let base = match memory.base() {
        Register::None | Register::RIP => None,
        Register::RSP => return None,
        base => Some(general(base)?),
    };
    let index = match memory.index() {
        Register::None => None,
        index => Some((general(index)?, u64::from(memory.scale()))),
    };
    let displacement = if memory.base() == Register::RIP || instruction.is_ip_rel_memory_operand() {
        instruction.ip_rel_memory_address()
    } else {
        memory.displacement()
    };
    // What is indexed from an address of the binary is counted from where that is.
    let (at, writes, is_atomic) = (instruction.ip(), writes(memory.access()), is_atomic(instruction));
    Some(Operand { at, base, index, displacement, writes, is_atomic })
}

#[cfg(test)]
mod tests {
    use iced_x86::{Decoder, DecoderOptions};

    use super::*;

    const AT: u64 = 0x1000;
    const HEAP: u64 = 0x5555_0010_0040;

    /// What two instructions, given as their bytes, do to memory after the first: where, whether that is exact, whether
    /// they write. Of the registers, only rdi, r8 and rbp hold addresses.
    fn done(before: &[u8], next: &[u8]) -> Vec<(u64, bool, bool)> {
        let decode = |bytes, at| Decoder::with_ip(64, bytes, at, DecoderOptions::NONE).decode();
        let (one, two) = (decode(before, AT), decode(next, AT + before.len() as u64));
        let pointers = Pointers { ip: two.ip(), registers: vec![(5, HEAP + 0x200), (7, HEAP), (8, HEAP + 0x100)] };
        let told = |operand: Operand| {
            let (addr, is_exact) = operand.address(&pointers, 0x10_0000)?;
            Some((addr, is_exact, operand.writes))
        };
        around(Some(&one), Some(&two)).into_iter().filter_map(told).collect()
    }

    const NOP: &[u8] = &[0x90];

    #[test]
    fn operands_are_where_registers_say() {
        // addl $1, 8(%rdi); mov (%r8), %rax
        assert_eq!(
            done(&[0x83, 0x47, 0x08, 0x01], &[0x49, 0x8b, 0x00]),
            [(HEAP + 8, true, true), (HEAP + 0x100, true, false)]
        );
        // mov 0x2000(%rip), %eax
        assert_eq!(done(&[0x8b, 0x05, 0x00, 0x20, 0, 0], NOP), [(0x10_0000 + AT + 6 + 0x2000, true, false)]);
        // mov %rax, (%rbp): no frame pointer, or it would not be known.
        assert_eq!(done(NOP, &[0x48, 0x89, 0x45, 0x00]), [(HEAP + 0x200, true, true)]);
    }

    #[test]
    fn what_a_register_that_is_not_known_is_added_to_is_told_as_such() {
        // mov %ecx, (%r8,%rdx,4)
        assert_eq!(done(NOP, &[0x41, 0x89, 0x0c, 0x90]), [(HEAP + 0x100, false, true)]);
        // mov %ecx, (%rdx,%rdi,1); mov %ecx, (%rdx,%rdi,8)
        assert_eq!(done(NOP, &[0x89, 0x0c, 0x3a]), [(HEAP, false, true)]);
        assert_eq!(done(NOP, &[0x89, 0x0c, 0xfa]), []);
        // mov %rax, (%rdx)
        assert_eq!(done(NOP, &[0x48, 0x89, 0x02]), []);
    }

    #[test]
    fn what_is_nobody_elses_or_was_overwritten_is_left_out() {
        // mov (%rdi), %rdi: the address is gone. pop %rdi; mov 8(%rsp), %rax; mov %fs:(%rdi), %rax; lea 8(%rdi), %rax
        for before in [&[0x48, 0x8b, 0x3f][..], &[0x5f], &[0x48, 0x8b, 0x44, 0x24, 0x08], &[0x64, 0x48, 0x8b, 0x07]] {
            assert_eq!(done(before, NOP), [], "{before:x?}");
        }
        assert_eq!(done(NOP, &[0x48, 0x8d, 0x47, 0x08]), []);
        // jmp *(%rdi): whatever it leads to, it was not this that came before.
        assert_eq!(done(&[0xff, 0x27], NOP), []);
    }
}
