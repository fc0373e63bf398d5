//! Attention over pages: head norms and rope with append, and softmax attention merged in page order.

use std::ops::Range;

use forerunner_tensor::{
    HeadNorms, HeadShape, KeyValuePages, NO_LANE, PAGE, PageTable, RopeTable, Rows, bf16,
};

use super::OracleDevice;
use super::dense::norm_row;
use super::memory::dot;

/// Norms and rotates queries and keys; appends keys and values to the rows' pages.
pub(super) fn rope_append(
    stacked: &mut [bf16],
    shape: HeadShape,
    norms: &HeadNorms<OracleDevice>,
    rope: &RopeTable<OracleDevice>,
    rows: &Rows<OracleDevice>,
    table: &PageTable<OracleDevice>,
    pages: &mut KeyValuePages<OracleDevice>,
) {
    let width = shape.head_dim;
    for row in (0..rows.count).filter(|row| rows.lane[*row] != NO_LANE) {
        let position = rows.position[row] as usize;
        let angles = &rope.cos_sin[position * width..(position + 1) * width];
        let stacked = &mut stacked[row * shape.stacked_width()..(row + 1) * shape.stacked_width()];
        let (queries, rest) = stacked.split_at_mut(shape.query_heads * width);
        let (keys, values) = rest.split_at_mut(shape.key_value_heads * width);
        for query in queries.chunks_exact_mut(width) {
            norm_and_rotate(query, &norms.query, norms.epsilon, angles);
        }
        for key in keys.chunks_exact_mut(width) {
            norm_and_rotate(key, &norms.key, norms.epsilon, angles);
        }
        for head in 0..shape.key_value_heads {
            let slot = slot(table, shape, rows.lane[row], head, position);
            pages.keys[slot.clone()].copy_from_slice(&keys[head * width..(head + 1) * width]);
            pages.values[slot].copy_from_slice(&values[head * width..(head + 1) * width]);
        }
    }
}

/// `(a, b)` becomes `(a cos - b sin, b cos + a sin)` for each pair `(i, i + width / 2)` of the normed head.
fn norm_and_rotate(head: &mut [bf16], weight: &[bf16], epsilon: f32, angles: &[f32]) {
    let mut normed = vec![bf16::ZERO; head.len()];
    norm_row(head, weight, epsilon, &mut normed);
    let half = head.len() / 2;
    for i in 0..half {
        let (a, b) = (normed[i].to_f32(), normed[half + i].to_f32());
        let (cos, sin) = (angles[i], angles[half + i]);
        head[i] = bf16::from_f32(a * cos - b * sin);
        head[half + i] = bf16::from_f32(b * cos + a * sin);
    }
}

/// Where a head's key (or value) of one position lies in the pages.
fn slot(
    table: &PageTable<OracleDevice>,
    shape: HeadShape,
    lane: i32,
    head: usize,
    position: usize,
) -> Range<usize> {
    assert!(position < table.pages_per_lane * PAGE, "position {position} past the lane's last page");
    let page = table.pages[lane as usize * table.pages_per_lane + position / PAGE] as usize;
    let start = ((page * shape.key_value_heads + head) * PAGE + position % PAGE) * shape.head_dim;
    start..start + shape.head_dim
}

/// Softmax attention of every row and query head.
pub(super) fn attention(
    stacked: &[bf16],
    shape: HeadShape,
    rows: &Rows<OracleDevice>,
    table: &PageTable<OracleDevice>,
    pages: &KeyValuePages<OracleDevice>,
    out: &mut [bf16],
) {
    let width = shape.head_dim;
    let group = shape.query_heads / shape.key_value_heads;
    for row in (0..rows.count).filter(|row| rows.lane[*row] != NO_LANE) {
        for head in 0..shape.query_heads {
            let query = &stacked[row * shape.stacked_width() + head * width..][..width];
            let slot = |position| slot(table, shape, rows.lane[row], head / group, position);
            let sum = attend(query, rows.key_end[row] as usize, pages, slot);
            let out = &mut out[(row * shape.query_heads + head) * width..][..width];
            for (out, value) in out.iter_mut().zip(&sum.values) {
                *out = bf16::from_f32(value / sum.weight);
            }
        }
    }
}

/// Keys `0..key_end`, one partition a page, merged in page order.
fn attend(
    query: &[bf16],
    key_end: usize,
    pages: &KeyValuePages<OracleDevice>,
    slot: impl Fn(usize) -> Range<usize>,
) -> SoftmaxSum {
    let mut sum = SoftmaxSum::empty(query.len());
    for start in (0..key_end).step_by(PAGE) {
        sum.merge(attend_page(query, start..key_end.min(start + PAGE), pages, &slot));
    }
    sum
}

fn attend_page(
    query: &[bf16],
    positions: Range<usize>,
    pages: &KeyValuePages<OracleDevice>,
    slot: &impl Fn(usize) -> Range<usize>,
) -> SoftmaxSum {
    let scale = 1.0 / (query.len() as f32).sqrt();
    let scores: Vec<f32> =
        positions.clone().map(|position| dot(query, &pages.keys[slot(position)]) * scale).collect();
    let mut sum = SoftmaxSum::empty(query.len());
    sum.highest = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    for (position, score) in positions.zip(scores) {
        let weight = (score - sum.highest).exp();
        sum.weight += weight;
        for (total, value) in sum.values.iter_mut().zip(&pages.values[slot(position)]) {
            *total += weight * value.to_f32();
        }
    }
    sum
}

/// Values summed with weights `exp(score - highest)`, and the sum of those weights.
struct SoftmaxSum {
    highest: f32,
    weight: f32,
    values: Vec<f32>,
}

impl SoftmaxSum {
    fn empty(width: usize) -> Self {
        SoftmaxSum { highest: f32::NEG_INFINITY, weight: 0.0, values: vec![0.0; width] }
    }

    /// Adds the keys of the next page.
    fn merge(&mut self, page: SoftmaxSum) {
        let highest = self.highest.max(page.highest);
        let (mine, theirs) = ((self.highest - highest).exp(), (page.highest - highest).exp());
        self.highest = highest;
        self.weight = self.weight * mine + page.weight * theirs;
        for (value, other) in self.values.iter_mut().zip(&page.values) {
            *value = *value * mine + other * theirs;
        }
    }
}
