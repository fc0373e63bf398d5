//! A checkpoint's tensors by role, whatever the file calls them.

use forerunner_tensor::{ExpertWeights, HostMatrix};

use crate::archive::Archive;
use crate::target::ExpertSlots;

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
#[expect(clippy::large_enum_variant, reason = "one lives at a time, and is taken apart at once")]
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
        /// One entry an expert, read when it is asked for.
        experts: Experts<'a>,
    },
}

/// The experts of a layer, each read when it is asked for, so that no more of them are in memory than are kept.
pub struct Experts<'a> {
    archive: &'a Archive,
    slots: std::slice::Iter<'a, ExpertSlots>,
}

impl<'a> Experts<'a> {
    pub(crate) fn new(archive: &'a Archive, slots: &'a [ExpertSlots]) -> Self {
        Experts { archive, slots: slots.iter() }
    }
}

impl<'a> Iterator for Experts<'a> {
    type Item = ExpertWeights<'a>;

    fn next(&mut self) -> Option<ExpertWeights<'a>> {
        let slots = self.slots.next()?;
        Some(ExpertWeights {
            gate: slots.gate.read(self.archive),
            up: slots.up.read(self.archive),
            down: slots.down.read(self.archive),
        })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.slots.size_hint()
    }
}

impl ExactSizeIterator for Experts<'_> {}

/// One drafter layer, with queries and keys as the file has them (see
/// [`DrafterConfig::rope_is_neox_style`](crate::DrafterConfig::rope_is_neox_style)).
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
