//! One typed error per way a checkpoint can be wrong.

use std::path::PathBuf;

/// Why a checkpoint cannot be read or written.
///
/// Every message names the file, the tensor or field, what was found and what is accepted.
#[derive(Debug, thiserror::Error)]
pub enum CheckpointError {
    /// The checkpoint's path does not lead to a directory.
    #[error("{}: found no such directory; accepted: a directory with config.json and safetensors", .path.display())]
    NotADirectory {
        /// What was asked for.
        path: PathBuf,
    },
    /// A file that every checkpoint has is not there.
    #[error("{}: found no such file; accepted: {accepted}", .path.display())]
    MissingFile {
        /// The absent file.
        path: PathBuf,
        /// What may stand there.
        accepted: &'static str,
    },
    /// The operating system refused.
    #[error("{}: {source}", .path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Its reason.
        source: std::io::Error,
    },
    /// A JSON file that is not JSON, or not an object.
    #[error("{}: found invalid JSON ({source}); accepted: a JSON object", .path.display())]
    InvalidJson {
        /// The file.
        path: PathBuf,
        /// Where it breaks.
        source: serde_json::Error,
    },
    /// A field without which the model is not known.
    #[error("{}: field `{field}` is missing; accepted: {accepted}", .path.display())]
    MissingField {
        /// The file.
        path: PathBuf,
        /// The absent field.
        field: String,
        /// Its values.
        accepted: String,
    },
    /// A field of the wrong type, or out of range, or at odds with another field.
    #[error("{}: field `{field}` is {found}; accepted: {accepted}", .path.display())]
    InvalidField {
        /// The file.
        path: PathBuf,
        /// The field.
        field: String,
        /// Its value.
        found: String,
        /// Its values.
        accepted: String,
    },
    /// A field that chooses between variants and names one that is not supported.
    #[error("{}: field `{field}` has the unknown value {found}; accepted: {accepted}", .path.display())]
    UnknownValue {
        /// The file.
        path: PathBuf,
        /// The field.
        field: String,
        /// Its value.
        found: String,
        /// The supported values.
        accepted: String,
    },
    /// A safetensors file that ends too early.
    #[error("{}: found {found} bytes; accepted: {expected} bytes, as its header says", .path.display())]
    Truncated {
        /// The file.
        path: PathBuf,
        /// Its length.
        found: u64,
        /// The length it needs.
        expected: u64,
    },
    /// A safetensors file whose header means nothing.
    #[error("{}: the safetensors header is invalid: {problem}", .path.display())]
    InvalidHeader {
        /// The file.
        path: PathBuf,
        /// What was found and what is accepted.
        problem: String,
    },
    /// A shard named by the index is not there.
    #[error("{}: field `weight_map` names the shard {shard}, but found no such file beside it", .path.display())]
    MissingShard {
        /// The index.
        path: PathBuf,
        /// The absent shard.
        shard: String,
    },
    /// A tensor the configuration asks for is not there.
    #[error("{}: tensor `{tensor}` is missing; accepted: {accepted}", .path.display())]
    MissingTensor {
        /// The directory, or the shard that should hold it.
        path: PathBuf,
        /// Its usual name.
        tensor: String,
        /// Every name it may have.
        accepted: String,
    },
    /// Tensors the configuration does not explain.
    #[error(
        "{}: found {} tensor(s) that config.json does not explain: {}; accepted: none of them",
        .path.display(), .tensors.len(), first_few(.tensors)
    )]
    ExtraTensors {
        /// The directory.
        path: PathBuf,
        /// Their names in the files.
        tensors: Vec<String>,
    },
    /// A tensor that is there twice.
    #[error(
        "{}: tensor `{tensor}` is also in {}; accepted: each tensor once",
        .second.display(), .first.display()
    )]
    DuplicateTensor {
        /// Its name.
        tensor: String,
        /// A file that holds it.
        first: PathBuf,
        /// A file that holds it again; the same file when only the names' prefixes differ.
        second: PathBuf,
    },
    /// A tensor of the wrong shape.
    #[error("{}: tensor `{tensor}` has shape {found:?}; accepted: {accepted}", .path.display())]
    Misshapen {
        /// The file.
        path: PathBuf,
        /// Its name.
        tensor: String,
        /// Its shape.
        found: Vec<usize>,
        /// The shapes it may have.
        accepted: String,
    },
    /// A tensor of the wrong data type.
    #[error("{}: tensor `{tensor}` has data type {found}; accepted: {accepted}", .path.display())]
    WrongDataType {
        /// The file.
        path: PathBuf,
        /// Its name.
        tensor: String,
        /// Its data type.
        found: String,
        /// The data types it may have.
        accepted: String,
    },
    /// A norm, kernel, scale or bias that is not a number.
    #[error("{}: tensor `{tensor}` holds {found} at element {index}; accepted: finite numbers", .path.display())]
    NotFinite {
        /// The file.
        path: PathBuf,
        /// Its name.
        tensor: String,
        /// The first such element.
        index: usize,
        /// Its value.
        found: f32,
    },
    /// A drafter made for another target.
    #[error(
        "{}: the drafter does not fit the target: field `{field}` is {found}; accepted: {accepted}",
        .path.display()
    )]
    Unfit {
        /// The drafter's config.json.
        path: PathBuf,
        /// The field that does not fit.
        field: String,
        /// Its value.
        found: String,
        /// What the target needs.
        accepted: String,
    },
    /// A checkpoint is never written over something else.
    #[error(
        "{}: found something there already; accepted: a path that does not exist, or an empty directory",
        .path.display()
    )]
    DestinationNotEmpty {
        /// Where it was to be written.
        path: PathBuf,
    },
}

/// The first names of a list that may have thousands.
fn first_few(tensors: &[String]) -> String {
    const SHOWN: usize = 6;
    let mut text = tensors.iter().take(SHOWN).map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    if tensors.len() > SHOWN {
        text.push_str(&format!(" and {} more", tensors.len() - SHOWN));
    }
    text
}
