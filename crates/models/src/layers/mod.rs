//! Layers that more than one model is made of.

mod attention;
mod feed_forward;
mod norm;
mod short_conv;

pub use attention::{Attention, AttentionScratch, KeyValueContext};
pub use feed_forward::{FeedForward, GatedFeedForward};
pub use norm::RmsNorm;
pub use short_conv::ShortConv;

use forerunner_tensor::{Device, DeviceError, bf16};

/// Uploads a vector of weights, rounded to bf16.
pub(crate) fn upload_vector<D: Device>(device: &D, values: &[f32]) -> Result<D::Buffer<bf16>, DeviceError> {
    let rounded: Vec<bf16> = values.iter().map(|value| bf16::from_f32(*value)).collect();
    let mut buffer = device.allocate(rounded.len())?;
    device.upload(&mut buffer, 0, &rounded);
    Ok(buffer)
}
