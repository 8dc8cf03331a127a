//! Looks at settings, limits and capabilities, and opens one event of each kind on itself.

use std::fs;
use std::io;
use std::os::fd::{FromRawFd as _, OwnedFd};
use std::path::Path;

use perf_event_open_sys as perf;

use perf::bindings as b;

use super::ids::{self, Ids};
use super::{machine, status};
use crate::doctor::{Container, Probe, Seeing, Tracefs, Trial};

/// The facts about this machine, user and process.
pub fn probe() -> Option<Probe> {
    let own = status::own_status();
    let setting = |name: &str| number(&fs::read_to_string(Path::new("/proc/sys/kernel").join(name)).ok()?);
    let wanted = ["sys_enter_futex", "sched_switch", "sched_waking"];
    // Kept to the end of the trials, so that closing what was tried is quick.
    let ids = ids::find(&wanted).unwrap_or_default();
    Some(Probe {
        paranoid: setting("perf_event_paranoid").map(|level| level as i32),
        // SAFETY: asks for a number.
        uid: unsafe { libc::geteuid() },
        capabilities: status::hexadecimal(&own, "CapEff:"),
        bounding: status::hexadecimal(&own, "CapBnd:"),
        user_namespace: fs::read_to_string("/proc/self/uid_map").is_ok_and(|map| is_mapped(&map)),
        pid_namespace: !machine::in_first_pid_namespace(),
        container: container(),
        filtered: status::field(&own, "Seccomp:").is_some_and(|mode| mode == "2"),
        kernel: status::kernel(),
        cpus: online_cpus(),
        tracefs: tracefs(),
        mlock_kib: setting("perf_event_mlock_kb").map(|kib| kib as u64),
        memlock_bytes: limit(libc::RLIMIT_MEMLOCK).0,
        open_files: limit(libc::RLIMIT_NOFILE).1,
        max_sample_hz: setting("perf_event_max_sample_rate").map(|hz| hz as u64),
        kptr_restrict: setting("kptr_restrict").map(|level| level as i32),
        ptrace_scope: setting("yama/ptrace_scope").map(|level| level as i32),
        bpf: Some(super::bpf::unsuitable().map_or(Ok(()), Err)),
        pmu: ["cpu", "cpu_core", "armv8_pmuv3_0"]
            .iter()
            .any(|name| Path::new("/sys/bus/event_source/devices").join(name).exists()),
        trials: trials(&ids),
    })
}

fn trials(ids: &Ids) -> Vec<(Seeing, Trial)> {
    let sched_switch = ids.get("sched_switch").map(|id| tracepoint(id, false));
    let waking = ids.get("sched_waking").map(|id| tracepoint(id, false));
    let reasons = match (sched_switch.map(|attr| trial(Some(attr), true)), waking) {
        (Some(Trial::Works), Some(waking)) => trial(Some(waking), true),
        (Some(other), _) => other,
        (None, _) => Trial::Unknown,
    };
    vec![
        (Seeing::Switches, trial(Some(switches()), true)),
        (Seeing::Futexes, trial(ids.get("sys_enter_futex").map(|id| tracepoint(id, true)), true)),
        (Seeing::Samples, trial(Some(clock(true)), true)),
        (Seeing::Kernel, trial(Some(clock(false)), true)),
        (Seeing::Reasons, reasons),
        (Seeing::ForeignWakings, trial(waking, false)),
        (Seeing::Hardware, trial(Some(cycles()), true)),
    ]
}

/// Opens an event on this thread, or on the first CPU for all, and closes it.
fn trial(attr: Option<b::perf_event_attr>, on_self: bool) -> Trial {
    let Some(mut attr) = attr else { return Trial::Unknown };
    let (pid, cpu) = if on_self { (0, -1) } else { (-1, 0) };
    // SAFETY: the attribute is as large as it says and lives through the call.
    let fd = unsafe { perf::perf_event_open(&mut attr, pid, cpu, -1, b::PERF_FLAG_FD_CLOEXEC.into()) };
    if fd < 0 {
        return Trial::Refused(io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO));
    }
    // SAFETY: a fresh descriptor that nobody else owns.
    drop(unsafe { OwnedFd::from_raw_fd(fd) });
    Trial::Works
}

fn attr(kind: u32, config: u64, only_user: bool) -> b::perf_event_attr {
    let mut attr = b::perf_event_attr { type_: kind, config, ..Default::default() };
    attr.size = size_of::<b::perf_event_attr>() as u32;
    attr.set_disabled(1);
    attr.set_exclude_kernel(only_user.into());
    attr.set_exclude_hv(1);
    attr
}

fn switches() -> b::perf_event_attr {
    let mut attr = attr(b::PERF_TYPE_SOFTWARE, b::PERF_COUNT_SW_DUMMY.into(), true);
    attr.set_context_switch(1);
    attr
}

fn tracepoint(id: u32, only_user: bool) -> b::perf_event_attr {
    let mut attr = attr(b::PERF_TYPE_TRACEPOINT, id.into(), only_user);
    attr.__bindgen_anon_1.sample_period = 1;
    attr.sample_type = u64::from(b::PERF_SAMPLE_RAW) | u64::from(b::PERF_SAMPLE_CALLCHAIN);
    attr.set_exclude_callchain_kernel(only_user.into());
    attr
}

fn clock(only_user: bool) -> b::perf_event_attr {
    let mut attr = attr(b::PERF_TYPE_SOFTWARE, b::PERF_COUNT_SW_CPU_CLOCK.into(), only_user);
    attr.__bindgen_anon_1.sample_period = 1_000_000;
    attr.sample_type = u64::from(b::PERF_SAMPLE_IP) | u64::from(b::PERF_SAMPLE_CALLCHAIN);
    attr
}

fn cycles() -> b::perf_event_attr {
    attr(b::PERF_TYPE_HARDWARE, b::PERF_COUNT_HW_CPU_CYCLES.into(), true)
}

fn number(text: &str) -> Option<i64> {
    text.trim().parse().ok()
}

/// Whether this is another map of users than that of the whole machine.
fn is_mapped(uid_map: &str) -> bool {
    uid_map.split_ascii_whitespace().ne(["0", "0", "4294967295"])
}

fn container() -> Container {
    if Path::new("/run/.containerenv").exists() {
        Container::Podman
    } else if Path::new("/.dockerenv").exists() {
        Container::Docker
    } else {
        Container::None
    }
}

fn tracefs() -> Tracefs {
    if ids::TRACEFS.iter().any(|root| Path::new(root).join("events/sched/sched_switch/id").exists()) {
        return Tracefs::Readable;
    }
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let mounted = mounts.lines().any(|line| line.split(' ').nth(2) == Some("tracefs"));
    if mounted { Tracefs::Unreadable } else { Tracefs::Absent }
}

fn online_cpus() -> u32 {
    // SAFETY: asks for a number.
    u32::try_from(unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) }).unwrap_or(1)
}

/// The number of a limit, in the type that the C library has for it.
#[cfg(target_env = "gnu")]
type Resource = libc::__rlimit_resource_t;
#[cfg(not(target_env = "gnu"))]
type Resource = libc::c_int;

/// A limit of this process: soft and hard.
fn limit(of: Resource) -> (u64, u64) {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the structure lives through the call, which fills it.
    unsafe { libc::getrlimit(of, &mut limit) };
    (limit.rlim_cur, limit.rlim_max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maps_of_users_are_understood() {
        assert!(!is_mapped("         0          0 4294967295\n"));
        assert!(is_mapped("         0       1000          1\n"));
    }

    #[test]
    fn this_machine_is_read() {
        let probe = probe().unwrap();
        assert!(probe.cpus > 0 && !probe.kernel.is_empty());
        assert_eq!(probe.trials.len(), 7);
    }
}
