//! A checkpoint's tensors by name: mapped files (one, or the shards that an index names), or tensors that are made.

mod header;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytemuck::Pod;
use memmap2::Mmap;
use safetensors::Dtype;
use serde_json::Value;

use crate::config::read_json;
use crate::{CheckpointError, TensorSource};

// Tensors are read in place: their bytes are little endian, and files are larger than 4 GiB.
const _: () = assert!(cfg!(target_endian = "little") && size_of::<usize>() == 8);

/// The weights, when they are in one file.
pub(crate) const SINGLE_FILE: &str = "model.safetensors";
/// Which file holds a tensor, when there are several.
pub(crate) const INDEX_FILE: &str = "model.safetensors.index.json";

/// All tensors of a checkpoint by canonical name (see [`canonical`]).
pub(crate) struct Archive {
    directory: PathBuf,
    holders: Vec<Holder>,
    entries: BTreeMap<String, Entry>,
    watcher: Option<Watcher>,
}

/// Is told of the bytes of every run of elements that is taken: how far loading is.
pub(crate) type Watcher = Box<dyn Fn(u64) + Send + Sync>;

/// What bytes are taken from.
enum Holder {
    /// A file.
    Mapped { path: PathBuf, map: Mmap },
    /// Tensor `index` of a source, made anew whenever it is read.
    Made { source: Arc<dyn TensorSource>, index: usize },
}

/// One tensor.
pub(crate) struct Entry {
    /// Its name in the file.
    pub(crate) name: String,
    /// Its shape.
    pub(crate) shape: Vec<usize>,
    /// Its bytes.
    pub(crate) slice: TensorSlice,
}

/// A run of elements in a mapped file or a made tensor. Made from a checked header, so it lies within its holder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TensorSlice {
    holder: usize,
    /// Its elements' type.
    pub(crate) data_type: Dtype,
    start: usize,
    end: usize,
}

impl TensorSlice {
    /// Its length in bytes.
    pub(crate) fn byte_count(&self) -> usize {
        self.end - self.start
    }

    /// Part `index` of `count` equal parts; both fit, since shapes are checked before slices are cut.
    pub(crate) fn cut(&self, first_part: usize, parts: usize, part_count: usize) -> TensorSlice {
        let part = self.byte_count() / part_count.max(1);
        let start = self.start + first_part * part;
        let end = start + parts * part;
        assert!(end <= self.end, "parts {first_part}+{parts} of {part_count}");
        TensorSlice { start, end, ..self.clone() }
    }
}

impl Archive {
    /// Maps the safetensors in `directory` and reads their headers; no tensor's bytes are touched.
    pub(crate) fn open(directory: &Path) -> Result<Archive, CheckpointError> {
        let mut archive = Archive::empty(directory);
        let index = directory.join(INDEX_FILE);
        if !index.exists() {
            archive.add_file(directory.join(SINGLE_FILE))?;
            return Ok(archive);
        }
        let weight_map = read_weight_map(&index)?;
        for shard in weight_map.values().collect::<BTreeSet<_>>() {
            if !directory.join(shard).exists() {
                return Err(CheckpointError::MissingShard { path: index, shard: shard.clone() });
            }
            archive.add_file(directory.join(shard))?;
        }
        archive.check_weight_map(&weight_map)?;
        Ok(archive)
    }

    /// The tensors of `source`, none of them made yet.
    pub(crate) fn from_source(source: &Arc<dyn TensorSource>) -> Result<Archive, CheckpointError> {
        let mut archive = Archive::empty(Path::new(source.name()));
        for (index, info) in source.tensors().iter().enumerate() {
            let slice = TensorSlice {
                holder: archive.holders.len(),
                data_type: info.data_type,
                start: 0,
                end: info.byte_count(),
            };
            archive.insert(Entry { name: info.name.clone(), shape: info.shape.clone(), slice })?;
            archive.holders.push(Holder::Made { source: Arc::clone(source), index });
        }
        Ok(archive)
    }

    fn empty(directory: &Path) -> Archive {
        let (holders, entries) = (Vec::new(), BTreeMap::new());
        Archive { directory: directory.into(), holders, entries, watcher: None }
    }

    /// Where it lies.
    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    /// The files, in the order they were read.
    pub(crate) fn paths(&self) -> impl Iterator<Item = &Path> {
        self.holders.iter().filter_map(|holder| match holder {
            Holder::Mapped { path, .. } => Some(path.as_path()),
            Holder::Made { .. } => None,
        })
    }

    /// The file that holds `slice`, or the name of the source that makes it.
    pub(crate) fn path_of(&self, slice: &TensorSlice) -> &Path {
        match self.holders.get(slice.holder) {
            Some(Holder::Mapped { path, .. }) => path,
            _ => &self.directory,
        }
    }

    /// Whether `slice` is made when it is read, and lies in no file.
    pub(crate) fn is_made(&self, slice: &TensorSlice) -> bool {
        matches!(self.holders[slice.holder], Holder::Made { .. })
    }

    /// From now on, `watcher` is told.
    pub(crate) fn watch(&mut self, watcher: Watcher) {
        self.watcher = Some(watcher);
    }

    /// The tensor with this canonical name.
    pub(crate) fn get(&self, canonical: &str) -> Option<&Entry> {
        self.entries.get(canonical)
    }

    /// All tensors, by canonical name.
    pub(crate) fn entries(&self) -> impl Iterator<Item = (&str, &Entry)> {
        self.entries.iter().map(|(name, entry)| (name.as_str(), entry))
    }

    /// The bytes of `slice`.
    pub(crate) fn bytes(&self, slice: &TensorSlice) -> Cow<'_, [u8]> {
        self.elements(slice)
    }

    /// The elements of `slice`: in place where a file has them aligned, copied or made otherwise.
    pub(crate) fn elements<T: Pod>(&self, slice: &TensorSlice) -> Cow<'_, [T]> {
        if let Some(watcher) = &self.watcher {
            watcher(slice.byte_count() as u64);
        }
        match &self.holders[slice.holder] {
            Holder::Mapped { map, .. } => in_file(&map[slice.start..slice.end]),
            Holder::Made { source, index } => {
                let mut elements = vec![T::zeroed(); slice.byte_count() / size_of::<T>()];
                source.read(*index, slice.start, bytemuck::cast_slice_mut(&mut elements));
                Cow::Owned(elements)
            }
        }
    }

    fn add_file(&mut self, path: PathBuf) -> Result<(), CheckpointError> {
        let map = map_file(&path)?;
        let holder = self.holders.len();
        let entries = header::read_header(&path, &map)?;
        self.holders.push(Holder::Mapped { path, map });
        for header_entry in entries {
            let slice = TensorSlice {
                holder,
                data_type: header_entry.info.dtype,
                start: header_entry.start,
                end: header_entry.end,
            };
            self.insert(Entry { name: header_entry.name, shape: header_entry.info.shape, slice })?;
        }
        Ok(())
    }

    fn insert(&mut self, entry: Entry) -> Result<(), CheckpointError> {
        let key = canonical(&entry.name).to_owned();
        if let Some(first) = self.entries.get(&key) {
            return Err(CheckpointError::DuplicateTensor {
                tensor: entry.name,
                first: self.path_of(&first.slice).into(),
                second: self.path_of(&entry.slice).into(),
            });
        }
        self.entries.insert(key, entry);
        Ok(())
    }

    /// Every tensor of the index is in the shard that the index names.
    fn check_weight_map(&self, weight_map: &BTreeMap<String, String>) -> Result<(), CheckpointError> {
        for (tensor, shard) in weight_map {
            let shard = self.directory.join(shard);
            let found = self.get(canonical(tensor)).map(|entry| self.path_of(&entry.slice));
            if found != Some(shard.as_path()) {
                return Err(CheckpointError::MissingTensor {
                    path: shard,
                    tensor: tensor.clone(),
                    accepted: format!("every tensor in the file that {INDEX_FILE} names"),
                });
            }
        }
        Ok(())
    }
}

/// The elements in mapped `bytes`, copied where they are not aligned.
fn in_file<T: Pod>(bytes: &[u8]) -> Cow<'_, [T]> {
    match bytemuck::try_cast_slice(bytes) {
        Ok(elements) => Cow::Borrowed(elements),
        Err(_) => Cow::Owned(bytes.chunks_exact(size_of::<T>()).map(bytemuck::pod_read_unaligned).collect()),
    }
}

/// A tensor's name without the prefixes that exporters wrap around it: `language_model.` and `model.`.
pub(crate) fn canonical(mut name: &str) -> &str {
    while let Some(rest) = name.strip_prefix("language_model.").or_else(|| name.strip_prefix("model.")) {
        name = rest;
    }
    name
}

fn map_file(path: &Path) -> Result<Mmap, CheckpointError> {
    let io = |source| CheckpointError::Io { path: path.into(), source };
    if !path.exists() {
        let accepted = "model.safetensors, or model.safetensors.index.json and the shards it names";
        return Err(CheckpointError::MissingFile { path: path.into(), accepted });
    }
    let file = File::open(path).map_err(io)?;
    let length = file.metadata().map_err(io)?.len();
    if length == 0 {
        return Err(CheckpointError::Truncated { path: path.into(), found: 0, expected: 8 });
    }
    // SAFETY: the map is read-only and private to this archive. Like every mapped reader we rely on nobody
    // shortening the file while it is served; checkpoints are written once and then left alone.
    unsafe { Mmap::map(&file) }.map_err(io)
}

/// `weight_map` of the index: which file of the same directory holds a tensor.
fn read_weight_map(index: &Path) -> Result<BTreeMap<String, String>, CheckpointError> {
    const ACCEPTED: &str = "an object from tensor names to names of files in the same directory";
    let json = read_json(index)?;
    let invalid = |found: &Value| CheckpointError::InvalidField {
        path: index.into(),
        field: "weight_map".into(),
        found: crate::config::shorten(found),
        accepted: ACCEPTED.into(),
    };
    let map = json.get("weight_map").ok_or_else(|| CheckpointError::MissingField {
        path: index.into(),
        field: "weight_map".into(),
        accepted: ACCEPTED.into(),
    })?;
    let map = map.as_object().filter(|map| !map.is_empty()).ok_or_else(|| invalid(map))?;
    map.iter()
        .map(|(tensor, shard)| match shard.as_str() {
            Some(name) if is_file_name(name) => Ok((tensor.clone(), name.to_owned())),
            _ => Err(invalid(shard)),
        })
        .collect()
}

/// Whether `name` stays in its directory.
fn is_file_name(name: &str) -> bool {
    !name.contains(['/', '\\', '\0']) && !matches!(name, "" | "." | "..")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_are_stripped_in_any_order() {
        for name in
            ["a.weight", "model.a.weight", "language_model.model.a.weight", "model.language_model.a.weight"]
        {
            assert_eq!(canonical(name), "a.weight");
        }
        assert_eq!(canonical("models.a.model.b"), "models.a.model.b");
    }

    #[test]
    fn shards_stay_in_their_directory() {
        assert!(is_file_name("model-00001-of-00002.safetensors"));
        for name in ["", ".", "..", "a/b", "../a", "/a", "a\\b", "a\0"] {
            assert!(!is_file_name(name), "{name:?}");
        }
    }
}
