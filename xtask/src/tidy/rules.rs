//! Rules on one source file.

use super::Violation;
use super::code::{self, is_name};

/// Macros that mean unfinished work.
const UNFINISHED: [&str; 3] = ["todo!", "dbg!", "unimplemented!"];

/// Reads of the environment: an option is an argument, so that it is printed and listed.
const SWITCHES: [&str; 5] = ["env::var", "env::set_var", "env::remove_var", "option_env!", "getenv"];

/// The crate in which cargo features may be.
const CRATE_WITH_FEATURES: &str = "crates/forerunner/";

/// All rules on a Rust file.
pub(crate) fn source(path: &str, text: &str) -> Vec<Violation> {
    let code = code::only(text);
    let mut violations = opens_with_its_role(path, text);
    violations.extend(unfinished(path, &code));
    if path.starts_with("crates/") {
        violations.extend(environment_switches(path, &code));
    }
    if !path.starts_with(CRATE_WITH_FEATURES) {
        violations.extend(features(path, &code));
    }
    violations
}

/// No line ends with blanks.
pub(crate) fn trailing_blanks(path: &str, text: &str) -> Vec<Violation> {
    let ends_blank = |line: &str| line.ends_with([' ', '\t', '\r']);
    lines_with(path, text, ends_blank, |_| "blanks at the end of the line".to_owned())
}

/// The first line says the file's role.
fn opens_with_its_role(path: &str, text: &str) -> Vec<Violation> {
    let role = text.lines().next().and_then(|line| line.strip_prefix("//! "));
    if role.is_some_and(|role| !role.trim().is_empty()) {
        return Vec::new();
    }
    let message = "a file opens with a //! sentence that says its role".to_owned();
    vec![Violation { path: path.to_owned(), line: 1, message }]
}

fn unfinished(path: &str, code: &str) -> Vec<Violation> {
    let find = |line: &str| UNFINISHED.into_iter().find(|name| has_word(line, name));
    lines_with(
        path,
        code,
        |line| find(line).is_some(),
        |line| format!("{} is unfinished work", find(line).unwrap_or_default()),
    )
}

fn environment_switches(path: &str, code: &str) -> Vec<Violation> {
    let imports_var = |line: &str| {
        line.split_once("env::{")
            .is_some_and(|(_, names)| names.split([',', '}']).any(|name| name.trim().starts_with("var")))
    };
    let is_switch = |line: &str| imports_var(line) || SWITCHES.into_iter().any(|name| has_word(line, name));
    lines_with(path, code, is_switch, |_| "the environment is no switch: options are arguments".to_owned())
}

fn features(path: &str, code: &str) -> Vec<Violation> {
    let is_setting = |(index, word): (usize, &str), line: &str| {
        !line[..index].ends_with(is_name) && line[index + word.len()..].trim_start().starts_with('=')
    };
    let is_feature = |line: &str| {
        line.contains("cfg") && line.match_indices("feature").any(|found| is_setting(found, line))
    };
    lines_with(path, code, is_feature, |_| format!("cargo features are in {CRATE_WITH_FEATURES} only"))
}

fn lines_with(
    path: &str,
    text: &str,
    is_wrong: impl Fn(&str) -> bool,
    message: impl Fn(&str) -> String,
) -> Vec<Violation> {
    let wrong = text.split('\n').enumerate().filter(|(_, line)| is_wrong(line));
    wrong
        .map(|(index, line)| Violation { path: path.to_owned(), line: index + 1, message: message(line) })
        .collect()
}

/// Whether the word stands in a line, and not as the end of a longer name.
fn has_word(line: &str, word: &str) -> bool {
    line.match_indices(word).any(|(index, _)| !line[..index].ends_with(is_name))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The lines on which a file breaks a rule, after a good first line.
    #[track_caller]
    fn check(path: &str, rest: &str, expected: &[usize]) {
        let text = format!("//! Role.\n{rest}");
        let lines: Vec<usize> = source(path, &text).iter().map(|violation| violation.line).collect();
        assert_eq!(lines, expected, "{rest:?}");
    }

    #[test]
    fn a_file_says_its_role_first() {
        for planted in ["", "use std::fs;\n", "//!\n", "//! \n", "\n//! Role.\n", "/// Role.\n"] {
            assert_eq!(source("crates/a/src/b.rs", planted).len(), 1, "{planted:?}");
        }
        check("crates/a/src/b.rs", "", &[]);
    }

    #[test]
    fn unfinished_work_is_found() {
        check("xtask/src/a.rs", "fn f() {\n    todo!()\n}\n", &[3]);
        check("xtask/src/a.rs", "let x = dbg!(y);\nunimplemented!(\"later\");\n", &[2, 3]);
        check("xtask/src/a.rs", "// todo!()\nlet x = \"dbg!\";\nmy_todo!();\n", &[]);
    }

    #[test]
    fn environment_switches_are_found() {
        check("crates/a/src/b.rs", "let x = std::env::var(\"X\");\n", &[2]);
        check("crates/a/src/b.rs", "env::var_os(\"X\");\nenv::vars();\noption_env!(\"X\");\n", &[2, 3, 4]);
        check("crates/a/src/b.rs", "use std::env::{args, var};\nlibc::getenv(x);\n", &[2, 3]);
        check(
            "crates/a/src/b.rs",
            "std::env::args();\nstd::env::temp_dir();\nenv!(\"CARGO_MANIFEST_DIR\");\n",
            &[],
        );
        check("crates/a/src/b.rs", "use std::env::{args, temp_dir};\n// env::var\n", &[]);
        check("xtask/src/a.rs", "std::env::var_os(\"CARGO\");\n", &[]);
    }

    #[test]
    fn features_outside_of_the_binary_are_found() {
        check("crates/cpu/src/b.rs", "#[cfg(feature = \"x\")]\nmod x;\n", &[2]);
        check("crates/cpu/src/b.rs", "#[cfg(not(feature=\"x\"))]\nif cfg!(feature = \"x\") {}\n", &[2, 3]);
        check(
            "crates/cpu/src/b.rs",
            "#[target_feature(enable = \"avx2\")]\n#[cfg(target_feature = \"x\")]\n",
            &[],
        );
        check("crates/forerunner/src/b.rs", "#[cfg(feature = \"x\")]\nmod x;\n", &[]);
    }

    #[test]
    fn blanks_at_the_end_are_found() {
        let lines =
            |text| trailing_blanks("a.md", text).iter().map(|violation| violation.line).collect::<Vec<_>>();
        assert_eq!(lines("a \nb\nc\t\n\r\n"), [1, 3, 4]);
        assert_eq!(lines("a\n b\n"), [0; 0]);
    }
}
