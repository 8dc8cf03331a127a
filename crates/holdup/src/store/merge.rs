//! Runs of other stores put into this one, each once however often they are merged.
//!
//! A run is known by what never changes of it: when it began, its command, seed and definition, the facts of its
//! environment (what reading the clock cost, to a tenth of a nanosecond, is among them). Its number here is a new one.

use std::collections::HashMap;

use rusqlite::types::Value as Sql;
use rusqlite::{Connection, Transaction, TransactionBehavior, params_from_iter};

use super::{Store, StoreError};

/// What came of merging a store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Merged {
    /// Runs that were not there.
    pub added: usize,
    /// Runs that were there, and lacked measurements that the other store has.
    pub completed: usize,
    /// Runs that were there with all that the other store has.
    pub known: usize,
}

/// Tables whose rows belong to a run, in the order in which they can be inserted.
const PARTS: [&str; 5] = ["environment", "warning", "cell", "task", "sample"];

/// The column of a row's own number, which is a new one in another store.
const OWN_NUMBER: &str = "id";

impl Store {
    /// Copies what the other store has and this one has not: all of it, or nothing if it is stopped.
    ///
    /// # Errors
    /// One of the two cannot be read, or this one not written.
    pub fn merge(&mut self, other: &Store) -> Result<Merged, StoreError> {
        let theirs = other.read(marks)?;
        let mut runs = Vec::new();
        for (mark, run) in theirs {
            runs.push((mark, other.read(|c| Copied::of(c, run))?));
        }
        let path = self.path.clone();
        self.insert_runs(&runs).map_err(|why| StoreError::sqlite(&path, &why))
    }

    /// The runs with what never changes of each, oldest first: the same text in whichever store a run is.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn marks(&self) -> Result<Vec<(String, i64)>, StoreError> {
        self.read(marks)
    }

    fn insert_runs(&mut self, runs: &[(String, Copied)]) -> rusqlite::Result<Merged> {
        let transaction = self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let known: HashMap<String, i64> = marks(&transaction)?.into_iter().collect();
        let mut merged = Merged::default();
        for (mark, run) in runs {
            match known.get(mark) {
                None => {
                    run.add(&transaction)?;
                    merged.added += 1;
                }
                Some(own) if run.complete(&transaction, *own)? => merged.completed += 1,
                Some(_) => merged.known += 1,
            }
        }
        transaction.commit()?;
        Ok(merged)
    }
}

/// The runs, oldest first, by what never changes of them.
fn marks(connection: &Connection) -> rusqlite::Result<Vec<(String, i64)>> {
    const MARKS: &str = "SELECT json_array(started_unix_s, title, command, seed, definition, (
            SELECT json_group_array(json_array(name, value)) FROM (
                SELECT name, value FROM environment WHERE environment.run = one.id ORDER BY position))), id
        FROM run AS one ORDER BY id";
    connection.prepare(MARKS)?.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?.collect()
}

/// Rows of a table.
struct Rows {
    table: &'static str,
    columns: Vec<String>,
    rows: Vec<Vec<Sql>>,
}

/// A run with all that belongs to it, as it stands in a store.
struct Copied {
    run: Rows,
    finished_unix_s: Option<i64>,
    parts: Vec<Rows>,
}

impl Copied {
    fn of(connection: &Connection, run: i64) -> rusqlite::Result<Copied> {
        let parts = PARTS.into_iter().map(|table| Rows::of(connection, table, "run", run));
        Ok(Copied {
            run: Rows::of(connection, "run", OWN_NUMBER, run)?,
            finished_unix_s: connection
                .query_row("SELECT finished_unix_s FROM run WHERE id = ?1", [run], |row| row.get(0))?,
            parts: parts.collect::<rusqlite::Result<_>>()?,
        })
    }

    fn add(&self, transaction: &Transaction<'_>) -> rusqlite::Result<()> {
        self.run.insert(transaction, "INSERT", None)?;
        let run = transaction.last_insert_rowid();
        for rows in &self.parts {
            rows.insert(transaction, "INSERT", Some(run))?;
        }
        Ok(())
    }

    /// Adds measurements that the run lacks, and that it came to its end; tells whether there was any of it. Where both
    /// stores measured the same, what is here counts.
    fn complete(&self, transaction: &Transaction<'_>, own: i64) -> rusqlite::Result<bool> {
        const FINISH: &str = "UPDATE run SET finished_unix_s = ?2 WHERE id = ?1 AND finished_unix_s IS NULL";
        let of = |table: &'static str| self.parts.iter().filter(move |rows| rows.table == table);
        let mut changed = 0;
        for samples in of("sample") {
            changed += samples.insert(transaction, "INSERT OR IGNORE", Some(own))?;
        }
        let Some(finished) = self.finished_unix_s else { return Ok(changed > 0) };
        let ended = transaction.execute(FINISH, [own, finished])?;
        if ended > 0 {
            transaction.execute("DELETE FROM warning WHERE run = ?1", [own])?;
            for warnings in of("warning") {
                warnings.insert(transaction, "INSERT", Some(own))?;
            }
        }
        Ok(changed + ended > 0)
    }
}

impl Rows {
    /// The rows of a run, without numbers of their own.
    fn of(connection: &Connection, table: &'static str, key: &str, run: i64) -> rusqlite::Result<Rows> {
        // Measurements in the order in which they were made; the other tables have none but their keys.
        let order = if table == "sample" { OWN_NUMBER } else { key };
        let mut statement = connection.prepare(&format!("SELECT * FROM {table} WHERE {key} = ?1 ORDER BY {order}"))?;
        let names = statement.column_names().map(str::to_owned).enumerate();
        let (places, columns): (Vec<usize>, Vec<String>) = names.filter(|(_, name)| name != OWN_NUMBER).unzip();
        let values = |row: &rusqlite::Row<'_>| places.iter().map(|at| row.get(*at)).collect();
        let rows = statement.query_map([run], values)?.collect::<rusqlite::Result<_>>()?;
        Ok(Rows { table, columns, rows })
    }

    /// Inserts them as those of the run of this number; how many came in.
    fn insert(&self, transaction: &Transaction<'_>, how: &str, run: Option<i64>) -> rusqlite::Result<usize> {
        let Rows { table, columns, rows } = self;
        let places: Vec<String> = (1..=columns.len()).map(|place| format!("?{place}")).collect();
        let insert = format!("{how} INTO {table} ({}) VALUES ({})", columns.join(", "), places.join(", "));
        let mut statement = transaction.prepare(&insert)?;
        let mut inserted = 0;
        for row in rows {
            let values = columns.iter().zip(row).map(|(column, value)| match run {
                Some(run) if column == "run" => Sql::Integer(run),
                _ => value.clone(),
            });
            inserted += statement.execute(params_from_iter(values))?;
        }
        Ok(inserted)
    }
}
