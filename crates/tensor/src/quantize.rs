//! MLX affine quantization of a dense matrix (docs/lfm2.md section 4).

use half::bf16;

use crate::{AffineValues, HostMatrix, MatrixValues, Scales};

/// Weights that share a scale and a bias.
const GROUP: usize = 64;

/// Smallest step between codes: one of 0 would leave the codes undefined.
const STEP_MIN: f32 = 1e-7;

/// A matrix of affine codes in groups of 64, with bf16 scales and biases.
#[derive(Debug, Clone, PartialEq)]
pub struct QuantizedMatrix {
    /// Codes' width: 4 or 8.
    pub bits: u32,
    /// Codes, the first in the lowest bits.
    pub words: Vec<u32>,
    /// One a group.
    pub scales: Vec<bf16>,
    /// One a group.
    pub biases: Vec<bf16>,
}

/// Quantizes rows of whole groups as MLX does: the step is stretched so that the end of the range that is farther
/// from zero is hit exactly, and codes are chosen before scale and bias are rounded.
///
/// # Panics
/// If `values` are not whole groups.
pub fn quantize(values: &[bf16], bits: u32) -> QuantizedMatrix {
    assert_eq!(values.len() % GROUP, 0, "whole groups of {GROUP}");
    let mut quantized = QuantizedMatrix { bits, words: Vec::new(), scales: Vec::new(), biases: Vec::new() };
    for group in values.chunks_exact(GROUP) {
        let group: Vec<f32> = group.iter().map(|value| value.to_f32()).collect();
        let (scale, bias) = scale_and_bias(&group, bits);
        let top = ((1u32 << bits) - 1) as f32;
        let code = |value: &f32| ((value - bias) / scale).round_ties_even().clamp(0.0, top) as u32;
        for values in group.chunks_exact(32 / bits as usize) {
            let codes = values.iter().enumerate().map(|(place, value)| code(value) << (bits * place as u32));
            quantized.words.push(codes.fold(0, |word, code| word | code));
        }
        quantized.scales.push(bf16::from_f32(scale));
        quantized.biases.push(bf16::from_f32(bias));
    }
    quantized
}

impl HostMatrix<'_> {
    /// The same in affine codes of `bits` bits, in groups of 64; nothing where rows are not whole groups.
    pub fn quantized(&self, bits: u32) -> Option<HostMatrix<'static>> {
        if !self.columns.is_multiple_of(GROUP) {
            return None;
        }
        let QuantizedMatrix { bits, words, scales, biases } = quantize(&self.to_bf16(), bits);
        let values = MatrixValues::Affine(AffineValues {
            bits,
            group_size: GROUP,
            words: words.into(),
            scales: Scales::Bf16(scales.into()),
            biases: Scales::Bf16(biases.into()),
        });
        Some(HostMatrix { rows: self.rows, columns: self.columns, values })
    }
}

fn scale_and_bias(group: &[f32], bits: u32) -> (f32, f32) {
    let low = group.iter().copied().fold(f32::INFINITY, f32::min);
    let high = group.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let step = ((high - low) / ((1u32 << bits) - 1) as f32).max(STEP_MIN);
    let (scale, edge) = if low.abs() > high.abs() { (step, low) } else { (-step, high) };
    match (edge / scale).round_ties_even() {
        0.0 => (scale, 0.0),
        steps => (edge / steps, edge),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::affine_value;

    #[test]
    fn the_farther_end_is_exact_and_the_rest_within_half_a_step() {
        for bits in [4, 8] {
            let values: Vec<bf16> =
                (0..128).map(|i| bf16::from_f32(((i * 37 % 128) as f32 - 90.0) * 0.01)).collect();
            let quantized = quantize(&values, bits);
            let per_word = 32 / bits as usize;
            for (index, value) in values.iter().enumerate() {
                let (scale, bias) = (quantized.scales[index / GROUP], quantized.biases[index / GROUP]);
                let word = quantized.words[index / per_word];
                let code = word >> (bits as usize * (index % per_word)) & ((1 << bits) - 1);
                let found = affine_value(scale.to_f32(), code, bias.to_f32());
                let step = scale.to_f32().abs();
                assert!((found.to_f32() - value.to_f32()).abs() <= 0.6 * step + 0.005, "{index}");
            }
            assert_eq!(
                quantized.biases[0].to_f32(),
                values[..GROUP].iter().copied().fold(bf16::MAX, bf16::min).to_f32()
            );
        }
    }

    #[test]
    fn a_matrix_of_whole_groups_is_quantized_row_by_row() {
        let values: Vec<bf16> =
            (0..3 * 128).map(|i| bf16::from_f32((i * 37 % 101) as f32 * 0.02 - 1.0)).collect();
        let matrix = |columns: usize| HostMatrix {
            rows: values.len() / columns,
            columns,
            values: MatrixValues::Bf16(values.clone().into()),
        };
        let (stored, mut row, mut found) = (matrix(128), vec![bf16::ZERO; 128], vec![bf16::ZERO; 128]);
        let quantized = stored.quantized(8).unwrap();
        for index in 0..3 {
            stored.read_row(index, &mut row);
            quantized.read_row(index, &mut found);
            let worst =
                row.iter().zip(&found).map(|(a, b)| (a.to_f32() - b.to_f32()).abs()).fold(0.0, f32::max);
            assert!(worst < 0.01, "{worst}");
        }
        assert!(matrix(96).quantized(8).is_none());
    }

    #[test]
    fn a_group_of_zeros_is_zeros() {
        let quantized = quantize(&[bf16::ZERO; GROUP], 4);
        assert_eq!((quantized.biases[0], quantized.words[0]), (bf16::ZERO, 0));
    }
}
