//! Products of rows that were unpacked to fp32: what the modes `avx2` and `neon` share, in 8 lanes.
//!
//! Rows of weights are unpacked in the first-level cache, a few at a time, and multiplied with tiles of rows from there.
//! Lane `i` of a sum takes columns `2 i`, then `2 i + 1` of each chunk of 16, chunk after chunk, and the 8 lanes are
//! added as a tree. Tiles hold several outputs and rows in registers at once, which changes no order. Modes over this
//! file give the same bits, on whatever processor.

mod unpack;
mod vector;

use std::cell::RefCell;
use std::marker::PhantomData;
use std::ops::Range;

use forerunner_tensor::bf16;

pub(crate) use self::vector::{CHUNK, LANES, Vector};
use crate::arithmetic::{Arithmetic, Kernel, has_products};
use crate::memory::Scratch;
use crate::weights::View;

/// Most rows of a tile: with 2 outputs, their sums take 12 vectors of the 16 that there are registers for.
const TILE_ROWS: usize = 6;
/// Outputs unpacked at once: a multiple of every tile's.
const OUTPUTS: usize = 4;
/// Rows widened at once, so that they stay in the second-level cache while all outputs pass.
const WIDE_ROWS: usize = 5 * TILE_ROWS;

/// Memory for unpacked weights and widened rows.
struct Wide {
    weights: Scratch<f32>,
    x: Scratch<f32>,
}

thread_local! {
    static WIDE: RefCell<Wide> =
        const { RefCell::new(Wide { weights: Scratch::new(), x: Scratch::new() }) };
}

/// [`Arithmetic::products`] of the mode `A` in vectors `V`.
pub(crate) fn products<A: Arithmetic, V: Vector>(
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
    WIDE.with_borrow_mut(|Wide { weights: room, x: wide }| {
        let width = columns.next_multiple_of(CHUNK);
        for first in (0..rows).step_by(WIDE_ROWS) {
            let rows = WIDE_ROWS.min(rows - first);
            let room = room.take(OUTPUTS * width);
            let wide = wide.take(rows * width);
            let x = &x[first * columns..(first + rows) * columns];
            let (outputs, sums) = (outputs.clone(), &mut sums[first * stride..]);
            let vector = PhantomData::<V>;
            A::vectorize(Products { weights, columns, outputs, x, rows, sums, stride, room, wide, vector });
        }
    });
}

/// Products with some rows, and memory for the unpacked weights of some outputs and for those rows.
struct Products<'a, V> {
    weights: View<'a>,
    columns: usize,
    outputs: Range<usize>,
    x: &'a [bf16],
    rows: usize,
    sums: &'a mut [f32],
    stride: usize,
    room: &'a mut [f32],
    wide: &'a mut [f32],
    vector: PhantomData<V>,
}

impl<V: Vector> Kernel for Products<'_, V> {
    type Output = ();

    /// Unpacks some outputs after others and multiplies them with all rows.
    #[inline(always)]
    fn run<A: Arithmetic>(self) {
        let Products { weights, columns, outputs, room, wide, .. } = self;
        let width = columns.next_multiple_of(CHUNK);
        for (row, out) in self.x.chunks_exact(columns).zip(wide.chunks_exact_mut(width)) {
            unpack::widen::<V>(row, out);
        }
        let (rows, stride, vector) = (self.rows, self.stride, self.vector);
        let task = Task { steps: width / LANES, x: wide.as_chunks().0, rows, stride, vector };
        for first in outputs.clone().step_by(OUTPUTS) {
            let count = OUTPUTS.min(outputs.end - first);
            let room = &mut room[..count * width];
            for (output, out) in (first..).zip(room.chunks_exact_mut(width)) {
                unpack::row::<V>(weights, columns, output, out);
            }
            task.rows_by(room.as_chunks().0, &mut self.sums[first - outputs.start..]);
        }
    }
}

/// Widened rows `[rows, steps]`, and how far the sums of a row are from those of the next.
struct Task<'a, V> {
    steps: usize,
    x: &'a [[f32; LANES]],
    rows: usize,
    stride: usize,
    vector: PhantomData<V>,
}

impl<V: Vector> Task<'_, V> {
    /// Multiplies unpacked outputs with all rows, in tiles of about as many rows each.
    #[inline(always)]
    fn rows_by(&self, weights: &[[f32; LANES]], sums: &mut [f32]) {
        let mut row = 0;
        while row < self.rows {
            let tiles = (self.rows - row).div_ceil(TILE_ROWS);
            let rows = (self.rows - row).div_ceil(tiles);
            let tile = Task { x: &self.x[row * self.steps..(row + rows) * self.steps], rows, ..*self };
            tile.outputs_by(weights, &mut sums[row * self.stride..]);
            row += rows;
        }
    }

    /// Tiles of as many outputs as the registers hold sums for.
    #[inline(always)]
    fn outputs_by(&self, weights: &[[f32; LANES]], sums: &mut [f32]) {
        match self.rows {
            1 => self.tiles::<4, 1>(weights, sums),
            2 => self.tiles::<4, 2>(weights, sums),
            3 => self.tiles::<2, 3>(weights, sums),
            4 => self.tiles::<2, 4>(weights, sums),
            5 => self.tiles::<2, 5>(weights, sums),
            _ => self.tiles::<2, TILE_ROWS>(weights, sums),
        }
    }

    #[inline(always)]
    fn tiles<const O: usize, const R: usize>(&self, weights: &[[f32; LANES]], sums: &mut [f32]) {
        let tiles = weights.chunks_exact(O * self.steps);
        let rest = tiles.remainder().chunks_exact(self.steps);
        let whole = tiles.len() * O;
        for (tile, weights) in tiles.enumerate() {
            self.tile::<O, R>(weights, &mut sums[tile * O..]);
        }
        for (output, weights) in rest.enumerate() {
            self.tile::<1, R>(weights, &mut sums[whole + output..]);
        }
    }

    /// The sums of `O` outputs with `R` rows.
    #[inline(always)]
    #[expect(
        clippy::needless_range_loop,
        reason = "index loops are unrolled, which keeps the sums in registers"
    )]
    fn tile<const O: usize, const R: usize>(&self, weights: &[[f32; LANES]], sums: &mut [f32]) {
        assert!(weights.len() == O * self.steps && self.x.len() == R * self.steps);
        let mut totals = [[V::zeros(); R]; O];
        for step in 0..self.steps {
            let mut lines = [V::zeros(); O];
            for output in 0..O {
                // SAFETY: the lengths were checked above. Checks here would cost a register for each line.
                lines[output] = V::load(unsafe { weights.get_unchecked(output * self.steps + step) });
            }
            for row in 0..R {
                // SAFETY: as above.
                let x = V::load(unsafe { self.x.get_unchecked(row * self.steps + step) });
                for output in 0..O {
                    totals[output][row] = lines[output].multiply_add(x, totals[output][row]);
                }
            }
        }
        for row in 0..R {
            for output in 0..O {
                sums[row * self.stride + output] = totals[output][row].sum();
            }
        }
    }
}
