//! Two revisions of a git repository, each built in a worktree of its own.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use holdup_run::{Conditions, Started};

use super::Error;
use crate::scratch;
use crate::text;
use crate::trial::run::last_words;

/// Worktrees, which go with all that was built in them when this is dropped.
#[derive(Debug)]
pub struct Worktrees {
    folder: scratch::Folder,
    /// Where in the repository holdup was started.
    within: PathBuf,
    added: Vec<PathBuf>,
}

impl Worktrees {
    /// Checks both revisions out and builds each with this command, where in the repository holdup was started.
    ///
    /// # Errors
    /// There is no repository or no such revision, a build fails, or it is to stop.
    pub fn build(revisions: [&str; 2], build: &str, stop: &AtomicBool) -> Result<Worktrees, Error> {
        let unmade = |why: std::io::Error| Error::Unmeasured(format!("no folder for the worktrees: {why}"));
        let folder = scratch::Folder::new("gate").map_err(unmade)?;
        let within = PathBuf::from(git(&["rev-parse", "--show-prefix"])?.trim_end_matches('\n'));
        let mut worktrees = Worktrees { folder, within, added: Vec::new() };
        for (revision, name) in revisions.into_iter().zip(["old", "new"]) {
            let place = worktrees.folder.path().join(name);
            // A word that begins with a dash would be an option.
            let commit =
                git(&["rev-parse", "--verify", "--quiet", "--end-of-options", &format!("{revision}^{{commit}}")]);
            let commit =
                commit.map_err(|_| Error::Argument(format!("'{revision}' is no revision of this repository")))?;
            let path = place.to_string_lossy();
            git(&["worktree", "add", "--quiet", "--detach", &path, commit.trim()])?;
            worktrees.added.push(place);
            built(build, &worktrees.place(name), revision, stop)?;
        }
        Ok(worktrees)
    }

    /// Where the old or the new revision was built.
    pub fn place(&self, name: &str) -> PathBuf {
        self.folder.path().join(name).join(&self.within)
    }
}

impl Drop for Worktrees {
    fn drop(&mut self) {
        for place in &self.added {
            // One that stays is told by `git worktree list`.
            let _ = git(&["worktree", "remove", "--force", &place.to_string_lossy()]);
        }
    }
}

/// What git prints.
fn git(words: &[&str]) -> Result<String, Error> {
    let output = Command::new("git").args(words).stdin(Stdio::null()).output();
    let Output { status, stdout, stderr } = output.map_err(|why| Error::Command { name: "git".to_owned(), why })?;
    match status.success() {
        true => Ok(String::from_utf8_lossy(&stdout).into_owned()),
        false => Err(Error::Argument(format!("git: {}", text::clean(String::from_utf8_lossy(&stderr).trim())))),
    }
}

/// Runs the build, however long it takes.
fn built(build: &str, place: &Path, revision: &str, stop: &AtomicBool) -> Result<(), Error> {
    const LONG: Duration = Duration::from_secs(24 * 60 * 60);
    let fails = |why: &dyn std::fmt::Display| Error::Unmeasured(format!("{revision} cannot be built: {why}"));
    let mut shell = Command::new("sh");
    shell.args(["-c", build]).current_dir(place).stdin(Stdio::null());
    let mut started = Started::new(&mut shell, &Conditions::default()).map_err(|why| fails(&why))?;
    let ended = started.wait(Instant::now() + LONG, stop).map_err(|why| fails(&why))?;
    if stop.load(Ordering::Relaxed) {
        return Err(Error::Stopped("stopped while the builds were made"));
    }
    let outcome = started.finish().map_err(|why| fails(&why))?;
    match ended && outcome.signal.is_none() && outcome.code == 0 {
        true => Ok(()),
        false => {
            let words = last_words(&outcome.stdout, &outcome.stderr);
            Err(fails(&format!("'{build}' ends with exit status {}{words}", outcome.code)))
        }
    }
}
