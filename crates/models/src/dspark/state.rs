//! The drafter's context, and the activations of one absorb or hold.

use std::ops::Range;

use forerunner_checkpoint::DrafterConfig;
use forerunner_tensor::{Device, DeviceError, KeyValuePages, PAGE, bf16};

use super::load::head_shape;
use crate::layers::AttentionScratch;

/// Context keys and values of all lanes, in the target's pages.
pub struct State<D: Device> {
    /// One entry a layer.
    pub layers: Vec<KeyValuePages<D>>,
    /// Keys of a page, and values.
    page_width: usize,
}

impl<D: Device> State<D> {
    /// Reserves `pages` pages.
    pub fn new(device: &D, config: &DrafterConfig, pages: usize) -> Result<Self, DeviceError> {
        let page_width = config.key_value_heads * PAGE * config.head_dim;
        let layers = (0..config.layers).map(|_| KeyValuePages::reserve(device, pages, page_width));
        Ok(State { layers: layers.collect::<Result<_, DeviceError>>()?, page_width })
    }

    /// Has some pages take memory.
    pub fn commit(&mut self, device: &D, pages: Range<usize>) -> Result<(), DeviceError> {
        self.layers.iter_mut().try_for_each(|layer| layer.commit(device, pages.clone(), self.page_width))
    }
}

/// Activations of the drafter, allocated once for the largest round.
pub struct Activations<D: Device> {
    /// `[rows, hidden]`
    pub hidden: D::Buffer<bf16>,
    /// `[rows, hidden]`
    pub normed: D::Buffer<bf16>,
    /// Of the attention layers.
    pub attention: AttentionScratch<D>,
    /// `[blocks * block, vocabulary]`
    pub logits: D::Buffer<f32>,
    /// `[blocks, block]`
    pub drafts: D::Buffer<i32>,
    /// `[blocks, block]`
    pub confidence: D::Buffer<f32>,
}

impl<D: Device> Activations<D> {
    /// Room to absorb `rows` rows and to fill `blocks` blocks.
    pub fn new(device: &D, config: &DrafterConfig, rows: usize, blocks: usize) -> Result<Self, DeviceError> {
        let block_rows = blocks * config.block;
        let most = rows.max(block_rows);
        Ok(Activations {
            hidden: device.allocate(most * config.hidden)?,
            normed: device.allocate(most * config.hidden)?,
            attention: AttentionScratch::new(device, head_shape(config), most)?,
            logits: device.allocate(block_rows * config.vocabulary)?,
            drafts: device.allocate(block_rows)?,
            confidence: device.allocate(block_rows)?,
        })
    }
}
