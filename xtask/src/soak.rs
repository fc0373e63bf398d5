//! `cargo xtask soak`: many streams for minutes against the release binary, whose memory must stay flat.

#[path = "../../crates/server/tests/http/client.rs"]
#[expect(dead_code, reason = "the tests' client has more than is used here")]
mod client;
mod flags;
mod load;
mod server;

use std::net::SocketAddr;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use serde_json::{Value, json};

use crate::{ci, workspace};
use flags::Flags;
use load::Load;
use server::Server;

/// Between two samples of the memory.
const SAMPLE_PERIOD: Duration = Duration::from_secs(5);

/// What the server's memory may grow by from the second quarter of the time to the last: what it keeps for later (prompts,
/// responses) has reached its bounds before, or is small.
const GROWTH_BYTES_MAX: i64 = 16 << 20;

/// A sample: seconds since the beginning, and resident bytes.
type Sample = (u64, u64);

/// Runs, writes a receipt, and fails if a request failed, a reply changed, something stayed behind or memory grew.
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let flags = Flags::read(arguments)?;
    ci::cargo(&["build", "--locked", "--release", "--package", "forerunner"])?;
    let server = Server::start(flags.streams)?;
    let load = Load::new(server.address)?;
    let before = load.probe()?;
    let samples = soak(&server, &load, &flags)?;
    let idle = load.wait_until_idle();
    let is_same = load.probe().is_ok_and(|after| after == before);
    let outcome = Outcome { samples, idle: idle.as_ref().ok().cloned(), is_same };
    outcome.print(&load);
    let path = flags.receipt.clone().unwrap_or_else(|| format!("docs/receipts/{}-soak-demo.json", today()));
    let receipt = outcome.receipt(&flags, arguments, &server, &load);
    std::fs::write(workspace::root().join(&path), format!("{receipt:#}\n")).with_context(|| path.clone())?;
    println!("written to {path}");
    outcome.judge(&load)?;
    idle.map(drop)
}

/// The memory at every period while all streams ask.
fn soak(server: &Server, load: &Load, flags: &Flags) -> Result<Vec<Sample>> {
    let stop = AtomicBool::new(false);
    let (begin, time) = (Instant::now(), Duration::from_secs_f64(flags.minutes * 60.0));
    std::thread::scope(|scope| {
        let stop = &stop;
        let clients: Vec<_> =
            (0..flags.streams).map(|seed| scope.spawn(move || load.client(seed, stop))).collect();
        let mut samples = Vec::new();
        while begin.elapsed() < time && !clients.iter().any(|client| client.is_finished()) {
            std::thread::sleep(SAMPLE_PERIOD.min(time));
            samples.push((begin.elapsed().as_secs(), server.resident_bytes()?));
        }
        stop.store(true, Ordering::SeqCst);
        for client in clients {
            client.join().map_err(|_| anyhow!("a client had no answer"))?;
        }
        Ok(samples)
    })
}

/// What came of it.
struct Outcome {
    samples: Vec<Sample>,
    /// The load when nothing is asked any more.
    idle: Option<Value>,
    /// Whether the known reply is the same before and after.
    is_same: bool,
}

impl Outcome {
    fn print(&self, load: &Load) {
        let mebibytes = |bytes: u64| bytes >> 20;
        let ends =
            [self.samples.first(), self.samples.last()].map(|sample| sample.map_or(0, |sample| sample.1));
        println!(
            "{} requests, {} left early, {} known replies; memory from {} to {} MiB, {} KiB of growth since the second quarter",
            load.counts.requests(),
            load.counts.left.load(Ordering::SeqCst),
            load.counts.known.load(Ordering::SeqCst),
            mebibytes(ends[0]),
            mebibytes(ends[1]),
            growth(&self.samples) / 1024,
        );
    }

    fn judge(&self, load: &Load) -> Result<()> {
        let errors = load.counts.errors();
        ensure!(errors.is_empty(), "{} errors, the first: {}", errors.len(), errors[0]);
        ensure!(self.is_same, "the known reply after the soak is not the one before it");
        let growth = growth(&self.samples);
        ensure!(growth <= GROWTH_BYTES_MAX, "memory grew by {growth} bytes; accepted: {GROWTH_BYTES_MAX}");
        Ok(())
    }

    fn receipt(&self, flags: &Flags, arguments: &[String], server: &Server, load: &Load) -> Value {
        let samples = self.samples.iter().map(|sample| json!([sample.0, sample.1]));
        json!({
            "command": format!("cargo xtask soak {}", arguments.join(" ")).trim_end(),
            "commit": output("git", &["describe", "--always", "--dirty", "--abbrev=40"]),
            "machine": output("sh", &["-c", "grep -m1 'model name' /proc/cpuinfo | cut -d: -f2; nproc; uname -sr"]),
            "server": server.flags,
            "version": client::get(server.address, "/version").json(),
            "minutes": flags.minutes,
            "streams": flags.streams,
            "requests_by_kind": load.counts.by_kind(),
            "left_early": load.counts.left.load(Ordering::SeqCst),
            "known_replies": load.counts.known.load(Ordering::SeqCst),
            "known_reply_same_before_and_after": self.is_same,
            "errors": load.counts.errors(),
            "load_when_idle": self.idle,
            "growth_bytes": growth(&self.samples),
            "second_and_resident_bytes": samples.collect::<Value>(),
            "metrics": totals(server.address),
        })
    }
}

/// The largest sample of the last quarter less the largest of the second.
fn growth(samples: &[Sample]) -> i64 {
    let quarter = samples.len() / 4;
    let largest = |samples: &[Sample]| samples.iter().map(|sample| sample.1).max().unwrap_or(0) as i64;
    largest(&samples[samples.len() - quarter..]) - largest(&samples[quarter..2 * quarter])
}

/// What the server has counted.
fn totals(address: SocketAddr) -> Value {
    let page = String::from_utf8_lossy(&client::get(address, "/metrics").body).into_owned();
    let samples = page.lines().filter(|line| line.contains("_total") && !line.starts_with('#'));
    samples
        .filter_map(|line| line.rsplit_once(' '))
        .map(|(name, value)| (name.to_owned(), json!(value)))
        .collect()
}

fn today() -> String {
    output("date", &["+%F"])
}

fn output(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).current_dir(workspace::root()).output();
    let text = output.map_or(String::new(), |output| String::from_utf8_lossy(&output.stdout).into_owned());
    text.lines().map(str::trim).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_is_between_the_second_and_the_last_quarter() {
        let samples = |bytes: [u64; 8]| -> Vec<Sample> { bytes.map(|bytes| (0, bytes)).to_vec() };
        assert_eq!(growth(&samples([1, 5, 9, 9, 9, 9, 9, 9])), 0);
        assert_eq!(growth(&samples([9, 9, 3, 4, 5, 6, 7, 8])), 4);
        assert_eq!(growth(&samples([9, 9, 9, 8, 7, 6, 5, 4])), -4);
        assert_eq!(growth(&[]), 0);
    }
}
