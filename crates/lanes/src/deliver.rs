//! What a step hands to the engine: committed tokens and ended sequences.

use std::ops::Deref;

use crate::constraint::ConstraintError;
use crate::sequence::SequenceId;
use crate::statistics::SequenceStatistics;
use crate::target::{MAX_WINDOW, TargetError, TokenId, TokenLogprob};

/// What one step did for one sequence.
#[derive(Debug, Clone)]
pub struct Delivery {
    /// The sequence.
    pub id: SequenceId,
    /// Tokens committed by this step, in order; empty only when the sequence failed.
    pub tokens: Committed,
    /// For each token itself and then its alternatives, if the sequence asks for log-probabilities.
    pub logprobs: Vec<TokenLogprob>,
    /// Set when this is the sequence's last delivery.
    pub finished: Option<Box<Finished>>,
}

impl Delivery {
    /// The log-probabilities of token `index` and then of its alternatives; none if the sequence does not ask.
    pub fn logprobs_of(&self, index: usize) -> &[TokenLogprob] {
        let width = self.logprobs.len() / self.tokens.len();
        &self.logprobs[index * width..(index + 1) * width]
    }
}

/// How a sequence ended, and what it took.
#[derive(Debug, Clone, PartialEq)]
pub struct Finished {
    /// Why it ended.
    pub reason: Finish,
    /// What it took.
    pub statistics: SequenceStatistics,
}

/// Why a sequence ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Finish {
    /// It drew one of its stop tokens, which is its last committed token.
    Stop,
    /// It reached its `max_tokens`.
    Length,
    /// The target could not hold it or failed on it; the text says why.
    Failed(String),
    /// Its constraint's form leads nowhere; the text says where.
    DeadEnd(String),
}

impl Finish {
    /// Whether it ended before its end.
    pub fn is_failure(&self) -> bool {
        matches!(self, Finish::Failed(_) | Finish::DeadEnd(_))
    }
}

impl From<ConstraintError> for Finish {
    fn from(error: ConstraintError) -> Self {
        match error {
            ConstraintError::Forbidden(message) => Finish::Failed(message),
            ConstraintError::DeadEnd(message) => Finish::DeadEnd(message),
        }
    }
}

impl From<&TargetError> for Finish {
    fn from(error: &TargetError) -> Self {
        Finish::Failed(error.to_string())
    }
}

/// Where a committed token comes from. The target draws all of them; this says what it cost to get this one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Origin {
    /// The draw of a round that accepted no draft: what a reply without drafts is made of.
    #[default]
    Plain,
    /// A draft of the drafter, accepted.
    Draft,
    /// A token copied from the sequence's own text, accepted.
    Copy,
    /// A token that the reply's form leaves no choice about, verified like a draft and accepted.
    Forced,
    /// The draw after accepted drafts, which comes for free with them.
    Bonus,
}

/// The tokens of one window with their origins, held inline so that a delivery owns no memory. Reads as a slice of
/// tokens.
#[derive(Debug, Clone, Copy)]
pub struct Committed {
    tokens: [TokenId; MAX_WINDOW],
    origins: [Origin; MAX_WINDOW],
    count: usize,
}

impl Committed {
    /// Tokens of which the first `accepted`, or all, come from `drafts`.
    pub(crate) fn new(tokens: &[TokenId], accepted: usize, drafts: Origin) -> Self {
        let count = tokens.len();
        let mut committed =
            Committed { tokens: [0; MAX_WINDOW], origins: [Origin::Plain; MAX_WINDOW], count };
        committed.tokens[..count].copy_from_slice(tokens);
        committed.origins[..accepted.min(count)].fill(drafts);
        if (1..count).contains(&accepted) {
            committed.origins[accepted] = Origin::Bonus;
        }
        committed
    }

    /// Where each token comes from.
    pub fn origins(&self) -> &[Origin] {
        &self.origins[..self.count]
    }
}

impl Deref for Committed {
    type Target = [TokenId];

    fn deref(&self) -> &[TokenId] {
        &self.tokens[..self.count]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(count: usize, accepted: usize, expected: &[Origin]) {
        let committed = Committed::new(&[7; MAX_WINDOW][..count], accepted, Origin::Draft);
        assert_eq!(committed.origins(), expected, "{count} tokens, {accepted} accepted");
    }

    #[test]
    fn a_draw_is_plain_unless_drafts_before_it_were_accepted() {
        use Origin::{Bonus, Draft, Plain};
        check(0, 0, &[]);
        check(1, 0, &[Plain]);
        check(3, 2, &[Draft, Draft, Bonus]);
        // A stop token or the reply's length has cut the window.
        check(2, 2, &[Draft, Draft]);
        check(1, 2, &[Draft]);
        check(MAX_WINDOW, MAX_WINDOW - 1, &[[Draft; MAX_WINDOW - 1].as_slice(), &[Bonus]].concat());
    }
}
