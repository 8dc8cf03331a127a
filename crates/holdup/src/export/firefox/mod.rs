//! A profile for the Firefox Profiler (profiler.firefox.com), in its "processed" JSON format.
//!
//! CPU samples with call paths make its call tree and flame graph; every stretch of a thread's life is a marker, named
//! by what it is and labelled with its lock or CPU; wake-ups and the moments of findings are markers too. Functions are
//! named here, so the profile needs no symbol server and opens anywhere.

mod marker;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::io::{self, BufWriter, Write};
use std::time::Duration;

use fxprof_processed_profile::{
    CategoryColor, CategoryHandle, CpuDelta, Frame as ProfileFrame, FrameFlags, FrameInfo, MarkerTiming, ProcessHandle,
    Profile, ReferenceTimestamp, SamplingInterval, StackHandle, StringHandle, ThreadHandle, Timestamp,
};
use holdup_analyze::{AccountState, Facts, Finding, Frame, Interval, Report, Role, Row, SampleAt, State, Timeline};
use holdup_trace::Pid;

use super::{Directory, Label, group, headline, timeline};
use crate::recording::name;
use crate::text;
use marker::{FindingMarker, StateMarker, WakeMarker};

/// The profile's time between samples where none were taken; it only scales a graph then.
const DEFAULT_INTERVAL_NS: u64 = 1_000_000;

/// Stretches and wake-ups that a profile has at most: the profiler's page reads a file as a whole, and one of these is
/// 60 bytes of it.
const MOST_MARKERS: usize = 1_300_000;

/// CPU samples that a profile has at most; of more, every second, every third, and so on, with that weight.
const MOST_SAMPLES: usize = 500_000;

/// What a profile does not have: wake-ups, and the shorter stretches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeftOut {
    /// Stretches that it has.
    pub shown: usize,
    /// Stretches that there are.
    pub all: usize,
    /// The least length of those that it has.
    pub least_ns: u64,
}

/// Writes the timeline of `report`; tells what of it found no room.
///
/// # Errors
/// `out` fails, or the analysis kept no timeline.
pub fn write(report: &Report, out: &mut dyn Write) -> io::Result<Option<LeftOut>> {
    write_at_most(report, MOST_MARKERS, out)
}

fn write_at_most(report: &Report, markers: usize, out: &mut dyn Write) -> io::Result<Option<LeftOut>> {
    let timeline = timeline(report)?;
    let directory = Directory::new(&report.facts);
    let room = Room::new(timeline, markers);
    let mut maker = Maker::new(&report.facts);
    for index in 0..report.facts.threads.len() {
        let shown = |interval: &Interval| interval.to_ns - interval.from_ns >= room.least_ns;
        maker.intervals(index, timeline.intervals(index).filter(shown));
    }
    if room.has_all {
        maker.wakes(timeline, &directory);
    }
    maker.samples(timeline);
    maker.findings(&report.findings, &directory);
    let mut out = BufWriter::new(out);
    serde_json::to_writer(&mut out, &maker.profile)?;
    out.flush()?;
    Ok(room.left_out())
}

/// What a profile has room for.
struct Room {
    has_all: bool,
    /// Shorter stretches are left out.
    least_ns: u64,
    shown: usize,
    all: usize,
}

impl Room {
    /// Where not all markers fit, wake-ups go first, then stretches shorter than a power of two.
    fn new(timeline: &Timeline, markers: usize) -> Room {
        let all: usize = timeline.threads.iter().map(Row::len).sum();
        if all + 2 * timeline.wakes.len() <= markers {
            return Room { has_all: true, least_ns: 0, shown: all, all };
        }
        let mut by_length = [0_usize; 64];
        for (from_ns, to_ns, _) in timeline.threads.iter().flat_map(Row::stretches) {
            by_length[(to_ns - from_ns).max(1).ilog2() as usize] += 1;
        }
        let mut shown = 0;
        let longest_first = (0..64).rev();
        let fits = |power: &usize| {
            shown += by_length[*power];
            shown <= markers
        };
        let least = longest_first.take_while(fits).filter(|power| by_length[*power] > 0).last().unwrap_or(63);
        let least_ns = if least == 0 { 0 } else { 1 << least };
        Room { has_all: false, least_ns, shown: by_length[least..].iter().sum(), all }
    }

    fn left_out(&self) -> Option<LeftOut> {
        (!self.has_all).then_some(LeftOut { shown: self.shown, all: self.all, least_ns: self.least_ns })
    }
}

/// The profile under way.
struct Maker<'a> {
    facts: &'a Facts,
    profile: Profile,
    /// In the order of the facts.
    threads: Vec<ThreadHandle>,
    categories: Categories,
    labels: HashMap<Label, StringHandle>,
    /// Time 0 of the profile.
    zero_ns: u64,
}

/// Colour groups: of markers, and of frames.
struct Categories {
    groups: HashMap<AccountState, CategoryHandle>,
    program: CategoryHandle,
    lock: CategoryHandle,
    runtime: CategoryHandle,
    kernel: CategoryHandle,
    finding: CategoryHandle,
}

impl Categories {
    fn new(profile: &mut Profile) -> Self {
        let groups =
            AccountState::ALL.map(|group| (group, profile.add_category(name::account_state(group), color(group))));
        Categories {
            groups: groups.into_iter().collect(),
            program: profile.add_category("program", CategoryColor::Blue),
            lock: profile.add_category("locks", CategoryColor::Red),
            runtime: profile.add_category("libraries", CategoryColor::Purple),
            kernel: profile.add_category("kernel", CategoryColor::Orange),
            finding: profile.add_category("findings", CategoryColor::Magenta),
        }
    }

    fn of_state(&self, state: State) -> CategoryHandle {
        self.groups.get(&group(state)).copied().unwrap_or(CategoryHandle::OTHER)
    }

    fn of_frame(&self, role: Role) -> CategoryHandle {
        match role {
            Role::Program => self.program,
            Role::Lock => self.lock,
            Role::Runtime => self.runtime,
            Role::Scheduler | Role::Kernel => self.kernel,
        }
    }
}

fn color(group: AccountState) -> CategoryColor {
    match group {
        AccountState::Running => CategoryColor::Green,
        AccountState::Spinning => CategoryColor::LightGreen,
        AccountState::CpuOwn | AccountState::CpuOther => CategoryColor::Yellow,
        AccountState::Lock => CategoryColor::Red,
        AccountState::Work => CategoryColor::LightBlue,
        AccountState::Barrier => CategoryColor::Purple,
        AccountState::Io => CategoryColor::Orange,
        AccountState::Memory => CategoryColor::Brown,
        AccountState::Sleep => CategoryColor::Gray,
        AccountState::Unknown => CategoryColor::DarkGray,
    }
}

impl<'a> Maker<'a> {
    fn new(facts: &'a Facts) -> Self {
        let header = &facts.header;
        let began = ReferenceTimestamp::from_duration_since_unix_epoch(Duration::from_secs(header.began_unix_s));
        let interval_ns = if header.sample_period_ns > 0 { header.sample_period_ns } else { DEFAULT_INTERVAL_NS };
        let product = header.target.command.first().map_or("holdup", String::as_str);
        let mut profile = Profile::new(&text::clean(product), began, SamplingInterval::from_nanos(interval_ns));
        profile.set_os_name(&text::clean(&format!("Linux {}", header.machine.kernel)));
        let categories = Categories::new(&mut profile);
        let zero_ns = if header.began_ns > 0 { header.began_ns } else { facts.start_ns };
        let mut maker = Maker { facts, profile, threads: Vec::new(), categories, labels: HashMap::new(), zero_ns };
        maker.add_threads();
        maker
    }

    /// Moments before the beginning are put there.
    fn at(&self, time_ns: u64) -> Timestamp {
        Timestamp::from_nanos_since_reference(time_ns.saturating_sub(self.zero_ns))
    }

    fn between(&self, from_ns: u64, to_ns: u64) -> MarkerTiming {
        MarkerTiming::Interval(self.at(from_ns), self.at(to_ns.max(from_ns)))
    }

    fn add_threads(&mut self) {
        let mut processes: HashMap<Pid, ProcessHandle> = HashMap::new();
        for thread in &self.facts.threads {
            let born = self.at(thread.born_ns);
            let process = *processes.entry(thread.pid).or_insert_with(|| {
                let known = self.facts.processes.iter().find(|process| process.pid == thread.pid);
                let name = known.map_or_else(String::new, |process| text::clean(&process.name));
                self.profile.add_process(&name, thread.pid.0, born)
            });
            let is_main = thread.tid.0 == thread.pid.0;
            let handle = self.profile.add_thread(process, thread.tid.0, born, is_main);
            self.profile.set_thread_name(handle, &name::thread_named(thread));
            self.profile.set_thread_show_markers_in_timeline(handle, true);
            if thread.exited {
                let ended = self.at(thread.ended_ns);
                self.profile.set_thread_end_time(handle, ended);
            }
            self.threads.push(handle);
        }
    }

    fn intervals(&mut self, thread: usize, intervals: impl Iterator<Item = Interval>) {
        for interval in intervals {
            let timing = self.between(interval.from_ns, interval.to_ns);
            let marker = StateMarker {
                name: self.profile.intern_string(name::account_state(group(interval.state))),
                what: self.label(interval.state),
                category: self.categories.of_state(interval.state),
            };
            self.profile.add_marker(self.threads[thread], timing, marker);
        }
    }

    fn label(&mut self, state: State) -> StringHandle {
        let label = Label::of(state);
        let (facts, profile) = (self.facts, &mut self.profile);
        *self.labels.entry(label).or_insert_with(|| profile.intern_string(&label.text(facts)))
    }

    fn wakes(&mut self, timeline: &Timeline, directory: &Directory<'_>) {
        let names: Vec<StringHandle> =
            self.facts.threads.iter().map(|thread| self.profile.intern_string(&name::thread_named(thread))).collect();
        let (wakes, woken) = (self.profile.intern_string("wakes"), self.profile.intern_string("woken by"));
        for wake in &timeline.wakes {
            let from = directory.at(wake.from, wake.time_ns);
            let to = directory.at(wake.to, wake.time_ns);
            let (Some(from), Some(to)) = (from, to) else { continue };
            let timing = MarkerTiming::Instant(self.at(wake.time_ns));
            let waker = WakeMarker { name: wakes, other: names[to] };
            self.profile.add_marker(self.threads[from], timing.clone(), waker);
            let sleeper = WakeMarker { name: woken, other: names[from] };
            self.profile.add_marker(self.threads[to], timing, sleeper);
        }
    }

    fn samples(&mut self, timeline: &Timeline) {
        let call_paths: Vec<Vec<FrameInfo>> =
            timeline.call_paths.iter().map(|call_path| self.frames(call_path)).collect();
        let mut stacks: HashMap<(u32, u32), Option<StackHandle>> = HashMap::new();
        let mut clocks: Vec<_> =
            (0..self.threads.len()).map(|thread| CpuClock::new(timeline.intervals(thread))).collect();
        let step = timeline.samples.len().div_ceil(MOST_SAMPLES).max(1);
        for sample in timeline.samples.iter().step_by(step) {
            let SampleAt { time_ns, thread, call_path } = *sample;
            let (Some(&handle), Some(frames)) = (self.threads.get(thread as usize), call_paths.get(call_path as usize))
            else {
                continue;
            };
            let profile = &mut self.profile;
            let intern = || profile.intern_stack_frames(handle, frames.iter().cloned());
            let stack = *stacks.entry((thread, call_path)).or_insert_with(intern);
            let cpu = CpuDelta::from_nanos(clocks[thread as usize].advance(time_ns));
            let at = self.at(time_ns);
            self.profile.add_sample(handle, at, stack, cpu, step as i32);
        }
    }

    /// A call path as the profile has it: outermost frame first.
    fn frames(&mut self, call_path: &[Frame]) -> Vec<FrameInfo> {
        let mut info = |frame: &Frame| FrameInfo {
            frame: ProfileFrame::Label(self.profile.intern_string(&function(frame))),
            category_pair: self.categories.of_frame(frame.role).into(),
            flags: FrameFlags::empty(),
        };
        call_path.iter().rev().map(&mut info).collect()
    }

    fn findings(&mut self, findings: &[Finding], directory: &Directory<'_>) {
        for finding in findings {
            let marker = FindingMarker {
                name: self.profile.intern_string(finding.kind.name()),
                about: self.profile.intern_string(&headline(self.facts, finding)),
                category: self.categories.finding,
            };
            for moment in &finding.moments {
                let Some(thread) = directory.at(moment.tid, moment.from_ns) else { continue };
                let timing = self.between(moment.from_ns, moment.to_ns);
                self.profile.add_marker(self.threads[thread], timing, marker.clone());
            }
        }
    }
}

/// A function with its file, or the module and the offset.
fn function(frame: &Frame) -> String {
    match &frame.function {
        Some(function) => text::clean(function),
        None => name::module_and_offset(frame),
    }
}

/// How much CPU time a thread had from one of its samples to the next.
struct CpuClock<I: Iterator<Item = Interval>> {
    /// Those that are not over yet.
    intervals: std::iter::Peekable<I>,
    last_ns: u64,
}

impl<I: Iterator<Item = Interval>> CpuClock<I> {
    fn new(intervals: I) -> Self {
        CpuClock { intervals: intervals.peekable(), last_ns: 0 }
    }

    /// CPU time since the last call. Each interval is passed once.
    fn advance(&mut self, time_ns: u64) -> u64 {
        let mut cpu_ns = 0;
        while let Some(interval) = self.intervals.peek().copied().filter(|interval| interval.from_ns < time_ns) {
            if let State::Running { .. } = interval.state {
                let from_ns = interval.from_ns.max(self.last_ns);
                cpu_ns += interval.to_ns.min(time_ns).saturating_sub(from_ns);
            }
            if interval.to_ns > time_ns {
                break;
            }
            self.intervals.next();
        }
        self.last_ns = self.last_ns.max(time_ns);
        cpu_ns
    }
}
