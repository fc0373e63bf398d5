//! Top-k and top-p on one row: the kept candidates, found without sorting the vocabulary.

use std::cmp::Ordering;

use forerunner_tensor::DrawRow;

use crate::arithmetic::{Arithmetic, kernels};
use crate::math::{LANES, exp, padded, sum_lanes};

/// A token and its value after penalties and temperature.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Candidate {
    pub(crate) value: f32,
    pub(crate) token: u32,
}

impl Candidate {
    /// By value (descending), then by id (ascending).
    fn order(&self, other: &Candidate) -> Ordering {
        other.value.total_cmp(&self.value).then(self.token.cmp(&other.token))
    }

    /// Its probability, over that of the best.
    fn weight(&self, highest: f32) -> f32 {
        exp(self.value - highest)
    }
}

/// Candidates sorted at first for top-p; a head that is too short is grown by the same factor.
const HEAD: usize = 64;

/// How far below the best value candidates are looked for at first, and then. Most of the vocabulary is farther
/// away and is never listed.
const REACHES: [f32; 3] = [8.0, 16.0, f32::INFINITY];

/// Leaves in `candidates` what top-k and then top-p keep; values of negative infinity are out.
pub(crate) fn filter<A: Arithmetic>(
    values: &[f32],
    highest: f32,
    rule: &DrawRow,
    candidates: &mut Vec<Candidate>,
) {
    let top_k = if rule.top_k == 0 { values.len() } else { rule.top_k as usize };
    let total = if rule.top_k == 0 { total_weight::<A>(values, highest) } else { 0.0 };
    for reach in REACHES {
        collect(values, highest - reach, candidates);
        let all = reach == f32::INFINITY;
        if rule.top_k > 0 && (candidates.len() >= top_k || all) {
            keep_top_k(candidates, top_k);
            if rule.top_p < 1.0 {
                let total = candidates.iter().map(|candidate| candidate.weight(highest)).sum();
                keep_top_p(candidates, highest, rule.top_p, total);
            }
            return;
        }
        if rule.top_k == 0 && keep_top_p(candidates, highest, rule.top_p, total) {
            return;
        }
    }
}

kernels! {
    /// The sum of `e^(value - highest)`.
    pub(crate) fn total_weight<A>(values: &[f32], highest: f32) -> f32 {
        let mut lanes = [0.0; LANES];
        let (blocks, rest) = values.as_chunks::<LANES>();
        for block in blocks {
            add_weights(&mut lanes, block, highest);
        }
        add_weights(&mut lanes, &padded(rest, f32::NEG_INFINITY), highest);
        sum_lanes(&lanes)
    }
}

#[inline(always)]
fn add_weights(lanes: &mut [f32; LANES], block: &[f32; LANES], highest: f32) {
    for lane in 0..LANES {
        lanes[lane] += exp(block[lane] - highest);
    }
}

/// Lists the values from `lowest` on, by token.
fn collect(values: &[f32], lowest: f32, candidates: &mut Vec<Candidate>) {
    candidates.clear();
    candidates.reserve(values.len());
    for (token, &value) in values.iter().enumerate() {
        if value >= lowest && value > f32::NEG_INFINITY {
            candidates.push(Candidate { value, token: token as u32 });
        }
    }
}

/// The first `top_k` in order, left in order of tokens so that sums over them do not depend on the selection.
fn keep_top_k(candidates: &mut Vec<Candidate>, top_k: usize) {
    if top_k < candidates.len() {
        candidates.select_nth_unstable_by(top_k - 1, Candidate::order);
        candidates.truncate(top_k);
        candidates.sort_unstable_by_key(|candidate| candidate.token);
    }
}

/// The shortest prefix, in order, whose weights reach `top_p` of `total`. Whether the candidates reach it.
fn keep_top_p(candidates: &mut Vec<Candidate>, highest: f32, top_p: f32, total: f32) -> bool {
    let (mut sorted, mut head, mut sum) = (0, HEAD, 0.0);
    while sorted < candidates.len() {
        let rest = &mut candidates[sorted..];
        if head < rest.len() {
            rest.select_nth_unstable_by(head - 1, Candidate::order);
        }
        let head_len = head.min(rest.len());
        rest[..head_len].sort_unstable_by(Candidate::order);
        for (index, candidate) in rest[..head_len].iter().enumerate() {
            sum += candidate.weight(highest);
            if sum >= top_p * total {
                candidates.truncate(sorted + index + 1);
                return true;
            }
        }
        sorted += head_len;
        head *= HEAD;
    }
    false
}
