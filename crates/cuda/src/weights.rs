//! Weights at load: packed for tensor cores, in the format that they are stored in where kernels can read it.

use std::sync::Arc;

use forerunner_tensor::{AffineValues, DeviceError, ExpertWeights, HostMatrix, MatrixValues, Scales, bf16};

use crate::buffer::Memory;
use crate::driver::{Address, Driver};
use crate::module::{Grid, Kernel, Module, Params};

/// Outputs and inputs of a tile.
const TILE: (usize, usize) = (16, 64);
/// Inputs come in lanes of 16, of 32 bytes each.
const LANE: usize = 16;

/// How weights are kept, in the order of the kernels of one operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    /// Dense.
    Bf16,
    /// 4-bit codes with a scale and a bias for each group of inputs.
    Affine4 {
        /// Inputs that share them.
        group: usize,
    },
    /// The same with 8-bit codes.
    Affine8 {
        /// Inputs that share them.
        group: usize,
    },
}

impl Format {
    /// Its number in the kernels.
    pub(crate) fn index(self) -> usize {
        match self {
            Format::Bf16 => 0,
            Format::Affine4 { .. } => 1,
            Format::Affine8 { .. } => 2,
        }
    }

    fn group(self) -> Option<usize> {
        match self {
            Format::Bf16 => None,
            Format::Affine4 { group } | Format::Affine8 { group } => Some(group),
        }
    }

    fn tile_bytes(self) -> usize {
        [2048, 512, 1024][self.index()]
    }
}

/// A packed matrix's shape and format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Layout {
    pub(crate) outputs: usize,
    pub(crate) inputs: usize,
    pub(crate) format: Format,
}

impl Layout {
    fn tiles(&self) -> usize {
        self.inputs.div_ceil(TILE.1)
    }

    pub(crate) fn code_bytes(&self) -> usize {
        self.outputs.div_ceil(TILE.0) * self.tiles() * self.format.tile_bytes()
    }

    pub(crate) fn scale_bytes(&self) -> usize {
        self.format
            .group()
            .map_or(0, |group| self.outputs.div_ceil(TILE.0) * TILE.0 * (self.inputs / group) * 4)
    }
}

/// A matrix as kernels are given it: `Weights` of `weights.cuh`.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WeightsParam {
    codes: Address,
    scales: Address,
    outputs: i32,
    inputs: i32,
    tiles: i32,
    group_bits: i32,
}

/// A weight matrix `[outputs, inputs]` on the GPU.
pub struct Matrix {
    pub(crate) layout: Layout,
    codes: Memory,
    scales: Memory,
}

impl Matrix {
    pub(crate) fn param(&self) -> WeightsParam {
        param(&self.layout, self.codes.address, self.scales.address)
    }
}

fn param(layout: &Layout, codes: Address, scales: Address) -> WeightsParam {
    WeightsParam {
        codes,
        scales,
        outputs: layout.outputs as i32,
        inputs: layout.inputs as i32,
        tiles: layout.tiles() as i32,
        group_bits: layout.format.group().unwrap_or(1).ilog2() as i32,
    }
}

/// One of the three matrices of all experts, one expert behind the other: `ExpertMatrices` of `experts.cuh`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(crate) struct ExpertMatricesParam {
    first: WeightsParam,
    code_bytes: u64,
    scale_bytes: u64,
}

/// One of the three matrices, of all experts of a layer.
pub(crate) struct ExpertMatrices {
    pub(crate) layout: Layout,
    codes: Memory,
    scales: Memory,
}

impl ExpertMatrices {
    pub(crate) fn param(&self) -> ExpertMatricesParam {
        ExpertMatricesParam {
            first: param(&self.layout, self.codes.address, self.scales.address),
            code_bytes: self.layout.code_bytes() as u64,
            scale_bytes: self.layout.scale_bytes() as u64,
        }
    }
}

/// The experts of one layer on the GPU.
pub struct Experts {
    pub(crate) gate: ExpertMatrices,
    pub(crate) up: ExpertMatrices,
    pub(crate) down: ExpertMatrices,
    pub(crate) count: usize,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct PackParams {
    source: Address,
    scales: Address,
    biases: Address,
    codes: Address,
    packed_scales: Address,
    rows: i32,
    first_output: i32,
    inputs: i32,
    tiles: i32,
    group: i32,
    format: i32,
}

// SAFETY: `PackParams` of `memory.cuh`.
unsafe impl Params for PackParams {}

#[repr(C)]
#[derive(Clone, Copy)]
struct UnpackParams {
    from: WeightsParam,
    to: Address,
    format: i32,
    reserved: i32,
}

// SAFETY: `UnpackParams` of `memory.cuh`.
unsafe impl Params for UnpackParams {}

/// Packs weights on the GPU.
pub(crate) struct Loader<'a> {
    pub(crate) driver: &'a Arc<Driver>,
    pub(crate) module: &'a Module,
}

impl Loader<'_> {
    /// One matrix of the parts' rows.
    pub(crate) fn matrix(&self, parts: &[HostMatrix<'_>]) -> Result<Matrix, DeviceError> {
        let layout = layout_of(parts)?;
        let codes = Memory::zeroed(self.driver, layout.code_bytes())?;
        let scales = Memory::zeroed(self.driver, layout.scale_bytes())?;
        let mut first_output = 0;
        for part in parts {
            self.pack(&layout, part, first_output, codes.address, scales.address)?;
            first_output += part.rows;
        }
        Ok(Matrix { layout, codes, scales })
    }

    /// The experts of a layer. Should a later expert's codes not be computable as codes, those before become bf16.
    pub(crate) fn experts(
        &self,
        experts: &mut dyn ExactSizeIterator<Item = ExpertWeights<'_>>,
    ) -> Result<Experts, DeviceError> {
        let count = experts.len();
        let mut stacks: Option<[ExpertMatrices; 3]> = None;
        for (index, weights) in experts.enumerate() {
            let parts = [&weights.gate, &weights.up, &weights.down];
            let [gate, up, down] = parts.map(|part| layout_of(std::slice::from_ref(part)));
            let (mut gate, mut up, down) = (gate?, up?, down?);
            // One kernel reads gate and up.
            if gate.format != up.format {
                gate.format = Format::Bf16;
                up.format = Format::Bf16;
            }
            let stacks = match &mut stacks {
                Some(stacks) => stacks,
                None => stacks.insert([
                    self.stack(gate, count)?,
                    self.stack(up, count)?,
                    self.stack(down, count)?,
                ]),
            };
            let fits = |stack: &ExpertMatrices, layout: &Layout| {
                stack.layout.format == layout.format || stack.layout.format == Format::Bf16
            };
            if !(fits(&stacks[0], &gate) && fits(&stacks[1], &up)) {
                self.widen(&mut stacks[0], count, index)?;
                self.widen(&mut stacks[1], count, index)?;
            }
            if !fits(&stacks[2], &down) {
                self.widen(&mut stacks[2], count, index)?;
            }
            for ((stack, part), layout) in stacks.iter().zip(parts).zip([gate, up, down]) {
                let shape = (stack.layout.outputs, stack.layout.inputs);
                if shape != (layout.outputs, layout.inputs) {
                    return Err(unsupported(
                        "an expert's matrix",
                        format!("{} by {}", layout.outputs, layout.inputs),
                        format!("that of the first expert, {} by {}", shape.0, shape.1),
                    ));
                }
                let codes = stack.codes.address + (index * stack.layout.code_bytes()) as u64;
                let scales = stack.scales.address + (index * stack.layout.scale_bytes()) as u64;
                self.pack(&stack.layout, part, 0, codes, scales)?;
            }
        }
        let Some([gate, up, down]) = stacks else {
            return Err(unsupported("the number of experts", "0".into(), "1 or more".into()));
        };
        Ok(Experts { gate, up, down, count })
    }

    fn stack(&self, layout: Layout, count: usize) -> Result<ExpertMatrices, DeviceError> {
        Ok(ExpertMatrices {
            layout,
            codes: Memory::zeroed(self.driver, count * layout.code_bytes())?,
            scales: Memory::zeroed(self.driver, count * layout.scale_bytes())?,
        })
    }

    /// Makes the first `filled` of `count` experts bf16.
    fn widen(&self, stack: &mut ExpertMatrices, count: usize, filled: usize) -> Result<(), DeviceError> {
        if stack.layout.format == Format::Bf16 {
            return Ok(());
        }
        let wide = self.stack(Layout { format: Format::Bf16, ..stack.layout }, count)?;
        for index in 0..filled {
            let codes = stack.codes.address + (index * stack.layout.code_bytes()) as u64;
            let scales = stack.scales.address + (index * stack.layout.scale_bytes()) as u64;
            let params = UnpackParams {
                from: param(&stack.layout, codes, scales),
                to: wide.codes.address + (index * wide.layout.code_bytes()) as u64,
                format: stack.layout.format.index() as i32,
                reserved: 0,
            };
            let grid = Grid::new(stack.layout.outputs, 1, 256);
            self.module.launch(self.driver, Kernel::WidenWeights, grid, &params)?;
        }
        self.driver.wait()?;
        *stack = wide;
        Ok(())
    }

    fn pack(
        &self,
        layout: &Layout,
        part: &HostMatrix<'_>,
        first_output: usize,
        codes: Address,
        packed_scales: Address,
    ) -> Result<(), DeviceError> {
        let mut params = PackParams {
            source: 0,
            scales: 0,
            biases: 0,
            codes,
            packed_scales,
            rows: part.rows as i32,
            first_output: first_output as i32,
            inputs: layout.inputs as i32,
            tiles: layout.tiles() as i32,
            group: layout.format.group().unwrap_or(1) as i32,
            format: layout.format.index() as i32,
        };
        let (kernel, words) = match layout.format {
            Format::Bf16 => (Kernel::PackBf16, part.rows * layout.inputs / 2),
            Format::Affine4 { .. } => (Kernel::PackAffine4, part.rows * layout.inputs / 8),
            Format::Affine8 { .. } => (Kernel::PackAffine8, part.rows * layout.inputs / 4),
        };
        let (MatrixValues::Affine(values), Some(group)) = (&part.values, layout.format.group()) else {
            let source = match &part.values {
                MatrixValues::Bf16(values) => self.raw(bytemuck::cast_slice(values))?,
                _ => self.raw(bytemuck::cast_slice(&part.to_bf16()))?,
            };
            params.source = source.address;
            self.module.launch(self.driver, kernel, threads_of(words), &params)?;
            return self.driver.wait();
        };
        let source = self.raw(bytemuck::cast_slice(&values.words))?;
        let scales = self.raw(bytemuck::cast_slice(&as_bf16(&values.scales)))?;
        let biases = self.raw(bytemuck::cast_slice(&as_bf16(&values.biases)))?;
        (params.source, params.scales, params.biases) = (source.address, scales.address, biases.address);
        self.module.launch(self.driver, kernel, threads_of(words), &params)?;
        let groups = threads_of(part.rows * layout.inputs / group);
        self.module.launch(self.driver, Kernel::PackScales, groups, &params)?;
        self.driver.wait()
    }

    fn raw(&self, bytes: &[u8]) -> Result<Memory, DeviceError> {
        let memory = Memory::zeroed(self.driver, bytes.len())?;
        self.driver.copy_to(memory.address, bytes)?;
        Ok(memory)
    }
}

/// One thread for each of `count` things.
fn threads_of(count: usize) -> Grid {
    Grid::new(count.div_ceil(256), 1, 256)
}

/// The shape of the stacked parts and the format in which they are kept: that of the parts if all have it and kernels
/// compute with it exactly, otherwise bf16, which means the same.
pub(crate) fn layout_of(parts: &[HostMatrix<'_>]) -> Result<Layout, DeviceError> {
    let first = parts.first().expect("a matrix has at least one part");
    let (inputs, outputs) = (first.columns, parts.iter().map(|part| part.rows).sum());
    assert!(parts.iter().all(|part| part.columns == inputs), "parts of unequal widths");
    if !inputs.is_multiple_of(LANE) || inputs == 0 {
        return Err(unsupported("a matrix's inputs", inputs.to_string(), format!("a multiple of {LANE}")));
    }
    let stored = stored_format(first);
    let kept = parts.iter().all(|part| stored_format(part) == stored);
    let format = stored.filter(|_| kept && inputs.is_multiple_of(TILE.1)).unwrap_or(Format::Bf16);
    let layout = Layout { outputs, inputs, format };
    check_size(&layout)?;
    Ok(layout)
}

/// Kernels find a strip's bytes by 32-bit numbers.
fn check_size(layout: &Layout) -> Result<(), DeviceError> {
    let bytes = layout.code_bytes() as u64;
    if bytes <= u64::from(u32::MAX) {
        return Ok(());
    }
    let Layout { outputs, inputs, .. } = layout;
    let found = format!("{outputs} outputs of {inputs} inputs, {bytes} bytes");
    Err(unsupported("the size of a matrix", found, format!("at most {} bytes", u32::MAX)))
}

/// The affine format of a matrix, when kernels compute its weights exactly.
fn stored_format(matrix: &HostMatrix<'_>) -> Option<Format> {
    let MatrixValues::Affine(values) = &matrix.values else { return None };
    let group = values.group_size;
    let format = match values.bits {
        4 => Format::Affine4 { group },
        8 => Format::Affine8 { group },
        _ => return None,
    };
    (matches!(group, 32 | 64 | 128) && is_exact(values)).then_some(format)
}

/// Whether one fused bf16 product and sum rounds every weight as the fp32 product and sum that is rounded afterwards.
///
/// It does unless a bias is so small beside `scale * code` that fp32 loses it where the product lies between two bf16
/// values: the product has at most `8 + bits` digits, fp32 has 24. The scale is kept times 64, so that it must not
/// be near the largest number; that of a 4-bit code times 2^129 (`weights.cuh`).
fn is_exact(values: &AffineValues<'_>) -> bool {
    let smallest = 2f32.powi(values.bits as i32 - 13);
    let largest = if values.bits == 4 { 0.25 } else { 2f32.powi(100) };
    (0..values.scales.len()).all(|index| {
        let (scale, bias) = (values.scales.get(index), values.biases.get(index));
        let is_bf16 = |value: f32| value.to_bits() & 0xffff == 0;
        is_bf16(scale)
            && is_bf16(bias)
            && scale.abs() < largest
            && (bias == 0.0 || bias.abs() >= scale.abs() * smallest)
    })
}

/// Values that are bf16 already.
fn as_bf16(scales: &Scales<'_>) -> Vec<bf16> {
    match scales {
        Scales::Bf16(values) => values.to_vec(),
        Scales::F16(_) => (0..scales.len()).map(|index| bf16::from_f32(scales.get(index))).collect(),
    }
}

pub(crate) fn unsupported(what: &str, found: String, accepted: String) -> DeviceError {
    DeviceError::Unsupported { device: crate::NAME.into(), what: what.into(), found, accepted }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_matrix_beyond_what_kernels_can_address_is_refused() {
        let layout = |outputs| Layout { outputs, inputs: 8192, format: Format::Bf16 };
        assert!(check_size(&layout(128_000)).is_ok());
        let error = check_size(&layout(262_144)).unwrap_err().to_string();
        assert!(error.contains("262144 outputs of 8192 inputs"), "{error}");
    }

    fn affine(bits: u32, group_size: usize, columns: usize, scale: f32, bias: f32) -> HostMatrix<'static> {
        let rows = 3;
        let groups = vec![bf16::from_f32(scale); rows * columns / group_size];
        let biases = vec![bf16::from_f32(bias); groups.len()];
        let values = MatrixValues::Affine(AffineValues {
            bits,
            group_size,
            words: vec![0; rows * columns * bits as usize / 32].into(),
            scales: Scales::Bf16(groups.into()),
            biases: Scales::Bf16(biases.into()),
        });
        HostMatrix { rows, columns, values }
    }

    fn format_of(parts: &[HostMatrix<'_>]) -> Format {
        layout_of(parts).expect("a layout").format
    }

    #[test]
    fn codes_are_kept_where_kernels_compute_them_exactly() {
        assert_eq!(format_of(&[affine(4, 64, 128, 0.01, -0.07)]), Format::Affine4 { group: 64 });
        assert_eq!(format_of(&[affine(8, 32, 64, 0.01, 0.0)]), Format::Affine8 { group: 32 });
        // Not all of one format, half a tile, a bias that fp32 would lose, scales that are too large as they are kept.
        assert_eq!(format_of(&[affine(4, 64, 64, 0.1, 0.1), affine(8, 64, 64, 0.1, 0.1)]), Format::Bf16);
        assert_eq!(format_of(&[affine(4, 32, 96, 0.01, -0.07)]), Format::Bf16);
        assert_eq!(format_of(&[affine(4, 64, 64, 0.1, 1e-6)]), Format::Bf16);
        assert_eq!(format_of(&[affine(4, 64, 64, 0.25, 1.0)]), Format::Bf16);
        assert_eq!(format_of(&[affine(8, 64, 64, 1e37, 1e37)]), Format::Bf16);
    }

    /// The kernels' fused bf16 product and sum, which rounds once, against the definition, which rounds twice: in the
    /// range that is kept, for scales and biases of all digits.
    #[test]
    fn one_rounding_is_the_definition_in_the_range_that_is_kept() {
        for bits in [4u32, 8] {
            let smallest = 2f32.powi(bits as i32 - 13);
            for digits in (0..128u32).step_by(3) {
                let scale = f32::from_bits((127 << 23) | (digits << 16));
                for exponent in -12..14 {
                    let bias = f32::from_bits(((127 + exponent) as u32) << 23 | (digits * 37 % 128) << 16);
                    if bias < scale * smallest {
                        continue;
                    }
                    for code in 0..1u32 << bits {
                        for bias in [bias, -bias] {
                            let exact = f64::from(scale) * f64::from(code) + f64::from(bias);
                            let once = bf16::from_f64(exact);
                            let twice = forerunner_tensor::affine_value(scale, code, bias);
                            assert_eq!(once.to_bits(), twice.to_bits(), "{scale} * {code} + {bias}");
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn widths_that_are_not_accepted_are_named() {
        let matrix =
            HostMatrix { rows: 1, columns: 24, values: MatrixValues::Bf16(vec![bf16::ONE; 24].into()) };
        let error = layout_of(&[matrix]).expect_err("24 inputs").to_string();
        assert!(error.contains("24") && error.contains("accepted: a multiple of 16"), "{error}");
    }

    #[test]
    fn packed_sizes_cover_whole_tiles() {
        let layout = Layout { outputs: 17, inputs: 96, format: Format::Bf16 };
        assert_eq!((layout.code_bytes(), layout.scale_bytes()), (2 * 2 * 2048, 0));
        let layout = Layout { outputs: 32, inputs: 128, format: Format::Affine4 { group: 32 } };
        assert_eq!((layout.code_bytes(), layout.scale_bytes()), (2 * 2 * 512, 32 * 4 * 4));
    }
}
