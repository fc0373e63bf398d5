//! The one error type of this crate: what was found, where, and what is accepted.

use std::path::PathBuf;

/// Why a text file of a checkpoint could not be used, or why a request's text could not.
#[derive(Debug, thiserror::Error)]
pub enum TextError {
    /// A file could not be read.
    #[error("{}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// tokenizer.json does not describe a tokenizer.
    #[error("{}: not a tokenizer: {message}", path.display())]
    Tokenizer {
        /// The file.
        path: PathBuf,
        /// What the parser said.
        message: String,
    },
    /// tokenizer.json is well formed but of a kind that is not supported.
    #[error("{}: {field} is {found}, accepted is {accepted}", path.display())]
    Unsupported {
        /// The file.
        path: PathBuf,
        /// The field.
        field: &'static str,
        /// Its value.
        found: String,
        /// The values that work.
        accepted: &'static str,
    },
    /// A JSON file is garbled.
    #[error("{}: not JSON: {source}", path.display())]
    Json {
        /// The file.
        path: PathBuf,
        /// Line and column, from the parser.
        source: serde_json::Error,
    },
    /// A field of tokenizer_config.json has the wrong shape.
    #[error("{}: {field} is {found}, accepted is {accepted}", path.display())]
    Field {
        /// The file.
        path: PathBuf,
        /// The field.
        field: String,
        /// What stands there.
        found: String,
        /// What may stand there.
        accepted: &'static str,
    },
    /// tokenizer_config.json names a special token that tokenizer.json lacks.
    #[error("{}: {field} is {token:?}, which tokenizer.json does not have", path.display())]
    UnknownSpecialToken {
        /// The file.
        path: PathBuf,
        /// The field that names the token.
        field: &'static str,
        /// The token.
        token: String,
    },
    /// A checkpoint has no chat template.
    #[error("{}: no chat template: neither chat_template.jinja nor a chat_template in tokenizer_config.json", dir.display())]
    NoTemplate {
        /// The checkpoint's folder.
        dir: PathBuf,
    },
    /// The chat template is wrong in itself: a syntax error, an unknown filter, test or function.
    #[error("{}, line {line}: {message}", path.display())]
    Template {
        /// The file that holds the template.
        path: PathBuf,
        /// The line within the template.
        line: usize,
        /// What is wrong.
        message: String,
    },
    /// The chat template stopped on these messages, for instance by adding a number to a text.
    #[error("the chat template cannot render these messages: {message} ({}, line {line})", path.display())]
    Render {
        /// The file that holds the template.
        path: PathBuf,
        /// The line within the template.
        line: usize,
        /// What went wrong.
        message: String,
    },
    /// The chat template called `raise_exception`: it refuses these messages.
    #[error("the chat template refuses these messages: {message}")]
    Refused {
        /// The template author's words.
        message: String,
    },
    /// A message is not of the form that chat templates read.
    #[error("messages[{index}]{field} is {found}, accepted is {accepted}")]
    Message {
        /// Which message.
        index: usize,
        /// The field within it.
        field: String,
        /// What stands there.
        found: String,
        /// What may stand there.
        accepted: &'static str,
    },
    /// A stop string is empty: it would stop every reply before its first character.
    #[error("stop[{index}] is an empty text, accepted is a text of at least one character")]
    EmptyStop {
        /// Which stop string.
        index: usize,
    },
    /// A grammar that a reply is to follow is wrong, or is more than can be followed.
    #[error("{what} cannot be used: {message}")]
    Grammar {
        /// Which kind of grammar.
        what: &'static str,
        /// What is wrong with it.
        message: String,
    },
    /// A grammar leads nowhere from some point of a reply on.
    #[error("{what} leads nowhere after {after:?}: {message}")]
    DeadEnd {
        /// Which kind of grammar.
        what: &'static str,
        /// The end of the reply so far.
        after: String,
        /// What is wrong there.
        message: String,
    },
    /// A tool is described in a way that its calls cannot be held to.
    #[error("tools[{index}]{field} is {found}, accepted is {accepted}")]
    Tool {
        /// Which tool.
        index: usize,
        /// The field within it.
        field: String,
        /// What stands there.
        found: String,
        /// What may stand there.
        accepted: &'static str,
    },
    /// `tool_choice` names a function that is not among the tools.
    #[error("tool_choice names {name:?}, accepted is one of the tools: {}", names.join(", "))]
    UnknownTool {
        /// The function.
        name: String,
        /// The functions that there are.
        names: Vec<String>,
    },
    /// A token was drawn that the grammar does not allow.
    #[error("the grammar does not allow token {token} here")]
    TokenNotAllowed {
        /// The token.
        token: u32,
    },
    /// The tokenizer failed on a text.
    #[error("the tokenizer cannot encode this text: {message}")]
    Encode {
        /// What the tokenizer said.
        message: String,
    },
}

impl TextError {
    /// Whether the request is at fault, and not the checkpoint: a server answers 400 then.
    pub fn is_callers_fault(&self) -> bool {
        use TextError::*;
        matches!(
            self,
            Render { .. }
                | Refused { .. }
                | Message { .. }
                | EmptyStop { .. }
                | Encode { .. }
                | Grammar { .. }
                | DeadEnd { .. }
                | Tool { .. }
                | UnknownTool { .. }
        )
    }
}
