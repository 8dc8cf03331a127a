//! Threads and processes that are started, and CPUs that they may not use.

use super::*;

/// The first thread makes 2,000 others in turn.
pub(super) fn churning() -> Facts {
    let mut facts = quiet(2_001);
    for thread in facts.threads.iter_mut().skip(1) {
        (thread.on_cpu_ns, thread.exited, thread.born_ns) = (10 * US, true, S + 1);
    }
    facts.threads[0].on_cpu_ns = S - 20 * MS;
    facts.totals.on_cpu_ns = S;
    facts.locks = vec![LockFacts {
        pid: Pid(PID),
        primitive: Primitive::Join,
        wait_sites: vec![site("serve")],
        ..LockFacts::default()
    }];
    facts
}

/// A process starts a hundred programs, one after the other, for 15% of the CPU time.
pub(super) fn programs_started() -> Facts {
    let mut facts = quiet(1);
    facts.end_ns = facts.start_ns + 240 * MS;
    facts.threads[0].on_cpu_ns = 300 * MS;
    for index in 1..=100 {
        let (pid, tid) = (Pid(PID + index), Tid(PID + index));
        let executed = Some("helper".to_owned());
        facts.processes.push(ProcessFacts {
            pid,
            name: "helper".into(),
            executed,
            threads: 1,
            ..ProcessFacts::default()
        });
        let (born_ns, on_cpu_ns) = (facts.start_ns + 1, MS);
        facts.threads.push(ThreadFacts { tid, pid, born_ns, on_cpu_ns, exited: true, ..ThreadFacts::default() });
    }
    facts.threads[0].off_sites = vec![Site {
        call_path: vec![Frame::named("waitpid", Role::Lock), Frame::named("clean", Role::Program)],
        count: 100,
        ns: MS,
    }];
    facts.totals.on_cpu_ns = 400 * MS;
    facts
}

#[test]
fn programs_that_are_started_at_the_thresholds() {
    holds_at_its_thresholds(
        Kind::ThreadChurn,
        programs_started,
        &[
            ("they are fewer", |facts| facts.threads[7].exited = false),
            ("each works for long", |facts| {
                facts.threads.iter_mut().skip(1).for_each(|thread| thread.on_cpu_ns = 11 * MS)
            }),
            ("others work more", |facts| facts.threads[0].on_cpu_ns = 301 * MS),
            ("it takes its time", |facts| facts.end_ns = facts.start_ns + 241 * MS),
        ],
    );
    let mut forks = programs_started();
    forks.processes.iter_mut().for_each(|process| process.executed = None);
    assert_eq!(judge(Kind::ThreadChurn, &forks).len(), 1, "subshells cost as much");
    let mut large = programs_started();
    large.threads[0].on_cpu_ns = 900 * MS;
    large.totals.kernel_samples = Some(1_000);
    large.symbols = [("__x64_sys_execve", 100), ("kernel_clone", 30), ("do_exit", 20)]
        .map(|(function, inclusive)| Code { frame: Frame::named(function, Role::Kernel), hits: 0, inclusive })
        .into();
    assert_eq!(judge(Kind::ThreadChurn, &large)[0].severity, 0.15, "as the kernel's samples say");
    large.symbols.pop();
    assert!(judge(Kind::ThreadChurn, &large).is_empty());
    let found = &judge(Kind::ThreadChurn, &programs_started())[0];
    assert_eq!(found.place.as_ref().and_then(|site| site.caller()?.function.clone()).as_deref(), Some("clean"));
    assert!(matches!(found.subjects[..], [Subject::Process { pid: Pid(PID), .. }]));
}

#[test]
fn programs_are_started_by_the_parent_of_most() {
    let mut facts = programs_started();
    facts.processes.push(ProcessFacts { pid: Pid(7), name: "xargs".into(), threads: 1, ..ProcessFacts::default() });
    facts.threads.push(ThreadFacts { tid: Tid(7), pid: Pid(7), ..ThreadFacts::default() });
    for index in 1..=100 {
        // Every other one is started by the one before, as a shell's tools are.
        let parent = if index % 2 == 1 { 7 } else { PID + index - 1 };
        facts.processes[index as usize].started_by = Some(Pid(parent));
    }
    facts.processes[1].started_by = Some(Pid(PID));
    let found = &judge(Kind::ThreadChurn, &facts)[0];
    assert!(matches!(&found.subjects[..], [Subject::Process { pid: Pid(7), .. }]), "{:?}", found.subjects);
    assert!(found.place.is_none(), "what another process waits for says nothing of it");
}

/// Ten programs of Perl read their modules for 30% of the CPU time.
fn interpreters_started() -> Facts {
    let mut facts = programs_started();
    facts.threads.truncate(11);
    facts.threads[0].on_cpu_ns = 0;
    facts.threads.iter_mut().skip(1).for_each(|thread| thread.on_cpu_ns = 2 * S);
    facts.totals.on_cpu_ns = 20 * S;
    facts.end_ns = facts.start_ns + 20 * S;
    facts.totals.user_samples = 1_000;
    facts.symbols = vec![below("Perl_yyparse", 300), below("perl_parse", 200)];
    facts
}

#[test]
fn interpreters_that_are_started_at_the_thresholds() {
    holds_at_its_thresholds(
        Kind::ThreadChurn,
        interpreters_started,
        &[
            ("they are fewer", |facts| facts.threads[7].exited = false),
            ("each works for long", |facts| facts.threads[7].on_cpu_ns += 1_000),
            ("they do more else", |facts| facts.symbols[0].inclusive = 299),
            ("it takes its time", |facts| facts.end_ns = facts.start_ns + 25 * S),
        ],
    );
}

/// Workers of Node are made, one after the other, for 15% of the CPU time.
fn workers_of_node() -> Facts {
    let mut facts = quiet(21);
    for thread in facts.threads.iter_mut().skip(1) {
        (thread.on_cpu_ns, thread.exited, thread.born_ns) = (20 * MS, true, S + 1);
    }
    facts.totals.user_samples = 1_000;
    facts.symbols = vec![below("node::CreateEnvironment(node::IsolateData*)", 140), below("node::FreeEnvironment", 10)];
    facts
}

#[test]
fn workers_of_node_at_their_thresholds() {
    holds_at_its_thresholds(
        Kind::ThreadChurn,
        workers_of_node,
        &[
            ("they are a few", |facts| _ = facts.threads.pop()),
            ("one is still there", |facts| facts.threads[5].exited = false),
            ("they do most themselves", |facts| facts.symbols[0].inclusive = 139),
            ("samples are few", |facts| {
                facts.totals.user_samples = 100;
                facts.symbols[0].inclusive = 89;
            }),
        ],
    );
}

#[test]
fn thread_churn_at_its_thresholds() {
    holds_at_its_thresholds(
        Kind::ThreadChurn,
        churning,
        &[
            ("threads are fewer", |facts| facts.threads.truncate(2_000)),
            ("each runs for long", |facts| {
                facts.threads.iter_mut().skip(1).for_each(|thread| thread.on_cpu_ns = 300 * US + 1);
            }),
            ("they do not end", |facts| facts.threads.iter_mut().for_each(|thread| thread.exited = false)),
            ("they were there before", |facts| facts.threads.iter_mut().for_each(|thread| thread.born_ns = S)),
        ],
    );
    let place = judge(Kind::ThreadChurn, &churning())[0].place.clone();
    assert_eq!(place.and_then(|site| site.caller()?.function.clone()).as_deref(), Some("serve"));
}

/// Two threads take turns on CPU 2; the other three are free, but for what the first thread takes.
pub(super) fn confined() -> Facts {
    let mut facts = quiet(3);
    for index in 1..3 {
        let last = ThreadUsage { allowed_cpus: 1, first_cpu: 2, ..ThreadUsage::default() };
        facts.threads[index].usage = Some((ThreadUsage::default(), last));
        facts.threads[index].on_cpu_ns = 540 * MS;
        off(&mut facts, index, Reason::Preempted, 50, 60 * MS);
    }
    facts
}

/// Two of four CPUs are all that Go uses, and three more goroutines could run.
pub(super) fn of_two_cpus() -> Facts {
    let mut facts = quiet(4);
    busy(&mut facts, 650 * MS);
    let group = |state, mean| GoroutineGroup { state, mean, site: site("digest"), ..GoroutineGroup::default() };
    facts.goroutines = vec![GoroutineFacts {
        pid: Pid(PID),
        looks: 20,
        doing: vec![group(GoroutineState::Runnable, 3.0), group(GoroutineState::Running, 1.91)],
        ..GoroutineFacts::default()
    }];
    facts
}

#[test]
fn few_cpus_for_goroutines_at_their_thresholds() {
    holds_at_its_thresholds(
        Kind::CpuAffinity,
        of_two_cpus,
        &[
            ("they were seldom looked at", |facts| facts.goroutines[0].looks = 19),
            ("now more run, now fewer", |facts| facts.goroutines[0].doing[1].mean = 1.89),
            ("all CPUs are used", |facts| facts.goroutines[0].doing[1].mean = 4.0),
            ("none runs", |facts| facts.goroutines[0].doing[1].mean = 0.0),
            ("hardly any other could", |facts| facts.goroutines[0].doing[0].mean = 0.49),
        ],
    );
    let found = &judge(Kind::CpuAffinity, &of_two_cpus())[0];
    let gained = (4.0 - 1.95) / (2.0 + 4.0 - 1.95);
    assert!((found.severity - gained).abs() < 1e-9, "{} of what is left", found.severity);
    assert_eq!(found.cure, Cure::RaiseGomaxprocs);
}

/// Three threads compute, with half of a CPU for all of them.
pub(super) fn limited() -> Facts {
    let mut facts = quiet(3);
    for thread in &mut facts.threads {
        thread.on_cpu_ns = 160 * MS;
        thread.account.ns[AccountState::Running as usize] = 160 * MS;
        thread.account.ns[AccountState::CpuOther as usize] = 840 * MS;
    }
    facts.counters.extend([(Counter::QuotaNs, 500 * MS), (Counter::QuotaPeriods, 10), (Counter::ThrottledPeriods, 9)]);
    facts
}

#[test]
fn cpu_quota_at_its_thresholds() {
    holds_at_its_thresholds(
        Kind::CpuQuota,
        limited,
        &[
            ("it is hardly ever stopped", |facts| {
                facts.counters.extend([(Counter::QuotaPeriods, 100), (Counter::ThrottledPeriods, 9)]);
            }),
            ("there is no limit", |facts| facts.counters.clear()),
            ("it wants no more", |facts| facts.counters.extend([(Counter::QuotaNs, 3 * S)])),
        ],
    );
    let severity = judge(Kind::CpuQuota, &limited())[0].severity;
    assert!((severity - 0.9 * (1.0 - 0.5 / 3.0)).abs() < 1e-9, "{severity}");
}

#[test]
fn cpu_affinity_at_its_thresholds() {
    holds_at_its_thresholds(
        Kind::CpuAffinity,
        confined,
        &[
            ("they hardly wait", |facts| facts.threads[1].on_cpu_ns = 541 * MS),
            ("they hand over", |facts| off(facts, 1, Reason::Preempted, 551, 60 * MS)),
            ("they have CPUs of their own", |facts| {
                let (_, last) = facts.threads[1].usage.as_mut().unwrap();
                last.first_cpu = 1;
            }),
            ("they may use all", |facts| {
                for thread in &mut facts.threads {
                    thread.usage = thread.usage.map(|(first, last)| (first, ThreadUsage { allowed_cpus: 4, ..last }));
                }
            }),
            ("so the user started the recorder", |facts| facts.header.machine.allowed_cpus = 1),
            ("nothing is known of the CPUs", |facts| facts.threads.iter_mut().for_each(|thread| thread.usage = None)),
            ("others of the program have the rest", |facts| facts.threads[0].on_cpu_ns = 3 * S),
        ],
    );
    let mut facts = confined();
    facts.header.machine.allowed_cpus = 1;
    facts.header.target.attached = true;
    assert_eq!(judge(Kind::CpuAffinity, &facts).len(), 1, "where it runs already, the recorder's own set says nothing");
}
