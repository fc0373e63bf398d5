//! `cargo xtask darwin`: whether the code for Macs type-checks, on a machine that is no Mac.
//!
//! The standard library for Macs is checked from its sources, so no target has to be installed. Debian has a compiler
//! with its matching sources; its packages are unpacked beside the build outputs and not installed. Nothing is linked
//! and nothing run, so this says that the code fits Metal's interface, not that it works.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::{debian, workspace};

const TARGET: &str = "aarch64-apple-darwin";

/// The oldest compiler that the workspace takes.
const NEEDED: &str = env!("CARGO_PKG_RUST_VERSION");

/// What the compiler and its sources are in, by how their names begin: versions differ between releases.
const PACKAGES: [&str; 4] = ["rustc-web", "rust-web-src", "libstd-rust-web", "libllvm"];

/// Checks the workspace for Macs, where there are Debian's packages; elsewhere it says so.
pub(crate) fn run() -> Result<()> {
    if !debian::is_here() {
        println!("skipped: there is no apt-get here, from where the compiler with sources comes");
        return Ok(());
    }
    let tools = Tools { root: workspace::target_folder()?.join("darwin-tools") };
    if !tools.version().is_some_and(|version| is_new_enough(&version)) {
        tools.unpack(&packages()?)?;
    }
    let version = tools.version().context("the unpacked compiler does not run")?;
    if !is_new_enough(&version) {
        println!("skipped: Debian's compiler here is {version}; accepted: {NEEDED} or newer");
        return Ok(());
    }
    tools.check()
}

/// Whether a compiler's version is one that the workspace takes.
fn is_new_enough(version: &str) -> bool {
    let parts =
        |version: &str| -> Vec<u64> { version.split('.').map_while(|part| part.parse().ok()).collect() };
    parts(version) >= parts(NEEDED)
}

/// The unpacked packages.
struct Tools {
    root: PathBuf,
}

impl Tools {
    fn rustc(&self) -> PathBuf {
        self.root.join("usr/bin/rustc")
    }

    /// What an unpacked compiler says of itself, such as `1.96.0`.
    fn version(&self) -> Option<String> {
        let output = self.compiler(&mut Command::new(self.rustc())).arg("--version").output().ok()?;
        let text = String::from_utf8(output.stdout).ok()?;
        text.split(' ').nth(1).map(str::to_owned)
    }

    /// Lets a command find the libraries that were unpacked with the compiler.
    fn compiler<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        command.env("LD_LIBRARY_PATH", self.root.join("usr/lib/x86_64-linux-gnu"))
    }

    /// In place of what was there.
    fn unpack(&self, packages: &[String]) -> Result<()> {
        if self.root.exists() {
            std::fs::remove_dir_all(&self.root).with_context(|| self.root.display().to_string())?;
        }
        let folder = self.root.join("packages");
        std::fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
        println!("loading a compiler with sources into {}", self.root.display());
        let mut load = Command::new("apt-get");
        workspace::run(load.args(["download", "--quiet"]).args(packages).current_dir(&folder))?;
        let mut loaded: Vec<PathBuf> = Vec::new();
        for entry in std::fs::read_dir(&folder)? {
            loaded.push(entry?.path());
        }
        // The compiler last: where it is, all is.
        loaded.sort_by_key(|path| path.to_string_lossy().contains("rustc-web"));
        for package in loaded {
            workspace::run(Command::new("dpkg").arg("-x").arg(&package).arg(&self.root))?;
            std::fs::remove_file(&package)?;
        }
        Ok(())
    }

    /// The cargo that runs this program, with the unpacked compiler.
    fn check(&self) -> Result<()> {
        let mut check = Command::new(workspace::cargo());
        check.args(["check", "--locked", "--workspace", "--exclude", "xtask", "--target", TARGET]);
        check.arg("-Zbuild-std=std,panic_abort");
        check.arg("--target-dir").arg(workspace::target_folder()?.join("darwin"));
        self.compiler(&mut check);
        // A released compiler checks the standard library only when it is told to act as a nightly one.
        check.env("RUSTC", self.rustc()).env("RUSTC_BOOTSTRAP", "1");
        workspace::run(check.current_dir(workspace::root()))
    }
}

/// The packages to load. A machine that is new knows none yet, and another may know old ones.
fn packages() -> Result<Vec<String>> {
    if debian::is_root() {
        debian::update()?;
    }
    let names = known_packages()?;
    if names.len() < PACKAGES.len() {
        bail!("apt-cache knows {names:?}, needed are {PACKAGES:?}: run apt-get update");
    }
    Ok(names)
}

/// Of what the compiler and its sources depend on, what is theirs.
fn known_packages() -> Result<Vec<String>> {
    let mut ask = Command::new("apt-cache");
    ask.args(["depends", "--recurse", "--no-recommends", "--no-suggests", "--no-conflicts", "--no-breaks"]);
    ask.args(["--no-replaces", "--no-enhances", "rustc-web", "rust-web-src"]);
    let output = ask.output().context("apt-cache did not start")?;
    let is_needed = |line: &&str| PACKAGES.iter().any(|package| line.starts_with(package));
    Ok(String::from_utf8_lossy(&output.stdout).lines().filter(is_needed).map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_compiler_is_new_enough_by_its_numbers() {
        assert!(is_new_enough(NEEDED) && is_new_enough("100.0.0") && is_new_enough(&format!("{NEEDED}.1")));
        assert!(!is_new_enough("1.85.0") && !is_new_enough("1.9.0") && !is_new_enough(""));
    }
}
