//! The properties, over seeded random worlds. A failure prints the seed and the world; to run it again, put the
//! seed into `ONLY`.

mod support;

use std::panic::{AssertUnwindSafe, catch_unwind};

use forerunner_lanes::fake::Fault;
use forerunner_lanes::{Finish, Planted};
use support::{Reply, World};

/// A single seed to run, for replays.
const ONLY: Option<u64> = None;

fn seeds(count: u64) -> impl Iterator<Item = u64> {
    (0..count).filter(|&seed| ONLY.is_none_or(|only| only == seed))
}

/// Runs `property` over worlds and says which one broke it.
fn check(count: u64, world: impl Fn(u64) -> World, property: impl Fn(&World)) {
    for seed in seeds(count) {
        let world = world(seed);
        if let Err(broken) = catch_unwind(AssertUnwindSafe(|| property(&world))) {
            eprintln!("seed {seed}: {world:#?}");
            std::panic::resume_unwind(broken);
        }
    }
}

fn texts(replies: &[Reply]) -> Vec<&[u32]> {
    replies.iter().map(|reply| &reply.tokens[..]).collect()
}

#[test]
fn every_reply_is_what_the_target_says_with_no_scheduler() {
    check(1500, World::calm, World::check);
}

#[test]
fn leaving_and_failing_touch_no_other_reply() {
    check(1500, World::rough, World::check);
}

#[test]
fn drafted_replies_equal_plain_ones() {
    check(200, World::calm, |world| {
        assert_eq!(texts(&world.run().0), texts(&world.undrafted().run().0));
    });
}

#[test]
fn a_reply_among_others_equals_the_reply_alone() {
    check(100, World::calm, |world| {
        let shared = world.run().0;
        for (index, reply) in shared.iter().enumerate() {
            assert_eq!(reply.tokens, world.alone(index).run().0[0].tokens, "request {index}");
        }
    });
}

#[test]
fn where_prompts_are_cut_does_not_matter() {
    check(100, World::calm, |world| {
        let whole = world.run().0;
        for prompt_chunk in [1, 2, 15, 16, 17, 1000] {
            let cut = World { prompt_chunk, ..world.clone() }.run().0;
            assert_eq!(texts(&whole), texts(&cut), "chunks of {prompt_chunk}");
        }
    });
}

#[test]
fn what_guards_find_and_forced_drafts_change_no_text() {
    check(150, World::calm, |world| {
        let text = world.run().0;
        for planted in [Planted::GuardAsleep, Planted::ProbesForFree, Planted::CopiesShifted] {
            let other = World { planted: Some(planted), ..world.clone() };
            assert_eq!(texts(&text), texts(&other.run().0), "{planted:?}");
        }
        World { force_drafts: true, ..world.clone() }.check();
    });
}

#[test]
fn a_resumed_prompt_equals_a_fresh_one() {
    check(200, World::calm, |world| {
        let mut fresh = world.clone();
        fresh.script.stores_prefixes = false;
        assert_eq!(texts(&world.run().0), texts(&fresh.run().0));
    });
}

#[test]
fn a_cancel_at_any_step_leaves_the_others_as_they_are() {
    check(12, World::calm, |world| {
        let steps = world.run().1 + 30;
        for leaver in 0..world.requests.len().min(3) {
            for step in 0..steps.min(60) {
                let mut world = world.clone();
                world.requests[leaver].leaves = Some(world.requests[leaver].arrives + step);
                world.check();
            }
        }
    });
}

#[test]
fn replies_that_are_held_to_a_form_are_what_the_target_says_under_its_masks() {
    check(1000, World::constrained, World::check);
    check(200, World::constrained, |world| World { force_drafts: true, ..world.clone() }.check());
}

#[test]
fn constrained_replies_are_the_same_drafted_or_plain_shared_or_alone() {
    check(150, World::constrained, |world| {
        let shared = world.run().0;
        assert_eq!(texts(&shared), texts(&world.undrafted().run().0), "plain");
        for (index, reply) in shared.iter().enumerate() {
            assert_eq!(reply.tokens, world.alone(index).run().0[0].tokens, "request {index} alone");
        }
    });
}

#[test]
fn the_worlds_have_everything_in_them() {
    let mut seen = [0; 11];
    for seed in 0..300 {
        for reply in World::rough(seed).run().0.into_iter().chain(World::constrained(seed).run().0) {
            let accepted = reply.statistics.accepted;
            let of_kind = [
                reply.finish == Some(Finish::Stop),
                reply.finish == Some(Finish::Length),
                matches!(reply.finish, Some(Finish::Failed(_))),
                reply.finish.is_none(),
                accepted > 0,
                accepted < reply.statistics.drafts,
                reply.statistics.copies > 0,
                reply.statistics.cached_tokens > 0,
                reply.statistics.forced_accepted > 0,
                reply.statistics.forced_accepted < reply.statistics.forced,
                reply.statistics.forced > 0 && reply.statistics.holds > 0,
            ];
            of_kind.iter().zip(&mut seen).for_each(|(&is, seen)| *seen += u64::from(is));
        }
    }
    assert!(
        seen.iter().all(|&count| count >= 30),
        "stop, length, failed, left, accepted, rejected, copied, resumed, forced, forced and rejected, forced and \
         held: {seen:?}"
    );
}

/// Whether any of the worlds notices the fault.
fn is_caught(fault: Fault, world: impl Fn(u64) -> World) -> bool {
    seeds(40).any(|seed| {
        let mut world = world(seed);
        world.script.fault = Some(fault);
        catch_unwind(AssertUnwindSafe(|| world.check())).is_err()
    })
}

#[test]
fn every_planted_fault_is_caught() {
    let faults = [
        Fault::KeepsRejectedRow,
        Fault::DrawsByRowIndex,
        Fault::AcceptsOneTooMany,
        Fault::NeighbourLeaks,
        Fault::HoldsAtWrongPosition,
        Fault::LeaksPages,
        Fault::RemembersChunks,
        Fault::DrafterDisturbsDraws,
        Fault::StoresStateOfRowBefore,
        Fault::FindsPrefixByLength,
        Fault::ForgetsLastDraw,
        Fault::LogprobsOfFirstRow,
    ];
    for fault in faults {
        assert!(is_caught(fault, World::calm), "{fault:?} passes the properties");
        assert!(is_caught(fault, World::rough), "{fault:?} passes the properties of rough worlds");
    }
}

#[test]
fn every_planted_fault_of_masks_is_caught() {
    for fault in [Fault::MasksOffByOne, Fault::AcceptsUnmasked] {
        assert!(is_caught(fault, World::constrained), "{fault:?} passes the properties");
    }
    for planted in [Planted::MasksShifted, Planted::ForcedUnmasked] {
        let caught = seeds(40).any(|seed| {
            let world = World { planted: Some(planted), ..World::constrained(seed) };
            catch_unwind(AssertUnwindSafe(|| world.check())).is_err()
        });
        assert!(caught, "{planted:?} passes the properties");
    }
}

#[test]
fn chunks_that_end_past_a_border_are_caught() {
    let caught = seeds(40).any(|seed| {
        let world = World { planted: Some(Planted::ChunksPastBorders), ..World::calm(seed) };
        catch_unwind(AssertUnwindSafe(|| world.check())).is_err()
    });
    assert!(caught, "chunks may end anywhere");
}
