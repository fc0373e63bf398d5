//! Reads LFM2 and DSpark checkpoints: `config.json`, safetensors, MLX affine quantization.
//!
//! **Architecture invariant:** this crate decides what a file means and nothing about how it runs. Every way a
//! file can be wrong is a variant of [`CheckpointError`] that names the file, the tensor or field, what was
//! found and what is accepted. No bytes, however wrong, make it panic.

mod archive;
mod config;
mod drafter;
mod error;
mod inventory;
mod names;
mod slots;
mod source;
mod summary;
mod target;
mod weights;
mod write;

pub use config::{DrafterConfig, Family, LayerKind, MixtureConfig, QuantizationConfig, TargetConfig};
pub use drafter::DrafterCheckpoint;
pub use error::CheckpointError;
pub use source::{TensorInfo, TensorSource};
pub use summary::Summary;
pub use target::TargetCheckpoint;
pub use weights::{
    DrafterHead, DrafterLayerWeights, Experts, FeedForwardWeights, LayerWeights, OperatorWeights,
};
pub use write::{write_dequantized, write_source};

pub use safetensors::Dtype;
