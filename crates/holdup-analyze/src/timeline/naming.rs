//! What the summing-up asks about addresses, so that a drawn schedule can answer in the place of real binaries.

use std::sync::Arc;

use holdup_trace::{FutexOp, Pointers, StackId};

use crate::Problem;
use crate::facts::{LockName, Primitive};
use crate::names::{Access, Between, Frame, Resolver, SpaceId, Suspect};

/// Names for addresses; see the methods of the same names of [`Resolver`].
pub(crate) trait Naming {
    /// The call path of a stack, innermost first.
    fn call_path(&mut self, space: SpaceId, stack: StackId) -> Arc<[Frame]>;

    /// The variable that an address is in.
    fn variable(&mut self, space: SpaceId, addr: u64) -> Option<LockName>;

    /// What a futex is, from who waits on it how.
    fn primitive(&mut self, _: FutexOp, _: &[Frame]) -> Primitive {
        Primitive::default()
    }

    /// The atomic instruction or pause right before a sample.
    fn suspect(&mut self, _: SpaceId, _: StackId) -> Option<Suspect> {
        None
    }

    /// What the program does in a loop between two calls of what is below it, where its code tells.
    fn between_sleeps(&mut self, _: SpaceId, _: &[Frame]) -> Option<Between> {
        None
    }

    /// Whether a sample hit what the kernel does for the recording.
    fn is_of_recording(&mut self, _: StackId) -> bool {
        false
    }

    /// The instruction that a sample in user mode was taken at.
    fn sampled_at(&self, _: StackId) -> Option<u64> {
        None
    }

    /// What the instructions around a sample did to memory.
    fn accesses(&mut self, _: SpaceId, _: &Pointers) -> Vec<Access> {
        Vec::new()
    }

    /// The frames of an instruction.
    fn frames_at(&mut self, _: SpaceId, _: u64) -> Vec<Frame> {
        Vec::new()
    }

    /// Problems met on the way.
    fn problems(&mut self) -> Vec<Problem> {
        Vec::new()
    }
}

impl Naming for Resolver<'_, '_> {
    fn call_path(&mut self, space: SpaceId, stack: StackId) -> Arc<[Frame]> {
        Resolver::call_path(self, space, stack)
    }

    fn variable(&mut self, space: SpaceId, addr: u64) -> Option<LockName> {
        Resolver::variable(self, space, addr)
    }

    fn primitive(&mut self, op: FutexOp, call_path: &[Frame]) -> Primitive {
        Resolver::primitive(self, op, call_path)
    }

    fn suspect(&mut self, space: SpaceId, stack: StackId) -> Option<Suspect> {
        Resolver::suspect(self, space, stack)
    }

    fn between_sleeps(&mut self, space: SpaceId, call_path: &[Frame]) -> Option<Between> {
        Resolver::between_sleeps(self, space, call_path)
    }

    fn is_of_recording(&mut self, stack: StackId) -> bool {
        Resolver::is_of_recording(self, stack)
    }

    fn sampled_at(&self, stack: StackId) -> Option<u64> {
        Resolver::sampled_at(self, stack)
    }

    fn accesses(&mut self, space: SpaceId, pointers: &Pointers) -> Vec<Access> {
        Resolver::accesses(self, space, pointers)
    }

    fn frames_at(&mut self, space: SpaceId, address: u64) -> Vec<Frame> {
        Resolver::frames_at(self, space, address)
    }

    fn problems(&mut self) -> Vec<Problem> {
        Resolver::problems(self)
    }
}
