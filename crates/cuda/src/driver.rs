//! The driver: a context with one stream, its memory and its errors. All unsafe calls that need no kernel are here.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::ffi::{CStr, c_void};
use std::ptr;

use cudarc::driver::sys::{self, CUresult};
use forerunner_tensor::{DeviceError, MemoryMeter};

use crate::few::Chip;
use crate::reserved;

/// Device memory by its address.
pub(crate) type Address = u64;

/// Small allocations are kept for the next of their size, up to this many bytes each.
const KEPT: usize = 1 << 20;
/// Every allocation is a multiple of this.
const GRAIN: usize = 256;

/// One GPU, its primary context and the stream that all work is queued on.
pub(crate) struct Driver {
    context: sys::CUcontext,
    stream: sys::CUstream,
    ordinal: sys::CUdevice,
    /// The chip's name, such as `NVIDIA H200`.
    pub(crate) chip: String,
    /// Compute capability.
    pub(crate) capability: (i32, i32),
    /// What its blocks share.
    pub(crate) resources: Chip,
    /// Bytes that memory of reserved addresses comes in, where the GPU can reserve them.
    pub(crate) granule: Option<usize>,
    free: RefCell<HashMap<usize, Vec<Address>>>,
    /// Counts what could make a recorded address stale.
    generation: Cell<u64>,
    pub(crate) memory: MemoryMeter,
}

// SAFETY: the context is made current on whichever thread calls; the handles belong to no thread.
unsafe impl Send for Driver {}
// SAFETY: buffers of one device share its driver, and a device is not used from two threads at once: it is not Sync,
// and its buffers' only use of the driver besides is to give memory back, which the seam does on the device's thread.
unsafe impl Sync for Driver {}

/// What the driver said, as a device error.
pub(crate) fn failed(reason: impl Into<String>) -> DeviceError {
    DeviceError::Failed { device: crate::NAME.into(), reason: reason.into() }
}

/// An error when `result` is one; `action` says what was tried.
pub(crate) fn check(result: CUresult, action: &str) -> Result<(), DeviceError> {
    if result == CUresult::CUDA_SUCCESS {
        return Ok(());
    }
    Err(failed(format!("{action}: {}", describe(result))))
}

/// An error when `bytes` could not be had.
pub(crate) fn out_of_memory(bytes: usize, result: CUresult) -> DeviceError {
    DeviceError::OutOfMemory { device: crate::NAME.into(), bytes, reason: describe(result) }
}

fn describe(result: CUresult) -> String {
    let mut text = ptr::null();
    // SAFETY: the driver writes a pointer to a static string, or null for an unknown code.
    let known = unsafe { sys::cuGetErrorString(result, &mut text) } == CUresult::CUDA_SUCCESS;
    if !known || text.is_null() {
        return format!("{result:?}");
    }
    // SAFETY: it is a C string that lives as long as the driver.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

impl Driver {
    /// Opens GPU `ordinal`; an error when there is no driver or no such GPU.
    pub(crate) fn open(ordinal: usize) -> Result<Self, DeviceError> {
        // SAFETY: only looks for the library.
        if !unsafe { sys::is_culib_present() } {
            return Err(failed("no NVIDIA driver is installed"));
        }
        // SAFETY: the library is there.
        check(unsafe { sys::cuInit(0) }, "starting the driver")?;
        let mut count = 0;
        // SAFETY: `count` is written.
        check(unsafe { sys::cuDeviceGetCount(&mut count) }, "counting GPUs")?;
        if ordinal >= count as usize {
            return Err(DeviceError::Unsupported {
                device: crate::NAME.into(),
                what: "the GPU's number".into(),
                found: ordinal.to_string(),
                accepted: if count == 0 {
                    "none: there is no GPU".into()
                } else {
                    format!("0 to {}", count - 1)
                },
            });
        }
        let (mut device, mut context, mut stream) = (0, ptr::null_mut(), ptr::null_mut());
        // SAFETY: the out-pointers are valid, and each call's inputs come from the one before.
        unsafe {
            check(sys::cuDeviceGet(&mut device, ordinal as i32), "opening the GPU")?;
            check(sys::cuDevicePrimaryCtxRetain(&mut context, device), "opening a context")?;
            check(sys::cuCtxSetCurrent(context), "entering the context")?;
            let flags = sys::CUstream_flags_enum::CU_STREAM_NON_BLOCKING as u32;
            check(sys::cuStreamCreate(&mut stream, flags), "making a stream")?;
        }
        use sys::CUdevice_attribute_enum as Attribute;
        let attribute = |which| attribute(device, which);
        let capability = (
            attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?,
            attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?,
        );
        let size = |which| attribute(which).map(|value| value as usize);
        let resources = Chip {
            multiprocessors: size(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?,
            shared_of_block: size(Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)?,
            shared_of_processor: size(Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR)?,
            is_roomy: (9..12).contains(&capability.0),
        };
        let can_reserve =
            attribute(Attribute::CU_DEVICE_ATTRIBUTE_VIRTUAL_ADDRESS_MANAGEMENT_SUPPORTED)? == 1;
        Ok(Driver {
            context,
            stream,
            ordinal: device,
            chip: chip_name(device)?,
            capability,
            resources,
            granule: can_reserve.then(|| reserved::granule(device)).transpose()?,
            free: RefCell::default(),
            generation: Cell::new(0),
            memory: MemoryMeter::default(),
        })
    }

    /// Makes the context the calling thread's.
    pub(crate) fn enter(&self) -> Result<(), DeviceError> {
        // SAFETY: the context lives until drop.
        check(unsafe { sys::cuCtxSetCurrent(self.context) }, "entering the context")
    }

    pub(crate) fn ordinal(&self) -> sys::CUdevice {
        self.ordinal
    }

    /// Bytes that are free on the GPU.
    pub(crate) fn memory_left(&self) -> Result<u64, DeviceError> {
        self.enter()?;
        let (mut free, mut total) = (0, 0);
        // SAFETY: both are written.
        check(unsafe { sys::cuMemGetInfo_v2(&mut free, &mut total) }, "asking for free memory")?;
        Ok(free as u64)
    }

    pub(crate) fn stream(&self) -> sys::CUstream {
        self.stream
    }

    /// Some address may become another's.
    pub(crate) fn forget_addresses(&self) {
        self.generation.set(self.generation.get() + 1);
    }

    /// Changes whenever an address that was recorded may have become another's.
    pub(crate) fn generation(&self) -> u64 {
        self.generation.get()
    }

    /// `bytes` zeros.
    pub(crate) fn allocate(&self, bytes: usize) -> Result<Address, DeviceError> {
        self.enter()?;
        let size = size_class(bytes);
        let kept = self.free.borrow_mut().get_mut(&size).and_then(Vec::pop);
        let address = match kept {
            Some(address) => address,
            None => self.new_memory(size)?,
        };
        self.memory.add(size as u64);
        // SAFETY: the memory is ours and `size` bytes long.
        check(unsafe { sys::cuMemsetD8Async(address, 0, size, self.stream) }, "clearing memory")?;
        Ok(address)
    }

    fn new_memory(&self, size: usize) -> Result<Address, DeviceError> {
        let mut address = 0;
        // SAFETY: `address` is written.
        let result = unsafe { sys::cuMemAlloc_v2(&mut address, size) };
        if result != CUresult::CUDA_SUCCESS {
            return Err(out_of_memory(size, result));
        }
        Ok(address)
    }

    /// Gives memory of [`Driver::allocate`] back.
    pub(crate) fn free(&self, address: Address, bytes: usize) {
        self.forget_addresses();
        let size = size_class(bytes);
        self.memory.subtract(size as u64);
        if size <= KEPT {
            self.free.borrow_mut().entry(size).or_default().push(address);
            return;
        }
        if self.enter().is_ok() {
            // SAFETY: it was allocated here, and freeing waits for work that uses it. A failure would show again
            // at the next call.
            unsafe { sys::cuMemFree_v2(address) };
        }
    }

    /// Copies to the device, after what is queued; the source may be reused on return.
    pub(crate) fn copy_to(&self, to: Address, from: &[u8]) -> Result<(), DeviceError> {
        self.enter()?;
        // SAFETY: the caller's buffer is at least as long; the wait keeps the source alive for the copy.
        let copied =
            unsafe { sys::cuMemcpyHtoDAsync_v2(to, from.as_ptr().cast::<c_void>(), from.len(), self.stream) };
        check(copied, "copying to the GPU")?;
        self.wait()
    }

    /// Copies from the device, after what is queued.
    pub(crate) fn copy_from(&self, to: &mut [u8], from: Address) -> Result<(), DeviceError> {
        self.enter()?;
        // SAFETY: as in `copy_to`.
        let copied = unsafe {
            sys::cuMemcpyDtoHAsync_v2(to.as_mut_ptr().cast::<c_void>(), from, to.len(), self.stream)
        };
        check(copied, "copying from the GPU")?;
        self.wait()
    }

    /// Waits for all queued work.
    pub(crate) fn wait(&self) -> Result<(), DeviceError> {
        // SAFETY: the stream lives until drop.
        check(unsafe { sys::cuStreamSynchronize(self.stream) }, "a kernel failed")
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        if self.enter().is_err() {
            return;
        }
        // SAFETY: nothing uses the memory, the stream or the context any more: buffers hold the driver.
        unsafe {
            for address in self.free.borrow().values().flatten() {
                sys::cuMemFree_v2(*address);
            }
            sys::cuStreamDestroy_v2(self.stream);
            sys::cuDevicePrimaryCtxRelease_v2(self.ordinal);
        }
    }
}

/// Bytes that an allocation of `bytes` really takes: small ones in powers of two, so that they can be used again.
fn size_class(bytes: usize) -> usize {
    if bytes <= KEPT { bytes.next_power_of_two().max(GRAIN) } else { bytes.next_multiple_of(GRAIN) }
}

fn attribute(device: sys::CUdevice, which: sys::CUdevice_attribute) -> Result<i32, DeviceError> {
    let mut value = 0;
    // SAFETY: `value` is written.
    let asked = unsafe { sys::cuDeviceGetAttribute(&mut value, which, device) };
    check(asked, "asking for the GPU's properties")?;
    Ok(value)
}

fn chip_name(device: sys::CUdevice) -> Result<String, DeviceError> {
    let mut name = [0; 128];
    // SAFETY: the driver writes at most as many bytes, the last one 0.
    let asked = unsafe { sys::cuDeviceGetName(name.as_mut_ptr(), name.len() as i32, device) };
    check(asked, "asking for the GPU's name")?;
    // SAFETY: a C string, as above.
    Ok(unsafe { CStr::from_ptr(name.as_ptr()) }.to_string_lossy().into_owned())
}

/// Host memory that the GPU reads and writes directly.
pub(crate) struct Pinned {
    address: *mut u8,
    len: usize,
}

// SAFETY: it owns its memory; the driver ties it to no thread.
unsafe impl Send for Pinned {}

impl Pinned {
    /// `len` bytes.
    pub(crate) fn new(driver: &Driver, len: usize) -> Result<Self, DeviceError> {
        driver.enter()?;
        let mut address = ptr::null_mut();
        // Readable from every context, at the same address on the GPU.
        let flags = sys::CU_MEMHOSTALLOC_PORTABLE | sys::CU_MEMHOSTALLOC_DEVICEMAP;
        // SAFETY: `address` is written.
        check(unsafe { sys::cuMemHostAlloc(&mut address, len, flags) }, "allocating pinned memory")?;
        Ok(Pinned { address: address.cast(), len })
    }

    /// Where the GPU finds it.
    pub(crate) fn address(&self) -> Address {
        self.address as Address
    }

    /// Bytes.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Writes `bytes` at `offset`. No kernel may be reading that part.
    pub(crate) fn write(&mut self, offset: usize, bytes: &[u8]) {
        assert!(offset + bytes.len() <= self.len, "{} bytes at {offset} of {}", bytes.len(), self.len);
        // SAFETY: inside the allocation, as asserted.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), self.address.add(offset), bytes.len()) };
    }

    /// Reads at `offset`. No kernel may be writing that part.
    pub(crate) fn read(&self, offset: usize, out: &mut [u8]) {
        assert!(offset + out.len() <= self.len, "{} bytes at {offset} of {}", out.len(), self.len);
        // SAFETY: inside the allocation, as asserted.
        unsafe { ptr::copy_nonoverlapping(self.address.add(offset), out.as_mut_ptr(), out.len()) };
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        // SAFETY: the device waits for its stream before it drops its pinned memory.
        unsafe { sys::cuMemFreeHost(self.address.cast()) };
    }
}

/// A place in the queue that can be waited for.
pub(crate) struct Event(sys::CUevent);

// SAFETY: a handle of the driver, tied to no thread.
unsafe impl Send for Event {}

impl Event {
    pub(crate) fn new(driver: &Driver) -> Result<Self, DeviceError> {
        driver.enter()?;
        let mut event = ptr::null_mut();
        let flags = sys::CUevent_flags_enum::CU_EVENT_DISABLE_TIMING as u32;
        // SAFETY: `event` is written.
        check(unsafe { sys::cuEventCreate(&mut event, flags) }, "making an event")?;
        Ok(Event(event))
    }

    /// Moves it behind all that is queued.
    pub(crate) fn record(&self, driver: &Driver) -> Result<(), DeviceError> {
        // SAFETY: both handles live.
        check(unsafe { sys::cuEventRecord(self.0, driver.stream()) }, "queueing an event")
    }

    /// Waits for what was queued before it; at once when it was never recorded.
    pub(crate) fn wait(&self) -> Result<(), DeviceError> {
        // SAFETY: the handle lives.
        check(unsafe { sys::cuEventSynchronize(self.0) }, "a kernel failed")
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        // SAFETY: nobody else has it.
        unsafe { sys::cuEventDestroy_v2(self.0) };
    }
}
