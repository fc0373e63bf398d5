//! Allocation: which of the offered drafts get a row, over all lanes together.
//!
//! Rows are added likeliest first and the best value seen is kept, so that a dip in the cost table does not end
//! the search. Acceptance is by equality, so any choice is lossless.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::ops::Range;

use crate::depth::granted_depth;
use crate::live_costs::Costs;

/// What one lane offers: the chances of its drafts, as a range of the round's chances.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Offer {
    pub chances: Range<usize>,
    /// Deepest hold that a grant may lead to.
    pub most_hold: usize,
}

/// What a round has before any draft is let in.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Terms<'a> {
    pub costs: Costs<'a>,
    pub overhead_ms: f64,
    /// Rows that run in any case.
    pub rows: usize,
    /// Most rows of the round.
    pub rows_most: usize,
    /// Tokens that are committed in any case.
    pub tokens: usize,
    /// Lanes that hold in any case, and the deepest of those holds.
    pub holding: Holding,
    /// Whether a lane that is granted drafts holds again, which is then part of their price.
    pub grants_hold: bool,
}

/// The hold at the end of a round: one pass for all its lanes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Holding {
    pub lanes: usize,
    pub depth: usize,
}

impl Holding {
    pub(crate) fn add(&mut self, depth: usize) {
        self.lanes += usize::from(depth > 0);
        self.depth = self.depth.max(depth);
    }
}

/// Shortest round believed in, so that a table of zeros divides nothing by zero.
const ROUND_MS_LEAST: f64 = 1e-9;

/// Expected tokens a millisecond.
fn value(tokens: f64, rows: usize, holding: Holding, terms: &Terms<'_>) -> f64 {
    tokens / (terms.costs.ms(rows, holding) + terms.overhead_ms).max(ROUND_MS_LEAST)
}

/// A lane's next draft.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Candidate {
    chance: f32,
    lane: usize,
}

impl Eq for Candidate {}

impl Ord for Candidate {
    fn cmp(&self, other: &Self) -> Ordering {
        self.chance.total_cmp(&other.chance).then(other.lane.cmp(&self.lane))
    }
}

impl PartialOrd for Candidate {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Memory of the allocation, kept between rounds.
#[derive(Debug, Default)]
pub(crate) struct Allocator {
    candidates: BinaryHeap<Candidate>,
    /// Lanes in the order in which they got rows.
    order: Vec<usize>,
    grants: Vec<usize>,
}

impl Allocator {
    pub(crate) fn with_capacity(lanes: usize, rows: usize) -> Self {
        Allocator {
            candidates: BinaryHeap::with_capacity(lanes),
            order: Vec::with_capacity(rows),
            grants: Vec::with_capacity(lanes),
        }
    }

    /// Drafts granted to each offer.
    pub(crate) fn allocate(&mut self, offers: &[Offer], chances: &[f32], terms: &Terms<'_>) -> &[usize] {
        let best = self.search(offers, chances, terms);
        self.grants.fill(0);
        for &lane in &self.order[..best] {
            self.grants[lane] += 1;
        }
        &self.grants
    }

    /// Grants every draft a row, as far as there are rows, to one lane after another.
    pub(crate) fn grant_all(&mut self, offers: &[Offer], mut rows_left: usize) {
        self.grants.clear();
        for offer in offers {
            let granted = offer.chances.len().min(rows_left);
            rows_left -= granted;
            self.grants.push(granted);
        }
    }

    /// The grants of the last call.
    pub(crate) fn grants(&self) -> &[usize] {
        &self.grants
    }

    /// Fills `order`; how many of it have the best value.
    fn search(&mut self, offers: &[Offer], chances: &[f32], terms: &Terms<'_>) -> usize {
        self.candidates.clear();
        self.order.clear();
        self.grants.clear();
        self.grants.resize(offers.len(), 0);
        let offered = |lane: usize| &chances[offers[lane].chances.clone()];
        self.candidates.extend((0..offers.len()).filter_map(|lane| candidate(lane, offered(lane), 0)));

        let mut tokens = terms.tokens as f64;
        let mut holding = terms.holding;
        let mut best = (value(tokens, terms.rows, holding, terms), 0);
        while terms.rows + self.order.len() < terms.rows_most {
            let Some(Candidate { chance, lane }) = self.candidates.pop() else { break };
            self.order.push(lane);
            self.grants[lane] += 1;
            let granted = self.grants[lane];
            self.candidates.extend(candidate(lane, offered(lane), granted));

            tokens += f64::from(chance);
            let most_hold = if terms.grants_hold { offers[lane].most_hold } else { 0 };
            let depth = granted_depth(granted, most_hold);
            holding.lanes += usize::from(granted == 1 && depth > 0);
            holding.depth = holding.depth.max(depth);
            let reached = value(tokens, terms.rows + self.order.len(), holding, terms);
            if reached > best.0 {
                best = (reached, self.order.len());
            }
        }
        best.1
    }
}

fn candidate(lane: usize, chances: &[f32], granted: usize) -> Option<Candidate> {
    chances.get(granted).filter(|&&chance| chance > 0.0).map(|&chance| Candidate { chance, lane })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::{CostTable, HoldCosts};
    use crate::fake::Random;

    /// Lanes with their chances, and the terms of a round.
    struct Case {
        lanes: Vec<Vec<f32>>,
        costs: CostTable,
        rows_most: usize,
        most_hold: usize,
    }

    impl Case {
        fn random(random: &mut Random, flat_hold: bool) -> Case {
            let lanes = (0..1 + random.below(3)).map(|_| falling_chances(random)).collect();
            let mut ms = 1.0 + random.unit();
            // Steps of all sizes, now and then down: tables measured on real machines look like this.
            let rows = (1..=16).map(|rows| {
                ms = (ms + random.unit() * random.unit() - 0.1).max(0.5);
                (rows, ms)
            });
            let rows = rows.collect();
            let hold_ms = random.unit();
            let growth = if flat_hold { 0.0 } else { random.unit() };
            let holds = HoldCosts {
                by_depth: vec![(1, hold_ms), (8, hold_ms * (1.0 + growth))],
                by_lanes: vec![(1, 1.0), (3, 1.0 + growth)],
            };
            let costs = CostTable::new(rows, holds);
            Case { lanes, costs, rows_most: 3 + random.below(12) as usize, most_hold: 4 }
        }

        fn terms(&self) -> Terms<'_> {
            Terms {
                costs: Costs::of(&self.costs),
                overhead_ms: 0.1,
                rows: self.lanes.len(),
                rows_most: self.rows_most.max(self.lanes.len()),
                tokens: self.lanes.len(),
                holding: Holding::default(),
                grants_hold: true,
            }
        }

        fn allocate(&self) -> Vec<usize> {
            let mut chances = Vec::new();
            let mut offers = Vec::new();
            for lane in &self.lanes {
                offers.push(Offer {
                    chances: chances.len()..chances.len() + lane.len(),
                    most_hold: self.most_hold,
                });
                chances.extend(lane);
            }
            Allocator::default().allocate(&offers, &chances, &self.terms()).to_vec()
        }

        fn value(&self, grants: &[usize]) -> f64 {
            let mut holding = Holding::default();
            let mut tokens = self.lanes.len() as f64;
            for (lane, &granted) in self.lanes.iter().zip(grants) {
                holding.add(granted_depth(granted, self.most_hold));
                tokens += lane[..granted].iter().map(|&chance| f64::from(chance)).sum::<f64>();
            }
            let rows = self.lanes.len() + grants.iter().sum::<usize>();
            value(tokens, rows, holding, &self.terms())
        }

        /// The best value of all grants that fit.
        fn best(&self) -> f64 {
            let mut best = 0.0f64;
            let mut grants = vec![0; self.lanes.len()];
            loop {
                let rows = self.lanes.len() + grants.iter().sum::<usize>();
                if rows <= self.terms().rows_most {
                    best = best.max(self.value(&grants));
                }
                let Some(lane) = (0..grants.len()).find(|&lane| grants[lane] < self.lanes[lane].len()) else {
                    return best;
                };
                grants[..lane].fill(0);
                grants[lane] += 1;
            }
        }
    }

    fn falling_chances(random: &mut Random) -> Vec<f32> {
        let mut chance = 1.0;
        let depth = random.below(5);
        (0..depth)
            .map(|_| {
                chance *= random.unit() as f32;
                chance
            })
            .collect()
    }

    #[test]
    fn allocation_finds_the_best_value_of_all_grants() {
        for seed in 0..2000 {
            let case = Case::random(&mut Random::new(seed), true);
            let (found, best) = (case.value(&case.allocate()), case.best());
            assert!(found >= best * (1.0 - 1e-6), "seed {seed}: {found} of {best}");
        }
    }

    #[test]
    fn allocation_is_never_below_plain_and_near_the_best_when_holds_grow() {
        for seed in 0..2000 {
            let case = Case::random(&mut Random::new(seed), false);
            let grants = case.allocate();
            let plain = case.value(&vec![0; grants.len()]);
            let (found, best) = (case.value(&grants), case.best());
            assert!(found >= plain, "seed {seed}: {found} is below plain, {plain}");
            assert!(found >= 0.9 * best, "seed {seed}: {found} of {best}");
        }
    }

    #[test]
    fn rows_stay_within_the_largest_round() {
        for seed in 0..500 {
            let case = Case::random(&mut Random::new(seed), true);
            let rows = case.lanes.len() + case.allocate().iter().sum::<usize>();
            assert!(rows <= case.terms().rows_most, "seed {seed}: {rows} rows");
        }
    }

    #[test]
    fn equal_chances_go_to_the_lower_lane() {
        let costs = CostTable::default();
        let case = Case { lanes: vec![vec![0.5], vec![0.5]], costs, rows_most: 3, most_hold: 1 };
        assert_eq!(case.allocate(), [1, 0]);
    }

    #[test]
    fn drafts_that_would_not_pay_for_another_hold_may_pay_for_their_rows() {
        let holds = HoldCosts { by_depth: vec![(1, 2.0)], by_lanes: vec![] };
        let costs = CostTable::new(vec![(1, 1.0), (8, 1.0)], holds);
        let case = Case { lanes: vec![vec![0.9, 0.8]], costs, rows_most: 8, most_hold: 4 };
        assert_eq!(case.allocate(), [0]);
        let terms = Terms { grants_hold: false, ..case.terms() };
        let offers = [Offer { chances: 0..2, most_hold: 4 }];
        assert_eq!(Allocator::default().allocate(&offers, &case.lanes[0], &terms), [2]);
    }
}
