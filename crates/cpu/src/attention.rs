//! Softmax attention over pages: one partition a page, merged in page order.

use forerunner_tensor::{HeadShape, KeyValuePages, NO_LANE, PAGE, PageTable, Rows, bf16};

use crate::CpuDevice;
use crate::arithmetic::{Arithmetic, kernels};
use crate::grid::{Grid, over_rows, over_rows_of_two};
use crate::linear::with_sums;
use crate::math::{exp, highest, round, sum, widen};
use crate::memory::Scratch;
use crate::norm::rows_a_chunk;
use crate::pool::Pool;
use crate::weights::View;

/// Nanoseconds that a value of a key takes for a query head.
const KEY_COST: f32 = 0.05;
/// Groups a thread below which threads share a group's pages: a long context of one reply is work for all of them.
const FEW_GROUPS: usize = 4;

/// What attention reads: a row's query heads that share a key head are a group.
#[derive(Clone, Copy)]
pub(crate) struct Groups<'a> {
    pub(crate) stacked: &'a [bf16],
    pub(crate) shape: HeadShape,
    pub(crate) rows: &'a Rows<CpuDevice>,
    pub(crate) table: &'a PageTable<CpuDevice>,
    pub(crate) pages: &'a KeyValuePages<CpuDevice>,
}

/// Softmax attention of every group. `parts` is scratch.
pub(crate) fn attention<A: Arithmetic>(
    pool: &Pool,
    parts: &mut Scratch<f32>,
    groups: Groups<'_>,
    out: &mut [bf16],
) {
    let (count, out) = (groups.count(), &mut Grid::new(out, groups.width()));
    let pages = groups.key_ends().max().unwrap_or(0).div_ceil(PAGE);
    if pages > 1 && pool.threads() > 1 && count < FEW_GROUPS * pool.threads() {
        return attend_by_page::<A>(pool, parts, groups, pages, out);
    }
    let keys = groups.key_ends().sum::<usize>() / groups.rows.count.max(1);
    let chunk = rows_a_chunk(pool, count, KEY_COST * (keys * groups.width()) as f32);
    over_rows(pool, out, count, chunk, |index, out| {
        let Some(group) = groups.get(index) else { return };
        let part = groups.part_len();
        with_sums(group.scores_len() + 2 * part, |scratch| {
            let (scores, parts) = scratch.split_at_mut(group.scores_len());
            let (total, other) = parts.split_at_mut(part);
            group.attend::<A>(scores, group.softmax(total), group.softmax(other), out);
        });
    });
}

/// As threads work on the pages of every group at once, which leaves a partition for each of `pages` pages to be merged.
fn attend_by_page<A: Arithmetic>(
    pool: &Pool,
    parts: &mut Scratch<f32>,
    groups: Groups<'_>,
    pages: usize,
    out: &mut Grid<'_, bf16>,
) {
    let (count, part) = (groups.count(), groups.part_len());
    let parts = parts.take(count * pages * part);
    over_rows(pool, &mut Grid::new(parts, part), count * pages, 1, |index, part| {
        let page = index % pages;
        if let Some(group) = groups.get(index / pages).filter(|group| page < group.pages()) {
            with_sums(group.scores_len(), |scores| {
                group.attend_page::<A>(page, scores, &mut group.softmax(part));
            });
        }
    });
    over_rows_of_two(pool, out, &mut Grid::new(parts, pages * part), count, 1, |index, out, parts| {
        let Some(group) = groups.get(index) else { return };
        let mut parts = parts.chunks_exact_mut(part).take(group.pages()).map(|part| group.softmax(part));
        if let Some(mut total) = parts.next() {
            parts.for_each(|page| merge::<A>(&mut total, &page));
            write::<A>(&total, out);
        }
    });
}

impl<'a> Groups<'a> {
    fn count(&self) -> usize {
        self.rows.count * self.shape.key_value_heads
    }

    /// Query heads of a group.
    fn heads(&self) -> usize {
        self.shape.query_heads / self.shape.key_value_heads
    }

    /// Values that a group's queries are, and its outputs.
    fn width(&self) -> usize {
        self.heads() * self.shape.head_dim
    }

    /// Room for the partition of a page.
    fn part_len(&self) -> usize {
        self.width() + 2 * self.heads()
    }

    /// How many keys each row sees.
    fn key_ends(&self) -> impl Iterator<Item = usize> {
        let rows = self.rows;
        (0..rows.count).map(|row| if rows.lane[row] == NO_LANE { 0 } else { rows.key_end[row] as usize })
    }

    /// A group, unless its row is of no lane.
    fn get(self, index: usize) -> Option<Group<'a>> {
        let (row, head) = (index / self.shape.key_value_heads, index % self.shape.key_value_heads);
        let is_of_lane = self.rows.lane[row] != NO_LANE;
        is_of_lane.then(|| Group { groups: self, row, head, key_end: self.rows.key_end[row] as usize })
    }
}

/// The query heads of a row that share key head `head`, which see keys `0..key_end` of the row's lane.
struct Group<'a> {
    groups: Groups<'a>,
    row: usize,
    head: usize,
    key_end: usize,
}

impl Group<'_> {
    fn pages(&self) -> usize {
        self.key_end.div_ceil(PAGE)
    }

    /// Room for the scores of a page.
    fn scores_len(&self) -> usize {
        self.groups.heads() * PAGE
    }

    /// A partition in a room of [`Groups::part_len`].
    fn softmax<'s>(&self, room: &'s mut [f32]) -> Softmax<'s> {
        let (highest, rest) = room.split_at_mut(self.groups.heads());
        let (weights, values) = rest.split_at_mut(self.groups.heads());
        Softmax { highest, weights, values }
    }

    /// Page after page, each merged as soon as it is there.
    fn attend<'s, A: Arithmetic>(
        &self,
        scores: &mut [f32],
        mut total: Softmax<'s>,
        mut part: Softmax<'s>,
        out: &mut [bf16],
    ) {
        for page in 0..self.pages() {
            let into = if page == 0 { &mut total } else { &mut part };
            self.attend_page::<A>(page, scores, into);
            if page > 0 {
                merge::<A>(&mut total, &part);
            }
        }
        write::<A>(&total, out);
    }

    /// The partition of one page.
    fn attend_page<A: Arithmetic>(&self, page: usize, scores: &mut [f32], into: &mut Softmax<'_>) {
        let Groups { stacked, shape, rows, table, pages } = self.groups;
        let (width, heads) = (shape.head_dim, self.groups.heads());
        let queries = &stacked[self.row * shape.stacked_width() + self.head * heads * width..];
        let count = (self.key_end - page * PAGE).min(PAGE);
        let start = page_start(table, shape, rows.lane[self.row], self.head, page);
        let keys = &pages.keys[start..start + count * width];
        let values = &pages.values[start..start + count * width];
        let scores = &mut scores[..heads * count];
        A::products(View::Dense(keys), width, 0..count, queries, heads, scores, count);
        soften::<A>(scores, 1.0 / (width as f32).sqrt(), into);
        weigh::<A>(scores, values, width, into.values);
    }
}

/// Where a head's keys (and values) of one page of a lane begin.
pub(crate) fn page_start(
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
