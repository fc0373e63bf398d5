//! The mode `amx`: bf16 products of tiles, 16 outputs by 16 rows by 32 columns at once, with the vectors of `avx512`
//! for everything else.
//!
//! A sum takes its columns 32 at a time, in their order: within a chunk first the even columns and the odd ones, each
//! in their order, then both together, and that to the sum of the chunks before. The product instruction takes
//! denormal numbers for zero and rounds to nearest even. A product of tiles does the same whether the weights are its
//! left or its right operand, so few rows leave the weights as they are unpacked and many rows leave the rows so.

mod interleave;
mod left;
mod tiles;

use std::arch::x86_64::*;
use std::cell::RefCell;
use std::ops::Range;

use forerunner_tensor::bf16;

use crate::arithmetic::{Arithmetic, Kernel, has_products};
use crate::avx512::{Source, Visit, with_source};
use crate::memory::Scratch;
use crate::weights::{BLOCK, CHUNK, View};
use interleave::{TILE, interleave};
use left::Left;
use tiles::{Place, SIDE, add_products, clear, configure, store};

pub(crate) use tiles::are_available;

/// Bytes of a row of a tile.
const ROW_BYTES: usize = 4 * SIDE;

/// Needs what [`crate::avx512::Avx512`] needs, and tiles: [`crate::Mode::Amx`] is only chosen where both are.
pub(crate) struct Amx;

/// Operands of this thread's products.
struct Operands {
    /// Weights of left operands, unpacked: of two blocks of outputs, four tiles each.
    left: Scratch<bf16>,
    right: Scratch<u32>,
    /// Rows that have no 16 whole rows of 32 columns behind them.
    padded: Scratch<bf16>,
    sums: Scratch<f32>,
}

impl Operands {
    const fn new() -> Self {
        Operands { left: Scratch::new(), right: Scratch::new(), padded: Scratch::new(), sums: Scratch::new() }
    }
}

thread_local! {
    static OPERANDS: RefCell<Operands> = const { RefCell::new(Operands::new()) };
}

impl Arithmetic for Amx {
    const TILE_OUTPUTS: usize = 2 * SIDE;
    /// Many rows find the weights turned.
    const ONE_PASS: usize = usize::MAX;

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
        let x = x.as_ptr().cast();
        let task = Task { columns, outputs: outputs.clone(), x, rows, sums: sums.as_mut_ptr(), stride };
        // SAFETY: the lengths of `x` and `sums` were checked; the mode is only chosen where there are tiles.
        unsafe {
            configure();
            with_source(weights, columns, outputs.end, task);
        }
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16,fma")]
fn with_features<K: Kernel>(kernel: K) -> K::Output {
    kernel.run::<Amx>()
}

/// The outputs and the rows to multiply, and where their sums go.
struct Task {
    columns: usize,
    outputs: Range<usize>,
    x: *const i16,
    rows: usize,
    sums: *mut f32,
    stride: usize,
}

impl Visit for Task {
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
    unsafe fn visit<S: Source>(self, source: S) {
        OPERANDS.with_borrow_mut(|operands| {
            // SAFETY: the caller's promise.
            unsafe {
                if self.rows <= SIDE { self.few(source, operands) } else { self.many(source, operands) }
            }
        });
    }
}

impl Task {
    /// Tiles that the columns take.
    fn chunks(&self) -> usize {
        self.columns.div_ceil(CHUNK)
    }

    /// The columns of a row's chunk, zeros past the last.
    ///
    /// # Safety
    /// The row is inside `x`.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
    #[inline]
    unsafe fn x_chunk(&self, row: usize, chunk: usize) -> __m512i {
        let left = (self.columns - chunk * CHUNK).min(CHUNK);
        // SAFETY: the caller's promise; the mask names columns inside the row.
        unsafe {
            let values = self.x.add(row * self.columns + chunk * CHUNK);
            _mm512_maskz_loadu_epi16(u32::MAX >> (CHUNK - left), values)
        }
    }

    /// At most 16 rows: the weights are left operands, as they are unpacked, and the rows are turned.
    ///
    /// # Safety
    /// The outputs are inside the source, `x` and `sums` hold the rows, the processor has the features, and the tiles
    /// are configured.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
    unsafe fn few<S: Source>(&self, source: S, operands: &mut Operands) {
        let Operands { left, right, sums, .. } = operands;
        let right = right.take(self.chunks() * TILE);
        let sums: &mut [f32; 2 * TILE] = sums.take(2 * TILE).first_chunk_mut().expect("two tiles");
        let mut left = Left::new(source, self.columns, self.outputs.end, left);
        // SAFETY: the caller's promise; `right` has a tile for each chunk.
        unsafe {
            for (chunk, tile) in right.chunks_exact_mut(TILE).enumerate() {
                interleave(self.rows, |row| self.x_chunk(row, chunk), tile.as_mut_ptr());
            }
            for first in self.outputs.clone().step_by(2 * SIDE) {
                if self.outputs.end - first > SIDE {
                    self.few_outputs::<S, 2>(&mut left, first, right, sums);
                } else {
                    self.few_outputs::<S, 1>(&mut left, first, right, sums);
                }
            }
        }
    }

    /// The sums of `O` blocks of 16 outputs.
    ///
    /// # Safety
    /// As for `few`.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
    #[inline]
    unsafe fn few_outputs<S: Source, const O: usize>(
        &self,
        left: &mut Left<'_, S>,
        first: usize,
        right: &[u32],
        sums: &mut [f32; 2 * TILE],
    ) {
        let end = self.outputs.end;
        // SAFETY: the caller's promise.
        unsafe {
            clear::<O, 1>();
            for block in 0..self.columns.div_ceil(BLOCK) {
                let mut tiles = [left.tiles(first..end.min(first + SIDE), block, 0); O];
                if O == 2 {
                    tiles[O - 1] = left.tiles(first + SIDE..end.min(first + 2 * SIDE), block, 1);
                }
                let right = right[block * 4 * TILE..].chunks_exact(TILE).take(4);
                for (chunk, right) in right.enumerate() {
                    let mut places = [tiles[0].chunk(chunk); O];
                    places[O - 1] = tiles[O - 1].chunk(chunk);
                    let right = Place { start: right.as_ptr().cast(), stride: ROW_BYTES };
                    add_products(places, [right]);
                }
            }
            store::<0>(sums.as_mut_ptr(), ROW_BYTES);
            if O == 2 {
                store::<2>(sums[TILE..].as_mut_ptr(), ROW_BYTES);
            }
            for (index, tile) in sums.chunks_exact(TILE).take(O).enumerate() {
                self.write_turned(tile, first + index * SIDE);
            }
        }
    }

    /// Writes the sums of 16 outputs from `first` on, which stand output after output.
    ///
    /// # Safety
    /// `sums` of the task has room for them.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
    #[inline]
    unsafe fn write_turned(&self, tile: &[f32], first: usize) {
        assert_eq!(tile.len(), TILE, "values of a tile");
        let lanes = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
        let index = _mm512_slli_epi32::<4>(lanes);
        let mask = self.mask(first);
        for row in 0..self.rows {
            // SAFETY: the caller's promise; the index stays inside the tile.
            unsafe {
                let values = _mm512_i32gather_ps::<4>(index, tile.as_ptr().add(row));
                let out = self.sums.add(row * self.stride + first - self.outputs.start);
                _mm512_mask_storeu_ps(out, mask, values);
            }
        }
    }

    /// Which of 16 outputs from `first` on are asked for.
    fn mask(&self, first: usize) -> __mmask16 {
        u16::MAX >> SIDE.saturating_sub(self.outputs.end - first)
    }

    /// More than 16 rows: the rows are left operands, as they are, and the weights are turned, once for all rows.
    ///
    /// # Safety
    /// As for `few`.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
    unsafe fn many<S: Source>(&self, source: S, operands: &mut Operands) {
        let Operands { left, right, padded, sums } = operands;
        let right = right.take(2 * self.chunks() * TILE);
        let tile: &mut [f32; TILE] = sums.take(TILE).first_chunk_mut().expect("a tile");
        let mut left = Left::new(source, self.columns, self.outputs.end, left);
        // SAFETY: the caller's promise.
        unsafe {
            let rows = self.pad(padded);
            for first in self.outputs.clone().step_by(2 * SIDE) {
                self.turn_weights(&mut left, first, right);
                if self.outputs.end - first > SIDE {
                    self.many_rows::<2>(&rows, first, right, tile);
                } else {
                    self.many_rows::<1>(&rows, first, right, tile);
                }
            }
        }
    }

    /// Turns the weights of two blocks of 16 outputs from `first` on, or of one where no more are asked for.
    ///
    /// # Safety
    /// As for `few`; `right` has room for both.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
    unsafe fn turn_weights<S: Source>(&self, left: &mut Left<'_, S>, first: usize, right: &mut [u32]) {
        let firsts = (first..self.outputs.end.min(first + 2 * SIDE)).step_by(SIDE);
        for (first, right) in firsts.zip(right.chunks_exact_mut(self.chunks() * TILE)) {
            for (block, right) in right.chunks_mut(4 * TILE).enumerate() {
                // SAFETY: the caller's promise.
                unsafe {
                    let tiles = left.tiles(first..self.outputs.end.min(first + SIDE), block, 0);
                    for (chunk, tile) in right.chunks_exact_mut(TILE).enumerate() {
                        let place = tiles.chunk(chunk);
                        let row = |row| _mm512_loadu_si512(place.start.add(row * place.stride).cast());
                        interleave(SIDE, row, tile.as_mut_ptr());
                    }
                }
            }
        }
    }

    /// Copies the rows that have no 16 whole rows of whole chunks behind them.
    ///
    /// # Safety
    /// As for `few`.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
    unsafe fn pad(&self, padded: &mut Scratch<bf16>) -> LeftRows {
        let whole = if self.columns.is_multiple_of(CHUNK) { self.rows / SIDE * SIDE } else { 0 };
        let width = self.chunks() * CHUNK;
        let padded = padded.take((self.rows - whole).next_multiple_of(SIDE) * width);
        for (row, padded) in (whole..self.rows).zip(padded.chunks_exact_mut(width)) {
            for (chunk, padded) in padded.chunks_exact_mut(CHUNK).enumerate() {
                // SAFETY: the caller's promise; a chunk has 64 bytes.
                unsafe { _mm512_storeu_si512(padded.as_mut_ptr().cast(), self.x_chunk(row, chunk)) }
            }
        }
        let stride = 2 * self.columns;
        LeftRows {
            whole,
            rows: Place { start: self.x.cast(), stride },
            padded: Place { start: padded.as_ptr().cast(), stride: 2 * width },
        }
    }

    /// The sums of all rows with `O` blocks of outputs, whose weights `right` has.
    ///
    /// # Safety
    /// As for `few`.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
    unsafe fn many_rows<const O: usize>(
        &self,
        rows: &LeftRows,
        first: usize,
        right: &[u32],
        tile: &mut [f32; TILE],
    ) {
        let chunks = self.chunks();
        for row in (0..self.rows).step_by(2 * SIDE) {
            // SAFETY: the caller's promise.
            unsafe {
                if self.rows - row > SIDE {
                    let left = [rows.tile(row), rows.tile(row + SIDE)];
                    multiply::<2, O>(left, right, chunks);
                    self.write::<0>(row, first, tile);
                    self.write::<2>(row + SIDE, first, tile);
                    if O == 2 {
                        self.write::<1>(row, first + SIDE, tile);
                        self.write::<3>(row + SIDE, first + SIDE, tile);
                    }
                } else {
                    multiply::<1, O>([rows.tile(row)], right, chunks);
                    self.write::<0>(row, first, tile);
                    if O == 2 {
                        self.write::<1>(row, first + SIDE, tile);
                    }
                }
            }
        }
    }

    /// Writes a tile of sums of 16 rows from `row` on and 16 outputs from `first` on, as far as they are asked for.
    ///
    /// # Safety
    /// As for `few`.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
    #[inline]
    unsafe fn write<const SUM: usize>(&self, row: usize, first: usize, tile: &mut [f32; TILE]) {
        let mask = self.mask(first);
        // SAFETY: the caller's promise.
        unsafe {
            let out = self.sums.add(row * self.stride + first - self.outputs.start);
            if self.rows - row >= SIDE && mask == u16::MAX {
                store::<SUM>(out, 4 * self.stride);
                return;
            }
            store::<SUM>(tile.as_mut_ptr(), ROW_BYTES);
            for index in 0..SIDE.min(self.rows - row) {
                let values = _mm512_loadu_ps(tile[index * SIDE..].as_ptr());
                _mm512_mask_storeu_ps(out.add(index * self.stride), mask, values);
            }
        }
    }
}

/// Rows as left operands.
struct LeftRows {
    /// Rows that are read where they are.
    whole: usize,
    rows: Place,
    /// The rows after them.
    padded: Place,
}

impl LeftRows {
    /// The first tile of 16 rows from `row` on.
    ///
    /// # Safety
    /// The rows are there.
    unsafe fn tile(&self, row: usize) -> Place {
        // SAFETY: the caller's promise.
        unsafe {
            if row < self.whole {
                self.rows.after(row * self.rows.stride)
            } else {
                self.padded.after((row - self.whole) * self.padded.stride)
            }
        }
    }
}

/// `sums[l][r]` = the products of `L` blocks of rows with `R` blocks of outputs over all columns.
///
/// # Safety
/// As for `Task::few`; the operands have `chunks` tiles each, those of `right` block after block.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
#[inline]
unsafe fn multiply<const L: usize, const R: usize>(left: [Place; L], right: &[u32], chunks: usize) {
    assert!(right.len() >= R * chunks * TILE, "{} words of right operands", right.len());
    // SAFETY: the caller's promise.
    unsafe {
        clear::<L, R>();
        for chunk in 0..chunks {
            let mut rows = [left[0].after(chunk * ROW_BYTES); L];
            rows[L - 1] = left[L - 1].after(chunk * ROW_BYTES);
            let mut outputs =
                [Place { start: right.as_ptr().add(chunk * TILE).cast(), stride: ROW_BYTES }; R];
            outputs[R - 1].start = right.as_ptr().add(((R - 1) * chunks + chunk) * TILE).cast();
            add_products(rows, outputs);
        }
    }
}
