//! Deadlocks, and wake-ups that come too late or never.

use super::*;

/// Threads 1 and 2 each have what the other waits for, from the middle of the recording on; thread 3 waits behind them.
pub(super) fn deadlocked() -> Facts {
    let mut facts = quiet(4);
    for (holder, waiters) in [(1, vec![2, 3]), (2, vec![1])] {
        mutex(&mut facts, 3, 100 * MS);
        let waiters = waiters.into_iter().map(|waiter| (Tid(PID + waiter), S + 500 * MS)).collect();
        facts.locks[holder as usize - 1].kept = Some(Kept { holder: Tid(PID + holder), has_ended: false, waiters });
    }
    facts
}

fn kept(facts: &mut Facts, lock: usize) -> &mut Kept {
    facts.locks[lock].kept.as_mut().unwrap()
}

#[test]
fn deadlock_at_its_thresholds() {
    holds_at_its_thresholds(
        Kind::Deadlock,
        deadlocked,
        &[
            ("one has waited for less", |facts| kept(facts, 1).waiters[0].1 += 1),
            ("one waits for a third, who does not wait", |facts| kept(facts, 1).holder = Tid(PID)),
            ("nobody is known to have one", |facts| facts.locks[0].kept = None),
            ("it is no mutex", |facts| facts.locks[1].primitive = Primitive::Condvar),
        ],
    );
}

/// Threads 1 and 2 wait until the end for locks of Rust, which do not say who has them.
pub(super) fn stuck() -> Facts {
    let mut facts = quiet(3);
    for waiter in 1..3 {
        facts.locks.push(LockFacts {
            pid: Pid(PID),
            addr: Some(0x5000 + 0x40 * u64::from(waiter)),
            primitive: Primitive::RustMutex,
            waits: 1,
            waiters: vec![(Tid(PID + waiter), OffTime::once(500 * MS))],
            wait_sites: vec![site("transfer")],
            longest: vec![(Tid(PID + waiter), S + 500 * MS, 2 * S)],
            ..LockFacts::default()
        });
    }
    facts
}

/// The first thread waits for the second one's end, which waits for a signal that came too soon.
pub(super) fn standing() -> Facts {
    let mut facts = quiet(2);
    for (waiter, primitive) in [(0, Primitive::Join), (1, Primitive::Condvar)] {
        facts.locks.push(LockFacts {
            primitive,
            waits: 1,
            waiters: vec![(Tid(PID + waiter), OffTime::once(500 * MS))],
            wait_sites: vec![site("serve")],
            longest: vec![(Tid(PID + waiter), S + 500 * MS, 2 * S)],
            ..LockFacts::default()
        });
    }
    facts
}

#[test]
fn a_program_stands_still_where_all_its_threads_wait_for_each_other() {
    holds_at_its_thresholds(
        Kind::Deadlock,
        standing,
        &[
            ("one has waited for less", |facts| facts.locks[0].longest[0].1 += 1),
            ("one waits for the outside", |facts| _ = facts.locks.remove(0)),
            ("one looks now and then", |facts| facts.locks[1].timeouts = 1),
            ("it is alone", |facts| {
                facts.locks.remove(0);
                facts.threads.remove(0);
            }),
            ("another process may end it", |facts| {
                facts.locks[1].primitive = Primitive::Semaphore;
                facts.processes.push(ProcessFacts { pid: Pid(PID + 9), ..facts.processes[0].clone() });
            }),
        ],
    );
    let found = judge(Kind::Deadlock, &standing()).swap_remove(0);
    assert_eq!((found.subjects.len(), weigh::value(&found, "standing_threads")), (1, 2.0), "the join is no cause");
    let mut others = standing();
    others.threads.push(ThreadFacts { tid: Tid(PID + 2), ended_ns: 1_500 * MS, ..others.threads[1].clone() });
    assert_eq!(judge(Kind::Deadlock, &others).len(), 1, "who has ended wakes nobody");
    others.threads[2].ended_ns = 1_900 * MS;
    assert!(judge(Kind::Deadlock, &others).is_empty(), "it went on meanwhile");
}

/// All workers of a pool wait for results of tasks, while the program has others that look after something.
pub(super) fn starved() -> Facts {
    let path = ["FutureTask.get", "Report.total", "java.util.concurrent.ThreadPoolExecutor.runWorker"];
    let in_task =
        Site { call_path: path.iter().map(|name| Frame::named(name, Role::Program)).collect(), ..Site::default() };
    let mut facts = quiet(4);
    for index in 1..3 {
        facts.threads[index as usize].name = format!("report-{index}");
        facts.locks.push(LockFacts {
            primitive: Primitive::Condvar,
            waits: 1,
            waiters: vec![(Tid(PID + index), OffTime::once(500 * MS))],
            wait_sites: vec![in_task.clone()],
            longest: vec![(Tid(PID + index), S + 500 * MS, 2 * S)],
            ..LockFacts::default()
        });
    }
    facts
}

#[test]
fn a_pool_starves_where_all_its_workers_wait_for_results() {
    let mut facts = starved();
    let found = judge(Kind::Deadlock, &facts).swap_remove(0);
    assert_eq!(weigh::value(&found, "starved_workers"), 2.0);
    facts.threads[3].name = "report-3".to_owned();
    assert!(judge(Kind::Deadlock, &facts).is_empty(), "one is free for the others' tasks");
}

#[test]
fn a_deadlock_of_locks_that_do_not_say_who_has_them_at_its_thresholds() {
    holds_at_its_thresholds(
        Kind::Deadlock,
        stuck,
        &[
            ("one has waited for less", |facts| facts.locks[1].longest[0].1 += 1),
            ("one went on", |facts| facts.locks[1].longest[0].2 = 1_990 * MS),
            ("both wait for one lock", |facts| {
                facts.locks.pop();
                facts.locks[0].waiters.push((Tid(PID + 2), OffTime::once(500 * MS)));
                facts.locks[0].longest.push((Tid(PID + 2), S + 500 * MS, 2 * S));
            }),
            ("one waits for work", |facts| facts.locks[1].primitive = Primitive::Condvar),
            ("the recording is long", |facts| facts.end_ns = 3 * S),
        ],
    );
    let found = judge(Kind::Deadlock, &stuck()).swap_remove(0);
    assert_eq!((found.subjects.len(), weigh::value(&found, "stuck_threads")), (4, 2.0));
    // Java's monitors are waited for on words of the threads' own, which look now and then.
    let mut monitors = stuck();
    let second = monitors.locks.pop().unwrap();
    let lock = &mut monitors.locks[0];
    (lock.addr, lock.primitive, lock.timeouts) = (None, Primitive::OtherLock, 2);
    lock.waiters.extend(second.waiters);
    lock.longest.clear();
    lock.wait_sites = vec![site("ObjectMonitor::enter")];
    lock.waits = 2;
    assert_eq!(judge(Kind::Deadlock, &monitors).len(), 1);
    monitors.locks[0].waits = 3;
    assert_eq!(judge(Kind::Deadlock, &monitors).len(), 0, "others let them in");
    monitors.locks[0].waits = 2;
    monitors.locks[0].wait_sites = vec![site("wait_for_task")];
    assert_eq!(judge(Kind::Deadlock, &monitors).len(), 0, "what only looks like a lock may be a pool's");
}

#[test]
fn a_lock_of_python_is_one_where_no_event_or_condition_waits_for_it() {
    let python = |inner: &[Frame]| {
        let mut facts = stuck();
        for lock in &mut facts.locks {
            lock.primitive = Primitive::Semaphore;
            let acquires = Frame::named("lock_PyThread_acquire_lock", Role::Runtime);
            let call_path = [&[acquires], inner, &[Frame::named("Depot.move", Role::Program)]].concat();
            lock.wait_sites = vec![Site { call_path, count: 1, ns: 1 }];
        }
        judge(Kind::Deadlock, &facts).len()
    };
    let file = Some("/usr/lib/python3.13/threading.py".into());
    assert_eq!(python(&[]), 1);
    assert_eq!(python(&[Frame { file, ..Frame::named("Event.wait", Role::Lock) }]), 0);
}

#[test]
fn a_deadlock_names_who_has_what_and_who_waits_behind() {
    let found = |change: fn(&mut Facts)| {
        let mut facts = deadlocked();
        change(&mut facts);
        let found = judge(Kind::Deadlock, &facts).swap_remove(0);
        let of = |subject: &Subject| match subject {
            Subject::Lock { number, .. } => format!("lock {}", number.0),
            Subject::Thread { tid, .. } => format!("thread {}", tid.0 - PID),
            other => panic!("{other:?}"),
        };
        let subjects: Vec<String> = found.subjects.iter().map(of).collect();
        (subjects.join(", "), weigh::value(&found, "threads"), weigh::value(&found, "stuck_threads"), found.cure)
    };
    let circle = "lock 1, thread 1, lock 0, thread 2".to_owned();
    assert_eq!(found(|_| {}), (circle, 2.0, 3.0, Cure::LockInOrder));
    let own = |facts: &mut Facts| kept(facts, 0).holder = Tid(PID + 2);
    assert_eq!(found(own), ("lock 0, thread 2".to_owned(), 1.0, 3.0, Cure::ReleaseAlways));
    let ended = |facts: &mut Facts| {
        facts.locks.truncate(1);
        kept(facts, 0).has_ended = true;
    };
    assert_eq!(found(ended), ("lock 0, thread 2, thread 1".to_owned(), 1.0, 2.0, Cure::ReleaseAlways));
    let all = all(&deadlocked());
    assert_eq!(all.iter().map(|finding| finding.kind).collect::<Vec<_>>(), [Kind::Deadlock], "it explains the waits");
}

/// For 400 ms all wait until one of two threads no longer waits for a signal that the other one got.
pub(super) fn missed() -> Facts {
    let mut facts = quiet(3);
    let mut wait_ns = histogram(50, 100 * US);
    wait_ns.merge(&histogram(50, 20 * MS));
    let time = OffTime { count: 50, ns: 502_500 * US };
    facts.locks.push(LockFacts {
        primitive: Primitive::Condvar,
        waits: 100,
        timeouts: 50,
        wakes: 50,
        waiters: vec![(Tid(PID + 1), time), (Tid(PID + 2), time)],
        wait_sites: vec![site("take")],
        wait_ns,
        ..LockFacts::default()
    });
    let part = |leaf, ns| PathPart { leaf, thread: Tid(PID + 1), site: Some(site("take")), file: None, ns };
    facts.path.parts = vec![part(Leaf::Sleep, 300 * MS), part(Leaf::Unknown, 100 * MS)];
    facts
}

/// Who waits for the first condition ends the waits for the second, and the other way round.
fn crossed() -> Facts {
    let mut facts = missed();
    let ends = |index: u32, count| Holder { tid: Tid(PID + index), count, ns: 0 };
    facts.locks.push(facts.locks[0].clone());
    facts.locks[0].waiters.iter_mut().for_each(|(tid, _)| tid.0 += 2);
    (facts.locks[0].holders, facts.locks[1].holders) = (vec![ends(1, 5), ends(3, 5)], vec![ends(4, 5), ends(0, 5)]);
    facts
}

#[test]
fn who_has_what_the_others_wait_for_is_told_once() {
    let told = judge(Kind::LostWakeups, &crossed());
    assert_eq!(told.iter().map(|one| (one.cure, one.subjects.len())).collect::<Vec<_>>(), [(Cure::LockInOrder, 2)]);
    let mut facts = crossed();
    facts.locks.push(facts.locks[0].clone());
    assert_eq!(judge(Kind::LostWakeups, &facts).len(), 2, "a third condition is told of");
    let mut facts = crossed();
    facts.locks[1].holders[0].count = 4;
    assert_eq!(judge(Kind::LostWakeups, &facts).len(), 2, "others end most of the waits");
}

/// Two tasks of an executor wait for results of others until they have waited for half a second.
fn in_vain() -> Facts {
    let mut facts = missed();
    let path = ["FutureTask.get", "Report.total", "java.util.concurrent.ThreadPoolExecutor.runWorker"];
    let call_path = path.iter().map(|name| Frame::named(name, Role::Program)).collect();
    let in_task = Site { call_path, ..Site::default() };
    facts.path.parts.iter_mut().for_each(|part| part.site = Some(in_task.clone()));
    let lock = &mut facts.locks[0];
    (lock.waits, lock.timeouts, lock.wakes) = (16, 8, 0);
    lock.wait_sites = vec![in_task];
    facts
}

#[test]
fn tasks_that_wait_for_their_own_pool_at_the_thresholds() {
    holds_at_its_thresholds(
        Kind::LostWakeups,
        in_vain,
        &[
            ("most get their results", |facts| facts.locks[0].waits = 17),
            ("they wait rarely", |facts| (facts.locks[0].waits, facts.locks[0].timeouts) = (7, 7)),
            ("one task waits", |facts| _ = facts.locks[0].waiters.pop()),
            ("others work meanwhile", |facts| facts.path.parts[1].ns = 99 * MS),
            ("they are no tasks", |facts| _ = facts.locks[0].wait_sites[0].call_path.pop()),
        ],
    );
}

/// The same of futures of C++.
#[test]
fn futures_of_cpp_that_run_out_are_told_where_they_are_waited_for() {
    let mut facts = in_vain();
    let path = ["std::__basic_future<int>::wait_for<long>", "index_document", "run"];
    let call_path = path.iter().map(|name| Frame::named(name, Role::Program)).collect();
    let waits = Site { call_path, ..Site::default() };
    facts.path.parts.iter_mut().for_each(|part| part.site = Some(waits.clone()));
    facts.locks[0].wait_sites = vec![waits];
    assert_eq!(judge(Kind::LostWakeups, &facts).len(), 1);
    facts.locks[0].waiters.pop();
    assert!(judge(Kind::LostWakeups, &facts).is_empty(), "one thread looks from time to time");
}

/// Thread 1 waits for more to come until 20 ms have run out, while threads 2 and 3, which send it, wait for its answer.
pub(super) fn lingering() -> Facts {
    let mut facts = quiet(4);
    facts.locks.push(LockFacts {
        primitive: Primitive::Park,
        waits: 16,
        timeouts: 8,
        wakes: 8,
        waiters: vec![(Tid(PID + 1), OffTime { count: 16, ns: 400 * MS })],
        wait_sites: vec![site("gather")],
        wait_ns: histogram(16, 20 * MS),
        ..LockFacts::default()
    });
    let thread = Tid(PID + 1);
    facts.path.parts =
        vec![PathPart { leaf: Leaf::Sleep, thread, site: Some(site("gather")), file: None, ns: 400 * MS }];
    facts.blame = vec![blamed(2, Some(1), Leaf::Sleep, 1, 200 * MS), blamed(3, Some(2), Leaf::Sleep, 1, 200 * MS)];
    let pair =
        |b| PairFacts { a: thread, b: Tid(PID + b), wakings: Wakings { a_to_b: 3, b_to_a: 3 }, ..PairFacts::default() };
    facts.pairs = vec![pair(2), pair(3)];
    facts
}

#[test]
fn who_waits_for_more_from_those_that_wait_for_it_at_the_thresholds() {
    holds_at_its_thresholds(
        Kind::LostWakeups,
        lingering,
        &[
            ("it waits rarely", |facts| (facts.locks[0].waits, facts.locks[0].timeouts) = (7, 7)),
            ("nobody ends its waits", |facts| facts.locks[0].wakes = 0),
            ("it is a lock", |facts| facts.locks[0].primitive = Primitive::Mutex),
            ("others work meanwhile", |facts| facts.path.parts[0].ns = 399 * MS),
            ("they hardly wait for it", |facts| facts.blame[1].ns = 199 * MS),
            ("one sends nothing", |facts| facts.pairs[1].wakings.b_to_a = 2),
            ("one is told nothing", |facts| facts.pairs[0].wakings.a_to_b = 2),
        ],
    );
}

#[test]
fn lost_wakeups_at_their_thresholds() {
    holds_at_its_thresholds(
        Kind::LostWakeups,
        missed,
        &[
            ("waits hardly run out", |facts| facts.locks[0].timeouts = 49),
            ("nobody signals it", |facts| facts.locks[0].wakes = 49),
            ("one thread waits at its own pace", |facts| _ = facts.locks[0].waiters.pop()),
            ("it is no condition", |facts| facts.locks[0].primitive = Primitive::OtherLock),
            ("waits run out by a schedule", |facts| {
                let lock = &mut facts.locks[0];
                lock.wait_ns = Histogram::default();
                (1..=100).for_each(|ms| lock.wait_ns.add(ms * MS / 5));
            }),
            ("the elapsed time goes elsewhere", |facts| facts.path.parts[1].ns = 99 * MS),
            ("it waits elsewhere", |facts| facts.path.parts[1].site = Some(site("poll"))),
            ("others work meanwhile", |facts| facts.threads[0].on_cpu_ns = 500 * MS),
        ],
    );
    let found = &judge(Kind::LostWakeups, &missed())[0];
    assert!((19.0..=21.0).contains(&(weigh::value(found, "patience_ns") / MS as f64)));
}
