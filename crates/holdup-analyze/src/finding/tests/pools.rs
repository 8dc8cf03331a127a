//! Pools that are too small.

use super::*;

/// Threads 1.. call, the first works, and sleeps meanwhile.
pub(super) fn pool() -> Facts {
    let mut facts = quiet(3);
    off(&mut facts, 0, Reason::Sleep, 30, 900 * MS);
    off(&mut facts, 0, Reason::Futex(Primitive::Condvar), 10, 10 * MS);
    (1..3).for_each(|index| spent(&mut facts, index, AccountState::Work, S));
    spent(&mut facts, 0, AccountState::Sleep, 750 * MS);
    spent(&mut facts, 0, AccountState::Work, 250 * MS);
    facts.blame = vec![
        blamed(1, None, Leaf::Sleep, 0, 300 * MS),
        blamed(2, None, Leaf::Sleep, 0, 300 * MS),
        blamed(0, None, Leaf::Running, 1, MS),
    ];
    facts
}

#[test]
fn small_pool_at_its_thresholds() {
    holds_at_its_thresholds(
        Kind::SmallPool,
        pool,
        &[
            ("its workers have time left", |facts| spent(facts, 0, AccountState::Work, 10 * MS)),
            ("callers hardly wait", |facts| facts.blame[0].ns = 299 * MS),
            ("its workers run", |facts| {
                facts.blame[..2].iter_mut().for_each(|row| row.leaf = Leaf::Running);
            }),
            ("nobody gives them work", |facts| facts.blame[2].thread = Tid(0)),
            ("they only wait for others to end", |facts| {
                let ending = LockFacts { primitive: Primitive::Join, ..LockFacts::default() };
                facts.locks.push(ending);
                facts.blame[2].lock = Some(LockNumber(facts.locks.len() as u32 - 1));
            }),
            ("they wait for work each time", |facts| {
                off(facts, 0, Reason::Futex(Primitive::Condvar), 16, 10 * MS);
            }),
            ("callers are not more than workers", |facts| facts.blame[1].waiter = Tid(PID + 1)),
            ("one of them waits for visitors", |facts| off(facts, 2, Reason::Poll, 4, 800 * MS)),
        ],
    );
}

#[test]
fn a_pool_of_dotnet_is_tried_with_more_threads() {
    let proof = |outermost: &str| {
        let mut facts = pool();
        let mut asks = site("Shop.Ask");
        asks.call_path.push(Frame::named(outermost, Role::Runtime));
        facts.threads[0].off_sites = vec![asks.clone()];
        facts.blame.iter_mut().for_each(|row| row.site = Some(asks.clone()));
        judge(Kind::SmallPool, &facts)[0].proof.words.join(" ")
    };
    let tried = "try --env COMPlus_ThreadPool_ForceMinWorkerThreads=10,40";
    assert_eq!(proof("ThreadpoolMgr::WorkerThreadStart(void*)"), tried);
    assert_eq!(proof("System.Threading.ThreadPoolWorkQueue.Dispatch"), tried);
    assert_eq!(proof("Shop.Start"), "record", "a pool of its own");
}

#[test]
fn who_once_ended_a_wait_is_none_of_the_pools_workers() {
    let mut facts = pool();
    let mut other = facts.threads[0].clone();
    (other.tid, other.name) = (Tid(PID + 3), "meter".to_owned());
    facts.threads.push(other);
    facts.blame.push(blamed(1, None, Leaf::Sleep, 3, 29 * MS));
    let workers = |facts: &Facts| judge(Kind::SmallPool, facts).first().map(|found| weigh::value(found, "workers"));
    assert_eq!(workers(&facts), Some(1.0));
}

#[test]
fn one_worker_is_asked_where_callers_say_that_they_wait_for_a_result() {
    let found = |function: &str| {
        let mut facts = asked();
        for (lock, row) in facts.locks.iter_mut().zip(&mut facts.blame) {
            (lock.wait_sites, row.thread) = (vec![site(function)], Tid(PID));
        }
        judge(Kind::SmallPool, &facts).len()
    };
    assert_eq!(found("system__tasking__entry_calls__wait_for_completion"), 1, "a call of an entry of Ada's");
    assert_eq!(found("std::__basic_future<int>::_M_get_result"), 1);
    assert_eq!(found("take_tick"), 0, "it may set the pace");
}

#[test]
fn a_semaphore_that_several_have_at_once_is_a_pool() {
    let found = |asleep_ms: u64| {
        let mut facts = quiet(4);
        mutex(&mut facts, 30, 40 * MS);
        let lock = &mut facts.locks[0];
        (lock.primitive, lock.contended_ns) = (Primitive::SemaphoreLock, S);
        lock.waiters = (0..4).map(|tid| (Tid(PID + tid), OffTime::once(300 * MS))).collect();
        lock.holders = vec![Holder { tid: Tid(PID), count: 30, ns: S }];
        let asleep = Site { ns: asleep_ms * MS, ..site("call_backend") };
        lock.holder_doing.off = BTreeMap::from([(Reason::Sleep, 900 * MS)]);
        lock.holder_doing.off_sites = vec![asleep.clone()];
        facts.threads[0].off_sites = vec![asleep];
        kinds(&facts)
    };
    assert_eq!(found(1_500), [Kind::SmallPool]);
    assert_eq!(found(1_499), [Kind::SleepingHolder]);
}

#[test]
fn callers_of_a_pool_that_were_never_seen_to_wait_tell_nothing_of_how_long_it_is_waited_for() {
    let mut facts = quiet(10);
    mutex(&mut facts, 30, 40 * MS);
    let lock = &mut facts.locks[0];
    lock.primitive = Primitive::Condvar;
    lock.waiters = (0..3).map(|tid| (Tid(PID + tid), OffTime::once(400 * MS))).collect();
    lock.holder_doing.off = BTreeMap::from([(Reason::Io, 900 * MS)]);
    lock.places = Some(Places { places: 3, callers: (0..10).map(|tid| Tid(PID + tid)).collect() });
    let found = &judge(Kind::SmallPool, &facts)[0];
    assert_eq!(["waited_share", "workers", "callers"].map(|name| weigh::value(found, name)), [0.4, 3.0, 10.0]);
}

/// Three threads wait, each on a word of its own, for what the others give back, and read from a server when they have
/// it.
pub(super) fn borrowing() -> Facts {
    let mut facts = quiet(4);
    for caller in 1..4 {
        let tid = Tid(PID + caller);
        let wait = Site { count: 4, ns: 300 * MS, ..site("pool2.GenericObjectPool.borrowObject") };
        let idle = Site { count: 9, ns: 300 * MS, ..site("Executor.getTask") };
        let holder = |tid, count| Holder { tid: Tid(PID + tid), count, ns: MS };
        facts.locks.push(LockFacts {
            pid: Pid(PID),
            primitive: Primitive::Condvar,
            waits: 13,
            waiters: vec![(tid, OffTime { count: 13, ns: 600 * MS })],
            wait_sites: vec![idle, wait],
            holders: vec![holder(1 + caller % 3, 5), holder(0, 5)],
            ..LockFacts::default()
        });
        off(&mut facts, caller as usize, Reason::Peer, 4, 100 * MS);
        facts.threads[caller as usize].off_sites = vec![Site { count: 4, ns: 100 * MS, ..site("readLine") }];
        facts.threads[caller as usize].on_cpu_ns = 100 * MS;
    }
    facts
}

#[test]
fn what_is_borrowed_of_a_pool_by_name_at_its_thresholds() {
    holds_at_its_thresholds(
        Kind::SmallPool,
        borrowing,
        &[
            ("callers are two", |facts| _ = facts.locks.pop()),
            ("they hardly wait there", |facts| facts.locks[0].wait_sites[1].ns = 299 * MS),
            ("they rarely wait there", |facts| {
                facts.locks.iter_mut().for_each(|lock| lock.wait_sites[1].count = 3);
            }),
            ("others hand it to them", |facts| facts.locks[0].holders[1].count = 6),
            ("those who have it compute", |facts| facts.threads[1].on_cpu_ns = 101 * MS),
            ("it is called otherwise", |facts| {
                facts.locks.iter_mut().for_each(|lock| _ = lock.wait_sites.pop());
            }),
            ("it is the runtime's", |facts| {
                facts.locks.iter_mut().for_each(|lock| lock.wait_sites[1] = site("java.util.Pool.borrow"));
            }),
        ],
    );
    let found = &judge(Kind::SmallPool, &borrowing())[0];
    assert_eq!(
        found.place.as_ref().and_then(Site::caller).and_then(|frame| frame.function.as_deref()),
        Some("readLine")
    );
    let borrows = |name: &str| {
        let mut facts = borrowing();
        let wait = |lock: &mut LockFacts| lock.wait_sites[1].call_path = site(name).call_path;
        facts.locks.iter_mut().for_each(wait);
        !judge(Kind::SmallPool, &facts).is_empty()
    };
    assert!(["QueuePool.get_connection", "ConnectionPool.checkout", "pool::Pool::acquire"].into_iter().all(borrows));
    assert!(!["Board.get_line", "Queue.take", "Shop.acquisitions"].into_iter().any(borrows));
}

/// Three threads that block in one call by turns.
pub(super) fn by_turns() -> Facts {
    let mut facts = quiet(4);
    mutex(&mut facts, 3, MS);
    let threads = (1..4).map(|tid| Tid(PID + tid)).collect();
    facts.turns = vec![TurnFacts { threads, site: Site { count: 90, ns: 900 * MS, ..site("on_report") } }];
    facts
}

#[test]
fn calls_by_turns_are_told_unless_a_lock_explains_them() {
    let found = &judge(Kind::SmallPool, &by_turns())[0];
    assert_eq!((found.cure, weigh::value(found, "takers")), (Cure::LetSeveralIn, 3.0));
    assert!((found.severity - 0.6).abs() < 1e-9, "three calls at once would take a third of the time");
    let mut locked = by_turns();
    locked.locks.clear();
    mutex(&mut locked, 30, 10 * MS);
    assert!(judge(Kind::SmallPool, &locked).is_empty());
}

/// Calls for names have half of libuv's pool of four, and the event loop waits.
fn resolving(ns: u64) -> Facts {
    let mut facts = quiet(5);
    off(&mut facts, 0, Reason::Poll, 9, 900 * MS);
    for thread in facts.threads.iter_mut().skip(1) {
        thread.hot_sites = vec![site("uv__getaddrinfo_work")];
    }
    let path = ["poll", "send_dg", "uv__getaddrinfo_work"].map(|name| Frame::named(name, Role::Program));
    let call = Some(Site { call_path: path.to_vec(), count: 9, ns });
    facts.blame = (1..5).map(|at| Blame { site: call.clone(), ..blamed(at, None, Leaf::Outside, at, ns) }).collect();
    facts
}

#[test]
fn calls_for_names_have_half_of_the_pool_of_uv() {
    let found = judge(Kind::SmallPool, &resolving(350 * MS));
    assert_eq!((found.len(), weigh::value(&found[0], "workers")), (1, 2.0));
    let place = found[0].place.as_ref().and_then(Site::caller).and_then(|frame| frame.function.as_deref());
    assert_eq!(place, Some("uv__getaddrinfo_work"));
    assert!(judge(Kind::SmallPool, &resolving(349 * MS)).is_empty(), "one of the two is idle at times");
}

#[test]
fn one_that_sends_to_other_processes_by_the_clock_is_no_pool() {
    let found = |pid, waits, sleeps| {
        let mut facts = pool();
        facts.threads[0].pid = Pid(pid);
        off(&mut facts, 0, Reason::Sleep, sleeps, 900 * MS);
        off(&mut facts, 0, Reason::Futex(Primitive::Condvar), waits, 10 * MS);
        judge(Kind::SmallPool, &facts).len()
    };
    assert_eq!(found(PID + 9, 10, 200), 0);
    assert_eq!(found(PID + 9, 11, 200), 1, "it waits for what they ask");
    assert_eq!(found(PID, 10, 200), 1, "its callers are of its own process");
}

#[test]
fn one_that_lets_all_go_together_is_no_pool() {
    let mut facts = pool();
    assert!(kinds(&facts).contains(&Kind::SmallPool));
    let mut queue = LockFacts { waits: 20, ..LockFacts::default() };
    queue.herds = crate::Herds { calls: 5, woken: 20, back_to_sleep: 0 };
    facts.locks.push(queue);
    let number = LockNumber(facts.locks.len() as u32 - 1);
    facts.blame[..2].iter_mut().for_each(|row| row.lock = Some(number));
    assert!(!kinds(&facts).contains(&Kind::SmallPool));
}

/// Nobody is seen to give the workers their work, and yet they are asked.
fn asked() -> Facts {
    let mut facts = quiet(10);
    for worker in 0..2 {
        off(&mut facts, worker, Reason::Sleep, 30, 900 * MS);
        spent(&mut facts, worker, AccountState::Sleep, S);
    }
    (2..10).for_each(|caller| spent(&mut facts, caller, AccountState::Work, S));
    for caller in 2..10_u32 {
        let waiters = vec![(Tid(PID + caller), OffTime { count: 10, ns: 900 * MS })];
        facts.locks.push(LockFacts { primitive: Primitive::Semaphore, waiters, ..LockFacts::default() });
        facts.blame.push(blamed(caller, Some(caller - 2), Leaf::Sleep, caller % 2, 900 * MS));
    }
    facts
}

#[test]
fn a_pool_that_is_always_full_is_known_by_who_waits_for_it() {
    holds_at_its_thresholds(
        Kind::SmallPool,
        asked,
        &[
            ("callers are few", |facts| facts.blame.truncate(7)),
            ("callers stand in one queue", |facts| facts.blame.iter_mut().for_each(|row| row.lock = None)),
            ("there is but one worker", |facts| {
                facts.blame.iter_mut().for_each(|row| row.thread = Tid(PID));
            }),
        ],
    );
}

#[test]
fn callers_that_are_all_woken_for_the_answer_of_one_ask_too() {
    let found = |back_to_sleep| {
        let mut facts = asked();
        let waiters = facts.locks.iter().flat_map(|lock| lock.waiters.clone()).collect();
        let herds = Herds { calls: 100, woken: 800, back_to_sleep };
        facts.locks = vec![LockFacts { primitive: Primitive::Condvar, waiters, herds, ..LockFacts::default() }];
        facts.blame.iter_mut().for_each(|row| row.lock = Some(LockNumber(0)));
        !judge(Kind::SmallPool, &facts).is_empty()
    };
    assert!(found(400));
    assert!(!found(399), "a tick lets all go on");
}

/// All workers of tokio sleep in their tasks.
fn blocked_workers() -> Facts {
    let mut facts = quiet(3);
    for worker in 1..3 {
        facts.threads[worker].name = "tokio-rt-worker".to_owned();
        spent(&mut facts, worker, AccountState::Sleep, 800 * MS);
        spent(&mut facts, worker, AccountState::Work, 200 * MS);
        facts.blame.push(blamed(worker as u32, None, Leaf::Sleep, worker as u32, 800 * MS));
    }
    facts
}

#[test]
fn workers_that_block_in_tasks_at_their_thresholds() {
    holds_at_its_thresholds(
        Kind::SmallPool,
        blocked_workers,
        &[
            ("one has time", |facts| spent(facts, 2, AccountState::Work, 60 * MS)),
            ("one mostly runs", |facts| facts.threads[1].account.ns[AccountState::Sleep as usize] = 490 * MS),
            ("they are none of tokio's", |facts| {
                facts.threads.iter_mut().for_each(|thread| thread.name = "worker".to_owned());
            }),
        ],
    );
}

/// Thread 1 runs an event loop, and reads from a socket in a callback for most of its life.
fn blocked_loop() -> Facts {
    let mut facts = quiet(2);
    let events = Some("/usr/lib/python3.13/asyncio/events.py".into());
    let runs = Frame { file: events, ..Frame::named("Handle._run", Role::Program) };
    let call_path = vec![Frame::named("Geocoder.ask", Role::Program), runs];
    facts.threads[1].off_sites = vec![Site { call_path, count: 10, ns: 500 * MS }];
    facts
}

#[test]
fn an_event_loop_that_blocks_in_callbacks_at_its_thresholds() {
    holds_at_its_thresholds(
        Kind::SmallPool,
        blocked_loop,
        &[
            ("calls are too few", |facts| facts.threads[1].off_sites[0].count = 9),
            ("calls are too short", |facts| facts.threads[1].off_sites[0].ns -= 1),
            ("it is no callback", |facts| _ = facts.threads[1].off_sites[0].call_path.pop()),
        ],
    );
    let found = &judge(Kind::SmallPool, &blocked_loop())[0];
    assert_eq!(found.cure, Cure::LetLoopGoOn);
    assert_eq!(found.place.as_ref().unwrap().call_path[0].function.as_deref(), Some("Geocoder.ask"));
    let mut of_node = blocked_loop();
    of_node.threads[1].off_sites[0].call_path[1] = Frame::named("node::SyncProcessRunner::Spawn", Role::Runtime);
    assert_eq!(judge(Kind::SmallPool, &of_node).len(), 1);
}

/// The first thread and Java's common pool share work that reads from sockets.
fn blocked_common_pool() -> Facts {
    let mut facts = quiet(2);
    facts.threads[1].name = "ForkJoinPool.commonPool-worker-1".to_owned();
    let runs = Frame::named("java.util.concurrent.ForkJoinTask.doExec", Role::Runtime);
    for thread in &mut facts.threads {
        let call_path = vec![Frame::named("Tiles.fetch", Role::Program), runs.clone()];
        thread.off_sites = vec![Site { call_path, count: 10, ns: 500 * MS }];
    }
    facts
}

#[test]
fn a_common_pool_that_blocks_in_its_tasks_at_its_thresholds() {
    holds_at_its_thresholds(
        Kind::SmallPool,
        blocked_common_pool,
        &[
            ("the worker has time", |facts| facts.threads[1].off_sites[0].ns -= 1),
            ("nobody shares its work", |facts| _ = facts.threads[0].off_sites.pop()),
        ],
    );
}

/// Both threads of Java's executor wait for sockets, and the first thread for each task's result.
pub(super) fn queued_tasks() -> Facts {
    let mut facts = quiet(3);
    for worker in 1..3 {
        facts.threads[worker].name = format!("pool-1-thread-{worker}");
        off(&mut facts, worker, Reason::Peer, 100, 900 * MS);
        spent(&mut facts, worker, AccountState::Work, 910 * MS);
        off(&mut facts, worker, Reason::Futex(Primitive::Park), 2, 10 * MS);
    }
    let ended = |worker: u32| Holder { tid: Tid(PID + worker), count: 50, ns: 400 * MS };
    facts.locks = vec![LockFacts {
        primitive: Primitive::Park,
        waits: 100,
        waiters: vec![(Tid(PID), OffTime { count: 100, ns: 800 * MS })],
        holders: vec![ended(1), ended(2)],
        ..LockFacts::default()
    }];
    facts
}

#[test]
fn tasks_that_queue_for_an_executor_at_their_thresholds() {
    holds_at_its_thresholds(
        Kind::SmallPool,
        queued_tasks,
        &[
            ("one has time", |facts| off(facts, 2, Reason::Peer, 100, 749 * MS)),
            ("one waits for tasks", |facts| off(facts, 1, Reason::Futex(Primitive::Park), 11, 21 * MS)),
            ("nobody waits for long", |facts| facts.locks[0].waiters[0].1.ns = 290 * MS),
            ("each has just its one task", |facts| facts.locks[0].waiters[0].1.count = 7),
            ("others end these waits", |facts| facts.locks[0].holders[0].tid = Tid(PID)),
            ("they are no executor's", |facts| {
                facts.threads.iter_mut().for_each(|thread| thread.name = "reader".to_owned());
            }),
        ],
    );
}

#[test]
fn a_stage_that_pauses_briefly_between_reads_is_no_poller() {
    let mut facts = quiet(3);
    spent(&mut facts, 0, AccountState::Sleep, 950 * MS);
    off(&mut facts, 0, Reason::Sleep, 2_000, 950 * MS);
    off(&mut facts, 0, Reason::Peer, 1, MS);
    facts.threads[0].voluntary = 2_001;
    facts.threads[0].ended_waits = 2_000;
    facts.blame = vec![blamed(1, None, Leaf::Sleep, 0, 600 * MS), blamed(2, None, Leaf::Sleep, 0, 600 * MS)];
    let kinds = |facts: &Facts| [Kind::SlowStage, Kind::Polling].map(|kind| judge(kind, facts).len());
    assert_eq!(kinds(&facts), [1, 0]);
    let mut looks = facts.clone();
    looks.threads[0].ended_waits = 999;
    assert_eq!(kinds(&looks)[1], 1, "it mostly looks, and hands out nothing");
    let mut source = facts.clone();
    source.threads[0].off.remove(&Reason::Peer);
    assert_eq!(kinds(&source), [0, 1], "it never waits for an answer, and asks as often as it looks");
    source.threads[1].ended_waits = 1_600;
    assert_eq!(kinds(&source)[1], 0, "who gets what it writes passes it on");
    source.threads[1].ended_waits = 1_599;
    assert_eq!(kinds(&source)[1], 1);
    let mut slow = facts.clone();
    off(&mut slow, 0, Reason::Sleep, 900, 950 * MS);
    slow.threads[0].ended_waits = 900;
    assert_eq!(kinds(&slow), [0, 0], "it has a clock's pace");
}

/// Their waits are followed to that thread, and what they have CPU samples in says nothing of them.
#[test]
fn an_executor_whose_tasks_ask_another_thread_is_told_by_where_they_ask() {
    let mut facts = queued_tasks();
    let site = |function, ns| Site { call_path: vec![Frame::named(function, Role::Program)], count: 1, ns };
    for worker in 1..3 {
        facts.threads[worker].hot_sites = vec![site("parse", MS)];
        facts.threads[worker].off_sites = vec![site("connect", 100 * MS), site("ask", 700 * MS)];
    }
    let answers = site("answer", 1_600 * MS);
    facts.blame = vec![Blame { site: Some(answers), ..blamed(1, None, Leaf::Sleep, 0, 700 * MS) }];
    let place = judge(Kind::SmallPool, &facts).into_iter().find_map(|finding| finding.place).expect("a place");
    assert_eq!(place.caller().and_then(|frame| frame.function.as_deref()), Some("ask"));
    assert_eq!(place.ns, 1_400 * MS);
}

/// A worker of a pool may wait on one word for its tasks and in them: the call paths tell which.
#[test]
fn waits_of_tasks_of_java_on_the_worker_s_own_word_block_it() {
    let path = |functions: &[&str], count, ns| {
        let call_path = functions.iter().map(|name| Frame::named(name, Role::Program)).collect();
        Site { call_path, count, ns }
    };
    let runs = "java.util.concurrent.ThreadPoolExecutor.runWorker";
    let facts = |in_task: &str| {
        let mut facts = queued_tasks();
        for worker in 1..3 {
            facts.threads[worker].name = "desk".to_owned();
            facts.threads[worker].off.clear();
            off(&mut facts, worker, Reason::Futex(Primitive::Park), 102, 910 * MS);
            let idle =
                path(&["LinkedBlockingQueue.take", "java.util.concurrent.ThreadPoolExecutor.getTask", runs], 2, MS);
            facts.locks.push(LockFacts {
                primitive: Primitive::Park,
                waits: 102,
                waiters: vec![(Tid(PID + worker as u32), OffTime { count: 102, ns: 910 * MS })],
                wait_sites: vec![path(&["Future.get", in_task, runs], 100, 900 * MS), idle],
                ..LockFacts::default()
            });
        }
        facts
    };
    let found = judge(Kind::SmallPool, &facts("Gateway.price"));
    let place = found.first().and_then(|finding| finding.place.as_ref()).expect("a place");
    assert_eq!(place.caller().and_then(|frame| frame.function.as_deref()), Some("Future.get"));
    let idle = "java.util.concurrent.ThreadPoolExecutor.getTask";
    assert_eq!(judge(Kind::SmallPool, &facts(idle)).len(), 0, "they wait for tasks");
    assert_eq!(judge(Kind::SmallPool, &facts("java.lang.Thread.sleep")).len(), 0, "a sleep is told as such already");
}

/// A connection waits, all the time, until one of three threads accepts them.
pub(super) fn not_accepted() -> Facts {
    let mut facts = quiet(3);
    facts.threads[0].on_cpu_ns = 2 * S;
    facts.totals.on_cpu_ns = 2 * S;
    facts.counters.insert(Counter::ConnectionsWaitedNs, S);
    facts
}

#[test]
fn connections_that_nobody_accepts_at_their_thresholds() {
    holds_at_its_thresholds(
        Kind::SmallPool,
        not_accepted,
        &[
            ("they are few", |facts| facts.counters.extend([(Counter::ConnectionsWaitedNs, 999 * MS)])),
            ("CPUs are busy", |facts| {
                facts.threads[0].on_cpu_ns = 2_010 * MS;
                facts.totals.on_cpu_ns = 2_010 * MS;
            }),
        ],
    );
    let found = &judge(Kind::SmallPool, &not_accepted())[0];
    assert_eq!((found.cure, found.severity), (Cure::AcceptMore, 0.25));
}

/// Two tasks of a pool of three wait for what the third thread has to run.
pub(super) fn nested() -> Facts {
    let mut facts = quiet(4);
    for worker in 1..4 {
        facts.threads[worker].name = format!("desk-{worker}");
        let waited_ns = [0, 700 * MS, 650 * MS, 0][worker];
        off(&mut facts, worker, Reason::Futex(Primitive::Park), 20, waited_ns + 80 * MS);
        facts.threads[worker].on_cpu_ns = 100 * MS;
        let path = [
            "java.util.concurrent.FutureTask.get",
            "Report.build",
            "java.util.concurrent.ThreadPoolExecutor.runWorker",
        ];
        let call_path = path.iter().map(|name| Frame::named(name, Role::Program)).collect();
        let results = Site { call_path, count: 10, ns: waited_ns };
        facts.locks.push(LockFacts {
            pid: Pid(PID),
            primitive: Primitive::Park,
            waits: 10,
            waiters: vec![(Tid(PID + worker as u32), OffTime { count: 10, ns: waited_ns })],
            wait_sites: vec![results],
            holders: vec![
                Holder { tid: Tid(PID + 3), count: 8, ns: 400 * MS },
                Holder { tid: Tid(PID), count: 2, ns: 0 },
            ],
            ..LockFacts::default()
        });
    }
    facts
}

#[test]
fn tasks_that_wait_for_their_own_pool_at_their_thresholds() {
    holds_at_its_thresholds(
        Kind::SmallPool,
        nested,
        &[
            ("they hardly wait", |facts| {
                facts.locks.iter_mut().flat_map(|lock| &mut lock.waiters).for_each(|(_, time)| time.ns /= 2);
            }),
            ("others end these waits", |facts| facts.locks[0].holders[1].count = 20),
            ("it waits once", |facts| facts.locks.iter_mut().for_each(|lock| lock.waiters[0].1.count = 1)),
            ("there are threads left", |facts| off(facts, 3, Reason::Futex(Primitive::Park), 20, 950 * MS)),
            ("no executor runs them", |facts| {
                facts.locks.iter_mut().for_each(|lock| drop(lock.wait_sites[0].call_path.pop()));
            }),
        ],
    );
    let found = &judge(Kind::SmallPool, &nested())[0];
    assert_eq!((found.cure, found.severity), (Cure::WaitElsewhere, 0.45), "of three threads' time");
}

#[test]
fn an_executor_is_judged_for_itself_and_polls_for_its_tasks() {
    let mut facts = queued_tasks();
    // A worker of another one waits for the time of its tasks.
    facts.threads[0].name = "pool-2-thread-1".to_owned();
    facts.threads.push(ThreadFacts { tid: Tid(PID + 3), ..facts.threads[0].clone() });
    facts.threads[0].name = "main".to_owned();
    assert_eq!(judge(Kind::SmallPool, &facts).len(), 1);
    for worker in 1..3 {
        facts.threads[worker].off.clear();
        off(&mut facts, worker, Reason::Poll, 100, 900 * MS);
    }
    assert_eq!(judge(Kind::SmallPool, &facts).len(), 1);
}

#[test]
fn an_event_loop_that_workers_wake_waits_for_its_tasks() {
    let facts = |ended_waits| {
        let mut facts = queued_tasks();
        facts.locks.clear();
        off(&mut facts, 0, Reason::Poll, 100, 800 * MS);
        facts.blame = (1..3).map(|worker| blamed(0, None, Leaf::Outside, worker, 150 * MS)).collect();
        facts.threads[1..].iter_mut().for_each(|thread| thread.ended_waits = ended_waits);
        facts
    };
    assert_eq!(judge(Kind::SmallPool, &facts(4)).len(), 1);
    assert_eq!(judge(Kind::SmallPool, &facts(3)).len(), 0, "each has just its one task");
    let mut others = facts(4);
    others.blame[0].thread = Tid(0);
    assert_eq!(judge(Kind::SmallPool, &others).len(), 0, "something else ends most of its waits");
    let mut plain = facts(4);
    plain.threads[0].off.clear();
    assert_eq!(judge(Kind::SmallPool, &plain).len(), 0, "it waits for no events");
}

#[test]
fn who_runs_the_tasks_of_tokio_is_no_thread_for_calls_that_block() {
    let mut facts = queued_tasks();
    let path = |functions: &[&str]| {
        let call_path = functions.iter().map(|name| Frame::named(name, Role::Program)).collect();
        Site { call_path, count: 1, ns: MS }
    };
    let began = "tokio::runtime::blocking::pool::Inner::run";
    for thread in &mut facts.threads {
        thread.name = "tokio-rt-worker".to_owned();
        thread.off_sites = vec![path(&["resolve", began])];
    }
    assert_eq!(judge(Kind::SmallPool, &facts).len(), 0, "all of one pool, and one is idle");
    facts.threads[0].off_sites = vec![path(&["tokio::runtime::scheduler::multi_thread::park", began])];
    assert_eq!(judge(Kind::SmallPool, &facts).len(), 1);
    // They wake each other for what the pool has finished.
    facts.locks[0].holders.push(Holder { tid: Tid(PID), count: 200, ns: MS });
    assert_eq!(judge(Kind::SmallPool, &facts).len(), 1);
    facts.locks[0].holders[2].count = 201;
    assert_eq!(judge(Kind::SmallPool, &facts).len(), 0, "the pool ends few of these waits");
}

#[test]
fn without_names_a_thread_of_tokio_that_never_waits_for_a_task_runs_calls_that_block() {
    let mut facts = queued_tasks();
    facts.threads.iter_mut().for_each(|thread| thread.name = "tokio-rt-worker".to_owned());
    spent(&mut facts, 0, AccountState::Work, 800 * MS);
    assert_eq!(judge(Kind::SmallPool, &facts).len(), 1);
    let mut named = facts.clone();
    named.threads[1..].iter_mut().for_each(|thread| thread.off_sites = vec![site("resolve")]);
    assert_eq!(judge(Kind::SmallPool, &named).len(), 0, "they have names, and none is the pool's");
    spent(&mut facts, 1, AccountState::Work, 15 * MS);
    assert_eq!(judge(Kind::SmallPool, &facts).len(), 1, "the other is one still");
    spent(&mut facts, 2, AccountState::Work, 15 * MS);
    assert_eq!(judge(Kind::SmallPool, &facts).len(), 0, "both wait for tasks");
}

#[test]
fn workers_of_a_python_executor_are_known_by_their_loop() {
    let in_file = |function| {
        let module = "/usr/lib/python3.12/concurrent/futures/thread.py".into();
        let frame = Frame { module, ..Frame::named(function, Role::Runtime) };
        Site { call_path: vec![Frame::named("locate", Role::Program), frame], count: 1, ns: MS }
    };
    let found = |function| {
        let mut facts = queued_tasks();
        for thread in &mut facts.threads[1..] {
            thread.name = "lookup".to_owned();
            thread.hot_sites = vec![in_file(function)];
        }
        facts.threads[0].hot_sites = vec![in_file("ThreadPoolExecutor.submit")];
        judge(Kind::SmallPool, &facts).into_iter().find_map(|finding| finding.place)
    };
    let place = found("_worker").expect("a pool that is too small");
    assert_eq!(place.caller().and_then(|frame| frame.function.as_deref()), Some("locate"));
    assert!(found("_base").is_none(), "not every function of that file is a worker's");
}

#[test]
fn workers_of_a_pool_of_processes_that_wait_for_tasks_want_no_lock() {
    let frame = |module: &str, function: &str, role| Frame { module: module.into(), ..Frame::named(function, role) };
    let mut facts = sleeper();
    let lock = &mut facts.locks[0];
    lock.wait_sites[0].call_path[0] = frame("/usr/lib/_multiprocessing.cpython-311.so", "acquire", Role::Program);
    let site = |function| {
        let call_path =
            vec![frame("[kernel]", "schedule", Role::Scheduler), frame("libc.so.6", function, Role::Runtime)];
        Site { call_path, count: 1, ns: MS }
    };
    lock.holder_doing.off_sites = vec![site("nanosleep")];
    assert!(kinds(&facts).contains(&Kind::SleepingHolder));
    facts.locks[0].holder_doing.off_sites = vec![site("read")];
    assert_eq!(kinds(&facts), []);
}
