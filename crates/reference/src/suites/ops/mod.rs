//! The operations under test: each with its inputs, what it writes, and how close that must be to the
//! oracle.

mod accept;
mod attention;
mod conv;
mod draft_chain;
mod draft_rows;
mod draw;
mod embed;
mod experts;
mod feed_forward;
mod held_tokens;
mod host;
mod linear;
mod log_probabilities;
mod moves;
mod norm;
mod rules;

use forerunner_tensor::{Device, DeviceError};

use super::compare::Output;
use super::places::{Cut, LaneRows, Layout};

/// Operations that are reported, and broken on purpose, together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Group {
    /// Buffers, read-backs, rounds
    Memory,
    /// `embed`
    Embed,
    /// `rms_norm`
    Norm,
    /// `linear`, `linear_add`, `logits`
    Linear,
    /// `rope_append`, `attention`
    Attention,
    /// `short_conv`
    Conv,
    /// `feed_forward`
    FeedForward,
    /// `route`, `expert_feed_forward`
    Experts,
    /// `copy_columns`, `copy_rows`, `gather_rows`
    Moves,
    /// `draw`, `log_probabilities`, `accept`
    Draws,
    /// `held_tokens`, `draft_rows`, `draft_chain`
    Drafter,
}

impl Group {
    /// Every group.
    pub const ALL: [Group; 11] = [
        Group::Memory,
        Group::Embed,
        Group::Norm,
        Group::Linear,
        Group::Attention,
        Group::Conv,
        Group::FeedForward,
        Group::Experts,
        Group::Moves,
        Group::Draws,
        Group::Drafter,
    ];

    /// As it stands in reports.
    pub fn name(self) -> &'static str {
        match self {
            Group::Memory => "memory",
            Group::Embed => "embed",
            Group::Norm => "norm",
            Group::Linear => "linear",
            Group::Attention => "attention",
            Group::Conv => "conv",
            Group::FeedForward => "feed-forward",
            Group::Experts => "experts",
            Group::Moves => "moves",
            Group::Draws => "draws",
            Group::Drafter => "drafter",
        }
    }
}

/// An operation at one shape. What it is given for a row is a function of the row's lane and position, so
/// that one description serves every schedule and every device.
pub(super) trait RowOp {
    /// What it keeps on a device: weights, tables, pages.
    type State<D: Device>;

    /// Its shape, for messages.
    fn name(&self) -> String;

    /// The rows it is asked for.
    fn lanes(&self) -> Vec<LaneRows>;

    /// How those may be cut into forwards.
    fn cut(&self) -> Cut;

    /// Whether it is too large to be run at every row count.
    fn large(&self) -> bool {
        false
    }

    /// Loads weights and history.
    fn prepare<D: Device>(&self, device: &D) -> Result<Self::State<D>, DeviceError>;

    /// Runs it over the rows of a forward and returns what it wrote for them.
    fn forward<D: Device>(
        &self,
        device: &D,
        state: &mut Self::State<D>,
        layout: &Layout,
    ) -> Result<Vec<Output>, DeviceError>;

    /// The state that it left behind, where lane `i` has come to `lengths[i]`.
    fn finish<D: Device>(
        &self,
        _device: &D,
        _state: &Self::State<D>,
        _lengths: &[usize],
    ) -> Result<Vec<Output>, DeviceError> {
        Ok(Vec::new())
    }
}

/// Is shown operations one by one; their types differ.
pub(super) trait Visitor {
    /// Looks at one operation.
    fn operation<O: RowOp>(&mut self, operation: &O);
}

/// Shows a group's operations at all of their shapes.
pub(super) fn visit<V: Visitor>(group: Group, visitor: &mut V) {
    match group {
        // Not of rows: parity checks it apart.
        Group::Memory => {}
        Group::Embed => embed::visit(visitor),
        Group::Norm => norm::visit(visitor),
        Group::Linear => linear::visit(visitor),
        Group::Attention => attention::visit(visitor),
        Group::Conv => conv::visit(visitor),
        Group::FeedForward => feed_forward::visit(visitor),
        Group::Experts => experts::visit(visitor),
        Group::Moves => moves::visit(visitor),
        Group::Draws => {
            draw::visit(visitor);
            log_probabilities::visit(visitor);
            accept::visit(visitor);
        }
        Group::Drafter => {
            held_tokens::visit(visitor);
            draft_rows::visit(visitor);
            draft_chain::visit(visitor);
        }
    }
}

/// Runs the forwards from a fresh state and returns all that was written.
pub(super) fn run<D: Device, O: RowOp>(
    operation: &O,
    device: &D,
    forwards: &[Layout],
) -> Result<Vec<Output>, DeviceError> {
    let mut state = operation.prepare(device)?;
    run_from(operation, device, &mut state, forwards)
}

/// Runs the forwards from a state that the caller prepared.
pub(super) fn run_from<D: Device, O: RowOp>(
    operation: &O,
    device: &D,
    state: &mut O::State<D>,
    forwards: &[Layout],
) -> Result<Vec<Output>, DeviceError> {
    let mut outputs = Vec::new();
    for layout in forwards {
        outputs.extend(operation.forward(device, state, layout)?);
    }
    let lengths = super::places::lengths(&operation.lanes(), forwards);
    outputs.extend(operation.finish(device, state, &lengths)?);
    Ok(outputs)
}
