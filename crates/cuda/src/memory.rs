//! Uploads gathered into one kernel, and the one read-back of a round, which may be waited for later.

use forerunner_tensor::DeviceError;

use crate::driver::{Address, Driver, Event, Pinned};
use crate::module::{Grid, Kernel, Module, Params};

/// Host memory for the uploads of a round.
const STAGED_BYTES: usize = 1 << 20;
/// The longest upload that waits; longer ones are copied at once.
const LONGEST_STAGED: usize = 256 << 10;
/// Most uploads that one kernel carries out.
const MOST_UPLOADS: usize = 1024;
/// Threads that copy one upload.
const THREADS: usize = 256;

/// An upload as the kernel reads it: to where, from where, how many bytes.
#[repr(C)]
#[derive(Debug, Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
struct Upload {
    to: Address,
    from: Address,
    bytes: u64,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct ScatterParams {
    uploads: Address,
}

// SAFETY: `ScatterParams` of `memory.cuh`.
unsafe impl Params for ScatterParams {}

/// Pinned memory of the uploads between two read-backs.
struct Segment {
    values: Pinned,
    used: usize,
    /// Descriptions that kernels may still read come first, then those that wait.
    table: Pinned,
    queued: usize,
    /// Behind the last kernel that reads it.
    done: Event,
}

/// Segments, so that a round's uploads can be written while kernels read those of the rounds before.
const SEGMENTS: usize = 4;

/// Uploads on their way: their values in pinned memory, from where one kernel writes all of them.
pub(crate) struct Staging {
    segments: Vec<Segment>,
    current: usize,
    waiting: Vec<Upload>,
}

impl Staging {
    pub(crate) fn new(driver: &Driver) -> Result<Self, DeviceError> {
        let segment = || {
            Ok(Segment {
                values: Pinned::new(driver, STAGED_BYTES)?,
                used: 0,
                table: Pinned::new(driver, MOST_UPLOADS * size_of::<Upload>())?,
                queued: 0,
                done: Event::new(driver)?,
            })
        };
        let segments = (0..SEGMENTS).map(|_| segment()).collect::<Result<_, DeviceError>>()?;
        Ok(Staging { segments, current: 0, waiting: Vec::with_capacity(MOST_UPLOADS) })
    }

    /// Has `bytes` written to `to` before the next kernel.
    pub(crate) fn upload(
        &mut self,
        driver: &Driver,
        module: &Module,
        to: Address,
        bytes: &[u8],
    ) -> Result<(), DeviceError> {
        if bytes.is_empty() {
            return Ok(());
        }
        if bytes.len() > LONGEST_STAGED {
            self.flush(driver, module)?;
            return driver.copy_to(to, bytes);
        }
        let end = to + bytes.len() as u64;
        let overlaps = |upload: &Upload| to < upload.to + upload.bytes && upload.to < end;
        if self.waiting.iter().any(overlaps) {
            self.flush(driver, module)?;
        }
        let segment = &self.segments[self.current];
        if segment.used + bytes.len() > STAGED_BYTES || segment.queued + self.waiting.len() == MOST_UPLOADS {
            self.flush(driver, module)?;
            self.next_segment(driver)?;
        }
        let segment = &mut self.segments[self.current];
        segment.values.write(segment.used, bytes);
        let from = segment.values.address() + segment.used as u64;
        segment.used += bytes.len().next_multiple_of(16);
        self.waiting.push(Upload { to, from, bytes: bytes.len() as u64 });
        Ok(())
    }

    /// Queues the kernel that writes what waits.
    pub(crate) fn flush(&mut self, driver: &Driver, module: &Module) -> Result<(), DeviceError> {
        if self.waiting.is_empty() {
            return Ok(());
        }
        let segment = &mut self.segments[self.current];
        let offset = segment.queued * size_of::<Upload>();
        segment.table.write(offset, bytemuck::cast_slice(&self.waiting));
        segment.queued += self.waiting.len();
        let params = ScatterParams { uploads: segment.table.address() + offset as u64 };
        let grid = Grid::new(self.waiting.len(), 1, THREADS);
        self.waiting.clear();
        module.launch(driver, Kernel::Scatter, grid, &params)
    }

    /// Goes on in the next segment, once kernels are done with it. Nothing may be waiting.
    pub(crate) fn next_segment(&mut self, driver: &Driver) -> Result<(), DeviceError> {
        assert!(self.waiting.is_empty(), "{} uploads would be lost", self.waiting.len());
        if self.segments[self.current].queued == 0 {
            return Ok(());
        }
        self.segments[self.current].done.record(driver)?;
        self.current = (self.current + 1) % SEGMENTS;
        let segment = &mut self.segments[self.current];
        segment.done.wait()?;
        (segment.used, segment.queued) = (0, 0);
        Ok(())
    }
}

/// Most parts of a read-back.
const MOST_PARTS: usize = 8;
/// Bytes of pinned memory that a read-back has at least.
const READ_BYTES: usize = 64 << 10;

#[repr(C)]
#[derive(Clone, Copy)]
struct GatherParams {
    from: [Address; MOST_PARTS],
    bytes: [u64; MOST_PARTS],
    offset: [u64; MOST_PARTS],
    to: Address,
}

// SAFETY: `GatherParams` of `memory.cuh`.
unsafe impl Params for GatherParams {}

/// A read-back that is queued.
pub struct ReadBack {
    /// None when queueing failed; waiting says why.
    arrival: Option<Arrival>,
}

/// Where a read-back arrives, and when.
struct Arrival {
    values: Pinned,
    arrived: Event,
}

/// Memory of read-backs that were waited for.
#[derive(Default)]
pub(crate) struct Arrivals {
    free: Vec<Arrival>,
}

impl Arrivals {
    /// Queues one kernel that copies the parts, one behind the other.
    pub(crate) fn queue(
        &mut self,
        driver: &Driver,
        module: &Module,
        parts: &[(Address, usize)],
    ) -> Result<ReadBack, DeviceError> {
        assert!(parts.len() <= MOST_PARTS, "{} parts of a read-back", parts.len());
        let total = parts.iter().map(|(_, bytes)| bytes).sum::<usize>();
        let arrival = match self.free.pop().filter(|arrival| arrival.values.len() >= total) {
            Some(arrival) => arrival,
            None => Arrival {
                values: Pinned::new(driver, total.max(READ_BYTES).next_power_of_two())?,
                arrived: Event::new(driver)?,
            },
        };
        let mut params = GatherParams {
            from: [0; MOST_PARTS],
            bytes: [0; MOST_PARTS],
            offset: [0; MOST_PARTS],
            to: arrival.values.address(),
        };
        let mut offset = 0;
        for (index, (from, bytes)) in parts.iter().enumerate() {
            params.from[index] = *from;
            params.bytes[index] = *bytes as u64;
            params.offset[index] = offset;
            offset += *bytes as u64;
        }
        if !parts.is_empty() {
            module.launch(driver, Kernel::Gather, Grid::new(parts.len(), 1, THREADS), &params)?;
        }
        arrival.arrived.record(driver)?;
        Ok(ReadBack { arrival: Some(arrival) })
    }

    /// Waits for a read-back and copies it to `words`.
    pub(crate) fn wait(&mut self, read_back: ReadBack, words: &mut [u32]) -> Result<(), DeviceError> {
        let Some(arrival) = read_back.arrival else { return Ok(()) };
        arrival.arrived.wait()?;
        arrival.values.read(0, bytemuck::cast_slice_mut(words));
        self.free.push(arrival);
        Ok(())
    }
}

impl ReadBack {
    /// One that could not be queued.
    pub(crate) fn failed() -> Self {
        ReadBack { arrival: None }
    }
}
