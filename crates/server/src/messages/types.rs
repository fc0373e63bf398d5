//! A message as Anthropic's clients read it.

use forerunner_engine::Statistics;
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::generation::Generation;
use crate::parts::{Ending, Parts, WholeReply};
use crate::random::random_id;
use crate::types::StatisticsBlock;

/// What is known of a message before its first token.
#[derive(Debug, Clone)]
pub(super) struct MessageLabel {
    pub(super) id: String,
    pub(super) model: String,
    pub(super) prompt_tokens: usize,
    seed: u64,
}

/// Tokens as a bill would list them; those from the prompt cache are listed apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(super) struct Usage {
    pub(super) input_tokens: usize,
    pub(super) cache_creation_input_tokens: usize,
    pub(super) cache_read_input_tokens: usize,
    pub(super) output_tokens: usize,
}

impl MessageLabel {
    pub(super) fn new(model: &str, generation: &Generation, prompt_tokens: usize) -> Self {
        let seed = generation.request.rule.seed;
        MessageLabel { id: random_id("msg_"), model: model.to_owned(), prompt_tokens, seed }
    }

    /// The message with this content. Its end is not known yet.
    pub(super) fn message(&self, content: Vec<Value>, usage: Usage) -> Value {
        json!({
            "id": self.id, "type": "message", "role": "assistant", "model": self.model, "content": content,
            "stop_reason": null, "stop_sequence": null, "usage": usage,
        })
    }

    /// What our own replies say besides.
    pub(super) fn add_own(&self, message: &mut Value, statistics: &Statistics) {
        message["seed"] = self.seed.into();
        message["forerunner"] = json!(StatisticsBlock::of_choices(std::slice::from_ref(statistics)));
    }
}

impl Usage {
    /// Before the first token.
    pub(super) fn at_start(prompt_tokens: usize) -> Self {
        Usage {
            input_tokens: prompt_tokens,
            cache_creation_input_tokens: 0,
            cache_read_input_tokens: 0,
            output_tokens: 0,
        }
    }
}

impl From<&Statistics> for Usage {
    fn from(statistics: &Statistics) -> Self {
        Usage {
            input_tokens: statistics.prompt_tokens - statistics.cached_tokens,
            cache_creation_input_tokens: 0,
            cache_read_input_tokens: statistics.cached_tokens,
            output_tokens: statistics.reply_tokens,
        }
    }
}

/// A whole message.
pub(super) fn whole(label: &MessageLabel, reply: WholeReply) -> Value {
    let usage = Usage::from(&reply.statistics);
    let mut message = label.message(content(reply.parts), usage);
    message["stop_reason"] = stop_reason(reply.ending).into();
    label.add_own(&mut message, &reply.statistics);
    message
}

fn content(parts: Parts) -> Vec<Value> {
    let mut blocks = Vec::new();
    if !parts.thought.is_empty() {
        blocks.push(json!({"type": "thinking", "thinking": parts.thought, "signature": ""}));
    }
    if !parts.content.is_empty() {
        blocks.push(json!({"type": "text", "text": parts.content}));
    }
    for call in parts.calls {
        let input = serde_json::from_str(&call.arguments).unwrap_or(Value::Object(Map::new()));
        blocks.push(json!({"type": "tool_use", "id": call.id, "name": call.name, "input": input}));
    }
    blocks
}

/// Why a message ended, in this API's words. A stop sequence is not told from the model's own end.
pub(super) fn stop_reason(ending: Ending) -> &'static str {
    match ending {
        Ending::Stop => "end_turn",
        Ending::Length => "max_tokens",
        Ending::ToolCalls => "tool_use",
    }
}
