//! What a launch may need at most, so that it runs on every Apple GPU: asserted when a pipeline is built. And what kernels
//! take at most.

use forerunner_tensor::LaunchLimit;

use crate::GpuDevice;
use crate::attention::HEAD;
use crate::experts::{MOST_EXPERTS, MOST_PICKS};
use crate::shaders::KERNELS;

/// What one launch of a kernel needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LaunchNeeds {
    /// Invocations of a workgroup.
    pub threads: u32,
    /// Bytes of workgroup memory.
    pub workgroup_bytes: u32,
    /// Buffers that are bound.
    pub buffers: u32,
    /// Bytes of immediates.
    pub immediate_bytes: u32,
}

/// The least that any Apple family from 7 on has (Metal feature set tables), and the immediates that every adapter
/// has which has any (128 bytes; the layouts have three quarters of them).
pub(crate) const MOST: LaunchNeeds =
    LaunchNeeds { threads: 1024, workgroup_bytes: 32 << 10, buffers: 31, immediate_bytes: 96 };

impl LaunchNeeds {
    /// # Panics
    /// If a kernel needs more of something than every GPU has.
    pub(crate) fn assert_portable(&self, kernel: &str) {
        // The sizes of arrays and the immediates are buffers, too, where Metal runs a shader.
        let buffers = self.buffers + 2;
        for (what, needed, most) in [
            ("invocations of a workgroup", self.threads, MOST.threads),
            ("bytes of workgroup memory", self.workgroup_bytes, MOST.workgroup_bytes),
            ("buffers", buffers, MOST.buffers),
            ("bytes of immediates", self.immediate_bytes, MOST.immediate_bytes),
        ] {
            assert!(needed <= most, "{kernel} needs {needed} {what}, at most {most} are portable");
        }
    }
}

impl GpuDevice {
    /// What each kernel's launches need, then the shapes that operations refuse beyond.
    pub fn launch_limits() -> Vec<LaunchLimit> {
        let needs = KERNELS.iter().map(|kernel| {
            let LaunchNeeds { threads, workgroup_bytes, buffers, immediate_bytes } = kernel.needs();
            let most = [
                ("invocations of a workgroup", threads),
                ("bytes of workgroup memory", workgroup_bytes),
                ("buffers", buffers),
                ("bytes of immediates", immediate_bytes),
            ];
            LaunchLimit::new(kernel.name(), &most.map(|(what, amount)| (what, amount.into())))
        });
        let experts = [("experts", MOST_EXPERTS as u64), ("picks of a row", MOST_PICKS as u64)];
        let shapes = [
            LaunchLimit::new("shapes of attention", &[("values of a head", HEAD as u64)]),
            LaunchLimit::new("shapes of route", &experts),
        ];
        needs.chain(shapes).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[should_panic(expected = "planted needs 40000 bytes of workgroup memory, at most 32768")]
    fn too_much_is_noticed() {
        LaunchNeeds { threads: 64, workgroup_bytes: 40_000, buffers: 3, immediate_bytes: 4 }
            .assert_portable("planted");
    }
}
