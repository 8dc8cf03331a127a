//! The container: header, events and their attributes, records, and the sections behind them (tools/perf/Documentation/
//! perf.data-file-format.txt of the Linux sources).

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use super::ImportError;
use crate::bytes::{Bytes, Order, lossy, number};

/// A perf.data file, taken apart but not yet understood.
#[derive(Debug)]
pub struct File<'a> {
    /// Of all numbers.
    pub order: Order,
    /// The events that were recorded.
    pub attrs: Vec<Attr>,
    /// Which of `attrs` the kernel's numbers of events mean.
    pub ids: FxHashMap<u64, usize>,
    /// All records.
    pub records: &'a [u8],
    /// Whether the file ends before its records should.
    pub cut: bool,
    features: BTreeMap<u32, &'a [u8]>,
}

/// What is of use of `struct perf_event_attr`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Attr {
    /// `PERF_TYPE_*`.
    pub kind: u32,
    /// For tracepoints, their number.
    pub config: u64,
    /// Period, or frequency if `flags` say so.
    pub period: u64,
    /// `PERF_SAMPLE_*`: what samples consist of.
    pub sample_type: u64,
    /// `PERF_FORMAT_*`.
    pub read_format: u64,
    /// The bits of the structure.
    pub flags: u64,
    /// The clock, if `flags` say so.
    pub clock: u32,
}

impl Attr {
    /// `PERF_TYPE_TRACEPOINT`.
    pub const TRACEPOINT: u32 = 2;
    const FREQUENCY: u64 = 1 << 10;
    const SAMPLE_ID_ALL: u64 = 1 << 18;
    const USE_CLOCK: u64 = 1 << 25;
    /// CPU clock and task clock of `PERF_TYPE_SOFTWARE`.
    const CLOCKS: [u64; 2] = [0, 1];

    /// Whether other records than samples end with time, thread and CPU too.
    pub fn has_sample_id(&self) -> bool {
        self.flags & Self::SAMPLE_ID_ALL != 0
    }

    /// The clock that was asked for.
    pub fn clock(&self) -> Option<u32> {
        (self.flags & Self::USE_CLOCK != 0).then_some(self.clock)
    }

    /// Whether its samples say where CPU time goes: clocks, cycles, and events of a processor's own.
    pub fn is_sampling(&self) -> bool {
        match self.kind {
            1 => Self::CLOCKS.contains(&self.config),
            kind => kind != Self::TRACEPOINT,
        }
    }

    /// Whether not each of its events gives a sample.
    pub fn misses_some(&self) -> bool {
        self.flags & Self::FREQUENCY != 0 || self.period > 1
    }

    /// Time between two samples, where it is known.
    pub fn sample_period_ns(&self) -> Option<u64> {
        if self.flags & Self::FREQUENCY != 0 {
            return 1_000_000_000_u64.checked_div(self.period);
        }
        (self.kind == 1 && self.is_sampling()).then_some(self.period)
    }
}

/// A section behind the records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Feature {
    /// Formats of tracepoints.
    TracingData = 1,
    /// Build ids of files.
    BuildId = 2,
    /// Name of the host.
    Host = 3,
    /// Kernel release.
    OsRelease = 4,
    /// Version of perf.
    Version = 5,
    /// Architecture.
    Arch = 6,
    /// Numbers of CPUs.
    NrCpus = 7,
    /// Name of the processor.
    CpuDesc = 8,
    /// What the clock showed at a time of day.
    ClockData = 29,
}

const MAGIC: &[u8; 8] = b"PERFILE2";
const MAGIC_SWAPPED: &[u8; 8] = b"2ELIFREP";
/// Size of the header of a pipe, which is nothing but this.
const PIPE_HEADER: u64 = 16;
const FEATURES: u32 = 256;

impl<'a> File<'a> {
    /// Takes the container apart.
    ///
    /// # Errors
    /// It is no perf.data file, or one that cannot be read.
    pub fn open(bytes: &'a [u8]) -> Result<Self, ImportError> {
        let order = match bytes.get(..8) {
            Some(magic) if magic == MAGIC => Order::Little,
            Some(magic) if magic == MAGIC_SWAPPED => Order::Big,
            _ => return Err(ImportError::Foreign { looks_like: looks_like(bytes) }),
        };
        let mut header = Bytes::new(&bytes[8..], order);
        if header.u64() == Some(PIPE_HEADER) {
            return Err(ImportError::Pipe);
        }
        Self::sections(bytes, header, order).ok_or(ImportError::Damaged)
    }

    /// After magic and size. `None` if what is needed to understand records lies outside the file.
    fn sections(bytes: &'a [u8], mut header: Bytes<'a>, order: Order) -> Option<Self> {
        let attr_size = header.u64()?;
        let section = |header: &mut Bytes| Some((header.u64()?, header.u64()?));
        let (attrs, data, _types) = (section(&mut header)?, section(&mut header)?, section(&mut header)?);
        let flags: Vec<u64> = (0..4).map_while(|_| header.u64()).collect();
        let attrs = attributes(bytes, attrs, attr_size, order)?;
        let ids = attrs.iter().enumerate().flat_map(|(at, (_, ids))| ids.iter().map(move |id| (*id, at))).collect();
        let records_at = usize::try_from(data.0).ok().filter(|at| *at <= bytes.len())?;
        // perf writes the length of the records last: 0 means that it was killed.
        let end = data.0.checked_add(data.1).and_then(|end| usize::try_from(end).ok());
        let whole = end.filter(|end| data.1 > 0 && *end <= bytes.len());
        let records = &bytes[records_at..whole.unwrap_or(bytes.len())];
        let set = |bit: &u32| flags.get(*bit as usize / 64).is_some_and(|word| word >> (bit % 64) & 1 == 1);
        let features = match whole {
            Some(end) => features(bytes, end, (0..FEATURES).filter(set), order),
            None => BTreeMap::new(),
        };
        let attrs = attrs.into_iter().map(|(attr, _)| attr).collect();
        Some(File { order, attrs, ids, records, cut: whole.is_none(), features })
    }

    /// A section behind the records.
    pub fn feature(&self, feature: Feature) -> Option<Bytes<'a>> {
        self.features.get(&(feature as u32)).map(|section| Bytes::new(section, self.order))
    }

    /// A section that is a text.
    pub fn text(&self, feature: Feature) -> Option<Box<str>> {
        let mut section = self.feature(feature)?;
        section.u32()?;
        Some(lossy(section.text()))
    }
}

/// Part of `bytes`, if it is inside.
fn part(bytes: &[u8], (at, len): (u64, u64)) -> Option<&[u8]> {
    bytes.get(usize::try_from(at).ok()?..usize::try_from(at.checked_add(len)?).ok()?)
}

/// Every event and its numbers; the last 16 bytes of each tell where the numbers are.
fn attributes(bytes: &[u8], section: (u64, u64), size: u64, order: Order) -> Option<Vec<(Attr, Vec<u64>)>> {
    const SMALLEST: u64 = 64;
    const SECTION: u64 = 16;
    if size < SMALLEST + SECTION {
        return None;
    }
    let attrs: Option<Vec<_>> = part(bytes, section)?
        .chunks_exact(usize::try_from(size).ok()?)
        .map(|entry| {
            let (attr, ids) = entry.split_at_checked(entry.len() - SECTION as usize)?;
            let ids = Bytes::new(ids, order).pair().and_then(|ids| part(bytes, ids)).unwrap_or_default();
            let ids = ids.chunks_exact(8).filter_map(|id| number(id, order)).collect();
            Some((attribute(attr, order)?, ids))
        })
        .collect();
    attrs.filter(|attrs| !attrs.is_empty())
}

impl Bytes<'_> {
    fn pair(mut self) -> Option<(u64, u64)> {
        Some((self.u64()?, self.u64()?))
    }
}

fn attribute(bytes: &[u8], order: Order) -> Option<Attr> {
    let at = |offset: usize, len: usize| number(bytes.get(offset..offset + len)?, order);
    Some(Attr {
        kind: at(0, 4)? as u32,
        config: at(8, 8)?,
        period: at(16, 8)?,
        sample_type: at(24, 8)?,
        read_format: at(32, 8)?,
        flags: at(40, 8)?,
        // Later versions of the structure have it; the first one did not.
        clock: at(92, 4).unwrap_or(0) as u32,
    })
}

/// The sections behind the records: a table of places, one for each bit that is set. Those outside the file are left
/// out.
fn features(bytes: &[u8], table: usize, set: impl Iterator<Item = u32>, order: Order) -> BTreeMap<u32, &[u8]> {
    let mut table = Bytes::new(bytes.get(table..).unwrap_or_default(), order);
    set.filter_map(|bit| {
        let place = (table.u64()?, table.u64()?);
        Some((bit, part(bytes, place)?))
    })
    .collect()
}

/// What bytes are that are no perf.data.
fn looks_like(bytes: &[u8]) -> Option<&'static str> {
    let known: [(&[u8], &str); 11] = [
        (b"HOLDUP", "a holdup recording; `holdup report` reads it as it is"),
        (b"PERFFILE", "a perf.data file of the oldest kind, from before Linux 2.6.36"),
        (b"\x1f\x8b", "compressed by gzip; unpack it first"),
        (b"\x28\xb5\x2f\xfd", "compressed by zstd; unpack it first"),
        (b"\xfd7zXZ", "compressed by xz; unpack it first"),
        (b"BZh", "compressed by bzip2; unpack it first"),
        (b"PK\x03\x04", "a ZIP archive; unpack it first"),
        (b"\x7fELF", "a program or library"),
        (b"\x17\x08\x44tracing", "a trace.dat file of trace-cmd"),
        (b"SQLite format", "a database"),
        (b"{", "a JSON text"),
    ];
    if bytes.is_empty() {
        return Some("empty");
    }
    if let Some((_, what)) = known.iter().find(|(magic, _)| bytes.starts_with(magic)) {
        return Some(what);
    }
    let text = bytes.iter().take(512).all(|byte| matches!(byte, 9 | 10 | 13 | 32..=126));
    text.then_some("a text, perhaps the output of `perf script`; the file that it was made from is needed")
}
