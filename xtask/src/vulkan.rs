//! A Vulkan driver for the tests of the GPU device: software, where there is no hardware.

use std::path::Path;

use anyhow::Result;

use crate::debian;

/// Where Debian's packages tell the loader of a driver. The tests look for it, too: where it is, they must run.
const SOFTWARE_DRIVER: &str = "/usr/share/vulkan/icd.d/lvp_icd.x86_64.json";

/// Installs Mesa's software driver and the loader, where that can be done without asking anybody. Elsewhere the
/// tests run on what there is, or say that they were skipped.
pub(crate) fn install_where_possible() -> Result<()> {
    if Path::new(SOFTWARE_DRIVER).exists() {
        println!("there is a software driver");
        return Ok(());
    }
    if !debian::is_here() || !debian::is_root() {
        println!("skipped: it takes apt-get and root (Debian: mesa-vulkan-drivers libvulkan1)");
        return Ok(());
    }
    debian::install(&["mesa-vulkan-drivers", "libvulkan1"])
}
