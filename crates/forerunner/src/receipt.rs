//! What a check or a benchmark leaves behind: its command, commit, machine and model, then everything that it found.

use anyhow::Context;
use forerunner_text::Moment;
use serde_json::{Map, Value, json};

use crate::flags::ReceiptFlags;
use crate::machine;

/// A receipt in the making: a JSON object. Those of benchmarks have the fields of vLLM's results as well.
pub(crate) struct Receipt(Map<String, Value>);

impl Receipt {
    /// The receipt of a benchmark that begins now.
    pub(crate) fn of_bench(bench: &str) -> Self {
        let mut receipt = Receipt::new();
        receipt.set("bench", bench);
        receipt
    }

    /// A receipt with what it was made by and on.
    pub(crate) fn new() -> Self {
        let (commit, changed) = machine::commit().unzip();
        let mut receipt = Receipt(Map::new());
        receipt.set("date", Moment::now().to_string());
        receipt.set("command", std::env::args().collect::<Vec<_>>());
        receipt.set("version", env!("CARGO_PKG_VERSION"));
        receipt.set("commit", commit);
        receipt.set("commit_is_changed", changed);
        receipt.set("machine", machine::machine());
        receipt
    }

    /// Sets a field.
    pub(crate) fn set(&mut self, field: &str, value: impl Into<Value>) {
        self.0.insert(field.to_owned(), value.into());
    }

    /// Sets the fields of an object.
    pub(crate) fn extend(&mut self, fields: Map<String, Value>) {
        self.0.extend(fields);
    }

    /// Writes it, if a file is named.
    pub(crate) fn write(mut self, flags: &ReceiptFlags) -> anyhow::Result<()> {
        let Some(path) = &flags.receipt else { return Ok(()) };
        self.set("note", flags.note.clone());
        self.set("peak_memory_bytes", json!(machine::peak_memory_bytes()));
        let mut json = serde_json::to_vec(&Value::Object(self.0))?;
        json.push(b'\n');
        std::fs::write(path, json).with_context(|| format!("writing {} failed", path.display()))
    }
}
