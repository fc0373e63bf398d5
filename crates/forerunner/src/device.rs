//! The devices of this binary: the one place that knows which exist.

mod suites;

use std::ops::Range;
use std::path::Path;

use forerunner_checkpoint::{DrafterCheckpoint, TargetCheckpoint};
use forerunner_cpu::{CpuDevice, CpuOptions, Mode};
use forerunner_engine::gates::PromptDrafts;
use forerunner_engine::{DeviceTarget, TargetOptions};
use forerunner_lanes::{Target, TargetError, TokenId};
use forerunner_tensor::{Device, MemoryMeter, bf16};

use crate::flags::{DeviceName, ModeName, ModelFlags};

pub(crate) use suites::{SuiteDevice, faulty_device, suite_devices};

/// A target that also shows what is inside it, for checks against the reference.
pub(crate) trait OpenTarget: Target {
    /// The logits after `prompt`, in fp32.
    fn first_logits(&mut self, prompt: &[TokenId]) -> Result<Vec<f32>, TargetError>;

    /// See [`DeviceTarget::prompt_drafts`].
    fn prompt_drafts(
        &mut self,
        prompt: &[TokenId],
        tapped: &mut dyn FnMut(Range<usize>, &[bf16]),
    ) -> Result<PromptDrafts, TargetError>;
}

impl<D: Device> OpenTarget for DeviceTarget<D> {
    fn first_logits(&mut self, prompt: &[TokenId]) -> Result<Vec<f32>, TargetError> {
        DeviceTarget::first_logits(self, prompt)
    }

    fn prompt_drafts(
        &mut self,
        prompt: &[TokenId],
        tapped: &mut dyn FnMut(Range<usize>, &[bf16]),
    ) -> Result<PromptDrafts, TargetError> {
        DeviceTarget::prompt_drafts(self, prompt, tapped)
    }
}

/// A target on its device.
pub(crate) struct PlacedTarget {
    pub(crate) target: Box<dyn OpenTarget + Send>,
    /// Device, mode and threads, such as `cpu (avx512, 2 threads)`.
    pub(crate) device: String,
    /// Counts the device's own memory, where it has any.
    pub(crate) memory: Option<MemoryMeter>,
}

/// Puts a target, and its drafter if there is one, on the device that the flags name.
pub(crate) fn place(
    flags: &ModelFlags,
    target: &TargetCheckpoint,
    drafter: Option<&DrafterCheckpoint>,
    options: &TargetOptions,
) -> anyhow::Result<PlacedTarget> {
    match flags.device {
        DeviceName::Cpu => place_on_cpu(flags, target, drafter, options),
        DeviceName::Cuda => {
            place_on_cuda(open_cuda(flags.kernel_image.as_deref())?, target, drafter, options)
        }
        DeviceName::Gpu => place_on_gpu(open_gpu(flags.adapter.as_deref())?, target, drafter, options),
        DeviceName::Auto => match open_cuda(flags.kernel_image.as_deref()) {
            Ok(device) => place_on_cuda(device, target, drafter, options),
            Err(error) => {
                tracing::info!("no NVIDIA GPU is used ({error}); running on the CPU");
                place_on_cpu(flags, target, drafter, options)
            }
        },
    }
}

fn place_on_cpu(
    flags: &ModelFlags,
    target: &TargetCheckpoint,
    drafter: Option<&DrafterCheckpoint>,
    options: &TargetOptions,
) -> anyhow::Result<PlacedTarget> {
    let threads = flags.threads.map(usize::from);
    let device = CpuDevice::new(CpuOptions { mode: mode(flags.mode), threads })?;
    let detail = format!("{} threads", device.threads());
    load(device, &detail, target, drafter, options)
}

/// Loads a target on an open device, which `detail` tells from others of its kind.
fn load<D: Device>(
    device: D,
    detail: &str,
    target: &TargetCheckpoint,
    drafter: Option<&DrafterCheckpoint>,
    options: &TargetOptions,
) -> anyhow::Result<PlacedTarget> {
    let name = format!("{} ({}, {detail})", device.name(), device.mode());
    let memory = device.memory();
    let target = DeviceTarget::load(device, target, drafter, options)?;
    Ok(PlacedTarget { target: Box::new(target), device: name, memory })
}

/// What a binary that was built without a device's feature has in its place: nothing.
#[cfg(not(all(feature = "cuda", feature = "gpu")))]
pub(crate) enum Never {}

#[cfg(not(all(feature = "cuda", feature = "gpu")))]
fn place_on_nothing(
    device: Never,
    _target: &TargetCheckpoint,
    _drafter: Option<&DrafterCheckpoint>,
    _options: &TargetOptions,
) -> anyhow::Result<PlacedTarget> {
    match device {}
}

#[cfg(not(feature = "cuda"))]
mod cuda {
    use anyhow::bail;

    use super::*;

    pub(crate) fn open_cuda(_kernels: Option<&Path>) -> anyhow::Result<Never> {
        bail!("cuda: this program was built without its cuda feature")
    }

    pub(super) use super::place_on_nothing as place_on_cuda;
}

#[cfg(feature = "cuda")]
mod cuda {
    use anyhow::Context;
    use forerunner_cuda::{CudaDevice, CudaOptions};

    use super::*;

    /// Rows of a prompt that runs alone beyond those of any device: weights are read and unpacked once for all of them.
    const MORE_PROMPT_ROWS: usize = 1792;

    /// The first GPU; an error when there is none that works. It runs the kernels of a file, when one is named.
    pub(crate) fn open_cuda(kernels: Option<&Path>) -> anyhow::Result<CudaDevice> {
        open_cuda_with(kernels, CudaOptions::default())
    }

    /// The same with other options.
    pub(super) fn open_cuda_with(kernels: Option<&Path>, options: CudaOptions) -> anyhow::Result<CudaDevice> {
        let read = |path: &Path| std::fs::read(path).with_context(|| format!("reading {}", path.display()));
        // They are needed for as long as the program runs.
        let image = kernels.map(read).transpose()?.map(|bytes| &*bytes.leak());
        Ok(CudaDevice::new(CudaOptions { image, ..options })?)
    }

    pub(super) fn place_on_cuda(
        device: CudaDevice,
        target: &TargetCheckpoint,
        drafter: Option<&DrafterCheckpoint>,
        options: &TargetOptions,
    ) -> anyhow::Result<PlacedTarget> {
        let detail = device.chip().to_owned();
        let rows = options.rows + MORE_PROMPT_ROWS;
        load(device, &detail, target, drafter, &TargetOptions { rows, ..*options })
    }
}

#[cfg(not(feature = "gpu"))]
mod gpu {
    use anyhow::bail;

    use super::*;

    pub(crate) fn open_gpu(_adapter: Option<&str>) -> anyhow::Result<Never> {
        bail!("gpu: this program was built without its gpu feature")
    }

    pub(super) use super::place_on_nothing as place_on_gpu;
}

#[cfg(feature = "gpu")]
mod gpu {
    use forerunner_gpu::{GpuDevice, GpuOptions};

    use super::*;

    /// Rows of a prompt that runs alone beyond those of any device: weights are read and unpacked once for all of them.
    const MORE_PROMPT_ROWS: usize = 768;

    /// The adapter with this in its name, or the best; an error when there is none.
    pub(crate) fn open_gpu(adapter: Option<&str>) -> anyhow::Result<GpuDevice> {
        let adapter = adapter.map(str::to_owned);
        Ok(GpuDevice::new(&GpuOptions { adapter, ..GpuOptions::default() })?)
    }

    pub(super) fn place_on_gpu(
        device: GpuDevice,
        target: &TargetCheckpoint,
        drafter: Option<&DrafterCheckpoint>,
        options: &TargetOptions,
    ) -> anyhow::Result<PlacedTarget> {
        let detail = device.adapter().to_owned();
        let rows = options.rows + MORE_PROMPT_ROWS;
        load(device, &detail, target, drafter, &TargetOptions { rows, ..*options })
    }
}

pub(crate) use cuda::open_cuda;
use cuda::place_on_cuda;
pub(crate) use gpu::open_gpu;
use gpu::place_on_gpu;

fn mode(name: ModeName) -> Option<Mode> {
    match name {
        ModeName::Auto => None,
        ModeName::Amx => Some(Mode::Amx),
        ModeName::Avx512 => Some(Mode::Avx512),
        ModeName::Avx2 => Some(Mode::Avx2),
        ModeName::Neon => Some(Mode::Neon),
        ModeName::Portable => Some(Mode::Portable),
    }
}
