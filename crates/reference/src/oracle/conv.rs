//! The gated short convolution over a ring of earlier gated rows.

use forerunner_tensor::{CONV_RING, ConvRing, NO_LANE, Rows, bf16};

use super::OracleDevice;

/// Rows of a lane come in ascending positions, so the two rows before a row are always in the ring when it
/// is computed, however long the prompt is.
pub(super) fn short_conv(
    projected: &[bf16],
    weight: &[bf16],
    channels: usize,
    rows: &Rows<OracleDevice>,
    ring: &mut ConvRing<OracleDevice>,
    out: &mut [bf16],
) {
    for row in (0..rows.count).filter(|row| rows.lane[*row] != NO_LANE) {
        let position = rows.position[row] as usize;
        let ring = &mut ring.gated[rows.lane[row] as usize * CONV_RING * channels..][..CONV_RING * channels];
        let (b, rest) = projected[row * 3 * channels..][..3 * channels].split_at(channels);
        let (c, x) = rest.split_at(channels);
        for channel in 0..channels {
            let gated = bf16::from_f32(b[channel].to_f32() * x[channel].to_f32());
            ring[position % CONV_RING * channels + channel] = gated;
            let sum = convolve(&weight[channel * 3..][..3], position, |position| {
                ring[position % CONV_RING * channels + channel].to_f32()
            });
            let sum = bf16::from_f32(sum).to_f32();
            out[row * channels + channel] = bf16::from_f32(c[channel].to_f32() * sum);
        }
    }
}

/// The sum over k = 0, 1, 2 of `weight[k]` times the gated value at `position - 2 + k`; 0 before position
/// 0.
fn convolve(weight: &[bf16], position: usize, gated: impl Fn(usize) -> f32) -> f32 {
    let mut sum = 0.0;
    for (k, weight) in weight.iter().enumerate() {
        if position + k >= 2 {
            sum += weight.to_f32() * gated(position + k - 2);
        }
    }
    sum
}
