//! Where each of a target's weights lies, resolved and checked once.

use crate::archive::{Archive, TensorSlice};
use crate::config::{LayerKind, MixtureConfig, TargetConfig};
use crate::error::CheckpointError;
use crate::inventory::Inventory;
use crate::names;
use crate::slots::MatrixSlot;

/// What messages put before the names that a target's tensors usually have.
const PREFIX: &str = "model.";

/// Every weight of a target.
pub(crate) struct TargetPlan {
    pub(crate) embedding: MatrixSlot,
    pub(crate) final_norm: TensorSlice,
    pub(crate) layers: Vec<LayerPlan>,
}

/// Every weight of a layer.
pub(crate) struct LayerPlan {
    pub(crate) operator_norm: TensorSlice,
    pub(crate) operator: OperatorPlan,
    pub(crate) ffn_norm: TensorSlice,
    pub(crate) feed_forward: FeedForwardPlan,
}

/// See [`crate::OperatorWeights`].
#[expect(clippy::large_enum_variant, reason = "there is one a layer")]
pub(crate) enum OperatorPlan {
    Attention {
        query: MatrixSlot,
        key: MatrixSlot,
        value: MatrixSlot,
        output: MatrixSlot,
        query_norm: TensorSlice,
        key_norm: TensorSlice,
    },
    Conv {
        input: MatrixSlot,
        kernel: TensorSlice,
        output: MatrixSlot,
    },
}

/// See [`crate::FeedForwardWeights`].
pub(crate) enum FeedForwardPlan {
    Dense(ExpertSlots),
    Experts { router: MatrixSlot, bias: Option<TensorSlice>, experts: Vec<ExpertSlots> },
}

/// The three matrices of a dense feed-forward or of one expert.
pub(crate) struct ExpertSlots {
    pub(crate) gate: MatrixSlot,
    pub(crate) up: MatrixSlot,
    pub(crate) down: MatrixSlot,
}

impl TargetPlan {
    /// Finds and checks everything `config` asks for, and refuses what it does not.
    pub(crate) fn resolve(archive: &Archive, config: &TargetConfig) -> Result<Self, CheckpointError> {
        let mut inventory = Inventory::new(archive, config.quantization.as_ref(), PREFIX);
        let embedding = inventory.matrix(&[names::EMBEDDING.to_owned()], config.vocabulary, config.hidden)?;
        let final_norm = inventory.vector(&names::FINAL_NORM.map(str::to_owned), &[&[config.hidden]])?;
        let layers = (0..config.layers.len())
            .map(|index| resolve_layer(&mut inventory, config, index))
            .collect::<Result<_, _>>()?;
        inventory.finish(names::ignored_in_target)?;
        Ok(TargetPlan { embedding, final_norm, layers })
    }

    /// Every matrix.
    pub(crate) fn matrices(&self) -> Vec<&MatrixSlot> {
        let mut all = vec![&self.embedding];
        for layer in &self.layers {
            match &layer.operator {
                OperatorPlan::Attention { query, key, value, output, .. } => {
                    all.extend([query, key, value, output]);
                }
                OperatorPlan::Conv { input, output, .. } => all.extend([input, output]),
            }
            let experts = match &layer.feed_forward {
                FeedForwardPlan::Dense(slots) => std::slice::from_ref(slots),
                FeedForwardPlan::Experts { router, experts, .. } => {
                    all.push(router);
                    experts.as_slice()
                }
            };
            all.extend(experts.iter().flat_map(|slots| [&slots.gate, &slots.up, &slots.down]));
        }
        all
    }

    /// Every norm, kernel and bias.
    pub(crate) fn vectors(&self) -> Vec<&TensorSlice> {
        let mut all = vec![&self.final_norm];
        for layer in &self.layers {
            all.extend([&layer.operator_norm, &layer.ffn_norm]);
            match &layer.operator {
                OperatorPlan::Attention { query_norm, key_norm, .. } => all.extend([query_norm, key_norm]),
                OperatorPlan::Conv { kernel, .. } => all.push(kernel),
            }
            if let FeedForwardPlan::Experts { bias: Some(bias), .. } = &layer.feed_forward {
                all.push(bias);
            }
        }
        all
    }
}

/// The width of the dense feed-forwards: rows of the first one's gate, 0 when there is none.
pub(crate) fn dense_width(archive: &Archive, config: &TargetConfig) -> Result<usize, CheckpointError> {
    if config.mixture.as_ref().is_some_and(|mixture| mixture.dense_layers == 0) {
        return Ok(0);
    }
    let inventory = Inventory::new(archive, None, PREFIX);
    let names: Vec<String> =
        names::dense(0, names::GATE).iter().map(|path| format!("{path}.weight")).collect();
    let (_, entry) = inventory.find(&names)?;
    match entry.shape.as_slice() {
        [rows, _] if *rows > 0 => Ok(*rows),
        _ => Err(inventory.misshapen(entry, format!("[width, {}]", config.hidden))),
    }
}

fn resolve_layer(
    inventory: &mut Inventory,
    config: &TargetConfig,
    index: usize,
) -> Result<LayerPlan, CheckpointError> {
    let mixture = config.mixture.as_ref().filter(|mixture| index >= mixture.dense_layers);
    Ok(LayerPlan {
        operator_norm: norm(inventory, index, "operator_norm.weight", config.hidden)?,
        operator: match config.layers[index] {
            LayerKind::Attention => resolve_attention(inventory, config, index)?,
            LayerKind::Conv => resolve_conv(inventory, config, index)?,
        },
        ffn_norm: norm(inventory, index, "ffn_norm.weight", config.hidden)?,
        feed_forward: match mixture {
            Some(mixture) => resolve_experts(inventory, config, mixture, index)?,
            None => resolve_dense(inventory, config, index)?,
        },
    })
}

fn resolve_attention(
    inventory: &mut Inventory,
    config: &TargetConfig,
    index: usize,
) -> Result<OperatorPlan, CheckpointError> {
    let hidden = config.hidden;
    let query_rows = config.query_heads * config.head_dim;
    let key_value_rows = config.key_value_heads * config.head_dim;
    let mut matrix = |name: &str, rows, columns| {
        inventory.matrix(&[names::in_layer(index, &format!("self_attn.{name}"))], rows, columns)
    };
    Ok(OperatorPlan::Attention {
        query: matrix("q_proj", query_rows, hidden)?,
        key: matrix("k_proj", key_value_rows, hidden)?,
        value: matrix("v_proj", key_value_rows, hidden)?,
        output: matrix("out_proj", hidden, query_rows)?,
        query_norm: norm(inventory, index, "self_attn.q_layernorm.weight", config.head_dim)?,
        key_norm: norm(inventory, index, "self_attn.k_layernorm.weight", config.head_dim)?,
    })
}

fn resolve_conv(
    inventory: &mut Inventory,
    config: &TargetConfig,
    index: usize,
) -> Result<OperatorPlan, CheckpointError> {
    let hidden = config.hidden;
    // Hugging Face keeps a middle dimension of 1, MLX a last one: the bytes are the same.
    let kernel_names = [names::in_layer(index, "conv.conv.weight")];
    let kernel = inventory.vector(&kernel_names, &[&[hidden, 1, 3], &[hidden, 3, 1]])?;
    Ok(OperatorPlan::Conv {
        input: inventory.matrix(&[names::in_layer(index, "conv.in_proj")], 3 * hidden, hidden)?,
        kernel,
        output: inventory.matrix(&[names::in_layer(index, "conv.out_proj")], hidden, hidden)?,
    })
}

fn resolve_dense(
    inventory: &mut Inventory,
    config: &TargetConfig,
    index: usize,
) -> Result<FeedForwardPlan, CheckpointError> {
    let (hidden, width) = (config.hidden, config.intermediate);
    Ok(FeedForwardPlan::Dense(ExpertSlots {
        gate: inventory.matrix(&names::dense(index, names::GATE), width, hidden)?,
        up: inventory.matrix(&names::dense(index, names::UP), width, hidden)?,
        down: inventory.matrix(&names::dense(index, names::DOWN), hidden, width)?,
    }))
}

fn resolve_experts(
    inventory: &mut Inventory,
    config: &TargetConfig,
    mixture: &MixtureConfig,
    index: usize,
) -> Result<FeedForwardPlan, CheckpointError> {
    let router_path = names::in_layer(index, "feed_forward.gate");
    let router = inventory.matrix(&[router_path], mixture.experts, config.hidden)?;
    let bias_name = names::in_layer(index, "feed_forward.expert_bias");
    let bias = match mixture.use_bias {
        true => Some(inventory.vector(&[bias_name], &[&[mixture.experts]])?),
        false => None,
    };
    let stacked = names::in_layer(index, "feed_forward.switch_mlp");
    let packed = names::in_layer(index, "feed_forward.experts");
    // Which of these is there tells the layout; all of them are named when none is.
    let layouts = [
        format!("{packed}.0.w1.weight"),
        format!("{packed}.0.gate_proj.weight"),
        format!("{stacked}.gate_proj.weight"),
        format!("{packed}.gate_up_proj"),
    ];
    let (layout, _) = inventory.find(&layouts)?;
    let experts = match layout {
        0 | 1 => single_experts(inventory, index, mixture, config.hidden)?,
        2 => stacked_experts(inventory, &stacked, mixture, config.hidden)?,
        _ => packed_experts(inventory, &packed, mixture, config.hidden)?,
    };
    Ok(FeedForwardPlan::Experts { router, bias, experts })
}

/// MLX: all experts' gates in one tensor, their ups in another, their downs in a third.
fn stacked_experts(
    inventory: &mut Inventory,
    path: &str,
    mixture: &MixtureConfig,
    hidden: usize,
) -> Result<Vec<ExpertSlots>, CheckpointError> {
    let (experts, width) = (mixture.experts, mixture.intermediate);
    let mut stack = |name: &str, rows, columns| {
        inventory.stack(&format!("{path}.{name}"), ".weight", [experts, rows, columns])
    };
    let gate = stack("gate_proj", width, hidden)?;
    let up = stack("up_proj", width, hidden)?;
    let down = stack("down_proj", hidden, width)?;
    let slots = |expert| ExpertSlots {
        gate: gate.part(expert * width, width),
        up: up.part(expert * width, width),
        down: down.part(expert * hidden, hidden),
    };
    Ok((0..experts).map(slots).collect())
}

/// transformers 5 in memory: an expert's gate rows, then its up rows, in one tensor.
fn packed_experts(
    inventory: &mut Inventory,
    path: &str,
    mixture: &MixtureConfig,
    hidden: usize,
) -> Result<Vec<ExpertSlots>, CheckpointError> {
    let (experts, width) = (mixture.experts, mixture.intermediate);
    let gate_up = inventory.stack(&format!("{path}.gate_up_proj"), "", [experts, 2 * width, hidden])?;
    let down = inventory.stack(&format!("{path}.down_proj"), "", [experts, hidden, width])?;
    let slots = |expert| ExpertSlots {
        gate: gate_up.part(2 * expert * width, width),
        up: gate_up.part((2 * expert + 1) * width, width),
        down: down.part(expert * hidden, hidden),
    };
    Ok((0..experts).map(slots).collect())
}

/// Hugging Face on disk: three tensors an expert.
fn single_experts(
    inventory: &mut Inventory,
    index: usize,
    mixture: &MixtureConfig,
    hidden: usize,
) -> Result<Vec<ExpertSlots>, CheckpointError> {
    let width = mixture.intermediate;
    let mut slots = Vec::new();
    for expert in 0..mixture.experts {
        let gate_paths = names::expert(index, expert, names::GATE);
        slots.push(ExpertSlots {
            gate: inventory.matrix(&gate_paths, width, hidden)?,
            up: inventory.matrix(&names::expert(index, expert, names::UP), width, hidden)?,
            down: inventory.matrix(&names::expert(index, expert, names::DOWN), hidden, width)?,
        });
    }
    Ok(slots)
}

fn norm(
    inventory: &mut Inventory,
    index: usize,
    name: &str,
    width: usize,
) -> Result<TensorSlice, CheckpointError> {
    inventory.vector(&[names::in_layer(index, name)], &[&[width]])
}
