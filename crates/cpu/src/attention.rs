//! Attention over pages: head norms and rope with append, and softmax attention merged in page order.

use forerunner_tensor::{
    HeadNorms, HeadShape, KeyValuePages, NO_LANE, PAGE, PageTable, RopeTable, Rows, bf16,
};

use crate::CpuDevice;
use crate::arithmetic::{Arithmetic, kernels};
use crate::grid::{Grid, over_rows};
use crate::linear::with_sums;
use crate::math::{LANES, exp, highest, padded, round, sum, widen};
use crate::norm::{norm_scale, normed, rows_a_chunk};
use crate::pool::Pool;
use crate::weights::View;

/// Nanoseconds that a value of a row of queries and keys takes to be normed and rotated.
const ROPE_COST: f32 = 0.6;
/// Nanoseconds that a value of a key takes for a query head.
const KEY_COST: f32 = 0.05;

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

/// Where a head's keys (and values) of one page of a lane begin.
fn page_start(
    table: &PageTable<CpuDevice>,
    shape: HeadShape,
    lane: i32,
    head: usize,
    page_index: usize,
) -> usize {
    assert!(page_index < table.pages_per_lane, "page {page_index} of a lane with {}", table.pages_per_lane);
    let page = table.pages[lane as usize * table.pages_per_lane + page_index] as usize;
    (page * shape.key_value_heads + head) * PAGE * shape.head_dim
}

/// Softmax attention of every row and query head.
pub(crate) fn attention<A: Arithmetic>(
    pool: &Pool,
    stacked: &[bf16],
    shape: HeadShape,
    rows: &Rows<CpuDevice>,
    table: &PageTable<CpuDevice>,
    pages: &KeyValuePages<CpuDevice>,
    out: &mut [bf16],
) {
    let group = shape.query_heads / shape.key_value_heads;
    let width = group * shape.head_dim;
    let heads = rows.count * shape.key_value_heads;
    let keys =
        (0..rows.count).map(|row| if rows.lane[row] == NO_LANE { 0 } else { rows.key_end[row] as usize });
    let keys = keys.sum::<usize>() / rows.count.max(1);
    let chunk = rows_a_chunk(pool, heads, KEY_COST * (keys * width) as f32);
    over_rows(pool, &mut Grid::new(out, width), heads, chunk, |index, out| {
        let (row, head) = (index / shape.key_value_heads, index % shape.key_value_heads);
        if rows.lane[row] == NO_LANE {
            return;
        }
        let queries = &stacked[row * shape.stacked_width() + head * width..][..width];
        let span =
            Span { shape, table, pages, lane: rows.lane[row], head, key_end: rows.key_end[row] as usize };
        with_sums(group * PAGE + 2 * group * (shape.head_dim + 2), |scratch| {
            let (scores, rest) = scratch.split_at_mut(group * PAGE);
            let (total, part) = rest.split_at_mut(rest.len() / 2);
            span.attend::<A>(queries, scores, Softmax::new(total, group), Softmax::new(part, group), out);
        });
    });
}

/// Keys `0..key_end` of a lane and key head.
struct Span<'a> {
    shape: HeadShape,
    table: &'a PageTable<CpuDevice>,
    pages: &'a KeyValuePages<CpuDevice>,
    lane: i32,
    head: usize,
    key_end: usize,
}

impl Span<'_> {
    /// One partition a page, merged in page order.
    fn attend<'s, A: Arithmetic>(
        &self,
        queries: &[bf16],
        scores: &mut [f32],
        mut total: Softmax<'s>,
        mut part: Softmax<'s>,
        out: &mut [bf16],
    ) {
        for page in 0..self.key_end.div_ceil(PAGE) {
            let into = if page == 0 { &mut total } else { &mut part };
            self.attend_page::<A>(queries, page, scores, into);
            if page > 0 {
                merge::<A>(&mut total, &part);
            }
        }
        write::<A>(&total, out);
    }

    /// The partition of one page.
    fn attend_page<A: Arithmetic>(
        &self,
        queries: &[bf16],
        page: usize,
        scores: &mut [f32],
        into: &mut Softmax<'_>,
    ) {
        let width = self.shape.head_dim;
        let count = (self.key_end - page * PAGE).min(PAGE);
        let start = page_start(self.table, self.shape, self.lane, self.head, page);
        let keys = &self.pages.keys[start..start + count * width];
        let values = &self.pages.values[start..start + count * width];
        let group = into.weights.len();
        let scores = &mut scores[..group * count];
        A::products(View::Dense(keys), width, 0..count, queries, group, scores, count);
        soften::<A>(scores, 1.0 / (width as f32).sqrt(), into);
        weigh::<A>(scores, values, width, into.values);
    }
}

kernels! {
    /// Turns the scores of each head into weights, and notes the highest score and the sum of weights.
    fn soften<A>(scores: &mut [f32], scale: f32, into: &mut Softmax<'_>) -> () {
        let count = scores.len() / into.weights.len();
        for (index, scores) in scores.chunks_exact_mut(count).enumerate() {
            let highest = highest(scores) * scale;
            for score in scores.iter_mut() {
                *score = exp(*score * scale - highest);
            }
            into.highest[index] = highest;
            into.weights[index] = sum(scores);
        }
    }

    /// The sum of `weight * value` over keys, key after key, for each head of `weights[heads, keys]`.
    fn weigh<A>(weights: &[f32], values: &[bf16], width: usize, totals: &mut [f32]) -> () {
        let keys = values.len() / width;
        let heads = totals.len() / width;
        totals.fill(0.0);
        let whole = if width.is_multiple_of(COLUMNS) { heads / HEADS * HEADS } else { 0 };
        for head in (0..whole).step_by(HEADS) {
            let weights = &weights[head * keys..(head + HEADS) * keys];
            let totals = &mut totals[head * width..(head + HEADS) * width];
            for column in (0..width).step_by(COLUMNS) {
                weigh_block::<A>(weights, &values[column..], width, &mut totals[column..]);
            }
        }
        for head in whole..heads {
            let totals = &mut totals[head * width..(head + 1) * width];
            for (weight, values) in weights[head * keys..].iter().zip(values.chunks_exact(width)) {
                for (total, value) in totals.iter_mut().zip(values) {
                    *total = A::multiply_add(*weight, widen(*value), *total);
                }
            }
        }
    }

    /// Adds the keys of the next page.
    fn merge<A>(total: &mut Softmax<'_>, page: &Softmax<'_>) -> () {
        let width = total.values.len() / total.weights.len();
        let pairs = total.values.chunks_exact_mut(width).zip(page.values.chunks_exact(width));
        for (index, (values, others)) in pairs.enumerate() {
            let highest = total.highest[index].max(page.highest[index]);
            let (mine, theirs) = (exp(total.highest[index] - highest), exp(page.highest[index] - highest));
            total.highest[index] = highest;
            total.weights[index] = total.weights[index] * mine + page.weights[index] * theirs;
            for (value, other) in values.iter_mut().zip(others) {
                *value = *value * mine + other * theirs;
            }
        }
    }

    /// The means of the values, rounded.
    fn write<A>(total: &Softmax<'_>, out: &mut [bf16]) -> () {
        let width = total.values.len() / total.weights.len();
        let heads = total.values.chunks_exact(width).zip(out.chunks_exact_mut(width));
        for ((values, out), weight) in heads.zip(total.weights.iter()) {
            for (value, out) in values.iter().zip(out) {
                *out = round(value / weight);
            }
        }
    }
}

/// Query heads whose sums share the widening of a value.
const HEADS: usize = 4;
/// Columns of those heads that are summed in registers.
const COLUMNS: usize = 32;

/// The sums of a block of columns, for [`HEADS`] heads.
#[inline(always)]
fn weigh_block<A: Arithmetic>(weights: &[f32], values: &[bf16], width: usize, totals: &mut [f32]) {
    let keys = weights.len() / HEADS;
    let (first, rest) = weights.split_at(keys);
    let (second, rest) = rest.split_at(keys);
    let (third, fourth) = rest.split_at(keys);
    let mut sums = [[0.0; COLUMNS]; HEADS];
    let weights = first.iter().zip(second).zip(third).zip(fourth);
    for ((((a, b), c), d), values) in weights.zip(values.chunks(width)) {
        let values: &[bf16; COLUMNS] = values.first_chunk().expect("a key's columns");
        for column in 0..COLUMNS {
            let value = widen(values[column]);
            sums[0][column] = A::multiply_add(*a, value, sums[0][column]);
            sums[1][column] = A::multiply_add(*b, value, sums[1][column]);
            sums[2][column] = A::multiply_add(*c, value, sums[2][column]);
            sums[3][column] = A::multiply_add(*d, value, sums[3][column]);
        }
    }
    for (totals, sums) in totals.chunks_mut(width).zip(sums) {
        totals[..COLUMNS].copy_from_slice(&sums);
    }
}

/// Values summed with weights `exp(score - highest)`, and the sums of those weights, for a group of query heads.
struct Softmax<'a> {
    highest: &'a mut [f32],
    weights: &'a mut [f32],
    values: &'a mut [f32],
}

impl<'a> Softmax<'a> {
    /// Room for `group` heads; what it holds is unspecified.
    fn new(room: &'a mut [f32], group: usize) -> Self {
        let (highest, rest) = room.split_at_mut(group);
        let (weights, values) = rest.split_at_mut(group);
        Softmax { highest, weights, values }
    }
}
