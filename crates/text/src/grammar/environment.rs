//! What all grammars of a model share: the tree of its tokens' bytes.

use std::sync::Arc;

use llguidance::api::TopLevelGrammar;
use llguidance::earley::SlicedBiasComputer;
use llguidance::toktrie::{
    INVALID_TOKEN, InferenceCapabilities, TokEnv, TokRxInfo, TokTrie, TokenId, TokenizerEnv,
};
use llguidance::{Matcher, ParserFactory};

use crate::{TextError, Tokenizer};

/// Longer tokens are more than the tree can hold; a reply under a grammar spells them by shorter ones.
const TOKEN_BYTES_MAX: usize = 512;

/// The stack of a thread that compiles a grammar: its recursion takes 4 KiB for each of a chain of rules, and a grammar of
/// the largest size has 40,000 of them. Only what is touched is memory.
const STACK_BYTES: usize = 512 << 20;

/// A tokenizer made ready for grammars. It is built once a model and shared: a clone is a pointer.
#[derive(Clone)]
pub struct Grammars {
    pub(super) shared: Arc<Shared>,
}

pub(super) struct Shared {
    pub(super) tokenizer: Tokenizer,
    pub(super) stop_tokens: Vec<u32>,
    model_vocabulary: usize,
    /// Words of a mask: a bit for each token of the model's vocabulary.
    pub(super) mask_words: usize,
    factory: ParserFactory,
}

impl std::fmt::Debug for Grammars {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Grammars").field("stop_tokens", &self.shared.stop_tokens).finish_non_exhaustive()
    }
}

impl Grammars {
    /// Reads the tokenizer's bytes. A model's vocabulary may be padded to more than the tokenizer has: no grammar allows
    /// what is past it. `stop_tokens` end a reply: they are allowed where a grammar may end, and nowhere else.
    pub fn new(
        tokenizer: &Tokenizer,
        model_vocabulary: usize,
        stop_tokens: &[u32],
    ) -> Result<Grammars, TextError> {
        let in_vocabulary =
            |token: &u32| (*token as usize) < tokenizer.vocabulary_size().min(model_vocabulary);
        let stop_tokens: Vec<u32> = stop_tokens.iter().copied().filter(in_vocabulary).collect();
        let trie = trie(tokenizer, model_vocabulary, &stop_tokens);
        let environment: TokEnv = Arc::new(Environment { trie });
        let slices = SlicedBiasComputer::general_slices();
        let mut factory = ParserFactory::new(&environment, InferenceCapabilities::default(), &slices)
            .map_err(|error| TextError::Grammar { what: "the tokenizer", message: error.to_string() })?;
        factory.quiet().limits_mut().verbose_errors = false;
        let (tokenizer, mask_words) = (tokenizer.clone(), model_vocabulary.div_ceil(32));
        Ok(Grammars {
            shared: Arc::new(Shared { tokenizer, stop_tokens, model_vocabulary, mask_words, factory }),
        })
    }

    /// Words of a mask.
    pub fn mask_words(&self) -> usize {
        self.shared.mask_words
    }

    /// Compiles a grammar to a matcher at its start, on a thread with a stack that its recursion cannot use up.
    pub(super) fn matcher(&self, grammar: TopLevelGrammar) -> Result<Matcher, String> {
        let compile = || self.shared.factory.create_parser(grammar).map_err(|error| format!("{error:#}"));
        let parser = std::thread::scope(|scope| {
            let thread = std::thread::Builder::new().name("grammar".to_owned()).stack_size(STACK_BYTES);
            let compiled = thread.spawn_scoped(scope, compile).map_err(|error| error.to_string())?;
            compiled.join().map_err(|_| "the compiler panicked".to_owned())?
        })?;
        Ok(Matcher::new(Ok(parser)))
    }
}

impl Shared {
    /// Tokens that a grammar may allow.
    pub(super) fn vocabulary_size(&self) -> usize {
        self.tokenizer.vocabulary_size().min(self.model_vocabulary)
    }
}

/// The tree of tokens. A special token is not text: its bytes begin with one that no text has.
fn trie(tokenizer: &Tokenizer, model_vocabulary: usize, stop_tokens: &[u32]) -> TokTrie {
    let word = |token: u32| {
        let bytes = tokenizer.token_bytes(token);
        if bytes.len() > TOKEN_BYTES_MAX {
            return Vec::new();
        }
        match (tokenizer.is_special(token), bytes.first()) {
            (true, Some(_)) => [&[TokTrie::SPECIAL_TOKEN_MARKER], bytes].concat(),
            (false, Some(&TokTrie::SPECIAL_TOKEN_MARKER)) => Vec::new(),
            _ => bytes.to_vec(),
        }
    };
    let size = tokenizer.vocabulary_size().min(model_vocabulary) as u32;
    let words: Vec<Vec<u8>> = (0..size).map(word).collect();
    let info = TokRxInfo::new(size, stop_tokens.first().copied().unwrap_or(INVALID_TOKEN));
    let trie = TokTrie::from(&info, &words);
    if stop_tokens.is_empty() { trie } else { trie.with_eos_tokens(stop_tokens) }
}

struct Environment {
    trie: TokTrie,
}

impl TokenizerEnv for Environment {
    fn tok_trie(&self) -> &TokTrie {
        &self.trie
    }

    fn tokenize_bytes(&self, bytes: &[u8]) -> Vec<TokenId> {
        self.trie.greedy_tokenize(bytes)
    }

    /// A text that a grammar forces may be spelled by any tokens: so a mask says what the grammar says and no more.
    fn tokenize_is_canonical(&self) -> bool {
        false
    }
}
