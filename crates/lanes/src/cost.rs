//! The cost table: measured milliseconds of a round by its rows, and of a hold by its depth and lanes.
//!
//! It holds what was timed at load, on short contexts; `live_costs` corrects it by the rounds themselves.

/// Measured milliseconds. An empty table says that every round costs the same and a hold nothing.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct CostTable {
    /// (rows, milliseconds), by rows.
    rows: Vec<(usize, f64)>,
    holds: HoldCosts,
    /// (rows, distinct experts), by rows; empty for dense models.
    experts: Vec<(usize, f64)>,
    /// Milliseconds of one distinct expert, 0 where experts do not explain what rounds cost.
    expert_ms: f64,
    /// Milliseconds of a row that the drafter takes up.
    absorb_row_ms: f64,
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
            assert!(are_samples(samples), "out of order or not finite: {samples:?}");
        }
        CostTable { rows, holds, experts: Vec::new(), expert_ms: 0.0, absorb_row_ms: 0.0 }
    }

    /// Adds the milliseconds of a row that the drafter takes up, finite and not negative.
    pub fn with_absorption(self, absorb_row_ms: f64) -> Self {
        assert!(absorb_row_ms.is_finite() && absorb_row_ms >= 0.0, "{absorb_row_ms} ms a row");
        CostTable { absorb_row_ms, ..self }
    }

    /// Adds the distinct experts of the rounds that were timed, by rows.
    pub fn with_experts(self, experts: Vec<(usize, f64)>) -> Self {
        assert!(are_samples(&experts), "out of order or not finite: {experts:?}");
        let expert_ms = slope(&self.rows, &experts);
        CostTable { experts, expert_ms, ..self }
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

    /// Milliseconds that a drafter takes to take up so many rows of a lane.
    pub fn absorb_ms(&self, rows: usize) -> f64 {
        self.absorb_row_ms * rows as f64
    }

    /// Distinct experts of a timed round of so many rows, summed over layers; 0 for dense models.
    pub fn experts(&self, rows: usize) -> f64 {
        interpolate(&self.experts, rows).unwrap_or(0.0)
    }

    /// How much of a round of so many rows is the price of its distinct experts, in milliseconds.
    pub(crate) fn experts_ms(&self, rows: usize) -> f64 {
        self.expert_ms * self.experts(rows)
    }

    /// The samples of distinct experts, for display.
    pub fn expert_samples(&self) -> &[(usize, f64)] {
        &self.experts
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

/// Share of the variance of round times that experts must explain before they are priced.
const EXPLAINED_LEAST: f64 = 0.9;

/// Whether rows, depths or lanes rise strictly and their values are finite and not negative.
pub(crate) fn are_samples(samples: &[(usize, f64)]) -> bool {
    samples.windows(2).all(|pair| pair[0].0 < pair[1].0)
        && samples.iter().all(|&(at, value)| at > 0 && value.is_finite() && value >= 0.0)
}

/// Milliseconds by which rounds grow with each distinct expert: least squares over the row counts that have both,
/// 0 unless that explains what they cost.
fn slope(rows: &[(usize, f64)], experts: &[(usize, f64)]) -> f64 {
    let pairs =
        || rows.iter().filter_map(|&(at, ms)| Some((experts.iter().find(|sample| sample.0 == at)?.1, ms)));
    let count = pairs().count() as f64;
    let mean_experts = pairs().map(|pair| pair.0).sum::<f64>() / count;
    let mean_ms = pairs().map(|pair| pair.1).sum::<f64>() / count;
    let moment =
        |of: fn(f64, f64) -> f64| pairs().map(|(experts, ms)| of(experts - mean_experts, ms - mean_ms)).sum();
    let (both, in_experts, in_ms): (f64, f64, f64) =
        (moment(|experts, ms| experts * ms), moment(|experts, _| experts * experts), moment(|_, ms| ms * ms));
    let explains = both > 0.0 && both * both >= EXPLAINED_LEAST * in_experts * in_ms;
    if explains { both / in_experts } else { 0.0 }
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
