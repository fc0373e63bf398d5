//! Tool calls in a reply: from the model's call lists to names and JSON arguments, while the text streams.

mod block;
mod calls;
mod ending;
mod escapes;
mod json;
mod literal;
mod scanner;
mod text;

use serde_json::Value;

use crate::marks::{Marks, Stretch};
use block::{Block, Tags};
pub(crate) use ending::is_name;

/// What a reply turns out to be, piece by piece.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToolEvent {
    /// Text for the reader.
    Content(String),
    /// A call begins. Its arguments follow, at least one piece of them, before anything else.
    CallBegin {
        /// Which call of the reply, from 0.
        index: usize,
        /// The function.
        name: String,
    },
    /// The next piece of the call's arguments. All pieces of a call, joined, are one JSON object.
    ArgumentsDelta {
        /// Which call.
        index: usize,
        /// A piece of JSON, which may end anywhere.
        fragment: String,
    },
    /// The call is complete.
    CallEnd {
        /// Which call.
        index: usize,
    },
    /// A call whose long argument was already on its way turned out to be no call, most often because the reply was
    /// cut. Its arguments are no complete JSON, so that no client runs half a call.
    CallBroken {
        /// Which call.
        index: usize,
        /// The call as the model wrote it, as far as its arguments have been given out. What comes after it is
        /// [`ToolEvent::Content`].
        raw: String,
    },
}

/// A complete call.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolCall {
    /// The function.
    pub name: String,
    /// A JSON object, with the arguments in the model's order. Its compact text is what a stream's pieces join to.
    pub arguments: Value,
}

/// A whole reply: what is to be read, and what is to be called.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ParsedReply {
    /// All text that is not a call.
    pub content: String,
    /// The calls, in order.
    pub calls: Vec<ToolCall>,
}

/// Finds the calls in a text that arrives in pieces.
///
/// Calls stand between `<|tool_call_start|>` and `<|tool_call_end|>`, as a list of calls with keyword arguments in
/// Python's notation: `[name(a='text', b=[1, None], c={"d": true}), other()]`. JSON in their place is
/// read too, as is JSON between `<tool_call>` and `</tool_call>`. What cannot be read is content, as it stands and without
/// the marks; nothing is an error.
///
/// Events, joined, depend on the characters alone and not on how they are cut into pieces. Content is never held back
/// but for what may become a mark; a call is held back until it is complete, but for a long text in it: that is given out
/// while it arrives.
///
/// Texts need not be escaped, because chat templates write earlier calls without escapes and models learn from that: a
/// quote is taken for an apostrophe where no argument can end. What a template cannot write so that it reads the same
/// again: a text with a backslash that makes an escape (`\n` as two characters), with a quote before what looks like the
/// next argument or the end of the call (`', b=`), with quotes at its start that make three with the template's, or
/// with a mark in it.
#[derive(Clone, Debug)]
pub struct ToolCallParser {
    marks: Marks,
    block: Option<Block>,
    /// How many calls have begun.
    calls: usize,
}

const MARKS: [&str; 4] = ["<|tool_call_start|>", "<|tool_call_end|>", "<tool_call>", "</tool_call>"];

impl Default for ToolCallParser {
    fn default() -> Self {
        ToolCallParser { marks: Marks::new(&MARKS), block: None, calls: 0 }
    }
}

impl ToolCallParser {
    /// A parser at the start of a reply.
    pub fn new() -> ToolCallParser {
        ToolCallParser::default()
    }

    /// Takes the next piece of the reply.
    pub fn push(&mut self, text: &str) -> Vec<ToolEvent> {
        let mut events = Events::new(self.calls);
        for stretch in self.marks.push(text) {
            match stretch {
                Stretch::Text(text) => self.text(&text, &mut events),
                Stretch::Mark(index) => self.mark(MARKS[index], &mut events),
            }
        }
        self.calls = events.calls;
        events.list
    }

    /// Ends the reply. A list of calls that is complete but for its closing mark still counts.
    pub fn finish(&mut self) -> Vec<ToolEvent> {
        let mut events = Events::new(self.calls);
        let held = self.marks.finish();
        self.text(&held, &mut events);
        self.end_block("", &mut events);
        self.calls = events.calls;
        events.list
    }

    /// How many calls have begun so far: with any, a reply that ends by itself ends for tool calls.
    pub fn calls_begun(&self) -> usize {
        self.calls
    }

    fn text(&mut self, text: &str, events: &mut Events) {
        let Some(block) = &mut self.block else { return events.content(text) };
        if !block.push(text, events) {
            self.block = None;
        }
    }

    fn mark(&mut self, mark: &'static str, events: &mut Events) {
        let tags = self.block.as_ref().map(|block| block.tags);
        match (mark, tags) {
            ("<|tool_call_start|>", _) => {
                self.end_block("", events);
                self.block = Some(Block::new(Tags::Marks));
            }
            ("<|tool_call_end|>", _) => self.end_block("", events),
            ("<tool_call>", None) => self.block = Some(Block::new(Tags::Xml)),
            ("</tool_call>", Some(Tags::Xml)) => self.end_block(mark, events),
            _ => self.text(mark, events),
        }
    }

    fn end_block(&mut self, closing_tag: &str, events: &mut Events) {
        if let Some(block) = self.block.take() {
            block.end(closing_tag, events);
        }
    }
}

/// Reads a whole reply. The same text in pieces through a [`ToolCallParser`] gives the same calls and the same content,
/// except that a broken call is content here.
pub fn parse_reply(text: &str) -> ParsedReply {
    let mut parser = ToolCallParser::new();
    let mut events = parser.push(text);
    events.extend(parser.finish());
    let mut reply = ParsedReply::default();
    let (mut name, mut arguments) = (String::new(), String::new());
    for event in events {
        match event {
            ToolEvent::Content(text) => reply.content += &text,
            ToolEvent::CallBegin { name: begun, .. } => (name, arguments) = (begun, String::new()),
            ToolEvent::ArgumentsDelta { fragment, .. } => arguments += &fragment,
            ToolEvent::CallEnd { .. } => {
                let arguments = serde_json::from_str(&arguments).expect("the pieces of a call join to JSON");
                reply.calls.push(ToolCall { name: std::mem::take(&mut name), arguments });
            }
            ToolEvent::CallBroken { raw, .. } => reply.content += &raw,
        }
    }
    reply
}

/// Events under way: neighbours of a kind are joined.
#[derive(Debug)]
struct Events {
    list: Vec<ToolEvent>,
    calls: usize,
}

impl Events {
    fn new(calls: usize) -> Events {
        Events { list: Vec::new(), calls }
    }

    fn content(&mut self, text: &str) {
        match self.list.last_mut() {
            Some(ToolEvent::Content(content)) => content.push_str(text),
            _ if text.is_empty() => {}
            _ => self.list.push(ToolEvent::Content(text.to_owned())),
        }
    }

    fn begin(&mut self, name: &str) {
        self.list.push(ToolEvent::CallBegin { index: self.calls, name: name.to_owned() });
        self.calls += 1;
    }

    fn arguments(&mut self, piece: &str) {
        match self.list.last_mut() {
            Some(ToolEvent::ArgumentsDelta { fragment, .. }) => fragment.push_str(piece),
            _ if piece.is_empty() => {}
            _ => {
                let event = ToolEvent::ArgumentsDelta { index: self.calls - 1, fragment: piece.to_owned() };
                self.list.push(event);
            }
        }
    }

    fn end(&mut self) {
        self.list.push(ToolEvent::CallEnd { index: self.calls - 1 });
    }

    fn broken(&mut self, raw: &str) {
        self.list.push(ToolEvent::CallBroken { index: self.calls - 1, raw: raw.to_owned() });
    }

    /// A call that is complete.
    fn call(&mut self, call: &ToolCall) {
        self.begin(&call.name);
        self.arguments(&call.arguments.to_string());
        self.end();
    }
}
