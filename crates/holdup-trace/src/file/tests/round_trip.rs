//! What is written comes back, whatever it is.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use super::*;
use crate::{LockFigures, Pointers, Spread, StackId, TaskGroup, TaskState, Tasks};

fn any_stack() -> impl Strategy<Value = Stack> {
    let word = || prop_oneof![any::<u64>().prop_map(Word::Code), any::<i32>().prop_map(Word::Stack)];
    let address = || prop_oneof![any::<u64>(), 0x55d0_0000_0000..0x55d0_0000_0040_u64];
    let registers = (address(), word(), any::<u64>()).prop_map(|(ip, fp, lr)| Registers { ip, fp, lr });
    (
        vec(any::<u64>(), 0..4),
        vec(address(), 0..6),
        option::of(registers),
        vec((any::<u16>(), word()), 0..6),
        any::<u16>(),
    )
        .prop_map(|(kernel, user, registers, words, depth)| Stack { kernel, user, registers, words, depth })
}

/// An event whose stack, if it has one, is a number below the count of stacks.
fn any_what(stacks: u32) -> impl Strategy<Value = What> {
    let id = move || (0..stacks).prop_map(StackId);
    let stack = move || option::of(id());
    let off = prop_oneof![
        Just(OffCpu::Runnable),
        Just(OffCpu::Blocked),
        Just(OffCpu::Sleeping),
        Just(OffCpu::Uninterruptible),
        Just(OffCpu::Gone)
    ];
    let op = || prop_oneof![Just(FutexOp(0)), Just(FutexOp(0x81)), any::<u32>().prop_map(FutexOp)];
    let addr = || prop_oneof![any::<u64>(), Just(0x7f00_0000_0040)];
    let switches = prop_oneof![
        Just(What::SwitchIn),
        (off, stack()).prop_map(|(off, stack)| What::SwitchOut { off, stack }),
        (any::<u32>(), stack()).prop_map(|(tid, stack)| What::Waking { target: Tid(tid), stack }),
    ];
    let futexes = prop_oneof![
        (op(), addr(), any::<u32>(), stack()).prop_map(|(op, addr, value, stack)| What::FutexWait {
            op,
            addr,
            value,
            stack
        }),
        (op(), addr(), any::<i32>(), stack()).prop_map(|(op, addr, ret, stack)| What::FutexReturn {
            op,
            addr,
            ret,
            stack
        }),
    ];
    let others = prop_oneof![
        (any::<u16>(), stack()).prop_map(|(nr, stack)| What::Call { nr: CallNumber(nr), stack }),
        id().prop_map(|stack| What::Sample { stack }),
        (addr(), stack()).prop_map(|(addr, stack)| What::MajorFault { addr, stack }),
        id().prop_map(|stack| What::MinorFault { stack }),
    ];
    prop_oneof![4 => switches, 4 => futexes, 3 => others, 3 => any_rare()]
}

fn any_rare() -> impl Strategy<Value = What> {
    let counter = prop_oneof![
        Just(Counter::FutexCalls),
        Just(Counter::FutexAgain),
        Just(Counter::Cycles),
        Just(Counter::Instructions),
        Just(Counter::L2Misses),
        Just(Counter::L3Misses),
        Just(Counter::Migrations),
        Just(Counter::MinorFaults),
        Just(Counter::TransferBytes),
        Just(Counter::ReferenceCycles),
        Just(Counter::NominalCycles),
        Just(Counter::L2References),
        Just(Counter::L3References),
        Just(Counter::RecorderCpuNs)
    ];
    let usage = any::<(u64, u64, u64, u64, i32, u32, u32)>().prop_map(|counts| {
        let (voluntary, involuntary, user_ns, kernel_ns, priority, allowed_cpus, first_cpu) = counts;
        What::Usage(Box::new(ThreadUsage {
            voluntary,
            involuntary,
            user_ns,
            kernel_ns,
            priority,
            allowed_cpus,
            first_cpu,
        }))
    });
    let spread = || {
        any::<(u64, u64, u64, u64, u64, u64)>().prop_map(|(count, scale, sum_ns, p50_ns, p99_ns, max_ns)| Spread {
            count,
            scale,
            sum_ns,
            p50_ns,
            p99_ns,
            max_ns,
        })
    };
    let lock_figures = (any::<(u64, u64, u64, u64, u32)>(), spread(), spread()).prop_map(|(counts, wait, hold)| {
        let (addr, acquisitions, contended, slept, threads) = counts;
        What::LockFigures(Box::new(LockFigures { addr, acquisitions, contended, slept, threads, wait, hold }))
    });
    let mapped = (any::<(u32, u64, u64, u64)>(), any::<String>(), option::of(vec(any::<u8>(), 0..24))).prop_map(
        |((pid, start, len, offset), path, build_id)| {
            let (path, build_id) = (path.into(), build_id.map(Into::into));
            What::Mapped(Box::new(Mapping { pid: Pid(pid), start, len, offset, path, build_id }))
        },
    );
    let words = || option::of(any::<String>().prop_map(Into::into));
    let blocked =
        (option::of(any::<(u16, u64)>()), words(), words(), any::<bool>()).prop_map(|(call, wchan, file, deep)| {
            let (nr, addr) = (call.map(|(nr, _)| CallNumber(nr)), call.map_or(0, |(_, addr)| addr));
            What::Blocked(Box::new(Blocked { nr, wchan, file, deep, addr, stack: None }))
        });
    let frame = (any::<String>(), any::<String>(), any::<u32>()).prop_map(|(function, file, line)| InterpretedFrame {
        function: function.into(),
        file: file.into(),
        line,
    });
    let interpreted = (any::<bool>(), vec(frame, 0..3))
        .prop_map(|(holds, frames)| What::Interpreted(Box::new(Interpreted { holds, frames: frames.into() })));
    let state = prop_oneof![
        Just(TaskState::Runnable),
        Just(TaskState::Running),
        Just(TaskState::Call),
        Just(TaskState::Waiting)
    ];
    let known = any::<(Option<u64>, u64)>();
    let group = (any::<(u64, u64, String)>(), known, state).prop_map(|((count, addr, reason), known, state)| {
        TaskGroup { count, places: known.0, example: known.1, state, reason: reason.into(), addr, stack: None }
    });
    let tasks = (any::<(u64, u64)>(), vec(group, 0..3))
        .prop_map(|((all, looked), groups)| What::Tasks(Box::new(Tasks { all, looked, groups })));
    let registers = proptest::collection::btree_map(0..Pointers::MOST, any::<u64>(), 0..18);
    let pointers = (any::<u64>(), registers).prop_map(|(ip, registers)| {
        What::Pointers(Box::new(Pointers { ip, registers: registers.into_iter().collect() }))
    });
    prop_oneof![
        interpreted,
        tasks,
        any::<(u32, Option<u32>)>().prop_map(|(pid, parent)| What::Started { pid: Pid(pid), parent: parent.map(Tid) }),
        Just(What::Exited),
        any::<(String, bool)>().prop_map(|(name, exec)| What::Named { name: name.into(), exec }),
        mapped,
        any::<u64>().prop_map(|count| What::Lost { count }),
        any::<(u64, u32, u32)>().prop_map(|(addr, word, owner)| What::LockWord { addr, word, owner }),
        (counter, any::<u64>()).prop_map(|(counter, value)| What::Count { counter, value }),
        usage,
        lock_figures,
        blocked,
        pointers,
    ]
}

fn any_event(stacks: u32) -> impl Strategy<Value = Event> {
    let time = prop_oneof![3 => 1_000_000..1_100_000_u64, 1 => any::<u64>()];
    let tid = prop_oneof![3 => 0..5_u32, 1 => any::<u32>()];
    let cpu = prop_oneof![3 => 0..3_u16, 1 => any::<u16>()];
    (time, tid, cpu, any_what(stacks)).prop_map(|(time_ns, tid, cpu, what)| Event { time_ns, tid: Tid(tid), cpu, what })
}

proptest! {
    #[test]
    fn whatever_is_written_comes_back(
        stacks in vec(any_stack(), 3),
        events in vec((any_event(3), prop::bool::weighted(0.1)), 0..60),
    ) {
        let mut writer = Writer::new(Vec::new(), &header()).unwrap();
        let mut table = Stacks::new();
        let ids: Vec<StackId> = stacks.iter().map(|stack| writer.stack(stack)).collect();
        let known: Vec<StackId> = stacks.iter().map(|stack| table.intern(stack)).collect();
        prop_assert_eq!(&ids, &known);
        // Equal stacks have one number, so a number below three may not be in the table.
        let events: Vec<(Event, bool)> =
            events.into_iter().filter(|(event, _)| stack_exists(event, &table)).collect();
        for (event, flush) in &events {
            writer.event(event).unwrap();
            if *flush {
                writer.flush().unwrap();
            }
        }
        let bytes = writer.finish(&ending()).unwrap();
        let content = read(&bytes);
        let expected: Vec<Told> = events.into_iter().map(|(event, _)| tell(event, &table)).collect();
        prop_assert_eq!(content.told, expected);
        prop_assert_eq!(content.summary.damage, Vec::<Damage>::new());
        prop_assert_eq!(content.summary.ending, Some(ending()));
    }
}

fn stack_exists(event: &Event, table: &Stacks) -> bool {
    let mut exists = true;
    let mut look = |id: Option<StackId>| exists &= id.is_none_or(|id| table.get(id).is_some());
    match event.what {
        What::SwitchOut { stack, .. }
        | What::Waking { stack, .. }
        | What::FutexWait { stack, .. }
        | What::FutexReturn { stack, .. }
        | What::Call { stack, .. }
        | What::MajorFault { stack, .. } => look(stack),
        What::Sample { stack } | What::MinorFault { stack } => look(Some(stack)),
        _ => {}
    }
    exists
}

#[test]
fn one_event_of_every_kind_comes_back() {
    let mut writer = Writer::new(Vec::new(), &header()).unwrap();
    let events = events_of_every_kind(&mut writer, 5);
    for event in &events {
        writer.event(event).unwrap();
    }
    let mut table = Stacks::new();
    let short = Stack { user: vec![0x55d0_0000_3000], ..Stack::default() };
    for known in [stack(1), stack(2), short, stack(77), stack(79), stack(78)] {
        table.intern(&known);
    }
    let expected: Vec<Told> = events.into_iter().map(|event| tell(event, &table)).collect();
    let bytes = writer.finish(&ending()).unwrap();
    assert_eq!(read(&bytes).told, expected);
    assert_eq!(Reader::open(&bytes).unwrap().header(), &header());
}

#[test]
fn many_events_become_several_chunks() {
    let mut writer = Writer::new(Vec::new(), &header()).unwrap();
    let event = |n: u64| Event { time_ns: n * 997, tid: Tid(n as u32 % 7), cpu: (n % 3) as u16, what: What::SwitchIn };
    for n in 0..400_000 {
        writer.event(&event(n)).unwrap();
    }
    let before_the_last = writer.written_bytes();
    let bytes = writer.finish(&ending()).unwrap();
    assert!(before_the_last > 4_000 && bytes.len() as u64 > before_the_last + 500, "one chunk was full, one was not");
    let mut next = 0;
    let summary = Reader::open(&bytes).unwrap().read(&mut Stacks::new(), &mut |told| {
        assert_eq!(told, &event(next));
        next += 1;
    });
    assert_eq!((next, summary.damage), (400_000, vec![]));
}

#[test]
fn flushing_nothing_writes_nothing() {
    let mut writer = Writer::new(Vec::new(), &header()).unwrap();
    let before = writer.written_bytes();
    writer.flush().unwrap();
    assert_eq!(writer.written_bytes(), before);
    let bytes = writer.finish(&ending()).unwrap();
    assert!(read(&bytes).told.is_empty());
}

#[test]
fn what_is_too_long_is_cut_and_stays_readable() {
    let mut writer = Writer::new(Vec::new(), &header()).unwrap();
    let words = (0..70_000_u32).map(|n| (n as u16, Word::Code(u64::from(n) << 20))).collect();
    let long = Stack { user: (0..5_000).collect(), words, ..Stack::default() };
    let id = writer.stack(&long);
    let name = "ü".repeat(100_000);
    for what in [What::Sample { stack: id }, What::Named { name: name.as_str().into(), exec: false }] {
        writer.event(&Event { time_ns: 1, tid: Tid(1), cpu: 0, what }).unwrap();
    }
    let content = read(&writer.finish(&ending()).unwrap());
    assert_eq!(content.summary.damage, vec![]);
    let kept = content.told[0].1.as_ref().unwrap();
    assert_eq!((kept.user.len(), kept.words.len()), (4096, 65_536));
    assert_eq!(content.told[1].0.what, What::Named { name: name[..65_536].into(), exec: false });
}

#[test]
fn a_stack_that_nobody_interned_is_an_empty_one() {
    let mut writer = Writer::new(Vec::new(), &header()).unwrap();
    let what = What::Sample { stack: StackId(7) };
    writer.event(&Event { time_ns: 1, tid: Tid(1), cpu: 0, what }).unwrap();
    assert_eq!(read(&writer.finish(&ending()).unwrap()).told[0].1, Some(Stack::default()));
}
