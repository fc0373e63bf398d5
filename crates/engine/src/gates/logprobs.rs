//! The gate of log-probabilities: those of drafted replies among others are those of plain replies alone, bit for
//! bit.

use std::fmt;

use forerunner_lanes::{NewSequence, SamplingRule, TokenId};

use super::replies::{self, GateReply, run_all};
use super::{GateCase, GateLanes, GateOutcome, GateSettings, compare};

/// Replies that are compared: each token of them tells of all its rows did.
const CASES: usize = 8;

/// Alternatives that come with each token.
const ALTERNATIVES: usize = 3;

/// What is told of one token: itself and its alternatives, with the bits of their log-probabilities.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Told(Vec<(TokenId, u32)>);

impl fmt::Display for Told {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (token, bits)) in self.0.iter().enumerate() {
            write!(f, "{}{token} ({})", if index == 0 { "" } else { ", " }, f32::from_bits(*bits))?;
        }
        Ok(())
    }
}

/// Runs the first cases plain and alone, then drafted and all together.
pub(super) fn logprobs(
    lanes: &mut GateLanes,
    cases: &[GateCase],
    settings: &GateSettings,
    rules: &[SamplingRule],
    manner: &str,
) -> GateOutcome {
    let cases = &cases[..cases.len().min(CASES)];
    let sequences = |draft| {
        let asking = |sequence| NewSequence { logprobs: Some(ALTERNATIVES), ..sequence };
        replies::sequences(cases, rules, settings, draft).into_iter().map(asking)
    };
    let plain = sequences(false).flat_map(|sequence| run_all(lanes, vec![sequence])).collect();
    let drafted = run_all(lanes, sequences(true).collect());
    let name = format!("log-probabilities: drafted among others = plain alone, {manner}");
    compare(name, cases, &told(plain), &told(drafted))
}

fn told(replies: Vec<GateReply>) -> Vec<Vec<Told>> {
    let reply = |reply: GateReply| {
        let tokens = reply.logprobs.chunks(1 + ALTERNATIVES);
        tokens
            .map(|told| Told(told.iter().map(|entry| (entry.token, entry.logprob.to_bits())).collect()))
            .collect()
    };
    replies.into_iter().map(reply).collect()
}
