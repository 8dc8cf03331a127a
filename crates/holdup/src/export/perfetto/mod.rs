//! A Perfetto trace, for ui.perfetto.dev and its trace processor.
//!
//! Each thread is a track with a slice for every stretch of running (by CPU), waiting (by lock) and everything else;
//! wake-ups are flows from an instant on the waker's track to the slice that the woken thread begins then; CPU samples
//! are stack samples (a kind of packet that Perfetto reads since 2026; older ones pass it over); the moments of
//! findings are instants on a track of their own. Everything is one packet sequence on the clock CLOCK_MONOTONIC.

mod proto;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::io::{self, BufWriter, Write};
use std::sync::Arc;

use holdup_analyze::{AccountState, Facts, Finding, Frame, Interval, Report, Role, SampleAt, State, Timeline, Wake};
use prost::Message;

use super::{Directory, Label, group, headline, timeline};
use crate::recording::name;
use crate::text;
use proto::{
    Callstack, Clock, ClockSnapshot, CounterDescriptor, DebugAnnotation, ExecutionContext, InternedData, InternedFrame,
    InternedString, Mapping, NamedId, ProcessDescriptor, StackSample, StackSampleDefaults, TaskContext,
    ThreadDescriptor, TracePacket, TracePacketDefaults, TrackDescriptor, TrackEvent, builtin_clock, mode,
    sequence_flag, unit,
};

/// Our packets are one sequence; any number but 0.
const SEQUENCE: u32 = 1;
/// Tracks have numbers above this, which keeps them apart from those of traces that ours is merged with ("hol" in
/// ASCII), and short.
const TRACKS: u64 = 0x68_6f6c;
const FINDINGS_TRACK: u64 = TRACKS;

/// Writes the timeline of `report`.
///
/// # Errors
/// `out` fails, or the analysis kept no timeline.
pub fn write(report: &Report, out: &mut dyn Write) -> io::Result<()> {
    let timeline = timeline(report)?;
    let facts = &report.facts;
    let directory = Directory::new(facts);
    let mut trace = Trace::new(BufWriter::new(out), facts);
    trace.begin()?;
    trace.tracks(!report.findings.is_empty())?;
    let arrivals = trace.wakes(timeline, &directory)?;
    for (index, arrivals) in arrivals.iter().enumerate() {
        trace.intervals(index, timeline.intervals(index), arrivals)?;
    }
    trace.samples(timeline)?;
    trace.findings(&report.findings, &directory)?;
    trace.out.flush()
}

/// A wake-up on its way: when, and the number of its flow.
type Arrival = (u64, u64);

/// The trace under way.
struct Trace<'a, W: Write> {
    out: W,
    facts: &'a Facts,
    buffer: Vec<u8>,
    interned: Interned,
    /// Names that the next packet must tell because it is the first to use them.
    news: InternedData,
}

/// What was told already, by number; every kind of thing is numbered from 1.
#[derive(Default)]
struct Interned {
    /// Names of events; those of labels are found without making them again.
    names: HashMap<String, u64>,
    labels: HashMap<Label, u64>,
    groups: HashMap<AccountState, u64>,
    annotations: HashMap<&'static str, u64>,
    functions: HashMap<Arc<str>, u64>,
    sources: HashMap<Arc<str>, u64>,
    mappings: HashMap<Arc<str>, u64>,
    frames: HashMap<Frame, u64>,
}

impl<'a, W: Write> Trace<'a, W> {
    fn new(out: W, facts: &'a Facts) -> Self {
        Trace { out, facts, buffer: Vec::new(), interned: Interned::default(), news: InternedData::default() }
    }

    /// One packet: field 1 of the message `Trace`.
    fn packet(&mut self, mut packet: TracePacket) -> io::Result<()> {
        packet.trusted_packet_sequence_id = Some(SEQUENCE);
        packet.sequence_flags.get_or_insert(sequence_flag::NEEDS_INCREMENTAL_STATE);
        if self.news != InternedData::default() {
            packet.interned_data = Some(std::mem::take(&mut self.news));
        }
        self.buffer.clear();
        self.buffer.push(1 << 3 | 2);
        packet.encode_length_delimited(&mut self.buffer).map_err(io::Error::other)?;
        self.out.write_all(&self.buffer)
    }

    fn event(&mut self, time_ns: u64, event: TrackEvent) -> io::Result<()> {
        self.packet(TracePacket { timestamp: Some(time_ns), track_event: Some(event), ..Default::default() })
    }

    /// The clock, and what holds for all packets.
    fn begin(&mut self) -> io::Result<()> {
        let header = &self.facts.header;
        let clock = |id, timestamp| Clock { clock_id: Some(id), timestamp: Some(timestamp) };
        let realtime_ns = header.began_unix_s.saturating_mul(1_000_000_000);
        let snapshot = ClockSnapshot {
            clocks: vec![clock(builtin_clock::MONOTONIC, header.began_ns), clock(builtin_clock::REALTIME, realtime_ns)],
            primary_trace_clock: Some(builtin_clock::MONOTONIC as i32),
        };
        let timebase = CounterDescriptor { name: Some("cpu-clock".to_owned()), unit: Some(unit::NANOSECONDS) };
        let defaults = TracePacketDefaults {
            timestamp_clock_id: Some(builtin_clock::MONOTONIC),
            stack_sample_defaults: Some(StackSampleDefaults {
                source: Some("holdup".to_owned()),
                primary_descriptor: Some(timebase),
            }),
        };
        self.packet(TracePacket {
            sequence_flags: Some(sequence_flag::INCREMENTAL_STATE_CLEARED),
            trace_packet_defaults: Some(defaults),
            clock_snapshot: Some(snapshot),
            ..Default::default()
        })
    }

    fn tracks(&mut self, findings: bool) -> io::Result<()> {
        if findings {
            let name = Some("holdup findings".to_owned());
            self.track(TrackDescriptor { uuid: Some(FINDINGS_TRACK), name, ..Default::default() })?;
        }
        let facts = self.facts;
        for (index, process) in facts.processes.iter().enumerate() {
            let command = &facts.header.target.command;
            let is_target = facts.header.target.processes().any(|pid| pid == process.pid);
            let descriptor = ProcessDescriptor {
                pid: Some(number(process.pid.0)),
                process_name: Some(text::clean(&process.name)),
                cmdline: if is_target { command.clone() } else { Vec::new() },
            };
            let uuid = Some(self.process_track(index));
            self.track(TrackDescriptor { uuid, process: Some(descriptor), ..Default::default() })?;
        }
        for (index, thread) in facts.threads.iter().enumerate() {
            let descriptor = ThreadDescriptor {
                pid: Some(number(thread.pid.0)),
                tid: Some(number(thread.tid.0)),
                thread_name: Some(text::clean(&thread.name)),
            };
            let process = facts.processes.iter().position(|process| process.pid == thread.pid);
            self.track(TrackDescriptor {
                uuid: Some(thread_track(index)),
                parent_uuid: process.map(|process| self.process_track(process)),
                thread: Some(descriptor),
                ..Default::default()
            })?;
        }
        Ok(())
    }

    fn process_track(&self, index: usize) -> u64 {
        thread_track(self.facts.threads.len() + index)
    }

    fn track(&mut self, track: TrackDescriptor) -> io::Result<()> {
        self.packet(TracePacket { track_descriptor: Some(track), ..Default::default() })
    }

    /// The wakers' side of every wake-up; gives the other side for each thread.
    fn wakes(&mut self, timeline: &Timeline, directory: &Directory<'_>) -> io::Result<Vec<Vec<Arrival>>> {
        let mut arrivals: Vec<Vec<Arrival>> = vec![Vec::new(); self.facts.threads.len()];
        for (wake, flow) in timeline.wakes.iter().zip(TRACKS..) {
            let from = directory.at(wake.from, wake.time_ns);
            let to = directory.at(wake.to, wake.time_ns);
            let (Some(from), Some(to)) = (from, to) else { continue };
            // A flow needs a slice to end in.
            let last = timeline.threads.get(to).and_then(|row| row.begins_ns().last());
            if last.is_some_and(|last| *last >= wake.time_ns) {
                arrivals[to].push((wake.time_ns, flow));
                self.wake(wake, from, flow)?;
            }
        }
        Ok(arrivals)
    }

    fn wake(&mut self, wake: &Wake, from: usize, flow: u64) -> io::Result<()> {
        let event = TrackEvent {
            r#type: Some(proto::event_type::INSTANT),
            track_uuid: Some(thread_track(from)),
            name_iid: Some(self.event_name("wakes")),
            flow_ids: vec![flow],
            ..Default::default()
        };
        self.event(wake.time_ns, event)
    }

    fn intervals(
        &mut self,
        thread: usize,
        intervals: impl Iterator<Item = Interval>,
        arrivals: &[Arrival],
    ) -> io::Result<()> {
        let track_uuid = Some(thread_track(thread));
        let mut arrivals = arrivals;
        for interval in intervals {
            let arrived = arrivals.iter().take_while(|(at_ns, _)| *at_ns <= interval.from_ns).count();
            let (here, later) = arrivals.split_at(arrived);
            arrivals = later;
            let begin = TrackEvent {
                r#type: Some(proto::event_type::SLICE_BEGIN),
                track_uuid,
                name_iid: Some(self.label(interval.state)),
                category_iids: vec![self.group(interval.state)],
                terminating_flow_ids: here.iter().map(|(_, flow)| *flow).collect(),
                ..Default::default()
            };
            self.event(interval.from_ns, begin)?;
            let r#type = Some(proto::event_type::SLICE_END);
            let to_ns = interval.to_ns.max(interval.from_ns);
            self.event(to_ns, TrackEvent { r#type, track_uuid, ..Default::default() })?;
        }
        Ok(())
    }

    fn samples(&mut self, timeline: &Timeline) -> io::Result<()> {
        let mut told = vec![false; timeline.call_paths.len()];
        for SampleAt { time_ns, thread, call_path } in &timeline.samples {
            let index = *call_path as usize;
            let thread = self.facts.threads.get(*thread as usize);
            let (Some(thread), Some(path)) = (thread, timeline.call_paths.get(index)) else { continue };
            let iid = index as u64 + 1;
            if !std::mem::replace(&mut told[index], true) {
                let callstack = Callstack { iid: Some(iid), frame_ids: self.stack(path) };
                self.news.callstacks.push(callstack);
            }
            let stack_sample = StackSample {
                task_context: Some(TaskContext { pid: Some(thread.pid.0), tid: Some(thread.tid.0) }),
                execution_context: Some(ExecutionContext { mode: Some(mode_of(path.first())) }),
                callstack_iid: Some(iid),
                primary_weight: Some(self.facts.header.sample_period_ns.max(1)),
            };
            self.packet(TracePacket {
                timestamp: Some(*time_ns),
                stack_sample: Some(stack_sample),
                ..Default::default()
            })?;
        }
        Ok(())
    }

    fn findings(&mut self, findings: &[Finding], directory: &Directory<'_>) -> io::Result<()> {
        for finding in findings {
            let name = headline(self.facts, finding);
            for moment in &finding.moments {
                let thread = directory.at(moment.tid, moment.from_ns);
                let thread = thread.map_or_else(
                    || format!("thread {}", moment.tid.0),
                    |index| name::thread_named(&self.facts.threads[index]),
                );
                let lasts = DebugAnnotation {
                    uint_value: Some(moment.to_ns.saturating_sub(moment.from_ns)),
                    ..self.annotation_named("length_ns")
                };
                let event = TrackEvent {
                    r#type: Some(proto::event_type::INSTANT),
                    track_uuid: Some(FINDINGS_TRACK),
                    name_iid: Some(self.event_name(&name)),
                    debug_annotations: vec![self.annotation("thread", thread), lasts],
                    ..Default::default()
                };
                self.event(moment.from_ns, event)?;
            }
        }
        Ok(())
    }

    /// The number of an interval's name.
    fn label(&mut self, state: State) -> u64 {
        let label = Label::of(state);
        if let Some(iid) = self.interned.labels.get(&label) {
            return *iid;
        }
        let iid = self.event_name(&label.text(self.facts));
        self.interned.labels.insert(label, iid);
        iid
    }

    fn event_name(&mut self, text: &str) -> u64 {
        if let Some(iid) = self.interned.names.get(text) {
            return *iid;
        }
        let news = &mut self.news.event_names;
        number_of(&mut self.interned.names, text.to_owned(), |iid| news.push(named(iid, text.to_owned())))
    }

    fn group(&mut self, state: State) -> u64 {
        let group = group(state);
        let news = &mut self.news.event_categories;
        number_of(&mut self.interned.groups, group, |iid| news.push(named(iid, group.name().to_owned())))
    }

    fn annotation(&mut self, name: &'static str, value: String) -> DebugAnnotation {
        DebugAnnotation { string_value: Some(value), ..self.annotation_named(name) }
    }

    fn annotation_named(&mut self, name: &'static str) -> DebugAnnotation {
        let news = &mut self.news.debug_annotation_names;
        let iid = number_of(&mut self.interned.annotations, name, |iid| news.push(named(iid, name.to_owned())));
        DebugAnnotation { name_iid: Some(iid), ..Default::default() }
    }

    /// The numbers of a call path's frames, outermost first.
    fn stack(&mut self, call_path: &[Frame]) -> Vec<u64> {
        call_path.iter().rev().map(|frame| self.frame(frame)).collect()
    }

    fn frame(&mut self, frame: &Frame) -> u64 {
        if let Some(iid) = self.interned.frames.get(frame) {
            return *iid;
        }
        let iid = self.interned.frames.len() as u64 + 1;
        self.interned.frames.insert(frame.clone(), iid);
        let interned = &mut self.interned;
        let news = &mut self.news;
        let function = frame.function.as_ref().map(|function| {
            number_of(&mut interned.functions, function.clone(), |iid| {
                news.function_names.push(string(iid, function));
            })
        });
        let source = frame.file.as_ref().map(|file| {
            number_of(&mut interned.sources, file.clone(), |iid| news.source_paths.push(string(iid, file)))
        });
        let mapping = number_of(&mut interned.mappings, frame.module.clone(), |iid| {
            news.mapping_paths.push(string(iid, &frame.module));
            news.mappings.push(Mapping { iid: Some(iid), path_string_ids: vec![iid] });
        });
        news.frames.push(InternedFrame {
            iid: Some(iid),
            function_name_id: function,
            mapping_id: Some(mapping),
            rel_pc: Some(frame.offset),
            source_path_iid: source,
            line_number: frame.line,
        });
        iid
    }
}

/// The number of a thing; `tell` is called for a new one.
fn number_of<K: std::hash::Hash + Eq>(table: &mut HashMap<K, u64>, key: K, tell: impl FnOnce(u64)) -> u64 {
    let next = table.len() as u64 + 1;
    let iid = *table.entry(key).or_insert(next);
    if iid == next {
        tell(iid);
    }
    iid
}

fn named(iid: u64, name: String) -> NamedId {
    NamedId { iid: Some(iid), name: Some(name) }
}

fn string(iid: u64, value: &str) -> InternedString {
    InternedString { iid: Some(iid), str: Some(text::clean(value).into_bytes()) }
}

fn thread_track(index: usize) -> u64 {
    FINDINGS_TRACK + 1 + index as u64
}

/// Thread and process numbers are signed there; Linux has none above 2^22.
fn number(id: u32) -> i32 {
    i32::try_from(id).unwrap_or(i32::MAX)
}

fn mode_of(innermost: Option<&Frame>) -> i32 {
    match innermost.map(|frame| frame.role) {
        Some(Role::Kernel | Role::Scheduler) => mode::KERNEL,
        _ => mode::USER,
    }
}
