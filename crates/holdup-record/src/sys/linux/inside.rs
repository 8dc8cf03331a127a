//! What the records of the programs inside the kernel say: `struct out` and the others in `bpf/capture.bpf.c`.

use holdup_trace::{CallNumber, FutexOp, Numbering, Stack, StackId, Tid, What};
use rustc_hash::{FxHashMap, FxHashSet};

use super::decode::{Frame, Sample, Shape, register, u32_at, u64_at};
use super::reduce::{Space, Spaces, reduce};
use crate::kernel;

/// What all identifiers of these records begin with; perf counts its own from 1.
const IDENTIFIER: u64 = 0xb9f0_0000_0000_0000;
const OUT: u64 = IDENTIFIER | 1;
const IN: u64 = IDENTIFIER | 2;
const WAKING: u64 = IDENTIFIER | 3;
const FUTEX: u64 = IDENTIFIER | 4;
const CALL: u64 = IDENTIFIER | 5;
const USER_STACK: u64 = IDENTIFIER | 6;
const KERNEL_STACK: u64 = IDENTIFIER | 7;
const LOST: u64 = IDENTIFIER | 8;

/// What one record says, in order: at most a call, who leaves the CPU, and who gets it.
pub type Facts = [Option<(u32, What)>; 3];

/// The stacks that the kernel's programs told of, as far as they are remembered.
#[derive(Debug, Default)]
pub struct Translator {
    /// Those that were told of or named since the last turn.
    young: Known,
    /// Those of before.
    old: Known,
    scratch: Stack,
    /// Threads that came back from a call without having slept in it: what they sleep in next is another one.
    returned: FxHashSet<u32>,
}

/// Stacks, by their hashes.
#[derive(Debug, Default)]
struct Known {
    users: FxHashMap<u64, (Option<StackId>, Stack)>,
    kernels: FxHashMap<u64, Vec<u64>>,
    whole: FxHashMap<(u64, u64), StackId>,
    /// Bytes that they take, about.
    bytes: usize,
}

/// Bytes of stacks that are remembered between two turns, about.
const MOST_BYTES: usize = 4 << 20;

/// Whether a record is one of these.
pub fn is_ours(frame: Frame) -> bool {
    frame.id & IDENTIFIER == IDENTIFIER
}

/// Whether a record tells a stack, which later ones name.
pub fn tells_stack(frame: Frame) -> bool {
    matches!(frame.id, USER_STACK | KERNEL_STACK)
}

/// The threads that a record shows to have been switched in or out; `bytes` is what is behind its frame.
pub fn switched(frame: Frame, bytes: &[u8]) -> [Option<u32>; 2] {
    match frame.id {
        OUT => [Some(frame.tid), u32_at(bytes, 32).filter(|next| *next != 0)],
        IN => [Some(frame.tid), None],
        _ => [None; 2],
    }
}

/// The CPU of a record.
pub fn cpu(frame: Frame, bytes: &[u8]) -> Option<u16> {
    let at = match frame.id {
        OUT => return u32_at(bytes, 36).map(|word| word as u16),
        IN => 0,
        WAKING => 4,
        FUTEX => 28,
        CALL => 12,
        LOST => 8,
        _ => return None,
    };
    u16::try_from(u32_at(bytes, at)?).ok()
}

impl Translator {
    /// What a record says. Its threads need not be the target's.
    pub fn read(
        &mut self,
        frame: Frame,
        bytes: &[u8],
        spaces: &mut Spaces,
        keep: &mut impl FnMut(&Stack) -> StackId,
    ) -> Option<Facts> {
        let one = |tid, what| Some([Some((tid, what)), None, None]);
        match frame.id {
            OUT => self.out(frame, bytes, keep),
            IN => one(frame.tid, What::SwitchIn),
            WAKING => one(frame.tid, What::Waking { target: Tid(u32_at(bytes, 0)?), stack: None }),
            FUTEX => {
                let told = self.futex(bytes, keep)?;
                if matches!(told, What::FutexWait { .. }) {
                    self.returned.insert(frame.tid);
                }
                one(frame.tid, told)
            }
            CALL => {
                let nr = CallNumber(u16::try_from(u32_at(bytes, 8)?).ok()?);
                self.returned.insert(frame.tid);
                one(frame.tid, What::Call { nr, stack: self.user(u64_at(bytes, 0)?, keep) })
            }
            USER_STACK => {
                self.learn_user(frame, bytes, spaces);
                None
            }
            KERNEL_STACK => {
                let count = usize::try_from(u64_at(bytes, 8)?).ok()?;
                let frames = (0..count).map_while(|frame| u64_at(bytes, 16 + 8 * frame));
                self.young.add_kernel(u64_at(bytes, 0)?, frames.collect());
                None
            }
            LOST => one(0, What::Lost { count: u64_at(bytes, 0)? }),
            _ => None,
        }
    }

    /// The numbers of all stacks have changed. The kernel tells each only once, so they are remembered here.
    pub fn renew(&mut self) {
        for known in [&mut self.young, &mut self.old] {
            known.whole.clear();
            known.users.values_mut().for_each(|(id, _)| *id = None);
        }
    }

    /// If many are remembered, forgets those that were not named since the last turn: their hashes, which the kernel's
    /// programs are to tell anew if they come again.
    pub fn turn(&mut self) -> Vec<u64> {
        if self.young.bytes <= MOST_BYTES {
            return Vec::new();
        }
        let forgotten = std::mem::replace(&mut self.old, std::mem::take(&mut self.young));
        let Known { users, kernels, .. } = &self.old;
        let users = forgotten.users.into_keys().filter(|hash| !users.contains_key(hash));
        users.chain(forgotten.kernels.into_keys().filter(|hash| !kernels.contains_key(hash))).collect()
    }

    fn out(&mut self, frame: Frame, bytes: &[u8], keep: &mut impl FnMut(&Stack) -> StackId) -> Option<Facts> {
        let (user, kernel) = (u64_at(bytes, 0)?, u64_at(bytes, 8)?);
        let stack = self.user(user, keep);
        let numbering = Numbering::of(std::env::consts::ARCH);
        let nr = u32_at(bytes, 40).and_then(|nr| u16::try_from(nr).ok()).map(CallNumber);
        let call = match nr {
            Some(nr) if numbering.futex() == Some(nr) => {
                let (op, value) = (FutexOp(u32_at(bytes, 24)?), u32_at(bytes, 28)?);
                op.waits().then_some(What::FutexWait { op, addr: u64_at(bytes, 16)?, value, stack })
            }
            Some(nr) => {
                let replaces = self.returned.contains(&frame.tid);
                (replaces || numbering.blocking(nr).is_some()).then_some(What::Call { nr, stack })
            }
            None => None,
        };
        let off = kernel::off_cpu(u64::from(*bytes.get(38)?));
        if off != holdup_trace::OffCpu::Runnable {
            self.returned.remove(&frame.tid);
        }
        let place = if kernel == 0 { None } else { self.whole(user, kernel, keep) };
        let next = u32_at(bytes, 32).filter(|next| *next != 0);
        Some([
            call.map(|call| (frame.tid, call)),
            Some((frame.tid, What::SwitchOut { off, stack: place })),
            next.map(|next| (next, What::SwitchIn)),
        ])
    }

    fn futex(&mut self, bytes: &[u8], keep: &mut impl FnMut(&Stack) -> StackId) -> Option<What> {
        const EAGAIN: i32 = -11;
        let stack = self.user(u64_at(bytes, 0)?, keep);
        let (addr, op) = (u64_at(bytes, 8)?, FutexOp(u32_at(bytes, 16)?));
        let (value, ret) = (u32_at(bytes, 20)?, u32_at(bytes, 24)? as i32);
        Some(match ret {
            EAGAIN if op.waits() => What::FutexWait { op, addr, value, stack },
            ret => What::FutexReturn { op, addr, ret: interrupted(ret), stack },
        })
    }

    fn user(&mut self, hash: u64, keep: &mut impl FnMut(&Stack) -> StackId) -> Option<StackId> {
        if let Some((_, stack)) = self.old.users.remove(&hash) {
            self.young.add_user(hash, stack);
        }
        let (id, stack) = self.young.users.get_mut(&hash)?;
        Some(*id.get_or_insert_with(|| keep(stack)))
    }

    /// The stack of both parts.
    fn whole(&mut self, user: u64, kernel: u64, keep: &mut impl FnMut(&Stack) -> StackId) -> Option<StackId> {
        if let Some(id) = self.young.whole.get(&(user, kernel)) {
            return Some(*id);
        }
        if let Some(found) = self.old.kernels.remove(&kernel) {
            self.young.add_kernel(kernel, found);
        }
        let frames = self.young.kernels.get(&kernel)?;
        let mut stack = self.young.users.get(&user).map(|(_, stack)| stack.clone()).unwrap_or_default();
        stack.kernel.clone_from(frames);
        let id = keep(&stack);
        self.young.add_whole((user, kernel), id);
        Some(id)
    }

    fn learn_user(&mut self, frame: Frame, bytes: &[u8], spaces: &mut Spaces) {
        const UNWIND: u64 = 1 << register::FP | 1 << register::SP | 1 << register::IP;
        let shape = Shape { registers: UNWIND, stack: true, ..Shape::default() };
        let (Some(hash), Some(rest)) = (u64_at(bytes, 0), bytes.get(8..)) else { return };
        let Some(sample) = Sample::read(rest, shape) else { return };
        // The stack of a process that has just begun may come before the word of its beginning. The kernel's programs
        // keep only words that point into code or into the stack.
        let stranger = &mut Space::around(sample.register(register::SP).unwrap_or(0));
        let known = spaces.of(frame.pid);
        let space = if known.is_known() { known } else { stranger };
        if reduce(&sample, space, &mut self.scratch) {
            // What was told with it before may be another's of the same hash.
            self.young.whole.retain(|(user, _), _| *user != hash);
            self.old.users.remove(&hash);
            self.young.add_user(hash, self.scratch.clone());
        }
    }
}

impl Known {
    fn add_user(&mut self, hash: u64, stack: Stack) {
        self.bytes += stack.bytes();
        self.users.insert(hash, (None, stack));
    }

    fn add_kernel(&mut self, hash: u64, frames: Vec<u64>) {
        self.bytes += PLACE + size_of_val(&frames[..]);
        self.kernels.insert(hash, frames);
    }

    fn add_whole(&mut self, hashes: (u64, u64), id: StackId) {
        self.bytes += PLACE;
        self.whole.insert(hashes, id);
    }
}

/// What a place in a table takes, about.
const PLACE: usize = 48;

/// The kernel's own codes for "begin the call again" are an interruption to the program.
fn interrupted(ret: i32) -> i32 {
    const RESTART: std::ops::RangeInclusive<i32> = -516..=-512;
    const EINTR: i32 = 4;
    if RESTART.contains(&ret) { -EINTR } else { ret }
}

#[cfg(test)]
mod tests {
    use holdup_trace::Stacks;

    use super::super::decode::tests::Bytes;
    use super::*;

    const CODE: u64 = 0x5555_0000_0000;

    fn frame(id: u64) -> Frame {
        Frame { id, pid: 1, tid: 1, time_ns: 1 }
    }

    /// A stack of which only this hash and a return address are its own.
    fn told(hash: u64) -> Vec<u8> {
        let body = Bytes::default().u64(hash).u64(2).u64(0).u64(0x7ffd_0000_1000).u64(CODE);
        let words = (0..64).fold(body.u64(512), |body, at| body.u64(CODE + (hash * 64 + at) % 0xffff));
        words.u64(512).0
    }

    fn called(hash: u64) -> Vec<u8> {
        Bytes::default().u64(hash).u32(7).u32(0).0
    }

    /// A switch of a thread that sleeps in this call.
    fn sleeps(nr: u32) -> Vec<u8> {
        let body = (0..4).fold(Bytes::default(), |body, _| body.u64(0));
        body.u32(0).u32(1 << 16).u32(nr).0
    }

    /// A wait on a futex whose value had changed.
    fn found_changed() -> Vec<u8> {
        Bytes::default().u64(0).u64(0x1000).u32(0).u32(2).u32(-11_i32 as u32).u32(0).0
    }

    #[test]
    fn a_stack_that_comes_before_the_beginning_of_its_process_is_whole() {
        let (mut translator, mut spaces) = (Translator::default(), Spaces::default());
        let mut stacks = Stacks::new();
        let mut keep = |stack: &Stack| stacks.intern(stack);
        translator.read(frame(USER_STACK), &told(1), &mut spaces, &mut keep);
        translator.read(frame(CALL), &called(1), &mut spaces, &mut keep);
        let stack = stacks.get(StackId(0)).expect("one stack");
        assert_eq!(stack.words.len(), 64, "all of them point into code");
    }

    #[test]
    fn a_call_that_did_not_sleep_is_none_that_the_thread_sleeps_in() {
        const RECVFROM: u32 = 45;
        let (mut translator, mut spaces) = (Translator::default(), Spaces::default());
        let mut told = |id, bytes: &[u8]| {
            let facts = translator.read(frame(id), bytes, &mut spaces, &mut |_| StackId(0)).unwrap();
            facts
                .into_iter()
                .flatten()
                .filter_map(|(_, what)| match what {
                    What::Call { nr, .. } => Some(u32::from(nr.0)),
                    _ => None,
                })
                .collect::<Vec<_>>()
        };
        assert_eq!(told(OUT, &sleeps(RECVFROM)), [0; 0]);
        assert_eq!(told(CALL, &called(0)), [7]);
        assert_eq!(told(OUT, &sleeps(RECVFROM)), [RECVFROM], "or it would sleep in poll");
        assert_eq!(told(OUT, &sleeps(RECVFROM)), [0; 0]);
        assert_eq!(told(FUTEX, &found_changed()), [0; 0]);
        assert_eq!(told(OUT, &sleeps(RECVFROM)), [RECVFROM], "or it would wait for the futex");
    }

    #[test]
    fn of_stacks_without_end_those_in_use_are_remembered_and_the_others_told_anew() {
        let (mut translator, mut spaces, mut stacks) = (Translator::default(), Spaces::default(), Stacks::new());
        spaces.of(1).map(CODE, 0x1_0000);
        let mut keep = |stack: &Stack| stacks.intern(stack);
        // What the kernel's programs believe to be known.
        let mut seen = rustc_hash::FxHashSet::default();
        let mut most = 0;
        for hash in 1..60_000_u64 {
            for hash in [hash, hash % 10 + 1] {
                if seen.insert(hash) {
                    translator.read(frame(USER_STACK), &told(hash), &mut spaces, &mut keep);
                }
                let facts = translator.read(frame(CALL), &called(hash), &mut spaces, &mut keep).unwrap();
                assert!(matches!(facts[0], Some((1, What::Call { stack: Some(_), .. }))), "{hash} is known");
            }
            for forgotten in translator.turn() {
                assert!(seen.remove(&forgotten) && forgotten > 10, "{forgotten}");
            }
            most = most.max(translator.young.bytes + translator.old.bytes);
            if hash % 20_000 == 0 {
                translator.renew();
            }
        }
        assert!((MOST_BYTES..3 * MOST_BYTES).contains(&most), "{most}");
        let known: FxHashMap<u64, ()> =
            translator.young.users.keys().chain(translator.old.users.keys()).map(|hash| (*hash, ())).collect();
        assert_eq!(known.len(), seen.len(), "both sides know the same");
    }
}
