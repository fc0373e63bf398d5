//! Which copy of the experts a token uses (docs/synth.md section 3).

use crate::SynthError;

/// Any number would do: a token's copy is to look random and to be the same each time.
const SALT: u32 = 123;

/// Gives each token one of the copies of the experts: evenly, or more often the first.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Copies {
    /// Copies of every expert.
    count: usize,
    /// Share of the tokens that use the first copy.
    first: f64,
}

impl Copies {
    /// `count` copies, the first for `skew` of the tokens, or all equally often.
    pub fn new(count: usize, skew: Option<f64>) -> Result<Self, SynthError> {
        let even = 1.0 / count as f64;
        let first = skew.unwrap_or(even);
        if !(even..=1.0).contains(&first) {
            return Err(SynthError::Skew {
                found: first,
                accepted: format!("{even} (even, for {count} copies of an expert) to 1"),
            });
        }
        Ok(Copies { count, first })
    }

    /// Copies of every expert.
    pub fn count(&self) -> usize {
        self.count
    }

    /// The copy that `token` uses.
    pub fn of(&self, token: u32) -> usize {
        let place = f64::from(mix(token)) / 2f64.powi(32);
        if place < self.first || self.count == 1 {
            return 0;
        }
        let rest = (place - self.first) / (1.0 - self.first) * (self.count - 1) as f64;
        (1 + rest as usize).min(self.count - 1)
    }
}

/// The finalizer of MurmurHash3, 32 bits: a bijection in which every bit depends on every other.
fn mix(token: u32) -> u32 {
    let mut hash = token.wrapping_mul(0x9e37_79b9).wrapping_add(SALT);
    hash = (hash ^ hash >> 16).wrapping_mul(0x85eb_ca6b);
    hash = (hash ^ hash >> 13).wrapping_mul(0xc2b2_ae35);
    hash ^ hash >> 16
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shares(copies: Copies) -> Vec<f64> {
        let mut counts = vec![0.0; copies.count()];
        (0..8192).for_each(|token| counts[copies.of(token)] += 1.0 / 8192.0);
        counts
    }

    #[test]
    fn tokens_spread_as_asked() {
        for (skew, expected) in [(None, [0.25; 4]), (Some(0.4), [0.4, 0.2, 0.2, 0.2])] {
            let found = shares(Copies::new(4, skew).unwrap());
            let close = found.iter().zip(expected).all(|(found, expected)| (found - expected).abs() < 0.02);
            assert!(close, "{found:?}");
        }
        assert_eq!(shares(Copies::new(4, Some(1.0)).unwrap()), [1.0, 0.0, 0.0, 0.0]);
        assert_eq!(shares(Copies::new(1, None).unwrap()), [1.0]);
    }

    #[test]
    fn a_skew_is_a_share() {
        for skew in [0.2, 1.01, -1.0, f64::NAN] {
            let error = Copies::new(4, Some(skew)).unwrap_err().to_string();
            assert!(error.contains("0.25") && error.contains(&skew.to_string()), "{error}");
        }
    }
}
