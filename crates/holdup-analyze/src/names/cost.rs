//! What the line information of a binary would cost, counted before [`addr2line`] reads it: see [`Allowance`].
//!
//! The units are looked through once, as `addr2line` does at first: where their code is, and how long the tables are
//! that each of them names. What is in a unit is counted when the first of its addresses is asked for.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use gimli::{
    Abbreviation, AttributeValue, DebugAbbrevOffset, DebugInfoOffset, DebugLineOffset, Dwarf, EntriesRaw, Reader,
    Section, Unit, UnitHeader, constants as dw,
};
use rustc_hash::{FxHashMap, FxHashSet};

use super::allowance::{Allowance, TooMuch};

/// What an abbreviation takes, and each attribute of it.
const ABBREVIATION_BYTES: u64 = 128;
const ATTRIBUTE_BYTES: u64 = 8;
/// What a unit takes beside its own structure.
const UNIT_BYTES: u64 = 256;
/// What a function takes, inlined or not, and a stretch of code.
const FUNCTION_BYTES: u64 = 96;
const RANGE_BYTES: u64 = 40;
/// What a byte of a table of files can become, and one of a program of lines: a row, in a list that doubles in length.
const FILES_BYTES: u64 = 24;
const ROW_BYTES: u64 = 40;
/// Deepest nesting of functions: each is looked through anew for every one around it.
const MOST_NESTED: usize = 8;
/// Deepest nesting of what was inlined: each takes a frame of the reader's own stack.
const MOST_INLINED: usize = 256;
/// More units than this that claim one address have no line for it.
const MOST_CLAIMS: u64 = 1 << 12;

/// The units of a binary, and which of them may be read.
pub(super) struct Cost<R: Reader<Offset = usize>> {
    dwarf: Arc<Dwarf<R>>,
    allowance: Rc<Allowance>,
    units: Vec<DebugInfoOffset<usize>>,
    /// Where the units' code is, in order of its beginnings.
    claims: Vec<Claim>,
    /// What is known of units that were asked for.
    known: RefCell<FxHashMap<u32, bool>>,
    /// Something was not read.
    refused: Cell<bool>,
}

struct Claim {
    begin: u64,
    end: u64,
    /// The furthest end of this one and those before.
    furthest: u64,
    unit: u32,
}

impl<R: Reader<Offset = usize>> Cost<R> {
    /// Looks through the units, and gives the line information back with its abbreviations read.
    pub(super) fn of(mut dwarf: Dwarf<R>, allowance: Rc<Allowance>) -> Result<Cost<R>, TooMuch> {
        let mut tables = FxHashSet::default();
        let mut headers = dwarf.units();
        let mut units = Vec::new();
        while let Ok(Some(header)) = headers.next() {
            allowance.bytes(size_of::<Unit<R>>() as u64 + UNIT_BYTES)?;
            allowance.steps(64)?;
            if tables.insert(header.debug_abbrev_offset()) {
                abbreviations(&dwarf, header.debug_abbrev_offset(), &allowance)?;
            }
            units.extend(header.debug_info_offset());
        }
        dwarf.populate_abbreviations_cache(gimli::AbbreviationsCacheStrategy::All);
        let mut cost = Cost {
            dwarf: Arc::new(dwarf),
            allowance,
            units,
            claims: Vec::new(),
            known: RefCell::default(),
            refused: Cell::new(false),
        };
        cost.claim_all()?;
        Ok(cost)
    }

    /// The line information.
    pub(super) fn dwarf(&self) -> &Arc<Dwarf<R>> {
        &self.dwarf
    }

    /// What may be spent.
    pub(super) fn allowance(&self) -> &Rc<Allowance> {
        &self.allowance
    }

    /// Whether all units that claim this address may be read.
    pub(super) fn allows(&self, address: u64) -> bool {
        let behind = self.claims.partition_point(|claim| claim.begin <= address);
        let near = self.claims[..behind].iter().rev().take_while(|claim| claim.furthest > address);
        let mut seen = 0;
        let is_allowed = near.filter(|claim| claim.end > address).all(|claim| {
            seen += 1;
            seen <= MOST_CLAIMS && self.allows_unit(claim.unit)
        });
        let is_allowed = is_allowed && self.allowance.steps(32 + seen).is_ok();
        self.refused.set(self.refused.get() || !is_allowed);
        is_allowed
    }

    /// Whether something was not read that was asked for.
    pub(super) fn has_refused(&self) -> bool {
        self.refused.get()
    }

    /// Whether all units may be read.
    pub(super) fn allows_all(&self) -> bool {
        (0..self.units.len() as u32).all(|unit| self.allows_unit(unit))
    }

    fn allows_unit(&self, unit: u32) -> bool {
        if let Some(known) = self.known.borrow().get(&unit) {
            return *known;
        }
        let allowed = self.unit(unit).is_none_or(|unit| self.read(&unit).is_ok());
        self.known.borrow_mut().insert(unit, allowed);
        allowed
    }

    /// `None` of a unit that nobody can read.
    fn unit(&self, unit: u32) -> Option<Unit<R>> {
        let header = self.dwarf.unit_header(*self.units.get(unit as usize)?).ok()?;
        self.dwarf.unit(header).ok()
    }

    fn claim_all(&mut self) -> Result<(), TooMuch> {
        let mut claims = self.listed()?;
        for at in 0..self.units.len() as u32 {
            let Ok(header) = self.dwarf.unit_header(self.units[at as usize]) else { continue };
            let has_ranges = self.head(&header)?;
            let Some(unit) = self.unit(at) else { continue };
            if !has_ranges {
                // Where its code is, only its lines tell, which are read at once.
                self.lines(&unit)?;
                self.entries(&unit)?;
                continue;
            }
            let Ok(mut ranges) = self.dwarf.unit_ranges(&unit) else { continue };
            while let Ok(Some(range)) = ranges.next() {
                self.range()?;
                claims.push((range.begin, range.end, at));
            }
        }
        claims.sort_unstable();
        let mut furthest = 0;
        self.claims = claims
            .into_iter()
            .map(|(begin, end, unit)| {
                furthest = furthest.max(end);
                Claim { begin, end, furthest, unit }
            })
            .collect();
        Ok(())
    }

    /// What the file's own list says of the units' code.
    fn listed(&self) -> Result<Vec<(u64, u64, u32)>, TooMuch> {
        let mut claims = Vec::new();
        let mut headers = self.dwarf.debug_aranges.headers();
        while let Ok(Some(header)) = headers.next() {
            self.allowance.steps(16)?;
            let Ok(unit) = self.units.binary_search(&header.debug_info_offset()) else { continue };
            let mut entries = header.entries();
            while let Some(entry) = entries.next().transpose() {
                let Ok(entry) = entry else { continue };
                self.range()?;
                claims.push((entry.range().begin, entry.range().end, unit as u32));
            }
        }
        Ok(claims)
    }

    fn range(&self) -> Result<(), TooMuch> {
        self.allowance.steps(4)?;
        self.allowance.bytes(RANGE_BYTES)
    }

    /// What the first entry of a unit brings with it: a table of files. Whether it says where its code is.
    fn head(&self, header: &UnitHeader<R>) -> Result<bool, TooMuch> {
        let Ok(abbreviations) = self.dwarf.abbreviations(header) else { return Ok(true) };
        let Ok(mut entries) = header.entries_raw(&abbreviations, None) else { return Ok(true) };
        let Ok(Some(abbreviation)) = entries.read_abbreviation() else { return Ok(true) };
        let (mut begins, mut ends, mut lists) = (false, false, false);
        self.allowance.steps(abbreviation.attributes().len() as u64)?;
        for attribute in abbreviation.attributes() {
            let Ok(attribute) = entries.read_attribute(*attribute) else { return Ok(true) };
            match (attribute.name(), attribute.value()) {
                (dw::DW_AT_low_pc, _) => begins = true,
                (dw::DW_AT_high_pc, _) => ends = true,
                (dw::DW_AT_ranges, _) => lists = true,
                (dw::DW_AT_stmt_list, AttributeValue::DebugLineRef(offset)) => {
                    let len = files_len(&self.dwarf, offset).unwrap_or(0);
                    self.allowance.steps(len / 4)?;
                    self.allowance.bytes(len.saturating_mul(FILES_BYTES))?;
                }
                _ => {}
            }
        }
        Ok(lists || begins && ends)
    }

    fn read(&self, unit: &Unit<R>) -> Result<(), TooMuch> {
        self.entries(unit)?;
        self.lines(unit)
    }

    /// A unit's rows, and the names of its files, each written out with its folder.
    fn lines(&self, unit: &Unit<R>) -> Result<(), TooMuch> {
        let Some(program) = &unit.line_program else { return Ok(()) };
        let header = program.header();
        let rows = header.raw_program_buf().len() as u64;
        self.allowance.steps(rows.saturating_mul(4))?;
        self.allowance.bytes(rows.saturating_mul(ROW_BYTES))?;
        let len = |value: Option<AttributeValue<R>>| {
            value.and_then(|value| self.dwarf.attr_string(unit, value).ok()).map_or(0, |text| text.len())
        };
        let own = unit.comp_dir.as_ref().map_or(0, Reader::len);
        for file in header.file_names() {
            let path = own + len(file.directory(header)) + len(Some(file.path_name()));
            self.allowance.text(path)?;
            self.allowance.bytes(64 + path as u64)?;
        }
        Ok(())
    }

    /// A unit's functions, those that were inlined, and where their code is.
    fn entries(&self, unit: &Unit<R>) -> Result<(), TooMuch> {
        let Ok(mut entries) = unit.entries_raw(None) else { return Ok(()) };
        let mut around = Around::default();
        while !entries.is_empty() {
            let depth = entries.next_depth();
            self.allowance.steps(1)?;
            // What cannot be read ends the reading.
            let Ok(abbreviation) = entries.read_abbreviation() else { return Ok(()) };
            let Some(abbreviation) = abbreviation else { continue };
            self.allowance.steps(abbreviation.attributes().len() as u64)?;
            let read = match abbreviation.tag() {
                tag @ (dw::DW_TAG_subprogram | dw::DW_TAG_inlined_subroutine) => {
                    around.enter(depth, tag == dw::DW_TAG_inlined_subroutine)?;
                    self.function(unit, &mut entries, abbreviation)?
                }
                _ => entries.skip_attributes(abbreviation.attributes()).is_ok(),
            };
            if !read {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Whether it could be read.
    fn function(
        &self,
        unit: &Unit<R>,
        entries: &mut EntriesRaw<'_, R>,
        abbreviation: &Abbreviation,
    ) -> Result<bool, TooMuch> {
        self.allowance.bytes(FUNCTION_BYTES)?;
        for attribute in abbreviation.attributes() {
            let Ok(attribute) = entries.read_attribute(*attribute) else { return Ok(false) };
            if attribute.name() == dw::DW_AT_ranges
                && let Ok(Some(offset)) = self.dwarf.attr_ranges_offset(unit, attribute.value())
                && let Ok(mut ranges) = self.dwarf.ranges(unit, offset)
            {
                while let Ok(Some(_)) = ranges.next() {
                    self.range()?;
                }
            }
        }
        Ok(true)
    }
}

/// The functions around a place, as depths of entries.
#[derive(Default)]
struct Around {
    functions: Vec<isize>,
    inlined: Vec<isize>,
}

impl Around {
    fn enter(&mut self, depth: isize, is_inlined: bool) -> Result<(), TooMuch> {
        let (list, most) = match is_inlined {
            true => (&mut self.inlined, MOST_INLINED),
            false => (&mut self.functions, MOST_NESTED),
        };
        while list.pop_if(|around| *around >= depth).is_some() {}
        list.push(depth);
        if list.len() > most { Err(TooMuch) } else { Ok(()) }
    }
}

/// Counts a table of abbreviations.
fn abbreviations<R: Reader<Offset = usize>>(
    dwarf: &Dwarf<R>,
    offset: DebugAbbrevOffset<usize>,
    allowance: &Allowance,
) -> Result<(), TooMuch> {
    let mut table = dwarf.debug_abbrev.reader().clone();
    if table.skip(offset.0).is_err() {
        return Ok(());
    }
    // Its end, or what cannot be read, ends the reading.
    while let Ok(true) = abbreviation(&mut table, allowance)? {}
    Ok(())
}

/// Whether there was one.
fn abbreviation<R: Reader>(table: &mut R, allowance: &Allowance) -> Result<gimli::Result<bool>, TooMuch> {
    allowance.steps(8)?;
    let begins = |table: &mut R| {
        let code = table.read_uleb128()?;
        if code != 0 {
            table.read_uleb128()?;
            table.read_u8()?;
        }
        Ok(code != 0)
    };
    match begins(table) {
        Ok(true) => allowance.bytes(ABBREVIATION_BYTES)?,
        ended => return Ok(ended),
    }
    let attribute = |table: &mut R| {
        let (name, form) = (table.read_uleb128()?, table.read_uleb128()?);
        if form == u64::from(dw::DW_FORM_implicit_const.0) {
            table.read_sleb128()?;
        }
        Ok((name, form) != (0, 0))
    };
    loop {
        allowance.steps(1)?;
        match attribute(table) {
            Ok(true) => allowance.bytes(ATTRIBUTE_BYTES)?,
            Ok(false) => return Ok(Ok(true)),
            Err(why) => return Ok(Err(why)),
        }
    }
}

/// How long the header of a program of lines is, which is mostly its table of files.
fn files_len<R: Reader<Offset = usize>>(dwarf: &Dwarf<R>, offset: DebugLineOffset<usize>) -> gimli::Result<u64> {
    let mut program = dwarf.debug_line.reader().clone();
    program.skip(offset.0)?;
    let (_, format) = program.read_initial_length()?;
    if program.read_u16()? >= 5 {
        program.skip(2)?;
    }
    Ok(program.read_length(format)? as u64)
}

#[cfg(test)]
mod tests {
    use gimli::{EndianSlice, LittleEndian, SectionId};

    use super::*;

    const CODE: u64 = 0x1000;

    /// A unit with code of its own and a program of lines, a function inlined in it or not, and the end of the table.
    const ABBREVIATIONS: &[u8] = &[
        1, 0x11, 1, 0x11, 0x01, 0x12, 0x06, 0x10, 0x17, 0, 0, // unit: low_pc, high_pc, stmt_list
        2, 0x2e, 1, 0, 0, // subprogram
        3, 0x1d, 1, 0, 0, // inlined_subroutine
        0,
    ];

    fn unit(abbreviations: u32, body: &[u8]) -> Vec<u8> {
        let head = [&4_u16.to_le_bytes()[..], &abbreviations.to_le_bytes(), &[8]].concat();
        let len = (head.len() + body.len()) as u32;
        [&len.to_le_bytes()[..], &head, body].concat()
    }

    /// The unit's own entry: 256 bytes of code.
    fn entry() -> Vec<u8> {
        [&[1][..], &CODE.to_le_bytes(), &256_u32.to_le_bytes(), &0_u32.to_le_bytes()].concat()
    }

    /// A program of lines with one file and so many bytes.
    fn lines(bytes: usize) -> Vec<u8> {
        let tables = [1, 1, 1, 0xfb, 14, 13, 0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1, 0, b'a', 0, 0, 0, 0, 0];
        let head = [&4_u16.to_le_bytes()[..], &(tables.len() as u32).to_le_bytes(), &tables].concat();
        let len = (head.len() + bytes) as u32;
        [&len.to_le_bytes()[..], &head, &vec![20; bytes]].concat()
    }

    fn cost<'a>(
        info: &'a [u8],
        abbreviations: &'a [u8],
        lines: &'a [u8],
    ) -> Result<Cost<EndianSlice<'a, LittleEndian>>, TooMuch> {
        let load = |id| {
            let bytes: &[u8] = match id {
                SectionId::DebugInfo => info,
                SectionId::DebugAbbrev => abbreviations,
                SectionId::DebugLine => lines,
                _ => &[],
            };
            Ok::<_, gimli::Error>(EndianSlice::new(bytes, LittleEndian))
        };
        Cost::of(Dwarf::load(load).unwrap(), Rc::default())
    }

    #[track_caller]
    fn allows(body: &[u8], lines: &[u8], expected: bool) {
        let info = unit(0, &[entry(), body.to_vec()].concat());
        let cost = cost(&info, ABBREVIATIONS, lines).unwrap_or_else(|TooMuch| panic!("one unit is not too much"));
        assert_eq!(cost.allows(CODE), expected);
        assert_eq!((cost.allows(CODE), cost.has_refused()), (expected, !expected), "asked again");
        assert!(cost.allows(CODE + 256), "nothing is there");
    }

    #[test]
    fn units_are_counted() {
        let one = unit(0, &[entry(), vec![0]].concat());
        assert!(cost(&one.repeat(1_000), ABBREVIATIONS, &lines(0)).is_ok());
        assert!(cost(&one.repeat(1_300_000), ABBREVIATIONS, &lines(0)).is_err());
        // Thousands of units may claim one address by mistake (code that the linker dropped is at 0), but not more.
        let claimed =
            |units: u64| cost(&one.repeat(units as usize), ABBREVIATIONS, &lines(0)).map(|cost| cost.allows(CODE));
        assert_eq!((claimed(MOST_CLAIMS), claimed(MOST_CLAIMS + 1)), (Ok(true), Ok(false)));
    }

    /// Each unit begins its table a row later, and all go on to the same end.
    #[test]
    fn tables_that_overlap_are_counted_each() {
        let row = |at: u64| [0x80 | (at & 0x7f) as u8, 0x80 | (at >> 7 & 0x7f) as u8, (at >> 14) as u8, 0x2e, 0, 0, 0];
        let table: Vec<u8> = (2..40_000).flat_map(row).chain([0]).collect();
        let units = |count: u32| (0..count).flat_map(|at| unit(at * 7, &[0])).collect::<Vec<u8>>();
        assert!(cost(&units(2), &table, &lines(0)).is_ok());
        assert!(cost(&units(1_000), &table, &lines(0)).is_err());
    }

    #[test]
    fn nesting_is_bounded() {
        let nested = |inlined: usize| [vec![2], vec![3; inlined], vec![0; inlined + 2]].concat();
        allows(&nested(MOST_INLINED), &lines(0), true);
        allows(&nested(MOST_INLINED + 1), &lines(0), false);
        let functions = |count: usize| [vec![2; count], vec![0; count + 1]].concat();
        allows(&functions(MOST_NESTED), &lines(0), true);
        allows(&functions(MOST_NESTED + 1), &lines(0), false);
        let side_by_side = [2, 3, 0, 0].repeat(MOST_INLINED + 1);
        allows(&side_by_side, &lines(0), true);
    }

    #[test]
    fn functions_and_rows_are_counted() {
        allows(&[2, 0].repeat(100_000), &lines(1 << 20), true);
        allows(&[2, 0].repeat(6_000_000), &lines(0), false);
        allows(&[0], &lines(16 << 20), false);
    }
}
