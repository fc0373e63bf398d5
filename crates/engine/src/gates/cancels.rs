//! The gate of cancels: whenever a reply is given up, neither its neighbour nor the lane's next reply notices.

use forerunner_lanes::{NewSequence, TokenId};

use super::replies::{GateReplies, replies, sequences};
use super::{GateCase, GateLanes, GateOutcome, GateSettings, Yardstick, compare};

/// Cases whose replies are cancelled at every round.
const CASES: usize = 2;

/// Longest reply beside and after a cancel: there are as many of them as the reply has rounds.
const TOKENS: usize = 24;

/// For each of the first cases and every round of its reply: cancels a reply with all the room that a lane has after
/// that round, while the case's own reply runs beside it, and then runs the case on the lane that became free.
pub(super) fn at_every_round(
    lanes: &mut GateLanes,
    cases: &[GateCase],
    settings: &GateSettings,
    yardstick: &Yardstick<'_>,
) -> GateOutcome {
    let (mut ran, mut expected, mut found) = (Vec::new(), Vec::new(), Vec::new());
    let settings = GateSettings { max_tokens: settings.max_tokens.min(TOKENS), ..settings.clone() };
    let all = sequences(cases, yardstick.rules, &settings, true);
    for ((case, sequence), plain) in cases.iter().zip(all).zip(yardstick.plain).take(CASES) {
        for round in 0.. {
            let Some((beside, after)) = cancelled(lanes, &sequence, round) else { break };
            for (place, reply) in [("beside", beside), ("after", after)] {
                ran.push(GateCase {
                    name: format!("{} {place} a cancel at round {round}", case.name),
                    ..case.clone()
                });
                expected.push(plain[..plain.len().min(settings.max_tokens)].to_vec());
                found.push(reply);
            }
        }
    }
    compare(format!("cancels at every round = alone, {}", yardstick.manner), &ran, &expected, &found)
}

/// The replies beside and after one that is cancelled `round` rounds after both began; nothing when the reply beside
/// it has ended by then.
fn cancelled(
    lanes: &mut GateLanes,
    sequence: &NewSequence,
    round: usize,
) -> Option<(Vec<TokenId>, Vec<TokenId>)> {
    let abandoned = lanes.submit(abandoned(lanes, sequence)).expect("a gate's sequence fits");
    let mut beside = GateReplies::submit(lanes, vec![sequence.clone()]);
    for _ in 0..round {
        beside.step(lanes);
    }
    lanes.cancel(abandoned);
    if round > 0 && lanes.is_idle() {
        return None;
    }
    let beside = beside.finish(lanes).remove(0).tokens;
    Some((beside, replies(lanes, vec![sequence.clone()]).remove(0)))
}

/// A reply like `sequence`'s that has all the room of a lane, ends at nothing and draws with another seed.
pub(super) fn abandoned(lanes: &GateLanes, sequence: &NewSequence) -> NewSequence {
    let mut abandoned = sequence.clone();
    abandoned.max_tokens = lanes.limits().context - abandoned.prompt.len();
    abandoned.stop_tokens.clear();
    abandoned.rule.seed ^= 1;
    abandoned
}
