//! The guards of all kinds of rounds: lone or shared by so many lanes, at short or long contexts.

use crate::band::{BANDS, band, band_start};
use crate::debt::Debt;
use crate::guard::{Guard, GuardedRound, Side, SideRecord};

/// Most lanes of each kind of round: few are told apart, many cost alike.
const LANES: [usize; 12] = [1, 2, 3, 4, 6, 8, 12, 16, 32, 64, 128, usize::MAX];

/// A kind of round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct GuardKey {
    lanes: usize,
    pub band: usize,
}

impl GuardKey {
    /// The kind of a round that `lanes` lanes share, whose contexts have `tokens` tokens together.
    pub(crate) fn new(lanes: usize, tokens: usize) -> Self {
        GuardKey { lanes: LANES.partition_point(|&most| most < lanes), band: band(tokens / lanes.max(1)) }
    }

    /// What a round of `lanes` lanes is to be multiplied with to count like one of the most lanes of its kind.
    /// Rounds of several lane counts would otherwise be compared by who happened to be there: a plain round's
    /// price per token falls with every lane.
    pub(crate) fn scale(self, lanes: usize, lanes_most: usize, plain_ms: impl Fn(usize) -> f64) -> Scale {
        let most = LANES[self.lanes].min(lanes_most);
        Scale {
            ms: plain_ms(most) / plain_ms(lanes).max(f64::MIN_POSITIVE),
            tokens: most as f64 / lanes as f64,
        }
    }

    fn index(self) -> usize {
        self.lanes * BANDS + self.band
    }
}

/// Factors of a round's milliseconds and tokens.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Scale {
    pub ms: f64,
    pub tokens: f64,
}

/// What a guard has found, for metrics. Rounds are scaled to the most lanes that they may have.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GuardState {
    /// Fewest and most lanes of its rounds.
    pub lanes: (usize, usize),
    /// Shortest context of its rounds, on average over their lanes.
    pub context_least: usize,
    /// The side that it rests on.
    pub rests_on: Side,
    /// Its plain rounds.
    pub plain: SideRecord,
    /// Its drafted rounds.
    pub drafted: SideRecord,
}

/// All guards. They outlive requests: one that begins where drafting lost begins plain.
#[derive(Debug)]
pub(crate) struct Guards {
    guards: Vec<Option<Guard>>,
    /// Kind and side of the round before.
    last: Option<(GuardKey, Side)>,
    /// What drafting has cost where no guard counts.
    pub debt: Debt,
}

impl Default for Guards {
    fn default() -> Self {
        Guards { guards: vec![None; LANES.len() * BANDS], last: None, debt: Debt::default() }
    }
}

impl Guards {
    /// Guards that all begin on a side.
    pub(crate) fn resting(side: Side) -> Self {
        let guards = vec![Some(Guard::new(side, 0.0)); LANES.len() * BANDS];
        Guards { guards, debt: Debt::ignored(), ..Guards::default() }
    }

    /// The side of a round of this kind. A guard that cannot compare yet does not draft while too much was spent in rounds
    /// that were not counted.
    pub(crate) fn side(&self, key: GuardKey) -> Side {
        match &self.guards[key.index()] {
            Some(guard) if guard.loss().is_some() => guard.side(),
            Some(guard) => self.affordable(guard.side()),
            None => self.affordable(self.first(key).rests_on),
        }
    }

    /// The side of a round of this kind that says nothing to its guard: the one that the guard rests on, unless too much
    /// was spent in such rounds.
    pub(crate) fn unjudged_side(&self, key: GuardKey) -> Side {
        let guard = self.guards[key.index()].as_ref();
        let rests_on = guard.map_or_else(|| self.first(key).rests_on, |guard| guard.rests_on);
        self.affordable(rests_on)
    }

    fn affordable(&self, side: Side) -> Side {
        if self.debt.allows() { side } else { Side::Plain }
    }

    /// A guard without rounds, like that of the next shorter contexts that has some. Drafting only gets worse as
    /// contexts grow.
    fn first(&self, key: GuardKey) -> Guard {
        let shorter = self.guards[key.lanes * BANDS..key.index()].iter().flatten().next_back();
        shorter
            .map_or(Guard::new(Side::Drafted, 0.0), |guard| Guard::new(guard.rests_on, guard.loss_expected()))
    }

    /// Learns from a round of this kind.
    pub(crate) fn note(&mut self, key: GuardKey, round: &GuardedRound) {
        let same = self.last.replace((key, round.side)) == Some((key, round.side));
        let first = self.first(key);
        let guard = self.guards[key.index()].get_or_insert(first);
        let mut round = GuardedRound { counts: round.counts && same, ..*round };
        if !round.counts {
            self.debt.absorb(round.absorb_ms);
            let lost_ms = if round.was_plain { 0.0 } else { round.took_ms - round.fair_ms };
            self.debt.spend(lost_ms, round.took_ms, round.plain_ms);
        } else if round.was_plain {
            // A page that was full.
            self.debt.spend(round.absorb_ms, round.took_ms, round.plain_ms);
            round.took_ms -= round.absorb_ms;
        } else {
            round.took_ms += self.debt.bear(round.took_ms);
            self.debt.recover((round.tokens * guard.plain.token_ms() - round.took_ms).max(0.0));
        }
        guard.note(&round);
    }

    /// Learns from a round whose lanes may not draft.
    pub(crate) fn note_plain(&mut self, key: GuardKey, took_ms: f64, tokens: f64) {
        let same = self.last.replace((key, Side::Plain)) == Some((key, Side::Plain));
        let first = self.first(key);
        if same {
            self.guards[key.index()].get_or_insert(first).note_plain(took_ms, tokens);
        }
    }

    /// A round came between that no guard counts.
    pub(crate) fn interrupt(&mut self) {
        self.last = None;
    }

    /// What the guards have found that have seen rounds.
    pub(crate) fn states(&self) -> impl Iterator<Item = GuardState> {
        let seen = self.guards.iter().enumerate().filter_map(|(index, guard)| Some((index, guard.as_ref()?)));
        seen.map(|(index, guard)| {
            let lanes = index / BANDS;
            GuardState {
                lanes: (if lanes == 0 { 1 } else { LANES[lanes - 1] + 1 }, LANES[lanes]),
                context_least: band_start(index % BANDS),
                rests_on: guard.rests_on,
                plain: guard.plain,
                drafted: guard.drafted,
            }
        })
    }
}
