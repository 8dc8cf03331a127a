//! Recordings of runs that were much slower than the others: every run is recorded, and of each cell the recordings of
//! the slow runs are kept, with that of the run nearest the median to hold them against.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use holdup_record::{Error, Options, Target};
use holdup_run::ProcessUse;

use crate::recording::EXTENSION;
use crate::scratch::Folder;
use crate::stats;

/// Slow runs of one cell that are kept at most.
const MOST_KEPT: usize = 5;
/// Runs of a cell from which on its median says something.
const RUNS_FOR_MEDIAN: usize = 3;

/// The recordings so far, in a folder of their own; what nobody kept goes with it.
#[derive(Debug)]
pub struct Keeper {
    times: f64,
    folder: Folder,
    made: usize,
    cells: Vec<Cell>,
}

#[derive(Debug)]
struct Cell {
    name: String,
    runs: Vec<Run>,
}

#[derive(Debug)]
struct Run {
    /// Which run of the cell: 1, 2, 3 ...
    number: usize,
    time: f64,
    /// Until it is known to be of no use.
    file: Option<PathBuf>,
}

/// A slow run whose recording was kept.
#[derive(Clone, Debug, PartialEq)]
pub struct Slow {
    /// Of which cell.
    pub cell: String,
    /// Which run of it: 1, 2, 3 ...
    pub run: usize,
    /// How many times the median it took.
    pub times: f64,
    /// Its recording.
    pub file: PathBuf,
    /// The recording of the run nearest the median.
    pub usual: PathBuf,
}

impl Keeper {
    /// Keeps runs that take more than so many times the median of their cell.
    ///
    /// # Errors
    /// No folder for the recordings can be made.
    pub fn new(times: f64) -> io::Result<Keeper> {
        Ok(Keeper { times, folder: Folder::new("slow")?, made: 0, cells: Vec::new() })
    }

    /// The file for the next recording.
    pub fn next_file(&mut self) -> PathBuf {
        self.made += 1;
        self.folder.path().join(format!("{}.{EXTENSION}", self.made))
    }

    /// A run has ended that took so long and was recorded there.
    pub fn add(&mut self, cell: &str, time: f64, file: PathBuf) {
        let index = self.cells.iter().position(|known| known.name == cell).unwrap_or_else(|| {
            self.cells.push(Cell { name: cell.to_owned(), runs: Vec::new() });
            self.cells.len() - 1
        });
        let cell = &mut self.cells[index];
        cell.runs.push(Run { number: cell.runs.len() + 1, time, file: Some(file) });
        cell.prune(self.times);
    }

    /// Keeps the recordings of the slow runs under names that begin so, in the working folder.
    ///
    /// # Errors
    /// A file cannot be written there.
    pub fn keep(self, stem: &str) -> io::Result<Vec<Slow>> {
        let mut all = Vec::new();
        let several = self.cells.len() > 1;
        for (cell, number) in self.cells.iter().zip(1..) {
            let Some(usual) = cell.usual(self.times) else { continue };
            let stem = if several { format!("{stem}-cell-{number}") } else { stem.to_owned() };
            let median = cell.median();
            let slow: Vec<&Run> = cell.slow(self.times).collect();
            if slow.is_empty() {
                continue;
            }
            let usual = moved(usual, &format!("{stem}-median"))?;
            for run in slow {
                let Some(file) = &run.file else { continue };
                let file = moved(file, &format!("{stem}-slow-run-{}", run.number))?;
                let times = run.time / median;
                all.push(Slow { cell: cell.name.clone(), run: run.number, times, file, usual: usual.clone() });
            }
        }
        Ok(all)
    }
}

impl Cell {
    fn median(&self) -> f64 {
        let times: Vec<f64> = self.runs.iter().map(|run| run.time).collect();
        stats::median(&times).unwrap_or(f64::NAN)
    }

    /// The slow runs, slowest first.
    fn slow(&self, times: f64) -> impl Iterator<Item = &Run> {
        let least = self.median() * times;
        let enough = self.runs.len() >= RUNS_FOR_MEDIAN;
        let mut slow: Vec<&Run> = self.runs.iter().filter(|run| enough && run.time > least).collect();
        slow.sort_by(|a, b| b.time.total_cmp(&a.time));
        slow.into_iter().take(MOST_KEPT)
    }

    /// The run nearest the median, of those whose recordings are there and that are not slow themselves.
    fn nearest(&self, times: f64) -> Option<usize> {
        let median = self.median();
        let far = |run: &Run| (run.time - median).abs();
        let slow: Vec<usize> = self.slow(times).map(|run| run.number).collect();
        let there = self.runs.iter().filter(|run| run.file.is_some() && !slow.contains(&run.number));
        there.min_by(|a, b| far(a).total_cmp(&far(b))).map(|run| run.number)
    }

    fn usual(&self, times: f64) -> Option<&Path> {
        let number = self.nearest(times)?;
        self.runs.iter().find(|run| run.number == number)?.file.as_deref()
    }

    /// Removes the recordings that will be of no use: a sweep makes hundreds. The runs about the median are kept,
    /// because it moves.
    fn prune(&mut self, times: f64) {
        const ABOUT_MEDIAN: usize = 3;
        if self.runs.len() <= RUNS_FOR_MEDIAN {
            return;
        }
        let median = self.median();
        let mut useful: Vec<usize> = self.slow(times).map(|run| run.number).collect();
        // Of what was removed already, nothing can be kept.
        let there = self.runs.iter().filter(|run| run.file.is_some());
        let mut near: Vec<(f64, usize)> = there.map(|run| ((run.time - median).abs(), run.number)).collect();
        near.sort_by(|a, b| a.0.total_cmp(&b.0));
        useful.extend(near.iter().take(ABOUT_MEDIAN).map(|(_, number)| *number));
        // The slowest so far may become slow as the median falls.
        let slowest = self.runs.iter().max_by(|a, b| a.time.total_cmp(&b.time)).map(|run| run.number);
        useful.extend(slowest);
        for run in self.runs.iter_mut().filter(|run| !useful.contains(&run.number)) {
            if let Some(file) = run.file.take() {
                // One more file in a folder that goes anyway.
                let _ = fs::remove_file(file);
            }
        }
    }
}

/// Moves a file into the working folder, under this name or the next that is free.
fn moved(file: &Path, stem: &str) -> io::Result<PathBuf> {
    let numbered = (2..).map(|n| format!("{stem}-{n}.{EXTENSION}"));
    let mut names = std::iter::once(format!("{stem}.{EXTENSION}")).chain(numbered).map(PathBuf::from);
    let to = names.find(|name| name.symlink_metadata().is_err()).unwrap_or_default();
    if fs::rename(file, &to).is_err() {
        // Another file system.
        fs::copy(file, &to)?;
    }
    Ok(to)
}

/// Runs a command and records it.
///
/// # Errors
/// It cannot be recorded, or not be started.
pub fn record(
    command: Vec<OsString>,
    environment: Vec<(OsString, OsString)>,
    file: PathBuf,
) -> Result<Recorded, Error> {
    let options = Options { environment, ..Options::new(Target::Command(command), file) };
    let ending = holdup_record::record(&options, &AtomicBool::new(false))?;
    let (began_ns, ending) = (ending.header.began_ns, ending.ending);
    let (user_ns, kernel_ns) = ending.cpu_ns().unwrap_or_default();
    let process = ProcessUse {
        elapsed_ns: ending.ended_ns.saturating_sub(began_ns),
        user_ns,
        kernel_ns,
        voluntary_switches: ending.voluntary,
        involuntary_switches: ending.involuntary,
        minor_faults: ending.faults,
        ..ProcessUse::default()
    };
    Ok(Recorded { process, recorder_cpu_ns: ending.recorder_cpu_ns, status: ending.status })
}

/// How a recorded run ended.
#[derive(Clone, Copy, Debug)]
pub struct Recorded {
    /// What it used.
    pub process: ProcessUse,
    /// CPU time of the recorder, beside it.
    pub recorder_cpu_ns: u64,
    /// Its exit status, 128 plus the number of the signal that ended it; `None` if it still runs.
    pub status: Option<i32>,
}

/// How many times the median, as a user says it: `2x`, `1.5`.
///
/// # Errors
/// It is no number above 1: a sentence says so.
pub fn parse(text: &str) -> Result<f64, String> {
    match text.trim_end_matches(['x', 'X']).parse::<f64>() {
        Ok(times) if times > 1.0 && times.is_finite() => Ok(times),
        _ => Err(format!("'{text}': give how many times the median a slow run takes, such as 2x")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keeper(times: &[f64]) -> Keeper {
        let mut keeper = Keeper::new(2.0).unwrap();
        for time in times {
            let file = keeper.next_file();
            fs::write(&file, format!("{time}")).unwrap();
            keeper.add("cell", *time, file);
        }
        keeper
    }

    fn files(keeper: &Keeper) -> usize {
        fs::read_dir(keeper.folder.path()).unwrap().count()
    }

    #[test]
    fn slow_runs_are_kept_beside_the_one_nearest_the_median() {
        let keeper = keeper(&[10.0, 11.0, 45.0, 10.5, 9.0, 30.0, 10.2]);
        let cell = &keeper.cells[0];
        assert_eq!(cell.slow(2.0).map(|run| run.number).collect::<Vec<_>>(), [3, 6]);
        assert_eq!(fs::read_to_string(cell.usual(2.0).unwrap()).unwrap(), "10.5");
    }

    #[test]
    fn whatever_the_order_the_run_beside_slow_ones_is_none_of_them_and_its_recording_is_there() {
        for seed in 0..200 {
            let mut random = fastrand::Rng::with_seed(seed);
            let times: Vec<f64> = (0..20).map(|_| [10.0, 16.0, 26.0, 42.0][random.usize(..4)] + random.f64()).collect();
            let keeper = keeper(&times);
            let cell = &keeper.cells[0];
            let usual = cell.usual(2.0).unwrap_or_else(|| panic!("{times:?}"));
            let time: f64 = fs::read_to_string(usual).unwrap().parse().unwrap();
            assert!(time <= 2.0 * cell.median(), "{time} of {times:?}");
        }
    }

    #[test]
    fn recordings_of_no_use_do_not_pile_up() {
        let keeper = keeper(&(0..100).map(|i| 10.0 + f64::from(i % 10) / 10.0).collect::<Vec<_>>());
        assert!(files(&keeper) <= 6, "{}", files(&keeper));
        let folder = keeper.folder.path().to_owned();
        drop(keeper);
        assert!(!folder.exists());
    }

    #[test]
    fn two_runs_have_no_median_to_speak_of() {
        assert_eq!(keeper(&[1.0, 100.0]).cells[0].slow(2.0).count(), 0);
    }

    #[test]
    fn a_threshold_is_a_number_above_one() {
        assert_eq!((parse("2x"), parse("1.5")), (Ok(2.0), Ok(1.5)));
        for wrong in ["1x", "x", "-2", "nan", "inf"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
