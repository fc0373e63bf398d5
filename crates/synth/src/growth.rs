//! A grown matrix: rows and groups of columns of its source, repeated and multiplied.

use std::sync::Arc;

use forerunner_tensor::{HostMatrix, MatrixValues, QuantizedMatrix, Scales, bf16, quantize};

use crate::control::Control;
use crate::replicas::{GROUP, Piece};

/// A matrix of the base in the format that it is grown in.
#[derive(Debug)]
pub(crate) struct BaseMatrix {
    pub(crate) rows: usize,
    pub(crate) columns: usize,
    values: BaseValues,
}

#[derive(Debug)]
enum BaseValues {
    Dense(Vec<bf16>),
    Affine(QuantizedMatrix),
}

impl BaseMatrix {
    /// `matrix` in codes of `bits` bits, or in bf16. Codes of that width are taken as they are.
    pub(crate) fn new(matrix: &HostMatrix<'_>, bits: Option<u32>) -> Self {
        let values = match bits {
            None => BaseValues::Dense(matrix.to_bf16()),
            Some(bits) => BaseValues::Affine(
                codes_of(matrix, bits).unwrap_or_else(|| quantize(&matrix.to_bf16(), bits)),
            ),
        };
        BaseMatrix { rows: matrix.rows, columns: matrix.columns, values }
    }

    /// Codes' width, unless dense.
    pub(crate) fn bits(&self) -> Option<u32> {
        match &self.values {
            BaseValues::Dense(_) => None,
            BaseValues::Affine(values) => Some(values.bits),
        }
    }
}

/// The matrix's codes, when they are of `bits` bits in groups of 64 with bf16 scales.
fn codes_of(matrix: &HostMatrix<'_>, bits: u32) -> Option<QuantizedMatrix> {
    let MatrixValues::Affine(values) = &matrix.values else { return None };
    let (Scales::Bf16(scales), Scales::Bf16(biases)) = (&values.scales, &values.biases) else { return None };
    (values.bits == bits && values.group_size == GROUP).then(|| QuantizedMatrix {
        bits,
        words: values.words.to_vec(),
        scales: scales.to_vec(),
        biases: biases.to_vec(),
    })
}

/// How a grown matrix, or a stack of them, is made.
#[derive(Debug, Clone)]
pub(crate) struct Growth {
    /// Matrix `index` of the stack is made of source `index % sources.len()`; all sources have one shape and format.
    pub(crate) sources: Vec<Arc<BaseMatrix>>,
    /// Matrices stacked.
    pub(crate) count: usize,
    /// The rows of one matrix.
    pub(crate) rows: Arc<[Piece]>,
    /// Its groups of 64 columns.
    pub(crate) groups: Arc<[Piece]>,
    /// Multiplies everything but the control group.
    pub(crate) scale: f32,
    /// Replaces the last group of columns.
    pub(crate) control: Option<Control>,
}

/// Which numbers of a grown matrix a tensor holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Field {
    /// bf16 weights.
    Dense,
    /// Codes.
    Words,
    /// Scales of groups.
    Scales,
    /// Biases of groups.
    Biases,
}

impl Growth {
    /// Codes' width, unless dense.
    pub(crate) fn bits(&self) -> Option<u32> {
        self.sources[0].bits()
    }

    /// Columns of the grown matrix.
    pub(crate) fn columns(&self) -> usize {
        self.groups.len() * GROUP
    }

    /// Bytes of a group of columns in `field`.
    fn group_bytes(&self, field: Field) -> usize {
        match field {
            Field::Dense => GROUP * size_of::<bf16>(),
            Field::Words => GROUP * self.bits().unwrap_or(0) as usize / 8,
            Field::Scales | Field::Biases => size_of::<bf16>(),
        }
    }

    /// Fills `out` with `field` from byte `start` of the stack on.
    ///
    /// # Panics
    /// If `start` or the end are not ends of rows.
    pub(crate) fn read(&self, field: Field, start: usize, out: &mut [u8]) {
        let row_bytes = self.group_bytes(field) * self.groups.len();
        assert!(start.is_multiple_of(row_bytes) && out.len().is_multiple_of(row_bytes), "whole rows");
        for (row, out) in out.chunks_exact_mut(row_bytes).enumerate() {
            self.read_row(field, start / row_bytes + row, out);
        }
    }

    fn read_row(&self, field: Field, stacked_row: usize, out: &mut [u8]) {
        let (matrix, row) = (stacked_row / self.rows.len(), stacked_row % self.rows.len());
        let source = &self.sources[matrix % self.sources.len()];
        let piece = self.rows[row];
        let factor = piece.factor * self.scale;
        let size = self.group_bytes(field);
        let source_groups = source.columns / GROUP;
        for (index, group) in self.groups.iter().enumerate() {
            let place = index * size..(index + 1) * size;
            // Most groups repeat one that was just made, a replica's width before.
            let before = index.checked_sub(source_groups).filter(|before| self.groups[*before] == *group);
            match before {
                Some(before) => out.copy_within(before * size..before * size + size, place.start),
                None => source.read_group(
                    field,
                    piece.source * source_groups + group.source,
                    factor * group.factor,
                    &mut out[place],
                ),
            }
        }
        if let Some(control) = &self.control {
            let last = out.len() - size;
            write_control(control, row, field, &mut out[last..]);
        }
    }
}

impl BaseMatrix {
    /// Writes one group, `factor` times its value. A power of two changes scale and bias alone, exactly.
    fn read_group(&self, field: Field, group: usize, factor: f32, out: &mut [u8]) {
        if factor == 0.0 {
            out.fill(0);
            return;
        }
        match (&self.values, field) {
            (BaseValues::Dense(values), Field::Dense) => {
                write_products(&values[group * GROUP..][..GROUP], factor, out);
            }
            (BaseValues::Affine(values), Field::Words) => {
                let words = GROUP * values.bits as usize / 32;
                out.copy_from_slice(bytemuck::cast_slice(&values.words[group * words..][..words]));
            }
            (BaseValues::Affine(values), Field::Scales) => {
                write_products(&[values.scales[group]], factor, out)
            }
            (BaseValues::Affine(values), Field::Biases) => {
                write_products(&[values.biases[group]], factor, out)
            }
            (_, field) => unreachable!("{field:?} of a matrix in another format"),
        }
    }
}

fn write_products(values: &[bf16], factor: f32, out: &mut [u8]) {
    for (value, out) in values.iter().zip(out.chunks_exact_mut(2)) {
        let product = if factor == 1.0 { *value } else { bf16::from_f32(value.to_f32() * factor) };
        out.copy_from_slice(&product.to_le_bytes());
    }
}

fn write_control(control: &Control, row: usize, field: Field, out: &mut [u8]) {
    let group = control.group(row);
    match field {
        Field::Dense => {
            for (code, out) in group.codes.iter().zip(out.chunks_exact_mut(2)) {
                out.copy_from_slice(&bf16::from_f32(group.scale * f32::from(*code)).to_le_bytes());
            }
        }
        Field::Words if out.len() == GROUP => out.copy_from_slice(&group.codes),
        Field::Words => {
            for (codes, out) in group.codes.chunks_exact(2).zip(out) {
                *out = codes[0] | codes[1] << 4;
            }
        }
        Field::Scales => out.copy_from_slice(&bf16::from_f32(group.scale).to_le_bytes()),
        Field::Biases => out.fill(0),
    }
}
