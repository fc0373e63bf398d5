//! `cargo xtask cuda`: compiles the kernels for NVIDIA GPUs and stores them, or checks what is stored.

use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::{python, workspace};

/// Runs the build script with the rest of the command line. It keeps the compiler in the folder of the build outputs.
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let script = workspace::root().join("crates/cuda/kernels/build.py");
    let tools = workspace::target_folder()?.join("cuda-tools");
    let status = Command::new("python3")
        .arg(script)
        .arg(tools)
        .args(arguments)
        .status()
        .context("starting python3, which loads the compiler")?;
    ensure!(status.success(), "the kernels do not build");
    Ok(())
}

/// Compiles the kernels and compares them with what is stored, where the compiler can be had; elsewhere it says so.
pub(crate) fn check_where_possible() -> Result<()> {
    if cfg!(all(target_os = "linux", target_arch = "x86_64")) && python::is_here() {
        return run(&["--check".to_owned()]);
    }
    println!("skipped: the compiler comes from PyPI, for Linux on x86-64");
    Ok(())
}
