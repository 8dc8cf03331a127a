//! More threads than CPUs, herds, and wake-ups for nothing.

use super::*;
use crate::facts::PollHerds;

#[test]
fn more_threads_than_cpus_at_barriers_are_too_many() {
    let found_in = |mut facts: Facts, waits: u64, cpus, primitive| {
        facts.header.machine.cpus = cpus;
        let waiter = |index| (Tid(PID + index), OffTime { count: waits / 3, ns: MS });
        let waiters = (0..3).map(waiter).collect();
        let barrier = LockFacts { pid: Pid(PID), primitive, waiters, ..LockFacts::default() };
        facts.locks = vec![LockFacts { waits: waits - 400, ..barrier.clone() }, LockFacts { waits: 400, ..barrier }];
        !judge(Kind::Oversubscription, &facts).is_empty()
    };
    let found = |waits, cpus, primitive| found_in(switching(), waits, cpus, primitive);
    assert!(
        !found_in(handing_over(), 1_000, 2, Primitive::Barrier),
        "goroutines are switched by no barrier of threads"
    );
    assert!(found(1_000, 2, Primitive::Barrier));
    for (waits, cpus, primitive) in
        [(999, 2, Primitive::Barrier), (1_000, 3, Primitive::Barrier), (1_000, 2, Primitive::Condvar)]
    {
        assert!(!found(waits, cpus, primitive), "{waits} {cpus} {primitive:?}");
    }
}

/// Four threads on three CPUs, of which they get half.
pub(super) fn crowd() -> Facts {
    let mut facts = quiet(5);
    facts.header.machine.cpus = 3;
    busy(&mut facts, 375 * MS);
    (1..5).for_each(|index| off(&mut facts, index, Reason::Preempted, 5, 125 * MS));
    facts.totals.runnable_ns = vec![0, 0, 0, S - S / 4, S / 4, 0];
    spin_for(&mut facts, 134);
    facts
}

/// A tenth of all CPU samples are spent spinning, of so many hundredths.
fn spin_for(facts: &mut Facts, hits: u64) {
    facts.totals.user_samples = 1_000;
    facts.hotspots = vec![spot(HotspotClass::Pause, "wait_turn", hits, hits)];
}

#[test]
fn oversubscription_at_its_thresholds() {
    holds_at_its_thresholds(
        Kind::Oversubscription,
        crowd,
        &[
            ("there are CPUs enough most of the time", |facts| {
                facts.totals.runnable_ns = vec![0, 0, 0, S, S / 4 - 1, 0];
            }),
            ("the machine has more CPUs", |facts| {
                facts.header.machine.cpus = 4;
                facts.totals.runnable_ns = vec![0, 0, 0, 0, 0, S];
            }),
            ("the machine is not known", |facts| facts.header.machine.cpus = 0),
            ("one thread mostly sleeps", |facts| {
                facts.threads[4].on_cpu_ns = 374 * MS;
                facts.threads[0].on_cpu_ns = 10 * MS;
            }),
            ("one thread lives but shortly", |facts| {
                facts.threads[4].born_ns = 2 * S - 199 * MS;
            }),
            ("threads hardly wait for a CPU", |facts| busy(facts, 376 * MS)),
            ("they are hardly ever preempted", |facts| off(facts, 1, Reason::Preempted, 4, 125 * MS)),
            ("other programs take the CPUs", |facts| {
                facts.threads[4].off.clear();
                off(facts, 4, Reason::Displaced, 5, 125 * MS);
            }),
            ("taking turns costs nothing", |facts| facts.hotspots.clear()),
            ("taking turns costs little", |facts| spin_for(facts, 133)),
            ("each is a process", |facts| {
                (1..5).for_each(|index| facts.threads[index].pid = Pid(200 + index as u32));
            }),
        ],
    );
}

#[test]
fn who_only_spins_is_too_many_beside_those_who_work() {
    let judged = |spinning: usize, working: usize| {
        let mut facts = crowd();
        facts.threads[1..=spinning].iter_mut().for_each(|thread| thread.spun_ns = thread.on_cpu_ns / 2);
        let others = &mut facts.threads[spinning + 1..];
        others.iter_mut().skip(working).for_each(|thread| thread.spun_ns = thread.on_cpu_ns / 5);
        judge(Kind::Oversubscription, &facts).len()
    };
    assert_eq!(judged(2, 2), 0);
    assert_eq!(judged(2, 1), 1, "most spin: as many as there are CPUs would not");
    assert_eq!(judged(0, 4), 1);
}

#[test]
fn gates_are_tried_where_they_can_be_put_before_the_locks() {
    let tried = |primitive| {
        let mut facts = crowd();
        facts.locks = vec![LockFacts { primitive, ..LockFacts::default() }];
        judge(Kind::Oversubscription, &facts).remove(0).proof.words.join(" ")
    };
    assert_eq!(tried(Primitive::Mutex), "try --slices default,20ms --gates 1,2");
    assert_eq!(tried(Primitive::RustMutex), "try --slices default,20ms --cpus all,1");
}

#[test]
fn too_many_threads_are_too_many_on_a_busy_machine_too() {
    let mut facts = quiet(5);
    facts.header.machine.cpus = 3;
    busy(&mut facts, 100 * MS);
    (1..5).for_each(|index| {
        off(&mut facts, index, Reason::Preempted, 5, 100 * MS);
        off(&mut facts, index, Reason::Displaced, 5, 700 * MS);
    });
    facts.totals.runnable_ns = vec![0, 0, 0, 0, S, 0];
    spin_for(&mut facts, 300);
    assert_eq!(judge(Kind::Oversubscription, &facts).len(), 1);
    (1..5).for_each(|index| off(&mut facts, index, Reason::Displaced, 5, 500 * MS));
    assert!(judge(Kind::Oversubscription, &facts).is_empty(), "they mostly wait for something else");
}

#[test]
fn holders_that_wait_for_a_cpu_cost_what_cpus_idle() {
    let found = |ran_ms: u64| {
        let mut facts = crowd();
        facts.hotspots.clear();
        (facts.totals.user_samples, facts.header.machine.cpus) = (0, 3);
        busy(&mut facts, ran_ms * MS / 4);
        (1..5).for_each(|index| off(&mut facts, index, Reason::Preempted, 100, 400 * MS));
        mutex(&mut facts, 400, 3 * MS);
        facts.locks[0].holder_doing.off.insert(Reason::Preempted, 1_200 * MS);
        facts.totals.runnable_ns = vec![0, 0, 0, 0, S, 0];
        judge(Kind::Oversubscription, &facts).len()
    };
    assert_eq!([found(2_500), found(2_900)], [1, 0]);
}

pub(super) fn herd() -> Facts {
    let mut facts = quiet(4);
    busy(&mut facts, 100 * MS);
    facts.locks.push(LockFacts {
        pid: Pid(PID),
        primitive: Primitive::Condvar,
        wake_sites: vec![site("publish")],
        herds: Herds { calls: 2_000, woken: 5_000, back_to_sleep: 2_500 },
        ..LockFacts::default()
    });
    facts
}

#[test]
fn thundering_herd_at_its_thresholds() {
    holds_at_its_thresholds(
        Kind::ThunderingHerd,
        herd,
        &[
            ("calls are too few", |facts| {
                facts.locks[0].herds = Herds { calls: 19, woken: 4_000, back_to_sleep: 4_000 };
            }),
            ("they are too few a second", |facts| {
                facts.locks[0].herds = Herds { calls: 100, woken: 499, back_to_sleep: 499 };
            }),
            ("few are woken at once", |facts| facts.locks[0].herds.calls = 2_001),
            ("most of the woken work", |facts| facts.locks[0].herds.back_to_sleep = 2_499),
            ("it is a barrier", |facts| facts.locks[0].primitive = Primitive::Barrier),
        ],
    );
}

pub(super) fn wasted() -> Facts {
    let mut facts = quiet(3);
    busy(&mut facts, 50 * MS);
    mutex(&mut facts, 200, US);
    facts.locks[0].wasted_wakes = 5_000;
    facts.locks[0].eagain_waits = 5_000;
    facts.locks[0].wakes = 4_800;
    facts
}

#[test]
fn wasted_wakeups_at_its_thresholds() {
    holds_at_its_thresholds(
        Kind::WastedWakeups,
        wasted,
        &[
            ("calls are too few", |facts| {
                facts.locks[0].wasted_wakes = 4_999;
                facts.locks[0].eagain_waits = 0;
                facts.locks[0].wakes = 0;
                busy(facts, 10 * MS);
            }),
            ("most calls do something", |facts| facts.locks[0].wakes = 4_801),
            ("it is little time", |facts| busy(facts, 51 * MS)),
        ],
    );
}

/// `notifyAll` of a monitor lets one thread after the other look and wait again.
/// Threads that poll one socket.
pub(super) fn polling_herd() -> Facts {
    let mut facts = quiet(4);
    busy(&mut facts, 100 * MS);
    let herds = Herds { calls: 2_000, woken: 5_000, back_to_sleep: 2_500 };
    facts.poll_herds = Some(PollHerds { herds, site: site("respond") });
    facts
}

#[test]
fn herds_that_poll_at_their_thresholds() {
    fn set(facts: &mut Facts, calls: u64, woken: u64, back_to_sleep: u64) {
        facts.poll_herds.as_mut().unwrap().herds = Herds { calls, woken, back_to_sleep };
    }
    holds_at_its_thresholds(
        Kind::ThunderingHerd,
        polling_herd,
        &[
            ("calls are too few", |facts| set(facts, 19, 4_000, 4_000)),
            ("few are woken at once", |facts| set(facts, 2_000, 3_000, 2_500)),
            ("they find something", |facts| set(facts, 2_000, 5_001, 2_500)),
        ],
    );
    let found = &judge(Kind::ThunderingHerd, &polling_herd())[0];
    assert_eq!((found.cure, &found.subjects[..]), (Cure::WaitInCall, &[Subject::Function("respond".into())][..]));
}

pub(super) fn monitor_herd() -> Facts {
    let mut facts = quiet(9);
    mutex(&mut facts, 5_000, 800 * MS);
    let lock = &mut facts.locks[0];
    let path = ["ObjectMonitor::wait", "java.lang.Object.wait", "Board.next"];
    let call_path = path.iter().map(|name| Frame::named(name, Role::Program)).collect();
    lock.wait_sites = vec![Site { call_path, count: 4_000, ns: 640 * MS }, Site { ns: 160 * MS, ..site("Board.post") }];
    lock.max_waiters = 8;
    facts
}

#[test]
fn herds_of_a_monitor_at_their_thresholds() {
    holds_at_its_thresholds(
        Kind::ThunderingHerd,
        monitor_herd,
        &[
            ("few wait", |facts| facts.locks[0].max_waiters = 7),
            ("it is hardly passed on", |facts| facts.locks[0].waits = 4_999),
            ("they mostly want to enter", |facts| facts.locks[0].wait_sites[0].ns = 639 * MS),
        ],
    );
}
