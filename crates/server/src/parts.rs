//! A reply taken apart while it arrives: thoughts, content and tool calls.

use forerunner_engine::{FinishReason, Statistics, TokenId, ToldToken};
use forerunner_text::{ReplyEvent, ReplyParser, ThoughtStart, ToolEvent};

use crate::random::random_id;

/// What a reply's text is read as.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Reading {
    /// Text, whatever marks stand in it.
    #[default]
    Raw,
    /// A chat reply, which may think and, if the request has tools, call them.
    Chat {
        /// Where the reply begins.
        start: ThoughtStart,
        /// Whether calls are looked for.
        tools: bool,
        /// Whether more than one call is told.
        many_calls: bool,
    },
}

/// Why a reply ended, as chat clients are told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    /// By itself.
    Stop,
    /// At this one of its stop strings.
    StopString(usize),
    /// At its token limit.
    Length,
    /// By itself, after at least one complete tool call.
    ToolCalls,
}

/// Reads one reply.
#[derive(Debug)]
pub(crate) struct Reader {
    parser: Option<ReplyParser>,
    many_calls: bool,
    calls_ended: usize,
}

impl Reader {
    /// A reader at the start of a reply.
    pub(crate) fn new(reading: Reading) -> Self {
        let (parser, many_calls) = match reading {
            Reading::Raw => (None, true),
            Reading::Chat { start, tools: false, .. } => (Some(ReplyParser::new(start)), true),
            Reading::Chat { start, tools: true, many_calls } => {
                (Some(ReplyParser::with_tools(start)), many_calls)
            }
        };
        Reader { parser, many_calls, calls_ended: 0 }
    }

    /// Takes the next piece of the reply.
    pub(crate) fn push(&mut self, text: String) -> Vec<ReplyEvent> {
        match &mut self.parser {
            None if text.is_empty() => Vec::new(),
            None => vec![ReplyEvent::Tool(ToolEvent::Content(text))],
            Some(parser) => {
                let events = parser.push(&text);
                self.told(events)
            }
        }
    }

    /// Ends the reply: what was held back comes out.
    pub(crate) fn finish(&mut self) -> Vec<ReplyEvent> {
        let events = self.parser.as_mut().map_or(Vec::new(), ReplyParser::finish);
        self.told(events)
    }

    /// Why the reply ended, once it has.
    pub(crate) fn ending(&self, reason: FinishReason) -> Ending {
        match reason {
            FinishReason::Length => Ending::Length,
            FinishReason::Stop | FinishReason::StopString(_) if self.calls_ended > 0 => Ending::ToolCalls,
            FinishReason::Stop => Ending::Stop,
            FinishReason::StopString(index) => Ending::StopString(index),
        }
    }

    /// The events that the client is told: all, but for further calls when it wants one at a time.
    fn told(&mut self, mut events: Vec<ReplyEvent>) -> Vec<ReplyEvent> {
        if !self.many_calls {
            events.retain(|event| call_index(event).is_none_or(|index| index == 0));
        }
        let ended = |event: &&ReplyEvent| matches!(event, ReplyEvent::Tool(ToolEvent::CallEnd { .. }));
        self.calls_ended += events.iter().filter(ended).count();
        events
    }
}

fn call_index(event: &ReplyEvent) -> Option<usize> {
    match event {
        ReplyEvent::Tool(
            ToolEvent::CallBegin { index, .. }
            | ToolEvent::ArgumentsDelta { index, .. }
            | ToolEvent::CallEnd { index }
            | ToolEvent::CallBroken { index, .. },
        ) => Some(*index),
        ReplyEvent::Thought(_) | ReplyEvent::Tool(ToolEvent::Content(_)) => None,
    }
}

/// A complete tool call of a whole reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Call {
    pub(crate) id: String,
    pub(crate) name: String,
    /// A JSON object, as text.
    pub(crate) arguments: String,
}

/// A reply that is whole.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct WholeReply {
    pub(crate) parts: Parts,
    pub(crate) token_ids: Vec<TokenId>,
    pub(crate) told: Vec<ToldToken>,
    pub(crate) ending: Ending,
    pub(crate) statistics: Statistics,
}

/// The parts of a reply, each put together.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Parts {
    pub(crate) thought: String,
    pub(crate) content: String,
    pub(crate) calls: Vec<Call>,
}

impl Parts {
    /// Adds what a reader gave. A call that turned out to be none is content.
    pub(crate) fn add(&mut self, events: Vec<ReplyEvent>) {
        for event in events {
            match event {
                ReplyEvent::Thought(text) => self.thought.push_str(&text),
                ReplyEvent::Tool(ToolEvent::Content(text)) => self.content.push_str(&text),
                ReplyEvent::Tool(ToolEvent::CallBegin { name, .. }) => {
                    self.calls.push(Call { id: call_id(), name, arguments: String::new() });
                }
                ReplyEvent::Tool(ToolEvent::ArgumentsDelta { fragment, .. }) => {
                    if let Some(call) = self.calls.last_mut() {
                        call.arguments.push_str(&fragment);
                    }
                }
                ReplyEvent::Tool(ToolEvent::CallEnd { .. }) => {}
                ReplyEvent::Tool(ToolEvent::CallBroken { raw, .. }) => {
                    self.calls.pop();
                    self.content.push_str(&raw);
                }
            }
        }
    }
}

/// A new id for a call.
pub(crate) fn call_id() -> String {
    random_id("call_")
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO_CALLS: &str = "<think>hm</think>Look: <|tool_call_start|>[f(a=1), g(b='x')]<|tool_call_end|>";

    fn read(reading: Reading, text: &str) -> (Parts, Ending) {
        let mut reader = Reader::new(reading);
        let mut parts = Parts::default();
        for character in text.chars() {
            parts.add(reader.push(character.to_string()));
        }
        parts.add(reader.finish());
        (parts, reader.ending(FinishReason::Stop))
    }

    fn chat(tools: bool, many_calls: bool) -> Reading {
        Reading::Chat { start: ThoughtStart::Closed, tools, many_calls }
    }

    #[test]
    fn a_reply_is_read_as_what_its_request_asked_for() {
        let (raw, ending) = read(Reading::Raw, TWO_CALLS);
        assert_eq!((raw.content.as_str(), raw.calls.len(), ending), (TWO_CALLS, 0, Ending::Stop));
        let (plain, ending) = read(chat(false, true), TWO_CALLS);
        assert_eq!((plain.thought.as_str(), ending), ("hm", Ending::Stop));
        assert!(plain.content.contains("<|tool_call_start|>") && plain.calls.is_empty());
        let (both, ending) = read(chat(true, true), TWO_CALLS);
        assert_eq!((both.content.as_str(), ending), ("Look: ", Ending::ToolCalls));
        let calls: Vec<_> =
            both.calls.iter().map(|call| (call.name.as_str(), call.arguments.as_str())).collect();
        assert_eq!(calls, [("f", r#"{"a":1}"#), ("g", r#"{"b":"x"}"#)]);
    }

    #[test]
    fn a_client_that_wants_one_call_gets_the_first() {
        let (parts, ending) = read(chat(true, false), TWO_CALLS);
        assert_eq!((parts.calls.len(), parts.calls[0].name.as_str(), ending), (1, "f", Ending::ToolCalls));
    }

    #[test]
    fn a_call_that_is_none_is_content() {
        let broken = format!("<|tool_call_start|>[f(a='{}", "x".repeat(600));
        let (parts, ending) = read(chat(true, true), &broken);
        assert_eq!((parts.calls.len(), ending), (0, Ending::Stop));
        assert!(parts.content.contains("xxx"), "{}", parts.content);
    }
}
