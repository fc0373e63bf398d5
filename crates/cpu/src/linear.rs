//! Projections: tiles of outputs over the pool, each output's sum in the mode's fixed order.

use std::cell::RefCell;

use forerunner_tensor::{Element, bf16};

use crate::arithmetic::{Arithmetic, Kernel};
use crate::grid::{Block, Grid, over_columns};
use crate::memory::Scratch;
use crate::pool::Pool;
use crate::weights::Matrix;

thread_local! {
    static SUMS: RefCell<Scratch<f32>> = const { RefCell::new(Scratch::new()) };
}

/// Calls `work` with the thread's scratch of `len` sums, whose values are unspecified.
pub(crate) fn with_sums<R>(len: usize, work: impl FnOnce(&mut [f32]) -> R) -> R {
    SUMS.with_borrow_mut(|sums| work(sums.take(len)))
}

/// Weights times rows (plus two for reading the weights) that one thread works through in about a microsecond.
const UNITS_A_MICROSECOND: usize = 128 * 1024;
/// Chunks a thread that a region aims for: enough that a late worker does not hold the others up.
const CHUNKS_A_THREAD: usize = 4;
/// Most weights of a tile with more rows than [`Arithmetic::ONE_PASS`], so that a second pass over them finds them in the
/// second-level cache.
const TILE_WEIGHTS: usize = 128 * 1024;

/// Outputs a chunk of `outputs` outputs of `columns` weights: a multiple of [`Arithmetic::TILE_OUTPUTS`], and all of them
/// where a region would cost more than it saves.
pub(crate) fn tile_width<A: Arithmetic>(pool: &Pool, outputs: usize, columns: usize, rows: usize) -> usize {
    let units = columns * (rows + 2);
    if pool.threads() == 1 && columns * outputs <= TILE_WEIGHTS || outputs * units < UNITS_A_MICROSECOND {
        return outputs.max(1);
    }
    let shared = outputs.div_ceil(pool.threads() * CHUNKS_A_THREAD);
    let worthwhile = UNITS_A_MICROSECOND.div_ceil(4 * units.max(1));
    let most = if rows > A::ONE_PASS { TILE_WEIGHTS / columns.max(1) } else { outputs };
    shared.max(worthwhile).min(most).max(1).next_multiple_of(A::TILE_OUTPUTS)
}

/// Gives `write` each place of `out[count, outputs]` with its fp32 sum.
pub(crate) fn linear<A: Arithmetic, T: Element>(
    pool: &Pool,
    matrix: &Matrix,
    x: &[bf16],
    count: usize,
    out: &mut [T],
    write: impl Fn(&mut T, f32) + Sync,
) {
    let outputs = matrix.rows();
    let tile = tile_width::<A>(pool, outputs, matrix.columns(), count);
    over_columns(pool, &mut Grid::new(out, outputs), count, tile, |outputs, mut block| {
        let width = outputs.len();
        with_sums(count * width, |sums| {
            A::matrix_products(matrix, outputs, x, count, sums);
            A::vectorize(Finish { sums, width, block: &mut block, write: &write });
        });
    });
}

/// Writes a tile's sums.
struct Finish<'a, 'b, T, W> {
    sums: &'a [f32],
    width: usize,
    block: &'a mut Block<'b, T>,
    write: &'a W,
}

impl<T, W: Fn(&mut T, f32)> Kernel for Finish<'_, '_, T, W> {
    type Output = ();

    #[inline(always)]
    fn run<A: Arithmetic>(self) {
        for (row, sums) in self.sums.chunks_exact(self.width).enumerate() {
            for (out, sum) in self.block.row(row).iter_mut().zip(sums) {
                (self.write)(out, *sum);
            }
        }
    }
}
