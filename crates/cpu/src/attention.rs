//! Attention over pages: head norms and rope with append, and softmax attention merged in page order.

use forerunner_tensor::{
    HeadNorms, HeadShape, KeyValuePages, NO_LANE, PAGE, PageTable, RopeTable, Rows, bf16,
};

use crate::CpuDevice;
use crate::arithmetic::Arithmetic;
use crate::grid::{Grid, over_rows};
use crate::linear::with_sums;
use crate::math::{LANES, exp, highest, round, sum, widen};
use crate::norm::{norm_scale, normed, rows_a_chunk};
use crate::pool::Pool;
use crate::weights::View;

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
    let chunk = rows_a_chunk(pool, rows.count, width);
    over_rows(pool, &mut Grid::new(stacked, width), rows.count, chunk, |row, stacked| {
        if rows.lane[row] == NO_LANE {
            return;
        }
        let angles = &rope.cos_sin[rows.position[row] as usize * head..][..head];
        A::vectorize(|| {
            for (index, values) in stacked[..rotated].chunks_exact_mut(head).enumerate() {
                let weight = if index < shape.query_heads { &norms.query } else { &norms.key };
                norm_and_rotate::<A>(values, &weight[..head], norms.epsilon, angles);
            }
        });
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

/// `(a, b)` becomes `(a cos - b sin, b cos + a sin)` for each pair `(i, i + width / 2)` of the normed head.
#[inline(always)]
fn norm_and_rotate<A: Arithmetic>(head: &mut [bf16], weight: &[bf16], epsilon: f32, angles: &[f32]) {
    let scale = norm_scale::<A>(head, epsilon);
    let half = head.len() / 2;
    let (low, high) = head.split_at_mut(half);
    let (low_weight, high_weight) = weight.split_at(half);
    let (cosines, sines) = angles.split_at(half);
    for index in 0..half {
        let a = widen(normed(low[index], scale, low_weight[index]));
        let b = widen(normed(high[index], scale, high_weight[index]));
        low[index] = round(a * cosines[index] - b * sines[index]);
        high[index] = round(b * cosines[index] + a * sines[index]);
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
    let chunk = rows_a_chunk(pool, heads, keys.sum::<usize>() * width / rows.count.max(1));
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
                A::vectorize(|| total.merge(&part));
            }
        }
        A::vectorize(|| total.write(out));
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
        A::vectorize(|| {
            let scale = 1.0 / (width as f32).sqrt();
            into.values.fill(0.0);
            for (index, scores) in scores.chunks_exact_mut(count).enumerate() {
                into.highest[index] = highest(scores) * scale;
                for score in scores.iter_mut() {
                    *score = exp(*score * scale - into.highest[index]);
                }
                into.weights[index] = sum(scores);
                weigh::<A>(scores, values, &mut into.values[index * width..(index + 1) * width]);
            }
        });
    }
}

/// Adds `weight * value` of each key, key after key.
#[inline(always)]
fn weigh<A: Arithmetic>(weights: &[f32], values: &[bf16], totals: &mut [f32]) {
    let width = totals.len();
    let (blocks, rest) = totals.as_chunks_mut::<LANES>();
    let done = blocks.len() * LANES;
    for (index, totals) in blocks.iter_mut().enumerate() {
        let mut sums = *totals;
        for (weight, values) in weights.iter().zip(values.chunks_exact(width)) {
            let values = &values[index * LANES..(index + 1) * LANES];
            for (sum, value) in sums.iter_mut().zip(values) {
                *sum = A::multiply_add(*weight, widen(*value), *sum);
            }
        }
        *totals = sums;
    }
    for (weight, values) in weights.iter().zip(values.chunks_exact(width)) {
        for (total, value) in rest.iter_mut().zip(&values[done..]) {
            *total = A::multiply_add(*weight, widen(*value), *total);
        }
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

    /// Adds the keys of the next page.
    #[inline(always)]
    fn merge(&mut self, page: &Softmax<'_>) {
        let width = self.values.len() / self.weights.len();
        let pairs = self.values.chunks_exact_mut(width).zip(page.values.chunks_exact(width));
        for (index, (values, others)) in pairs.enumerate() {
            let highest = self.highest[index].max(page.highest[index]);
            let (mine, theirs) = (exp(self.highest[index] - highest), exp(page.highest[index] - highest));
            self.highest[index] = highest;
            self.weights[index] = self.weights[index] * mine + page.weights[index] * theirs;
            for (value, other) in values.iter_mut().zip(others) {
                *value = *value * mine + other * theirs;
            }
        }
    }

    #[inline(always)]
    fn write(&self, out: &mut [bf16]) {
        let width = self.values.len() / self.weights.len();
        let heads = self.values.chunks_exact(width).zip(out.chunks_exact_mut(width));
        for ((values, out), weight) in heads.zip(self.weights.iter()) {
            for (value, out) in values.iter().zip(out) {
                *out = round(value / weight);
            }
        }
    }
}
