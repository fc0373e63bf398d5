//! Products with rows of activations: which kernel, and how many blocks.

use forerunner_tensor::{DeviceError, bf16};

use crate::buffer::Buffer;
use crate::device::CudaDevice;
use crate::driver::Address;
use crate::few::{FEW_INPUTS, FEW_ROWS, FewLayout, FewWork, STRIP, staged_tile_bytes};
use crate::module::{Grid, Kernel, Params};
use crate::rows::NormFirst;
use crate::weights::{Format, Layout, Matrix, WeightsParam};

/// Rows of a block of the kernels for many rows, its threads, and the strips that its warps have: `MANY_ROWS`,
/// `MANY_WARPS` and `MANY_STRIPS` of `linear.cuh`.
const MANY_ROWS: usize = 64;
pub(crate) const MANY_WARPS: usize = 4;
pub(crate) const MANY_THREADS: usize = 32 * MANY_WARPS;
pub(crate) const MANY_BLOCK_STRIPS: usize = 2 * MANY_WARPS;
/// Inputs of a tile.
const TILE_INPUTS: usize = 64;
/// Rows up to which blocks for few rows read the weights again for every [`FEW_ROWS`] of them.
const SOME_ROWS: usize = 128;
/// Rows that a block norms at the same time as one.
const NORMED_ROWS: usize = 4;

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
    layout: FewLayout,
    block_rows: i32,
    reserved: i32,
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
        let mut params = LinearParams {
            weights: matrix.param(),
            x,
            out,
            logits: bias.logits,
            norm: NormFirst::default(),
            rows: rows as i32,
            write: write as i32,
            bias_rows: bias.rows as i32,
            bias_row: bias.row as i32,
            layout: FewLayout::default(),
            block_rows: 0,
            reserved: 0,
        };
        let Layout { inputs, format, .. } = matrix.layout;
        let strips = matrix.layout.outputs.div_ceil(STRIP);
        if let Some((kernel, grid, layout, block_rows)) = self.few_product(&matrix.layout, rows) {
            params.layout = layout;
            params.block_rows = block_rows as i32;
            if inputs <= FEW_INPUTS && rows <= FEW_ROWS {
                params.norm = self.norm_first(x, rows, inputs, out);
            }
            return self.launch(kernel, grid, &params);
        }
        let kernels = [Kernel::LinearManyBf16, Kernel::LinearManyAffine4, Kernel::LinearManyAffine8];
        let blocks = |block_rows: usize| rows.div_ceil(block_rows) * strips.div_ceil(MANY_BLOCK_STRIPS);
        // Half as many rows a block, as long as the blocks run all at once.
        let all_at_once = 2 * self.driver.resources.multiprocessors;
        let block_rows = if blocks(MANY_ROWS / 2) <= all_at_once { MANY_ROWS / 2 } else { MANY_ROWS };
        params.block_rows = block_rows as i32;
        let grid = Grid::new(rows.div_ceil(block_rows), strips.div_ceil(MANY_BLOCK_STRIPS), MANY_THREADS);
        self.launch(
            kernels[format.index()],
            grid.with_shared(many_shared(format, self.driver.resources.is_roomy)),
            &params,
        )
    }

    /// The kernel for few rows, and how many a block has; none where there are too many or the shape is not one for it.
    fn few_product(&self, shape: &Layout, rows: usize) -> Option<(Kernel, Grid, FewLayout, usize)> {
        let Layout { inputs, outputs, format } = *shape;
        let chip = &self.driver.resources;
        let wide = inputs > FEW_INPUTS;
        // A router's blocks are few, and what they take is the norm of their rows.
        let has_few_blocks =
            !wide && rows.div_ceil(NORMED_ROWS) * outputs.div_ceil(STRIP) <= chip.multiprocessors;
        let block_rows = if rows <= FEW_ROWS && has_few_blocks { NORMED_ROWS } else { FEW_ROWS };
        let row_blocks = rows.div_ceil(block_rows);
        let suits = match wide {
            true => row_blocks == 1 && inputs.is_multiple_of(64),
            // So small a matrix has too few large blocks.
            false => rows <= SOME_ROWS || outputs.div_ceil(STRIP) * row_blocks <= 4 * chip.multiprocessors,
        };
        if !suits {
            return None;
        }
        let work = FewWork {
            format,
            items: outputs.div_ceil(STRIP),
            at_most: false,
            pieces: inputs.div_ceil(FEW_INPUTS),
            together: 1,
            stages: chip.few_stages(format),
            rows: if wide { 0 } else { rows.min(block_rows) },
            groups: 1,
        };
        let (mut grid, layout) = chip.few_plan(work)?;
        if wide {
            // A block has one strip.
            grid.blocks[0] = work.items;
        }
        grid.blocks[1] = row_blocks;
        Some((few_kernel(format, rows.min(block_rows), wide), grid, layout, block_rows))
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

/// Dynamic memory of a block for many rows: that of all `Stages` of `linear.cuh`, with the tiles of each.
pub(crate) fn many_shared(format: Format, is_roomy: bool) -> usize {
    let (stages, tiles) = match format {
        Format::Affine4 { .. } if is_roomy => (2, 4),
        Format::Affine4 { .. } => (3, 2),
        Format::Affine8 { .. } if is_roomy => (3, 2),
        _ => (2, 2),
    };
    let row = tiles * TILE_INPUTS * size_of::<bf16>() + 16;
    stages * (MANY_ROWS * row + MANY_BLOCK_STRIPS * tiles * staged_tile_bytes(format))
}

/// The kernel for few rows at a time.
fn few_kernel(format: Format, rows: usize, wide: bool) -> Kernel {
    let kernels = match (rows <= 8, wide) {
        (true, false) => [Kernel::Linear1Bf16, Kernel::Linear1Affine4, Kernel::Linear1Affine8],
        (false, false) => [Kernel::Linear2Bf16, Kernel::Linear2Affine4, Kernel::Linear2Affine8],
        (true, true) => [Kernel::LinearWide1Bf16, Kernel::LinearWide1Affine4, Kernel::LinearWide1Affine8],
        (false, true) => [Kernel::LinearWide2Bf16, Kernel::LinearWide2Affine4, Kernel::LinearWide2Affine8],
    };
    kernels[format.index()]
}
