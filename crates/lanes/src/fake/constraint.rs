//! The fake constraint: what may follow is a hash of all tokens before.

use super::random::{fold, unit};
use crate::constraint::{Constraint, ConstraintError};
use crate::target::{MAX_WINDOW, TokenId};

/// A form made of hashes: some histories force a token. After half of them it alone may follow, and after the others it
/// is one of several that may, as where a text has several spellings.
#[derive(Debug, Clone)]
pub struct FakeConstraint {
    form: Form,
    state: u64,
    /// Tokens after which it cannot go on.
    breaks_after: usize,
    taken: usize,
}

impl FakeConstraint {
    /// A form over a vocabulary: `forced` is the share of histories that force a token, `allowed` the share of the
    /// vocabulary that may follow the others.
    pub fn new(seed: u64, vocabulary: u32, forced: f64, allowed: f64) -> Self {
        let form = Form { vocabulary, forced, allowed };
        FakeConstraint { form, state: fold(seed, 0), breaks_after: usize::MAX, taken: 0 }
    }

    /// The same form, which cannot go on after so many tokens.
    pub fn breaking_after(self, tokens: usize) -> Self {
        FakeConstraint { breaks_after: tokens, ..self }
    }

    /// Whether a token may follow.
    pub fn allows(&self, token: TokenId) -> bool {
        self.form.allows(self.state, token)
    }

    /// The mask of the next token.
    pub fn mask(&self) -> Vec<u32> {
        let mut words = Vec::new();
        self.form.push_mask(self.state, &mut words);
        words
    }
}

impl Constraint for FakeConstraint {
    fn advance(&mut self, token: TokenId) -> Result<(), ConstraintError> {
        if !self.allows(token) {
            return Err(ConstraintError::Forbidden(format!("token {token} may not follow")));
        }
        self.state = fold(self.state, u64::from(token));
        self.taken += 1;
        Ok(())
    }

    fn forced(&mut self, tokens: &mut Vec<TokenId>) {
        let mut state = self.state;
        while tokens.len() < MAX_WINDOW && !matches!(self.form.kind(state), Kind::Free) {
            let token = self.form.always(state);
            tokens.push(token);
            state = fold(state, u64::from(token));
        }
    }

    fn permitted(&mut self, drafts: &[TokenId]) -> usize {
        let mut state = self.state;
        let permits = |draft: &&TokenId| {
            let allowed = self.form.allows(state, **draft);
            state = fold(state, u64::from(**draft));
            allowed
        };
        drafts.iter().take_while(permits).count()
    }

    fn masks(&mut self, drafts: &[TokenId], words: &mut Vec<u32>) -> Result<usize, ConstraintError> {
        if self.taken >= self.breaks_after {
            let message = format!("the form was told to break after {} tokens", self.breaks_after);
            return Err(ConstraintError::DeadEnd(message));
        }
        let mut state = self.state;
        self.form.push_mask(state, words);
        let count = drafts.len().min(self.breaks_after - self.taken - 1);
        for &draft in &drafts[..count] {
            state = fold(state, u64::from(draft));
            self.form.push_mask(state, words);
        }
        Ok(count)
    }
}

#[derive(Debug, Clone, Copy)]
struct Form {
    vocabulary: u32,
    forced: f64,
    allowed: f64,
}

enum Kind {
    /// One token alone may follow.
    Single,
    /// It is named as forced, and others may follow too.
    Named,
    Free,
}

impl Form {
    fn kind(self, state: u64) -> Kind {
        match unit(fold(state, 1)) {
            place if place < 0.5 * self.forced => Kind::Single,
            place if place < self.forced => Kind::Named,
            _ => Kind::Free,
        }
    }

    /// The token that may follow in any case.
    fn always(self, state: u64) -> TokenId {
        (fold(state, 2) % u64::from(self.vocabulary)) as TokenId
    }

    fn allows(self, state: u64, token: TokenId) -> bool {
        let is_single = matches!(self.kind(state), Kind::Single);
        let others = || !is_single && unit(fold(fold(state, 3), u64::from(token))) < self.allowed;
        token < self.vocabulary && (token == self.always(state) || others())
    }

    fn push_mask(self, state: u64, words: &mut Vec<u32>) {
        for first in (0..self.vocabulary).step_by(32) {
            let bits = (0..32).filter(|bit| self.allows(state, first + bit));
            words.push(bits.fold(0, |word, bit| word | 1 << bit));
        }
    }
}
