//! Fakes: a target, a drafter and a clock with no model behind them, strict about the contract and able to lie.
//!
//! The fake's next token is a hash of the whole history, so that any slip of a rollback, a position or a
//! neighbour changes the text.

mod clock;
mod constraint;
mod contract;
mod drafter;
mod prefixes;
mod queue;
mod random;
mod script;
mod target;

pub use clock::{ScriptedClock, ScriptedCosts};
pub use constraint::FakeConstraint;
pub use drafter::{Confidence, DrafterScript, Rightness};
pub use random::Random;
pub use script::{Experts, Failures, FakeScript, Fault, Repeats};
pub use target::FakeTarget;
