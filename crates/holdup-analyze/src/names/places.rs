//! Names for addresses of a process of which no recording was made, only where its files are loaded.

use std::sync::LazyLock;

use holdup_trace::{Event, Mapping, Pid, Stacks, Tid, What};
use object::read::{File, Object, ObjectSegment};

use super::catalog::first_byte;
use super::{Frame, Modules, Names, Resolver, SpaceId};
use crate::facts::LockName;

/// A file, and where its first byte is in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placed {
    /// Its path.
    pub path: String,
    /// The address of its first byte.
    pub base: u64,
}

/// What is where in one process.
pub struct Places<'a> {
    resolver: Resolver<'static, 'a>,
    space: SpaceId,
}

/// No stack: every address is asked for by itself.
static NONE: LazyLock<Stacks> = LazyLock::new(Stacks::new);

/// The one process that there is.
const PROCESS: u32 = 1;

impl<'a> Places<'a> {
    /// Of a process with these files, whose bytes the modules give.
    pub fn new(placed: &[Placed], modules: &'a dyn Modules) -> Places<'a> {
        let mut names = Names::new();
        for file in placed {
            for mapping in code(file, modules) {
                let what = What::Mapped(Box::new(mapping));
                names.feed(&Event { time_ns: 0, tid: Tid(PROCESS), cpu: 0, what });
            }
        }
        let space = names.space(Tid(PROCESS));
        Places { resolver: Resolver::new(names, &NONE, modules), space }
    }

    /// The functions at an address, innermost first: those inlined there, and the one that was compiled.
    pub fn frames(&mut self, address: u64) -> Vec<Frame> {
        self.resolver.frames_at(self.space, address)
    }

    /// The variable that an address is in.
    pub fn variable(&mut self, address: u64) -> Option<LockName> {
        self.resolver.variable(self.space, address)
    }
}

impl std::fmt::Debug for Places<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Places").field("space", &self.space).finish_non_exhaustive()
    }
}

/// The executable parts of a file as they are mapped.
fn code(placed: &Placed, modules: &dyn Modules) -> Vec<Mapping> {
    let Some(file) = modules.file(&placed.path, None).and_then(|bytes| File::parse(bytes).ok()) else {
        return Vec::new();
    };
    let first = first_byte(&file);
    let mapping = |segment: object::read::Segment<'_, '_>| Mapping {
        pid: Pid(PROCESS),
        start: placed.base.wrapping_add(segment.address().wrapping_sub(first)),
        len: segment.size(),
        offset: segment.file_range().0,
        path: placed.path.as_str().into(),
        build_id: None,
    };
    file.segments().filter(is_code).map(mapping).collect()
}

fn is_code<'a>(segment: &impl ObjectSegment<'a>) -> bool {
    matches!(segment.flags(), object::SegmentFlags::Elf { p_flags, .. } if p_flags.0 & 1 != 0)
}
