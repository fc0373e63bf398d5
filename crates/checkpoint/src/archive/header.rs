//! The header of one safetensors file, read without trusting a byte of it.

use std::path::Path;

use safetensors::tensor::TensorInfo;
use serde_json::{Map, Value};

use crate::CheckpointError;

/// Bytes of the length that opens a file.
const LENGTH_BYTES: usize = 8;

/// Longest header accepted, as in the safetensors format's own reader: a longer one is garbage.
const HEADER_BYTES_MAX: u64 = 100_000_000;

/// A tensor in a file: its bytes are `start..end` of the whole file, and as many as its shape and type ask for.
pub(crate) struct HeaderEntry {
    /// Its name.
    pub(crate) name: String,
    /// Type and shape.
    pub(crate) info: TensorInfo,
    /// First byte.
    pub(crate) start: usize,
    /// One past its last byte.
    pub(crate) end: usize,
}

/// The tensors of the safetensors file `bytes`, which lie side by side, without holes, from the header to the
/// end of the file.
pub(crate) fn read_header(path: &Path, bytes: &[u8]) -> Result<Vec<HeaderEntry>, CheckpointError> {
    let (header, data_start) = split_header(path, bytes)?;
    let mut map: Map<String, Value> =
        serde_json::from_slice(header).map_err(|error| invalid(path, format!("{error}")))?;
    map.remove("__metadata__");
    let mut entries = map
        .into_iter()
        .map(|(name, value)| read_entry(path, name, value, data_start))
        .collect::<Result<Vec<_>, _>>()?;
    entries.sort_by_key(|entry| (entry.start, entry.end));
    check_layout(path, &entries, data_start, bytes.len())?;
    Ok(entries)
}

/// The header's text and the offset of the first byte after it.
fn split_header<'a>(path: &Path, bytes: &'a [u8]) -> Result<(&'a [u8], usize), CheckpointError> {
    let truncated =
        |expected| CheckpointError::Truncated { path: path.into(), found: bytes.len() as u64, expected };
    let Some((length, rest)) = bytes.split_first_chunk::<LENGTH_BYTES>() else {
        return Err(truncated(LENGTH_BYTES as u64));
    };
    let length = u64::from_le_bytes(*length);
    if length > HEADER_BYTES_MAX {
        let problem = format!("found a length of {length} bytes; accepted: at most {HEADER_BYTES_MAX} bytes");
        return Err(invalid(path, problem));
    }
    let header = rest.get(..length as usize).ok_or_else(|| truncated(length + LENGTH_BYTES as u64))?;
    Ok((header, header.len() + LENGTH_BYTES))
}

fn read_entry(
    path: &Path,
    name: String,
    value: Value,
    data_start: usize,
) -> Result<HeaderEntry, CheckpointError> {
    let info: TensorInfo =
        serde_json::from_value(value).map_err(|error| invalid(path, format!("tensor `{name}`: {error}")))?;
    let (from, to) = info.data_offsets;
    let elements = info.shape.iter().try_fold(1usize, |product, size| product.checked_mul(*size));
    let bits = elements.and_then(|elements| elements.checked_mul(info.dtype.bitsize()));
    let span = to.checked_sub(from);
    if bits.is_none() || bits != span.and_then(|span| span.checked_mul(8)) {
        let problem = format!(
            "tensor `{name}` of type {:?} and shape {:?} has offsets {from}..{to}; \
             accepted: as many bytes as its type and shape ask for",
            info.dtype, info.shape
        );
        return Err(invalid(path, problem));
    }
    match (data_start.checked_add(from), data_start.checked_add(to)) {
        (Some(start), Some(end)) => Ok(HeaderEntry { name, info, start, end }),
        _ => {
            Err(invalid(path, format!("tensor `{name}` has offsets {from}..{to}; accepted: within the file")))
        }
    }
}

/// `entries`, in the order of their bytes, touch each other and the file's end.
fn check_layout(
    path: &Path,
    entries: &[HeaderEntry],
    data_start: usize,
    length: usize,
) -> Result<(), CheckpointError> {
    let mut expected = data_start;
    for entry in entries {
        if entry.start != expected {
            let problem = format!(
                "tensor `{}` starts at byte {}; accepted: {expected}, where the tensor before it ends",
                entry.name, entry.start
            );
            return Err(invalid(path, problem));
        }
        expected = entry.end;
    }
    if expected > length {
        return Err(CheckpointError::Truncated {
            path: path.into(),
            found: length as u64,
            expected: expected as u64,
        });
    }
    if expected < length {
        let problem = format!("its tensors end at byte {expected} of {length}; accepted: tensors to the end");
        return Err(invalid(path, problem));
    }
    Ok(())
}

fn invalid(path: &Path, problem: String) -> CheckpointError {
    CheckpointError::InvalidHeader { path: path.into(), problem }
}
