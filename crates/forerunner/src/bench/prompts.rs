//! Prompts of a benchmark, each of a kind: those of the demo, or files of chat messages.

use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use forerunner_lanes::TokenId;
use forerunner_text::TextModel;
use serde_json::{Map, Value};

use crate::check::cases::PROMPTS;

/// Kinds of the demo prompts, and the words that tell them; a prompt with tools is `tool` whatever it says, and what is
/// left is `other`: lists, sorting and counting.
const KINDS: [(&str, &[&str]); 4] = [
    ("math", &["plus", "times", "boxes with", "gives", "buys"]),
    ("json", &["JSON"]),
    ("code", &["Rust", "Python"]),
    ("copy", &["Repeat"]),
];

/// A chat to be continued.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Prompt {
    /// Name, for reports.
    pub(crate) name: String,
    /// What it asks for.
    pub(crate) kind: String,
    /// Chat messages.
    pub(crate) messages: Vec<Value>,
    /// Tools that may be called.
    pub(crate) tools: Option<Value>,
}

impl Prompt {
    /// Its tokens, by the model's own template.
    pub(crate) fn tokens(&self, text: &TextModel) -> anyhow::Result<Vec<TokenId>> {
        text.chat_prompt(&self.messages, self.tools.as_ref(), &Map::new())
            .with_context(|| format!("prompt {}", self.name))
    }
}

/// The prompts of some files, or the demo's when none is named.
pub(crate) fn prompts(files: &[PathBuf]) -> anyhow::Result<Vec<Prompt>> {
    if files.is_empty() {
        return read(PROMPTS, kind_of);
    }
    let mut all = Vec::new();
    for path in files {
        let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
        let of_file = kind_of_file(path);
        let prompts = read(&text, |_| of_file.clone()).with_context(|| path.display().to_string())?;
        ensure!(!prompts.is_empty(), "{} has no prompts; accepted: one JSON object a line", path.display());
        all.extend(prompts);
    }
    Ok(all)
}

/// The prompts of each kind, in the order in which kinds first appear.
pub(crate) fn by_kind<T>(items: Vec<T>, kind: impl Fn(&T) -> &str) -> Vec<(String, Vec<T>)> {
    let mut kinds: Vec<(String, Vec<T>)> = Vec::new();
    for item in items {
        match kinds.iter_mut().find(|(name, _)| name == kind(&item)) {
            Some((_, items)) => items.push(item),
            None => kinds.push((kind(&item).to_owned(), vec![item])),
        }
    }
    kinds
}

/// A file's prompts are of the kind that is its name, unless they say another.
fn kind_of_file(path: &Path) -> String {
    path.file_stem().map_or_else(|| "other".into(), |stem| stem.to_string_lossy().into_owned())
}

fn read(text: &str, kind: impl Fn(&Value) -> String) -> anyhow::Result<Vec<Prompt>> {
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    lines.map(|(index, line)| prompt(line, index + 1, &kind)).collect()
}

fn prompt(line: &str, number: usize, kind: &impl Fn(&Value) -> String) -> anyhow::Result<Prompt> {
    let entry: Value = serde_json::from_str(line).with_context(|| format!("line {number}"))?;
    let messages = entry["messages"].as_array().filter(|messages| !messages.is_empty());
    let messages = messages.with_context(|| {
        format!("line {number}: messages is {}; accepted: a list of chat messages", entry["messages"])
    })?;
    Ok(Prompt {
        name: entry["id"].as_str().map_or_else(|| format!("line {number}"), str::to_owned),
        kind: entry["kind"].as_str().map_or_else(|| kind(&entry), str::to_owned),
        messages: messages.clone(),
        tools: entry.get("tools").cloned(),
    })
}

fn kind_of(entry: &Value) -> String {
    if entry.get("tools").is_some() {
        return "tool".into();
    }
    let content = entry["messages"][0]["content"].as_str().unwrap_or_default();
    let named = KINDS.iter().find(|(_, words)| words.iter().any(|word| content.contains(word)));
    named.map_or("other", |(name, _)| name).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_demo_prompts_are_of_six_kinds() {
        let kinds = by_kind(prompts(&[]).unwrap(), |prompt| &prompt.kind);
        let mut names: Vec<&str> = kinds.iter().map(|(name, _)| name.as_str()).collect();
        names.sort_unstable();
        assert_eq!(names, ["code", "copy", "json", "math", "other", "tool"]);
        assert_eq!(kinds.iter().map(|(_, prompts)| prompts.len()).sum::<usize>(), 96);
    }

    #[test]
    fn a_prompt_may_say_its_kind_and_name() {
        let line = r#"{"id": "a", "kind": "verse", "messages": [{"role": "user", "content": "Sing"}]}"#;
        let unnamed = r#"{"messages": [{"role": "user", "content": "Sing"}]}"#;
        let read = read(&format!("{line}\n\n{unnamed}\n"), |_| "chat".into()).unwrap();
        let told: Vec<_> = read.iter().map(|prompt| (prompt.name.as_str(), prompt.kind.as_str())).collect();
        assert_eq!(told, [("a", "verse"), ("line 3", "chat")]);
    }

    #[test]
    fn a_line_without_messages_is_named() {
        let error = read("{\"messages\": []}", kind_of).unwrap_err();
        assert_eq!(error.to_string(), "line 1: messages is []; accepted: a list of chat messages");
        assert!(read("nonsense", kind_of).unwrap_err().to_string().contains("line 1"));
    }
}
