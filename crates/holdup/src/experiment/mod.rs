//! Experiments: sweeps, charts and claims that a TOML file declares, and the published ones that the program carries.

mod declared;
pub mod evaluate;
pub mod expr;
pub mod file;
pub mod list;
pub mod machine;
pub mod sentence;

use std::time::Duration;

use file::FileError;

pub use declared::{Check, Claim, DeclaredSweep, Experiment, Needs, START_COST};

/// A planned time for people: `about 40 s`, `about 7 min`.
pub fn about(time: Duration) -> String {
    match time.as_secs() {
        seconds @ 0..90 => format!("about {} s", seconds.next_multiple_of(5).max(5)),
        seconds => format!("about {} min", seconds.div_ceil(60)),
    }
}

/// Path and text of the carried experiment of this name or file name.
pub fn carried(name: &str) -> Option<(&'static str, &'static str)> {
    EMBEDDED.iter().copied().find(|(path, _)| {
        let file = path.strip_prefix("experiments/").unwrap_or(path);
        let stem = file.strip_suffix(".toml").unwrap_or(file);
        [*path, file, stem].contains(&name) || stem.split('-').next() == Some(name)
    })
}

/// The published experiments, in the order of their years, and last our own goals. Those that need another system are
/// left out.
pub fn all() -> Result<Vec<Experiment>, FileError> {
    embedded().map(|(path, text)| file::parse(path, text)).collect()
}

/// The carried files that this system can do.
pub fn embedded() -> impl Iterator<Item = (&'static str, &'static str)> {
    EMBEDDED.iter().copied().filter(|(_, text)| !file::is_for_another_system(text))
}

/// The experiments that `holdup reproduce all` runs: those that were published.
pub fn published() -> Result<Vec<Experiment>, FileError> {
    Ok(all()?.into_iter().filter(|experiment| is_published(&experiment.name)).collect())
}

/// Whether the experiment of this name was published by others, and does not hold goals of ours.
pub fn is_published(name: &str) -> bool {
    !["peers", "rw"].contains(&name)
}

/// The files that the program carries, so that one installed binary can reproduce them.
pub static EMBEDDED: &[(&str, &str)] = &[
    ("experiments/hart-1998.toml", include_str!("../../experiments/hart-1998.toml")),
    ("experiments/emmons-2001.toml", include_str!("../../experiments/emmons-2001.toml")),
    ("experiments/switching-2007.toml", include_str!("../../experiments/switching-2007.toml")),
    ("experiments/intel-2009.toml", include_str!("../../experiments/intel-2009.toml")),
    ("experiments/kraus-2014.toml", include_str!("../../experiments/kraus-2014.toml")),
    ("experiments/peers.toml", include_str!("../../experiments/peers.toml")),
    ("experiments/rw.toml", include_str!("../../experiments/rw.toml")),
];

#[cfg(test)]
mod tests;
