//! Draws: penalties, temperature and filters on one row of logits, then the highest value with its keyed noise.

use std::cell::RefCell;

use forerunner_tensor::{DrawRow, DrawTables, FLAG_COUNTS, FLAG_LOGIT_BIAS, NO_LANE, PROMPT_SEEN, Rows};

use crate::CpuDevice;
use crate::arithmetic::{Arithmetic, kernels};
use crate::filter::{Candidate, filter};
use crate::grid::{Grid, over_rows};
use crate::linear::with_sums;
use crate::math::{LANES, add_lanes, exp, higher, highest, highest_lane, padded};
use crate::noise;
use crate::norm::rows_a_chunk;
use crate::pool::Pool;

/// Draws every row by its rule.
pub(crate) fn draw<A: Arithmetic>(
    pool: &Pool,
    logits: &[f32],
    rules: &[DrawRow],
    rows: &Rows<CpuDevice>,
    tables: &DrawTables<CpuDevice>,
    count: usize,
    drawn: &mut [i32],
) {
    let vocabulary = tables.vocabulary;
    // A greedy row is one pass; noise is ten times as slow.
    let chunk = rows_a_chunk(pool, count, 0.1 * vocabulary as f32);
    over_rows(pool, &mut Grid::new(drawn, 1), count, chunk, |row, drawn| {
        let rule = &rules[row];
        let drafts = &rows.token[rule.first_draft_row as usize..][..rule.draft_rows as usize];
        drawn[0] = draw_row::<A>(&logits[row * vocabulary..(row + 1) * vocabulary], rule, tables, drafts);
    });
}

/// The token of one row, -1 for a pad row. `drafts` count as seen in the reply.
pub(crate) fn draw_row<A: Arithmetic>(
    logits: &[f32],
    rule: &DrawRow,
    tables: &DrawTables<CpuDevice>,
    drafts: &[i32],
) -> i32 {
    if rule.lane == NO_LANE {
        return -1;
    }
    let changes = Changes::new(rule, tables, drafts);
    if rule.temperature == 0.0 && changes.none() {
        return best::<A>(logits);
    }
    with_sums(logits.len(), |values| {
        apply::<A>(&changes, logits, rule, values);
        let highest = highest_value::<A>(values);
        if highest == f32::NEG_INFINITY {
            changes.first_allowed(logits.len())
        } else if rule.temperature == 0.0 {
            best::<A>(values)
        } else {
            sample::<A>(values, highest, rule)
        }
    })
}

thread_local! {
    static CANDIDATES: RefCell<Vec<Candidate>> = const { RefCell::new(Vec::new()) };
}

/// The highest of the kept values with their noise. Values of negative infinity are out.
fn sample<A: Arithmetic>(values: &[f32], highest: f32, rule: &DrawRow) -> i32 {
    if rule.top_k == 0 && rule.top_p >= 1.0 {
        return best_with_noise::<A>(values, highest, rule);
    }
    CANDIDATES.with_borrow_mut(|candidates| {
        filter::<A>(values, highest, rule, candidates);
        best_candidate::<A>(candidates, highest, rule)
    })
}

kernels! {
    fn highest_value<A>(values: &[f32]) -> f32 {
        highest(values)
    }

    /// The token of the highest value, the lowest id among equals.
    pub(crate) fn best<A>(values: &[f32]) -> i32 {
        let mut lanes = Lanes::new();
        let (blocks, rest) = values.as_chunks::<LANES>();
        for (index, block) in blocks.iter().enumerate() {
            lanes.offer(block, (index * LANES) as u32);
        }
        lanes.offer(&padded(rest, f32::NEG_INFINITY), (blocks.len() * LANES) as u32);
        lanes.best()
    }

    /// The token of the highest value plus noise among those with at least `min_p` of the best one's
    /// probability.
    ///
    /// Noise is made only where it could win: it is bounded, and all but a few values are far below the best.
    fn best_with_noise<A>(values: &[f32], highest: f32, rule: &DrawRow) -> i32 {
        let mut lanes = Lanes::new();
        let mut hopeless = highest + noise::LOWEST - noise::HIGHEST;
        let (blocks, rest) = values.as_chunks::<LANES>();
        let last = padded(rest, f32::NEG_INFINITY);
        for (index, block) in blocks.iter().chain(std::iter::once(&last)).enumerate() {
            if highest_lane(block) >= hopeless {
                let first = (index * LANES) as u32;
                let mut noisy = noise::gumbel(rule, first);
                add_lanes(&mut noisy, block);
                if rule.min_p > 0.0 {
                    for lane in 0..LANES {
                        let kept = keeps(block[lane], highest, rule.min_p);
                        noisy[lane] = if kept { noisy[lane] } else { f32::NEG_INFINITY };
                    }
                }
                lanes.offer(&noisy, first);
                hopeless = higher(highest_lane(&noisy) - noise::HIGHEST, hopeless);
            }
        }
        lanes.best()
    }

    /// As [`best_with_noise`], over a list.
    fn best_candidate<A>(candidates: &[Candidate], highest: f32, rule: &DrawRow) -> i32 {
        let mut best = (0, f32::NEG_INFINITY);
        for candidate in candidates {
            let (value, token) = (candidate.value, candidate.token as i32);
            let hopeless = value + noise::HIGHEST < best.1;
            if hopeless || !keeps(value, highest, rule.min_p) {
                continue;
            }
            let noisy = value + noise::gumbel(rule, candidate.token)[0];
            if noisy > best.1 || noisy == best.1 && token < best.0 {
                best = (token, noisy);
            }
        }
        best.0
    }

    /// Writes the values that filters see; those that the mask forbids become negative infinity.
    fn apply<A>(changes: &Changes<'_>, logits: &[f32], rule: &DrawRow, values: &mut [f32]) -> () {
        values.copy_from_slice(logits);
        if let Some(bias) = changes.logit_bias {
            for (value, bias) in values.iter_mut().zip(bias) {
                *value += bias;
            }
        }
        if let Some(counts) = changes.counts {
            for (value, count) in values.iter_mut().zip(counts) {
                *value = penalized(*value, rule, *count);
            }
            changes.penalize_drafts(logits, rule, counts, values);
        }
        if rule.temperature != 0.0 {
            for value in values.iter_mut() {
                *value /= rule.temperature;
            }
        }
        if let Some(mask) = changes.mask {
            for (values, word) in values.chunks_mut(32).zip(mask) {
                for (bit, value) in values.iter_mut().enumerate() {
                    *value = if word >> bit & 1 == 1 { *value } else { f32::NEG_INFINITY };
                }
            }
        }
    }
}

/// Whether a value passes min-p.
#[inline(always)]
pub(crate) fn keeps(value: f32, highest: f32, min_p: f32) -> bool {
    min_p <= 0.0 || exp(value - highest) >= min_p
}

/// The best value and its token in each of 16 lanes.
struct Lanes {
    values: [f32; LANES],
    tokens: [u32; LANES],
}

impl Lanes {
    #[inline(always)]
    fn new() -> Self {
        Lanes { values: [f32::NEG_INFINITY; LANES], tokens: std::array::from_fn(|lane| lane as u32) }
    }

    #[inline(always)]
    fn offer(&mut self, block: &[f32; LANES], first: u32) {
        let best = self.values.iter_mut().zip(&mut self.tokens);
        for (lane, (value, (best, token))) in block.iter().zip(best).enumerate() {
            let better = *value > *best;
            *best = if better { *value } else { *best };
            *token = if better { first + lane as u32 } else { *token };
        }
    }

    #[inline(always)]
    fn best(&self) -> i32 {
        let mut best = (self.tokens[0] as i32, self.values[0]);
        for lane in 1..LANES {
            let (token, value) = (self.tokens[lane] as i32, self.values[lane]);
            if value > best.1 || value == best.1 && token < best.0 {
                best = (token, value);
            }
        }
        best.0
    }
}

/// The counts of a rule's lane; none where it reads none.
pub(crate) fn counts_of<'a>(rule: &DrawRow, tables: &'a DrawTables<CpuDevice>) -> &'a [u32] {
    let read = if rule.flags & FLAG_COUNTS != 0 { tables.vocabulary } else { 0 };
    &tables.counts[rule.lane as usize * read..][..read]
}

/// What happens to a row's logits before filters.
struct Changes<'a> {
    mask: Option<&'a [u32]>,
    logit_bias: Option<&'a [f32]>,
    counts: Option<&'a [u32]>,
    drafts: &'a [i32],
}

impl<'a> Changes<'a> {
    fn new(rule: &DrawRow, tables: &'a DrawTables<CpuDevice>, drafts: &'a [i32]) -> Self {
        let vocabulary = tables.vocabulary;
        let lane = rule.lane as usize * vocabulary..(rule.lane as usize + 1) * vocabulary;
        let words = vocabulary.div_ceil(32);
        let mask =
            usize::try_from(rule.mask).ok().map(|mask| &tables.masks[mask * words..(mask + 1) * words]);
        let logit_bias = (rule.flags & FLAG_LOGIT_BIAS != 0).then(|| &tables.logit_bias[lane]);
        let counts = (rule.flags & FLAG_COUNTS != 0).then(|| counts_of(rule, tables));
        Changes { mask, logit_bias, counts, drafts }
    }

    fn none(&self) -> bool {
        self.mask.is_none() && self.logit_bias.is_none() && self.counts.is_none()
    }

    /// Values of tokens among the drafts, which count once more an occurrence.
    fn penalize_drafts(&self, logits: &[f32], rule: &DrawRow, counts: &[u32], values: &mut [f32]) {
        for (index, &token) in self.drafts.iter().enumerate() {
            let Ok(token) = usize::try_from(token) else { continue };
            let again = self.drafts[..index].contains(&(token as i32));
            if again || token >= logits.len() {
                continue;
            }
            let drafted = self.drafts.iter().filter(|&&draft| draft as usize == token).count();
            let value = logits[token] + self.logit_bias.map_or(0.0, |bias| bias[token]);
            values[token] = penalized(value, rule, counts[token] + drafted as u32);
        }
    }

    /// The lowest token that may be drawn when no value is finite.
    fn first_allowed(&self, vocabulary: usize) -> i32 {
        let allowed = |token: &usize| self.mask.is_none_or(|mask| mask[token / 32] >> (token % 32) & 1 == 1);
        (0..vocabulary).find(allowed).expect("a mask allows at least one token") as i32
    }
}

/// Repetition first, for tokens of the prompt or the reply; then presence and frequency, for the reply's alone.
#[inline(always)]
pub(crate) fn penalized(value: f32, rule: &DrawRow, count: u32) -> f32 {
    let penalty = rule.repetition_penalty;
    let repeated = if value > 0.0 { value / penalty } else { value * penalty };
    let value = if count != 0 { repeated } else { value };
    let in_reply = count & !PROMPT_SEEN;
    let lower = value - rule.presence_penalty - rule.frequency_penalty * in_reply as f32;
    if in_reply > 0 { lower } else { value }
}
