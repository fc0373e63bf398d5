//! The gated short convolution of LFM2 (docs/lfm2.md section 2.2).

use forerunner_tensor::{ConvRing, Device, DeviceError, HostMatrix, Rows, bf16};

use super::upload_vector;

/// Projections and kernel of one short convolution.
pub struct ShortConv<D: Device> {
    input: D::Matrix,
    kernel: D::Buffer<bf16>,
    output: D::Matrix,
    channels: usize,
}

impl<D: Device> ShortConv<D> {
    /// Loads `input` `[3 * channels, hidden]`, `kernel` `[channels, 3]` and `output` `[hidden, channels]`.
    pub fn load(
        device: &D,
        input: &HostMatrix<'_>,
        kernel: &[f32],
        output: &HostMatrix<'_>,
    ) -> Result<Self, DeviceError> {
        Ok(ShortConv {
            input: device.load_matrix(std::slice::from_ref(input))?,
            kernel: upload_vector(device, kernel)?,
            output: device.load_matrix(std::slice::from_ref(output))?,
            channels: output.columns,
        })
    }

    /// Adds the layer's output for the normed rows `x` to `residual` and keeps their gated rows in `ring`.
    /// `projected` has room for `[rows, 3 * channels]`, `mixed` for `[rows, channels]`.
    pub fn forward(
        &self,
        device: &D,
        x: &D::Buffer<bf16>,
        rows: &Rows<D>,
        ring: &mut ConvRing<D>,
        projected: &mut D::Buffer<bf16>,
        mixed: &mut D::Buffer<bf16>,
        residual: &mut D::Buffer<bf16>,
    ) {
        let (input, kernel) = (&self.input, &self.kernel);
        device.project_short_conv(input, x, kernel, self.channels, rows, ring, projected, mixed);
        device.linear_add(&self.output, mixed, rows.count, residual);
    }
}
