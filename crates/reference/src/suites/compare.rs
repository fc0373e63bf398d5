//! Outputs of an operation, and how far two of them are apart.

use forerunner_tensor::bf16;

use super::places::{Layout, Place};

/// How far a device may be from the oracle.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Bound {
    /// Equal.
    Exact,
    /// bf16 results: the cosine of each row is at least 0.9999, and no value is off by more than this many
    /// bf16 steps at the size of the row's largest value.
    Bf16 { steps: f64 },
    /// fp32 results: no value is off by more than 1e-4 of the row's largest value (or of 1, when that is
    /// more).
    Fp32,
}

/// What one row of an output belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Key {
    /// A row: its bits depend on nothing else.
    Row { lane: usize, position: usize },
    /// A fact that is the same after every schedule.
    Always,
    /// The forward as a whole: compared with the oracle's, not between forwards.
    Forward,
    /// Unspecified.
    Nothing,
}

impl From<Place> for Key {
    fn from(place: Place) -> Self {
        match place {
            Place::Row { lane, position } => Key::Row { lane, position },
            Place::Pad => Key::Nothing,
        }
    }
}

/// Rows of values that an operation wrote. Every type is held exactly by f64.
#[derive(Debug, Clone)]
pub(super) struct Output {
    pub(super) name: &'static str,
    pub(super) bound: Bound,
    pub(super) keys: Vec<Key>,
    pub(super) width: usize,
    pub(super) values: Vec<f64>,
}

impl Output {
    /// One row of values for each row of a forward.
    pub(super) fn of_rows(name: &'static str, bound: Bound, layout: &Layout, values: Vec<f64>) -> Self {
        let keys: Vec<Key> = layout.iter().map(|place| Key::from(*place)).collect();
        Output { name, bound, width: values.len() / keys.len(), keys, values }
    }

    /// One row that must equal the oracle's.
    pub(super) fn exact(name: &'static str, key: Key, values: Vec<f64>) -> Self {
        Output { name, bound: Bound::Exact, keys: vec![key], width: values.len(), values }
    }

    /// The rows with their keys.
    pub(super) fn rows(&self) -> impl Iterator<Item = (Key, &[f64])> {
        self.keys.iter().copied().zip(self.values.chunks_exact(self.width))
    }
}

/// The largest deviation of a row from the oracle's, as a share of the bound.
pub(super) fn deviation(bound: Bound, found: &[f64], expected: &[f64]) -> f64 {
    let largest = expected.iter().fold(0.0f64, |largest, value| largest.max(value.abs()));
    let error = found.iter().zip(expected).fold(0.0f64, |error, (found, expected)| {
        // `max` would drop a value that is not a number.
        if found.is_nan() { f64::INFINITY } else { error.max((found - expected).abs()) }
    });
    match bound {
        Bound::Exact => {
            if error == 0.0 {
                0.0
            } else {
                f64::INFINITY
            }
        }
        Bound::Bf16 { steps } => {
            let step = (largest.max(f64::from(bf16::MIN_POSITIVE)).log2().floor() - 7.0).exp2();
            (error / step / steps).max((1.0 - cosine(found, expected)) / 1e-4)
        }
        Bound::Fp32 => error / (1e-4 * largest.max(1.0)),
    }
}

fn cosine(left: &[f64], right: &[f64]) -> f64 {
    let dot = |left: &[f64], right: &[f64]| left.iter().zip(right).map(|(l, r)| l * r).sum::<f64>();
    let norms = (dot(left, left) * dot(right, right)).sqrt();
    if norms == 0.0 { 1.0 } else { dot(left, right) / norms }
}

/// Whether two rows have the same bits.
pub(super) fn same_bits(left: &[f64], right: &[f64]) -> bool {
    left.len() == right.len() && left.iter().zip(right).all(|(left, right)| left.to_bits() == right.to_bits())
}

/// The first differing values, for a message.
pub(super) fn first_difference(found: &[f64], expected: &[f64]) -> String {
    let differs = |(found, expected): (&f64, &f64)| found.to_bits() != expected.to_bits();
    match found.iter().zip(expected).position(differs) {
        Some(index) => format!("value {index} is {}, expected {}", found[index], expected[index]),
        None => format!("{} values, expected {}", found.len(), expected.len()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deviations_are_shares_of_the_bound() {
        assert_eq!(deviation(Bound::Exact, &[1.0, 2.0], &[1.0, 2.0]), 0.0);
        assert_eq!(deviation(Bound::Exact, &[1.0, 2.5], &[1.0, 2.0]), f64::INFINITY);
        // The largest value is 1, so a bf16 step is 1/128.
        assert_eq!(deviation(Bound::Bf16 { steps: 2.0 }, &[1.0, 0.0078125], &[1.0, 0.0]), 0.5);
        assert!(deviation(Bound::Bf16 { steps: 2.0 }, &[f64::NAN, 0.0], &[1.0, 0.0]) > 1.0);
        assert!(deviation(Bound::Fp32, &[2.0001], &[2.0]) < 1.0);
    }
}
