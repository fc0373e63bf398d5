//! The mode `avx512`: bf16 products in 512-bit registers, with 4-bit codes looked up in a table a group.
//!
//! Lane `i` of a sum takes columns `2 i` and `2 i + 1` of each chunk of 32, chunk after chunk, and the 16 lanes are
//! added as a tree. Tiles hold several outputs and rows in registers at once, which changes no order.
//! The product instruction takes denormal numbers for zero and rounds to nearest even.

use std::arch::x86_64::*;
use std::cell::RefCell;
use std::ops::Range;

use forerunner_tensor::bf16;

use crate::arithmetic::{Arithmetic, Kernel};
use crate::memory::Scratch;
use crate::weights::{BLOCK, CHUNK, View, row_words};

/// Most rows of a tile of codes: with 2 outputs, their sums take 20 of the 32 registers.
const TILE_ROWS: usize = 10;
/// Most rows of a tile of dense weights where there are many: 4 outputs read them half as often.
const DENSE_ROWS: usize = 6;
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
        assert!(x.len() >= rows * columns, "{} values of {rows} rows x {columns}", x.len());
        if rows == 0 || outputs.is_empty() {
            return;
        }
        assert!(sums.len() >= (rows - 1) * stride + outputs.len(), "{} sums", sums.len());
        let task = Task { columns, x: x.as_ptr().cast(), rows, sums: sums.as_mut_ptr(), stride };
        match weights {
            View::Dense(values) => {
                assert!(values.len() >= outputs.end * columns, "{} weights", values.len());
                let source = Dense { values: values.as_ptr().cast(), columns };
                // SAFETY: the lengths were checked above, and the mode has the features.
                unsafe { task.run(source, outputs) }
            }
            View::Affine { bits, group, codes, pairs } => {
                let words = row_words(bits, columns);
                assert!(codes.len() >= outputs.end * words, "{} words of codes", codes.len());
                assert!(pairs.len() >= outputs.end * (columns / group), "{} pairs", pairs.len());
                let (codes, pairs) = (codes.as_ptr(), pairs.as_ptr());
                let groups = columns / group;
                // SAFETY: as above.
                unsafe {
                    match (bits, group) {
                        (4, 32) => task.run_affine(Codes4::<1> { codes, words, pairs, groups }, outputs),
                        (4, 64) => task.run_affine(Codes4::<2> { codes, words, pairs, groups }, outputs),
                        (4, _) => task.run_affine(Codes4::<4> { codes, words, pairs, groups }, outputs),
                        _ => task.run_affine(Codes8 { codes, words, pairs, groups, group }, outputs),
                    }
                }
            }
        }
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16,fma")]
fn with_features<K: Kernel>(kernel: K) -> K::Output {
    kernel.run::<Avx512>()
}

/// Where weights come from.
trait Source: Copy {
    /// What 128 columns of an output are unpacked from.
    type Line: Copy;

    /// Outputs in a tile of 4 to 6 rows, by the registers that lines take.
    const OUTPUTS: usize;

    /// Columns `128 block..128 (block + 1)` of an output.
    ///
    /// # Safety
    /// The output and the block are inside the matrix; the processor has the mode's features.
    unsafe fn line(self, output: usize, block: usize) -> Self::Line;

    /// The weights of one of a line's four chunks of 32 columns.
    ///
    /// # Safety
    /// As for `line`.
    unsafe fn weights<const CHUNK_OF_LINE: usize>(line: Self::Line) -> __m512bh;

    /// Weights of columns `32 chunk..32 (chunk + 1)` of an output where `mask` is set, zeros elsewhere.
    ///
    /// # Safety
    /// As for `line`, for the columns that `mask` names.
    unsafe fn chunk(self, output: usize, chunk: usize, mask: __mmask32) -> __m512bh;
}

#[derive(Clone, Copy)]
struct Dense {
    values: *const i16,
    columns: usize,
}

impl Source for Dense {
    type Line = *const i16;
    const OUTPUTS: usize = 4;

    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
    #[inline]
    unsafe fn line(self, output: usize, block: usize) -> *const i16 {
        // SAFETY: the caller's promise.
        unsafe { self.values.add(output * self.columns + block * BLOCK) }
    }

    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
    #[inline]
    unsafe fn weights<const CHUNK_OF_LINE: usize>(line: *const i16) -> __m512bh {
        // SAFETY: the caller's promise.
        unsafe { load(line.add(CHUNK_OF_LINE * CHUNK)) }
    }

    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
    #[inline]
    unsafe fn chunk(self, output: usize, chunk: usize, mask: __mmask32) -> __m512bh {
        // SAFETY: the caller's promise; a masked load reads no value outside its mask.
        unsafe { load_masked(self.values.add(output * self.columns + chunk * CHUNK), mask) }
    }
}

/// 4-bit codes in lines of 128 columns; `SPAN` chunks of 32 columns share a scale and a bias.
#[derive(Clone, Copy)]
struct Codes4<const SPAN: usize> {
    codes: *const u32,
    words: usize,
    pairs: *const u32,
    groups: usize,
}

/// A line of codes and the table of each chunk.
#[derive(Clone, Copy)]
struct Line4 {
    codes: __m512i,
    tables: [__m512i; 4],
}

impl<const SPAN: usize> Codes4<SPAN> {
    /// The weights of a group's 16 codes, twice: an index's fifth bit belongs to the next code.
    ///
    /// Scale times code and one times bias are exact, so their sum is the fused multiply-add of
    /// `affine_value`.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
    #[inline]
    unsafe fn table(self, output: usize, group: usize) -> __m512i {
        // SAFETY: the caller's promise: the group is inside the row.
        let pairs = as_bf16(unsafe { broadcast(self.pairs.add(output * self.groups + group)) });
        let values = _mm512_dpbf16_ps(_mm512_setzero_ps(), pairs, codes_and_ones());
        as_integers(_mm512_cvtne2ps_pbh(values, values))
    }
}

impl<const SPAN: usize> Source for Codes4<SPAN> {
    type Line = Line4;
    const OUTPUTS: usize = 2;

    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
    #[inline]
    unsafe fn line(self, output: usize, block: usize) -> Line4 {
        // SAFETY: the caller's promise.
        unsafe {
            let codes = _mm512_loadu_si512(self.codes.add(output * self.words + block * 16).cast());
            let mut tables = [_mm512_setzero_si512(); 4];
            for first in (0..4).step_by(SPAN) {
                tables[first..first + SPAN].fill(self.table(output, block * (4 / SPAN) + first / SPAN));
            }
            Line4 { codes, tables }
        }
    }

    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
    #[inline]
    unsafe fn weights<const CHUNK_OF_LINE: usize>(line: Line4) -> __m512bh {
        let codes = match CHUNK_OF_LINE {
            0 => line.codes,
            1 => _mm512_srli_epi16::<4>(line.codes),
            2 => _mm512_srli_epi16::<8>(line.codes),
            _ => _mm512_srli_epi16::<12>(line.codes),
        };
        look_up(codes, line.tables[CHUNK_OF_LINE])
    }

    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
    #[inline]
    unsafe fn chunk(self, output: usize, chunk: usize, _: __mmask32) -> __m512bh {
        // SAFETY: the caller's promise; affine rows have whole chunks and whole lines.
        unsafe {
            let codes = _mm512_loadu_si512(self.codes.add(output * self.words + chunk / 4 * 16).cast());
            let shift = _mm_cvtsi32_si128((chunk % 4 * 4) as i32);
            look_up(_mm512_srl_epi16(codes, shift), self.table(output, chunk / SPAN))
        }
    }
}

/// 8-bit codes in order.
#[derive(Clone, Copy)]
struct Codes8 {
    codes: *const u32,
    words: usize,
    pairs: *const u32,
    groups: usize,
    group: usize,
}

impl Source for Codes8 {
    type Line = (Codes8, usize, usize);
    const OUTPUTS: usize = 2;

    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
    #[inline]
    unsafe fn line(self, output: usize, block: usize) -> Self::Line {
        (self, output, block * 4)
    }

    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
    #[inline]
    unsafe fn weights<const CHUNK_OF_LINE: usize>((source, output, first): Self::Line) -> __m512bh {
        // SAFETY: the caller's promise.
        unsafe { source.chunk(output, first + CHUNK_OF_LINE, u32::MAX) }
    }

    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
    #[inline]
    unsafe fn chunk(self, output: usize, chunk: usize, _: __mmask32) -> __m512bh {
        // SAFETY: the caller's promise; affine rows have whole chunks.
        unsafe {
            let pair = broadcast(self.pairs.add(output * self.groups + chunk * CHUNK / self.group));
            let scale = _mm512_castsi512_ps(_mm512_slli_epi32::<16>(pair));
            let bias =
                _mm512_castsi512_ps(_mm512_and_si512(pair, _mm512_set1_epi32(0xffff_0000_u32.cast_signed())));
            let codes: *const __m128i = self.codes.add(output * self.words + chunk * (CHUNK / 4)).cast();
            let low = _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_loadu_si128(codes)));
            let high = _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_loadu_si128(codes.add(1))));
            let (low, high) = (_mm512_fmadd_ps(scale, low, bias), _mm512_fmadd_ps(scale, high, bias));
            _mm512_cvtne2ps_pbh(high, low)
        }
    }
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
    /// # Safety
    /// The outputs are inside the source, `x` and `sums` hold the rows, and the processor has the features.
    unsafe fn run_affine<S: Source>(self, source: S, outputs: Range<usize>) {
        if self.rows <= TILE_ROWS {
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
    /// As for `run_affine`.
    unsafe fn run<S: Source>(self, source: S, outputs: Range<usize>) {
        let most = if self.rows <= TILE_ROWS { TILE_ROWS } else { DENSE_ROWS };
        let mut row = 0;
        while row < self.rows {
            let tiles = (self.rows - row).div_ceil(most);
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
    /// As for `run_affine`, with at most `TILE_ROWS` rows.
    unsafe fn run_tiles<S: Source>(self, source: S, outputs: Range<usize>) {
        // SAFETY: the caller's promise.
        unsafe {
            match (self.rows, S::OUTPUTS) {
                (1, _) => self.run_shape::<S, 8, 1>(source, outputs),
                (2, _) => self.run_shape::<S, 4, 2>(source, outputs),
                (3, _) => self.run_shape::<S, 4, 3>(source, outputs),
                (4, 2) => self.run_shape::<S, 2, 4>(source, outputs),
                (5, 2) => self.run_shape::<S, 2, 5>(source, outputs),
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
    /// As for `run_affine`, with `R` rows.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
    unsafe fn run_shape<S: Source, const O: usize, const R: usize>(self, source: S, outputs: Range<usize>) {
        let whole = outputs.start + outputs.len() / O * O;
        // SAFETY: the caller's promise; output `first` of the range has its sums at `first` of each row.
        unsafe {
            for first in (outputs.start..whole).step_by(O) {
                self.store(first - outputs.start, self.tile::<S, O, R>(source, first));
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

    /// Adds the lanes of a tile's sums and writes them from output `first` on.
    ///
    /// # Safety
    /// `sums` has room for the outputs in each row.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
    #[inline]
    unsafe fn store<const O: usize, const R: usize>(self, first: usize, tile: [[__m512; R]; O]) {
        for row in 0..R {
            for (index, outputs) in tile.chunks(4).enumerate() {
                let lanes = |output: usize| outputs[output % outputs.len()][row];
                let sums = sum_four(lanes(0), lanes(1), lanes(2), lanes(3));
                // SAFETY: the caller's promise.
                unsafe {
                    let to = self.sums.add(row * self.stride + first + 4 * index);
                    match outputs.len() {
                        1 => *to = _mm_cvtss_f32(sums),
                        2 => _mm_storel_epi64(to.cast(), _mm_castps_si128(sums)),
                        _ => _mm_storeu_ps(to, sums),
                    }
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
        for block in 0..self.columns / BLOCK {
            // SAFETY: the block is inside the rows.
            unsafe {
                let x = self.x.add(block * BLOCK);
                if R == 1 {
                    self.add_outputs::<S, O, R>(source, first, block, x, &mut sums);
                } else {
                    self.add_rows::<S, O, R>(source, first, block, x, &mut sums);
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
    /// As for `run_shape`; the block is inside the rows and `x` is the first row's.
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
        x: *const i16,
        sums: &mut [[__m512; R]; O],
    ) {
        for output in 0..O {
            // SAFETY: the caller's promise.
            unsafe {
                let line = source.line(first + output, block);
                let sum = _mm512_dpbf16_ps(sums[output][0], S::weights::<0>(line), load(x));
                let sum = _mm512_dpbf16_ps(sum, S::weights::<1>(line), load(x.add(CHUNK)));
                let sum = _mm512_dpbf16_ps(sum, S::weights::<2>(line), load(x.add(2 * CHUNK)));
                sums[output][0] = _mm512_dpbf16_ps(sum, S::weights::<3>(line), load(x.add(3 * CHUNK)));
            }
        }
    }

    /// Adds the products of a block, chunk after chunk.
    ///
    /// # Safety
    /// As for `add_outputs`.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
    #[inline]
    #[expect(
        clippy::needless_range_loop,
        reason = "index loops are unrolled, which keeps the lines in registers"
    )]
    unsafe fn add_rows<S: Source, const O: usize, const R: usize>(
        self,
        source: S,
        first: usize,
        block: usize,
        x: *const i16,
        sums: &mut [[__m512; R]; O],
    ) {
        // SAFETY: the caller's promise.
        unsafe {
            let mut lines = [source.line(first, block); O];
            for output in 1..O {
                lines[output] = source.line(first + output, block);
            }
            self.add_chunk::<S, O, R, 0>(&lines, x, sums);
            self.add_chunk::<S, O, R, 1>(&lines, x.add(CHUNK), sums);
            self.add_chunk::<S, O, R, 2>(&lines, x.add(2 * CHUNK), sums);
            self.add_chunk::<S, O, R, 3>(&lines, x.add(3 * CHUNK), sums);
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

/// # Safety
/// `out` is a row of the source; the processor has the features.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
unsafe fn dequantize<S: Source>(source: S, row: usize, out: &mut [bf16]) {
    let (blocks, rest) = out.as_chunks_mut::<BLOCK>();
    let done = blocks.len() * 4;
    for (block, out) in blocks.iter_mut().enumerate() {
        // SAFETY: the block is inside the row.
        let weights = unsafe {
            let line = source.line(row, block);
            [S::weights::<0>(line), S::weights::<1>(line), S::weights::<2>(line), S::weights::<3>(line)]
        };
        for (weights, out) in weights.into_iter().zip(out.as_chunks_mut::<CHUNK>().0) {
            // SAFETY: a chunk is 64 bytes.
            unsafe { _mm512_storeu_si512(out.as_mut_ptr().cast(), as_integers(weights)) }
        }
    }
    for (chunk, out) in rest.as_chunks_mut::<CHUNK>().0.iter_mut().enumerate() {
        // SAFETY: as above.
        unsafe {
            let weights = source.chunk(row, done + chunk, u32::MAX);
            _mm512_storeu_si512(out.as_mut_ptr().cast(), as_integers(weights));
        }
    }
}

/// # Safety
/// 32 values follow.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
#[inline]
unsafe fn load(values: *const i16) -> __m512bh {
    // SAFETY: the caller's promise.
    as_bf16(unsafe { _mm512_loadu_si512(values.cast()) })
}

/// # Safety
/// The values that `mask` names follow.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
#[inline]
unsafe fn load_masked(values: *const i16, mask: __mmask32) -> __m512bh {
    // SAFETY: the caller's promise.
    as_bf16(unsafe { _mm512_maskz_loadu_epi16(mask, values) })
}

/// The value in all lanes.
///
/// An instruction of its own: folded into the product, as compilers do with a broadcast from memory, it makes the
/// product three times slower on Zen 4.
///
/// # Safety
/// A value is there.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
#[inline]
unsafe fn broadcast(value: *const u32) -> __m512i {
    let lanes;
    // SAFETY: the caller's promise; it only reads.
    unsafe {
        std::arch::asm!(
            "vpbroadcastd {lanes}, dword ptr [{value}]",
            lanes = out(zmm_reg) lanes,
            value = in(reg) value,
            options(pure, readonly, nostack, preserves_flags)
        );
    }
    lanes
}

/// The table's entries at the low five bits of each 16-bit word.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
#[inline]
fn look_up(codes: __m512i, table: __m512i) -> __m512bh {
    as_bf16(_mm512_permutexvar_epi16(codes, table))
}

/// In each lane the lane's number (low half) and 1 (high half) in bf16.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
#[inline]
fn codes_and_ones() -> __m512bh {
    let codes = _mm512_setr_ps(0., 1., 2., 3., 4., 5., 6., 7., 8., 9., 10., 11., 12., 13., 14., 15.);
    let ones = _mm512_set1_epi32(0x3f80_0000);
    as_bf16(_mm512_or_si512(_mm512_srli_epi32::<16>(_mm512_castps_si512(codes)), ones))
}

/// Adds the 16 lanes of each of four sums: lane `i` and `i + 8`, then `i + 4`, `i + 2`, `i + 1`, as
/// `math::sum_lanes` does.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
#[inline]
fn sum_four(a: __m512, b: __m512, c: __m512, d: __m512) -> __m128 {
    let eights = |a, b| {
        _mm512_add_ps(
            _mm512_shuffle_f32x4::<0b01_00_01_00>(a, b),
            _mm512_shuffle_f32x4::<0b11_10_11_10>(a, b),
        )
    };
    let (ab, cd) = (eights(a, b), eights(c, d));
    let fours = _mm512_add_ps(
        _mm512_shuffle_f32x4::<0b10_00_10_00>(ab, cd),
        _mm512_shuffle_f32x4::<0b11_01_11_01>(ab, cd),
    );
    let twos = _mm512_add_ps(fours, _mm512_permute_ps::<0b01_00_11_10>(fours));
    let ones = _mm512_add_ps(twos, _mm512_permute_ps::<0b10_11_00_01>(twos));
    let places = _mm512_setr_epi32(0, 4, 8, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
    _mm512_castps512_ps128(_mm512_permutexvar_ps(places, ones))
}

#[inline(always)]
fn as_bf16(bits: __m512i) -> __m512bh {
    // SAFETY: both are 512 bits, and every pattern is a value of both.
    unsafe { std::mem::transmute::<__m512i, __m512bh>(bits) }
}

#[inline(always)]
fn as_integers(values: __m512bh) -> __m512i {
    // SAFETY: both are 512 bits, and every pattern is a value of both.
    unsafe { std::mem::transmute::<__m512bh, __m512i>(values) }
}
