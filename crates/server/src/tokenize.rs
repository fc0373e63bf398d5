//! `POST /tokenize` and `POST /detokenize`, in vLLM's shapes.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use forerunner_engine::TokenId;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use crate::body::Body;
use crate::chat::{ChatMessage, ChatPrompt};
use crate::error::ApiError;
use crate::generation::check_model;
use crate::openapi::BodyRefusals;
use crate::service::Service;

/// Either a prompt or messages.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = TokenizeRequest)]
struct TokenizeFields {
    model: Option<String>,
    prompt: Option<String>,
    #[schema(value_type = Option<Vec<ChatMessage>>)]
    messages: Option<Value>,
    /// Whether a prompt gets the token that begins texts [default: true].
    add_special_tokens: Option<bool>,
    /// Whether the tokens are also told as texts.
    return_token_strs: Option<bool>,
}

/// The tokens, and how many fit.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = TokenizeReply)]
pub(crate) struct Tokenized {
    count: usize,
    max_model_len: usize,
    #[schema(value_type = Vec<u32>)]
    tokens: Vec<TokenId>,
    token_strs: Option<Vec<Option<String>>>,
}

#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = DetokenizeRequest)]
struct DetokenizeFields {
    model: Option<String>,
    #[schema(value_type = Vec<u32>)]
    tokens: Vec<TokenId>,
}

#[derive(Debug, Serialize, ToSchema)]
#[schema(as = DetokenizeReply)]
pub(crate) struct Detokenized {
    prompt: String,
}

/// The tokens of a prompt, or of messages through the chat template.
#[utoipa::path(
    post, path = "/tokenize", tag = "tokens", request_body = TokenizeFields,
    responses((status = 200, description = "The tokens.", body = Tokenized), BodyRefusals),
)]
pub(crate) async fn tokenize(
    State(service): State<Arc<Service>>,
    body: Body,
) -> Result<Json<Tokenized>, ApiError> {
    let fields: TokenizeFields = body.read()?;
    check_model(fields.model.as_deref(), service.model())?;
    let tokens = match (fields.prompt, fields.messages) {
        (None, Some(_)) => ChatPrompt::read(&body)?.encode(&service).await?.0,
        (Some(prompt), None) => {
            let with_bos = fields.add_special_tokens.unwrap_or(true);
            service
                .encode(move |text| match with_bos {
                    true => text.tokenizer.encode_prompt(&prompt),
                    false => text.tokenizer.encode(&prompt, false),
                })
                .await?
        }
        _ => {
            return Err(ApiError::field("prompt", "accepted: one of prompt, a string, and messages, a list"));
        }
    };
    let tokenizer = &service.text().tokenizer;
    let strings = || tokens.iter().map(|token| tokenizer.id_to_token(*token)).collect();
    let token_strs = (fields.return_token_strs == Some(true)).then(strings);
    let max_model_len = service.engine.info().context;
    Ok(Json(Tokenized { count: tokens.len(), max_model_len, tokens, token_strs }))
}

/// The text of tokens, special ones included.
#[utoipa::path(
    post, path = "/detokenize", tag = "tokens", request_body = DetokenizeFields,
    responses((status = 200, description = "The text.", body = Detokenized), BodyRefusals),
)]
pub(crate) async fn detokenize(
    State(service): State<Arc<Service>>,
    body: Body,
) -> Result<Json<Detokenized>, ApiError> {
    let fields: DetokenizeFields = body.read()?;
    check_model(fields.model.as_deref(), service.model())?;
    let vocabulary = service.engine.info().vocabulary;
    if let Some(token) = fields.tokens.iter().find(|token| **token as usize >= vocabulary) {
        return Err(ApiError::value("tokens", &(*token).into(), "tokens of the vocabulary"));
    }
    let prompt = service.encode(move |text| Ok(text.tokenizer.decode(&fields.tokens, false))).await?;
    Ok(Json(Detokenized { prompt }))
}
