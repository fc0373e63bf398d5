//! Tensors that are made when they are read: the same checkpoint, the same mistakes named, and what is written.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use forerunner_checkpoint::{
    DrafterCheckpoint, Dtype, FeedForwardWeights, TargetCheckpoint, TensorInfo, TensorSource, write_source,
};
use serde_json::{Map, Value, json};

use crate::tiny::{EXPERTS, Scratch, Tiny, all_weights};

/// A tiny checkpoint as a source, which counts the bytes that it is asked for.
struct Made {
    config: Map<String, Value>,
    infos: Vec<TensorInfo>,
    bytes: Vec<Vec<u8>>,
    read: AtomicUsize,
}

impl Made {
    fn new(tiny: &Tiny) -> Arc<Made> {
        let info = |(name, tensor): (&String, &crate::tiny::Tensor)| TensorInfo {
            name: name.clone(),
            data_type: Dtype::BF16,
            shape: tensor.shape.clone(),
        };
        Arc::new(Made {
            config: tiny.config.as_object().expect("an object").clone(),
            infos: tiny.tensors.iter().map(info).collect(),
            bytes: tiny.tensors.values().map(|tensor| tensor.bytes.clone()).collect(),
            read: AtomicUsize::new(0),
        })
    }
}

impl TensorSource for Made {
    fn name(&self) -> &str {
        "made of nothing"
    }

    fn config(&self) -> &Map<String, Value> {
        &self.config
    }

    fn tensors(&self) -> &[TensorInfo] {
        &self.infos
    }

    fn read(&self, index: usize, start: usize, out: &mut [u8]) {
        self.read.fetch_add(out.len(), Ordering::Relaxed);
        out.copy_from_slice(&self.bytes[index][start..start + out.len()]);
    }
}

fn open(tiny: &Tiny) -> Result<TargetCheckpoint, String> {
    let source: Arc<dyn TensorSource> = Made::new(tiny);
    TargetCheckpoint::from_source(&source).map_err(|error| error.to_string())
}

#[test]
fn a_source_and_files_are_one_checkpoint() {
    let tiny = Tiny::mixture();
    let (_keep, stored) = tiny.open().expect("a mixture");
    let made = open(&tiny).expect("a mixture");
    assert_eq!(made.config(), stored.config());
    assert_eq!(all_weights(&made), all_weights(&stored));
    assert_eq!(made.summary().parameters, stored.summary().parameters);
    assert!(made.summary().files.is_empty());

    let source: Arc<dyn TensorSource> = Made::new(&Tiny::drafter());
    let drafter = DrafterCheckpoint::from_source(&source, stored.config()).expect("a drafter");
    assert_eq!(drafter.head().expect("head").fuse.to_bf16().len(), 32 * 32);
}

#[test]
fn mistakes_are_named_with_the_source() {
    let mut tiny = Tiny::mixture();
    tiny.add("model.layers.0.conv.in_proj.weight", &[3, 3]);
    let error = open(&tiny).err().expect("a refusal");
    assert!(
        error.contains("made of nothing") && error.contains("conv.in_proj") && error.contains("[3, 3]"),
        "{error}"
    );
    let mut tiny = Tiny::mixture();
    tiny.config["hidden_size"] = json!("wide");
    let error = open(&tiny).err().expect("a refusal");
    assert!(error.contains("made of nothing") && error.contains("hidden_size"), "{error}");
    let mut tiny = Tiny::mixture();
    tiny.add("embed_tokens.weight", &[10, 32]);
    let error = open(&tiny).err().expect("a refusal");
    assert!(error.contains("embed_tokens") && error.contains("each tensor once"), "{error}");
    let mut tiny = Tiny::mixture();
    tiny.config["synthetic"] = json!(true);
    let error = open(&tiny).err().expect("a refusal");
    assert!(error.contains("synthetic") && error.contains("how the weights were made"), "{error}");
}

#[test]
fn experts_are_made_one_at_a_time() {
    let made = Made::new(&Tiny::mixture());
    let source: Arc<dyn TensorSource> = made.clone();
    let target = TargetCheckpoint::from_source(&source).expect("a mixture");
    let layer = target.layer(1).expect("layer 1");
    let FeedForwardWeights::Experts { mut experts, .. } = layer.feed_forward else { panic!("a mixture") };
    assert_eq!(experts.len(), EXPERTS);
    let before = made.read.load(Ordering::Relaxed);
    let expert = experts.next().expect("an expert");
    let read = made.read.load(Ordering::Relaxed) - before;
    assert_eq!(read, 2 * 3 * expert.gate.rows * expert.gate.columns);
    assert_eq!(experts.len(), EXPERTS - 1);
}

#[test]
fn what_is_written_opens_whole_and_in_parts() {
    let tiny = Tiny::mixture();
    let made = Made::new(&tiny);
    let expected = all_weights(&open(&tiny).expect("a mixture"));
    for (shard_bytes, least, most) in
        [(u64::MAX, 1, 1), (4096, 2, 20), (0, tiny.tensors.len(), tiny.tensors.len())]
    {
        let scratch = Scratch::new();
        write_source(made.as_ref(), None, &scratch.0, shard_bytes).expect("an empty directory");
        let target = TargetCheckpoint::open(&scratch.0).expect("a checkpoint");
        assert_eq!(all_weights(&target), expected);
        let found = target.summary().files.len();
        assert!((least..=most).contains(&found), "{found} files of {shard_bytes} bytes");
        assert_eq!(scratch.0.join("model.safetensors.index.json").exists(), found > 1);
    }
}
