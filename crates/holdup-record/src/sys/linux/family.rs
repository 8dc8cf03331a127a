//! Which processes belong together: those that a process has started, and those of a control group.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use rustc_hash::FxHashSet;

use super::snapshot;
use crate::Children;

/// Where control groups are mounted: of version 2, and of systems that have both.
pub(super) const GROUPS: [&str; 2] = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"];
/// What every group of processes has.
const MEMBERS: &str = "cgroup.procs";

/// A process that was just forked runs another program, or has ended, after this time.
const SETTLES: Duration = Duration::from_millis(5);

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
    let mut found = closure(pids, children);
    if found.len() > pids.len() {
        // A process that is about to run another program, or to end, is none of them.
        thread::sleep(SETTLES);
        let settled = closure(pids, children);
        found.retain(|pid| settled.contains(pid));
    }
    found
}

/// The first of these that no process has.
pub fn first_missing(pids: &[u32]) -> Option<u32> {
    pids.iter().copied().find(|pid| !Path::new(&format!("/proc/{pid}")).exists())
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

/// The control group of a container, by its id or the beginning of it: the folder whose name is that id, alone
/// (cgroupfs) or as systemd names it (`docker-ID.scope`, `libpod-ID.scope`), wherever groups are mounted.
///
/// # Errors
/// There is none, there are several, or this is no beginning of an id: why, as a sentence without a full stop.
pub fn of_container(id: &str) -> Result<PathBuf, String> {
    of_container_below(&GROUPS.map(Path::new), id)
}

fn of_container_below(roots: &[&Path], id: &str) -> Result<PathBuf, String> {
    // What `docker ps` shows has twelve digits.
    const LEAST_DIGITS: usize = 4;
    if id.len() < LEAST_DIGITS || !id.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Err(format!("'{id}' is no container id; 'docker ps' and 'podman ps' show them"));
    }
    let mut found = Vec::new();
    roots.iter().for_each(|root| look_for(root, id, &mut found));
    // Where both versions are mounted, both have the group.
    let mut ids: Vec<&str> = found.iter().map(|(id, _)| id.as_str()).collect();
    ids.dedup();
    match (ids.len(), found.first()) {
        (1, Some((_, folder))) => Ok(folder.clone()),
        (0, _) | (_, None) => Err(format!(
            "no control group below {} belongs to a container '{id}'; 'docker ps' and 'podman ps' show those that run; a \
             container sees only its own groups",
            roots.first().map_or(Path::new(""), |root| root).display()
        )),
        (count, _) => Err(format!("{count} containers have an id that begins with '{id}'; give more of it")),
    }
}

/// The control group of a systemd unit, by its name: the folder of that name, wherever groups are mounted. A name
/// without a type is a service's.
///
/// # Errors
/// There is none, or this is no name of a unit: why, as a sentence without a full stop.
pub fn of_unit(name: &str) -> Result<PathBuf, String> {
    of_unit_below(&GROUPS.map(Path::new), name)
}

fn of_unit_below(roots: &[&Path], name: &str) -> Result<PathBuf, String> {
    if name.is_empty() || name.contains('/') || name.starts_with('.') {
        return Err(format!("'{name}' is no name of a unit; 'systemctl list-units' shows them"));
    }
    let name = if name.contains('.') { name.to_owned() } else { format!("{name}.service") };
    roots.iter().find_map(|root| named(root, &name)).ok_or_else(|| {
        format!(
            "the unit '{name}' does not run: no control group below {} has its name; 'systemctl list-units' shows those \
             that run",
            roots.first().map_or(Path::new(""), |root| root).display()
        )
    })
}

/// The first folder of this name, the outermost before those in it.
fn named(folder: &Path, name: &str) -> Option<PathBuf> {
    let own = folder.join(name);
    if own.join(MEMBERS).exists() {
        return Some(own);
    }
    folders(folder).iter().find_map(|folder| named(folder, name))
}

/// The folders in a folder, in order; none where it cannot be read.
fn folders(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let folders = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    let mut folders: Vec<PathBuf> = folders.map(|entry| entry.path()).collect();
    folders.sort();
    folders
}

/// Folders whose name is a container's with such an id; not those inside of them.
fn look_for(folder: &Path, id: &str, found: &mut Vec<(String, PathBuf)>) {
    for folder in folders(folder) {
        let own = folder.file_name().and_then(|name| name.to_str()).and_then(container_of);
        match own.filter(|own| own.starts_with(&id.to_ascii_lowercase())) {
            Some(own) if folder.join(MEMBERS).exists() => found.push((own.to_owned(), folder)),
            _ => look_for(&folder, id, found),
        }
    }
}

/// The id in the name of a container's group.
fn container_of(name: &str) -> Option<&str> {
    const DIGITS: usize = 64;
    let name = name.strip_suffix(".scope").unwrap_or(name);
    let id = name.rsplit_once('-').map_or(name, |(_, id)| id);
    (id.len() == DIGITS && id.bytes().all(|byte| byte.is_ascii_hexdigit())).then_some(id)
}

fn members(folder: &Path) -> Result<Vec<u32>, String> {
    let path = folder.join(MEMBERS);
    let text = fs::read_to_string(&path).map_err(|why| format!("{}: {why}", path.display()))?;
    // A process outside of the caller's namespace is 0.
    let own = text.lines().filter_map(|line| line.parse().ok()).filter(|pid| *pid != 0);
    let mut pids: Vec<u32> = own.collect();
    for folder in folders(folder) {
        // A group that is removed meanwhile has no process.
        pids.extend(members(&folder).unwrap_or_default());
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
    fn a_container_is_found_by_the_beginning_of_its_id_under_every_name() {
        let root = tempfile::tempdir().expect("a folder");
        let id = |first: &str| format!("{first}{}", "0".repeat(64 - first.len()));
        let names = [
            format!("system.slice/docker-{}.scope", id("12ab34")),
            format!("machine.slice/libpod-{}.scope/container", id("cafe01")),
            format!("kubepods/pod7/{}", id("cafe02")),
            "system.slice/docker-short.scope".to_owned(),
        ];
        for name in &names {
            let folder = root.path().join(name);
            fs::create_dir_all(&folder).expect("a group");
            folder.ancestors().take(3).for_each(|group| fs::write(group.join(MEMBERS), "").expect("its processes"));
        }
        let of = |id: &str| of_container_below(&[root.path()], id);
        assert_eq!(of("12AB"), Ok(root.path().join(&names[0])));
        assert!(of("cafe01").is_ok_and(|folder| folder.ends_with(format!("libpod-{}.scope", id("cafe01")))));
        assert_eq!(of(&id("cafe02")), Ok(root.path().join(&names[2])));
        assert!(of("cafe").is_err_and(|why| why.contains("2 containers")));
        assert!(of("dead").is_err_and(|why| why.contains("docker ps")));
        assert!(of("web").is_err_and(|why| why.contains("no container id")));
    }

    #[test]
    fn a_unit_is_found_in_whichever_slice_it_is() {
        let root = tempfile::tempdir().expect("a folder");
        for group in ["system.slice/nginx.service", "system.slice/system-db.slice/db@1.service"] {
            fs::create_dir_all(root.path().join(group)).expect("a group");
            fs::write(root.path().join(group).join(MEMBERS), "7\n").expect("its processes");
        }
        let of = |name: &str| of_unit_below(&[root.path()], name);
        assert_eq!(of("nginx"), Ok(root.path().join("system.slice/nginx.service")));
        assert_eq!(of("db@1.service"), Ok(root.path().join("system.slice/system-db.slice/db@1.service")));
        assert!(of("apache").is_err_and(|why| why.contains("'apache.service' does not run")));
        assert!(of("../etc").is_err_and(|why| why.contains("no name of a unit")));
    }

    #[test]
    fn this_process_runs_its_own_program() {
        let own = std::process::id();
        assert!(program(own).is_some());
        assert_eq!(with_children(&[own], Children::None), [own]);
        assert_eq!(first_missing(&[own, u32::MAX, 0]), Some(u32::MAX));
    }
}
