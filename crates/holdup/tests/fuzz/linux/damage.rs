//! Damage: bytes changed, moved, doubled, dropped, taken from elsewhere; numbers made large, small and odd.

use fastrand::Rng;

/// Some damage to some bytes, not of one kind alone.
pub fn bytes(whole: &[u8], random: &mut Rng) -> Vec<u8> {
    let mut bytes = whole.to_vec();
    // Most inputs have little damage, so that a reader gets far; some have much.
    let times = 1 + random.usize(..4) * random.usize(..4);
    for _ in 0..times {
        once(&mut bytes, random);
    }
    bytes
}

fn once(bytes: &mut Vec<u8>, random: &mut Rng) {
    if bytes.is_empty() {
        return bytes.push(random.u8(..));
    }
    let at = random.usize(..bytes.len());
    match random.usize(..12) {
        0 | 1 => bytes[at] = random.u8(..),
        2 => bytes[at] ^= 1 << random.usize(..8),
        3 | 4 => number(&mut bytes[at..], random),
        5 => bytes.truncate(at),
        6 => bytes.insert(at, random.u8(..)),
        7 => drop(bytes.drain(at..(at + random.usize(1..64)).min(bytes.len()))),
        8 => bytes[at..].iter_mut().take(random.usize(1..32)).for_each(|byte| *byte = 0),
        _ => {
            let end = (at + random.usize(1..128)).min(bytes.len());
            let piece = bytes[at..end].repeat(random.usize(1..4));
            let to = random.usize(..=bytes.len());
            match random.bool() {
                true => drop(bytes.splice(to..to, piece)),
                false => bytes[to..].iter_mut().zip(piece).for_each(|(byte, new)| *byte = new),
            }
        }
    }
}

/// A number of two, four or eight bytes that readers may trip over.
fn number(bytes: &mut [u8], random: &mut Rng) {
    let len = [2, 4, 8][random.usize(..3)];
    let odd = [0, 1, 0x7f, 0x80, 0xff, 0x7fff_ffff, 0x8000_0000, 0xffff_ffff, i64::MAX as u64, 1 << 63, u64::MAX];
    let value = match random.usize(..3) {
        0 => random.u64(..) >> random.usize(..64),
        1 => odd[random.usize(..odd.len())].wrapping_add(random.u64(..4)),
        _ => {
            let mut old = [0; 8];
            old.iter_mut().zip(&*bytes).for_each(|(byte, old)| *byte = *old);
            u64::from_le_bytes(old).wrapping_add(random.u64(..16)).wrapping_sub(8)
        }
    };
    bytes.iter_mut().zip(value.to_le_bytes()).take(len).for_each(|(byte, new)| *byte = new);
}

/// Damage to a text: words exchanged, doubled, nested, and what else bytes may suffer.
pub fn text(whole: &str, words: &[&str], random: &mut Rng) -> String {
    let mut text = whole.to_owned();
    for _ in 0..1 + random.usize(..4) * random.usize(..4) {
        let at = text.floor_char_boundary(random.usize(..=text.len()));
        match random.usize(..6) {
            0 | 1 => text.insert_str(at, words[random.usize(..words.len())]),
            2 => text.insert_str(at, &words[random.usize(..words.len())].repeat(random.usize(1..500))),
            3 => {
                let end = text.floor_char_boundary((at + random.usize(..64)).min(text.len()));
                text.replace_range(at.min(end)..end, words[random.usize(..words.len())]);
            }
            4 => text = String::from_utf8_lossy(&bytes(text.as_bytes(), random)).into_owned(),
            _ => {
                let lines: Vec<&str> = text.lines().collect();
                let line = lines.get(random.usize(..lines.len().max(1))).copied().unwrap_or_default();
                text = format!("{}{line}\n{}", &text[..at], &text[at..]);
            }
        }
    }
    text
}
