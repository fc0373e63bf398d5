//! Why a model could not be loaded.

use forerunner_checkpoint::CheckpointError;
use forerunner_tensor::DeviceError;

/// Why a model could not be loaded.
#[derive(Debug, thiserror::Error)]
pub enum ModelError {
    /// The files are wrong.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    /// The device cannot hold or run it.
    #[error(transparent)]
    Device(#[from] DeviceError),
}
