//! Runs sequences to their end on a scheduler and collects their tokens.

use std::collections::HashMap;

use forerunner_lanes::{
    Lanes, NewSequence, SamplingRule, SequenceId, SequenceStatistics, Target, TokenId, TokenLogprob,
};

use forerunner_text::Constraint;

use super::cancels::abandoned;
use super::{GateCase, GateSettings};
use crate::constraint::GrammarConstraint;

/// The scheduler that gates run on.
pub type GateLanes = Lanes<Box<dyn Target + Send>>;

/// A sequence, and what its reply is held to.
#[derive(Debug, Clone)]
pub struct GateSequence {
    /// What to generate.
    pub new: NewSequence,
    /// What it is held to, at the start of the reply.
    pub constraint: Option<Constraint>,
}

impl From<NewSequence> for GateSequence {
    fn from(new: NewSequence) -> Self {
        GateSequence { new, constraint: None }
    }
}

/// One sequence a case.
pub(super) fn sequences(
    cases: &[GateCase],
    rules: &[SamplingRule],
    settings: &GateSettings,
    draft: bool,
) -> Vec<NewSequence> {
    let sequence = |(case, rule): (&GateCase, &SamplingRule)| NewSequence {
        prompt: case.prompt.clone(),
        max_tokens: settings.max_tokens,
        rule: rule.clone(),
        stop_tokens: settings.stop_tokens.clone(),
        draft,
        logprobs: None,
    };
    cases.iter().zip(rules).map(sequence).collect()
}

/// A reply, and what it took.
#[derive(Debug, Clone, Default)]
pub struct GateReply {
    /// Its tokens.
    pub tokens: Vec<TokenId>,
    /// For each token itself and then its alternatives, if they were asked for.
    pub logprobs: Vec<TokenLogprob>,
    /// Counts of its sequence.
    pub statistics: SequenceStatistics,
}

/// Runs `sequences` together until all have ended; their replies, in order.
///
/// # Panics
/// If a sequence does not fit the lanes: gates are given prompts that do.
pub fn run_all(lanes: &mut GateLanes, sequences: Vec<impl Into<GateSequence>>) -> Vec<GateReply> {
    GateReplies::submit(lanes, sequences).finish(lanes)
}

/// Replies on their way.
pub(super) struct GateReplies {
    ids: Vec<SequenceId>,
    replies: HashMap<SequenceId, GateReply>,
}

impl GateReplies {
    /// Begins `sequences`.
    pub(super) fn submit(lanes: &mut GateLanes, sequences: Vec<impl Into<GateSequence>>) -> Self {
        let submit = |sequence| {
            let GateSequence { new, constraint } = sequence;
            let submitted = match constraint {
                Some(constraint) => {
                    lanes.submit_constrained(new, Box::new(GrammarConstraint::new(constraint)))
                }
                None => lanes.submit(new),
            };
            submitted.expect("a gate's sequence fits")
        };
        let ids = sequences.into_iter().map(Into::into).map(submit).collect();
        GateReplies { ids, replies: HashMap::new() }
    }

    /// One round.
    pub(super) fn step(&mut self, lanes: &mut GateLanes) {
        for delivery in lanes.step() {
            let reply = self.replies.entry(delivery.id).or_default();
            reply.tokens.extend_from_slice(&delivery.tokens);
            reply.logprobs.extend_from_slice(&delivery.logprobs);
            if let Some(finished) = &delivery.finished {
                reply.statistics = finished.statistics.clone();
            }
        }
    }

    /// The replies, in order, once nothing is left to do.
    pub(super) fn finish(mut self, lanes: &mut GateLanes) -> Vec<GateReply> {
        while !lanes.is_idle() {
            self.step(lanes);
        }
        self.ids.iter().map(|id| self.replies.remove(id).unwrap_or_default()).collect()
    }
}

/// The tokens of [`run_all`]'s replies.
pub fn replies(lanes: &mut GateLanes, sequences: Vec<impl Into<GateSequence>>) -> Vec<Vec<TokenId>> {
    run_all(lanes, sequences).into_iter().map(|reply| reply.tokens).collect()
}

/// The reply of `sequence` after another one on the same lane, with the same prompt and as much room as a lane
/// has, was cancelled `rounds` rounds after it began.
pub fn replies_after_cancel(lanes: &mut GateLanes, sequence: NewSequence, rounds: usize) -> Vec<TokenId> {
    let id = lanes.submit(abandoned(lanes, &sequence)).expect("a gate's sequence fits");
    for _ in 0..=rounds {
        lanes.step();
    }
    lanes.cancel(id);
    replies(lanes, vec![sequence]).remove(0)
}
