//! Which processes belong together: those that a process has started, and those of a control group.

use std::fs;
use std::path::{Path, PathBuf};

use rustc_hash::FxHashSet;

use super::snapshot;
use crate::Children;

/// Where control groups are mounted: of version 2, and of systems that have both.
const GROUPS: [&str; 2] = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"];
/// What every group of processes has.
const MEMBERS: &str = "cgroup.procs";

/// These processes, and behind them those of their descendants that are wanted, each once.
pub fn with_children(pids: &[u32], wanted: Children) -> Vec<u32> {
    let children = |pid| match wanted {
        Children::None => Vec::new(),
        Children::All => snapshot::children(pid),
        Children::SameProgram => {
            let program = program(pid);
            let same = |child: &u32| program.is_some() && self::program(*child) == program;
            snapshot::children(pid).into_iter().filter(same).collect()
        }
    };
    closure(pids, children)
}

/// All that can be reached, in the order in which they are found.
fn closure(pids: &[u32], children: impl Fn(u32) -> Vec<u32>) -> Vec<u32> {
    let mut known = FxHashSet::default();
    let mut found: Vec<u32> = pids.iter().copied().filter(|pid| known.insert(*pid)).collect();
    let mut at = 0;
    while let Some(&pid) = found.get(at) {
        found.extend(children(pid).into_iter().filter(|child| known.insert(*child)));
        at += 1;
    }
    found
}

/// What tells whether two processes run the same program: its file, or where this user may not know that, its name.
fn program(pid: u32) -> Option<PathBuf> {
    let file = fs::read_link(format!("/proc/{pid}/exe")).ok();
    file.or_else(|| snapshot::name_of(pid).map(|name| PathBuf::from(&*name)))
}

/// The processes of a control group and of the groups in it, ascending. The path is that of its folder, or what stands
/// behind `0::` in /proc/PID/cgroup.
///
/// # Errors
/// There is no such group, or it cannot be read: why, as a sentence without a full stop.
pub fn of_cgroup(path: &Path) -> Result<Vec<u32>, String> {
    let inside = path.strip_prefix("/").unwrap_or(path);
    let candidates = [path.to_owned()].into_iter().chain(GROUPS.map(|root| Path::new(root).join(inside)));
    let folder = candidates.into_iter().find(|folder| folder.is_absolute() && folder.join(MEMBERS).exists());
    let folder = folder.ok_or_else(|| {
        format!(
            "there is no control group '{}'; give a path below {} such as /system.slice/nginx.service, which 'cat \
             /proc/PID/cgroup' shows",
            path.display(),
            GROUPS[0]
        )
    })?;
    let mut pids = members(&folder)?;
    pids.sort_unstable();
    pids.dedup();
    Ok(pids)
}

fn members(folder: &Path) -> Result<Vec<u32>, String> {
    let path = folder.join(MEMBERS);
    let text = fs::read_to_string(&path).map_err(|why| format!("{}: {why}", path.display()))?;
    // A process outside of the caller's namespace is 0.
    let own = text.lines().filter_map(|line| line.parse().ok()).filter(|pid| *pid != 0);
    let mut pids: Vec<u32> = own.collect();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            // A group that is removed meanwhile has no process.
            pids.extend(members(&entry.path()).unwrap_or_default());
        }
    }
    Ok(pids)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descendants_are_found_once_and_circles_end() {
        let children = |pid| match pid {
            1 => vec![2, 3],
            3 => vec![4, 1],
            _ => Vec::new(),
        };
        assert_eq!(closure(&[1, 3, 1], children), [1, 3, 2, 4]);
        assert_eq!(closure(&[], children), [0_u32; 0]);
    }

    #[test]
    fn a_group_has_the_processes_of_the_groups_in_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let inner = folder.path().join("inner");
        fs::create_dir(&inner).expect("a folder in it");
        fs::write(folder.path().join(MEMBERS), "12\n0\n7\n").expect("its processes");
        fs::write(inner.join(MEMBERS), "9\n12\n").expect("those of the other");
        assert_eq!(of_cgroup(folder.path()), Ok(vec![7, 9, 12]));
        let why = of_cgroup(Path::new("no/such/group")).expect_err("there is none");
        assert!(why.contains("no/such/group") && why.contains("/proc/PID/cgroup"), "{why}");
    }

    #[test]
    fn this_process_runs_its_own_program() {
        let own = std::process::id();
        assert!(program(own).is_some());
        assert_eq!(with_children(&[own], Children::None), [own]);
    }
}
