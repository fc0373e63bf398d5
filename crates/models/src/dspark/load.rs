//! From a drafter's checkpoint to a device.

use forerunner_checkpoint::{DrafterCheckpoint, DrafterConfig, DrafterLayerWeights};
use forerunner_tensor::{Device, DeviceError, HeadShape, HostMatrix, MarkovHead, RopeTable};

use super::{DSpark, Layer};
use crate::ModelError;
use crate::layers::{Attention, GatedFeedForward, RmsNorm, upload_vector};

impl<D: Device> DSpark<D> {
    /// Loads the drafter; `positions` is the longest context it will be asked for, its block included.
    pub fn load(device: &D, checkpoint: &DrafterCheckpoint, positions: usize) -> Result<Self, ModelError> {
        let config = checkpoint.config().clone();
        let mut layers = Vec::with_capacity(config.layers);
        for index in 0..config.layers {
            layers.push(Layer::load(device, &config, checkpoint.layer(index)?)?);
        }
        let head = checkpoint.head()?;
        let confidence = match &head.confidence {
            Some((weight, bias)) => Some((upload_vector(device, weight)?, upload_vector(device, &[*bias])?)),
            None => None,
        };
        Ok(DSpark {
            fuse: device.load_matrix(&[head.fuse])?,
            hidden_norm: RmsNorm::load(device, &head.hidden_norm, config.norm_epsilon)?,
            layers,
            final_norm: RmsNorm::load(device, &head.final_norm, config.norm_epsilon)?,
            markov: MarkovHead {
                previous: device.load_matrix(&[head.markov_previous])?,
                next: device.load_matrix(&[head.markov_next])?,
                confidence,
            },
            rope: RopeTable::new(device, config.rope_theta, config.head_dim, positions)?,
            config,
        })
    }
}

impl<D: Device> Layer<D> {
    fn load(
        device: &D,
        config: &DrafterConfig,
        weights: DrafterLayerWeights<'_>,
    ) -> Result<Self, DeviceError> {
        let order = pair_order(config);
        let query = permute_heads(&weights.query, &order);
        let key = permute_heads(&weights.key, &order);
        let epsilon = config.norm_epsilon;
        Ok(Layer {
            input_norm: RmsNorm::load(device, &weights.input_norm, epsilon)?,
            context_key_value: device.load_matrix(&[key.clone(), weights.value.clone()])?,
            attention: Attention::load(
                device,
                head_shape(config),
                &[query, key, weights.value],
                &weights.output,
                &permute(&weights.query_norm, &order),
                &permute(&weights.key_norm, &order),
                epsilon,
            )?,
            post_attention_norm: RmsNorm::load(device, &weights.post_attention_norm, epsilon)?,
            feed_forward: GatedFeedForward::load(device, weights.gate, weights.up, weights.down)?,
        })
    }
}

/// Widths of the drafter's attention layers.
pub(super) fn head_shape(config: &DrafterConfig) -> HeadShape {
    HeadShape {
        query_heads: config.query_heads,
        key_value_heads: config.key_value_heads,
        head_dim: config.head_dim,
    }
}

/// For each entry of a half-split head, the entry of the checkpoint's head that belongs there: interleaved pair
/// `(2i, 2i + 1)` becomes `(i, i + head_dim / 2)`.
fn pair_order(config: &DrafterConfig) -> Vec<usize> {
    let half = config.head_dim / 2;
    if config.rope_is_neox_style {
        return (0..config.head_dim).collect();
    }
    (0..half).map(|i| 2 * i).chain((0..half).map(|i| 2 * i + 1)).collect()
}

fn permute(head: &[f32], order: &[usize]) -> Vec<f32> {
    order.iter().map(|source| head[*source]).collect()
}

/// Permutes the rows of every head of a projection.
fn permute_heads(matrix: &HostMatrix<'_>, order: &[usize]) -> HostMatrix<'static> {
    let source = |row: usize| row / order.len() * order.len() + order[row % order.len()];
    matrix.picked(&(0..matrix.rows).map(source).collect::<Vec<_>>())
}
