//! Grows the drafter (docs/synth.md section 2).

use std::sync::Arc;

use crate::base::{Base, BaseDrafterLayer};
use crate::checkpoint::{GrownCheckpoint, Tensors};
use crate::config::{drafter_config, synthetic};
use crate::control::KNOWN_FEATURE;
use crate::growth::{BaseMatrix, Growth};
use crate::replicas::{GROUP, Piece, Replicas, divided_groups, padded_rows, parts, tiled_groups, tiled_rows};
use crate::shape::check;
use crate::{Shape, Specification, SynthError};

/// Weight of the drafter's final norm on [`KNOWN_FEATURE`].
const KNOWN_GAIN: f32 = 2048.0;

impl Base {
    /// The drafter of the target that [`Base::grow_target`] grows.
    pub fn grow_drafter(&self, specification: &Specification) -> Result<GrownCheckpoint, SynthError> {
        let shape = &specification.shape;
        let checked = check(self, shape)?;
        let replicas = checked.replicas;
        let grower = DrafterGrower {
            base: self,
            shape,
            replicas,
            reads: replicas.read_groups().into(),
            writes: replicas.written_rows().into(),
        };
        let mut tensors = Tensors::default();
        grower.head(&mut tensors);
        for (index, layer) in self.drafter_layers.iter().enumerate() {
            grower.layer(&mut tensors, &format!("layers.{index}"), layer);
        }
        let name = synthetic(specification);
        let config = drafter_config(self, shape, &checked.taps, &name);
        Ok(GrownCheckpoint::new(name, config, tensors))
    }
}

/// The maps that a drafter's matrices share.
struct DrafterGrower<'a> {
    base: &'a Base,
    shape: &'a Shape,
    replicas: Replicas,
    reads: Arc<[Piece]>,
    writes: Arc<[Piece]>,
}

impl DrafterGrower<'_> {
    fn head(&self, tensors: &mut Tensors) {
        let head = &self.base.drafter_head;
        let hidden = self.shape.hidden;
        let source_groups = self.replicas.width / GROUP;
        let tap = |tap: usize| {
            let shift = move |piece: &Piece| Piece { source: tap * source_groups + piece.source, ..*piece };
            self.reads.iter().map(shift)
        };
        let taps: Vec<Piece> = (0..self.base.drafter.taps.len()).flat_map(tap).collect();
        tensors.matrix("fc", growth(&head.fuse, self.writes.to_vec(), taps));
        tensors.vector("hidden_norm.weight".into(), &[hidden], &self.replicas.norm(&head.hidden_norm));
        let mut norm = self.replicas.dividing_norm(&head.final_norm);
        norm[hidden - GROUP + KNOWN_FEATURE] = KNOWN_GAIN;
        tensors.vector("norm.weight".into(), &[hidden], &norm);
        let (source, grown) = (self.base.drafter.markov_rank, self.shape.markov_rank);
        let rows = padded_rows(self.base.drafter.vocabulary, self.shape.vocabulary);
        let previous = growth(&head.markov_previous, rows.clone(), tiled_groups(source, grown));
        tensors.matrix("markov_head.markov_w1", previous);
        let next = growth(&head.markov_next, rows, divided_groups(source, grown));
        tensors.matrix("markov_head.markov_w2", next);
        if let Some((weights, bias)) = &head.confidence {
            self.confidence(tensors, weights, *bias);
        }
    }

    /// The confidence head reads the final-normed row, which is divided already, and the Markov embedding.
    fn confidence(&self, tensors: &mut Tensors, weights: &[f32], bias: f32) {
        let (hidden, markov) = weights.split_at(self.replicas.width);
        let mut grown = self.replicas.norm(hidden);
        for part in parts(self.shape.markov_rank / markov.len()) {
            grown.extend(markov.iter().map(|weight| weight * part));
        }
        tensors.vector("confidence_head.proj.weight".into(), &[1, grown.len()], &grown);
        tensors.vector("confidence_head.proj.bias".into(), &[1], &[bias]);
    }

    fn layer(&self, tensors: &mut Tensors, path: &str, layer: &BaseDrafterLayer) {
        let hidden = [self.shape.hidden];
        let norm = |values: &[f32]| self.replicas.norm(values);
        let reads = |matrix: &Arc<BaseMatrix>, rows: usize| {
            growth(matrix, tiled_rows(matrix.rows, rows), self.reads.to_vec())
        };
        let writes = |matrix: &Arc<BaseMatrix>, columns: usize| {
            growth(matrix, self.writes.to_vec(), divided_groups(matrix.columns, columns))
        };
        tensors.vector(format!("{path}.input_layernorm.weight"), &hidden, &norm(&layer.input_norm));
        for (name, matrix) in [("q_proj", &layer.query), ("k_proj", &layer.key), ("v_proj", &layer.value)] {
            let grown = matrix.rows * self.replicas.count;
            tensors.matrix(&format!("{path}.self_attn.{name}"), reads(matrix, grown));
        }
        let output = writes(&layer.output, layer.output.columns * self.replicas.count);
        tensors.matrix(&format!("{path}.self_attn.o_proj"), output);
        for (name, values) in [("q_norm", &layer.query_norm), ("k_norm", &layer.key_norm)] {
            tensors.vector(format!("{path}.self_attn.{name}.weight"), &[values.len()], values);
        }
        let post = norm(&layer.post_attention_norm);
        tensors.vector(format!("{path}.post_attention_layernorm.weight"), &hidden, &post);
        let width = self.shape.drafter_width;
        let feed_forward = &layer.feed_forward;
        tensors.matrix(&format!("{path}.mlp.gate_proj"), reads(&feed_forward.gate, width));
        tensors.matrix(&format!("{path}.mlp.up_proj"), reads(&feed_forward.up, width));
        tensors.matrix(&format!("{path}.mlp.down_proj"), writes(&feed_forward.down, width));
    }
}

fn growth(matrix: &Arc<BaseMatrix>, rows: Vec<Piece>, groups: Vec<Piece>) -> Growth {
    Growth {
        sources: vec![Arc::clone(matrix)],
        count: 1,
        rows: rows.into(),
        groups: groups.into(),
        scale: 1.0,
        control: None,
    }
}
