//! Small worlds, all of them: three lanes, four drafts deep, every pattern of right and wrong drafts.

use forerunner_lanes::fake::{DrafterScript, FakeScript, FakeTarget, Rightness};
use forerunner_lanes::{Lanes, Limits, NewSequence, Options, SamplingRule};

const LANES: usize = 3;
const DEPTH: usize = 4;
const REPLY: usize = 9;

fn sequence(lane: usize) -> NewSequence {
    let temperature = if lane == 1 { 0.8 } else { 0.0 };
    NewSequence {
        prompt: vec![lane as u32; 1 + lane],
        // Replies of different lengths, so that lanes end beside others that go on.
        max_tokens: REPLY + lane,
        rule: SamplingRule { temperature, seed: 7, ..SamplingRule::default() },
        stop_tokens: Vec::new(),
        draft: true,
        ..NewSequence::default()
    }
}

/// Replies and accepted drafts, lane by lane, when drafts are right by `pattern`.
fn run(pattern: u64) -> Vec<(Vec<u32>, u64)> {
    let limits = Limits {
        lanes: LANES,
        context: 64,
        rows: 64,
        block: DEPTH,
        has_confidence: false,
        page: 16,
        queues_ahead: false,
    };
    let drafter = DrafterScript { rightness: Rightness::Pattern(pattern), ..DrafterScript::default() };
    let script = FakeScript { drafter, ..FakeScript::default() };
    let mut lanes = Lanes::new(FakeTarget::new(limits, script), Options::default());
    let ids: Vec<_> = (0..LANES).map(|lane| lanes.submit(sequence(lane)).unwrap()).collect();
    let mut replies = vec![(Vec::new(), 0); LANES];
    while !lanes.is_idle() {
        for delivery in lanes.step() {
            let lane = ids.iter().position(|&id| id == delivery.id).unwrap();
            replies[lane].0.extend_from_slice(&delivery.tokens);
            if let Some(finished) = &delivery.finished {
                replies[lane].1 = finished.statistics.accepted;
            }
        }
    }
    assert_eq!(lanes.pages_in_use(), 0);
    replies
}

/// llamadart#344: at every depth.
#[test]
fn every_pattern_of_accepted_drafts_commits_the_same_replies() {
    let vocabulary = FakeScript::default().vocabulary;
    let expected: Vec<_> = (0..LANES)
        .map(sequence)
        .map(|new| FakeTarget::reply(vocabulary, &new.prompt, &new.rule, new.max_tokens, &[]))
        .collect();
    for pattern in 0..1 << (LANES * DEPTH) {
        for (lane, (reply, accepted)) in run(pattern).into_iter().enumerate() {
            assert_eq!(reply, expected[lane], "lane {lane} of pattern {pattern:#014b}");
            let first_is_right = pattern >> (DEPTH * lane) & 1 == 1;
            assert_eq!(
                accepted > 0,
                first_is_right,
                "lane {lane} of pattern {pattern:#014b}: {accepted} accepted"
            );
        }
    }
}
