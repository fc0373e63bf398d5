//! The demo pair opens, and says what its files say.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use forerunner_checkpoint::{
    DrafterCheckpoint, Family, FeedForwardWeights, LayerKind, OperatorWeights, TargetCheckpoint,
};
use forerunner_tensor::{HostMatrix, MatrixValues};

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Reads every weight of `target` and checks the shapes that the configuration promises.
fn check_target(target: &TargetCheckpoint) {
    let config = target.config();
    assert_eq!(config.family, Family::Lfm2Moe);
    assert_eq!((config.vocabulary, config.hidden, config.head_dim), (8192, 256, 64));
    assert_eq!(config.layers.len(), 12);
    assert_eq!(config.layers.iter().filter(|kind| **kind == LayerKind::Attention).count(), 3);
    assert_eq!(config.intermediate, 768);
    assert_eq!(config.eos_tokens, [7]);
    assert_eq!(config.bos_token, Some(1));
    assert_eq!(config.rope_theta, 1e6);
    let mixture = config.mixture.as_ref().expect("a mixture");
    assert_eq!((mixture.experts, mixture.picks, mixture.intermediate, mixture.dense_layers), (16, 4, 128, 2));
    let embedding = target.embedding().expect("embedding");
    assert_eq!((embedding.rows, embedding.columns), (8192, 256));
    assert_eq!(embedding.to_bf16().len(), 8192 * 256);
    assert_eq!(target.final_norm().expect("final norm").len(), 256);
    for index in 0..12 {
        let layer = target.layer(index).expect("layer");
        match (config.layers[index], layer.operator) {
            (LayerKind::Attention, OperatorWeights::Attention { key, key_norm, .. }) => {
                assert_eq!((key.to_bf16().len(), key_norm.len()), (64 * 256, 64));
            }
            (LayerKind::Conv, OperatorWeights::Conv { input, kernel, .. }) => {
                assert_eq!((input.to_bf16().len(), kernel.len()), (768 * 256, 768));
            }
            _ => panic!("layer {index} has another operator than its configuration"),
        }
        match layer.feed_forward {
            FeedForwardWeights::Dense { down, .. } => {
                assert!(index < 2);
                assert_eq!((down.rows, down.columns), (256, 768));
            }
            FeedForwardWeights::Experts { router, bias, experts } => {
                assert_eq!((router.rows, bias.len(), experts.len()), (16, 16, 16));
                for expert in experts {
                    assert_eq!(expert.gate.to_bf16().len(), 128 * 256);
                    assert_eq!((expert.down.rows, expert.down.columns), (256, 128));
                }
            }
        }
    }
    assert_eq!(target.summary().parameters, 21_911_072);
}

#[test]
fn the_4_bit_demo_target_opens() {
    let target = TargetCheckpoint::open(&workspace().join("assets/demo/target")).expect("demo target");
    check_target(&target);
    let quantization = target.config().quantization.as_ref().expect("quantized");
    assert_eq!(quantization.of("layers.2.feed_forward.gate"), Some((8, 64)));
    assert_eq!(quantization.of("model.layers.2.conv.in_proj"), Some((4, 64)));
    assert_eq!(target.summary().bytes, 12_365_696);
}

#[test]
fn the_bf16_demo_target_opens() {
    let directory = workspace().join("../shared/demo/demo-target");
    if !directory.exists() {
        println!("skipped: {} is not there", directory.display());
        return;
    }
    let target = TargetCheckpoint::open(&directory).expect("bf16 demo target");
    check_target(&target);
    assert_eq!(target.config().quantization, None);
    let embedding = target.embedding().expect("embedding");
    assert!(matches!(embedding.values, MatrixValues::Bf16(std::borrow::Cow::Borrowed(_))));
}

#[test]
fn the_demo_drafter_opens_for_its_target() {
    let target = TargetCheckpoint::open(&workspace().join("assets/demo/target")).expect("demo target");
    let directory = workspace().join("assets/demo/drafter");
    let drafter = DrafterCheckpoint::open(&directory, target.config()).expect("demo drafter");
    let config = drafter.config();
    assert_eq!((config.block, config.mask_token, config.markov_rank), (9, 16, 64));
    assert_eq!(config.taps, [1, 3, 6, 8, 10]);
    assert!(!config.rope_is_neox_style);
    let head = drafter.head().expect("head");
    assert_eq!((head.fuse.rows, head.fuse.columns), (256, 1280));
    let (weights, bias) = head.confidence.expect("a confidence head");
    assert_eq!(weights.len(), 320);
    assert!(bias.is_finite());
    for index in 0..config.layers {
        let layer = drafter.layer(index).expect("layer");
        assert_eq!((layer.output.rows, layer.output.columns), (256, 256));
        assert_eq!(layer.down.to_bf16().len(), 256 * 512);
    }
}

#[test]
fn a_watcher_hears_of_every_byte_once() {
    let demo = workspace().join("assets/demo");
    let mut target = TargetCheckpoint::open(&demo.join("target")).expect("demo target");
    let mut drafter = DrafterCheckpoint::open(&demo.join("drafter"), target.config()).expect("demo drafter");
    let heard = Arc::new(AtomicU64::new(0));
    let watcher = || {
        let heard = heard.clone();
        move |bytes| {
            heard.fetch_add(bytes, Ordering::Relaxed);
        }
    };
    target.watch(watcher());
    drafter.watch(watcher());
    check_target(&target);
    assert_eq!(heard.swap(0, Ordering::Relaxed), target.summary().bytes);
    drop(drafter.head().expect("head"));
    (0..drafter.config().layers).for_each(|index| drop(drafter.layer(index).expect("layer")));
    assert_eq!(heard.load(Ordering::Relaxed), drafter.summary().bytes);
}

#[test]
fn a_drafter_in_eight_bits_keeps_its_markov_embedding_as_it_is() {
    let demo = workspace().join("assets/demo");
    let target = TargetCheckpoint::open(&demo.join("target")).expect("demo target");
    let drafter = DrafterCheckpoint::open(&demo.join("drafter"), target.config()).expect("demo drafter");
    let drafter = drafter.in_eight_bits();
    let is_affine =
        |matrix: &HostMatrix<'_>| matches!(&matrix.values, MatrixValues::Affine(values) if values.bits == 8);
    let (head, layer) = (drafter.head().expect("a head"), drafter.layer(1).expect("a layer"));
    let linears =
        [&layer.query, &layer.key, &layer.value, &layer.output, &layer.gate, &layer.up, &layer.down];
    assert!(linears.into_iter().chain([&head.fuse, &head.markov_next]).all(is_affine));
    assert!(!is_affine(&head.markov_previous));
}
