//! A grammar as the scheduler takes it.

use forerunner_lanes::{ConstraintError, TokenId};
use forerunner_text::{Constraint, TextError, WindowMasks};

/// Holds a sequence to a grammar.
#[derive(Debug)]
pub(crate) struct GrammarConstraint {
    constraint: Constraint,
    /// The last window's masks. Kept for their memory.
    window: WindowMasks,
}

impl GrammarConstraint {
    /// A constraint at the start of a reply.
    pub(crate) fn new(constraint: Constraint) -> Self {
        GrammarConstraint { constraint, window: WindowMasks::default() }
    }
}

impl forerunner_lanes::Constraint for GrammarConstraint {
    fn advance(&mut self, token: TokenId) -> Result<(), ConstraintError> {
        self.constraint.advance(token).map_err(why)
    }

    fn forced(&mut self, tokens: &mut Vec<TokenId>) {
        tokens.extend(self.constraint.forced());
    }

    fn permitted(&mut self, drafts: &[TokenId]) -> usize {
        self.constraint.permitted(drafts)
    }

    fn masks(&mut self, drafts: &[TokenId], words: &mut Vec<u32>) -> Result<usize, ConstraintError> {
        self.constraint.masks_for_window(drafts, &mut self.window).map_err(why)?;
        (0..self.window.rows()).for_each(|row| words.extend_from_slice(self.window.row(row)));
        Ok(self.window.permitted)
    }
}

/// Whether the grammar is at fault, or the target, which has not kept to it.
fn why(error: TextError) -> ConstraintError {
    match error {
        TextError::TokenNotAllowed { .. } => ConstraintError::Forbidden(error.to_string()),
        error => ConstraintError::DeadEnd(error.to_string()),
    }
}
