//! Functions of stripped Go binaries: the runtime keeps a table of its own (`.gopclntab`), for it must print stack
//! traces.

use object::read::{File, Object, ObjectSection};

/// Magic numbers since Go 1.18 and 1.20; the layout is the same.
const MAGICS: [u32; 2] = [0xffff_fff0, 0xffff_fff1];

/// Most functions that are believed.
const MAX_FUNCTIONS: u64 = 4_000_000;

/// (address, size, name) of every function; empty if this is no Go binary, or one of another age.
pub(super) fn functions<'a>(file: &File<'a>) -> Vec<(u64, u64, &'a str)> {
    let names = [".gopclntab", ".data.rel.ro.gopclntab"];
    let section = names.iter().find_map(|name| file.section_by_name(name));
    let text = file.section_by_name(".text").map(|section| section.address());
    let table = section.and_then(|section| section.data().ok());
    table.and_then(|table| Table::read(table, text)).map(|table| table.functions()).unwrap_or_default()
}

/// The table, little-endian with 8-byte pointers as on the machines that are recorded.
struct Table<'a> {
    bytes: &'a [u8],
    count: u64,
    text: u64,
    names: usize,
    functions: usize,
}

impl<'a> Table<'a> {
    fn read(bytes: &'a [u8], text: Option<u64>) -> Option<Table<'a>> {
        let pointer_bytes = *bytes.get(7)?;
        if !MAGICS.contains(&u32_at(bytes, 0)?) || pointer_bytes != 8 {
            return None;
        }
        let field = |index: usize| u64_at(bytes, 8 + 8 * index);
        let count = field(0).filter(|count| *count <= MAX_FUNCTIONS)?;
        // The linker of Go 1.24 and later leaves the start of the text out, for it would need a relocation.
        let stated = field(2)?;
        let text = if stated == 0 { text? } else { stated };
        let names = usize::try_from(field(3)?).ok()?;
        let functions = usize::try_from(field(7)?).ok()?;
        Some(Table { bytes, count, text, names, functions })
    }

    fn functions(&self) -> Vec<(u64, u64, &'a str)> {
        (0..self.count).map_while(|index| self.function(usize::try_from(index).ok()?)).flatten().collect()
    }

    /// `None` at the table's end, `Some(None)` for an entry that makes no sense.
    fn function(&self, index: usize) -> Option<Option<(u64, u64, &'a str)>> {
        let entry = self.functions.checked_add(index.checked_mul(8)?)?;
        let (start, info) = (u32_at(self.bytes, entry)?, u32_at(self.bytes, entry + 4)?);
        let next = u32_at(self.bytes, entry + 8)?;
        let name = self.name(info);
        Some(name.map(|name| (self.text.wrapping_add(start.into()), next.saturating_sub(start).into(), name)))
    }

    fn name(&self, info: u32) -> Option<&'a str> {
        let info = self.functions.checked_add(usize::try_from(info).ok()?)?;
        let offset = usize::try_from(u32_at(self.bytes, info.checked_add(4)?)?).ok()?;
        let text = self.bytes.get(self.names.checked_add(offset)?..)?;
        let len = text.iter().take(4096).position(|byte| *byte == 0)?;
        std::str::from_utf8(&text[..len]).ok().filter(|name| !name.is_empty())
    }
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at.checked_add(4)?)?.try_into().ok()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at.checked_add(8)?)?.try_into().ok()?))
}
