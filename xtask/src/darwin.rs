//! `cargo xtask darwin`: whether the code for Macs type-checks, on a machine that is no Mac.
//!
//! The standard library for Macs is checked from its sources, so no target has to be installed. Nothing is linked and
//! nothing run, so this says that the code fits Metal's interface, not that it works.

use anyhow::Result;

use crate::compiler::Compiler;
use crate::workspace;

const TARGET: &str = "aarch64-apple-darwin";

/// Checks the workspace for Macs, where there are Debian's packages; elsewhere it says so.
pub(crate) fn run() -> Result<()> {
    let Some(compiler) = Compiler::find()? else { return Ok(()) };
    let mut check = compiler.cargo();
    check.args(["check", "--locked", "--workspace", "--exclude", "xtask", "--target", TARGET]);
    check.arg("-Zbuild-std=std,panic_abort");
    check.arg("--target-dir").arg(workspace::target_folder()?.join("darwin"));
    // A released compiler checks the standard library only when it is told to act as a nightly one.
    workspace::run(check.env("RUSTC_BOOTSTRAP", "1"))
}
