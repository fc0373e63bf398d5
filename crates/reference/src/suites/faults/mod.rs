//! Planted faults: devices that are broken in one known way, to prove that the suites notice.

mod device;
mod tamper;

use super::ops::Group;
use super::{draws, parity, row_invariance};

pub use device::Faulty;

/// A suite, for what catches a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Suite {
    /// [`parity`]
    Parity,
    /// [`row_invariance`]
    RowInvariance,
    /// [`draws`]
    Draws,
}

/// Makes the enum of faults with the table of what must catch each.
macro_rules! faults {
    ($($(#[$doc:meta])* $fault:ident: $($suite:ident in $($group:ident)|+),*;)+) => {
        /// One way to be wrong.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Fault {
            $($(#[$doc])* $fault,)+
        }

        impl Fault {
            /// Every fault.
            pub const ALL: &[Fault] = &[$(Fault::$fault),+];

            /// The suites, with their groups, each of which must fail.
            pub fn caught_by(self) -> &'static [(Suite, &'static [Group])] {
                match self {
                    $(Fault::$fault => &[$((Suite::$suite, &[$(Group::$group),+])),*],)+
                }
            }
        }
    };
}

faults! {
    /// `upload` writes from the start.
    UploadOffsetIgnored: Parity in Memory;
    /// `queue_read_back` does not look at the last part.
    LastPartNotRead: Parity in Memory;
    /// `embed` gives the row of the token after.
    EmbedsNextToken: Parity in Embed;
    /// `embed` leaves no room for pad rows.
    EmbedSkipsPads: RowInvariance in Embed;
    /// `rms_norm` adds no epsilon.
    NormWithoutEpsilon: Parity in Norm;
    /// `rms_norm` sums in another order when there are many rows.
    NormDependsOnRowCount: RowInvariance in Norm;
    /// `linear_add` writes the product alone.
    ResidualForgotten: Parity in Linear;
    /// Products are summed in another order when there are many rows.
    SumsDependOnRowCount: RowInvariance in Linear | FeedForward | Experts;
    /// `rope_append` rotates by the position after.
    RopeOffByOne: Parity in Attention;
    /// `attention` ends one key early.
    LastKeyUnseen: Parity in Attention;
    /// Pages are taken in order, whatever the table says.
    PagesInOrder: Parity in Attention;
    /// Pad rows write to lane 0.
    PadRowsWrite: Parity in Attention | Conv, RowInvariance in Attention | Conv;
    /// `attention` sums scores in another order when there are many rows.
    ScoresDependOnRowCount: RowInvariance in Attention;
    /// `short_conv` uses the slot of the position after.
    RingOffByOne: Parity in Conv;
    /// `short_conv` reads the ring where there is no position.
    RingReadBeforeStart: Parity in Conv;
    /// `short_conv` begins every forward without history.
    ConvForgetsHistory: Parity in Conv, RowInvariance in Conv;
    /// `feed_forward` takes gate for up.
    GateAndUpSwapped: Parity in FeedForward;
    /// `route` selects by unbiased scores.
    RoutesWithoutBias: Parity in Experts;
    /// `route` lets pad rows pick.
    PadRowsPick: Parity in Experts;
    /// `expert_feed_forward` sums without weights.
    ExpertWeightsForgotten: Parity in Experts;
    /// `copy_columns` writes to the first columns.
    TapOffsetIgnored: Parity in Moves;
    /// `copy_columns` copies rows two by two and leaves the last of an odd number.
    CopiesRowsInPairs: Parity in Moves, RowInvariance in Moves;
    /// `copy_rows` writes in ascending order, whatever it is told.
    CopiesRowsInOrder: Parity in Moves, RowInvariance in Moves;
    /// `gather_rows` gives row 0 where there is none.
    GathersNoZeros: Parity in Moves;
    /// `log_probabilities` takes rows in their order, whatever the index says.
    LogProbabilitiesInOrder: Parity in Draws, RowInvariance in Draws;
    /// `log_probabilities` gives values that are not normalized.
    LogSumForgotten: Parity in Draws;
    /// `log_probabilities` sums in another order when there are many rows.
    LogSumDependsOnRowCount: RowInvariance in Draws;
    /// Among equal alternatives, `log_probabilities` takes the higher token.
    AlternativesTieUpwards: Parity in Draws;
    /// `accept` takes a draft too many.
    AcceptsOneMore: Parity in Draws;
    /// `accept` counts the accepted drafts without the anchor.
    AnchorNotCounted: Parity in Draws;
    /// `held_tokens` takes the block with the window's number.
    HeldByWindow: Parity in Drafter;
    /// `draft_rows` hides what is after a row in its block.
    BlockRowsCausal: Parity in Drafter;
    /// `draft_rows` numbers blocks by window.
    BlocksInWindowOrder: Parity in Drafter, RowInvariance in Drafter;
    /// `draft_chain` draws with the noise of the position before.
    ChainOffByOne: Parity in Drafter;
    /// Draws are keyed by the row's index as well.
    DrawKeyedByRow: Parity in Draws, RowInvariance in Draws, Draws in Draws;
    /// Top-k keeps one more.
    TopKOffByOne: Parity in Draws, Draws in Draws;
    /// Top-p keeps all.
    TopPIgnored: Draws in Draws;
    /// Min-p keeps all.
    MinPIgnored: Draws in Draws;
    /// The upper half of the seed is lost.
    HighSeedIgnored: Parity in Draws, Draws in Draws;
    /// All choices draw the same.
    ChoiceIgnored: Parity in Draws, Draws in Draws;
    /// The prompt's tokens get the reply's penalties.
    PromptCountsAsReply: Parity in Draws, Draws in Draws;
    /// The drafts before a row are not seen.
    DraftsUnseen: Parity in Draws, Draws in Draws;
    /// Logit bias is not added.
    BiasIgnored: Draws in Draws;
    /// Masks forbid nothing.
    MaskIgnored: Parity in Draws, Draws in Draws;
    /// Not a fault, and caught by nothing: temperatures and thresholds move by a millionth, as a device's
    /// own logarithms move the noise. It shows that the inputs leave margins.
    RulesDisturbed:;
}

/// How many catches [`missed`] looks for: each fault in each group of each suite that must fail.
pub fn planted() -> usize {
    let catches = Fault::ALL.iter().flat_map(|fault| fault.caught_by());
    catches.map(|(_, groups)| groups.len()).sum()
}

/// Runs every fault against the suites that must catch it, and names those that were missed.
pub fn missed() -> Vec<String> {
    let mut missed = Vec::new();
    for fault in Fault::ALL {
        let device = Faulty::new(*fault);
        for (suite, groups) in fault.caught_by() {
            for group in *groups {
                if !catches(*suite, *group, &device) {
                    missed.push(format!("{fault:?} by {suite:?} in {}", group.name()));
                }
            }
        }
    }
    missed
}

fn catches(suite: Suite, group: Group, device: &Faulty) -> bool {
    match suite {
        Suite::Parity => parity::fails(device, group),
        Suite::RowInvariance => row_invariance::fails(device, group),
        Suite::Draws => !draws::run(device).passed(),
    }
}
