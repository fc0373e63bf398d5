//! The 16 lanes of several sums added at once: lane `i` and `i + 8`, then `i + 4`, `i + 2`, `i + 1`, as
//! `math::sum_lanes` does. Each step joins two vectors into one that holds what is left of both.

use std::arch::x86_64::*;

/// The totals of 16 sums, in their order.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
#[inline]
pub(super) fn sum_sixteen(s: [__m512; 16]) -> __m512 {
    let first = join_twos(
        join_fours(join_eights(s[0], s[4]), join_eights(s[8], s[12])),
        join_fours(join_eights(s[1], s[5]), join_eights(s[9], s[13])),
    );
    let second = join_twos(
        join_fours(join_eights(s[2], s[6]), join_eights(s[10], s[14])),
        join_fours(join_eights(s[3], s[7]), join_eights(s[11], s[15])),
    );
    join_ones(first, second)
}

/// The totals of 8 sums, in their order.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
#[inline]
pub(super) fn sum_eight(s: [__m512; 8]) -> __m256 {
    let twos = join_twos(
        join_fours(join_eights(s[0], s[2]), join_eights(s[4], s[6])),
        join_fours(join_eights(s[1], s[3]), join_eights(s[5], s[7])),
    );
    let ones = _mm512_castps_pd(join_ones(twos, twos));
    let places = _mm512_setr_epi64(0, 2, 4, 6, 0, 0, 0, 0);
    _mm512_castps512_ps256(_mm512_castpd_ps(_mm512_permutexvar_pd(places, ones)))
}

/// The totals of 4 sums, in their order.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
#[inline]
pub(super) fn sum_four(s: [__m512; 4]) -> __m128 {
    let fours = join_fours(join_eights(s[0], s[1]), join_eights(s[2], s[3]));
    let twos = _mm512_add_ps(fours, _mm512_permute_ps::<0b01_00_11_10>(fours));
    let ones = _mm512_add_ps(twos, _mm512_permute_ps::<0b10_11_00_01>(twos));
    let places = _mm512_setr_epi32(0, 4, 8, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
    _mm512_castps512_ps128(_mm512_permutexvar_ps(places, ones))
}

/// Eight lanes of `a`, then of `b`.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
#[inline]
fn join_eights(a: __m512, b: __m512) -> __m512 {
    _mm512_add_ps(_mm512_shuffle_f32x4::<0b01_00_01_00>(a, b), _mm512_shuffle_f32x4::<0b11_10_11_10>(a, b))
}

/// Four lanes of each of two sums in `a`, then in `b`.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
#[inline]
fn join_fours(a: __m512, b: __m512) -> __m512 {
    _mm512_add_ps(_mm512_shuffle_f32x4::<0b10_00_10_00>(a, b), _mm512_shuffle_f32x4::<0b11_01_11_01>(a, b))
}

/// In each quarter two lanes of the quarter's sum in `a`, then in `b`.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
#[inline]
fn join_twos(a: __m512, b: __m512) -> __m512 {
    _mm512_add_ps(_mm512_shuffle_ps::<0b01_00_01_00>(a, b), _mm512_shuffle_ps::<0b11_10_11_10>(a, b))
}

/// In each quarter the quarter's two sums in `a`, then in `b`.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
#[inline]
fn join_ones(a: __m512, b: __m512) -> __m512 {
    _mm512_add_ps(_mm512_shuffle_ps::<0b10_00_10_00>(a, b), _mm512_shuffle_ps::<0b11_01_11_01>(a, b))
}
