//! Right operands: rows of 32 columns turned so that each row of the tile holds one pair of columns of all rows.

use std::arch::x86_64::*;

use super::tiles::SIDE;

/// 32-bit words of a tile.
pub(super) const TILE: usize = SIDE * SIDE;

/// Writes a tile whose row `p` has columns `2 p` and `2 p + 1` of each of the rows, at most 16. What it holds for
/// rows that are not there is unspecified.
///
/// # Safety
/// There is room for a tile; the processor has the mode's features.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
pub(super) unsafe fn interleave(rows: usize, row: impl Fn(usize) -> __m512i, tile: *mut u32) {
    // SAFETY: the caller's promise.
    unsafe {
        match rows {
            1 => spread::<1>([row(0)], tile),
            2 => spread(shuffle::<2>(rows, row), tile),
            3..=4 => spread(shuffle::<4>(rows, row), tile),
            5..=8 => spread(shuffle::<8>(rows, row), tile),
            _ => spread(shuffle::<SIDE>(rows, row), tile),
        }
    }
}

/// The words of the rows, word after word and in each row after row: a perfect shuffle for each halving. Rows past
/// the last are the last again.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
#[inline]
fn shuffle<const N: usize>(rows: usize, row: impl Fn(usize) -> __m512i) -> [__m512i; N] {
    let low = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
    let high = _mm512_setr_epi32(8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
    let mut words = [_mm512_setzero_si512(); N];
    for (index, words) in words.iter_mut().enumerate() {
        *words = row(index.min(rows - 1));
    }
    for _ in 0..N.ilog2() {
        let from = words;
        for pair in 0..N / 2 {
            words[2 * pair] = _mm512_permutex2var_epi32(from[pair], low, from[pair + N / 2]);
            words[2 * pair + 1] = _mm512_permutex2var_epi32(from[pair], high, from[pair + N / 2]);
        }
    }
    words
}

/// Writes `N` words to the start of each row of a tile.
///
/// # Safety
/// As for `interleave`.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
#[inline]
unsafe fn spread<const N: usize>(words: [__m512i; N], tile: *mut u32) {
    let words = words.as_ptr().cast::<u32>();
    for row in 0..SIDE {
        // SAFETY: the caller's promise; there are `16 N` words.
        unsafe { std::ptr::copy_nonoverlapping(words.add(row * N), tile.add(row * SIDE), N) }
    }
}
