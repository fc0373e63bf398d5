//! Every report of `docs/field-reports.md` has a test that exists and names its source.

use crate::tidy::Violation;

/// The page with the table.
pub(crate) const PAGE: &str = "docs/field-reports.md";

/// The reports by their numbers. A number is never given to another report.
const REPORTS: [u8; 39] = [
    1, 3, 5, 7, 8, 10, 12, 13, 15, 16, 18, 19, 21, 22, 23, 25, 26, 27, 28, 30, 32, 33, 34, 36, 38, 40, 41,
    42, 43, 45, 46, 48, 50, 52, 53, 55, 56, 57, 58,
];

/// A report of the table.
#[derive(Debug)]
struct Report<'a> {
    line: usize,
    number: u8,
    sources: Vec<&'a str>,
    /// A file and a function in it.
    tests: Vec<(&'a str, &'a str)>,
}

/// Checks the page; `read` gives a file's text if it is there.
pub(crate) fn check(page: &str, read: &dyn Fn(&str) -> Option<String>) -> Vec<Violation> {
    let reports = reports(page);
    let mut violations: Vec<Violation> = reports.iter().flat_map(|report| complaints(report, read)).collect();
    for number in REPORTS {
        let times = reports.iter().filter(|report| report.number == number).count();
        if times != 1 {
            violations.push(violation(1, format!("report {number} stands here {times} times")));
        }
    }
    violations
}

fn reports(page: &str) -> Vec<Report<'_>> {
    page.lines().enumerate().filter_map(|(index, line)| report(index + 1, line)).collect()
}

/// `| number | sources | what | tests |`, where a test is a path and a name in backticks.
fn report(line: usize, text: &str) -> Option<Report<'_>> {
    let cells: Vec<&str> = text.trim().trim_matches('|').split(" | ").map(str::trim).collect();
    let [number, sources, _, tests] = cells[..] else { return None };
    let names: Vec<&str> = tests.split('`').skip(1).step_by(2).collect();
    Some(Report {
        line,
        number: number.parse().ok()?,
        sources: sources.split(", ").collect(),
        tests: names.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect(),
    })
}

fn complaints(report: &Report<'_>, read: &dyn Fn(&str) -> Option<String>) -> Vec<Violation> {
    let number = report.number;
    let mut messages = Vec::new();
    if report.tests.is_empty() {
        messages.push(format!("report {number} has no test"));
    }
    let mut sources = String::new();
    for (path, name) in &report.tests {
        match read(path).filter(|source| has_test(source, name)) {
            Some(source) => sources.push_str(&source),
            None => messages.push(format!("report {number}: {path} has no test {name}")),
        }
    }
    let unnamed = report.sources.iter().filter(|source| !sources.contains(*source));
    messages.extend(unnamed.map(|source| format!("report {number}: no file of its tests names {source}")));
    messages.into_iter().map(|message| violation(report.line, message)).collect()
}

/// Whether a source file has this function, as a test that is run.
fn has_test(source: &str, name: &str) -> bool {
    let Some(begin) = source.find(&format!("fn {name}(")) else { return false };
    let above = source[..begin].lines().rev().map(str::trim);
    let attributes: Vec<&str> =
        above.skip_while(|line| line.is_empty()).take_while(|line| line.starts_with("#[")).collect();
    attributes.contains(&"#[test]") && !attributes.iter().any(|attribute| attribute.starts_with("#[ignore"))
}

fn violation(line: usize, message: String) -> Violation {
    Violation { path: PAGE.to_owned(), line, message }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = "/// vllm#1, imp#2.\n#[test]\n#[cfg(unix)]\nfn it_works() {}\n\nfn helper() {}\n\
        #[test]\n#[ignore = \"slow\"]\nfn sleeps() {}\nmod tests {\n    #[test]\n    fn within() {}\n}\n";

    fn read(path: &str) -> Option<String> {
        (path == "a.rs").then(|| SOURCE.to_owned())
    }

    /// A page with this line for one report and good ones for the others.
    fn page(line: &str) -> String {
        let others =
            REPORTS[1..].iter().map(|number| format!("| {number} | vllm#1 | x | `a.rs` `it_works` |\n"));
        format!("| row | source | what | tests |\n|---|---|---|---|\n{line}\n{}", others.collect::<String>())
    }

    #[track_caller]
    fn check_line(line: &str, expected: &[&str]) {
        let found: Vec<String> =
            check(&page(line), &read).into_iter().map(|violation| violation.message).collect();
        assert_eq!(found.len(), expected.len(), "{found:?}");
        assert!(found.iter().zip(expected).all(|(found, part)| found.contains(part)), "{found:?}");
    }

    #[test]
    fn a_report_with_its_tests_passes() {
        check_line("| 1 | vllm#1, imp#2 | it fails | `a.rs` `it_works` `a.rs` `within` |", &[]);
    }

    #[test]
    fn a_report_without_one_is_found() {
        check_line("", &["report 1 stands here 0 times"]);
        check_line("| 1 | vllm#1 | x |  |", &["report 1 has no test", "names vllm#1"]);
        check_line(
            "| 3 | vllm#1 | x | `a.rs` `it_works` |",
            &["report 1 stands here 0 times", "report 3 stands here 2"],
        );
        for planted in ["`b.rs` `it_works`", "`a.rs` `helper`", "`a.rs` `sleeps`", "`a.rs` `gone`"] {
            let line = format!("| 1 | vllm#1 | x | {planted} |");
            check_line(&line, &["has no test", "names vllm#1"]);
        }
        check_line("| 1 | vllm#9 | x | `a.rs` `it_works` |", &["names vllm#9"]);
    }
}
