//! Writes a target's bf16 twin: the same model with every matrix dequantized, in Hugging Face's layout.

use std::borrow::Cow;
use std::collections::HashMap;
use std::path::Path;

use forerunner_tensor::bf16;
use safetensors::tensor::{SafeTensorError, View};
use safetensors::{Dtype, serialize_to_file};
use serde_json::Value;

use crate::archive::{Archive, TensorSlice};
use crate::config::read_json;
use crate::slots::MatrixSlot;
use crate::target::{ExpertSlots, FeedForwardPlan, LayerPlan, OperatorPlan};
use crate::{CheckpointError, TargetCheckpoint, names};

/// Files that belong to a model and have nothing to do with its weights.
const COMPANIONS: [&str; 5] = [
    "tokenizer.json",
    "tokenizer_config.json",
    "chat_template.jinja",
    "generation_config.json",
    "special_tokens_map.json",
];

/// Writes `source`, whose directory is `source_dir`, to `destination` with every matrix in bf16: what
/// [`affine_value`](forerunner_tensor::affine_value) makes of a quantized weight, so both give equal tokens.
///
/// Norms, kernels and expert biases keep their type. One matrix is held in memory at a time. `config.json` is
/// written last: an interrupted copy does not pass for a checkpoint.
pub fn write_dequantized(
    source: &TargetCheckpoint,
    source_dir: &Path,
    destination: &Path,
) -> Result<(), CheckpointError> {
    prepare(destination)?;
    write_weights(source, &destination.join("model.safetensors"))?;
    for name in COMPANIONS.iter().filter(|name| source_dir.join(name).exists()) {
        let path = destination.join(name);
        let result = std::fs::read(source_dir.join(name)).and_then(|bytes| std::fs::write(&path, bytes));
        result.map_err(|source| CheckpointError::Io { path, source })?;
    }
    let config = destination.join("config.json");
    write_config(&source_dir.join("config.json"), &config)?;
    // Weights go through a temporary file that only its owner may read; the twin is for whom its config is.
    let permissions = std::fs::metadata(&config).map(|metadata| metadata.permissions());
    let weights = destination.join("model.safetensors");
    let result = permissions.and_then(|permissions| std::fs::set_permissions(&weights, permissions));
    result.map_err(|source| CheckpointError::Io { path: weights, source })
}

/// Makes `destination` an empty directory, or refuses.
fn prepare(destination: &Path) -> Result<(), CheckpointError> {
    let io = |source| CheckpointError::Io { path: destination.into(), source };
    if destination.exists() {
        let empty = destination.is_dir() && std::fs::read_dir(destination).map_err(io)?.next().is_none();
        return match empty {
            true => Ok(()),
            false => Err(CheckpointError::DestinationNotEmpty { path: destination.into() }),
        };
    }
    std::fs::create_dir_all(destination).map_err(io)
}

fn write_config(from: &Path, to: &Path) -> Result<(), CheckpointError> {
    let mut config = read_json(from)?;
    config.remove("quantization");
    config.remove("quantization_config");
    config.remove("torch_dtype");
    config.insert("dtype".into(), Value::from("bfloat16"));
    let text = format!("{:#}\n", Value::Object(config));
    std::fs::write(to, text).map_err(|source| CheckpointError::Io { path: to.into(), source })
}

fn write_weights(source: &TargetCheckpoint, path: &Path) -> Result<(), CheckpointError> {
    let metadata = HashMap::from([("format".to_owned(), "pt".to_owned())]);
    serialize_to_file(twin_tensors(source), Some(metadata), path).map_err(|error| {
        let source = match error {
            SafeTensorError::IoError(source) => source,
            other => std::io::Error::other(other),
        };
        CheckpointError::Io { path: path.into(), source }
    })
}

/// A tensor of the twin, made when it is written.
struct TwinTensor<'a> {
    archive: &'a Archive,
    shape: Vec<usize>,
    origin: Origin<'a>,
}

enum Origin<'a> {
    /// Read and rounded to bf16.
    Matrix(&'a MatrixSlot),
    /// Copied.
    Vector(&'a TensorSlice),
}

impl View for TwinTensor<'_> {
    fn dtype(&self) -> Dtype {
        match self.origin {
            Origin::Matrix(_) => Dtype::BF16,
            Origin::Vector(slice) => slice.data_type,
        }
    }

    fn shape(&self) -> &[usize] {
        &self.shape
    }

    fn data(&self) -> Cow<'_, [u8]> {
        match self.origin {
            Origin::Matrix(slot) => {
                let matrix = slot.read(self.archive);
                let mut values = vec![bf16::ZERO; matrix.columns];
                let mut bytes = Vec::with_capacity(self.data_len());
                for row in 0..matrix.rows {
                    matrix.read_row(row, &mut values);
                    bytes.extend_from_slice(bytemuck::cast_slice(&values));
                }
                Cow::Owned(bytes)
            }
            Origin::Vector(slice) => Cow::Borrowed(self.archive.bytes(slice)),
        }
    }

    fn data_len(&self) -> usize {
        match self.origin {
            Origin::Matrix(slot) => slot.rows * slot.columns * size_of::<bf16>(),
            Origin::Vector(slice) => slice.byte_count(),
        }
    }
}

/// Every tensor of the twin under Hugging Face's name.
fn twin_tensors(source: &TargetCheckpoint) -> Vec<(String, TwinTensor<'_>)> {
    let (plan, hidden) = (source.plan(), source.config().hidden);
    let mut twin =
        Twin { archive: source.archive(), hidden, head_dim: source.config().head_dim, tensors: Vec::new() };
    twin.matrix("embed_tokens".into(), &plan.embedding);
    twin.vector(names::FINAL_NORM[0].into(), &plan.final_norm, vec![hidden]);
    for (index, layer) in plan.layers.iter().enumerate() {
        twin.layer(index, layer);
    }
    twin.tensors
}

/// The list being made.
struct Twin<'a> {
    archive: &'a Archive,
    hidden: usize,
    head_dim: usize,
    tensors: Vec<(String, TwinTensor<'a>)>,
}

impl<'a> Twin<'a> {
    fn layer(&mut self, index: usize, layer: &'a LayerPlan) {
        let name = |name: &str| names::in_layer(index, name);
        self.vector(name("operator_norm.weight"), &layer.operator_norm, vec![self.hidden]);
        self.vector(name("ffn_norm.weight"), &layer.ffn_norm, vec![self.hidden]);
        match &layer.operator {
            OperatorPlan::Attention { query, key, value, output, query_norm, key_norm } => {
                self.matrix(name("self_attn.q_proj"), query);
                self.matrix(name("self_attn.k_proj"), key);
                self.matrix(name("self_attn.v_proj"), value);
                self.matrix(name("self_attn.out_proj"), output);
                self.vector(name("self_attn.q_layernorm.weight"), query_norm, vec![self.head_dim]);
                self.vector(name("self_attn.k_layernorm.weight"), key_norm, vec![self.head_dim]);
            }
            OperatorPlan::Conv { input, kernel, output } => {
                self.matrix(name("conv.in_proj"), input);
                self.vector(name("conv.conv.weight"), kernel, vec![self.hidden, 1, 3]);
                self.matrix(name("conv.out_proj"), output);
            }
        }
        match &layer.feed_forward {
            FeedForwardPlan::Dense(slots) => self.triple(&name("feed_forward"), slots),
            FeedForwardPlan::Experts { router, bias, experts } => {
                self.matrix(name("feed_forward.gate"), router);
                if let Some(bias) = bias {
                    self.vector(name("feed_forward.expert_bias"), bias, vec![experts.len()]);
                }
                for (expert, slots) in experts.iter().enumerate() {
                    self.triple(&name(&format!("feed_forward.experts.{expert}")), slots);
                }
            }
        }
    }

    fn triple(&mut self, path: &str, slots: &'a ExpertSlots) {
        let named = [(names::GATE, &slots.gate), (names::UP, &slots.up), (names::DOWN, &slots.down)];
        for (name, slot) in named {
            self.matrix(format!("{path}.{}", name[0]), slot);
        }
    }

    fn matrix(&mut self, path: String, slot: &'a MatrixSlot) {
        let shape = vec![slot.rows, slot.columns];
        self.push(format!("{path}.weight"), shape, Origin::Matrix(slot));
    }

    fn vector(&mut self, name: String, slice: &'a TensorSlice, shape: Vec<usize>) {
        self.push(name, shape, Origin::Vector(slice));
    }

    fn push(&mut self, name: String, shape: Vec<usize>, origin: Origin<'a>) {
        self.tensors.push((format!("model.{name}"), TwinTensor { archive: self.archive, shape, origin }));
    }
}
