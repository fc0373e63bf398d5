//! What a target remembers between forwards, and the activations of one forward.

use std::ops::Range;

use forerunner_checkpoint::{LayerKind, TargetConfig};
use forerunner_tensor::{CONV_RING, ConvRing, Device, DeviceError, KeyValuePages, PAGE, Routing, bf16};

use super::load::head_shape;
use crate::layers::AttentionScratch;

/// Keys, values and convolution rings of all lanes.
pub struct State<D: Device> {
    /// One entry a layer.
    pub layers: Vec<LayerState<D>>,
    /// Keys of a page, and values.
    page_width: usize,
}

/// One layer's memory.
pub enum LayerState<D: Device> {
    /// Keys and values in pages.
    Attention(KeyValuePages<D>),
    /// Gated rows of a short convolution.
    Conv(ConvRing<D>),
}

impl<D: Device> State<D> {
    /// Memory for `lanes` lanes and for `kept_rows` gated rows behind each ring; the `pages` pages that lanes share are
    /// reserved.
    pub fn new(
        device: &D,
        config: &TargetConfig,
        lanes: usize,
        pages: usize,
        kept_rows: usize,
    ) -> Result<Self, DeviceError> {
        let ring_rows = lanes * CONV_RING + kept_rows;
        let page_width = config.key_value_heads * PAGE * config.head_dim;
        let layers = config.layers.iter().map(|kind| {
            Ok(match kind {
                LayerKind::Attention => {
                    LayerState::Attention(KeyValuePages::reserve(device, pages, page_width)?)
                }
                LayerKind::Conv => {
                    LayerState::Conv(ConvRing { gated: device.allocate(ring_rows * config.hidden)? })
                }
            })
        });
        Ok(State { layers: layers.collect::<Result<_, DeviceError>>()?, page_width })
    }

    /// Has some pages take memory.
    pub fn commit(&mut self, device: &D, pages: Range<usize>) -> Result<(), DeviceError> {
        for layer in &mut self.layers {
            if let LayerState::Attention(layer) = layer {
                layer.commit(device, pages.clone(), self.page_width)?;
            }
        }
        Ok(())
    }
}

/// Activations of one forward, allocated once for the largest.
pub struct Activations<D: Device> {
    /// `[rows, hidden]`: the residual stream.
    pub hidden: D::Buffer<bf16>,
    /// `[rows, hidden]`: its norm.
    pub normed: D::Buffer<bf16>,
    /// `[rows, 3 * hidden]`: B, C and x of a convolution.
    pub projected: D::Buffer<bf16>,
    /// Of the attention layers; its `mixed` also takes a convolution's output.
    pub attention: AttentionScratch<D>,
    /// `[rows + waiting_taps, taps * hidden]`: the stream after each tapped layer, and rows kept for later.
    pub taps: D::Buffer<bf16>,
    /// Picks of the current mixture layer.
    pub routing: Routing<D>,
    /// `[draws]`: the rows that draw.
    pub draw_index: D::Buffer<i32>,
    /// `[draws, hidden]`: the stream of those rows.
    pub gathered: D::Buffer<bf16>,
    /// `[draws, vocabulary]`
    pub logits: D::Buffer<f32>,
}

/// The largest forward.
#[derive(Debug, Clone, Copy)]
pub struct ActivationSizes {
    /// Rows.
    pub rows: usize,
    /// Rows that draw.
    pub draws: usize,
    /// Tapped layers.
    pub taps: usize,
    /// Tapped rows kept for later.
    pub waiting_taps: usize,
}

impl<D: Device> Activations<D> {
    /// Room for forwards of these sizes.
    pub fn new(device: &D, config: &TargetConfig, sizes: &ActivationSizes) -> Result<Self, DeviceError> {
        let ActivationSizes { rows, draws, taps, waiting_taps } = *sizes;
        let hidden = config.hidden;
        let picks = config.mixture.as_ref().map_or(1, |mixture| mixture.picks);
        Ok(Activations {
            hidden: device.allocate(rows * hidden)?,
            normed: device.allocate(rows.max(draws) * hidden)?,
            projected: device.allocate(rows * 3 * hidden)?,
            attention: AttentionScratch::new(device, head_shape(config), rows)?,
            taps: device.allocate((rows + waiting_taps) * taps * hidden)?,
            routing: Routing {
                experts: device.allocate(rows * picks)?,
                weights: device.allocate(rows * picks)?,
                distinct: device.allocate(config.layers.len())?,
            },
            draw_index: device.allocate(draws)?,
            gathered: device.allocate(draws * hidden)?,
            logits: device.allocate(draws * config.vocabulary)?,
        })
    }
}
