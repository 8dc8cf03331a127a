//! How a remedy is kept: the line that starts the program under it, and what makes it permanent.

use holdup_control::RwPolicy;

use super::allocator::Allocator;
use super::program::Program;
use super::remedy::{Change, Remedy};
use super::tunable;
use crate::shell::quoted;

/// How to keep a remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Keep {
    /// The line for a shell.
    pub line: String,
    /// What makes it permanent, as a sentence.
    pub permanent: String,
}

/// How to keep this remedy for this program.
pub fn keep(remedy: &Remedy, program: &Program) -> Keep {
    let line = program.line();
    let (line, permanent) = match &remedy.change {
        Change::Lock(policy) => (
            format!("holdup with --lock {policy} -- {line}"),
            "Put this line into the script or service file (systemd: ExecStart=) that starts the program; \
             --lock-for does it for single locks."
                .to_owned(),
        ),
        Change::Rw(policy) => (
            format!("holdup with --rw {policy} -- {line}"),
            match policy {
                RwPolicy::PreferWriter => {
                    "In its sources, for the lock that starves its writer: pthread_rwlockattr_setkind_np with \
                     PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP if no thread that reads it takes it again; or a lock that \
                     serves both sides, as RwAdaptive of holdup-locks (in C++ holdup::shared_mutex)."
                }
                _ => "Put this line into the script or service file (systemd: ExecStart=) that starts the program.",
            }
            .to_owned(),
        ),
        Change::Cpus(cpus) => {
            let list = ranges(cpus);
            let permanent =
                format!("For a service: CPUAffinity={list} in its unit; in a container: cpuset-cpus={list}.");
            (format!("taskset -c {list} {line}"), permanent)
        }
        Change::SliceNs(ns) => (
            format!("holdup with --slice {} -- {line}", span(*ns)),
            "The program can set it for itself: sched_setattr with sched_runtime as the slice (Linux 6.12 and later)."
                .to_owned(),
        ),
        Change::Batch => {
            (format!("chrt --batch 0 {line}"), "For a service: CPUSchedulingPolicy=batch in its unit.".to_owned())
        }
        Change::Malloc(allocator) => {
            let (name, value) = allocator.variable();
            let setting = format!("{name}={}", quoted(&value));
            let inside = match allocator {
                Allocator::Keeping => "; the program can set it for itself: mallopt(M_TRIM_THRESHOLD, 1 << 30)",
                Allocator::Other(_) => "; or link the program with it",
            };
            (format!("env {setting} {line}"), format!("For a service: Environment={setting} in its unit{inside}."))
        }
        Change::Tunable(name, value) => setting(tunable::VARIABLE, &format!("{name}={value}"), &line),
        Change::FutexHash(slots) => {
            let slots = slots.map_or("shared".to_owned(), |slots| slots.to_string());
            let permanent = "The program can set it for itself, before its first thread: prctl(PR_FUTEX_HASH, \
                             PR_FUTEX_HASH_SET_SLOTS, N, 0), with N as the slots and 0 for the shared table.";
            (format!("holdup with --futex-hash {slots} -- {line}"), permanent.to_owned())
        }
        Change::Environment(name, value) => setting(name, value, &line),
        Change::Argument(name, value) => {
            let permanent = format!("Make {value} the value of {name} wherever the program is started or configured.");
            (program.with(name, value).line(), permanent)
        }
    };
    Keep { line, permanent }
}

/// A variable of the environment.
fn setting(name: &str, value: &str, line: &str) -> (String, String) {
    let setting = format!("{name}={}", quoted(value));
    (format!("env {setting} {line}"), format!("For a service: Environment={setting} in its unit."))
}

/// A slice with all its digits.
fn span(ns: u64) -> String {
    match ns {
        ns if ns.is_multiple_of(1_000_000) => format!("{}ms", ns / 1_000_000),
        ns => format!("{}us", ns / 1000),
    }
}

/// `0-3,8` for 0, 1, 2, 3 and 8.
fn ranges(cpus: &[u32]) -> String {
    let mut spans: Vec<(u32, u32)> = Vec::new();
    for &cpu in cpus {
        match spans.last_mut() {
            Some((_, last)) if *last + 1 == cpu => *last = cpu,
            _ => spans.push((cpu, cpu)),
        }
    }
    let text = |(first, last): &(u32, u32)| {
        if first == last { first.to_string() } else { format!("{first}-{last}") }
    };
    spans.iter().map(text).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;
    use holdup_control::Policy;

    #[test]
    fn every_kind_of_remedy_has_a_line_that_a_shell_can_take() {
        let words = ["./a b", "-t", "{N}"].map(std::ffi::OsString::from).to_vec();
        let program = Program::new(words, vec![("N".to_owned(), "4".to_owned())]).unwrap();
        let of = |change| keep(&Remedy { name: String::new(), change }, &program).line;
        assert_eq!(of(Change::Lock(Policy::Throttle(1))), "holdup with --lock throttle:1 -- './a b' -t 4");
        assert_eq!(of(Change::Rw(RwPolicy::PreferWriter)), "holdup with --rw prefer-writer -- './a b' -t 4");
        assert_eq!(of(Change::Cpus(vec![0, 1, 2, 5])), "taskset -c 0-2,5 './a b' -t 4");
        assert_eq!(of(Change::SliceNs(20_000_000)), "holdup with --slice 20ms -- './a b' -t 4");
        assert_eq!(of(Change::Batch), "chrt --batch 0 './a b' -t 4");
        assert!(of(Change::Malloc(Allocator::Keeping)).starts_with("env GLIBC_TUNABLES=glibc.malloc.trim"));
        assert_eq!(of(Change::Environment("A".to_owned(), "x y".to_owned())), "env A='x y' './a b' -t 4");
        let tunable = Change::Tunable("glibc.malloc.tcache_count".to_owned(), "0".to_owned());
        assert_eq!(of(tunable), "env GLIBC_TUNABLES=glibc.malloc.tcache_count=0 './a b' -t 4");
        assert_eq!(of(Change::FutexHash(Some(64))), "holdup with --futex-hash 64 -- './a b' -t 4");
        assert_eq!(of(Change::FutexHash(None)), "holdup with --futex-hash shared -- './a b' -t 4");
        assert_eq!(of(Change::Argument("N".to_owned(), "1".to_owned())), "'./a b' -t 1");
    }
}
