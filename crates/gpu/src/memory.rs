//! Read-backs: the one of a round, which may be waited for later, and downloads.

use std::sync::mpsc::{Receiver, channel};

use forerunner_tensor::DeviceError;

use crate::buffer::Memory;
use crate::driver::{Driver, failed};
use crate::recorder::Recorder;

/// Bytes that a buffer of read-backs has at least.
const READ_BYTES: u64 = 64 << 10;

/// A read-back that is queued.
pub struct ReadBack {
    /// None when queueing failed; waiting says why.
    arrival: Option<Arrival>,
}

impl ReadBack {
    /// One that could not be queued.
    pub(crate) fn failed() -> Self {
        ReadBack { arrival: None }
    }
}

/// Where a read-back arrives, and when.
struct Arrival {
    buffer: wgpu::Buffer,
    bytes: u64,
    submission: wgpu::SubmissionIndex,
    mapped: Receiver<Result<(), wgpu::BufferAsyncError>>,
}

/// Memory of read-backs that were waited for.
#[derive(Default)]
pub(crate) struct Arrivals {
    free: Vec<wgpu::Buffer>,
}

impl Arrivals {
    /// Queues copies of spans of whole words (memory, first byte, bytes), one behind the other.
    pub(crate) fn queue(
        &mut self,
        driver: &Driver,
        recorder: &mut Recorder,
        spans: &[(&Memory, u64, u64)],
    ) -> Result<ReadBack, DeviceError> {
        let bytes = spans.iter().map(|span| span.2).sum::<u64>();
        let buffer = self.take(driver, bytes)?;
        let mut at = 0;
        for (memory, offset, len) in spans.iter().filter(|span| span.2 > 0) {
            recorder.copy(driver, (memory, *offset), (&buffer, at), *len);
            at += len;
        }
        let submission = recorder.submit(driver).unwrap_or_else(|| driver.queue.submit([]));
        let (told, mapped) = channel();
        buffer.map_async(wgpu::MapMode::Read, .., move |outcome| {
            // Nobody listens when the read-back was dropped.
            let _ = told.send(outcome);
        });
        Ok(ReadBack { arrival: Some(Arrival { buffer, bytes, submission, mapped }) })
    }

    fn take(&mut self, driver: &Driver, bytes: u64) -> Result<wgpu::Buffer, DeviceError> {
        if let Some(index) = self.free.iter().position(|buffer| buffer.size() >= bytes) {
            return Ok(self.free.swap_remove(index));
        }
        let usage = wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST;
        driver.create_buffer(bytes.max(READ_BYTES).next_power_of_two(), usage, false)
    }

    /// Waits for a read-back and gives its bytes to `read`.
    pub(crate) fn wait(
        &mut self,
        driver: &Driver,
        read_back: ReadBack,
        read: impl FnOnce(&[u8]),
    ) -> Result<(), DeviceError> {
        let Some(arrival) = read_back.arrival else { return driver.take_failure() };
        driver.wait(Some(arrival.submission))?;
        let mapped = arrival.mapped.try_recv().map_err(|_| failed("a read-back did not arrive"))?;
        mapped.map_err(|error| failed(error.to_string()))?;
        let view = arrival.buffer.get_mapped_range(..).map_err(|error| failed(error.to_string()))?;
        read(&view[..arrival.bytes as usize]);
        drop(view);
        arrival.buffer.unmap();
        self.free.push(arrival.buffer);
        Ok(())
    }
}
