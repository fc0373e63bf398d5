//! 8 lanes in two registers of 128 bits, of which there are twice as many as others have of 256 bits.

use std::arch::aarch64::*;
use std::array::from_fn;

use forerunner_tensor::bf16;

use crate::wide::{CHUNK, LANES, Vector};

/// The first four lanes, and the last.
#[derive(Clone, Copy)]
pub(super) struct Eight(float32x4_t, float32x4_t);

impl Vector for Eight {
    type Table = Table;

    #[inline(always)]
    fn zeros() -> Self {
        // SAFETY: every processor has the instruction.
        let zeros = unsafe { vdupq_n_f32(0.0) };
        Eight(zeros, zeros)
    }

    #[inline(always)]
    fn load(values: &[f32; LANES]) -> Self {
        // SAFETY: twice 4 of the 8 values are read.
        unsafe { Eight(vld1q_f32(values.as_ptr()), vld1q_f32(values.as_ptr().add(4))) }
    }

    #[inline(always)]
    fn multiply_add(self, by: Self, sum: Self) -> Self {
        // SAFETY: every processor has the instruction.
        unsafe { Eight(vfmaq_f32(sum.0, self.0, by.0), vfmaq_f32(sum.1, self.1, by.1)) }
    }

    #[inline(always)]
    fn sum(self) -> f32 {
        // SAFETY: every processor has the instructions.
        unsafe {
            let fours = vaddq_f32(self.0, self.1);
            vaddv_f32(vadd_f32(vget_low_f32(fours), vget_high_f32(fours)))
        }
    }

    #[inline(always)]
    fn widen(values: &[bf16; CHUNK], out: &mut [f32; CHUNK]) {
        // SAFETY: twice 8 of the 16 values are read.
        unsafe {
            let first = vld1q_u16(values.as_ptr().cast());
            store_values(first, vld1q_u16(values.as_ptr().add(8).cast()), out);
        }
    }

    #[inline(always)]
    fn table(pair: u32) -> Table {
        // SAFETY: every processor has the instructions.
        unsafe { Table::new(pair) }
    }

    #[inline(always)]
    fn look_up(table: Table, words: &[u32; CHUNK / 2], shift: u32, out: &mut [f32; CHUNK]) {
        // SAFETY: twice 4 of the 8 words are read.
        unsafe {
            let right = vdupq_n_s16(-(shift as i16));
            let first = vshlq_u16(vreinterpretq_u16_u32(vld1q_u32(words.as_ptr())), right);
            let last = vshlq_u16(vreinterpretq_u16_u32(vld1q_u32(words.as_ptr().add(4))), right);
            table.look_up(first, last, out);
        }
    }

    #[inline(always)]
    fn affine(pair: u32, codes: &[u8; CHUNK], out: &mut [f32; CHUNK]) {
        // SAFETY: the 16 codes are read.
        unsafe {
            let codes = vld1q_u8(codes.as_ptr());
            let (first, last) = (vmovl_u8(vget_low_u8(codes)), vmovl_high_u8(codes));
            let even = |words| affine(pair, vandq_u32(words, vdupq_n_u32(0xffff)));
            let odd = |words| affine(pair, vshrq_n_u32::<16>(words));
            let (first, last) = (vreinterpretq_u32_u16(first), vreinterpretq_u32_u16(last));
            store([even(first), even(last), odd(first), odd(last)], out);
        }
    }
}

/// The weights of a group's 16 codes in bf16: low bytes, then high bytes.
#[derive(Clone, Copy)]
pub(super) struct Table {
    low: uint8x16_t,
    high: uint8x16_t,
}

impl Table {
    #[target_feature(enable = "neon")]
    #[inline]
    fn new(pair: u32) -> Self {
        let codes: [u32; CHUNK] = from_fn(|code| code as u32);
        // SAFETY: 4 of the 16 codes are read.
        let weights = |first: usize| affine(pair, unsafe { vld1q_u32(codes[first..][..4].as_ptr()) });
        // bf16 is the upper half of fp32.
        let first = vshrn_high_n_u32::<16>(vshrn_n_u32::<16>(weights(0)), weights(4));
        let last = vshrn_high_n_u32::<16>(vshrn_n_u32::<16>(weights(8)), weights(12));
        let (first, last) = (vreinterpretq_u8_u16(first), vreinterpretq_u8_u16(last));
        Table { low: vuzp1q_u8(first, last), high: vuzp2q_u8(first, last) }
    }

    /// Writes the weights of 16 codes in the low nibbles of 16-bit words.
    #[target_feature(enable = "neon")]
    #[inline]
    fn look_up(self, first: uint16x8_t, last: uint16x8_t, out: &mut [f32; CHUNK]) {
        let bytes = vuzp1q_u8(vreinterpretq_u8_u16(first), vreinterpretq_u8_u16(last));
        let codes = vandq_u8(bytes, vdupq_n_u8(15));
        let (low, high) = (vqtbl1q_u8(self.low, codes), vqtbl1q_u8(self.high, codes));
        let (first, last) = (vzip1q_u8(low, high), vzip2q_u8(low, high));
        store_values(vreinterpretq_u16_u8(first), vreinterpretq_u16_u8(last), out);
    }
}

/// `bf16(scale * code + bias)` of 4 codes, as fp32 bits.
#[target_feature(enable = "neon")]
#[inline]
fn affine(pair: u32, codes: uint32x4_t) -> uint32x4_t {
    let (scale, bias) = (f32::from_bits(pair << 16), f32::from_bits(pair & 0xffff_0000));
    let value = vfmaq_f32(vdupq_n_f32(bias), vdupq_n_f32(scale), vcvtq_f32_u32(codes));
    let bits = vreinterpretq_u32_f32(value);
    // To the nearest, ties to even; scales and biases are finite.
    let even = vandq_u32(vshrq_n_u32::<16>(bits), vdupq_n_u32(1));
    let rounded = vaddq_u32(bits, vaddq_u32(even, vdupq_n_u32(0x7fff)));
    vandq_u32(rounded, vdupq_n_u32(0xffff_0000))
}

/// Writes 16 bf16 values as fp32: even columns, then odd ones.
#[target_feature(enable = "neon")]
#[inline]
fn store_values(first: uint16x8_t, last: uint16x8_t, out: &mut [f32; CHUNK]) {
    let (first, last) = (vreinterpretq_u32_u16(first), vreinterpretq_u32_u16(last));
    let even = |pairs| vshlq_n_u32::<16>(pairs);
    let odd = |pairs| vandq_u32(pairs, vdupq_n_u32(0xffff_0000));
    store([even(first), even(last), odd(first), odd(last)], out);
}

/// Writes fp32 bits.
#[target_feature(enable = "neon")]
#[inline]
fn store(fours: [uint32x4_t; 4], out: &mut [f32; CHUNK]) {
    for (four, out) in fours.into_iter().zip(out.as_chunks_mut::<4>().0) {
        // SAFETY: there are 4 places.
        unsafe { vst1q_u32(out.as_mut_ptr().cast(), four) }
    }
}
