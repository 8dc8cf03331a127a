//! What languages' runtimes do: interpreters' locks, collectors, event loops.

use super::*;

#[test]
fn the_thread_that_watches_over_a_program_in_go_works_for_nobody() {
    let thread = |function, share: u64| {
        let mut thread = ThreadFacts { off_sites: vec![site(function)], ended_ns: 10, ..ThreadFacts::default() };
        thread.account.ns[AccountState::Sleep as usize] = share;
        thread.account.ns[AccountState::Work as usize] = 10 - share;
        runtime::watches_go(&thread)
    };
    assert!(thread("runtime.usleep", 9));
    assert!(!thread("runtime.usleep", 4), "it sleeps now and then");
    assert!(!thread("main.fetch", 9));
}

/// Node's first thread derives keys and packs for 30% of the samples, in calls that return when that is done.
pub(super) fn event_loop() -> Facts {
    let mut facts = quiet(3);
    (facts.threads[0].on_cpu_ns, facts.threads[1].on_cpu_ns) = (800 * MS, 200 * MS);
    facts.totals.on_cpu_ns = S;
    facts.totals.user_samples = 1_000;
    facts.symbols = vec![
        below("node::(anonymous namespace)::CompressionStream<node::ZlibContext>::Write<false>", 100),
        below("node::crypto::CryptoJob<node::crypto::PBKDF2Traits>::Run", 200),
        below("node::(anonymous namespace)::CompressionStream<node::ZlibContext>::Write<true>", 500),
    ];
    facts
}

#[test]
fn what_the_event_loop_of_node_does_itself_at_the_thresholds() {
    holds_at_its_thresholds(
        Kind::SerialPhase,
        event_loop,
        &[
            ("it does less", |facts| facts.symbols[1].inclusive = 199),
            ("others work as well", |facts| {
                facts.threads[1..].iter_mut().for_each(|thread| thread.on_cpu_ns = 401 * MS);
            }),
            ("it idles", |facts| facts.end_ns = S + 1_201 * MS),
            ("it is no event loop", |facts| facts.threads[0].tid = Tid(PID + 9)),
            ("samples are few", |facts| {
                facts.totals.user_samples = 600;
                facts.symbols[1].inclusive = 99;
            }),
        ],
    );
}

pub(super) fn interpreted() -> Facts {
    let mut facts = quiet(4);
    mutex(&mut facts, 30, 1_700 * US);
    facts.locks[0].primitive = Primitive::InterpreterLock;
    facts.locks[0].contended_ns = 400 * MS;
    facts.threads[0].on_cpu_ns = 120 * MS;
    facts
}

#[test]
fn interpreter_lock_at_its_thresholds() {
    holds_at_its_thresholds(
        Kind::InterpreterLock,
        interpreted,
        &[
            ("waits are too short", |facts| facts.locks[0].wait_ns = histogram(30, 1_600 * US)),
            ("it is another lock", |facts| facts.locks[0].primitive = Primitive::Mutex),
            ("the CPUs are full", |facts| {
                let cpus_ns = facts.span_ns() * u64::from(facts.header.machine.cpus);
                facts.threads[0].on_cpu_ns = cpus_ns - cpus_ns / 7;
                facts.ending = Some(Ending { user_ns: Some(S), kernel_ns: Some(0), ..Ending::default() });
            }),
            ("nobody runs meanwhile", |facts| facts.threads[0].on_cpu_ns = 0),
            ("somebody waits now and then", |facts| facts.locks[0].contended_ns = 399 * MS),
            ("who has it waits for a lock of the program", |facts| {
                let doing = &mut facts.locks[0].holder_doing;
                (doing.running_ns, doing.unknown_ns) = (75 * MS, 0);
                doing.off = BTreeMap::from([(Reason::Futex(Primitive::OtherLock), 25 * MS)]);
            }),
        ],
    );
    assert!(judge(Kind::HotLock, &interpreted()).is_empty(), "it has a kind of its own");
}

/// Of the waits for the interpreter's lock, half are in threads that hand tasks to processes.
fn tiny_tasks() -> Facts {
    let mut facts = interpreted();
    let library = Frame {
        module: "/usr/lib/python3.11/multiprocessing/pool.py".into(),
        ..Frame::named("Pool._handle_results", Role::Runtime)
    };
    let handing = |path| Site { call_path: path, ns: 10 * MS, count: 1 };
    let own = Frame::named("grade_all", Role::Program);
    let other = Site { ns: 20 * MS, ..site("report") };
    facts.locks[0].wait_sites = vec![handing(vec![library.clone()]), handing(vec![library, own]), other];
    facts
}

#[test]
fn threads_that_hand_tasks_to_processes_have_small_ones() {
    let cure = |facts: &Facts| judge(Kind::InterpreterLock, facts)[0].cure;
    assert_eq!((cure(&interpreted()), cure(&tiny_tasks())), (Cure::LeaveInterpreter, Cure::LargerTasks));
    let mut rarely = tiny_tasks();
    rarely.locks[0].wait_sites[2].ns += 1;
    assert_eq!(cure(&rarely), Cure::LeaveInterpreter);
    let in_file = |file: &str| {
        let mut facts = tiny_tasks();
        let frames = facts.locks[0].wait_sites.iter_mut().flat_map(|site| &mut site.call_path);
        frames.for_each(|frame| frame.module = file.into());
        cure(&facts)
    };
    assert_eq!(in_file("/usr/lib/python3.11/concurrent/futures/process.py"), Cure::LargerTasks);
    assert_eq!(in_file("/usr/lib/python3.11/concurrent/futures/thread.py"), Cure::LeaveInterpreter);
    assert_eq!(in_file("/usr/lib/python3.11/_multiprocessing.cpython-311.so"), Cure::LeaveInterpreter);
    let place = judge(Kind::InterpreterLock, &tiny_tasks()).remove(0).place.unwrap();
    assert_eq!(place.caller().and_then(|frame| frame.function.as_deref()), Some("grade_all"));
}

#[test]
fn who_has_the_interpreters_lock_and_is_displaced_would_run() {
    let found = |displaced_ms| {
        let mut facts = interpreted();
        facts.locks[0].contended_ns = 400 * MS;
        facts.threads[0].on_cpu_ns = 40 * MS;
        off(&mut facts, 0, Reason::Displaced, 1, displaced_ms * MS);
        judge(Kind::InterpreterLock, &facts).len()
    };
    assert_eq!([found(79), found(80)], [0, 1]);
}

/// Java's machine stops three threads.
pub(super) fn stopped() -> Facts {
    let mut facts = quiet(4);
    facts.threads[3].name = "VM Thread".into();
    facts.blame = vec![blamed(0, None, Leaf::Running, 3, 50 * MS), blamed(1, None, Leaf::Running, 3, 50 * MS)];
    facts
}

#[test]
fn a_stop_of_all_threads_of_java_at_its_thresholds() {
    holds_at_its_thresholds(
        Kind::GarbageCollection,
        stopped,
        &[
            ("they are stopped for little time", |facts| facts.blame[0].ns = 49 * MS),
            ("it is another thread", |facts| facts.threads[3].name = "worker-3".into()),
            ("the machine's own threads wait", |facts| facts.threads[0].name = "C2 CompilerThread0".into()),
            ("it waits itself", |facts| facts.blame[0].leaf = Leaf::Sleep),
        ],
    );
    let mut facts = stopped();
    assert!(judge(Kind::GarbageCollection, &facts)[0].proof.words.len() == 1, "it was attached to");
    facts.header.target.command = vec!["java".to_owned(), "Main".to_owned()];
    assert!(judge(Kind::GarbageCollection, &facts)[0].proof.words[2].ends_with("-XX:+UseSerialGC"));
    facts.header.target.command.insert(1, "-XX:+UseZGC".to_owned());
    assert_eq!(judge(Kind::GarbageCollection, &facts)[0].proof.words, ["record"], "two collectors are an error");
}

#[test]
fn who_asks_for_collections_is_told() {
    let asked = |ns| {
        let mut facts = stopped();
        let call_path = ["java.lang.System.gc", "Sessions.tidy"].map(|name| Frame::named(name, Role::Program)).to_vec();
        let asks = Site { call_path, count: 5, ns };
        facts.locks.push(LockFacts { wait_sites: vec![site("take"), asks], ..LockFacts::default() });
        judge(Kind::GarbageCollection, &facts).remove(0)
    };
    assert_eq!((asked(100 * MS).cure, asked(99 * MS).cure), (Cure::CollectUnasked, Cure::LessGarbage));
    assert!(asked(100 * MS).proof.words[2].ends_with("-XX:+DisableExplicitGC"));
    assert_eq!(asked(100 * MS).place.map(|place| place.ns), Some(100 * MS));
    let python = |asked| {
        let mut facts = collecting();
        facts.symbols = vec![below("gc_collect_main", 100), below("gc_collect_impl", asked)];
        facts.symbols.iter_mut().for_each(|code| code.frame.module = "/usr/bin/python3.11".into());
        let mut tidy = site("tidy");
        let collects = Frame { module: "/usr/bin/python3.11".into(), ..Frame::named("gc_collect_impl", Role::Runtime) };
        tidy.call_path.insert(0, collects);
        facts.threads[1].hot_sites = vec![site("parse"), tidy];
        judge(Kind::GarbageCollection, &facts).remove(0).cure
    };
    assert_eq!((python(50), python(49)), (Cure::CollectUnasked, Cure::LessGarbage));
}

/// Java's machine waits for a tenth of the recording until thread 1 stops.
pub(super) fn stopping() -> Facts {
    let mut facts = quiet(3);
    (facts.threads[0].name, facts.threads[2].name) = ("VM Thread".into(), "C2 CompilerThre".into());
    facts.threads[1].hot_sites = vec![site("Auditor.verify")];
    let ran = vec![(Tid(PID + 2), 90 * MS), (Tid(PID + 1), 50 * MS)];
    facts.safepoints = Some(SafepointFacts { machine: Tid(PID), ns: 100 * MS, times: 30, ran });
    facts
}

#[test]
fn who_keeps_java_from_stopping_at_the_thresholds() {
    fn waits(facts: &mut Facts) -> &mut SafepointFacts {
        facts.safepoints.as_mut().expect("it waits")
    }
    holds_at_its_thresholds(
        Kind::SerialPhase,
        stopping,
        &[
            ("it waits for little", |facts| waits(facts).ns = 99 * MS),
            ("nobody goes on", |facts| waits(facts).ran[1].1 = 49 * MS),
            ("only the machine itself goes on", |facts| facts.threads[1].name = "G1 Conc#0".into()),
        ],
    );
    let found = &judge(Kind::SerialPhase, &stopping())[0];
    assert_eq!(found.cure, Cure::ReachSafepoints);
    assert_eq!(found.place.as_ref().and_then(Site::caller).unwrap().function.as_deref(), Some("Auditor.verify"));
    let mut polls = polling();
    let sleeper = judge(Kind::Polling, &polls)[0].subjects.clone();
    let Some(Subject::Thread { tid, .. }) = sleeper.first().cloned() else { panic!("{sleeper:?}") };
    polls.safepoints = Some(SafepointFacts { machine: tid, ..SafepointFacts::default() });
    assert!(judge(Kind::Polling, &polls).is_empty(), "it waits until others have stopped");
}

/// The collector of Go has a fifth of the samples.
pub(super) fn collecting() -> Facts {
    let mut facts = quiet(3);
    busy(&mut facts, 300 * MS);
    facts.totals.user_samples = 500;
    facts.symbols = vec![below("runtime.gcDrain", 90), below("runtime.gcDrainN", 10), below("main.build", 300)];
    facts
}

#[test]
fn a_collector_that_takes_cpu_time_at_its_thresholds() {
    holds_at_its_thresholds(
        Kind::GarbageCollection,
        collecting,
        &[
            ("it takes little", |facts| facts.symbols[0].inclusive = 89),
            ("samples are too few", |facts| {
                facts.totals.user_samples = 99;
                facts.symbols[0].inclusive = 50;
            }),
            ("the CPUs were idle otherwise", |facts| {
                facts.symbols[2].frame = Frame::named("runtime.gcDrainMarkWorkerIdle", Role::Runtime);
            }),
            ("its functions have names that are anybody's", |facts| {
                facts.symbols[0].frame = Frame::named("gc_start", Role::Program);
            }),
        ],
    );
    let found = &judge(Kind::GarbageCollection, &collecting())[0];
    assert_eq!(found.proof.words, ["try", "--env", "GOGC=200,400"]);
    let of_dotnet = |function: &str| {
        let mut facts = collecting();
        let frame = Frame { module: "/x/libcoreclr.so".into(), ..Frame::named(function, Role::Runtime) };
        facts.symbols[0] = Code { frame, hits: 0, inclusive: 100 };
        judge(Kind::GarbageCollection, &facts)[0].proof.words.join(" ")
    };
    let both = "try --env COMPlus_gcServer=1 --env COMPlus_gcConcurrent=0";
    assert_eq!(of_dotnet("WKS::gc_heap::gc1()"), both);
    assert_eq!(of_dotnet("SVR::gc_heap::gc1()"), "try --env COMPlus_gcConcurrent=0", "it is the servers' already");
    let start = |module: &str| Frame { module: module.into(), ..Frame::named("start", Role::Program) };
    let of_ruby = |module: &str| {
        let mut facts = collecting();
        facts.symbols[0] = Code { frame: start(module), hits: 0, inclusive: 100 };
        let call_path = vec![start(module), Frame::named("tidy", Role::Program)];
        facts.threads[0].hot_sites = vec![Site { call_path, count: 100, ns: 0 }];
        judge(Kind::GarbageCollection, &facts).first().map(|found| found.cure)
    };
    assert_eq!(of_ruby("<internal:gc>"), Some(Cure::CollectUnasked), "whatever its library's functions are called");
    assert_eq!(of_ruby("/srv/app.rb"), None, "anybody's start");
}
