//! A recording as flat tables, form `holdup-fleet-1`: the facts of [`json`](super::json), a row each, so that engines
//! can ask many recordings at once. docs/fleet.md describes them to who asks, docs/holdup-fleet-1.schema.json is
//! generated from these types, and so are the columns of the Parquet files.
//!
//! A column keeps its meaning under the same form; columns may be added. What several recordings have in common bears
//! the same text in all of them: `lock_name`, `thread_group`, `subject` have neither addresses nor numbers of threads.

use std::collections::HashMap;

use holdup_analyze::{AccountState, Code, Facts, Finding, LockFacts, LockNumber, Site, Subject, ThreadFacts};
use holdup_trace::Tid;
use schemars::JsonSchema;
use serde::Serialize;

use super::{sentences, summary};
use crate::export::parquet::Sheet;
use crate::export::{call_path_text, frame_name};
use crate::recording::Recording;
use crate::recording::name;
use crate::text;

/// What only the exporter knows of a recording.
#[derive(Clone, Debug, Default)]
pub struct Origin {
    /// Its id: a hash of its bytes.
    pub id: String,
    /// What the recorded program is called in the fleet.
    pub service: String,
    /// The host that it ran on.
    pub host: String,
    /// The version of the program, where somebody told.
    pub build: Option<String>,
}

/// The tables of one recording, or of many one after the other.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
#[schemars(title = "The tables of a fleet of recordings")]
pub struct Tables {
    /// The recordings themselves: one row each.
    pub recording: Vec<RecordingRow>,
    /// Where the time of each thread went: a row for each state that it was in. The times of a thread add up to its
    /// life within the recording.
    pub account: Vec<AccountRow>,
    /// What threads waited for on futexes; waits by design are among them, see `contention`.
    pub lock: Vec<LockRow>,
    /// Places of each lock. Rows of the role `wait` add up to the lock's waits: a row without a place has what the
    /// others leave.
    pub lock_site: Vec<LockSiteRow>,
    /// Threads that waited for a lock, and threads that ended waits for it (its former holders).
    pub lock_thread: Vec<LockThreadRow>,
    /// Waits, each followed from waker to waker to what it came from.
    pub blame: Vec<BlameRow>,
    /// What holds threads up.
    pub finding: Vec<FindingRow>,
    /// What the elapsed time is made of: the critical path by what and whose it is.
    pub path: Vec<PathRow>,
    /// CPU samples by function.
    pub function: Vec<FunctionRow>,
}

/// A recording.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct RecordingRow {
    /// The recording, by a hash of its bytes.
    pub recording_id: String,
    /// What the program is called in the fleet, as it was given; `service` of the folder is the same, in which
    /// a name that is no file's name may be shortened.
    pub service_name: String,
    /// The host, likewise.
    pub host_name: String,
    /// The version of the program as it was given with `--build`; null if it was not.
    pub build: Option<String>,
    /// The name of the file that was exported, without its folder.
    pub file: String,
    /// Its size.
    pub file_bytes: u64,
    /// Who recorded: `holdup 0.1.0`, or an importer.
    pub producer: String,
    /// The version of holdup that analysed and exported.
    pub exporter: String,
    /// When it began, in seconds since 1970.
    pub began_unix_s: u64,
    /// Its length.
    pub span_ns: u64,
    /// The command that was started; null if it was running already.
    pub command: Option<String>,
    /// The file that the first process executes, where that is known.
    pub program: Option<String>,
    /// The machine's name for its CPU.
    pub cpu: String,
    /// CPUs that were online.
    pub cpus: u32,
    /// Architecture.
    pub arch: String,
    /// Kernel release.
    pub kernel: String,
    /// Whether threads were only looked at from time to time: counts and short waits say nothing then.
    pub sampled: bool,
    /// Time between two CPU samples of one CPU; 0 for none.
    pub sample_period_ns: u64,
    /// Processes that were seen.
    pub processes: u64,
    /// Threads that were seen.
    pub threads: u64,
    /// Events read.
    pub events: u64,
    /// Events that the kernel could not deliver.
    pub lost_events: u64,
    /// Times a thread left a CPU.
    pub switches: u64,
    /// Of these, those where it could have gone on.
    pub involuntary_switches: u64,
    /// CPU time of all threads.
    pub on_cpu_ns: u64,
    /// Sum of the threads' lives within the recording.
    pub thread_ns: u64,
    /// Time in contended waits, of all threads.
    pub lock_wait_ns: u64,
    /// CPU samples in user code.
    pub user_samples: u64,
    /// CPU samples in the kernel; null if none could be taken there.
    pub kernel_samples: Option<u64>,
    /// Instructions per cycle of all CPUs together; null without counters.
    pub instructions_per_cycle: Option<f64>,
    /// CPU time that the recorder used; null if the recording was cut off.
    pub recorder_cpu_ns: Option<u64>,
    /// What a flight recorder had waited for; null for other recordings.
    pub trigger: Option<String>,
    /// What matters most, as a sentence.
    pub headline: String,
    /// How many findings it has.
    pub findings: u64,
    /// How many reasons there are why no findings would be no all-clear.
    pub doubts: u64,
    /// How many things weaken its figures.
    pub problems: u64,
    /// Parts of the file that could not be read.
    pub damaged_parts: u64,
    /// Whether it has no end: its recorder was killed, or writes still.
    pub cut_off: bool,
}

/// A thread's time in one state.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct AccountRow {
    /// The recording.
    pub recording_id: String,
    /// Number of the process.
    pub pid: u32,
    /// Name of the process.
    pub process: String,
    /// Number of the thread.
    pub tid: u32,
    /// Name of the thread.
    pub thread: String,
    /// Its name without a number at the end: threads that do the same work.
    pub thread_group: String,
    /// The state: `running`, `spinning`, `waiting_for_cpu`, `displaced`, `waiting_for_lock`, `waiting_for_work`,
    /// `waiting_for_threads`, `waiting_for_io`, `waiting_for_memory`, `sleeping` or `unknown`.
    pub state: String,
    /// How long in all.
    pub time_ns: u64,
}

/// A lock, or whatever else threads waited for on a futex.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct LockRow {
    /// The recording.
    pub recording_id: String,
    /// The lock, by its number in the recording.
    pub lock: u64,
    /// The same in other recordings of the program: its variable, or the function that waits for it.
    pub lock_name: String,
    /// As reports of this recording call it, with its address if it has no name.
    pub lock_label: String,
    /// Number of the process.
    pub pid: u32,
    /// What it is: `mutex`, `rwlock`, `condvar` and so on.
    pub primitive: String,
    /// Whether a wait means that another thread is in the way.
    pub contention: bool,
    /// Waits that slept.
    pub waits: u64,
    /// How long in all, from leaving the CPU to running again.
    pub wait_ns: u64,
    /// Half of the waits are no longer.
    pub wait_p50_ns: u64,
    /// 99 of 100 waits are no longer.
    pub wait_p99_ns: u64,
    /// The longest wait.
    pub wait_max_ns: u64,
    /// How long threads gave the CPU away for it before they slept, or in place of that.
    pub yield_ns: u64,
    /// Waits that ended by timeout.
    pub timeouts: u64,
    /// Waits that the kernel answered with `EAGAIN`, or that did not sleep.
    pub eagain_waits: u64,
    /// Calls that woke somebody.
    pub wakes: u64,
    /// Calls that woke nobody.
    pub wasted_wakes: u64,
    /// Most threads that waited at the same time.
    pub max_waiters: u64,
    /// Time during which somebody waited.
    pub contended_ns: u64,
    /// Time that holders ran while others waited.
    pub holder_running_ns: u64,
    /// Time that holders were off the CPU while others waited.
    pub holder_off_ns: u64,
    /// Time of waits whose holder is not known.
    pub holder_unknown_ns: u64,
    /// How long the critical path ran elsewhere because a thread of it waited for this.
    pub path_ns: u64,
}

/// A place of a lock.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct LockSiteRow {
    /// The recording.
    pub recording_id: String,
    /// The lock, by its number in the recording.
    pub lock: u64,
    /// The lock in all recordings.
    pub lock_name: String,
    /// `wait`: where it is waited for; `release`: where it is released; `hold`: what its holders were found executing
    /// while others waited; `holder_off`: where holders left the CPU while others waited.
    pub role: String,
    /// The program's own function there; null where it is not known.
    pub function: Option<String>,
    /// The file or module of that function.
    pub module: Option<String>,
    /// Its source file.
    pub source: Option<String>,
    /// The line.
    pub line: Option<u32>,
    /// All functions of the call path, outermost first, separated by semicolons.
    pub stack: Option<String>,
    /// How often.
    pub count: u64,
    /// How long in all, where it is about time.
    pub time_ns: u64,
}

/// A thread at a lock.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct LockThreadRow {
    /// The recording.
    pub recording_id: String,
    /// The lock, by its number in the recording.
    pub lock: u64,
    /// The lock in all recordings.
    pub lock_name: String,
    /// `waiter`: it waited so often and so long; `holder`: it ended so many waits that had lasted so long.
    pub role: String,
    /// Number of the thread; 0 for threads that were not recorded.
    pub tid: u32,
    /// Its name.
    pub thread: String,
    /// Its name without a number at the end.
    pub thread_group: String,
    /// How many waits.
    pub count: u64,
    /// How long these lasted in all.
    pub time_ns: u64,
}

/// A wait, and what it came from.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct BlameRow {
    /// The recording.
    pub recording_id: String,
    /// Number of the thread that waits.
    pub waiter_tid: u32,
    /// Its name without a number at the end.
    pub waiter_group: String,
    /// What it waits for, by its number among the locks; null for what is no futex.
    pub lock: Option<u64>,
    /// The lock in all recordings.
    pub lock_name: Option<String>,
    /// What its waker waited for in turn.
    pub via_lock_name: Option<String>,
    /// What the chain ended in: `running`, `yielding`, `cpu`, `other_programs`, `io`, `memory`, `sleep`, `outside` or
    /// `unknown`.
    pub leaf: String,
    /// Number of the thread whose doing that was; 0 if nobody's that is known.
    pub tid: u32,
    /// Its name without a number at the end.
    pub thread_group: String,
    /// Where that thread left the CPU, or where it runs mostly: the program's own function.
    pub function: Option<String>,
    /// The file, pipe or socket that it was found blocked on.
    pub file: Option<String>,
    /// How long in all.
    pub time_ns: u64,
}

/// A finding.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct FindingRow {
    /// The recording.
    pub recording_id: String,
    /// Its number in the report, from 1, worst first.
    pub number: u64,
    /// Its kind, as docs/findings.md has them.
    pub kind: String,
    /// The share of the elapsed time that would go if the cause went, 0 to 1.
    pub severity_share: f64,
    /// By how much the program could get faster at most without the cause; null where nobody knows.
    pub bound: Option<f64>,
    /// What it is about, the same in all recordings: locks and functions by name, threads by group.
    pub subject: String,
    /// The lock that it is about, by its number; null if it is about none.
    pub lock: Option<u64>,
    /// The lock in all recordings.
    pub lock_name: Option<String>,
    /// Where: the program's own function.
    pub function: Option<String>,
    /// The finding as a sentence.
    pub what: String,
    /// What to try.
    pub cure: String,
    /// The command that tests the cure.
    pub proof: String,
    /// What was seen, as JSON: an array of objects with name, value, unit.
    pub evidence: String,
}

/// A part of the critical path.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct PathRow {
    /// The recording.
    pub recording_id: String,
    /// What: as `leaf` of `blame`.
    pub leaf: String,
    /// Number of the thread; 0 if nobody's that is known.
    pub tid: u32,
    /// Its name without a number at the end.
    pub thread_group: String,
    /// Where it left the CPU, or where it runs mostly: the program's own function.
    pub function: Option<String>,
    /// The file, pipe or socket that it was found blocked on.
    pub file: Option<String>,
    /// How long in all.
    pub time_ns: u64,
}

/// CPU samples of a function.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct FunctionRow {
    /// The recording.
    pub recording_id: String,
    /// The function; its module and offset where nothing names it.
    pub function: String,
    /// The file that it is in.
    pub module: String,
    /// Whose code it is: `program`, `lock`, `runtime`, `scheduler` or `kernel`.
    pub role: String,
    /// Samples with it innermost.
    pub samples: u64,
    /// Samples with it anywhere on the stack.
    pub samples_inclusive: u64,
    /// CPU time by the samples with it innermost.
    pub cpu_ns: u64,
}

impl Tables {
    /// The rows of one recording.
    pub fn new(recording: &Recording, origin: &Origin) -> Tables {
        let rows = Rows::new(recording, origin);
        Tables {
            recording: vec![rows.recording()],
            account: rows.account(),
            lock: rows.locks(),
            lock_site: rows.lock_sites(),
            lock_thread: rows.lock_threads(),
            blame: rows.blame(),
            finding: rows.findings(),
            path: rows.path(),
            function: rows.functions(),
        }
    }

    /// As columns, for files.
    pub fn sheets(&self) -> [Sheet; 9] {
        [
            Sheet::of("recording", &self.recording),
            Sheet::of("account", &self.account),
            Sheet::of("lock", &self.lock),
            Sheet::of("lock_site", &self.lock_site),
            Sheet::of("lock_thread", &self.lock_thread),
            Sheet::of("blame", &self.blame),
            Sheet::of("finding", &self.finding),
            Sheet::of("path", &self.path),
            Sheet::of("function", &self.function),
        ]
    }
}

/// What rows are made of.
struct Rows<'a> {
    recording: &'a Recording,
    facts: &'a Facts,
    origin: &'a Origin,
    /// The names of the locks in all recordings.
    names: Vec<String>,
    /// The names of threads; of several with one number, the last one's.
    threads: HashMap<Tid, String>,
}

impl<'a> Rows<'a> {
    fn new(recording: &'a Recording, origin: &'a Origin) -> Rows<'a> {
        let facts = &recording.report.facts;
        let named = |thread: &ThreadFacts| (thread.tid, text::clean(name::thread_name(facts, thread)));
        Rows {
            recording,
            facts,
            origin,
            names: facts.locks.iter().map(name::lock_in_any_run).collect(),
            threads: facts.threads.iter().map(named).filter(|(tid, _)| *tid != Tid(0)).collect(),
        }
    }

    fn id(&self) -> String {
        self.origin.id.clone()
    }

    fn recording(&self) -> RecordingRow {
        let (facts, report) = (self.facts, &self.recording.report);
        let (header, totals, ending) = (&facts.header, &facts.totals, facts.ending.as_ref());
        let command = (!header.target.command.is_empty()).then(|| text::clean(&header.target.command.join(" ")));
        let file = self.recording.path.file_name().unwrap_or_default().to_string_lossy();
        RecordingRow {
            recording_id: self.id(),
            service_name: text::clean(&self.origin.service),
            host_name: text::clean(&self.origin.host),
            build: self.origin.build.as_deref().map(text::clean),
            file: text::clean(&file),
            file_bytes: self.recording.file_bytes,
            producer: text::clean(&header.producer),
            exporter: env!("CARGO_PKG_VERSION").to_owned(),
            began_unix_s: header.began_unix_s,
            span_ns: facts.span_ns(),
            command,
            program: facts.processes.first().and_then(|process| process.program.as_deref()).map(text::clean),
            cpu: text::clean(&header.machine.cpu),
            cpus: header.machine.cpus,
            arch: text::clean(&header.machine.arch),
            kernel: text::clean(&header.machine.kernel),
            sampled: header.is_sampled(),
            sample_period_ns: header.sample_period_ns,
            processes: facts.processes.len() as u64,
            threads: facts.threads.len() as u64,
            events: totals.events,
            lost_events: totals.lost,
            switches: totals.switches,
            involuntary_switches: totals.involuntary,
            on_cpu_ns: totals.on_cpu_ns,
            thread_ns: totals.thread_ns,
            lock_wait_ns: totals.lock_wait_ns,
            user_samples: totals.user_samples,
            kernel_samples: totals.kernel_samples,
            instructions_per_cycle: facts.efficiency.instructions_per_cycle,
            recorder_cpu_ns: ending.map(|ending| ending.recorder_cpu_ns),
            trigger: ending.and_then(|ending| ending.trigger.as_ref()).map(|trigger| text::clean(&trigger.condition)),
            headline: summary::headline(self.recording),
            findings: report.findings.len() as u64,
            doubts: report.doubts.len() as u64,
            problems: report.problems.len() as u64,
            damaged_parts: self.recording.damage.len() as u64,
            cut_off: ending.is_none(),
        }
    }

    fn account(&self) -> Vec<AccountRow> {
        let process = |pid| self.facts.processes.iter().find(|process| process.pid == pid);
        let mut rows = Vec::new();
        for thread in &self.facts.threads {
            let name = text::clean(name::thread_name(self.facts, thread));
            let row = AccountRow {
                recording_id: self.id(),
                pid: thread.pid.0,
                process: process(thread.pid).map(|process| text::clean(&process.name)).unwrap_or_default(),
                tid: thread.tid.0,
                thread_group: name::without_number(&name),
                thread: name,
                ..AccountRow::default()
            };
            let times = AccountState::ALL.map(|state| (state, thread.account.of(state)));
            let known = times.into_iter().filter(|(_, time_ns)| *time_ns > 0);
            rows.extend(known.map(|(state, time_ns)| AccountRow {
                state: state.name().to_owned(),
                time_ns,
                ..row.clone()
            }));
        }
        rows
    }

    fn locks(&self) -> Vec<LockRow> {
        self.facts
            .numbered_locks()
            .zip(&self.names)
            .map(|((number, lock), name)| self.lock(number, lock, name))
            .collect()
    }

    fn lock(&self, number: LockNumber, lock: &LockFacts, name: &str) -> LockRow {
        let on_path = self.facts.path.locks.iter().find(|(other, _)| *other == number);
        LockRow {
            recording_id: self.id(),
            lock: number.index() as u64,
            lock_name: name.to_owned(),
            lock_label: name::lock(lock),
            pid: lock.pid.0,
            primitive: word(&lock.primitive),
            contention: lock.primitive.is_contention(),
            waits: lock.waits,
            wait_ns: lock.wait_ns.sum_ns(),
            wait_p50_ns: lock.wait_ns.median_ns(),
            wait_p99_ns: lock.wait_ns.quantile_ns(0.99),
            wait_max_ns: lock.wait_ns.max_ns(),
            yield_ns: lock.yield_ns,
            timeouts: lock.timeouts,
            eagain_waits: lock.eagain_waits,
            wakes: lock.wakes,
            wasted_wakes: lock.wasted_wakes,
            max_waiters: u64::from(lock.max_waiters),
            contended_ns: lock.contended_ns,
            holder_running_ns: lock.holder_doing.running_ns,
            holder_off_ns: lock.holder_doing.off.values().copied().fold(0, u64::saturating_add),
            holder_unknown_ns: lock.holder_doing.unknown_ns,
            path_ns: on_path.map_or(0, |(_, ns)| *ns),
        }
    }

    fn lock_sites(&self) -> Vec<LockSiteRow> {
        let mut rows = Vec::new();
        for ((number, lock), name) in self.facts.numbered_locks().zip(&self.names) {
            let row = LockSiteRow {
                recording_id: self.id(),
                lock: number.index() as u64,
                lock_name: name.clone(),
                ..LockSiteRow::default()
            };
            let roles = [
                ("wait", &lock.wait_sites),
                ("release", &lock.wake_sites),
                ("hold", &lock.hold_sites),
                ("holder_off", &lock.holder_doing.off_sites),
            ];
            for (role, sites) in roles {
                rows.extend(
                    sites.iter().map(|site| at_site(LockSiteRow { role: role.to_owned(), ..row.clone() }, site)),
                );
            }
            let told = |of: fn(&Site) -> u64| lock.wait_sites.iter().map(of).fold(0, u64::saturating_add);
            let count = lock.waits.saturating_sub(told(|site| site.count));
            let time_ns = lock.wait_ns.sum_ns().saturating_sub(told(|site| site.ns));
            if count > 0 || time_ns > 0 {
                rows.push(LockSiteRow { role: "wait".to_owned(), count, time_ns, ..row });
            }
        }
        rows
    }

    fn lock_threads(&self) -> Vec<LockThreadRow> {
        let mut rows = Vec::new();
        for ((number, lock), name) in self.facts.numbered_locks().zip(&self.names) {
            let row = |role: &str, tid: Tid, count, time_ns| LockThreadRow {
                recording_id: self.id(),
                lock: number.index() as u64,
                lock_name: name.clone(),
                role: role.to_owned(),
                tid: tid.0,
                thread: self.thread(tid),
                thread_group: self.group(tid),
                count,
                time_ns,
            };
            rows.extend(lock.waiters.iter().map(|(tid, time)| row("waiter", *tid, time.count, time.ns)));
            rows.extend(lock.holders.iter().map(|holder| row("holder", holder.tid, holder.count, holder.ns)));
        }
        rows
    }

    fn blame(&self) -> Vec<BlameRow> {
        let rows = self.facts.blame.iter().map(|row| BlameRow {
            recording_id: self.id(),
            waiter_tid: row.waiter.0,
            waiter_group: self.group(row.waiter),
            lock: row.lock.map(|lock| lock.index() as u64),
            lock_name: self.lock_name(row.lock),
            via_lock_name: self.lock_name(row.via),
            leaf: word(&row.leaf),
            tid: row.thread.0,
            thread_group: self.group(row.thread),
            function: row.site.as_ref().and_then(function),
            file: row.file.as_deref().map(text::clean),
            time_ns: row.ns,
        });
        rows.collect()
    }

    fn findings(&self) -> Vec<FindingRow> {
        (1..).zip(&self.recording.report.findings).map(|(number, finding)| self.finding(number, finding)).collect()
    }

    fn finding(&self, number: u64, finding: &Finding) -> FindingRow {
        let words = sentences::of(self.recording, finding);
        let lock = finding.subjects.iter().find_map(|subject| match subject {
            Subject::Lock { number, .. } => Some(*number),
            _ => None,
        });
        let mut subjects: Vec<String> = finding.subjects.iter().map(|subject| self.subject(subject)).collect();
        subjects.sort();
        subjects.dedup();
        FindingRow {
            recording_id: self.id(),
            number,
            kind: finding.kind.name().to_owned(),
            severity_share: finding.severity,
            bound: finding.bound,
            subject: if subjects.is_empty() { "the whole program".to_owned() } else { subjects.join(", ") },
            lock: lock.map(|lock| lock.index() as u64),
            lock_name: self.lock_name(lock),
            function: finding.place.as_ref().and_then(function),
            what: words.what,
            cure: words.cure.to_owned(),
            proof: words.proof.words().join(" "),
            evidence: serde_json::to_string(&finding.evidence).unwrap_or_default(),
        }
    }

    /// A subject without what differs from run to run.
    fn subject(&self, subject: &Subject) -> String {
        match subject {
            Subject::Lock { number, name, .. } => {
                self.lock_name(Some(*number)).unwrap_or_else(|| name::lock_short(name, None))
            }
            Subject::Thread { tid, .. } => self.group(*tid),
            Subject::Process { name, .. } => text::clean(name),
            Subject::Variable(_) | Subject::Function(_) => name::subject(self.facts, subject),
        }
    }

    fn path(&self) -> Vec<PathRow> {
        let rows = self.facts.path.parts.iter().map(|part| PathRow {
            recording_id: self.id(),
            leaf: word(&part.leaf),
            tid: part.thread.0,
            thread_group: self.group(part.thread),
            function: part.site.as_ref().and_then(function),
            file: part.file.as_deref().map(text::clean),
            time_ns: part.ns,
        });
        rows.collect()
    }

    fn functions(&self) -> Vec<FunctionRow> {
        let period_ns = self.facts.header.sample_period_ns;
        let row = |code: &Code| FunctionRow {
            recording_id: self.id(),
            function: frame_name(&code.frame),
            module: text::clean(&code.frame.module),
            role: word(&code.frame.role),
            samples: code.hits,
            samples_inclusive: code.inclusive,
            cpu_ns: code.hits.saturating_mul(period_ns),
        };
        self.facts.symbols.iter().map(row).collect()
    }

    fn lock_name(&self, lock: Option<LockNumber>) -> Option<String> {
        self.names.get(lock?.index()).cloned()
    }

    /// A thread's name; empty if nothing names it.
    fn thread(&self, tid: Tid) -> String {
        self.threads.get(&tid).cloned().unwrap_or_default()
    }

    fn group(&self, tid: Tid) -> String {
        name::without_number(&self.thread(tid))
    }
}

/// The row with a place in it.
fn at_site(row: LockSiteRow, site: &Site) -> LockSiteRow {
    let caller = site.caller();
    LockSiteRow {
        function: caller.map(frame_name),
        module: caller.map(|frame| text::clean(&frame.module)),
        source: caller.and_then(|frame| frame.file.as_deref()).map(text::clean),
        line: caller.and_then(|frame| frame.line),
        stack: (!site.call_path.is_empty()).then(|| call_path_text(&site.call_path)),
        count: site.count,
        time_ns: site.ns,
        ..row
    }
}

fn function(site: &Site) -> Option<String> {
    site.caller().map(frame_name)
}

/// A value of an enum as its JSON has it.
fn word(value: &impl Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(word)) => word,
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{json, specimen};
    use super::*;

    fn all() -> [Recording; 4] {
        [specimen::held_up(), specimen::healthy(), specimen::empty(), specimen::hostile()]
    }

    /// What JSON has, rounded as readers would.
    fn close(table: u64, json: f64) -> bool {
        (table as f64 - json).abs() <= json.abs() * 0.001
    }

    #[test]
    fn sums_of_the_tables_are_those_of_the_json() {
        for recording in all() {
            let tables = Tables::new(&recording, &Origin::default());
            let json = serde_json::to_value(json::Report::new(&recording)).unwrap();
            let sum_of = |array: &str, path: &str| -> f64 {
                json[array].as_array().unwrap().iter().map(|one| one.pointer(path).unwrap().as_f64().unwrap()).sum()
            };
            let waits: u64 = tables.lock.iter().map(|row| row.wait_ns).sum();
            assert!(close(waits, sum_of("locks", "/wait_ns/sum_ns")));
            let at_sites = tables.lock_site.iter().filter(|row| row.role == "wait");
            assert!(at_sites.map(|row| row.time_ns).sum::<u64>() >= waits, "a place without a name has the rest");
            assert!(close(tables.blame.iter().map(|row| row.time_ns).sum(), sum_of("blame", "/time_ns")));
            assert!(close(tables.path.iter().map(|row| row.time_ns).sum(), sum_of("path", "/time_ns")));
            assert!(close(tables.function.iter().map(|row| row.samples).sum(), sum_of("symbols", "/hits")));
            assert_eq!(tables.finding.len(), json["findings"].as_array().unwrap().len());
            let whole: u64 = tables.account.iter().map(|row| row.time_ns).sum();
            for state in AccountState::ALL {
                let rows = tables.account.iter().filter(|row| row.state == state.name());
                let share = json["account"][state.name()].as_f64().unwrap();
                // The sums over threads and over the program are kept apart in made-up facts.
                let of_threads = recording.report.facts.threads.iter().map(|thread| thread.account.of(state));
                assert_eq!(rows.map(|row| row.time_ns).sum::<u64>(), of_threads.sum::<u64>(), "{share} of {whole}");
            }
            let row = &tables.recording[0];
            assert_eq!(row.lock_wait_ns, json["totals"]["lock_wait_ns"].as_u64().unwrap());
            assert_eq!(row.on_cpu_ns, json["totals"]["on_cpu_ns"].as_u64().unwrap());
        }
    }

    #[test]
    fn names_of_several_recordings_have_no_addresses_and_hostile_ones_stay_text() {
        for recording in all() {
            let tables = Tables::new(&recording, &Origin { service: "a\u{1b}[31m".to_owned(), ..Origin::default() });
            for row in &tables.lock {
                assert!(!row.lock_name.contains("0x"), "{}", row.lock_name);
            }
            let text = serde_json::to_string(&tables).unwrap();
            assert!(!text.contains("\\u001b") && !text.contains("\\u0000") && !text.contains("\\n"), "{text}");
        }
    }
}
