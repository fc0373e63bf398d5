//! The gated feed-forward: gate and up tiles into activations, then down tiles into the residual.

use std::ops::Range;

use forerunner_tensor::bf16;

use crate::arithmetic::{Arithmetic, kernels};
use crate::grid::{Block, Grid, over_columns};
use crate::linear::{linear, tile_width, with_sums};
use crate::math::{add, round, silu, widen};
use crate::memory::Scratch;
use crate::pool::Pool;
use crate::weights::Matrix;

/// `residual = bf16(residual + bf16(down · bf16(silu(g) * u)))`.
pub(crate) fn feed_forward<A: Arithmetic>(
    pool: &Pool,
    active: &mut Scratch<bf16>,
    gate_up: &Matrix,
    down: &Matrix,
    x: &[bf16],
    count: usize,
    residual: &mut [bf16],
) {
    let intermediate = down.columns();
    let active = active.take(count * intermediate);
    let tile = tile_width::<A>(pool, intermediate, 2 * gate_up.columns(), count);
    over_columns(pool, &mut Grid::new(active, intermediate), count, tile, |columns, mut block| {
        activate::<A>(gate_up, x, count, columns, &mut block);
    });
    linear::<A, _>(pool, down, active, count, residual, add);
}

/// Writes `bf16(silu(g) * u)` of some columns for `count` rows of `x`.
pub(crate) fn activate<A: Arithmetic>(
    gate_up: &Matrix,
    x: &[bf16],
    count: usize,
    columns: Range<usize>,
    out: &mut Block<'_, bf16>,
) {
    let (half, width) = (gate_up.rows() / 2, columns.len());
    with_sums(2 * count * width, |sums| {
        let (gate, up) = sums.split_at_mut(count * width);
        A::matrix_products(gate_up, columns.clone(), x, count, gate);
        A::matrix_products(gate_up, half + columns.start..half + columns.end, x, count, up);
        for row in 0..count {
            let span = row * width..(row + 1) * width;
            gated::<A>(&gate[span.clone()], &up[span], out.row(row));
        }
    });
}

kernels! {
    /// `bf16(silu(g) * u)` of the rounded sums.
    fn gated<A>(gate: &[f32], up: &[f32], out: &mut [bf16]) -> () {
        for ((out, gate), up) in out.iter_mut().zip(gate).zip(up) {
            *out = round(silu(widen(round(*gate))) * widen(round(*up)));
        }
    }
}
