//! Files that are cut, damaged, or made to do harm.

use super::super::checksum::xxh32;
use super::super::layout::{CHUNK_HEADER_BYTES, ChunkHeader, FLAG_LZ4, chunk_kind};
use super::*;
use crate::OpenError;

/// Where each chunk of an undamaged file begins, and the end.
fn chunk_starts(bytes: &[u8]) -> Vec<usize> {
    let mut starts = vec![16];
    while let Some(chunk) = ChunkHeader::parse(&bytes[starts[starts.len() - 1]..]) {
        starts.push(starts[starts.len() - 1] + CHUNK_HEADER_BYTES + chunk.stored_len as usize);
    }
    assert_eq!(starts.last(), Some(&bytes.len()));
    starts
}

/// A chunk of events with such bytes before compression, correctly summed.
fn chunk_of(raw: &[u8], events: u32, kind: u8) -> Vec<u8> {
    let packed = lz4_flex::block::compress(raw);
    stored_chunk(&packed, raw.len() as u32, events, kind, FLAG_LZ4)
}

fn stored_chunk(stored: &[u8], raw_len: u32, events: u32, kind: u8, flags: u8) -> Vec<u8> {
    let header = ChunkHeader {
        kind,
        flags,
        stored_len: stored.len() as u32,
        raw_len,
        events,
        first_ns: 10,
        last_ns: 20,
        checksum: xxh32(stored),
    };
    [&header.to_bytes()[..], stored].concat()
}

/// A recording that consists of a header and these chunks.
fn recording(chunks: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = Writer::new(Vec::new(), &header()).unwrap().finish(&ending()).unwrap();
    let starts = chunk_starts(&bytes);
    bytes.truncate(starts[1]);
    bytes.extend(chunks.concat());
    bytes
}

#[test]
fn a_file_cut_at_any_byte_gives_its_whole_chunks() {
    let bytes = specimen(3);
    let whole = read(&bytes).told;
    let starts = chunk_starts(&bytes);
    let per_chunk = whole.len() / 3;
    for len in 0..bytes.len() {
        let cut = &bytes[..len];
        if len < starts[1] {
            let error = Reader::open(cut).unwrap_err();
            let expected =
                if len == 0 { OpenError::Foreign { looks_like: Some("an empty file") } } else { OpenError::Short };
            assert_eq!(error, expected, "at {len}");
            continue;
        }
        let content = read(cut);
        let chunks = starts.iter().filter(|start| **start <= len).count() - 2;
        let (intact, missing) = content.told.split_at(chunks.min(3) * per_chunk);
        assert_eq!(intact, &whole[..intact.len()], "at {len}");
        assert!(missing.len() <= 1 && missing.iter().all(is_loss), "at {len}: {missing:?}");
        assert_eq!(content.summary.ending, None, "at {len}");
        let expected: &[&str] = if starts.contains(&len) { &[] } else { &["ends within a chunk"] };
        let why: Vec<&str> = content.summary.damage.iter().map(|damage| damage.why.as_str()).collect();
        assert_eq!(why, expected, "at {len}");
    }
}

#[test]
fn a_damaged_byte_costs_its_chunk_and_nothing_else() {
    let bytes = specimen(3);
    let whole = read(&bytes).told;
    let starts = chunk_starts(&bytes);
    let per_chunk = whole.len() / 3;
    for at in 0..bytes.len() {
        for flip in [0x01, 0x80, 0xff] {
            let mut damaged = bytes.clone();
            damaged[at] ^= flip;
            if at < starts[1] {
                assert!(Reader::open(&damaged).is_err(), "at {at}");
                continue;
            }
            let chunk = starts.iter().filter(|start| **start <= at).count() - 2;
            let content = read(&damaged);
            let at_damage = chunk * per_chunk;
            let mut expected = whole.clone();
            if chunk < 3 {
                expected.splice(at_damage..at_damage + per_chunk, []);
                assert!(is_loss(&content.told[at_damage]), "at {at}");
            }
            let intact: Vec<Told> = without_new_losses(content.told, &whole);
            assert_eq!(intact, expected, "at {at}");
            assert_eq!(content.summary.damage.len(), 1, "at {at}: {:?}", content.summary.damage);
            assert_eq!(content.summary.ending.is_some(), chunk != 3, "at {at}");
        }
    }
}

/// Drops the events that the reader put in place of damage: those that were never written.
fn without_new_losses(told: Vec<Told>, written: &[Told]) -> Vec<Told> {
    told.into_iter().filter(|told| !is_loss(told) || written.contains(told)).collect()
}

#[test]
fn a_lost_chunk_is_told_with_its_count_and_its_place() {
    let mut bytes = specimen(3);
    let second = chunk_starts(&bytes)[2];
    let header = ChunkHeader::parse(&bytes[second..]).unwrap();
    bytes[second + CHUNK_HEADER_BYTES + 5] ^= 1;
    let content = read(&bytes);
    let lost: Vec<&Event> = content.told.iter().filter(|told| is_loss(told)).map(|told| &told.0).collect();
    let added = lost.iter().find(|event| event.time_ns == header.last_ns).expect("it is at the end of the gap");
    assert_eq!(added.what, What::Lost { count: u64::from(header.events) });
    assert_eq!(content.summary.damage[0].at, second as u64);
}

#[test]
fn bytes_cut_out_of_the_middle_cost_two_chunks_at_most() {
    let bytes = specimen(4);
    let whole = read(&bytes).told;
    let starts = chunk_starts(&bytes);
    let per_chunk = whole.len() / 4;
    for cut in [1, 40, 100] {
        let mut shorter = bytes.clone();
        shorter.drain(starts[2] + 50..starts[2] + 50 + cut);
        let content = read(&shorter);
        let intact = without_new_losses(content.told, &whole);
        assert!(intact.len() >= 2 * per_chunk, "{} events are left", intact.len());
        assert_eq!(intact[..per_chunk], whole[..per_chunk]);
        assert_eq!(intact[intact.len() - per_chunk..], whole[3 * per_chunk..]);
    }
}

#[test]
fn two_recordings_in_one_file_are_not_mixed() {
    let content = read(&[specimen(1), specimen(2)].concat());
    assert_eq!(without_new_losses(content.told, &[]).len(), read(&specimen(1)).told.len());
    assert!(content.summary.damage.iter().any(|damage| damage.why.contains("another recording")));
}

#[test]
fn chunks_and_events_of_the_future_are_passed_over() {
    // Time 5; kind 30 of thread 9 with a body of three bytes; then SwitchIn of the same thread.
    let raw = [5, 30, 1, 0, 9, 3, 7, 7, 7, 0x40 | 1, 4];
    let content = read(&recording(&[chunk_of(&raw, 2, chunk_kind::EVENTS), chunk_of(b"what?", 0, 77)]));
    let expected = Event { time_ns: 10, tid: Tid(9), cpu: NO_CPU, what: What::SwitchIn };
    assert_eq!(content.told, vec![(expected, None)]);
    let why: Vec<&str> = content.summary.damage.iter().map(|damage| damage.why.as_str()).collect();
    assert_eq!(
        why,
        [
            "has events of kinds that this holdup does not know (1 of them)",
            "has a chunk of kind 77, which this holdup does not know"
        ]
    );
}

#[test]
fn fields_of_the_future_are_passed_over() {
    // Lost (20) with a count of 3, and two bytes that are not known yet; header JSON with a field that is not known
    // yet.
    let raw = [5, 20, 1, 0, 9, 3, 3, 1, 1];
    let content = read(&recording(&[chunk_of(&raw, 1, chunk_kind::EVENTS)]));
    assert_eq!(content.told[0].0.what, What::Lost { count: 3 });
    assert_eq!(content.summary.damage, vec![]);
}

#[test]
fn what_checksums_do_not_find_is_found() {
    let cases: &[(&[u8], &str)] = &[
        (&[5, 1, 0, 3], "names a thread that it has not told"),
        (&[5, 1 | 0x40, 0], "has an event of no thread"),
        (&[5, 14, 0, 0, 9], "has an event of a kind that never was"),
        (&[5, 11, 0, 0, 9], "has a sample without a stack"),
        (&[5, 8, 0, 0, 9, 4], "names a futex that it has not told"),
        (&[5, 11 | 0x80, 0, 0, 9, 2], "names a stack that it has not told"),
        (&[5, 11 | 0x80, 0, 0, 9, 0, 4], "has a stack of an unknown form"),
        (&[5, 11 | 0x80, 0, 0, 9, 0, 0, 1, 7], "names an address that it has not told"),
        (&[5, 1, 0, 0], "ends in the middle of an event"),
        (&[5, 20, 0, 0, 9, 200, 3], "ends in the middle of an event"),
        // Blocked in a call, in a kernel function whose name is longer than what is left.
        (&[5, 25, 0, 0, 9, 5, 6, 0, 3, 9, 97], "ends in the middle of an event"),
        // In a call whose number no machine has.
        (&[5, 25, 0, 0, 9, 5, 2, 0xff, 0xff, 4, 3], "has a number that is too large for its place"),
        (&[5, 26, 0, 0, 9, 2, 0, 1], "names interpreted code that it has not told"),
        (&[5], "has a chunk with another number of events than it says"),
    ];
    for (raw, why) in cases {
        let content = read(&recording(&[chunk_of(raw, 2, chunk_kind::EVENTS)]));
        assert_eq!(content.summary.damage.len(), 1, "{raw:?}");
        assert_eq!(content.summary.damage[0].why, *why, "{raw:?}");
        let lost = Event { time_ns: 20, tid: Tid(0), cpu: NO_CPU, what: What::Lost { count: 2 } };
        assert_eq!(content.told, vec![(lost, None)], "{raw:?}");
    }
}

#[test]
fn a_chunk_cannot_claim_more_memory_than_its_bytes_give() {
    // A few bytes that say they become 16 MiB, thousands of times, big and small in turn.
    let big = stored_chunk(&[0x11; 40], 16 << 20, 1, chunk_kind::EVENTS, FLAG_LZ4);
    let small = stored_chunk(&[0x11; 40], 64, 1, chunk_kind::EVENTS, FLAG_LZ4);
    let bytes = recording(&vec![[big, small].concat(); 20_000]);
    let content = read(&bytes);
    assert_eq!(content.summary.damage.len(), 101, "a hundred places, and how many more there are");
    assert_eq!(content.summary.uncompressed_bytes, 0);
}

#[test]
fn stacks_that_unfold_without_end_are_refused() {
    // Each stack is 60,000 words of one and the same address: compressed, a few hundred bytes.
    let mut raw = vec![5];
    for number in 0..100_u64 {
        raw.extend([11 | 0x80, 0, 0]);
        if number == 0 {
            raw.push(9);
        }
        super::super::bytes::put_varint(&mut raw, number);
        raw.extend([0, 0, 0]);
        super::super::bytes::put_varint(&mut raw, number);
        super::super::bytes::put_varint(&mut raw, 60_000);
        raw.extend([0, 0]);
        if number == 0 {
            raw.push(2);
        }
        raw.extend([0, 0].repeat(59_999));
    }
    let mut stacks = Stacks::new();
    let bytes = recording(&[chunk_of(&raw, 100, chunk_kind::EVENTS)]);
    let summary = Reader::open(&bytes).unwrap().read(&mut stacks, &mut |_| ());
    assert_eq!(summary.damage[0].why, "has more stacks than a file of its size has room for");
    assert!(stacks.len() > 10 && stacks.len() < 100, "{} stacks", stacks.len());
}

#[test]
fn headers_that_all_claim_the_rest_of_the_file_take_linear_time() {
    let header = ChunkHeader {
        kind: chunk_kind::EVENTS,
        stored_len: 15 << 20,
        raw_len: 15 << 20,
        events: 1,
        ..ChunkHeader::default()
    };
    let bytes = recording(&vec![header.to_bytes().to_vec(); 50_000]);
    let content = read(&bytes);
    assert_eq!(content.told.len(), 50_000);
    // And markers without a header.
    let content = read(&recording(&vec![b"\xf7hC\x1a".to_vec(); 200_000]));
    assert_eq!(content.told.len(), 1);
}

/// 16 MiB that came from some tens of KiB are one thing; the 100 MB of such a file would be 25 GB.
#[test]
fn a_file_that_stands_for_far_more_than_its_size_is_not_unpacked() {
    let chunk = chunk_of(&vec![0; 16 << 20], 1, chunk_kind::EVENTS);
    assert!(chunk.len() < 100_000);
    let content = read(&recording(&vec![chunk; 6]));
    let bounded =
        content.summary.damage.iter().filter(|damage| damage.why.contains("far more than a recording of its size"));
    assert_eq!((bounded.count(), content.summary.damage.len()), (4, 6), "{:?}", content.summary.damage);
    assert_eq!(content.summary.uncompressed_bytes, 32 << 20);
}
