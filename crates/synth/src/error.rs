//! Why a checkpoint cannot be grown.

use std::path::PathBuf;

use forerunner_checkpoint::CheckpointError;

/// Why a checkpoint cannot be grown. Every message names the thing, what was found and what is accepted.
#[derive(Debug, thiserror::Error)]
pub enum SynthError {
    /// A name that is neither a shape nor a file.
    #[error("the shape is `{found}`; accepted: {accepted}, or a file with one (docs/synth.md section 5)")]
    UnknownShape {
        /// What was asked for.
        found: String,
        /// The names.
        accepted: String,
    },
    /// A part of a specification that is neither a format nor a skew.
    #[error("`{found}` in `{specification}`; accepted: SHAPE[,4bit or bf16][,share of the first copy]")]
    UnknownPart {
        /// The whole.
        specification: String,
        /// The part.
        found: String,
    },
    /// A shape's file cannot be read.
    #[error("{}: {source}", .path.display())]
    ShapeFile {
        /// The file.
        path: PathBuf,
        /// The operating system's reason.
        source: std::io::Error,
    },
    /// A shape's file does not hold a shape.
    #[error("{}: {source}; accepted: a shape as JSON (docs/synth.md section 5)", .path.display())]
    ShapeJson {
        /// The file.
        path: PathBuf,
        /// Where it breaks.
        source: serde_json::Error,
    },
    /// A shape to which the base cannot be grown.
    #[error("shape {shape}: field `{field}` is {found}; accepted: {accepted}")]
    Shape {
        /// The shape's name.
        shape: String,
        /// The field.
        field: &'static str,
        /// Its value.
        found: String,
        /// Its values.
        accepted: String,
    },
    /// A share of tokens that no copy can have.
    #[error("the skew is {found}; accepted: {accepted}")]
    Skew {
        /// The share.
        found: f64,
        /// Its range.
        accepted: String,
    },
    /// A base that cannot be grown.
    #[error("the base's {what} is {found}; accepted: {accepted}")]
    Base {
        /// The property.
        what: &'static str,
        /// Its value.
        found: String,
        /// Its values.
        accepted: String,
    },
    /// The base cannot be read, or what was grown does not fit together.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
}
