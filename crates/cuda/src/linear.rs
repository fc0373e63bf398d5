//! Products with rows of activations: which kernel, and how many blocks.

use forerunner_tensor::{DeviceError, bf16};

use crate::buffer::Buffer;
use crate::device::CudaDevice;
use crate::driver::Address;
use crate::module::{Grid, Kernel, Params};
use crate::rows::NormFirst;
use crate::weights::{Matrix, WeightsParam};

/// Rows up to which the weights pass each block once; above, rows are cut into blocks of [`MANY_ROWS`].
const FEW_ROWS: usize = 16;
/// Rows of a block of the kernels for many rows.
const MANY_ROWS: usize = 64;
/// Outputs that a warp has at a time.
const OUTPUTS: usize = 16;
/// Warps of a block.
const WARPS: usize = 8;
/// Threads of a block.
const THREADS: usize = 256;

/// What becomes of a product, numbered as in `linear.cuh`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Write {
    /// Rounded to bf16.
    Bf16 = 0,
    /// Rounded, added to what is there, and rounded again.
    Add = 1,
    /// As it is.
    F32 = 2,
    /// Added to logits.
    Bias = 3,
}

/// Logits that products are added to: those of row `r` are row `r * rows + row`.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct BiasOf {
    pub(crate) logits: Address,
    pub(crate) rows: usize,
    pub(crate) row: usize,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct LinearParams {
    weights: WeightsParam,
    x: Address,
    out: Address,
    logits: Address,
    norm: NormFirst,
    rows: i32,
    write: i32,
    bias_rows: i32,
    bias_row: i32,
}

// SAFETY: `LinearParams` of `linear.cuh`.
unsafe impl Params for LinearParams {}

impl CudaDevice {
    pub(crate) fn product(
        &self,
        matrix: &Matrix,
        x: Address,
        rows: usize,
        out: Address,
        write: Write,
        bias: BiasOf,
    ) -> Result<(), DeviceError> {
        if rows == 0 {
            return Ok(());
        }
        let few = rows <= FEW_ROWS;
        let norm =
            if few { self.norm_first(x, rows, matrix.layout.inputs, out) } else { NormFirst::default() };
        let params = LinearParams {
            weights: matrix.param(),
            x,
            out,
            logits: bias.logits,
            norm,
            rows: rows as i32,
            write: write as i32,
            bias_rows: bias.rows as i32,
            bias_row: bias.row as i32,
        };
        let blocks = matrix.layout.outputs.div_ceil(OUTPUTS);
        let format = matrix.layout.format.index();
        if few {
            let (kernel, columns) = few_kernel(format, rows);
            let grid = Grid::new(self.even_grid(blocks), rows.div_ceil(8 * columns), THREADS);
            return self.launch(kernel, grid, &params);
        }
        let kernel = [Kernel::LinearManyBf16, Kernel::LinearManyAffine4, Kernel::LinearManyAffine8][format];
        self.launch(kernel, Grid::new(rows.div_ceil(MANY_ROWS), blocks.div_ceil(WARPS), THREADS), &params)
    }

    /// Blocks for `work` pieces: as few rounds of all multiprocessors as there can be, all equally long.
    pub(crate) fn even_grid(&self, work: usize) -> usize {
        let most = self.driver.multiprocessors * 2;
        if work <= self.driver.multiprocessors * 4 {
            return work.div_ceil(work.div_ceil(self.driver.multiprocessors).max(1));
        }
        most
    }

    pub(crate) fn dense_product(
        &self,
        matrix: &Matrix,
        x: &Buffer<bf16>,
        rows: usize,
        out: Address,
        write: Write,
    ) -> Result<(), DeviceError> {
        self.product(matrix, x.first(rows * matrix.layout.inputs), rows, out, write, BiasOf::default())
    }
}

/// The kernel for so few rows, and how many times 8 of them a block has.
fn few_kernel(format: usize, rows: usize) -> (Kernel, usize) {
    let (kernels, columns) = match rows {
        0..=8 => ([Kernel::Linear1Bf16, Kernel::Linear1Affine4, Kernel::Linear1Affine8], 1),
        _ => ([Kernel::Linear2Bf16, Kernel::Linear2Affine4, Kernel::Linear2Affine8], 2),
    };
    (kernels[format], columns)
}
