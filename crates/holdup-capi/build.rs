//! Writes the functions of every lock from the registry and one template, and gives the shared library its name.
//!
//! The written file is what the compiler compiles *and* what cbindgen reads for the header, so the two cannot differ.

use std::fmt::Write as _;
use std::path::Path;

use holdup_locks::{LOCKS, LockInfo, RW_LOCKS, RwLockInfo};

/// What C must know of a lock beyond its row of the registry. Sizes and first words are part of the binary interface.
struct Row {
    name: &'static str,
    /// Room in C, in words of 8 bytes.
    words: usize,
    /// The words of a free lock.
    init: [u64; 3],
    /// `create` makes its kernel object and says why it could not.
    creates: bool,
    /// What a lock and unlock cost while nobody else wants the lock.
    cost: &'static str,
    /// When not to use it.
    not_for: &'static str,
}

const FREE: [u64; 3] = [0; 3];
const SPIN_COST: &str = "one atomic operation to lock, one store to unlock; waiters burn CPU time";
const TOKEN_COST: &str = "a system call each way, always; the first use makes a file descriptor";
const STUDY: &str = "anything but study: with more threads than CPUs it collapses";

const ROWS: &[Row] = &[
    Row {
        name: "adaptive",
        words: 2,
        init: [100 << 32, 1, 0],
        creates: false,
        cost: "one compare-exchange and one store, about 6 ns together",
        not_for: "strict order of arrival (holdup_fair_t), or locks between processes",
    },
    Row {
        name: "tas",
        words: 1,
        init: [1 << 32 | 2 << 40 | 64 << 48, 0, 0],
        creates: false,
        cost: SPIN_COST,
        not_for: "more than a few threads, or sections longer than a microsecond; holdup_ttas_t does better",
    },
    Row {
        name: "ttas",
        words: 1,
        init: [2 << 40 | 64 << 48, 0, 0],
        creates: false,
        cost: SPIN_COST,
        not_for: "sections longer than a microsecond, and wherever a thread must not starve",
    },
    Row {
        name: "ticket",
        words: 1,
        init: FREE,
        creates: false,
        cost: "one atomic add to lock, one store to unlock; waiters burn CPU time, then give the CPU away",
        not_for: "more threads than CPUs: each turn then waits for one given thread to run",
    },
    Row { name: "ticket-spin", words: 1, init: FREE, creates: false, cost: SPIN_COST, not_for: STUDY },
    Row {
        name: "mcs",
        words: 3,
        init: FREE,
        creates: false,
        cost: "one compare-exchange each way",
        not_for: "waits that must end in time: it has no timed try",
    },
    Row {
        name: "mcs-spin",
        words: 2,
        init: FREE,
        creates: false,
        cost: "one compare-exchange each way; waiters burn CPU time",
        not_for: STUDY,
    },
    Row {
        name: "clh",
        words: 2,
        init: FREE,
        creates: false,
        cost: "one atomic operation each way and two accesses to thread-local storage; the only lock here that allocates: a node \
               per thread and depth, freed when the thread ends",
        not_for: "more threads than CPUs where order does not matter; threads that end while they hold it leak a node",
    },
    Row {
        name: "clh-spin",
        words: 2,
        init: FREE,
        creates: false,
        cost: "as holdup_clh_t; waiters burn CPU time",
        not_for: STUDY,
    },
    Row {
        name: "futex",
        words: 1,
        init: FREE,
        creates: false,
        cost: "one compare-exchange and one exchange; contended, a system call each way",
        not_for: "threads that re-acquire at once beside others that wait: those starve",
    },
    Row {
        name: "fair",
        words: 2,
        init: FREE,
        creates: false,
        cost: "one compare-exchange each way; contended, a context switch per turn",
        not_for: "throughput: handing over to a sleeping thread costs microseconds each time",
    },
    Row {
        name: "eventfd",
        words: 2,
        init: FREE,
        creates: true,
        cost: TOKEN_COST,
        not_for: "speed: it is here for comparison",
    },
    Row {
        name: "eventfd-sem",
        words: 2,
        init: FREE,
        creates: true,
        cost: TOKEN_COST,
        not_for: "speed: it is here for comparison",
    },
    Row {
        name: "sysv-sem",
        words: 3,
        init: FREE,
        creates: true,
        cost: "a system call each way, always, and the kernel's list of what to undo: the dearest here",
        not_for: "many locks: the system has few semaphores, and those of a killed process stay",
    },
    Row {
        name: "futex-pi",
        words: 2,
        init: FREE,
        creates: true,
        cost: "a system call each way, always",
        not_for: "threads of one priority: a contended release hands over to a sleeping thread",
    },
    Row {
        name: "pipe",
        words: 2,
        init: FREE,
        creates: true,
        cost: "a system call each way, always; the first use makes two file descriptors",
        not_for: "speed: it is here for comparison",
    },
];

/// The same of a reader-writer lock.
struct RwRow {
    name: &'static str,
    /// Room in C, in words of 8 bytes.
    words: usize,
    /// Its alignment, as `#[repr]` takes it.
    align: &'static str,
    /// The first words of a free lock; the others are zero.
    init: &'static [u64],
    /// What a lock and unlock cost while nobody else wants the lock.
    cost: &'static str,
    /// When not to use it.
    not_for: &'static str,
}

const RW_ROWS: &[RwRow] = &[
    RwRow {
        name: "rw-adaptive",
        words: 3,
        align: "",
        init: &[100 << 32, 100 << 32, 1],
        cost: "one compare-exchange and one more atomic operation, for reading and for writing",
        not_for: "sections as short as a lock should have, where holdup_adaptive_t costs as much; nor for locks between processes",
    },
    RwRow {
        name: "rw-sharded",
        words: 272,
        align: ", align(128)",
        init: &[100 << 32, 100 << 32, 1, 100],
        cost: "two atomic operations on a line of the thread's own to read; two on each of 16 lines to write",
        not_for: "more than one write among some hundred reads, nor for locks by the thousand: each takes 2,176 bytes",
    },
];

const TEMPLATE: &str = include_str!("src/lock.rs.in");
const RW_TEMPLATE: &str = include_str!("src/rw_lock.rs.in");

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=src/lock.rs.in");
    println!("cargo:rerun-if-changed=src/rw_lock.rs.in");
    let folder = std::env::var("OUT_DIR").expect("cargo sets OUT_DIR");
    let write = |name: &str, text: String| {
        std::fs::write(Path::new(&folder).join(name), text).expect("cargo's OUT_DIR can be written to");
    };
    write("locks.rs", rows().map(|(row, lock)| functions(row, lock)).collect());
    write("locks.tsv", rows().map(|(row, lock)| facts(row, lock)).collect());
    write(
        "rw_locks.rs",
        RW_USES.to_owned() + &rw_rows().map(|(row, lock)| rw_functions(row, lock)).collect::<String>(),
    );
    write("rw_locks.tsv", rw_rows().map(|(row, _)| rw_facts(row)).collect());
    // The name that programs ask the loader for: it changes when the binary interface does.
    if is_for("linux") {
        println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libholdup_locks_c.so.{}", interface());
    }
}

/// The version of the binary interface: the major one, and before 1.0 the minor one too. `xtask install` names its
/// links alike.
fn interface() -> String {
    let part = |name: &str| std::env::var(format!("CARGO_PKG_VERSION_{name}")).expect("cargo sets the version");
    match part("MAJOR").as_str() {
        "0" => format!("0.{}", part("MINOR")),
        major => major.to_owned(),
    }
}

/// Every lock that has a row here and in the registry; a test demands one here for each there. The registry is that of
/// the machine that compiles, so a library for another system is without the objects of this one's kernel.
fn rows() -> impl Iterator<Item = (&'static Row, &'static LockInfo)> {
    let here = is_for("linux");
    ROWS.iter()
        .filter(move |row| here || !row.creates)
        .filter_map(|row| Some((row, LOCKS.iter().find(|lock| lock.name == row.name)?)))
}

/// Whether the library is for this system.
fn is_for(system: &str) -> bool {
    std::env::var("CARGO_CFG_TARGET_OS").as_deref() == Ok(system)
}

/// The functions of one lock: the template, without the blocks that it has not.
fn functions(row: &Row, lock: &LockInfo) -> String {
    let mut text = String::new();
    let mut wanted = true;
    for line in TEMPLATE.lines() {
        match line.trim() {
            "//! if timed" => wanted = lock.timed,
            "//! if creates" => wanted = row.creates,
            "//! end" => wanted = true,
            _ if wanted => {
                let _ = writeln!(text, "{line}");
            }
            _ => {}
        }
    }
    let order =
        if lock.fifo { "Threads get it in the order of their arrival." } else { "The order of waiters is not kept." };
    let init: Vec<String> = row.init[..row.words].iter().map(u64::to_string).collect();
    let text = text
        .replace("$ID", &id(row))
        .replace("$UPPER", &id(row).to_uppercase())
        .replace("$NAME", row.name)
        .replace("$TYPE", &lock.type_name.replace("$crate", "holdup_locks"))
        .replace("$WORDS", &row.words.to_string())
        .replace("$INIT", &init.join(", "))
        .replace("$SUMMARY", lock.summary)
        .replace("$SOURCE", lock.source)
        .replace("$ORDER", order)
        .replace("$COST", row.cost)
        .replace("$NOT_FOR", row.not_for);
    text.lines().map(wrapped).collect()
}

/// A line; one of documentation as several where it is too long for a header.
fn wrapped(line: &str) -> String {
    const WIDTH: usize = 120;
    let Some(words) = line.strip_prefix("/// ") else {
        return format!("{line}\n");
    };
    let (mut text, mut width) = (String::new(), 0);
    for word in words.split(' ') {
        if width == 0 || width + word.len() >= WIDTH {
            text.push_str(if width == 0 { "/// " } else { "\n/// " });
            width = 4;
        } else {
            text.push(' ');
            width += 1;
        }
        text.push_str(word);
        width += word.len();
    }
    text + "\n"
}

/// A line for the header's writer: identifier, timed, creates, the words of a free lock.
fn facts(row: &Row, lock: &LockInfo) -> String {
    let init: Vec<String> = row.init[..row.words].iter().map(|word| format!("{word:#x}")).collect();
    format!("{}\t{}\t{}\t{}\n", id(row), lock.timed, row.creates, init.join(","))
}

fn id(row: &Row) -> String {
    identifier(row.name)
}

fn identifier(name: &str) -> String {
    name.replace('-', "_")
}

const RW_USES: &str = "use holdup_locks::lock_api::{self, RawRwLock as _, RawRwLockTimed as _};\n\n";

/// As `rows`, of the reader-writer locks.
fn rw_rows() -> impl Iterator<Item = (&'static RwRow, &'static RwLockInfo)> {
    RW_ROWS.iter().filter_map(|row| Some((row, RW_LOCKS.iter().find(|lock| lock.name == row.name)?)))
}

/// The functions of one reader-writer lock.
fn rw_functions(row: &RwRow, lock: &RwLockInfo) -> String {
    let words: Vec<String> = row.init.iter().map(u64::to_string).collect();
    let mut halves: Vec<u32> = row.init.iter().flat_map(|word| [*word as u32, (*word >> 32) as u32]).collect();
    // What follows the last field is padding.
    halves.truncate(halves.iter().rposition(|half| *half != 0).map_or(0, |last| last + 1));
    let fields: Vec<String> = halves.iter().map(u32::to_string).collect();
    let text = RW_TEMPLATE
        .replace("$INIT", &words.join(", "))
        .replace("$FIRST", &words.len().to_string())
        .replace("$FIELDS", &fields.join(", "))
        .replace("$ID", &identifier(row.name))
        .replace("$UPPER", &identifier(row.name).to_uppercase())
        .replace("$NAME", row.name)
        .replace("$TYPE", &lock.type_name.replace("$crate", "holdup_locks"))
        .replace("$WORDS", &row.words.to_string())
        .replace("$ALIGN", row.align)
        .replace("$SUMMARY", lock.summary)
        .replace("$SOURCE", lock.source)
        .replace("$COST", row.cost)
        .replace("$NOT_FOR", row.not_for);
    text.lines().map(wrapped).collect()
}

/// A line for the header's writer: identifier, bytes, the words of a free lock that are not zero.
fn rw_facts(row: &RwRow) -> String {
    let init: Vec<String> = row.init.iter().map(|word| format!("{word:#x}")).collect();
    format!("{}\t{}\t{}\n", identifier(row.name), 8 * row.words, init.join(","))
}
