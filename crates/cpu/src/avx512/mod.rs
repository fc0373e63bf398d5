//! The mode `avx512`: bf16 products in 512-bit registers, with 4-bit codes looked up in a table a group.
//!
//! Lane `i` of a sum takes columns `2 i` and `2 i + 1` of each chunk of 32, chunk after chunk, and the 16 lanes are
//! added as a tree. Tiles hold several outputs and rows in registers at once, which changes no order.
//! The product instruction takes denormal numbers for zero and rounds to nearest even.

mod source;
mod store;
mod sums;

use std::arch::x86_64::*;
use std::cell::RefCell;
use std::mem::MaybeUninit;
use std::ops::Range;

use forerunner_tensor::bf16;

use crate::arithmetic::{Arithmetic, Kernel, has_products};
use crate::memory::Scratch;
use crate::weights::{BLOCK, CHUNK, View, row_words};
use source::{Codes4, Codes8, Dense, dequantize, load, load_masked};

pub(crate) use source::{Source, as_integers};

/// Most rows of a tile of codes: with 2 outputs, their sums take 20 of the 32 registers.
const TILE_ROWS: usize = 10;
/// Most rows of a tile of dense weights: with 4 outputs, their sums take 24 registers.
const DENSE_ROWS: usize = 6;
/// Blocks whose tables are made before their products: made among them, each would wait for the ones before it.
const STAGED_BLOCKS: usize = 8;
/// Outputs of rows of one block whose tables are made at once; a multiple of every tile's.
const TABLED_OUTPUTS: usize = 8;
/// Outputs dequantized to memory at once where there are more rows than a tile takes.
const STAGED_OUTPUTS: usize = 16;

/// Needs AVX-512 F, BW, VL and BF16: [`crate::Mode::Avx512`] is only chosen where the processor has them.
pub(crate) struct Avx512;

thread_local! {
    static DEQUANTIZED: RefCell<Scratch<bf16>> = const { RefCell::new(Scratch::new()) };
}

impl Arithmetic for Avx512 {
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
        let task = Task { columns, x: x.as_ptr().cast(), rows, sums: sums.as_mut_ptr(), stride };
        let end = outputs.end;
        // SAFETY: the lengths of `x` and `sums` were checked, and the mode has the features.
        unsafe { with_source(weights, columns, end, Products { task, outputs }) }
    }
}

/// What is done with weights, whatever their format.
pub(crate) trait Visit {
    /// # Safety
    /// The source has the outputs that were named; the processor has the mode's features.
    unsafe fn visit<S: Source>(self, source: S);
}

/// Calls `visit` with the source of a view, of which outputs below `end` are read.
///
/// # Safety
/// The processor has the mode's features.
pub(crate) unsafe fn with_source(weights: View<'_>, columns: usize, end: usize, visit: impl Visit) {
    match weights {
        View::Dense(values) => {
            assert!(values.len() >= end * columns, "{} weights", values.len());
            // SAFETY: the length was checked.
            unsafe { visit.visit(Dense { values: values.as_ptr().cast(), columns }) }
        }
        View::Affine { bits, group, codes, pairs } => {
            let (words, groups) = (row_words(bits, columns), columns / group);
            assert!(codes.len() >= end * words, "{} words of codes", codes.len());
            assert!(pairs.len() >= end * groups, "{} pairs", pairs.len());
            let (codes, pairs) = (codes.as_ptr(), pairs.as_ptr());
            // SAFETY: the lengths were checked.
            unsafe {
                match (bits, group) {
                    (4, 32) => visit.visit(Codes4::<1> { codes, words, pairs, groups }),
                    (4, 64) => visit.visit(Codes4::<2> { codes, words, pairs, groups }),
                    (4, _) => visit.visit(Codes4::<4> { codes, words, pairs, groups }),
                    _ => visit.visit(Codes8 { codes, words, pairs, groups, group }),
                }
            }
        }
    }
}

/// Some outputs' products.
struct Products {
    task: Task,
    outputs: Range<usize>,
}

impl Visit for Products {
    unsafe fn visit<S: Source>(self, source: S) {
        // SAFETY: the caller's promise.
        unsafe {
            if self.task.rows <= S::ROWS {
                self.task.run(source, self.outputs);
            } else {
                self.task.run_unpacked(source, self.outputs);
            }
        }
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16,fma")]
fn with_features<K: Kernel>(kernel: K) -> K::Output {
    kernel.run::<Avx512>()
}

/// The rows to multiply and where their sums go.
#[derive(Clone, Copy)]
struct Task {
    columns: usize,
    x: *const i16,
    rows: usize,
    sums: *mut f32,
    stride: usize,
}

impl Task {
    /// More rows than a tile takes: codes are unpacked once for all of them.
    ///
    /// # Safety
    /// The outputs are inside the source, `x` and `sums` hold the rows, and the processor has the features.
    unsafe fn run_unpacked<S: Source>(self, source: S, outputs: Range<usize>) {
        if source.in_memory(outputs.start, 0).is_some() {
            // SAFETY: the caller's promise.
            return unsafe { self.run(source, outputs) };
        }
        DEQUANTIZED.with_borrow_mut(|scratch| {
            let values = scratch.take(STAGED_OUTPUTS * self.columns);
            for first in outputs.clone().step_by(STAGED_OUTPUTS) {
                let count = STAGED_OUTPUTS.min(outputs.end - first);
                let staged = &mut values[..count * self.columns];
                let dense = Dense { values: staged.as_ptr().cast(), columns: self.columns };
                // SAFETY: the scratch holds these outputs' rows from 0 on; otherwise the caller's promise.
                unsafe {
                    for (row, out) in staged.chunks_exact_mut(self.columns).enumerate() {
                        dequantize(source, first + row, out);
                    }
                    Task { sums: self.sums.add(first - outputs.start), ..self }.run(dense, 0..count);
                }
            }
        });
    }

    /// # Safety
    /// As for `run_unpacked`.
    unsafe fn run<S: Source>(self, source: S, outputs: Range<usize>) {
        let mut row = 0;
        while row < self.rows {
            let tiles = (self.rows - row).div_ceil(S::ROWS);
            let rows = (self.rows - row).div_ceil(tiles);
            // SAFETY: rows `row..row + rows` are inside `x` and `sums`.
            unsafe {
                let x = self.x.add(row * self.columns);
                Task { x, rows, sums: self.sums.add(row * self.stride), ..self }
                    .run_tiles(source, outputs.clone());
            }
            row += rows;
        }
    }

    /// Tiles of as many outputs as the registers hold sums and lines for.
    ///
    /// # Safety
    /// As for `run_unpacked`, with at most `TILE_ROWS` rows.
    unsafe fn run_tiles<S: Source>(self, source: S, outputs: Range<usize>) {
        // SAFETY: the caller's promise.
        unsafe {
            match (self.rows, S::OUTPUTS) {
                (1, _) => self.run_shape::<S, 8, 1>(source, outputs),
                (2, _) => self.run_shape::<S, 4, 2>(source, outputs),
                (3, _) => self.run_shape::<S, 4, 3>(source, outputs),
                (4, 2) => self.run_shape::<S, 4, 4>(source, outputs),
                (5, 2) => self.run_shape::<S, 4, 5>(source, outputs),
                (6, 2) => self.run_shape::<S, 2, 6>(source, outputs),
                (4, _) => self.run_shape::<S, 4, 4>(source, outputs),
                (5, _) => self.run_shape::<S, 4, 5>(source, outputs),
                (6, _) => self.run_shape::<S, 4, DENSE_ROWS>(source, outputs),
                (7, _) => self.run_shape::<S, 2, 7>(source, outputs),
                (8, _) => self.run_shape::<S, 2, 8>(source, outputs),
                (9, _) => self.run_shape::<S, 2, 9>(source, outputs),
                _ => self.run_shape::<S, 2, TILE_ROWS>(source, outputs),
            }
        }
    }

    /// # Safety
    /// As for `run_unpacked`, with `R` rows.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
    unsafe fn run_shape<S: Source, const O: usize, const R: usize>(self, source: S, outputs: Range<usize>) {
        let whole = outputs.start + outputs.len() / O * O;
        // SAFETY: the caller's promise; output `first` of the range has its sums at `first` of each row.
        unsafe {
            if R > 1 && self.columns == BLOCK {
                self.run_short::<S, O, R>(source, outputs.start, whole);
            } else {
                for first in (outputs.start..whole).step_by(O) {
                    self.store(first - outputs.start, self.tile::<S, O, R>(source, first));
                }
            }
            for output in whole..outputs.end {
                for row in 0..R {
                    let x = self.x.add(row * self.columns);
                    let one = Task { x, rows: 1, sums: self.sums.add(row * self.stride), ..self };
                    one.store(output - outputs.start, one.tile::<S, 1, 1>(source, output));
                }
            }
        }
    }

    /// Tiles of rows of one block, with the tables of several tiles made at once: such tiles are too short to hide
    /// the making of theirs.
    ///
    /// # Safety
    /// As for `run_unpacked`, with `R` rows of one block.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
    unsafe fn run_short<S: Source, const O: usize, const R: usize>(
        self,
        source: S,
        start: usize,
        end: usize,
    ) {
        let mut room = [MaybeUninit::<__m512i>::uninit(); 4 * TABLED_OUTPUTS];
        let room: *mut __m512i = room.as_mut_ptr().cast();
        // SAFETY: the caller's promise; every table that is read was written.
        unsafe {
            for batch in (start..end).step_by(TABLED_OUTPUTS) {
                let after = end.min(batch + TABLED_OUTPUTS);
                for output in batch..after {
                    source.stage(output, 0, room.add((output - batch) * 4));
                }
                for first in (batch..after).step_by(O) {
                    let mut sums = [[_mm512_setzero_ps(); R]; O];
                    self.add_staged(source, first, 0..1, (room.add((first - batch) * 4), 4), &mut sums);
                    self.store(first - start, sums);
                }
            }
        }
    }

    /// The sums, in 16 lanes each, of `O` outputs from `first` on with `R` rows.
    ///
    /// # Safety
    /// As for `run_rows`.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
    #[inline]
    unsafe fn tile<S: Source, const O: usize, const R: usize>(
        self,
        source: S,
        first: usize,
    ) -> [[__m512; R]; O] {
        let mut sums = [[_mm512_setzero_ps(); R]; O];
        let blocks = self.columns / BLOCK;
        // SAFETY: the blocks are inside the rows.
        unsafe {
            if R == 1 {
                for block in 0..blocks {
                    self.add_outputs(source, first, block, &mut sums);
                }
            } else {
                for start in (0..blocks).step_by(STAGED_BLOCKS) {
                    self.add_rows(source, first, start..blocks.min(start + STAGED_BLOCKS), &mut sums);
                }
            }
        }
        for chunk in self.columns / BLOCK * 4..self.columns.div_ceil(CHUNK) {
            let left = (self.columns - chunk * CHUNK).min(CHUNK);
            let mask = u32::MAX >> (CHUNK - left);
            for (output, sums) in sums.iter_mut().enumerate() {
                // SAFETY: the mask names columns inside the row.
                let weights = unsafe { source.chunk(first + output, chunk, mask) };
                for (row, sum) in sums.iter_mut().enumerate() {
                    // SAFETY: as above.
                    let x = unsafe { load_masked(self.x.add(row * self.columns + chunk * CHUNK), mask) };
                    *sum = _mm512_dpbf16_ps(*sum, weights, x);
                }
            }
        }
        sums
    }

    /// Adds the products of a block, output after output: for one row, whose block stays in registers.
    ///
    /// # Safety
    /// As for `run_shape`; the block is inside the rows.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
    #[inline]
    #[expect(
        clippy::needless_range_loop,
        reason = "index loops are unrolled, which keeps the sums in registers"
    )]
    unsafe fn add_outputs<S: Source, const O: usize, const R: usize>(
        self,
        source: S,
        first: usize,
        block: usize,
        sums: &mut [[__m512; R]; O],
    ) {
        for output in 0..O {
            // SAFETY: the caller's promise.
            unsafe {
                let x = self.x.add(block * BLOCK);
                source.fetch(first, block * O + output + S::LINES_AHEAD);
                let line = source.line(first + output, block);
                let sum = _mm512_dpbf16_ps(sums[output][0], S::weights::<0>(line), load(x));
                let sum = _mm512_dpbf16_ps(sum, S::weights::<1>(line), load(x.add(CHUNK)));
                let sum = _mm512_dpbf16_ps(sum, S::weights::<2>(line), load(x.add(2 * CHUNK)));
                sums[output][0] = _mm512_dpbf16_ps(sum, S::weights::<3>(line), load(x.add(3 * CHUNK)));
            }
        }
    }

    /// Adds the products of some blocks, chunk after chunk.
    ///
    /// # Safety
    /// As for `add_outputs`, with at most `STAGED_BLOCKS` blocks.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
    #[inline]
    unsafe fn add_rows<S: Source, const O: usize, const R: usize>(
        self,
        source: S,
        first: usize,
        blocks: Range<usize>,
        sums: &mut [[__m512; R]; O],
    ) {
        let mut room = [MaybeUninit::<__m512i>::uninit(); 4 * 4 * STAGED_BLOCKS];
        let room: *mut __m512i = room.as_mut_ptr().cast();
        let place = |output: usize, block: usize| (output * STAGED_BLOCKS + block - blocks.start) * 4;
        // SAFETY: the caller's promise; a tile has at most 4 outputs, and every place read was written.
        unsafe {
            for output in 0..O {
                for block in blocks.clone() {
                    source.stage(first + output, block, room.add(place(output, block)));
                }
            }
            self.add_staged(source, first, blocks, (room, STAGED_BLOCKS * 4), sums);
        }
    }

    /// As `add_rows`, with tables that were made before: the first output's, and how far the next one's are.
    ///
    /// # Safety
    /// As for `add_rows`; the tables are those of these outputs and blocks.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
    #[inline]
    #[expect(
        clippy::needless_range_loop,
        reason = "index loops are unrolled, which keeps the lines in registers"
    )]
    unsafe fn add_staged<S: Source, const O: usize, const R: usize>(
        self,
        source: S,
        first: usize,
        blocks: Range<usize>,
        (tables, stride): (*const __m512i, usize),
        sums: &mut [[__m512; R]; O],
    ) {
        // SAFETY: the caller's promise.
        unsafe {
            for block in blocks.clone() {
                let tables = tables.add((block - blocks.start) * 4);
                let mut lines = [source.staged_line(first, block, tables); O];
                for output in 1..O {
                    lines[output] = source.staged_line(first + output, block, tables.add(output * stride));
                }
                if R <= S::FETCHED_ROWS {
                    (0..O).for_each(|output| source.fetch(first, block * O + output + S::LINES_AHEAD));
                }
                let x = self.x.add(block * BLOCK);
                self.add_chunk::<S, O, R, 0>(&lines, x, sums);
                self.add_chunk::<S, O, R, 1>(&lines, x.add(CHUNK), sums);
                self.add_chunk::<S, O, R, 2>(&lines, x.add(2 * CHUNK), sums);
                self.add_chunk::<S, O, R, 3>(&lines, x.add(3 * CHUNK), sums);
            }
        }
    }

    /// Adds the products of a chunk: each vector of `x` is read once for all outputs, and at once forgotten.
    ///
    /// # Safety
    /// As for `add_outputs`.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
    #[inline]
    #[expect(
        clippy::needless_range_loop,
        reason = "index loops are unrolled, which keeps the sums in registers"
    )]
    unsafe fn add_chunk<S: Source, const O: usize, const R: usize, const CHUNK_OF_LINE: usize>(
        self,
        lines: &[S::Line; O],
        x: *const i16,
        sums: &mut [[__m512; R]; O],
    ) {
        // SAFETY: the caller's promise.
        unsafe {
            let mut weights = [S::weights::<CHUNK_OF_LINE>(lines[0]); O];
            for output in 1..O {
                weights[output] = S::weights::<CHUNK_OF_LINE>(lines[output]);
            }
            for row in 0..R {
                let x = load(x.add(row * self.columns));
                for output in 0..O {
                    sums[output][row] = _mm512_dpbf16_ps(sums[output][row], weights[output], x);
                }
            }
        }
    }
}
