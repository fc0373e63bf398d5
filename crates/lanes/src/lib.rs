//! The scheduling core: which rows run in a round, and what they commit.
//!
//! The way through is [`Lanes::step`]: admit (`admission`), choose who has a turn (`turns`), plan windows
//! (`plan`, which asks `guards`, `offers`, `depth` and `allocate`), run one round on the target, then commit
//! (`accept`), and learn from it (`live_costs`, `guards`, `chances`, `copies`).
//! A reply may be held to a form (`constraint`): its drafts are cut where the form forbids them and every draw has a mask.
//! Decisions are functions that return values; only `lanes`, `admission` and `commit` change anything.
//!
//! **Architecture invariant:** this crate knows no device, no model and no text. It depends on the standard
//! library only, and its tests run in seconds against the fakes in this crate.
//!
//! **Architecture invariant:** a sequence commits only tokens that the target drew. Drafts, chances, costs and
//! clocks decide how many rows run, never what a row says.

mod absorbing;
mod accept;
mod admission;
mod ahead;
mod allocate;
mod band;
mod calibrate;
mod chances;
mod clock;
mod commit;
mod constraint;
mod copies;
mod cost;
mod cost_text;
mod curve;
mod debt;
mod deliver;
mod depth;
pub mod fake;
mod guard;
mod guards;
mod lanes;
mod live_costs;
mod measure;
mod offers;
mod overhead;
mod plan;
mod planted;
mod sequence;
mod statistics;
mod target;
mod turns;

pub use calibrate::ConfidenceSample;
pub use chances::Calibration;
pub use clock::{Clock, SystemClock};
pub use constraint::{Constraint, ConstraintError};
pub use cost::{CostTable, HoldCosts};
pub use cost_text::CostTextError;
pub use deliver::{Committed, Delivery, Finish, Finished, Origin};
pub use guard::{Side, SideRecord};
pub use guards::GuardState;
pub use lanes::{Lanes, Options};
#[doc(hidden)]
pub use planted::Planted;
pub use sequence::{NewSequence, SequenceId, SubmitError};
pub use statistics::{DraftOff, SequenceStatistics, Totals};
pub use target::{
    HeldDraft, Limits, MAX_ALTERNATIVES, MAX_WINDOW, OpenLane, PendingSource, Round, RoundOut, RowMask,
    SamplingRule, Target, TargetError, TokenId, TokenLogprob, Window, WindowOut,
};
