//! The template language as transformers sets it up, so that templates written for it render the same text here.

use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Kwargs, Value, ValueKind};
use minijinja::{AutoEscape, Environment, Error, ErrorKind, Output, State};

use super::{json, methods, python};

/// An environment without templates: whitespace rules, helpers and Python's ways of printing.
pub(super) fn environment() -> Environment<'static> {
    let mut environment = Environment::new();
    let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build();
    environment.set_syntax(syntax.expect("the default delimiters are valid"));
    environment.set_auto_escape_callback(|_| AutoEscape::None);
    environment.set_formatter(write_as_python);
    environment.set_unknown_method_callback(methods::call);
    environment.add_function("raise_exception", raise_exception);
    environment.add_filter("tojson", |value: &Value, options: Kwargs| json::dumps(value, &options));
    environment.add_filter("string", |value: &Value| python::text(value));
    environment.add_test("iterable", is_iterable);
    environment.add_test("sequence", is_sequence);
    environment.add_test("number", |value: &Value| value.is_number() || value.kind() == ValueKind::Bool);
    environment
}

/// Replaces `generation` blocks by blocks that are always rendered: they mark the replies for a training mask only.
///
/// Just the tag's word is replaced, so that line numbers and whitespace control stay as they are.
pub(super) fn without_generation_blocks(source: &str) -> String {
    let mut text = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(start) = rest.find("{%") {
        let (before, tag) = rest.split_at(start + 2);
        text.push_str(before);
        let word = tag.trim_start_matches(['-', '+']).trim_start();
        text.push_str(&tag[..tag.len() - word.len()]);
        rest = word;
        for (from, to) in [("generation", "if true"), ("endgeneration", "endif")] {
            if let Some(after) = word.strip_prefix(from).filter(|after| is_end_of_tag(after)) {
                text.push_str(to);
                rest = after;
            }
        }
    }
    text.push_str(rest);
    text
}

/// Whether a template sets a variable to a value made of itself, as in `set x = x | default(false)`: it reads it, though
/// to the language it has declared it.
pub(super) fn defaults_itself(source: &str, variable: &str) -> bool {
    let is_in_name = |character: char| character.is_alphanumeric() || character == '_';
    source.split("{%").skip(1).any(|tag| {
        let tag = tag.split("%}").next().unwrap_or_default().trim_start_matches(['-', '+']);
        let value = tag.trim_start().strip_prefix("set ").and_then(|set| set.split_once('='));
        value.is_some_and(|(name, value)| {
            name.trim() == variable
                && value.split(|character| !is_in_name(character)).any(|word| word == variable)
        })
    })
}

fn is_end_of_tag(text: &str) -> bool {
    text.trim_start().trim_start_matches(['-', '+']).starts_with("%}")
}

/// The words of a `raise_exception` call, if that is what stopped the template.
pub(super) fn raised(error: &Error) -> Option<&str> {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error) = cause {
        if let Some(Raised(message)) = error.downcast_ref() {
            return Some(message);
        }
        cause = error.source();
    }
    None
}

/// Travels inside a template error and tells a deliberate refusal from a mistake.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Raised(String);

fn raise_exception(message: &Value) -> Result<Value, Error> {
    let message = python::text(message);
    Err(Error::new(ErrorKind::InvalidOperation, "raise_exception").with_source(Raised(message)))
}

fn write_as_python(output: &mut Output, _: &mut State, value: &Value) -> Result<(), Error> {
    let written = match value.as_str() {
        Some(text) => output.write_str(text),
        None => output.write_str(&python::text(value)),
    };
    written.map_err(|_| Error::from(ErrorKind::WriteFailure))
}

/// Python can iterate over an undefined value, but not over None.
fn is_iterable(value: &Value) -> bool {
    !value.is_none() && value.try_iter().is_ok()
}

/// In Python, all that has a length and takes an index: texts and mappings too.
fn is_sequence(value: &Value) -> bool {
    value.is_undefined() || matches!(value.kind(), ValueKind::Seq | ValueKind::String | ValueKind::Map)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(source: &str, expected: &str) {
        assert_eq!(without_generation_blocks(source), expected);
    }

    #[test]
    fn generation_tags_become_conditions_that_hold() {
        check("a{% generation %}b{% endgeneration %}c", "a{% if true %}b{% endif %}c");
        check("{%- generation -%}\n{{ x }}{%-endgeneration-%}", "{%- if true -%}\n{{ x }}{%-endif-%}");
        check("{%\n  generation\n%}{%+ endgeneration +%}", "{%\n  if true\n%}{%+ endif +%}");
    }

    #[test]
    fn all_else_stays() {
        check("{% set generation = 1 %}{{ generation }}", "{% set generation = 1 %}{{ generation }}");
        check("{% generations %} {%", "{% generations %} {%");
        check("{% if generation %}{% endif %}", "{% if generation %}{% endif %}");
        check("", "");
    }
}
