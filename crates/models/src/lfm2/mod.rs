//! LFM2 and LFM2-MoE: one family, dense and mixture layers alike (docs/lfm2.md section 2).

mod load;
mod state;

use forerunner_checkpoint::TargetConfig;
use forerunner_tensor::{Device, PageTable, RopeTable, Rows, bf16};

use crate::layers::{Attention, FeedForward, KeyValueContext, RmsNorm, ShortConv};

pub use state::{ActivationSizes, Activations, LayerState, State};

/// A target on a device.
pub struct Lfm2<D: Device> {
    config: TargetConfig,
    embedding: D::Matrix,
    layers: Vec<Layer<D>>,
    final_norm: RmsNorm<D>,
    rope: RopeTable<D>,
}

struct Layer<D: Device> {
    operator_norm: RmsNorm<D>,
    operator: Operator<D>,
    ffn_norm: RmsNorm<D>,
    feed_forward: FeedForward<D>,
}

enum Operator<D: Device> {
    Attention(Attention<D>),
    Conv(ShortConv<D>),
}

impl<D: Device> Lfm2<D> {
    /// Runs `rows` through all layers and leaves the residual stream in `activations.hidden`. After each layer
    /// named in `taps` the stream is copied to `activations.taps`, one block of columns a tap, in their order.
    pub fn forward(
        &self,
        device: &D,
        rows: &Rows<D>,
        table: &PageTable<D>,
        taps: &[usize],
        state: &mut State<D>,
        activations: &mut Activations<D>,
    ) {
        device.embed(&self.embedding, rows, &mut activations.hidden);
        let context = KeyValueContext { table, rope: &self.rope };
        for (index, (layer, state)) in self.layers.iter().zip(&mut state.layers).enumerate() {
            layer.forward(device, rows, &context, index, state, activations);
            if let Some(slot) = taps.iter().position(|tap| *tap == index) {
                let hidden = self.config.hidden;
                device.copy_columns(
                    &activations.hidden,
                    rows.count,
                    hidden,
                    &mut activations.taps,
                    taps.len() * hidden,
                    slot * hidden,
                );
            }
        }
    }

    /// Logits of the `count` rows of the last forward that `activations.draw_index` names, in its order.
    pub fn head(&self, device: &D, count: usize, activations: &mut Activations<D>) {
        let hidden = self.config.hidden;
        device.gather_rows(
            &activations.hidden,
            &activations.draw_index,
            count,
            hidden,
            &mut activations.gathered,
        );
        self.final_norm.forward(device, &activations.gathered, count, &mut activations.normed);
        device.logits(&self.embedding, &activations.normed, count, &mut activations.logits);
    }

    /// The embedding table, which is also the head.
    pub fn embedding(&self) -> &D::Matrix {
        &self.embedding
    }

    /// Its configuration.
    pub fn config(&self) -> &TargetConfig {
        &self.config
    }
}

impl<D: Device> Layer<D> {
    fn forward(
        &self,
        device: &D,
        rows: &Rows<D>,
        context: &KeyValueContext<'_, D>,
        index: usize,
        state: &mut LayerState<D>,
        activations: &mut Activations<D>,
    ) {
        let Activations { hidden, normed, projected, attention, routing, .. } = activations;
        self.operator_norm.forward(device, hidden, rows.count, normed);
        match (&self.operator, state) {
            (Operator::Attention(operator), LayerState::Attention(pages)) => {
                operator.forward(device, normed, rows, context, pages, attention, hidden);
            }
            (Operator::Conv(operator), LayerState::Conv(ring)) => {
                operator.forward(device, normed, rows, ring, projected, &mut attention.mixed, hidden);
            }
            _ => unreachable!("the state was made for this model"),
        }
        self.ffn_norm.forward(device, hidden, rows.count, normed);
        self.feed_forward.forward(device, normed, rows, index, routing, hidden);
    }
}

/// Bytes of keys and values a token, over all attention layers.
pub fn key_value_bytes(config: &TargetConfig) -> usize {
    let attention = config.layers.iter().filter(|kind| **kind == forerunner_checkpoint::LayerKind::Attention);
    attention.count() * 2 * config.key_value_heads * config.head_dim * size_of::<bf16>()
}
