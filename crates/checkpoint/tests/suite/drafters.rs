//! Drafters: what they may leave out, what is refused, and targets they do not fit.

use forerunner_checkpoint::{DrafterCheckpoint, TargetConfig};
use serde_json::{Value, json};

use crate::tiny::{Scratch, Tiny};

fn target() -> TargetConfig {
    Tiny::mixture().open().expect("the target").1.config().clone()
}

/// After `mutate`, the drafter is refused with a message that has every one of `fragments`.
fn check(mutate: impl FnOnce(&mut Tiny), fragments: &[&str]) {
    let mut tiny = Tiny::drafter();
    mutate(&mut tiny);
    let message = tiny.open_drafter(&target()).err().expect("a refusal");
    for fragment in fragments {
        assert!(message.contains(fragment), "`{fragment}` is not in: {message}");
    }
}

#[test]
fn a_drafter_opens_with_and_without_prefix() {
    let mut tiny = Tiny::drafter();
    let (_keep, plain) = tiny.open_drafter(&target()).expect("a drafter");
    tiny.rename(|name| format!("model.{name}"));
    tiny.add("model.embed_tokens.weight", &[10, 32]);
    tiny.add("lm_head.weight", &[10, 32]);
    tiny.add("model.rotary_emb.inv_freq", &[8]);
    let (_keep_too, prefixed) = tiny.open_drafter(&target()).expect("a prefixed drafter");
    assert_eq!(prefixed.config(), plain.config());
    assert_eq!(prefixed.summary().parameters, plain.summary().parameters);
    let fuse = prefixed.head().expect("head").fuse.to_bf16();
    assert_eq!(fuse, plain.head().expect("head").fuse.to_bf16());
}

#[test]
fn the_inner_block_size_wins() {
    let block = |tiny: &Tiny| tiny.open_drafter(&target()).expect("a drafter").1.config().block;
    let mut tiny = Tiny::drafter();
    assert_eq!(block(&tiny), 3);
    tiny.set("dflash_config.block_size", json!(5));
    assert_eq!(block(&tiny), 5);
    tiny.unset("block_size");
    assert_eq!(block(&tiny), 5);
}

#[test]
fn the_outer_rope_theta_wins() {
    let theta = |tiny: &Tiny| tiny.open_drafter(&target()).expect("a drafter").1.config().rope_theta;
    let mut tiny = Tiny::drafter();
    tiny.set("rope_parameters", json!({"rope_theta": 5e6}));
    assert_eq!(theta(&tiny), 1e6);
    tiny.unset("rope_theta");
    assert_eq!(theta(&tiny), 5e6);
    tiny.unset("rope_parameters");
    let message = tiny.open_drafter(&target()).err().expect("a refusal");
    assert!(message.contains("`rope_theta` is missing"), "{message}");
}

#[test]
fn a_drafter_may_have_no_confidence_head() {
    let mut tiny = Tiny::drafter();
    tiny.set("enable_confidence_head", json!(false));
    tiny.tensors.retain(|name, _| !name.starts_with("confidence_head"));
    let (_keep, drafter) = tiny.open_drafter(&target()).expect("a drafter");
    assert!(drafter.head().expect("head").confidence.is_none());
}

#[test]
fn fields_with_wrong_values() {
    let cases: &[(&str, Value, &[&str])] = &[
        ("model_type", json!("lfm2_moe"), &["config.json", "`model_type`", "\"lfm2_moe\"", "\"qwen3\""]),
        ("speculators_model_type", json!("dspark"), &["`speculators_model_type`", "\"dspark\""]),
        ("markov_head_type", json!("gru"), &["`markov_head_type`", "\"gru\"", "\"vanilla\""]),
        ("hidden_act", json!("gelu"), &["`hidden_act`", "\"gelu\"", "\"silu\""]),
        ("layer_types", json!(["sliding_attention"]), &["`layer_types[0]`", "\"full_attention\""]),
        ("layer_types", json!([]), &["`layer_types`", "1 entries"]),
        ("attention_bias", json!(true), &["`attention_bias`", "accepted: false"]),
        ("confidence_head_with_markov", json!(false), &["`confidence_head_with_markov`", "accepted: true"]),
        ("dspark_bonus_anchor", json!(true), &["`dspark_bonus_anchor`", "accepted: false"]),
        ("dflash_config.sample_from_anchor", json!(false), &["`dflash_config.sample_from_anchor`", "true"]),
        ("is_causal", json!(true), &["`is_causal`", "accepted: false"]),
        ("quantization", json!({"bits": 4}), &["`quantization`", "an unquantized drafter"]),
        ("rope_is_neox_style", Value::Null, &["`rope_is_neox_style` is missing", "interleaved"]),
        ("rope_parameters", json!({"rope_type": "yarn"}), &["`rope_parameters.rope_type`", "\"yarn\""]),
        ("head_dim", json!(15), &["`head_dim` is 15", "an even number"]),
        ("markov_rank", json!(0), &["`markov_rank` is 0"]),
        ("block_size", json!(0), &["`block_size` is 0"]),
        ("dflash_config", Value::Null, &["`dflash_config` is missing", "target_layer_ids"]),
        ("dflash_config.mask_token_id", json!(10), &["`dflash_config.mask_token_id` is 10", "from 0 to 9"]),
        (
            "dflash_config.target_layer_ids",
            json!([]),
            &["`dflash_config.target_layer_ids` is []", "ascending"],
        ),
        ("dflash_config.target_layer_ids", json!([1, 0]), &["is [1,0]", "ascending"]),
        ("dflash_config.target_layer_ids", json!([0, 0]), &["is [0,0]", "ascending"]),
        ("dflash_config.target_layer_ids", json!([-1]), &["`dflash_config.target_layer_ids` is -1"]),
    ];
    for (field, value, fragments) in cases {
        check(|tiny| tiny.set(field, value.clone()), fragments);
    }
}

#[test]
fn drafters_that_do_not_fit() {
    let fit = "the drafter does not fit the target: field";
    check(
        |tiny| tiny.set("hidden_size", json!(64)),
        &[fit, "`hidden_size` is 64; accepted: 32, as the target"],
    );
    check(|tiny| tiny.set("vocab_size", json!(12)), &[fit, "`vocab_size` is 12; accepted: 10"]);
    check(
        |tiny| tiny.set("dflash_config.num_target_layers", json!(24)),
        &[fit, "`dflash_config.num_target_layers` is 24; accepted: 2"],
    );
    check(
        |tiny| tiny.set("dflash_config.target_layer_ids", json!([0, 1])),
        &[
            fit,
            "`dflash_config.target_layer_ids` is 1; accepted: layers before the target's last, which is 1",
        ],
    );
}

#[test]
fn a_drafter_can_be_described_without_its_target() {
    let scratch = Scratch::new();
    let mut tiny = Tiny::drafter();
    tiny.set("dflash_config.num_target_layers", json!(24));
    tiny.write(&scratch.0);
    let drafter = DrafterCheckpoint::open_unpaired(&scratch.0).expect("a drafter of another target");
    assert_eq!(drafter.config().target_layers, 24);
}

#[test]
fn tensors_that_are_missing_or_too_many() {
    for name in Tiny::drafter().tensors.keys() {
        check(|tiny| drop(tiny.tensors.remove(name)), &[&format!("tensor `{name}` is missing")]);
    }
    check(|tiny| tiny.add("layers.1.mlp.up_proj.weight", &[1]), &["`layers.1.mlp.up_proj.weight`"]);
    check(|tiny| tiny.set("enable_confidence_head", json!(false)), &["2 tensor(s)", "confidence_head"]);
}

#[test]
fn tensors_of_the_wrong_shape() {
    check(
        |tiny| tiny.add("confidence_head.proj.weight", &[1, 32]),
        &["`confidence_head.proj.weight` has shape [1, 32]; accepted: [1, 36]"],
    );
    check(|tiny| tiny.add("fc.weight", &[32, 64]), &["`fc.weight` has shape [32, 64]; accepted: [32, 32]"]);
    check(|tiny| tiny.set("head_dim", json!(8)), &["q_proj.weight` has shape [32, 32]; accepted: [16, 32]"]);
}
