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
use holdup_analyze::{Facts, Finding, Frame, Interval, Report, Role, SampleAt, State, Timeline};
use holdup_trace::Pid;

use super::{Directory, Group, Label, headline, timeline};
use crate::recording::name;
use crate::text;
use marker::{FindingMarker, StateMarker, WakeMarker};

/// The profile's time between samples where none were taken; it only scales a graph then.
const DEFAULT_INTERVAL_NS: u64 = 1_000_000;

/// Writes the timeline of `report`.
///
/// # Errors
/// `out` fails, or the analysis kept no timeline.
pub fn write(report: &Report, out: &mut dyn Write) -> io::Result<()> {
    let timeline = timeline(report)?;
    let directory = Directory::new(&report.facts);
    let mut maker = Maker::new(&report.facts);
    for (index, intervals) in timeline.threads.iter().enumerate().take(report.facts.threads.len()) {
        maker.intervals(index, intervals);
    }
    maker.wakes(timeline, &directory);
    maker.samples(timeline);
    maker.findings(&report.findings, &directory);
    let mut out = BufWriter::new(out);
    serde_json::to_writer(&mut out, &maker.profile)?;
    out.flush()
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
    groups: HashMap<Group, CategoryHandle>,
    program: CategoryHandle,
    lock: CategoryHandle,
    runtime: CategoryHandle,
    kernel: CategoryHandle,
    finding: CategoryHandle,
}

impl Categories {
    fn new(profile: &mut Profile) -> Self {
        let groups = Group::ALL.map(|group| (group, profile.add_category(group.name(), color(group))));
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
        self.groups.get(&Group::of(state)).copied().unwrap_or(CategoryHandle::OTHER)
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

fn color(group: Group) -> CategoryColor {
    match group {
        Group::Running => CategoryColor::Green,
        Group::Runnable => CategoryColor::Yellow,
        Group::Lock => CategoryColor::Red,
        Group::Idle => CategoryColor::Gray,
        Group::Blocked => CategoryColor::Orange,
        Group::Lost => CategoryColor::DarkGray,
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

    fn intervals(&mut self, thread: usize, intervals: &[Interval]) {
        for interval in intervals {
            let timing = self.between(interval.from_ns, interval.to_ns);
            let marker = StateMarker {
                name: self.profile.intern_string(Group::of(interval.state).name()),
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
        let mut clocks: Vec<CpuClock<'_>> = vec![CpuClock::default(); self.threads.len()];
        for (clock, intervals) in clocks.iter_mut().zip(&timeline.threads) {
            clock.intervals = intervals;
        }
        for sample in &timeline.samples {
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
            self.profile.add_sample(handle, at, stack, cpu, 1);
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
#[derive(Clone, Default)]
struct CpuClock<'a> {
    /// Those that are not over yet.
    intervals: &'a [Interval],
    last_ns: u64,
}

impl CpuClock<'_> {
    /// CPU time since the last call. Each interval is passed once.
    fn advance(&mut self, time_ns: u64) -> u64 {
        let mut cpu_ns = 0;
        while let Some((interval, rest)) = self.intervals.split_first() {
            if interval.from_ns >= time_ns {
                break;
            }
            if let State::Running { .. } = interval.state {
                let from_ns = interval.from_ns.max(self.last_ns);
                cpu_ns += interval.to_ns.min(time_ns).saturating_sub(from_ns);
            }
            if interval.to_ns > time_ns {
                break;
            }
            self.intervals = rest;
        }
        self.last_ns = self.last_ns.max(time_ns);
        cpu_ns
    }
}
