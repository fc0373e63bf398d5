//! The device seam on NVIDIA GPUs: one arithmetic for every row count, on tensor cores.
//!
//! **Architecture invariant:** a sum over inputs is cut every 256 of them; within a cut one chain of matrix
//! instructions, then the cuts in order. Kernels for few and for many rows only decide who computes a sum and when,
//! so a prompt, a decoded token and a verified draft agree bit for bit. Kernels are compiled ahead of time
//! (`kernels/`, `cargo xtask cuda`); running needs the driver alone.

mod attention;
mod buffer;
mod device;
mod draw;
mod driver;
mod experts;
mod few;
mod images;
mod limits;
mod linear;
mod memory;
mod module;
mod reserved;
mod rounds;
mod rows;
mod scratch;
mod weights;

pub use buffer::Buffer;
pub use device::{CudaDevice, CudaOptions};
pub use images::{BUILT, Image, kernel_sources, source_hash};
pub use memory::ReadBack;
pub use weights::{Experts, Matrix};

/// The device's name in messages and receipts.
pub(crate) const NAME: &str = "cuda";
