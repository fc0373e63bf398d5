//! What tokenizer_config.json says: the special tokens' names and the chat template.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use crate::TextError;

/// tokenizer_config.json, as far as this crate reads it. A folder without the file has an empty one.
#[derive(Debug)]
pub(crate) struct TokenizerConfig {
    pub(crate) path: PathBuf,
    fields: Map<String, Value>,
}

impl TokenizerConfig {
    pub(crate) fn open(dir: &Path) -> Result<TokenizerConfig, TextError> {
        let path = dir.join("tokenizer_config.json");
        let Some(text) = read_optional(&path)? else {
            return Ok(TokenizerConfig { path, fields: Map::new() });
        };
        match serde_json::from_str(&text) {
            Ok(Value::Object(fields)) => Ok(TokenizerConfig { path, fields }),
            Ok(other) => Err(TextError::Field {
                path,
                field: "the whole file".to_owned(),
                found: kind(&other).to_owned(),
                accepted: "an object",
            }),
            Err(source) => Err(TextError::Json { path, source }),
        }
    }

    /// The name of a special token, which is a text or an object with the text as its `content`.
    pub(crate) fn special_token(&self, field: &str) -> Result<Option<String>, TextError> {
        let value = self.fields.get(field).unwrap_or(&Value::Null);
        match value.get("content").unwrap_or(value) {
            Value::Null => Ok(None),
            Value::String(name) => Ok(Some(name.clone())),
            other => Err(self.field(field, other, "a text, null, or an object with the text as its content")),
        }
    }

    /// All `*_token` fields that name a token, as templates see them.
    pub(crate) fn special_tokens(&self) -> Result<Vec<(String, String)>, TextError> {
        let mut tokens = Vec::new();
        let names = self.fields.iter().filter(|(name, value)| {
            name.ends_with("_token") && (value.is_string() || value.get("content").is_some())
        });
        for (field, _) in names {
            if let Some(token) = self.special_token(field)? {
                tokens.push((field.clone(), token));
            }
        }
        Ok(tokens)
    }

    /// The chat templates with their names: one text is the template `default`.
    pub(crate) fn chat_templates(&self) -> Result<Vec<(String, String)>, TextError> {
        match self.fields.get("chat_template") {
            None | Some(Value::Null) => Ok(Vec::new()),
            Some(Value::String(source)) => Ok(vec![("default".to_owned(), source.clone())]),
            Some(Value::Array(entries)) => entries.iter().map(|entry| self.named_template(entry)).collect(),
            Some(other) => Err(self.field("chat_template", other, "a text or a list of named templates")),
        }
    }

    fn named_template(&self, entry: &Value) -> Result<(String, String), TextError> {
        match (entry["name"].as_str(), entry["template"].as_str()) {
            (Some(name), Some(source)) => Ok((name.to_owned(), source.to_owned())),
            _ => Err(self.field("chat_template", entry, "a list of objects with a name and a template")),
        }
    }

    fn field(&self, field: &str, found: &Value, accepted: &'static str) -> TextError {
        let (path, field, found) = (self.path.clone(), field.to_owned(), kind(found).to_owned());
        TextError::Field { path, field, found, accepted }
    }
}

/// Reads a text file that need not exist.
pub(crate) fn read_optional(path: &Path) -> Result<Option<String>, TextError> {
    match std::fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(TextError::Read { path: path.to_owned(), source }),
    }
}

/// What a JSON value is, in words for an error.
pub(crate) fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}
