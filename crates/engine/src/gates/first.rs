//! A prompt's first round on its own lane: what checks against the reference look at.

use std::ops::Range;

use forerunner_lanes::SamplingRule;
use forerunner_lanes::{
    HeldDraft, OpenLane, PendingSource, Round, RoundOut, Target, TargetError, TokenId, Window,
};
use forerunner_tensor::{Device, bf16};

use crate::DeviceTarget;

/// What follows a prompt, greedily.
#[derive(Debug, Clone, PartialEq)]
pub struct FirstRound {
    /// The first token.
    pub anchor: TokenId,
    /// The drafts after it.
    pub held: Vec<HeldDraft>,
}

/// What a drafter makes of a prompt.
#[derive(Debug, Clone, PartialEq)]
pub struct PromptDrafts {
    /// The first token and the drafts after it.
    pub first: FirstRound,
    /// `[block, hidden]`: the block's rows after the drafter's last norm.
    pub hidden: Vec<bf16>,
}

/// Runs `prompt` on lane 0, which is closed before and after, and drafts `hold` tokens after it.
pub fn first_round(
    target: &mut (impl Target + ?Sized),
    prompt: &[TokenId],
    hold: usize,
) -> Result<FirstRound, TargetError> {
    run_prompt(target, prompt, hold, |_, _| Ok(()))
}

/// As [`first_round`], and calls `after` with the rows of every round.
fn run_prompt<T: Target + ?Sized>(
    target: &mut T,
    prompt: &[TokenId],
    hold: usize,
    mut after: impl FnMut(&mut T, Range<usize>) -> Result<(), TargetError>,
) -> Result<FirstRound, TargetError> {
    let rule = SamplingRule::default();
    let open = OpenLane { prompt, context: prompt.len() + 1, rule: &rule, drafted: hold > 0, logprobs: None };
    let mut position = target.open(0, &open)?;
    let mut out = RoundOut::default();
    while position < prompt.len() {
        let end = prompt.len().min(position + target.limits().rows);
        let last = end == prompt.len();
        let window = Window {
            lane: 0,
            position,
            tokens: position..end,
            pending: PendingSource::Host,
            drafts: 0,
            draws: last,
            hold: if last { hold } else { 0 },
        };
        let round = Round { tokens: prompt, windows: &[window], masks: &[] };
        let ran = target.round(&round, &mut out).and_then(|()| after(target, position..end));
        if let Err(error) = ran {
            target.close(0);
            return Err(error);
        }
        position = end;
    }
    target.close(0);
    Ok(FirstRound { anchor: out.drawn[0], held: out.held })
}

impl<D: Device> DeviceTarget<D> {
    /// The logits after `prompt`, in fp32. Lane 0 is closed before and after.
    pub fn first_logits(&mut self, prompt: &[TokenId]) -> Result<Vec<f32>, TargetError> {
        first_round(self, prompt, 0)?;
        self.last_logits()
    }

    /// A whole block of drafts after `prompt`; `tapped` is given the positions of each round and their taps
    /// `[rows, taps * hidden]`. Lane 0 is closed before and after.
    ///
    /// # Panics
    /// Without a drafter.
    pub fn prompt_drafts(
        &mut self,
        prompt: &[TokenId],
        tapped: &mut dyn FnMut(Range<usize>, &[bf16]),
    ) -> Result<PromptDrafts, TargetError> {
        let block = self.limits().block;
        let first = run_prompt(self, prompt, block, |target, positions| {
            tapped(positions.clone(), &target.last_taps(positions.len())?);
            Ok(())
        })?;
        Ok(PromptDrafts { first, hidden: self.last_block()? })
    }
}
