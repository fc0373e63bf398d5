//! Devices as the suites of operations take them: without a model, each in all of its modes or settings.

use std::io;

use anyhow::bail;
use forerunner_cpu::{CpuDevice, CpuOptions, Mode};
use forerunner_reference::suites::faults::{Fault, Faulty};
use forerunner_reference::suites::{Report, draws, parity, row_invariance};
use forerunner_tensor::{Device, LaunchLimit};

use super::mode;
use crate::flags::{DeviceName, ModeName, ModelFlags};

/// A device in one mode or setting.
pub(crate) trait SuiteDevice {
    /// Device, mode and setting, such as `cpu (avx512, 2 threads)`.
    fn name(&self) -> &str;

    /// What its kernels take or need at most.
    fn launch_limits(&self) -> &[LaunchLimit];

    /// Runs every suite, and shows each report when it is there.
    fn run(&self, show: &mut dyn FnMut(&Report) -> io::Result<()>) -> io::Result<()>;
}

struct Suited<D> {
    device: D,
    name: String,
    limits: Vec<LaunchLimit>,
}

impl<D: Device> Suited<D> {
    fn boxed(device: D, setting: &str, limits: Vec<LaunchLimit>) -> Box<dyn SuiteDevice>
    where
        D: 'static,
    {
        let name = format!("{} ({}, {setting})", device.name(), device.mode());
        Box::new(Suited { device, name, limits })
    }
}

impl<D: Device> SuiteDevice for Suited<D> {
    fn name(&self) -> &str {
        &self.name
    }

    fn launch_limits(&self) -> &[LaunchLimit] {
        &self.limits
    }

    fn run(&self, show: &mut dyn FnMut(&Report) -> io::Result<()>) -> io::Result<()> {
        let suites = [draws::run::<D>, parity::run::<D>, row_invariance::run::<D>];
        suites.into_iter().try_for_each(|suite| show(&suite(&self.device)))
    }
}

/// The device that the flags name, as often as it has modes or settings.
pub(crate) fn suite_devices(flags: &ModelFlags) -> anyhow::Result<Vec<Box<dyn SuiteDevice>>> {
    match flags.device {
        DeviceName::Cpu => cpu(flags),
        DeviceName::Cuda => cuda(flags),
        DeviceName::Gpu => gpu(flags),
        DeviceName::Auto => cuda(flags).or_else(|error| {
            tracing::info!("no NVIDIA GPU is checked ({error}); checking the CPU");
            cpu(flags)
        }),
    }
}

/// A device with a fault, by the fault's name: what a check must fail on.
pub(crate) fn faulty_device(name: &str) -> anyhow::Result<Box<dyn SuiteDevice>> {
    let Some(fault) = Fault::ALL.iter().find(|fault| format!("{fault:?}") == name) else {
        let names: Vec<String> = Fault::ALL.iter().map(|fault| format!("{fault:?}")).collect();
        bail!("--plant is {name}; accepted with --kernels: {}", names.join(", "));
    };
    Ok(Suited::boxed(Faulty::new(*fault), name, Vec::new()))
}

fn cpu(flags: &ModelFlags) -> anyhow::Result<Vec<Box<dyn SuiteDevice>>> {
    let modes: Vec<Mode> = match flags.mode {
        ModeName::Auto => Mode::supported().collect(),
        named => mode(named).into_iter().collect(),
    };
    let open = |mode| {
        let threads = flags.threads.map(usize::from);
        let device = CpuDevice::new(CpuOptions { mode: Some(mode), threads })?;
        let setting = format!("{} threads", device.threads());
        Ok(Suited::boxed(device, &setting, CpuDevice::launch_limits()))
    };
    modes.into_iter().map(open).collect()
}

/// As it runs, and with nothing that overlaps or is recorded.
#[cfg(feature = "cuda")]
fn cuda(flags: &ModelFlags) -> anyhow::Result<Vec<Box<dyn SuiteDevice>>> {
    use forerunner_cuda::{CudaDevice, CudaOptions};
    let open = |(fast, setting)| {
        let options = CudaOptions { overlap: fast, record: fast, ..CudaOptions::default() };
        let device = super::cuda::open_cuda_with(flags.kernel_image.as_deref(), options)?;
        let setting = format!("{}, {setting}", device.chip());
        Ok(Suited::boxed(device, &setting, CudaDevice::launch_limits()))
    };
    [(true, "as it runs"), (false, "one kernel after another")].into_iter().map(open).collect()
}

#[cfg(not(feature = "cuda"))]
fn cuda(flags: &ModelFlags) -> anyhow::Result<Vec<Box<dyn SuiteDevice>>> {
    match super::open_cuda(flags.kernel_image.as_deref())? {}
}

/// As it runs, and with shaders that check their indices.
#[cfg(feature = "gpu")]
fn gpu(flags: &ModelFlags) -> anyhow::Result<Vec<Box<dyn SuiteDevice>>> {
    use forerunner_gpu::{GpuDevice, GpuOptions};
    let open = |(checked, setting)| {
        let adapter = flags.adapter.clone();
        let device = GpuDevice::new(&GpuOptions { adapter, checked, ..GpuOptions::default() })?;
        let setting = format!("{}, {setting}", device.adapter());
        Ok(Suited::boxed(device, &setting, GpuDevice::launch_limits()))
    };
    [(false, "as it runs"), (true, "checked shaders")].into_iter().map(open).collect()
}

#[cfg(not(feature = "gpu"))]
fn gpu(flags: &ModelFlags) -> anyhow::Result<Vec<Box<dyn SuiteDevice>>> {
    match super::open_gpu(flags.adapter.as_deref())? {}
}
