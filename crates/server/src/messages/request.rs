//! From Anthropic's request to the one that `/v1/chat/completions` takes.

use serde_json::{Map, Value, json};
use utoipa::ToSchema;

use crate::body::Body;
use crate::error::ApiError;
use crate::generation::GenerationFields;

/// A request for a message. Fields of `/v1/chat/completions` that say how tokens are drawn are taken too.
#[derive(ToSchema)]
#[expect(dead_code, reason = "only described: it is translated, and read then")]
pub(crate) struct MessagesRequest {
    #[serde(flatten)]
    conversation: TokenCountRequest,
    #[serde(flatten)]
    generation: GenerationFields,
    /// Most tokens of the reply.
    #[schema(minimum = 1)]
    max_tokens: usize,
    /// The reply ends before the first of these.
    stop_sequences: Option<Vec<String>>,
}

/// A conversation to count the tokens of.
#[derive(ToSchema)]
#[schema(as = MessageTokenCountRequest)]
#[expect(dead_code, reason = "only described: it is translated, and read then")]
pub(crate) struct TokenCountRequest {
    /// The served model, or none.
    model: Option<String>,
    #[schema(min_items = 1)]
    messages: Vec<GivenMessage>,
    /// What the model is told first: a text, or a list of text blocks.
    system: Option<Value>,
    tools: Option<Vec<GivenTool>>,
    tool_choice: Option<Value>,
}

#[derive(ToSchema)]
#[schema(as = MessageGiven)]
#[expect(dead_code, reason = "only described: it is translated, and read then")]
struct GivenMessage {
    /// user or assistant
    role: String,
    /// A text, or a list of text, thinking, tool_use and tool_result blocks.
    content: Value,
}

#[derive(ToSchema)]
#[schema(as = MessageTool)]
#[expect(dead_code, reason = "only described: it is translated, and read then")]
struct GivenTool {
    name: String,
    description: Option<String>,
    /// A JSON schema.
    #[schema(value_type = Option<Object>)]
    input_schema: Option<Value>,
}

/// Says that `max_tokens` is missing: here, a request has to name its limit.
pub(super) fn check_limit(body: &Body) -> Result<(), ApiError> {
    match body.fields().get("max_tokens") {
        None | Some(Value::Null) => {
            Err(ApiError::field("max_tokens", "max_tokens is missing; accepted: an integer of at least 1"))
        }
        Some(_) => Ok(()),
    }
}

/// The same request in the other words. Fields that both APIs have stay as they are.
pub(super) fn translated(body: &Body) -> Result<Body, ApiError> {
    let mut fields = body.fields().clone();
    let mut messages = Vec::new();
    if let Some(system) = fields.remove("system").filter(|system| !system.is_null()) {
        messages.push(json!({"role": "system", "content": text_of(&system, "system")?}));
    }
    let given = fields.remove("messages").unwrap_or_default();
    let Some(given) = given.as_array().filter(|given| !given.is_empty()) else {
        return Err(ApiError::value("messages", &given, "a list of at least one message"));
    };
    for (index, message) in given.iter().enumerate() {
        add_message(&mut messages, message, index)?;
    }
    fields.insert("messages".into(), messages.into());
    if let Some(stop) = fields.remove("stop_sequences") {
        fields.insert("stop".into(), stop);
    }
    if let Some(tools) = fields.remove("tools").filter(|tools| !tools.is_null()) {
        fields.insert("tools".into(), translated_tools(&tools)?);
    }
    if let Some(format) = output_format(&mut fields)? {
        fields.insert("response_format".into(), format);
    }
    if let Some(choice) = fields.remove("tool_choice").filter(|choice| !choice.is_null()) {
        add_tool_choice(&mut fields, &choice)?;
    }
    Ok(Body::from_fields(fields))
}

fn translated_tools(tools: &Value) -> Result<Value, ApiError> {
    let list = tools.as_array().ok_or_else(|| ApiError::value("tools", tools, "a list of tools"))?;
    let translate = |(index, tool): (usize, &Value)| {
        let name = string(&tool["name"], &format!("tools[{index}].name"))?;
        let mut function = json!({"name": name});
        let same = [("description", "description"), ("input_schema", "parameters"), ("strict", "strict")];
        for (theirs, ours) in same {
            if !tool[theirs].is_null() {
                function[ours] = tool[theirs].clone();
            }
        }
        Ok(json!({"type": "function", "function": function}))
    };
    list.iter().enumerate().map(translate).collect()
}

/// The form of the answer, as a `response_format`. The effort in the same field goes to its own.
fn output_format(fields: &mut Map<String, Value>) -> Result<Option<Value>, ApiError> {
    let config = fields.remove("output_config").unwrap_or_default();
    if let Some(effort) = config.get("effort") {
        fields.insert("reasoning_effort".into(), effort.clone());
    }
    let format = fields.remove("output_format").or(config.get("format").cloned()).unwrap_or_default();
    match format["type"].as_str() {
        _ if format.is_null() => Ok(None),
        Some("json_schema") => {
            let schema = json!({"name": "output", "schema": format["schema"], "strict": true});
            Ok(Some(json!({"type": "json_schema", "json_schema": schema})))
        }
        _ => Err(ApiError::value("output_config.format.type", &format["type"], r#""json_schema""#)),
    }
}

fn add_tool_choice(fields: &mut Map<String, Value>, choice: &Value) -> Result<(), ApiError> {
    let translated = match (choice["type"].as_str(), choice["name"].as_str()) {
        (Some(kind @ ("auto" | "none")), _) => kind.into(),
        (Some("any"), _) => "required".into(),
        (Some("tool"), Some(name)) => json!({"type": "function", "function": {"name": name}}),
        _ => {
            let accepted = r#"the types "auto", "any", "none", and "tool" with a name"#;
            return Err(ApiError::value("tool_choice", choice, accepted));
        }
    };
    fields.insert("tool_choice".into(), translated);
    if choice["disable_parallel_tool_use"] == true {
        fields.insert("parallel_tool_calls".into(), false.into());
    }
    Ok(())
}

/// Adds a message, and before it the tool results that it carries, which are messages of their own there.
fn add_message(messages: &mut Vec<Value>, message: &Value, index: usize) -> Result<(), ApiError> {
    let role = message["role"].as_str().filter(|role| ["user", "assistant", "system"].contains(role));
    let Some(role) = role else {
        let field = format!("messages[{index}].role");
        return Err(ApiError::value(&field, &message["role"], r#""user" or "assistant""#));
    };
    let field = format!("messages[{index}].content");
    let Some(blocks) = message["content"].as_array() else {
        let text = text_of(&message["content"], &field)?;
        messages.push(json!({"role": role, "content": text}));
        return Ok(());
    };
    let mut gathered = Gathered::default();
    for (block_index, block) in blocks.iter().enumerate() {
        gathered.add(block, &format!("{field}[{block_index}]"))?;
    }
    let results = std::mem::take(&mut gathered.results);
    let own = gathered.message(role, results.is_empty());
    messages.extend(results);
    messages.extend(own);
    Ok(())
}

/// The blocks of a message, sorted.
#[derive(Default)]
struct Gathered {
    text: Option<String>,
    thought: String,
    calls: Vec<Value>,
    results: Vec<Value>,
}

impl Gathered {
    fn add(&mut self, block: &Value, field: &str) -> Result<(), ApiError> {
        match block["type"].as_str() {
            Some("text") => {
                let text = string(&block["text"], &format!("{field}.text"))?;
                self.text.get_or_insert_default().push_str(text);
            }
            Some("thinking") => {
                self.thought.push_str(string(&block["thinking"], &format!("{field}.thinking"))?)
            }
            Some("redacted_thinking") => {}
            Some("tool_use") => {
                let name = string(&block["name"], &format!("{field}.name"))?;
                if !block["input"].is_object() {
                    return Err(ApiError::value(&format!("{field}.input"), &block["input"], "an object"));
                }
                let function = json!({"name": name, "arguments": block["input"]});
                self.calls.push(json!({"id": block["id"], "type": "function", "function": function}));
            }
            Some("tool_result") => {
                let content = match &block["content"] {
                    Value::Null => String::new(),
                    content => text_of(content, &format!("{field}.content"))?,
                };
                let id = &block["tool_use_id"];
                self.results.push(json!({"role": "tool", "tool_call_id": id, "content": content}));
            }
            _ => {
                let accepted = "text, thinking, tool_use and tool_result";
                return Err(ApiError::value(&format!("{field}.type"), &block["type"], accepted));
            }
        }
        Ok(())
    }

    /// What is left when the results are taken out; nothing, if it may be and there is nothing.
    fn message(self, role: &str, is_needed: bool) -> Option<Value> {
        let is_empty = self.text.is_none() && self.calls.is_empty() && self.thought.is_empty();
        if is_empty && !is_needed {
            return None;
        }
        let mut message = json!({"role": role, "content": self.text.unwrap_or_default()});
        if !self.calls.is_empty() {
            message["tool_calls"] = self.calls.into();
        }
        if !self.thought.is_empty() {
            message["reasoning_content"] = self.thought.into();
        }
        Some(message)
    }
}

/// A text, or a list of text blocks.
fn text_of(value: &Value, field: &str) -> Result<String, ApiError> {
    match value {
        Value::String(text) => Ok(text.clone()),
        Value::Array(blocks) => {
            let text = |block: &Value| block["text"].as_str().map(str::to_owned);
            let joined: Option<String> = blocks.iter().map(text).collect();
            joined.ok_or_else(|| ApiError::value(field, value, "a string, or a list of text blocks"))
        }
        _ => Err(ApiError::value(field, value, "a string, or a list of text blocks")),
    }
}

fn string<'a>(value: &'a Value, field: &str) -> Result<&'a str, ApiError> {
    value.as_str().ok_or_else(|| ApiError::value(field, value, "a string"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn translate(body: &Value) -> Result<Value, ApiError> {
        let body = Body::parse(body.to_string().as_bytes())?;
        translated(&body).map(|body| Value::Object(body.fields().clone()))
    }

    #[test]
    fn a_tool_loop_is_translated() {
        let body = translate(&json!({
            "model": "m", "max_tokens": 9, "system": [{"type": "text", "text": "Be brief."}],
            "stop_sequences": ["x"],
            "tools": [{"name": "f", "description": "d", "input_schema": {"type": "object"}}],
            "tool_choice": {"type": "auto", "disable_parallel_tool_use": true},
            "messages": [
                {"role": "user", "content": "hi"},
                {"role": "assistant", "content": [
                    {"type": "thinking", "thinking": "hm", "signature": ""},
                    {"type": "text", "text": "Look:"},
                    {"type": "tool_use", "id": "t1", "name": "f", "input": {"a": 1}}]},
                {"role": "user", "content": [
                    {"type": "tool_result", "tool_use_id": "t1", "content": [{"type": "text", "text": "7"}]},
                    {"type": "text", "text": "And?"}]},
                {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1"}]},
            ],
        }))
        .unwrap();
        let function = json!({"name": "f", "description": "d", "parameters": {"type": "object"}});
        let call = json!({"id": "t1", "type": "function", "function": {"name": "f", "arguments": {"a": 1}}});
        let expected = json!({
            "model": "m", "max_tokens": 9, "stop": ["x"], "tool_choice": "auto", "parallel_tool_calls": false,
            "tools": [{"type": "function", "function": function}],
            "messages": [
                {"role": "system", "content": "Be brief."},
                {"role": "user", "content": "hi"},
                {"role": "assistant", "content": "Look:", "reasoning_content": "hm", "tool_calls": [call]},
                {"role": "tool", "tool_call_id": "t1", "content": "7"},
                {"role": "user", "content": "And?"},
                {"role": "tool", "tool_call_id": "t1", "content": ""},
            ],
        });
        assert_eq!(body, expected);
    }

    #[test]
    fn what_cannot_be_translated_is_named() {
        let cases = [
            (json!({}), "messages"),
            (json!({"messages": []}), "messages"),
            (json!({"messages": ["hi"]}), "messages[0].role"),
            (json!({"messages": [{"role": "user"}]}), "messages[0].content"),
            (
                json!({"messages": [{"role": "user", "content": [{"type": "image"}]}]}),
                "messages[0].content[0].type",
            ),
            (json!({"messages": [{"role": "user", "content": "a"}], "system": 3}), "system"),
            (json!({"messages": [{"role": "user", "content": "a"}], "tools": [{}]}), "tools[0].name"),
            (
                json!({"messages": [{"role": "user", "content": "a"}], "tool_choice": {"type": "tool"}}),
                "tool_choice",
            ),
        ];
        for (body, field) in cases {
            assert_eq!(translate(&body).unwrap_err().param.as_deref(), Some(field), "{body}");
        }
    }
}
