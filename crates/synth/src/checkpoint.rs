//! A grown checkpoint: a recipe for every tensor.

use std::sync::Arc;

use forerunner_checkpoint::{Dtype, TensorInfo, TensorSource};
use forerunner_tensor::bf16;
use serde_json::{Map, Value};

use crate::growth::{Field, Growth};

/// A target or a drafter that was grown: the source of its tensors, made when they are read.
pub struct GrownCheckpoint {
    name: String,
    config: Map<String, Value>,
    tensors: Tensors,
}

impl GrownCheckpoint {
    pub(crate) fn new(name: String, config: Map<String, Value>, tensors: Tensors) -> Self {
        GrownCheckpoint { name, config, tensors }
    }
}

impl TensorSource for GrownCheckpoint {
    fn name(&self) -> &str {
        &self.name
    }

    fn config(&self) -> &Map<String, Value> {
        &self.config
    }

    fn tensors(&self) -> &[TensorInfo] {
        &self.tensors.infos
    }

    fn read(&self, index: usize, start: usize, out: &mut [u8]) {
        match &self.tensors.recipes[index] {
            Recipe::Stored(bytes) => out.copy_from_slice(&bytes[start..start + out.len()]),
            Recipe::Grown(growth, field) => growth.read(*field, start, out),
        }
    }
}

/// The tensors of a checkpoint, in the order that they are written in.
#[derive(Default)]
pub(crate) struct Tensors {
    infos: Vec<TensorInfo>,
    recipes: Vec<Recipe>,
}

enum Recipe {
    Stored(Vec<u8>),
    Grown(Arc<Growth>, Field),
}

impl Tensors {
    /// A norm, a kernel or the like, in bf16.
    pub(crate) fn vector(&mut self, name: String, shape: &[usize], values: &[f32]) {
        let bytes = values.iter().flat_map(|value| bf16::from_f32(*value).to_le_bytes()).collect();
        self.push(name, Dtype::BF16, shape, Recipe::Stored(bytes));
    }

    /// `count` zeros in fp32.
    pub(crate) fn zeros(&mut self, name: String, count: usize) {
        self.push(name, Dtype::F32, &[count], Recipe::Stored(vec![0; 4 * count]));
    }

    /// The tensors of a matrix at `path`: one, or codes with scales and biases. A stack has a first dimension more.
    pub(crate) fn matrix(&mut self, path: &str, growth: Growth) {
        let lead = if growth.count > 1 { vec![growth.count] } else { Vec::new() };
        let shape = |last: usize| [lead.as_slice(), &[growth.rows.len(), last]].concat();
        let (columns, groups, bits) = (growth.columns(), growth.groups.len(), growth.bits());
        let fields = match bits {
            None => vec![("weight", Dtype::BF16, shape(columns), Field::Dense)],
            Some(bits) => vec![
                ("weight", Dtype::U32, shape(columns * bits as usize / 32), Field::Words),
                ("scales", Dtype::BF16, shape(groups), Field::Scales),
                ("biases", Dtype::BF16, shape(groups), Field::Biases),
            ],
        };
        let growth = Arc::new(growth);
        for (name, data_type, shape, field) in fields {
            let recipe = Recipe::Grown(Arc::clone(&growth), field);
            self.push(format!("{path}.{name}"), data_type, &shape, recipe);
        }
    }

    fn push(&mut self, name: String, data_type: Dtype, shape: &[usize], recipe: Recipe) {
        self.infos.push(TensorInfo { name, data_type, shape: shape.to_vec() });
        self.recipes.push(recipe);
    }
}
