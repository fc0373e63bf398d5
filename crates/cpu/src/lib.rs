//! The device seam on the CPU: one arithmetic for every row count, chosen once at start.
//!
//! **Architecture invariant:** within a mode every sum has one order, fixed by the matrix's width or by absolute key
//! position. Rows, tiles and threads only decide who computes it and when, so a prompt, a decoded token and a
//! verified draft agree bit for bit. An operation is written once over [`arithmetic::Arithmetic`]; a mode is one
//! file or folder (`amx`, `avx512`, `avx2`, `neon`, `portable`).

#[cfg(target_arch = "x86_64")]
mod amx;
mod arithmetic;
mod attention;
#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod conv;
mod device;
mod draw;
mod experts;
mod feed_forward;
mod filter;
mod grid;
mod limits;
mod linear;
mod log_probabilities;
mod markov;
mod math;
mod memory;
mod mode;
#[cfg(target_arch = "aarch64")]
mod neon;
mod noise;
mod norm;
mod pool;
mod portable;
mod rope;
mod rows;
mod weights;
#[cfg(any(target_arch = "aarch64", target_arch = "x86_64"))]
mod wide;
mod windows;

pub use device::{CpuDevice, CpuOptions};
pub use experts::Experts;
pub use memory::Buffer;
pub use mode::{Mode, UnknownMode};
pub use weights::Matrix;

/// The device's name in messages and receipts.
pub(crate) const NAME: &str = "cpu";
