//! One token of a chain without the whole product: a bias is at most the product of two norms, so few tokens can
//! win, and only theirs are computed.

use std::ops::ControlFlow;

use forerunner_tensor::{DrawRow, FLAG_COUNTS, FLAG_LOGIT_BIAS, bf16};

use crate::arithmetic::{Arithmetic, kernels};
use crate::draw::{best, keeps, penalized};
use crate::math::{LANES, padded};
use crate::noise;
use crate::weights::Matrix;

/// More than a computed bias over its bound, for the rounding of sums of up to thousands of columns.
const ROUNDING: f64 = 1.001;

/// What a step of one block's chain draws from.
pub(crate) struct MarkovStep<'a> {
    pub(crate) next: &'a Matrix,
    pub(crate) embedding: &'a [bf16],
    /// Without the biases.
    pub(crate) logits: &'a [f32],
    pub(crate) rule: &'a DrawRow,
    /// The lane's, under [`FLAG_COUNTS`].
    pub(crate) counts: &'a [u32],
    /// The chain's drafts before this one.
    pub(crate) drafts: &'a [i32],
}

/// Whether a rule draws the highest of values that are at most the logits, with or without noise.
pub(crate) fn can_prune(rule: &DrawRow) -> bool {
    let filtered = rule.temperature != 0.0 && (rule.top_k != 0 || rule.top_p < 1.0);
    let lowered = rule.flags & FLAG_COUNTS == 0
        || rule.repetition_penalty >= 1.0 && rule.presence_penalty >= 0.0 && rule.frequency_penalty >= 0.0;
    let changed = rule.mask >= 0 || rule.flags & FLAG_LOGIT_BIAS != 0;
    rule.temperature >= 0.0 && lowered && !filtered && !changed
}

/// The norm of each row of a matrix, not below the exact one.
pub(crate) fn row_norms(matrix: &Matrix) -> Vec<f32> {
    let mut row = vec![bf16::ZERO; matrix.columns()];
    let norm = |index| {
        matrix.read_row(index, &mut row);
        norm(&row)
    };
    (0..matrix.rows()).map(norm).collect()
}

fn norm(values: &[bf16]) -> f32 {
    let squares = values.iter().map(|value| f64::from(value.to_f32()).powi(2)).sum::<f64>();
    (squares.sqrt() * 1.000_001) as f32
}

/// The best token so far.
#[derive(Clone, Copy)]
struct Best {
    token: usize,
    value: f32,
}

impl Best {
    fn offer(&mut self, token: usize, value: f32) {
        if value > self.value || value == self.value && token < self.token {
            *self = Best { token, value };
        }
    }
}

/// Upper bounds of logits with their biases: `logits + norms * reach`.
struct Bounds<'a> {
    logits: &'a [f32],
    norms: &'a [f32],
    reach: f32,
}

impl MarkovStep<'_> {
    /// The token that the rule draws, the same as from the whole product.
    pub(crate) fn draw<A: Arithmetic>(&self) -> i32 {
        let reach = (f64::from(norm(self.embedding)) * ROUNDING) as f32;
        let bounds = Bounds { logits: self.logits, norms: self.next.row_norms(), reach };
        let likely = best::<A>(self.logits) as usize;
        let temperature = self.rule.temperature;
        let best = if temperature == 0.0 {
            self.highest::<A>(&bounds, likely)
        } else if self.rule.min_p > 0.0 {
            let highest = self.highest::<A>(&bounds, likely);
            if highest.value == f32::NEG_INFINITY {
                return 0;
            }
            self.noisiest::<A>(&bounds, highest.token, highest.value / temperature)
        } else {
            self.noisiest::<A>(&bounds, likely, f32::INFINITY)
        };
        best.token as i32
    }

    /// The highest value before temperature, ties to the lower token.
    fn highest<A: Arithmetic>(&self, bounds: &Bounds<'_>, likely: usize) -> Best {
        let mut best = Best { token: 0, value: f32::NEG_INFINITY };
        best.offer(likely, self.value::<A>(likely));
        bounds.visit::<A>(best.value, |first, bounds, cutoff| {
            for (lane, bound) in bounds.iter().enumerate().take(self.logits.len() - first) {
                if *bound >= best.value {
                    best.offer(first + lane, self.value::<A>(first + lane));
                }
            }
            *cutoff = best.value;
        });
        best
    }

    /// The highest value with noise among those that min-p keeps. `highest` is the highest value; unread without
    /// min-p.
    fn noisiest<A: Arithmetic>(&self, bounds: &Bounds<'_>, likely: usize, highest: f32) -> Best {
        let (rule, temperature) = (self.rule, self.rule.temperature);
        let floor = if rule.min_p > 0.0 { highest + rule.min_p.ln() - 0.01 } else { f32::NEG_INFINITY };
        let offer = |best: &mut Best, token: usize, noise: f32| {
            let value = self.value::<A>(token) / temperature;
            if keeps(value, highest, rule.min_p) {
                best.offer(token, value + noise);
            }
        };
        let mut best = Best { token: 0, value: f32::NEG_INFINITY };
        offer(&mut best, likely, noise_of::<A>(rule, likely as u32)[0]);
        let start = raw_cutoff(best.value, floor, temperature);
        bounds.visit::<A>(start, |first, bounds, cutoff| {
            let noise = noise_of::<A>(rule, first as u32);
            for (lane, bound) in bounds.iter().enumerate().take(self.logits.len() - first) {
                if *bound >= *cutoff && bound / temperature + noise[lane] >= best.value {
                    offer(&mut best, first + lane, noise[lane]);
                }
            }
            *cutoff = raw_cutoff(best.value, floor, temperature);
        });
        best
    }

    /// The logit with its bias and after penalties, as from the whole product.
    fn value<A: Arithmetic>(&self, token: usize) -> f32 {
        let mut bias = [0.0];
        A::matrix_products(self.next, token..token + 1, self.embedding, 1, &mut bias);
        let value = self.logits[token] + bias[0];
        if self.rule.flags & FLAG_COUNTS == 0 {
            return value;
        }
        let drafted = self.drafts.iter().filter(|draft| **draft == token as i32).count();
        penalized(value, self.rule, self.counts[token] + drafted as u32)
    }
}

/// A value before temperature below which none can reach `best` with noise, or `floor` without: less than the exact
/// quotient by more than roundings make of it.
fn raw_cutoff(best: f32, floor: f32, temperature: f32) -> f32 {
    let temperature = f64::from(temperature);
    let lowest = f64::from(floor).max(f64::from(best) - f64::from(noise::HIGHEST));
    let slack = 1e-6 * (lowest.abs() + f64::from(noise::HIGHEST));
    if lowest.is_finite() { ((lowest - slack) * temperature) as f32 } else { f32::NEG_INFINITY }
}

impl Bounds<'_> {
    /// Calls `visit` with the first token and the bounds of each block of 16 with a bound of at least the cutoff,
    /// which it may raise.
    fn visit<A: Arithmetic>(&self, cutoff: f32, mut visit: impl FnMut(usize, &[f32; LANES], &mut f32)) {
        let mut cutoff = cutoff;
        let mut block = 0;
        while let ControlFlow::Break(found) = next_block::<A>(self, block, cutoff) {
            visit(found * LANES, &self.of_block(found), &mut cutoff);
            block = found + 1;
        }
    }

    #[inline(always)]
    fn of_block(&self, block: usize) -> [f32; LANES] {
        let range = block * LANES..self.logits.len().min((block + 1) * LANES);
        let logits = padded(&self.logits[range.clone()], f32::NEG_INFINITY);
        let norms = padded(&self.norms[range], 0.0);
        std::array::from_fn(|lane| logits[lane] + norms[lane] * self.reach)
    }
}

kernels! {
    /// The next block of 16 tokens, from `first` on, with a bound of at least `cutoff`.
    fn next_block<A>(bounds: &Bounds<'_>, first: usize, cutoff: f32) -> ControlFlow<usize> {
        let (logits, rest) = bounds.logits.as_chunks::<LANES>();
        let norms = bounds.norms.as_chunks::<LANES>().0;
        let whole = logits.len();
        for (index, (logits, norms)) in logits.iter().zip(norms).enumerate().skip(first) {
            let mut found = 0;
            for lane in 0..LANES {
                found |= u32::from(logits[lane] + norms[lane] * bounds.reach >= cutoff);
            }
            if found != 0 {
                return ControlFlow::Break(index);
            }
        }
        let last = !rest.is_empty() && first <= whole;
        if last { ControlFlow::Break(whole) } else { ControlFlow::Continue(()) }
    }

    fn noise_of<A>(rule: &DrawRow, first: u32) -> [f32; LANES] {
        noise::gumbel(rule, first)
    }
}

#[cfg(test)]
mod tests {
    use forerunner_tensor::{DrawTables, HostMatrix, MatrixValues, PROMPT_SEEN};

    use super::*;
    use crate::draw::draw_row;
    use crate::memory::Buffer;
    use crate::portable::Portable;

    const RANK: usize = 24;

    struct Random(u64);

    impl Random {
        fn below(&mut self, end: u32) -> u32 {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (self.0 >> 33) as u32 % end
        }

        /// Few different numbers, so that values tie.
        fn values(&mut self, len: usize, scale: f32) -> Vec<bf16> {
            (0..len).map(|_| bf16::from_f32((self.below(9) as f32 - 4.0) * scale)).collect()
        }
    }

    /// The tokens with and without pruning.
    fn both<A: Arithmetic>(random: &mut Random, rule: &DrawRow, vocabulary: usize) -> (i32, i32) {
        let scale = [0.0, 0.01, 0.25, 2.0][random.below(4) as usize];
        let values = MatrixValues::Bf16(random.values(vocabulary * RANK, scale).into());
        let next = Matrix::load(&[HostMatrix { rows: vocabulary, columns: RANK, values }]).unwrap();
        let embedding = random.values(RANK, 0.5);
        let logits: Vec<f32> = (0..vocabulary).map(|_| random.below(40) as f32 * 0.5 - 12.0).collect();
        let mut tables = DrawTables::<crate::CpuDevice> {
            vocabulary,
            counts: Buffer::zeroed(vocabulary).unwrap(),
            logit_bias: Buffer::zeroed(0).unwrap(),
            masks: Buffer::zeroed(0).unwrap(),
        };
        for count in tables.counts.iter_mut() {
            *count = [0, 0, 1, 3, PROMPT_SEEN][random.below(5) as usize];
        }
        let drafts: Vec<i32> = (0..5).map(|_| random.below(vocabulary as u32) as i32).collect();
        let mut full = vec![0.0; vocabulary];
        A::matrix_products(&next, 0..vocabulary, &embedding, 1, &mut full);
        full.iter_mut().zip(&logits).for_each(|(bias, logit)| *bias += logit);
        let counts = crate::draw::counts_of(rule, &tables);
        let (embedding, logits, next) = (&embedding, &logits, &next);
        let step = MarkovStep { next, embedding, logits, rule, counts, drafts: &drafts };
        (step.draw::<A>(), draw_row::<A>(&full, rule, &tables, &drafts))
    }

    fn check<A: Arithmetic>() {
        let mut random = Random(7);
        let plain = DrawRow { lane: 0, ..DrawRow::default() };
        let penalties = DrawRow {
            flags: FLAG_COUNTS,
            repetition_penalty: 1.3,
            presence_penalty: 0.5,
            frequency_penalty: 0.25,
            ..plain
        };
        for seed in 0..300 {
            let vocabulary = 1 + random.below(700) as usize;
            for rule in [plain, penalties] {
                for (temperature, min_p) in [(0.0, 0.0), (0.3, 0.0), (0.3, 0.15), (1.0, 0.0), (30.0, 0.9)] {
                    let rule = DrawRow { temperature, min_p, seed_low: seed, position: 9, ..rule };
                    assert!(can_prune(&rule));
                    let (pruned, full) = both::<A>(&mut random, &rule, vocabulary);
                    assert_eq!(pruned, full, "{rule:?}, {vocabulary} tokens");
                }
            }
        }
    }

    #[test]
    fn pruning_changes_no_token() {
        check::<Portable>();
        #[cfg(target_arch = "x86_64")]
        if crate::Mode::Amx.is_supported() {
            check::<crate::amx::Amx>();
        }
        #[cfg(target_arch = "x86_64")]
        if crate::Mode::Avx2.is_supported() {
            check::<crate::avx2::Avx2>();
        }
        #[cfg(target_arch = "x86_64")]
        if crate::Mode::Avx512.is_supported() {
            check::<crate::avx512::Avx512>();
        }
    }

    #[test]
    fn rules_that_filter_or_raise_values_are_not_pruned() {
        let plain = DrawRow { lane: 0, temperature: 1.0, ..DrawRow::default() };
        assert!(can_prune(&plain));
        assert!(!can_prune(&DrawRow { top_k: 4, ..plain }));
        assert!(!can_prune(&DrawRow { top_p: 0.9, ..plain }));
        assert!(!can_prune(&DrawRow { mask: 0, ..plain }));
        assert!(!can_prune(&DrawRow { flags: FLAG_LOGIT_BIAS, ..plain }));
        assert!(!can_prune(&DrawRow { flags: FLAG_COUNTS, repetition_penalty: 0.9, ..plain }));
    }
}
