//! The plan of a round: its windows and their tokens, and what each lane holds after it.

use crate::allocate::{Allocator, Holding, Offer, Terms};
use crate::chances::survivals;
use crate::depth::{self, Hold, HoldState, Prices};
use crate::lanes::Options;
use crate::overhead::Overheads;
use crate::sequence::Sequence;
use crate::target::{Limits, PendingSource, TokenId, Window};
use crate::turns::{NextTurns, Room, Turn, take_turns};

/// All that a plan depends on.
#[derive(Clone, Copy)]
pub(crate) struct Situation<'a> {
    pub lanes: &'a [Option<Sequence>],
    pub limits: &'a Limits,
    pub options: &'a Options,
    pub overheads: &'a Overheads,
    pub next_turns: NextTurns,
    pub round: u64,
}

/// A planned round. Its memory is reused.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    pub tokens: Vec<TokenId>,
    pub windows: Vec<Window>,
    /// For each window, what its lane holds and where that leaves it.
    pub holds: Vec<Hold>,
    /// Whose turn comes first after this round.
    pub next_turns: NextTurns,
    /// Windows of lanes in decode.
    pub decoding: usize,
    /// What the cost table says of the round.
    pub table_ms: f64,
    turns: Vec<Turn>,
    /// For each turn, the drafts it offers.
    offers: Vec<Offer>,
    chances: Vec<f32>,
    /// One lane's own chances.
    record: Vec<f32>,
    allocator: Allocator,
}

impl Plan {
    pub(crate) fn with_capacity(limits: &Limits) -> Self {
        let Limits { lanes, rows, block, .. } = *limits;
        Plan {
            tokens: Vec::with_capacity(rows),
            windows: Vec::with_capacity(lanes),
            holds: Vec::with_capacity(lanes),
            turns: Vec::with_capacity(lanes),
            offers: Vec::with_capacity(lanes),
            chances: Vec::with_capacity(lanes * block),
            record: Vec::with_capacity(block),
            allocator: Allocator::with_capacity(lanes, rows),
            ..Plan::default()
        }
    }

    /// Plans a round; without windows there is nothing to do.
    pub(crate) fn make(&mut self, situation: &Situation<'_>) {
        self.clear();
        self.choose_turns(situation);
        let draws = self.turns.iter().filter(|turn| draws(situation.sequence(turn), turn)).count();
        let overhead_ms = situation.overheads.ms(draws);
        let prices = Prices { costs: &situation.options.costs, lanes: draws, overhead_ms };
        self.offer(situation);
        let holding = self.hold_without_offer(situation, &prices);
        let terms = Terms {
            costs: prices.costs,
            overhead_ms,
            rows: self.turns.iter().map(|turn| turn.rows).sum(),
            rows_most: situation.limits.rows,
            tokens: draws,
            holding,
            grants_hold: true,
        };
        let grants_hold = self.allocate(terms);
        self.hold_after_offer(situation, &prices, grants_hold);
        self.write_windows(situation);
        self.price(prices.costs);
    }

    fn clear(&mut self) {
        self.tokens.clear();
        self.windows.clear();
        self.holds.clear();
        self.offers.clear();
        self.chances.clear();
    }

    /// A suspect lane runs alone.
    fn choose_turns(&mut self, situation: &Situation<'_>) {
        let suspect =
            situation.lanes.iter().flatten().find(|sequence| sequence.suspect).map(|sequence| sequence.id);
        let eligible = |sequence: &Sequence| suspect.is_none_or(|id| sequence.id == id);
        let Situation { lanes, limits, options, next_turns, round, .. } = *situation;
        let room = Room { rows: limits.rows, prompt_rows: options.prompt_chunk, round, page: limits.page };
        self.next_turns = take_turns(lanes, eligible, next_turns, room, &mut self.turns);
    }

    /// The chances of all held drafts. A copy of the sequence's own earlier tokens would be offered here instead,
    /// and forced tokens before either.
    fn offer(&mut self, situation: &Situation<'_>) {
        for turn in &self.turns {
            let sequence = situation.sequence(turn);
            let start = self.chances.len();
            let drafts = sequence.offer();
            if situation.limits.has_confidence {
                let temperatures = situation.options.calibration.temperatures(sequence.rule.temperature);
                survivals(drafts, temperatures, &mut self.chances);
            } else {
                sequence.rates.chances(drafts.len(), &mut self.chances);
            }
            let most_hold = sequence.most_hold(situation.limits.block);
            self.offers.push(Offer { chances: start..self.chances.len(), most_hold });
        }
    }

    /// Decides the holds of lanes that offer nothing; the others' follow from their grants.
    fn hold_without_offer(&mut self, situation: &Situation<'_>, prices: &Prices<'_>) -> Holding {
        let mut holding = Holding::default();
        for (turn, offer) in self.turns.iter().zip(&self.offers) {
            let sequence = situation.sequence(turn);
            let mut hold = Hold { depth: 0, next: sequence.hold_state };
            if offer.chances.is_empty() && draws(sequence, turn) && !sequence.about_to_stop() {
                self.record.clear();
                sequence.rates.chances(offer.most_hold, &mut self.record);
                hold = depth::without_offer(sequence.hold_state, situation.round, &self.record, prices);
            }
            holding.add(hold.depth);
            self.holds.push(hold);
        }
        holding
    }

    /// Grants rows to drafts; whether the lanes that got some hold again. Where another hold would not pay, the
    /// drafts that are held already are paid for, and may still be worth their rows.
    fn allocate(&mut self, terms: Terms<'_>) -> bool {
        let granted = self.allocator.allocate(&self.offers, &self.chances, &terms);
        let grants_hold = granted.iter().any(|&granted| granted > 0);
        if !grants_hold {
            self.allocator.allocate(&self.offers, &self.chances, &Terms { grants_hold, ..terms });
        }
        grants_hold
    }

    fn hold_after_offer(&mut self, situation: &Situation<'_>, prices: &Prices<'_>, grants_hold: bool) {
        let grants = self.allocator.grants();
        for (index, (turn, offer)) in self.turns.iter().zip(&self.offers).enumerate() {
            if offer.chances.is_empty() {
                continue;
            }
            let sequence = situation.sequence(turn);
            self.holds[index] = if grants_hold && grants[index] > 0 {
                depth::after_grant(grants[index], offer.most_hold)
            } else {
                depth::after_refusal(sequence.hold_state, situation.round, prices)
            };
        }
    }

    fn write_windows(&mut self, situation: &Situation<'_>) {
        let grants = self.allocator.grants();
        for (index, turn) in self.turns.iter().enumerate() {
            let sequence = situation.sequence(turn);
            let start = self.tokens.len();
            let position = sequence.cached;
            self.tokens.extend(&sequence.tokens[position..position + turn.rows]);
            self.tokens.extend(sequence.offer()[..grants[index]].iter().map(|draft| draft.token));
            self.windows.push(Window {
                lane: turn.lane,
                position,
                tokens: start..self.tokens.len(),
                pending: PendingSource::Host,
                drafts: grants[index],
                draws: draws(sequence, turn),
                hold: self.holds[index].depth,
            });
        }
        self.decoding = self.turns.iter().filter(|turn| !situation.sequence(turn).in_prefill()).count();
    }

    fn price(&mut self, costs: &crate::cost::CostTable) {
        let mut holding = Holding::default();
        self.windows.iter().for_each(|window| holding.add(window.hold));
        self.table_ms = costs.round_ms(self.tokens.len()) + costs.hold_ms(holding.lanes, holding.depth);
    }
}

impl<'a> Situation<'a> {
    fn sequence(&self, turn: &Turn) -> &'a Sequence {
        self.lanes[turn.lane].as_ref().expect("a lane with a turn has a sequence")
    }
}

/// Whether the turn reaches the end of what is known, so that its last row draws.
fn draws(sequence: &Sequence, turn: &Turn) -> bool {
    turn.rows == sequence.rows_due()
}

impl Hold {
    /// Whether the lane was judged not worth drafting for now.
    pub(crate) fn is_off(&self) -> bool {
        matches!(self.next, HoldState::Skipping { .. })
    }
}
