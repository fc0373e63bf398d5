//! Grows the demo pair to the shape of a released model: its sizes and bytes, computing the demo's function.
//!
//! So that speed can be measured with real acceptance where the released weights are not there (docs/synth.md). The
//! copies that growing makes are equal, so an index that is wrong by a copy goes unseen: **what is grown shows how
//! fast an engine is, never that it is right.**
//!
//! **Architecture invariant:** nothing large is held. A grown checkpoint is a [`TensorSource`]: a recipe for every
//! tensor over the few megabytes of the base, carried out when a part is read.
//!
//! [`TensorSource`]: forerunner_checkpoint::TensorSource

mod base;
mod calibration;
mod checkpoint;
mod config;
mod control;
mod copies;
mod drafter;
mod error;
mod growth;
mod placement;
mod replicas;
mod shape;
mod specification;
mod target;

pub use base::{Base, Format};
pub use calibration::{ResidualSize, residual_size};
pub use checkpoint::GrownCheckpoint;
pub use copies::Copies;
pub use error::SynthError;
pub use shape::Shape;
pub use specification::Specification;
