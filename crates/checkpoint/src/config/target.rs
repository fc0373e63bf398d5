//! `config.json` and `generation_config.json` of a target.

use std::path::Path;

use serde_json::{Map, Value};

use super::fields::{Fields, read_json};
use super::quantization::read_quantization;
use super::{Family, LayerKind, MixtureConfig, TargetConfig};
use crate::CheckpointError;

/// More layers than any released model by a factor of ten: a larger number is a mistake.
pub(super) const LAYERS_MAX: usize = 1024;

/// Data types of the tensors, as `dtype` calls them.
const DATA_TYPES: [&str; 3] = ["bfloat16", "float16", "float32"];

/// Base of the rotary frequencies when the configuration names none (docs/lfm2.md section 1.1).
const ROPE_THETA_DEFAULT: f32 = 1e6;

/// The configuration in `directory`, but for `intermediate`, which is the weights' to tell.
pub(crate) fn read_target_config(directory: &Path) -> Result<TargetConfig, CheckpointError> {
    let file = config_file(directory)?;
    let config = parse_target_config(&file, &read_json(&file)?)?;
    with_generation_config(config, directory)
}

/// The configuration that `json` says, which is called `file` in errors; but for `intermediate`.
pub(crate) fn parse_target_config(
    file: &Path,
    json: &Map<String, Value>,
) -> Result<TargetConfig, CheckpointError> {
    let fields = Fields::new(file, json);
    let family = match fields.required_text("model_type", &["lfm2", "lfm2_moe"])? {
        "lfm2" => Family::Lfm2,
        _ => Family::Lfm2Moe,
    };
    check_supported(&fields)?;
    let vocabulary = fields.count("vocab_size")?;
    let layers = read_layers(&fields)?;
    let heads = read_heads(&fields)?;
    let mixture = match family {
        Family::Lfm2 => None,
        Family::Lfm2Moe => Some(read_mixture(&fields, layers.len())?),
    };
    Ok(TargetConfig {
        family,
        vocabulary,
        hidden: heads.hidden,
        layers,
        query_heads: heads.query_heads,
        key_value_heads: heads.key_value_heads,
        head_dim: heads.head_dim,
        intermediate: 0,
        mixture,
        norm_epsilon: fields.number("norm_eps", 1e-30, 1.0)?,
        rope_theta: read_rope_theta(&fields)?,
        max_positions: fields.count("max_position_embeddings")?,
        bos_token: read_tokens(&fields, "bos_token_id", vocabulary)?.first().copied(),
        eos_tokens: read_tokens(&fields, "eos_token_id", vocabulary)?,
        quantization: read_quantization(&fields)?,
        synthetic: read_synthetic(&fields)?,
    })
}

/// What the configuration says of how the weights were made, when they were made and not trained.
fn read_synthetic(fields: &Fields) -> Result<Option<String>, CheckpointError> {
    match fields.value("synthetic") {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(other) => Err(fields.invalid("synthetic", other, "a text that says how the weights were made")),
    }
}

/// The path of config.json, once directory and file are known to exist.
pub(super) fn config_file(directory: &Path) -> Result<std::path::PathBuf, CheckpointError> {
    if !directory.is_dir() {
        return Err(CheckpointError::NotADirectory { path: directory.into() });
    }
    let file = directory.join("config.json");
    if !file.exists() {
        let accepted = "config.json of model_type lfm2, lfm2_moe, or of a DSpark drafter";
        return Err(CheckpointError::MissingFile { path: file, accepted });
    }
    Ok(file)
}

/// Refuses variants of the architecture that this engine does not compute.
fn check_supported(fields: &Fields) -> Result<(), CheckpointError> {
    fields.only_text("dtype", &DATA_TYPES)?;
    fields.only_text("torch_dtype", &DATA_TYPES)?;
    fields.only_flag("conv_bias", false)?;
    fields.only_flag("tie_embedding", true)?;
    fields.only_flag("tie_word_embeddings", true)?;
    if let Some(length) = fields.value("conv_L_cache").filter(|length| length.as_u64() != Some(3)) {
        return Err(fields.unknown("conv_L_cache", length, "3"));
    }
    check_rope_type(fields)
}

/// Refuses scaled rotary embeddings, in either place where they are asked for.
pub(super) fn check_rope_type(fields: &Fields) -> Result<(), CheckpointError> {
    for name in ["rope_parameters", "rope_scaling"] {
        let Some(section) = fields.section(name)? else { continue };
        section.only_text("rope_type", &["default"])?;
        section.only_text("type", &["default"])?;
    }
    Ok(())
}

/// Sizes of the attention heads.
pub(super) struct Heads {
    pub(super) hidden: usize,
    pub(super) query_heads: usize,
    pub(super) key_value_heads: usize,
    pub(super) head_dim: usize,
}

fn read_heads(fields: &Fields) -> Result<Heads, CheckpointError> {
    let hidden = fields.count("hidden_size")?;
    let (query_heads, key_value_heads) = read_head_counts(fields)?;
    let head_dim = hidden / query_heads;
    if !hidden.is_multiple_of(query_heads) || !head_dim.is_multiple_of(2) {
        let accepted = format!("a number that divides hidden_size {hidden} into heads of even width");
        return Err(fields.invalid("num_attention_heads", &Value::from(query_heads), &accepted));
    }
    if let Some(found) = fields.value("head_dim").filter(|found| found.as_u64() != Some(head_dim as u64)) {
        let accepted = format!("{head_dim}, which is hidden_size over num_attention_heads");
        return Err(fields.invalid("head_dim", found, &accepted));
    }
    Ok(Heads { hidden, query_heads, key_value_heads, head_dim })
}

/// `num_attention_heads` and `num_key_value_heads`, the one a multiple of the other.
pub(super) fn read_head_counts(fields: &Fields) -> Result<(usize, usize), CheckpointError> {
    let query_heads = fields.count("num_attention_heads")?;
    let key_value_heads = fields.count("num_key_value_heads")?;
    if !query_heads.is_multiple_of(key_value_heads) {
        let accepted = format!("a divisor of num_attention_heads {query_heads}");
        return Err(fields.invalid("num_key_value_heads", &Value::from(key_value_heads), &accepted));
    }
    Ok((query_heads, key_value_heads))
}

fn read_layers(fields: &Fields) -> Result<Vec<LayerKind>, CheckpointError> {
    let count = fields.count_in("num_hidden_layers", 1, LAYERS_MAX)?;
    if let Some(list) = fields.list("layer_types")? {
        if list.len() != count {
            let accepted = format!("{count} entries, as num_hidden_layers says, not {}", list.len());
            return Err(fields.invalid("layer_types", &Value::from(list), &accepted));
        }
        return list.iter().enumerate().map(|(index, name)| read_layer_kind(fields, index, name)).collect();
    }
    let Some(indices) = fields.list("full_attn_idxs")? else {
        return Err(
            fields.missing("layer_types", "a list of \"conv\" and \"full_attention\", or full_attn_idxs")
        );
    };
    let mut layers = vec![LayerKind::Conv; count];
    for index in indices {
        layers[fields.whole("full_attn_idxs", index, 0, count - 1)?] = LayerKind::Attention;
    }
    Ok(layers)
}

fn read_layer_kind(fields: &Fields, index: usize, name: &Value) -> Result<LayerKind, CheckpointError> {
    match name.as_str() {
        Some("conv") => Ok(LayerKind::Conv),
        Some("full_attention") => Ok(LayerKind::Attention),
        _ => Err(fields.unknown(&format!("layer_types[{index}]"), name, "\"conv\", \"full_attention\"")),
    }
}

fn read_mixture(fields: &Fields, layers: usize) -> Result<MixtureConfig, CheckpointError> {
    let experts = fields.count("num_experts")?;
    Ok(MixtureConfig {
        experts,
        picks: fields.count_in("num_experts_per_tok", 1, experts)?,
        intermediate: fields.count("moe_intermediate_size")?,
        dense_layers: fields.count_in("num_dense_layers", 0, layers)?,
        normalize: fields.flag("norm_topk_prob")?.unwrap_or(true),
        use_bias: fields.flag("use_expert_bias")?.unwrap_or(true),
        scale: fields.number_or("routed_scaling_factor", 1e-6, 1e6, 1.0)?,
    })
}

/// `rope_parameters.rope_theta` wins over `rope_theta`.
fn read_rope_theta(fields: &Fields) -> Result<f32, CheckpointError> {
    const ACCEPTED: (f64, f64) = (1.0, 1e12);
    let outer = fields.number_or("rope_theta", ACCEPTED.0, ACCEPTED.1, ROPE_THETA_DEFAULT)?;
    match fields.section("rope_parameters")? {
        Some(nested) => nested.number_or("rope_theta", ACCEPTED.0, ACCEPTED.1, outer),
        None => Ok(outer),
    }
}

/// A token id or a list of them; none when absent.
fn read_tokens(fields: &Fields, name: &str, vocabulary: usize) -> Result<Vec<u32>, CheckpointError> {
    let single;
    let values = match fields.value(name) {
        None => return Ok(Vec::new()),
        Some(Value::Array(list)) => list.as_slice(),
        Some(value) => {
            single = [value.clone()];
            &single
        }
    };
    let mut tokens = Vec::new();
    for value in values {
        let token = fields.whole(name, value, 0, vocabulary - 1)? as u32;
        if !tokens.contains(&token) {
            tokens.push(token);
        }
    }
    Ok(tokens)
}

/// Adds the end tokens of generation_config.json, when there is one.
fn with_generation_config(
    mut config: TargetConfig,
    directory: &Path,
) -> Result<TargetConfig, CheckpointError> {
    let file = directory.join("generation_config.json");
    if !file.exists() {
        return Ok(config);
    }
    let json = read_json(&file)?;
    for token in read_tokens(&Fields::new(&file, &json), "eos_token_id", config.vocabulary)? {
        if !config.eos_tokens.contains(&token) {
            config.eos_tokens.push(token);
        }
    }
    Ok(config)
}
