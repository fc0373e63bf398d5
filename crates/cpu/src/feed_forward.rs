//! The gated feed-forward: gate and up tiles into activations, then down tiles into the residual.

use std::ops::Range;

use forerunner_tensor::bf16;

use crate::arithmetic::Arithmetic;
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
    let tile = tile_width(pool, intermediate, 2 * gate_up.columns(), count);
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
        A::vectorize(|| {
            for (row, (gate, up)) in gate.chunks_exact(width).zip(up.chunks_exact(width)).enumerate() {
                for ((out, gate), up) in out.row(row).iter_mut().zip(gate).zip(up) {
                    *out = round(silu(widen(round(*gate))) * widen(round(*up)));
                }
            }
        });
    });
}
