//! The pair that is grown, in memory and in the format that it is grown in.

use std::sync::Arc;

use forerunner_checkpoint::{
    DrafterCheckpoint, DrafterConfig, DrafterHead, DrafterLayerWeights, FeedForwardWeights, LayerWeights,
    OperatorWeights, TargetCheckpoint, TargetConfig,
};
use forerunner_tensor::{ExpertWeights, HostMatrix};

use crate::SynthError;
use crate::calibration;
use crate::growth::BaseMatrix;
use crate::replicas::GROUP;

/// How a grown target is stored; its drafter is bf16.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// MLX affine, 4 bits in groups of 64, the routers 8 bits, as mlx-lm converts.
    Bits4,
    /// bf16, as Hugging Face stores it.
    Bf16,
}

impl Format {
    /// `4bit` or `bf16`.
    pub fn name(self) -> &'static str {
        match self {
            Format::Bits4 => "4bit",
            Format::Bf16 => "bf16",
        }
    }

    /// The format called `name`.
    pub fn find(name: &str) -> Option<Format> {
        [Format::Bits4, Format::Bf16].into_iter().find(|format| format.name() == name)
    }

    /// Codes' width of a matrix that is a router, or not.
    fn bits(self, is_router: bool) -> Option<u32> {
        match (self, is_router) {
            (Format::Bf16, _) => None,
            (Format::Bits4, false) => Some(4),
            (Format::Bits4, true) => Some(8),
        }
    }
}

/// The demo pair, or another with its configuration and the same texts learnt.
pub struct Base {
    pub(crate) format: Format,
    pub(crate) target: TargetConfig,
    pub(crate) embedding: Arc<BaseMatrix>,
    pub(crate) final_norm: Vec<f32>,
    pub(crate) layers: Vec<BaseLayer>,
    pub(crate) drafter: DrafterConfig,
    pub(crate) drafter_head: BaseHead,
    pub(crate) drafter_layers: Vec<BaseDrafterLayer>,
}

pub(crate) struct BaseLayer {
    pub(crate) operator_norm: Vec<f32>,
    pub(crate) operator: BaseOperator,
    pub(crate) ffn_norm: Vec<f32>,
    pub(crate) feed_forward: BaseFeedForward,
}

pub(crate) enum BaseOperator {
    Attention {
        query: Arc<BaseMatrix>,
        key: Arc<BaseMatrix>,
        value: Arc<BaseMatrix>,
        output: Arc<BaseMatrix>,
        query_norm: Vec<f32>,
        key_norm: Vec<f32>,
    },
    Conv {
        input: Arc<BaseMatrix>,
        kernel: Vec<f32>,
        output: Arc<BaseMatrix>,
    },
}

pub(crate) enum BaseFeedForward {
    Dense(Triple),
    Experts { router: Arc<BaseMatrix>, experts: Vec<Triple> },
}

/// The matrices of a gated feed-forward.
pub(crate) struct Triple {
    pub(crate) gate: Arc<BaseMatrix>,
    pub(crate) up: Arc<BaseMatrix>,
    pub(crate) down: Arc<BaseMatrix>,
}

pub(crate) struct BaseHead {
    pub(crate) fuse: Arc<BaseMatrix>,
    pub(crate) hidden_norm: Vec<f32>,
    pub(crate) final_norm: Vec<f32>,
    pub(crate) markov_previous: Arc<BaseMatrix>,
    pub(crate) markov_next: Arc<BaseMatrix>,
    pub(crate) confidence: Option<(Vec<f32>, f32)>,
}

pub(crate) struct BaseDrafterLayer {
    pub(crate) input_norm: Vec<f32>,
    pub(crate) query: Arc<BaseMatrix>,
    pub(crate) key: Arc<BaseMatrix>,
    pub(crate) value: Arc<BaseMatrix>,
    pub(crate) output: Arc<BaseMatrix>,
    pub(crate) query_norm: Vec<f32>,
    pub(crate) key_norm: Vec<f32>,
    pub(crate) post_attention_norm: Vec<f32>,
    pub(crate) feed_forward: Triple,
}

impl Base {
    /// Reads the pair, each matrix in the format that it is grown in. Quantized matrices stay as they are when they
    /// have the format's width, and dense ones are quantized as MLX does.
    pub fn load(
        target: &TargetCheckpoint,
        drafter: &DrafterCheckpoint,
        format: Format,
    ) -> Result<Base, SynthError> {
        check(target.config())?;
        let layers = (0..target.config().layers.len())
            .map(|index| Ok(base_layer(target.layer(index)?, format)))
            .collect::<Result<_, SynthError>>()?;
        let drafter_layers = (0..drafter.config().layers)
            .map(|index| Ok(base_drafter_layer(&drafter.layer(index)?)))
            .collect::<Result<_, SynthError>>()?;
        Ok(Base {
            format,
            target: target.config().clone(),
            embedding: matrix(&target.embedding()?, format.bits(false)),
            final_norm: target.final_norm()?,
            layers,
            drafter: drafter.config().clone(),
            drafter_head: base_head(drafter.head()?),
            drafter_layers,
        })
    }
}

/// Refuses a base whose residual stream was not measured, or that does not fall into groups.
fn check(config: &TargetConfig) -> Result<(), SynthError> {
    let layers = config.layers.len();
    if layers != calibration::LAYERS || config.mixture.is_none() {
        return Err(SynthError::Base {
            what: "number of layers",
            found: format!("{layers}, {:?}", config.family),
            accepted: format!("{}, with experts, as the demo target has", calibration::LAYERS),
        });
    }
    if !config.hidden.is_multiple_of(GROUP) {
        return Err(SynthError::Base {
            what: "hidden size",
            found: config.hidden.to_string(),
            accepted: format!("multiples of {GROUP}"),
        });
    }
    Ok(())
}

fn matrix(matrix: &HostMatrix<'_>, bits: Option<u32>) -> Arc<BaseMatrix> {
    Arc::new(BaseMatrix::new(matrix, bits))
}

fn triple(weights: &ExpertWeights<'_>, bits: Option<u32>) -> Triple {
    let matrix = |host| matrix(host, bits);
    Triple { gate: matrix(&weights.gate), up: matrix(&weights.up), down: matrix(&weights.down) }
}

fn base_layer(weights: LayerWeights<'_>, format: Format) -> BaseLayer {
    let bits = format.bits(false);
    let operator = match weights.operator {
        OperatorWeights::Attention { query, key, value, output, query_norm, key_norm } => {
            BaseOperator::Attention {
                query: matrix(&query, bits),
                key: matrix(&key, bits),
                value: matrix(&value, bits),
                output: matrix(&output, bits),
                query_norm,
                key_norm,
            }
        }
        OperatorWeights::Conv { input, kernel, output } => {
            BaseOperator::Conv { input: matrix(&input, bits), kernel, output: matrix(&output, bits) }
        }
    };
    let feed_forward = match weights.feed_forward {
        FeedForwardWeights::Dense { gate, up, down } => {
            BaseFeedForward::Dense(triple(&ExpertWeights { gate, up, down }, bits))
        }
        FeedForwardWeights::Experts { router, experts, .. } => BaseFeedForward::Experts {
            router: matrix(&router, format.bits(true)),
            experts: experts.map(|expert| triple(&expert, bits)).collect(),
        },
    };
    BaseLayer { operator_norm: weights.operator_norm, operator, ffn_norm: weights.ffn_norm, feed_forward }
}

fn base_head(head: DrafterHead<'_>) -> BaseHead {
    BaseHead {
        fuse: matrix(&head.fuse, None),
        hidden_norm: head.hidden_norm,
        final_norm: head.final_norm,
        markov_previous: matrix(&head.markov_previous, None),
        markov_next: matrix(&head.markov_next, None),
        confidence: head.confidence,
    }
}

fn base_drafter_layer(weights: &DrafterLayerWeights<'_>) -> BaseDrafterLayer {
    let matrix = |host| matrix(host, None);
    BaseDrafterLayer {
        input_norm: weights.input_norm.clone(),
        query: matrix(&weights.query),
        key: matrix(&weights.key),
        value: matrix(&weights.value),
        output: matrix(&weights.output),
        query_norm: weights.query_norm.clone(),
        key_norm: weights.key_norm.clone(),
        post_attention_norm: weights.post_attention_norm.clone(),
        feed_forward: Triple {
            gate: matrix(&weights.gate),
            up: matrix(&weights.up),
            down: matrix(&weights.down),
        },
    }
}
