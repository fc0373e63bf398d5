//! The plain fp32 arithmetic that the reference models share: rows, matrices, norms, activations and picks.

use std::thread::{self, available_parallelism};

use forerunner_tensor::HostMatrix;

/// Products from which starting threads is worth their while: tens of milliseconds of one.
const THREADED_PRODUCTS: usize = 1 << 26;

/// Rows of equal width, one after another: `[count, width]`.
#[derive(Debug, Clone, PartialEq)]
pub struct Rows {
    /// Values a row.
    pub width: usize,
    /// `count * width` values.
    pub values: Vec<f32>,
}

impl Rows {
    /// No rows of `width` values.
    pub fn empty(width: usize) -> Self {
        Rows { width, values: Vec::new() }
    }

    /// `count` rows of zeros.
    pub fn zeros(count: usize, width: usize) -> Self {
        Rows { width, values: vec![0.0; count * width] }
    }

    /// How many rows there are; none when they have no width.
    pub fn count(&self) -> usize {
        self.values.len().checked_div(self.width).unwrap_or(0)
    }

    /// Row `index`.
    pub fn row(&self, index: usize) -> &[f32] {
        &self.values[index * self.width..(index + 1) * self.width]
    }

    /// Row `index`, to be written.
    pub fn row_mut(&mut self, index: usize) -> &mut [f32] {
        &mut self.values[index * self.width..(index + 1) * self.width]
    }

    /// Row after row.
    pub fn iter(&self) -> std::slice::ChunksExact<'_, f32> {
        self.values.chunks_exact(self.width)
    }

    /// Appends a row, or several.
    ///
    /// # Panics
    /// If `values` are not whole rows.
    pub fn push(&mut self, values: &[f32]) {
        assert_eq!(values.len() % self.width, 0, "{} values are no rows of {}", values.len(), self.width);
        self.values.extend_from_slice(values);
    }

    /// Keeps the first `count` rows.
    ///
    /// # Panics
    /// If there are fewer.
    pub fn truncate(&mut self, count: usize) {
        assert!(count <= self.count(), "cannot keep {count} of {} rows", self.count());
        self.values.truncate(count * self.width);
    }

    /// Rows `range` as rows of their own.
    pub fn slice(&self, range: std::ops::Range<usize>) -> Rows {
        Rows {
            width: self.width,
            values: self.values[range.start * self.width..range.end * self.width].to_vec(),
        }
    }

    /// Adds `other`, value by value.
    pub fn add(&mut self, other: &Rows) {
        assert_eq!(self.values.len(), other.values.len(), "rows of one shape");
        for (value, other) in self.values.iter_mut().zip(&other.values) {
            *value += other;
        }
    }
}

/// A weight matrix `[outputs, inputs]` in fp32.
#[derive(Debug, Clone, PartialEq)]
pub struct Matrix {
    /// Rows of the matrix.
    pub outputs: usize,
    /// Columns of the matrix.
    pub inputs: usize,
    /// `outputs * inputs` values, row after row.
    pub values: Vec<f32>,
}

impl Matrix {
    /// The stored weights, exactly; quantized ones are `bf16(scale * code + bias)` (docs/lfm2.md section 4).
    pub fn from_host(host: &HostMatrix<'_>) -> Self {
        let mut values = vec![0.0; host.rows * host.columns];
        for (row, values) in values.chunks_exact_mut(host.columns).enumerate() {
            host.read_row_f32(row, values);
        }
        Matrix { outputs: host.rows, inputs: host.columns, values }
    }

    /// Row `index`: an embedding, when the matrix is a table.
    ///
    /// # Panics
    /// If there is no such row.
    pub fn row(&self, index: usize) -> &[f32] {
        assert!(index < self.outputs, "row {index} of a matrix with {}", self.outputs);
        &self.values[index * self.inputs..(index + 1) * self.inputs]
    }

    /// Rows `indices`, as of an embedding table.
    ///
    /// # Panics
    /// If there is no such row.
    pub fn rows(&self, indices: &[u32]) -> Rows {
        let mut rows = Rows::empty(self.inputs);
        indices.iter().for_each(|&index| rows.push(self.row(index as usize)));
        rows
    }

    /// `matrix · x` for every row of `x`: `[count, outputs]`. Many rows are shared out over threads, which changes no sum.
    pub fn apply(&self, x: &Rows) -> Rows {
        assert_eq!(x.width, self.inputs, "inputs of a matrix [{}, {}]", self.outputs, self.inputs);
        let mut out = Rows::zeros(x.count(), self.outputs);
        let threads = match x.count() * self.values.len() {
            ..THREADED_PRODUCTS => 1,
            _ => available_parallelism().map_or(1, usize::from),
        };
        let rows = x.count().div_ceil(threads).max(1);
        let shares = x.values.chunks(rows * self.inputs).zip(out.values.chunks_mut(rows * self.outputs));
        thread::scope(|scope| {
            for (index, (x, out)) in shares.enumerate() {
                match index + 1 == threads {
                    true => self.apply_to(x, out),
                    false => drop(scope.spawn(move || self.apply_to(x, out))),
                }
            }
        });
        out
    }

    /// `matrix · x` for the rows of `x`, into the rows of `out`.
    fn apply_to(&self, x: &[f32], out: &mut [f32]) {
        for (output, weights) in self.values.chunks_exact(self.inputs).enumerate() {
            for (x, out) in x.chunks_exact(self.inputs).zip(out.chunks_exact_mut(self.outputs)) {
                out[output] = dot(weights, x);
            }
        }
    }

    /// `matrix · x` for one row.
    pub fn apply_row(&self, x: &[f32]) -> Vec<f32> {
        assert_eq!(x.len(), self.inputs, "inputs of a matrix [{}, {}]", self.outputs, self.inputs);
        self.values.chunks_exact(self.inputs).map(|weights| dot(weights, x)).collect()
    }
}

/// Partial sums of [`dot`]. Independent sums let the compiler use vector registers.
const LANES: usize = 8;

/// The dot product, in [`LANES`] partial sums that are added at the end.
pub fn dot(a: &[f32], b: &[f32]) -> f32 {
    let mut sums = [0.0f32; LANES];
    let ((a_blocks, a_rest), (b_blocks, b_rest)) = (a.as_chunks::<LANES>(), b.as_chunks::<LANES>());
    for (a, b) in a_blocks.iter().zip(b_blocks) {
        for lane in 0..LANES {
            sums[lane] += a[lane] * b[lane];
        }
    }
    let rest: f32 = a_rest.iter().zip(b_rest).map(|(a, b)| a * b).sum();
    sums.iter().sum::<f32>() + rest
}

/// `weight * x / sqrt(mean(x^2) + epsilon)` for one row or head.
pub fn rms_norm(x: &mut [f32], weight: &[f32], epsilon: f32) {
    let mean = dot(x, x) / x.len() as f32;
    let scale = 1.0 / (mean + epsilon).sqrt();
    for (x, weight) in x.iter_mut().zip(weight) {
        *x *= scale * weight;
    }
}

/// [`rms_norm`] of every row, the rows left as they are.
pub fn rms_norm_rows(x: &Rows, weight: &[f32], epsilon: f32) -> Rows {
    let mut out = x.clone();
    for row in out.values.chunks_exact_mut(x.width) {
        rms_norm(row, weight, epsilon);
    }
    out
}

/// `1 / (1 + e^-x)`
pub fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + (-x).exp())
}

/// Turns scores into weights that sum to 1.
pub fn softmax(scores: &mut [f32]) {
    let highest = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    for score in scores.iter_mut() {
        *score = (*score - highest).exp();
    }
    let sum: f32 = scores.iter().sum();
    for score in scores.iter_mut() {
        *score /= sum;
    }
}

/// `down · (silu(gate · x) * (up · x))` for every row of `x`, with `silu(a) = a * sigmoid(a)`
/// (docs/lfm2.md section 2.3).
pub fn feed_forward(gate: &Matrix, up: &Matrix, down: &Matrix, x: &Rows) -> Rows {
    let mut hidden = gate.apply(x);
    for (gate, up) in hidden.values.iter_mut().zip(&up.apply(x).values) {
        *gate *= sigmoid(*gate) * up;
    }
    down.apply(&hidden)
}

/// The greedy choice from a row of logits.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pick {
    /// The token with the highest logit; the lowest of equals.
    pub token: u32,
    /// How far its logit is above the next one's; 0 for a tie.
    pub margin: f32,
}

impl Pick {
    /// The choice from `logits`, one a token.
    ///
    /// # Panics
    /// If there are fewer than two.
    pub fn from_logits(logits: &[f32]) -> Self {
        assert!(logits.len() >= 2, "a pick needs two logits");
        let (mut best, mut second) = (0, f32::NEG_INFINITY);
        for (token, &logit) in logits.iter().enumerate().skip(1) {
            if logit > logits[best] {
                second = logits[best];
                best = token;
            } else if logit > second {
                second = logit;
            }
        }
        Pick { token: best as u32, margin: logits[best] - second }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dot_product_reads_whole_blocks_and_the_rest() {
        let a: Vec<f32> = (0..37).map(|i| i as f32).collect();
        let expected: f32 = (0..37).map(|i| (i * i) as f32).sum();
        assert_eq!(dot(&a, &a), expected);
    }

    #[test]
    fn a_matrix_is_applied_to_each_row() {
        let matrix = Matrix { outputs: 2, inputs: 3, values: vec![1.0, 2.0, 3.0, 0.0, -1.0, 1.0] };
        let x = Rows { width: 3, values: vec![1.0, 1.0, 1.0, 2.0, 0.0, 1.0] };
        assert_eq!(matrix.apply(&x).values, [6.0, 0.0, 5.0, 1.0]);
        assert_eq!(matrix.apply_row(x.row(1)), [5.0, 1.0]);
    }

    #[test]
    fn a_pick_takes_the_lowest_of_equals_and_says_how_close_the_next_is() {
        assert_eq!(Pick::from_logits(&[1.0, 4.0, 3.5]), Pick { token: 1, margin: 0.5 });
        assert_eq!(Pick::from_logits(&[2.0, 0.0, 2.0]), Pick { token: 0, margin: 0.0 });
        assert_eq!(Pick::from_logits(&[5.0, 1.0, 3.0]), Pick { token: 0, margin: 2.0 });
    }
}
