//! Seeded inputs: rows that are a function of lane and position alone, and weights in every stored format.

use std::fmt;

use forerunner_tensor::{AffineValues, HostMatrix, MatrixValues, Scales, bf16, f16};

use super::places::{Layout, Place};

/// A small generator of repeatable numbers.
pub(super) struct Random(u64);

impl Random {
    /// The sequence of `key`.
    pub(super) fn new(key: &[u64]) -> Self {
        let mut random = Random(0x5EED);
        for part in key {
            random.0 = random.word() ^ part;
        }
        random
    }

    /// 64 random bits: a counter with a large odd step, its bits mixed.
    pub(super) fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut word = self.0;
        word = (word ^ word >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        word = (word ^ word >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        word ^ word >> 31
    }

    /// A number in `0..end`.
    pub(super) fn below(&mut self, end: usize) -> usize {
        (self.word() % end as u64) as usize
    }

    /// A number in `[-1, 1)`.
    pub(super) fn float(&mut self) -> f32 {
        (self.word() >> 40) as f32 / 8_388_608.0 - 1.0
    }

    /// `len` numbers in `[-scale, scale)`.
    pub(super) fn floats(&mut self, len: usize, scale: f32) -> Vec<f32> {
        (0..len).map(|_| self.float() * scale).collect()
    }

    /// The same, rounded.
    pub(super) fn bf16s(&mut self, len: usize, scale: f32) -> Vec<bf16> {
        (0..len).map(|_| bf16::from_f32(self.float() * scale)).collect()
    }

    /// Brings the items into a random order.
    pub(super) fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last + 1));
        }
    }
}

/// How a part of a matrix is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    Bf16,
    F16,
    F32,
    /// Bits and group size; scales in bf16.
    Affine(u32, usize),
    /// Bits and group size; scales in fp16.
    AffineF16(u32, usize),
}

/// A matrix by its width and its parts' rows and formats.
#[derive(Debug, Clone)]
pub(super) struct MatrixShape {
    pub(super) columns: usize,
    pub(super) parts: Vec<(usize, Format)>,
}

impl MatrixShape {
    /// One part.
    pub(super) fn new(rows: usize, columns: usize, format: Format) -> Self {
        MatrixShape { columns, parts: vec![(rows, format)] }
    }

    /// Rows of all parts.
    pub(super) fn rows(&self) -> usize {
        self.parts.iter().map(|part| part.0).sum()
    }

    /// The parts; products with rows of magnitude 1 have a magnitude near 1.
    pub(super) fn host(&self, seed: u64) -> Vec<HostMatrix<'static>> {
        self.host_scaled(seed, (self.columns as f32).sqrt().recip() * 2.0)
    }

    /// The parts with weights in about `[-scale, scale]`.
    pub(super) fn host_scaled(&self, seed: u64, scale: f32) -> Vec<HostMatrix<'static>> {
        let mut random = Random::new(&[seed, self.columns as u64]);
        self.parts
            .iter()
            .map(|(rows, format)| HostMatrix {
                rows: *rows,
                columns: self.columns,
                values: format.values(*rows, self.columns, scale, &mut random),
            })
            .collect()
    }
}

impl fmt::Display for MatrixShape {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}", self.columns)?;
        for (rows, format) in &self.parts {
            write!(out, " {rows}x{format:?}")?;
        }
        Ok(())
    }
}

impl Format {
    /// The first and the last column are equal, so that [`spike`] cancels.
    fn values(self, rows: usize, columns: usize, scale: f32, random: &mut Random) -> MatrixValues<'static> {
        let mut dense = || {
            let mut values = random.floats(rows * columns, scale);
            values.chunks_exact_mut(columns).for_each(|row| row[columns - 1] = row[0]);
            values
        };
        match self {
            Format::Bf16 => MatrixValues::Bf16(dense().into_iter().map(bf16::from_f32).collect()),
            Format::F16 => MatrixValues::F16(dense().into_iter().map(f16::from_f32).collect()),
            Format::F32 => MatrixValues::F32(dense().into()),
            Format::Affine(bits, group_size) => {
                let affine = Affine::new(rows, columns, bits, group_size, scale, random);
                MatrixValues::Affine(
                    affine.stored(|values| Scales::Bf16(values.into_iter().map(bf16::from_f32).collect())),
                )
            }
            Format::AffineF16(bits, group_size) => {
                let affine = Affine::new(rows, columns, bits, group_size, scale, random);
                MatrixValues::Affine(
                    affine.stored(|values| Scales::F16(values.into_iter().map(f16::from_f32).collect())),
                )
            }
        }
    }
}

/// Affine weights before their scales and biases are rounded.
struct Affine {
    bits: u32,
    group_size: usize,
    words: Vec<u32>,
    scales: Vec<f32>,
    biases: Vec<f32>,
}

impl Affine {
    /// Codes over their whole range, in groups that differ in scale and sign. The last group of a row has
    /// the first one's scale and bias, and the last code is the first.
    fn new(
        rows: usize,
        columns: usize,
        bits: u32,
        group_size: usize,
        scale: f32,
        random: &mut Random,
    ) -> Self {
        let step = 2.0 * scale / ((1u32 << bits) - 1) as f32;
        let sign = |random: &mut Random| if random.below(2) == 0 { 1.0 } else { -1.0 };
        let mut scales: Vec<f32> = (0..rows * columns / group_size)
            .map(|_| step * (0.75 + 0.25 * random.float()) * sign(random))
            .collect();
        for row in scales.chunks_exact_mut(columns / group_size) {
            row[columns / group_size - 1] = row[0];
        }
        let words_per_row = columns * bits as usize / 32;
        let mut words: Vec<u32> = (0..rows * words_per_row).map(|_| random.word() as u32).collect();
        for row in words.chunks_exact_mut(words_per_row) {
            let first_code = row[0] & ((1 << bits) - 1);
            let others = row[words_per_row - 1] & u32::MAX >> bits;
            row[words_per_row - 1] = others | first_code << (32 - bits);
        }
        let biases = scales.iter().map(|group| -group.signum() * scale * 0.75).collect();
        Affine { bits, group_size, words, scales, biases }
    }

    fn stored(self, store: impl Fn(Vec<f32>) -> Scales<'static>) -> AffineValues<'static> {
        AffineValues {
            bits: self.bits,
            group_size: self.group_size,
            words: self.words.into(),
            scales: store(self.scales),
            biases: store(self.biases),
        }
    }
}

/// Gives every second lane's row a large first value and its negative as the last. Their products cancel,
/// but the sums between are coarse: an order of summation that changes, changes bits that bf16 keeps.
pub(super) fn spike(mut rows: Vec<bf16>, layout: &Layout) -> Vec<bf16> {
    let width = rows.len() / layout.len();
    for (row, place) in rows.chunks_exact_mut(width).zip(layout) {
        if matches!(place, Place::Row { lane, .. } if lane % 2 == 1) {
            row[0] = bf16::from_f32(256.0);
            row[width - 1] = bf16::from_f32(-256.0);
        }
    }
    rows
}
