//! Mixture of experts: the router's picks, and the picked experts with each weight read once for all its rows.

use forerunner_tensor::{DeviceError, ExpertWeights, NO_LANE, RouteRule, Rows, bf16};

use crate::CpuDevice;
use crate::arithmetic::{Arithmetic, kernels};
use crate::feed_forward::activate;
use crate::grid::{Grid, over_columns, over_groups};
use crate::linear::{linear, tile_width, with_sums};
use crate::math::{add, round, sigmoid, widen};
use crate::memory::Scratch;
use crate::pool::Pool;
use crate::weights::Matrix;

/// The experts of one layer.
pub struct Experts {
    gate_up: Vec<Matrix>,
    down: Vec<Matrix>,
}

impl Experts {
    pub(crate) fn load<'a>(
        weights: &mut dyn ExactSizeIterator<Item = ExpertWeights<'a>>,
    ) -> Result<Self, DeviceError> {
        let mut experts = Experts { gate_up: Vec::new(), down: Vec::new() };
        for expert in weights {
            experts.gate_up.push(Matrix::load(&[expert.gate, expert.up])?);
            experts.down.push(Matrix::load(&[expert.down])?);
        }
        Ok(experts)
    }
}

/// Scratch of both operations.
pub(crate) struct ExpertScratch {
    logits: Scratch<f32>,
    gathered: Scratch<bf16>,
    active: Scratch<bf16>,
    order: Vec<Pick>,
    /// Where each group of picks of one expert begins, and the end.
    bounds: Vec<usize>,
}

/// One row's use of one expert.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Pick {
    expert: usize,
    row: usize,
    weight: f32,
}

impl ExpertScratch {
    pub(crate) fn new() -> Self {
        ExpertScratch {
            logits: Scratch::new(),
            gathered: Scratch::new(),
            active: Scratch::new(),
            order: Vec::new(),
            bounds: Vec::new(),
        }
    }

    /// Sorts the picks of all rows by expert, then by row.
    fn group(&mut self, experts: &[i32], weights: &[f32], picks: usize, rows: &Rows<CpuDevice>) {
        self.order.clear();
        for row in (0..rows.count).filter(|&row| rows.lane[row] != NO_LANE) {
            let span = row * picks..(row + 1) * picks;
            for (&expert, &weight) in experts[span.clone()].iter().zip(&weights[span]) {
                self.order.push(Pick { expert: expert as usize, row, weight });
            }
        }
        self.order.sort_unstable_by_key(|pick| (pick.expert, pick.row));
        self.bounds.clear();
        for (index, pick) in self.order.iter().enumerate() {
            if index == 0 || pick.expert != self.order[index - 1].expert {
                self.bounds.push(index);
            }
        }
        self.bounds.push(self.order.len());
    }
}

/// The picks that a routing holds.
pub(crate) struct Picks<'a> {
    pub(crate) experts: &'a [i32],
    pub(crate) weights: &'a [f32],
    pub(crate) count: usize,
}

/// `residual = bf16(residual + bf16(sum over picks of weight * bf16(down · act)))`, by ascending expert.
pub(crate) fn expert_feed_forward<A: Arithmetic>(
    pool: &Pool,
    scratch: &mut ExpertScratch,
    experts: &Experts,
    picks: Picks<'_>,
    x: &[bf16],
    rows: &Rows<CpuDevice>,
    residual: &mut [bf16],
) {
    scratch.group(picks.experts, picks.weights, picks.count, rows);
    let ExpertScratch { gathered, active, order, bounds, .. } = scratch;
    let (Some(first), true) = (experts.down.first(), !order.is_empty()) else { return };
    let (width, intermediate) = (first.rows(), first.columns());
    let gathered = gather(gathered, order, x, width);
    let active = active.take(order.len() * intermediate);

    let groups = bounds.len() - 1;
    let tile = tile_width::<A>(pool, groups * intermediate, 2 * width, order.len().div_ceil(groups));
    let tile = tile.min(intermediate.next_multiple_of(A::TILE_OUTPUTS));
    over_groups(pool, &mut Grid::new(active, intermediate), bounds, tile, |patch, mut block| {
        let (start, end) = (bounds[patch.group], bounds[patch.group + 1]);
        let gate_up = &experts.gate_up[order[start].expert];
        activate::<A>(gate_up, &gathered[start * width..], end - start, patch.columns, &mut block);
    });

    let down = Down { experts, order, bounds, active };
    let tile = tile_width::<A>(pool, width, groups * intermediate, order.len().div_ceil(groups));
    over_columns(pool, &mut Grid::new(residual, width), rows.count, tile, |columns, mut block| {
        let touched = rows.count * columns.len();
        let most = bounds.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or(0);
        with_sums(touched + most * columns.len(), |sums| {
            let (totals, sums) = sums.split_at_mut(touched);
            down.totals::<A>(columns.clone(), totals, sums);
            for row in (0..rows.count).filter(|&row| rows.lane[row] != NO_LANE) {
                add_totals::<A>(block.row(row), &totals[row * columns.len()..(row + 1) * columns.len()]);
            }
        });
    });
}

/// The rows of `x` that the picks read, in the order of the picks.
fn gather<'a>(scratch: &'a mut Scratch<bf16>, order: &[Pick], x: &[bf16], width: usize) -> &'a [bf16] {
    let gathered = scratch.take(order.len() * width);
    for (out, pick) in gathered.chunks_exact_mut(width).zip(order) {
        out.copy_from_slice(&x[pick.row * width..(pick.row + 1) * width]);
    }
    gathered
}

/// The second half of the picked experts.
struct Down<'a> {
    experts: &'a Experts,
    order: &'a [Pick],
    bounds: &'a [usize],
    active: &'a [bf16],
}

impl Down<'_> {
    /// Writes the weighted sums over experts of some outputs to `totals[rows, outputs]`; `sums` is scratch.
    fn totals<A: Arithmetic>(&self, outputs: std::ops::Range<usize>, totals: &mut [f32], sums: &mut [f32]) {
        let width = outputs.len();
        totals.fill(0.0);
        for pair in self.bounds.windows(2) {
            let picks = &self.order[pair[0]..pair[1]];
            let down = &self.experts.down[picks[0].expert];
            let active = &self.active[pair[0] * down.columns()..pair[1] * down.columns()];
            A::matrix_products(down, outputs.clone(), active, picks.len(), sums);
            for (pick, sums) in picks.iter().zip(sums.chunks_exact(width)) {
                weigh::<A>(pick.weight, sums, &mut totals[pick.row * width..(pick.row + 1) * width]);
            }
        }
    }
}

kernels! {
    fn add_totals<A>(residual: &mut [bf16], totals: &[f32]) -> () {
        for (residual, total) in residual.iter_mut().zip(totals) {
            add(residual, *total);
        }
    }

    /// Adds an expert's rounded outputs with its weight.
    fn weigh<A>(weight: f32, outputs: &[f32], totals: &mut [f32]) -> () {
        for (total, output) in totals.iter_mut().zip(outputs) {
            *total += weight * widen(round(*output));
        }
    }

    fn to_scores<A>(logits: &mut [f32]) -> () {
        for logit in logits {
            *logit = sigmoid(*logit);
        }
    }
}

/// Where [`route`] writes.
pub(crate) struct Routed<'a> {
    pub(crate) experts: &'a mut [i32],
    pub(crate) weights: &'a mut [f32],
    pub(crate) distinct: &'a mut i32,
}

/// Picks experts for every row and counts the distinct ones.
pub(crate) fn route<A: Arithmetic>(
    pool: &Pool,
    scratch: &mut ExpertScratch,
    router: &Matrix,
    bias: &[f32],
    rule: RouteRule,
    x: &[bf16],
    rows: &Rows<CpuDevice>,
    out: Routed<'_>,
) {
    let experts = router.rows();
    // The second half of the scratch marks the experts that some row picked.
    let logits = scratch.logits.take((rows.count + 1) * experts);
    let (logits, seen) = logits.split_at_mut(rows.count * experts);
    linear::<A, f32>(pool, router, x, rows.count, logits, |out, sum| *out = sum);
    seen.fill(0.0);
    for (row, logits) in logits.chunks_exact_mut(experts).enumerate() {
        let span = row * rule.picks..(row + 1) * rule.picks;
        let picked = &mut out.experts[span.clone()];
        if rows.lane[row] == NO_LANE {
            picked.fill(-1);
            continue;
        }
        to_scores::<A>(logits);
        pick(logits, bias, rule, picked, &mut out.weights[span]);
        for &expert in picked.iter() {
            seen[expert as usize] = 1.0;
        }
    }
    *out.distinct = seen.iter().filter(|&&seen| seen > 0.0).count() as i32;
}

/// The highest biased scores, ties to the lower number; then by ascending number with their unbiased weights.
fn pick(scores: &[f32], bias: &[f32], rule: RouteRule, picked: &mut [i32], weights: &mut [f32]) {
    for slot in 0..picked.len() {
        let mut best: Option<(usize, f32)> = None;
        for (expert, (score, bias)) in scores.iter().zip(bias).enumerate() {
            let biased = score + bias;
            if best.is_none_or(|(_, best)| biased > best) && !picked[..slot].contains(&(expert as i32)) {
                best = Some((expert, biased));
            }
        }
        let (expert, _) = best.expect("as many experts as picks");
        picked[slot] = expert as i32;
    }
    picked.sort_unstable();
    let mut total = 1.0;
    if rule.normalize {
        total = picked.iter().fold(0.0, |total, &expert| total + scores[expert as usize]) + 1e-6;
    }
    for (weight, &expert) in weights.iter_mut().zip(picked.iter()) {
        *weight = scores[expert as usize] / total * rule.scale;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn picks_are_the_highest_biased_scores_with_ties_to_the_lower_number() {
        let (mut picked, mut weights) = ([0; 3], [0.0; 3]);
        let rule = RouteRule { picks: 3, normalize: false, scale: 2.0 };
        pick(&[0.5, 0.25, 0.5, 0.5, 0.125], &[0.0, 0.5, 0.0, 0.0, 0.0], rule, &mut picked, &mut weights);
        assert_eq!((picked, weights), ([0, 1, 2], [1.0, 0.5, 1.0]));
        let rule = RouteRule { picks: 3, normalize: true, scale: 1.0 };
        pick(&[0.5, 0.25, 0.5, 0.5, 0.125], &[0.0; 5], rule, &mut picked, &mut weights);
        assert_eq!(picked, [0, 2, 3]);
        assert!((weights.iter().sum::<f32>() - 1.0).abs() < 1e-5);
    }
}
