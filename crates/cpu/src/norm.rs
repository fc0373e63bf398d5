//! Root-mean-square norms of rows and heads.

use forerunner_tensor::bf16;

use crate::arithmetic::{Arithmetic, kernels};
use crate::grid::{Grid, over_rows};
use crate::math::{LANES, padded, round, sum_lanes, widen};
use crate::pool::Pool;

/// Nanoseconds of work that are worth a parallel region.
const WORTHWHILE: f32 = 2000.0;

/// Rows a chunk of an operation that takes one thread about this long for a row: all of them where a region would
/// not pay.
pub(crate) fn rows_a_chunk(pool: &Pool, rows: usize, nanoseconds_a_row: f32) -> usize {
    let few = rows as f32 * nanoseconds_a_row < WORTHWHILE;
    if few { rows.max(1) } else { rows.div_ceil(pool.threads() * 4).max(1) }
}

/// Nanoseconds that a value of a norm takes.
const COST: f32 = 0.2;

/// `out = weight * bf16(x * rsqrt(mean(x^2) + epsilon))` for each row, the product rounded again.
pub(crate) fn rms_norm<A: Arithmetic>(
    pool: &Pool,
    x: &[bf16],
    weight: &[bf16],
    epsilon: f32,
    count: usize,
    width: usize,
    out: &mut [bf16],
) {
    let rows = rows_a_chunk(pool, count, COST * width as f32);
    over_rows(pool, &mut Grid::new(out, width), count, rows, |row, out| {
        norm_row::<A>(&x[row * width..(row + 1) * width], weight, epsilon, out);
    });
}

kernels! {
    fn norm_row<A>(x: &[bf16], weight: &[bf16], epsilon: f32, out: &mut [bf16]) -> () {
        let scale = norm_scale::<A>(x, epsilon);
        for ((out, value), weight) in out.iter_mut().zip(x).zip(weight) {
            *out = normed(*value, scale, *weight);
        }
    }
}

/// `1 / sqrt(mean(x^2) + epsilon)`, the squares in 16 partial sums.
#[inline(always)]
pub(crate) fn norm_scale<A: Arithmetic>(x: &[bf16], epsilon: f32) -> f32 {
    let mut lanes = [0.0; LANES];
    let (blocks, rest) = x.as_chunks::<LANES>();
    for block in blocks {
        add_squares::<A>(&mut lanes, block);
    }
    add_squares::<A>(&mut lanes, &padded(rest, bf16::ZERO));
    1.0 / (sum_lanes(&lanes) / x.len() as f32 + epsilon).sqrt()
}

#[inline(always)]
fn add_squares<A: Arithmetic>(lanes: &mut [f32; LANES], block: &[bf16; LANES]) {
    for lane in 0..LANES {
        let value = widen(block[lane]);
        lanes[lane] = A::multiply_add(value, value, lanes[lane]);
    }
}

/// One value of a norm.
#[inline(always)]
pub(crate) fn normed(value: bf16, scale: f32, weight: bf16) -> bf16 {
    round(widen(weight) * widen(round(widen(value) * scale)))
}
