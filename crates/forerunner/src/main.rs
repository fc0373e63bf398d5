//! The command line: one `match` on the command, and what happens when it fails.

mod bench;
mod calibration;
mod check;
mod commands;
mod config;
mod cost_cache;
mod demo;
mod device;
mod directories;
mod flags;
mod grown;
mod machine;
mod nearest;
mod places;
mod progress;
mod receipt;
mod setup;
mod terminal;
mod tls;

use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;

use config::CommandLine;
use flags::{Command, LogLevel};

fn main() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().collect();
    let command_line = config::command_line(&arguments).unwrap_or_else(|error| error.exit());
    start_log(command_line.flags.log);
    match run(&command_line) {
        Ok(()) => ExitCode::SUCCESS,
        // Whoever read our output has seen enough, as in `forerunner run ... | head`.
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            terminal::tell(format_args!("forerunner: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

fn run(command_line: &CommandLine) -> anyhow::Result<()> {
    if command_line.flags.print_config {
        std::io::stdout().write_all(command_line.to_toml().as_bytes())?;
        return Ok(());
    }
    match &command_line.flags.command {
        Command::Run(flags) => commands::run::run(flags),
        Command::Chat(flags) => commands::chat::chat(flags),
        Command::Serve(flags) => commands::serve::serve(flags),
        Command::Check(flags) => commands::check::check(flags),
        Command::Bench(flags) => commands::bench::bench(flags),
        Command::Calibrate(flags) => commands::calibrate::calibrate(flags),
        Command::Info(flags) => commands::info::info(flags),
        Command::Pull(flags) => commands::pull::pull(flags),
        Command::Capabilities(flags) => commands::capabilities::capabilities(flags),
        Command::Completions(flags) => commands::completions::completions(flags),
        Command::Man(flags) => commands::completions::man(flags),
        Command::Synth(flags) => commands::synth::synth(flags),
    }
}

fn start_log(level: LogLevel) {
    tracing_subscriber::fmt().with_max_level(level.filter()).with_writer(std::io::stderr).init();
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.chain().filter_map(|cause| cause.downcast_ref::<std::io::Error>()).any(is_broken)
}

fn is_broken(error: &std::io::Error) -> bool {
    error.kind() == std::io::ErrorKind::BrokenPipe
}
