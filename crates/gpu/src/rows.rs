//! Operations on single rows: embeddings, norms, convolutions, copies.

use bytemuck::{Pod, Zeroable};
use forerunner_tensor::{CONV_RING, ConvRing, DeviceError, Rows, bf16};

use crate::buffer::{Buffer, Memory};
use crate::device::GpuDevice;
use crate::driver::unsupported;
use crate::joined::MOST_NORMED;
use crate::linear::word_grid;
use crate::shaders::Kernel;
use crate::weights::{CHUNK, Format, Matrix, Stored};

/// Invocations of a workgroup of the kernels that have one for each word.
const THREADS: usize = 64;

#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct EmbedParams {
    inputs: u32,
    group_shift: u32,
    half_scales: u32,
    first: u32,
    count: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
pub(crate) struct NormParams {
    pub(crate) words: u32,
    pub(crate) epsilon: f32,
}

#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct ConvParams {
    rows: u32,
    words: u32,
    parts: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct CopyParams {
    width: u32,
    to_width: u32,
    to_offset: u32,
    rows: u32,
}

/// Parts of `short_conv`: the convolution, the ring.
const CONVOLVE: u32 = 1;
const WRITE_RING: u32 = 2;
/// Rows up to which no row's slot in the ring is one that another row of the forward reads.
const RING_SAFE_ROWS: usize = CONV_RING - 2;

/// Words of `values` values of a row, which must be even.
pub(crate) fn words_of(what: &str, values: usize) -> Result<usize, DeviceError> {
    if values.is_multiple_of(2) {
        return Ok(values / 2);
    }
    Err(unsupported(what, values.to_string(), "an even number"))
}

/// A grid for `words` words of each of `rows` rows.
pub(crate) fn row_grid(words: usize, rows: usize) -> [usize; 3] {
    [words.div_ceil(THREADS), rows, 1]
}

impl GpuDevice {
    pub(crate) fn embed_rows(
        &self,
        table: &Matrix,
        rows: &Rows<GpuDevice>,
        out: &Buffer<bf16>,
    ) -> Result<(), DeviceError> {
        let (lane, token) = (rows.lane.first(rows.count), rows.token.first(rows.count));
        let out = out.first(rows.count * table.inputs);
        for part in &table.parts {
            let params = EmbedParams {
                inputs: table.inputs as u32,
                group_shift: part.kind.group_shift(),
                half_scales: u32::from(part.kind.half_scales),
                first: part.first_output as u32,
                count: part.outputs as u32,
            };
            let Stored { codes, scales } = &part.stored;
            let grid = row_grid(table.inputs / 2, rows.count);
            let kernel = (Kernel::Embed, part.kind.format);
            self.launch(kernel, &[codes, scales, lane, token, out], &params, grid)?;
        }
        Ok(())
    }

    pub(crate) fn norm_rows(
        &self,
        x: &Buffer<bf16>,
        weight: &Buffer<bf16>,
        epsilon: f32,
        (count, width): (usize, usize),
        out: &Buffer<bf16>,
    ) -> Result<(), DeviceError> {
        let words = words_of("the width of a norm", width)? as u32;
        let (x, weight, out) = (x.first(count * width), weight.first(width), out.first(count * width));
        let params = NormParams { words, epsilon };
        if count == 1 && width <= MOST_NORMED && width.is_multiple_of(CHUNK) {
            return self.let_norm_wait([x, weight, out], params);
        }
        self.launch_norm([x, weight, out], params, count)
    }

    pub(crate) fn launch_norm(
        &self,
        buffers: [&Memory; 3],
        params: NormParams,
        rows: usize,
    ) -> Result<(), DeviceError> {
        self.launch((Kernel::RmsNorm, Format::Bf16), &buffers, &params, [rows, 1, 1])
    }

    pub(crate) fn convolve(
        &self,
        projected: &Buffer<bf16>,
        weight: &Buffer<bf16>,
        channels: usize,
        rows: &Rows<GpuDevice>,
        ring: &ConvRing<GpuDevice>,
        out: &Buffer<bf16>,
    ) -> Result<(), DeviceError> {
        let words = words_of("the channels of a convolution", channels)?;
        let buffers = [
            projected.first(rows.count * 3 * channels),
            weight.first(channels * 3),
            rows.lane.first(rows.count),
            rows.position.first(rows.count),
            &ring.gated.memory,
            out.first(rows.count * channels),
        ];
        let steps: &[u32] =
            if rows.count <= RING_SAFE_ROWS { &[CONVOLVE | WRITE_RING] } else { &[CONVOLVE, WRITE_RING] };
        for parts in steps {
            let params = ConvParams { rows: rows.count as u32, words: words as u32, parts: *parts };
            self.launch((Kernel::ShortConv, Format::Bf16), &buffers, &params, row_grid(words, rows.count))?;
        }
        Ok(())
    }

    pub(crate) fn copy_into_columns(
        &self,
        x: &Buffer<bf16>,
        (count, width): (usize, usize),
        out: &Buffer<bf16>,
        (out_width, offset): (usize, usize),
    ) -> Result<(), DeviceError> {
        let words = words_of("the width of copied columns", width)?;
        let params = CopyParams {
            width: words as u32,
            to_width: words_of("the width of the row that columns are copied to", out_width)? as u32,
            to_offset: words_of("the column that is copied to", offset)? as u32,
            rows: count as u32,
        };
        let buffers = [x.first(count * width), out.first(count * out_width)];
        self.launch((Kernel::CopyColumns, Format::Bf16), &buffers, &params, row_grid(words, count))
    }

    pub(crate) fn copy_within(
        &self,
        buffer: &Buffer<bf16>,
        from: &Buffer<i32>,
        to: &Buffer<i32>,
        (count, width): (usize, usize),
    ) -> Result<(), DeviceError> {
        let buffers = [from.first(count), to.first(count), &buffer.memory];
        let params = CopyParams { width: width as u32, to_width: 0, to_offset: 0, rows: count as u32 };
        match words_of("", width) {
            Ok(words) => {
                let params = CopyParams { width: words as u32, ..params };
                self.launch((Kernel::CopyRows, Format::Bf16), &buffers, &params, row_grid(words, count))
            }
            Err(_) => self.launch((Kernel::CopyValues, Format::Bf16), &buffers, &params, [1, 1, 1]),
        }
    }

    pub(crate) fn gather(
        &self,
        x: &Buffer<bf16>,
        index: &Buffer<i32>,
        (count, width): (usize, usize),
        out: &Buffer<bf16>,
    ) -> Result<(), DeviceError> {
        let (words_of_row, grid) = word_grid((count * width).div_ceil(2));
        let params =
            CopyParams { width: width as u32, to_width: words_of_row, to_offset: 0, rows: count as u32 };
        let buffers = [&x.memory, index.first(count), out.first(count * width)];
        self.launch((Kernel::GatherRows, Format::Bf16), &buffers, &params, grid)
    }
}
