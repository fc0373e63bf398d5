//! A target on disk: its inventory is checked once at open, its weights are read when asked for.

mod plan;

use std::path::Path;
use std::sync::Arc;

use forerunner_tensor::HostMatrix;

use crate::archive::Archive;
use crate::config::{parse_target_config, read_target_config};
use crate::slots::read_vector;
use crate::{
    CheckpointError, Experts, FeedForwardWeights, LayerWeights, OperatorWeights, Summary, TargetConfig,
    TensorSource,
};

pub(crate) use plan::{ExpertSlots, FeedForwardPlan, LayerPlan, OperatorPlan, TargetPlan};

/// A target on disk: mapped, its inventory checked against its configuration, nothing copied yet.
///
/// Weights are views into the mapped files wherever those have them aligned; the files must not be changed
/// while it lives.
pub struct TargetCheckpoint {
    config: TargetConfig,
    archive: Archive,
    plan: TargetPlan,
}

impl TargetCheckpoint {
    /// Reads `config.json` in `directory`, maps its safetensors and checks that every tensor the configuration
    /// asks for is there with its shape, and nothing else.
    pub fn open(directory: &Path) -> Result<Self, CheckpointError> {
        TargetCheckpoint::check(read_target_config(directory)?, Archive::open(directory)?)
    }

    /// A target whose tensors are made when they are read, held to the same inventory as one on disk.
    pub fn from_source(source: &Arc<dyn TensorSource>) -> Result<Self, CheckpointError> {
        let config = parse_target_config(Path::new(source.name()), source.config())?;
        TargetCheckpoint::check(config, Archive::from_source(source)?)
    }

    fn check(mut config: TargetConfig, archive: Archive) -> Result<Self, CheckpointError> {
        config.intermediate = plan::dense_width(&archive, &config)?;
        let plan = TargetPlan::resolve(&archive, &config)?;
        Ok(TargetCheckpoint { config, archive, plan })
    }

    /// From now on, `watcher` is told of the bytes of every tensor that is read: of [`Summary::bytes`] in all, once all
    /// weights have been asked for.
    pub fn watch(&mut self, watcher: impl Fn(u64) + Send + Sync + 'static) {
        self.archive.watch(Box::new(watcher));
    }

    /// Its configuration.
    pub fn config(&self) -> &TargetConfig {
        &self.config
    }

    /// `[vocabulary, hidden]`: the embedding table, which is also the head.
    pub fn embedding(&self) -> Result<HostMatrix<'_>, CheckpointError> {
        Ok(self.plan.embedding.read(&self.archive))
    }

    /// `[hidden]`: the norm before the head (`embedding_norm`).
    pub fn final_norm(&self) -> Result<Vec<f32>, CheckpointError> {
        Ok(read_vector(&self.archive, &self.plan.final_norm))
    }

    /// Layer `index`.
    ///
    /// # Panics
    /// If the configuration has no such layer.
    pub fn layer(&self, index: usize) -> Result<LayerWeights<'_>, CheckpointError> {
        let layer = &self.plan.layers[index];
        Ok(LayerWeights {
            operator_norm: read_vector(&self.archive, &layer.operator_norm),
            operator: self.operator(&layer.operator),
            ffn_norm: read_vector(&self.archive, &layer.ffn_norm),
            feed_forward: self.feed_forward(&layer.feed_forward),
        })
    }

    /// Parameters, bytes and files.
    pub fn summary(&self) -> Summary {
        let mut summary = Summary::new(&self.archive);
        for slice in self.plan.vectors() {
            summary.add_vector(slice);
        }
        for slot in self.plan.matrices() {
            summary.add_matrix(slot);
        }
        summary.subtract_inactive(&self.config);
        summary
    }

    /// The mapped files.
    pub(crate) fn archive(&self) -> &Archive {
        &self.archive
    }

    /// Where every role lies in them.
    pub(crate) fn plan(&self) -> &TargetPlan {
        &self.plan
    }

    fn operator(&self, operator: &OperatorPlan) -> OperatorWeights<'_> {
        let archive = &self.archive;
        match operator {
            OperatorPlan::Attention { query, key, value, output, query_norm, key_norm } => {
                OperatorWeights::Attention {
                    query: query.read(archive),
                    key: key.read(archive),
                    value: value.read(archive),
                    output: output.read(archive),
                    query_norm: read_vector(archive, query_norm),
                    key_norm: read_vector(archive, key_norm),
                }
            }
            OperatorPlan::Conv { input, kernel, output } => OperatorWeights::Conv {
                input: input.read(archive),
                kernel: read_vector(archive, kernel),
                output: output.read(archive),
            },
        }
    }

    fn feed_forward<'a>(&'a self, feed_forward: &'a FeedForwardPlan) -> FeedForwardWeights<'a> {
        let archive = &self.archive;
        match feed_forward {
            FeedForwardPlan::Dense(slots) => FeedForwardWeights::Dense {
                gate: slots.gate.read(archive),
                up: slots.up.read(archive),
                down: slots.down.read(archive),
            },
            FeedForwardPlan::Experts { router, bias, experts } => FeedForwardWeights::Experts {
                router: router.read(archive),
                bias: match bias {
                    Some(bias) => read_vector(archive, bias),
                    None => vec![0.0; experts.len()],
                },
                experts: Experts::new(archive, experts),
            },
        }
    }
}
