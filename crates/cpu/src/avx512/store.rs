//! Where the sums of a tile go: their lanes added, 16 sums at a time, and written row after row.

use std::arch::x86_64::*;

use super::Task;
use super::sums::{sum_eight, sum_four, sum_sixteen};

impl Task {
    /// Adds the lanes of a tile's sums and writes them from output `first` on.
    ///
    /// # Safety
    /// `sums` has room for the outputs in each row.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
    #[inline]
    pub(super) unsafe fn store<const O: usize, const R: usize>(self, first: usize, tile: [[__m512; R]; O]) {
        // SAFETY: the caller's promise.
        unsafe {
            let out = self.sums.add(first);
            if O == 1 {
                *out = _mm_cvtss_f32(sum_four([tile[0][0]; 4]));
            } else if O == 8 {
                _mm_storeu_ps(out, sum_four(places::<O, R, 4, 0>(&tile)));
                _mm_storeu_ps(out.add(4), sum_four(places::<O, R, 4, 4>(&tile)));
            } else {
                self.store_places::<O, R, 0>(out, &tile);
                self.store_places::<O, R, 16>(out, &tile);
            }
        }
    }

    /// The sums of a tile of 2 or 4 outputs from place `FIRST` on, 16 at most, in as few steps as that takes.
    ///
    /// # Safety
    /// As for `store`; `out` is the tile's first place.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
    #[inline]
    unsafe fn store_places<const O: usize, const R: usize, const FIRST: usize>(
        self,
        out: *mut f32,
        tile: &[[__m512; R]; O],
    ) {
        let left = (O * R).saturating_sub(FIRST);
        // SAFETY: the caller's promise.
        unsafe {
            if left > 12 {
                let sums = sum_sixteen(places::<O, R, 16, FIRST>(tile));
                self.store_four::<O, R>(out, FIRST, _mm512_castps512_ps128(sums));
                self.store_four::<O, R>(out, FIRST + 4, _mm512_extractf32x4_ps::<1>(sums));
                self.store_four::<O, R>(out, FIRST + 8, _mm512_extractf32x4_ps::<2>(sums));
                self.store_four::<O, R>(out, FIRST + 12, _mm512_extractf32x4_ps::<3>(sums));
            } else if left > 4 {
                let sums = sum_eight(places::<O, R, 8, FIRST>(tile));
                self.store_four::<O, R>(out, FIRST, _mm256_castps256_ps128(sums));
                self.store_four::<O, R>(out, FIRST + 4, _mm256_extractf32x4_ps::<1>(sums));
            }
            if FIRST == 16 && left > 0 && left <= 4 {
                self.store_four::<O, R>(out, FIRST, sum_four(places::<O, R, 4, 16>(tile)));
            } else if FIRST == 0 && left > 8 && left <= 12 {
                self.store_four::<O, R>(out, 8, sum_four(places::<O, R, 4, 8>(tile)));
            } else if FIRST == 0 && left <= 4 {
                self.store_four::<O, R>(out, 0, sum_four(places::<O, R, 4, 0>(tile)));
            }
        }
    }

    /// Writes four sums of a tile of 2 or 4 outputs, which are 2 rows or one; those past the last row are not.
    ///
    /// # Safety
    /// As for `store`; `out` is the tile's first place.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
    #[inline]
    unsafe fn store_four<const O: usize, const R: usize>(self, out: *mut f32, place: usize, four: __m128) {
        let row = place / O;
        // SAFETY: the caller's promise.
        unsafe {
            if O == 4 && row < R {
                _mm_storeu_ps(out.add(row * self.stride), four);
            }
            if O == 2 && row < R {
                _mm_storel_pd(out.add(row * self.stride).cast(), _mm_castps_pd(four));
            }
            if O == 2 && row + 1 < R {
                _mm_storeh_pd(out.add((row + 1) * self.stride).cast(), _mm_castps_pd(four));
            }
        }
    }
}

/// `N` sums of a tile from place `FIRST` on, row after row; past the last place it is the last again.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
#[inline]
#[expect(clippy::needless_range_loop, reason = "index loops are unrolled, which keeps the sums in registers")]
fn places<const O: usize, const R: usize, const N: usize, const FIRST: usize>(
    tile: &[[__m512; R]; O],
) -> [__m512; N] {
    let mut sums = [tile[0][0]; N];
    for index in 0..N {
        let place = if FIRST + index < O * R { FIRST + index } else { O * R - 1 };
        sums[index] = tile[place % O][place / O];
    }
    sums
}
