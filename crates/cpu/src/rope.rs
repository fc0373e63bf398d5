//! Queries and keys of a row: normed a head, rotated by position, and keys and values appended to the row's page.

use forerunner_tensor::{
    HeadNorms, HeadShape, KeyValuePages, NO_LANE, PAGE, PageTable, RopeTable, Rows, bf16,
};

use crate::CpuDevice;
use crate::arithmetic::{Arithmetic, kernels};
use crate::attention::page_start;
use crate::grid::{Grid, over_rows};
use crate::math::{LANES, padded, round, widen};
use crate::norm::{norm_scale, normed, rows_a_chunk};
use crate::pool::Pool;

/// Nanoseconds that a value of a row of queries and keys takes to be normed and rotated.
const ROPE_COST: f32 = 0.6;

/// Norms and rotates queries and keys; appends keys and values to the rows' pages.
pub(crate) fn rope_append<A: Arithmetic>(
    pool: &Pool,
    stacked: &mut [bf16],
    shape: HeadShape,
    norms: &HeadNorms<CpuDevice>,
    rope: &RopeTable<CpuDevice>,
    rows: &Rows<CpuDevice>,
    table: &PageTable<CpuDevice>,
    pages: &mut KeyValuePages<CpuDevice>,
) {
    let (head, width) = (shape.head_dim, shape.stacked_width());
    let queries = shape.query_heads * head;
    let rotated = queries + shape.key_value_heads * head;
    let chunk = rows_a_chunk(pool, rows.count, ROPE_COST * width as f32);
    over_rows(pool, &mut Grid::new(stacked, width), rows.count, chunk, |row, stacked| {
        if rows.lane[row] == NO_LANE {
            return;
        }
        let angles = &rope.cos_sin[rows.position[row] as usize * head..][..head];
        let (queries, rest) = stacked.split_at_mut(queries);
        norm_and_rotate::<A>(queries, &norms.query, norms.epsilon, angles);
        norm_and_rotate::<A>(&mut rest[..shape.key_value_heads * head], &norms.key, norms.epsilon, angles);
    });
    for row in (0..rows.count).filter(|&row| rows.lane[row] != NO_LANE) {
        let position = rows.position[row] as usize;
        let (keys, values) = stacked[row * width..(row + 1) * width][queries..].split_at(rotated - queries);
        for index in 0..shape.key_value_heads {
            let start = page_start(table, shape, rows.lane[row], index, position / PAGE);
            let slot = start + position % PAGE * head..start + (position % PAGE + 1) * head;
            pages.keys[slot.clone()].copy_from_slice(&keys[index * head..(index + 1) * head]);
            pages.values[slot].copy_from_slice(&values[index * head..(index + 1) * head]);
        }
    }
}

kernels! {
    /// Norms each head; then `(a, b)` becomes `(a cos - b sin, b cos + a sin)` for each pair
    /// `(i, i + width / 2)` of it.
    fn norm_and_rotate<A>(heads: &mut [bf16], weight: &[bf16], epsilon: f32, angles: &[f32]) -> () {
        let half = angles.len() / 2;
        let (cosines, sines) = angles.split_at(half);
        for head in heads.chunks_exact_mut(angles.len()) {
            let scale = norm_scale::<A>(head, epsilon);
            let (low, high) = head.split_at_mut(half);
            let (low_weight, high_weight) = weight[..2 * half].split_at(half);
            let mut start = 0;
            while start < half {
                let count = (half - start).min(LANES);
                let span = start..start + count;
                let a = normed_block(&low[span.clone()], scale, &low_weight[span.clone()]);
                let b = normed_block(&high[span.clone()], scale, &high_weight[span.clone()]);
                let cosines = padded_to_lanes(&cosines[span.clone()]);
                let sines = padded_to_lanes(&sines[span.clone()]);
                let (mut first, mut second) = ([bf16::ZERO; LANES], [bf16::ZERO; LANES]);
                for lane in 0..LANES {
                    first[lane] = round(a[lane] * cosines[lane] - b[lane] * sines[lane]);
                    second[lane] = round(b[lane] * cosines[lane] + a[lane] * sines[lane]);
                }
                copy_lanes(&first, &mut low[span.clone()]);
                copy_lanes(&second, &mut high[span]);
                start += count;
            }
        }
    }
}

/// The normed values of a block, widened.
#[inline(always)]
fn normed_block(values: &[bf16], scale: f32, weight: &[bf16]) -> [f32; LANES] {
    let (values, weight) = (padded_to_lanes(values), padded_to_lanes(weight));
    let mut out = [0.0; LANES];
    for lane in 0..LANES {
        out[lane] = widen(normed(values[lane], scale, weight[lane]));
    }
    out
}

/// A block by value: what is written afterwards cannot change it, as the compiler must know to vectorise.
#[inline(always)]
fn padded_to_lanes<T: Copy + Default>(values: &[T]) -> [T; LANES] {
    match values.first_chunk::<LANES>() {
        Some(whole) => *whole,
        None => padded(values, T::default()),
    }
}

#[inline(always)]
fn copy_lanes(block: &[bf16; LANES], out: &mut [bf16]) {
    match out.first_chunk_mut::<LANES>() {
        Some(whole) => *whole = *block,
        None => out.copy_from_slice(&block[..out.len()]),
    }
}
