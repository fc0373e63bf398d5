//! A message as Anthropic's clients read it.

use forerunner_engine::{Statistics, ToldToken};
use serde::Serialize;
use serde_json::{Map, Value};
use utoipa::ToSchema;

use crate::generation::Generation;
use crate::parts::{Ending, Parts, WholeReply};
use crate::random::random_id;
use crate::telling::{self, Asked, TokenOrigin};
use crate::types::StatisticsBlock;

/// What is known of a message before its first token.
#[derive(Debug, Clone)]
pub(super) struct MessageLabel {
    pub(super) id: String,
    pub(super) model: String,
    pub(super) prompt_tokens: usize,
    stop_sequences: Vec<String>,
    pub(super) seed: u64,
    asked: Asked,
}

/// A reply, or its beginning.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = AssistantMessage)]
pub(crate) struct Message {
    id: String,
    #[serde(rename = "type")]
    kind: &'static str,
    role: &'static str,
    model: String,
    content: Vec<Block>,
    /// Null until it has ended.
    stop_reason: Option<&'static str>,
    /// The one that it met.
    stop_sequence: Option<String>,
    usage: Usage,
    /// The seed that was used: sent again with the same request, it draws the same reply.
    #[serde(skip_serializing_if = "Option::is_none")]
    seed: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    forerunner: Option<StatisticsBlock>,
    #[serde(skip_serializing_if = "Option::is_none")]
    token_origins: Option<Vec<TokenOrigin>>,
}

/// A part of a message.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
#[schema(as = MessageBlock)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(crate) enum Block {
    Thinking {
        thinking: String,
        /// Always empty.
        signature: &'static str,
    },
    Text {
        text: String,
    },
    ToolUse {
        id: String,
        name: String,
        #[schema(value_type = Object)]
        input: Value,
    },
}

/// Tokens as a bill would list them; those from the prompt cache are listed apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = MessageUsage)]
pub(crate) struct Usage {
    input_tokens: usize,
    cache_creation_input_tokens: usize,
    cache_read_input_tokens: usize,
    output_tokens: usize,
}

/// How many tokens a conversation has as a prompt.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = MessageTokenCount)]
pub(crate) struct TokenCount {
    pub(super) input_tokens: usize,
}

impl MessageLabel {
    pub(super) fn new(model: &str, generation: &Generation) -> Self {
        let (seed, prompt_tokens) = (generation.request.rule.seed, generation.request.prompt.len());
        let stop_sequences = generation.request.stop.strings.clone();
        let asked = generation.format.asked;
        let (id, model) = (random_id("msg_"), model.to_owned());
        MessageLabel { id, model, prompt_tokens, stop_sequences, seed, asked }
    }

    /// Why a message ended, in this API's words, and the stop sequence that it met.
    pub(super) fn stop_reason(&self, ending: Ending) -> (&'static str, Option<String>) {
        match ending {
            Ending::Stop => ("end_turn", None),
            Ending::StopString(index) => ("stop_sequence", self.stop_sequences.get(index).cloned()),
            Ending::Length => ("max_tokens", None),
            Ending::ToolCalls => ("tool_use", None),
        }
    }

    /// The message before its first token.
    pub(super) fn begun(&self) -> Message {
        let usage = Usage {
            input_tokens: self.prompt_tokens,
            cache_creation_input_tokens: 0,
            cache_read_input_tokens: 0,
            output_tokens: 0,
        };
        Message {
            id: self.id.clone(),
            kind: "message",
            role: "assistant",
            model: self.model.clone(),
            content: Vec::new(),
            stop_reason: None,
            stop_sequence: None,
            usage,
            seed: None,
            forerunner: None,
            token_origins: None,
        }
    }

    /// Where these tokens come from, if that was asked for.
    pub(super) fn origins(&self, told: &[ToldToken]) -> Option<Vec<TokenOrigin>> {
        telling::origins(self.asked, told)
    }

    /// The whole message.
    pub(super) fn whole(&self, reply: WholeReply) -> Message {
        let (stop_reason, stop_sequence) = self.stop_reason(reply.ending);
        Message {
            content: blocks(reply.parts),
            stop_reason: Some(stop_reason),
            stop_sequence,
            usage: Usage::from(&reply.statistics),
            seed: Some(self.seed),
            forerunner: Some(StatisticsBlock::of_one(&reply.statistics)),
            token_origins: self.origins(&reply.told),
            ..self.begun()
        }
    }
}

impl Block {
    /// A thought.
    pub(super) fn thinking(thinking: String) -> Self {
        Block::Thinking { thinking, signature: "" }
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

fn blocks(parts: Parts) -> Vec<Block> {
    let mut blocks = Vec::new();
    if !parts.thought.is_empty() {
        blocks.push(Block::thinking(parts.thought));
    }
    if !parts.content.is_empty() {
        blocks.push(Block::Text { text: parts.content });
    }
    for call in parts.calls {
        let input = serde_json::from_str(&call.arguments).unwrap_or(Value::Object(Map::new()));
        blocks.push(Block::ToolUse { id: call.id, name: call.name, input });
    }
    blocks
}
