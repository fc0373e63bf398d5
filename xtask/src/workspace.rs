//! Where the repository is and what it holds.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::Value;

/// The repository's root.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask is a folder of the repository")
}

/// The cargo that runs this program, which sets the variable for that purpose.
pub(crate) fn cargo() -> OsString {
    std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into())
}

/// Runs a program; an error that names it and how it ended, unless it succeeds.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let shown = format!("{command:?}");
    let status = command.status().with_context(|| format!("{shown} did not start"))?;
    if !status.success() {
        bail!("{shown}: {status}");
    }
    Ok(())
}

/// Whether a program is here and does what it is asked, quietly.
pub(crate) fn answers(program: &str, arguments: &[&str]) -> bool {
    Command::new(program).args(arguments).output().is_ok_and(|answer| answer.status.success())
}

/// A text file of the repository.
pub(crate) struct File {
    /// Relative to the root, with slashes.
    pub(crate) path: String,
    pub(crate) text: String,
}

/// All files with one of these extensions, in the order of their paths.
pub(crate) fn files(extensions: &[&str]) -> Result<Vec<File>> {
    let mut paths = Vec::new();
    collect(root(), extensions, &mut paths)?;
    paths.sort();
    paths.into_iter().map(file).collect()
}

fn collect(folder: &Path, extensions: &[&str], paths: &mut Vec<PathBuf>) -> Result<()> {
    let entries = std::fs::read_dir(folder).with_context(|| folder.display().to_string())?;
    for entry in entries {
        let entry = entry?;
        let path = entry.path();
        if entry.file_type()?.is_dir() {
            if !is_skipped(&entry.file_name().to_string_lossy()) {
                collect(&path, extensions, paths)?;
            }
        } else if path.extension().is_some_and(|have| extensions.iter().any(|want| have == *want)) {
            paths.push(path);
        }
    }
    Ok(())
}

/// Build outputs and packages, and hidden folders, which hold other programs' files.
fn is_skipped(folder: &str) -> bool {
    folder == "target" || folder == "node_modules" || folder.starts_with('.')
}

fn file(path: PathBuf) -> Result<File> {
    let relative = path.strip_prefix(root()).expect("the file was found below the root");
    let path = relative.to_string_lossy().replace('\\', "/");
    let text = read(&path)?;
    Ok(File { path, text })
}

/// The text of a file, by its path from the root.
pub(crate) fn read(path: &str) -> Result<String> {
    std::fs::read_to_string(root().join(path)).with_context(|| path.to_owned())
}

/// Where cargo puts what it builds.
pub(crate) fn target_folder() -> Result<PathBuf> {
    let metadata = own_packages()?;
    let folder = metadata["target_directory"].as_str().context("cargo metadata names no target folder")?;
    Ok(PathBuf::from(folder))
}

/// What `cargo metadata` says of the workspace's own packages.
pub(crate) fn own_packages() -> Result<Value> {
    metadata(&["--no-deps"])
}

/// What `cargo metadata` says of all packages in Cargo.lock.
pub(crate) fn all_packages() -> Result<Value> {
    metadata(&[])
}

fn metadata(options: &[&str]) -> Result<Value> {
    let output = Command::new(cargo())
        .args(["metadata", "--format-version", "1"])
        .args(options)
        .current_dir(root())
        .output()
        .context("cargo metadata did not start")?;
    if !output.status.success() {
        bail!("cargo metadata: {}", String::from_utf8_lossy(&output.stderr));
    }
    serde_json::from_slice(&output.stdout).context("cargo metadata printed no JSON")
}
