//! The LFM2 target, dense and mixture of experts, in plain fp32 loops (docs/lfm2.md section 2).

use forerunner_checkpoint::{
    CheckpointError, FeedForwardWeights, LayerKind, LayerWeights, MixtureConfig, OperatorWeights,
    TargetCheckpoint, TargetConfig,
};
use forerunner_tensor::{ExpertWeights, HeadShape};

use crate::attention::{KeyValues, Rope, RopePairs};
use crate::math::{Matrix, Rows, feed_forward, rms_norm_rows, sigmoid};

/// A target with its weights in fp32. The fields are plain data, so that a test can build or damage one.
#[derive(Debug, Clone)]
pub struct ReferenceTarget {
    /// Shapes and constants.
    pub config: TargetConfig,
    /// `[vocabulary, hidden]`: the embedding table, which is also the head.
    pub embedding: Matrix,
    /// `[hidden]`: before the head.
    pub final_norm: Vec<f32>,
    /// The decoder layers, first to last.
    pub layers: Vec<Layer>,
}

/// One decoder layer; norms are `[hidden]`.
#[derive(Debug, Clone)]
pub struct Layer {
    /// Before the operator.
    pub operator_norm: Vec<f32>,
    /// Attention or convolution.
    pub operator: Operator,
    /// Before the feed-forward.
    pub ffn_norm: Vec<f32>,
    /// Dense or mixture.
    pub feed_forward: FeedForward,
}

/// A layer's operator.
#[derive(Debug, Clone)]
pub enum Operator {
    /// Grouped-query attention (section 2.1).
    Attention(Attention),
    /// Gated short convolution (section 2.2).
    Conv(Conv),
}

/// Weights of an attention layer.
#[derive(Debug, Clone)]
pub struct Attention {
    /// `[query_heads * head_dim, hidden]`
    pub query: Matrix,
    /// `[key_value_heads * head_dim, hidden]`
    pub key: Matrix,
    /// `[key_value_heads * head_dim, hidden]`
    pub value: Matrix,
    /// `[hidden, query_heads * head_dim]`
    pub output: Matrix,
    /// `[head_dim]`
    pub query_norm: Vec<f32>,
    /// `[head_dim]`
    pub key_norm: Vec<f32>,
}

/// Weights of a convolution layer.
#[derive(Debug, Clone)]
pub struct Conv {
    /// `[3 * hidden, hidden]`: B, C, x.
    pub input: Matrix,
    /// `[hidden, KERNEL]`: channel after channel, oldest position first.
    pub kernel: Vec<f32>,
    /// `[hidden, hidden]`
    pub output: Matrix,
}

/// A layer's feed-forward.
#[derive(Debug, Clone)]
pub enum FeedForward {
    /// One gated feed-forward (section 2.3).
    Dense(Expert),
    /// Mixture of experts (section 2.4).
    Mixture(Mixture),
}

/// A gated feed-forward: `down(silu(gate x) * up x)`.
#[derive(Debug, Clone)]
pub struct Expert {
    /// `[intermediate, hidden]`
    pub gate: Matrix,
    /// `[intermediate, hidden]`
    pub up: Matrix,
    /// `[hidden, intermediate]`
    pub down: Matrix,
}

/// A router and its experts.
#[derive(Debug, Clone)]
pub struct Mixture {
    /// `[experts, hidden]`
    pub router: Matrix,
    /// `[experts]`: added to the scores for the selection alone.
    pub bias: Vec<f32>,
    /// One entry an expert.
    pub experts: Vec<Expert>,
}

/// Positions that the short convolution reads: the current one and the two before it.
pub const KERNEL: usize = 3;

/// What a sequence leaves behind for its next token. Every part is a history by position, so that rejected rows
/// are dropped by cutting it.
#[derive(Debug, Clone, PartialEq)]
pub struct TargetState {
    layers: Vec<LayerState>,
    length: usize,
}

#[derive(Debug, Clone, PartialEq)]
enum LayerState {
    Attention(KeyValues),
    /// The gated rows `B * x` of all positions.
    Conv(Rows),
}

impl TargetState {
    /// Positions computed so far; the next token stands at this position.
    pub fn length(&self) -> usize {
        self.length
    }

    /// Forgets all but positions `0..length`: the commit after a verified window (docs/dspark.md section 6).
    ///
    /// # Panics
    /// If there are fewer.
    pub fn truncate(&mut self, length: usize) {
        for layer in &mut self.layers {
            match layer {
                LayerState::Attention(history) => history.truncate(length),
                LayerState::Conv(gated) => gated.truncate(length),
            }
        }
        self.length = length;
    }
}

/// What a forward computes for each of its rows.
#[derive(Debug, Clone, PartialEq)]
pub struct Output {
    /// `[rows, hidden]`: after the final norm; [`ReferenceTarget::logits`] turns it into logits.
    pub hidden: Rows,
    /// `[rows, taps * hidden]`: the residual stream after each tapped layer, in the order asked for
    /// (docs/dspark.md section 2); empty when no layer was.
    pub taps: Rows,
}

impl ReferenceTarget {
    /// Copies all weights into fp32, exactly as stored.
    pub fn load(checkpoint: &TargetCheckpoint) -> Result<Self, CheckpointError> {
        let config = checkpoint.config().clone();
        let layers = (0..config.layers.len())
            .map(|index| checkpoint.layer(index).map(Layer::from_weights))
            .collect::<Result<_, _>>()?;
        Ok(ReferenceTarget {
            embedding: Matrix::from_host(&checkpoint.embedding()?),
            final_norm: checkpoint.final_norm()?,
            layers,
            config,
        })
    }

    /// An empty sequence.
    pub fn start(&self) -> TargetState {
        let layers = self
            .config
            .layers
            .iter()
            .map(|kind| match kind {
                LayerKind::Attention => LayerState::Attention(KeyValues::empty(self.heads())),
                LayerKind::Conv => LayerState::Conv(Rows::empty(self.config.hidden)),
            })
            .collect();
        TargetState { layers, length: 0 }
    }

    /// Computes `tokens` as the next rows of the sequence, all at once, and taps the residual stream after the
    /// layers `taps`.
    ///
    /// # Panics
    /// If a token is outside the vocabulary or a tapped layer does not exist.
    pub fn forward(&self, state: &mut TargetState, tokens: &[u32], taps: &[usize]) -> Output {
        self.observed(state, tokens, taps, &mut |_, _| ())
    }

    /// As [`ReferenceTarget::forward`]; `observe` sees each layer's number and the residual stream `[rows, hidden]`
    /// between its operator and its feed-forward.
    ///
    /// # Panics
    /// As [`ReferenceTarget::forward`].
    pub fn observed(
        &self,
        state: &mut TargetState,
        tokens: &[u32],
        taps: &[usize],
        observe: &mut dyn FnMut(usize, &Rows),
    ) -> Output {
        let layers = self.layers.len();
        assert!(taps.iter().all(|&tap| tap < layers), "taps {taps:?} of {layers} layers");
        let mut tapped = Rows::zeros(tokens.len(), taps.len() * self.config.hidden);
        let mut x = self.embed(tokens);
        for (index, (layer, history)) in self.layers.iter().zip(&mut state.layers).enumerate() {
            let normed = rms_norm_rows(&x, &layer.operator_norm, self.config.norm_epsilon);
            x.add(&self.operator(&layer.operator, history, &normed));
            observe(index, &x);
            let normed = rms_norm_rows(&x, &layer.ffn_norm, self.config.norm_epsilon);
            x.add(&layer.feed_forward.apply(self.config.mixture.as_ref(), &normed));
            for slot in (0..taps.len()).filter(|&slot| taps[slot] == index) {
                copy_tap(&x, slot, &mut tapped);
            }
        }
        state.length += tokens.len();
        let hidden = rms_norm_rows(&x, &self.final_norm, self.config.norm_epsilon);
        Output { hidden, taps: tapped }
    }

    /// `[tokens, hidden]`: rows of the embedding table, unscaled.
    pub fn embed(&self, tokens: &[u32]) -> Rows {
        self.embedding.rows(tokens)
    }

    /// `[rows, vocabulary]`: the head's logits of final-normed rows.
    pub fn logits(&self, hidden: &Rows) -> Rows {
        self.embedding.apply(hidden)
    }

    fn heads(&self) -> HeadShape {
        HeadShape {
            query_heads: self.config.query_heads,
            key_value_heads: self.config.key_value_heads,
            head_dim: self.config.head_dim,
        }
    }

    fn operator(&self, operator: &Operator, history: &mut LayerState, x: &Rows) -> Rows {
        match (operator, history) {
            (Operator::Attention(weights), LayerState::Attention(history)) => {
                self.attention(weights, history, x)
            }
            (Operator::Conv(weights), LayerState::Conv(gated)) => weights.apply(gated, x),
            _ => panic!("a layer's weights and state are of one kind"),
        }
    }

    fn attention(&self, weights: &Attention, history: &mut KeyValues, x: &Rows) -> Rows {
        let rope = Rope { theta: self.config.rope_theta, pairs: RopePairs::Half };
        let epsilon = self.config.norm_epsilon;
        let first = history.keys.count();
        let mut queries = weights.query.apply(x);
        rope.norm_and_rotate(&mut queries, &weights.query_norm, epsilon, first);
        let mut keys = weights.key.apply(x);
        rope.norm_and_rotate(&mut keys, &weights.key_norm, epsilon, first);
        history.push(&keys, &weights.value.apply(x));
        let mut mixed = Rows::empty(queries.width);
        for (row, query) in queries.iter().enumerate() {
            mixed.push(&history.attend(self.heads(), query, first + row + 1));
        }
        weights.output.apply(&mixed)
    }
}

fn copy_tap(x: &Rows, slot: usize, tapped: &mut Rows) {
    for (row, x) in x.iter().enumerate() {
        tapped.row_mut(row)[slot * x.len()..(slot + 1) * x.len()].copy_from_slice(x);
    }
}

impl Conv {
    /// `output · (C * conv(B * x))`, appending the gated rows `B * x` to the history. Rows before position 0
    /// are zero.
    pub fn apply(&self, gated: &mut Rows, x: &Rows) -> Rows {
        let hidden = x.width;
        let first = gated.count();
        let projected = self.input.apply(x);
        let mut mixed = Rows::zeros(x.count(), hidden);
        for (row, projected) in projected.iter().enumerate() {
            let (b, rest) = projected.split_at(hidden);
            let (c, x) = rest.split_at(hidden);
            let product: Vec<f32> = b.iter().zip(x).map(|(b, x)| b * x).collect();
            gated.push(&product);
            for (channel, out) in mixed.row_mut(row).iter_mut().enumerate() {
                *out = c[channel] * self.convolve(gated, first + row, channel);
            }
        }
        self.output.apply(&mixed)
    }

    /// Cross-correlation: the kernel's last weight multiplies the current position.
    fn convolve(&self, gated: &Rows, position: usize, channel: usize) -> f32 {
        let mut sum = 0.0;
        for (k, weight) in self.kernel[channel * KERNEL..(channel + 1) * KERNEL].iter().enumerate() {
            if position + k + 1 >= KERNEL {
                sum += weight * gated.row(position + k + 1 - KERNEL)[channel];
            }
        }
        sum
    }
}

impl FeedForward {
    /// The feed-forward of every row of `x`.
    ///
    /// # Panics
    /// If this is a mixture and there is no `mixture` configuration.
    pub fn apply(&self, mixture: Option<&MixtureConfig>, x: &Rows) -> Rows {
        match self {
            FeedForward::Dense(weights) => weights.apply(x),
            FeedForward::Mixture(weights) => {
                weights.apply(mixture.expect("a mixture layer comes with a mixture configuration"), x)
            }
        }
    }
}

impl Expert {
    /// `down(silu(gate x) * up x)` for every row.
    pub fn apply(&self, x: &Rows) -> Rows {
        feed_forward(&self.gate, &self.up, &self.down, x)
    }
}

impl Mixture {
    /// The weighted sum of the picked experts for every row, in ascending expert order.
    pub fn apply(&self, config: &MixtureConfig, x: &Rows) -> Rows {
        let logits = self.router.apply(x);
        let mut out = Rows::zeros(x.count(), x.width);
        for row in 0..x.count() {
            let input = x.slice(row..row + 1);
            for (expert, weight) in route(config, logits.row(row), &self.bias) {
                let outputs = self.experts[expert].apply(&input);
                for (out, value) in out.row_mut(row).iter_mut().zip(&outputs.values) {
                    *out += weight * value;
                }
            }
        }
        out
    }
}

/// Experts and mixing weights of one row, by ascending expert: sigmoid scores, selection by score plus `bias`
/// with ties to the lower number, weights from the unbiased scores (section 2.4).
pub fn route(config: &MixtureConfig, logits: &[f32], bias: &[f32]) -> Vec<(usize, f32)> {
    let scores: Vec<f32> = logits.iter().map(|&logit| sigmoid(logit)).collect();
    let mut order: Vec<usize> = (0..scores.len()).collect();
    order.sort_by(|&a, &b| (scores[b] + bias[b]).total_cmp(&(scores[a] + bias[a])).then(a.cmp(&b)));
    let mut picks = order[..config.picks].to_vec();
    picks.sort_unstable();
    let sum: f32 = picks.iter().map(|&expert| scores[expert]).sum();
    let scale = if config.normalize { config.scale / (sum + 1e-6) } else { config.scale };
    picks.into_iter().map(|expert| (expert, scores[expert] * scale)).collect()
}

impl Layer {
    fn from_weights(weights: LayerWeights<'_>) -> Self {
        Layer {
            operator_norm: weights.operator_norm,
            operator: Operator::from_weights(weights.operator),
            ffn_norm: weights.ffn_norm,
            feed_forward: FeedForward::from_weights(weights.feed_forward),
        }
    }
}

impl Operator {
    fn from_weights(weights: OperatorWeights<'_>) -> Self {
        match weights {
            OperatorWeights::Attention { query, key, value, output, query_norm, key_norm } => {
                Operator::Attention(Attention {
                    query: Matrix::from_host(&query),
                    key: Matrix::from_host(&key),
                    value: Matrix::from_host(&value),
                    output: Matrix::from_host(&output),
                    query_norm,
                    key_norm,
                })
            }
            OperatorWeights::Conv { input, kernel, output } => Operator::Conv(Conv {
                input: Matrix::from_host(&input),
                kernel,
                output: Matrix::from_host(&output),
            }),
        }
    }
}

impl FeedForward {
    fn from_weights(weights: FeedForwardWeights<'_>) -> Self {
        match weights {
            FeedForwardWeights::Dense { gate, up, down } => {
                FeedForward::Dense(Expert::from_weights(&ExpertWeights { gate, up, down }))
            }
            FeedForwardWeights::Experts { router, bias, experts } => FeedForward::Mixture(Mixture {
                router: Matrix::from_host(&router),
                bias,
                experts: experts.map(|weights| Expert::from_weights(&weights)).collect(),
            }),
        }
    }
}

impl Expert {
    fn from_weights(weights: &ExpertWeights<'_>) -> Self {
        Expert {
            gate: Matrix::from_host(&weights.gate),
            up: Matrix::from_host(&weights.up),
            down: Matrix::from_host(&weights.down),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mixture_config() -> MixtureConfig {
        MixtureConfig {
            experts: 4,
            picks: 2,
            intermediate: 1,
            dense_layers: 0,
            normalize: true,
            use_bias: true,
            scale: 2.0,
        }
    }

    /// mlx-lm#1883.
    #[test]
    fn the_bias_chooses_experts_but_does_not_weigh_them() {
        let picks = route(&mixture_config(), &[0.0, 2.0, 1.0, -1.0], &[0.0, 0.0, 0.0, 9.0]);
        let (best, biased) = (sigmoid(2.0), sigmoid(-1.0));
        assert_eq!(picks.iter().map(|pick| pick.0).collect::<Vec<_>>(), [1, 3]);
        assert!((picks[0].1 - 2.0 * best / (best + biased + 1e-6)).abs() < 1e-6);
        assert!((picks[1].1 - 2.0 * biased / (best + biased + 1e-6)).abs() < 1e-6);
    }

    #[test]
    fn equal_scores_pick_the_lower_expert() {
        let picks = route(&mixture_config(), &[0.5; 4], &[0.0; 4]);
        assert_eq!(picks.iter().map(|pick| pick.0).collect::<Vec<_>>(), [0, 1]);
    }

    #[test]
    fn the_convolution_reads_the_two_positions_before_and_zeros_before_the_first() {
        let identity = |outputs: usize| Matrix { outputs, inputs: 1, values: vec![1.0; outputs] };
        let conv = Conv { input: identity(3), kernel: vec![100.0, 10.0, 1.0], output: identity(1) };
        let mut gated = Rows::empty(1);
        let out = conv.apply(&mut gated, &Rows { width: 1, values: vec![1.0, 2.0, 3.0] });
        // B = C = x, so the gated rows are 1, 4, 9.
        assert_eq!(out.values, [1.0, 2.0 * 14.0, 3.0 * 149.0]);
        gated.truncate(2);
        let again = conv.apply(&mut gated, &Rows { width: 1, values: vec![3.0] });
        assert_eq!(again.values, [3.0 * 149.0]);
    }
}
