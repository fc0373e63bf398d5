//! Quantized tensors, their overrides and mistakes, and the dequantized twin.

use std::path::Path;

use forerunner_checkpoint::{FeedForwardWeights, TargetCheckpoint, write_dequantized};
use forerunner_tensor::{MatrixValues, bf16, f16};
use serde_json::{Value, json};

use crate::tiny::{Scratch, Tensor, Tiny, all_weights};

/// Replaces the matrix at `path` by codes of `bits` in groups of `group_size`. What the codes mean is not
/// looked at: they, the scales and the biases are arbitrary.
fn quantize(tiny: &mut Tiny, path: &str, bits: usize, group_size: usize) {
    let dense = tiny.tensors.remove(&format!("{path}.weight")).expect("a matrix");
    let (columns, lead) = dense.shape.split_last().expect("a shape");
    let with_last = |last: usize| lead.iter().copied().chain([last]).collect::<Vec<_>>();
    let mut words = Tensor::new(path, &with_last(2 * columns * bits / 32));
    words.shape = with_last(columns * bits / 32);
    words.data_type = "U32".into();
    tiny.tensors.insert(format!("{path}.weight"), words);
    for name in ["scales", "biases"] {
        tiny.add(&format!("{path}.{name}"), &with_last(columns / group_size));
    }
}

/// The mixture with every matrix in 4 bits but the router, in 8, and an output, in bf16.
fn quantized() -> Tiny {
    let mut tiny = Tiny::mixture();
    let kept = |name: &str| name.contains("norm") || name.contains("conv.conv") || name.contains("out_proj");
    let paths: Vec<String> = tiny
        .tensors
        .keys()
        .filter(|name| !kept(name))
        .filter_map(|name| name.strip_suffix(".weight").map(str::to_owned))
        .collect();
    for path in &paths {
        quantize(&mut tiny, path, if path.ends_with("gate") { 8 } else { 4 }, 32);
    }
    let quantization = json!({
        "bits": 4, "group_size": 32, "mode": "affine",
        "language_model.model.layers.1.feed_forward.gate": {"bits": 8, "group_size": 32, "mode": "affine"},
        "model.layers.0.conv.out_proj": false,
    });
    tiny.set("quantization_config", quantization.clone());
    tiny.set("quantization", quantization);
    tiny
}

/// After `mutate`, the quantized mixture is refused with a message that has every one of `fragments`.
fn check(mutate: impl FnOnce(&mut Tiny), fragments: &[&str]) {
    let mut tiny = quantized();
    mutate(&mut tiny);
    let message = tiny.open().err().expect("a refusal");
    for fragment in fragments {
        assert!(message.contains(fragment), "`{fragment}` is not in: {message}");
    }
}

#[test]
fn codes_scales_and_biases_are_found_by_path() {
    let (_keep, target) = quantized().open().expect("a quantized mixture");
    let layer = target.layer(1).expect("layer 1");
    let FeedForwardWeights::Experts { router, mut experts, .. } = layer.feed_forward else {
        panic!("layer 1 is a mixture");
    };
    let bits = |values: &MatrixValues| match values {
        MatrixValues::Affine(values) => Some((values.bits, values.group_size)),
        _ => None,
    };
    assert_eq!(bits(&router.values), Some((8, 32)));
    assert_eq!(bits(&experts.nth(2).expect("expert 2").down.values), Some((4, 32)));
    assert_eq!(bits(&target.embedding().expect("embedding").values), Some((4, 32)));
    let stored = target.summary().stored;
    assert_eq!(stored["8-bit"], 3 * 32);
    assert!(stored["4-bit"] > 10_000 && stored["BF16"] > 1_000);
}

#[test]
fn every_width_and_group_size_loads() {
    for bits in [4, 8] {
        for group_size in [32, 64, 128] {
            let mut tiny = Tiny::dense();
            tiny.set("hidden_size", json!(128));
            let shapes: Vec<_> =
                tiny.tensors.iter().map(|(name, t)| (name.clone(), t.shape.clone())).collect();
            for (name, shape) in shapes {
                let grow = |size: &usize| match size {
                    96 => 384,
                    32 | 64 => 128,
                    16 => 64,
                    other => *other,
                };
                tiny.add(&name, &shape.iter().map(grow).collect::<Vec<_>>());
            }
            quantize(&mut tiny, "model.embed_tokens", bits, group_size);
            quantize(&mut tiny, "model.layers.1.feed_forward.w2", bits, group_size);
            tiny.set("quantization", json!({"bits": bits, "group_size": group_size}));
            let (_keep, target) = tiny.open().expect("a quantized target");
            assert!(all_weights(&target).iter().all(|value| value.is_finite()));
        }
    }
}

#[test]
fn fp16_scales_are_read_as_such() {
    let mut tiny = quantized();
    for name in ["scales", "biases"] {
        let tensor = tiny.tensors.get_mut(&format!("model.embed_tokens.{name}")).expect("a tensor");
        tensor.bytes = tensor.values().iter().flat_map(|value| f16::from_f32(*value).to_le_bytes()).collect();
        tensor.data_type = "F16".into();
    }
    let (_keep, half) = tiny.open().expect("fp16 scales");
    let (_keep_too, plain) = quantized().open().expect("bf16 scales");
    assert_eq!(all_weights(&half), all_weights(&plain));
}

#[test]
fn mistakes_in_quantized_tensors() {
    let embedding = "model.embed_tokens";
    check(
        |tiny| ["quantization", "quantization_config"].iter().for_each(|field| tiny.unset(field)),
        &["has data type U32", "config.json has no quantization for it"],
    );
    check(
        |tiny| tiny.config["quantization"][embedding] = Value::from(false),
        &["`model.embed_tokens.weight` has data type U32", "no quantization for it"],
    );
    check(
        |tiny| tiny.config["quantization"][embedding] = json!({"bits": 8, "group_size": 32}),
        &["`model.embed_tokens.weight` has shape [10, 4]; accepted: [10, 8] (8-bit codes in groups of 32"],
    );
    check(
        |tiny| tiny.config["quantization"][embedding] = json!({"bits": 4, "group_size": 64}),
        &["`quantization` is groups of 64 for `model.embed_tokens.weight`", "divides its 32 columns"],
    );
    check(
        |tiny| drop(tiny.tensors.remove("model.embed_tokens.scales")),
        &["`model.embed_tokens.scales` is missing"],
    );
    check(
        |tiny| drop(tiny.tensors.remove("model.embed_tokens.biases")),
        &["`model.embed_tokens.biases` is missing"],
    );
    check(
        |tiny| tiny.add("model.embed_tokens.scales", &[10, 2]),
        &["`model.embed_tokens.scales` has shape [10, 2]; accepted: [10, 1]"],
    );
}

#[test]
fn scales_that_are_not_numbers() {
    let poison = |name: &'static str, data_type: &'static str, bits: u16| {
        move |tiny: &mut Tiny| {
            let tensor = tiny.tensors.get_mut(name).expect("a tensor");
            tensor.data_type = data_type.into();
            tensor.bytes[6..8].copy_from_slice(&bits.to_le_bytes());
        }
    };
    check(
        poison("model.embed_tokens.scales", "BF16", bf16::NAN.to_bits()),
        &["`model.embed_tokens.scales` holds NaN at element 3; accepted: finite numbers"],
    );
    check(
        poison("model.layers.1.feed_forward.experts.1.w2.biases", "BF16", bf16::INFINITY.to_bits()),
        &["experts.1.w2.biases` holds inf at element 3"],
    );
    check(
        poison("model.embed_tokens.scales", "F16", f16::NAN.to_bits()),
        &["scales` holds NaN at element 3"],
    );
    check(
        poison("model.embed_tokens.biases", "F16", 0),
        &["`model.embed_tokens.biases` has data type F16; accepted: BF16, the type of its scales"],
    );
    check(poison("model.embed_tokens.scales", "I16", 0), &["has data type I16; accepted: BF16 or F16"]);
}

/// Writes the twin of `source` and checks that it opens, unquantized, with the same weights.
fn check_twin(source_dir: &Path) -> Scratch {
    let scratch = Scratch::new();
    let source = TargetCheckpoint::open(source_dir).expect("the source");
    let destination = scratch.0.join("made/on/the/way");
    write_dequantized(&source, source_dir, &destination).expect("the twin is written");
    let twin = TargetCheckpoint::open(&destination).expect("the twin opens");
    assert_eq!(all_weights(&twin), all_weights(&source));
    assert_eq!(twin.summary().parameters, source.summary().parameters);
    let mut config = source.config().clone();
    config.quantization = None;
    assert_eq!(twin.config(), &config);
    assert!(twin.summary().stored.keys().all(|stored| stored == "BF16" || stored == "F32"));
    scratch
}

#[test]
fn the_dequantized_twin_has_the_same_weights() {
    let mut tiny = quantized();
    tiny.files.insert("tokenizer.json".into(), "a tokenizer".into());
    let scratch = Scratch::new();
    tiny.write(&scratch.0);
    let twin = check_twin(&scratch.0);
    let destination = twin.0.join("made/on/the/way");
    assert_eq!(std::fs::read_to_string(destination.join("tokenizer.json")).expect("a copy"), "a tokenizer");
    let source = TargetCheckpoint::open(&scratch.0).expect("the source");
    let message = write_dequantized(&source, &scratch.0, &destination).expect_err("a refusal").to_string();
    assert!(message.contains("accepted: a path that does not exist, or an empty directory"), "{message}");
}

#[test]
fn the_demo_target_has_a_twin() {
    check_twin(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../assets/demo/target"));
}

#[test]
fn twins_have_the_names_of_released_checkpoints() {
    let scratch = Scratch::new();
    let tiny = quantized();
    tiny.write(&scratch.0);
    let source = TargetCheckpoint::open(&scratch.0).expect("the source");
    let destination = scratch.0.join("twin");
    write_dequantized(&source, &scratch.0, &destination).expect("the twin is written");
    let bytes = std::fs::read(destination.join("model.safetensors")).expect("weights");
    let length = u64::from_le_bytes(bytes[..8].try_into().expect("eight bytes")) as usize;
    let mut header: Value = serde_json::from_slice(&bytes[8..8 + length]).expect("a header");
    header.as_object_mut().expect("an object").remove("__metadata__");
    let plain = Tiny::mixture();
    assert_eq!(header.as_object().expect("an object").len(), plain.tensors.len());
    for (name, tensor) in &plain.tensors {
        assert_eq!(header[name]["shape"], json!(tensor.shape), "{name}");
    }
}
