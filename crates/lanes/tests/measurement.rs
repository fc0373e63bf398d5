//! What the scheduler measures: confidences for calibration, experts, gaps, and acceptance when drafts are forced.

use forerunner_lanes::fake::{
    Confidence, DrafterScript, Experts, FakeScript, FakeTarget, Rightness, ScriptedClock, ScriptedCosts,
};
use forerunner_lanes::{Calibration, CostTable, Lanes, Limits, NewSequence, Options, Planted, SamplingRule};

const BLOCK: usize = 5;

fn scheduler(lanes: usize, script: FakeScript, options: Options) -> Lanes<FakeTarget, ScriptedClock> {
    let limits = Limits {
        lanes,
        context: 8192,
        rows: 64,
        block: BLOCK,
        has_confidence: true,
        page: 256,
        queues_ahead: false,
    };
    let target = FakeTarget::new(limits, script);
    let clock = target.clock();
    Lanes::with_clock(target, options, clock)
}

fn submit(lanes: &mut Lanes<FakeTarget, ScriptedClock>, seed: u64, temperature: f32, max_tokens: usize) {
    let rule = SamplingRule { temperature, seed, ..SamplingRule::default() };
    let new = NewSequence {
        prompt: vec![seed as u32],
        max_tokens,
        rule,
        stop_tokens: vec![],
        draft: true,
        ..NewSequence::default()
    };
    lanes.submit(new).unwrap();
}

fn drain(lanes: &mut Lanes<FakeTarget, ScriptedClock>) {
    while !lanes.is_idle() {
        lanes.step();
    }
}

#[test]
fn forced_drafts_are_as_deep_as_can_be_and_all_verified_whatever_they_cost() {
    let costs = ScriptedCosts { round_ms: 1.0, row_ms: 9.0, hold_ms: 99.0, ..ScriptedCosts::NONE };
    let drafter = DrafterScript { rightness: Rightness::Share(0.1), ..DrafterScript::default() };
    let script = FakeScript { costs, drafter, ..FakeScript::default() };
    let options = Options { force_drafts: true, ..Options::default() };
    let mut lanes = scheduler(2, script, options);
    for seed in 0..2 {
        submit(&mut lanes, seed, 1.0, 400);
    }
    drain(&mut lanes);
    let totals = lanes.totals();
    assert!(totals.drafted_rounds + 6 >= totals.rounds, "{totals:?}");
    let deepest = totals.by_position[BLOCK - 1].0;
    assert!(deepest * 20 > totals.by_position[0].0 * 19, "{:?}", totals.by_position);
    assert_eq!((totals.guarded_rounds, totals.copies), (0, 0));
}

#[test]
fn recorded_confidences_calibrate_a_drafter_that_exaggerates() {
    let drafter = DrafterScript {
        rightness: Rightness::Share(0.7),
        confidence: Confidence::Scaled(2.0),
        ..DrafterScript::default()
    };
    let script = FakeScript { drafter, ..FakeScript::default() };
    let mut lanes = scheduler(2, script, Options { force_drafts: true, ..Options::default() });
    lanes.record_confidences(3000);
    for seed in 0..4 {
        submit(&mut lanes, seed, (seed % 2) as f32, 6000);
    }
    drain(&mut lanes);
    let samples = lanes.take_confidences();
    assert_eq!(samples.len(), 3000);
    assert!(lanes.take_confidences().is_empty());
    let Calibration { greedy, sampled } = Calibration::fit(&samples);
    assert_eq!((greedy.len(), sampled.len()), (BLOCK, BLOCK));
    for temperature in greedy[..2].iter().chain(&sampled[..2]) {
        assert!((1.6..2.5).contains(temperature), "{greedy:?} {sampled:?}");
    }
}

#[test]
fn rounds_of_one_text_share_experts_and_rows_are_priced_by_that() {
    let costs = ScriptedCosts { round_ms: 0.5, expert_ms: 0.1, hold_ms: 0.2, ..ScriptedCosts::NONE };
    let drafter = DrafterScript { rightness: Rightness::Share(0.9), ..DrafterScript::default() };
    let script =
        FakeScript { costs, drafter, experts: Experts { picked: 4, of: 64 }, ..FakeScript::default() };
    let share = |planted| {
        let options = Options { planted, ..Options::default() };
        let mut lanes = scheduler(1, script.clone(), options);
        let table: &CostTable = lanes.measure_costs(1000).unwrap();
        assert!(table.experts(1) == 4.0 && table.experts(6) > 15.0, "{:?}", table.expert_samples());
        submit(&mut lanes, 1, 1.0, 1000);
        drain(&mut lanes);
        assert!(lanes.totals().accepted > 500, "{:?}", lanes.totals());
        lanes.experts_share(0, 6)
    };
    let found = share(None).expect("rounds of 6 rows were seen or are between those that were");
    assert!(found < 0.7, "{found}");
    assert_eq!(share(Some(Planted::ExpertsForgotten)), None);
}

#[test]
fn the_gap_between_rounds_is_the_time_that_the_caller_takes() {
    let target_limits = Limits {
        lanes: 1,
        context: 64,
        rows: 8,
        block: 0,
        has_confidence: false,
        page: 16,
        queues_ahead: false,
    };
    let script =
        FakeScript { costs: ScriptedCosts { round_ms: 5.0, ..ScriptedCosts::NONE }, ..FakeScript::default() };
    let target = FakeTarget::new(target_limits, script);
    let clock = target.clock();
    let mut lanes = Lanes::with_clock(target, Options::default(), clock.clone());
    for _ in 0..2 {
        submit(&mut lanes, 1, 0.0, 11);
        while !lanes.is_idle() {
            lanes.step();
            clock.charge(2.0);
        }
        clock.charge(1000.0);
    }
    let totals = lanes.totals();
    assert_eq!((totals.round_gaps, totals.round_gap.as_millis()), (20, 40));
    assert_eq!((totals.rounds, totals.plain_rounds, totals.drafted_rounds), (22, 22, 0));
}

#[test]
fn a_lane_that_is_refused_joins_the_passes_of_others_where_that_is_next_to_free() {
    // The drafts of lane 0 are right and those of lane 1 are wrong.
    let drafter = DrafterScript {
        rightness: Rightness::Pattern(0b0000_1111),
        confidence: Confidence::Honest,
        ..DrafterScript::default()
    };
    let holds_of_the_refused = |hold_lane_ms| {
        let costs =
            ScriptedCosts { round_ms: 1.0, row_ms: 0.02, hold_ms: 0.1, hold_lane_ms, ..ScriptedCosts::NONE };
        let limits = Limits {
            lanes: 2,
            context: 8192,
            rows: 64,
            block: BLOCK,
            has_confidence: true,
            page: 256,
            queues_ahead: false,
        };
        let options = Options { costs: costs.table(&limits), ..Options::default() };
        let mut lanes = scheduler(2, FakeScript { costs, drafter, ..FakeScript::default() }, options);
        // Lane 0 has the longer reply, so that it drafts as long as lane 1 runs.
        submit(&mut lanes, 1, 1.0, 4000);
        submit(&mut lanes, 2, 1.0, 400);
        let mut holds = None;
        while !lanes.is_idle() {
            let ended = lanes.step().iter().find_map(|delivery| delivery.finished.as_ref());
            holds = holds.or(ended.map(|ended| ended.statistics.holds));
        }
        holds.expect("both replies end")
    };
    let (free, dear) = (holds_of_the_refused(0.0), holds_of_the_refused(0.2));
    assert!(free > 200 && dear < 100, "{free} holds where they are free, {dear} where they are not");
}
