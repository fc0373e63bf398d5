//! `cargo xtask tidy`: the repository's own rules. Each rule is a pure function, and its tests plant what it must find.

mod code;
mod functions;
mod rules;

use std::fmt;

use anyhow::{Result, bail};

use crate::workspace::{self, File};
use crate::{dependencies, field_reports, licences, links, manifests};

/// Where a rule is broken, and how.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Violation {
    pub(crate) path: String,
    pub(crate) line: usize,
    pub(crate) message: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}:{}: {}", self.path, self.line, self.message)
    }
}

/// Prints every violation; an error if there is one.
pub(crate) fn run() -> Result<()> {
    let sources = workspace::files(&["rs"])?;
    let documents = workspace::files(&["md"])?;
    let settings = workspace::files(&[
        "toml", "py", "yml", "yaml", "service", "plist", "rb", "ts", "tsx", "mjs", "css",
    ])?;
    let mut violations = Vec::new();
    for file in &sources {
        violations.extend(rules::source(&file.path, &file.text));
    }
    for file in sources.iter().chain(&documents).chain(&settings) {
        violations.extend(rules::trailing_blanks(&file.path, &file.text));
    }
    violations.extend(function_lengths(&sources)?);
    let exists = |path: &str| workspace::root().join(path).exists();
    violations.extend(documents.iter().flat_map(|file| links::missing(&file.path, &file.text, &exists)));
    violations.extend(sources.iter().flat_map(|file| links::cited(&file.path, &file.text, &exists)));
    let own_packages = workspace::own_packages()?;
    violations.extend(dependencies::check(&dependencies::packages(&own_packages)?));
    violations.extend(manifests::check(&own_packages)?);
    let text = |path: &str| workspace::read(path).ok();
    violations.extend(field_reports::check(&workspace::read(field_reports::PAGE)?, &text));
    violations.extend(licences::check(&workspace::all_packages()?, &workspace::read(licences::SETTINGS)?)?);
    report(&violations, sources.len())
}

fn function_lengths(sources: &[File]) -> Result<Vec<Violation>> {
    let list = workspace::read(functions::RATCHET)?;
    let found: Vec<_> = sources.iter().flat_map(|file| functions::long(&file.path, &file.text)).collect();
    Ok(functions::compare(&found, &list))
}

fn report(violations: &[Violation], source_count: usize) -> Result<()> {
    for violation in violations {
        println!("{violation}");
    }
    if !violations.is_empty() {
        bail!("{} violations of the repository's rules", violations.len());
    }
    println!("{source_count} source files follow the repository's rules");
    Ok(())
}
