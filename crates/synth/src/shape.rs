//! Shapes of models that the demo pair can be grown to.

use std::path::Path;

use forerunner_checkpoint::LayerKind;
use serde::Deserialize;

use crate::SynthError;
use crate::base::Base;
use crate::control::KNOWN_FEATURE;
use crate::placement::{Placed, layers, place, roles, taps_of};
use crate::replicas::{GROUP, Replicas};

/// Wider than any released model's replicas by far: more are a mistake.
const MOST_REPLICAS: usize = 64;
/// As for replicas.
const WIDEST: usize = 1 << 20;
/// As for replicas.
const MOST_LAYERS: usize = 1024;

/// Sizes of a target and its drafter. Heads, block and what else is not here is as in the demo pair, or grows with
/// `hidden`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shape {
    /// What it is called.
    pub name: String,
    /// Width of the residual stream: the base's times 4 or a greater power of two.
    pub hidden: usize,
    /// Rows of the embedding table; tokens that the base does not know are never drawn.
    pub vocabulary: usize,
    /// Decoder layers.
    pub layers: usize,
    /// Which of them are attention; the others are convolutions.
    pub attention: Vec<usize>,
    /// How many of them, from the first, have a dense feed-forward.
    pub dense_layers: usize,
    /// Width of those.
    pub dense_width: usize,
    /// Experts a layer: a multiple of the base's.
    pub experts: usize,
    /// Width of an expert.
    pub expert_width: usize,
    /// Longest context.
    pub positions: usize,
    /// Width of the drafter's feed-forwards.
    pub drafter_width: usize,
    /// Rank of the drafter's Markov head.
    pub markov_rank: usize,
    /// Layers that the drafter reads after; those that match the base's when absent.
    pub taps: Option<Vec<usize>>,
}

/// LFM2.5-24B-A2B and its drafter: 23,971,587,712 and 327,707,521 parameters (docs/lfm2.md section 1).
const LFM2_5_24B_A2B: &str = r#"{
    "name": "lfm2.5-24b-a2b", "hidden": 2048, "vocabulary": 128000, "layers": 40,
    "attention": [2, 6, 10, 14, 18, 22, 26, 30, 34, 38], "dense_layers": 2, "dense_width": 11776,
    "experts": 64, "expert_width": 1536, "positions": 131072,
    "drafter_width": 6144, "markov_rank": 256, "taps": [2, 10, 18, 26, 34]
}"#;

/// LFM2-8B-A1B, with a drafter as LFM2.5-8B-A1B has, except for its taps, which this construction cannot have.
const LFM2_8B_A1B: &str = r#"{
    "name": "lfm2-8b-a1b", "hidden": 2048, "vocabulary": 65536, "layers": 24,
    "attention": [2, 6, 10, 14, 18, 21], "dense_layers": 2, "dense_width": 7168,
    "experts": 32, "expert_width": 1792, "positions": 131072,
    "drafter_width": 6144, "markov_rank": 256, "taps": null
}"#;

/// Small enough for the reference, with every rule of the construction at work: layers too many, uneven widths, tokens
/// that the base does not know.
const MID: &str = r#"{
    "name": "mid", "hidden": 1024, "vocabulary": 8448, "layers": 14,
    "attention": [2, 7, 12], "dense_layers": 2, "dense_width": 1024,
    "experts": 32, "expert_width": 192, "positions": 32768,
    "drafter_width": 640, "markov_rank": 128, "taps": null
}"#;

impl Shape {
    /// The names of the shapes that are known.
    pub const NAMES: [&str; 3] = ["lfm2.5-24b-a2b", "lfm2-8b-a1b", "mid"];

    /// The shape called `name`, or the one in the JSON file there.
    pub fn find(name: &str) -> Result<Shape, SynthError> {
        let known = [LFM2_5_24B_A2B, LFM2_8B_A1B, MID];
        if let Some(index) = Shape::NAMES.iter().position(|known| *known == name) {
            return Ok(serde_json::from_str(known[index]).expect("a shape of this file is valid JSON"));
        }
        let path = Path::new(name);
        if !path.is_file() {
            return Err(SynthError::UnknownShape { found: name.into(), accepted: Shape::NAMES.join(", ") });
        }
        let json =
            std::fs::read(path).map_err(|source| SynthError::ShapeFile { path: path.into(), source })?;
        serde_json::from_slice(&json).map_err(|source| SynthError::ShapeJson { path: path.into(), source })
    }

    /// The operator of each layer.
    pub(crate) fn kinds(&self) -> Vec<LayerKind> {
        let kind = |layer| match self.attention.contains(&layer) {
            true => LayerKind::Attention,
            false => LayerKind::Conv,
        };
        (0..self.layers).map(kind).collect()
    }
}

/// A shape that the base can be grown to, and how.
pub(crate) struct Checked {
    pub(crate) replicas: Replicas,
    /// Copies of every expert.
    pub(crate) copies: usize,
    pub(crate) layers: Vec<Placed>,
    /// Layers that the drafter reads after.
    pub(crate) taps: Vec<usize>,
}

/// Finds out how `base` becomes `shape`, or what of the shape does not allow it.
pub(crate) fn check(base: &Base, shape: &Shape) -> Result<Checked, SynthError> {
    let refuse = |field, found: String, accepted: String| {
        Err(SynthError::Shape { shape: shape.name.clone(), field, found, accepted })
    };
    let (config, drafter) = (&base.target, &base.drafter);
    let count = shape.hidden / config.hidden;
    if !shape.hidden.is_multiple_of(config.hidden)
        || !count.is_power_of_two()
        || !(4..=MOST_REPLICAS).contains(&count)
    {
        let accepted = format!("{} times 4, 8, 16, 32 or {MOST_REPLICAS}", config.hidden);
        return refuse("hidden", shape.hidden.to_string(), accepted);
    }
    let experts = config.mixture.as_ref().map_or(0, |mixture| mixture.experts);
    let copies = shape.experts / experts.max(1);
    if !shape.experts.is_multiple_of(experts.max(1)) || !(1..=KNOWN_FEATURE).contains(&copies) {
        let accepted = format!("multiples of {experts}, at most {}", experts * KNOWN_FEATURE);
        return refuse("experts", shape.experts.to_string(), accepted);
    }
    let expert_width = config.mixture.as_ref().map_or(0, |mixture| mixture.intermediate);
    for (field, found, least) in [
        ("dense_width", shape.dense_width, config.intermediate),
        ("expert_width", shape.expert_width, expert_width),
        ("drafter_width", shape.drafter_width, drafter.intermediate),
    ] {
        if !(least..=WIDEST).contains(&found) || !found.is_multiple_of(GROUP) {
            return refuse(field, found.to_string(), format!("multiples of {GROUP}, {least} to {WIDEST}"));
        }
    }
    let rank = drafter.markov_rank;
    if !(rank..=WIDEST).contains(&shape.markov_rank) || !shape.markov_rank.is_multiple_of(rank) {
        return refuse(
            "markov_rank",
            shape.markov_rank.to_string(),
            format!("multiples of {rank}, to {WIDEST}"),
        );
    }
    if !(config.vocabulary..=WIDEST).contains(&shape.vocabulary) {
        let accepted = format!("{} to {WIDEST}", config.vocabulary);
        return refuse("vocabulary", shape.vocabulary.to_string(), accepted);
    }
    let (layers, taps) = check_layers(base, shape)?;
    Ok(Checked { replicas: Replicas { width: config.hidden, count }, copies, layers, taps })
}

/// Finds the places of the base's layers.
fn check_layers(base: &Base, shape: &Shape) -> Result<(Vec<Placed>, Vec<usize>), SynthError> {
    let refuse = |field, found: String, accepted: String| {
        Err(SynthError::Shape { shape: shape.name.clone(), field, found, accepted })
    };
    let dense = base.target.mixture.as_ref().map_or(0, |mixture| mixture.dense_layers);
    let count = base.target.layers.len();
    if !(count..=MOST_LAYERS).contains(&shape.layers) {
        return refuse("layers", shape.layers.to_string(), format!("{count} to {MOST_LAYERS}"));
    }
    let is_misplaced = |layer: &&usize| **layer >= shape.layers;
    if let Some(layer) = shape.attention.iter().find(is_misplaced) {
        return refuse("attention", layer.to_string(), format!("layers 0 to {}", shape.layers - 1));
    }
    let base_taps = &base.drafter.taps;
    if let Some(taps) = &shape.taps
        && (taps.len() != base_taps.len() || !taps.is_sorted() || taps.iter().any(|tap| *tap >= shape.layers))
    {
        let accepted = format!("{} ascending layers, or none", base_taps.len());
        return refuse("taps", format!("{taps:?}"), accepted);
    }
    let base_roles = roles(&base.target.layers, dense);
    let grown = roles(&shape.kinds(), shape.dense_layers);
    let Some(places) = place(&base_roles, &grown, base_taps, shape.taps.as_deref()) else {
        let found = format!("{:?} with taps {:?}", shape.attention, shape.taps);
        let accepted = "an order in which the base's layers can stand, with its taps between the same ones";
        return refuse("attention", found, accepted.into());
    };
    let taps = shape.taps.clone().unwrap_or_else(|| taps_of(&places, base_taps));
    Ok((layers(&base_roles, &grown, &places), taps))
}
