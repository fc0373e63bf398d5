//! `cargo xtask fuzz`: targets with as many changed inputs as one has time for.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use forerunner_fuzz::{TARGETS, Target, inputs, run, target};

const USAGE: &str = "usage: [--seed N] [--runs N] [--corpus DIR] [TARGET]...
  --seed N      which changes are made [default: 1, as the tests have it]
  --runs N      changed inputs of each target [default: as many as its test has]
  --corpus DIR  write what each target begins with to DIR/TARGET, for libFuzzer, and run nothing";

/// What was asked for.
struct Asked {
    seed: u64,
    runs: Option<usize>,
    corpus: Option<PathBuf>,
    targets: Vec<Target>,
}

fn main() -> ExitCode {
    let asked = match parse(std::env::args().skip(1)) {
        Ok(asked) => asked,
        Err(message) => {
            eprintln!("{message}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    let all_well = match &asked.corpus {
        Some(folder) => asked.targets.iter().all(|target| write_corpus(folder, target)),
        // All of them, also after one has failed.
        None => asked.targets.iter().filter(|target| !is_well(target, &asked)).count() == 0,
    };
    if all_well { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Asked, String> {
    let mut asked = Asked { seed: 1, runs: None, corpus: None, targets: Vec::new() };
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or_else(|| format!("{argument} needs a value"));
        match argument.as_str() {
            "--seed" => asked.seed = number(&argument, &value()?)?,
            "--runs" => asked.runs = Some(number(&argument, &value()?)?),
            "--corpus" => asked.corpus = Some(value()?.into()),
            name => {
                let names = TARGETS.map(|target| target.name).join(", ");
                let found =
                    target(name).ok_or_else(|| format!("there is no target {name}; accepted: {names}"))?;
                asked.targets.push(found);
            }
        }
    }
    if asked.targets.is_empty() {
        asked.targets = TARGETS.to_vec();
    }
    Ok(asked)
}

fn number<T: std::str::FromStr>(option: &str, text: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("{option} is {text:?}; accepted: a number"))
}

fn is_well(target: &Target, asked: &Asked) -> bool {
    let runs = asked.runs.unwrap_or(target.runs);
    let start = std::time::Instant::now();
    let failure = run(target, asked.seed, runs);
    let seconds = start.elapsed().as_secs_f64();
    let Some(failure) = failure else {
        println!("{:<16} {runs:>8} inputs, {seconds:>6.1} s", target.name);
        return true;
    };
    let path = std::env::temp_dir().join(format!("forerunner-fuzz-{}.input", target.name));
    match std::fs::write(&path, &failure.input) {
        Ok(()) => println!("{:<16} FAILED after {} inputs: {}", target.name, failure.after, path.display()),
        Err(error) => println!("{:<16} FAILED, and {}: {error}", target.name, path.display()),
    }
    false
}

fn write_corpus(folder: &Path, target: &Target) -> bool {
    let folder = folder.join(target.name);
    let written = std::fs::create_dir_all(&folder).and_then(|()| {
        let mut numbered = inputs(target).into_iter().enumerate();
        numbered.try_for_each(|(number, input)| std::fs::write(folder.join(format!("seed-{number}")), input))
    });
    written.inspect_err(|error| println!("{}: {error}", folder.display())).is_ok()
}
