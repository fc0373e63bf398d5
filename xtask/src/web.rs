//! `cargo xtask web`: the web page's types, its built assets, and its tests in a browser.

use std::path::Path;
use std::process::Command;

use anyhow::Result;

use crate::{ci, workspace};

/// The browser that the tests drive. They find it by this path as well (`web/playwright.config.ts`).
const BROWSER: &str = "/usr/bin/chromium";

/// Checks the page with Node.js and a browser. Without these it says so and checks nothing: the server is built from
/// assets that are committed.
pub(crate) fn run() -> Result<()> {
    if Command::new("npm").arg("--version").output().is_err() {
        println!("the web page is not checked: npm is missing (Debian: nodejs npm)");
        return Ok(());
    }
    workspace::run(&mut npm(&["ci", "--no-audit", "--no-fund", "--prefer-offline"]))?;
    workspace::run(&mut npm(&["run", "check"]))?;
    if !Path::new(BROWSER).exists() {
        println!("the web page is not tested: {BROWSER} is missing (Debian: chromium)");
        return Ok(());
    }
    workspace::run(npm(&["test"]).env("FORERUNNER", ci::build_binary()?))
}

/// A command of the page's own folder.
fn npm(arguments: &[&str]) -> Command {
    let mut npm = Command::new("npm");
    npm.args(arguments).current_dir(workspace::root().join("web"));
    npm
}
