//! Seeded inputs: rows that are a function of lane and position alone, and weights in every stored format.

use std::fmt;

use forerunner_tensor::{AffineValues, HostMatrix, MatrixValues, Scales, bf16, f16};

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
    fn values(self, rows: usize, columns: usize, scale: f32, random: &mut Random) -> MatrixValues<'static> {
        let len = rows * columns;
        match self {
            Format::Bf16 => MatrixValues::Bf16(random.bf16s(len, scale).into()),
            Format::F16 => {
                MatrixValues::F16(random.floats(len, scale).into_iter().map(f16::from_f32).collect())
            }
            Format::F32 => MatrixValues::F32(random.floats(len, scale).into()),
            Format::Affine(bits, group_size) => {
                let to_bf16 =
                    |values: Vec<f32>| Scales::Bf16(values.into_iter().map(bf16::from_f32).collect());
                MatrixValues::Affine(affine(len, bits, group_size, scale, random, to_bf16))
            }
            Format::AffineF16(bits, group_size) => {
                let to_f16 = |values: Vec<f32>| Scales::F16(values.into_iter().map(f16::from_f32).collect());
                MatrixValues::Affine(affine(len, bits, group_size, scale, random, to_f16))
            }
        }
    }
}

/// Codes over their whole range, with groups that differ in scale and sign.
fn affine(
    len: usize,
    bits: u32,
    group_size: usize,
    scale: f32,
    random: &mut Random,
    store: impl Fn(Vec<f32>) -> Scales<'static>,
) -> AffineValues<'static> {
    let groups = len / group_size;
    let step = 2.0 * scale / ((1u32 << bits) - 1) as f32;
    let scales: Vec<f32> = (0..groups)
        .map(|_| step * (0.75 + 0.25 * random.float()) * if random.below(2) == 0 { 1.0 } else { -1.0 })
        .collect();
    let biases = scales.iter().map(|group| -group.signum() * scale * 0.75).collect();
    AffineValues {
        bits,
        group_size,
        words: (0..len * bits as usize / 32).map(|_| random.word() as u32).collect(),
        scales: store(scales),
        biases: store(biases),
    }
}
