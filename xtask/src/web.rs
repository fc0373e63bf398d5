//! `cargo xtask web`: the web page's types, its built assets, and its tests in a browser.

use std::path::Path;
use std::process::Command;

use anyhow::Result;

use crate::{ci, debian, workspace};

/// The browser that the tests drive. They find it by this path as well (`web/playwright.config.ts`).
const BROWSER: &str = "/usr/bin/chromium";

/// The oldest Node.js that runs the page's tools.
const NODE_LEAST: u32 = 20;

/// Checks the page with Node.js and a browser, which are installed where that is possible. Without them it says so and
/// checks nothing: the server is built from assets that are committed.
pub(crate) fn run() -> Result<()> {
    install(&missing());
    let missing = missing();
    if missing.contains(&"npm") {
        println!("skipped: the web page is not checked without npm (Debian: nodejs npm)");
        return Ok(());
    }
    if !is_recent(&node_version()) {
        println!("skipped: the web page is not checked without Node.js {NODE_LEAST} or later");
        return Ok(());
    }
    workspace::run(&mut npm(&["ci", "--no-audit", "--no-fund", "--prefer-offline"]))?;
    workspace::run(&mut npm(&["run", "check"]))?;
    if missing.contains(&"chromium") {
        println!("skipped: the web page is not tested without {BROWSER} (Debian: chromium)");
        return Ok(());
    }
    workspace::run(npm(&["test"]).env("FORERUNNER", ci::build_binary("forerunner")?))
}

/// What Node.js says of itself, such as `v20.20.2`.
fn node_version() -> String {
    let answer = Command::new("node").arg("--version").output();
    answer.map(|answer| String::from_utf8_lossy(&answer.stdout).into_owned()).unwrap_or_default()
}

fn is_recent(version: &str) -> bool {
    let major = version.trim_start_matches('v').split('.').next().and_then(|major| major.parse().ok());
    major.is_some_and(|major: u32| major >= NODE_LEAST)
}

/// The Debian packages of what is not here.
fn missing() -> Vec<&'static str> {
    let mut packages = Vec::new();
    if !workspace::answers("npm", &["--version"]) {
        packages.extend(["nodejs", "npm"]);
    }
    if !Path::new(BROWSER).exists() {
        packages.push("chromium");
    }
    packages
}

/// Installs packages on a machine that is ours to change, such as a fresh one of the CI: for root, and with apt. What
/// does not come is still missing afterwards.
fn install(packages: &[&str]) {
    if packages.is_empty() || !debian::is_root() || !debian::is_here() {
        return;
    }
    if let Err(error) = debian::install(packages) {
        println!("{error:#}");
    }
}

/// A command of the page's own folder.
fn npm(arguments: &[&str]) -> Command {
    let mut npm = Command::new("npm");
    npm.args(arguments).current_dir(workspace::root().join("web"));
    npm
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_old_or_unknown_node_is_not_recent() {
        for (version, recent) in [("v20.20.2\n", true), ("v24.1.0", true), ("v18.20.4", false), ("", false)] {
            assert_eq!(is_recent(version), recent, "{version}");
        }
    }
}
