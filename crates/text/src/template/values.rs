//! JSON, as clients send it, to the values that a template works on.

use minijinja::value::Value as TemplateValue;
use serde_json::{Map, Value};

use crate::TextError;
use crate::config::kind;

/// Any JSON value, with the keys of objects in their order.
pub(super) fn value(json: &Value) -> TemplateValue {
    match json {
        Value::Null => ().into(),
        Value::Bool(boolean) => (*boolean).into(),
        Value::Number(number) => match (number.as_i64(), number.as_u64()) {
            (Some(integer), _) => integer.into(),
            (None, Some(integer)) => integer.into(),
            (None, None) => number.as_f64().unwrap_or(f64::NAN).into(),
        },
        Value::String(text) => text.into(),
        Value::Array(items) => items.iter().map(value).collect::<Vec<_>>().into(),
        Value::Object(fields) => object(fields),
    }
}

/// The messages of a chat. A tool call's arguments may be an object or its JSON in a text, as chat APIs send it;
/// templates work on the object.
pub(super) fn messages(messages: &[Value]) -> Result<TemplateValue, TextError> {
    let check = |(index, message): (usize, &Value)| checked_message(index, message);
    Ok(messages.iter().enumerate().map(check).collect::<Result<Vec<_>, _>>()?.into())
}

fn object(fields: &Map<String, Value>) -> TemplateValue {
    TemplateValue::from_pairs(fields.iter().map(|(name, field)| (name.as_str(), value(field))))
}

fn checked_message(index: usize, message: &Value) -> Result<TemplateValue, TextError> {
    let Some(fields) = message.as_object() else {
        return Err(wrong(index, "", message, "an object"));
    };
    let role = fields.get("role").unwrap_or(&Value::Null);
    if !role.is_string() {
        return Err(wrong(index, ".role", role, "a text such as system, user, assistant or tool"));
    }
    match fields.get("tool_calls") {
        None | Some(Value::Null) => Ok(object(fields)),
        Some(Value::Array(calls)) => {
            let mut fields = fields.clone();
            let calls = calls.iter().enumerate().map(|(call, value)| checked_call(index, call, value));
            fields["tool_calls"] = Value::Array(calls.collect::<Result<_, _>>()?);
            Ok(object(&fields))
        }
        Some(other) => Err(wrong(index, ".tool_calls", other, "a list")),
    }
}

/// A call is `{"function": {"name": .., "arguments": ..}}`, or the inner object alone.
fn checked_call(index: usize, call_index: usize, call: &Value) -> Result<Value, TextError> {
    let mut call = call.clone();
    let function = if call.get("function").is_some() { &mut call["function"] } else { &mut call };
    let Some(arguments) = function.get_mut("arguments") else { return Ok(call) };
    if let Value::String(text) = arguments {
        let field = format!(".tool_calls[{call_index}].function.arguments");
        *arguments = parsed_arguments(text).ok_or_else(|| TextError::Message {
            index,
            field,
            found: format!("{text:?}"),
            accepted: "an object, or an object's JSON in a text",
        })?;
    }
    Ok(call)
}

fn parsed_arguments(text: &str) -> Option<Value> {
    if text.trim().is_empty() {
        return Some(Value::Object(Map::new()));
    }
    serde_json::from_str(text).ok().filter(Value::is_object)
}

fn wrong(index: usize, field: &str, found: &Value, accepted: &'static str) -> TextError {
    TextError::Message { index, field: field.to_owned(), found: kind(found).to_owned(), accepted }
}
