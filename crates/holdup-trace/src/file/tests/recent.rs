//! A ring that was cut is a recording of its own: what it says of how things stand at its end is what the whole history
//! says.

use proptest::prelude::*;

use super::super::standing::Standing;
use super::super::{Recent, Room};
use super::*;

const MS: u64 = 1_000_000;

/// A step of a made-up program: what happens is chosen by the number, to a thread chosen by the other.
type Step = (u8, u8);

/// Its threads and processes come and go, execute, map, wait and run.
#[derive(Default)]
struct Program {
    alive: Vec<(Tid, Pid)>,
    next: u32,
    now_ns: u64,
}

impl Program {
    fn new() -> (Program, Vec<Event>) {
        let program = Program { alive: vec![(Tid(1), Pid(1))], next: 1, now_ns: 1_000 };
        let event = |what| Event { time_ns: 1_000, tid: Tid(1), cpu: NO_CPU, what };
        let started = event(What::Started { pid: Pid(1), parent: None });
        let named = event(What::Named { name: "first".into(), exec: false });
        (program, vec![started, named, event(mapped(1, 0))])
    }

    /// What happens next; stacks are numbers that stand for [`stack`] of the same.
    fn step(&mut self, (what, whom): Step) -> Option<Event> {
        self.now_ns += u64::from(what) * MS;
        let at = usize::from(whom) % self.alive.len().max(1);
        let (tid, pid) = *self.alive.get(at)?;
        let stack = (whom % 3 == 0).then_some(crate::StackId(u32::from(whom)));
        let what = match what % 12 {
            0 | 1 => What::SwitchIn,
            2 | 3 => What::SwitchOut { off: OffCpu::Sleeping, stack },
            4 | 5 => What::FutexWait { op: FutexOp(128), addr: 0x40, value: 2, stack },
            6 => What::Call { nr: CallNumber(7), stack },
            7 => What::Blocked(Box::new(Blocked {
                nr: Some(CallNumber(0)),
                addr: u64::from(whom),
                stack,
                ..Blocked::default()
            })),
            8 => What::Named { name: format!("name {whom}").into(), exec: whom % 4 == 0 },
            9 => mapped(pid.0, whom),
            10 if self.alive.len() < 12 => {
                self.next += 1;
                let pid = if whom % 2 == 0 { pid } else { Pid(self.next) };
                self.alive.push((Tid(self.next), pid));
                let what = What::Started { pid, parent: Some(tid) };
                return Some(Event { time_ns: self.now_ns, tid: Tid(self.next), cpu: NO_CPU, what });
            }
            11 if self.alive.len() > 1 => {
                self.alive.remove(at);
                What::Exited
            }
            _ => What::MajorFault { addr: 1, stack: None },
        };
        Some(Event { time_ns: self.now_ns, tid, cpu: 3, what })
    }
}

fn mapped(pid: u32, number: u8) -> What {
    What::Mapped(Box::new(Mapping {
        pid: Pid(pid),
        start: 0x1000 * u64::from(number),
        len: 0x1800,
        offset: 0,
        path: format!("/lib/{number}").into(),
        build_id: None,
    }))
}

/// Keeps a program's events, forgetting stacks from time to time; with how things stand by all of them.
fn kept(steps: &[Step], room: Room) -> (Recent, Vec<Told>, u64) {
    let (mut program, mut events) = Program::new();
    events.extend(steps.iter().filter_map(|step| program.step(*step)));
    let mut recent = Recent::new(&header(), room).expect("memory takes it");
    let mut standing = Standing::default();
    let mut stacks = Stacks::new();
    for event in &events {
        recent.forget_stacks();
        let mut kept = event.clone();
        let mut told = event.clone();
        if let Some(id) = stack_of(&mut kept.what) {
            let stack = stack(u64::from(id.0));
            *id = recent.stack(&stack);
            stack_of(&mut told.what).into_iter().for_each(|id| *id = stacks.intern(&stack));
        }
        recent.event(&kept).expect("memory takes it");
        standing.note(&told);
    }
    let now_ns = program.now_ns;
    (recent, told(&standing, &stacks, now_ns), now_ns)
}

fn stack_of(what: &mut What) -> Option<&mut crate::StackId> {
    match what {
        What::SwitchOut { stack, .. } | What::FutexWait { stack, .. } | What::Call { stack, .. } => stack.as_mut(),
        What::Blocked(found) => found.stack.as_mut(),
        _ => None,
    }
}

fn told(standing: &Standing, stacks: &Stacks, time_ns: u64) -> Vec<Told> {
    standing.events(time_ns).into_iter().map(|event| tell(event, stacks)).collect()
}

/// How things stand at the end of a file, by that file alone; and when its first event was.
fn stands(bytes: &[u8], time_ns: u64) -> (Vec<Told>, u64) {
    let reader = Reader::open(bytes).expect("it opens");
    let (mut stacks, mut standing) = (Stacks::new(), Standing::default());
    let mut first_ns = None;
    let mut born = std::collections::BTreeSet::new();
    let summary = reader.read(&mut stacks, &mut |event| {
        first_ns.get_or_insert(event.time_ns);
        let again = matches!(event.what, What::Started { .. }) && !born.insert(event.tid);
        assert!(!again, "{:?} is told of twice", event.tid);
        standing.note(event);
    });
    assert_eq!(summary.damage, []);
    assert!(summary.ending.is_some());
    assert!(first_ns.is_none_or(|first| first >= reader.header().began_ns));
    (told(&standing, &stacks, time_ns), reader.header().began_ns)
}

proptest! {
    #[test]
    fn a_cut_ring_says_how_things_stand(steps in prop::collection::vec(any::<Step>(), 1..600), bytes in 2_000_usize..60_000) {
        let room = Room { span_ns: 10_000 * MS, bytes };
        let (mut recent, expected, now_ns) = kept(&steps, room);
        for back_ms in [0, 3_000, 1_000_000] {
            let since_ns = now_ns.saturating_sub(back_ms * MS);
            let file = recent.recording(since_ns, &ending()).expect("memory takes it").to_vec();
            let (found, began_ns) = stands(&file, now_ns);
            prop_assert_eq!(&found, &expected);
            prop_assert!(began_ns <= since_ns || began_ns == recent.first_ns());
        }
    }
}

#[test]
fn what_is_too_old_or_too_much_is_forgotten() {
    let steps: Vec<Step> = (0..20_000_u32).map(|n| ((n % 7) as u8, (n * 31 % 251) as u8)).collect();
    let (recent, _, now_ns) = kept(&steps, Room { span_ns: 5_000 * MS, bytes: 20 << 20 });
    let reach_ms = (now_ns - recent.first_ns()) / MS;
    assert!((5_000..7_500).contains(&reach_ms), "{reach_ms} ms are kept");
    let small = 60_000;
    let (recent, _, now_ns) = kept(&steps, Room { span_ns: u64::MAX, bytes: small });
    assert!(recent.bytes() < 2 * small, "{} bytes", recent.bytes());
    assert!(now_ns - recent.first_ns() > 1_000 * MS);
}

#[test]
fn how_things_stand_does_not_grow_with_threads_and_memory_that_come_and_go() {
    let mut standing = Standing::default();
    let mut note = |tid, what| standing.note(&Event { time_ns: 1, tid: Tid(tid), cpu: NO_CPU, what });
    let mapping = |pid, number: u64| {
        let (start, path) = (0x10_0000 * (1 + number * 7 % 10_007), format!("/lib/{number}").into());
        What::Mapped(Box::new(Mapping { pid: Pid(pid), start, len: 0x1000, offset: 0, path, build_id: None }))
    };
    note(1, What::Started { pid: Pid(1), parent: None });
    for number in 0..10_000 {
        note(1, mapping(1, number));
        let tid = 100 + number as u32;
        note(tid, What::Started { pid: Pid(tid), parent: Some(Tid(1)) });
        note(tid, What::Exited);
    }
    let events = standing.events(2);
    assert_eq!(events.len(), 1 + 1024, "one thread and as many mappings as are kept");
    let has = |number: u64| events.iter().any(|event| event.what == mapping(1, number));
    assert!(has(0) && has(255) && has(9_999) && has(9_500) && !has(5_000), "the first stay, and the last");
}

#[test]
fn losses_and_the_recorder_s_time_are_those_of_the_stretch() {
    let (mut program, mut events) = Program::new();
    let spent = |value| What::Count { counter: Counter::RecorderCpuNs, value };
    for (at_ms, what) in [(10, What::Lost { count: 5 }), (20, spent(700)), (9_000, What::SwitchIn), (9_500, spent(900))]
    {
        program.now_ns = at_ms * MS;
        events.push(Event { time_ns: program.now_ns, tid: Tid(1), cpu: NO_CPU, what });
    }
    let mut recent = Recent::new(&header(), Room { span_ns: 60_000 * MS, bytes: 1 << 20 }).expect("memory takes it");
    events.iter().for_each(|event| recent.event(event).expect("memory takes it"));
    let mut ended = |since_ms: u64| {
        let file = recent.recording(since_ms * MS, &Ending::default()).expect("memory takes it").to_vec();
        let ending = read(&file).summary.ending.expect("it has an end");
        (ending.lost, ending.recorder_cpu_ns, ending.ended_ns)
    };
    assert_eq!(ended(0), (5, 900, 9_500 * MS));
    assert_eq!(ended(9_200), (0, 200, 9_500 * MS));
}
