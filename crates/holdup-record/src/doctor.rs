//! What this machine and this user allow to record, what each missing right would add, and the least command that
//! grants it.
//!
//! [`examine`] looks and tries; [`judge`] decides, from data alone. Nothing here prints.

use std::fmt;

use holdup_trace::json::{Hex, rows, shown};
use schemars::JsonSchema;
use serde::Serialize;

use crate::Backend;

/// What was found, and what follows from it.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Diagnosis {
    /// The facts.
    pub probe: Probe,
    /// What a recording can see, and what not, the most important first.
    pub abilities: Vec<Ability>,
    /// What else is worth knowing: sentences without a full stop.
    pub notes: Vec<String>,
}

impl Diagnosis {
    /// By what `holdup record` captures here; `None` if nothing works.
    pub fn backend(&self) -> Option<Backend> {
        let events = [Seeing::Switches, Seeing::Futexes].iter().all(|needed| self.can(*needed));
        match (&self.probe.bpf, self.probe.ptrace_scope) {
            (Some(Ok(())), _) if events => Some(Backend::Bpf),
            _ if events => Some(Backend::Perf),
            // Not even those that it starts may be looked into.
            (_, Some(3..)) => None,
            _ => Some(Backend::Sampler),
        }
    }

    /// Whether `holdup record` works at all.
    pub fn can_record(&self) -> bool {
        self.backend().is_some()
    }

    /// Whether a recording can see this.
    pub fn can(&self, seeing: Seeing) -> bool {
        self.abilities.iter().any(|ability| ability.seeing == seeing && ability.works())
    }
}

/// The facts about machine, user and settings that rights to record depend on; null for what could not be learnt.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Probe {
    /// kernel.perf_event_paranoid.
    pub paranoid: Option<i32>,
    /// Effective user.
    pub uid: u32,
    /// Effective capabilities in hexadecimal, one bit each.
    #[serde(serialize_with = "shown::<_, Hex, _>")]
    #[schemars(with = "Hex")]
    pub capabilities: u64,
    /// Capabilities that this process and its children can ever have.
    #[serde(skip)]
    pub bounding: u64,
    /// Whether this is a user namespace of its own: capabilities do not count for the kernel's events then.
    pub user_namespace: bool,
    /// Whether this is a namespace of processes of its own.
    pub pid_namespace: bool,
    /// The kind of container, as far as it can be told.
    pub container: Container,
    /// Whether system calls are filtered (seccomp mode 2).
    pub filtered: bool,
    /// Kernel release.
    pub kernel: String,
    /// CPUs online.
    pub cpus: u32,
    /// Where the numbers of tracepoints can be read.
    pub tracefs: Tracefs,
    /// kernel.perf_event_mlock_kb: memory for buffers, in KiB per user and CPU.
    pub mlock_kib: Option<u64>,
    /// RLIMIT_MEMLOCK, soft, in bytes.
    pub memlock_bytes: u64,
    /// RLIMIT_NOFILE, hard.
    #[serde(skip)]
    pub open_files: u64,
    /// kernel.perf_event_max_sample_rate, in Hz.
    pub max_sample_hz: Option<u64>,
    /// kernel.kptr_restrict: whether addresses of kernel symbols are hidden.
    pub kptr_restrict: Option<i32>,
    /// kernel.yama.ptrace_scope: whose memory may be read; null without Yama, which is like 0.
    pub ptrace_scope: Option<i32>,
    /// Whether recordings can be made by programs inside the kernel (BPF), and why not, as the end of a sentence;
    /// `None` if it was not looked at.
    #[serde(skip)]
    pub bpf: Option<Result<(), String>>,
    /// Whether the machine has hardware counters.
    #[serde(rename = "hardware_counters")]
    pub pmu: bool,
    /// What opening the events of each kind gave.
    #[serde(serialize_with = "rows::<_, TrialRow, _>")]
    #[schemars(with = "Vec<TrialRow>")]
    pub trials: Vec<(Seeing, Trial)>,
}

/// What a trial gave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trial {
    /// It works.
    Works,
    /// The kernel refused with this error number.
    Refused(i32),
    /// The number of its tracepoint is not known, so it could not be tried.
    Unknown,
}

/// A trial.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Trial")]
struct TrialRow {
    /// What was tried.
    seeing: Seeing,
    /// works, refused or unknown.
    result: &'static str,
    /// The kernel's error number.
    error_number: Option<i32>,
}

impl From<&(Seeing, Trial)> for TrialRow {
    fn from((seeing, trial): &(Seeing, Trial)) -> TrialRow {
        let (result, error_number) = match trial {
            Trial::Works => ("works", None),
            Trial::Refused(errno) => ("refused", Some(*errno)),
            Trial::Unknown => ("unknown", None),
        };
        TrialRow { seeing: *seeing, result, error_number }
    }
}

/// The kind of container around the recorder.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Container {
    /// Docker.
    Docker,
    /// Podman.
    Podman,
    /// None that can be told.
    #[default]
    #[serde(untagged)]
    None,
}

/// Whether tracefs is of use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Tracefs {
    /// Not mounted.
    #[default]
    Absent,
    /// Mounted, but this user cannot read it.
    Unreadable,
    /// Readable.
    Readable,
}

/// A kind of fact that a recording can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
pub enum Seeing {
    /// When each thread runs and when not.
    #[serde(rename = "context switches")]
    Switches,
    /// Futex waits and wakes, with lock address and user stack.
    #[serde(rename = "lock waits")]
    Futexes,
    /// CPU samples in user mode.
    #[serde(rename = "CPU samples")]
    Samples,
    /// CPU samples in the kernel, and the kernel part of stacks.
    #[serde(rename = "kernel samples")]
    Kernel,
    /// Why each thread left the CPU and where, and who woke it.
    #[serde(rename = "switch reasons and wakers")]
    Reasons,
    /// Wake-ups by processes that are not recorded.
    #[serde(rename = "wakers outside the program")]
    ForeignWakings,
    /// Hardware counters.
    #[serde(rename = "hardware counters")]
    Hardware,
    /// Lock words of processes that were not started by the recorder.
    #[serde(rename = "lock words of other processes")]
    LockWords,
}

impl Seeing {
    /// All, the most important first.
    pub const ALL: [Seeing; 8] = [
        Seeing::Switches,
        Seeing::Futexes,
        Seeing::Samples,
        Seeing::Kernel,
        Seeing::Reasons,
        Seeing::ForeignWakings,
        Seeing::Hardware,
        Seeing::LockWords,
    ];

    /// What it adds to a recording.
    pub fn adds(self) -> &'static str {
        match self {
            Seeing::Switches => "when each thread runs and when not, and whether it was preempted",
            Seeing::Futexes => "which lock a thread waits for, how long, where in the program, and who wakes it",
            Seeing::Samples => "where the CPU time goes in the program",
            Seeing::Kernel => "where the CPU time goes in the kernel",
            Seeing::Reasons => "for every switch the reason and the place, and for every wake-up the waker",
            Seeing::ForeignWakings => "wake-ups by processes that are not recorded (else: 'woken from outside')",
            Seeing::Hardware => "instructions per cycle and cache misses",
            Seeing::LockWords => "how long locks are held, and by whom, in a process that was running already",
        }
    }
}

impl fmt::Display for Seeing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

/// A kind of fact, and whether this machine and user allow it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(into = "AbilityRow")]
pub struct Ability {
    /// Which.
    pub seeing: Seeing,
    /// Why not; `None` if it works.
    pub missing: Option<Missing>,
}

impl Ability {
    /// Whether a recording can see it.
    pub fn works(&self) -> bool {
        self.missing.is_none()
    }
}

/// An ability in words.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Ability")]
struct AbilityRow {
    /// What can be seen.
    seeing: Seeing,
    /// What it adds to a recording.
    adds: &'static str,
    /// Whether this machine and user allow it.
    works: bool,
    /// What is in the way.
    why_not: Option<String>,
    /// The command that grants the least of it; null where no right helps.
    grant: Option<String>,
}

impl From<Ability> for AbilityRow {
    fn from(ability: Ability) -> AbilityRow {
        let works = ability.works();
        let (why_not, grant) = ability.missing.map_or((None, None), |missing| (Some(missing.why), missing.grant));
        AbilityRow { seeing: ability.seeing, adds: ability.seeing.adds(), works, why_not, grant }
    }
}

/// Why something cannot be seen, and what to do.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema)]
pub struct Missing {
    /// What is so: a sentence without a full stop.
    pub why: String,
    /// The command that grants the least of it; `None` where no right helps.
    pub grant: Option<String>,
}

/// What follows from the facts, for each kind in the order of [`Seeing::ALL`].
pub fn judge(probe: &Probe) -> Vec<Ability> {
    let ability = |seeing| Ability { seeing, missing: missing(seeing, probe) };
    Seeing::ALL.into_iter().map(ability).collect()
}

/// What to say when the kernel refuses `what` with this error number: what is so, what is needed, and the least
/// command.
pub fn refusal(what: Seeing, errno: i32, probe: &Probe) -> String {
    let missing = refused(what, errno, probe);
    match missing.grant {
        Some(command) => format!("{}; run `{command}`", missing.why),
        None => missing.why,
    }
}

/// What a level of kernel.perf_event_paranoid means for an ordinary user.
pub fn level_meaning(level: i32) -> &'static str {
    match level {
        ..=-1 => "everybody may see everything",
        0 => "ordinary users may see whole CPUs, but no raw tracepoints",
        1 => "ordinary users may see their own processes, in the kernel too",
        2 => "ordinary users may see their own processes, outside the kernel: enough for holdup's default",
        3 => "ordinary users may see nothing (a level of Debian's and Android's kernels)",
        4.. => "ordinary users may see nothing (a level of Ubuntu's kernels)",
    }
}

pub(crate) const CAP_SYS_ADMIN: u32 = 21;
pub(crate) const CAP_PERFMON: u32 = 38;
#[allow(dead_code, reason = "only Linux has it")]
pub(crate) const CAP_BPF: u32 = 39;
pub(crate) const CAP_SYS_PTRACE: u32 = 19;
const CAP_IPC_LOCK: u32 = 14;

const EPERM: i32 = 1;
const ENOENT: i32 = 2;
const EACCES: i32 = 13;
/// There is no memory, or the user may lock no more.
const ENOMEM: i32 = 12;
const ENODEV: i32 = 19;
const EMFILE: i32 = 24;
const ENOSYS: i32 = 38;
const EOPNOTSUPP: i32 = 95;

impl Probe {
    fn has(&self, capability: u32) -> bool {
        self.capabilities >> capability & 1 == 1 && !self.user_namespace
    }

    fn may_monitor(&self) -> bool {
        self.has(CAP_PERFMON) || self.has(CAP_SYS_ADMIN)
    }

    /// The level; the kernel's own default where it is not known.
    fn level(&self) -> i32 {
        self.paranoid.unwrap_or(2)
    }

    /// Whether the level itself allows it to everybody.
    fn level_allows(&self, seeing: Seeing) -> bool {
        self.level() <= highest_level(seeing)
    }

    /// The capability that is made for this: its own one only since Linux 5.8.
    fn capability(&self) -> &'static str {
        let version = release(&self.kernel);
        if version < (5, 8) && version != (0, 0) { "cap_sys_admin" } else { "cap_perfmon" }
    }

    fn trial(&self, seeing: Seeing) -> Option<Trial> {
        self.trials.iter().find(|(of, _)| *of == seeing).map(|(_, trial)| *trial)
    }
}

/// Major and minor number of a kernel, from the text that it calls itself by; zeros where it has none.
pub fn release(kernel: &str) -> (u32, u32) {
    let mut numbers = kernel.split(|c: char| !c.is_ascii_digit()).map(|part| part.parse().unwrap_or(0));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
}

/// The highest kernel.perf_event_paranoid at which an ordinary user sees this.
fn highest_level(seeing: Seeing) -> i32 {
    match seeing {
        Seeing::Switches | Seeing::Futexes | Seeing::Samples | Seeing::Hardware => 2,
        Seeing::Kernel => 1,
        Seeing::Reasons | Seeing::ForeignWakings => -1,
        Seeing::LockWords => i32::MAX,
    }
}

fn missing(seeing: Seeing, probe: &Probe) -> Option<Missing> {
    if seeing == Seeing::LockWords {
        return lock_words(probe);
    }
    match probe.trial(seeing) {
        Some(Trial::Works) => None,
        Some(Trial::Refused(errno)) => Some(refused(seeing, errno, probe)),
        Some(Trial::Unknown) | None => Some(unknown(seeing, probe)),
    }
}

/// Reading another process's memory is a matter of ptrace, not of events.
fn lock_words(probe: &Probe) -> Option<Missing> {
    let scope = probe.ptrace_scope.unwrap_or(0);
    if scope == 0 || (scope < 3 && probe.has(CAP_SYS_PTRACE)) {
        return None;
    }
    Some(match scope {
        1 => Missing {
            why: "kernel.yama.ptrace_scope is 1: only memory of processes that holdup started may be read".into(),
            grant: Some("sudo sysctl kernel.yama.ptrace_scope=0".into()),
        },
        2 => Missing {
            why: "kernel.yama.ptrace_scope is 2: only root may read another process's memory".into(),
            grant: Some("sudo sysctl kernel.yama.ptrace_scope=1".into()),
        },
        _ => Missing {
            why: format!(
                "kernel.yama.ptrace_scope is {scope}: nobody may read another process's memory until the machine is \
                 started anew"
            ),
            grant: None,
        },
    })
}

fn unknown(seeing: Seeing, probe: &Probe) -> Missing {
    // An event whose number is unknown: either the rights forbid to learn it by trial, or the kernel lacks it.
    if !probe.level_allows(seeing) && !probe.may_monitor() {
        return refused(seeing, if probe.level() > 2 { EACCES } else { EPERM }, probe);
    }
    if let Some(Trial::Refused(errno)) = probe.trial(Seeing::Switches) {
        return refused(seeing, errno, probe);
    }
    Missing {
        why: format!("the number of the kernel's tracepoint for {seeing} could not be found"),
        grant: (probe.uid == 0 && probe.tracefs == Tracefs::Absent)
            .then(|| "mount -t tracefs nodev /sys/kernel/tracing".into()),
    }
}

fn refused(seeing: Seeing, errno: i32, probe: &Probe) -> Missing {
    match errno {
        ENOSYS if !probe.filtered => {
            Missing { why: "this kernel was built without performance events".into(), grant: None }
        }
        ENOENT | ENODEV | EOPNOTSUPP if seeing == Seeing::Hardware => {
            Missing { why: "this machine shows no hardware counters, as most virtual machines do".into(), grant: None }
        }
        EMFILE => Missing {
            why: "this process may not open more files, and every event is one".into(),
            grant: Some("sudo prlimit --nofile=1048576 --pid $$".into()),
        },
        ENOMEM => Missing {
            why: "this user may lock no more memory for buffers, of which other recordings have some".into(),
            grant: Some("sudo sysctl kernel.perf_event_mlock_kb=2064".into()),
        },
        EPERM | EACCES | ENOSYS => forbidden(seeing, probe),
        errno => Missing {
            why: format!("the kernel refuses events for {seeing} with error {errno}, which says nothing about rights"),
            grant: None,
        },
    }
}

/// The cause of a refusal: a filter of system calls refuses what level and capabilities would allow.
fn forbidden(seeing: Seeing, probe: &Probe) -> Missing {
    let level = probe.level();
    if probe.level_allows(seeing) || probe.may_monitor() {
        return behind_a_filter(seeing, probe);
    }
    let highest = highest_level(seeing);
    let container = probe.container != Container::None;
    if highest > 0 {
        // A container cannot change it.
        let whose = if container { " (a setting of the host)" } else { "" };
        let why = format!("kernel.perf_event_paranoid is {level}{whose}, and {seeing} need {highest} or less");
        return Missing { why, grant: Some(format!("sudo sysctl kernel.perf_event_paranoid={highest}")) };
    }
    let capability = probe.capability();
    let why = format!("{seeing} need the capability {}", capability.to_uppercase());
    let bit = if capability == "cap_perfmon" { CAP_PERFMON } else { CAP_SYS_ADMIN };
    let bound = probe.bounding >> bit & 1 == 1;
    let grant = if !bound && (container || probe.bounding != 0) {
        Some(in_container(probe, capability))
    } else {
        Some(format!("sudo setcap {capability}+ep \"$(command -v holdup)\""))
    };
    Missing { why, grant }
}

fn behind_a_filter(seeing: Seeing, probe: &Probe) -> Missing {
    if !probe.filtered {
        return Missing {
            why: format!(
                "the kernel refuses events for {seeing} although kernel.perf_event_paranoid is {}: a security module \
                 (SELinux, lockdown) forbids it",
                probe.level()
            ),
            grant: None,
        };
    }
    let why = "a filter of system calls (seccomp), as containers have it, forbids perf_event_open".into();
    Missing { why, grant: Some(in_container(probe, probe.capability())) }
}

/// Docker's and Podman's own filters let perf_event_open through for containers with the capability.
pub(crate) fn in_container(probe: &Probe, capability: &str) -> String {
    let tool = if probe.container == Container::Podman { "podman" } else { "docker" };
    format!("{tool} run --cap-add {} ...", capability.trim_start_matches("cap_").to_uppercase())
}

/// The kernel's default for kernel.perf_event_mlock_kb: 512 KiB and a page.
const USUAL_MLOCK_KIB: u64 = 516;
/// Events of a default recording, for each CPU.
const EVENTS_PER_CPU: u64 = 48;

pub(crate) fn notes(probe: &Probe) -> Vec<String> {
    let mut notes = Vec::new();
    if probe.trial(Seeing::Switches) != Some(Trial::Works) {
        notes.push(
            "a recording is sampled here: shares of time, what threads wait for, locks, their holders and call paths come \
             out; numbers of switches and waits, short waits, who wakes whom and where CPU time goes do not"
                .into(),
        );
    }
    match &probe.bpf {
        // They need an event as well.
        Some(Ok(())) if probe.trial(Seeing::Switches) != Some(Trial::Works) => {}
        Some(Ok(())) => notes.push(
            "programs inside the kernel (BPF) record here, which costs a program least; \
             `holdup record --capture perf -- PROGRAM` goes by performance events"
                .into(),
        ),
        Some(Err(why)) => notes.push(format!(
            "a recording would cost the program less if programs inside the kernel (BPF) made it: {why}"
        )),
        None => {}
    }
    let locks = probe.has(CAP_IPC_LOCK) || probe.may_monitor();
    if let Some(kib) = probe.mlock_kib.filter(|kib| *kib < USUAL_MLOCK_KIB && !locks) {
        notes.push(format!(
            "buffers are limited to {kib} KiB per CPU, and busy programs can lose events; \
             `sudo sysctl kernel.perf_event_mlock_kb={USUAL_MLOCK_KIB}` gives the usual size"
        ));
    }
    let needed = EVENTS_PER_CPU * u64::from(probe.cpus);
    if probe.open_files < needed {
        notes.push(format!(
            "this shell allows {} open files, and a recording on {} CPUs needs about {needed}; \
             `sudo prlimit --nofile=1048576 --pid $$` allows more",
            probe.open_files, probe.cpus
        ));
    }
    if let Some(hz) = probe.max_sample_hz.filter(|hz| *hz < 1000) {
        notes.push(format!(
            "the kernel allows {hz} samples per second; `sudo sysctl kernel.perf_event_max_sample_rate=4000` allows \
             more"
        ));
    }
    if probe.kptr_restrict.is_some_and(|level| level > 0) && !probe.may_monitor() {
        notes.push("names of kernel functions are hidden from ordinary users (kernel.kptr_restrict)".into());
    }
    if probe.pid_namespace {
        notes.push("this is a namespace of processes of its own: only processes inside it can be recorded".into());
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;

    const PERFMON: u64 = 1 << CAP_PERFMON;

    /// What the kernel answers at a level, as it was found out on Linux 6.18.
    fn kernel(level: i32, capabilities: u64) -> Probe {
        let capable = capabilities & PERFMON != 0;
        let trial = |seeing| match seeing {
            Seeing::Hardware if level <= 2 || capable => Trial::Refused(ENOENT),
            _ if capable || level <= highest_level(seeing) => Trial::Works,
            Seeing::Reasons | Seeing::ForeignWakings if level <= 2 => Trial::Unknown,
            _ => Trial::Refused(EACCES),
        };
        Probe {
            paranoid: Some(level),
            uid: 1000,
            capabilities,
            bounding: u64::MAX >> 23,
            kernel: "6.18.44-x".into(),
            cpus: 2,
            mlock_kib: Some(516),
            memlock_bytes: 8 << 20,
            open_files: 20_000,
            max_sample_hz: Some(100_000),
            trials: Seeing::ALL.iter().map(|seeing| (*seeing, trial(*seeing))).collect(),
            ..Probe::default()
        }
    }

    fn works(probe: &Probe) -> Vec<Seeing> {
        judge(probe).iter().filter(|ability| ability.works()).map(|ability| ability.seeing).collect()
    }

    fn grant(probe: &Probe, seeing: Seeing) -> Option<String> {
        judge(probe).into_iter().find(|ability| ability.seeing == seeing)?.missing?.grant
    }

    #[test]
    fn every_level_allows_what_it_allows_and_names_the_least_that_is_missing() {
        use Seeing::*;
        let base = vec![Switches, Futexes, Samples, LockWords];
        let with_kernel = vec![Switches, Futexes, Samples, Kernel, LockWords];
        let all = vec![Switches, Futexes, Samples, Kernel, Reasons, ForeignWakings, LockWords];
        for (level, expected) in [(4, vec![LockWords]), (3, vec![LockWords]), (2, base), (1, with_kernel.clone())] {
            assert_eq!(works(&kernel(level, 0)), expected, "{level}");
        }
        assert_eq!(works(&kernel(0, 0)), with_kernel);
        assert_eq!(works(&kernel(-1, 0)), all);
        assert_eq!(works(&kernel(4, PERFMON)), all);

        for level in [3, 4] {
            let sysctl = Some("sudo sysctl kernel.perf_event_paranoid=2".to_owned());
            for seeing in [Switches, Futexes, Samples, Hardware] {
                assert_eq!(grant(&kernel(level, 0), seeing), sysctl, "{level} {seeing}");
            }
        }
        for level in [2, 3] {
            let sysctl = Some("sudo sysctl kernel.perf_event_paranoid=1".to_owned());
            assert_eq!(grant(&kernel(level, 0), Kernel), sysctl);
        }
        for level in [0, 1, 2, 3, 4] {
            let setcap = Some("sudo setcap cap_perfmon+ep \"$(command -v holdup)\"".to_owned());
            assert_eq!(grant(&kernel(level, 0), Reasons), setcap, "{level}");
            assert_eq!(grant(&kernel(level, 0), ForeignWakings), setcap, "{level}");
        }
        assert_eq!(grant(&kernel(2, 0), Hardware), None);
    }

    #[test]
    fn docker_s_filter_is_told_from_a_level() {
        let mut probe = kernel(2, 0);
        probe.filtered = true;
        probe.container = Container::Docker;
        // What Docker gives to its containers.
        probe.bounding = 0xa804_25fb;
        probe.trials = Seeing::ALL.iter().map(|seeing| (*seeing, Trial::Refused(EPERM))).collect();
        assert_eq!(grant(&probe, Seeing::Futexes), Some("docker run --cap-add PERFMON ...".into()));
        assert_eq!(grant(&probe, Seeing::Reasons), Some("docker run --cap-add PERFMON ...".into()));
        let text = refusal(Seeing::Switches, EPERM, &probe);
        assert!(text.contains("seccomp") && text.ends_with("run `docker run --cap-add PERFMON ...`"), "{text}");
        probe.container = Container::Podman;
        assert_eq!(grant(&probe, Seeing::Futexes), Some("podman run --cap-add PERFMON ...".into()));
    }

    #[test]
    fn a_kernel_before_the_capability_needs_the_old_one() {
        let mut probe = kernel(2, 0);
        for (release, capability) in
            [("5.7.19", "cap_sys_admin"), ("5.8.0-1", "cap_perfmon"), ("4.19.0", "cap_sys_admin")]
        {
            probe.kernel = release.into();
            let expected = format!("sudo setcap {capability}+ep \"$(command -v holdup)\"");
            assert_eq!(grant(&probe, Seeing::Reasons), Some(expected));
        }
    }

    #[test]
    fn root_of_a_user_namespace_is_no_root() {
        let mut probe = kernel(3, 0);
        probe.capabilities = u64::MAX;
        probe.user_namespace = true;
        probe.uid = 0;
        assert_eq!(grant(&probe, Seeing::Futexes), Some("sudo sysctl kernel.perf_event_paranoid=2".into()));
    }

    #[test]
    fn memory_of_others_is_a_matter_of_yama() {
        let at = |scope, capabilities| {
            let probe = Probe { ptrace_scope: scope, capabilities, ..kernel(2, 0) };
            (works(&probe).contains(&Seeing::LockWords), grant(&probe, Seeing::LockWords))
        };
        assert_eq!(at(None, 0), (true, None));
        assert_eq!(at(Some(1), 0), (false, Some("sudo sysctl kernel.yama.ptrace_scope=0".into())));
        assert_eq!(at(Some(2), 1 << CAP_SYS_PTRACE), (true, None));
        assert_eq!(at(Some(3), u64::MAX), (false, None));
    }

    #[test]
    fn a_refusal_says_what_is_so_what_is_needed_and_the_command() {
        assert_eq!(
            refusal(Seeing::Futexes, EACCES, &kernel(4, 0)),
            "kernel.perf_event_paranoid is 4, and lock waits need 2 or less; \
             run `sudo sysctl kernel.perf_event_paranoid=2`"
        );
        assert_eq!(
            refusal(Seeing::Switches, ENOSYS, &kernel(2, 0)),
            "this kernel was built without performance events"
        );
        assert!(refusal(Seeing::Switches, EMFILE, &kernel(2, 0)).ends_with("--pid $$`"));
        assert!(refusal(Seeing::Switches, ENOMEM, &kernel(2, 0)).contains("lock no more memory"));
        assert!(refusal(Seeing::Switches, 5, &kernel(2, 0)).contains("error 5"));
        assert!(refusal(Seeing::Switches, EACCES, &kernel(2, 0)).contains("security module"));
    }

    #[test]
    fn small_limits_are_noted() {
        assert_eq!(notes(&kernel(2, 0)), [""; 0]);
        let probe = Probe { mlock_kib: Some(64), open_files: 50, max_sample_hz: Some(500), ..kernel(2, 0) };
        assert_eq!(notes(&probe).len(), 3);
    }

    #[test]
    fn this_machine_can_be_examined() {
        let Some(diagnosis) = crate::examine() else {
            eprintln!("skipped: this system cannot record");
            return;
        };
        assert_eq!(diagnosis.abilities.len(), Seeing::ALL.len());
        for ability in &diagnosis.abilities {
            assert_eq!(diagnosis.can(ability.seeing), ability.works());
        }
    }
}
