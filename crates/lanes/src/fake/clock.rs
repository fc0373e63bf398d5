//! A clock that stands still until a script charges it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::random::{fold, unit};
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
    /// Every round that is queued while none is on its way: the host's time between two rounds.
    pub gap_ms: f64,
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
    /// Every row, for each 1,000 tokens before it; a table measured on short contexts knows nothing of this.
    pub row_context_ms: f64,
    /// Every lane in a hold's pass, for each 1,000 tokens of it; nor of this.
    pub hold_context_ms: f64,
    /// Every row that the drafter takes up: at a hold those since the last one, and at page borders of drafted lanes.
    pub absorb_row_ms: f64,
    /// Every distinct expert.
    pub expert_ms: f64,
    /// Rounds take up to this share more, and one in a hundred ten times that.
    pub noise: f64,
}

impl ScriptedCosts {
    /// Nothing costs anything.
    pub const NONE: ScriptedCosts = ScriptedCosts {
        gap_ms: 0.0,
        round_ms: 0.0,
        row_ms: 0.0,
        hold_ms: 0.0,
        hold_depth_ms: 0.0,
        hold_lane_ms: 0.0,
        row_context_ms: 0.0,
        hold_context_ms: 0.0,
        absorb_row_ms: 0.0,
        expert_ms: 0.0,
        noise: 0.0,
    };

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

    pub(super) fn context_ms(&self, position: usize, rows: usize, hold: usize) -> f64 {
        let hold_ms = if hold > 0 { self.hold_context_ms } else { 0.0 };
        (self.row_context_ms * rows as f64 + hold_ms) * position as f64 / 1000.0
    }

    /// The factor of a round's time.
    pub(super) fn noise(&self, round: u64) -> f64 {
        let hash = fold(round, 0x7135);
        let stands_still = hash.is_multiple_of(100);
        1.0 + self.noise * unit(hash) * if stands_still { 10.0 } else { 1.0 }
    }

    /// The table that a measurement of a target with these costs would find.
    pub fn table(&self, limits: &Limits) -> CostTable {
        let rows = (1..=limits.rows).map(|rows| (rows, self.round_ms(rows))).collect();
        let by_depth = (1..=limits.block).map(|depth| (depth, self.hold_ms(1, depth))).collect();
        let by_lanes = (1..=limits.lanes).map(|lanes| (lanes, self.hold_ms(lanes, limits.block))).collect();
        CostTable::new(rows, HoldCosts { by_depth, by_lanes }).with_absorption(self.absorb_row_ms)
    }
}
