//! Why a recording without findings is no all-clear: silence must be earned.
//!
//! "No findings" means something only if what threads did is known: of their time at most a tenth may be unknown, no
//! more than a hundredth of the events lost, half of the CPU time that they wanted got, about as many switches and as
//! much CPU time recorded as the kernel counted, and the program must have run for a moment. Where a runtime runs tasks
//! of its own on threads that mostly wait for any of them to be ready, what tasks wait for is not known. And where
//! threads wait in code that a runtime made as it ran and nothing names, its locks and pools are not told from each
//! other.

use std::collections::BTreeSet;

use holdup_trace::{Pid, Tid};

use crate::facts::{
    AccountState, Blame, Facts, GoroutineGroup, GoroutineState, Leaf, LockFacts, Primitive, Reason, Site, ThreadFacts,
};
use crate::names::{Frame, is_scheduler_of_asio, leads_through};

/// Something that could have hidden a finding.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Doubt {
    /// No thread of the program ran while it was recorded.
    NothingRan,
    /// The recording is too short to say how the program works.
    TooShort {
        /// Its length.
        span_ns: u64,
    },
    /// Much of the threads' time is not accounted for.
    Unknown {
        /// How much, 0 to 1.
        share: f64,
    },
    /// Too many events were lost.
    Lost {
        /// How many.
        count: u64,
        /// Of how many, those that were read included.
        of: u64,
    },
    /// Other programs had the CPUs.
    Displaced {
        /// The share of the time that the threads were there to work.
        share: f64,
    },
    /// The kernel counted other switches than were recorded.
    Switches {
        /// Recorded.
        recorded: u64,
        /// Counted.
        counted: u64,
    },
    /// The kernel counted another CPU time than the threads were seen to run.
    CpuTime {
        /// Seen.
        seen_ns: u64,
        /// Counted.
        counted_ns: u64,
    },
    /// Tasks of a scheduler in the program wait, and that shows on no thread.
    Tasks {
        /// Whose tasks: `Go`, `tokio`, `asio` or `BEAM`, which runs Erlang's and Elixir's processes.
        scheduler: &'static str,
        /// Whether they were looked at, and wait for each other.
        looked: bool,
        /// The share of all threads' time for which they waited for a task to be ready.
        share: f64,
    },
    /// Threads run for long, and where is not known: no CPU samples were taken.
    Unsampled {
        /// CPU time of all threads in CPUs.
        cpus: f64,
    },
    /// Threads wait in code that a runtime made as it ran, and nothing names it.
    Nameless {
        /// The share of the lives of those threads.
        share: f64,
    },
    /// Threads wait for each other in calls of which this recording does not show who ends them.
    Wakers {
        /// The share of the threads' time for which they waited so; waits for threads to come or end do not count.
        share: f64,
    },
}

/// A shorter recording shows how a program starts, not how it works.
pub(crate) const SHORTEST_SPAN_NS: u64 = 50_000_000;
const MOST_UNKNOWN: f64 = 0.1;
const MOST_WITHOUT_TASKS: f64 = 0.5;
/// Threads that run tasks are so much of all at least, or their waits count as a share of all threads' time.
const LEAST_OF_SCHEDULER: f64 = 0.25;
/// Fewer looks at goroutines tell nothing of them.
const LEAST_LOOKS: u64 = 6;
const MOST_WITHOUT_WAKERS: f64 = 0.25;
const MOST_NAMELESS: f64 = 0.25;
/// Threads that run for less of one CPU's time hide nothing in their code.
const MOST_UNSAMPLED: f64 = 0.5;
/// So many threads wait for others in such calls, each for so much of its life: one alone reads what comes from
/// outside, but at a pipe that the program made itself.
const LEAST_PEERS: usize = 2;
const LEAST_PEER_SHARE: f64 = 0.2;
const MOST_LOST: f64 = 0.01;
const MOST_DISPLACED: f64 = 0.5;
/// Of the elapsed time, and all threads together: who hardly ever wants a CPU is not held up so.
const LEAST_DISPLACED: f64 = 0.2;
const MOST_MISSING: f64 = 0.1;
/// Start and end of a command are not recorded.
const SLACK_SWITCHES: u64 = 50;
const MOST_CPU_OFF: f64 = 0.2;
/// What recording costs in the kernel is counted there, and much of it lies between two stays on a CPU.
const MOST_CPU_MISSING: f64 = 0.5;
/// So much of it at each switch, at most.
const SWITCH_COST_NS: u64 = 15_000;
/// What a host takes from a virtual machine counts here and not there, and so does the start of a command.
const SLACK_CPU_NS: u64 = 20_000_000;

/// All of them.
pub(crate) fn all(facts: &Facts) -> Vec<Doubt> {
    let totals = &facts.totals;
    let mut doubts = Vec::new();
    if totals.on_cpu_ns == 0 {
        doubts.push(Doubt::NothingRan);
    } else if facts.span_ns() < SHORTEST_SPAN_NS {
        doubts.push(Doubt::TooShort { span_ns: facts.span_ns() });
    }
    let of = totals.lost.saturating_add(totals.events);
    if totals.lost as f64 > MOST_LOST * of as f64 {
        doubts.push(Doubt::Lost { count: totals.lost, of });
    }
    let (displaced_ns, working_ns) = facts.displacement();
    let share = displaced_ns as f64 / working_ns.max(1) as f64;
    if share >= MOST_DISPLACED && displaced_ns as f64 >= LEAST_DISPLACED * facts.span_ns() as f64 {
        doubts.push(Doubt::Displaced { share });
    }
    // The kernel counts a command with the children that it waited for; others were recorded as well.
    let beyond = facts.processes.len() > 1;
    if let Some(counted) = counted_switches(facts).filter(|_| !facts.header.is_sampled()) {
        let recorded = facts.recorded_of(counted);
        let missing = if beyond { counted.saturating_sub(recorded) } else { counted.abs_diff(recorded) };
        if missing > SLACK_SWITCHES && missing as f64 > MOST_MISSING * counted as f64 {
            doubts.push(Doubt::Switches { recorded, counted });
        }
    }
    if let Some(counted_ns) = counted_cpu_ns(facts) {
        let off = counted_ns.abs_diff(totals.on_cpu_ns);
        let is_more = totals.on_cpu_ns > counted_ns;
        let (most, cost_ns) = if is_more {
            (MOST_CPU_OFF, 0)
        } else {
            (MOST_CPU_MISSING, totals.switches.saturating_mul(SWITCH_COST_NS))
        };
        if off > SLACK_CPU_NS.saturating_add(cost_ns) && off as f64 > most * counted_ns as f64 && !(is_more && beyond) {
            doubts.push(Doubt::CpuTime { seen_ns: totals.on_cpu_ns, counted_ns });
        }
    }
    // A thread that only waits is known to do nothing: its unknown wait hides no work.
    let unknown: u64 = facts.account.of(AccountState::Unknown);
    let share = if totals.thread_ns == 0 { 0.0 } else { unknown as f64 / totals.thread_ns as f64 };
    if share > MOST_UNKNOWN {
        doubts.push(Doubt::Unknown { share });
    }
    doubts.extend(["Go", "tokio", "asio", "BEAM"].into_iter().filter_map(|scheduler| of_tasks(facts, scheduler)));
    doubts.extend(of_nameless(facts));
    doubts.extend(of_wakers(facts));
    doubts.extend(of_samples(facts));
    doubts
}

/// Looks do not tell code that spins, that fights over memory, or that calls the kernel for nothing, from code that
/// works.
fn of_samples(facts: &Facts) -> Option<Doubt> {
    let cpus = facts.totals.on_cpu_ns as f64 / facts.span_ns().max(1) as f64;
    (facts.header.is_sampled() && cpus >= MOST_UNSAMPLED).then_some(Doubt::Unsampled { cpus })
}

fn of_nameless(facts: &Facts) -> Option<Doubt> {
    let (mut nameless_ns, mut waiters) = (0, BTreeSet::new());
    for lock in &facts.locks {
        let is_nameless = |site: &&Site| site.call_path.iter().any(Frame::is_nameless_code);
        let ns: u64 = lock.wait_sites.iter().filter(is_nameless).map(|site| site.ns).sum();
        nameless_ns += ns;
        waiters.extend(lock.waiters.iter().map(|(tid, _)| *tid).filter(|_| ns > 0));
    }
    let lives_ns: u64 = waiters.iter().filter_map(|tid| facts.thread(*tid)).map(ThreadFacts::life_ns).sum();
    let share = (nameless_ns as f64 / lives_ns.max(1) as f64).min(1.0);
    (leaves_cpus(facts) && share >= MOST_NAMELESS).then_some(Doubt::Nameless { share })
}

/// Whether half of what the CPUs have goes elsewhere, or nowhere.
fn leaves_cpus(facts: &Facts) -> bool {
    facts.totals.on_cpu_ns * 2 <= facts.span_ns() * u64::from(facts.header.machine.cpus)
}

fn of_wakers(facts: &Facts) -> Option<Doubt> {
    let capabilities = &facts.header.capabilities;
    if capabilities.wakings || !capabilities.switches {
        return None;
    }
    let waited = |thread: &ThreadFacts| {
        let in_calls = [Reason::Peer, Reason::Futex(Primitive::FileLock)];
        let all: u64 = in_calls.iter().filter_map(|reason| thread.off.get(reason)).map(|time| time.ns).sum();
        // Behind a socket is mostly another program.
        let at_socket = |row: &&Blame| {
            row.waiter == thread.tid && row.file.as_deref().is_some_and(|file| file.starts_with("socket:"))
        };
        // At a pipe, who runs as waits end may tell; other calls' ends nothing shows.
        let is_known = |row: &&Blame| row.waiter == thread.tid && row.thread != thread.tid && row.lock.is_none();
        let known_ns: u64 = facts.blame.iter().filter(|row| at_socket(row) || is_known(row)).map(|row| row.ns).sum();
        all.saturating_sub(known_ns)
    };
    let at_own_pipe = |row: &Blame| row.leaf == Leaf::Unknown && row.thread == row.waiter && row.file.is_some();
    let is_within = facts.blame.iter().any(at_own_pipe);
    let waits: Vec<(u64, u64)> = facts.threads.iter().map(|thread| (waited(thread), thread.life_ns())).collect();
    let peers = waits.iter().filter(|(ns, life)| *ns as f64 >= LEAST_PEER_SHARE * (*life).max(1) as f64).count();
    let waited_ns: u64 = waits.iter().map(|(ns, _)| ns).sum();
    // Who waits for threads to come or end waits for the program itself.
    let others_ns = facts.account.of(AccountState::Barrier);
    let share = waited_ns as f64 / facts.totals.thread_ns.saturating_sub(others_ns).max(1) as f64;
    let least = if is_within { 1 } else { LEAST_PEERS };
    (peers >= least && share >= MOST_WITHOUT_WAKERS).then_some(Doubt::Wakers { share })
}

/// Whether goroutines mostly wait for what other goroutines do, or for what is not known: in which channel somebody is
/// late, no look tells. Who waits for the network, for time or for a CPU is accounted for; of mutexes findings tell.
fn wait_for_each_other(facts: &Facts) -> bool {
    let groups = || facts.goroutines.iter().flat_map(|of| &of.doing);
    let waits = |group: &&GoroutineGroup| {
        use GoroutineState::{Others, Receive, Send, Unknown};
        matches!(group.state, Send | Receive | Others | Unknown)
    };
    let all: f64 = groups().map(|group| group.mean).sum();
    let waiting: f64 = groups().filter(waits).map(|group| group.mean).sum();
    waiting >= MOST_WITHOUT_TASKS * all
}

fn of_tasks(facts: &Facts, scheduler: &'static str) -> Option<Doubt> {
    // Where one waits in the kernel for sockets and timers, it does so for tasks as well.
    let waits = |lock: &&LockFacts| waits_for_tasks(lock) == Some(scheduler);
    let is_beam = scheduler == "BEAM";
    let tids: BTreeSet<Tid> = match is_beam {
        true => facts.threads.iter().filter(|thread| is_of_beam(&thread.name)).map(|thread| thread.tid).collect(),
        false => facts.locks.iter().filter(waits).flat_map(|lock| lock.waiters.iter().map(|(tid, _)| *tid)).collect(),
    };
    let pids: BTreeSet<Pid> = tids.iter().filter_map(|tid| facts.thread(*tid)).map(|thread| thread.pid).collect();
    // All threads of a program in Go are its scheduler's, also those that wait for calls and watch over the others.
    let is_go = scheduler == "Go";
    let is_of = |thread: &&ThreadFacts| if is_go { pids.contains(&thread.pid) } else { tids.contains(&thread.tid) };
    let threads: Vec<&ThreadFacts> = facts.threads.iter().filter(is_of).collect();
    let waited_ns: u64 = threads.iter().map(|thread| thread.account.of(AccountState::Work)).sum();
    let own_ns: u64 = threads.iter().map(|thread| thread.life_ns()).sum();
    // A few of asio's or tokio's beside many other threads leave little unseen.
    let few = !is_go && !is_beam && (own_ns as f64) < LEAST_OF_SCHEDULER * facts.totals.thread_ns as f64;
    let all_ns = if few { facts.totals.thread_ns } else { own_ns };
    let looked = facts.goroutines.iter().filter(|of| of.looks >= LEAST_LOOKS && pids.contains(&of.pid)).count();
    let looked = is_go && looked > 0 && looked == pids.len();
    if looked && !wait_for_each_other(facts) {
        return None;
    }
    let idle = leaves_cpus(facts) && facts.totals.thread_ns > 0;
    let share = waited_ns as f64 / all_ns.max(1) as f64;
    (idle && share >= MOST_WITHOUT_TASKS).then_some(Doubt::Tasks { scheduler, looked, share })
}

/// Schedulers of Erlang's virtual machine are called `1_scheduler`, and in its first versions `scheduler_1`.
fn is_of_beam(name: &str) -> bool {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    name.strip_suffix("_scheduler").or(name.strip_prefix("scheduler_")).is_some_and(is_number)
}

/// Whose thread it is that waits here until a task is ready.
fn waits_for_tasks(lock: &LockFacts) -> Option<&'static str> {
    let call_path = &lock.wait_sites.first()?.call_path;
    let starts = |start: &str| leads_through(call_path, |name| name.starts_with(start));
    let of_asio = || leads_through(call_path, is_scheduler_of_asio).then_some("asio");
    let of_tokio = || starts("tokio::runtime::").then_some("tokio");
    starts("runtime.schedule").then_some("Go").or_else(of_tokio).or_else(of_asio)
}

/// The kernel's own account for a command that was started.
fn counted_cpu_ns(facts: &Facts) -> Option<u64> {
    let (user_ns, kernel_ns) = facts.ending.as_ref()?.cpu_ns()?;
    Some(user_ns.saturating_add(kernel_ns))
}

/// The kernel's own count for a command that was started.
fn counted_switches(facts: &Facts) -> Option<u64> {
    let ending = facts.ending.as_ref()?;
    Some(ending.voluntary?.saturating_add(ending.involuntary?))
}

#[cfg(test)]
mod tests {
    use holdup_trace::Ending;

    use super::*;
    use crate::facts::OffTime;

    fn after(seen_ns: u64, counted_ns: u64, switches: (u64, u64)) -> Vec<Doubt> {
        let mut facts = Facts { end_ns: 10 * SHORTEST_SPAN_NS, ..Facts::default() };
        facts.totals.on_cpu_ns = seen_ns;
        facts.totals.switches = switches.0;
        facts.ending = Some(Ending {
            user_ns: Some(counted_ns),
            kernel_ns: Some(0),
            voluntary: Some(switches.1),
            involuntary: Some(0),
            ..Ending::default()
        });
        all(&facts)
    }

    #[test]
    fn what_other_programs_took_hides_the_rest() {
        let facts = |displaced_ms: u64, span_ms: u64| {
            let ms = 1_000_000;
            let mut facts = Facts { end_ns: span_ms * ms, ..Facts::default() };
            let mut thread = ThreadFacts { on_cpu_ns: 200 * ms, ..ThreadFacts::default() };
            thread.off.insert(Reason::Displaced, OffTime { count: 1, ns: displaced_ms * ms });
            facts.totals.on_cpu_ns = thread.on_cpu_ns;
            facts.threads.push(thread);
            facts
        };
        assert_eq!(all(&facts(200, 1_000)), [Doubt::Displaced { share: 0.5 }]);
        assert_eq!(all(&facts(199, 900)), [], "it got most of what it wanted");
        assert_eq!(all(&facts(200, 1_001)), [], "it mostly has nothing to do");
    }

    #[test]
    fn the_kernels_account_is_believed() {
        let (ms, switches) = (1_000_000, (100, 100));
        assert_eq!(after(100 * ms, 100 * ms, switches), []);
        assert_eq!(after(100 * ms, 121 * ms, switches), [], "a fifth of what was counted");
        assert_eq!(after(20 * ms, 2 * ms, switches), [], "a start of some ms");
        let (seen_ns, counted_ns) = (100 * ms, 3 * ms);
        assert_eq!(after(seen_ns, counted_ns, switches), [Doubt::CpuTime { seen_ns, counted_ns }]);
        let (seen_ns, counted_ns) = (49 * ms, 100 * ms);
        assert_eq!(after(seen_ns, counted_ns, switches), [Doubt::CpuTime { seen_ns, counted_ns }]);
        let often = (9_000, 9_000);
        assert_eq!(after(90 * ms, 190 * ms, often), [], "11 us for each switch, which recording costs");
        assert_eq!(after(90 * ms, 250 * ms, often).len(), 1);
        assert_eq!(after(100 * ms, 100 * ms, (100, 150)), []);
        let (recorded, counted) = (400, 451);
        assert_eq!(after(100 * ms, 100 * ms, (400, 451)), [Doubt::Switches { recorded, counted }]);
        let mut facts = Facts { end_ns: 10 * SHORTEST_SPAN_NS, ..Facts::default() };
        (facts.totals.on_cpu_ns, facts.totals.switches) = (300 * ms, 900);
        facts.ending = Some(Ending {
            user_ns: Some(100 * ms),
            kernel_ns: Some(0),
            voluntary: Some(300),
            involuntary: Some(0),
            ..Ending::default()
        });
        assert_eq!(all(&facts).len(), 2);
        facts.processes = vec![crate::facts::ProcessFacts::default(); 2];
        assert_eq!(all(&facts), [], "a process that nobody waited for");
    }

    /// 5,000 programs that a shell runs one after the other, each of which ends without having waited.
    #[test]
    fn the_last_switch_of_each_process_is_no_missing_one() {
        let mut facts = Facts { end_ns: 10 * SHORTEST_SPAN_NS, ..Facts::default() };
        (facts.totals.on_cpu_ns, facts.totals.switches) = (100_000_000, 5_468);
        facts.ending = Some(Ending { voluntary: Some(9_996), involuntary: Some(501), ..Ending::default() });
        let ended = |pid, tid, exited| crate::ThreadFacts {
            tid: holdup_trace::Tid(tid),
            pid: holdup_trace::Pid(pid),
            exited,
            ..crate::ThreadFacts::default()
        };
        assert_eq!(all(&facts), [Doubt::Switches { recorded: 5_468, counted: 10_497 }]);
        facts.threads = (1..=5_001).map(|pid| ended(pid, pid, pid <= 5_000)).collect();
        assert_eq!((all(&facts), facts.recorded_of(10_497)), (vec![], 10_468));
        assert_eq!(facts.recorded_of(5_000), 5_468, "what was recorded is not made less");
        facts.threads = (1..=5_000).map(|tid| ended(9_999, tid, true)).collect();
        assert_eq!(facts.recorded_of(10_497), 5_468, "of threads that others do not wait for, none is counted");
    }

    /// A damaged file may say anything.
    #[test]
    fn counts_that_overflow_are_the_most_there_is() {
        let mut facts = Facts::default();
        let most = Some(u64::MAX);
        facts.ending =
            Some(Ending { voluntary: most, involuntary: most, user_ns: most, kernel_ns: most, ..Ending::default() });
        assert_eq!((counted_switches(&facts), counted_cpu_ns(&facts)), (most, most));
    }

    #[test]
    fn what_tasks_wait_for_is_not_known() {
        let frame = |name| crate::Frame::named(name, crate::Role::Program);
        let mut facts = Facts { end_ns: 10 * SHORTEST_SPAN_NS, ..Facts::default() };
        facts.header.machine.cpus = 2;
        (facts.totals.on_cpu_ns, facts.totals.thread_ns) = (10 * SHORTEST_SPAN_NS, 40 * SHORTEST_SPAN_NS);
        let mut thread = ThreadFacts { tid: Tid(1), ended_ns: 40 * SHORTEST_SPAN_NS, ..ThreadFacts::default() };
        thread.account.ns[AccountState::Work as usize] = 20 * SHORTEST_SPAN_NS;
        facts.threads = vec![thread];
        let mut lock = LockFacts { waiters: vec![(Tid(1), OffTime::default())], ..LockFacts::default() };
        lock.wait_sites =
            vec![crate::Site { call_path: vec![frame("runtime.futex"), frame("runtime.schedule")], count: 1, ns: 1 }];
        facts.locks = vec![lock];
        assert!(
            matches!(all(&facts)[..], [Doubt::Tasks { scheduler: "Go", looked: false, share: 0.5.. }]),
            "{:?}",
            all(&facts)
        );
        facts.totals.on_cpu_ns += 1;
        assert_eq!(all(&facts), [], "the CPUs are busy");
        facts.totals.on_cpu_ns -= 1;
        facts.threads[0].ended_ns += 1;
        assert_eq!(all(&facts), [], "they wait for other things as well");
    }

    #[test]
    fn what_runs_is_not_known_by_looks() {
        let mut facts = Facts { end_ns: 10 * SHORTEST_SPAN_NS, ..Facts::default() };
        facts.totals.on_cpu_ns = 5 * SHORTEST_SPAN_NS;
        assert_eq!(all(&facts), []);
        facts.header.look_period_ns = 1_000_000;
        assert_eq!(all(&facts), [Doubt::Unsampled { cpus: 0.5 }]);
        facts.totals.on_cpu_ns -= 1;
        assert_eq!(all(&facts), [], "it mostly waits");
    }

    #[test]
    fn processes_of_erlang_are_not_seen() {
        let mut facts = Facts { end_ns: 10 * SHORTEST_SPAN_NS, ..Facts::default() };
        facts.header.machine.cpus = 2;
        (facts.totals.on_cpu_ns, facts.totals.thread_ns) = (10 * SHORTEST_SPAN_NS, 100 * SHORTEST_SPAN_NS);
        let thread = |tid, name: &str, work_ns| {
            let mut thread = ThreadFacts {
                tid: Tid(tid),
                name: name.to_owned(),
                ended_ns: 10 * SHORTEST_SPAN_NS,
                ..ThreadFacts::default()
            };
            thread.account.ns[AccountState::Work as usize] = work_ns;
            thread
        };
        let (waits, runs) = (9 * SHORTEST_SPAN_NS, SHORTEST_SPAN_NS);
        facts.threads =
            vec![thread(1, "1_scheduler", waits), thread(2, "2_scheduler", runs), thread(3, "1_dirty_io_sched", waits)];
        assert_eq!(all(&facts), [Doubt::Tasks { scheduler: "BEAM", looked: false, share: 0.5 }]);
        facts.threads[0].name = "my_scheduler".to_owned();
        assert_eq!(all(&facts), [], "no number");
    }

    #[test]
    fn waits_in_code_without_names_are_told_apart_by_nothing() {
        let life = 10 * SHORTEST_SPAN_NS;
        let mut facts = Facts { end_ns: life, ..Facts::default() };
        facts.header.machine.cpus = 2;
        (facts.totals.on_cpu_ns, facts.totals.thread_ns) = (life, 4 * life);
        facts.threads = vec![ThreadFacts { tid: Tid(1), ended_ns: life, ..ThreadFacts::default() }];
        let mut nameless = Frame::named("", crate::Role::Program);
        (nameless.function, nameless.module) = (None, crate::names::GENERATED.into());
        let site = |frame: &Frame| Site { call_path: vec![frame.clone()], count: 1, ns: life / 4 };
        facts.locks = vec![LockFacts {
            waiters: vec![(Tid(1), OffTime::default())],
            wait_sites: vec![site(&nameless)],
            ..LockFacts::default()
        }];
        assert_eq!(all(&facts), [Doubt::Nameless { share: 0.25 }]);
        facts.locks[0].wait_sites[0].ns -= 1;
        assert_eq!(all(&facts), [], "hardly");
        facts.locks[0].wait_sites = vec![site(&Frame::named("take", crate::Role::Program))];
        assert_eq!(all(&facts), [], "it has a name");
    }

    #[test]
    fn threads_of_asio_that_are_many_wait_for_what_no_thread_shows() {
        let life = 10 * SHORTEST_SPAN_NS;
        let mut facts = Facts { end_ns: life, ..Facts::default() };
        facts.header.machine.cpus = 2;
        (facts.totals.on_cpu_ns, facts.totals.thread_ns) = (life, 4 * life);
        let mut thread = ThreadFacts { tid: Tid(1), ended_ns: life, ..ThreadFacts::default() };
        thread.account.ns[AccountState::Work as usize] = life;
        facts.threads = vec![thread];
        let call_path = vec![crate::Frame::named("boost::asio::detail::scheduler::run", crate::Role::Program)];
        facts.locks = vec![LockFacts {
            waiters: vec![(Tid(1), OffTime::default())],
            wait_sites: vec![crate::Site { call_path, count: 1, ns: 1 }],
            ..LockFacts::default()
        }];
        assert_eq!(all(&facts), [Doubt::Tasks { scheduler: "asio", looked: false, share: 1.0 }]);
        facts.totals.thread_ns += 1;
        assert_eq!(all(&facts), [], "they are a few of the threads");
    }

    #[test]
    fn who_ends_a_wait_in_a_call_is_not_known_without_wakers() {
        let mut facts = Facts { end_ns: 10 * SHORTEST_SPAN_NS, ..Facts::default() };
        facts.header.capabilities.switches = true;
        (facts.totals.on_cpu_ns, facts.totals.thread_ns) = (SHORTEST_SPAN_NS, 40);
        let waits = |reason| ThreadFacts {
            ended_ns: 20,
            off: [(reason, OffTime { count: 1, ns: 5 })].into(),
            ..ThreadFacts::default()
        };
        facts.threads = vec![waits(Reason::Peer), waits(Reason::Futex(Primitive::FileLock))];
        assert_eq!(all(&facts), [Doubt::Wakers { share: 0.25 }]);
        (facts.totals.thread_ns, facts.account.ns[AccountState::Barrier as usize]) = (80, 40);
        assert_eq!(all(&facts), [Doubt::Wakers { share: 0.25 }], "those who wait for threads to end do not count");
        facts.header.capabilities.wakings = true;
        assert_eq!(all(&facts), [], "it is known");
        facts.header.capabilities.wakings = false;
        facts.threads[1] = waits(Reason::Poll);
        assert_eq!(all(&facts), [], "one alone waits so");
    }
}
