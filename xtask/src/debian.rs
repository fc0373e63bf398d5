//! Debian's packages, where there are any: what some steps of the CI are installed or unpacked from.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};

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

/// Installs packages; takes root.
pub(crate) fn install(packages: &[&str]) -> Result<()> {
    workspace::run(Command::new("apt-get").args(["update", "-qq"]))?;
    let mut install = Command::new("apt-get");
    install.args(["install", "-y", "-qq", "--no-install-recommends"]).args(packages);
    workspace::run(install.env("DEBIAN_FRONTEND", "noninteractive"))
}

/// What packages there are, for other processors too, in a folder of their own: the machine's lists stay as they are.
pub(crate) struct Lists {
    folder: PathBuf,
    architectures: &'static str,
}

impl Lists {
    /// Learns which packages there are for some architectures, which commas part.
    pub(crate) fn load(folder: PathBuf, architectures: &'static str) -> Result<Self> {
        let partial = folder.join("lists/partial");
        std::fs::create_dir_all(&partial).with_context(|| partial.display().to_string())?;
        let lists = Lists { folder, architectures };
        workspace::run(lists.command("apt-get").args(["update", "-qq"]))?;
        Ok(lists)
    }

    /// A program of apt that reads these lists.
    pub(crate) fn command(&self, program: &str) -> Command {
        let folder = self.folder.display();
        let lists = format!("Dir::State::Lists={folder}/lists");
        let cache = format!("Dir::Cache={folder}/cache");
        let architectures = format!("APT::Architectures={}", self.architectures);
        let mut command = Command::new(program);
        // As root apt loads as a user of its own, who may not write here.
        for option in [&*lists, &cache, &architectures, "APT::Sandbox::User=root"] {
            command.args(["-o", option]);
        }
        command
    }
}
