//! Which builds of files a process has mapped, by its memory: the files may have been replaced since, and who names
//! addresses later must know it. Without the right to read its memory, it is not known.

use holdup_trace::{Event, Mapping, What};
use rustc_hash::FxHashMap;

use super::elf;
use super::memory::Memory;
use super::snapshot::{self, Mapped};

/// Adds them to what a snapshot says of a process.
pub fn add_to_events(pid: u32, events: &mut [Event]) {
    let mapped = events.iter_mut().filter_map(|event| match &mut event.what {
        What::Mapped(map) => Some(&mut **map),
        _ => None,
    });
    add(pid, mapped);
}

/// Adds them to mappings of a process.
pub fn add<'m>(pid: u32, maps: impl Iterator<Item = &'m mut Mapping>) {
    let mut maps = maps.filter(|map| map.path.starts_with('/')).peekable();
    if maps.peek().is_none() {
        return;
    }
    let text = snapshot::read(&format!("/proc/{pid}/maps")).unwrap_or_default();
    let beginnings: Vec<_> = text.lines().filter_map(Mapped::read).filter(|line| line.offset == 0).collect();
    let mut memory = Memory::of(pid);
    let mut known: FxHashMap<u64, Option<Box<[u8]>>> = FxHashMap::default();
    for map in maps {
        // A file's first byte is mapped before its code.
        let behind = beginnings.partition_point(|line| line.start <= map.start);
        let of_file = beginnings[..behind].iter().rfind(|line| snapshot::without_escapes(line.path) == *map.path);
        let Some(base) = of_file.map(|line| line.start) else { continue };
        let build_id = known.entry(base).or_insert_with(|| elf::build_id(base, &mut memory));
        map.build_id.clone_from(build_id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_builds_of_this_process_are_known() {
        let pid = std::process::id();
        let mut events = snapshot::of_process(pid, 5);
        add_to_events(pid, &mut events);
        let mapped = events.iter().filter_map(|event| match &event.what {
            What::Mapped(map) if map.path.contains("holdup") => Some(map),
            _ => None,
        });
        let ids: Vec<_> = mapped.map(|map| map.build_id.as_ref().map(|id| id.len())).collect();
        let is_known = !ids.is_empty() && ids.iter().all(|id| *id > Some(7));
        assert!(is_known, "linkers of this system write build ids: {ids:?}");
    }
}
