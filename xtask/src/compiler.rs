//! Debian's Rust compiler, for targets that the workspace's own toolchain has no standard library for.
//!
//! With it come the standard library's sources and a built one for [`EMULATED`]. The packages are unpacked beside the
//! build outputs and not installed, so it takes no root and changes nothing of the machine.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::debian::{self, Lists};
use crate::workspace;

/// The target with a built standard library.
pub(crate) const EMULATED: &str = "aarch64-unknown-linux-gnu";

/// The oldest compiler that the workspace takes.
const NEEDED: &str = env!("CARGO_PKG_RUST_VERSION");

/// What the compiler and its sources are in, by how their names begin: versions differ between releases.
const PACKAGES: [&str; 4] = ["rustc-web", "rust-web-src", "libstd-rust-web", "libllvm"];
/// What the standard library of [`EMULATED`] is in.
const EMULATED_PACKAGE: &str = "libstd-rust-web-dev:arm64";

/// The unpacked packages.
pub(crate) struct Compiler {
    root: PathBuf,
}

impl Compiler {
    /// The compiler, loaded where it is not there yet; where it cannot be had, says why.
    pub(crate) fn find() -> Result<Option<Compiler>> {
        if !debian::is_here() {
            println!("skipped: there is no apt-get here, from where the compiler comes");
            return Ok(None);
        }
        let compiler = Compiler { root: workspace::target_folder()?.join("debian-rust") };
        if !compiler.version().is_some_and(|version| is_new_enough(&version)) {
            compiler.load()?;
        }
        let version = compiler.version().context("the unpacked compiler does not run")?;
        if !is_new_enough(&version) {
            println!("skipped: Debian's compiler here is {version}; accepted: {NEEDED} or newer");
            return Ok(None);
        }
        Ok(Some(compiler))
    }

    /// The cargo that runs this program, with the unpacked compiler.
    pub(crate) fn cargo(&self) -> Command {
        let mut cargo = Command::new(workspace::cargo());
        self.find_libraries(&mut cargo).env("RUSTC", self.rustc()).current_dir(workspace::root());
        cargo
    }

    fn rustc(&self) -> PathBuf {
        self.root.join("usr/bin/rustc")
    }

    /// What an unpacked compiler says of itself, such as `1.96.0`.
    fn version(&self) -> Option<String> {
        let output = self.find_libraries(&mut Command::new(self.rustc())).arg("--version").output().ok()?;
        let text = String::from_utf8(output.stdout).ok()?;
        text.split(' ').nth(1).map(str::to_owned)
    }

    /// Lets a command find the libraries that were unpacked with the compiler.
    fn find_libraries<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        command.env("LD_LIBRARY_PATH", self.root.join("usr/lib/x86_64-linux-gnu"))
    }

    /// Loads and unpacks the packages, in place of what was there.
    fn load(&self) -> Result<()> {
        if self.root.exists() {
            std::fs::remove_dir_all(&self.root).with_context(|| self.root.display().to_string())?;
        }
        let folder = self.root.join("packages");
        std::fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
        println!("loading a compiler with sources into {}", self.root.display());
        let lists = Lists::load(self.root.join("apt"), "amd64,arm64")?;
        let mut load = lists.command("apt-get");
        load.args(["download", "--quiet"]).args(packages(&lists)?).current_dir(&folder);
        workspace::run(&mut load)?;
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
}

/// Whether a compiler's version is one that the workspace takes.
fn is_new_enough(version: &str) -> bool {
    let parts =
        |version: &str| -> Vec<u64> { version.split('.').map_while(|part| part.parse().ok()).collect() };
    parts(version) >= parts(NEEDED)
}

/// The packages to load: of what the compiler and its sources depend on, what is theirs, and the other library.
fn packages(lists: &Lists) -> Result<Vec<String>> {
    let mut ask = lists.command("apt-cache");
    ask.args(["depends", "--recurse", "--no-recommends", "--no-suggests", "--no-conflicts", "--no-breaks"]);
    ask.args(["--no-replaces", "--no-enhances", "rustc-web", "rust-web-src"]);
    let output = ask.output().context("apt-cache did not start")?;
    let is_needed = |line: &&str| PACKAGES.iter().any(|package| line.starts_with(package));
    let text = String::from_utf8_lossy(&output.stdout);
    let mut names: Vec<String> = text.lines().filter(is_needed).map(str::to_owned).collect();
    if names.len() < PACKAGES.len() {
        bail!("apt-cache knows {names:?}, needed are {PACKAGES:?}");
    }
    names.push(EMULATED_PACKAGE.to_owned());
    Ok(names)
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
