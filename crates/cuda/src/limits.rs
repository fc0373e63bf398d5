//! What kernels take at most: the shapes that operations refuse beyond.

use forerunner_tensor::LaunchLimit;

use crate::CudaDevice;
use crate::attention::{HEAD, QUERIES};
use crate::experts::{MOST_EXPERTS, MOST_PICKS};
use crate::rows::WIDEST_NORM;

impl CudaDevice {
    /// Limits of the kernels that have any.
    pub fn launch_limits() -> Vec<LaunchLimit> {
        let attention = [("values of a head", HEAD as u64), ("query heads a key head", QUERIES as u64)];
        let route = [("experts", MOST_EXPERTS as u64), ("picks of a row", MOST_PICKS as u64)];
        vec![
            LaunchLimit::new("rms_norm", &[("values of a row", WIDEST_NORM as u64)]),
            LaunchLimit::new("attention", &attention),
            LaunchLimit::new("route", &route),
        ]
    }
}
