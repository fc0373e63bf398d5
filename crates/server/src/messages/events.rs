//! The events of a streamed message.

use forerunner_engine::{Statistics, ToldToken};
use forerunner_text::{ReplyEvent, ToolEvent};
use serde::Serialize;
use serde_json::{Map, Value};
use utoipa::ToSchema;

use super::error::MessagesErrorBody;
use super::types::{Block, Message, MessageLabel, Usage};
use crate::parts::{Ending, call_id};
use crate::session::Step;
use crate::stream::{Frames, Writer};
use crate::telling::TokenOrigin;
use crate::types::StatisticsBlock;

/// What a stream is made of. Each has its type as its name.
#[derive(Serialize, ToSchema)]
#[schema(as = MessageEvent)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(crate) enum Event {
    MessageStart {
        message: Box<Message>,
    },
    ContentBlockStart {
        index: usize,
        content_block: Block,
    },
    ContentBlockDelta {
        index: usize,
        delta: BlockDelta,
    },
    ContentBlockStop {
        index: usize,
    },
    MessageDelta {
        delta: MessageEnd,
        usage: Usage,
        /// The seed that was used.
        seed: u64,
        forerunner: StatisticsBlock,
        #[serde(skip_serializing_if = "Option::is_none")]
        token_origins: Option<Vec<TokenOrigin>>,
    },
    MessageStop,
}

/// What an event adds to a block.
#[derive(Serialize, ToSchema)]
#[schema(as = MessageBlockDelta)]
#[serde(tag = "type")]
pub(crate) enum BlockDelta {
    #[serde(rename = "thinking_delta")]
    Thinking { thinking: String },
    #[serde(rename = "text_delta")]
    Text { text: String },
    #[serde(rename = "input_json_delta")]
    InputJson { partial_json: String },
}

/// How a message ended.
#[derive(Serialize, ToSchema)]
pub(crate) struct MessageEnd {
    stop_reason: &'static str,
    /// The one that it met.
    stop_sequence: Option<String>,
}

/// Writes events. Blocks follow one another: one ends where another begins.
pub(super) struct EventWriter {
    label: MessageLabel,
    started: bool,
    /// The kind of the block that is open.
    open: Option<Kind>,
    /// Blocks begun.
    blocks: usize,
    /// What is told of all tokens so far; it comes with the last event.
    told: Vec<ToldToken>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Thinking,
    Text,
    ToolUse,
}

impl EventWriter {
    pub(super) fn new(label: MessageLabel) -> Self {
        EventWriter { label, started: false, open: None, blocks: 0, told: Vec::new() }
    }

    fn start(&mut self, frames: &mut Frames) {
        if !std::mem::replace(&mut self.started, true) {
            frames.typed(&Event::MessageStart { message: Box::new(self.label.begun()) });
        }
    }

    fn events(&mut self, events: Vec<ReplyEvent>, frames: &mut Frames) {
        for event in events {
            match event {
                ReplyEvent::Thought(thinking) => {
                    self.ensure(Kind::Thinking, || Block::thinking(String::new()), frames);
                    self.delta(BlockDelta::Thinking { thinking }, frames);
                }
                ReplyEvent::Tool(ToolEvent::Content(text)) => {
                    self.ensure(Kind::Text, || Block::Text { text: String::new() }, frames);
                    self.delta(BlockDelta::Text { text }, frames);
                }
                ReplyEvent::Tool(ToolEvent::CallBegin { name, .. }) => {
                    self.close(frames);
                    let input = Value::Object(Map::new());
                    self.ensure(Kind::ToolUse, || Block::ToolUse { id: call_id(), name, input }, frames);
                }
                ReplyEvent::Tool(ToolEvent::ArgumentsDelta { fragment, .. }) => {
                    self.delta(BlockDelta::InputJson { partial_json: fragment }, frames);
                }
                ReplyEvent::Tool(ToolEvent::CallEnd { .. } | ToolEvent::CallBroken { .. }) => {
                    self.close(frames)
                }
            }
        }
    }

    /// Opens a block unless one of its kind is open.
    fn ensure(&mut self, kind: Kind, block: impl FnOnce() -> Block, frames: &mut Frames) {
        if self.open == Some(kind) {
            return;
        }
        self.close(frames);
        frames.typed(&Event::ContentBlockStart { index: self.blocks, content_block: block() });
        self.open = Some(kind);
        self.blocks += 1;
    }

    fn delta(&self, delta: BlockDelta, frames: &mut Frames) {
        frames.typed(&Event::ContentBlockDelta { index: self.blocks.saturating_sub(1), delta });
    }

    fn close(&mut self, frames: &mut Frames) {
        if self.open.take().is_some() {
            frames.typed(&Event::ContentBlockStop { index: self.blocks - 1 });
        }
    }

    fn finish(&mut self, ending: Ending, statistics: &Statistics, frames: &mut Frames) {
        self.close(frames);
        let (stop_reason, stop_sequence) = self.label.stop_reason(ending);
        frames.typed(&Event::MessageDelta {
            delta: MessageEnd { stop_reason, stop_sequence },
            usage: Usage::from(statistics),
            seed: self.label.seed,
            forerunner: StatisticsBlock::of_one(statistics),
            token_origins: self.label.origins(&self.told),
        });
    }
}

impl Writer for EventWriter {
    fn step(&mut self, _choice: usize, step: Step, frames: &mut Frames) {
        match step {
            Step::More { events, told, .. } => {
                self.start(frames);
                self.told.extend(told);
                self.events(events, frames);
            }
            Step::Finished { events, ending, statistics } => {
                self.start(frames);
                self.events(events, frames);
                self.finish(ending, &statistics, frames);
            }
            Step::Failed(error) => frames.typed(&MessagesErrorBody::from(&error)),
        }
    }

    fn end(&mut self, frames: &mut Frames) {
        frames.typed(&Event::MessageStop);
    }
}
