//! The member of a variable at an offset, from DWARF: `.lock` of `g_cache`, `[5].lock` of `s_buckets`.
//!
//! The way into a type ends where a lock begins, for nobody knows a lock by its inner parts.

use std::rc::Rc;
use std::sync::Arc;

use gimli::{
    AttributeValue, DW_AT_abstract_origin, DW_AT_byte_size, DW_AT_count, DW_AT_data_member_location, DW_AT_location,
    DW_AT_name, DW_AT_specification, DW_AT_type, DW_AT_upper_bound, DebugInfoOffset, DebuggingInformationEntry, DwAt,
    Dwarf, EndianArcSlice, EndianSlice, Operation, Reader, RunTimeEndian, Section, Unit, UnitOffset, constants as dw,
};
use rustc_hash::FxHashMap;

use super::allowance::Allowance;
use super::cost::Cost;
use super::lines::Sections;
use super::primitive::words;

/// Largest line information that is searched for variables: what can be done in the blink of an eye.
const MAX_INFO_BYTES: usize = 16 << 20;

/// Deepest nesting of types that is followed.
const MAX_DEPTH: usize = 16;

/// Words in the names of types that a way ends at.
const LOCKS: &[&str] = &[
    "mutex",
    "lock",
    "rwlock",
    "spinlock",
    "cond",
    "condvar",
    "condition",
    "sem",
    "semaphore",
    "once",
    "barrier",
    "futex",
    "atomic",
    "latch",
    "event",
];

/// The variables of a binary and their types.
pub(super) enum Members<'a> {
    Plain(Box<Index<EndianSlice<'a, RunTimeEndian>>>),
    Unpacked(Box<Index<EndianArcSlice<RunTimeEndian>>>),
}

/// Types of variables by address.
pub(super) struct Index<R: Reader<Offset = usize>> {
    dwarf: Arc<Dwarf<R>>,
    allowance: Rc<Allowance>,
    /// In order of the section.
    units: Vec<Unit<R>>,
    types: FxHashMap<u64, Type>,
}

/// Where a type is described: index of the unit, and the place in it.
type Type = (usize, UnitOffset<usize>);

type Entry<R> = DebuggingInformationEntry<R>;

impl<'a> Members<'a> {
    /// Finds the variables of a file; `None` if it has no line information, or more than can be searched quickly.
    pub(super) fn read(sections: &Sections<'a>) -> Option<Members<'a>> {
        match sections {
            Sections::Plain(cost) => Index::read(cost).map(|index| Members::Plain(Box::new(index))),
            Sections::Unpacked(cost) => Index::read(cost).map(|index| Members::Unpacked(Box::new(index))),
        }
    }

    /// The way from a variable at an address to what is at an offset in it, and what of the offset is left there.
    pub(super) fn path(&self, variable: u64, offset: u64) -> Option<(String, u64)> {
        match self {
            Members::Plain(index) => index.path(variable, offset),
            Members::Unpacked(index) => index.path(variable, offset),
        }
    }
}

impl<R: Reader<Offset = usize>> Index<R> {
    fn read(cost: &Cost<R>) -> Option<Index<R>> {
        let dwarf = cost.dwarf().clone();
        if dwarf.debug_info.reader().len() > MAX_INFO_BYTES || !cost.allows_all() {
            return None;
        }
        let mut units = Vec::new();
        let mut headers = dwarf.units();
        while let Ok(Some(header)) = headers.next() {
            units.extend(dwarf.unit(header));
        }
        let mut index = Index { dwarf, allowance: cost.allowance().clone(), units, types: FxHashMap::default() };
        for unit in 0..index.units.len() {
            index.types.extend(index.variables(unit));
        }
        Some(index)
    }

    /// The variables with a fixed address of one unit.
    fn variables(&self, at: usize) -> Vec<(u64, Type)> {
        let mut found = Vec::new();
        let mut entries = self.units[at].entries();
        while let Ok(Some(entry)) = entries.next_dfs() {
            if entry.tag() == dw::DW_TAG_variable
                && let Some(address) = self.address(at, entry)
                && let Some(kind) = self.type_of(at, entry, 0)
            {
                found.push((address, kind));
            }
        }
        found
    }

    fn address(&self, at: usize, entry: &Entry<R>) -> Option<u64> {
        let unit = &self.units[at];
        let location = entry.attr_value(DW_AT_location)?.exprloc_value()?;
        let mut operations = location.operations(unit.encoding());
        let address = match operations.next().ok()?? {
            Operation::Address { address } => address,
            Operation::AddressIndex { index } => self.dwarf.address(unit, index).ok()?,
            _ => return None,
        };
        // More operations compute another address: a thread's own variable, say.
        operations.next().ok()?.is_none().then_some(address)
    }

    /// The type of a variable or member, or of its declaration.
    fn type_of(&self, at: usize, entry: &Entry<R>, depth: usize) -> Option<Type> {
        if let Some(kind) = self.reference(at, entry, DW_AT_type) {
            return Some(kind);
        }
        let declared = [DW_AT_specification, DW_AT_abstract_origin];
        let (at, offset) = declared.into_iter().find_map(|name| self.reference(at, entry, name))?;
        let entry = self.units.get(at)?.entry(offset).ok()?;
        if depth < MAX_DEPTH { self.type_of(at, &entry, depth + 1) } else { None }
    }

    fn reference(&self, at: usize, entry: &Entry<R>, name: DwAt) -> Option<Type> {
        match entry.attr_value(name)? {
            AttributeValue::UnitRef(offset) => Some((at, offset)),
            AttributeValue::DebugInfoRef(offset) => self.locate(offset),
            _ => None,
        }
    }

    fn locate(&self, offset: DebugInfoOffset<usize>) -> Option<Type> {
        let start = |unit: &Unit<R>| unit.header.debug_info_offset().map_or(usize::MAX, |start| start.0);
        let behind = self.units.partition_point(|unit| start(unit) <= offset.0);
        let at = behind.checked_sub(1)?;
        Some((at, UnitOffset(offset.0 - start(&self.units[at]))))
    }

    fn path(&self, variable: u64, offset: u64) -> Option<(String, u64)> {
        let mut path = String::new();
        let mut kind = *self.types.get(&variable)?;
        let mut left = offset;
        for _ in 0..MAX_DEPTH {
            let Some((next, rest)) = self.step(kind, left, &mut path) else { break };
            (kind, left) = (next, rest);
        }
        Some((path, left))
    }

    /// One step into a type; `None` at the end of the way.
    fn step(&self, (at, place): Type, offset: u64, path: &mut String) -> Option<(Type, u64)> {
        let entry = self.units.get(at)?.entry(place).ok()?;
        if self.name(at, &entry).is_some_and(|name| is_lock(&name)) {
            return None;
        }
        match entry.tag() {
            dw::DW_TAG_typedef | dw::DW_TAG_const_type | dw::DW_TAG_volatile_type | dw::DW_TAG_restrict_type => {
                Some((self.reference(at, &entry, DW_AT_type)?, offset))
            }
            dw::DW_TAG_structure_type | dw::DW_TAG_class_type => self.member((at, place), offset, path),
            dw::DW_TAG_array_type => {
                let element = self.reference(at, &entry, DW_AT_type)?;
                let size = self.size(element, 0).filter(|size| *size > 0)?;
                // The order of indices in several dimensions is the compiler's; one is enough for stripes of locks.
                if self.dimensions((at, place)) == 1 {
                    path.push_str(&format!("[{}]", offset / size));
                }
                Some((element, offset % size))
            }
            _ => None,
        }
    }

    /// The member or base class that an offset is in: the last that begins at or before it.
    fn member(&self, (at, place): Type, offset: u64, path: &mut String) -> Option<(Type, u64)> {
        let mut best: Option<(u64, Type, Option<String>)> = None;
        self.children((at, place), |entry| {
            let member = matches!(entry.tag(), dw::DW_TAG_member | dw::DW_TAG_inheritance);
            let start = entry.attr_value(DW_AT_data_member_location).and_then(|value| value.udata_value());
            let start = start.unwrap_or(0);
            let (Some(kind), true) = (self.type_of(at, entry, 0), member && start <= offset) else { return };
            let size = self.size(kind, 0).unwrap_or(0);
            let better = best.as_ref().is_none_or(|(known, ..)| start >= *known);
            if better && offset - start < size {
                best = Some((start, kind, self.name(at, entry)));
            }
        });
        let (start, kind, name) = best?;
        // Leading underscores mark what is none of the user's business.
        if let Some(name) = name {
            if name.starts_with('_') {
                return None;
            }
            path.push('.');
            path.push_str(&name);
        }
        Some((kind, offset - start))
    }

    fn dimensions(&self, array: Type) -> usize {
        let mut count = 0;
        self.children(array, |entry| count += usize::from(entry.tag() == dw::DW_TAG_subrange_type));
        count
    }

    /// Size of a type in bytes.
    fn size(&self, (at, place): Type, depth: usize) -> Option<u64> {
        let entry = self.units.get(at)?.entry(place).ok()?;
        if let Some(size) = entry.attr_value(DW_AT_byte_size).and_then(|value| value.udata_value()) {
            return Some(size);
        }
        if matches!(entry.tag(), dw::DW_TAG_pointer_type | dw::DW_TAG_reference_type) {
            return Some(self.units[at].encoding().address_size.into());
        }
        let inner = self.reference(at, &entry, DW_AT_type).filter(|_| depth < MAX_DEPTH)?;
        let size = self.size(inner, depth + 1)?;
        if entry.tag() != dw::DW_TAG_array_type {
            return Some(size);
        }
        let mut count = 1_u64;
        self.children((at, place), |entry| {
            let number = |name| entry.attr_value(name).and_then(|value| value.udata_value());
            let length = number(DW_AT_count).or_else(|| number(DW_AT_upper_bound)?.checked_add(1));
            if entry.tag() == dw::DW_TAG_subrange_type {
                count = count.saturating_mul(length.unwrap_or(0));
            }
        });
        Some(size.saturating_mul(count))
    }

    /// Calls `visit` with the entries right below one.
    fn children(&self, (at, place): Type, mut visit: impl FnMut(&Entry<R>)) {
        let Some(Ok(mut entries)) = self.units.get(at).map(|unit| unit.entries_at_offset(place)) else {
            return;
        };
        let Ok(Some(own)) = entries.next_dfs() else { return };
        let depth = own.depth();
        while let Ok(Some(entry)) = entries.next_dfs() {
            // Types that contain each other make this a way without end.
            if entry.depth() <= depth || self.allowance.steps(32 + entry.attrs().len() as u64).is_err() {
                return;
            }
            if entry.depth() == depth + 1 {
                visit(entry);
            }
        }
    }

    fn name(&self, at: usize, entry: &Entry<R>) -> Option<String> {
        let name = self.dwarf.attr_string(&self.units[at], entry.attr_value(DW_AT_name)?).ok()?;
        name.to_string_lossy().ok().map(|name| name.into_owned())
    }
}

fn is_lock(type_name: &str) -> bool {
    words(type_name).any(|word| LOCKS.contains(&&*word))
}
