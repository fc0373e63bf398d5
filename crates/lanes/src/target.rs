//! What a round asks of a target: the seam between the scheduler and everything that computes.
//!
//! One call covers all lanes. A target holds the drafter behind it; the scheduler knows drafts only as tokens
//! with chances.

use std::ops::Range;

/// A token of the target's vocabulary.
pub type TokenId = u32;

/// Most rows of one decode window: the pending token and its drafts.
pub const MAX_WINDOW: usize = 32;

/// Most alternatives of a draw whose log-probabilities can be asked for.
pub const MAX_ALTERNATIVES: usize = 20;

/// What a target can hold and do; fixed at start.
#[derive(Debug, Clone, PartialEq)]
pub struct Limits {
    /// Lanes that may be open at once.
    pub lanes: usize,
    /// Longest context of a lane in tokens, prompt plus reply.
    pub context: usize,
    /// Most rows of one round.
    pub rows: usize,
    /// Most drafts the drafter makes in one hold; 0 without a drafter.
    pub block: usize,
    /// Whether the drafter says how sure it is ([`HeldDraft::confidence`]).
    pub has_confidence: bool,
    /// Tokens of a page, the unit in which prefixes are stored. A prompt chunk that reaches past a page border
    /// ends at one.
    pub page: usize,
    /// Whether a round may be queued behind one that is not read yet ([`Target::queue`]): of use where rounds
    /// run while the host goes on.
    pub queues_ahead: bool,
}

/// How a lane draws its tokens (the same on every device). The default is greedy without penalties.
#[derive(Debug, Clone, PartialEq)]
pub struct SamplingRule {
    /// 0 for greedy.
    pub temperature: f32,
    /// Candidates kept, 0 for all.
    pub top_k: u32,
    /// Probability mass kept, 1 for all.
    pub top_p: f32,
    /// Least share of the best candidate's probability, 0 for all.
    pub min_p: f32,
    /// 1 for none.
    pub repetition_penalty: f32,
    /// 0 for none.
    pub presence_penalty: f32,
    /// 0 for none.
    pub frequency_penalty: f32,
    /// Added to the logits of single tokens.
    pub logit_bias: Vec<(TokenId, f32)>,
    /// Key of every draw; the same seed draws the same reply.
    pub seed: u64,
    /// Which of a request's choices this is.
    pub choice: u32,
}

impl Default for SamplingRule {
    fn default() -> Self {
        SamplingRule {
            temperature: 0.0,
            top_k: 0,
            top_p: 1.0,
            min_p: 0.0,
            repetition_penalty: 1.0,
            presence_penalty: 0.0,
            frequency_penalty: 0.0,
            logit_bias: Vec::new(),
            seed: 0,
            choice: 0,
        }
    }
}

/// A lane about to be used by a sequence.
#[derive(Debug, Clone, Copy)]
pub struct OpenLane<'a> {
    /// The whole prompt; the target may note which tokens stand in it (repetition penalty) and may find a
    /// stored prefix of it.
    pub prompt: &'a [TokenId],
    /// Most tokens the lane will ever hold, prompt plus reply. Memory for all of them is reserved now, so that
    /// a round never runs out of it.
    pub context: usize,
    /// How it draws.
    pub rule: &'a SamplingRule,
    /// Whether this sequence may be drafted: the drafter then keeps its context up to date.
    pub drafted: bool,
    /// Whether its draws come with their log-probabilities, and with so many alternatives, at most
    /// [`MAX_ALTERNATIVES`].
    pub logprobs: Option<usize>,
}

/// Where a decode window's tokens are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PendingSource {
    /// The host gives them.
    Host,
    /// The pending token is the lane's last draw and the drafts are the first of its last hold, all of them still
    /// where the round ran; the host gives them as well.
    Held,
    /// The pending token is the lane's last draw, which the host has not read yet: the window's only row, for
    /// which no token is given.
    LastDraw,
}

/// One lane's rows in a round. Its tokens are `Round::tokens[tokens]`, at positions from `position` on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Window {
    /// The lane, open.
    pub lane: usize,
    /// Absolute position of the first row: the lane's committed length.
    pub position: usize,
    /// A prompt chunk, or the pending token and then its drafts; empty where only the target knows the token.
    pub tokens: Range<usize>,
    /// Where the tokens of a decode window are.
    pub pending: PendingSource,
    /// How many of the last tokens are drafts: kept only while they equal the draws before them. 0 for a prompt
    /// chunk, whose rows are all kept.
    pub drafts: usize,
    /// Whether the last `drafts + 1` rows draw. False only for a prompt chunk that is not the last one.
    pub draws: bool,
    /// Drafts to make for the lane's next round after this one, at most `Limits::block`; 0 for none. Needs
    /// `draws` and a lane opened with `drafted`.
    pub hold: usize,
}

impl Window {
    /// Its rows.
    pub fn rows(&self) -> usize {
        self.tokens.len() + usize::from(self.pending == PendingSource::LastDraw)
    }
}

/// The tokens a row may draw, as bits: bit `t % 32` of word `t / 32` allows token `t`.
#[derive(Debug, Clone, Copy)]
pub struct RowMask<'a> {
    /// Index into `Round::windows`.
    pub window: usize,
    /// Which of the window's draws, from 0.
    pub draw: usize,
    /// `vocabulary.div_ceil(32)` words.
    pub allowed: &'a [u32],
}

/// All that one round computes. Lanes appear at most once.
#[derive(Debug, Clone, Copy)]
pub struct Round<'a> {
    /// Tokens of all windows.
    pub tokens: &'a [TokenId],
    /// The windows, in any order of lanes.
    pub windows: &'a [Window],
    /// Masks for draws that are constrained; a draw without one may take any token.
    pub masks: &'a [RowMask<'a>],
}

/// A draft made for the lane's next round.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct HeldDraft {
    /// The token.
    pub token: TokenId,
    /// Logit of the chance that it is accepted if all before it are; not a number without a confidence head.
    pub confidence: f32,
}

/// A token and its log-probability in a row: the log-softmax of the row's logits as they are before bias, mask,
/// penalties and temperature.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TokenLogprob {
    /// The token.
    pub token: TokenId,
    /// The natural logarithm of its probability.
    pub logprob: f32,
}

/// What one window got. Ranges point into [`RoundOut`].
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct WindowOut {
    /// Its draws, in row order: `drafts + 1` of them, none for a window that does not draw.
    pub drawn: Range<usize>,
    /// Drafts that the target accepted, as computed where the round ran; the scheduler computes the same from
    /// `drawn` and asserts that both agree.
    pub accepted: usize,
    /// Drafts made for the next round.
    pub held: Range<usize>,
    /// Log-probabilities, if its lane asks for them with `n` alternatives: for each draw itself and then the row's
    /// `n` likeliest tokens, in order, ties to the lower token.
    pub logprobs: Range<usize>,
}

/// A round's one read-back. Kept by the caller and reused, so that a steady round allocates nothing.
#[derive(Debug, Clone, Default)]
pub struct RoundOut {
    /// One entry a window, in the round's order.
    pub windows: Vec<WindowOut>,
    /// Draws of all windows.
    pub drawn: Vec<TokenId>,
    /// Held drafts of all windows.
    pub held: Vec<HeldDraft>,
    /// Log-probabilities of all windows.
    pub logprobs: Vec<TokenLogprob>,
    /// Distinct experts touched, summed over layers; 0 for dense models.
    pub distinct_experts: usize,
}

impl RoundOut {
    /// Empties it, keeping its memory.
    pub fn clear(&mut self) {
        self.windows.clear();
        self.drawn.clear();
        self.held.clear();
        self.logprobs.clear();
        self.distinct_experts = 0;
    }
}

/// Why a target refused or failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TargetError {
    /// The lane's memory cannot be reserved now; it may be later, when other lanes have closed.
    Full {
        /// Pages asked for.
        pages_needed: usize,
        /// Pages that are free.
        pages_free: usize,
    },
    /// The lane's memory can never be reserved on this target.
    TooLarge {
        /// Pages asked for.
        pages_needed: usize,
        /// Pages that exist.
        pages_total: usize,
    },
    /// The round failed and committed nothing; lanes are as before it.
    Failed(String),
}

impl std::fmt::Display for TargetError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            TargetError::Full { pages_needed, pages_free } => {
                write!(f, "{pages_needed} pages are needed and {pages_free} are free")
            }
            TargetError::TooLarge { pages_needed, pages_total } => {
                write!(f, "{pages_needed} pages are needed and {pages_total} exist")
            }
            TargetError::Failed(reason) => f.write_str(reason),
        }
    }
}

impl std::error::Error for TargetError {}

/// Computes rounds. Object-safe: above the engine there is one `Box<dyn Target>`, one virtual call a round.
///
/// # Contract
/// - A draw and its log-probabilities depend on the lane's own history, rule and position alone: never on the other windows, on how its
///   prompt was cut into chunks or resumed from a stored prefix, or on drafts made or rejected.
/// - After a round a lane's committed length is `position + rows - drafts + accepted`; rows past it have
///   vanished everywhere.
/// - An error leaves every lane as it was before the round, and a round queued behind it is void.
pub trait Target {
    /// What this target can hold and do.
    fn limits(&self) -> &Limits;

    /// Reserves memory for lane `lane`, which is closed; no round is queued. How many tokens of the prompt it holds already, from a
    /// stored prefix: a multiple of [`Limits::page`], less than the prompt; the lane's first row is the one after
    /// them.
    fn open(&mut self, lane: usize, open: &OpenLane<'_>) -> Result<usize, TargetError>;

    /// Queues a round. Every round is read before the next is queued, but for one kind
    /// ([`Limits::queues_ahead`]): behind a round with a single window, which draws, has no drafts, makes none and
    /// does not fill a page, that lane's next row may be queued as [`PendingSource::LastDraw`]. Both are read in order.
    fn queue(&mut self, round: &Round<'_>) -> Result<(), TargetError>;

    /// Waits for the first round that is queued; `out` is cleared and filled.
    fn read(&mut self, out: &mut RoundOut) -> Result<(), TargetError>;

    /// Runs one round.
    fn round(&mut self, round: &Round<'_>, out: &mut RoundOut) -> Result<(), TargetError> {
        self.queue(round)?;
        self.read(out)
    }

    /// Frees an open lane's memory; no round is queued.
    fn close(&mut self, lane: usize);

    /// Pages that open lanes hold, for tests and metrics; one that several share counts once. 0 when every lane is
    /// closed.
    fn pages_in_use(&self) -> usize;

    /// Pages there are: what open lanes may hold together.
    fn pages_total(&self) -> usize;
}

impl<T: Target + ?Sized> Target for Box<T> {
    fn limits(&self) -> &Limits {
        (**self).limits()
    }

    fn open(&mut self, lane: usize, open: &OpenLane<'_>) -> Result<usize, TargetError> {
        (**self).open(lane, open)
    }

    fn queue(&mut self, round: &Round<'_>) -> Result<(), TargetError> {
        (**self).queue(round)
    }

    fn read(&mut self, out: &mut RoundOut) -> Result<(), TargetError> {
        (**self).read(out)
    }

    fn close(&mut self, lane: usize) {
        (**self).close(lane);
    }

    fn pages_in_use(&self) -> usize {
        (**self).pages_in_use()
    }

    fn pages_total(&self) -> usize {
        (**self).pages_total()
    }
}
