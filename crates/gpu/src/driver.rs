//! The adapter and its queue: how they are chosen and opened, and what went wrong since the last wait.

use std::pin::pin;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use forerunner_tensor::{DeviceError, MemoryMeter};

use crate::NAME;

/// An open adapter.
pub(crate) struct Driver {
    pub(crate) device: wgpu::Device,
    pub(crate) queue: wgpu::Queue,
    pub(crate) info: wgpu::AdapterInfo,
    pub(crate) limits: wgpu::Limits,
    /// Whether the processor and the adapter share memory, and buffers can be mapped that shaders read.
    pub(crate) is_unified: bool,
    failure: Arc<Mutex<Option<String>>>,
    /// How many buffers were dropped: kept bind groups are of an earlier count no longer good.
    generation: AtomicU64,
    next_id: AtomicU32,
    pub(crate) memory: MemoryMeter,
}

/// Share of the memory that the system grants this program beyond which nothing more is allocated, in percent.
const MEMORY_THRESHOLD: u8 = 95;

impl Driver {
    /// Opens the adapter whose name contains `wanted`, or the one with the most to offer.
    pub(crate) fn open(wanted: Option<&str>) -> Result<Self, DeviceError> {
        let mut descriptor = wgpu::InstanceDescriptor::new_without_display_handle();
        descriptor.backends = wgpu::Backends::METAL | wgpu::Backends::VULKAN | wgpu::Backends::DX12;
        descriptor.flags = wgpu::InstanceFlags::empty();
        descriptor.memory_budget_thresholds.for_resource_creation = Some(MEMORY_THRESHOLD);
        let instance = wgpu::Instance::new(descriptor);
        let adapters = ready(instance.enumerate_adapters(wgpu::Backends::all()));
        let adapter = choose(adapters, wanted)?;
        let info = adapter.get_info();
        if !adapter.features().contains(wgpu::Features::IMMEDIATES) {
            return Err(unsupported(
                "immediates",
                format!("missing on {}", info.name),
                "an adapter with them",
            ));
        }
        let mappable = adapter.features() & wgpu::Features::MAPPABLE_PRIMARY_BUFFERS;
        let shares_memory =
            matches!(info.device_type, wgpu::DeviceType::IntegratedGpu | wgpu::DeviceType::Cpu);
        let is_unified = shares_memory && !mappable.is_empty();
        let limits = adapter.limits();
        let (device, queue) = ready(adapter.request_device(&wgpu::DeviceDescriptor {
            label: None,
            required_features: wgpu::Features::IMMEDIATES
                | if is_unified { mappable } else { wgpu::Features::empty() },
            required_limits: limits.clone(),
            memory_hints: wgpu::MemoryHints::Performance,
            ..wgpu::DeviceDescriptor::default()
        }))
        .map_err(|error| failed(format!("{}: {error}", info.name)))?;
        let failure = Arc::new(Mutex::new(None));
        listen(&device, &failure);
        Ok(Driver {
            device,
            queue,
            info,
            limits,
            is_unified,
            failure,
            generation: AtomicU64::new(0),
            next_id: AtomicU32::new(0),
            memory: MemoryMeter::default(),
        })
    }

    /// The first failure since it was last asked for.
    pub(crate) fn take_failure(&self) -> Result<(), DeviceError> {
        let failure = self.failure.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).take();
        failure.map_or(Ok(()), |reason| Err(failed(reason)))
    }

    /// Waits for a submission, or for all.
    pub(crate) fn wait(&self, submission: Option<wgpu::SubmissionIndex>) -> Result<(), DeviceError> {
        let outcome = self.device.poll(wgpu::PollType::Wait { submission_index: submission, timeout: None });
        self.take_failure()?;
        outcome.map(|_| ()).map_err(|error| failed(error.to_string()))
    }

    /// A buffer of `bytes` bytes, which are zeros, or mapped to be written.
    pub(crate) fn create_buffer(
        &self,
        bytes: u64,
        usage: wgpu::BufferUsages,
        mapped: bool,
    ) -> Result<wgpu::Buffer, DeviceError> {
        let most = self.limits.max_buffer_size.min(self.limits.max_storage_buffer_binding_size);
        if bytes > most {
            let reason = format!("a buffer of {} holds at most {most} bytes", self.info.name);
            return Err(out_of_memory(bytes, reason));
        }
        let scope = self.device.push_error_scope(wgpu::ErrorFilter::OutOfMemory);
        let buffer = self.device.create_buffer(&wgpu::BufferDescriptor {
            label: None,
            size: bytes,
            usage,
            mapped_at_creation: mapped,
        });
        match ready(scope.pop()) {
            Some(error) => Err(out_of_memory(bytes, error.to_string())),
            None => Ok(buffer),
        }
    }

    /// A number that no buffer has had, once `bytes` were allocated for one.
    pub(crate) fn register(&self, bytes: u64) -> u32 {
        self.memory.add(bytes);
        self.next_id.fetch_add(1, Ordering::Relaxed)
    }

    /// A buffer is gone.
    pub(crate) fn forget(&self, bytes: u64) {
        self.memory.subtract(bytes);
        self.generation.fetch_add(1, Ordering::Relaxed);
    }

    /// How many buffers are gone.
    pub(crate) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Relaxed)
    }
}

/// Keeps the first error that nobody was waiting for.
fn listen(device: &wgpu::Device, failure: &Arc<Mutex<Option<String>>>) {
    let keep = |failure: &Mutex<Option<String>>, reason: String| {
        failure.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).get_or_insert(reason);
    };
    let of_errors = Arc::clone(failure);
    device.on_uncaptured_error(Arc::new(move |error: wgpu::Error| keep(&of_errors, error.to_string())));
    let of_loss = Arc::clone(failure);
    device.set_device_lost_callback(move |reason, message| {
        if reason != wgpu::DeviceLostReason::Destroyed {
            keep(&of_loss, format!("the device was lost: {message}"));
        }
    });
}

/// The adapter with this name, or the best: a GPU of its own, then one of the processor's, then software.
fn choose(adapters: Vec<wgpu::Adapter>, wanted: Option<&str>) -> Result<wgpu::Adapter, DeviceError> {
    let names: Vec<String> = adapters.iter().map(|adapter| adapter.get_info().name).collect();
    if names.is_empty() {
        return Err(failed(
            "no adapter was found; needed is Metal, Direct3D 12, or a Vulkan driver with its loader \
             (Debian: libvulkan1 and mesa-vulkan-drivers)",
        ));
    }
    let rank = |adapter: &wgpu::Adapter| match adapter.get_info().device_type {
        wgpu::DeviceType::DiscreteGpu => 0,
        wgpu::DeviceType::IntegratedGpu => 1,
        wgpu::DeviceType::VirtualGpu => 2,
        wgpu::DeviceType::Other => 3,
        wgpu::DeviceType::Cpu => 4,
    };
    let fits = |adapter: &wgpu::Adapter| {
        let name = adapter.get_info().name.to_lowercase();
        wanted.is_none_or(|wanted| name.contains(&wanted.to_lowercase()))
    };
    let best = adapters.into_iter().filter(fits).min_by_key(rank);
    best.ok_or_else(|| unsupported("the adapter", wanted.unwrap_or_default().into(), names.join(", ")))
}

/// What a future says that does not wait for anything: wgpu's are like that outside of browsers.
fn ready<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(value) = future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            return value;
        }
        std::thread::yield_now();
    }
}

/// The device failed.
pub(crate) fn failed(reason: impl Into<String>) -> DeviceError {
    DeviceError::Failed { device: NAME.into(), reason: reason.into() }
}

/// A shape or a format that there is no kernel for.
pub(crate) fn unsupported(what: &str, found: String, accepted: impl Into<String>) -> DeviceError {
    DeviceError::Unsupported { device: NAME.into(), what: what.into(), found, accepted: accepted.into() }
}

fn out_of_memory(bytes: u64, reason: String) -> DeviceError {
    DeviceError::OutOfMemory { device: NAME.into(), bytes: bytes as usize, reason }
}
