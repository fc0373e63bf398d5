//! `POST /tokenize` and `POST /detokenize`, in vLLM's shapes.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use forerunner_engine::TokenId;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::body::Body;
use crate::chat::ChatPrompt;
use crate::error::ApiError;
use crate::generation::check_model;
use crate::service::Service;

#[derive(Debug, Deserialize)]
struct TokenizeFields {
    model: Option<String>,
    prompt: Option<String>,
    messages: Option<Value>,
    add_special_tokens: Option<bool>,
    return_token_strs: Option<bool>,
}

#[derive(Debug, Deserialize)]
struct DetokenizeFields {
    model: Option<String>,
    tokens: Vec<TokenId>,
}

/// The tokens of a prompt, or of messages through the chat template.
pub(crate) async fn tokenize(
    State(service): State<Arc<Service>>,
    body: Body,
) -> Result<Json<Value>, ApiError> {
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
    let mut answer = json!({
        "count": tokens.len(),
        "max_model_len": service.engine.info().context,
        "tokens": tokens,
        "token_strs": null,
    });
    if fields.return_token_strs == Some(true) {
        let text = service.text();
        answer["token_strs"] = tokens.iter().map(|token| text.tokenizer.id_to_token(*token)).collect();
    }
    Ok(Json(answer))
}

/// The text of tokens, special ones included.
pub(crate) async fn detokenize(
    State(service): State<Arc<Service>>,
    body: Body,
) -> Result<Json<Value>, ApiError> {
    let fields: DetokenizeFields = body.read()?;
    check_model(fields.model.as_deref(), service.model())?;
    let vocabulary = service.engine.info().vocabulary;
    if let Some(token) = fields.tokens.iter().find(|token| **token as usize >= vocabulary) {
        return Err(ApiError::value("tokens", &(*token).into(), "tokens of the vocabulary"));
    }
    let prompt = service.encode(move |text| Ok(text.tokenizer.decode(&fields.tokens, false))).await?;
    Ok(Json(json!({"prompt": prompt})))
}
