//! Counts kept for a sequence and for all of them.

use std::time::Duration;

use crate::offers::Offered;
use crate::target::MAX_WINDOW;

/// What one sequence took. A drafted reply's text does not depend on any of this.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SequenceStatistics {
    /// Tokens of the prompt.
    pub prompt_tokens: usize,
    /// Tokens of the prompt that the target held already, from a stored prefix.
    pub cached_tokens: usize,
    /// Tokens committed so far.
    pub reply_tokens: usize,
    /// Rounds that carried a chunk of its prompt.
    pub prompt_rounds: u64,
    /// Rounds that committed tokens of the reply; the prompt's last chunk, which draws the first, is one of them.
    pub rounds: u64,
    /// Rounds among them that verified at least one draft.
    pub drafted_rounds: u64,
    /// Rounds that made drafts for the next one.
    pub holds: u64,
    /// Rounds that its guard kept plain.
    pub guarded_rounds: u64,
    /// Drafts verified, copies and forced tokens among them.
    pub drafts: u64,
    /// Drafts accepted, copies and forced tokens among them.
    pub accepted: u64,
    /// Copied tokens verified.
    pub copies: u64,
    /// Copied tokens accepted.
    pub copies_accepted: u64,
    /// Tokens verified that a constraint forced.
    pub forced: u64,
    /// Those among them that were accepted.
    pub forced_accepted: u64,
    /// For each position of the drafter's drafts in a window: how many were verified there, and how many of them
    /// accepted.
    pub by_position: Vec<(u64, u64)>,
    /// Why it ran without drafts, if it did.
    pub draft_off: Option<DraftOff>,
}

impl SequenceStatistics {
    /// Tokens committed by the average round; 1 when undrafted.
    pub fn tokens_per_round(&self) -> f64 {
        if self.rounds == 0 { 0.0 } else { self.reply_tokens as f64 / self.rounds as f64 }
    }

    pub(crate) fn count_window(&mut self, counts: &WindowCounts) {
        let (verified, accepted) = (counts.verified as u64, counts.accepted as u64);
        self.rounds += 1;
        self.drafted_rounds += u64::from(verified > 0);
        self.guarded_rounds += u64::from(counts.guarded);
        self.holds += u64::from(counts.held > 0);
        self.drafts += verified;
        self.accepted += accepted;
        match counts.offered {
            Offered::Copy => {
                self.copies += verified;
                self.copies_accepted += accepted;
            }
            Offered::Forced => {
                self.forced += verified;
                self.forced_accepted += accepted;
            }
            Offered::Held | Offered::Nothing => count_positions(&mut self.by_position, counts),
        }
    }
}

/// What a window that drew has to be counted.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WindowCounts {
    pub verified: usize,
    pub accepted: usize,
    pub held: usize,
    /// Where its drafts were from.
    pub offered: Offered,
    /// Whether it could have drafted and its guard kept it plain.
    pub guarded: bool,
}

fn count_positions(by_position: &mut [(u64, u64)], counts: &WindowCounts) {
    for (depth, position) in by_position[..counts.verified].iter_mut().enumerate() {
        position.0 += 1;
        position.1 += u64::from(depth < counts.accepted);
    }
}

/// Why a sequence ran without drafts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DraftOff {
    /// It was submitted with `draft: false`.
    NotAsked,
    /// The target has no drafter.
    NoDrafter,
    /// By the cost table and the chances, no window with drafts would have been faster than one without.
    WouldNotPay,
    /// Rounds with drafts were measured and were slower than rounds without.
    MeasuredSlower,
}

impl std::fmt::Display for DraftOff {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            DraftOff::NotAsked => "drafting was turned off for this request",
            DraftOff::NoDrafter => "no drafter is loaded",
            DraftOff::WouldNotPay => "drafting would not have been faster here",
            DraftOff::MeasuredSlower => "drafting was measured to be slower here",
        })
    }
}

/// Counts over all sequences since start.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Totals {
    /// Rounds that the target ran.
    pub rounds: u64,
    /// Rounds among them in which replies moved and no draft was verified.
    pub plain_rounds: u64,
    /// Rounds among them that verified at least one draft.
    pub drafted_rounds: u64,
    /// Drafted rounds that verified at least one copied token.
    pub copied_rounds: u64,
    /// Plain rounds that a guard kept so, although a lane could have drafted.
    pub guarded_rounds: u64,
    /// Rounds that it failed.
    pub failed_rounds: u64,
    /// Rows of the rounds that ran.
    pub rows: u64,
    /// Tokens committed.
    pub reply_tokens: u64,
    /// Drafts verified, copies and forced tokens among them.
    pub drafts: u64,
    /// Drafts accepted, copies and forced tokens among them.
    pub accepted: u64,
    /// Copied tokens verified.
    pub copies: u64,
    /// Copied tokens accepted.
    pub copies_accepted: u64,
    /// Tokens verified that a constraint forced.
    pub forced: u64,
    /// Those among them that were accepted.
    pub forced_accepted: u64,
    /// For each position of the drafter's drafts in a window: how many were verified there, and how many of them
    /// accepted.
    pub by_position: [(u64, u64); MAX_WINDOW - 1],
    /// Host time between two rounds, summed over those that followed one another.
    pub round_gap: Duration,
    /// How many gaps that is.
    pub round_gaps: u64,
    /// Sequences that ended by a stop token, a stop string or their length.
    pub finished: u64,
    /// Sequences cancelled.
    pub cancelled: u64,
    /// Sequences that the target could not hold or failed on, and those whose constraint led nowhere.
    pub failed: u64,
}

impl Totals {
    pub(crate) fn count_window(&mut self, counts: &WindowCounts, committed: usize) {
        let (verified, accepted) = (counts.verified as u64, counts.accepted as u64);
        self.reply_tokens += committed as u64;
        self.drafts += verified;
        self.accepted += accepted;
        match counts.offered {
            Offered::Copy => {
                self.copies += verified;
                self.copies_accepted += accepted;
            }
            Offered::Forced => {
                self.forced += verified;
                self.forced_accepted += accepted;
            }
            Offered::Held | Offered::Nothing => count_positions(&mut self.by_position, counts),
        }
    }
}
