//! The device seam on wgpu: one set of WGSL shaders for Metal, Vulkan and Direct3D 12.
//!
//! **Architecture invariant:** a sum's order is a function of the weight's shape and of absolute key positions. There are
//! pipelines for one row and for more; each writes that order out, as chains of `fma` and additions one by one, and
//! leaves a compiler no product and sum to fuse or not. Rounds are encoded anew each time, with bind groups that are kept.

mod attention;
mod buffer;
mod device;
mod draw;
mod driver;
mod experts;
mod joined;
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
