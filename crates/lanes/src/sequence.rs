//! A sequence: its tokens, how many of them the target holds, and what it has learnt about its drafts.

use crate::chances::Rates;
use crate::constraint::{Constrained, Constraint, ConstraintError};
use crate::copies::Copies;
use crate::depth::HoldState;
use crate::statistics::{DraftOff, SequenceStatistics};
use crate::target::{HeldDraft, Limits, MAX_WINDOW, SamplingRule, TokenId};

/// Names a sequence for its whole life; never used twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SequenceId(pub(crate) u64);

impl std::fmt::Display for SequenceId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

/// What to generate. The default asks for nothing, which is refused.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct NewSequence {
    /// At least one token.
    pub prompt: Vec<TokenId>,
    /// Most tokens of the reply, at least 1.
    pub max_tokens: usize,
    /// How tokens are drawn.
    pub rule: SamplingRule,
    /// Tokens that end the reply when drawn; the one drawn is committed.
    pub stop_tokens: Vec<TokenId>,
    /// Whether drafts may be used. Changes time, never text.
    pub draft: bool,
    /// Whether tokens are delivered with their log-probabilities, and with so many alternatives, at most
    /// [`MAX_ALTERNATIVES`](crate::MAX_ALTERNATIVES).
    pub logprobs: Option<usize>,
}

/// Why a sequence was not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SubmitError {
    /// The queue is at its limit.
    QueueFull {
        /// Sequences that wait.
        waiting: usize,
        /// Sequences that may wait.
        limit: usize,
    },
    /// Prompt and reply are longer than a lane.
    ContextExceeded {
        /// Tokens of the prompt.
        prompt_tokens: usize,
        /// Most tokens of the reply.
        max_tokens: usize,
        /// Tokens a lane can hold.
        context: usize,
    },
    /// The prompt has no tokens, so there is no row to draw from.
    EmptyPrompt,
    /// `max_tokens` is 0, so there is nothing to do.
    NoTokensAsked,
}

impl std::fmt::Display for SubmitError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            SubmitError::QueueFull { waiting, limit } => {
                write!(f, "{waiting} sequences are waiting and at most {limit} may")
            }
            SubmitError::ContextExceeded { prompt_tokens, max_tokens, context } => write!(
                f,
                "a prompt of {prompt_tokens} tokens and a reply of up to {max_tokens} exceed the context of {context}"
            ),
            SubmitError::EmptyPrompt => f.write_str("the prompt has no tokens"),
            SubmitError::NoTokensAsked => f.write_str("max_tokens is 0; at least 1 is needed"),
        }
    }
}

impl std::error::Error for SubmitError {}

/// Drafts made for one position. Of no use at any other.
#[derive(Debug, Default)]
pub(crate) struct Held {
    pub position: usize,
    pub drafts: Vec<HeldDraft>,
}

#[derive(Debug)]
pub(crate) struct Sequence {
    pub id: SequenceId,
    /// Prompt and reply. All but the last are or will be in the target's cache.
    pub tokens: Vec<TokenId>,
    /// Tokens that the target holds: the position of the next row.
    pub cached: usize,
    pub max_tokens: usize,
    pub rule: SamplingRule,
    pub stop_tokens: Vec<TokenId>,
    pub logprobs: Option<usize>,
    /// Whether the lane is opened for drafting.
    pub drafted: bool,
    /// Tokens that the drafter has taken up, of those that the target holds.
    pub absorbed: usize,
    pub held: Held,
    pub rates: Rates,
    pub hold_state: HoldState,
    /// Its earlier tokens to copy from, if drafts were asked for.
    pub copies: Option<Copies>,
    /// What it may draw, if that is not everything.
    pub constrained: Option<Constrained>,
    asked: bool,
    /// A round with this lane and others has failed; its next round is its own, to tell who is at fault.
    pub suspect: bool,
    pub statistics: SequenceStatistics,
}

impl Sequence {
    pub(crate) fn new(id: SequenceId, new: NewSequence, limits: &Limits) -> Self {
        let draft_off = match (new.draft, limits.block) {
            (false, _) => Some(DraftOff::NotAsked),
            (true, 0) => Some(DraftOff::NoDrafter),
            (true, _) => None,
        };
        let statistics = SequenceStatistics {
            prompt_tokens: new.prompt.len(),
            by_position: vec![(0, 0); limits.block.min(MAX_WINDOW - 1)],
            draft_off,
            ..SequenceStatistics::default()
        };
        Sequence {
            id,
            tokens: new.prompt,
            cached: 0,
            max_tokens: new.max_tokens,
            rule: new.rule,
            stop_tokens: new.stop_tokens,
            logprobs: new.logprobs,
            drafted: draft_off.is_none(),
            absorbed: 0,
            held: Held::default(),
            rates: Rates::default(),
            hold_state: HoldState::Open,
            copies: None,
            constrained: None,
            asked: new.draft,
            suspect: false,
            statistics,
        }
    }

    /// Holds its reply to a form.
    pub(crate) fn constrain(&mut self, constraint: Box<dyn Constraint>) {
        self.constrained = Some(Constrained::new(constraint, self.asked));
    }

    /// Starts after the prompt tokens that the target holds already.
    pub(crate) fn resume(&mut self, held: usize, page: usize) {
        let prompt = self.statistics.prompt_tokens;
        assert!(
            held < prompt && held.is_multiple_of(page),
            "{held} tokens held of a prompt of {prompt}, in pages of {page}"
        );
        self.cached = held;
        self.absorbed = held;
        self.statistics.cached_tokens = held;
    }

    /// Takes the memory that its rounds will need, so that they take none.
    pub(crate) fn reserve(&mut self, limits: &Limits, copies: bool) {
        self.tokens.reserve_exact(self.max_tokens);
        if copies && self.asked {
            let mut copies = Copies::with_capacity(self.tokens.len() + self.max_tokens);
            copies.learn(&self.tokens);
            self.copies = Some(copies);
        }
        self.held.drafts.reserve_exact(limits.block);
    }

    /// Rows that stand between it and its next draw: the rest of the prompt, or the pending token alone.
    pub(crate) fn rows_due(&self) -> usize {
        self.tokens.len() - self.cached
    }

    /// Whether it still has prompt rows to run. The first draw comes with the last of them.
    pub(crate) fn in_prefill(&self) -> bool {
        self.cached < self.statistics.prompt_tokens
    }

    /// Tokens that the reply may still grow by.
    pub(crate) fn tokens_left(&self) -> usize {
        self.max_tokens - self.statistics.reply_tokens
    }

    /// Held drafts that a window may verify now. A stop token needs no row: the row before it draws it, and
    /// nothing after it is wanted. Nor are rows past the last token that the reply may have.
    pub(crate) fn offer(&self) -> &[HeldDraft] {
        if self.held.position != self.cached || self.in_prefill() {
            return &[];
        }
        let drafts = &self.held.drafts[..self.most_drafts().min(self.held.drafts.len())];
        let end = drafts.iter().position(|draft| self.stop_tokens.contains(&draft.token));
        &drafts[..end.unwrap_or(drafts.len())]
    }

    /// A copy that a window may verify now, and how the sequence's copies have done.
    pub(crate) fn copy(&self, round: u64) -> Option<(&[TokenId], &Rates)> {
        let copies = self.copies.as_ref().filter(|_| !self.in_prefill())?;
        let copied = copies.propose(&self.tokens, round, self.most_drafts());
        let permitted = self.constrained.as_ref().map_or(copied.len(), |constrained| constrained.copied);
        let copied = &copied[..permitted.min(copied.len())];
        let end = copied.iter().position(|token| self.stop_tokens.contains(token)).unwrap_or(copied.len());
        (end > 0).then_some((&copied[..end], &copies.rates))
    }

    /// Tokens that its constraint forces, which a window may verify now, and how the sequence's forced tokens have
    /// done.
    pub(crate) fn forced(&self) -> Option<(&[TokenId], &Rates)> {
        let constrained = self.constrained.as_ref().filter(|_| !self.in_prefill())?;
        let forced = constrained.forced(self.most_drafts());
        (!forced.is_empty()).then_some((forced, &constrained.rates))
    }

    /// Whether its held drafts begin with its forced tokens and go on after them.
    pub(crate) fn held_extend_forced(&self) -> bool {
        let forced = self.forced().map_or(&[][..], |(forced, _)| forced);
        let held = self.offer();
        held.len() > forced.len() && held.iter().zip(forced).all(|(draft, token)| draft.token == *token)
    }

    /// Takes committed tokens, after which the reply goes on, to its constraint.
    pub(crate) fn follow(&mut self, committed: &[TokenId], round: u64) -> Result<(), ConstraintError> {
        let most = self.most_drafts();
        let Some(constrained) = &mut self.constrained else { return Ok(()) };
        let copy = self.copies.as_ref().map_or(&[][..], |copies| copies.propose(&self.tokens, round, most));
        constrained.follow(committed, &mut self.held.drafts, copy)
    }

    /// After a round, which held or not: rows that the drafter has taken up. Those before the last page border it takes up
    /// without a hold, since they are stored with what it makes of them.
    pub(crate) fn absorb(&mut self, holds: bool, page: usize) -> usize {
        let until = if holds { self.cached } else { self.cached / page * page };
        let rows = if self.drafted { until.saturating_sub(self.absorbed) } else { 0 };
        self.absorbed += rows;
        rows
    }

    /// Keeps the first `count` drafts of every kind for its next window.
    pub(crate) fn cut_drafts(&mut self, count: usize) {
        self.held.drafts.truncate(count);
        self.constrained.iter_mut().for_each(|constrained| constrained.cut(count));
    }

    /// Drafts that a window may have: the last token that the reply may have needs no row.
    fn most_drafts(&self) -> usize {
        (self.tokens_left() - 1).min(MAX_WINDOW - 1)
    }

    /// Whether drafts of any kind may be verified for it.
    pub(crate) fn may_draft(&self) -> bool {
        self.drafted || self.copies.is_some()
    }

    /// Whether the drafter expects the next draw to end the reply; then a hold would be for nothing.
    pub(crate) fn about_to_stop(&self) -> bool {
        self.held.position == self.cached
            && self.held.drafts.first().is_some_and(|draft| self.stop_tokens.contains(&draft.token))
    }

    /// Drafts that the next round could use at most: this round commits at least one token, and the last token
    /// of a reply needs no draft.
    pub(crate) fn most_hold(&self, block: usize) -> usize {
        if self.drafted { self.tokens_left().saturating_sub(2).min(block).min(MAX_WINDOW - 1) } else { 0 }
    }
}
