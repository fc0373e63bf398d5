//! Buffers: device memory for plain values, given back when dropped.

use std::marker::PhantomData;
use std::ops::Range;
use std::sync::Arc;

use forerunner_tensor::{DeviceError, Element};

use crate::driver::{Address, Driver};
use crate::reserved::Reserved;

/// `len` values on the GPU.
pub struct Buffer<T: Element> {
    memory: Holding,
    len: usize,
    values: PhantomData<T>,
}

impl<T: Element> Buffer<T> {
    pub(crate) fn zeroed(driver: &Arc<Driver>, len: usize) -> Result<Self, DeviceError> {
        let memory = Memory::zeroed(driver, len.saturating_mul(size_of::<T>()))?;
        Ok(Buffer { memory: Holding::All(memory), len, values: PhantomData })
    }

    /// Addresses for `len` values, which take memory when [`Buffer::commit`] asks.
    pub(crate) fn reserved(driver: &Arc<Driver>, len: usize) -> Result<Self, DeviceError> {
        let memory = Reserved::new(driver, len.saturating_mul(size_of::<T>()))?;
        Ok(Buffer { memory: Holding::Reserved(memory), len, values: PhantomData })
    }

    /// Has a range of values take memory, zeros where it is new.
    ///
    /// # Panics
    /// If they are not inside.
    pub(crate) fn commit(&mut self, values: Range<usize>) -> Result<(), DeviceError> {
        assert!(values.end <= self.len, "values {values:?} of a buffer of {}", self.len);
        match &mut self.memory {
            Holding::All(_) => Ok(()),
            Holding::Reserved(memory) => {
                memory.commit(values.start * size_of::<T>()..values.end * size_of::<T>())
            }
        }
    }

    /// The address of the first value.
    pub(crate) fn address(&self) -> Address {
        match &self.memory {
            Holding::All(memory) => memory.address,
            Holding::Reserved(memory) => memory.address,
        }
    }

    /// The address of value `offset`, of which `count` from there on are inside.
    ///
    /// # Panics
    /// If they are not.
    pub(crate) fn span(&self, offset: usize, count: usize) -> Address {
        let end = offset.checked_add(count);
        assert!(
            end.is_some_and(|end| end <= self.len),
            "values {offset}..+{count} of a buffer of {}",
            self.len
        );
        self.address() + (offset * size_of::<T>()) as u64
    }

    /// The address, where at least `count` values are.
    ///
    /// # Panics
    /// If they are not.
    pub(crate) fn first(&self, count: usize) -> Address {
        self.span(0, count)
    }
}

/// A buffer's memory.
enum Holding {
    All(Memory),
    Reserved(Reserved),
}

/// Bytes on the GPU.
pub(crate) struct Memory {
    driver: Arc<Driver>,
    pub(crate) address: Address,
    pub(crate) bytes: usize,
}

impl Memory {
    pub(crate) fn zeroed(driver: &Arc<Driver>, bytes: usize) -> Result<Self, DeviceError> {
        // Nothing still has an address that kernels may be given.
        let bytes = bytes.max(1);
        Ok(Memory { address: driver.allocate(bytes)?, bytes, driver: Arc::clone(driver) })
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        self.driver.free(self.address, self.bytes);
    }
}
