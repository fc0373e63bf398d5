//! Finds the tensor of each role, checks its shape, type and scales, and at the end names what is left over.

use std::collections::BTreeSet;
use std::path::Path;

use safetensors::Dtype;

use crate::archive::{Archive, Entry, TensorSlice};
use crate::config::QuantizationConfig;
use crate::error::CheckpointError;
use crate::slots::{MatrixSlot, Storage};

/// Types of an unquantized tensor.
const DENSE_TYPES: &str = "BF16, F16 or F32";

/// The claims on an archive's tensors. Names are canonical: without `model.` and `language_model.`.
pub(crate) struct Inventory<'a> {
    archive: &'a Archive,
    quantization: Option<&'a QuantizationConfig>,
    /// What messages put before a canonical name that no file has.
    prefix: &'static str,
    claimed: BTreeSet<String>,
}

impl<'a> Inventory<'a> {
    /// Nothing claimed yet.
    pub(crate) fn new(
        archive: &'a Archive,
        quantization: Option<&'a QuantizationConfig>,
        prefix: &'static str,
    ) -> Self {
        Inventory { archive, quantization, prefix, claimed: BTreeSet::new() }
    }

    /// The first of `names` that exists, and which one it is; left unclaimed.
    pub(crate) fn find(&self, names: &[String]) -> Result<(usize, &'a Entry), CheckpointError> {
        let found = names.iter().enumerate().find_map(|(i, name)| Some((i, self.archive.get(name)?)));
        found.ok_or_else(|| {
            let shown: Vec<String> = names.iter().map(|name| format!("{}{name}", self.prefix)).collect();
            CheckpointError::MissingTensor {
                path: self.archive.directory().into(),
                tensor: shown.first().cloned().unwrap_or_default(),
                accepted: shown.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(" or "),
            }
        })
    }

    /// The vector called by one of `names`, in one of `shapes`, all finite.
    pub(crate) fn vector(
        &mut self,
        names: &[String],
        shapes: &[&[usize]],
    ) -> Result<TensorSlice, CheckpointError> {
        let entry = self.claim(names)?;
        if !is_dense(entry.slice.data_type) {
            return Err(self.wrong_type(entry, DENSE_TYPES.into()));
        }
        if !shapes.contains(&entry.shape.as_slice()) {
            let accepted = shapes.iter().map(|shape| format!("{shape:?}")).collect::<Vec<_>>();
            return Err(self.misshapen(entry, accepted.join(" or ")));
        }
        self.check_finite(entry)?;
        Ok(entry.slice.clone())
    }

    /// The matrix `[rows, columns]` whose path (its name without `.weight`) is one of `paths`.
    pub(crate) fn matrix(
        &mut self,
        paths: &[String],
        rows: usize,
        columns: usize,
    ) -> Result<MatrixSlot, CheckpointError> {
        let names: Vec<String> = paths.iter().map(|path| format!("{path}.weight")).collect();
        let (index, entry) = self.find(&names)?;
        self.matrix_at(entry, &names[index], &paths[index], &[rows, columns])
    }

    /// The tensor `path` + `suffix`, of `shape` `[stacked, rows, columns]`, as a matrix
    /// `[stacked * rows, columns]`.
    pub(crate) fn stack(
        &mut self,
        path: &str,
        suffix: &str,
        shape: [usize; 3],
    ) -> Result<MatrixSlot, CheckpointError> {
        let names = [format!("{path}{suffix}")];
        let (_, entry) = self.find(&names)?;
        self.matrix_at(entry, &names[0], path, &shape)
    }

    /// Refuses the tensors nobody claimed, save those that `ignorable` knows by canonical name.
    pub(crate) fn finish(self, ignorable: fn(&str) -> bool) -> Result<(), CheckpointError> {
        let tensors: Vec<String> = self
            .archive
            .entries()
            .filter(|(name, _)| !self.claimed.contains(*name) && !ignorable(name))
            .map(|(_, entry)| entry.name.clone())
            .collect();
        if tensors.is_empty() {
            return Ok(());
        }
        Err(CheckpointError::ExtraTensors { path: self.archive.directory().into(), tensors })
    }

    fn matrix_at(
        &mut self,
        entry: &'a Entry,
        name: &str,
        path: &str,
        shape: &[usize],
    ) -> Result<MatrixSlot, CheckpointError> {
        self.mark(name);
        let (columns, lead) = shape.split_last().expect("a matrix has a last dimension");
        let storage = match entry.slice.data_type {
            Dtype::U32 => self.affine(entry, path, lead, *columns)?,
            data_type if is_dense(data_type) => {
                self.check_shape(entry, shape, "")?;
                Storage::Dense(entry.slice.clone())
            }
            _ => return Err(self.wrong_type(entry, format!("{DENSE_TYPES}, or U32 when quantized"))),
        };
        // The file holds this many rows, so their product cannot overflow.
        Ok(MatrixSlot { rows: lead.iter().product(), columns: *columns, storage })
    }

    /// Codes at `entry` with the scales and biases beside them.
    fn affine(
        &mut self,
        entry: &'a Entry,
        path: &str,
        lead: &[usize],
        columns: usize,
    ) -> Result<Storage, CheckpointError> {
        let Some((bits, group_size)) = self.quantization.and_then(|config| config.of(path)) else {
            let accepted = format!("{DENSE_TYPES}, since config.json has no quantization for it");
            return Err(self.wrong_type(entry, accepted));
        };
        if !columns.is_multiple_of(group_size) {
            return Err(CheckpointError::InvalidField {
                path: self.archive.directory().join("config.json"),
                field: "quantization".into(),
                found: format!("groups of {group_size} for `{}`", entry.name),
                accepted: format!("a group size that divides its {columns} columns"),
            });
        }
        let with_last = |last| lead.iter().copied().chain([last]).collect::<Vec<_>>();
        let note = format!(" ({bits}-bit codes in groups of {group_size}, as config.json says)");
        self.check_shape(entry, &with_last(columns * bits as usize / 32), &note)?;
        let groups = with_last(columns / group_size);
        let scales = self.group_values(&format!("{path}.scales"), &groups, &note, None)?;
        let biases = self.group_values(&format!("{path}.biases"), &groups, &note, Some(scales.data_type))?;
        Ok(Storage::Affine { bits, group_size, words: entry.slice.clone(), scales, biases })
    }

    /// Scales, or the biases that go with scales of type `twin`.
    fn group_values(
        &mut self,
        name: &str,
        shape: &[usize],
        note: &str,
        twin: Option<Dtype>,
    ) -> Result<TensorSlice, CheckpointError> {
        let entry = self.claim(&[name.to_owned()])?;
        let found = entry.slice.data_type;
        if !matches!(found, Dtype::BF16 | Dtype::F16) {
            return Err(self.wrong_type(entry, "BF16 or F16".into()));
        }
        if let Some(twin) = twin.filter(|twin| *twin != found) {
            return Err(self.wrong_type(entry, format!("{twin:?}, the type of its scales")));
        }
        self.check_shape(entry, shape, note)?;
        self.check_finite(entry)?;
        Ok(entry.slice.clone())
    }

    fn claim(&mut self, names: &[String]) -> Result<&'a Entry, CheckpointError> {
        let (index, entry) = self.find(names)?;
        self.mark(&names[index]);
        Ok(entry)
    }

    fn mark(&mut self, name: &str) {
        self.claimed.insert(name.to_owned());
    }

    fn check_shape(&self, entry: &Entry, shape: &[usize], note: &str) -> Result<(), CheckpointError> {
        if entry.shape == shape {
            return Ok(());
        }
        Err(self.misshapen(entry, format!("{shape:?}{note}")))
    }

    fn check_finite(&self, entry: &Entry) -> Result<(), CheckpointError> {
        // What is made is made by a program, and making all scales of a large model takes a while.
        if self.archive.is_made(&entry.slice) {
            return Ok(());
        }
        let bytes = self.archive.bytes(&entry.slice);
        match first_not_finite(entry.slice.data_type, &bytes) {
            None => Ok(()),
            Some((index, found)) => Err(CheckpointError::NotFinite {
                path: self.path_of(entry).into(),
                tensor: entry.name.clone(),
                index,
                found,
            }),
        }
    }

    /// `entry` does not have the shape it should.
    pub(crate) fn misshapen(&self, entry: &Entry, accepted: String) -> CheckpointError {
        CheckpointError::Misshapen {
            path: self.path_of(entry).into(),
            tensor: entry.name.clone(),
            found: entry.shape.clone(),
            accepted,
        }
    }

    fn wrong_type(&self, entry: &Entry, accepted: String) -> CheckpointError {
        CheckpointError::WrongDataType {
            path: self.path_of(entry).into(),
            tensor: entry.name.clone(),
            found: format!("{:?}", entry.slice.data_type),
            accepted,
        }
    }

    fn path_of(&self, entry: &Entry) -> &'a Path {
        self.archive.path_of(&entry.slice)
    }
}

fn is_dense(data_type: Dtype) -> bool {
    matches!(data_type, Dtype::BF16 | Dtype::F16 | Dtype::F32)
}

/// The first NaN or infinity among floats of `data_type`.
fn first_not_finite(data_type: Dtype, bytes: &[u8]) -> Option<(usize, f32)> {
    use forerunner_tensor::{bf16, f16};
    let narrow = |exponent: u16, value: fn(u16) -> f32| {
        let bits = |pair: &[u8]| u16::from_le_bytes([pair[0], pair[1]]);
        let mut pairs = bytes.chunks_exact(2);
        let index = pairs.position(|pair| bits(pair) & exponent == exponent)?;
        Some((index, value(bits(&bytes[2 * index..]))))
    };
    match data_type {
        Dtype::BF16 => narrow(0x7f80, |bits| bf16::from_bits(bits).to_f32()),
        Dtype::F16 => narrow(0x7c00, |bits| f16::from_bits(bits).to_f32()),
        _ => bytes
            .chunks_exact(4)
            .map(|word| f32::from_le_bytes([word[0], word[1], word[2], word[3]]))
            .enumerate()
            .find(|(_, value)| !value.is_finite()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forerunner_tensor::{bf16, f16};

    #[test]
    fn the_first_value_that_is_not_finite_is_found_in_every_type() {
        let values = [1.0, -0.0, f32::MAX, f32::NEG_INFINITY, f32::NAN];
        let singles: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        assert_eq!(first_not_finite(Dtype::F32, &singles), Some((3, f32::NEG_INFINITY)));
        assert_eq!(first_not_finite(Dtype::F32, &singles[..12]), None);
        let brains: Vec<u8> = [bf16::MAX, bf16::MIN_POSITIVE, bf16::INFINITY].map(bf16::to_le_bytes).concat();
        assert_eq!(first_not_finite(Dtype::BF16, &brains), Some((2, f32::INFINITY)));
        assert_eq!(first_not_finite(Dtype::BF16, &brains[..4]), None);
        let halves: Vec<u8> = [f16::MAX, f16::MIN, f16::INFINITY].map(f16::to_le_bytes).concat();
        assert_eq!(first_not_finite(Dtype::F16, &halves), Some((2, f32::INFINITY)));
        assert_eq!(first_not_finite(Dtype::F16, &halves[..4]), None);
    }
}
