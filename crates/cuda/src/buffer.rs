//! Buffers: device memory for plain values, given back when dropped.

use std::marker::PhantomData;
use std::sync::Arc;

use forerunner_tensor::{DeviceError, Element};

use crate::driver::{Address, Driver};

/// `len` values on the GPU.
pub struct Buffer<T: Element> {
    memory: Memory,
    len: usize,
    values: PhantomData<T>,
}

impl<T: Element> Buffer<T> {
    pub(crate) fn zeroed(driver: &Arc<Driver>, len: usize) -> Result<Self, DeviceError> {
        let memory = Memory::zeroed(driver, len.saturating_mul(size_of::<T>()))?;
        Ok(Buffer { memory, len, values: PhantomData })
    }

    /// The address of the first value.
    pub(crate) fn address(&self) -> Address {
        self.memory.address
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
        self.memory.address + (offset * size_of::<T>()) as u64
    }

    /// The address, where at least `count` values are.
    ///
    /// # Panics
    /// If they are not.
    pub(crate) fn first(&self, count: usize) -> Address {
        self.span(0, count)
    }
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
