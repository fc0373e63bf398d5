//! Constraints: what a reply that is held to a form may go on with, and what of that is certain.

use std::fmt;

use crate::chances::Rates;
use crate::target::{HeldDraft, MAX_WINDOW, RowMask, TokenId, Window};

/// Chance of a forced token before a sequence has a record of its own: the form leaves its text no choice, and the
/// model may still spell it by other tokens.
const FORCED_PRIOR: f32 = 0.95;

/// Why a constraint cannot go on; the text says more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConstraintError {
    /// A token was drawn that its mask forbade.
    Forbidden(String),
    /// The form leads nowhere from here: nothing may follow, or more than can be followed.
    DeadEnd(String),
}

/// Holds a reply to a form, such as a grammar's.
///
/// # Contract
/// Everything it says is a function of the tokens that it has taken: never of what was asked in between.
pub trait Constraint: fmt::Debug + Send {
    /// Takes a committed token, which its mask allowed.
    fn advance(&mut self, token: TokenId) -> Result<(), ConstraintError>;

    /// Appends tokens that are likely to follow because the form leaves their text no choice. They are drafts:
    /// masks have the last word. Stop tokens are not among them.
    fn forced(&mut self, tokens: &mut Vec<TokenId>);

    /// How many of these drafts, one after the other, the form allows.
    fn permitted(&mut self, drafts: &[TokenId]) -> usize;

    /// Appends the mask of the next draw, and those of the draws after each of `drafts`, which are permitted. All
    /// have the same number of words ([`RowMask::allowed`]) and allow at least one token. Returns how many of the drafts
    /// have such a mask: where one leads to a dead end, that is for the reply to find out if it draws it.
    fn masks(&mut self, drafts: &[TokenId], words: &mut Vec<u32>) -> Result<usize, ConstraintError>;
}

/// Why a planned window cannot have its masks.
#[derive(Debug)]
pub(crate) enum Obstacle {
    /// Its reply cannot go on.
    End(ConstraintError),
    /// What follows its first drafts, so many, leads nowhere.
    Draft(usize),
}

/// A sequence's constraint, and what follows from it for its next window.
#[derive(Debug)]
pub(crate) struct Constrained {
    constraint: Box<dyn Constraint>,
    /// Whether forced tokens may be verified as drafts.
    forces: bool,
    /// Tokens forced after the last commit.
    forced: Vec<TokenId>,
    /// How its forced tokens have done.
    pub rates: Rates,
    /// How many tokens of a copy are permitted after the last commit.
    pub copied: usize,
    /// Drafts as plain tokens. Kept for its memory.
    tokens: Vec<TokenId>,
}

impl Constrained {
    pub(crate) fn new(constraint: Box<dyn Constraint>, forces: bool) -> Self {
        Constrained {
            constraint,
            forces,
            forced: Vec::new(),
            rates: Rates::seeded(FORCED_PRIOR),
            copied: 0,
            tokens: Vec::with_capacity(MAX_WINDOW),
        }
    }

    /// Takes committed tokens, after which the reply goes on, and cuts the drafts for what comes next at the first
    /// that is not permitted.
    pub(crate) fn follow(
        &mut self,
        committed: &[TokenId],
        held: &mut Vec<HeldDraft>,
        copy: &[TokenId],
    ) -> Result<(), ConstraintError> {
        committed.iter().try_for_each(|&token| self.constraint.advance(token))?;
        self.tokens.clear();
        self.tokens.extend(held.iter().map(|draft| draft.token));
        held.truncate(self.constraint.permitted(&self.tokens));
        self.copied = self.constraint.permitted(copy);
        self.forced.clear();
        if self.forces {
            self.constraint.forced(&mut self.forced);
        }
        Ok(())
    }

    /// Keeps the first `count` drafts of every kind.
    pub(crate) fn cut(&mut self, count: usize) {
        self.copied = self.copied.min(count);
        self.forced.truncate(count);
    }

    /// The first `most` forced tokens.
    pub(crate) fn forced(&self, most: usize) -> &[TokenId] {
        &self.forced[..self.forced.len().min(most)]
    }
}

/// The masks of a round's draws. Its memory is reused.
#[derive(Debug, Default)]
pub(crate) struct Masks {
    words: Vec<u32>,
    /// The window and the draw of each.
    draws: Vec<(usize, usize)>,
}

impl Masks {
    pub(crate) fn clear(&mut self) {
        self.words.clear();
        self.draws.clear();
    }

    /// Adds those of window `index`, in which `drafts` are verified.
    pub(crate) fn add(
        &mut self,
        index: usize,
        window: &Window,
        drafts: &[TokenId],
        constrained: &mut Constrained,
    ) -> Result<(), Obstacle> {
        self.draws.extend((0..=window.drafts).map(|draw| (index, draw)));
        match constrained.constraint.masks(drafts, &mut self.words) {
            Ok(count) if count < drafts.len() => Err(Obstacle::Draft(count)),
            Ok(_) => Ok(()),
            Err(error) => Err(Obstacle::End(error)),
        }
    }

    /// A defect planted for tests: each mask but the last goes to the draw after its own.
    pub(crate) fn shift(&mut self) {
        let words = self.words.len() / self.draws.len().max(1);
        self.words.rotate_right(words);
    }

    /// The masks as a round has them. Takes no memory when there are none.
    pub(crate) fn rows(&self) -> Vec<RowMask<'_>> {
        let words = self.words.len() / self.draws.len().max(1);
        let row = |(index, &(window, draw)): (usize, &(usize, usize))| RowMask {
            window,
            draw,
            allowed: &self.words[index * words..][..words],
        };
        self.draws.iter().enumerate().map(row).collect()
    }
}
