//! Numbers as bytes: little-endian base-128 with the top bit for "goes on", signed ones zigzag.

/// The bytes are not what the format says; the text ends a sentence that begins with "the recording ...".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Corrupt(pub &'static str);

pub(super) const TOO_SHORT: Corrupt = Corrupt("ends in the middle of an event");

/// What is left to read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cursor<'a> {
    bytes: &'a [u8],
}

impl<'a> Cursor<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Cursor { bytes }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// How many bytes are left: no list that is read from here can be longer.
    pub(super) fn left(&self) -> usize {
        self.bytes.len()
    }

    #[inline]
    pub(super) fn u8(&mut self) -> Result<u8, Corrupt> {
        let (&first, rest) = self.bytes.split_first().ok_or(TOO_SHORT)?;
        self.bytes = rest;
        Ok(first)
    }

    pub(super) fn take(&mut self, len: usize) -> Result<&'a [u8], Corrupt> {
        let (taken, rest) = self.bytes.split_at_checked(len).ok_or(TOO_SHORT)?;
        self.bytes = rest;
        Ok(taken)
    }

    #[inline]
    pub(super) fn varint(&mut self) -> Result<u64, Corrupt> {
        let first = self.u8()?;
        if first < 0x80 { Ok(u64::from(first)) } else { self.varint_from(first) }
    }

    fn varint_from(&mut self, first: u8) -> Result<u64, Corrupt> {
        let mut value = u64::from(first & 0x7f);
        for shift in (7..64).step_by(7) {
            let byte = self.u8()?;
            let part = u64::from(byte & 0x7f);
            if shift == 63 && part > 1 {
                break;
            }
            value |= part << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(Corrupt("has a number of more than 64 bits"))
    }

    #[inline]
    pub(super) fn zigzag(&mut self) -> Result<i64, Corrupt> {
        let value = self.varint()?;
        Ok((value >> 1) as i64 ^ -((value & 1) as i64))
    }

    #[inline]
    pub(super) fn u32(&mut self) -> Result<u32, Corrupt> {
        narrow(self.varint()?)
    }

    #[inline]
    pub(super) fn u16(&mut self) -> Result<u16, Corrupt> {
        narrow(self.varint()?)
    }

    #[inline]
    pub(super) fn i32(&mut self) -> Result<i32, Corrupt> {
        i32::try_from(self.zigzag()?).map_err(|_| TOO_LARGE)
    }

    /// The length of something that takes at least a byte each, so that it cannot be longer than what is left.
    pub(super) fn len(&mut self) -> Result<usize, Corrupt> {
        let len = usize::try_from(self.varint()?).map_err(|_| TOO_SHORT)?;
        if len <= self.left() { Ok(len) } else { Err(TOO_SHORT) }
    }
}

const TOO_LARGE: Corrupt = Corrupt("has a number that is too large for its place");

#[inline]
fn narrow<T: TryFrom<u64>>(value: u64) -> Result<T, Corrupt> {
    T::try_from(value).map_err(|_| TOO_LARGE)
}

#[inline]
pub(super) fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

#[inline]
pub(super) fn put_zigzag(out: &mut Vec<u8>, value: i64) {
    put_varint(out, ((value << 1) ^ (value >> 63)) as u64);
}

pub(super) fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back() {
        for value in [0, 1, 0x7f, 0x80, 0x3fff, 0x4000, u64::from(u32::MAX), u64::MAX - 1, u64::MAX] {
            let mut bytes = Vec::new();
            put_varint(&mut bytes, value);
            put_zigzag(&mut bytes, value as i64);
            let mut cursor = Cursor::new(&bytes);
            assert_eq!(cursor.varint(), Ok(value));
            assert_eq!(cursor.zigzag(), Ok(value as i64));
            assert!(cursor.is_empty());
        }
    }

    #[test]
    fn numbers_that_do_not_fit_are_refused() {
        assert!(Cursor::new(&[0xff; 10]).varint().is_err());
        assert!(Cursor::new(&[0x80; 9]).varint().is_err());
        assert!(Cursor::new(&[0xff, 0xff, 0xff, 0xff, 0x7f]).u32().is_err());
        assert!(Cursor::new(&[5, 1, 2, 3]).len().is_err(), "a length beyond the end");
    }
}
