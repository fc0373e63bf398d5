//! Curves over row counts: what is known at some of them, filled in between.

/// Row counts that are told apart: fine where a single reply's window ends, coarse where many lanes share a round.
pub(crate) const ROWS: [usize; 17] = [1, 2, 3, 4, 6, 8, 10, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256];

/// Index of the row count that stands for `rows`.
pub(crate) fn bucket(rows: usize) -> usize {
    ROWS.partition_point(|&least| least < rows).min(ROWS.len() - 1)
}

/// One value for each of the row counts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Curve([f64; ROWS.len()]);

impl Curve {
    /// Linear between what is known and level outside; nothing when nothing is known.
    pub(crate) fn fill(known: impl Fn(usize) -> Option<f64>) -> Option<Curve> {
        let mut values = [0.0; ROWS.len()];
        let mut last: Option<(usize, f64)> = None;
        for at in 0..ROWS.len() {
            let Some(value) = known(at) else { continue };
            let (from, from_value) = last.unwrap_or((0, value));
            for (step, slot) in values[from..=at].iter_mut().enumerate() {
                let share = if at == from { 1.0 } else { step as f64 / (at - from) as f64 };
                *slot = from_value + share * (value - from_value);
            }
            last = Some((at, value));
        }
        let (from, value) = last?;
        values[from..].fill(value);
        Some(Curve(values))
    }

    pub(crate) fn at(&self, rows: usize) -> f64 {
        self.0[bucket(rows)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_curve_is_linear_between_what_is_known_and_level_outside() {
        let curve =
            Curve::fill(|at| [(1, 2.0), (3, 6.0)].iter().find(|known| known.0 == at).map(|known| known.1));
        let values: Vec<f64> = [1, 2, 3, 4, 5, 1000].iter().map(|&rows| curve.unwrap().at(rows)).collect();
        assert_eq!(values, [2.0, 2.0, 4.0, 6.0, 6.0, 6.0]);
        assert_eq!(Curve::fill(|_| None), None);
    }
}
