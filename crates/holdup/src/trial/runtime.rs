//! Switches of the runtimes that programs are built on: how many threads they use, and how these wait.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

/// A switch, and how a program is recognised that heeds it.
struct Switch {
    /// Some of these bytes stand in the program's file: the name of the variable where the runtime is a part of the
    /// program, else the name of its library.
    signs: &'static [&'static [u8]],
    variable: &'static str,
    values: fn(usize) -> Vec<String>,
}

const OPENMP: &[&[u8]] = &[b"libgomp.so", b"libomp.so", b"libiomp5.so"];

/// All that are known. Adding one: its row.
const SWITCHES: &[Switch] = &[
    Switch { signs: &[b"\xff Go buildinf:"], variable: "GOMAXPROCS", values: fewer },
    Switch { signs: OPENMP, variable: "OMP_NUM_THREADS", values: fewer },
    Switch { signs: OPENMP, variable: "OMP_WAIT_POLICY", values: |_| vec!["passive".to_owned(), "active".to_owned()] },
    Switch { signs: &[b"UV_THREADPOOL_SIZE"], variable: "UV_THREADPOOL_SIZE", values: more_than_four },
    Switch { signs: &[b"RAYON_NUM_THREADS"], variable: "RAYON_NUM_THREADS", values: fewer },
    Switch { signs: &[b"TOKIO_WORKER_THREADS"], variable: "TOKIO_WORKER_THREADS", values: fewer },
];
/// So much of a file is looked at; names stand among the constants, which come before what is for debuggers.
const MOST_BYTES: u64 = 256 << 20;

/// What the program in this file heeds, as `NAME=a,b` for each variable, where it has so many CPUs.
pub fn switches(file: &Path, cpus: usize) -> Vec<String> {
    let mut bytes = Vec::new();
    let read = File::open(file).and_then(|file| file.take(MOST_BYTES).read_to_end(&mut bytes));
    if read.is_err() || !bytes.starts_with(b"\x7fELF") {
        return Vec::new();
    }
    of(&bytes, cpus)
}

fn of(bytes: &[u8], cpus: usize) -> Vec<String> {
    let heeded = SWITCHES.iter().filter(|switch| switch.signs.iter().any(|sign| contains(bytes, sign)));
    heeded.map(|switch| format!("{}={}", switch.variable, (switch.values)(cpus).join(","))).collect()
}

/// One thread, and half of them.
fn fewer(cpus: usize) -> Vec<String> {
    let mut counts = vec![1, cpus / 2];
    counts.retain(|count| *count > 0);
    counts.dedup();
    counts.iter().map(usize::to_string).collect()
}

/// libuv has four threads, whatever the machine.
fn more_than_four(cpus: usize) -> Vec<String> {
    let mut counts = vec![cpus.max(8), 4 * cpus.max(8)];
    counts.dedup();
    counts.iter().map(usize::to_string).collect()
}

fn contains(bytes: &[u8], sign: &[u8]) -> bool {
    // The first byte is looked for alone, which is fast.
    let mut rest = bytes;
    while let Some(at) = rest.iter().position(|byte| *byte == sign[0]) {
        if rest[at..].starts_with(sign) {
            return true;
        }
        rest = &rest[at + 1..];
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_runtime_is_known_by_what_its_programs_contain() {
        assert_eq!(of(b"\x7fELF..\xff Go buildinf:\x08", 4), ["GOMAXPROCS=1,2"]);
        assert_eq!(of(b"libc.so.6\0libgomp.so.1\0", 2), ["OMP_NUM_THREADS=1", "OMP_WAIT_POLICY=passive,active"]);
        assert_eq!(of(b"UV_THREADPOOL_SIZE", 2), ["UV_THREADPOOL_SIZE=8,32"]);
        assert_eq!(of(b"libc.so.6\0nothing of that kind", 2), Vec::<String>::new());
        assert!(switches(Path::new("/nowhere/at/all"), 2).is_empty());
    }
}
