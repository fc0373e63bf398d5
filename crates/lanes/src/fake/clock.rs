//! A clock that stands still until a script charges it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::clock::Clock;
use crate::cost::{CostTable, HoldCosts};
use crate::target::Limits;

/// Time that passes only when charged. Clones tell the same time.
#[derive(Debug, Clone, Default)]
pub struct ScriptedClock {
    nanoseconds: Arc<AtomicU64>,
}

impl ScriptedClock {
    /// Lets so many milliseconds pass.
    pub fn charge(&self, milliseconds: f64) {
        self.nanoseconds.fetch_add((milliseconds * 1e6).round() as u64, Ordering::Relaxed);
    }
}

impl Clock for ScriptedClock {
    fn now(&self) -> Duration {
        Duration::from_nanos(self.nanoseconds.load(Ordering::Relaxed))
    }
}

/// What rounds and holds take.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct ScriptedCosts {
    /// Every round.
    pub round_ms: f64,
    /// Every row of it.
    pub row_ms: f64,
    /// A hold's pass.
    pub hold_ms: f64,
    /// Every draft of the deepest lane in the pass.
    pub hold_depth_ms: f64,
    /// Every lane in the pass.
    pub hold_lane_ms: f64,
}

impl ScriptedCosts {
    /// Milliseconds of a round's rows.
    pub fn round_ms(&self, rows: usize) -> f64 {
        self.round_ms + self.row_ms * rows as f64
    }

    /// Milliseconds of a hold.
    pub fn hold_ms(&self, lanes: usize, depth: usize) -> f64 {
        if lanes == 0 || depth == 0 {
            return 0.0;
        }
        self.hold_ms + self.hold_depth_ms * depth as f64 + self.hold_lane_ms * lanes as f64
    }

    /// The table that a measurement of a target with these costs would find.
    pub fn table(&self, limits: &Limits) -> CostTable {
        let rows = (1..=limits.rows).map(|rows| (rows, self.round_ms(rows))).collect();
        let by_depth = (1..=limits.block).map(|depth| (depth, self.hold_ms(1, depth))).collect();
        let by_lanes = (1..=limits.lanes).map(|lanes| (lanes, self.hold_ms(lanes, limits.block))).collect();
        CostTable::new(rows, HoldCosts { by_depth, by_lanes })
    }
}
