//! The mode `avx2`: fp32 multiply-adds in 256-bit registers, for x86-64 processors without AVX-512 BF16.

mod eight;

use std::ops::Range;

use forerunner_tensor::bf16;

use self::eight::Eight;
use crate::arithmetic::{Arithmetic, Kernel};
use crate::weights::View;
use crate::wide;

/// Needs AVX2 and FMA: [`crate::Mode::Avx2`] is only chosen where the processor has them.
pub(crate) struct Avx2;

impl Arithmetic for Avx2 {
    #[inline(always)]
    fn vectorize<K: Kernel>(kernel: K) -> K::Output {
        // SAFETY: the mode is only chosen where the processor has these features.
        unsafe { with_features(kernel) }
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

#[target_feature(enable = "avx2,fma")]
fn with_features<K: Kernel>(kernel: K) -> K::Output {
    kernel.run::<Avx2>()
}
