//! The adapter of this machine, where it has one.

use std::path::Path;

use forerunner_gpu::{GpuDevice, GpuOptions};

/// Where Debian's packages tell the loader of Mesa's software driver.
const SOFTWARE_DRIVER: &str = "/usr/share/vulkan/icd.d/lvp_icd.x86_64.json";

/// A device, or a line that says why there is none.
///
/// # Panics
/// If there is a driver that it should have run on: a test must not be skipped where it can run.
pub(crate) fn device(options: &GpuOptions) -> Option<GpuDevice> {
    match GpuDevice::new(options) {
        Ok(device) => Some(device),
        Err(error) => {
            assert!(!Path::new(SOFTWARE_DRIVER).exists(), "{SOFTWARE_DRIVER} is here, but {error}");
            println!("skipped: {error}");
            None
        }
    }
}
