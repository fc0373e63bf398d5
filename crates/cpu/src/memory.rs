//! Buffers: zeroed, aligned to cache lines, and untouched until they are written.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

use forerunner_tensor::{DeviceError, Element};

/// Alignment of every buffer: one cache line, one 512-bit vector.
const LINE: usize = 64;

/// Allocators give zeroed memory lazily up to this alignment only; above it they write the zeros.
const LAZY_ALIGNMENT: usize = 16;

/// `len` values that start at a cache line. Pages never written cost no memory.
pub struct Buffer<T: Element> {
    /// What the allocator returned; `None` when nothing was asked for.
    allocation: Option<(NonNull<u8>, Layout)>,
    start: NonNull<T>,
    len: usize,
    values: PhantomData<T>,
}

// SAFETY: a buffer owns its memory alone, and elements are plain values.
unsafe impl<T: Element> Send for Buffer<T> {}
// SAFETY: shared access only reads, and elements are plain values.
unsafe impl<T: Element> Sync for Buffer<T> {}

impl<T: Element> Buffer<T> {
    /// `len` zeros.
    pub(crate) fn zeroed(len: usize) -> Result<Self, DeviceError> {
        let bytes = len.checked_mul(size_of::<T>()).ok_or_else(|| out_of_memory(usize::MAX))?;
        if bytes == 0 {
            return Ok(Buffer { allocation: None, start: NonNull::dangling(), len, values: PhantomData });
        }
        let layout = bytes
            .checked_add(LINE)
            .and_then(|padded| Layout::from_size_align(padded, LAZY_ALIGNMENT).ok())
            .ok_or_else(|| out_of_memory(bytes))?;
        // SAFETY: the layout has a size above zero.
        let base = NonNull::new(unsafe { alloc_zeroed(layout) }).ok_or_else(|| out_of_memory(bytes))?;
        let padding = base.align_offset(LINE);
        assert!(padding < LINE, "{padding} bytes of padding");
        // SAFETY: the allocation is `LINE` bytes longer than the values, and the padding is below that.
        let start = unsafe { base.add(padding) }.cast();
        Ok(Buffer { allocation: Some((base, layout)), start, len, values: PhantomData })
    }
}

fn out_of_memory(bytes: usize) -> DeviceError {
    DeviceError::OutOfMemory {
        device: crate::NAME.into(),
        bytes,
        reason: "the system allocator refused".into(),
    }
}

impl<T: Element> Deref for Buffer<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        // SAFETY: `start` is aligned and has `len` initialised values (zeros are values of every element).
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl<T: Element> DerefMut for Buffer<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as for `deref`, and the buffer is borrowed alone.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }
}

impl<T: Element> Drop for Buffer<T> {
    fn drop(&mut self) {
        if let Some((base, layout)) = self.allocation {
            // SAFETY: this is the allocation made in `zeroed`, with its layout.
            unsafe { dealloc(base.as_ptr(), layout) }
        }
    }
}

/// Scratch that is grown when a larger shape is met and kept: a steady round allocates nothing.
pub(crate) struct Scratch<T: Element> {
    buffer: Buffer<T>,
}

impl<T: Element> Scratch<T> {
    pub(crate) const fn new() -> Self {
        let buffer = Buffer { allocation: None, start: NonNull::dangling(), len: 0, values: PhantomData };
        Scratch { buffer }
    }

    /// `len` values; what they hold is unspecified.
    pub(crate) fn take(&mut self, len: usize) -> &mut [T] {
        if self.buffer.len() < len {
            let room = len.next_power_of_two();
            self.buffer = Buffer::zeroed(room).unwrap_or_else(|error| panic!("{error}"));
        }
        &mut self.buffer[..len]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_start_at_a_cache_line_and_hold_zeros() {
        for len in [0usize, 1, 63, 1000, 1 << 20] {
            let buffer = Buffer::<u32>::zeroed(len).unwrap();
            assert_eq!(buffer.len(), len);
            assert!(len == 0 || buffer.as_ptr().addr().is_multiple_of(LINE));
            assert!(buffer.iter().all(|&value| value == 0));
        }
    }

    #[test]
    fn a_size_past_all_memory_is_an_error() {
        assert!(Buffer::<f32>::zeroed(usize::MAX / 2).is_err());
        assert!(Buffer::<f32>::zeroed(1 << 58).is_err());
    }

    #[test]
    fn scratch_keeps_what_it_has_grown_to() {
        let mut scratch = Scratch::<f32>::new();
        scratch.take(100)[99] = 3.0;
        assert_eq!(scratch.take(50).len(), 50);
        assert_eq!(scratch.take(100)[99], 3.0);
    }
}
