//! Another process's memory, page by page: structures that lie side by side are one call of the system.

use rustc_hash::FxHashMap;

use super::words;

/// The memory of a process as it was when each page of it was first asked for.
#[derive(Debug)]
pub struct Memory {
    pid: u32,
    pages: FxHashMap<u64, Box<[u8]>>,
}

const PAGE: u64 = 4096;
/// Pages that are kept at once.
const MOST: usize = 256;

impl Memory {
    /// Nothing was read yet.
    pub fn of(pid: u32) -> Memory {
        Memory { pid, pages: FxHashMap::default() }
    }

    /// From now on it is read anew.
    pub fn refresh(&mut self) {
        self.pages.clear();
    }

    /// So many bytes; `None` where nothing can be read.
    pub fn bytes(&mut self, addr: u64, len: usize) -> Option<Vec<u8>> {
        let end = addr.checked_add(len as u64)?;
        let mut found = Vec::with_capacity(len);
        while (found.len() as u64) < end - addr {
            let at = addr + found.len() as u64;
            let (page, within) = (at / PAGE, (at % PAGE) as usize);
            if self.pages.len() >= MOST {
                self.pages.clear();
            }
            let bytes = match self.pages.entry(page) {
                std::collections::hash_map::Entry::Occupied(known) => known.into_mut(),
                std::collections::hash_map::Entry::Vacant(free) => free.insert(read_page(self.pid, page)?),
            };
            let last = bytes.len().min(within + (end - at) as usize);
            found.extend_from_slice(&bytes[within..last]);
        }
        Some(found)
    }

    /// A number of eight bytes, such as an address.
    pub fn word(&mut self, addr: u64) -> Option<u64> {
        u64_at(&self.bytes(addr, 8)?, 0)
    }

    /// A number of four bytes.
    pub fn number(&mut self, addr: u64) -> Option<u32> {
        u32_at(&self.bytes(addr, 4)?, 0)
    }

    /// An address; `None` for what leads nowhere.
    pub fn pointer(&mut self, addr: u64) -> Option<u64> {
        pointer_at(&self.bytes(addr, 8)?, 0)
    }
}

/// The address there; `None` for what leads nowhere. To one that does, small numbers can be added.
pub fn pointer_at(bytes: &[u8], at: usize) -> Option<u64> {
    u64_at(bytes, at).filter(|pointer| (1..1 << 56).contains(pointer))
}

/// The number of eight bytes there.
pub fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

/// The number of four bytes there.
pub fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn read_page(pid: u32, page: u64) -> Option<Box<[u8]>> {
    let mut bytes = vec![0_u8; PAGE as usize].into_boxed_slice();
    (words::read_bytes(pid, page * PAGE, &mut bytes) == bytes.len()).then_some(bytes)
}
