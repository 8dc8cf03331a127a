//! A run under other locks as JSON, schema `holdup-profile-1`; docs/holdup-profile-1.schema.json is generated from
//! these types.

use holdup_analyze::Frame;
use holdup_control::{Profile, STATE_LAYOUT, STATE_OTHER, STATE_RIVAL, STATE_SERVES};
use schemars::JsonSchema;
use serde::Serialize;

use super::{Coverage, lock};
use crate::interposer::Figures;
use crate::interposer::figures;
use crate::interposer::naming::{Named, NamedLock};

/// What a program did under a lock policy.
#[derive(Serialize, JsonSchema)]
#[schemars(title = "A profile of holdup")]
pub struct Run<'a> {
    /// Name and version of this form.
    #[schemars(extend("const" = "holdup-profile-1"))]
    schema: &'static str,
    /// How threads waited for locks without a rule of their own, as `--lock` takes it.
    policy: String,
    /// How threads waited for reader-writer locks, as `--rw` takes it.
    rw_policy: String,
    /// What was measured: `off`, `count`, `sampled` or `full`.
    profile: &'static str,
    /// After how long without an acquisition a lock with waiters goes back to glibc; 0 for never.
    watchdog_ms: u32,
    /// The program's, as a shell has it.
    exit_status: u8,
    /// From start to end.
    elapsed_ns: u64,
    /// CPU time in user mode, with the children that were waited for.
    user_ns: u64,
    /// CPU time in the kernel.
    kernel_ns: u64,
    /// Times that a thread gave up the CPU to wait, for whatever.
    voluntary_switches: Option<u64>,
    /// Times that a thread was switched out.
    involuntary_switches: Option<u64>,
    /// How much of the program's locking was served.
    coverage: Served,
    /// Every process that loaded the library.
    processes: Vec<Process<'a>>,
}

/// How much of the program's locking was served.
#[derive(Serialize, JsonSchema)]
struct Served {
    /// As the report says it.
    sentence: String,
    /// What weakens the figures, as text.
    warnings: Vec<String>,
    /// Mutex acquisitions that were served, of all that were seen.
    acquisitions_share: Option<f64>,
    /// Sleeps in waits for served locks, of all voluntary switches.
    sleeps_share: Option<f64>,
}

/// A process.
#[derive(Serialize, JsonSchema)]
struct Process<'a> {
    /// Its number.
    pid: u32,
    /// Its file.
    program: String,
    /// `served`, `unknown-layout`, `other-program` (see `--only`), `other-interposer` or `unknown`.
    state: &'static str,
    /// Acquisitions of mutexes that are served.
    acquisitions: u64,
    /// Those that did not succeed at the first try.
    contended: u64,
    /// Those that slept.
    slept: u64,
    /// Sleeps for served locks.
    futex_waits: u64,
    /// Locks that the watchdog gave back.
    watchdog_trips: u64,
    /// Reader-writer locks that preferred writers because of the policy.
    rw_preferring: u64,
    /// Whether the watchdog let readers in before waiting writers again (1) or not (0).
    rw_watchdog_trips: u64,
    /// Most threads at the same time.
    threads_at_once: u32,
    /// Acquisitions of locks that were left to glibc, by the reason.
    acquisitions_left: Left,
    /// Locks that found no record of their own; the last of the locks stands for all of them.
    locks_beyond: u64,
    /// The locks, as they were met.
    locks: Vec<Lock<'a>>,
}

/// Acquisitions of locks that were left to glibc.
#[derive(Serialize, JsonSchema)]
struct Left {
    /// Shared between processes.
    process_shared: u64,
    /// Robust.
    robust: u64,
    /// With priority inheritance.
    priority_inheriting: u64,
    /// With a priority ceiling.
    priority_ceiling: u64,
    /// Elided by the hardware.
    elided: u64,
    /// Destroyed, or of an unknown kind.
    unknown: u64,
    /// Read-write locks.
    read_write: u64,
    /// Spin locks.
    spin: u64,
}

/// A lock.
#[derive(Serialize, JsonSchema)]
struct Lock<'a> {
    /// Its variable, or where it was made or first taken.
    name: String,
    /// Where it lies, in hexadecimal; `0x0` for those that found no record of their own.
    address: String,
    /// `mutex`, `recursive mutex`, `error-checking mutex`, `adaptive mutex`, `read-write lock` or `spin lock`.
    kind: &'static str,
    /// Its own policy, by a rule or by the watchdog; null if it follows the run's.
    policy: Option<String>,
    /// Whether the watchdog gave it back.
    tripped: bool,
    /// The call that initialised it.
    made_in: Option<Call<'a>>,
    /// The first call that was seen to take it.
    first_taken_in: Option<Call<'a>>,
    /// Its acquisitions.
    acquisitions: u64,
    /// Those that did not succeed at the first try.
    contended: u64,
    /// Those that slept.
    slept: u64,
    /// Threads that took it; beyond 64 some count as one.
    threads: u32,
    /// Waits of contended acquisitions.
    wait: Durations,
    /// Times that it was held.
    hold: Durations,
    /// Where threads waited for it.
    sites: Vec<Site<'a>>,
}

/// Waits or holds.
#[derive(Serialize, JsonSchema)]
struct Durations {
    /// How many were timed.
    measured: u64,
    /// How many there were.
    of: u64,
    /// Whether the figures are estimates from a sample.
    estimated: bool,
    /// All together; those that were not timed are taken to be like those that were.
    total_ns: u64,
    /// Median, from buckets that double in width.
    p50_ns: u64,
    /// 99th percentile, likewise.
    p99_ns: u64,
    /// The longest that was timed.
    max_ns: u64,
}

/// A place where threads waited.
#[derive(Serialize, JsonSchema)]
struct Site<'a> {
    /// The call; null for all others together.
    place: Option<Call<'a>>,
    /// Acquisitions from there that did not succeed at the first try.
    contended: u64,
    /// Waits from there together, as timed.
    wait_ns: u64,
}

/// A call.
#[derive(Serialize, JsonSchema)]
struct Call<'a> {
    /// The innermost function of the program's own.
    function: Option<&'a str>,
    /// Its source.
    file: Option<&'a str>,
    /// Line in it.
    line: Option<u32>,
    /// Its binary.
    module: &'a str,
    /// Address in the binary's own numbering, as `addr2line` takes it.
    module_offset: u64,
}

impl<'a> Run<'a> {
    /// Everything; `named` has the locks of each process with figures, where there are any.
    pub fn new(run: &super::Run<'_>, named: &'a [Option<Named>]) -> Run<'a> {
        let coverage = Coverage::of(run.figures.iter().map(|figures| &figures.process), Some(run.finished));
        let used = &run.finished.process;
        Run {
            schema: "holdup-profile-1",
            policy: run.policy.to_string(),
            rw_policy: run.settings.rw.to_string(),
            profile: profile_name(run.settings.profile as u32),
            watchdog_ms: run.settings.watchdog_ms,
            exit_status: run.finished.code,
            elapsed_ns: used.elapsed_ns,
            user_ns: used.user_ns,
            kernel_ns: used.kernel_ns,
            voluntary_switches: used.voluntary_switches,
            involuntary_switches: used.involuntary_switches,
            coverage: Served {
                sentence: coverage.sentence(),
                warnings: coverage.warnings(),
                acquisitions_share: coverage.share(),
                sleeps_share: coverage.sleep_share(),
            },
            processes: run
                .figures
                .iter()
                .zip(named)
                .map(|(figures, named)| Process::new(figures, named.as_ref()))
                .collect(),
        }
    }
}

impl<'a> Process<'a> {
    fn new(figures: &Figures, named: Option<&'a Named>) -> Process<'a> {
        let process = &figures.process;
        let [process_shared, robust, priority_inheriting, priority_ceiling, elided, unknown, read_write, spin] =
            process.fallbacks;
        Process {
            pid: process.pid,
            program: process.program.to_string_lossy().into_owned(),
            state: match process.state {
                STATE_SERVES => "served",
                STATE_LAYOUT => "unknown-layout",
                STATE_OTHER => "other-program",
                STATE_RIVAL => "other-interposer",
                _ => "unknown",
            },
            acquisitions: process.acquisitions,
            contended: process.contended,
            slept: process.slept,
            futex_waits: process.futex_waits,
            watchdog_trips: process.watchdog_trips,
            rw_preferring: process.rw_preferring,
            rw_watchdog_trips: process.rw_watchdog_trips,
            threads_at_once: figures.threads,
            acquisitions_left: Left {
                process_shared,
                robust,
                priority_inheriting,
                priority_ceiling,
                elided,
                unknown,
                read_write,
                spin,
            },
            locks_beyond: figures.locks_beyond,
            locks: named.into_iter().flat_map(|named| &named.locks).map(Lock::new).collect(),
        }
    }
}

impl<'a> Lock<'a> {
    fn new(named: &'a NamedLock) -> Lock<'a> {
        let figures = &named.figures;
        let sites = named.sites.iter().zip(&figures.sites);
        Lock {
            name: lock::name_of(named),
            address: format!("{:#x}", figures.addr),
            kind: lock::kind(named),
            policy: figures.policy.map(|policy| policy.to_string()),
            tripped: figures.tripped,
            made_in: named.made.as_ref().map(Call::new),
            first_taken_in: named.first.as_ref().map(Call::new),
            acquisitions: figures.acquisitions,
            contended: figures.contended,
            slept: figures.slept,
            threads: figures.threads,
            wait: Durations::new(&figures.wait),
            hold: Durations::new(&figures.hold),
            sites: sites
                .map(|(place, site)| Site {
                    place: place.as_ref().map(Call::new),
                    contended: site.contended,
                    wait_ns: site.wait_ns,
                })
                .collect(),
        }
    }
}

impl Durations {
    fn new(of: &figures::Durations) -> Durations {
        Durations {
            measured: of.count,
            of: of.of,
            estimated: of.is_estimate(),
            total_ns: of.total_ns(),
            p50_ns: of.quantile_ns(0.5),
            p99_ns: of.quantile_ns(0.99),
            max_ns: of.max_ns,
        }
    }
}

impl<'a> Call<'a> {
    fn new(frame: &'a Frame) -> Call<'a> {
        Call {
            function: frame.function.as_deref(),
            file: frame.file.as_deref(),
            line: frame.line,
            module: &frame.module,
            module_offset: frame.offset,
        }
    }
}

fn profile_name(profile: u32) -> &'static str {
    match profile {
        profile if profile == Profile::Count as u32 => "count",
        profile if profile == Profile::Sampled as u32 => "sampled",
        profile if profile == Profile::Full as u32 => "full",
        _ => "off",
    }
}

#[cfg(test)]
mod tests {
    use super::super::Run;
    use super::Named;
    use crate::interposer::figures::{Figures, Lock, OwnPolicy, Site};
    use crate::interposer::{Settings, naming};
    use crate::report::schema_tests::assert_defines;
    use holdup_control::Policy;
    use holdup_run::Finished;
    use holdup_run::ProcessUse;

    #[test]
    fn every_key_is_in_the_schema_and_every_key_of_the_schema_is_written() {
        let lock = Lock {
            addr: 1,
            init_site: 1,
            sites: vec![Site { addr: 1, contended: 1, wait_ns: 1 }],
            policy: Some(OwnPolicy::Mutex(Policy::Glibc)),
            ..Lock::default()
        };
        let figures = [Figures { locks: vec![lock], ..Figures::default() }];
        let named: Vec<Option<Named>> = figures.iter().map(|one| Some(naming::named(one))).collect();
        let finished = Finished { code: 0, process: ProcessUse::default() };
        let settings = Settings::default();
        let run =
            Run { policy: Policy::Glibc, settings: &settings, figures: &figures, uncounted: 0, finished: &finished };
        assert_defines("holdup-profile-1", &[super::Run::new(&run, &named)]);
    }
}
