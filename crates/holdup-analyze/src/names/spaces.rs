//! Address spaces over time: which file is mapped where, in which life of which process.

use std::collections::BTreeMap;
use std::sync::Arc;

use holdup_trace::{CODE_OF_JAVA, Event, Mapping, Pid, StackId, Tid, What};
use rustc_hash::FxHashMap;

use super::jit_dump;

/// One life of an address space: it ends with an exec.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SpaceId(pub u32);

/// A mapped file of the recording: path and build id together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct FileId(pub u32);

/// A build id, where it is known.
type BuildId = Option<Box<[u8]>>;

/// What mappings say about a file.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct MappedFile {
    pub path: Arc<str>,
    pub build_id: BuildId,
}

/// A stretch of executable addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Region {
    pub start: u64,
    /// First address behind it.
    pub end: u64,
    /// Where in the file it begins.
    pub offset: u64,
    pub file: FileId,
}

/// A method that Java's machine compiled.
#[derive(Debug)]
pub(super) struct Code {
    /// First address behind it.
    end: u64,
    /// The address behind its first `pause`, if it has one.
    pub behind_pause: Option<u64>,
    pub name: Box<str>,
}

/// Address spaces, learnt from events.
#[derive(Debug)]
pub(crate) struct Names {
    /// Index in `processes`.
    threads: FxHashMap<Tid, usize>,
    by_pid: FxHashMap<Pid, usize>,
    processes: Vec<Process>,
    /// Regions of each space, ascending and without overlap; the first belongs to threads of which nothing is known.
    spaces: Vec<Vec<Region>>,
    /// The compiled methods of each space, by where they begin.
    codes: FxHashMap<SpaceId, BTreeMap<u64, Code>>,
    /// When each stack was first seen in a space, in recordings of programs that tell when their code was where.
    first_seen: FxHashMap<(SpaceId, StackId), u64>,
    has_dumps: bool,
    /// Whose each space is; `Pid(0)` if nobody's.
    owners: Vec<Pid>,
    files: Vec<MappedFile>,
    file_ids: FxHashMap<(Arc<str>, BuildId), FileId>,
}

/// A process as it is now.
#[derive(Debug)]
struct Process {
    space: SpaceId,
    /// Its start was seen; otherwise something else made it known first.
    started: bool,
    /// Its first thread ended: the next start under this number is another process.
    leader_ended: bool,
}

impl Default for Names {
    fn default() -> Self {
        Names {
            threads: FxHashMap::default(),
            by_pid: FxHashMap::default(),
            processes: Vec::new(),
            spaces: vec![Vec::new()],
            codes: FxHashMap::default(),
            first_seen: FxHashMap::default(),
            has_dumps: false,
            owners: vec![Pid(0)],
            files: Vec::new(),
            file_ids: FxHashMap::default(),
        }
    }
}

impl Names {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Learns of mappings, exec and fork. Every event may be given.
    pub(crate) fn feed(&mut self, event: &Event) {
        match &event.what {
            What::Mapped(mapping) => self.mapped(event.tid, mapping),
            What::Started { pid, parent } => self.started(event.tid, *pid, *parent),
            What::Named { exec: true, .. } => self.executed(event.tid),
            What::Exited => self.exited(event.tid),
            _ => {}
        }
    }

    /// Learns of where threads are. Every event may be given.
    pub(crate) fn see(&mut self, event: &Event) {
        if self.has_dumps
            && let Some(stack) = event.what.stack()
        {
            let key = (self.space(event.tid), stack);
            self.first_seen.entry(key).or_insert(event.time_ns);
        }
    }

    /// The address space that a thread is in now.
    pub(crate) fn space(&self, tid: Tid) -> SpaceId {
        let process = self.threads.get(&tid).or_else(|| self.by_pid.get(&Pid(tid.0)));
        match (process, &self.processes[..]) {
            (Some(index), _) => self.processes[*index].space,
            // The start of a thread may be lost; where there is one process, it is its.
            (None, [only]) => only.space,
            (None, _) => SpaceId::default(),
        }
    }

    /// The executable regions of a space, ascending.
    pub(super) fn regions(&self, space: SpaceId) -> &[Region] {
        self.spaces.get(space.0 as usize).map_or(&[], |regions| regions)
    }

    /// The region that an address of a space is in.
    pub(super) fn region(&self, space: SpaceId, address: u64) -> Option<Region> {
        let regions = self.regions(space);
        let behind = regions.partition_point(|region| region.start <= address);
        regions[..behind].last().copied().filter(|region| address < region.end)
    }

    /// The compiled method that an address of a space is in. Memory is used again: the last that was told of counts.
    pub(super) fn code(&self, space: SpaceId, address: u64) -> Option<&Code> {
        let (_, code) = self.codes.get(&space)?.range(..=address).next_back()?;
        (address < code.end).then_some(code)
    }

    /// Whether compiled methods of a space are known.
    pub(super) fn has_codes(&self, space: SpaceId) -> bool {
        self.codes.contains_key(&space)
    }

    /// When a stack was first seen there, where that matters. Equal stacks are one: later ones are named as the first.
    pub(super) fn first_seen(&self, space: SpaceId, stack: StackId) -> Option<u64> {
        self.first_seen.get(&(space, stack)).copied()
    }

    /// The process whose space it is.
    pub(super) fn owner(&self, space: SpaceId) -> Option<Pid> {
        self.owners.get(space.0 as usize).copied().filter(|pid| *pid != Pid(0))
    }

    pub(super) fn file(&self, id: FileId) -> &MappedFile {
        &self.files[id.0 as usize]
    }

    pub(super) fn files(&self) -> usize {
        self.files.len()
    }

    fn mapped(&mut self, tid: Tid, mapping: &Mapping) {
        let process = self.process(mapping.pid);
        if tid != Tid(0) {
            self.threads.entry(tid).or_insert(process);
        }
        let Some(end) = mapping.start.checked_add(mapping.len).filter(|end| *end > mapping.start) else {
            return;
        };
        if let Some(name) = mapping.path.strip_prefix(CODE_OF_JAVA) {
            let codes = self.codes.entry(self.processes[process].space).or_default();
            let behind_pause = (mapping.offset > 0).then(|| mapping.start.wrapping_add(mapping.offset));
            codes.insert(mapping.start, Code { end, behind_pause, name: name.into() });
            return;
        }
        self.has_dumps |= jit_dump::is_dump(&mapping.path);
        let file = self.file_id(mapping);
        let region = Region { start: mapping.start, end, offset: mapping.offset, file };
        let space = self.processes[process].space;
        insert(&mut self.spaces[space.0 as usize], region);
    }

    fn started(&mut self, tid: Tid, pid: Pid, parent: Option<Tid>) {
        let leads = tid.0 == pid.0;
        let known = self.by_pid.get(&pid).copied();
        let process = match known {
            Some(index) if !leads || !self.processes[index].leader_ended => index,
            _ => self.add_process(pid),
        };
        self.threads.insert(tid, process);
        if leads && !std::mem::replace(&mut self.processes[process].started, true) {
            self.inherit(process, parent);
        }
    }

    /// A new process begins with the mappings of the one that made it; what was seen of its own already is newer.
    fn inherit(&mut self, process: usize, parent: Option<Tid>) {
        let Some(parent) = parent.and_then(|tid| self.threads.get(&tid).copied()) else { return };
        let space = self.processes[process].space.0 as usize;
        let mut regions = self.spaces[self.processes[parent].space.0 as usize].clone();
        for own in std::mem::take(&mut self.spaces[space]) {
            insert(&mut regions, own);
        }
        self.spaces[space] = regions;
    }

    fn executed(&mut self, tid: Tid) {
        let process = match self.threads.get(&tid) {
            Some(index) => *index,
            None => self.process(Pid(tid.0)),
        };
        self.threads.insert(tid, process);
        self.processes[process].started = true;
        let owner = self.owners[self.processes[process].space.0 as usize];
        self.processes[process].space = self.add_space(owner);
    }

    fn exited(&mut self, tid: Tid) {
        if let Some(index) = self.by_pid.get(&Pid(tid.0)) {
            self.processes[*index].leader_ended = true;
        }
    }

    fn process(&mut self, pid: Pid) -> usize {
        match self.by_pid.get(&pid) {
            Some(index) => *index,
            None => self.add_process(pid),
        }
    }

    fn add_process(&mut self, pid: Pid) -> usize {
        let space = self.add_space(pid);
        self.processes.push(Process { space, started: false, leader_ended: false });
        let index = self.processes.len() - 1;
        self.by_pid.insert(pid, index);
        self.threads.insert(Tid(pid.0), index);
        index
    }

    fn add_space(&mut self, owner: Pid) -> SpaceId {
        self.spaces.push(Vec::new());
        self.owners.push(owner);
        SpaceId(u32::try_from(self.spaces.len() - 1).unwrap_or(0))
    }

    fn file_id(&mut self, mapping: &Mapping) -> FileId {
        let key = (Arc::from(&*mapping.path), mapping.build_id.clone());
        if let Some(id) = self.file_ids.get(&key) {
            return *id;
        }
        let id = FileId(u32::try_from(self.files.len()).unwrap_or(u32::MAX));
        self.files.push(MappedFile { path: key.0.clone(), build_id: key.1.clone() });
        self.file_ids.insert(key, id);
        id
    }
}

/// Puts a region among others; of those that it overlaps, only the rest stays, for the newer mapping replaced them.
fn insert(regions: &mut Vec<Region>, new: Region) {
    let from = regions.partition_point(|region| region.end <= new.start);
    let to = regions.partition_point(|region| region.start < new.end);
    let overlapped = &regions[from..to.max(from)];
    let left = overlapped.first().filter(|old| old.start < new.start);
    let left = left.map(|old| Region { end: new.start, ..*old });
    let right = overlapped.last().filter(|old| old.end > new.end);
    let right =
        right.map(|old| Region { start: new.end, offset: old.offset.wrapping_add(new.end - old.start), ..*old });
    let fresh = left.into_iter().chain([new]).chain(right).collect::<Vec<_>>();
    regions.splice(from..to.max(from), fresh);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(tid: u32, what: What) -> Event {
        Event { time_ns: 0, tid: Tid(tid), cpu: 0, what }
    }

    fn map(pid: u32, start: u64, len: u64, path: &str) -> Event {
        let mapping = Mapping { pid: Pid(pid), start, len, offset: 0x1000, path: path.into(), build_id: None };
        event(pid, What::Mapped(Box::new(mapping)))
    }

    fn start(tid: u32, pid: u32, parent: Option<u32>) -> Event {
        event(tid, What::Started { pid: Pid(pid), parent: parent.map(Tid) })
    }

    fn exec(tid: u32) -> Event {
        event(tid, What::Named { name: "new".into(), exec: true })
    }

    fn names(events: &[Event]) -> Names {
        let mut names = Names::new();
        events.iter().for_each(|event| names.feed(event));
        names
    }

    fn at(names: &Names, tid: u32, address: u64) -> Option<(String, u64)> {
        let region = names.region(names.space(Tid(tid)), address)?;
        Some((names.file(region.file).path.to_string(), (address - region.start).wrapping_add(region.offset)))
    }

    #[test]
    fn threads_share_and_children_copy() {
        let mut names = names(&[
            start(1, 1, None),
            map(1, 0x1000, 0x1000, "a"),
            start(2, 1, Some(1)),
            start(9, 9, Some(2)),
            map(1, 0x9000, 0x1000, "late"),
        ]);
        assert_eq!(at(&names, 2, 0x1800), Some(("a".into(), 0x1800)));
        assert_eq!(at(&names, 2, 0x9000), Some(("late".into(), 0x1000)), "a thread sees later mappings");
        assert_eq!(at(&names, 9, 0x1800), Some(("a".into(), 0x1800)), "a child has what its parent had");
        assert_eq!(at(&names, 9, 0x9000), None, "but not what the parent maps later");
        names.feed(&exec(9));
        names.feed(&map(9, 0x5000, 0x1000, "b"));
        assert_eq!((at(&names, 9, 0x1800), at(&names, 9, 0x5fff)), (None, Some(("b".into(), 0x1fff))));
        assert_eq!(at(&names, 1, 0x1800), Some(("a".into(), 0x1800)));
    }

    #[test]
    fn the_newer_of_overlapping_mappings_wins() {
        let names = names(&[map(1, 0x1000, 0x9000, "a"), map(1, 0x3000, 0x1000, "b"), map(1, 0x9000, 0x4000, "c")]);
        let path = |address| at(&names, 1, address);
        assert_eq!(path(0x2fff), Some(("a".into(), 0x2fff)));
        assert_eq!(path(0x3000), Some(("b".into(), 0x1000)));
        assert_eq!(path(0x4000), Some(("a".into(), 0x4000)), "the rest keeps its place in the file");
        assert_eq!(path(0x8fff), Some(("a".into(), 0x8fff)));
        assert_eq!(path(0xcfff), Some(("c".into(), 0x4fff)));
        assert_eq!((path(0xd000), path(0xfff)), (None, None));
        let regions = names.regions(names.space(Tid(1)));
        assert!(regions.windows(2).all(|pair| pair[0].end <= pair[1].start), "{regions:?}");
    }

    #[test]
    fn what_is_not_known_is_guessed_with_care() {
        let mut names = names(&[start(1, 1, None), map(1, 0x1000, 0x1000, "a")]);
        assert_eq!(names.space(Tid(77)), names.space(Tid(1)), "there is only one process");
        names.feed(&start(5, 5, None));
        assert_eq!(names.space(Tid(77)), SpaceId::default());
        assert!(names.regions(SpaceId::default()).is_empty() && names.regions(SpaceId(99)).is_empty());
    }

    #[test]
    fn a_number_that_is_used_again_is_a_new_process() {
        let mut names = names(&[start(1, 1, None), start(2, 2, Some(1)), map(2, 0x1000, 0x1000, "a")]);
        let first = names.space(Tid(2));
        names.feed(&start(2, 2, Some(1)));
        assert_eq!(names.space(Tid(2)), first, "the same start, told twice");
        names.feed(&event(2, What::Exited));
        names.feed(&start(2, 2, Some(1)));
        assert_ne!(names.space(Tid(2)), first);
        assert_eq!(at(&names, 2, 0x1000), None);
    }

    #[test]
    fn mappings_that_come_before_the_start_stay() {
        let names = names(&[
            map(1, 0x1000, 0x1000, "a"),
            map(2, 0x1000, 0x800, "own"),
            start(2, 2, Some(1)),
            map(3, u64::MAX, 5, "absurd"),
            map(3, 0x1000, 0, "empty"),
        ]);
        assert_eq!(at(&names, 2, 0x1000), Some(("own".into(), 0x1000)));
        assert_eq!(at(&names, 2, 0x1800), Some(("a".into(), 0x1800)));
        assert_eq!(at(&names, 3, 0x1000), None);
    }
}
