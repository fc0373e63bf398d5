//! `cargo xtask ci`: every check in turn, all of them even after one fails; the tests and their summary last.

use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::{cuda, darwin, neon, python, tidy, vulkan, web, workspace};

/// A check's name and what it runs: quick ones first.
type Step = (&'static str, fn() -> Result<()>);

const STEPS: [Step; 12] = [
    ("format", || cargo(&["fmt", "--all", "--check"])),
    ("tidy", tidy::run),
    ("clippy", clippy),
    ("darwin", darwin::run),
    ("neon", neon::test_where_possible),
    ("cuda", cuda::check_where_possible),
    ("vulkan", vulkan::install_where_possible),
    ("clients", || python::test_where_possible("clients")),
    ("schemathesis", || python::test_where_possible("schemathesis")),
    ("gateway", || python::test_where_possible("gateway")),
    ("web", web::run),
    ("features", || {
        cargo(&["test", "--locked", "--workspace", "--all-features", "--test", "cli", "--", "tls", "pull"])
    }),
];

/// Runs all steps, then the tests; an error if any failed. What the test runner says last is the last of it.
pub(crate) fn run() -> Result<()> {
    let outcomes: Vec<Outcome> = STEPS.iter().map(|&step| run_step(step)).collect();
    println!("\n{}\n\n== test", summary(&outcomes));
    let tests = cargo(&["test", "--locked", "--workspace", "--no-fail-fast"]);
    let failed: Vec<&str> =
        outcomes.iter().filter(|step| step.error.is_some()).map(|step| step.name).collect();
    if !failed.is_empty() {
        bail!("the change is not ready: {}", failed.join(", "));
    }
    tests
}

/// Lints of the default build, and of what builds with more cargo features have besides.
fn clippy() -> Result<()> {
    let lint = ["clippy", "--locked", "--workspace", "--all-targets"];
    let deny = ["--", "-D", "warnings"];
    cargo(&[&lint[..], &deny].concat())?;
    cargo(&[&lint[..], &["--all-features"], &deny].concat())
}

struct Outcome {
    name: &'static str,
    duration: Duration,
    error: Option<String>,
}

fn run_step((name, check): Step) -> Outcome {
    println!("\n== {name}");
    let start = Instant::now();
    let error = check().err().map(|error| format!("{error:#}"));
    if let Some(error) = &error {
        println!("{error}");
    }
    Outcome { name, duration: start.elapsed(), error }
}

fn summary(outcomes: &[Outcome]) -> String {
    let line = |outcome: &Outcome| {
        let verdict = if outcome.error.is_some() { "FAILED" } else { "ok" };
        format!("{:<12} {verdict:<6} {:>5.0} s", outcome.name, outcome.duration.as_secs_f64())
    };
    outcomes.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// Builds a program with the workspace's features, so that the tests' build of the dependencies serves; where it is.
pub(crate) fn build_binary(name: &str) -> Result<PathBuf> {
    cargo(&["build", "--locked", "--workspace", "--bin", name])?;
    let file = format!("{name}{}", std::env::consts::EXE_SUFFIX);
    Ok(workspace::target_folder()?.join("debug").join(file))
}

/// Runs the cargo that runs this program.
pub(crate) fn cargo(arguments: &[&str]) -> Result<()> {
    let shown = format!("cargo {}", arguments.join(" "));
    println!("$ {shown}");
    let status = Command::new(workspace::cargo())
        .args(arguments)
        .current_dir(workspace::root())
        .status()
        .with_context(|| format!("{shown} did not start"))?;
    if !status.success() {
        bail!("{shown}: {status}");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_names_what_failed() {
        let outcome = |name, error: Option<&str>| Outcome {
            name,
            duration: Duration::from_secs(61),
            error: error.map(str::to_owned),
        };
        let text = summary(&[outcome("tidy", None), outcome("clippy", Some("1 failed"))]);
        assert_eq!(text, "tidy         ok        61 s\nclippy       FAILED    61 s");
    }
}
