//! A streamed reply taken apart: thoughts, content and tool calls.

use crate::{ReasoningSplitter, ThoughtPiece, ThoughtStart, ToolCallParser, ToolEvent};

/// What a reply turns out to be, piece by piece.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReplyEvent {
    /// The model thinks. Calls in a thought are text.
    Thought(String),
    /// Content, or a part of a call.
    Tool(ToolEvent),
}

/// Splits off the thoughts of a reply, and finds the calls in what is left if the request has tools.
#[derive(Clone, Debug)]
pub struct ReplyParser {
    thoughts: ReasoningSplitter,
    calls: Option<ToolCallParser>,
}

impl ReplyParser {
    /// For a request without tools: marks of calls are content.
    pub fn new(start: ThoughtStart) -> ReplyParser {
        ReplyParser { thoughts: ReasoningSplitter::new(start), calls: None }
    }

    /// For a request with tools.
    pub fn with_tools(start: ThoughtStart) -> ReplyParser {
        ReplyParser { calls: Some(ToolCallParser::new()), ..ReplyParser::new(start) }
    }

    /// Takes the next piece of the reply.
    pub fn push(&mut self, text: &str) -> Vec<ReplyEvent> {
        let pieces = self.thoughts.push(text);
        self.events(pieces)
    }

    /// Ends the reply.
    pub fn finish(&mut self) -> Vec<ReplyEvent> {
        let pieces = self.thoughts.finish();
        let mut events = self.events(pieces);
        let rest = self.calls.iter_mut().flat_map(ToolCallParser::finish);
        events.extend(rest.map(ReplyEvent::Tool));
        events
    }

    /// Whether the model is thinking now.
    pub fn is_thinking(&self) -> bool {
        self.thoughts.is_thinking()
    }

    /// How many calls have begun so far: with any, a reply that ends by itself ends for tool calls.
    pub fn calls_begun(&self) -> usize {
        self.calls.as_ref().map_or(0, ToolCallParser::calls_begun)
    }

    fn events(&mut self, pieces: Vec<ThoughtPiece>) -> Vec<ReplyEvent> {
        let mut events = Vec::new();
        for piece in pieces {
            match (piece, &mut self.calls) {
                (ThoughtPiece::Thought(text), _) => events.push(ReplyEvent::Thought(text)),
                (ThoughtPiece::Answer(text), None) => events.push(ReplyEvent::Tool(ToolEvent::Content(text))),
                (ThoughtPiece::Answer(text), Some(calls)) => {
                    events.extend(calls.push(&text).into_iter().map(ReplyEvent::Tool));
                }
            }
        }
        events
    }
}
