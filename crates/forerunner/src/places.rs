//! Where models lie, and what to say when there is none at a place.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};

use crate::directories;
use crate::nearest::nearest;

/// What a model's directory has at least.
const MARK: &str = "config.json";

/// Levels below a directory at which a model is looked for, to be suggested: as deep as the hub's own cache has them.
const LEVELS: usize = 2;

/// Where a model of the hub lies once it was pulled; none for what is no name of the hub's.
pub(crate) fn pull_place(named: &Path) -> Option<PathBuf> {
    let id = named.to_str().filter(|name| is_hub_id(name))?;
    Some(directories::data()?.join("models").join(id))
}

/// The directory that is meant: the named one, or that of a model that was pulled by this name.
pub(crate) fn find(named: &Path) -> Result<PathBuf> {
    match pull_place(named).filter(|place| place.join(MARK).is_file()) {
        Some(pulled) if !named.exists() => Ok(pulled),
        _ => check_directory(named).map(|()| named.to_owned()),
    }
}

/// That a model may lie here; otherwise what is wrong with the place, and what may have been meant.
fn check_directory(named: &Path) -> Result<()> {
    let shown = named.display();
    if !named.is_dir() {
        bail!("{shown} is not a directory{}", instead_of(named));
    }
    if !named.join(MARK).is_file()
        && let Some(below) = models_below(named, LEVELS).first()
    {
        bail!("{shown} has no {MARK}; did you mean {}?", below.display());
    }
    Ok(())
}

/// `ORG/NAME`, of the characters that the hub allows, and no path.
pub(crate) fn is_hub_id(name: &str) -> bool {
    let is_plain = |part: &str| {
        part.chars().all(|character| character.is_ascii_alphanumeric() || "-_.".contains(character))
            && part.starts_with(|first: char| first.is_ascii_alphanumeric())
            && !part.contains("..")
    };
    name.split_once('/').is_some_and(|(owner, model)| is_plain(owner) && is_plain(model))
}

fn instead_of(named: &Path) -> String {
    if named.is_file() {
        let extension = named.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
        let parent = named.parent().filter(|parent| parent.join(MARK).is_file());
        return match (parent, extension) {
            (Some(parent), _) => format!("; did you mean {}?", parent.display()),
            (_, "gguf") => " but a GGUF file; accepted: a directory with config.json and safetensors".into(),
            _ => "; accepted: a directory with config.json and safetensors".into(),
        };
    }
    let beside = did_you_mean_beside(named);
    match named.to_str().filter(|name| is_hub_id(name) && beside.is_empty()) {
        Some(id) if cfg!(feature = "pull") => format!("; fetch it from the hub: forerunner pull {id}"),
        Some(id) => format!(
            "; {id} looks like a model of the hub, and this build cannot fetch models (cargo feature pull): download \
             it and name its directory"
        ),
        None => beside,
    }
}

/// A directory beside the one that is not there, with a name that is like it.
fn did_you_mean_beside(named: &Path) -> String {
    let parent = named.parent().filter(|parent| *parent != Path::new("")).unwrap_or(Path::new("."));
    let name = named.file_name().unwrap_or_default().to_string_lossy();
    let beside = directories_in(parent);
    let names = beside.iter().filter_map(|path| path.file_name()?.to_str());
    match nearest(&name, names) {
        Some(found) => format!("; did you mean {}?", named.with_file_name(found).display()),
        None => String::new(),
    }
}

/// Directories that have a configuration, the nearest first.
fn models_below(directory: &Path, levels: usize) -> Vec<PathBuf> {
    if levels == 0 {
        return Vec::new();
    }
    let below = directories_in(directory);
    let here: Vec<PathBuf> = below.iter().filter(|path| path.join(MARK).is_file()).cloned().collect();
    if here.is_empty() {
        below.iter().flat_map(|path| models_below(path, levels - 1)).collect()
    } else {
        here
    }
}

fn directories_in(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).filter(|path| path.is_dir()).collect();
    paths.sort();
    paths
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str, files: &[&str]) -> Scratch {
            let root = std::env::temp_dir().join(format!("forerunner-places-{}-{name}", std::process::id()));
            let _ = std::fs::remove_dir_all(&root);
            for file in files {
                let path = root.join(file);
                std::fs::create_dir_all(path.parent().unwrap()).unwrap();
                std::fs::write(path, "{}").unwrap();
            }
            Scratch(root)
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    #[track_caller]
    fn check(path: &Path, fragment: &str) {
        let message = check_directory(path).unwrap_err().to_string();
        assert!(message.starts_with(&path.display().to_string()), "{message}");
        assert!(message.contains(fragment), "{fragment:?} is not in {message}");
    }

    #[test]
    fn a_wrong_place_suggests_the_right_one() {
        let scratch = Scratch::new("suggest", &["LFM2-1.2B/config.json", "LFM2-1.2B/model.safetensors"]);
        let model = scratch.0.join("LFM2-1.2B");
        assert!(check_directory(&model).is_ok());
        check(&scratch.0.join("LFM2-12B"), &format!("did you mean {}?", model.display()));
        check(&scratch.0.join("lfm2_1.2b"), &format!("did you mean {}?", model.display()));
        check(&model.join("config.json"), &format!("did you mean {}?", model.display()));
        check(&scratch.0, &format!("did you mean {}?", model.display()));
        check(&scratch.0.join("zebra"), "is not a directory");
    }

    #[test]
    fn the_hubs_cache_and_other_formats_are_known() {
        let file = "models--LiquidAI--LFM2-1.2B/snapshots/0a1b/config.json";
        let scratch = Scratch::new("hub", &[file, "model.gguf"]);
        check(&scratch.0.join("models--LiquidAI--LFM2-1.2B"), "snapshots/0a1b?");
        check(&scratch.0.join("model.gguf"), "GGUF");
    }

    #[test]
    fn a_name_of_the_hub_is_told_from_a_path() {
        for id in ["LiquidAI/LFM2.5-1.2B-Instruct", "a/b"] {
            assert!(is_hub_id(id), "{id}");
        }
        for path in
            ["LFM2", "./a/b", "../b", "a/../b", "/a/b", "a/b/c", "~/b", "a/", "/b", "a b/c", "a/.b", ""]
        {
            assert!(!is_hub_id(path), "{path}");
            assert_eq!(pull_place(Path::new(path)), None);
        }
        check(Path::new("LiquidAI/LFM2.5-1.2B-Instruct"), "pull");
    }
}
