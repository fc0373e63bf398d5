//! A response as OpenAI clients read it.

use forerunner_engine::Statistics;
use serde_json::{Map, Value, json};

use super::request::Asked;
use crate::generation::Generation;
use crate::parts::{Call, Ending, Parts};
use crate::random::random_id;
use crate::service::unix_seconds;
use crate::types::StatisticsBlock;

/// What of a response does not change while it is made.
#[derive(Debug, Clone)]
pub(super) struct ResponseLabel {
    fields: Map<String, Value>,
    seed: u64,
}

impl ResponseLabel {
    pub(super) fn new(model: &str, generation: &Generation, asked: &Asked) -> Self {
        let rule = &generation.request.rule;
        let base = json!({
            "id": random_id("resp_"), "object": "response", "created_at": unix_seconds(), "model": model,
            "instructions": asked.instructions, "previous_response_id": asked.previous, "store": asked.store,
            "temperature": rule.temperature, "top_p": rule.top_p, "max_output_tokens": null, "tools": [],
            "tool_choice": "auto", "parallel_tool_calls": true, "truncation": "disabled",
            "reasoning": {"effort": null, "summary": null}, "text": {"format": {"type": "text"}},
        });
        let mut fields = base.as_object().cloned().unwrap_or_default();
        let said = asked.echoed.iter().filter(|(_, value)| !value.is_null());
        fields.extend(said.map(|(name, value)| (name.clone(), value.clone())));
        ResponseLabel { fields, seed: rule.seed }
    }

    /// The response while it is made.
    pub(super) fn in_progress(&self) -> Value {
        self.response("in_progress", Vec::new())
    }

    /// The response once it has ended.
    pub(super) fn ended(&self, output: Vec<Value>, ending: Ending, statistics: &Statistics) -> Value {
        let is_cut = ending == Ending::Length;
        let mut response = self.response(if is_cut { "incomplete" } else { "completed" }, output);
        if is_cut {
            response["incomplete_details"] = json!({"reason": "max_output_tokens"});
        }
        response["usage"] = json!({
            "input_tokens": statistics.prompt_tokens,
            "input_tokens_details": {"cached_tokens": statistics.cached_tokens},
            "output_tokens": statistics.reply_tokens,
            "output_tokens_details": {},
            "total_tokens": statistics.prompt_tokens + statistics.reply_tokens,
        });
        response["seed"] = self.seed.into();
        response["forerunner"] = json!(StatisticsBlock::of_choices(std::slice::from_ref(statistics)));
        response
    }

    /// The response when its making failed.
    pub(super) fn failed(&self, message: &str) -> Value {
        let mut response = self.response("failed", Vec::new());
        response["error"] = json!({"code": "server_error", "message": message});
        response
    }

    fn response(&self, status: &str, output: Vec<Value>) -> Value {
        let mut response = Value::Object(self.fields.clone());
        response["status"] = status.into();
        response["output"] = output.into();
        response["error"] = Value::Null;
        response["incomplete_details"] = Value::Null;
        response["usage"] = Value::Null;
        response
    }
}

/// All items of a whole reply.
pub(super) fn output_items(parts: &Parts) -> Vec<Value> {
    let mut items = Vec::new();
    if !parts.thought.is_empty() {
        items.push(reasoning_item(&random_id("rs_"), &parts.thought));
    }
    if !parts.content.is_empty() || parts.calls.is_empty() {
        items.push(message_item(&random_id("msg_"), &parts.content));
    }
    items.extend(parts.calls.iter().map(|call| call_item(&random_id("fc_"), call)));
    items
}

/// A thought.
pub(super) fn reasoning_item(id: &str, text: &str) -> Value {
    let content = [json!({"type": "reasoning_text", "text": text})];
    json!({"type": "reasoning", "id": id, "summary": [], "content": content, "status": "completed"})
}

/// A message.
pub(super) fn message_item(id: &str, text: &str) -> Value {
    let content = [text_part(text)];
    json!({"type": "message", "id": id, "role": "assistant", "status": "completed", "content": content})
}

/// The text of a message.
pub(super) fn text_part(text: &str) -> Value {
    json!({"type": "output_text", "text": text, "annotations": [], "logprobs": []})
}

/// A tool call.
pub(super) fn call_item(id: &str, call: &Call) -> Value {
    json!({
        "type": "function_call", "id": id, "call_id": call.id, "name": call.name, "arguments": call.arguments,
        "status": "completed",
    })
}
