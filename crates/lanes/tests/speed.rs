//! Drafting against plain decoding in scripted time: faster where it can be, and not slower where it cannot.

use forerunner_lanes::fake::{
    Confidence, DrafterScript, FakeScript, FakeTarget, Random, Rightness, ScriptedCosts,
};
use forerunner_lanes::{
    Clock, DraftOff, Lanes, Limits, NewSequence, Options, SamplingRule, SequenceStatistics,
};

const REPLY: usize = 2000;

#[derive(Debug, Clone, Copy)]
struct Setting {
    lanes: usize,
    costs: ScriptedCosts,
    rightness: Rightness,
    has_confidence: bool,
    seed: u64,
}

impl Setting {
    fn random(seed: u64) -> Setting {
        let random = &mut Random::new(seed);
        let part = |random: &mut Random| random.unit() * random.unit();
        Setting {
            lanes: [1, 2, 4, 8][random.below(4) as usize],
            costs: ScriptedCosts {
                round_ms: 1.0,
                row_ms: 0.5 * part(random),
                hold_ms: part(random),
                hold_depth_ms: 0.05 * part(random),
                hold_lane_ms: 0.1 * part(random),
                ..ScriptedCosts::NONE
            },
            rightness: Rightness::Share(0.1 + 0.85 * random.unit()),
            has_confidence: random.chance(0.5),
            seed,
        }
    }

    /// Milliseconds until all lanes have their replies, and what the last of them took.
    fn run(&self, draft: bool) -> (f64, SequenceStatistics) {
        let limits = Limits {
            lanes: self.lanes,
            context: 2 * REPLY,
            rows: 8 * self.lanes,
            block: 7,
            has_confidence: self.has_confidence,
            page: 256,
            queues_ahead: false,
        };
        let drafter =
            DrafterScript { rightness: self.rightness, confidence: Confidence::Honest, seed: self.seed };
        let options = Options { costs: self.costs.table(&limits), ..Options::default() };
        let target =
            FakeTarget::new(limits, FakeScript { costs: self.costs, drafter, ..FakeScript::default() });
        let clock = target.clock();
        let mut lanes = Lanes::with_clock(target, options, clock.clone());
        for lane in 0..self.lanes {
            let rule = SamplingRule { temperature: 1.0, seed: lane as u64, ..SamplingRule::default() };
            let new = NewSequence {
                prompt: vec![1],
                max_tokens: REPLY,
                rule,
                stop_tokens: vec![],
                draft,
                ..NewSequence::default()
            };
            lanes.submit(new).unwrap();
        }
        let mut statistics = SequenceStatistics::default();
        while !lanes.is_idle() {
            let finished = lanes.step().iter().filter_map(|delivery| delivery.finished.as_ref()).next_back();
            if let Some(finished) = finished {
                statistics = finished.statistics.clone();
            }
        }
        (clock.now().as_secs_f64() * 1e3, statistics)
    }

    fn ratio(&self) -> f64 {
        self.run(true).0 / self.run(false).0
    }
}

const CHEAP: ScriptedCosts = ScriptedCosts {
    round_ms: 1.0,
    row_ms: 0.05,
    hold_ms: 0.15,
    hold_depth_ms: 0.01,
    hold_lane_ms: 0.02,
    ..ScriptedCosts::NONE
};

fn setting(lanes: usize, share: f64, has_confidence: bool, costs: ScriptedCosts) -> Setting {
    Setting { lanes, costs, rightness: Rightness::Share(share), has_confidence, seed: 3 }
}

#[test]
fn drafting_loses_at_most_3_percent_in_95_of_100_worlds() {
    let ratios: Vec<(u64, f64)> = (0..100).map(|seed| (seed, Setting::random(seed).ratio())).collect();
    let worse: Vec<_> = ratios.iter().filter(|(_, ratio)| *ratio > 1.03).collect();
    assert!(worse.len() <= 5, "slower than plain by seed: {worse:?}");
    let faster = ratios.iter().filter(|(_, ratio)| *ratio < 0.9).count();
    assert!(faster >= 30, "only {faster} worlds gain from drafting");
}

#[test]
fn good_drafts_at_a_low_price_are_a_gain_at_any_number_of_lanes() {
    for has_confidence in [true, false] {
        for lanes in [1, 4, 8] {
            let ratio = setting(lanes, 0.9, has_confidence, CHEAP).ratio();
            assert!(ratio < 0.8, "{lanes} lanes, confidence {has_confidence}: {ratio}");
        }
    }
}

#[test]
fn a_hold_that_no_acceptance_could_pay_for_is_never_made() {
    let costs = ScriptedCosts { hold_ms: 9.0, ..CHEAP };
    let setting = setting(1, 0.9, true, costs);
    let (ms, statistics) = setting.run(true);
    assert_eq!((statistics.holds, statistics.drafts), (0, 0));
    assert_eq!(statistics.draft_off, Some(DraftOff::WouldNotPay));
    assert_eq!(ms, setting.run(false).0);
}

#[test]
fn a_poor_drafter_costs_little() {
    for has_confidence in [true, false] {
        let costs = ScriptedCosts { hold_ms: 0.5, row_ms: 0.2, ..CHEAP };
        let ratio = setting(1, 0.05, has_confidence, costs).ratio();
        assert!(ratio < 1.03, "confidence {has_confidence}: {ratio}");
    }
}

#[test]
fn a_lane_that_drafted_well_has_no_reason_to_be_off() {
    let (_, statistics) = setting(1, 0.9, true, CHEAP).run(true);
    assert_eq!(statistics.draft_off, None);
    assert!(statistics.tokens_per_round() > 2.0, "{statistics:?}");
    let verified: u64 = statistics.by_position.iter().map(|position| position.0).sum();
    let accepted: u64 = statistics.by_position.iter().map(|position| position.1).sum();
    assert_eq!((verified, accepted), (statistics.drafts, statistics.accepted));
}
