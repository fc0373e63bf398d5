//! Text on both sides of a model: tokenizer, chat template, streaming detokenizer and stop strings; a reply's thoughts
//! and tool calls; grammars that hold a reply to a form.
//!
//! [`TextModel::open`] reads a checkpoint's folder. A prompt is rendered by [`ChatTemplate`] and encoded by [`Tokenizer`];
//! a reply goes token by token through a [`Detokenizer`] and, where the request names any, through [`StopStrings`]. Its
//! text is told apart by a [`ReplyParser`]. A [`Constraint`] says which tokens a grammar allows next.

mod bytes;
mod config;
mod detokenizer;
mod error;
mod grammar;
mod marks;
mod model;
mod reasoning;
mod reply;
mod stop;
mod template;
mod tokenizer;
mod tool_calls;

pub use detokenizer::Detokenizer;
pub use error::TextError;
pub use grammar::{Constraint, GrammarSpec, Grammars, ToolChoice, ToolGrammar, WindowMasks};
pub use model::TextModel;
pub use reasoning::{ReasoningSplitter, ThoughtPiece, ThoughtStart};
pub use reply::{ReplyEvent, ReplyParser};
pub use stop::{StopOutput, StopStrings};
pub use template::{ChatTemplate, Moment};
pub use tokenizer::{SpecialTokens, Tokenizer};
pub use tool_calls::{ParsedReply, ToolCall, ToolCallParser, ToolEvent, parse_reply};
