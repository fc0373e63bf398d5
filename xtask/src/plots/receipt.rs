//! Receipts of `forerunner bench`, as far as the page reads them.

use anyhow::{Context, Result};
use serde_json::Value;

use crate::workspace;

/// Where they are.
pub(super) const FOLDER: &str = "docs/receipts/bench";

/// A receipt by its file's name.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Receipt {
    pub(super) file: String,
    pub(super) json: Value,
}

/// All of them, in the order of their names.
pub(super) fn all() -> Result<Vec<Receipt>> {
    let folder = workspace::root().join(FOLDER);
    let entries = std::fs::read_dir(&folder).with_context(|| folder.display().to_string())?;
    let mut files = Vec::new();
    for entry in entries {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if name.ends_with(".json") {
            files.push(name);
        }
    }
    files.sort();
    let read = |file: String| {
        let text = workspace::read(&format!("{FOLDER}/{file}"))?;
        let json = serde_json::from_str(&text).with_context(|| file.clone())?;
        Ok(Receipt { file, json })
    };
    files.into_iter().map(read).collect()
}

impl Receipt {
    /// Which benchmark it is of.
    pub(super) fn bench(&self) -> &str {
        self.json["bench"].as_str().unwrap_or_default()
    }

    /// The command line, as it would be typed.
    pub(super) fn command(&self) -> String {
        let words = self.json["command"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let word = |(index, word): (usize, &str)| match word {
            // Where the program lay is nobody's business. A script says what runs it.
            _ if index == 0 && self.bench() != "peers" => "forerunner".to_owned(),
            word if word.is_empty() || word.contains([' ', '"']) => format!("'{word}'"),
            word => word.to_owned(),
        };
        words.enumerate().map(word).collect::<Vec<_>>().join(" ")
    }

    /// A list of objects.
    pub(super) fn list(&self, field: &str) -> &[Value] {
        self.json[field].as_array().map_or(&[], Vec::as_slice)
    }

    /// Whether a setting is on.
    pub(super) fn is_set(&self, setting: &str) -> bool {
        self.json["settings"][setting] == true
    }

    /// What it ran on, in a sentence.
    pub(super) fn machine(&self) -> String {
        let machine = &self.json["machine"];
        let text = |value: &Value| value.as_str().unwrap_or("unknown").to_owned();
        let memory = machine["memory_bytes"].as_u64().unwrap_or_default() >> 30;
        let commit =
            self.json["commit"].as_str().map_or("no commit", |commit| &commit[..commit.len().min(12)]);
        let changed = if self.json["commit_is_changed"] == true { " with changes" } else { "" };
        let device =
            self.json["device"].as_str().map_or(String::new(), |device| format!(", device {device}"));
        format!(
            "{}, {} cores, {memory} GiB, {}{device}, commit {commit}{changed}, {}",
            text(&machine["processor"]),
            machine["cores"],
            text(&machine["system"]),
            text(&self.json["date"])
        )
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_command_can_be_typed_again() {
        let command = json!(["/tmp/x/forerunner", "bench", "compare", "printf a", "b"]);
        let receipt = Receipt { file: "a".into(), json: json!({ "command": command }) };
        assert_eq!(receipt.command(), "forerunner bench compare 'printf a' b");
    }

    #[test]
    fn a_machine_is_told_with_its_commit() {
        let json = json!({
            "machine": {"processor": "P", "cores": 2, "memory_bytes": 3u64 << 30, "system": "linux"},
            "commit": "0123456789abcdef", "commit_is_changed": true, "date": "D", "device": "cpu",
        });
        let told = Receipt { file: "a".into(), json }.machine();
        assert_eq!(told, "P, 2 cores, 3 GiB, linux, device cpu, commit 0123456789ab with changes, D");
    }
}
