//! The gate of the guards: what they have found, and what costs are said to be, decides about time alone.

use forerunner_lanes::{Side, TokenId};

use super::replies::{replies, sequences};
use super::{GateCase, GateLanes, GateOutcome, GateSettings, Yardstick, compare};

/// Numbers of replies that run together.
const GROUPS: [usize; 2] = [1, 4];

/// Runs the cases drafted with all guards on one side, then on the other, alone and in groups: guards switch, probe
/// and price as they do in service. Drafts are forced again afterwards if they were before.
pub(super) fn guarded(
    lanes: &mut GateLanes,
    cases: &[GateCase],
    settings: &GateSettings,
    yardstick: &Yardstick<'_>,
) -> Vec<GateOutcome> {
    let (forced, most) = (lanes.force_drafts(false), lanes.limits().lanes);
    let mut outcomes = Vec::new();
    for (side, name) in [(Side::Plain, "plain"), (Side::Drafted, "drafted")] {
        for group in GROUPS.into_iter().filter(|group| *group <= most) {
            lanes.rest_guards(side);
            let all = sequences(cases, yardstick.rules, settings, true);
            let found: Vec<Vec<TokenId>> =
                all.chunks(group).flat_map(|group| replies(lanes, group.to_vec())).collect();
            let name = format!("guards on {name} = plain, {group} at once, {}", yardstick.manner);
            outcomes.push(compare(name, cases, yardstick.plain, &found));
        }
    }
    lanes.force_drafts(forced);
    outcomes
}
