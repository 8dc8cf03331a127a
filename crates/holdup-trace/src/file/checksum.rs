//! XXH32 with seed 0, the published 32-bit checksum: any damage within four neighbouring bytes is found for certain.

const PRIMES: [u32; 5] = [0x9E37_79B1, 0x85EB_CA77, 0xC2B2_AE3D, 0x27D4_EB2F, 0x1656_67B1];

/// The checksum of `bytes`.
pub(super) fn xxh32(bytes: &[u8]) -> u32 {
    let (stripes, mut rest) = bytes.as_chunks::<16>();
    let mut hash = if stripes.is_empty() { PRIMES[4] } else { lanes(stripes) };
    hash = hash.wrapping_add(bytes.len() as u32);
    while let Some((word, after)) = rest.split_first_chunk::<4>() {
        let mixed = hash.wrapping_add(u32::from_le_bytes(*word).wrapping_mul(PRIMES[2]));
        hash = mixed.rotate_left(17).wrapping_mul(PRIMES[3]);
        rest = after;
    }
    for &byte in rest {
        let mixed = hash.wrapping_add(u32::from(byte).wrapping_mul(PRIMES[4]));
        hash = mixed.rotate_left(11).wrapping_mul(PRIMES[0]);
    }
    avalanche(hash)
}

/// Four words at a time, each into a sum of its own, so that a CPU works on all four at once.
fn lanes(stripes: &[[u8; 16]]) -> u32 {
    let mut sums = [PRIMES[0].wrapping_add(PRIMES[1]), PRIMES[1], 0, 0_u32.wrapping_sub(PRIMES[0])];
    for stripe in stripes {
        let (words, _) = stripe.as_chunks::<4>();
        for (sum, word) in sums.iter_mut().zip(words) {
            let mixed = sum.wrapping_add(u32::from_le_bytes(*word).wrapping_mul(PRIMES[1]));
            *sum = mixed.rotate_left(13).wrapping_mul(PRIMES[0]);
        }
    }
    let turned = [1, 7, 12, 18].iter().zip(sums).map(|(bits, sum)| sum.rotate_left(*bits));
    turned.fold(0, u32::wrapping_add)
}

fn avalanche(mut hash: u32) -> u32 {
    hash = (hash ^ hash >> 15).wrapping_mul(PRIMES[1]);
    hash = (hash ^ hash >> 13).wrapping_mul(PRIMES[2]);
    hash ^ hash >> 16
}

#[cfg(test)]
mod tests {
    use super::xxh32;

    #[test]
    fn published_values() {
        assert_eq!(xxh32(b""), 0x02CC_5D05);
        assert_eq!(xxh32(b"a"), 0x550D_7456);
        assert_eq!(xxh32(b"abc"), 0x32D1_53FF);
        assert_eq!(xxh32(b"Nobody inspects the spammish repetition"), 0xE229_3B2F);
    }

    #[test]
    fn every_flipped_bit_shows() {
        let bytes: Vec<u8> = (0..77_u8).map(|n| n.wrapping_mul(31)).collect();
        let whole = xxh32(&bytes);
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert_ne!(xxh32(&damaged), whole, "bit {bit}");
        }
    }
}
