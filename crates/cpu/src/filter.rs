//! Top-k and top-p on one row: the kept candidates, found without sorting the vocabulary.

use std::cmp::Ordering;

use forerunner_tensor::DrawRow;

use crate::arithmetic::Arithmetic;
use crate::math::exp;

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
}

/// Candidates sorted at first for top-p; a head that is too short is grown by the same factor.
const HEAD: usize = 64;

/// Leaves in `candidates` what top-k and then top-p keep; values of negative infinity are out.
pub(crate) fn filter<A: Arithmetic>(
    values: &[f32],
    highest: f32,
    rule: &DrawRow,
    candidates: &mut Vec<Candidate>,
) {
    candidates.clear();
    candidates.reserve(values.len());
    for (token, &value) in values.iter().enumerate() {
        if value > f32::NEG_INFINITY {
            candidates.push(Candidate { value, token: token as u32 });
        }
    }
    let top_k = rule.top_k as usize;
    if top_k > 0 && top_k < candidates.len() {
        candidates.select_nth_unstable_by(top_k - 1, Candidate::order);
        candidates.truncate(top_k);
    }
    if rule.top_p < 1.0 {
        keep_top_p::<A>(candidates, highest, rule.top_p);
    }
}

/// The shortest prefix, in order, that holds `top_p` of the softmax over the candidates; at least one.
fn keep_top_p<A: Arithmetic>(candidates: &mut Vec<Candidate>, highest: f32, top_p: f32) {
    // In order of the tokens, so that the sum does not depend on how the selection went.
    candidates.sort_unstable_by_key(|candidate| candidate.token);
    let weight = |candidate: &Candidate| exp(candidate.value - highest);
    let total: f32 = A::vectorize(|| candidates.iter().map(weight).sum());
    let (mut sorted, mut head, mut sum) = (0, HEAD, 0.0);
    while sorted < candidates.len() {
        let rest = &mut candidates[sorted..];
        if head < rest.len() {
            rest.select_nth_unstable_by(head - 1, Candidate::order);
        }
        let head_len = head.min(rest.len());
        rest[..head_len].sort_unstable_by(Candidate::order);
        for (index, candidate) in rest[..head_len].iter().enumerate() {
            sum += weight(candidate);
            if sum >= top_p * total {
                return candidates.truncate(sorted + index + 1);
            }
        }
        sorted += head_len;
        head *= HEAD;
    }
}
