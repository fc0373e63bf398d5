//! Tests in Python against the built binary, in environments with pinned packages.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::{ci, workspace};

/// Builds the binary, installs what `tests/NAME/requirements.txt` pins where it is not yet, and runs the tests of that folder;
/// arguments go to pytest.
pub(crate) fn test(name: &str, arguments: &[String]) -> Result<()> {
    let binary = ci::build_binary("forerunner")?;
    let folder = format!("tests/{name}");
    let python = environment(name, &format!("{folder}/requirements.txt"))?;
    let binary = ["--binary".to_owned(), binary.to_string_lossy().into_owned()];
    pytest(&python, &folder, &[&binary, arguments].concat())
}

/// The same where there is a Python; elsewhere it says so.
pub(crate) fn test_where_possible(name: &str) -> Result<()> {
    if is_here() {
        return test(name, &[]);
    }
    println!("skipped: there is no python3 with venv here");
    Ok(())
}

/// The Python of an environment that has the packages that `requirements`, a file of the repository, pins. It is made
/// when it is not there, and made anew when the file has changed.
fn environment(name: &str, requirements: &str) -> Result<PathBuf> {
    let folder = workspace::target_folder()?.join("python").join(name);
    let python = folder.join(if cfg!(windows) { "Scripts/python.exe" } else { "bin/python" });
    let wanted = workspace::read(requirements)?;
    // Written last: an environment that was not finished has none.
    let made_of = folder.join("requirements.txt");
    if std::fs::read_to_string(&made_of).is_ok_and(|had| had == wanted) && python.exists() {
        return Ok(python);
    }
    println!("installing {requirements} into {}", folder.display());
    workspace::run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&folder))?;
    let install = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--requirement"];
    workspace::run(Command::new(&python).args(install).arg(workspace::root().join(requirements)))?;
    std::fs::write(&made_of, wanted).with_context(|| made_of.display().to_string())?;
    Ok(python)
}

/// Whether there is a Python that can make environments.
pub(crate) fn is_here() -> bool {
    workspace::answers("python3", &["-c", "import venv, ensurepip"])
}

/// Runs pytest on a folder of the repository.
fn pytest(python: &Path, folder: &str, arguments: &[String]) -> Result<()> {
    workspace::run(
        Command::new(python)
            .args(["-m", "pytest", "--quiet", "-p", "no:cacheprovider", folder])
            .args(arguments)
            // Compiled files beside the sources are nobody's.
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .current_dir(workspace::root()),
    )
}
