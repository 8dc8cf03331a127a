//! page-faults: the CPU time goes to pages that are touched for the first time, or threads wait for pages from a
//! device.
//!
//! Signs and thresholds:
//! - at least [`LEAST_SAMPLES`] CPU samples below the kernel's page-fault handler, and [`LEAST_SHARE`] of all samples;
//!   or, where the kernel may not be sampled, as many that at 2 us each are that share of the CPU time, but no more
//!   than what the kernel used; or
//! - waits for pages from a device take [`LEAST_SHARE`] of the threads' working time.
//!
//! The place is where most of them happen.
//!
//! How it can be wrong: without the rights to sample the kernel, what a fault costs is only assumed. A program that
//! fills fresh memory once must take its faults; larger pages make them fewer.

use super::weigh::{self, MS, count, part};
use super::{Cure, Finding, Kind, Rule, Subject};
use crate::facts::{Facts, Leaf, Reason, Site};

pub(super) const RULE: Rule =
    Rule { kind: Kind::PageFaults, judge, evidence: &["fault_share", "fault_samples", "device_share"] };

pub(super) const LEAST_SAMPLES: u64 = 50;
pub(super) const LEAST_SHARE: f64 = 0.2;
const LEAST_NS: u64 = 20 * MS;
/// What a fault costs that fills a page with zeros, give or take half of it.
const FAULT_NS: u64 = 2 * weigh::US;

/// Functions of the kernel that a fault enters by.
const HANDLERS: &[&str] =
    &["asm_exc_page_fault", "exc_page_fault", "do_user_addr_fault", "handle_mm_fault", "do_page_fault"];

fn judge(facts: &Facts) -> Vec<Finding> {
    let handler = |code: &&crate::Code| code.frame.function.as_deref().is_some_and(|name| HANDLERS.contains(&name));
    let hits = facts.symbols.iter().filter(handler).map(|code| code.inclusive).max().unwrap_or(0);
    let fault_share = weigh::share(hits, weigh::samples(facts)).min(1.0);
    let device_ns: u64 =
        facts.threads.iter().filter_map(|thread| thread.off.get(&Reason::PageFault)).map(|time| time.ns).sum();
    let device_share = weigh::share(device_ns, weigh::work_ns(facts)).min(1.0);
    let counted = counted_share(facts).filter(|share| *share >= LEAST_SHARE);
    let sampled = (hits >= LEAST_SAMPLES && fault_share >= LEAST_SHARE) || counted.is_some();
    let fault_share = counted.unwrap_or(fault_share);
    let waits = device_ns >= LEAST_NS && device_share >= LEAST_SHARE;
    if !sampled && !waits {
        return Vec::new();
    }
    let (cure, severity, place) = if waits {
        let place = weigh::worst_site(facts, |row| row.leaf == Leaf::Memory).map(|(_, site)| site);
        (Cure::PagesAhead, device_share, place)
    } else {
        let place = facts.kernel_sites.first().or(facts.fault_sites.first()).cloned();
        (Cure::LargerPages, weigh::of_work(facts, fault_share), place)
    };
    let function = place.as_ref().and_then(Site::caller).and_then(|frame| frame.function.as_ref());
    let subject = function.map(|function| Subject::Function(function.to_string()));
    vec![Finding {
        severity,
        subjects: subject.into_iter().collect(),
        place,
        evidence: vec![
            part("fault_share", fault_share),
            count("fault_samples", hits),
            part("device_share", device_share),
        ],
        ..Finding::new(Kind::PageFaults, cure, weigh::record_again())
    }]
}

/// The share of the CPU time that as many page faults as the kernel counted take, where it may not be sampled.
fn counted_share(facts: &Facts) -> Option<f64> {
    let ending = facts.ending.as_ref().filter(|_| facts.totals.kernel_samples.is_none())?;
    let (user_ns, kernel_ns) = ending.cpu_ns()?;
    let faults_ns = (ending.faults? * FAULT_NS).min(kernel_ns);
    (faults_ns >= LEAST_SAMPLES * MS).then(|| weigh::share(faults_ns, user_ns.saturating_add(kernel_ns)))
}
