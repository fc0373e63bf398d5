//! Grammars that a reply must follow: a JSON schema, a regular expression, a Lark grammar, a choice, or calls of tools.

mod compile;
mod constraint;
mod environment;
mod parameters;
mod tools;

use serde_json::Value;

pub use constraint::{Constraint, WindowMasks};
pub use environment::Grammars;

/// What a reply must be.
#[derive(Clone, Debug, PartialEq)]
pub enum GrammarSpec {
    /// Any JSON object.
    JsonObject,
    /// JSON that a schema accepts. References within the schema are followed, none out of it.
    JsonSchema(Value),
    /// A text that matches a regular expression as a whole.
    Regex(String),
    /// A text of a context-free grammar in Lark's notation, from its rule `start`.
    Lark(String),
    /// One of these texts.
    Choice(Vec<String>),
    /// Calls of tools, between the model's marks.
    Tools(ToolGrammar),
}

/// Which calls a reply must be made of.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolGrammar {
    /// The tools, as chat clients describe them: `[{"type": "function", "function": {"name": .., "parameters": ..}}]`, or
    /// the inner objects alone.
    pub tools: Value,
    /// Which of them may be called.
    pub choice: ToolChoice,
    /// Most calls of one reply, 0 for any number.
    pub calls_max: usize,
}

/// Which tools may be called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToolChoice {
    /// Any of them, but one at least.
    Required,
    /// This one.
    Named(String),
}
