//! Tiny checkpoints made by hand, so that a test can break one thing in them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use forerunner_checkpoint::{
    DrafterCheckpoint, FeedForwardWeights, OperatorWeights, TargetCheckpoint, TargetConfig,
};
use forerunner_tensor::{HostMatrix, bf16};
use serde_json::{Value, json};

pub(crate) const HIDDEN: usize = 32;
pub(crate) const HEAD_DIM: usize = 16;
pub(crate) const VOCABULARY: usize = 10;
pub(crate) const DENSE_WIDTH: usize = 64;
pub(crate) const EXPERT_WIDTH: usize = 32;
pub(crate) const EXPERTS: usize = 3;

/// A directory of its own that goes away with the value.
pub(crate) struct Scratch(pub(crate) PathBuf);

impl Scratch {
    pub(crate) fn new() -> Self {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let name =
            format!("forerunner-checkpoint-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).expect("a directory for temporary files");
        Scratch(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // Leftovers in the temporary directory harm nobody.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A tensor as the file has it.
#[derive(Clone)]
pub(crate) struct Tensor {
    pub(crate) data_type: String,
    pub(crate) shape: Vec<usize>,
    pub(crate) bytes: Vec<u8>,
}

impl Tensor {
    /// Small bf16 values that differ from name to name.
    pub(crate) fn new(name: &str, shape: &[usize]) -> Self {
        let seed = name.bytes().fold(7u32, |sum, byte| sum.wrapping_mul(31).wrapping_add(u32::from(byte)));
        let values = (0..shape.iter().product::<usize>() as u32).map(|index| {
            let mixed = seed.wrapping_add(index).wrapping_mul(2_654_435_761) >> 20;
            bf16::from_f32(mixed as f32 / 2048.0 - 1.0)
        });
        Tensor {
            data_type: "BF16".into(),
            shape: shape.into(),
            bytes: values.flat_map(|value| value.to_le_bytes()).collect(),
        }
    }

    /// Its bf16 values.
    pub(crate) fn values(&self) -> Vec<f32> {
        assert_eq!(self.data_type, "BF16");
        self.bytes.chunks_exact(2).map(|pair| bf16::from_le_bytes([pair[0], pair[1]]).to_f32()).collect()
    }
}

/// A checkpoint before it is written.
#[derive(Clone)]
pub(crate) struct Tiny {
    pub(crate) config: Value,
    /// Other files by name.
    pub(crate) files: BTreeMap<String, String>,
    pub(crate) tensors: BTreeMap<String, Tensor>,
}

impl Tiny {
    /// A dense target with one convolution and one attention layer.
    pub(crate) fn dense() -> Self {
        let mut tiny = Tiny { config: dense_config(), files: BTreeMap::new(), tensors: BTreeMap::new() };
        tiny.add("model.embed_tokens.weight", &[VOCABULARY, HIDDEN]);
        tiny.add("model.embedding_norm.weight", &[HIDDEN]);
        tiny.add_conv(0);
        tiny.add_dense(0);
        tiny.add_attention(1);
        tiny.add_dense(1);
        tiny
    }

    /// As [`Tiny::dense`], with a mixture in the second layer.
    pub(crate) fn mixture() -> Self {
        let mut tiny = Tiny::dense();
        tiny.tensors.retain(|name, _| !name.starts_with("model.layers.1.feed_forward"));
        tiny.add("model.layers.1.feed_forward.gate.weight", &[EXPERTS, HIDDEN]);
        tiny.add("model.layers.1.feed_forward.expert_bias", &[EXPERTS]);
        for expert in 0..EXPERTS {
            let path = format!("model.layers.1.feed_forward.experts.{expert}");
            tiny.add(&format!("{path}.w1.weight"), &[EXPERT_WIDTH, HIDDEN]);
            tiny.add(&format!("{path}.w3.weight"), &[EXPERT_WIDTH, HIDDEN]);
            tiny.add(&format!("{path}.w2.weight"), &[HIDDEN, EXPERT_WIDTH]);
        }
        let config = tiny.config.as_object_mut().expect("an object");
        config.insert("model_type".into(), "lfm2_moe".into());
        config.insert("num_experts".into(), EXPERTS.into());
        config.insert("num_experts_per_tok".into(), 2.into());
        config.insert("moe_intermediate_size".into(), EXPERT_WIDTH.into());
        config.insert("num_dense_layers".into(), 1.into());
        tiny
    }

    /// A drafter of one layer for the other two.
    pub(crate) fn drafter() -> Self {
        let mut tiny = Tiny { config: drafter_config(), files: BTreeMap::new(), tensors: BTreeMap::new() };
        tiny.add("fc.weight", &[HIDDEN, HIDDEN]);
        tiny.add("hidden_norm.weight", &[HIDDEN]);
        tiny.add("norm.weight", &[HIDDEN]);
        tiny.add("markov_head.markov_w1.weight", &[VOCABULARY, 4]);
        tiny.add("markov_head.markov_w2.weight", &[VOCABULARY, 4]);
        tiny.add("confidence_head.proj.weight", &[1, HIDDEN + 4]);
        tiny.add("confidence_head.proj.bias", &[1]);
        for name in ["input_layernorm", "post_attention_layernorm"] {
            tiny.add(&format!("layers.0.{name}.weight"), &[HIDDEN]);
        }
        for name in ["q_norm", "k_norm"] {
            tiny.add(&format!("layers.0.self_attn.{name}.weight"), &[HEAD_DIM]);
        }
        for (name, shape) in [
            ("self_attn.q_proj", [HIDDEN, HIDDEN]),
            ("self_attn.k_proj", [HEAD_DIM, HIDDEN]),
            ("self_attn.v_proj", [HEAD_DIM, HIDDEN]),
            ("self_attn.o_proj", [HIDDEN, HIDDEN]),
            ("mlp.gate_proj", [48, HIDDEN]),
            ("mlp.up_proj", [48, HIDDEN]),
            ("mlp.down_proj", [HIDDEN, 48]),
        ] {
            tiny.add(&format!("layers.0.{name}.weight"), &shape);
        }
        tiny
    }

    pub(crate) fn add(&mut self, name: &str, shape: &[usize]) {
        self.tensors.insert(name.into(), Tensor::new(name, shape));
    }

    /// Gives every tensor the name that `rename` makes of it.
    pub(crate) fn rename(&mut self, rename: impl Fn(&str) -> String) {
        let tensors = std::mem::take(&mut self.tensors);
        self.tensors = tensors.into_iter().map(|(name, tensor)| (rename(&name), tensor)).collect();
    }

    /// Sets a field of config.json; its path is separated by dots.
    pub(crate) fn set(&mut self, path: &str, value: Value) {
        let mut place = &mut self.config;
        for part in path.split('.') {
            place = &mut place[part];
        }
        *place = value;
    }

    /// Removes a field of config.json.
    pub(crate) fn unset(&mut self, name: &str) {
        self.config.as_object_mut().expect("an object").remove(name);
    }

    /// Writes it to `directory` as config.json and one safetensors file.
    pub(crate) fn write(&self, directory: &Path) {
        std::fs::write(directory.join("config.json"), self.config.to_string()).expect("config.json");
        for (name, text) in &self.files {
            std::fs::write(directory.join(name), text).expect("a file");
        }
        std::fs::write(directory.join("model.safetensors"), safetensors(&self.tensors)).expect("weights");
    }

    /// Writes it and opens it as a target.
    pub(crate) fn open(&self) -> Result<(Scratch, TargetCheckpoint), String> {
        let scratch = Scratch::new();
        self.write(&scratch.0);
        let target = TargetCheckpoint::open(&scratch.0).map_err(|error| error.to_string())?;
        Ok((scratch, target))
    }

    /// Writes it and opens it as a drafter.
    pub(crate) fn open_drafter(&self, target: &TargetConfig) -> Result<(Scratch, DrafterCheckpoint), String> {
        let scratch = Scratch::new();
        self.write(&scratch.0);
        let drafter = DrafterCheckpoint::open(&scratch.0, target).map_err(|error| error.to_string())?;
        Ok((scratch, drafter))
    }

    fn add_conv(&mut self, layer: usize) {
        self.add(&format!("model.layers.{layer}.conv.in_proj.weight"), &[3 * HIDDEN, HIDDEN]);
        self.add(&format!("model.layers.{layer}.conv.conv.weight"), &[HIDDEN, 1, 3]);
        self.add(&format!("model.layers.{layer}.conv.out_proj.weight"), &[HIDDEN, HIDDEN]);
    }

    fn add_attention(&mut self, layer: usize) {
        let path = format!("model.layers.{layer}.self_attn");
        self.add(&format!("{path}.q_proj.weight"), &[HIDDEN, HIDDEN]);
        self.add(&format!("{path}.k_proj.weight"), &[HEAD_DIM, HIDDEN]);
        self.add(&format!("{path}.v_proj.weight"), &[HEAD_DIM, HIDDEN]);
        self.add(&format!("{path}.out_proj.weight"), &[HIDDEN, HIDDEN]);
        self.add(&format!("{path}.q_layernorm.weight"), &[HEAD_DIM]);
        self.add(&format!("{path}.k_layernorm.weight"), &[HEAD_DIM]);
    }

    fn add_dense(&mut self, layer: usize) {
        let path = format!("model.layers.{layer}");
        self.add(&format!("{path}.operator_norm.weight"), &[HIDDEN]);
        self.add(&format!("{path}.ffn_norm.weight"), &[HIDDEN]);
        self.add(&format!("{path}.feed_forward.w1.weight"), &[DENSE_WIDTH, HIDDEN]);
        self.add(&format!("{path}.feed_forward.w3.weight"), &[DENSE_WIDTH, HIDDEN]);
        self.add(&format!("{path}.feed_forward.w2.weight"), &[HIDDEN, DENSE_WIDTH]);
    }
}

fn dense_config() -> Value {
    json!({
        "model_type": "lfm2",
        "vocab_size": VOCABULARY,
        "hidden_size": HIDDEN,
        "num_hidden_layers": 2,
        "layer_types": ["conv", "full_attention"],
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "conv_L_cache": 3,
        "conv_bias": false,
        "norm_eps": 1e-5,
        "max_position_embeddings": 128,
        "bos_token_id": 1,
        "eos_token_id": 7,
        "dtype": "bfloat16",
    })
}

fn drafter_config() -> Value {
    json!({
        "model_type": "qwen3",
        "vocab_size": VOCABULARY,
        "hidden_size": HIDDEN,
        "intermediate_size": 48,
        "num_hidden_layers": 1,
        "layer_types": ["full_attention"],
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "head_dim": HEAD_DIM,
        "hidden_act": "silu",
        "rms_norm_eps": 1e-5,
        "rope_theta": 1e6,
        "rope_is_neox_style": false,
        "max_position_embeddings": 128,
        "block_size": 3,
        "markov_rank": 4,
        "markov_head_type": "vanilla",
        "enable_confidence_head": true,
        "attention_bias": false,
        "dflash_config": {"mask_token_id": 9, "target_layer_ids": [0], "num_target_layers": 2},
    })
}

/// A safetensors file with these tensors, its header padded as most writers do.
pub(crate) fn safetensors(tensors: &BTreeMap<String, Tensor>) -> Vec<u8> {
    let (mut header, mut data) = (serde_json::Map::new(), Vec::new());
    for (name, tensor) in tensors {
        let start = data.len();
        data.extend_from_slice(&tensor.bytes);
        let entry = json!({
            "dtype": tensor.data_type, "shape": tensor.shape, "data_offsets": [start, data.len()],
        });
        header.insert(name.clone(), entry);
    }
    let mut text = Value::Object(header).to_string();
    text.extend(std::iter::repeat_n(' ', text.len().next_multiple_of(8) - text.len()));
    with_header(&text, &data)
}

/// A file with exactly this header and data.
pub(crate) fn with_header(header: &str, data: &[u8]) -> Vec<u8> {
    [&(header.len() as u64).to_le_bytes(), header.as_bytes(), data].concat()
}

/// Every weight of `target` as a device sees it, role after role.
pub(crate) fn all_weights(target: &TargetCheckpoint) -> Vec<f32> {
    let mut all = Vec::new();
    all.extend(matrix_values(&target.embedding().expect("embedding")));
    all.extend(target.final_norm().expect("final norm"));
    for index in 0..target.config().layers.len() {
        let layer = target.layer(index).expect("layer");
        all.extend(layer.operator_norm);
        match layer.operator {
            OperatorWeights::Attention { query, key, value, output, query_norm, key_norm } => {
                [query, key, value, output].iter().for_each(|matrix| all.extend(matrix_values(matrix)));
                all.extend(query_norm);
                all.extend(key_norm);
            }
            OperatorWeights::Conv { input, kernel, output } => {
                all.extend(matrix_values(&input));
                all.extend(kernel);
                all.extend(matrix_values(&output));
            }
        }
        all.extend(layer.ffn_norm);
        match layer.feed_forward {
            FeedForwardWeights::Dense { gate, up, down } => {
                [gate, up, down].iter().for_each(|matrix| all.extend(matrix_values(matrix)));
            }
            FeedForwardWeights::Experts { router, bias, experts } => {
                all.extend(matrix_values(&router));
                all.extend(bias);
                for expert in experts {
                    for matrix in [expert.gate, expert.up, expert.down] {
                        all.extend(matrix_values(&matrix));
                    }
                }
            }
        }
    }
    all
}

fn matrix_values(matrix: &HostMatrix) -> Vec<f32> {
    matrix.to_bf16().iter().map(|value| value.to_f32()).collect()
}
