//! The fake drafter: right most of the time, wrong on purpose, and as sure of itself as scripted.

use super::random::{fold, unit};

/// How a fake drafts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DrafterScript {
    /// Which drafts are right.
    pub rightness: Rightness,
    /// What it says of them.
    pub confidence: Confidence,
    /// Seed of its mistakes.
    pub seed: u64,
}

impl Default for DrafterScript {
    fn default() -> Self {
        DrafterScript { rightness: Rightness::Share(0.8), confidence: Confidence::Honest, seed: 0 }
    }
}

/// Which drafts are right.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Rightness {
    /// All.
    Always,
    /// This share of them; each draft has its own chance of being right, some easy and some hard.
    Share(f64),
    /// This share, of which a half is left every so many tokens of context.
    Fading {
        /// The share at the beginning.
        share: f64,
        /// Tokens of context in which it halves.
        half: usize,
    },
    /// All but those for positions from `from` to before `to`.
    Except {
        /// First position of a wrong draft.
        from: usize,
        /// First position of a right one again.
        to: usize,
    },
    /// The draft at depth `d` of lane `l` when bit `4 l + d` is set, depths from 4 on like depth 3.
    Pattern(u64),
}

/// What the drafter says of its drafts, when the target's limits say that it does.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Confidence {
    /// The logit of their true chance.
    Honest,
    /// The logit of their true chance, times this.
    Scaled(f32),
    /// Always the same logit.
    Constant(f32),
    /// A logit that has nothing to do with them.
    Arbitrary,
}

/// A draft's place.
#[derive(Debug, Clone, Copy)]
pub(super) struct DraftAt {
    pub lane: usize,
    pub depth: usize,
    /// Hash of the history before it, earlier drafts included.
    pub state: u64,
    /// The token's position.
    pub position: usize,
}

impl DrafterScript {
    /// Whether it is right, and the logit of its confidence.
    pub(super) fn draft(&self, at: DraftAt) -> (bool, f32) {
        let hash = fold(at.state, fold(self.seed, at.depth as u64));
        let chance = match self.rightness {
            Rightness::Always => 1.0,
            // A power of a uniform number whose mean is the share.
            Rightness::Share(share) => unit(hash).powf((1.0 - share) / share),
            Rightness::Fading { share, half } => {
                let share = share * 0.5f64.powf(at.position as f64 / half as f64);
                unit(hash).powf((1.0 - share) / share)
            }
            Rightness::Except { from, to } => f64::from(u8::from(!(from..to).contains(&at.position))),
            Rightness::Pattern(bits) => (bits >> (4 * at.lane + at.depth.min(3)) & 1) as f64,
        };
        let right = unit(fold(hash, 1)) < chance;
        let confidence = match self.confidence {
            Confidence::Honest => logit(chance),
            Confidence::Scaled(factor) => factor * logit(chance),
            Confidence::Constant(logit) => logit,
            Confidence::Arbitrary => logit(unit(fold(hash, 2))),
        };
        (right, confidence)
    }
}

fn logit(chance: f64) -> f32 {
    let chance = chance.clamp(1e-3, 1.0 - 1e-3);
    (chance / (1.0 - chance)).ln() as f32
}
