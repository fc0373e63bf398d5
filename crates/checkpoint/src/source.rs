//! Tensors that are made when they are read: a checkpoint that need not lie on a disk.

use safetensors::Dtype;
use serde_json::{Map, Value};

/// What a checkpoint's directory holds, computed instead of stored.
///
/// A checkpoint over a source has the same inventory, checks and load path as one over files, and asks for no more
/// than the part that it is about to hand out. Reading a part twice gives equal bytes.
pub trait TensorSource: Send + Sync {
    /// What messages call it.
    fn name(&self) -> &str;

    /// What its config.json says.
    fn config(&self) -> &Map<String, Value>;

    /// Its tensors, as safetensors headers would list them.
    fn tensors(&self) -> &[TensorInfo];

    /// Fills `out` with the little-endian bytes of tensor `index` from byte `start` on. Both fall on the ends of
    /// rows of the last dimension, and lie within the tensor. All numbers are finite.
    fn read(&self, index: usize, start: usize, out: &mut [u8]);
}

/// A tensor's name, type and shape.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TensorInfo {
    /// Its name as a file would have it.
    pub name: String,
    /// Its elements' type.
    pub data_type: Dtype,
    /// Its shape.
    pub shape: Vec<usize>,
}

impl TensorInfo {
    /// Bytes of all its elements.
    pub fn byte_count(&self) -> usize {
        self.shape.iter().product::<usize>() * self.data_type.bitsize() / 8
    }
}
