//! `cargo xtask shaders`: writes what Metal is given for each shader, after a shader has changed.

use anyhow::Result;

use crate::ci;

/// Runs the program that translates them.
pub(crate) fn run() -> Result<()> {
    ci::cargo(&["run", "--quiet", "--package", "forerunner-gpu", "--example", "shaders"])
}
