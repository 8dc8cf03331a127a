//! What holds for every recording, drawn or not.

use std::fmt::Write;

use holdup_analyze::schedule::Schedule;
use holdup_analyze::{Analysis, Facts, NoModules, Options, Problem, Report};
use holdup_trace::{
    CallNumber, Capabilities, Counter, Ending, Event, FutexOp, Header, Machine, Mapping, OffCpu, Pid, Stack, StackId,
    Stacks, ThreadUsage, Tid, What,
};
use proptest::prelude::*;

/// The times of each thread add up to its life, and its row of the timeline covers it.
fn check(report: &Report) {
    for thread in &report.facts.threads {
        let off: u64 = thread.off.values().map(|time| time.ns).sum();
        assert_eq!(thread.on_cpu_ns + off, thread.life_ns(), "{thread:?}");
        assert!(thread.lock_wait_ns <= off);
    }
    let Some(timeline) = &report.timeline else { return };
    assert_eq!(timeline.threads.len(), report.facts.threads.len());
    for (index, thread) in report.facts.threads.iter().enumerate() {
        let row: Vec<_> = timeline.intervals(index).collect();
        assert!(row.windows(2).all(|pair| pair[0].to_ns == pair[1].from_ns), "{row:?}");
        let covered: u64 = row.iter().map(|interval| interval.to_ns - interval.from_ns).sum();
        assert_eq!(covered, thread.life_ns(), "{row:?} {thread:?}");
    }
}

/// Runs of one thread: what it does, and for how many ticks. Every other run is on a CPU, so that it is a possible
/// life.
fn life() -> impl Strategy<Value = String> {
    let off = prop_oneof![
        Just('~'),
        Just('z'),
        Just('p'),
        Just('f'),
        Just('y'),
        Just('i'),
        Just('o'),
        Just('m'),
        Just('n'),
        Just('c')
    ];
    let on = prop_oneof![4 => Just('#'), 2 => Just('M'), 1 => Just('N'), 1 => Just('C')];
    let part = (off, 1_usize..6, on, 1_usize..4, any::<bool>());
    (0_usize..4, prop::collection::vec(part, 1..12)).prop_map(|(late, parts)| {
        let mut text = " ".repeat(late);
        text.push('#');
        for (off, off_ticks, on, on_ticks, delayed) in parts {
            text.extend(std::iter::repeat_n(off, off_ticks));
            // A preemption cannot be told from the time after a wake-up; so it follows a wait only.
            text.extend((delayed && off != '~').then_some('~'));
            text.push(on);
            text.extend(std::iter::repeat_n('#', on_ticks - 1));
        }
        text
    })
}

fn drawing() -> impl Strategy<Value = (String, Vec<String>)> {
    let head = prop_oneof![Just(""), Just("late wakes\n"), Just("capabilities full\n"), Just("tick 10us\n")];
    (head, prop::collection::vec(life(), 1..6)).prop_map(|(head, lives)| {
        let mut text = head.to_owned();
        for (name, life) in ('A'..).zip(&lives) {
            let _ = writeln!(text, "{name}: {life}");
        }
        (text, lives)
    })
}

/// Times a drawn thread leaves its CPU before the drawing ends.
fn switches_of(life: &str, ticks: usize) -> (u64, u64) {
    let runs = |c: char| c == '#' || c.is_ascii_uppercase();
    let cells: Vec<char> = life.chars().chain(std::iter::repeat_n(' ', ticks - life.len())).collect();
    let leaves = cells.windows(2).filter(|pair| runs(pair[0]) && !runs(pair[1]));
    let (mut involuntary, mut all) = (0, 0);
    for pair in leaves {
        // The exit is recorded before the last switch, which is none of a living thread.
        all += u64::from(pair[1] != ' ');
        involuntary += u64::from(matches!(pair[1], '~' | 'y'));
    }
    (involuntary, all - involuntary)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_drawn_is_found((text, lives) in drawing()) {
        let schedule = Schedule::parse(&text).expect("a possible schedule");
        let options = Options { timeline: true, ..Options::default() };
        let report = schedule.analyze_with(options);
        check(&report);
        // Whoever has the CPU of a drawn thread that could run need not be drawn.
        let told = report.problems.iter().find(|problem| !matches!(problem, Problem::Displaced { .. }));
        prop_assert_eq!(told, None);
        let ticks = lives.iter().map(String::len).max().unwrap_or(0);
        let tick = schedule.time_ns(1) - schedule.time_ns(0);
        for (name, life) in ('A'..).zip(&lives) {
            let thread = report.facts.thread(schedule.tid(&name.to_string())).expect("it was drawn");
            prop_assert_eq!((thread.involuntary, thread.voluntary), switches_of(life, ticks));
            let ran = life.chars().filter(|c| *c == '#' || c.is_ascii_uppercase()).count() as u64;
            prop_assert_eq!(thread.on_cpu_ns, ran * tick);
            prop_assert_eq!(thread.life_ns(), life.trim_start().len() as u64 * tick);
        }
        check_locks(&report.facts, &lives, tick);
    }

    #[test]
    fn a_window_of_a_drawing_adds_up((text, _) in drawing(), from in 0_u64..40, len in 1_u64..40) {
        let schedule = Schedule::parse(&text).expect("a possible schedule");
        let (from, to) = (schedule.time_ns(from), schedule.time_ns(from + len));
        let report =
            schedule.analyze_with(Options { timeline: true, from_ns: Some(from), to_ns: Some(to) });
        check(&report);
        prop_assert!(report.facts.threads.iter().all(|t| t.born_ns >= from && t.ended_ns <= to.max(from)));
    }

    #[test]
    fn any_soup_is_eaten(events in prop::collection::vec(event(), 0..400), window in any::<bool>()) {
        let header = Header {
            machine: Machine { cpus: 2, arch: "x86_64".into(), ..Machine::default() },
            capabilities: Capabilities { switches: true, futexes: true, wakings: window, kernel: window, ..Capabilities::default() },
            ..Header::default()
        };
        let mut stacks = Stacks::new();
        stacks.intern(&Stack { user: vec![1, 2, 3], ..Stack::default() });
        let from_ns = window.then_some(500);
        let mut analysis =
            Analysis::new(&header, Options { timeline: true, from_ns, to_ns: window.then_some(5_000) });
        events.iter().for_each(|event| analysis.feed(event));
        let ending = Ending { ended_ns: 700, ..Ending::default() };
        let report = analysis.finish(window.then_some(&ending), &stacks, &NoModules);
        check(&report);
    }
}

/// Waiting time of each futex is what was drawn, and no wake has two wakers.
fn check_locks(facts: &Facts, lives: &[String], tick: u64) {
    for letter in ['m', 'n', 'c'] {
        let drawn: u64 = lives.iter().map(|life| waited(life, letter)).sum();
        let named = |name: &holdup_analyze::LockName| matches!(name, holdup_analyze::LockName::Symbol { name, .. } if *name == letter.to_string());
        let found = facts.locks.iter().find(|lock| named(&lock.name));
        let sum = found.map_or(0, |lock| lock.wait_ns.sum_ns());
        assert_eq!(sum, drawn * tick, "{letter}");
        let Some(lock) = found else { continue };
        let doing = &lock.holder_doing;
        let told = doing.running_ns + doing.unknown_ns + doing.off.values().sum::<u64>();
        assert!(told <= sum, "{told} of {sum}");
        let ended: u64 = lock.holders.iter().map(|holder| holder.count).sum();
        assert!(ended <= lock.waits);
        assert_eq!(lock.waiters.iter().map(|(_, time)| time.ns).sum::<u64>(), sum);
    }
}

/// Ticks from leaving the CPU for a futex to running again.
fn waited(life: &str, letter: char) -> u64 {
    let mut sum = 0;
    let mut waits = false;
    for c in life.chars() {
        waits = c == letter || (waits && c == '~');
        sum += u64::from(waits);
    }
    sum
}

/// Any event, mostly about a few threads, addresses and moments.
fn event() -> impl Strategy<Value = Event> {
    let time = prop_oneof![9 => 0_u64..3_000, 1 => any::<u64>()];
    let cpu = prop_oneof![9 => 0_u16..3, 1 => Just(holdup_trace::NO_CPU), 1 => 0_u16..600];
    (time, tid(), cpu, what()).prop_map(|(time_ns, tid, cpu, what)| Event { time_ns, tid, cpu, what })
}

fn tid() -> impl Strategy<Value = Tid> {
    prop_oneof![20 => 0_u32..6, 1 => any::<u32>()].prop_map(Tid)
}

fn what() -> impl Strategy<Value = What> {
    let stack = || prop_oneof![Just(None), (0_u32..3).prop_map(|id| Some(StackId(id)))];
    let op = || prop_oneof![(0_u32..14), Just(64), Just(65), any::<u32>()].prop_map(FutexOp);
    let addr = || prop_oneof![0_u64..3, any::<u64>()];
    let off = prop_oneof![
        Just(OffCpu::Runnable),
        Just(OffCpu::Blocked),
        Just(OffCpu::Sleeping),
        Just(OffCpu::Uninterruptible),
        Just(OffCpu::Gone)
    ];
    let ret = prop_oneof![Just(0), Just(1), Just(3), Just(-110), Just(-4), any::<i32>()];
    prop_oneof![
        4 => Just(What::SwitchIn),
        4 => (off, stack()).prop_map(|(off, stack)| What::SwitchOut { off, stack }),
        2 => (tid(), stack()).prop_map(|(target, stack)| What::Waking { target, stack }),
        4 => (op(), addr(), any::<u32>(), stack())
            .prop_map(|(op, addr, value, stack)| What::FutexWait { op, addr, value, stack }),
        4 => (op(), addr(), ret, stack())
            .prop_map(|(op, addr, ret, stack)| What::FutexReturn { op, addr, ret, stack }),
        2 => (any::<u16>(), stack()).prop_map(|(nr, stack)| What::Call { nr: CallNumber(nr % 300), stack }),
        1 => (0_u32..3).prop_map(|id| What::Sample { stack: StackId(id) }),
        1 => (addr(), stack()).prop_map(|(addr, stack)| What::MajorFault { addr, stack }),
        1 => (0_u32..3).prop_map(|id| What::MinorFault { stack: StackId(id) }),
        1 => (0_u32..4, prop::option::of(tid()))
            .prop_map(|(pid, parent)| What::Started { pid: Pid(pid), parent }),
        1 => Just(What::Exited),
        1 => any::<bool>().prop_map(|exec| What::Named { name: "x".into(), exec }),
        1 => (0_u32..4, any::<u64>(), any::<u64>()).prop_map(|(pid, start, len)| {
            let path = "/bin/x".into();
            What::Mapped(Box::new(Mapping { pid: Pid(pid), start, len, offset: 0, path, build_id: None }))
        }),
        1 => any::<u64>().prop_map(|count| What::Lost { count }),
        1 => (addr(), any::<u32>()).prop_map(|(addr, word)| What::LockWord { addr, word, owner: 0 }),
        1 => any::<u64>().prop_map(|value| What::Count { counter: Counter::Cycles, value }),
        1 => (any::<u64>(), any::<u64>(), any::<i32>()).prop_map(|(voluntary, involuntary, priority)| {
            What::Usage(Box::new(ThreadUsage { voluntary, involuntary, priority, ..ThreadUsage::default() }))
        }),
    ]
}
