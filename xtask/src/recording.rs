//! What the checks of the recorder share: the built programs, recordings of them, reports as JSON, and figures.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;

use crate::chance::Chance;
use crate::run::{Step, cargo, root, target_folder};

/// Built programs and a fresh folder for recordings.
pub struct Bench {
    /// The release build of holdup.
    pub holdup: PathBuf,
    /// For recordings; everybody may read and write it.
    pub folder: PathBuf,
}

impl Bench {
    /// Builds holdup and makes the folder; what an earlier run left there is removed.
    pub fn new(name: &str) -> Result<Bench, String> {
        let built = built()?;
        let folder = std::env::temp_dir().join(format!("holdup-{name}"));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).map_err(|why| format!("{}: {why}", folder.display()))?;
        let holdup = folder.join("holdup");
        std::fs::copy(&built, &holdup).map_err(|why| format!("{}: {why}", built.display()))?;
        Step::new("chmod", &["777", &folder.to_string_lossy()]).run()?;
        Ok(Bench { holdup, folder })
    }

    /// A file in the folder that is not there yet.
    pub fn fresh(&self, name: &str) -> PathBuf {
        let path = self.folder.join(name);
        let _ = std::fs::remove_file(&path);
        path
    }

    /// Compiles a fixture into the folder, once.
    pub fn compile(&self, source: &str) -> Result<PathBuf, String> {
        let source = root().join("fixtures").join(source);
        let stem = source.file_stem().unwrap_or_default();
        let binary = self.folder.join(stem);
        if binary.exists() {
            return Ok(binary);
        }
        let words = ["-O2", "-g", "-pthread", "-o"];
        Step::new("cc", &words).args(&[&binary.to_string_lossy(), &source.to_string_lossy()]).run()?;
        Ok(binary)
    }

    /// The report of a recording.
    pub fn report(&self, file: &Path) -> Result<Value, String> {
        Bench::report_with(Command::new(&self.holdup), file)
    }

    /// The report of a recording by this `holdup`.
    pub fn report_with(mut holdup: Command, file: &Path) -> Result<Value, String> {
        let output = output(holdup.arg("report").arg(file).arg("--json"))?;
        serde_json::from_slice(&output.stdout).map_err(|why| format!("report {}: {why}", file.display()))
    }
}

/// The release build, made now; or the one that `HOLDUP` names.
fn built() -> Result<PathBuf, String> {
    if let Some(named) = std::env::var_os("HOLDUP") {
        return Ok(named.into());
    }
    cargo(&["build", "--release", "--package", "holdup"]).run()?;
    Ok(target_folder().join("release/holdup"))
}

/// Processes that burn a CPU each as long as this lives.
pub struct Neighbours(Vec<Child>);

impl Neighbours {
    /// So many.
    pub fn new(count: usize) -> Result<Neighbours, String> {
        let burns = || Command::new("sh").args(["-c", "while :; do :; done"]).stdin(Stdio::null()).spawn();
        let mut neighbours = Neighbours(Vec::new());
        for _ in 0..count {
            neighbours.0.push(burns().map_err(|why| format!("sh: {why}"))?);
        }
        Ok(neighbours)
    }
}

impl Drop for Neighbours {
    fn drop(&mut self) {
        for child in &mut self.0 {
            // One that has ended already burns nothing.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Runs a command that must succeed.
pub fn output(command: &mut Command) -> Result<Output, String> {
    let text = format!("{command:?}");
    let output = command.stdin(Stdio::null()).output().map_err(|why| format!("{text}: {why}"))?;
    if output.status.success() {
        return Ok(output);
    }
    Err(format!("{text} ended with {}:\n{}", output.status, String::from_utf8_lossy(&output.stderr)))
}

/// Whether a program can be started.
pub fn has(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok_and(|output| output.status.success())
}

/// Whether this is root.
pub fn is_root() -> bool {
    Command::new("id").arg("-u").output().is_ok_and(|output| output.stdout.starts_with(b"0\n"))
}

/// The middle one.
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => f64::NAN,
        len if len % 2 == 1 => sorted[len / 2],
        len => (sorted[len / 2 - 1] + sorted[len / 2]) / 2.0,
    }
}

/// The 95% interval of the median by bootstrap (percentiles of 2,000 resamples).
pub fn interval(values: &[f64], seed: u64) -> (f64, f64) {
    let mut chance = Chance::new(seed);
    let mut next = |below: usize| chance.below(below as u64) as usize;
    let mut medians: Vec<f64> = (0..2_000)
        .map(|_| {
            let resample: Vec<f64> = values.iter().map(|_| values[next(values.len())]).collect();
            median(&resample)
        })
        .collect();
    medians.sort_by(f64::total_cmp);
    (medians[50], medians[1_949])
}
