//! Offers: the drafts that each lane could verify in a round, with the chance of each.

use crate::allocate::Offer;
use crate::chances::survivals;
use crate::guard::Side;
use crate::plan::Situation;
use crate::planted::Planted;
use crate::target::{MAX_WINDOW, TokenId};
use crate::turns::Turn;

/// Where a lane's drafts are from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Offered {
    /// It has none.
    Nothing,
    /// Its own earlier tokens.
    Copy,
    /// Its last hold.
    Held,
    /// What its constraint leaves no choice about.
    Forced,
}

/// The offers of a round's turns. Its memory is reused.
#[derive(Debug)]
pub(crate) struct Offers {
    offers: Vec<Offer>,
    sources: Vec<Offered>,
    tokens: Vec<TokenId>,
    chances: Vec<f32>,
}

impl Offers {
    pub(crate) fn with_capacity(lanes: usize) -> Self {
        let drafts = lanes * (MAX_WINDOW - 1);
        Offers {
            offers: Vec::with_capacity(lanes),
            sources: Vec::with_capacity(lanes),
            tokens: Vec::with_capacity(drafts),
            chances: Vec::with_capacity(drafts),
        }
    }

    pub(crate) fn clear(&mut self) {
        self.offers.clear();
        self.sources.clear();
        self.tokens.clear();
        self.chances.clear();
    }

    /// One offer a turn: forced tokens, or else a copy, or else held drafts. Forced tokens are not the drafter's: they
    /// are offered on both sides.
    pub(crate) fn make(&mut self, turns: &[Turn], side: Side, situation: &Situation<'_>) {
        for turn in turns {
            let start = self.tokens.len();
            let source = match side {
                Side::Plain => self.offer_forced(turn, situation),
                Side::Drafted => self.offer(turn, situation),
            };
            let sequence = situation.sequence(turn);
            let most_hold =
                if source == Offered::Held { sequence.most_hold(situation.limits.block) } else { 0 };
            debug_assert_eq!(self.tokens.len(), self.chances.len(), "a draft without a chance");
            self.offers.push(Offer { chances: start..self.chances.len(), most_hold });
            self.sources.push(source);
        }
    }

    fn offer(&mut self, turn: &Turn, situation: &Situation<'_>) -> Offered {
        let sequence = situation.sequence(turn);
        if !sequence.held_extend_forced() && self.offer_forced(turn, situation) == Offered::Forced {
            return Offered::Forced;
        }
        let copies = !situation.options.force_drafts;
        if let Some((copied, rates)) = sequence.copy(situation.round).filter(|_| copies) {
            let late = usize::from(situation.options.planted == Some(Planted::CopiesShifted));
            self.tokens.extend(copied.iter().cycle().skip(late).take(copied.len()));
            rates.chances(copied.len(), &mut self.chances);
            return Offered::Copy;
        }
        let drafts = sequence.offer();
        self.tokens.extend(drafts.iter().map(|draft| draft.token));
        if situation.limits.has_confidence {
            let temperatures = situation.options.calibration.temperatures(sequence.rule.temperature);
            survivals(drafts, temperatures, &mut self.chances);
        } else {
            sequence.rates.chances(drafts.len(), &mut self.chances);
        }
        if drafts.is_empty() { Offered::Nothing } else { Offered::Held }
    }

    fn offer_forced(&mut self, turn: &Turn, situation: &Situation<'_>) -> Offered {
        let Some((forced, rates)) = situation.sequence(turn).forced() else { return Offered::Nothing };
        self.tokens.extend(forced);
        rates.chances(forced.len(), &mut self.chances);
        Offered::Forced
    }

    pub(crate) fn all(&self) -> &[Offer] {
        &self.offers
    }

    pub(crate) fn chances(&self) -> &[f32] {
        &self.chances
    }

    pub(crate) fn source(&self, turn: usize) -> Offered {
        self.sources[turn]
    }

    pub(crate) fn tokens(&self, turn: usize) -> &[TokenId] {
        &self.tokens[self.offers[turn].chances.clone()]
    }
}
