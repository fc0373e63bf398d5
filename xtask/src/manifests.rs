//! Every package says what it is: what a registry shows, and what packagers ask for.

use anyhow::{Context, Result};
use serde_json::Value;

use crate::tidy::Violation;

/// What a package must say, as `cargo metadata` names it.
const FIELDS: [&str; 6] = ["description", "license", "repository", "readme", "keywords", "categories"];

/// Most keywords that the registry takes, and most letters of one.
const MOST_KEYWORDS: usize = 5;
const LONGEST_KEYWORD: usize = 20;

/// What the packages that `cargo metadata` printed lack.
pub(crate) fn check(metadata: &Value) -> Result<Vec<Violation>> {
    let packages = metadata["packages"].as_array().context("cargo metadata lists no packages")?;
    Ok(packages.iter().flat_map(check_package).collect())
}

fn check_package(package: &Value) -> Vec<Violation> {
    let name = package["name"].as_str().unwrap_or_default();
    let violation = |message: String| Violation { path: format!("{name}'s Cargo.toml"), line: 1, message };
    let lacking = FIELDS.into_iter().filter(|field| is_empty(&package[*field]));
    let mut violations: Vec<_> =
        lacking.map(|field| violation(format!("has no {field}; inherit it from the workspace"))).collect();
    let keywords: Vec<&str> =
        package["keywords"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    if keywords.len() > MOST_KEYWORDS || keywords.iter().any(|keyword| keyword.len() > LONGEST_KEYWORD) {
        violations.push(violation(format!(
            "keywords are {}; accepted: {MOST_KEYWORDS} of {LONGEST_KEYWORD} letters",
            keywords.join(", ")
        )));
    }
    violations
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::String(text) => text.trim().is_empty(),
        Value::Array(items) => items.is_empty(),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn whole() -> Value {
        json!({"name": "a", "description": "A.", "license": "MIT", "repository": "https://a", "readme": "README.md",
            "keywords": ["a"], "categories": ["science"]})
    }

    #[track_caller]
    fn check_one(field: &str, value: Value, expected: &[&str]) {
        let mut package = whole();
        package[field] = value;
        let found = check(&json!({"packages": [package]})).unwrap();
        assert_eq!(found.len(), expected.len(), "{found:?}");
        for (violation, part) in found.iter().zip(expected) {
            assert!(violation.message.contains(part), "{violation}");
        }
    }

    #[test]
    fn what_is_lacking_is_named() {
        check_one("description", json!("B."), &[]);
        check_one("description", Value::Null, &["has no description"]);
        check_one("license", json!(" "), &["has no license"]);
        check_one("keywords", json!([]), &["has no keywords"]);
        check_one("keywords", json!(["a", "b", "c", "d", "e", "f"]), &["accepted: 5"]);
        check_one("keywords", json!(["a-word-of-many-letters"]), &["accepted: 5 of 20 letters"]);
    }
}
