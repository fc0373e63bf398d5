//! What rounds cost beyond the table, by number of lanes.

/// What one round moves the average.
const OVERHEAD_WEIGHT: f64 = 0.2;

/// Most that one round counts for, as a share of its table cost: a machine that stood still for a moment is not
/// an overhead, and would make drafts look free for many rounds.
const EXCESS_MOST: f64 = 1.0;

#[derive(Debug)]
pub(crate) struct Overheads {
    /// Milliseconds, indexed by lanes.
    by_lanes: Vec<f64>,
}

impl Overheads {
    pub(crate) fn new(lanes: usize) -> Self {
        Overheads { by_lanes: vec![0.0; lanes + 1] }
    }

    pub(crate) fn ms(&self, lanes: usize) -> f64 {
        self.by_lanes[lanes]
    }

    /// Learns from a round of `lanes` decode windows that took `measured_ms` where the table says `table_ms`.
    pub(crate) fn note(&mut self, lanes: usize, measured_ms: f64, table_ms: f64) {
        let excess = (measured_ms - table_ms).clamp(0.0, EXCESS_MOST * table_ms);
        let average = &mut self.by_lanes[lanes];
        *average += OVERHEAD_WEIGHT * (excess - *average);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overhead_is_an_average_that_is_never_negative_and_never_a_standstill() {
        let mut overheads = Overheads::new(2);
        overheads.note(1, 1.5, 1.0);
        assert!((overheads.ms(1) - 0.1).abs() < 1e-12);
        assert_eq!(overheads.ms(2), 0.0);
        overheads.note(2, 0.5, 1.0);
        assert_eq!(overheads.ms(2), 0.0);
        overheads.note(2, 1000.0, 1.0);
        assert!((overheads.ms(2) - 0.2).abs() < 1e-12);
    }
}
