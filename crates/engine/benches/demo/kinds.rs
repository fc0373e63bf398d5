//! The demo prompts, sorted by what they ask for.

use forerunner_lanes::TokenId;
use forerunner_text::TextModel;
use serde_json::{Map, Value};

use crate::support::demo;

/// Kinds, and the words that tell them; a prompt with tools is `tool` whatever it says.
const KINDS: [(&str, &[&str]); 4] = [
    ("math", &["plus", "times", "boxes with", "gives", "buys"]),
    ("json", &["JSON"]),
    ("code", &["Rust", "Python"]),
    ("copy", &["Repeat"]),
];

/// The prompts of each kind, rendered and tokenized; `other` are lists, sorting and counting.
pub(crate) fn prompts_by_kind(text: &TextModel) -> Vec<(&'static str, Vec<Vec<TokenId>>)> {
    let file = std::fs::read_to_string(demo("prompts.jsonl")).expect("the demo prompts");
    let mut kinds: Vec<(&'static str, Vec<Vec<TokenId>>)> = ["tool"]
        .into_iter()
        .chain(KINDS.iter().map(|kind| kind.0))
        .chain(["other"])
        .map(|name| (name, Vec::new()))
        .collect();
    for line in file.lines() {
        let entry: Value = serde_json::from_str(line).expect("a prompt is JSON");
        let messages = entry["messages"].as_array().expect("messages");
        let prompt = text.chat_prompt(messages, entry.get("tools"), &Map::new()).expect("a prompt renders");
        let kind = kind_of(&entry);
        kinds.iter_mut().find(|(name, _)| *name == kind).expect("a kind").1.push(prompt);
    }
    kinds
}

fn kind_of(entry: &Value) -> &'static str {
    if entry.get("tools").is_some() {
        return "tool";
    }
    let content = entry["messages"][0]["content"].as_str().expect("text");
    let named = KINDS.iter().find(|(_, words)| words.iter().any(|word| content.contains(word)));
    named.map_or("other", |(name, _)| name)
}
