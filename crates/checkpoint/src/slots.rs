//! Where a weight lies in the archive, checked once at open, and how it becomes a host matrix.

use forerunner_tensor::{AffineValues, HostMatrix, MatrixValues, Scales, bf16, f16};
use safetensors::Dtype;

use crate::archive::{Archive, TensorSlice};

/// A matrix `[rows, columns]` whose parts have been found, with their shapes and types.
#[derive(Debug, Clone)]
pub(crate) struct MatrixSlot {
    pub(crate) rows: usize,
    pub(crate) columns: usize,
    pub(crate) storage: Storage,
}

/// How a [`MatrixSlot`] is stored.
#[derive(Debug, Clone)]
pub(crate) enum Storage {
    /// BF16, F16 or F32.
    Dense(TensorSlice),
    /// U32 words with BF16 or F16 scales and biases.
    Affine {
        /// 4 or 8.
        bits: u32,
        /// 32, 64 or 128.
        group_size: usize,
        /// The codes.
        words: TensorSlice,
        /// One a group.
        scales: TensorSlice,
        /// One a group, of the scales' type.
        biases: TensorSlice,
    },
}

impl MatrixSlot {
    /// Rows `first_row..first_row + rows` as a matrix of their own.
    pub(crate) fn part(&self, first_row: usize, rows: usize) -> MatrixSlot {
        let cut = |slice: &TensorSlice| slice.cut(first_row, rows, self.rows);
        let storage = match &self.storage {
            Storage::Dense(slice) => Storage::Dense(cut(slice)),
            Storage::Affine { bits, group_size, words, scales, biases } => Storage::Affine {
                bits: *bits,
                group_size: *group_size,
                words: cut(words),
                scales: cut(scales),
                biases: cut(biases),
            },
        };
        MatrixSlot { rows, columns: self.columns, storage }
    }

    /// The slices it is made of.
    pub(crate) fn slices(&self) -> Vec<&TensorSlice> {
        match &self.storage {
            Storage::Dense(slice) => vec![slice],
            Storage::Affine { words, scales, biases, .. } => vec![words, scales, biases],
        }
    }

    /// The matrix: a view into the mapped file where its bytes are aligned, a copy otherwise.
    pub(crate) fn read<'a>(&self, archive: &'a Archive) -> HostMatrix<'a> {
        let values = match &self.storage {
            Storage::Dense(slice) => dense(archive, slice),
            Storage::Affine { bits, group_size, words, scales, biases } => {
                MatrixValues::Affine(AffineValues {
                    bits: *bits,
                    group_size: *group_size,
                    words: archive.elements::<u32>(words),
                    scales: group_values(archive, scales),
                    biases: group_values(archive, biases),
                })
            }
        };
        HostMatrix { rows: self.rows, columns: self.columns, values }
    }
}

/// A vector's values, whatever float type the file has.
pub(crate) fn read_vector(archive: &Archive, slice: &TensorSlice) -> Vec<f32> {
    match dense(archive, slice) {
        MatrixValues::Bf16(values) => values.iter().map(|value| value.to_f32()).collect(),
        MatrixValues::F16(values) => values.iter().map(|value| value.to_f32()).collect(),
        MatrixValues::F32(values) => values.into_owned(),
        MatrixValues::Affine(_) => unreachable!("dense values are not affine"),
    }
}

fn dense<'a>(archive: &'a Archive, slice: &TensorSlice) -> MatrixValues<'a> {
    match slice.data_type {
        Dtype::BF16 => MatrixValues::Bf16(archive.elements::<bf16>(slice)),
        Dtype::F16 => MatrixValues::F16(archive.elements::<f16>(slice)),
        Dtype::F32 => MatrixValues::F32(archive.elements::<f32>(slice)),
        other => unreachable!("a slot of type {other:?} passed the inventory"),
    }
}

fn group_values<'a>(archive: &'a Archive, slice: &TensorSlice) -> Scales<'a> {
    match slice.data_type {
        Dtype::BF16 => Scales::Bf16(archive.elements::<bf16>(slice)),
        Dtype::F16 => Scales::F16(archive.elements::<f16>(slice)),
        other => unreachable!("scales of type {other:?} passed the inventory"),
    }
}
