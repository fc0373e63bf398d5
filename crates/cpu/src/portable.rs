//! The mode `portable`: plain loops over 16 partial sums, for any processor.

use std::cell::RefCell;
use std::ops::Range;

use forerunner_tensor::bf16;

use crate::arithmetic::{Arithmetic, Kernel};
use crate::math::{LANES, sum_lanes, widen};
use crate::memory::Scratch;
use crate::weights::View;

/// Separate multiplies and adds: without a fused instruction, a fused multiply-add is a slow call.
pub(crate) struct Portable;

thread_local! {
    static WEIGHTS: RefCell<Scratch<f32>> = const { RefCell::new(Scratch::new()) };
}

impl Arithmetic for Portable {
    #[inline(always)]
    fn vectorize<K: Kernel>(kernel: K) -> K::Output {
        kernel.run::<Self>()
    }

    #[inline(always)]
    fn multiply_add(a: f32, b: f32, c: f32) -> f32 {
        a * b + c
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
        WEIGHTS.with_borrow_mut(|scratch| {
            let wide = scratch.take(columns);
            for (index, output) in outputs.enumerate() {
                weights.read_row(output, wide);
                for row in 0..rows {
                    sums[row * stride + index] = dot(wide, &x[row * columns..(row + 1) * columns]);
                }
            }
        });
    }
}

/// The sum of products, column `i` in partial sum `i % 16`.
fn dot(weights: &[f32], x: &[bf16]) -> f32 {
    let mut sums = [0.0; LANES];
    let (weight_blocks, weight_rest) = weights.as_chunks::<LANES>();
    let (x_blocks, x_rest) = x.as_chunks::<LANES>();
    for (weights, x) in weight_blocks.iter().zip(x_blocks) {
        for lane in 0..LANES {
            sums[lane] += weights[lane] * widen(x[lane]);
        }
    }
    for ((sum, weight), x) in sums.iter_mut().zip(weight_rest).zip(x_rest) {
        *sum += weight * widen(*x);
    }
    sum_lanes(&sums)
}
