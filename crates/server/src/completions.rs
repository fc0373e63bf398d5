//! `POST /v1/completions`: a text or tokens, continued.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use forerunner_engine::TokenId;
use serde_json::Value;
use utoipa::ToSchema;

use crate::body::Body;
use crate::error::ApiError;
use crate::form::{Form, FormFields};
use crate::generation::{Generation, GenerationFields};
use crate::openapi::ReplyRefusals;
use crate::parts::Reading;
use crate::reply::{Endpoint, respond};
use crate::service::Service;
use crate::types::Completion;

/// Reply tokens when a request names no limit, as in OpenAI's API.
const DEFAULT_MAX_TOKENS: usize = 16;

/// As in OpenAI's API.
const MOST_ALTERNATIVES: u64 = 5;

const ACCEPTED: &str = "a string, a list of token ids, or a list with one of those";

/// A prompt to continue.
#[derive(Debug, PartialEq, Eq, ToSchema)]
#[serde(untagged)]
enum Prompt {
    Text(String),
    /// As given: no bos is added.
    Tokens(Vec<u32>),
}

/// A completion request.
#[derive(ToSchema)]
#[expect(dead_code, reason = "only described: each kind of fields is read by itself")]
pub(crate) struct CompletionRequest {
    #[serde(flatten)]
    generation: GenerationFields,
    /// May also be a list with one of these.
    prompt: Prompt,
    #[serde(flatten)]
    form: FormFields,
    /// Tokens come with their log-probabilities, and with so many alternatives.
    #[schema(minimum = 0, maximum = 5)]
    logprobs: Option<u32>,
}

/// Continues a prompt.
#[utoipa::path(
    post, path = "/v1/completions", tag = "openai", request_body = CompletionRequest,
    responses(
        (status = 200, description = "The reply: whole, or in chunks as server-sent events that end with [DONE].",
            content((Completion = "application/json"), (Completion = "text/event-stream"))),
        ReplyRefusals,
    ),
)]
pub(crate) async fn completions(
    State(service): State<Arc<Service>>,
    body: Body,
) -> Result<Response, ApiError> {
    let admission = service.admit()?;
    let mut generation = Generation::read(&body, service.engine.info(), &service.defaults)?;
    generation.ask_logprobs(logprobs(&body)?);
    generation.request.max_tokens.get_or_insert(DEFAULT_MAX_TOKENS);
    generation.request.prompt = match Prompt::read(&body)? {
        Prompt::Text(prompt) => service.encode(move |text| text.tokenizer.encode_prompt(&prompt)).await?,
        Prompt::Tokens(tokens) => tokens,
    };
    if let Some(form) = Form::of_answer(body.fields())? {
        generation.request.constraint = Some(form.compile(&service, None).await?);
    }
    respond(&service, admission, Endpoint::Completions, generation, Reading::Raw).await
}

/// The alternatives that `logprobs` asks for; there, it is a number and not a switch.
fn logprobs(body: &Body) -> Result<Option<usize>, ApiError> {
    match body.fields().get("logprobs") {
        None | Some(Value::Null | Value::Bool(false)) => Ok(None),
        Some(value) => match value.as_u64() {
            Some(alternatives @ 0..=MOST_ALTERNATIVES) => Ok(Some(alternatives as usize)),
            _ => {
                let accepted = format!("0 to {MOST_ALTERNATIVES} alternatives");
                Err(ApiError::value("logprobs", value, &accepted))
            }
        },
    }
}

impl Prompt {
    fn read(body: &Body) -> Result<Self, ApiError> {
        let value = body.fields().get("prompt").unwrap_or(&Value::Null);
        let single = match value.as_array().map(Vec::as_slice) {
            Some([only @ (Value::String(_) | Value::Array(_))]) => only,
            _ => value,
        };
        let prompt = match single {
            Value::String(text) => Some(Prompt::Text(text.clone())),
            Value::Array(tokens) => tokens.iter().map(token).collect::<Option<_>>().map(Prompt::Tokens),
            _ => None,
        };
        prompt.ok_or_else(|| ApiError::value("prompt", value, ACCEPTED))
    }
}

fn token(value: &Value) -> Option<TokenId> {
    TokenId::try_from(value.as_u64()?).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(prompt: Value) -> Result<Prompt, ApiError> {
        Prompt::read(&Body::parse(json!({"prompt": prompt}).to_string().as_bytes())?)
    }

    #[test]
    fn one_prompt_in_any_of_its_shapes() {
        assert_eq!(read(json!("a")).unwrap(), Prompt::Text("a".into()));
        assert_eq!(read(json!(["a"])).unwrap(), Prompt::Text("a".into()));
        assert_eq!(read(json!([1, 2])).unwrap(), Prompt::Tokens(vec![1, 2]));
        assert_eq!(read(json!([[1, 2]])).unwrap(), Prompt::Tokens(vec![1, 2]));
    }

    #[test]
    fn log_probabilities_are_asked_for_by_number() {
        let read = |value: Value| logprobs(&Body::parse(json!({"logprobs": value}).to_string().as_bytes())?);
        assert_eq!(read(json!(null)).unwrap(), None);
        assert_eq!(read(json!(false)).unwrap(), None);
        assert_eq!(read(json!(0)).unwrap(), Some(0));
        assert_eq!(read(json!(5)).unwrap(), Some(5));
        for value in [json!(6), json!(-1), json!(1.5), json!(true), json!("2")] {
            let error = read(value.clone()).expect_err("refused");
            let expected = format!("logprobs is {value}; accepted: 0 to 5 alternatives");
            assert_eq!((error.param.as_deref(), error.message), (Some("logprobs"), expected));
        }
    }

    #[test]
    fn anything_else_is_refused() {
        for prompt in [json!(null), json!(3), json!(["a", "b"]), json!([1, -2]), json!([1, "a"]), json!({})] {
            let error = read(prompt.clone()).expect_err("not a prompt");
            assert_eq!(error.param.as_deref(), Some("prompt"), "{prompt}");
            assert!(error.message.contains(ACCEPTED), "{}", error.message);
        }
    }
}
