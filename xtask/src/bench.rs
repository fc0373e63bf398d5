//! `cargo xtask bench`: the benchmark of the demo pair, in release.

use std::process::Command;

use anyhow::{Context, Result, ensure};

/// Runs the benchmark with the rest of the command line.
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let bench = ["bench", "--package", "forerunner-engine", "--bench", "demo", "--"];
    let status =
        Command::new(env!("CARGO")).args(bench).args(arguments).status().context("starting cargo")?;
    ensure!(status.success(), "the benchmark failed");
    Ok(())
}
