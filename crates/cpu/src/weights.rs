//! Weight matrices as the kernels read them: dense bf16, or affine codes in an order that unpacks with shifts.

use std::sync::OnceLock;

use forerunner_tensor::{AffineValues, DeviceError, HostMatrix, MatrixValues, Scales, bf16};

use crate::markov::row_norms;
use crate::math::{round, widen};
use crate::memory::Buffer;

/// Columns that one instruction multiplies; every affine matrix has a whole number of them.
pub(crate) const CHUNK: usize = 32;
/// Columns in one 64-byte line of 4-bit codes.
pub(crate) const BLOCK: usize = 128;
/// Words of 32 bits in one line of codes.
const LINE_WORDS: usize = 16;

/// A matrix `[outputs, inputs]`: one segment for each run of rows of one format.
pub struct Matrix {
    rows: usize,
    columns: usize,
    segments: Vec<Segment>,
    /// Made when first asked for.
    norms: OnceLock<Vec<f32>>,
}

struct Segment {
    first: usize,
    rows: usize,
    weights: Weights,
}

enum Weights {
    Dense(Buffer<bf16>),
    Affine(Affine),
}

struct Affine {
    bits: u32,
    group: usize,
    codes: Buffer<u32>,
    pairs: Buffer<u32>,
}

/// Rows of one format, borrowed.
#[derive(Clone, Copy)]
pub(crate) enum View<'a> {
    /// Row after row.
    Dense(&'a [bf16]),
    /// Codes of `bits` bits. A pair is a group's scale (low half) and bias (high half) in bf16.
    ///
    /// 8-bit codes are bytes in order. 4-bit codes stand in lines of 128 columns: nibble `n` of 16-bit word `w`
    /// is column `32 n + w`, so that a shift and a table look-up give 32 weights in their order. A row's last line
    /// may be partly unused.
    Affine { bits: u32, group: usize, codes: &'a [u32], pairs: &'a [u32] },
}

impl Matrix {
    /// Stacks the parts; formats without a kernel of their own are dequantized, which is what they mean.
    pub(crate) fn load(parts: &[HostMatrix<'_>]) -> Result<Self, DeviceError> {
        let columns = parts.first().map_or(0, |part| part.columns);
        let mut matrix = Matrix { rows: 0, columns, segments: Vec::new(), norms: OnceLock::new() };
        let mut rest = parts;
        while let Some(part) = rest.first() {
            let run = rest.iter().take_while(|other| same_format(part, other)).count();
            let (run, after) = rest.split_at(run);
            let rows = run.iter().map(|part| part.rows).sum();
            check_columns(run, columns)?;
            matrix.segments.push(Segment { first: matrix.rows, rows, weights: load_run(run, rows)? });
            matrix.rows += rows;
            rest = after;
        }
        Ok(matrix)
    }

    /// Outputs.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Inputs.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// The norm of each row, not below the exact one.
    pub(crate) fn row_norms(&self) -> &[f32] {
        self.norms.get_or_init(|| row_norms(self))
    }

    /// Calls `visit` with the view and the range within it of each segment that overlaps `outputs`, and with
    /// the offset of that range in `outputs`.
    #[inline(always)]
    pub(crate) fn visit(
        &self,
        outputs: std::ops::Range<usize>,
        mut visit: impl FnMut(View<'_>, std::ops::Range<usize>, usize),
    ) {
        for segment in &self.segments {
            let start = outputs.start.max(segment.first);
            let end = outputs.end.min(segment.first + segment.rows);
            if start < end {
                let within = start - segment.first..end - segment.first;
                visit(segment.weights.view(), within, start - outputs.start);
            }
        }
    }

    /// Writes one row as every device computes with it.
    #[inline(always)]
    pub(crate) fn read_row(&self, row: usize, out: &mut [bf16]) {
        assert!(row < self.rows, "row {row} of a matrix with {} rows", self.rows);
        self.visit(row..row + 1, |view, within, _| view.read_row(within.start, out));
    }
}

impl Weights {
    fn view(&self) -> View<'_> {
        match self {
            Weights::Dense(values) => View::Dense(values),
            Weights::Affine(Affine { bits, group, codes, pairs }) => {
                View::Affine { bits: *bits, group: *group, codes, pairs }
            }
        }
    }
}

/// How a weight is handed out: as bf16, or widened.
pub(crate) trait Weight: Copy {
    /// A stored weight.
    fn stored(value: bf16) -> Self;

    /// A value rounded to bf16.
    fn rounded(value: f32) -> Self;
}

impl Weight for bf16 {
    #[inline(always)]
    fn stored(value: bf16) -> Self {
        value
    }

    #[inline(always)]
    fn rounded(value: f32) -> Self {
        round(value)
    }
}

impl Weight for f32 {
    #[inline(always)]
    fn stored(value: bf16) -> Self {
        widen(value)
    }

    #[inline(always)]
    fn rounded(value: f32) -> Self {
        widen(round(value))
    }
}

impl View<'_> {
    /// Writes one row of `out.len()` columns.
    #[inline(always)]
    pub(crate) fn read_row<W: Weight>(&self, row: usize, out: &mut [W]) {
        let columns = out.len();
        match *self {
            View::Dense(values) => {
                for (out, value) in out.iter_mut().zip(&values[row * columns..(row + 1) * columns]) {
                    *out = W::stored(*value);
                }
            }
            View::Affine { bits, group, codes, pairs } => {
                let codes = &codes[row * row_words(bits, columns)..(row + 1) * row_words(bits, columns)];
                let pairs = &pairs[row * (columns / group)..(row + 1) * (columns / group)];
                for (chunk, out) in out.as_chunks_mut::<CHUNK>().0.iter_mut().enumerate() {
                    let pair = pairs[chunk * CHUNK / group];
                    let (scale, bias) = (f32::from_bits(pair << 16), f32::from_bits(pair & 0xffff_0000));
                    let codes = chunk_codes(bits, codes, chunk);
                    for place in 0..CHUNK {
                        out[place] = W::rounded(scale * codes[place] as f32 + bias);
                    }
                }
            }
        }
    }
}

/// 32-bit words of a row of codes.
pub(crate) fn row_words(bits: u32, columns: usize) -> usize {
    if bits == 4 { columns.div_ceil(BLOCK) * LINE_WORDS } else { columns / 4 }
}

/// The codes of 32 columns of a row. Signed, because that is what processors turn into floats.
#[inline(always)]
fn chunk_codes(bits: u32, codes: &[u32], chunk: usize) -> [i32; CHUNK] {
    let mut out = [0; CHUNK];
    if bits == 4 {
        let line: &[u16] = bytemuck::cast_slice(&codes[chunk / 4 * LINE_WORDS..][..LINE_WORDS]);
        let line: &[u16; CHUNK] = line.first_chunk().expect("a whole line");
        let shift = chunk % 4 * 4;
        for place in 0..CHUNK {
            out[place] = i32::from(line[place] >> shift & 15);
        }
    } else {
        let bytes: &[u8] = bytemuck::cast_slice(&codes[chunk * (CHUNK / 4)..][..CHUNK / 4]);
        let bytes: &[u8; CHUNK] = bytes.first_chunk().expect("a whole chunk");
        for place in 0..CHUNK {
            out[place] = i32::from(bytes[place]);
        }
    }
    out
}

// Words are read as their halves and bytes in memory order.
const _: () = assert!(cfg!(target_endian = "little"), "codes are little end first");

fn check_columns(parts: &[HostMatrix<'_>], columns: usize) -> Result<(), DeviceError> {
    match parts.iter().find(|part| part.columns != columns) {
        None => Ok(()),
        Some(part) => Err(unsupported("the width of a stacked part", part.columns, format!("{columns}"))),
    }
}

fn unsupported(what: &str, found: usize, accepted: String) -> DeviceError {
    DeviceError::Unsupported {
        device: crate::NAME.into(),
        what: what.into(),
        found: found.to_string(),
        accepted,
    }
}

/// Whether two parts can share a segment.
fn same_format(one: &HostMatrix<'_>, other: &HostMatrix<'_>) -> bool {
    match (packable(one), packable(other)) {
        (Some(one), Some(other)) => one.bits == other.bits && one.group_size == other.group_size,
        (None, None) => true,
        _ => false,
    }
}

/// The part's codes, when the kernels can read them. They want scales that are normal bf16 numbers: the fastest
/// instructions take a denormal for zero.
fn packable<'a>(part: &'a HostMatrix<'_>) -> Option<&'a AffineValues<'a>> {
    let MatrixValues::Affine(values) = &part.values else { return None };
    let normal = |scales: &Scales<'_>| match scales {
        Scales::Bf16(values) => values.iter().all(|value| *value == bf16::ZERO || value.is_normal()),
        Scales::F16(_) => false,
    };
    let known = matches!(values.bits, 4 | 8) && matches!(values.group_size, 32 | 64 | 128);
    (known && normal(&values.scales) && normal(&values.biases)).then_some(values)
}

fn load_run(parts: &[HostMatrix<'_>], rows: usize) -> Result<Weights, DeviceError> {
    let columns = parts[0].columns;
    let Some(AffineValues { bits, group_size, .. }) = packable(&parts[0]) else {
        let mut values = Buffer::zeroed(rows * columns)?;
        let mut out = values.chunks_exact_mut(columns.max(1));
        for part in parts {
            for row in 0..part.rows {
                part.read_row(row, out.next().expect("a slot a row"));
            }
        }
        return Ok(Weights::Dense(values));
    };
    let (bits, group) = (*bits, *group_size);
    if !columns.is_multiple_of(group) {
        return Err(unsupported("the width of an affine matrix", columns, format!("multiples of {group}")));
    }
    let mut codes = Buffer::zeroed(rows * row_words(bits, columns))?;
    let mut pairs = Buffer::zeroed(rows * (columns / group))?;
    let mut first = 0;
    for values in parts.iter().filter_map(packable) {
        let groups = values.scales.len();
        pack_pairs(values, &mut pairs[first * (columns / group)..][..groups]);
        let part_rows = groups / (columns / group);
        let words = row_words(bits, columns);
        pack_codes(values, columns, &mut codes[first * words..][..part_rows * words]);
        first += part_rows;
    }
    Ok(Weights::Affine(Affine { bits, group, codes, pairs }))
}

fn pack_pairs(values: &AffineValues<'_>, out: &mut [u32]) {
    for (group, out) in out.iter_mut().enumerate() {
        let half = |scales: &Scales<'_>| u32::from(bf16::from_f32(scales.get(group)).to_bits());
        *out = half(&values.biases) << 16 | half(&values.scales);
    }
}

fn pack_codes(values: &AffineValues<'_>, columns: usize, out: &mut [u32]) {
    if values.bits == 8 {
        out.copy_from_slice(&values.words);
        return;
    }
    let lines = out.chunks_exact_mut(row_words(4, columns));
    for (row, out) in values.words.chunks_exact(columns / 8).zip(lines) {
        for (line, words) in out.chunks_exact_mut(LINE_WORDS).zip(row.chunks(BLOCK / 8)) {
            for (index, word) in words.iter().enumerate() {
                for element in 0..8 {
                    let column = index * 8 + element;
                    let (nibble, place) = (column / CHUNK, column % CHUNK);
                    let shift = 16 * (place % 2) + 4 * nibble;
                    line[place / 2] |= (word >> (4 * element) & 15) << shift;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A matrix with every code in every place and scales of both signs.
    pub(crate) fn affine(rows: usize, columns: usize, bits: u32, group_size: usize) -> HostMatrix<'static> {
        let mut state = 0x9e37_79b9u32;
        let mut next = move || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            state ^ state >> 15
        };
        let words = (0..rows * columns * bits as usize / 32).map(|_| next()).collect();
        let mut scales = || -> Vec<bf16> {
            let value = |word: u32| bf16::from_f32((word % 2001) as f32 * 1e-4 - 0.1);
            (0..rows * columns / group_size).map(|_| value(next())).collect()
        };
        let (scales, biases) = (Scales::Bf16(scales().into()), Scales::Bf16(scales().into()));
        let values = MatrixValues::Affine(AffineValues { bits, group_size, words, scales, biases });
        HostMatrix { rows, columns, values }
    }

    #[test]
    fn packed_rows_read_as_the_host_reads_them() {
        for (bits, group, columns) in
            [(4, 32, 96), (4, 64, 64), (4, 64, 192), (4, 64, 256), (4, 128, 384), (8, 32, 96), (8, 64, 128)]
        {
            let host = affine(5, columns, bits, group);
            let matrix = Matrix::load(&[host.clone(), host.clone()]).unwrap();
            assert_eq!((matrix.rows(), matrix.segments.len()), (10, 1));
            let mut row = vec![bf16::ZERO; columns];
            for index in 0..10 {
                matrix.read_row(index, &mut row);
                assert_eq!(row, host.to_bf16()[index % 5 * columns..][..columns], "{bits} bits, row {index}");
            }
        }
    }

    #[test]
    fn formats_mix_and_a_denormal_scale_is_dequantized() {
        let mut odd = affine(2, 64, 4, 64);
        if let MatrixValues::Affine(values) = &mut odd.values {
            values.scales = Scales::Bf16(vec![bf16::from_bits(3); 2].into());
        }
        let matrix = Matrix::load(&[affine(3, 64, 4, 64), affine(4, 64, 8, 64), odd]).unwrap();
        assert_eq!(matrix.segments.len(), 3);
        assert!(matches!(matrix.segments[2].weights, Weights::Dense(_)));
        let mut seen = Vec::new();
        matrix.visit(2..8, |_, within, offset| seen.push((within, offset)));
        assert_eq!(seen, [(2..3, 0), (0..4, 1), (0..1, 5)]);
        assert!(Matrix::load(&[affine(1, 64, 4, 64), affine(1, 128, 4, 64)]).is_err());
    }
}
