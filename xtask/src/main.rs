//! Repository automation: `cargo xtask ci` is everything that a change must pass.

mod bundle;
mod ci;
mod compiler;
mod cuda;
mod darwin;
mod debian;
mod dependencies;
mod field_reports;
mod fuzz;
mod licences;
mod links;
mod manifests;
mod neon;
mod plots;
mod python;
mod shaders;
mod soak;
mod tidy;
mod vulkan;
mod web;
mod workspace;

use std::process::ExitCode;

use anyhow::{Result, bail};

const USAGE: &str = "usage: cargo xtask COMMAND

  ci            checks, tests of clients, of a gateway, of the page, and all others: what the CI runs
  tidy          the repository's own rules alone: sources, dependencies, licences, links
  clients       the openai and anthropic packages against the binary: [PYTEST ARGUMENTS]
  schemathesis  requests made from the OpenAPI document: [PYTEST ARGUMENTS]
  gateway       engines on the demo model behind a gateway: [PYTEST ARGUMENTS]
  web           the web page: types, built assets, tests in a browser
  fuzz          changed inputs for every parser that meets the outside: [--seed N] [--runs N] [--corpus DIR] [TARGET ...]
  soak          random streams against the release binary, memory flat: [--minutes N] [--streams N] [--receipt FILE]
  plots         docs/benchmarks.md and its plots, from the receipts of `forerunner bench`
  cuda          compiles the kernels for NVIDIA GPUs and stores them: [--check] [TARGET ...]
  bundle-h200   what checks and measures on one H200 without Rust there: [--to DIR]
  shaders       stores what Metal is given for each shader
  darwin        type-checks the code for Macs
  neon          the tests of the CPU device for aarch64, under an emulator";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &[String]) -> Result<()> {
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["ci"] => ci::run(),
        ["tidy"] => tidy::run(),
        ["clients", ..] => python::test("clients", &arguments[1..]),
        ["gateway", ..] => python::test("gateway", &arguments[1..]),
        ["schemathesis", ..] => python::test("schemathesis", &arguments[1..]),
        ["soak", ..] => soak::run(&arguments[1..]),
        ["fuzz", ..] => fuzz::run(&arguments[1..]),
        ["web"] => web::run(),
        ["plots"] => plots::run(),
        ["cuda", ..] => cuda::run(&arguments[1..]),
        ["bundle-h200", ..] => bundle::run(&arguments[1..]),
        ["shaders"] => shaders::run(),
        ["darwin"] => darwin::run(),
        ["neon"] => neon::test_where_possible(),
        [] | ["help" | "--help" | "-h"] => {
            println!("{USAGE}");
            Ok(())
        }
        _ => bail!("{:?} is not a command\n{USAGE}", arguments.join(" ")),
    }
}
