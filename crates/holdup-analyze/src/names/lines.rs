//! Source lines and inlined functions, from DWARF; of Go's binaries without it, from the runtime's own tables.

use std::borrow::Cow;
use std::rc::Rc;
use std::sync::Arc;

use addr2line::Context;
use gimli::{Dwarf, EndianArcSlice, EndianSlice, Reader, RunTimeEndian, SectionId};
use object::read::{File, Object, ObjectSection};

use super::allowance::{Allowance, TooMuch};
use super::cost::Cost;
use super::golang;
use super::place::{MAX_INLINED, Place};

/// Longer names of functions and files are cut.
const LONGEST_NAME: usize = 16 << 10;

/// The line information of a binary.
pub(super) enum Lines<'a> {
    /// Read where it lies in the file.
    Plain(Box<Table<EndianSlice<'a, RunTimeEndian>>>),
    /// It was compressed.
    Unpacked(Box<Table<EndianArcSlice<RunTimeEndian>>>),
    /// Go's runtime tells.
    Go(Box<golang::Lines<'a>>),
}

/// The index of line information, and what it costs to ask it.
pub(super) struct Table<R: Reader<Offset = usize>> {
    context: Context<R>,
    cost: Rc<Cost<R>>,
}

impl<'a> Lines<'a> {
    /// Reads the index of a file's line information; `None` if it has none that can be read.
    pub(super) fn read(sections: &Sections<'a>) -> Option<Lines<'a>> {
        Some(match sections {
            Sections::Plain(cost) => Lines::Plain(Box::new(Table::read(cost)?)),
            Sections::Unpacked(cost) => Lines::Unpacked(Box::new(Table::read(cost)?)),
        })
    }

    /// What Go's runtime knows of a file's lines; `None` if it is not of Go.
    pub(super) fn of_go(file: &File<'a>) -> Option<Lines<'a>> {
        Some(Lines::Go(Box::new(golang::Lines::read(file)?)))
    }

    /// The functions at an address of the file, innermost first; the last is the one that was compiled.
    pub(super) fn places(&self, address: u64) -> Vec<Place> {
        match self {
            Lines::Plain(table) => table.places(address),
            Lines::Unpacked(table) => table.places(address),
            Lines::Go(tables) => tables.places(address),
        }
    }
}

impl<R: Reader<Offset = usize>> Table<R> {
    fn read(cost: &Rc<Cost<R>>) -> Option<Table<R>> {
        let context = Context::from_arc_dwarf(cost.dwarf().clone()).ok()?;
        Some(Table { context, cost: cost.clone() })
    }

    /// The index, for whoever looks at all units; `None` if that costs too much.
    pub(super) fn whole(&self) -> Option<&Context<R>> {
        self.cost.allows_all().then_some(&self.context)
    }

    fn places(&self, address: u64) -> Vec<Place> {
        let mut places = Vec::new();
        if !self.cost.allows(address) {
            return places;
        }
        let cut = |text: &str| text[..text.floor_char_boundary(LONGEST_NAME)].to_owned();
        if let Ok(mut frames) = self.context.find_frames(address).skip_all_loads() {
            while let Ok(Some(frame)) = frames.next() {
                let name = frame.function.as_ref().and_then(|name| name.raw_name().ok());
                let location = frame.location;
                let file = location.as_ref().and_then(|at| at.file);
                let len = name.as_ref().map_or(0, |name| name.len()) + file.map_or(0, str::len);
                if self.cost.allowance().text(len).is_err() {
                    break;
                }
                places.push(Place {
                    function: name.map(|name| cut(&name)),
                    file: file.map(cut),
                    line: location.and_then(|at| at.line).filter(|line| *line > 0),
                });
                if places.len() == MAX_INLINED {
                    break;
                }
            }
        }
        places
    }
}

/// Line information as it lies in the file, or decompressed, that may be read.
pub(super) enum Sections<'a> {
    Plain(Rc<Cost<EndianSlice<'a, RunTimeEndian>>>),
    Unpacked(Rc<Cost<EndianArcSlice<RunTimeEndian>>>),
}

impl Sections<'_> {
    /// Whether something was not read that was asked for.
    pub(super) fn has_refused(&self) -> bool {
        match self {
            Sections::Plain(cost) => cost.has_refused(),
            Sections::Unpacked(cost) => cost.has_refused(),
        }
    }
}

/// The line information of a file, if it has any.
///
/// # Errors
/// It would cost more than is left.
pub(super) fn sections<'a>(file: &File<'a>, allowance: &Rc<Allowance>) -> Result<Option<Sections<'a>>, TooMuch> {
    if file.section_by_name(".debug_info").is_none_or(|info| info.size() == 0) {
        return Ok(None);
    }
    let endian = if file.is_little_endian() { RunTimeEndian::Little } else { RunTimeEndian::Big };
    if SECTIONS.iter().any(|id| unpacked_len(file, *id).is_some()) {
        // Each is copied once more before the next is unpacked.
        let sizes = SECTIONS.iter().map(|id| unpacked_len(file, *id).unwrap_or(0));
        let (all, largest) = sizes.fold((0_u64, 0), |(all, largest), len| (all.saturating_add(len), len.max(largest)));
        allowance.bytes(all.saturating_add(largest))?;
        allowance.steps(all / 4)?;
        let load = |id| {
            let bytes: Arc<[u8]> = Arc::from(&*section(file, id));
            Ok::<_, gimli::Error>(EndianArcSlice::new(bytes, endian))
        };
        let Ok(dwarf) = Dwarf::load(load) else { return Ok(None) };
        return Ok(Some(Sections::Unpacked(Rc::new(Cost::of(dwarf, allowance.clone())?))));
    }
    let load = |id| {
        let Cow::Borrowed(bytes) = section(file, id) else { return Ok(EndianSlice::new(&[], endian)) };
        Ok::<_, gimli::Error>(EndianSlice::new(bytes, endian))
    };
    let Ok(dwarf) = Dwarf::load(load) else { return Ok(None) };
    Ok(Some(Sections::Plain(Rc::new(Cost::of(dwarf, allowance.clone())?))))
}

/// How long a section is once it is unpacked; `None` if it is not packed.
fn unpacked_len(file: &File<'_>, id: SectionId) -> Option<u64> {
    let data = file.section_by_name(id.name())?.compressed_data().ok()?;
    (data.format != object::CompressionFormat::None).then_some(data.uncompressed_size)
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
