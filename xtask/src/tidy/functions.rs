//! No function is longer than 70 lines; those that were when the rule came may only shrink.

use std::collections::BTreeMap;

use super::Violation;
use super::code::{self, is_name};

/// The list of functions that are allowed to be longer, and how long.
pub(crate) const RATCHET: &str = "xtask/long_functions.txt";

const LINES_MAX: usize = 70;

/// A function that is too long.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct LongFunction {
    path: String,
    /// Its name; the second of a file with that name has `#2` behind it.
    name: String,
    line: usize,
    lines: usize,
}

/// The functions of a file that are too long, from the line with `fn` to that with the closing brace.
pub(crate) fn long(path: &str, source: &str) -> Vec<LongFunction> {
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    let mut long = Vec::new();
    for function in functions(&code::only(source)) {
        let count = seen.entry(function.name.clone()).or_insert(0);
        *count += 1;
        let name = if *count == 1 { function.name } else { format!("{}#{count}", function.name) };
        if function.lines > LINES_MAX {
            long.push(LongFunction {
                path: path.to_owned(),
                name,
                line: function.line,
                lines: function.lines,
            });
        }
    }
    long
}

/// Holds the long functions against the list: each must stand there with exactly its length, and nothing else may.
pub(crate) fn compare(found: &[LongFunction], list: &str) -> Vec<Violation> {
    let mut violations = Vec::new();
    let mut allowed = entries(list, &mut violations);
    for function in found {
        let entry = allowed.remove(&(function.path.as_str(), function.name.as_str()));
        if let Some(message) = verdict(function, entry.map(|(lines, _)| lines)) {
            violations.push(Violation { path: function.path.clone(), line: function.line, message });
        }
    }
    for ((path, name), (_, line)) in allowed {
        violations.push(listed(
            line,
            format!("{path} has no function {name} of over {LINES_MAX} lines: remove the entry"),
        ));
    }
    violations
}

fn verdict(function: &LongFunction, allowed: Option<usize>) -> Option<String> {
    let LongFunction { name, lines, .. } = function;
    match allowed {
        None => Some(format!("{name} has {lines} lines, at most {LINES_MAX} are accepted")),
        Some(allowed) if *lines > allowed => Some(format!("{name} grew from {allowed} to {lines} lines")),
        Some(allowed) if *lines < allowed => {
            Some(format!("{name} shrank from {allowed} to {lines} lines: write {lines} in {RATCHET}"))
        }
        Some(_) => None,
    }
}

type Entries<'a> = BTreeMap<(&'a str, &'a str), (usize, usize)>;

/// Lines of `LENGTH PATH NAME`; blank ones and those that start with # are not entries.
fn entries<'a>(list: &'a str, violations: &mut Vec<Violation>) -> Entries<'a> {
    let mut entries = BTreeMap::new();
    for (index, line) in
        list.lines().enumerate().filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
    {
        match line.split_whitespace().collect::<Vec<_>>()[..] {
            [lines, path, name] if lines.parse::<usize>().is_ok_and(|lines| lines > LINES_MAX) => {
                entries.insert((path, name), (lines.parse().expect("checked above"), index + 1));
            }
            _ => violations.push(listed(
                index + 1,
                format!("{line:?} is not a length over {LINES_MAX}, a path and a name"),
            )),
        }
    }
    entries
}

fn listed(line: usize, message: String) -> Violation {
    Violation { path: RATCHET.to_owned(), line, message }
}

struct Function {
    name: String,
    line: usize,
    lines: usize,
}

/// All functions with a body, nested ones too, in the order of their `fn`.
fn functions(code: &str) -> Vec<Function> {
    let characters: Vec<char> = code.chars().collect();
    let mut functions = Vec::new();
    let mut line = 1;
    for index in 0..characters.len() {
        if characters[index] == '\n' {
            line += 1;
        }
        let Some(name) = name_of_function(&characters, index) else { continue };
        if let Some(end) = end_of_body(&characters, index) {
            let breaks = characters[index..end].iter().filter(|&&character| character == '\n').count();
            functions.push(Function { name, line, lines: breaks + 1 });
        }
    }
    functions
}

/// The name that follows a `fn` at this index; none for a function pointer's type or for another word.
fn name_of_function(code: &[char], index: usize) -> Option<String> {
    let follows_name =
        index.checked_sub(1).is_some_and(|before| is_name(code[before]) || code[before] == '#');
    if follows_name || !code[index..].starts_with(&['f', 'n']) {
        return None;
    }
    let after = &code[index + 2..];
    let blanks = after.iter().take_while(|character| character.is_whitespace()).count();
    let name: String =
        after[blanks..].iter().take_while(|&&character| is_name(character) || character == '#').collect();
    (blanks > 0 && !name.is_empty()).then_some(name)
}

/// The index of the brace that closes the body of the function that starts here; none if it has no body.
fn end_of_body(code: &[char], start: usize) -> Option<usize> {
    let mut brackets = 0;
    let mut braces = 0;
    for (index, character) in code.iter().enumerate().skip(start) {
        match character {
            '(' | '[' => brackets += 1,
            ')' | ']' => brackets -= 1,
            ';' if brackets == 0 && braces == 0 => return None,
            '{' if brackets == 0 || braces > 0 => braces += 1,
            '}' if braces > 0 => {
                braces -= 1;
                if braces == 0 {
                    return Some(index);
                }
            }
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn function(name: &str, lines: usize) -> String {
        format!("fn {name}() {{\n{}}}\n", "    work();\n".repeat(lines - 2))
    }

    #[track_caller]
    fn check_found(source: &str, expected: &[(&str, usize, usize)]) {
        let found = long("a.rs", source);
        let found: Vec<_> =
            found.iter().map(|function| (function.name.as_str(), function.line, function.lines)).collect();
        assert_eq!(found, expected);
    }

    #[track_caller]
    fn check_list(lines: usize, list: &str, expected: &[&str]) {
        let messages: Vec<String> =
            compare(&long("a.rs", &function("f", lines)), list).iter().map(ToString::to_string).collect();
        assert_eq!(messages.len(), expected.len(), "{messages:?}");
        for (message, part) in messages.iter().zip(expected) {
            assert!(message.contains(part), "{message:?} lacks {part:?}");
        }
    }

    #[test]
    fn seventy_lines_pass_and_seventy_one_do_not() {
        check_found(&function("f", 70), &[]);
        check_found(&function("f", 71), &[("f", 1, 71)]);
    }

    #[test]
    fn methods_nested_functions_and_second_ones_are_found() {
        let source = format!("impl A {{\n{}{}}}\n", function("f", 71), function("f", 80));
        check_found(&source, &[("f", 2, 71), ("f#2", 73, 80)]);
        let nested = format!("fn outer() {{\n{}}}\n", function("inner", 71));
        check_found(&nested, &[("outer", 1, 73), ("inner", 2, 71)]);
    }

    #[test]
    fn braces_that_are_no_code_do_not_count() {
        let text = "    let x = \"}\"; // }\n    let y = '}'; /* } */\n    let z = r#\"}\"#;\n";
        let source = format!("fn f<'a>(x: [u8; {{ 3 }}]) -> &'a str {{\n{}}}\n", text.repeat(23) + "\n");
        check_found(&source, &[("f", 1, 72)]);
    }

    #[test]
    fn what_has_no_body_is_no_function() {
        let declared = format!("trait A {{\n    fn f(&self);\n{}}}\n", "    // note\n".repeat(80));
        check_found(&declared, &[]);
        check_found(&format!("struct A {{ f: fn(u8) }}\n{}", "\n".repeat(80)), &[]);
        check_found(&format!("// fn f() {{\n{}// }}\n", "\n".repeat(80)), &[]);
    }

    #[test]
    fn long_functions_are_refused_unless_listed_with_their_length() {
        check_list(71, "", &["a.rs:1: f has 71 lines, at most 70"]);
        check_list(71, "# reason\n\n71 a.rs f\n", &[]);
    }

    #[test]
    fn listed_functions_only_shrink_and_the_list_with_them() {
        check_list(90, "80 a.rs f\n", &["f grew from 80 to 90"]);
        check_list(75, "80 a.rs f\n", &["write 75 in xtask/long_functions.txt"]);
        check_list(60, "80 a.rs f\n", &["xtask/long_functions.txt:1: a.rs has no function f"]);
        check_list(
            60,
            "70 a.rs f\nnonsense\n",
            &["txt:1: \"70 a.rs f\" is not", "txt:2: \"nonsense\" is not"],
        );
    }
}
