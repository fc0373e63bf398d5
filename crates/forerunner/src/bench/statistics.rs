//! Medians, percentiles and bootstrap intervals: these machines are noisy, and only alternated runs compare.

use serde_json::{Value, json};

/// Resamples of a bootstrap.
const RESAMPLES: usize = 2000;

/// A median with what is around it: the 95% bootstrap interval of the median, and the extremes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    pub(crate) low: f64,
    pub(crate) high: f64,
    pub(crate) min: f64,
    pub(crate) max: f64,
}

impl Spread {
    /// Of some values; nothing if there are none.
    pub(crate) fn of(values: &[f64]) -> Option<Spread> {
        let median = percentile(values, 50.0)?;
        let mut medians = resampled_medians(values);
        medians.sort_by(f64::total_cmp);
        let at = |share: f64| medians[(share * (RESAMPLES - 1) as f64) as usize];
        Some(Spread {
            median,
            low: at(0.025),
            high: at(0.975),
            min: values.iter().copied().fold(f64::INFINITY, f64::min),
            max: values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        })
    }

    /// Of `second / first` over pairs.
    pub(crate) fn of_ratios(pairs: &[(f64, f64)]) -> Option<Spread> {
        let ratios: Vec<f64> = pairs.iter().map(|(first, second)| second / first).collect();
        Spread::of(&ratios)
    }

    /// Of the interval.
    pub(crate) fn width(self) -> f64 {
        self.high - self.low
    }

    /// As a receipt has it.
    pub(crate) fn to_json(self) -> Value {
        let Spread { median, low, high, min, max } = self;
        json!({ "median": median, "low": low, "high": high, "min": min, "max": max })
    }
}

/// The value below which so many of a hundred lie, on the straight line between two neighbours where it falls between
/// them; nothing if there are no values.
pub(crate) fn percentile(values: &[f64], percent: f64) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let place = percent / 100.0 * sorted.len().checked_sub(1)? as f64;
    let (below, above) = (place.floor() as usize, place.ceil() as usize);
    Some(sorted[below] + (place - place.floor()) * (sorted[above] - sorted[below]))
}

/// The sum over the count; nothing if there are no values.
pub(crate) fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// The standard deviation of all there are, not of a sample; nothing if there are no values.
pub(crate) fn deviation(values: &[f64]) -> Option<f64> {
    let middle = mean(values)?;
    let squares: Vec<f64> = values.iter().map(|value| (value - middle).powi(2)).collect();
    mean(&squares).map(f64::sqrt)
}

fn resampled_medians(values: &[f64]) -> Vec<f64> {
    let mut state = 1u64;
    let mut index = || {
        // A linear congruential generator is enough to pick from a handful of values, and repeats.
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % values.len()
    };
    let mut resample = || values.iter().map(|_| values[index()]).collect::<Vec<f64>>();
    (0..RESAMPLES).filter_map(|_| percentile(&resample(), 50.0)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_lies_on_the_line_between_neighbours() {
        let values = [4.0, 1.0, 3.0, 2.0];
        let at = |percent| percentile(&values, percent).unwrap();
        assert_eq!([at(0.0), at(25.0), at(50.0), at(100.0)], [1.0, 1.75, 2.5, 4.0]);
        assert_eq!(percentile(&[7.0], 99.0), Some(7.0));
        assert_eq!(percentile(&[], 50.0), None);
    }

    #[test]
    fn a_spread_holds_its_median() {
        let spread = Spread::of(&[3.0, 1.0, 2.0, 10.0, 2.5]).unwrap();
        assert_eq!((spread.median, spread.min, spread.max), (2.5, 1.0, 10.0));
        assert!(spread.min <= spread.low && spread.low <= spread.median);
        assert!(spread.median <= spread.high && spread.high <= spread.max);
        assert_eq!(Spread::of(&[]), None);
    }

    #[test]
    fn ratios_are_of_pairs_and_repeat() {
        let pairs = [(1.0, 2.0), (2.0, 3.0), (4.0, 4.0)];
        let spread = Spread::of_ratios(&pairs).unwrap();
        assert_eq!((spread.median, spread.min, spread.max), (1.5, 1.0, 2.0));
        assert_eq!(Spread::of_ratios(&pairs), Some(spread));
    }

    #[test]
    fn means_and_deviations_are_of_all_values() {
        assert_eq!((mean(&[1.0, 2.0, 6.0]), mean(&[])), (Some(3.0), None));
        assert_eq!(deviation(&[1.0, 3.0]), Some(1.0));
    }
}
