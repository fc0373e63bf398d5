//! The DSpark drafter: a block of drafts from the target's tapped rows (docs/dspark.md sections 2 to 5).

mod load;
mod state;

use forerunner_checkpoint::DrafterConfig;
use forerunner_tensor::{
    Device, DrawRow, DrawTables, HeadShape, KeyValuePages, MarkovHead, PageTable, RopeTable, Rows, bf16,
};

use crate::layers::{Attention, GatedFeedForward, KeyValueContext, RmsNorm};

pub use state::{Activations, State};

/// A drafter on a device.
///
/// Its queries and keys are permuted at load from interleaved to half-split pairs, which changes no score
/// (docs/dspark.md section 3.1), so that there is one rotation on every device.
pub struct DSpark<D: Device> {
    config: DrafterConfig,
    /// From the tapped rows to the drafter's width.
    fuse: D::Matrix,
    hidden_norm: RmsNorm<D>,
    layers: Vec<Layer<D>>,
    final_norm: RmsNorm<D>,
    markov: MarkovHead<D>,
    rope: RopeTable<D>,
}

struct Layer<D: Device> {
    input_norm: RmsNorm<D>,
    attention: Attention<D>,
    /// Keys and values of context rows, which never pass through the layers.
    context_key_value: D::Matrix,
    post_attention_norm: RmsNorm<D>,
    feed_forward: GatedFeedForward<D>,
}

/// What the drafter borrows of a round: who draws, and where.
pub struct DraftRound<'a, D: Device> {
    /// The target's embedding table, which is also its head.
    pub embedding: &'a D::Matrix,
    /// `block` rows a block, made by [`Device::draft_rows`].
    pub rows: &'a Rows<D>,
    /// The lanes' pages.
    pub table: &'a PageTable<D>,
    /// `[blocks]`: each block's sampling rule.
    pub rules: &'a D::Buffer<DrawRow>,
    /// The lanes' counts, biases and masks.
    pub draw_tables: &'a DrawTables<D>,
    /// Blocks.
    pub blocks: usize,
    /// Drafts asked of each.
    pub depth: usize,
}

impl<D: Device> DSpark<D> {
    /// Turns the tapped rows `taps` `[rows, taps * hidden]` into context keys and values at their positions.
    pub fn absorb(
        &self,
        device: &D,
        taps: &D::Buffer<bf16>,
        rows: &Rows<D>,
        table: &PageTable<D>,
        state: &mut State<D>,
        activations: &mut Activations<D>,
    ) {
        let Activations { hidden, normed, attention, .. } = activations;
        device.linear(&self.fuse, taps, rows.count, hidden);
        self.hidden_norm.forward(device, hidden, rows.count, normed);
        let shape = HeadShape { query_heads: 0, ..self.shape() };
        for (layer, pages) in self.layers.iter().zip(&mut state.layers) {
            device.linear(&layer.context_key_value, normed, rows.count, &mut attention.stacked);
            let norms = layer.attention.norms();
            device.rope_append(&mut attention.stacked, shape, norms, &self.rope, rows, table, pages);
        }
    }

    /// Drafts `round.depth` tokens a block into `activations.drafts`, with the logits of their chances in
    /// `activations.confidence`; both `[blocks, block]`.
    pub fn draft(
        &self,
        device: &D,
        round: &DraftRound<'_, D>,
        state: &mut State<D>,
        activations: &mut Activations<D>,
    ) {
        let count = round.rows.count;
        device.embed(round.embedding, round.rows, &mut activations.hidden);
        let context = KeyValueContext { table: round.table, rope: &self.rope };
        for (layer, pages) in self.layers.iter().zip(&mut state.layers) {
            layer.forward(device, round.rows, &context, pages, activations);
        }
        let Activations { hidden, normed, logits, drafts, confidence, .. } = activations;
        self.final_norm.forward(device, hidden, count, normed);
        device.logits(round.embedding, normed, count, logits);
        device.draft_chain(
            &self.markov,
            normed,
            self.config.hidden,
            logits,
            round.rules,
            round.rows,
            round.draw_tables,
            round.blocks,
            self.config.block,
            round.depth,
            drafts,
            confidence,
        );
    }

    /// Its configuration.
    pub fn config(&self) -> &DrafterConfig {
        &self.config
    }

    fn shape(&self) -> HeadShape {
        load::head_shape(&self.config)
    }
}

impl<D: Device> Layer<D> {
    fn forward(
        &self,
        device: &D,
        rows: &Rows<D>,
        context: &KeyValueContext<'_, D>,
        pages: &mut KeyValuePages<D>,
        activations: &mut Activations<D>,
    ) {
        let Activations { hidden, normed, attention, .. } = activations;
        self.input_norm.forward(device, hidden, rows.count, normed);
        self.attention.forward(device, normed, rows, context, pages, attention, hidden);
        self.post_attention_norm.forward(device, hidden, rows.count, normed);
        self.feed_forward.forward(device, normed, rows.count, hidden);
    }
}

/// Bytes of context keys and values a token, over all layers.
pub fn key_value_bytes(config: &DrafterConfig) -> usize {
    config.layers * 2 * config.key_value_heads * config.head_dim * size_of::<bf16>()
}
