//! The DSpark drafter in plain fp32 loops: taps, block and Markov chain (docs/dspark.md sections 2 to 5).

use forerunner_checkpoint::{
    CheckpointError, DrafterCheckpoint, DrafterConfig, DrafterHead, DrafterLayerWeights,
};
use forerunner_tensor::HeadShape;

use crate::attention::{KeyValues, Rope, RopePairs};
use crate::math::{Matrix, Pick, Rows, dot, feed_forward, rms_norm_rows, sigmoid};

/// A drafter with its weights in fp32. The fields are plain data, so that a test can build or damage one.
#[derive(Debug, Clone)]
pub struct ReferenceDrafter {
    /// Shapes and constants.
    pub config: DrafterConfig,
    /// `[hidden, taps * hidden]`: fuses the taps of a position.
    pub fuse: Matrix,
    /// `[hidden]`: on the fused context.
    pub hidden_norm: Vec<f32>,
    /// The layers, first to last.
    pub layers: Vec<DrafterLayer>,
    /// `[hidden]`: on the last layer's output.
    pub final_norm: Vec<f32>,
    /// `[vocabulary, markov_rank]`: embeds the previous token.
    pub markov_previous: Matrix,
    /// `[vocabulary, markov_rank]`: turns it into a bias on the logits.
    pub markov_next: Matrix,
    /// `[hidden + markov_rank]` weights and the bias.
    pub confidence: Option<(Vec<f32>, f32)>,
}

/// One drafter layer, queries and keys in the checkpoint's order; norms are `[hidden]` or `[head_dim]`.
#[derive(Debug, Clone)]
pub struct DrafterLayer {
    /// Before attention; block rows only.
    pub input_norm: Vec<f32>,
    /// `[query_heads * head_dim, hidden]`
    pub query: Matrix,
    /// `[key_value_heads * head_dim, hidden]`
    pub key: Matrix,
    /// `[key_value_heads * head_dim, hidden]`
    pub value: Matrix,
    /// `[hidden, query_heads * head_dim]`
    pub output: Matrix,
    /// On query heads.
    pub query_norm: Vec<f32>,
    /// On key heads.
    pub key_norm: Vec<f32>,
    /// Before the feed-forward.
    pub post_attention_norm: Vec<f32>,
    /// `[intermediate, hidden]`
    pub gate: Matrix,
    /// `[intermediate, hidden]`
    pub up: Matrix,
    /// `[hidden, intermediate]`
    pub down: Matrix,
}

/// The context's keys and values of every layer, one position for each absorbed row.
#[derive(Debug, Clone, PartialEq)]
pub struct DrafterState {
    layers: Vec<KeyValues>,
    length: usize,
}

impl DrafterState {
    /// Positions absorbed so far: the anchor stands at this position.
    pub fn length(&self) -> usize {
        self.length
    }
}

/// The drafts of one block.
#[derive(Debug, Clone, PartialEq)]
pub struct Draft {
    /// `block` drafted tokens with the margins of their logits, Markov bias included.
    pub picks: Vec<Pick>,
    /// For each draft, the estimated chance that it is accepted if those before it are (section 5); empty
    /// without a confidence head.
    pub confidence: Vec<f32>,
    /// `[block, hidden]`: the block's rows after the final norm.
    pub hidden: Rows,
    /// `[block, vocabulary]`: the head's logits before the Markov bias.
    pub base_logits: Rows,
}

impl Draft {
    /// The drafted tokens.
    pub fn tokens(&self) -> Vec<u32> {
        self.picks.iter().map(|pick| pick.token).collect()
    }
}

impl ReferenceDrafter {
    /// Copies all weights into fp32, exactly as stored.
    pub fn load(checkpoint: &DrafterCheckpoint) -> Result<Self, CheckpointError> {
        let config = checkpoint.config().clone();
        let DrafterHead { fuse, hidden_norm, final_norm, markov_previous, markov_next, confidence } =
            checkpoint.head()?;
        let layers = (0..config.layers)
            .map(|index| checkpoint.layer(index).map(DrafterLayer::from_weights))
            .collect::<Result<_, _>>()?;
        Ok(ReferenceDrafter {
            config,
            fuse: Matrix::from_host(&fuse),
            hidden_norm,
            layers,
            final_norm,
            markov_previous: Matrix::from_host(&markov_previous),
            markov_next: Matrix::from_host(&markov_next),
            confidence,
        })
    }

    /// An empty context.
    pub fn start(&self) -> DrafterState {
        DrafterState { layers: vec![KeyValues::empty(self.heads()); self.layers.len()], length: 0 }
    }

    /// Appends the committed rows' taps `[rows, taps * hidden]` to the context: keys and values of every layer
    /// from the one fused row of each position (section 3).
    pub fn absorb(&self, state: &mut DrafterState, taps: &Rows) {
        let fused = rms_norm_rows(&self.fuse.apply(taps), &self.hidden_norm, self.config.norm_epsilon);
        for (layer, context) in self.layers.iter().zip(&mut state.layers) {
            self.push_keys(layer, context, &fused);
        }
        state.length += taps.count();
    }

    /// Drafts a block after the context: `anchor` stands at position `state.length()`, draft `j` one further
    /// each. `embedding` is the target's table, which is also its head. The context is left as it was.
    pub fn draft(&self, state: &DrafterState, embedding: &Matrix, anchor: u32) -> Draft {
        let mut tokens = vec![self.config.mask_token; self.config.block];
        tokens[0] = anchor;
        let mut x = embedding.rows(&tokens);
        for (layer, context) in self.layers.iter().zip(&state.layers) {
            let normed = rms_norm_rows(&x, &layer.input_norm, self.config.norm_epsilon);
            x.add(&self.attention(layer, context, &normed));
            let normed = rms_norm_rows(&x, &layer.post_attention_norm, self.config.norm_epsilon);
            x.add(&feed_forward(&layer.gate, &layer.up, &layer.down, &normed));
        }
        let hidden = rms_norm_rows(&x, &self.final_norm, self.config.norm_epsilon);
        let base_logits = embedding.apply(&hidden);
        let (picks, confidence) = self.chain(anchor, &hidden, &base_logits);
        Draft { picks, confidence, hidden, base_logits }
    }

    /// Each draft biases the next one's logits; the anchor biases the first's (sections 4 and 5).
    fn chain(&self, anchor: u32, hidden: &Rows, base_logits: &Rows) -> (Vec<Pick>, Vec<f32>) {
        let (mut picks, mut confidence) = (Vec::new(), Vec::new());
        let mut previous = anchor;
        for (hidden, base) in hidden.iter().zip(base_logits.iter()) {
            let embedded = self.markov_previous.row(previous as usize);
            let bias = self.markov_next.apply_row(embedded);
            let logits: Vec<f32> = base.iter().zip(&bias).map(|(base, bias)| base + bias).collect();
            if let Some((weights, bias)) = &self.confidence {
                let (on_hidden, on_previous) = weights.split_at(hidden.len());
                confidence.push(sigmoid(dot(on_hidden, hidden) + dot(on_previous, embedded) + bias));
            }
            let pick = Pick::from_logits(&logits);
            previous = pick.token;
            picks.push(pick);
        }
        (picks, confidence)
    }

    /// Every block row sees the whole context and the whole block; the block's keys are dropped afterwards.
    fn attention(&self, layer: &DrafterLayer, context: &KeyValues, x: &Rows) -> Rows {
        let position = context.keys.count();
        let mut keys_values = context.clone();
        self.push_keys(layer, &mut keys_values, x);
        let mut queries = layer.query.apply(x);
        self.rope().norm_and_rotate(&mut queries, &layer.query_norm, self.config.norm_epsilon, position);
        let mut mixed = Rows::empty(queries.width);
        for query in queries.iter() {
            mixed.push(&keys_values.attend(self.heads(), query, position + x.count()));
        }
        layer.output.apply(&mixed)
    }

    fn push_keys(&self, layer: &DrafterLayer, keys_values: &mut KeyValues, x: &Rows) {
        let position = keys_values.keys.count();
        let mut keys = layer.key.apply(x);
        self.rope().norm_and_rotate(&mut keys, &layer.key_norm, self.config.norm_epsilon, position);
        keys_values.push(&keys, &layer.value.apply(x));
    }

    fn rope(&self) -> Rope {
        let pairs = if self.config.rope_is_neox_style { RopePairs::Half } else { RopePairs::Interleaved };
        Rope { theta: self.config.rope_theta, pairs }
    }

    fn heads(&self) -> HeadShape {
        HeadShape {
            query_heads: self.config.query_heads,
            key_value_heads: self.config.key_value_heads,
            head_dim: self.config.head_dim,
        }
    }
}

impl DrafterLayer {
    fn from_weights(weights: DrafterLayerWeights<'_>) -> Self {
        DrafterLayer {
            input_norm: weights.input_norm,
            query: Matrix::from_host(&weights.query),
            key: Matrix::from_host(&weights.key),
            value: Matrix::from_host(&weights.value),
            output: Matrix::from_host(&weights.output),
            query_norm: weights.query_norm,
            key_norm: weights.key_norm,
            post_attention_norm: weights.post_attention_norm,
            gate: Matrix::from_host(&weights.gate),
            up: Matrix::from_host(&weights.up),
            down: Matrix::from_host(&weights.down),
        }
    }
}
