//! Operations that read one row and write one row: embedding, norm, projections, feed-forward, gathers.

use forerunner_tensor::{NO_LANE, Rows, bf16};

use super::{OracleDevice, OracleMatrix};

/// Copies the tokens' rows of the table; pad rows are left alone, for their token means nothing.
pub(super) fn embed(table: &OracleMatrix, rows: &Rows<OracleDevice>, out: &mut [bf16]) {
    let width = table.columns;
    for row in 0..rows.count {
        if rows.lane[row] != NO_LANE {
            let token = rows.token[row] as usize;
            out[row * width..(row + 1) * width].copy_from_slice(table.row(token));
        }
    }
}

/// `out = weight * bf16(x * rsqrt(mean(x^2) + epsilon))`, the product rounded again.
pub(super) fn norm_row(x: &[bf16], weight: &[bf16], epsilon: f32, out: &mut [bf16]) {
    let mut squares = 0.0;
    for value in x {
        squares += value.to_f32() * value.to_f32();
    }
    let scale = 1.0 / (squares / x.len() as f32 + epsilon).sqrt();
    for ((out, value), weight) in out.iter_mut().zip(x).zip(weight) {
        let normed = bf16::from_f32(value.to_f32() * scale);
        *out = bf16::from_f32(weight.to_f32() * normed.to_f32());
    }
}

/// Gives `write` the index and the fp32 sum of each of the `count * outputs` products.
pub(super) fn linear(matrix: &OracleMatrix, x: &[bf16], count: usize, mut write: impl FnMut(usize, f32)) {
    for row in 0..count {
        let sums = matrix.multiply(&x[row * matrix.columns..(row + 1) * matrix.columns]);
        for (output, sum) in sums.into_iter().enumerate() {
            write(row * matrix.rows + output, sum);
        }
    }
}

/// `residual = bf16(residual + bf16(sum))`.
pub(super) fn add(residual: &mut bf16, sum: f32) {
    *residual = bf16::from_f32(residual.to_f32() + bf16::from_f32(sum).to_f32());
}

/// `down · bf16(silu(g) * u)` in fp32, with `g` and `u` the halves of `bf16(gate_up · x)`.
pub(super) fn gated_row(gate_up: &OracleMatrix, down: &OracleMatrix, x: &[bf16]) -> Vec<f32> {
    let both: Vec<f32> = gate_up.multiply(x).into_iter().map(|sum| bf16::from_f32(sum).to_f32()).collect();
    let (gate, up) = both.split_at(gate_up.rows / 2);
    let active: Vec<bf16> = gate.iter().zip(up).map(|(g, u)| bf16::from_f32(silu(*g) * u)).collect();
    down.multiply(&active)
}

fn silu(x: f32) -> f32 {
    x / (1.0 + (-x).exp())
}

/// Adds each row's feed-forward to the residual.
pub(super) fn feed_forward(
    gate_up: &OracleMatrix,
    down: &OracleMatrix,
    x: &[bf16],
    count: usize,
    residual: &mut [bf16],
) {
    for row in 0..count {
        let sums = gated_row(gate_up, down, &x[row * gate_up.columns..(row + 1) * gate_up.columns]);
        for (output, sum) in sums.into_iter().enumerate() {
            add(&mut residual[row * down.rows + output], sum);
        }
    }
}

/// Copies row `from[i]` of `buffer` to row `to[i]`.
pub(super) fn copy_rows(buffer: &mut [bf16], from: &[i32], to: &[i32], width: usize) {
    for (from, to) in from.iter().zip(to) {
        let from = *from as usize * width;
        buffer.copy_within(from..from + width, *to as usize * width);
    }
}

/// Row `index[i]` of `x`, zeros where the index is -1.
pub(super) fn gather_rows(x: &[bf16], index: &[i32], width: usize, out: &mut [bf16]) {
    for (index, out) in index.iter().zip(out.chunks_exact_mut(width)) {
        match usize::try_from(*index) {
            Ok(row) => out.copy_from_slice(&x[row * width..(row + 1) * width]),
            Err(_) => out.fill(bf16::ZERO),
        }
    }
}
