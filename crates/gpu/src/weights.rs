//! Weights on the device: in the layout that they are stored in, in parts that can be bound.

use forerunner_tensor::{DeviceError, HostMatrix, MatrixValues, Scales};

use crate::buffer::Memory;
use crate::driver::unsupported;

/// How weights are stored, numbered as `FORMAT` in `weights.wgsl`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    /// Dense.
    Bf16 = 0,
    /// 4-bit codes with a scale and a bias for each group of inputs.
    Affine4 = 1,
    /// The same with 8-bit codes.
    Affine8 = 2,
}

/// Formats that there are.
pub(crate) const FORMATS: usize = 3;

/// Inputs that an invocation takes at a time.
pub(crate) const CHUNK: usize = 32;

/// What makes two matrices one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Kind {
    pub(crate) format: Format,
    /// Inputs that share a scale; [`CHUNK`] for dense weights.
    pub(crate) group: usize,
    /// Whether scales are fp16, not bf16.
    pub(crate) half_scales: bool,
}

impl Kind {
    /// How a matrix is kept, if there are kernels for it.
    pub(crate) fn of(matrix: &HostMatrix<'_>) -> Result<Self, DeviceError> {
        if matrix.columns == 0 || !matrix.columns.is_multiple_of(CHUNK) {
            let accepted = format!("a multiple of {CHUNK}");
            return Err(unsupported("the inputs of a matrix", matrix.columns.to_string(), accepted));
        }
        let MatrixValues::Affine(values) = &matrix.values else {
            return Ok(Kind { format: Format::Bf16, group: CHUNK, half_scales: false });
        };
        let format = match values.bits {
            4 => Format::Affine4,
            8 => Format::Affine8,
            bits => return Err(unsupported("the bits of codes", bits.to_string(), "4 or 8")),
        };
        let group = values.group_size;
        if ![32, 64, 128].contains(&group) || !matrix.columns.is_multiple_of(group) {
            return Err(unsupported("the inputs that share a scale", group.to_string(), "32, 64 or 128"));
        }
        Ok(Kind { format, group, half_scales: matches!(values.scales, Scales::F16(_)) })
    }

    /// The logarithm of the chunks that share a scale.
    pub(crate) fn group_shift(&self) -> u32 {
        (self.group / CHUNK).ilog2()
    }

    /// Bytes of an output's codes.
    pub(crate) fn code_bytes(&self, inputs: usize) -> usize {
        match self.format {
            Format::Bf16 => inputs * 2,
            Format::Affine4 => inputs / 2,
            Format::Affine8 => inputs,
        }
    }

    /// Bytes of an output's scales and biases.
    pub(crate) fn scale_bytes(&self, inputs: usize) -> usize {
        match self.format {
            Format::Bf16 => 0,
            Format::Affine4 | Format::Affine8 => inputs / self.group * 4,
        }
    }
}

/// Codes and scales of some rows.
pub(crate) struct Stored {
    pub(crate) codes: Memory,
    pub(crate) scales: Memory,
}

/// Rows of a matrix that are stored alike and bound together.
pub(crate) struct Part {
    pub(crate) kind: Kind,
    pub(crate) first_output: usize,
    pub(crate) outputs: usize,
    pub(crate) stored: Stored,
}

/// A weight matrix `[outputs, inputs]` on the device.
pub struct Matrix {
    pub(crate) outputs: usize,
    pub(crate) inputs: usize,
    /// In order of their outputs.
    pub(crate) parts: Vec<Part>,
}

/// The same matrix of some experts of a layer, one behind the other.
pub(crate) struct ExpertPart {
    pub(crate) first_expert: usize,
    pub(crate) experts: usize,
    pub(crate) stored: Stored,
}

/// One matrix of all experts of a layer, in parts that can be bound.
pub(crate) struct ExpertMatrices {
    pub(crate) kind: Kind,
    /// Of one expert.
    pub(crate) outputs: usize,
    pub(crate) inputs: usize,
    pub(crate) parts: Vec<ExpertPart>,
}

/// The experts of one layer on the device.
pub struct Experts {
    pub(crate) count: usize,
    /// Gate and up as one matrix, where they are stored alike; else both.
    pub(crate) gate_up: Vec<ExpertMatrices>,
    pub(crate) down: ExpertMatrices,
}
