//! The events of a streamed response.

use forerunner_engine::Statistics;
use forerunner_text::{ReplyEvent, ToolEvent};
use serde_json::{Value, json};

use super::Keeper;
use super::output::{ResponseLabel, call_item, message_item, reasoning_item, text_part};
use crate::parts::{Call, Ending, Parts, call_id};
use crate::random::random_id;
use crate::session::Step;
use crate::stream::{Frames, Writer};

/// Writes events. Items follow one another: one is done where another begins.
pub(super) struct EventWriter {
    label: ResponseLabel,
    keeper: Option<Keeper>,
    /// The whole reply so far, for the next turn.
    parts: Parts,
    started: bool,
    sequence: u64,
    open: Option<Item>,
    done: Vec<Value>,
}

/// An item under way.
struct Item {
    id: String,
    kind: Kind,
    /// Its text, or its call's arguments.
    text: String,
}

enum Kind {
    Reasoning,
    Message,
    Call { call_id: String, name: String },
}

impl EventWriter {
    pub(super) fn new(label: ResponseLabel, keeper: Keeper) -> Self {
        let (parts, done) = (Parts::default(), Vec::new());
        EventWriter { label, keeper: Some(keeper), parts, started: false, sequence: 0, open: None, done }
    }

    fn start(&mut self, frames: &mut Frames) {
        if !std::mem::replace(&mut self.started, true) {
            for kind in ["response.created", "response.in_progress"] {
                self.event(json!({"type": kind, "response": self.label.in_progress()}), frames);
            }
        }
    }

    fn events(&mut self, events: Vec<ReplyEvent>, frames: &mut Frames) {
        for event in events {
            match event {
                ReplyEvent::Thought(text) => self.text(Kind::Reasoning, &text, frames),
                ReplyEvent::Tool(ToolEvent::Content(text)) => self.text(Kind::Message, &text, frames),
                ReplyEvent::Tool(ToolEvent::CallBegin { name, .. }) => {
                    self.open(Kind::Call { call_id: call_id(), name }, frames);
                }
                ReplyEvent::Tool(ToolEvent::ArgumentsDelta { fragment, .. }) => self.add(&fragment, frames),
                ReplyEvent::Tool(ToolEvent::CallEnd { .. }) => self.close(frames),
                // What was told of it stays told, but is no item of the whole.
                ReplyEvent::Tool(ToolEvent::CallBroken { .. }) => self.open = None,
            }
        }
    }

    fn text(&mut self, kind: Kind, text: &str, frames: &mut Frames) {
        let is_open = |open: &Item| std::mem::discriminant(&open.kind) == std::mem::discriminant(&kind);
        if !self.open.as_ref().is_some_and(is_open) {
            self.open(kind, frames);
        }
        self.add(text, frames);
    }

    /// Begins an item.
    fn open(&mut self, kind: Kind, frames: &mut Frames) {
        self.close(frames);
        let item = Item { id: random_id(kind.id_prefix()), kind, text: String::new() };
        let mut added = item.whole();
        added["status"] = "in_progress".into();
        if !matches!(item.kind, Kind::Call { .. }) {
            added["content"] = json!([]);
        }
        self.event(json!({"type": "response.output_item.added", "item": added}), frames);
        if let Kind::Message = item.kind {
            let part = text_part("");
            self.event(item.about("response.content_part.added", "part", part), frames);
        }
        self.open = Some(item);
    }

    /// More of the open item.
    fn add(&mut self, text: &str, frames: &mut Frames) {
        let Some(item) = &mut self.open else { return };
        item.text.push_str(text);
        let event = item.about(&format!("{}.delta", item.kind.event()), "delta", text.into());
        self.event(event, frames);
    }

    /// Ends the open item.
    fn close(&mut self, frames: &mut Frames) {
        let Some(item) = self.open.take() else { return };
        let field = if matches!(item.kind, Kind::Call { .. }) { "arguments" } else { "text" };
        let text = item.text.as_str();
        self.event(item.about(&format!("{}.done", item.kind.event()), field, text.into()), frames);
        if let Kind::Message = item.kind {
            self.event(item.about("response.content_part.done", "part", text_part(text)), frames);
        }
        self.event(json!({"type": "response.output_item.done", "item": item.whole()}), frames);
        self.done.push(item.whole());
    }

    fn finish(&mut self, ending: Ending, statistics: &Statistics, frames: &mut Frames) {
        self.close(frames);
        let response = self.label.ended(std::mem::take(&mut self.done), ending, statistics);
        if let Some(keeper) = self.keeper.take() {
            keeper.keep(&response, std::mem::take(&mut self.parts));
        }
        let kind = if ending == Ending::Length { "response.incomplete" } else { "response.completed" };
        self.event(json!({"type": kind, "response": response}), frames);
    }

    /// Numbers an event, names it by its type, and says which item it is about.
    fn event(&mut self, mut event: Value, frames: &mut Frames) {
        event["sequence_number"] = self.sequence.into();
        if event.get("response").is_none() {
            event["output_index"] = self.done.len().into();
        }
        self.sequence += 1;
        frames.named(event["type"].as_str().unwrap_or_default(), &event);
    }
}

impl Kind {
    fn id_prefix(&self) -> &'static str {
        match self {
            Kind::Reasoning => "rs_",
            Kind::Message => "msg_",
            Kind::Call { .. } => "fc_",
        }
    }

    fn event(&self) -> &'static str {
        match self {
            Kind::Reasoning => "response.reasoning_text",
            Kind::Message => "response.output_text",
            Kind::Call { .. } => "response.function_call_arguments",
        }
    }
}

impl Item {
    /// As it is so far.
    fn whole(&self) -> Value {
        match &self.kind {
            Kind::Reasoning => reasoning_item(&self.id, &self.text),
            Kind::Message => message_item(&self.id, &self.text),
            Kind::Call { call_id, name } => {
                let call = Call { id: call_id.clone(), name: name.clone(), arguments: self.text.clone() };
                call_item(&self.id, &call)
            }
        }
    }

    /// An event about a part of it.
    fn about(&self, kind: &str, field: &str, value: Value) -> Value {
        let mut event = json!({"type": kind, "item_id": self.id});
        event[field] = value;
        if !matches!(self.kind, Kind::Call { .. }) {
            event["content_index"] = 0.into();
        }
        if matches!(self.kind, Kind::Message) && field != "part" {
            event["logprobs"] = json!([]);
        }
        event
    }
}

impl Writer for EventWriter {
    fn step(&mut self, _choice: usize, step: Step, frames: &mut Frames) {
        match step {
            Step::More { events, .. } => {
                self.start(frames);
                self.parts.add(events.clone());
                self.events(events, frames);
            }
            Step::Finished { events, ending, statistics } => {
                self.start(frames);
                self.parts.add(events.clone());
                self.events(events, frames);
                self.finish(ending, &statistics, frames);
            }
            Step::Failed(error) => {
                self.start(frames);
                let response = self.label.failed(&error.message);
                self.event(json!({"type": "response.failed", "response": response}), frames);
            }
        }
    }

    fn end(&mut self, _frames: &mut Frames) {}
}
