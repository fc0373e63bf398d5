//! A checkpoint's text side in one piece: its tokenizer and its chat template.

use std::path::Path;

use serde_json::{Map, Value};

use crate::{ChatTemplate, TextError, Tokenizer};

/// A tokenizer and the chat template that goes with it.
#[derive(Clone, Debug)]
pub struct TextModel {
    /// Text to tokens and back.
    pub tokenizer: Tokenizer,
    /// Messages to text.
    pub template: ChatTemplate,
}

impl TextModel {
    /// Reads both from a checkpoint's folder.
    pub fn open(dir: &Path) -> Result<TextModel, TextError> {
        Ok(TextModel { tokenizer: Tokenizer::open(dir)?, template: ChatTemplate::open(dir)? })
    }

    /// The tokens that ask for the next reply of a chat. The template writes the bos, so there is one.
    pub fn chat_prompt(
        &self,
        messages: &[Value],
        tools: Option<&Value>,
        extra: &Map<String, Value>,
    ) -> Result<Vec<u32>, TextError> {
        let text = self.template.render(messages, tools, true, extra)?;
        self.tokenizer.encode_prompt(&text)
    }
}
