//! The store keeps what it is given, and leaves alone what is not its own.

use super::*;
use crate::plan::Sweep;
use holdup_bench::machine::Contamination;
use holdup_bench::sample::{Counters, Latency};
use holdup_run::ProcessUse;

fn plan() -> Plan {
    let mut sweep = Sweep { name: "s".to_owned(), axes: vec![], baseline: Some("pthread".to_owned()), repeats: 2 };
    sweep.axis("lock", "none,pthread").unwrap();
    sweep.axis("threads", "1,2").unwrap();
    sweep.axis("hold", "uniform:0..1us").unwrap();
    Plan::new(&[sweep], u64::MAX - 5).unwrap()
}

fn new_run() -> NewRun {
    NewRun {
        title: "bench".to_owned(),
        command: "holdup bench --seed 1".to_owned(),
        baseline: Some("pthread".to_owned()),
        repeats: 2,
        options: RunOptions { reject: false, limit: Some(Duration::from_millis(1500)) },
        definition: Some("title = 'x'".to_owned()),
        environment: vec![("holdup".to_owned(), "0.1.0".to_owned()), ("cpu".to_owned(), "it's fast".to_owned())],
        plan: plan(),
    }
}

fn measured(order: u32, outcome: Result<Sample, Failure>) -> SampleRecord {
    let task = plan().tasks[order as usize];
    SampleRecord {
        repeat: task.repeat,
        block: task.block,
        order,
        outcome,
        process: ProcessUse { elapsed_ns: 5, max_rss_bytes: 1 << 40, ..ProcessUse::default() },
        contamination: Contamination { background_share: 0.25, steal_share: 0.5 },
        rejected: false,
    }
}

fn sample() -> Sample {
    Sample {
        elapsed_ns: 200_000_001,
        thread_ops: vec![10, 30],
        thread_finish_ns: vec![1, 2],
        unit_ns: 0.1 + 0.2,
        latency: Some(Latency { count: 9, sampled_every: 64, clock_ns: 41.5, ..Latency::default() }),
        counters: Some(Counters { cycles: 5, instructions: 6, cache_misses: 7, cpus: Vec::new() }),
        extra: vec![("round_trips_per_s".to_owned(), 1234.5)],
        ..Sample::default()
    }
}

#[test]
fn everything_given_is_read_back() {
    let mut store = Store::in_memory().unwrap();
    let run = store.begin_run(&new_run()).unwrap();
    let failure = Failure { kind: FailureKind::Hang, detail: "no end within 2 s".to_owned() };
    let records = [measured(0, Ok(sample())), measured(1, Err(failure))];
    for record in &records {
        store.add_sample(run, plan().tasks[record.order as usize].cell, record).unwrap();
    }
    let warnings = vec![("noisy".to_owned(), "the machine was busy".to_owned())];
    store.finish(run, true, &warnings).unwrap();

    let new = new_run();
    assert_eq!(store.plan(run).unwrap(), new.plan);
    assert_eq!(store.options(run).unwrap(), new.options);
    assert_eq!(store.definition(run).unwrap(), (new.title, new.definition));
    let record = store.load(run).unwrap();
    assert_eq!((record.seed, record.complete), (u64::MAX - 5, true));
    assert_eq!((record.environment, record.warnings), (new.environment, warnings));
    for (position, written) in records.iter().enumerate() {
        let cell = &record.cells[plan().tasks[position].cell];
        let read = cell.samples.iter().find(|read| read.order == written.order).unwrap();
        assert_eq!(format!("{read:?}"), format!("{written:?}"));
    }
    let summary = &store.runs().unwrap()[0];
    assert_eq!((summary.cells, summary.planned, summary.measured, summary.failed_cells), (4, 8, 2, 1));
}

#[test]
fn a_rejected_sample_and_its_replacement_are_both_kept() {
    let mut store = Store::in_memory().unwrap();
    let run = store.begin_run(&new_run()).unwrap();
    let cell = plan().tasks[0].cell;
    store.add_sample(run, cell, &SampleRecord { rejected: true, ..measured(0, Ok(sample())) }).unwrap();
    store.add_sample(run, cell, &measured(0, Ok(sample()))).unwrap();
    let again = store.add_sample(run, cell, &measured(0, Ok(sample())));
    assert!(matches!(again, Err(StoreError::MeasuredTwice { .. })), "another program resumes the same run: {again:?}");
    let record = store.load(run).unwrap();
    assert_eq!(record.cells[cell].samples.len(), 2);
    assert_eq!(record.cells[cell].counted().count(), 1);
}

#[test]
fn a_lock_that_is_gone_from_the_registry_can_still_be_read_about() {
    let mut store = Store::in_memory().unwrap();
    let mut new = new_run();
    new.plan.cells[0].1.lock = "lock-of-old".to_owned();
    let run = store.begin_run(&new).unwrap();
    assert_eq!(store.load(run).unwrap().cells[0].spec.lock, "lock-of-old");
}

#[test]
fn runs_are_found_by_number_and_by_last() {
    let mut store = Store::in_memory().unwrap();
    assert!(matches!(store.find("last"), Err(StoreError::NoSuchRun { .. })));
    assert!(matches!(store.last_incomplete(), Err(StoreError::NothingToResume { .. })));
    let first = store.begin_run(&new_run()).unwrap();
    let second = store.begin_run(&new_run()).unwrap();
    store.finish(second, true, &[]).unwrap();
    assert_eq!(store.find("last").unwrap(), second);
    assert_eq!(store.find(&first.to_string()).unwrap(), first);
    assert_eq!(store.last_incomplete().unwrap(), first);
    for wrong in ["99", "first", ""] {
        assert!(matches!(store.find(wrong), Err(StoreError::NoSuchRun { .. })), "{wrong}");
        assert!(matches!(store.load(99), Err(StoreError::NoSuchRun { .. })));
    }
}

#[test]
fn a_store_of_version_1_is_read_and_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    let mut store = Store::open(&path).unwrap();
    let run = store.begin_run(&new_run()).unwrap();
    let cell = plan().tasks[0].cell;
    store.add_sample(run, cell, &measured(0, Ok(sample()))).unwrap();
    let lines = "elapsed_ns 7\nthread_ops 10 30\nthread_finish_ns 1 2\n";
    store.connection.execute("UPDATE sample SET raw = ?1", [lines]).unwrap();
    store.connection.pragma_update(None, "user_version", 1).unwrap();
    drop(store);
    let first = |store: &Store| store.load(run).unwrap().cells[cell].samples[0].outcome.clone().unwrap();
    assert_eq!(first(&Store::open_existing(&path).unwrap()).elapsed_ns, 7);
    let store = Store::open(&path).unwrap();
    assert_eq!(user_version(&store.connection), Ok(VERSION), "an older holdup says that it is newer");
    assert_eq!(first(&store).thread_ops, [10, 30]);
}

/// Opens a file both ways, expects that both fail, and that neither leaves a trace.
fn refused(name: &str, bytes: &[u8]) -> StoreError {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    std::fs::write(&path, bytes).unwrap();
    Store::open_existing(&path).and_then(|store| store.runs().map(|_| ())).expect_err("reading must fail");
    let why = Store::open(&path).expect_err("opening must fail");
    assert_eq!(std::fs::read(&path).unwrap(), bytes, "the file has changed");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "another file has appeared");
    why
}

/// A store with some content, as bytes.
fn filled() -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    let mut store = Store::open(&path).unwrap();
    for _ in 0..20 {
        store.begin_run(&new_run()).unwrap();
    }
    drop(store);
    std::fs::read(&path).unwrap()
}

#[test]
fn what_is_not_a_store_stays_as_it_is() {
    assert!(matches!(refused("a", b"lock,threads\n"), StoreError::Foreign { .. }));
    assert!(matches!(refused("b", &filled()[..50]), StoreError::Foreign { .. }));

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("other.db");
    Connection::open(&path).unwrap().execute_batch("CREATE TABLE t (x)").unwrap();
    let why = refused("c", &std::fs::read(&path).unwrap());
    assert!(matches!(why, StoreError::Foreign { .. }), "{why}");
}

#[test]
fn a_newer_store_stays_as_it_is() {
    let mut bytes = filled();
    bytes[60..64].copy_from_slice(&(VERSION + 1).to_be_bytes());
    assert!(matches!(refused("a", &bytes), StoreError::Newer { version, .. } if version == VERSION + 1));
}

#[test]
fn a_damaged_store_stays_as_it_is() {
    let whole = filled();
    let cut = &whole[..whole.len() - 4096];
    assert!(matches!(refused("cut", cut), StoreError::Damaged { .. }));
    for from in [100, 4096] {
        let mut bytes = whole.clone();
        bytes[from..].fill(0xa5);
        let why = refused("overwritten", &bytes);
        assert!(matches!(why, StoreError::Damaged { .. }), "{from}: {why:?}");
    }
}

/// While a program makes a store, or changes one, the file may be shorter than its first page says.
#[test]
fn a_store_that_is_just_made_is_not_damaged() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    let whole = filled();
    std::fs::write(&path, &whole[..4096]).unwrap();
    assert!(matches!(header::check(&path), Err(StoreError::Damaged { .. })));
    for journal in ["a.db-journal", "a.db-wal"] {
        let journal = folder.path().join(journal);
        std::fs::write(&journal, b"pages").unwrap();
        assert_eq!(header::check(&path).unwrap(), header::Found::Store);
        std::fs::remove_file(&journal).unwrap();
    }
}

#[test]
fn an_empty_file_becomes_a_store_and_a_missing_one_is_not_made_for_reading() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("deep").join("a.db");
    assert!(matches!(Store::open_existing(&path), Err(StoreError::Missing { .. })));
    assert!(!path.exists());
    let path = folder.path().join("empty.db");
    std::fs::write(&path, b"").unwrap();
    assert!(matches!(Store::open_existing(&path), Err(StoreError::Missing { .. })));
    Store::open(&path).unwrap();
    assert_eq!(Store::open_existing(&path).unwrap().runs().unwrap(), []);
}

#[test]
fn many_programs_may_write_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut store = Store::open(&path).unwrap();
                let run = store.begin_run(&new_run()).unwrap();
                for (order, task) in plan().tasks.iter().enumerate() {
                    store.add_sample(run, task.cell, &measured(order as u32, Ok(sample()))).unwrap();
                }
                store.finish(run, true, &[]).unwrap();
            });
        }
    });
    let store = Store::open_existing(&path).unwrap();
    let runs = store.runs().unwrap();
    assert_eq!(runs.len(), 4);
    assert!(runs.iter().all(|run| run.complete && run.measured == run.planned));
}
