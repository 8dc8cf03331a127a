//! How keys spread over slots: a finisher for 64-bit keys, and a keyed hasher for everything else.
//!
//! What: [`mix`] turns any 64-bit key into 64 well-mixed bits; [`FoldState`] builds [`FoldHasher`]s, which fold each
//! eight bytes into a 64-bit state with one widening multiplication.
//!
//! Invariants:
//! 1. `mix` is a bijection: two different keys never share all 64 bits, so collisions come only from the slot count.
//! 2. One `FoldState` gives the same hash for the same key for ever; two states with different seeds do not.
//!
//! Memory orderings: none, nothing is shared.
//!
//! Cost: `mix` two multiplications and three shifts, about 3 ns; a `u64` through `FoldHasher` two widening
//! multiplications, about 2 ns; SipHash 1-3, std's default, about 10 ns.
//!
//! When not to use: `FoldHasher` is **not** a cryptographic hash. Its seed is drawn per map, so a list of colliding
//! keys prepared in advance does not work, but someone who can watch timings or iteration orders and choose keys can
//! find collisions. Give maps with keys from strangers `std::hash::RandomState`.

use core::hash::{BuildHasher, Hash, Hasher};

/// Mixes a 64-bit key so that every input bit reaches every output bit.
///
/// The function is the variant of MurmurHash3's 64-bit finisher that SplitMix64 uses ("Mix13" of D. Stafford, *Better
/// bit mixing*, 2011; Steele, Lea and Flood, *Fast splittable pseudorandom number generators*, OOPSLA 2014, figure
/// 16).
///
/// ```
/// use holdup_locks::technique::mix;
///
/// // Neighbouring keys differ in about half of their bits.
/// assert!((mix(1) ^ mix(2)).count_ones() > 16);
/// ```
#[inline]
#[must_use]
pub const fn mix(key: u64) -> u64 {
    let mut bits = key;
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

/// The key of an object: its address. The same object always meets the same lock while it does not move.
///
/// ```
/// use holdup_locks::technique::key_of;
///
/// let account = 5;
/// assert_eq!(key_of(&account), key_of(&account));
/// ```
#[inline]
#[must_use]
pub fn key_of<T: ?Sized>(object: &T) -> u64 {
    core::ptr::from_ref(object).addr() as u64
}

/// The key of a value: a hash of its contents, the same in every thread and every run.
///
/// ```
/// use holdup_locks::technique::key_of_value;
///
/// assert_eq!(key_of_value("alice"), key_of_value(&String::from("alice")));
/// ```
#[inline]
#[must_use]
pub fn key_of_value<K: Hash + ?Sized>(value: &K) -> u64 {
    FoldState::with_seed(0).hash_one(value)
}

/// Multiplies to 128 bits and folds the halves together.
#[inline]
const fn fold(left: u64, right: u64) -> u64 {
    let product = left as u128 * right as u128;
    (product as u64) ^ ((product >> 64) as u64)
}

/// The multipliers are the fractional bits of the square roots of 2 and 3, made odd: any constants without structure
/// would do.
const ABSORB: u64 = 0x6a09_e667_f3bc_c909;
const FINISH: u64 = 0xbb67_ae85_84ca_a73b;

/// Builds [`FoldHasher`]s that share one seed. `default` draws a fresh seed; [`FoldState::with_seed`] is `const`.
///
/// ```
/// use core::hash::BuildHasher;
/// use holdup_locks::technique::FoldState;
///
/// let state = FoldState::with_seed(7);
/// assert_eq!(state.hash_one("key"), state.hash_one("key"));
/// assert_ne!(state.hash_one("key"), FoldState::with_seed(8).hash_one("key"));
/// ```
#[derive(Debug, Clone)]
pub struct FoldState {
    seed: u64,
}

impl FoldState {
    /// A state whose hashes are the same in every run: for statics, and where keys are trusted.
    #[must_use]
    pub const fn with_seed(seed: u64) -> Self {
        Self { seed: mix(seed ^ FINISH) }
    }
}

impl Default for FoldState {
    /// Draws the seed from the operating system's randomness, by way of std's `RandomState`.
    fn default() -> Self {
        Self::with_seed(std::hash::RandomState::new().hash_one(0u64))
    }
}

impl BuildHasher for FoldState {
    type Hasher = FoldHasher;

    #[inline]
    fn build_hasher(&self) -> FoldHasher {
        FoldHasher { state: self.seed }
    }
}

/// A keyed hasher for hash tables: fast on integers, fair on strings, no defence against a determined attacker.
#[derive(Debug, Clone)]
pub struct FoldHasher {
    state: u64,
}

impl FoldHasher {
    #[inline]
    fn absorb(&mut self, word: u64) {
        self.state = fold(self.state ^ word, ABSORB);
    }
}

impl Hasher for FoldHasher {
    /// The last multiplication lets the bits that choose the shard and those that choose the bucket depend on all
    /// input bits, for keys as regular as addresses and multiples of a page.
    #[inline]
    fn finish(&self) -> u64 {
        fold(self.state, FINISH)
    }

    #[inline]
    fn write(&mut self, bytes: &[u8]) {
        let (words, tail) = bytes.as_chunks::<8>();
        for word in words {
            self.absorb(u64::from_le_bytes(*word));
        }
        let mut last = [0; 8];
        last[..tail.len()].copy_from_slice(tail);
        // The length takes part, so that trailing zero bytes make a difference.
        self.absorb(u64::from_le_bytes(last) ^ (bytes.len() as u64).rotate_right(8));
    }

    #[inline]
    fn write_u8(&mut self, value: u8) {
        self.absorb(u64::from(value));
    }

    #[inline]
    fn write_u16(&mut self, value: u16) {
        self.absorb(u64::from(value));
    }

    #[inline]
    fn write_u32(&mut self, value: u32) {
        self.absorb(u64::from(value));
    }

    #[inline]
    fn write_u64(&mut self, value: u64) {
        self.absorb(value);
    }

    #[inline]
    fn write_u128(&mut self, value: u128) {
        self.absorb(value as u64);
        self.absorb((value >> 64) as u64);
    }

    #[inline]
    fn write_usize(&mut self, value: usize) {
        self.absorb(value as u64);
    }
}
