//! Code that spins: which functions, and how many samples are in them.

use std::collections::BTreeMap;

use crate::facts::{Facts, Hotspot, HotspotClass};
use crate::names::Frame;

/// From which share of its function's samples on a pause makes all of them spinning.
const LEAST_PAUSE_SHARE: f64 = 0.25;

/// Functions that do nothing but wait on a CPU: of glibc, the Go runtime, MySQL, PostgreSQL, parking_lot and Rust's
/// std.
const SPINNERS: &[&str] = &[
    "pthread_spin_lock",
    "__pthread_spin_lock",
    "runtime.procyield",
    "runtime.procyield.abi0",
    "runtime.osyield",
    "ut_delay",
    "perform_spin_delay",
    "s_lock",
    "parking_lot_core::spinwait::SpinWait::spin",
    "std::sys::sync::mutex::futex::Mutex::spin",
];

/// Functions that spin, with their samples.
pub(crate) fn spinning(facts: &Facts) -> BTreeMap<String, (&Frame, u64)> {
    let mut places: BTreeMap<String, (&Frame, u64)> = BTreeMap::new();
    for code in facts.symbols.iter().filter(|code| is_spinner(&code.frame)) {
        places.entry(key(&code.frame)).or_insert((&code.frame, 0)).1 += code.hits;
    }
    for hotspot in facts.hotspots.iter().filter(|hotspot| hotspot.class != HotspotClass::Atomic) {
        if is_spinner(&hotspot.frame) {
            continue;
        }
        let place = places.entry(key(&hotspot.frame)).or_insert((&hotspot.frame, 0));
        place.1 += hotspot.hits;
    }
    for hotspot in facts.hotspots.iter().filter(|hotspot| spins_throughout(hotspot)) {
        let place = places.entry(key(&hotspot.frame)).or_insert((&hotspot.frame, 0));
        place.1 = place.1.max(hotspot.function_hits);
    }
    places
}

/// Whether all samples of its function are of spinning.
pub(crate) fn spins_throughout(hotspot: &Hotspot) -> bool {
    hotspot.class == HotspotClass::Pause && hotspot.hits as f64 >= LEAST_PAUSE_SHARE * hotspot.function_hits as f64
}

pub(crate) fn is_spinner(frame: &Frame) -> bool {
    frame.function.as_deref().is_some_and(|function| SPINNERS.contains(&function))
}

/// What a function is known by: its name, or where it begins, as far as that is known.
pub(crate) fn key(frame: &Frame) -> String {
    match &frame.function {
        Some(function) => function.to_string(),
        None => format!("{}+{:#x}", frame.module, if frame.start > 0 { frame.start } else { frame.offset }),
    }
}

/// Samples in spinning code.
pub(crate) fn hits(facts: &Facts) -> u64 {
    spinning(facts).values().map(|(_, hits)| hits).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::Role;

    #[test]
    fn two_calls_of_a_nameless_function_are_in_one() {
        let call = |offset, start| Frame { offset, start, function: None, ..Frame::named("", Role::Program) };
        assert_eq!(key(&call(0x135f, 0x1300)), key(&call(0x137f, 0x1300)));
        assert_ne!(key(&call(0x135f, 0)), key(&call(0x137f, 0)), "where it begins is not known");
    }
}
