//! The cost table: measured milliseconds of a round by its rows, and of a hold by its depth and lanes.
//!
//! There is one context band, that of the measurement; a longer one is a table of its own, chosen by the lanes
//! of the round.

/// Measured milliseconds. An empty table says that every round costs the same and a hold nothing.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct CostTable {
    /// (rows, milliseconds), by rows.
    rows: Vec<(usize, f64)>,
    holds: HoldCosts,
}

/// What a hold adds to a round.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct HoldCosts {
    /// (depth, milliseconds) for one lane, by depth.
    pub by_depth: Vec<(usize, f64)>,
    /// (lanes, milliseconds) at one depth, by lanes, the first for one lane. Only their ratios are used.
    pub by_lanes: Vec<(usize, f64)>,
}

impl CostTable {
    /// A table of samples. Rows, depths and lanes rise strictly; milliseconds are finite and not negative.
    pub fn new(rows: Vec<(usize, f64)>, holds: HoldCosts) -> Self {
        for samples in [&rows, &holds.by_depth, &holds.by_lanes] {
            assert!(
                samples.windows(2).all(|pair| pair[0].0 < pair[1].0),
                "samples out of order: {samples:?}"
            );
            assert!(
                samples.iter().all(|&(at, ms)| at > 0 && ms.is_finite() && ms >= 0.0),
                "bad sample: {samples:?}"
            );
        }
        CostTable { rows, holds }
    }

    /// Milliseconds of a round of so many rows that holds nothing.
    pub fn round_ms(&self, rows: usize) -> f64 {
        interpolate(&self.rows, rows).unwrap_or(1.0)
    }

    /// Milliseconds that a hold for so many lanes, the deepest of this depth, adds to a round. One pass serves
    /// all lanes, so the first lane is the dear one.
    pub fn hold_ms(&self, lanes: usize, depth: usize) -> f64 {
        if lanes == 0 || depth == 0 {
            return 0.0;
        }
        let one_lane = interpolate(&self.holds.by_depth, depth).unwrap_or(0.0);
        let growth = match (interpolate(&self.holds.by_lanes, lanes), self.holds.by_lanes.first()) {
            (Some(several), Some(&(_, one))) if one > 0.0 => several / one,
            _ => 1.0,
        };
        one_lane * growth
    }

    /// The row samples, for display.
    pub fn row_samples(&self) -> &[(usize, f64)] {
        &self.rows
    }

    /// The hold samples, for display.
    pub fn hold_samples(&self) -> &HoldCosts {
        &self.holds
    }
}

/// Linear between samples, the first one before them, in proportion past the last one.
fn interpolate(samples: &[(usize, f64)], at: usize) -> Option<f64> {
    let after = samples.partition_point(|sample| sample.0 < at);
    let &(upper, upper_ms) = match samples.get(after) {
        Some(sample) => sample,
        None => return samples.last().map(|&(last, ms)| ms * at as f64 / last as f64),
    };
    if after == 0 || upper == at {
        return Some(upper_ms);
    }
    let (lower, lower_ms) = samples[after - 1];
    let share = (at - lower) as f64 / (upper - lower) as f64;
    Some(lower_ms + share * (upper_ms - lower_ms))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_are_interpolated_and_scaled_by_rows_past_the_end() {
        let table = CostTable::new(vec![(1, 2.0), (4, 5.0), (8, 6.0)], HoldCosts::default());
        let ms: Vec<f64> = [1, 2, 4, 6, 8, 16].iter().map(|&rows| table.round_ms(rows)).collect();
        assert_eq!(ms, [2.0, 3.0, 5.0, 5.5, 6.0, 12.0]);
    }

    #[test]
    fn a_hold_costs_by_depth_and_grows_with_lanes() {
        let holds = HoldCosts { by_depth: vec![(1, 1.0), (3, 2.0)], by_lanes: vec![(1, 4.0), (2, 5.0)] };
        let table = CostTable::new(Vec::new(), holds);
        assert_eq!(table.hold_ms(0, 3), 0.0);
        assert_eq!(table.hold_ms(1, 0), 0.0);
        assert_eq!(table.hold_ms(1, 2), 1.5);
        assert_eq!(table.hold_ms(2, 3), 2.5);
    }

    #[test]
    fn an_empty_table_makes_rows_and_holds_free() {
        let table = CostTable::default();
        assert_eq!(table.round_ms(1), table.round_ms(64));
        assert_eq!(table.hold_ms(8, 7), 0.0);
    }
}
