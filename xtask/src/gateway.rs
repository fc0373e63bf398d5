//! `cargo xtask gateway`: engines on the demo model behind a gateway (`tests/gateway/README.md`).

use anyhow::Result;

use crate::{ci, python, workspace};

/// The folder of the tests.
const FOLDER: &str = "tests/gateway";

/// Builds the binary, installs the gateway where it is not yet, and runs the tests; arguments go to pytest.
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    ci::cargo(&["build", "--locked", "--package", "forerunner"])?;
    let file = format!("forerunner{}", std::env::consts::EXE_SUFFIX);
    let binary = workspace::target_folder()?.join("debug").join(file);
    let python = python::environment("gateway", &format!("{FOLDER}/requirements.txt"))?;
    let binary = ["--binary".to_owned(), binary.to_string_lossy().into_owned()];
    python::pytest(&python, FOLDER, &[&binary, arguments].concat())
}

/// The same where there is a Python; elsewhere it says so.
pub(crate) fn run_where_possible() -> Result<()> {
    if python::is_here() {
        return run(&[]);
    }
    println!("skipped: there is no python3 with venv here");
    Ok(())
}
