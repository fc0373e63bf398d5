//! The chance that a draft is accepted: from the drafter's confidence, or from the lane's own record.

use crate::target::{HeldDraft, MAX_WINDOW, TokenId};

/// What one judged draft moves a lane's acceptance rate: high follows the text faster, low is steadier.
pub(crate) const LANE_WEIGHT: f32 = 0.15;

/// What it moves the rates of all lanes, with which the next one begins: those of the last few replies.
pub(crate) const SHARED_WEIGHT: f32 = 0.05;

/// Acceptance rates assumed by depth before any lane has a record; the last one stands for all deeper ones. Too
/// high wastes a few rounds of a lane whose drafts are poor, too low delays a lane whose drafts are good.
const RATE_PRIORS: [f32; 7] = [0.85, 0.75, 0.70, 0.65, 0.60, 0.55, 0.50];

/// Temperatures of the confidence logits by depth, fitted apart for greedy and for sampled lanes; 1 past the end.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Calibration {
    /// For lanes at temperature 0.
    pub greedy: Vec<f32>,
    /// For all others.
    pub sampled: Vec<f32>,
}

impl Calibration {
    pub(crate) fn temperatures(&self, sampling_temperature: f32) -> &[f32] {
        if sampling_temperature > 0.0 { &self.sampled } else { &self.greedy }
    }
}

/// An acceptance rate at each depth, given that all drafts before were accepted: a lane's own, or of all of them.
#[derive(Debug, Clone)]
pub(crate) struct Rates([f32; MAX_WINDOW - 1]);

impl Default for Rates {
    fn default() -> Self {
        Rates(std::array::from_fn(|depth| RATE_PRIORS[depth.min(RATE_PRIORS.len() - 1)]))
    }
}

impl Rates {
    /// The same chance at every depth.
    pub(crate) fn seeded(chance: f32) -> Self {
        Rates([chance; MAX_WINDOW - 1])
    }

    /// Learns from held drafts and the draws that answer them, up to the first miss. The draw after the last
    /// verified draft judges one draft that had no row, for free: so a lane that is granted nothing still learns.
    pub(crate) fn judge(&mut self, drafts: impl Iterator<Item = TokenId>, drawn: &[TokenId], weight: f32) {
        for ((rate, draft), draw) in self.0.iter_mut().zip(drafts).zip(drawn) {
            let hit = draft == *draw;
            *rate += weight * (f32::from(u8::from(hit)) - *rate);
            if !hit {
                break;
            }
        }
    }

    /// Chances of the first `depth` drafts, appended to `chances`.
    pub(crate) fn chances(&self, depth: usize, chances: &mut Vec<f32>) {
        let mut survival = 1.0;
        for rate in &self.0[..depth] {
            survival *= rate;
            chances.push(survival);
        }
    }
}

/// Chances of held drafts by their confidences, appended to `chances`.
pub(crate) fn survivals(drafts: &[HeldDraft], temperatures: &[f32], chances: &mut Vec<f32>) {
    let mut survival = 1.0;
    for (depth, draft) in drafts.iter().enumerate() {
        let temperature = temperatures.get(depth).copied().unwrap_or(1.0);
        let chance = 1.0 / (1.0 + (-draft.confidence / temperature).exp());
        // A drafter that cannot say gives no reason to verify.
        survival *= if chance.is_nan() { 0.0 } else { chance };
        chances.push(survival);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lane_without_a_record_has_the_priors() {
        let mut chances = Vec::new();
        Rates::default().chances(3, &mut chances);
        for (chance, expected) in chances.iter().zip([0.85, 0.6375, 0.44625]) {
            assert!((chance - expected).abs() < 1e-6, "{chance} is not {expected}");
        }
    }

    #[test]
    fn drafts_past_the_first_miss_are_not_judged() {
        let mut rates = Rates::default();
        rates.judge([1, 2, 3].into_iter(), &[1, 9, 3], LANE_WEIGHT);
        assert!(rates.0[0] > RATE_PRIORS[0] && rates.0[1] < RATE_PRIORS[1]);
        assert_eq!(rates.0[2], RATE_PRIORS[2]);
    }

    #[test]
    fn one_draw_judges_the_first_draft_of_a_lane_that_verified_none() {
        let mut rates = Rates::default();
        rates.judge([1, 2].into_iter(), &[1], LANE_WEIGHT);
        assert!(rates.0[0] > RATE_PRIORS[0]);
        assert_eq!(rates.0[1], RATE_PRIORS[1]);
    }

    #[test]
    fn survivals_multiply_calibrated_confidences() {
        let mut chances = Vec::new();
        let drafts = [1.0, 2.0, f32::NAN].map(|confidence| HeldDraft { token: 0, confidence });
        survivals(&drafts, &[0.5], &mut chances);
        let sigmoid = |logit: f32| 1.0 / (1.0 + (-logit).exp());
        assert_eq!(chances, [sigmoid(2.0), sigmoid(2.0) * sigmoid(2.0), 0.0]);
    }
}
