//! The cases behind the committed vectors, each with a margin that a device's logarithms cannot cross.

use forerunner_tensor::{FLAG_COUNTS, FLAG_LOGIT_BIAS, PROMPT_SEEN};

use super::vectors::{DrawVector, FORMULA, PhiloxVector, Vectors};
use crate::oracle::{RowTables, draw_token};
use crate::suites::inputs::Random;

/// Times a case is disturbed before it counts as having a margin.
const DISTURBANCES: u64 = 12;
/// How far logits are disturbed; a device's fp32 is off by about a hundredth of this.
const DISTURBANCE: f32 = 1e-4;

/// Vectors that show one thing.
pub(super) struct Group {
    pub(super) name: &'static str,
    count: usize,
    shape: fn(&mut DrawVector, usize),
}

/// All groups of draws.
pub(super) const GROUPS: [Group; 11] = [
    Group { name: "greedy", count: 6, shape: greedy },
    Group { name: "temperature", count: 10, shape: temperature },
    Group { name: "top-k", count: 10, shape: top_k },
    Group { name: "top-p", count: 10, shape: top_p },
    Group { name: "min-p", count: 9, shape: min_p },
    Group { name: "penalties", count: 15, shape: penalties },
    Group { name: "drafts before", count: 9, shape: drafts_before },
    Group { name: "logit bias", count: 6, shape: logit_bias },
    Group { name: "mask", count: 8, shape: mask },
    Group { name: "keys", count: 24, shape: keys },
    Group { name: "all together", count: 12, shape: all_together },
];

/// Makes the file: known answers, and the draws of [`draw_token`].
pub fn generate() -> Vectors {
    let mut draws = Vec::new();
    for (number, group) in GROUPS.iter().enumerate() {
        draws.extend((0..group.count).map(|index| settled(group, number, index)));
    }
    Vectors { formula: FORMULA.into(), philox: known_answers(), draws }
}

/// The three answers for Philox4x32-10 that were published with the Random123 library.
fn known_answers() -> Vec<PhiloxVector> {
    vec![
        PhiloxVector {
            key: [0; 2],
            counter: [0; 4],
            words: [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8],
        },
        PhiloxVector {
            key: [u32::MAX; 2],
            counter: [u32::MAX; 4],
            words: [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd],
        },
        PhiloxVector {
            key: [0xa409_3822, 0x299f_31d0],
            counter: [0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344],
            words: [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1],
        },
    ]
}

/// The group's case at `index`, with the first logits that leave a margin.
fn settled(group: &Group, number: usize, index: usize) -> DrawVector {
    for set in 0.. {
        let mut random = Random::new(&[50, number as u64, index as u64]);
        let mut vector = DrawVector {
            group: group.name.into(),
            vocabulary: [97, 1000, 8192][index % 3],
            set: (number * 1000 + index * 20) as u32 + set,
            seed: random.word() >> (index * 7 % 60),
            choice: 0,
            position: random.below(100_000) as u32,
            top_p: 1.0,
            repetition_penalty: 1.0,
            ..empty()
        };
        (group.shape)(&mut vector, index);
        vector.token = draw(&vector, &vector.logits()) as i32;
        if (0..DISTURBANCES).all(|time| disturbed(&vector, time) as i32 == vector.token) {
            return vector;
        }
    }
    unreachable!("some logits leave a margin")
}

fn empty() -> DrawVector {
    DrawVector {
        group: String::new(),
        vocabulary: 0,
        set: 0,
        whole: false,
        seed: 0,
        choice: 0,
        position: 0,
        temperature: 0.0,
        top_k: 0,
        top_p: 0.0,
        min_p: 0.0,
        repetition_penalty: 0.0,
        presence_penalty: 0.0,
        frequency_penalty: 0.0,
        prompt: Vec::new(),
        reply: Vec::new(),
        drafts: Vec::new(),
        bias: Vec::new(),
        allowed: Vec::new(),
        token: -1,
    }
}

/// The draw with everything moved a little: logits (equal ones stay equal), noise by way of the
/// temperature, and the filters' thresholds.
fn disturbed(vector: &DrawVector, time: u64) -> usize {
    let mut random = Random::new(&[51, time]);
    let mut moved = vector.clone();
    moved.temperature *= 1.0 + DISTURBANCE * random.float();
    if moved.top_p < 1.0 {
        moved.top_p += DISTURBANCE * random.float();
    }
    moved.min_p *= 1.0 + 10.0 * DISTURBANCE * random.float();
    let mut logits = vector.logits();
    if !vector.whole {
        for logit in &mut logits {
            *logit += DISTURBANCE * random.float();
        }
    }
    draw(&moved, &logits)
}

/// The definition's draw.
fn draw(vector: &DrawVector, logits: &[f32]) -> usize {
    let mut counts = vec![0u32; vector.vocabulary];
    let mut logit_bias = vec![0f32; vector.vocabulary];
    let mut mask = vec![0u32; vector.vocabulary.div_ceil(32)];
    vector.reply.iter().for_each(|token| counts[*token] += 1);
    vector.prompt.iter().for_each(|token| counts[*token] |= PROMPT_SEEN);
    vector.bias.iter().for_each(|(token, value)| logit_bias[*token] += value);
    vector.allowed.iter().for_each(|token| mask[token / 32] |= 1 << (token % 32));
    let mut rule = vector.plain_rule();
    rule.flags = FLAG_COUNTS | FLAG_LOGIT_BIAS;
    let mask = (!vector.allowed.is_empty()).then_some(mask.as_slice());
    let tables = RowTables { counts: &counts, logit_bias: &logit_bias, mask, drafts: &vector.drafts };
    draw_token(logits, &rule, tables)
}

/// Tokens by descending logit.
fn ranked(vector: &DrawVector) -> Vec<usize> {
    let logits = vector.logits();
    let mut tokens: Vec<usize> = (0..vector.vocabulary).collect();
    tokens.sort_by(|left, right| logits[*right].total_cmp(&logits[*left]));
    tokens
}

fn greedy(vector: &mut DrawVector, index: usize) {
    vector.whole = index >= 3;
}

fn temperature(vector: &mut DrawVector, index: usize) {
    vector.temperature = [0.2, 0.7, 1.0, 1.5, 4.0][index % 5];
    vector.whole = index >= 8;
}

fn top_k(vector: &mut DrawVector, index: usize) {
    vector.temperature = [1.0, 3.0, 8.0][index / 3 % 3];
    vector.top_k = [1, 2, 3, 5, 40][index % 5];
    // Whole logits: more candidates are equal than are kept.
    vector.whole = index >= 6;
}

fn top_p(vector: &mut DrawVector, index: usize) {
    vector.temperature = [2.0, 0.5, 5.0][index / 3 % 3];
    vector.top_p = [0.05, 0.3, 0.5, 0.9, 0.99][index % 5];
}

fn min_p(vector: &mut DrawVector, index: usize) {
    vector.temperature = [4.0, 1.0, 10.0][index / 3 % 3];
    vector.min_p = [0.9, 0.5, 0.1, 0.02][index % 4];
}

/// The likeliest tokens stand in the prompt, in the reply, or in both; one penalty, or all.
fn penalties(vector: &mut DrawVector, index: usize) {
    let ranked = ranked(vector);
    vector.temperature = if index < 9 { 0.0 } else { 0.5 };
    vector.prompt = vec![ranked[0], ranked[2], ranked[3]];
    vector.reply = vec![ranked[1], ranked[3], ranked[4], ranked[4], ranked[4]];
    match index % 5 {
        0 => vector.repetition_penalty = 1.3,
        // The prompt's tokens are not penalized by these two.
        1 => vector.presence_penalty = 3.0,
        2 => {
            vector.frequency_penalty = 0.7;
            vector.reply = vec![ranked[0], ranked[1], ranked[1], ranked[2], ranked[2], ranked[2]];
        }
        3 => {
            // Negative logits are multiplied.
            vector.allowed = ranked[vector.vocabulary * 3 / 4..].to_vec();
            vector.prompt = vec![vector.allowed[0], vector.allowed[1]];
            vector.repetition_penalty = 1.5;
        }
        _ => {
            vector.repetition_penalty = 1.1;
            vector.presence_penalty = 0.4;
            vector.frequency_penalty = 0.3;
        }
    }
}

/// Drafts count as the reply's: alone, twice, and beside tokens that stand in the reply already.
fn drafts_before(vector: &mut DrawVector, index: usize) {
    let ranked = ranked(vector);
    vector.temperature = if index < 5 { 0.0 } else { 0.7 };
    vector.drafts = vec![ranked[0] as i32];
    vector.presence_penalty = 2.0;
    if index % 3 == 1 {
        vector.drafts = vec![ranked[0] as i32, ranked[1] as i32, ranked[0] as i32];
        vector.frequency_penalty = 1.0;
    } else if index % 3 == 2 {
        vector.drafts = vec![ranked[5] as i32, ranked[0] as i32];
        vector.reply = vec![ranked[0], ranked[1]];
        vector.repetition_penalty = 1.2;
        vector.presence_penalty = 0.0;
        vector.frequency_penalty = 1.0;
    }
}

fn logit_bias(vector: &mut DrawVector, index: usize) {
    let ranked = ranked(vector);
    vector.temperature = if index < 3 { 0.0 } else { 0.8 };
    vector.bias = vec![(ranked[0], -100.0), (ranked[1], -4.0), (ranked[7], 1.5), (ranked[30], 5.25)];
    if index % 3 == 2 {
        // Penalties see the biased value: it is negative, so repetition multiplies.
        vector.bias = ranked.iter().map(|token| (*token, -16.0)).take(40).collect();
        vector.allowed = ranked[..40].to_vec();
        vector.prompt = vec![ranked[0], ranked[1]];
        vector.repetition_penalty = 1.2;
    }
}

fn mask(vector: &mut DrawVector, index: usize) {
    let ranked = ranked(vector);
    vector.temperature = if index < 4 { 0.0 } else { 1.0 };
    vector.allowed = match index % 4 {
        0 => vec![ranked[40]],
        1 => ranked[1..6].to_vec(),
        2 => vec![0, vector.vocabulary - 1],
        _ => (0..vector.vocabulary).step_by(7).collect(),
    };
    if index == 5 {
        // Kept are the two best of the allowed tokens.
        vector.top_k = 2;
    }
}

/// Seeds beyond 32 bits, choices and positions, over logits that leave the choice to the noise.
fn keys(vector: &mut DrawVector, index: usize) {
    vector.vocabulary = 97;
    vector.temperature = 20.0;
    let seeds = [1, 1 << 32, (1 << 32) | 1, u64::MAX, 0, 0xDEAD_BEEF_0BAD_CAFE];
    vector.seed = seeds[index % 6];
    vector.choice = [0, 0, 1, 5][index / 6];
    vector.position = [0, 131_071, 0, u32::MAX][index / 6];
}

fn all_together(vector: &mut DrawVector, index: usize) {
    let ranked = ranked(vector);
    vector.temperature = [0.6, 1.3, 2.5][index % 3];
    vector.top_k = [8, 20, 50][index / 3 % 3];
    vector.top_p = 0.9;
    vector.min_p = 0.05;
    vector.repetition_penalty = 1.15;
    vector.presence_penalty = 0.5;
    vector.frequency_penalty = 0.25;
    vector.choice = index as u32 % 2;
    vector.prompt = ranked[..4].to_vec();
    vector.reply = vec![ranked[2], ranked[2], ranked[5], ranked[9]];
    vector.drafts = vec![ranked[1] as i32, ranked[6] as i32];
    vector.bias = vec![(ranked[0], -1.0), (ranked[12], 1.0)];
    vector.allowed = ranked.iter().copied().filter(|token| token % 5 != 0).collect();
    vector.allowed.truncate(60);
}
