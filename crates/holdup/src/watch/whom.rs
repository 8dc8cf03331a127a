//! Whose recordings are made: looked for anew each time, because programs are started again.

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// Whom.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Whom {
    /// These processes, as long as they live.
    Processes(Vec<Life>),
    /// The processes of a control group.
    Cgroup(PathBuf),
    /// Those of a container, by its id.
    Container(String),
    /// Those of a unit of systemd.
    Unit(String),
    /// All that bear this name, or run a program of it.
    Command(String),
}

/// A process, told from a later one of the same number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Life {
    /// Its number.
    pub pid: u32,
    /// When it began, in ticks since the machine did; `None` if it was not there.
    began: Option<u64>,
}

/// More processes are not recorded at once.
const MOST_PROCESSES: usize = 512;
/// The kernel keeps so many bytes of a name.
const NAME_BYTES: usize = 15;

impl Life {
    /// The process that has this number now.
    pub fn now(pid: u32) -> Life {
        Life { pid, began: began(pid) }
    }

    /// Whether it was there, and still is.
    pub fn goes_on(self) -> bool {
        self.began.is_some() && began(self.pid) == self.began
    }
}

/// When a process began, in ticks.
fn began(pid: u32) -> Option<u64> {
    status(&pid.to_string())?.split_whitespace().nth(19)?.parse().ok()
}

/// A process's status as proc(5) has it, from its third field on: its name, the second, may hold anything.
pub fn status(process: &str) -> Option<String> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    stat.rsplit_once(')').map(|(_, rest)| rest.to_owned())
}

impl Whom {
    /// The processes, at least one.
    ///
    /// # Errors
    /// Nobody is there: why, as a sentence without a full stop.
    pub fn find(&self) -> Result<Vec<u32>, String> {
        let mut pids = match self {
            Whom::Processes(lives) => lives.iter().filter(|life| life.goes_on()).map(|life| life.pid).collect(),
            Whom::Cgroup(path) => holdup_record::of_cgroup(path)?,
            Whom::Container(id) => holdup_record::of_cgroup(&holdup_record::of_container(id)?)?,
            Whom::Unit(name) => holdup_record::of_cgroup(&holdup_record::of_unit(name)?)?,
            Whom::Command(name) => named(name),
        };
        let own = [Some(std::process::id()), parent()];
        pids.retain(|pid| !own.contains(&Some(*pid)));
        pids.truncate(MOST_PROCESSES);
        if pids.is_empty() { Err(self.nobody()) } else { Ok(pids) }
    }

    fn nobody(&self) -> String {
        match self {
            Whom::Processes(lives) => {
                let pids: Vec<String> = lives.iter().map(|life| life.pid.to_string()).collect();
                format!("process {} does not run", pids.join(", "))
            }
            Whom::Cgroup(path) => format!("no process is in the control group {}", path.display()),
            Whom::Container(id) => format!("no process is in the container {id}"),
            Whom::Unit(name) => format!("no process is in the unit {name}"),
            Whom::Command(name) => format!("no process is called '{name}'"),
        }
    }

    /// What it is called where nobody gave a name.
    pub fn name(&self) -> String {
        match self {
            Whom::Processes(lives) => {
                let pid = lives.first().map_or(0, |life| life.pid);
                let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
                if name.trim().is_empty() { format!("process-{pid}") } else { name.trim().to_owned() }
            }
            Whom::Cgroup(path) => {
                path.file_name().map_or_else(|| "cgroup".to_owned(), |name| name.to_string_lossy().into_owned())
            }
            Whom::Container(name) | Whom::Command(name) => name.clone(),
            Whom::Unit(name) => name.strip_suffix(".service").unwrap_or(name).to_owned(),
        }
    }
}

/// The process that started this one: a recording's is the service.
fn parent() -> Option<u32> {
    status("self")?.split_whitespace().nth(1)?.parse().ok()
}

/// Processes that bear a name or run a program of it, ascending.
fn named(name: &str) -> Vec<u32> {
    let numbers = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = numbers.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let mut pids: Vec<u32> = pids.filter(|pid| is_called(*pid, name)).collect();
    pids.sort_unstable();
    pids
}

fn is_called(pid: u32, name: &str) -> bool {
    let kept = &name.as_bytes()[..name.len().min(NAME_BYTES)];
    let comm = fs::read(format!("/proc/{pid}/comm")).unwrap_or_default();
    if comm.strip_suffix(b"\n") == Some(kept) && name.len() <= NAME_BYTES {
        return true;
    }
    let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let program = line.split(|byte| *byte == 0).next().unwrap_or_default();
    Path::new(&*String::from_utf8_lossy(program)).file_name().is_some_and(|file| file.to_str() == Some(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Where processes are looked for.
    fn is_here() -> bool {
        Path::new("/proc/self/stat").exists()
    }

    #[test]
    fn a_number_that_went_to_another_process_is_nobody() {
        if !is_here() {
            return;
        }
        let own = Life::now(std::process::id());
        assert!(own.goes_on());
        let earlier = Life { began: own.began.map(|began| began - 1), ..own };
        assert!(!earlier.goes_on() && !Life { began: None, ..own }.goes_on());
        let why = Whom::Processes(vec![earlier]).find().unwrap_err();
        assert!(why.contains("does not run"), "{why}");
    }

    #[test]
    fn processes_are_found_by_name_and_nobody_records_oneself() {
        if !is_here() {
            return;
        }
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let is_found = || Whom::Command("sleep".to_owned()).find().is_ok_and(|pids| pids.contains(&child.id()));
        // The kernel lets a parent go on before its child has its new name.
        let until = std::time::Instant::now() + std::time::Duration::from_secs(30);
        while !is_found() {
            assert!(std::time::Instant::now() < until, "it is not found");
        }
        assert!(Whom::Command("no such program".to_owned()).find().is_err_and(|why| why.contains("is called")));
        assert!(Whom::Processes(vec![Life::now(std::process::id())]).find().is_err());
        child.kill().and_then(|()| child.wait()).unwrap();
    }

    #[test]
    fn everybody_has_a_name() {
        assert_eq!(Whom::Unit("nginx.service".to_owned()).name(), "nginx");
        assert_eq!(Whom::Cgroup("/system.slice/a.service".into()).name(), "a.service");
        assert_eq!(Whom::Cgroup("/".into()).name(), "cgroup");
        assert_eq!(Whom::Processes(vec![Life::now(0)]).name(), "process-0");
    }
}
