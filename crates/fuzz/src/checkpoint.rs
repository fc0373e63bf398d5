//! Files of a checkpoint: safetensors headers, the index of shards, configurations.

use std::path::Path;

use forerunner_checkpoint::{DrafterCheckpoint, TargetCheckpoint, TargetConfig};
use serde_json::{Map, Value, json};

use crate::Target;
use crate::scratch::Scratch;

/// `model.safetensors`, under a configuration that fits the seeds.
pub(crate) const SAFETENSORS: Target = Target {
    name: "safetensors",
    run: |bytes| open(&[("config.json", config().as_bytes()), ("model.safetensors", bytes)]),
    seeds: || vec![safetensors(), vec![0; 8], u64::MAX.to_le_bytes().to_vec(), with_header("{}", 0)],
    words: &[
        "BF16",
        "F32",
        "U32",
        "data_offsets",
        "shape",
        "dtype",
        "__metadata__",
        "model.embed_tokens.weight",
    ],
    runs: 800,
};

/// `model.safetensors.index.json`, beside a file that it may name.
pub(crate) const INDEX: Target = Target {
    name: "index",
    run: |bytes| {
        let weights = safetensors();
        open(&[
            ("config.json", config().as_bytes()),
            ("model.safetensors.index.json", bytes),
            ("model.safetensors", &weights),
        ]);
    },
    seeds: || {
        let names = tensors().into_iter().map(|(name, _)| (name, json!("model.safetensors")));
        let map: Map<String, Value> = names.collect();
        vec![json!({"metadata": {"total_size": 1}, "weight_map": map}).to_string().into_bytes()]
    },
    words: &["weight_map", "../model.safetensors", "/dev/zero", "config.json", "model.safetensors"],
    runs: 600,
};

/// `config.json` of a target.
pub(crate) const CONFIG: Target = Target {
    name: "config",
    run: |bytes| {
        let weights = safetensors();
        open(&[("config.json", bytes), ("model.safetensors", &weights)]);
    },
    seeds: || vec![config().into_bytes(), include_bytes!("../../../assets/demo/target/config.json").to_vec()],
    words: &[
        "lfm2_moe",
        "quantization",
        "group_size",
        "bits",
        "rope_parameters",
        "layer_types",
        "num_experts",
    ],
    runs: 800,
};

/// `config.json` of a drafter, alone and against a target.
pub(crate) const DRAFTER_CONFIG: Target = Target {
    name: "drafter_config",
    run: |bytes| {
        let scratch = Scratch::new(&[("config.json", bytes), ("model.safetensors", &safetensors())]);
        check(DrafterCheckpoint::open_unpaired(scratch.path()).err(), scratch.path());
        check(DrafterCheckpoint::open(scratch.path(), &demo_target()).err(), scratch.path());
    },
    seeds: || vec![include_bytes!("../../../assets/demo/drafter/config.json").to_vec()],
    words: &["dspark", "block_size", "target_layer_ids", "markov_rank", "mask_token_id", "dflash_config"],
    runs: 600,
};

/// Opens a target of these files and reads all of what could be opened.
fn open(files: &[(&str, &[u8])]) {
    let scratch = Scratch::new(files);
    match TargetCheckpoint::open(scratch.path()) {
        Ok(checkpoint) => {
            for layer in 0..checkpoint.config().layers.len() {
                drop(checkpoint.layer(layer));
            }
            drop((checkpoint.embedding(), checkpoint.final_norm(), checkpoint.summary()));
        }
        Err(error) => check(Some(error), scratch.path()),
    }
}

/// A refusal names a file of the folder that it is about.
fn check(error: Option<forerunner_checkpoint::CheckpointError>, folder: &Path) {
    if let Some(error) = error {
        let (text, folder) = (error.to_string(), folder.display().to_string());
        assert!(text.contains(&folder), "no file is named: {text}");
        assert!(text.len() < 4096, "{} bytes of complaint", text.len());
    }
}

fn demo_target() -> TargetConfig {
    static CONFIG: std::sync::OnceLock<TargetConfig> = std::sync::OnceLock::new();
    CONFIG
        .get_or_init(|| {
            let demo = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../assets/demo/target");
            TargetCheckpoint::open(&demo).expect("the demo model").config().clone()
        })
        .clone()
}

const HIDDEN: usize = 8;
const WIDTH: usize = 8;
const VOCABULARY: usize = 4;

/// A target of one convolution and one attention layer, so small that its file is a page.
fn config() -> String {
    json!({
        "model_type": "lfm2", "vocab_size": VOCABULARY, "hidden_size": HIDDEN, "num_hidden_layers": 2,
        "layer_types": ["conv", "full_attention"], "num_attention_heads": 2, "num_key_value_heads": 1,
        "norm_eps": 1e-5, "rope_theta": 1e6, "max_position_embeddings": 128, "conv_L_cache": 3,
        "intermediate_size": WIDTH, "block_auto_adjust_ff_dim": false, "tie_embedding": true,
        "eos_token_id": 1, "bos_token_id": 0, "pad_token_id": 2,
    })
    .to_string()
}

/// The names and shapes of its tensors.
fn tensors() -> Vec<(String, Vec<usize>)> {
    let mut tensors = vec![
        ("model.embed_tokens.weight".to_owned(), vec![VOCABULARY, HIDDEN]),
        ("model.embedding_norm.weight".to_owned(), vec![HIDDEN]),
    ];
    let mut add = |layer: usize, name: &str, shape: &[usize]| {
        tensors.push((format!("model.layers.{layer}.{name}.weight"), shape.to_vec()));
    };
    for layer in 0..2 {
        add(layer, "operator_norm", &[HIDDEN]);
        add(layer, "ffn_norm", &[HIDDEN]);
        add(layer, "feed_forward.w1", &[WIDTH, HIDDEN]);
        add(layer, "feed_forward.w2", &[HIDDEN, WIDTH]);
        add(layer, "feed_forward.w3", &[WIDTH, HIDDEN]);
    }
    add(0, "conv.in_proj", &[3 * HIDDEN, HIDDEN]);
    add(0, "conv.conv", &[HIDDEN, 1, 3]);
    add(0, "conv.out_proj", &[HIDDEN, HIDDEN]);
    add(1, "self_attn.q_proj", &[HIDDEN, HIDDEN]);
    add(1, "self_attn.k_proj", &[HIDDEN / 2, HIDDEN]);
    add(1, "self_attn.v_proj", &[HIDDEN / 2, HIDDEN]);
    add(1, "self_attn.out_proj", &[HIDDEN, HIDDEN]);
    add(1, "self_attn.q_layernorm", &[HIDDEN / 2]);
    add(1, "self_attn.k_layernorm", &[HIDDEN / 2]);
    tensors
}

/// Its file.
fn safetensors() -> Vec<u8> {
    let mut header = Map::new();
    let mut end = 0;
    for (name, shape) in tensors() {
        let begin = end;
        end += 2 * shape.iter().product::<usize>();
        header.insert(name, json!({"dtype": "BF16", "shape": shape, "data_offsets": [begin, end]}));
    }
    with_header(&Value::Object(header).to_string(), end)
}

fn with_header(header: &str, data_bytes: usize) -> Vec<u8> {
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header.bytes());
    bytes.resize(bytes.len() + data_bytes, 0x3c);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_seeds_are_right() {
        let scratch =
            Scratch::new(&[("config.json", config().as_bytes()), ("model.safetensors", &safetensors())]);
        TargetCheckpoint::open(scratch.path()).map(drop).expect("the smallest target");
    }
}
