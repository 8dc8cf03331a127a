//! The bytes against Perfetto's published definitions, and what they say against the report.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use prost::Message as _;

use super::super::specimen::{BEGAN_NS, HOSTILE, contradictory, report};
use super::proto::{TracePacket, event_type, sequence_flag};
use super::write;

/// What a field holds: its wire type, and for messages which.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Kind {
    Varint,
    Fixed64,
    Bytes,
    Text,
    Message(&'static str),
}

use Kind::{Bytes, Fixed64, Message, Text, Varint};

/// Fields by number, as google/perfetto publishes them under protos/perfetto/trace (release 59, November 2026), written
/// down from there and not from `proto.rs`. All repeated scalars here are unpacked, so each stands alone on the wire.
const PUBLISHED: &[(&str, u64, &str, Kind)] = &[
    ("Trace", 1, "packet", Message("TracePacket")),
    // trace_packet.proto
    ("TracePacket", 6, "clock_snapshot", Message("ClockSnapshot")),
    ("TracePacket", 8, "timestamp", Varint),
    ("TracePacket", 10, "trusted_packet_sequence_id", Varint),
    ("TracePacket", 11, "track_event", Message("TrackEvent")),
    ("TracePacket", 12, "interned_data", Message("InternedData")),
    ("TracePacket", 13, "sequence_flags", Varint),
    ("TracePacket", 58, "timestamp_clock_id", Varint),
    ("TracePacket", 59, "trace_packet_defaults", Message("TracePacketDefaults")),
    ("TracePacket", 60, "track_descriptor", Message("TrackDescriptor")),
    ("TracePacket", 66, "perf_sample", Message("PerfSample")),
    ("TracePacket", 135, "stack_sample", Message("StackSample")),
    // trace_packet_defaults.proto
    ("TracePacketDefaults", 11, "track_event_defaults", Message("TrackEventDefaults")),
    ("TracePacketDefaults", 58, "timestamp_clock_id", Varint),
    ("TracePacketDefaults", 100, "stack_sample_defaults", Message("StackSampleDefaults")),
    // clock_snapshot.proto
    ("ClockSnapshot", 1, "clocks", Message("Clock")),
    ("ClockSnapshot", 2, "primary_trace_clock", Varint),
    ("Clock", 1, "clock_id", Varint),
    ("Clock", 2, "timestamp", Varint),
    ("Clock", 3, "is_incremental", Varint),
    // track_event/track_descriptor.proto
    ("TrackDescriptor", 1, "uuid", Varint),
    ("TrackDescriptor", 2, "name", Text),
    ("TrackDescriptor", 3, "process", Message("ProcessDescriptor")),
    ("TrackDescriptor", 4, "thread", Message("ThreadDescriptor")),
    ("TrackDescriptor", 5, "parent_uuid", Varint),
    ("ProcessDescriptor", 1, "pid", Varint),
    ("ProcessDescriptor", 2, "cmdline", Text),
    ("ProcessDescriptor", 6, "process_name", Text),
    ("ThreadDescriptor", 1, "pid", Varint),
    ("ThreadDescriptor", 2, "tid", Varint),
    ("ThreadDescriptor", 5, "thread_name", Text),
    // track_event/track_event.proto
    ("TrackEvent", 3, "category_iids", Varint),
    ("TrackEvent", 4, "debug_annotations", Message("DebugAnnotation")),
    ("TrackEvent", 9, "type", Varint),
    ("TrackEvent", 10, "name_iid", Varint),
    ("TrackEvent", 11, "track_uuid", Varint),
    ("TrackEvent", 22, "categories", Text),
    ("TrackEvent", 23, "name", Text),
    ("TrackEvent", 47, "flow_ids", Fixed64),
    ("TrackEvent", 48, "terminating_flow_ids", Fixed64),
    ("EventCategory", 1, "iid", Varint),
    ("EventCategory", 2, "name", Text),
    ("EventName", 1, "iid", Varint),
    ("EventName", 2, "name", Text),
    // track_event/debug_annotation.proto
    ("DebugAnnotation", 1, "name_iid", Varint),
    ("DebugAnnotation", 3, "uint_value", Varint),
    ("DebugAnnotation", 6, "string_value", Text),
    ("DebugAnnotation", 10, "name", Text),
    ("DebugAnnotationName", 1, "iid", Varint),
    ("DebugAnnotationName", 2, "name", Text),
    // interned_data/interned_data.proto
    ("InternedData", 1, "event_categories", Message("EventCategory")),
    ("InternedData", 2, "event_names", Message("EventName")),
    ("InternedData", 3, "debug_annotation_names", Message("DebugAnnotationName")),
    ("InternedData", 5, "function_names", Message("InternedString")),
    ("InternedData", 6, "frames", Message("Frame")),
    ("InternedData", 7, "callstacks", Message("Callstack")),
    ("InternedData", 16, "build_ids", Message("InternedString")),
    ("InternedData", 17, "mapping_paths", Message("InternedString")),
    ("InternedData", 18, "source_paths", Message("InternedString")),
    ("InternedData", 19, "mappings", Message("Mapping")),
    // profiling/profile_common.proto
    ("InternedString", 1, "iid", Varint),
    ("InternedString", 2, "str", Bytes),
    ("Mapping", 1, "iid", Varint),
    ("Mapping", 2, "build_id", Varint),
    ("Mapping", 7, "path_string_ids", Varint),
    ("Frame", 1, "iid", Varint),
    ("Frame", 2, "function_name_id", Varint),
    ("Frame", 3, "mapping_id", Varint),
    ("Frame", 4, "rel_pc", Varint),
    ("Frame", 5, "source_path_iid", Varint),
    ("Frame", 6, "line_number", Varint),
    ("Callstack", 1, "iid", Varint),
    ("Callstack", 2, "frame_ids", Varint),
    // profiling/stack_sample.proto
    ("StackSample", 1, "task_context", Message("TaskContext")),
    ("StackSample", 3, "execution_context", Message("ExecutionContext")),
    ("StackSample", 5, "callstack", Message("InlineCallstack")),
    ("StackSample", 6, "callstack_iid", Varint),
    ("StackSample", 9, "primary_descriptor", Message("CounterDescriptor")),
    ("StackSample", 11, "primary_weight", Varint),
    ("StackSampleDefaults", 1, "source", Text),
    ("StackSampleDefaults", 2, "primary_descriptor", Message("CounterDescriptor")),
    ("TaskContext", 2, "pid", Varint),
    ("TaskContext", 3, "tid", Varint),
    ("ExecutionContext", 2, "cpu", Varint),
    ("ExecutionContext", 3, "mode", Varint),
    ("CounterDescriptor", 2, "name", Text),
    ("CounterDescriptor", 3, "unit", Varint),
];

/// Walks protobuf bytes without any schema but the table; notes each field that it meets as `Message.field`.
fn walk(message: &'static str, mut bytes: &[u8], met: &mut BTreeMap<String, usize>) {
    while !bytes.is_empty() {
        let key = varint(&mut bytes);
        let (field, wire) = (key >> 3, key & 7);
        let found = PUBLISHED.iter().find(|(name, number, _, _)| *name == message && *number == field);
        let (_, _, name, kind) = found.unwrap_or_else(|| panic!("{message} has no field {field}"));
        *met.entry(format!("{message}.{name}")).or_default() += 1;
        match (wire, kind) {
            (0, Varint) => drop(varint(&mut bytes)),
            (1, Fixed64) => bytes = &bytes[8..],
            (2, Bytes | Text | Message(_)) => {
                let len = varint(&mut bytes) as usize;
                let (inside, rest) = bytes.split_at(len);
                bytes = rest;
                match kind {
                    Message(inner) => walk(inner, inside, met),
                    Text => drop(std::str::from_utf8(inside).expect("text is UTF-8").len()),
                    _ => {}
                }
            }
            _ => panic!("{message}.{name} has wire type {wire}, but it is {kind:?}"),
        }
    }
}

fn varint(bytes: &mut &[u8]) -> u64 {
    let len = bytes.iter().position(|byte| byte & 0x80 == 0).expect("the number ends") + 1;
    let (number, rest) = bytes.split_at(len);
    *bytes = rest;
    number.iter().rev().fold(0, |value, byte| value << 7 | u64::from(byte & 0x7f))
}

fn written(rounds: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    write(&report(rounds), &mut bytes).unwrap();
    bytes
}

fn packets(mut bytes: &[u8]) -> Vec<TracePacket> {
    let mut packets = Vec::new();
    while !bytes.is_empty() {
        assert_eq!(varint(&mut bytes), 1 << 3 | 2);
        let len = varint(&mut bytes) as usize;
        let (packet, rest) = bytes.split_at(len);
        packets.push(TracePacket::decode(packet).unwrap());
        bytes = rest;
    }
    packets
}

#[test]
fn every_field_is_one_that_perfetto_publishes() {
    let mut met = BTreeMap::new();
    walk("Trace", &written(4), &mut met);
    for field in ["TrackEvent.flow_ids", "TrackEvent.terminating_flow_ids", "StackSample.callstack_iid", "Frame.rel_pc"]
    {
        assert!(met.contains_key(field), "{field} is not written");
    }
    assert!(met.len() > 60, "{} fields are met", met.len());
}

#[test]
fn slices_do_not_overlap_and_have_the_right_names() {
    let packets = packets(&written(8));
    let mut names = HashMap::new();
    let mut open: HashMap<u64, (u64, String)> = HashMap::new();
    let mut slices: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    let mut last_ns: HashMap<u64, u64> = HashMap::new();
    for packet in &packets {
        learn(&mut names, packet);
        let (Some(event), Some(time_ns)) = (&packet.track_event, packet.timestamp) else { continue };
        let track = event.track_uuid.unwrap();
        match event.r#type.unwrap() {
            event_type::SLICE_BEGIN => {
                assert!(time_ns >= last_ns.get(&track).copied().unwrap_or(0));
                let name: &String = names.get(&event.name_iid.unwrap()).expect("the name came before");
                assert!(open.insert(track, (time_ns, name.clone())).is_none(), "a slice in a slice");
            }
            event_type::SLICE_END => {
                let (began_ns, name) = open.remove(&track).expect("it had begun");
                assert!(time_ns >= began_ns);
                last_ns.insert(track, time_ns);
                let sum = slices.entry(name).or_default();
                *sum = (sum.0 + 1, sum.1 + time_ns - began_ns);
            }
            _ => {}
        }
    }
    assert!(open.is_empty());
    assert_eq!(slices["waits for g_lock"], (8, 400_000));
    assert_eq!(slices["CPU 0"], (4, 160_000));
    assert_eq!(slices["CPU 1"], (12, 160_000 + 8 * 55_000));
    assert_eq!(slices["runnable"].0, 8);
    assert_eq!(slices["preempted"].0, 8);
    assert_eq!(slices["sleeps"], (2, 80_000));
    assert!(slices.keys().any(|name| name.starts_with("waits on a\"b\\c")), "{:?}", slices.keys());
}

fn learn(names: &mut HashMap<u64, String>, packet: &TracePacket) {
    for name in packet.interned_data.iter().flat_map(|news| &news.event_names) {
        let before = names.insert(name.iid.unwrap(), name.name.clone().unwrap());
        assert_eq!(before, None, "a number has one meaning");
    }
}

#[test]
fn every_wake_up_is_a_flow_from_the_waker_to_what_the_woken_does_next() {
    let packets = packets(&written(3));
    let mut sources: HashMap<u64, (u64, u64)> = HashMap::new();
    let mut sinks: HashMap<u64, (u64, u64)> = HashMap::new();
    for packet in &packets {
        let (Some(event), Some(time_ns)) = (&packet.track_event, packet.timestamp) else { continue };
        for flow in &event.flow_ids {
            assert_eq!(event.r#type, Some(event_type::INSTANT));
            assert!(sources.insert(*flow, (time_ns, event.track_uuid.unwrap())).is_none());
        }
        for flow in &event.terminating_flow_ids {
            assert_eq!(event.r#type, Some(event_type::SLICE_BEGIN));
            assert!(sinks.insert(*flow, (time_ns, event.track_uuid.unwrap())).is_none());
        }
    }
    // Two in each round; those from outside and to nobody are left out.
    assert_eq!(sources.len(), 6);
    assert_eq!(sources.keys().collect::<BTreeSet<_>>(), sinks.keys().collect::<BTreeSet<_>>());
    for (flow, (sent_ns, from)) in &sources {
        let (arrived_ns, to) = sinks[flow];
        assert!(*from != to && arrived_ns >= *sent_ns && arrived_ns - sent_ns <= 1_000, "{sent_ns} {arrived_ns}");
    }
}

#[test]
fn tracks_samples_and_findings_are_there() {
    let packets = packets(&written(2));
    assert!(packets.iter().all(|packet| packet.trusted_packet_sequence_id == Some(1)));
    assert_eq!(packets[0].sequence_flags, Some(sequence_flag::INCREMENTAL_STATE_CLEARED));
    assert_eq!(packets[0].trace_packet_defaults.as_ref().unwrap().timestamp_clock_id, Some(3));
    let tracks: Vec<_> = packets.iter().filter_map(|packet| packet.track_descriptor.as_ref()).collect();
    let uuids: BTreeSet<_> = tracks.iter().map(|track| track.uuid).collect();
    assert_eq!((tracks.len(), uuids.len()), (4, 4));
    let threads: Vec<_> = tracks.iter().filter_map(|track| track.thread.as_ref()).collect();
    assert_eq!((threads[0].pid, threads[0].tid), (Some(500), Some(500)));
    assert_eq!(threads[0].thread_name.as_deref(), Some("main"));
    let process = tracks.iter().find_map(|track| track.process.as_ref()).unwrap();
    assert_eq!(process.cmdline, ["./x", HOSTILE]);

    let frames: HashMap<_, _> = packets
        .iter()
        .filter_map(|packet| packet.interned_data.as_ref())
        .flat_map(|news| &news.frames)
        .map(|frame| (frame.iid.unwrap(), frame))
        .collect();
    let callstacks: HashMap<_, _> = packets
        .iter()
        .filter_map(|packet| packet.interned_data.as_ref())
        .flat_map(|news| &news.callstacks)
        .map(|callstack| (callstack.iid, &callstack.frame_ids))
        .collect();
    let samples: Vec<_> = packets.iter().filter_map(|packet| packet.stack_sample.as_ref()).collect();
    assert_eq!(samples.len(), 4);
    let stack = callstacks[&samples[0].callstack_iid];
    assert_eq!(stack.len(), 3);
    assert_eq!(frames[&stack[0]].line_number, Some(99), "outermost first");
    assert_eq!(frames[&stack[1]].function_name_id, None);
    assert_eq!(samples[0].primary_weight, Some(1_000_000));

    let findings: Vec<_> = packets
        .iter()
        .filter(|packet| packet.track_event.as_ref().is_some_and(|event| event.debug_annotations.len() == 2))
        .collect();
    assert_eq!(
        findings.iter().map(|packet| packet.timestamp.unwrap() - BEGAN_NS).collect::<Vec<_>>(),
        [40_000, 50_000]
    );
}

#[test]
fn the_size_grows_with_the_timeline_alone() {
    let (small, large) = (written(500).len(), written(1_000).len());
    assert!(large < small * 21 / 10, "{small} bytes, then {large}");
    assert!(large / 1_000 < 500, "{} bytes for a round of six intervals, two wakes, two samples", large / 1_000);
}

#[test]
fn without_a_timeline_there_is_nothing_to_write() {
    let report = holdup_analyze::Report { timeline: None, ..report(1) };
    let mut bytes = Vec::new();
    assert!(write(&report, &mut bytes).unwrap_err().to_string().contains("no timeline"));
    assert!(bytes.is_empty());
}

#[test]
fn a_report_that_contradicts_itself_is_written_too() {
    let mut bytes = Vec::new();
    write(&contradictory(), &mut bytes).unwrap();
    walk("Trace", &bytes, &mut BTreeMap::new());
    let samples = packets(&bytes).iter().filter(|packet| packet.stack_sample.is_some()).count();
    assert_eq!(samples, 5);
}
