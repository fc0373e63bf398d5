//! Root-mean-square norm over the residual stream.

use forerunner_tensor::{Device, DeviceError, bf16};

use super::upload_vector;

/// Weights and epsilon of one norm.
pub struct RmsNorm<D: Device> {
    weight: D::Buffer<bf16>,
    width: usize,
    epsilon: f32,
}

impl<D: Device> RmsNorm<D> {
    /// Uploads `weight`, `[width]`.
    pub fn load(device: &D, weight: &[f32], epsilon: f32) -> Result<Self, DeviceError> {
        Ok(RmsNorm { weight: upload_vector(device, weight)?, width: weight.len(), epsilon })
    }

    /// `out[count, width]`: the norm of each row of `x`.
    pub fn forward(&self, device: &D, x: &D::Buffer<bf16>, count: usize, out: &mut D::Buffer<bf16>) {
        device.rms_norm(x, &self.weight, self.epsilon, count, self.width, out);
    }
}
