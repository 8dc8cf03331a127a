//! A name for the state of the source and of the object: `cargo xtask bpf` writes it beside them, a test makes it
//! again.

use std::fs;
use std::io;
use std::path::Path;

/// What is named, each with a line of its own in [`FILE`].
const NAMED: [&str; 2] = ["capture.bpf.c", "capture.bpf.o"];
/// Where the names are kept.
pub const FILE: &str = "hashes.txt";

/// What the object is made from and what it is, a line each: `capture.bpf.c 0123456789abcdef`.
pub fn lines(folder: &Path) -> io::Result<String> {
    let line = |name: &str| Ok(format!("{name} {:016x}\n", of(&fs::read(folder.join(name))?)));
    NAMED.into_iter().map(line).collect()
}

/// FNV-1a of 64 bits: against forgetting, not against malice. A checkout may have changed the ends of lines.
fn of(bytes: &[u8]) -> u64 {
    let kept = bytes.iter().filter(|byte| **byte != b'\r');
    kept.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3))
}
