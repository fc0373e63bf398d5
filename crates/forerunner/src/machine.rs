//! What a benchmark runs on: processor, memory, system, the program's commit, and how much memory it took.

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

/// Processor, cores, memory and system, as far as this system tells.
pub(crate) fn machine() -> Value {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    json!({
        "processor": processor(),
        "architecture": std::env::consts::ARCH,
        "cores": cores,
        "memory_bytes": memory_bytes("/proc/meminfo", "MemTotal:"),
        "system": system(),
    })
}

/// The most memory that this process has had, in bytes.
pub(crate) fn peak_memory_bytes() -> Option<u64> {
    memory_bytes("/proc/self/status", "VmHWM:")
}

/// Lets the peak begin again from what is held now, where the system can: otherwise it is of the whole run.
pub(crate) fn forget_peak_memory() {
    // Linux takes 5 for the peak alone. A system without the file keeps its peak, which is a bound still.
    let _ = std::fs::write("/proc/self/clear_refs", "5");
}

/// The commit of this repository's checkout around the current directory, and whether something was changed since.
/// The program may have been built from another one: a receipt says where it ran.
pub(crate) fn commit() -> Option<(String, bool)> {
    let top = git(&["rev-parse", "--show-toplevel"])?;
    Path::new(&top).join("crates/forerunner/Cargo.toml").exists().then_some(())?;
    let changes = git(&["status", "--porcelain", "--untracked-files=no"])?;
    Some((git(&["rev-parse", "HEAD"])?, !changes.is_empty()))
}

fn git(arguments: &[&str]) -> Option<String> {
    let output =
        Command::new("git").args(arguments).output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8(output.stdout).ok()?.trim().to_owned())
}

fn processor() -> Option<String> {
    let text = std::fs::read_to_string("/proc/cpuinfo").ok()?;
    value_after(&text, "model name").map(|value| value.trim_start_matches([':', ' ', '\t']).to_owned())
}

fn system() -> String {
    let release = std::fs::read_to_string("/etc/os-release").unwrap_or_default();
    let name = value_after(&release, "PRETTY_NAME=").map(|name| name.trim_matches('"'));
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let parts = [std::env::consts::OS, name.unwrap_or_default(), kernel.trim()];
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(", ")
}

/// An amount of memory that a file of `/proc` has in KiB.
fn memory_bytes(path: &str, key: &str) -> Option<u64> {
    let text = std::fs::read_to_string(path).ok()?;
    let kibibytes: u64 = value_after(&text, key)?.trim_end_matches("kB").trim().parse().ok()?;
    Some(kibibytes << 10)
}

fn value_after<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    text.lines().find_map(|line| line.strip_prefix(key)).map(str::trim)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_stands_after_its_key() {
        assert_eq!(value_after("A: 1\nVmHWM:\t  12 kB\n", "VmHWM:"), Some("12 kB"));
        assert_eq!(value_after("A: 1", "B:"), None);
    }

    #[test]
    fn the_machine_has_cores_and_a_system() {
        let machine = machine();
        assert!(machine["cores"].as_u64() >= Some(1));
        assert!(machine["system"].as_str().unwrap().starts_with(std::env::consts::OS));
    }
}
