//! `forerunner capabilities`: what this binary and this machine can do, for people and for scripts.

use std::io::Write;

use clap::CommandFactory;
use forerunner_cpu::Mode;
use serde::Serialize;

use crate::device::{open_cuda, open_gpu};
use crate::flags::{CapabilitiesFlags, Flags};

/// Everything, as `--json` writes it.
#[derive(Debug, Serialize)]
struct Capabilities {
    version: &'static str,
    devices: Vec<DeviceCapabilities>,
    families: [&'static str; 2],
    drafters: [&'static str; 1],
    weights: [&'static str; 5],
    commands: Vec<CommandOptions>,
}

#[derive(Debug, Serialize)]
struct DeviceCapabilities {
    name: &'static str,
    /// What this machine can run; the first is the default.
    modes: Vec<&'static str>,
    /// What this binary knows.
    known_modes: Vec<&'static str>,
    threads: usize,
}

#[derive(Debug, Serialize)]
struct CommandOptions {
    name: String,
    options: Vec<OptionDescription>,
}

#[derive(Debug, Serialize)]
struct OptionDescription {
    name: String,
    about: String,
    default: Option<String>,
    /// Empty when more than a few names are accepted.
    accepted: Vec<String>,
}

/// Writes the capabilities.
pub(crate) fn capabilities(flags: &CapabilitiesFlags) -> anyhow::Result<()> {
    let capabilities = Capabilities::of_this_machine();
    let mut out = std::io::stdout().lock();
    if flags.json {
        writeln!(out, "{}", serde_json::to_string_pretty(&capabilities)?)?;
        return Ok(());
    }
    writeln!(out, "forerunner {}", capabilities.version)?;
    for device in &capabilities.devices {
        let modes = device.modes.join(", ");
        let modes = if modes.is_empty() { "none here" } else { &modes };
        writeln!(out, "device {}: modes {modes} (best first), {} threads", device.name, device.threads)?;
    }
    writeln!(out, "families: {}", capabilities.families.join(", "))?;
    writeln!(out, "drafters: {}", capabilities.drafters.join(", "))?;
    writeln!(out, "weights: {}", capabilities.weights.join(", "))?;
    writeln!(out, "options: see --json, or --help of each command")?;
    Ok(())
}

impl Capabilities {
    fn of_this_machine() -> Self {
        let cpu = DeviceCapabilities {
            name: "cpu",
            modes: Mode::supported().map(Mode::name).collect(),
            known_modes: Mode::ALL.map(Mode::name).to_vec(),
            threads: std::thread::available_parallelism().map_or(1, usize::from),
        };
        Capabilities {
            version: env!("CARGO_PKG_VERSION"),
            devices: vec![cpu, cuda(), gpu()],
            families: ["lfm2", "lfm2_moe"],
            drafters: ["dspark"],
            weights: ["bf16", "fp16", "fp32", "affine 4-bit", "affine 8-bit"],
            commands: commands(),
        }
    }
}

/// NVIDIA GPUs. No mode can run where none works.
fn cuda() -> DeviceCapabilities {
    let modes = if open_cuda(None).is_ok() { vec!["mma"] } else { Vec::new() };
    DeviceCapabilities { name: "cuda", modes, known_modes: vec!["mma"], threads: 1 }
}

/// GPUs by Metal, Vulkan or Direct3D 12.
fn gpu() -> DeviceCapabilities {
    let modes = if open_gpu(None).is_ok() { vec!["wgsl"] } else { Vec::new() };
    DeviceCapabilities { name: "gpu", modes, known_modes: vec!["wgsl"], threads: 1 }
}

/// The options of every command that is not hidden, as the parser itself knows them.
fn commands() -> Vec<CommandOptions> {
    let command = Flags::command();
    let visible = command.get_subcommands().filter(|command| !command.is_hide_set());
    visible.flat_map(|command| options("", command)).collect()
}

/// Of a command, or of each of its commands if it has some.
fn options(before: &str, command: &clap::Command) -> Vec<CommandOptions> {
    let name = format!("{before}{}", command.get_name());
    if command.has_subcommands() {
        let before = format!("{name} ");
        return command.get_subcommands().flat_map(|inner| options(&before, inner)).collect();
    }
    vec![CommandOptions { name, options: command.get_arguments().map(describe).collect() }]
}

fn describe(argument: &clap::Arg) -> OptionDescription {
    let name = match argument.get_long() {
        Some(long) => format!("--{long}"),
        None => argument.get_id().as_str().to_uppercase(),
    };
    let defaults: Vec<_> =
        argument.get_default_values().iter().map(|value| value.to_string_lossy().into_owned()).collect();
    OptionDescription {
        name,
        about: argument.get_help().map(ToString::to_string).unwrap_or_default(),
        default: (!defaults.is_empty()).then(|| defaults.join(" ")),
        accepted: argument.get_possible_values().iter().map(|value| value.get_name().to_owned()).collect(),
    }
}
