//! Calls written as JSON, which models trained on other formats fall back to.

use serde_json::{Map, Value};

use super::ToolCall;
use super::literal::{Cursor, Quotes};

/// The calls in `[{"name": .., "arguments": {..}}, ..]`, in one such object or several in a row, with `parameters` for
/// `arguments`, inside of `{"function": ..}`, with the arguments as JSON in a text, or in `<tool_call>` tags; none if
/// anything else stands there.
pub(super) fn read(text: &str) -> Option<Vec<ToolCall>> {
    let text = text.replace("<tool_call>", " ").replace("</tool_call>", " ");
    let values = json_values(&text).or_else(|| python_value(&text))?;
    let mut calls = Vec::new();
    for value in values {
        match value {
            Value::Array(items) => calls.extend(items.iter().map(call).collect::<Option<Vec<_>>>()?),
            one => calls.push(call(&one)?),
        }
    }
    (!calls.is_empty()).then_some(calls)
}

fn json_values(text: &str) -> Option<Vec<Value>> {
    serde_json::Deserializer::from_str(text).into_iter().collect::<Result<_, _>>().ok()
}

/// The same with Python's literals.
fn python_value(text: &str) -> Option<Vec<Value>> {
    let mut cursor = Cursor::new(text, Quotes::Python);
    let value = cursor.value()?;
    cursor.skip_blanks();
    cursor.rest().is_empty().then(|| vec![value])
}

fn call(value: &Value) -> Option<ToolCall> {
    let function = match value.get("function") {
        Some(function @ Value::Object(_)) => function,
        _ => value,
    };
    let name = function.get("name").or_else(|| function.get("function"))?.as_str()?;
    let arguments = match function.get("arguments").or_else(|| function.get("parameters")) {
        None | Some(Value::Null) => Value::Object(Map::new()),
        Some(Value::String(text)) => serde_json::from_str(text).ok()?,
        Some(other) => other.clone(),
    };
    let is_call = arguments.is_object() && !name.is_empty();
    is_call.then(|| ToolCall { name: name.to_owned(), arguments })
}
