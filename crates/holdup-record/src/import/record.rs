//! One record of the kernel: its kind, when, whom and where it is about, and what it says.

use super::file::{Attr, File};
use crate::bytes::{Bytes, Order};

/// A record as it lies in the file.
#[derive(Clone, Copy, Debug)]
pub struct Raw<'a> {
    /// `PERF_RECORD_*`.
    pub kind: u32,
    /// Flags of its kind.
    pub misc: u16,
    /// Without the header.
    pub body: &'a [u8],
}

/// Kinds of records: the kernel's, and those of perf itself.
pub mod kind {
    pub use crate::kernel::kind::*;

    /// The first kind that perf itself writes.
    pub const FIRST_OF_PERF: u32 = 64;
    pub const AUXTRACE: u32 = 71;
    pub const COMPRESSED: u32 = 81;
    pub const COMPRESSED2: u32 = 83;
}

/// Who and when: what every record of the kernel has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stamp {
    /// Process.
    pub pid: Option<u32>,
    /// Thread.
    pub tid: Option<u32>,
    /// When; `None` or 0 for records that perf made up at the beginning.
    pub time: Option<u64>,
    /// On which CPU.
    pub cpu: Option<u32>,
}

/// A sample.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sample<'a> {
    /// Who and when.
    pub stamp: Stamp,
    /// Instruction pointer.
    pub ip: Option<u64>,
    /// The stack, innermost first, with marks between its parts: 8 bytes each.
    pub chain: &'a [u8],
    /// The tracepoint's own record.
    pub raw: &'a [u8],
}

mod sample {
    pub const IP: u64 = 1;
    pub const TID: u64 = 1 << 1;
    pub const TIME: u64 = 1 << 2;
    pub const ADDR: u64 = 1 << 3;
    pub const READ: u64 = 1 << 4;
    pub const CALLCHAIN: u64 = 1 << 5;
    pub const ID: u64 = 1 << 6;
    pub const CPU: u64 = 1 << 7;
    pub const PERIOD: u64 = 1 << 8;
    pub const STREAM_ID: u64 = 1 << 9;
    pub const RAW: u64 = 1 << 10;
    pub const IDENTIFIER: u64 = 1 << 16;
}

/// The records one after the other; ends before the first that is not whole.
pub fn records<'a>(file: &File<'a>) -> impl Iterator<Item = (usize, Raw<'a>)> + use<'a> {
    let (bytes, order) = (file.records, file.order);
    let mut at = 0;
    std::iter::from_fn(move || {
        let start = at;
        let raw = at_offset(bytes, start, order)?;
        at += HEADER + raw.body.len();
        if raw.kind == kind::AUXTRACE {
            // Data that no record holds follows this one.
            let len = Bytes::new(raw.body, order).u64().and_then(|len| usize::try_from(len).ok())?;
            at = at.checked_add(len)?;
        }
        Some((start, raw))
    })
}

/// How many bytes at the end of the records are no whole record.
pub fn left_over(file: &File<'_>) -> usize {
    let end = records(file).last().map_or(0, |(at, raw)| at + HEADER + raw.body.len());
    file.records.len() - end.min(file.records.len())
}

const HEADER: usize = 8;

/// The record at this place.
pub fn at_offset(bytes: &[u8], at: usize, order: Order) -> Option<Raw<'_>> {
    let mut bytes = Bytes::new(bytes.get(at..)?, order);
    let (kind, misc, size) = (bytes.u32()?, bytes.u16()?, bytes.u16()?);
    let body = bytes.take(usize::from(size).checked_sub(HEADER)?)?;
    Some(Raw { kind, misc, body })
}

/// Which event a record belongs to, and who and when.
pub fn attr_of<'f>(file: &'f File<'_>, raw: &Raw<'_>) -> &'f Attr {
    let first = &file.attrs[0];
    if file.attrs.len() == 1 {
        return first;
    }
    let id = if raw.kind == kind::SAMPLE {
        sample_id_offset(first.sample_type).and_then(|at| raw.body.get(at..))
    } else if first.sample_type & sample::IDENTIFIER != 0 && first.has_sample_id() {
        raw.body.len().checked_sub(8).map(|at| &raw.body[at..])
    } else {
        None
    };
    let id = id.and_then(|bytes| Bytes::new(bytes, file.order).u64());
    id.and_then(|id| file.ids.get(&id)).map_or(first, |at| &file.attrs[*at])
}

fn sample_id_offset(sample_type: u64) -> Option<usize> {
    if sample_type & sample::IDENTIFIER != 0 {
        return Some(0);
    }
    let before = sample::IP | sample::TID | sample::TIME | sample::ADDR;
    (sample_type & sample::ID != 0).then(|| 8 * (sample_type & before).count_ones() as usize)
}

/// Who and when of any record of the kernel.
pub fn stamp(file: &File<'_>, attr: &Attr, raw: &Raw<'_>) -> Stamp {
    if raw.kind == kind::SAMPLE {
        return sample_of(attr, raw.body, file.order).map(|sample| sample.stamp).unwrap_or_default();
    }
    if !attr.has_sample_id() {
        return Stamp::default();
    }
    trailer(attr, raw.body, file.order).unwrap_or_default()
}

/// The end of a record that is no sample.
fn trailer(attr: &Attr, body: &[u8], order: Order) -> Option<Stamp> {
    let has = |bit| attr.sample_type & bit != 0;
    let fields = [sample::TID, sample::TIME, sample::ID, sample::STREAM_ID, sample::CPU, sample::IDENTIFIER];
    let len = 8 * fields.iter().filter(|field| has(**field)).count();
    let mut bytes = Bytes::new(&body[body.len().checked_sub(len)?..], order);
    let mut stamp = Stamp::default();
    if has(sample::TID) {
        (stamp.pid, stamp.tid) = (Some(bytes.u32()?), Some(bytes.u32()?));
    }
    if has(sample::TIME) {
        stamp.time = Some(bytes.u64()?);
    }
    for field in [sample::ID, sample::STREAM_ID] {
        if has(field) {
            bytes.u64()?;
        }
    }
    if has(sample::CPU) {
        stamp.cpu = Some(bytes.u32()?);
    }
    Some(stamp)
}

/// A sample's parts, in the kernel's order; what lies behind the raw record is of no use here.
pub fn sample_of<'a>(attr: &Attr, body: &'a [u8], order: Order) -> Option<Sample<'a>> {
    let has = |bit| attr.sample_type & bit != 0;
    let mut bytes = Bytes::new(body, order);
    let mut found = Sample::default();
    if has(sample::IDENTIFIER) {
        bytes.u64()?;
    }
    if has(sample::IP) {
        found.ip = Some(bytes.u64()?);
    }
    if has(sample::TID) {
        (found.stamp.pid, found.stamp.tid) = (Some(bytes.u32()?), Some(bytes.u32()?));
    }
    if has(sample::TIME) {
        found.stamp.time = Some(bytes.u64()?);
    }
    for field in [sample::ADDR, sample::ID, sample::STREAM_ID] {
        if has(field) {
            bytes.u64()?;
        }
    }
    if has(sample::CPU) {
        found.stamp.cpu = Some(bytes.u32()?);
        bytes.u32()?;
    }
    if has(sample::PERIOD) {
        bytes.u64()?;
    }
    if has(sample::READ) {
        skip_read(&mut bytes, attr.read_format)?;
    }
    if has(sample::CALLCHAIN) {
        let count = bytes.u64()?;
        found.chain = bytes.take_long(count.checked_mul(8)?)?;
    }
    if has(sample::RAW) {
        let len = bytes.u32()?;
        found.raw = bytes.take(len as usize)?;
    }
    Some(found)
}

fn skip_read(bytes: &mut Bytes<'_>, format: u64) -> Option<()> {
    const TIMES: u64 = 0b11;
    const ID: u64 = 1 << 2;
    const GROUP: u64 = 1 << 3;
    const LOST: u64 = 1 << 4;
    let times = u64::from((format & TIMES).count_ones());
    let each = 1 + u64::from((format & (ID | LOST)).count_ones());
    let words = if format & GROUP == 0 { each } else { bytes.u64()?.checked_mul(each)? };
    bytes.take_long(words.checked_add(times)?.checked_mul(8)?).map(drop)
}
