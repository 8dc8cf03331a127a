//! What is wrong with a recording: nothing here stops the analysis, and nothing is passed over in silence.

use holdup_trace::Tid;

/// Something about the recording that touches what can be said from it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Problem {
    /// Events were lost.
    Lost {
        /// How many.
        count: u64,
        /// In how many places.
        places: u64,
        /// First moment.
        from_ns: u64,
        /// Last moment.
        to_ns: u64,
    },
    /// The recording was cut off: no end was written.
    CutOff,
    /// Time ran backwards between two events.
    ClockSkew {
        /// How often.
        count: u64,
        /// At most by how much.
        max_ns: u64,
    },
    /// The kernel counted other switches than were recorded.
    SwitchesDiffer {
        /// The thread; `Tid(0)` for all.
        tid: Tid,
        /// Recorded.
        recorded: u64,
        /// Counted by the kernel.
        counted: u64,
    },
    /// A binary could not be read: its functions have no names.
    Unreadable {
        /// The file.
        path: String,
        /// How many different stacks lead through it.
        hits: u64,
    },
    /// A binary is not the one that ran: its build id differs.
    Replaced {
        /// The file.
        path: String,
    },
    /// A binary has no line information.
    NoLines {
        /// The file.
        path: String,
        /// How many different stacks lead through it.
        hits: u64,
    },
    /// A binary's line information was not read, or not all of it: it is damaged, or costs too much memory or time.
    CostlyLines {
        /// The file.
        path: String,
        /// How many different stacks lead through it.
        hits: u64,
    },
    /// Code that a runtime made as it ran has no names, for the runtime wrote no map of it.
    NoCodeMap {
        /// The command with the switch that makes it write one; empty where the runtime is not known.
        switch: &'static str,
        /// How many different stacks lead through nameless code.
        hits: u64,
        /// Why the map that is there is not believed.
        refused: Option<String>,
    },
    /// The map that a runtime wrote names little of the code that it made: it was written before, or is of another
    /// process.
    PartialCodeMap {
        /// The map.
        path: String,
        /// How many different stacks lead through such code.
        hits: u64,
        /// In how many of them all of it has names.
        named: u64,
        /// The command with the switch that makes the runtime write a map, if it is known.
        switch: Option<&'static str>,
    },
    /// Other programs had the CPUs while threads of the target could run.
    Displaced {
        /// Time of all threads that this took.
        displaced_ns: u64,
        /// Time that the threads were there to work, this included.
        working_ns: u64,
    },
    /// Something that this analysis does not understand; newer versions may.
    Unknown {
        /// What.
        what: String,
    },
}
