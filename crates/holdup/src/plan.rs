//! Which runs a sweep consists of, and in which order they are measured.
//!
//! Cells that differ only in their lock form a group; one repetition of a group is a *block*: its runs are measured
//! next to each other in shuffled order with the baseline among them, so that ratios inside a block pair neighbours.

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
