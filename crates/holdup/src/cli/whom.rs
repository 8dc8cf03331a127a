//! Which processes a command looks at: those that run, by number or control group, or one that it starts.

use std::ffi::OsString;
use std::path::PathBuf;

use holdup_record::{Children, Target, ThreadNames};

use super::{Error, capture};
use crate::interposer::program;

/// Whom.
#[derive(Debug, clap::Args)]
pub struct Whom {
    /// Attach to this running process instead of starting a program; may be given several times
    #[arg(short, long = "pid", value_name = "PID", value_delimiter = ',')]
    pub pids: Vec<u32>,
    /// Attach to the processes of this control group: its folder, or its path as in /proc/PID/cgroup
    #[arg(long, value_name = "PATH")]
    pub cgroup: Option<PathBuf>,
    /// Attach to the processes of this container: its id, or the beginning of it, as 'docker ps' shows it
    #[arg(long, value_name = "ID", conflicts_with = "cgroup")]
    pub container: Option<String>,
    /// Also attach to whatever these processes have started already [default: to those that run the same program, as a
    /// server's workers do]
    #[arg(long, conflicts_with = "no_children")]
    pub children: bool,
    /// Attach to these processes alone
    #[arg(long)]
    pub no_children: bool,
    /// Only threads of this name, as 'ps -L -o comm' shows it, or with a * at the end of names that begin so; may be
    /// given several times
    #[arg(long = "thread", value_name = "NAME")]
    pub threads: Vec<String>,
    /// The program to start, and its arguments
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "PROGRAM")]
    pub command: Vec<OsString>,
}

impl Whom {
    /// Whether processes that run already are meant.
    pub fn is_attached(&self) -> bool {
        !self.pids.is_empty() || self.cgroup.is_some() || self.container.is_some()
    }

    /// What the recorder is told, by the subcommand `verb`.
    ///
    /// # Errors
    /// It is not clear who is meant, or nobody is there.
    pub fn target(&self, verb: &str) -> Result<Target, Error> {
        let is_attached = self.is_attached();
        if !is_attached && self.command.is_empty() {
            return Err(Error::Argument(format!(
                "whom? Give the program to start (holdup {verb} -- ./server --port 7000), or processes that run \
                 (holdup {verb} --pid 1234, --cgroup PATH, --container ID)"
            )));
        }
        if !is_attached {
            return Ok(Target::Command(self.command.clone()));
        }
        if let Some(word) = self.command.first() {
            return Err(Error::Argument(self.one_target(&word.to_string_lossy())));
        }
        if self.pids.contains(&0) {
            let why = "--pid 0: there is no process 0; 'pgrep NAME' finds a program's number";
            return Err(Error::Argument(why.to_owned()));
        }
        if let Some(pid) = holdup_record::first_missing(&self.pids) {
            return Err(capture::refused(holdup_record::Error::NoProcess(pid)));
        }
        let mut pids = self.pids.clone();
        let of_container =
            |id| holdup_record::of_container(id).map_err(|why| Error::Argument(format!("--container: {why}")));
        let group = match &self.container {
            Some(id) => Some(of_container(id)?),
            None => self.cgroup.clone(),
        };
        if let Some(group) = &group {
            let members = holdup_record::of_cgroup(group).map_err(|why| Error::Argument(format!("--cgroup: {why}")))?;
            // The recorder does not record itself.
            pids.extend(members.into_iter().filter(|pid| *pid != std::process::id()));
        }
        match holdup_record::with_children(&pids, self.wanted_children()) {
            pids if pids.is_empty() => {
                let group = group.unwrap_or_default();
                Err(Error::Argument(format!(
                    "control group {}: no process is in it; 'systemd-cgls' shows who is where",
                    group.display()
                )))
            }
            pids => Ok(Target::Processes(pids)),
        }
    }

    /// Which of their threads.
    pub fn threads(&self) -> ThreadNames {
        ThreadNames::new(self.threads.iter().cloned())
    }

    fn wanted_children(&self) -> Children {
        match (self.children, self.no_children) {
            (true, _) => Children::All,
            (_, true) => Children::None,
            _ => Children::SameProgram,
        }
    }

    /// Processes and a program; or what was meant to be an option, or one more process.
    fn one_target(&self, word: &str) -> String {
        if word.starts_with('-') {
            return program::not_there(word);
        }
        let given = match (&self.cgroup, self.pids.first()) {
            (_, Some(pid)) => format!("--pid {pid}"),
            (Some(group), None) => format!("--cgroup {}", group.display()),
            (None, None) => self.container.iter().map(|id| format!("--container {id}")).collect(),
        };
        if word.parse::<u32>().is_ok() {
            return format!("{given} and '{word}': give each process its own -p, as in -p 12 -p 34, or -p 12,34");
        }
        format!("{given} and the program '{word}': give the process to attach to or the program to start")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whom(pids: &[u32], command: &[&str]) -> Whom {
        Whom {
            pids: pids.to_vec(),
            cgroup: None,
            container: None,
            children: false,
            no_children: true,
            threads: Vec::new(),
            command: command.iter().map(OsString::from).collect(),
        }
    }

    #[test]
    fn several_processes_or_one_program_are_meant() {
        let own = std::process::id();
        assert_eq!(whom(&[own, 1, own], &[]).target("record").unwrap(), Target::Processes(vec![own, 1]));
        assert_eq!(whom(&[], &["./a", "b"]).target("record").unwrap(), Target::Command(vec!["./a".into(), "b".into()]));
        let refused = |pids: &[u32], command: &[&str]| whom(pids, command).target("record").unwrap_err().to_string();
        assert!(refused(&[], &[]).contains("holdup record -- ./server"), "{}", refused(&[], &[]));
        assert!(refused(&[0], &[]).contains("no process 0"));
        assert!(refused(&[own, u32::MAX], &[]).contains("no process 4294967295; 'pgrep"));
        assert!(refused(&[7], &["9"]).contains("-p 12,34"));
        assert!(refused(&[7], &["./a"]).contains("--pid 7 and the program './a'"));
        let group = Whom { cgroup: Some("no/such/group".into()), ..whom(&[], &[]) };
        assert!(group.target("record").unwrap_err().to_string().contains("--cgroup: there is no control group"));
        let container = Whom { container: Some("web".into()), ..whom(&[], &[]) };
        assert!(container.target("record").unwrap_err().to_string().contains("--container: "));
    }
}
