//! `POST /v1/chat/completions`: messages through the chat template to a reply.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use forerunner_engine::{Request, TokenId};
use forerunner_text::{TextModel, ThoughtStart};
use serde::Deserialize;
use serde_json::{Map, Value};
use utoipa::ToSchema;

use crate::body::Body;
use crate::error::ApiError;
use crate::form::{Form, FormFields};
use crate::generation::{Generation, GenerationFields, alternatives};
use crate::openapi::ReplyRefusals;
use crate::parts::Reading;
use crate::reply::{Endpoint, respond};
use crate::service::Service;
use crate::thinking::{Thinking, ThinkingFields};
use crate::tool_use::ToolUse;
use crate::types::Completion;

/// What only a chat request says. Messages and tools are for the template to read.
#[derive(Debug, Deserialize, ToSchema)]
struct ChatFields {
    #[schema(value_type = Vec<ChatMessage>, min_items = 1)]
    messages: Option<Vec<Value>>,
    /// Each as `{"type": "function", "function": {"name", "description", "parameters"}}`.
    #[schema(value_type = Option<Vec<Object>>)]
    tools: Option<Vec<Map<String, Value>>>,
    /// "none", "auto", "required", a function by its name, or `{"type": "allowed_tools", ...}` with some of the tools.
    #[serde(default)]
    #[schema(value_type = Option<Value>)]
    tool_choice: Value,
    /// Whether a reply may have more than one call [default: true].
    parallel_tool_calls: Option<bool>,
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

/// How a chat request asks for log-probabilities.
#[derive(Debug, Deserialize, ToSchema)]
struct LogprobFields {
    /// Whether tokens come with their log-probabilities.
    logprobs: Option<bool>,
    /// And with so many alternatives.
    #[schema(minimum = 0, maximum = 20)]
    top_logprobs: Option<usize>,
}

/// A chat request: all kinds of fields in one object.
#[derive(ToSchema)]
#[expect(dead_code, reason = "only described: each kind of fields is read by itself")]
pub(crate) struct ChatRequest {
    #[serde(flatten)]
    generation: GenerationFields,
    #[serde(flatten)]
    logprobs: LogprobFields,
    #[serde(flatten)]
    chat: ChatFields,
    #[serde(flatten)]
    form: FormFields,
    #[serde(flatten)]
    thinking: ThinkingFields,
}

/// A chat prompt before it is rendered.
#[derive(Debug)]
pub(crate) struct ChatPrompt {
    pub(crate) messages: Vec<Value>,
    /// Not empty. Without any, nothing in a reply is a call.
    pub(crate) tools: Option<Vec<Value>>,
    /// Whether a reply may have more than one call.
    pub(crate) many_calls: bool,
    /// What the reply is held to.
    pub(crate) form: Option<Form>,
    pub(crate) thinking: Thinking,
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
    let LogprobFields { logprobs, top_logprobs } = body.read()?;
    generation.ask_logprobs(alternatives(logprobs.unwrap_or(false), top_logprobs, "logprobs")?);
    let reading = ChatPrompt::read(&body)?.put_into(&mut generation.request, &service).await?;
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
        let tool_use = ToolUse::read(&fields.tool_choice)?;
        let tools = fields.tools.filter(|tools| tool_use != ToolUse::Never && !tools.is_empty());
        let tools: Option<Vec<Value>> = tools.map(|tools| tools.into_iter().map(Value::Object).collect());
        let many_calls = fields.parallel_tool_calls.unwrap_or(true);
        Ok(ChatPrompt {
            form: Form::of_chat(body.fields(), tools.as_deref(), &tool_use, many_calls)?,
            thinking: Thinking::read(body)?,
            messages,
            tools,
            many_calls,
        })
    }

    /// Writes its tokens, and what the reply is held to, into a request; what the reply is read as.
    pub(crate) async fn put_into(
        mut self,
        request: &mut Request,
        service: &Service,
    ) -> Result<Reading, ApiError> {
        let form = self.form.take();
        let (has_tools, many_calls) = (self.tools.is_some(), self.many_calls);
        let (prompt, start) = self.encode(service).await?;
        request.prompt = prompt;
        if let Some(form) = form {
            let thinks = start == ThoughtStart::Open || service.text().template.marks_thoughts();
            request.constraint = Some(form.compile(service, thinks.then_some(start)).await?);
        }
        Ok(Reading::Chat { start, tools: has_tools, many_calls })
    }

    /// Its tokens, and where a reply to it begins.
    pub(crate) async fn encode(self, service: &Service) -> Result<(Vec<TokenId>, ThoughtStart), ApiError> {
        let ChatPrompt { messages, tools, thinking, .. } = self;
        let extra = thinking.variables(&service.text().template)?;
        let encode = move |text: &TextModel| {
            let tools = tools.map(Value::Array);
            let prompt = text.template.render(&messages, tools.as_ref(), true, &extra)?;
            Ok((text.tokenizer.encode_prompt(&prompt)?, ThoughtStart::of_prompt(&prompt)))
        };
        service.encode(encode).await
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
