//! From a request for a response to the one that `/v1/chat/completions` takes.

use forerunner_engine::SamplingRule;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use utoipa::ToSchema;

use crate::body::Body;
use crate::error::ApiError;
use crate::generation::{GenerationFields, alternatives};
use crate::parts::Parts;

#[derive(Debug, Deserialize, ToSchema)]
struct ResponseFields {
    /// A text, or a list of messages, function calls and their outputs.
    #[schema(value_type = Value, required)]
    input: Option<Value>,
    /// What the model is told first, for this response alone.
    instructions: Option<String>,
    /// A kept response that this one goes on from.
    previous_response_id: Option<String>,
    /// Whether it is kept [default: true].
    store: Option<bool>,
    /// False or absent.
    background: Option<bool>,
    /// `message.output_text.logprobs` for log-probabilities; nothing else is made here.
    include: Option<Vec<String>>,
}

/// A request for a response.
#[derive(ToSchema)]
#[expect(dead_code, reason = "only described: each kind of fields is read by itself")]
pub(crate) struct ResponseRequest {
    #[serde(flatten)]
    generation: GenerationFields,
    #[serde(flatten)]
    own: ResponseFields,
    #[serde(flatten)]
    echoed: Echoed,
}

/// Fields that come back with the response as they were sent.
#[derive(Debug, Clone, Default, Deserialize, Serialize, ToSchema)]
pub(crate) struct Echoed {
    /// Most tokens of the reply.
    max_output_tokens: Option<Value>,
    temperature: Option<Value>,
    top_p: Option<Value>,
    /// Alternatives that come with log-probabilities, 0 to 20.
    #[schema(value_type = Option<u32>)]
    #[serde(skip_serializing_if = "Option::is_none")]
    top_logprobs: Option<usize>,
    /// Each as `{"type": "function", "name", "description", "parameters"}`.
    tools: Option<Value>,
    tool_choice: Option<Value>,
    parallel_tool_calls: Option<Value>,
    metadata: Option<Value>,
    /// Its `format` is the form of the answer: text, json_object or json_schema.
    text: Option<Value>,
}

/// What `include` says to get log-probabilities.
const LOGPROBS: &str = "message.output_text.logprobs";

impl Echoed {
    /// With what is used where nothing was sent.
    pub(super) fn or_used(self, rule: &SamplingRule) -> Self {
        Echoed {
            max_output_tokens: self.max_output_tokens,
            temperature: self.temperature.or_else(|| Some(decimal(rule.temperature))),
            top_p: self.top_p.or_else(|| Some(decimal(rule.top_p))),
            top_logprobs: self.top_logprobs,
            tools: self.tools.or_else(|| Some(json!([]))),
            tool_choice: self.tool_choice.or_else(|| Some(json!("auto"))),
            parallel_tool_calls: self.parallel_tool_calls.or_else(|| Some(json!(true))),
            metadata: self.metadata.or_else(|| Some(json!({}))),
            text: self.text.or_else(|| Some(json!({"format": {"type": "text"}}))),
        }
    }
}

/// The number as it is written, not as its neighbour in twice the bits.
fn decimal(value: f32) -> Value {
    value.to_string().parse::<f64>().map_or(Value::Null, Value::from)
}

/// What only this API says.
#[derive(Debug)]
pub(super) struct Asked {
    /// The input, as chat messages.
    pub(super) messages: Vec<Value>,
    pub(super) instructions: Option<String>,
    pub(super) previous: Option<String>,
    pub(super) store: bool,
    /// Log-probabilities of its text, with so many alternatives.
    pub(super) logprobs: Option<usize>,
    pub(super) echoed: Echoed,
}

impl Asked {
    pub(super) fn read(body: &Body) -> Result<Self, ApiError> {
        let fields: ResponseFields = body.read()?;
        if fields.background == Some(true) {
            return Err(ApiError::value("background", &true.into(), "false"));
        }
        let echoed: Echoed = body.read()?;
        let is_asked = fields.include.iter().flatten().any(|included| included == LOGPROBS);
        Ok(Asked {
            logprobs: alternatives(is_asked, echoed.top_logprobs, &format!("{LOGPROBS} in include"))?,
            messages: messages(fields.input.as_ref().unwrap_or(&Value::Null))?,
            instructions: fields.instructions,
            previous: fields.previous_response_id,
            store: fields.store.unwrap_or(true),
            echoed,
        })
    }
}

/// The same request in the other words, over the whole conversation. Instructions hold for this response alone.
pub(super) fn with_messages(
    body: &Body,
    instructions: Option<&str>,
    messages: &[Value],
) -> Result<Body, ApiError> {
    let mut fields = body.fields().clone();
    let system = instructions.map(|text| json!({"role": "system", "content": text}));
    let messages: Vec<Value> = system.into_iter().chain(messages.iter().cloned()).collect();
    fields.insert("messages".into(), messages.into());
    if let Some(limit) = fields.remove("max_output_tokens") {
        fields.insert("max_completion_tokens".into(), limit);
    }
    let format = fields.get("text").map(|text| &text["format"]).filter(|format| !format.is_null());
    if let Some(format) = format.map(format_there) {
        fields.insert("response_format".into(), format);
    }
    for name in ["input", "instructions", "text", "stream_options"] {
        fields.remove(name);
    }
    if let Some(tools) = fields.remove("tools").filter(|tools| !tools.is_null()) {
        fields.insert("tools".into(), tools_there(&tools)?);
    }
    Ok(Body::from_fields(fields))
}

/// There, a schema's fields are in an object of their own.
fn format_there(format: &Value) -> Value {
    match format["type"].as_str() {
        Some("json_schema") => {
            let field = |name: &str| format[name].clone();
            let schema = json!({"name": field("name"), "schema": field("schema"), "strict": field("strict")});
            json!({"type": "json_schema", "json_schema": schema})
        }
        _ => format.clone(),
    }
}

/// There, a function's fields are in an object of their own.
fn tools_there(tools: &Value) -> Result<Value, ApiError> {
    let list = tools.as_array().ok_or_else(|| ApiError::value("tools", tools, "a list of tools"))?;
    let translate = |(index, tool): (usize, &Value)| {
        let mut function = tool.as_object().cloned().unwrap_or_default();
        if function.remove("type") != Some("function".into()) || !tool["name"].is_string() {
            let field = format!("tools[{index}]");
            return Err(ApiError::value(&field, tool, "a tool of type \"function\" with a name"));
        }
        Ok(json!({"type": "function", "function": function}))
    };
    list.iter().enumerate().map(translate).collect()
}

const ACCEPTED_INPUT: &str = "a string, or a list of messages, function calls and their outputs";

fn messages(input: &Value) -> Result<Vec<Value>, ApiError> {
    let mut messages = Vec::new();
    match input {
        Value::String(text) => messages.push(json!({"role": "user", "content": text})),
        Value::Array(items) if !items.is_empty() => {
            for (index, item) in items.iter().enumerate() {
                add_item(&mut messages, item, &format!("input[{index}]"))?;
            }
        }
        _ => return Err(ApiError::value("input", input, ACCEPTED_INPUT)),
    }
    Ok(messages)
}

fn add_item(messages: &mut Vec<Value>, item: &Value, field: &str) -> Result<(), ApiError> {
    match item["type"].as_str() {
        None | Some("message") => {
            let role = match item["role"].as_str() {
                Some("developer") => "system",
                Some(role @ ("system" | "user" | "assistant")) => role,
                _ => {
                    return Err(ApiError::value(
                        &format!("{field}.role"),
                        &item["role"],
                        "user, assistant or system",
                    ));
                }
            };
            let content = text_of(&item["content"], &format!("{field}.content"))?;
            messages.push(json!({"role": role, "content": content}));
        }
        Some("function_call") => add_call(messages, item, field)?,
        Some("function_call_output") => {
            let output = text_of(&item["output"], &format!("{field}.output"))?;
            messages.push(json!({"role": "tool", "tool_call_id": item["call_id"], "content": output}));
        }
        // Thoughts of earlier turns are not read again.
        Some("reasoning") => {}
        Some(_) => return Err(ApiError::value(&format!("{field}.type"), &item["type"], ACCEPTED_INPUT)),
    }
    Ok(())
}

/// Calls are part of the assistant's message before them.
fn add_call(messages: &mut Vec<Value>, item: &Value, field: &str) -> Result<(), ApiError> {
    let Some(name) = item["name"].as_str() else {
        return Err(ApiError::value(&format!("{field}.name"), &item["name"], "a string"));
    };
    let function = json!({"name": name, "arguments": item["arguments"]});
    let call = json!({"id": item["call_id"], "type": "function", "function": function});
    if messages.last().is_none_or(|last| last["role"] != "assistant") {
        messages.push(json!({"role": "assistant", "content": ""}));
    }
    let last = messages.last_mut().expect("just made sure of");
    match last["tool_calls"].as_array_mut() {
        Some(calls) => calls.push(call),
        None => last["tool_calls"] = json!([call]),
    }
    Ok(())
}

fn text_of(value: &Value, field: &str) -> Result<String, ApiError> {
    let accepted = "a string, or a list of text parts";
    match value {
        Value::String(text) => Ok(text.clone()),
        Value::Array(parts) => {
            let joined: Option<String> =
                parts.iter().map(|part| part["text"].as_str().map(str::to_owned)).collect();
            joined.ok_or_else(|| ApiError::value(field, value, accepted))
        }
        _ => Err(ApiError::value(field, value, accepted)),
    }
}

/// A reply as the message that the next turn goes on from.
pub(super) fn reply_message(parts: Parts) -> Value {
    let mut message = json!({"role": "assistant", "content": parts.content});
    if !parts.calls.is_empty() {
        let call = |call: crate::parts::Call| {
            let function = json!({"name": call.name, "arguments": call.arguments});
            json!({"id": call.id, "type": "function", "function": function})
        };
        message["tool_calls"] = parts.calls.into_iter().map(call).collect();
    }
    message
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(body: &Value) -> Result<Asked, ApiError> {
        Asked::read(&Body::parse(body.to_string().as_bytes())?)
    }

    #[test]
    fn every_kind_of_input_is_a_message() {
        let asked = read(&json!({"input": [
            {"role": "developer", "content": "Brief."},
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi"}]},
            {"type": "reasoning", "summary": []},
            {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"},
            {"type": "function_call", "call_id": "c2", "name": "g", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "c1", "output": "7"},
        ]}))
        .unwrap();
        let call = |id: &str, name: &str| json!({"id": id, "type": "function", "function": {"name": name, "arguments": "{}"}});
        let expected = json!([
            {"role": "system", "content": "Brief."},
            {"role": "user", "content": "hi"},
            {"role": "assistant", "content": "", "tool_calls": [call("c1", "f"), call("c2", "g")]},
            {"role": "tool", "tool_call_id": "c1", "content": "7"},
        ]);
        assert_eq!(Value::from(asked.messages), expected);
    }

    #[test]
    fn what_is_no_input_is_named() {
        let cases = [
            (json!({}), "input"),
            (json!({"input": []}), "input"),
            (json!({"input": [{"role": "robot", "content": "a"}]}), "input[0].role"),
            (json!({"input": [{"role": "user", "content": [{"type": "input_image"}]}]}), "input[0].content"),
            (json!({"input": [{"type": "file_search_call"}]}), "input[0].type"),
            (json!({"input": "a", "background": true}), "background"),
        ];
        for (body, field) in cases {
            assert_eq!(read(&body).unwrap_err().param.as_deref(), Some(field), "{body}");
        }
    }
}
