//! What a fake is told: its tokens, its drafter, its costs, and where it fails or lies.

use super::clock::ScriptedCosts;
use super::constraint::FakeConstraint;
use super::drafter::DrafterScript;
use super::random::{fold, unit};
use crate::constraint::Constraint;
use crate::target::{SamplingRule, TokenId, TokenLogprob};

/// How a fake behaves.
#[derive(Debug, Clone)]
pub struct FakeScript {
    /// Its tokens are below this.
    pub vocabulary: u32,
    /// Pages that it has.
    pub pages: usize,
    /// Whether it stores the state at page borders of prompts and resumes from it.
    pub stores_prefixes: bool,
    /// Its drafter.
    pub drafter: DrafterScript,
    /// What it charges its clock.
    pub costs: ScriptedCosts,
    /// How often its text repeats itself.
    pub repeats: Repeats,
    /// Its experts.
    pub experts: Experts,
    /// Where it fails.
    pub failures: Failures,
    #[doc(hidden)]
    pub fault: Option<Fault>,
}

impl Default for FakeScript {
    fn default() -> Self {
        FakeScript {
            vocabulary: 1000,
            pages: 1 << 20,
            stores_prefixes: false,
            drafter: DrafterScript::default(),
            costs: ScriptedCosts::default(),
            repeats: Repeats::default(),
            experts: Experts::default(),
            failures: Failures::default(),
            fault: None,
        }
    }
}

/// Calls that fail. Counts begin at 0.
#[derive(Debug, Clone, Default)]
pub struct Failures {
    /// Rounds that fail, by count.
    pub rounds: Vec<u64>,
    /// Opens that fail, by count.
    pub opens: Vec<u64>,
    /// (seed, length): every round fails that has a lane with this seed in its rule, from this length on.
    pub sequences: Vec<(u64, usize)>,
}

/// A defect planted in the fake, which a test suite worth its name must notice.
#[doc(hidden)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The state after a rejection includes the rejected row.
    KeepsRejectedRow,
    /// Draws are keyed by the row's index in the round instead of its position.
    DrawsByRowIndex,
    /// One draft more is accepted than equals its draw.
    AcceptsOneTooMany,
    /// The first token of the window before gets into a lane's state.
    NeighbourLeaks,
    /// Drafts are made for the position after the one they are for.
    HoldsAtWrongPosition,
    /// A lane that was closed keeps its pages.
    LeaksPages,
    /// State depends on where the prompt was cut.
    RemembersChunks,
    /// Drafting changes the seed of draws.
    DrafterDisturbsDraws,
    /// A lane's last draw, which only the target knows, is the one before.
    ForgetsLastDraw,
    /// The state stored at a page border is the one before the chunk's last row.
    StoresStateOfRowBefore,
    /// A prefix is found by its length alone.
    FindsPrefixByLength,
    /// A draw takes the mask of the draw before it in its window.
    MasksOffByOne,
    /// A draw that a draft follows is accepted without its mask.
    AcceptsUnmasked,
    /// All rows of a window tell the log-probabilities of its first.
    LogprobsOfFirstRow,
}

/// Text that repeats itself: most tokens are those of a period before. The default never does.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Repeats {
    /// Tokens of the period, 0 for none.
    pub period: usize,
    /// Share of tokens that repeat.
    pub share: f64,
}

/// The experts of a mixture; the default has none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Experts {
    /// How many a row picks.
    pub picked: usize,
    /// Of how many.
    pub of: usize,
}

impl FakeScript {
    /// What a fake of this script answers, worked out token by token with no scheduler: up to `max_tokens`, or to
    /// the first stop token.
    pub fn reply(
        &self,
        prompt: &[TokenId],
        rule: &SamplingRule,
        max_tokens: usize,
        stop_tokens: &[TokenId],
    ) -> Vec<TokenId> {
        self.constrained_reply(prompt, rule, max_tokens, stop_tokens, None)
    }

    /// As [`FakeScript::reply`], held to a form.
    pub fn constrained_reply(
        &self,
        prompt: &[TokenId],
        rule: &SamplingRule,
        max_tokens: usize,
        stop_tokens: &[TokenId],
        constraint: Option<&FakeConstraint>,
    ) -> Vec<TokenId> {
        let key = rule_key(rule);
        let mut constraint = constraint.cloned();
        let mut state = prompt.iter().fold(0, |state, &token| fold(state, u64::from(token)));
        let mut reply = Vec::new();
        while reply.len() < max_tokens && !reply.last().is_some_and(|last| stop_tokens.contains(last)) {
            let mask = constraint.as_ref().map(FakeConstraint::mask);
            let token = self.draw_masked(state, key, prompt.len() + reply.len(), mask.as_deref());
            if let Some(constraint) = &mut constraint {
                constraint.advance(token).expect("its mask allows the token");
            }
            state = fold(state, u64::from(token));
            reply.push(token);
        }
        reply
    }

    /// The token that stands at `position` after this history: with a mask, the first that it allows from the one on
    /// that would stand there without.
    pub(super) fn draw_masked(&self, state: u64, key: u64, position: usize, mask: Option<&[u32]>) -> TokenId {
        let drawn = self.draw(state, key, position);
        let allowed =
            |token: &TokenId| mask.is_none_or(|mask| mask[*token as usize / 32] >> (token % 32) & 1 == 1);
        let from_drawn = (0..self.vocabulary).map(|step| (drawn + step) % self.vocabulary);
        from_drawn.into_iter().find(allowed).expect("a mask allows at least one token")
    }

    /// The log-probabilities of a reply to this prompt, of each token and its alternatives, if any are asked for.
    pub fn logprobs(
        &self,
        prompt: &[TokenId],
        reply: &[TokenId],
        alternatives: Option<usize>,
    ) -> Vec<TokenLogprob> {
        let mut state = prompt.iter().fold(0, |state, &token| fold(state, u64::from(token)));
        let mut logprobs = Vec::new();
        for &token in reply {
            logprobs.extend(self.logprobs_of(token, state, alternatives));
            state = fold(state, u64::from(token));
        }
        logprobs
    }

    /// What a row after this history tells of its draw: a hash of both for each.
    pub(super) fn logprobs_of(
        &self,
        drawn: TokenId,
        state: u64,
        alternatives: Option<usize>,
    ) -> impl Iterator<Item = TokenLogprob> {
        let vocabulary = self.vocabulary;
        let told = alternatives.map_or(0, |alternatives| 1 + alternatives);
        (0..told as u32).map(move |place| {
            let token = if place == 0 { drawn } else { (drawn + place) % vocabulary };
            let logprob = -unit(fold(fold(state, u64::from(token)), u64::from(place))) as f32;
            TokenLogprob { token, logprob }
        })
    }

    /// The token that stands at `position` after this history.
    pub(super) fn draw(&self, state: u64, key: u64, position: usize) -> TokenId {
        let own = fold(fold(state, key), position as u64);
        let Repeats { period, share } = self.repeats;
        let repeats = period > 0 && unit(fold(own, 1)) < share;
        let hash = if repeats { fold(key, (position % period) as u64) } else { own };
        (hash % u64::from(self.vocabulary)) as TokenId
    }
}

/// What of a rule reaches the draws. A greedy lane has no use for a seed.
pub(super) fn rule_key(rule: &SamplingRule) -> u64 {
    let temperature = u64::from(rule.temperature.to_bits());
    if rule.temperature > 0.0 { fold(fold(temperature, rule.seed), u64::from(rule.choice)) } else { 0 }
}
