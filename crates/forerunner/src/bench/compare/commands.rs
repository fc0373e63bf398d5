//! A command as a side: how long it took, and what it wrote.

use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, ensure};
use serde_json::{Map, json};

use super::Measured;
use super::words::words;
use crate::bench::hashes;

/// Runs it to its end. One that fails has no time that could be compared.
pub(super) fn run(command: &str) -> anyhow::Result<Measured> {
    let words = words(command)?;
    let started = Instant::now();
    let output = Command::new(&words[0])
        .args(&words[1..])
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("{command} did not start"))?;
    let seconds = started.elapsed().as_secs_f64();
    let said = String::from_utf8_lossy(&output.stderr);
    let why = said.lines().last().map_or_else(String::new, |last| format!(": {last}"));
    ensure!(output.status.success(), "{command}: {}{why}", output.status);
    let hash = hashes::of_text(&String::from_utf8_lossy(&output.stdout));
    let mut raw = Map::new();
    raw.insert("output_sha256".into(), json!(hash));
    Ok(Measured { figures: vec![("seconds", seconds)], outputs: vec![("output".into(), hash)], raw })
}
