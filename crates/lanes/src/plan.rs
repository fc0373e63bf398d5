//! The plan of a round: its windows and their tokens, and what each lane holds after it.

use crate::allocate::{Allocator, Holding, Terms};
use crate::depth::{self, Hold, HoldState, Prices};
use crate::guard::Side;
use crate::guards::{GuardKey, Guards};
use crate::lanes::Options;
use crate::live_costs::LiveCosts;
use crate::offers::{Offered, Offers};
use crate::overhead::Overheads;
use crate::planted::Planted;
use crate::sequence::Sequence;
use crate::target::{Limits, MAX_WINDOW, PendingSource, TokenId, Window};
use crate::turns::{NextTurns, Room, Turn, take_turns};

/// All that a plan depends on.
#[derive(Clone, Copy)]
pub(crate) struct Situation<'a> {
    pub lanes: &'a [Option<Sequence>],
    pub limits: &'a Limits,
    pub options: &'a Options,
    pub overheads: &'a Overheads,
    pub live_costs: &'a LiveCosts,
    pub guards: &'a Guards,
    pub next_turns: NextTurns,
    pub round: u64,
}

/// A planned round. Its memory is reused.
#[derive(Debug)]
pub(crate) struct Plan {
    pub tokens: Vec<TokenId>,
    pub windows: Vec<Window>,
    /// For each window, what its lane holds and where that leaves it.
    pub holds: Vec<Hold>,
    /// For each window, where its drafts are from.
    pub offered: Vec<Offered>,
    /// Whose turn comes first after this round.
    pub next_turns: NextTurns,
    /// Windows of lanes in decode.
    pub decoding: usize,
    /// What kind of round it is, to its guard.
    pub key: GuardKey,
    /// The side it is on, and what it says to its guard.
    pub side: Side,
    pub judged: Judged,
    /// The pass at its end.
    pub holding: Holding,
    /// What the corrected cost table says of it.
    pub expected_ms: f64,
    turns: Vec<Turn>,
    offers: Offers,
    /// One lane's own chances.
    record: Vec<f32>,
    allocator: Allocator,
}

/// What a round can say to the guard of its kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Judged {
    /// What its side costs.
    Yes,
    /// What a plain round costs: no lane of it may draft.
    AsPlain,
    /// Nothing: it has prompt rows or forced tokens, or only some of its lanes may draft.
    No,
}

impl Plan {
    pub(crate) fn with_capacity(limits: &Limits) -> Self {
        let Limits { lanes, rows, block, .. } = *limits;
        Plan {
            tokens: Vec::with_capacity(rows),
            windows: Vec::with_capacity(lanes),
            holds: Vec::with_capacity(lanes),
            offered: Vec::with_capacity(lanes),
            next_turns: NextTurns::default(),
            decoding: 0,
            key: GuardKey::new(1, 0),
            side: Side::Plain,
            judged: Judged::No,
            holding: Holding::default(),
            expected_ms: 0.0,
            turns: Vec::with_capacity(lanes),
            offers: Offers::with_capacity(lanes),
            record: Vec::with_capacity(block.min(MAX_WINDOW)),
            allocator: Allocator::with_capacity(lanes, rows),
        }
    }

    /// Plans a round; without windows there is nothing to do.
    pub(crate) fn make(&mut self, situation: &Situation<'_>) {
        self.clear();
        self.choose_turns(situation);
        let draws = self.choose_side(situation);
        let overhead_ms = situation.overheads.ms(draws);
        let costs = situation.live_costs.costs(&situation.options.costs, self.key.band);
        let prices = Prices { costs, lanes: draws, overhead_ms };
        self.offers.make(&self.turns, self.side, situation);
        if situation.options.force_drafts {
            self.force(situation);
        } else {
            let holding = self.hold_without_offer(situation, &prices);
            let rows = self.turns.iter().map(|turn| turn.rows).sum();
            let rows_most = situation.limits.rows;
            let terms =
                Terms { costs, overhead_ms, rows, rows_most, tokens: draws, holding, grants_hold: true };
            let grants_hold = self.allocate(terms);
            self.hold_after_offer(situation, &prices, grants_hold);
            self.join_pass(situation, &prices);
        }
        self.write_windows(situation);
        self.windows.iter().for_each(|window| self.holding.add(window.hold));
        self.expected_ms = costs.ms(self.rows(), self.holding);
    }

    /// Rows of all windows.
    pub(crate) fn rows(&self) -> usize {
        self.windows.iter().map(Window::rows).sum()
    }

    fn clear(&mut self) {
        self.tokens.clear();
        self.windows.clear();
        self.holds.clear();
        self.offered.clear();
        self.offers.clear();
        self.holding = Holding::default();
    }

    /// A suspect lane runs alone.
    fn choose_turns(&mut self, situation: &Situation<'_>) {
        let suspect =
            situation.lanes.iter().flatten().find(|sequence| sequence.suspect).map(|sequence| sequence.id);
        let eligible = |sequence: &Sequence| suspect.is_none_or(|id| sequence.id == id);
        let Situation { lanes, limits, options, next_turns, round, .. } = *situation;
        let page = if options.planted == Some(Planted::ChunksPastBorders) { usize::MAX } else { limits.page };
        let prompt_rows = options.prompt_chunk;
        let idle_rows = options.idle_prompt_chunk.unwrap_or(prompt_rows);
        let room = Room { rows: limits.rows, prompt_rows, idle_rows, round, page };
        self.next_turns = take_turns(lanes, eligible, next_turns, room, &mut self.turns);
    }

    /// Asks the guard of this kind of round; how many lanes draw.
    fn choose_side(&mut self, situation: &Situation<'_>) -> usize {
        let drawing = || self.turns.iter().filter(|turn| draws(situation.sequence(turn), turn));
        let lanes = drawing().count();
        let tokens = drawing().map(|turn| situation.sequence(turn).tokens.len()).sum();
        self.key = GuardKey::new(lanes.max(1), tokens);
        let may_draft = |turn: &Turn| situation.sequence(turn).may_draft();
        self.decoding = self.turns.iter().filter(|turn| !situation.sequence(turn).in_prefill()).count();
        let all_decode = self.decoding == self.turns.len();
        let forced = self.turns.iter().any(|turn| situation.sequence(turn).forced().is_some());
        self.judged = match (self.turns.iter().any(may_draft), self.turns.iter().all(may_draft)) {
            _ if !all_decode || forced || situation.options.force_drafts => Judged::No,
            (false, _) => Judged::AsPlain,
            (true, all) => {
                if all {
                    Judged::Yes
                } else {
                    Judged::No
                }
            }
        };
        self.side = match self.judged {
            _ if situation.options.force_drafts => Side::Drafted,
            Judged::Yes if situation.options.planted == Some(Planted::GuardAsleep) => Side::Drafted,
            Judged::AsPlain => Side::Plain,
            Judged::Yes => situation.guards.side(self.key),
            Judged::No => situation.guards.unjudged_side(self.key),
        };
        lanes
    }

    /// Decides the holds of lanes that offer nothing of their drafter; the others' follow from their grants.
    fn hold_without_offer(&mut self, situation: &Situation<'_>, prices: &Prices<'_>) -> Holding {
        let mut holding = Holding::default();
        for index in 0..self.turns.len() {
            let hold = match self.offers.source(index) {
                Offered::Nothing | Offered::Forced => self.hold(situation, prices, index),
                Offered::Copy | Offered::Held => {
                    Hold { depth: 0, next: situation.sequence(&self.turns[index]).hold_state }
                }
            };
            holding.add(hold.depth);
            self.holds.push(hold);
        }
        holding
    }

    /// The hold of a lane that has nothing to offer, or a copy that was refused.
    fn hold(&mut self, situation: &Situation<'_>, prices: &Prices<'_>, index: usize) -> Hold {
        let turn = &self.turns[index];
        let sequence = situation.sequence(turn);
        if self.side == Side::Plain || !may_hold(sequence, turn) {
            return Hold { depth: 0, next: sequence.hold_state };
        }
        self.record.clear();
        sequence.rates.chances(sequence.most_hold(situation.limits.block), &mut self.record);
        depth::without_offer(sequence.hold_state, situation.round, &self.record, prices)
    }

    /// Grants rows to drafts; whether the lanes that got some hold again. Where another hold would not pay, the
    /// drafts that are held already are paid for, and may still be worth their rows.
    fn allocate(&mut self, terms: Terms<'_>) -> bool {
        let granted = self.allocator.allocate(self.offers.all(), self.offers.chances(), &terms);
        let grants_hold = granted.iter().any(|&granted| granted > 0);
        if !grants_hold {
            self.allocator.allocate(
                self.offers.all(),
                self.offers.chances(),
                &Terms { grants_hold, ..terms },
            );
        }
        grants_hold
    }

    fn hold_after_offer(&mut self, situation: &Situation<'_>, prices: &Prices<'_>, grants_hold: bool) {
        for index in 0..self.turns.len() {
            let granted = self.allocator.grants()[index];
            let sequence = situation.sequence(&self.turns[index]);
            match self.offers.source(index) {
                Offered::Nothing | Offered::Forced => {}
                // A lane that copies needs no drafter while that goes on.
                Offered::Copy if granted > 0 => {}
                Offered::Copy => self.holds[index] = self.hold(situation, prices, index),
                Offered::Held if grants_hold && granted > 0 => {
                    self.holds[index] = depth::after_grant(granted, self.offers.all()[index].most_hold);
                }
                Offered::Held => {
                    self.holds[index] = depth::after_refusal(sequence.hold_state, situation.round, prices);
                }
            }
        }
    }

    /// A pass that runs anyway is the time to ask about lanes that were refused or skip: they pay for their place
    /// in it only.
    fn join_pass(&mut self, situation: &Situation<'_>, prices: &Prices<'_>) {
        let mut holding = Holding::default();
        self.holds.iter().for_each(|hold| holding.add(hold.depth));
        if holding.lanes == 0 {
            return;
        }
        for (turn, hold) in self.turns.iter().zip(&mut self.holds) {
            let sequence = situation.sequence(turn);
            let skips = hold.depth == 0 && matches!(hold.next, HoldState::Skipping { .. });
            if skips && may_hold(sequence, turn) {
                hold.depth = depth::joining(sequence.most_hold(situation.limits.block), &holding, prices);
                holding.add(hold.depth);
            }
        }
    }

    /// All drafts get rows and all lanes hold, whatever it costs.
    fn force(&mut self, situation: &Situation<'_>) {
        let rows: usize = self.turns.iter().map(|turn| turn.rows).sum();
        self.allocator.grant_all(self.offers.all(), situation.limits.rows - rows);
        for turn in &self.turns {
            let sequence = situation.sequence(turn);
            let depth = if draws(sequence, turn) { sequence.most_hold(situation.limits.block) } else { 0 };
            self.holds.push(Hold { depth, next: HoldState::Open });
        }
    }

    fn write_windows(&mut self, situation: &Situation<'_>) {
        for (index, turn) in self.turns.iter().enumerate() {
            let granted = self.allocator.grants()[index];
            let sequence = situation.sequence(turn);
            let start = self.tokens.len();
            let position = sequence.cached;
            self.tokens.extend(&sequence.tokens[position..position + turn.rows]);
            self.tokens.extend(&self.offers.tokens(index)[..granted]);
            let offered = if granted > 0 { self.offers.source(index) } else { Offered::Nothing };
            let pending = match offered {
                Offered::Held => PendingSource::Held,
                Offered::Nothing | Offered::Copy | Offered::Forced => PendingSource::Host,
            };
            self.windows.push(Window {
                lane: turn.lane,
                position,
                tokens: start..self.tokens.len(),
                pending,
                drafts: granted,
                draws: draws(sequence, turn),
                hold: self.holds[index].depth,
            });
            self.offered.push(offered);
        }
    }
}

impl<'a> Situation<'a> {
    pub(crate) fn sequence(&self, turn: &Turn) -> &'a Sequence {
        self.lanes[turn.lane].as_ref().expect("a lane with a turn has a sequence")
    }
}

/// Whether the turn reaches the end of what is known, so that its last row draws.
fn draws(sequence: &Sequence, turn: &Turn) -> bool {
    turn.rows == sequence.rows_due()
}

/// Whether drafts for the next round could be of use.
fn may_hold(sequence: &Sequence, turn: &Turn) -> bool {
    draws(sequence, turn) && !sequence.about_to_stop()
}
