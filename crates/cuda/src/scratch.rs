//! Memory between the kernels of one operation, grown to the largest that was asked for.

use std::sync::Arc;

use forerunner_tensor::DeviceError;

use crate::buffer::Memory;
use crate::driver::{Address, Driver};

/// What an operation keeps to itself, one place each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// Activations between gate and down.
    Active,
    /// Gate and up side by side.
    GateUp,
    /// Outputs of experts, before they are added.
    ExpertOutputs,
    /// Entries in order of experts.
    Order,
    /// Where experts begin in that order.
    Starts,
    /// Logits of a router.
    RouterLogits,
    /// Bits of picked experts; zeros between operations.
    Picked,
    /// Counters of blocks that have finished; zeros between operations.
    Counters,
    /// Sums of attention pages.
    Partials,
    /// The best of each part of a vocabulary.
    DrawParts,
    /// Embeddings of the tokens before a chain's step.
    ChainEmbeddings,
    /// Logits of a chain's step.
    ChainLogits,
}

const PLACES: usize = Place::ChainLogits as usize + 1;

/// The memory of each place.
#[derive(Default)]
pub(crate) struct Scratch {
    places: [Option<Memory>; PLACES],
}

impl Scratch {
    /// At least `bytes` bytes. Fresh memory is zeros; growing forgets what was there, and all recorded rounds: it is by an eighth at
    /// least.
    pub(crate) fn take(
        &mut self,
        driver: &Arc<Driver>,
        place: Place,
        bytes: usize,
    ) -> Result<Address, DeviceError> {
        let memory = &mut self.places[place as usize];
        if let Some(memory) = memory.as_ref().filter(|memory| memory.bytes >= bytes) {
            return Ok(memory.address);
        }
        let address = memory.insert(Memory::zeroed(driver, rounded(bytes))?).address;
        Ok(address)
    }
}

/// To a multiple of an eighth of the next power of two.
fn rounded(bytes: usize) -> usize {
    bytes.next_multiple_of((bytes.next_power_of_two() / 8).max(1 << 10))
}
