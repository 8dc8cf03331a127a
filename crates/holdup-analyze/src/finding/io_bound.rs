//! io-bound: what the program takes is mostly time in which a device works for it: its own waits, and those of threads
//! that wait for one that waits for the device.
//!
//! Signs and thresholds:
//! - at least [`LEAST_SHARE`] of the elapsed time (by the critical path where the program ends and is mostly busy,
//!   otherwise of the time that its threads had something to do), [`LEAST_NS`] in all.
//!
//! The place is the call that most of it comes from. `fsync` and its like are named as such: one that serves several
//! threads is a group commit.
//!
//! How it can be wrong: for an ordinary user, calls that are not recorded by name are known only as far as looks at
//! /proc met them. A program that does nothing but copy files is as it must be; the finding then says what a faster
//! device would bring.

use super::weigh::{self, MS, count, ns, part};
use super::{Cure, Finding, Kind, Rule, Subject};
use crate::facts::{Facts, Leaf, Reason, Site};
use crate::names::pattern::plain;

pub(super) const RULE: Rule =
    Rule { kind: Kind::IoBound, judge, evidence: &["io_share", "io_ns", "waits", "wait_ns_mean", "others_wait_share"] };

pub(super) const LEAST_SHARE: f64 = 0.2;
pub(super) const LEAST_NS: u64 = 20 * MS;

fn judge(facts: &Facts) -> Vec<Finding> {
    let io_share = weigh::elapsed_share(facts, Leaf::Io);
    let times = facts.threads.iter().filter_map(|thread| thread.off.get(&Reason::Io));
    let (waits, io_ns) = times.fold((0, 0), |sum, time| (sum.0 + time.count, sum.1 + time.ns));
    if io_share < LEAST_SHARE || io_ns < LEAST_NS {
        return Vec::new();
    }
    let others: u64 =
        facts.blame.iter().filter(|row| row.leaf == Leaf::Io && row.waiter != row.thread).map(|row| row.ns).sum();
    let worst = weigh::worst_site(facts, |row| row.leaf == Leaf::Io);
    let mut subjects = Vec::new();
    let call = worst.as_ref().and_then(|(_, site)| call(site));
    let cure = if call.as_deref().is_some_and(reads) { Cure::FewerReads } else { Cure::FasterIo };
    subjects.extend(call.map(Subject::Function));
    if let Some((tid, _)) = &worst {
        subjects.push(weigh::thread_subject(facts, *tid));
    }
    vec![Finding {
        severity: io_share,
        subjects,
        place: worst.map(|(_, site)| site),
        evidence: vec![
            part("io_share", io_share),
            ns("io_ns", io_ns),
            count("waits", waits),
            ns("wait_ns_mean", io_ns.checked_div(waits).unwrap_or(0)),
            part("others_wait_share", weigh::share(others, weigh::demand_ns(facts))),
        ],
        ..Finding::new(Kind::IoBound, cure, weigh::record_again())
    }]
}

/// The innermost function with a name that is not the kernel's: `fsync`, `pwrite64`. What the C library calls it inside
/// (`__libc_pwrite64`, `__GI___libc_read`) nobody has written.
fn call(site: &Site) -> Option<String> {
    use crate::names::Role;
    let user = site.call_path.iter().find(|frame| !matches!(frame.role, Role::Kernel | Role::Scheduler))?;
    let name = user.function.as_deref()?;
    let bare = plain(name);
    Some(bare.strip_prefix("libc_").unwrap_or(&bare).to_owned())
}

/// Whether a call reads, and so gains nothing by writing less.
fn reads(call: &str) -> bool {
    const CALLS: &[&str] = &["read", "pread", "getdents", "preadv", "open", "stat", "fstat", "lstat", "statx", "fgets"];
    let base = call.trim_end_matches(|c: char| c.is_ascii_digit()).trim_end_matches("_nocancel");
    CALLS.contains(&base) || ["readdir", "openat", "readv"].iter().any(|name| base.starts_with(name))
}
