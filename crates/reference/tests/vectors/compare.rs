//! Vectors on disk and how they are compared.

use std::path::{Path, PathBuf};

use safetensors::{Dtype, SafeTensors};

/// Named tensors of a safetensors file, read as they are asked for.
pub(crate) struct Vectors {
    path: PathBuf,
    bytes: Vec<u8>,
}

impl Vectors {
    /// Reads the file.
    pub(crate) fn read(path: &Path) -> Self {
        let bytes = std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        Vectors { path: path.to_owned(), bytes }
    }

    /// A tensor of floats.
    pub(crate) fn floats(&self, name: &str) -> Vec<f32> {
        self.words(name, Dtype::F32).map(f32::from_le_bytes).collect()
    }

    fn words(&self, name: &str, dtype: Dtype) -> impl Iterator<Item = [u8; 4]> {
        let file = SafeTensors::deserialize(&self.bytes)
            .unwrap_or_else(|error| panic!("{}: {error}", self.path.display()));
        let tensor =
            file.tensor(name).unwrap_or_else(|error| panic!("{}: {name}: {error}", self.path.display()));
        assert_eq!(tensor.dtype(), dtype, "{}: {name}", self.path.display());
        let words: Vec<[u8; 4]> =
            tensor.data().chunks_exact(4).map(|word| word.try_into().unwrap()).collect();
        words.into_iter()
    }

    /// A tensor of token ids.
    pub(crate) fn tokens(&self, name: &str) -> Vec<u32> {
        self.words(name, Dtype::I32).map(u32::from_le_bytes).collect()
    }
}

/// The largest difference of two slices, or an error when it exceeds `tolerance` or their lengths differ.
pub(crate) fn close(what: &str, found: &[f32], expected: &[f32], tolerance: f32) -> Result<f32, String> {
    if found.len() != expected.len() {
        return Err(format!("{what}: {} values, expected {}", found.len(), expected.len()));
    }
    let mut largest = 0.0f32;
    for (index, (found, expected)) in found.iter().zip(expected).enumerate() {
        let difference = (found - expected).abs();
        if difference.is_nan() || difference > tolerance {
            return Err(format!("{what}[{index}]: {found}, expected {expected} within {tolerance}"));
        }
        largest = largest.max(difference);
    }
    Ok(largest)
}

/// An error unless both are equal.
pub(crate) fn equal<T: PartialEq + std::fmt::Debug>(what: &str, found: T, expected: T) -> Result<(), String> {
    if found == expected { Ok(()) } else { Err(format!("{what}: {found:?}, expected {expected:?}")) }
}
