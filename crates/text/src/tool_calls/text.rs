//! A long argument, decoded while it arrives.

use super::ending::{Ending, ends_argument};
use super::escapes::{self, Escape};
use super::literal::Quote;

/// How many bytes after a quote tell whether it ends the argument. A model that has lost its way writes blanks for ever,
/// and each piece of them would be looked at again.
const LOOKAHEAD_BYTES: usize = 1024;

/// The text of an argument whose end has not been seen.
#[derive(Clone, Debug)]
pub(super) struct OpenText {
    quote: Quote,
    /// What has arrived and is not decoded yet.
    pending: String,
}

/// What the text has become.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// It goes on after these characters.
    Goes(String),
    /// It ended after these characters; what follows its closing quotes comes with it.
    Ended(String, String),
}

impl OpenText {
    pub(super) fn new(quote: Quote) -> OpenText {
        OpenText { quote, pending: String::new() }
    }

    /// Takes more of the text; `is_all` says that none follows.
    pub(super) fn push(&mut self, text: &str, is_all: bool) -> Step {
        self.pending.push_str(text);
        let mut decoded = String::new();
        let mut at = 0;
        while let Some(offset) = self.pending[at..].find(['\\', self.mark_start()]) {
            decoded.push_str(&self.pending[at..at + offset]);
            at += offset;
            match self.special(at, is_all) {
                Special::Is(length, meaning) => {
                    at += length;
                    decoded.push_str(&meaning);
                }
                Special::Ends => {
                    let rest = self.pending.split_off(at + self.quote.mark.len());
                    self.pending.clear();
                    return Step::Ended(decoded, rest);
                }
                Special::NeedsMore => {
                    self.pending.drain(..at);
                    return Step::Goes(decoded);
                }
            }
        }
        decoded.push_str(&self.pending[at..]);
        self.pending.clear();
        Step::Goes(decoded)
    }

    fn mark_start(&self) -> char {
        if self.quote.mark.starts_with('"') { '"' } else { '\'' }
    }

    /// What the quote or backslash at `at` is.
    fn special(&self, at: usize, is_all: bool) -> Special {
        let rest = &self.pending[at..];
        if rest.starts_with('\\') {
            return if self.quote.is_raw { raw_escape(rest, is_all) } else { escape(rest, is_all) };
        }
        let plain = || Special::Is(1, self.mark_start().to_string());
        if !rest.starts_with(self.quote.mark) {
            let may_become = self.quote.mark.starts_with(rest) && !is_all;
            return if may_become { Special::NeedsMore } else { plain() };
        }
        if self.quote.mark.len() == 3 {
            return Special::Ends;
        }
        let rest = &rest[1..];
        let ahead = &rest[..rest.floor_char_boundary(LOOKAHEAD_BYTES)];
        match ends_argument(ahead, is_all || rest.len() >= LOOKAHEAD_BYTES) {
            Ending::Yes => Special::Ends,
            Ending::No => plain(),
            Ending::NeedsMore => Special::NeedsMore,
        }
    }
}

enum Special {
    Is(usize, String),
    Ends,
    NeedsMore,
}

fn escape(rest: &str, is_all: bool) -> Special {
    match escapes::read(rest, is_all) {
        Escape::Is(length, meaning) => Special::Is(length, meaning),
        Escape::NeedsMore => Special::NeedsMore,
    }
}

/// In a raw text, a backslash and the character after it both stay.
fn raw_escape(rest: &str, is_all: bool) -> Special {
    match rest[1..].chars().next() {
        Some(next) => Special::Is(1 + next.len_utf8(), rest[..1 + next.len_utf8()].to_owned()),
        None if is_all => Special::Is(1, "\\".to_owned()),
        None => Special::NeedsMore,
    }
}
