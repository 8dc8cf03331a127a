//! The store: one SQLite file that keeps every raw sample, so that any number of reports can be made later.
//!
//! | table | one row per | key |
//! |---|---|---|
//! | `run` | command that measured: when, command, seed, baseline, options, definition of the experiment | `id`, never used twice |
//! | `environment` | fact about the machine and the program | `run, position` |
//! | `warning` | warning shown at the end, with its stable code | `run, position` |
//! | `cell` | combination of factor values: `factors` has all of them as `name=value` words | `run, position` |
//! | `task` | planned measurement, in order | `run, position` |
//! | `sample` | measurement made: the figures, or the failure | `run, task, attempt` |
//!
//! `schema.sql` beside this file is the schema itself, `docs/store.md` explains it to those who query it.
//!
//! Invariants:
//! 1. The file is ours when its header says so (`application_id`), and readable when its `user_version` is not newer
//!    than [`VERSION`]. Both are read from the header's bytes before SQLite sees the file: what is not ours stays as it
//!    is, down to the last byte, and no journal appears beside it.
//! 2. A sample is one transaction, written as soon as it is measured. A killed program loses the run in work, no more.
//! 3. The plan is stored before the first sample. What is missing is the difference of the two: resuming needs no other
//!    state, and an index refuses a second sample where one already counts.
//! 4. `raw` is the sample as JSON, complete; the figures in columns beside it are copies for queries. A result whose
//!    every field has a column (the worker process, what else the machine did) says itself which those are.

mod error;
mod header;
mod lines;
mod merge;
mod shards;
mod version;

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use holdup_bench::sample::{Failure, FailureKind, Sample};
use holdup_bench::spec::Spec;
use rusqlite::types::Value as Sql;
use rusqlite::{Connection, OpenFlags, OptionalExtension, Row, TransactionBehavior, params};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

pub use error::StoreError;
pub use merge::Merged;
pub use shards::SHARD;
pub use version::{APPLICATION_ID, VERSION};

use crate::plan::{Plan, Task};
use crate::results::{CellRecord, RunRecord, SampleRecord, fields};

/// An open store.
#[derive(Debug)]
pub struct Store {
    connection: Connection,
    path: PathBuf,
}

/// What is known of a run before its first sample.
#[derive(Clone, Debug)]
pub struct NewRun {
    /// What history shows: `bench`, or the name of the experiment.
    pub title: String,
    /// The command that repeats it.
    pub command: String,
    /// The lock that others are compared with.
    pub baseline: Option<String>,
    /// Runs per cell that were asked for.
    pub repeats: u32,
    /// How to measure; a resumed run measures likewise.
    pub options: RunOptions,
    /// Text of the experiment file, so that a resumed or old run can be reported with its plots and claims.
    pub definition: Option<String>,
    /// The machine and the program.
    pub environment: Vec<(String, String)>,
    /// Every measurement, in order.
    pub plan: Plan,
}

/// How a run is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunOptions {
    /// Repeat what was measured while something else used the machine.
    pub reject: bool,
    /// Longest time that one measurement may take; `None` derives it from the cell.
    pub limit: Option<Duration>,
}

/// One line of the history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunSummary {
    /// Number in the store.
    pub id: i64,
    /// Seconds since 1970, UTC, when it began.
    pub started_unix_s: i64,
    /// `bench`, or the name of the experiment.
    pub title: String,
    /// The command that repeats it.
    pub command: String,
    /// Whether it came to its end.
    pub complete: bool,
    /// Cells of the plan.
    pub cells: u64,
    /// Measurements planned.
    pub planned: u64,
    /// Planned measurements that were made, rejected and failed ones included.
    pub measured: u64,
    /// Cells with a failure other than what the machine cannot do.
    pub failed_cells: u64,
}

impl Default for RunOptions {
    fn default() -> RunOptions {
        RunOptions { reject: true, limit: None }
    }
}

/// Where the store is when nobody names a file.
///
/// # Errors
/// The environment names no place for a user's data.
pub fn default_path() -> Result<PathBuf, StoreError> {
    crate::sys::data_folder(|name| std::env::var_os(name))
        .map(|folder| folder.join("holdup").join("holdup.db"))
        .ok_or(StoreError::NoDataFolder)
}

impl Store {
    /// Opens a store for measuring, and makes file and folder if there are none.
    ///
    /// # Errors
    /// The file is not a store, is damaged, is newer than this program, or cannot be opened.
    pub fn open(path: &Path) -> Result<Store, StoreError> {
        if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            std::fs::create_dir_all(folder).map_err(|why| StoreError::io(path, why))?;
        }
        header::check(path)?;
        let mut store = Store::connect(path, OpenFlags::SQLITE_OPEN_CREATE)?;
        store.create_schema()?;
        store.check_pages()?;
        store.use_wal()?;
        Ok(store)
    }

    /// Opens a store for reading; a file that does not exist is not made.
    ///
    /// # Errors
    /// There is no such file, or as for [`Store::open`].
    pub fn open_existing(path: &Path) -> Result<Store, StoreError> {
        if header::check(path)? == header::Found::Nothing {
            return Err(StoreError::Missing { path: path.to_owned() });
        }
        Store::connect(path, OpenFlags::empty())
    }

    /// A store that is gone when it is dropped.
    ///
    /// # Errors
    /// SQLite cannot allocate it.
    pub fn in_memory() -> Result<Store, StoreError> {
        let path = PathBuf::from(":memory:");
        let connection = Connection::open_in_memory().map_err(|why| StoreError::sqlite(&path, &why))?;
        let mut store = Store { connection, path };
        store.create_schema()?;
        Ok(store)
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Keeps a run's plan and environment; its number from now on.
    ///
    /// # Errors
    /// The store cannot be written.
    pub fn begin_run(&mut self, new: &NewRun) -> Result<i64, StoreError> {
        let path = self.path.clone();
        self.insert_run(new).map_err(|why| StoreError::sqlite(&path, &why))
    }

    /// Keeps one measurement of the cell at this position of the plan; it is safe when this returns.
    ///
    /// # Errors
    /// The store cannot be written, or another program already measured this.
    pub fn add_sample(&mut self, run: i64, cell: usize, record: &SampleRecord) -> Result<(), StoreError> {
        self.insert_sample(run, cell, record).map_err(|why| match why.sqlite_error_code() {
            Some(rusqlite::ErrorCode::ConstraintViolation) => StoreError::MeasuredTwice { run },
            _ => StoreError::sqlite(&self.path, &why),
        })
    }

    /// Keeps the warnings, and whether the run came to its end.
    ///
    /// # Errors
    /// The store cannot be written.
    pub fn finish(&mut self, run: i64, complete: bool, warnings: &[(String, String)]) -> Result<(), StoreError> {
        let path = self.path.clone();
        self.update_run(run, complete, warnings).map_err(|why| StoreError::sqlite(&path, &why))
    }

    /// Everything about one run.
    ///
    /// # Errors
    /// There is no such run, or the store cannot be read.
    pub fn load(&self, run: i64) -> Result<RunRecord, StoreError> {
        let mut record = self
            .read(|c| c.query_row("SELECT * FROM run WHERE id = ?1", [run], run_record).optional())?
            .ok_or_else(|| StoreError::NoSuchRun { path: self.path.clone(), run: run.to_string() })?;
        record.environment = self.pairs("SELECT name, value FROM environment WHERE run = ?1 ORDER BY position", run)?;
        record.warnings = self.pairs("SELECT code, text FROM warning WHERE run = ?1 ORDER BY position", run)?;
        record.cells =
            self.cells(run)?.into_iter().map(|(sweep, spec)| CellRecord { sweep, spec, samples: Vec::new() }).collect();
        for (cell, sample) in self.samples(run)? {
            let cell = record.cells.get_mut(cell).ok_or_else(|| self.damaged("a sample without a cell"))?;
            cell.samples.push(sample);
        }
        Ok(record)
    }

    /// The plan of a run, as it was when the run began.
    ///
    /// # Errors
    /// There is no such run, or the store cannot be read.
    pub fn plan(&self, run: i64) -> Result<Plan, StoreError> {
        let seed = self.column::<i64>("SELECT seed FROM run WHERE id = ?1", run)?.cast_unsigned();
        let tasks = self.read(|c| {
            c.prepare("SELECT cell, repeat, block FROM task WHERE run = ?1 ORDER BY position")?
                .query_map([run], |row| Ok(Task { cell: row.get(0)?, repeat: row.get(1)?, block: row.get(2)? }))?
                .collect()
        })?;
        Ok(Plan { cells: self.cells(run)?, tasks, seed })
    }

    /// How a run was asked to be measured.
    ///
    /// # Errors
    /// There is no such run, or the store cannot be read.
    pub fn options(&self, run: i64) -> Result<RunOptions, StoreError> {
        let limit_ns = self.column::<Option<u64>>("SELECT limit_ns FROM run WHERE id = ?1", run)?;
        Ok(RunOptions {
            reject: self.column("SELECT reject FROM run WHERE id = ?1", run)?,
            limit: limit_ns.map(Duration::from_nanos),
        })
    }

    /// Title of a run and the text of its experiment file, if it has one.
    ///
    /// # Errors
    /// There is no such run, or the store cannot be read.
    pub fn definition(&self, run: i64) -> Result<(String, Option<String>), StoreError> {
        Ok((
            self.column("SELECT title FROM run WHERE id = ?1", run)?,
            self.column("SELECT definition FROM run WHERE id = ?1", run)?,
        ))
    }

    /// Every run, newest first.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn runs(&self) -> Result<Vec<RunSummary>, StoreError> {
        const SUMMARIES: &str = "SELECT id, started_unix_s, title, command, finished_unix_s IS NOT NULL,
            (SELECT count(*) FROM cell WHERE run = run.id),
            (SELECT count(*) FROM task WHERE run = run.id),
            (SELECT count(DISTINCT task) FROM sample WHERE run = run.id),
            (SELECT count(DISTINCT cell) FROM sample WHERE run = run.id AND failure <> 'unsupported')
            FROM run ORDER BY id DESC";
        self.read(|c| {
            let mut statement = c.prepare(SUMMARIES)?;
            let rows = statement.query_map([], |row| {
                Ok(RunSummary {
                    id: row.get(0)?,
                    started_unix_s: row.get(1)?,
                    title: row.get(2)?,
                    command: row.get(3)?,
                    complete: row.get(4)?,
                    cells: row.get(5)?,
                    planned: row.get(6)?,
                    measured: row.get(7)?,
                    failed_cells: row.get(8)?,
                })
            })?;
            rows.collect()
        })
    }

    /// The run that a user means: a number, or `last`.
    ///
    /// # Errors
    /// There is no such run, or the store cannot be read.
    pub fn find(&self, text: &str) -> Result<i64, StoreError> {
        let missing = || StoreError::NoSuchRun { path: self.path.clone(), run: text.to_owned() };
        let found = match text {
            "last" => self.read(|c| c.query_row("SELECT max(id) FROM run", [], |row| row.get(0)))?,
            _ => {
                let id: i64 = text.parse().map_err(|_| missing())?;
                self.read(|c| c.query_row("SELECT id FROM run WHERE id = ?1", [id], |row| row.get(0)).optional())?
            }
        };
        found.ok_or_else(missing)
    }

    /// The newest run that did not come to its end.
    ///
    /// # Errors
    /// Every run did, or the store cannot be read.
    pub fn last_incomplete(&self) -> Result<i64, StoreError> {
        let newest = "SELECT max(id) FROM run WHERE finished_unix_s IS NULL";
        self.read(|c| c.query_row(newest, [], |row| row.get::<_, Option<i64>>(0)))?
            .ok_or_else(|| StoreError::NothingToResume { path: self.path.clone() })
    }
}

/// How long a statement waits for another program's transaction.
const PATIENCE: Duration = Duration::from_secs(10);

impl Store {
    fn connect(path: &Path, create: OpenFlags) -> Result<Store, StoreError> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX | create;
        let connect = || {
            let connection = Connection::open_with_flags(path, flags)?;
            connection.busy_timeout(PATIENCE)?;
            connection.pragma_update(None, "synchronous", "NORMAL")?;
            connection.pragma_update(None, "foreign_keys", true)?;
            Ok(connection)
        };
        let connection = connect().map_err(|why| StoreError::sqlite(path, &why))?;
        Ok(Store { connection, path: path.to_owned() })
    }

    /// In one exclusive transaction, so that of two programs that start together one makes the tables and the other
    /// finds them. The file is not in WAL mode yet: its header carries our mark from the first commit on.
    fn create_schema(&mut self) -> Result<(), StoreError> {
        let path = self.path.clone();
        let create = |connection: &mut Connection| {
            if user_version(connection)? == VERSION {
                return Ok(());
            }
            let transaction = connection.transaction_with_behavior(TransactionBehavior::Exclusive)?;
            if user_version(&transaction)? == 0 {
                transaction.execute_batch(include_str!("schema.sql"))?;
                transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
            }
            transaction.pragma_update(None, "user_version", VERSION)?;
            transaction.commit()
        };
        create(&mut self.connection).map_err(|why| StoreError::sqlite(&path, &why))
    }

    /// Looks through the file's structure before anything is written to it.
    fn check_pages(&self) -> Result<(), StoreError> {
        let verdict: String = self.read(|c| c.query_row("PRAGMA quick_check(1)", [], |row| row.get::<_, String>(0)))?;
        if verdict == "ok" { Ok(()) } else { Err(self.damaged(&verdict)) }
    }

    /// Readers and a writer do not wait for each other. The switch itself wants the file for a moment and does not wait
    /// for it by SQLite's own patience, so it is tried again.
    fn use_wal(&self) -> Result<(), StoreError> {
        const PAUSE: Duration = Duration::from_millis(20);
        let mut left = PATIENCE;
        loop {
            let switched = self.connection.query_row("PRAGMA journal_mode = WAL", [], |_| Ok(()));
            match switched {
                Err(why) if why.sqlite_error_code() == Some(rusqlite::ErrorCode::DatabaseBusy) && !left.is_zero() => {
                    std::thread::sleep(PAUSE);
                    left = left.saturating_sub(PAUSE);
                }
                switched => return switched.map_err(|why| StoreError::sqlite(&self.path, &why)),
            }
        }
    }

    fn insert_run(&mut self, new: &NewRun) -> rusqlite::Result<i64> {
        let transaction = self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        transaction.execute(
            "INSERT INTO run (started_unix_s, title, command, seed, baseline, repeats, reject, limit_ns, definition)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
            params![
                now_unix_s(),
                new.title,
                new.command,
                new.plan.seed.cast_signed(),
                new.baseline,
                new.repeats,
                new.options.reject,
                new.options.limit.map(|limit| saturate(limit.as_nanos())),
                new.definition,
            ],
        )?;
        let run = transaction.last_insert_rowid();
        insert_pairs(&transaction, "INSERT INTO environment VALUES (?1, ?2, ?3, ?4)", run, &new.environment)?;
        insert_plan(&transaction, run, &new.plan)?;
        transaction.commit()?;
        Ok(run)
    }

    fn insert_sample(&self, run: i64, cell: usize, record: &SampleRecord) -> rusqlite::Result<()> {
        let (sample, failure) = (record.outcome.as_ref().ok(), record.outcome.as_ref().err());
        let mut columns: Vec<(String, Sql)> = [
            ("run", run.into()),
            ("task", record.order.into()),
            ("cell", saturate(cell).into()),
            ("repeat", record.repeat.into()),
            ("block", record.block.into()),
            ("rejected", record.rejected.into()),
            ("failure", failure.map(|failure| failure.kind.to_string()).into()),
            ("failure_detail", failure.map(|failure| failure.detail.clone()).into()),
            ("ops", sample.map(|sample| saturate(sample.ops())).into()),
            ("raw", sample.map(|sample| serde_json::to_string(sample).unwrap_or_default()).into()),
        ]
        .map(|(column, value)| (column.to_owned(), value))
        .into();
        let copied = sample.map(fields).unwrap_or_default().into_iter().filter(|(name, _)| COPIED.contains(&&**name));
        columns.extend(copied.map(|(name, value)| (name, sql(&value, Sql::Null))));
        let process = fields(&record.process).into_iter();
        columns.extend(process.map(|(name, value)| (format!("{PROCESS}{name}"), sql(&value, UNCOUNTED))));
        // SQLite reads NaN as NULL, which these columns refuse.
        let contamination = fields(&record.contamination).into_iter();
        columns.extend(contamination.map(|(name, value)| (name, sql(&value, Sql::Real(0.0)))));
        let (names, values): (Vec<String>, Vec<Sql>) = columns.into_iter().unzip();
        let places: Vec<String> = (1..=names.len()).map(|place| format!("?{place}")).collect();
        let insert = format!(
            "INSERT INTO sample (attempt, {}) VALUES ((SELECT count(*) FROM sample WHERE run = ?1 AND task = ?2), {})",
            names.join(", "),
            places.join(", ")
        );
        self.connection.execute(&insert, rusqlite::params_from_iter(values)).map(|_| ())
    }

    fn update_run(&mut self, run: i64, complete: bool, warnings: &[(String, String)]) -> rusqlite::Result<()> {
        let transaction = self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        transaction.execute("DELETE FROM warning WHERE run = ?1", [run])?;
        insert_pairs(&transaction, "INSERT INTO warning VALUES (?1, ?2, ?3, ?4)", run, warnings)?;
        let finished = complete.then(now_unix_s);
        transaction.execute("UPDATE run SET finished_unix_s = ?2 WHERE id = ?1", params![run, finished])?;
        transaction.commit()
    }

    fn cells(&self, run: i64) -> Result<Vec<(String, Spec)>, StoreError> {
        let rows: Vec<(String, String)> =
            self.pairs("SELECT sweep, factors FROM cell WHERE run = ?1 ORDER BY position", run)?;
        rows.into_iter().map(|(sweep, words)| Ok((sweep, self.spec(&words)?))).collect()
    }

    /// A lock of an old run may be gone from the registry; its results are still worth reading.
    fn spec(&self, words: &str) -> Result<Spec, StoreError> {
        let (lock, others): (Vec<&str>, Vec<&str>) = words.split(' ').partition(|word| word.starts_with("lock="));
        let mut spec = Spec::from_words(others).map_err(|why| self.damaged(&why.to_string()))?;
        if let Some(name) = lock.first().and_then(|word| word.strip_prefix("lock=")) {
            spec.lock = name.to_owned();
        }
        Ok(spec)
    }

    fn samples(&self, run: i64) -> Result<Vec<(usize, SampleRecord)>, StoreError> {
        self.read(|c| {
            c.prepare("SELECT * FROM sample WHERE run = ?1 ORDER BY id")?
                .query_map([run], |row| Ok((row.get("cell")?, sample_record(row)?)))?
                .collect()
        })
    }

    fn pairs(&self, sql: &str, run: i64) -> Result<Vec<(String, String)>, StoreError> {
        self.read(|c| c.prepare(sql)?.query_map([run], |row| Ok((row.get(0)?, row.get(1)?)))?.collect())
    }

    fn column<T: rusqlite::types::FromSql>(&self, sql: &str, run: i64) -> Result<T, StoreError> {
        self.read(|c| c.query_row(sql, [run], |row| row.get(0)).optional())?
            .ok_or_else(|| StoreError::NoSuchRun { path: self.path.clone(), run: run.to_string() })
    }

    fn read<T>(&self, query: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> Result<T, StoreError> {
        query(&self.connection).map_err(|why| StoreError::sqlite(&self.path, &why))
    }

    fn damaged(&self, what: &str) -> StoreError {
        StoreError::Damaged { path: self.path.clone(), what: what.to_owned() }
    }
}

fn user_version(connection: &Connection) -> rusqlite::Result<u32> {
    connection.pragma_query_value(None, "user_version", |row| row.get(0))
}

fn insert_pairs(connection: &Connection, sql: &str, run: i64, pairs: &[(String, String)]) -> rusqlite::Result<()> {
    let mut insert = connection.prepare(sql)?;
    for (position, (first, second)) in pairs.iter().enumerate() {
        insert.execute(params![run, position, first, second])?;
    }
    Ok(())
}

fn insert_plan(connection: &Connection, run: i64, plan: &Plan) -> rusqlite::Result<()> {
    let mut insert = connection.prepare("INSERT INTO cell VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)")?;
    for (position, (sweep, spec)) in plan.cells.iter().enumerate() {
        let words = spec.to_words().join(" ");
        insert.execute(params![run, position, sweep, spec.lock, spec.workload.name(), spec.threads, words])?;
    }
    let mut insert = connection.prepare("INSERT INTO task VALUES (?1, ?2, ?3, ?4, ?5)")?;
    for (position, task) in plan.tasks.iter().enumerate() {
        insert.execute(params![run, position, task.cell, task.repeat, task.block])?;
    }
    Ok(())
}

fn run_record(row: &Row<'_>) -> rusqlite::Result<RunRecord> {
    Ok(RunRecord {
        id: row.get("id")?,
        started_unix_s: row.get("started_unix_s")?,
        command: row.get("command")?,
        seed: row.get::<_, i64>("seed")?.cast_unsigned(),
        baseline: row.get("baseline")?,
        repeats: row.get("repeats")?,
        complete: row.get::<_, Option<i64>>("finished_unix_s")?.is_some(),
        environment: Vec::new(),
        warnings: Vec::new(),
        cells: Vec::new(),
    })
}

fn sample_record(row: &Row<'_>) -> rusqlite::Result<SampleRecord> {
    Ok(SampleRecord {
        repeat: row.get("repeat")?,
        block: row.get("block")?,
        order: row.get("task")?,
        outcome: outcome(row)?,
        process: result(row, PROCESS)?,
        contamination: result(row, "")?,
        rejected: row.get("rejected")?,
    })
}

fn outcome(row: &Row<'_>) -> rusqlite::Result<Result<Sample, Failure>> {
    if let Some(name) = row.get::<_, Option<String>>("failure")? {
        let kind = FailureKind::named(&name).unwrap_or(FailureKind::Crash);
        return Ok(Err(Failure { kind, detail: row.get("failure_detail")? }));
    }
    let raw: String = row.get("raw")?;
    let read = if raw.starts_with('{') {
        serde_json::from_str(&raw).map_err(|why| why.to_string())
    } else {
        lines::read(&raw)
    };
    read.map(Ok).map_err(unreadable)
}

fn unreadable(why: String) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(0, rusqlite::types::Type::Text, why.into())
}

/// Fields of a sample that have a column beside `raw`.
const COPIED: [&str; 5] = ["elapsed_ns", "user_ns", "kernel_ns", "voluntary_switches", "involuntary_switches"];
/// Columns of the worker process begin so; their names go on like the fields.
const PROCESS: &str = "process_";
/// In a column that must have a value: what the system did not count.
const UNCOUNTED: Sql = Sql::Integer(-1);

/// A field in its column.
fn sql(value: &Value, none: Sql) -> Sql {
    let count = value.as_u64().map(|count| Sql::Integer(saturate(count)));
    count.or_else(|| value.as_f64().map(Sql::Real)).unwrap_or(none)
}

/// A result of which each field has a column.
fn result<T: Serialize + DeserializeOwned + Default>(row: &Row<'_>, prefix: &str) -> rusqlite::Result<T> {
    let value = |name: &str| {
        Ok(match row.get(&*format!("{prefix}{name}"))? {
            Sql::Integer(count) => u64::try_from(count).map_or(Value::Null, Value::from),
            Sql::Real(value) => value.into(),
            _ => Value::Null,
        })
    };
    let fields = fields(&T::default()).into_iter();
    let values: rusqlite::Result<serde_json::Map<_, _>> =
        fields.map(|(name, _)| value(&name).map(|value| (name, value))).collect();
    serde_json::from_value(Value::Object(values?)).map_err(|why| unreadable(why.to_string()))
}

/// SQLite's integers have a sign.
fn saturate(value: impl TryInto<i64>) -> i64 {
    value.try_into().unwrap_or(i64::MAX)
}

fn now_unix_s() -> i64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| saturate(since.as_secs()))
}

#[cfg(test)]
mod tests;
