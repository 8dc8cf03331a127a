//! Which line an instruction of Python is on: its code object's table, in the three forms that versions have used.

/// The form of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// `co_lnotab`, up to 3.9.
    Steps,
    /// `co_linetable` of 3.10 (PEP 626).
    Ranges,
    /// Locations, from 3.11 on.
    Locations,
}

/// The line of the instruction at this offset in bytes; 0 if it is on none.
pub fn line(form: Form, table: &[u8], first_line: u32, at: u64) -> u32 {
    let line = match form {
        Form::Steps => steps(table, i64::from(first_line), at),
        Form::Ranges => ranges(table, i64::from(first_line), at),
        Form::Locations => locations(table, i64::from(first_line), at),
    };
    line.and_then(|line| u32::try_from(line).ok()).unwrap_or(0)
}

fn steps(table: &[u8], mut line: i64, at: u64) -> Option<i64> {
    let mut address = 0;
    for pair in table.chunks_exact(2) {
        address += u64::from(pair[0]);
        if address > at {
            break;
        }
        line += i64::from(pair[1] as i8);
    }
    Some(line)
}

fn ranges(table: &[u8], mut line: i64, at: u64) -> Option<i64> {
    const NO_LINE: i8 = -128;
    let mut end = 0;
    for pair in table.chunks_exact(2) {
        end += u64::from(pair[0]);
        let step = pair[1] as i8;
        line += if step == NO_LINE { 0 } else { i64::from(step) };
        if at < end {
            return (step != NO_LINE).then_some(line);
        }
    }
    None
}

/// Entries begin with a byte that has the highest bit: four bits say how the line is told, three how many units of two
/// bytes of code it is about.
fn locations(table: &[u8], mut line: i64, at: u64) -> Option<i64> {
    const NO_LINE: u8 = 15;
    let mut end = 0;
    let mut rest = table;
    while let [first, body @ ..] = rest {
        let code = first >> 3 & 15;
        end += (u64::from(first & 7) + 1) * 2;
        line += match code {
            13 | 14 => signed(body),
            10..=12 => i64::from(code - 10),
            _ => 0,
        };
        if at < end {
            return (code != NO_LINE).then_some(line);
        }
        let next = body.iter().position(|byte| byte & 0x80 != 0).unwrap_or(body.len());
        rest = &body[next..];
    }
    None
}

/// A signed number of six bits a byte, lowest first.
fn signed(bytes: &[u8]) -> i64 {
    let mut value: u64 = 0;
    for (at, byte) in bytes.iter().take(6).enumerate() {
        value |= u64::from(byte & 63) << (6 * at);
        if byte & 64 == 0 {
            break;
        }
    }
    let size = (value >> 1) as i64;
    if value & 1 == 0 { size } else { -size }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tables of 3.8, 3.10 and 3.13 for one function of ten lines that begins on line 2, and what the interpreters
    /// themselves say of them: the lines of all instructions where these change.
    #[test]
    fn lines_are_those_of_the_interpreter() {
        let told = |form, table: &[u8], expected: &[(u64, u32)]| {
            for (at, wanted) in expected {
                assert_eq!(line(form, table, 2, *at), *wanted, "{form:?} at {at}");
            }
        };
        let steps = [0, 2, 2, 1, 2, 255, 4, 2, 2, 1, 10, 1, 16, 1, 24, 1, 6, 1, 2, 255];
        let lines = [(0, 4), (2, 5), (4, 4), (6, 4), (8, 6), (10, 7), (36, 9), (64, 10), (66, 11), (68, 10), (72, 10)];
        told(Form::Steps, &steps, &lines);
        let ranges = [2, 2, 2, 1, 4, 255, 2, 2, 10, 1, 14, 1, 14, 1, 8, 128, 2, 255, 6, 2, 2, 1, 6, 255];
        let lines = [(0, 4), (2, 5), (6, 4), (8, 6), (34, 9), (48, 0), (54, 0), (56, 8), (58, 10), (64, 11), (70, 10)];
        told(Form::Ranges, &ranges, &lines);
        told(Form::Ranges, &ranges, &[(72, 0)]);
        let locations = [
            128, 0, 228, 4, 5, 216, 8, 9, 244, 3, 1, 5, 11, 240, 4, 3, 5, 17, 220, 8, 9, 140, 3, 241, 8, 0, 9, 10, 243,
            3, 1, 12, 11, 217, 8, 9, 240, 3, 0, 19, 20, 138, 65, 217, 8, 9, 241, 3, 1, 12, 11, 240, 0, 1, 5, 11, 248,
            244, 5, 0, 12, 13, 243, 0, 1, 5, 17, 220, 15, 16, 251, 240, 3, 1, 5, 17, 252, 242, 4, 1, 12, 11,
        ];
        let lines = [(0, 2), (2, 4), (12, 5), (22, 4), (24, 6), (26, 7), (46, 11), (50, 10), (58, 11), (70, 11)];
        told(Form::Locations, &locations, &lines);
        let lines = [(74, 10), (80, 0), (82, 8), (108, 9), (110, 0), (118, 8), (120, 0), (134, 10), (136, 0)];
        told(Form::Locations, &locations, &lines);
    }

    #[test]
    fn nonsense_is_no_line_and_no_harm() {
        for form in [Form::Steps, Form::Ranges, Form::Locations] {
            for table in [&[][..], &[0xff], &[0xf0, 0xff], &[0xf0, 0x7f, 0x7f, 0x7f, 0x7f, 0x7f, 0x7f, 0x7f]] {
                for at in [0, 1, 1000, u64::MAX] {
                    line(form, table, u32::MAX, at);
                }
            }
        }
    }
}
