//! Which runs a sweep consists of, and in which order they are measured.
//!
//! Cells that differ only in their lock form a group; one repetition of a group is a *block*: its runs are measured
//! next to each other in shuffled order with the baseline among them, so that ratios inside a block pair neighbours.

use std::collections::HashMap;
use std::fmt;

use holdup_bench::spec::{Factor, FactorError, Spec};

/// One sweep: factors with their values; the cross product is its cells.
#[derive(Clone, Debug, PartialEq)]
pub struct Sweep {
    /// Name inside an experiment; empty for `holdup bench`.
    pub name: String,
    /// Factor and values, as given; factors that are not named keep their default.
    pub axes: Vec<(&'static str, Vec<String>)>,
    /// The lock that the others are compared with; it is added to the locks if it is not among them.
    pub baseline: Option<String>,
    /// Runs per cell.
    pub repeats: u32,
}

/// All runs of one or more sweeps, in order.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// The cells: sweep name and spec.
    pub cells: Vec<(String, Spec)>,
    /// The runs, in the order in which they are measured.
    pub tasks: Vec<Task>,
    /// The seed that shuffled them.
    pub seed: u64,
}

/// One run of one cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Task {
    /// Index into [`Plan::cells`].
    pub cell: usize,
    /// Which repetition.
    pub repeat: u32,
    /// Runs of one block are neighbours.
    pub block: u32,
}

/// A part of a plan, for one of several machines or jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    /// Which, from 1.
    number: u32,
    /// Of how many.
    of: u32,
}

impl std::str::FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Shard, String> {
        let numbers = text.split_once('/').and_then(|(number, of)| Some((number.parse().ok()?, of.parse().ok()?)));
        match numbers {
            Some((number, of)) if (1..=of).contains(&number) => Ok(Shard { number, of }),
            _ => Err("give which part of how many, from 1: 1/8 to 8/8".to_owned()),
        }
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.number, self.of)
    }
}

impl Shard {
    /// Which, from 1.
    pub fn number(self) -> u32 {
        self.number
    }

    /// How many there are.
    pub fn of(self) -> u32 {
        self.of
    }
}

impl Sweep {
    /// The cross product of the axes, lock varying fastest.
    ///
    /// # Errors
    /// A factor that does not exist or does not take a value.
    pub fn cells(&self) -> Result<Vec<Spec>, FactorError> {
        let mut cells = vec![Spec::default()];
        let (locks, others): (Vec<_>, Vec<_>) = self.axes.iter().partition(|(name, _)| *name == "lock");
        for (name, values) in others.into_iter().chain(locks) {
            let mut next = Vec::with_capacity(cells.len() * values.len());
            for cell in &cells {
                for value in values {
                    let mut cell = cell.clone();
                    cell.set(name, value)?;
                    next.push(cell);
                }
            }
            cells = next;
        }
        Ok(cells)
    }

    /// Adds an axis from text such as `1,2,4` or `1..8`.
    ///
    /// # Errors
    /// A factor that does not exist or does not take a value.
    pub fn axis(&mut self, name: &str, text: &str) -> Result<(), FactorError> {
        let factor = Factor::named(name)?;
        self.axes.push((factor.name, factor.expand(text)?));
        Ok(())
    }
}

impl Plan {
    /// Lays out the runs of these sweeps; `seed` decides every order.
    ///
    /// # Errors
    /// A factor that does not exist or does not take a value.
    pub fn new(sweeps: &[Sweep], seed: u64) -> Result<Plan, FactorError> {
        let mut plan = Plan { cells: Vec::new(), tasks: Vec::new(), seed };
        let mut random = fastrand::Rng::with_seed(seed);
        let mut groups: Vec<Group> = Vec::new();
        for sweep in sweeps {
            let mut sweep = sweep.clone();
            sweep.add_baseline();
            for spec in sweep.cells()? {
                let index = plan.cells.len();
                let key = Spec { lock: String::new(), ..spec.clone() };
                let baseline = sweep.baseline.as_deref() == Some(&spec.lock);
                plan.cells.push((sweep.name.clone(), spec));
                match groups.iter_mut().find(|g| g.sweep == sweep.name && g.key == key) {
                    Some(group) => group.add(index, baseline),
                    None => {
                        let mut group = Group {
                            sweep: sweep.name.clone(),
                            key,
                            repeats: sweep.repeats,
                            cells: vec![],
                            baseline: None,
                        };
                        group.add(index, baseline);
                        groups.push(group);
                    }
                }
            }
        }
        plan.lay_out(&groups, &mut random);
        Ok(plan)
    }

    /// What a shard measures: every so many-th group of cells that differ only in their lock, so that what is compared
    /// is measured on one machine. Order and numbers of blocks are those of the whole plan.
    #[must_use]
    pub fn shard(&self, shard: Shard) -> Plan {
        let groups = groups(&self.cells);
        let is_ours = |cell: usize| groups[cell] % shard.of as usize == shard.number as usize - 1;
        let kept: Vec<usize> = (0..self.cells.len()).filter(|cell| is_ours(*cell)).collect();
        let place = |cell: usize| kept.binary_search(&cell).ok();
        Plan {
            cells: kept.iter().map(|cell| self.cells[*cell].clone()).collect(),
            tasks: self.tasks.iter().filter_map(|task| Some(Task { cell: place(task.cell)?, ..*task })).collect(),
            seed: self.seed,
        }
    }

    /// Repetition by repetition, the groups in shuffled order: a slow minute of the machine hits every group a little.
    fn lay_out(&mut self, groups: &[Group], random: &mut fastrand::Rng) {
        let most = groups.iter().map(|group| group.repeats).max().unwrap_or(0);
        let mut block = 0;
        for repeat in 0..most {
            let mut order: Vec<&Group> = groups.iter().filter(|group| repeat < group.repeats).collect();
            random.shuffle(&mut order);
            for group in order {
                self.tasks.extend(group.block(random).map(|cell| Task { cell, repeat, block }));
                block += 1;
            }
        }
    }
}

impl Sweep {
    fn add_baseline(&mut self) {
        let Some(baseline) = &self.baseline else { return };
        match self.axes.iter_mut().find(|(name, _)| *name == "lock") {
            Some((_, locks)) if !locks.contains(baseline) => locks.insert(0, baseline.clone()),
            Some(_) => {}
            None => self.axes.push(("lock", vec![baseline.clone()])),
        }
    }
}

/// For each cell, the number of its group in order of appearance: cells that differ only in their lock are one.
pub fn groups(cells: &[(String, Spec)]) -> Vec<usize> {
    let mut known: HashMap<(&str, String), usize> = HashMap::new();
    let group = cells.iter().map(|(sweep, spec)| {
        let next = known.len();
        let but_for_the_lock = Spec { lock: String::new(), ..spec.clone() };
        *known.entry((sweep.as_str(), but_for_the_lock.to_words().join(" "))).or_insert(next)
    });
    group.collect()
}

/// Cells that differ only in their lock.
struct Group {
    sweep: String,
    key: Spec,
    repeats: u32,
    cells: Vec<usize>,
    baseline: Option<usize>,
}

impl Group {
    fn add(&mut self, cell: usize, baseline: bool) {
        match baseline {
            true => self.baseline = Some(cell),
            false => self.cells.push(cell),
        }
    }

    /// One block's order: the candidates shuffled, the baseline before every fourth of them.
    fn block(&self, random: &mut fastrand::Rng) -> impl Iterator<Item = usize> {
        const CANDIDATES_PER_BASELINE: usize = 4;
        let mut candidates = self.cells.clone();
        random.shuffle(&mut candidates);
        let mut order = Vec::new();
        if candidates.is_empty() {
            order.extend(self.baseline);
        }
        for chunk in candidates.chunks(CANDIDATES_PER_BASELINE) {
            order.extend(self.baseline);
            order.extend(chunk);
        }
        order.into_iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sweep(axes: &[(&str, &str)]) -> Sweep {
        let mut sweep = Sweep { name: String::new(), axes: vec![], baseline: Some("pthread".to_owned()), repeats: 3 };
        for (name, text) in axes {
            sweep.axis(name, text).unwrap();
        }
        sweep
    }

    #[test]
    fn the_cross_product_has_every_combination_once() {
        let cells = sweep(&[("lock", "none,pthread"), ("threads", "1,2"), ("hold", "0,100ns,1us")]).cells().unwrap();
        assert_eq!(cells.len(), 12);
        assert!(cells.iter().enumerate().all(|(i, cell)| !cells[..i].contains(cell)));
    }

    #[test]
    fn every_cell_runs_as_often_as_asked_and_the_same_seed_gives_the_same_order() {
        let sweeps = [sweep(&[("lock", "none,pthread"), ("threads", "1..4")])];
        let plan = Plan::new(&sweeps, 7).unwrap();
        for cell in 0..plan.cells.len() {
            assert_eq!(plan.tasks.iter().filter(|task| task.cell == cell).count(), 3);
        }
        assert_eq!(Plan::new(&sweeps, 7), Ok(plan.clone()));
        assert_ne!(Plan::new(&sweeps, 8).unwrap().tasks, plan.tasks);
    }

    #[test]
    fn shards_have_each_run_of_the_plan_once_in_its_order_and_keep_what_is_compared_together() {
        let sweeps = [sweep(&[("lock", "none,ticket"), ("threads", "1..5"), ("hold", "0,100ns")])];
        let whole = Plan::new(&sweeps, 7).unwrap();
        let run = |plan: &Plan, task: &Task| (plan.cells[task.cell].clone(), task.repeat, task.block);
        for of in [1, 3, 8, 40] {
            let shards = (1..=of).map(|number| whole.shard(format!("{number}/{of}").parse().unwrap()));
            let mut left: Vec<_> = whole.tasks.iter().map(|task| run(&whole, task)).collect();
            for shard in shards {
                let order: Vec<_> = shard.tasks.iter().map(|task| run(&shard, task)).collect();
                let in_whole: Vec<_> = left.iter().filter(|one| order.contains(one)).cloned().collect();
                assert_eq!(order, in_whole, "of {of}");
                left.retain(|one| !order.contains(one));
                let blocks = |plan: &Plan, block| plan.tasks.iter().filter(|task| task.block == block).count();
                assert!(shard.tasks.iter().all(|task| blocks(&shard, task.block) == blocks(&whole, task.block)));
            }
            assert!(left.is_empty(), "of {of}: {left:?}");
        }
    }

    #[test]
    fn a_shard_is_written_as_which_of_how_many() {
        let shard: Shard = "3/8".parse().unwrap();
        assert_eq!((shard.number(), shard.of(), shard.to_string()), (3, 8, "3/8".to_owned()));
        for wrong in ["0/8", "9/8", "3", "3/", "/8", "a/b", "1/0", "-1/3"] {
            assert!(wrong.parse::<Shard>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_block_holds_one_group_and_its_baseline() {
        let plan = Plan::new(&[sweep(&[("lock", "none"), ("threads", "1..4")])], 1).unwrap();
        for block in 0..12 {
            let tasks: Vec<&Task> = plan.tasks.iter().filter(|task| task.block == block).collect();
            let locks: Vec<&str> = tasks.iter().map(|task| plan.cells[task.cell].1.lock.as_str()).collect();
            assert_eq!(locks, ["pthread", "none"]);
            assert_eq!(plan.cells[tasks[0].cell].1.threads, plan.cells[tasks[1].cell].1.threads);
        }
    }
}
