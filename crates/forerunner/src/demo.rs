//! The demo model and its drafter: in the repository when it is there, otherwise out of this binary.

use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};

use crate::directories;

/// A target's directory and its drafter's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DemoPair {
    pub(crate) target: PathBuf,
    pub(crate) drafter: PathBuf,
}

/// A file of the pair: its place in the demo folder, and its bytes.
type DemoFile = (&'static str, &'static [u8]);

macro_rules! demo_files {
    ($($path:literal),* $(,)?) => {
        [$(($path, include_bytes!(concat!("../../../assets/demo/", $path)).as_slice())),*]
    };
}

/// 21 MB in all, so that a binary that was moved elsewhere still answers.
static FILES: [DemoFile; 9] = demo_files![
    "target/config.json",
    "target/generation_config.json",
    "target/chat_template.jinja",
    "target/tokenizer.json",
    "target/tokenizer_config.json",
    "target/model.safetensors",
    "target/model.safetensors.index.json",
    "drafter/config.json",
    "drafter/model.safetensors",
];

/// Where the pair lies, after it was unpacked if need be.
pub(crate) fn demo_pair() -> anyhow::Result<DemoPair> {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../assets/demo");
    if is_complete(&repository, &FILES) {
        let clean = repository.canonicalize().unwrap_or(repository);
        return Ok(pair_in(&clean));
    }
    let cache =
        directories::cache().ok_or_else(|| anyhow!("no home directory to unpack the demo model to"))?;
    let folder = cache.join(concat!("demo-", env!("CARGO_PKG_VERSION")));
    unpack(&folder, &FILES)
        .with_context(|| format!("unpacking the demo model to {} failed", folder.display()))?;
    Ok(pair_in(&folder))
}

fn pair_in(folder: &Path) -> DemoPair {
    DemoPair { target: folder.join("target"), drafter: folder.join("drafter") }
}

/// Whether every file is there with its size.
fn is_complete(folder: &Path, files: &[DemoFile]) -> bool {
    files.iter().all(|(path, bytes)| {
        std::fs::metadata(folder.join(path)).is_ok_and(|metadata| metadata.len() == bytes.len() as u64)
    })
}

/// Writes the files beside `folder` and renames the whole, so that another process never sees half of it.
fn unpack(folder: &Path, files: &[DemoFile]) -> io::Result<()> {
    if is_complete(folder, files) {
        return Ok(());
    }
    let partial = folder.with_extension(format!("{}.partial", std::process::id()));
    for (path, bytes) in files {
        let path = partial.join(path);
        std::fs::create_dir_all(path.parent().expect("a file within the folder"))?;
        std::fs::write(path, bytes)?;
    }
    if folder.exists() && !is_complete(folder, files) {
        std::fs::remove_dir_all(folder)?;
    }
    let renamed = std::fs::rename(&partial, folder);
    if renamed.is_err() && is_complete(folder, files) {
        // Another process was faster.
        return std::fs::remove_dir_all(&partial);
    }
    renamed
}

#[cfg(test)]
mod tests {
    use super::*;

    const FEW: [DemoFile; 2] = [("target/a", b"one"), ("drafter/b", b"three")];

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("forerunner-demo-{}-{name}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        folder
    }

    #[test]
    fn unpacking_makes_it_whole_and_leaves_nothing_beside() {
        let root = folder("whole");
        let demo = root.join("demo");
        unpack(&demo, &FEW).unwrap();
        unpack(&demo, &FEW).unwrap();
        assert!(is_complete(&demo, &FEW));
        assert_eq!(std::fs::read_dir(&root).unwrap().count(), 1);
        std::fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn a_truncated_file_is_written_again() {
        let root = folder("truncated");
        let demo = root.join("demo");
        unpack(&demo, &FEW).unwrap();
        std::fs::write(demo.join("drafter/b"), b"th").unwrap();
        assert!(!is_complete(&demo, &FEW));
        unpack(&demo, &FEW).unwrap();
        assert!(is_complete(&demo, &FEW));
        std::fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn what_is_embedded_is_the_pair() {
        let demo = folder("embedded");
        unpack(&demo, &FILES).unwrap();
        let pair = pair_in(&demo);
        let target = forerunner_checkpoint::TargetCheckpoint::open(&pair.target).unwrap();
        assert!(forerunner_checkpoint::DrafterCheckpoint::open(&pair.drafter, target.config()).is_ok());
        std::fs::remove_dir_all(demo).unwrap();
    }

    #[test]
    fn this_repository_has_the_pair() {
        let pair = demo_pair().unwrap();
        assert!(pair.target.join("config.json").exists() && pair.drafter.join("config.json").exists());
    }
}
