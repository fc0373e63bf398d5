//! Python's methods on texts, lists and mappings that templates call.

use minijinja::value::{Tuple, Value, from_args};
use minijinja::{Error, ErrorKind, State};
use minijinja_contrib::pycompat::unknown_method_callback;

/// Calls a method by its Python name: those below, and all that `minijinja_contrib` knows.
pub(super) fn call(
    state: &mut State,
    value: &Value,
    method: &str,
    arguments: &[Value],
) -> Result<Value, Error> {
    match value.as_str().map(|text| text_method(text, method, arguments)) {
        Some(Ok(Some(result))) => Ok(result),
        Some(Err(error)) => Err(error),
        Some(Ok(None)) | None => unknown_method_callback(state, value, method, arguments),
    }
}

fn text_method(text: &str, method: &str, arguments: &[Value]) -> Result<Option<Value>, Error> {
    let result = match method {
        "removeprefix" => {
            let (prefix,): (&str,) = from_args(arguments)?;
            Value::from(text.strip_prefix(prefix).unwrap_or(text))
        }
        "removesuffix" => {
            let (suffix,): (&str,) = from_args(arguments)?;
            Value::from(text.strip_suffix(suffix).unwrap_or(text))
        }
        "partition" => {
            let (separator,): (&str,) = from_args(arguments)?;
            let (before, after) = not_empty(separator, text.split_once(separator))?.unwrap_or((text, ""));
            parts(text, before, separator, after)
        }
        "rpartition" => {
            let (separator,): (&str,) = from_args(arguments)?;
            let (before, after) = not_empty(separator, text.rsplit_once(separator))?.unwrap_or(("", text));
            parts(text, before, separator, after)
        }
        "rsplit" => {
            let (separator, splits_max): (&str, Option<usize>) = from_args(arguments)?;
            let pieces_max = splits_max.map_or(usize::MAX, |splits| splits + 1);
            let mut pieces: Vec<&str> = not_empty(separator, text.rsplitn(pieces_max, separator))?.collect();
            pieces.reverse();
            pieces.into_iter().collect()
        }
        _ => return Ok(None),
    };
    Ok(Some(result))
}

/// The three parts of a partition; the separator is one of them if the text has it.
fn parts(text: &str, before: &str, separator: &str, after: &str) -> Value {
    let middle = if before.len() + after.len() == text.len() { "" } else { separator };
    Tuple::from([before, middle, after].map(Value::from)).into()
}

fn not_empty<T>(separator: &str, result: T) -> Result<T, Error> {
    if separator.is_empty() {
        return Err(Error::new(ErrorKind::InvalidOperation, "an empty separator splits nothing"));
    }
    Ok(result)
}
