//! SHA-256 of files and of replies, for receipts and equalities.

use std::fmt::Write;
use std::path::Path;

use anyhow::Context;
use forerunner_lanes::TokenId;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

/// Of a reply's tokens.
pub(crate) fn of_tokens(tokens: &[TokenId]) -> String {
    of_parts(tokens.iter().map(|token| token.to_le_bytes()))
}

/// Of a text.
pub(crate) fn of_text(text: &str) -> String {
    of_parts([text])
}

/// Of a checkpoint's configuration and weights, by file name.
pub(crate) fn of_checkpoint(directory: &Path) -> anyhow::Result<Value> {
    let mut files: Vec<_> = std::fs::read_dir(directory)
        .and_then(|entries| entries.map(|entry| entry.map(|entry| entry.path())).collect())
        .with_context(|| directory.display().to_string())?;
    files.sort();
    let is_hashed = |path: &&std::path::PathBuf| {
        path.file_name().is_some_and(|name| name == "config.json")
            || path.extension().is_some_and(|extension| extension == "safetensors")
    };
    let mut hashes = Map::new();
    for path in files.iter().filter(is_hashed) {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        hashes.insert(name, of_file(path)?.into());
    }
    Ok(hashes.into())
}

fn of_file(path: &Path) -> anyhow::Result<String> {
    let mut hasher = Sha256::new();
    let mut read = std::fs::File::open(path).with_context(|| path.display().to_string())?;
    let mut buffer = vec![0; 1 << 20];
    loop {
        let count = std::io::Read::read(&mut read, &mut buffer)?;
        if count == 0 {
            return Ok(hexadecimal(&hasher.finalize()));
        }
        hasher.update(&buffer[..count]);
    }
}

fn of_parts(parts: impl IntoIterator<Item = impl AsRef<[u8]>>) -> String {
    let mut hasher = Sha256::new();
    parts.into_iter().for_each(|part| hasher.update(part));
    hexadecimal(&hasher.finalize())
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a text cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hash_is_of_every_byte() {
        let of_abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(of_text("abc"), of_abc);
        assert_ne!(of_tokens(&[1, 2]), of_tokens(&[2, 1]));
        assert_ne!(of_tokens(&[1]), of_tokens(&[1, 0]));
    }

    #[test]
    fn a_checkpoint_is_its_configuration_and_its_weights() {
        let hashes = of_checkpoint(&crate::demo::demo_pair().unwrap().target).unwrap();
        let names: Vec<&String> = hashes.as_object().unwrap().keys().collect();
        assert_eq!(names, ["config.json", "model.safetensors"]);
    }
}
