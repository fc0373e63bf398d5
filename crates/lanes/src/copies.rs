//! Copies: drafts taken from a sequence's own earlier tokens (prompt lookup).

use crate::chances::{LANE_WEIGHT, Rates};
use crate::target::{MAX_WINDOW, TokenId};

/// Tokens by which earlier places are found.
const GRAM: usize = 3;

/// Tokens before the end that must match before a copy is proposed: fewer find places that go on otherwise.
const MATCH_LEAST: usize = 8;

/// Longest match that is told apart from a longer one.
const MATCH_MOST: usize = 64;

/// Earlier places that are compared: more find longer matches in repetitive text, at the host's time.
const PLACES: usize = 16;

/// Tokens that are worth proposing.
const PROPOSED_LEAST: usize = 2;

/// Tokens proposed at first; a lone lane whose copies hold proposes 15, then 31.
const FIRST_WIDTH: usize = 7;

/// Copies in a row without an accepted token, after which there are none for a while.
const MISSES: u32 = 4;

/// Rounds without copies then.
const SILENCE: u64 = 16;

/// Chance of the first copied tokens before a sequence has a record of its own.
const RATE_PRIOR: f32 = 0.94;

/// Marks a place before which there is none.
const NOWHERE: u32 = u32::MAX;

/// Earlier places of a sequence, and how its copies have done.
#[derive(Debug)]
pub(crate) struct Copies {
    /// For each hash of three tokens, the latest place that they end at.
    latest: Vec<u32>,
    /// For each place, the one before it with the same hash.
    before: Vec<u32>,
    width: usize,
    misses: u32,
    silent_until: u64,
    pub rates: Rates,
}

impl Copies {
    /// Copies for a sequence of up to `context` tokens; the only memory they take.
    pub(crate) fn with_capacity(context: usize) -> Self {
        Copies {
            latest: vec![NOWHERE; context.next_power_of_two()],
            before: Vec::with_capacity(context),
            width: FIRST_WIDTH,
            misses: 0,
            silent_until: 0,
            rates: Rates::seeded(RATE_PRIOR),
        }
    }

    /// Takes in the tokens that are new since the last call.
    pub(crate) fn learn(&mut self, tokens: &[TokenId]) {
        for place in self.before.len()..tokens.len() {
            let slot = self.slot(tokens, place);
            self.before
                .push(slot.map_or(NOWHERE, |slot| std::mem::replace(&mut self.latest[slot], place as u32)));
        }
    }

    /// The tokens after the longest earlier match of the sequence's end, the latest of equal ones; nothing where
    /// none is long enough.
    pub(crate) fn propose<'a>(&self, tokens: &'a [TokenId], round: u64, most: usize) -> &'a [TokenId] {
        debug_assert_eq!(self.before.len(), tokens.len(), "copies have not learnt the latest tokens");
        if round < self.silent_until || tokens.is_empty() {
            return &[];
        }
        let end = tokens.len() - 1;
        let mut place = self.before[end];
        let (mut longest, mut found) = (MATCH_LEAST - 1, None);
        for _ in 0..PLACES {
            if place == NOWHERE || longest >= MATCH_MOST {
                break;
            }
            let matched = match_length(tokens, place as usize, end);
            if matched > longest {
                (longest, found) = (matched, Some(place as usize));
            }
            place = self.before[place as usize];
        }
        let Some(found) = found else { return &[] };
        let proposed = &tokens[found + 1..tokens.len().min(found + 1 + self.width.min(most))];
        if proposed.len() >= PROPOSED_LEAST { proposed } else { &[] }
    }

    /// Learns from a copy that had rows and from what the target drew: the tokens it accepted and one more.
    pub(crate) fn judge(&mut self, copied: &[TokenId], confirmed: &[TokenId], round: u64, lone: bool) {
        self.rates.judge(copied.iter().copied(), confirmed, LANE_WEIGHT);
        let accepted = confirmed.len() - 1;
        let whole = accepted == copied.len();
        self.width = if whole && lone { (2 * self.width + 1).min(MAX_WINDOW - 1) } else { FIRST_WIDTH };
        self.misses = if accepted == 0 { self.misses + 1 } else { 0 };
        if self.misses == MISSES {
            self.misses = 0;
            self.silent_until = round + 1 + SILENCE;
        }
    }

    fn slot(&self, tokens: &[TokenId], place: usize) -> Option<usize> {
        let gram = tokens.get((place + 1).checked_sub(GRAM)?..=place)?;
        let hash = gram.iter().fold(0u64, |hash, &token| {
            (hash ^ u64::from(token)).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23)
        });
        Some(hash as usize & (self.latest.len() - 1))
    }
}

/// Tokens up to `place` that equal those up to `end`.
fn match_length(tokens: &[TokenId], place: usize, end: usize) -> usize {
    let earlier = tokens[..=place].iter().rev();
    earlier.zip(tokens[..=end].iter().rev()).take(MATCH_MOST).take_while(|(one, other)| one == other).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::Random;

    fn copies(tokens: &[TokenId]) -> Copies {
        let mut copies = Copies::with_capacity(tokens.len() + 64);
        copies.learn(tokens);
        copies
    }

    /// What is proposed, found by comparing every earlier place.
    fn by_search(tokens: &[TokenId], width: usize) -> Vec<TokenId> {
        let end = tokens.len() - 1;
        let longest = (0..end).map(|place| match_length(tokens, place, end)).max().unwrap_or(0);
        let latest = (0..end).rev().find(|&place| match_length(tokens, place, end) == longest);
        match latest {
            Some(place) if longest >= MATCH_LEAST => {
                let proposed = &tokens[place + 1..tokens.len().min(place + 1 + width)];
                if proposed.len() < PROPOSED_LEAST { vec![] } else { proposed.to_vec() }
            }
            _ => vec![],
        }
    }

    #[test]
    fn a_copy_is_what_followed_the_longest_match_of_a_search() {
        for seed in 0..300 {
            let random = &mut Random::new(seed);
            let text: Vec<u32> = (0..40).map(|_| random.below(50) as u32).collect();
            let mut tokens = Vec::new();
            for _ in 0..6 {
                let start = random.below(30) as usize;
                tokens.extend(&text[start..start + 5 + random.below(6) as usize]);
            }
            let copies = copies(&tokens);
            assert_eq!(
                copies.propose(&tokens, 0, 99),
                by_search(&tokens, FIRST_WIDTH),
                "seed {seed}: {tokens:?}"
            );
        }
    }

    #[test]
    fn a_match_of_less_than_8_tokens_proposes_nothing() {
        let text = |matched: u32| -> Vec<u32> { (0..20).chain([99]).chain(20 - matched..20).collect() };
        assert!(copies(&text(7)).propose(&text(7), 0, 99).is_empty());
        let (text, end) = (text(8), [99, 12, 13, 14, 15, 16, 17]);
        assert_eq!(copies(&text).propose(&text, 0, 99), end);
        assert_eq!(copies(&text).propose(&text, 0, 2), &end[..2]);
        assert!(copies(&text).propose(&text, 0, 1).is_empty(), "one token is not worth it");
    }

    #[test]
    fn a_lone_lane_that_copies_well_copies_more_at_a_time() {
        let tokens: Vec<u32> = (0..100).chain(0..20).collect();
        let mut copies = copies(&tokens);
        let mut widths = Vec::new();
        for (lone, miss) in
            [(true, false), (true, false), (true, false), (true, true), (true, false), (false, false)]
        {
            let proposed = copies.propose(&tokens, 0, 99).to_vec();
            widths.push(proposed.len());
            let accepted = if miss { proposed.len() - 1 } else { proposed.len() };
            let confirmed: Vec<u32> = proposed[..accepted].iter().copied().chain([999]).collect();
            copies.judge(&proposed, &confirmed, 0, lone);
        }
        widths.push(copies.propose(&tokens, 0, 99).len());
        assert_eq!(widths, [7, 15, 31, 31, 7, 15, 7]);
    }

    #[test]
    fn four_copies_without_an_accepted_token_silence_them_for_16_rounds() {
        let tokens: Vec<u32> = (0..30).chain(0..20).collect();
        let mut copies = copies(&tokens);
        for round in 0..4 {
            let proposed = copies.propose(&tokens, round, 99);
            assert!(!proposed.is_empty(), "silent at round {round}");
            copies.judge(proposed, &[99], round, true);
        }
        let silent = (4..40).take_while(|&round| copies.propose(&tokens, round, 99).is_empty()).count();
        assert_eq!(silent, 16);
    }
}
