//! The mode `neon`: fp32 multiply-adds in 128-bit registers, for every aarch64 processor.
//!
//! Nothing newer is used than what the first such processors had, bf16 products of later ones neither.

mod eight;

use std::ops::Range;

use forerunner_tensor::bf16;

use self::eight::Eight;
use crate::arithmetic::{Arithmetic, Kernel};
use crate::weights::View;
use crate::wide;

/// Needs nothing that not every aarch64 processor has.
pub(crate) struct Neon;

impl Arithmetic for Neon {
    /// The instruction set is the one that all code for the processor is compiled for.
    #[inline(always)]
    fn vectorize<K: Kernel>(kernel: K) -> K::Output {
        kernel.run::<Self>()
    }

    #[inline(always)]
    fn multiply_add(a: f32, b: f32, c: f32) -> f32 {
        a.mul_add(b, c)
    }

    fn products(
        weights: View<'_>,
        columns: usize,
        outputs: Range<usize>,
        x: &[bf16],
        rows: usize,
        sums: &mut [f32],
        stride: usize,
    ) {
        wide::products::<Self, Eight>(weights, columns, outputs, x, rows, sums, stride);
    }
}
