//! `cargo xtask web`: the web page's types, its built assets, and its tests in a browser.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::{ci, workspace};

/// The browser that the tests drive. They find it by this path as well (`web/playwright.config.ts`).
const BROWSER: &str = "/usr/bin/chromium";

/// Checks the page with Node.js and a browser. Without these it says so and checks nothing: the server is built from
/// assets that are committed, and the CI has both.
pub(crate) fn run() -> Result<()> {
    if Command::new("npm").arg("--version").output().is_err() {
        println!("the web page is not checked: npm is missing (Debian: nodejs npm)");
        return Ok(());
    }
    npm(&["ci", "--no-audit", "--no-fund", "--prefer-offline"])?;
    npm(&["run", "check"])?;
    if !Path::new(BROWSER).exists() {
        println!("the web page is not tested: {BROWSER} is missing (Debian: chromium)");
        return Ok(());
    }
    ci::cargo(&["build", "--locked", "--workspace", "--bin", "forerunner"])?;
    npm(&["test"])
}

fn npm(arguments: &[&str]) -> Result<()> {
    let shown = format!("npm {}", arguments.join(" "));
    println!("$ {shown}");
    let status = Command::new("npm")
        .args(arguments)
        .current_dir(workspace::root().join("web"))
        .env("FORERUNNER", workspace::target_folder()?.join("debug/forerunner"))
        .status()
        .with_context(|| format!("{shown} did not start"))?;
    if !status.success() {
        bail!("{shown}: {status}");
    }
    Ok(())
}
