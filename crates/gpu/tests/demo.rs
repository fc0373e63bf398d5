//! The demo pair on this machine's adapter: golden replies, and drafted = plain, shared = alone, resumed = fresh.

#[path = "support/mod.rs"]
mod adapter;
#[path = "../../engine/tests/support/mod.rs"]
mod support;

use forerunner_engine::gates::{self, GateCase, GateSettings, Planted, PlantedFault};
use forerunner_gpu::GpuOptions;
use forerunner_lanes::{NewSequence, SamplingRule};
use support::golden;

/// Settings that software is done with in seconds.
fn settings(max_tokens: usize) -> GateSettings {
    GateSettings {
        max_tokens,
        stop_tokens: vec![2, 7],
        seed: 1,
        shared: vec![4],
        prompt_cache_pages: support::CACHE_PAGES,
        grammars: Vec::new(),
    }
}

fn cases(count: usize) -> Vec<GateCase> {
    golden().into_iter().take(count).map(|(case, _)| case).collect()
}

#[test]
fn greedy_replies_are_the_golden_ones() {
    let Some(device) = adapter::device(&GpuOptions::default()) else { return };
    let mut lanes = support::lanes(support::target(device, 4, 1024, true), true);
    let (cases, expected): (Vec<_>, Vec<_>) = golden().into_iter().unzip();
    let sequences = cases.iter().map(|case| NewSequence {
        prompt: case.prompt.clone(),
        max_tokens: 96,
        rule: SamplingRule::default(),
        stop_tokens: vec![2, 7],
        draft: true,
        ..NewSequence::default()
    });
    let found = gates::replies(&mut lanes, sequences.collect());
    let outcome = gates::compare("golden".into(), &cases, &expected, &found);
    println!("{outcome}");
    // bf16 activations may part from the fp32 vectors at a near-tie, as other engines do on these prompts.
    assert!(outcome.differing <= 2, "{outcome}");
    assert_eq!(lanes.pages_in_use(), 0);
}

#[test]
fn the_gates_pass() {
    let Some(device) = adapter::device(&GpuOptions::default()) else { return };
    let mut lanes = support::lanes(support::target(device, 4, 1024, true), true);
    // Sampled alone: the golden replies are greedy and drafted, and software takes minutes for each round of gates.
    let outcomes = gates::run(&mut lanes, &cases(1), &settings(4), 0.8);
    outcomes.iter().for_each(|outcome| println!("{outcome}"));
    assert!(outcomes.iter().all(gates::GateOutcome::passed));
    assert_eq!(lanes.pages_in_use(), 0);
}

/// The gates notice a device whose rows depend on their neighbours.
#[test]
fn a_planted_fault_fails_its_gate() {
    let Some(device) = adapter::device(&GpuOptions::default()) else { return };
    let planted = Planted::new(support::target(device, 4, 1024, true), PlantedFault::Neighbours);
    let mut lanes = support::lanes(planted, true);
    let outcomes = gates::run(&mut lanes, &cases(1), &settings(4), 0.8);
    let failed: Vec<_> = outcomes.iter().filter(|outcome| !outcome.passed()).collect();
    assert!(failed.iter().any(|outcome| outcome.name.contains("among 4 lanes")), "{failed:?}");
}
