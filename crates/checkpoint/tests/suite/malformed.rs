//! One mistake at a time in a target: the message names the file, the thing, what was found and what is accepted.

use std::path::Path;

use forerunner_checkpoint::TargetCheckpoint;
use serde_json::{Value, json};

use crate::tiny::{Scratch, Tensor, Tiny, safetensors, with_header};

/// After `mutate`, the mixture is refused with a message that has every one of `fragments`.
fn check(mutate: impl FnOnce(&mut Tiny), fragments: &[&str]) {
    let mut tiny = Tiny::mixture();
    mutate(&mut tiny);
    let message = tiny.open().err().expect("a refusal");
    check_message(&message, fragments);
}

/// As [`check`], for a mutation of the written files.
fn check_files(mutate: impl FnOnce(&Path), fragments: &[&str]) {
    let scratch = Scratch::new();
    Tiny::mixture().write(&scratch.0);
    mutate(&scratch.0);
    let message = TargetCheckpoint::open(&scratch.0).err().expect("a refusal").to_string();
    check_message(&message, fragments);
}

fn check_message(message: &str, fragments: &[&str]) {
    for fragment in fragments {
        assert!(message.contains(fragment), "`{fragment}` is not in: {message}");
    }
}

#[test]
fn fields_with_wrong_values() {
    let numbers = "a whole number from 1 to 2147483647";
    let cases: &[(&str, Value, &[&str])] = &[
        (
            "model_type",
            json!("llama"),
            &["config.json", "`model_type`", "\"llama\"", "\"lfm2\", \"lfm2_moe\""],
        ),
        ("model_type", json!(3), &["`model_type`", "unknown value 3"]),
        ("dtype", json!("int8"), &["`dtype`", "\"int8\"", "\"bfloat16\", \"float16\", \"float32\""]),
        ("vocab_size", json!(0), &["`vocab_size` is 0", numbers]),
        ("vocab_size", json!(-4), &["`vocab_size` is -4", numbers]),
        ("vocab_size", json!("10"), &["`vocab_size` is \"10\"", numbers]),
        ("vocab_size", json!(1e18), &["`vocab_size` is 1e+18", numbers]),
        ("hidden_size", json!(2.5), &["`hidden_size` is 2.5", numbers]),
        ("num_hidden_layers", json!(100_000), &["`num_hidden_layers` is 100000", "from 1 to 1024"]),
        ("num_hidden_layers", json!(3), &["`layer_types`", "3 entries", "not 2"]),
        ("layer_types", json!(["conv", "mamba"]), &["`layer_types[1]`", "\"mamba\"", "\"full_attention\""]),
        ("layer_types", json!("conv"), &["`layer_types` is \"conv\"", "a list"]),
        ("num_attention_heads", json!(3), &["`num_attention_heads` is 3", "divides hidden_size 32"]),
        ("num_attention_heads", json!(32), &["`num_attention_heads` is 32", "even width"]),
        (
            "num_key_value_heads",
            json!(3),
            &["`num_key_value_heads` is 3", "a divisor of num_attention_heads 2"],
        ),
        ("head_dim", json!(8), &["`head_dim` is 8", "16, which is hidden_size over num_attention_heads"]),
        ("conv_L_cache", json!(4), &["`conv_L_cache`", "unknown value 4", "accepted: 3"]),
        ("conv_bias", json!(true), &["`conv_bias`", "true", "accepted: false"]),
        ("tie_embedding", json!(false), &["`tie_embedding`", "false", "accepted: true"]),
        ("tie_word_embeddings", json!(false), &["`tie_word_embeddings`", "accepted: true"]),
        ("norm_eps", json!(0), &["`norm_eps` is 0", "a number from"]),
        ("norm_eps", json!("1e-5"), &["`norm_eps` is \"1e-5\""]),
        ("rope_theta", json!(-1.0), &["`rope_theta` is -1.0", "a number from"]),
        ("rope_parameters", json!({"rope_theta": "x"}), &["`rope_parameters.rope_theta` is \"x\""]),
        (
            "rope_parameters",
            json!({"rope_type": "yarn"}),
            &["`rope_parameters.rope_type`", "\"yarn\"", "\"default\""],
        ),
        ("rope_scaling", json!({"type": "linear"}), &["`rope_scaling.type`", "\"linear\""]),
        ("rope_parameters", json!(7), &["`rope_parameters` is 7", "an object"]),
        ("eos_token_id", json!([7, 10]), &["`eos_token_id` is 10", "from 0 to 9"]),
        ("bos_token_id", json!(true), &["`bos_token_id` is true"]),
        ("num_experts_per_tok", json!(4), &["`num_experts_per_tok` is 4", "from 1 to 3"]),
        ("num_dense_layers", json!(3), &["`num_dense_layers` is 3", "from 0 to 2"]),
        ("norm_topk_prob", json!("yes"), &["`norm_topk_prob` is \"yes\"", "true or false"]),
        ("routed_scaling_factor", json!(0), &["`routed_scaling_factor` is 0"]),
    ];
    for (field, value, fragments) in cases {
        check(|tiny| tiny.set(field, value.clone()), fragments);
    }
}

#[test]
fn fields_that_are_missing() {
    for field in [
        "model_type",
        "vocab_size",
        "hidden_size",
        "num_hidden_layers",
        "layer_types",
        "num_attention_heads",
        "num_key_value_heads",
        "norm_eps",
        "max_position_embeddings",
        "num_experts",
        "num_experts_per_tok",
        "moe_intermediate_size",
        "num_dense_layers",
    ] {
        check(|tiny| tiny.unset(field), &["config.json", &format!("`{field}` is missing; accepted: ")]);
        check(|tiny| tiny.set(field, Value::Null), &[&format!("`{field}` is missing; accepted: ")]);
    }
}

#[test]
fn quantization_that_is_not_affine() {
    let cases: &[(Value, &[&str])] = &[
        (json!({"bits": 5, "group_size": 64}), &["`quantization.bits`", "unknown value 5", "4, 8"]),
        (json!({"bits": 4, "group_size": 16}), &["`quantization.group_size`", "16", "32, 64, 128"]),
        (json!({"bits": 4}), &["`quantization.group_size` is missing", "32, 64, 128"]),
        (
            json!({"bits": 4, "group_size": 64, "mode": "mxfp4"}),
            &["`quantization.mode`", "\"mxfp4\"", "\"affine\""],
        ),
        (json!({"bits": 4, "group_size": 64, "a.b": 3}), &["`quantization.a.b` is 3", "or false"]),
        (
            json!({"bits": 4, "group_size": 64, "a": {"bits": 2, "group_size": 64}}),
            &["`quantization.a.bits`", "2"],
        ),
        (json!({"quant_method": "fp8"}), &["`quantization.quant_method`", "\"fp8\"", "MLX affine"]),
        (json!(4), &["`quantization` is 4", "an object"]),
    ];
    for (value, fragments) in cases {
        check(|tiny| tiny.set("quantization", value.clone()), fragments);
    }
    let compressed = json!({"quant_method": "compressed-tensors"});
    check(|tiny| tiny.set("quantization_config", compressed), &["`quantization_config.quant_method`"]);
}

#[test]
fn tensors_that_are_missing() {
    for name in Tiny::mixture().tensors.keys() {
        let missing = format!("`{name}`");
        check(|tiny| drop(tiny.tensors.remove(name)), &["is missing; accepted:", &missing]);
    }
    check(
        |tiny| tiny.tensors.retain(|name, _| !name.contains("experts.")),
        &["experts.0.w1.weight", "switch_mlp.gate_proj.weight", "experts.gate_up_proj"],
    );
}

#[test]
fn tensors_that_are_too_many() {
    check(|tiny| tiny.add("model.vision.weight", &[1]), &["1 tensor(s)", "`model.vision.weight`"]);
    check(|tiny| tiny.add("model.layers.2.ffn_norm.weight", &[32]), &["`model.layers.2.ffn_norm.weight`"]);
    check(|tiny| tiny.add("model.norm.weight", &[32]), &["`model.norm.weight`"]);
    check(|tiny| tiny.add("model.embed_tokens.scales", &[10, 1]), &["`model.embed_tokens.scales`"]);
    check(
        |tiny| (0..9).for_each(|index| tiny.add(&format!("x{index}"), &[1])),
        &["9 tensor(s)", "`x0`", "and 3 more"],
    );
    check(
        |tiny| tiny.add("language_model.model.embed_tokens.weight", &[10, 32]),
        &["embed_tokens.weight` is also in", "accepted: each tensor once"],
    );
}

#[test]
fn tensors_of_the_wrong_shape_or_type() {
    for (name, shape, accepted) in [
        ("model.embed_tokens.weight", vec![11, 32], "[10, 32]"),
        ("model.embedding_norm.weight", vec![32, 1], "[32]"),
        ("model.layers.0.conv.conv.weight", vec![32, 3], "[32, 1, 3] or [32, 3, 1]"),
        ("model.layers.0.conv.in_proj.weight", vec![32, 32], "[96, 32]"),
        ("model.layers.0.feed_forward.w1.weight", vec![2048], "[width, 32]"),
        ("model.layers.0.feed_forward.w2.weight", vec![32, 32], "[32, 64]"),
        ("model.layers.1.self_attn.k_proj.weight", vec![32, 32], "[16, 32]"),
        ("model.layers.1.feed_forward.gate.weight", vec![4, 32], "[3, 32]"),
        ("model.layers.1.feed_forward.experts.2.w2.weight", vec![32, 16], "[32, 32]"),
    ] {
        let found = format!("`{name}` has shape {shape:?}; accepted: {accepted}");
        check(|tiny| tiny.add(name, &shape), &["model.safetensors", &found]);
    }
    let retype = |name: &'static str, data_type: &'static str| {
        move |tiny: &mut Tiny| {
            let mut tensor = Tensor::new(name, &[16]);
            tensor.data_type = data_type.into();
            tiny.tensors.insert(name.into(), tensor);
        }
    };
    check(
        retype("model.embedding_norm.weight", "I16"),
        &["`model.embedding_norm.weight` has data type I16; accepted: BF16, F16 or F32"],
    );
    check(
        retype("model.embed_tokens.weight", "U16"),
        &["`model.embed_tokens.weight` has data type U16; accepted: BF16, F16 or F32, or U32 when quantized"],
    );
}

#[test]
fn norms_that_are_not_numbers() {
    let poison = |name: &'static str, bits: u16| {
        move |tiny: &mut Tiny| {
            let tensor = tiny.tensors.get_mut(name).expect("the tensor");
            tensor.bytes[4..6].copy_from_slice(&bits.to_le_bytes());
        }
    };
    let finite = "accepted: finite numbers";
    check(
        poison("model.embedding_norm.weight", 0x7fc0),
        &["embedding_norm", "holds NaN at element 2", finite],
    );
    check(poison("model.layers.1.feed_forward.expert_bias", 0xff80), &["expert_bias", "holds -inf", finite]);
}

#[test]
fn files_that_are_missing_or_no_json() {
    let absent = Path::new("/nowhere/at/all");
    let message = TargetCheckpoint::open(absent).err().expect("a refusal").to_string();
    check_message(&message, &["/nowhere/at/all", "no such directory"]);
    let remove =
        |name: &'static str| move |path: &Path| std::fs::remove_file(path.join(name)).expect("a file");
    check_files(remove("config.json"), &["config.json", "found no such file", "lfm2_moe"]);
    check_files(remove("model.safetensors"), &["model.safetensors", "no such file", "index.json"]);
    let write = |name: &'static str, text: &'static str| {
        move |path: &Path| std::fs::write(path.join(name), text).expect("a file")
    };
    check_files(write("config.json", "{\"a\": "), &["config.json", "invalid JSON", "line 1"]);
    check_files(write("config.json", "[1]"), &["config.json", "invalid JSON", "accepted: a JSON object"]);
    check_files(write("generation_config.json", "no"), &["generation_config.json", "invalid JSON"]);
    check_files(write("generation_config.json", "{\"eos_token_id\": 99}"), &["generation_config.json", "99"]);
}

#[test]
fn indices_that_mislead() {
    let index = |json: Value| {
        move |path: &Path| {
            std::fs::write(path.join("model.safetensors.index.json"), json.to_string()).expect("an index")
        }
    };
    check_files(index(json!({})), &["index.json", "`weight_map` is missing"]);
    check_files(index(json!({"weight_map": {}})), &["`weight_map` is {}", "an object from tensor names"]);
    check_files(index(json!({"weight_map": {"a": 3}})), &["`weight_map` is 3"]);
    check_files(index(json!({"weight_map": {"a": "../b"}})), &["`weight_map` is \"../b\"", "same directory"]);
    check_files(index(json!({"weight_map": {"a": "b"}})), &["index.json", "names the shard b"]);
    check_files(
        index(json!({"weight_map": {"a": "model.safetensors"}})),
        &["model.safetensors", "tensor `a` is missing"],
    );
    let twice = |path: &Path| {
        std::fs::copy(path.join("model.safetensors"), path.join("two")).expect("a copy");
        let map = json!({"weight_map": {"a": "model.safetensors", "b": "two"}});
        std::fs::write(path.join("model.safetensors.index.json"), map.to_string()).expect("an index");
    };
    check_files(twice, &["two: tensor", "is also in", "model.safetensors; accepted: each tensor once"]);
}

#[test]
fn headers_that_lie() {
    let cases: &[(&str, &[&str])] = &[
        ("", &["header is invalid"]),
        ("{]", &["header is invalid", "line 1"]),
        ("[]", &["header is invalid"]),
        (r#"{"a": 3}"#, &["header is invalid", "tensor `a`"]),
        (r#"{"a": {"dtype":"BF7","shape":[2],"data_offsets":[0,4]}}"#, &["tensor `a`", "BF7", "BF16"]),
        (r#"{"a": {"dtype":"BF16","shape":[-2],"data_offsets":[0,4]}}"#, &["tensor `a`", "-2"]),
        (r#"{"a": {"dtype":"BF16","shape":[2],"data_offsets":[4,0]}}"#, &["tensor `a`", "offsets 4..0"]),
        (
            r#"{"a": {"dtype":"BF16","shape":[3],"data_offsets":[0,4]}}"#,
            &["tensor `a`", "shape [3]", "offsets 0..4"],
        ),
        (r#"{"a": {"dtype":"BF16","shape":[2],"data_offsets":[2,6]}}"#, &["tensor `a` starts at byte"]),
        (
            r#"{"a": {"dtype":"BF16","shape":[1],"data_offsets":[0,2]}}"#,
            &["its tensors end at byte", "to the end"],
        ),
        (
            r#"{"a": {"dtype":"BF16","shape":[9],"data_offsets":[0,18]}}"#,
            &["found", "bytes; accepted:", "as its header says"],
        ),
        (
            r#"{"a": {"dtype":"U8","shape":[4294967296,4294967296],"data_offsets":[0,0]}}"#,
            &["tensor `a`", "as many bytes"],
        ),
        (
            r#"{"a": {"dtype":"U8","shape":[18446744073709551615],"data_offsets":[0,18446744073709551615]}}"#,
            &["tensor `a`"],
        ),
        (
            r#"{"a": {"dtype":"F64","shape":[288230376151711744],"data_offsets":[0,2305843009213693952]}}"#,
            &["tensor `a`"],
        ),
    ];
    for (header, fragments) in cases {
        let write = |path: &Path| {
            std::fs::write(path.join("model.safetensors"), with_header(header, &[0; 4])).expect("weights");
        };
        check_files(write, &[fragments, &["model.safetensors"][..]].concat());
    }
}

#[test]
fn files_that_end_too_early() {
    let whole = safetensors(&Tiny::mixture().tensors);
    for length in [0, 5, 8, 100, whole.len() / 2, whole.len() - 1] {
        let write = |path: &Path| {
            std::fs::write(path.join("model.safetensors"), &whole[..length]).expect("weights");
        };
        check_files(write, &["model.safetensors", &format!("found {length} bytes; accepted: ")]);
    }
    let huge = |path: &Path| {
        std::fs::write(path.join("model.safetensors"), [0xff; 16]).expect("weights");
    };
    check_files(huge, &["header is invalid", "accepted: at most 100000000 bytes"]);
}
