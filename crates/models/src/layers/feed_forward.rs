//! Gated feed-forward, dense or a mixture of experts.

use forerunner_checkpoint::{FeedForwardWeights, MixtureConfig};
use forerunner_tensor::{Device, DeviceError, HostMatrix, RouteRule, Routing, Rows, bf16};

/// `down(silu(gate x) * up x)`
pub struct GatedFeedForward<D: Device> {
    /// Gate, then up.
    gate_up: D::Matrix,
    /// Back to the residual stream.
    down: D::Matrix,
}

impl<D: Device> GatedFeedForward<D> {
    /// Loads `gate` and `up` `[intermediate, hidden]` and `down` `[hidden, intermediate]`.
    pub fn load(
        device: &D,
        gate: HostMatrix<'_>,
        up: HostMatrix<'_>,
        down: HostMatrix<'_>,
    ) -> Result<Self, DeviceError> {
        Ok(GatedFeedForward { gate_up: device.load_matrix(&[gate, up])?, down: device.load_matrix(&[down])? })
    }

    /// Adds the output for the normed rows `x` to `residual`.
    pub fn forward(&self, device: &D, x: &D::Buffer<bf16>, count: usize, residual: &mut D::Buffer<bf16>) {
        device.feed_forward(&self.gate_up, &self.down, x, count, residual);
    }
}

/// One layer's feed-forward.
pub enum FeedForward<D: Device> {
    /// The same for every row.
    Dense(GatedFeedForward<D>),
    /// A few picked experts a row, weighted (docs/lfm2.md section 2.4).
    Experts {
        /// Scores experts.
        router: D::Matrix,
        /// Added to the scores for the picking alone.
        bias: D::Buffer<f32>,
        /// From scores to picks.
        rule: RouteRule,
        /// The experts.
        experts: D::Experts,
    },
}

impl<D: Device> FeedForward<D> {
    /// Loads a target's feed-forward; `mixture` is there when any layer has experts.
    pub fn load(
        device: &D,
        weights: FeedForwardWeights<'_>,
        mixture: Option<&MixtureConfig>,
    ) -> Result<Self, DeviceError> {
        match weights {
            FeedForwardWeights::Dense { gate, up, down } => {
                Ok(FeedForward::Dense(GatedFeedForward::load(device, gate, up, down)?))
            }
            FeedForwardWeights::Experts { router, bias, mut experts } => {
                let mixture = mixture.expect("a configuration with experts has their fields");
                let mut device_bias = device.allocate(bias.len())?;
                device.upload(&mut device_bias, 0, &bias);
                Ok(FeedForward::Experts {
                    router: device.load_matrix(&[router])?,
                    bias: device_bias,
                    rule: RouteRule {
                        picks: mixture.picks,
                        normalize: mixture.normalize,
                        scale: mixture.scale,
                    },
                    experts: device.load_experts(&mut experts)?,
                })
            }
        }
    }

    /// Adds the output for the normed rows `x` to `residual`. `layer` is where `routing` counts distinct
    /// experts.
    pub fn forward(
        &self,
        device: &D,
        x: &D::Buffer<bf16>,
        rows: &Rows<D>,
        layer: usize,
        routing: &mut Routing<D>,
        residual: &mut D::Buffer<bf16>,
    ) {
        match self {
            FeedForward::Dense(dense) => dense.forward(device, x, rows.count, residual),
            FeedForward::Experts { router, bias, rule, experts } => {
                device.mixture(router, bias, *rule, experts, x, rows, layer, routing, residual);
            }
        }
    }
}
