//! What a draw depends on: the sampling rule of a row, with its seed and position.

use bytemuck::{Pod, Zeroable};

use crate::Device;

/// [`DrawRow::flags`]: the lane's counts apply (some penalty is on).
pub const FLAG_COUNTS: u32 = 1;
/// [`DrawRow::flags`]: the lane's logit bias applies.
pub const FLAG_LOGIT_BIAS: u32 = 2;
/// Top bit of an entry of [`DrawTables::counts`]: the token stands in the prompt. The other bits count the reply.
pub const PROMPT_SEEN: u32 = 1 << 31;

/// Everything a draw depends on besides the logits row (docs/scheduler.md section 2). Plain words, the same
/// bytes on every device.
///
/// Filters apply in this order, all in fp32: mask, logit bias, penalties (repetition, presence, frequency),
/// temperature (a division), top-k, top-p, min-p. Each sees what the one before it left; candidates are ordered
/// by value (descending), then by id (ascending). `temperature == 0` is greedy: the highest value after
/// penalties, ties to the lower id; the later filters are not read. Otherwise the draw is the argmax of the
/// kept, scaled logits plus `-ln(-ln u)`, ties to the lower id.
///
/// `u = ((h >> 9) + 1/2) / 2^23`, `h` the first word of Philox4x32-10 with key `(seed_low, seed_high)` and
/// counter `(position, token id, choice, 0)`. Upper 23 bits, because with them every step is exact in fp32 and
/// `u` is never 0 or 1: `(h + 1/2) / 2^32` would round to 1 for large `h`, and its noise to infinity.
///
/// A mask allows at least one token. The readable definition is `draw_token` of the `reference` crate, and the
/// vectors beside it are what every device must reproduce.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Pod, Zeroable)]
pub struct DrawRow {
    /// Low word of the seed.
    pub seed_low: u32,
    /// High word of the seed.
    pub seed_high: u32,
    /// Which of a request's `n` choices this is.
    pub choice: u32,
    /// Absolute position of the token being drawn.
    pub position: u32,
    /// 0 for greedy, else the divisor of the logits.
    pub temperature: f32,
    /// Candidates kept, 0 for all.
    pub top_k: u32,
    /// Keep the shortest prefix of the ordered candidates whose probabilities (a softmax over what top-k left)
    /// sum to at least this; 1 for all.
    pub top_p: f32,
    /// Keep candidates with at least this share of the best one's probability; 0 for all.
    pub min_p: f32,
    /// Divides positive and multiplies negative logits of tokens seen in prompt or reply; 1 for none.
    pub repetition_penalty: f32,
    /// Subtracted from the logits of tokens seen in the reply; 0 for none.
    pub presence_penalty: f32,
    /// Subtracted once an occurrence in the reply; 0 for none.
    pub frequency_penalty: f32,
    /// The lane whose tables apply; [`NO_LANE`](crate::NO_LANE) for a pad row, which draws -1.
    pub lane: i32,
    /// [`FLAG_COUNTS`] and [`FLAG_LOGIT_BIAS`].
    pub flags: u32,
    /// Row of [`DrawTables::masks`], -1 for none.
    pub mask: i32,
    /// First of the rows (of the forward that is drawn from) holding the drafts before this row; they count as
    /// seen in the reply.
    pub first_draft_row: i32,
    /// How many of those there are.
    pub draft_rows: i32,
}

impl Default for DrawRow {
    /// A greedy row without penalties, of no lane.
    fn default() -> Self {
        DrawRow {
            seed_low: 0,
            seed_high: 0,
            choice: 0,
            position: 0,
            temperature: 0.0,
            top_k: 0,
            top_p: 1.0,
            min_p: 0.0,
            repetition_penalty: 1.0,
            presence_penalty: 0.0,
            frequency_penalty: 0.0,
            lane: crate::NO_LANE,
            flags: 0,
            mask: -1,
            first_draft_row: 0,
            draft_rows: 0,
        }
    }
}

const _: () = assert!(size_of::<DrawRow>() == 64);

/// Per-lane tables that draws read.
pub struct DrawTables<D: Device> {
    /// Vocabulary size `V`.
    pub vocabulary: usize,
    /// `[lanes, V]`: see [`PROMPT_SEEN`]. Read under [`FLAG_COUNTS`].
    pub counts: D::Buffer<u32>,
    /// `[lanes, V]`: added to the logits under [`FLAG_LOGIT_BIAS`].
    pub logit_bias: D::Buffer<f32>,
    /// `[mask rows, V.div_ceil(32)]`: bit `t % 32` of word `t / 32` allows token `t`.
    pub masks: D::Buffer<u32>,
}
