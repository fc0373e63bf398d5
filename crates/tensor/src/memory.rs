//! What a device has allocated.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Counts the bytes of a device's own memory that are allocated. Clones count together, so that one can be kept where the
/// device itself is out of reach.
#[derive(Debug, Clone, Default)]
pub struct MemoryMeter(Arc<Counts>);

#[derive(Debug, Default)]
struct Counts {
    now: AtomicU64,
    most: AtomicU64,
}

impl MemoryMeter {
    /// `bytes` have been allocated.
    pub fn add(&self, bytes: u64) {
        let now = self.0.now.fetch_add(bytes, Ordering::Relaxed) + bytes;
        self.0.most.fetch_max(now, Ordering::Relaxed);
    }

    /// `bytes` have been given back.
    pub fn subtract(&self, bytes: u64) {
        self.0.now.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Bytes that are allocated.
    pub fn now(&self) -> u64 {
        self.0.now.load(Ordering::Relaxed)
    }

    /// Most bytes that were allocated at once, since the last [`MemoryMeter::forget_most`] if there was one.
    pub fn most(&self) -> u64 {
        self.0.most.load(Ordering::Relaxed)
    }

    /// Counts the most anew from now on.
    pub fn forget_most(&self) {
        self.0.most.store(self.now(), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clones_count_together() {
        let meter = MemoryMeter::default();
        let kept = meter.clone();
        meter.add(10);
        meter.add(5);
        meter.subtract(12);
        assert_eq!((kept.now(), kept.most()), (3, 15));
        kept.forget_most();
        meter.add(4);
        assert_eq!((kept.now(), kept.most()), (7, 7));
    }
}
