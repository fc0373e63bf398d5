//! `POST /v1/chat/completions`: messages through the chat template to a reply.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use forerunner_engine::TokenId;
use forerunner_text::{ChatTemplate, TextModel, ThoughtStart};
use serde::Deserialize;
use serde_json::{Map, Value};
use utoipa::ToSchema;

use crate::body::Body;
use crate::error::ApiError;
use crate::generation::{Generation, GenerationFields};
use crate::openapi::ReplyRefusals;
use crate::parts::Reading;
use crate::reply::{Endpoint, respond};
use crate::service::Service;
use crate::types::Completion;

/// What only a chat request says. Messages and tools are for the template to read.
#[derive(Debug, Deserialize, ToSchema)]
struct ChatFields {
    #[schema(value_type = Vec<ChatMessage>, min_items = 1)]
    messages: Option<Vec<Value>>,
    /// Each as `{"type": "function", "function": {"name", "description", "parameters"}}`.
    #[schema(value_type = Option<Vec<Object>>)]
    tools: Option<Vec<Map<String, Value>>>,
    tool_choice: Option<Value>,
    /// Whether a reply may have more than one call [default: true].
    parallel_tool_calls: Option<bool>,
    /// Variables of the template.
    #[schema(value_type = Option<Object>)]
    chat_template_kwargs: Option<Map<String, Value>>,
}

/// A message as the template reads it; it may have more fields.
#[derive(ToSchema)]
#[expect(dead_code, reason = "only described: the template reads the JSON itself")]
pub(crate) struct ChatMessage {
    role: String,
    /// A text, a list of parts with texts, or nothing beside tool calls.
    content: Option<Value>,
    tool_calls: Option<Vec<Value>>,
    tool_call_id: Option<String>,
}

/// A chat request: both kinds of fields in one object.
#[derive(ToSchema)]
#[expect(dead_code, reason = "only described: each kind of fields is read by itself")]
pub(crate) struct ChatRequest {
    #[serde(flatten)]
    generation: GenerationFields,
    #[serde(flatten)]
    chat: ChatFields,
}

/// A chat prompt before it is rendered.
#[derive(Debug)]
pub(crate) struct ChatPrompt {
    pub(crate) messages: Vec<Value>,
    /// Not empty. Without any, nothing in a reply is a call.
    pub(crate) tools: Option<Vec<Value>>,
    /// Whether a reply may have more than one call.
    pub(crate) many_calls: bool,
    /// Variables of the template.
    pub(crate) extra: Map<String, Value>,
}

/// Answers a conversation.
#[utoipa::path(
    post, path = "/v1/chat/completions", tag = "openai", request_body = ChatRequest,
    responses(
        (status = 200, description = "The reply: whole, or in chunks as server-sent events that end with [DONE].",
            content((Completion = "application/json"), (Completion = "text/event-stream"))),
        ReplyRefusals,
    ),
)]
pub(crate) async fn chat(State(service): State<Arc<Service>>, body: Body) -> Result<Response, ApiError> {
    let admission = service.admit()?;
    let mut generation = Generation::read(&body, service.engine.info(), &service.defaults)?;
    let (prompt, reading) = ChatPrompt::read(&body)?.encode(&service).await?;
    generation.request.prompt = prompt;
    respond(&service, admission, Endpoint::Chat, generation, reading).await
}

impl ChatPrompt {
    /// Reads what of a body makes its prompt.
    pub(crate) fn read(body: &Body) -> Result<Self, ApiError> {
        let fields: ChatFields = body.read()?;
        let messages = fields.messages.unwrap_or_default();
        if messages.is_empty() {
            let message = "messages is missing or empty; accepted: a list of at least one message";
            return Err(ApiError::field("messages", message));
        }
        let may_call = fields.tool_choice != Some(Value::from("none"));
        let tools = fields.tools.filter(|tools| may_call && !tools.is_empty());
        Ok(ChatPrompt {
            messages,
            tools: tools.map(|tools| tools.into_iter().map(Value::Object).collect()),
            many_calls: fields.parallel_tool_calls.unwrap_or(true),
            extra: fields.chat_template_kwargs.unwrap_or_default(),
        })
    }

    /// Its tokens, and what a reply to it is read as.
    pub(crate) async fn encode(self, service: &Service) -> Result<(Vec<TokenId>, Reading), ApiError> {
        let ChatPrompt { messages, tools, many_calls, extra } = self;
        check_template_variables(&extra, &service.text().template)?;
        let has_tools = tools.is_some();
        let encode = move |text: &TextModel| {
            let tools = tools.map(Value::Array);
            let prompt = text.template.render(&messages, tools.as_ref(), true, &extra)?;
            Ok((text.tokenizer.encode_prompt(&prompt)?, ThoughtStart::of_prompt(&prompt)))
        };
        let (tokens, start) = service.encode(encode).await?;
        Ok((tokens, Reading::Chat { start, tools: has_tools, many_calls }))
    }
}

/// A switch that the template does not have would change nothing: it is refused, so that nobody believes it did.
fn check_template_variables(extra: &Map<String, Value>, template: &ChatTemplate) -> Result<(), ApiError> {
    match extra.keys().find(|name| !template.reads(name)) {
        None => Ok(()),
        Some(name) => {
            let message = format!("this model's chat template does not read {name}");
            Err(ApiError::field(format!("chat_template_kwargs.{name}"), message))
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(body: &Value) -> Result<ChatPrompt, ApiError> {
        ChatPrompt::read(&Body::parse(body.to_string().as_bytes())?)
    }

    #[test]
    fn a_prompt_needs_messages() {
        for body in [json!({}), json!({"messages": []}), json!({"messages": null})] {
            let error = read(&body).expect_err("no messages");
            assert_eq!(error.param.as_deref(), Some("messages"));
        }
        let error = read(&json!({"messages": "hi"})).expect_err("not a list");
        assert!(error.message.starts_with("messages: invalid type: string"), "{}", error.message);
    }

    #[test]
    fn tools_are_rendered_unless_the_choice_is_none() {
        let tools = json!([{"type": "function", "function": {"name": "add"}}]);
        let mut body = json!({"messages": [{"role": "user", "content": "hi"}], "tools": tools});
        assert_eq!(read(&body).unwrap().tools, tools.as_array().cloned());
        body["tool_choice"] = json!("none");
        assert_eq!(read(&body).unwrap().tools, None);
        body["tools"] = json!(["add"]);
        assert_eq!(read(&body).unwrap_err().param.as_deref(), Some("tools[0]"));
    }
}
