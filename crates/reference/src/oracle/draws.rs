//! What a draw is: the filters in their order, and the keyed noise.

use forerunner_tensor::{DrawRow, DrawTables, FLAG_COUNTS, FLAG_LOGIT_BIAS, NO_LANE, PROMPT_SEEN, Rows};

use super::OracleDevice;

/// The tables of one row's lane, as [`draw_token`] reads them.
#[derive(Debug, Clone, Copy)]
pub struct RowTables<'a> {
    /// Counts of the lane's tokens; read under [`FLAG_COUNTS`].
    pub counts: &'a [u32],
    /// The lane's logit bias; read under [`FLAG_LOGIT_BIAS`].
    pub logit_bias: &'a [f32],
    /// The row's mask, when it has one: bit `t % 32` of word `t / 32` allows token `t`.
    pub mask: Option<&'a [u32]>,
    /// The drafts before the row; they count as seen in the reply under [`FLAG_COUNTS`].
    pub drafts: &'a [i32],
}

/// Draws every row by its rule.
pub(super) fn draw(
    logits: &[f32],
    rules: &[DrawRow],
    rows: &Rows<OracleDevice>,
    tables: &DrawTables<OracleDevice>,
    count: usize,
    drawn: &mut [i32],
) {
    for row in 0..count {
        let rule = &rules[row];
        let drafts = &rows.token[rule.first_draft_row as usize..][..rule.draft_rows as usize];
        let logits = &logits[row * tables.vocabulary..(row + 1) * tables.vocabulary];
        drawn[row] = draw_row(logits, rule, tables, drafts);
    }
}

/// The token of one row, -1 for a pad row.
pub(super) fn draw_row(
    logits: &[f32],
    rule: &DrawRow,
    tables: &DrawTables<OracleDevice>,
    drafts: &[i32],
) -> i32 {
    if rule.lane == NO_LANE {
        return -1;
    }
    let vocabulary = tables.vocabulary;
    let lane = rule.lane as usize * vocabulary..(rule.lane as usize + 1) * vocabulary;
    let words = vocabulary.div_ceil(32);
    let mask = usize::try_from(rule.mask).ok().map(|mask| &tables.masks[mask * words..(mask + 1) * words]);
    // Tables may be empty where no rule reads them.
    let counts = if rule.flags & FLAG_COUNTS != 0 { &tables.counts[lane.clone()] } else { &[] };
    let logit_bias = if rule.flags & FLAG_LOGIT_BIAS != 0 { &tables.logit_bias[lane] } else { &[] };
    draw_token(logits, rule, RowTables { counts, logit_bias, mask, drafts }) as i32
}

/// The readable definition of a draw ([`DrawRow`]): mask, logit bias, penalties, temperature, top-k, top-p,
/// min-p, then the highest value (greedy) or the highest value with noise.
///
/// Everything is fp32. Candidates are ordered by value (descending), then by id (ascending); each filter
/// sees what the one before it left. Sums of top-p run in that order.
///
/// # Panics
/// If the mask allows no token.
pub fn draw_token(logits: &[f32], rule: &DrawRow, tables: RowTables<'_>) -> usize {
    let mut candidates = candidates(logits, rule, tables);
    if rule.temperature != 0.0 {
        for (_, value) in &mut candidates {
            *value /= rule.temperature;
        }
        candidates.sort_by(|left, right| right.1.total_cmp(&left.1).then(left.0.cmp(&right.0)));
        keep_top_k(&mut candidates, rule.top_k);
        keep_top_p(&mut candidates, rule.top_p);
        keep_min_p(&mut candidates, rule.min_p);
        for (token, value) in &mut candidates {
            *value += gumbel(uniform(draw_word(rule, *token)));
        }
    }
    best(&candidates)
}

/// Allowed tokens with their values after bias and penalties, by ascending id.
fn candidates(logits: &[f32], rule: &DrawRow, tables: RowTables<'_>) -> Vec<(usize, f32)> {
    let allowed = |token: usize| tables.mask.is_none_or(|mask| mask[token / 32] >> (token % 32) & 1 == 1);
    let mut candidates = Vec::with_capacity(logits.len());
    for (token, logit) in logits.iter().enumerate().filter(|(token, _)| allowed(*token)) {
        let mut value = *logit;
        if rule.flags & FLAG_LOGIT_BIAS != 0 {
            value += tables.logit_bias[token];
        }
        if rule.flags & FLAG_COUNTS != 0 {
            let drafted = tables.drafts.iter().filter(|draft| **draft == token as i32).count();
            let in_reply = (tables.counts[token] & !PROMPT_SEEN) + drafted as u32;
            let in_prompt = tables.counts[token] & PROMPT_SEEN != 0;
            value = penalize(value, rule, in_prompt, in_reply);
        }
        candidates.push((token, value));
    }
    candidates
}

/// Repetition first, for tokens of the prompt or the reply; then presence and frequency, for the reply's
/// alone.
fn penalize(mut value: f32, rule: &DrawRow, in_prompt: bool, in_reply: u32) -> f32 {
    if in_prompt || in_reply > 0 {
        value = if value > 0.0 { value / rule.repetition_penalty } else { value * rule.repetition_penalty };
    }
    if in_reply > 0 {
        value -= rule.presence_penalty;
        value -= rule.frequency_penalty * in_reply as f32;
    }
    value
}

/// The first `top_k`; all for 0.
fn keep_top_k(candidates: &mut Vec<(usize, f32)>, top_k: u32) {
    if top_k > 0 {
        candidates.truncate(top_k as usize);
    }
}

/// The shortest prefix that holds `top_p` of the softmax over the candidates; all for 1 or more, at least
/// one.
fn keep_top_p(candidates: &mut Vec<(usize, f32)>, top_p: f32) {
    if top_p >= 1.0 {
        return;
    }
    let highest = candidates[0].1;
    let weight = |value: f32| (value - highest).exp();
    let mut total = 0.0;
    for (_, value) in candidates.iter() {
        total += weight(*value);
    }
    let mut kept = 0;
    let mut sum = 0.0;
    for (_, value) in candidates.iter() {
        kept += 1;
        sum += weight(*value);
        if sum >= top_p * total {
            break;
        }
    }
    candidates.truncate(kept);
}

/// Those with at least `min_p` of the best one's probability.
fn keep_min_p(candidates: &mut Vec<(usize, f32)>, min_p: f32) {
    let highest = candidates[0].1;
    candidates.retain(|(_, value)| (value - highest).exp() >= min_p);
}

/// The token of the highest value, the lowest id among equals.
fn best(candidates: &[(usize, f32)]) -> usize {
    let mut best = candidates.first().expect("a mask allows at least one token");
    for candidate in candidates {
        if candidate.1 > best.1 || candidate.1 == best.1 && candidate.0 < best.0 {
            best = candidate;
        }
    }
    best.0
}

/// The random word of one token in one draw.
fn draw_word(rule: &DrawRow, token: usize) -> u32 {
    let counter = [rule.position, token as u32, rule.choice, 0];
    philox4x32_10([rule.seed_low, rule.seed_high], counter)[0]
}

/// A number in (0, 1) from the upper 23 bits of a random word: `(word >> 9) + 1/2` times `2^-23`.
///
/// Every step is exact in fp32 and the result is never 0 or 1, so neither logarithm of [`gumbel`] is
/// infinite.
pub fn uniform(word: u32) -> f32 {
    ((word >> 9) as f32 + 0.5) * (1.0 / 8_388_608.0)
}

/// Noise whose argmax over `value + noise` draws from the softmax of the values.
pub fn gumbel(uniform: f32) -> f32 {
    -(-uniform.ln()).ln()
}

/// Ten rounds of Philox on four 32-bit words: a random function of key and counter, without state.
pub fn philox4x32_10(key: [u32; 2], counter: [u32; 4]) -> [u32; 4] {
    const MULTIPLIERS: [u32; 2] = [0xD251_1F53, 0xCD9E_8D57];
    // The golden ratio and the square root of 3 less 1, as 32-bit fractions.
    const KEY_STEPS: [u32; 2] = [0x9E37_79B9, 0xBB67_AE85];
    let mut key = key;
    let [mut a, mut b, mut c, mut d] = counter;
    for _ in 0..10 {
        let first = u64::from(MULTIPLIERS[0]) * u64::from(a);
        let second = u64::from(MULTIPLIERS[1]) * u64::from(c);
        (a, b, c, d) = (
            (second >> 32) as u32 ^ b ^ key[0],
            second as u32,
            (first >> 32) as u32 ^ d ^ key[1],
            first as u32,
        );
        key = [key[0].wrapping_add(KEY_STEPS[0]), key[1].wrapping_add(KEY_STEPS[1])];
    }
    [a, b, c, d]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uniform_stays_inside_and_is_exact() {
        for word in [0, 511, 512, 1 << 31, u32::MAX] {
            let u = uniform(word);
            assert!(u > 0.0 && u < 1.0, "{word}: {u}");
            assert_eq!(f64::from(u), (f64::from(word >> 9) + 0.5) / 8_388_608.0);
            assert!(gumbel(u).is_finite());
        }
    }
}
