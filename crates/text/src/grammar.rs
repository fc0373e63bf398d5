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
    /// JSON that a schema accepts as far as it is understood: what of it is not, is left out.
    LooseJsonSchema(Value),
    /// A text that matches a regular expression as a whole.
    Regex(String),
    /// A text of a context-free grammar in Lark's notation, from its rule `start`.
    Lark(String),
    /// One of these texts.
    Choice(Vec<String>),
    /// Calls of tools, between the model's marks.
    Tools(ToolGrammar),
    /// Any of these, which are none of this kind themselves.
    AnyOf(Vec<GrammarSpec>),
}

/// Which calls a reply must be made of.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolGrammar {
    /// The tools, as chat clients describe them: `[{"type": "function", "function": {"name": .., "parameters": ..}}]`, or
    /// the inner objects alone. The parameters of one that is not `"strict": true` are followed as far as they are understood.
    pub tools: Value,
    /// Which of them may be called.
    pub choice: ToolChoice,
    /// Most calls of one reply, 0 for any number.
    pub calls_max: usize,
}

impl ToolGrammar {
    /// Whether a tool asks for calls that follow its parameters, come they when they may.
    pub fn is_strict(&self) -> bool {
        self.tools.as_array().into_iter().flatten().any(tools::is_strict)
    }
}

/// Which tools may be called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToolChoice {
    /// Any of them or none, before, after or instead of a text.
    Auto,
    /// Any of them, but one at least.
    Required,
    /// This one.
    Named(String),
}
