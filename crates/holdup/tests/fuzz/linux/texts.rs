//! The store, experiment files, what interposed processes leave, what workers and users' programs print.

use std::fs::File;
use std::mem::offset_of;
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;
use std::sync::LazyLock;
use std::time::Duration;

use fastrand::Rng;
use holdup::experiment::{self, file};
use holdup::interposer::{figures, naming};
use holdup::plan::{Plan, Sweep};
use holdup::results::SampleRecord;
use holdup::store::{NewRun, RunOptions, Store};
use holdup::trial::figure::Metric;
use holdup::trial::found::{self, Seen};
use holdup_bench::machine::Contamination;
use holdup_bench::sample::{Counters, Failure, FailureKind, Latency, Sample};
use holdup_bench::worker::Report;
use holdup_control as control;
use holdup_run::ProcessUse;

use super::{damage, readers};

/// A file of this process, in memory where the system has such a place.
fn scratch(name: &str) -> PathBuf {
    let memory = PathBuf::from("/dev/shm");
    let folder = if memory.is_dir() { memory } else { std::env::temp_dir() };
    folder.join(format!("holdup-fuzz-{}-{name}", std::process::id()))
}

fn sample() -> Sample {
    Sample {
        elapsed_ns: 200_000_001,
        thread_ops: vec![10, 30],
        thread_finish_ns: vec![1, 2],
        latency: Some(Latency { count: 9, sampled_every: 64, clock_ns: 41.5, ..Latency::default() }),
        counters: Some(Counters { cycles: 5, instructions: 6, cache_misses: 7, cpus: Vec::new() }),
        extra: vec![("round_trips_per_s".to_owned(), 1234.5)],
        ..Sample::default()
    }
}

/// A store with one run, as bytes.
static STORE: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let mut sweep = Sweep { name: "s".to_owned(), axes: vec![], baseline: Some("pthread".to_owned()), repeats: 2 };
    sweep.axis("lock", "none,pthread").unwrap();
    sweep.axis("threads", "1,2").unwrap();
    let plan = Plan::new(&[sweep], 7).unwrap();
    let new = NewRun {
        title: "bench".to_owned(),
        command: "holdup bench --seed 1".to_owned(),
        baseline: Some("pthread".to_owned()),
        repeats: 2,
        options: RunOptions { reject: false, limit: Some(Duration::from_millis(1500)) },
        definition: Some("title = 'x'".to_owned()),
        environment: vec![("holdup".to_owned(), "0.1.0".to_owned())],
        plan: plan.clone(),
    };
    let path = scratch("made.db");
    let mut store = Store::open(&path).unwrap();
    let run = store.begin_run(&new).unwrap();
    for (order, task) in plan.tasks.iter().enumerate() {
        let failure = Failure { kind: FailureKind::Hang, detail: "no end within 2 s".to_owned() };
        let record = SampleRecord {
            repeat: task.repeat,
            block: task.block,
            order: order as u32,
            outcome: if order == 3 { Err(failure) } else { Ok(sample()) },
            process: ProcessUse { elapsed_ns: 5, ..ProcessUse::default() },
            contamination: Contamination { background_share: 0.25, steal_share: 0.5 },
            rejected: false,
        };
        store.add_sample(run, task.cell, &record).unwrap();
    }
    store.finish(run, true, &[("noise".to_owned(), "much".to_owned())]).unwrap();
    drop(store);
    let bytes = std::fs::read(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    bytes
});

pub fn damaged_store(random: &mut Rng) -> Vec<u8> {
    let mut bytes = readers::one_of(std::slice::from_ref(&STORE), random);
    // What is not ours is not opened at all.
    if random.usize(..8) > 0 {
        bytes.iter_mut().zip(&STORE[..100]).for_each(|(byte, whole)| *byte = *whole);
    }
    bytes
}

pub fn read_store(bytes: &[u8], _: u64) {
    let path = scratch("read.db");
    std::fs::write(&path, bytes).unwrap();
    if let Ok(store) = Store::open_existing(&path) {
        let runs = store.runs().unwrap_or_default();
        for run in runs.iter().take(3).map(|run| run.id) {
            let _ = (store.plan(run).is_ok(), store.options(run).is_ok(), store.definition(run).is_ok());
            if let Ok(record) = store.load(run) {
                holdup::report::csv::run(&record);
            }
        }
    }
    std::fs::remove_file(&path).unwrap();
}

pub fn damaged_experiment(random: &mut Rng) -> Vec<u8> {
    const WORDS: [&str; 22] = [
        "(",
        ")",
        "[",
        "]",
        "{",
        "\"",
        "'",
        "-",
        "!",
        "not ",
        "1e999",
        " and ",
        "ratio(",
        "time_per_op_ns",
        "lock=pthread",
        "0..1us",
        "[[claim]]\n",
        "threads = \"1..4096\"\n",
        "x = ",
        "\n",
        "max(",
        "\u{1b}",
    ];
    let all: Vec<(&str, &str)> = experiment::embedded().collect();
    let text = all[random.usize(..all.len())].1;
    damage::text(text, &WORDS, random).into_bytes()
}

pub fn read_experiment(bytes: &[u8], _: u64) {
    let text = String::from_utf8_lossy(bytes);
    file::is_for_another_system(&text);
    if let Err(why) = file::parse("fuzz.toml", &text) {
        assert!(why.to_string().contains("fuzz.toml"));
    }
}

/// The parts of a file of figures that are read: one after the other, each where it belongs.
const PARTS: [(usize, usize); 4] = [
    (0, offset_of!(control::Figures, threads)),
    (offset_of!(control::Figures, threads), 2 * size_of::<control::ThreadSlot>()),
    (offset_of!(control::Figures, modules), 2 * size_of::<control::Module>()),
    (offset_of!(control::Figures, locks), 3 * size_of::<control::LockRecord>()),
];

pub fn damaged_figures(random: &mut Rng) -> Vec<u8> {
    let mut bytes: Vec<u8> = Vec::new();
    for (_, len) in PARTS {
        let sparse = |_| if random.usize(..3) == 0 { random.u8(..) } else { 0 };
        bytes.extend((0..len).map(sparse));
    }
    let mut put = |at: usize, word: u32| bytes[at..at + 4].copy_from_slice(&word.to_ne_bytes());
    put(offset_of!(control::Figures, version), control::VERSION);
    put(offset_of!(control::Figures, bytes), size_of::<control::Figures>() as u32);
    for at in [
        offset_of!(control::Figures, threads_len),
        offset_of!(control::Figures, modules_len),
        offset_of!(control::Figures, locks_len),
    ] {
        put(at, if random.usize(..4) == 0 { random.u32(..) } else { random.u32(..4) });
    }
    let magic = offset_of!(control::Figures, magic);
    bytes[magic..magic + 8].copy_from_slice(&control::MAGIC.to_ne_bytes());
    if random.usize(..4) == 0 { damage::bytes(&bytes, random) } else { bytes }
}

pub fn read_figures(bytes: &[u8], number: u64) {
    let path = scratch("figures");
    let file = File::create(&path).unwrap();
    // A process that has just begun, or was killed.
    let whole = size_of::<control::Figures>() as u64;
    file.set_len(if number.is_multiple_of(16) { whole / 2 } else { whole }).unwrap();
    let mut rest = bytes;
    for (at, len) in PARTS {
        let (part, later) = rest.split_at(len.min(rest.len()));
        file.write_all_at(part, at as u64).unwrap();
        rest = later;
    }
    let _ = figures::read_process(&path).unwrap();
    if let Some(figures) = figures::read(&path).unwrap() {
        let sums = figures.locks.iter().map(|lock| lock.summary().acquisitions);
        std::hint::black_box(sums.fold(0, u64::wrapping_add));
        if figures.locks.len() < 10 {
            naming::named(&figures);
        }
    }
    std::fs::remove_file(&path).unwrap();
}

pub fn damaged_report(random: &mut Rng) -> Vec<u8> {
    const WORDS: [&str; 10] = ["{", "[", "null", "1e999", "-1", "\"", ",", "NaN", "\\u0000", "\"sample\":"];
    let text = serde_json::to_string(&Report::from(Ok(sample()))).unwrap();
    damage::text(&text, &WORDS, random).into_bytes()
}

pub fn read_report(bytes: &[u8], _: u64) {
    let _ = serde_json::from_slice::<Report>(bytes).is_ok();
}

pub fn damaged_output(random: &mut Rng) -> Vec<u8> {
    const WORDS: [&str; 12] = ["1", "0", "-7", "1e308", "1e999", "nan", ".", ",", "ops/sec", "\n", "%", "\u{1b}[2J"];
    const TEXT: &str =
        "queries performed:\n  total number of events: 1234\n  events/s (eps): 99.25\n99th percentile: 7.3 ms\n";
    damage::text(TEXT, &WORDS, random).into_bytes()
}

pub fn read_output(bytes: &[u8], number: u64) {
    let text = String::from_utf8_lossy(bytes);
    let seen = |condition: usize| Seen {
        elapsed_s: 2.0 + 0.0001 * condition as f64,
        cpu_s: 1.0,
        acquisitions: None,
        on_one_cpu: condition == 1,
        condition,
        printed: [text.replace('9', &condition.to_string()), String::new()],
    };
    found::judge(&[0, 1, 2].map(seen), &["./bench".to_owned()]);
    // What a user gives as an expression may be anything, too.
    if number.is_multiple_of(8)
        && let Ok(metric) = Metric::new(text.lines().next().unwrap_or_default(), true)
    {
        metric.find(&text, "");
        metric.why_none(&text, "");
    }
}
