//! What `config.json` says, parsed into types that cannot be wrong (docs/lfm2.md section 1, docs/dspark.md
//! section 1.1).

mod drafter;
mod fields;
mod quantization;
mod target;

use std::collections::BTreeMap;

pub(crate) use drafter::{check_fit, parse_drafter_config, read_drafter_config};
pub(crate) use fields::{read_json, shorten};
pub(crate) use target::{parse_target_config, read_target_config};

/// The model families of `model_type`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    /// `lfm2`: every feed-forward is dense.
    Lfm2,
    /// `lfm2_moe`: a few dense lead layers, then mixtures of experts.
    Lfm2Moe,
}

/// The operator of a layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LayerKind {
    /// `"conv"`: the gated short convolution.
    Conv,
    /// `"full_attention"`: grouped-query attention.
    Attention,
}

/// The mixture-of-experts fields.
#[derive(Debug, Clone, PartialEq)]
pub struct MixtureConfig {
    /// `num_experts`
    pub experts: usize,
    /// `num_experts_per_tok`
    pub picks: usize,
    /// `moe_intermediate_size`
    pub intermediate: usize,
    /// `num_dense_layers`: layers before the first mixture.
    pub dense_layers: usize,
    /// `norm_topk_prob`
    pub normalize: bool,
    /// `use_expert_bias`
    pub use_bias: bool,
    /// `routed_scaling_factor`
    pub scale: f32,
}

/// MLX affine quantization: `quantization` (or its copy `quantization_config`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuantizationConfig {
    /// Codes' width for every quantized matrix without an override: 4 or 8.
    pub bits: u32,
    /// Inputs a group: 32, 64 or 128.
    pub group_size: usize,
    /// Per tensor path (`model.layers.2.feed_forward.gate`): other widths, or `None` for not quantized.
    pub overrides: BTreeMap<String, Option<(u32, usize)>>,
}

impl QuantizationConfig {
    /// Bits and group size of the matrix at `path`, with or without its `model.` prefix; `None` when it is not
    /// quantized.
    pub fn of(&self, path: &str) -> Option<(u32, usize)> {
        let key = quantization::override_key(path);
        self.overrides.get(&key).copied().unwrap_or(Some((self.bits, self.group_size)))
    }
}

/// A target's configuration.
#[derive(Debug, Clone, PartialEq)]
pub struct TargetConfig {
    /// `model_type`
    pub family: Family,
    /// `vocab_size`
    pub vocabulary: usize,
    /// `hidden_size`
    pub hidden: usize,
    /// `layer_types`, or made from `full_attn_idxs`: one entry a layer.
    pub layers: Vec<LayerKind>,
    /// `num_attention_heads`
    pub query_heads: usize,
    /// `num_key_value_heads`
    pub key_value_heads: usize,
    /// `hidden / query_heads`
    pub head_dim: usize,
    /// Width of the dense feed-forwards, taken from the shape of the first one's gate (docs/lfm2.md section
    /// 1.3); 0 when no layer is dense.
    pub intermediate: usize,
    /// Present for [`Family::Lfm2Moe`].
    pub mixture: Option<MixtureConfig>,
    /// `norm_eps`
    pub norm_epsilon: f32,
    /// `rope_parameters.rope_theta`, else `rope_theta`, else 1e6.
    pub rope_theta: f32,
    /// `max_position_embeddings`
    pub max_positions: usize,
    /// `bos_token_id`
    pub bos_token: Option<u32>,
    /// `eos_token_id` of config.json and generation_config.json, both may be a number or a list; deduplicated.
    pub eos_tokens: Vec<u32>,
    /// Present when matrices are quantized.
    pub quantization: Option<QuantizationConfig>,
    /// `synthetic`: how the weights were made, when they were made for measurements and not trained.
    pub synthetic: Option<String>,
}

/// A DSpark drafter's configuration.
#[derive(Debug, Clone, PartialEq)]
pub struct DrafterConfig {
    /// `vocab_size`
    pub vocabulary: usize,
    /// `hidden_size`
    pub hidden: usize,
    /// `intermediate_size`
    pub intermediate: usize,
    /// `num_hidden_layers`
    pub layers: usize,
    /// `num_attention_heads`
    pub query_heads: usize,
    /// `num_key_value_heads`
    pub key_value_heads: usize,
    /// `head_dim`
    pub head_dim: usize,
    /// `rms_norm_eps`
    pub norm_epsilon: f32,
    /// `rope_theta` at top level, else in `rope_parameters`.
    pub rope_theta: f32,
    /// `rope_is_neox_style`: true for half-split pairs, false for interleaved ones.
    pub rope_is_neox_style: bool,
    /// `max_position_embeddings`
    pub max_positions: usize,
    /// `block_size`: drafts a block, and its rows.
    pub block: usize,
    /// `dflash_config.mask_token_id`
    pub mask_token: u32,
    /// `dflash_config.target_layer_ids`: the drafter reads the residual stream after these layers.
    pub taps: Vec<usize>,
    /// `dflash_config.num_target_layers`
    pub target_layers: usize,
    /// `markov_rank`
    pub markov_rank: usize,
    /// `enable_confidence_head`
    pub has_confidence: bool,
}
