//! The gate of the prefix cache: a resumed prompt's reply equals a fresh one's.

use forerunner_lanes::{NewSequence, SamplingRule, TokenId};

use super::replies::{GateReply, run_all};
use super::{GateCase, GateLanes, GateOutcome, GateSettings, compare};

/// Lengths of the prompts: around the borders of a page of 256, and past several of them.
const LENGTHS: [usize; 7] = [255, 256, 257, 511, 512, 513, 700];

/// Runs prompts of several pages twice, drafted: the first time fresh, the second from what the first left
/// behind. An outcome without replies when nothing was resumed, which fails.
pub(super) fn resumed(
    lanes: &mut GateLanes,
    cases: &[GateCase],
    settings: &GateSettings,
    temperature: f32,
    manner: &str,
) -> GateOutcome {
    let context = lanes.limits().context;
    let lengths = LENGTHS.into_iter().filter(|length| length + settings.max_tokens <= context);
    let prompts: Vec<GateCase> =
        lengths.enumerate().map(|(index, length)| prompt(cases, index, length, temperature)).collect();
    let run = |lanes: &mut GateLanes| -> Vec<GateReply> {
        let sequences = prompts.iter().enumerate().map(|(index, case)| NewSequence {
            prompt: case.prompt.clone(),
            max_tokens: settings.max_tokens,
            rule: SamplingRule { temperature, seed: settings.seed + index as u64, ..SamplingRule::default() },
            stop_tokens: settings.stop_tokens.clone(),
            draft: true,
        });
        sequences.flat_map(|sequence| run_all(lanes, vec![sequence])).collect()
    };
    let fresh = run(lanes);
    let again = run(lanes);
    let pairs = prompts.into_iter().zip(fresh.into_iter().zip(again));
    let (cases, (fresh, resumed)): (Vec<_>, (Vec<_>, Vec<_>)) = pairs
        .filter(|(_, (_, again))| again.statistics.cached_tokens > 0)
        .map(|(case, (fresh, again))| (case, (fresh.tokens, again.tokens)))
        .unzip();
    compare(format!("resumed = fresh, {manner}"), &cases, &fresh, &resumed)
}

/// A prompt of `length` tokens out of the cases' prompts, with a beginning that no other prompt has.
fn prompt(cases: &[GateCase], index: usize, length: usize, temperature: f32) -> GateCase {
    let tokens = cases.iter().cycle().skip(index).flat_map(|case| case.prompt.iter().copied());
    let own = [length as TokenId, u32::from(temperature > 0.0)];
    let prompt = own.into_iter().chain(tokens).take(length).collect();
    GateCase { name: format!("a prompt of {length} tokens"), prompt }
}
