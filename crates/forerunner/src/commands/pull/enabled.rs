//! Fetches what a model needs into its place.

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use super::download::Place;
use super::hub::{Hub, RemoteFile, Source};
use crate::flags::PullFlags;
use crate::places::{is_hub_id, pull_place};
use crate::progress::Progress;
use crate::terminal::tell;

/// Endings of the files that an engine reads.
const ENDINGS: [&str; 3] = [".safetensors", ".json", ".jinja"];

/// Fetches a model. What an earlier fetch has got is kept, and a file that broke off goes on where it did.
pub(crate) fn pull(flags: &PullFlags) -> Result<()> {
    let id = &flags.model;
    ensure!(is_hub_id(id), "{id:?} is no model of a hub; accepted: ORG/NAME");
    let hub = Hub::new(&flags.endpoint, flags.token_file.as_deref())?;
    let listing = hub.list(id, &flags.revision)?;
    let files: Vec<&RemoteFile> = listing.files.iter().filter(|file| is_wanted(&file.name)).collect();
    let has = |name: &str| files.iter().any(|file| file.name.ends_with(name));
    ensure!(
        has("config.json") && has(".safetensors"),
        "{id} has no config.json with safetensors; accepted: a model in Hugging Face's layout"
    );
    let directory = place(flags)?;
    let place = Place::open(&directory)?;
    let total = files.iter().map(|file| file.size).sum();
    tell(format_args!("{id} at {}: {} files, {} MB", listing.revision, files.len(), total / 1_000_000));
    let progress = Progress::of_bytes("fetching", total);
    let source = Source { id, revision: &listing.revision };
    let fetched = files.into_iter().try_for_each(|file| place.fetch(&hub, &source, file, &progress));
    progress.end();
    fetched?;
    writeln!(std::io::stdout(), "{}", directory.display())?;
    Ok(())
}

fn place(flags: &PullFlags) -> Result<PathBuf> {
    let own = || {
        pull_place(Path::new(&flags.model)).context("no home directory for models; name one with --output")
    };
    flags.output.clone().map_or_else(own, Ok)
}

/// Whether a file is one of those that are read, by a name that stays in its directory.
fn is_wanted(name: &str) -> bool {
    let is_plain = |character: char| character.is_ascii_alphanumeric() || "-_.".contains(character);
    name.chars().all(is_plain)
        && !name.starts_with('.')
        && ENDINGS.iter().any(|ending| name.ends_with(ending))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_read_is_fetched_and_names_stay_in_their_directory() {
        for name in ["config.json", "model-00001-of-00002.safetensors", "chat_template.jinja"] {
            assert!(is_wanted(name), "{name}");
        }
        for name in [
            "README.md",
            "model.gguf",
            "onnx/config.json",
            "../config.json",
            "/etc/x.json",
            "a\\b.json",
            ".x.json",
            "..json",
            "",
            "a\0.json",
        ] {
            assert!(!is_wanted(name), "{name:?}");
        }
    }
}
