//! The readers, and what they are given.

use fastrand::Rng;

use super::{damage, names, recordings, texts};

/// A reader of what others wrote.
pub struct Reader {
    /// What it reads.
    pub name: &'static str,
    /// How many inputs a child reads: more where they take less time.
    pub chunk: u64,
    /// Makes an input.
    make: fn(&mut Rng) -> Vec<u8>,
    /// Reads it, and does with it what the program does. The number chooses among what takes its time.
    pub read: fn(&[u8], u64),
}

/// All of them. A page of HTML is written only, never read back; results of a trial and of a gate as JSON likewise.
pub static READERS: [Reader; 10] = [
    Reader { name: "recording", chunk: 2_000, make: recordings::damaged, read: recordings::read },
    Reader { name: "perf-data", chunk: 500, make: recordings::damaged_perf_data, read: recordings::import },
    Reader { name: "binary", chunk: 2_000, make: names::damaged_binary, read: names::read_binary },
    Reader { name: "perf-map", chunk: 2_000, make: names::damaged_map, read: names::read_map },
    Reader { name: "jit-dump", chunk: 2_000, make: names::damaged_dump, read: names::read_dump },
    Reader { name: "store", chunk: 1_000, make: texts::damaged_store, read: texts::read_store },
    Reader { name: "experiment", chunk: 2_000, make: texts::damaged_experiment, read: texts::read_experiment },
    Reader { name: "figures", chunk: 2_000, make: texts::damaged_figures, read: texts::read_figures },
    Reader { name: "report", chunk: 10_000, make: texts::damaged_report, read: texts::read_report },
    Reader { name: "output", chunk: 2_000, make: texts::damaged_output, read: texts::read_output },
];

/// The seed of inputs that once showed a fault.
pub const FOUND_SEED: u64 = 0;

/// Those inputs, of which reader, each with the number that it had: they are read before all others.
pub static FOUND: [(&str, u64, &[u8]); 4] = [
    // A return address below the first byte; where a mapping is in its file, a counter, and counts of goroutines, which
    // were more than fits.
    ("binary", 20_421, include_bytes!("../../../../../fixtures/fuzz/found/binary-20421")),
    ("recording", 13_519, include_bytes!("../../../../../fixtures/fuzz/found/recording-13519")),
    ("recording", 29_740, include_bytes!("../../../../../fixtures/fuzz/found/recording-29740")),
    ("recording", 90_839, include_bytes!("../../../../../fixtures/fuzz/found/recording-90839")),
];

/// The reader of this name.
pub fn named(name: &str) -> &'static Reader {
    READERS.iter().find(|reader| reader.name == name).unwrap()
}

impl Reader {
    /// The input of this number: the same in every run with this seed.
    pub fn input(&self, seed: u64, number: u64) -> Vec<u8> {
        if seed == FOUND_SEED {
            let found = FOUND.iter().find(|(name, of, _)| *name == self.name && *of == number);
            return found.map(|(.., bytes)| bytes.to_vec()).unwrap_or_default();
        }
        let name = self.name.bytes().fold(0_u64, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte.into()));
        let mut random = Rng::with_seed(seed.rotate_left(40) ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ name);
        (self.make)(&mut random)
    }
}

/// One of several files, damaged.
pub fn one_of(files: &[Vec<u8>], random: &mut Rng) -> Vec<u8> {
    damage::bytes(&files[random.usize(..files.len())], random)
}
