//! The gated short convolution over a ring of earlier gated rows.

use forerunner_tensor::{CONV_RING, ConvRing, NO_LANE, Rows, bf16};

use crate::CpuDevice;
use crate::arithmetic::{Arithmetic, kernels};
use crate::grid::{Block, Grid, over_columns_of_two};
use crate::math::{round, widen};
use crate::pool::Pool;

/// Channels of a row that one thread computes in a nanosecond.
const CHANNELS_A_NANOSECOND: f32 = 1.0;

/// Channels are independent; rows are taken in order, so the two rows before a row are always in the ring when it
/// is computed, however long the prompt is.
pub(crate) fn short_conv<A: Arithmetic>(
    pool: &Pool,
    projected: &[bf16],
    weight: &[bf16],
    channels: usize,
    rows: &Rows<CpuDevice>,
    ring: &mut ConvRing<CpuDevice>,
    out: &mut [bf16],
) {
    let small = ((rows.count * channels) as f32) < CHANNELS_A_NANOSECOND * 2000.0;
    let tile = if small { channels } else { channels.div_ceil(pool.threads() * 4).next_multiple_of(32) };
    let mut ring = Grid::new(&mut ring.gated, channels);
    let mut out = Grid::new(out, channels);
    over_columns_of_two(pool, &mut ring, &mut out, tile, |range, mut ring, mut out| {
        for row in (0..rows.count).filter(|&row| rows.lane[row] != NO_LANE) {
            let projected = &projected[row * 3 * channels..(row + 1) * 3 * channels];
            let part = |index: usize| &projected[index * channels..][range.clone()];
            let gates = Gates { before: part(0), after: part(1), x: part(2) };
            let weight = &weight[range.start * 3..range.end * 3];
            let position = rows.position[row] as usize;
            convolve::<A>(&gates, weight, rows.lane[row] as usize, position, &mut ring, out.row(row));
        }
    });
}

/// One row's B, C and x of some channels.
struct Gates<'a> {
    before: &'a [bf16],
    after: &'a [bf16],
    x: &'a [bf16],
}

kernels! {
    fn convolve<A>(
        gates: &Gates<'_>,
        weight: &[bf16],
        lane: usize,
        position: usize,
        ring: &mut Block<'_, bf16>,
        out: &mut [bf16],
    ) -> () {
        let slot = |position: usize| lane * CONV_RING + position % CONV_RING;
        for ((gated, b), x) in ring.row(slot(position)).iter_mut().zip(gates.before).zip(gates.x) {
            *gated = round(widen(*b) * widen(*x));
        }
        let weight = weight.as_chunks::<3>().0;
        let mut sums = [0.0; 64];
        for (block, out) in out.chunks_mut(sums.len()).enumerate() {
            let range = block * sums.len()..block * sums.len() + out.len();
            let sums = &mut sums[..out.len()];
            sums.fill(0.0);
            for k in (2usize.saturating_sub(position))..3 {
                let gated = &ring.row(slot(position + k - 2))[range.clone()];
                for ((sum, weight), gated) in sums.iter_mut().zip(&weight[range.clone()]).zip(gated) {
                    *sum += widen(weight[k]) * widen(*gated);
                }
            }
            for ((out, sum), c) in out.iter_mut().zip(sums).zip(&gates.after[range]) {
                *out = round(widen(*c) * widen(round(*sum)));
            }
        }
    }
}
