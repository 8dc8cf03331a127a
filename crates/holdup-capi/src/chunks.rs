//! Claims on ranges of indices for C.

use holdup_locks::technique::Chunks;

/// Claims on a range of indices: every index exactly once, by whichever thread asks. 256 bytes.
///
/// For parallel loops. A claim carries no data: what the bodies write reaches others through the join at the loop's
/// end. Not for bodies of equal, known length: split those up front. Initialise it with holdup_chunks_init_fixed or
/// holdup_chunks_init_guided; it needs no end.
#[repr(C, align(128))]
pub struct holdup_chunks_t {
    opaque: [u64; 32],
}

const _: () = {
    assert!(size_of::<Chunks>() <= size_of::<holdup_chunks_t>());
    assert!(align_of::<Chunks>() <= align_of::<holdup_chunks_t>());
};

/// Prepares claims of `chunk` indices each on `begin` to `end - 1`; the last is shorter. 0 is taken as 1, a reversed
/// range is empty.
///
/// Choose chunks that work for a microsecond at least.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn holdup_chunks_init_fixed(chunks: *mut holdup_chunks_t, begin: u64, end: u64, chunk: u64) {
    // SAFETY: the caller hands over memory of claims; the assertions above compare size and alignment.
    unsafe { chunks.cast::<Chunks>().write(Chunks::fixed(begin..end, chunk)) };
}

/// Prepares claims on `begin` to `end - 1`, each a `threads`-th of what is left, at least `min_chunk`: large at first,
/// small at the end, so that threads finish together. 0 threads and a smallest chunk of 0 are taken as 1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn holdup_chunks_init_guided(
    chunks: *mut holdup_chunks_t,
    begin: u64,
    end: u64,
    threads: u32,
    min_chunk: u64,
) {
    // SAFETY: the caller hands over memory of claims; the assertions above compare size and alignment.
    unsafe { chunks.cast::<Chunks>().write(Chunks::guided(begin..end, threads as usize, min_chunk)) };
}

/// Claims the next chunk: the indices from `*begin` to `*end - 1` are the caller's alone.
///
/// Returns false, and writes nothing, when every index is claimed. Never waits. Cost: one atomic add (fixed) or one
/// compare-exchange (guided) on a line that all threads share: 5 ns alone, 100 ns and more when another CPU had the
/// line.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn holdup_chunks_next(chunks: *mut holdup_chunks_t, begin: *mut u64, end: *mut u64) -> bool {
    // SAFETY: the caller hands over initialised claims, and two places to write to.
    match unsafe { &*chunks.cast::<Chunks>() }.next() {
        Some(range) => {
            // SAFETY: as above.
            unsafe {
                begin.write(range.start);
                end.write(range.end);
            }
            true
        }
        None => false,
    }
}
