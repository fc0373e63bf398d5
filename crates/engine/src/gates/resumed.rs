//! The gate of the prefix cache: a resumed prompt's reply equals a fresh one's.

use forerunner_lanes::{NewSequence, SamplingRule, TokenId};

use super::replies::{GateReply, run_all};
use super::{GateCase, GateLanes, GateOutcome, GateSettings, compare};

/// Lengths of the prompts: around the borders of a page of 256, and past several of them.
const LENGTHS: [usize; 7] = [255, 256, 257, 511, 512, 513, 700];

/// Length of the prompts that push others out of the cache: two full pages, and a row more.
const FILLER: usize = 513;

/// Runs prompts of several pages twice, drafted: the first time fresh, the second from what the first left
/// behind; then once more after other prompts have taken their place. An outcome without replies when nothing was
/// resumed, or nothing evicted, fails.
pub(super) fn resumed(
    lanes: &mut GateLanes,
    cases: &[GateCase],
    settings: &GateSettings,
    temperature: f32,
    manner: &str,
) -> Vec<GateOutcome> {
    let context = lanes.limits().context;
    let lengths = LENGTHS.into_iter().filter(|length| length + settings.max_tokens <= context);
    let own = u32::from(temperature > 0.0);
    let prompts: Vec<GateCase> =
        lengths.enumerate().map(|(index, length)| prompt(cases, index, length, own)).collect();
    let run = |lanes: &mut GateLanes| -> Vec<GateReply> {
        let sequences = prompts.iter().enumerate().map(|(index, case)| NewSequence {
            prompt: case.prompt.clone(),
            max_tokens: settings.max_tokens,
            rule: SamplingRule { temperature, seed: settings.seed + index as u64, ..SamplingRule::default() },
            stop_tokens: settings.stop_tokens.clone(),
            draft: true,
            ..NewSequence::default()
        });
        sequences.flat_map(|sequence| run_all(lanes, vec![sequence])).collect()
    };
    let fresh = run(lanes);
    let again = run(lanes);
    fill(lanes, cases, settings, own);
    let evicted = run(lanes);
    let was_resumed = |reply: &GateReply| reply.statistics.cached_tokens > 0;
    let (resumed_cases, before, after) = pairs(&prompts, &fresh, &again, was_resumed);
    let (evicted_cases, before_evicted, after_evicted) =
        pairs(&prompts, &fresh, &evicted, |reply| !was_resumed(reply));
    let tokens = |replies: &[&GateReply]| -> Vec<Vec<TokenId>> {
        replies.iter().map(|reply| reply.tokens.clone()).collect()
    };
    vec![
        compare(format!("resumed = fresh, {manner}"), &resumed_cases, &tokens(&before), &tokens(&after)),
        compare(
            format!("accepted drafts: resumed = fresh, {manner}"),
            &resumed_cases,
            &acceptance(&before),
            &acceptance(&after),
        ),
        compare(
            format!("after an eviction = fresh, {manner}"),
            &evicted_cases,
            &tokens(&before_evicted),
            &tokens(&after_evicted),
        ),
    ]
}

/// Cases whose second reply is as `picks` says, with both replies.
fn pairs<'a>(
    prompts: &[GateCase],
    first: &'a [GateReply],
    second: &'a [GateReply],
    picks: impl Fn(&GateReply) -> bool,
) -> (Vec<GateCase>, Vec<&'a GateReply>, Vec<&'a GateReply>) {
    let all = prompts.iter().zip(first.iter().zip(second)).filter(|(_, (_, second))| picks(second));
    let (cases, (first, second)): (Vec<_>, (Vec<_>, Vec<_>)) =
        all.map(|(case, pair)| (case.clone(), pair)).unzip();
    (cases, first, second)
}

/// For each reply: rounds, drafts verified and accepted. While drafts are forced nothing of it depends on time.
fn acceptance(replies: &[&GateReply]) -> Vec<Vec<TokenId>> {
    let counts = |reply: &&GateReply| {
        let statistics = &reply.statistics;
        [statistics.rounds, statistics.drafts, statistics.accepted].map(|count| count as TokenId).to_vec()
    };
    replies.iter().map(counts).collect()
}

/// Runs other prompts until the cache holds nothing of those before.
fn fill(lanes: &mut GateLanes, cases: &[GateCase], settings: &GateSettings, own: u32) {
    let prompts = settings.prompt_cache_pages / (FILLER / lanes.limits().page) + 1;
    for index in 0..prompts {
        let GateCase { prompt, .. } = prompt(cases, index, FILLER, 2 + own + 2 * index as u32);
        let rule = SamplingRule::default();
        let sequence = NewSequence {
            prompt,
            max_tokens: 1,
            rule,
            stop_tokens: vec![],
            draft: true,
            ..NewSequence::default()
        };
        run_all(lanes, vec![sequence]);
    }
}

/// A prompt of `length` tokens out of the cases' prompts, with a beginning that no prompt of another length or with
/// another `own` has.
fn prompt(cases: &[GateCase], index: usize, length: usize, own: u32) -> GateCase {
    let tokens = cases.iter().cycle().skip(index).flat_map(|case| case.prompt.iter().copied());
    let prompt = [length as TokenId, own].into_iter().chain(tokens).take(length).collect();
    GateCase { name: format!("a prompt of {length} tokens"), prompt }
}
