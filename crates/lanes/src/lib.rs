//! The scheduling core: which rows run in a round, and what they commit.
//!
//! **Architecture invariant:** this crate knows no device, no model and no text. It depends on the standard
//! library only, and its tests run in seconds against the fakes in this crate.

mod target;

pub use target::{
    HeldDraft, Limits, MAX_WINDOW, OpenLane, PendingSource, Round, RoundOut, RowMask, SamplingRule, Target,
    TargetError, TokenId, Window, WindowOut,
};
