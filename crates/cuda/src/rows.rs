//! Operations on single rows: embeddings, norms, convolutions, copies.

use forerunner_tensor::{CONV_RING, ConvRing, DeviceError, bf16};

use crate::buffer::Buffer;
use crate::device::CudaDevice;
use crate::driver::Address;
use crate::few::{FEW_INPUTS, FEW_ROWS, FewLayout, FewWork, STRIP};
use crate::linear::Write;
use crate::module::{Grid, Kernel, Params};
use crate::weights::{Format, Matrix, WeightsParam, unsupported};

/// The rows of a forward, as in `rows.cuh`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(crate) struct RowsParam {
    pub(crate) token: Address,
    pub(crate) lane: Address,
    pub(crate) position: Address,
    pub(crate) key_end: Address,
    pub(crate) count: i32,
    reserved: i32,
}

impl RowsParam {
    pub(crate) fn new(rows: &forerunner_tensor::Rows<CudaDevice>) -> Self {
        RowsParam {
            token: rows.token.first(rows.count),
            lane: rows.lane.first(rows.count),
            position: rows.position.first(rows.count),
            key_end: rows.key_end.first(rows.count),
            count: rows.count as i32,
            reserved: 0,
        }
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
struct EmbedParams {
    table: WeightsParam,
    rows: RowsParam,
    out: Address,
    format: i32,
    reserved: i32,
}

// SAFETY: `EmbedParams` of `rows.cuh`.
unsafe impl Params for EmbedParams {}

/// A norm, as `NormParams` of `rows.cuh`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(crate) struct NormParams {
    x: Address,
    weight: Address,
    out: Address,
    epsilon: f32,
    inverse_width: f32,
    width: i32,
    rows: i32,
}

// SAFETY: `NormParams` of `rows.cuh`.
unsafe impl Params for NormParams {}

/// A norm that a product's kernel does on the way, as `NormFirst` of `norm.cuh`; none is all zeros.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct NormFirst {
    raw: Address,
    weight: Address,
    out: Address,
    epsilon: f32,
    inverse_width: f32,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct ConvParams {
    projected: Address,
    weight: Address,
    ring: Address,
    out: Address,
    rows: RowsParam,
    channels: i32,
    parts: i32,
}

// SAFETY: `ConvParams` of `rows.cuh`.
unsafe impl Params for ConvParams {}

#[repr(C)]
#[derive(Clone, Copy)]
struct ConvProductParams {
    weights: WeightsParam,
    x: Address,
    norm: NormFirst,
    layout: FewLayout,
    conv: ConvParams,
}

// SAFETY: `ConvProductParams` of `conv.cuh`.
unsafe impl Params for ConvProductParams {}

/// Rows to copy, as `CopyParams` of `rows.cuh`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(crate) struct CopyParams {
    pub(crate) from: Address,
    pub(crate) to: Address,
    pub(crate) from_index: Address,
    pub(crate) to_index: Address,
    pub(crate) from_width: i32,
    pub(crate) to_width: i32,
    pub(crate) to_offset: i32,
    pub(crate) width: i32,
}

// SAFETY: `CopyParams` of `rows.cuh`.
unsafe impl Params for CopyParams {}

/// Widths that a block norms: a chunk of 256 for each of 8 warps.
pub(crate) const WIDEST_NORM: usize = 8 * 256;
/// Parts of `short_conv`: the convolution, the ring.
const CONVOLVE: i32 = 1;
const WRITE_RING: i32 = 2;
/// Rows up to which no row's slot in the ring is one that another row of the forward reads.
const RING_SAFE_ROWS: usize = CONV_RING - 2;

impl CudaDevice {
    pub(crate) fn embed_rows(
        &self,
        table: &Matrix,
        rows: &forerunner_tensor::Rows<CudaDevice>,
        out: &Buffer<bf16>,
    ) -> Result<(), DeviceError> {
        let params = EmbedParams {
            table: table.param(),
            rows: RowsParam::new(rows),
            out: out.first(rows.count * table.layout.inputs),
            format: table.layout.format.index() as i32,
            reserved: 0,
        };
        self.launch_rows(Kernel::Embed, Grid::new(rows.count, 1, 256), &params)
    }

    pub(crate) fn norm_rows(
        &self,
        x: &Buffer<bf16>,
        weight: &Buffer<bf16>,
        epsilon: f32,
        (count, width): (usize, usize),
        out: &Buffer<bf16>,
    ) -> Result<(), DeviceError> {
        if width > WIDEST_NORM || !width.is_multiple_of(16) {
            let accepted = format!("a multiple of 16 up to {WIDEST_NORM}");
            return Err(unsupported("the width of a norm", width.to_string(), accepted));
        }
        let params = NormParams {
            x: x.first(count * width),
            weight: weight.first(width),
            out: out.first(count * width),
            epsilon,
            inverse_width: 1.0 / width as f32,
            width: width as i32,
            rows: count as i32,
        };
        self.settle()?;
        if self.in_round.get() && (1..=FEW_ROWS).contains(&count) {
            // The product that reads it comes next: it does the norm on the way.
            self.waiting_norm.set(Some(params));
            return Ok(());
        }
        self.launch_norm(&params)
    }

    fn launch_norm(&self, params: &NormParams) -> Result<(), DeviceError> {
        self.launch_rows(Kernel::RmsNorm, Grid::new(params.rows as usize, 1, 256), params)
    }

    /// Queues the norm that waits, if one does.
    pub(crate) fn settle(&self) -> Result<(), DeviceError> {
        self.waiting_norm.take().map_or(Ok(()), |params| self.launch_norm(&params))
    }

    /// The norm that waits, when it makes the `rows` rows at `x` that a product is about to read. That product's
    /// kernel does it, and writes the normed rows as well. `out` is what the product writes: not what is normed.
    pub(crate) fn norm_first(&self, x: Address, rows: usize, width: usize, out: Address) -> NormFirst {
        let Some(norm) = self.waiting_norm.get() else { return NormFirst::default() };
        let fits = (norm.out, norm.rows as usize, norm.width as usize) == (x, rows, width);
        if !fits || norm.x == out {
            return NormFirst::default();
        }
        self.waiting_norm.set(None);
        NormFirst {
            raw: norm.x,
            weight: norm.weight,
            out: x,
            epsilon: norm.epsilon,
            inverse_width: norm.inverse_width,
        }
    }

    pub(crate) fn convolve(
        &self,
        projected: &Buffer<bf16>,
        weight: &Buffer<bf16>,
        channels: usize,
        rows: &forerunner_tensor::Rows<CudaDevice>,
        ring: &ConvRing<CudaDevice>,
        out: &Buffer<bf16>,
    ) -> Result<(), DeviceError> {
        let mut params = conv_params(projected, weight, channels, rows, ring, out);
        let grid = Grid::new(channels.div_ceil(256), rows.count, 256);
        if rows.count <= RING_SAFE_ROWS {
            return self.launch_rows(Kernel::ShortConv, grid, &params);
        }
        params.parts = CONVOLVE;
        self.launch(Kernel::ShortConv, grid, &params)?;
        params.parts = WRITE_RING;
        self.launch(Kernel::ShortConv, grid, &params)
    }

    /// The projection and the convolution: one kernel for few rows.
    pub(crate) fn project_and_convolve(
        &self,
        matrix: &Matrix,
        x: &Buffer<bf16>,
        weight: &Buffer<bf16>,
        channels: usize,
        rows: &forerunner_tensor::Rows<CudaDevice>,
        ring: &ConvRing<CudaDevice>,
        projected: &Buffer<bf16>,
        out: &Buffer<bf16>,
    ) -> Result<(), DeviceError> {
        let (inputs, format) = (matrix.layout.inputs, matrix.layout.format);
        let chip = &self.driver.resources;
        // As in `conv.cuh`.
        let (groups, stages) = if format == Format::Bf16 { (1, chip.few_stages(format)) } else { (3, 1) };
        let pieces = 3 / groups;
        let work = FewWork {
            format,
            items: channels / STRIP,
            at_most: false,
            pieces,
            together: 1,
            stages,
            rows: rows.count,
            groups,
        };
        let shape_fits = inputs <= FEW_INPUTS && channels.is_multiple_of(STRIP);
        let plan = chip.few_plan(work).filter(|_| shape_fits && (1..=FEW_ROWS).contains(&rows.count));
        let Some((grid, layout)) = plan else {
            let to = projected.first(rows.count * matrix.layout.outputs);
            self.dense_product(matrix, x, rows.count, to, Write::Bf16)?;
            return self.convolve(projected, weight, channels, rows, ring, out);
        };
        let x = x.first(rows.count * inputs);
        let norm = self.norm_first(x, rows.count, inputs, 0);
        let conv = conv_params(projected, weight, channels, rows, ring, out);
        let params = ConvProductParams { weights: matrix.param(), x, norm, layout, conv };
        let kernels = match rows.count {
            0..=8 => [Kernel::Conv1Bf16, Kernel::Conv1Affine4, Kernel::Conv1Affine8],
            _ => [Kernel::Conv2Bf16, Kernel::Conv2Affine4, Kernel::Conv2Affine8],
        };
        self.launch(kernels[format.index()], grid, &params)
    }

    pub(crate) fn copy(&self, count: usize, params: &CopyParams) -> Result<(), DeviceError> {
        self.launch_rows(Kernel::Copy, Grid::new(count, 1, 256), params)
    }

    /// Queues a kernel with blocks for rows, when there are any.
    pub(crate) fn launch_rows<P: Params>(
        &self,
        kernel: Kernel,
        grid: Grid,
        params: &P,
    ) -> Result<(), DeviceError> {
        if grid.blocks.contains(&0) { Ok(()) } else { self.launch(kernel, grid, params) }
    }
}

/// The parameters of a convolution that also writes the ring.
fn conv_params(
    projected: &Buffer<bf16>,
    weight: &Buffer<bf16>,
    channels: usize,
    rows: &forerunner_tensor::Rows<CudaDevice>,
    ring: &ConvRing<CudaDevice>,
    out: &Buffer<bf16>,
) -> ConvParams {
    ConvParams {
        projected: projected.first(rows.count * 3 * channels),
        weight: weight.first(channels * 3),
        ring: ring.gated.address(),
        out: out.first(rows.count * channels),
        rows: RowsParam::new(rows),
        channels: channels as i32,
        parts: CONVOLVE | WRITE_RING,
    }
}
