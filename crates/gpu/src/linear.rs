//! Products with rows of activations: which parts of a matrix, how many workgroups.

use bytemuck::{Pod, Zeroable};
use forerunner_tensor::{DeviceError, bf16};

use crate::buffer::{Buffer, Memory};
use crate::device::GpuDevice;
use crate::scratch::Place;
use crate::shaders::Kernel;
use crate::weights::{CHUNK, Format, Kind, Matrix, Part, Stored};

/// Invocations of a workgroup, as in `linear.wgsl`.
pub(crate) const THREADS: usize = 128;
/// Rows of a workgroup of a kernel for many rows, and fours of outputs, as in `many.wgsl`.
pub(crate) const MANY_ROWS: usize = 64;
const MANY_SLOTS: u32 = 16;
/// Rows from which that kernel is taken: with fewer, most of a GPU would have none of its few workgroups.
const FROM_MANY: usize = 128;
/// Most lanes that share a sum.
const MOST_LANES: usize = 32;

/// What becomes of a product, numbered as in `linear.wgsl`.
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
    /// Gate and up become an activation.
    Gated = 4,
}

#[repr(C)]
#[derive(Debug, Clone, Copy, Default, Pod, Zeroable)]
pub(crate) struct LinearParams {
    pub(crate) rows: u32,
    pub(crate) outputs: u32,
    pub(crate) inputs: u32,
    pub(crate) group_shift: u32,
    pub(crate) lanes_shift: u32,
    pub(crate) half_scales: u32,
    pub(crate) write: u32,
    pub(crate) first_output: u32,
    pub(crate) out_width: u32,
    pub(crate) bias_rows: u32,
    pub(crate) bias_row: u32,
    pub(crate) gated_width: u32,
    pub(crate) first_expert: u32,
    pub(crate) experts: u32,
    pub(crate) picks: u32,
    pub(crate) epsilon: f32,
    pub(crate) normalize: u32,
    pub(crate) scale: f32,
    pub(crate) layer: u32,
}

#[repr(C)]
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
struct NarrowParams {
    values: u32,
    add: u32,
    words_of_row: u32,
}

/// Logits that products are added to: those of row `r` are row `r * rows + row`.
#[derive(Clone, Copy)]
pub(crate) struct BiasOf<'a> {
    pub(crate) logits: &'a Memory,
    pub(crate) rows: usize,
    pub(crate) row: usize,
}

impl LinearParams {
    /// For weights `[outputs, inputs]` whose sums all go to rows of `outputs`.
    pub(crate) fn new(kind: Kind, outputs: usize, inputs: usize, write: Write) -> Self {
        LinearParams {
            outputs: outputs as u32,
            inputs: inputs as u32,
            group_shift: kind.group_shift(),
            lanes_shift: lanes(inputs).ilog2(),
            half_scales: u32::from(kind.half_scales),
            write: write as u32,
            out_width: outputs as u32,
            picks: 1,
            ..LinearParams::default()
        }
    }

    /// The same weights as gate and up of an activation.
    pub(crate) fn gated(self) -> Self {
        let width = self.outputs / 2;
        LinearParams { gated_width: width, out_width: width, write: Write::Gated as u32, ..self }
    }

    /// Workgroups that share the outputs of a tile.
    pub(crate) fn blocks(&self, tile: usize) -> usize {
        let slots =
            if self.gated_width > 0 { self.gated_width.div_ceil(2) } else { self.outputs.div_ceil(4) };
        let of_block = if tile == MANY_ROWS { MANY_SLOTS } else { self.slots() };
        slots.div_ceil(of_block) as usize
    }

    /// The kernel, and how many rows its workgroups have. Where one of them would have all outputs, as of a router, the kernel for
    /// many rows has too few.
    fn tiled(&self) -> (Kernel, usize) {
        match self.rows as usize {
            0..=1 => (Kernel::Linear1, 1),
            2..=4 => (Kernel::Linear4, 4),
            FROM_MANY.. if self.blocks(MANY_ROWS) > 1 => (Kernel::LinearMany, MANY_ROWS),
            _ => (Kernel::Linear8, 8),
        }
    }

    /// Slots of a workgroup of a kernel for few rows.
    fn slots(&self) -> u32 {
        THREADS as u32 >> self.lanes_shift
    }

    /// Workgroups that share the outputs, where each four of them has so many slots; none where one has not so many.
    pub(crate) fn blocks_of_fours(&self, outputs: usize, slots: usize) -> Option<usize> {
        let fours = self.slots() as usize / slots;
        (fours > 0).then(|| outputs.div_ceil(4).div_ceil(fours))
    }
}

/// Lanes that share a sum over so many inputs: a function of the matrix alone.
fn lanes(inputs: usize) -> usize {
    let chunks = inputs / CHUNK;
    let most = (1 << chunks.ilog2()).min(MOST_LANES);
    // A last step of half the lanes costs as much as one of all.
    if most == MOST_LANES && !chunks.is_multiple_of(most) && chunks.is_multiple_of(most / 2) {
        most / 2
    } else {
        most
    }
}

impl GpuDevice {
    /// `out[rows, outputs]` = what `write` makes of `matrix · x`.
    pub(crate) fn product(
        &self,
        matrix: &Matrix,
        x: &Memory,
        rows: usize,
        out: &Memory,
        write: Write,
        bias: Option<BiasOf<'_>>,
    ) -> Result<(), DeviceError> {
        let rounds = matches!(write, Write::Bf16 | Write::Add);
        let odd = |outputs: usize| !outputs.is_multiple_of(2);
        if rounds && (odd(matrix.outputs) || matrix.parts.iter().any(|part| odd(part.first_output))) {
            return self.product_of_odd_rows(matrix, x, rows, out, write);
        }
        let nothing = self.nothing()?;
        for part in &matrix.parts {
            let params = LinearParams {
                rows: rows as u32,
                first_output: part.first_output as u32,
                out_width: matrix.outputs as u32,
                bias_rows: bias.map_or(0, |bias| bias.rows as u32),
                bias_row: bias.map_or(0, |bias| bias.row as u32),
                ..LinearParams::new(part.kind, part.outputs, matrix.inputs, write)
            };
            self.product_of_part(part, x, out, bias.map_or(&*nothing, |bias| bias.logits), params)?;
        }
        Ok(())
    }

    /// The part's outputs; where a norm waits that makes `x`, it is done on the way.
    pub(crate) fn product_of_part(
        &self,
        part: &Part,
        x: &Memory,
        out: &Memory,
        bias: &Memory,
        params: LinearParams,
    ) -> Result<(), DeviceError> {
        let Stored { codes, scales } = &part.stored;
        let (rows, format) = (params.rows as usize, part.kind.format);
        if let Some(norm) = self.take_norm(x, rows, params.inputs as usize, out) {
            let buffers = [codes, scales, &norm.x, out, bias, &norm.weight, &norm.out];
            let params = LinearParams { epsilon: norm.params.epsilon, ..params };
            return self.launch((Kernel::LinearNormed, format), &buffers, &params, [1, params.blocks(1), 1]);
        }
        let (kernel, tile) = params.tiled();
        let grid = [rows.div_ceil(tile), params.blocks(tile), 1];
        self.launch((kernel, format), &[codes, scales, x, out, bias], &params, grid)
    }

    /// Where words are shared by rows, sums are written first, and rounded by who owns a word.
    fn product_of_odd_rows(
        &self,
        matrix: &Matrix,
        x: &Memory,
        rows: usize,
        out: &Memory,
        write: Write,
    ) -> Result<(), DeviceError> {
        let values = rows * matrix.outputs;
        let wide = self.scratch(Place::Wide, values * size_of::<f32>())?;
        self.product(matrix, x, rows, &wide, Write::F32, None)?;
        let (words_of_row, grid) = word_grid(values.div_ceil(2));
        let params =
            NarrowParams { values: values as u32, add: u32::from(write == Write::Add), words_of_row };
        self.launch((Kernel::NarrowValues, Format::Bf16), &[&wide, out], &params, grid)
    }

    pub(crate) fn dense_product<T: forerunner_tensor::Element>(
        &self,
        matrix: &Matrix,
        x: &Buffer<bf16>,
        rows: usize,
        out: &Buffer<T>,
        write: Write,
    ) -> Result<(), DeviceError> {
        let (x, out) = (x.first(rows * matrix.inputs), out.first(rows * matrix.outputs));
        self.product(matrix, x, rows, out, write, None)
    }
}

/// Words that one row of workgroups takes, and a grid of 64 invocations a workgroup for so many words.
pub(crate) fn word_grid(words: usize) -> (u32, [usize; 3]) {
    const WIDEST: usize = 1 << 16;
    let of_row = words.min(WIDEST);
    (of_row as u32, [of_row.div_ceil(64), words.div_ceil(of_row.max(1)), 1])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lanes_are_a_function_of_the_inputs() {
        for (inputs, expected) in [(32, 1), (64, 2), (96, 2), (256, 8), (1536, 16), (1792, 32), (2048, 32)] {
            assert_eq!(lanes(inputs), expected, "{inputs} inputs");
        }
    }

    #[test]
    fn outputs_are_covered_by_slots() {
        let kind = Kind { format: Format::Bf16, group: CHUNK, half_scales: false };
        let blocks = |outputs, inputs| LinearParams::new(kind, outputs, inputs, Write::Bf16).blocks(8);
        // 4 slots of 32 lanes, 4 outputs each.
        assert_eq!((blocks(16, 2048), blocks(17, 2048)), (1, 2));
        assert_eq!(LinearParams::new(kind, 32, 2048, Write::Bf16).gated().blocks(8), 2);
    }

    #[test]
    fn rows_and_outputs_choose_the_kernel() {
        let kind = Kind { format: Format::Bf16, group: CHUNK, half_scales: false };
        let tile = |rows, outputs| {
            LinearParams { rows, ..LinearParams::new(kind, outputs, 64, Write::Bf16) }.tiled().1
        };
        let tiles = [1, 2, 4, 5, 127, 128].map(|rows| tile(rows, 65));
        assert_eq!((tiles, tile(128, 64)), ([1, 4, 4, 8, 8, 64], 8));
    }
}
