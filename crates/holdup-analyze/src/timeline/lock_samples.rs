//! Where CPU samples tell contention: in the functions of locks, in the kernel's part of their work, or elsewhere.

use crate::facts::LockSamples;
use crate::names::{Frame, Role};

/// Counts samples with this call path.
pub(super) fn add(counts: &mut LockSamples, call_path: &[Frame], hits: u64) {
    let user = call_path.iter().position(|frame| !is_of_kernel(frame)).unwrap_or(call_path.len());
    let (kernel, own) = call_path.split_at(user);
    // What a lock calls of a language's library is the lock's work: an atomic, a wrapper of a system call.
    let caller = own.iter().find(|frame| frame.role != Role::Runtime);
    let by_lock = caller.is_some_and(|frame| frame.role == Role::Lock);
    let switches = || kernel.iter().any(|frame| frame.role == Role::Scheduler);
    let count = match kernel.is_empty() {
        true if by_lock => &mut counts.own,
        false if by_lock || switches() => &mut counts.kernel,
        _ => &mut counts.elsewhere,
    };
    *count += hits;
}

fn is_of_kernel(frame: &Frame) -> bool {
    matches!(frame.role, Role::Kernel | Role::Scheduler)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(names: &[(&str, Role)]) -> [u64; 3] {
        let call_path: Vec<Frame> = names.iter().map(|(name, role)| Frame::named(name, *role)).collect();
        let mut counts = LockSamples::default();
        add(&mut counts, &call_path, 1);
        [counts.own, counts.kernel, counts.elsewhere]
    }

    #[test]
    fn a_sample_is_the_locks_the_kernels_or_neither() {
        use Role::{Kernel, Lock, Program, Runtime, Scheduler};
        const OWN: [u64; 3] = [1, 0, 0];
        const KERNEL: [u64; 3] = [0, 1, 0];
        const ELSEWHERE: [u64; 3] = [0, 0, 1];
        let (load, acquire, work) = (("load", Runtime), ("acquire", Lock), ("work", Program));
        assert_eq!(counted(&[acquire, work]), OWN);
        assert_eq!(counted(&[load, acquire, work]), OWN, "the lock waits with it");
        assert_eq!(counted(&[load, work, acquire]), ELSEWHERE, "the program's own, under a lock");
        assert_eq!(counted(&[("unlock_irq", Kernel), ("futex_wait", Scheduler), acquire]), KERNEL);
        assert_eq!(counted(&[("eventfd_read", Kernel), ("read", Runtime), acquire]), KERNEL);
        assert_eq!(counted(&[("exit_loop", Kernel), ("schedule", Scheduler), work]), KERNEL);
        assert_eq!(counted(&[("copy_page", Kernel), work]), ELSEWHERE);
        assert_eq!(counted(&[]), ELSEWHERE);
    }
}
