//! Numbers as HotSpot packs them: the lines of a method, and what was inlined where.

use std::sync::Arc;

/// The numbers in a stretch of bytes, each as long as it needs (HotSpot's UNSIGNED5): bytes below 192 end a number, of
/// the others six bits go on.
pub struct Packed<'a> {
    pub bytes: &'a [u8],
    /// The least byte that a number has, and what it then stands for: 0 in older versions, 1 in newer ones.
    pub least: u8,
}

/// The lines of a method.
#[derive(Clone, Debug)]
pub struct Table {
    pub bytes: Arc<[u8]>,
    pub least: u8,
}

impl Packed<'_> {
    pub fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.bytes.split_first()?;
        self.bytes = rest;
        Some(*first)
    }

    pub fn number(&mut self) -> Option<u32> {
        const ENDS_BELOW: u8 = 192;
        let mut sum = 0_u32;
        for place in 0..5 {
            let byte = self.byte()?;
            sum = sum.wrapping_add(u32::from(byte.checked_sub(self.least)?) << (6 * place));
            if byte < ENDS_BELOW {
                break;
            }
        }
        Some(sum)
    }

    /// Its lowest bit says whether it is below zero.
    fn signed(&mut self) -> Option<i32> {
        let number = self.number()?;
        Some((number >> 1) as i32 ^ -((number & 1) as i32))
    }
}

impl Table {
    /// The line of a bytecode; 0 if it is not told.
    pub fn line(&self, bytecode: u32) -> u32 {
        /// A step that one byte has no room for.
        const LONG: u8 = 0xff;
        let mut table = Packed { bytes: &self.bytes, least: self.least };
        let (mut at, mut line, mut found) = (0_i32, 0_i32, 0_i32);
        while let Some(step) = table.byte().filter(|step| *step != 0) {
            if step == LONG {
                let (Some(ahead), Some(lines)) = (table.signed(), table.signed()) else { break };
                (at, line) = (at.wrapping_add(ahead), line.wrapping_add(lines));
            } else {
                (at, line) = (at.wrapping_add(i32::from(step >> 3)), line.wrapping_add(i32::from(step & 7)));
            }
            if i64::from(at) > i64::from(bytecode) {
                break;
            }
            found = line;
        }
        u32::try_from(found).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packed(bytes: &[u8]) -> Packed<'_> {
        Packed { bytes, least: 0 }
    }

    #[test]
    fn numbers_are_as_long_as_they_need() {
        assert_eq!(packed(&[5]).number(), Some(5));
        assert_eq!(packed(&[191]).number(), Some(191));
        assert_eq!(packed(&[192, 0]).number(), Some(192));
        assert_eq!(packed(&[192, 1]).number(), Some(192 + 64));
        assert_eq!(packed(&[255; 5]).number(), Some((0..5).map(|place| 255 << (6 * place)).fold(0, u32::wrapping_add)));
        assert_eq!(packed(&[200]).number(), None, "cut off");
        let newer = |bytes: &[u8]| Packed { bytes, least: 1 }.number();
        assert_eq!([newer(&[6]), newer(&[191]), newer(&[192, 1]), newer(&[0])], [Some(5), Some(190), Some(191), None]);
        assert_eq!([0_u8, 1, 2, 3].map(|byte| packed(&[byte]).signed()), [Some(0), Some(-1), Some(1), Some(-2)]);
    }

    #[test]
    fn a_bytecode_is_of_the_last_line_that_began_before_it() {
        // Bytecode 0 is line 24, 3 is line 26, 8 is line 23.
        let table = [0xff, 0, 48, 3 << 3 | 2, 0xff, 10, 5, 0];
        let line = |bytes: &[u8], bytecode, least| Table { bytes: bytes.into(), least }.line(bytecode);
        let at = |bytecode| line(&table, bytecode, 0);
        assert_eq!([at(0), at(2), at(3), at(7), at(8), at(99)], [24, 24, 26, 26, 23, 23]);
        assert_eq!([line(&[], 1, 0), line(&[0xff], 1, 0), line(&[0xff, 1], 1, 0)], [0, 0, 0]);
        let newer = [0xff, 1, 49, 3 << 3 | 2, 0xff, 11, 6, 0];
        assert_eq!([line(&newer, 0, 1), line(&newer, 3, 1), line(&newer, 8, 1)], [24, 26, 23]);
    }
}
