//! Source lines and inlined functions, from DWARF; of Go's binaries without it, from the runtime's own tables.

use std::borrow::Cow;
use std::sync::Arc;

use addr2line::Context;
use gimli::{Dwarf, EndianArcSlice, EndianSlice, Reader, RunTimeEndian, SectionId};
use object::read::{File, Object, ObjectSection};

use super::golang;
use super::place::{MAX_INLINED, Place};

/// The line information of a binary.
pub(super) enum Lines<'a> {
    /// Read where it lies in the file.
    Plain(Box<Context<EndianSlice<'a, RunTimeEndian>>>),
    /// It was compressed.
    Unpacked(Box<Context<EndianArcSlice<RunTimeEndian>>>),
    /// Go's runtime tells.
    Go(Box<golang::Lines<'a>>),
}

impl<'a> Lines<'a> {
    /// Reads the index of a file's line information; `None` if it has none.
    pub(super) fn read(file: &File<'a>) -> Option<Lines<'a>> {
        Some(match sections(file)? {
            Sections::Plain(dwarf) => Lines::Plain(Box::new(Context::from_dwarf(*dwarf).ok()?)),
            Sections::Unpacked(dwarf) => Lines::Unpacked(Box::new(Context::from_dwarf(*dwarf).ok()?)),
        })
    }

    /// What Go's runtime knows of a file's lines; `None` if it is not of Go.
    pub(super) fn of_go(file: &File<'a>) -> Option<Lines<'a>> {
        Some(Lines::Go(Box::new(golang::Lines::read(file)?)))
    }

    /// The functions at an address of the file, innermost first; the last is the one that was compiled.
    pub(super) fn places(&self, address: u64) -> Vec<Place> {
        match self {
            Lines::Plain(context) => places(context, address),
            Lines::Unpacked(context) => places(context, address),
            Lines::Go(tables) => tables.places(address),
        }
    }
}

/// Line information as it lies in the file, or decompressed.
pub(super) enum Sections<'a> {
    Plain(Box<Dwarf<EndianSlice<'a, RunTimeEndian>>>),
    Unpacked(Box<Dwarf<EndianArcSlice<RunTimeEndian>>>),
}

/// The line information of a file, if it has any.
pub(super) fn sections<'a>(file: &File<'a>) -> Option<Sections<'a>> {
    if file.section_by_name(".debug_info")?.size() == 0 {
        return None;
    }
    let endian = if file.is_little_endian() { RunTimeEndian::Little } else { RunTimeEndian::Big };
    if SECTIONS.iter().any(|id| matches!(section(file, *id), Cow::Owned(_))) {
        let load = |id| {
            let bytes: Arc<[u8]> = Arc::from(&*section(file, id));
            Ok::<_, gimli::Error>(EndianArcSlice::new(bytes, endian))
        };
        return Dwarf::load(load).ok().map(|dwarf| Sections::Unpacked(Box::new(dwarf)));
    }
    let load = |id| {
        let Cow::Borrowed(bytes) = section(file, id) else { return Ok(EndianSlice::new(&[], endian)) };
        Ok::<_, gimli::Error>(EndianSlice::new(bytes, endian))
    };
    Dwarf::load(load).ok().map(|dwarf| Sections::Plain(Box::new(dwarf)))
}

/// What line information consists of.
const SECTIONS: [SectionId; 10] = [
    SectionId::DebugAbbrev,
    SectionId::DebugAddr,
    SectionId::DebugAranges,
    SectionId::DebugInfo,
    SectionId::DebugLine,
    SectionId::DebugLineStr,
    SectionId::DebugRanges,
    SectionId::DebugRngLists,
    SectionId::DebugStr,
    SectionId::DebugStrOffsets,
];

/// A section's bytes, decompressed if they must be; none if there are none, or if the index does not need them.
fn section<'a>(file: &File<'a>, id: SectionId) -> Cow<'a, [u8]> {
    if !SECTIONS.contains(&id) {
        return Cow::Borrowed(&[]);
    }
    let section = file.section_by_name(id.name());
    section.and_then(|section| section.uncompressed_data().ok()).unwrap_or(Cow::Borrowed(&[]))
}

fn places<R: Reader>(context: &Context<R>, address: u64) -> Vec<Place> {
    let mut places = Vec::new();
    if let Ok(mut frames) = context.find_frames(address).skip_all_loads() {
        while let Ok(Some(frame)) = frames.next() {
            let function = frame.function.and_then(|name| name.raw_name().ok().map(Cow::into_owned));
            let location = frame.location;
            places.push(Place {
                function,
                file: location.as_ref().and_then(|at| at.file).map(str::to_owned),
                line: location.and_then(|at| at.line).filter(|line| *line > 0),
            });
            if places.len() == MAX_INLINED {
                break;
            }
        }
    }
    places
}
