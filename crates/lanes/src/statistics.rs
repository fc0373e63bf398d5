//! Counts kept for a sequence and for all of them.

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
    /// Drafts verified.
    pub drafts: u64,
    /// Drafts accepted.
    pub accepted: u64,
    /// For each draft position of a window: how many drafts were verified there, and how many of them accepted.
    pub by_position: Vec<(u64, u64)>,
    /// Why it ran without drafts, if it did.
    pub draft_off: Option<DraftOff>,
}

impl SequenceStatistics {
    /// Tokens committed by the average round; 1 when undrafted.
    pub fn tokens_per_round(&self) -> f64 {
        if self.rounds == 0 { 0.0 } else { self.reply_tokens as f64 / self.rounds as f64 }
    }

    pub(crate) fn count_window(&mut self, verified: usize, accepted: usize, held: usize) {
        self.rounds += 1;
        self.drafted_rounds += u64::from(verified > 0);
        self.holds += u64::from(held > 0);
        self.drafts += verified as u64;
        self.accepted += accepted as u64;
        for (depth, position) in self.by_position[..verified].iter_mut().enumerate() {
            position.0 += 1;
            position.1 += u64::from(depth < accepted);
        }
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
}

impl std::fmt::Display for DraftOff {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            DraftOff::NotAsked => "drafting was turned off for this request",
            DraftOff::NoDrafter => "no drafter is loaded",
            DraftOff::WouldNotPay => "drafting would not have been faster here",
        })
    }
}

/// Counts over all sequences since start.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Totals {
    /// Rounds that the target ran.
    pub rounds: u64,
    /// Rounds that it failed.
    pub failed_rounds: u64,
    /// Rows of the rounds that ran.
    pub rows: u64,
    /// Tokens committed.
    pub reply_tokens: u64,
    /// Drafts verified.
    pub drafts: u64,
    /// Drafts accepted.
    pub accepted: u64,
    /// Sequences that ended by a stop token, a stop string or their length.
    pub finished: u64,
    /// Sequences cancelled.
    pub cancelled: u64,
    /// Sequences that the target could not hold or failed on.
    pub failed: u64,
}
