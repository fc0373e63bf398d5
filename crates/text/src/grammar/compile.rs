//! From what a client asked for to a grammar.

use llguidance::api::{GrammarWithLexer, TopLevelGrammar};
use serde_json::{Value, json};

use super::{GrammarSpec, tools};
use crate::{TextError, ThoughtStart, Tokenizer};

/// Blanks between the parts of JSON: one, or a line's end and its indentation. Without a bound a model that has lost its
/// way would write blanks for ever.
const JSON_BLANKS: &str = r"\n[ \t]{0,32}| ";

/// Larger grammars are refused: the compilers' time grows faster than a text, and their recursion with it.
const SCHEMA_BYTES_MAX: usize = 1 << 20;
const LARK_BYTES_MAX: usize = 1 << 16;
const REGEX_BYTES_MAX: usize = 1 << 13;
const CHOICES_MAX: usize = 10_000;

/// Compiles a grammar for the whole reply.
pub(super) fn whole(spec: &GrammarSpec, tokenizer: &Tokenizer) -> Result<TopLevelGrammar, TextError> {
    match spec {
        GrammarSpec::AnyOf(specs) => all(format!("start: {}\n", any_of(specs.len())), specs, tokenizer),
        spec => body(spec, tokenizer).map(TopLevelGrammar::from_grammar),
    }
}

/// Compiles a grammar for what comes after a thought.
pub(super) fn after_thought(
    spec: &GrammarSpec,
    tokenizer: &Tokenizer,
    start: ThoughtStart,
) -> Result<TopLevelGrammar, TextError> {
    let specs = match spec {
        GrammarSpec::AnyOf(specs) => &specs[..],
        spec => std::slice::from_ref(spec),
    };
    all(thought(tokenizer, start, &any_of(specs.len())), specs, tokenizer)
}

/// A Lark grammar, and those that it calls as [`any_of`].
fn all(start: String, specs: &[GrammarSpec], tokenizer: &Tokenizer) -> Result<TopLevelGrammar, TextError> {
    let mut grammars = vec![GrammarWithLexer::from_lark(start)];
    for (index, spec) in specs.iter().enumerate() {
        grammars.push(GrammarWithLexer { name: Some(format!("form_{index}")), ..body(spec, tokenizer)? });
    }
    Ok(TopLevelGrammar { grammars, max_tokens: None })
}

fn any_of(count: usize) -> String {
    let names: Vec<String> = (0..count).map(|index| format!("@form_{index}")).collect();
    format!("({})", names.join(" | "))
}

/// What kind of grammar it is, for an error.
pub(super) fn what(spec: &GrammarSpec) -> &'static str {
    match spec {
        GrammarSpec::JsonObject => "the JSON object",
        GrammarSpec::JsonSchema(_) | GrammarSpec::LooseJsonSchema(_) => "the JSON schema",
        GrammarSpec::Regex(_) => "the regular expression",
        GrammarSpec::Lark(_) => "the Lark grammar",
        GrammarSpec::Choice(_) => "the choice",
        GrammarSpec::Tools(_) => "the grammar of the tools' calls",
        GrammarSpec::AnyOf(_) => "the choice of grammars",
    }
}

fn body(spec: &GrammarSpec, tokenizer: &Tokenizer) -> Result<GrammarWithLexer, TextError> {
    let refuse = |message: &str| TextError::Grammar { what: what(spec), message: message.to_owned() };
    check_size(spec)?;
    match spec {
        GrammarSpec::JsonObject => Ok(GrammarWithLexer::from_json_schema(schema(&json!({"type": "object"})))),
        GrammarSpec::JsonSchema(Value::Bool(true)) => {
            Ok(GrammarWithLexer::from_json_schema(schema(&json!({}))))
        }
        GrammarSpec::JsonSchema(given @ Value::Object(_)) => {
            Ok(GrammarWithLexer::from_json_schema(schema(given)))
        }
        GrammarSpec::LooseJsonSchema(given @ Value::Object(_)) => {
            Ok(GrammarWithLexer::from_json_schema(loose_schema(given)))
        }
        GrammarSpec::JsonSchema(_) | GrammarSpec::LooseJsonSchema(_) => Err(refuse("it is not an object")),
        GrammarSpec::Regex(regex) => Ok(GrammarWithLexer::from_regex(without_anchors(regex))),
        GrammarSpec::Lark(lark) => Ok(GrammarWithLexer::from_lark(lark.clone())),
        GrammarSpec::Choice(choices) if choices.is_empty() => Err(refuse("it has no texts")),
        GrammarSpec::Choice(choices) => {
            let choices: Vec<String> = choices.iter().map(|choice| literal(choice)).collect();
            Ok(GrammarWithLexer::from_lark(format!("start: {}\n", choices.join(" | "))))
        }
        GrammarSpec::Tools(tools) => tools::lark(tools, tokenizer).map(GrammarWithLexer::from_lark),
        GrammarSpec::AnyOf(_) => Err(refuse("it is one of the choices of another")),
    }
}

fn check_size(spec: &GrammarSpec) -> Result<(), TextError> {
    let (found, accepted, unit) = match spec {
        GrammarSpec::JsonObject | GrammarSpec::AnyOf(_) => return Ok(()),
        GrammarSpec::JsonSchema(schema) | GrammarSpec::LooseJsonSchema(schema) => {
            (schema.to_string().len(), SCHEMA_BYTES_MAX, "bytes")
        }
        GrammarSpec::Regex(regex) => (regex.len(), REGEX_BYTES_MAX, "bytes"),
        GrammarSpec::Lark(lark) => (lark.len(), LARK_BYTES_MAX, "bytes"),
        GrammarSpec::Choice(choices) => (choices.len(), CHOICES_MAX, "texts"),
        GrammarSpec::Tools(grammar) => (grammar.tools.to_string().len(), SCHEMA_BYTES_MAX, "bytes"),
    };
    if found <= accepted {
        return Ok(());
    }
    let message = format!("it has {found} {unit}, accepted are {accepted}");
    Err(TextError::Grammar { what: what(spec), message })
}

/// A schema with our rule for blanks, unless it has its own.
pub(super) fn schema(given: &Value) -> Value {
    let mut schema = given.clone();
    if let Value::Object(fields) = &mut schema {
        fields.entry("x-guidance").or_insert_with(|| json!({"whitespace_pattern": JSON_BLANKS}));
    }
    schema
}

/// The same for a schema that is followed as far as it is understood.
pub(super) fn loose_schema(given: &Value) -> Value {
    let mut schema = schema(given);
    if let Some(options) = schema.get_mut("x-guidance").and_then(Value::as_object_mut) {
        options.insert("lenient".to_owned(), true.into());
    }
    schema
}

/// A text as Lark writes it.
pub(super) fn literal(text: &str) -> String {
    Value::from(text).to_string().replace('\u{7f}', "\\u007f")
}

/// A mark of the model: one token where the tokenizer has it as special, or else its text.
pub(super) fn mark(tokenizer: &Tokenizer, name: &str) -> String {
    match tokenizer.token_to_id(name).filter(|&id| tokenizer.is_special(id)) {
        Some(id) => format!("<[{id}]>"),
        None => literal(name),
    }
}

/// Whether a [`mark`] is one token.
pub(super) fn is_token(mark: &str) -> bool {
    mark.starts_with('<')
}

/// A thought that the model may begin, or that the prompt has begun, and then the rule `body`.
fn thought(tokenizer: &Tokenizer, start: ThoughtStart, body: &str) -> String {
    let close = mark(tokenizer, "</think>");
    let thought = if is_token(&close) {
        format!("thought: THINKING? {close} BLANKS?\nTHINKING: /(.|\\n)+/\n")
    } else {
        format!("thought: thinking BLANKS?\nthinking[suffix={close}]: /(.|\\n)*/\n")
    };
    let start = match start {
        ThoughtStart::Closed => format!("start: ({} thought)? {body}\n", mark(tokenizer, "<think>")),
        ThoughtStart::Open => format!("start: thought {body}\n"),
    };
    format!("{start}{thought}BLANKS: /[ \\n]{{1,4}}/\n")
}

/// A grammar is of the whole text, so anchors at the ends of an expression say nothing.
fn without_anchors(regex: &str) -> &str {
    let regex = regex.strip_prefix('^').unwrap_or(regex);
    let Some(before) = regex.strip_suffix('$') else { return regex };
    let backslashes = before.len() - before.trim_end_matches('\\').len();
    if backslashes % 2 == 0 { before } else { regex }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn anchors_are_dropped_but_not_escaped_ones() {
        for (regex, expected) in [("^a$", "a"), (r"a\$", r"a\$"), (r"a\\$", r"a\\"), ("a", "a")] {
            assert_eq!(without_anchors(regex), expected);
        }
    }
}
