//! Shards of one sweep, each a run of its own, read as the run that they are parts of.

use super::{Store, StoreError};
use crate::plan::{Shard, groups};
use crate::results::{CellRecord, RunRecord};

/// The fact of the environment that says which part of a sweep a run is.
pub const SHARD: &str = "shard";

/// Between values of a fact that is not the same for all shards.
const OR: &str = " | ";

impl Store {
    /// Everything about one run; of a shard, with all shards of its sweep that are in the store.
    ///
    /// # Errors
    /// There is no such run, or the store cannot be read.
    pub fn load_whole(&self, run: i64) -> Result<RunRecord, StoreError> {
        let record = self.load(run)?;
        let Some(shard) = shard_of(&record) else { return Ok(record) };
        let siblings = self.siblings(&record, shard)?;
        let parts = siblings.into_iter().map(|id| self.load(id)).collect::<Result<Vec<_>, _>>()?;
        Ok(joined(record, shard, parts))
    }

    /// The runs that are the parts of the same sweep, one of each number: of several that which began next to this one.
    fn siblings(&self, record: &RunRecord, shard: Shard) -> Result<Vec<i64>, StoreError> {
        let runs = self.runs()?;
        let mut ids = Vec::new();
        for number in (1..=shard.of()).filter(|number| *number != shard.number()) {
            let wanted = format!("{} --shard {number}/{}", whole_command(record, shard), shard.of());
            let same = runs.iter().filter(|run| run.command == wanted);
            let distance = |start: i64| start.abs_diff(record.started_unix_s);
            ids.extend(same.min_by_key(|run| distance(run.started_unix_s)).map(|run| run.id));
        }
        Ok(ids)
    }
}

/// Which part a run is.
fn shard_of(run: &RunRecord) -> Option<Shard> {
    run.environment.iter().find(|(name, _)| name == SHARD)?.1.parse().ok()
}

/// The command of the whole sweep.
fn whole_command(run: &RunRecord, shard: Shard) -> &str {
    let command = run.command.as_str();
    command.strip_suffix(&format!(" --shard {shard}")).unwrap_or(command)
}

fn joined(first: RunRecord, shard: Shard, others: Vec<RunRecord>) -> RunRecord {
    let mut parts = vec![(shard.number(), first)];
    parts.extend(others.into_iter().filter_map(|run| Some((shard_of(&run)?.number(), run))));
    parts.sort_by_key(|(number, _)| *number);
    let complete = parts.len() == shard.of() as usize && parts.iter().all(|(_, run)| run.complete);
    let (id, command) = parts
        .iter()
        .find(|(number, _)| *number == shard.number())
        .map(|(_, run)| (run.id, whole_command(run, shard).to_owned()))
        .unwrap_or_default();
    let started_unix_s = parts.iter().map(|(_, run)| run.started_unix_s).min().unwrap_or(0);
    let mut environment: Vec<(String, String)> = Vec::new();
    let mut warnings: Vec<(String, String)> = Vec::new();
    for (_, run) in &parts {
        for (name, value) in run.environment.iter().filter(|(name, _)| name != SHARD) {
            match environment.iter_mut().find(|(known, _)| known == name) {
                Some((_, values)) if values.split(OR).any(|known| known == value) => {}
                Some((_, values)) => values.extend([OR, value.as_str()]),
                None => environment.push((name.clone(), value.clone())),
            }
        }
        let new = run.warnings.iter().filter(|warning| !warnings.contains(warning)).cloned().collect::<Vec<_>>();
        warnings.extend(new);
    }
    environment.push(("shards".to_owned(), format!("{} of {}", parts.len(), shard.of())));
    let (baseline, seed, repeats) =
        parts.first().map(|(_, run)| (run.baseline.clone(), run.seed, run.repeats)).unwrap_or_default();
    let cells = in_order(parts, shard.of());
    RunRecord { id, started_unix_s, command, seed, baseline, repeats, complete, environment, warnings, cells }
}

/// The cells as the whole plan had them: shard n has every group of cells from the n-th on, n apart.
fn in_order(parts: Vec<(u32, RunRecord)>, of: u32) -> Vec<CellRecord> {
    let mut cells: Vec<(usize, CellRecord)> = Vec::new();
    for (number, run) in parts {
        let names: Vec<_> = run.cells.iter().map(|cell| (cell.sweep.clone(), cell.spec.clone())).collect();
        let places = groups(&names).into_iter().map(|group| group * of as usize + number as usize);
        cells.extend(places.zip(run.cells));
    }
    cells.sort_by_key(|(place, _)| *place);
    cells.into_iter().map(|(_, cell)| cell).collect()
}
