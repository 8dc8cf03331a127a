//! Made-up recordings for the tests of the views: deterministic, with everything that can go right and wrong in them.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use holdup_analyze::{
    Account, AccountState, Blame, Code, Command, CpuFacts, Cure, Efficiency, Evidence, Facts, Finding, Frame,
    GoroutineFacts, GoroutineGroup, GoroutineHolder, GoroutineLock, GoroutineState, Herds, Histogram, Holder,
    HolderDoing, Hotspot, HotspotClass, Interval, Kind, Leaf, LockFacts, LockName, LockNumber, Moment, OffTime,
    PairFacts, Path, PathPart, Primitive, Problem, ProcessFacts, Reason, Report, Role, Site, SocketFacts, State,
    Subject, ThreadFacts, Timeline, Totals, Unit, Wake, Wakings,
};
use holdup_trace::{
    CallNumber, Capabilities, Counter, Damage, Ending, Header, LockFigures, Machine, Pid, Spread, Target, ThreadUsage,
    Tid, Trigger,
};

use holdup_record::doctor::{Container, Diagnosis, Probe, Seeing, Trial, judge};

use crate::recording::Recording;

/// When the made-up recordings begin on the events' clock.
const BEGAN_NS: u64 = 5_000_000_000;

const MS: u64 = 1_000_000;

fn histogram(values: &[(u64, u64)]) -> Histogram {
    let mut histogram = Histogram::default();
    for (ns, times) in values {
        (0..*times).for_each(|_| histogram.add(*ns));
    }
    histogram
}

pub(super) fn frame(function: &str, file: Option<(&str, u32)>, module: &str, role: Role) -> Frame {
    Frame {
        address: 0x5555_0000_1234,
        function: (!function.is_empty()).then(|| Arc::from(function)),
        module: Arc::from(module),
        offset: 0x1234,
        start: 0x1234,
        file: file.map(|(file, _)| Arc::from(file)),
        line: file.map(|(_, line)| line),
        inlined: false,
        role,
    }
}

/// The call path into the lock of the cache.
fn locking(count: u64, ns: u64) -> Site {
    let mut inlined = frame("cache_get", Some(("/src/server/cache.c", 88)), "/usr/bin/server", Role::Program);
    inlined.inlined = true;
    let call_path = vec![
        frame("futex_wait", None, "[kernel]", Role::Kernel),
        frame("__lll_lock_wait", None, "/lib/libc.so.6", Role::Lock),
        frame("pthread_mutex_lock", None, "/lib/libc.so.6", Role::Lock),
        inlined,
        frame("handle_request", Some(("/src/server/main.c", 214)), "/usr/bin/server", Role::Program),
        frame("", None, "/usr/bin/server", Role::Program),
        frame("start_thread", None, "/lib/libc.so.6", Role::Runtime),
    ];
    Site { call_path, count, ns }
}

fn thread(tid: u32, name: &str, parts: &[(Reason, u64, u64)]) -> ThreadFacts {
    let off: BTreeMap<Reason, OffTime> =
        parts.iter().map(|(reason, count, ms)| (*reason, OffTime { count: *count, ns: ms * MS })).collect();
    let off_ns: u64 = off.values().map(|off| off.ns).sum();
    let lock_wait_ns: u64 = off
        .iter()
        .filter(|(reason, _)| matches!(reason, Reason::Futex(what) if what.is_contention()))
        .map(|(_, off)| off.ns)
        .sum();
    let involuntary = off.get(&Reason::Preempted).map_or(0, |off| off.count);
    let voluntary = off.values().map(|off| off.count).sum::<u64>() - involuntary;
    let counted = ThreadUsage { voluntary, involuntary, priority: 20, ..ThreadUsage::default() };
    ThreadFacts {
        tid: Tid(tid),
        pid: Pid(700),
        name: name.to_owned(),
        born_ns: BEGAN_NS,
        ended_ns: BEGAN_NS + 10_000 * MS,
        on_cpu_ns: 10_000 * MS - off_ns,
        voluntary,
        involuntary,
        off,
        lock_wait_ns,
        run_ns: histogram(&[(21_000, 40), (190_000, 3)]),
        run_delay_ns: histogram(&[(4_000, 10)]),
        user_samples: 900,
        kernel_samples: 100,
        wakes: 1_000,
        usage: Some((ThreadUsage::default(), counted)),
        ..ThreadFacts::default()
    }
}

fn cache_lock() -> LockFacts {
    LockFacts {
        pid: Pid(700),
        addr: Some(0x5555_5555_8040),
        name: LockName::Symbol { name: "g_cache_lock".to_owned(), offset: 0 },
        primitive: Primitive::Mutex,
        waits: 128_000,
        wait_ns: histogram(&[(72_000, 127_000), (1_200_000, 900), (31_000_000, 1)]),
        eagain_waits: 9_000,
        wakes: 129_500,
        wasted_wakes: 21_000,
        max_waiters: 3,
        waiters: vec![
            (Tid(702), OffTime { count: 64_000, ns: 5_200 * MS }),
            (Tid(703), OffTime { count: 64_000, ns: 5_100 * MS }),
        ],
        holders: vec![
            Holder { tid: Tid(704), count: 128_000, ns: 10_254 * MS },
            Holder { tid: Tid(0), count: 9, ns: MS },
        ],
        wait_sites: vec![
            locking(120_000, 9_000 * MS),
            Site {
                call_path: vec![frame("cache_put", Some(("cache.c", 131)), "server", Role::Program)],
                count: 8_000,
                ns: 1_300 * MS,
            },
        ],
        wake_sites: vec![locking(128_000, 0)],
        holder_doing: HolderDoing {
            running_ns: 6_900 * MS,
            off: BTreeMap::from([(Reason::Preempted, 2_400 * MS), (Reason::Io, 900 * MS)]),
            unknown_ns: 100 * MS,
            off_sites: vec![Site {
                call_path: vec![frame("write_log", Some(("log.c", 17)), "server", Role::Program)],
                count: 12,
                ns: 900 * MS,
            }],
        },
        handover_ns: histogram(&[(9_000, 50)]),
        run_before_ns: histogram(&[(11_000, 50)]),
        contended_ns: 7_000 * MS,
        words: Some((1_000, 812, 640)),
        figures: Some(LockFigures {
            addr: 0,
            acquisitions: 1_200_000,
            contended: 380_000,
            slept: 128_000,
            threads: 8,
            wait: Spread {
                count: 128_000,
                scale: 1,
                sum_ns: 9_000 * MS,
                p50_ns: 9_000,
                p99_ns: 400_000,
                max_ns: 31 * MS,
            },
            hold: Spread { count: 75_000, scale: 16, sum_ns: 430 * MS, p50_ns: 4_100, p99_ns: 61_000, max_ns: 2 * MS },
        }),
        herds: Herds { calls: 2, woken: 6, back_to_sleep: 4 },
        inversions: OffTime { count: 1, ns: MS },
        longest: vec![(Tid(702), BEGAN_NS + 1_234 * MS, BEGAN_NS + 1_265 * MS)],
        ..LockFacts::default()
    }
}

/// On the heap, without a symbol.
fn session_lock() -> LockFacts {
    LockFacts {
        addr: Some(0x7f00_1230),
        name: LockName::Site("session_find".to_owned()),
        primitive: Primitive::RustMutex,
        waits: 900,
        wait_ns: histogram(&[(40_000, 900)]),
        max_waiters: 1,
        wait_sites: vec![Site {
            call_path: vec![frame("session_find", Some(("session.rs", 15)), "server", Role::Program)],
            count: 900,
            ns: 36 * MS,
        }],
        ..LockFacts::default()
    }
}

fn work_queue() -> LockFacts {
    LockFacts {
        addr: Some(0x5555_5555_9000),
        name: LockName::Symbol { name: "g_queue".to_owned(), offset: 48 },
        primitive: Primitive::Condvar,
        waits: 12_000,
        wait_ns: histogram(&[(700_000, 12_000)]),
        max_waiters: 2,
        ..LockFacts::default()
    }
}

fn finding(kind: Kind, severity: f64, subjects: Vec<Subject>, cure: Cure) -> Finding {
    let words = ["bench", "--lock", "pthread,adaptive", "--threads", "4"].map(str::to_owned).to_vec();
    Finding {
        bound: Some(1.0 / (1.0 - severity)),
        kind,
        severity,
        subjects,
        place: None,
        evidence: vec![],
        moments: vec![],
        cure,
        proof: Command { words, program: false },
    }
}

fn evidence(name: &'static str, value: f64, unit: Unit) -> Evidence {
    Evidence { name, value, unit }
}

fn cache_subject() -> Subject {
    let lock = cache_lock();
    Subject::Lock { number: LockNumber(0), name: lock.name, addr: lock.addr, primitive: lock.primitive }
}

fn thread_subject(tid: u32, name: &str) -> Subject {
    Subject::Thread { tid: Tid(tid), name: name.to_owned() }
}

fn findings() -> Vec<Finding> {
    let mut hot = finding(Kind::HotLock, 0.41, vec![cache_subject()], Cure::ShortenSplitOrGate);
    hot.place = Some(locking(120_000, 9_000 * MS));
    hot.evidence = vec![
        evidence("waits_per_s", 12_800.0, Unit::PerSecond),
        evidence("wait_median_ns", 88_000.0, Unit::Ns),
        evidence("wait_p99_ns", 1_200_000.0, Unit::Ns),
        evidence("contended_share", 0.7, Unit::Share),
        evidence("max_waiters_count", 3.0, Unit::Count),
        evidence("wait_to_hold_ratio", 4.2, Unit::Ratio),
    ];
    hot.moments = vec![Moment { tid: Tid(702), from_ns: BEGAN_NS + 1_234 * MS, to_ns: BEGAN_NS + 1_265 * MS }];
    let mut pair = finding(
        Kind::PingPong,
        0.12,
        vec![thread_subject(702, "worker-1"), thread_subject(705, "logger")],
        Cure::MergeOrBatch,
    );
    pair.proof = Command { words: vec!["try".to_owned(), "--gates".to_owned(), "2".to_owned()], program: true };
    pair.evidence = vec![evidence("round_trips_per_s", 8_123.0, Unit::PerSecond)];
    let atomic = Subject::Variable(LockName::Symbol { name: "hits_total".to_owned(), offset: 0 });
    vec![
        hot,
        pair,
        finding(Kind::WastedWakeups, 0.05, vec![cache_subject()], Cure::WakeOnlyWaiters),
        finding(Kind::HotAtomic, 0.04, vec![atomic], Cure::ShardCounter),
        finding(Kind::KernelHeavy, 0.03, vec![], Cure::FewerCalls),
    ]
}

/// One finding of every kind, with every cure.
pub fn every_kind() -> Vec<Finding> {
    const CURES: [Cure; 58] = [
        Cure::ShortenSplitOrGate,
        Cure::ShortenTransactions,
        Cure::SpinThenPark,
        Cure::MoveOutOfSection,
        Cure::MoveIoOutOfSection,
        Cure::FasterReader,
        Cure::LetSeveralIn,
        Cure::MergeOrBatch,
        Cure::LetOverlap,
        Cure::FewerThreads,
        Cure::WakeOne,
        Cure::ParkInsteadOfSpin,
        Cure::SleepAtBarriers,
        Cure::ShardCounter,
        Cure::OwnLines,
        Cure::FewerCalls,
        Cure::WakeOnlyWaiters,
        Cure::Rebalance,
        Cure::InheritPriority,
        Cure::CoarserWork,
        Cure::FasterIo,
        Cure::FewerReads,
        Cure::FewerMappings,
        Cure::LargerPages,
        Cure::PagesAhead,
        Cure::OtherAllocator,
        Cure::FairLock,
        Cure::DivideSerialPart,
        Cure::WidenStage,
        Cure::MoreWorkers,
        Cure::LetLoopGoOn,
        Cure::WaitInsteadOfPolling,
        Cure::SendLess,
        Cure::LargerTasks,
        Cure::HandOverMore,
        Cure::LongerRounds,
        Cure::SpreadEvents,
        Cure::BlockInsteadOfLooking,
        Cure::LeaveInterpreter,
        Cure::LessGarbage,
        Cure::CollectUnasked,
        Cure::OwnObjects,
        Cure::KeepConnections,
        Cure::KeepThreads,
        Cure::KeepProcesses,
        Cure::WidenAffinity,
        Cure::WaitElsewhere,
        Cure::AcceptMore,
        Cure::WaitInCall,
        Cure::RaiseGomaxprocs,
        Cure::RaiseQuota,
        Cure::WakeWhoCanGoOn,
        Cure::TakeWhatIsThere,
        Cure::CallAsynchronously,
        Cure::StartSeveral,
        Cure::ReachSafepoints,
        Cure::LockInOrder,
        Cure::ReleaseAlways,
    ];
    let subjects = |kind| match kind {
        Kind::Deadlock => vec![cache_subject(), thread_subject(702, "worker-1")],
        Kind::PingPong => vec![thread_subject(702, "worker-1"), thread_subject(705, "logger")],
        Kind::ExcessiveSwitching | Kind::Oversubscription | Kind::KernelHeavy => vec![],
        Kind::SpinWaste => vec![Subject::Function("spin_until_free".to_owned())],
        Kind::HotAtomic => {
            vec![Subject::Variable(LockName::Symbol { name: "hits_total".to_owned(), offset: 0 })]
        }
        Kind::Imbalance | Kind::SerialPhase | Kind::SlowStage | Kind::Polling => {
            vec![thread_subject(702, "worker-1")]
        }
        _ => vec![cache_subject()],
    };
    let pairs = Kind::ALL.into_iter().cycle().zip(CURES.into_iter().cycle());
    let all = Kind::ALL.len().max(CURES.len());
    pairs.take(all).map(|(kind, cure)| finding(kind, 0.25, subjects(kind), cure)).collect()
}

fn timeline() -> Timeline {
    let run =
        |from, to, cpu| Interval { from_ns: BEGAN_NS + from, to_ns: BEGAN_NS + to, state: State::Running { cpu } };
    let off = |from, to, reason, lock: Option<u32>| Interval {
        from_ns: BEGAN_NS + from,
        to_ns: BEGAN_NS + to,
        state: State::Off { reason, lock: lock.map(LockNumber) },
    };
    let mutex = Reason::Futex(Primitive::Mutex);
    let threads = [
        vec![run(0, 100_000, 0), off(100_000, 340_000, mutex, Some(0)), run(340_000, 400_000, 1)],
        vec![
            run(50_000, 90_000, 1),
            Interval { from_ns: BEGAN_NS + 90_000, to_ns: BEGAN_NS + 95_000, state: State::Runnable },
            run(95_000, 330_000, 1),
            off(330_000, 900_000, Reason::Poll, None),
        ],
    ];
    Timeline {
        wakes: vec![Wake { time_ns: BEGAN_NS + 320_000, from: Tid(703), to: Tid(702) }],
        ..Timeline::of(&threads)
    }
}

fn header() -> Header {
    Header {
        producer: "holdup 0.1.0".to_owned(),
        began_unix_s: 1_767_254_400,
        began_ns: BEGAN_NS,
        machine: Machine {
            host: "web-17".to_owned(),
            cpu: "Example CPU 3000".to_owned(),
            cpus: 2,
            allowed_cpus: 2,
            arch: "x86_64".to_owned(),
            kernel: "6.18.0".to_owned(),
            sockets: vec![0, 0],
        },
        target: Target {
            command: ["./server", "--greeting", "good day"].map(str::to_owned).to_vec(),
            pids: vec![700],
            attached: false,
        },
        capabilities: Capabilities {
            switches: true,
            futexes: true,
            calls: true,
            samples: true,
            faults: true,
            ..Capabilities::default()
        },
        sample_period_ns: MS,
        stack_bytes: 512,
        futex_zero_period: 1,
        look_period_ns: 0,
        start_cpu_ns: 4 * MS,
        no_counters: None,
    }
}

fn recording(facts: Facts, findings: Vec<Finding>, problems: Vec<Problem>) -> Recording {
    let report = Report { facts, findings, problems, timeline: Some(timeline()), ..Report::default() };
    Recording { path: PathBuf::from("server-20260101-080000.holdup"), file_bytes: 1_234_567, report, damage: vec![] }
}

fn sum(threads: &[ThreadFacts], part: impl Fn(&ThreadFacts) -> u64) -> u64 {
    threads.iter().map(part).sum()
}

fn totals(threads: &[ThreadFacts]) -> Totals {
    Totals {
        events: 1_300_000,
        switches: sum(threads, |thread| thread.voluntary + thread.involuntary),
        involuntary: sum(threads, |thread| thread.involuntary),
        on_cpu_ns: sum(threads, |thread| thread.on_cpu_ns),
        thread_ns: sum(threads, ThreadFacts::life_ns),
        lock_wait_ns: sum(threads, |thread| thread.lock_wait_ns),
        run_ns: histogram(&[(21_000, 100)]),
        runnable_ns: vec![1_000 * MS, 4_000 * MS, 5_000 * MS],
        user_samples: 8_000,
        kernel_samples: Some(2_000),
        wasted_wakes: 21_000,
        ..Totals::default()
    }
}

fn account(parts: &[(AccountState, u64)]) -> Account {
    let mut account = Account::default();
    parts.iter().for_each(|(state, ms)| account.ns[*state as usize] = ms * MS);
    account
}

/// The disk that the log is on holds up its writer, who has the lock that the workers want.
fn blame() -> Vec<Blame> {
    let flush = Site {
        call_path: vec![frame("flush_log", Some(("/src/server/log.c", 17)), "/usr/bin/server", Role::Program)],
        count: 12,
        ns: 900 * MS,
    };
    let branch = |waiter, lock: Option<u32>, via: Option<u32>, leaf, thread, ms| Blame {
        waiter: Tid(waiter),
        lock: lock.map(LockNumber),
        via: via.map(LockNumber),
        leaf,
        thread: Tid(thread),
        site: None,
        file: None,
        asker: None,
        ns: ms * MS,
    };
    let running = |waiter, ms| Blame {
        site: Some(locking(120_000, ms * MS)),
        ..branch(waiter, Some(0), None, Leaf::Running, 704, ms)
    };
    let on_disk = |waiter, ms| Blame {
        site: Some(flush.clone()),
        file: Some("/var/log/server.log".to_owned()),
        ..branch(waiter, Some(0), Some(1), Leaf::Io, 705, ms)
    };
    vec![
        branch(700, None, None, Leaf::Outside, 0, 9_990),
        running(702, 4_800),
        running(703, 4_700),
        on_disk(702, 400),
        on_disk(703, 300),
        branch(704, Some(2), None, Leaf::Cpu, 702, 100),
    ]
}

fn path() -> Path {
    let part = |leaf, thread, site, file: Option<&str>, ms| PathPart {
        leaf,
        thread: Tid(thread),
        site,
        file: file.map(str::to_owned),
        ns: ms * MS,
    };
    Path {
        parts: vec![
            part(Leaf::Running, 704, Some(locking(128_000, 0)), None, 6_900),
            part(Leaf::Cpu, 704, None, None, 2_100),
            part(Leaf::Io, 705, None, Some("/var/log/server.log"), 990),
            part(Leaf::Unknown, 700, None, None, 10),
        ],
        locks: vec![(LockNumber(0), 4_100 * MS), (LockNumber(2), 300 * MS)],
        pieces: vec![],
    }
}

/// A server whose threads wait for each other, with something of everything.
pub fn held_up() -> Recording {
    let mutex = Reason::Futex(Primitive::Mutex);
    let condvar = Reason::Futex(Primitive::Condvar);
    let threads = vec![
        thread(702, "worker-1", &[(mutex, 64_000, 5_200), (Reason::Preempted, 800, 300)]),
        thread(703, "worker-2", &[(mutex, 64_000, 5_100), (Reason::Io, 90, 1_100)]),
        thread(704, "worker-3", &[(condvar, 6_000, 2_000), (Reason::Yielded, 10, 1)]),
        thread(705, "logger", &[(condvar, 6_000, 9_000), (Reason::OtherCall, 4, 20)]),
        thread(700, "server", &[(Reason::Poll, 12, 9_990)]),
    ];
    let code = |function: &str, module: &str, hits, role| Code {
        frame: frame(function, Some(("/src/server/cache.c", 88)), module, role),
        hits,
        inclusive: hits + 500,
    };
    let facts = Facts {
        account: account(&[
            (AccountState::Running, 17_300),
            (AccountState::CpuOwn, 300),
            (AccountState::Lock, 10_300),
            (AccountState::Work, 20_990),
            (AccountState::Io, 1_100),
            (AccountState::Unknown, 10),
        ]),
        blame: blame(),
        turns: Vec::new(),
        poll_herds: None,
        safepoints: None,
        path: path(),
        header: header(),
        ending: Some(Ending {
            ended_ns: BEGAN_NS + 10_000 * MS,
            reason: "the target ended".to_owned(),
            status: Some(0),
            lost: 12,
            recorder_cpu_ns: 310 * MS,
            voluntary: Some(140_200),
            involuntary: Some(811),
            user_ns: Some(9_000 * MS),
            kernel_ns: Some(2_000 * MS),
            faults: Some(12_000),
            trigger: None,
        }),
        start_ns: BEGAN_NS,
        end_ns: BEGAN_NS + 10_000 * MS,
        totals: totals(&threads),
        cpus: vec![
            CpuFacts {
                busy_ns: 9_000 * MS,
                switches: 70_000,
                lost: 12,
                counters: BTreeMap::from([(Counter::Cycles, 5)]),
                efficiency: Efficiency::default(),
            },
            CpuFacts { busy_ns: 8_000 * MS, switches: 70_000, ..CpuFacts::default() },
        ],
        sockets: vec![SocketFacts { socket: 0, busy_ns: 17_000 * MS, efficiency: Efficiency::default() }],
        efficiency: Efficiency::default(),
        processes: vec![ProcessFacts {
            pid: Pid(700),
            name: "server".to_owned(),
            program: Some("/usr/bin/server".to_owned()),
            executed: None,
            started_by: None,
            threads: 5,
        }],
        threads,
        locks: vec![cache_lock(), session_lock(), work_queue()],
        pairs: vec![PairFacts {
            a: Tid(702),
            b: Tid(705),
            wakings: Wakings { a_to_b: 81_000, b_to_a: 81_230 },
            round_trips: 81_000,
            run_ns: histogram(&[(3_000, 10)]),
            sites: vec![locking(81_000, 0)],
            from_ns: BEGAN_NS,
            to_ns: BEGAN_NS + 9_000 * MS,
        }],
        symbols: vec![
            code("cache_get", "/usr/bin/server", 4_000, Role::Program),
            code("__lll_lock_wait", "/lib/libc.so.6", 1_200, Role::Lock),
            code("", "/usr/bin/server", 300, Role::Program),
        ],
        modules: vec![code("", "/usr/bin/server", 6_000, Role::Program), code("", "[kernel]", 2_000, Role::Kernel)],
        hotspots: vec![Hotspot {
            frame: frame("count_hit", Some(("stat.c", 9)), "/usr/bin/server", Role::Program),
            instruction: "lock inc qword ptr [rip+2f00h]".to_owned(),
            class: HotspotClass::Atomic,
            variable: Some(LockName::Symbol { name: "hits_total".to_owned(), offset: 0 }),
            hits: 380,
            function_hits: 410,
            threads: vec![(Tid(702), 200), (Tid(703), 180)],
            sites: Vec::new(),
        }],
        lines: Vec::new(),
        calls: BTreeMap::from([(CallNumber(232), 12)]),
        yield_sites: vec![locking(10, 0)],
        switch_sites: Vec::new(),
        fault_sites: Vec::new(),
        kernel_sites: Vec::new(),
        futex_sites: Vec::new(),
        tasks: Vec::new(),
        // Too few looks for a sentence.
        goroutines: vec![GoroutineFacts {
            pid: Pid(700),
            looks: 3,
            mean: 9.0,
            doing: vec![
                GoroutineGroup { state: GoroutineState::Mutex, site: locking(3, 0), mean: 4.0, looking: None },
                GoroutineGroup { state: GoroutineState::Running, site: Site::default(), mean: 1.0, looking: None },
            ],
            mutexes: vec![GoroutineLock {
                wait_sites: vec![locking(3, 0)],
                name: LockName::Site("main.put".to_owned()),
                waiters: 4.0,
                most: 5,
                contended: 0.75,
                holder: Some(GoroutineHolder {
                    mean: 1.0,
                    doing: GoroutineState::Sleep,
                    sites: vec![locking(1, 0)],
                    began: None,
                }),
            }],
            sends: Vec::new(),
            entries: Vec::new(),
            last: None,
        }],
        alone_sites: Vec::new(),
        parallel_sites: Vec::new(),
        spun_beside_displaced: 0,
        counters: BTreeMap::from([(Counter::FutexCalls, 400_000), (Counter::FutexAgain, 9_000)]),
    };
    let problems = vec![
        Problem::Lost { count: 12, places: 1, from_ns: BEGAN_NS + 2_000 * MS, to_ns: BEGAN_NS + 2_003 * MS },
        Problem::NoLines { path: "/lib/libc.so.6".to_owned(), hits: 120_000 },
        Problem::Unreadable { path: "/opt/plugin.so".to_owned(), hits: 9 },
        Problem::Replaced { path: "/usr/lib/old.so".to_owned() },
        Problem::ClockSkew { count: 2, max_ns: 1_500 },
        Problem::SwitchesDiffer { tid: Tid(705), recorded: 6_004, counted: 6_104 },
        Problem::Unknown { what: "call 999".to_owned() },
        Problem::CutOff,
    ];
    let mut recording = recording(facts, findings(), problems);
    recording.damage = vec![Damage { at: 4_096, why: "has a chunk whose checksum is wrong".to_owned() }];
    recording
}

/// The same server in health, attached to, after the cure.
pub fn healthy() -> Recording {
    let condvar = Reason::Futex(Primitive::Condvar);
    let threads = vec![
        thread(802, "worker-1", &[(condvar, 400, 2_000)]),
        thread(803, "worker-2", &[(condvar, 410, 2_100)]),
        thread(800, "server", &[(Reason::Poll, 12, 9_990)]),
    ];
    let mut header = header();
    header.target = Target { command: vec![], pids: vec![800], attached: true };
    header.capabilities = Capabilities {
        switch_reasons: true,
        wakings: true,
        foreign_wakings: true,
        kernel: true,
        ..header.capabilities
    };
    let facts = Facts {
        header,
        ending: Some(Ending {
            ended_ns: BEGAN_NS + 10_000 * MS,
            reason: "the time was over".to_owned(),
            recorder_cpu_ns: 12 * MS,
            trigger: Some(Trigger {
                condition: "switches > 1000/s".to_owned(),
                time_ns: BEGAN_NS + 9_500 * MS,
                seen: "there were 1200 switches per second".to_owned(),
            }),
            ..Ending::default()
        }),
        start_ns: BEGAN_NS,
        end_ns: BEGAN_NS + 10_000 * MS,
        totals: Totals { wasted_wakes: 0, ..totals(&threads) },
        processes: vec![ProcessFacts {
            pid: Pid(800),
            name: "server".to_owned(),
            program: None,
            executed: None,
            started_by: None,
            threads: 3,
        }],
        threads,
        locks: vec![work_queue()],
        account: account(&[(AccountState::Running, 15_910), (AccountState::Work, 14_090)]),
        ..Facts::default()
    };
    recording(facts, vec![], vec![])
}

/// Not one event, not even an end.
pub fn empty() -> Recording {
    let mut recording = recording(Facts::default(), vec![], vec![Problem::CutOff]);
    recording.report.timeline = None;
    recording
}

/// Names that would move a terminal's cursor, reorder its lines, or be wider than it.
pub fn hostile() -> Recording {
    let mut recording = held_up();
    let evil = "\u{1b}[2J\u{202e}evil\r\n\u{0}";
    let facts = &mut recording.report.facts;
    facts.header.target.command = vec![format!("./{evil}")];
    for thread in &mut facts.threads {
        thread.name = evil.repeat(9);
    }
    for lock in &mut facts.locks {
        lock.name = LockName::Symbol { name: evil.repeat(9), offset: 3 };
        for site in &mut lock.wait_sites {
            site.call_path.iter_mut().for_each(|frame| {
                frame.function = Some(Arc::from(evil.repeat(9)));
                frame.file = Some(Arc::from(evil.repeat(9)));
            });
        }
    }
    for code in facts.symbols.iter_mut().chain(&mut facts.modules) {
        code.frame.function = Some(Arc::from(evil));
        code.frame.module = Arc::from(evil);
    }
    facts.processes[0].name = evil.to_owned();
    recording.report.findings[0].subjects = vec![Subject::Function(evil.repeat(9))];
    recording.report.findings[0].place = recording.report.facts.locks[0].wait_sites.first().cloned();
    recording.report.problems = vec![
        Problem::Unknown { what: evil.to_owned() },
        Problem::Replaced { path: evil.to_owned() },
        Problem::Unreadable { path: evil.to_owned(), hits: 1 },
        Problem::NoLines { path: evil.to_owned(), hits: u64::MAX },
    ];
    recording.damage = vec![Damage { at: u64::MAX, why: evil.to_owned() }];
    recording.path = PathBuf::from(format!("{evil}.holdup"));
    recording
}

fn probe() -> Probe {
    Probe {
        paranoid: Some(2),
        uid: 1000,
        kernel: "6.18.0".to_owned(),
        cpus: 2,
        memlock_bytes: 8 << 20,
        open_files: 1 << 20,
        max_sample_hz: Some(100_000),
        bounding: u64::MAX,
        trials: vec![
            (Seeing::Switches, Trial::Works),
            (Seeing::Futexes, Trial::Works),
            (Seeing::Samples, Trial::Works),
            (Seeing::Kernel, Trial::Refused(13)),
            (Seeing::Reasons, Trial::Refused(1)),
            (Seeing::ForeignWakings, Trial::Refused(13)),
            (Seeing::Hardware, Trial::Refused(2)),
        ],
        ..Probe::default()
    }
}

/// What an ordinary user finds on most machines.
pub fn ordinary_user() -> Diagnosis {
    let probe = probe();
    Diagnosis { abilities: judge(&probe), notes: vec!["the file of tracepoints is not mounted".to_owned()], probe }
}

/// A container in which nothing is allowed.
pub fn locked_down() -> Diagnosis {
    let trials = Seeing::ALL.map(|seeing| (seeing, Trial::Refused(1))).to_vec();
    let probe = Probe { paranoid: Some(4), container: Container::Docker, filtered: true, trials, ..probe() };
    Diagnosis { abilities: judge(&probe), notes: vec![], probe }
}
