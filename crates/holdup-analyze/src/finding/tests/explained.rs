//! A cause is printed, its consequences are not.

use super::super::explain::leave_out_consequences;
use super::*;

fn evidence(name: &'static str, value: f64) -> Evidence {
    Evidence { name, value, unit: Unit::Count }
}

/// A finding about lock 0, and threads 1 and 2.
fn finding(kind: Kind, values: &[(&'static str, f64)]) -> Finding {
    let thread = |n: u32| Subject::Thread { tid: Tid(PID + n), name: String::new() };
    let lock =
        Subject::Lock { number: LockNumber(0), name: LockName::Address, addr: None, primitive: Primitive::Mutex };
    Finding {
        bound: None,
        kind,
        severity: 0.5,
        subjects: vec![lock, thread(1), thread(2)],
        place: Some(Site { call_path: vec![Frame::named("pthread_mutex_lock", Role::Lock)], count: 1, ns: 0 }),
        evidence: values.iter().map(|(name, value)| evidence(name, *value)).collect(),
        moments: Vec::new(),
        cure: Cure::CoarserWork,
        proof: weigh::record_again(),
    }
}

fn program(mut found: Finding) -> Finding {
    found.place = Some(site("compute"));
    found
}

fn about_lock(mut found: Finding, lock: u32) -> Finding {
    if let Some(Subject::Lock { number, .. }) = found.subjects.first_mut() {
        *number = LockNumber(lock);
    }
    found
}

fn left(facts: &Facts, findings: &[Finding]) -> Vec<Kind> {
    leave_out_consequences(facts, findings.to_vec()).iter().map(|finding| finding.kind).collect()
}

/// 12 waits of each of threads 1 to 4.
fn facts() -> Facts {
    convoy()
}

#[test]
fn a_lock_that_a_worker_has_while_it_works_is_what_its_giver_waits_for() {
    let mut facts = facts();
    let giver = facts.threads[0].tid;
    let of = |tid, ms| (tid, OffTime { count: 9, ns: ms * MS });
    facts.locks[0].wait_ns = histogram(10, MS);
    let rounds = Finding {
        subjects: vec![weigh::thread_subject(&facts, giver)],
        ..finding(Kind::Imbalance, &[("rounds_per_s", 900.0)])
    };
    let lock = about_lock(finding(Kind::HotLock, &[]), 0);
    facts.locks[0].waiters = vec![of(giver, 9), of(Tid(PID + 1), 1)];
    assert_eq!(left(&facts, &[rounds.clone(), lock.clone()]), [Kind::Imbalance]);
    let once = Finding { evidence: vec![], ..rounds.clone() };
    assert_eq!(left(&facts, &[once, lock.clone()]).len(), 2, "no rounds");
    facts.locks[0].waiters = vec![of(giver, 8), of(Tid(PID + 1), 2)];
    assert_eq!(left(&facts, &[rounds, lock]).len(), 2, "others wait for it as well");
}

#[test]
fn who_waits_for_a_safepoint_waits_for_no_pool() {
    let pool = Finding { severity: 0.34, ..finding(Kind::SmallPool, &[]) };
    let mut serial = finding(Kind::SerialPhase, &[("alone_share", 0.34)]);
    assert_eq!(left(&facts(), &[pool.clone(), serial.clone()]), [Kind::SmallPool]);
    serial.cure = Cure::ReachSafepoints;
    assert_eq!(left(&facts(), &[pool.clone(), serial.clone()]), [Kind::SerialPhase]);
    serial.evidence = vec![evidence("alone_share", 0.33)];
    assert_eq!(left(&facts(), &[pool, serial]), [Kind::SmallPool], "more is waited than for that");
}

#[test]
fn who_starts_one_thread_after_the_other_makes_too_many_only_where_cpus_are_full() {
    let mut facts = quiet(1);
    let found =
        [finding(Kind::ThreadChurn, &[]), Finding { cure: Cure::StartSeveral, ..finding(Kind::SerialPhase, &[]) }];
    assert_eq!(left(&facts, &found), [Kind::SerialPhase]);
    facts.threads[0].on_cpu_ns = 3 * S;
    assert_eq!(left(&facts, &found), [Kind::ThreadChurn], "of four CPUs one is left");
}

#[test]
fn of_those_that_explain_each_other_the_worst_is_left() {
    let of = |kind, severity| Finding { severity, ..finding(kind, &[("waiters", 3.0)]) };
    let uneven = of(Kind::Imbalance, 0.43);
    let stage = of(Kind::SlowStage, 0.31);
    let mut serial = of(Kind::SerialPhase, 0.33);
    assert_eq!(left(&facts(), &[uneven.clone(), serial.clone()]), [Kind::Imbalance]);
    assert_eq!(left(&facts(), &[serial.clone(), stage.clone()]), [Kind::SerialPhase]);
    assert_eq!(left(&facts(), &[stage.clone(), uneven.clone()]), [Kind::SlowStage]);
    assert_eq!(left(&facts(), &[uneven.clone(), serial.clone(), stage.clone()]), [Kind::Imbalance]);
    serial.cure = Cure::CallAsynchronously;
    assert_eq!(left(&facts(), &[uneven, serial, stage]), [Kind::SerialPhase], "calls are what is to be changed");
}

#[test]
fn who_waits_for_the_busiest_of_several_waits_for_no_stage() {
    let thread = |kind, waiters| {
        let mut found = finding(kind, &[("waiters", waiters)]);
        found.subjects = vec![Subject::Thread { tid: Tid(PID + 1), name: "clerk-0".to_owned() }];
        found
    };
    let left_of = |waiters| left(&facts(), &[thread(Kind::SlowStage, waiters), thread(Kind::Imbalance, 0.0)]);
    assert_eq!(left_of(1.0), [Kind::Imbalance]);
    assert_eq!(left_of(2.0), [Kind::SlowStage]);
}

#[test]
fn a_pool_is_small_for_the_lock_that_its_workers_wait_for() {
    let mut facts = facts();
    let mut pool = finding(Kind::SmallPool, &[("workers", 2.0)]);
    pool.subjects.remove(0);
    let all = [finding(Kind::SleepingHolder, &[]), pool];
    assert_eq!(left(&facts, &all), [Kind::SleepingHolder, Kind::SmallPool]);
    let lives_ns = facts.threads[1].life_ns();
    facts.locks[0].waiters.iter_mut().for_each(|(_, time)| time.ns = lives_ns / 2);
    assert_eq!(left(&facts, &all), [Kind::SleepingHolder]);
}

#[test]
fn one_thread_that_waits_for_its_device_is_no_pool() {
    let mut facts = facts();
    let pool = |workers| {
        let mut found = program(finding(Kind::SmallPool, &[("workers", workers)]));
        found.subjects = vec![Subject::Thread { tid: Tid(PID + 1), name: "journal".to_owned() }];
        found
    };
    let left_of = |facts: &Facts, workers| left(facts, &[finding(Kind::IoBound, &[]), pool(workers)]);
    assert_eq!(left_of(&facts, 1.0), [Kind::IoBound, Kind::SmallPool]);
    let lives_ns = facts.threads[1].life_ns();
    spent(&mut facts, 1, AccountState::Io, lives_ns / 2);
    assert_eq!(left_of(&facts, 1.0), [Kind::IoBound]);
    assert_eq!(left_of(&facts, 2.0), [Kind::IoBound, Kind::SmallPool]);
}

#[test]
fn a_stage_is_slow_for_its_many_little_calls() {
    let mut facts = kernel();
    let all = [finding(Kind::SlowStage, &[]), finding(Kind::KernelHeavy, &[])];
    facts.counters.extend([(Counter::TransferCalls, 80_000), (Counter::TransferBytes, 80_000)]);
    assert_eq!(left(&facts, &all), [Kind::KernelHeavy]);
    facts.counters.insert(Counter::TransferBytes, 80_000 << 12);
    assert!(left(&facts, &all).contains(&Kind::SlowStage), "the calls move what there is");
}

#[test]
fn a_convoy_explains_what_it_does_to_the_program() {
    let all = [
        finding(Kind::KernelHeavy, &[]),
        finding(Kind::LockConvoy, &[]),
        finding(Kind::HotLock, &[]),
        finding(Kind::ExcessiveSwitching, &[("switches", 1e6)]),
        finding(Kind::WastedWakeups, &[]),
        finding(Kind::HotAtomic, &[]),
        finding(Kind::SpinWaste, &[]),
        finding(Kind::PingPong, &[("round_trips", 24.0)]),
        finding(Kind::SleepingHolder, &[("holders_preempted_share", 0.6)]),
    ];
    assert_eq!(left(&facts(), &all), [Kind::LockConvoy]);
}

#[test]
fn a_convoy_does_not_explain_what_has_nothing_to_do_with_it() {
    let apart = [
        finding(Kind::LockConvoy, &[]),
        about_lock(finding(Kind::HotLock, &[]), 1),
        program(finding(Kind::HotAtomic, &[])),
        finding(Kind::Oversubscription, &[]),
        finding(Kind::Imbalance, &[]),
    ];
    assert_eq!(left(&facts(), &apart), apart.iter().map(|finding| finding.kind).collect::<Vec<_>>());
    let spins = [finding(Kind::LockConvoy, &[]), program(finding(Kind::SpinWaste, &[]))];
    assert_eq!(left(&facts(), &spins).len(), 2);
}

#[test]
fn a_holder_that_sleeps_explains_hot_lock_and_convoy() {
    let asleep = finding(Kind::SleepingHolder, &[("holders_off_share", 0.9)]);
    let all = [finding(Kind::LockConvoy, &[]), asleep, finding(Kind::HotLock, &[])];
    assert_eq!(left(&facts(), &all), [Kind::SleepingHolder]);
}

#[test]
fn too_many_threads_explain_preempted_holders_but_no_sleepers() {
    let preempted = finding(Kind::SleepingHolder, &[("holders_preempted_share", 0.9)]);
    let asleep = finding(Kind::SleepingHolder, &[("holders_off_share", 0.9)]);
    let crowd = finding(Kind::Oversubscription, &[]);
    let involuntary = finding(Kind::ExcessiveSwitching, &[("involuntary_share", 0.5), ("switches", 1e6)]);
    let hot = finding(Kind::HotLock, &[]);
    assert_eq!(left(&facts(), &[crowd.clone(), preempted, hot, involuntary]), [Kind::Oversubscription]);
    assert_eq!(left(&facts(), &[crowd, asleep]), [Kind::Oversubscription, Kind::SleepingHolder]);
}

#[test]
fn voluntary_switches_are_not_explained_by_too_many_threads() {
    let voluntary = finding(Kind::ExcessiveSwitching, &[("involuntary_share", 0.49)]);
    let both = [finding(Kind::Oversubscription, &[]), voluntary];
    assert_eq!(left(&facts(), &both).len(), 2);
}

#[test]
fn a_lock_whose_holders_wait_for_the_interpreter_is_no_finding_beside_it() {
    let mut facts = facts();
    facts.locks.push(LockFacts::default());
    let interpreter = Finding { severity: 0.2, ..finding(Kind::InterpreterLock, &[]) };
    let all = [Finding { severity: 0.5, ..about_lock(finding(Kind::HotLock, &[]), 1) }, interpreter];
    let doing = |reason| BTreeMap::from([(reason, 50 * MS)]);
    assert_eq!(left(&facts, &all), [Kind::HotLock, Kind::InterpreterLock], "nothing is known of its holders");
    facts.locks[1].holder_doing.running_ns = 50 * MS;
    facts.locks[1].holder_doing.off = doing(Reason::Io);
    assert_eq!(left(&facts, &all), [Kind::HotLock, Kind::InterpreterLock]);
    facts.locks[1].holder_doing.off = doing(Reason::Futex(Primitive::Mutex));
    assert_eq!(left(&facts, &all), [Kind::InterpreterLock]);
}

#[test]
fn what_threads_write_in_turn_under_a_lock_is_no_fight_for_a_line() {
    let mut facts = facts();
    facts.locks.push(LockFacts {
        wait_sites: vec![site("book")],
        contended_ns: facts.span_ns() / 2,
        ..LockFacts::default()
    });
    let hot = Finding { severity: 0.2, ..about_lock(finding(Kind::HotLock, &[]), 1) };
    let line = Finding { place: Some(site("book")), ..finding(Kind::HotAtomic, &[("line_words", 1.0)]) };
    let all = [line.clone(), hot.clone()];
    assert_eq!(left(&facts, &all), [Kind::HotLock]);
    let atomic = Finding { evidence: Vec::new(), ..line.clone() };
    assert_eq!(left(&facts, &[atomic, hot.clone()]).len(), 2, "atomic instructions are for many at once");
    let elsewhere = Finding { place: Some(site("count")), ..line };
    assert_eq!(left(&facts, &[elsewhere, hot]).len(), 2);
    facts.locks[1].contended_ns -= 1;
    assert_eq!(left(&facts, &all).len(), 2, "it is mostly free");
}

#[test]
fn a_pair_explains_switches_and_its_own_lock() {
    let mut facts = facts();
    facts.locks[0].waiters.truncate(2);
    let switching = finding(Kind::ExcessiveSwitching, &[("switches", 1e6)]);
    let pair = finding(Kind::PingPong, &[("round_trips", 1e5)]);
    let all = [finding(Kind::HotLock, &[]), switching, finding(Kind::KernelHeavy, &[]), pair];
    assert_eq!(left(&facts, &all), [Kind::PingPong]);
}

#[test]
fn what_goroutines_hand_over_explains_what_shows_on_threads_unless_that_is_more() {
    let of = |kind, severity| Finding { severity, ..finding(kind, &[("hand_over_share", severity)]) };
    for kind in [Kind::PingPong, Kind::SlowStage] {
        let both = |own, other| [of(Kind::ExcessiveSwitching, own), Finding { severity: other, ..finding(kind, &[]) }];
        assert_eq!(left(&facts(), &both(0.6, 0.06)), [Kind::ExcessiveSwitching]);
        assert_eq!(left(&facts(), &both(0.4, 0.6)), [kind]);
    }
}

#[test]
fn many_messages_cost_by_their_number_and_large_ones_by_their_size() {
    let both = |per_s, cure| {
        let interpreter = Finding { cure, ..finding(Kind::InterpreterLock, &[("waits_per_s", per_s)]) };
        left(&facts(), &[finding(Kind::CopiedMessages, &[]), interpreter])
    };
    assert_eq!(both(3_000.0, Cure::LargerTasks), [Kind::InterpreterLock]);
    assert_eq!(both(2_999.0, Cure::LargerTasks), [Kind::CopiedMessages]);
    assert_eq!(both(3_000.0, Cure::LeaveInterpreter), [Kind::CopiedMessages]);
}

#[test]
fn the_locks_of_channels_are_no_cause() {
    let mut within = site("main.produce");
    within.call_path.insert(0, Frame::named("runtime.selectgo", Role::Runtime));
    within.call_path.insert(0, Frame::named("runtime.lock2", Role::Lock));
    let at = |kind, place: &Site| Finding { place: Some(place.clone()), subjects: vec![], ..finding(kind, &[]) };
    let spin = Finding { cure: Cure::BlockInsteadOfLooking, ..at(Kind::SpinWaste, &within) };
    let switching = finding(Kind::ExcessiveSwitching, &[("hand_over_share", 0.9)]);
    for kind in [Kind::HotLock, Kind::HotAtomic] {
        assert_eq!(left(&facts(), &[at(kind, &within), spin.clone()]), [Kind::SpinWaste]);
        assert_eq!(left(&facts(), &[at(kind, &within), switching.clone()]), [Kind::ExcessiveSwitching]);
        let other = at(kind, &site("main.produce"));
        assert_eq!(left(&facts(), &[other, spin.clone()]).len(), 2);
    }
    let of_threads = finding(Kind::ExcessiveSwitching, &[("switches", 1e4)]);
    assert_eq!(left(&facts(), &[of_threads.clone(), spin]), [Kind::SpinWaste]);
    assert_eq!(left(&facts(), &[of_threads, at(Kind::SpinWaste, &within)]).len(), 2);
}

#[test]
fn who_sleeps_with_others_behind_it_looks_for_nothing() {
    let polling = Finding { place: Some(site("deliver")), ..finding(Kind::Polling, &[]) };
    for kind in [Kind::SmallPool, Kind::SlowStage] {
        let at = |function| Finding { place: Some(site(function)), ..finding(kind, &[]) };
        assert_eq!(left(&facts(), &[at("deliver"), polling.clone()]), [kind]);
        assert_eq!(left(&facts(), &[at("render"), polling.clone()]).len(), 2);
    }
}

#[test]
fn two_threads_that_contend_are_no_pair() {
    let mut facts = facts();
    facts.locks[0].waiters.truncate(2);
    let pair = finding(Kind::PingPong, &[("round_trips", 24.0)]);
    assert_eq!(left(&facts, &[pair, finding(Kind::HotLock, &[])]), [Kind::HotLock]);
}

#[test]
fn a_pair_does_not_explain_a_lock_that_others_wait_for() {
    let pair = finding(Kind::PingPong, &[("round_trips", 1e5)]);
    assert_eq!(left(&facts(), &[pair, finding(Kind::HotLock, &[])]).len(), 2);
}

#[test]
fn a_herd_explains_the_lock_that_the_woken_queue_for() {
    let mut facts = facts();
    let waiters = facts.locks[0].waiters.clone();
    facts.locks.push(LockFacts {
        // Of another process: both are in shared memory.
        pid: Pid(PID + 1),
        primitive: Primitive::Condvar,
        waiters,
        herds: Herds { calls: 5, woken: 25, back_to_sleep: 20 },
        ..LockFacts::default()
    });
    let herd = about_lock(finding(Kind::ThunderingHerd, &[]), 1);
    let pair = finding(Kind::PingPong, &[("round_trips", 1e6)]);
    let all = [finding(Kind::LockConvoy, &[]), herd, finding(Kind::KernelHeavy, &[]), pair];
    assert_eq!(left(&facts, &all), [Kind::ThunderingHerd]);
    facts.locks[1].herds.woken = 16;
    let lock = &all[..2];
    assert_eq!(left(&facts, lock).len(), 2, "the lock is waited for without the herd too");
}

#[test]
fn inversions_explain_the_waits_that_they_make() {
    let mut inversion = finding(Kind::PriorityInversion, &[]);
    let all = |inversion: &Finding| [finding(Kind::HotLock, &[]), inversion.clone()];
    inversion.severity = 0.15;
    assert_eq!(left(&facts(), &all(&inversion)), [Kind::PriorityInversion]);
    inversion.severity = 0.14;
    assert_eq!(left(&facts(), &all(&inversion)).len(), 2);
}

#[test]
fn threads_that_spin_want_their_cpus_for_nothing() {
    let mut spin = finding(Kind::SpinWaste, &[]);
    let all = |spin: &Finding| [finding(Kind::Oversubscription, &[]), spin.clone()];
    spin.severity = 0.3;
    assert_eq!(left(&facts(), &all(&spin)), [Kind::SpinWaste]);
    spin.severity = 0.29;
    assert_eq!(left(&facts(), &all(&spin)), [Kind::SpinWaste], "most of those who want a CPU spin there");
    spin.place = Some(site("wait_for_turn"));
    assert_eq!(left(&facts(), &all(&spin)).len(), 2);
}

#[test]
fn the_instruction_of_a_spin_lock_is_not_told_twice() {
    let spin = program(finding(Kind::SpinWaste, &[]));
    let same = program(finding(Kind::HotAtomic, &[]));
    let mut other = same.clone();
    other.place = Some(site("count"));
    assert_eq!(left(&facts(), &[spin.clone(), same]), [Kind::SpinWaste]);
    assert_eq!(left(&facts(), &[spin, other]).len(), 2);
}

#[test]
fn storms_of_yields_explain_switches() {
    let spin = finding(Kind::SpinWaste, &[("yields", 1e6)]);
    let all = [finding(Kind::ExcessiveSwitching, &[]), spin, finding(Kind::KernelHeavy, &[])];
    assert_eq!(left(&facts(), &all), [Kind::SpinWaste]);
}

#[test]
fn switches_and_wasted_calls_explain_the_kernels_share() {
    for cause in [Kind::ExcessiveSwitching, Kind::WastedWakeups] {
        let all = [finding(Kind::KernelHeavy, &[]), finding(cause, &[])];
        assert_eq!(left(&facts(), &all), [cause]);
    }
}

#[test]
fn nothing_explains_itself_away() {
    for a in Kind::ALL {
        for b in Kind::ALL {
            let shares = [("holders_off_share", 0.9), ("round_trips", 300.0), ("yields", 9.0)];
            let both = [finding(a, &shares), finding(b, &shares)];
            assert!(!left(&facts(), &both).is_empty(), "{} and {}", a.name(), b.name());
        }
    }
}
