//! A checkpoint's tensors by role, whatever the file calls them.

use std::path::Path;

use forerunner_tensor::{ExpertWeights, HostMatrix};

use crate::{CheckpointError, DrafterConfig, TargetConfig};

/// A target on disk: mapped, its inventory checked against its configuration, nothing copied yet.
pub struct TargetCheckpoint {}

/// One decoder layer. Norms are `[hidden]`.
pub struct LayerWeights<'a> {
    /// Before the operator.
    pub operator_norm: Vec<f32>,
    /// Convolution or attention.
    pub operator: OperatorWeights<'a>,
    /// Before the feed-forward.
    pub ffn_norm: Vec<f32>,
    /// Dense or mixture.
    pub feed_forward: FeedForwardWeights<'a>,
}

/// A layer's operator.
pub enum OperatorWeights<'a> {
    /// Grouped-query attention.
    Attention {
        /// `[query_heads * head_dim, hidden]`
        query: HostMatrix<'a>,
        /// `[key_value_heads * head_dim, hidden]`
        key: HostMatrix<'a>,
        /// `[key_value_heads * head_dim, hidden]`
        value: HostMatrix<'a>,
        /// `[hidden, query_heads * head_dim]`
        output: HostMatrix<'a>,
        /// `[head_dim]`
        query_norm: Vec<f32>,
        /// `[head_dim]`
        key_norm: Vec<f32>,
    },
    /// Gated short convolution.
    Conv {
        /// `[3 * hidden, hidden]`: B, C, x.
        input: HostMatrix<'a>,
        /// `[hidden, 3]`: channel after channel, oldest position first.
        kernel: Vec<f32>,
        /// `[hidden, hidden]`
        output: HostMatrix<'a>,
    },
}

/// A layer's feed-forward.
pub enum FeedForwardWeights<'a> {
    /// `down(silu(gate x) * up x)`
    Dense {
        /// `[intermediate, hidden]`
        gate: HostMatrix<'a>,
        /// `[intermediate, hidden]`
        up: HostMatrix<'a>,
        /// `[hidden, intermediate]`
        down: HostMatrix<'a>,
    },
    /// Mixture of experts.
    Experts {
        /// `[experts, hidden]`
        router: HostMatrix<'a>,
        /// `[experts]`; zeros when the configuration says there is none.
        bias: Vec<f32>,
        /// One entry an expert; views into the mapped file.
        experts: Vec<ExpertWeights<'a>>,
    },
}

impl TargetCheckpoint {
    /// Reads `config.json` in `directory`, maps its safetensors and checks that every tensor the configuration
    /// asks for is there with its shape, and nothing else.
    pub fn open(directory: &Path) -> Result<Self, CheckpointError> {
        let _ = directory;
        unimplemented!()
    }

    /// Its configuration.
    pub fn config(&self) -> &TargetConfig {
        unimplemented!()
    }

    /// `[vocabulary, hidden]`: the embedding table, which is also the head.
    pub fn embedding(&self) -> Result<HostMatrix<'_>, CheckpointError> {
        unimplemented!()
    }

    /// `[hidden]`: the norm before the head (`embedding_norm`).
    pub fn final_norm(&self) -> Result<Vec<f32>, CheckpointError> {
        unimplemented!()
    }

    /// Layer `index`.
    pub fn layer(&self, index: usize) -> Result<LayerWeights<'_>, CheckpointError> {
        let _ = index;
        unimplemented!()
    }
}

/// A DSpark drafter on disk.
pub struct DrafterCheckpoint {}

/// One drafter layer, with queries and keys as the file has them (see
/// [`DrafterConfig::rope_is_neox_style`]).
pub struct DrafterLayerWeights<'a> {
    /// `[hidden]`
    pub input_norm: Vec<f32>,
    /// `[query_heads * head_dim, hidden]`
    pub query: HostMatrix<'a>,
    /// `[key_value_heads * head_dim, hidden]`
    pub key: HostMatrix<'a>,
    /// `[key_value_heads * head_dim, hidden]`
    pub value: HostMatrix<'a>,
    /// `[hidden, query_heads * head_dim]`
    pub output: HostMatrix<'a>,
    /// `[head_dim]`
    pub query_norm: Vec<f32>,
    /// `[head_dim]`
    pub key_norm: Vec<f32>,
    /// `[hidden]`
    pub post_attention_norm: Vec<f32>,
    /// `[intermediate, hidden]`
    pub gate: HostMatrix<'a>,
    /// `[intermediate, hidden]`
    pub up: HostMatrix<'a>,
    /// `[hidden, intermediate]`
    pub down: HostMatrix<'a>,
}

/// What stands before and after the drafter's layers.
pub struct DrafterHead<'a> {
    /// `[hidden, taps * hidden]`
    pub fuse: HostMatrix<'a>,
    /// `[hidden]`: on the fused context.
    pub hidden_norm: Vec<f32>,
    /// `[hidden]`: on the last layer's output.
    pub final_norm: Vec<f32>,
    /// `[vocabulary, markov_rank]`
    pub markov_previous: HostMatrix<'a>,
    /// `[vocabulary, markov_rank]`
    pub markov_next: HostMatrix<'a>,
    /// `[hidden + markov_rank]` weights and the bias.
    pub confidence: Option<(Vec<f32>, f32)>,
}

impl DrafterCheckpoint {
    /// Reads and checks the drafter in `directory`, and that it fits `target`: hidden size, vocabulary, layer
    /// count, tap ids.
    pub fn open(directory: &Path, target: &TargetConfig) -> Result<Self, CheckpointError> {
        let _ = (directory, target);
        unimplemented!()
    }

    /// Its configuration.
    pub fn config(&self) -> &DrafterConfig {
        unimplemented!()
    }

    /// Everything outside the layers.
    pub fn head(&self) -> Result<DrafterHead<'_>, CheckpointError> {
        unimplemented!()
    }

    /// Layer `index`.
    pub fn layer(&self, index: usize) -> Result<DrafterLayerWeights<'_>, CheckpointError> {
        let _ = index;
        unimplemented!()
    }
}
