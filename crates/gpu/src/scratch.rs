//! Memory between the kernels of one operation, grown to the largest that was asked for.

use std::sync::Arc;

use forerunner_tensor::DeviceError;

use crate::buffer::Memory;
use crate::driver::Driver;

/// What an operation keeps to itself, one place each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// Activations between gate and down.
    Active,
    /// Gate and up side by side.
    GateUp,
    /// Sums before they are rounded.
    Wide,
    /// Outputs of experts, before they are added.
    ExpertOutputs,
    /// Entries in order of experts.
    Order,
    /// Tiles of that order.
    Tiles,
    /// Logits of a router.
    RouterLogits,
    /// Sums of attention pages.
    Partials,
    /// The best of each part of a vocabulary.
    DrawParts,
    /// Embeddings of the tokens before a chain's step.
    ChainEmbeddings,
    /// Logits of a chain's step.
    ChainLogits,
    /// Stands where a kernel reads or writes nothing.
    Nothing,
}

const PLACES: usize = Place::Nothing as usize + 1;

/// The memory of each place.
#[derive(Default)]
pub(crate) struct Scratch {
    places: [Option<Arc<Memory>>; PLACES],
}

impl Scratch {
    /// At least `bytes` bytes; growing forgets what was there.
    pub(crate) fn take(
        &mut self,
        driver: &Arc<Driver>,
        place: Place,
        bytes: usize,
    ) -> Result<Arc<Memory>, DeviceError> {
        let memory = &mut self.places[place as usize];
        if let Some(memory) = memory.as_ref().filter(|memory| memory.bytes >= bytes as u64) {
            return Ok(Arc::clone(memory));
        }
        // A power of two, as long as there are buffers so large.
        let most = driver.limits.max_buffer_size.min(driver.limits.max_storage_buffer_binding_size);
        let rounded = (bytes as u64).next_power_of_two();
        let bytes = if rounded > most { bytes as u64 } else { rounded };
        Ok(Arc::clone(memory.insert(Arc::new(Memory::zeroed(driver, bytes)?))))
    }
}
