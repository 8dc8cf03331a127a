//! The numbers of tracepoints by their names: from tracefs, where it can be read; else by trial
//! ([`probe`](super::probe)), remembered for the kernel at hand.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fmt::Write as _;
use std::ops::Range;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

use super::probe::{self, Held};

/// Numbers of tracepoints. Keep it until the recording is over: a process of its own keeps the tracepoints open with
/// it, so that the recorder closes its events quickly, and closes them only after it is dropped, which stalls whoever
/// opens one.
#[derive(Debug, Default)]
pub struct Ids {
    ids: BTreeMap<String, u32>,
    _held: Held,
}

/// Where the numbers come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    /// From tracefs.
    Tracefs,
    /// From an earlier trial on this kernel, tried again.
    Cache,
    /// From trial.
    Probe,
}

impl Ids {
    /// The number of a tracepoint, by its name without its group: `sys_enter_futex`, `sched_switch`. `None` if this
    /// kernel has no such tracepoint, or if this user cannot learn its number.
    pub fn get(&self, name: &str) -> Option<u32> {
        self.ids.get(name).copied()
    }
}

/// Where tracefs is, where it is mounted.
pub const TRACEFS: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];
/// No tracepoint that is wanted here has had a higher number on any kernel seen (2,325 on 6.18 with few modules).
const HIGHEST: u32 = 6000;
/// How far from each other the tracepoints of the scheduler and those of its system calls are: they come from the same
/// source files.
const NEAR: u32 = 96;

/// Finds the numbers of the `wanted` tracepoints: system calls as `sys_enter_NAME` and `sys_exit_NAME`, `sys_enter` and
/// `sys_exit` for all of them, and `sched_switch` and `sched_waking`, which need rights. What this kernel does not
/// have, or this user cannot learn, is absent.
///
/// Where tracefs cannot be read, this takes some milliseconds (tens at the first time on a kernel), and leaves a
/// process behind for some seconds that closes what was tried.
///
/// # Errors
/// The kernel does not let this user open any event.
pub fn find(wanted: &[&str]) -> io::Result<Ids> {
    let cache = cache_file(&env_folder());
    find_in(wanted, &TRACEFS.map(Path::new), cache.as_deref(), 1..HIGHEST).map(|(ids, _)| ids)
}

fn find_in(
    wanted: &[&str],
    tracefs: &[&Path],
    cache: Option<&Path>,
    candidates: Range<u32>,
) -> io::Result<(Ids, Source)> {
    if let Some(ids) = tracefs.iter().find_map(|root| from_tracefs(root, wanted)) {
        let held = probe::hold(&ids.values().copied().collect::<Vec<_>>())?;
        return Ok((Ids { ids, _held: held }, Source::Tracefs));
    }
    let remembered = cache.and_then(|path| fs::read(path).ok()).and_then(|bytes| parse(&bytes));
    let confirmed = remembered.and_then(|known| Some((confirmed(&known)?, known)));
    let ((mut known, mut held), source) = match confirmed {
        Some((held, known)) => ((known, held), Source::Cache),
        None => (probed(&candidates.collect::<Vec<_>>())?, Source::Probe),
    };
    let mut news = source == Source::Probe;
    if wanted.iter().any(|name| SCHEDULER.contains(name)) {
        news |= add_scheduler(&mut known, &mut held);
    }
    if let Some(path) = cache.filter(|_| news) {
        // A cache that cannot be written costs the next recording some milliseconds, and is no reason to stop this one.
        let _ = store(path, &known);
    }
    let ids = known.into_iter().filter(|(name, id)| *id != ABSENT && wanted.contains(&name.as_str()));
    Ok((Ids { ids: ids.collect(), _held: held }, source))
}

/// In the cache, the number of what this kernel does not have.
const ABSENT: u32 = 0;

/// `None` if the tracefs at `root` cannot be read.
fn from_tracefs(root: &Path, wanted: &[&str]) -> Option<BTreeMap<String, u32>> {
    let events = root.join("events");
    read_id(&events.join("syscalls/sys_enter_futex/id"))?;
    let group = |name: &str| match name {
        "sys_enter" | "sys_exit" => "raw_syscalls",
        name if name.starts_with("sys_") => "syscalls",
        _ => "sched",
    };
    let ids = wanted
        .iter()
        .filter_map(|name| Some((name.to_string(), read_id(&events.join(group(name)).join(name).join("id"))?)));
    Some(ids.collect())
}

fn read_id(path: &Path) -> Option<u32> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

/// Something, if trial gives just the same for the numbers that are remembered.
fn confirmed(known: &BTreeMap<String, u32>) -> Option<Held> {
    let calls = |(name, id): (&String, &u32)| name.starts_with("sys_").then(|| (name.clone(), *id));
    let calls: BTreeMap<String, u32> = known.iter().filter_map(calls).collect();
    let mut candidates: Vec<u32> = calls.values().copied().filter(|id| *id != ABSENT).collect();
    candidates.sort_unstable();
    calls.get("sys_enter_futex").filter(|id| **id != ABSENT)?;
    let (now, held) = probed(&candidates).ok()?;
    (now == calls).then_some(held)
}

/// What trial gives for all calls that it knows.
fn probed(candidates: &[u32]) -> io::Result<(BTreeMap<String, u32>, Held)> {
    let (pairs, held) = probe::syscalls(candidates)?;
    let mut ids = BTreeMap::new();
    let any = pairs.iter().find(|pair| pair.nr == probe::ANY);
    ids.insert("sys_enter".to_owned(), any.map_or(ABSENT, |pair| pair.enter));
    ids.insert("sys_exit".to_owned(), any.map_or(ABSENT, |pair| pair.exit));
    for call in probe::CALLS {
        let pair = pairs.iter().find(|pair| i64::from(pair.nr) == call.nr);
        ids.insert(format!("sys_enter_{}", call.name), pair.map_or(ABSENT, |pair| pair.enter));
        ids.insert(format!("sys_exit_{}", call.name), pair.map_or(ABSENT, |pair| pair.exit));
    }
    Ok((ids, held))
}

/// The tracepoints of the scheduler that can be found.
const SCHEDULER: [&str; 2] = ["sched_switch", "sched_waking"];

/// Tries the scheduler's tracepoints that are remembered, or all near the system calls of the scheduler; whether that
/// gave news.
fn add_scheduler(known: &mut BTreeMap<String, u32>, held: &mut Held) -> bool {
    let remembered = SCHEDULER.map(|name| known.remove(name).filter(|id| *id != ABSENT));
    let near = match known.get("sys_enter_sched_yield") {
        Some(&yields) if yields != ABSENT => yields.saturating_sub(NEAR).max(1)..yields + NEAR,
        _ => return remembered.iter().any(Option::is_some),
    };
    let mut found = [None; 2];
    if let [Some(_), Some(_)] = remembered {
        found = tried_scheduler(&remembered.map(Option::unwrap_or_default), held);
    }
    if found != remembered || found == [None; 2] {
        found = tried_scheduler(&near.collect::<Vec<_>>(), held);
    }
    known.extend(SCHEDULER.iter().zip(found).filter_map(|(name, id)| Some((name.to_string(), id?))));
    // That this user may not learn them is no news about the kernel, unless something else was remembered.
    found != remembered && (found != [None; 2])
}

fn tried_scheduler(candidates: &[u32], held: &mut Held) -> [Option<u32>; 2] {
    let Ok((found, more)) = probe::scheduler(candidates) else { return [None; 2] };
    if found.switch.is_some() || found.waking.is_some() {
        held.join(more);
    }
    [found.switch, found.waking]
}

/// The folder for caches that the environment names.
fn env_folder() -> Option<PathBuf> {
    let absolute = |name: &str| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(".cache")))
}

/// The file that remembers the numbers of the running kernel.
fn cache_file(folder: &Option<PathBuf>) -> Option<PathBuf> {
    let part = |name: &str| fs::read_to_string(Path::new("/proc/sys/kernel").join(name)).unwrap_or_default();
    let build = [part("osrelease"), part("version"), env::consts::ARCH.to_owned()].concat();
    Some(folder.as_ref()?.join("holdup").join(format!("tracepoints-{:016x}", hash(build.as_bytes()))))
}

/// FNV-1a: a name for a file, that stays the same in all versions of holdup.
fn hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3))
}

/// Puts the file in place whole, or not at all.
fn store(path: &Path, known: &BTreeMap<String, u32>) -> io::Result<()> {
    let folder = path.parent().ok_or(io::ErrorKind::NotFound)?;
    let owner = folder.ancestors().find_map(|folder| fs::metadata(folder).ok()).ok_or(io::ErrorKind::NotFound)?;
    // SAFETY: asks for a number.
    if owner.uid() != unsafe { libc::geteuid() } {
        // With sudo, HOME can be that of another user, who could then not write to a folder made here.
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    fs::create_dir_all(folder)?;
    let file = path.file_name().unwrap_or(OsStr::new("tracepoints")).to_string_lossy();
    let draft = folder.join(format!("{file}.{}", std::process::id()));
    fs::write(&draft, text_of(known))?;
    fs::rename(&draft, path).inspect_err(|_| {
        let _ = fs::remove_file(&draft);
    })
}

fn text_of(known: &BTreeMap<String, u32>) -> String {
    let mut text = String::new();
    for (name, id) in known {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{name} {id}");
    }
    let _ = writeln!(text, "end {}", known.len());
    text
}

/// `None` unless every line is as [`text_of`] writes it.
fn parse(bytes: &[u8]) -> Option<BTreeMap<String, u32>> {
    let text = std::str::from_utf8(bytes).ok()?;
    let lines: Option<Vec<(&str, u32)>> =
        text.lines().map(|line| line.split_once(' ').and_then(|(name, id)| Some((name, id.parse().ok()?)))).collect();
    let mut lines = lines?;
    let known: BTreeMap<String, u32> = match lines.pop()? {
        ("end", count) if count as usize == lines.len() => {
            lines.into_iter().map(|(name, id)| (name.to_owned(), id)).collect()
        }
        _ => return None,
    };
    known.values().all(|id| *id <= u32::from(u16::MAX)).then_some(known)
}

#[cfg(test)]
mod tests {
    use super::*;

    const WANTED: &[&str] = &["sys_enter_futex", "sys_exit_futex", "sys_enter_nonsense"];

    /// The number by trial, or `None` with a word on stderr where this machine forbids it.
    fn tried(cache: Option<&Path>) -> Option<(Ids, Source)> {
        // Trying all leaves a process behind that closes for half a minute, which slows down other tests: where the
        // numbers can be known, only those around them are tried.
        let truth = TRACEFS.iter().find_map(|root| from_tracefs(Path::new(root), WANTED));
        let candidates = truth.map_or(1..HIGHEST, |ids| {
            let futex = ids["sys_exit_futex"];
            futex.saturating_sub(8).max(1)..futex + 8
        });
        match find_in(WANTED, &[], cache, candidates) {
            Ok(found) => Some(found),
            Err(error) => {
                eprintln!("skipped: this machine does not let this user open events ({error})");
                None
            }
        }
    }

    #[test]
    fn trial_finds_what_is_there_and_a_cache_gives_the_same() {
        let folder = tempfile::tempdir().unwrap();
        let cache = folder.path().join("a/tracepoints");
        let Some((first, source)) = tried(Some(&cache)) else { return };
        assert_eq!(source, Source::Probe);
        let (enter, exit) = (first.get("sys_enter_futex").unwrap(), first.get("sys_exit_futex").unwrap());
        assert_ne!(enter, exit);
        assert_eq!(first.get("sys_enter_nonsense"), None);
        if let Some(truth) = TRACEFS.iter().find_map(|root| from_tracefs(Path::new(root), WANTED)) {
            assert_eq!(first.ids, truth);
        }

        let (second, source) = tried(Some(&cache)).unwrap();
        assert_eq!((source, &second.ids), (Source::Cache, &first.ids));

        // A cache of another kernel, or one with the two swapped, is noticed and put right.
        let mut wrong = parse(&fs::read(&cache).unwrap()).unwrap();
        wrong.insert("sys_enter_futex".into(), exit);
        wrong.insert("sys_exit_futex".into(), enter);
        fs::write(&cache, text_of(&wrong)).unwrap();
        let (third, source) = tried(Some(&cache)).unwrap();
        assert_eq!((source, &third.ids), (Source::Probe, &first.ids));
        assert_eq!(parse(&fs::read(&cache).unwrap()).unwrap().get("sys_enter_futex"), Some(&enter));
    }

    #[test]
    fn tracefs_is_asked_first() {
        let root = tempfile::tempdir().unwrap();
        for (event, id) in [("syscalls/sys_enter_futex", 522), ("sched/sched_switch", 372)] {
            let folder = root.path().join("events").join(event);
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join("id"), format!("{id}\n")).unwrap();
        }
        let (ids, source) =
            find_in(&["sys_enter_futex", "sched_switch", "sched_waking"], &[root.path()], None, 1..2).unwrap();
        assert_eq!((ids.get("sys_enter_futex"), ids.get("sched_switch")), (Some(522), Some(372)));
        assert_eq!((ids.get("sched_waking"), source), (None, Source::Tracefs));
    }

    #[test]
    fn a_damaged_cache_is_no_cache() {
        let known = BTreeMap::from([("sys_enter_futex".to_owned(), 522), ("sys_exit_futex".to_owned(), 521)]);
        let text = text_of(&known);
        assert_eq!(parse(text.as_bytes()), Some(known));
        for end in 0..text.len() - 1 {
            assert_eq!(parse(&text.as_bytes()[..end]), None, "{end}");
        }
        for foreign in [&b"\xff\xfe"[..], b"", b"end 0 0", b"a 99999999\nend 1\n", b"a 70000\nend 1\n", b"a b\nend 1\n"]
        {
            assert_eq!(parse(foreign), None);
        }
    }
}
