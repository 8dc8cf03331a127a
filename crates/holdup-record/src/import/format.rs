//! The formats of tracepoints, as the file itself brings them: where each field lies in a raw record differs from
//! kernel to kernel.

use rustc_hash::FxHashMap;

use crate::bytes::{Bytes, Order, number};

/// The format of one tracepoint.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Format {
    /// The group: `sched`, `syscalls`.
    pub group: String,
    /// The name without its group.
    pub name: String,
    fields: Vec<(String, Field)>,
}

/// Where a field lies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Field {
    offset: usize,
    size: usize,
}

impl Field {
    /// Its bytes.
    pub fn bytes<'a>(&self, raw: &'a [u8]) -> Option<&'a [u8]> {
        raw.get(self.offset..self.offset.checked_add(self.size)?)
    }

    /// Its number, without a sign.
    pub fn number(&self, raw: &[u8], order: Order) -> Option<u64> {
        number(self.bytes(raw)?, order)
    }

    /// Its text, up to the first zero byte.
    pub fn text(&self, raw: &[u8]) -> Option<Box<str>> {
        let bytes = self.bytes(raw)?;
        let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
        Some(crate::bytes::lossy(&bytes[..end]))
    }

    /// One of the numbers that it consists of.
    pub fn element(&self, raw: &[u8], at: usize, size: usize, order: Order) -> Option<u64> {
        let bytes = self.bytes(raw)?;
        number(bytes.get(at * size..(at + 1) * size)?, order)
    }
}

impl Format {
    /// A field by its name.
    pub fn field(&self, name: &str) -> Option<Field> {
        self.fields.iter().find(|(known, _)| known == name).map(|(_, field)| *field)
    }
}

/// All formats by their numbers, from the section that perf calls tracing data; empty if it cannot be read.
pub fn formats(section: Bytes) -> FxHashMap<u64, Format> {
    let mut formats = FxHashMap::default();
    // What was read before damage is right: each format stands for itself.
    let _ = read(section, &mut formats);
    formats
}

fn read(mut section: Bytes, formats: &mut FxHashMap<u64, Format>) -> Option<()> {
    if section.take(10)? != b"\x17\x08\x44tracing" {
        return None;
    }
    section.text();
    let order = if section.take(1)? == [1] { Order::Big } else { Order::Little };
    let mut section = Bytes::new(section.rest(), order);
    section.take(1 + 4)?;
    for _ in ["header_page", "header_event"] {
        section.text();
        let len = section.u64()?;
        section.take_long(len)?;
    }
    let ftrace = section.u32()?;
    texts(&mut section, ftrace, "ftrace", formats)?;
    let groups = section.u32()?;
    for _ in 0..groups {
        let group = String::from_utf8_lossy(section.text()).into_owned();
        let count = section.u32()?;
        texts(&mut section, count, &group, formats)?;
    }
    Some(())
}

fn texts(section: &mut Bytes, count: u32, group: &str, formats: &mut FxHashMap<u64, Format>) -> Option<()> {
    for _ in 0..count {
        let len = section.u64()?;
        let text = String::from_utf8_lossy(section.take_long(len)?);
        if let Some((id, format)) = parse(&text, group) {
            formats.insert(id, format);
        }
    }
    Some(())
}

/// A format as in tracefs: `name:`, `ID:`, and lines like `field:pid_t next_pid; offset:56; size:4; signed:1;`.
fn parse(text: &str, group: &str) -> Option<(u64, Format)> {
    let line = |key: &str| text.lines().find_map(|line| line.strip_prefix(key)).map(str::trim);
    let id = line("ID:")?.parse().ok()?;
    let fields = text.lines().filter_map(field).collect();
    Some((id, Format { group: group.into(), name: line("name:")?.into(), fields }))
}

fn field(line: &str) -> Option<(String, Field)> {
    let mut parts = line.trim().strip_prefix("field:")?.split(';').map(str::trim);
    let declaration = parts.next()?;
    let mut value = |key: &str| parts.next()?.strip_prefix(key)?.parse().ok();
    let (offset, size) = (value("offset:")?, value("size:")?);
    let name = declaration.split('[').next()?.rsplit([' ', '*']).next()?;
    Some((name.to_owned(), Field { offset, size }))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SWITCH: &str = "name: sched_switch\nID: 372\nformat:\n\
        \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\n\
        \tfield:char prev_comm[16];\toffset:8;\tsize:16;\tsigned:0;\n\
        \tfield:pid_t next_pid;\toffset:56;\tsize:4;\tsigned:1;\n\
        \tfield:const char *where;\toffset:60;\tsize:8;\tsigned:1;\n\nprint fmt: \"x\"\n";

    #[test]
    fn a_format_is_read_as_tracefs_has_it() {
        let (id, format) = parse(SWITCH, "sched").unwrap();
        assert_eq!((id, &*format.name, &*format.group), (372, "sched_switch", "sched"));
        assert_eq!(format.field("prev_comm"), Some(Field { offset: 8, size: 16 }));
        assert_eq!(format.field("where"), Some(Field { offset: 60, size: 8 }));
        assert_eq!(format.field("nonsense"), None);
        let mut raw = [0; 60];
        raw[8..12].copy_from_slice(b"ping");
        raw[56] = 7;
        assert_eq!(format.field("prev_comm").unwrap().text(&raw).as_deref(), Some("ping"));
        assert_eq!(format.field("next_pid").unwrap().number(&raw, Order::Little), Some(7));
        assert_eq!(format.field("next_pid").unwrap().number(&raw[..59], Order::Little), None);
        assert_eq!(Field { offset: usize::MAX, size: 8 }.bytes(&raw), None);
    }
}
