//! The list of commands that is being written: dispatches, and the copies of uploads and read-backs between them.

use std::sync::Arc;

use bytemuck::Pod;
use forerunner_tensor::DeviceError;

use crate::buffer::Memory;
use crate::driver::{Driver, failed};
use crate::pipelines::Pipelines;
use crate::shaders::Kernel;
use crate::weights::Format;

/// Memory for the uploads of a submission.
const STAGED_BYTES: usize = 1 << 20;
/// The longest upload that is staged; longer ones are written at once.
const LONGEST_STAGED: usize = 256 << 10;
/// Dispatches after which the list is submitted, so that the device starts while the host goes on.
const MOST_DISPATCHES: usize = 192;

/// Commands on their way to the queue.
pub(crate) struct Recorder {
    // Dropped in this order: the pass before the encoder that it is of.
    pass: Option<wgpu::ComputePass<'static>>,
    encoder: Option<wgpu::CommandEncoder>,
    /// The pipeline that the pass has set.
    pipeline: Option<usize>,
    dispatches: usize,
    pipelines: Pipelines,
    /// Values of uploads, and the buffer from where they are copied to where they belong.
    staged: Vec<u8>,
    staging: Memory,
}

impl Recorder {
    pub(crate) fn new(driver: &Arc<Driver>, checked: bool) -> Result<Self, DeviceError> {
        Ok(Recorder {
            pass: None,
            encoder: None,
            pipeline: None,
            dispatches: 0,
            pipelines: Pipelines::new(checked),
            staged: Vec::with_capacity(STAGED_BYTES),
            staging: Memory::zeroed(driver, STAGED_BYTES as u64)?,
        })
    }

    /// Queues a kernel over a grid of workgroups.
    pub(crate) fn dispatch<P: Pod>(
        &mut self,
        driver: &Driver,
        (kernel, format): (Kernel, Format),
        buffers: &[&Memory],
        params: &P,
        grid: [usize; 3],
    ) -> Result<(), DeviceError> {
        let most = driver.limits.max_compute_workgroups_per_dimension as usize;
        if let Some(wide) = grid.into_iter().find(|workgroups| *workgroups > most) {
            let entry = kernel.spec().entry;
            return Err(failed(format!("{entry} over {wide} workgroups, at most {most} can be launched")));
        }
        let bound = self.pipelines.bind(driver, kernel, format, buffers);
        let encoder = self.encoder.get_or_insert_with(|| new_encoder(driver));
        let pass = self.pass.get_or_insert_with(|| {
            self.pipeline = None;
            encoder.begin_compute_pass(&wgpu::ComputePassDescriptor::default()).forget_lifetime()
        });
        if self.pipeline != Some(bound.index) {
            pass.set_pipeline(bound.pipeline);
            self.pipeline = Some(bound.index);
        }
        pass.set_bind_group(0, bound.group, &[]);
        pass.set_immediates(0, bytemuck::bytes_of(params));
        let [x, y, z] = grid.map(|workgroups| workgroups as u32);
        pass.dispatch_workgroups(x, y, z);
        self.dispatches += 1;
        if self.dispatches == MOST_DISPATCHES {
            self.submit(driver);
        }
        Ok(())
    }

    /// Has whole words written at `offset`, after what is queued and before what follows.
    pub(crate) fn upload(&mut self, driver: &Driver, to: &Memory, offset: u64, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        if bytes.len() > LONGEST_STAGED {
            self.submit(driver);
            driver.queue.write_buffer(&to.raw, offset, bytes);
            return;
        }
        if self.staged.len() + bytes.len() > STAGED_BYTES {
            self.submit(driver);
        }
        let from = self.staged.len() as u64;
        self.staged.extend_from_slice(bytes);
        let len = bytes.len() as u64;
        self.staged_copy(driver, from, to, offset, len);
    }

    fn staged_copy(&mut self, driver: &Driver, from: u64, to: &Memory, offset: u64, len: u64) {
        self.pass = None;
        let encoder = self.encoder.get_or_insert_with(|| new_encoder(driver));
        encoder.copy_buffer_to_buffer(&self.staging.raw, from, &to.raw, offset, Some(len));
    }

    /// Queues a copy of whole words.
    pub(crate) fn copy(&mut self, driver: &Driver, from: (&Memory, u64), to: (&wgpu::Buffer, u64), len: u64) {
        self.pass = None;
        let encoder = self.encoder.get_or_insert_with(|| new_encoder(driver));
        encoder.copy_buffer_to_buffer(&from.0.raw, from.1, to.0, to.1, Some(len));
    }

    /// Hands the list to the queue.
    pub(crate) fn submit(&mut self, driver: &Driver) -> Option<wgpu::SubmissionIndex> {
        self.pass = None;
        self.dispatches = 0;
        let encoder = self.encoder.take()?;
        if !self.staged.is_empty() {
            // Written before the list runs, whose copies read it.
            driver.queue.write_buffer(&self.staging.raw, 0, &self.staged);
            self.staged.clear();
        }
        Some(driver.queue.submit([encoder.finish()]))
    }
}

fn new_encoder(driver: &Driver) -> wgpu::CommandEncoder {
    driver.device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default())
}
