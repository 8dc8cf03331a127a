//! The behaviours of locks, tried natively and with a library under them: which tries there are, and what came of them.

use std::collections::{HashSet, VecDeque};
use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError, mpsc};
use std::time::{Duration, Instant};

use holdup_control::{self as control, Policy, Profile, RwPolicy};
use holdup_run::Conditions;
use holdup_run::Finished;
use holdup_run::OwnProgram;
use holdup_run::behaviour::{self, Behaviour, Outcome};
use object::{Object as _, ObjectSymbol as _};

use crate::interposer::{Control, Process, Settings};

/// Under what the behaviours are tried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Configuration {
    /// Nothing.
    Native,
    /// Holdup's interposer with this policy.
    Policy(Policy),
    /// Holdup's interposer while the policy changes to the next of these, so often.
    Flip(Vec<Policy>, Duration),
    /// Any library.
    Library(PathBuf),
}

/// What is to be tried.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The behaviours.
    pub behaviours: Vec<&'static Behaviour>,
    /// The configurations; native comes first.
    pub configurations: Vec<Configuration>,
    /// How often each behaviour is tried in each configuration.
    pub repeat: u32,
    /// Of the first try; the next has the next number.
    pub seed: u64,
    /// How long one try may take.
    pub limit: Duration,
}

/// One behaviour in one configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cell {
    /// Tries.
    pub tries: u32,
    /// Tries in which the behaviour held.
    pub held: u32,
    /// Seed and outcome of the first try in which it did not.
    pub failure: Option<(u64, Failure)>,
    /// All tries together.
    pub elapsed: Duration,
    /// Acquisitions that holdup's interposer served meanwhile.
    pub served: u64,
}

/// How a behaviour did not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// For this reason.
    Fails(String),
    /// It did not end.
    Hangs,
}

/// What came of it.
#[derive(Clone, Debug)]
pub struct Results {
    /// What was tried.
    pub plan: Plan,
    /// One row for each behaviour, one cell for each configuration. A behaviour that does not hold natively is not
    /// tried further.
    pub cells: Vec<Vec<Cell>>,
    /// How long it took.
    pub elapsed: Duration,
}

/// Why nothing can be said.
#[derive(Debug)]
pub enum SelftestError {
    /// A process, or the interposer's folder, cannot be made.
    System(io::Error),
    /// The library does not come into the process, or does not serve it.
    NotLoaded(String),
}

impl From<io::Error> for SelftestError {
    fn from(why: io::Error) -> SelftestError {
        SelftestError::System(why)
    }
}

impl Cell {
    /// Whether the behaviour held in every try, of which there was one.
    pub fn holds(&self) -> bool {
        self.tries > 0 && self.held == self.tries
    }
}

impl Results {
    /// Whether every behaviour held in every configuration.
    pub fn all_hold(&self) -> bool {
        self.cells.iter().flatten().all(Cell::holds)
    }
}

impl Configuration {
    /// As in a sentence: `natively`, `under throttle:1`.
    pub fn phrase(&self) -> String {
        match self {
            Configuration::Native => "natively".to_owned(),
            Configuration::Policy(policy) => format!("under {policy}"),
            Configuration::Flip(_, every) => format!("while the policy flips every {}", self::span(*every)),
            Configuration::Library(path) => {
                format!("under {}", path.file_name().unwrap_or(path.as_os_str()).display())
            }
        }
    }
}

/// What programs lock with, and what they call around it.
pub const FUNCTIONS: &[&str] = &[
    "pthread_mutex_init",
    "pthread_mutex_destroy",
    "pthread_mutex_lock",
    "pthread_mutex_trylock",
    "pthread_mutex_timedlock",
    "pthread_mutex_clocklock",
    "pthread_mutex_unlock",
    "pthread_mutex_consistent",
    "pthread_cond_init",
    "pthread_cond_destroy",
    "pthread_cond_wait",
    "pthread_cond_timedwait",
    "pthread_cond_clockwait",
    "pthread_cond_signal",
    "pthread_cond_broadcast",
    "pthread_rwlock_init",
    "pthread_rwlock_destroy",
    "pthread_rwlock_rdlock",
    "pthread_rwlock_tryrdlock",
    "pthread_rwlock_timedrdlock",
    "pthread_rwlock_clockrdlock",
    "pthread_rwlock_wrlock",
    "pthread_rwlock_trywrlock",
    "pthread_rwlock_timedwrlock",
    "pthread_rwlock_clockwrlock",
    "pthread_rwlock_unlock",
    "pthread_spin_init",
    "pthread_spin_destroy",
    "pthread_spin_lock",
    "pthread_spin_trylock",
    "pthread_spin_unlock",
    "sem_init",
    "sem_destroy",
    "sem_wait",
    "sem_trywait",
    "sem_timedwait",
    "sem_clockwait",
    "sem_post",
    "mtx_init",
    "mtx_destroy",
    "mtx_lock",
    "mtx_trylock",
    "mtx_timedlock",
    "mtx_unlock",
    "cnd_init",
    "cnd_destroy",
    "cnd_wait",
    "cnd_timedwait",
    "cnd_signal",
    "cnd_broadcast",
    "GOMP_critical_start",
    "GOMP_critical_end",
    "GOMP_critical_name_start",
    "GOMP_critical_name_end",
    "omp_set_lock",
    "omp_test_lock",
    "omp_unset_lock",
    "omp_set_nest_lock",
    "omp_test_nest_lock",
    "omp_unset_nest_lock",
];

/// Which of [`FUNCTIONS`] a library replaces.
///
/// # Errors
/// It is no library, says the text.
pub fn replaces(library: &[u8]) -> Result<Vec<&'static str>, String> {
    let file = object::File::parse(library).map_err(|why| format!("it is no library: {why}"))?;
    let defined = file.dynamic_symbols().filter(|symbol| symbol.is_definition());
    let names: HashSet<&str> = defined.filter_map(|symbol| symbol.name().ok()).collect();
    Ok(FUNCTIONS.iter().copied().filter(|name| names.contains(name)).collect())
}

/// A time as a flag takes it.
pub fn span(time: Duration) -> String {
    holdup_bench::work::format_ns(time.as_nanos() as f64)
}

/// One try.
#[derive(Clone, Copy, Debug)]
struct Try {
    row: usize,
    column: usize,
    seed: u64,
}

/// Tries everything; `watch` is told before each try how many are done and of how many.
///
/// # Errors
/// A process cannot be started, or the library cannot be put under it.
pub fn run(
    plan: &Plan,
    program: &OwnProgram,
    watch: &(dyn Fn(usize, usize, &str) + Sync),
) -> Result<Results, SelftestError> {
    let began = Instant::now();
    let mut cells = vec![vec![Cell::default(); plan.configurations.len()]; plan.behaviours.len()];
    let all = plan.behaviours.len() * plan.configurations.len() * plan.repeat as usize;
    let native = |one: &Try| plan.configurations[one.column] == Configuration::Native;
    let (first, then): (Vec<Try>, Vec<Try>) = tries(plan).into_iter().partition(native);
    let batch = Batch { plan, program, watch, all };
    batch.run(first, 0, &mut cells)?;
    let holds_natively: Vec<bool> = cells.iter().map(|row| row.iter().all(|cell| cell.failure.is_none())).collect();
    let then: Vec<Try> = then.into_iter().filter(|one| holds_natively[one.row]).collect();
    batch.run(then, plan.behaviours.len() * plan.repeat as usize, &mut cells)?;
    Ok(Results { plan: plan.clone(), cells, elapsed: began.elapsed() })
}

/// Configuration by configuration.
fn tries(plan: &Plan) -> Vec<Try> {
    let mut tries = Vec::new();
    for column in 0..plan.configurations.len() {
        for row in 0..plan.behaviours.len() {
            tries.extend((0..u64::from(plan.repeat)).map(|n| Try { row, column, seed: plan.seed.wrapping_add(n) }));
        }
    }
    tries
}

/// Tries that may run at the same time.
struct Batch<'a> {
    plan: &'a Plan,
    program: &'a OwnProgram,
    watch: &'a (dyn Fn(usize, usize, &str) + Sync),
    all: usize,
}

impl Batch<'_> {
    /// Two at a time where there are two CPUs: much of a behaviour's time is waiting. The first that cannot be tried
    /// ends it.
    fn run(&self, tries: Vec<Try>, done: usize, cells: &mut [Vec<Cell>]) -> Result<(), SelftestError> {
        let jobs = std::thread::available_parallelism().map_or(1, |cpus| cpus.get().min(4));
        let queue = Mutex::new((VecDeque::from(tries), done));
        let (sender, results) = mpsc::channel();
        std::thread::scope(|scope| {
            for _ in 0..jobs {
                let (sender, queue) = (sender.clone(), &queue);
                scope.spawn(move || self.work(queue, &sender));
            }
            drop(sender);
            for (one, result) in results {
                let (outcome, elapsed, served) = result.inspect_err(|_| {
                    queue.lock().unwrap_or_else(PoisonError::into_inner).0.clear();
                })?;
                enter(&mut cells[one.row][one.column], one.seed, outcome, elapsed, served);
            }
            Ok::<(), SelftestError>(())
        })
    }

    fn work(&self, queue: &Mutex<(VecDeque<Try>, usize)>, sender: &mpsc::Sender<(Try, Tried)>) {
        loop {
            let (next, done) = {
                let mut queue = queue.lock().unwrap_or_else(PoisonError::into_inner);
                queue.1 += 1;
                (queue.0.pop_front(), queue.1 - 1)
            };
            let Some(next) = next else { return };
            let (behaviour, configuration) = (self.plan.behaviours[next.row], &self.plan.configurations[next.column]);
            (self.watch)(done, self.all, &format!("{} {}", behaviour.name, configuration.phrase()));
            // The receiver has gone when another try ended everything.
            if sender.send((next, self.attempt(behaviour, configuration, next.seed))).is_err() {
                return;
            }
        }
    }

    fn attempt(&self, behaviour: &Behaviour, configuration: &Configuration, seed: u64) -> Tried {
        let (policies, every) = match configuration {
            Configuration::Native => return self.plainly(behaviour, seed, &[]),
            Configuration::Library(path) => return self.plainly(behaviour, seed, &preloaded(path)),
            Configuration::Policy(policy) => (vec![*policy], None),
            Configuration::Flip(policies, every) => (policies.clone(), Some(*every)),
        };
        let control = Control::create(&settings(seed, policies[0]))?;
        let tried = match every {
            None => self.plainly(behaviour, seed, &with_library(control.environment())),
            Some(every) => {
                flipping(&control, &policies, every, || {
                    self.plainly(behaviour, seed, &with_library(control.environment()))
                })?
                .0
            }
        };
        let (outcome, elapsed, _) = tried?;
        Ok(match (outcome, served(&control.processes()?)) {
            // A behaviour that holds shows nothing where nothing was served.
            (Outcome::Holds, Err(why)) => (Outcome::Fails(why), elapsed, 0),
            (outcome, served) => (outcome, elapsed, served.unwrap_or(0)),
        })
    }

    fn plainly(&self, behaviour: &Behaviour, seed: u64, environment: &[(OsString, OsString)]) -> Tried {
        let run = behaviour::run(self.program, behaviour, seed, environment, self.plan.limit)?;
        match run.outcome {
            Outcome::NotLoaded(why) => Err(SelftestError::NotLoaded(why)),
            outcome => Ok((outcome, run.elapsed, 0)),
        }
    }
}

/// How it ended, how long it took, and how many acquisitions holdup's interposer served.
type Tried = Result<(Outcome, Duration, u64), SelftestError>;

fn enter(cell: &mut Cell, seed: u64, outcome: Outcome, elapsed: Duration, served: u64) {
    cell.tries += 1;
    cell.elapsed += elapsed;
    cell.served += served;
    let failure = match outcome {
        Outcome::Holds => {
            cell.held += 1;
            return;
        }
        Outcome::Hangs => Failure::Hangs,
        Outcome::Fails(why) | Outcome::NotLoaded(why) => Failure::Fails(why),
    };
    // Tries end in any order; the first is that with the smallest seed.
    if cell.failure.as_ref().is_none_or(|(first, _)| seed < *first) {
        cell.failure = Some((seed, failure));
    }
}

/// The policy changes as long as the act lasts; gives what that gave, and how often the policy was set.
fn flipping<R>(
    control: &Control,
    policies: &[Policy],
    every: Duration,
    act: impl FnOnce() -> R,
) -> io::Result<(R, u64)> {
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let flipper = scope.spawn(|| {
            let mut flips = 0;
            for policy in policies.iter().cycle() {
                if over.load(Ordering::Relaxed) {
                    break;
                }
                control.set_policy(*policy)?;
                flips += 1;
                std::thread::sleep(every);
            }
            Ok::<u64, io::Error>(flips)
        });
        let result = act();
        over.store(true, Ordering::Relaxed);
        let ended =
            flipper.join().unwrap_or_else(|_| Err(io::Error::other("the thread that changes the policy ended")));
        Ok((result, ended?))
    })
}

fn settings(seed: u64, policy: Policy) -> Settings {
    Settings { policy, rw: rw(seed, policy), profile: profile(seed, policy), ..Settings::default() }
}

/// Reader-writer locks have a policy of their own, which holds for a whole process: it takes turns likewise.
fn rw(seed: u64, policy: Policy) -> RwPolicy {
    let policies = [RwPolicy::PreferWriter, RwPolicy::Glibc, RwPolicy::SpinPark(100)];
    policies[(seed.wrapping_add(u64::from(policy.pack())) % 3) as usize]
}

/// What is measured is another way through the interposer's code: each seed and policy takes one, the next seed the
/// next.
fn profile(seed: u64, policy: Policy) -> Profile {
    let profiles = [Profile::Off, Profile::Count, Profile::Sampled, Profile::Full];
    profiles[(seed.wrapping_add(u64::from(policy.pack())) % 4) as usize]
}

/// Acquisitions that were seen in all processes of a try; or why the interposer was of no use there.
fn served(processes: &[Process]) -> Result<u64, String> {
    let idle = processes.iter().find(|process| process.state != control::STATE_SERVES);
    if let Some(process) = idle {
        let why = match process.state {
            control::STATE_LAYOUT => "the C library's mutexes are not laid out as it knows them",
            control::STATE_OTHER => "it was told to serve another program",
            control::STATE_RIVAL => "another library that replaces the same functions was there before",
            _ => "it has not come to serve",
        };
        return Err(format!("the interposer does not serve the process: {why}"));
    }
    let seen = |process: &Process| process.acquisitions + process.fallbacks.iter().sum::<u64>();
    match processes.iter().map(seen).sum() {
        0 => Err("the interposer was in the process, but saw none of its locks".to_owned()),
        seen => Ok(seen),
    }
}

/// A program that ran while the policy changed.
#[derive(Debug)]
pub struct Flipped {
    /// What `act` gave.
    pub ended: io::Result<Finished>,
    /// How often the policy was set.
    pub flips: u64,
    /// What each of its processes did.
    pub processes: Vec<Process>,
}

/// Runs any program while the policy changes.
///
/// # Errors
/// The interposer cannot be put under it.
pub fn flip(command: &mut Command, policies: &[Policy], every: Duration, seed: u64) -> io::Result<Flipped> {
    let control = Control::create(&settings(seed, policies[0]))?;
    command.envs(control.environment());
    let (ended, flips) = flipping(&control, policies, every, || holdup_run::forward(command, &Conditions::default()))?;
    Ok(Flipped { ended, flips, processes: control.processes()? })
}

/// The environment for any library, which comes before what is preloaded already.
fn preloaded(path: &std::path::Path) -> Vec<(OsString, OsString)> {
    let mut list = path.as_os_str().to_owned();
    if let Some(before) = std::env::var_os("LD_PRELOAD").filter(|before| !before.is_empty()) {
        list.push(":");
        list.push(before);
    }
    with_library(vec![("LD_PRELOAD".into(), list)])
}

/// The process is to make sure that the first library of the list is there.
fn with_library(mut environment: Vec<(OsString, OsString)>) -> Vec<(OsString, OsString)> {
    let list = environment.iter().find(|(name, _)| name == "LD_PRELOAD").map(|(_, list)| list.to_string_lossy());
    let first = list.and_then(|list| list.split([':', ' ']).next().map(OsString::from));
    environment.extend(first.map(|first| (behaviour::LIBRARY.into(), first)));
    environment
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_keeps_its_first_failure() {
        let mut cell = Cell::default();
        enter(&mut cell, 9, Outcome::Hangs, Duration::from_secs(2), 5);
        enter(&mut cell, 7, Outcome::Fails("why".to_owned()), Duration::from_secs(1), 5);
        enter(&mut cell, 8, Outcome::Holds, Duration::from_secs(1), 5);
        assert_eq!((cell.tries, cell.held, cell.served), (3, 1, 15));
        assert_eq!(cell.failure, Some((7, Failure::Fails("why".to_owned()))));
        assert!(!cell.holds());
        assert!(!Cell::default().holds(), "what was not tried does not hold");
    }

    #[test]
    fn four_tries_take_every_way_of_measuring() {
        let seen: std::collections::HashSet<u32> =
            (40..44).map(|seed| profile(seed, Policy::Throttle(2)) as u32).collect();
        assert_eq!(seen.len(), 4);
    }

    #[test]
    fn one_run_has_every_policy_of_reader_writer_locks() {
        let policies = [Policy::Glibc, Policy::SpinLearn, Policy::Capped(1), Policy::Throttle(1), Policy::Throttle(2)];
        let seen: HashSet<RwPolicy> = policies.iter().map(|policy| rw(1, *policy)).collect();
        assert_eq!(seen.len(), 3);
    }

    #[test]
    fn an_interposer_that_does_not_serve_proves_nothing() {
        let process = |state, acquisitions| Process { state, acquisitions, ..Process::default() };
        assert!(matches!(served(&[process(control::STATE_SERVES, 3)]), Ok(3)));
        assert!(served(&[process(control::STATE_SERVES, 3), process(control::STATE_LAYOUT, 0)]).is_err());
        assert!(served(&[process(control::STATE_SERVES, 0)]).is_err());
        assert!(served(&[]).is_err());
    }
}
