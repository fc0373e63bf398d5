//! The demo pair, what is grown of it, and the golden prompts.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use forerunner_checkpoint::{DrafterCheckpoint, TargetCheckpoint, TensorSource};
use forerunner_reference::target::FeedForward;
use forerunner_reference::{ReferenceDrafter, ReferenceTarget, ReplyLimit};
use forerunner_synth::{Base, Format, Specification};
use serde_json::Value;

/// Prompts here are short: what growing breaks, it breaks at once.
pub(crate) const LIMIT: ReplyLimit<'_> = ReplyLimit { max_tokens: 24, stop_tokens: &[2, 7] };

pub(crate) fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The 4-bit demo target, or the bf16 one where it is there.
pub(crate) fn demo_target(format: Format) -> Option<TargetCheckpoint> {
    let directory = match format {
        Format::Bits4 => workspace().join("assets/demo/target"),
        Format::Bf16 => workspace().join("../shared/demo/demo-target"),
    };
    directory.exists().then(|| TargetCheckpoint::open(&directory).expect("the demo target opens"))
}

pub(crate) fn demo_drafter(target: &TargetCheckpoint) -> DrafterCheckpoint {
    let directory = workspace().join("assets/demo/drafter");
    DrafterCheckpoint::open(&directory, target.config()).expect("the demo drafter opens")
}

/// The 4-bit demo pair, to be grown in `format`.
pub(crate) fn base(format: Format) -> Base {
    let target = demo_target(Format::Bits4).expect("in the repository");
    Base::load(&target, &demo_drafter(&target), format).expect("the demo pair is a base")
}

pub(crate) fn specification(text: &str) -> Specification {
    text.parse().expect("a specification")
}

/// The grown pair as checkpoints.
pub(crate) fn grown(text: &str) -> (TargetCheckpoint, DrafterCheckpoint) {
    let specification = specification(text);
    let base = base(specification.format);
    let target: Arc<dyn TensorSource> = Arc::new(base.grow_target(&specification).expect("grows"));
    let drafter: Arc<dyn TensorSource> = Arc::new(base.grow_drafter(&specification).expect("grows"));
    let target = TargetCheckpoint::from_source(&target).expect("a grown target opens");
    let drafter = DrafterCheckpoint::from_source(&drafter, target.config()).expect("a grown drafter opens");
    (target, drafter)
}

/// A pair in fp32.
pub(crate) struct Pair {
    pub(crate) target: ReferenceTarget,
    pub(crate) drafter: ReferenceDrafter,
}

impl Pair {
    pub(crate) fn load(target: &TargetCheckpoint, drafter: &DrafterCheckpoint) -> Pair {
        Pair {
            target: ReferenceTarget::load(target).expect("the target loads"),
            drafter: ReferenceDrafter::load(drafter).expect("the drafter loads"),
        }
    }

    /// The demo pair without its expert bias, which nothing that is grown has (docs/synth.md section 3).
    pub(crate) fn base() -> Pair {
        let target = demo_target(Format::Bits4).expect("in the repository");
        let mut pair = Pair::load(&target, &demo_drafter(&target));
        for layer in &mut pair.target.layers {
            if let FeedForward::Mixture(mixture) = &mut layer.feed_forward {
                mixture.bias.fill(0.0);
            }
        }
        pair
    }
}

/// A golden prompt and its greedy reply.
pub(crate) struct Prompt {
    pub(crate) name: String,
    pub(crate) prompt: Vec<u32>,
    pub(crate) reply: Vec<u32>,
}

/// The golden prompts of the 4-bit demo pair.
pub(crate) fn prompts() -> Vec<Prompt> {
    let path = workspace().join("assets/demo/golden/target.json");
    let json: Value = serde_json::from_slice(&std::fs::read(path).expect("golden vectors")).expect("JSON");
    let ids = |value: &Value| -> Vec<u32> {
        value.as_array().expect("ids").iter().map(|id| id.as_u64().expect("an id") as u32).collect()
    };
    let prompt = |(name, value): (&String, &Value)| Prompt {
        name: name.clone(),
        prompt: ids(&value["prompt_ids"]),
        reply: ids(&value["greedy_ids"]),
    };
    json.as_object().expect("prompts by name").iter().map(prompt).collect()
}
