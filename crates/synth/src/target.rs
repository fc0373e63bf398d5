//! Grows the target (docs/synth.md section 2).

use std::sync::Arc;

use crate::base::{Base, BaseFeedForward, BaseLayer, BaseOperator, Format, Triple};
use crate::calibration::{self, Gate};
use crate::checkpoint::{GrownCheckpoint, Tensors};
use crate::config::{synthetic, target_config};
use crate::control::{Control, KNOWN_FEATURE};
use crate::copies::Copies;
use crate::growth::{BaseMatrix, Growth};
use crate::placement::Placed;
use crate::replicas::{GROUP, Piece, Replicas, divided_groups, tiled_blocks, tiled_rows};
use crate::shape::check;
use crate::{Shape, Specification, SynthError};

/// What a layer that is one too many writes of what the layer that it repeats would write: most of it rounds away.
const EXTRA: f32 = 1.0 / (1 << 20) as f32;

/// Weight of the final norm on [`KNOWN_FEATURE`]: takes an unknown token at least 20 off its logit (section 3).
const KNOWN_GAIN: f32 = 32_768.0;

impl Base {
    /// The target in the shape that `specification` asks for. Its format is the base's.
    pub fn grow_target(&self, specification: &Specification) -> Result<GrownCheckpoint, SynthError> {
        let grower = TargetGrower::new(self, specification)?;
        let tensors = grower.tensors();
        let name = synthetic(specification);
        let config = target_config(self, &specification.shape, &name);
        Ok(GrownCheckpoint::new(name, config, tensors))
    }
}

/// The maps that a target's matrices share.
struct TargetGrower<'a> {
    base: &'a Base,
    shape: &'a Shape,
    copies: Copies,
    replicas: Replicas,
    layers: Vec<Placed>,
    reads: Arc<[Piece]>,
    writes: Arc<[Piece]>,
    /// Groups of the inputs of a matrix that reads as many units as the hidden state has: all replicas alike.
    mixed: Arc<[Piece]>,
}

impl<'a> TargetGrower<'a> {
    fn new(base: &'a Base, specification: &'a Specification) -> Result<Self, SynthError> {
        let shape = &specification.shape;
        let checked = check(base, shape)?;
        let replicas = checked.replicas;
        Ok(TargetGrower {
            base,
            shape,
            copies: Copies::new(checked.copies, specification.skew)?,
            replicas,
            layers: checked.layers,
            reads: replicas.read_groups().into(),
            writes: replicas.written_rows().into(),
            mixed: divided_groups(replicas.width, replicas.grown()).into(),
        })
    }

    fn tensors(&self) -> Tensors {
        let mut tensors = Tensors::default();
        let hidden = self.shape.hidden;
        let known = self.base.target.vocabulary;
        tensors.matrix(
            "model.embed_tokens",
            Growth {
                sources: vec![Arc::clone(&self.base.embedding)],
                count: 1,
                rows: tiled_rows(known, self.shape.vocabulary).into(),
                groups: self.replicas.written_groups().into(),
                scale: 1.0,
                control: Some(Control::Embedding { copies: self.copies, known }),
            },
        );
        let mut norm = self.replicas.dividing_norm(&self.base.final_norm);
        norm[hidden - GROUP + KNOWN_FEATURE] = KNOWN_GAIN;
        tensors.vector("model.embedding_norm.weight".into(), &[hidden], &norm);
        for (index, placed) in self.layers.iter().enumerate() {
            self.layer(&mut tensors, index, placed);
        }
        tensors
    }

    fn layer(&self, tensors: &mut Tensors, index: usize, placed: &Placed) {
        let path = format!("model.layers.{index}");
        let hidden = [self.shape.hidden];
        let operator: &BaseLayer = &self.base.layers[placed.operator];
        let feed_forward: &BaseLayer = &self.base.layers[placed.feed_forward];
        let scale = if placed.is_real { 1.0 } else { EXTRA };
        let norm = self.replicas.norm(&operator.operator_norm);
        tensors.vector(format!("{path}.operator_norm.weight"), &hidden, &norm);
        self.operator(tensors, &path, &operator.operator, scale);
        let mut norm = self.replicas.norm(&feed_forward.ffn_norm);
        match &feed_forward.feed_forward {
            BaseFeedForward::Dense(triple) => {
                self.dense(tensors, &format!("{path}.feed_forward"), triple, scale);
            }
            BaseFeedForward::Experts { router, experts } => {
                let gate = calibration::gate(placed.done, placed.is_real);
                let control = norm.len() - GROUP;
                norm[control..control + self.copies.count()].fill(gate.gain);
                self.experts(tensors, &format!("{path}.feed_forward"), router, experts, scale, gate);
            }
        }
        tensors.vector(format!("{path}.ffn_norm.weight"), &hidden, &norm);
    }

    fn operator(&self, tensors: &mut Tensors, path: &str, operator: &BaseOperator, scale: f32) {
        match operator {
            BaseOperator::Attention { query, key, value, output, query_norm, key_norm } => {
                let path = format!("{path}.self_attn");
                for (name, matrix) in [("q_proj", query), ("k_proj", key), ("v_proj", value)] {
                    let rows = tiled_rows(matrix.rows, matrix.rows * self.replicas.count);
                    tensors.matrix(&format!("{path}.{name}"), self.reader(matrix, rows));
                }
                tensors.matrix(&format!("{path}.out_proj"), self.writer(output, &self.mixed, scale));
                tensors.vector(format!("{path}.q_layernorm.weight"), &[query_norm.len()], query_norm);
                tensors.vector(format!("{path}.k_layernorm.weight"), &[key_norm.len()], key_norm);
            }
            BaseOperator::Conv { input, kernel, output } => {
                let path = format!("{path}.conv");
                let hidden = self.shape.hidden;
                let rows = tiled_blocks(3, self.replicas.width, hidden);
                tensors.matrix(&format!("{path}.in_proj"), self.reader(input, rows));
                let shape = match self.base.format {
                    Format::Bits4 => [hidden, 3, 1],
                    Format::Bf16 => [hidden, 1, 3],
                };
                tensors.vector(format!("{path}.conv.weight"), &shape, &kernel.repeat(self.replicas.count));
                tensors.matrix(&format!("{path}.out_proj"), self.writer(output, &self.mixed, scale));
            }
        }
    }

    fn dense(&self, tensors: &mut Tensors, path: &str, triple: &Triple, scale: f32) {
        let (source, grown) = (triple.gate.rows, self.shape.dense_width);
        let [gate, up, down] = names(self.base.format);
        for (name, matrix) in [(gate, &triple.gate), (up, &triple.up)] {
            tensors.matrix(&format!("{path}.{name}"), self.reader(matrix, tiled_rows(source, grown)));
        }
        let groups = divided_groups(source, grown).into();
        tensors.matrix(&format!("{path}.{down}"), self.writer(&triple.down, &groups, scale));
    }

    fn experts(
        &self,
        tensors: &mut Tensors,
        path: &str,
        router: &Arc<BaseMatrix>,
        experts: &[Triple],
        scale: f32,
        gate: Gate,
    ) {
        let control =
            Control::Router { copies: self.copies.count(), experts: experts.len(), penalty: gate.penalty };
        let rows = tiled_rows(experts.len(), self.shape.experts);
        let router = Growth { control: Some(control), ..self.reader(router, rows) };
        tensors.matrix(&format!("{path}.gate"), router);
        tensors.zeros(format!("{path}.expert_bias"), self.shape.experts);
        let (source, grown) = (experts[0].gate.rows, self.shape.expert_width);
        let rows: Arc<[Piece]> = tiled_rows(source, grown).into();
        let groups: Arc<[Piece]> = divided_groups(source, grown).into();
        let stack = |pick: fn(&Triple) -> &Arc<BaseMatrix>| Growth {
            sources: experts.iter().map(|triple| Arc::clone(pick(triple))).collect(),
            count: self.shape.experts,
            rows: Arc::clone(&rows),
            groups: Arc::clone(&self.reads),
            scale: 1.0,
            control: None,
        };
        let down = Growth { rows: Arc::clone(&self.writes), groups, scale, ..stack(|triple| &triple.down) };
        let stacks = [stack(|triple| &triple.gate), stack(|triple| &triple.up), down];
        match self.base.format {
            Format::Bits4 => {
                for (name, stack) in names(Format::Bits4).into_iter().zip(stacks) {
                    tensors.matrix(&format!("{path}.switch_mlp.{name}"), stack);
                }
            }
            Format::Bf16 => {
                for expert in 0..self.shape.experts {
                    for (name, stack) in names(Format::Bf16).into_iter().zip(&stacks) {
                        let source = Arc::clone(&stack.sources[expert % experts.len()]);
                        let single = Growth { sources: vec![source], count: 1, ..stack.clone() };
                        tensors.matrix(&format!("{path}.experts.{expert}.{name}"), single);
                    }
                }
            }
        }
    }

    /// A matrix that reads the hidden state.
    fn reader(&self, matrix: &Arc<BaseMatrix>, rows: Vec<Piece>) -> Growth {
        Growth {
            sources: vec![Arc::clone(matrix)],
            count: 1,
            rows: rows.into(),
            groups: Arc::clone(&self.reads),
            scale: 1.0,
            control: None,
        }
    }

    /// A matrix that writes the hidden state.
    fn writer(&self, matrix: &Arc<BaseMatrix>, groups: &Arc<[Piece]>, scale: f32) -> Growth {
        Growth {
            sources: vec![Arc::clone(matrix)],
            count: 1,
            rows: Arc::clone(&self.writes),
            groups: Arc::clone(groups),
            scale,
            control: None,
        }
    }
}

/// What a format calls a feed-forward's gate, up and down.
fn names(format: Format) -> [&'static str; 3] {
    match format {
        Format::Bits4 => ["gate_proj", "up_proj", "down_proj"],
        Format::Bf16 => ["w1", "w3", "w2"],
    }
}
