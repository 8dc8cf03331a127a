//! The stubs of the linker, through which a file calls functions of others.

use iced_x86::{Decoder, DecoderOptions, Instruction};

use super::symbols::{Binary, Machine};

/// The function of another file that the call before an address calls: through a stub of the linker, or through its
/// slot itself.
pub(super) fn imported_callee<'a>(binary: &Binary<'a>, address: u64) -> Option<&'a str> {
    if binary.machine() != Machine::X86_64 {
        return None;
    }
    let call = |back: u64| {
        let start = address.checked_sub(back)?;
        let mut decoder = Decoder::with_ip(64, binary.bytes_at(start, back)?, start, DecoderOptions::NONE);
        let call = decoder.decode();
        (call.next_ip() == address && !call.is_invalid()).then_some(call)
    };
    let direct = call(5).filter(Instruction::is_call_near).map(|call| call.near_branch_target());
    let slot = match direct {
        Some(stub) => stub_slot(binary, stub)?,
        None => call(6).filter(Instruction::is_call_near_indirect)?.ip_rel_memory_address(),
    };
    binary.import(slot)
}

/// Where a stub of the linker gets the address from that it jumps to.
fn stub_slot(binary: &Binary<'_>, stub: u64) -> Option<u64> {
    let bytes = binary.bytes_at(stub, 16)?;
    let stub = Decoder::with_ip(64, bytes, stub, DecoderOptions::NONE).into_iter().take(2);
    let jump = stub.into_iter().find(|i| i.is_jmp_near_indirect() && i.is_ip_rel_memory_operand())?;
    Some(jump.ip_rel_memory_address())
}
