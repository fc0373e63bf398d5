//! What a mode is: how products are summed, and the instruction set that shared loops are compiled for.

use std::ops::Range;

use forerunner_tensor::bf16;

use crate::weights::{Matrix, View};

/// One arithmetic. Operations are written once over it; a mode is one file with one implementation.
///
/// The order of every sum depends on the number of columns alone: not on rows, tiles or threads. A row of weights
/// gives the same bits whatever its format, once it stands for the same bf16 values.
pub(crate) trait Arithmetic: 'static {
    /// Compiles `work`, and all that is inlined into it, for the mode's instruction set.
    fn vectorize<R>(work: impl FnOnce() -> R) -> R;

    /// `a * b + c`, fused where the mode fuses.
    fn multiply_add(a: f32, b: f32, c: f32) -> f32;

    /// `sums[row * stride + output]` = the fp32 product of output `outputs.start + output` with row `row` of
    /// `x[rows, columns]`.
    fn products(
        weights: View<'_>,
        columns: usize,
        outputs: Range<usize>,
        x: &[bf16],
        rows: usize,
        sums: &mut [f32],
        stride: usize,
    );

    /// [`Arithmetic::products`] of outputs that may lie in several segments, with `outputs.len()` as stride.
    fn matrix_products(matrix: &Matrix, outputs: Range<usize>, x: &[bf16], rows: usize, sums: &mut [f32]) {
        let stride = outputs.len();
        assert!(sums.len() >= rows * stride, "{} sums of {rows} rows x {stride}", sums.len());
        matrix.visit(outputs, |view, within, offset| {
            Self::products(view, matrix.columns(), within, x, rows, &mut sums[offset..], stride);
        });
    }
}
