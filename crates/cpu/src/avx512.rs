//! The mode `avx512`: bf16 products in 512-bit registers, with 4-bit codes looked up in a table a group.
//!
//! Lane `i` of a sum takes columns `2 i` and `2 i + 1` of each chunk of 32, chunk after chunk, and the 16 lanes are
//! added as a tree. Tiles hold several outputs and rows in registers at once, which changes no order.
//! The product instruction takes denormal numbers for zero and rounds to nearest even.

use std::arch::x86_64::*;
use std::cell::RefCell;
use std::ops::Range;

use forerunner_tensor::bf16;

use crate::arithmetic::Arithmetic;
use crate::memory::Scratch;
use crate::weights::{BLOCK, CHUNK, View, row_words};

/// Most rows of a tile: 4 outputs by 6 rows are 24 of the 32 registers.
const TILE_ROWS: usize = 6;
/// With more rows than this a tile's weights are dequantized to memory once instead of in registers for each
/// tile of rows.
const FUSED_ROWS: usize = 6;

/// Needs AVX-512 F, BW, VL and BF16: [`crate::Mode::Avx512`] is only chosen where the processor has them.
pub(crate) struct Avx512;

thread_local! {
    static DEQUANTIZED: RefCell<Scratch<bf16>> = const { RefCell::new(Scratch::new()) };
}

impl Arithmetic for Avx512 {
    #[inline(always)]
    fn vectorize<R>(work: impl FnOnce() -> R) -> R {
        // SAFETY: the mode is only chosen where the processor has these features.
        unsafe { with_features(work) }
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
fn with_features<R>(work: impl FnOnce() -> R) -> R {
    work()
}

/// Where a row of weights comes from.
trait Source: Copy {
    /// Weights of columns `128 block..128 (block + 1)`.
    ///
    /// # Safety
    /// The row and the block are inside the matrix; the processor has the mode's features.
    unsafe fn block(self, output: usize, block: usize) -> [__m512bh; 4];

    /// Weights of columns `32 chunk..32 (chunk + 1)` where `mask` is set, zeros elsewhere.
    ///
    /// # Safety
    /// As for `block`, for the columns that `mask` names.
    unsafe fn chunk(self, output: usize, chunk: usize, mask: __mmask32) -> __m512bh;
}

#[derive(Clone, Copy)]
struct Dense {
    values: *const i16,
    columns: usize,
}

impl Source for Dense {
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
    #[inline]
    unsafe fn block(self, output: usize, block: usize) -> [__m512bh; 4] {
        // SAFETY: the caller's promise.
        unsafe {
            let start = self.values.add(output * self.columns + block * BLOCK);
            [load(start), load(start.add(CHUNK)), load(start.add(2 * CHUNK)), load(start.add(3 * CHUNK))]
        }
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

impl<const SPAN: usize> Codes4<SPAN> {
    /// The weights of a group's 16 codes, twice: an index's fifth bit belongs to the next code.
    ///
    /// Scale times code and one times bias are exact, so their sum is the fused multiply-add of
    /// `affine_value`.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
    #[inline]
    unsafe fn table(self, output: usize, group: usize) -> __m512i {
        // SAFETY: the caller's promise: the group is inside the row.
        let pair = unsafe { *self.pairs.add(output * self.groups + group) };
        let pairs = as_bf16(_mm512_set1_epi32(pair.cast_signed()));
        let values = _mm512_dpbf16_ps(_mm512_setzero_ps(), pairs, codes_and_ones());
        as_integers(_mm512_cvtne2ps_pbh(values, values))
    }
}

impl<const SPAN: usize> Source for Codes4<SPAN> {
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
    #[inline]
    unsafe fn block(self, output: usize, block: usize) -> [__m512bh; 4] {
        // SAFETY: the caller's promise.
        unsafe {
            let line = _mm512_loadu_si512(self.codes.add(output * self.words + block * 16).cast());
            let mut tables = [_mm512_setzero_si512(); 4];
            for chunk in (0..4).step_by(SPAN) {
                tables[chunk] = self.table(output, block * (4 / SPAN) + chunk / SPAN);
            }
            let table = |chunk: usize| tables[chunk / SPAN * SPAN];
            [
                look_up(line, table(0)),
                look_up(_mm512_srli_epi16::<4>(line), table(1)),
                look_up(_mm512_srli_epi16::<8>(line), table(2)),
                look_up(_mm512_srli_epi16::<12>(line), table(3)),
            ]
        }
    }

    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
    #[inline]
    unsafe fn chunk(self, output: usize, chunk: usize, _: __mmask32) -> __m512bh {
        // SAFETY: the caller's promise; affine rows have whole chunks and whole lines.
        unsafe {
            let line = _mm512_loadu_si512(self.codes.add(output * self.words + chunk / 4 * 16).cast());
            let shift = _mm_cvtsi32_si128((chunk % 4 * 4) as i32);
            look_up(_mm512_srl_epi16(line, shift), self.table(output, chunk / SPAN))
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
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
    #[inline]
    unsafe fn block(self, output: usize, block: usize) -> [__m512bh; 4] {
        // SAFETY: the caller's promise.
        unsafe { [0, 1, 2, 3].map(|chunk| self.chunk(output, block * 4 + chunk, u32::MAX)) }
    }

    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
    #[inline]
    unsafe fn chunk(self, output: usize, chunk: usize, _: __mmask32) -> __m512bh {
        // SAFETY: the caller's promise; affine rows have whole chunks.
        unsafe {
            let pair = *self.pairs.add(output * self.groups + chunk * CHUNK / self.group);
            let scale = _mm512_set1_ps(f32::from_bits(pair << 16));
            let bias = _mm512_set1_ps(f32::from_bits(pair & 0xffff_0000));
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
        if self.rows <= FUSED_ROWS {
            // SAFETY: the caller's promise.
            return unsafe { self.run(source, outputs) };
        }
        DEQUANTIZED.with_borrow_mut(|scratch| {
            let values = scratch.take(outputs.len() * self.columns);
            let dense = Dense { values: values.as_ptr().cast(), columns: self.columns };
            // SAFETY: the scratch holds the outputs' rows from 0 on; otherwise the caller's promise.
            unsafe {
                for (row, out) in outputs.clone().zip(values.chunks_exact_mut(self.columns)) {
                    dequantize(source, row, out);
                }
                self.run(dense, 0..outputs.len());
            }
        });
    }

    /// # Safety
    /// As for `run_affine`.
    unsafe fn run<S: Source>(self, source: S, outputs: Range<usize>) {
        let mut row = 0;
        while row < self.rows {
            let tiles = (self.rows - row).div_ceil(TILE_ROWS);
            let rows = (self.rows - row).div_ceil(tiles);
            // SAFETY: rows `row..row + rows` are inside `x` and `sums`.
            unsafe {
                let x = self.x.add(row * self.columns);
                let part = Task { x, rows, sums: self.sums.add(row * self.stride), ..self };
                match rows {
                    1 => part.run_rows::<S, 1>(source, outputs.clone()),
                    2 => part.run_rows::<S, 2>(source, outputs.clone()),
                    3 => part.run_rows::<S, 3>(source, outputs.clone()),
                    4 => part.run_rows::<S, 4>(source, outputs.clone()),
                    5 => part.run_rows::<S, 5>(source, outputs.clone()),
                    _ => part.run_rows::<S, TILE_ROWS>(source, outputs.clone()),
                }
            }
            row += rows;
        }
    }

    /// # Safety
    /// As for `run_affine`, with `R` rows.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
    unsafe fn run_rows<S: Source, const R: usize>(self, source: S, outputs: Range<usize>) {
        let fours = outputs.start + outputs.len() / 4 * 4;
        // SAFETY: the caller's promise; output `first` of the range has its sums at `first` of each row.
        unsafe {
            for first in (outputs.start..fours).step_by(4) {
                let sums = self.sums.add(first - outputs.start);
                let [a, b, c, d] = self.tile::<S, 4, R>(source, first);
                for row in 0..R {
                    let four = sum_four(a[row], b[row], c[row], d[row]);
                    _mm_storeu_ps(sums.add(row * self.stride), four);
                }
            }
            for first in fours..outputs.end {
                let sums = self.sums.add(first - outputs.start);
                let [lanes] = self.tile::<S, 1, R>(source, first);
                for (row, a) in lanes.into_iter().enumerate() {
                    *sums.add(row * self.stride) = _mm_cvtss_f32(sum_four(a, a, a, a));
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
            for (output, sums) in sums.iter_mut().enumerate() {
                // SAFETY: the block is inside the row.
                let weights = unsafe { source.block(first + output, block) };
                for (chunk, weights) in weights.into_iter().enumerate() {
                    let column = block * BLOCK + chunk * CHUNK;
                    for (row, sum) in sums.iter_mut().enumerate() {
                        // SAFETY: the chunk is inside row `row` of `x`.
                        let x = unsafe { load(self.x.add(row * self.columns + column)) };
                        *sum = _mm512_dpbf16_ps(*sum, weights, x);
                    }
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
}

/// # Safety
/// `out` is a row of the source; the processor has the features.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
unsafe fn dequantize<S: Source>(source: S, row: usize, out: &mut [bf16]) {
    let (blocks, rest) = out.as_chunks_mut::<BLOCK>();
    let done = blocks.len() * 4;
    for (block, out) in blocks.iter_mut().enumerate() {
        // SAFETY: the block is inside the row.
        let weights = unsafe { source.block(row, block) };
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
