//! How much can be won at most.

use super::*;

#[test]
fn a_bound_takes_in_all_that_may_go_with_the_cause() {
    let left = |facts: &Facts| {
        let found = all(facts);
        let switching = found.iter().find(|finding| finding.kind == Kind::ExcessiveSwitching).unwrap();
        switching.bound.map(|bound| 1.0 / bound / (1.0 - UNSEEN))
    };
    let near = |value: Option<f64>, expected: f64| value.is_some_and(|value| (value - expected).abs() < 1e-9);
    let mut facts = handing_over();
    facts.totals.user_samples = 200;
    (facts.symbols[0].hits, facts.symbols[0].inclusive) = (90, 60);
    facts.symbols.extend([code("main.parse", Role::Program, 30), code("memcpy", Role::Runtime, 10)]);
    facts.symbols.extend([code("malloc", Role::Runtime, 20), code("__schedule", Role::Scheduler, 50)]);
    let at_least = |part: f64, samples: f64| part - 2.0 * (part * (1.0 - part) / samples).sqrt();
    assert!(near(left(&facts), at_least(0.2, 200.0)), "40 of 200 samples are work");
    facts.symbols[3].hits = 130;
    assert!(near(left(&facts), 0.5), "no less than what the cause costs");
    facts.symbols.retain(|code| code.frame.role != Role::Program);
    assert_eq!(left(&facts), None, "hardly anything is left");
}

#[test]
fn what_waits_for_a_lock_cost_bounds_the_gain_too() {
    let mut facts = hot();
    let left = |facts: &Facts| {
        let found = all(facts);
        let lock = found.iter().find(|finding| finding.kind == Kind::HotLock).unwrap();
        1.0 / lock.bound.unwrap() / (1.0 - lock.severity) / (1.0 - UNSEEN)
    };
    let near = |value: f64, expected: f64| (value - expected).abs() < 1e-9;
    assert!(near(left(&facts), 1.0), "no samples: only the time goes");
    facts.totals.user_samples = 400;
    facts.symbols = vec![code("price", Role::Program, 400)];
    assert!(near(left(&facts), 1.0), "all is work");
    facts.symbols = vec![code("price", Role::Program, 200), code("pthread_mutex_lock", Role::Lock, 200)];
    assert!(near(left(&facts), 0.45), "at least 45% is work");
}

#[test]
fn what_calls_of_the_c_library_cost_goes_with_its_own_lock() {
    let mut facts = hot();
    let bound = |facts: &Facts| all(facts).into_iter().find(|one| one.kind == Kind::HotLock).unwrap().bound.unwrap();
    facts.locks[0].primitive = Primitive::Libc;
    let path = [("__lll_lock_wait_private", Role::Lock), ("mktime", Role::Runtime), ("parse", Role::Program)];
    let call_path = path.iter().map(|(name, role)| Frame::named(name, *role)).collect();
    facts.locks[0].wait_sites = vec![Site { call_path, count: 1, ns: S }];
    facts.totals.user_samples = 400;
    let mktime = Code { inclusive: 360, ..code("mktime", Role::Runtime, 400) };
    facts.symbols = vec![mktime.clone()];
    assert!((bound(&facts) - 1.0 / 0.1 / (1.0 - UNSEEN)).abs() < 1e-9, "{}", bound(&facts));
    facts.symbols = vec![Code { inclusive: 0, ..mktime }];
    assert!(bound(&facts) < 5.0, "only what is waited goes");
}

#[test]
fn a_bound_is_what_its_kind_knows_to_go_with_it() {
    let found = |facts: &Facts, kind| all(facts).into_iter().find(|one| one.kind == kind).unwrap();
    let near = |value: f64, expected: f64| (value - expected).abs() < 1e-9;
    let beyond_severity = |facts: &Facts, kind| {
        let found = found(facts, kind);
        found.bound.unwrap_or(f64::INFINITY) * (1.0 - found.severity) * (1.0 - UNSEEN)
    };
    assert!(beyond_severity(&polling(), Kind::Polling) > 1.01, "all sleeps may go");
    assert!(beyond_severity(&alone(), Kind::SerialPhase) > 1.01, "all that one does alone may");
    assert_eq!(found(&queued_tasks(), Kind::SmallPool).bound, None, "nobody sees how many tasks wait");
    assert!(near(beyond_severity(&sleeper(), Kind::SleepingHolder), 1.0), "the holder sleeps");
    let mut writes = sleeper();
    off(&mut writes, 0, Reason::Io, 1, 100 * MS);
    assert!(beyond_severity(&writes, Kind::SleepingHolder) > 1.05, "what it writes may go, too");
    let mut facts = faulting();
    let code = |function, hits| Code { frame: Frame::named(function, Role::Program), hits, inclusive: hits };
    facts.symbols.extend([code("fill", 50), code("draw", 150)]);
    let apart = beyond_severity(&facts, Kind::PageFaults);
    facts.kernel_sites = vec![site("other")];
    assert!(apart > beyond_severity(&facts, Kind::PageFaults), "most of what faults may go as well");
}
