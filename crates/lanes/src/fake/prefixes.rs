//! The fake's stored prefixes: the state at page borders of prompts that have run.

use std::collections::HashMap;

use super::random::fold;
use crate::target::TokenId;

/// What is known of a lane at a page border.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Stored {
    /// Tokens before it.
    pub length: usize,
    /// Their name.
    pub name: u64,
    /// The state after them.
    pub state: u64,
}

/// States by the names of the tokens before them.
#[derive(Debug, Default)]
pub(super) struct Prefixes(HashMap<u64, Stored>);

impl Prefixes {
    pub(super) fn store(&mut self, stored: Stored) {
        self.0.insert(stored.name, stored);
    }

    /// The longest stored prefix of a prompt that leaves a row to draw from; the empty one when there is none.
    pub(super) fn find(&self, prompt: &[TokenId], page: usize, by_length: bool) -> Stored {
        let mut longest = Stored::default();
        let mut prompt_name = 0;
        for (index, tokens) in prompt[..prompt.len() - 1].chunks_exact(page).enumerate() {
            prompt_name = name(prompt_name, tokens);
            let length = (index + 1) * page;
            let is = |stored: &&Stored| stored.length == length && (by_length || stored.name == prompt_name);
            longest = self.0.values().find(is).copied().unwrap_or(longest);
        }
        longest
    }
}

/// Names tokens that follow those of the name `before`. Unlike a state it is right whatever the target does.
pub(super) fn name(before: u64, tokens: &[TokenId]) -> u64 {
    tokens.iter().fold(before, |name, &token| fold(name, !u64::from(token)))
}
