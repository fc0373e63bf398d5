//! What rounds cost now: the table, corrected by the rounds themselves for each context band.
//!
//! A table is timed on a short history and on arbitrary tokens. What a long context adds, and what is saved when
//! the rows of one text share experts, is learnt here.

use crate::allocate::Holding;
use crate::band::BANDS;
use crate::cost::CostTable;
use crate::curve::{Curve, ROWS, bucket};

/// Excesses remembered for a row count; their median is robust to a machine that stands still for four of them.
const EXCESSES: usize = 9;

/// Excesses before they are believed.
const EXCESSES_LEAST: usize = 3;

/// What one round moves the average of distinct experts: they are a property of the text, which changes slowly.
const EXPERTS_WEIGHT: f64 = 0.05;

/// What the rounds have shown, by band.
#[derive(Debug)]
pub(crate) struct LiveCosts {
    bands: Vec<BandCosts>,
}

#[derive(Debug, Clone, Default)]
struct BandCosts {
    plain: Excesses,
    held: Excesses,
    experts: Experts,
}

impl Default for LiveCosts {
    fn default() -> Self {
        LiveCosts { bands: vec![BandCosts::default(); BANDS] }
    }
}

/// A round that ran.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sample {
    pub band: usize,
    pub rows: usize,
    pub holding: Holding,
    pub took_ms: f64,
    pub distinct_experts: usize,
}

impl LiveCosts {
    /// Learns from a round of decode windows.
    pub(crate) fn note(&mut self, table: &CostTable, sample: &Sample) {
        let band = &mut self.bands[sample.band];
        let expected_experts = table.experts(sample.rows);
        if sample.distinct_experts > 0 && expected_experts > 0.0 {
            band.experts.note(sample.rows, sample.distinct_experts as f64 / expected_experts);
        }
        // What plain rounds have shown is no fault of the hold.
        let holds = sample.holding.lanes > 0;
        let known = self.costs(table, sample.band);
        let known = Costs { held: None, plain: known.plain.filter(|_| holds), ..known };
        let excess_ms = sample.took_ms - known.ms(sample.rows, sample.holding);
        let band = &mut self.bands[sample.band];
        let excesses = if holds { &mut band.held } else { &mut band.plain };
        excesses.note(sample.rows, excess_ms);
    }

    /// The costs of a band. One that has shown nothing is like the next shorter one.
    pub(crate) fn costs<'a>(&'a self, table: &'a CostTable, band: usize) -> Costs<'a> {
        let known =
            |curve: fn(&BandCosts) -> Option<&Curve>| self.bands[..=band].iter().rev().find_map(curve);
        let plain = known(|band| band.plain.curve.as_ref());
        let held = known(|band| band.held.curve.as_ref());
        Costs { table, plain, held, experts: known(|band| band.experts.curve.as_ref()) }
    }

    /// Distinct experts of a round, in proportion to what the table was timed with.
    pub(crate) fn experts_share(&self, band: usize, rows: usize) -> Option<f64> {
        self.bands[band].experts.curve.map(|curve| curve.at(rows))
    }
}

/// What rounds of one band cost.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Costs<'a> {
    table: &'a CostTable,
    /// Milliseconds beyond the table, of all rounds.
    plain: Option<&'a Curve>,
    /// Milliseconds beyond that, of rounds that hold.
    held: Option<&'a Curve>,
    /// Distinct experts in proportion to those of the table.
    experts: Option<&'a Curve>,
}

impl<'a> Costs<'a> {
    /// The table as it was measured.
    #[cfg(test)]
    pub(crate) fn of(table: &'a CostTable) -> Self {
        Costs { table, plain: None, held: None, experts: None }
    }

    /// Milliseconds of a round.
    pub(crate) fn ms(&self, rows: usize, holding: Holding) -> f64 {
        let at = |curve: Option<&Curve>| curve.map_or(0.0, |curve| curve.at(rows));
        let excess_ms = at(self.plain) + at(self.held.filter(|_| holding.lanes > 0));
        let experts_ms =
            self.experts.map_or(0.0, |share| (share.at(rows) - 1.0) * self.table.experts_ms(rows));
        let round_ms = self.table.round_ms(rows) + experts_ms + excess_ms;
        round_ms.max(0.0) + self.table.hold_ms(holding.lanes, holding.depth)
    }

    /// Milliseconds that a hold of `lanes` lanes adds to a round of one row each.
    pub(crate) fn hold_ms(&self, lanes: usize, depth: usize) -> f64 {
        self.ms(lanes, Holding { lanes, depth }) - self.ms(lanes, Holding::default())
    }
}

/// The latest excesses of each row count.
#[derive(Debug, Clone, Default)]
struct Excesses {
    rings: [Ring; ROWS.len()],
    curve: Option<Curve>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Ring {
    ms: [f64; EXCESSES],
    count: usize,
}

impl Excesses {
    fn note(&mut self, rows: usize, excess_ms: f64) {
        let ring = &mut self.rings[bucket(rows)];
        ring.ms[ring.count % EXCESSES] = excess_ms;
        ring.count += 1;
        self.curve = Curve::fill(|at| self.rings[at].median());
    }
}

impl Ring {
    fn median(&self) -> Option<f64> {
        let known = self.count.min(EXCESSES);
        let mut ms = self.ms;
        ms[..known].sort_unstable_by(f64::total_cmp);
        (known >= EXCESSES_LEAST).then(|| ms[known / 2])
    }
}

/// Distinct experts by row count, in proportion to those of the table.
#[derive(Debug, Clone, Default)]
struct Experts {
    shares: [Option<f64>; ROWS.len()],
    curve: Option<Curve>,
}

impl Experts {
    fn note(&mut self, rows: usize, share: f64) {
        let average = self.shares[bucket(rows)].get_or_insert(share);
        *average += EXPERTS_WEIGHT * (share - *average);
        self.curve = Curve::fill(|at| self.shares[at]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::HoldCosts;

    const HOLD: Holding = Holding { lanes: 1, depth: 4 };

    fn table() -> CostTable {
        let holds = HoldCosts { by_depth: vec![(1, 0.5), (8, 0.5)], by_lanes: vec![] };
        CostTable::new(vec![(1, 1.0), (16, 2.5)], holds)
    }

    fn sample(rows: usize, holding: Holding, took_ms: f64) -> Sample {
        Sample { band: 2, rows, holding, took_ms, distinct_experts: 0 }
    }

    #[test]
    fn a_band_is_corrected_by_the_median_of_its_rounds() {
        let (table, mut live) = (table(), LiveCosts::default());
        for took_ms in [1.5, 1.5, 90.0, 1.6, 1.4] {
            live.note(&table, &sample(1, Holding::default(), took_ms));
        }
        let ms = |live: &LiveCosts, band| live.costs(&table, band).ms(1, Holding::default());
        assert!((ms(&live, 2) - 1.5).abs() < 1e-9);
        assert!((ms(&live, 3) - 1.5).abs() < 1e-9, "a longer band is at least like this one");
        assert_eq!(ms(&live, 1), 1.0, "a shorter band has shown nothing");
        for _ in 0..5 {
            live.note(&table, &sample(1, Holding::default(), 2.0));
        }
        assert!((ms(&live, 2) - 2.0).abs() < 1e-9);
    }

    #[test]
    fn rounds_that_hold_are_corrected_apart() {
        let (table, mut live) = (table(), LiveCosts::default());
        for _ in 0..3 {
            live.note(&table, &sample(1, Holding::default(), 1.0));
            live.note(&table, &sample(6, HOLD, 4.0));
        }
        let costs = live.costs(&table, 2);
        assert!((costs.ms(6, HOLD) - 4.0).abs() < 1e-9);
        assert!((costs.ms(1, Holding::default()) - 1.0).abs() < 1e-9);
        assert!((costs.hold_ms(1, 4) - 2.5).abs() < 1e-9, "the round beyond its table price is the hold's");
    }

    #[test]
    fn experts_explain_what_rows_do_not() {
        let experts = vec![(1, 4.0), (4, 16.0), (16, 40.0)];
        let ms = experts.iter().map(|&(rows, experts)| (rows, 1.0 + 0.1 * experts)).collect();
        let table = CostTable::new(ms, HoldCosts::default()).with_experts(experts);
        let mut live = LiveCosts::default();
        for _ in 0..100 {
            live.note(&table, &Sample { distinct_experts: 8, ..sample(4, Holding::default(), 1.8) });
        }
        // Half the experts: 4 rows cost what 8 experts cost, and so do row counts that were never seen.
        let costs = live.costs(&table, 2);
        assert!((costs.ms(4, Holding::default()) - 1.8).abs() < 0.01);
        assert!((costs.ms(16, Holding::default()) - 3.0).abs() < 0.1);
    }
}
