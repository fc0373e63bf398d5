//! Paths that documents and comments name exist.

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
        let in_backticks = in_backticks(line).filter(|name| is_path(name, exists)).map(str::to_owned);
        let named = in_backticks.chain(linked(line).map(|target| from_file(path, target)));
        violations.extend(named.filter(|name| !exists(name)).map(|name| absent(path, index, &name)));
    }
    violations
}

/// The pages that a crate's source file cites and that are not here.
///
/// A page is a name that ends with `.md`, from the root on, wherever it stands: in comments for the most part. The
/// folder `specs/` is not here either.
pub(crate) fn cited(path: &str, text: &str, exists: &dyn Fn(&str) -> bool) -> Vec<Violation> {
    if !path.starts_with("crates/") {
        return Vec::new();
    }
    let mut violations = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let names = line.split(|character| !is_plain(character)).map(|name| name.trim_end_matches('.'));
        let pages = names.filter(|name| is_outside(name) || is_page(name) && !exists(name));
        violations.extend(pages.map(|name| absent(path, index, name)));
    }
    violations
}

/// Whether a name in a source file is a page; what starts with a slash is the rest of a web address or of a pattern.
fn is_page(name: &str) -> bool {
    name.strip_suffix(".md").is_some_and(|stem| !stem.is_empty() && !stem.starts_with('/'))
}

/// Whether a name is of the folder `specs/`, wherever that is, or a page above the root.
fn is_outside(name: &str) -> bool {
    let is_spec = name.starts_with("specs/") || name.contains("/specs/");
    (is_spec && !name.starts_with("//")) || (is_page(name) && name.starts_with(".."))
}

fn absent(path: &str, index: usize, name: &str) -> Violation {
    Violation { path: path.to_owned(), line: index + 1, message: format!("{name} does not exist") }
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

/// The path from the root of what a file links to.
fn from_file(path: &str, target: &str) -> String {
    let mut folders: Vec<&str> = path.split('/').collect();
    folders.pop();
    for part in target.split('/') {
        match part {
            "." => {}
            ".." => drop(folders.pop()),
            _ => folders.push(part),
        }
    }
    folders.join("/")
}

fn is_plain(character: char) -> bool {
    character.is_ascii_alphanumeric() || "_-./".contains(character)
}

fn is_path(name: &str, exists: &dyn Fn(&str) -> bool) -> bool {
    if !name.chars().all(is_plain) || name.starts_with(['/', '-']) || name.starts_with("..") {
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

    fn exists(path: &str) -> bool {
        let here = ["crates", "crates/lanes/src/lib.rs", "crates/lanes/", "README.md", "docs/lfm2.md"];
        here.contains(&path)
    }

    #[track_caller]
    fn check(text: &str, expected: &[&str]) {
        check_in("a.md", text, expected);
    }

    #[track_caller]
    fn check_in(path: &str, text: &str, expected: &[&str]) {
        assert_absent(&missing(path, text, &exists), expected);
    }

    #[track_caller]
    fn check_cited(path: &str, text: &str, expected: &[&str]) {
        assert_absent(&cited(path, text, &exists), expected);
    }

    #[track_caller]
    fn assert_absent(found: &[Violation], expected: &[&str]) {
        let found: Vec<&str> = found.iter().map(|violation| violation.message.as_str()).collect();
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

    #[test]
    fn links_are_relative_to_their_file() {
        check_in("docs/README.md", "[a](lfm2.md) [b](../README.md) [c](./lfm2.md#4-names)", &[]);
        check_in("docs/README.md", "[a](README.md) [b](../lfm2.md)", &["docs/README.md", "lfm2.md"]);
        check_in("docs/README.md", "`docs/lfm2.md`", &[]);
    }

    #[test]
    fn pages_that_no_comment_may_cite_are_found() {
        let path = "crates/lanes/src/lib.rs";
        check_cited(path, "/// Rotates (docs/gone.md section 3).\n", &["docs/gone.md"]);
        check_cited(path, "// As in lfm2.md 1.3, and docs/lfm2.md.\n", &["lfm2.md"]);
        check_cited(path, "//! Role (specs/lfm2.md section 2).\n", &["specs/lfm2.md"]);
        check_cited(path, "// See specs/lfm2 and specs/.\n", &["specs/lfm2", "specs/"]);
        check_cited(path, "// In /a/specs/lfm2.md or ../README.md.\n", &["/a/specs/lfm2.md", "../README.md"]);
        let planted = cited(path, "//! Role.\n\n// docs/gone.md\n", &exists);
        assert_eq!((planted[0].path.as_str(), planted[0].line), (path, 3));
    }

    #[test]
    fn pages_that_are_here_may_be_cited() {
        let path = "crates/lanes/src/lib.rs";
        check_cited(path, "//! Role (docs/lfm2.md sections 2 to 5).\n/// See `README.md`.\n", &[]);
        check_cited(path, "// https://example.org/specs/a.md\nlet suffix = \".md\";\n", &[]);
        check_cited("xtask/src/links.rs", "// docs/gone.md\n", &[]);
    }
}
