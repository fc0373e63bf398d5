//! Addresses that take memory piece by piece: pages of keys and values fill as contexts grow, and recorded rounds keep
//! their addresses.

use std::mem;
use std::ops::Range;
use std::sync::Arc;

use cudarc::driver::sys;
use forerunner_tensor::DeviceError;

use crate::driver::{Address, Driver, check, out_of_memory};

/// A range of addresses, of which some have memory.
pub(crate) struct Reserved {
    driver: Arc<Driver>,
    pub(crate) address: Address,
    /// Bytes that memory comes in.
    granule: usize,
    /// Which granules have memory.
    granules: Vec<bool>,
    /// What was mapped at a time, which is how it must be given back.
    mapped: Vec<Range<usize>>,
}

impl Reserved {
    /// # Panics
    /// On a GPU without granules ([`Driver::granule`]).
    pub(crate) fn new(driver: &Arc<Driver>, bytes: usize) -> Result<Self, DeviceError> {
        let granule = driver.granule.expect("a GPU that can reserve addresses");
        let count = bytes.div_ceil(granule).max(1);
        driver.enter()?;
        let mut address = 0;
        // SAFETY: `address` is written.
        let reserved = unsafe { sys::cuMemAddressReserve(&mut address, count * granule, 0, 0, 0) };
        check(reserved, "reserving addresses")?;
        let granules = vec![false; count];
        Ok(Reserved { driver: Arc::clone(driver), address, granule, granules, mapped: Vec::new() })
    }

    /// Has a range of bytes take memory, zeros where it is new.
    pub(crate) fn commit(&mut self, bytes: Range<usize>) -> Result<(), DeviceError> {
        let wanted = bytes.start / self.granule..bytes.end.div_ceil(self.granule);
        for run in missing(&self.granules, wanted) {
            self.map(run)?;
        }
        Ok(())
    }

    fn map(&mut self, run: Range<usize>) -> Result<(), DeviceError> {
        let bytes = run.len() * self.granule;
        let address = self.address + (run.start * self.granule) as u64;
        self.driver.enter()?;
        let properties = properties(self.driver.ordinal());
        let mut handle = 0;
        // SAFETY: the out-pointer is valid, the properties name a GPU that is open.
        let created = unsafe { sys::cuMemCreate(&mut handle, bytes, &properties, 0) };
        if created != sys::CUresult::CUDA_SUCCESS {
            return Err(out_of_memory(bytes, created));
        }
        let access = sys::CUmemAccessDesc {
            location: properties.location,
            flags: sys::CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
        };
        // SAFETY: the addresses are reserved and without memory; the mapping keeps the memory when its handle is
        // released.
        unsafe {
            let mapped = check(sys::cuMemMap(address, bytes, 0, handle, 0), "mapping memory");
            sys::cuMemRelease(handle);
            mapped?;
        }
        self.granules[run.clone()].fill(true);
        self.mapped.push(run);
        self.driver.memory.add(bytes as u64);
        // SAFETY: the range has just been mapped.
        unsafe {
            check(sys::cuMemSetAccess(address, bytes, &access, 1), "allowing access to memory")?;
            check(sys::cuMemsetD8Async(address, 0, bytes, self.driver.stream()), "clearing memory")
        }
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        self.driver.forget_addresses();
        let waited = self.driver.enter().and_then(|()| self.driver.wait());
        if waited.is_err() {
            return;
        }
        for run in &self.mapped {
            let bytes = run.len() * self.granule;
            self.driver.memory.subtract(bytes as u64);
            // SAFETY: mapped by one call, and nothing queued uses it.
            unsafe { sys::cuMemUnmap(self.address + (run.start * self.granule) as u64, bytes) };
        }
        // SAFETY: reserved with this length, and nothing is mapped there.
        unsafe { sys::cuMemAddressFree(self.address, self.granules.len() * self.granule) };
    }
}

/// Runs of granules without memory within a range.
fn missing(granules: &[bool], within: Range<usize>) -> Vec<Range<usize>> {
    let mut runs: Vec<Range<usize>> = Vec::new();
    for granule in within.filter(|granule| !granules[*granule]) {
        match runs.last_mut() {
            Some(run) if run.end == granule => run.end += 1,
            _ => runs.push(granule..granule + 1),
        }
    }
    runs
}

/// Memory of GPU `ordinal`.
fn properties(ordinal: sys::CUdevice) -> sys::CUmemAllocationProp {
    // SAFETY: plain numbers and pointers, of which zeros mean nothing asked for.
    let mut properties: sys::CUmemAllocationProp = unsafe { mem::zeroed() };
    properties.type_ = sys::CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location.type_ = sys::CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE;
    properties.location.id = ordinal;
    properties
}

/// Bytes that memory of reserved addresses comes in, on GPU `ordinal`.
pub(crate) fn granule(ordinal: sys::CUdevice) -> Result<usize, DeviceError> {
    let mut granule = 0;
    let least = sys::CUmemAllocationGranularity_flags::CU_MEM_ALLOC_GRANULARITY_MINIMUM;
    // SAFETY: `granule` is written.
    let asked = unsafe { sys::cuMemGetAllocationGranularity(&mut granule, &properties(ordinal), least) };
    check(asked, "asking for the size of pages")?;
    Ok(granule)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_missing_is_mapped_run_by_run() {
        let granules = [true, false, false, true, false, false];
        assert_eq!(missing(&granules, 0..5), [1..3, 4..5]);
        assert_eq!(missing(&granules, 2..6), [2..3, 4..6]);
        assert!(missing(&granules, 3..4).is_empty());
        assert!(missing(&granules, 6..6).is_empty());
    }
}
