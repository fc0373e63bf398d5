//! From a checkpoint to a device, one matrix at a time.

use forerunner_checkpoint::{LayerWeights, OperatorWeights, TargetCheckpoint, TargetConfig};
use forerunner_tensor::{Device, DeviceError, HeadShape, RopeTable};

use super::{Layer, Lfm2, Operator};
use crate::ModelError;
use crate::layers::{Attention, FeedForward, RmsNorm, ShortConv};

impl<D: Device> Lfm2<D> {
    /// Loads the target; `positions` is the longest context it will be asked for.
    pub fn load(device: &D, checkpoint: &TargetCheckpoint, positions: usize) -> Result<Self, ModelError> {
        let config = checkpoint.config().clone();
        let mut layers = Vec::with_capacity(config.layers.len());
        for index in 0..config.layers.len() {
            layers.push(Layer::load(device, &config, checkpoint.layer(index)?)?);
        }
        Ok(Lfm2 {
            embedding: device.load_matrix(&[checkpoint.embedding()?])?,
            layers,
            final_norm: RmsNorm::load(device, &checkpoint.final_norm()?, config.norm_epsilon)?,
            rope: RopeTable::new(device, config.rope_theta, config.head_dim, positions)?,
            config,
        })
    }
}

impl<D: Device> Layer<D> {
    fn load(device: &D, config: &TargetConfig, weights: LayerWeights<'_>) -> Result<Self, DeviceError> {
        let epsilon = config.norm_epsilon;
        Ok(Layer {
            operator_norm: RmsNorm::load(device, &weights.operator_norm, epsilon)?,
            operator: Operator::load(device, config, weights.operator)?,
            ffn_norm: RmsNorm::load(device, &weights.ffn_norm, epsilon)?,
            feed_forward: FeedForward::load(device, weights.feed_forward, config.mixture.as_ref())?,
        })
    }
}

impl<D: Device> Operator<D> {
    fn load(device: &D, config: &TargetConfig, weights: OperatorWeights<'_>) -> Result<Self, DeviceError> {
        Ok(match weights {
            OperatorWeights::Attention { query, key, value, output, query_norm, key_norm } => {
                Operator::Attention(Attention::load(
                    device,
                    head_shape(config),
                    &[query, key, value],
                    &output,
                    &query_norm,
                    &key_norm,
                    config.norm_epsilon,
                )?)
            }
            OperatorWeights::Conv { input, kernel, output } => {
                Operator::Conv(ShortConv::load(device, &input, &kernel, &output)?)
            }
        })
    }
}

/// Widths of the target's attention layers.
pub(super) fn head_shape(config: &TargetConfig) -> HeadShape {
    HeadShape {
        query_heads: config.query_heads,
        key_value_heads: config.key_value_heads,
        head_dim: config.head_dim,
    }
}
