//! What is kept of a child's output.

/// The end of an output stream, and a hash of all of it.
#[derive(Debug)]
pub struct Kept {
    bytes: Vec<u8>,
    hash: u64,
}

impl Kept {
    /// More than any sample needs; a worker that writes without end must not fill the memory.
    const MOST: usize = 1 << 20;

    pub fn new() -> Kept {
        Kept { bytes: Vec::new(), hash: 0xcbf2_9ce4_8422_2325 }
    }

    pub fn append(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        self.hash = fnv1a(self.hash, bytes);
        let surplus = self.bytes.len().saturating_sub(Kept::MOST);
        self.bytes.drain(..surplus);
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes).into_owned()
    }

    /// Of all bytes, those that are not kept too.
    pub fn hash(&self) -> u64 {
        self.hash
    }
}

/// Fowler, Noll and Vo's hash of bytes, continued: equal outputs are told from different ones, against no enemy.
fn fnv1a(hash: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(hash, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3))
}
