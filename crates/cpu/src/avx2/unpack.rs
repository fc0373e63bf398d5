//! Rows as fp32, in chunks of 16 columns: the even ones, then the odd ones. That is what shifting pairs of bf16
//! values gives, and weights and rows agree in it.

use std::arch::x86_64::*;

use forerunner_tensor::bf16;

use super::{CHUNK, LANES};
use crate::weights::{BLOCK, CHUNK as CODES, View, row_words};

/// Widens a row; what is left of `out` becomes zeros.
#[target_feature(enable = "avx2,fma")]
pub(super) fn widen(row: &[bf16], out: &mut [f32]) {
    let (chunks, rest) = row.as_chunks::<CHUNK>();
    let mut places = out.chunks_exact_mut(CHUNK);
    for (chunk, out) in chunks.iter().zip(&mut places) {
        store(load(chunk), out);
    }
    if let Some(out) = places.next().filter(|_| !rest.is_empty()) {
        let mut padded = [bf16::ZERO; CHUNK];
        padded[..rest.len()].copy_from_slice(rest);
        store(load(&padded), out);
    }
}

/// Unpacks row `output` of `columns` columns; what is left of `out` becomes zeros.
#[target_feature(enable = "avx2,fma")]
pub(super) fn row(weights: View<'_>, columns: usize, output: usize, out: &mut [f32]) {
    match weights {
        View::Dense(values) => widen(&values[output * columns..(output + 1) * columns], out),
        View::Affine { bits, group, codes, pairs } => {
            let (words, groups) = (row_words(bits, columns), columns / group);
            let codes = &codes[output * words..(output + 1) * words];
            let pairs = &pairs[output * groups..(output + 1) * groups];
            let out = &mut out[..columns];
            if bits == 4 { codes4(codes, pairs, group, out) } else { codes8(codes, pairs, group, out) }
        }
    }
}

/// 4-bit codes: looked up in a table of the group's 16 weights.
#[target_feature(enable = "avx2,fma")]
fn codes4(codes: &[u32], pairs: &[u32], group: usize, out: &mut [f32]) {
    for ((index, pair), out) in pairs.iter().enumerate().zip(out.chunks_exact_mut(group)) {
        let table = Table::new(*pair);
        for (chunk, out) in (index * group / CODES..).zip(out.chunks_exact_mut(CODES)) {
            // A line of 128 columns has nibble `n` of a 16-bit word for column `32 n + word`.
            let line: &[u32; 16] = codes[chunk * CODES / BLOCK * 16..].first_chunk().expect("a whole line");
            let shift = _mm_cvtsi32_si128((chunk % 4 * 4) as i32);
            for (half, out) in out.chunks_exact_mut(CHUNK).enumerate() {
                // SAFETY: a line has two halves of 8 words.
                let words = unsafe { _mm256_loadu_si256(line.as_ptr().add(half * 8).cast()) };
                store(table.look_up(_mm256_srl_epi16(words, shift)), out);
            }
        }
    }
}

/// The weights of a group's 16 codes in bf16: low bytes, then high bytes, twice each, as bytes are looked up within
/// halves of a register.
#[derive(Clone, Copy)]
struct Table {
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

/// 8-bit codes, in order.
#[target_feature(enable = "avx2,fma")]
fn codes8(codes: &[u32], pairs: &[u32], group: usize, out: &mut [f32]) {
    let bytes: &[u8] = bytemuck::cast_slice(codes);
    let groups = bytes.chunks_exact(group).zip(out.chunks_exact_mut(group));
    for (pair, (bytes, out)) in pairs.iter().zip(groups) {
        for (bytes, out) in bytes.as_chunks::<CHUNK>().0.iter().zip(out.chunks_exact_mut(CHUNK)) {
            // SAFETY: 16 bytes are read.
            let bytes = unsafe { _mm_loadu_si128(bytes.as_ptr().cast()) };
            let words = _mm256_cvtepu8_epi16(bytes);
            let even = affine(*pair, _mm256_and_si256(words, _mm256_set1_epi32(0xffff)));
            let odd = affine(*pair, _mm256_srli_epi32::<16>(words));
            let (even_out, odd_out) = out.split_at_mut(LANES);
            // SAFETY: each half has 8 places.
            unsafe {
                _mm256_storeu_si256(even_out.as_mut_ptr().cast(), even);
                _mm256_storeu_si256(odd_out.as_mut_ptr().cast(), odd);
            }
        }
    }
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

#[target_feature(enable = "avx2,fma")]
#[inline]
fn load(values: &[bf16; CHUNK]) -> __m256i {
    // SAFETY: 32 bytes are read.
    unsafe { _mm256_loadu_si256(values.as_ptr().cast()) }
}

/// Writes 16 bf16 values as fp32: even columns, then odd ones.
#[target_feature(enable = "avx2,fma")]
#[inline]
fn store(values: __m256i, out: &mut [f32]) {
    let (even, odd) = out.split_at_mut(LANES);
    assert!(even.len() == LANES && odd.len() == LANES);
    // SAFETY: each half has 8 places.
    unsafe {
        _mm256_storeu_si256(even.as_mut_ptr().cast(), _mm256_slli_epi32::<16>(values));
        let odd_values = _mm256_and_si256(values, _mm256_set1_epi32(0xffff_0000_u32.cast_signed()));
        _mm256_storeu_si256(odd.as_mut_ptr().cast(), odd_values);
    }
}
