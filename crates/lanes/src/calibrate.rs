//! Calibration: temperatures that make the drafter's confidences true, fitted from rounds that ran.

use crate::chances::Calibration;
use crate::target::{HeldDraft, MAX_WINDOW};

/// Temperatures that are tried on either side of 1, spread evenly by ratio.
const STEPS: i32 = 32;

/// The lowest one, and the inverse of the highest: beyond them a confidence says nothing.
const LOWEST: f64 = 0.25;

/// Bins of predicted chance in which prediction and outcome are compared.
const BINS: usize = 20;

/// Samples that a depth needs before it is fitted; fewer would fit their noise.
const SAMPLES_LEAST: usize = 100;

/// What the drafter said of one window's drafts, and what became of them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ConfidenceSample {
    /// Whether the lane drew at a temperature above 0.
    pub sampled: bool,
    /// Drafts that were made.
    pub held: usize,
    /// Drafts among them that had rows.
    pub verified: usize,
    /// Drafts among those that were accepted.
    pub accepted: usize,
    /// Raw logits, the first `held` of them.
    pub logits: [f32; MAX_WINDOW - 1],
}

impl ConfidenceSample {
    pub(crate) fn new(sampled: bool, drafts: &[HeldDraft], verified: usize, accepted: usize) -> Self {
        let mut logits = [0.0; MAX_WINDOW - 1];
        logits.iter_mut().zip(drafts).for_each(|(logit, draft)| *logit = draft.confidence);
        ConfidenceSample { sampled, held: drafts.len().min(logits.len()), verified, accepted, logits }
    }

    /// Whether the first `drafts` were all accepted; nothing when that is not known.
    fn outcome(&self, drafts: usize) -> Option<bool> {
        let missed = self.accepted < self.verified;
        (drafts <= self.verified || missed).then_some(drafts <= self.accepted)
    }
}

impl Calibration {
    /// Fits temperatures depth by depth, each so that the chance of the whole prefix is as true as it can be with
    /// those before it fixed. Depths with few samples keep 1.
    pub fn fit(samples: &[ConfidenceSample]) -> Calibration {
        let of = |sampled: bool| -> Vec<&ConfidenceSample> {
            samples.iter().filter(|sample| sample.sampled == sampled).collect()
        };
        Calibration { greedy: fit(&of(false)), sampled: fit(&of(true)) }
    }
}

/// A sample's place at one depth.
struct Point {
    /// Chance of the drafts before.
    before: f64,
    logit: f64,
    accepted: bool,
}

fn fit(samples: &[&ConfidenceSample]) -> Vec<f32> {
    let mut survivals = vec![1.0; samples.len()];
    let mut temperatures = Vec::new();
    for depth in 0..MAX_WINDOW - 1 {
        let points: Vec<Point> = samples
            .iter()
            .zip(&survivals)
            .filter(|(sample, _)| depth < sample.held && sample.logits[depth].is_finite())
            .filter_map(|(sample, &before)| {
                let logit = f64::from(sample.logits[depth]);
                Some(Point { before, logit, accepted: sample.outcome(depth + 1)? })
            })
            .collect();
        if points.len() < SAMPLES_LEAST {
            break;
        }
        let temperature = best_temperature(&points);
        temperatures.push(temperature as f32);
        for (sample, survival) in samples.iter().zip(&mut survivals) {
            *survival *= chance(f64::from(sample.logits[depth]), temperature);
        }
    }
    temperatures
}

/// The temperature of the least error; of equal ones the nearest to 1.
fn best_temperature(points: &[Point]) -> f64 {
    let by_distance = (0..=STEPS).flat_map(|step| [step, -step]);
    let temperatures = by_distance.map(|step| LOWEST.powf(f64::from(step) / f64::from(STEPS)));
    let (mut best, mut least) = (1.0, f64::INFINITY);
    for temperature in temperatures {
        let error = calibration_error(points, temperature);
        if error < least {
            (best, least) = (temperature, error);
        }
    }
    best
}

/// Expected calibration error: how far the mean prediction of a bin is from its mean outcome, over all bins.
fn calibration_error(points: &[Point], temperature: f64) -> f64 {
    let mut bins = [0.0; BINS];
    for point in points {
        let predicted = point.before * chance(point.logit, temperature);
        let bin = ((predicted * BINS as f64) as usize).min(BINS - 1);
        bins[bin] += predicted - f64::from(u8::from(point.accepted));
    }
    bins.iter().map(|sum: &f64| sum.abs()).sum::<f64>() / points.len() as f64
}

fn chance(logit: f64, temperature: f64) -> f64 {
    1.0 / (1.0 + (-logit / temperature).exp())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::Random;

    const DEPTH: usize = 4;

    /// Rounds of a drafter whose logits are the true ones times `factors`, by depth.
    fn samples(sampled: bool, factors: [f64; DEPTH], verified: usize) -> Vec<ConfidenceSample> {
        let random = &mut Random::new(5);
        let sample = |_| {
            let truths: [f64; DEPTH] = std::array::from_fn(|_| 4.0 * random.unit() - 1.0);
            let logits = std::array::from_fn(|depth| match depth < DEPTH {
                true => (truths[depth] * factors[depth]) as f32,
                false => 0.0,
            });
            let accepted =
                truths[..verified].iter().take_while(|&&truth| random.chance(chance(truth, 1.0))).count();
            ConfidenceSample { sampled, held: DEPTH, verified, accepted, logits }
        };
        (0..20_000).map(sample).collect()
    }

    #[test]
    fn temperatures_undo_what_the_drafter_exaggerates() {
        let factors = [1.0, 2.0, 0.5, 3.0];
        let mut all = samples(false, factors, DEPTH);
        all.extend(samples(true, [2.0; DEPTH], DEPTH));
        let Calibration { greedy, sampled } = Calibration::fit(&all);
        for (fitted, factor) in greedy.iter().zip(factors).chain(sampled.iter().zip([2.0; DEPTH])) {
            assert!((f64::from(*fitted) / factor).ln().abs() < 0.2, "{greedy:?} {sampled:?}");
        }
        assert_eq!((greedy.len(), sampled.len()), (DEPTH, DEPTH));
    }

    #[test]
    fn a_depth_that_is_not_verified_and_a_handful_of_samples_are_not_fitted() {
        let mut all = samples(false, [1.0; DEPTH], 2);
        all.retain(|sample| sample.accepted == sample.verified);
        assert_eq!(Calibration::fit(&all).greedy.len(), 2);
        assert_eq!(Calibration::fit(&all[..SAMPLES_LEAST - 1]), Calibration::default());
        assert_eq!(Calibration::fit(&[]), Calibration::default());
    }
}
