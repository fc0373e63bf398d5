//! One typed error per way a checkpoint can be wrong.

/// Why a checkpoint cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum CheckpointError {}
