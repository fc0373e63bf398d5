//! A device's drafts after prompts of many tokens, against the fp32 reference of the drafter.
//!
//! The reference is fed the device's own taps, so that what is compared is the drafter alone, however long its context
//! is: of the target only the embedding table is needed, and a model of any size can be checked.

use std::fmt;

use anyhow::{Context, bail, ensure};
use forerunner_engine::gates::{FirstRound, PromptDrafts};
use forerunner_lanes::TokenId;
use forerunner_reference::math::Matrix;
use forerunner_reference::{Draft, DrafterState, ReferenceDrafter, Rows};
use forerunner_tensor::bf16;

use super::cases::{PROMPTS, cases};
use super::reference::{cosine, drafts_agree, equal_drafts, largest, middle};
use crate::device::OpenTarget;
use crate::setup::OpenedModel;

/// Least cosine between a row of a block on the device and on the reference. On the demo pair bf16 between the drafter's
/// operations leaves 0.9996 at least and 0.9999 in the middle, whatever the length and in plain scalar loops as well. A wrong
/// position or page turns a row away.
const COSINE_LEAST: f64 = 0.999;

/// The drafter and the target's embedding table in fp32, with what the drafter has absorbed.
pub(crate) struct LengthGate {
    drafter: ReferenceDrafter,
    embedding: Matrix,
    state: DrafterState,
    text: Vec<TokenId>,
}

/// The drafts after one length of prompt.
pub(crate) struct LengthOutcome {
    pub(crate) length: usize,
    /// Of each row of the block.
    pub(crate) cosines: Vec<f64>,
    /// What the device drafted.
    pub(crate) found: Vec<TokenId>,
    /// What the reference drafted.
    pub(crate) expected: Draft,
}

impl LengthGate {
    /// Loads the drafter, for prompts of up to `longest` tokens.
    pub(crate) fn load(model: &OpenedModel, longest: usize) -> anyhow::Result<Self> {
        let Some(drafter) = &model.drafter else {
            bail!("--drafts-after needs a drafter, and {} has none", model.paths.name)
        };
        let drafter = ReferenceDrafter::load(drafter)?;
        let text = cases(&model.text, PROMPTS.lines().count())?;
        let text = text.iter().flat_map(|case| case.prompt.iter().copied()).cycle().take(longest).collect();
        let embedding = Matrix::from_host(&model.target.embedding()?);
        Ok(LengthGate { state: drafter.start(), drafter, embedding, text })
    }

    /// Drafts after the first `length` tokens of the text, on both. Lengths rise from call to call: what the reference has
    /// absorbed stays.
    pub(crate) fn run(
        &mut self,
        target: &mut dyn OpenTarget,
        length: usize,
    ) -> anyhow::Result<LengthOutcome> {
        let LengthGate { drafter, embedding, state, text } = self;
        let width = drafter.fuse.inputs;
        let PromptDrafts { first: FirstRound { anchor, held }, hidden } = target
            .prompt_drafts(&text[..length], &mut |positions, taps| {
                let known = state.length().saturating_sub(positions.start).min(positions.len());
                drafter.absorb(state, &Rows { width, values: widened(&taps[known * width..]) });
            })
            .with_context(|| format!("a prompt of {length} tokens"))?;
        ensure!(state.length() == length, "{} rows were tapped of {length}", state.length());
        let expected = drafter.draft(state, embedding, anchor);
        let rows = widened(&hidden);
        let pairs = rows.chunks_exact(expected.hidden.width).zip(expected.hidden.iter());
        let cosines = pairs.map(|(found, expected)| cosine(found, expected)).collect();
        let found = held.iter().map(|draft| draft.token).collect();
        Ok(LengthOutcome { length, cosines, found, expected })
    }
}

impl LengthOutcome {
    /// Whether every row points about where the reference's does, and drafts are equal up to the first near-tie.
    pub(crate) fn passed(&self) -> bool {
        self.least_cosine() >= COSINE_LEAST && self.drafts_agree()
    }

    fn least_cosine(&self) -> f64 {
        self.cosines.iter().copied().fold(f64::INFINITY, f64::min)
    }

    /// The chains part where two logits of one row are near.
    fn drafts_agree(&self) -> bool {
        let LengthOutcome { expected: Draft { picks, base_logits, .. }, found, .. } = self;
        let row = equal_drafts(picks, found).min(picks.len() - 1);
        drafts_agree(picks, found, largest(base_logits.row(row)))
    }
}

impl fmt::Display for LengthOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verdict = if self.passed() { "ok  " } else { "FAIL" };
        let picks = &self.expected.picks;
        let (equal, all) = (equal_drafts(picks, &self.found), picks.len());
        write!(f, "{verdict} drafts after {} tokens against the fp32 reference: ", self.length)?;
        let (least, middle) = (self.least_cosine(), middle(self.cosines.iter().copied()));
        write!(f, "{equal} of {all} equal, cosine {least:.6} at least, {middle:.6} in the middle")
    }
}

fn widened(values: &[bf16]) -> Vec<f32> {
    values.iter().map(|value| value.to_f32()).collect()
}

#[cfg(test)]
mod tests {
    use forerunner_reference::Pick;

    use super::*;

    /// The reference drafts 5, 6 and 7; logits are up to 10 in size.
    fn outcome(found: &[TokenId], cosine: f64, margin: f32) -> LengthOutcome {
        let pick = |token| Pick { token, margin };
        let rows = |width| Rows { width, values: vec![10.0; 3 * width] };
        let expected = Draft {
            picks: [5, 6, 7].map(pick).into(),
            confidence: Vec::new(),
            hidden: rows(2),
            base_logits: rows(8),
        };
        LengthOutcome { length: 100, cosines: vec![1.0, cosine, 1.0], found: found.to_vec(), expected }
    }

    #[test]
    fn a_row_that_points_elsewhere_and_another_draft_are_failures() {
        assert!(outcome(&[5, 6, 7], 0.9995, 1.0).passed());
        assert!(!outcome(&[5, 6, 7], 0.998, 1.0).passed());
        assert!(!outcome(&[5, 9, 7], 1.0, 1.0).passed());
        assert!(!outcome(&[5], 1.0, 1.0).passed());
        assert!(outcome(&[5, 9, 8], 1.0, 0.1).passed(), "a near-tie is none");
        assert!(outcome(&[5, 9, 7], 1.0, 1.0).to_string().starts_with("FAIL"));
    }
}
