//! Where CRuby keeps its threads, frames and code, on 64-bit x86: the same in all releases of one minor version.
//! Offsets are bytes.

/// Offsets in the interpreter's structures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// In a ractor: its place in the machine's list of them, its list of threads, how many these are, the thread that
    /// has the interpreter's lock, the queue of those that wait for it, and the main thread.
    pub ractor_node: u64,
    pub threads: u64,
    pub thread_count: u64,
    pub lock_holder: u64,
    pub lock_queue: u64,
    pub main_thread: u64,
    /// In a thread: its place in that queue, what it executes, its name, and how the system calls it.
    pub in_queue: u64,
    pub context: u64,
    pub name: u64,
    pub number: Number,
    /// In what a thread executes: the thread.
    pub thread: u64,
    /// Bytes of a frame.
    pub frame: u64,
    /// In the body of a code object: the table of lines, the bit index by which it is searched, and how many rows it
    /// has.
    pub lines: u64,
    pub line_index: u64,
    pub line_count: u64,
    /// Bytes of a row in the table of lines.
    pub line_row: u64,
    /// Whether a string that has its characters within has its length there too, rather than in its flags.
    pub length_within: bool,
}

/// How a thread tells the system's number of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Number {
    /// By what pthread_self gives.
    Pthread(u64),
    /// It is there.
    Own(u64),
    /// It is in the native thread that runs it, which is here if there is one.
    Native { native: u64, number: u64 },
}

const V3_0: Layout = Layout {
    ractor_node: 568,
    threads: 304,
    thread_count: 320,
    lock_holder: 336,
    lock_queue: 384,
    main_thread: 528,
    in_queue: 96,
    context: 40,
    name: 544,
    number: Number::Pthread(80),
    thread: 56,
    frame: 56,
    lines: 120,
    line_index: 144,
    line_count: 136,
    line_row: 8,
    length_within: false,
};

const V3_1: Layout =
    Layout { in_queue: 104, name: 352, number: Number::Own(88), thread: 48, frame: 64, line_row: 12, ..V3_0 };

const V3_2: Layout = Layout {
    in_queue: 56,
    context: 48,
    name: 304,
    number: Number::Native { native: 40, number: 16 },
    lines: 112,
    line_index: 136,
    line_count: 128,
    length_within: true,
    ..V3_1
};

const V3_3: Layout = Layout {
    ractor_node: 432,
    threads: 256,
    thread_count: 272,
    lock_holder: 328,
    lock_queue: 344,
    in_queue: 72,
    main_thread: 392,
    name: 432,
    number: Number::Native { native: 40, number: 24 },
    frame: 56,
    ..V3_2
};

const V3_4: Layout = Layout { name: 448, ..V3_3 };

impl Layout {
    /// Of an interpreter that says this of its version (`3.1.7`); `None` for versions that are not known.
    pub fn of(version: &str) -> Option<Layout> {
        let mut parts = version.split('.').map(str::parse::<u32>);
        match (parts.next()?, parts.next()?, parts.next()?, parts.next()) {
            (Ok(3), Ok(0), Ok(_), None) => Some(V3_0),
            (Ok(3), Ok(1), Ok(_), None) => Some(V3_1),
            (Ok(3), Ok(2), Ok(_), None) => Some(V3_2),
            (Ok(3), Ok(3), Ok(_), None) => Some(V3_3),
            (Ok(3), Ok(4), Ok(_), None) => Some(V3_4),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_versions_that_are_known_have_a_layout() {
        assert_eq!(Layout::of("3.1.7"), Some(V3_1));
        assert_eq!(Layout::of("3.4.10"), Some(V3_4));
        for other in ["2.7.8", "3.5.0", "4.0.1", "3.1", "3.1.7.1", "3.1.x", "", "3"] {
            assert_eq!(Layout::of(other), None, "{other}");
        }
    }
}
