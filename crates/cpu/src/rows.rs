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

/// Copies `x[count, width]` into columns `offset..offset + width` of `out[count, out_width]`.
pub(crate) fn copy_columns(
    x: &[bf16],
    count: usize,
    width: usize,
    out: &mut [bf16],
    out_width: usize,
    offset: usize,
) {
    let rows = x.chunks_exact(width).zip(out.chunks_exact_mut(out_width));
    for (x, out) in rows.take(count) {
        out[offset..offset + width].copy_from_slice(x);
    }
}

/// Copies row `from[i]` of `values[.., width]` to row `to[i]`.
pub(crate) fn copy_rows(values: &mut [bf16], from: &[i32], to: &[i32], width: usize) {
    for (&from, &to) in from.iter().zip(to) {
        let (from, to) = (from as usize * width, to as usize * width);
        values.copy_within(from..from + width, to);
    }
}

/// Row `index[i]` of `x`, zeros where the index is -1.
pub(crate) fn gather_rows(x: &[bf16], index: &[i32], width: usize, out: &mut [bf16]) {
    for (index, out) in index.iter().zip(out.chunks_exact_mut(width)) {
        match usize::try_from(*index) {
            Ok(row) => out.copy_from_slice(&x[row * width..(row + 1) * width]),
            Err(_) => out.fill(bf16::ZERO),
        }
    }
}
