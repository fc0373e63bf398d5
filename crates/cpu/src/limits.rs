//! What an operation takes at most here.

use forerunner_tensor::LaunchLimit;

use crate::CpuDevice;
use crate::pool::MOST_CHUNKS;

impl CpuDevice {
    /// Limits of every mode. Loops take any shape that fits in memory; what is counted are the pieces that threads share.
    pub fn launch_limits() -> Vec<LaunchLimit> {
        vec![LaunchLimit::new("a region of the thread pool", &[("chunks", MOST_CHUNKS)])]
    }
}
