//! Guards in scripted time: never slower than plain, even where the cost table and the drafter are wrong.

use forerunner_lanes::fake::{
    Confidence, DrafterScript, FakeScript, FakeTarget, Random, Rightness, ScriptedClock, ScriptedCosts,
};
use forerunner_lanes::{
    Clock, DraftOff, GuardState, Lanes, Limits, NewSequence, Options, Planted, SamplingRule,
    SequenceStatistics, Side,
};

const REPLY: usize = 2000;

/// What rounds cost, what the table says that they cost, and how good the drafter is.
#[derive(Debug, Clone)]
struct Setting {
    lanes: usize,
    prompt: usize,
    costs: ScriptedCosts,
    told: ScriptedCosts,
    drafter: DrafterScript,
    has_confidence: bool,
    planted: Option<Planted>,
}

impl Setting {
    /// A table that is wrong by up to a factor of three either way, contexts that it knows nothing of, drafters
    /// that mislead, and a machine that is not steady.
    fn random(seed: u64) -> Setting {
        let random = &mut Random::new(seed);
        let part = |random: &mut Random| random.unit() * random.unit();
        let wrong = |random: &mut Random| 3f64.powf(2.0 * random.unit() - 1.0);
        let costs = ScriptedCosts {
            round_ms: 1.0,
            row_ms: 0.5 * part(random),
            hold_ms: part(random),
            hold_depth_ms: 0.05 * part(random),
            hold_lane_ms: 0.1 * part(random),
            row_context_ms: 0.02 * part(random),
            hold_context_ms: 0.04 * part(random),
            noise: 0.1 * part(random),
            ..ScriptedCosts::NONE
        };
        let told = ScriptedCosts {
            row_ms: costs.row_ms * wrong(random),
            hold_ms: costs.hold_ms * wrong(random),
            hold_depth_ms: costs.hold_depth_ms * wrong(random),
            hold_lane_ms: costs.hold_lane_ms * wrong(random),
            ..costs
        };
        let confidence = match random.below(4) {
            0 => Confidence::Arbitrary,
            1 => Confidence::Constant(3.0 * random.unit() as f32),
            2 => Confidence::Scaled(0.3 + 3.0 * random.unit() as f32),
            _ => Confidence::Honest,
        };
        let rightness = Rightness::Share(0.05 + 0.9 * random.unit());
        Setting {
            lanes: [1, 1, 2, 4, 8][random.below(5) as usize],
            prompt: [1, 300, 5000, 17_000][random.below(4) as usize],
            costs,
            told,
            drafter: DrafterScript { rightness, confidence, seed },
            has_confidence: random.chance(0.7),
            planted: None,
        }
    }

    fn lanes(&self) -> (Lanes<FakeTarget, ScriptedClock>, ScriptedClock) {
        let limits = Limits {
            lanes: self.lanes,
            context: 32_768,
            rows: 1024,
            block: 7,
            has_confidence: self.has_confidence,
            page: 256,
            queues_ahead: false,
        };
        let costs = self.told.table(&limits);
        let options = Options { prompt_chunk: 1000, costs, planted: self.planted, ..Options::default() };
        let script = FakeScript { costs: self.costs, drafter: self.drafter, ..FakeScript::default() };
        let target = FakeTarget::new(limits, script);
        let clock = target.clock();
        (Lanes::with_clock(target, options, clock.clone()), clock)
    }

    /// Runs one reply in each lane; how long they decoded, and what the last of them took.
    fn decode(
        &self,
        lanes: &mut Lanes<FakeTarget, ScriptedClock>,
        clock: &ScriptedClock,
        seed: u64,
        draft: bool,
    ) -> (f64, SequenceStatistics) {
        for lane in 0..self.lanes as u64 {
            let rule = SamplingRule { temperature: 1.0, seed: seed + lane, ..SamplingRule::default() };
            let prompt = vec![1; self.prompt];
            let new = NewSequence {
                prompt,
                max_tokens: REPLY,
                rule,
                stop_tokens: vec![],
                draft,
                ..NewSequence::default()
            };
            lanes.submit(new).unwrap();
        }
        let mut begun = None;
        let mut statistics = SequenceStatistics::default();
        while !lanes.is_idle() {
            let deliveries = lanes.step();
            if begun.is_none() && deliveries.len() == self.lanes {
                begun = Some(clock.now());
            }
            if let Some(finished) = deliveries.iter().filter_map(|delivery| delivery.finished.as_ref()).next()
            {
                statistics = finished.statistics.clone();
            }
        }
        ((clock.now() - begun.unwrap_or_default()).as_secs_f64() * 1e3, statistics)
    }

    /// Decode time with drafting in proportion to that without, and what the guards found.
    fn ratio(&self) -> (f64, Vec<GuardState>) {
        let (mut lanes, clock) = self.lanes();
        let (drafted_ms, _) = self.decode(&mut lanes, &clock, 0, true);
        let guards = lanes.guards().collect();
        let (mut lanes, clock) = self.lanes();
        (drafted_ms / self.decode(&mut lanes, &clock, 0, false).0, guards)
    }
}

/// The side that the guard of most rounds rests on. To rest on drafting that costs what plain rounds do, because
/// nothing is drafted, is to be plain.
fn side(guards: &[GuardState]) -> Side {
    let rounds = |guard: &&GuardState| guard.plain.rounds + guard.drafted.rounds;
    let guard = guards.iter().max_by_key(rounds).expect("rounds were guarded");
    let differs = guard.drafted.token_ms() > 1.02 * guard.plain.token_ms()
        || guard.drafted.tokens > 1.1 * guard.plain.tokens;
    if differs { guard.rests_on } else { Side::Plain }
}

#[derive(Debug, Default)]
struct Tally {
    slower: Vec<(u64, f64)>,
    wrong_side: Vec<(u64, f64)>,
    faster: usize,
    decided: [usize; 2],
}

fn tally(planted: Option<Planted>) -> Tally {
    let mut tally = Tally::default();
    for seed in 0..100 {
        let setting = Setting { planted, ..Setting::random(seed) };
        let (ratio, guards) = setting.ratio();
        if ratio > 1.03 {
            tally.slower.push((seed, ratio));
        }
        tally.faster += usize::from(ratio < 0.9);
        let unguarded = Setting { planted: Some(Planted::GuardAsleep), ..setting }.ratio().0;
        let better = if unguarded < 1.0 { Side::Drafted } else { Side::Plain };
        if (unguarded - 1.0).abs() > 0.05 {
            tally.decided[usize::from(better == Side::Drafted)] += 1;
            if side(&guards) != better {
                tally.wrong_side.push((seed, unguarded));
            }
        }
    }
    tally
}

#[test]
fn drafting_loses_at_most_3_percent_and_ends_on_the_better_side_in_95_of_100_worlds() {
    let tally = tally(None);
    assert!(tally.slower.len() <= 5, "slower than plain by seed: {:?}", tally.slower);
    assert!(tally.wrong_side.len() <= 5, "on the worse side by seed: {:?}", tally.wrong_side);
    assert!(tally.faster >= 25, "only {} worlds gain", tally.faster);
    assert!(tally.decided.iter().all(|&count| count >= 10), "plain and drafted: {:?}", tally.decided);
}

#[test]
fn without_guards_the_same_worlds_lose() {
    let tally = tally(Some(Planted::GuardAsleep));
    assert!(tally.slower.len() > 5, "guards that sleep pass: {:?}", tally.slower);
}

/// A drafter that is seldom right and dear, of which the table says that it is cheap.
fn losing(planted: Option<Planted>) -> Setting {
    let costs = ScriptedCosts { round_ms: 1.0, row_ms: 0.1, hold_ms: 0.8, ..ScriptedCosts::NONE };
    let told = ScriptedCosts { hold_ms: 0.05, row_ms: 0.02, ..costs };
    let drafter =
        DrafterScript { rightness: Rightness::Share(0.1), confidence: Confidence::Constant(2.0), seed: 1 };
    Setting { lanes: 1, prompt: 1, costs, told, drafter, has_confidence: true, planted }
}

#[test]
fn probes_cost_at_most_their_budget() {
    let later_ratio = |planted| {
        let setting = losing(planted);
        let (mut lanes, clock) = setting.lanes();
        setting.decode(&mut lanes, &clock, 0, true);
        let drafted_ms = setting.decode(&mut lanes, &clock, 50, true).0;
        drafted_ms / setting.decode(&mut lanes, &clock, 50, false).0
    };
    let ratio = later_ratio(None);
    assert!((1.001..1.021).contains(&ratio), "{ratio}");
    assert!(later_ratio(Some(Planted::ProbesForFree)) > 1.03, "probes that are free pass");
}

#[test]
fn a_reply_after_one_for_which_drafting_lost_begins_plain_and_says_why() {
    let second = |planted| {
        let setting = losing(planted);
        let (mut lanes, clock) = setting.lanes();
        setting.decode(&mut lanes, &clock, 0, true);
        let id = lanes
            .submit(NewSequence {
                prompt: vec![1],
                max_tokens: 30,
                rule: SamplingRule::default(),
                stop_tokens: vec![],
                draft: true,
                ..NewSequence::default()
            })
            .unwrap();
        let mut statistics = SequenceStatistics::default();
        while !lanes.is_idle() {
            statistics = lanes.statistics(id).cloned().unwrap_or(statistics);
            lanes.step();
        }
        statistics
    };
    let statistics = second(None);
    assert_eq!((statistics.holds, statistics.draft_off), (0, Some(DraftOff::MeasuredSlower)));
    assert!(statistics.guarded_rounds >= 29, "{statistics:?}");
    assert!(second(Some(Planted::GuardForgets)).holds > 0, "guards that forget pass");
}

#[test]
fn a_longer_context_begins_where_the_next_shorter_one_ended() {
    let setting = Setting { prompt: 5000, ..losing(None) };
    let (mut lanes, clock) = setting.lanes();
    setting.decode(&mut lanes, &clock, 0, true);
    let longer = Setting { prompt: 17_000, ..setting.clone() };
    let statistics = longer.decode(&mut lanes, &clock, 9, true).1;
    assert_eq!(statistics.draft_off, Some(DraftOff::MeasuredSlower));
    assert!(statistics.drafted_rounds < 60, "{statistics:?}");
    let bands: Vec<usize> = lanes.guards().map(|guard| guard.context_least).collect();
    assert_eq!(bands, [4096, 16_384]);
}

#[test]
fn rounds_correct_what_the_table_does_not_know() {
    // Rows are dear at this context: a window of two pays, the table's window of eight does not.
    let costs = ScriptedCosts { round_ms: 2.0, hold_ms: 0.1, row_context_ms: 0.05, ..ScriptedCosts::NONE };
    let told = ScriptedCosts { row_context_ms: 0.0, ..costs };
    let drafter = DrafterScript { rightness: Rightness::Share(0.6), confidence: Confidence::Honest, seed: 1 };
    let setting =
        Setting { lanes: 1, prompt: 17_000, costs, told, drafter, has_confidence: true, planted: None };
    let corrected = setting.ratio().0;
    let forgotten = Setting { planted: Some(Planted::LiveCostsForgotten), ..setting }.ratio().0;
    assert!(corrected < 0.9, "{corrected}");
    assert!(corrected < forgotten - 0.03, "{corrected} with corrections, {forgotten} without");
}

#[test]
fn a_lane_with_one_bad_block_drafts_again_within_17_rounds() {
    for has_confidence in [true, false] {
        let costs = ScriptedCosts { round_ms: 1.0, row_ms: 0.05, hold_ms: 0.1, ..ScriptedCosts::NONE };
        let rightness = Rightness::Except { from: 300, to: 309 };
        let drafter = DrafterScript { rightness, confidence: Confidence::Honest, seed: 1 };
        let setting =
            Setting { lanes: 1, prompt: 1, costs, told: costs, drafter, has_confidence, planted: None };
        let (mut lanes, _) = setting.lanes();
        let rule = SamplingRule::default();
        let new = NewSequence {
            prompt: vec![1],
            max_tokens: 900,
            rule,
            stop_tokens: vec![],
            draft: true,
            ..NewSequence::default()
        };
        let id = lanes.submit(new).unwrap();
        let (mut drafted, mut waited, mut longest) = (0, 0, 0);
        while let Some(statistics) = lanes.statistics(id) {
            waited = if statistics.drafted_rounds > drafted { 0 } else { waited + 1 };
            drafted = statistics.drafted_rounds;
            if statistics.reply_tokens < 890 {
                longest = longest.max(waited);
            }
            lanes.step();
        }
        assert!(longest <= 17, "confidence {has_confidence}: {longest} rounds without drafts");
        assert!(drafted > 80, "confidence {has_confidence}: {drafted} rounds drafted");
    }
}

#[test]
fn a_table_that_makes_rows_too_dear_is_found_out() {
    let costs = ScriptedCosts { round_ms: 1.0, row_ms: 0.3, hold_ms: 0.2, ..ScriptedCosts::NONE };
    let told = ScriptedCosts { row_ms: 1.1, ..costs };
    let drafter =
        DrafterScript { rightness: Rightness::Share(0.85), confidence: Confidence::Honest, seed: 1 };
    let setting = Setting { lanes: 1, prompt: 1, costs, told, drafter, has_confidence: true, planted: None };
    let later_ratio = |planted| {
        let setting = Setting { planted, ..setting.clone() };
        let (mut lanes, clock) = setting.lanes();
        setting.decode(&mut lanes, &clock, 0, true);
        let drafted_ms = setting.decode(&mut lanes, &clock, 50, true).0;
        drafted_ms / setting.decode(&mut lanes, &clock, 50, false).0
    };
    let found = later_ratio(None);
    assert!(found < 0.9, "{found}");
}

/// The guards that rounds of several lane counts share, after lanes have come and gone all the time.
fn guards_after_churn(rightness: f64, planted: Option<Planted>) -> Vec<GuardState> {
    let costs = ScriptedCosts { round_ms: 4.0, row_ms: 0.1, hold_ms: 1.2, ..ScriptedCosts::NONE };
    let drafter =
        DrafterScript { rightness: Rightness::Share(rightness), confidence: Confidence::Honest, seed: 1 };
    let setting = Setting { lanes: 8, prompt: 1, costs, told: costs, drafter, has_confidence: true, planted };
    let (mut lanes, _) = setting.lanes();
    let random = &mut Random::new(3);
    let mut submitted = 0;
    while submitted < 300 || !lanes.is_idle() {
        if submitted < 300 && lanes.running() + lanes.waiting() < 8 && random.chance(0.04) {
            let rule = SamplingRule { temperature: 1.0, seed: submitted, ..SamplingRule::default() };
            let max_tokens = 50 + random.below(250) as usize;
            let new = NewSequence {
                prompt: vec![1],
                max_tokens,
                rule,
                stop_tokens: vec![],
                draft: true,
                ..NewSequence::default()
            };
            lanes.submit(new).unwrap();
            submitted += 1;
        }
        lanes.step();
    }
    lanes.guards().filter(|guard| guard.lanes.0 < guard.lanes.1 && guard.drafted.rounds > 100).collect()
}

#[test]
fn guards_of_several_lane_counts_are_not_misled_by_lanes_that_come_and_go() {
    let loss = |guard: &GuardState| guard.drafted.token_ms() / guard.plain.token_ms() - 1.0;
    let losing = guards_after_churn(0.15, None);
    assert!(losing.len() >= 2 && losing.iter().all(|guard| loss(guard) > 0.01), "{losing:?}");
    assert!(losing.iter().all(|guard| guard.rests_on == Side::Plain), "{losing:?}");
    let winning = guards_after_churn(0.75, None);
    assert!(
        !winning.is_empty() && winning.iter().all(|guard| guard.rests_on == Side::Drafted),
        "{winning:?}"
    );
    let near_level = |planted| {
        let mut guards = guards_after_churn(0.35, planted).into_iter();
        loss(&guards.find(|guard| guard.lanes == (7, 8)).expect("rounds of 7 and 8 lanes"))
    };
    let (told, mixed) = (near_level(None), near_level(Some(Planted::LaneCountsMixed)));
    assert!(told > 0.0 && mixed < -0.03, "mixed lane counts pass: {told} and {mixed}");
}
