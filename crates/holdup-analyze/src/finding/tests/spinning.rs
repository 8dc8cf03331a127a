//! CPU time that is wasted: spinning, yields, lines that are fought over, the kernel.

use super::*;

#[test]
fn by_looks_the_kernels_counts_tell_of_yields() {
    let counted = |voluntary, involuntary| {
        let mut facts = quiet(3);
        busy(&mut facts, 250 * MS);
        facts.header.look_period_ns = MS;
        let threads = facts.threads.iter_mut().skip(1);
        threads.for_each(|thread| (thread.voluntary, thread.involuntary) = (voluntary, involuntary));
        judge(Kind::YieldStorm, &facts).len()
    };
    assert_eq!(counted(0, 5_000), 1);
    assert_eq!(counted(1_300, 5_000), 0, "woken threads may have taken the CPU");
    assert_eq!(counted(0, 2_400), 0, "other programs may have");
}

/// A goroutine calls `runtime.Gosched` in a loop; half of the time it is not its turn.
pub(super) fn yielding_goroutine() -> Facts {
    let mut facts = handing_over();
    facts.totals.user_samples = 1_000;
    facts.symbols = vec![below("runtime.gosched_m", 100), below("runtime.goschedImpl", 100)];
    let group = |state, function, mean| GoroutineGroup { state, site: site(function), mean, looking: None };
    let doing = vec![
        group(GoroutineState::Sleep, "main.main", 2.0),
        group(GoroutineState::Runnable, "main.take", 0.5),
        group(GoroutineState::Runnable, "main.work", 0.1),
    ];
    facts.goroutines = vec![GoroutineFacts { doing, ..GoroutineFacts::default() }];
    facts
}

#[test]
fn goroutines_that_yield_at_their_thresholds() {
    holds_at_its_thresholds(
        Kind::YieldStorm,
        yielding_goroutine,
        &[
            ("they mostly work", |facts| facts.symbols[0].inclusive = 99),
            ("it is the end of time slices", |facts| facts.symbols.truncate(0)),
        ],
    );
    let place = |facts: &Facts| judge(Kind::YieldStorm, facts).remove(0).subjects;
    assert_eq!(place(&yielding_goroutine()), [Subject::Function("main.take".into())]);
    let mut unseen = yielding_goroutine();
    unseen.goroutines.clear();
    assert_eq!(place(&unseen), [Subject::Function("main.deliver".into())]);
}

pub(super) fn spinning() -> Facts {
    let mut facts = quiet(3);
    busy(&mut facts, 250 * MS);
    facts.totals.user_samples = 500;
    facts.symbols = vec![code("pthread_spin_lock", Role::Lock, 50)];
    facts
}

#[test]
fn spin_waste_at_its_thresholds() {
    holds_at_its_thresholds(
        Kind::SpinWaste,
        spinning,
        &[
            ("samples are too few", |facts| facts.symbols[0].hits = 49),
            ("it is a small part", |facts| facts.totals.user_samples = 501),
            ("it is little time", |facts| facts.header.sample_period_ns = MS - 1),
            ("the function does not spin", |facts| facts.symbols[0].frame = Frame::named("compute", Role::Program)),
            ("other programs have a CPU that another thread wants", |facts| facts.spun_beside_displaced = 1),
        ],
    );
    let crowded = |own_ms| {
        let mut facts = spinning();
        facts.spun_beside_displaced = 40;
        off(&mut facts, 0, Reason::Preempted, 1, own_ms * MS);
        off(&mut facts, 1, Reason::Displaced, 1, 10 * MS);
        judge(Kind::SpinWaste, &facts).len()
    };
    assert_eq!(crowded(41), 1, "who spins has the CPU that the other wants");
    assert_eq!(crowded(40), 0);
}

#[test]
fn all_of_a_loop_around_a_pause_spins() {
    let mut facts = spinning();
    facts.symbols.clear();
    facts.hotspots = vec![spot(HotspotClass::Pause, "my_lock", 50, 200)];
    assert_eq!(weigh::value(&judge(Kind::SpinWaste, &facts)[0], "spin_samples"), 200.0);
    facts.hotspots = vec![spot(HotspotClass::Pause, "my_lock", 50, 201)];
    assert_eq!(weigh::value(&judge(Kind::SpinWaste, &facts)[0], "spin_samples"), 50.0);
}

#[test]
fn pauses_of_an_unrolled_loop_add_up() {
    let mut facts = spinning();
    facts.symbols.clear();
    let pause = || spot(HotspotClass::Pause, "_mm_pause", 30, 30);
    facts.hotspots = vec![pause(), pause()];
    assert_eq!(weigh::value(&judge(Kind::SpinWaste, &facts)[0], "spin_samples"), 60.0);
}

#[test]
fn a_known_spinner_is_counted_once() {
    let mut facts = spinning();
    facts.hotspots = vec![spot(HotspotClass::Pause, "pthread_spin_lock", 40, 50)];
    assert_eq!(weigh::value(&judge(Kind::SpinWaste, &facts)[0], "spin_samples"), 50.0);
}

#[test]
fn what_spins_is_called_by_the_function_and_not_by_what_was_inlined_there() {
    let mut facts = spinning();
    facts.symbols.clear();
    let mut pause = spot(HotspotClass::Pause, "core::core_arch::x86::sse2::_mm_pause", 50, 50);
    let path = ["core::core_arch::x86::sse2::_mm_pause", "core::hint::spin_loop", "tax_service"];
    let call_path = path.map(|function| Frame::named(function, Role::Program)).to_vec();
    pause.sites = vec![Site { call_path, count: 50, ns: 0 }];
    facts.hotspots = vec![pause];
    let found = judge(Kind::SpinWaste, &facts);
    assert_eq!(found[0].subjects, [Subject::Function("tax_service".to_owned())]);
}

#[test]
fn threads_of_openmp_that_spin_need_an_even_share_and_no_lock() {
    const OPENMP: &str = "/usr/lib/x86_64-linux-gnu/libgomp.so.1.0.0";
    let facts_of = |module: &str| {
        let mut facts = spinning();
        facts.symbols.clear();
        let mut pause = spot(HotspotClass::Pause, "wait", 50, 50);
        let frame = Frame { module: module.into(), ..Frame::named("wait", Role::Runtime) };
        pause.frame = frame.clone();
        pause.sites = vec![Site { call_path: vec![frame, Frame::named("solve", Role::Program)], count: 50, ns: 0 }];
        facts.hotspots = vec![pause];
        facts
    };
    let found = |module| judge(Kind::SpinWaste, &facts_of(module)).remove(0);
    let of_openmp = found(OPENMP);
    assert_eq!(of_openmp.cure, Cure::Rebalance);
    assert!(of_openmp.proof.words.join(" ").contains("OMP_WAIT_POLICY"));
    let crowded = |enough| {
        let mut facts = facts_of(OPENMP);
        let quarter = weigh::cpu_ns(&facts) / 4;
        let own_ns = if enough { quarter } else { quarter - 1 };
        off(&mut facts, 0, Reason::Preempted, 1, own_ns);
        judge(Kind::SpinWaste, &facts).remove(0).cure
    };
    assert_eq!(crowded(true), Cure::SleepAtBarriers, "they want the CPUs of those that spin");
    assert_eq!(crowded(false), Cure::Rebalance);
    assert_eq!(found("/usr/bin/solver").cure, Cure::ParkInsteadOfSpin);
}

#[test]
fn of_a_loop_that_reads_again_its_own_samples_spin() {
    let mut facts = spinning();
    facts.symbols.clear();
    facts.hotspots = vec![spot(HotspotClass::Reread, "await_tick", 50, 100)];
    assert_eq!(weigh::value(&judge(Kind::SpinWaste, &facts)[0], "spin_samples"), 50.0);
}

#[test]
fn workers_of_rayon_that_look_for_tasks_are_no_storm() {
    let idle = |count| Site { count, ..site("rayon_core::sleep::Sleep::no_work_found") };
    let mut facts = yielding();
    facts.yield_sites.push(idle(7_999));
    assert_eq!(judge(Kind::YieldStorm, &facts).len(), 1);
    facts.yield_sites[1] = idle(8_000);
    assert!(judge(Kind::YieldStorm, &facts).is_empty());
}

pub(super) fn yielding() -> Facts {
    let mut facts = quiet(3);
    busy(&mut facts, 20 * MS);
    facts.yield_sites = vec![Site { count: 2_000, ..site("spin") }];
    facts
}

#[test]
fn storms_of_yields_at_their_thresholds() {
    holds_at_its_thresholds(
        Kind::YieldStorm,
        yielding,
        &[
            ("yields are too few", |facts| facts.yield_sites[0].count = 1_999),
            ("yields are too few for so much work", |facts| busy(facts, 21 * MS)),
            ("yields are rare", |facts| facts.end_ns = 2 * S + MS),
        ],
    );
}

pub(super) fn atomic() -> Facts {
    let mut facts = quiet(3);
    busy(&mut facts, 200 * MS);
    facts.totals.user_samples = 400;
    facts.hotspots = vec![spot(HotspotClass::Atomic, "count", 60, 100)];
    facts
}

#[test]
fn hot_atomic_at_its_thresholds() {
    holds_at_its_thresholds(
        Kind::HotAtomic,
        atomic,
        &[
            ("samples are too few", |facts| {
                facts.totals.user_samples = 100;
                facts.hotspots = vec![spot(HotspotClass::Atomic, "count", 49, 49)];
            }),
            ("the function mostly does something else", |facts| facts.hotspots[0].function_hits = 101),
            ("the program mostly does something else", |facts| facts.totals.user_samples = 401),
            ("one thread does it", |facts| facts.hotspots[0].threads = vec![(Tid(101), 55), (Tid(102), 5)]),
            ("it is a pause", |facts| facts.hotspots[0].class = HotspotClass::Pause),
        ],
    );
}

/// Two threads fight over a line with plain instructions.
pub(super) fn fought_over() -> Facts {
    let mut facts = quiet(3);
    busy(&mut facts, 200 * MS);
    facts.totals.user_samples = 500;
    facts.lines = vec![LineFacts {
        variable: Some(LockName::Symbol { name: "tallies".into(), offset: 0 }),
        site: site("count"),
        hits: 60,
        excess: 50,
        threads: vec![(Tid(PID + 1), 54), (Tid(PID + 2), 6)],
        writers: 1,
        words: 4,
        same_word: false,
        is_atomic: false,
    }];
    facts
}

#[test]
fn atomic_counters_side_by_side_want_lines_of_their_own() {
    let judged = |change: &dyn Fn(&mut Facts)| {
        let mut facts = fought_over();
        facts.hotspots = vec![spot(HotspotClass::Atomic, "count", 100, 100)];
        (facts.lines[0].is_atomic, facts.lines[0].variable, facts.lines[0].writers) = (true, None, 2);
        change(&mut facts);
        let found = judge(Kind::HotAtomic, &facts);
        assert_eq!(found.len(), 1, "{found:?}");
        found[0].cure
    };
    assert_eq!(judged(&|_| ()), Cure::OwnLines);
    assert_eq!(judged(&|facts| facts.lines[0].same_word = true), Cure::ShardCounter);
    assert_eq!(judged(&|facts| facts.lines[0].writers = 1), Cure::ShardCounter);
    assert_eq!(judged(&|facts| facts.lines[0].site = site("others")), Cure::ShardCounter);
    let mut alone = fought_over();
    alone.lines[0].is_atomic = true;
    assert!(judge(Kind::HotAtomic, &alone).is_empty(), "what the instructions themselves tell comes first");
}

#[test]
fn lines_that_are_fought_over_at_their_thresholds() {
    holds_at_its_thresholds(
        Kind::HotAtomic,
        fought_over,
        &[
            ("samples are too few", |facts| facts.lines[0].hits = 49),
            ("that is what these instructions cost anyway", |facts| facts.lines[0].excess = 49),
            ("the program mostly does something else", |facts| facts.totals.user_samples = 501),
            ("one thread has nearly all of it", |facts| facts.lines[0].threads[1].1 = 5),
            ("nobody writes", |facts| facts.lines[0].writers = 0),
        ],
    );
}

#[test]
fn words_of_a_line_get_lines_of_their_own_and_one_word_a_copy_for_each_thread() {
    let mut facts = fought_over();
    let found = judge(Kind::HotAtomic, &facts);
    assert_eq!((found[0].cure, weigh::value(&found[0], "line_words")), (Cure::OwnLines, 4.0));
    assert_eq!(found[0].severity, 0.1);
    facts.lines[0].same_word = true;
    facts.lines[0].variable = None;
    let found = judge(Kind::HotAtomic, &facts);
    assert_eq!((found[0].cure, weigh::value(&found[0], "line_words")), (Cure::ShardCounter, 1.0));
    assert_eq!(found[0].subjects, [Subject::Function("count".to_owned())]);
    // Beside an atomic instruction in the same function it is no second finding.
    facts.hotspots = vec![spot(HotspotClass::Atomic, "count", 80, 100)];
    let found = judge(Kind::HotAtomic, &facts);
    assert_eq!(found.len(), 1);
    assert_eq!(weigh::value(&found[0], "line_words"), 0.0);
}

#[test]
fn instructions_on_one_variable_are_one_finding() {
    let mut facts = atomic();
    let variable = LockName::Symbol { name: "hits".into(), offset: 8 };
    facts.hotspots = vec![
        Hotspot { variable: Some(variable.clone()), ..spot(HotspotClass::Atomic, "count", 30, 50) },
        Hotspot { variable: Some(variable.clone()), ..spot(HotspotClass::Atomic, "count_more", 30, 50) },
    ];
    let found = judge(Kind::HotAtomic, &facts);
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].subjects, [Subject::Variable(variable)]);
    assert_eq!(weigh::value(&found[0], "samples"), 60.0);
}

pub(super) fn kernel() -> Facts {
    let mut facts = quiet(3);
    busy(&mut facts, 125 * MS);
    facts.totals.user_samples = 80;
    facts.totals.kernel_samples = Some(80);
    facts.symbols = vec![code("copy_page", Role::Kernel, 40)];
    facts.counters.insert(Counter::FutexCalls, 10);
    facts
}

#[test]
fn kernel_heavy_at_its_thresholds() {
    holds_at_its_thresholds(
        Kind::KernelHeavy,
        kernel,
        &[
            ("it is less than half", |facts| facts.totals.user_samples = 81),
            ("it is little time", |facts| facts.header.sample_period_ns = MS - 1),
            ("the program mostly idles", |facts| facts.end_ns = 2 * S + MS),
            ("one thread does it", |facts| (facts.threads[1].on_cpu_ns, facts.threads[2].on_cpu_ns) = (S, 99 * MS)),
            ("they mostly wait for devices", |facts| off(facts, 2, Reason::Io, 9, 126 * MS)),
            ("each thread is a process", |facts| facts.threads[2].pid = Pid(101)),
            ("work comes by the clock", by_the_clock),
        ],
    );
}

#[test]
fn the_kernels_own_count_stands_in_for_samples() {
    let mut facts = kernel();
    facts.totals.kernel_samples = None;
    assert!(judge(Kind::KernelHeavy, &facts).is_empty());
    let used = ThreadUsage { user_ns: 100 * MS, kernel_ns: 150 * MS, ..ThreadUsage::default() };
    facts.threads.iter_mut().skip(1).for_each(|thread| thread.usage = Some((ThreadUsage::default(), used)));
    assert_eq!(weigh::value(&judge(Kind::KernelHeavy, &facts)[0], "kernel_share"), 0.6);
    facts.threads.iter_mut().for_each(|thread| thread.usage = None);
    facts.ending = Some(Ending { user_ns: Some(50 * MS), kernel_ns: Some(450 * MS), ..Ending::default() });
    assert_eq!(weigh::value(&judge(Kind::KernelHeavy, &facts)[0], "kernel_share"), 0.9);
}

#[test]
fn one_thread_that_reads_byte_by_byte_is_kernel_heavy() {
    let ran = |on_cpu_ns, calls: u64, bytes: u64| {
        let mut facts = kernel();
        (facts.threads[1].on_cpu_ns, facts.threads[2].on_cpu_ns) = (on_cpu_ns, 0);
        facts.counters.extend([(Counter::TransferCalls, calls), (Counter::TransferBytes, bytes)]);
        !judge(Kind::KernelHeavy, &facts).is_empty()
    };
    let found = |calls, bytes| ran(S / 2, calls, bytes);
    // 80 ms in the kernel: 40 ms at 500 ns each.
    assert!(found(80_000, 256 * 80_000));
    assert!(!ran(S / 2 - 1, 80_000, 256 * 80_000), "it mostly waits");
    assert!(!found(79_999, 79_999), "the calls are not what takes the time");
    assert!(!found(80_000, 256 * 80_000 + 1), "they move something");
}

#[test]
fn waits_that_are_only_counted_are_the_programs() {
    let mut facts = wasted();
    facts.locks[0].eagain_waits = 0;
    facts.totals.wasted_wakes = 5_000;
    assert!(judge(Kind::WastedWakeups, &facts).is_empty());
    facts.counters.insert(Counter::FutexAgain, 5_000);
    let found = judge(Kind::WastedWakeups, &facts);
    assert!(found[0].subjects.is_empty());
    assert_eq!(weigh::value(&found[0], "refused_waits"), 5_000.0);
}

/// Two threads of which the kernel is sampled spinning for its locks.
pub(super) fn kernel_locked() -> Facts {
    let mut facts = kernel();
    facts.totals.user_samples = 254;
    facts.symbols = vec![code("rwsem_spin_on_owner", Role::Kernel, 30), code("osq_lock", Role::Kernel, 21)];
    facts.totals.user_samples = 340 - 80;
    facts
}

#[test]
fn kernel_lock_at_its_thresholds() {
    holds_at_its_thresholds(
        Kind::KernelLock,
        kernel_locked,
        &[
            ("it is less", |facts| facts.totals.user_samples += 1),
            ("samples are too few", |facts| {
                facts.symbols.truncate(1);
                facts.totals.user_samples = 0;
            }),
            ("one thread does it", |facts| (facts.threads[1].on_cpu_ns, facts.threads[2].on_cpu_ns) = (S, 99 * MS)),
            ("they spin in the program", |facts| facts.symbols[0].frame.role = Role::Program),
        ],
    );
    let mut facts = kernel_locked();
    facts.totals.user_samples = 0;
    assert_eq!(kinds(&facts), [Kind::KernelLock], "it says more than that the kernel is busy");
}
