//! A reply under a grammar: which tokens may come next.

use llguidance::Matcher;

use super::{GrammarSpec, Grammars, compile};
use crate::{TextError, ThoughtStart};

/// How many of a reply's last tokens stand in an error that names where its grammar ended.
const TOKENS_SHOWN: usize = 16;

/// Where a reply is in its grammar.
///
/// Everything here is a function of the grammar and of the tokens that [`advance`](Self::advance) took, in their order: masks
/// do not depend on what was tried and rolled back. A mask is exact: a token is allowed if and only if its bytes keep
/// the grammar alive, whichever way they cut the text; a special token only where the grammar names it; a stop
/// token only where the grammar may end.
///
/// A mask is words of bits as the scheduler's row masks are: bit `t % 32` of word `t / 32` allows token `t`.
pub struct Constraint {
    grammars: Grammars,
    matcher: Matcher,
    what: &'static str,
    /// Tokens taken, but for stop tokens.
    tokens: Vec<u32>,
    /// Stop tokens taken: the matcher does not see them.
    stops: usize,
}

/// The masks of a window's rows; kept by the caller and reused.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WindowMasks {
    words: Vec<u32>,
    rows: usize,
    /// How many of the drafts the grammar permits and goes on after. What comes after them, a stop token included, is not
    /// to be computed.
    pub permitted: usize,
}

impl WindowMasks {
    /// How many rows have a mask: the pending token's, and that of each permitted draft.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// The tokens that a row may draw.
    pub fn row(&self, row: usize) -> &[u32] {
        assert!(row < self.rows, "row {row} of {}", self.rows);
        let words = self.words.len() / self.rows;
        &self.words[row * words..][..words]
    }
}

/// A copy shares nothing that changes, so that replies cannot disturb one another.
impl Clone for Constraint {
    fn clone(&self) -> Constraint {
        let Constraint { grammars, matcher, what, tokens, stops } = self;
        Constraint {
            grammars: grammars.clone(),
            matcher: matcher.deep_clone(),
            what,
            tokens: tokens.clone(),
            stops: *stops,
        }
    }
}

impl std::fmt::Debug for Constraint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (what, tokens, stops) = (self.what, self.tokens.len(), self.stops);
        write!(f, "Constraint {{ what: {what:?}, tokens: {tokens}, stops: {stops} }}")
    }
}

impl Constraint {
    /// A constraint on the whole reply.
    pub fn new(grammars: &Grammars, spec: &GrammarSpec) -> Result<Constraint, TextError> {
        let grammar = compile::whole(spec, &grammars.shared.tokenizer)?;
        Constraint::compiled(grammars, spec, grammar)
    }

    /// A constraint on what comes after the model's thought. It may do without a thought unless the prompt opened one.
    pub fn after_thought(
        grammars: &Grammars,
        spec: &GrammarSpec,
        start: ThoughtStart,
    ) -> Result<Constraint, TextError> {
        let grammar = compile::after_thought(spec, &grammars.shared.tokenizer, start)?;
        Constraint::compiled(grammars, spec, grammar)
    }

    fn compiled(
        grammars: &Grammars,
        spec: &GrammarSpec,
        grammar: llguidance::api::TopLevelGrammar,
    ) -> Result<Constraint, TextError> {
        let what = compile::what(spec);
        let matcher = grammars
            .matcher(grammar)
            .map_err(|message| TextError::Grammar { what, message: tidy(&message) })?;
        let grammars = grammars.clone();
        let mut constraint = Constraint { grammars, matcher, what, tokens: Vec::new(), stops: 0 };
        constraint.try_out()?;
        Ok(constraint)
    }

    /// A grammar that allows nothing at all, or one that cannot go back, as windows of drafts have to, is found out now
    /// and not in the middle of a reply.
    fn try_out(&mut self) -> Result<(), TextError> {
        let mut mask = vec![0; self.grammars.shared.mask_words];
        self.mask(&mut mask)?;
        let is_allowed = |token: &u32| mask[*token as usize / 32] >> (token % 32) & 1 == 1;
        let Some(token) = (0..self.grammars.shared.vocabulary_size() as u32).find(is_allowed) else {
            return Ok(());
        };
        self.advance(token).map_err(|error| self.failed(&error.to_string()))?;
        self.rollback(1)
    }

    /// Writes the mask of the next token: [`Grammars::mask_words`] words.
    pub fn mask(&mut self, allowed: &mut [u32]) -> Result<(), TextError> {
        let words = self.grammars.shared.mask_words;
        assert_eq!(allowed.len(), words, "words of a mask");
        if self.stops > 0 {
            allowed.fill(0);
            for token in &self.grammars.shared.stop_tokens {
                allowed[*token as usize / 32] |= 1 << (token % 32);
            }
            return Ok(());
        }
        let set = self.matcher.compute_mask_or_eos().map_err(|error| self.failed(&error.to_string()))?;
        let count = set.as_slice().len().min(words);
        allowed[..count].copy_from_slice(&set.as_slice()[..count]);
        allowed[count..].fill(0);
        if allowed.iter().all(|&word| word == 0) {
            return Err(self.failed("no token can follow"));
        }
        Ok(())
    }

    /// Takes the token that was drawn. One that is not allowed is an error and changes nothing.
    pub fn advance(&mut self, token: u32) -> Result<(), TextError> {
        if self.grammars.shared.stop_tokens.contains(&token) {
            return self.stop(token);
        }
        let is_over = self.stops > 0 || token as usize >= self.grammars.shared.vocabulary_size();
        if is_over || self.take(&[token])? == 0 {
            return Err(TextError::TokenNotAllowed { token });
        }
        Ok(())
    }

    /// Takes back the last tokens.
    pub fn rollback(&mut self, tokens: usize) -> Result<(), TextError> {
        let taken = self.tokens.len() + self.stops;
        assert!(tokens <= taken, "{tokens} tokens of {taken}");
        let stops = tokens.min(self.stops);
        self.stops -= stops;
        let texts = tokens - stops;
        self.tokens.truncate(self.tokens.len() - texts);
        self.matcher.rollback(texts).map_err(|error| self.failed(&error.to_string()))
    }

    /// Tokens for the text that the grammar leaves no choice about, spelled as the tokenizer spells it.
    ///
    /// They are drafts of the best kind: the mask of every row holds whatever spelling the model prefers, so that a reply
    /// is the same with them and without. What the last token may become with more text is left to the model.
    pub fn forced(&mut self) -> Vec<u32> {
        if self.stops > 0 || self.matcher.is_stopped() {
            return Vec::new();
        }
        // On a copy, because asking moves the matcher's own text ahead. It may share the lexer's memory.
        let bytes = self.matcher.clone().compute_ff_bytes();
        let text = String::from_utf8_lossy(&bytes);
        let text = text.split(char::REPLACEMENT_CHARACTER).next().unwrap_or_default();
        let mut tokens = self.grammars.shared.tokenizer.encode(text, false).unwrap_or_default();
        tokens.pop();
        let permitted = self.permitted(&tokens);
        tokens.truncate(permitted);
        tokens
    }

    /// Whether the reply may end here.
    pub fn may_end(&mut self) -> bool {
        self.matcher.is_stopped() || self.matcher.is_accepting().unwrap_or(false)
    }

    /// Whether the reply can only end here, or has ended.
    pub fn is_finished(&self) -> bool {
        self.stops > 0 || self.matcher.is_stopped()
    }

    /// How many of these tokens, one after the other, the grammar permits. A stop token is not counted, and nothing
    /// after it.
    pub fn permitted(&mut self, tokens: &[u32]) -> usize {
        let size = self.grammars.shared.vocabulary_size();
        let stops = &self.grammars.shared.stop_tokens;
        let is_text = |token: &&u32| !stops.contains(token) && (**token as usize) < size;
        let count = tokens.iter().take_while(is_text).count();
        if self.stops > 0 || self.matcher.is_stopped() {
            return 0;
        }
        self.matcher.validate_tokens(&tokens[..count]).unwrap_or(0)
    }

    /// The masks of the rows of a window of the pending token, which has been taken, and these drafts. Where the reply is in
    /// its grammar stays as it is.
    pub fn masks_for_window(&mut self, drafts: &[u32], masks: &mut WindowMasks) -> Result<(), TextError> {
        let words = self.grammars.shared.mask_words;
        let permitted = self.permitted(drafts);
        masks.words.resize(words * (permitted + 1), 0);
        let (first, more) = masks.words.split_at_mut(words);
        self.mask(first)?;
        // A matcher that meets a dead end has no way back. A copy has, and may share the lexer's memory.
        let before = (self.matcher.clone(), self.tokens.len());
        let rows = drafts.iter().zip(more.chunks_mut(words));
        let goes_on = |(&draft, allowed): (&u32, &mut [u32])| {
            self.advance(draft).and_then(|()| self.mask(allowed)).is_ok()
        };
        masks.permitted = rows.map(goes_on).take_while(|goes_on| *goes_on).count();
        masks.rows = masks.permitted + 1;
        masks.words.truncate(words * masks.rows);
        self.matcher = before.0;
        self.tokens.truncate(before.1);
        Ok(())
    }

    fn stop(&mut self, token: u32) -> Result<(), TextError> {
        if !self.may_end() {
            return Err(TextError::TokenNotAllowed { token });
        }
        self.stops += 1;
        Ok(())
    }

    /// Moves the matcher; how many tokens it took.
    fn take(&mut self, tokens: &[u32]) -> Result<usize, TextError> {
        if self.matcher.is_stopped() {
            return Ok(0);
        }
        let taken =
            self.matcher.try_consume_tokens(tokens).map_err(|error| self.failed(&error.to_string()))?;
        self.tokens.extend_from_slice(&tokens[..taken]);
        Ok(taken)
    }

    fn failed(&self, message: &str) -> TextError {
        let (what, message) = (self.what, tidy(message));
        if self.tokens.is_empty() {
            return TextError::Grammar { what, message };
        }
        let recent = &self.tokens[self.tokens.len().saturating_sub(TOKENS_SHOWN)..];
        let bytes: Vec<u8> = recent
            .iter()
            .flat_map(|&token| self.grammars.shared.tokenizer.token_bytes(token).iter().copied())
            .collect();
        TextError::DeadEnd { what, after: String::from_utf8_lossy(&bytes).into_owned(), message }
    }
}

/// The compiler's words without its marks for readers of its logs.
fn tidy(message: &str) -> String {
    let message = message.split("<backtrace>").next().unwrap_or_default().replace("<non-verbose/>", "");
    match message.trim() {
        "NoExtensionBias" | "NoExtension" => "no text follows it".to_owned(),
        message => message.to_owned(),
    }
}
