//! The depth rule: whether a lane holds drafts for its next round, and how many.

use crate::allocate::Holding;
use crate::live_costs::Costs;

/// Drafts asked beyond the last grant: enough for a lane that gets better to show it, at the price of Markov
/// steps that are not used.
const DEPTH_BEYOND_GRANT: usize = 2;

/// Depth of a hold that asks whether drafting pays again.
const PROBE_DEPTH: usize = 2;

/// Rounds between two probes of a lane that was turned down again and again, as long as they keep to the budget.
const SKIP: u64 = 16;

/// Share of plain time that those probes may take; a dear drafter is asked more seldom.
const PROBE_BUDGET: f64 = 0.02;

/// Share of a plain round that joining a pass may take.
const JOIN_BUDGET: f64 = 0.005;

/// Where a lane stands between drafting and not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HoldState {
    /// It holds while drafting is expected to pay.
    Open,
    /// Its last drafts were turned down. It holds none before round `until`.
    Skipping { skip: u64, until: u64 },
}

/// What a lane asks of the drafter in a round, and where it stands after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Hold {
    pub depth: usize,
    pub next: HoldState,
}

impl Hold {
    /// Whether the lane was judged not worth drafting for now.
    pub(crate) fn is_off(&self) -> bool {
        matches!(self.next, HoldState::Skipping { .. })
    }
}

/// What a round of decode lanes costs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Prices<'a> {
    pub costs: Costs<'a>,
    pub lanes: usize,
    pub overhead_ms: f64,
}

/// Committed tokens a second (up to a factor) without drafts, and with the best depth of them.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Forecast {
    plain: f64,
    drafted: f64,
    depth: usize,
}

impl Forecast {
    fn pays(&self) -> bool {
        self.drafted > self.plain
    }
}

impl Prices<'_> {
    /// As if every lane of the round drafted with these chances: lanes share the pass that a hold takes, so
    /// one of them alone would see its whole price and never begin.
    fn forecast(&self, chances: impl Iterator<Item = f32>) -> Forecast {
        let lanes = self.lanes as f64;
        let plain = lanes / self.plain_ms();
        let mut forecast = Forecast { plain, drafted: 0.0, depth: 0 };
        let mut tokens = 1.0;
        for (index, chance) in chances.enumerate() {
            let depth = index + 1;
            tokens += f64::from(chance);
            let holding = Holding { lanes: self.lanes, depth };
            let round_ms = self.costs.ms(self.lanes * (1 + depth), holding) + self.overhead_ms;
            let drafted = lanes * tokens / round_ms;
            if drafted > forecast.drafted {
                forecast = Forecast { plain, drafted, depth };
            }
        }
        forecast
    }

    fn plain_ms(&self) -> f64 {
        self.costs.ms(self.lanes, Holding::default()) + self.overhead_ms
    }

    /// Whether it would pay if every draft were accepted.
    fn may_pay(&self, most: usize) -> bool {
        self.forecast((0..most).map(|_| 1.0)).pays()
    }

    fn most_skip(&self) -> u64 {
        let rounds = self.costs.hold_ms(self.lanes, PROBE_DEPTH) / (PROBE_BUDGET * self.plain_ms());
        (rounds.ceil() as u64).next_power_of_two().max(SKIP)
    }
}

/// The hold of a lane whose offered drafts were let in.
pub(crate) fn after_grant(granted: usize, most: usize) -> Hold {
    Hold { depth: granted_depth(granted, most), next: HoldState::Open }
}

/// Depth of the hold that follows a grant; the price of it stands in the allocator's value.
pub(crate) fn granted_depth(granted: usize, most: usize) -> usize {
    if granted == 0 { 0 } else { (granted + DEPTH_BEYOND_GRANT).min(most) }
}

/// The hold of a lane that offered drafts and was granted nothing: none.
pub(crate) fn after_refusal(state: HoldState, round: u64, prices: &Prices<'_>) -> Hold {
    Hold { depth: 0, next: skip(state, round, prices.most_skip()) }
}

/// The hold of a lane that had nothing to offer, of at most `most` drafts. `record` has the lane's own chances
/// for all depths up to `most`.
pub(crate) fn without_offer(state: HoldState, round: u64, record: &[f32], prices: &Prices<'_>) -> Hold {
    let none = Hold { depth: 0, next: state };
    let most = record.len();
    if most == 0 {
        return none;
    }
    match state {
        HoldState::Skipping { until, .. } if round < until => none,
        _ if !prices.may_pay(most) => Hold { depth: 0, next: skip(state, round, prices.most_skip()) },
        HoldState::Skipping { .. } => Hold { depth: PROBE_DEPTH.min(most), next: state },
        HoldState::Open => {
            let forecast = prices.forecast(record.iter().copied());
            match forecast.pays() {
                true => Hold { depth: forecast.depth, next: state },
                false => Hold { depth: 0, next: skip(state, round, prices.most_skip()) },
            }
        }
    }
}

/// Depth at which a lane that would hold nothing joins a pass that runs for others: to be asked again is worth a
/// small part of a plain round, and no more.
pub(crate) fn joining(most: usize, pass: &Holding, prices: &Prices<'_>) -> usize {
    let with = |lanes| prices.costs.hold_ms(lanes, pass.depth.max(PROBE_DEPTH));
    let price = with(pass.lanes + 1) - with(pass.lanes);
    if price <= JOIN_BUDGET * prices.plain_ms() { PROBE_DEPTH.min(most) } else { 0 }
}

/// Skips twice as many holds as before. Lanes that skip alike probe in the same rounds, where one pass of the
/// drafter serves them all.
fn skip(state: HoldState, round: u64, most: u64) -> HoldState {
    let skip = match state {
        HoldState::Open => 1,
        HoldState::Skipping { skip, .. } => (2 * skip).min(most),
    };
    HoldState::Skipping { skip, until: (round / skip + 1) * skip }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::{CostTable, HoldCosts};

    const RECORD: [f32; 4] = [0.8, 0.6, 0.4, 0.2];

    fn table(row_ms: f64, hold_ms: f64) -> CostTable {
        let rows = (1..=64).map(|rows| (rows, 10.0 + row_ms * rows as f64)).collect();
        CostTable::new(rows, HoldCosts { by_depth: vec![(1, hold_ms), (64, hold_ms)], by_lanes: vec![] })
    }

    fn prices(costs: &CostTable) -> Prices<'_> {
        Prices { costs: Costs::of(costs), lanes: 1, overhead_ms: 0.0 }
    }

    #[test]
    fn a_grant_asks_for_two_more() {
        assert_eq!(after_grant(3, 7).depth, 5);
        assert_eq!(after_grant(6, 7).depth, 7);
        assert_eq!(granted_depth(0, 7), 0);
    }

    #[test]
    fn a_new_lane_holds_at_the_depth_that_its_chances_pay_for() {
        let state = HoldState::Open;
        let hold = |costs: &CostTable| without_offer(state, 0, &RECORD, &prices(costs)).depth;
        assert_eq!(hold(&table(0.0, 0.0)), 4);
        assert_eq!(hold(&table(4.0, 1.0)), 2);
        assert_eq!(hold(&table(40.0, 1.0)), 0);
        assert_eq!(hold(&table(0.0, 25.0)), 0);
    }

    #[test]
    fn a_lane_granted_nothing_skips_1_2_4_8_16_and_then_16_rounds() {
        let costs = table(0.0, 1.0);
        let prices = prices(&costs);
        let mut state = HoldState::Open;
        let mut skips = Vec::new();
        let mut round = 0;
        for _ in 0..7 {
            let refused = after_refusal(state, round, &prices);
            assert_eq!(refused.depth, 0);
            state = refused.next;
            let HoldState::Skipping { skip, until } = state else { panic!("not skipping") };
            assert!(until > round && until - round <= skip);
            skips.push(skip);
            for waited in round + 1..until {
                assert_eq!(without_offer(state, waited, &RECORD, &prices), Hold { depth: 0, next: state });
            }
            assert_eq!(without_offer(state, until, &RECORD, &prices).depth, PROBE_DEPTH);
            round = until + 1;
        }
        assert_eq!(skips, [1, 2, 4, 8, 16, 16, 16]);
    }

    #[test]
    fn probes_of_a_dear_drafter_keep_to_their_budget() {
        let costs = table(0.0, 8.0);
        let prices = prices(&costs);
        let mut state = HoldState::Open;
        for _ in 0..12 {
            state = after_refusal(state, 0, &prices).next;
        }
        let HoldState::Skipping { skip, .. } = state else { panic!("not skipping") };
        assert!(8.0 / skip as f64 <= PROBE_BUDGET * 10.0, "a probe every {skip} rounds");
    }

    #[test]
    fn a_refused_lane_joins_a_pass_where_its_place_costs_next_to_nothing() {
        let holds =
            |growth| HoldCosts { by_depth: vec![(1, 1.0), (8, 1.0)], by_lanes: vec![(1, 1.0), (2, growth)] };
        let depth = |growth| {
            let costs = CostTable::new(vec![(1, 10.0), (64, 10.0)], holds(growth));
            joining(7, &Holding { lanes: 1, depth: 4 }, &prices(&costs))
        };
        assert_eq!((depth(1.04), depth(1.06)), (PROBE_DEPTH, 0));
    }

    #[test]
    fn a_drafter_that_cannot_pay_is_never_asked() {
        let costs = table(0.0, 100.0);
        let mut state = HoldState::Open;
        for round in 0..2000 {
            let hold = without_offer(state, round, &RECORD, &prices(&costs));
            assert_eq!(hold.depth, 0);
            state = hold.next;
        }
    }
}
