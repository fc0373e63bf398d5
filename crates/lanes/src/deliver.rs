//! What a step hands to the engine: committed tokens and ended sequences.

use std::ops::Deref;

use crate::sequence::SequenceId;
use crate::statistics::SequenceStatistics;
use crate::target::{MAX_WINDOW, TokenId};

/// What one step did for one sequence.
#[derive(Debug, Clone)]
pub struct Delivery {
    /// The sequence.
    pub id: SequenceId,
    /// Tokens committed by this step, in order; empty only when the sequence failed.
    pub tokens: Committed,
    /// Set when this is the sequence's last delivery.
    pub finished: Option<Box<Finished>>,
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
}

/// The tokens of one window, held inline so that a delivery owns no memory. Reads as a slice.
#[derive(Debug, Clone, Copy)]
pub struct Committed {
    tokens: [TokenId; MAX_WINDOW],
    count: usize,
}

impl Committed {
    pub(crate) fn new(tokens: &[TokenId]) -> Self {
        let mut committed = Committed { tokens: [0; MAX_WINDOW], count: tokens.len() };
        committed.tokens[..tokens.len()].copy_from_slice(tokens);
        committed
    }
}

impl Deref for Committed {
    type Target = [TokenId];

    fn deref(&self) -> &[TokenId] {
        &self.tokens[..self.count]
    }
}
