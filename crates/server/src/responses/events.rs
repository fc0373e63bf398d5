//! The events of a streamed response.

use forerunner_engine::{Statistics, ToldToken};
use forerunner_text::{ReplyEvent, ToolEvent};
use serde::Serialize;
use utoipa::ToSchema;

use super::Keeper;
use super::output::{Item, Part, ResponseLabel, ResponseObject};
use crate::parts::{Call, Ending, Parts, call_id};
use crate::random::random_id;
use crate::session::Step;
use crate::stream::{Frames, Writer};
use crate::telling::TokenEntry;

/// What a stream is made of. Each has its type as its name.
#[derive(Serialize, ToSchema)]
#[schema(as = ResponseEvent)]
pub(crate) struct Event {
    #[serde(flatten)]
    body: EventBody,
    /// Counts from 0.
    sequence_number: u64,
    /// The item that it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    output_index: Option<usize>,
}

#[derive(Serialize, ToSchema)]
#[schema(as = ResponseEventBody)]
#[serde(tag = "type")]
enum EventBody {
    #[serde(rename = "response.created")]
    Created { response: Box<ResponseObject> },
    #[serde(rename = "response.in_progress")]
    InProgress { response: Box<ResponseObject> },
    #[serde(rename = "response.output_item.added")]
    ItemAdded { item: Item },
    #[serde(rename = "response.content_part.added")]
    PartAdded { item_id: String, content_index: usize, part: Part },
    #[serde(rename = "response.reasoning_text.delta")]
    ReasoningDelta { item_id: String, content_index: usize, delta: String },
    #[serde(rename = "response.reasoning_text.done")]
    ReasoningDone { item_id: String, content_index: usize, text: String },
    #[serde(rename = "response.output_text.delta")]
    TextDelta { item_id: String, content_index: usize, delta: String, logprobs: Vec<TokenEntry> },
    #[serde(rename = "response.output_text.done")]
    TextDone { item_id: String, content_index: usize, text: String, logprobs: Vec<TokenEntry> },
    #[serde(rename = "response.function_call_arguments.delta")]
    ArgumentsDelta { item_id: String, delta: String },
    #[serde(rename = "response.function_call_arguments.done")]
    ArgumentsDone { item_id: String, arguments: String },
    #[serde(rename = "response.content_part.done")]
    PartDone { item_id: String, content_index: usize, part: Part },
    #[serde(rename = "response.output_item.done")]
    ItemDone { item: Item },
    #[serde(rename = "response.completed")]
    Completed { response: Box<ResponseObject> },
    #[serde(rename = "response.incomplete")]
    Incomplete { response: Box<ResponseObject> },
    #[serde(rename = "response.failed")]
    Failed { response: Box<ResponseObject> },
}

/// Writes events. Items follow one another: one is done where another begins.
pub(super) struct EventWriter {
    label: ResponseLabel,
    keeper: Option<Keeper>,
    /// The whole reply so far, for the next turn.
    parts: Parts,
    started: bool,
    sequence: u64,
    open: Option<OpenItem>,
    done: Vec<Item>,
    /// What is told of all tokens so far.
    told: Vec<ToldToken>,
    /// Log-probabilities for the next piece of text.
    logprobs: Vec<TokenEntry>,
}

/// An item under way.
struct OpenItem {
    id: String,
    kind: Kind,
    /// Its text, or its call's arguments.
    text: String,
    /// Of its tokens so far, if it is a message.
    logprobs: Vec<TokenEntry>,
}

#[derive(PartialEq, Eq)]
enum Kind {
    Reasoning,
    Message,
    Call { call_id: String, name: String },
}

impl EventWriter {
    pub(super) fn new(label: ResponseLabel, keeper: Keeper) -> Self {
        EventWriter {
            label,
            keeper: Some(keeper),
            parts: Parts::default(),
            started: false,
            sequence: 0,
            open: None,
            done: Vec::new(),
            told: Vec::new(),
            logprobs: Vec::new(),
        }
    }

    fn start(&mut self, frames: &mut Frames) {
        if !std::mem::replace(&mut self.started, true) {
            let response = Box::new(self.label.in_progress());
            self.event(EventBody::Created { response: response.clone() }, frames);
            self.event(EventBody::InProgress { response }, frames);
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
        if self.open.as_ref().is_none_or(|open| open.kind != kind) {
            self.open(kind, frames);
        }
        self.add(text, frames);
    }

    /// Begins an item.
    fn open(&mut self, kind: Kind, frames: &mut Frames) {
        self.close(frames);
        let item =
            OpenItem { id: random_id(kind.id_prefix()), kind, text: String::new(), logprobs: Vec::new() };
        self.event(EventBody::ItemAdded { item: item.whole().begun() }, frames);
        if item.kind == Kind::Message {
            let part = Part::output_text("", Vec::new());
            self.event(EventBody::PartAdded { item_id: item.id.clone(), content_index: 0, part }, frames);
        }
        self.open = Some(item);
    }

    /// More of the open item.
    fn add(&mut self, text: &str, frames: &mut Frames) {
        let Some(item) = &mut self.open else { return };
        item.text.push_str(text);
        let event = item.delta(text, &mut self.logprobs);
        self.event(event, frames);
    }

    /// Ends the open item.
    fn close(&mut self, frames: &mut Frames) {
        let Some(mut item) = self.open.take() else { return };
        if item.kind == Kind::Message {
            item.logprobs.append(&mut self.logprobs);
        }
        self.event(item.text_done(), frames);
        if item.kind == Kind::Message {
            let part = Part::output_text(&item.text, item.logprobs.clone());
            self.event(EventBody::PartDone { item_id: item.id.clone(), content_index: 0, part }, frames);
        }
        self.event(EventBody::ItemDone { item: item.whole() }, frames);
        self.done.push(item.whole());
    }

    fn finish(&mut self, ending: Ending, statistics: &Statistics, frames: &mut Frames) {
        self.close(frames);
        let response = self.label.ended(std::mem::take(&mut self.done), ending, statistics, &self.told);
        if let Some(keeper) = self.keeper.take() {
            keeper.keep(&response, std::mem::take(&mut self.parts));
        }
        let response = Box::new(response);
        let event = match ending {
            Ending::Length => EventBody::Incomplete { response },
            Ending::Stop | Ending::StopString(_) | Ending::ToolCalls => EventBody::Completed { response },
        };
        self.event(event, frames);
    }

    /// Numbers an event, and says which item it is about.
    fn event(&mut self, body: EventBody, frames: &mut Frames) {
        let output_index = (!body.is_about_all()).then_some(self.done.len());
        frames.typed(&Event { body, sequence_number: self.sequence, output_index });
        self.sequence += 1;
    }
}

impl EventBody {
    /// Whether it is about the response and not about an item.
    fn is_about_all(&self) -> bool {
        use EventBody::{Completed, Created, Failed, InProgress, Incomplete};
        matches!(
            self,
            Created { .. } | InProgress { .. } | Completed { .. } | Incomplete { .. } | Failed { .. }
        )
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
}

impl OpenItem {
    /// As it is so far.
    fn whole(&self) -> Item {
        match &self.kind {
            Kind::Reasoning => Item::reasoning(&self.id, &self.text),
            Kind::Message => Item::message(&self.id, &self.text, self.logprobs.clone()),
            Kind::Call { call_id, name } => {
                let call = Call { id: call_id.clone(), name: name.clone(), arguments: self.text.clone() };
                Item::call(&self.id, &call)
            }
        }
    }

    /// More of it. A message takes the log-probabilities that have come.
    fn delta(&mut self, text: &str, logprobs: &mut Vec<TokenEntry>) -> EventBody {
        let (item_id, delta, content_index) = (self.id.clone(), text.to_owned(), 0);
        match self.kind {
            Kind::Reasoning => EventBody::ReasoningDelta { item_id, content_index, delta },
            Kind::Message => {
                let logprobs = std::mem::take(logprobs);
                self.logprobs.extend_from_slice(&logprobs);
                EventBody::TextDelta { item_id, content_index, delta, logprobs }
            }
            Kind::Call { .. } => EventBody::ArgumentsDelta { item_id, delta },
        }
    }

    /// The end of its text.
    fn text_done(&self) -> EventBody {
        let (item_id, text, content_index) = (self.id.clone(), self.text.clone(), 0);
        match self.kind {
            Kind::Reasoning => EventBody::ReasoningDone { item_id, content_index, text },
            Kind::Message => {
                EventBody::TextDone { item_id, content_index, text, logprobs: self.logprobs.clone() }
            }
            Kind::Call { .. } => EventBody::ArgumentsDone { item_id, arguments: text },
        }
    }
}

impl Writer for EventWriter {
    fn step(&mut self, _choice: usize, step: Step, frames: &mut Frames) {
        match step {
            Step::More { events, told, .. } => {
                self.start(frames);
                self.logprobs.extend(self.label.logprobs(&told));
                self.told.extend(told);
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
                let response = Box::new(self.label.failed(&error));
                self.event(EventBody::Failed { response }, frames);
            }
        }
    }

    fn end(&mut self, _frames: &mut Frames) {}
}
