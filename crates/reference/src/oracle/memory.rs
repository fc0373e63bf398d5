//! Weights as the oracle keeps them: the bf16 values that every device computes with.

use forerunner_tensor::{ExpertWeights, HostMatrix, bf16};

/// A matrix `[outputs, inputs]`, row after row.
#[derive(Debug, Clone)]
pub struct OracleMatrix {
    /// Outputs.
    pub rows: usize,
    /// Inputs.
    pub columns: usize,
    /// `rows * columns` values; affine weights are dequantized.
    pub values: Vec<bf16>,
}

impl OracleMatrix {
    /// The parts' rows, part after part.
    ///
    /// # Panics
    /// Without parts, or if their widths differ.
    pub fn stack(parts: &[HostMatrix<'_>]) -> Self {
        let columns = parts.first().expect("a matrix has at least one part").columns;
        let mut matrix = OracleMatrix { rows: 0, columns, values: Vec::new() };
        for part in parts {
            assert_eq!(part.columns, columns, "columns of a stacked part");
            matrix.rows += part.rows;
            matrix.values.extend(part.to_bf16());
        }
        matrix
    }

    /// The weights of one output.
    pub fn row(&self, row: usize) -> &[bf16] {
        &self.values[row * self.columns..(row + 1) * self.columns]
    }

    /// `matrix · x`, in fp32 by ascending column, not rounded.
    pub fn multiply(&self, x: &[bf16]) -> Vec<f32> {
        (0..self.rows).map(|row| dot(self.row(row), x)).collect()
    }
}

/// The fp32 sum of products by ascending index.
pub(super) fn dot(left: &[bf16], right: &[bf16]) -> f32 {
    assert_eq!(left.len(), right.len(), "lengths of a dot product");
    let mut sum = 0.0;
    for (left, right) in left.iter().zip(right) {
        sum += left.to_f32() * right.to_f32();
    }
    sum
}

/// One expert of a layer.
#[derive(Debug, Clone)]
pub struct OracleExpert {
    /// `[2 * intermediate, hidden]`: gate, then up.
    pub gate_up: OracleMatrix,
    /// `[hidden, intermediate]`
    pub down: OracleMatrix,
}

impl OracleExpert {
    /// Dequantizes the expert's matrices.
    pub fn new(weights: &ExpertWeights<'_>) -> Self {
        OracleExpert {
            gate_up: OracleMatrix::stack(&[weights.gate.clone(), weights.up.clone()]),
            down: OracleMatrix::stack(std::slice::from_ref(&weights.down)),
        }
    }
}
