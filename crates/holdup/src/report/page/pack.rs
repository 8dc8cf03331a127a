//! Bytes for a page: numbers of variable length, compressed, as text.

use std::io::{self, Write};

use flate2::Compression;
use flate2::write::DeflateEncoder;

/// Numbers as LEB128: seven bits a byte, the lowest first.
#[derive(Clone, Debug, Default)]
pub(super) struct Column(Vec<u8>);

impl Column {
    pub(super) fn put(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push((value as u8) | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    /// How many bytes the largest has, then the lowest byte of all numbers, then the next of all: where numbers are
    /// alike in size their higher bytes are alike, and cost nearly nothing when compressed.
    pub(super) fn planes(&mut self, values: &[u64]) {
        let largest = values.iter().copied().max().unwrap_or(0);
        let bytes = (64 - largest.leading_zeros()).div_ceil(8).max(1);
        self.put(u64::from(bytes));
        for plane in 0..bytes {
            self.0.extend(values.iter().map(|value| (value >> (8 * plane)) as u8));
        }
    }

    pub(super) fn finish(self) -> Vec<u8> {
        self.0
    }
}

/// Raw deflate, which browsers undo themselves.
///
/// # Errors
/// Never in practice: memory takes all that is written.
pub(super) fn deflate(bytes: &[u8]) -> io::Result<Vec<u8>> {
    let mut encoder = DeflateEncoder::new(Vec::with_capacity(bytes.len() / 2), Compression::new(6));
    encoder.write_all(bytes)?;
    encoder.finish()
}

/// Base64 with padding (RFC 4648, section 4), written in pieces.
///
/// # Errors
/// `out` fails.
pub(super) fn base64(bytes: &[u8], out: &mut dyn Write) -> io::Result<()> {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = Vec::with_capacity(64 * 1024 + 4);
    for three in bytes.chunks(3) {
        let padded = [three[0], three.get(1).copied().unwrap_or(0), three.get(2).copied().unwrap_or(0)];
        let bits = u32::from_be_bytes([0, padded[0], padded[1], padded[2]]);
        let digit = |shift: u32| DIGITS[(bits >> shift) as usize & 63];
        text.extend_from_slice(&[
            digit(18),
            digit(12),
            if three.len() > 1 { digit(6) } else { b'=' },
            if three.len() > 2 { digit(0) } else { b'=' },
        ]);
        if text.len() >= 64 * 1024 {
            out.write_all(&text)?;
            text.clear();
        }
    }
    out.write_all(&text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_of_the_standards_examples() {
        for (plain, coded) in [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foobar", "Zm9vYmFy")] {
            let mut out = Vec::new();
            base64(plain.as_bytes(), &mut out).unwrap();
            assert_eq!(out, coded.as_bytes());
        }
    }

    #[test]
    fn planes_hold_the_lowest_bytes_first() {
        let mut column = Column::default();
        column.planes(&[1, 0x0203, 0x04]);
        column.planes(&[0]);
        assert_eq!(column.finish(), [2, 1, 3, 4, 0, 2, 0, 1, 0]);
    }

    #[test]
    fn numbers_take_the_bytes_they_need() {
        let mut column = Column::default();
        [0, 127, 128, 300, u64::MAX].into_iter().for_each(|value| column.put(value));
        let bytes = column.finish();
        assert_eq!(bytes[..5], [0, 127, 0x80, 1, 0xac]);
        assert_eq!(bytes.len(), 1 + 1 + 2 + 2 + 10);
    }
}
