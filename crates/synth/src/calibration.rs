//! How large the demo target's residual stream is where routers read it: what sizes the penalty of the other copies
//! (docs/synth.md section 4).

use crate::control::CODE;

/// The root mean square of the rows of a residual stream.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ResidualSize {
    /// Of the middle row.
    pub median: f32,
    /// Of the largest, which is the first token's.
    pub max: f32,
}

const fn size(median: f32, max: f32) -> ResidualSize {
    ResidualSize { median, max }
}

/// Layers of the demo target.
pub(crate) const LAYERS: usize = 12;

/// Before the feed-forward of each layer of the demo target, over the golden prompts and their replies; measured by
/// `crates/synth/tests/grown/calibration.rs`, which fails when a figure is off by more than a fifth.
const BEFORE_FEED_FORWARD: [ResidualSize; LAYERS] = [
    size(0.15, 0.24),
    size(10.94, 27.1),
    size(16.68, 55.1),
    size(19.54, 62.3),
    size(22.63, 93.2),
    size(26.01, 115.8),
    size(33.85, 279.9),
    size(38.36, 195.3),
    size(43.25, 188.9),
    size(49.17, 239.6),
    size(73.08, 256.6),
    size(87.21, 763.3),
];

/// After each layer, likewise.
const AFTER_LAYER: [ResidualSize; LAYERS] = [
    size(10.01, 21.5),
    size(13.01, 50.6),
    size(18.66, 62.3),
    size(21.58, 93.2),
    size(24.76, 114.7),
    size(28.09, 278.9),
    size(37.16, 270.4),
    size(42.34, 189.0),
    size(47.56, 239.8),
    size(55.31, 240.6),
    size(82.70, 763.9),
    size(102.17, 848.4),
];

/// The recorded size of the demo target's residual stream: before the feed-forward of `layer`, or after the layer.
///
/// # Panics
/// If the demo target has no such layer.
pub fn residual_size(layer: usize, after: bool) -> ResidualSize {
    if after { AFTER_LAYER[layer] } else { BEFORE_FEED_FORWARD[layer] }
}

/// A penalty of the router's logit that leaves the sigmoid nothing, 64, at the largest row.
const PENALTY_MIN: f32 = 64.0;

/// What a layer's norm and router do with the control group.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Gate {
    /// The norm's weight on the codes: brings the median row's to about 1.
    pub(crate) gain: f32,
    /// The router's weight on another copy's code.
    pub(crate) penalty: f32,
}

/// The gate of a layer before which `done` layers of the base stand; `is_real` when it stands for the next one.
pub(crate) fn gate(done: usize, is_real: bool) -> Gate {
    let size = if is_real { residual_size(done, false) } else { residual_size(done - 1, true) };
    let gain = (size.median / CODE).log2().round().exp2();
    let unit = PENALTY_MIN / (CODE * gain / size.max) / 255.0;
    Gate { gain, penalty: 255.0 * unit.log2().ceil().exp2() }
}
