//! Calls of tools as a grammar: the Pythonic list that the model was trained to write.

use std::fmt::Write;

use serde_json::{Map, Value};

use super::compile::{is_token, literal, mark};
use super::parameters::Parameters;
use super::{ToolChoice, ToolGrammar};
use crate::config::kind;
use crate::tool_calls::is_name;
use crate::{TextError, Tokenizer};

/// What values are made of. An apostrophe in a text has a backslash; a number has no more digits than a 64-bit one.
const TERMINALS: &str = r#"
TEXT: /'([^'\\\x00-\x1f\x7f]|\\[\\'"nrt])*'/
INTEGER: /-?(0|[1-9][0-9]{0,17})/
NUMBER: /-?(0|[1-9][0-9]{0,17})(\.[0-9]{1,17})?([eE][+-]?[0-9]{1,2})?/
value: TEXT | NUMBER | "True" | "False" | "None" | list | %json {"type": "object"}
list: "[" (value (", " value)*)? "]"
"#;

const WHAT: &str = "the grammar of the tools' calls";

/// Most parameters of a function. Each is a rule that the one before it leads to.
const PARAMETERS_MAX: usize = 1000;

/// A function that may be called.
struct Function<'a> {
    index: usize,
    name: &'a str,
    is_strict: bool,
    parameters: Option<&'a Map<String, Value>>,
}

/// Lark for a list of calls between the model's marks.
pub(super) fn lark(grammar: &ToolGrammar, tokenizer: &Tokenizer) -> Result<String, TextError> {
    let functions = chosen(functions(&grammar.tools)?, &grammar.choice)?;
    let calls = match grammar.calls_max {
        0 => "call (\", \" call)*".to_owned(),
        1 => "call".to_owned(),
        most => format!("call (\", \" call){{0,{}}}", most - 1),
    };
    let (open, close) = (mark(tokenizer, "<|tool_call_start|>"), mark(tokenizer, "<|tool_call_end|>"));
    let mut text = match grammar.choice {
        ToolChoice::Required | ToolChoice::Named(_) => "start: calls\n".to_owned(),
        ToolChoice::Auto if is_token(&open) => "start: SAID? (calls SAID?)?\nSAID: /(.|\\n)+/\n".to_owned(),
        ToolChoice::Auto => {
            let message = "calls are not told from text: the tokenizer has no token <|tool_call_start|>";
            return Err(TextError::Grammar { what: WHAT, message: message.to_owned() });
        }
    };
    let _ = writeln!(text, "calls: {open} \"[\" {calls} \"]\" {close}");
    let names: Vec<String> = functions.iter().map(|function| format!("call_{}", function.index)).collect();
    let _ = writeln!(text, "call: {}", names.join(" | "));
    for function in &functions {
        text += &call(function)?;
    }
    text += TERMINALS;
    Ok(text)
}

fn functions(tools: &Value) -> Result<Vec<Function<'_>>, TextError> {
    let tools = tools.as_array().map_or(&[][..], Vec::as_slice);
    if tools.is_empty() {
        let message = "there are no tools".to_owned();
        return Err(TextError::Grammar { what: WHAT, message });
    }
    tools.iter().enumerate().map(|(index, tool)| function(index, tool)).collect()
}

/// Whether a tool asks for calls that follow its parameters to the letter.
pub(super) fn is_strict(tool: &Value) -> bool {
    tool.get("function").unwrap_or(tool).get("strict") == Some(&Value::Bool(true))
}

fn function(index: usize, tool: &Value) -> Result<Function<'_>, TextError> {
    let (prefix, inner) = match tool.get("function") {
        Some(inner) => (".function", inner),
        None => ("", tool),
    };
    let wrong = |field: &str, found: String, accepted: &'static str| TextError::Tool {
        index,
        field: format!("{prefix}{field}"),
        found,
        accepted,
    };
    let name = match inner.get("name").unwrap_or(&Value::Null) {
        Value::String(name) if !name.is_empty() && name.chars().all(is_name) => name,
        Value::String(name) => {
            return Err(wrong(".name", format!("{name:?}"), "letters, digits, _, - and ."));
        }
        other => return Err(wrong(".name", kind(other).to_owned(), "a text")),
    };
    let parameters = match inner.get("parameters").unwrap_or(&Value::Null) {
        Value::Null => None,
        Value::Object(schema) => Some(schema),
        other => return Err(wrong(".parameters", kind(other).to_owned(), "a JSON schema of an object")),
    };
    Ok(Function { index, name, is_strict: is_strict(tool), parameters })
}

fn chosen<'a>(functions: Vec<Function<'a>>, choice: &ToolChoice) -> Result<Vec<Function<'a>>, TextError> {
    let ToolChoice::Named(name) = choice else { return Ok(functions) };
    let names = functions.iter().map(|function| function.name.to_owned()).collect();
    let chosen: Vec<Function<'_>> = functions.into_iter().filter(|function| function.name == name).collect();
    if chosen.is_empty() { Err(TextError::UnknownTool { name: name.clone(), names }) } else { Ok(chosen) }
}

/// The rules of one function's calls: arguments in the schema's order, those that are not required may be left out.
fn call(function: &Function<'_>) -> Result<String, TextError> {
    let index = function.index;
    let empty = Map::new();
    let schema = function.parameters.unwrap_or(&empty);
    let properties = match schema.get("properties") {
        Some(Value::Object(properties)) => properties,
        _ => &empty,
    };
    if properties.len() > PARAMETERS_MAX {
        let field = ".function.parameters.properties".to_owned();
        let (found, accepted) = (format!("an object of {}", properties.len()), "an object of at most 1000");
        return Err(TextError::Tool { index, field, found, accepted });
    }
    let required: Vec<&str> = schema
        .get("required")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let mut parameters = Parameters::new(format!("p{index}"), schema, function.is_strict);
    let opening = literal(&format!("{}(", function.name));
    let mut text = String::new();
    let (mut first, mut more) = ("\"\"".to_owned(), "\"\"".to_owned());
    for (number, (key, schema)) in properties.iter().enumerate().rev() {
        if key.is_empty() || !key.chars().all(is_name) {
            let field = ".function.parameters.properties".to_owned();
            let (found, accepted) = (format!("{key:?}"), "names of letters, digits, _, - and .");
            return Err(TextError::Tool { index, field, found, accepted });
        }
        let value = parameters.value(schema);
        let argument = format!("{} ({value}) more_{index}_{number}", literal(&format!("{key}=")));
        let skipped = if required.contains(&key.as_str()) {
            (String::new(), String::new())
        } else {
            (format!(" | {first}"), format!(" | {more}"))
        };
        let _ = writeln!(text, "more_{index}_{number}: {more}");
        let _ = writeln!(text, "argument_{index}_{number}: {argument}");
        let _ = writeln!(text, "first_{index}_{number}: argument_{index}_{number}{}", skipped.0);
        let _ = writeln!(text, "next_{index}_{number}: \", \" argument_{index}_{number}{}", skipped.1);
        (first, more) = (format!("first_{index}_{number}"), format!("next_{index}_{number}"));
    }
    let _ = writeln!(text, "call_{index}: {opening} {first} \")\"");
    Ok(text + &parameters.rules())
}
