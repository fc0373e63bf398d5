//! Text on both sides of a model: tokenizer, chat template, streaming detokenizer and stop strings.
//!
//! [`TextModel::open`] reads a checkpoint's folder. A prompt is rendered by [`ChatTemplate`] and encoded by [`Tokenizer`];
//! a reply goes token by token through a [`Detokenizer`] and, where the request names any, through [`StopStrings`].

mod bytes;
mod config;
mod detokenizer;
mod error;
mod model;
mod stop;
mod template;
mod tokenizer;

pub use detokenizer::Detokenizer;
pub use error::TextError;
pub use model::TextModel;
pub use stop::{StopOutput, StopStrings};
pub use template::{ChatTemplate, Moment};
pub use tokenizer::{SpecialTokens, Tokenizer};
