//! Reads numbers and texts from bytes of either byte order; what is not there is `None`.

/// The order of the bytes in numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// The lowest byte first.
    #[default]
    Little,
    /// The highest byte first.
    Big,
}

/// Bytes that are read from front to back.
#[derive(Clone, Copy, Debug)]
pub struct Bytes<'a> {
    rest: &'a [u8],
    order: Order,
}

impl Order {
    /// That of this machine.
    #[allow(dead_code, reason = "a file says its own order; only rings have the machine's")]
    pub const OWN: Order = if cfg!(target_endian = "little") { Order::Little } else { Order::Big };
}

impl<'a> Bytes<'a> {
    /// All of `bytes` are still to be read.
    pub fn new(bytes: &'a [u8], order: Order) -> Self {
        Bytes { rest: bytes, order }
    }

    /// What is still to be read.
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// The next `len` bytes.
    pub fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(len)?;
        self.rest = rest;
        Some(taken)
    }

    /// As many bytes as a 64-bit length says.
    pub fn take_long(&mut self, len: u64) -> Option<&'a [u8]> {
        self.take(usize::try_from(len).ok()?)
    }

    /// The next 1, 2, 4 or 8 bytes as a number.
    pub fn number(&mut self, len: usize) -> Option<u64> {
        number(self.take(len)?, self.order)
    }

    /// The next two bytes.
    pub fn u16(&mut self) -> Option<u16> {
        self.number(2).map(|n| n as u16)
    }

    /// The next four bytes.
    pub fn u32(&mut self) -> Option<u32> {
        self.number(4).map(|n| n as u32)
    }

    /// The next eight bytes.
    pub fn u64(&mut self) -> Option<u64> {
        self.number(8)
    }

    /// Text up to a zero byte, which is read too; all of it if there is none.
    pub fn text(&mut self) -> &'a [u8] {
        let end = self.rest.iter().position(|byte| *byte == 0).unwrap_or(self.rest.len());
        let text = &self.rest[..end];
        self.rest = self.rest.get(end + 1..).unwrap_or_default();
        text
    }
}

/// A number of up to eight bytes.
pub fn number(bytes: &[u8], order: Order) -> Option<u64> {
    let add = |sum: u64, byte: &u8| sum << 8 | u64::from(*byte);
    (bytes.len() <= 8).then(|| match order {
        Order::Little => bytes.iter().rev().fold(0, add),
        Order::Big => bytes.iter().fold(0, add),
    })
}

/// Bytes as text; what is not UTF-8 is replaced.
pub fn lossy(bytes: &[u8]) -> Box<str> {
    String::from_utf8_lossy(bytes).into()
}
