//! tokenizer.json: text to token ids and back.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokenizers::DecoderWrapper;

use crate::bytes::ByteTable;
use crate::config::TokenizerConfig;
use crate::{Detokenizer, TextError};

/// Marks within a reply that its reader must see: without them a tool call or a thought looks like plain text.
const SHOWN_MARKS: [&str; 4] = ["<|tool_call_start|>", "<|tool_call_end|>", "<think>", "</think>"];

/// A checkpoint's tokenizer, byte-level as all of the LFM2 family are.
#[derive(Clone, Debug)]
pub struct Tokenizer {
    inner: Arc<tokenizers::Tokenizer>,
    table: Arc<ByteTable>,
    special: SpecialTokens,
    shown_marks: Vec<u32>,
}

/// The special tokens that tokenizer_config.json names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpecialTokens {
    /// Opens every sequence.
    pub bos: Option<u32>,
    /// Ends a reply.
    pub eos: Option<u32>,
    /// Fills a batch; never generated.
    pub pad: Option<u32>,
}

impl Tokenizer {
    /// Reads tokenizer.json, and tokenizer_config.json where there is one.
    pub fn open(dir: &Path) -> Result<Tokenizer, TextError> {
        let path = dir.join("tokenizer.json");
        let bytes = std::fs::read(&path).map_err(|source| TextError::Read { path: path.clone(), source })?;
        let mut inner =
            parse(&bytes).map_err(|message| TextError::Tokenizer { path: path.clone(), message })?;
        check_decoder(&inner, &path)?;
        // A file that was saved while training may cut or pad what it encodes. A prompt is neither cut nor padded.
        inner.with_padding(None);
        inner
            .with_truncation(None)
            .map_err(|error| TextError::Tokenizer { path: path.clone(), message: error.to_string() })?;
        let table = byte_table(&inner);
        let special = special_tokens(&TokenizerConfig::open(dir)?, &inner)?;
        let shown_marks = SHOWN_MARKS.iter().filter_map(|mark| inner.token_to_id(mark)).collect();
        Ok(Tokenizer { inner: Arc::new(inner), table: Arc::new(table), special, shown_marks })
    }

    /// Encodes a text. Names of special tokens within it become those tokens.
    ///
    /// `add_special_tokens` adds what the tokenizer's post-processor puts around a text, often a bos. A rendered chat
    /// template opens with its own bos, and is encoded without.
    pub fn encode(&self, text: &str, add_special_tokens: bool) -> Result<Vec<u32>, TextError> {
        match self.inner.encode_fast(text, add_special_tokens) {
            Ok(encoding) => Ok(encoding.get_ids().to_vec()),
            Err(error) => Err(TextError::Encode { message: error.to_string() }),
        }
    }

    /// Encodes a prompt that no chat template wrote: a bos stands at its start, once, whether or not the text has one.
    pub fn encode_prompt(&self, text: &str) -> Result<Vec<u32>, TextError> {
        let mut tokens = self.encode(text, false)?;
        if let Some(bos) = self.special.bos.filter(|bos| tokens.first() != Some(bos)) {
            tokens.insert(0, bos);
        }
        Ok(tokens)
    }

    /// Decodes tokens at once. Bytes that are no character become U+FFFD, ids outside of the vocabulary nothing.
    pub fn decode(&self, tokens: &[u32], skip_special_tokens: bool) -> String {
        let is_text = |token: &&u32| !(skip_special_tokens && self.table.is_special(**token));
        let bytes: Vec<u8> =
            tokens.iter().filter(is_text).flat_map(|&token| self.table.bytes(token)).copied().collect();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Starts decoding a reply. Tool-call and thinking marks are shown; every other special token is not text.
    pub fn detokenizer(&self) -> Detokenizer {
        self.detokenizer_showing(&self.shown_marks)
    }

    /// Starts decoding a reply, with these special tokens shown and no others.
    pub fn detokenizer_showing(&self, shown: &[u32]) -> Detokenizer {
        Detokenizer::new(Arc::clone(&self.table), shown)
    }

    /// The marks that [`detokenizer`](Self::detokenizer) shows: those of tool calls and of thoughts.
    pub fn shown_marks(&self) -> &[u32] {
        &self.shown_marks
    }

    /// How many ids there are: one past the largest. A model's own vocabulary may be padded to more.
    pub fn vocabulary_size(&self) -> usize {
        self.table.size()
    }

    /// The id of a token, special or not, by its name.
    pub fn token_to_id(&self, token: &str) -> Option<u32> {
        self.inner.token_to_id(token)
    }

    /// The name of a token, as tokenizer.json writes it.
    pub fn id_to_token(&self, id: u32) -> Option<String> {
        self.inner.id_to_token(id)
    }

    /// The bytes that a token adds to a text.
    pub fn token_bytes(&self, id: u32) -> &[u8] {
        self.table.bytes(id)
    }

    /// Whether a token is a control mark and not text.
    pub fn is_special(&self, id: u32) -> bool {
        self.table.is_special(id)
    }

    /// The special tokens that tokenizer_config.json names.
    pub fn special_tokens(&self) -> SpecialTokens {
        self.special
    }
}

/// What the file describes, or what is wrong with it. That it is JSON is seen before: `tokenizers` panics on a slip within a
/// decoder, and on some values of parts that no byte-level tokenizer has.
fn parse(bytes: &[u8]) -> Result<tokenizers::Tokenizer, String> {
    serde_json::from_slice::<serde_json::Value>(bytes).map_err(|error| error.to_string())?;
    match std::panic::catch_unwind(|| tokenizers::Tokenizer::from_bytes(bytes)) {
        Ok(parsed) => parsed.map_err(|error| error.to_string()),
        Err(_) => Err("a part of it has a value that cannot be read".to_owned()),
    }
}

/// The detokenizer knows byte-level decoding and nothing else.
fn check_decoder(tokenizer: &tokenizers::Tokenizer, path: &Path) -> Result<(), TextError> {
    match tokenizer.get_decoder() {
        Some(DecoderWrapper::ByteLevel(_)) => Ok(()),
        other => Err(TextError::Unsupported {
            path: PathBuf::from(path),
            field: "decoder",
            found: other.map_or("null".to_owned(), |decoder| format!("{decoder:?}")),
            accepted: "a ByteLevel decoder",
        }),
    }
}

fn byte_table(tokenizer: &tokenizers::Tokenizer) -> ByteTable {
    let added = tokenizer.get_added_tokens_decoder();
    let mut vocabulary: Vec<(String, u32)> = tokenizer.get_vocab(false).into_iter().collect();
    // Added tokens come last, because their names win over the model's.
    vocabulary.extend(added.iter().map(|(&id, token)| (token.content.clone(), id)));
    ByteTable::new(&vocabulary, |id| added.get(&id).is_some_and(|token| token.special))
}

fn special_tokens(
    config: &TokenizerConfig,
    tokenizer: &tokenizers::Tokenizer,
) -> Result<SpecialTokens, TextError> {
    let id = |field: &'static str| {
        let Some(token) = config.special_token(field)? else { return Ok(None) };
        match tokenizer.token_to_id(&token) {
            Some(id) => Ok(Some(id)),
            None => Err(TextError::UnknownSpecialToken { path: config.path.clone(), field, token }),
        }
    };
    Ok(SpecialTokens { bos: id("bos_token")?, eos: id("eos_token")?, pad: id("pad_token")? })
}
