//! The models in plain fp32 loops, to be read beside the papers; the suites that hold every device to them.

pub mod attention;
pub mod drafter;
pub mod math;
pub mod oracle;
pub mod rounds;
pub mod suites;
pub mod target;

pub use drafter::{Draft, DrafterState, ReferenceDrafter};
pub use math::{Pick, Rows};
pub use rounds::{DraftedReply, Judgement, ReplyLimit, Round, drafted, greedy, judge};
pub use target::{Output, ReferenceTarget, TargetState};
