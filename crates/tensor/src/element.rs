//! What a device buffer can hold.

use bytemuck::Pod;
use half::bf16;

use crate::{Accepted, DeviceWindow, DrawRow};

/// A plain value that a device buffer holds. Every element is a whole number of 16-bit words, without padding
/// and without pointers, so that host and device agree on its bytes.
pub trait Element: Pod + Default + Send + Sync + std::fmt::Debug {}

impl Element for bf16 {}
impl Element for f32 {}
impl Element for i32 {}
impl Element for u32 {}
impl Element for DrawRow {}
impl Element for DeviceWindow {}
impl Element for Accepted {}
