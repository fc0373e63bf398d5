//! Log-probabilities of draws and of each row's likeliest tokens.

use forerunner_tensor::ALTERNATIVES;

use crate::arithmetic::{Arithmetic, kernels};
use crate::filter::total_weight;
use crate::grid::{Grid, over_rows_of_two};
use crate::math::{LANES, highest, highest_lane, ln, padded};
use crate::norm::rows_a_chunk;
use crate::pool::Pool;

/// Nanoseconds that a value of a row takes.
const COST: f32 = 0.5;

/// Writes the draw of each row that `index` names and the row's alternatives, with their log-probabilities.
pub(crate) fn log_probabilities<A: Arithmetic>(
    pool: &Pool,
    logits: &[f32],
    vocabulary: usize,
    drawn: &[i32],
    index: &[i32],
    tokens: &mut [i32],
    values: &mut [f32],
) {
    let width = 1 + ALTERNATIVES;
    let (mut tokens, mut values) = (Grid::new(tokens, width), Grid::new(values, width));
    let chunk = rows_a_chunk(pool, index.len(), COST * vocabulary as f32);
    over_rows_of_two(pool, &mut tokens, &mut values, index.len(), chunk, |entry, tokens, values| {
        let Ok(row) = usize::try_from(index[entry]) else { return };
        let logits = &logits[row * vocabulary..(row + 1) * vocabulary];
        let normalizer = normalizer::<A>(logits);
        let alternatives = alternatives::<A>(logits);
        tokens[0] = drawn[row];
        tokens[1..].copy_from_slice(&alternatives.tokens);
        for (value, token) in values.iter_mut().zip(tokens) {
            let logit = usize::try_from(*token).map_or(f32::NEG_INFINITY, |token| logits[token]);
            *value = (logit - normalizer.highest) - normalizer.ln_sum;
        }
    });
}

/// What turns a row's values into log-probabilities.
struct Normalizer {
    highest: f32,
    ln_sum: f32,
}

/// The highest values of a row in order, ties to the lower token; -1 where there are none.
struct Alternatives {
    values: [f32; ALTERNATIVES],
    tokens: [i32; ALTERNATIVES],
}

impl Alternatives {
    /// The least value that is listed, negative infinity while there is room.
    #[inline(always)]
    fn least(&self) -> f32 {
        self.values[ALTERNATIVES - 1]
    }

    /// Lists a value that is higher than the least, or finds room; behind its equals, whose tokens are lower.
    fn insert(&mut self, value: f32, token: i32) {
        let mut place = ALTERNATIVES - 1;
        while place > 0 && (self.tokens[place - 1] < 0 || self.values[place - 1] < value) {
            self.values[place] = self.values[place - 1];
            self.tokens[place] = self.tokens[place - 1];
            place -= 1;
        }
        self.values[place] = value;
        self.tokens[place] = token;
    }
}

kernels! {
    fn normalizer<A>(logits: &[f32]) -> Normalizer {
        let highest = highest(logits);
        Normalizer { highest, ln_sum: ln(total_weight::<A>(logits, highest)) }
    }

    fn alternatives<A>(logits: &[f32]) -> Alternatives {
        let mut found =
            Alternatives { values: [f32::NEG_INFINITY; ALTERNATIVES], tokens: [-1; ALTERNATIVES] };
        let (blocks, rest) = logits.as_chunks::<LANES>();
        let last = padded(rest, f32::NEG_INFINITY);
        for (index, block) in blocks.iter().chain(std::iter::once(&last)).enumerate() {
            if highest_lane(block) <= found.least() {
                continue;
            }
            for (lane, value) in block.iter().enumerate() {
                if *value > found.least() {
                    found.insert(*value, (index * LANES + lane) as i32);
                }
            }
        }
        found
    }
}
