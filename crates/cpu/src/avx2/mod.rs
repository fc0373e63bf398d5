//! The mode `avx2`: fp32 multiply-adds in 256-bit registers, for x86-64 processors without AVX-512 BF16.
//!
//! Rows of weights are unpacked to fp32 in the first-level cache, a few at a time, and multiplied with tiles of rows
//! from there. Lane `i` of a sum takes columns `2 i`, then `2 i + 1` of each chunk of 16, chunk after chunk, and the 8
//! lanes are added as a tree. Tiles hold several outputs and rows in registers at once, which changes no order.

mod unpack;

use std::arch::x86_64::*;
use std::cell::RefCell;
use std::ops::Range;

use forerunner_tensor::bf16;

use crate::arithmetic::{Arithmetic, Kernel, has_products};
use crate::memory::Scratch;
use crate::weights::View;

/// Columns that a pair of registers holds: even ones, then odd ones. Rows are padded with zeros to a multiple.
const CHUNK: usize = 16;
/// Lanes of a register.
const LANES: usize = 8;
/// Most rows of a tile: with 2 outputs, their sums take 12 of the 16 registers.
const TILE_ROWS: usize = 6;
/// Outputs unpacked at once: a multiple of every tile's.
const OUTPUTS: usize = 4;
/// Rows widened at once, so that they stay in the second-level cache while all outputs pass.
const WIDE_ROWS: usize = 5 * TILE_ROWS;

/// Needs AVX2 and FMA: [`crate::Mode::Avx2`] is only chosen where the processor has them.
pub(crate) struct Avx2;

/// Memory for unpacked weights and widened rows.
struct Wide {
    weights: Scratch<f32>,
    x: Scratch<f32>,
}

thread_local! {
    static WIDE: RefCell<Wide> =
        const { RefCell::new(Wide { weights: Scratch::new(), x: Scratch::new() }) };
}

impl Arithmetic for Avx2 {
    #[inline(always)]
    fn vectorize<K: Kernel>(kernel: K) -> K::Output {
        // SAFETY: the mode is only chosen where the processor has these features.
        unsafe { with_features(kernel) }
    }

    #[inline(always)]
    fn multiply_add(a: f32, b: f32, c: f32) -> f32 {
        a.mul_add(b, c)
    }

    fn products(
        weights: View<'_>,
        columns: usize,
        outputs: Range<usize>,
        x: &[bf16],
        rows: usize,
        sums: &mut [f32],
        stride: usize,
    ) {
        if !has_products(columns, &outputs, x, rows, sums, stride) {
            return;
        }
        WIDE.with_borrow_mut(|Wide { weights: wide_weights, x: wide_x }| {
            let width = columns.next_multiple_of(CHUNK);
            let room = wide_weights.take(OUTPUTS * width);
            for first in (0..rows).step_by(WIDE_ROWS) {
                let count = WIDE_ROWS.min(rows - first);
                let x = &x[first * columns..(first + count) * columns];
                let wide = wide_x.take(count * width);
                let sums = &mut sums[first * stride..];
                // SAFETY: the mode has the features.
                unsafe {
                    for (row, out) in x.chunks_exact(columns.max(1)).zip(wide.chunks_exact_mut(width.max(1)))
                    {
                        unpack::widen(row, out);
                    }
                    let task = Task { width, x: wide, rows: count, stride };
                    task.run(weights, columns, outputs.clone(), room, sums);
                }
            }
        });
    }
}

#[target_feature(enable = "avx2,fma")]
fn with_features<K: Kernel>(kernel: K) -> K::Output {
    kernel.run::<Avx2>()
}

/// Widened rows `[rows, width]`, and how far the sums of a row are from those of the next.
#[derive(Clone, Copy)]
struct Task<'a> {
    width: usize,
    x: &'a [f32],
    rows: usize,
    stride: usize,
}

impl Task<'_> {
    /// Unpacks some outputs after others into `room` and multiplies them with all rows.
    #[target_feature(enable = "avx2,fma")]
    fn run(
        self,
        weights: View<'_>,
        columns: usize,
        outputs: Range<usize>,
        room: &mut [f32],
        sums: &mut [f32],
    ) {
        for first in outputs.clone().step_by(OUTPUTS) {
            let count = OUTPUTS.min(outputs.end - first);
            for (output, out) in (first..first + count).zip(room.chunks_exact_mut(self.width.max(1))) {
                unpack::row(weights, columns, output, out);
            }
            self.rows_by(&room[..count * self.width], &mut sums[first - outputs.start..]);
        }
    }

    /// Multiplies unpacked outputs with all rows, in tiles of about as many rows each.
    #[target_feature(enable = "avx2,fma")]
    fn rows_by(self, weights: &[f32], sums: &mut [f32]) {
        let mut row = 0;
        while row < self.rows {
            let tiles = (self.rows - row).div_ceil(TILE_ROWS);
            let rows = (self.rows - row).div_ceil(tiles);
            let tile = Task { x: &self.x[row * self.width..(row + rows) * self.width], rows, ..self };
            tile.outputs_by(weights, &mut sums[row * self.stride..]);
            row += rows;
        }
    }

    /// Tiles of as many outputs as the registers hold sums for.
    #[target_feature(enable = "avx2,fma")]
    fn outputs_by(self, weights: &[f32], sums: &mut [f32]) {
        match self.rows {
            1 => self.tiles::<4, 1>(weights, sums),
            2 => self.tiles::<4, 2>(weights, sums),
            3 => self.tiles::<4, 3>(weights, sums),
            4 => self.tiles::<2, 4>(weights, sums),
            5 => self.tiles::<2, 5>(weights, sums),
            _ => self.tiles::<2, TILE_ROWS>(weights, sums),
        }
    }

    #[target_feature(enable = "avx2,fma")]
    fn tiles<const O: usize, const R: usize>(self, weights: &[f32], sums: &mut [f32]) {
        let tiles = weights.chunks_exact(O * self.width);
        let rest = tiles.remainder().chunks_exact(self.width);
        let whole = tiles.len() * O;
        for (tile, weights) in tiles.enumerate() {
            self.tile::<O, R>(weights, &mut sums[tile * O..]);
        }
        for (output, weights) in rest.enumerate() {
            self.tile::<1, R>(weights, &mut sums[whole + output..]);
        }
    }

    /// The sums of `O` outputs with `R` rows.
    #[target_feature(enable = "avx2,fma")]
    #[inline]
    #[expect(
        clippy::needless_range_loop,
        reason = "index loops are unrolled, which keeps the sums in registers"
    )]
    fn tile<const O: usize, const R: usize>(self, weights: &[f32], sums: &mut [f32]) {
        assert!(weights.len() == O * self.width && self.x.len() == R * self.width);
        assert!(sums.len() >= (R - 1) * self.stride + O);
        let mut totals = [[_mm256_setzero_ps(); R]; O];
        for column in (0..self.width).step_by(LANES) {
            let mut lines = [_mm256_setzero_ps(); O];
            for output in 0..O {
                // SAFETY: the width is a multiple of the lanes, and the lengths were checked above.
                lines[output] =
                    unsafe { _mm256_loadu_ps(weights.as_ptr().add(output * self.width + column)) };
            }
            for row in 0..R {
                // SAFETY: as above.
                let x = unsafe { _mm256_loadu_ps(self.x.as_ptr().add(row * self.width + column)) };
                for output in 0..O {
                    totals[output][row] = _mm256_fmadd_ps(lines[output], x, totals[output][row]);
                }
            }
        }
        for row in 0..R {
            for output in 0..O {
                sums[row * self.stride + output] = sum_lanes(totals[output][row]);
            }
        }
    }
}

/// The 8 lanes added as a tree: lane `i` and `i + 4`, then `i + 2`, `i + 1`.
#[target_feature(enable = "avx2,fma")]
#[inline]
fn sum_lanes(lanes: __m256) -> f32 {
    let fours = _mm_add_ps(_mm256_castps256_ps128(lanes), _mm256_extractf128_ps::<1>(lanes));
    let twos = _mm_add_ps(fours, _mm_movehl_ps(fours, fours));
    _mm_cvtss_f32(_mm_add_ss(twos, _mm_movehdup_ps(twos)))
}
