//! Whether this machine and user can capture by BPF, as far as it shows without a trial.

use std::path::Path;

use super::super::{machine, status};
use crate::doctor::{self, CAP_BPF, CAP_PERFMON, CAP_SYS_ADMIN};

/// What it depends on; a seam for tests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// Major and minor number of the kernel.
    pub release: (u32, u32),
    /// Whether the kernel describes its own types.
    pub btf: bool,
    /// Effective capabilities.
    pub capabilities: u64,
    /// Whether this is the first namespace of processes: programs in the kernel know threads by its numbers.
    pub first_namespace: bool,
    /// Whether the machine is one that the programs know the registers of.
    pub known_machine: bool,
}

impl Facts {
    fn may(&self) -> bool {
        let has = |number: u32| self.capabilities >> number & 1 == 1;
        has(CAP_SYS_ADMIN) || (has(CAP_BPF) && has(CAP_PERFMON))
    }
}

/// The first kernel that has all that the programs use (`bpf_task_pt_regs`).
pub const OLDEST: (u32, u32) = (5, 15);

/// Why capture by BPF cannot be, as the end of a sentence; `None` if nothing is known to be in the way.
pub fn unsuitable() -> Option<String> {
    judge(&facts())
}

/// The same of these facts.
pub fn judge(facts: &Facts) -> Option<String> {
    if !facts.known_machine {
        return Some("it needs an x86-64 machine".into());
    }
    if facts.release < OLDEST {
        let (major, minor) = facts.release;
        return Some(format!("it needs Linux {}.{}, and this is {major}.{minor}", OLDEST.0, OLDEST.1));
    }
    if !facts.btf {
        return Some("this kernel was built without BTF: /sys/kernel/btf/vmlinux is not there".into());
    }
    if !facts.may() {
        return Some(
            "it needs the capabilities CAP_BPF and CAP_PERFMON; \
             `sudo setcap cap_bpf,cap_perfmon+ep $(command -v holdup)` grants them"
                .into(),
        );
    }
    if !facts.first_namespace {
        return Some("inside a container, the kernel's programs know threads by other numbers".into());
    }
    None
}

/// Major and minor number of the kernel that runs.
pub fn release() -> (u32, u32) {
    doctor::release(&status::kernel())
}

fn facts() -> Facts {
    Facts {
        release: release(),
        btf: Path::new("/sys/kernel/btf/vmlinux").exists(),
        capabilities: status::effective_capabilities(),
        first_namespace: machine::in_first_pid_namespace(),
        known_machine: cfg!(target_arch = "x86_64"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_thing_that_is_missing_is_told_in_one_sentence() {
        let both = 1 << CAP_BPF | 1 << CAP_PERFMON;
        let fine = Facts { release: (6, 1), btf: true, capabilities: both, first_namespace: true, known_machine: true };
        assert_eq!(judge(&fine), None);
        assert_eq!(judge(&Facts { capabilities: 1 << CAP_SYS_ADMIN, ..fine.clone() }), None);
        let told = |facts: Facts, word: &str| {
            let why = judge(&facts).unwrap_or_default();
            assert!(why.contains(word) && !why.ends_with('.') && !why.contains('\n'), "{why}");
        };
        told(Facts { release: (5, 7), ..fine.clone() }, "this is 5.7");
        told(Facts { btf: false, ..fine.clone() }, "BTF");
        told(Facts { capabilities: 1 << CAP_PERFMON, ..fine.clone() }, "setcap cap_bpf,cap_perfmon+ep");
        told(Facts { capabilities: 0, ..fine.clone() }, "CAP_BPF");
        told(Facts { first_namespace: false, ..fine.clone() }, "container");
        told(Facts { known_machine: false, ..fine }, "x86-64");
    }
}
