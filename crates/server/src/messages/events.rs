//! The events of a streamed message.

use forerunner_engine::Statistics;
use forerunner_text::{ReplyEvent, ToolEvent};
use serde_json::{Value, json};

use super::error::envelope;
use super::types::{MessageLabel, Usage, stop_reason};
use crate::parts::{Ending, call_id};
use crate::session::Step;
use crate::stream::{Frames, Writer};

/// Writes events. Blocks follow one another: one ends where another begins.
pub(super) struct EventWriter {
    label: MessageLabel,
    started: bool,
    /// The kind of the block that is open.
    open: Option<Block>,
    /// Blocks begun.
    blocks: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Block {
    Thinking,
    Text,
    ToolUse,
}

impl EventWriter {
    pub(super) fn new(label: MessageLabel) -> Self {
        EventWriter { label, started: false, open: None, blocks: 0 }
    }

    fn start(&mut self, frames: &mut Frames) {
        if !std::mem::replace(&mut self.started, true) {
            let message = self.label.message(Vec::new(), Usage::at_start(self.label.prompt_tokens));
            event(frames, json!({"type": "message_start", "message": message}));
        }
    }

    fn events(&mut self, events: Vec<ReplyEvent>, frames: &mut Frames) {
        for reply_event in events {
            match reply_event {
                ReplyEvent::Thought(text) => {
                    self.ensure(
                        Block::Thinking,
                        json!({"type": "thinking", "thinking": "", "signature": ""}),
                        frames,
                    );
                    self.delta(json!({"type": "thinking_delta", "thinking": text}), frames);
                }
                ReplyEvent::Tool(ToolEvent::Content(text)) => {
                    self.ensure(Block::Text, json!({"type": "text", "text": ""}), frames);
                    self.delta(json!({"type": "text_delta", "text": text}), frames);
                }
                ReplyEvent::Tool(ToolEvent::CallBegin { name, .. }) => {
                    self.close(frames);
                    let block = json!({"type": "tool_use", "id": call_id(), "name": name, "input": {}});
                    self.ensure(Block::ToolUse, block, frames);
                }
                ReplyEvent::Tool(ToolEvent::ArgumentsDelta { fragment, .. }) => {
                    self.delta(json!({"type": "input_json_delta", "partial_json": fragment}), frames);
                }
                ReplyEvent::Tool(ToolEvent::CallEnd { .. } | ToolEvent::CallBroken { .. }) => {
                    self.close(frames)
                }
            }
        }
    }

    /// Opens a block unless one of its kind is open.
    fn ensure(&mut self, kind: Block, block: Value, frames: &mut Frames) {
        if self.open == Some(kind) {
            return;
        }
        self.close(frames);
        event(frames, json!({"type": "content_block_start", "index": self.blocks, "content_block": block}));
        self.open = Some(kind);
        self.blocks += 1;
    }

    fn delta(&self, delta: Value, frames: &mut Frames) {
        let index = self.blocks.saturating_sub(1);
        event(frames, json!({"type": "content_block_delta", "index": index, "delta": delta}));
    }

    fn close(&mut self, frames: &mut Frames) {
        if self.open.take().is_some() {
            event(frames, json!({"type": "content_block_stop", "index": self.blocks - 1}));
        }
    }

    fn finish(&mut self, ending: Ending, statistics: &Statistics, frames: &mut Frames) {
        self.close(frames);
        let mut last = json!({
            "type": "message_delta",
            "delta": {"stop_reason": stop_reason(ending), "stop_sequence": null},
            "usage": Usage::from(statistics),
        });
        self.label.add_own(&mut last, statistics);
        event(frames, last);
    }
}

impl Writer for EventWriter {
    fn step(&mut self, _choice: usize, step: Step, frames: &mut Frames) {
        match step {
            Step::More { events, .. } => {
                self.start(frames);
                self.events(events, frames);
            }
            Step::Finished { events, ending, statistics } => {
                self.start(frames);
                self.events(events, frames);
                self.finish(ending, &statistics, frames);
            }
            Step::Failed(error) => event(frames, envelope(&error)),
        }
    }

    fn end(&mut self, frames: &mut Frames) {
        event(frames, json!({"type": "message_stop"}));
    }
}

/// An event is named by its type.
fn event(frames: &mut Frames, data: Value) {
    frames.named(data["type"].as_str().unwrap_or_default(), &data);
}
