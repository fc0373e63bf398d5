//! Ratios of paired runs with bootstrap intervals: these machines are noisy, and only pairs compare.

/// Resamples of a bootstrap.
const RESAMPLES: usize = 2000;

/// A median and its 95% interval.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Interval {
    pub(crate) middle: f64,
    pub(crate) low: f64,
    pub(crate) high: f64,
}

impl Interval {
    pub(crate) fn width(self) -> f64 {
        self.high - self.low
    }
}

/// The median of `second / first` over pairs.
pub(crate) fn paired_ratio(pairs: &[(f64, f64)]) -> Interval {
    let ratios: Vec<f64> = pairs.iter().map(|(first, second)| second / first).collect();
    let mut state = 1u64;
    let mut index = || {
        // A linear congruential generator is enough to pick from a handful of values, and repeats.
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % ratios.len()
    };
    let mut medians: Vec<f64> =
        (0..RESAMPLES).map(|_| median((0..ratios.len()).map(|_| ratios[index()]).collect())).collect();
    medians.sort_by(f64::total_cmp);
    let at = |share: f64| medians[(share * (RESAMPLES - 1) as f64) as usize];
    Interval { middle: median(ratios.clone()), low: at(0.025), high: at(0.975) }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
