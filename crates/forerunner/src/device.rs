//! The devices of this binary: the one place that knows which exist.

use forerunner_checkpoint::{DrafterCheckpoint, TargetCheckpoint};
use forerunner_cpu::{CpuDevice, CpuOptions, Mode};
use forerunner_engine::{DeviceTarget, TargetOptions};
use forerunner_lanes::{Target, TargetError, TokenId};
use forerunner_tensor::Device;

use crate::flags::{DeviceName, ModeName, ModelFlags};

/// A target that also shows its logits, for checks against the reference.
pub(crate) trait OpenTarget: Target {
    /// The logits after `prompt`, in fp32.
    fn first_logits(&mut self, prompt: &[TokenId]) -> Result<Vec<f32>, TargetError>;
}

impl<D: Device> OpenTarget for DeviceTarget<D> {
    fn first_logits(&mut self, prompt: &[TokenId]) -> Result<Vec<f32>, TargetError> {
        DeviceTarget::first_logits(self, prompt)
    }
}

/// A target on its device.
pub(crate) struct PlacedTarget {
    pub(crate) target: Box<dyn OpenTarget + Send>,
    /// Device, mode and threads, such as `cpu (avx512, 2 threads)`.
    pub(crate) device: String,
}

/// Puts a target, and its drafter if there is one, on the device that the flags name.
pub(crate) fn place(
    flags: &ModelFlags,
    target: &TargetCheckpoint,
    drafter: Option<&DrafterCheckpoint>,
    options: &TargetOptions,
) -> anyhow::Result<PlacedTarget> {
    match flags.device {
        DeviceName::Auto | DeviceName::Cpu => {
            let threads = flags.threads.map(usize::from);
            let device = CpuDevice::new(CpuOptions { mode: mode(flags.mode), threads })?;
            let name = format!("{} ({}, {} threads)", device.name(), device.mode(), device.threads());
            let target = DeviceTarget::load(device, target, drafter, options)?;
            Ok(PlacedTarget { target: Box::new(target), device: name })
        }
    }
}

fn mode(name: ModeName) -> Option<Mode> {
    match name {
        ModeName::Auto => None,
        ModeName::Avx512 => Some(Mode::Avx512),
        ModeName::Avx2 => Some(Mode::Avx2),
        ModeName::Portable => Some(Mode::Portable),
    }
}
