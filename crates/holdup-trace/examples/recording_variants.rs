//! Makes a fleet's recordings of one: the same events, on other days and hosts. For `cargo xtask fleet-cost`.
//!
//! Usage: `recording_variants RECORDING FOLDER FIRST COUNT`

use std::path::Path;
use std::process::ExitCode;

use holdup_trace::{Header, Reader, Writer};

/// Hosts, and days that they record on.
const HOSTS: u64 = 50;
const DAY_S: u64 = 24 * 60 * 60;

fn main() -> ExitCode {
    match run(&std::env::args().skip(1).collect::<Vec<_>>()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("recording_variants: {why}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &[String]) -> Result<(), String> {
    let [recording, folder, first, count] = args else {
        return Err("usage: recording_variants RECORDING FOLDER FIRST COUNT".to_owned());
    };
    let number = |text: &String| text.parse::<u64>().map_err(|_| format!("'{text}' is no number"));
    let (first, count) = (number(first)?, number(count)?);
    let bytes = std::fs::read(recording).map_err(|why| format!("{recording}: {why}"))?;
    let reader = Reader::open(&bytes).map_err(|why| format!("{recording}: {why}"))?;
    let events = bytes.get(first_chunk_ends(&bytes)..).unwrap_or_default();
    for variant in first..first + count {
        let mut header: Header = reader.header().clone();
        header.machine.host = format!("web-{}", variant % HOSTS);
        header.began_unix_s += variant / HOSTS * DAY_S + variant % HOSTS;
        let mut out = Vec::new();
        drop(Writer::new(&mut out, &header).map_err(|why| why.to_string())?);
        out.extend_from_slice(events);
        let path = Path::new(folder).join(format!("variant-{variant}.holdup"));
        std::fs::write(&path, out).map_err(|why| format!("{}: {why}", path.display()))?;
    }
    Ok(())
}

/// The header is the first chunk, behind sixteen bytes; a chunk needs nothing from another (docs/trace-format.md).
fn first_chunk_ends(bytes: &[u8]) -> usize {
    const BEGINNING: usize = 16;
    const CHUNK_HEADER: usize = 44;
    let stored = bytes.get(BEGINNING + 8..BEGINNING + 12).and_then(|word| word.try_into().ok());
    BEGINNING + CHUNK_HEADER + stored.map_or(0, u32::from_le_bytes) as usize
}
