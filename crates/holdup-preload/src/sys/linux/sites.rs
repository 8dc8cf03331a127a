//! Numbers for the places where mutexes are initialised, small enough for two spare bytes of a mutex.

use std::sync::atomic::{AtomicU64, Ordering};

const SIZE: usize = 4096;

static SITES: [AtomicU64; SIZE] = [const { AtomicU64::new(0) }; SIZE];

/// The number of a place; 0 if there are too many.
pub fn number(site: usize) -> u16 {
    let site = site as u64;
    let first = (site.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 52) as usize;
    // Number 0 means none, so the first entry stays empty.
    for step in 0..64 {
        let at = (first + step) % SIZE;
        if at == 0 {
            continue;
        }
        match SITES[at].compare_exchange(0, site, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => return at as u16,
            Err(there) if there == site => return at as u16,
            Err(_) => {}
        }
    }
    0
}

/// The place of a number; 0 for none.
pub fn place(number: u16) -> u64 {
    SITES.get(usize::from(number)).map_or(0, |site| site.load(Ordering::Relaxed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_keeps_its_number() {
        let (a, b) = (number(0x5555_0000_1000), number(0x5555_0000_1005));
        assert_ne!(a, b);
        assert_eq!(number(0x5555_0000_1000), a);
        assert_eq!(place(a), 0x5555_0000_1000);
        assert_eq!(place(b), 0x5555_0000_1005);
        assert_eq!(place(0), 0);
        assert_eq!(place(u16::MAX), 0, "garbage has no place");
    }
}
