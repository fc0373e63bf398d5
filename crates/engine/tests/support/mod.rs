//! The demo pair on a device, ready for the gates.

use std::path::{Path, PathBuf};

use forerunner_checkpoint::{DrafterCheckpoint, TargetCheckpoint};
use forerunner_engine::gates::{GateCase, GateLanes};
use forerunner_engine::{DeviceTarget, TargetOptions, kept_page_bytes};
use forerunner_lanes::{Lanes, Options, Target, TokenId};
use forerunner_tensor::Device;

/// Pages kept of earlier prompts: room for those of a gate, and few enough for others to push them out.
pub(crate) const CACHE_PAGES: usize = 16;

/// A file of the demo pair.
pub(crate) fn demo(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../assets/demo").join(path)
}

/// The demo pair on `device`, with `lanes` lanes of `context` tokens. See [`TargetOptions::queues_ahead`].
pub(crate) fn target<D: Device>(
    device: D,
    lanes: usize,
    context: usize,
    queues_ahead: bool,
) -> DeviceTarget<D> {
    let target = TargetCheckpoint::open(&demo("target")).expect("the demo target opens");
    let drafter = DrafterCheckpoint::open(&demo("drafter"), target.config()).expect("the demo drafter opens");
    let options = TargetOptions {
        lanes,
        context,
        rows: 416,
        key_value_bytes: 1 << 30,
        prompt_cache_bytes: CACHE_PAGES * kept_page_bytes(target.config(), Some(&drafter)),
        queues_ahead,
    };
    DeviceTarget::load(device, &target, Some(&drafter), &options).expect("the demo pair loads")
}

/// A scheduler over a target. With drafts forced, gates meet every window; without, it runs as in service.
pub(crate) fn lanes(target: impl Target + Send + 'static, force_drafts: bool) -> GateLanes {
    Lanes::new(Box::new(target), Options { force_drafts, ..Options::default() })
}

/// The golden prompts with their greedy replies.
pub(crate) fn golden() -> Vec<(GateCase, Vec<TokenId>)> {
    let file = std::fs::read_to_string(demo("golden/target.json")).expect("golden vectors");
    let golden: serde_json::Value = serde_json::from_str(&file).expect("golden vectors are JSON");
    let ids = |value: &serde_json::Value| -> Vec<TokenId> {
        value.as_array().expect("ids").iter().map(|id| id.as_u64().expect("an id") as TokenId).collect()
    };
    let case = |(name, entry): (&String, &serde_json::Value)| {
        (GateCase { name: name.clone(), prompt: ids(&entry["prompt_ids"]) }, ids(&entry["greedy_ids"]))
    };
    golden.as_object().expect("an object").iter().map(case).collect()
}
