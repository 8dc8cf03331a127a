//! `holdup timemutex`: the command line of the program TimeMutex of 1998, its defaults, its checks.

use std::fmt::Write as _;
use std::time::Duration;

use holdup_bench::locks;
use holdup_bench::sample::Sample;
use holdup_bench::sample::{Failure, FailureKind};
use holdup_bench::spec::Spec;

use super::time::{switches, translated_note};
use super::{Error, Status, measure, output};
use crate::runner::{Workers, default_limit};

/// Runs the program TimeMutex of 1998: N threads each repeat 1,000,000 times: take a lock Depth times, perhaps yield,
/// use CPU time, release it Depth times, perhaps yield. Shows elapsed, user and kernel time, and context switches of
/// one run.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, after_long_help = EXAMPLES, allow_negative_numbers = true)]
pub struct Options {
    /// Kind of mutual exclusion, 1 to 5 (see below)
    #[arg(default_value_t = 1)]
    which: i64,
    /// How often each iteration takes the lock; 0 is no synchronisation, the baseline
    #[arg(default_value_t = 1)]
    depth: i64,
    /// CPU time used inside: uniformly random from 0 to DELAY units of 20 work steps
    #[arg(default_value_t = 0)]
    delay: i64,
    /// Threads, 1 to 64
    #[arg(value_name = "NUMTHREADS", default_value_t = 4)]
    threads: i64,
    /// 0 never yield, 1 while holding, 2 after releasing, 3 both; anything else is 0
    #[arg(value_name = "SLEEPPOINTS", default_value_t = 0)]
    sleep_points: i64,
    /// Threads that may be active at once; the others wait before their loop; limited to 1..NUMTHREADS [default:
    /// NUMTHREADS]
    #[arg(value_name = "NUMTHACTIVE")]
    active: Option<i64>,
    /// Iterations of each thread
    #[arg(long, value_name = "N", default_value_t = 1_000_000)]
    iterations: u64,
    /// Time limit of the run, such as 30s [default: generous for what you ask for]
    #[arg(long, value_name = "TIME")]
    limit: Option<String>,
}

const EXAMPLES: &str = "\
WHICH on Win32 in 1998, and its substitute on Linux (Windows has the objects):
  1  one critical section          fair: hands over in order of arrival, as NT's did
  2  two nested critical sections  the same, two different ones
  3  the kernel's mutex            futex-pi: always in the kernel, has an owner
  4  an auto-reset event           eventfd: always in the kernel
  5  a binary semaphore            eventfd-sem: always in the kernel
A lock that is not recursive is wrapped when DEPTH is above 1.

One unit of DELAY is 20 work steps, about what an uncontended lock and unlock
take: DELAY 1 makes a section about as long as the lock's own cost.

Examples:
  holdup timemutex                  the defaults of 1998: holdup timemutex 1 1 0 4 0 4
  holdup timemutex 1                a critical section, 4 threads
  holdup timemutex 1 5 10 8         Depth 5, Delay 10, 8 threads
  holdup timemutex 3 1 0 6 0 1      a kernel mutex, 6 threads, one active
  holdup timemutex 1 0              the baseline: no lock at all";

/// Work steps of one unit of Delay.
pub const STEPS_PER_DELAY: u64 = 20;
const MOST_THREADS: i64 = 64;
const MOST_DEPTH: i64 = 64;

/// Measures and reports.
///
/// # Errors
/// An argument that the program does not take, or no worker could be started.
pub fn run(options: &Options) -> Result<Status, Error> {
    let asked = Asked::read(options)?;
    let spec = asked.spec()?;
    let limit = measure::limit(options.limit.as_deref())?.unwrap_or_else(|| default_limit(&spec));
    output::print(&asked.describe())?;
    let run = measure::workers()?
        .run(&spec, limit)
        .map_err(|why| Error::Unmeasured(format!("cannot start a worker process: {why}")))?;
    match run.outcome {
        Ok(sample) => output::print(&times(&sample)).map(|()| Status::Success),
        Err(failure) => Err(Error::Unmeasured(explain(&failure, limit))),
    }
}

/// The arguments as understood.
#[derive(Debug, PartialEq, Eq)]
struct Asked {
    way: &'static Way,
    depth: i64,
    delay: u64,
    threads: i64,
    sleep_points: i64,
    active: i64,
    iterations: u64,
    /// What was not taken as given.
    changed: Vec<String>,
}

/// A way of mutual exclusion.
#[derive(Debug, PartialEq, Eq)]
struct Way {
    which: i64,
    then: &'static str,
    /// The object itself, and what stands for it where there is none.
    locks: [&'static str; 2],
    nest: u32,
}

impl Way {
    /// The first of the locks that this system has.
    fn lock(&self) -> &'static str {
        let [object, stand_in] = self.locks;
        if locks::named(object).is_some() { object } else { stand_in }
    }
}

static WAYS: [Way; 5] = [
    Way { which: 1, then: "critical section", locks: ["critical-section", "fair"], nest: 1 },
    Way { which: 2, then: "two nested critical sections", locks: ["critical-section", "fair"], nest: 2 },
    Way { which: 3, then: "kernel mutex", locks: ["win-mutex", "futex-pi"], nest: 1 },
    Way { which: 4, then: "auto-reset event", locks: ["win-event", "eventfd"], nest: 1 },
    Way { which: 5, then: "binary semaphore", locks: ["win-semaphore", "eventfd-sem"], nest: 1 },
];
const SLEEP_POINTS: [(&str, &str); 4] = [
    ("never", "never yields"),
    ("holding", "yields while holding"),
    ("released", "yields after releasing"),
    ("both", "yields while holding and after releasing"),
];

impl Asked {
    fn read(options: &Options) -> Result<Asked, Error> {
        let wrong = |text: String| Err(Error::Argument(format!("{text}; 'holdup timemutex --help' explains")));
        let Some(way) = WAYS.iter().find(|way| way.which == options.which) else {
            return wrong(format!(
                "WHICH is {}; it must be 1 (critical section), 2 (two nested ones), 3 (kernel mutex), 4 (event) or 5 \
                 (semaphore)",
                options.which
            ));
        };
        if !(1..=MOST_THREADS).contains(&options.threads) {
            return wrong(format!("NUMTHREADS is {}; it must be 1 to {MOST_THREADS}", options.threads));
        }
        if !(0..=MOST_DEPTH).contains(&options.depth) {
            return wrong(format!("DEPTH is {}; it must be 0 to {MOST_DEPTH}", options.depth));
        }
        let Some(delay) = u64::try_from(options.delay).ok().filter(|delay| *delay <= u64::from(u32::MAX)) else {
            return wrong(format!("DELAY is {}; it must be 0 or more, below 2^32", options.delay));
        };
        let mut asked = Asked {
            way,
            depth: options.depth,
            delay,
            threads: options.threads,
            sleep_points: 0,
            active: options.threads,
            iterations: options.iterations,
            changed: Vec::new(),
        };
        asked.adjust(options);
        Ok(asked)
    }

    /// Takes what the program of 1998 corrected without a word, and remembers the word.
    fn adjust(&mut self, options: &Options) {
        self.sleep_points = options.sleep_points;
        if !(0..=3).contains(&options.sleep_points) {
            self.changed.push(format!("SLEEPPOINTS {} is not 0 to 3: taken as 0", options.sleep_points));
            self.sleep_points = 0;
        }
        let active = options.active.unwrap_or(self.threads);
        self.active = active.clamp(1, self.threads);
        if self.active != active {
            self.changed.push(format!("NUMTHACTIVE {active} is not 1 to {}: taken as {}", self.threads, self.active));
        }
    }

    fn spec(&self) -> Result<Spec, Error> {
        let mut words = vec![
            format!("lock={}", self.way.lock()),
            "workload=empty".to_owned(),
            format!("threads={}", self.threads),
            format!("depth={}", self.depth),
            format!("nest={}", self.way.nest),
            format!("yield={}", self.pause().0),
            format!("iterations={}", self.iterations),
        ];
        if self.delay > 0 {
            words.push(format!("hold=uniform:0..{}units", self.delay * STEPS_PER_DELAY));
        }
        if self.active < self.threads {
            words.extend(["gate=thread".to_owned(), format!("active={}", self.active)]);
        }
        Ok(Spec::from_words(words.iter().map(String::as_str))?)
    }

    fn pause(&self) -> (&'static str, &'static str) {
        usize::try_from(self.sleep_points).ok().and_then(|n| SLEEP_POINTS.get(n)).copied().unwrap_or(SLEEP_POINTS[0])
    }

    fn describe(&self) -> String {
        let mut text = String::new();
        let what = if self.depth == 0 { "no lock: the baseline" } else { self.way.lock() };
        let _ = writeln!(text, "Which        {}  {} ({what})", self.way.which, self.way.then);
        let _ = writeln!(text, "Depth        {}", self.depth);
        let _ = writeln!(text, "Delay        {}  0 to {} work steps", self.delay, self.delay * STEPS_PER_DELAY);
        let _ = writeln!(text, "NumThreads   {}  {} iterations each", self.threads, self.iterations);
        let _ = writeln!(text, "SleepPoints  {}  {}", self.sleep_points, self.pause().1);
        let _ = writeln!(text, "NumThActive  {}", self.active);
        for change in &self.changed {
            let _ = writeln!(text, "note: {change}");
        }
        text + "\n"
    }
}

fn times(sample: &Sample) -> String {
    let seconds = |ns: u64| ns as f64 / 1e9;
    format!(
        "real      {:10.3} s\nuser      {:10.3} s\nkernel    {:10.3} s\n{}\n{}",
        seconds(sample.elapsed_ns),
        seconds(sample.user_ns),
        seconds(sample.kernel_ns),
        switches(sample.voluntary_switches, sample.involuntary_switches),
        translated_note()
    )
}

fn explain(failure: &Failure, limit: Duration) -> String {
    match failure.kind {
        FailureKind::Unsupported => format!("this machine cannot measure it: {}", failure.detail),
        FailureKind::Hang => {
            format!(
                "{} (limit {limit:.0?}; --limit 600s gives it longer, --iterations 10000 asks for less)",
                failure.detail
            )
        }
        FailureKind::LostUpdate | FailureKind::Crash => failure.detail.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use holdup_bench::spec::Budget;

    fn asked(arguments: &[i64]) -> Result<Asked, Error> {
        let at = |i: usize, default| arguments.get(i).copied().unwrap_or(default);
        Asked::read(&Options {
            which: arguments[0],
            depth: at(1, 1),
            delay: at(2, 0),
            threads: at(3, 4),
            sleep_points: at(4, 0),
            active: arguments.get(5).copied(),
            iterations: 1_000_000,
            limit: None,
        })
    }

    #[test]
    fn the_defaults_are_those_of_1998() {
        let asked = asked(&[1]).unwrap();
        let spec = asked.spec().unwrap();
        assert_eq!((spec.depth, spec.threads, spec.active), (1, 4, None));
        assert!(spec.hold.is_none() && !spec.pause.holding && !spec.pause.released);
        assert_eq!(spec.budget, Budget::Iterations(1_000_000));
        assert_eq!(asked.changed, Vec::<String>::new());
    }

    #[test]
    fn every_argument_reaches_the_cell() {
        let spec = asked(&[1, 5, 10, 8, 3, 2]).unwrap().spec().unwrap();
        assert_eq!((spec.depth, spec.threads, spec.active), (5, 8, Some(2)));
        assert_eq!(spec.hold.to_string(), "uniform:0units..200units");
        assert!(spec.pause.holding && spec.pause.released);
    }

    #[test]
    fn what_1998_corrected_is_corrected_and_said() {
        for (arguments, sleep_points, active, changes) in
            [(&[1, 1, 0, 4, 9, 4][..], 0, 4, 1), (&[1, 1, 0, 4, -1, 0], 0, 1, 2), (&[1, 1, 0, 4, 2, 99], 2, 4, 1)]
        {
            let asked = asked(arguments).unwrap();
            assert_eq!((asked.sleep_points, asked.active, asked.changed.len()), (sleep_points, active, changes));
        }
    }

    #[test]
    fn what_1998_refused_is_refused() {
        for (arguments, named) in [
            (&[0][..], "WHICH"),
            (&[6], "WHICH"),
            (&[1, 1, 0, 0], "NUMTHREADS"),
            (&[1, 1, 0, 65], "NUMTHREADS"),
            (&[1, -1], "DEPTH"),
            (&[1, 1, -5], "DELAY"),
        ] {
            let why = asked(arguments).unwrap_err();
            assert!(why.to_string().contains(named), "{why}");
            assert_eq!(why.code(), 2);
        }
    }
}
