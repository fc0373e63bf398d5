//! Writes checkpoints: a target's bf16 twin (every matrix dequantized, in Hugging Face's layout), and sources.

use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::Range;
use std::path::{Path, PathBuf};

use forerunner_tensor::bf16;
use safetensors::tensor::{SafeTensorError, View};
use safetensors::{Dtype, serialize_to_file};
use serde_json::{Map, Value, json};

use crate::archive::{Archive, INDEX_FILE, SINGLE_FILE, TensorSlice};
use crate::config::read_json;
use crate::slots::MatrixSlot;
use crate::target::{ExpertSlots, FeedForwardPlan, LayerPlan, OperatorPlan};
use crate::{CheckpointError, TargetCheckpoint, TensorInfo, TensorSource, names};

/// What a checkpoint is: written last.
const CONFIG_FILE: &str = "config.json";

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
    let weights = destination.join(SINGLE_FILE);
    write_tensors(twin_tensors(source), &weights)?;
    copy_companions(source_dir, destination)?;
    let mut config = read_json(&source_dir.join(CONFIG_FILE))?;
    config.remove("quantization");
    config.remove("quantization_config");
    config.remove("torch_dtype");
    config.insert("dtype".into(), Value::from("bfloat16"));
    write_config(config, destination, &[weights])
}

/// Writes `source` to `destination` as safetensors of about `shard_bytes` with an index, or as a single file when
/// they are no more than that; and beside them what `companions`, a model's directory, has of tokenizer and chat
/// template.
///
/// One tensor is held in memory at a time. `config.json` is written last: an interrupted write does not pass for a
/// checkpoint.
pub fn write_source(
    source: &dyn TensorSource,
    companions: Option<&Path>,
    destination: &Path,
    shard_bytes: u64,
) -> Result<(), CheckpointError> {
    prepare(destination)?;
    let shards = shards(source.tensors(), shard_bytes);
    let mut paths = Vec::new();
    let mut weight_map = Map::new();
    for (number, shard) in shards.iter().enumerate() {
        let name = match shards.len() {
            1 => SINGLE_FILE.to_owned(),
            count => format!("model-{:05}-of-{count:05}.safetensors", number + 1),
        };
        let tensors = shard.clone().map(|index| {
            let info = &source.tensors()[index];
            weight_map.insert(info.name.clone(), Value::from(name.as_str()));
            (info.name.clone(), MadeTensor { source, info, index })
        });
        paths.push(destination.join(&name));
        write_tensors(tensors.collect(), &destination.join(&name))?;
    }
    if shards.len() > 1 {
        let total: usize = source.tensors().iter().map(TensorInfo::byte_count).sum();
        let index = json!({"metadata": {"total_size": total}, "weight_map": weight_map});
        write_json(&index, &destination.join(INDEX_FILE))?;
    }
    if let Some(companions) = companions {
        copy_companions(companions, destination)?;
    }
    write_config(source.config().clone(), destination, &paths)
}

/// Runs of tensors whose bytes come to at most `shard_bytes`, but for one that alone has more.
fn shards(tensors: &[TensorInfo], shard_bytes: u64) -> Vec<Range<usize>> {
    let mut shards = Vec::from([Range { start: 0, end: 0 }]);
    let mut bytes = 0;
    for (index, tensor) in tensors.iter().enumerate() {
        let last = shards.len() - 1;
        let size = tensor.byte_count() as u64;
        if bytes + size > shard_bytes && !shards[last].is_empty() {
            shards.push(index..index + 1);
            bytes = size;
        } else {
            shards[last].end = index + 1;
            bytes += size;
        }
    }
    shards
}

/// A tensor of a source, made when it is written.
struct MadeTensor<'a> {
    source: &'a dyn TensorSource,
    info: &'a TensorInfo,
    index: usize,
}

impl View for MadeTensor<'_> {
    fn dtype(&self) -> Dtype {
        self.info.data_type
    }

    fn shape(&self) -> &[usize] {
        &self.info.shape
    }

    fn data(&self) -> Cow<'_, [u8]> {
        let mut bytes = vec![0; self.data_len()];
        self.source.read(self.index, 0, &mut bytes);
        Cow::Owned(bytes)
    }

    fn data_len(&self) -> usize {
        self.info.byte_count()
    }
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

/// Copies what `from` has of [`COMPANIONS`].
fn copy_companions(from: &Path, destination: &Path) -> Result<(), CheckpointError> {
    for name in COMPANIONS.iter().filter(|name| from.join(name).exists()) {
        let path = destination.join(name);
        let result = std::fs::read(from.join(name)).and_then(|bytes| std::fs::write(&path, bytes));
        result.map_err(|source| CheckpointError::Io { path, source })?;
    }
    Ok(())
}

/// Writes the configuration, and opens `weights` to whom it is open: they went through temporary files that only
/// their owner may read.
fn write_config(
    config: Map<String, Value>,
    destination: &Path,
    weights: &[PathBuf],
) -> Result<(), CheckpointError> {
    let path = destination.join(CONFIG_FILE);
    write_json(&Value::Object(config), &path)?;
    let permissions = std::fs::metadata(&path).map(|metadata| metadata.permissions());
    let permissions = permissions.map_err(|source| CheckpointError::Io { path, source })?;
    for path in weights {
        std::fs::set_permissions(path, permissions.clone())
            .map_err(|source| CheckpointError::Io { path: path.clone(), source })?;
    }
    Ok(())
}

fn write_json(value: &Value, path: &Path) -> Result<(), CheckpointError> {
    std::fs::write(path, format!("{value:#}\n"))
        .map_err(|source| CheckpointError::Io { path: path.into(), source })
}

fn write_tensors<V: View>(tensors: Vec<(String, V)>, path: &Path) -> Result<(), CheckpointError> {
    let metadata = HashMap::from([("format".to_owned(), "pt".to_owned())]);
    serialize_to_file(tensors, Some(metadata), path).map_err(|error| {
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
            Origin::Vector(slice) => self.archive.bytes(slice),
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
