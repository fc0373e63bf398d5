//! Weight matrices on the host: dense or MLX affine, and what a quantized weight means.

use std::borrow::Cow;

use half::{bf16, f16};

/// A weight matrix `[rows, columns]` on the host; `rows` are outputs, `columns` are inputs.
///
/// Borrowed from a mapped file where its bytes allow, owned otherwise.
#[derive(Debug, Clone)]
pub struct HostMatrix<'a> {
    /// Outputs.
    pub rows: usize,
    /// Inputs.
    pub columns: usize,
    /// The weights, row after row.
    pub values: MatrixValues<'a>,
}

/// How the weights of a [`HostMatrix`] are stored.
#[derive(Debug, Clone)]
pub enum MatrixValues<'a> {
    /// `rows * columns` values.
    Bf16(Cow<'a, [bf16]>),
    /// `rows * columns` values. Devices round them to bf16 at load.
    F16(Cow<'a, [f16]>),
    /// `rows * columns` values. Devices round them to bf16 at load.
    F32(Cow<'a, [f32]>),
    /// Affine codes with a scale and a bias a group.
    Affine(AffineValues<'a>),
}

/// MLX affine codes (docs/lfm2.md section 4): element `i` of a row has its `bits` bits at bit
/// `(i * bits) % 32` of word `i * bits / 32`; its scale and bias are those of group `i / group_size`.
#[derive(Debug, Clone)]
pub struct AffineValues<'a> {
    /// 4 or 8.
    pub bits: u32,
    /// Inputs that share a scale and a bias: 32, 64 or 128; divides `columns`.
    pub group_size: usize,
    /// `rows * columns * bits / 32` words.
    pub words: Cow<'a, [u32]>,
    /// `rows * columns / group_size` scales.
    pub scales: Scales<'a>,
    /// As many biases, in the scales' type.
    pub biases: Scales<'a>,
}

/// Group scales or biases as stored.
#[derive(Debug, Clone)]
pub enum Scales<'a> {
    /// The usual type of MLX conversions of bf16 models.
    Bf16(Cow<'a, [bf16]>),
    /// MLX conversions of fp16 models.
    F16(Cow<'a, [f16]>),
}

impl Scales<'_> {
    /// The value at `index`, exactly.
    pub fn get(&self, index: usize) -> f32 {
        match self {
            Scales::Bf16(values) => values[index].to_f32(),
            Scales::F16(values) => values[index].to_f32(),
        }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        match self {
            Scales::Bf16(values) => values.len(),
            Scales::F16(values) => values.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn picked(&self, rows: usize, order: &[usize]) -> Scales<'static> {
        match self {
            Scales::Bf16(values) => Scales::Bf16(picked(values, rows, order)),
            Scales::F16(values) => Scales::F16(picked(values, rows, order)),
        }
    }
}

/// Rows `order` of `rows` rows.
fn picked<T: Copy>(values: &[T], rows: usize, order: &[usize]) -> Cow<'static, [T]> {
    let width = values.len() / rows.max(1);
    order.iter().flat_map(|row| &values[row * width..(row + 1) * width]).copied().collect()
}

/// What a quantized weight means on every device: `bf16(fma(scale, code, bias))`, rounded to nearest even.
///
/// The product of a bf16 or fp16 scale and an 8-bit code is exact in fp32, so a fused and an unfused
/// multiply-add give the same value.
pub fn affine_value(scale: f32, code: u32, bias: f32) -> bf16 {
    bf16::from_f32(scale * code as f32 + bias)
}

impl HostMatrix<'_> {
    /// Writes row `row` as every device computes with it: dense values rounded to bf16, affine ones by
    /// [`affine_value`].
    ///
    /// # Panics
    /// If `row` is outside the matrix or `out` is not `columns` long.
    pub fn read_row(&self, row: usize, out: &mut [bf16]) {
        assert!(row < self.rows, "row {row} of a matrix with {} rows", self.rows);
        assert_eq!(out.len(), self.columns, "row length");
        let span = row * self.columns..(row + 1) * self.columns;
        match &self.values {
            MatrixValues::Bf16(values) => out.copy_from_slice(&values[span]),
            MatrixValues::F16(values) => {
                for (out, value) in out.iter_mut().zip(&values[span]) {
                    *out = bf16::from_f32(value.to_f32());
                }
            }
            MatrixValues::F32(values) => {
                for (out, value) in out.iter_mut().zip(&values[span]) {
                    *out = bf16::from_f32(*value);
                }
            }
            MatrixValues::Affine(values) => values.read_row(row, out),
        }
    }

    /// Writes row `row` exactly as stored, for the fp32 reference: dense values in their own precision, affine
    /// ones by [`affine_value`].
    ///
    /// # Panics
    /// As [`HostMatrix::read_row`].
    pub fn read_row_f32(&self, row: usize, out: &mut [f32]) {
        assert!(row < self.rows, "row {row} of a matrix with {} rows", self.rows);
        assert_eq!(out.len(), self.columns, "row length");
        let span = row * self.columns..(row + 1) * self.columns;
        match &self.values {
            MatrixValues::F16(values) => {
                for (out, value) in out.iter_mut().zip(&values[span]) {
                    *out = value.to_f32();
                }
            }
            MatrixValues::F32(values) => out.copy_from_slice(&values[span]),
            MatrixValues::Bf16(_) | MatrixValues::Affine(_) => {
                let mut rounded = vec![bf16::ZERO; self.columns];
                self.read_row(row, &mut rounded);
                for (out, value) in out.iter_mut().zip(&rounded) {
                    *out = value.to_f32();
                }
            }
        }
    }

    /// Its rows `order`, stored as they are.
    ///
    /// # Panics
    /// If a row is outside the matrix.
    pub fn picked(&self, order: &[usize]) -> HostMatrix<'static> {
        let values = match &self.values {
            MatrixValues::Bf16(values) => MatrixValues::Bf16(picked(values, self.rows, order)),
            MatrixValues::F16(values) => MatrixValues::F16(picked(values, self.rows, order)),
            MatrixValues::F32(values) => MatrixValues::F32(picked(values, self.rows, order)),
            MatrixValues::Affine(values) => MatrixValues::Affine(AffineValues {
                bits: values.bits,
                group_size: values.group_size,
                words: picked(&values.words, self.rows, order),
                scales: values.scales.picked(self.rows, order),
                biases: values.biases.picked(self.rows, order),
            }),
        };
        HostMatrix { rows: order.len(), columns: self.columns, values }
    }

    /// The whole matrix as bf16, by [`HostMatrix::read_row`].
    pub fn to_bf16(&self) -> Vec<bf16> {
        let mut out = vec![bf16::ZERO; self.rows * self.columns];
        for (row, out) in out.chunks_exact_mut(self.columns).enumerate() {
            self.read_row(row, out);
        }
        out
    }
}

impl AffineValues<'_> {
    fn read_row(&self, row: usize, out: &mut [bf16]) {
        let columns = out.len();
        let per_word = (32 / self.bits) as usize;
        let words = &self.words[row * columns / per_word..(row + 1) * columns / per_word];
        let mask = (1u32 << self.bits) - 1;
        for (group, out) in out.chunks_exact_mut(self.group_size).enumerate() {
            let index = row * (columns / self.group_size) + group;
            let (scale, bias) = (self.scales.get(index), self.biases.get(index));
            for (offset, out) in out.iter_mut().enumerate() {
                let column = group * self.group_size + offset;
                let code = words[column / per_word] >> (column % per_word * self.bits as usize) & mask;
                *out = affine_value(scale, code, bias);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_sit_little_end_first() {
        let matrix = HostMatrix {
            rows: 2,
            columns: 32,
            values: MatrixValues::Affine(AffineValues {
                bits: 4,
                group_size: 32,
                words: (0..8).map(|word| 0x7654_3210u32.rotate_left(4 * (word % 2))).collect(),
                scales: Scales::Bf16(vec![bf16::from_f32(0.5), bf16::from_f32(2.0)].into()),
                biases: Scales::Bf16(vec![bf16::from_f32(-1.0), bf16::from_f32(3.0)].into()),
            }),
        };
        let values = matrix.to_bf16();
        assert_eq!(values[3].to_f32(), 0.5 * 3.0 - 1.0);
        assert_eq!(values[8].to_f32(), 0.5 * 7.0 - 1.0);
        assert_eq!(values[32 + 9].to_f32(), 3.0);
        assert_eq!(values[32 + 15].to_f32(), 2.0 * 6.0 + 3.0);
        let picked = matrix.picked(&[1, 1, 0]).to_bf16();
        assert_eq!(picked, [&values[32..], &values[32..], &values[..32]].concat());
    }
}
