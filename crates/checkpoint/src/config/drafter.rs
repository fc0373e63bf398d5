//! `config.json` of a DSpark drafter, and whether it was made for the target.

use std::path::Path;

use serde_json::{Map, Value};

use super::fields::{Fields, read_json};
use super::target::{LAYERS_MAX, check_rope_type, config_file, read_head_counts};
use super::{DrafterConfig, TargetConfig};
use crate::CheckpointError;

/// The configuration in `directory`, whatever target it is for.
pub(crate) fn read_drafter_config(directory: &Path) -> Result<DrafterConfig, CheckpointError> {
    let file = config_file(directory)?;
    let json = read_json(&file)?;
    parse_drafter_config(&file, &json)
}

/// The configuration that `json` says, which is called `file` in errors.
pub(crate) fn parse_drafter_config(
    file: &Path,
    json: &Map<String, Value>,
) -> Result<DrafterConfig, CheckpointError> {
    read_config(&Fields::new(file, json))
}

/// The drafter in `directory` reads `target`'s residual stream, embeds with its table and drafts with its head.
pub(crate) fn check_fit(
    directory: &Path,
    config: &DrafterConfig,
    target: &TargetConfig,
) -> Result<(), CheckpointError> {
    let unfit = |field: &str, found: usize, accepted: String| CheckpointError::Unfit {
        path: directory.join("config.json"),
        field: field.into(),
        found: found.to_string(),
        accepted,
    };
    let equalities = [
        ("hidden_size", config.hidden, target.hidden),
        ("vocab_size", config.vocabulary, target.vocabulary),
        ("dflash_config.num_target_layers", config.target_layers, target.layers.len()),
    ];
    for (field, found, accepted) in equalities {
        if found != accepted {
            return Err(unfit(field, found, format!("{accepted}, as the target has")));
        }
    }
    // The reference records the last layer's output after the final norm, so no drafter is trained on it.
    let last = target.layers.len() - 1;
    match config.taps.iter().find(|tap| **tap >= last) {
        Some(tap) => {
            let accepted = format!("layers before the target's last, which is {last}");
            Err(unfit("dflash_config.target_layer_ids", *tap, accepted))
        }
        None => Ok(()),
    }
}

fn read_config(fields: &Fields) -> Result<DrafterConfig, CheckpointError> {
    fields.required_text("model_type", &["qwen3"])?;
    let inner = fields.section("dflash_config")?.ok_or_else(|| {
        fields.missing("dflash_config", "an object with mask_token_id, target_layer_ids, num_target_layers")
    })?;
    check_supported(fields)?;
    check_supported_block(fields)?;
    check_supported_block(&inner)?;
    let layers = fields.count_in("num_hidden_layers", 1, LAYERS_MAX)?;
    check_layer_types(fields, layers)?;
    let vocabulary = fields.count("vocab_size")?;
    let hidden = fields.count("hidden_size")?;
    let (query_heads, key_value_heads) = read_head_counts(fields)?;
    let has_confidence = fields.flag("enable_confidence_head")?.unwrap_or(false);
    if has_confidence {
        fields.only_flag("confidence_head_with_markov", true)?;
    }
    let neox = fields.flag("rope_is_neox_style")?;
    Ok(DrafterConfig {
        vocabulary,
        hidden,
        intermediate: fields.count("intermediate_size")?,
        layers,
        query_heads,
        key_value_heads,
        head_dim: read_head_dim(fields, hidden, query_heads)?,
        norm_epsilon: fields.number("rms_norm_eps", 1e-30, 1.0)?,
        rope_theta: read_rope_theta(fields)?,
        rope_is_neox_style: neox.ok_or_else(|| {
            fields.missing("rope_is_neox_style", "true (half-split) or false (interleaved)")
        })?,
        max_positions: fields.count("max_position_embeddings")?,
        block: if inner.value("block_size").is_some() { &inner } else { fields }.count("block_size")?,
        mask_token: inner.count_in("mask_token_id", 0, vocabulary - 1)? as u32,
        taps: read_taps(&inner)?,
        target_layers: inner.count_in("num_target_layers", 1, LAYERS_MAX)?,
        markov_rank: fields.count("markov_rank")?,
        has_confidence,
    })
}

/// Refuses variants of the drafter that this engine does not compute.
fn check_supported(fields: &Fields) -> Result<(), CheckpointError> {
    if let Some(kind) = fields.value("speculators_model_type") {
        // Its slots are trained one position off from DeepSpec's (docs/dspark.md section 3.2).
        return Err(fields.unknown(
            "speculators_model_type",
            kind,
            "a DeepSpec checkpoint, without this field",
        ));
    }
    fields.required_text("markov_head_type", &["vanilla"])?;
    fields.required_text("hidden_act", &["silu"])?;
    fields.only_flag("attention_bias", false)?;
    for name in ["dtype", "torch_dtype"] {
        fields.only_text(name, &["bfloat16", "float16", "float32"])?;
    }
    for name in ["quantization", "quantization_config"] {
        if let Some(found) = fields.value(name) {
            return Err(fields.unknown(name, found, "an unquantized drafter, without this field"));
        }
    }
    check_rope_type(fields)
}

/// Refuses blocks that are laid out in another way; the fields may stand at either level.
fn check_supported_block(fields: &Fields) -> Result<(), CheckpointError> {
    fields.only_flag("dspark_bonus_anchor", false)?;
    fields.only_flag("sample_from_anchor", true)?;
    fields.only_flag("is_causal", false)
}

fn check_layer_types(fields: &Fields, layers: usize) -> Result<(), CheckpointError> {
    let Some(list) = fields.list("layer_types")? else { return Ok(()) };
    if list.len() != layers {
        let accepted = format!("{layers} entries, as num_hidden_layers says, not {}", list.len());
        return Err(fields.invalid("layer_types", &Value::from(list), &accepted));
    }
    match list.iter().enumerate().find(|(_, kind)| kind.as_str() != Some("full_attention")) {
        Some((index, kind)) => {
            Err(fields.unknown(&format!("layer_types[{index}]"), kind, "\"full_attention\""))
        }
        None => Ok(()),
    }
}

fn read_head_dim(fields: &Fields, hidden: usize, query_heads: usize) -> Result<usize, CheckpointError> {
    let head_dim = match fields.value("head_dim") {
        Some(_) => fields.count("head_dim")?,
        None if hidden.is_multiple_of(query_heads) => hidden / query_heads,
        None => return Err(fields.missing("head_dim", "the width of a head")),
    };
    if !head_dim.is_multiple_of(2) {
        return Err(fields.invalid("head_dim", &Value::from(head_dim), "an even number"));
    }
    Ok(head_dim)
}

/// `rope_theta` wins over `rope_parameters.rope_theta`; one of them must be there.
fn read_rope_theta(fields: &Fields) -> Result<f32, CheckpointError> {
    const ACCEPTED: (f64, f64) = (1.0, 1e12);
    let nested = fields.section("rope_parameters")?;
    let holder = match &nested {
        Some(nested) if fields.value("rope_theta").is_none() => nested,
        _ => fields,
    };
    holder.number("rope_theta", ACCEPTED.0, ACCEPTED.1)
}

fn read_taps(inner: &Fields) -> Result<Vec<usize>, CheckpointError> {
    const FIELD: &str = "target_layer_ids";
    const ACCEPTED: &str = "at least one layer of the target, ascending";
    let list = inner.list(FIELD)?.ok_or_else(|| inner.missing(FIELD, ACCEPTED))?;
    let taps =
        list.iter().map(|layer| inner.whole(FIELD, layer, 0, LAYERS_MAX)).collect::<Result<Vec<_>, _>>()?;
    if taps.is_empty() || !taps.is_sorted_by(|one, next| one < next) {
        return Err(inner.invalid(FIELD, &Value::from(list), ACCEPTED));
    }
    Ok(taps)
}
