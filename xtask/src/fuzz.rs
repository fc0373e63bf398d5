//! `cargo xtask fuzz`: changed inputs for every parser, as many as one has time for.

use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::ci;

/// Runs the targets of `crates/fuzz` with the rest of the command line.
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let program = ci::build_binary("forerunner-fuzz")?;
    let status = Command::new(&program)
        .args(arguments)
        .status()
        .with_context(|| format!("{} did not start", program.display()))?;
    ensure!(status.success(), "fuzzing failed");
    Ok(())
}
