//! Operations that copy rows: embedding, taps and gathers.

use forerunner_tensor::{NO_LANE, Rows, bf16};

use crate::CpuDevice;
use crate::arithmetic::{Arithmetic, kernels};
use crate::grid::{Grid, over_rows};
use crate::norm::rows_a_chunk;
use crate::pool::Pool;
use crate::weights::Matrix;

/// The tokens' rows of the table; pad rows are left alone, for their token means nothing.
pub(crate) fn embed<A: Arithmetic>(pool: &Pool, table: &Matrix, rows: &Rows<CpuDevice>, out: &mut [bf16]) {
    let width = table.columns();
    let chunk = rows_a_chunk(pool, rows.count, 0.5 * width as f32);
    over_rows(pool, &mut Grid::new(out, width), rows.count, chunk, |row, out| {
        if rows.lane[row] != NO_LANE {
            read_row::<A>(table, rows.token[row] as usize, out);
        }
    });
}

kernels! {
    fn read_row<A>(table: &Matrix, row: usize, out: &mut [bf16]) -> () {
        table.read_row(row, out);
    }
}

/// Nanoseconds that a copied value takes.
const COPY_COST: f32 = 0.1;

/// Copies `x[count, width]` into columns `offset..offset + width` of `out[count, out_width]`.
pub(crate) fn copy_columns(
    pool: &Pool,
    x: &[bf16],
    count: usize,
    width: usize,
    out: &mut [bf16],
    out_width: usize,
    offset: usize,
) {
    let chunk = rows_a_chunk(pool, count, COPY_COST * width as f32);
    over_rows(pool, &mut Grid::new(out, out_width), count, chunk, |row, out| {
        out[offset..offset + width].copy_from_slice(&x[row * width..(row + 1) * width]);
    });
}

/// Copies row `from[i]` of `values[.., width]` to row `to[i]`.
pub(crate) fn copy_rows(pool: &Pool, values: &mut [bf16], from: &[i32], to: &[i32], width: usize) {
    let chunk = rows_a_chunk(pool, from.len(), COPY_COST * width as f32);
    Grid::new(values, width).copy_rows(pool, from, to, chunk);
}

/// Row `index[i]` of `x`, zeros where the index is -1.
pub(crate) fn gather_rows(pool: &Pool, x: &[bf16], index: &[i32], width: usize, out: &mut [bf16]) {
    let chunk = rows_a_chunk(pool, index.len(), COPY_COST * width as f32);
    over_rows(pool, &mut Grid::new(out, width), index.len(), chunk, |row, out| {
        match usize::try_from(index[row]) {
            Ok(row) => out.copy_from_slice(&x[row * width..(row + 1) * width]),
            Err(_) => out.fill(bf16::ZERO),
        }
    });
}
