//! Paths that the documents name exist.

use crate::tidy::Violation;

/// The paths that a Markdown file names, in backticks or as links, and that do not exist.
///
/// In backticks, a path is what has a slash and starts with a folder of the root or ends with `.rs`, or a name that ends
/// with `.md`. Web addresses, routes, flags, patterns and fenced code are not paths.
pub(crate) fn missing(path: &str, text: &str, exists: &dyn Fn(&str) -> bool) -> Vec<Violation> {
    let mut violations = Vec::new();
    let mut is_fenced = false;
    for (index, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            is_fenced = !is_fenced;
        }
        if is_fenced {
            continue;
        }
        let named = in_backticks(line).filter(|name| is_path(name, exists)).chain(linked(line));
        for name in named.filter(|name| !exists(name)) {
            let message = format!("{name} does not exist");
            violations.push(Violation { path: path.to_owned(), line: index + 1, message });
        }
    }
    violations
}

fn in_backticks(line: &str) -> impl Iterator<Item = &str> {
    line.split('`').skip(1).step_by(2)
}

/// The targets of `[text](target)` that are files of the repository.
fn linked(line: &str) -> impl Iterator<Item = &str> {
    let targets = line.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    targets
        .map(|target| target.split('#').next().unwrap_or_default())
        .filter(|target| !target.is_empty() && !target.contains("://") && !target.starts_with("mailto:"))
}

fn is_path(name: &str, exists: &dyn Fn(&str) -> bool) -> bool {
    let is_plain =
        name.chars().all(|character| character.is_ascii_alphanumeric() || "_-./".contains(character));
    if !is_plain || name.starts_with(['/', '-']) || name.starts_with("..") {
        return false;
    }
    match name.split_once('/') {
        Some((first, _)) => name.ends_with(".rs") || exists(first),
        None => name.ends_with(".md"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &[&str]) {
        let exists =
            |path: &str| ["crates", "crates/lanes/src/lib.rs", "crates/lanes/", "README.md"].contains(&path);
        let found: Vec<String> =
            missing("a.md", text, &exists).iter().map(|violation| violation.message.clone()).collect();
        let expected: Vec<String> = expected.iter().map(|name| format!("{name} does not exist")).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn missing_paths_are_found() {
        check(
            "See `crates/lanes/src/gone.rs` and `crates/nowhere/`.",
            &["crates/lanes/src/gone.rs", "crates/nowhere/"],
        );
        check("`crate/lanes/src/lib.rs`", &["crate/lanes/src/lib.rs"]);
        check("`GONE.md` and [the plan](PLAN.md#start)", &["GONE.md", "PLAN.md"]);
    }

    #[test]
    fn existing_paths_pass() {
        check("`crates/lanes/src/lib.rs`, `crates/lanes/`, `README.md`, [read](README.md#use)", &[]);
    }

    #[test]
    fn what_is_no_path_passes() {
        check(
            "`/v1/models` `--model` `ORG/NAME` `crates/*` `cargo run` `tokens/s` `../shared/x.md` `config.json`",
            &[],
        );
        check("[site](https://example.org/a.md) [part](#start)", &[]);
        check("```\n`crates/gone.rs`\n```\n", &[]);
    }
}
