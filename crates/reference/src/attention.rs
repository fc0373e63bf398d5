//! Attention in plain fp32 loops: head norms, both rope pairings, and one query row over keys and values.

use forerunner_tensor::HeadShape;

use crate::math::{Rows, dot, rms_norm, softmax};

/// Which dimensions of a head are rotated together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RopePairs {
    /// `(i, i + head_dim / 2)`: the target (docs/lfm2.md section 2.1).
    Half,
    /// `(2i, 2i + 1)`: the released drafters (docs/dspark.md section 3.1).
    Interleaved,
}

/// Rotary positions.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rope {
    /// Pair `i` turns by `position * theta^(-2i / head_dim)` radians.
    pub theta: f32,
    /// How a head's dimensions are paired.
    pub pairs: RopePairs,
}

impl Rope {
    /// Rotates one head. Angles are fp32, as the models were trained; their cosines and sines are not.
    pub fn rotate(&self, head: &mut [f32], position: usize) {
        let half = head.len() / 2;
        for i in 0..half {
            let frequency = f64::from(self.theta).powf(-2.0 * i as f64 / head.len() as f64) as f32;
            let (sin, cos) = f64::from(position as f32 * frequency).sin_cos();
            let (sin, cos) = (sin as f32, cos as f32);
            let (first, second) = match self.pairs {
                RopePairs::Half => (i, i + half),
                RopePairs::Interleaved => (2 * i, 2 * i + 1),
            };
            let (a, b) = (head[first], head[second]);
            head[first] = a * cos - b * sin;
            head[second] = b * cos + a * sin;
        }
    }

    /// Norms and rotates every head of every row, the first of which stands at `position`.
    pub fn norm_and_rotate(&self, rows: &mut Rows, norm: &[f32], epsilon: f32, position: usize) {
        let width = rows.width;
        for (index, row) in rows.values.chunks_exact_mut(width).enumerate() {
            for head in row.chunks_exact_mut(norm.len()) {
                rms_norm(head, norm, epsilon);
                self.rotate(head, position + index);
            }
        }
    }
}

/// Keys (after norm and rope) and values of one layer: `[positions, key_value_heads * head_dim]` each.
#[derive(Debug, Clone, PartialEq)]
pub struct KeyValues {
    /// Keys.
    pub keys: Rows,
    /// Values.
    pub values: Rows,
}

impl KeyValues {
    /// No positions yet.
    pub fn empty(shape: HeadShape) -> Self {
        let width = shape.key_value_heads * shape.head_dim;
        KeyValues { keys: Rows::empty(width), values: Rows::empty(width) }
    }

    /// Appends the keys and values of the next positions.
    pub fn push(&mut self, keys: &Rows, values: &Rows) {
        self.keys.push(&keys.values);
        self.values.push(&values.values);
    }

    /// Keeps positions `0..length`.
    pub fn truncate(&mut self, length: usize) {
        self.keys.truncate(length);
        self.values.truncate(length);
    }

    /// `softmax(q·k / sqrt(head_dim))·v` of one row of queries over positions `0..end`:
    /// `[query_heads * head_dim]`.
    pub fn attend(&self, shape: HeadShape, queries: &[f32], end: usize) -> Vec<f32> {
        let group = shape.query_heads / shape.key_value_heads;
        let width = shape.head_dim;
        let scale = 1.0 / (width as f32).sqrt();
        let mut out = vec![0.0; queries.len()];
        for (head, (query, out)) in queries.chunks_exact(width).zip(out.chunks_exact_mut(width)).enumerate() {
            let start = head / group * width;
            let span = start..start + width;
            let mut weights: Vec<f32> =
                self.keys.iter().take(end).map(|key| dot(query, &key[span.clone()]) * scale).collect();
            softmax(&mut weights);
            for (weight, value) in weights.iter().zip(self.values.iter()) {
                for (out, value) in out.iter_mut().zip(&value[span.clone()]) {
                    *out += weight * value;
                }
            }
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interleaved_pairs_are_half_split_pairs_of_a_permuted_head() {
        let head: Vec<f32> = (0..8).map(|i| 0.3 * i as f32 - 1.0).collect();
        let mut interleaved = head.clone();
        Rope { theta: 100.0, pairs: RopePairs::Interleaved }.rotate(&mut interleaved, 7);
        let mut half: Vec<f32> = (0..8).map(|i| head[i % 4 * 2 + i / 4]).collect();
        Rope { theta: 100.0, pairs: RopePairs::Half }.rotate(&mut half, 7);
        for i in 0..8 {
            assert_eq!(half[i], interleaved[i % 4 * 2 + i / 4]);
        }
    }

    #[test]
    fn scores_depend_on_the_distance_of_positions() {
        let rope = Rope { theta: 1e4, pairs: RopePairs::Half };
        let score = |query_position, key_position| {
            let (mut query, mut key) = ([0.5, -1.0, 2.0, 0.25], [1.0, 0.75, -0.5, 1.5]);
            rope.rotate(&mut query, query_position);
            rope.rotate(&mut key, key_position);
            dot(&query, &key)
        };
        assert!((score(9, 4) - score(25, 20)).abs() < 1e-5);
        assert!((score(9, 4) - score(9, 5)).abs() > 1e-2);
    }

    #[test]
    fn query_heads_share_key_heads_in_groups_and_see_nothing_past_the_end() {
        let shape = HeadShape { query_heads: 4, key_value_heads: 2, head_dim: 2 };
        let mut state = KeyValues::empty(shape);
        let keys = Rows { width: 4, values: vec![0.0; 12] };
        let values = Rows { width: 4, values: (0..12).map(|i| i as f32).collect() };
        state.push(&keys, &values);
        assert_eq!(state.attend(shape, &[1.0; 8], 2), [2.0, 3.0, 2.0, 3.0, 4.0, 5.0, 4.0, 5.0]);
    }
}
