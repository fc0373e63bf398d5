//! `config.json` of what was grown.

use forerunner_checkpoint::LayerKind;
use serde_json::{Map, Value, json};

use crate::base::{Base, Format};
use crate::replicas::GROUP;
use crate::{Shape, Specification};

/// What a grown checkpoint is called, wherever it is shown.
pub(crate) fn synthetic(specification: &Specification) -> String {
    format!("synthetic {specification}")
}

/// The target's; `synthetic` says that and how it was made.
pub(crate) fn target_config(base: &Base, shape: &Shape, synthetic: &str) -> Map<String, Value> {
    let config = &base.target;
    let replicas = shape.hidden / config.hidden;
    let mixture = config.mixture.as_ref().expect("a base has experts");
    let kind = |kind: LayerKind| match kind {
        LayerKind::Attention => "full_attention",
        LayerKind::Conv => "conv",
    };
    let mut json = object(json!({
        "architectures": ["Lfm2MoeForCausalLM"],
        "model_type": "lfm2_moe",
        "synthetic": synthetic,
        "dtype": "bfloat16",
        "vocab_size": shape.vocabulary,
        "hidden_size": shape.hidden,
        "intermediate_size": shape.dense_width,
        "moe_intermediate_size": shape.expert_width,
        "num_hidden_layers": shape.layers,
        "layer_types": shape.kinds().into_iter().map(kind).collect::<Vec<_>>(),
        "num_attention_heads": config.query_heads * replicas,
        "num_key_value_heads": config.key_value_heads * replicas,
        "num_dense_layers": shape.dense_layers,
        "num_experts": shape.experts,
        "num_experts_per_tok": mixture.picks,
        "norm_topk_prob": mixture.normalize,
        "use_expert_bias": true,
        "routed_scaling_factor": mixture.scale,
        "conv_L_cache": 3,
        "conv_bias": false,
        "norm_eps": config.norm_epsilon,
        "rope_parameters": {"rope_theta": config.rope_theta, "rope_type": "default"},
        "max_position_embeddings": shape.positions,
        "tie_word_embeddings": true,
        "bos_token_id": config.bos_token,
        "eos_token_id": config.eos_tokens,
    }));
    if base.format == Format::Bits4 {
        let mut quantization = object(json!({"group_size": GROUP, "bits": 4, "mode": "affine"}));
        for layer in shape.dense_layers..shape.layers {
            let router = json!({"group_size": GROUP, "bits": 8});
            quantization.insert(format!("model.layers.{layer}.feed_forward.gate"), router);
        }
        for name in ["quantization", "quantization_config"] {
            json.insert(name.into(), Value::Object(quantization.clone()));
        }
    }
    json
}

/// The drafter's, with its taps.
pub(crate) fn drafter_config(
    base: &Base,
    shape: &Shape,
    taps: &[usize],
    synthetic: &str,
) -> Map<String, Value> {
    let config = &base.drafter;
    let replicas = shape.hidden / config.hidden;
    object(json!({
        "architectures": ["Lfm2DSparkDraftModel"],
        "model_type": "qwen3",
        "synthetic": synthetic,
        "dtype": "bfloat16",
        "vocab_size": shape.vocabulary,
        "hidden_size": shape.hidden,
        "intermediate_size": shape.drafter_width,
        "num_hidden_layers": config.layers,
        "layer_types": vec!["full_attention"; config.layers],
        "num_attention_heads": config.query_heads * replicas,
        "num_key_value_heads": config.key_value_heads * replicas,
        "head_dim": config.head_dim,
        "hidden_act": "silu",
        "rms_norm_eps": config.norm_epsilon,
        "rope_theta": config.rope_theta,
        "rope_is_neox_style": config.rope_is_neox_style,
        "max_position_embeddings": shape.positions,
        "block_size": config.block,
        "attention_bias": false,
        "tie_word_embeddings": true,
        "markov_rank": shape.markov_rank,
        "markov_head_type": "vanilla",
        "enable_confidence_head": config.has_confidence,
        "dflash_config": {
            "mask_token_id": config.mask_token,
            "target_layer_ids": taps,
            "num_target_layers": shape.layers,
        },
    }))
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        other => unreachable!("{other} is not an object"),
    }
}
