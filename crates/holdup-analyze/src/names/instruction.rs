//! What the processor was doing where a sample was taken: instructions that threads hold each other up with.
//!
//! A timer's sample names the instruction that would have run next, so the one that took the time is the one before it.
//! That is found by decoding from the function's start, for instructions of x86 have no fixed length.

use std::collections::BTreeMap;

use iced_x86::{
    Code, Decoder, DecoderOptions, Formatter, GasFormatter, Instruction, InstructionInfoFactory, Mnemonic, OpKind,
    Register,
};

use super::Frame;
use super::looking::{self, is_atomic, registers, writes};
use super::symbols::{Binary, Machine};
use crate::facts::{HotspotClass, LockName};

/// Longest instruction of x86.
const LONGEST: u64 = 15;

/// Largest distance from a function's start that is decoded.
const LARGEST_FUNCTION: u64 = 1 << 18;

/// How many bytes of a function are looked at for a jump into another one.
const SHORT_FUNCTION: u64 = 64;

/// How far a loop around a pause may extend, in instructions before and behind the sample.
const LOOP: usize = 8;

/// How far back the address in a register is traced, in instructions.
const TRACE: usize = 48;

/// A sample's instruction, looked at.
#[derive(Clone, Debug)]
pub(crate) struct Suspect {
    /// Offset in the module of the suspicious instruction.
    pub frame: Frame,
    /// The functions that it was inlined into.
    pub inlined_into: Vec<Frame>,
    /// Its text.
    pub instruction: String,
    /// Why it is suspicious.
    pub class: HotspotClass,
    /// The variable that its operand names.
    pub variable: Option<LockName>,
}

/// A suspicious instruction; addresses are those of the binary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Found {
    pub address: u64,
    pub text: String,
    pub class: HotspotClass,
    /// The address that it works on, if that is a fixed one.
    pub operand: Option<u64>,
}

/// Looks at the instruction that a sample was taken behind.
pub(super) fn inspect(binary: &Binary<'_>, ip: u64) -> Option<Found> {
    match binary.machine() {
        Machine::X86_64 => inspect_x86(binary, ip),
        Machine::Aarch64 => arm::inspect(binary, ip),
        Machine::Other => None,
    }
}

/// Whether a call lies right before an address, so that it can be returned to.
pub(super) fn follows_call(binary: &Binary<'_>, address: u64) -> bool {
    match binary.machine() {
        Machine::X86_64 => x86_follows_call(binary, address),
        Machine::Aarch64 => arm::follows_call(binary, address),
        Machine::Other => true,
    }
}

fn x86_follows_call(binary: &Binary<'_>, address: u64) -> bool {
    // A binary that cannot be read there cannot contradict.
    let Some(before) = address.checked_sub(7).and_then(|start| binary.bytes_at(start, 7)) else {
        return true;
    };
    let Ok(before) = <&[u8; 7]>::try_from(before) else { return true };
    // An indirect call is `ff /2`, with as many bytes behind it as its operand needs.
    let indirect = |back: usize| before[7 - back] == 0xff && before[8 - back] >> 3 & 7 == 2;
    before[2] == 0xe8 || [2, 3, 4, 6, 7].into_iter().any(indirect)
}

/// Where the call before an address goes to, if the instruction itself says so.
pub(super) fn callee(binary: &Binary<'_>, address: u64) -> Option<u64> {
    if binary.machine() == Machine::Aarch64 {
        return arm::callee(binary, address);
    }
    let bytes = binary.bytes_at(address.checked_sub(6)?, 6)?;
    let (before, distance) = bytes.split_at_checked(2)?;
    let distance = i32::from_le_bytes(distance.try_into().ok()?);
    let target = address.wrapping_add_signed(distance.into());
    match before {
        [_, 0xe8] => Some(target),
        // What Rust links from another of its libraries, it calls through a slot.
        [0xff, 0x15] => binary.own_slot(target),
        _ => None,
    }
}

/// Where the first instructions of a function jump to: a short one may end by jumping into another one.
pub(super) fn jumps(binary: &Binary<'_>, entry: u64) -> Vec<u64> {
    if binary.machine() != Machine::X86_64 {
        return Vec::new();
    }
    let size = binary.function(entry).map(|symbol| symbol.size).filter(|size| *size > 0);
    let len = size.map_or(SHORT_FUNCTION, |size| size.min(SHORT_FUNCTION));
    let bytes = binary.bytes_at(entry, len).unwrap_or_default();
    let decoder = Decoder::with_ip(64, bytes, entry, DecoderOptions::NONE);
    let is_jump = |i: &Instruction| i.is_jmp_short_or_near() || i.is_jcc_short_or_near();
    decoder.into_iter().filter(is_jump).map(|jump| jump.near_branch_target()).collect()
}

fn inspect_x86(binary: &Binary<'_>, ip: u64) -> Option<Found> {
    let before = preceding(binary, ip);
    let behind = following(binary, ip);
    let previous = before.last();
    let atomic = previous.filter(|i| is_atomic(i)).or(behind.first().filter(|i| is_atomic(i)));
    let reread = |read: &Instruction| found(read, HotspotClass::Reread, operand(read, &preceding(binary, read.ip())));
    if let Some(tries) = atomic.and_then(|i| looking::waiting_loop(binary, i.ip())).filter(is_atomic) {
        return Some(reread(&tries));
    }
    if let Some(instruction) = atomic {
        let upto = before.iter().position(|i| i.ip() == instruction.ip()).unwrap_or(before.len());
        let operand = operand(instruction, &before[..upto]);
        return Some(found(instruction, HotspotClass::Atomic, operand));
    }
    if let Some(pause) = pause(&before, &behind) {
        let watched = watched(&pause, &following(binary, pause.ip()), &before);
        return Some(found(&pause, HotspotClass::Pause, watched));
    }
    looking::waiting_loop(binary, ip).as_ref().map(reread)
}

fn found(instruction: &Instruction, class: HotspotClass, operand: Option<u64>) -> Found {
    Found { address: instruction.ip(), text: text(instruction), class, operand }
}

/// As `objdump` and `perf annotate` write it.
fn text(instruction: &Instruction) -> String {
    let mut formatter = GasFormatter::new();
    formatter.options_mut().set_space_after_operand_separator(true);
    formatter.options_mut().set_uppercase_hex(false);
    formatter.options_mut().set_rip_relative_addresses(true);
    let mut out = String::new();
    formatter.format(instruction, &mut out);
    out
}

/// The instructions before an address, oldest first, as many as are ever asked for.
pub(super) fn preceding(binary: &Binary<'_>, ip: u64) -> Vec<Instruction> {
    let start = binary.function(ip).map(|function| function.address);
    match start.filter(|start| ip - start <= LARGEST_FUNCTION) {
        Some(start) => decoded(binary, start, ip),
        None => guessed(binary, ip),
    }
}

/// Decodes from one address to another; nothing if no instruction ends there.
fn decoded(binary: &Binary<'_>, start: u64, ip: u64) -> Vec<Instruction> {
    let Some(bytes) = binary.bytes_at(start, ip.saturating_sub(start)) else { return Vec::new() };
    let mut decoder = Decoder::with_ip(64, bytes, start, DecoderOptions::NONE);
    let mut all: Vec<Instruction> = Vec::new();
    while decoder.can_decode() {
        all.push(decoder.decode());
    }
    let ends_there = all.last().is_some_and(|last| last.next_ip() == ip && last.code() != Code::INVALID);
    if !ends_there {
        return Vec::new();
    }
    all.split_off(all.len().saturating_sub(TRACE))
}

/// Where no symbol tells the function's start: wherever decoding begins, it falls into step after a few instructions,
/// so what most beginnings agree on is right.
fn guessed(binary: &Binary<'_>, ip: u64) -> Vec<Instruction> {
    let mut votes: BTreeMap<u64, (usize, Vec<Instruction>)> = BTreeMap::new();
    for back in 16..=64 {
        let instructions = ip.checked_sub(back).map(|start| decoded(binary, start, ip)).unwrap_or_default();
        if let Some(last) = instructions.last().map(Instruction::ip) {
            let vote = votes.entry(last).or_default();
            vote.0 += 1;
            vote.1 = instructions;
        }
    }
    // The oldest of these may be out of step; only the newest few are used.
    let agreed = votes.into_values().max_by_key(|(votes, _)| *votes).map(|(_, instructions)| instructions);
    let mut agreed = agreed.unwrap_or_default();
    agreed.split_off(agreed.len().saturating_sub(2))
}

/// The instructions from an address on.
pub(super) fn following(binary: &Binary<'_>, ip: u64) -> Vec<Instruction> {
    let Some(bytes) = binary.bytes_at(ip, LONGEST * LOOP as u64) else { return Vec::new() };
    let mut decoder = Decoder::with_ip(64, bytes, ip, DecoderOptions::NONE);
    let mut all = Vec::with_capacity(LOOP);
    while decoder.can_decode() && all.len() < LOOP {
        all.push(decoder.decode());
    }
    all
}

/// A pause right here, or one in a short loop around the sample.
fn pause(before: &[Instruction], behind: &[Instruction]) -> Option<Instruction> {
    let is_pause = |instruction: &&Instruction| instruction.mnemonic() == Mnemonic::Pause;
    let here = before.last().filter(is_pause).or(behind.first().filter(is_pause));
    if here.is_some() {
        return here.copied();
    }
    let ip = behind.first()?.ip();
    let near = &before[before.len().saturating_sub(LOOP)..];
    let around = || near.iter().chain(behind);
    let pause = *around().find(is_pause)?;
    let (low, high) = (pause.ip().min(ip), pause.ip().max(ip));
    let loops = |branch: &Instruction| {
        let jump = branch.is_jcc_short_or_near() || branch.is_jmp_short_or_near();
        jump && branch.ip() >= high && branch.near_branch_target() <= low
    };
    around().any(loops).then_some(pause)
}

/// The fixed address that the loop around a pause looks at: of the instructions between the loop's beginning and the
/// branch back to it, the first that names one.
fn watched(pause: &Instruction, behind: &[Instruction], before: &[Instruction]) -> Option<u64> {
    let is_back = |branch: &&Instruction| {
        let jump = branch.is_jcc_short_or_near() || branch.is_jmp_short_or_near();
        jump && branch.near_branch_target() <= pause.ip()
    };
    let back = behind.iter().find(is_back)?;
    let in_loop = |i: &&Instruction| i.ip() >= back.near_branch_target() && i.ip() <= back.ip();
    let mut inside = before.iter().chain(behind).filter(in_loop);
    inside.find(|i| i.is_ip_rel_memory_operand()).map(Instruction::ip_rel_memory_address)
}

/// The fixed address that an instruction works on: relative to itself, absolute, or loaded into its register shortly
/// before.
fn operand(instruction: &Instruction, before: &[Instruction]) -> Option<u64> {
    if matches!(instruction.segment_prefix(), Register::FS | Register::GS) {
        return None;
    }
    if instruction.is_ip_rel_memory_operand() {
        return Some(instruction.ip_rel_memory_address());
    }
    if instruction.memory_index() != Register::None {
        return None;
    }
    let displacement = instruction.memory_displacement64();
    match instruction.memory_base() {
        Register::None => Some(displacement),
        base => Some(loaded(base, before)?.wrapping_add(displacement)),
    }
}

/// The fixed address that the last write to a register put there.
fn loaded(register: Register, before: &[Instruction]) -> Option<u64> {
    let mut factory = InstructionInfoFactory::new();
    let full = register.full_register();
    let writes_it =
        |i: &&Instruction| registers(factory.info(i)).any(|(register, access)| register == full && writes(access));
    let write = before.iter().rev().find(writes_it)?;
    match write.mnemonic() {
        Mnemonic::Lea if write.is_ip_rel_memory_operand() => Some(write.ip_rel_memory_address()),
        Mnemonic::Mov if is_immediate(write.op1_kind()) => Some(write.immediate(1)),
        _ => None,
    }
}

fn is_immediate(kind: OpKind) -> bool {
    matches!(kind, OpKind::Immediate32 | OpKind::Immediate64 | OpKind::Immediate32to64)
}

/// The same for aarch64, whose instructions are all four bytes: the masks are of the Arm ARM, C4.1.
mod arm {
    use super::{Binary, Found, HotspotClass};

    /// Looks at the instruction before an address, then at the one there.
    pub(super) fn inspect(binary: &Binary<'_>, ip: u64) -> Option<Found> {
        let places = [ip.wrapping_sub(4), ip];
        places.into_iter().find_map(|address| {
            let (text, class) = suspicious(word(binary, address)?)?;
            Some(Found { address, text: text.to_owned(), class, operand: None })
        })
    }

    /// Whether `bl` or `blr` lies right before an address.
    pub(super) fn follows_call(binary: &Binary<'_>, address: u64) -> bool {
        let before = word(binary, address.wrapping_sub(4));
        let direct = |word: u32| word & 0xfc00_0000 == 0x9400_0000;
        let by_register = |word: u32| word & 0xffff_fc1f == 0xd63f_0000;
        let authenticated = |word: u32| word & 0xfeff_f800 == 0xd63f_0800;
        before.is_none_or(|word| direct(word) || by_register(word) || authenticated(word))
    }

    /// Where the `bl` right before an address goes to.
    pub(super) fn callee(binary: &Binary<'_>, address: u64) -> Option<u64> {
        let from = address.wrapping_sub(4);
        word(binary, from).and_then(branch_distance).map(|distance| from.wrapping_add_signed(distance))
    }

    /// How far a `bl` goes.
    pub(super) fn branch_distance(word: u32) -> Option<i64> {
        let words = i64::from((word << 6).cast_signed() >> 6);
        (word & 0xfc00_0000 == 0x9400_0000).then_some(words * 4)
    }

    pub(super) fn suspicious(word: u32) -> Option<(&'static str, HotspotClass)> {
        const ADD_AND_LIKE: [&str; 8] = ["ldadd", "ldclr", "ldeor", "ldset", "ldsmax", "ldsmin", "ldumax", "ldumin"];
        if word & 0x3f20_8c00 == 0x3820_0000 {
            return Some((ADD_AND_LIKE[(word >> 12 & 7) as usize], HotspotClass::Atomic));
        }
        if word & 0x3f20_fc00 == 0x3820_8000 {
            return Some(("swp", HotspotClass::Atomic));
        }
        if word & 0x3fa0_7c00 == 0x08a0_7c00 {
            return Some(("cas", HotspotClass::Atomic));
        }
        if word & 0x3fe0_0000 == 0x0800_0000 {
            return Some(("stxr", HotspotClass::Atomic));
        }
        match word {
            0xd503_203f => Some(("yield", HotspotClass::Pause)),
            // What Rust's spin_loop is there: it waits about as long as a pause does on x86.
            0xd503_3fdf => Some(("isb", HotspotClass::Pause)),
            _ => None,
        }
    }

    fn word(binary: &Binary<'_>, address: u64) -> Option<u32> {
        Some(u32::from_le_bytes(binary.bytes_at(address, 4)?.try_into().ok()?))
    }
}

#[cfg(test)]
mod tests {
    use super::arm::{branch_distance, suspicious};

    #[test]
    fn calls_of_aarch64_say_where_they_go() {
        assert_eq!(branch_distance(0x9400_0001), Some(4));
        assert_eq!(branch_distance(0x97ff_ffff), Some(-4));
        assert_eq!(branch_distance(0x1400_0001), None, "a jump that does not come back");
    }

    #[test]
    fn atomics_of_aarch64_are_known_by_their_bits() {
        for (word, text) in [
            (0xf821_0002, Some("ldadd")),
            (0xb8e1_3002, Some("ldset")),
            (0xf8e1_8002, Some("swp")),
            (0xc8e1_fc02, Some("cas")),
            (0xc803_fc02, Some("stxr")),
            (0xd503_203f, Some("yield")),
            (0xd503_3fdf, Some("isb")),
            // ldr, ldr with an index, ldxr, stlr, ldapr, add, nop.
            (0xf940_0000, None),
            (0xf862_6820, None),
            (0xc85f_7c00, None),
            (0xc89f_fc00, None),
            (0xf8bf_c000, None),
            (0x9100_0400, None),
            (0xd503_201f, None),
        ] {
            assert_eq!(suspicious(word).map(|(text, _)| text), text, "{word:#x}");
        }
    }
}
