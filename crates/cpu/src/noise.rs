//! Keyed noise: Philox4x32-10 words of 16 token ids at once, as Gumbel noise.

use forerunner_tensor::DrawRow;

use crate::math::{LANES, ln};

/// More than any noise: `-ln(-ln(1 - 2^-24))` is 16.64.
pub(crate) const HIGHEST: f32 = 16.7;
/// Less than any noise: `-ln(-ln(2^-24))` is -2.82.
pub(crate) const LOWEST: f32 = -2.9;

const ROUNDS: u32 = 10;
const MULTIPLIERS: [u32; 2] = [0xD251_1F53, 0xCD9E_8D57];
/// What the key grows by each round.
const STEPS: [u32; 2] = [0x9E37_79B9, 0xBB67_AE85];

/// The noise of tokens `first..first + 16` in the draw that `rule` describes.
#[inline(always)]
pub(crate) fn gumbel(rule: &DrawRow, first: u32) -> [f32; LANES] {
    let words = words(rule, first);
    // A loop: the method `map` of arrays is not always inlined, and then not compiled for the mode.
    let mut noise = [0.0; LANES];
    for lane in 0..LANES {
        // The upper 23 bits, in the middle of their interval: exact in fp32, never 0 or 1.
        let uniform = ((words[lane] >> 9) as f32 + 0.5) * (1.0 / 8_388_608.0);
        noise[lane] = -ln(-ln(uniform));
    }
    noise
}

/// Philox states in one register of eight 64-bit lanes.
const HALF: usize = LANES / 2;

/// The first Philox word of each token.
#[inline(always)]
fn words(rule: &DrawRow, first: u32) -> [u32; LANES] {
    let low = half_words(rule, first);
    let high = half_words(rule, first.wrapping_add(HALF as u32));
    let mut words = [0; LANES];
    for lane in 0..HALF {
        words[lane] = low[lane] as u32;
        words[HALF + lane] = high[lane] as u32;
    }
    words
}

/// As [`words`], of 8 tokens. The words stand in the low halves of 64-bit lanes, whose upper halves are never read,
/// so that a product is one instruction and nothing is moved between lanes.
#[inline(always)]
fn half_words(rule: &DrawRow, first: u32) -> [u64; HALF] {
    const LOW: u64 = 0xffff_ffff;
    let mut a = [u64::from(rule.position); HALF];
    let mut b: [u64; HALF] = std::array::from_fn(|lane| u64::from(first.wrapping_add(lane as u32)));
    let mut c = [u64::from(rule.choice); HALF];
    let mut d = [0u64; HALF];
    for round in 0..ROUNDS {
        let low_key = u64::from(rule.seed_low.wrapping_add(STEPS[0].wrapping_mul(round)));
        let high_key = u64::from(rule.seed_high.wrapping_add(STEPS[1].wrapping_mul(round)));
        for lane in 0..HALF {
            let first = (a[lane] & LOW) * u64::from(MULTIPLIERS[0]);
            let second = (c[lane] & LOW) * u64::from(MULTIPLIERS[1]);
            a[lane] = second >> 32 ^ b[lane] ^ low_key;
            b[lane] = second;
            c[lane] = first >> 32 ^ d[lane] ^ high_key;
            d[lane] = first;
        }
    }
    a
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn noise_stays_inside_its_bounds() {
        let rule = DrawRow { seed_low: 1, seed_high: 2, position: 3, ..DrawRow::default() };
        let mut mean = 0f64;
        for first in (0..160_000).step_by(LANES) {
            for value in gumbel(&rule, first) {
                assert!(value < HIGHEST && value > LOWEST, "{value}");
                mean += f64::from(value) / 160_000.0;
            }
        }
        assert!((mean - 0.577_215_66).abs() < 0.02, "mean {mean}, Euler's constant is expected");
    }

    #[test]
    fn philox_matches_the_published_vectors() {
        let rule = DrawRow::default();
        assert_eq!(words(&rule, 0)[0], 0x6627_e8d5);
        let ones = DrawRow { seed_low: u32::MAX, seed_high: u32::MAX, ..rule };
        assert_ne!(words(&ones, 0)[0], words(&rule, 0)[0]);
    }
}
