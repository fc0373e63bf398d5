//! Typed access to a JSON object whose every mistake is reported with file, field, found and accepted.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use crate::CheckpointError;

/// Largest size, count or token id accepted: products of two of them cannot overflow.
const COUNT_MAX: u64 = i32::MAX as u64;

/// An object in a JSON file. `null` counts as absent.
pub(crate) struct Fields<'a> {
    file: &'a Path,
    /// Path of this object in the file: `"rope_parameters."`, or nothing for the whole.
    prefix: String,
    map: &'a Map<String, Value>,
}

/// The object in `file`.
pub(crate) fn read_json(file: &Path) -> Result<Map<String, Value>, CheckpointError> {
    let text =
        std::fs::read(file).map_err(|source| CheckpointError::Io { path: PathBuf::from(file), source })?;
    serde_json::from_slice(&text)
        .map_err(|source| CheckpointError::InvalidJson { path: PathBuf::from(file), source })
}

/// A value as it stands in the file, cut where a message would become unreadable.
pub(crate) fn shorten(value: &Value) -> String {
    const CHARACTERS_MAX: usize = 80;
    let text = value.to_string();
    match text.char_indices().nth(CHARACTERS_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

impl<'a> Fields<'a> {
    /// The whole object of `file`.
    pub(crate) fn new(file: &'a Path, map: &'a Map<String, Value>) -> Self {
        Fields { file, prefix: String::new(), map }
    }

    /// The value of `name`, unless absent.
    pub(crate) fn value(&self, name: &str) -> Option<&'a Value> {
        self.map.get(name).filter(|value| !value.is_null())
    }

    /// Every field.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&'a str, &'a Value)> {
        self.map.iter().map(|(name, value)| (name.as_str(), value))
    }

    /// The object `name`, unless absent.
    pub(crate) fn section(&self, name: &str) -> Result<Option<Fields<'a>>, CheckpointError> {
        let Some(value) = self.value(name) else { return Ok(None) };
        let map = value.as_object().ok_or_else(|| self.invalid(name, value, "an object"))?;
        Ok(Some(Fields { file: self.file, prefix: format!("{}{name}.", self.prefix), map }))
    }

    /// A whole number from 1.
    pub(crate) fn count(&self, name: &str) -> Result<usize, CheckpointError> {
        self.count_in(name, 1, COUNT_MAX as usize)
    }

    /// A whole number from `low` to `high`.
    pub(crate) fn count_in(&self, name: &str, low: usize, high: usize) -> Result<usize, CheckpointError> {
        let accepted = format!("a whole number from {low} to {high}");
        let value = self.value(name).ok_or_else(|| self.missing(name, &accepted))?;
        self.whole(name, value, low, high)
    }

    /// A number of `low..=high`, or `default` when absent.
    pub(crate) fn number_or(
        &self,
        name: &str,
        low: f64,
        high: f64,
        default: f32,
    ) -> Result<f32, CheckpointError> {
        match self.value(name) {
            None => Ok(default),
            Some(_) => self.number(name, low, high),
        }
    }

    /// A number of `low..=high`.
    pub(crate) fn number(&self, name: &str, low: f64, high: f64) -> Result<f32, CheckpointError> {
        let accepted = format!("a number from {low:e} to {high:e}");
        let value = self.value(name).ok_or_else(|| self.missing(name, &accepted))?;
        match value.as_f64() {
            Some(number) if (low..=high).contains(&number) => Ok(number as f32),
            _ => Err(self.invalid(name, value, &accepted)),
        }
    }

    /// True or false, unless absent.
    pub(crate) fn flag(&self, name: &str) -> Result<Option<bool>, CheckpointError> {
        let Some(value) = self.value(name) else { return Ok(None) };
        match value.as_bool() {
            Some(flag) => Ok(Some(flag)),
            None => Err(self.invalid(name, value, "true or false")),
        }
    }

    /// Refuses `name` when it says the opposite of `supported`; absent is accepted.
    pub(crate) fn only_flag(&self, name: &str, supported: bool) -> Result<(), CheckpointError> {
        match self.flag(name)? {
            Some(flag) if flag != supported => {
                Err(self.unknown(name, &Value::Bool(flag), &supported.to_string()))
            }
            _ => Ok(()),
        }
    }

    /// Refuses a string `name` outside `supported`; absent is accepted.
    pub(crate) fn only_text(&self, name: &str, supported: &[&str]) -> Result<(), CheckpointError> {
        match self.value(name) {
            Some(value) if !value.as_str().is_some_and(|text| supported.contains(&text)) => {
                Err(self.unknown(name, value, &quoted(supported)))
            }
            _ => Ok(()),
        }
    }

    /// A string that must be there and be one of `supported`.
    pub(crate) fn required_text(&self, name: &str, supported: &[&str]) -> Result<&'a str, CheckpointError> {
        self.only_text(name, supported)?;
        let text = self.value(name).and_then(Value::as_str);
        text.ok_or_else(|| self.missing(name, &quoted(supported)))
    }

    /// A list, unless absent.
    pub(crate) fn list(&self, name: &str) -> Result<Option<&'a [Value]>, CheckpointError> {
        let Some(value) = self.value(name) else { return Ok(None) };
        match value.as_array() {
            Some(list) => Ok(Some(list)),
            None => Err(self.invalid(name, value, "a list")),
        }
    }

    /// `value`, found at `name`, as a whole number from `low` to `high`.
    pub(crate) fn whole(
        &self,
        name: &str,
        value: &Value,
        low: usize,
        high: usize,
    ) -> Result<usize, CheckpointError> {
        // Some exporters write 7.0 for 7.
        let whole = value.as_u64().or_else(|| {
            value
                .as_f64()
                .filter(|n| n.fract() == 0.0 && (0.0..=COUNT_MAX as f64).contains(n))
                .map(|n| n as u64)
        });
        match whole {
            Some(number) if (low as u64..=high as u64).contains(&number) => Ok(number as usize),
            _ => Err(self.invalid(name, value, &format!("a whole number from {low} to {high}"))),
        }
    }

    /// `name` is absent and must not be.
    pub(crate) fn missing(&self, name: &str, accepted: &str) -> CheckpointError {
        CheckpointError::MissingField {
            path: self.file.into(),
            field: format!("{}{name}", self.prefix),
            accepted: accepted.into(),
        }
    }

    /// `name` has a value of the wrong kind or out of range.
    pub(crate) fn invalid(&self, name: &str, found: &Value, accepted: &str) -> CheckpointError {
        CheckpointError::InvalidField {
            path: self.file.into(),
            field: format!("{}{name}", self.prefix),
            found: shorten(found),
            accepted: accepted.into(),
        }
    }

    /// `name` chooses something that is not supported.
    pub(crate) fn unknown(&self, name: &str, found: &Value, accepted: &str) -> CheckpointError {
        CheckpointError::UnknownValue {
            path: self.file.into(),
            field: format!("{}{name}", self.prefix),
            found: shorten(found),
            accepted: accepted.into(),
        }
    }
}

fn quoted(names: &[&str]) -> String {
    names.iter().map(|name| format!("\"{name}\"")).collect::<Vec<_>>().join(", ")
}
