//! 8 lanes in one register of 256 bits.
//!
//! Methods that every mode has cannot be marked as needing features; they are inlined into code that has them.

use std::arch::x86_64::*;

use forerunner_tensor::bf16;

use crate::wide::{CHUNK, LANES, Vector};

/// Needs AVX2 and FMA, as its mode does.
#[derive(Clone, Copy)]
pub(super) struct Eight(__m256);

impl Vector for Eight {
    type Table = Table;

    #[inline(always)]
    fn zeros() -> Self {
        // SAFETY: the mode has the features.
        Eight(unsafe { _mm256_setzero_ps() })
    }

    #[inline(always)]
    fn load(values: &[f32; LANES]) -> Self {
        // SAFETY: the mode has the features, and 8 values are read.
        Eight(unsafe { _mm256_loadu_ps(values.as_ptr()) })
    }

    #[inline(always)]
    fn multiply_add(self, by: Self, sum: Self) -> Self {
        // SAFETY: the mode has the features.
        Eight(unsafe { _mm256_fmadd_ps(self.0, by.0, sum.0) })
    }

    #[inline(always)]
    fn sum(self) -> f32 {
        // SAFETY: the mode has the features.
        unsafe {
            let fours = _mm_add_ps(_mm256_castps256_ps128(self.0), _mm256_extractf128_ps::<1>(self.0));
            let twos = _mm_add_ps(fours, _mm_movehl_ps(fours, fours));
            _mm_cvtss_f32(_mm_add_ss(twos, _mm_movehdup_ps(twos)))
        }
    }

    #[inline(always)]
    fn widen(values: &[bf16; CHUNK], out: &mut [f32; CHUNK]) {
        // SAFETY: the mode has the features, and 32 bytes are read.
        unsafe { store_values(_mm256_loadu_si256(values.as_ptr().cast()), out) }
    }

    #[inline(always)]
    fn table(pair: u32) -> Table {
        // SAFETY: the mode has the features.
        unsafe { Table::new(pair) }
    }

    #[inline(always)]
    fn look_up(table: Table, words: &[u32; CHUNK / 2], shift: u32, out: &mut [f32; CHUNK]) {
        // SAFETY: the mode has the features, and 32 bytes are read.
        unsafe {
            let words = _mm256_loadu_si256(words.as_ptr().cast());
            let codes = _mm256_srl_epi16(words, _mm_cvtsi32_si128(shift.cast_signed()));
            store_values(table.look_up(codes), out);
        }
    }

    #[inline(always)]
    fn affine(pair: u32, codes: &[u8; CHUNK], out: &mut [f32; CHUNK]) {
        // SAFETY: the mode has the features, and 16 bytes are read.
        unsafe {
            let words = _mm256_cvtepu8_epi16(_mm_loadu_si128(codes.as_ptr().cast()));
            let even = affine(pair, _mm256_and_si256(words, _mm256_set1_epi32(0xffff)));
            store(even, affine(pair, _mm256_srli_epi32::<16>(words)), out);
        }
    }
}

/// The weights of a group's 16 codes in bf16: low bytes, then high bytes, twice each, as bytes are looked up within
/// halves of a register.
#[derive(Clone, Copy)]
pub(super) struct Table {
    low: __m256i,
    high: __m256i,
}

impl Table {
    #[target_feature(enable = "avx2,fma")]
    #[inline]
    fn new(pair: u32) -> Self {
        let first = affine(pair, _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
        let last = affine(pair, _mm256_setr_epi32(8, 9, 10, 11, 12, 13, 14, 15));
        // The bytes of bf16 are the upper two of fp32: 0, 4, 8 and 12 after a shift, joined four lanes at a time.
        let low_bytes = |values: __m256i, shift: i32| {
            let byte =
                _mm256_and_si256(_mm256_srl_epi32(values, _mm_cvtsi32_si128(shift)), _mm256_set1_epi32(255));
            _mm256_shuffle_epi8(byte, places())
        };
        let join = |shift: i32| {
            let (first, last) = (low_bytes(first, shift), low_bytes(last, shift));
            // Dwords 0 and 4 of each are four bytes of the table.
            let sixteen = _mm_unpacklo_epi64(
                _mm_unpacklo_epi32(_mm256_castsi256_si128(first), _mm256_extracti128_si256::<1>(first)),
                _mm_unpacklo_epi32(_mm256_castsi256_si128(last), _mm256_extracti128_si256::<1>(last)),
            );
            _mm256_broadcastsi128_si256(sixteen)
        };
        Table { low: join(16), high: join(24) }
    }

    /// The weights, in bf16, of 16 codes in the low nibbles of 16-bit words.
    #[target_feature(enable = "avx2,fma")]
    #[inline]
    fn look_up(self, words: __m256i) -> __m256i {
        let codes = _mm256_and_si256(words, _mm256_set1_epi16(15));
        // An index with its highest bit set gives 0: the upper byte of each word.
        let index = _mm256_or_si256(codes, _mm256_set1_epi16(i16::MIN));
        let high = _mm256_slli_epi16::<8>(_mm256_shuffle_epi8(self.high, index));
        _mm256_or_si256(_mm256_shuffle_epi8(self.low, index), high)
    }
}

/// Moves the lowest byte of each dword of a half to the half's first dword.
#[target_feature(enable = "avx2,fma")]
#[inline]
fn places() -> __m256i {
    _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 4, 8, 12, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1))
}

/// `bf16(scale * code + bias)` of 8 codes, as fp32 bits.
#[target_feature(enable = "avx2,fma")]
#[inline]
fn affine(pair: u32, codes: __m256i) -> __m256i {
    let (scale, bias) = (f32::from_bits(pair << 16), f32::from_bits(pair & 0xffff_0000));
    let value = _mm256_fmadd_ps(_mm256_set1_ps(scale), _mm256_cvtepi32_ps(codes), _mm256_set1_ps(bias));
    let bits = _mm256_castps_si256(value);
    // To the nearest, ties to even; scales and biases are finite.
    let even = _mm256_and_si256(_mm256_srli_epi32::<16>(bits), _mm256_set1_epi32(1));
    let rounded = _mm256_add_epi32(bits, _mm256_add_epi32(even, _mm256_set1_epi32(0x7fff)));
    _mm256_and_si256(rounded, _mm256_set1_epi32(0xffff_0000_u32.cast_signed()))
}

/// Writes 16 bf16 values as fp32: even columns, then odd ones.
#[target_feature(enable = "avx2,fma")]
#[inline]
fn store_values(values: __m256i, out: &mut [f32; CHUNK]) {
    let odd = _mm256_and_si256(values, _mm256_set1_epi32(0xffff_0000_u32.cast_signed()));
    store(_mm256_slli_epi32::<16>(values), odd, out);
}

/// Writes fp32 bits: even columns, then odd ones.
#[target_feature(enable = "avx2,fma")]
#[inline]
fn store(even: __m256i, odd: __m256i, out: &mut [f32; CHUNK]) {
    let (even_out, odd_out) = out.split_at_mut(LANES);
    // SAFETY: each half has 8 places.
    unsafe {
        _mm256_storeu_si256(even_out.as_mut_ptr().cast(), even);
        _mm256_storeu_si256(odd_out.as_mut_ptr().cast(), odd);
    }
}
