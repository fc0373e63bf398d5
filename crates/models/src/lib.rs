//! LFM2 targets and DSpark drafters over any device.
//!
//! **Architecture invariant:** a model is written once, generic over [`Device`](forerunner_tensor::Device). It
//! knows neither which device it runs on nor which rows a scheduler will ask for, and a quantized weight is a
//! property of the weight, not of the model.

pub mod dspark;
mod error;
pub mod layers;
pub mod lfm2;

pub use dspark::DSpark;
pub use error::ModelError;
pub use lfm2::Lfm2;
