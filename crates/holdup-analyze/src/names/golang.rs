//! Functions and lines of stripped Go binaries: the runtime keeps tables of its own (`.gopclntab`), for it must print
//! stack traces.

use object::RelocationTarget;
use object::read::{File, Object, ObjectSection, ObjectSegment};

use super::place::{MAX_INLINED, Place};

/// Magic numbers since Go 1.18 and 1.20; the header is the same.
const MAGICS: [u32; 2] = [0xffff_fff0, 0xffff_fff1];

/// Most functions that are believed.
const MAX_FUNCTIONS: u64 = 4_000_000;
/// Most steps of a table of what changes from one instruction to another.
const MAX_STEPS: usize = 1 << 20;

/// (address, size, name) of every function; empty if this is no Go binary, or one of another age.
pub(super) fn functions<'a>(file: &File<'a>) -> Vec<(u64, u64, &'a str)> {
    Table::of(file).map(|table| table.functions()).unwrap_or_default()
}

/// Files and lines of a Go binary without debug information.
pub(super) struct Lines<'a> {
    table: Table<'a>,
    /// What was inlined where, which functions have at offsets in it.
    inlined: Option<&'a [u8]>,
}

/// What the tables tell of one function, as an offset among them.
#[derive(Clone, Copy)]
struct Function {
    info: usize,
    /// Where its code begins, from that of all code on.
    start: u32,
}

/// The tables, little-endian with 8-byte pointers as on the machines that are recorded.
struct Table<'a> {
    bytes: &'a [u8],
    count: u64,
    text: u64,
    /// Offsets of the parts: names of functions, of files, the files of units of compilation, values by instruction,
    /// functions.
    names: usize,
    files: usize,
    units: usize,
    values: usize,
    functions: usize,
    /// Of Go 1.18 and 1.19: what is told of a function is a word shorter.
    is_old: bool,
}

/// The words of the structure by which the runtime finds the tables (`moduledata`): where code begins, and where what
/// is told of functions does, in Go 1.18 and 1.19, and since.
const TEXT: u64 = 22;
const OF_FUNCTIONS: [u64; 2] = [38, 40];

impl<'a> Lines<'a> {
    pub(super) fn read(file: &File<'a>) -> Option<Lines<'a>> {
        let table = Table::of(file)?;
        let module = Module::of(file)?;
        let inlined = module.word(OF_FUNCTIONS[usize::from(!table.is_old)]).and_then(|at| bytes_from(file, at));
        Some(Lines { table, inlined })
    }

    /// The functions at an address of the file, innermost first; the last is the one that was compiled.
    pub(super) fn places(&self, address: u64) -> Vec<Place> {
        let mut places = Vec::new();
        let Some((function, mut at)) = self.table.find(address) else { return places };
        while places.len() < MAX_INLINED {
            let called = self.inlined(function, at);
            let name = called.map_or_else(|| self.table.name(function.info), |(name, _)| self.table.text(name));
            let (file, line) = (self.table.file(function, at), self.table.line(function, at));
            places.push(Place { function: name.map(str::to_owned), file: file.map(str::to_owned), line });
            match called {
                Some((_, caller)) => at = caller,
                None => break,
            }
        }
        places
    }

    /// The function that was inlined so far behind a function's beginning: the offset of its name, and where it was
    /// called.
    fn inlined(&self, function: Function, at: u32) -> Option<(u32, u32)> {
        /// The numbers of these among tables of values, and among other tables.
        const VALUES: usize = 2;
        const TABLE: usize = 3;
        let Table { bytes, is_old, .. } = self.table;
        let fixed = if is_old { 40 } else { 44 };
        let (values, tables) = (u32_at(bytes, function.info + 28)? as usize, *bytes.get(function.info + fixed - 1)?);
        if values <= VALUES || usize::from(tables) <= TABLE {
            return None;
        }
        let index = self.table.value(u32_at(bytes, function.info + fixed + 4 * VALUES)?, at)?;
        let table = u32_at(bytes, function.info + fixed + 4 * values.checked_add(TABLE)?)?;
        let (entry, name, caller) = if is_old { (20, 12, 16) } else { (16, 4, 8) };
        let from = (table as usize).checked_add(usize::try_from(index).ok()?.checked_mul(entry)?)?;
        let field = |offset: usize| u32_at(self.inlined?, from.checked_add(offset)?);
        (table != u32::MAX).then_some(())?;
        // The call is before what was inlined for it, or behind: never there.
        let caller = field(caller).filter(|caller| *caller != at && *caller <= i32::MAX as u32)?;
        Some((field(name)?, caller))
    }
}

impl<'a> Table<'a> {
    fn of(file: &File<'a>) -> Option<Table<'a>> {
        let (_, bytes) = section(file)?;
        let text = Module::of(file).and_then(|module| module.word(TEXT));
        Table::read(bytes, text.or_else(|| file.section_by_name(".text").map(|section| section.address())))
    }

    fn read(bytes: &'a [u8], text: Option<u64>) -> Option<Table<'a>> {
        let pointer_bytes = *bytes.get(7)?;
        let magic = u32_at(bytes, 0)?;
        if !MAGICS.contains(&magic) || pointer_bytes != 8 {
            return None;
        }
        let field = |index: usize| u64_at(bytes, 8 + 8 * index);
        let part = |index: usize| usize::try_from(field(index)?).ok().filter(|at| *at <= bytes.len());
        let count = field(0).filter(|count| *count <= MAX_FUNCTIONS)?;
        // The linker of Go 1.24 and later leaves the start of the text out, for it would need a relocation.
        let stated = field(2)?;
        let text = if stated == 0 { text? } else { stated };
        Some(Table {
            bytes,
            count,
            text,
            names: part(3)?,
            units: part(4)?,
            files: part(5)?,
            values: part(6)?,
            functions: part(7)?,
            is_old: magic == MAGICS[0],
        })
    }

    fn functions(&self) -> Vec<(u64, u64, &'a str)> {
        (0..self.count).map_while(|index| self.function(usize::try_from(index).ok()?)).flatten().collect()
    }

    /// `None` at the table's end, `Some(None)` for an entry that makes no sense.
    fn function(&self, index: usize) -> Option<Option<(u64, u64, &'a str)>> {
        let (function, next) = self.entry(index)?;
        let (start, size) = (u64::from(function.start), u64::from(next.saturating_sub(function.start)));
        Some(self.name(function.info).map(|name| (self.text.wrapping_add(start), size, name)))
    }

    /// A function, and where the next one begins.
    fn entry(&self, index: usize) -> Option<(Function, u32)> {
        let entry = self.functions.checked_add(index.checked_mul(8)?)?;
        let (start, info) = (u32_at(self.bytes, entry)?, u32_at(self.bytes, entry + 4)?);
        let info = self.functions.checked_add(usize::try_from(info).ok()?)?;
        Some((Function { info, start }, u32_at(self.bytes, entry + 8)?))
    }

    /// The function at an address, and how far behind its beginning that is.
    fn find(&self, address: u64) -> Option<(Function, u32)> {
        let at = u32::try_from(address.checked_sub(self.text)?).ok()?;
        let (mut low, mut high) = (0, usize::try_from(self.count).ok()?);
        while low < high {
            let middle = low + (high - low) / 2;
            let (_, next) = self.entry(middle)?;
            if next <= at { low = middle + 1 } else { high = middle }
        }
        let (function, next) = self.entry(low)?;
        (low < usize::try_from(self.count).ok()? && (function.start..next).contains(&at))
            .then(|| (function, at - function.start))
    }

    fn name(&self, info: usize) -> Option<&'a str> {
        self.text(u32_at(self.bytes, info.checked_add(4)?)?)
    }

    /// A name of a function.
    fn text(&self, offset: u32) -> Option<&'a str> {
        string(self.bytes, self.names.checked_add(offset as usize)?)
    }

    fn line(&self, function: Function, at: u32) -> Option<u32> {
        let line = self.value(u32_at(self.bytes, function.info + 24)?, at)?;
        u32::try_from(line).ok().filter(|line| *line > 0)
    }

    fn file(&self, function: Function, at: u32) -> Option<&'a str> {
        let number = u32::try_from(self.value(u32_at(self.bytes, function.info + 20)?, at)?).ok()?;
        let unit = u32_at(self.bytes, function.info + 32)?;
        let entry = self.units.checked_add(4 * usize::try_from(unit.checked_add(number)?).ok()?)?;
        let offset = u32_at(self.bytes, entry).filter(|offset| *offset != u32::MAX)?;
        string(self.bytes, self.files.checked_add(offset as usize)?)
    }

    /// The value that a table has for the instruction so far behind a function's beginning: pairs of how much it
    /// changes, and after how many bytes of code. 0 stands where there is no table.
    fn value(&self, table: u32, at: u32) -> Option<i32> {
        let mut rest = self.bytes.get(self.values.checked_add(table as usize)?..).filter(|_| table != 0)?;
        let (mut value, mut end) = (-1_i32, 0_u32);
        for step in 0..MAX_STEPS {
            let change = number(&mut rest)?;
            if change == 0 && step > 0 {
                break;
            }
            value = value.wrapping_add((change >> 1) as i32 ^ -((change & 1) as i32));
            end = end.checked_add(number(&mut rest)?)?;
            if at < end {
                return Some(value);
            }
        }
        None
    }
}

/// The structure by which the runtime finds its tables, which begins with the address of theirs.
struct Module<'f, 'a> {
    file: &'f File<'a>,
    at: u64,
    /// What the loader puts there, in files that may lie anywhere.
    moved: Vec<(u64, u64)>,
}

impl<'f, 'a> Module<'f, 'a> {
    fn of(file: &'f File<'a>) -> Option<Module<'f, 'a>> {
        const SECTIONS: [&str; 5] = [".go.module", ".noptrdata", ".data", ".data.rel.ro", ".data.rel.ro.go.module"];
        let (table, _) = section(file)?;
        let relocations = file.dynamic_relocations().into_iter().flatten();
        let relative = relocations.filter(|(_, one)| one.target() == RelocationTarget::Absolute);
        let mut moved: Vec<(u64, u64)> = relative.map(|(at, one)| (at, one.addend() as u64)).collect();
        moved.sort_unstable();
        let in_section = |name: &&str| {
            let section = file.section_by_name(name)?;
            let words = section.data().ok()?.chunks_exact(8);
            let at = words.into_iter().position(|word| u64_at(word, 0) == Some(table))?;
            Some(section.address() + 8 * at as u64)
        };
        let by_loader = || moved.iter().find(|(_, to)| *to == table).map(|(at, _)| *at);
        let at = SECTIONS.iter().find_map(in_section).or_else(by_loader)?;
        Some(Module { file, at, moved })
    }

    fn word(&self, index: u64) -> Option<u64> {
        let at = self.at.checked_add(8 * index)?;
        match self.moved.binary_search_by_key(&at, |(at, _)| *at) {
            Ok(known) => Some(self.moved[known].1),
            Err(_) => u64_at(bytes_from(self.file, at)?, 0),
        }
        .filter(|word| *word != 0)
    }
}

/// The tables' address, and what they consist of.
fn section<'a>(file: &File<'a>) -> Option<(u64, &'a [u8])> {
    let section = [".gopclntab", ".data.rel.ro.gopclntab"].iter().find_map(|name| file.section_by_name(name))?;
    Some((section.address(), section.data().ok()?))
}

/// What is loaded from an address on, to the end of its segment.
fn bytes_from<'a>(file: &File<'a>, address: u64) -> Option<&'a [u8]> {
    file.segments().find_map(|segment| {
        let into = usize::try_from(address.checked_sub(segment.address())?).ok()?;
        segment.data().ok()?.get(into..).filter(|rest| !rest.is_empty())
    })
}

fn string(bytes: &[u8], at: usize) -> Option<&str> {
    let text = bytes.get(at..)?;
    let len = text.iter().take(4096).position(|byte| *byte == 0)?;
    std::str::from_utf8(&text[..len]).ok().filter(|name| !name.is_empty())
}

/// A number of seven bits a byte, the lowest first.
fn number(bytes: &mut &[u8]) -> Option<u32> {
    let mut sum = 0_u32;
    for place in 0..5 {
        let (first, rest) = bytes.split_first()?;
        *bytes = rest;
        sum |= u32::from(first & 0x7f) << (7 * place);
        if first & 0x80 == 0 {
            return Some(sum);
        }
    }
    None
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at.checked_add(4)?)?.try_into().ok()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at.checked_add(8)?)?.try_into().ok()?))
}
