//! `cargo xtask bundle-h200`: what a machine without Rust needs to check and measure the devices on one H200.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use crate::{ci, workspace};

const USAGE: &str = "usage: cargo xtask bundle-h200 [--to DIR]";

/// What runs there, from the repository's root.
const SCRIPT: &str = "packaging/h200/run.sh";

/// The prompts of the demo, which the script asks many at a time.
const PROMPTS: &str = "assets/demo/prompts.jsonl";

/// The programs, where a release build has them.
const PROGRAMS: [&str; 3] = ["forerunner", "examples/rounds", "examples/host_time"];

/// What is packed beside the script.
const ARCHIVE: &str = "programs.tar.xz";

/// Small enough to be sent along with a checkout, whose files have 36 MiB.
const ARCHIVE_BYTES_MAX: u64 = 27 << 20;

/// Builds, packs, and copies both files to a folder if one is named.
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let to = destination(arguments)?;
    build()?;
    let folder = workspace::target_folder()?.join("bundle-h200");
    let loose = folder.join("programs");
    make_anew(&loose)?;
    gather(&loose)?;
    let archive = folder.join(ARCHIVE);
    pack(&loose, &archive)?;
    copy(&workspace::root().join(SCRIPT), &folder.join("run.sh"))?;
    fs::remove_dir_all(&loose).with_context(|| loose.display().to_string())?;
    let bytes = fs::metadata(&archive)?.len();
    ensure!(bytes <= ARCHIVE_BYTES_MAX, "{ARCHIVE} has {bytes} bytes; accepted: {ARCHIVE_BYTES_MAX}");
    let place = to.unwrap_or_else(|| folder.clone());
    if place != folder {
        fs::create_dir_all(&place).with_context(|| place.display().to_string())?;
        for name in ["run.sh", ARCHIVE] {
            copy(&folder.join(name), &place.join(name))?;
        }
    }
    println!("{} KiB of programs; to be run there: bash {}/run.sh", bytes >> 10, place.display());
    Ok(())
}

/// The folder that the caller names.
fn destination(arguments: &[String]) -> Result<Option<PathBuf>> {
    match arguments {
        [] => Ok(None),
        [flag, folder] if flag == "--to" => Ok(Some(PathBuf::from(folder))),
        _ => bail!("{:?} is not understood\n{USAGE}", arguments.join(" ")),
    }
}

/// One call for all, so that the programs share one build of what they depend on.
fn build() -> Result<()> {
    let packages = ["--package", "forerunner", "--package", "forerunner-cuda", "--package", "forerunner-gpu"];
    let programs = ["--bin", "forerunner", "--example", "rounds", "--example", "host_time"];
    ci::cargo(&[&["build", "--locked", "--release"][..], &packages, &programs].concat())
}

/// Puts the programs without their symbols in a folder, with the prompts and the commit that all is from.
fn gather(folder: &Path) -> Result<()> {
    let release = workspace::target_folder()?.join("release");
    for program in PROGRAMS {
        let from = release.join(program);
        let name = from.file_name().context("a program has a name")?;
        workspace::run(Command::new("strip").arg("-o").arg(folder.join(name)).arg(&from))?;
    }
    copy(&workspace::root().join(PROMPTS), &folder.join("prompts.jsonl"))?;
    let path = folder.join("commit");
    fs::write(&path, commit()?).with_context(|| path.display().to_string())
}

/// The commit that is checked out, and whether something was changed since.
fn commit() -> Result<Vec<u8>> {
    let describe = ["describe", "--always", "--dirty", "--abbrev=40"];
    let output = Command::new("git").args(describe).current_dir(workspace::root()).output();
    Ok(output.context("git did not start")?.stdout)
}

fn pack(folder: &Path, archive: &Path) -> Result<()> {
    // The window of 9 reaches from one program's kernels to the same ones in another.
    let mut tar = Command::new("tar");
    tar.env("XZ_OPT", "-9").arg("--create").arg("--xz").arg("--file").arg(archive);
    workspace::run(tar.arg("--directory").arg(folder).arg("."))
}

fn make_anew(folder: &Path) -> Result<()> {
    if folder.exists() {
        fs::remove_dir_all(folder).with_context(|| folder.display().to_string())?;
    }
    fs::create_dir_all(folder).with_context(|| folder.display().to_string())
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::copy(from, to).with_context(|| format!("copying {} to {}", from.display(), to.display()))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_may_be_named() {
        let read =
            |words: &str| destination(&words.split_whitespace().map(str::to_owned).collect::<Vec<_>>());
        assert_eq!(read("").unwrap(), None);
        assert_eq!(read("--to .h200").unwrap(), Some(PathBuf::from(".h200")));
        for refused in ["--to", ".h200", "--from a", "--to a b"] {
            assert!(read(refused).unwrap_err().to_string().contains("usage"), "{refused}");
        }
    }

    #[test]
    fn what_is_packed_is_here() {
        for path in [SCRIPT, PROMPTS] {
            assert!(workspace::root().join(path).is_file(), "{path}");
        }
    }
}
