//! The server under load.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result};

use crate::workspace;

/// The release binary on the demo model, ended when dropped.
pub(super) struct Server {
    pub(super) address: SocketAddr,
    pub(super) flags: Vec<String>,
    child: Child,
}

impl Server {
    /// A server with as many lanes as there are streams. Its prompt cache is small enough to be full early.
    pub(super) fn start(streams: u64) -> Result<Self> {
        let binary = workspace::target_folder()?.join("release/forerunner");
        let lanes = streams.to_string();
        let flags =
            ["serve", "--port", "0", "--parallel", &lanes, "--context", "4096", "--prompt-cache-gib", "0.05"];
        let mut child =
            Command::new(binary).args(flags).stderr(Stdio::piped()).spawn().context("the server")?;
        let mut lines =
            BufReader::new(child.stderr.take().context("its output")?).lines().map_while(Result::ok);
        let address = lines.find_map(|line| line.strip_prefix("listening on http://").map(str::to_owned));
        // What else it says must be read, or it would wait for a reader.
        std::thread::spawn(move || lines.for_each(|line| eprintln!("server: {line}")));
        let address = address.context("the server does not listen")?.parse()?;
        Ok(Server { address, flags: flags.map(str::to_owned).to_vec(), child })
    }

    pub(super) fn resident_bytes(&self) -> Result<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS")?;
        Ok(line.trim().trim_end_matches("kB").trim().parse::<u64>()? << 10)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
