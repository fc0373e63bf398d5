//! Buffers: memory that shaders read and write, given back when dropped.

use std::marker::PhantomData;
use std::ops::Deref;
use std::sync::Arc;

use forerunner_tensor::{DeviceError, Element};

use crate::driver::Driver;

/// `len` values on the device.
pub struct Buffer<T: Element> {
    pub(crate) memory: Memory,
    pub(crate) len: usize,
    values: PhantomData<T>,
}

impl<T: Element> Buffer<T> {
    pub(crate) fn zeroed(driver: &Arc<Driver>, len: usize) -> Result<Self, DeviceError> {
        let memory = Memory::zeroed(driver, len.saturating_mul(size_of::<T>()) as u64)?;
        Ok(Buffer { memory, len, values: PhantomData })
    }

    /// Its memory, where at least `count` values are.
    ///
    /// # Panics
    /// If they are not.
    pub(crate) fn first(&self, count: usize) -> &Memory {
        assert!(count <= self.len, "{count} values of a buffer of {}", self.len);
        &self.memory
    }

    /// The bytes at which values `offset..offset + count` begin.
    ///
    /// # Panics
    /// If they are not inside.
    pub(crate) fn byte_offset(&self, offset: usize, count: usize) -> u64 {
        let end = offset.checked_add(count);
        assert!(
            end.is_some_and(|end| end <= self.len),
            "values {offset}..+{count} of a buffer of {}",
            self.len
        );
        (offset * size_of::<T>()) as u64
    }
}

/// What any buffer of the device may be used for.
pub(crate) const USAGE: wgpu::BufferUsages =
    wgpu::BufferUsages::STORAGE.union(wgpu::BufferUsages::COPY_SRC).union(wgpu::BufferUsages::COPY_DST);

/// Bytes on the device, held by those who use them.
#[derive(Clone)]
pub(crate) struct Memory(Arc<Held>);

/// The bytes themselves, given back with the last who holds them.
pub(crate) struct Held {
    driver: Arc<Driver>,
    pub(crate) raw: wgpu::Buffer,
    /// No other buffer has it, ever.
    pub(crate) id: u32,
    pub(crate) bytes: u64,
}

impl Memory {
    pub(crate) fn zeroed(driver: &Arc<Driver>, bytes: u64) -> Result<Self, DeviceError> {
        Memory::with_usage(driver, bytes, USAGE, false)
    }

    pub(crate) fn with_usage(
        driver: &Arc<Driver>,
        bytes: u64,
        usage: wgpu::BufferUsages,
        mapped: bool,
    ) -> Result<Self, DeviceError> {
        // Shaders read 16 bytes at a time, and nothing is still something that can be bound.
        let bytes = bytes.next_multiple_of(16).max(16);
        let raw = driver.create_buffer(bytes, usage, mapped)?;
        Ok(Memory(Arc::new(Held { id: driver.register(bytes), raw, bytes, driver: Arc::clone(driver) })))
    }
}

impl Deref for Memory {
    type Target = Held;

    fn deref(&self) -> &Held {
        &self.0
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.driver.forget(self.bytes);
    }
}
