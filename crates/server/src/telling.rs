//! What is told of single tokens beside a reply's text: log-probabilities and origins.

use forerunner_engine::{Origin, TokenLogprob, ToldToken};
use forerunner_text::Tokenizer;
use serde::Serialize;
use serde_json::{Map, Value};
use utoipa::ToSchema;

use crate::reply::Endpoint;

/// What a request wants to be told of its tokens.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Asked {
    /// Log-probabilities, with so many alternatives.
    pub(crate) logprobs: Option<usize>,
    /// Where each token comes from.
    pub(crate) origins: bool,
}

/// Log-probabilities in an endpoint's shape.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[serde(untagged)]
pub(crate) enum Logprobs {
    Chat {
        content: Vec<TokenEntry>,
        /// Always null.
        #[schema(value_type = Option<Object>)]
        refusal: Option<()>,
    },
    Completions(LegacyLogprobs),
}

/// A token of a chat reply.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub(crate) struct TokenEntry {
    #[serde(flatten)]
    token: NamedToken,
    top_logprobs: Vec<NamedToken>,
}

/// A token as text and as bytes, which may be a part of a character.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
struct NamedToken {
    token: String,
    logprob: f32,
    bytes: Vec<u8>,
}

/// The tokens of a completion, in columns.
#[derive(Debug, Clone, Default, Serialize, ToSchema)]
pub(crate) struct LegacyLogprobs {
    tokens: Vec<String>,
    token_logprobs: Vec<f32>,
    /// By token, with the drawn one among them; null where no alternatives are asked for.
    #[schema(value_type = Option<Vec<Object>>)]
    top_logprobs: Option<Vec<Map<String, Value>>>,
    /// Characters of the text before each token.
    text_offset: Vec<usize>,
}

/// A piece of a reply's text and where it comes from.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub(crate) struct TokenOrigin {
    text: String,
    origin: &'static str,
}

/// The log-probabilities of these tokens, if they were asked for. `text_offset` is the number of characters before
/// them.
pub(crate) fn logprobs(
    endpoint: Endpoint,
    tokenizer: &Tokenizer,
    asked: Asked,
    told: &[ToldToken],
    text_offset: usize,
) -> Option<Logprobs> {
    let alternatives = asked.logprobs?;
    Some(match endpoint {
        Endpoint::Chat => Logprobs::Chat { content: entries(tokenizer, told), refusal: None },
        Endpoint::Completions => Logprobs::Completions(legacy(tokenizer, alternatives, told, text_offset)),
    })
}

/// One entry a token, as chat replies and responses have them.
pub(crate) fn entries(tokenizer: &Tokenizer, told: &[ToldToken]) -> Vec<TokenEntry> {
    let entry = |told: &ToldToken| {
        let mut named = told.logprobs.iter().map(|entry| NamedToken::new(tokenizer, entry));
        Some(TokenEntry { token: named.next()?, top_logprobs: named.collect() })
    };
    told.iter().filter_map(entry).collect()
}

fn legacy(
    tokenizer: &Tokenizer,
    alternatives: usize,
    told: &[ToldToken],
    mut text_offset: usize,
) -> LegacyLogprobs {
    let mut columns =
        LegacyLogprobs { top_logprobs: (alternatives > 0).then(Vec::new), ..LegacyLogprobs::default() };
    for token in told {
        let named = token.logprobs.iter().map(|entry| (legacy_name(tokenizer, entry), entry.logprob));
        columns.tokens.extend(named.clone().take(1).map(|(name, _)| name));
        columns.token_logprobs.extend(named.clone().take(1).map(|(_, logprob)| logprob));
        if let Some(top) = &mut columns.top_logprobs {
            top.push(named.map(|(name, logprob)| (name, Value::from(logprob))).collect());
        }
        columns.text_offset.push(text_offset);
        text_offset += token.text.chars().count();
    }
    columns
}

/// Where each of these tokens comes from, if that was asked for.
pub(crate) fn origins(asked: Asked, told: &[ToldToken]) -> Option<Vec<TokenOrigin>> {
    let of = |told: &ToldToken| TokenOrigin { text: told.text.clone(), origin: origin_name(told.origin) };
    asked.origins.then(|| told.iter().map(of).collect())
}

fn origin_name(origin: Origin) -> &'static str {
    match origin {
        Origin::Plain => "plain",
        Origin::Draft => "draft",
        Origin::Copy => "copy",
        Origin::Forced => "forced",
        Origin::Bonus => "bonus",
    }
}

impl NamedToken {
    fn new(tokenizer: &Tokenizer, entry: &TokenLogprob) -> Self {
        let bytes = tokenizer.token_bytes(entry.token).to_vec();
        NamedToken { token: String::from_utf8_lossy(&bytes).into_owned(), logprob: entry.logprob, bytes }
    }
}

/// A token's text. One that is a part of a character is spelt in bytes, so that no two have one name.
fn legacy_name(tokenizer: &Tokenizer, entry: &TokenLogprob) -> String {
    let bytes = tokenizer.token_bytes(entry.token);
    match std::str::from_utf8(bytes) {
        Ok(text) => text.to_owned(),
        Err(_) => bytes.iter().fold("bytes:".to_owned(), |name, byte| format!("{name}\\x{byte:02x}")),
    }
}
