//! What a checkpoint amounts to: parameters, bytes, files.

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::TargetConfig;
use crate::archive::{Archive, TensorSlice};
use crate::slots::{MatrixSlot, Storage};

/// Totals of a checkpoint. Tensors that are ignored (a tied head, rotary buffers) do not count.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Summary {
    /// Weights, a quantized one counting as one; its scales and biases do not count.
    pub parameters: u64,
    /// Weights that a token's forward uses, the head included: all but the experts that are not picked.
    pub active_parameters: u64,
    /// Bytes of the tensors.
    pub bytes: u64,
    /// How many of [`Summary::parameters`] are stored as `"BF16"`, `"F16"`, `"F32"`, `"4-bit"` or `"8-bit"`.
    pub stored: BTreeMap<String, u64>,
    /// The safetensors files.
    pub files: Vec<PathBuf>,
}

impl Summary {
    pub(crate) fn new(archive: &Archive) -> Self {
        Summary {
            parameters: 0,
            active_parameters: 0,
            bytes: 0,
            stored: BTreeMap::new(),
            files: archive.paths().map(Into::into).collect(),
        }
    }

    pub(crate) fn add_vector(&mut self, slice: &TensorSlice) {
        let elements = slice.byte_count() * 8 / slice.data_type.bitsize();
        self.add(elements as u64, slice.byte_count(), format!("{:?}", slice.data_type));
    }

    pub(crate) fn add_matrix(&mut self, slot: &MatrixSlot) {
        let bytes = slot.slices().iter().map(|slice| slice.byte_count()).sum();
        let stored = match &slot.storage {
            Storage::Dense(slice) => format!("{:?}", slice.data_type),
            Storage::Affine { bits, .. } => format!("{bits}-bit"),
        };
        self.add(slot.rows as u64 * slot.columns as u64, bytes, stored);
    }

    /// Takes the experts that a token does not pick out of the active parameters.
    pub(crate) fn subtract_inactive(&mut self, config: &TargetConfig) {
        let Some(mixture) = &config.mixture else { return };
        let expert = 3 * mixture.intermediate as u64 * config.hidden as u64;
        let idle_experts = (mixture.experts - mixture.picks) * (config.layers.len() - mixture.dense_layers);
        self.active_parameters -= expert * idle_experts as u64;
    }

    fn add(&mut self, parameters: u64, bytes: usize, stored: String) {
        self.parameters += parameters;
        self.active_parameters += parameters;
        self.bytes += bytes as u64;
        *self.stored.entry(stored).or_default() += parameters;
    }
}
