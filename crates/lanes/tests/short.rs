//! Short replies to long prompts in scripted time: a drafter has to take up a prompt before it can draft, which a reply of
//! a dozen tokens may not earn back.

use forerunner_lanes::fake::{Confidence, DrafterScript, FakeScript, FakeTarget, Rightness, ScriptedCosts};
use forerunner_lanes::{Clock, Lanes, Limits, NewSequence, Options, Planted, SamplingRule};

/// As measured on two cores with a small model: many rows cost what they cost one by one, and a hold two rounds.
const DEAR: ScriptedCosts = ScriptedCosts {
    round_ms: 0.3,
    row_ms: 0.2,
    hold_ms: 0.8,
    hold_depth_ms: 0.03,
    hold_lane_ms: 0.3,
    absorb_row_ms: 0.016,
    ..ScriptedCosts::NONE
};

/// Requests of one kind.
#[derive(Debug, Clone, Copy)]
struct Load {
    streams: usize,
    /// Tokens of a reply, and up to four more.
    reply: usize,
    /// How often a draft is right.
    share: f64,
    /// Tokens of a prompt, and of every fourth.
    prompts: [u32; 2],
    costs: ScriptedCosts,
    /// What the table says of taking up a row, as a share of what it costs.
    told: f64,
    planted: Option<Planted>,
}

impl Load {
    /// Milliseconds of 640 requests, `streams` at a time.
    fn run(&self, draft: bool) -> f64 {
        let Load { streams, reply, share, prompts, costs, told, planted } = *self;
        let limits = Limits {
            lanes: streams,
            context: 2048,
            rows: 512,
            block: 9,
            has_confidence: true,
            page: 256,
            queues_ahead: false,
        };
        let drafter =
            DrafterScript { rightness: Rightness::Share(share), confidence: Confidence::Honest, seed: 7 };
        let known = ScriptedCosts { absorb_row_ms: told * costs.absorb_row_ms, ..costs };
        let options = Options { costs: known.table(&limits), planted, ..Options::default() };
        let target = FakeTarget::new(limits, FakeScript { costs, drafter, ..FakeScript::default() });
        let clock = target.clock();
        let mut lanes = Lanes::with_clock(target, options, clock.clone());
        for group in 0..640 / streams {
            for lane in 0..streams {
                let seed = (group * streams + lane) as u64;
                let tokens = prompts[usize::from(lane % 4 == 3 || streams == 1 && group % 4 == 3)];
                let prompt = (0..tokens).map(|index| (index * 7 + seed as u32) % 1000).collect();
                let rule = SamplingRule { temperature: 1.0, seed, ..SamplingRule::default() };
                let max_tokens = reply + lane % 5;
                let new = NewSequence { prompt, max_tokens, rule, draft, ..NewSequence::default() };
                lanes.submit(new).unwrap();
            }
            while !lanes.is_idle() {
                lanes.step();
            }
        }
        clock.now().as_secs_f64() * 1e3
    }

    fn ratio(&self) -> f64 {
        self.run(true) / self.run(false)
    }
}

/// Those of all dear loads that drafting makes slower than it may.
fn slower(prompts: [u32; 2], told: f64, planted: Option<Planted>) -> Vec<(Load, f64)> {
    let mut slower = Vec::new();
    for streams in [1, 4, 8, 16] {
        for share in [0.3, 0.6, 0.8, 0.9, 0.95] {
            for reply in [6, 12, 40] {
                let load = Load { streams, reply, share, prompts, costs: DEAR, told, planted };
                slower.extend(Some((load, load.ratio())).filter(|(_, ratio)| *ratio > 1.03));
            }
        }
    }
    slower
}

#[test]
fn a_prompt_is_not_taken_up_for_a_reply_that_does_not_earn_it_back() {
    let slower = slower([200; 2], 1.0, None);
    assert!(slower.is_empty(), "slower than plain: {slower:?}");
}

#[test]
fn what_taking_up_costs_is_learnt_where_the_table_knows_little_of_it() {
    let slower = slower([200; 2], 0.1, None);
    assert!(slower.is_empty(), "slower than plain: {slower:?}");
}

#[test]
fn pages_that_are_taken_up_without_a_hold_are_owed() {
    // Pages that are full are taken up in any case, which is 2% of the time here: what else drafting costs must fit beside it.
    let slower = slower([170, 300], 0.1, None);
    assert!(slower.is_empty(), "slower than plain: {slower:?}");
}

#[test]
fn a_price_that_is_not_learnt_and_pages_that_nobody_owes_are_seen() {
    for planted in [Planted::LiveCostsForgotten, Planted::DebtsForgotten] {
        let slower = slower([170, 300], 0.1, Some(planted));
        assert!(!slower.is_empty(), "{planted:?} is not seen");
    }
}

#[test]
fn costs_that_no_guard_counts_are_seen() {
    let slower = slower([200; 2], 1.0, Some(Planted::DebtsForgotten));
    assert!(slower.len() > 10, "only {slower:?}");
}

#[test]
fn where_drafting_pays_a_little_few_streams_gain_and_many_lose_next_to_nothing() {
    let costs =
        ScriptedCosts { row_ms: 0.02, hold_ms: 0.2, hold_lane_ms: 0.01, absorb_row_ms: 0.0015, ..DEAR };
    for (streams, most) in [(1, 0.75), (4, 0.98), (8, 1.02), (16, 1.02)] {
        let ratio = |reply| {
            Load { streams, reply, share: 0.9, prompts: [200; 2], costs, told: 1.0, planted: None }.ratio()
        };
        let (short, long) = (ratio(12), ratio(40));
        assert!(short < 1.02 && long < most, "{streams} streams: {short}, {long}");
    }
}
