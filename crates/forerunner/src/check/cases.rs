//! The prompts of the gates: chat, arithmetic, JSON, code, copies and tool calls.

use anyhow::{Context, ensure};
use forerunner_engine::gates::GateCase;
use forerunner_text::TextModel;
use serde_json::{Map, Value};

/// Chat messages, one JSON object a line, some with tools.
pub(crate) const PROMPTS: &str = include_str!("../../../../assets/demo/prompts.jsonl");

/// The first `count` prompts, rendered by the model's own template.
pub(crate) fn cases(text: &TextModel, count: usize) -> anyhow::Result<Vec<GateCase>> {
    let all = PROMPTS.lines().count();
    ensure!((1..=all).contains(&count), "--prompts is {count}; accepted: 1 to {all}");
    PROMPTS.lines().take(count).map(|line| case(text, line)).collect()
}

fn case(text: &TextModel, line: &str) -> anyhow::Result<GateCase> {
    let entry: Value = serde_json::from_str(line)?;
    let name = entry["id"].as_str().unwrap_or("unnamed").to_owned();
    let messages = entry["messages"].as_array().context("a prompt has messages")?;
    let prompt = text.chat_prompt(messages, entry.get("tools"), &Map::new())?;
    Ok(GateCase { name, prompt })
}
