//! A folder of its own for one test, and holdup run in it.

use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::TempDir;

/// The user `nobody` of most systems: no rights, no home, no groups.
const NOBODY: u32 = 65534;

/// A fresh folder.
pub struct Place {
    folder: TempDir,
    holdup: PathBuf,
    user: Option<u32>,
}

impl Place {
    /// For the user who runs the tests.
    pub fn new() -> Place {
        Place { folder: tempfile::tempdir().unwrap(), holdup: env!("CARGO_BIN_EXE_holdup").into(), user: None }
    }

    /// For an ordinary user: holdup is copied into the folder, which belongs to that user. Only root can do this.
    pub fn ordinary() -> Place {
        let folder = tempfile::tempdir().unwrap();
        std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
        let holdup = folder.path().join("holdup");
        std::fs::copy(env!("CARGO_BIN_EXE_holdup"), &holdup).unwrap();
        std::os::unix::fs::chown(folder.path(), Some(NOBODY), Some(NOBODY)).unwrap();
        Place { folder, holdup, user: Some(NOBODY) }
    }

    /// A file in the folder.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A program where the user can read it.
    pub fn copy_in(&self, program: &Path) -> PathBuf {
        let copy = self.path(program.file_name().unwrap().to_str().unwrap());
        std::fs::copy(program, &copy).unwrap();
        copy
    }

    /// A command in this folder, as this place's user.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        self.at_home(&mut command);
        if let Some(user) = self.user {
            command.uid(user).gid(user);
        }
        command
    }

    /// `holdup` with these words.
    pub fn holdup(&self, words: &[&str]) -> Command {
        let mut command = self.command(&self.holdup);
        command.args(words);
        command
    }

    /// `holdup record` with these words, ahead of whatever else this machine does where the user may ask for that: what
    /// is checked is what the threads of a program do to each other, not what strangers do to them.
    pub fn recorder(&self, words: &[&str]) -> Command {
        let mut command = if super::is_root() { ahead_of_others() } else { Command::new(&self.holdup) };
        self.at_home(&mut command);
        if super::is_root() {
            if let Some(user) = self.user {
                let ids = [format!("--reuid={user}"), format!("--regid={user}"), "--clear-groups".to_owned()];
                command.arg("setpriv").args(ids);
            }
            command.arg(&self.holdup);
        }
        command.arg("record").args(words);
        command
    }

    fn at_home(&self, command: &mut Command) {
        command
            .current_dir(self.folder.path())
            .env("HOME", self.folder.path())
            .env("XDG_DATA_HOME", self.folder.path())
            .env("XDG_CACHE_HOME", self.folder.path());
    }

    /// Records a program into `FILE` in this folder, without a report.
    pub fn record<I: AsRef<OsStr>>(&self, file: &str, program: &[I]) -> Output {
        let mut command = self.recorder(&["--no-report", "-o", file, "--"]);
        command.args(program).output().unwrap()
    }

    /// The report of `FILE` as JSON.
    #[track_caller]
    pub fn report(&self, file: &str) -> Value {
        let output = self.holdup(&["report", file, "--json"]).output().unwrap();
        assert!(output.status.success(), "report {file}: {}", text(&output));
        serde_json::from_slice(&output.stdout).unwrap()
    }
}

/// The beginning of a command that runs its words with a high priority. Where the kernel groups tasks by session,
/// priority counts within the group only, so the command gets a session of its own and the session gets the priority.
fn ahead_of_others() -> Command {
    let mut command = Command::new("setsid");
    let script = "[ -w /proc/self/autogroup ] && echo -15 > /proc/self/autogroup; exec nice -n -15 \"$@\"";
    command.args(["--wait", "sh", "-c", script, "sh"]);
    command
}

/// What a command said, both ways.
pub fn text(output: &Output) -> String {
    format!("{}\n{}{}", output.status, String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}
