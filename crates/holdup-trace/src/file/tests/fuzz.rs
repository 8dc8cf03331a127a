//! Random damage for as long as asked: `HOLDUP_FUZZ_SECONDS` (2 by default), repeatable with `HOLDUP_FUZZ_SEED`.
//!
//! Damage to plain bytes is found by the checksums, so most rounds damage what is inside of chunks and sum them again.

use fastrand::Rng;
use std::time::{Duration, Instant};

use super::super::layout::{CHUNK_HEADER_BYTES, ChunkHeader, FLAG_LZ4};
use super::*;

fn knob(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name}={text}: a whole number is expected")))
}

#[test]
fn fuzz() {
    let seconds = knob("HOLDUP_FUZZ_SECONDS").unwrap_or(2);
    let seed = knob("HOLDUP_FUZZ_SEED").unwrap_or_else(|| u64::from(std::process::id()) << 20 | 1);
    println!("HOLDUP_FUZZ_SEED={seed} HOLDUP_FUZZ_SECONDS={seconds}");
    let mut random = Rng::with_seed(seed.max(1));
    let files = [specimen(1), specimen(3), Writer::new(Vec::new(), &header()).unwrap().finish(&ending()).unwrap()];
    let until = Instant::now() + Duration::from_secs(seconds);
    let (mut rounds, mut events) = (0_u64, 0);
    while Instant::now() < until {
        let round_seed = random.u64(..);
        let mut round = Rng::with_seed(round_seed);
        let whole = &files[round.usize(..files.len().max(1))];
        let damaged = if round.usize(..4) == 0 { damage(whole, &mut round) } else { damage_inside(whole, &mut round) };
        let outcome = std::panic::catch_unwind(|| harmless(&damaged));
        events += outcome.unwrap_or_else(|_| panic!("round {rounds} panics; HOLDUP_FUZZ_SEED={seed}"));
        rounds += 1;
    }
    println!("{rounds} rounds, {events} events");
    assert!(rounds > 0);
}

/// Reads whatever it is; gives the number of events. A damaged file never gives many more events than it has bytes.
fn harmless(bytes: &[u8]) -> u64 {
    let Ok(reader) = Reader::open(bytes) else { return 0 };
    let mut stacks = Stacks::new();
    let mut count = 0;
    let summary = reader.read(&mut stacks, &mut |_| count += 1);
    assert_eq!(summary.events, count);
    assert!(count <= summary.uncompressed_bytes + summary.damage.len() as u64 + bytes.len() as u64);
    assert!(summary.damage.iter().all(|damage| damage.at <= bytes.len() as u64));
    count
}

/// Some bytes changed, moved, doubled or dropped.
fn damage(bytes: &[u8], random: &mut Rng) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for _ in 0..1 + random.usize(..8) {
        let at = random.usize(..bytes.len().max(1));
        match random.usize(..8) {
            0..=2 => change(&mut bytes, at, random.u8(..)),
            3 => change(&mut bytes, at, 0xff),
            4 => change(&mut bytes, at, 0),
            5 => bytes.truncate(at),
            6 => bytes.insert(at, random.u8(..)),
            _ => {
                let end = (at + random.usize(..64)).min(bytes.len());
                let piece: Vec<u8> = bytes.drain(at..end).collect();
                let to = random.usize(..=bytes.len());
                bytes.splice(to..to, if random.usize(..2) == 0 { piece.repeat(2) } else { piece });
            }
        }
    }
    bytes
}

fn change(bytes: &mut [u8], at: usize, value: u8) {
    if let Some(byte) = bytes.get_mut(at) {
        *byte = value;
    }
}

/// Damage to what the chunks hold, with lengths and checksums made right again.
fn damage_inside(bytes: &[u8], random: &mut Rng) -> Vec<u8> {
    let mut result = bytes[..16].to_vec();
    let mut rest = &bytes[16..];
    let mut is_first = true;
    while let Some(header) = ChunkHeader::parse(rest) {
        let (stored, after) = rest[CHUNK_HEADER_BYTES..].split_at(header.stored_len as usize);
        let mut buffer = Vec::new();
        let raw = header.unpack(stored, &mut buffer).unwrap();
        let raw = if is_first || random.usize(..3) == 0 { raw.to_vec() } else { damage(raw, random) };
        result.extend(repacked(header, &raw, random));
        (rest, is_first) = (after, false);
    }
    result
}

fn repacked(mut header: ChunkHeader, raw: &[u8], random: &mut Rng) -> Vec<u8> {
    let stored = if random.usize(..2) == 0 { raw.to_vec() } else { lz4_flex::block::compress(raw) };
    header.flags = if stored == raw { 0 } else { FLAG_LZ4 };
    header.stored_len = stored.len() as u32;
    header.raw_len = raw.len() as u32;
    if random.usize(..16) == 0 {
        header.raw_len = random.u32(..) >> random.usize(..32);
    }
    header.checksum = super::super::checksum::xxh32(&stored);
    [&header.to_bytes()[..], &stored].concat()
}
