//! How much of a program's locking holdup served: no figure of a run under other locks means anything without.

use holdup_control::{
    Fallback, RwPolicy, STATE_LAYOUT, STATE_MEMORY, STATE_OTHER, STATE_RIVAL, STATE_SERVES, STATE_UNCOUNTED,
};
use holdup_run::Finished;

use super::super::document::{Document, Ink, ink};
use super::super::number;
use super::Run;
use crate::interposer::Process;
use crate::interposer::figures::OwnPolicy;
use crate::text;

/// Why locks are left to glibc, in the order of [`Fallback`].
const FALLBACKS: [(Fallback, &str); 8] = [
    (Fallback::Shared, "process-shared"),
    (Fallback::Robust, "robust"),
    (Fallback::Inherit, "priority-inheriting"),
    (Fallback::Protect, "priority-ceiling"),
    (Fallback::Elided, "elided"),
    (Fallback::Unknown, "of unknown kind"),
    (Fallback::ReadWrite, "read-write locks"),
    (Fallback::Spin, "spin locks"),
];

/// Fewer sleeps than these have no share.
const FEW: u64 = 20;

/// What was served, of all processes together.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Coverage {
    /// Processes that were served.
    pub served: usize,
    /// Of these, processes that took a mutex.
    pub users: usize,
    /// Processes in which the C library's mutexes did not look as expected.
    pub layout: usize,
    /// Processes that had another interposer.
    pub rival: usize,
    /// Processes of other programs than the one asked for.
    pub other: usize,
    /// Processes that were served, and whose figures had no file to lie in.
    pub uncounted: usize,
    /// Processes that had no memory for figures.
    pub memory: usize,
    /// Processes that had others run in another root.
    pub rooted: usize,
    /// Acquisitions of locks that are served.
    pub acquisitions: u64,
    /// Those that did not succeed at the first try.
    pub contended: u64,
    /// Those that slept.
    pub slept: u64,
    /// Acquisitions of locks that were left to glibc, by [`Fallback`].
    pub fallbacks: [u64; 8],
    /// Sleeps in futex calls of the interposer.
    pub futex_waits: u64,
    /// Times that any thread gave up the CPU to wait, for whatever; `None` where the system does not say.
    pub sleeps: Option<u64>,
    /// Locks that the watchdog set back.
    pub watchdog_trips: u64,
    /// Reader-writer locks that prefer writers because of the policy.
    pub rw_preferring: u64,
    /// Processes in which the watchdog let readers in before writers again.
    pub rw_watchdog_trips: u64,
}

impl Coverage {
    /// Of processes, and of the kernel's account of them.
    pub fn of<'a>(processes: impl IntoIterator<Item = &'a Process>, finished: Option<&Finished>) -> Coverage {
        let mut sum =
            Coverage { sleeps: finished.and_then(|ended| ended.process.voluntary_switches), ..Coverage::default() };
        for process in processes {
            match process.state {
                STATE_SERVES => sum.served += 1,
                STATE_LAYOUT => sum.layout += 1,
                STATE_RIVAL => sum.rival += 1,
                STATE_OTHER => sum.other += 1,
                STATE_UNCOUNTED => sum.uncounted += 1,
                STATE_MEMORY => sum.memory += 1,
                _ => {}
            }
            sum.users += usize::from(process.acquisitions > 0);
            sum.rooted += usize::from(process.leaves_root());
            sum.acquisitions += process.acquisitions;
            sum.contended += process.contended;
            sum.slept += process.slept;
            sum.futex_waits += process.futex_waits;
            sum.watchdog_trips += process.watchdog_trips;
            sum.rw_preferring += process.rw_preferring;
            sum.rw_watchdog_trips += process.rw_watchdog_trips;
            sum.fallbacks.iter_mut().zip(process.fallbacks).for_each(|(sum, count)| *sum += count);
        }
        sum
    }

    /// Acquisitions of mutexes that were served, as a share of all that were seen; `None` if none was seen.
    pub fn share(&self) -> Option<f64> {
        let left: u64 =
            FALLBACKS.iter().zip(self.fallbacks).filter(|((kind, _), _)| is_mutex(*kind)).map(|(_, n)| n).sum();
        let all = self.acquisitions + left;
        (all > 0).then(|| self.acquisitions as f64 / all as f64)
    }

    /// Sleeps in waits for locks that are served, as a share of all sleeps.
    pub fn sleep_share(&self) -> Option<f64> {
        let sleeps = self.sleeps.filter(|sleeps| *sleeps > 0)?;
        Some((self.futex_waits as f64 / sleeps as f64).min(1.0))
    }

    /// The line that stands in every report:
    /// `served 100% of 12.3M mutex acquisitions; 85% of its 3.40k sleeps were waits for them`.
    pub fn sentence(&self) -> String {
        let mut parts = Vec::new();
        if let Some(share) = self.share() {
            let all = number::count(self.acquisitions as f64 / share.max(f64::MIN_POSITIVE));
            parts.push(match self.acquisitions {
                0 => {
                    format!("served none of {} mutex acquisitions", number::count(self.left_mutexes() as f64))
                }
                _ => format!("served {} of {all} mutex acquisitions", number::percent(share)),
            });
        }
        // A share of a handful says nothing.
        if let (Some(share), Some(sleeps @ FEW..)) = (self.sleep_share(), self.sleeps) {
            parts.push(format!(
                "{} of its {} sleeps were waits for them",
                number::percent(share),
                number::count(sleeps as f64)
            ));
        }
        let left: Vec<String> = FALLBACKS
            .iter()
            .zip(self.fallbacks)
            .filter(|(_, count)| *count > 0)
            .map(|((_, name), count)| format!("{} {name}", number::count(count as f64)))
            .collect();
        if !left.is_empty() {
            parts.push(format!("left to glibc: {}", text::list(&left)));
        }
        parts.join("; ")
    }

    /// What a user must know before any figure: nothing was served, or not everywhere.
    pub fn warnings(&self) -> Vec<String> {
        let processes = |count: usize| number::counted(count, "process");
        let mut warnings = Vec::new();
        if self.layout > 0 {
            warnings.push(format!(
                "{} left as it is: its C library lays out mutexes in a way that holdup does not know",
                processes(self.layout)
            ));
        }
        if self.rival > 0 {
            warnings.push(format!(
                "{} left as it is: another tool (a sanitizer, say) has taken the mutex functions",
                processes(self.rival)
            ));
        }
        if self.uncounted > 0 {
            warnings.push(format!(
                "{} served but not counted: the size of its files is limited to less than its figures need (ulimit -f)",
                processes(self.uncounted)
            ));
        }
        if self.memory > 0 {
            warnings.push(format!(
                "{} left as it is: its memory is limited to less than its figures need (ulimit -v)",
                processes(self.memory)
            ));
        }
        if self.served + self.layout + self.rival + self.uncounted + self.memory == 0 {
            warnings.push(match self.other {
                0 => "no process loaded the library: what ran is static, removes LD_PRELOAD from the environment, or \
                      cannot read the library where it runs (another root, another mount of /dev/shm)"
                    .to_owned(),
                _ => format!("no process was served: {} ran another program than --only names", processes(self.other)),
            });
        }
        if self.rooted > 0 && self.rooted == self.served {
            let elsewhere = "what ran in another root, or with other mounts, did not load the library: it cannot be read \
                             there, or what ran is static";
            warnings.push(elsewhere.to_owned());
        }
        if self.watchdog_trips > 0 {
            let locks = number::counted_roughly(self.watchdog_trips, "lock");
            let had = if self.watchdog_trips == 1 { "it had" } else { "they had" };
            warnings.push(format!(
                "the watchdog gave {locks} back to glibc: {had} waiters but no acquisition for longer than --watchdog; 'holdup with \
                 --profile' names them, and '--lock-for NAME=glibc' leaves one alone from the start"
            ));
        }
        if self.rw_watchdog_trips > 0 {
            let processes = processes(self.rw_watchdog_trips as usize);
            warnings.push(format!(
                "the watchdog let readers in before waiting writers again ({processes}): a writer waited for readers, and a reader \
                 for that writer, for longer than --watchdog. Where threads that read wait for others that have yet to read the \
                 same lock, prefer-writer is no cure; where they only read for so long, give a longer --watchdog"
            ));
        }
        warnings
    }

    fn left_mutexes(&self) -> u64 {
        FALLBACKS.iter().zip(self.fallbacks).filter(|((kind, _), _)| is_mutex(*kind)).map(|(_, n)| n).sum()
    }
}

fn is_mutex(kind: Fallback) -> bool {
    !matches!(kind, Fallback::ReadWrite | Fallback::Spin)
}

/// What the run did, in a few lines.
pub fn coverage(run: &Run<'_>) -> Document {
    let coverage = Coverage::of(run.figures.iter().map(|figures| &figures.process), Some(run.finished));
    let mut said = Document::default();
    for warning in coverage.warnings() {
        said.hanging(8, ink(Ink::Bad, format!("holdup: {warning}")));
    }
    if run.uncounted > 0 {
        let counted = holdup_control::PROCESSES;
        let more = number::count(f64::from(run.uncounted));
        said.hanging(8, format!("holdup: {more} more processes took part; the first {counted} are counted"));
    }
    let read_write = readers_and_writers(&ReadWrite::of(run), &coverage);
    let says_nothing_of_them = read_write.is_none();
    if let Some(text) = read_write {
        said.hanging(8, format!("holdup: {text}"));
    }
    if coverage.acquisitions == 0 {
        let is_elsewhere = coverage.rooted == coverage.served && coverage.rooted > 0;
        let is_left = coverage.served == 0 && coverage.layout + coverage.rival > 0;
        if is_left {
            said.hanging(8, "holdup: its locks were not exchanged; 'holdup record' shows what its threads wait for");
        }
        if is_left || is_elsewhere || coverage.uncounted + coverage.memory > 0 {
            return said;
        }
        if says_nothing_of_them {
            said.hanging(8, nothing(&coverage));
        }
    } else {
        said.hanging(8, headline(run, &coverage));
        said.hanging(8, format!("holdup: {}", coverage.sentence()));
    }
    said
}

/// What was asked of reader-writer locks.
struct ReadWrite {
    /// Of those without a rule.
    policy: RwPolicy,
    /// A rule is about them alone.
    is_named: bool,
    /// Locks that a rule fitted.
    ruled: usize,
    /// Some were to prefer writers: all, or those that a rule fitted.
    prefers: bool,
}

impl ReadWrite {
    fn of(run: &Run<'_>) -> ReadWrite {
        let policy = run.settings.rw;
        let prefers_by_rule = own(run, |policy| policy == OwnPolicy::ReadWrite(RwPolicy::PreferWriter)) > 0;
        ReadWrite {
            policy,
            is_named: run.settings.rules.iter().any(|rule| rule.policy.is_none()),
            ruled: own(run, |policy| matches!(policy, OwnPolicy::ReadWrite(_))),
            prefers: policy == RwPolicy::PreferWriter || prefers_by_rule,
        }
    }
}

/// What the policies of reader-writer locks did, if there were any.
fn readers_and_writers(asked: &ReadWrite, coverage: &Coverage) -> Option<String> {
    let taken = coverage.fallbacks[Fallback::ReadWrite as usize];
    let all = number::count(taken as f64);
    if asked.policy == RwPolicy::Glibc && asked.ruled == 0 && !asked.is_named {
        return None;
    }
    let by_rules = match asked.ruled {
        0 if asked.is_named => " (no lock fitted a rule of --lock-for)".to_owned(),
        0 => String::new(),
        ruled => format!(" ({} by a rule of --lock-for)", number::counted(ruled, "lock")),
    };
    let what = match coverage.rw_preferring {
        _ if taken == 0 => {
            "this program takes no reader-writer lock of pthreads (std::shared_mutex has one; Rust's std and Go have their own)"
                .to_owned()
        }
        _ if !asked.prefers => format!("{all} acquisitions"),
        0 => format!(
            "{all} acquisitions, of no lock that can be changed: they were made with a kind of their own, or for several \
             processes, or the C library has them in a way that holdup does not know"
        ),
        1 => format!("{all} acquisitions, 1 lock prefers writers"),
        locks => format!("{all} acquisitions, {} locks prefer writers", number::count(locks as f64)),
    };
    Some(format!("rw {}{by_rules}: {what}", asked.policy))
}

/// How many locks have such a policy of their own.
fn own(run: &Run<'_>, is_such: impl Fn(OwnPolicy) -> bool) -> usize {
    let policies = run.figures.iter().flat_map(|figures| &figures.locks).filter_map(|lock| lock.policy);
    policies.filter(|policy| is_such(*policy)).count()
}

fn headline(run: &Run<'_>, coverage: &Coverage) -> String {
    let processes = match coverage.users {
        0 | 1 => String::new(),
        many => format!(" in {many} processes"),
    };
    let contended = coverage.contended as f64 / coverage.acquisitions as f64;
    format!(
        "holdup: {}{processes}: {} acquisitions, {} contended, {} slept",
        policies(run),
        number::count(coverage.acquisitions as f64),
        number::percent(contended),
        number::count(coverage.slept as f64),
    )
}

/// The policy, and how many locks had one of their own.
fn policies(run: &Run<'_>) -> String {
    let is_about_them = run.settings.rules.iter().any(|rule| rule.policy.is_some());
    match (is_about_them, own(run, |policy| matches!(policy, OwnPolicy::Mutex(_)))) {
        (false, _) => run.policy.to_string(),
        (true, 0) if own(run, |_| true) > 0 => run.policy.to_string(),
        (true, 0) => format!("{} (no lock fitted a rule of --lock-for)", run.policy),
        (true, own) => format!("{} ({} by a rule of their own)", run.policy, number::counted(own, "lock")),
    }
}

/// A program whose locks are others.
fn nothing(coverage: &Coverage) -> String {
    let slept = coverage.sleeps.map_or_else(String::new, |sleeps| {
        format!(" Its threads slept {} times for whatever they wait for.", number::count(sleeps as f64))
    });
    let left = match coverage.fallbacks.iter().sum::<u64>() {
        0 => {
            "this program takes no pthread mutex: Rust std, Go and static programs wait in ways of their own".to_owned()
        }
        _ => format!("this program takes no pthread mutex that can be exchanged ({})", coverage.sentence()),
    };
    let cures = match coverage.fallbacks[Fallback::ReadWrite as usize] {
        0 => "'holdup try --cpus' and '--vary' try other cures",
        _ => "'holdup try --rw prefer-writer,spin-park' tries policies for its reader-writer locks",
    };
    format!("holdup: 0 managed locks: {left}.{slept} 'holdup record' shows what they wait for; {cures}.")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(acquisitions: u64) -> Process {
        Process { state: STATE_SERVES, acquisitions, contended: acquisitions / 4, ..Process::default() }
    }

    #[test]
    fn the_share_counts_mutexes_alone() {
        let mut served = process(300);
        served.fallbacks[Fallback::Robust as usize] = 100;
        served.fallbacks[Fallback::Spin as usize] = 5000;
        let coverage = Coverage::of([&served], None);
        assert_eq!(coverage.share(), Some(0.75));
        assert_eq!(
            coverage.sentence(),
            "served 75% of 400 mutex acquisitions; left to glibc: 100 robust and 5.00k spin locks"
        );
        assert_eq!(Coverage::default().share(), None);
    }

    #[test]
    fn what_a_policy_of_reader_writer_locks_did_is_said() {
        let mut taken = process(0);
        let asked = |policy| ReadWrite { policy, is_named: false, ruled: 0, prefers: policy == RwPolicy::PreferWriter };
        let said = |process: &Process, policy| readers_and_writers(&asked(policy), &Coverage::of([process], None));
        assert_eq!(said(&taken, RwPolicy::Glibc), None);
        assert!(said(&taken, RwPolicy::PreferWriter).unwrap().contains("takes no reader-writer lock"));
        taken.fallbacks[Fallback::ReadWrite as usize] = 1200;
        assert!(said(&taken, RwPolicy::PreferWriter).unwrap().contains("no lock that can be changed"));
        taken.rw_preferring = 2;
        let expected = "rw prefer-writer: 1.20k acquisitions, 2 locks prefer writers";
        assert_eq!(said(&taken, RwPolicy::PreferWriter).as_deref(), Some(expected));
        assert_eq!(said(&taken, RwPolicy::SpinPark(9)).as_deref(), Some("rw spin-park:9: 1.20k acquisitions"));
        let by_rule = |ruled, prefers| {
            let asked = ReadWrite { is_named: true, ruled, prefers, ..asked(RwPolicy::Glibc) };
            readers_and_writers(&asked, &Coverage::of([&taken], None)).unwrap()
        };
        let expected = "rw glibc (1 lock by a rule of --lock-for): 1.20k acquisitions, 2 locks prefer writers";
        assert_eq!(by_rule(1, true), expected);
        assert!(by_rule(0, false).starts_with("rw glibc (no lock fitted a rule of --lock-for): "));
        taken.rw_watchdog_trips = 1;
        assert!(Coverage::of([&taken], None).warnings().join("").contains("--watchdog"));
    }

    #[test]
    fn a_program_that_was_not_reached_is_said_to_be() {
        let says = |states: &[u32]| {
            let processes: Vec<Process> =
                states.iter().map(|state| Process { state: *state, ..Process::default() }).collect();
            Coverage::of(&processes, None).warnings().join("\n")
        };
        assert!(says(&[]).contains("no process loaded the library"));
        assert!(says(&[STATE_OTHER]).contains("--only"));
        assert!(says(&[STATE_LAYOUT]).contains("does not know"));
        assert!(says(&[STATE_SERVES, STATE_RIVAL]).contains("sanitizer"));
        assert_eq!(says(&[STATE_SERVES, STATE_OTHER]), "");
        let chroot = Process { program: "/usr/sbin/chroot".into(), ..process(0) };
        assert!(Coverage::of([&chroot], None).warnings().join("").contains("another root"));
        assert!(Coverage::of([&chroot, &process(3)], None).warnings().is_empty());
    }
}
