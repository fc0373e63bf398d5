//! Every crate that may be linked has a permissive licence and comes from crates.io, as `deny.toml` says.

use anyhow::{Context, Result};
use serde_json::Value;

use crate::tidy::Violation;

/// The settings that this check and `cargo deny` share.
pub(crate) const SETTINGS: &str = "deny.toml";

/// The values of a list in the settings, which stands on one line.
fn list<'a>(settings: &'a str, name: &str) -> Result<Vec<&'a str>> {
    let is_named =
        |line: &&str| line.strip_prefix(name).is_some_and(|rest| rest.trim_start().starts_with('='));
    let line = settings.lines().find(is_named).with_context(|| format!("{SETTINGS} has no {name}"))?;
    Ok(line.split('"').skip(1).step_by(2).collect())
}

/// Checks all packages of `cargo metadata`, ours and others.
pub(crate) fn check(metadata: &Value, settings: &str) -> Result<Vec<Violation>> {
    let licences = list(settings, "allow")?;
    let registries = list(settings, "allow-registry")?;
    let packages = metadata["packages"].as_array().context("cargo metadata lists no packages")?;
    let messages = packages.iter().filter_map(|package| complaint(package, &licences, &registries));
    Ok(messages.map(|message| Violation { path: SETTINGS.to_owned(), line: 1, message }).collect())
}

fn complaint(package: &Value, licences: &[&str], registries: &[&str]) -> Option<String> {
    let name = package["name"].as_str().unwrap_or_default();
    if let Some(source) = package["source"].as_str() {
        let is_known =
            source.strip_prefix("registry+").is_some_and(|registry| registries.contains(&registry));
        if !is_known {
            return Some(format!("{name} comes from {source}, accepted: {}", registries.join(", ")));
        }
    }
    let expression = package["license"].as_str().unwrap_or("not stated");
    let is_allowed = Expression::new(expression).allowed_by(licences);
    (!is_allowed).then(|| format!("{name}'s licence is {expression}, accepted: {}", licences.join(", ")))
}

/// An SPDX expression, read from left to right: `OR` of `AND` of names and parentheses; old crates write `/` for `OR`.
struct Expression<'a> {
    words: Vec<&'a str>,
    position: usize,
}

impl<'a> Expression<'a> {
    fn new(text: &'a str) -> Expression<'a> {
        let is_mark = |character: char| "()/".contains(character);
        let mut words = Vec::new();
        for word in text.split_whitespace() {
            words.extend(word.split_inclusive(is_mark).flat_map(|part| {
                let name = part.trim_end_matches(is_mark);
                [name, &part[name.len()..]]
            }));
        }
        words.retain(|word| !word.is_empty());
        Expression { words, position: 0 }
    }

    /// Whether a choice exists in which every licence is on the list.
    fn allowed_by(mut self, licences: &[&str]) -> bool {
        self.any(licences) && self.position == self.words.len()
    }

    fn any(&mut self, licences: &[&str]) -> bool {
        let mut is_allowed = self.all(licences);
        while self.take("OR") || self.take("/") {
            is_allowed |= self.all(licences);
        }
        is_allowed
    }

    fn all(&mut self, licences: &[&str]) -> bool {
        let mut is_allowed = self.one(licences);
        while self.take("AND") {
            is_allowed &= self.one(licences);
        }
        is_allowed
    }

    fn one(&mut self, licences: &[&str]) -> bool {
        if self.take("(") {
            return self.any(licences) & self.take(")");
        }
        let Some(name) = self.words.get(self.position).copied() else { return false };
        self.position += 1;
        if self.take("WITH") {
            // An exception gives more rights, but is not judged here: such a crate needs another choice.
            self.position += 1;
            return false;
        }
        licences.contains(&name)
    }

    fn take(&mut self, word: &str) -> bool {
        let is_next = self.words.get(self.position) == Some(&word);
        self.position += usize::from(is_next);
        is_next
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const SETTINGS_HERE: &str = "[licenses]\nallow = [\"MIT\", \"Zlib\"]\nallow-registry = [\"https://a\"]\n";

    #[track_caller]
    fn check_one(licence: Value, source: Option<&str>, expected: &[&str]) {
        let metadata = json!({"packages": [{"name": "x", "license": licence, "source": source}]});
        let found = check(&metadata, SETTINGS_HERE).unwrap();
        assert_eq!(found.len(), expected.len(), "{found:?}");
        for (violation, part) in found.iter().zip(expected) {
            assert!(violation.message.contains(part), "{:?} lacks {part:?}", violation.message);
        }
    }

    #[test]
    fn permissive_licences_pass() {
        let expressions = [
            "MIT",
            "MIT OR GPL-3.0",
            "GPL-3.0/MIT",
            "MIT AND Zlib",
            "(GPL-3.0 OR MIT) AND Zlib",
            "A WITH e OR MIT",
        ];
        for expression in expressions {
            check_one(json!(expression), Some("registry+https://a"), &[]);
        }
    }

    #[test]
    fn other_licences_are_named() {
        for expression in ["GPL-3.0", "MIT AND GPL-3.0", "MIT WITH e", "", "MIT MIT", "(MIT"] {
            check_one(json!(expression), None, &["x's licence is"]);
        }
        check_one(Value::Null, None, &["not stated, accepted: MIT, Zlib"]);
    }

    #[test]
    fn other_sources_are_named() {
        check_one(json!("MIT"), Some("git+https://a"), &["comes from git+https://a"]);
        check_one(json!("MIT"), Some("registry+https://b"), &["accepted: https://a"]);
    }

    #[test]
    fn settings_without_a_list_are_an_error() {
        assert!(check(&json!({"packages": []}), "[licenses]\n").is_err());
    }
}
