//! Types shared by every device, and the device seam: ragged rows, pages, draws, weights.
//!
//! **Architecture invariant:** nothing here knows a model or a scheduler. A model is written once over
//! [`Device`]; a device implements about twenty row-wise operations and decides alone what it fuses.

mod device;
mod draw;
mod element;
mod launch;
mod matrix;
mod memory;
mod quantize;
mod rows;

pub use device::{
    ALTERNATIVES, Device, DeviceError, ExpertWeights, HeadNorms, HeadShape, MarkovHead, ReadBackPart,
    RoundKey, RouteRule, Routing,
};
pub use draw::{DrawRow, DrawTables, FLAG_COUNTS, FLAG_LOGIT_BIAS, PROMPT_SEEN};
pub use element::Element;
pub use launch::LaunchLimit;
pub use matrix::{AffineValues, HostMatrix, MatrixValues, Scales, affine_value};
pub use memory::MemoryMeter;
pub use quantize::{QuantizedMatrix, quantize};
pub use rows::{
    Accepted, CONV_RING, ConvRing, DeviceWindow, KeyValuePages, NO_LANE, PAGE, PageTable, RopeTable, Rows,
};

pub use half::{bf16, f16};
