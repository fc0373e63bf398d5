//! Seeded randomness for fakes and tests: the same seed, the same numbers, on every machine.

/// A SplitMix64 generator.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// Starts from a seed.
    pub fn new(seed: u64) -> Self {
        Random(mix(seed))
    }

    /// Any number.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// A number below `end`, which is not 0.
    pub fn below(&mut self, end: u64) -> u64 {
        self.number() % end
    }

    /// A number from 0 to below 1.
    pub fn unit(&mut self) -> f64 {
        unit(self.number())
    }

    /// True with probability `share`.
    pub fn chance(&mut self, share: f64) -> bool {
        self.unit() < share
    }
}

/// Spreads every bit of its input over its output.
pub(crate) fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// Folds a word into a hash.
pub(crate) fn fold(hash: u64, word: u64) -> u64 {
    mix(hash.rotate_left(5) ^ word.wrapping_add(0x9e37_79b9_7f4a_7c15))
}

/// A number from 0 to below 1 made of a hash.
pub(crate) fn unit(hash: u64) -> f64 {
    (hash >> 11) as f64 / (1u64 << 53) as f64
}
