//! Debian's packages, where there are any: what two steps of the CI are installed or unpacked from.

use std::process::Command;

use anyhow::Result;

use crate::workspace;

/// Whether packages can be loaded here.
pub(crate) fn is_here() -> bool {
    Command::new("apt-get").arg("--version").output().is_ok()
}

/// Whether they can be installed without asking anybody.
pub(crate) fn is_root() -> bool {
    let asked = Command::new("id").arg("-u").output();
    asked.is_ok_and(|answer| answer.stdout.trim_ascii() == b"0")
}

/// Learns which packages there are; takes root.
pub(crate) fn update() -> Result<()> {
    workspace::run(Command::new("apt-get").args(["update", "-qq"]))
}

/// Installs packages; takes root.
pub(crate) fn install(packages: &[&str]) -> Result<()> {
    update()?;
    let mut install = Command::new("apt-get");
    install.args(["install", "-y", "-qq", "--no-install-recommends"]).args(packages);
    workspace::run(install.env("DEBIAN_FRONTEND", "noninteractive"))
}
