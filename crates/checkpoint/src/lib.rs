//! Reads LFM2 and DSpark checkpoints: `config.json`, safetensors, MLX affine quantization.
//!
//! **Architecture invariant:** this crate decides what a file means and nothing about how it runs. Every way a
//! file can be wrong is a variant of [`CheckpointError`] that names the file, the tensor or field, what was
//! found and what is accepted.

mod config;
mod error;
mod weights;

pub use config::{DrafterConfig, Family, LayerKind, MixtureConfig, QuantizationConfig, TargetConfig};
pub use error::CheckpointError;
pub use weights::{
    DrafterCheckpoint, DrafterHead, DrafterLayerWeights, FeedForwardWeights, LayerWeights, OperatorWeights,
    TargetCheckpoint,
};
