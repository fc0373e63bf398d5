//! Where the weights of a tile come from: dense rows, or codes unpacked in registers.

use std::arch::x86_64::*;

use forerunner_tensor::bf16;

use super::{DENSE_ROWS, TILE_ROWS};
use crate::weights::{BLOCK, CHUNK};

/// Bytes of a cache line.
const LINE: usize = 64;
/// Bytes between what is multiplied and what is asked for.
const AHEAD: usize = 8192;

/// Where weights come from.
pub(crate) trait Source: Copy {
    /// What 128 columns of an output are unpacked from.
    type Line: Copy;

    /// Outputs in a tile of 4 to 6 rows, by the registers that lines take.
    const OUTPUTS: usize;

    /// Most rows of a tile. Codes with more rows are dequantized to memory first.
    const ROWS: usize;

    /// Most rows of a tile that needs [`Source::fetch`]: with more, dense weights are read slowly enough without.
    const FETCHED_ROWS: usize;

    /// Lines between what is multiplied and what is asked for.
    const LINES_AHEAD: usize;

    /// Where columns `128 block..` of an output are in memory as they are multiplied, with the bytes from one
    /// output's to the next's, if they are.
    fn in_memory(self, output: usize, block: usize) -> Option<(*const i16, usize)>;

    /// Asks for the `place`-th 128 columns from the start of an output on, rows taken as one, which need not be there: in the
    /// order of memory. Tiles read several rows at once, in which processors see no order: without asking, rows of 2,048
    /// columns of 4-bit codes come from memory half as fast.
    fn fetch(self, output: usize, place: usize);

    /// Columns `128 block..128 (block + 1)` of an output.
    ///
    /// # Safety
    /// The output and the block are inside the matrix; the processor has the mode's features.
    unsafe fn line(self, output: usize, block: usize) -> Self::Line;

    /// Writes what lines of the block are unpacked with, so that it is made ahead of the products.
    ///
    /// # Safety
    /// As for `line`; `tables` has room for four vectors.
    unsafe fn stage(self, output: usize, block: usize, tables: *mut __m512i);

    /// As `line`, from what `stage` wrote.
    ///
    /// # Safety
    /// As for `line`; `tables` is what `stage` wrote for this output and block.
    unsafe fn staged_line(self, output: usize, block: usize, tables: *const __m512i) -> Self::Line;

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
pub(crate) struct Dense {
    pub(crate) values: *const i16,
    pub(crate) columns: usize,
}

impl Source for Dense {
    type Line = *const i16;
    const OUTPUTS: usize = 4;
    const ROWS: usize = DENSE_ROWS;
    const FETCHED_ROWS: usize = 1;
    const LINES_AHEAD: usize = AHEAD / (2 * BLOCK);

    fn in_memory(self, output: usize, block: usize) -> Option<(*const i16, usize)> {
        Some((self.values.wrapping_add(output * self.columns + block * BLOCK), 2 * self.columns))
    }

    #[inline(always)]
    fn fetch(self, output: usize, place: usize) {
        let start: *const i8 = self.values.wrapping_add(output * self.columns + place * BLOCK).cast();
        (0..4).for_each(|line| fetch(start.wrapping_add(line * LINE)));
    }

    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
    #[inline]
    unsafe fn line(self, output: usize, block: usize) -> *const i16 {
        // SAFETY: the caller's promise.
        unsafe { self.values.add(output * self.columns + block * BLOCK) }
    }

    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
    #[inline]
    unsafe fn stage(self, _: usize, _: usize, _: *mut __m512i) {}

    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
    #[inline]
    unsafe fn staged_line(self, output: usize, block: usize, _: *const __m512i) -> Self::Line {
        // SAFETY: the caller's promise.
        unsafe { self.line(output, block) }
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
pub(crate) struct Codes4<const SPAN: usize> {
    pub(crate) codes: *const u32,
    pub(crate) words: usize,
    pub(crate) pairs: *const u32,
    pub(crate) groups: usize,
}

/// A line of codes and the table of each chunk.
#[derive(Clone, Copy)]
pub(crate) struct Line4 {
    codes: __m512i,
    tables: [__m512i; 4],
}

impl<const SPAN: usize> Codes4<SPAN> {
    /// Groups of 128 columns.
    const PAIRS: usize = 4 / SPAN;

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
    const ROWS: usize = TILE_ROWS;
    const FETCHED_ROWS: usize = TILE_ROWS;
    const LINES_AHEAD: usize = AHEAD / LINE;

    fn in_memory(self, _: usize, _: usize) -> Option<(*const i16, usize)> {
        None
    }

    #[inline(always)]
    fn fetch(self, output: usize, place: usize) {
        let start: *const i8 = self.codes.wrapping_add(output * self.words).cast();
        fetch(start.wrapping_add(place * LINE));
        // A line of pairs is for as many lines of codes.
        let lines = LINE / (4 * Self::PAIRS);
        if place.is_multiple_of(lines) {
            let start: *const i8 = self.pairs.wrapping_add(output * self.groups).cast();
            fetch(start.wrapping_add(place / lines * LINE));
        }
    }

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
    unsafe fn stage(self, output: usize, block: usize, tables: *mut __m512i) {
        for part in 0..4 / SPAN {
            // SAFETY: the caller's promise.
            unsafe { *tables.add(part) = self.table(output, block * (4 / SPAN) + part) }
        }
    }

    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
    #[inline]
    unsafe fn staged_line(self, output: usize, block: usize, tables: *const __m512i) -> Line4 {
        // SAFETY: the caller's promise.
        unsafe {
            let codes = _mm512_loadu_si512(self.codes.add(output * self.words + block * 16).cast());
            let table = |chunk: usize| *tables.add(chunk / SPAN);
            Line4 { codes, tables: [table(0), table(1), table(2), table(3)] }
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
pub(crate) struct Codes8 {
    pub(crate) codes: *const u32,
    pub(crate) words: usize,
    pub(crate) pairs: *const u32,
    pub(crate) groups: usize,
    pub(crate) group: usize,
}

impl Source for Codes8 {
    type Line = (Codes8, usize, usize);
    const OUTPUTS: usize = 2;
    const ROWS: usize = 2;
    const FETCHED_ROWS: usize = 2;
    const LINES_AHEAD: usize = AHEAD / BLOCK;

    fn in_memory(self, _: usize, _: usize) -> Option<(*const i16, usize)> {
        None
    }

    #[inline(always)]
    fn fetch(self, output: usize, place: usize) {
        let start: *const i8 = self.codes.wrapping_add(output * self.words).cast();
        (0..2).for_each(|line| fetch(start.wrapping_add((2 * place + line) * LINE)));
    }

    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
    #[inline]
    unsafe fn line(self, output: usize, block: usize) -> Self::Line {
        (self, output, block * 4)
    }

    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
    #[inline]
    unsafe fn stage(self, _: usize, _: usize, _: *mut __m512i) {}

    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
    #[inline]
    unsafe fn staged_line(self, output: usize, block: usize, _: *const __m512i) -> Self::Line {
        // SAFETY: the caller's promise.
        unsafe { self.line(output, block) }
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

/// # Safety
/// `out` is a row of the source; the processor has the features.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
pub(crate) unsafe fn dequantize<S: Source>(source: S, row: usize, out: &mut [bf16]) {
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

/// Asks for a line, which need not be there.
#[inline(always)]
fn fetch(line: *const i8) {
    // SAFETY: what is asked for is not read.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(line) };
}

/// # Safety
/// 32 values follow.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
#[inline]
pub(crate) unsafe fn load(values: *const i16) -> __m512bh {
    // SAFETY: the caller's promise.
    as_bf16(unsafe { _mm512_loadu_si512(values.cast()) })
}

/// # Safety
/// The values that `mask` names follow.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
#[inline]
pub(crate) unsafe fn load_masked(values: *const i16, mask: __mmask32) -> __m512bh {
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

#[inline(always)]
fn as_bf16(bits: __m512i) -> __m512bh {
    // SAFETY: both are 512 bits, and every pattern is a value of both.
    unsafe { std::mem::transmute::<__m512i, __m512bh>(bits) }
}

#[inline(always)]
pub(crate) fn as_integers(values: __m512bh) -> __m512i {
    // SAFETY: both are 512 bits, and every pattern is a value of both.
    unsafe { std::mem::transmute::<__m512bh, __m512i>(values) }
}
