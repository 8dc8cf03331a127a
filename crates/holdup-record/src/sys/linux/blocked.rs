//! Which threads were blocked when a recording began, in which call and where: their next switch may come late or
//! never, and without this nobody would know what they wait for.

use std::fs;

use holdup_trace::{CallNumber, Event, FutexOp, NO_CPU, OffCpu, StackId, Tid, What};
use rustc_hash::FxHashSet;

use super::decode;
use super::still::Still;

/// A thread that was seen to be blocked.
#[derive(Clone, Debug, PartialEq)]
pub struct Blocked {
    tid: u32,
    call: Option<What>,
    /// Its stack, if it was still there when that had been read.
    still: Option<Still>,
}

/// So much of a stack is read, as a sampling recorder does.
const STACK_BYTES: usize = 4096;

/// What a thread waits for now; `None` if it does not, or if this user may not know.
pub fn of_thread(pid: u32, tid: u32) -> Option<Blocked> {
    let read = || fs::read_to_string(format!("/proc/{pid}/task/{tid}/syscall")).ok();
    let text = read()?;
    let call = what(call(&text)?);
    let still = still(pid, &text);
    Some(Blocked { tid, call, still: still.filter(|_| read().is_some_and(|now| now == text)) })
}

/// Where in the kernel a blocked thread is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// In a call of this number, with these arguments.
    In(CallNumber, [u64; 6]),
    /// Outside of any, as in a page fault.
    Outside,
}

/// The text of /proc/TID/syscall: the call's number and arguments in hexadecimal, stack pointer, place in the program;
/// -1 for a thread that is blocked outside of any call, without a place if it has ended; `running` for one that is not
/// blocked.
pub fn call(text: &str) -> Option<Call> {
    let mut words = text.split_ascii_whitespace();
    let number: i64 = words.next()?.parse().ok()?;
    let rest: Vec<u64> = words.map_while(|word| u64::from_str_radix(word.strip_prefix("0x")?, 16).ok()).collect();
    if number == -1 && rest == [0, 0] {
        return None;
    }
    let arguments = rest.first_chunk().copied();
    let number = u16::try_from(number).ok().map(CallNumber);
    Some(number.zip(arguments).map_or(Call::Outside, |(number, arguments): (CallNumber, [u64; 6])| {
        Call::In(decode::NUMBERING.recorded(number, arguments[0], arguments[1]), arguments)
    }))
}

/// The stack pointer and the place in the program, from the same text.
pub fn place(text: &str) -> Option<(u64, u64)> {
    let mut words = text.split_ascii_whitespace().rev();
    let mut word = || u64::from_str_radix(words.next()?.strip_prefix("0x")?, 16).ok();
    let place = word()?;
    Some((word()?, place))
}

/// The stack of a blocked thread, by the same text.
pub fn still(pid: u32, text: &str) -> Option<Still> {
    Still::read(pid, place(text)?, STACK_BYTES)
}

/// The event that such a call would have had, had the recording begun before it.
pub fn what(call: Call) -> Option<What> {
    let Call::In(nr, [addr, op, value, ..]) = call else { return None };
    if libc::c_long::from(nr.0) != libc::SYS_futex {
        return Some(What::Call { nr, stack: None });
    }
    let op = FutexOp(op as u32);
    op.waits().then_some(What::FutexWait { op, addr, value: value as u32, stack: None })
}

/// The events that say so at the beginning of the recording, for the threads that have not run since then. `number`
/// keeps a stack.
pub fn events(
    blocked: Vec<Blocked>,
    ran: &FxHashSet<u32>,
    mut number: impl FnMut(&Still) -> Option<StackId>,
    began_ns: u64,
) -> Vec<Event> {
    let mut events = Vec::new();
    for Blocked { tid, mut call, still } in blocked.into_iter().filter(|blocked| !ran.contains(&blocked.tid)) {
        let found = still.and_then(|still| number(&still));
        if let Some(What::FutexWait { stack, .. } | What::Call { stack, .. }) = &mut call {
            *stack = found;
        }
        let off = What::SwitchOut { off: OffCpu::Blocked, stack: found };
        let event = |what| Event { time_ns: began_ns, tid: Tid(tid), cpu: NO_CPU, what };
        events.extend(call.into_iter().chain([off]).map(event));
    }
    events
}

#[cfg(test)]
mod tests {
    use super::super::assemble::Assembler;
    use super::super::decode::tests::switch;
    use super::super::merge::Merge;
    use super::*;

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn the_call_is_read_with_its_arguments() {
        let futex = "202 0x7f00 0x189 0x2 0x0 0x0 0xffffffff 0x7ffd 0x7f12\n";
        let wait = What::FutexWait { op: FutexOp(0x189), addr: 0x7f00, value: 2, stack: None };
        let event = |text| call(text).map(what);
        assert_eq!(event(futex), Some(Some(wait)));
        let poll = What::Call { nr: CallNumber(7), stack: None };
        assert_eq!(event("7 0x1 0x2 0x3 0x0 0x0 0x0 0x7ffd 0x7f12\n"), Some(Some(poll)));
        assert_eq!((place(futex), place("running\n")), (Some((0x7ffd, 0x7f12)), None));
        assert_eq!(event("-1 0x7ffd 0x7f12\n"), Some(None));
        assert_eq!(event("202 0x7f00\n"), Some(None));
        assert_eq!((event("running\n"), event("")), (None, None));
        assert_eq!(event("-1 0x0 0x0\n"), None, "a thread that has ended");
    }

    #[test]
    fn who_ran_meanwhile_is_not_told_of() {
        let of = |tid| Blocked { tid, call: None, still: None };
        let mut merge = Merge::new(1);
        merge.add(0, [&switch(5, 20, true, false), &[]]);
        let ran = Assembler::new(&[0]).ran(merge.waiting());
        let events = events(vec![of(5), of(6)], &ran, |_| None, 10);
        let expected = What::SwitchOut { off: OffCpu::Blocked, stack: None };
        assert_eq!(events, [Event { time_ns: 10, tid: Tid(6), cpu: NO_CPU, what: expected }]);
    }
}
