//! The `tojson` filter: Python's `json.dumps` with the defaults that transformers gives it.

use minijinja::value::{Kwargs, Value, ValueKind};
use minijinja::{Error, ErrorKind};

use super::python;

/// Writes a value as `json.dumps(value, ensure_ascii=False)` does, with its options `indent`, `separators`,
/// `ensure_ascii` and `sort_keys`.
pub(super) fn dumps(value: &Value, options: &Kwargs) -> Result<String, Error> {
    let style = Style::from_options(options)?;
    let mut text = String::new();
    style.write(value, 0, &mut text)?;
    Ok(text)
}

struct Style {
    indent: Option<String>,
    between_items: String,
    after_key: String,
    ensure_ascii: bool,
    sort_keys: bool,
}

impl Style {
    fn from_options(options: &Kwargs) -> Result<Style, Error> {
        let indent = indent(options.get::<Option<Value>>("indent")?)?;
        let (between_items, after_key) = match options.get::<Option<Value>>("separators")? {
            Some(pair) => (pair.get_item_by_index(0)?.to_string(), pair.get_item_by_index(1)?.to_string()),
            None if indent.is_some() => (",".to_owned(), ": ".to_owned()),
            None => (", ".to_owned(), ": ".to_owned()),
        };
        let ensure_ascii = options.get::<Option<bool>>("ensure_ascii")?.unwrap_or(false);
        let sort_keys = options.get::<Option<bool>>("sort_keys")?.unwrap_or(false);
        options.assert_all_used()?;
        Ok(Style { indent, between_items, after_key, ensure_ascii, sort_keys })
    }

    fn write(&self, value: &Value, depth: usize, text: &mut String) -> Result<(), Error> {
        match value.kind() {
            ValueKind::None => text.push_str("null"),
            ValueKind::Bool => text.push_str(if value.is_true() { "true" } else { "false" }),
            ValueKind::Number => text.push_str(&number(value)),
            ValueKind::String => self.write_string(value.as_str().unwrap_or_default(), text),
            ValueKind::Seq | ValueKind::Iterable => self.write_list(value, depth, text)?,
            ValueKind::Map => self.write_object(value, depth, text)?,
            kind => {
                let message = format!("{kind} cannot be written as JSON");
                return Err(Error::new(ErrorKind::InvalidOperation, message));
            }
        }
        Ok(())
    }

    fn write_list(&self, value: &Value, depth: usize, text: &mut String) -> Result<(), Error> {
        let mut is_empty = true;
        text.push('[');
        for item in value.try_iter()? {
            self.begin_item(is_empty, depth + 1, text);
            self.write(&item, depth + 1, text)?;
            is_empty = false;
        }
        self.end_items(is_empty, depth, text);
        text.push(']');
        Ok(())
    }

    fn write_object(&self, value: &Value, depth: usize, text: &mut String) -> Result<(), Error> {
        let mut keys: Vec<(String, Value)> = Vec::new();
        for key in value.try_iter()? {
            keys.push((self.key(&key)?, key));
        }
        if self.sort_keys {
            keys.sort_by(|(left, _), (right, _)| left.cmp(right));
        }
        text.push('{');
        for (index, (name, key)) in keys.iter().enumerate() {
            self.begin_item(index == 0, depth + 1, text);
            self.write_string(name, text);
            text.push_str(&self.after_key);
            self.write(&value.get_item(key)?, depth + 1, text)?;
        }
        self.end_items(keys.is_empty(), depth, text);
        text.push('}');
        Ok(())
    }

    /// A key is a text; a number, a boolean or null becomes one.
    fn key(&self, key: &Value) -> Result<String, Error> {
        let mut name = String::new();
        match key.as_str() {
            Some(text) => name.push_str(text),
            None => self.write(key, 0, &mut name)?,
        }
        Ok(name)
    }

    fn begin_item(&self, is_first: bool, depth: usize, text: &mut String) {
        if !is_first {
            text.push_str(&self.between_items);
        }
        self.break_line(depth, text);
    }

    fn end_items(&self, is_empty: bool, depth: usize, text: &mut String) {
        if !is_empty {
            self.break_line(depth, text);
        }
    }

    fn break_line(&self, depth: usize, text: &mut String) {
        if let Some(indent) = &self.indent {
            text.push('\n');
            text.push_str(&indent.repeat(depth));
        }
    }

    fn write_string(&self, string: &str, text: &mut String) {
        let quoted = serde_json::Value::from(string).to_string();
        for character in quoted.chars() {
            if matches!(character, ' '..='~') || !self.ensure_ascii {
                text.push(character);
                continue;
            }
            for unit in character.encode_utf16(&mut [0; 2]) {
                text.push_str(&format!("\\u{unit:04x}"));
            }
        }
    }
}

/// Most blanks of an indentation: one that is wrong must not take all memory.
const WIDEST: usize = 64;

fn indent(value: Option<Value>) -> Result<Option<String>, Error> {
    let Some(value) = value.filter(|value| !value.is_none()) else { return Ok(None) };
    if let Some(text) = value.as_str() {
        return Ok(Some(text.to_owned()));
    }
    let width = usize::try_from(value.clone()).ok().filter(|width| *width <= WIDEST).ok_or_else(|| {
        let message = format!("tojson's indent is {value}; accepted: a text, or a number of 0 to {WIDEST}");
        Error::new(ErrorKind::InvalidOperation, message)
    })?;
    Ok(Some(" ".repeat(width)))
}

/// As Python, with its own words for what JSON has no numbers for.
fn number(value: &Value) -> String {
    match python::number(value).as_str() {
        "nan" => "NaN".to_owned(),
        "inf" => "Infinity".to_owned(),
        "-inf" => "-Infinity".to_owned(),
        number => number.to_owned(),
    }
}
