//! What the records of the programs inside the kernel say: `struct out` and the others in `bpf/capture.bpf.c`.

use holdup_trace::{CallNumber, FutexOp, Numbering, Stack, StackId, Tid, What};
use rustc_hash::FxHashMap;

use super::decode::{Frame, Sample, Shape, register, u32_at, u64_at};
use super::reduce::{Spaces, reduce};
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

/// The stacks that the kernel's programs told of so far.
#[derive(Debug, Default)]
pub struct Translator {
    users: FxHashMap<u64, (StackId, Stack)>,
    kernels: FxHashMap<u64, Vec<u64>>,
    whole: FxHashMap<(u64, u64), StackId>,
    scratch: Stack,
}

/// Whether a record is one of these.
pub fn is_ours(frame: Frame) -> bool {
    frame.id & IDENTIFIER == IDENTIFIER
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
            FUTEX => one(frame.tid, self.futex(bytes)?),
            CALL => {
                let nr = CallNumber(u16::try_from(u32_at(bytes, 8)?).ok()?);
                one(frame.tid, What::Call { nr, stack: self.user(u64_at(bytes, 0)?) })
            }
            USER_STACK => {
                self.learn_user(frame, bytes, spaces, keep);
                None
            }
            KERNEL_STACK => {
                let count = usize::try_from(u64_at(bytes, 8)?).ok()?;
                let frames = (0..count).map_while(|frame| u64_at(bytes, 16 + 8 * frame));
                self.kernels.insert(u64_at(bytes, 0)?, frames.collect());
                None
            }
            LOST => one(0, What::Lost { count: u64_at(bytes, 0)? }),
            _ => None,
        }
    }

    /// The numbers of all stacks have changed. The kernel tells each only once, so they are remembered here.
    pub fn renew(&mut self, keep: &mut impl FnMut(&Stack) -> StackId) {
        self.whole.clear();
        self.users.values_mut().for_each(|(id, stack)| *id = keep(stack));
    }

    fn out(&mut self, frame: Frame, bytes: &[u8], keep: &mut impl FnMut(&Stack) -> StackId) -> Option<Facts> {
        let (user, kernel) = (u64_at(bytes, 0)?, u64_at(bytes, 8)?);
        let stack = self.user(user);
        let numbering = Numbering::of(std::env::consts::ARCH);
        let nr = u32_at(bytes, 40).and_then(|nr| u16::try_from(nr).ok()).map(CallNumber);
        let call = match nr {
            Some(nr) if numbering.futex() == Some(nr) => {
                let (op, value) = (FutexOp(u32_at(bytes, 24)?), u32_at(bytes, 28)?);
                op.waits().then_some(What::FutexWait { op, addr: u64_at(bytes, 16)?, value, stack })
            }
            Some(nr) => numbering.blocking(nr).map(|_| What::Call { nr, stack }),
            None => None,
        };
        let off = kernel::off_cpu(u64::from(*bytes.get(38)?));
        let place = if kernel == 0 { None } else { self.whole(user, kernel, keep) };
        let next = u32_at(bytes, 32).filter(|next| *next != 0);
        Some([
            call.map(|call| (frame.tid, call)),
            Some((frame.tid, What::SwitchOut { off, stack: place })),
            next.map(|next| (next, What::SwitchIn)),
        ])
    }

    fn futex(&self, bytes: &[u8]) -> Option<What> {
        const EAGAIN: i32 = -11;
        let stack = self.user(u64_at(bytes, 0)?);
        let (addr, op) = (u64_at(bytes, 8)?, FutexOp(u32_at(bytes, 16)?));
        let (value, ret) = (u32_at(bytes, 20)?, u32_at(bytes, 24)? as i32);
        Some(match ret {
            EAGAIN if op.waits() => What::FutexWait { op, addr, value, stack },
            ret => What::FutexReturn { op, addr, ret: interrupted(ret), stack },
        })
    }

    fn user(&self, hash: u64) -> Option<StackId> {
        self.users.get(&hash).map(|(id, _)| *id)
    }

    /// The stack of both parts.
    fn whole(&mut self, user: u64, kernel: u64, keep: &mut impl FnMut(&Stack) -> StackId) -> Option<StackId> {
        if let Some(id) = self.whole.get(&(user, kernel)) {
            return Some(*id);
        }
        let frames = self.kernels.get(&kernel)?;
        let mut stack = self.users.get(&user).map(|(_, stack)| stack.clone()).unwrap_or_default();
        stack.kernel.clone_from(frames);
        let id = keep(&stack);
        self.whole.insert((user, kernel), id);
        Some(id)
    }

    fn learn_user(
        &mut self,
        frame: Frame,
        bytes: &[u8],
        spaces: &mut Spaces,
        keep: &mut impl FnMut(&Stack) -> StackId,
    ) {
        const UNWIND: u64 = 1 << register::FP | 1 << register::SP | 1 << register::IP;
        let shape = Shape { registers: UNWIND, stack: true, ..Shape::default() };
        let (Some(hash), Some(rest)) = (u64_at(bytes, 0), bytes.get(8..)) else { return };
        let Some(sample) = Sample::read(rest, shape) else { return };
        if reduce(&sample, spaces.of(frame.pid), &mut self.scratch) {
            let id = keep(&self.scratch);
            self.users.insert(hash, (id, self.scratch.clone()));
            // What was told with it before may be another's of the same hash.
            self.whole.retain(|(user, _), _| *user != hash);
        }
    }
}

/// The kernel's own codes for "begin the call again" are an interruption to the program.
fn interrupted(ret: i32) -> i32 {
    const RESTART: std::ops::RangeInclusive<i32> = -516..=-512;
    const EINTR: i32 = 4;
    if RESTART.contains(&ret) { -EINTR } else { ret }
}
