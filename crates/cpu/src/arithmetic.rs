//! What a mode is: how products are summed, and the instruction set that shared loops are compiled for.

use std::ops::Range;

use forerunner_tensor::bf16;

use crate::weights::{Matrix, View};

/// A loop that each mode compiles for its own instruction set.
///
/// Not a closure: only a method can be told to be inlined always, and code that is not inlined into the mode's
/// function is compiled for the oldest processor.
pub(crate) trait Kernel {
    /// What it returns.
    type Output;

    /// The loop. Implementations are `#[inline(always)]`, and so is all that they call in their loops.
    fn run<A: Arithmetic>(self) -> Self::Output;
}

/// Writes functions whose bodies are [`Kernel`]s.
macro_rules! kernels {
    ($($(#[$doc:meta])* $visible:vis fn $name:ident<$mode:ident>(
        $($argument:ident: $type:ty),* $(,)?
    ) -> $output:ty $body:block)*) => {$(
        $(#[$doc])*
        $visible fn $name<$mode: $crate::arithmetic::Arithmetic>($($argument: $type),*) -> $output {
            struct Arguments<T>(T);
            impl $crate::arithmetic::Kernel for Arguments<($($type,)*)> {
                type Output = $output;

                #[inline(always)]
                fn run<$mode: $crate::arithmetic::Arithmetic>(self) -> $output {
                    let Arguments(($($argument,)*)) = self;
                    $body
                }
            }
            $mode::vectorize(Arguments(($($argument,)*)))
        }
    )*};
}
pub(crate) use kernels;

/// One arithmetic. Operations are written once over it; a mode is one file with one implementation.
///
/// The order of every sum depends on the number of columns alone: not on rows, tiles or threads. A row of weights
/// gives the same bits whatever its format, once it stands for the same bf16 values.
pub(crate) trait Arithmetic: 'static {
    /// Outputs that are multiplied at once, of which a thread's share is a multiple.
    const TILE_OUTPUTS: usize = 8;
    /// Rows that are multiplied in one pass over the weights.
    const ONE_PASS: usize = 4;

    /// Runs a kernel, compiled for the mode's instruction set.
    fn vectorize<K: Kernel>(kernel: K) -> K::Output;

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

/// Whether there is a sum to compute.
///
/// # Panics
/// When `x` or `sums` is too short for what [`Arithmetic::products`] is asked: its kernels take the lengths for checked.
pub(crate) fn has_products(
    columns: usize,
    outputs: &Range<usize>,
    x: &[bf16],
    rows: usize,
    sums: &[f32],
    stride: usize,
) -> bool {
    assert!(x.len() >= rows * columns, "{} values of {rows} rows x {columns}", x.len());
    if rows == 0 || outputs.is_empty() {
        return false;
    }
    assert!(sums.len() >= (rows - 1) * stride + outputs.len(), "{} sums", sums.len());
    true
}
