//! Mixture of experts: the router's picks and the picked experts' feed-forward.

use std::collections::BTreeSet;

use forerunner_tensor::{NO_LANE, RouteRule, Routing, Rows, bf16};

use super::dense::{add, gated_row};
use super::{OracleDevice, OracleExpert, OracleMatrix};

/// Picks experts for every row and counts the distinct ones.
pub(super) fn route(
    router: &OracleMatrix,
    bias: &[f32],
    rule: RouteRule,
    x: &[bf16],
    rows: &Rows<OracleDevice>,
    layer: usize,
    routing: &mut Routing<OracleDevice>,
) {
    let mut distinct = BTreeSet::new();
    for row in 0..rows.count {
        let span = row * rule.picks..(row + 1) * rule.picks;
        if rows.lane[row] == NO_LANE {
            routing.experts[span].fill(-1);
            continue;
        }
        let picked = pick(router, bias, rule, &x[row * router.columns..(row + 1) * router.columns]);
        for (slot, (expert, weight)) in span.zip(picked) {
            distinct.insert(expert);
            routing.experts[slot] = expert as i32;
            routing.weights[slot] = weight;
        }
    }
    routing.distinct[layer] = distinct.len() as i32;
}

/// Experts with their weights, by ascending number. The weights are summed in that order.
fn pick(router: &OracleMatrix, bias: &[f32], rule: RouteRule, x: &[bf16]) -> Vec<(usize, f32)> {
    let scores: Vec<f32> = router.multiply(x).into_iter().map(|logit| 1.0 / (1.0 + (-logit).exp())).collect();
    let mut order: Vec<usize> = (0..scores.len()).collect();
    // A stable sort: equal scores stay in order of number.
    order.sort_by(|left, right| (scores[*right] + bias[*right]).total_cmp(&(scores[*left] + bias[*left])));
    order.truncate(rule.picks);
    order.sort_unstable();
    let mut total = 1.0;
    if rule.normalize {
        total = 0.0;
        for expert in &order {
            total += scores[*expert];
        }
        total += 1e-6;
    }
    order.into_iter().map(|expert| (expert, scores[expert] / total * rule.scale)).collect()
}

/// Adds the weighted outputs of each row's experts to the residual.
pub(super) fn expert_feed_forward(
    experts: &[OracleExpert],
    routing: &Routing<OracleDevice>,
    picks: usize,
    x: &[bf16],
    rows: &Rows<OracleDevice>,
    residual: &mut [bf16],
) {
    let width = experts[0].gate_up.columns;
    for row in (0..rows.count).filter(|row| rows.lane[*row] != NO_LANE) {
        let mut sums = vec![0.0; width];
        for pick in row * picks..(row + 1) * picks {
            let expert = &experts[routing.experts[pick] as usize];
            let output = gated_row(&expert.gate_up, &expert.down, &x[row * width..(row + 1) * width]);
            for (sum, output) in sums.iter_mut().zip(output) {
                *sum += routing.weights[pick] * bf16::from_f32(output).to_f32();
            }
        }
        for (residual, sum) in residual[row * width..(row + 1) * width].iter_mut().zip(sums) {
            add(residual, sum);
        }
    }
}
