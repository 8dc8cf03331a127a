//! Whole files: what is written comes back, what is damaged costs only itself, and no bytes do harm.

mod damage;
mod format;
mod fuzz;
mod recent;
mod round_trip;

use std::sync::Arc;

use super::{Damage, Reader, Summary, Writer};
use crate::{
    Blocked, CallNumber, Counter, Ending, Event, FutexOp, Header, Interpreted, InterpretedFrame, Mapping, NO_CPU,
    OffCpu, Pid, Pointers, Registers, Stack, Stacks, TaskGroup, TaskState, Tasks, ThreadUsage, Tid, What, Word,
};

/// An event with its stack instead of the stack's number.
type Told = (Event, Option<Stack>);

/// Everything that a file gives.
struct Content {
    told: Vec<Told>,
    summary: Summary,
}

fn read(bytes: &[u8]) -> Content {
    let mut stacks = Stacks::new();
    let mut events = Vec::new();
    let summary = Reader::open(bytes).expect("it opens").read(&mut stacks, &mut |event| events.push(event.clone()));
    assert_eq!(summary.events, events.len() as u64);
    let told = events.into_iter().map(|event| tell(event, &stacks)).collect();
    Content { told, summary }
}

/// Takes the stack out of an event, so that events of different tables compare.
fn tell(mut event: Event, stacks: &Stacks) -> Told {
    let id = match &mut event.what {
        What::SwitchOut { stack, .. }
        | What::Waking { stack, .. }
        | What::FutexWait { stack, .. }
        | What::FutexReturn { stack, .. }
        | What::Call { stack, .. }
        | What::MajorFault { stack, .. } => stack.take(),
        What::Blocked(found) => found.stack.take(),
        // One of the groups has one.
        What::Tasks(found) => found.groups.iter_mut().find_map(|group| group.stack.take()),
        What::Sample { stack } | What::MinorFault { stack } => Some(std::mem::replace(stack, crate::StackId(0))),
        _ => None,
    };
    (event, id.map(|id| stacks.get(id).expect("the stack came before the event").clone()))
}

fn header() -> Header {
    Header { producer: "a test".to_owned(), began_ns: 1_000, sample_period_ns: 1_000_000, ..Header::default() }
}

fn ending() -> Ending {
    Ending { ended_ns: 9_000_000, reason: "the target ended".to_owned(), status: Some(0), ..Ending::default() }
}

fn stack(seed: u64) -> Stack {
    Stack {
        kernel: vec![0xffff_ffff_8100_0000 + seed],
        user: vec![0x55d0_0000_1000 + seed, 0x7f00_1234_0000, 0x55d0_0000_2000],
        registers: Some(Registers { ip: 0x55d0_0000_1000 + seed, fp: Word::Stack(64), lr: 0 }),
        words: vec![(0, Word::Code(0x7f00_1234_0000)), (3, Word::Stack(-8)), (9, Word::Code(0x55d0_0000_2000))],
        depth: 64,
    }
}

/// One event of every kind, in `chunks` chunks.
fn specimen(chunks: u64) -> Vec<u8> {
    specimen_of(events_of_every_kind, chunks)
}

/// Makes the events of a chunk that begins at this time.
type Make = fn(&mut Writer<Vec<u8>>, u64) -> Vec<Event>;

fn specimen_of(events: Make, chunks: u64) -> Vec<u8> {
    let mut writer = Writer::new(Vec::new(), &header()).unwrap();
    for chunk in 0..chunks {
        for event in events(&mut writer, 2_000 + chunk * 1_000_000) {
            writer.event(&event).unwrap();
        }
        writer.flush().unwrap();
    }
    writer.finish(&ending()).unwrap()
}

fn events_of_every_kind(writer: &mut Writer<Vec<u8>>, from_ns: u64) -> Vec<Event> {
    let mut events = events_of_the_first_version(writer, from_ns);
    let in_read = Blocked {
        nr: Some(CallNumber(0)),
        wchan: Some("anon_pipe_read".into()),
        file: Some("pipe:[4711]".into()),
        deep: false,
        addr: 3,
        stack: Some(writer.stack(&stack(77))),
    };
    let outside = Blocked { wchan: Some("0".into()), deep: true, ..Blocked::default() };
    let later = (1..).map(|n| from_ns + 100_000 + n * 700);
    for (time_ns, found) in later.zip([in_read, outside, Blocked::default()]) {
        let what = What::Blocked(Box::new(found));
        events.push(Event { time_ns, tid: Tid(101), cpu: NO_CPU, what });
    }
    let frame = InterpretedFrame { function: "Cart.add".into(), file: "/srv/shop.py".into(), line: 42 };
    let frames: [Arc<[InterpretedFrame]>; 3] = [[frame.clone()].into(), [frame].into(), [].into()];
    for (time_ns, frames) in (from_ns + 200_000..).zip(frames) {
        let what = What::Interpreted(Box::new(Interpreted { holds: !frames.is_empty(), frames }));
        events.push(Event { time_ns, tid: Tid(101), cpu: NO_CPU, what });
    }
    let waiting = TaskGroup { count: 60, reason: "sync.Mutex.Lock".into(), addr: 0xc000, ..TaskGroup::default() };
    let stack_of_task = Some(writer.stack(&stack(79)));
    let receiving =
        TaskGroup { count: 5, reason: "chan receive".into(), places: Some(2), example: 31, ..TaskGroup::default() };
    let calling = TaskGroup { count: 1, state: TaskState::Call, stack: stack_of_task, ..TaskGroup::default() };
    let tasks = Tasks { all: 70_000, looked: 66, groups: vec![waiting, receiving, calling] };
    events.push(Event { time_ns: from_ns + 250_000, tid: Tid(101), cpu: NO_CPU, what: What::Tasks(Box::new(tasks)) });
    let registers = vec![(0, 0x7f00_0000_1008), (7, 0x7f00_0000_1000), (15, 0x55d0_0010_0040)];
    let pointers = What::Pointers(Box::new(Pointers { ip: 0x55d0_0000_3000, registers }));
    events.push(Event { time_ns: from_ns + 260_000, tid: Tid(101), cpu: 1, what: pointers });
    let fault = What::MinorFault { stack: writer.stack(&stack(78)) };
    events.push(Event { time_ns: from_ns + 300_000, tid: Tid(101), cpu: 1, what: fault });
    events
}

/// What the committed recording of format 1 holds: kinds that came later are not in it.
fn events_of_the_first_version(writer: &mut Writer<Vec<u8>>, from_ns: u64) -> Vec<Event> {
    let (wait, wake) = (Some(writer.stack(&stack(1))), Some(writer.stack(&stack(2))));
    let sample = writer.stack(&Stack { user: vec![0x55d0_0000_3000], ..Stack::default() });
    let addr = 0x7ffd_0000_1040;
    let (op_wait, op_wake) = (FutexOp(FutexOp::WAIT | 128), FutexOp(FutexOp::WAKE | 128));
    let off = |off| What::SwitchOut { off, stack: None };
    let whats = vec![
        What::Started { pid: Pid(100), parent: None },
        What::Named { name: "wörker \"1\"\n".into(), exec: true },
        What::Mapped(Box::new(mapping(Some(Box::new([1, 2, 3, 0xff]))))),
        What::Mapped(Box::new(mapping(None))),
        What::SwitchIn,
        What::FutexWait { op: op_wait, addr, value: 2, stack: wait },
        What::SwitchOut { off: OffCpu::Blocked, stack: wait },
        What::FutexReturn { op: op_wake, addr, ret: 1, stack: wake },
        What::Waking { target: Tid(101), stack: wake },
        What::FutexReturn { op: op_wait, addr, ret: -110, stack: None },
        What::Call { nr: CallNumber(230), stack: None },
        What::Sample { stack: sample },
        What::MajorFault { addr: 0x55d0_0000_0000, stack: wait },
        What::MajorFault { addr: 0x55cf_ffff_0000, stack: None },
        off(OffCpu::Runnable),
        off(OffCpu::Sleeping),
        off(OffCpu::Uninterruptible),
        What::Lost { count: 17 },
        What::LockWord { addr, word: 2, owner: 101 },
        What::Count { counter: Counter::FutexAgain, value: 89_128 },
        What::Usage(Box::new(ThreadUsage {
            voluntary: 5,
            involuntary: 6,
            user_ns: 7,
            kernel_ns: 8,
            priority: -2,
            ..ThreadUsage::default()
        })),
        What::Started { pid: Pid(100), parent: Some(Tid(100)) },
        off(OffCpu::Gone),
        What::Exited,
    ];
    let place = |n: usize| match n % 4 {
        0 => (Tid(100), 0),
        1 => (Tid(101), 1),
        2 => (Tid(100), 1),
        _ => (Tid(0), NO_CPU),
    };
    let at = |n: usize| from_ns + n as u64 * 700;
    let event = |(n, what)| Event { time_ns: at(n), tid: place(n).0, cpu: place(n).1, what };
    whats.into_iter().enumerate().map(event).collect()
}

fn mapping(build_id: Option<Box<[u8]>>) -> Mapping {
    Mapping { pid: Pid(100), start: 0x55d0_0000_0000, len: 0x4000, offset: 0x1000, path: "/bin/x y".into(), build_id }
}

fn is_loss(told: &Told) -> bool {
    matches!(told.0.what, What::Lost { .. }) && told.0.cpu == NO_CPU && told.0.tid == Tid(0)
}
