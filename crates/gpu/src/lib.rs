//! The device seam on wgpu: one set of WGSL shaders for Metal, Vulkan and Direct3D 12.
//!
//! **Architecture invariant:** a sum's order is a function of the weight's shape and of absolute key positions, and each
//! row is computed by the same code of the same pipeline for every number of rows, so row-invariance does not rest on
//! what a shader compiler may do to an expression. Rounds are encoded anew each time, with bind groups that are kept.

mod attention;
mod buffer;
mod device;
mod draw;
mod driver;
mod experts;
mod limits;
mod linear;
mod loader;
mod memory;
mod metal;
mod pipelines;
mod recorder;
mod rows;
mod scratch;
mod shaders;
mod weights;

pub use buffer::Buffer;
pub use device::{GpuDevice, GpuOptions};
pub use limits::LaunchNeeds;
pub use memory::ReadBack;
pub use metal::Translated;
pub use shaders::{ShaderVariant, shader_variants};
pub use weights::{Experts, Matrix};

/// The device's name in messages and receipts.
pub(crate) const NAME: &str = "gpu";
