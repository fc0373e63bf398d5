//! One model, every way files lay it out: all of them load to the same weights.

use std::collections::BTreeMap;

use forerunner_checkpoint::{LayerKind, TargetCheckpoint};
use forerunner_tensor::f16;
use serde_json::json;

use crate::tiny::{
    DENSE_WIDTH, EXPERT_WIDTH, EXPERTS, HIDDEN, Scratch, Tensor, Tiny, all_weights, safetensors,
};

/// `changed` loads to the weights of the plain mixture.
fn check_same(changed: &Tiny) {
    let (_keep, plain) = Tiny::mixture().open().expect("the plain layout");
    let (_keep_too, target) = changed.open().expect("the changed layout");
    assert_eq!(all_weights(&target), all_weights(&plain));
    assert_eq!(target.config().intermediate, DENSE_WIDTH);
    assert_eq!(target.summary().parameters, plain.summary().parameters);
}

/// Joins the experts' tensors `parts`, in turn for every expert, into one called `name`.
fn stack(tiny: &mut Tiny, parts: &[&str], name: &str, shape: [usize; 3]) {
    let mut bytes = Vec::new();
    for expert in 0..EXPERTS {
        for part in parts {
            let single = format!("model.layers.1.feed_forward.experts.{expert}.{part}.weight");
            bytes.extend(tiny.tensors.remove(&single).expect("an expert's matrix").bytes);
        }
    }
    let tensor = Tensor { data_type: "BF16".into(), shape: shape.into(), bytes };
    tiny.tensors.insert(format!("model.layers.1.feed_forward.{name}"), tensor);
}

fn stacked() -> Tiny {
    let mut tiny = Tiny::mixture();
    for (part, name, shape) in [
        ("w1", "gate_proj", [EXPERTS, EXPERT_WIDTH, HIDDEN]),
        ("w3", "up_proj", [EXPERTS, EXPERT_WIDTH, HIDDEN]),
        ("w2", "down_proj", [EXPERTS, HIDDEN, EXPERT_WIDTH]),
    ] {
        stack(&mut tiny, &[part], &format!("switch_mlp.{name}.weight"), shape);
    }
    tiny
}

#[test]
fn gate_up_and_down_are_w1_w3_and_w2() {
    let mut tiny = Tiny::mixture();
    tiny.rename(|name| {
        name.replace(".w1.", ".gate_proj.").replace(".w3.", ".up_proj.").replace(".w2.", ".down_proj.")
    });
    check_same(&tiny);
}

#[test]
fn experts_may_be_stacked() {
    check_same(&stacked());
}

#[test]
fn experts_may_be_packed() {
    let mut tiny = Tiny::mixture();
    stack(&mut tiny, &["w1", "w3"], "experts.gate_up_proj", [EXPERTS, 2 * EXPERT_WIDTH, HIDDEN]);
    stack(&mut tiny, &["w2"], "experts.down_proj", [EXPERTS, HIDDEN, EXPERT_WIDTH]);
    check_same(&tiny);
}

#[test]
fn names_may_have_more_prefixes_or_none() {
    let mut tiny = stacked();
    tiny.rename(|name| format!("language_model.{name}"));
    check_same(&tiny);
    tiny.rename(|name| name.replace("language_model.model.", ""));
    check_same(&tiny);
}

#[test]
fn the_kernel_may_end_in_a_dimension_of_one() {
    let mut tiny = Tiny::mixture();
    let kernel = tiny.tensors.get_mut("model.layers.0.conv.conv.weight").expect("the kernel");
    kernel.shape = vec![HIDDEN, 3, 1];
    check_same(&tiny);
}

/// lmstudio#1325, ollama37#386.
#[test]
fn the_final_norm_has_several_names() {
    for alias in ["norm", "output_norm", "token_embd_norm"] {
        let mut tiny = Tiny::mixture();
        tiny.rename(|name| name.replace("embedding_norm", alias));
        check_same(&tiny);
    }
}

#[test]
fn tied_heads_and_rotary_buffers_are_left_alone() {
    let mut tiny = Tiny::mixture();
    tiny.add("lm_head.weight", &[1, 2]);
    tiny.add("model.layers.1.self_attn.rotary_emb.inv_freq", &[3]);
    check_same(&tiny);
}

#[test]
fn wider_types_hold_the_same_values() {
    let convert = |tiny: &mut Tiny, data_type: &str, convert: fn(f32) -> Vec<u8>| {
        for tensor in tiny.tensors.values_mut() {
            tensor.bytes = tensor.values().into_iter().flat_map(convert).collect();
            tensor.data_type = data_type.into();
        }
    };
    let mut single = Tiny::mixture();
    convert(&mut single, "F32", |value| value.to_le_bytes().into());
    check_same(&single);
    // Values are multiples of 1/2048 between -1 and 1, rounded to bf16: fp16 has them exactly.
    let mut half = stacked();
    convert(&mut half, "F16", |value| f16::from_f32(value).to_le_bytes().into());
    check_same(&half);
}

#[test]
fn shards_are_read_as_one() {
    let tiny = Tiny::mixture();
    let (_keep, plain) = tiny.open().expect("the plain layout");
    let scratch = Scratch::new();
    tiny.write(&scratch.0);
    std::fs::remove_file(scratch.0.join("model.safetensors")).expect("remove the single file");
    let mut shards = [BTreeMap::new(), BTreeMap::new()];
    let mut weight_map = BTreeMap::new();
    for (index, (name, tensor)) in tiny.tensors.iter().enumerate() {
        shards[index % 2].insert(name.clone(), tensor.clone());
        weight_map.insert(name.clone(), format!("model-{}.safetensors", index % 2));
    }
    for (index, shard) in shards.iter().enumerate() {
        std::fs::write(scratch.0.join(format!("model-{index}.safetensors")), safetensors(shard))
            .expect("a shard");
    }
    let index = json!({"metadata": {}, "weight_map": weight_map}).to_string();
    std::fs::write(scratch.0.join("model.safetensors.index.json"), index).expect("the index");
    let target = TargetCheckpoint::open(&scratch.0).expect("shards");
    assert_eq!(all_weights(&target), all_weights(&plain));
    assert_eq!(target.summary().files.len(), 2);
}

#[test]
fn an_unaligned_file_is_copied_and_means_the_same() {
    let tiny = Tiny::mixture();
    let (_keep, plain) = tiny.open().expect("the plain layout");
    let scratch = Scratch::new();
    tiny.write(&scratch.0);
    let path = scratch.0.join("model.safetensors");
    let mut bytes = std::fs::read(&path).expect("weights");
    let length = u64::from_le_bytes(bytes[..8].try_into().expect("eight bytes"));
    bytes.splice(..8, (length + 1).to_le_bytes());
    bytes.insert(8 + length as usize, b' ');
    std::fs::write(&path, bytes).expect("weights");
    let target = TargetCheckpoint::open(&scratch.0).expect("an unaligned file");
    assert_eq!(all_weights(&target), all_weights(&plain));
}

/// lmstudio#1325, ollama37#386.
#[test]
fn the_width_is_the_weights_to_tell() {
    let mut tiny = Tiny::dense();
    tiny.set("intermediate_size", json!(12288));
    tiny.set("block_ff_dim", json!(12288));
    tiny.set("block_auto_adjust_ff_dim", json!(true));
    let (_keep, target) = tiny.open().expect("a width that config.json has wrong");
    assert_eq!(target.config().intermediate, DENSE_WIDTH);
    assert_eq!(target.config().mixture, None);
}

#[test]
fn attention_layers_may_be_listed_by_index() {
    let mut tiny = Tiny::dense();
    tiny.unset("layer_types");
    tiny.set("full_attn_idxs", json!([1]));
    let (_keep, target) = tiny.open().expect("full_attn_idxs");
    assert_eq!(target.config().layers, [LayerKind::Conv, LayerKind::Attention]);
}

#[test]
fn the_nested_rope_theta_wins() {
    let theta = |tiny: &Tiny| tiny.open().expect("a rope").1.config().rope_theta;
    let mut tiny = Tiny::dense();
    assert_eq!(theta(&tiny), 1e6);
    tiny.set("rope_theta", json!(5e5));
    assert_eq!(theta(&tiny), 5e5);
    tiny.set("rope_parameters", json!({"rope_type": "default"}));
    assert_eq!(theta(&tiny), 5e5);
    tiny.set("rope_parameters.rope_theta", json!(5_000_000));
    assert_eq!(theta(&tiny), 5e6);
}

#[test]
fn end_tokens_come_from_both_files_once() {
    let mut tiny = Tiny::dense();
    tiny.set("eos_token_id", json!([7, 2]));
    tiny.files.insert("generation_config.json".into(), json!({"eos_token_id": [2, 5]}).to_string());
    let (_keep, target) = tiny.open().expect("end tokens");
    assert_eq!(target.config().eos_tokens, [7, 2, 5]);
}

#[test]
fn a_mixture_without_bias_has_zeros() {
    let mut tiny = Tiny::mixture();
    tiny.set("use_expert_bias", json!(false));
    let bias = "model.layers.1.feed_forward.expert_bias";
    tiny.tensors.remove(bias);
    let (_keep, target) = tiny.open().expect("no bias");
    let layer = target.layer(1).expect("layer 1");
    match layer.feed_forward {
        forerunner_checkpoint::FeedForwardWeights::Experts { bias, .. } => assert_eq!(bias, [0.0; EXPERTS]),
        _ => panic!("layer 1 is a mixture"),
    }
}
