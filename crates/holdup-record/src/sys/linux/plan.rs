//! Which events are asked of the kernel, and how each is described to it. Nothing here calls the kernel.

use holdup_trace::{BLOCKING_CALLS, BlockingCall, CallNumber, Numbering};
use perf_event_open_sys::bindings as perf;

use super::assemble::{Kind, WAITING_FCNTL};
use super::chosen;
use super::decode::NUMBERING;
use super::perf::Attr;
use crate::{Detail, Options, ThreadNames};

/// One event, to be opened for every CPU: for every thread as well, or for all programs at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spec {
    /// What it is for.
    pub kind: Kind,
    /// What it costs to do without it.
    pub need: Need,
    /// Also while the kernel runs, with its part of the stack: needs rights.
    pub kernel: bool,
    /// Of whatever program runs on the CPU: needs more rights. The target's records are picked out afterwards.
    pub everybody: bool,
    /// What the kernel calls it.
    pub source: Source,
    /// One record per so many.
    pub period: u64,
    /// What the kernel passes over.
    pub filter: Option<String>,
}

/// Whether a recording can do without an event. In this order they are given up if there are too few file descriptors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Need {
    /// Nice to have, and many of them.
    Extra,
    /// Wanted.
    Wanted,
    /// No recording without it.
    Essential,
}

/// Where an event comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// One of the kernel's own counters.
    Software(u64),
    /// A tracepoint by its number.
    Tracepoint(u64),
}

/// When the events of a thread begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begin {
    /// When the thread executes a program.
    OnExec,
    /// Switches, births and deaths at once, so that no thread escapes; all else when
    /// [`enable`](super::session::Session::enable) is called: rings need not hold what threads do while the next ones
    /// are attached to.
    Later,
}

/// What an attribute needs besides its event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Manner {
    /// When the events begin.
    pub begin: Begin,
    /// Bytes of user stack.
    pub stack_bytes: u32,
    /// Build ids come with mappings (Linux 5.12).
    pub build_ids: bool,
}

/// The calls that have an event each where the shared one is not allowed (it counts as one of the kernel): the usual
/// ones.
fn calls_of_users() -> impl Iterator<Item = &'static BlockingCall> {
    BLOCKING_CALLS.iter().filter(|call| call.is_usual && call.number(NUMBERING).is_some())
}

const FUTEX: [&str; 2] = ["sys_enter_futex", "sys_exit_futex"];
const SCHEDULER: [&str; 2] = ["sched_switch", "sched_waking"];
const ANY_CALL: &str = "sys_enter";
const FCNTL: &str = "sys_enter_fcntl";

/// The tracepoints that a plan can use.
pub fn tracepoints() -> Vec<&'static str> {
    FUTEX.into_iter().chain(SCHEDULER).chain([ANY_CALL]).chain(calls_of_users().map(|call| call.tracepoint)).collect()
}

/// Whether a recording that has all these events shows every such call, whatever the rights.
pub fn has_event(nr: CallNumber, futexes: bool, calls: bool) -> bool {
    (futexes && NUMBERING.futex() == Some(nr)) || (calls && NUMBERING.blocking(nr).is_some_and(|call| call.is_usual))
}

/// One in so many futex calls that return 0 is recorded: nearly all are waits that were woken, of which the switches
/// tell; the others are wakes that woke nobody, whose number can be estimated.
pub const ZERO_PERIOD: u32 = 16;

/// One in so many page faults has its place recorded: no number that a program's own rhythm shares.
const FAULT_PERIOD: u64 = 61;

/// All events of a recording, where `id` knows the tracepoints' numbers. `foreign_numbers`: the recorder knows threads
/// by other numbers than the scheduler's tracepoints do.
pub fn plan(options: &Options, foreign_numbers: bool, id: impl Fn(&str) -> Option<u64>) -> Vec<Spec> {
    let rights = options.detail == Detail::Allowed;
    let mut specs = vec![software(Kind::Side, perf::PERF_COUNT_SW_DUMMY, Need::Essential)];
    if let (Some(enter), Some(exit)) = (id(FUTEX[0]), id(FUTEX[1])) {
        specs.extend(futex(enter, exit));
    }
    if let Some(period) = 1_000_000_000u64.checked_div(options.sample_hz.into()) {
        let clock = software(Kind::Sample, perf::PERF_COUNT_SW_CPU_CLOCK, Need::Wanted);
        // A thread's own timer would be set and stopped at each of its switches: 6 to 8 us in a virtual machine.
        specs.push(Spec { period, kernel: rights, everybody: rights, ..clock });
    }
    specs.push(Spec {
        kernel: rights,
        period: 1,
        ..software(Kind::MajorFault, perf::PERF_COUNT_SW_PAGE_FAULTS_MAJ, Need::Wanted)
    });
    let faults = software(Kind::Fault, perf::PERF_COUNT_SW_PAGE_FAULTS, Need::Extra);
    specs.push(Spec { period: FAULT_PERIOD, ..faults });
    if rights && !foreign_numbers {
        let scheduler = SCHEDULER.into_iter().zip([Kind::Switch, Kind::Waking]);
        specs.extend(scheduler.filter_map(|(name, kind)| {
            Some(Spec { kernel: true, everybody: true, ..tracepoint(kind, id(name)?, Need::Wanted) })
        }));
        // Linux asks the event that was opened last first, so these come before the switch that they are about.
        let places = [(Kind::DeepPlace, "prev_state == 2"), (Kind::SleepPlace, "prev_state == 1")];
        specs.extend(places.into_iter().filter_map(|(kind, filter)| {
            let place = tracepoint(kind, id(SCHEDULER[0])?, Need::Extra);
            Some(Spec { kernel: true, everybody: true, filter: Some(filter.into()), ..place })
        }));
    }
    // The first that opens makes the others needless, as samples in the kernel do those of faults: see
    // `Session::open_all`.
    if let Some(id) = id(ANY_CALL).filter(|_| rights && NUMBERING != Numbering::Unknown) {
        let shared = tracepoint(Kind::Call, id, Need::Extra);
        specs.push(Spec { kernel: true, filter: Some(of_calls()), ..shared });
    }
    specs.extend(calls_of_users().filter_map(|call| {
        let filter =
            (call.tracepoint == FCNTL).then(|| WAITING_FCNTL.map(|command| format!("cmd == {command}")).join(" || "));
        Some(Spec { filter, ..tracepoint(Kind::Call, id(call.tracepoint)?, Need::Extra) })
    }));
    specs.into_iter().map(|spec| spec.of_threads(&options.threads)).collect()
}

/// What is left for perf to tell where programs inside the kernel tell of switches, wake-ups and calls: of all
/// programs, because each event that belongs to a thread costs at each of its switches.
pub fn beside_bpf(options: &Options) -> Vec<Spec> {
    let of_all = |spec: Spec| Spec { everybody: true, ..spec };
    let mut specs = vec![of_all(software(Kind::Side, perf::PERF_COUNT_SW_DUMMY, Need::Essential))];
    if let Some(period) = 1_000_000_000u64.checked_div(options.sample_hz.into()) {
        let clock = software(Kind::Sample, perf::PERF_COUNT_SW_CPU_CLOCK, Need::Wanted);
        specs.push(of_all(Spec { period, kernel: true, ..clock }));
    }
    let faults = software(Kind::MajorFault, perf::PERF_COUNT_SW_PAGE_FAULTS_MAJ, Need::Wanted);
    specs.push(of_all(Spec { kernel: true, period: 1, ..faults }));
    specs
}

/// The filter that lets calls pass that block by their nature.
///
/// Where the rights allow it, one event of the tracepoint that all calls share sees them, and not one for each: at
/// every switch, Linux looks at every event that a thread has, for as many CPUs as there are. With two CPUs, one event
/// for each of eleven calls costs 0.7 us per switch; the shared one costs 0.1 us at every call that the program makes.
fn of_calls() -> String {
    let calls: Vec<String> =
        BLOCKING_CALLS.iter().filter_map(|call| Some(format!("id == {}", call.number(NUMBERING)?.0))).collect();
    calls.join(" || ")
}

fn futex(enter: u64, exit: u64) -> [Spec; 3] {
    let filtered = |kind, id, filter: &str| Spec { filter: Some(filter.into()), ..tracepoint(kind, id, Need::Wanted) };
    let zero = filtered(Kind::FutexZero, exit, "ret == 0");
    [
        filtered(Kind::FutexWait, enter, &waits()),
        // EAGAIN: a wait that found the value changed, which shows in that no switch follows it.
        filtered(Kind::FutexReturn, exit, "ret != 0 && ret != -11"),
        Spec { period: ZERO_PERIOD.into(), ..zero },
    ]
}

/// The filter that lets futex operations that wait pass, and the one that hands a lock with priority inheritance over,
/// which returns 0 like any. The commonest are asked for first: wakes, which fail, then waits.
fn waits() -> String {
    use holdup_trace::FutexOp;
    const FLAGS: [u32; 4] = [128, 0, 128 | 256, 256];
    const COMMANDS: [u32; 6] = [
        FutexOp::WAIT,
        FutexOp::WAIT_BITSET,
        FutexOp::LOCK_PI,
        FutexOp::UNLOCK_PI,
        FutexOp::LOCK_PI2,
        FutexOp::WAIT_REQUEUE_PI,
    ];
    let all: Vec<String> = COMMANDS
        .iter()
        .flat_map(|command| FLAGS.iter().map(move |flags| format!("op == {}", command | flags)))
        .collect();
    format!("op != 129 && op != 1 && ({})", all.join(" || "))
}

fn software(kind: Kind, config: u32, need: Need) -> Spec {
    let source = Source::Software(config.into());
    Spec { kind, need, kernel: false, everybody: false, source, period: 0, filter: None }
}

fn tracepoint(kind: Kind, id: u64, need: Need) -> Spec {
    let source = Source::Tracepoint(id);
    Spec { kind, need, kernel: false, everybody: false, source, period: 1, filter: None }
}

impl Spec {
    /// Of these threads alone, as far as the kernel can tell them.
    fn of_threads(self, names: &ThreadNames) -> Spec {
        let fields: &[&str] = match (self.source, self.kind) {
            (Source::Software(_), _) => return self,
            (_, Kind::Switch) => &["prev_comm", "next_comm"],
            (_, Kind::DeepPlace | Kind::SleepPlace) => &["prev_comm"],
            // Whoever wakes them.
            (_, Kind::Waking) => &["comm"],
            _ => &["COMM"],
        };
        let Some(by_name) = chosen::filter(names, fields) else { return self };
        let filter = self.filter.as_ref().map_or(by_name.clone(), |filter| format!("({by_name}) && ({filter})"));
        Spec { filter: Some(filter), ..self }
    }

    /// The event as perf_event_open wants it.
    pub fn attr(&self, manner: Manner) -> Attr {
        let mut attr = base();
        (attr.type_, attr.config) = match self.source {
            Source::Software(config) => (perf::PERF_TYPE_SOFTWARE, config),
            Source::Tracepoint(id) => (perf::PERF_TYPE_TRACEPOINT, id),
        };
        let on_exec = manner.begin == Begin::OnExec;
        attr.set_inherit(u64::from(!self.everybody));
        let at_once = if on_exec { self.everybody } else { self.begins_first() };
        attr.set_disabled(u64::from(!at_once || self.begins_on_demand()));
        attr.set_enable_on_exec(u64::from(on_exec && !self.everybody));
        attr.set_exclude_kernel(u64::from(!self.kernel));
        attr.set_exclude_idle(u64::from(self.kind == Kind::Sample));
        attr.__bindgen_anon_1.sample_period = self.period;
        self.describe_samples(&mut attr, manner.stack_bytes);
        if self.kind == Kind::Side {
            // Of all programs, the scheduler itself tells.
            attr.set_context_switch(u64::from(!self.everybody));
            attr.set_comm(1);
            attr.set_comm_exec(1);
            attr.set_task(1);
            // Linux writes no mapping at all unless somebody asks for the first version of the record as well.
            attr.set_mmap(1);
            attr.set_mmap2(1);
            attr.set_build_id(u64::from(manner.build_ids));
        }
        attr
    }

    /// Whether its records are needed from the first moment on when a process is attached to.
    pub fn begins_first(&self) -> bool {
        matches!(self.kind, Kind::Side | Kind::Switch)
    }

    /// Whether its records are too expensive unless they are known to be needed.
    pub fn begins_on_demand(&self) -> bool {
        self.kind == Kind::SleepPlace
    }

    fn describe_samples(&self, attr: &mut Attr, stack_bytes: u32) {
        let shape = self.kind.shape();
        let mut sample = attr.sample_type;
        let mut add = |wanted: bool, bit: u32| sample |= if wanted { u64::from(bit) } else { 0 };
        add(shape.addr, perf::PERF_SAMPLE_ADDR);
        add(shape.chain, perf::PERF_SAMPLE_CALLCHAIN);
        add(shape.raw, perf::PERF_SAMPLE_RAW);
        add(shape.registers != 0, perf::PERF_SAMPLE_REGS_USER);
        add(shape.stack && stack_bytes > 0, perf::PERF_SAMPLE_STACK_USER);
        attr.sample_type = sample;
        attr.sample_regs_user = shape.registers;
        attr.sample_stack_user = if shape.stack { stack_bytes } else { 0 };
        attr.set_exclude_callchain_kernel(u64::from(!self.kernel));
        // The walk up the user stack costs more than all else of a record; there, the copy of the stack must do.
        attr.set_exclude_callchain_user(u64::from(matches!(self.kind, Kind::DeepPlace | Kind::SleepPlace)));
    }
}

/// What all events of a recording have alike: the frame of their records, and the clock.
fn base() -> Attr {
    let mut attr = Attr { size: size_of::<Attr>() as u32, ..Attr::default() };
    attr.sample_type = u64::from(perf::PERF_SAMPLE_IDENTIFIER | perf::PERF_SAMPLE_TID | perf::PERF_SAMPLE_TIME);
    attr.set_sample_id_all(1);
    attr.set_use_clockid(1);
    attr.clockid = libc::CLOCK_MONOTONIC;
    attr.set_exclude_kernel(1);
    attr.set_exclude_hv(1);
    attr
}

/// The event of the recorder itself that a CPU's ring belongs to. It wakes the recorder when so many bytes are in the
/// ring.
pub fn ring_owner(watermark: u32) -> Attr {
    let mut attr = base();
    attr.type_ = perf::PERF_TYPE_SOFTWARE;
    attr.config = perf::PERF_COUNT_SW_DUMMY.into();
    attr.set_disabled(1);
    attr.set_watermark(1);
    attr.__bindgen_anon_2.wakeup_watermark = watermark;
    attr
}
