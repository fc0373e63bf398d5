//! A DSpark drafter on disk: its inventory is checked once at open, its weights are read when asked for.

use std::path::Path;
use std::sync::Arc;

use forerunner_tensor::{HostMatrix, MatrixValues};

use crate::archive::{Archive, TensorSlice};
use crate::config::{check_fit, parse_drafter_config, read_drafter_config};
use crate::inventory::Inventory;
use crate::slots::{MatrixSlot, read_vector};
use crate::{
    CheckpointError, DrafterConfig, DrafterHead, DrafterLayerWeights, Summary, TargetConfig, TensorSource,
    names,
};

/// A DSpark drafter on disk.
///
/// Weights are views into the mapped file wherever it has them aligned; the file must not be changed while it
/// lives.
pub struct DrafterCheckpoint {
    config: DrafterConfig,
    archive: Archive,
    head: HeadPlan,
    layers: Vec<LayerPlan>,
    /// Whether dense linear weights are quantized to 8 bits as they are read.
    in_eight_bits: bool,
}

struct HeadPlan {
    fuse: MatrixSlot,
    hidden_norm: TensorSlice,
    final_norm: TensorSlice,
    markov_previous: MatrixSlot,
    markov_next: MatrixSlot,
    /// Weights and bias.
    confidence: Option<(TensorSlice, TensorSlice)>,
}

struct LayerPlan {
    input_norm: TensorSlice,
    query: MatrixSlot,
    key: MatrixSlot,
    value: MatrixSlot,
    output: MatrixSlot,
    query_norm: TensorSlice,
    key_norm: TensorSlice,
    post_attention_norm: TensorSlice,
    gate: MatrixSlot,
    up: MatrixSlot,
    down: MatrixSlot,
}

impl DrafterCheckpoint {
    /// Reads and checks the drafter in `directory`, and that it fits `target`: hidden size, vocabulary, layer
    /// count, tap ids.
    pub fn open(directory: &Path, target: &TargetConfig) -> Result<Self, CheckpointError> {
        let config = read_drafter_config(directory)?;
        check_fit(directory, &config, target)?;
        DrafterCheckpoint::check(config, Archive::open(directory)?)
    }

    /// A drafter whose tensors are made when they are read, held to what [`DrafterCheckpoint::open`] asks.
    pub fn from_source(
        source: &Arc<dyn TensorSource>,
        target: &TargetConfig,
    ) -> Result<Self, CheckpointError> {
        let name = Path::new(source.name());
        let config = parse_drafter_config(name, source.config())?;
        check_fit(name, &config, target)?;
        DrafterCheckpoint::check(config, Archive::from_source(source)?)
    }

    /// Reads and checks the drafter in `directory`, whatever target it is for: to describe it, not to run it.
    pub fn open_unpaired(directory: &Path) -> Result<Self, CheckpointError> {
        DrafterCheckpoint::check(read_drafter_config(directory)?, Archive::open(directory)?)
    }

    fn check(config: DrafterConfig, archive: Archive) -> Result<Self, CheckpointError> {
        let mut inventory = Inventory::new(&archive, None, "");
        let head = HeadPlan::resolve(&mut inventory, &config)?;
        let layers = (0..config.layers)
            .map(|index| LayerPlan::resolve(&mut inventory, &config, index))
            .collect::<Result<_, _>>()?;
        inventory.finish(names::ignored_in_drafter)?;
        Ok(DrafterCheckpoint { config, archive, head, layers, in_eight_bits: false })
    }

    /// The same with its linear weights in 8 bits from now on: nearly the same drafts from half the memory. The table that
    /// embeds the previous token and the confidence head stay as they are, and so does what is stored in affine codes, or in
    /// rows that are not whole groups of 64.
    #[must_use]
    pub fn in_eight_bits(mut self) -> Self {
        self.in_eight_bits = true;
        self
    }

    /// From now on, `watcher` is told of the bytes of every tensor that is read: of [`Summary::bytes`] in all, once all
    /// weights have been asked for.
    pub fn watch(&mut self, watcher: impl Fn(u64) + Send + Sync + 'static) {
        self.archive.watch(Box::new(watcher));
    }

    /// Its configuration.
    pub fn config(&self) -> &DrafterConfig {
        &self.config
    }

    /// Everything outside the layers.
    pub fn head(&self) -> Result<DrafterHead<'_>, CheckpointError> {
        let (archive, plan) = (&self.archive, &self.head);
        let confidence = plan.confidence.as_ref().map(|(weights, bias)| {
            // The bias was found with shape [1].
            (read_vector(archive, weights), read_vector(archive, bias).first().copied().unwrap_or(0.0))
        });
        Ok(DrafterHead {
            fuse: self.linear(&plan.fuse),
            hidden_norm: read_vector(archive, &plan.hidden_norm),
            final_norm: read_vector(archive, &plan.final_norm),
            markov_previous: plan.markov_previous.read(archive),
            markov_next: self.linear(&plan.markov_next),
            confidence,
        })
    }

    /// Layer `index`.
    ///
    /// # Panics
    /// If the configuration has no such layer.
    pub fn layer(&self, index: usize) -> Result<DrafterLayerWeights<'_>, CheckpointError> {
        let (archive, plan) = (&self.archive, &self.layers[index]);
        Ok(DrafterLayerWeights {
            input_norm: read_vector(archive, &plan.input_norm),
            query: self.linear(&plan.query),
            key: self.linear(&plan.key),
            value: self.linear(&plan.value),
            output: self.linear(&plan.output),
            query_norm: read_vector(archive, &plan.query_norm),
            key_norm: read_vector(archive, &plan.key_norm),
            post_attention_norm: read_vector(archive, &plan.post_attention_norm),
            gate: self.linear(&plan.gate),
            up: self.linear(&plan.up),
            down: self.linear(&plan.down),
        })
    }

    fn linear(&self, slot: &MatrixSlot) -> HostMatrix<'_> {
        let stored = slot.read(&self.archive);
        let is_dense = !matches!(stored.values, MatrixValues::Affine(_));
        match self.in_eight_bits && is_dense {
            true => stored.quantized(8).unwrap_or(stored),
            false => stored,
        }
    }

    /// Parameters, bytes and files.
    pub fn summary(&self) -> Summary {
        let mut summary = Summary::new(&self.archive);
        let head = &self.head;
        for slot in [&head.fuse, &head.markov_previous, &head.markov_next] {
            summary.add_matrix(slot);
        }
        let confidence = head.confidence.iter().flat_map(|(weights, bias)| [weights, bias]);
        for slice in [&head.hidden_norm, &head.final_norm].into_iter().chain(confidence) {
            summary.add_vector(slice);
        }
        for layer in &self.layers {
            for slot in layer.matrices() {
                summary.add_matrix(slot);
            }
            for slice in layer.vectors() {
                summary.add_vector(slice);
            }
        }
        summary
    }
}

impl HeadPlan {
    fn resolve(inventory: &mut Inventory, config: &DrafterConfig) -> Result<Self, CheckpointError> {
        let hidden = config.hidden;
        let mut matrix = |path: &str, rows, columns| inventory.matrix(&[path.to_owned()], rows, columns);
        let fuse = matrix("fc", hidden, config.taps.len() * hidden)?;
        let markov_previous = matrix("markov_head.markov_w1", config.vocabulary, config.markov_rank)?;
        let markov_next = matrix("markov_head.markov_w2", config.vocabulary, config.markov_rank)?;
        let mut vector = |name: &str, shape: &[usize]| inventory.vector(&[name.to_owned()], &[shape]);
        let confidence = match config.has_confidence {
            true => Some((
                vector("confidence_head.proj.weight", &[1, hidden + config.markov_rank])?,
                vector("confidence_head.proj.bias", &[1])?,
            )),
            false => None,
        };
        Ok(HeadPlan {
            fuse,
            hidden_norm: vector("hidden_norm.weight", &[hidden])?,
            final_norm: vector("norm.weight", &[hidden])?,
            markov_previous,
            markov_next,
            confidence,
        })
    }
}

impl LayerPlan {
    fn resolve(
        inventory: &mut Inventory,
        config: &DrafterConfig,
        index: usize,
    ) -> Result<Self, CheckpointError> {
        let (hidden, width, head_dim) = (config.hidden, config.intermediate, config.head_dim);
        let query_rows = config.query_heads * head_dim;
        let key_value_rows = config.key_value_heads * head_dim;
        let mut matrix =
            |name: &str, rows, columns| inventory.matrix(&[names::in_layer(index, name)], rows, columns);
        let query = matrix("self_attn.q_proj", query_rows, hidden)?;
        let key = matrix("self_attn.k_proj", key_value_rows, hidden)?;
        let value = matrix("self_attn.v_proj", key_value_rows, hidden)?;
        let output = matrix("self_attn.o_proj", hidden, query_rows)?;
        let gate = matrix("mlp.gate_proj", width, hidden)?;
        let up = matrix("mlp.up_proj", width, hidden)?;
        let down = matrix("mlp.down_proj", hidden, width)?;
        let mut norm = |name: &str, width| inventory.vector(&[names::in_layer(index, name)], &[&[width]]);
        Ok(LayerPlan {
            input_norm: norm("input_layernorm.weight", hidden)?,
            query,
            key,
            value,
            output,
            query_norm: norm("self_attn.q_norm.weight", head_dim)?,
            key_norm: norm("self_attn.k_norm.weight", head_dim)?,
            post_attention_norm: norm("post_attention_layernorm.weight", hidden)?,
            gate,
            up,
            down,
        })
    }

    fn matrices(&self) -> [&MatrixSlot; 7] {
        [&self.query, &self.key, &self.value, &self.output, &self.gate, &self.up, &self.down]
    }

    fn vectors(&self) -> [&TensorSlice; 4] {
        [&self.input_norm, &self.query_norm, &self.key_norm, &self.post_attention_norm]
    }
}
